//! Generation of Rust values.

use crate::constant::Value;
use crate::constant::quadruple::Quadruple;
use crate::model::{Element, Primitive, ScopedName, Type};

use super::docs::is_directional;
use super::{CodeWriter, is_enum};

impl CodeWriter<'_> {
    /// Returns the type and the value of a constant. Strings are borrowed.
    pub(super) fn constant_value(&self, ty: &Type, value: &Value) -> (String, String) {
        match (ty.resolved(), value) {
            (Type::String { .. }, Value::String(text)) => ("&str".to_owned(), quoted(text)),
            (Type::Primitive(Primitive::LongDouble), Value::LongDouble(number)) => {
                (self.rust_type(ty), self.long_double(*number))
            }
            _ => (self.rust_type(ty), self.value(ty, value)),
        }
    }

    /// Returns a value of a type as an expression that owns it.
    pub(super) fn value(&self, ty: &Type, value: &Value) -> String {
        match (ty.resolved(), value) {
            (Type::Primitive(Primitive::WChar), Value::Char(c)) => {
                format!("{}({:#06x})", self.company("WChar"), u32::from(*c))
            }
            (_, Value::LongDouble(number)) => match number.exact_f64() {
                Some(double) => format!("{}::from({double:?})", self.company("LongDouble")),
                None => self.long_double(*number),
            },
            // Shortest digits that give the same number when read back.
            (Type::Primitive(Primitive::Float), Value::Floating(number)) => {
                format!("{:?}", *number as f32)
            }
            (Type::String { wide: true, .. }, Value::String(text)) => {
                format!("{}::from({})", self.company("WString"), quoted(text))
            }
            (_, Value::String(text)) => format!("String::from({})", quoted(text)),
            (Type::Fixed { .. }, Value::Fixed(number)) => format!(
                "{}::from_units({}).expect(\"valid digits in the IDL\")",
                self.company("Fixed"),
                number.parts().0
            ),
            (Type::Named(name, _), Value::Integer(bits)) => format!("{}({bits})", self.path(name)),
            (_, Value::Enumerator { of, name, .. }) if is_enum(ty) => self.enumerator(of, name),
            // The derive macro reads no array expression; only defaults are lists.
            (Type::Array(element, _), Value::List(values)) => format!(
                "vec![{}].try_into().expect(\"valid length in the IDL\")",
                self.list(element, values)
            ),
            (Type::Sequence(element, _), Value::List(values)) if !values.is_empty() => {
                format!("vec![{}]", self.list(element, values))
            }
            (_, Value::List(_)) => "Vec::new()".to_owned(),
            (_, Value::Integer(number)) => number.to_string(),
            (_, Value::Floating(number)) => format!("{number:?}"),
            (_, Value::Boolean(value)) => value.to_string(),
            (_, Value::Char(c)) => format!("{c:?}"),
            (_, Value::Enumerator { value, .. }) => value.to_string(),
            (_, Value::Fixed(number)) => number.to_string(),
        }
    }

    /// Writes a long double as its bits, which can be a constant.
    fn long_double(&self, number: Quadruple) -> String {
        format!("{}({:#034x}_u128.to_le_bytes())", self.company("LongDouble"), number.to_bits())
    }

    /// Returns a limit of `@min`, `@max` or `@range` as a literal.
    pub(super) fn limit(&self, ty: &Type, value: &Value) -> String {
        match value {
            Value::LongDouble(number) => match number.exact_f64() {
                Some(double) => format!("{double:?}"),
                None => format!("\"{:#034x}\"", number.to_bits()),
            },
            _ => self.value(ty, value),
        }
    }

    fn list(&self, element: &Element, values: &[Value]) -> String {
        let value = |value: &Value| match (self.value(element, value), element.external) {
            (value, true) => format!("Box::new({value})"),
            (value, false) => value,
        };
        let values: Vec<String> = values.iter().map(value).collect();
        values.join(", ")
    }

    /// Returns the path of an enumerator.
    pub(super) fn enumerator(&self, of: &ScopedName, name: &str) -> String {
        let variant = self.names.variant(of, name);
        format!("{}::{variant}", self.path(of))
    }
}

/// Returns a string literal.
pub(super) fn quoted(text: &str) -> String {
    let mut literal = String::from("\"");
    for c in text.chars() {
        match c {
            // `'` needs no backslash here.
            '\'' => literal.push(c),
            c if is_directional(c) => literal += &c.escape_unicode().to_string(),
            c => literal.extend(c.escape_debug()),
        }
    }
    literal.push('"');
    literal
}
