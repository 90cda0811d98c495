//! Content-filtered topics: topics whose readers get the samples that satisfy an expression.
//!
//! Owns: the expression and its parameters. Never does: know the samples; the readers evaluate the
//! expression for each.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};

use dds_sql::{ExpressionError, Filter};
use idl_xtypes::TopicData;

use super::multi::JoinedTopics;
use super::{Topic, TopicEntity};
use crate::domain::{DomainParticipant, ParticipantInner};
use crate::infrastructure::{DdsError, DdsResult};

/// Expression that several threads evaluate, and whose parameters one thread may change.
pub(crate) struct SharedFilter(RwLock<Filter>);

impl SharedFilter {
    pub(crate) fn new(filter: Filter) -> SharedFilter {
        warn_about(&filter);
        SharedFilter(RwLock::new(filter))
    }

    /// The expression with its current parameters.
    pub(crate) fn get(&self) -> Filter {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets the parameters. If they are wrong, the current ones remain.
    pub(crate) fn set_parameters(&self, parameters: &[String]) -> DdsResult<()> {
        let mut filter = self.0.write().unwrap_or_else(PoisonError::into_inner);
        *filter = filter.with_parameters(parameters).map_err(|error| expression_error(&error))?;
        warn_about(&filter);
        Ok(())
    }

    /// Whether a sample passes the filter.
    pub(crate) fn accepts<T: TopicData>(&self, sample: &T) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).accepts(sample)
    }
}

/// Logs what is valid in an expression, and probably not meant.
fn warn_about(filter: &Filter) {
    for remark in filter.remarks() {
        tracing::warn!("filter expression, {remark}");
    }
}

/// The error of an invalid expression.
pub(crate) fn expression_error(error: &ExpressionError) -> DdsError {
    DdsError::BadParameter(format!("an expression is wrong {error}"))
}

/// A topic whose readers get only the samples that satisfy an expression. It is made by
/// [`content_filtered_topic`](crate::domain::DomainParticipant::content_filtered_topic).
/// Clones are handles on the same filtered topic.
///
/// ```no_run
/// use dds_api::prelude::*;
///
/// #[derive(DdsType, Clone, Debug, Default)]
/// struct Track { #[dds(key)] callsign: String, altitude: f64 }
///
/// # fn main() -> DdsResult<()> {
/// let participant = DomainParticipant::new(0)?;
/// let tracks = participant.topic::<Track>("Tracks").create()?;
/// let (expression, parameters) = ("altitude < %0 AND callsign LIKE 'F-%'", ["3000".to_owned()]);
/// let low = participant.content_filtered_topic("Low tracks", &tracks, expression, &parameters)?;
/// let reader = participant.reader(&low).create()?;
/// for track in reader.take_data(.., Timeout::secs(1))? {
///     println!("{track:?}");
/// }
/// low.set_expression_parameters(&["1000".to_owned()])?;
/// # Ok(())
/// # }
/// ```
#[doc(alias = "delete_contentfilteredtopic")]
pub struct ContentFilteredTopic<T: TopicData>(Arc<FilteredTopicState<T>>);

/// State of a content-filtered topic.
struct FilteredTopicState<T: TopicData> {
    name: Arc<str>,
    topic: Topic<T>,
    filter: Arc<SharedFilter>,
}

/// The content-filtered topics and multi-topics of a participant, by name.
#[derive(Default)]
pub(crate) struct DerivedTopics(Mutex<BTreeMap<Arc<str>, Weak<dyn Any + Send + Sync>>>);

impl DerivedTopics {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, Weak<dyn Any + Send + Sync>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The filtered topic or multi-topic of this name, if it is of this type.
    pub(super) fn find<P: Any + Send + Sync>(&self, name: &str) -> Option<Arc<P>> {
        let part = self.lock().get(name).and_then(Weak::upgrade)?;
        part.downcast().ok()
    }

    pub(super) fn enter(&self, name: &Arc<str>, part: Weak<dyn Any + Send + Sync>) {
        let mut all = self.lock();
        all.retain(|_, part| part.strong_count() > 0);
        all.insert(Arc::clone(name), part);
    }
}

impl<T: TopicData> Clone for ContentFilteredTopic<T> {
    fn clone(&self) -> Self {
        ContentFilteredTopic(Arc::clone(&self.0))
    }
}

impl<T: TopicData> ContentFilteredTopic<T> {
    /// Makes a filtered topic. The participant knows it by this name from now on.
    pub(crate) fn new(
        name: &str,
        derived_topics: &DerivedTopics,
        topic: &Topic<T>,
        expression: &str,
        parameters: &[String],
    ) -> DdsResult<Self> {
        let filter = Filter::in_type(T::fields(topic.support()), expression, parameters)
            .map_err(|error| expression_error(&error))?;
        let filter = Arc::new(SharedFilter::new(filter));
        let name: Arc<str> = name.into();
        let part =
            Arc::new(FilteredTopicState { name: Arc::clone(&name), topic: topic.clone(), filter });
        let known: Weak<FilteredTopicState<T>> = Arc::downgrade(&part);
        derived_topics.enter(&name, known);
        Ok(ContentFilteredTopic(part))
    }

    /// The participant of the filtered topic.
    #[doc(alias = "get_participant")]
    pub fn participant(&self) -> DomainParticipant {
        self.related_topic().participant()
    }

    /// The name, which is known only within this participant.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The topic whose samples are filtered.
    #[doc(alias = "get_related_topic")]
    pub fn related_topic(&self) -> &Topic<T> {
        &self.0.topic
    }

