//! A condition that samples are asked about.
//!
//! Owns: what it means. Never does: allocate when it is asked.
//!
//! A test of a member that is not there (an optional one, a case that is not selected, an element beyond the last)
//! is neither true nor false, and neither is its negation; a sample passes when the whole is true.

use std::cmp::Ordering;
use std::sync::Arc;

use idl_cdr::{DdsType, MemberPath, Reflect, ValueRef, descriptor_of};
use idl_xtypes::Fields;

use crate::bind::{Binder, Slot};
use crate::constant::Constant;
use crate::error::ExpressionError;
use crate::pattern::is_like;
use crate::syntax::{Condition, Query, Relation, Selection};

/// A test with its members found; values are places in the list of constants.
#[derive(Debug)]
pub(crate) enum Test {
    All(Box<[Test]>),
    Any(Box<[Test]>),
    Not(Box<Test>),
    Compare(MemberPath, Relation, usize),
    CompareMembers(MemberPath, Relation, MemberPath),
    Between(MemberPath, usize, usize),
    Like(MemberPath, usize),
}

/// What is made of an expression once.
#[derive(Debug)]
struct Program {
    expression: String,
    type_name: String,
    /// None lets all pass.
    test: Option<Test>,
    slots: Vec<Slot>,
    order_by: Vec<MemberPath>,
}

/// Which samples, and in which order: an expression bound to a type, with values for its parameters.
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
    program: Arc<Program>,
    parameters: Arc<[String]>,
    constants: Arc<[Constant]>,
}

impl Filter {
    /// A filter expression over samples of `T`.
    pub fn new<T: DdsType>(
        expression: &str,
        parameters: &[String],
    ) -> Result<Filter, ExpressionError> {
        Self::in_type(Fields::Compiled(descriptor_of::<T>()), expression, parameters)
    }

    /// A filter expression over samples of a type.
    pub fn in_type(
        of: Fields<'_>,
        expression: &str,
        parameters: &[String],
    ) -> Result<Filter, ExpressionError> {
        let condition = Some(Condition::parse(expression)?);
        Self::of_query(of, expression, Query { condition, order_by: Vec::new() }, parameters)
    }

    /// A query expression over samples of `T`: a filter expression, `ORDER BY` with members, or both.
    pub fn query<T: DdsType>(
        expression: &str,
        parameters: &[String],
    ) -> Result<Filter, ExpressionError> {
        Self::query_in_type(Fields::Compiled(descriptor_of::<T>()), expression, parameters)
    }

    /// A query expression over samples of a type.
    pub fn query_in_type(
        of: Fields<'_>,
        expression: &str,
        parameters: &[String],
    ) -> Result<Filter, ExpressionError> {
        let query = Query::parse(expression)?;
        Self::of_query(of, expression, query, parameters)
    }

    /// A topic expression, and the condition in it over samples of this type, whose members are what it selects.
    pub fn of_selection(
        of: Fields<'_>,
        expression: &str,
        parameters: &[String],
    ) -> Result<(Selection, Filter), ExpressionError> {
        let mut selection = Selection::parse(expression)?;
        let query = Query { condition: selection.condition.take(), order_by: Vec::new() };
        let filter = Self::of_query(of, expression, query, parameters)?;
        Ok((selection, filter))
    }

    fn of_query(
        of: Fields<'_>,
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
            Fields::Compiled(of) => of.name.to_owned(),
            Fields::Dynamic(of) => of.name().to_owned(),
        };
        let (expression, slots) = (expression.to_owned(), binder.slots);
        let program = Program { expression, type_name, test, slots, order_by };
        Self::with(Arc::new(program), parameters)
    }

    fn with(program: Arc<Program>, parameters: &[String]) -> Result<Filter, ExpressionError> {
        let constants =
            program.slots.iter().map(|slot| slot.constant(&program.expression, parameters));
        let constants: Result<Vec<Constant>, _> = constants.collect();
        Ok(Filter { constants: constants?.into(), parameters: parameters.into(), program })
    }

    /// The same expression with other values for its parameters. Nothing is read anew but these.
    pub fn with_parameters(&self, parameters: &[String]) -> Result<Filter, ExpressionError> {
        Self::with(Arc::clone(&self.program), parameters)
    }

    /// The expression.
    pub fn expression(&self) -> &str {
        &self.program.expression
    }

    /// The values of its parameters.
    pub fn parameters(&self) -> &[String] {
        &self.parameters
    }

    /// The type that it is about.
    pub fn type_name(&self) -> &str {
        &self.program.type_name
    }

    /// Whether a sample passes. `R` is the type that the filter was made for, or a dynamic value of it.
    #[inline]
    pub fn accepts<R: Reflect>(&self, sample: &R) -> bool {
        match &self.program.test {
            None => true,
            Some(test) => holds(test, sample, &self.constants) == Some(true),
        }
    }

    /// Whether it says an order.
    pub fn is_ordered(&self) -> bool {
        !self.program.order_by.is_empty()
    }

    /// Which of two samples comes first; equal if nothing is said of it. What has no such member comes first.
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

/// `None` if it cannot be said.
#[inline]
fn holds<R: Reflect>(test: &Test, sample: &R, constants: &[Constant]) -> Option<bool> {
    match test {
        Test::Compare(path, relation, constant) => {
            compare(path.find(sample), *relation, constants[*constant].value())
        }
        Test::All(all) => decided(all, sample, constants, false),
        Test::Any(any) => decided(any, sample, constants, true),
        Test::Not(inner) => holds(inner, sample, constants).map(|holds| !holds),
        Test::CompareMembers(one, relation, other) => {
            compare(one.find(sample), *relation, other.find(sample))
        }
        Test::Between(path, low, high) => {
            let found = path.find(sample);
            let above = compare(found, Relation::GreaterOrEqual, constants[*low].value())?;
            Some(above && compare(found, Relation::LessOrEqual, constants[*high].value())?)
        }
        Test::Like(path, pattern) => like(path.find(sample), constants[*pattern].text()),
    }
}

/// Whether one of these decides the whole by being so, or all of them do by not being so.
fn decided<R: Reflect>(
    tests: &[Test],
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
    // What has no order, as what is no number has none, is not equal either.
    let order = one.compare(other);
    Some(match relation {
        Relation::Equal => order == Some(Ordering::Equal),
        Relation::NotEqual => order != Some(Ordering::Equal),
        Relation::Less => order == Some(Ordering::Less),
        Relation::LessOrEqual => order.is_some_and(Ordering::is_le),
        Relation::Greater => order == Some(Ordering::Greater),
        Relation::GreaterOrEqual => order.is_some_and(Ordering::is_ge),
    })
}

fn like(found: ValueRef<'_>, pattern: &str) -> Option<bool> {
    match found {
        ValueRef::Text(text) => Some(is_like(text, pattern)),
        ValueRef::Char(character) => Some(is_like(character.encode_utf8(&mut [0; 4]), pattern)),
        ValueRef::WideChar(unit) => {
            Some(is_like(char::from(unit).encode_utf8(&mut [0; 4]), pattern))
        }
        _ => None,
    }
}
