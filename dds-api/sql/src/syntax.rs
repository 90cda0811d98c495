//! What an expression says, before it is known what it is about.
//!
//! Owns: its shape. Never does: know a type.

use std::fmt;

/// A condition over one sample.
#[derive(Clone, PartialEq, Debug)]
pub enum Condition {
    /// All of these.
    And(Vec<Condition>),
    /// One of these at least.
    Or(Vec<Condition>),
    /// Not this.
    Not(Box<Condition>),
    /// A single test.
    Test(Predicate),
}

/// A single test.
#[derive(Clone, PartialEq, Debug)]
pub enum Predicate {
    /// Two values, one of them a member.
    Compare(Operand, Relation, Operand),
    /// A member between two values, or equal to one of them.
    Between(Operand, Operand, Operand),
    /// A member's text, and a pattern in which `%` stands for any text and `_` for one character.
    Like(Operand, Operand),
}

/// How two values are compared.
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

/// What is compared, and where it stands.
#[derive(Clone, PartialEq, Debug)]
pub struct Operand {
    /// What.
    pub kind: OperandKind,
    /// Where, in bytes from the beginning of the expression.
    pub at: usize,
}

/// What is compared.
#[derive(Clone, PartialEq, Debug)]
pub enum OperandKind {
    /// A member.
    Field(FieldName),
    /// A value that stands in the expression.
    Literal(Literal),
    /// A value that is given beside the expression, by its number.
    Parameter(u8),
}

/// A value as it is written. What it means depends on the member that it is compared with.
#[derive(Clone, PartialEq, Debug)]
pub enum Literal {
    /// A whole number of up to 64 bits.
    Integer(i128),
    /// Any other number, as it is written.
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
    /// From the outermost in.
    pub steps: Vec<Step>,
}

/// A step towards a member.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// To the member of this name.
    Member(String),
    /// To this element, or the entry of a map with this number as its key.
    Element(i64),
    /// To the entry of a map with this key.
    Key(String),
}

impl fmt::Display for FieldName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, step) in self.steps.iter().enumerate() {
            match step {
                Step::Member(name) if index == 0 => f.write_str(name)?,
                Step::Member(name) => write!(f, ".{name}")?,
                Step::Element(element) => write!(f, "[{element}]")?,
                Step::Key(key) if key.contains('\'') => write!(f, "[\"{key}\"]")?,
                Step::Key(key) => write!(f, "['{key}']")?,
            }
        }
        Ok(())
    }
}

/// Which samples, and in which order.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Query {
    /// All if there is none.
    pub condition: Option<Condition>,
    /// By the first of these, among equals by the second, and so on.
    pub order_by: Vec<(FieldName, usize)>,
}

/// What a multi-topic is made of.
#[derive(Clone, PartialEq, Debug)]
pub struct Selection {
    /// The members of its samples; all members of all topics if there are none.
    pub columns: Vec<Column>,
    /// The topics that are joined by the members that they have in common.
    pub topics: Vec<(String, usize)>,
    /// Which samples.
    pub condition: Option<Condition>,
}

/// A member of a multi-topic's samples.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Column {
    /// The member of a topic that it is taken from.
    pub field: FieldName,
    /// Where that stands in the expression.
    pub at: usize,
    /// What it is called; its own name if nothing is said.
    pub name: Option<String>,
}
