//! Binding of a condition to a type.
//!
//! Owns: the resolution of members, and the check whether a value can be compared with a member.
//! Never does: evaluate a sample.

use std::sync::Arc;

use idl_cdr::{LongDouble, MemberPath, PathError, TypeDescriptor, TypeKind};
use idl_xtypes::{DynamicType, MemberLookup, Primitive, ValueKind};

use crate::constant::Constant;
use crate::error::ExpressionError;
use crate::filter::BoundCondition;
use crate::parser::is_boolean;
use crate::syntax::{Condition, FieldName, Literal, Operand, OperandKind, Predicate, Relation};

/// Kind of a member, as far as comparisons need it.
#[derive(Clone, Debug)]
pub(crate) enum MemberKind {
    Boolean,
    Integer,
    /// 32 bits: values in expressions are rounded to what such a member can hold.
    Single,
    Float,
    /// Needs more precision than a double: long doubles and decimal numbers.
    Long,
    Character,
    Text,
    Enumeration(Arc<[(Arc<str>, i32)]>),
}

const HAS_ELEMENTS: &str = "has elements: say which, like `[0]`";
const HAS_ENTRIES: &str = "has entries: say which, by its key in brackets";

fn whole(name: &str) -> String {
    format!("is a whole `{name}`: say which of its members")
}

impl MemberKind {
    fn of(of: &'static TypeDescriptor) -> Result<MemberKind, String> {
        match of.kind {
            TypeKind::Optional(inner) | TypeKind::External(inner) => MemberKind::of(inner()),
            TypeKind::Primitive(size) => Ok(match (of.name, size) {
                ("boolean", _) => MemberKind::Boolean,
                ("char" | "wchar", _) => MemberKind::Character,
                ("float", _) => MemberKind::Single,
                ("double", _) => MemberKind::Float,
                ("long double", _) => MemberKind::Long,
                _ => MemberKind::Integer,
            }),
            TypeKind::String | TypeKind::WideString => Ok(MemberKind::Text),
            TypeKind::Fixed { .. } => Ok(MemberKind::Long),
            TypeKind::Enumeration { literals, .. } => {
                Ok(MemberKind::enumeration(literals.iter().map(|one| (one.name, one.value))))
            }
            TypeKind::Bitmask { .. } => Ok(MemberKind::Integer),
            TypeKind::Sequence(_) | TypeKind::Array(..) => Err(HAS_ELEMENTS.to_owned()),
            TypeKind::Map(..) => Err(HAS_ENTRIES.to_owned()),
            TypeKind::Bitset(_) | TypeKind::Structure(_) | TypeKind::Union(_) => {
                Err(whole(of.name))
            }
        }
    }

    /// As `of`, for a dynamic type.
    fn of_dynamic(of: &DynamicType) -> Result<MemberKind, String> {
        match of.value_kind() {
            ValueKind::Primitive(primitive) => Ok(match primitive {
                Primitive::Boolean => MemberKind::Boolean,
                Primitive::Char8 | Primitive::Char16 => MemberKind::Character,
                Primitive::Float32 => MemberKind::Single,
                Primitive::Float64 => MemberKind::Float,
                Primitive::Float128 => MemberKind::Long,
                _ => MemberKind::Integer,
            }),
            ValueKind::Text => Ok(MemberKind::Text),
            ValueKind::Fixed => Ok(MemberKind::Long),
            ValueKind::Enumeration(literals) => {
                Ok(MemberKind::enumeration(literals.iter().map(|(name, value)| (&**name, *value))))
            }
            ValueKind::Bitmask => Ok(MemberKind::Integer),
            ValueKind::Collection => Err(HAS_ELEMENTS.to_owned()),
            ValueKind::Map => Err(HAS_ENTRIES.to_owned()),
            ValueKind::Aggregate => Err(whole(of.name())),
        }
    }

