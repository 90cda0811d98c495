//! Decimal fixed-point numbers, which Rust does not have.
//!
//! Owns their bytes. Never does: arithmetic.

use std::fmt;

use crate::{CdrError, CdrReader, CdrWriter, DdsType, PlainLayout, TypeDescriptor, TypeKind};

/// A decimal number of `DIGITS` digits (at most 31), `SCALE` of them after the decimal point: IDL's
/// `fixed<DIGITS, SCALE>`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fixed<const DIGITS: u32, const SCALE: u32>(i128);

impl<const DIGITS: u32, const SCALE: u32> Fixed<DIGITS, SCALE> {
    const LIMIT: i128 = {
        assert!(DIGITS >= 1 && DIGITS <= 31, "a fixed has 1 to 31 digits");
        assert!(SCALE <= DIGITS, "the scale of a fixed is at most its number of digits");
        10_i128.pow(DIGITS)
    };

    /// Makes a number from its digits without the decimal point: 12.5 with a scale of two is 1250.
    /// `None` if there are too many digits.
    pub const fn from_units(units: i128) -> Option<Self> {
        if units > -Self::LIMIT && units < Self::LIMIT { Some(Self(units)) } else { None }
    }

    /// Returns the digits without the decimal point.
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

/// Two digits per byte, the highest first. The last half byte is the sign: 12 for plus, 13
/// for minus.
impl<const DIGITS: u32, const SCALE: u32> DdsType for Fixed<DIGITS, SCALE> {
    const TYPE_NAME: &'static str = "fixed";
    const DESCRIPTOR: TypeDescriptor = TypeDescriptor {
        name: Self::TYPE_NAME,
        kind: TypeKind::Fixed { digits: DIGITS, scale: SCALE },
    };
    const LAYOUT: Option<PlainLayout<Self>> = None;
    /// Peers treat the number as an array of octets, and an array of arrays is one array.
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

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
mod tests {
    use super::*;
    use crate::{from_cdr, to_cdr};

    #[test]
    fn fixed_is_encoded_as_digits_and_sign() {
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
