//! Parsing of tokens to a syntax tree.
//!
//! Owns the grammar and the recovery after an error, at the next definition or member. Definitions,
//! types and expressions are read in the sibling files. Never looks a name up.

mod annotations;
mod comment_annotations;
mod comments;
mod definitions;
mod expressions;
mod skipped;
mod structures;
pub(crate) mod types;

use std::collections::BTreeSet;
use std::rc::Rc;

use crate::diagnostic::{Checked, ErrorReported, Reports, did_you_mean};
use crate::keyword::is_reserved;
use crate::lexer::{Comment, Token, TokenKind};
use crate::preprocessor::{Pragma, Preprocessed};
use crate::source::{SourceMap, Span};
use crate::syntax::{Definition, Name, Path};

/// Maximum nesting depth of modules, types or parentheses.
pub const MAX_NESTING: usize = 64;

pub(crate) struct Parser<'a> {
    sources: &'a SourceMap,
    reports: &'a mut Reports,
    tokens: Vec<Token>,
    comments: Vec<Comment>,
    /// Comments, by index, whose annotations have an effect.
    annotating_comments: BTreeSet<u32>,
    pragmas: std::iter::Peekable<std::vec::IntoIter<Pragma>>,
    next: usize,
    /// Number of open braces before the next token.
    braces: usize,
    /// Number of open modules or interfaces.
    modules: usize,
    /// Types defined within the definition that is being read; they precede it.
    inline: Vec<Definition>,
    /// Number of such definitions around the next token.
    inline_depth: usize,
}

/// Parses all tokens.
pub(crate) fn parse(
    preprocessed: Preprocessed,
    sources: &SourceMap,
    reports: &mut Reports,
) -> Vec<Definition> {
    let Preprocessed { tokens, comments, pragmas, .. } = preprocessed;
    let pragmas = pragmas.into_iter().peekable();
    let mut parser = Parser {
        sources,
        reports,
        tokens,
        comments,
        annotating_comments: BTreeSet::new(),
        pragmas,
        next: 0,
        braces: 0,
        modules: 0,
        inline: Vec::new(),
        inline_depth: 0,
    };
    let mut definitions = Vec::new();
    parser.definitions(&mut definitions);
    while !parser.at_end() && !parser.reports.is_full() {
        // Only a superfluous closing brace ends the definitions before the end.
        parser.expected("a definition");
        parser.advance();
        parser.take(";");
        parser.definitions(&mut definitions);
    }
    parser.check_comments();
    definitions
}

