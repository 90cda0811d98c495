//! Annotations in comments, `long id; //@key`, as files for older products have them.
//!
//! Owns their spelling. A comment annotates the member, case or other part before it on its line; a
//! comment about a type may also stand alone on the line after the type. Any other comment of this
//! form causes a warning.

use std::collections::BTreeSet;

use crate::annotation::{AnnotationPlace, belongs_to};
use crate::literal;
use crate::source::Span;
use crate::syntax::{
    Annotation, AnnotationsAndDocs, Arguments, DefinitionKind, Expression, ExpressionKind, Name,
    Path,
};

use super::Parser;

/// Value of an annotation in a comment.
#[derive(Clone, Copy)]
enum CommentValue {
    None,
    /// `true`, `false` or nothing.
    Flag,
    /// The opposite of a flag.
    OppositeFlag,
    Number,
    Extensibility,
}

/// Known annotations in lower case, and the annotations of IDL with the same meaning.
const KNOWN: [(&str, &str, CommentValue); 17] = [
    ("key", "key", CommentValue::Flag),
    ("id", "id", CommentValue::Number),
    ("optional", "optional", CommentValue::Flag),
    ("must_understand", "must_understand", CommentValue::Flag),
    ("external", "external", CommentValue::Flag),
    ("shared", "external", CommentValue::Flag),
    ("non_serialized", "non_serialized", CommentValue::Flag),
    ("nested", "nested", CommentValue::Flag),
    ("top-level", "nested", CommentValue::OppositeFlag),
    ("extensibility", "extensibility", CommentValue::Extensibility),
    ("final", "final", CommentValue::None),
    ("appendable", "appendable", CommentValue::None),
    ("mutable", "mutable", CommentValue::None),
    ("bit_bound", "bit_bound", CommentValue::Number),
    ("position", "position", CommentValue::Number),
    ("value", "value", CommentValue::Number),
    ("default_literal", "default_literal", CommentValue::None),
];

/// Annotations with the same effect on a type, of which the one in IDL decides.
const EXTENSIBILITIES: [&str; 4] = ["extensibility", "final", "appendable", "mutable"];

impl Parser<'_> {
    /// Adds the annotations in comments behind the construct just read, unless the construct has
    /// them already.
    pub(super) fn annotations_behind(
        &mut self,
        notes: &mut AnnotationsAndDocs,
        place: AnnotationPlace,
    ) {
        let (Some(index), token) = (self.next.checked_sub(1), self.peek()) else { return };
        let (end, file) = (self.tokens[index].end_line, self.tokens[index].span.file);
        let last_line = if is_type(place) { end + 1 } else { end };
        for at in token.comments.0..token.comments.1 {
            let comment = self.comments[at as usize];
            if comment.span.file != file || comment.line < end || comment.line > last_line {
                continue;
            }
            let Some(found) = self.comment_annotations(comment.span) else { continue };
            if !found.iter().all(|annotation| belongs_to(name_of(annotation), place)) {
                continue;
            }
            self.annotating_comments.insert(at);
            for annotation in found {
                let is_said = |other: &Annotation| {
                    let both = [name_of(other), name_of(&annotation)];
                    both[0] == both[1] || both.iter().all(|name| EXTENSIBILITIES.contains(name))
                };
                if !notes.annotations.iter().any(is_said) {
                    notes.annotations.push(annotation);
                }
            }
        }
    }

    /// Returns the annotations of one comment, `//@key` or `//@key //@ID 3`; `None` if one of them
    /// is unknown.
    fn comment_annotations(&self, span: Span) -> Option<Vec<Annotation>> {
        let text = &self.sources.file(span.file).text[span.start as usize..span.end as usize];
        text.strip_prefix("//@")?.split("//@").map(|text| annotation(text.trim(), span)).collect()
    }

    /// Warns about comments that look like annotations and have no effect. Warns once for each file
    /// about those that have one.
    pub(super) fn check_comments(&mut self) {
        let mut told = BTreeSet::new();
        for (at, comment) in self.comments.iter().enumerate() {
            let span = comment.span;
            let text = &self.sources.file(span.file).text[span.start as usize..span.end as usize];
            let is_name = |text: &str| text.starts_with(|c: char| c.is_ascii_alphabetic());
            let Some(name) = text.strip_prefix("//@").filter(|text| is_name(text)) else {
                continue;
            };
            let is_applied = self.annotating_comments.contains(&(at as u32));
            let word = name.split(|c: char| c.is_whitespace() || "(/".contains(c)).next();
            let known = word.and_then(known);
            if is_applied && !told.insert(span.file) {
                continue;
            }
            let text = match known {
                Some((_, annotation, _)) if is_applied => format!(
                    "this comment has the effect of `@{annotation}`, but other products may ignore \
                     it, and all such comments of this file: write `@{annotation}` in front of the \
                     construct"
                ),
                Some((_, annotation, _)) => format!(
                    "this comment has no effect: it is not directly behind a construct that can \
                     have the annotation, or its value is wrong; write `@{annotation}` in front of \
                     the construct"
                ),
                None => format!(
                    "the annotation `//@{}` in this comment is not known and has no effect",
                    word.unwrap_or_default()
                ),
            };
            self.reports.warning(span, text);
        }
    }
}

