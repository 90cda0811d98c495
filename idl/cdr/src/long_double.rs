//! Floating-point numbers of 128 bits, which Rust does not have.
//!
//! Owns their bytes, their decimal form, and their comparison. Never does: arithmetic.

use std::cmp::Ordering;
use std::fmt;

use rustc_apfloat::ieee::Quad;
use rustc_apfloat::{Float, Round};

use crate::{
    CdrError, CdrReader, CdrWriter, DdsType, Endianness, Fingerprint, PlainLayout, TypeDescriptor,
    TypeKind,
};

/// A floating-point number of 128 bits (IEEE 754 binary128), least significant byte first: IDL's
/// `long double`.
///
/// Two numbers are equal if all bits are equal: a NaN can equal itself, and the two zeroes differ.
/// [`LongDouble::compare`] compares the numeric values.
///
/// ```
/// use idl_cdr::LongDouble;
///
/// let number = |text| LongDouble::parse(text).ok_or("no number");
/// let tenth = number("0.1")?;
/// assert_eq!(tenth.to_string(), "0.1");
/// assert_ne!(tenth, LongDouble::from(0.1), "a double is a tenth to 17 digits only");
/// assert_eq!(number("1e4000")?.to_string(), "1.0e4000");
/// # Ok::<(), &str>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct LongDouble(pub [u8; 16]);

/// Number of decimal digits that distinguishes any two numbers.
const DIGITS: usize = 36;

/// Number of decimal digits up to which each decimal number has its own binary128 number.
const FEWER_DIGITS: usize = 33;

/// Maximum length of a text that is parsed.
const MOST_CHARACTERS: usize = 10_000;

/// Number of fraction bits of an f64, and the number of additional ones of a binary128.
const FRACTION: u32 = 52;
const LONGER: u32 = 112 - FRACTION;
/// Exponent biases.
const BIAS: i32 = 1023;
const LONG_BIAS: i32 = 16383;

impl From<f64> for LongDouble {
    /// Converts exactly.
    fn from(number: f64) -> LongDouble {
        let bits = number.to_bits();
        let sign = u128::from(bits >> 63) << 127;
        let fraction = bits & ((1 << FRACTION) - 1);
        let (exponent, fraction) = match (bits >> FRACTION & 0x7ff) as i32 {
            0x7ff => (0x7fff, fraction),
            0 if fraction == 0 => (0, 0),
            // A subnormal double has no leading one; in the larger exponent range of binary128 it
            // is normal.
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
    /// Returns the number nearest to a decimal one, or infinity if that is too large: `1.5`,
    /// `-1e-4000`; or `NaN`, `Infinity`, `-Infinity`. `None` for any other text, and for more than
    /// 10,000 characters.
    pub fn parse(text: &str) -> Option<LongDouble> {
        let number = match text {
            "NaN" => Quad::NAN,
            "Infinity" => Quad::INFINITY,
            "-Infinity" => -Quad::INFINITY,
            _ => {
                if text.len() > MOST_CHARACTERS || !is_number(text) {
                    return None;
                }
                Quad::from_str_r(text, Round::NearestTiesToEven).ok()?.value
            }
        };
        Some(Self::new(number))
    }

    fn new(number: Quad) -> LongDouble {
        LongDouble(number.to_bits().to_le_bytes())
    }

    fn quad(self) -> Quad {
        Quad::from_bits(u128::from_le_bytes(self.0))
    }

    /// Converts an integer; exact for at most 113 bits.
    pub(crate) fn from_integer(value: i128) -> LongDouble {
        Self::new(Quad::from_i128(value).value)
    }

    /// Returns the number nearest to a decimal one of at most 31 digits.
    pub(crate) fn from_decimal(units: i128, scale: u32) -> LongDouble {
        let one = Quad::from_i128(10_i128.saturating_pow(scale)).value;
        Self::new((Quad::from_i128(units).value / one).value)
    }

    /// Whether the number is neither infinite nor NaN.
    pub fn is_finite(self) -> bool {
        self.quad().is_finite()
    }

    /// Compares two numbers; `None` if one is NaN. The two zeroes are equal.
    pub fn compare(self, other: LongDouble) -> Option<Ordering> {
        self.quad().partial_cmp(&other.quad())
    }

    /// Returns the f64 nearest towards zero: digits that an f64 cannot hold are cut off.
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
            // The largest finite double.
            0x7ff.. => f64::MAX.to_bits(),
            exponent @ 1.. => (exponent as u64) << FRACTION | short,
            // The leading one becomes part of the fraction.
            exponent @ -51..=0 => (short | 1 << FRACTION) >> (1 - exponent),
            _ => 0,
        };
        f64::from_bits(sign | magnitude)
    }
}

