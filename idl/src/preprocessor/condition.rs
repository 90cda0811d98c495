//! Evaluation of the conditions of `#if` and `#elif`.
//!
//! Owns the arithmetic of conditions: 64 bits, unknown names are 0, `defined NAME`.

use crate::diagnostic::Checked;
use crate::lexer::{Lexer, Token, TokenKind};
use crate::literal::{Number, number};
use crate::source::Span;

use super::Preprocessor;
use super::macros::Queued;

/// Maximum nesting depth of parentheses and signs.
const MAX_DEPTH: usize = 64;

/// Binary operators, the loosest binding first.
const LEVELS: [&[&str]; 10] = [
    &["||"],
    &["&&"],
    &["|"],
    &["^"],
    &["&"],
    &["==", "!="],
    &["<", "<=", ">", ">="],
    &["<<", ">>"],
    &["+", "-"],
    &["*", "/", "%"],
];

struct Condition<'c, 'a> {
    preprocessor: &'c mut Preprocessor<'a>,
    tokens: std::vec::IntoIter<Token>,
    here: Option<Token>,
    place: Span,
    depth: usize,
}

impl Preprocessor<'_> {
    /// Whether a condition holds; a condition with an error does not hold.
    pub(super) fn condition(&mut self, tokens: Vec<Token>, place: Span) -> bool {
        let Ok(tokens) = self.without_defined(tokens) else { return false };
        let tokens: Vec<Token> =
            self.expand_all(tokens).into_iter().map(Queued::into_token).collect();
        let mut tokens = tokens.into_iter();
        let here = tokens.next();
        let mut condition = Condition { preprocessor: self, tokens, here, place, depth: 0 };
        let Ok(value) = condition.choice() else { return false };
        if let Some(token) = condition.here.take() {
            let text =
                format!("expected an operator or the end of the line, found `{}`", token.text());
            self.reports.error(token.span, text);
            return false;
        }
        value != 0
    }

    /// Evaluates `defined NAME` and `defined(NAME)` before macros are expanded.
    fn without_defined(&mut self, tokens: Vec<Token>) -> Checked<Vec<Queued>> {
        let mut out: Vec<Queued> = Vec::new();
        let mut tokens = tokens.into_iter();
        while let Some(token) = tokens.next() {
            if token.word() != Some("defined") {
                out.push(token.into());
                continue;
            }
            let mut next = tokens.next();
            let parenthesis = next.as_ref().is_some_and(|token| token.is("("));
            if parenthesis {
                next = tokens.next();
            }
            let name = next.as_ref().and_then(|token| Lexer::macro_name(&token.kind));
            let closed = !parenthesis || tokens.next().is_some_and(|token| token.is(")"));
            let (Some(name), true) = (name, closed) else {
                let text = "expected `defined NAME` or `defined(NAME)`";
                return Err(self.reports.error(token.span, text));
            };
            let value = if self.is_defined(&name) { "1" } else { "0" };
            out.push(Token { kind: TokenKind::Number(value.into()), ..token }.into());
        }
        Ok(out)
    }
}

impl Condition<'_, '_> {
    fn advance(&mut self) -> Option<Token> {
        std::mem::replace(&mut self.here, self.tokens.next())
    }

    fn take(&mut self, mark: &str) -> bool {
        let found = self.here.as_ref().is_some_and(|token| token.is(mark));
        if found {
            self.advance();
        }
        found
    }

    fn wrong<T>(&mut self, text: String) -> Checked<T> {
        let span = self.here.as_ref().map_or(self.place, |token| token.span);
        Err(self.preprocessor.reports.error(span, text))
    }

    fn choice(&mut self) -> Checked<i64> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return self.wrong("the condition is nested too deep".to_owned());
        }
        let value = self.level(0)?;
        let value = if self.take("?") {
            let yes = self.choice()?;
            if !self.take(":") {
                return self.wrong("expected `:` after `?`".to_owned());
            }
            let no = self.choice()?;
            if value != 0 { yes } else { no }
        } else {
            value
        };
        self.depth -= 1;
        Ok(value)
    }

    fn level(&mut self, level: usize) -> Checked<i64> {
        let Some(operators) = LEVELS.get(level) else { return self.unary() };
        let mut value = self.level(level + 1)?;
        loop {
            let found = match self.here.as_ref().map(|token| &token.kind) {
                Some(TokenKind::Mark(mark)) => *mark,
                _ => return Ok(value),
            };
            // The lexer returns `>>` as two adjacent marks.
            let shift = found == ">"
                && self.tokens.as_slice().first().is_some_and(|t| t.is(">") && !t.spaced);
            let found = if shift { ">>" } else { found };
            if !operators.contains(&found) {
                return Ok(value);
            }
            self.advance();
            if shift {
                self.advance();
            }
            let right = self.level(level + 1)?;
            value = match apply(found, value, right) {
                Some(value) => value,
                None => return self.wrong(format!("`{found}` cannot be evaluated here")),
            };
        }
    }

    fn unary(&mut self) -> Checked<i64> {
        let mut signs = Vec::new();
        while let Some(TokenKind::Mark(mark @ ("!" | "-" | "+" | "~"))) =
            self.here.as_ref().map(|token| &token.kind)
        {
            signs.push(*mark);
            self.advance();
        }
        let value = self.primary()?;
        Ok(signs.into_iter().rev().fold(value, |value, sign| match sign {
            "!" => i64::from(value == 0),
            "-" => value.wrapping_neg(),
            "~" => !value,
            _ => value,
        }))
    }

    fn primary(&mut self) -> Checked<i64> {
        let Some(token) = self.here.clone() else {
            return self.wrong("expected a condition, found the end of the line".to_owned());
        };
        let value = match &token.kind {
            TokenKind::Number(text) => match number(text) {
                Ok(Number::Integer(value)) => value as i64,
                _ => return self.wrong(format!("expected an integer, found `{text}`")),
            },
            TokenKind::Word { text, .. } => i64::from(&**text == "TRUE"),
            TokenKind::Char { value, .. } => i64::from(u32::from(*value)),
            TokenKind::Mark("(") => {
                self.advance();
                let value = self.choice()?;
                if !self.take(")") {
                    return self.wrong("expected `)`".to_owned());
                }
                return Ok(value);
            }
            _ => return self.wrong(format!("expected a number, found `{}`", token.text())),
        };
        self.advance();
        Ok(value)
    }
}

fn apply(operator: &str, a: i64, b: i64) -> Option<i64> {
    Some(match operator {
        "||" => i64::from(a != 0 || b != 0),
        "&&" => i64::from(a != 0 && b != 0),
        "|" => a | b,
        "^" => a ^ b,
        "&" => a & b,
        "==" => i64::from(a == b),
        "!=" => i64::from(a != b),
        "<" => i64::from(a < b),
        "<=" => i64::from(a <= b),
        ">" => i64::from(a > b),
        ">=" => i64::from(a >= b),
        "<<" => a.checked_shl(u32::try_from(b).ok()?)?,
        ">>" => a.checked_shr(u32::try_from(b).ok()?)?,
        "+" => a.wrapping_add(b),
        "-" => a.wrapping_sub(b),
        "*" => a.wrapping_mul(b),
        "/" => a.checked_div(b)?,
        _ => a.checked_rem(b)?,
    })
}
