//! Reception of a subscription, either tethered (the sender waits for it) or untethered.
//!
//! Owns: no state of its own. Never does: anything specific to one of the two kinds.

use alloc::sync::Arc;

use crate::machine::Effects;
use crate::multicast::Fault;
use crate::multicast::inbox::{Inbox, Source};
use crate::multicast::receive::Receiver;
use crate::multicast::stream::Beginning;
use crate::multicast::untethered::Untethered;

/// Receiver of a subscription. See the [module](self).
pub(super) enum Reception {
    /// The sender keeps what this node has not taken.
    Tethered(Receiver),
    /// The sender does not wait for this node.
    Untethered(Untethered),
}

impl Reception {
    pub(super) fn start(&mut self, from: Beginning, effects: &mut Effects) {
        match self {
            Reception::Tethered(it) => it.start(from.entry, from.message, effects),
            Reception::Untethered(it) => it.start(from.entry, from.message),
        }
    }

    pub(super) fn is_started(&self) -> bool {
        match self {
            Reception::Tethered(it) => it.is_started(),
            Reception::Untethered(it) => it.is_started(),
        }
    }

    pub(super) fn is_held(&self) -> bool {
        match self {
            Reception::Tethered(it) => it.is_held(),
            Reception::Untethered(_) => false,
        }
    }

    pub(super) fn inbox(&self) -> Option<&Arc<Inbox>> {
        match self {
            Reception::Tethered(it) => it.inbox(),
            Reception::Untethered(it) => it.inbox(),
        }
    }

    pub(super) fn close(&mut self) {
        match self {
            Reception::Tethered(it) => it.close(),
            Reception::Untethered(it) => it.close(),
        }
    }

    /// Memory of a peer to which records may refer.
    pub(super) fn held_source(&self) -> Option<&Arc<Source>> {
        match self {
            Reception::Tethered(it) => it.held_source(),
            Reception::Untethered(_) => None,
        }
    }

    /// Makes memory of a peer private if records may refer to it (I-335).
    pub(super) fn privatize(&mut self, effects: &mut Effects) {
        match self {
            Reception::Tethered(it) => it.privatize(effects),
            // Its records lie in memory of this node.
            Reception::Untethered(_) => {}
        }
    }

    pub(super) fn next(&self) -> u64 {
        match self {
            Reception::Tethered(it) => it.next(),
            Reception::Untethered(it) => it.next(),
        }
    }

    /// Receives what has arrived. `is_last`: nothing more will arrive in this stream. Returns the
    /// number of entries.
    #[inline]
    pub(super) fn receive(&mut self, is_last: bool) -> Result<usize, Fault> {
        match self {
            Reception::Tethered(it) => it.receive(),
            Reception::Untethered(it) => it.receive(is_last),
        }
    }

    /// Returns the number of messages lost since the last call.
    #[inline]
    pub(super) fn take_lost(&mut self) -> u64 {
        match self {
            Reception::Tethered(_) => 0,
            Reception::Untethered(it) => it.take_lost(),
        }
    }

    #[inline]
    pub(super) fn release(&mut self, idle: bool, effects: &mut Effects) -> usize {
        match self {
            Reception::Tethered(it) => it.release(idle, effects),
            Reception::Untethered(_) => 0,
        }
    }
}
