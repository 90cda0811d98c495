//! Errors of conversions between values and bytes.
//!
//! Owns the messages. Offsets count from the start of the bytes passed by the caller, so that they
//! can be looked up in a dump.

use std::error::Error;
use std::fmt;

/// Reasons why a value could not be written as CDR, or bytes could not be read as a value.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CdrError {
    /// The bytes end before the value does.
    Truncated {
        /// Offset at which reading stopped.
        offset: usize,
        /// Expected content at the offset.
        expected: &'static str,
        /// Number of bytes needed, including the alignment before them.
        needed: usize,
        /// Number of bytes left.
        left: usize,
    },
    /// The output buffer is too small.
    NoRoom {
        /// Offset at which writing stopped.
        offset: usize,
        /// Number of bytes to write there.
        needed: usize,
        /// Number of bytes left in the buffer.
        left: usize,
    },
    /// A boolean that is neither 0 nor 1.
    InvalidBool {
        /// Offset of the boolean.
        offset: usize,
        /// Byte found there.
        found: u8,
    },
    /// A string that CDR does not allow.
    InvalidString {
        /// Offset of the first character.
        offset: usize,
        /// Fault of the string.
        fault: StringFault,
    },
    /// A number that names no enumerator.
    UnknownEnumerator {
        /// Offset of the number.
        offset: usize,
        /// DDS name of the enum.
        type_name: &'static str,
        /// Number found there.
        found: u32,
    },
    /// A collection claims more elements than the rest of the bytes could hold.
    LengthExceedsData {
        /// Offset of the length.
        offset: usize,
        /// Claimed number of elements.
        length: u32,
        /// Number of bytes that follow.
        left: usize,
    },
    /// A collection or string is longer than its type allows.
    BoundExceeded {
        /// Offset of the collection or string.
        offset: usize,
        /// Maximum number of elements or characters.
        bound: u32,
        /// Actual number.
        found: usize,
    },
    /// A collection or string has more elements than a CDR length can express.
    TooLong {
        /// Offset at which it was to be written.
        offset: usize,
        /// Number of elements.
        length: usize,
    },
    /// The size in front of a collection differs from the size of its elements.
    SizeMismatch {
        /// Offset at which the elements end.
        offset: usize,
        /// Number of bytes after that offset according to the size in front.
        left: usize,
    },
    /// The payload has a representation that this crate does not read.
    UnknownRepresentation {
        /// Identifier in the header.
        found: u16,
    },
    /// Bytes remain after the value.
    TrailingBytes {
        /// Offset at which the value ends.
        offset: usize,
        /// Number of bytes that follow.
        left: usize,
    },
    /// The payload has the representation of a type of another extensibility.
    WrongRepresentation {
        /// Identifier in the header.
        found: u16,
        /// Identifier for the type that is read.
        expected: u16,
    },
    /// The discriminator has a value that selects no case.
    UnknownDiscriminator {
        /// Offset of the discriminator.
        offset: usize,
        /// DDS name of the union.
        type_name: &'static str,
        /// Value found there.
        found: i64,
    },
    /// The discriminator of a union selects a case other than the union's actual one.
    OtherCase {
        /// Offset at which the union was to be written.
        offset: usize,
        /// DDS name of the union.
        type_name: &'static str,
        /// Value of the discriminator.
        found: i64,
    },
    /// A union is in its default case, but its other cases take all values of the discriminator.
    NoLabel {
        /// Offset at which the union was to be written.
        offset: usize,
        /// DDS name of the union.
        type_name: &'static str,
    },
    /// The type does not know a member that every reader must understand.
    UnknownMember {
        /// Offset of the member.
        offset: usize,
        /// DDS name of the type that does not know the member.
        type_name: &'static str,
        /// Id of the member.
        id: u32,
    },
    /// A key member or a discriminator is missing.
    MissingMember {
        /// Offset at which the members end.
        offset: usize,
        /// DDS name of the type that the member belongs to.
        type_name: &'static str,
        /// Id of the member.
        id: u32,
    },
    /// Another member is in the position of an optional one.
    UnexpectedMember {
        /// Offset of the other member.
        offset: usize,
        /// Id of the optional member.
        expected: u32,
        /// Id that was found; `None` at the end of the list.
        found: Option<u32>,
    },
    /// A map has a key twice.
    DuplicateKey {
        /// Offset of the second occurrence.
        offset: usize,
    },
    /// Values are nested more deeply than the limit.
    TooDeep {
        /// Offset at which the next level begins.
        offset: usize,
    },
    /// A decimal number has an invalid digit, too many digits, or no sign.
    InvalidFixed {
        /// Offset of the number.
        offset: usize,
    },
    /// A character that does not fit its type.
    WideCharacter {
        /// Offset at which it was to be written.
        offset: usize,
        /// The character.
        found: char,
    },
    /// A number that does not fit the bits of its field.
    BitsExceeded {
        /// Number of bits of the field.
        bits: u32,
    },
    /// An error in a member of a struct.
    InMember {
        /// DDS name of the struct.
        type_name: &'static str,
        /// Name of the member.
        member: &'static str,
        /// Error in the member.
        source: Box<CdrError>,
    },
}