/// Formats with enough digits to identify the number. A number written with at most 33 digits is
/// formatted with the same digits. Each NaN is `NaN`.
impl fmt::Display for LongDouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = u128::from_le_bytes(self.0);
        let (exponent, fraction) = ((bits >> 112 & 0x7fff) as i32, bits & ((1 << 112) - 1));
        let sign = if bits >> 127 == 1 { "-" } else { "" };
        let (significand, exponent) = match exponent {
            0x7fff if fraction != 0 => return f.write_str("NaN"),
            0x7fff => return write!(f, "{sign}Infinity"),
            0 if fraction == 0 => return write!(f, "{sign}0.0"),
            0 => (fraction, 1),
            _ => (fraction | 1 << 112, exponent),
        };
        let (all, point) = digits(significand, exponent - LONG_BIAS - 112);
        let mut texts = (FEWER_DIGITS..=DIGITS).map(|count| {
            let (digits, point) = rounded(&all, point, count);
            format!("{sign}{}", written(&digits, point))
        });
        let is_it = |text: &String| LongDouble::parse(text) == Some(*self);
        let text = texts.clone().find(is_it).or_else(|| texts.next_back());
        f.write_str(&text.unwrap_or_default())
    }
}

/// Whether a text is a decimal number, with or without a point or an exponent.
fn is_number(text: &str) -> bool {
    let unsigned = |text: &str| text.strip_prefix(['+', '-']).unwrap_or(text).to_owned();
    let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let (number, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (number, exponent) = (unsigned(number), unsigned(exponent));
    let (whole, part) = number.split_once('.').unwrap_or((&number, ""));
    let some = |text: &str| are_digits(text) && !text.is_empty();
    some(&exponent) && are_digits(whole) && are_digits(part) && whole.len() + part.len() > 0
}

/// Returns all digits of a significand times a power of two, each from 0 to 9, and the number of
/// digits before the decimal point.
fn digits(significand: u128, exponent: i32) -> (Vec<u8>, i32) {
    let mut limbs = vec![significand as u64, (significand >> 64) as u64];
    // For a negative exponent, multiplying by five once per power instead of halving keeps an
    // integer; the decimal point moves by one place each time.
    let (factor, most, mut left) = match exponent >= 0 {
        true => (2_u64, 63, exponent),
        false => (5, 27, -exponent),
    };
    while left > 0 {
        let mut carry = 0;
        let times = u128::from(factor.pow(left.min(most) as u32));
        for limb in &mut limbs {
            let product = u128::from(*limb) * times + carry;
            (*limb, carry) = (product as u64, product >> 64);
        }
        limbs.extend((carry > 0).then_some(carry as u64));
        left -= most;
    }
    const PART: u64 = 10_u64.pow(19);
    let mut reversed = Vec::new();
    while limbs.last().is_some() {
        let mut rest = 0;
        for limb in limbs.iter_mut().rev() {
            let value = rest << 64 | u128::from(*limb);
            *limb = (value / u128::from(PART)) as u64;
            rest = value % u128::from(PART);
        }
        while limbs.last() == Some(&0) {
            limbs.pop();
        }
        reversed.extend((0..19).map(|index| (rest / 10_u128.pow(index) % 10) as u8));
    }
    while reversed.last() == Some(&0) {
        reversed.pop();
    }
    let point = reversed.len() as i32 + exponent.min(0);
    reversed.reverse();
    (reversed, point)
}

/// Rounds to a number of digits and removes trailing zeroes.
fn rounded(all: &[u8], point: i32, count: usize) -> (Vec<u8>, i32) {
    let mut kept = all[..count.min(all.len())].to_vec();
    let mut point = point;
    if all.get(count).is_some_and(|next| *next >= 5) {
        let nines = kept.iter().rev().take_while(|digit| **digit == 9).count();
        kept.truncate(kept.len() - nines);
        match kept.last_mut() {
            Some(last) => *last += 1,
            None => {
                kept.push(1);
                point += 1;
            }
        }
    }
    while kept.last() == Some(&0) {
        kept.pop();
    }
    (kept, point)
}

/// Writes digits with a decimal point; very large or small numbers have the point after the first
/// digit and an exponent.
fn written(digits: &[u8], point: i32) -> String {
    let text: String = digits.iter().map(|digit| char::from(b'0' + digit)).collect();
    let with_point = |text: &str, at: usize| match text.len() > at {
        true => format!("{}.{}", &text[..at], &text[at..]),
        false => format!("{text:0<at$}.0"),
    };
    match point {
        1..=21 => with_point(&text, point as usize),
        -4..=0 => format!("0.{}{text}", "0".repeat(-point as usize)),
        _ => format!("{}e{}", with_point(&text, 1), point - 1),
    }
}

impl DdsType for LongDouble {
    const TYPE_NAME: &'static str = "long double";
    const DESCRIPTOR: TypeDescriptor =
        TypeDescriptor { name: Self::TYPE_NAME, kind: TypeKind::Primitive(16) };
    const LAYOUT: Option<PlainLayout<Self>> = {
        let hash = Fingerprint::new("primitive").text(Self::TYPE_NAME).finish();
        // SAFETY: the type is sixteen bytes and nothing else, and every bit pattern is valid.
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

/// Alignment, where the encoding allows it.
const ALIGN: usize = 8;

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
mod tests {
    use super::*;

    #[test]
    fn long_double_holds_every_double() {
        let some = [0.0, 1.0, -2.5, f64::MAX, f64::MIN_POSITIVE, f64::INFINITY, 5e-324, 1e-310];
        for number in some.into_iter().flat_map(|number| [number, -number]) {
            assert_eq!(LongDouble::from(number).to_f64().to_bits(), number.to_bits(), "{number}");
        }
        assert!(LongDouble::from(f64::NAN).to_f64().is_nan());
        // The number one by the definition of the standard: a zero exponent plus its bias.
        assert_eq!(u128::from_le_bytes(LongDouble::from(1.0).0), 0x3fff_u128 << 112);
        assert_eq!(
            LongDouble([0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xfe, 0x7f]).to_f64(),
            f64::MAX
        );
    }

    /// The bits are those of IEEE 754 for the format: 1 bit of sign, 15 of exponent, 112
    /// of fraction.
    #[test]
    fn long_double_parses_to_nearest_number_and_prints_same_digits() {
        for (text, bits) in [
            ("0.0", 0),
            ("-0.0", 1 << 127),
            ("1.0", 0x3fff << 112),
            ("-2.5", 0xc000_4000 << 96),
            // 1/10 is 0.0001100110011..., rounded up in its last bit.
            ("0.1", 0x3ffb_9999_9999_9999_9999_9999_9999_999a),
            ("1.189731495357231765085759326628007e4932", 0x7ffe_ffff_ffff_ffff_ffff_ffff_ffff_ffff),
            ("3.3621031431120935062626778173217526e-4932", 1 << 112),
            ("Infinity", 0x7fff << 112),
            ("-Infinity", 0xffff << 112),
        ] {
            let found = LongDouble::parse(text).unwrap();
            assert_eq!(u128::from_le_bytes(found.0), bits, "{text}");
            assert_eq!(found.to_string(), text);
        }
        assert_eq!(LongDouble::parse("+1E4000").unwrap().to_string(), "1.0e4000");
        assert_eq!(LongDouble::parse("1e5000").unwrap().to_string(), "Infinity");
        assert_eq!(LongDouble::parse("1e-99999999999999999999").unwrap().to_string(), "0.0");
        assert_eq!(LongDouble::parse("NaN").unwrap().to_string(), "NaN");
        // The smallest number, and numbers for which every digit counts.
        for bits in [1, 0x3fff_1234_5678_9abc_def0_1234_5678_9abc_u128, (0x3fff << 112) + 1] {
            let number = LongDouble(bits.to_le_bytes());
            assert_eq!(LongDouble::parse(&number.to_string()), Some(number), "{number}");
        }
        let long = "9".repeat(MOST_CHARACTERS + 1);
        for none in
            ["", ".", "-", "e", "1e", "1e+", "--1", "1..2", "0x1p3", "inf", "nan", "x", &long]
        {
            assert_eq!(LongDouble::parse(none), None, "{none}");
        }
    }

    #[test]
    fn long_double_comparison_uses_all_bits() {
        let number = |text| LongDouble::parse(text).unwrap();
        let all = ["-Infinity", "-1e4000", "-1.0", "0.0", "0.1", "1.0", "1e4000", "Infinity"];
        for (index, one) in all.iter().enumerate() {
            for (other_place, other) in all.iter().enumerate() {
                let found = number(one).compare(number(other));
                assert_eq!(found, Some(index.cmp(&other_place)), "{one} {other}");
            }
            assert_eq!(number(one).compare(number("NaN")), None);
        }
        assert_eq!(number("0.0").compare(number("-0.0")), Some(Ordering::Equal));
        let more = number("1.0000000000000000000000000000000002");
        assert_eq!(number("1.0").compare(more), Some(Ordering::Less));
        assert_eq!(LongDouble::from_decimal(-1, 1), number("-0.1"));
        assert_eq!(LongDouble::from_integer(i64::MAX.into()), number("9223372036854775807"));
    }

    /// Numbers of any size, and numbers next to powers of ten and two, where rounding affects
    /// all digits.
    #[test]
    fn long_double_survives_round_trip_through_digits() {
        let mut seed = 7_u128;
        let random = (0..500_u128).map(|number| {
            seed =
                seed.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835).wrapping_add(number);
            seed ^ seed >> 64
        });
        let powers = (-4950..4932).step_by(61).map(|power| format!("1e{power}"));
        let powers = powers.map(|text| u128::from_le_bytes(LongDouble::parse(&text).unwrap().0));
        let twos = (0..0x7fff_u128).step_by(61).map(|exponent| exponent << 112);
        let all = random
            .chain(powers)
            .chain(twos)
            .flat_map(|bits| [bits, bits + 1, bits.saturating_sub(1)]);
        for number in all.map(|bits| LongDouble(bits.to_le_bytes())) {
            let text = number.to_string();
            let again = LongDouble::parse(&text).unwrap();
            assert!(again == number || text == "NaN", "{text}: {:x?}", number.0);
        }
    }
}
