//! Parsing of values from text and from JSON.
//!
//! Owns the grammar and its error messages. The type determines what is allowed at each position,
//! so nothing is read whose meaning is unknown.

use std::fmt;

use idl_cdr::LongDouble;

use super::is_part_of_word;
use crate::DynamicType;
use crate::data::{Value, default_of, default_of_member, layout, union_of_case};
use crate::model::{Literal, NodeKind, Primitive, StructureMember, TypeGraph, TypeNodeId, Union};

/// Maximum nesting depth of a text.
const MOST_LEVELS: usize = 200;

/// Reason why a text is not a value of a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextError {
    /// Line, counted from 1.
    pub line: usize,
    /// Character in the line, counted from 1.
    pub column: usize,
    /// Path of the member; empty at the beginning.
    pub path: String,
    /// Description of the error.
    pub reason: String,
}

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: ", self.line, self.column)?;
        if !self.path.is_empty() {
            write!(f, "`{}`: ", self.path)?;
        }
        f.write_str(&self.reason)
    }
}

impl std::error::Error for TextError {}

pub(crate) fn parse(of: &DynamicType, text: &str) -> Result<Value, TextError> {
    let mut parser = Parser { graph: &of.graph, text, at: 0, path: Vec::new() };
    let parsed = parser.value(of.root).and_then(|value| {
        parser.space();
        match parser.at == text.len() {
            true => Ok(value),
            false => parser.fail("expected the end after the value, found more text"),
        }
    });
    parsed.map_err(|(at, reason)| {
        let before = &text[..at];
        TextError {
            line: before.matches('\n').count() + 1,
            column: before.chars().rev().take_while(|c| *c != '\n').count() + 1,
            path: parser.path.concat().trim_start_matches('.').to_owned(),
            reason,
        }
    })
}

pub(super) struct Parser<'a> {
    pub(super) graph: &'a TypeGraph,
    pub(super) text: &'a str,
    pub(super) at: usize,
    /// Steps to the current part; they stay when an error occurs.
    pub(super) path: Vec<String>,
}

pub(super) type Parsed<T> = Result<T, (usize, String)>;

