//! Conversion of whole values to whole payloads and back.
//!
//! Owns the framing: header, body, padding. The default encoding is XCDR2, little endian.

use crate::{CdrError, CdrReader, CdrVersion, CdrWriter, DdsType, Encoding, Extensibility};

/// Returns the payload of a value, in the default encoding.
pub fn to_cdr<T: DdsType>(value: &T) -> Result<Vec<u8>, CdrError> {
    to_cdr_with(value, Encoding::default())
}

/// Returns the payload of a value, in the given encoding.
pub fn to_cdr_with<T: DdsType>(value: &T, encoding: Encoding) -> Result<Vec<u8>, CdrError> {
    // Counting first costs a pass over the value but avoids growing the vector.
    let mut payload = vec![0; write_payload(value, CdrWriter::counting(encoding))?];
    write_payload(value, CdrWriter::over(&mut payload, encoding))?;
    Ok(payload)
}

/// Writes the payload of a value, in the default encoding, at the start of `buffer`, and returns
/// its size. Allocates nothing.
pub fn serialize_into<T: DdsType>(value: &T, buffer: &mut [u8]) -> Result<usize, CdrError> {
    serialize_into_with(value, buffer, Encoding::default())
}

/// Writes like [`serialize_into`], in the given encoding.
#[inline]
pub fn serialize_into_with<T: DdsType>(
    value: &T,
    buffer: &mut [u8],
    encoding: Encoding,
) -> Result<usize, CdrError> {
    write_payload(value, CdrWriter::over(buffer, encoding))
}

/// Returns the size of the payload that [`to_cdr`] and [`serialize_into`] write.
pub fn serialized_size<T: DdsType>(value: &T) -> Result<usize, CdrError> {
    serialized_size_with(value, Encoding::default())
}

/// Returns the size of the payload that [`to_cdr_with`] and [`serialize_into_with`] write.
#[inline]
pub fn serialized_size_with<T: DdsType>(value: &T, encoding: Encoding) -> Result<usize, CdrError> {
    write_payload(value, CdrWriter::counting(encoding))
}

/// Reads the value in a payload, in the encoding that its header names.
pub fn from_cdr<T: DdsType>(payload: &[u8]) -> Result<T, CdrError> {
    let mut reader = CdrReader::from_payload(payload)?;
    reader.expect(T::EXTENSIBILITY)?;
    let value = T::deserialize(&mut reader)?;
    // In XCDR1 the end of an appendable value is not marked, so remaining bytes may be members of a
    // later version.
    let may_be_longer = T::EXTENSIBILITY == Extensibility::Appendable
        && reader.encoding().version == CdrVersion::Xcdr1;
    if !may_be_longer {
        reader.finish()?;
    }
    Ok(value)
}

fn write_payload<T: DdsType>(value: &T, mut writer: CdrWriter<'_>) -> Result<usize, CdrError> {
    writer.write_header(T::EXTENSIBILITY)?;
    value.serialize(&mut writer)?;
    writer.finish()
}
