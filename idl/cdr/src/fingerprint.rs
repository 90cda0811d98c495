//! Hashes of types: of their layouts, computed by the compiler, and of their full contents.
//!
//! Owns the hash function (FNV-1a, 64 bits) and the way names and numbers go into it. Processes
//! compare hashes with each other, so nothing here may depend on the machine.

use crate::{CaseDescriptor, DdsType, MemberDescriptor, TypeDescriptor, TypeKind, descriptor_of};

const OFFSET_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0000_0100_0000_01b3;

/// A hash under construction. Each step takes the hash and returns the next one, so that a whole
/// type can be hashed in a constant.
#[derive(Clone, Copy, Debug)]
pub struct Fingerprint(u64);

impl Fingerprint {
    /// Starts the hash of a `kind` of item (`"struct"`, `"sequence"`, ...).
    pub const fn new(kind: &str) -> Self {
        Self(OFFSET_BASIS).text(kind)
    }

    /// Adds a text. Its length goes in first, so that adjacent texts cannot be confused.
    #[must_use]
    pub const fn text(self, text: &str) -> Self {
        self.number(text.len() as u64).bytes(text.as_bytes())
    }

    /// Adds a number.
    #[must_use]
    pub const fn number(self, number: u64) -> Self {
        self.bytes(&number.to_le_bytes())
    }

    /// Adds a list of numbers, with its length.
    #[must_use]
    pub const fn numbers(self, numbers: &[u32]) -> Self {
        let mut next = self.number(numbers.len() as u64);
        let mut index = 0;
        while index < numbers.len() {
            next = next.number(numbers[index] as u64);
            index += 1;
        }
        next
    }

    /// Returns the finished hash.
    pub const fn finish(self) -> u64 {
        self.0
    }

    const fn bytes(self, bytes: &[u8]) -> Self {
        let mut hash = self.0;
        let mut index = 0;
        while index < bytes.len() {
            hash = (hash ^ bytes[index] as u64).wrapping_mul(PRIME);
            index += 1;
        }
        Self(hash)
    }
}

/// Returns a hash of a type's name and of its members' names, ids and types, with everything
/// relevant to CDR. Two types with the same fingerprint have the same CDR form.
pub fn fingerprint<T: DdsType>() -> u64 {
    let mut seen = Vec::new();
    add_type(Fingerprint::new("type"), descriptor_of::<T>(), &mut seen).finish()
}

/// Adds a type. A type with members is added in full once; after that its name and its index among
/// the types seen so far represent it, so that recursive types are possible.
fn add_type(hash: Fingerprint, of: &TypeDescriptor, seen: &mut Vec<&'static str>) -> Fingerprint {
    let hash = hash.text(of.name);
    if matches!(of.kind, TypeKind::Structure(_) | TypeKind::Union(_)) {
        if let Some(index) = seen.iter().position(|name| *name == of.name) {
            return hash.text("seen").number(index as u64);
        }
        seen.push(of.name);
    }
    match of.kind {
        TypeKind::Primitive(size) => hash.text("primitive").number(size as u64),
        TypeKind::String => hash.text("string"),
        TypeKind::WideString => hash.text("wide string"),
        TypeKind::Fixed { digits, scale } => hash.text("fixed").numbers(&[digits, scale]),
        TypeKind::Sequence(element) => add_type(hash.text("sequence"), element(), seen),
        TypeKind::Array(element, count) => {
            add_type(hash.text("array").number(count as u64), element(), seen)
        }
        TypeKind::Map(key, value) => {
            add_type(add_type(hash.text("map"), key(), seen), value(), seen)
        }
        TypeKind::Optional(inner) => add_type(hash.text("optional"), inner(), seen),
        TypeKind::External(inner) => add_type(hash.text("external"), inner(), seen),
        TypeKind::Enumeration { bit_bound, literals, .. } => {
            literals.iter().fold(hash.text("enum").numbers(&[bit_bound]), |hash, literal| {
                hash.text(literal.name).numbers(&[literal.value as u32, literal.default as u32])
            })
        }
        TypeKind::Bitmask { bit_bound, .. } => hash.text("bitmask").numbers(&[bit_bound]),
        TypeKind::Bitset(fields) => fields.iter().fold(hash.text("bitset"), |hash, field| {
            hash.text(field.name).numbers(&[field.position, field.bits])
        }),
        TypeKind::Structure(of) => {
            let mut hash = hash.text("struct").numbers(&[of.extensibility as u32]);
            if let Some(base) = of.base {
                hash = add_type(hash.text("base"), base(), seen);
            }
            of.members.iter().fold(hash, |hash, member| add_member(hash, member, seen))
        }
        TypeKind::Union(of) => {
            let hash = hash.text("union").numbers(&[of.extensibility as u32]);
            let hash = add_member(hash, &of.discriminator, seen);
            of.cases.iter().fold(hash, |hash, case| add_case(hash, case, seen))
        }
    }
}

fn add_case(hash: Fingerprint, case: &CaseDescriptor, seen: &mut Vec<&'static str>) -> Fingerprint {
    let labels = hash.number(case.labels.len() as u64);
    let hash = case.labels.iter().fold(labels, |hash, label| hash.number(*label as u64));
    let hash = hash.numbers(&[case.default as u32, case.member.is_some() as u32]);
    case.member.iter().fold(hash, |hash, member| add_member(hash, member, seen))
}

fn add_member(
    hash: Fingerprint,
    member: &MemberDescriptor,
    seen: &mut Vec<&'static str>,
) -> Fingerprint {
    let flags = [member.id, member.key as u32, member.must_understand as u32];
    add_type(
        hash.text(member.name).numbers(&flags).numbers(member.bounds),
        (member.type_of)(),
        seen,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprint_uses_fnv_1a() {
        assert_eq!(Fingerprint(OFFSET_BASIS).bytes(b"").finish(), 0xcbf2_9ce4_8422_2325);
        assert_eq!(Fingerprint(OFFSET_BASIS).bytes(b"a").finish(), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(Fingerprint(OFFSET_BASIS).bytes(b"foobar").finish(), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn fingerprint_separates_adjacent_texts() {
        let one = Fingerprint::new("struct").text("ab").text("c").finish();
        let other = Fingerprint::new("struct").text("a").text("bc").finish();
        assert_ne!(one, other);
    }
}
