//! Conditions on samples for reading calls.
//!
//! Owns: states, a query, an expression, and the triggers of wait sets. Never does: examine a
//! sample that no call asks about.

use std::sync::Arc;

use dds_sql::Filter;
use derecho_core::ids::Time;
use idl_xtypes::TopicData;

use super::intake::ReaderCore;
use super::reader::DataReader;
use super::sample::Sample;
use super::states::States;
use crate::infrastructure::{
    Condition, ConditionSource, DdsError, DdsResult, InstanceHandle, WaitDriver,
};
use crate::topic::{SharedFilter, Topic, expression_error};

/// Predicate over the data of a sample.
type Query<T> = Arc<dyn Fn(&T) -> bool + Send + Sync>;

/// READ_CONDITION and QUERY_CONDITION: selects samples by their states and their data. The query is
/// called only for samples with data, and must not call the reader.
///
/// ```
/// use dds_api::prelude::*;
/// use dds_api::subscription::{ReadCondition, States};
///
/// #[derive(DdsType, Clone, Debug, Default)]
/// struct Track { #[dds(key)] id: u32, height: f64 }
///
/// # fn low(reader: &DataReader<Track>) -> DdsResult<()> {
/// let low = ReadCondition::new(States::not_read()).matching(|track: &Track| track.height < 300.0);
/// for track in reader.read_w_condition(.., &low)? {
///     println!("track {} is low: {:?}", track.key_value().id, track.info());
/// }
/// # Ok(())
/// # }
/// ```
#[doc(alias = "delete_readcondition")]
#[doc(alias = "delete_contained_entities")]
pub struct ReadCondition<T> {
    pub(super) states: States,
    query: Option<Query<T>>,
    filter: Option<Arc<SharedFilter>>,
}

impl<T> Clone for ReadCondition<T> {
    fn clone(&self) -> Self {
        let (query, filter) = (self.query.clone(), self.filter.clone());
        ReadCondition { states: self.states, query, filter }
    }
}

impl<T> From<States> for ReadCondition<T> {
    fn from(states: States) -> Self {
        ReadCondition { states, query: None, filter: None }
    }
}

impl<T: TopicData> ReadCondition<T> {
    /// Selects samples in these states.
    #[doc(alias = "create_readcondition")]
    pub fn new(states: States) -> Self {
        states.into()
    }

    /// QUERY_CONDITION: selects samples in these states that satisfy an expression in the
    /// standard's SQL, with parameters `%0` to `%99`. `ORDER BY` in the expression gives the order
    /// of the samples. Clones share the parameters.
    ///
    /// # Errors
    /// [`DdsError::BadParameter`](crate::infrastructure::DdsError::BadParameter) if the expression
    /// is wrong, or compares values that cannot be compared. The error says where and why.
    #[doc(alias = "create_querycondition")]
    pub fn query(states: States, expression: &str, parameters: &[String]) -> DdsResult<Self>
    where
        T: TopicData<TypeSupport = ()>,
    {
        Self::query_of(&(), states, expression, parameters)
    }

    /// Does what [`ReadCondition::query`] does, for samples of a topic whose type may be known only
    /// at run time.
    ///
    /// # Errors
    /// As for [`ReadCondition::query`].
    pub fn query_in(
        topic: &Topic<T>,
        states: States,
        expression: &str,
        parameters: &[String],
    ) -> DdsResult<Self> {
        Self::query_of(topic.support(), states, expression, parameters)
    }

    fn query_of(
        support: &T::TypeSupport,
        states: States,
        expression: &str,
        parameters: &[String],
    ) -> DdsResult<Self> {
        let filter = Filter::query_in_type(T::fields(support), expression, parameters)
            .map_err(|error| expression_error(&error))?;
        let filter = Some(Arc::new(SharedFilter::new(filter)));
        Ok(ReadCondition { states, query: None, filter })
    }

    /// Restricts the selection to samples for whose data `query` returns true.
    pub fn matching(mut self, query: impl Fn(&T) -> bool + Send + Sync + 'static) -> Self {
        self.query = Some(Arc::new(query));
        self
    }

