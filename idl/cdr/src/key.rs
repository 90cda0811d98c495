//! Keys: the members that identify the instance of a sample.
//!
//! Owns the forms of a key, [`KeyForm`]. In each form, a nested type that has a key of its own
//! contributes only the members of that key.

use md5::{Digest, Md5};

use crate::{
    CdrError, CdrReader, CdrWriter, DdsType, Encoding, StructureDescriptor, TypeDescriptor,
    TypeKind, UNBOUNDED, descriptor_of,
};

/// Ways to write a key without the other members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyForm {
    /// For hashing and comparison: members in the order of their ids, and no struct or union is
    /// framed, whatever its extensibility.
    Hash,
    /// For the payload of a key-only sample: the value of a type that has only the key members, in
    /// the order of declaration, with the same extensibility as the type.
    Payload,
}

/// Size of a key hash in bytes.
const HASH: usize = 16;

/// A key of numbers only that is its own hash. Its bytes are those of [`KeyForm::Hash`], written
/// without a [`CdrWriter`], because a reader needs the key of every sample it follows.
#[derive(Debug, Default)]
pub struct ShortKey {
    bytes: [u8; HASH],
    end: usize,
}

impl ShortKey {
    /// Appends a number given in big-endian order; `None` if there is no room for it.
    #[inline(always)]
    pub fn put<const SIZE: usize>(&mut self, number: [u8; SIZE]) -> Option<()> {
        // XCDR2 aligns to at most four bytes.
        let at = self.end.next_multiple_of(SIZE.clamp(1, 4));
        self.bytes.get_mut(at..at + SIZE)?.copy_from_slice(&number);
        self.end = at + SIZE;
        Some(())
    }
}

/// Returns the key of a value as XCDR2, big endian, without header; empty if the type has no key.
pub fn key_to_cdr<T: DdsType>(value: &T) -> Result<Vec<u8>, CdrError> {
    let mut counter = CdrWriter::counting(Encoding::PLAIN_CDR2_BE).of_keys(KeyForm::Hash);
    let mut key = vec![0; write_key(value, &mut counter)?];
    serialize_key_into(value, &mut key)?;
    Ok(key)
}

/// Writes the bytes of [`key_to_cdr`] at the start of `buffer`, and returns their size.
/// Allocates nothing.
pub fn serialize_key_into<T: DdsType>(value: &T, buffer: &mut [u8]) -> Result<usize, CdrError> {
    write_key(value, &mut CdrWriter::over(buffer, Encoding::PLAIN_CDR2_BE).of_keys(KeyForm::Hash))
}

/// Returns a payload that has only the key of a value, in the given encoding, framed like the
/// type. Such a payload is sent when an instance ends. For a type without key, the payload is only
/// the header.
pub fn key_to_cdr_with<T: DdsType>(value: &T, encoding: Encoding) -> Result<Vec<u8>, CdrError> {
    let mut size = 0;
    let mut payload = Vec::new();
    for writing in [false, true] {
        payload.resize(size, 0);
        let mut writer = match writing {
            false => CdrWriter::counting(encoding),
            true => CdrWriter::over(&mut payload, encoding),
        }
        .of_keys(KeyForm::Payload);
        writer.write_header(T::EXTENSIBILITY)?;
        write_key(value, &mut writer)?;
        size = writer.finish()?;
    }
    Ok(payload)
}

/// Reads a value from the key written by [`key_to_cdr_with`]. Members outside the key have
/// their defaults.
pub fn key_from_cdr<T: DdsType>(payload: &[u8]) -> Result<T, CdrError> {
    let mut reader = CdrReader::from_payload(payload)?.of_keys();
    reader.expect(T::EXTENSIBILITY)?;
    let value = if T::KEYED { T::deserialize(&mut reader)? } else { T::default_value() };
    reader.finish()?;
    Ok(value)
}

/// Returns the key of a value in 16 bytes: the key itself if the key of every value of the type
/// fits, otherwise its MD5. All bytes are zero if the type has no key. Allocates only for a key
/// that does not fit.
#[inline]
pub fn key_hash<T: DdsType>(value: &T) -> Result<[u8; HASH], CdrError> {
    if let Some(key) = value.short_key() {
        return Ok(key.bytes);
    }
    let mut hash = [0; HASH];
    match serialize_key_into(value, &mut hash) {
        Ok(_) if T::keys_fit_hash() => Ok(hash),
        Ok(size) => Ok(Md5::digest(&hash[..size]).into()),
        Err(CdrError::NoRoom { .. }) => Ok(Md5::digest(key_to_cdr(value)?).into()),
        Err(error) => Err(error),
    }
}

fn write_key<T: DdsType>(value: &T, writer: &mut CdrWriter<'_>) -> Result<usize, CdrError> {
    if T::KEYED {
        value.serialize(writer)?;
    }
    Ok(writer.position())
}

/// Whether the keys of all values of the type fit into a key hash, so that they need no MD5.
pub fn keys_fit_hash<T: DdsType>() -> bool {
    let mut open = Vec::new();
    !T::KEYED || end_of(descriptor_of::<T>(), &[], 0, &mut open).is_some_and(|end| end <= HASH)
}

