//! `#[derive(DdsType)]`: topic types from Rust structs and enums.
//!
//! Owns the reading of the `#[dds(...)]` attributes and the code that implements `DdsType`. Never
//! decides about bytes: the generated code calls `idl-cdr` for every value.
//!
//! A type without an extensibility attribute is `final`: its members follow each other, without
//! a size.
//!
//! ## On a type
//! - `#[dds(name = "Module::Type")]`, on any type: the IDL name. Default: the Rust name.
//! - `#[dds(crate = "idl_cdr")]`, on any type: the crate of `DdsType`. Default: `dds_api::types`.
//! - `#[dds(extensibility = "final")]`, `"appendable"`, `"mutable"`, on a struct or union: the
//!   changes that the type allows. Default: `final`.
//! - `#[dds(nested)]`, on a struct or union: not a topic type; a topic of the type does
//!   not compile.
//! - `#[dds(topic = "NAME")]`, on a struct or union: the name of the intended topic, which
//!   `DomainParticipant::topic_of` uses.
//! - `#[dds(data_representation(XCDR1, XCDR2))]`, on a struct or union: the representations in
//!   which samples may be sent: `XCDR1`, `XML`, `XCDR2`. Default: all.
//! - `#[dds(autoid = "sequential")]`, `"hash"`, on a struct or union: the source of member ids.
//!   Default: `sequential`.
//! - `#[dds(bit_bound = 8)]`, on an enum: 1 to 32 bits, hence 1, 2 or 4 bytes with a sign.
//!   Default: 32.
//! - `#[dds(ignore_literal_names)]`, on an enum: writers may use other names for the same numbers.
//! - `#[dds(union, discriminator = "i32")]`, on an enum with data: a union. The discriminator is an
//!   integer, `bool`, `char`, `WChar` or an enum.
//! - `#[dds(discriminator_key)]`, on a union: the discriminator is the key.
//! - `#[dds(discriminator_default = EXPR)]`, on a union: the default discriminator, which selects
//!   the case of a default value. Default: the default of the discriminator's type.
//! - `#[dds(discriminator_try_construct = "discard")]`, `"use_default"`, on a union: the action of
//!   a reader on a discriminator that selects nothing: refuse the union, or use its default if the
//!   end of the union is known.
//! - `#[dds(bitmask, bit_bound = 8)]`, on `struct Flags(u8);`: a bitmask. Its integer is unsigned
//!   and has 1, 2, 4 or 8 bytes according to `bit_bound` (default: 32). The constants are written
//!   beside it.
//! - `#[dds(flags(READ = 0, WRITE = 3))]`, on a bitmask: the names of its bits, which are
//!   only recorded.
//! - `#[dds(bitset)]`, on a struct: a bitset: fields of at most 64 bits in total in one integer,
//!   the first field lowest.
//!
//! ## On a field
//! - `key`: the member belongs to the key.
//! - `id = 7`: the member id; following ids count on from there.
//! - `hashid`, `hashid = "text"`: the id is the hash of the member's name, or of the text.
//! - `must_understand`: a reader that does not know the member refuses the sample.
//! - `default = EXPR`: the value where a sample lacks the member.
//! - `external`: the member is a `Box<T>`. A `Box<T>` is external with or without this attribute.
//! - `name = "member"`: the IDL name. Default: the field's name.
//! - `bound = 32`: the maximum number of bytes of a string, characters of a `WString`, or elements
//!   of a sequence or map.
//! - `bound = [8, 32]`: the bounds of a nested type, outermost first. `_` is no bound. For a map:
//!   its own bound, its keys', its values'.
//! - `element_bound = 32`, `element_bound = [8, 32]`: appended to `bound`, which is `_` if absent.
//! - `try_construct = "discard"`, `"use_default"`, `"trim"`: the action of a reader on a value that
//!   its type does not allow. Default: `discard`, which discards the whole sample.
//! - `element_try_construct = "trim"`, `= ["discard", "trim"]`: the actions on disallowed elements,
//!   outermost first: one for each `Vec` and array, two for each `BTreeMap` (its keys and its
//!   values). An array of arrays counts as one.
//! - `base`, on the first field: the base struct, whose members come first and count as members of
//!   this struct.
//! - `non_serialized`: left out of samples. A reader gets `default = EXPR`, or
//!   `Default::default()`.
//! - `range(min = 0, max = 9)`, `min = 0`, `max = 9`, `unit = "m"`: only recorded.
//! - `bits = 3`, in a bitset: the number of bits of a field of an integer type or `bool`.
//!
//! `Option<T>` is an optional member, `Vec<T>` a sequence, `[T; N]` an array, `BTreeMap<K, V>` a
//! map, `String` a string, `char` an 8-bit character (up to U+00FF). `WString`, `WChar`,
//! `LongDouble` and `Fixed<DIGITS, SCALE>` are types of `idl-cdr`.
//!
//! ## On an enumerator or a variant
//! - `name = "ENUMERATOR"`, on both: the IDL name. Default: the Rust name.
//! - `default_literal`, on an enumerator: the enum's default. Without it the first enumerator is
//!   the default.
//! - `case = 1`, `case = 1, 2`, on a variant: the labels of this member: literals, or paths of
//!   constants and enumerators. The first label is written, unless the value stores its own.
//! - `default`, on a variant: the member for all other labels. The lowest label without a case is
//!   written, unless the value stores its own.
//! - `default_value = EXPR`, on a variant: the member where a sample lacks it.
//! - `id`, `hashid`, `bound`, `element_bound`, `external`, `try_construct`,
//!   `element_try_construct`, `range`, `min`, `max`, `unit`, on a variant: as on a field.
//!
//! A variant has one unnamed field, or none if its label selects no member. A variant selected by
//! several labels can store the label. It then has a field `discriminator` of the discriminator's
//! type, and a field of any name for the member: `Wing { discriminator: i32, area: f64 }`. Writing
//! a value whose `discriminator` selects another variant fails.

mod attributes;
mod bits;
mod enumeration;
mod members;
mod structure;
mod union;

use attributes::Attributes;
use proc_macro::TokenStream;
use syn::{Data, DeriveInput, Error, parse_macro_input};

/// Implements `DdsType` for a struct with named fields, an enum without data, a union (an enum
/// whose variants carry data), a bitmask or a bitset.
///
/// The types of the fields must be DDS types too. If every field is a number, an array of numbers
/// or a struct of such, values are sent as they lie in memory, without any attribute.
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

/// Refuses packed structs, because references to their fields are not allowed.
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
