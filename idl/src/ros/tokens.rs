//! Tokens of IDL that are not read from an IDL text.
//!
//! Owns the position of each token: the one set last.

use crate::lexer::{MARKS, Token, TokenKind};
use crate::source::{FileId, Span};

pub(super) struct IdlTokens {
    pub(super) tokens: Vec<Token>,
    span: Span,
    line: u32,
}

impl IdlTokens {
    pub(super) fn new(file: FileId) -> Self {
        Self { tokens: Vec::new(), span: Span { file, start: 0, end: 0 }, line: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// Sets the position of the tokens that follow.
    pub(super) fn at(&mut self, span: Span, line: u32) -> &mut Self {
        (self.span, self.line) = (span, line);
        self
    }

    fn push(&mut self, kind: TokenKind) -> &mut Self {
        self.tokens.push(Token {
            kind,
            span: self.span,
            line: self.line,
            end_line: self.line,
            comments: (0, 0),
            spaced: true,
        });
        self
    }

    /// Adds keywords and marks that spaces separate.
    pub(super) fn idl(&mut self, text: &str) -> &mut Self {
        for word in text.split(' ') {
            match MARKS.into_iter().find(|mark| *mark == word) {
                Some(mark) => self.push(TokenKind::Mark(mark)),
                None => self.push(TokenKind::Word { text: word.into(), escaped: false }),
            };
        }
        self
    }

    /// Adds a name, which may be spelt like a keyword.
    pub(super) fn name(&mut self, name: &str) -> &mut Self {
        self.push(TokenKind::Word { text: name.into(), escaped: true })
    }

    pub(super) fn number(&mut self, digits: &str) {
        self.push(TokenKind::Number(digits.into()));
    }

    /// Adds the full name of a message.
    pub(super) fn message(&mut self, package: &str, name: &str) -> &mut Self {
        self.idl("::").name(package).idl("::").name("msg").idl("::").name("dds_").idl("::");
        self.name(&format!("{name}_"))
    }

    /// Adds documentation.
    pub(super) fn docs(&mut self, lines: &[String]) {
        if lines.is_empty() {
            return;
        }
        self.idl("@").name("verbatim").idl("(").name("language").idl("=");
        self.push(TokenKind::String { wide: false, value: "comment".into() });
        self.idl(",").name("text").idl("=");
        self.push(TokenKind::String { wide: false, value: lines.join("\n").into() });
        self.idl(")");
    }

    /// Adds the tokens of a value at the current position.
    pub(super) fn extend(&mut self, kinds: Vec<TokenKind>) {
        for kind in kinds {
            self.push(kind);
        }
    }

    /// Adds tokens with their own positions.
    pub(super) fn append(&mut self, other: Self) {
        self.tokens.extend(other.tokens);
    }
}