impl Parser<'_> {
    /// Reads a name that is being declared.
    fn name(&mut self, what: &str) -> Checked<Name> {
        let token = self.peek();
        let TokenKind::Word { text, escaped } = &token.kind else {
            return Err(self.expected(what));
        };
        if !escaped && is_reserved(text) {
            let message = format!(
                "expected {what}, found the keyword `{text}`; write `_{text}` to use it as a name"
            );
            let span = token.span;
            return Err(self.reports.error(span, message));
        }
        let name = Name { text: Rc::clone(text), span: token.span };
        self.advance();
        Ok(name)
    }

    /// Reads a name in a use: `::A::B` or `B`.
    fn path(&mut self, what: &str) -> Checked<Path> {
        let start = self.peek().span;
        let absolute = self.take("::");
        let mut parts = vec![self.name(what)?];
        while self.take("::") {
            let word = self.word();
            if matches!(word, "string" | "wstring") && *parts[0].text == *"std" {
                let text = format!("there is no `std::{word}` here; write `{word}` in IDL");
                let span = start.to(self.peek().span);
                return Err(self.reports.error(span, text));
            }
            parts.push(self.name("a name")?);
            if parts.len() > MAX_NESTING {
                let span = start.to(self.previous());
                return Err(self.reports.error(span, "this name has too many parts"));
            }
        }
        Ok(Path { absolute, parts, span: start.to(self.previous()) })
    }

    /// Reads a comma-separated list of names in a use.
    fn paths(&mut self, what: &str) -> Checked<Vec<Path>> {
        let mut paths = vec![self.path(what)?];
        while self.take(",") {
            paths.push(self.path(what)?);
        }
        Ok(paths)
    }

    fn close(&mut self, opened: Span) -> Checked<()> {
        if self.take("}") {
            return Ok(());
        }
        if self.reports.is_full() {
            return Err(ErrorReported);
        }
        let unclosed = self.unclosed(opened).unwrap_or(opened);
        Err(self.never_closed(unclosed))
    }

    fn never_closed(&mut self, opened: Span) -> ErrorReported {
        self.reports.error(opened, "this brace is never closed, expected `}`")
    }

    /// Returns the brace within another one that the indentation shows to be open: a closing brace
    /// at the beginning of a line stands further left than the line of the brace that it closes.
    fn unclosed(&self, opened: Span) -> Option<Span> {
        let from = self.tokens.iter().position(|token| token.span == opened)?;
        let mut open: Vec<(Span, usize)> = Vec::new();
        let mut indent = 0;
        let mut line = 0;
        for token in &self.tokens[from..self.next] {
            let begins_line = token.line != line;
            if begins_line {
                let place = self.sources.place(token.span);
                indent = place.text.chars().take_while(|c| c.is_whitespace()).count();
                line = token.line;
            }
            match token.kind {
                TokenKind::Mark("{") => open.push((token.span, indent)),
                TokenKind::Mark("}") => {
                    let (span, of_line) = open.pop()?;
                    if begins_line && indent < of_line {
                        return Some(span);
                    }
                }
                _ => {}
            }
        }
        None
    }

    /// Skips past the next `;`, or to the brace that closes the surrounding construct. At least one
    /// token is consumed, so that parsing always makes progress.
    fn recover(&mut self, start: usize, braces: usize) {
        let mut inside = 0_usize;
        loop {
            let token = self.peek();
            match token.kind {
                TokenKind::End => return,
                TokenKind::Mark("}") if self.braces <= braces => {
                    if self.braces == braces && braces > 0 || self.next > start {
                        return;
                    }
                    return self.advance();
                }
                TokenKind::Mark(";")
                    if self.braces <= braces && inside == 0 && self.next > start =>
                {
                    return self.advance();
                }
                // A definition at the beginning of a line is parsed as one, whatever was left
                // open before.
                TokenKind::Word { escaped: false, .. }
                    if self.next > start && self.begins_definition() =>
                {
                    return;
                }
                TokenKind::Mark("(") => inside += 1,
                TokenKind::Mark(")") => inside = inside.saturating_sub(1),
                _ => {}
            }
            self.advance();
        }
    }

    /// Whether the next word begins a line and can only begin a definition.
    fn begins_definition(&self) -> bool {
        let token = self.peek();
        let begins_line = self.next == 0 || self.tokens[self.next - 1].end_line != token.line;
        begins_line
            && matches!(
                token.word(),
                Some(
                    "module"
                        | "struct"
                        | "enum"
                        | "typedef"
                        | "const"
                        | "bitmask"
                        | "bitset"
                        | "interface"
                )
            )
    }

    fn peek(&self) -> &Token {
        // The last token is `End`, which `advance` never passes.
        &self.tokens[self.next]
    }

    /// The token after the next one.
    fn peek_second(&self) -> &Token {
        &self.tokens[(self.next + 1).min(self.tokens.len() - 1)]
    }

    fn at_end(&self) -> bool {
        self.peek().kind == TokenKind::End
    }

    /// Returns the position of the last token.
    fn previous(&self) -> Span {
        self.tokens[self.next.saturating_sub(1)].span
    }

    fn advance(&mut self) {
        match self.peek().kind {
            TokenKind::Mark("{") => self.braces += 1,
            TokenKind::Mark("}") => self.braces = self.braces.saturating_sub(1),
            _ => {}
        }
        self.next = (self.next + 1).min(self.tokens.len() - 1);
    }

    /// Returns the word at this position, or an empty text.
    fn word(&self) -> &str {
        self.peek().word().unwrap_or_default()
    }

    fn at(&self, mark: &str) -> bool {
        self.peek().is(mark)
    }

    fn take(&mut self, mark: &str) -> bool {
        let found = self.at(mark);
        if found {
            self.advance();
        }
        found
    }

    fn take_word(&mut self, word: &str) -> bool {
        let found = self.word() == word;
        if found {
            self.advance();
        }
        found
    }

    /// Consumes a mark, or reports that it is missing. If several marks are allowed, `wanted` names
    /// all of them, with the one to consume last.
    fn expect(&mut self, wanted: &str) -> Checked<Span> {
        let mark = wanted.rsplit(' ').next().unwrap_or(wanted).trim_matches('`');
        let span = self.peek().span;
        if self.take(mark) {
            return Ok(span);
        }
        let quoted = if wanted.contains('`') { wanted.to_owned() } else { format!("`{wanted}`") };
        // A mark missing at the end of a line or file is reported there.
        let here = self.peek();
        if mark == ";" && self.next > 0 && !self.at_end() {
            let previous = &self.tokens[self.next - 1];
            let found = if previous.span.file != here.span.file {
                Some("the end of the file".to_owned())
            } else if previous.end_line != here.line {
                Some(format!("`{}` on the next line", here.text()))
            } else {
                None
            };
            if let Some(found) = found {
                let span = previous.span.after();
                let message = format!("expected {quoted} here, found {found}");
                return Err(self.reports.error(span, message));
            }
        }
        Err(self.expected(&quoted))
    }

    /// Reports that the next token differs from what was expected.
    fn expected(&mut self, what: &str) -> ErrorReported {
        self.expected_one_of(what, &[])
    }

    /// Reports like [`Parser::expected`], with words to suggest.
    fn expected_one_of(&mut self, what: &str, words: &[&str]) -> ErrorReported {
        let token = self.peek();
        let (span, text) = (token.span, token.text());
        let guess = did_you_mean(&text, words.iter().copied());
        let found = match token.kind {
            TokenKind::End => "the end of the file".to_owned(),
            _ => format!("`{text}`"),
        };
        self.reports.error(span, format!("expected {what}, found {found}{guess}"))
    }
}
