//! Values as text and as JSON, and back.
//!
//! Owns the two output formats and the one grammar that reads both: JSON with optional quotes
//! around names, optional commas at the end, and `//` for comments. Never knows bytes.
//!
//! - Numbers: `12`, `1.5` in both formats. Values that are not JSON numbers are text in JSON,
//!   `"NaN"`, `"Infinity"`, and words in text: `NaN`, `Infinity`.
//! - Fixed, integers beyond 53 bits: numbers.
//! - Long double: a number with all its digits. One larger than every double is text in JSON,
//!   `"1.0e4000"`, and a number in text: `1.0e4000`.
//! - Characters, strings: `"text"`.
//! - Enum: `"NAME"` in JSON, `NAME` in text.
//! - Bitmask: the number.
//! - Struct, bitset: `{"member": ...}` in JSON, `{member: ...}` in text; absent members are
//!   left out.
//! - Union: `{"discriminator": ..., "member": ...}`.
//! - Sequence, array: `[...]`.
//! - Map: `[{"key": ..., "value": ...}]`.
//! - Any: `{"type": "Name", "type_objects": "00ab...", "value": ...}`, where `type` is for human
//!   readers. An `any` that this form cannot express is `{"type_objects": [...], "value": [...]}`.

mod any;
mod parse;
mod print;

pub use parse::TextError;
pub(crate) use parse::parse;
pub(crate) use print::{Style, print};

/// Whether a character is allowed in an unquoted name or number. If only the hash of a member's
/// name is known, the name is `#` and the hash.
fn is_part_of_word(character: char) -> bool {
    character.is_alphanumeric() || matches!(character, '_' | '.' | '+' | '-' | '#')
}

/// Whether a name needs no quotes and cannot be mistaken for anything else.
fn is_word(name: &str) -> bool {
    !name.is_empty() && name != "null" && name.chars().all(is_part_of_word)
}
