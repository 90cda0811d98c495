//! Conversion of text to tokens.
//!
//! Owns the spelling of comments, identifiers, literals and punctuation. Never stops at a mistake:
//! the lexer reports it and skips text that cannot be a token. Directives belong to the
//! preprocessor: the lexer tells it where a `#` begins a line, and reads the rest of that line as
//! tokens or as text.

use std::rc::Rc;

use crate::diagnostic::Reports;
use crate::literal;
use crate::source::{FileId, Span};

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum TokenKind {
    /// A name or a keyword. An escaped name is stored without its `_` and is never a keyword.
    Word { text: Rc<str>, escaped: bool },
    /// A number as written; its value depends on its position.
    Number(Rc<str>),
    /// A string literal with its escapes resolved.
    String { wide: bool, value: Rc<str> },
    /// A character literal with its escapes resolved.
    Char { wide: bool, value: char },
    /// Punctuation.
    Mark(&'static str),
    /// End of the text, or of a line in a directive.
    End,
}

#[derive(Clone, Debug)]
pub(crate) struct Token {
    pub(crate) kind: TokenKind,
    pub(crate) span: Span,
    /// Line on which the token starts, counted from 0. After a macro expansion, the line is that of
    /// another text.
    pub(crate) line: u32,
    pub(crate) end_line: u32,
    /// Comments before the token: a range of [`Lexer::comments`].
    pub(crate) comments: (u32, u32),
    /// Whether whitespace or comments precede the token.
    pub(crate) spaced: bool,
}

/// A whole comment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Comment {
    pub(crate) span: Span,
    pub(crate) line: u32,
    pub(crate) end_line: u32,
}

impl Token {
    /// Returns the token as written.
    pub(crate) fn text(&self) -> String {
        match &self.kind {
            TokenKind::Word { text, escaped: false } => text.to_string(),
            TokenKind::Word { text, escaped: true } => format!("_{text}"),
            TokenKind::Number(text) => text.to_string(),
            TokenKind::String { wide, value } => {
                format!("{}{value:?}", if *wide { "L" } else { "" })
            }
            TokenKind::Char { wide, value } => format!("{}{value:?}", if *wide { "L" } else { "" }),
            TokenKind::Mark(mark) => (*mark).to_owned(),
            TokenKind::End => String::new(),
        }
    }

    pub(crate) fn is(&self, mark: &str) -> bool {
        matches!(self.kind, TokenKind::Mark(found) if found == mark)
    }

    /// Returns the word if the token is an unescaped one.
    pub(crate) fn word(&self) -> Option<&str> {
        match &self.kind {
            TokenKind::Word { text, escaped: false } => Some(text),
            _ => None,
        }
    }
}

/// Punctuation, longer marks first. `>>` is not included, because `sequence<sequence<long>>` ends
/// with two separate marks.
pub(crate) const MARKS: [&str; 36] = [
    "...", "::", "<<", "==", "!=", "<=", ">=", "&&", "||", "##", "{", "}", ";", ",", "<", ">", "[",
    "]", "(", ")", "=", ":", "+", "-", "*", "/", "%", "|", "&", "^", "~", "@", "#", "!", "?", ".",
];

/// Lexer of one text.
#[derive(Clone)]
pub(crate) struct Lexer {
    file: FileId,
    text: Rc<str>,
    position: usize,
    line: u32,
    /// Whether only whitespace and comments precede on this line.
    at_line_start: bool,
    /// Whether a newline ends the tokens, as in a directive.
    in_directive: bool,
}

impl Lexer {
    pub(crate) fn new(file: FileId, text: Rc<str>) -> Self {
        let position = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
        Self { file, text, position, line: 0, at_line_start: true, in_directive: false }
    }

    fn rest(&self) -> &str {
        &self.text[self.position..]
    }

