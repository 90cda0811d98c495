//! Evaluation of conditions for samples.
//!
//! Owns: the meaning of conditions. Never does: allocate during an evaluation.
//!
//! A test of an absent member (an optional one, a case that is not selected, an element beyond the
//! last one) is neither true nor false, and neither is its negation. A sample passes if the whole
//! condition is true.

use std::cmp::Ordering;
use std::sync::Arc;

use idl_cdr::{DdsType, MemberPath, Reflect, ValueRef, descriptor_of};
use idl_xtypes::MemberLookup;

use crate::bind::{Binder, ConstantSlot};
use crate::constant::Constant;
use crate::error::ExpressionError;
use crate::pattern::{is_like, is_match};
use crate::syntax::{Condition, Query, Relation, Selection};

/// A test with resolved members. Values are indices into the list of constants.
#[derive(Debug)]
pub(crate) enum BoundCondition {
    All(Box<[BoundCondition]>),
    Any(Box<[BoundCondition]>),
    Not(Box<BoundCondition>),
    Compare(MemberPath, Relation, usize),
    CompareMembers(MemberPath, Relation, MemberPath),
    Between(MemberPath, usize, usize),
    Like(MemberPath, usize),
    /// The text is a constant and the pattern a member.
    LikeMember(usize, MemberPath),
    /// A member against a pattern in another member.
    LikeMembers(MemberPath, MemberPath),
    Match(MemberPath, usize),
}

/// The part of an expression that is independent of parameters and shared by filters.
#[derive(Debug)]
struct FilterProgram {
    expression: String,
    type_name: String,
    /// `None` lets all samples pass.
    test: Option<BoundCondition>,
    slots: Vec<ConstantSlot>,
    order_by: Vec<MemberPath>,
}

/// Selection and order of samples: an expression bound to a type, with values for its parameters.
///
/// ```
/// use dds_sql::Filter;
/// use idl_cdr::DdsType;
///
/// #[derive(DdsType)]
/// #[dds(crate = "idl_cdr")]
/// struct Track { callsign: String, altitude: f64 }
///
/// let filter = Filter::new::<Track>("callsign LIKE 'F-%' AND altitude > %0", &["1000".to_owned()])?;
/// let track = Track { callsign: "F-GKXA".to_owned(), altitude: 1200.0 };
/// assert!(filter.accepts(&track));
/// assert!(!filter.with_parameters(&["2000".to_owned()])?.accepts(&track));
///
/// let error = Filter::new::<Track>("altitude > 'high'", &[]).unwrap_err();
/// assert_eq!(error.reason(), "beside `altitude`: a number was expected, found 'high'");
/// # Ok::<(), dds_sql::ExpressionError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Filter {
    program: Arc<FilterProgram>,
    parameters: Arc<[String]>,
    constants: Arc<[Constant]>,
}

impl Filter {
    /// Makes a filter from a filter expression over samples of `T`.
    pub fn new<T: DdsType>(
        expression: &str,
        parameters: &[String],
    ) -> Result<Filter, ExpressionError> {
        Self::in_type(MemberLookup::Compiled(descriptor_of::<T>()), expression, parameters)
    }

    /// Makes a filter from a filter expression over samples of a type. An empty expression selects
    /// all samples.
    pub fn in_type(
        of: MemberLookup<'_>,
        expression: &str,
        parameters: &[String],
    ) -> Result<Filter, ExpressionError> {
        let is_empty = expression.trim().is_empty();
        let condition = if is_empty { None } else { Some(Condition::parse(expression)?) };
        Self::of_query(of, expression, Query { condition, order_by: Vec::new() }, parameters)
    }

    /// Makes a filter from a query expression over samples of `T`: a filter expression, `ORDER BY`
    /// with members, or both.
    pub fn query<T: DdsType>(
        expression: &str,
        parameters: &[String],
    ) -> Result<Filter, ExpressionError> {
        Self::query_in_type(MemberLookup::Compiled(descriptor_of::<T>()), expression, parameters)
    }

    /// Makes a filter from a query expression over samples of a type.
    pub fn query_in_type(
        of: MemberLookup<'_>,
        expression: &str,
        parameters: &[String],
    ) -> Result<Filter, ExpressionError> {
        let query = Query::parse(expression)?;
        Self::of_query(of, expression, query, parameters)
    }

