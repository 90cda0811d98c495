//! Printing of values as text and as JSON.
//!
//! Owns lines and quotes. Never reads.

use std::fmt::{self, Write};

use idl_cdr::LongDouble;

use super::is_word;
use crate::DynamicType;
use crate::data::Value;
use crate::model::{NodeKind, TypeGraph, TypeNodeId};

/// Output formats.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Style {
    Text,
    Json,
}

pub(crate) fn print(of: &DynamicType, value: &Value, style: Style) -> String {
    let anys = super::any::MOST_IN_EACH_OTHER;
    let mut printer = Printer { graph: &of.graph, out: String::new(), style, anys };
    // Writing to a string cannot fail.
    let _ = printer.value(of.root, value, 0);
    printer.out
}

/// Whether values are numbers; lists of these are printed on one line.
fn is_number(of: &NodeKind) -> bool {
    matches!(of, NodeKind::Primitive(_) | NodeKind::Fixed { .. })
}

/// Whether values of a type are printed on one line.
fn has_one_line(graph: &TypeGraph, of: TypeNodeId) -> bool {
    match graph.kind(of) {
        NodeKind::Text { .. }
        | NodeKind::Enumeration { .. }
        | NodeKind::Bitmask { .. }
        | NodeKind::Bitset(_) => true,
        NodeKind::Sequence { element, .. } | NodeKind::Array { element, .. } => {
            is_number(graph.kind(element.of))
        }
        kind => is_number(kind),
    }
}

pub(super) struct Printer<'a> {
    pub(super) graph: &'a TypeGraph,
    pub(super) out: String,
    pub(super) style: Style,
    /// Remaining levels of nested `any` values that are shown by their types.
    pub(super) anys: usize,
}

