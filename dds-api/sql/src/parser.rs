//! Parsing of tokens, by the grammar of the standard's annex B.
//!
//! ```text
//!   filter    condition
//!   query     [condition] [ORDER BY field, ...]
//!   topic     SELECT * | field [AS name], ... FROM topic [NATURAL JOIN topic ...]
//!             [WHERE condition] [;]
//!
//!   condition any  { OR any }          any   all { AND all }
//!   all       NOT all | ( condition ) | value relation value | field [NOT] BETWEEN value AND value
//!                                     | field [NOT] LIKE (value | field) | value [NOT] LIKE field
//!                                     | field [NOT] MATCH value
//! ```
//! Owns: the grammar. Never does: recurse deeper than [`DEEPEST`], for any input.

use idl_cdr::PathStep;

use crate::error::ExpressionError;
use crate::lexer::{Token, TokenKind, literal, tokens};
use crate::syntax::{
    Column, Condition, FieldName, FieldStep, Literal, Operand, OperandKind, Predicate, Query,
    Relation, Selection,
};

/// Maximum nesting depth of parentheses and NOT.
pub const DEEPEST: usize = 64;

/// Keywords that continue an expression, so that they cannot name a member or value.
///
/// MATCH is none of them, because it only follows a member.
const KEYWORDS: [&str; 12] = [
    "AND", "OR", "NOT", "BETWEEN", "LIKE", "ORDER", "WHERE", "FROM", "NATURAL", "INNER", "JOIN",
    "AS",
];

impl Condition {
    /// Parses a filter expression.
    pub fn parse(text: &str) -> Result<Condition, ExpressionError> {
        let mut parser = Parser::new(text)?;
        let condition = parser.condition(0)?;
        parser.end("AND, OR or the end")?;
        Ok(condition)
    }
}

impl Query {
    /// Parses a query expression.
    pub fn parse(text: &str) -> Result<Query, ExpressionError> {
        let mut parser = Parser::new(text)?;
        let mut query = Query::default();
        if !parser.is_word("ORDER") && parser.peek() != &TokenKind::End {
            query.condition = Some(parser.condition(0)?);
        }
        if parser.word("ORDER") {
            parser.expect_word("BY")?;
            query.order_by.push(parser.field()?);
            while parser.sign(",") {
                query.order_by.push(parser.field()?);
            }
        }
        parser.end("AND, OR, ORDER BY or the end")?;
        Ok(query)
    }
}

impl Selection {
    /// Parses a topic expression, which defines a multi-topic.
    pub fn parse(text: &str) -> Result<Selection, ExpressionError> {
        let mut parser = Parser::new(text)?;
        parser.expect_word("SELECT")?;
        let mut columns = Vec::new();
        if !parser.sign("*") {
            columns.push(parser.column()?);
            while parser.sign(",") {
                columns.push(parser.column()?);
            }
        }
        parser.expect_word("FROM")?;
        let mut topics = vec![parser.topic()?];
        topics.extend(parser.joins(0)?);
        let mut condition = None;
        if parser.word("WHERE") {
            condition = Some(parser.condition(0)?);
        }
        parser.sign(";");
        parser.end("NATURAL JOIN, WHERE or the end")?;
        Ok(Selection { columns, topics, condition })
    }
}

impl Literal {
    /// Parses the text of a parameter, which means the same as it would in the expression.
    pub fn parse(text: &str) -> Result<Literal, ExpressionError> {
        match literal(text)? {
            TokenKind::Integer(value) => Ok(Literal::Integer(value)),
            TokenKind::Float(value) => Ok(Literal::Float(value)),
            TokenKind::Quoted(text) => Ok(Literal::Quoted(text)),
            TokenKind::Name(word) if !word.contains(['.', '[']) => Ok(Literal::Word(word)),
            other => {
                let reason = format!("a value was expected, found {}", other.describe());
                Err(ExpressionError::new(text, 0, reason))
            }
        }
    }
}

