//! Who and what is there in a domain, as a participant has heard of it.
//!
//! Owns: the calls. Never does: speak of the participant's own entities, which its application knows.

use super::{DomainParticipant, ParticipantBuiltinTopicData, TopicBuiltinTopicData};
use crate::infrastructure::{DdsError, DdsResult, InstanceHandle};

/// The participants and topics of others, as far as this one has heard of them: the standard's `get_discovered_..`.
///
/// ```no_run
/// use dds_api::prelude::*;
///
/// # fn main() -> DdsResult<()> {
/// let participant = DomainParticipant::new(0)?;
/// for handle in participant.discovered_participants()? {
///     let other = participant.discovered_participant_data(handle)?;
///     println!("{handle}: {} bytes of USER_DATA", other.user_data.value.len());
/// }
/// for handle in participant.discovered_topics()? {
///     let topic = participant.discovered_topic_data(handle)?;
///     println!("{} of {}", topic.name, topic.type_name);
/// }
/// # Ok(())
/// # }
/// ```
impl DomainParticipant {
    /// The other participants that are enabled.
    pub fn discovered_participants(&self) -> DdsResult<Vec<InstanceHandle>> {
        self.check()?;
        let nodes = self.inner().engine.act(|machine, _, _| machine.discovered_participants());
        Ok(nodes.into_iter().map(|node| InstanceHandle { node, entity: 0 }).collect())
    }

    /// What is known of another participant.
    ///
    /// # Errors
    /// [`DdsError::BadParameter`] if this is not, or no more, the name of one.
    pub fn discovered_participant_data(
        &self,
        participant: InstanceHandle,
    ) -> DdsResult<ParticipantBuiltinTopicData> {
        self.check()?;
        let InstanceHandle { node, entity } = participant;
        let data = self.inner().engine.act(|machine, _, _| machine.participant_data(node));
        let data =
            data.filter(|_| entity == 0).ok_or_else(|| unknown(participant, "participant"))?;
        Ok(ParticipantBuiltinTopicData::new(participant, data))
    }

    /// The topics that other participants have: each participant's for itself, also if several have one of the same name.
    pub fn discovered_topics(&self) -> DdsResult<Vec<InstanceHandle>> {
        self.check()?;
        let topics = self.inner().engine.act(|machine, _, _| machine.discovered_topics());
        Ok(topics.into_iter().map(|(node, entity)| InstanceHandle { node, entity }).collect())
    }

    /// What is known of a topic of another participant.
    ///
    /// # Errors
    /// [`DdsError::BadParameter`] if this is not, or no more, the name of one.
    pub fn discovered_topic_data(&self, topic: InstanceHandle) -> DdsResult<TopicBuiltinTopicData> {
        self.check()?;
        let InstanceHandle { node, entity } = topic;
        let data = self.inner().engine.act(|machine, _, _| machine.topic_data(node, entity));
        let data = data.ok_or_else(|| unknown(topic, "topic"))?;
        Ok(TopicBuiltinTopicData::new(topic, data))
    }
}

fn unknown(handle: InstanceHandle, what: &str) -> DdsError {
    DdsError::BadParameter(format!(
        "{handle} is no {what} of another participant that is known here: it may be gone"
    ))
}
