//! How every file of a log folder but drafts begins: what it is, in which format, and that it is whole.
//!
//! Owns: those sixteen bytes. Never does: know what comes after them.
//!
//! ```text
//!   byte  0   what the file is: eight letters
//!         8   format: u32
//!        12   checksum: u32      of the rest of the header, or of the file if it has none
//! ```

use alloc::vec::Vec;

use super::LogError;
use super::checksum::Checksum;
use super::segment::FORMAT;
use crate::bytes::{Reader, Wire};

/// What a file is.
pub(super) type Magic = [u8; 8];

const HEAD: usize = 16;

/// The beginning of a file, to be [sealed](seal) when the rest is there.
pub(super) fn begin(magic: Magic) -> Vec<u8> {
    let mut bytes = Vec::from(magic);
    (FORMAT, 0_u32).encode(&mut bytes);
    bytes
}

/// Vouches for what follows the head.
pub(super) fn seal(bytes: &mut [u8], sum: Checksum) {
    let vouched = sum(&bytes[HEAD..]);
    bytes[12..HEAD].copy_from_slice(&vouched.to_le_bytes());
}

/// What follows the head in a file that is this, of our format, and whole.
pub(super) fn body<'a>(
    file: &str,
    magic: Magic,
    bytes: &'a [u8],
    sum: Checksum,
) -> Result<&'a [u8], LogError> {
    let bad = || LogError::BadHeader { file: file.into() };
    let reader = &mut Reader::new(bytes.strip_prefix(&magic).ok_or_else(bad)?);
    // The format comes first: of another one, nothing else is known.
    let (format, vouched) = <(u32, u32)>::decode(reader).ok_or_else(bad)?;
    let body = &bytes[HEAD..];
    match (format == FORMAT, vouched == sum(body)) {
        (true, true) => Ok(body),
        (false, false) => Err(LogError::Format { file: file.into(), found: format }),
        // A sum that is right in spite of another format: one bit of the number has changed.
        (true, false) | (false, true) => Err(bad()),
    }
}