/// Faults of a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StringFault {
    /// The bytes are not UTF-8.
    NotUtf8,
    /// The 16-bit characters are not UTF-16.
    NotUtf16,
    /// The length of a wide string is odd, though it counts bytes.
    OddLength,
    /// The last byte is not NUL.
    NotTerminated,
    /// A NUL precedes the end.
    InnerNul,
}

impl CdrError {
    /// Returns the same error with the member in which it happened. An error about a too small
    /// buffer is not a fault of a member; it is returned unchanged, without allocation.
    #[must_use]
    #[cold]
    pub fn in_member(self, type_name: &'static str, member: &'static str) -> Self {
        match self {
            Self::NoRoom { .. } => self,
            source => Self::InMember { type_name, member, source: Box::new(source) },
        }
    }

    /// Returns the error itself, without the enclosing members.
    pub fn root(&self) -> &Self {
        let mut error = self;
        while let Self::InMember { source, .. } = error {
            error = source;
        }
        error
    }
}

impl fmt::Display for CdrError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { offset, expected, needed, left } => write!(
                f,
                "the data ends at byte {offset}, in the middle of a value: expected {expected} \
                 ({needed} bytes), found {left} bytes; check that the writer uses the same type"
            ),
            Self::NoRoom { offset, needed, left } => write!(
                f,
                "the buffer is too small: {needed} bytes are to be written at byte {offset}, but \
                 only {left} are left; ask serialized_size for the size"
            ),
            Self::InvalidBool { offset, found } => write!(
                f,
                "byte {offset} is {found}, expected a boolean (0 or 1); check that the writer uses \
                 the same type"
            ),
            Self::InvalidString { offset, fault } => {
                write!(f, "the string at byte {offset} {fault}")
            }
            Self::UnknownEnumerator { offset, type_name, found } => write!(
                f,
                "{found} at byte {offset} is no enumerator of {type_name}; check that the writer \
                 uses the same version of the type"
            ),
            Self::LengthExceedsData { offset, length, left } => write!(
                f,
                "the length at byte {offset} says {length} elements, but only {left} bytes follow; \
                 check that the writer uses the same type"
            ),
            Self::BoundExceeded { offset, bound, found } => write!(
                f,
                "{found} elements or characters at byte {offset} are more than the type's bound of \
                 {bound}; shorten the value or raise the bound in the type"
            ),
            Self::TooLong { offset, length } => write!(
                f,
                "{length} elements or characters at byte {offset} are more than a CDR length can \
                 say ({}); split the value",
                u32::MAX
            ),
            Self::SizeMismatch { offset, left } => write!(
                f,
                "the elements end at byte {offset}, but the size in front of them says that {left} \
                 more bytes belong to them; check that the writer uses the same type"
            ),
            Self::UnknownRepresentation { found } => write!(
                f,
                "the payload's representation is {found:#06x} ({}), expected one of CDR",
                representation_name(*found)
            ),
            Self::WrongRepresentation { found, expected } => write!(
                f,
                "the payload's representation is {found:#06x} ({}), expected {expected:#06x} ({}); \
                 check that the writer's type has the same extensibility",
                representation_name(*found),
                representation_name(*expected)
            ),
            Self::UnknownDiscriminator { offset, type_name, found } => write!(
                f,
                "{found} at byte {offset} selects no case of {type_name}; check that the writer \
                 uses the same version of the type"
            ),
            Self::OtherCase { type_name, found, .. } => write!(
                f,
                "a value of {type_name} has the discriminator {found}, which does not select its \
                 variant; set a discriminator that does"
            ),
            Self::NoLabel { type_name, .. } => write!(
                f,
                "the default case of {type_name} cannot be written, because the other cases have \
                 all values of the discriminator; remove the default case"
            ),
            Self::UnknownMember { offset, type_name, id } => write!(
                f,
                "the member {id} at byte {offset} is not known to {type_name} and is marked \
                 must_understand; use the writer's version of the type"
            ),
            Self::MissingMember { offset, type_name, id } => write!(
                f,
                "the required member {id} of {type_name} is missing in the data up to byte \
                 {offset}; check that the writer uses the same type"
            ),
            Self::UnexpectedMember { offset, expected, found } => {
                write!(f, "the optional member {expected} is expected at byte {offset}, found ")?;
                match found {
                    Some(id) => write!(f, "the member {id}")?,
                    None => write!(f, "the end of a list")?,
                }
                write!(f, "; check that the writer uses the same type")
            }
            Self::DuplicateKey { offset } => {
                write!(f, "the key at byte {offset} is in the map already; a map has each key once")
            }
            Self::TooDeep { offset } => write!(
                f,
                "values at byte {offset} are nested more than {} deep; make the value flatter",
                crate::MAX_DEPTH
            ),
            Self::InvalidFixed { offset } => write!(
                f,
                "the bytes at {offset} are not a decimal number of this type; check that the \
                 writer uses the same type"
            ),
            Self::WideCharacter { found, .. } => write!(
                f,
                "the character {found:?} does not fit its type; use a string, or a wide character"
            ),
            Self::BitsExceeded { bits } => {
                write!(
                    f,
                    "the number does not fit {bits} bits; give the field more bits, or write a \
                     smaller number"
                )
            }
            Self::TrailingBytes { offset, left } => write!(
                f,
                "{left} bytes are left after the value's end at byte {offset}; check that the \
                 writer uses the same type"
            ),
            Self::InMember { type_name, .. } => {
                write!(f, "{type_name}")?;
                let mut error = self;
                while let Self::InMember { member, source, .. } = error {
                    write!(f, ".{member}")?;
                    error = source;
                }
                write!(f, ": {error}")
            }
        }
    }
}

