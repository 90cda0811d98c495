//! IDL text to tokens.
//!
//! Owns the spelling of comments, identifiers, literals, punctuation and annotations. Never stops
//! at a mistake: it is reported, and what cannot be a token is left out.

use crate::MAX_DIAGNOSTICS;
use crate::source::{Diagnostic, Source, Span};

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum TokenKind {
    /// A name or a keyword, without the `_` of escaped ones; those are never keywords.
    Word { text: String, escaped: bool },
    /// An integer literal; `None` if it is larger than 64 bits.
    Integer(Option<u64>),
    /// A literal that no part of the accepted grammar takes: floating point, character or string.
    OtherLiteral,
    /// A single character of punctuation, or `::`.
    Punctuation(&'static str),
    /// `@name`.
    Annotation(String),
    /// After the last token.
    End,
}

#[derive(Clone, Debug)]
pub(crate) struct Token {
    pub(crate) kind: TokenKind,
    pub(crate) span: Span,
}

/// All tokens, with `End` as the last one, and the mistakes on the way.
pub(crate) fn tokens(source: Source<'_>) -> (Vec<Token>, Vec<Diagnostic>) {
    let mut lexer = Lexer { source, position: 0, tokens: Vec::new(), diagnostics: Vec::new() };
    lexer.run();
    (lexer.tokens, lexer.diagnostics)
}

/// Longer ones first.
const PUNCTUATION: [&str; 21] = [
    "::", "{", "}", ";", ",", "<", ">", "[", "]", "(", ")", "=", ":", "+", "-", "*", "/", "%", "|",
    "&", "~",
];

struct Lexer<'a> {
    source: Source<'a>,
    position: usize,
    tokens: Vec<Token>,
    diagnostics: Vec<Diagnostic>,
}

impl<'a> Lexer<'a> {
    fn rest(&self) -> &'a str {
        &self.source.text[self.position..]
    }

    fn run(&mut self) {
        // Each report looks its line up from the start of the text, so their number is limited.
        while self.diagnostics.len() < MAX_DIAGNOSTICS {
            self.skip_blanks();
            let start = self.position;
            let Some(first) = self.rest().chars().next() else { break };
            let kind = match first {
                'A'..='Z' | 'a'..='z' | '_' => self.word(),
                '0'..='9' => self.number(),
                '.' if self.rest()[1..].starts_with(|c: char| c.is_ascii_digit()) => self.number(),
                '\'' | '"' => self.quoted(first),
                '@' => self.annotation(),
                '#' => self.directive(),
                _ => self.punctuation(first),
            };
            if let Some(kind) = kind {
                self.tokens.push(Token { kind, span: start..self.position });
            }
        }
        let end = self.source.text.len();
        self.tokens.push(Token { kind: TokenKind::End, span: end..end });
    }

    fn skip_blanks(&mut self) {
        loop {
            let rest = self.rest();
            let blanks = rest.len()
                - rest
                    .trim_start_matches(['\u{feff}', ' ', '\t', '\r', '\n', '\x0b', '\x0c'])
                    .len();
            self.position += blanks;
            let rest = self.rest();
            if rest.starts_with("//") {
                self.position += rest.find('\n').unwrap_or(rest.len());
            } else if let Some(comment) = rest.strip_prefix("/*") {
                let start = self.position;
                match comment.find("*/") {
                    Some(length) => self.position += length + 4,
                    None => {
                        self.position = self.source.text.len();
                        self.report(start..start + 2, "this comment has no end, expected `*/`");
                    }
                }
            } else if blanks == 0 {
                return;
            }
        }
    }

    /// Takes the longest prefix of which every character is wanted.
    fn take(&mut self, wanted: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let length = rest.find(|c| !wanted(c)).unwrap_or(rest.len());
        self.position += length;
        &rest[..length]
    }

    fn word(&mut self) -> Option<TokenKind> {
        let start = self.position;
        let whole = self.take(|c| c.is_ascii_alphanumeric() || c == '_');
        if whole == "L" && self.rest().starts_with(['\'', '"']) {
            let quote = if self.rest().starts_with('"') { '"' } else { '\'' };
            return self.quoted(quote);
        }
        let text = whole.strip_prefix('_').unwrap_or(whole);
        if !text.starts_with(|c: char| c.is_ascii_alphabetic()) {
            self.report(
                start..self.position,
                "an identifier starts with a letter, or with one `_` and a letter",
            );
            return None;
        }
        Some(TokenKind::Word { text: text.to_owned(), escaped: whole.starts_with('_') })
    }

    fn number(&mut self) -> Option<TokenKind> {
        let start = self.position;
        let text = self.take(|c| c.is_ascii_alphanumeric() || c == '.');
        let hexadecimal = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
        if hexadecimal.is_none()
            && text.ends_with(['e', 'E'])
            && self.rest().starts_with(['+', '-'])
        {
            self.position += 1;
            self.take(|c| c.is_ascii_alphanumeric());
        }
        let text = &self.source.text[start..self.position];
        let (digits, radix) = match hexadecimal {
            Some(digits) => (digits, 16),
            None if text.len() > 1 && text.starts_with('0') => (&text[1..], 8),
            None => (text, 10),
        };
        if !digits.is_empty() && digits.chars().all(|c| c.is_digit(radix)) {
            return Some(TokenKind::Integer(u64::from_str_radix(digits, radix).ok()));
        }
        let is_real = text.contains(['.', 'e', 'E', 'd', 'D']);
        if hexadecimal.is_none()
            && is_real
            && text.trim_end_matches(['d', 'D']).parse::<f64>().is_ok()
        {
            return Some(TokenKind::OtherLiteral);
        }
        self.report(start..self.position, "expected a number");
        None
    }

    fn quoted(&mut self, quote: char) -> Option<TokenKind> {
        let start = self.position;
        let mut escaped = false;
        for (offset, c) in self.rest().char_indices().skip(1) {
            match c {
                '\n' => break,
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                c if c == quote => {
                    self.position += offset + 1;
                    return Some(TokenKind::OtherLiteral);
                }
                _ => {}
            }
        }
        self.take(|c| c != '\n');
        self.report(
            start..self.position,
            &format!("this literal has no end, expected {quote} on the same line"),
        );
        None
    }

    fn annotation(&mut self) -> Option<TokenKind> {
        let start = self.position;
        self.position += 1;
        let name = self.take(|c| c.is_ascii_alphanumeric() || c == '_');
        if name.is_empty() {
            self.report(start..start + 1, "expected the name of an annotation after `@`");
            return None;
        }
        Some(TokenKind::Annotation(name.to_owned()))
    }

    fn directive(&mut self) -> Option<TokenKind> {
        let start = self.position;
        let line = self.take(|c| c != '\n');
        self.report(
            start..start + line.trim_end().len(),
            "expected a definition, found a preprocessor directive; run the file through a \
             preprocessor first, or remove the line",
        );
        None
    }

    fn punctuation(&mut self, first: char) -> Option<TokenKind> {
        let start = self.position;
        let rest = self.rest();
        if let Some(mark) = PUNCTUATION.into_iter().find(|mark| rest.starts_with(mark)) {
            self.position += mark.len();
            return Some(TokenKind::Punctuation(mark));
        }
        self.position += first.len_utf8();
        self.report(start..self.position, &format!("{first:?} has no meaning in IDL; remove it"));
        None
    }

    fn report(&mut self, span: Span, message: &str) {
        self.diagnostics.push(self.source.diagnostic(&span, message.to_owned()));
    }
}

