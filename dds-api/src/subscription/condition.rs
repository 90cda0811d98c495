//! What a reading call asks of samples.
//!
//! Owns: states, a query, an expression, and what wait sets wait for. Never does: look at a sample that nobody asked about.

use std::sync::Arc;

use dds_sql::Filter;
use derecho_core::ids::Time;
use idl_xtypes::TopicData;

use super::intake::ReaderCore;
use super::reader::DataReader;
use super::sample::Sample;
use super::states::States;
use crate::infrastructure::{Condition, DdsError, DdsResult, Driver, InstanceHandle, Trigger};
use crate::topic::{SharedFilter, Topic, wrong};

/// A query over data.
type Query<T> = Arc<dyn Fn(&T) -> bool + Send + Sync>;

/// READ_CONDITION and QUERY_CONDITION: which samples a call is to give, by their states and by their data. The query is
/// asked about samples with data alone, and must not call the reader.
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
///     println!("track {} is low: {:?}", track.id, track.info());
/// }
/// # Ok(())
/// # }
/// ```
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
    /// Samples in these states.
    pub fn new(states: States) -> Self {
        states.into()
    }

    /// QUERY_CONDITION: of the samples in these states those that an expression of the standard's SQL lets pass, with `%0`
    /// to `%99` for parameters; in the order that it says with `ORDER BY`. Clones share the parameters.
    ///
    /// # Errors
    /// [`DdsError::BadParameter`](crate::infrastructure::DdsError::BadParameter) if the expression is wrong, or compares what
    /// cannot be compared; it says where and why.
    pub fn query(states: States, expression: &str, parameters: &[String]) -> DdsResult<Self>
    where
        T: TopicData<TypeSupport = ()>,
    {
        Self::query_of(&(), states, expression, parameters)
    }

    /// The same for samples of a topic whose type may be known at run time only.
    ///
    /// # Errors
    /// As of [`ReadCondition::query`].
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
            .map_err(|error| wrong(&error))?;
        let filter = Some(Arc::new(SharedFilter::new(filter)));
        Ok(ReadCondition { states, query: None, filter })
    }

    /// Of them only those whose data this says yes to.
    pub fn matching(mut self, query: impl Fn(&T) -> bool + Send + Sync + 'static) -> Self {
        self.query = Some(Arc::new(query));
        self
    }

    /// The states.
    pub fn states(&self) -> States {
        self.states
    }

    /// The expression, if it has one.
    pub fn query_expression(&self) -> Option<String> {
        self.filter.as_ref().map(|filter| filter.get().expression().to_owned())
    }

    /// The present values of the expression's parameters.
    pub fn query_parameters(&self) -> Vec<String> {
        self.filter.as_ref().map_or(Vec::new(), |filter| filter.get().parameters().to_vec())
    }

    /// Gives the parameters of the expression other values.
    ///
    /// # Errors
    /// [`DdsError::BadParameter`] if one is missing or cannot be compared; then all stays as it was.
    /// [`DdsError::PreconditionNotMet`] if this has no expression.
    pub fn set_query_parameters(&self, parameters: &[String]) -> DdsResult<()> {
        match &self.filter {
            Some(filter) => filter.set_parameters(parameters),
            None => Err(DdsError::PreconditionNotMet(
                "this condition has no expression: make it with ReadCondition::query".to_owned(),
            )),
        }
    }

    /// Whether these data are wanted.
    pub(super) fn wants(&self, data: &T) -> bool {
        self.query.as_ref().is_none_or(|query| query(data))
            && self.filter.as_ref().is_none_or(|filter| filter.accepts(data))
    }

    /// Puts samples in the order that its expression says, if it says one.
    pub(super) fn put_in_order(&self, samples: &mut [Sample<T>]) {
        let filter = self.filter.as_ref().map(|filter| filter.get());
        if let Some(filter) = filter.filter(Filter::is_ordered) {
            samples.sort_by(|one, other| filter.order::<T>(one, other));
        }
    }
}

/// A condition over a reader, as wait sets have it.
struct ReaderTrigger<T: TopicData> {
    reader: Arc<ReaderCore<T>>,
    condition: ReadCondition<T>,
}

impl<T: TopicData> Trigger for ReaderTrigger<T> {
    fn is_triggered(&self) -> bool {
        self.reader.has_wanted(&self.condition)
    }

    fn driver(&self) -> Option<Arc<dyn Driver>> {
        Some(Arc::clone(&self.reader.participant) as _)
    }

    fn next_look(&self) -> Option<Time> {
        self.reader.next_look()
    }

    fn entity(&self) -> Option<InstanceHandle> {
        Some(self.reader.name_in_domain())
    }
}

impl<T: TopicData> DataReader<T> {
    /// A condition for [wait sets](crate::infrastructure::WaitSet): it holds as long as there is a sample that this wants, and
    /// when the participant is isolated for good, which the next call on the reader says.
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
    ///     for track in reader.take_w_condition(.., &low)? {
    ///         println!("track {} is at {} m", track.id, track.height);
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn condition(&self, condition: &ReadCondition<T>) -> Condition {
        let (reader, condition) = (Arc::clone(&self.core), condition.clone());
        Condition::new(ReaderTrigger { reader, condition })
    }
}
