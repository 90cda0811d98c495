//! `DdsType` for structs.
//!
//! Owns the order of the members on the wire (that of their declaration) and the one claim in
//! generated code that needs a proof: that a struct of plain members is plain.

use crate::attributes::{Container, Member};
use proc_macro2::{TokenStream, TokenTree};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{DataStruct, DeriveInput, Error, Fields, Ident, Type};

/// A field, its attributes, and its place in the generated code.
struct FieldPlan<'a> {
    ident: &'a Ident,
    ty: &'a Type,
    member: Member,
}

pub(crate) fn implement(
    input: &DeriveInput,
    data: &DataStruct,
    container: &Container,
) -> syn::Result<TokenStream> {
    refuse_packed(input)?;
    let plans = plan(input, data)?;
    let constants = constants(input, container, &plans);
    let methods = methods(container, &plans);
    let checks = checks(input, container, &plans);
    let (name, types) = (&input.ident, &container.types);
    Ok(quote! {
        #[automatically_derived]
        impl #types::DdsType for #name {
            #constants
            #methods
        }
        #checks
    })
}

fn plan<'a>(input: &'a DeriveInput, data: &'a DataStruct) -> syn::Result<Vec<FieldPlan<'a>>> {
    let Fields::Named(fields) = &data.fields else {
        return Err(Error::new_spanned(
            &input.ident,
            "the members of a DDS type have names: give this struct named fields, \
             `struct Name { field: Type }`",
        ));
    };
    let mut plans: Vec<FieldPlan<'_>> = Vec::new();
    for field in &fields.named {
        let (member, ty) = (Member::read(field)?, &field.ty);
        if plans.iter().any(|other| other.member.name.eq_ignore_ascii_case(&member.name)) {
            return Err(Error::new_spanned(
                field,
                "two members have the same IDL name (case does not count in IDL): rename one",
            ));
        }
        if names(&input.ident, quote!(#ty)) {
            return Err(Error::new_spanned(
                ty,
                "a DDS type cannot contain itself: keep the parts in a sequence elsewhere and \
                 refer to them by number",
            ));
        }
        let Some(ident) = &field.ident else { continue };
        plans.push(FieldPlan { ident, ty, member });
    }
    Ok(plans)
}

fn constants(input: &DeriveInput, container: &Container, plans: &[FieldPlan<'_>]) -> TokenStream {
    let Container { name, types } = container;
    let struct_name = &input.ident;
    let idents: Vec<_> = plans.iter().map(|plan| plan.ident).collect();
    let tys: Vec<_> = plans.iter().map(|plan| plan.ty).collect();
    let names = plans.iter().map(|plan| &plan.member.name);
    let bounds = plans.iter().map(|plan| &plan.member.bounds);
    let keys = plans.iter().map(|plan| plan.member.key);
    let keyed = plans.iter().any(|plan| plan.member.key);
    quote! {
        const TYPE_NAME: &'static str = #name;
        const LAYOUT: ::core::option::Option<#types::PlainLayout<Self>> = {
            let members = #types::PlainMembers::new()
                #(.member::<#tys>(::core::mem::offset_of!(#struct_name, #idents)))*;
            match members.hash() {
                ::core::option::Option::None => ::core::option::Option::None,
                // SAFETY: the list above has every field of the struct, because it is made from
                // the struct's definition. Each of them is plain, otherwise there would be no
                // hash, so every bit pattern of the struct is valid.
                ::core::option::Option::Some(hash) => {
                    ::core::option::Option::Some(unsafe { #types::PlainLayout::new(hash) })
                }
            }
        };
        const FINGERPRINT: u64 = #types::Fingerprint::new("struct")
            .text(#name)
            #(.member(#names, <#tys as #types::DdsType>::FINGERPRINT, &[#(#bounds),*], #keys))*
            .finish();
        const MIN_CDR_SIZE: usize = 0usize
            #(.saturating_add(<#tys as #types::DdsType>::MIN_CDR_SIZE))*;
        const KEYED: bool = #keyed;
    }
}

fn methods(container: &Container, plans: &[FieldPlan<'_>]) -> TokenStream {
    let types = &container.types;
    let result = |value: TokenStream| quote!(::core::result::Result<#value, #types::CdrError>);
    let (unit, this) = (result(quote!(())), result(quote!(Self)));
    let idents = plans.iter().map(|plan| plan.ident);
    let writes = plans.iter().map(|plan| write(types, plan));
    let reads = plans.iter().map(|plan| read(types, plan));
    let key_writes = plans.iter().filter(|plan| plan.member.key).map(|plan| {
        let FieldPlan { ident, ty, .. } = plan;
        let (whole, context) = (write(types, plan), context(types, plan));
        // A struct with a key of its own takes part with that key; any other member as a whole.
        quote! {
            if <#ty as #types::DdsType>::KEYED {
                <#ty as #types::DdsType>::serialize_key(&self.#ident, writer)#context?;
            } else {
                #whole
            }
        }
    });
    quote! {
        #[allow(unused_variables)]
        fn serialize(&self, writer: &mut #types::CdrWriter<'_>) -> #unit {
            #(#writes)*
            ::core::result::Result::Ok(())
        }

        #[allow(unused_variables)]
        fn deserialize(reader: &mut #types::CdrReader<'_>) -> #this {
            ::core::result::Result::Ok(Self { #(#idents: #reads),* })
        }

        #[allow(unused_variables)]
        fn serialize_key(&self, writer: &mut #types::CdrWriter<'_>) -> #unit {
            #(#key_writes)*
            ::core::result::Result::Ok(())
        }
    }
}

fn write(types: &syn::Path, plan: &FieldPlan<'_>) -> TokenStream {
    let FieldPlan { ident, ty, member } = plan;
    let (bounds, context) = (&member.bounds, context(types, plan));
    if bounds.is_empty() {
        quote!(<#ty as #types::DdsType>::serialize(&self.#ident, writer)#context?;)
    } else {
        quote! {
            <#ty as #types::DdsType>::serialize_bounded(&self.#ident, writer, &[#(#bounds),*])
                #context?;
        }
    }
}

fn read(types: &syn::Path, plan: &FieldPlan<'_>) -> TokenStream {
    let FieldPlan { ty, member, .. } = plan;
    let (bounds, context) = (&member.bounds, context(types, plan));
    if bounds.is_empty() {
        quote!(<#ty as #types::DdsType>::deserialize(reader)#context?)
    } else {
        quote!(<#ty as #types::DdsType>::deserialize_bounded(reader, &[#(#bounds),*])#context?)
    }
}

/// What tells the reader of an error which member it is about.
fn context(types: &syn::Path, plan: &FieldPlan<'_>) -> TokenStream {
    let name = &plan.member.name;
    quote! {
        .map_err(|error| error.in_member(<Self as #types::DdsType>::TYPE_NAME, #name))
    }
}

/// Constants that make wrong uses errors at the derive, not at the first use of the type.
fn checks(input: &DeriveInput, container: &Container, plans: &[FieldPlan<'_>]) -> TokenStream {
    let (name, types) = (&input.ident, &container.types);
    let bounds = plans.iter().filter(|plan| !plan.member.bounds.is_empty()).map(|plan| {
        let (ty, count) = (plan.ty, plan.member.bounds.len());
        quote_spanned! {plan.ty.span()=>
            const _: () = ::core::assert!(
                #count <= <#ty as #types::DdsType>::BOUNDS,
                "more bounds than the field's type has strings and sequences: a bound belongs on \
                 a String, a Vec, or an array of such"
            );
        }
    });
    quote! {
        // Types that contain each other have no fingerprint; the compiler reports the cycle here.
        const _: u64 = <#name as #types::DdsType>::FINGERPRINT;
        #(#bounds)*
    }
}

/// Whether a type's text has `ident` as a word of its own, not as a part of a path.
fn names(ident: &Ident, ty: TokenStream) -> bool {
    let is_colon = |token: Option<&TokenTree>| matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == ':');
    let tokens: Vec<TokenTree> = ty.into_iter().collect();
    tokens.iter().enumerate().any(|(index, token)| match token {
        TokenTree::Group(group) => names(ident, group.stream()),
        TokenTree::Ident(word) => {
            let before = index.checked_sub(1).and_then(|before| tokens.get(before));
            word == ident && !is_colon(before) && !is_colon(tokens.get(index + 1))
        }
        _ => false,
    })
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
                content.parse::<TokenStream>()?;
            }
            Ok(())
        })?;
    }
    Ok(())
}
