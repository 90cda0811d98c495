//! Common behaviour of a participant's entities: enabling, deletion, and containment.
//!
//! ```text
//!   participant ──> topics, publishers, subscribers, writers and readers that have neither
//!   publisher ──> writers        subscriber ──> readers
//! ```
//! Owns: the effect of enabling or deleting an entity on the entities that it contains. Never does:
//! create one.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use qos_profiles::EntityKind;

use super::ParticipantInner;
use super::enabling::EndpointContainer;
use super::listener_dispatcher::ListenedEntity;
use crate::infrastructure::lifecycle::Lifecycle;
use crate::infrastructure::{DdsError, DdsResult, InstanceHandle};

/// Lowest number of a writer or reader that is not announced yet.
const PROVISIONAL: u64 = 1 << 62;

/// An entity of a participant.
pub(crate) trait Entity: Send + Sync {
    /// Kind of the entity.
    fn kind(&self) -> EntityKind;
    /// The participant's number for the entity.
    fn id(&self) -> u64;
    /// Number of its publisher or subscriber; zero if it has none of its own.
    fn group(&self) -> u64 {
        0
    }
    /// Number of the topic that it writes or reads; zero if it does neither.
    fn topic(&self) -> u64 {
        0
    }
    /// Name of its topic; empty if it has none.
    fn topic_name(&self) -> &str {
        ""
    }
    /// Whether the entity is the participant's own, so that the application neither counts nor
    /// deletes it (I-186).
    fn is_builtin(&self) -> bool {
        false
    }
    /// Whether the entity is enabled, and whether it still exists.
    fn lifecycle(&self) -> &Lifecycle;
    /// The entity in the form in which applications receive it.
    fn handle(self: Arc<Self>) -> Box<dyn Any>;
    /// Enables the entity, and its contents if its ENTITY_FACTORY says so.
    fn enable(self: Arc<Self>) -> DdsResult<()>;
    /// Deletes the entity, whatever it contains.
    fn delete(self: Arc<Self>);
}

impl ParticipantInner {
    /// Entities that exist, builtin ones included.
    fn all_there(&self) -> impl Iterator<Item = Arc<dyn ListenedEntity>> {
        let all = self.dispatcher.entities().into_iter();
        all.filter(|entity| !entity.lifecycle().is_deleted())
    }

    /// Entities that the application has created.
    fn there(&self) -> impl Iterator<Item = Arc<dyn ListenedEntity>> {
        self.all_there().filter(|entity| !entity.is_builtin())
    }

    /// Writers or readers of a publisher or subscriber, or those that have neither.
    pub(crate) fn endpoints_of(&self, group: u64) -> impl Iterator<Item = Arc<dyn ListenedEntity>> {
        let of_it =
            move |it: &Arc<dyn ListenedEntity>| is_endpoint(it.kind()) && it.group() == group;
        self.all_there().filter(of_it)
    }

    /// Number of writers and readers of a topic.
    pub(crate) fn endpoints_of_topic(&self, topic: u64) -> usize {
        self.there().filter(|it| is_endpoint(it.kind()) && it.topic() == topic).count()
    }

    /// Number of contained entities.
    pub(crate) fn count(&self) -> usize {
        self.there().count()
    }

    /// Returns the contained entities that `wants` accepts, as handles, if they are of this type.
    pub(crate) fn look_up<H: 'static>(
        &self,
        wants: impl Fn(&dyn ListenedEntity) -> bool,
    ) -> impl Iterator<Item = H> {
        let wanted = self.all_there().filter(move |entity| wants(&**entity));
        wanted.filter_map(|entity| entity.handle().downcast().ok().map(|handle| *handle))
    }

    /// Whether the participant contains this entity, directly or in a publisher or subscriber.
    pub(crate) fn contains(&self, handle: InstanceHandle) -> bool {
        let is_here = handle.node == self.membership.node();
        is_here && self.there().any(|entity| entity.id() == handle.entity)
    }

    /// Enables the contained entities: topics first, because writers and readers need them.
    pub(super) fn enable_contents(&self) -> DdsResult<()> {
        let (topics, others): (Vec<_>, Vec<_>) =
            self.there().partition(|it| it.kind() == EntityKind::Topic);
        let (groups, endpoints): (Vec<_>, Vec<_>) =
            others.into_iter().partition(|it| !is_endpoint(it.kind()));
        let endpoints = endpoints.into_iter().filter(|it| it.group() == 0);
        topics.into_iter().chain(groups).chain(endpoints).try_for_each(|it| it.enable())
    }

    /// Deletes all contained entities: topics last, because writers and readers use them.
    pub(super) fn delete_contents(&self) {
        let (endpoints, others): (Vec<_>, Vec<_>) =
            self.there().partition(|it| is_endpoint(it.kind()));
        let (topics, groups): (Vec<_>, Vec<_>) =
            others.into_iter().partition(|it| it.kind() == EntityKind::Topic);
        endpoints.into_iter().chain(groups).chain(topics).for_each(|it| it.delete());
        // Threads that wait for one of these entities must stop waiting.
        self.engine.nudge();
    }

    /// Deletes the builtin entities.
    pub(super) fn delete_builtin(&self) {
        self.all_there().filter(|it| it.is_builtin()).for_each(|it| it.delete());
    }

    /// Returns a number for a writer or reader that is not enabled. Announced endpoints have
    /// rising numbers in the order of their announcement (I-170), so the endpoint gets another
    /// number then.
    pub(crate) fn provisional(&self) -> u64 {
        PROVISIONAL + self.provisional.fetch_add(1, Ordering::Relaxed)
    }
}

impl EndpointContainer for ParticipantInner {
    fn enables(&self) -> bool {
        self.lifecycle.is_enabled() && self.policies.autoenables()
    }

    fn check_enables(&self) -> DdsResult<()> {
        match self.lifecycle.is_enabled() {
            true => Ok(()),
            false => Err(not_yet("the participant of this entity")),
        }
    }
}

/// Error of enabling an entity that belongs to one that is not enabled.
pub(crate) fn not_yet(of: &str) -> DdsError {
    DdsError::PreconditionNotMet(format!("{of} is not enabled: enable it first"))
}

fn is_endpoint(kind: EntityKind) -> bool {
    matches!(kind, EntityKind::DataWriter | EntityKind::DataReader)
}
