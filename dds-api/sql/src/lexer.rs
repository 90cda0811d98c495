//! Division of an expression into tokens.
//!
//! Owns: the form of tokens. Never does: know a keyword; any word may be a member's name.

use idl_cdr::LongDouble;

use crate::error::ExpressionError;

/// Maximum length of an expression in bytes.
pub(crate) const LONGEST: usize = 1 << 16;

/// A token with its position.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Token {
    pub(crate) kind: TokenKind,
    /// Position in bytes from the beginning.
    pub(crate) at: usize,
}

#[derive(Clone, PartialEq, Debug)]
pub(crate) enum TokenKind {
    /// A keyword, a name with its dots and indices, or an enumerator.
    Name(String),
    Integer(i128),
    /// Kept as written, because the nearest number depends on the member with which it is compared.
    Float(String),
    /// Text in single quotes: a string, a character or an enumerator.
    Quoted(String),
    /// `%n`.
    Parameter(u8),
    /// `=`, `<>`, `(` and the like.
    Sign(&'static str),
    End,
}

impl TokenKind {
    /// Description for error messages.
    pub(crate) fn describe(&self) -> String {
        match self {
            TokenKind::Name(name) => format!("`{name}`"),
            TokenKind::Integer(value) => format!("`{value}`"),
            TokenKind::Float(text) => format!("`{text}`"),
            TokenKind::Quoted(text) => format!("'{text}'"),
            TokenKind::Parameter(number) => format!("`%{number}`"),
            TokenKind::Sign(sign) => format!("`{sign}`"),
            TokenKind::End => "the end".to_owned(),
        }
    }
}

/// Longer signs come first.
const SIGNS: [&str; 12] = ["<>", "!=", "<=", ">=", "=", "<", ">", "(", ")", ",", ";", "*"];

/// All tokens of an expression, followed by an end token.
pub(crate) fn tokens(text: &str) -> Result<Vec<Token>, ExpressionError> {
    if text.len() > LONGEST {
        let reason =
            format!("an expression has {LONGEST} bytes at most, and this has {}", text.len());
        return Err(ExpressionError::new("", 0, reason));
    }
    let mut tokens = Vec::new();
    let mut lexer = Lexer { text, at: 0 };
    while let Some(token) = lexer.next()? {
        tokens.push(token);
    }
    tokens.push(Token { kind: TokenKind::End, at: text.len() });
    Ok(tokens)
}

/// The single token in the text of a parameter or of a separate literal.
pub(crate) fn literal(text: &str) -> Result<TokenKind, ExpressionError> {
    let all = tokens(text)?;
    match all.as_slice() {
        [Token { kind, .. }, end] if end.kind == TokenKind::End => Ok(kind.clone()),
        [_, second, ..] => {
            Err(ExpressionError::new(text, second.at, "one value was expected, and here is more"))
        }
        _ => Err(ExpressionError::new(text, 0, "a value was expected, and here is none")),
    }
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
}

impl Lexer<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn error(&self, at: usize, reason: impl Into<String>) -> ExpressionError {
        ExpressionError::new(self.text, at, reason)
    }

    /// Length in bytes of the following characters for which `of` holds.
    fn run(&self, of: impl Fn(char) -> bool) -> usize {
        self.rest().find(|c| !of(c)).unwrap_or(self.rest().len())
    }

    fn next(&mut self) -> Result<Option<Token>, ExpressionError> {
        self.at += self.run(char::is_whitespace);
        let at = self.at;
        let Some(first) = self.rest().chars().next() else { return Ok(None) };
        let kind = match first {
            '\'' => self.quoted()?,
            '%' => self.parameter()?,
            '0'..='9' | '+' | '-' | '.' => self.number()?,
            first if is_name(first) => self.name()?,
            _ => {
                let sign = SIGNS.iter().find(|sign| self.rest().starts_with(**sign));
                let unknown = || self.error(at, format!("`{first}` means nothing here"));
                let sign = *sign.ok_or_else(unknown)?;
                self.at += sign.len();
                TokenKind::Sign(if sign == "!=" { "<>" } else { sign })
            }
        };
        Ok(Some(Token { kind, at }))
    }

