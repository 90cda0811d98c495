//! `DdsType` for enums without data.
//!
//! Owns the mapping of enumerators to the 32-bit numbers of CDR.

use crate::attributes::{Container, enumerator_name};
use proc_macro2::TokenStream;
use quote::quote;
use syn::{DataEnum, DeriveInput, Error, Fields, Ident};

pub(crate) fn implement(
    input: &DeriveInput,
    data: &DataEnum,
    container: &Container,
) -> syn::Result<TokenStream> {
    let mut variants: Vec<&Ident> = Vec::new();
    let mut names: Vec<String> = Vec::new();
    for variant in &data.variants {
        if !matches!(variant.fields, Fields::Unit) {
            return Err(Error::new_spanned(
                variant,
                "an enumerator of a DDS type carries no data: use a struct with an enum and the \
                 data as members",
            ));
        }
        variants.push(&variant.ident);
        names.push(enumerator_name(variant)?);
    }
    if variants.is_empty() {
        return Err(Error::new_spanned(
            &input.ident,
            "a DDS enum needs at least one enumerator: add one",
        ));
    }
    let (ident, Container { name, types }) = (&input.ident, container);
    Ok(quote! {
        #[automatically_derived]
        impl #types::DdsType for #ident {
            const TYPE_NAME: &'static str = #name;
            const LAYOUT: ::core::option::Option<#types::PlainLayout<Self>> =
                ::core::option::Option::None;
            const FINGERPRINT: u64 = #types::Fingerprint::new("enum")
                .text(#name)
                #(.text(#names).number(#ident::#variants as i32 as u32 as u64))*
                .finish();
            const MIN_CDR_SIZE: usize = 4;

            fn serialize(
                &self,
                writer: &mut #types::CdrWriter<'_>,
            ) -> ::core::result::Result<(), #types::CdrError> {
                let number = match self {
                    #(Self::#variants => #ident::#variants as i32 as u32,)*
                };
                writer.write_u32(number)
            }

            fn deserialize(
                reader: &mut #types::CdrReader<'_>,
            ) -> ::core::result::Result<Self, #types::CdrError> {
                let offset = reader.position();
                let found = reader.read_u32()?;
                #(
                    if found == #ident::#variants as i32 as u32 {
                        return ::core::result::Result::Ok(Self::#variants);
                    }
                )*
                ::core::result::Result::Err(#types::CdrError::UnknownEnumerator {
                    offset,
                    type_name: <Self as #types::DdsType>::TYPE_NAME,
                    found,
                })
            }
        }
        #(
            const _: () = ::core::assert!(
                #ident::#variants as i128 == #ident::#variants as i32 as i128,
                "the number of an enumerator must fit 32 bits with a sign"
            );
        )*
    })
}
