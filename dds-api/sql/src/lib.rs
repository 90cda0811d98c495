//! The SQL of DDS: selection, order and joins of samples (annex B of the standard).
//!
//! An expression is parsed ([`Condition`], [`Query`], [`Selection`]), bound to a type, and then
//! evaluated for samples. A [`Filter`] does all of this.
//!
//! Owns: the language. Never does: know a topic, or allocate during the evaluation of a sample.

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
    Column, Condition, FieldName, FieldStep, Literal, Operand, OperandKind, Predicate, Query,
    Relation, Selection,
};
