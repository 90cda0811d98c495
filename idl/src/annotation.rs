//! Annotations of the standard: their names, where they are allowed, and their parameters.
//!
//! Owns the table of the standard's annotations and the reading of arguments. Never does: decide
//! the effect of an annotation on a type; the code that makes the type decides it.

use crate::constant::Value;
use crate::constant::evaluate::Evaluator;
use crate::diagnostic::{Checked, did_you_mean};
use crate::model::{Extensibility, Placement, Primitive, TryConstruct, Type, Verbatim};
use crate::scope::Meaning;
use crate::source::Span;
use crate::syntax::{Annotation, Arguments, Expression, ExpressionKind};

/// A declared annotation of the user.
#[derive(Debug)]
pub(crate) struct DeclaredAnnotation {
    pub(crate) parameters: Vec<DeclaredParameter>,
}

#[derive(Debug)]
pub(crate) struct DeclaredParameter {
    pub(crate) name: String,
    /// Type of the parameter. `None` for `any`.
    pub(crate) ty: Option<Type>,
    pub(crate) has_default: bool,
}

/// Syntactic place of an annotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AnnotationPlace {
    Module,
    Constant,
    Typedef,
    Struct,
    Union,
    Enum,
    Bitmask,
    Bitset,
    Member,
    Case,
    Discriminator,
    Enumerator,
    Flag,
    Bitfield,
    /// The element of a sequence, array or map.
    Element,
    Interface,
    /// A place whose contents are skipped.
    Other,
}

impl AnnotationPlace {
    fn name(self) -> &'static str {
        match self {
            Self::Module => "a module",
            Self::Constant => "a constant",
            Self::Typedef => "a typedef",
            Self::Struct => "a struct",
            Self::Union => "a union",
            Self::Enum => "an enum",
            Self::Bitmask => "a bitmask",
            Self::Bitset => "a bitset",
            Self::Member => "a member of a struct",
            Self::Case => "a case of a union",
            Self::Discriminator => "a discriminator",
            Self::Enumerator => "an enumerator",
            Self::Flag => "a bit of a bitmask",
            Self::Bitfield => "a bit field",
            Self::Element => "the type of an element",
            Self::Interface => "an interface",
            Self::Other => "this",
        }
    }
}

use AnnotationPlace::{
    Bitfield, Bitmask, Bitset, Case, Constant, Discriminator, Element, Enum, Enumerator, Flag,
    Interface, Member, Module, Struct, Typedef, Union,
};

/// All kinds of type definitions.
const TYPES: &[AnnotationPlace] = &[Struct, Union, Enum, Bitmask, Bitset, Typedef];
const MEMBERS: &[AnnotationPlace] = &[Member, Case];
const ALL: &[AnnotationPlace] = &[
    Module,
    Constant,
    Typedef,
    Struct,
    Union,
    Enum,
    Bitmask,
    Bitset,
    Member,
    Case,
    Discriminator,
    Enumerator,
    Flag,
    Bitfield,
    Element,
    Interface,
];

