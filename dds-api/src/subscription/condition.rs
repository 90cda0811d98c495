//! What a reading call asks of samples.
//!
//! Owns: states and a query. Never does: look at a sample that nobody asked about.

use std::sync::Arc;

use super::states::States;

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
    pub(super) query: Option<Query<T>>,
}

impl<T> Clone for ReadCondition<T> {
    fn clone(&self) -> Self {
        ReadCondition { states: self.states, query: self.query.clone() }
    }
}

impl<T> From<States> for ReadCondition<T> {
    fn from(states: States) -> Self {
        ReadCondition::new(states)
    }
}

impl<T> ReadCondition<T> {
    /// Samples in these states.
    pub fn new(states: States) -> Self {
        ReadCondition { states, query: None }
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

    /// Whether these data are wanted.
    pub(super) fn wants(&self, data: &T) -> bool {
        self.query.as_ref().is_none_or(|query| query(data))
    }
}
