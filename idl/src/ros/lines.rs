//! Lines of interface files.
//!
//! Owns the grammar of a line: `TYPE NAME`, `TYPE NAME DEFAULT`, `TYPE NAME=VALUE`, `---`, and
//! comments from `#` on.

use crate::diagnostic::Reports;
use crate::source::{FileId, Span};

pub(super) enum InterfaceLine {
    Empty,
    Comment(String),
    /// `---` between the parts of a service or an action.
    Separator(Span),
    Entry(Entry),
}

/// A field or a constant.
pub(super) struct Entry {
    pub(super) ty: ReadType,
    pub(super) name: (String, Span),
    pub(super) is_constant: bool,
    /// Default of a field, or value of a constant.
    pub(super) value: Option<(String, Span)>,
    /// Comment behind the entry.
    pub(super) comment: Option<String>,
    /// Number of the line, counted from 0.
    pub(super) line: u32,
}

/// Type of a field or constant.
pub(super) struct ReadType {
    pub(super) base: TypeBase,
    pub(super) collection: Collection,
    /// Length of an array, or bound of a sequence.
    pub(super) bound: Option<String>,
    pub(super) span: Span,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Collection {
    No,
    Array,
    Sequence,
}

pub(super) enum TypeBase {
    /// A primitive type, by its name in IDL.
    Primitive(&'static str),
    String {
        wide: bool,
        bound: Option<String>,
    },
    Message {
        package: Option<String>,
        name: String,
    },
}

impl ReadType {
    pub(super) fn is_sequence(&self) -> bool {
        self.collection == Collection::Sequence
    }

    pub(super) fn array_length(&self) -> Option<&str> {
        self.bound.as_deref().filter(|_| self.collection == Collection::Array)
    }
}

/// Primitive types and their names in IDL. `char` has eight bits without a meaning as text.
const PRIMITIVES: [(&str, &str); 13] = [
    ("bool", "boolean"),
    ("byte", "octet"),
    ("char", "uint8"),
    ("float32", "float"),
    ("float64", "double"),
    ("int8", "int8"),
    ("uint8", "uint8"),
    ("int16", "int16"),
    ("uint16", "uint16"),
    ("int32", "int32"),
    ("uint32", "uint32"),
    ("int64", "int64"),
    ("uint64", "uint64"),
];

/// Whether a text can be a name of a package, a message or a field.
pub(super) fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Reads all lines of a file.
pub(super) fn read(file: FileId, text: &str, reports: &mut Reports) -> Vec<InterfaceLine> {
    let mut lines = Vec::new();
    let mut start = if text.starts_with('\u{feff}') { 3 } else { 0 };
    for (number, whole) in text[start..].split_inclusive('\n').enumerate() {
        if reports.is_full() {
            break;
        }
        let reader = LineReader { file, start, whole, number: number as u32 };
        match reader.line() {
            Ok(line) => lines.push(line),
            Err((span, message)) => {
                reports.error(span, message);
            }
        }
        start += whole.len();
    }
    lines
}

struct LineReader<'a> {
    file: FileId,
    /// Position of the line in the file.
    start: usize,
    whole: &'a str,
    number: u32,
}

type LineError = (Span, String);

impl LineReader<'_> {
    fn span(&self, part: &str) -> Span {
        // The parts are slices of the line.
        let offset = part.as_ptr() as usize - self.whole.as_ptr() as usize;
        let start = (self.start + offset) as u32;
        Span { file: self.file, start, end: start + part.len() as u32 }
    }

    fn line(&self) -> Result<InterfaceLine, LineError> {
        let (code, comment) = split_comment(self.whole);
        let code = code.trim();
        let comment = comment.map(|text| text.trim_start_matches('#').trim().to_owned());
        if code.is_empty() {
            return Ok(comment.map_or(InterfaceLine::Empty, InterfaceLine::Comment));
        }
        if code == "---" {
            return Ok(InterfaceLine::Separator(self.span(code)));
        }
        let end = code.find(char::is_whitespace).unwrap_or(code.len());
        let (ty, rest) = (&code[..end], code[end..].trim_start());
        let ty = self.read_type(ty)?;
        let end = rest.find(|c: char| c.is_whitespace() || c == '=').unwrap_or(rest.len());
        let (name, rest) = (&rest[..end], rest[end..].trim_start());
        if !is_name(name) {
            let found = if name.is_empty() { &code[code.len()..] } else { name };
            let text = "expected the name of a field or constant behind its type";
            return Err((self.span(found), text.to_owned()));
        }
        let constant = rest.strip_prefix('=').map(str::trim_start);
        let is_constant = constant.is_some();
        let value = constant.unwrap_or(rest);
        if is_constant && value.is_empty() {
            return Err((self.span(rest), "expected a value behind `=`".to_owned()));
        }
        let is_simple =
            ty.collection == Collection::No && !matches!(ty.base, TypeBase::Message { .. });
        if is_constant && !is_simple {
            return Err((ty.span, "a constant is of a basic type or a string".to_owned()));
        }
        let value =
            if value.is_empty() { None } else { Some((value.to_owned(), self.span(value))) };
        let name = (name.to_owned(), self.span(name));
        Ok(InterfaceLine::Entry(Entry { ty, name, is_constant, value, comment, line: self.number }))
    }

