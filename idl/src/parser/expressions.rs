//! Parsing of constant expressions.

use std::rc::Rc;

use crate::diagnostic::Checked;
use crate::lexer::TokenKind;
use crate::literal::number;
use crate::syntax::{Expression, ExpressionKind};

use super::{MAX_NESTING, Parser};

/// Maximum number of operators in one expression.
const MAX_OPERATORS: usize = 512;

/// Maximum length of a string concatenated from several literals.
const MAX_STRING: usize = 1 << 20;

/// Binary operators, the loosest binding first.
const LEVELS: [&[&str]; 6] = [&["|"], &["^"], &["&"], &["<<", ">>"], &["+", "-"], &["*", "/", "%"]];

/// Syntactic context of an expression.
#[derive(Clone, Copy)]
struct ExpressionContext {
    /// Whether `>` closes the surrounding construct, as in `string<8>`; false within parentheses.
    angles: bool,
    depth: usize,
}

impl Parser<'_> {
    /// Reads an expression.
    pub(super) fn expression(&mut self) -> Checked<Expression> {
        self.operators(ExpressionContext { angles: false, depth: 0 })
    }

    /// Reads an expression between `<` and `>`.
    pub(super) fn expression_in_angles(&mut self) -> Checked<Expression> {
        self.operators(ExpressionContext { angles: true, depth: 0 })
    }

    fn operators(&mut self, inside: ExpressionContext) -> Checked<Expression> {
        let mut count = 0;
        self.level(0, inside, &mut count)
    }

    fn level(
        &mut self,
        level: usize,
        inside: ExpressionContext,
        count: &mut usize,
    ) -> Checked<Expression> {
        let Some(operators) = LEVELS.get(level) else { return self.unary(inside, count) };
        let mut left = self.level(level + 1, inside, count)?;
        while let Some(operator) = self.operator(operators, inside) {
            *count += 1;
            if *count > MAX_OPERATORS {
                let span = self.previous();
                return Err(self.reports.error(span, "this expression is too long"));
            }
            let right = self.level(level + 1, inside, count)?;
            let span = left.span.to(right.span);
            let kind = ExpressionKind::Binary(operator, Box::new(left), Box::new(right));
            left = Expression { kind, span };
        }
        Ok(left)
    }

    fn operator(
        &mut self,
        operators: &[&'static str],
        inside: ExpressionContext,
    ) -> Option<&'static str> {
        let TokenKind::Mark(found) = self.peek().kind else { return None };
        let next = self.peek_second();
        // The lexer returns `>>` as two adjacent marks.
        let shift = found == ">" && next.is(">") && !next.spaced && !inside.angles;
        let found = if shift { ">>" } else { found };
        let operator = operators.iter().copied().find(|operator| *operator == found)?;
        self.advance();
        if shift {
            self.advance();
        }
        Some(operator)
    }

    fn unary(&mut self, inside: ExpressionContext, count: &mut usize) -> Checked<Expression> {
        let start = self.peek().span;
        if inside.depth > MAX_NESTING {
            let text = format!("expressions are nested more than {MAX_NESTING} deep");
            return Err(self.reports.error(start, text));
        }
        for sign in ['-', '+', '~'] {
            if self.take(&sign.to_string()) {
                let deeper = ExpressionContext { depth: inside.depth + 1, ..inside };
                let operand = self.unary(deeper, count)?;
                let span = start.to(operand.span);
                let kind = ExpressionKind::Unary(sign, Box::new(operand));
                return Ok(Expression { kind, span });
            }
        }
        if self.take("(") {
            let deeper = ExpressionContext { angles: false, depth: inside.depth + 1 };
            let mut inner = self.level(0, deeper, count)?;
            self.expect("an operator or `)`")?;
            inner.span = start.to(self.previous());
            return Ok(inner);
        }
        self.primary()
    }

    fn primary(&mut self) -> Checked<Expression> {
        let token = self.peek().clone();
        let kind = match token.kind {
            TokenKind::Number(text) => match number(&text) {
                Ok(value) => ExpressionKind::Number(value),
                Err(message) => {
                    self.advance();
                    return Err(self.reports.error(token.span, message));
                }
            },
            TokenKind::String { wide, .. } => return self.strings(wide),
            TokenKind::Char { wide, value } => ExpressionKind::Char { wide, value },
            TokenKind::Word { ref text, escaped: false } if is_boolean(text) => {
                ExpressionKind::Boolean(matches!(&**text, "TRUE" | "true"))
            }
            TokenKind::Word { ref text, escaped: false }
                if matches!(text.to_ascii_uppercase().as_str(), "TRUE" | "FALSE") =>
            {
                let meant = text.to_ascii_uppercase();
                self.advance();
                let message =
                    format!("`{text}` is spelt `{meant}` in IDL; did you mean `{meant}`?");
                return Err(self.reports.error(token.span, message));
            }
            TokenKind::Word { .. } | TokenKind::Mark("::") => {
                let path = self.path("a value")?;
                let span = path.span;
                return Ok(Expression { kind: ExpressionKind::Name(path), span });
            }
            _ => return Err(self.expected("a value")),
        };
        self.advance();
        Ok(Expression { kind, span: token.span })
    }

    /// Reads adjacent strings as one.
    fn strings(&mut self, wide: bool) -> Checked<Expression> {
        let start = self.peek().span;
        let mut whole = String::new();
        while let TokenKind::String { wide: also_wide, value } = &self.peek().kind {
            whole += value;
            if *also_wide != wide || whole.len() > MAX_STRING {
                let message = if whole.len() > MAX_STRING {
                    "this string is too long"
                } else {
                    "a wide and a narrow string cannot be joined; write L in front of all or none"
                };
                let span = self.peek().span;
                return Err(self.reports.error(span, message));
            }
            self.advance();
        }
        let value: Rc<str> = whole.into();
        let kind = ExpressionKind::String { wide, value };
        Ok(Expression { kind, span: start.to(self.previous()) })
    }
}

/// Whether a word is a boolean. The standard has capitals only; other compilers write both.
fn is_boolean(word: &str) -> bool {
    matches!(word, "TRUE" | "FALSE" | "true" | "false")
}
