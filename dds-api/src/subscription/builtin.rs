//! The builtin subscriber and its readers: discovery data as samples.
//!
//! ```text
//!   machine ──reports──> listener ──samples──> the reader's cache, like queued samples
//! ```
//! The subscriber and its readers exist only on request, and only while there is a handle on them.
//!
//! Owns: how they are made, and the conversion of discovery reports to samples. Never does:
//! discover anything.

use std::any::Any;
use std::sync::{Arc, OnceLock, PoisonError, Weak};

use idl_xtypes::TopicData;
use qos_profiles::{
    DataReaderQos, DurabilityQosPolicyKind, PresentationQosPolicyAccessScopeKind,
    ReliabilityQosPolicyKind, SubscriberQos,
};

use super::intake::ReaderCore;
use super::reader::DataReader;
use super::reader_cache::wall;
use super::sample::SampleBody;
use super::subscriber::Subscriber;
use super::{DataReaderBuilder, InstanceState};
use crate::domain::{
    BuiltinTopicData, DomainParticipant, ParticipantBuiltinTopicData, PublicationBuiltinTopicData,
    SubscriptionBuiltinTopicData, TopicBuiltinTopicData,
};
use crate::infrastructure::{DdsError, DdsResult};
use crate::mapping::builtin::{BuiltinKind, DiscoverySink, EntityUpdate};
use crate::mapping::kept_replay::GONE_SENDER;
use crate::topic::{Topic, TopicOrigin};

/// Whether a topic of this name is a builtin one.
pub(crate) fn is_builtin(topic: &str) -> bool {
    let names = [
        ParticipantBuiltinTopicData::TOPIC_NAME,
        TopicBuiltinTopicData::TOPIC_NAME,
        PublicationBuiltinTopicData::TOPIC_NAME,
        SubscriptionBuiltinTopicData::TOPIC_NAME,
    ];
    names.contains(&topic)
}

/// The error of an operation that builtin entities do not allow (I-186).
pub(crate) fn not_with_builtin(what: &str) -> DdsError {
    DdsError::IllegalOperation(format!(
        "{what} belongs to the participant and cannot be written or changed: get readers of \
         builtin topics from builtin_reader, and readers of a multi-topic from the multi-topic"
    ))
}

/// The policies of builtin readers, as the standard prescribes.
fn reader_qos() -> DataReaderQos {
    let mut qos = DataReaderQos::default();
    qos.durability.kind = DurabilityQosPolicyKind::TransientLocal;
    qos.reliability.kind = ReliabilityQosPolicyKind::Reliable;
    qos
}

fn subscriber_qos() -> SubscriberQos {
    let mut qos = SubscriberQos::default();
    qos.presentation.access_scope = PresentationQosPolicyAccessScopeKind::Topic;
    qos
}

/// Receives discovery reports from the machine, for a reader.
struct BuiltinReaderSink<T: BuiltinTopicData>(OnceLock<Weak<ReaderCore<T>>>);

impl<T: BuiltinTopicData> DiscoverySink for BuiltinReaderSink<T> {
    fn kind(&self) -> Option<BuiltinKind> {
        Some(T::SOURCE.kind)
    }

    fn report(&self, updates: Vec<EntityUpdate>) {
        let Some(reader) = self.0.get().and_then(Weak::upgrade) else { return };
        let now = wall();
        let samples = updates.into_iter().filter_map(|(entity, fact)| {
            let (data, state) = match fact {
                Some(fact) => ((T::SOURCE.sample_of)(entity, fact)?, InstanceState::Alive),
                None => ((T::SOURCE.sample_of_gone)(entity), InstanceState::NotAliveDisposed),
            };
            // All reports come by one stream, which never ends. An entity that is gone is therefore
            // disposed, and not lost with its writer.
            Some((SampleBody::of_update(data, state, now, entity.node), GONE_SENDER))
        });
        reader.unqueued.receive(samples);
    }
}