    fn enumeration<'a>(literals: impl Iterator<Item = (&'a str, i32)>) -> MemberKind {
        MemberKind::Enumeration(literals.map(|(name, value)| (name.into(), value)).collect())
    }

    fn describe(&self) -> &'static str {
        match self {
            MemberKind::Boolean => "TRUE or FALSE",
            MemberKind::Integer | MemberKind::Single | MemberKind::Float | MemberKind::Long => {
                "a number"
            }
            MemberKind::Character => "a character in quotes",
            MemberKind::Text => "a text in quotes",
            MemberKind::Enumeration(_) => "the name of an enumerator",
        }
    }

    /// Whether members of the two kinds can be compared.
    fn is_comparable_with(&self, other: &MemberKind) -> bool {
        let class = |kind: &MemberKind| match kind {
            MemberKind::Boolean => 0,
            MemberKind::Integer | MemberKind::Single | MemberKind::Float | MemberKind::Long => 1,
            MemberKind::Character | MemberKind::Text => 2,
            MemberKind::Enumeration(_) => 3,
        };
        let is_whole =
            |kind: &MemberKind| matches!(kind, MemberKind::Boolean | MemberKind::Integer);
        class(self) == class(other)
            || matches!((class(self), class(other)), (1, 3) | (3, 1))
            || is_whole(self) && is_whole(other)
    }

    /// Converts a literal to a constant for comparisons with members of this kind.
    pub(crate) fn constant(&self, literal: &Literal) -> Result<Constant, String> {
        let named = |name: &str, literals: &[(Arc<str>, i32)]| {
            let found = literals.iter().find(|(known, _)| **known == *name);
            let constant =
                |(name, value): &(Arc<str>, i32)| Constant::Enumerator(*value, Arc::clone(name));
            found.map(constant).ok_or_else(|| {
                let names: Vec<&str> = literals.iter().map(|(name, _)| &**name).collect();
                format!("there is no `{name}` among {}", names.join(", "))
            })
        };
        match (self, literal) {
            (MemberKind::Boolean, Literal::Word(word) | Literal::Quoted(word)) => {
                match word.to_ascii_uppercase().as_str() {
                    "TRUE" => Ok(Constant::Boolean(true)),
                    "FALSE" => Ok(Constant::Boolean(false)),
                    _ => Err(self.mismatch(literal)),
                }
            }
            // A boolean counts as 0 or 1 beside an integer.
            (MemberKind::Boolean, Literal::Integer(value)) => match value {
                0 | 1 => Ok(Constant::Boolean(*value == 1)),
                _ => MemberKind::Integer.constant(literal),
            },
            (MemberKind::Integer, Literal::Word(word)) if is_boolean(word) => {
                Ok(Constant::Signed(i64::from(word.eq_ignore_ascii_case("TRUE"))))
            }
            (MemberKind::Long, Literal::Float(text)) => {
                LongDouble::parse(text).map(Constant::Long).ok_or_else(|| self.mismatch(literal))
            }
            (
                MemberKind::Integer | MemberKind::Single | MemberKind::Float,
                Literal::Float(text),
            ) => {
                let value = text.parse::<f64>().ok().filter(|value| value.is_finite());
                let value = value.ok_or_else(|| format!("{text} is larger than any double"))?;
                let single = matches!(self, MemberKind::Single).then(|| f64::from(value as f32));
                Ok(Constant::Float(single.unwrap_or(value)))
            }
            // Values of the same kind compare faster than values that must be converted for
            // each sample.
            (MemberKind::Single | MemberKind::Float, Literal::Integer(value))
                if value.unsigned_abs() <= 1 << f64::MANTISSA_DIGITS =>
            {
                Ok(Constant::Float(*value as f64))
            }
            (
                MemberKind::Integer
                | MemberKind::Single
                | MemberKind::Float
                | MemberKind::Long
                | MemberKind::Enumeration(_),
                Literal::Integer(value),
            ) => Ok(match i64::try_from(*value) {
                Ok(value) => Constant::Signed(value),
                // The lexer accepts only integers that fit into an `i64` or a `u64`.
                Err(_) => Constant::Unsigned(*value as u64),
            }),
            (MemberKind::Character | MemberKind::Text, Literal::Quoted(text)) => {
                Ok(Constant::Text(text.clone()))
            }
            (MemberKind::Enumeration(literals), Literal::Quoted(name) | Literal::Word(name)) => {
                named(name, literals)
            }
            _ => Err(self.mismatch(literal)),
        }
    }

    fn mismatch(&self, literal: &Literal) -> String {
        format!("{} was expected, found {literal}", self.describe())
    }
}

/// A value that is compared with a member, from the expression or from a parameter.
#[derive(Clone, Debug)]
pub(crate) struct ConstantSlot {
    /// Kind of the member.
    kind: MemberKind,
    /// Name of the member, for errors.
    field: String,
    from: ConstantSource,
    /// Position in the expression.
    at: usize,
    is_pattern: bool,
}

#[derive(Clone, Debug)]
enum ConstantSource {
    Literal(Literal),
    Parameter(u8),
}