impl fmt::Display for StringFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotUtf8 => "is not UTF-8; the writer must encode its strings as UTF-8",
            Self::NotUtf16 => "is not UTF-16; the writer must encode its wide strings as UTF-16",
            Self::OddLength => {
                "has an odd length, though a wide string has two bytes for each character; some \
                 writers count characters instead: let them count bytes, or use `string`"
            }
            Self::NotTerminated => {
                "does not end in NUL, expected a NUL as its last byte; check that the writer uses \
                 the same type"
            }
            Self::InnerNul => {
                "has a NUL before its end, which CDR does not allow; remove it, or make the member \
                 a sequence of octets"
            }
        })
    }
}

/// Name of a representation in the standards, for messages.
fn representation_name(id: u16) -> &'static str {
    match id {
        0x0000 | 0x0001 => "CDR, for final and appendable types",
        0x0002 | 0x0003 => "PL_CDR, for mutable types",
        0x0006 | 0x0007 => "CDR2, for final types",
        0x0004 => "XML",
        0x0008 | 0x0009 => "D_CDR2, for appendable types",
        0x000a | 0x000b => "PL_CDR2, for mutable types",
        _ => "unknown to the standards",
    }
}

impl Error for CdrError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_message_names_full_path_to_member() {
        let error = CdrError::InvalidBool { offset: 12, found: 9 }
            .in_member("Nav::Gear", "down")
            .in_member("Nav::Aircraft", "gear");
        assert!(error.to_string().starts_with("Nav::Aircraft.gear.down: byte 12 is 9, expected"));
        assert_eq!(error.root(), &CdrError::InvalidBool { offset: 12, found: 9 });
    }

    #[test]
    fn error_for_small_buffer_names_no_member() {
        let error = CdrError::NoRoom { offset: 0, needed: 4, left: 1 };
        assert_eq!(error.clone().in_member("T", "m"), error);
    }
}
