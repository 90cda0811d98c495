//! Topics for which participants of the domain have endpoints, and own topics of the same kind
//! without a compiled-in type.
//!
//! Owns: the view of a topic that others have announced. Never does: know more of the topic than
//! all participants do.

use idl_xtypes::{DynamicData, DynamicType, SerializedData, TopicData};
use qos_profiles::{EntityQos, PolicyId, TopicQos};

use super::Topic;
use crate::domain::DomainParticipant;
use crate::infrastructure::{DdsError, DdsResult, Timeout};
use crate::mapping::directory::TopicFacts;
use crate::mapping::endpoint::Endpoint;
use crate::mapping::topic_summary::TopicSummary;

/// Policies that must be the same for writer and reader, or of which the writer must not
/// offer less.
const AGREED: [PolicyId; 6] = [
    PolicyId::Ownership,
    PolicyId::Deadline,
    PolicyId::DestinationOrder,
    PolicyId::LatencyBudget,
    PolicyId::Liveliness,
    PolicyId::Reliability,
];

/// Policies that determine which samples a topic keeps.
const KEPT: [PolicyId; 3] = [PolicyId::Durability, PolicyId::DurabilityService, PolicyId::Lifespan];

/// A topic as the participants of the domain, including this one, have announced it.
///
/// ```no_run
/// use dds_api::prelude::*;
///
/// # fn main() -> DdsResult<()> {
/// let participant = DomainParticipant::new(0)?;
/// for topic in participant.announced_topics() {
///     println!("{} of type {}: {} writers", topic.name(), topic.type_name(), topic.writers());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct AnnouncedTopic {
    /// The topic as one participant has announced it: a participant with a writer, if there is one.
    facts: TopicFacts,
    of: Option<DynamicType>,
    writers: usize,
    readers: usize,
    partitions: Vec<String>,
}

impl AnnouncedTopic {
    /// The topic's name.
    pub fn name(&self) -> &str {
        &self.facts.name
    }

    /// The name of the topic's type.
    pub fn type_name(&self) -> &str {
        &self.facts.data_type.name
    }

    /// The topic's type; `None` if no participant has announced it.
    pub fn dynamic_type(&self) -> Option<&DynamicType> {
        self.of.as_ref()
    }

    /// The topic's level, in one or two words.
    pub fn level(&self) -> String {
        self.facts.level.to_string()
    }

    /// Whether samples come in one order at all readers.
    pub fn is_atomic(&self) -> bool {
        self.facts.level.is_ordered()
    }

    /// Whether samples are kept for late joiners.
    pub fn is_kept(&self) -> bool {
        self.facts.level.is_kept()
    }

    /// Whether each partition is a stream by itself.
    pub fn is_sharded(&self) -> bool {
        self.facts.order.is_by_partition()
    }

    /// Name of the order that the topic shares with other topics, if it shares one.
    pub fn common_order(&self) -> Option<&str> {
        self.facts.order.common()
    }

    /// Number of writers.
    pub fn writers(&self) -> usize {
        self.writers
    }

    /// Number of readers.
    pub fn readers(&self) -> usize {
        self.readers
    }

    /// Names of the partitions of the topic's writers and readers, sorted. Those without a
    /// partition are in the one without a name.
    pub fn partitions(&self) -> &[String] {
        &self.partitions
    }
}

impl From<TopicSummary> for AnnouncedTopic {
    fn from(summary: TopicSummary) -> AnnouncedTopic {
        let TopicSummary { endpoint, topic, of, writers, readers, partitions } = summary;
        let qos = agreed(&endpoint, topic);
        let Endpoint { topic: name, data_type, level, order, retention, .. } = endpoint;
        let facts = TopicFacts { name, data_type, level, order, retention, qos };
        AnnouncedTopic { facts, of, writers, readers, partitions }
    }
}

impl DomainParticipant {
    /// Topics that participants of the domain have writers or readers of, as far as this
    /// participant knows.
    pub fn announced_topics(&self) -> Vec<AnnouncedTopic> {
        let all = self.inner.engine.act(|machine, _, _| machine.topic_summaries());
        all.into_iter().map(AnnouncedTopic::from).collect()
    }

    /// Finds the topic of this name that another participant has, or makes within the time, for a
    /// program that was not compiled with the topic's type. The result has that topic's level, and
    /// the policies on which writer and reader must agree.
    ///
    /// ```no_run
    /// use dds_api::prelude::*;
    ///
    /// # fn main() -> DdsResult<()> {
    /// let participant = DomainParticipant::new(0)?;
    /// let topic = participant.find_dynamic_topic("Attitude", Timeout::secs(5))?;
    /// let reader = participant.reader(&topic).create()?;
    /// for sample in reader.take_data(.., Timeout::secs(1))? {
    ///     println!("{}", sample.to_text());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`DdsError::Timeout`] if no participant has such a topic; [`DdsError::PreconditionNotMet`]
    /// if its type is not announced, because it is too long.
    pub fn find_dynamic_topic(
        &self,
        name: &str,
        timeout: impl Into<Timeout>,
    ) -> DdsResult<Topic<DynamicData>> {
        self.found(name, timeout.into())
    }

    /// Does what [`find_dynamic_topic`](Self::find_dynamic_topic) does, for samples that are passed
    /// on as serialized bytes.
    ///
    /// # Errors
    /// As for [`find_dynamic_topic`](Self::find_dynamic_topic).
    pub fn find_serialized_topic(
        &self,
        name: &str,
        timeout: impl Into<Timeout>,
    ) -> DdsResult<Topic<SerializedData>> {
        self.found(name, timeout.into())
    }

    fn found<T: TopicData<TypeSupport = DynamicType>>(
        &self,
        name: &str,
        timeout: Timeout,
    ) -> DdsResult<Topic<T>> {
        self.find(name, timeout, || {
            let found = self.inner.engine.act(|machine, _, _| machine.topic_summary(name));
            let Some(found) = found.map(AnnouncedTopic::from) else { return Ok(None) };
            let AnnouncedTopic { facts, of, .. } = found;
            let of = of.ok_or_else(|| {
                DdsError::PreconditionNotMet(format!(
                    "type `{}` of topic `{name}` is announced by name only: create the topic with \
                     its type",
                    facts.data_type.name
                ))
            })?;
            Topic::of_others(&self.inner, of, facts).map(Some)
        })
    }
}

/// Policies with which an endpoint of the topic can be matched with this one, and keeps what the
/// topic keeps.
fn agreed(of: &Endpoint, topic: Option<TopicQos>) -> TopicQos {
    let [own, _] = of.policies.both();
    let mut qos = EntityQos::from(TopicQos::default());
    AGREED.into_iter().for_each(|policy| qos.adopt(&own, policy));
    if let Some(topic) = topic {
        let topic = EntityQos::from(topic);
        KEPT.into_iter().for_each(|policy| qos.adopt(&topic, policy));
    }
    match qos {
        EntityQos::Topic(qos) => qos,
        _ => TopicQos::default(),
    }
}