impl ConstantSlot {
    /// Position in the expression.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// Evaluates the value with these parameters.
    pub(crate) fn constant(
        &self,
        expression: &str,
        parameters: &[String],
    ) -> Result<Constant, ExpressionError> {
        let error = |reason: String| ExpressionError::new(expression, self.at, reason);
        let (literal, number) = match &self.from {
            ConstantSource::Literal(literal) => (literal.clone(), None),
            ConstantSource::Parameter(number) => {
                let text = parameters.get(usize::from(*number)).ok_or_else(|| {
                    error(format!(
                        "there is no parameter %{number}: {} given, counted from %0",
                        match parameters.len() {
                            0 => "none was".to_owned(),
                            1 => "one was".to_owned(),
                            count => format!("{count} were"),
                        }
                    ))
                })?;
                let wrong = |wrong: ExpressionError| {
                    error(format!("parameter %{number} is `{text}`: {}", wrong.reason()))
                };
                (Literal::parse(text).map_err(wrong)?, Some(number))
            }
        };
        let describe = |reason: String| match number {
            Some(number) => error(format!("parameter %{number} beside `{}`: {reason}", self.field)),
            None => error(format!("beside `{}`: {reason}", self.field)),
        };
        match (self.is_pattern, &literal) {
            (true, Literal::Quoted(pattern)) => Ok(Constant::Text(pattern.clone())),
            (true, other) => {
                Err(describe(format!("a pattern in quotes was expected, found {other}")))
            }
            (false, literal) => self.kind.constant(literal).map_err(describe),
        }
    }
}

/// Binds conditions to a type.
pub(crate) struct Binder<'a> {
    expression: &'a str,
    of: MemberLookup<'a>,
    pub(crate) slots: Vec<ConstantSlot>,
}

impl<'a> Binder<'a> {
    pub(crate) fn new(expression: &'a str, of: MemberLookup<'a>) -> Self {
        Binder { expression, of, slots: Vec::new() }
    }

    fn error(&self, at: usize, reason: impl Into<String>) -> ExpressionError {
        ExpressionError::new(self.expression, at, reason)
    }

    pub(crate) fn condition(
        &mut self,
        condition: &Condition,
    ) -> Result<BoundCondition, ExpressionError> {
        match condition {
            Condition::And(many) => Ok(BoundCondition::All(self.conditions(many)?)),
            Condition::Or(many) => Ok(BoundCondition::Any(self.conditions(many)?)),
            Condition::Not(inner) => Ok(BoundCondition::Not(Box::new(self.condition(inner)?))),
            Condition::Test(predicate) => self.predicate(predicate),
        }
    }

    fn conditions(&mut self, many: &[Condition]) -> Result<Box<[BoundCondition]>, ExpressionError> {
        many.iter().map(|one| self.condition(one)).collect()
    }

    fn predicate(&mut self, predicate: &Predicate) -> Result<BoundCondition, ExpressionError> {
        match predicate {
            Predicate::Compare(left, relation, right) => self.compare(left, *relation, right),
            Predicate::Between(of, low, high) => {
                let (path, kind, name) = self.operand_field(of)?;
                let low = self.slot(kind.clone(), &name, low, false)?;
                let high = self.slot(kind, &name, high, false)?;
                Ok(BoundCondition::Between(path, low, high))
            }
            Predicate::Like(of, pattern) if matches!(of.kind, OperandKind::Field(_)) => {
                let (path, kind, name) = self.text_field(of, "LIKE")?;
                if let OperandKind::Field(_) = pattern.kind {
                    let (pattern, ..) = self.text_field(pattern, "LIKE")?;
                    return Ok(BoundCondition::LikeMembers(path, pattern));
                }
                Ok(BoundCondition::Like(path, self.slot(kind, &name, pattern, true)?))
            }
            Predicate::Like(text, pattern) => {
                let (path, kind, name) = self.text_field(pattern, "LIKE")?;
                Ok(BoundCondition::LikeMember(self.slot(kind, &name, text, true)?, path))
            }
            Predicate::Match(of, patterns) => {
                let (path, kind, name) = self.text_field(of, "MATCH")?;
                Ok(BoundCondition::Match(path, self.slot(kind, &name, patterns, true)?))
            }
        }
    }

    /// As `operand_field`, for a member whose text is tested.
    fn text_field(
        &self,
        operand: &Operand,
        test: &str,
    ) -> Result<(MemberPath, MemberKind, String), ExpressionError> {
        let (path, kind, name) = self.operand_field(operand)?;
        if !matches!(kind, MemberKind::Text | MemberKind::Character) {
            let reason = format!("`{name}` is no text, and {test} compares texts");
            return Err(self.error(operand.at, reason));
        }
        Ok((path, kind, name))
    }