pub(crate) fn is_keyword(word: &str) -> bool {
    KEYWORDS.contains(&word.to_ascii_lowercase().as_str())
}

/// The words that cannot be identifiers, however their letters are cased. `Object` is not among
/// them: it is a keyword of interfaces only, and a likely name of a member.
const KEYWORDS: &[&str] = &[
    "abstract",
    "any",
    "alias",
    "attribute",
    "bitfield",
    "bitmask",
    "bitset",
    "boolean",
    "case",
    "char",
    "component",
    "connector",
    "const",
    "consumes",
    "context",
    "custom",
    "default",
    "double",
    "emits",
    "enum",
    "eventtype",
    "exception",
    "factory",
    "false",
    "finder",
    "fixed",
    "float",
    "getraises",
    "home",
    "import",
    "in",
    "inout",
    "int16",
    "int32",
    "int64",
    "int8",
    "interface",
    "local",
    "long",
    "manages",
    "map",
    "mirrorport",
    "module",
    "multiple",
    "native",
    "octet",
    "oneway",
    "out",
    "port",
    "porttype",
    "primarykey",
    "private",
    "provides",
    "public",
    "publishes",
    "raises",
    "readonly",
    "sequence",
    "setraises",
    "short",
    "string",
    "struct",
    "supports",
    "switch",
    "true",
    "truncatable",
    "typedef",
    "typeid",
    "typename",
    "typeprefix",
    "uint16",
    "uint32",
    "uint64",
    "uint8",
    "union",
    "unsigned",
    "uses",
    "valuebase",
    "valuetype",
    "void",
    "wchar",
    "wstring",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<TokenKind> {
        let (tokens, diagnostics) = tokens(Source { file: "test.idl", text });
        assert_eq!(diagnostics, [], "{text}");
        tokens.into_iter().map(|token| token.kind).filter(|kind| *kind != TokenKind::End).collect()
    }

    fn messages(text: &str) -> Vec<String> {
        let (_, diagnostics) = tokens(Source { file: "test.idl", text });
        diagnostics.iter().map(|d| format!("{}:{}: {}", d.line, d.column, d.message)).collect()
    }

    #[test]
    fn words_can_be_escaped() {
        let word = |text: &str, escaped| TokenKind::Word { text: text.to_owned(), escaped };
        assert_eq!(kinds("a_b1 _struct"), [word("a_b1", false), word("struct", true)]);
        assert_eq!(messages("__a").len(), 1);
    }

    #[test]
    fn literals_of_every_kind() {
        let integers = [0, 8, 0o17, 0x1F].map(|value| TokenKind::Integer(Some(value)));
        assert_eq!(kinds("0 8 017 0x1F"), integers);
        assert_eq!(kinds("99999999999999999999"), [TokenKind::Integer(None)]);
        for text in
            ["1.5", ".5", "1e9", "1.e-3", "2.5d", "'a'", r"'\''", "\"a\\\"b\"", "L\"x\"", "L'x'"]
        {
            assert_eq!(kinds(text), [TokenKind::OtherLiteral], "{text}");
        }
        assert_eq!(
            messages("08 1x 0x \"open\n'"),
            [
                "1:1: expected a number",
                "1:4: expected a number",
                "1:7: expected a number",
                "1:10: this literal has no end, expected \" on the same line",
                "2:1: this literal has no end, expected ' on the same line",
            ]
        );
    }

    #[test]
    fn comments_are_blanks() {
        assert_eq!(kinds("// a\n/* b * / \n */ ; //"), [TokenKind::Punctuation(";")]);
        assert_eq!(messages(" /* open"), ["1:2: this comment has no end, expected `*/`"]);
        assert_eq!(messages("/*/").len(), 1);
    }

    #[test]
    fn annotations_and_strangers() {
        assert_eq!(kinds("@key"), [TokenKind::Annotation("key".to_owned())]);
        assert_eq!(messages("@ § #include <x>").len(), 3);
    }
}
