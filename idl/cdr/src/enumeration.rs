//! Enumerations, bitmasks and bitsets: integers with names.
//!
//! Owns the size and the allowed values of such an integer. Never knows the names.

use crate::{CdrError, CdrReader, CdrWriter, DdsType};

/// Returns the size in bytes of an integer with this number of bits.
pub const fn bytes_for(bits: u32) -> usize {
    match bits {
        0..=8 => 1,
        9..=16 => 2,
        17..=32 => 4,
        _ => 8,
    }
}

/// Returns the length code of a parameter with this size in bytes.
pub const fn length_code_for(bytes: usize) -> u32 {
    match bytes {
        1 => 0,
        2 => 1,
        4 => 2,
        8 => 3,
        _ => 4,
    }
}

/// Whether the number of an enumerator fits into this number of bits, signed or unsigned.
pub const fn fits_bits(number: i128, bits: u32) -> bool {
    number >= -(1 << (bits - 1))
        && number < 1 << bits
        && number >= i32::MIN as i128
        && number <= i32::MAX as i128
}

/// Returns the lowest bits of a number, which are the ones written.
pub const fn lowest(number: i32, bits: u32) -> u32 {
    number as u32 & (u32::MAX >> (32 - 8 * bytes_for(bits) as u32))
}

/// Writes an integer with this number of bits.
#[inline]
pub fn write_bits(writer: &mut CdrWriter<'_>, number: u64, bits: u32) -> Result<(), CdrError> {
    match bytes_for(bits) {
        1 => writer.write_u8(number as u8),
        2 => writer.write_u16(number as u16),
        4 => writer.write_u32(number as u32),
        _ => writer.write_u64(number),
    }
}

/// Reads an integer with this number of bits.
#[inline]
pub fn read_bits(reader: &mut CdrReader<'_>, bits: u32) -> Result<u64, CdrError> {
    match bytes_for(bits) {
        1 => reader.read_u8().map(u64::from),
        2 => reader.read_u16().map(u64::from),
        4 => reader.read_u32().map(u64::from),
        _ => reader.read_u64(),
    }
}

/// Reads an enumerator. `find` returns the enumerator with the given lowest bits.
#[inline]
pub fn read_enumerator<T: DdsType>(
    reader: &mut CdrReader<'_>,
    bits: u32,
    find: impl Fn(u32) -> Option<T>,
) -> Result<T, CdrError> {
    let offset = reader.position();
    let found = read_bits(reader, bits)? as u32;
    match find(found) {
        Some(enumerator) => Ok(enumerator),
        None => {
            reader.fault(CdrError::UnknownEnumerator { offset, type_name: T::TYPE_NAME, found })?;
            Ok(T::default_value())
        }
    }
}

/// The type of a bitset's field.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a field of a bitset",
    note = "use bool or an integer from 8 to 64 bits"
)]
pub trait Bits: Copy {
    /// Maximum number of bits.
    const MOST: u32;

    /// Returns the bits, if the value fits into this number of bits.
    fn to_bits(self, bits: u32) -> Option<u64>;

    /// Makes a value from its bits.
    fn from_bits(number: u64, bits: u32) -> Self;
}

macro_rules! bits {
    ($($integer:ty),*) => {
        $(
            impl Bits for $integer {
                const MOST: u32 = Self::BITS;

                fn to_bits(self, bits: u32) -> Option<u64> {
                    let number = self as u64 & mask(bits);
                    (Self::from_bits(number, bits) == self).then_some(number)
                }

                fn from_bits(number: u64, bits: u32) -> Self {
                    let free = 64 - bits;
                    // Shifting up and down again extends the sign of a signed value.
                    if Self::MIN == 0 {
                        (number << free >> free) as Self
                    } else {
                        ((number << free) as i64 >> free) as Self
                    }
                }
            }
        )*
    };
}

bits!(u8, i8, u16, i16, u32, i32, u64, i64);

impl Bits for bool {
    const MOST: u32 = 1;

    fn to_bits(self, _bits: u32) -> Option<u64> {
        Some(u64::from(self))
    }

    fn from_bits(number: u64, _bits: u32) -> Self {
        number & 1 == 1
    }
}

const fn mask(bits: u32) -> u64 {
    u64::MAX >> (64 - bits)
}

/// Returns the bits of a bitset's field shifted to their position, or the field whose bits they do
/// not fit.
pub fn place_bits<B: Bits>(
    value: B,
    position: u32,
    bits: u32,
    type_name: &'static str,
    member: &'static str,
) -> Result<u64, CdrError> {
    match value.to_bits(bits) {
        Some(number) => Ok(number << position),
        None => Err(CdrError::BitsExceeded { bits }.in_member(type_name, member)),
    }
}

/// Returns the field of a bitset whose lowest bit is at this position.
pub fn take_bits<B: Bits>(number: u64, position: u32, bits: u32) -> B {
    B::from_bits(number >> position & mask(bits), bits)
}
