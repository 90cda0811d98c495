//! Values of literals.
//!
//! Owns the escapes of characters and strings, and the spellings of numbers.

use crate::constant::Value;
use crate::constant::decimal::Decimal;
use crate::constant::quadruple::Quadruple;

/// Maximum number of digits of a fixed-point number.
pub(crate) const FIXED_DIGITS: u8 = 31;

/// Maximum length of a floating-point literal, whose digits are read several times.
const LONGEST: usize = 10_000;

/// Value of a number literal.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Number {
    Integer(i128),
    Floating(Floating),
    Fixed(Decimal),
}

/// Value of a floating-point literal as the nearest number of either size. The use decides which
/// one applies.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Floating {
    /// Nearest double; infinite if the literal exceeds every double.
    double: f64,
    long: Quadruple,
}

impl Floating {
    fn parse(text: &str) -> Option<Result<Self, String>> {
        if text.len() > LONGEST {
            return Some(Err(format!("a number is written with at most {LONGEST} characters")));
        }
        let double = text.parse().ok()?;
        let long = Quadruple::parse(text).map(|long| Self { double, long });
        Some(long.ok_or_else(|| format!("{text} is larger than any floating-point type")))
    }

    /// Returns the value as a `long double` or as a `double`.
    pub(crate) fn value(&self, is_long: bool) -> Result<Value, String> {
        match is_long {
            true => Ok(Value::LongDouble(self.long)),
            false if self.double.is_finite() => Ok(Value::Floating(self.double)),
            false => Err(format!("{} is larger than a double", self.long)),
        }
    }
}

/// Reads a number: decimal, octal (`017`), hexadecimal, floating point or fixed point (`1.5d`).
pub(crate) fn number(text: &str) -> Result<Number, String> {
    let hexadecimal = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let (digits, radix) = match hexadecimal {
        Some(digits) => (digits, 16),
        None if text.len() > 1 && text.starts_with('0') => (&text[1..], 8),
        None => (text, 10),
    };
    if !digits.is_empty() && digits.chars().all(|c| c.is_digit(radix)) {
        return u64::from_str_radix(digits, radix)
            .map(|value| Number::Integer(value.into()))
            .map_err(|_| format!("{text} is larger than any integer type, 64 bits"));
    }
    if hexadecimal.is_none() {
        let digits_only = |text: &str| text.chars().all(|c| c.is_ascii_digit() || c == '.');
        if let Some(fixed) = text.strip_suffix(['d', 'D'])
            && digits_only(fixed)
        {
            return Decimal::parse(fixed).map(Number::Fixed).ok_or_else(|| {
                format!("{text} is not a fixed-point number of at most {FIXED_DIGITS} digits")
            });
        }
        let floating = digits_only(text) && text.contains('.') || text.contains(['e', 'E']);
        let plain =
            text.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | 'e' | 'E' | '+' | '-'));
        if floating
            && plain
            && let Some(literal) = Floating::parse(text)
        {
            return literal.map(Number::Floating);
        }
    }
    Err(match text.as_bytes() {
        [b'0', rest @ ..] if rest.iter().all(u8::is_ascii_digit) => {
            format!("`{text}` begins with 0, so it is octal and cannot contain 8 or 9")
        }
        _ => format!("expected a number, found `{text}`"),
    })
}

/// An error in a literal: its position in the text, its length in bytes, and the message.
type LiteralError = (usize, usize, String);

/// Returns the text that a literal denotes.
pub(crate) fn unescape(text: &str, wide: bool) -> Result<String, LiteralError> {
    if !text.contains('\\') {
        return Ok(text.to_owned());
    }
    let mut value = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        value.push_str(&rest[..at]);
        let position = text.len() - rest.len() + at;
        let after = &rest[at + 1..];
        let (c, length) = escape(after, wide).map_err(|message| {
            let length = after.chars().next().map_or(0, char::len_utf8);
            (position, 1 + length, message)
        })?;
        value.extend(c);
        rest = &after[length..];
    }
    value.push_str(rest);
    Ok(value)
}

/// Returns the character after a backslash and its length in bytes; no character for a
/// line continuation.
fn escape(after: &str, wide: bool) -> Result<(Option<char>, usize), String> {
    let Some(first) = after.chars().next() else {
        return Err("nothing follows the backslash".to_owned());
    };
    let digits = |radix: u32, from: usize, most: usize| {
        let digits = after[from..].chars().take(most).take_while(|c| c.is_digit(radix)).count();
        let value = u32::from_str_radix(&after[from..from + digits], radix).ok();
        value.map(|value| (value, from + digits))
    };
    let simple = |c| Ok((Some(c), 1));
    let coded = match first {
        'n' => return simple('\n'),
        't' => return simple('\t'),
        'v' => return simple('\x0b'),
        'b' => return simple('\x08'),
        'r' => return simple('\r'),
        'f' => return simple('\x0c'),
        'a' => return simple('\x07'),
        '\\' | '?' | '\'' | '"' => return simple(first),
        '\n' => return Ok((None, 1)),
        '\r' if after.starts_with("\r\n") => return Ok((None, 2)),
        '0'..='7' => digits(8, 0, 3),
        'x' => digits(16, 1, 2),
        'u' if wide => digits(16, 1, 4),
        'u' => return Err("`\\u` is for wide literals; write L in front".to_owned()),
        other => {
            return Err(format!(
                "`\\{}` is not an escape sequence; write `\\\\` for a backslash",
                other.escape_default()
            ));
        }
    };
    let (code, length) = coded.ok_or("expected digits in this escape")?;
    let c = char::from_u32(code).ok_or("half of a surrogate pair is not a character")?;
    if !wide && code > 0xFF {
        return Err("this character does not fit 8 bits; write L in front".to_owned());
    }
    Ok((Some(c), length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parser_reads_number_literals_and_rejects_malformed_numbers() {
        for (text, value) in [("0", 0), ("017", 15), ("0x1F", 31), ("18446744073709551615", -1)] {
            let value = if value < 0 { i128::from(u64::MAX) } else { value };
            assert_eq!(number(text), Ok(Number::Integer(value)));
        }
        for (text, value) in [("1.5", 1.5), (".5", 0.5), ("1e3", 1000.0), ("1.E-1", 0.1)] {
            let Ok(Number::Floating(literal)) = number(text) else { panic!("{text}") };
            assert_eq!(literal.value(false), Ok(Value::Floating(value)));
        }
        assert!(matches!(number("1.50d"), Ok(Number::Fixed(_))));
        for text in ["08", "1x", "0x", "1e5000", "1.2.3", "1_000", "99999999999999999999", "1e"] {
            assert!(number(text).is_err(), "{text}");
        }
    }

    #[test]
    fn floating_literal_is_checked_against_requested_type_and_length() {
        let Ok(Number::Floating(literal)) = number("1e400") else { panic!() };
        assert!(literal.value(false).is_err());
        assert!(matches!(literal.value(true), Ok(Value::LongDouble(_))));
        let long = format!("0.{}1", "0".repeat(20_000));
        assert!(number(&long).unwrap_err().contains("at most 10000 characters"));
    }

    #[test]
    fn unescape_decodes_escapes_and_rejects_invalid_escapes() {
        assert_eq!(unescape(r"a\tb\x41\102\\", false), Ok("a\tbAB\\".to_owned()));
        assert_eq!(unescape(r"\u00e4", true), Ok("ä".to_owned()));
        for wrong in [r"\q", r"\x", r"\u0041", "\\", r"\777"] {
            assert!(unescape(wrong, false).is_err(), "{wrong}");
        }
    }
}
