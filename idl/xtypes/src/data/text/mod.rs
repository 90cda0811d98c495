//! Values as text and as JSON, and back.
//!
//! Owns the two ways to write them and the one grammar that reads both: JSON, where names may stand
//! without quotes, commas may be left out at the end, and `//` begins a comment. Never knows bytes.
//!
//! | type | JSON | text, where it differs |
//! | --- | --- | --- |
//! | numbers | `12`, `1.5`; what JSON has no number for is text: `"NaN"`, `"Infinity"` | `NaN`, `Infinity` |
//! | fixed, integers beyond 53 bits | as numbers | |
//! | long double | as a number with all its digits; one that is larger than any double is text: `"1.0e4000"` | `1.0e4000` |
//! | characters, strings | `"text"` | |
//! | enum | `"NAME"` | `NAME` |
//! | bitmask | the number | |
//! | struct, bitset | `{"member": ...}`, absent members left out | `{member: ...}` |
//! | union | `{"discriminator": ..., "member": ...}` | |
//! | sequence, array | `[...]` | |
//! | map | `[{"key": ..., "value": ...}]` | |
//! | any | `{"type": "Name", "type_objects": "00ab...", "value": ...}`, of which `type` is for people; what that does not say is `{"type_objects": [...], "value": [...]}` | |

mod any;
mod parse;
mod print;

pub use parse::TextError;
pub(crate) use parse::parse;
pub(crate) use print::{Style, print};

/// Whether a character may stand in a name or a number without quotes. Of members of which only the hash of the name is known, `#`
/// and the hash are the name.
fn is_part_of_word(character: char) -> bool {
    character.is_alphanumeric() || matches!(character, '_' | '.' | '+' | '-' | '#')
}

/// Whether a name can do without quotes, and means nothing else.
fn is_word(name: &str) -> bool {
    !name.is_empty() && name != "null" && name.chars().all(is_part_of_word)
}
