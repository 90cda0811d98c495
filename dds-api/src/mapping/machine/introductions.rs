//! Announcements of this participant and of its topics.
//!
//! Owns: the announcements made so far, so that they are repeated in the next life. Never does:
//! make a topic; applications do.

use std::collections::BTreeMap;
use std::sync::Arc;

use derecho_core::bytes::Wire;

use super::ParticipantMachine;
use crate::infrastructure::InstanceHandle;
use crate::mapping::announcement::Announcement;
use crate::mapping::directory::{KnownEndpoint, ParticipantFacts, TopicFacts};
use crate::mapping::endpoint::{Endpoint, EndpointKind};
use crate::mapping::policies::{EndpointPolicies, LONGEST_ANNOUNCEMENT};
use crate::mapping::type_identity::TypeIdentity;

/// Announcements made by a participant.
#[derive(Clone, Default)]
pub(super) struct OwnAnnouncements {
    /// The participant's own announcement, once it is enabled.
    participant: Option<ParticipantFacts>,
    /// Announcements of the enabled topics.
    topics: BTreeMap<u64, TopicFacts>,
}

/// Result of the search for a topic of other participants by name.
pub(crate) enum FoundTopic {
    /// No topic of that name was found.
    None,
    /// A topic was found whose type fits the requested one.
    Fits(Box<TopicFacts>),
    /// Topics were found, but none fits. The text says why the first one does not fit.
    Misfits(String),
}

impl ParticipantMachine {
    /// Announces this participant if it is enabled. The error says why the data cannot
    /// be announced.
    pub(crate) fn introduce(
        &mut self,
        data: ParticipantFacts,
        is_enabled: bool,
    ) -> Result<(), String> {
        check_length(data.encode().len(), "USER_DATA")?;
        if is_enabled && self.own_announcements.participant.as_ref() != Some(&data) {
            self.own_announcements.participant = Some(data.clone());
            self.group.submit(&Announcement::Participant(data).to_bytes());
        }
        Ok(())
    }

    /// Announces a topic, or a change of it. The error says why the data cannot be announced.
    pub(crate) fn announce_topic(&mut self, id: u64, data: TopicFacts) -> Result<(), String> {
        check_length(data.encode().len(), "TOPIC_DATA")?;
        if self.own_announcements.topics.get(&id) != Some(&data) {
            self.own_announcements.topics.insert(id, data.clone());
            self.say_topic(id, data);
        }
        Ok(())
    }

    fn say_topic(&mut self, id: u64, data: TopicFacts) {
        for part in self.group.state().types().parts_to_announce(&data.data_type) {
            self.group.submit(&Announcement::Type(part).to_bytes());
        }
        self.group.submit(&Announcement::Topic(id, Some(data)).to_bytes());
    }

    /// Withdraws a topic.
    pub(crate) fn retract_topic(&mut self, id: u64) {
        if self.own_announcements.topics.remove(&id).is_some() {
            self.group.submit(&Announcement::Topic(id, None).to_bytes());
        }
    }

    /// Repeats the announcements of the last life, which ended with its membership (I-180).
    pub(super) fn announce_again(&mut self, announcements: &OwnAnnouncements) {
        self.own_announcements = announcements.clone();
        if let Some(data) = announcements.participant.clone() {
            self.group.submit(&Announcement::Participant(data).to_bytes());
        }
        announcements.topics.iter().for_each(|(id, data)| self.say_topic(*id, data.clone()));
    }

    /// Finds a topic of this name of another participant whose samples can be read as this type.
    pub(crate) fn find_topic(&self, name: &str, data_type: &TypeIdentity) -> FoundTopic {
        let (state, me) = (self.group.state(), self.group.node().id());
        let mut found = FoundTopic::None;
        let is_seen = |node| node != me && !self.ignored.hides_topic(node, name);
        for (_, _, data) in state.directory().named(name).filter(|(node, ..)| is_seen(*node)) {
            let there = data.endpoint(data.data_type.clone());
            let here = data.endpoint(data_type.clone());
            let misfit = here.contradicts(&there);
            match misfit.or_else(|| here.type_conflict(&there, state.types())) {
                None => return FoundTopic::Fits(Box::new(data.clone())),
                Some(why) if matches!(found, FoundTopic::None) => found = FoundTopic::Misfits(why),
                Some(_) => {}
            }
        }
        found
    }
}

impl ParticipantMachine {
    /// Known data of an endpoint that is matched with a local one; `None` if it is not matched.
    pub(crate) fn partner(&self, own: u64, partner: InstanceHandle) -> Option<KnownEndpoint> {
        let InstanceHandle { node, entity } = partner;
        if !self.partners(own).contains(&partner) {
            return None;
        }
        let (state, is_own) = (self.group.state(), node == self.group.node().id());
        // This participant's endpoints may not have been announced yet.
        let endpoint = if is_own { self.own(entity) } else { state.endpoint(node, entity) }?;
        let topic = match is_own {
            true => {
                self.own_announcements.topics.values().find(|topic| topic.name == endpoint.topic)
            }
            false => state.directory().topic_of(node, endpoint),
        };
        let topic_data = topic.map(|topic| topic.qos.topic_data.clone()).unwrap_or_default();
        Some((partner, endpoint.clone(), topic_data))
    }
}

impl TopicFacts {
    /// A reader of the topic that reads its samples as this type.
    fn endpoint(&self, data_type: TypeIdentity) -> Endpoint {
        Endpoint {
            kind: EndpointKind::Reader,
            topic: self.name.clone(),
            data_type,
            level: self.level,
            order: self.order.clone(),
            retention: self.retention,
            stream: 0,
            lines: 0,
            group: 0,
            alive: true,
            policies: Arc::new(EndpointPolicies::requested(self.level)),
        }
    }
}

/// Checks whether data of this length can be announced (I-182). The error says why not.
fn check_length(length: usize, what: &str) -> Result<(), String> {
    match length > LONGEST_ANNOUNCEMENT {
        true => Err(format!(
            "the announcement has {length} bytes, more than the maximum of {LONGEST_ANNOUNCEMENT}: \
             use less {what}"
        )),
        false => Ok(()),
    }
}
