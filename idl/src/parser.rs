//! Tokens to a specification.
//!
//! Owns the grammar of definitions, and how reading goes on after an error: at the next definition
//! or member. Types are read in the module beside this one.

use crate::lexer::{Token, TokenKind, is_keyword, tokens};
use crate::model::{
    Definition, Enum, Member, Module, NamedKind, Specification, Struct, Type, Typedef,
};
use crate::scope::{Meaning, MemberNames, Scopes};
use crate::source::{Diagnostic, Diagnostics, Source, Span};

/// How many modules or types may be inside each other.
pub const MAX_NESTING: usize = 64;

/// After so many errors, reading stops.
pub const MAX_DIAGNOSTICS: usize = 50;

/// Reads the text of an IDL file; `file` is its name in messages.
pub fn parse(file: &str, text: &str) -> Result<Specification, Diagnostics> {
    let source = Source { file, text };
    let (tokens, diagnostics) = tokens(source);
    let mut parser =
        Parser { source, tokens, diagnostics, next: 0, braces: 0, scopes: Scopes::default() };
    let definitions = parser.specification();
    let mut diagnostics = parser.diagnostics;
    if diagnostics.is_empty() {
        return Ok(Specification { definitions });
    }
    diagnostics.sort_by_key(|diagnostic| (diagnostic.line, diagnostic.column));
    diagnostics.truncate(MAX_DIAGNOSTICS);
    Err(Diagnostics(diagnostics))
}

/// Marks that an error has been reported; the caller leaves off and reading goes on further out.
pub(crate) struct Reported;

pub(crate) type Parsed<T> = Result<T, Reported>;

pub(crate) struct Parser<'a> {
    source: Source<'a>,
    tokens: Vec<Token>,
    diagnostics: Vec<Diagnostic>,
    next: usize,
    /// How many braces are open before the next token.
    braces: usize,
    pub(crate) scopes: Scopes,
}

/// The annotations in front of a definition or member.
#[derive(Default)]
struct Annotations {
    key: Option<Span>,
    is_final: Option<Span>,
}

/// A name in a declaration, and where it stands.
pub(crate) struct Name {
    pub(crate) text: String,
    pub(crate) span: Span,
}

