//! Types as values: what others say of theirs, whether ours go together with them, and samples of types that
//! are met at run time.
//!
//! Owns the type objects of DDS-XTYPES ([`TypeObjects`]), [`DynamicType`] and assignability. Never opens a
//! connection; what comes from peers is checked before it is used.

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
mod model;
mod objects;
mod resolve;
mod soundness;
pub mod standard;
mod topic_data;
mod words;

pub use builder::{MemberOptions, StructBuilder, UnionBuilder};
pub use consistency::{ConsistencyKind, Mismatch, TypeConsistency};
pub use data::{DataError, DynamicData, SerializedData, TextError, UnionValue, Value};
pub use description::{
    BitFieldDescription, CaseDescription, MemberDescription, TypeDescription, TypeShape,
};
pub use dynamic_type::DynamicType;
pub use fields::ValueKind;
pub use from_idl::topic_types;
pub use model::Primitive;
pub use objects::{ObjectKind, TypeObjects, object_bytes};
pub use resolve::TypeObjectError;
pub use topic_data::{Fields, TopicData};
