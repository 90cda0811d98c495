//! Discovered participants and topics of a domain, and the calls that ignore discovered entities.
//!
//! Owns: these calls. Never does: report the participant's own entities, which its
//! application knows.

use super::{
    BuiltinTopicData, DomainParticipant, ParticipantBuiltinTopicData, PublicationBuiltinTopicData,
    SubscriptionBuiltinTopicData, TopicBuiltinTopicData,
};
use crate::infrastructure::{DdsError, DdsResult, InstanceHandle};
use crate::subscription::key_of;

/// Participants and topics of others that this participant has discovered: the
/// standard's `get_discovered_..`.
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
    /// Names of the other participants that are enabled.
    #[doc(alias = "get_discovered_participants")]
    pub fn discovered_participants(&self) -> DdsResult<Vec<InstanceHandle>> {
        self.discovered::<ParticipantBuiltinTopicData>()
    }

    /// Data of another participant.
    ///
    /// # Errors
    /// [`DdsError::BadParameter`] if this is not, or no longer, the name of another participant.
    #[doc(alias = "get_discovered_participant_data")]
    pub fn discovered_participant_data(
        &self,
        participant: InstanceHandle,
    ) -> DdsResult<ParticipantBuiltinTopicData> {
        self.discovered_data(participant, "participant")
    }

    /// Names of the topics of other participants. A topic that several participants have is listed
    /// once for each of them.
    #[doc(alias = "get_discovered_topics")]
    pub fn discovered_topics(&self) -> DdsResult<Vec<InstanceHandle>> {
        self.discovered::<TopicBuiltinTopicData>()
    }

    /// Data of a topic of another participant.
    ///
    /// # Errors
    /// [`DdsError::BadParameter`] if this is not, or no longer, the name of such a topic.
    #[doc(alias = "get_discovered_topic_data")]
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
        let data = fact.and_then(|fact| (T::SOURCE.sample_of)(entity, fact));
        data.ok_or_else(|| unknown(handle, what))
    }

    /// The entity that a handle means: by its name in the domain, or by its instance in a
    /// builtin topic.
    fn entity_of<T: BuiltinTopicData>(&self, handle: InstanceHandle) -> InstanceHandle {
        let Some(key) = handle.instance_key() else { return handle };
        let all = self.inner().engine.act(|machine, _, _| machine.entities(T::SOURCE.kind));
        let is_it = |entity: &InstanceHandle| key_of(&(T::SOURCE.sample_of_gone)(*entity)) == key;
        all.into_iter().find(is_it).unwrap_or(handle)
    }
}

/// Ignoring entities of other participants: the standard's `ignore_..`. To this participant an
/// ignored entity is gone: its readers and writers are not matched with the entity and receive
/// nothing from it, and builtin topics report nothing of it except that its instance is disposed.
/// Samples that wait to be taken are dropped, too; only samples that are in a reader's cache
/// already stay there until they are taken. Ignoring is permanent: no call reverts it. An entity is
/// named by its own name, as in the `key` of [builtin data](ParticipantBuiltinTopicData), or by its
/// instance in a builtin topic.
///
/// Ignoring affects this participant only: the others are not notified, continue as before, and
/// receive what it writes. An ignored reader therefore still receives samples, and may hold up
/// writers here like any other reader. PUBLICATION_MATCHED and
/// [`DataWriter::matched_subscriptions`](crate::publication::DataWriter::matched_subscriptions) do
/// not count it, while
/// [`DataWriter::matched_readers`](crate::publication::DataWriter::matched_readers) of a topic
/// without order counts all readers that receive samples. An ordered topic keeps its one order;
/// this participant's readers leave out the ignored samples.
///
/// ```no_run
/// use dds_api::domain::ParticipantBuiltinTopicData;
/// use dds_api::prelude::*;
///
/// # fn main() -> DdsResult<()> {
/// let participant = DomainParticipant::new(0)?;
/// let participants = participant.builtin_reader::<ParticipantBuiltinTopicData>()?;
/// for other in participants.take_data(.., Timeout::secs(1))? {
///     if other.user_data.value == b"simulation" {
///         participant.ignore_participant(other.key)?;
///     }
/// }
/// # Ok(())
/// # }
/// ```
impl DomainParticipant {
    /// Ignores another participant and all entities that it has or will have. A participant that
    /// [rejoins](super::ParticipantConfig::rejoin) has another name, and counts as another one.
    ///
    /// # Errors
    /// [`DdsError::BadParameter`] if this is not, or no longer, the name of another participant.
    pub fn ignore_participant(&self, participant: InstanceHandle) -> DdsResult<()> {
        self.ignore::<ParticipantBuiltinTopicData>(participant, "participant")
    }

    /// Ignores the topic of this name: all writers and readers of it that other participants have
    /// or will have.
    ///
    /// # Errors
    /// [`DdsError::BadParameter`] if this is not, or no longer, a topic of another participant.
    pub fn ignore_topic(&self, topic: InstanceHandle) -> DdsResult<()> {
        self.ignore::<TopicBuiltinTopicData>(topic, "topic")
    }

    /// Ignores a writer of another participant.
    ///
    /// # Errors
    /// [`DdsError::BadParameter`] if this is not, or no longer, the name of such a writer.
    pub fn ignore_publication(&self, publication: InstanceHandle) -> DdsResult<()> {
        self.ignore::<PublicationBuiltinTopicData>(publication, "writer")
    }

    /// Ignores a reader of another participant.
    ///
    /// # Errors
    /// [`DdsError::BadParameter`] if this is not, or no longer, the name of such a reader.
    pub fn ignore_subscription(&self, subscription: InstanceHandle) -> DdsResult<()> {
        self.ignore::<SubscriptionBuiltinTopicData>(subscription, "reader")
    }

    fn ignore<T: BuiltinTopicData>(&self, handle: InstanceHandle, what: &str) -> DdsResult<()> {
        self.check()?;
        let (kind, entity) = (T::SOURCE.kind, self.entity_of::<T>(handle));
        match self.inner().engine.act(|machine, _, _| machine.ignore(kind, entity)) {
            true => {
                // Readers then report the cached samples whose writers are lost by this.
                self.inner().engine.nudge();
                Ok(())
            }
            false => Err(unknown(handle, what)),
        }
    }
}

fn unknown(handle: InstanceHandle, what: &str) -> DdsError {
    DdsError::BadParameter(format!(
        "{handle} is not a known {what} of another participant: the entity may have left, or is \
         ignored"
    ))
}
