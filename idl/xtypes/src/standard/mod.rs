//! TypeIdentifier and TypeObject as defined by DDS-XTYPES 1.3 (annex B).
//!
//! Owns their layout. The standard defines them in IDL; here are the same types with the same
//! names, so that the derive macro produces the standard's bytes. Never knows their meaning. Where
//! a member of a union has several labels, each label has its own variant here.

#![allow(missing_docs, reason = "the names are the standard's, which says what they mean")]

mod identifier;
mod object;

pub use identifier::*;
pub use object::*;

/// Defines structs of the standard: extensibility, name and members.
macro_rules! structs {
    ($($extensibility:literal $name:ident {
        $($(#[$note:meta])* $member:ident: $of:ty),* $(,)?
    })*) => {
        $(
            #[derive(idl_cdr::DdsType, Clone, Debug, PartialEq, Eq)]
            #[dds(crate = "idl_cdr", nested, extensibility = $extensibility)]
            pub struct $name {
                $($(#[$note])* pub $member: $of,)*
            }
        )*
    };
}
pub(crate) use structs;
