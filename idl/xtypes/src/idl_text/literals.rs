//! Names and values in the syntax of IDL.
//!
//! Owns escapes and the spellings of numbers. Never knows where a value stands.

use std::fmt::Write;

use idl_cdr::LongDouble;

use crate::data::Value;
use crate::model::{NodeKind, Primitive, TypeGraph, TypeNodeId};

/// Returns a name as IDL writes it, with a leading `_` if it is a keyword; `None` if no identifier
/// of IDL is spelt like it.
pub(super) fn identifier(name: &str) -> Option<String> {
    let is_identifier = name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let escape = if idl::is_keyword(name) { "_" } else { "" };
    is_identifier.then(|| format!("{escape}{name}"))
}

/// Returns a string literal.
pub(super) fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    text.chars().for_each(|c| escaped(c, '"', &mut out));
    out.push('"');
    out
}

fn escaped(c: char, quote: char, out: &mut String) {
    match c {
        '\\' => out.push_str("\\\\"),
        c if c == quote => {
            out.push('\\');
            out.push(c);
        }
        // Three octal digits cannot be continued by the next character.
        c if c.is_control() && u32::from(c) <= 0xff => {
            // Writing to a string cannot fail.
            let _ = write!(out, "\\{:03o}", u32::from(c));
        }
        c => out.push(c),
    }
}

fn character(c: char) -> String {
    let mut out = String::from("'");
    match u32::from(c) {
        // Source text is UTF-8, and other compilers count its bytes.
        code @ 0x80..=0xff => {
            let _ = write!(out, "\\x{code:02x}");
        }
        _ => escaped(c, '\'', &mut out),
    }
    out.push('\'');
    out
}

fn wide_character(code: u16) -> Option<String> {
    // Half of a surrogate pair has no literal.
    char::from_u32(code.into()).map(|_| format!("L'\\u{code:04x}'"))
}

/// Returns a floating-point number with a point or an exponent; `None` if it has no literal.
fn floating(value: f64) -> Option<String> {
    value.is_finite().then(|| format!("{value:?}"))
}

/// Returns a number of 32 bits with as few digits as the compiler needs to read the same number.
fn floating_32(value: f32) -> Option<String> {
    let short = format!("{value:?}");
    let is_read = short.parse::<f64>().is_ok_and(|read| read as f32 == value);
    if is_read && value.is_finite() { Some(short) } else { floating(value.into()) }
}

fn floating_128(value: LongDouble) -> Option<String> {
    let text = value.to_string();
    let is_number = text.starts_with(|c: char| c.is_ascii_digit() || c == '-');
    let is_exact = LongDouble::parse(&text) == Some(value);
    let point = if text.contains(['.', 'e', 'E']) { "" } else { ".0" };
    (is_number && is_exact && value.to_f64().abs() <= f64::MAX).then(|| format!("{text}{point}"))
}

/// Returns a minimum or maximum of a member; `None` if the text is no number of its type.
pub(super) fn bound(kind: &NodeKind, text: &str) -> Option<String> {
    let text = text.trim().replace(' ', "");
    let NodeKind::Primitive(primitive) = kind else { return None };
    match primitive {
        Primitive::Float32 => floating_32(text.parse().ok()?),
        Primitive::Float64 => floating(text.parse().ok()?),
        Primitive::Float128 => floating_128(match text.strip_prefix("0x") {
            Some(bits) => LongDouble(u128::from_str_radix(bits, 16).ok()?.to_le_bytes()),
            None => text.parse::<f64>().ok()?.into(),
        }),
        _ => text.parse::<i128>().ok().map(|number| number.to_string()),
    }
}

/// Returns the literal of a value that is no list; `None` if IDL has none.
pub(super) fn literal(graph: &TypeGraph, of: TypeNodeId, value: &Value) -> Option<String> {
    Some(match value {
        Value::Bool(value) => if *value { "TRUE" } else { "FALSE" }.to_owned(),
        Value::Signed(value) => value.to_string(),
        Value::Unsigned(value) => value.to_string(),
        Value::Float(value) => floating_32(*value)?,
        Value::Double(value) => floating(*value)?,
        Value::LongDouble(value) => floating_128(*value)?,
        Value::Fixed { units, scale } => {
            let (one, sign) = (10_u128.checked_pow(*scale)?, if *units < 0 { "-" } else { "" });
            let (whole, part) = (units.unsigned_abs() / one, units.unsigned_abs() % one);
            let scale = *scale as usize;
            match scale {
                0 => format!("{sign}{whole}d"),
                _ => format!("{sign}{whole}.{part:0scale$}d"),
            }
        }
        Value::Char(value) => character(*value),
        Value::WideChar(value) => wide_character(value.0)?,
        Value::Text(text) => match graph.kind(of) {
            NodeKind::Text { wide: true, .. } => format!("L{}", quoted(text)),
            _ => quoted(text),
        },
        Value::Bitmask(bits) => bits.to_string(),
        _ => return None,
    })
}

/// Returns the default of a list, which IDL writes as a string; `None` if its elements have no
/// such form.
pub(super) fn list(graph: &TypeGraph, of: TypeNodeId, values: &[Value]) -> Option<String> {
    let element = |value: &Value| match value {
        Value::Char(_) | Value::WideChar(_) | Value::Bitmask(_) | Value::Fixed { .. } => None,
        Value::Text(text) => {
            let text = text.replace('\\', "\\\\").replace('"', "\\\"");
            Some(format!("\"{text}\""))
        }
        value => literal(graph, of, value),
    };
    let elements: Option<Vec<String>> = values.iter().map(element).collect();
    Some(quoted(&format!("({})", elements?.join(", "))))
}

/// Returns a case label by the type of the discriminator, which is no enum; `None` if it has no
/// literal.
pub(super) fn label(kind: &NodeKind, label: i64) -> Option<String> {
    let NodeKind::Primitive(primitive) = kind else { return Some(label.to_string()) };
    // Type objects have 32 bits for a label, whatever its sign.
    Some(match primitive {
        Primitive::Boolean => if label != 0 { "TRUE" } else { "FALSE" }.to_owned(),
        Primitive::Char8 => character(char::from(label as u8)),
        Primitive::Char16 => wide_character(label as u16)?,
        Primitive::Byte | Primitive::Uint8 => (label as u8).to_string(),
        Primitive::Uint16 => (label as u16).to_string(),
        Primitive::Uint32 => (label as u32).to_string(),
        Primitive::Uint64 => (label as u64).to_string(),
        _ => label.to_string(),
    })
}
