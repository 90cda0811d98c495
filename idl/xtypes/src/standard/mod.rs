//! TypeIdentifier and TypeObject, as DDS-XTYPES 1.3 (annex B) has them.
//!
//! Owns their layout: the standard writes it in IDL, and what is here are the same types with the
//! same names, so that what the derive macro makes of them are the standard's bytes. Never knows what
//! they mean. Where a member of a union has several labels, each label has a variant of its own here.

#![allow(missing_docs, reason = "the names are the standard's, which says what they mean")]

mod identifier;
mod object;

pub use identifier::*;
pub use object::*;

/// Structs of the standard: how each may change, its name and its members.
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
