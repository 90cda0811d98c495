//! The SQL of DDS: which samples, in which order, joined how (annex B of the standard).
//!
//! An expression is parsed ([`Condition`], [`Query`], [`Selection`]), bound to a type, and then asked about
//! samples: a [`Filter`] does all of it.
//!
//! Owns: the language. Never does: know a topic, or allocate when a sample is looked at.

#![forbid(unsafe_code)]

mod bind;
mod constant;
mod error;
mod filter;
mod lexer;
mod parser;
mod pattern;
mod syntax;

pub use error::ExpressionError;
pub use filter::Filter;
pub use parser::DEEPEST;
pub use syntax::{
    Column, Condition, FieldName, Literal, Operand, OperandKind, Predicate, Query, Relation,
    Selection, Step,
};