    /// The expression.
    #[doc(alias = "get_filter_expression")]
    pub fn filter_expression(&self) -> String {
        self.0.filter.get().expression().to_owned()
    }

    /// The current values of the expression's parameters.
    #[doc(alias = "get_expression_parameters")]
    pub fn expression_parameters(&self) -> Vec<String> {
        self.0.filter.get().parameters().to_vec()
    }

    /// Sets the values of the expression's parameters, for samples that readers examine from
    /// now on.
    ///
    /// # Errors
    /// [`DdsError::BadParameter`] if a value is missing or cannot be compared; all values then
    /// remain unchanged.
    pub fn set_expression_parameters(&self, parameters: &[String]) -> DdsResult<()> {
        self.0.filter.set_parameters(parameters)
    }
}

/// Description of what a reader reads: a topic, a filtered topic, or a multi-topic.
///
/// ```
/// use dds_api::prelude::*;
/// use dds_api::topic::TopicDescription;
///
/// /// Creates a reader of a topic, or of a part of one, that keeps the last samples.
/// fn last_of<D: TopicDescription>(
///     participant: &DomainParticipant,
///     of: &D,
/// ) -> DdsResult<DataReader<D::Data>> {
///     participant.reader(of).keep_last(1).create()
/// }
/// ```
pub trait TopicDescription: sealed::Sealed + Sized {
    /// The type of the samples.
    type Data: TopicData;

    /// The topic that the samples come from.
    #[doc(hidden)]
    fn topic(&self) -> &Topic<Self::Data>;

    /// Finds the description of this name in a participant.
    #[doc(hidden)]
    #[allow(private_interfaces, reason = "nobody outside can call or implement it")]
    fn look_up(participant: &ParticipantInner, name: &str) -> Option<Self>;

    /// Filter that the samples must pass.
    #[doc(hidden)]
    #[allow(private_interfaces, reason = "nobody outside can call or implement it")]
    fn filter(&self) -> Option<Arc<SharedFilter>> {
        None
    }

    /// The topics that are joined, if this is a multi-topic.
    #[doc(hidden)]
    #[allow(private_interfaces, reason = "nobody outside can call or implement it")]
    fn joined(&self) -> Option<Arc<JoinedTopics>> {
        None
    }
}

impl<T: TopicData> TopicDescription for Topic<T> {
    type Data = T;

    fn topic(&self) -> &Topic<T> {
        self
    }

    #[allow(private_interfaces, reason = "nobody outside can call or implement it")]
    fn look_up(participant: &ParticipantInner, name: &str) -> Option<Self> {
        participant.topics(name).find_map(TopicEntity::topic)
    }
}

impl<T: TopicData> TopicDescription for ContentFilteredTopic<T> {
    type Data = T;

    fn topic(&self) -> &Topic<T> {
        &self.0.topic
    }

    #[allow(private_interfaces, reason = "nobody outside can call or implement it")]
    fn look_up(participant: &ParticipantInner, name: &str) -> Option<Self> {
        participant.derived_topics.find(name).map(ContentFilteredTopic)
    }

    #[allow(private_interfaces, reason = "nobody outside can call or implement it")]
    fn filter(&self) -> Option<Arc<SharedFilter>> {
        Some(Arc::clone(&self.0.filter))
    }
}

mod sealed {
    use super::{ContentFilteredTopic, Topic, TopicData};
    use crate::topic::MultiTopic;

    pub trait Sealed {}
    impl<T: TopicData> Sealed for Topic<T> {}
    impl<T: TopicData> Sealed for ContentFilteredTopic<T> {}
    impl<T: TopicData> Sealed for MultiTopic<T> {}
}

#[cfg(test)]
mod tests {
    use tracing::field::{Field, Visit};
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Metadata, Subscriber};

    use super::*;

    /// Messages that a thread has logged.
    #[derive(Clone, Default)]
    struct Messages(Arc<Mutex<Vec<String>>>);

    impl Visit for Messages {
        fn record_debug(&mut self, _: &Field, value: &dyn std::fmt::Debug) {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).push(format!("{value:?}"));
        }
    }

    impl Subscriber for Messages {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }

        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }

        fn record(&self, _: &Id, _: &Record<'_>) {}

        fn record_follows_from(&self, _: &Id, _: &Id) {}

        fn event(&self, event: &Event<'_>) {
            event.record(&mut self.clone());
        }

        fn enter(&self, _: &Id) {}

        fn exit(&self, _: &Id) {}
    }

    #[derive(idl_cdr::DdsType)]
    #[dds(crate = "idl_cdr")]
    struct Track {
        callsign: String,
    }

    #[test]
    fn pattern_with_wildcards_of_a_shell_is_logged() -> Result<(), Box<dyn std::error::Error>> {
        let messages = Messages::default();
        let logged = || std::mem::take(&mut *messages.0.lock().expect("no test has panicked"));
        tracing::subscriber::with_default(messages.clone(), || {
            let filter = Filter::new::<Track>("callsign LIKE %0", &["'F*'".to_owned()])?;
            let filter = SharedFilter::new(filter);
            let told = logged();
            assert!(told.len() == 1 && told[0].contains("`%` for any text"), "{told:?}");
            filter.set_parameters(&["'F%'".to_owned()])?;
            assert_eq!(logged(), [""; 0]);
            filter.set_parameters(&["'F-????'".to_owned()])?;
            assert!(logged()[0].contains("`F-????`"));
            Ok(())
        })
    }
}
