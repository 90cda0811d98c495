//! Lowering of `@default`.
//!
//! Owns the defaults of lists in the form that ROS 2 writes: one string with the elements in
//! parentheses, `@default(value = "(1, 2, 3)")`, because IDL has no literal for a list.

use crate::constant::{Value, fit};
use crate::diagnostic::Checked;
use crate::literal::{Number, number};
use crate::model::{NamedKind, Primitive, Type};
use crate::syntax::Expression;

use super::Lowering;

impl Lowering<'_> {
    pub(super) fn default_value(&mut self, expression: &Expression, ty: &Type) -> Checked<Value> {
        match ty.resolved() {
            Type::Array(element, _) | Type::Sequence(element, _) => {
                let value = self.value(expression, None)?;
                let Value::String(text) = value else {
                    let text = format!(
                        "the default of a list is a string with its elements, such as \
                         \"(1, 2, 3)\", found {}",
                        value.kind()
                    );
                    return Err(self.reports.error(expression.span, text));
                };
                let is_long = matches!(element.resolved(), Type::Primitive(Primitive::LongDouble));
                let elements = list(&text, is_long).ok_or_else(|| {
                    format!(
                        "expected elements in parentheses, such as \"(1, 2, 3)\", found {text:?}"
                    )
                });
                let nested = matches!(element.resolved(), Type::Array(..) | Type::Sequence(..));
                let value = elements.and_then(|elements| {
                    if nested {
                        return Err("lists inside lists have no default".to_owned());
                    }
                    fit(Value::List(elements), ty)
                });
                value.map_err(|message| self.reports.error(expression.span, message))
            }
            Type::Primitive(_)
            | Type::String { .. }
            | Type::Fixed { .. }
            | Type::Named(_, NamedKind::Enum | NamedKind::Bitmask) => {
                self.value(expression, Some(ty))
            }
            other => {
                let text = format!("a value of type {other} cannot be written as a default");
                Err(self.reports.error(expression.span, text))
            }
        }
    }
}

/// Reads the elements of `(1, 2)`, `('a', "b")` or `(True, False)`; `None` for any other text.
/// `is_long` selects the type of floating-point numbers.
fn list(text: &str, is_long: bool) -> Option<Vec<Value>> {
    let text = text.trim();
    let inside = text
        .strip_prefix('(')
        .and_then(|text| text.strip_suffix(')'))
        .or_else(|| text.strip_prefix('[').and_then(|text| text.strip_suffix(']')))?;
    let mut rest = inside.trim();
    let mut values = Vec::new();
    while !rest.is_empty() {
        let (value, behind) = element(rest, is_long)?;
        values.push(value);
        let behind = behind.trim_start();
        rest = match behind.strip_prefix(',') {
            Some(more) => more.trim_start(),
            None if behind.is_empty() => behind,
            None => return None,
        };
    }
    Some(values)
}

/// Reads one element; returns it with the text after it.
fn element(text: &str, is_long: bool) -> Option<(Value, &str)> {
    if let Some(quote @ ('\'' | '"')) = text.chars().next() {
        let mut value = String::new();
        let mut chars = text.char_indices().skip(1);
        while let Some((at, c)) = chars.next() {
            match c {
                '\\' => value.push(chars.next()?.1),
                c if c == quote => return Some((Value::String(value), &text[at + 1..])),
                c => value.push(c),
            }
        }
        return None;
    }
    let end = text.find([',', ' ']).unwrap_or(text.len());
    let (word, behind) = text.split_at(end);
    let (negative, digits) = match word.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, word),
    };
    let value = match word {
        "True" | "TRUE" | "true" => Value::Boolean(true),
        "False" | "FALSE" | "false" => Value::Boolean(false),
        _ => match number(digits).ok()? {
            Number::Integer(value) => Value::Integer(if negative { -value } else { value }),
            Number::Floating(literal) => match literal.value(is_long).ok()? {
                Value::LongDouble(value) if negative => Value::LongDouble(value.negate()),
                Value::Floating(value) if negative => Value::Floating(-value),
                value => value,
            },
            Number::Fixed(_) => return None,
        },
    };
    Some((value, behind))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::constant::quadruple::Quadruple;

    #[test]
    fn parser_reads_default_lists_in_ros_syntax() {
        let integers = [1, -2, 3].map(Value::Integer).to_vec();
        assert_eq!(list("(1, -2, 3)", false), Some(integers));
        assert_eq!(list("(1.5,)", false), Some(vec![Value::Floating(1.5)]));
        assert_eq!(list("()", false), Some(vec![]));
        let long = Value::LongDouble(Quadruple::parse("-0.1").unwrap());
        assert_eq!(list("(-0.1)", true), Some(vec![long]));
        let strings = ["a, b", "it's"].map(|text| Value::String(text.to_owned())).to_vec();
        assert_eq!(list(r#"('a, b', "it's")"#, false), Some(strings));
        assert_eq!(list("(True, False)", false), Some([true, false].map(Value::Boolean).to_vec()));
        for wrong in ["1, 2", "(1 2)", "('a)", "(x)"] {
            assert_eq!(list(wrong, false), None, "{wrong}");
        }
    }
}
