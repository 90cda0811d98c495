//! `DdsType` for unions: enums whose variants carry a member each.
//!
//! Owns the mapping of labels to variants.

use crate::attributes::{AttributePlace, Attributes, Extensibility, extensibility};
use crate::members::{DerivedMember, MemberId, index, is_endless, require_distinct};
use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{
    DataEnum, DeriveInput, Error, Expr, ExprLit, Field, Fields, Ident, Lit, Path, Token, Type,
    Variant,
};

/// A variant and the labels that select it.
struct Case<'a> {
    ident: &'a Ident,
    /// Names of the fields, if they are named.
    named: Option<LabelledVariant<'a>>,
    labels: Vec<Expr>,
    default: bool,
    /// Index among the members, if the variant has a member.
    member: Option<usize>,
}

/// A variant that stores the label that selected it.
#[derive(Clone, Copy)]
struct LabelledVariant<'a> {
    discriminator: &'a Field,
    member: Option<&'a Ident>,
}

impl Case<'_> {
    /// Returns a pattern that matches the variant, or an expression that makes it. The arguments
    /// bind or fill its fields.
    fn pattern(&self, discriminator: &TokenStream, member: &TokenStream) -> TokenStream {
        let variant = self.ident;
        match self.named {
            Some(LabelledVariant { member: Some(name), .. }) => {
                quote!(Self::#variant { discriminator: #discriminator, #name: #member })
            }
            Some(LabelledVariant { member: None, .. }) => {
                quote!(Self::#variant { discriminator: #discriminator })
            }
            None if self.member.is_some() => quote!(Self::#variant(#member)),
            None => quote!(Self::#variant),
        }
    }
}

pub(crate) fn implement(
    input: &DeriveInput,
    data: &DataEnum,
    container: &Attributes,
) -> syn::Result<TokenStream> {
    container.only(AttributePlace::Union)?;
    container.require_topic()?;
    let Some(discriminator) = &container.discriminator else {
        return Err(Error::new_spanned(
            &input.ident,
            "a union needs a discriminator: add discriminator = \"i32\", or another integer, bool, \
             char, WChar or an enum",
        ));
    };
    let (mut cases, mut members) = (Vec::new(), Vec::new());
    // The discriminator is member 0.
    let mut next = MemberId::Number(1);
    for variant in &data.variants {
        let (case, member) = read(variant, next, container.autoid_hash)?;
        if let Some(member) = &member {
            next = member.id.next();
        }
        cases.push(Case { member: member.is_some().then_some(members.len()), ..case });
        members.extend(member);
    }
    if cases.is_empty() {
        return Err(Error::new_spanned(&input.ident, "a union needs at least one case: add one"));
    }
    require_distinct(&members)?;
    let endless = |case: &Case<'_>| {
        case.member.is_some_and(|member| is_endless(members[member].ty, &input.ident))
    };
    if cases.iter().all(endless) {
        return Err(Error::new_spanned(
            &input.ident,
            "the union has no finite value, because each variant contains another one: add a \
             variant that ends, or put the others into a Vec",
        ));
    }
    if let Some(member) = members.iter().find(|member| member.id == MemberId::Number(0)) {
        return Err(Error::new_spanned(
            member.ident,
            "the member id 0 is the discriminator's: give this one another id",
        ));
    }
    Ok(generate(input, container, discriminator, &cases, &members))
}

fn read(
    variant: &Variant,
    next: MemberId,
    autoid_hash: bool,
) -> syn::Result<(Case<'_>, Option<DerivedMember<'_>>)> {
    let mut attributes = Attributes::read(&variant.attrs)?;
    attributes.only(AttributePlace::Variant)?;
    if attributes.default.is_some() {
        return Err(Error::new_spanned(
            &variant.ident,
            "`default` of a variant takes no value: it marks the variant of all labels without a \
             case; the default value of the member is `default_value = EXPR`",
        ));
    }
    attributes.default = attributes.default_value.take();
    let (labels, default) = (std::mem::take(&mut attributes.cases), attributes.default_case);
    if labels.is_empty() && !default {
        return Err(Error::new_spanned(
            &variant.ident,
            "nothing selects this variant: add #[dds(case = LABEL)], or #[dds(default)] for all \
             other labels",
        ));
    }
    let (named, field) = match &variant.fields {
        Fields::Unit => (None, None),
        Fields::Unnamed(fields) if fields.unnamed.len() == 1 => (None, fields.unnamed.first()),
        Fields::Named(fields) => match named(&fields.named) {
            Some((discriminator, field)) => {
                let member = field.and_then(|field| field.ident.as_ref());
                (Some(LabelledVariant { discriminator, member }), field)
            }
            None => return Err(refused(variant)),
        },
        Fields::Unnamed(_) => return Err(refused(variant)),
    };
    let marked = variant.fields.iter().flat_map(|field| &field.attrs);
    if let Some(attribute) = marked.into_iter().find(|attribute| attribute.path().is_ident("dds")) {
        return Err(Error::new_spanned(
            attribute,
            "attributes of a union's member belong in front of its variant: move this one there",
        ));
    }
    if let (None, Some(value)) = (field, &attributes.default) {
        return Err(Error::new_spanned(
            value,
            "this variant has no member that could have a default: give it one, or remove \
             `default_value`",
        ));
    }
    let member = field
        .map(|field| DerivedMember::new(&variant.ident, &field.ty, attributes, next, autoid_hash))
        .transpose()?;
    Ok((Case { ident: &variant.ident, named, labels, default, member: None }, member))
}

/// Returns the field with the label and the one with the member, if there are no others.
fn named(fields: &Punctuated<Field, Token![,]>) -> Option<(&Field, Option<&Field>)> {
    let is_label =
        |field: &&Field| field.ident.as_ref().is_some_and(|name| name == "discriminator");
    let discriminator = fields.iter().find(is_label)?;
    let mut members = fields.iter().filter(|field| !is_label(field));
    let member = members.next();
    members.next().is_none().then_some((discriminator, member))
}

fn refused(variant: &Variant) -> Error {
    Error::new_spanned(
        &variant.ident,
        "a variant of a union has one member without a name, or none, or a field `discriminator` that \
         keeps the label and at most one other field: put more of them into a struct",
    )
}

fn generate(
    input: &DeriveInput,
    container: &Attributes,
    discriminator: &Type,
    cases: &[Case<'_>],
    members: &[DerivedMember<'_>],
) -> TokenStream {
    let (ident, types) = (&input.ident, container.types());
    let name = container.name_of(ident);
    let kind = extensibility(&types, container.extensibility);
    let (nested, keyed) = (container.nested, container.discriminator_key);
    let (topic, allowed) = (container.topic_name(), container.allowed_representations());
    let said = Discriminator::new(container, discriminator, &types);
    let Discriminator { default_function, described: of_discriminator } = &said;
    let key = if keyed { quote!(.key()) } else { quote!(.must_understand()) };
    let code = if container.extensibility == Extensibility::Final { 4u32 } else { 5u32 };
    let least = match container.extensibility {
        Extensibility::Mutable => quote!(4),
        _ => quote!(<#discriminator as #types::DdsType>::MIN_CDR_SIZE),
    };
    let (some, none) = (quote!(::core::option::Option::Some), quote!(::core::option::Option::None));
    let ok = quote!(::core::result::Result::Ok);
    let unit = quote!(::core::result::Result<(), #types::CdrError>);
    let default_member = |case: &Case<'_>| {
        case.member.map(|at| {
            let default = members[at].default_function(&types);
            quote!((#default)())
        })
    };
    let descriptors = cases.iter().map(|case| {
        let (labels, default) = (case.labels.iter().map(label_number), case.default);
        let member = match case.member {
            None => none.clone(),
            Some(at) => {
                let member = members[at].descriptor(&types, &name, None);
                quote!(#some(#member))
            }
        };
        quote! {
            #types::CaseDescriptor {
                labels: &[#(#labels),*],
                default: #default,
                member: #member,
            }
        }
    });
    let of_type = quote!(<#discriminator as #types::Discriminator>);
    let label_count = index(cases.iter().map(|case| case.labels.len()).sum());
    let skip = quote!(_);
    let places = cases.iter().enumerate().map(|(at, case)| {
        let (variant, at) = (case.pattern(&skip, &skip), index(at));
        quote!(#variant => #at,)
    });
    let made = cases.iter().enumerate().map(|(at, case)| {
        let label = quote!(#of_type::from_label(label)?);
        let (at, made) =
            (index(at), case.pattern(&label, &default_member(case).unwrap_or_default()));
        quote!(#at => #some(#made),)
    });
    let labels = cases.iter().map(|case| {
        let variant = case.pattern(&quote!(label), &skip);
        match case.named {
            // A wrong type of the label field is reported at the field.
            Some(LabelledVariant { discriminator: field, .. }) => {
                let label = quote_spanned!(field.ty.span()=> #of_type::label(label));
                quote!(#variant => #some(#label),)
            }
            None => quote!(#variant => #none,),
        }
    });
    let described = |at: usize| {
        let at = index(at);
        quote!(&<Self as #types::DdsUnion>::CASES[#at].member)
    };
    let writes = cases.iter().enumerate().map(|(at, case)| match case.member {
        None => {
            let variant = case.pattern(&skip, &skip);
            quote!(#variant => #ok(()),)
        }
        Some(_) => {
            let (variant, described) = (case.pattern(&skip, &quote!(value)), described(at));
            quote! {
                #variant => match #described {
                    #some(member) => writer.write_member(value, member, form),
                    #none => #ok(()),
                },
            }
        }
    });
    let reads = cases.iter().enumerate().map(|(at, case)| match case.member {
        None => {
            let variant = case.pattern(&skip, &skip);
            quote!(#variant => {})
        }
        Some(place) => {
            let (variant, described) = (case.pattern(&skip, &quote!(value)), described(at));
            let read = members[place].read(&types, &quote!(member), &quote!(form));
            quote! {
                #variant => {
                    if let #some(member) = #described {
                        *value = #read;
                    }
                }
            }
        }
    });
    let shown =
        cases.iter().enumerate().filter(|(_, case)| case.member.is_some()).map(|(at, case)| {
            let (variant, place) = (case.pattern(&skip, &quote!(value)), index(at + 1));
            quote!((#variant, #place) => #types::Reflect::value(value),)
        });
    let places_in_all = index(cases.len() + 1);
    let label_types = label_types(discriminator, cases);
    let checks = members.iter().map(|member| member.checks(&types));
    let present = members.iter().map(|member| {
        let ty = member.ty;
        quote_spanned! {ty.span()=>
            const _: () = ::core::assert!(
                !<#ty as #types::DdsType>::OPTIONAL,
                "the member of a union cannot be optional: remove Option, or use a variant without \
                 a member for the case without a value"
            );
        }
    });
    quote! {
        #[automatically_derived]
        impl #types::DdsType for #ident {
            const TYPE_NAME: &'static str = #name;
            #topic
            const DESCRIPTOR: #types::TypeDescriptor = #types::TypeDescriptor {
                name: #name,
                kind: #types::TypeKind::Union(#types::UnionDescriptor {
                    extensibility: #kind,
                    nested: #nested,
                    representations: #allowed,
                    discriminator: *<Self as #types::DdsUnion>::DISCRIMINATOR,
                    cases: <Self as #types::DdsUnion>::CASES,
                }),
            };
            const LAYOUT: ::core::option::Option<#types::PlainLayout<Self>> = #none;
            const MIN_CDR_SIZE: usize = #least;
            const EXTENSIBILITY: #types::Extensibility = #kind;
            const KEYED: bool = #keyed;
            const LENGTH_CODE: u32 = #code;

            fn default_value() -> Self {
                static CHOSEN: ::std::sync::OnceLock<usize> = ::std::sync::OnceLock::new();
                #types::derived::default_union(&CHOSEN)
            }

            fn serialize(&self, writer: &mut #types::CdrWriter<'_>) -> #unit {
                #types::derived::serialize_union(self, writer)
            }

            fn deserialize(
                reader: &mut #types::CdrReader<'_>,
            ) -> ::core::result::Result<Self, #types::CdrError> {
                #types::derived::deserialize_union(reader)
            }

            fn keys_fit_hash() -> bool {
                static FIT: ::std::sync::OnceLock<bool> = ::std::sync::OnceLock::new();
                *FIT.get_or_init(#types::derived::keys_fit_hash::<Self>)
            }
        }
        #[automatically_derived]
        impl #types::DdsUnion for #ident {
            type Discriminator = #discriminator;
            const DISCRIMINATOR: &'static #types::MemberDescriptor =
                &#types::MemberDescriptor::new::<#discriminator>(#name, "discriminator", 0)
                    #key #of_discriminator;
            const CASES: &'static [#types::CaseDescriptor] = &[#(#descriptors),*];

            #default_function

            fn case(&self) -> usize {
                match self { #(#places)* }
            }

            fn label(&self) -> ::core::option::Option<i64> {
                match self { #(#labels)* }
            }

            #[allow(unused_variables)]
            fn of_case(case: usize, label: i64) -> ::core::option::Option<Self> {
                match case { #(#made)* _ => #none }
            }

            #[allow(unused_variables)]
            fn write_case(
                &self,
                writer: &mut #types::CdrWriter<'_>,
                form: #types::MemberFraming,
            ) -> #unit {
                match self { #(#writes)* }
            }

            #[allow(unused_variables)]
            fn read_case(
                &mut self,
                reader: &mut #types::CdrReader<'_>,
                form: #types::MemberFraming,
            ) -> #unit {
                match self { #(#reads)* }
                #ok(())
            }
        }
        #[automatically_derived]
        impl #types::Reflect for #ident {
            fn value(&self) -> #types::ValueRef<'_> {
                #types::ValueRef::Union(self)
            }

            fn parts(&self) -> usize {
                #places_in_all
            }

            fn part(&self, place: usize) -> #types::ValueRef<'_> {
                match (self, place) {
                    (_, 0) => #types::derived::discriminator_of(self),
                    #(#shown)*
                    _ => #types::ValueRef::Absent,
                }
            }
        }
        const _: () = ::core::assert!(
            #types::derived::are_distinct::<#label_count>(<#ident as #types::DdsUnion>::CASES),
            "a label is in two cases, or two cases are the default: remove one"
        );
        #label_types
        #(#checks)*
        #(#present)*
    }
}

/// Generated code for the discriminator.
struct Discriminator {
    /// Function that returns the default, if it differs from the default of the
    /// discriminator's type.
    default_function: Option<TokenStream>,
    /// Call that adds the function to the description.
    described: TokenStream,
}

impl Discriminator {
    fn new(container: &Attributes, of: &Type, types: &Path) -> Self {
        let tries = container.discriminator_try_construct.as_ref();
        let tries = tries.map(|kind| quote!(.try_construct(#types::TryConstruct::#kind)));
        let default = container.discriminator_default.as_ref();
        let (default_function, written) = default
            .map(|value| {
                let function = quote_spanned! {value.span()=>
                    fn default_discriminator() -> #of { #value }
                };
                let written = quote! {
                    .default(|writer| {
                        let value = <Self as #types::DdsUnion>::default_discriminator();
                        <#of as #types::DdsType>::serialize(&value, writer)
                    })
                    .remembered(&[#types::AnnotationText {
                        name: "default",
                        text: ::core::stringify!(#value),
                    }])
                };
                (function, written)
            })
            .unzip();
        Discriminator { default_function, described: quote!(#tries #written) }
    }
}

/// Returns the number of a label. The label of a bitmask is a value of its struct: `Parts(3)`.
fn label_number(label: &Expr) -> TokenStream {
    match label {
        Expr::Call(_) => quote!((#label).0 as i64),
        _ => quote!((#label) as i64),
    }
}

/// Returns constants by which the compiler reports a label of the wrong type. Labels of a wide
/// character are characters.
fn label_types(discriminator: &Type, cases: &[Case<'_>]) -> TokenStream {
    let is_character = |label: &&Expr| {
        matches!(label, Expr::Lit(ExprLit { lit: Lit::Char(_), .. }))
            && quote!(#discriminator).to_string().ends_with("WChar")
    };
    let labels = cases.iter().flat_map(|case| &case.labels).filter(|label| !is_character(label));
    let labels =
        labels.map(|label| quote_spanned!(label.span()=> const _: #discriminator = #label;));
    quote!(#(#labels)*)
}
