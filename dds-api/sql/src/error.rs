//! Faults in expressions, and their positions.
//!
//! Owns: the error text. Never does: quote an expression without the position.

use std::fmt;

/// An expression that is invalid, by itself or for its type.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExpressionError {
    expression: String,
    position: usize,
    reason: String,
}

/// Maximum number of characters shown of an expression on either side of the position.
const SHOWN: usize = 60;

impl ExpressionError {
    /// A fault at this position, in bytes from the beginning.
    pub fn new(expression: &str, position: usize, reason: impl Into<String>) -> Self {
        let position = position.min(expression.len());
        ExpressionError { expression: expression.to_owned(), position, reason: reason.into() }
    }

    /// Position of the fault, in bytes from the beginning of the expression.
    pub fn position(&self) -> usize {
        self.position
    }

    /// The fault, and the way to correct it.
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// The whole expression.
    pub fn expression(&self) -> &str {
        &self.expression
    }
}

impl fmt::Display for ExpressionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (before, after) = self.expression.split_at(self.position);
        let before: Vec<char> = before.chars().rev().take(SHOWN).collect();
        let before: String = before.into_iter().rev().collect();
        let after: String = after.chars().take(SHOWN).collect();
        write!(f, "at character {}: {}\n  {before}{after}\n", self.column(), self.reason)?;
        write!(f, "  {:>1$}", '^', before.chars().count() + 1)
    }
}

impl ExpressionError {
    /// Position in characters, counted from 1.
    fn column(&self) -> usize {
        self.expression[..self.position].chars().count() + 1
    }
}

impl std::error::Error for ExpressionError {}
