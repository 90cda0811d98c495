//! `DdsType` for enums without data.
//!
//! Owns the mapping of enumerators to the numbers of CDR.

use crate::attributes::{AttributePlace, Attributes};
use crate::members::index;
use proc_macro2::TokenStream;
use quote::quote;
use syn::{DataEnum, DeriveInput, Error, Fields, Ident};

/// Number of bits of an enum without `bit_bound`.
const BITS: u32 = 32;

pub(crate) fn implement(
    input: &DeriveInput,
    data: &DataEnum,
    container: &Attributes,
) -> syn::Result<TokenStream> {
    container.only(AttributePlace::Enum)?;
    let mut variants: Vec<&Ident> = Vec::new();
    let mut names: Vec<String> = Vec::new();
    let mut default = None;
    for variant in &data.variants {
        if !matches!(variant.fields, Fields::Unit) {
            return Err(Error::new_spanned(
                variant,
                "an enumerator of a DDS type carries no data: make the enum a union, \
                 #[dds(union, discriminator = \"i32\")], or use a struct with an enum and the data \
                 as members",
            ));
        }
        let attributes = Attributes::read(&variant.attrs)?;
        attributes.only(AttributePlace::Enumerator)?;
        if attributes.default_literal && default.replace(variants.len()).is_some() {
            return Err(Error::new_spanned(
                variant,
                "an enum has one default: remove one default_literal",
            ));
        }
        variants.push(&variant.ident);
        names.push(attributes.name_of(&variant.ident));
    }
    let Some(first) = variants.get(default.unwrap_or(0)) else {
        return Err(Error::new_spanned(
            &input.ident,
            "a DDS enum needs at least one enumerator: add one",
        ));
    };
    let bits = container.bit_bound.unwrap_or(BITS);
    if bits > BITS {
        return Err(Error::new_spanned(
            &input.ident,
            "the numbers of an enum have at most 32 bits: make bit_bound smaller",
        ));
    }
    let (ident, types) = (&input.ident, container.types());
    let name = container.name_of(ident);
    let ignores = container.ignore_literal_names;
    let defaults = (0..variants.len()).map(|place| place == default.unwrap_or(0));
    let some = quote!(::core::option::Option::Some);
    let variant_count = index(variants.len());
    Ok(quote! {
        #[automatically_derived]
        impl #types::DdsType for #ident {
            const TYPE_NAME: &'static str = #name;
            const DESCRIPTOR: #types::TypeDescriptor = #types::TypeDescriptor {
                name: #name,
                kind: #types::TypeKind::Enumeration {
                    bit_bound: #bits,
                    literals: &[#(#types::Literal {
                        name: #names,
                        value: #ident::#variants as i32,
                        default: #defaults,
                    }),*],
                    ignore_literal_names: #ignores,
                },
            };
            const LAYOUT: ::core::option::Option<#types::PlainLayout<Self>> =
                ::core::option::Option::None;
            const MIN_CDR_SIZE: usize = #types::derived::bytes_for(#bits);
            const LENGTH_CODE: u32 =
                #types::derived::length_code_for(<Self as #types::DdsType>::MIN_CDR_SIZE);

            fn default_value() -> Self {
                Self::#first
            }

            #[inline]
            fn serialize(
                &self,
                writer: &mut #types::CdrWriter<'_>,
            ) -> ::core::result::Result<(), #types::CdrError> {
                let number = match self {
                    #(Self::#variants => #ident::#variants as i32 as u32 as u64,)*
                };
                #types::derived::write_bits(writer, number, #bits)
            }

            #[inline]
            fn deserialize(
                reader: &mut #types::CdrReader<'_>,
            ) -> ::core::result::Result<Self, #types::CdrError> {
                #types::derived::read_enumerator(reader, #bits, |found| {
                    #(
                        if found == #types::derived::lowest(#ident::#variants as i32, #bits) {
                            return #some(Self::#variants);
                        }
                    )*
                    ::core::option::Option::None
                })
            }
        }
        #[automatically_derived]
        impl #types::Discriminator for #ident {
            fn from_label(label: i64) -> ::core::option::Option<Self> {
                #(
                    if label == #ident::#variants as i64 {
                        return #some(Self::#variants);
                    }
                )*
                ::core::option::Option::None
            }

            fn label(&self) -> i64 {
                match self {
                    #(Self::#variants => #ident::#variants as i64,)*
                }
            }

            fn nth_label(index: usize) -> ::core::option::Option<i64> {
                [#(#ident::#variants as i64),*].get(index).copied()
            }

            fn value_of_label(label: i64) -> ::core::option::Option<#types::ValueRef<'static>> {
                #(
                    if label == #ident::#variants as i64 {
                        return #some(#types::ValueRef::Enumerator {
                            value: #ident::#variants as i32,
                            name: #names,
                        });
                    }
                )*
                ::core::option::Option::None
            }
        }
        #[automatically_derived]
        impl #types::Reflect for #ident {
            #[inline]
            fn value(&self) -> #types::ValueRef<'_> {
                match self {
                    #(Self::#variants => #types::ValueRef::Enumerator {
                        value: #ident::#variants as i32,
                        name: #names,
                    },)*
                }
            }
        }
        #(
            const _: () = ::core::assert!(
                #types::derived::fits_bits(#ident::#variants as i128, #bits),
                "the number of an enumerator must fit the enum's bits (32 with a sign, unless \
                 bit_bound says less): make bit_bound larger or the number smaller"
            );
        )*
        const _: () = ::core::assert!(
            #types::derived::are_unique::<#variant_count>(
                &[#(#types::derived::lowest(#ident::#variants as i32, #bits)),*]
            ),
            "two enumerators have the same bits: make bit_bound larger"
        );
    })
}