struct Parser<'a> {
    text: &'a str,
    tokens: Vec<Token>,
    next: usize,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str) -> Result<Self, ExpressionError> {
        Ok(Parser { text, tokens: tokens(text)?, next: 0 })
    }

    fn token(&self) -> &Token {
        // The last token is the end, which is never passed.
        &self.tokens[self.next.min(self.tokens.len() - 1)]
    }

    fn peek(&self) -> &TokenKind {
        &self.token().kind
    }

    fn at(&self) -> usize {
        self.token().at
    }

    fn error(&self, at: usize, reason: impl Into<String>) -> ExpressionError {
        ExpressionError::new(self.text, at, reason)
    }

    fn expected(&self, what: &str) -> ExpressionError {
        self.error(self.at(), format!("{what} was expected, found {}", self.peek().describe()))
    }

    fn is_word(&self, word: &str) -> bool {
        matches!(self.peek(), TokenKind::Name(name) if name.eq_ignore_ascii_case(word))
    }

    fn word(&mut self, word: &str) -> bool {
        let is = self.is_word(word);
        self.next += usize::from(is);
        is
    }

    fn expect_word(&mut self, word: &str) -> Result<(), ExpressionError> {
        if self.word(word) { Ok(()) } else { Err(self.expected(word)) }
    }

    fn sign(&mut self, sign: &str) -> bool {
        let is = matches!(self.peek(), TokenKind::Sign(found) if *found == sign);
        self.next += usize::from(is);
        is
    }

    fn end(&self, what: &str) -> Result<(), ExpressionError> {
        if *self.peek() == TokenKind::End { Ok(()) } else { Err(self.expected(what)) }
    }

    fn condition(&mut self, depth: usize) -> Result<Condition, ExpressionError> {
        let mut any = vec![self.all(depth)?];
        while self.word("OR") {
            any.push(self.all(depth)?);
        }
        Ok(one_or(any, Condition::Or))
    }

    fn all(&mut self, depth: usize) -> Result<Condition, ExpressionError> {
        let mut all = vec![self.negation(depth)?];
        while self.word("AND") {
            all.push(self.negation(depth)?);
        }
        Ok(one_or(all, Condition::And))
    }

    fn negation(&mut self, depth: usize) -> Result<Condition, ExpressionError> {
        if depth > DEEPEST {
            let reason = format!("an expression is nested {DEEPEST} deep at most");
            return Err(self.error(self.at(), reason));
        }
        if self.word("NOT") {
            return Ok(Condition::Not(Box::new(self.negation(depth + 1)?)));
        }
        let opening = self.at();
        if self.sign("(") {
            let condition = self.condition(depth + 1)?;
            if self.sign(")") {
                return Ok(condition);
            }
            return match self.peek() {
                TokenKind::End => Err(self.error(opening, "this parenthesis is not closed")),
                _ => Err(self.expected("AND, OR or `)`")),
            };
        }
        self.predicate()
    }

    fn predicate(&mut self) -> Result<Condition, ExpressionError> {
        let left = self.operand()?;
        let negated = self.word("NOT");
        let is_field = matches!(left.kind, OperandKind::Field(_));
        let test = if !is_field && self.word("LIKE") {
            let pattern = self.operand()?;
            if !matches!(pattern.kind, OperandKind::Field(_)) {
                return Err(self.error(left.at, "a member was expected before or after LIKE"));
            }
            Predicate::Like(left, pattern)
        } else if self.is_word("BETWEEN") || self.is_word("LIKE") || self.is_word("MATCH") {
            if !is_field {
                return Err(self.error(left.at, "a member was expected before BETWEEN and MATCH"));
            }
            if self.word("LIKE") {
                Predicate::Like(left, self.operand()?)
            } else if self.word("MATCH") {
                Predicate::Match(left, self.value()?)
            } else {
                self.expect_word("BETWEEN")?;
                let low = self.value()?;
                self.expect_word("AND")?;
                Predicate::Between(left, low, self.value()?)
            }
        } else if negated {
            return Err(self.expected("BETWEEN, LIKE or MATCH"));
        } else {
            let relation = self.relation()?;
            let right = self.operand()?;
            let is_field = |operand: &Operand| matches!(operand.kind, OperandKind::Field(_));
            if !is_field(&left) && !is_field(&right) {
                let reason = "two values are compared here, and none of them is a member; an empty \
                              expression selects all samples";
                return Err(self.error(left.at, reason));
            }
            Predicate::Compare(left, relation, right)
        };
        let test = Condition::Test(test);
        Ok(if negated { Condition::Not(Box::new(test)) } else { test })
    }

    fn relation(&mut self) -> Result<Relation, ExpressionError> {
        let relations = [
            ("=", Relation::Equal),
            ("<>", Relation::NotEqual),
            ("<=", Relation::LessOrEqual),
            ("<", Relation::Less),
            (">=", Relation::GreaterOrEqual),
            (">", Relation::Greater),
        ];
        let found = relations.into_iter().find(|(sign, _)| self.sign(sign));
        found.map(|(_, relation)| relation).ok_or_else(|| {
            self.expected("a comparison (`=`, `<>`, `<`, `<=`, `>`, `>=`, LIKE, MATCH, BETWEEN)")
        })
    }

    /// Parses a value that is no member.
    fn value(&mut self) -> Result<Operand, ExpressionError> {
        let operand = self.operand()?;
        match operand.kind {
            // A single word may be a member or an enumerator. Only the type of the other member
            // decides that.
            OperandKind::Field(FieldName { steps }) => match steps.as_slice() {
                [FieldStep::Member(word)] => {
                    let kind = OperandKind::Literal(Literal::Word(word.clone()));
                    Ok(Operand { kind, at: operand.at })
                }
                _ => Err(self.error(operand.at, "a value was expected here, and this is a member")),
            },
            kind => Ok(Operand { kind, at: operand.at }),
        }
    }

    fn operand(&mut self) -> Result<Operand, ExpressionError> {
        let at = self.at();
        let kind = match self.peek().clone() {
            TokenKind::Integer(value) => OperandKind::Literal(Literal::Integer(value)),
            TokenKind::Float(value) => OperandKind::Literal(Literal::Float(value)),
            TokenKind::Quoted(text) => OperandKind::Literal(Literal::Quoted(text)),
            TokenKind::Parameter(number) => OperandKind::Parameter(number),
            TokenKind::Name(name) if is_boolean(&name) => OperandKind::Literal(Literal::Word(name)),
            TokenKind::Name(name) if !is_keyword(&name) => OperandKind::Field(steps_of(&name)),
            _ => return Err(self.expected("a member or a value")),
        };
        self.next += 1;
        Ok(Operand { kind, at })
    }

    fn field(&mut self) -> Result<(FieldName, usize), ExpressionError> {
        let at = self.at();
        match self.peek() {
            TokenKind::Name(name) if !is_keyword(name) => {
                let field = steps_of(name);
                self.next += 1;
                Ok((field, at))
            }
            _ => Err(self.expected("a member's name")),
        }
    }

    fn column(&mut self) -> Result<Column, ExpressionError> {
        let (field, at) = self.field()?;
        let has_as = self.word("AS");
        let named = matches!(self.peek(), TokenKind::Name(name) if !is_keyword(name));
        let name = if has_as || named { Some(self.plain_name("a name")?.0) } else { None };
        Ok(Column { field, at, name })
    }

    fn topic(&mut self) -> Result<(String, usize), ExpressionError> {
        self.plain_name("a topic's name")
    }

    fn plain_name(&mut self, what: &str) -> Result<(String, usize), ExpressionError> {
        let at = self.at();
        match self.peek().clone() {
            TokenKind::Name(name) if !is_keyword(&name) && !name.contains(['.', '[']) => {
                self.next += 1;
                Ok((name, at))
            }
            // A name with other characters may be quoted, because topics may have any name.
            TokenKind::Quoted(name) => {
                self.next += 1;
                Ok((name, at))
            }
            _ => Err(self.expected(what)),
        }
    }

    /// Accepts `NATURAL JOIN`, `INNER NATURAL JOIN` and `NATURAL INNER JOIN` as equivalent.
    fn joins(&mut self, depth: usize) -> Result<Vec<(String, usize)>, ExpressionError> {
        let mut topics = Vec::new();
        while self.is_word("NATURAL") || self.is_word("INNER") {
            let inner = self.word("INNER");
            self.expect_word("NATURAL")?;
            if !inner {
                self.word("INNER");
            }
            self.expect_word("JOIN")?;
            if self.sign("(") {
                if depth > DEEPEST {
                    let reason = format!("an expression is nested {DEEPEST} deep at most");
                    return Err(self.error(self.at(), reason));
                }
                topics.push(self.topic()?);
                topics.extend(self.joins(depth + 1)?);
                if !self.sign(")") {
                    return Err(self.expected("NATURAL JOIN or `)`"));
                }
            } else {
                topics.push(self.topic()?);
            }
        }
        Ok(topics)
    }
}

fn one_or(mut many: Vec<Condition>, join: impl FnOnce(Vec<Condition>) -> Condition) -> Condition {
    match many.len() {
        1 => many.remove(0),
        _ => join(many),
    }
}

pub(crate) fn is_boolean(name: &str) -> bool {
    name.eq_ignore_ascii_case("TRUE") || name.eq_ignore_ascii_case("FALSE")
}

fn is_keyword(name: &str) -> bool {
    KEYWORDS.iter().any(|keyword| name.eq_ignore_ascii_case(keyword))
}

/// The lexer guarantees that the name is a path.
fn steps_of(name: &str) -> FieldName {
    let steps = idl_cdr::parse_path(name).unwrap_or_default();
    let steps = steps.into_iter().map(|(_, step)| match step {
        PathStep::Member(name) => FieldStep::Member(name),
        PathStep::Index(index) => FieldStep::Element(index),
        PathStep::Key(key) => FieldStep::Key(key),
    });
    FieldName { steps: steps.collect() }
}