    fn compare(
        &mut self,
        left: &Operand,
        relation: Relation,
        right: &Operand,
    ) -> Result<BoundCondition, ExpressionError> {
        match (&left.kind, &right.kind) {
            (OperandKind::Field(one), OperandKind::Field(other)) => {
                let found = (self.field(one, left.at), self.field(other, right.at));
                match found {
                    (Ok((path, kind)), Ok((other_path, other_kind))) => {
                        if !kind.is_comparable_with(&other_kind) {
                            let reason = format!(
                                "`{one}` and `{other}` cannot be compared: beside `{one}` {} was expected",
                                kind.describe()
                            );
                            return Err(self.error(right.at, reason));
                        }
                        Ok(BoundCondition::CompareMembers(path, relation, other_path))
                    }
                    // A name that is no member may be an enumerator.
                    (Ok((path, kind @ MemberKind::Enumeration(_))), Err(_)) => {
                        let slot = self.slot(kind, &one.to_string(), &as_word(right), false)?;
                        Ok(BoundCondition::Compare(path, relation, slot))
                    }
                    (Err(_), Ok((path, kind @ MemberKind::Enumeration(_)))) => {
                        let slot = self.slot(kind, &other.to_string(), &as_word(left), false)?;
                        Ok(BoundCondition::Compare(path, relation.exchanged(), slot))
                    }
                    (Err(error), _) | (_, Err(error)) => Err(error),
                }
            }
            (OperandKind::Field(field), _) => {
                let (path, kind) = self.field(field, left.at)?;
                let slot = self.slot(kind, &field.to_string(), right, false)?;
                Ok(BoundCondition::Compare(path, relation, slot))
            }
            (_, OperandKind::Field(_)) => self.compare(right, relation.exchanged(), left),
            _ => Err(self.error(left.at, "one of the two has to be a member")),
        }
    }

    fn operand_field(
        &self,
        operand: &Operand,
    ) -> Result<(MemberPath, MemberKind, String), ExpressionError> {
        match &operand.kind {
            OperandKind::Field(field) => {
                let (path, kind) = self.field(field, operand.at)?;
                Ok((path, kind, field.to_string()))
            }
            _ => Err(self.error(operand.at, "a member was expected")),
        }
    }

    pub(crate) fn field(
        &self,
        field: &FieldName,
        at: usize,
    ) -> Result<(MemberPath, MemberKind), ExpressionError> {
        let name = field.to_string();
        let resolved = match self.of {
            MemberLookup::Compiled(of) => {
                MemberPath::resolve(of, &name).map(|(path, of)| (path, MemberKind::of(of)))
            }
            MemberLookup::Dynamic(of) => {
                of.member(&name).map(|(path, of)| (path, MemberKind::of_dynamic(&of)))
            }
        };
        let unknown = |error: PathError| self.error(at + error.offset, error.reason);
        let (path, kind) = resolved.map_err(unknown)?;
        Ok((path, kind.map_err(|reason| self.error(at, format!("`{name}` {reason}")))?))
    }

    /// Reserves a slot for a value.
    fn slot(
        &mut self,
        kind: MemberKind,
        field: &str,
        operand: &Operand,
        is_pattern: bool,
    ) -> Result<usize, ExpressionError> {
        let from = match &operand.kind {
            OperandKind::Literal(literal) => ConstantSource::Literal(literal.clone()),
            OperandKind::Parameter(number) => ConstantSource::Parameter(*number),
            OperandKind::Field(field) => ConstantSource::Literal(Literal::Word(field.to_string())),
        };
        let slot = ConstantSlot { kind, field: field.to_owned(), from, at: operand.at, is_pattern };
        self.slots.push(slot);
        Ok(self.slots.len() - 1)
    }
}

fn as_word(operand: &Operand) -> Operand {
    match &operand.kind {
        OperandKind::Field(field) => {
            let kind = OperandKind::Literal(Literal::Word(field.to_string()));
            Operand { kind, at: operand.at }
        }
        _ => operand.clone(),
    }
}

impl Relation {
    /// The relation with exchanged sides.
    fn exchanged(self) -> Relation {
        match self {
            Relation::Less => Relation::Greater,
            Relation::LessOrEqual => Relation::GreaterOrEqual,
            Relation::Greater => Relation::Less,
            Relation::GreaterOrEqual => Relation::LessOrEqual,
            same => same,
        }
    }
}
