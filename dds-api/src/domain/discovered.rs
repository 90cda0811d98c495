//! Who and what is there in a domain, as a participant has heard of it.
//!
//! Owns: the calls, those included that ignore some of it. Never does: speak of the participant's own entities, which its
//! application knows.

use super::{
    BuiltinTopicData, DomainParticipant, ParticipantBuiltinTopicData, PublicationBuiltinTopicData,
    SubscriptionBuiltinTopicData, TopicBuiltinTopicData,
};
use crate::infrastructure::{DdsError, DdsResult, InstanceHandle};
use crate::subscription::key_of;

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
        self.discovered::<ParticipantBuiltinTopicData>()
    }

    /// What is known of another participant.
    ///
    /// # Errors
    /// [`DdsError::BadParameter`] if this is not, or no more, the name of one.
    pub fn discovered_participant_data(
        &self,
        participant: InstanceHandle,
    ) -> DdsResult<ParticipantBuiltinTopicData> {
        self.discovered_data(participant, "participant")
    }

    /// The topics that other participants have: each participant's for itself, also if several have one of the same name.
    pub fn discovered_topics(&self) -> DdsResult<Vec<InstanceHandle>> {
        self.discovered::<TopicBuiltinTopicData>()
    }

    /// What is known of a topic of another participant.
    ///
    /// # Errors
    /// [`DdsError::BadParameter`] if this is not, or no more, the name of one.
    pub fn discovered_topic_data(&self, topic: InstanceHandle) -> DdsResult<TopicBuiltinTopicData> {
        self.discovered_data(topic, "topic")
    }

    fn discovered<T: BuiltinTopicData>(&self) -> DdsResult<Vec<InstanceHandle>> {
        self.check()?;
        Ok(self.inner().engine.act(|machine, _, _| machine.entities(T::SOURCE.kind)))
    }

    fn discovered_data<T: BuiltinTopicData>(
        &self,
        handle: InstanceHandle,
        what: &str,
    ) -> DdsResult<T> {
        self.check()?;
        let entity = self.entity_of::<T>(handle);
        let fact = self.inner().engine.act(|machine, _, _| machine.fact(T::SOURCE.kind, entity));
        let data = fact.and_then(|fact| (T::SOURCE.told)(entity, fact));
        data.ok_or_else(|| unknown(handle, what))
    }

    /// The entity that is meant: by its name in the domain, or by that of its instance in a builtin topic.
    fn entity_of<T: BuiltinTopicData>(&self, handle: InstanceHandle) -> InstanceHandle {
        let Some(key) = handle.instance_key() else { return handle };
        let all = self.inner().engine.act(|machine, _, _| machine.entities(T::SOURCE.kind));
        let is_it = |entity: &InstanceHandle| key_of(&(T::SOURCE.gone)(*entity)) == key;
        all.into_iter().find(is_it).unwrap_or(handle)
    }
}

/// Ignoring what others have: the standard's `ignore_..`. What is ignored is to this participant as if it were no more: its
/// readers and writers are matched with nothing of it, get nothing of it, and builtin topics tell of it no more, but that its
/// instance is disposed. What waits to be taken goes, too; only what a reader that follows instances has in its cache stays
/// there until it is taken. This is for good: there is no call that takes it back. An entity is named by its own name, as in the
/// `key` of [builtin data](ParticipantBuiltinTopicData), or by its instance in a builtin topic.
///
/// It is this participant's own business: the others are not told, go on as before, and get what it writes. So a reader that
/// is ignored still gets samples, and may hold writers up here as any other; PUBLICATION_MATCHED and
/// [`DataWriter::matched_subscriptions`](crate::publication::DataWriter::matched_subscriptions) do not know of it, while
/// [`DataWriter::matched_readers`](crate::publication::DataWriter::matched_readers) of a topic without order counts who gets
/// samples. An ordered topic has the one order that it has, of which this participant's readers leave out what is ignored.
///
/// ```no_run
/// use dds_api::domain::ParticipantBuiltinTopicData;
/// use dds_api::prelude::*;
///
/// # fn main() -> DdsResult<()> {
/// let participant = DomainParticipant::new(0)?;
/// let participants = participant.builtin_reader::<ParticipantBuiltinTopicData>()?;
/// for other in participants.take(.., Timeout::secs(1))? {
///     if other.info().valid_data && other.user_data.value == b"simulation" {
///         participant.ignore_participant(other.key)?;
///     }
/// }
/// # Ok(())
/// # }
/// ```
impl DomainParticipant {
    /// Ignores another participant, and all that it has or will have. One that [comes back](super::ParticipantConfig::rejoin)
    /// has another name, and is another one.
    ///
    /// # Errors
    /// [`DdsError::BadParameter`] if this is not, or no more, the name of one, or is this one's.
    pub fn ignore_participant(&self, participant: InstanceHandle) -> DdsResult<()> {
        self.ignore::<ParticipantBuiltinTopicData>(participant, "participant")
    }

    /// Ignores the topic of this name, whoever has it: all writers and readers of it that other participants have or will have.
    ///
    /// # Errors
    /// [`DdsError::BadParameter`] if this is not, or no more, a topic of another participant.
    pub fn ignore_topic(&self, topic: InstanceHandle) -> DdsResult<()> {
        self.ignore::<TopicBuiltinTopicData>(topic, "topic")
    }

    /// Ignores a writer of another participant.
    ///
    /// # Errors
    /// [`DdsError::BadParameter`] if this is not, or no more, the name of one.
    pub fn ignore_publication(&self, publication: InstanceHandle) -> DdsResult<()> {
        self.ignore::<PublicationBuiltinTopicData>(publication, "writer")
    }

    /// Ignores a reader of another participant.
    ///
    /// # Errors
    /// [`DdsError::BadParameter`] if this is not, or no more, the name of one.
    pub fn ignore_subscription(&self, subscription: InstanceHandle) -> DdsResult<()> {
        self.ignore::<SubscriptionBuiltinTopicData>(subscription, "reader")
    }

    fn ignore<T: BuiltinTopicData>(&self, handle: InstanceHandle, what: &str) -> DdsResult<()> {
        self.check()?;
        let (kind, entity) = (T::SOURCE.kind, self.entity_of::<T>(handle));
        match self.inner().engine.act(|machine, _, _| machine.ignore(kind, entity)) {
            true => {
                // What readers have in their caches of what is lost now is told of.
                self.inner().engine.nudge();
                Ok(())
            }
            false => Err(unknown(handle, what)),
        }
    }
}

fn unknown(handle: InstanceHandle, what: &str) -> DdsError {
    DdsError::BadParameter(format!(
        "{handle} is no {what} of another participant that is known here: it may be gone, or ignored"
    ))
}
