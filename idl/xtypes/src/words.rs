//! Words of a refusal.
//!
//! Owns the names of kinds of types. Decides nothing.

use crate::model::{Kind, Name};

/// Returns the name that is known, if the other one is only a hash.
pub(crate) fn shown<'a>(one: &'a Name, other: &'a Name) -> &'a str {
    if one.text.starts_with('#') { &other.text } else { &one.text }
}

pub(crate) fn differ(reader: &str, writer: &str) -> String {
    format!("{reader} in the reader's type, {writer} in the writer's")
}

pub(crate) fn word_of(kind: &Kind) -> &'static str {
    match kind {
        Kind::Primitive(primitive) => primitive.name(),
        Kind::Text { wide: false, .. } => "a string",
        Kind::Text { wide: true, .. } => "a wstring",
        Kind::Fixed { .. } => "a fixed",
        Kind::Sequence { .. } => "a sequence",
        Kind::Array { .. } => "an array",
        Kind::Map { .. } => "a map",
        Kind::Enumeration { .. } => "an enum",
        Kind::Bitmask { .. } => "a bitmask",
        Kind::Bitset(_) => "a bitset",
        Kind::Alias(_) => "a typedef",
        Kind::Structure(_) => "a struct",
        Kind::Union(_) => "a union",
        Kind::Later => "not known",
    }
}
