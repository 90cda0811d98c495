//! `DdsType` for structs.
//!
//! Owns the order of the members on the wire (the order of declaration) and the one claim in
//! generated code that needs a proof: a struct of plain members is plain.

use crate::attributes::{AttributePlace, Attributes, Extensibility, extensibility};
use crate::members::{DerivedMember, MemberId, index, is_endless, require_distinct};
use proc_macro2::TokenStream;
use quote::quote;
use syn::{DataStruct, DeriveInput, Error, Fields, Ident, Path, Type};

/// A struct and its contents.
struct StructDerive<'a> {
    ident: &'a Ident,
    name: String,
    types: Path,
    container: &'a Attributes,
    /// Field with the base, and its type.
    base: Option<(&'a Ident, &'a Type)>,
    /// Members that are in samples, without the base.
    members: Vec<DerivedMember<'a>>,
    /// Members that are not in samples.
    skipped: Vec<DerivedMember<'a>>,
}

pub(crate) fn implement(
    input: &DeriveInput,
    data: &DataStruct,
    container: &Attributes,
) -> syn::Result<TokenStream> {
    container.only(AttributePlace::Struct)?;
    container.require_topic()?;
    let plan = plan(input, data, container)?;
    let (constants, methods) = (plan.constants(), plan.methods());
    let (parts, places, checks) = (plan.parts(), plan.places(), plan.checks());
    let (name, types) = (plan.ident, &plan.types);
    Ok(quote! {
        #[automatically_derived]
        impl #types::DdsType for #name {
            #constants
            #methods
        }
        #[automatically_derived]
        impl #types::DdsStruct for #name {
            #parts
        }
        #[automatically_derived]
        impl #types::Reflect for #name {
            #places
        }
        #checks
    })
}

fn plan<'a>(
    input: &'a DeriveInput,
    data: &'a DataStruct,
    container: &'a Attributes,
) -> syn::Result<StructDerive<'a>> {
    let Fields::Named(fields) = &data.fields else {
        return Err(Error::new_spanned(
            &input.ident,
            "the members of a DDS type have names: give this struct named fields, \
             `struct Name { field: Type }`; a bitmask needs #[dds(bitmask)]",
        ));
    };
    let mut plan = StructDerive {
        ident: &input.ident,
        name: container.name_of(&input.ident),
        types: container.types(),
        container,
        base: None,
        members: Vec::new(),
        skipped: Vec::new(),
    };
    let mut next = MemberId::Number(0);
    for (place, field) in fields.named.iter().enumerate() {
        let Some(ident) = &field.ident else { continue };
        if is_endless(&field.ty, &input.ident) {
            return Err(Error::new_spanned(
                &field.ty,
                "the struct has no finite value, because each one contains another here: put an \
                 Option around the Box, or use a Vec",
            ));
        }
        let attributes = Attributes::read(&field.attrs)?;
        attributes.only(AttributePlace::Field)?;
        if attributes.default_case {
            return Err(Error::new_spanned(
                ident,
                "the default of a field has a value: write default = VALUE",
            ));
        }
        if attributes.base {
            if place > 0 {
                return Err(Error::new_spanned(
                    ident,
                    "the base comes first: make it the first field of the struct",
                ));
            }
            plan.base = Some((ident, &field.ty));
            next = MemberId::AfterBase(0);
            continue;
        }
        let member = DerivedMember::new(ident, &field.ty, attributes, next, container.autoid_hash)?;
        if member.attributes.non_serialized {
            if member.attributes.key {
                return Err(Error::new_spanned(
                    ident,
                    "a member of the key has to be in every sample: remove `key` or \
                     `non_serialized`",
                ));
            }
            plan.skipped.push(member);
        } else {
            next = member.id.next();
            plan.members.push(member);
        }
    }
    require_distinct(&plan.members)?;
    Ok(plan)
}

