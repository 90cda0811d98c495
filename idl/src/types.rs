//! Tokens to types.
//!
//! Owns the spellings of types, bounds and array lengths.

use crate::lexer::{TokenKind, is_keyword};
use crate::model::{Primitive, Type};
use crate::parser::{MAX_NESTING, Parsed, Parser};
use crate::source::Span;

/// The largest bound or array length: the largest CDR length says "no bound".
const MAX_LENGTH: u32 = u32::MAX - 1;

impl Parser<'_> {
    /// Reads a type; `what` says in messages what it is a part of.
    pub(crate) fn type_spec(&mut self, what: &str) -> Parsed<Type> {
        self.nested_type(what, 1)
    }

    fn nested_type(&mut self, what: &str, depth: usize) -> Parsed<Type> {
        let span = self.peek().span.clone();
        if depth > MAX_NESTING {
            return Err(self.report(&span, too_deep()));
        }
        let word = self.keyword_here();
        if let Some(primitive) = single_word(&word) {
            self.advance();
            return Ok(Type::Primitive(primitive));
        }
        let ty = match word.as_str() {
            "long" => self.long()?,
            "unsigned" => self.unsigned()?,
            "string" => {
                self.advance();
                let bound = if self.at("<") { Some(self.string_bound()?) } else { None };
                Type::String(bound)
            }
            "sequence" => self.sequence(depth)?,
            word if is_keyword(word) => {
                let types = "boolean, octet, an integer, float, double, string, sequence or a name";
                return Err(self.expected(&format!("{what} ({types})")));
            }
            _ => self.type_name(what)?,
        };
        self.check_depth(&ty, &span)?;
        Ok(ty)
    }

    fn long(&mut self) -> Parsed<Type> {
        self.advance();
        if self.keyword_here() == "double" {
            return Err(self.expected("`long long` or the end of the type"));
        }
        if self.keyword_here() == "long" {
            self.advance();
            return Ok(Type::Primitive(Primitive::Int64));
        }
        Ok(Type::Primitive(Primitive::Int32))
    }

    fn unsigned(&mut self) -> Parsed<Type> {
        self.advance();
        let primitive = match self.keyword_here().as_str() {
            "short" => Primitive::Uint16,
            "long" => {
                self.advance();
                if self.keyword_here() != "long" {
                    return Ok(Type::Primitive(Primitive::Uint32));
                }
                Primitive::Uint64
            }
            _ => return Err(self.expected("`short` or `long` after `unsigned`")),
        };
        self.advance();
        Ok(Type::Primitive(primitive))
    }

    fn string_bound(&mut self) -> Parsed<u32> {
        self.advance();
        let bound = self.length("a bound")?;
        self.expect(">")?;
        Ok(bound)
    }

    fn sequence(&mut self, depth: usize) -> Parsed<Type> {
        self.advance();
        self.expect("<")?;
        let element = self.nested_type("the type of the elements", depth + 1)?;
        let bound = if self.take(",") { Some(self.length("a bound")?) } else { None };
        self.expect(if bound.is_some() { ">" } else { "`,` or `>`" })?;
        Ok(Type::Sequence(Box::new(element), bound))
    }

    /// Reads the name of a type, `::A::B` or `A::B`, and finds the type.
    fn type_name(&mut self, what: &str) -> Parsed<Type> {
        let start = self.peek().span.start;
        let absolute = self.take("::");
        let first = self.name(what)?;
        let (mut path, mut end) = (vec![first.text], first.span.end);
        while self.take("::") {
            let name = self.name("a name")?;
            path.push(name.text);
            end = name.span.end;
        }
        let found = self.scopes.find_type(absolute, &path);
        found.map_err(|message| self.report(&(start..end), message))
    }

    /// Reads the lengths behind a declared name, if there are any: `[2][3]`.
    pub(crate) fn array_of(&mut self, element: Type) -> Parsed<Type> {
        let span = self.peek().span.clone();
        let mut lengths = Vec::new();
        while self.take("[") {
            lengths.push(self.length("the length of an array")?);
            self.expect("]")?;
            if lengths.len() > MAX_NESTING {
                return Err(self.report(&span, too_deep()));
            }
        }
        // The last length is the innermost one.
        let ty = lengths
            .into_iter()
            .rev()
            .fold(element, |element, length| Type::Array(Box::new(element), length));
        self.check_depth(&ty, &span)?;
        Ok(ty)
    }

    fn length(&mut self, what: &str) -> Parsed<u32> {
        match self.peek().kind {
            TokenKind::Integer(Some(number @ 1..)) if number <= u64::from(MAX_LENGTH) => {
                self.advance();
                Ok(number as u32)
            }
            _ => Err(self.expected(&format!("{what} (a number from 1 to {MAX_LENGTH})"))),
        }
    }

    /// Typedefs can build up a depth that no single place of the text has.
    pub(crate) fn check_depth(&mut self, ty: &Type, span: &Span) -> Parsed<()> {
        if ty.depth() > MAX_NESTING {
            return Err(self.report(span, too_deep()));
        }
        Ok(())
    }
}

fn too_deep() -> String {
    format!("types are nested more than {MAX_NESTING} deep; put a struct in between")
}

fn single_word(word: &str) -> Option<Primitive> {
    Some(match word {
        "boolean" => Primitive::Boolean,
        "octet" => Primitive::Octet,
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
