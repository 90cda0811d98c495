//! What is told of the domain's entities to the readers of builtin topics: facts out of what discovery has.
//!
//! ```text
//!   directory, endpoints ──a change──> what is known of one entity ──if it is news──> each that listens for its kind
//! ```
//! Owns: what each of them was told last. Never does: keep samples; their caches do.

use std::collections::BTreeMap;
use std::sync::Arc;

use qos_profiles::TopicDataQosPolicy;

use super::directory::{ParticipantFacts, TopicFacts};
use super::endpoint::{Endpoint, EndpointKind};
use super::policies::Policies;
use super::shares::ReaderShared;
use crate::infrastructure::InstanceHandle;

/// What the entities of a builtin topic are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BuiltinKind {
    Participant,
    Topic,
    Publication,
    Subscription,
}

impl BuiltinKind {
    /// That of an endpoint, if it is a writer or reader.
    pub(super) fn of(endpoint: &Endpoint) -> Option<BuiltinKind> {
        match endpoint.kind {
            EndpointKind::Writer => Some(BuiltinKind::Publication),
            EndpointKind::Reader => Some(BuiltinKind::Subscription),
            EndpointKind::Guest | EndpointKind::Keeper => None,
        }
    }
}

/// What is known of an entity of another participant.
#[derive(Clone, Debug)]
pub(crate) enum Fact {
    Participant(ParticipantFacts),
    Topic(TopicFacts),
    Endpoint(Endpoint, TopicDataQosPolicy),
}

/// Whether they say the same of an entity: what an endpoint is on the protocol, and whether its application says in time that
/// it is alive, is nothing that a builtin topic tells.
impl PartialEq for Fact {
    fn eq(&self, other: &Fact) -> bool {
        match (self, other) {
            (Fact::Participant(one), Fact::Participant(other)) => one == other,
            (Fact::Topic(one), Fact::Topic(other)) => one == other,
            (Fact::Endpoint(one, topic), Fact::Endpoint(other, other_topic)) => {
                let parts = |it: &Endpoint| (it.topic.clone(), it.data_type.clone());
                (&one.policies, topic) == (&other.policies, other_topic)
                    && parts(one) == parts(other)
            }
            _ => false,
        }
    }
}

/// An entity, and what is known of it now; none if it is no more.
pub(crate) type Told = (InstanceHandle, Option<Fact>);

/// Who listens for one kind of entities: a reader of their builtin topic.
pub(crate) trait Hears: Send + Sync {
    fn kind(&self) -> BuiltinKind;

    /// Called by the machine: it takes this in, and neither waits nor calls anybody.
    fn hear(&self, told: Vec<Told>);
}

/// One that listens, and what it was told.
pub(super) struct Listener {
    ear: Arc<dyn Hears>,
    pub(super) shared: Arc<ReaderShared>,
    pub(super) policies: Arc<Policies>,
    /// None of what was told in a life of the participant that is over.
    known: BTreeMap<InstanceHandle, Option<Fact>>,
}

impl Listener {
    pub(super) fn new(
        ear: Arc<dyn Hears>,
        shared: Arc<ReaderShared>,
        policies: Arc<Policies>,
    ) -> Listener {
        Listener { ear, shared, policies, known: BTreeMap::new() }
    }

    pub(super) fn kind(&self) -> BuiltinKind {
        self.ear.kind()
    }

    /// The entities that it knows of.
    pub(super) fn known(&self) -> impl Iterator<Item = InstanceHandle> {
        self.known.keys().copied()
    }

    /// The participant's life is over: what was told may not be so any more.
    pub(super) fn doubt(mut self) -> Listener {
        self.known.values_mut().for_each(|fact| *fact = None);
        self
    }

    /// It hears of these what it does not know.
    pub(super) fn tell(&mut self, present: impl IntoIterator<Item = Told>) {
        let mut news = Vec::new();
        for (handle, fact) in present {
            let is_news = match (self.known.get(&handle), &fact) {
                (None, None) => false,
                (Some(_), None) => self.known.remove(&handle).is_some(),
                (Some(Some(known)), Some(fact)) if known == fact => false,
                (_, Some(fact)) => {
                    self.known.insert(handle, Some(fact.clone()));
                    true
                }
            };
            if is_news {
                news.push((handle, fact));
            }
        }
        if !news.is_empty() {
            self.ear.hear(news);
        }
    }
}
