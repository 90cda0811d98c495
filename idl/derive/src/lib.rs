//! `#[derive(DdsType)]`: topic types from Rust structs and enums.
//!
//! Owns the reading of the `#[dds(...)]` attributes and the code that implements `DdsType`. It
//! decides nothing about bytes: the code it writes calls `idl-cdr` for every value.
//!
//! A type that says nothing of its extensibility is `final`: its members follow each other, and nothing
//! says how long it is.
//!
//! ## On a type
//! | attribute | on | meaning |
//! | --- | --- | --- |
//! | `#[dds(name = "Module::Type")]` | any | the name in IDL; the Rust name if absent |
//! | `#[dds(crate = "idl_cdr")]` | any | where `DdsType` comes from; `dds_api::types` if absent |
//! | `#[dds(extensibility = "final")]`, `"appendable"`, `"mutable"` | struct, union | how the type may change; `final` if absent |
//! | `#[dds(nested)]` | struct, union | not the type of a topic: making one of it does not compile |
//! | `#[dds(topic = "NAME")]` | struct, union | the name of the topic that it is meant for: `DomainParticipant::topic_of` uses it |
//! | `#[dds(data_representation(XCDR1, XCDR2))]` | struct, union | in which representations samples may travel: `XCDR1`, `XML`, `XCDR2`; all if absent |
//! | `#[dds(autoid = "sequential")]`, `"hash"` | struct, union | where member ids come from; `sequential` if absent |
//! | `#[dds(bit_bound = 8)]` | enum | 1 to 32 bits, so 1, 2 or 4 bytes with a sign; 32 if absent |
//! | `#[dds(ignore_literal_names)]` | enum | writers may have other names for the same numbers |
//! | `#[dds(union, discriminator = "i32")]` | enum with data | a union; the discriminator is an integer, `bool`, `char`, `WChar` or an enum |
//! | `#[dds(discriminator_key)]` | union | the discriminator is the key |
//! | `#[dds(discriminator_default = EXPR)]` | union | what selects the case of a value of which nothing is said; the default of its type if absent |
//! | `#[dds(discriminator_try_construct = "discard")]`, `"use_default"` | union | what a reader does with a discriminator that selects nothing: refuse the union, or take its default, if the union says where it ends |
//! | `#[dds(bitmask, bit_bound = 8)]` | `struct Flags(u8);` | a bitmask, its integer without sign and of 1, 2, 4 or 8 bytes as `bit_bound` (32 if absent) asks; the constants are written beside it |
//! | `#[dds(flags(READ = 0, WRITE = 3))]` | bitmask | the names of its bits; remembered |
//! | `#[dds(bitset)]` | struct | a bitset: fields of at most 64 bits together in one integer, the first one lowest |
//!
//! ## On a field
//! | attribute | meaning |
//! | --- | --- |
//! | `key` | the member belongs to the key |
//! | `id = 7` | its member id; the ones after it count on from there |
//! | `hashid`, `hashid = "text"` | its id is the hash of its name, or of the text |
//! | `must_understand` | a reader that does not know the member refuses the sample |
//! | `default = EXPR` | its value where a sample lacks it |
//! | `external` | it is a `Box<T>`; a `Box<T>` is external whether this is said or not |
//! | `name = "member"` | its name in IDL; the field's name if absent |
//! | `bound = 32` | the most bytes of a string, characters of a `WString`, elements of a sequence or map |
//! | `bound = [8, 32]` | the same for what is nested, outermost first; `_` is no bound; of a map: its own, its keys', its values' |
//! | `element_bound = 32`, `element_bound = [8, 32]` | appended to `bound`, which is `_` if absent |
//! | `try_construct = "discard"`, `"use_default"`, `"trim"` | what a reader does with a value that its type does not allow; `discard`, the whole sample, if absent |
//! | `element_try_construct = "trim"`, `= ["discard", "trim"]` | the same of elements, outermost first: one for each `Vec` and array, two for each `BTreeMap`, its keys' and its values'; an array of arrays is one |
//! | `base` | on the first field: the base struct, whose members come first as if they were this one's |
//! | `non_serialized` | not in any sample; a reader has `default = EXPR`, or `Default::default()` |
//! | `range(min = 0, max = 9)`, `min = 0`, `max = 9`, `unit = "m"` | remembered |
//! | `bits = 3` | of a bitset: how many bits a field of an integer type or `bool` has |
//!
//! `Option<T>` is an optional member, `Vec<T>` a sequence, `[T; N]` an array, `BTreeMap<K, V>` a map,
//! `String` a string, `char` an 8-bit character (up to U+00FF). `WString`, `WChar`, `LongDouble` and
//! `Fixed<DIGITS, SCALE>` are types of `idl-cdr`.
//!
//! ## On an enumerator or a variant
//! | attribute | on | meaning |
//! | --- | --- | --- |
//! | `name = "ENUMERATOR"` | both | the name in IDL; the Rust name if absent |
//! | `default_literal` | enumerator | the enum's default; the first one if absent |
//! | `case = 1`, `case = 1, 2` | variant | the labels of this member: literals, or paths of constants and enumerators; the first one is written, unless the value keeps its own |
//! | `default` | variant | the member of all other labels; what is written is the lowest label that has no case, unless the value keeps its own |
//! | `default_value = EXPR` | variant | what the member is where a sample lacks it |
//! | `id`, `hashid`, `bound`, `element_bound`, `external`, `try_construct`, `element_try_construct`, `range`, `min`, `max`, `unit` | variant | as on a field |
//!
//! A variant has one field without a name, or none where a label selects no member. One that several labels select
//! can keep which it was: it has a field `discriminator` of the discriminator's type, and one of any name for the member,
//! `Wing { discriminator: i32, area: f64 }`. A value whose `discriminator` selects another variant is not written.

mod attributes;
mod bits;
mod enumeration;
mod members;
mod structure;
mod union;

use attributes::Attributes;
use proc_macro::TokenStream;
use syn::{Data, DeriveInput, Error, parse_macro_input};

/// Implements `DdsType` for a struct with named fields, an enum without data, a union (an enum whose
/// variants carry data), a bitmask or a bitset.
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
    refuse_packed(input)?;
    let container = Attributes::read(&input.attrs)?;
    match &input.data {
        Data::Struct(data) if container.bitmask => bits::implement_mask(input, data, &container),
        Data::Struct(data) if container.bitset => bits::implement_set(input, data, &container),
        Data::Struct(data) => structure::implement(input, data, &container),
        Data::Enum(data) if container.union => union::implement(input, data, &container),
        Data::Enum(data) => enumeration::implement(input, data, &container),
        Data::Union(data) => Err(Error::new_spanned(
            data.union_token,
            "a Rust union cannot be a DDS type, because nothing says which field is set: \
             use a struct, or an enum with #[dds(union)]",
        )),
    }
}

/// A packed struct cannot lend references to its fields.
fn refuse_packed(input: &DeriveInput) -> syn::Result<()> {
    for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident("repr")) {
        attribute.parse_nested_meta(|item| {
            if item.path.is_ident("packed") {
                return Err(item.error(
                    "a packed struct cannot be a DDS type: remove `packed`; CDR has padding \
                     rules of its own",
                ));
            }
            if item.input.peek(syn::token::Paren) {
                let content;
                syn::parenthesized!(content in item.input);
                content.parse::<proc_macro2::TokenStream>()?;
            }
            Ok(())
        })?;
    }
    Ok(())
}