/// Builtin topics: the standard's discovery data of participants, topics, writers and readers,
/// as samples.
///
/// | topic | samples | subject |
/// | --- | --- | --- |
/// | `DCPSParticipant` | [`ParticipantBuiltinTopicData`] | participants |
/// | `DCPSTopic` | [`TopicBuiltinTopicData`] | topics, separately for each participant |
/// | `DCPSPublication` | [`PublicationBuiltinTopicData`] | writers |
/// | `DCPSSubscription` | [`SubscriptionBuiltinTopicData`] | readers |
///
/// Each enabled entity of another participant is an instance. It is alive while the entity exists,
/// and disposed when the entity is gone or [ignored](DomainParticipant::ignore_participant). A
/// participant does not see its own entities. A reader starts with all entities that exist, and
/// keeps the last sample of each. All calls of an ordinary reader work on it. It has the policies
/// that the standard prescribes.
///
/// An entity is not seen if it comes and goes before this participant has heard of it. The [source
/// timestamp](super::SampleInfo::source_timestamp) is the time at which this participant heard of
/// the entity, and the [publication](super::SampleInfo::publication_handle) is the participant to
/// which the entity belongs.
impl DomainParticipant {
    /// A reader of a builtin topic. The call returns the same reader while there is a handle on it,
    /// else a new one.
    ///
    /// # Errors
    /// [`DdsError::NotEnabled`] if the participant is not enabled.
    ///
    /// ```no_run
    /// use dds_api::domain::PublicationBuiltinTopicData;
    /// use dds_api::prelude::*;
    ///
    /// # fn main() -> DdsResult<()> {
    /// let participant = DomainParticipant::new(0)?;
    /// let writers = participant.builtin_reader::<PublicationBuiltinTopicData>()?;
    /// while let Some(writer) = writers.take_next(Timeout::secs(10))? {
    ///     match writer.data() {
    ///         Some(data) => println!("{} writes `{}`", data.key, data.topic_name),
    ///         None => println!("{} writes no more", writer.key_value().key),
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn builtin_reader<T: BuiltinTopicData>(&self) -> DdsResult<DataReader<T>> {
        reader_of(&self.builtin_subscriber()?)
    }

    /// The builtin subscriber, to which the readers of builtin topics belong. It serves for its
    /// listener and for [`Subscriber::lookup_reader`]. It cannot be changed, and no other readers
    /// can be made of it.
    ///
    /// # Errors
    /// [`DdsError::NotEnabled`] if the participant is not enabled.
    ///
    /// ```no_run
    /// use dds_api::domain::ParticipantBuiltinTopicData;
    /// use dds_api::prelude::*;
    /// use dds_api::subscription::States;
    ///
    /// # fn main() -> DdsResult<()> {
    /// let participant = DomainParticipant::new(0)?;
    /// let subscriber = participant.builtin_subscriber()?;
    /// let reader = subscriber.lookup_reader::<ParticipantBuiltinTopicData>("DCPSParticipant");
    /// for other in reader.into_iter().flat_map(|reader| reader.read(.., Timeout::NOW)).flatten() {
    ///     println!("{}: {:?}", other.key_value().key, other.info().instance_state);
    /// }
    /// # let _ = States::not_read();
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "get_builtin_subscriber")]
    pub fn builtin_subscriber(&self) -> DdsResult<Subscriber> {
        self.check()?;
        let mut place = self.inner.builtin.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(group) = place.upgrade() {
            return Ok(Subscriber::of(group));
        }
        let subscriber = Subscriber::builtin(&self.inner, subscriber_qos());
        *place = subscriber.downgrade();
        Ok(subscriber)
    }
}

/// The subscriber's reader of a builtin topic, or a new one.
fn reader_of<T: BuiltinTopicData>(subscriber: &Subscriber) -> DdsResult<DataReader<T>> {
    let participant = subscriber.inner();
    // The lock ensures that only one thread makes a reader.
    let _place = participant.builtin.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(reader) = subscriber.entity().lookup(T::TOPIC_NAME) {
        return Ok(reader);
    }
    let topic = Topic::<T>::local(participant, T::TOPIC_NAME, (), TopicOrigin::Discovery)?;
    let sink = Arc::new(BuiltinReaderSink(OnceLock::new()));
    let builder = DataReaderBuilder::new(Arc::clone(participant), &topic);
    let builder = builder.within(subscriber.clone()).qos(&reader_qos());
    let reader: DataReader<T> = builder.listening(Arc::clone(&sink) as _)?;
    sink.0.get_or_init(|| Arc::downgrade(&reader.core));
    reader.enable()?;
    Ok(reader)
}

/// The reader of the builtin topic of this name, if that topic has samples of type `T`.
pub(super) fn lookup<T: TopicData>(subscriber: &Subscriber, topic: &str) -> Option<DataReader<T>> {
    fn found<B: BuiltinTopicData>(subscriber: &Subscriber) -> Option<Box<dyn Any>> {
        Some(Box::new(reader_of::<B>(subscriber).ok()?))
    }
    let reader = match topic {
        ParticipantBuiltinTopicData::TOPIC_NAME => found::<ParticipantBuiltinTopicData>(subscriber),
        TopicBuiltinTopicData::TOPIC_NAME => found::<TopicBuiltinTopicData>(subscriber),
        PublicationBuiltinTopicData::TOPIC_NAME => found::<PublicationBuiltinTopicData>(subscriber),
        SubscriptionBuiltinTopicData::TOPIC_NAME => {
            found::<SubscriptionBuiltinTopicData>(subscriber)
        }
        _ => None,
    };
    reader?.downcast().ok().map(|reader| *reader)
}