impl Parser<'_> {
    fn specification(&mut self) -> Vec<Definition> {
        let mut definitions = Vec::new();
        self.definitions(&mut definitions);
        while self.peek().kind != TokenKind::End && !self.is_full() {
            // Only a closing brace too many ends the definitions before the end.
            self.expected("a definition");
            self.advance();
            self.definitions(&mut definitions);
        }
        definitions
    }

    /// Reads definitions up to a closing brace or the end.
    fn definitions(&mut self, into: &mut Vec<Definition>) {
        while !self.is_full() && !self.at("}") && self.peek().kind != TokenKind::End {
            let (start, braces) = (self.next, self.braces);
            if self.definition(into).is_err() {
                self.recover(start, braces);
            }
        }
    }

    fn definition(&mut self, into: &mut Vec<Definition>) -> Parsed<()> {
        let annotations = self.annotations()?;
        if let Some(span) = annotations.key {
            return Err(self.report(
                &span,
                "`@key` belongs in front of a member of a struct; move it there".to_owned(),
            ));
        }
        let word = self.keyword_here();
        if let Some(span) = &annotations.is_final
            && word != "struct"
        {
            return Err(
                self.report(span, "`@final` belongs in front of a struct; remove it".to_owned())
            );
        }
        match word.as_str() {
            "module" => self.module(into)?,
            "struct" => into.push(Definition::Struct(self.structure()?)),
            "enum" => into.push(Definition::Enum(self.enumeration()?)),
            "typedef" => self.typedef(into)?,
            _ => return Err(self.expected("`module`, `struct`, `enum` or `typedef`")),
        }
        self.expect(";").map(|_| ())
    }

    fn module(&mut self, into: &mut Vec<Definition>) -> Parsed<()> {
        self.advance();
        let name = self.name("the name of a module")?;
        if self.scopes.open.len() >= MAX_NESTING {
            return Err(self.report(
                &name.span,
                format!("modules are nested more than {MAX_NESTING} deep; flatten them"),
            ));
        }
        let scoped = self.scopes.full_name(&name.text);
        self.declare(&name, Meaning::Module)?;
        let opened = self.expect("{")?;
        if self.at("}") {
            return Err(self.expected("a definition"));
        }
        self.scopes.open.push(name.text);
        let reopened = into.iter().position(
            |definition| matches!(definition, Definition::Module(module) if module.name == scoped),
        );
        match reopened.and_then(|index| into.get_mut(index)) {
            Some(Definition::Module(module)) => self.definitions(&mut module.definitions),
            _ => {
                let mut definitions = Vec::new();
                self.definitions(&mut definitions);
                into.push(Definition::Module(Module { name: scoped, definitions }));
            }
        }
        self.scopes.open.pop();
        self.close(&opened)
    }

    fn structure(&mut self) -> Parsed<Struct> {
        self.advance();
        let name = self.name("the name of a struct")?;
        self.declare(&name, Meaning::Unfinished)?;
        let scoped = self.scopes.full_name(&name.text);
        let opened = self.expect("{")?;
        let (mut members, mut names) = (Vec::new(), MemberNames::of_struct());
        loop {
            let (start, braces) = (self.next, self.braces);
            if self.members(&mut members, &mut names).is_err() {
                self.recover(start, braces);
            }
            if self.at("}") || self.peek().kind == TokenKind::End || self.is_full() {
                break;
            }
        }
        // Even with errors inside, so that uses of the struct do not become errors too.
        let ty = self.scopes.named(&name.text, NamedKind::Struct);
        self.scopes.complete(&name.text, ty);
        self.close(&opened)?;
        Ok(Struct { name: scoped, members })
    }

    fn members(&mut self, into: &mut Vec<Member>, names: &mut MemberNames) -> Parsed<()> {
        let annotations = self.annotations()?;
        if let Some(span) = annotations.is_final {
            return Err(self
                .report(&span, "`@final` belongs in front of a struct; move it there".to_owned()));
        }
        let ty = self.type_spec("a member")?;
        loop {
            let name = self.name("the name of a member")?;
            let declared = names.declare(&name.text);
            declared.map_err(|message| self.report(&name.span, message))?;
            let ty = self.array_of(ty.clone())?;
            into.push(Member { name: name.text, ty, key: annotations.key.is_some() });
            if !self.take(",") {
                break;
            }
        }
        self.expect("`,`, `[` or `;`").map(|_| ())
    }

    fn enumeration(&mut self) -> Parsed<Enum> {
        self.advance();
        let name = self.name("the name of an enum")?;
        self.declare(&name, Meaning::Type(self.scopes.named(&name.text, NamedKind::Enum)))?;
        let scoped = self.scopes.full_name(&name.text);
        let opened = self.expect("{")?;
        let (mut enumerators, mut names) = (Vec::new(), MemberNames::of_enum());
        loop {
            let enumerator = self.name("the name of an enumerator")?;
            let declared = names.declare(&enumerator.text);
            declared.map_err(|message| self.report(&enumerator.span, message))?;
            self.declare(&enumerator, Meaning::Enumerator)?;
            enumerators.push(enumerator.text);
            // A comma behind the last one is common, though the standard has none.
            if !self.take(",") || self.at("}") {
                break;
            }
        }
        if !self.at("}") && self.peek().kind != TokenKind::End {
            return Err(self.expected("`,` or `}`"));
        }
        self.close(&opened)?;
        Ok(Enum { name: scoped, enumerators })
    }

    fn typedef(&mut self, into: &mut Vec<Definition>) -> Parsed<()> {
        self.advance();
        let ty = self.type_spec("a type")?;
        loop {
            let name = self.name("the new name of the type")?;
            let ty = self.array_of(ty.clone())?;
            let scoped = self.scopes.full_name(&name.text);
            let alias = Type::Alias(scoped.clone(), Box::new(ty.clone()));
            self.check_depth(&alias, &name.span)?;
            self.declare(&name, Meaning::Type(alias))?;
            into.push(Definition::Typedef(Typedef { name: scoped, ty }));
            if !self.take(",") {
                return Ok(());
            }
        }
    }

    fn annotations(&mut self) -> Parsed<Annotations> {
        let mut annotations = Annotations::default();
        while let TokenKind::Annotation(name) = &self.peek().kind {
            let (name, span) = (name.clone(), self.peek().span.clone());
            match name.as_str() {
                "key" => annotations.key = Some(span),
                "final" => annotations.is_final = Some(span),
                _ => return Err(self.expected("`@key`, `@final` or no annotation")),
            }
            self.advance();
            if self.at("(") {
                return Err(self.expected("no parameters"));
            }
        }
        Ok(annotations)
    }

    /// Reads a name that is being declared.
    pub(crate) fn name(&mut self, what: &str) -> Parsed<Name> {
        let Token { kind, span } = self.peek().clone();
        let TokenKind::Word { text, escaped } = kind else { return Err(self.expected(what)) };
        if !escaped && is_keyword(&text) {
            return Err(self.report(
                &span,
                format!("expected {what}, found the keyword `{text}`; write `_{text}` to use it as a name"),
            ));
        }
        self.advance();
        Ok(Name { text, span })
    }

    fn declare(&mut self, name: &Name, meaning: Meaning) -> Parsed<()> {
        let declared = self.scopes.declare(&name.text, meaning);
        declared.map_err(|message| self.report(&name.span, message))
    }

    fn close(&mut self, opened: &Span) -> Parsed<()> {
        if self.take("}") {
            return Ok(());
        }
        if self.is_full() {
            return Err(Reported);
        }
        let message = "this brace is never closed, expected `}`".to_owned();
        Err(self.report(opened, message))
    }

    /// Skips to behind the next `;`, or to the brace that closes what is around. At least one token
    /// is used up, so that reading always goes on.
    fn recover(&mut self, start: usize, braces: usize) {
        loop {
            match &self.peek().kind {
                TokenKind::End => return,
                TokenKind::Punctuation("}") if self.braces <= braces => return,
                TokenKind::Punctuation(";") if self.braces <= braces && self.next > start => {
                    self.advance();
                    return;
                }
                _ => self.advance(),
            }
        }
    }

    pub(crate) fn peek(&self) -> &Token {
        // The last token is `End`, which `advance` never passes.
        &self.tokens[self.next]
    }

    pub(crate) fn advance(&mut self) {
        match self.peek().kind {
            TokenKind::Punctuation("{") => self.braces += 1,
            TokenKind::Punctuation("}") => self.braces = self.braces.saturating_sub(1),
            _ => {}
        }
        self.next = (self.next + 1).min(self.tokens.len() - 1);
    }

    /// The keyword at this place, or an empty text.
    pub(crate) fn keyword_here(&self) -> String {
        match &self.peek().kind {
            TokenKind::Word { text, escaped: false } => text.clone(),
            _ => String::new(),
        }
    }

    pub(crate) fn at(&self, mark: &str) -> bool {
        matches!(self.peek().kind, TokenKind::Punctuation(found) if found == mark)
    }

    pub(crate) fn take(&mut self, mark: &str) -> bool {
        let found = self.at(mark);
        if found {
            self.advance();
        }
        found
    }

    /// Takes a mark, or reports that it is missing. Where several would do, `wanted` names them
    /// all, the one to take last.
    pub(crate) fn expect(&mut self, wanted: &str) -> Parsed<Span> {
        let mark = wanted.rsplit(' ').next().unwrap_or(wanted).trim_matches('`');
        let span = self.peek().span.clone();
        if self.take(mark) {
            return Ok(span);
        }
        let quoted = if wanted.contains('`') { wanted.to_owned() } else { format!("`{wanted}`") };
        Err(self.expected(&quoted))
    }

    /// Reports that something else stands here than what was expected.
    pub(crate) fn expected(&mut self, what: &str) -> Reported {
        let Token { kind, span } = self.peek().clone();
        let found = match kind {
            TokenKind::End => "the end of the file".to_owned(),
            _ => format!("`{}`", &self.source.text[span.clone()]),
        };
        self.report(&span, format!("expected {what}, found {found}"))
    }

    pub(crate) fn report(&mut self, span: &Span, message: String) -> Reported {
        self.diagnostics.push(self.source.diagnostic(span, message));
        Reported
    }

    fn is_full(&self) -> bool {
        self.diagnostics.len() >= MAX_DIAGNOSTICS
    }
}