/// Annotations of the standard, with the places where they are allowed and their parameters. A star
/// marks a required parameter. An entry without places is for operations, which are skipped
/// together with their annotations.
#[rustfmt::skip]
const KNOWN: &[(&str, &[AnnotationPlace], &[&str])] = &[
    ("key", &[Member, Discriminator, Bitfield], &["value"]),
    ("id", MEMBERS, &["*value"]),
    ("autoid", &[Module, Struct, Union, Interface], &["value"]),
    ("hashid", MEMBERS, &["value"]),
    ("optional", &[Member], &["value"]),
    ("default", &[Member, Case, Discriminator, Typedef], &["*value"]),
    ("default_literal", &[Enumerator], &[]),
    ("must_understand", MEMBERS, &["value"]),
    ("external", &[Member, Case, Element, Typedef], &["value"]),
    ("extensibility", TYPES, &["*value"]),
    ("final", TYPES, &[]),
    ("appendable", TYPES, &[]),
    ("mutable", TYPES, &[]),
    ("nested", TYPES, &["value"]),
    ("default_nested", &[Module], &["value"]),
    ("topic", &[Struct, Union, Typedef], &["name", "platform"]),
    ("try_construct", &[Member, Case, Discriminator, Element, Typedef], &["value"]),
    ("data_representation", &[Module, Struct, Union, Enum, Bitmask, Bitset], &["*allowed_kinds"]),
    ("unit", &[Member, Case, Constant, Typedef, Discriminator, Bitfield], &["*value"]),
    ("range", &[Member, Case, Typedef, Discriminator, Bitfield], &["*min", "*max"]),
    ("min", &[Member, Case, Typedef, Discriminator, Bitfield], &["*value"]),
    ("max", &[Member, Case, Typedef, Discriminator, Bitfield], &["*value"]),
    ("verbatim", ALL, &["language", "placement", "*text"]),
    ("position", &[Flag], &["*value"]),
    ("bit_bound", &[Enum, Bitmask], &["*value"]),
    ("value", &[Enumerator], &["*value"]),
    ("ignore_literal_names", &[Enum, Bitmask], &["value"]),
    ("service", &[Interface], &["name", "platform"]),
    ("non_serialized", &[Member], &["value"]),
    ("oneway", &[], &["value"]),
    ("ami", &[Interface], &["value"]),
    ("DDSService", &[Interface], &["name"]),
    ("DDSRequestTopic", &[Interface], &["name"]),
    ("DDSReplyTopic", &[Interface], &["name"]),
    ("RPCRequestType", &[Struct], &["value"]),
    ("RPCReplyType", &[Struct], &["value"]),
];

/// Whether an annotation of the standard may stand at a place.
pub(crate) fn belongs_to(name: &str, place: AnnotationPlace) -> bool {
    KNOWN.iter().any(|(known, places, _)| *known == name && places.contains(&place))
}

/// Annotations found at one place. Values whose type is the type of the member stay unevaluated.
#[derive(Debug, Default)]
pub(crate) struct FoundAnnotations<'s> {
    pub(crate) key: Option<bool>,
    pub(crate) id: Option<(u32, Span)>,
    pub(crate) hashed_ids: Option<bool>,
    pub(crate) hash_id: Option<Option<String>>,
    pub(crate) optional: bool,
    pub(crate) default: Option<&'s Expression>,
    pub(crate) default_literal: Option<Span>,
    pub(crate) must_understand: bool,
    pub(crate) external: bool,
    pub(crate) extensibility: Option<(Extensibility, Span)>,
    pub(crate) nested: Option<bool>,
    pub(crate) default_nested: Option<bool>,
    /// Position of `@topic`, with the topic's name if one is given.
    pub(crate) topic: Option<(Option<String>, Span)>,
    pub(crate) try_construct: Option<TryConstruct>,
    pub(crate) representations: Vec<String>,
    pub(crate) unit: Option<String>,
    pub(crate) min: Option<&'s Expression>,
    pub(crate) max: Option<&'s Expression>,
    pub(crate) verbatim: Vec<Verbatim>,
    /// Comments given by `@verbatim(language = "comment")`.
    pub(crate) docs: Vec<String>,
    pub(crate) position: Option<(u16, Span)>,
    pub(crate) bit_bound: Option<(u16, Span)>,
    pub(crate) value: Option<&'s Expression>,
    pub(crate) ignore_literal_names: bool,
    pub(crate) non_serialized: bool,
}

