//! The IDL compiler: topic types written in OMG IDL 4.2 become Rust types that derive `DdsType`.
//!
//! This crate owns the IDL grammar, the lookup of names, and the Rust that is written for a
//! specification. It never encodes a value; that is the business of the derive macro and of
//! `idl-cdr`.
//!
//! ```
//! let specification = idl::parse("nav.idl", "module Nav { struct Fix { @key long id; }; };")?;
//! let rust = idl::generate(&specification);
//! assert!(rust.contains("pub struct Fix"));
//! # Ok::<(), idl::Diagnostics>(())
//! ```
//!
//! In a build script, see [`build::compile`]; with directories and macros, [`Compiler`]. What of
//! IDL becomes what of Rust stands in `docs/IDL.md`.
//!
//! ```text
//!  files ──> preprocessor ──> tokens ──> parser ──> syntax tree ──> lower ──> model ──> generator
//!            (source, lexer,                                       (scope, constant,
//!             literal)                                              annotation)
//! ```
//! All of them report to `diagnostic`, and go on: one run tells all errors.

mod annotation;
pub mod build;
mod compiler;
mod constant;
mod diagnostic;
mod generator;
mod keyword;
mod lexer;
mod literal;
mod lower;
pub mod model;
mod naming;
mod parser;
mod preprocessor;
mod scope;
mod source;
mod syntax;

pub use compiler::{Compilation, Compiler, parse};
pub use constant::{Value, decimal::Decimal};
pub use diagnostic::{Diagnostic, Diagnostics, MAX_DIAGNOSTICS, Related, Severity};
pub use generator::{Generator, generate};
pub use model::Specification;
pub use parser::MAX_NESTING;
pub use preprocessor::MAX_INCLUDE_DEPTH;
pub use source::{Disk, Files, MAX_FILE_SIZE, Memory};
