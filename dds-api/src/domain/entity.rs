//! What the entities of a participant have in common, whatever they are: that they are enabled and deleted, and belong together.
//!
//! ```text
//!   participant ──> topics, publishers, subscribers, writers and readers that have neither
//!   publisher ──> writers        subscriber ──> readers
//! ```
//! Owns: what enabling and deleting one of them does to those that it contains. Never does: make one.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use qos_profiles::EntityKind;

use super::Inner;
use super::enabling::Encloses;
use super::roster::Attended;
use crate::infrastructure::lifecycle::Lifecycle;
use crate::infrastructure::{DdsError, DdsResult, InstanceHandle};

/// Writers and readers that are not announced yet are called so, and above.
const PROVISIONAL: u64 = 1 << 62;

/// An entity of a participant.
pub(crate) trait Entity: Send + Sync {
    /// What it is.
    fn kind(&self) -> EntityKind;
    /// What its participant calls it.
    fn id(&self) -> u64;
    /// The publisher or subscriber that it belongs to; zero if it has none of its own.
    fn group(&self) -> u64 {
        0
    }
    /// The topic that it writes or reads; zero if it does not.
    fn topic(&self) -> u64 {
        0
    }
    /// The name of its topic; none if it has none.
    fn topic_name(&self) -> &str {
        ""
    }
    /// Whether it is the participant's own, and not the application's to count or to delete.
    fn is_builtin(&self) -> bool {
        false
    }
    /// Whether it is enabled, and there.
    fn lifecycle(&self) -> &Lifecycle;
    /// The entity itself, as it is handed to applications.
    fn handle(self: Arc<Self>) -> Box<dyn Any>;
    /// Enables it, and what it contains if its ENTITY_FACTORY says so.
    fn enable(self: Arc<Self>) -> DdsResult<()>;
    /// Deletes it, whatever it contains.
    fn delete(self: Arc<Self>);
}

impl Inner {
    /// Its entities that are there, builtin ones included.
    fn all_there(&self) -> impl Iterator<Item = Arc<dyn Attended>> {
        let all = self.roster.entities().into_iter();
        all.filter(|entity| !entity.lifecycle().is_deleted())
    }

    /// Those that its application has made.
    fn there(&self) -> impl Iterator<Item = Arc<dyn Attended>> {
        self.all_there().filter(|entity| !entity.is_builtin())
    }

    /// The writers or readers of a publisher or subscriber, or those that have neither.
    pub(crate) fn endpoints_of(&self, group: u64) -> impl Iterator<Item = Arc<dyn Attended>> {
        let of_it = move |it: &Arc<dyn Attended>| is_endpoint(it.kind()) && it.group() == group;
        self.all_there().filter(of_it)
    }

    /// The writers and readers of a topic.
    pub(crate) fn endpoints_of_topic(&self, topic: u64) -> usize {
        self.there().filter(|it| is_endpoint(it.kind()) && it.topic() == topic).count()
    }

    /// How many entities it contains.
    pub(crate) fn count(&self) -> usize {
        self.there().count()
    }

    /// Those that it contains and `wants` wants, themselves, as far as they are of this type.
    pub(crate) fn look_up<H: 'static>(
        &self,
        wants: impl Fn(&dyn Attended) -> bool,
    ) -> impl Iterator<Item = H> {
        let wanted = self.all_there().filter(move |entity| wants(&**entity));
        wanted.filter_map(|entity| entity.handle().downcast().ok().map(|handle| *handle))
    }

    /// Whether it contains this one, itself or in a publisher or subscriber.
    pub(crate) fn contains(&self, handle: InstanceHandle) -> bool {
        let is_here = handle.node == self.standing.node();
        is_here && self.there().any(|entity| entity.id() == handle.entity)
    }

    /// Enables what it contains: topics first, for writers and readers need them.
    pub(super) fn enable_contents(&self) -> DdsResult<()> {
        let (topics, others): (Vec<_>, Vec<_>) =
            self.there().partition(|it| it.kind() == EntityKind::Topic);
        let (groups, endpoints): (Vec<_>, Vec<_>) =
            others.into_iter().partition(|it| !is_endpoint(it.kind()));
        let endpoints = endpoints.into_iter().filter(|it| it.group() == 0);
        topics.into_iter().chain(groups).chain(endpoints).try_for_each(|it| it.enable())
    }

    /// Deletes all that it contains: topics last, for writers and readers have them.
    pub(super) fn delete_contents(&self) {
        let (endpoints, others): (Vec<_>, Vec<_>) =
            self.there().partition(|it| is_endpoint(it.kind()));
        let (topics, groups): (Vec<_>, Vec<_>) =
            others.into_iter().partition(|it| it.kind() == EntityKind::Topic);
        endpoints.into_iter().chain(groups).chain(topics).for_each(|it| it.delete());
        // Whoever waits for something of them waits for nothing.
        self.engine.nudge();
    }

    /// The builtin ones are there no more.
    pub(super) fn delete_builtin(&self) {
        self.all_there().filter(|it| it.is_builtin()).for_each(|it| it.delete());
    }

    /// A name for a writer or reader that is not enabled: those that are announced are called by rising numbers, as they are
    /// announced (I-170), so it gets another one then.
    pub(crate) fn provisional(&self) -> u64 {
        PROVISIONAL + self.provisional.fetch_add(1, Ordering::Relaxed)
    }
}

impl Encloses for Inner {
    fn enables(&self) -> bool {
        self.lifecycle.is_enabled() && self.policies.autoenables()
    }

    fn check_enables(&self) -> DdsResult<()> {
        match self.lifecycle.is_enabled() {
            true => Ok(()),
            false => Err(not_yet("its participant")),
        }
    }
}

/// The error of enabling what belongs to somebody who is not enabled.
pub(crate) fn not_yet(of: &str) -> DdsError {
    DdsError::PreconditionNotMet(format!("{of} is not enabled: enable that first"))
}

fn is_endpoint(kind: EntityKind) -> bool {
    matches!(kind, EntityKind::DataWriter | EntityKind::DataReader)
}
