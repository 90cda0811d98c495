//! Reads the `#[dds(...)]` attributes.
//!
//! Owns their spelling and the messages about wrong ones. Never writes code.

use syn::punctuated::Punctuated;
use syn::{
    Attribute, DeriveInput, Error, Field, Lit, LitStr, Path, Token, Variant, bracketed,
    meta::ParseNestedMeta, parse::ParseStream, parse_quote, token::Bracket,
};

/// The attributes of a struct or enum.
pub(crate) struct Container {
    /// The DDS name of the type.
    pub(crate) name: String,
    /// The path at which generated code finds `DdsType` and its company.
    pub(crate) types: Path,
}

/// The attributes of a field.
pub(crate) struct Member {
    /// The IDL name of the member.
    pub(crate) name: String,
    pub(crate) key: bool,
    /// The bounds of its strings and sequences, outermost first.
    pub(crate) bounds: Vec<u32>,
}

/// What `idl-cdr` takes for no bound.
const UNBOUNDED: u32 = u32::MAX;
const LARGEST_BOUND: u32 = UNBOUNDED - 1;

impl Container {
    pub(crate) fn read(input: &DeriveInput) -> syn::Result<Self> {
        let mut name = unraw(&input.ident);
        let mut types: Path = parse_quote!(::dds_api::types);
        for_each_item(&input.attrs, |item| {
            if item.path.is_ident("name") {
                name = read_name(&item)?;
            } else if item.path.is_ident("crate") {
                types = read_crate(&item)?;
            } else if item.path.is_ident("key") || item.path.is_ident("bound") {
                return Err(item.error(
                    "this attribute belongs on a field: move it in front of the field it is \
                     meant for",
                ));
            } else {
                return Err(item.error(
                    "unknown dds attribute, expected one of: name = \"Module::Type\", \
                     crate = \"path\"",
                ));
            }
            Ok(())
        })?;
        Ok(Self { name, types })
    }
}

impl Member {
    pub(crate) fn read(field: &Field) -> syn::Result<Self> {
        let mut name = field.ident.as_ref().map(unraw).unwrap_or_default();
        let (mut key, mut bounds) = (false, Vec::new());
        for_each_item(&field.attrs, |item| {
            if item.path.is_ident("key") {
                key = true;
            } else if item.path.is_ident("name") {
                name = read_name(&item)?;
            } else if item.path.is_ident("bound") {
                bounds = read_bounds(&item)?;
            } else {
                return Err(item.error(
                    "unknown dds attribute, expected one of: key, name = \"member\", \
                     bound = 32, bound = [8, 32]",
                ));
            }
            Ok(())
        })?;
        Ok(Self { name, key, bounds })
    }
}

/// The IDL name of an enumerator.
pub(crate) fn enumerator_name(variant: &Variant) -> syn::Result<String> {
    let mut name = unraw(&variant.ident);
    for_each_item(&variant.attrs, |item| {
        if !item.path.is_ident("name") {
            return Err(item.error(
                "this attribute cannot be on an enumerator, expected name = \"ENUMERATOR\" or \
                 nothing",
            ));
        }
        name = read_name(&item)?;
        Ok(())
    })?;
    Ok(name)
}

fn for_each_item(
    attributes: &[Attribute],
    mut read: impl FnMut(ParseNestedMeta<'_>) -> syn::Result<()>,
) -> syn::Result<()> {
    attributes
        .iter()
        .filter(|attribute| attribute.path().is_ident("dds"))
        .try_for_each(|attribute| attribute.parse_nested_meta(&mut read))
}

fn read_name(item: &ParseNestedMeta<'_>) -> syn::Result<String> {
    let text: LitStr = item.value()?.parse()?;
    let name = text.value();
    let is_identifier = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    if !name.split("::").all(is_identifier) {
        return Err(Error::new_spanned(
            text,
            "expected an IDL name: identifiers of ASCII letters, digits and `_`, joined by `::`",
        ));
    }
    Ok(name)
}

/// Crate names are given a leading `::`, so that a module of the same name at the place of use does
/// not come between.
fn read_crate(item: &ParseNestedMeta<'_>) -> syn::Result<Path> {
    let text: LitStr = item.value()?.parse()?;
    let mut path: Path = text.parse().map_err(|_| {
        Error::new_spanned(&text, "expected the path of a module, such as \"dds_api::types\"")
    })?;
    let first = path.segments.first().map(|segment| segment.ident.to_string());
    if !matches!(first.as_deref(), Some("crate" | "self" | "super")) {
        path.leading_colon = Some(<Token![::]>::default());
    }
    Ok(path)
}

fn read_bounds(item: &ParseNestedMeta<'_>) -> syn::Result<Vec<u32>> {
    let input = item.value()?;
    if !input.peek(Bracket) {
        return Ok(vec![read_bound(input)?]);
    }
    let list;
    bracketed!(list in input);
    let bounds = Punctuated::<_, Token![,]>::parse_terminated_with(&list, |input| match input
        .parse::<Option<
        Token![_],
    >>()? {
        Some(_) => Ok(UNBOUNDED),
        None => read_bound(input),
    })?;
    Ok(bounds.into_iter().collect())
}

fn read_bound(input: ParseStream<'_>) -> syn::Result<u32> {
    let literal: Lit = input.parse()?;
    if let Lit::Int(number) = &literal
        && let Ok(value @ 1..=LARGEST_BOUND) = number.base10_parse::<u32>()
    {
        return Ok(value);
    }
    Err(Error::new_spanned(literal, "expected a bound: a number from 1 to 4294967294"))
}

/// An identifier without the `r#` of raw ones.
fn unraw(ident: &syn::Ident) -> String {
    let text = ident.to_string();
    text.strip_prefix("r#").map(str::to_owned).unwrap_or(text)
}
