//! Whole values to whole payloads and back.
//!
//! Owns the framing: header, body, padding. The default encoding is XCDR2, little endian; keys are
//! written big endian without header, the form that key hashes are made of.

use md5::{Digest, Md5};

use crate::{CdrError, CdrReader, CdrWriter, DdsType, Encoding};

/// The payload of a value, in the default encoding.
pub fn to_cdr<T: DdsType>(value: &T) -> Result<Vec<u8>, CdrError> {
    to_cdr_with(value, Encoding::default())
}

/// The payload of a value, in the given encoding.
pub fn to_cdr_with<T: DdsType>(value: &T, encoding: Encoding) -> Result<Vec<u8>, CdrError> {
    // Counting first costs a walk over the value and saves the growing of the vector.
    let mut payload = vec![0; write_payload(value, CdrWriter::counting(encoding))?];
    write_payload(value, CdrWriter::over(&mut payload, encoding))?;
    Ok(payload)
}

/// Writes the payload of a value, in the default encoding, at the start of `buffer`, and gives its
/// size. Allocates nothing.
pub fn serialize_into<T: DdsType>(value: &T, buffer: &mut [u8]) -> Result<usize, CdrError> {
    write_payload(value, CdrWriter::over(buffer, Encoding::default()))
}

/// The size of the payload that [`to_cdr`] and [`serialize_into`] write.
pub fn serialized_size<T: DdsType>(value: &T) -> Result<usize, CdrError> {
    write_payload(value, CdrWriter::counting(Encoding::default()))
}

/// The value in a payload, in whatever encoding its header names.
pub fn from_cdr<T: DdsType>(payload: &[u8]) -> Result<T, CdrError> {
    let mut reader = CdrReader::from_payload(payload)?;
    let value = T::deserialize(&mut reader)?;
    reader.finish()?;
    Ok(value)
}

/// The key of a value as XCDR2, big endian, without header; empty if the type has no key.
pub fn key_to_cdr<T: DdsType>(value: &T) -> Result<Vec<u8>, CdrError> {
    let mut counter = CdrWriter::counting(Encoding::PLAIN_CDR2_BE);
    value.serialize_key(&mut counter)?;
    let mut key = vec![0; counter.position()];
    serialize_key_into(value, &mut key)?;
    Ok(key)
}

/// Writes what [`key_to_cdr`] gives at the start of `buffer`, and gives its size. Allocates
/// nothing.
pub fn serialize_key_into<T: DdsType>(value: &T, buffer: &mut [u8]) -> Result<usize, CdrError> {
    let mut writer = CdrWriter::over(buffer, Encoding::PLAIN_CDR2_BE);
    value.serialize_key(&mut writer)?;
    Ok(writer.position())
}

/// The key of a value in 16 bytes: the key itself if this value's fits, else its MD5. All zeros if the type has
/// no key. Allocates only for a key that does not fit.
pub fn key_hash<T: DdsType>(value: &T) -> Result<[u8; 16], CdrError> {
    let mut hash = [0; 16];
    match serialize_key_into(value, &mut hash) {
        Ok(_) => Ok(hash),
        Err(CdrError::NoRoom { .. }) => Ok(Md5::digest(key_to_cdr(value)?).into()),
        Err(error) => Err(error),
    }
}

fn write_payload<T: DdsType>(value: &T, mut writer: CdrWriter<'_>) -> Result<usize, CdrError> {
    writer.write_header()?;
    value.serialize(&mut writer)?;
    writer.finish()
}
