//! Types as values: type descriptions of peers, their compatibility with own types, and samples of
//! types that are known only at run time.
//!
//! Owns the type objects of DDS-XTYPES ([`TypeObjects`]), [`DynamicType`] and assignability. Never
//! opens a connection. Data from peers is checked before use.

mod any;
mod assign;
mod builder;
mod components;
mod consistency;
mod data;
mod description;
mod descriptor;
mod dynamic_type;
mod fields;
mod flags;
mod from_idl;
mod hash;
mod idl_text;
mod key_type;
mod model;
mod objects;
mod resolve;
mod soundness;
pub mod standard;
mod topic_data;
mod words;

pub use any::{Any, AnyError};
pub use builder::{MemberOptions, StructBuilder, UnionBuilder};
pub use consistency::{ConsistencyKind, Mismatch, TypeConsistency};
pub use data::{DataError, DynamicData, SerializedData, TextError, UnionValue, Value};
pub use description::{
    BitFieldDescription, CaseDescription, MemberDescription, TypeDescription, TypeShape,
};
pub use dynamic_type::DynamicType;
pub use fields::ValueKind;
pub use from_idl::{topic_types, type_names};
pub use idl_text::NotInIdl;
pub use model::Primitive;
pub use objects::{ObjectKind, TypeObjects, object_bytes};
pub use resolve::TypeObjectError;
pub use topic_data::{MemberLookup, TopicData};

/// Items that Rust generated from IDL needs, in one place: those of the derive macro, and [`Any`].
pub mod types {
    pub use idl_cdr::*;

    pub use crate::Any;
}
