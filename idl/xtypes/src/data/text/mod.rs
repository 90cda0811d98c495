//! Values as text and as JSON, and back.
//!
//! Owns the two ways to write them and the one grammar that reads both: JSON, where names may stand
//! without quotes, commas may be left out at the end, and `//` begins a comment. Never knows bytes.
//!
//! | type | JSON | text, where it differs |
//! | --- | --- | --- |
//! | numbers | `12`, `1.5`; what JSON has no number for is text: `"NaN"`, `"Infinity"` | `NaN`, `Infinity` |
//! | fixed, long double, integers beyond 53 bits | as numbers | |
//! | characters, strings | `"text"` | |
//! | enum | `"NAME"` | `NAME` |
//! | bitmask | the number | |
//! | struct, bitset | `{"member": ...}`, absent members left out | `{member: ...}` |
//! | union | `{"discriminator": ..., "member": ...}` | |
//! | sequence, array | `[...]` | |
//! | map | `[{"key": ..., "value": ...}]` | |

mod parse;
mod print;

pub use parse::TextError;
pub(crate) use parse::parse;
pub(crate) use print::{Style, print};
