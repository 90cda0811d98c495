//! Numbers that Rust does not have: decimals with a fixed point, and floating-point ones of 128 bits.
//!
//! Owns their bytes. Never does: arithmetic.

use std::fmt;

use crate::{
    CdrError, CdrReader, CdrWriter, DdsType, Endianness, Fingerprint, PlainLayout, TypeDescriptor,
    TypeKind,
};

/// A decimal number of `DIGITS` digits (at most 31), of which `SCALE` are behind the point: IDL's
/// `fixed<DIGITS, SCALE>`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fixed<const DIGITS: u32, const SCALE: u32>(i128);

impl<const DIGITS: u32, const SCALE: u32> Fixed<DIGITS, SCALE> {
    const LIMIT: i128 = {
        assert!(DIGITS >= 1 && DIGITS <= 31, "a fixed has 1 to 31 digits");
        assert!(SCALE <= DIGITS, "a fixed has no more digits behind the point than in all");
        10_i128.pow(DIGITS)
    };

    /// The number with these digits, the point left out: 12.5 with a scale of two is 1250. `None` if there
    /// are too many.
    pub const fn from_units(units: i128) -> Option<Self> {
        if units > -Self::LIMIT && units < Self::LIMIT { Some(Self(units)) } else { None }
    }

    /// Its digits, the point left out.
    pub const fn units(self) -> i128 {
        self.0
    }

    pub(crate) const fn units_ref(&self) -> &i128 {
        &self.0
    }
}

impl<const DIGITS: u32, const SCALE: u32> fmt::Display for Fixed<DIGITS, SCALE> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (one, sign) = (10_u128.pow(SCALE), if self.0 < 0 { "-" } else { "" });
        let (whole, part) = (self.0.unsigned_abs() / one, self.0.unsigned_abs() % one);
        match SCALE as usize {
            0 => write!(f, "{sign}{whole}"),
            scale => write!(f, "{sign}{whole}.{part:0scale$}"),
        }
    }
}

/// Two digits a byte, the highest first; the last half byte is the sign: 12 for plus, 13 for minus.
impl<const DIGITS: u32, const SCALE: u32> DdsType for Fixed<DIGITS, SCALE> {
    const TYPE_NAME: &'static str = "fixed";
    const DESCRIPTOR: TypeDescriptor = TypeDescriptor {
        name: Self::TYPE_NAME,
        kind: TypeKind::Fixed { digits: DIGITS, scale: SCALE },
    };
    const LAYOUT: Option<PlainLayout<Self>> = None;
    /// To peers it is an array of octets, and an array of arrays is one.
    const PRIMITIVE_ROW: bool = true;
    const MIN_CDR_SIZE: usize = DIGITS as usize / 2 + 1;

    fn default_value() -> Self {
        Self(0)
    }

    fn serialize(&self, writer: &mut CdrWriter<'_>) -> Result<(), CdrError> {
        const { assert!(Self::LIMIT > 0) };
        write_fixed(writer, self.0, DIGITS)
    }

    fn deserialize(reader: &mut CdrReader<'_>) -> Result<Self, CdrError> {
        const { assert!(Self::LIMIT > 0) };
        read_fixed(reader, DIGITS).map(Self)
    }
}

/// Writes a decimal number of at most 31 digits.
pub fn write_fixed(writer: &mut CdrWriter<'_>, units: i128, digits: u32) -> Result<(), CdrError> {
    let size = digits as usize / 2 + 1;
    let mut rest = units.unsigned_abs();
    let mut half = if units < 0 { MINUS } else { PLUS };
    let mut bytes = [0; MOST_BYTES];
    for byte in bytes[..size].iter_mut().rev() {
        *byte = half | ((rest % 10) as u8) << 4;
        half = (rest / 10 % 10) as u8;
        rest /= 100;
    }
    writer.write_bytes(&bytes[..size])
}

/// Reads a decimal number of at most 31 digits.
pub fn read_fixed(reader: &mut CdrReader<'_>, digits: u32) -> Result<i128, CdrError> {
    let offset = reader.position();
    let invalid = CdrError::InvalidFixed { offset };
    let bytes = reader.read_bytes(digits as usize / 2 + 1)?;
    let (mut units, mut sign) = (0_i128, 0);
    let halves = bytes.iter().flat_map(|byte| [byte >> 4, byte & 0xf]);
    for (index, half) in halves.enumerate() {
        if index + 1 == 2 * bytes.len() {
            sign = half;
        } else if half > 9 {
            return Err(invalid);
        } else {
            units = units * 10 + i128::from(half);
        }
    }
    match sign {
        _ if units >= 10_i128.pow(digits) => Err(invalid),
        PLUS => Ok(units),
        MINUS => Ok(-units),
        _ => Err(invalid),
    }
}

const PLUS: u8 = 0xc;
const MINUS: u8 = 0xd;
const MOST_BYTES: usize = 16;

/// A floating-point number of 128 bits (IEEE 754 binary128), least significant byte first: IDL's
/// `long double`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct LongDouble(pub [u8; 16]);

/// Bits of the fraction of an f64, and how many more a binary128 has.
const FRACTION: u32 = 52;
const LONGER: u32 = 112 - FRACTION;
/// What is added to exponents.
const BIAS: i32 = 1023;
const LONG_BIAS: i32 = 16383;