    /// The states that the condition selects.
    #[doc(alias = "get_view_state_mask")]
    #[doc(alias = "get_sample_state_mask")]
    #[doc(alias = "get_instance_state_mask")]
    pub fn states(&self) -> States {
        self.states
    }

    /// The expression, if the condition has one.
    #[doc(alias = "get_query_expression")]
    pub fn query_expression(&self) -> Option<String> {
        self.filter.as_ref().map(|filter| filter.get().expression().to_owned())
    }

    /// The current values of the expression's parameters.
    #[doc(alias = "get_query_parameters")]
    pub fn query_parameters(&self) -> Vec<String> {
        self.filter.as_ref().map_or(Vec::new(), |filter| filter.get().parameters().to_vec())
    }

    /// Sets the values of the expression's parameters.
    ///
    /// # Errors
    /// [`DdsError::BadParameter`] if a value is missing or cannot be compared; all values then
    /// remain unchanged. [`DdsError::PreconditionNotMet`] if the condition has no expression.
    pub fn set_query_parameters(&self, parameters: &[String]) -> DdsResult<()> {
        match &self.filter {
            Some(filter) => filter.set_parameters(parameters),
            None => Err(DdsError::PreconditionNotMet(
                "this condition has no expression: make it with ReadCondition::query".to_owned(),
            )),
        }
    }

    /// Whether the condition selects these data.
    pub(super) fn wants(&self, data: &T) -> bool {
        self.query.as_ref().is_none_or(|query| query(data))
            && self.filter.as_ref().is_none_or(|filter| filter.accepts(data))
    }

    /// Sorts samples by the expression's `ORDER BY`, if it has one.
    pub(super) fn put_in_order(&self, samples: &mut [Sample<T>]) {
        let filter = self.filter.as_ref().map(|filter| filter.get());
        if let Some(filter) = filter.filter(Filter::is_ordered) {
            samples.sort_by(|one, other| filter.order(one.key_value(), other.key_value()));
        }
    }
}

/// Condition on a reader, as a wait set holds it.
struct ReaderConditionSource<T: TopicData> {
    reader: Arc<ReaderCore<T>>,
    condition: ReadCondition<T>,
}

impl<T: TopicData> ConditionSource for ReaderConditionSource<T> {
    fn is_triggered(&self) -> bool {
        self.reader.has_wanted(&self.condition)
    }

    fn driver(&self) -> Option<Arc<dyn WaitDriver>> {
        Some(Arc::clone(&self.reader.participant) as _)
    }

    fn next_check(&self) -> Option<Time> {
        self.reader.next_look()
    }

    fn entity(&self) -> Option<InstanceHandle> {
        Some(self.reader.name_in_domain())
    }
}

impl<T: TopicData> DataReader<T> {
    /// Condition for [wait sets](crate::infrastructure::WaitSet). It holds while there is a sample
    /// that `condition` selects, and when the participant is isolated for good, which the next call
    /// on the reader reports.
    ///
    /// ```no_run
    /// use dds_api::infrastructure::{GuardCondition, WaitSet};
    /// use dds_api::prelude::*;
    /// use dds_api::subscription::{ReadCondition, States};
    ///
    /// #[derive(DdsType, Clone, Debug, Default)]
    /// struct Track { #[dds(key)] id: u32, height: f64 }
    ///
    /// # fn watch(reader: DataReader<Track>, stop: &GuardCondition) -> DdsResult<()> {
    /// let low = ReadCondition::query(States::not_read(), "height < 300 ORDER BY height", &[])?;
    /// let low_there = reader.condition(&low);
    /// let wait_set = WaitSet::new();
    /// wait_set.attach(&low_there)?;
    /// wait_set.attach(stop)?;
    /// while !wait_set.wait(Timeout::FOREVER)?.contains(stop.as_ref()) {
    ///     for track in reader.take_w_condition(.., &low)?.iter().filter_map(|it| it.data()) {
    ///         println!("track {} is at {} m", track.id, track.height);
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn condition(&self, condition: &ReadCondition<T>) -> Condition {
        let (reader, condition) = (Arc::clone(&self.core), condition.clone());
        Condition::new(ReaderConditionSource { reader, condition })
    }
}
