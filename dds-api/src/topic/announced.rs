//! Topics that participants of the domain have endpoints of, and ours of the same kind without their type compiled in.
//!
//! Owns: what is shown of a topic that others have announced. Never does: know more of it than all participants do.

use idl_xtypes::{DynamicData, DynamicType, SerializedData, TopicData};
use qos_profiles::{EntityQos, PolicyId, TopicQos};

use super::Topic;
use crate::domain::{DomainParticipant, usual_topic};
use crate::infrastructure::{DdsError, DdsResult, Timeout};
use crate::mapping::directory::TopicFacts;
use crate::mapping::endpoint::Endpoint;
use crate::mapping::sight::Sight;

/// Of which writer and reader have to say the same, or which the writer must not promise less of.
const AGREED: [PolicyId; 6] = [
    PolicyId::Ownership,
    PolicyId::Deadline,
    PolicyId::DestinationOrder,
    PolicyId::LatencyBudget,
    PolicyId::Liveliness,
    PolicyId::Reliability,
];

/// What says which samples a topic keeps.
const KEPT: [PolicyId; 3] = [PolicyId::Durability, PolicyId::DurabilityService, PolicyId::Lifespan];

/// A topic as the participants of the domain have announced it, this one among them.
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
    /// As one participant has it, who has a writer of it if there is one.
    facts: TopicFacts,
    of: Option<DynamicType>,
    writers: usize,
    readers: usize,
    partitions: Vec<String>,
}

impl AnnouncedTopic {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.facts.name
    }

    /// The name of its type.
    pub fn type_name(&self) -> &str {
        &self.facts.data_type.name
    }

    /// Its type; none if nobody tells of it.
    pub fn dynamic_type(&self) -> Option<&DynamicType> {
        self.of.as_ref()
    }

    /// What it gives, in a word or two.
    pub fn level(&self) -> String {
        self.facts.level.to_string()
    }

    /// Whether its samples come in one order at all readers.
    pub fn is_atomic(&self) -> bool {
        self.facts.level.is_ordered()
    }

    /// Whether its samples are kept for those who come later.
    pub fn is_kept(&self) -> bool {
        self.facts.level.is_kept()
    }

    /// Whether each of its partitions is a stream by itself.
    pub fn is_sharded(&self) -> bool {
        self.facts.order.is_by_partition()
    }

    /// The order that its samples have in common with those of other topics, if they have.
    pub fn common_order(&self) -> Option<&str> {
        self.facts.order.common()
    }

    /// How many writers there are.
    pub fn writers(&self) -> usize {
        self.writers
    }

    /// How many readers there are.
    pub fn readers(&self) -> usize {
        self.readers
    }

    /// The partitions that its writers and readers name, in their order; none are in the one without a name.
    pub fn partitions(&self) -> &[String] {
        &self.partitions
    }
}

impl From<Sight> for AnnouncedTopic {
    fn from(sight: Sight) -> AnnouncedTopic {
        let Sight { endpoint, topic, of, writers, readers, partitions } = sight;
        let qos = agreed(&endpoint, topic);
        let Endpoint { topic: name, data_type, level, order, keeping, .. } = endpoint;
        let facts = TopicFacts { name, data_type, level, order, keeping, qos };
        AnnouncedTopic { facts, of, writers, readers, partitions }
    }
}

impl DomainParticipant {
    /// The topics that the participants of the domain have writers or readers of, as this one knows it now.
    pub fn announced_topics(&self) -> Vec<AnnouncedTopic> {
        let all = self.inner.engine.act(|machine, _, _| machine.sights());
        all.into_iter().map(AnnouncedTopic::from).collect()
    }

    /// The topic of this name that others have, or will have before the time is over, for a program that was not compiled with its
    /// type. It has their level, and the policies that writer and reader have to agree on.
    ///
    /// ```no_run
    /// use dds_api::prelude::*;
    ///
    /// # fn main() -> DdsResult<()> {
    /// let participant = DomainParticipant::new(0)?;
    /// let topic = participant.find_dynamic_topic("Attitude", Timeout::secs(5))?;
    /// let reader = participant.reader(&topic).create()?;
    /// for sample in reader.take(.., Timeout::secs(1))? {
    ///     println!("{}", sample.to_text());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`DdsError::Timeout`] if nobody has such a topic; [`DdsError::PreconditionNotMet`] if its type is not told, because it is
    /// too long.
    pub fn find_dynamic_topic(
        &self,
        name: &str,
        timeout: impl Into<Timeout>,
    ) -> DdsResult<Topic<DynamicData>> {
        self.found(name, timeout.into())
    }

    /// The same, of samples that are passed on as their bytes.
    ///
    /// # Errors
    /// As of [`find_dynamic_topic`](Self::find_dynamic_topic).
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
            let found = self.inner.engine.act(|machine, _, _| machine.sight(name));
            let Some(found) = found.map(AnnouncedTopic::from) else { return Ok(None) };
            let AnnouncedTopic { facts, of, .. } = found;
            let of = of.ok_or_else(|| {
                DdsError::PreconditionNotMet(format!(
                    "of the type `{}` of topic `{name}` nothing is told but its name: make the topic with its type",
                    facts.data_type.name
                ))
            })?;
            Topic::of_others(&self.inner, of, facts).map(Some)
        })
    }
}

/// Policies of a topic that let a reader be matched with this writer, or a writer with this reader, and keep what the topic keeps.
fn agreed(of: &Endpoint, topic: Option<TopicQos>) -> TopicQos {
    let [own, _] = of.policies.both();
    let mut qos = EntityQos::from(usual_topic());
    AGREED.into_iter().for_each(|policy| qos.adopt(&own, policy));
    if let Some(topic) = topic {
        let topic = EntityQos::from(topic);
        KEPT.into_iter().for_each(|policy| qos.adopt(&topic, policy));
    }
    match qos {
        EntityQos::Topic(qos) => qos,
        _ => usual_topic(),
    }
}