/// Returns the end of the longest value that begins at this offset, in the form of keys. `None` if
/// there is no longest value, or if it exceeds the hash. A later beginning never gives an earlier
/// end, so the longest parts make the longest whole.
fn end_of(
    of: &TypeDescriptor,
    bounds: &[u32],
    offset: usize,
    open: &mut Vec<&'static str>,
) -> Option<usize> {
    if offset > HASH {
        return None;
    }
    let align = |offset: usize, size: usize| offset.next_multiple_of(size.clamp(1, 4));
    let (bound, inner) = match bounds.split_first() {
        Some((&bound, inner)) if bound != UNBOUNDED => (Some(bound as usize), inner),
        Some((_, inner)) => (None, inner),
        None => (None, bounds),
    };
    match of.kind {
        TypeKind::Primitive(size) => Some(align(offset, size) + size),
        TypeKind::String => Some(align(offset, 4) + 4 + bound? + 1),
        TypeKind::WideString => Some(align(offset, 4) + 4 + 2 * bound?),
        TypeKind::Fixed { digits, .. } => Some(offset + digits as usize / 2 + 1),
        TypeKind::Sequence(element) => {
            let length = align(offset, 4) + delimiter(element()) + 4;
            repeat(bound?, length, |offset| end_of(element(), inner, offset, open))
        }
        TypeKind::Array(element, count) => {
            let is_row = matches!(innermost(element()).kind, TypeKind::Fixed { .. });
            let start = match delimiter(innermost(element())) {
                _ if is_row => offset,
                0 => offset,
                size => align(offset, 4) + size,
            };
            // An array of arrays has the elements of one array.
            let count = count.saturating_mul(rows(element()));
            repeat(count, start, |offset| end_of(innermost(element()), bounds, offset, open))
        }
        TypeKind::Map(..) => None,
        TypeKind::Optional(inner) => end_of(inner(), bounds, offset + 1, open),
        TypeKind::External(inner) => end_of(inner(), bounds, offset, open),
        TypeKind::Enumeration { bit_bound, .. } | TypeKind::Bitmask { bit_bound, .. } => {
            let size = crate::enumeration::bytes_for(bit_bound);
            Some(align(offset, size) + size)
        }
        TypeKind::Bitset(fields) => {
            let bits = fields.iter().map(|field| field.bits).sum();
            let size = crate::enumeration::bytes_for(bits);
            Some(align(offset, size) + size)
        }
        TypeKind::Structure(structure) => nested(of.name, open, |open| {
            end_of_members(&structure, has_key(&structure), offset, open)
        }),
        TypeKind::Union(union) => nested(of.name, open, |open| {
            let discriminator = (union.discriminator.type_of)();
            let start = end_of(discriminator, &[], offset, open)?;
            if union.discriminator.key {
                return Some(start);
            }
            union.cases.iter().filter_map(|case| case.member).try_fold(start, |most, member| {
                end_of((member.type_of)(), member.bounds, start, open).map(|end| end.max(most))
            })
        }),
    }
}

/// A recursive type has no longest value.
fn nested(
    name: &'static str,
    open: &mut Vec<&'static str>,
    end: impl FnOnce(&mut Vec<&'static str>) -> Option<usize>,
) -> Option<usize> {
    if open.contains(&name) {
        return None;
    }
    open.push(name);
    let end = end(open);
    open.pop();
    end
}

fn end_of_members(
    structure: &StructureDescriptor,
    keyed: bool,
    offset: usize,
    open: &mut Vec<&'static str>,
) -> Option<usize> {
    let mut members = Vec::new();
    gather(structure, &mut members);
    members.retain(|member| member.key || !keyed);
    members.sort_by_key(|member| member.id);
    members
        .iter()
        .try_fold(offset, |offset, member| end_of((member.type_of)(), member.bounds, offset, open))
}

/// Collects all members, those of the base first.
fn gather(structure: &StructureDescriptor, members: &mut Vec<&'static crate::MemberDescriptor>) {
    if let Some(base) = base_of(structure) {
        gather(base, members);
    }
    members.extend(structure.members);
}

fn has_key(structure: &StructureDescriptor) -> bool {
    structure.members.iter().any(|member| member.key) || base_of(structure).is_some_and(has_key)
}

fn base_of(structure: &StructureDescriptor) -> Option<&'static StructureDescriptor> {
    match structure.base.map(|base| &base().kind) {
        Some(TypeKind::Structure(base)) => Some(base),
        _ => None,
    }
}

fn repeat(
    count: usize,
    start: usize,
    mut next: impl FnMut(usize) -> Option<usize>,
) -> Option<usize> {
    let mut offset = start;
    for _ in 0..count {
        let end = next(offset)?;
        if end == offset {
            break;
        }
        offset = end;
    }
    Some(offset)
}

/// Returns the size of the header that a collection of such elements has.
fn delimiter(element: &TypeDescriptor) -> usize {
    match element.kind {
        TypeKind::Primitive(_) => 0,
        TypeKind::External(inner) => delimiter(inner()),
        _ => 4,
    }
}

fn innermost(mut of: &'static TypeDescriptor) -> &'static TypeDescriptor {
    while let TypeKind::Array(element, _) = of.kind {
        of = element();
    }
    of
}

fn rows(mut of: &'static TypeDescriptor) -> usize {
    let mut rows = 1_usize;
    while let TypeKind::Array(element, count) = of.kind {
        rows = rows.saturating_mul(count);
        of = element();
    }
    rows
}
