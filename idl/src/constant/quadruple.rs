//! Floating-point numbers of 128 bits.
//!
//! Owns arithmetic as IEEE 754 defines it for binary128: each result is rounded to the nearest
//! number, ties to even. Results that are not finite numbers are `None`.

use std::fmt;

use rustc_apfloat::ieee::{Double, Quad};
use rustc_apfloat::{Float, FloatConvert, Round, StatusAnd};

/// Number of decimal digits that distinguishes any two numbers.
const DIGITS: usize = 36;

/// A finite number of the type `long double`: IEEE 754 binary128.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Quadruple(Quad);

impl Quadruple {
    /// Reads a decimal number; `None` if the text is not a number or the number is too large.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        Self::finite(Quad::from_str_r(text, Round::NearestTiesToEven).ok()?)
    }

    pub(crate) fn from_integer(value: i128) -> Option<Self> {
        Self::finite(Quad::from_i128(value))
    }

    /// Converts exactly; `None` if the value is not finite.
    pub(crate) fn from_f64(value: f64) -> Option<Self> {
        let mut is_another = false;
        Self::finite(Double::from_bits(value.to_bits().into()).convert(&mut is_another))
    }

    fn finite(found: StatusAnd<Quad>) -> Option<Self> {
        found.value.is_finite().then_some(Self(found.value))
    }

    /// Returns the nearest double, which is infinite if the number is larger than every double.
    pub fn to_f64(self) -> f64 {
        let mut is_another = false;
        let double: Double = self.0.convert(&mut is_another).value;
        f64::from_bits(double.to_bits() as u64)
    }

    /// Returns the bits, with the sign as the highest bit.
    pub fn to_bits(self) -> u128 {
        self.0.to_bits()
    }

    /// Returns the double that is exactly this number, if there is one.
    pub(crate) fn exact_f64(self) -> Option<f64> {
        let double = self.to_f64();
        (Self::from_f64(double)?.to_bits() == self.to_bits()).then_some(double)
    }

    pub(crate) fn negate(self) -> Self {
        Self(-self.0)
    }

    /// Computes `+`, `-`, `*` or `/`; `None` if there is no finite result.
    pub(crate) fn calculate(self, operator: &str, other: Self) -> Option<Self> {
        Self::finite(match operator {
            "+" => self.0 + other.0,
            "-" => self.0 - other.0,
            "*" => self.0 * other.0,
            _ => self.0 / other.0,
        })
    }
}

/// Formats with the fewest digits that identify the number.
impl fmt::Display for Quadruple {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts = (1..=DIGITS).map(|digits| format!("{:.digits$}", self.0));
        let is_it =
            |text: &String| Self::parse(text).is_some_and(|it| it.to_bits() == self.to_bits());
        let text = texts.into_iter().find(is_it);
        f.write_str(&text.unwrap_or_else(|| format!("{:.DIGITS$}", self.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bits(text: &str) -> u128 {
        Quadruple::parse(text).unwrap().to_bits()
    }

    /// The expected bits are those of IEEE 754 for the format: 1 bit of sign, 15 of exponent, 112
    /// of fraction.
    #[test]
    fn decimal_literal_becomes_nearest_quadruple() {
        for (text, wanted) in [
            ("0.0", 0),
            ("1.0", 0x3fff << 112),
            ("-2.5", 0xc000_4000 << 96),
            // 1/10 is 0.0001100110011..., rounded up in its last bit.
            ("0.1", 0x3ffb_9999_9999_9999_9999_9999_9999_999a),
            // The largest number, and the smallest normal number.
            (
                "1.18973149535723176508575932662800702e4932",
                0x7ffe_ffff_ffff_ffff_ffff_ffff_ffff_ffff,
            ),
            ("3.36210314311209350626267781732175260e-4932", 0x0001_u128 << 112),
        ] {
            assert_eq!(bits(text), wanted, "{text}: {:032x}", bits(text));
        }
        for none in ["1.2e4932", "x", ""] {
            assert_eq!(Quadruple::parse(none), None, "{none}");
        }
        assert_eq!(bits("1e-5000"), 0, "too small is zero");
    }

    #[test]
    fn quadruple_arithmetic_has_full_precision() {
        let number = |text| Quadruple::parse(text).unwrap();
        let third = number("1.0").calculate("/", number("3.0")).unwrap();
        assert_eq!(third.to_bits(), 0x3ffd_5555_5555_5555_5555_5555_5555_5555);
        let large = number("1e4000").calculate("*", number("1e900")).unwrap();
        assert_eq!(
            large.calculate("/", number("1e900")).map(Quadruple::to_f64),
            Some(f64::INFINITY)
        );
        assert_eq!(number("1e4000").calculate("*", number("1e4000")), None);
        assert_eq!(number("0.0").calculate("/", number("0.0")), None);
        assert_eq!(number("1.0").calculate("/", number("0.0")), None);
        // A double would lose the fraction.
        let sum = number("1e20").calculate("+", number("0.5")).unwrap();
        assert_eq!(sum.calculate("-", number("1e20")), Quadruple::parse("0.5"));
    }

    #[test]
    fn quadruple_holds_doubles_exactly_and_converts_to_double() {
        for double in [0.0, -0.0, 1.5, f64::MAX, f64::MIN_POSITIVE, 5e-324] {
            let held = Quadruple::from_f64(double).unwrap();
            assert_eq!(held.exact_f64().map(f64::to_bits), Some(double.to_bits()));
        }
        assert_eq!(Quadruple::from_f64(f64::NAN), None);
        assert_eq!(Quadruple::parse("0.1").unwrap().exact_f64(), None);
        assert_eq!(Quadruple::parse("0.1").unwrap().to_f64(), 0.1);
        assert_eq!(Quadruple::parse("0.1").unwrap().negate().to_f64(), -0.1);
        for text in ["2.5", "-0.1", "1.0E+4000", "1.189731495357231765085759326628007E+4932"] {
            assert_eq!(Quadruple::parse(text).unwrap().to_string(), text);
        }
    }
}
