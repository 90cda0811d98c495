//! `DdsType` for bitmasks and bitsets: integers with named parts.
//!
//! Owns the positions of the parts.

use crate::attributes::{AttributePlace, Attributes};
use crate::members::index;
use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{DataStruct, DeriveInput, Error, Fields};

pub(crate) fn implement_mask(
    input: &DeriveInput,
    data: &DataStruct,
    container: &Attributes,
) -> syn::Result<TokenStream> {
    container.only(AttributePlace::Bitmask)?;
    let (ident, types) = (&input.ident, container.types());
    let bits = container.bit_bound.unwrap_or(32);
    let holder = match bits {
        0..=8 => "u8",
        9..=16 => "u16",
        17..=32 => "u32",
        _ => "u64",
    };
    let fields = match &data.fields {
        Fields::Unnamed(fields) => fields.unnamed.iter().collect(),
        _ => Vec::new(),
    };
    let [field] = fields.as_slice() else {
        return Err(Error::new_spanned(
            ident,
            format!("a bitmask is one integer: write `struct {ident}({holder});`"),
        ));
    };
    let ty = &field.ty;
    if quote!(#ty).to_string() != holder {
        return Err(Error::new_spanned(
            ty,
            format!("a bitmask of {bits} bits is a {holder}: use it, or change bit_bound"),
        ));
    }
    if let Some((flag, _)) = container.flags.iter().find(|(_, position)| *position >= bits) {
        return Err(Error::new_spanned(
            ident,
            format!(
                "the bit `{flag}` is beyond the {bits} bits of the mask: make bit_bound larger"
            ),
        ));
    }
    let name = container.name_of(ident);
    let flags = container.flags.iter().map(|(flag, position)| quote!((#flag, #position)));
    let option = quote!(::core::option::Option);
    Ok(quote! {
        #[automatically_derived]
        impl #types::DdsType for #ident {
            const TYPE_NAME: &'static str = #name;
            const DESCRIPTOR: #types::TypeDescriptor = #types::TypeDescriptor {
                name: #name,
                kind: #types::TypeKind::Bitmask { bit_bound: #bits, flags: &[#(#flags),*] },
            };
            const LAYOUT: #option<#types::PlainLayout<Self>> = {
                let members = #types::PlainMembers::new().member::<#ty>(
                    ::core::mem::offset_of!(#ident, 0)
                );
                match members.hash() {
                    #option::None => #option::None,
                    // SAFETY: the only field is an integer, and every bit pattern of an integer
                    // is valid.
                    #option::Some(hash) => {
                        #option::Some(unsafe { #types::PlainLayout::new(hash) })
                    }
                }
            };
            const MIN_CDR_SIZE: usize = <#ty as #types::DdsType>::MIN_CDR_SIZE;
            const LENGTH_CODE: u32 = <#ty as #types::DdsType>::LENGTH_CODE;

            fn default_value() -> Self {
                Self(0)
            }

            fn serialize(
                &self,
                writer: &mut #types::CdrWriter<'_>,
            ) -> ::core::result::Result<(), #types::CdrError> {
                <#ty as #types::DdsType>::serialize(&self.0, writer)
            }

            fn deserialize(
                reader: &mut #types::CdrReader<'_>,
            ) -> ::core::result::Result<Self, #types::CdrError> {
                <#ty as #types::DdsType>::deserialize(reader).map(Self)
            }
        }
        #[automatically_derived]
        impl #types::Discriminator for #ident {
            fn from_label(label: i64) -> #option<Self> {
                <#ty as #types::Discriminator>::from_label(label).map(Self)
            }

            fn label(&self) -> i64 {
                <#ty as #types::Discriminator>::label(&self.0)
            }

            fn nth_label(index: usize) -> #option<i64> {
                <#ty as #types::Discriminator>::nth_label(index)
            }

            fn value_of_label(label: i64) -> #option<#types::ValueRef<'static>> {
                Self::from_label(label)
                    .map(|mask| #types::ValueRef::Bitmask(::core::convert::Into::into(mask.0)))
            }
        }
        #[automatically_derived]
        impl #types::Reflect for #ident {
            fn value(&self) -> #types::ValueRef<'_> {
                #types::ValueRef::Bitmask(::core::convert::Into::into(self.0))
            }
        }
    })
}

