//! [`DdsType`] for numbers, `bool` and `String`.
//!
//! Owns the IDL names of the primitives. Rows of numbers are copied in one go.

use crate::{
    CdrError, CdrReader, CdrWriter, DdsType, Endianness, Fingerprint, PlainLayout, UNBOUNDED,
};

macro_rules! number {
    ($($number:ty, $name:literal, $write:ident, $read:ident;)*) => {
        $(
            impl DdsType for $number {
                const TYPE_NAME: &'static str = $name;
                const LAYOUT: Option<PlainLayout<Self>> = {
                    let hash = Fingerprint::new("primitive")
                        .text($name)
                        .number(cfg!(target_endian = "big") as u64)
                        .finish();
                    // SAFETY: every bit pattern is a valid integer or floating-point number, and
                    // neither has pointers, padding or interior mutability.
                    Some(unsafe { PlainLayout::new(hash) })
                };
                const FINGERPRINT: u64 = Fingerprint::new("primitive").text($name).finish();
                const MIN_CDR_SIZE: usize = size_of::<Self>();
                const PRIMITIVE: bool = true;

                fn serialize(&self, writer: &mut CdrWriter<'_>) -> Result<(), CdrError> {
                    writer.$write(*self)
                }

                fn deserialize(reader: &mut CdrReader<'_>) -> Result<Self, CdrError> {
                    reader.$read()
                }

                fn serialize_row(
                    row: &[Self],
                    writer: &mut CdrWriter<'_>,
                    _bounds: &[u32],
                ) -> Result<(), CdrError> {
                    // An empty row takes no bytes, not even those of alignment.
                    if row.is_empty() {
                        return Ok(());
                    }
                    let endianness = writer.encoding().endianness;
                    let Some(room) = writer.claim(size_of::<Self>(), size_of_val(row))? else {
                        return Ok(());
                    };
                    let (places, _) = room.as_chunks_mut::<{ size_of::<Self>() }>();
                    match endianness {
                        Endianness::Big => {
                            places.iter_mut().zip(row).for_each(|(to, n)| *to = n.to_be_bytes());
                        }
                        Endianness::Little => {
                            places.iter_mut().zip(row).for_each(|(to, n)| *to = n.to_le_bytes());
                        }
                    }
                    Ok(())
                }

                fn deserialize_row<const N: usize>(
                    reader: &mut CdrReader<'_>,
                    _bounds: &[u32],
                ) -> Result<[Self; N], CdrError> {
                    let mut row = [Self::default(); N];
                    read_row(reader, &mut row, Self::from_be_bytes, Self::from_le_bytes)?;
                    Ok(row)
                }

                fn deserialize_elements(
                    reader: &mut CdrReader<'_>,
                    count: usize,
                    _bounds: &[u32],
                ) -> Result<Vec<Self>, CdrError> {
                    let mut row = vec![Self::default(); count];
                    read_row(reader, &mut row, Self::from_be_bytes, Self::from_le_bytes)?;
                    Ok(row)
                }
            }
        )*
    };
}

number! {
    u8, "uint8", write_u8, read_u8;
    i8, "int8", write_i8, read_i8;
    u16, "uint16", write_u16, read_u16;
    i16, "int16", write_i16, read_i16;
    u32, "uint32", write_u32, read_u32;
    i32, "int32", write_i32, read_i32;
    u64, "uint64", write_u64, read_u64;
    i64, "int64", write_i64, read_i64;
    f32, "float", write_f32, read_f32;
    f64, "double", write_f64, read_f64;
}

/// Fills `row` with numbers of `SIZE` bytes each.
fn read_row<T, const SIZE: usize>(
    reader: &mut CdrReader<'_>,
    row: &mut [T],
    from_be: fn([u8; SIZE]) -> T,
    from_le: fn([u8; SIZE]) -> T,
) -> Result<(), CdrError> {
    if row.is_empty() {
        return Ok(());
    }
    let bytes = reader.take(SIZE, row.len() * SIZE, "a row of numbers")?;
    let (numbers, _) = bytes.as_chunks::<SIZE>();
    let from = match reader.encoding().endianness {
        Endianness::Big => from_be,
        Endianness::Little => from_le,
    };
    row.iter_mut().zip(numbers).for_each(|(to, bytes)| *to = from(*bytes));
    Ok(())
}

impl DdsType for bool {
    const TYPE_NAME: &'static str = "boolean";
    const LAYOUT: Option<PlainLayout<Self>> = None;
    const FINGERPRINT: u64 = Fingerprint::new("primitive").text(Self::TYPE_NAME).finish();
    const MIN_CDR_SIZE: usize = 1;
    const PRIMITIVE: bool = true;

    fn serialize(&self, writer: &mut CdrWriter<'_>) -> Result<(), CdrError> {
        writer.write_bool(*self)
    }

    fn deserialize(reader: &mut CdrReader<'_>) -> Result<Self, CdrError> {
        reader.read_bool()
    }
}

impl DdsType for String {
    const TYPE_NAME: &'static str = "string";
    const LAYOUT: Option<PlainLayout<Self>> = None;
    const FINGERPRINT: u64 = Fingerprint::new("string").finish();
    const MIN_CDR_SIZE: usize = size_of::<u32>();
    const BOUNDS: usize = 1;

    fn serialize(&self, writer: &mut CdrWriter<'_>) -> Result<(), CdrError> {
        writer.write_string(self, UNBOUNDED)
    }

    fn deserialize(reader: &mut CdrReader<'_>) -> Result<Self, CdrError> {
        reader.read_string(UNBOUNDED).map(str::to_owned)
    }

    fn serialize_bounded(
        &self,
        writer: &mut CdrWriter<'_>,
        bounds: &[u32],
    ) -> Result<(), CdrError> {
        writer.write_string(self, bounds.first().copied().unwrap_or(UNBOUNDED))
    }

    fn deserialize_bounded(reader: &mut CdrReader<'_>, bounds: &[u32]) -> Result<Self, CdrError> {
        reader.read_string(bounds.first().copied().unwrap_or(UNBOUNDED)).map(str::to_owned)
    }
}
