//! A member of a struct or union, in generated code.
//!
//! Owns its description, its id, its default, and the way it is read. Never knows its owner.

use md5::{Digest, Md5};
use proc_macro2::{Literal, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Error, Expr, ExprLit, GenericArgument, Ident, Lit, Path, PathArguments, Type};

use crate::attributes::Attributes;

/// A member, its attributes, and its index in the generated code.
pub(crate) struct DerivedMember<'a> {
    pub(crate) ident: &'a Ident,
    pub(crate) ty: &'a Type,
    pub(crate) name: String,
    pub(crate) id: MemberId,
    pub(crate) attributes: Attributes,
}

/// A member id: counted from a number, or from the end of the base's ids.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum MemberId {
    Number(u32),
    AfterBase(u32),
}

impl MemberId {
    pub(crate) fn next(self) -> MemberId {
        match self {
            MemberId::Number(number) => MemberId::Number(number.saturating_add(1)),
            MemberId::AfterBase(offset) => MemberId::AfterBase(offset + 1),
        }
    }

    pub(crate) fn expression(self, types: &Path, base: Option<&Type>) -> TokenStream {
        match (self, base) {
            (MemberId::AfterBase(offset), Some(base)) => {
                quote!((<#base as #types::DdsStruct>::NEXT_ID + #offset))
            }
            (MemberId::Number(number) | MemberId::AfterBase(number), _) => quote!(#number),
        }
    }
}

impl<'a> DerivedMember<'a> {
    /// Makes a member, whose id is the next one unless an attribute gives another.
    pub(crate) fn new(
        ident: &'a Ident,
        ty: &'a Type,
        attributes: Attributes,
        next: MemberId,
        autoid_hash: bool,
    ) -> syn::Result<Self> {
        if attributes.id.is_some() && attributes.hashid.is_some() {
            return Err(Error::new_spanned(
                ident,
                "`id` and `hashid` exclude each other: remove one",
            ));
        }
        let name = attributes.name_of(ident);
        let id = match (&attributes.hashid, attributes.id) {
            (Some(text), _) if !text.is_empty() => MemberId::Number(hash_of(text)),
            (Some(_), _) => MemberId::Number(hash_of(&name)),
            (None, Some(id)) => MemberId::Number(id),
            (None, None) if autoid_hash => MemberId::Number(hash_of(&name)),
            (None, None) => next,
        };
        Ok(DerivedMember { ident, ty, name, id, attributes })
    }

    /// Returns the constant that describes the member.
    pub(crate) fn descriptor(&self, types: &Path, owner: &str, base: Option<&Type>) -> TokenStream {
        let DerivedMember { ty, name, attributes, .. } = self;
        let id = self.id.expression(types, base);
        let key = attributes.key.then(|| quote!(.key()));
        let must_understand = attributes.must_understand.then(|| quote!(.must_understand()));
        let bounds = attributes.bounds();
        let bounds = (!bounds.is_empty()).then(|| quote!(.bounds(&[#(#bounds),*])));
        let try_construct = attributes
            .try_construct
            .as_ref()
            .map(|kind| quote!(.try_construct(#types::TryConstruct::#kind)));
        let elements = &attributes.element_try_construct;
        let elements = (!elements.is_empty())
            .then(|| quote!(.elements(&[#(#types::TryConstruct::#elements),*])));
        let written = attributes.default.is_some().then(|| {
            let default = self.default_function(types);
            quote!(.default(|writer| <#ty as #types::DdsType>::serialize(&(#default)(), writer)))
        });
        let mut texts = attributes.remembered.clone();
        if let Some(default) = &attributes.default {
            texts.push(("default".to_owned(), quote!(#default).to_string()));
        }
        if let Some(text) = &attributes.hashid {
            texts.push(("hashid".to_owned(), text.clone()));
        }
        let texts = texts
            .iter()
            .map(|(name, text)| quote!(#types::AnnotationText { name: #name, text: #text }));
        let texts: Vec<TokenStream> = texts.collect();
        let remembered = (!texts.is_empty()).then(|| quote!(.remembered(&[#(#texts),*])));
        // Errors about the type are reported at the type.
        quote_spanned! {ty.span()=>
            #types::MemberDescriptor::new::<#ty>(#owner, #name, #id)
                #key #must_understand #bounds #try_construct #elements #written #remembered
        }
    }

    /// Returns a function that returns the default. The user's expression does not see the
    /// surrounding generated code.
    pub(crate) fn default_function(&self, types: &Path) -> TokenStream {
        let DerivedMember { ty, attributes, .. } = self;
        match &attributes.default {
            None if attributes.non_serialized => {
                quote!(<#ty as ::core::default::Default>::default)
            }
            None => quote!(<#ty as #types::DdsType>::default_value),
            Some(Expr::Lit(ExprLit { lit: Lit::Str(text), .. })) => quote! {
                { fn default() -> #ty { ::core::convert::Into::into(#text) } default }
            },
            // The user may have allowed lints for the field's type at the field.
            Some(value) => quote!({
                #[allow(clippy::box_collection, clippy::vec_box)]
                fn default() -> #ty { #value }
                default
            }),
        }
    }

    /// Returns the code that reads the member; `descriptor` is its constant.
    pub(crate) fn read(
        &self,
        types: &Path,
        descriptor: &TokenStream,
        form: &TokenStream,
    ) -> TokenStream {
        let ty = self.ty;
        let tries = |kind: &Ident| kind != "Discard";
        if self.attributes.try_construct.as_ref().is_some_and(tries) {
            let default = self.default_function(types);
            quote!(reader.try_member::<#ty>(#descriptor, #form, #default)?)
        } else {
            quote!(reader.read_member::<#ty>(#descriptor, #form)?)
        }
    }

    /// Returns constants that report wrong uses at the derive, not at the first use of the type.
    pub(crate) fn checks(&self, types: &Path) -> TokenStream {
        let ty = self.ty;
        let bounds = self.attributes.bounds().len();
        let bounds = (bounds > 0).then(|| {
            quote_spanned! {ty.span()=>
                const _: () = ::core::assert!(
                    #bounds <= <#ty as #types::DdsType>::BOUNDS,
                    "more bounds than the field's type has strings and sequences: a bound belongs on \
                     a String, a Vec, a BTreeMap, or an array of such"
                );
            }
        });
        let elements = self.attributes.element_try_construct.len();
        let elements = (elements > 0).then(|| {
            quote_spanned! {ty.span()=>
                const _: () = ::core::assert!(
                    #elements <= <#ty as #types::DdsType>::ELEMENTS,
                    "more kinds of elements than the field's type has: one for each Vec and array, \
                     two for each BTreeMap"
                );
            }
        });
        let external = self.attributes.external.then(|| {
            quote_spanned! {ty.span()=>
                const _: () = ::core::assert!(
                    <#ty as #types::DdsType>::EXTERNAL,
                    "an external member is stored outside of the struct: make its type a Box, or \
                     an Option of a Box"
                );
            }
        });
        let present = self.attributes.key.then(|| {
            quote_spanned! {ty.span()=>
                const _: () = ::core::assert!(
                    !<#ty as #types::DdsType>::OPTIONAL,
                    "a member of the key cannot be optional: remove `key` or `Option`"
                );
            }
        });
        let trims = self.attributes.try_construct.as_ref().filter(|kind| *kind == "Trim");
        let trim = trims.filter(|_| self.attributes.bounds().is_empty()).map(|kind| {
            quote_spanned! {kind.span()=>
                ::core::compile_error!("the member has no bound to trim to: give it one, or use \"use_default\"");
            }
        });
        quote!(#bounds #elements #external #present #trim)
    }
}

/// Returns the member id that the standard derives from a text.
fn hash_of(text: &str) -> u32 {
    let digest = Md5::digest(text.as_bytes());
    u32::from_le_bytes([digest[0], digest[1], digest[2], digest[3]]) & 0x0fff_ffff
}

/// Whether every value of the field's type contains a value of the type that is derived. Cycles
/// through other types are not visible here.
pub(crate) fn is_endless(field: &Type, derived: &Ident) -> bool {
    match field {
        Type::Array(array) => is_endless(&array.elem, derived),
        Type::Path(of) => {
            let Some(last) = of.path.segments.last() else { return false };
            match &last.arguments {
                PathArguments::None => of.path.is_ident(derived) || of.path.is_ident("Self"),
                PathArguments::AngleBracketed(inside) if last.ident == "Box" => {
                    inside.args.iter().any(|argument| match argument {
                        GenericArgument::Type(inner) => is_endless(inner, derived),
                        _ => false,
                    })
                }
                _ => false,
            }
        }
        _ => false,
    }
}

/// Refuses two members of the same name or, as far as ids are known here, the same id.
pub(crate) fn require_distinct(members: &[DerivedMember<'_>]) -> syn::Result<()> {
    for (index, member) in members.iter().enumerate() {
        let before = &members[..index];
        if before.iter().any(|other| other.name.eq_ignore_ascii_case(&member.name)) {
            return Err(Error::new_spanned(
                member.ident,
                "two members have the same IDL name (case does not count in IDL): rename one",
            ));
        }
        if let Some(other) = before.iter().find(|other| other.id == member.id)
            && let MemberId::Number(id) | MemberId::AfterBase(id) = member.id
        {
            return Err(Error::new_spanned(
                member.ident,
                format!(
                    "`{}` has the member id {id} as well: give one of them another id",
                    other.name
                ),
            ));
        }
    }
    Ok(())
}

/// Returns a number without a type suffix, for indices.
pub(crate) fn index(number: usize) -> Literal {
    Literal::usize_unsuffixed(number)
}
