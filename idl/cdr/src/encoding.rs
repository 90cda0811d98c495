//! Encodings of payloads, and the four-byte header that identifies them.
//!
//! Owns the representation identifiers and their consequences (alignment, delimiters). Never
//! touches a payload's body.
//!
//! ```text
//!              final             appendable            mutable
//!  XCDR1   0x0000 CDR         0x0000 CDR            0x0002 PL_CDR       plus one
//!  XCDR2   0x0006 CDR2        0x0008 D_CDR2         0x000a PL_CDR2      for little endian
//!  read    0x0010             0x0014                0x0012
//! ```
//!
//! The last row has the numbers that later editions of the standard give to XCDR2. They are read,
//! and never written.

use crate::{CdrError, Extensibility};

/// Size in bytes of the encapsulation header of every payload.
pub const HEADER_SIZE: usize = 4;

/// Byte order of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Endianness {
    /// Most significant byte first.
    Big,
    /// Least significant byte first.
    Little,
}

impl Endianness {
    /// Byte order of this machine.
    pub const NATIVE: Self = if cfg!(target_endian = "big") { Self::Big } else { Self::Little };
}

/// The two generations of CDR that the OMG defines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CdrVersion {
    /// Numbers are aligned to their size, up to 8.
    Xcdr1,
    /// Numbers are aligned to their size, up to 4. Collections of elements that are not primitive
    /// and types that may change carry their size in bytes.
    Xcdr2,
}

/// Encoding of the body of a payload: the CDR version and the byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Encoding {
    /// CDR version.
    pub version: CdrVersion,
    /// Byte order of numbers.
    pub endianness: Endianness,
}

impl Encoding {
    /// XCDR1, big endian.
    pub const CDR_BE: Self = Self::new(CdrVersion::Xcdr1, Endianness::Big);
    /// XCDR1, little endian.
    pub const CDR_LE: Self = Self::new(CdrVersion::Xcdr1, Endianness::Little);
    /// XCDR2, big endian. Keys are hashed in this form.
    pub const PLAIN_CDR2_BE: Self = Self::new(CdrVersion::Xcdr2, Endianness::Big);
    /// XCDR2, little endian. The default encoding for writing.
    pub const PLAIN_CDR2_LE: Self = Self::new(CdrVersion::Xcdr2, Endianness::Little);

    const fn new(version: CdrVersion, endianness: Endianness) -> Self {
        Self { version, endianness }
    }

    /// Returns the largest alignment of this encoding.
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

    /// Returns the identifier in the encapsulation header of a type of this extensibility.
    #[inline]
    pub const fn representation_id(self, extensibility: Extensibility) -> u16 {
        let little = matches!(self.endianness, Endianness::Little) as u16;
        little
            + match (self.version, extensibility) {
                (CdrVersion::Xcdr1, Extensibility::Final | Extensibility::Appendable) => 0x0000,
                (CdrVersion::Xcdr1, Extensibility::Mutable) => 0x0002,
                (CdrVersion::Xcdr2, Extensibility::Final) => 0x0006,
                (CdrVersion::Xcdr2, Extensibility::Appendable) => 0x0008,
                (CdrVersion::Xcdr2, Extensibility::Mutable) => 0x000a,
            }
    }

    /// Returns the encoding given by a payload's header; `None` without a header or with one that
    /// is not CDR.
    #[inline]
    pub fn of_payload(payload: &[u8]) -> Option<Self> {
        Self::from_representation_id(u16::from_be_bytes(*payload.first_chunk()?))
    }

    /// Returns the encoding of an identifier in the encapsulation header.
    #[inline]
    pub const fn from_representation_id(id: u16) -> Option<Self> {
        match usual_id(id) {
            0x0000 | 0x0002 => Some(Self::CDR_BE),
            0x0001 | 0x0003 => Some(Self::CDR_LE),
            0x0006 | 0x0008 | 0x000a => Some(Self::PLAIN_CDR2_BE),
            0x0007 | 0x0009 | 0x000b => Some(Self::PLAIN_CDR2_LE),
            _ => None,
        }
    }

    /// Returns the header of a payload whose body ends with `padding` bytes without meaning.
    pub(crate) const fn header(
        self,
        extensibility: Extensibility,
        padding: u8,
    ) -> [u8; HEADER_SIZE] {
        let [high, low] = self.representation_id(extensibility).to_be_bytes();
        [high, low, 0, padding & PADDING_MASK]
    }

    /// Reads a header: the encoding, its identifier, and the number of padding bytes at the end of
    /// the body.
    #[inline]
    pub(crate) fn parse_header(header: [u8; HEADER_SIZE]) -> Result<(Self, u16, usize), CdrError> {
        let [high, low, _, options] = header;
        let found = u16::from_be_bytes([high, low]);
        let encoding =
            Self::from_representation_id(found).ok_or(CdrError::UnknownRepresentation { found })?;
        Ok((encoding, usual_id(found), usize::from(options & PADDING_MASK)))
    }
}

/// Returns the number that other implementations use for an identifier of a later edition of the
/// standard; other identifiers stay as they are.
const fn usual_id(id: u16) -> u16 {
    match id {
        0x0010 | 0x0011 => id - 0x0010 + 0x0006,
        0x0012 | 0x0013 => id - 0x0012 + 0x000a,
        0x0014 | 0x0015 => id - 0x0014 + 0x0008,
        id => id,
    }
}

/// Mask of the two lowest bits of the options, which count the padding bytes after the body.
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
    fn representation_ids_follow_standard() {
        let kinds = [Extensibility::Final, Extensibility::Appendable, Extensibility::Mutable];
        for (encoding, ids) in [
            (Encoding::CDR_BE, [0, 0, 2]),
            (Encoding::CDR_LE, [1, 1, 3]),
            (Encoding::PLAIN_CDR2_BE, [6, 8, 10]),
            (Encoding::PLAIN_CDR2_LE, [7, 9, 11]),
        ] {
            for (kind, id) in kinds.into_iter().zip(ids) {
                assert_eq!(encoding.representation_id(kind), id);
                assert_eq!(Encoding::from_representation_id(id), Some(encoding));
                let header = encoding.header(kind, 2);
                assert_eq!(Encoding::parse_header(header), Ok((encoding, id, 2)));
            }
        }
    }

    #[test]
    fn decoder_accepts_ids_of_later_editions_of_standard() {
        let kinds = [Extensibility::Final, Extensibility::Mutable, Extensibility::Appendable];
        for (id, kind) in (0x10..).step_by(2).zip(kinds) {
            for (id, encoding) in [(id, Encoding::PLAIN_CDR2_BE), (id + 1, Encoding::PLAIN_CDR2_LE)]
            {
                let usual = encoding.representation_id(kind);
                let header = Encoding::parse_header([0, id, 0, 1]);
                assert_eq!(header, Ok((encoding, usual, 1)));
            }
        }
    }

    #[test]
    fn decoder_rejects_unknown_representation_id() {
        for id in (4..=u16::MAX).filter(|id| !(6..=11).contains(id) && !(16..=21).contains(id)) {
            let [high, low] = id.to_be_bytes();
            assert_eq!(
                Encoding::parse_header([high, low, 0, 0]),
                Err(CdrError::UnknownRepresentation { found: id })
            );
        }
    }
}
