//! Evaluation of constant expressions.
//!
//! Owns IDL arithmetic: integers within 128 bits, checked against their type at the end; floating
//! point; decimal for fixed point. Names are looked up as in any other place.

use std::collections::HashMap;
use std::rc::Rc;

use crate::diagnostic::{Checked, Reports};
use crate::literal::Number;
use crate::model::{NamedKind, Primitive, ScopedName, Type};
use crate::scope::{Meaning, Scopes};
use crate::syntax::{Expression, ExpressionKind, Path};

use super::{Value, fit, quadruple, range};

/// Literals of enums and bits of bitmasks, by type.
pub(crate) type Literals = HashMap<ScopedName, Rc<Vec<(String, Value)>>>;

pub(crate) struct Evaluator<'e> {
    pub(crate) scopes: &'e mut Scopes,
    pub(crate) reports: &'e mut Reports,
    pub(crate) literals: &'e Literals,
}

impl Evaluator<'_> {
    /// Evaluates an expression. If a type is given, the result is a value of that type.
    pub(crate) fn value(&mut self, expression: &Expression, ty: Option<&Type>) -> Checked<Value> {
        let value = self.work_out(expression, ty)?;
        let is_wide = matches!(
            expression.kind,
            ExpressionKind::String { wide: true, .. } | ExpressionKind::Char { wide: true, .. }
        );
        let wants_narrow = matches!(
            ty.map(Type::resolved),
            Some(Type::String { wide: false, .. } | Type::Primitive(Primitive::Char))
        );
        if is_wide && wants_narrow {
            let text = "this literal is wide; leave out the L, or use wstring or wchar";
            return Err(self.reports.error(expression.span, text));
        }
        match ty {
            None => Ok(value),
            Some(ty) => {
                fit(value, ty).map_err(|message| self.reports.error(expression.span, message))
            }
        }
    }

    /// Evaluates a bound or the length of an array.
    pub(crate) fn length(&mut self, expression: &Expression, what: &str) -> Checked<u32> {
        // The largest CDR length means "no bound".
        const MAX: i128 = u32::MAX as i128 - 1;
        match self.value(expression, None)? {
            Value::Integer(value @ 1..=MAX) => Ok(value as u32),
            Value::Integer(value) => {
                let text = format!("{what} is from 1 to {MAX}, found {value}");
                Err(self.reports.error(expression.span, text))
            }
            other => {
                let text = format!("expected {what} (an integer), found {}", other.kind());
                Err(self.reports.error(expression.span, text))
            }
        }
    }

    fn work_out(&mut self, expression: &Expression, ty: Option<&Type>) -> Checked<Value> {
        let span = expression.span;
        match &expression.kind {
            ExpressionKind::Number(Number::Integer(value)) => Ok(Value::Integer(*value)),
            ExpressionKind::Number(Number::Floating(literal)) => {
                let value = literal.value(is_long_double(ty));
                value.map_err(|message| self.reports.error(span, message))
            }
            ExpressionKind::Number(Number::Fixed(value)) => Ok(Value::Fixed(*value)),
            ExpressionKind::String { value, .. } => Ok(Value::String(value.to_string())),
            ExpressionKind::Char { value, .. } => Ok(Value::Char(*value)),
            ExpressionKind::Boolean(value) => Ok(Value::Boolean(*value)),
            // A subexpression has the type of the whole expression.
            ExpressionKind::Name(path) => match (self.named(path, ty)?, ty) {
                (Value::LongDouble(value), Some(of)) if !is_long_double(ty) => {
                    let value = fit(Value::LongDouble(value), of);
                    value.map_err(|message| self.reports.error(span, message))
                }
                (value, _) => Ok(value),
            },
            ExpressionKind::Unary(sign, operand) => {
                let operand = self.work_out(operand, ty)?;
                match unary(*sign, &operand, ty) {
                    Some(value) => Ok(value),
                    None => {
                        let text = format!("`{sign}` cannot stand before {}", operand.kind());
                        Err(self.reports.error(span, text))
                    }
                }
            }
            ExpressionKind::Binary(operator, left, right) => {
                let left = self.work_out(left, ty);
                let right = self.work_out(right, ty)?;
                let left = left?;
                binary(operator, &left, &right).map_err(|message| self.reports.error(span, message))
            }
        }
    }

    fn named(&mut self, path: &Path, ty: Option<&Type>) -> Checked<Value> {
        // Where a literal of one enum or bitmask is expected, its names are in scope.
        if let (Some(Type::Named(wanted, NamedKind::Enum | NamedKind::Bitmask)), [name]) =
            (ty.map(Type::resolved), path.parts.as_slice())
            && let Some(literals) = self.literals.get(&**wanted)
            && let Some((_, value)) = literals.iter().find(|(literal, _)| *literal == *name.text)
        {
            return Ok(value.clone());
        }
        match self.scopes.find(path, self.reports)? {
            Meaning::Constant(constant) => Ok(constant.1.clone()),
            Meaning::Enumerator(value) => Ok(value),
            other => {
                let text = format!("expected a value, found {} `{}`", other.kind(), path.text());
                Err(self.reports.error(path.span, text))
            }
        }
    }
}

