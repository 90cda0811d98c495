//! Fixed-point numbers.
//!
//! Owns decimal arithmetic of up to 31 digits, as IDL defines it for `fixed`.

use std::fmt;

use crate::literal::FIXED_DIGITS;

/// A number of at most 31 decimal digits, some of them after the decimal point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decimal {
    /// All digits as one integer.
    mantissa: i128,
    /// Number of digits after the decimal point.
    scale: u8,
}

impl Decimal {
    /// Reads `1.50`; `None` for more than 31 digits.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (whole, part) = text.split_once('.').unwrap_or((text, ""));
        if part.contains('.') || whole.is_empty() && part.is_empty() {
            return None;
        }
        let whole = whole.trim_start_matches('0');
        let part = part.trim_end_matches('0');
        if whole.len() + part.len() > FIXED_DIGITS.into() {
            return None;
        }
        let digits = format!("0{whole}{part}");
        Some(Self { mantissa: digits.parse().ok()?, scale: part.len() as u8 })
    }

    pub(crate) fn from_integer(value: i128) -> Self {
        Self { mantissa: value, scale: 0 }
    }

    /// Returns all digits as one integer, and the number of digits after the decimal point.
    pub fn parts(self) -> (i128, u8) {
        (self.mantissa, self.scale)
    }

    pub(crate) fn to_f64(self) -> f64 {
        self.mantissa as f64 / 10_f64.powi(self.scale.into())
    }

    pub(crate) fn negate(self) -> Self {
        Self { mantissa: -self.mantissa, ..self }
    }

    /// Converts to the number of digits after the point that a type has, if the value fits.
    pub(crate) fn fit(self, digits: u8, scale: u8) -> Option<Self> {
        let mantissa = if scale >= self.scale {
            self.mantissa.checked_mul(power(scale - self.scale)?)?
        } else {
            // The standard truncates digits after the point that the type cannot hold.
            self.mantissa / power(self.scale - scale)?
        };
        (mantissa.unsigned_abs() < power(digits)?.unsigned_abs())
            .then_some(Self { mantissa, scale })
    }

    /// Computes `+`, `-`, `*` or `/`; `None` if the operation is undefined or the result has too
    /// many digits.
    pub(crate) fn calculate(self, operator: &str, other: Self) -> Option<Self> {
        let scale = self.scale.max(other.scale);
        let at = |number: Self| number.mantissa.checked_mul(power(scale - number.scale)?);
        let result = match operator {
            "+" => Self { mantissa: at(self)?.checked_add(at(other)?)?, scale },
            "-" => Self { mantissa: at(self)?.checked_sub(at(other)?)?, scale },
            "*" => Self {
                mantissa: self.mantissa.checked_mul(other.mantissa)?,
                scale: self.scale + other.scale,
            },
            _ => {
                let (mut mantissa, divisor) = (at(self)?, at(other)?);
                if divisor == 0 {
                    return None;
                }
                let mut scale = 0;
                // Division adds digits until the remainder is zero or no more digits fit.
                while mantissa % divisor != 0
                    && scale < FIXED_DIGITS
                    && let Some(more) = mantissa.checked_mul(10)
                    && (more / divisor).unsigned_abs() < power(FIXED_DIGITS)?.unsigned_abs()
                {
                    mantissa = more;
                    scale += 1;
                }
                Self { mantissa: mantissa / divisor, scale }
            }
        };
        result.shorten()
    }

    fn shorten(mut self) -> Option<Self> {
        while self.scale > 0 && self.mantissa % 10 == 0 {
            self.mantissa /= 10;
            self.scale -= 1;
        }
        let limit = power(FIXED_DIGITS)?.unsigned_abs();
        while self.mantissa.unsigned_abs() >= limit && self.scale > 0 {
            self.mantissa /= 10;
            self.scale -= 1;
        }
        (self.mantissa.unsigned_abs() < limit && self.scale <= FIXED_DIGITS).then_some(self)
    }
}

fn power(exponent: u8) -> Option<i128> {
    10_i128.checked_pow(exponent.into())
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.mantissa < 0 { "-" } else { "" };
        let scale = usize::from(self.scale);
        let digits = format!("{:0width$}", self.mantissa.unsigned_abs(), width = scale + 1);
        let (whole, part) = digits.split_at(digits.len() - scale);
        write!(f, "{sign}{whole}{}{part}", if scale > 0 { "." } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimal(text: &str) -> Decimal {
        Decimal::parse(text).unwrap()
    }

    #[test]
    fn fixed_point_arithmetic_is_decimal() {
        for (a, operator, b, result) in [
            ("1.5", "+", "0.25", "1.75"),
            ("0.1", "-", "0.3", "-0.2"),
            ("1.50", "*", "2", "3"),
            ("1", "/", "8", "0.125"),
            ("2", "/", "3", "0.666666666666666666666666666666"),
        ] {
            let found = decimal(a).calculate(operator, decimal(b)).unwrap().to_string();
            assert!(found.starts_with(result), "{a} {operator} {b} = {found}");
        }
        assert_eq!(decimal("1").calculate("/", decimal("0")), None);
    }

    #[test]
    fn fixed_point_number_has_at_most_31_digits() {
        assert_eq!(Decimal::parse(&"9".repeat(32)), None);
        assert!(Decimal::parse(&"9".repeat(31)).is_some());
        assert_eq!(decimal("123.456").fit(5, 2).unwrap().to_string(), "123.45");
        assert_eq!(decimal("123.456").fit(4, 2), None);
        let large = decimal(&"9".repeat(31));
        assert_eq!(large.calculate("*", large), None);
    }
}
