//! Topics that participants of the domain have endpoints of, and ours of the same kind without their type compiled in.
//!
//! Owns: what is shown of a topic that others have announced. Never does: know more of it than all participants do.

use std::sync::Arc;

use derecho_node::clock;
use idl_xtypes::{DynamicData, DynamicType, SerializedData, TopicData};
use qos_profiles::{EntityQos, PolicyId, TopicQos};

use super::{Topic, TopicBuilder};
use crate::domain::{DomainParticipant, usual_topic};
use crate::infrastructure::{DdsError, DdsResult, Timeout};
use crate::mapping::endpoint::{Endpoint, EndpointKind};

/// How often whoever waits for a topic looks for it, in nanoseconds.
const LOOK: u64 = 2_000_000;

/// Of which writer and reader have to say the same, or which the writer must not promise less of.
const AGREED: [PolicyId; 6] = [
    PolicyId::Ownership,
    PolicyId::Deadline,
    PolicyId::DestinationOrder,
    PolicyId::LatencyBudget,
    PolicyId::Liveliness,
    PolicyId::Reliability,
];

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
    /// One that stands for all, a writer if there is one.
    endpoint: Endpoint,
    of: Option<DynamicType>,
    writers: usize,
    readers: usize,
    partitions: Vec<String>,
}

impl AnnouncedTopic {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.endpoint.topic
    }

    /// The name of its type.
    pub fn type_name(&self) -> &str {
        &self.endpoint.data_type.name
    }

    /// Its type; none if nobody tells of it.
    pub fn dynamic_type(&self) -> Option<&DynamicType> {
        self.of.as_ref()
    }

    /// What it gives, in a word or two.
    pub fn level(&self) -> String {
        self.endpoint.level.to_string()
    }

    /// Whether its samples come in one order at all readers.
    pub fn is_atomic(&self) -> bool {
        self.endpoint.level.is_ordered()
    }

    /// Whether its samples are kept for those who come later.
    pub fn is_kept(&self) -> bool {
        self.endpoint.level.is_kept()
    }

    /// Whether each of its partitions is a stream by itself.
    pub fn is_sharded(&self) -> bool {
        self.endpoint.sharded
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

/// What is announced of topics, each with the endpoints of its name.
pub(crate) fn gathered<'a>(
    endpoints: impl Iterator<Item = &'a Endpoint>,
    find: impl Fn(&Endpoint) -> Option<DynamicType>,
) -> Option<AnnouncedTopic> {
    let mut found: Option<AnnouncedTopic> = None;
    for endpoint in endpoints {
        let is_writer = match endpoint.kind {
            EndpointKind::Writer => true,
            EndpointKind::Reader => false,
            _ => continue,
        };
        let topic = found.get_or_insert_with(|| AnnouncedTopic {
            endpoint: endpoint.clone(),
            of: None,
            writers: 0,
            readers: 0,
            partitions: Vec::new(),
        });
        if is_writer && topic.writers == 0 {
            topic.endpoint = endpoint.clone();
        }
        topic.writers += usize::from(is_writer);
        topic.readers += usize::from(!is_writer);
        topic.partitions.extend(endpoint.policies.partition().name.iter().cloned());
    }
    let mut topic = found?;
    topic.partitions.sort();
    topic.partitions.dedup();
    topic.of = find(&topic.endpoint);
    Some(topic)
}

impl DomainParticipant {
    /// The topics that the participants of the domain have writers or readers of, as this one knows it now.
    pub fn announced_topics(&self) -> Vec<AnnouncedTopic> {
        self.inner.engine.act(|machine, _, _| machine.announced_topics())
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
        self.check()?;
        let (engine, standing) = (&self.inner.engine, &self.inner.standing);
        let deadline = timeout.deadline();
        let found = loop {
            let found = engine.act(|machine, _, _| machine.announced_topic(name));
            let is_over = deadline.is_some_and(|deadline| clock::now() >= deadline);
            if found.is_some() || is_over || standing.is_out_for_good() {
                break found;
            }
            engine.wait(Some(clock::now().after(LOOK)), || false);
        };
        let Some(AnnouncedTopic { endpoint, of, .. }) = found else {
            return Err(match standing.is_out() {
                true => standing.error(),
                false => DdsError::Timeout(format!(
                    "nobody has a writer or reader of a topic `{name}` after {timeout}: {}",
                    self.inner.why_nobody()
                )),
            });
        };
        let of = of.ok_or_else(|| {
            DdsError::PreconditionNotMet(format!(
                "of the type `{}` of topic `{name}` nothing is told but its name: make the topic with its type",
                endpoint.data_type.name
            ))
        })?;
        TopicBuilder::new(Arc::clone(&self.inner), name, of)
            .like(&endpoint, &agreed(&endpoint))
            .create()
    }
}

/// Policies that let a reader be matched with this writer, or a writer with this reader.
fn agreed(of: &Endpoint) -> TopicQos {
    let [own, _] = of.policies.both();
    let mut qos = EntityQos::from(usual_topic());
    for policy in AGREED {
        qos.adopt(&own, policy);
    }
    match qos {
        EntityQos::Topic(qos) => qos,
        _ => usual_topic(),
    }
}
