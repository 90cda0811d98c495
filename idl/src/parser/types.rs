//! Parsing of types in declarations.
//!
//! Owns the spellings of types, bounds and array lengths.

use crate::diagnostic::Checked;
use crate::keyword::is_reserved;
use crate::model::Primitive;
use crate::syntax::{Annotation, Declarator, Expression, TypeKind, TypeSpec};

use super::{MAX_NESTING, Parser};

/// Words that begin a type, for suggestions.
pub(crate) const TYPES: [&str; 25] = [
    "boolean", "octet", "char", "wchar", "int8", "uint8", "int16", "uint16", "int32", "uint32",
    "int64", "uint64", "short", "long", "unsigned", "float", "double", "fixed", "string",
    "wstring", "sequence", "map", "any", "struct", "union",
];

/// Maximum nesting depth of definitions in the places of types.
const MAX_INLINE: usize = 16;

impl Parser<'_> {
    /// Reads a type. `what` names the enclosing construct in messages.
    pub(super) fn type_spec(&mut self, what: &str) -> Checked<TypeSpec> {
        self.nested_type(what, 1)
    }

    fn nested_type(&mut self, what: &str, depth: usize) -> Checked<TypeSpec> {
        let annotations = self.annotations()?;
        let start = self.peek().span;
        if depth > MAX_NESTING {
            return Err(self.reports.error(start, too_deep()));
        }
        let word = self.word().to_owned();
        let kind = match word.as_str() {
            "long" => TypeKind::Primitive(self.long()),
            "unsigned" => TypeKind::Primitive(self.unsigned()?),
            "string" | "wstring" => {
                self.advance();
                let bound = if self.at("<") { Some(self.string_bound()?) } else { None };
                TypeKind::String { wide: word == "wstring", bound }
            }
            "sequence" => self.sequence(depth)?,
            "map" if self.peek_second().is("<") => self.map(depth)?,
            "fixed" => self.fixed()?,
            "any" => {
                self.advance();
                TypeKind::Any
            }
            "struct" | "union" | "enum" | "bitmask" | "bitset" if self.defines_type() => {
                return self.inline(annotations, depth);
            }
            "struct" | "union" | "enum" | "bitmask" | "bitset" => {
                let text = format!(
                    "a type cannot be defined inside another one; define the {word} in front of \
                     it and use its name"
                );
                return Err(self.reports.error(start, text));
            }
            word => match single_word(word) {
                Some(primitive) => {
                    self.advance();
                    TypeKind::Primitive(primitive)
                }
                None => self.type_name(what)?,
            },
        };
        Ok(TypeSpec { kind, annotations, span: start.to(self.previous()) })
    }

    /// Whether a definition begins here, as in `struct Point { ... } at;`, and not only its name.
    fn defines_type(&self) -> bool {
        let third = &self.tokens[(self.next + 2).min(self.tokens.len() - 1)];
        self.peek_second().word().is_some()
            && (third.is("{") || third.is(":") || third.word() == Some("switch"))
    }

    /// Reads a definition in the place of a type. The type belongs to the module around.
    fn inline(&mut self, annotations: Vec<Annotation>, depth: usize) -> Checked<TypeSpec> {
        if self.inline_depth + depth > MAX_INLINE {
            let span = self.peek().span;
            return Err(self.reports.error(span, too_deep()));
        }
        self.inline_depth += 1;
        let mut defined = Vec::new();
        let made = self.defined_here(&mut defined);
        self.inline_depth -= 1;
        self.inline.append(&mut defined);
        match made? {
            Some(spec) => Ok(TypeSpec { annotations, ..spec }),
            None => Err(self.expected("a type")),
        }
    }

    fn type_name(&mut self, what: &str) -> Checked<TypeKind> {
        let is_name = self.at("::") || self.peek().word().is_some_and(|word| !is_reserved(word));
        let is_escaped =
            matches!(self.peek().kind, crate::lexer::TokenKind::Word { escaped: true, .. });
        if !is_name && !is_escaped {
            let text = format!("{what}, which begins with a type");
            return Err(self.expected_one_of(&text, &TYPES));
        }
        self.path(what).map(TypeKind::Named)
    }

    fn long(&mut self) -> Primitive {
        self.advance();
        if self.take_word("double") {
            return Primitive::LongDouble;
        }
        if self.take_word("long") {
            return Primitive::Int64;
        }
        Primitive::Int32
    }

    fn unsigned(&mut self) -> Checked<Primitive> {
        self.advance();
        if self.take_word("short") {
            return Ok(Primitive::Uint16);
        }
        if !self.take_word("long") {
            return Err(self.expected("`short` or `long` after `unsigned`"));
        }
        Ok(if self.take_word("long") { Primitive::Uint64 } else { Primitive::Uint32 })
    }

    fn string_bound(&mut self) -> Checked<Expression> {
        self.advance();
        let bound = self.expression_in_angles()?;
        self.expect(">")?;
        Ok(bound)
    }

    fn sequence(&mut self, depth: usize) -> Checked<TypeKind> {
        self.advance();
        self.expect("<")?;
        let element = self.nested_type("the type of the elements", depth + 1)?;
        let bound = if self.take(",") { Some(self.expression_in_angles()?) } else { None };
        self.expect(if bound.is_some() { ">" } else { "`,` or `>`" })?;
        Ok(TypeKind::Sequence(Box::new(element), bound))
    }

    fn map(&mut self, depth: usize) -> Checked<TypeKind> {
        self.advance();
        self.expect("<")?;
        let key = self.nested_type("the type of the keys", depth + 1)?;
        self.expect(",")?;
        let value = self.nested_type("the type of the values", depth + 1)?;
        let bound = if self.take(",") { Some(self.expression_in_angles()?) } else { None };
        self.expect(if bound.is_some() { ">" } else { "`,` or `>`" })?;
        Ok(TypeKind::Map(Box::new(key), Box::new(value), bound))
    }

    fn fixed(&mut self) -> Checked<TypeKind> {
        self.advance();
        if !self.take("<") {
            return Ok(TypeKind::Fixed(None));
        }
        let digits = self.expression_in_angles()?;
        self.expect(",")?;
        let scale = self.expression_in_angles()?;
        self.expect(">")?;
        Ok(TypeKind::Fixed(Some(Box::new((digits, scale)))))
    }

    /// Reads a declared name with its lengths, if it has any: `grid[2][3]`.
    pub(super) fn declarator(&mut self, what: &str) -> Checked<Declarator> {
        let name = self.name(what)?;
        let mut lengths = Vec::new();
        while self.take("[") {
            if self.at("]") {
                return Err(self.expected("the length of the array"));
            }
            lengths.push(self.expression()?);
            self.expect("]")?;
            if lengths.len() > MAX_NESTING {
                return Err(self.reports.error(name.span, too_deep()));
            }
        }
        Ok(Declarator { name, lengths })
    }
}

pub(crate) fn too_deep() -> String {
    format!("types are nested more than {MAX_NESTING} deep; put a struct in between")
}

fn single_word(word: &str) -> Option<Primitive> {
    Some(match word {
        "boolean" => Primitive::Boolean,
        "octet" => Primitive::Octet,
        "char" => Primitive::Char,
        "wchar" => Primitive::WChar,
        "int8" => Primitive::Int8,
        "uint8" => Primitive::Uint8,
        "short" | "int16" => Primitive::Int16,
        "uint16" => Primitive::Uint16,
        "int32" => Primitive::Int32,
        "uint32" => Primitive::Uint32,
        "int64" => Primitive::Int64,
        "uint64" => Primitive::Uint64,
        "float" => Primitive::Float,
        "double" => Primitive::Double,
        _ => return None,
    })
}
