//! The builtin subscriber and its readers: what discovery has, as samples.
//!
//! ```text
//!   machine ──tells──> ear ──samples──> the reader's cache, as if they had come by its queues
//! ```
//! There are none until somebody asks for them, and none is kept that nobody has a handle on.
//!
//! Owns: how they are made, and how what is told becomes a sample. Never does: find out anything; discovery does.

use std::any::Any;
use std::sync::{Arc, OnceLock, PoisonError, Weak};

use idl_xtypes::TopicData;
use qos_profiles::{
    DataReaderQos, DurabilityQosPolicyKind, PresentationQosPolicyAccessScopeKind,
    ReliabilityQosPolicyKind, SubscriberQos,
};

use super::intake::ReaderCore;
use super::reader::DataReader;
use super::sample::Body;
use super::shelf::wall;
use super::subscriber::Subscriber;
use super::{DataReaderBuilder, InstanceState};
use crate::domain::{
    BuiltinTopicData, DomainParticipant, ParticipantBuiltinTopicData, PublicationBuiltinTopicData,
    SubscriptionBuiltinTopicData, TopicBuiltinTopicData,
};
use crate::infrastructure::{DdsError, DdsResult};
use crate::mapping::builtin::{BuiltinKind, Hears, Told};
use crate::mapping::history::NOBODY;
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

/// The error of what is not to be done with builtin entities.
pub(crate) fn not_with_builtin(what: &str) -> DdsError {
    DdsError::IllegalOperation(format!(
        "{what} is the participant's own: nothing is written or changed there; readers of builtin topics come from \
         builtin_reader, those of a multi-topic from the multi-topic"
    ))
}

/// What the policies of builtin readers are, as the standard says.
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

/// Takes in what the machine tells, for a reader.
struct Ear<T: BuiltinTopicData>(OnceLock<Weak<ReaderCore<T>>>);

impl<T: BuiltinTopicData> Hears for Ear<T> {
    fn kind(&self) -> Option<BuiltinKind> {
        Some(T::SOURCE.kind)
    }

    fn hear(&self, told: Vec<Told>) {
        let Some(reader) = self.0.get().and_then(Weak::upgrade) else { return };
        let now = wall();
        let samples = told.into_iter().filter_map(|(entity, fact)| {
            let (data, state) = match fact {
                Some(fact) => ((T::SOURCE.told)(entity, fact)?, InstanceState::Alive),
                None => ((T::SOURCE.gone)(entity), InstanceState::NotAliveDisposed),
            };
            // All of them come by one stream, which never ends: what is gone is disposed, and not lost with its writer.
            Some((Body::of_told(data, state, now, entity.node), NOBODY))
        });
        reader.opened.put(samples);
    }
}

/// Builtin topics: what the standard has of participants, topics, writers and readers, as samples.
///
/// | topic | its samples | tells of |
/// | --- | --- | --- |
/// | `DCPSParticipant` | [`ParticipantBuiltinTopicData`] | participants |
/// | `DCPSTopic` | [`TopicBuiltinTopicData`] | topics, of each participant for itself |
/// | `DCPSPublication` | [`PublicationBuiltinTopicData`] | writers |
/// | `DCPSSubscription` | [`SubscriptionBuiltinTopicData`] | readers |
///
/// Each entity of another participant that is enabled is an instance, alive as long as it is there, and disposed when it is gone or
/// [ignored](DomainParticipant::ignore_participant). A participant does not see what is its own. A reader begins with all that
/// is there, and keeps the last sample of each; it is an ordinary one in all that it is asked. Its policies are the standard's.
///
/// What comes and goes again before this participant has heard of it is not seen. The
/// [source timestamp](super::SampleInfo::source_timestamp) is when it has heard, and the
/// [publication](super::SampleInfo::publication_handle) the participant whose entity it is.
impl DomainParticipant {
    /// A reader of a builtin topic: always the same one as long as there is a handle on it, else a new one.
    ///
    /// # Errors
    /// [`DdsError::NotEnabled`] if the participant is not enabled.
    ///
    /// ```no_run
    /// use dds_api::domain::PublicationBuiltinTopicData;
    /// use dds_api::prelude::*;
    /// use dds_api::subscription::InstanceState;
    ///
    /// # fn main() -> DdsResult<()> {
    /// let participant = DomainParticipant::new(0)?;
    /// let writers = participant.builtin_reader::<PublicationBuiltinTopicData>()?;
    /// while let Some(writer) = writers.take_next(Timeout::secs(10))? {
    ///     match writer.info().instance_state {
    ///         InstanceState::Alive => println!("{} writes `{}`", writer.key, writer.topic_name),
    ///         _ => println!("{} writes no more", writer.key), // the key is all there is of it
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn builtin_reader<T: BuiltinTopicData>(&self) -> DdsResult<DataReader<T>> {
        reader_of(&self.builtin_subscriber()?)
    }

    /// The builtin subscriber, to which the readers of builtin topics belong, for its listener and for
    /// [`Subscriber::lookup_reader`]. It cannot be changed, and no other readers are made of it.
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
    ///     println!("{}: {:?}", other.key, other.info().instance_state);
    /// }
    /// # let _ = States::not_read();
    /// # Ok(())
    /// # }
    /// ```
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

/// The reader of a builtin topic that this subscriber has, or a new one.
fn reader_of<T: BuiltinTopicData>(subscriber: &Subscriber) -> DdsResult<DataReader<T>> {
    let participant = subscriber.inner();
    // One at a time makes one.
    let _place = participant.builtin.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(reader) = subscriber.entity().lookup(T::TOPIC_NAME) {
        return Ok(reader);
    }
    let topic = Topic::<T>::local((participant, T::TOPIC_NAME), (), TopicOrigin::Discovery)?;
    let ear = Arc::new(Ear(OnceLock::new()));
    let builder = DataReaderBuilder::new(Arc::clone(participant), &topic);
    let builder = builder.within(subscriber.clone()).qos(&reader_qos());
    let reader: DataReader<T> = builder.listening(Arc::clone(&ear) as _)?;
    ear.0.get_or_init(|| Arc::downgrade(&reader.core));
    reader.enable()?;
    Ok(reader)
}

/// The reader of the builtin topic of this name, if that has samples of this type.
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