impl Evaluator<'_> {
    /// Reads the annotations at one place.
    pub(crate) fn annotations<'s>(
        &mut self,
        annotations: &'s [Annotation],
        place: AnnotationPlace,
    ) -> FoundAnnotations<'s> {
        let mut found = FoundAnnotations::default();
        let mut seen: Vec<(&str, Span)> = Vec::new();
        for annotation in annotations {
            let name = &*annotation.path.parts[0].text;
            let known = KNOWN.iter().find(|(known, ..)| *known == name);
            let Some((name, places, parameters)) =
                known.filter(|_| annotation.path.parts.len() == 1)
            else {
                self.user_annotation(annotation);
                continue;
            };
            if let Some((_, first)) = seen.iter().find(|(other, _)| other == name)
                && *name != "verbatim"
            {
                let text = format!("`@{name}` stands here twice; remove one");
                self.reports.error_with(annotation.span, text, *first, "the first is here");
                continue;
            }
            seen.push((name, annotation.span));
            if place == Interface && *name == "nested" {
                let text =
                    "`@nested` has no effect on an interface, which no topic has as its type";
                self.reports.warning(annotation.span, text);
                continue;
            }
            if place != AnnotationPlace::Other && !places.contains(&place) {
                let mut belongs: Vec<&str> = places.iter().map(|place| place.name()).collect();
                if belongs.is_empty() {
                    belongs.push("an operation of an interface");
                }
                let text = format!(
                    "`@{name}` does not belong in front of {}; it belongs in front of {}",
                    place.name(),
                    either(&belongs)
                );
                self.reports.error(annotation.span, text);
                continue;
            }
            if let Ok(arguments) = self.arguments(annotation, parameters) {
                // An error in an argument has already been reported; the annotation is ignored.
                let _ = self.standard(name, annotation, &arguments, &mut found);
            }
        }
        found
    }

    /// Returns the arguments in the order of the parameters.
    fn arguments<'s>(
        &mut self,
        annotation: &'s Annotation,
        parameters: &[&str],
    ) -> Checked<Vec<Option<&'s Expression>>> {
        let name = annotation.path.text();
        let mut values: Vec<Option<&Expression>> = vec![None; parameters.len()];
        let plain = |parameter: &str| parameter.trim_start_matches('*').to_owned();
        match &annotation.arguments {
            Arguments::None => {}
            Arguments::One(value) => {
                // A single argument is the required parameter (the text of `@verbatim`) if there is
                // one, otherwise the first.
                let required = parameters.iter().filter(|p| p.starts_with('*')).count();
                let index = parameters.iter().position(|p| p.starts_with('*')).unwrap_or(0);
                if parameters.is_empty() || required > 1 {
                    let wanted: Vec<String> = parameters.iter().map(|p| plain(p)).collect();
                    let text = if parameters.is_empty() {
                        format!("`@{name}` has no parameters")
                    } else {
                        format!("name the arguments of `@{name}`: {}", wanted.join(" = , ") + " = ")
                    };
                    return Err(self.reports.error(value.span, text));
                }
                values[index] = Some(value);
            }
            Arguments::Named(named) => {
                for (parameter, value) in named {
                    let index = parameters.iter().position(|p| plain(p) == *parameter.text);
                    let Some(index) = index else {
                        let names: Vec<String> = parameters.iter().map(|p| plain(p)).collect();
                        let guess = did_you_mean(&parameter.text, names.iter().map(|n| &**n));
                        let text =
                            format!("`@{name}` has no parameter `{}`{guess}", parameter.text);
                        return Err(self.reports.error(parameter.span, text));
                    };
                    if values[index].replace(value).is_some() {
                        let text = format!("`{}` is given twice", parameter.text);
                        return Err(self.reports.error(parameter.span, text));
                    }
                }
            }
        }
        for (parameter, value) in parameters.iter().zip(&values) {
            if parameter.starts_with('*') && value.is_none() {
                let text = format!("`@{name}` needs its parameter `{}`", plain(parameter));
                return Err(self.reports.error(annotation.span, text));
            }
        }
        Ok(values)
    }

    fn standard<'s>(
        &mut self,
        name: &str,
        annotation: &Annotation,
        arguments: &[Option<&'s Expression>],
        found: &mut FoundAnnotations<'s>,
    ) -> Checked<()> {
        let span = annotation.span;
        let first = arguments.first().copied().flatten();
        match name {
            "key" => found.key = Some(self.yes(first)?),
            "id" => found.id = Some((self.number(first, 0, 0x0FFF_FFFF)? as u32, span)),
            "autoid" => {
                let kind = self.choice(first, &["SEQUENTIAL", "HASH"])?;
                found.hashed_ids = Some(kind.is_none_or(|kind| kind == "HASH"));
            }
            "hashid" => found.hash_id = Some(self.text(first)?.filter(|text| !text.is_empty())),
            "optional" => found.optional = self.yes(first)?,
            "default" => found.default = first,
            "default_literal" => found.default_literal = Some(span),
            "must_understand" => found.must_understand = self.yes(first)?,
            "external" => found.external = self.yes(first)?,
            "final" | "appendable" | "mutable" | "extensibility" => {
                let kind = self.choice(first, &["FINAL", "APPENDABLE", "MUTABLE"])?;
                let kind = match kind.unwrap_or(name) {
                    "FINAL" | "final" => Extensibility::Final,
                    "APPENDABLE" | "appendable" => Extensibility::Appendable,
                    _ => Extensibility::Mutable,
                };
                if let Some((before, other)) = found.extensibility
                    && before != kind
                {
                    let text = "two different extensibilities stand here; remove one";
                    return Err(self.reports.error_with(span, text, other, "the other is here"));
                }
                found.extensibility = Some((kind, span));
            }
            "nested" => found.nested = Some(self.yes(first)?),
            "default_nested" => found.default_nested = Some(self.yes(first)?),
            "topic" => {
                let platform = self.text(arguments.get(1).copied().flatten())?;
                let is_ours = |platform: String| matches!(platform.as_str(), "*" | "DDS" | "");
                // An annotation for another platform has no effect.
                if platform.is_none_or(is_ours) {
                    let name = self.text(first)?;
                    found.topic = Some((name.filter(|name| !name.is_empty()), span));
                }
            }
            "try_construct" => {
                let kind = self.choice(first, &["DISCARD", "USE_DEFAULT", "TRIM"])?;
                found.try_construct = Some(match kind.unwrap_or("USE_DEFAULT") {
                    "DISCARD" => TryConstruct::Discard,
                    "TRIM" => TryConstruct::Trim,
                    _ => TryConstruct::UseDefault,
                });
            }
            "data_representation" => {
                if let Some(kinds) = first {
                    self.representations(kinds, &mut found.representations)?;
                }
            }
            "unit" => found.unit = self.text(first)?,
            "range" => {
                found.min = first;
                found.max = arguments.get(1).copied().flatten();
            }
            "min" => found.min = first,
            "max" => found.max = first,
            "verbatim" => self.verbatim(arguments, found)?,
            "position" => found.position = Some((self.number(first, 0, 63)? as u16, span)),
            "bit_bound" => found.bit_bound = Some((self.number(first, 1, 64)? as u16, span)),
            "value" => found.value = first,
            "ignore_literal_names" => found.ignore_literal_names = self.yes(first)?,
            "non_serialized" => found.non_serialized = self.yes(first)?,
            // Annotations of services have no effect on types.
            _ => {}
        }
        Ok(())
    }

    fn verbatim<'s>(
        &mut self,
        arguments: &[Option<&'s Expression>],
        found: &mut FoundAnnotations<'s>,
    ) -> Checked<()> {
        let [language, placement, text] = arguments else { return Ok(()) };
        let language = self.text(*language)?.unwrap_or_else(|| "*".to_owned());
        let places = [
            "BEGIN_FILE",
            "BEFORE_DECLARATION",
            "BEGIN_DECLARATION",
            "END_DECLARATION",
            "AFTER_DECLARATION",
            "END_FILE",
        ];
        // Some files write the placement as a string.
        let placement = match placement {
            Some(Expression { kind: ExpressionKind::String { value, .. }, .. }) => {
                places.into_iter().find(|place| *place == &**value)
            }
            placement => self.choice(*placement, &places)?,
        };
        let text = self.text(*text)?.unwrap_or_default();
        match language.to_ascii_lowercase().as_str() {
            "comment" => found.docs.extend(text.lines().map(|line| line.trim_end().to_owned())),
            "rust" => {
                let placement = match placement.unwrap_or("BEFORE_DECLARATION") {
                    "BEGIN_FILE" => Placement::BeginFile,
                    "BEGIN_DECLARATION" => Placement::BeginDeclaration,
                    "END_DECLARATION" => Placement::EndDeclaration,
                    "AFTER_DECLARATION" => Placement::AfterDeclaration,
                    "END_FILE" => Placement::EndFile,
                    _ => Placement::BeforeDeclaration,
                };
                found.verbatim.push(Verbatim { placement, text });
            }
            // Text for all languages (`*`) or for another language is ignored.
            _ => {}
        }
        Ok(())
    }

    /// Reads the names in `XCDR1 | XCDR2`.
    fn representations(&mut self, value: &Expression, into: &mut Vec<String>) -> Checked<()> {
        match &value.kind {
            ExpressionKind::Binary("|", left, right) => {
                self.representations(left, into)?;
                self.representations(right, into)
            }
            _ => {
                let kind = match &value.kind {
                    // The kinds are bits of a mask, which some files write as numbers.
                    ExpressionKind::Number(_) => {
                        return self.numbered_representations(value, into);
                    }
                    _ => self.choice(Some(value), &["XCDR1", "XML", "XCDR2"])?,
                };
                if let Some(kind) = kind.filter(|kind| !into.iter().any(|other| other == kind)) {
                    into.push(kind.to_owned());
                }
                Ok(())
            }
        }
    }

    /// Reads the mask of kinds as a number: 1 is `XCDR1`, 2 is `XML`, 4 is `XCDR2`.
    fn numbered_representations(
        &mut self,
        value: &Expression,
        into: &mut Vec<String>,
    ) -> Checked<()> {
        let mask = self.number(Some(value), 1, 7)?;
        for (bit, kind) in ["XCDR1", "XML", "XCDR2"].into_iter().enumerate() {
            if mask & (1 << bit) != 0 && !into.iter().any(|other| other == kind) {
                into.push(kind.to_owned());
            }
        }
        Ok(())
    }

    /// Reads a flag: `@key` and `@key(TRUE)` are true, `@key(FALSE)` is false.
    fn yes(&mut self, argument: Option<&Expression>) -> Checked<bool> {
        let Some(argument) = argument else { return Ok(true) };
        match self.value(argument, Some(&Type::Primitive(Primitive::Boolean)))? {
            Value::Boolean(value) => Ok(value),
            _ => Ok(true),
        }
    }

    fn number(&mut self, argument: Option<&Expression>, min: i128, max: i128) -> Checked<i128> {
        let Some(argument) = argument else { return Ok(min) };
        match self.value(argument, None)? {
            Value::Integer(number) if (min..=max).contains(&number) => Ok(number),
            _ => {
                let text = format!("expected an integer from {min} to {max}");
                Err(self.reports.error(argument.span, text))
            }
        }
    }

    fn text(&mut self, argument: Option<&Expression>) -> Checked<Option<String>> {
        let Some(argument) = argument else { return Ok(None) };
        match self.value(argument, None)? {
            Value::String(text) => Ok(Some(text)),
            _ => Err(self.reports.error(argument.span, "expected a string")),
        }
    }

    /// Reads one of several names that are known only at this place.
    fn choice(
        &mut self,
        argument: Option<&Expression>,
        choices: &[&'static str],
    ) -> Checked<Option<&'static str>> {
        let Some(argument) = argument else { return Ok(None) };
        let text = match &argument.kind {
            ExpressionKind::Name(path) => path.parts.last().map(|part| part.text.to_string()),
            _ => None,
        };
        let word = text.unwrap_or_default();
        if let Some(choice) = choices.iter().find(|choice| **choice == word) {
            return Ok(Some(choice));
        }
        let guess = did_you_mean(&word, choices.iter().copied());
        let message = format!("expected {}{guess}", either(choices));
        Err(self.reports.error(argument.span, message))
    }

    /// Checks a user's annotation against its declaration. The annotation has no effect.
    fn user_annotation(&mut self, annotation: &Annotation) {
        let name = annotation.path.text();
        let known = self.scopes.find_quietly(&name).cloned();
        let Some(Meaning::Annotation(declared)) = known else {
            let guess = did_you_mean(&name, KNOWN.iter().map(|(known, ..)| *known));
            let text = format!("the annotation `@{name}` is not known and has no effect{guess}");
            self.reports.warning(annotation.span, text);
            return;
        };
        let names: Vec<String> = declared
            .parameters
            .iter()
            .map(|p| format!("{}{}", if p.has_default { "" } else { "*" }, p.name))
            .collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let Ok(arguments) = self.arguments(annotation, &names) else { return };
        for (parameter, argument) in declared.parameters.iter().zip(arguments) {
            if let Some(argument) = argument {
                // An error in the argument has already been reported.
                let _ = self.value(argument, parameter.ty.as_ref());
            }
        }
    }
}

/// `a`, `a or b`, `a, b or c`.
fn either(words: &[&str]) -> String {
    match words {
        [] => String::new(),
        [word] => (*word).to_owned(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}
