//! Facts about the domain's entities for the readers of builtin topics, taken from the
//! discovery data.
//!
//! ```text
//!   directory, endpoints ──change──> fact about one entity ──if new──> each sink for its kind
//! ```
//! Owns: the fact last reported to each sink. Never does: keep samples; the readers' caches do.

use std::collections::BTreeMap;
use std::sync::Arc;

use qos_profiles::TopicDataQosPolicy;

use super::directory::{ParticipantFacts, TopicFacts};
use super::endpoint::{Endpoint, EndpointKind};
use super::policies::EndpointPolicies;
use super::shares::ReaderShared;
use crate::infrastructure::InstanceHandle;

/// Kind of the entities that a builtin topic describes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BuiltinKind {
    Participant,
    Topic,
    Publication,
    Subscription,
}

impl BuiltinKind {
    /// Kind of an endpoint; `None` if it is neither a writer nor a reader.
    pub(super) fn of(endpoint: &Endpoint) -> Option<BuiltinKind> {
        match endpoint.kind {
            EndpointKind::Writer => Some(BuiltinKind::Publication),
            EndpointKind::Reader => Some(BuiltinKind::Subscription),
            EndpointKind::FormerReader | EndpointKind::Log => None,
        }
    }
}

/// Known data of an entity of another participant.
#[derive(Clone, Debug)]
pub(crate) enum EntityFact {
    Participant(ParticipantFacts),
    Topic(TopicFacts),
    Endpoint(Endpoint, TopicDataQosPolicy),
}

/// Whether two facts appear equal to applications. Builtin topics report neither the protocol's
/// view of an endpoint nor its liveliness.
impl PartialEq for EntityFact {
    fn eq(&self, other: &EntityFact) -> bool {
        match (self, other) {
            (EntityFact::Participant(one), EntityFact::Participant(other)) => one == other,
            (EntityFact::Topic(one), EntityFact::Topic(other)) => one == other,
            (EntityFact::Endpoint(one, topic), EntityFact::Endpoint(other, other_topic)) => {
                let parts = |it: &Endpoint| (it.topic.clone(), it.data_type.clone());
                (&one.policies, topic) == (&other.policies, other_topic)
                    && parts(one) == parts(other)
            }
            _ => false,
        }
    }
}

/// An entity and its current fact; `None` if the entity has gone.
pub(crate) type EntityUpdate = (InstanceHandle, Option<EntityFact>);

/// A sink of facts about one kind of entities: a reader of their builtin topic.
pub(crate) trait DiscoverySink: Send + Sync {
    /// The kind; `None` for a sink of no kind.
    fn kind(&self) -> Option<BuiltinKind>;

    /// Called by the machine. The sink stores the facts. It neither waits nor calls other code.
    fn report(&self, updates: Vec<EntityUpdate>);
}

/// A discovery sink, and the facts reported to it.
pub(super) struct RegisteredSink {
    sink: Arc<dyn DiscoverySink>,
    pub(super) shared: Arc<ReaderShared>,
    pub(super) policies: Arc<EndpointPolicies>,
    /// Facts by entity; `None` for a fact reported in an earlier life of the participant.
    known: BTreeMap<InstanceHandle, Option<EntityFact>>,
}

impl RegisteredSink {
    pub(super) fn new(
        sink: Arc<dyn DiscoverySink>,
        shared: Arc<ReaderShared>,
        policies: Arc<EndpointPolicies>,
    ) -> RegisteredSink {
        RegisteredSink { sink, shared, policies, known: BTreeMap::new() }
    }

    pub(super) fn kind(&self) -> Option<BuiltinKind> {
        self.sink.kind()
    }

    /// Entities that are known to the sink.
    pub(super) fn known(&self) -> impl Iterator<Item = InstanceHandle> {
        self.known.keys().copied()
    }

    /// Marks all facts as uncertain, because the participant's life is over: they are reported anew
    /// in the next life (I-185).
    pub(super) fn mark_uncertain(mut self) -> RegisteredSink {
        self.known.values_mut().for_each(|fact| *fact = None);
        self
    }

    /// Reports those of these facts that are new to the sink.
    pub(super) fn report(&mut self, present: impl IntoIterator<Item = EntityUpdate>) {
        let mut changed = Vec::new();
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
                changed.push((handle, fact));
            }
        }
        if !changed.is_empty() {
            self.sink.report(changed);
        }
    }
}
