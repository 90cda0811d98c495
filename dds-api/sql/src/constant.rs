//! A value that members are compared with.

use std::sync::Arc;

use idl_cdr::{LongDouble, ValueRef};

/// A value of the kind that its member has.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Constant {
    Boolean(bool),
    Signed(i64),
    /// What is too large for the others.
    Unsigned(u64),
    Float(f64),
    /// With all bits that a long double, and all digits that a decimal number can have.
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

    /// Its text, if it is one.
    #[inline]
    pub(crate) fn text(&self) -> &str {
        match self {
            Constant::Text(text) => text,
            _ => "",
        }
    }
}
