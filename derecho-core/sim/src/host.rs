//! The simulated host: state that the nodes of a network share beside their links.
//!
//! Owns: the words of the local group, and the record of which nodes run. Never does: act on its
//! own; it answers at once, within the caller's turn, and therefore deterministically.
//!
//! All nodes of a network are on this host. Requests of two nodes at the same moment are handled in
//! the order of their turns.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use derecho_core::ids::Rank;
use derecho_core::link::host::{self, DecisionWord, HostSeat};
use derecho_core::link::{Arbiter, Founding, Generation, LinkError};

/// The words, and one seat for each node ever added.
#[derive(Default)]
struct HostState {
    decision: DecisionWord,
    seats: Vec<HostSeat>,
    up: Vec<bool>,
}

/// Handle on the host. Any thread may keep an arbiter, so the state is behind a lock.
#[derive(Clone, Default)]
pub(crate) struct SimHost(Arc<Mutex<HostState>>);

impl SimHost {
    fn lock_state(&self) -> MutexGuard<'_, HostState> {
        // No operation under this lock can be left half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a node, which is up.
    pub(crate) fn add_node(&self) {
        let mut words = self.lock_state();
        words.seats.push(HostSeat::default());
        words.up.push(true);
    }

    /// Records that a node is gone. If `left`, it ceases to be a member; otherwise its seat stays
    /// as it was.
    pub(crate) fn node_down(&self, node: usize, left: bool) {
        let mut words = self.lock_state();
        words.up[node] = false;
        if left {
            words.seats[node].clear();
        }
    }

    /// Returns the arbiter of a node.
    pub(crate) fn arbiter(&self, node: usize) -> Arc<dyn Arbiter> {
        Arc::new(SimArbiter { host: self.clone(), node })
    }
}

/// Arbiter of one node.
struct SimArbiter {
    host: SimHost,
    node: usize,
}

impl SimArbiter {
    /// Returns the words for a node that is up; a node that is down can do nothing.
    fn state(&self) -> Option<MutexGuard<'_, HostState>> {
        Some(self.host.lock_state()).filter(|words| words.up[self.node])
    }
}

impl Arbiter for SimArbiter {
    fn found(&self) -> Result<Founding, LinkError> {
        let Some(words) = self.state() else {
            return Err(LinkError::System("this node has crashed or left".into()));
        };
        let seats: Vec<&HostSeat> = words.seats.iter().collect();
        host::found(&words.decision, &seats, self.node, |seat| Ok(words.up[seat]))
    }

    fn settle(&self, group: Generation, view: u64, ballot: Rank) -> Option<Rank> {
        self.state()?.decision.settle(group, view, ballot)
    }

    fn entered(&self, group: Generation, view: u64, slot: u8) -> bool {
        let words = self.state();
        words.is_some_and(|it| it.seats[self.node].enter(&it.decision, group, view, slot))
    }

    fn left(&self) {
        if let Some(words) = self.state() {
            words.seats[self.node].clear();
        }
    }

    fn is_member(&self) -> bool {
        let words = self.state();
        words.is_some_and(|it| it.seats[self.node].is_member(it.decision.group()))
    }

    fn cleared(&self, group: Generation, view: u64, slots: u64) {
        if let Some(words) = self.state() {
            words.seats.iter().for_each(|seat| seat.clear_if(group, view, slots));
        }
    }
}
