//! Values of constants and defaults of fields.
//!
//! Owns the spellings of numbers, booleans, texts and lists in interface files.

use crate::lexer::TokenKind;

use super::lines::{Collection, ReadType, TypeBase};

/// Returns the tokens of a value, or a message about it. Later stages check the range.
pub(super) fn value(ty: &ReadType, text: &str) -> Result<Vec<TokenKind>, String> {
    if ty.collection != Collection::No {
        return list(ty, text);
    }
    match &ty.base {
        TypeBase::Primitive("boolean") => {
            let word = if truth(text)? { "TRUE" } else { "FALSE" };
            Ok(vec![TokenKind::Word { text: word.into(), escaped: false }])
        }
        TypeBase::Primitive("float" | "double") => signed(text, floating),
        TypeBase::Primitive(_) => signed(text, integer),
        TypeBase::String { wide, .. } => {
            Ok(vec![TokenKind::String { wide: *wide, value: string(text)?.into() }])
        }
        TypeBase::Message { .. } => Err("a field that is a message has no default".to_owned()),
    }
}

fn truth(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "1" => Ok(true),
        "false" | "0" => Ok(false),
        _ => Err(format!("expected true or false, found `{text}`")),
    }
}

fn signed(
    text: &str,
    magnitude: impl Fn(&str) -> Option<String>,
) -> Result<Vec<TokenKind>, String> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (Some(TokenKind::Mark("-")), digits),
        None => (None, text.strip_prefix('+').unwrap_or(text)),
    };
    let number = magnitude(digits).ok_or_else(|| format!("expected a number, found `{text}`"))?;
    Ok(sign.into_iter().chain([TokenKind::Number(number.into())]).collect())
}

/// Reads a decimal, hexadecimal, octal or binary number.
fn integer(text: &str) -> Option<String> {
    let lower = text.to_ascii_lowercase();
    let (digits, radix) = match lower.get(..2) {
        Some("0x") => (&lower[2..], 16),
        Some("0o") => (&lower[2..], 8),
        Some("0b") => (&lower[2..], 2),
        _ => (lower.as_str(), 10),
    };
    let is_number = digits.chars().all(|c| c.is_digit(radix));
    u64::from_str_radix(digits, radix).ok().filter(|_| is_number).map(|value| value.to_string())
}

fn floating(text: &str) -> Option<String> {
    let is_number = text.starts_with(|c: char| c.is_ascii_digit() || c == '.');
    let value: f64 = text.parse().ok().filter(|_| is_number)?;
    // `{:?}` always has a point or an exponent.
    value.is_finite().then(|| format!("{value:?}"))
}

/// Reads a text, with or without quotes.
fn string(text: &str) -> Result<String, String> {
    let quote = text.chars().next().filter(|c| matches!(c, '"' | '\''));
    let Some(quote) = quote else { return Ok(text.to_owned()) };
    let inside = text[1..].strip_suffix(quote);
    let inside = inside.ok_or_else(|| format!("this text has no end, expected {quote}"))?;
    let mut value = String::new();
    let mut chars = inside.chars();
    while let Some(c) = chars.next() {
        match (c, chars.as_str().chars().next()) {
            ('\\', Some(escaped)) => {
                chars.next();
                match escaped {
                    'n' => value.push('\n'),
                    't' => value.push('\t'),
                    'r' => value.push('\r'),
                    '"' | '\'' | '\\' => value.push(escaped),
                    other => value.extend(['\\', other]),
                }
            }
            _ => value.push(c),
        }
    }
    Ok(value)
}

/// Returns the default of a list in the form that `@default` has: `"(1, 2)"`.
fn list(ty: &ReadType, text: &str) -> Result<Vec<TokenKind>, String> {
    let inside = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    let Some(inside) = inside else {
        return Err(format!("the default of a list is written [1, 2, 3], found `{text}`"));
    };
    let elements = match &ty.base {
        TypeBase::Primitive("boolean") => {
            let elements = inside.split(',').map(str::trim).filter(|text| !text.is_empty());
            let words = elements.map(|text| truth(text).map(|v| if v { "True" } else { "False" }));
            words.collect::<Result<Vec<_>, _>>()?.join(", ")
        }
        TypeBase::Message { .. } => {
            return Err("a list of messages has no default".to_owned());
        }
        _ => inside.trim().to_owned(),
    };
    Ok(vec![TokenKind::String { wide: false, value: format!("({elements})").into() }])
}