    fn read_type(&self, text: &str) -> Result<ReadType, LineError> {
        let span = self.span(text);
        let mut collection = Collection::No;
        let (mut base, mut bound) = (text, None);
        if let Some(inside) = text.strip_suffix(']') {
            let Some((before, length)) = inside.rsplit_once('[') else {
                return Err((span, "this `]` has no `[`".to_owned()));
            };
            base = before;
            let is_bound = length.strip_prefix("<=");
            let is_fixed = is_bound.is_none() && !length.is_empty();
            collection = if is_fixed { Collection::Array } else { Collection::Sequence };
            if !length.is_empty() {
                bound = Some(self.count(is_bound.unwrap_or(length), "of the list")?);
            }
        }
        let (base, string_bound) = match base.split_once("<=") {
            Some((base, count)) => (base, Some(self.count(count, "of the string")?)),
            None => (base, None),
        };
        let base = match base {
            "string" | "wstring" => {
                TypeBase::String { wide: base == "wstring", bound: string_bound }
            }
            _ if string_bound.is_some() => {
                return Err((span, "only a string or a list has a bound `<=`".to_owned()));
            }
            _ => match PRIMITIVES.iter().find(|(ros, _)| *ros == base) {
                Some((_, idl)) => TypeBase::Primitive(idl),
                None => self.message(base)?,
            },
        };
        Ok(ReadType { base, collection, bound, span })
    }

    fn count(&self, text: &str, of: &str) -> Result<String, LineError> {
        match text.parse::<u32>() {
            Ok(count) if count > 0 => Ok(count.to_string()),
            _ => Err((self.span(text), format!("expected the length {of}, from 1 on"))),
        }
    }

    /// Reads `NAME`, `PACKAGE/NAME` or `PACKAGE/msg/NAME`.
    fn message(&self, text: &str) -> Result<TypeBase, LineError> {
        let parts: Vec<&str> = text.split('/').collect();
        let (package, name) = match parts[..] {
            [name] => (None, name),
            [package, name] | [package, "msg", name] => (Some(package), name),
            _ => (None, ""),
        };
        if !is_name(name) || package.is_some_and(|package| !is_name(package)) {
            let text = format!("expected a type such as int32 or std_msgs/Header, found `{text}`");
            return Err((self.span(parts[0]), text));
        }
        let guess = match (package, name) {
            (None, "bool8" | "boolean") => Some("bool"),
            (None, "float") => Some("float32"),
            (None, "double") => Some("float64"),
            (None, "int" | "long") => Some("int32"),
            (None, "octet") => Some("byte"),
            _ => None,
        };
        if let Some(guess) = guess {
            let text = format!("there is no type `{name}` in ROS 2; did you mean `{guess}`?");
            return Err((self.span(parts[0]), text));
        }
        Ok(TypeBase::Message { package: package.map(str::to_owned), name: name.to_owned() })
    }
}

/// Splits a line before the `#` that is in no quotes.
fn split_comment(line: &str) -> (&str, Option<&str>) {
    let (mut quote, mut escaped) = (None, false);
    let mut previous = ' ';
    for (at, c) in line.char_indices() {
        match quote {
            None if c == '#' => return (&line[..at], Some(&line[at..])),
            // An apostrophe within a word begins no text.
            None if matches!(c, '"' | '\'') && !previous.is_alphanumeric() => quote = Some(c),
            Some(open) if c == open && !escaped => quote = None,
            _ => {}
        }
        escaped = c == '\\' && !escaped;
        previous = c;
    }
    // An unclosed quote is a plain character.
    match (quote, line.find('#')) {
        (Some(_), Some(at)) => (&line[..at], Some(&line[at..])),
        _ => (line, None),
    }
}
