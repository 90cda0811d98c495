//! What publishers and subscribers have in common: writers or readers whose policies they share a part of.
//!
//! Owns: the policies of the group, and those that its entities have if nothing else is said. Never does: write or read.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Inner;
use crate::infrastructure::listener::Slot;
use crate::infrastructure::{DdsError, DdsResult, InstanceHandle};

/// A publisher or subscriber: its policies, and those that its entities have by default, if any were set.
pub(crate) struct EntityGroup<Q, E, L: ?Sized> {
    pub(crate) participant: Arc<Inner>,
    pub(crate) id: u64,
    qos: Mutex<Q>,
    default: Mutex<Option<E>>,
    pub(crate) listener: Slot<L>,
}

impl<Q: Clone, E: Clone, L: ?Sized> EntityGroup<Q, E, L> {
    pub(crate) fn new(participant: Arc<Inner>, qos: Q) -> Arc<Self> {
        let id = participant.engine.act(|machine, _, _| machine.fresh_group());
        let (qos, default) = (Mutex::new(qos), Mutex::new(None));
        let listener = Slot::default();
        Arc::new(EntityGroup { participant, id, qos, default, listener })
    }

    pub(crate) fn handle(&self) -> InstanceHandle {
        InstanceHandle { node: self.participant.standing.node(), entity: self.id }
    }

    /// Its policies; whoever holds them keeps others from changing them.
    pub(crate) fn qos(&self) -> MutexGuard<'_, Q> {
        self.qos.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The policies of entities of which nothing else is said, if any were set.
    pub(crate) fn default(&self) -> MutexGuard<'_, Option<E>> {
        self.default.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The entities that there are.
    pub(crate) fn entities(&self) -> Vec<InstanceHandle> {
        let ids = self.participant.engine.act(|machine, _, _| machine.of_group(self.id));
        let node = self.participant.standing.node();
        ids.into_iter().map(|entity| InstanceHandle { node, entity }).collect()
    }

    /// One of its entities, of a topic of this name and as this kind of handle.
    pub(crate) fn lookup<H: 'static>(&self, topic: &str) -> Option<H> {
        let all = self.participant.roster.entities().into_iter();
        let mut named = all.filter(|it| it.group() == self.id && it.topic_name() == topic);
        named.find_map(|entity| entity.handle().downcast().ok().map(|handle| *handle))
    }

    /// An error as long as there are entities.
    pub(crate) fn check_empty(&self, what: &str, of: &str) -> DdsResult<()> {
        match self.entities().len() {
            0 => Ok(()),
            count => Err(DdsError::PreconditionNotMet(format!(
                "this {what} has {count} {of}: drop them first"
            ))),
        }
    }
}
