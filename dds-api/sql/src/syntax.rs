//! The syntax tree of an expression that is not yet bound to a type.
//!
//! Owns: the shape of the tree. Never does: know a type.

use std::fmt;

/// A condition over one sample.
#[derive(Clone, PartialEq, Debug)]
pub enum Condition {
    /// All of these conditions hold.
    And(Vec<Condition>),
    /// At least one of these conditions holds.
    Or(Vec<Condition>),
    /// This condition does not hold.
    Not(Box<Condition>),
    /// A single test.
    Test(Predicate),
}

/// A single test.
#[derive(Clone, PartialEq, Debug)]
pub enum Predicate {
    /// Compares two values, at least one of them a member.
    Compare(Operand, Relation, Operand),
    /// Tests whether a member lies between two values, or equals one of them.
    Between(Operand, Operand, Operand),
    /// Tests a text against a pattern, in which `%` stands for any text and `_` for one character.
    /// One of the two is a member.
    Like(Operand, Operand),
    /// Tests a member's text against patterns with commas between them, in which `*` stands for
    /// any text, `?` for one character, and `[a-z]` for one of these.
    Match(Operand, Operand),
}

/// Comparison of two values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Relation {
    /// `=`
    Equal,
    /// `<>`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

/// A compared value, with its position.
#[derive(Clone, PartialEq, Debug)]
pub struct Operand {
    /// The value.
    pub kind: OperandKind,
    /// Position in bytes from the beginning of the expression.
    pub at: usize,
}

/// Kinds of compared values.
#[derive(Clone, PartialEq, Debug)]
pub enum OperandKind {
    /// A member.
    Field(FieldName),
    /// A value in the expression.
    Literal(Literal),
    /// A parameter that is given separately, by its number.
    Parameter(u8),
}

/// A value as written. Its meaning depends on the member with which it is compared.
#[derive(Clone, PartialEq, Debug)]
pub enum Literal {
    /// A whole number of up to 64 bits.
    Integer(i128),
    /// Any other number, as written.
    Float(String),
    /// A text, a character or an enumerator, in quotes.
    Quoted(String),
    /// TRUE, FALSE or an enumerator.
    Word(String),
}

impl fmt::Display for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Literal::Integer(value) => write!(f, "{value}"),
            Literal::Float(text) => f.write_str(text),
            Literal::Quoted(text) => write!(f, "'{text}'"),
            Literal::Word(word) => f.write_str(word),
        }
    }
}

/// A member of a sample, or of a member: `position.axes[2].value`, `names['a']`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FieldName {
    /// Steps from the outermost member inwards.
    pub steps: Vec<FieldStep>,
}

/// A step towards a member.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FieldStep {
    /// To the member of this name.
    Member(String),
    /// To the element of this index, or to the map entry whose key is this number.
    Element(i64),
    /// To the map entry with this key.
    Key(String),
}

impl fmt::Display for FieldName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, step) in self.steps.iter().enumerate() {
            match step {
                FieldStep::Member(name) if index == 0 => f.write_str(name)?,
                FieldStep::Member(name) => write!(f, ".{name}")?,
                FieldStep::Element(element) => write!(f, "[{element}]")?,
                FieldStep::Key(key) if key.contains('\'') => write!(f, "[\"{key}\"]")?,
                FieldStep::Key(key) => write!(f, "['{key}']")?,
            }
        }
        Ok(())
    }
}

/// The selection and the order of samples.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Query {
    /// Selects all samples if `None`.
    pub condition: Option<Condition>,
    /// Members that determine the order; later ones decide among equals. With their positions in
    /// the expression.
    pub order_by: Vec<(FieldName, usize)>,
}

/// Definition of a multi-topic.
#[derive(Clone, PartialEq, Debug)]
pub struct Selection {
    /// The members of its samples; empty for all members of all topics.
    pub columns: Vec<Column>,
    /// The topics, which are joined by their common members. With their positions in
    /// the expression.
    pub topics: Vec<(String, usize)>,
    /// Selects all samples if `None`.
    pub condition: Option<Condition>,
}

/// A member of a multi-topic's samples.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Column {
    /// The topic member from which the column is taken.
    pub field: FieldName,
    /// Position in the expression.
    pub at: usize,
    /// Name of the column; `None` for the member's own name.
    pub name: Option<String>,
}