fn unary(sign: char, operand: &Value, ty: Option<&Type>) -> Option<Value> {
    Some(match (sign, operand) {
        ('-', Value::Integer(value)) => Value::Integer(value.checked_neg()?),
        ('-', Value::Floating(value)) => Value::Floating(-value),
        ('-', Value::LongDouble(value)) => Value::LongDouble(value.negate()),
        ('-', Value::Fixed(value)) => Value::Fixed(value.negate()),
        ('+', Value::Integer(_) | Value::Floating(_) | Value::LongDouble(_) | Value::Fixed(_)) => {
            operand.clone()
        }
        ('~', Value::Integer(value)) => {
            // For an unsigned type `~` inverts all bits; otherwise the result is -(value + 1).
            let max = match ty.map(Type::resolved) {
                Some(Type::Primitive(primitive)) => {
                    range(*primitive).filter(|(min, _)| *min == 0).map(|(_, max)| max)
                }
                _ => None,
            };
            Value::Integer(max.map_or(!value, |max| max & !value))
        }
        _ => return None,
    })
}

fn binary(operator: &str, left: &Value, right: &Value) -> Result<Value, String> {
    let wrong =
        || format!("`{operator}` cannot stand between {} and {}", left.kind(), right.kind());
    match (left, right) {
        (Value::Integer(a), Value::Integer(b)) => integers(operator, *a, *b).map(Value::Integer),
        (Value::Fixed(a), Value::Fixed(b)) if is_arithmetic(operator) => {
            let result = a.calculate(operator, *b);
            let text = || format!("`{a} {operator} {b}` has no value of at most 31 digits");
            result.map(Value::Fixed).ok_or_else(text)
        }
        (Value::Fixed(a), Value::Integer(b)) => {
            binary(operator, &Value::Fixed(*a), &Value::Fixed(super::Decimal::from_integer(*b)))
        }
        (Value::Integer(a), Value::Fixed(b)) => {
            binary(operator, &Value::Fixed(super::Decimal::from_integer(*a)), &Value::Fixed(*b))
        }
        (Value::LongDouble(_), Value::LongDouble(_) | Value::Floating(_) | Value::Integer(_))
        | (Value::Floating(_) | Value::Integer(_), Value::LongDouble(_))
            if is_arithmetic(operator) =>
        {
            let (a, b) = quadruple(left).zip(quadruple(right)).ok_or_else(wrong)?;
            let result = a.calculate(operator, b).map(Value::LongDouble);
            result.ok_or_else(|| format!("`{a} {operator} {b}` has no value"))
        }
        (Value::Floating(_) | Value::Integer(_), Value::Floating(_) | Value::Integer(_))
            if is_arithmetic(operator) =>
        {
            let (Some(a), Some(b)) = (floating(left), floating(right)) else { return Err(wrong()) };
            let result = match operator {
                "+" => a + b,
                "-" => a - b,
                "*" => a * b,
                _ => a / b,
            };
            if result.is_finite() {
                return Ok(Value::Floating(result));
            }
            Err(format!("`{a:?} {operator} {b:?}` has no value"))
        }
        _ => Err(wrong()),
    }
}

fn is_long_double(ty: Option<&Type>) -> bool {
    matches!(ty.map(Type::resolved), Some(Type::Primitive(Primitive::LongDouble)))
}

fn is_arithmetic(operator: &str) -> bool {
    matches!(operator, "+" | "-" | "*" | "/")
}

fn floating(value: &Value) -> Option<f64> {
    match value {
        Value::Floating(value) => Some(*value),
        Value::Integer(value) => Some(*value as f64),
        _ => None,
    }
}

fn integers(operator: &str, a: i128, b: i128) -> Result<i128, String> {
    let result = match operator {
        "|" => Some(a | b),
        "^" => Some(a ^ b),
        "&" => Some(a & b),
        "<<" | ">>" if !(0..64).contains(&b) => {
            return Err(format!("a shift is by 0 to 63 bits, found {b}"));
        }
        "<<" => a.checked_mul(1_i128 << b),
        ">>" => Some(a >> b),
        "+" => a.checked_add(b),
        "-" => a.checked_sub(b),
        "*" => a.checked_mul(b),
        _ if b == 0 => return Err("a number cannot be divided by zero".to_owned()),
        "/" => a.checked_div(b),
        _ => a.checked_rem(b),
    };
    // Intermediate results may exceed every IDL type, but not 128 bits.
    result.ok_or_else(|| format!("`{a} {operator} {b}` is larger than any integer type"))
}