    /// Two quotes in a row stand for one.
    fn quoted(&mut self) -> Result<TokenKind, ExpressionError> {
        let (start, mut text) = (self.at, String::new());
        self.at += 1;
        loop {
            let length = self.run(|c| c != '\'');
            text.push_str(&self.rest()[..length]);
            self.at += length;
            if self.rest().is_empty() {
                return Err(self.error(start, "this text has no closing quote"));
            }
            self.at += 1;
            if !self.rest().starts_with('\'') {
                return Ok(TokenKind::Quoted(text));
            }
            text.push('\'');
            self.at += 1;
        }
    }

    fn parameter(&mut self) -> Result<TokenKind, ExpressionError> {
        let start = self.at;
        self.at += 1;
        let length = self.run(|c| c.is_ascii_digit());
        let digits = &self.rest()[..length];
        let number = digits.parse().ok().filter(|number| *number < 100 && length <= 2);
        let Some(number) = number else {
            return Err(self.error(start, "a parameter is %0 to %99"));
        };
        self.at += length;
        Ok(TokenKind::Parameter(number))
    }

    fn number(&mut self) -> Result<TokenKind, ExpressionError> {
        let start = self.at;
        let signed = self.rest().starts_with(['+', '-']);
        let negative = self.rest().starts_with('-');
        self.at += usize::from(signed);
        if self.rest().starts_with("0x") || self.rest().starts_with("0X") {
            self.at += 2;
            let length = self.run(|c| c.is_ascii_alphanumeric());
            let value = i128::from_str_radix(&self.rest()[..length], 16);
            self.at += length;
            let value = value.ok().filter(|value| *value <= i128::from(u64::MAX));
            let none = || self.error(start, "this is no number of up to 64 bits");
            let value = value.ok_or_else(none)?;
            return Ok(TokenKind::Integer(if negative { -value } else { value }));
        }
        self.at += self.run(|c| c.is_ascii_digit() || c == '.');
        if self.rest().starts_with(['e', 'E']) {
            self.at += 1;
            self.at += usize::from(self.rest().starts_with(['+', '-']));
            self.at += self.run(|c| c.is_ascii_digit());
        }
        let stray = self.run(is_name);
        let text = &self.text[start..self.at + stray];
        let reason = format!("`{text}` is no number");
        if stray == 0 && text.bytes().all(|byte| byte.is_ascii_digit() || b"+-".contains(&byte)) {
            let value: i128 = text.parse().map_err(|_| self.error(start, reason))?;
            return match value >= i128::from(i64::MIN) && value <= i128::from(u64::MAX) {
                true => Ok(TokenKind::Integer(value)),
                false => Err(self.error(start, "this is no number of up to 64 bits")),
            };
        }
        match LongDouble::parse(text) {
            Some(value) if stray == 0 && value.is_finite() => Ok(TokenKind::Float(text.to_owned())),
            _ => Err(self.error(start, reason)),
        }
    }

    /// A name with its dots and indices.
    fn name(&mut self) -> Result<TokenKind, ExpressionError> {
        let start = self.at;
        loop {
            self.at += self.run(is_name);
            while self.rest().starts_with('[') {
                let bracket = self.at;
                let length = key(&self.rest()[1..]);
                let reason = "in brackets stands the number of an element, or the key of a map's entry: `[0]`, `['a']`";
                let length = length.ok_or_else(|| self.error(bracket, reason))?;
                self.at += length + 2;
            }
            let mut next = self.rest().chars();
            if next.next() != Some('.') {
                break;
            }
            if !next.next().is_some_and(is_name) {
                return Err(self.error(self.at, "a member's name was expected behind the dot"));
            }
            self.at += 1;
        }
        Ok(TokenKind::Name(self.text[start..self.at].to_owned()))
    }
}

/// Length of the number, word or quoted text that precedes a closing bracket.
fn key(text: &str) -> Option<usize> {
    let length = match text.chars().next()? {
        quote @ ('\'' | '"') => text[1..].find(quote)? + 2,
        _ => {
            let word = &text[..text.find(']')?];
            let is_word = !word.is_empty() && word.chars().all(is_name);
            (is_word || word.parse::<i64>().is_ok()).then_some(word.len())?
        }
    };
    text[length..].starts_with(']').then_some(length)
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}
