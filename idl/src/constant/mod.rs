//! Values of constants.
//!
//! Owns values, their types and the ranges of types.

pub(crate) mod decimal;
pub(crate) mod evaluate;
pub(crate) mod quadruple;

use std::fmt;

use crate::model::{Primitive, ScopedName, Type};
use decimal::Decimal;
use quadruple::Quadruple;

/// The value of a constant, an enumerator, a default or an annotation's argument.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Value {
    /// An integer of any type, an octet, or the bits of a bitmask.
    Integer(i128),
    /// A `float` or a `double`.
    Floating(f64),
    /// A `long double`.
    LongDouble(Quadruple),
    /// A fixed-point number.
    Fixed(Decimal),
    /// A boolean.
    Boolean(bool),
    /// A character, narrow or wide.
    Char(char),
    /// A string, narrow or wide.
    String(String),
    /// An enumerator.
    Enumerator {
        /// Name of the enum.
        of: ScopedName,
        /// Name of the enumerator.
        name: String,
        /// Number of the enumerator.
        value: i32,
    },
    /// The elements of a sequence or an array.
    List(Vec<Value>),
}

/// Formats the value in IDL syntax.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(value) => write!(f, "{value}"),
            Self::Floating(value) => write!(f, "{value:?}"),
            Self::LongDouble(value) => write!(f, "{value}"),
            Self::Fixed(value) => write!(f, "{value}d"),
            Self::Boolean(value) => f.write_str(if *value { "TRUE" } else { "FALSE" }),
            Self::Char(value) => write!(f, "{value:?}"),
            Self::String(value) => write!(f, "{value:?}"),
            Self::Enumerator { name, .. } => f.write_str(name),
            Self::List(values) => {
                f.write_str("(")?;
                for (index, value) in values.iter().enumerate() {
                    write!(f, "{}{value}", if index == 0 { "" } else { ", " })?;
                }
                f.write_str(")")
            }
        }
    }
}

impl Value {
    /// Kind of the value, for messages.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Integer(_) => "an integer",
            Self::Floating(_) | Self::LongDouble(_) => "a floating-point number",
            Self::Fixed(_) => "a fixed-point number",
            Self::Boolean(_) => "a boolean",
            Self::Char(_) => "a character",
            Self::String(_) => "a string",
            Self::Enumerator { .. } => "an enumerator",
            Self::List(_) => "a list",
        }
    }
}

/// Returns the smallest and the largest value of an integer type.
pub(crate) fn range(primitive: Primitive) -> Option<(i128, i128)> {
    Some(match primitive {
        Primitive::Octet | Primitive::Uint8 => (0, u8::MAX.into()),
        Primitive::Int8 => (i8::MIN.into(), i8::MAX.into()),
        Primitive::Int16 => (i16::MIN.into(), i16::MAX.into()),
        Primitive::Uint16 => (0, u16::MAX.into()),
        Primitive::Int32 => (i32::MIN.into(), i32::MAX.into()),
        Primitive::Uint32 => (0, u32::MAX.into()),
        Primitive::Int64 => (i64::MIN.into(), i64::MAX.into()),
        Primitive::Uint64 => (0, u64::MAX.into()),
        _ => return None,
    })
}