/// Returns the place of a definition's annotations.
pub(super) fn place_of(definition: &DefinitionKind) -> AnnotationPlace {
    match definition {
        DefinitionKind::Struct(_) => AnnotationPlace::Struct,
        DefinitionKind::Union(_) => AnnotationPlace::Union,
        DefinitionKind::Enum(_) => AnnotationPlace::Enum,
        DefinitionKind::Bitmask(_) => AnnotationPlace::Bitmask,
        DefinitionKind::Bitset(_) => AnnotationPlace::Bitset,
        DefinitionKind::Typedef { .. } => AnnotationPlace::Typedef,
        _ => AnnotationPlace::Other,
    }
}

fn is_type(place: AnnotationPlace) -> bool {
    use AnnotationPlace::{Bitmask, Bitset, Enum, Struct, Typedef, Union};
    matches!(place, Struct | Union | Enum | Bitmask | Bitset | Typedef)
}

fn name_of(annotation: &Annotation) -> &str {
    &annotation.path.parts[0].text
}

fn known(word: &str) -> Option<(&'static str, &'static str, CommentValue)> {
    let word = word.to_ascii_lowercase();
    KNOWN.into_iter().find(|(known, ..)| *known == word)
}

/// Reads `ID 3`, `ID(3)`, `top-level false` or `Extensibility MUTABLE_EXTENSIBILITY`.
fn annotation(text: &str, span: Span) -> Option<Annotation> {
    let end = text.find(|c: char| c.is_whitespace() || c == '(').unwrap_or(text.len());
    let (word, value) = text.split_at(end);
    let (_, name, kind) = known(word)?;
    let value = value.trim();
    let value = match value.strip_prefix('(') {
        Some(inside) => inside.strip_suffix(')')?.trim(),
        None => value,
    };
    let lower = value.to_ascii_lowercase();
    let flag = match lower.as_str() {
        "" | "true" => Some(true),
        "false" => Some(false),
        _ => None,
    };
    let path = |text: &str| {
        let parts = vec![Name { text: text.into(), span }];
        Path { absolute: false, parts, span }
    };
    let value = match kind {
        CommentValue::None if value.is_empty() => None,
        CommentValue::None => return None,
        CommentValue::Flag => Some(ExpressionKind::Boolean(flag?)),
        CommentValue::OppositeFlag => Some(ExpressionKind::Boolean(!flag?)),
        CommentValue::Number => Some(ExpressionKind::Number(literal::number(value).ok()?)),
        CommentValue::Extensibility => {
            let word = lower.strip_suffix("_extensibility").unwrap_or(&lower).to_ascii_uppercase();
            let word = if word == "EXTENSIBLE" { "APPENDABLE" } else { &word };
            let is_kind = matches!(word, "FINAL" | "APPENDABLE" | "MUTABLE");
            Some(ExpressionKind::Name(is_kind.then(|| path(word))?))
        }
    };
    let arguments = match value {
        Some(kind) => Arguments::One(Expression { kind, span }),
        None => Arguments::None,
    };
    Some(Annotation { path: path(name), arguments, span })
}
