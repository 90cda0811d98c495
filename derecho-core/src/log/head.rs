//! Common head of every file of a log folder except temporary files: file type, format, checksum.
//!
//! Owns: those sixteen bytes. Never does: interpret the bytes after them.
//!
//! ```text
//!   byte  0   type of the file: eight letters
//!         8   format: u32
//!        12   checksum: u32      of the rest of the header, or of the file if it has none
//! ```

use alloc::vec::Vec;

use super::LogError;
use super::checksum::Checksum;
use super::segment::FORMAT;
use crate::bytes::{ByteReader, Wire};

/// Type of a file.
pub(super) type Magic = [u8; 8];

const HEAD: usize = 16;

/// Returns the head of a file, to be [sealed](seal) when the rest is there.
pub(super) fn begin(magic: Magic) -> Vec<u8> {
    let mut bytes = Vec::from(magic);
    (FORMAT, 0_u32).encode(&mut bytes);
    bytes
}

/// Writes the checksum of all bytes after the head.
pub(super) fn seal(bytes: &mut [u8], sum: Checksum) {
    let vouched = sum(&bytes[HEAD..]);
    bytes[12..HEAD].copy_from_slice(&vouched.to_le_bytes());
}

/// Returns the bytes after the head of a file that has this type, our format and a
/// matching checksum.
pub(super) fn body<'a>(
    file: &str,
    magic: Magic,
    bytes: &'a [u8],
    sum: Checksum,
) -> Result<&'a [u8], LogError> {
    let bad = || LogError::BadHeader { file: file.into() };
    let reader = &mut ByteReader::new(bytes.strip_prefix(&magic).ok_or_else(bad)?);
    // The format is checked first: nothing else is known about a file of another format.
    let (format, vouched) = <(u32, u32)>::decode(reader).ok_or_else(bad)?;
    let body = &bytes[HEAD..];
    match (format == FORMAT, vouched == sum(body)) {
        (true, true) => Ok(body),
        (false, false) => Err(LogError::Format { file: file.into(), found: format }),
        // If the checksum matches in spite of another format, a bit of the format number
        // has changed.
        (true, false) | (false, true) => Err(bad()),
    }
}
