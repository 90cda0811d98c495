//! A value that members are compared with.

use std::sync::Arc;

use idl_cdr::{LongDouble, ValueRef};

/// A value of the kind of the member with which it is compared.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Constant {
    Boolean(bool),
    Signed(i64),
    /// A value that is too large for the signed kind.
    Unsigned(u64),
    Float(f64),
    /// With all bits of a long double, and all digits of a decimal number.
    Long(LongDouble),
    Text(String),
    Enumerator(i32, Arc<str>),
}

impl Constant {
    #[inline]
    pub(crate) fn value(&self) -> ValueRef<'_> {
        match self {
            Constant::Boolean(value) => ValueRef::Bool(*value),
            Constant::Signed(value) => ValueRef::Signed(*value),
            Constant::Unsigned(value) => ValueRef::Unsigned(*value),
            Constant::Float(value) => ValueRef::Double(*value),
            Constant::Long(value) => ValueRef::LongDouble(value),
            Constant::Text(text) => ValueRef::Text(text),
            Constant::Enumerator(value, name) => ValueRef::Enumerator { value: *value, name },
        }
    }

    /// The text; empty if the value is no text.
    #[inline]
    pub(crate) fn text(&self) -> &str {
        match self {
            Constant::Text(text) => text,
            _ => "",
        }
    }
}
