//! Structs: their members in order of declaration, or by their ids.
//!
//! Owns the framing of a struct in each encoding by its extensibility, and the members of a key.
//! Never knows a member's bytes.

use crate::sorting::{is_ascending, sorted};
use crate::{
    CdrError, CdrReader, CdrVersion, CdrWriter, DdsType, Extensibility, KeyForm, MemberDescriptor,
    MemberFraming,
};

/// Description of a struct by the derive macro, beside [`DdsType`].
///
/// A struct may be the base of another one; the methods then handle the base part.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a DDS struct",
    label = "not a struct with `#[derive(DdsType)]`",
    note = "the field with `#[dds(base)]` has a struct as its type that derives DdsType"
)]
pub trait DdsStruct: DdsType {
    /// Own members, in the order of declaration.
    const MEMBERS: &'static [MemberDescriptor];

    /// Ids of all members, the base's first, in the order of declaration.
    const IDS: &'static [u32];

    /// Ids of the key members, ascending. If no member is marked, all ids, because the whole struct
    /// counts when it is itself a member of a key.
    const KEY_IDS: &'static [u32];

    /// Id that the next member would get.
    const NEXT_ID: u32;

    /// Writes all members in sequence.
    fn serialize_members(&self, writer: &mut CdrWriter<'_>) -> Result<(), CdrError>;

    /// Reads all members in sequence.
    fn deserialize_members(reader: &mut CdrReader<'_>) -> Result<Self, CdrError>;

    /// Writes the member of this id; nothing if there is none.
    fn write_member(
        &self,
        id: u32,
        writer: &mut CdrWriter<'_>,
        form: MemberFraming,
    ) -> Result<(), CdrError>;

    /// Reads the member of this id; returns whether there is one.
    fn read_member(
        &mut self,
        id: u32,
        reader: &mut CdrReader<'_>,
        form: MemberFraming,
    ) -> Result<bool, CdrError>;
}

/// Writes a struct.
#[inline]
pub fn serialize_struct<T: DdsStruct>(
    value: &T,
    writer: &mut CdrWriter<'_>,
) -> Result<(), CdrError> {
    match writer.key_form() {
        Some(KeyForm::Hash) => {
            let mut ids = T::KEY_IDS.iter();
            return ids.try_for_each(|&id| value.write_member(id, writer, MemberFraming::Plain));
        }
        Some(KeyForm::Payload) => return serialize_key(value, writer),
        None => {}
    }
    match T::EXTENSIBILITY {
        Extensibility::Final => value.serialize_members(writer),
        Extensibility::Appendable => {
            let open = writer.begin_delimited()?;
            value.serialize_members(writer)?;
            writer.end_delimited(open)
        }
        Extensibility::Mutable => {
            let open = writer.begin_delimited()?;
            T::IDS
                .iter()
                .try_for_each(|&id| value.write_member(id, writer, MemberFraming::Parameters))?;
            writer.end_parameters()?;
            writer.end_delimited(open)
        }
    }
}

/// Writes the key members as those of a separate struct of the same extensibility.
fn serialize_key<T: DdsStruct>(value: &T, writer: &mut CdrWriter<'_>) -> Result<(), CdrError> {
    let form = match T::EXTENSIBILITY {
        Extensibility::Mutable => MemberFraming::Parameters,
        _ => MemberFraming::Plain,
    };
    let open = match T::EXTENSIBILITY {
        Extensibility::Final => None,
        _ => Some(writer.begin_delimited()?),
    };
    key_ids::<T>().try_for_each(|id| value.write_member(id, writer, form))?;
    if form == MemberFraming::Parameters {
        writer.end_parameters()?;
    }
    open.map_or(Ok(()), |open| writer.end_delimited(open))
}

/// Returns the ids of the key's members, in the order of declaration.
fn key_ids<T: DdsStruct>() -> impl Iterator<Item = u32> {
    T::IDS.iter().copied().filter(|id| T::KEY_IDS.contains(id))
}

/// Reads a struct.
#[inline]
pub fn deserialize_struct<T: DdsStruct>(reader: &mut CdrReader<'_>) -> Result<T, CdrError> {
    if reader.is_of_keys() && T::EXTENSIBILITY != Extensibility::Mutable {
        return deserialize_key(reader);
    }
    match T::EXTENSIBILITY {
        Extensibility::Final => T::deserialize_members(reader),
        Extensibility::Appendable => {
            let open = reader.begin_delimited()?;
            let value = T::deserialize_members(reader)?;
            reader.skip_delimited(open);
            Ok(value)
        }
        Extensibility::Mutable => {
            let open = reader.begin_delimited()?;
            let value = deserialize_parameters(reader)?;
            reader.skip_delimited(open);
            Ok(value)
        }
    }
}

/// Reads the output of [`serialize_key`] for a struct whose members have no headers.
fn deserialize_key<T: DdsStruct>(reader: &mut CdrReader<'_>) -> Result<T, CdrError> {
    let open = match T::EXTENSIBILITY {
        Extensibility::Final => None,
        _ => Some(reader.begin_delimited()?),
    };
    let mut value = T::default_value();
    for id in key_ids::<T>() {
        value.read_member(id, reader, MemberFraming::Plain)?;
    }
    if let Some(open) = open {
        reader.skip_delimited(open);
    }
    Ok(value)
}

fn deserialize_parameters<T: DdsStruct>(reader: &mut CdrReader<'_>) -> Result<T, CdrError> {
    let mut value = T::default_value();
    // Missing key members are detected only among the first 64.
    let mut missing = if T::KEYED { u64::MAX >> (64 - T::KEY_IDS.len().min(64)) } else { 0 };
    while let Some(parameter) = reader.next_parameter()? {
        let (offset, id, ignored) = (parameter.offset, parameter.id, parameter.ignored);
        if !ignored && value.read_member(id, reader, MemberFraming::Parameters)? {
            require_end(reader)?;
            if let Some(index) = T::KEY_IDS.iter().position(|&key| key == id).filter(|&p| p < 64) {
                missing &= !(1 << index);
            }
        } else if parameter.must_understand {
            return Err(CdrError::UnknownMember { offset, type_name: T::TYPE_NAME, id });
        }
        reader.end_parameter(parameter);
    }
    if missing != 0 {
        let id = T::KEY_IDS[missing.trailing_zeros() as usize];
        let offset = reader.position();
        return Err(CdrError::MissingMember { offset, type_name: T::TYPE_NAME, id });
    }
    Ok(value)
}

/// Checks that a parameter of XCDR2 ends where its value does. A parameter of XCDR1 may be padded,
/// and may end with members of a later version of its type.
pub(crate) fn require_end(reader: &CdrReader<'_>) -> Result<(), CdrError> {
    let left = reader.remaining();
    if left > 0 && reader.encoding().version == CdrVersion::Xcdr2 {
        return Err(CdrError::SizeMismatch { offset: reader.position(), left });
    }
    Ok(())
}

/// Returns the key ids of a base; empty if the base has no key, where `KEY_IDS` would list all ids.
pub const fn key_ids_of_base<T: DdsStruct>() -> &'static [u32] {
    if T::KEYED { T::KEY_IDS } else { &[] }
}

/// Returns the ids of a base followed by the own ids.
pub const fn join_ids<const N: usize>(base: &[u32], own: &[u32]) -> [u32; N] {
    let mut ids = [0; N];
    let mut index = 0;
    while index < N {
        ids[index] = if index < base.len() { base[index] } else { own[index - base.len()] };
        index += 1;
    }
    ids
}

/// Sorts ids in ascending order.
pub const fn sort_ids<const N: usize>(mut ids: [u32; N]) -> [u32; N] {
    let (mut all, mut index) = ([0; N], 0);
    while index < N {
        all[index] = ids[index] as i64;
        index += 1;
    }
    all = sorted(all);
    index = 0;
    while index < N {
        ids[index] = all[index] as u32;
        index += 1;
    }
    ids
}

/// Whether no id occurs twice. `N` is their number.
pub const fn are_unique<const N: usize>(ids: &[u32]) -> bool {
    let (mut all, mut index) = ([0; N], 0);
    while index < ids.len() {
        all[index] = ids[index] as i64;
        index += 1;
    }
    is_ascending(&sorted(all))
}
