//! Which CDR a payload is written in, and the four-byte header that says so.
//!
//! Owns the representation identifiers and what follows from them (alignment, delimiters). Never
//! touches a payload's body.

use crate::CdrError;

/// Bytes of the encapsulation header in front of every payload.
pub const HEADER_SIZE: usize = 4;

/// The order in which the bytes of a number are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Endianness {
    /// Most significant byte first.
    Big,
    /// Least significant byte first.
    Little,
}

/// The two generations of CDR that the OMG defines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CdrVersion {
    /// Plain CDR: numbers are aligned to their size, up to 8.
    Xcdr1,
    /// PLAIN_CDR2: numbers are aligned to their size, up to 4, and collections whose elements are
    /// not primitive say how many bytes they take.
    Xcdr2,
}

/// How the body of a payload is written: the CDR version and the byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Encoding {
    /// The generation of CDR.
    pub version: CdrVersion,
    /// The byte order of numbers.
    pub endianness: Endianness,
}

impl Encoding {
    /// Plain CDR, big endian (0x0000).
    pub const CDR_BE: Self = Self::new(CdrVersion::Xcdr1, Endianness::Big);
    /// Plain CDR, little endian (0x0001).
    pub const CDR_LE: Self = Self::new(CdrVersion::Xcdr1, Endianness::Little);
    /// XCDR2, big endian (0x0006). Keys are hashed in this form.
    pub const PLAIN_CDR2_BE: Self = Self::new(CdrVersion::Xcdr2, Endianness::Big);
    /// XCDR2, little endian (0x0007). What is written unless something else is asked for.
    pub const PLAIN_CDR2_LE: Self = Self::new(CdrVersion::Xcdr2, Endianness::Little);

    const fn new(version: CdrVersion, endianness: Endianness) -> Self {
        Self { version, endianness }
    }

    /// The largest alignment of this encoding.
    pub const fn max_align(self) -> usize {
        match self.version {
            CdrVersion::Xcdr1 => 8,
            CdrVersion::Xcdr2 => 4,
        }
    }

    /// Whether collections of elements that are not primitive carry their size in bytes.
    pub const fn delimits_collections(self) -> bool {
        matches!(self.version, CdrVersion::Xcdr2)
    }

    /// The identifier that stands in the encapsulation header.
    pub const fn representation_id(self) -> u16 {
        match (self.version, self.endianness) {
            (CdrVersion::Xcdr1, Endianness::Big) => 0x0000,
            (CdrVersion::Xcdr1, Endianness::Little) => 0x0001,
            (CdrVersion::Xcdr2, Endianness::Big) => 0x0006,
            (CdrVersion::Xcdr2, Endianness::Little) => 0x0007,
        }
    }

    /// The encoding that an identifier of the encapsulation header stands for.
    pub const fn from_representation_id(id: u16) -> Option<Self> {
        match id {
            0x0000 => Some(Self::CDR_BE),
            0x0001 => Some(Self::CDR_LE),
            0x0006 => Some(Self::PLAIN_CDR2_BE),
            0x0007 => Some(Self::PLAIN_CDR2_LE),
            _ => None,
        }
    }

    /// The header of a payload whose body ends with `padding` bytes that mean nothing.
    pub(crate) const fn header(self, padding: u8) -> [u8; HEADER_SIZE] {
        let [high, low] = self.representation_id().to_be_bytes();
        [high, low, 0, padding & PADDING_MASK]
    }

    /// Reads a header: the encoding, and the number of padding bytes at the body's end.
    pub(crate) fn parse_header(header: [u8; HEADER_SIZE]) -> Result<(Self, usize), CdrError> {
        let [high, low, _, options] = header;
        let found = u16::from_be_bytes([high, low]);
        let encoding =
            Self::from_representation_id(found).ok_or(CdrError::UnknownRepresentation { found })?;
        Ok((encoding, usize::from(options & PADDING_MASK)))
    }
}

/// The two lowest bits of the options count the padding bytes after the body.
const PADDING_MASK: u8 = 0b11;

impl Default for Encoding {
    /// XCDR2, little endian.
    fn default() -> Self {
        Self::PLAIN_CDR2_LE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn representation_ids_are_those_of_the_standard() {
        for (encoding, id) in [
            (Encoding::CDR_BE, 0),
            (Encoding::CDR_LE, 1),
            (Encoding::PLAIN_CDR2_BE, 6),
            (Encoding::PLAIN_CDR2_LE, 7),
        ] {
            assert_eq!(encoding.representation_id(), id);
            assert_eq!(Encoding::from_representation_id(id), Some(encoding));
            assert_eq!(Encoding::parse_header(encoding.header(2)), Ok((encoding, 2)));
        }
    }

    #[test]
    fn other_representations_are_refused() {
        for id in (0..=u16::MAX).filter(|id| ![0, 1, 6, 7].contains(id)) {
            let [high, low] = id.to_be_bytes();
            assert_eq!(
                Encoding::parse_header([high, low, 0, 0]),
                Err(CdrError::UnknownRepresentation { found: id })
            );
        }
    }
}