impl Printer<'_> {
    pub(super) fn value(&mut self, of: TypeNodeId, value: &Value, level: usize) -> fmt::Result {
        let graph = self.graph;
        match (graph.kind(of), value) {
            (_, Value::Absent) => self.out.write_str("null"),
            (_, Value::Bool(value)) => write!(self.out, "{value}"),
            (_, Value::Signed(value)) => write!(self.out, "{value}"),
            (_, Value::Unsigned(value) | Value::Bitmask(value)) => write!(self.out, "{value}"),
            (_, Value::Float(value)) => self.number(value.is_finite(), &format!("{value:?}")),
            (_, Value::Double(value)) => self.number(value.is_finite(), &format!("{value:?}")),
            (_, Value::LongDouble(value)) => {
                let text = value.to_string();
                match LongDouble::parse(&text) == Some(*value) {
                    true => self.number(value.to_f64().abs() < f64::MAX, &text),
                    // A NaN with other bits than the usual one: all of its bits are printed.
                    false => write!(self.out, "\"{:#034x}\"", u128::from_le_bytes(value.0)),
                }
            }
            (_, Value::Fixed { units, scale }) => {
                let (one, sign) = (10_u128.pow(*scale), if *units < 0 { "-" } else { "" });
                let (whole, part) = (units.unsigned_abs() / one, units.unsigned_abs() % one);
                write!(self.out, "{sign}{whole}")?;
                match *scale as usize {
                    0 => Ok(()),
                    scale => write!(self.out, ".{part:0scale$}"),
                }
            }
            (_, Value::Char(value)) => self.quoted(&value.to_string()),
            (_, Value::WideChar(value)) => match char::from_u32(value.0.into()) {
                Some(value) => self.quoted(&value.to_string()),
                // Half of a surrogate pair is not a character.
                None => write!(self.out, "{}", value.0),
            },
            (_, Value::Text(text)) => self.quoted(text),
            (_, Value::Enumerator { name, .. }) => self.name(name),
            (
                NodeKind::Sequence { element, .. } | NodeKind::Array { element, .. },
                Value::Collection(parts),
            ) => {
                let is_short = is_number(graph.kind(element.of));
                self.list(parts.iter(), '[', ']', is_short, level, |printer, part, level| {
                    printer.value(element.of, part, level)
                })
            }
            (NodeKind::Map { key, value: of, .. }, Value::Map(entries)) => {
                let is_short = has_one_line(graph, of.of);
                self.list(entries.iter(), '[', ']', false, level, |printer, (one, other), level| {
                    let parts = [("key", key.of, one), ("value", of.of, other)];
                    printer.named(parts.into_iter(), is_short, level)
                })
            }
            (NodeKind::Bitset(fields), Value::Structure(parts)) => {
                let parts = fields.iter().zip(parts);
                let parts = parts.map(|(field, part)| (&*field.name.text, field.of, part));
                self.named(parts, true, level)
            }
            (_, Value::Structure(_)) if graph.is_any(of) && self.any(value, level)? => Ok(()),
            (NodeKind::Structure(of), Value::Structure(parts)) => {
                let members = graph.members(of);
                let parts = members.iter().zip(parts).filter(|(_, part)| **part != Value::Absent);
                let parts = parts.map(|(member, part)| (&*member.name.text, member.of, part));
                self.named(parts, false, level)
            }
            (NodeKind::Union(of), Value::Union(held)) => {
                let discriminator = &of.discriminator;
                let first = (&*discriminator.name.text, discriminator.of, &held.discriminator);
                let member = of.cases.get(held.case).and_then(|case| case.member.as_ref());
                let member = member.map(|member| (&*member.name.text, member.of, &held.member));
                self.named(std::iter::once(first).chain(member), false, level)
            }
            _ => self.out.write_str("null"),
        }
    }

    fn number(&mut self, is_finite: bool, text: &str) -> fmt::Result {
        let text = match text {
            "inf" => "Infinity",
            "-inf" => "-Infinity",
            text => text,
        };
        match self.style {
            Style::Json if !is_finite => write!(self.out, "\"{text}\""),
            _ => self.out.write_str(text),
        }
    }

    pub(super) fn name(&mut self, name: &str) -> fmt::Result {
        match self.style {
            Style::Text if is_word(name) => self.out.write_str(name),
            // Member names of a peer may be arbitrary.
            Style::Text | Style::Json => self.quoted(name),
        }
    }

    fn quoted(&mut self, text: &str) -> fmt::Result {
        self.out.write_char('"')?;
        for character in text.chars() {
            match character {
                '"' => self.out.write_str("\\\"")?,
                '\\' => self.out.write_str("\\\\")?,
                '\n' => self.out.write_str("\\n")?,
                '\r' => self.out.write_str("\\r")?,
                '\t' => self.out.write_str("\\t")?,
                c if c.is_control() => write!(self.out, "\\u{:04x}", u32::from(c))?,
                c => self.out.write_char(c)?,
            }
        }
        self.out.write_char('"')
    }

    fn named<'v>(
        &mut self,
        parts: impl Iterator<Item = (&'v str, TypeNodeId, &'v Value)>,
        is_short: bool,
        level: usize,
    ) -> fmt::Result {
        self.list(parts, '{', '}', is_short, level, |printer, (name, of, part), level| {
            printer.name(name)?;
            printer.out.write_str(": ")?;
            printer.value(of, part, level)
        })
    }

    fn list<T>(
        &mut self,
        parts: impl Iterator<Item = T>,
        open: char,
        close: char,
        is_short: bool,
        level: usize,
        mut each: impl FnMut(&mut Self, T, usize) -> fmt::Result,
    ) -> fmt::Result {
        self.out.write_char(open)?;
        let mut is_first = true;
        for part in parts {
            if !is_first {
                self.out.write_char(',')?;
            }
            match is_short {
                true if is_first => {}
                true => self.out.write_char(' ')?,
                false => self.line(level + 1)?,
            }
            is_first = false;
            each(self, part, level + 1)?;
        }
        if !is_first && !is_short {
            self.line(level)?;
        }
        self.out.write_char(close)
    }

    pub(super) fn line(&mut self, level: usize) -> fmt::Result {
        write!(self.out, "\n{:1$}", "", 2 * level)
    }
}