    /// Parses a topic expression. Makes a filter from its condition, over samples of the type that
    /// consists of the selected members.
    pub fn of_selection(
        of: MemberLookup<'_>,
        expression: &str,
        parameters: &[String],
    ) -> Result<(Selection, Filter), ExpressionError> {
        let mut selection = Selection::parse(expression)?;
        let query = Query { condition: selection.condition.take(), order_by: Vec::new() };
        let filter = Self::of_query(of, expression, query, parameters)?;
        Ok((selection, filter))
    }

    fn of_query(
        of: MemberLookup<'_>,
        expression: &str,
        query: Query,
        parameters: &[String],
    ) -> Result<Filter, ExpressionError> {
        let mut binder = Binder::new(expression, of);
        let test = query.condition.map(|condition| binder.condition(&condition)).transpose()?;
        let order = query.order_by.iter().map(|(field, at)| binder.field(field, *at));
        let order_by: Result<Vec<_>, _> = order.map(|field| field.map(|(path, _)| path)).collect();
        let order_by = order_by?;
        let type_name = match of {
            MemberLookup::Compiled(of) => of.name.to_owned(),
            MemberLookup::Dynamic(of) => of.name().to_owned(),
        };
        let (expression, slots) = (expression.to_owned(), binder.slots);
        let program = FilterProgram { expression, type_name, test, slots, order_by };
        Self::with(Arc::new(program), parameters)
    }

    fn with(program: Arc<FilterProgram>, parameters: &[String]) -> Result<Filter, ExpressionError> {
        let constants =
            program.slots.iter().map(|slot| slot.constant(&program.expression, parameters));
        let constants: Result<Vec<Constant>, _> = constants.collect();
        Ok(Filter { constants: constants?.into(), parameters: parameters.into(), program })
    }

    /// Makes a filter of this expression with other parameters. Only the parameters are parsed.
    pub fn with_parameters(&self, parameters: &[String]) -> Result<Filter, ExpressionError> {
        Self::with(Arc::clone(&self.program), parameters)
    }

    /// Returns remarks about values that are valid, and probably not meant: a pattern of LIKE with
    /// the wildcards of a shell instead of `%` and `_`.
    pub fn remarks(&self) -> Vec<ExpressionError> {
        let mut patterns = Vec::new();
        if let Some(test) = &self.program.test {
            like_patterns(test, &mut patterns);
        }
        let mut remarks = Vec::new();
        for slot in patterns {
            let pattern = self.constants[slot].text();
            let (own, other) = (pattern.contains(['%', '_']), pattern.contains(['*', '?']));
            if other && !own {
                let reason = format!(
                    "`{pattern}` is compared with each of its characters: the wildcards of LIKE \
                     are `%` for any text and `_` for one character; `*` and `?` are those of MATCH"
                );
                let at = self.program.slots[slot].at();
                remarks.push(ExpressionError::new(self.expression(), at, reason));
            }
        }
        remarks
    }

    /// The expression.
    pub fn expression(&self) -> &str {
        &self.program.expression
    }

    /// The parameters.
    pub fn parameters(&self) -> &[String] {
        &self.parameters
    }

    /// Name of the type to which the expression is bound.
    pub fn type_name(&self) -> &str {
        &self.program.type_name
    }

    /// Whether a sample passes. `R` is the type that the filter was made for, or a dynamic value
    /// of it.
    #[inline]
    pub fn accepts<R: Reflect>(&self, sample: &R) -> bool {
        match &self.program.test {
            None => true,
            Some(test) => holds(test, sample, &self.constants) == Some(true),
        }
    }

    /// Whether the expression determines an order.
    pub fn is_ordered(&self) -> bool {
        !self.program.order_by.is_empty()
    }

    /// Compares two samples by the members in ORDER BY. Samples without such a member come first.
    pub fn order<R: Reflect>(&self, one: &R, other: &R) -> Ordering {
        let by = |path: &MemberPath| match (path.find(one), path.find(other)) {
            (ValueRef::Absent, ValueRef::Absent) => Ordering::Equal,
            (ValueRef::Absent, _) => Ordering::Less,
            (_, ValueRef::Absent) => Ordering::Greater,
            (one, other) => one.compare(other).unwrap_or(Ordering::Equal),
        };
        let mut orders = self.program.order_by.iter().map(by);
        orders.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    }
}