impl From<f64> for LongDouble {
    /// The same number.
    fn from(number: f64) -> LongDouble {
        let bits = number.to_bits();
        let sign = u128::from(bits >> 63) << 127;
        let fraction = bits & ((1 << FRACTION) - 1);
        let (exponent, fraction) = match (bits >> FRACTION & 0x7ff) as i32 {
            0x7ff => (0x7fff, fraction),
            0 if fraction == 0 => (0, 0),
            // Too small to have a leading one; among so many more exponents it has one.
            0 => {
                let shift = fraction.leading_zeros() - (63 - FRACTION);
                let fraction = fraction << shift & ((1 << FRACTION) - 1);
                (LONG_BIAS - BIAS + 1 - shift as i32, fraction)
            }
            exponent => (exponent + LONG_BIAS - BIAS, fraction),
        };
        let bits = sign | (exponent as u128) << 112 | u128::from(fraction) << LONGER;
        LongDouble(bits.to_le_bytes())
    }
}

impl LongDouble {
    /// The nearest number that an f64 can be, towards zero: what it cannot hold is cut off.
    pub fn to_f64(self) -> f64 {
        let bits = u128::from_le_bytes(self.0);
        let sign = ((bits >> 127) as u64) << 63;
        let exponent = (bits >> 112 & 0x7fff) as i32;
        let fraction = bits & ((1 << 112) - 1);
        let short = (fraction >> LONGER) as u64;
        let magnitude = match exponent - LONG_BIAS + BIAS {
            _ if exponent == 0x7fff && fraction != 0 => {
                0x7ff << FRACTION | short | 1 << (FRACTION - 1)
            }
            _ if exponent == 0x7fff => 0x7ff << FRACTION,
            // The largest there is.
            0x7ff.. => f64::MAX.to_bits(),
            exponent @ 1.. => (exponent as u64) << FRACTION | short,
            // The leading one becomes part of the fraction.
            exponent @ -51..=0 => (short | 1 << FRACTION) >> (1 - exponent),
            _ => 0,
        };
        f64::from_bits(sign | magnitude)
    }
}

impl DdsType for LongDouble {
    const TYPE_NAME: &'static str = "long double";
    const DESCRIPTOR: TypeDescriptor =
        TypeDescriptor { name: Self::TYPE_NAME, kind: TypeKind::Primitive(16) };
    const LAYOUT: Option<PlainLayout<Self>> = {
        let hash = Fingerprint::new("primitive").text(Self::TYPE_NAME).finish();
        // SAFETY: it is sixteen bytes and nothing else, of which every bit pattern is valid.
        Some(unsafe { PlainLayout::new(hash) })
    };
    const MIN_CDR_SIZE: usize = 16;
    const PRIMITIVE: bool = true;

    fn default_value() -> Self {
        LongDouble::default()
    }

    fn serialize(&self, writer: &mut CdrWriter<'_>) -> Result<(), CdrError> {
        let mut bytes = self.0;
        if writer.encoding().endianness == Endianness::Big {
            bytes.reverse();
        }
        writer.put(ALIGN, &bytes)
    }

    fn deserialize(reader: &mut CdrReader<'_>) -> Result<Self, CdrError> {
        let taken = reader.take(ALIGN, 16, "a 128-bit floating-point number")?;
        let mut bytes = [0; 16];
        bytes.copy_from_slice(taken);
        if reader.encoding().endianness == Endianness::Big {
            bytes.reverse();
        }
        Ok(LongDouble(bytes))
    }
}

/// Its alignment, where the encoding allows so much.
const ALIGN: usize = 8;

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
mod tests {
    use super::*;
    use crate::{from_cdr, to_cdr};

    #[test]
    fn long_doubles_hold_every_double() {
        let some = [0.0, 1.0, -2.5, f64::MAX, f64::MIN_POSITIVE, f64::INFINITY, 5e-324, 1e-310];
        for number in some.into_iter().flat_map(|number| [number, -number]) {
            assert_eq!(LongDouble::from(number).to_f64().to_bits(), number.to_bits(), "{number}");
        }
        assert!(LongDouble::from(f64::NAN).to_f64().is_nan());
        // The number one, from the standard's definition: an exponent of nothing, without its bias.
        assert_eq!(u128::from_le_bytes(LongDouble::from(1.0).0), 0x3fff_u128 << 112);
        assert_eq!(
            LongDouble([0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xfe, 0x7f]).to_f64(),
            f64::MAX
        );
    }

    #[test]
    fn a_fixed_is_its_digits_and_a_sign() {
        type Price = Fixed<5, 2>;
        let price = Price::from_units(-12345).unwrap();
        assert_eq!(price.to_string(), "-123.45");
        assert_eq!(&to_cdr(&price).unwrap()[4..7], [0x12, 0x34, 0x5d]);
        assert_eq!(from_cdr::<Price>(&to_cdr(&price).unwrap()), Ok(price));
        type Even = Fixed<4, 0>;
        let even = Even::from_units(9876).unwrap();
        assert_eq!(&to_cdr(&even).unwrap()[4..7], [0x09, 0x87, 0x6c]);
        assert_eq!((even.to_string().as_str(), Even::from_units(10_000)), ("9876", None));
        for wrong in [[0x19, 0x87, 0x6c], [0x09, 0x8a, 0x6c], [0x09, 0x87, 0x61]] {
            let payload = [&[0, 7, 0, 1][..], &wrong, &[0]].concat();
            assert_eq!(from_cdr::<Even>(&payload), Err(CdrError::InvalidFixed { offset: 4 }));
        }
    }
}