impl<'a> Parser<'a> {
    fn fail<T>(&self, reason: impl Into<String>) -> Parsed<T> {
        Err((self.at, reason.into()))
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn space(&mut self) {
        loop {
            let rest = self.rest();
            self.at += rest.len() - rest.trim_start().len();
            if !self.rest().starts_with("//") {
                return;
            }
            self.at += self.rest().find('\n').unwrap_or(self.rest().len());
        }
    }

    /// Consumes a character if it is the next one.
    fn take(&mut self, what: char) -> bool {
        self.space();
        let is_next = self.rest().starts_with(what);
        if is_next {
            self.at += what.len_utf8();
        }
        is_next
    }

    fn require(&mut self, what: char, of: &str) -> Parsed<()> {
        if self.take(what) {
            return Ok(());
        }
        self.fail(format!("expected `{what}` of {of}{}", self.found()))
    }

    fn found(&self) -> String {
        match self.rest().chars().next() {
            None => ", found the end of the text".to_owned(),
            Some(found) => format!(", found `{found}`"),
        }
    }

    fn inside<T>(&mut self, step: String, work: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.path.len() >= MOST_LEVELS {
            return self.fail("the value is nested too deep");
        }
        self.path.push(step);
        let done = work(self)?;
        self.path.pop();
        Ok(done)
    }

    /// Reads a word, a number or quoted text.
    pub(super) fn word(&mut self, what: &str) -> Parsed<(usize, String)> {
        self.space();
        let start = self.at;
        if self.rest().starts_with('"') {
            return self.string().map(|text| (start, text));
        }
        let end = self.rest().find(|c| !is_part_of_word(c)).unwrap_or(self.rest().len());
        if end == 0 {
            return self.fail(format!("expected {what}{}", self.found()));
        }
        self.at += end;
        Ok((start, self.text[start..self.at].to_owned()))
    }

    fn string(&mut self) -> Parsed<String> {
        let start = self.at;
        let mut text = String::new();
        let mut rest = self.rest()[1..].char_indices();
        while let Some((place, character)) = rest.next() {
            match character {
                '"' => {
                    self.at = start + 1 + place + 1;
                    return Ok(text);
                }
                '\\' => {
                    let escaped = rest.next().map(|(_, character)| character);
                    let at = start + 1 + place;
                    match escaped {
                        Some(plain @ ('"' | '\\' | '/')) => text.push(plain),
                        Some('n') => text.push('\n'),
                        Some('r') => text.push('\r'),
                        Some('t') => text.push('\t'),
                        Some('b') => text.push('\u{8}'),
                        Some('f') => text.push('\u{c}'),
                        Some('u') => {
                            let Some((character, taken)) = unicode(&self.text[at + 2..]) else {
                                return Err((at, "this escape is not a character".to_owned()));
                            };
                            text.push(character);
                            for _ in 0..taken {
                                rest.next();
                            }
                        }
                        _ => return Err((at, "unknown escape sequence".to_owned())),
                    }
                }
                '\n' => break,
                character => text.push(character),
            }
        }
        self.fail("the text that begins here has no closing quote in its line")
    }

    pub(super) fn value(&mut self, of: TypeNodeId) -> Parsed<Value> {
        let graph = self.graph;
        let node = graph.resolved(of);
        let value = match graph.kind(of) {
            NodeKind::Sequence { element, .. } => {
                let mut parts = Vec::new();
                self.list('[', ']', "a sequence", |parser| {
                    let step = format!("[{}]", parts.len());
                    parts.push(parser.inside(step, |parser| parser.value(element.of))?);
                    Ok(())
                })?;
                Value::Collection(parts)
            }
            NodeKind::Array { element, count } => {
                self.space();
                let start = self.at;
                let mut parts = Vec::new();
                self.list('[', ']', "an array", |parser| {
                    let step = format!("[{}]", parts.len());
                    parts.push(parser.inside(step, |parser| parser.value(element.of))?);
                    Ok(())
                })?;
                if parts.len() != *count as usize {
                    let found = parts.len();
                    return Err((start, format!("the array has {count} elements, found {found}")));
                }
                Value::Collection(parts)
            }
            NodeKind::Map { key, value, .. } => {
                let mut entries = Vec::new();
                self.list('[', ']', "a map", |parser| {
                    let step = format!("[{}]", entries.len());
                    entries.push(parser.inside(step, |parser| parser.entry(key.of, value.of))?);
                    Ok(())
                })?;
                entries.sort_by(|(one, _), (other, _): &(Value, Value)| one.order(other));
                Value::Map(entries)
            }
            NodeKind::Structure(structure) if graph.is_any(node) => {
                self.any(structure.members[0].of)?
            }
            NodeKind::Structure(structure) => self.structure(&graph.members(structure))?,
            NodeKind::Bitset(fields) => {
                let mut parts: Vec<Value> =
                    fields.iter().map(|field| default_of(graph, field.of)).collect();
                self.members("a bitset", |parser, at, name| {
                    let found = fields.iter().position(|field| *field.name.text == *name);
                    let Some(place) = found else {
                        return Err((at, format!("the bitset has no field `{name}`")));
                    };
                    parts[place] = parser.value(fields[place].of)?;
                    Ok(())
                })?;
                Value::Structure(parts)
            }
            NodeKind::Union(union) => self.union(union)?,
            _ => self.scalar(of)?,
        };
        match layout::require_fit(graph, node, &value) {
            Ok(()) => Ok(value),
            Err(reason) => self.fail(format!("this {reason}")),
        }
    }

    fn list(
        &mut self,
        open: char,
        close: char,
        of: &str,
        mut each: impl FnMut(&mut Self) -> Parsed<()>,
    ) -> Parsed<()> {
        self.require(open, of)?;
        while !self.take(close) {
            each(self)?;
            if !self.take(',') {
                return self.require(close, of);
            }
        }
        Ok(())
    }

    /// Reads any number of `name: value`.
    pub(super) fn members(
        &mut self,
        of: &str,
        mut each: impl FnMut(&mut Self, usize, &str) -> Parsed<()>,
    ) -> Parsed<()> {
        self.list('{', '}', of, |parser| {
            let (at, name) = parser.word("the name of a member")?;
            parser.require(':', "a member")?;
            parser.inside(format!(".{name}"), |parser| each(parser, at, &name))
        })
    }

    fn structure(&mut self, members: &[&StructureMember]) -> Parsed<Value> {
        let graph = self.graph;
        let mut parts: Vec<Value> = members
            .iter()
            .map(|member| match member.optional {
                true => Value::Absent,
                false => default_of_member(graph, member),
            })
            .collect();
        self.members("a struct", |parser, at, name| {
            let Some(index) = members.iter().position(|member| *member.name.text == *name) else {
                let names: Vec<&str> = members.iter().map(|member| &*member.name.text).collect();
                let names = names.join(", ");
                return Err((at, format!("there is no member `{name}`; the members are {names}")));
            };
            let member = members[index];
            parts[index] = match member.optional && parser.is_null() {
                true => Value::Absent,
                false => parser.value(member.of)?,
            };
            Ok(())
        })?;
        Ok(Value::Structure(parts))
    }

    /// Whether the next item is quoted.
    pub(super) fn is_quoted(&mut self) -> bool {
        self.space();
        self.rest().starts_with('"')
    }

    fn is_null(&mut self) -> bool {
        self.space();
        let is_null = self
            .rest()
            .strip_prefix("null")
            .is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_'));
        if is_null {
            self.at += "null".len();
        }
        is_null
    }

    fn union(&mut self, of: &Union) -> Parsed<Value> {
        let graph = self.graph;
        let (mut discriminator, mut member) = (None, None);
        self.space();
        let start = self.at;
        self.members("a union", |parser, at, name| {
            if *name == *of.discriminator.name.text {
                discriminator = Some(parser.value(of.discriminator.of)?);
                return Ok(());
            }
            let found = of.cases.iter().position(|case| {
                case.member.as_ref().is_some_and(|member| *member.name.text == *name)
            });
            match found.and_then(|case| Some((case, of.cases[case].member.as_ref()?))) {
                Some((case, found)) => {
                    member = Some((case, parser.value(found.of)?));
                    Ok(())
                }
                None => Err((at, format!("there is no case `{name}`"))),
            }
        })?;
        let selected = discriminator.as_ref().map(|value| layout::case_of(of, value.label()));
        let chosen = member.as_ref().map(|(case, _)| *case);
        let case = match (selected, chosen) {
            (Some(None), _) => return Err((start, "the discriminator selects no case".into())),
            (Some(Some(case)), Some(found)) if case != found => {
                return Err((start, "the discriminator selects another member".to_owned()));
            }
            (Some(Some(case)), _) | (None, Some(case)) => case,
            (None, None) => {
                return Err((
                    start,
                    "the union has neither a discriminator nor a member".to_owned(),
                ));
            }
        };
        let mut held = union_of_case(graph, of, case);
        if let Some(discriminator) = discriminator {
            held.discriminator = discriminator;
        }
        if held.discriminator == Value::Absent {
            return Err((start, "no discriminator selects this member".to_owned()));
        }
        if let Some((_, member)) = member {
            held.member = member;
        }
        Ok(Value::Union(Box::new(held)))
    }

    fn entry(&mut self, key: TypeNodeId, value: TypeNodeId) -> Parsed<(Value, Value)> {
        let (mut one, mut other) = (None, None);
        self.space();
        let start = self.at;
        self.members("an entry", |parser, at, name| match name {
            "key" => {
                one = Some(parser.value(key)?);
                Ok(())
            }
            "value" => {
                other = Some(parser.value(value)?);
                Ok(())
            }
            _ => Err((at, format!("an entry has `key` and `value`, found `{name}`"))),
        })?;
        one.zip(other).ok_or((start, "an entry has a `key` and a `value`".to_owned()))
    }

    fn scalar(&mut self, of: TypeNodeId) -> Parsed<Value> {
        let kind = self.graph.kind(of);
        let what = crate::words::kind_name(kind);
        let is_quoted = self.is_quoted();
        let (at, word) = self.word(what)?;
        let value = match kind {
            NodeKind::Text { .. } if is_quoted => Some(Value::Text(word.clone())),
            NodeKind::Enumeration { literals, .. } => literal_of(literals, &word),
            NodeKind::Bitmask { .. } => {
                whole(&word).and_then(|bits| u64::try_from(bits).ok()).map(Value::Bitmask)
            }
            NodeKind::Fixed { scale, .. } => fixed(&word, *scale),
            NodeKind::Primitive(primitive) => scalar_of(*primitive, &word, is_quoted),
            _ => None,
        };
        let found = if is_quoted { format!("{word:?}") } else { format!("`{word}`") };
        value.ok_or_else(|| match kind {
            NodeKind::Enumeration { literals, .. } => {
                let names: Vec<&str> = literals.iter().map(|literal| &*literal.name.text).collect();
                (at, format!("{found} is not one of {}", names.join(", ")))
            }
            _ => (at, format!("expected {what}, found {found}")),
        })
    }
}

fn literal_of(literals: &[Literal], word: &str) -> Option<Value> {
    let named = literals.iter().find(|one| *one.name.text == *word);
    let literal = named.or_else(|| {
        let number = word.parse::<i32>().ok()?;
        literals.iter().find(|one| one.value == number)
    })?;
    Some(Value::Enumerator { value: literal.value, name: literal.name.text.clone() })
}

fn scalar_of(primitive: Primitive, word: &str, is_quoted: bool) -> Option<Value> {
    match primitive {
        Primitive::Boolean => match word {
            "true" => Some(Value::Bool(true)),
            "false" => Some(Value::Bool(false)),
            _ => None,
        },
        Primitive::Float32 => floating(word).map(|value| Value::Float(value as f32)),
        Primitive::Float64 => floating(word).map(Value::Double),
        Primitive::Float128 => match word.strip_prefix("0x") {
            Some(bits) => {
                let bits = u128::from_str_radix(bits, 16).ok()?;
                Some(Value::LongDouble(LongDouble(bits.to_le_bytes())))
            }
            None => LongDouble::parse(word).map(Value::LongDouble),
        },
        Primitive::Char8 | Primitive::Char16 if is_quoted => {
            let mut characters = word.chars();
            let character = characters.next().filter(|_| characters.next().is_none())?;
            match primitive {
                Primitive::Char8 => Some(Value::Char(character)),
                _ => character.try_into().ok().map(Value::WideChar),
            }
        }
        Primitive::Char16 => word.parse().ok().map(|unit| Value::WideChar(idl_cdr::WChar(unit))),
        Primitive::Char8 => None,
        _ => layout::integer(primitive, whole(word)?),
    }
}

fn whole(word: &str) -> Option<i128> {
    match word.strip_prefix("0x") {
        Some(digits) => i128::from_str_radix(digits, 16).ok(),
        None => word.parse().ok(),
    }
}

fn floating(word: &str) -> Option<f64> {
    match word {
        "NaN" => Some(f64::NAN),
        "Infinity" => Some(f64::INFINITY),
        "-Infinity" => Some(f64::NEG_INFINITY),
        // Words that Rust accepts as numbers are refused.
        word if word.contains(|c: char| c.is_alphabetic() && !matches!(c, 'e' | 'E')) => None,
        word => word.parse().ok(),
    }
}

fn fixed(word: &str, scale: u32) -> Option<Value> {
    let (negative, digits) = match word.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, word),
    };
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let is_number = |text: &str| text.chars().all(|c| c.is_ascii_digit());
    if whole.is_empty() || !is_number(whole) || !is_number(part) || part.len() > scale as usize {
        return None;
    }
    let zeroes = "0".repeat(scale as usize - part.len());
    let units: i128 = format!("{whole}{part}{zeroes}").parse().ok()?;
    Some(Value::Fixed { units: if negative { -units } else { units }, scale })
}

/// Reads the character of four hexadecimal digits, or of two groups of four, and returns the number
/// of characters read.
fn unicode(digits: &str) -> Option<(char, usize)> {
    let unit = |text: &str| u16::from_str_radix(text.get(..4)?, 16).ok();
    let first = unit(digits)?;
    if let Some(character) = char::from_u32(first.into()) {
        return Some((character, 4));
    }
    let second = unit(digits.get(4..)?.strip_prefix("\\u")?)?;
    let character = char::decode_utf16([first, second]).next()?.ok()?;
    Some((character, 10))
}
