//! Reading of the `#[dds(...)]` attributes.
//!
//! Owns their syntax, the places where each is allowed, and the error messages. Never writes code.

use proc_macro2::{TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::{
    Attribute, Error, Expr, ExprLit, Ident, Lit, LitInt, LitStr, Path, Token, Type, bracketed,
    parenthesized, parse_quote,
    token::{Bracket, Paren},
};

/// Item that an attribute may precede.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum AttributePlace {
    Struct,
    Enum,
    Union,
    Bitmask,
    Bitset,
    Field,
    BitsetField,
    Enumerator,
    Variant,
}

impl AttributePlace {
    fn name(self) -> &'static str {
        match self {
            AttributePlace::Struct => "a struct",
            AttributePlace::Enum => "an enum without data",
            AttributePlace::Union => "a union",
            AttributePlace::Bitmask => "a bitmask",
            AttributePlace::Bitset => "a bitset",
            AttributePlace::Field => "a field",
            AttributePlace::BitsetField => "a field of a bitset",
            AttributePlace::Enumerator => "an enumerator",
            AttributePlace::Variant => "a variant of a union",
        }
    }

    /// Returns the attributes allowed at the place, in their written form.
    fn allowed(self) -> &'static [&'static str] {
        match self {
            AttributePlace::Struct => &[
                "name = \"Module::Type\"",
                "crate = \"path\"",
                "extensibility = \"final\"",
                "nested",
                "topic = \"Tracks\"",
                "data_representation(XCDR1, XCDR2)",
                "autoid = \"sequential\"",
            ],
            AttributePlace::Enum => &[
                "name = \"Module::Type\"",
                "crate = \"path\"",
                "bit_bound = 8",
                "ignore_literal_names",
            ],
            AttributePlace::Union => &[
                "union",
                "discriminator = \"i32\"",
                "discriminator_key",
                "discriminator_default = EXPR",
                "discriminator_try_construct = \"discard\"",
                "name = \"Module::Type\"",
                "crate = \"path\"",
                "extensibility = \"final\"",
                "nested",
                "topic = \"Tracks\"",
                "data_representation(XCDR1, XCDR2)",
                "autoid = \"sequential\"",
            ],
            AttributePlace::Bitmask => &[
                "bitmask",
                "bit_bound = 8",
                "flags(NAME = 0)",
                "name = \"Module::Type\"",
                "crate = \"path\"",
            ],
            AttributePlace::Bitset => &["bitset", "name = \"Module::Type\"", "crate = \"path\""],
            AttributePlace::Field => &[
                "key",
                "id = 7",
                "hashid",
                "must_understand",
                "default = EXPR",
                "external",
                "name = \"member\"",
                "bound = 32",
                "element_bound = 32",
                "try_construct = \"discard\"",
                "element_try_construct = \"discard\"",
                "base",
                "non_serialized",
                "range(min = 0, max = 9)",
                "min = 0",
                "max = 9",
                "unit = \"m\"",
            ],
            AttributePlace::BitsetField => &["bits = 3", "name = \"member\""],
            AttributePlace::Enumerator => &["name = \"ENUMERATOR\"", "default_literal"],
            AttributePlace::Variant => &[
                "case = 1, 2",
                "default",
                "default_value = EXPR",
                "name = \"member\"",
                "id = 7",
                "hashid",
                "external",
                "bound = 32",
                "element_bound = 32",
                "try_construct = \"discard\"",
                "element_try_construct = \"discard\"",
                "range(min = 0, max = 9)",
                "min = 0",
                "max = 9",
                "unit = \"m\"",
            ],
        }
    }
}

const PLACES: [AttributePlace; 9] = [
    AttributePlace::Struct,
    AttributePlace::Enum,
    AttributePlace::Union,
    AttributePlace::Bitmask,
    AttributePlace::Bitset,
    AttributePlace::Field,
    AttributePlace::BitsetField,
    AttributePlace::Enumerator,
    AttributePlace::Variant,
];

