//! The IDL compiler: topic types written in OMG IDL become Rust types that derive `DdsType`.
//!
//! This crate owns the IDL grammar, the lookup of names, and the Rust that is written for a
//! specification. It never encodes a value; that is the business of the derive macro and of
//! `idl-cdr`.
//!
//! It takes modules (nested and reopened), structs, enums and typedefs; the basic types but `char`,
//! `wchar`, `long double`, `fixed` and `any`; strings, sequences (both bounded or not) and arrays;
//! `@key` and `@final`. Everything else is an error that says where it stands and what was expected
//! there. All structs are final.
//!
//! ```
//! let specification = idl::parse("nav.idl", "module Nav { struct Fix { @key long id; }; };")?;
//! let rust = idl::generate(&specification);
//! assert!(rust.contains("pub struct Fix"));
//! # Ok::<(), idl::Diagnostics>(())
//! ```
//!
//! In a build script, see [`build::compile`].

pub mod build;
mod generator;
mod lexer;
mod model;
mod naming;
mod parser;
mod scope;
mod source;
mod types;

pub use generator::{Generator, generate};
pub use model::{
    Definition, Enum, Member, Module, NamedKind, Primitive, ScopedName, Specification, Struct,
    Type, Typedef,
};
pub use parser::{MAX_DIAGNOSTICS, MAX_NESTING, parse};
pub use source::{Diagnostic, Diagnostics};