pub(crate) fn implement_set(
    input: &DeriveInput,
    data: &DataStruct,
    container: &Attributes,
) -> syn::Result<TokenStream> {
    container.only(AttributePlace::Bitset)?;
    let (ident, types) = (&input.ident, container.types());
    let name = container.name_of(ident);
    let Fields::Named(fields) = &data.fields else {
        return Err(Error::new_spanned(
            ident,
            "the fields of a bitset have names: write `struct Name { #[dds(bits = 3)] field: u8 }`",
        ));
    };
    let (mut idents, mut tys, mut names) = (Vec::new(), Vec::new(), Vec::new());
    let (mut positions, mut widths, mut total) = (Vec::new(), Vec::new(), 0);
    for field in &fields.named {
        let Some(field_ident) = &field.ident else { continue };
        let attributes = Attributes::read(&field.attrs)?;
        attributes.only(AttributePlace::BitsetField)?;
        let Some(bits) = attributes.bits else {
            return Err(Error::new_spanned(
                field_ident,
                "a field of a bitset needs its number of bits: add #[dds(bits = 3)]",
            ));
        };
        idents.push(field_ident);
        tys.push(&field.ty);
        names.push(attributes.name_of(field_ident));
        positions.push(total);
        widths.push(bits);
        total += bits;
    }
    if total == 0 || total > 64 {
        return Err(Error::new_spanned(
            ident,
            "the fields of a bitset have 1 to 64 bits together: change their bits",
        ));
    }
    let places = (0..idents.len()).map(index);
    let count = index(idents.len());
    let checks = tys.iter().zip(&widths).map(|(ty, bits)| {
        quote_spanned! {ty.span()=>
            const _: () = ::core::assert!(
                #bits <= <#ty as #types::derived::Bits>::MOST,
                "more bits than the field's type has: use a larger type or fewer bits"
            );
        }
    });
    Ok(quote! {
        #[automatically_derived]
        impl #types::DdsType for #ident {
            const TYPE_NAME: &'static str = #name;
            const DESCRIPTOR: #types::TypeDescriptor = #types::TypeDescriptor {
                name: #name,
                kind: #types::TypeKind::Bitset(&[
                    #(#types::BitField {
                        name: #names,
                        position: #positions,
                        bits: #widths,
                        type_of: #types::descriptor_of::<#tys>,
                    }),*
                ]),
            };
            const LAYOUT: ::core::option::Option<#types::PlainLayout<Self>> =
                ::core::option::Option::None;
            const MIN_CDR_SIZE: usize = #types::derived::bytes_for(#total);
            const LENGTH_CODE: u32 =
                #types::derived::length_code_for(<Self as #types::DdsType>::MIN_CDR_SIZE);

            fn default_value() -> Self {
                Self { #(#idents: #types::derived::take_bits(0, #positions, #widths)),* }
            }

            fn serialize(
                &self,
                writer: &mut #types::CdrWriter<'_>,
            ) -> ::core::result::Result<(), #types::CdrError> {
                let number = 0
                    #(| #types::derived::place_bits::<#tys>(
                        self.#idents,
                        #positions,
                        #widths,
                        #name,
                        #names,
                    )?)*;
                #types::derived::write_bits(writer, number, #total)
            }

            fn deserialize(
                reader: &mut #types::CdrReader<'_>,
            ) -> ::core::result::Result<Self, #types::CdrError> {
                let number = #types::derived::read_bits(reader, #total)?;
                ::core::result::Result::Ok(Self {
                    #(#idents: #types::derived::take_bits::<#tys>(number, #positions, #widths)),*
                })
            }
        }
        #[automatically_derived]
        impl #types::Reflect for #ident {
            fn value(&self) -> #types::ValueRef<'_> {
                #types::ValueRef::Structure(self)
            }

            fn parts(&self) -> usize {
                #count
            }

            fn part(&self, place: usize) -> #types::ValueRef<'_> {
                match place {
                    #(#places => <#tys as #types::Reflect>::value(&self.#idents),)*
                    _ => #types::ValueRef::Absent,
                }
            }
        }
        #(#checks)*
    })
}