/// Returns the first word of an attribute in its listed form.
fn word_of(attribute: &str) -> &str {
    attribute.split([' ', '(']).next().unwrap_or_default()
}

/// All attributes of `#[dds(...)]`, for every place.
#[derive(Default)]
pub(crate) struct Attributes {
    said: Vec<Ident>,
    pub(crate) name: Option<String>,
    pub(crate) types: Option<Path>,
    pub(crate) extensibility: Extensibility,
    pub(crate) nested: bool,
    pub(crate) topic: Option<String>,
    /// Names of constants of `Representations`; empty for all.
    pub(crate) representations: Vec<Ident>,
    pub(crate) autoid_hash: bool,
    pub(crate) bit_bound: Option<u32>,
    pub(crate) ignore_literal_names: bool,
    pub(crate) union: bool,
    pub(crate) bitmask: bool,
    pub(crate) bitset: bool,
    pub(crate) discriminator: Option<Type>,
    pub(crate) discriminator_key: bool,
    pub(crate) discriminator_default: Option<Expr>,
    pub(crate) discriminator_try_construct: Option<Ident>,
    pub(crate) flags: Vec<(String, u32)>,
    pub(crate) key: bool,
    pub(crate) id: Option<u32>,
    /// Text whose hash is the id; empty for the member's own name.
    pub(crate) hashid: Option<String>,
    pub(crate) must_understand: bool,
    pub(crate) default: Option<Expr>,
    pub(crate) default_case: bool,
    pub(crate) default_value: Option<Expr>,
    pub(crate) default_literal: bool,
    pub(crate) external: bool,
    bounds: Vec<u32>,
    element_bounds: Vec<u32>,
    pub(crate) try_construct: Option<Ident>,
    /// Actions on disallowed elements of collections, from the outside in.
    pub(crate) element_try_construct: Vec<Ident>,
    pub(crate) base: bool,
    pub(crate) non_serialized: bool,
    pub(crate) remembered: Vec<(String, String)>,
    pub(crate) bits: Option<u32>,
    pub(crate) cases: Vec<Expr>,
}

/// Ways in which a type may change.
#[derive(Clone, Copy, Default, PartialEq)]
pub(crate) enum Extensibility {
    #[default]
    Final,
    Appendable,
    Mutable,
}

/// Value with which `idl-cdr` represents an unbounded type.
const UNBOUNDED: u32 = u32::MAX;
const LARGEST_BOUND: u32 = UNBOUNDED - 1;
/// Largest member id; ids have 28 bits.
const LARGEST_ID: u32 = (1 << 28) - 1;

impl Attributes {
    /// Reads the attributes of an item.
    pub(crate) fn read(attributes: &[Attribute]) -> syn::Result<Self> {
        let mut read = Self::default();
        for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("dds")) {
            let tokens = attribute.meta.require_list()?.tokens.clone();
            (|input: ParseStream<'_>| read.read_list(input)).parse2(tokens)?;
        }
        Ok(read)
    }

    /// Returns the IDL name of the item with this identifier.
    pub(crate) fn name_of(&self, ident: &Ident) -> String {
        self.name.clone().unwrap_or_else(|| ident.unraw().to_string())
    }

    /// Refuses attributes that are not allowed at the place.
    pub(crate) fn only(&self, place: AttributePlace) -> syn::Result<()> {
        let belongs = |place: AttributePlace, word: &Ident| {
            place.allowed().iter().any(|allowed| word == word_of(allowed))
        };
        let Some(word) = self.said.iter().find(|word| !belongs(place, word)) else {
            return Ok(());
        };
        let message = match PLACES.into_iter().find(|place| belongs(*place, word)) {
            Some(other) => format!(
                "`{word}` belongs on {}, this is {}: move it in front of what it is meant for",
                other.name(),
                place.name()
            ),
            None => format!("unknown dds attribute, expected one of: {}", list(place)),
        };
        Err(Error::new(word.span(), message))
    }