impl StructDerive<'_> {
    fn base_type(&self) -> Option<&Type> {
        self.base.map(|(_, ty)| ty)
    }

    /// Returns the names and types of all fields that are in samples, in order.
    fn fields(&self) -> (Vec<&Ident>, Vec<&Type>) {
        let own = self.members.iter().map(|member| (member.ident, member.ty));
        self.base.into_iter().chain(own).unzip()
    }

    /// Returns the constant of a member in the table.
    fn descriptor(&self, place: usize) -> TokenStream {
        let (types, place) = (&self.types, index(place));
        quote!(&<Self as #types::DdsStruct>::MEMBERS[#place])
    }

    fn constants(&self) -> TokenStream {
        let StructDerive { ident, name, types, container, .. } = self;
        let (idents, tys) = self.fields();
        let kind = extensibility(types, container.extensibility);
        let nested = container.nested;
        let (topic, allowed) = (container.topic_name(), container.allowed_representations());
        let base = match self.base_type() {
            Some(base) => quote!(::core::option::Option::Some(#types::descriptor_of::<#base>)),
            None => quote!(::core::option::Option::None),
        };
        let keyed = self.members.iter().any(|member| member.attributes.key);
        let base_keyed = self.base_type().map(|base| quote!(|| <#base as #types::DdsType>::KEYED));
        let layout = if self.skipped.is_empty() {
            quote! {{
                const PARTS: &[#types::derived::PlainPart] = &#types::derived::parts_in_order([
                    #(#types::derived::PlainPart::of::<#tys>(
                        ::core::mem::offset_of!(#ident, #idents)
                    )),*
                ]);
                fn clear(bytes: &mut [u8]) {
                    #types::derived::clear_between(PARTS, bytes);
                }
                let members = #types::PlainMembers::new()
                    #(.member::<#tys>(::core::mem::offset_of!(#ident, #idents)))*;
                match members.hash() {
                    ::core::option::Option::None => ::core::option::Option::None,
                    // SAFETY: the list above has every field of the struct, because it is made from
                    // the struct's definition. Each field is plain, otherwise there would be no
                    // hash, so every bit pattern of the struct is valid.
                    ::core::option::Option::Some(hash) => {
                        let layout = unsafe { #types::PlainLayout::new(hash) };
                        let size = ::core::mem::size_of::<#ident>();
                        let padded = #types::derived::have_padding(PARTS, size);
                        ::core::option::Option::Some(
                            if padded { layout.with_padding(clear) } else { layout }
                        )
                    }
                }
            }}
        } else {
            quote!(::core::option::Option::None)
        };
        // Members of a type that may change can be missing; in XCDR2 its size is always present.
        let least = match container.extensibility {
            Extensibility::Final => quote!(sum),
            Extensibility::Appendable => quote!(if sum < 4 { sum } else { 4 }),
            Extensibility::Mutable => quote!(4),
        };
        let code = if container.extensibility == Extensibility::Final { 4u32 } else { 5u32 };
        quote! {
            const TYPE_NAME: &'static str = #name;
            #topic
            const DESCRIPTOR: #types::TypeDescriptor = #types::TypeDescriptor {
                name: #name,
                kind: #types::TypeKind::Structure(#types::StructureDescriptor {
                    extensibility: #kind,
                    nested: #nested,
                    representations: #allowed,
                    base: #base,
                    members: <Self as #types::DdsStruct>::MEMBERS,
                }),
            };
            const LAYOUT: ::core::option::Option<#types::PlainLayout<Self>> = #layout;
            const MIN_CDR_SIZE: usize = {
                #[allow(unused_variables)]
                let sum = 0usize
                    #(.saturating_add(<#tys as #types::DdsType>::MIN_CDR_SIZE))*;
                #least
            };
            const EXTENSIBILITY: #types::Extensibility = #kind;
            const KEYED: bool = #keyed #base_keyed;
            const LENGTH_CODE: u32 = #code;
        }
    }

    fn methods(&self) -> TokenStream {
        let types = &self.types;
        let result = |value: TokenStream| quote!(::core::result::Result<#value, #types::CdrError>);
        let (unit, this) = (result(quote!(())), result(quote!(Self)));
        let base =
            self.base.map(|(ident, ty)| quote!(#ident: <#ty as #types::DdsType>::default_value(),));
        let defaults = self.members.iter().chain(&self.skipped).map(|member| {
            let (ident, default) = (member.ident, member.default_function(types));
            quote!(#ident: (#default)())
        });
        let this_type = self.ident;
        let (idents, tys) = self.fields();
        let short_key = self.short_key();
        quote! {
            fn default_value() -> Self {
                Self { #base #(#defaults),* }
            }

            #[allow(unused_variables)]
            fn places(places: &mut ::std::vec::Vec<u32>) {
                #(
                    places.push(::core::mem::offset_of!(#this_type, #idents) as u32);
                    <#tys as #types::DdsType>::places(places);
                )*
            }

            #[inline]
            fn serialize(&self, writer: &mut #types::CdrWriter<'_>) -> #unit {
                #types::derived::serialize_struct(self, writer)
            }

            #[inline]
            fn deserialize(reader: &mut #types::CdrReader<'_>) -> #this {
                #types::derived::deserialize_struct(reader)
            }

            fn keys_fit_hash() -> bool {
                static FIT: ::std::sync::OnceLock<bool> = ::std::sync::OnceLock::new();
                *FIT.get_or_init(#types::derived::keys_fit_hash::<Self>)
            }

            #short_key
        }
    }

    /// Returns code that appends the key members in the order of their ids; `None` if a base
    /// contributes to the key. Members that are not numbers return `None` at run time.
    fn short_key(&self) -> Option<TokenStream> {
        let types = &self.types;
        let number = |member: &DerivedMember<'_>| match member.id {
            MemberId::Number(number) => Some(number),
            MemberId::AfterBase(_) => None,
        };
        let mut keys: Vec<_> = self.members.iter().filter(|it| it.attributes.key).collect();
        if keys.is_empty() || self.base.is_some() || keys.iter().any(|it| number(it).is_none()) {
            return None;
        }
        keys.sort_by_key(|member| number(member));
        let (idents, tys): (Vec<_>, Vec<_>) = keys.iter().map(|it| (it.ident, it.ty)).unzip();
        Some(quote! {
            #[inline(always)]
            fn short_key(&self) -> ::core::option::Option<#types::derived::ShortKey> {
                let mut key = <#types::derived::ShortKey as ::core::default::Default>::default();
                #(<#tys as #types::DdsType>::put_in_key(&self.#idents, &mut key)?;)*
                ::core::option::Option::Some(key)
            }
        })
    }

    fn parts(&self) -> TokenStream {
        let types = &self.types;
        let tables = self.tables();
        let unit = quote!(::core::result::Result<(), #types::CdrError>);
        let ok = quote!(::core::result::Result::Ok);
        let plain = quote!(#types::MemberFraming::Plain);
        let (base_writes, base_reads) = self
            .base
            .map(|(ident, ty)| {
                let of_base = quote!(<#ty as #types::DdsStruct>);
                (
                    quote!(#of_base::serialize_members(&self.#ident, writer)?;),
                    quote!(#ident: #of_base::deserialize_members(reader)?,),
                )
            })
            .unzip();
        let (base_write, base_read) = match self.base {
            None => (quote!(#ok(())), quote!(#ok(false))),
            Some((ident, ty)) => {
                let of_base = quote!(<#ty as #types::DdsStruct>);
                (
                    quote!(#of_base::write_member(&self.#ident, id, writer, form)),
                    quote!(#of_base::read_member(&mut self.#ident, id, reader, form)),
                )
            }
        };
        let members =
            || self.members.iter().enumerate().map(|(at, member)| (self.descriptor(at), member));
        let writes = members().map(|(descriptor, DerivedMember { ident, .. })| {
            quote!(writer.write_member(&self.#ident, #descriptor, #plain)?;)
        });
        let reads = members().map(|(descriptor, member)| {
            let (ident, read) = (member.ident, member.read(types, &descriptor, &plain));
            if self.container.extensibility == Extensibility::Appendable {
                let default = member.default_function(types);
                quote!(#ident: if reader.lacks_more() { (#default)() } else { #read },)
            } else {
                quote!(#ident: #read,)
            }
        });
        let skipped = self.skipped.iter().map(|member| {
            let (ident, default) = (member.ident, member.default_function(types));
            quote!(#ident: (#default)(),)
        });
        let write_ones = members().map(|(descriptor, DerivedMember { ident, .. })| {
            quote! {
                if id == (#descriptor).id {
                    return writer.write_member(&self.#ident, #descriptor, form);
                }
            }
        });
        let read_ones = members().map(|(descriptor, member)| {
            let (ident, read) = (member.ident, member.read(types, &descriptor, &quote!(form)));
            quote! {
                if id == (#descriptor).id {
                    self.#ident = #read;
                    return #ok(true);
                }
            }
        });
        quote! {
            #tables

            #[inline]
            #[allow(unused_variables)]
            fn serialize_members(&self, writer: &mut #types::CdrWriter<'_>) -> #unit {
                #base_writes
                #(#writes)*
                #ok(())
            }

            #[inline]
            #[allow(unused_variables)]
            fn deserialize_members(
                reader: &mut #types::CdrReader<'_>,
            ) -> ::core::result::Result<Self, #types::CdrError> {
                #ok(Self { #base_reads #(#reads)* #(#skipped)* })
            }

            #[allow(unused_variables)]
            fn write_member(
                &self,
                id: u32,
                writer: &mut #types::CdrWriter<'_>,
                form: #types::MemberFraming,
            ) -> #unit {
                #(#write_ones)*
                #base_write
            }

            #[allow(unused_variables)]
            fn read_member(
                &mut self,
                id: u32,
                reader: &mut #types::CdrReader<'_>,
                form: #types::MemberFraming,
            ) -> ::core::result::Result<bool, #types::CdrError> {
                #(#read_ones)*
                #base_read
            }
        }
    }

    /// Returns the code that accesses members by index.
    fn places(&self) -> TokenStream {
        let types = &self.types;
        let own = self.members.iter().enumerate().map(|(at, DerivedMember { ident, ty, .. })| {
            let at = index(at);
            quote!(#at => <#ty as #types::Reflect>::value(&self.#ident),)
        });
        let before = match self.base_type() {
            Some(base) => quote!(<#base as #types::DdsStruct>::IDS.len()),
            None => quote!(0),
        };
        let of_base = self.base.map(|(ident, ty)| {
            quote! {
                if place < #before {
                    return <#ty as #types::Reflect>::part(&self.#ident, place);
                }
                let place = place - #before;
            }
        });
        let count = index(self.members.len());
        quote! {
            #[inline]
            fn value(&self) -> #types::ValueRef<'_> {
                #types::ValueRef::Structure(self)
            }

            fn parts(&self) -> usize {
                #before + #count
            }

            #[inline]
            fn part(&self, place: usize) -> #types::ValueRef<'_> {
                #of_base
                match place {
                    #(#own)*
                    _ => #types::ValueRef::Absent,
                }
            }
        }
    }

    /// Returns the constants about members and their ids.
    fn tables(&self) -> TokenStream {
        let StructDerive { types, name, .. } = self;
        let base = self.base_type();
        let descriptors = self.members.iter().map(|member| member.descriptor(types, name, base));
        let expression = |member: &DerivedMember<'_>| member.id.expression(types, base);
        let ids: Vec<_> = self.members.iter().map(expression).collect();
        let keys = self.members.iter().filter(|member| member.attributes.key);
        let keys: Vec<_> = keys.map(expression).collect();
        let (count, key_count) = (ids.len(), keys.len());
        let (base_ids, base_keys) = match base {
            None => (quote!((&[] as &[u32])), quote!((&[] as &[u32]))),
            Some(base) => (
                quote!(<#base as #types::DdsStruct>::IDS),
                quote!(#types::derived::key_ids_of_base::<#base>()),
            ),
        };
        let next = match (self.members.last(), base) {
            (Some(last), _) => {
                let last = expression(last);
                quote!(#last + 1)
            }
            (None, Some(base)) => quote!(<#base as #types::DdsStruct>::NEXT_ID),
            (None, None) => quote!(0),
        };
        let derived = quote!(#types::derived);
        quote! {
            const MEMBERS: &'static [#types::MemberDescriptor] = &[#(#descriptors),*];
            const IDS: &'static [u32] =
                &#derived::join_ids::<{ #base_ids.len() + #count }>(#base_ids, &[#(#ids),*]);
            const KEY_IDS: &'static [u32] = {
                const KEYS: [u32; { #base_keys.len() + #key_count }] =
                    #derived::sort_ids(#derived::join_ids(#base_keys, &[#(#keys),*]));
                const ALL: [u32; { #base_ids.len() + #count }] =
                    #derived::sort_ids(#derived::join_ids(#base_ids, &[#(#ids),*]));
                if KEYS.is_empty() { &ALL } else { &KEYS }
            };
            const NEXT_ID: u32 = #next;
        }
    }

    /// Returns constants that report wrong uses at the derive, not at the first use of the type.
    fn checks(&self) -> TokenStream {
        let (name, types) = (self.ident, &self.types);
        let members = self.members.iter().map(|member| member.checks(types));
        let base = self.base_type().map(|base| {
            quote! {
                const _: () = ::core::assert!(
                    <#name as #types::DdsType>::EXTENSIBILITY as u8
                        == <#base as #types::DdsType>::EXTENSIBILITY as u8,
                    "a struct and its base must have the same extensibility: change one of them"
                );
            }
        });
        quote! {
            const _: () = ::core::assert!(
                #types::derived::are_unique::<{ <#name as #types::DdsStruct>::IDS.len() }>(
                    <#name as #types::DdsStruct>::IDS
                ),
                "two members, of the base or of the struct, have the same id: give one of them \
                 another id"
            );
            #base
            #(#members)*
        }
    }
}
