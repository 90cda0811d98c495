//! Words of a refusal.
//!
//! Owns the names of kinds of types. Decides nothing.

use crate::model::{HashedName, NodeKind};

/// Returns the name that is known, if the other one is only a hash.
pub(crate) fn shown<'a>(one: &'a HashedName, other: &'a HashedName) -> &'a str {
    if one.text.starts_with('#') { &other.text } else { &one.text }
}

pub(crate) fn differ(reader: &str, writer: &str) -> String {
    format!("{reader} in the reader's type, {writer} in the writer's")
}

pub(crate) fn kind_name(kind: &NodeKind) -> &'static str {
    match kind {
        NodeKind::Primitive(primitive) => primitive.name(),
        NodeKind::Text { wide: false, .. } => "a string",
        NodeKind::Text { wide: true, .. } => "a wstring",
        NodeKind::Fixed { .. } => "a fixed",
        NodeKind::Sequence { .. } => "a sequence",
        NodeKind::Array { .. } => "an array",
        NodeKind::Map { .. } => "a map",
        NodeKind::Enumeration { .. } => "an enum",
        NodeKind::Bitmask { .. } => "a bitmask",
        NodeKind::Bitset(_) => "a bitset",
        NodeKind::Alias(_) => "a typedef",
        NodeKind::Structure(_) => "a struct",
        NodeKind::Union(_) => "a union",
        NodeKind::Later => "not known",
    }
}