    fn first(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn span(&self, start: usize) -> Span {
        Span { file: self.file, start: start as u32, end: self.position as u32 }
    }

    /// Returns the next token, and whether it begins a line. A `#` that begins a line belongs to
    /// the preprocessor, which then reads the directive.
    pub(crate) fn next(
        &mut self,
        comments: &mut Vec<Comment>,
        reports: &mut Reports,
    ) -> (Token, bool) {
        let first_comment = comments.len() as u32;
        let before = self.position;
        loop {
            self.skip_blanks(comments, reports);
            let (start, line) = (self.position, self.line);
            let starts_line = std::mem::replace(&mut self.at_line_start, false);
            let kind = match self.first() {
                None => Some(TokenKind::End),
                Some('\n' | '\r') => Some(TokenKind::End),
                Some(first) => self.token(first, reports),
            };
            let Some(kind) = kind else {
                self.at_line_start = starts_line;
                continue;
            };
            let token = Token {
                kind,
                span: self.span(start),
                line,
                end_line: self.line,
                comments: (first_comment, comments.len() as u32),
                spaced: start > before,
            };
            return (token, starts_line);
        }
    }

    fn token(&mut self, first: char, reports: &mut Reports) -> Option<TokenKind> {
        match first {
            'A'..='Z' | 'a'..='z' | '_' => self.word(reports),
            '0'..='9' => Some(self.number()),
            '.' if self.rest()[1..].starts_with(|c: char| c.is_ascii_digit()) => {
                Some(self.number())
            }
            '\'' | '"' => self.quoted(first, false, self.position, reports),
            _ => self.mark(first, reports),
        }
    }

    fn skip_blanks(&mut self, comments: &mut Vec<Comment>, reports: &mut Reports) {
        loop {
            let rest = self.rest();
            let mut chars = rest.char_indices();
            let Some((_, first)) = chars.next() else { return };
            match first {
                '\n' | '\r' if self.in_directive => return,
                '\n' => {
                    self.line += 1;
                    self.at_line_start = true;
                    self.position += 1;
                }
                ' ' | '\t' | '\r' | '\x0b' | '\x0c' | '\u{feff}' | '\u{1a}' => {
                    self.position += first.len_utf8();
                }
                '\\' if rest.starts_with("\\\n") || rest.starts_with("\\\r\n") => {
                    self.position += if rest.starts_with("\\\n") { 2 } else { 3 };
                    self.line += 1;
                }
                '/' if rest.starts_with("//") => {
                    let (start, line) = (self.position, self.line);
                    let length = rest.find('\n').unwrap_or(rest.len());
                    self.position += rest[..length].trim_end_matches('\r').len();
                    comments.push(Comment { span: self.span(start), line, end_line: line });
                }
                '/' if rest.starts_with("/*") => self.block_comment(comments, reports),
                _ => return,
            }
        }
    }

    fn block_comment(&mut self, comments: &mut Vec<Comment>, reports: &mut Reports) {
        let (start, line) = (self.position, self.line);
        let rest = self.rest();
        let length = rest[2..].find("*/").map(|length| length + 4);
        let newlines = rest[..length.unwrap_or(rest.len())].matches('\n').count() as u32;
        let whole = length.unwrap_or(rest.len());
        self.position += whole;
        self.line += newlines;
        if length.is_none() {
            let opening = Span { end: start as u32 + 2, ..self.span(start) };
            reports.error(opening, "this comment has no end, expected `*/`");
            return;
        }
        comments.push(Comment { span: self.span(start), line, end_line: self.line });
    }

    /// Consumes the longest prefix whose characters are all wanted.
    fn take(&mut self, wanted: impl Fn(char) -> bool) {
        let rest = self.rest();
        self.position += rest.find(|c| !wanted(c)).unwrap_or(rest.len());
    }

    fn word(&mut self, reports: &mut Reports) -> Option<TokenKind> {
        let start = self.position;
        self.take(|c| c.is_ascii_alphanumeric() || c == '_');
        if &self.text[start..self.position] == "L"
            && let Some(quote @ ('\'' | '"')) = self.first()
        {
            return self.quoted(quote, true, start, reports);
        }
        let whole = &self.text[start..self.position];
        let text = whole.strip_prefix('_').unwrap_or(whole);
        if !text.starts_with(|c: char| c.is_ascii_alphabetic()) {
            // A name with two leading underscores is not an IDL identifier, but it can name
            // a macro.
            if whole.starts_with("__") || self.in_directive {
                return Some(TokenKind::Word { text: whole.into(), escaped: false });
            }
            reports.error(
                self.span(start),
                "an identifier starts with a letter, or with one `_` and a letter",
            );
            return None;
        }
        Some(TokenKind::Word { text: text.into(), escaped: whole.starts_with('_') })
    }

    fn number(&mut self) -> TokenKind {
        let start = self.position;
        self.take(|c| c.is_ascii_alphanumeric() || c == '.' || c == '_');
        let text = &self.text[start..self.position];
        let hexadecimal = text.starts_with("0x") || text.starts_with("0X");
        if !hexadecimal && text.ends_with(['e', 'E']) && self.rest().starts_with(['+', '-']) {
            self.position += 1;
            self.take(|c| c.is_ascii_alphanumeric());
        }
        TokenKind::Number(self.text[start..self.position].into())
    }

    fn quoted(
        &mut self,
        quote: char,
        wide: bool,
        start: usize,
        reports: &mut Reports,
    ) -> Option<TokenKind> {
        let open = self.position;
        let mut escaped = false;
        let mut end = None;
        for (offset, c) in self.text[open..].char_indices().skip(1) {
            match c {
                '\n' if !escaped => break,
                _ if escaped => escaped = c == '\r',
                '\\' => escaped = true,
                c if c == quote => {
                    end = Some(offset);
                    break;
                }
                _ => {}
            }
        }
        let Some(end) = end else {
            self.take(|c| c != '\n');
            reports.error(
                self.span(start),
                format!("this literal has no end, expected {quote} on the same line"),
            );
            return None;
        };
        self.position = open + end + 1;
        let inside = self.text[open + 1..open + end].to_owned();
        self.line += inside.matches('\n').count() as u32;
        let value = literal::unescape(&inside, wide).map_err(|(at, length, message)| {
            let from = (open + 1 + at) as u32;
            let span = Span { file: self.file, start: from, end: from + length as u32 };
            reports.error(span, message)
        });
        let value = value.ok()?;
        if quote == '"' {
            return Some(TokenKind::String { wide, value: value.into() });
        }
        let mut chars = value.chars();
        match (chars.next(), chars.next()) {
            (Some(value), None) => Some(TokenKind::Char { wide, value }),
            _ => {
                reports.error(self.span(start), "expected one character between the quotes");
                None
            }
        }
    }

    fn mark(&mut self, first: char, reports: &mut Reports) -> Option<TokenKind> {
        let start = self.position;
        let rest = self.rest();
        if let Some(mark) = MARKS.into_iter().find(|mark| rest.starts_with(mark)) {
            self.position += mark.len();
            return Some(TokenKind::Mark(mark));
        }
        self.position += first.len_utf8();
        reports.error(self.span(start), format!("{first:?} has no meaning in IDL; remove it"));
        None
    }

    /// Enters a directive: from here to the end of the line, newlines end the tokens.
    pub(crate) fn enter_directive(&mut self) {
        self.in_directive = true;
    }

    /// Skips the rest of the directive's line.
    pub(crate) fn leave_directive(&mut self) {
        self.rest_of_line();
        self.in_directive = false;
    }

    /// Returns the text up to the end of the line, without trailing comments, and its position.
    pub(crate) fn rest_of_line(&mut self) -> (String, Span) {
        let start = self.position;
        let mut text = String::new();
        loop {
            let rest = self.rest();
            let length = rest.find('\n').unwrap_or(rest.len());
            let line = rest[..length].trim_end_matches('\r');
            match line.strip_suffix('\\') {
                Some(continued) if length < rest.len() => {
                    text.push_str(continued);
                    text.push(' ');
                    self.position += length + 1;
                    self.line += 1;
                }
                _ => {
                    text.push_str(line);
                    self.position += length;
                    return (text, self.span(start));
                }
            }
        }
    }

    /// Skips past the next `#` that begins a line; `None` at the end of the text.
    pub(crate) fn skip_to_directive(&mut self) -> Option<Span> {
        loop {
            let rest = self.rest();
            let blanks = rest.len() - rest.trim_start_matches([' ', '\t', '\r', '\x0c']).len();
            let line = &rest[blanks..];
            if line.starts_with('#') {
                let start = self.position + blanks;
                self.position = start + 1;
                self.at_line_start = false;
                return Some(self.span(start));
            }
            match rest.find('\n') {
                Some(newline) => {
                    self.position += newline + 1;
                    self.line += 1;
                    self.at_line_start = true;
                }
                None => {
                    self.position = self.text.len();
                    return None;
                }
            }
        }
    }

    /// Returns the word as written, including its `_`. Macros are called by this name.
    pub(crate) fn macro_name(kind: &TokenKind) -> Option<Rc<str>> {
        match kind {
            TokenKind::Word { text, escaped: false } => Some(Rc::clone(text)),
            TokenKind::Word { text, escaped: true } => Some(format!("_{text}").into()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::SourceMap;

    fn read(text: &str) -> (Vec<TokenKind>, Vec<String>) {
        let mut sources = SourceMap::default();
        let file = sources.add("test.idl", text.to_owned());
        let (mut comments, mut reports) = (Vec::new(), Reports::default());
        let mut lexer = Lexer::new(file, text.into());
        let mut kinds = Vec::new();
        loop {
            let (token, _) = lexer.next(&mut comments, &mut reports);
            if token.kind == TokenKind::End {
                break;
            }
            kinds.push(token.kind);
        }
        let diagnostics = reports.finish(&sources);
        let messages =
            diagnostics.iter().map(|d| format!("{}:{}: {}", d.line, d.column, d.message));
        (kinds, messages.collect())
    }

    fn kinds(text: &str) -> Vec<TokenKind> {
        let (kinds, messages) = read(text);
        assert_eq!(messages, [""; 0], "{text}");
        kinds
    }

    #[test]
    fn lexer_marks_word_with_leading_underscore_as_escaped() {
        let word = |text: &str, escaped| TokenKind::Word { text: text.into(), escaped };
        assert_eq!(kinds("a_b1 _struct"), [word("a_b1", false), word("struct", true)]);
        assert_eq!(read("_1").1.len(), 1);
    }

    #[test]
    fn lexer_reads_every_literal_and_reports_malformed_literal() {
        for text in ["0", "8", "017", "0x1F", "1.5", ".5", "1e9", "1.e-3", "2.5d", "08", "1x"] {
            assert_eq!(kinds(text), [TokenKind::Number(text.into())], "{text}");
        }
        let string = |wide, value: &str| TokenKind::String { wide, value: value.into() };
        assert_eq!(kinds(r#""a\"b\n" L"x""#), [string(false, "a\"b\n"), string(true, "x")]);
        let char = |wide, value| TokenKind::Char { wide, value };
        assert_eq!(
            kinds(r"'\'' L'x' '\x41' '\101'"),
            [char(false, '\''), char(true, 'x'), char(false, 'A'), char(false, 'A'),]
        );
        assert_eq!(
            read("\"open\n'").1,
            [
                "1:1: this literal has no end, expected \" on the same line",
                "2:1: this literal has no end, expected ' on the same line",
            ]
        );
        assert_eq!(read("'ab' ''").1.len(), 2);
    }

    #[test]
    fn lexer_skips_comments_and_reports_unterminated_comment() {
        assert_eq!(kinds("// a\n/* b * / \n */ ; //"), [TokenKind::Mark(";")]);
        assert_eq!(read(" /* open").1, ["1:2: this comment has no end, expected `*/`"]);
        assert_eq!(read("/*/").1.len(), 1);
    }

    #[test]
    fn lexer_error_names_invalid_character() {
        assert_eq!(read("§ a").1, ["1:1: '§' has no meaning in IDL; remove it"]);
    }
}
