//! Enumerations, bitmasks and bitsets: integers with names.
//!
//! Owns how many bytes such an integer takes and what it may be. Never knows the names.

use crate::{CdrError, CdrReader, CdrWriter, DdsType};

/// How many bytes an integer of so many bits takes.
pub const fn bytes_for(bits: u32) -> usize {
    match bits {
        0..=8 => 1,
        9..=16 => 2,
        17..=32 => 4,
        _ => 8,
    }
}

/// The length code of a parameter of so many bytes.
pub const fn length_code_for(bytes: usize) -> u32 {
    match bytes {
        1 => 0,
        2 => 1,
        4 => 2,
        8 => 3,
        _ => 4,
    }
}

/// Whether the number of an enumerator fits into so many bits, with a sign or without.
pub const fn fits_bits(number: i128, bits: u32) -> bool {
    number >= -(1 << (bits - 1))
        && number < 1 << bits
        && number >= i32::MIN as i128
        && number <= i32::MAX as i128
}

/// The lowest bits of a number, which are what is written.
pub const fn lowest(number: i32, bits: u32) -> u32 {
    number as u32 & (u32::MAX >> (32 - 8 * bytes_for(bits) as u32))
}

/// Writes an integer of so many bits.
#[inline]
pub fn write_bits(writer: &mut CdrWriter<'_>, number: u64, bits: u32) -> Result<(), CdrError> {
    match bytes_for(bits) {
        1 => writer.write_u8(number as u8),
        2 => writer.write_u16(number as u16),
        4 => writer.write_u32(number as u32),
        _ => writer.write_u64(number),
    }
}

/// Reads an integer of so many bits.
#[inline]
pub fn read_bits(reader: &mut CdrReader<'_>, bits: u32) -> Result<u64, CdrError> {
    match bytes_for(bits) {
        1 => reader.read_u8().map(u64::from),
        2 => reader.read_u16().map(u64::from),
        4 => reader.read_u32().map(u64::from),
        _ => reader.read_u64(),
    }
}

/// Reads an enumerator; `find` gives the one of which these are the lowest bits.
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
    /// How many bits it has at most.
    const MOST: u32;

    /// Its bits, if they fit into so many.
    fn to_bits(self, bits: u32) -> Option<u64>;

    /// The value of so many bits.
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
                    // Shifted up and down again, so that the sign of a signed one comes along.
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

/// The bits of a bitset's field in their place, or which field they do not fit.
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

/// The field of a bitset that has its lowest bit at this position.
pub fn take_bits<B: Bits>(number: u64, position: u32, bits: u32) -> B {
    B::from_bits(number >> position & mask(bits), bits)
}
