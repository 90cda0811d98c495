//! [`DdsType`] for numbers and `bool`.
//!
//! Owns the IDL names of the primitives. Arrays and sequences of numbers are copied in one call,
//! without zeroing the memory first.

use crate::enumeration::length_code_for;
use crate::key::ShortKey;
use crate::plain::plain_row;
use crate::{
    CdrError, CdrReader, CdrWriter, DdsType, Endianness, Fingerprint, Limits, PlainLayout,
    TypeDescriptor, TypeKind,
};

macro_rules! number {
    ($($number:ty, $name:literal, $write:ident, $read:ident;)*) => {
        $(
            impl DdsType for $number {
                const TYPE_NAME: &'static str = $name;
                const DESCRIPTOR: TypeDescriptor =
                    TypeDescriptor { name: $name, kind: TypeKind::Primitive(size_of::<Self>()) };
                const LAYOUT: Option<PlainLayout<Self>> = {
                    let hash = Fingerprint::new("primitive")
                        .text($name)
                        .number(cfg!(target_endian = "big") as u64)
                        .finish();
                    // SAFETY: every bit pattern is a valid integer or floating-point number, and
                    // these types have no pointers, padding or interior mutability.
                    Some(unsafe { PlainLayout::new(hash) })
                };
                const MIN_CDR_SIZE: usize = size_of::<Self>();
                const PRIMITIVE: bool = true;
                const LENGTH_CODE: u32 = length_code_for(size_of::<Self>());

                #[inline(always)]
                fn default_value() -> Self {
                    Self::default()
                }

                #[inline(always)]
                fn serialize(&self, writer: &mut CdrWriter<'_>) -> Result<(), CdrError> {
                    writer.$write(*self)
                }

                #[inline(always)]
                fn deserialize(reader: &mut CdrReader<'_>) -> Result<Self, CdrError> {
                    reader.$read()
                }

                #[inline(always)]
                fn put_in_key(&self, key: &mut ShortKey) -> Option<()> {
                    key.put(self.to_be_bytes())
                }

                fn serialize_row(
                    row: &[Self],
                    writer: &mut CdrWriter<'_>,
                    _bounds: &[u32],
                ) -> Result<(), CdrError> {
                    // An empty row takes no bytes, not even for alignment.
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
                    _limits: Limits<'_>,
                ) -> Result<[Self; N], CdrError> {
                    let mut row = [Self::default(); N];
                    let numbers = take_row(reader, N)?;
                    let places = row.iter_mut().zip(numbers);
                    match reader.encoding().endianness {
                        Endianness::Big => {
                            places.for_each(|(to, bytes)| *to = Self::from_be_bytes(*bytes));
                        }
                        Endianness::Little => {
                            places.for_each(|(to, bytes)| *to = Self::from_le_bytes(*bytes));
                        }
                    }
                    Ok(row)
                }

                fn deserialize_elements(
                    reader: &mut CdrReader<'_>,
                    count: usize,
                    _limits: Limits<'_>,
                ) -> Result<Vec<Self>, CdrError> {
                    let numbers = take_row(reader, count)?;
                    let is_native = reader.encoding().endianness == Endianness::NATIVE;
                    if is_native && let Some(row) = plain_row(numbers.as_flattened()) {
                        return Ok(row);
                    }
                    let numbers = numbers.iter();
                    Ok(match reader.encoding().endianness {
                        Endianness::Big => {
                            numbers.map(|bytes| Self::from_be_bytes(*bytes)).collect()
                        }
                        Endianness::Little => {
                            numbers.map(|bytes| Self::from_le_bytes(*bytes)).collect()
                        }
                    })
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

/// Takes the bytes of `count` numbers of `SIZE` bytes each.
fn take_row<'a, const SIZE: usize>(
    reader: &mut CdrReader<'a>,
    count: usize,
) -> Result<&'a [[u8; SIZE]], CdrError> {
    if count == 0 {
        return Ok(&[]);
    }
    let bytes = reader.take(SIZE, count.saturating_mul(SIZE), "a row of numbers")?;
    Ok(bytes.as_chunks::<SIZE>().0)
}

impl DdsType for bool {
    const TYPE_NAME: &'static str = "boolean";
    const DESCRIPTOR: TypeDescriptor =
        TypeDescriptor { name: Self::TYPE_NAME, kind: TypeKind::Primitive(1) };
    const LAYOUT: Option<PlainLayout<Self>> = None;
    const MIN_CDR_SIZE: usize = 1;
    const PRIMITIVE: bool = true;
    const LENGTH_CODE: u32 = 0;

    fn default_value() -> Self {
        false
    }

    #[inline(always)]
    fn serialize(&self, writer: &mut CdrWriter<'_>) -> Result<(), CdrError> {
        writer.write_bool(*self)
    }

    #[inline(always)]
    fn deserialize(reader: &mut CdrReader<'_>) -> Result<Self, CdrError> {
        reader.read_bool()
    }

    #[inline(always)]
    fn put_in_key(&self, key: &mut ShortKey) -> Option<()> {
        key.put([u8::from(*self)])
    }

    fn serialize_row(
        row: &[Self],
        writer: &mut CdrWriter<'_>,
        _bounds: &[u32],
    ) -> Result<(), CdrError> {
        if let Some(room) = writer.claim(1, row.len())? {
            room.iter_mut().zip(row).for_each(|(to, &flag)| *to = u8::from(flag));
        }
        Ok(())
    }

    fn deserialize_elements(
        reader: &mut CdrReader<'_>,
        count: usize,
        _limits: Limits<'_>,
    ) -> Result<Vec<Self>, CdrError> {
        let offset = reader.position();
        let bytes = reader.take(1, count, "a row of booleans")?;
        if let Some(index) = bytes.iter().position(|&byte| byte > 1) {
            return Err(CdrError::InvalidBool { offset: offset + index, found: bytes[index] });
        }
        Ok(bytes.iter().map(|&byte| byte == 1).collect())
    }
}