/// Converts a value to a type, or returns why it cannot.
pub(crate) fn fit(value: Value, ty: &Type) -> Result<Value, String> {
    let wrong = |value: &Value| Err(format!("expected {}, found {}", wanted(ty), value.kind()));
    match (ty.resolved(), value) {
        (Type::Primitive(primitive), value) => fit_primitive(value, *primitive, ty),
        (Type::String { bound, .. }, Value::String(text)) => {
            let length = text.chars().count();
            match bound {
                Some(bound) if length > *bound as usize => {
                    Err(format!("this string has {length} characters; {ty} takes {bound}"))
                }
                _ => Ok(Value::String(text)),
            }
        }
        (Type::Fixed { digits, scale }, value) => {
            let fixed = match value {
                Value::Fixed(fixed) => fixed,
                Value::Integer(value) => Decimal::from_integer(value),
                value => return wrong(&value),
            };
            let fitted = fixed.fit(*digits, *scale);
            fitted.map(Value::Fixed).ok_or_else(|| format!("{fixed} does not fit {ty}"))
        }
        (Type::Named(name, _), Value::Enumerator { of, name: literal, value }) => {
            if **name == of {
                return Ok(Value::Enumerator { of, name: literal, value });
            }
            Err(format!("expected an enumerator of `{name}`, found one of `{of}`"))
        }
        (Type::Named(_, crate::model::NamedKind::Bitmask), Value::Integer(bits)) => {
            Ok(Value::Integer(bits))
        }
        (Type::Array(element, length), Value::List(values)) => {
            if values.len() != *length as usize {
                return Err(format!("{ty} has {length} elements, found {}", values.len()));
            }
            fit_all(values, element)
        }
        (Type::Sequence(element, bound), Value::List(values)) => {
            if bound.is_some_and(|bound| values.len() > bound as usize) {
                return Err(format!("{ty} does not take {} elements", values.len()));
            }
            fit_all(values, element)
        }
        (_, value) => wrong(&value),
    }
}

fn fit_all(values: Vec<Value>, element: &Type) -> Result<Value, String> {
    let values = values.into_iter().map(|value| fit(value, element));
    Ok(Value::List(values.collect::<Result<_, _>>()?))
}

fn fit_primitive(value: Value, primitive: Primitive, ty: &Type) -> Result<Value, String> {
    if let Some((min, max)) = range(primitive) {
        return match value {
            Value::Integer(number) if (min..=max).contains(&number) => Ok(value),
            Value::Integer(number) => {
                Err(format!("{number} does not fit {ty}, which goes from {min} to {max}"))
            }
            value => Err(format!("expected {}, found {}", wanted(ty), value.kind())),
        };
    }
    if primitive == Primitive::LongDouble
        && let Some(number) = quadruple(&value)
    {
        return Ok(Value::LongDouble(number));
    }
    match (primitive, &value) {
        (Primitive::Boolean, Value::Boolean(_)) | (Primitive::Double, Value::Floating(_)) => {
            Ok(value)
        }
        (Primitive::Double | Primitive::Float, Value::LongDouble(number)) => {
            let double = number.to_f64();
            match double.is_finite() {
                true => fit_primitive(Value::Floating(double), primitive, ty),
                false => Err(format!("{number} does not fit {ty}")),
            }
        }
        (Primitive::Char | Primitive::WChar, Value::Char(c)) => {
            let (bits, most) = if primitive == Primitive::Char { (8, 0xFF) } else { (16, 0xFFFF) };
            if u32::from(*c) > most {
                return Err(format!("the character {c:?} does not fit {bits} bits"));
            }
            Ok(value)
        }
        (Primitive::Float, Value::Floating(number)) => {
            // The nearest float counts: the digits of the largest one are slightly above it.
            if !(*number as f32).is_finite() {
                return Err(format!("{number} does not fit float"));
            }
            Ok(value)
        }
        (Primitive::Float | Primitive::Double, Value::Integer(number)) => {
            Ok(Value::Floating(*number as f64))
        }
        (Primitive::Float | Primitive::Double, Value::Fixed(number)) => {
            Ok(Value::Floating(number.to_f64()))
        }
        _ => Err(format!("expected {}, found {}", wanted(ty), value.kind())),
    }
}

/// Converts a number of any kind to 128-bit floating point.
pub(crate) fn quadruple(value: &Value) -> Option<Quadruple> {
    match value {
        Value::LongDouble(number) => Some(*number),
        Value::Floating(number) => Quadruple::from_f64(*number),
        Value::Integer(number) => Quadruple::from_integer(*number),
        Value::Fixed(number) => Quadruple::parse(&number.to_string()),
        _ => None,
    }
}

/// Description of the values of a type, for messages.
fn wanted(ty: &Type) -> String {
    match ty.resolved() {
        Type::Primitive(primitive) if range(*primitive).is_some() => {
            format!("an integer ({})", ty)
        }
        Type::Named(name, crate::model::NamedKind::Enum) => format!("an enumerator of `{name}`"),
        _ => format!("a value of type {ty}"),
    }
}
