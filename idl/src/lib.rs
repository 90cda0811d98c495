//! The IDL compiler: topic types written in OMG IDL 4.2 become Rust types that derive `DdsType`.
//!
//! Owns the IDL grammar, the lookup of names, and the Rust code generated for a specification.
//! Never encodes a value; the derive macro and `idl-cdr` do.
//!
//! ```
//! let specification = idl::parse("nav.idl", "module Nav { struct Fix { @key long id; }; };")?;
//! let rust = idl::generate(&specification);
//! assert!(rust.contains("pub struct Fix"));
//! # Ok::<(), idl::Diagnostics>(())
//! ```
//!
//! For use in a build script, see [`build::compile`]; for directories and macros, see [`Compiler`].
//! `docs/reference/idl.md` describes the mapping from IDL to Rust.
//!
//! ```text
//!  files ──> preprocessor ──> tokens ──> parser ──> syntax tree ──> lower ──> model ──> generator
//!            (source, lexer,                                       (scope, constant,
//!             literal)                                              annotation)
//! ```
//! All stages report to `diagnostic` and continue after an error, so one run reports all errors.

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
mod ros;
mod scope;
mod source;
mod syntax;

pub use compiler::{Compilation, Compiler, parse};
pub use constant::{Value, decimal::Decimal};
pub use diagnostic::{Diagnostic, Diagnostics, MAX_DIAGNOSTICS, Related, Severity};
pub use generator::{Generator, generate};
pub use keyword::is_keyword;
pub use model::Specification;
pub use parser::MAX_NESTING;
pub use preprocessor::MAX_INCLUDE_DEPTH;
pub use source::{Disk, Files, MAX_FILE_SIZE, Memory};