/// Adds the constants that are patterns of LIKE.
fn like_patterns(test: &BoundCondition, patterns: &mut Vec<usize>) {
    match test {
        BoundCondition::All(tests) | BoundCondition::Any(tests) => {
            tests.iter().for_each(|test| like_patterns(test, patterns));
        }
        BoundCondition::Not(inner) => like_patterns(inner, patterns),
        BoundCondition::Like(_, pattern) => patterns.push(*pattern),
        BoundCondition::Compare(..)
        | BoundCondition::CompareMembers(..)
        | BoundCondition::Between(..)
        | BoundCondition::LikeMember(..)
        | BoundCondition::LikeMembers(..)
        | BoundCondition::Match(..) => {}
    }
}

/// Whether a test holds; `None` if it is neither true nor false.
#[inline]
fn holds<R: Reflect>(test: &BoundCondition, sample: &R, constants: &[Constant]) -> Option<bool> {
    match test {
        BoundCondition::Compare(path, relation, constant) => {
            compare(path.find(sample), *relation, constants[*constant].value())
        }
        BoundCondition::All(all) => decided(all, sample, constants, false),
        BoundCondition::Any(any) => decided(any, sample, constants, true),
        BoundCondition::Not(inner) => holds(inner, sample, constants).map(|holds| !holds),
        BoundCondition::CompareMembers(one, relation, other) => {
            compare(one.find(sample), *relation, other.find(sample))
        }
        BoundCondition::Between(path, low, high) => {
            let found = path.find(sample);
            let above = compare(found, Relation::GreaterOrEqual, constants[*low].value())?;
            Some(above && compare(found, Relation::LessOrEqual, constants[*high].value())?)
        }
        BoundCondition::Like(path, pattern) => {
            with_text(path.find(sample), |text| is_like(text, constants[*pattern].text()))
        }
        BoundCondition::LikeMember(text, path) => {
            with_text(path.find(sample), |pattern| is_like(constants[*text].text(), pattern))
        }
        BoundCondition::LikeMembers(path, pattern) => with_text(path.find(sample), |text| {
            with_text(pattern.find(sample), |pattern| is_like(text, pattern))
        })
        .flatten(),
        BoundCondition::Match(path, patterns) => {
            with_text(path.find(sample), |text| is_match(text, constants[*patterns].text()))
        }
    }
}

/// Result of a conjunction (`so` is `false`) or disjunction (`so` is `true`): one test that is `so`
/// decides; otherwise all must be known not to be.
fn decided<R: Reflect>(
    tests: &[BoundCondition],
    sample: &R,
    constants: &[Constant],
    so: bool,
) -> Option<bool> {
    let mut all = Some(!so);
    for test in tests {
        match holds(test, sample, constants) {
            Some(holds) if holds == so => return Some(so),
            Some(_) => {}
            None => all = None,
        }
    }
    all
}

fn compare(one: ValueRef<'_>, relation: Relation, other: ValueRef<'_>) -> Option<bool> {
    if matches!(one, ValueRef::Absent) || matches!(other, ValueRef::Absent) {
        return None;
    }
    // A boolean counts as 0 or 1 beside an integer.
    let order = match (one, other) {
        (ValueRef::Bool(one), ValueRef::Signed(_) | ValueRef::Unsigned(_)) => {
            ValueRef::Unsigned(one.into()).compare(other)
        }
        (ValueRef::Signed(_) | ValueRef::Unsigned(_), ValueRef::Bool(other)) => {
            one.compare(ValueRef::Unsigned(other.into()))
        }
        // Values without an order, such as NaN, are not equal either.
        _ => one.compare(other),
    };
    Some(match relation {
        Relation::Equal => order == Some(Ordering::Equal),
        Relation::NotEqual => order != Some(Ordering::Equal),
        Relation::Less => order == Some(Ordering::Less),
        Relation::LessOrEqual => order.is_some_and(Ordering::is_le),
        Relation::Greater => order == Some(Ordering::Greater),
        Relation::GreaterOrEqual => order.is_some_and(Ordering::is_ge),
    })
}

/// Tests the text of a string or character; `None` for other values.
fn with_text<R>(found: ValueRef<'_>, test: impl Fn(&str) -> R) -> Option<R> {
    match found {
        ValueRef::Text(text) => Some(test(text)),
        ValueRef::Char(character) => Some(test(character.encode_utf8(&mut [0; 4]))),
        ValueRef::WideChar(unit) => Some(test(char::from(unit).encode_utf8(&mut [0; 4]))),
        _ => None,
    }
}
