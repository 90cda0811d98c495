//! `#[derive(DdsType)]`: topic types from Rust structs and enums.
//!
//! Owns the reading of the `#[dds(...)]` attributes and the code that implements `DdsType`. It
//! decides nothing about bytes: the code it writes calls `idl-cdr` for every value.
//!
//! | attribute | on | meaning |
//! | --- | --- | --- |
//! | `#[dds(name = "Module::Type")]` | struct, enum | the name in IDL; the Rust name if absent |
//! | `#[dds(crate = "idl_cdr")]` | struct, enum | where `DdsType` comes from; `dds_api::types` if absent |
//! | `#[dds(key)]` | field | the member belongs to the key |
//! | `#[dds(name = "member")]` | field | the member's name in IDL; the field's name if absent |
//! | `#[dds(bound = 32)]` | field | the most characters or elements of a string or sequence |
//! | `#[dds(bound = [8, 32])]` | field | the same for a sequence of strings, outermost first; `_` is no bound |

mod attributes;
mod enumeration;
mod structure;

use proc_macro::TokenStream;
use syn::{Data, DeriveInput, Error, parse_macro_input};

/// Implements `DdsType` for a struct with named fields, or for an enum without data.
///
/// The fields' types must be DDS types too. Where every field is a number, an array of numbers or
/// a struct of such, values travel as they lie in memory; nothing needs to be said for it.
#[proc_macro_derive(DdsType, attributes(dds))]
pub fn derive_dds_type(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    expand(&input).unwrap_or_else(Error::into_compile_error).into()
}

fn expand(input: &DeriveInput) -> syn::Result<proc_macro2::TokenStream> {
    if !input.generics.params.is_empty() {
        return Err(Error::new_spanned(
            &input.generics,
            "a DDS type cannot be generic, because a topic has one wire form: \
             write one struct for each use",
        ));
    }
    let container = attributes::Container::read(input)?;
    match &input.data {
        Data::Struct(data) => structure::implement(input, data, &container),
        Data::Enum(data) => enumeration::implement(input, data, &container),
        Data::Union(data) => Err(Error::new_spanned(
            data.union_token,
            "a Rust union cannot be a DDS type, because nothing says which field is set: \
             use a struct or an enum",
        )),
    }
}
