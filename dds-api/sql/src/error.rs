//! What is wrong with an expression, and where.
//!
//! Owns: the words of it. Never does: quote an expression without the place.

use std::fmt;

/// An expression that means nothing, or nothing for the type that it is about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExpressionError {
    expression: String,
    position: usize,
    reason: String,
}

/// What is shown of a long expression, to either side of the place.
const SHOWN: usize = 60;

impl ExpressionError {
    /// Something is wrong at this place, in bytes from the beginning.
    pub fn new(expression: &str, position: usize, reason: impl Into<String>) -> Self {
        let position = position.min(expression.len());
        ExpressionError { expression: expression.to_owned(), position, reason: reason.into() }
    }

    /// Where, in bytes from the beginning of the expression.
    pub fn position(&self) -> usize {
        self.position
    }

    /// What is wrong there, and what would be right.
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
    /// The place as an editor counts it, from 1.
    fn column(&self) -> usize {
        self.expression[..self.position].chars().count() + 1
    }
}

impl std::error::Error for ExpressionError {}