    /// Returns the bounds of strings, sequences and maps, outermost first.
    pub(crate) fn bounds(&self) -> Vec<u32> {
        let mut bounds = self.bounds.clone();
        if bounds.is_empty() && !self.element_bounds.is_empty() {
            bounds.push(UNBOUNDED);
        }
        bounds.extend(&self.element_bounds);
        bounds
    }

    /// Returns the path at which generated code finds `DdsType` and related types.
    pub(crate) fn types(&self) -> Path {
        self.types.clone().unwrap_or_else(|| parse_quote!(::dds_api::types))
    }

    /// Returns the topic name as a constant of `DdsType`.
    pub(crate) fn topic_name(&self) -> TokenStream {
        self.topic.as_ref().map_or_else(TokenStream::new, |name| {
            quote! {
                const TOPIC: ::core::option::Option<&'static str> =
                    ::core::option::Option::Some(#name);
            }
        })
    }

    /// Returns the representations that the type allows.
    pub(crate) fn allowed_representations(&self) -> TokenStream {
        let types = self.types();
        match self.representations.split_first() {
            None => quote!(#types::Representations::ALL),
            Some((first, others)) => quote! {
                #types::Representations::#first #(.or(#types::Representations::#others))*
            },
        }
    }

    /// Refuses contradictory attributes.
    pub(crate) fn require_topic(&self) -> syn::Result<()> {
        match self.said.iter().find(|word| *word == "topic") {
            Some(word) if self.nested => Err(Error::new(
                word.span(),
                "a nested type cannot be the type of a topic: remove `nested` or `topic`",
            )),
            _ => Ok(()),
        }
    }

    fn read_list(&mut self, input: ParseStream<'_>) -> syn::Result<()> {
        while !input.is_empty() {
            let word = input.call(Ident::parse_any)?;
            if self.said.contains(&word) {
                return Err(Error::new(
                    word.span(),
                    format!("`{word}` is given twice: remove one"),
                ));
            }
            require_value(&word, input)?;
            self.read_item(&word, input)?;
            refuse_value(&word, input)?;
            self.said.push(word);
            if input.is_empty() {
                break;
            }
            input.parse::<Token![,]>()?;
        }
        Ok(())
    }

    fn read_item(&mut self, word: &Ident, input: ParseStream<'_>) -> syn::Result<()> {
        match word.to_string().as_str() {
            "name" => self.name = Some(read_name(input)?),
            "crate" => self.types = Some(read_crate(input)?),
            "extensibility" => {
                let words = ["final", "appendable", "mutable"];
                self.extensibility = match read_word(input, &words)? {
                    0 => Extensibility::Final,
                    1 => Extensibility::Appendable,
                    _ => Extensibility::Mutable,
                };
            }
            "nested" => self.nested = true,
            "topic" => self.topic = Some(read_topic(input)?),
            "data_representation" => self.representations = read_representations(input)?,
            "autoid" => self.autoid_hash = read_word(input, &["sequential", "hash"])? == 1,
            "bit_bound" => self.bit_bound = Some(read_number(input, 1, 64, "a number of bits")?),
            "ignore_literal_names" => self.ignore_literal_names = true,
            "union" => self.union = true,
            "bitmask" => self.bitmask = true,
            "bitset" => self.bitset = true,
            "discriminator" => self.discriminator = Some(read_type(input)?),
            "discriminator_key" => self.discriminator_key = true,
            "discriminator_default" => self.discriminator_default = Some(read_value(input)?),
            "discriminator_try_construct" => {
                input.parse::<Token![=]>()?;
                let kind = read_try_construct(input)?;
                if kind == "Trim" {
                    let message = "a discriminator is not a string and cannot be trimmed: use \
                                   \"use_default\"";
                    return Err(Error::new(kind.span(), message));
                }
                self.discriminator_try_construct = Some(kind);
            }
            "flags" => self.flags = read_flags(input)?,
            "key" => self.key = true,
            "id" => self.id = Some(read_number(input, 0, LARGEST_ID, "a member id")?),
            "hashid" => self.hashid = Some(read_hashid(input)?),
            "must_understand" => self.must_understand = true,
            "default" if input.peek(Token![=]) => self.default = Some(read_value(input)?),
            "default" => self.default_case = true,
            "default_value" => self.default_value = Some(read_value(input)?),
            "default_literal" => self.default_literal = true,
            "external" => self.external = true,
            "bound" => self.bounds = read_bounds(input)?,
            "element_bound" => self.element_bounds = read_bounds(input)?,
            "try_construct" => {
                input.parse::<Token![=]>()?;
                self.try_construct = Some(read_try_construct(input)?);
            }
            "element_try_construct" => self.element_try_construct = read_try_constructs(input)?,
            "base" => self.base = true,
            "non_serialized" => self.non_serialized = true,
            "range" => {
                let limits;
                parenthesized!(limits in input);
                while !limits.is_empty() {
                    let limit: Ident = limits.parse()?;
                    if limit != "min" && limit != "max" {
                        return Err(Error::new(
                            limit.span(),
                            "expected min = VALUE or max = VALUE",
                        ));
                    }
                    self.remember(&limit, &limits)?;
                    limits.parse::<Option<Token![,]>>()?;
                }
            }
            "min" | "max" | "unit" => self.remember(word, input)?,
            "bits" => self.bits = Some(read_number(input, 1, 64, "a number of bits")?),
            "case" => self.cases = read_cases(input)?,
            // The value is skipped here; a later check knows whether the attribute is allowed.
            _ => skip_value(input)?,
        }
        Ok(())
    }

    fn remember(&mut self, word: &Ident, input: ParseStream<'_>) -> syn::Result<()> {
        let text = match read_value(input)? {
            Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => text.value(),
            value => value.to_token_stream().to_string(),
        };
        self.remembered.push((word.to_string(), text));
        Ok(())
    }
}

/// Returns the forms of an attribute at all places.
fn forms_of(word: &Ident) -> impl Iterator<Item = &'static str> {
    let all = PLACES.into_iter().flat_map(AttributePlace::allowed);
    all.copied().filter(move |allowed| word == word_of(allowed))
}

/// Requires the value of an attribute that has one, in its listed form.
fn require_value(word: &Ident, input: ParseStream<'_>) -> syn::Result<()> {
    let is_there = |form: &str| match form[word_of(form).len()..].bytes().next() {
        Some(b'(') => input.peek(Paren),
        Some(_) => input.peek(Token![=]) && !(input.peek2(Token![,]) || is_last(input)),
        None => true,
    };
    let mut forms = forms_of(word).peekable();
    let Some(form) = forms.peek().copied() else { return Ok(()) };
    if forms.any(is_there) {
        return Ok(());
    }
    Err(Error::new(word.span(), format!("`{word}` needs its value: write #[dds({form})]")))
}

/// Whether at most one token is left.
fn is_last(input: ParseStream<'_>) -> bool {
    let ahead = input.fork();
    ahead.parse::<TokenTree>().is_err() || ahead.is_empty()
}

/// Requires the next attribute after an attribute without a value, or after the value.
fn refuse_value(word: &Ident, input: ParseStream<'_>) -> syn::Result<()> {
    let Some(form) = forms_of(word).find(|form| *form == word_of(form)) else { return Ok(()) };
    if !input.peek(Token![=]) && !input.peek(Paren) {
        return Ok(());
    }
    Err(Error::new(word.span(), format!("`{word}` takes no value here: write #[dds({form})]")))
}

/// Lists the attributes of a place for a message.
fn list(place: AttributePlace) -> String {
    place.allowed().join(", ")
}

fn read_value(input: ParseStream<'_>) -> syn::Result<Expr> {
    input.parse::<Token![=]>()?;
    read_expression(input)
}

/// Reads an expression. A macro variable, `$x:expr`, expands to a group of its own, which may
/// contain a literal.
fn read_expression(input: ParseStream<'_>) -> syn::Result<Expr> {
    let mut expression = input.parse()?;
    while let Expr::Group(inner) = expression {
        expression = *inner.expr;
    }
    Ok(expression)
}

fn skip_value(input: ParseStream<'_>) -> syn::Result<()> {
    while !input.is_empty() && !input.peek(Token![,]) {
        input.parse::<TokenTree>()?;
    }
    Ok(())
}

fn read_text(input: ParseStream<'_>) -> syn::Result<LitStr> {
    input.parse::<Token![=]>()?;
    input.parse()
}

/// Reads one of several words, in quotes.
fn read_word(input: ParseStream<'_>, words: &[&str]) -> syn::Result<usize> {
    input.parse::<Token![=]>()?;
    word_among(input, words)
}

fn word_among(input: ParseStream<'_>, words: &[&str]) -> syn::Result<usize> {
    let text: LitStr = input.parse()?;
    let found = words.iter().position(|word| *word == text.value());
    found.ok_or_else(|| {
        let list = words.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(", ");
        Error::new_spanned(&text, format!("expected one of: {list}"))
    })
}

fn read_number(input: ParseStream<'_>, least: u32, most: u32, what: &str) -> syn::Result<u32> {
    input.parse::<Token![=]>()?;
    let literal: Lit = input.parse()?;
    if let Lit::Int(number) = &literal
        && let Ok(value) = number.base10_parse::<u32>()
        && (least..=most).contains(&value)
    {
        return Ok(value);
    }
    Err(Error::new_spanned(literal, format!("expected {what}: from {least} to {most}")))
}

fn read_name(input: ParseStream<'_>) -> syn::Result<String> {
    let text = read_text(input)?;
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

/// Reads a crate path. A crate name gets a leading `::`, so that a module of the same name at the
/// place of use does not hide it.
fn read_crate(input: ParseStream<'_>) -> syn::Result<Path> {
    let text = read_text(input)?;
    let mut path: Path = text.parse().map_err(|_| {
        Error::new_spanned(&text, "expected the path of a module, such as \"dds_api::types\"")
    })?;
    let first = path.segments.first().map(|segment| segment.ident.to_string());
    if !matches!(first.as_deref(), Some("crate" | "self" | "super")) {
        path.leading_colon = Some(<Token![::]>::default());
    }
    Ok(path)
}

fn read_type(input: ParseStream<'_>) -> syn::Result<Type> {
    let text = read_text(input)?;
    text.parse().map_err(|_| {
        Error::new_spanned(&text, "expected a type, such as \"i32\" or the path of an enum")
    })
}

fn read_hashid(input: ParseStream<'_>) -> syn::Result<String> {
    if !input.peek(Token![=]) {
        return Ok(String::new());
    }
    let text = read_text(input)?;
    if text.value().is_empty() {
        return Err(Error::new_spanned(text, "expected the text whose hash is to be the id"));
    }
    Ok(text.value())
}

/// Reads `= "a name of a topic"`.
fn read_topic(input: ParseStream<'_>) -> syn::Result<String> {
    input.parse::<Token![=]>()?;
    let text: LitStr = input.parse()?;
    let name = text.value();
    if name.is_empty() || name.contains('\0') {
        return Err(Error::new(text.span(), "expected a topic's name, with no NUL in it"));
    }
    Ok(name)
}

/// Reads `(XCDR1, XCDR2)`.
fn read_representations(input: ParseStream<'_>) -> syn::Result<Vec<Ident>> {
    let inside;
    syn::parenthesized!(inside in input);
    let all: Vec<Ident> =
        inside.parse_terminated(Ident::parse_any, Token![,])?.into_iter().collect();
    let known = ["XCDR1", "XML", "XCDR2"];
    match all.iter().find(|one| !known.iter().any(|known| *one == known)) {
        Some(other) => {
            let message = "expected one or more of XCDR1, XML and XCDR2";
            Err(Error::new(other.span(), message))
        }
        None if all.is_empty() => Err(inside.error(
            "a type that allows no representation has no samples: write \
             data_representation(XCDR2), or leave it out",
        )),
        None => Ok(all),
    }
}

fn read_flags(input: ParseStream<'_>) -> syn::Result<Vec<(String, u32)>> {
    let list;
    parenthesized!(list in input);
    let flags = Punctuated::<_, Token![,]>::parse_terminated_with(&list, |input| {
        let name = input.call(Ident::parse_any)?;
        Ok((name.to_string(), read_number(input, 0, 63, "the position of a bit")?))
    })?;
    Ok(flags.into_iter().collect())
}

/// Reads labels up to the next attribute, which is an attribute's word that stands alone.
fn read_cases(input: ParseStream<'_>) -> syn::Result<Vec<Expr>> {
    let mut cases = vec![read_value(input)?];
    loop {
        let ahead = input.fork();
        if ahead.parse::<Token![,]>().is_err() || ahead.is_empty() {
            return Ok(cases);
        }
        let word = ahead.fork().call(Ident::parse_any).ok();
        let is_attribute = word.is_some_and(|word| {
            PLACES.iter().flat_map(|place| place.allowed()).any(|known| word == word_of(known))
        });
        if is_attribute && !ahead.peek2(Token![::]) {
            return Ok(cases);
        }
        input.parse::<Token![,]>()?;
        cases.push(read_expression(input)?);
    }
}

/// Reads the action on a value that its type does not allow.
fn read_try_construct(input: ParseStream<'_>) -> syn::Result<Ident> {
    let at = input.span();
    let index = word_among(input, &["discard", "use_default", "trim"])?;
    Ok(Ident::new(["Discard", "UseDefault", "Trim"][index], at))
}

/// Reads the actions on one or several kinds of elements.
fn read_try_constructs(input: ParseStream<'_>) -> syn::Result<Vec<Ident>> {
    input.parse::<Token![=]>()?;
    if !input.peek(Bracket) {
        return Ok(vec![read_try_construct(input)?]);
    }
    let list;
    bracketed!(list in input);
    let kinds = Punctuated::<_, Token![,]>::parse_terminated_with(&list, read_try_construct)?;
    Ok(kinds.into_iter().collect())
}

fn read_bounds(input: ParseStream<'_>) -> syn::Result<Vec<u32>> {
    input.parse::<Token![=]>()?;
    if !input.peek(Bracket) {
        return Ok(vec![read_bound(input)?]);
    }
    let list;
    bracketed!(list in input);
    let bounds = Punctuated::<_, Token![,]>::parse_terminated_with(&list, read_bound_of_list)?;
    Ok(bounds.into_iter().collect())
}

fn read_bound_of_list(input: ParseStream<'_>) -> syn::Result<u32> {
    match input.parse::<Option<Token![_]>>()? {
        Some(_) => Ok(UNBOUNDED),
        None => read_bound(input),
    }
}

fn read_bound(input: ParseStream<'_>) -> syn::Result<u32> {
    let literal: Lit = input.parse()?;
    if let Lit::Int(number) = &literal
        && let Ok(value @ 1..=LARGEST_BOUND) = LitInt::base10_parse::<u32>(number)
    {
        return Ok(value);
    }
    Err(Error::new_spanned(literal, "expected a bound: a number from 1 to 4294967294"))
}

/// Returns a variant of an enum of `idl-cdr`, by its path.
pub(crate) fn extensibility(types: &Path, extensibility: Extensibility) -> TokenStream {
    let kind = match extensibility {
        Extensibility::Final => quote::quote!(Final),
        Extensibility::Appendable => quote::quote!(Appendable),
        Extensibility::Mutable => quote::quote!(Mutable),
    };
    quote::quote!(#types::Extensibility::#kind)
}
