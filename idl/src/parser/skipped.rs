//! Parsing of constructs that a DDS file does not need: interfaces' operations, valuetypes,
//! components and similar.
//!
//! Owns the extent to which they are read: names are kept, so that a use of them can be explained;
//! the types and constants inside an interface count; brackets must match; the rest is skipped.

use crate::diagnostic::Checked;
use crate::lexer::TokenKind;
use crate::syntax::{Definition, DefinitionKind, ForwardKind, Scope};

use super::Parser;

impl Parser<'_> {
    /// Reads one of these definitions, if one begins here.
    pub(super) fn without_use(&mut self) -> Checked<Option<DefinitionKind>> {
        let span = self.peek().span;
        // Skips words before the one that says the kind of definition.
        let mut ahead = self.next;
        while matches!(
            self.tokens[ahead].word(),
            Some("abstract" | "local" | "custom" | "multiple" | "truncatable")
        ) && ahead - self.next < 3
        {
            ahead += 1;
        }
        let what = match self.tokens[ahead].word() {
            Some("interface") => {
                while self.next < ahead {
                    self.advance();
                }
                return self.interface().map(Some);
            }
            Some("valuetype") => "valuetype",
            Some("eventtype") => "eventtype",
            Some("component") => "component",
            Some("connector") => "connector",
            Some("home") => "home",
            Some("porttype") => "porttype",
            Some("native") => "native type",
            Some("import") => "import",
            Some("typeid") => "typeid",
            Some("typeprefix") => "typeprefix",
            Some("alias") => "alias",
            _ => return Ok(None),
        };
        // A word that is not a keyword begins such a definition only if a name follows.
        let next = &self.tokens[(ahead + 1).min(self.tokens.len() - 1)];
        if !matches!(
            next.kind,
            TokenKind::Word { .. } | TokenKind::Mark("::") | TokenKind::String { .. }
        ) {
            return Ok(None);
        }
        while self.next <= ahead {
            self.advance();
        }
        let has_name = !matches!(what, "import" | "typeid" | "typeprefix" | "alias");
        let name = if has_name { Some(self.name("a name")?) } else { None };
        self.skip_to_semicolon()?;
        let span = span.to(self.previous());
        let span = name.as_ref().map_or(span, |name| span.to(name.span));
        Ok(Some(DefinitionKind::Skipped { what, name, span }))
    }

    fn interface(&mut self) -> Checked<DefinitionKind> {
        self.advance();
        let name = self.name("the name of an interface")?;
        if self.at(";") {
            return Ok(DefinitionKind::Forward { kind: ForwardKind::Interface, name });
        }
        let bases = if self.take(":") { self.paths("a base interface")? } else { Vec::new() };
        let opened = self.expect(if bases.is_empty() { "`:`, `;` or `{`" } else { "{" })?;
        let mut definitions = Vec::new();
        let mut skipped = 0;
        while !self.at("}") && !self.at_end() && !self.reports.is_full() {
            let (start, braces) = (self.next, self.braces);
            if self.export(&mut definitions, &mut skipped).is_err() {
                self.recover(start, braces);
            }
        }
        self.close(opened)?;
        Ok(DefinitionKind::Interface { scope: Scope { name, definitions }, bases, skipped })
    }

    /// Reads a definition inside an interface, or skips an operation or attribute.
    fn export(&mut self, into: &mut Vec<Definition>, skipped: &mut usize) -> Checked<()> {
        let mut ahead = self.next;
        // Skips annotations before the construct: `@name(...)`.
        while self.tokens[ahead].is("@") {
            ahead += 2;
            if self.tokens.get(ahead).is_some_and(|token| token.is("(")) {
                while ahead + 1 < self.tokens.len() && !self.tokens[ahead].is(")") {
                    ahead += 1;
                }
                ahead += 1;
            }
            ahead = ahead.min(self.tokens.len() - 1);
        }
        let defines = matches!(
            self.tokens[ahead].word(),
            Some(
                "const"
                    | "typedef"
                    | "struct"
                    | "union"
                    | "enum"
                    | "bitmask"
                    | "bitset"
                    | "exception"
                    | "native"
            )
        );
        if defines {
            let mut one = Vec::new();
            let read = self.definition(&mut one);
            into.append(&mut one);
            return read;
        }
        self.annotations()?;
        if self.at(";")
            || !matches!(self.peek().kind, TokenKind::Word { .. } | TokenKind::Mark("::"))
        {
            return Err(self.expected("an operation, an attribute or a definition"));
        }
        self.skip_to_semicolon()?;
        *skipped += 1;
        self.expect(";").map(drop)
    }
}
