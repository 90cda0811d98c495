//! Reception of a subscription, either tethered (the sender waits for it) or untethered.
//!
//! Owns: no state of its own. Never does: anything specific to one of the two kinds.

use alloc::sync::Arc;

use crate::machine::Effects;
use crate::multicast::PeerFault;
use crate::multicast::inbox::{Inbox, SenderReplica};
use crate::multicast::receive::TetheredReceiver;
use crate::multicast::stream::StreamStart;
use crate::multicast::untethered::UntetheredReceiver;

/// Receiver of a subscription. See the [module](self).
pub(super) enum SubscriptionReceiver {
    /// The sender keeps what this node has not taken.
    Tethered(TetheredReceiver),
    /// The sender does not wait for this node.
    Untethered(UntetheredReceiver),
}

impl SubscriptionReceiver {
    pub(super) fn start(&mut self, from: StreamStart, effects: &mut Effects) {
        match self {
            SubscriptionReceiver::Tethered(it) => it.start(from.entry, from.message, effects),
            SubscriptionReceiver::Untethered(it) => it.start(from.entry, from.message),
        }
    }

    pub(super) fn is_started(&self) -> bool {
        match self {
            SubscriptionReceiver::Tethered(it) => it.is_started(),
            SubscriptionReceiver::Untethered(it) => it.is_started(),
        }
    }

    pub(super) fn is_held(&self) -> bool {
        match self {
            SubscriptionReceiver::Tethered(it) => it.is_held(),
            SubscriptionReceiver::Untethered(_) => false,
        }
    }

    pub(super) fn inbox(&self) -> Option<&Arc<Inbox>> {
        match self {
            SubscriptionReceiver::Tethered(it) => it.inbox(),
            SubscriptionReceiver::Untethered(it) => it.inbox(),
        }
    }

    pub(super) fn close(&mut self) {
        match self {
            SubscriptionReceiver::Tethered(it) => it.close(),
            SubscriptionReceiver::Untethered(it) => it.close(),
        }
    }

    /// Memory of a peer to which records may refer.
    pub(super) fn held_replica(&self) -> Option<&Arc<SenderReplica>> {
        match self {
            SubscriptionReceiver::Tethered(it) => it.held_replica(),
            SubscriptionReceiver::Untethered(_) => None,
        }
    }

    /// Makes memory of a peer private if records may refer to it (I-335).
    pub(super) fn privatize(&mut self, effects: &mut Effects) {
        match self {
            SubscriptionReceiver::Tethered(it) => it.privatize(effects),
            // Its records lie in memory of this node.
            SubscriptionReceiver::Untethered(_) => {}
        }
    }

    pub(super) fn next(&self) -> u64 {
        match self {
            SubscriptionReceiver::Tethered(it) => it.next(),
            SubscriptionReceiver::Untethered(it) => it.next(),
        }
    }

    /// Receives what has arrived. `is_last`: nothing more will arrive in this stream. Returns the
    /// number of entries.
    #[inline]
    pub(super) fn receive(&mut self, is_last: bool) -> Result<usize, PeerFault> {
        match self {
            SubscriptionReceiver::Tethered(it) => it.receive(),
            SubscriptionReceiver::Untethered(it) => it.receive(is_last),
        }
    }

    /// Returns the number of messages lost since the last call.
    #[inline]
    pub(super) fn take_lost(&mut self) -> u64 {
        match self {
            SubscriptionReceiver::Tethered(_) => 0,
            SubscriptionReceiver::Untethered(it) => it.take_lost(),
        }
    }

    #[inline]
    pub(super) fn release(&mut self, idle: bool, effects: &mut Effects) -> usize {
        match self {
            SubscriptionReceiver::Tethered(it) => it.release(idle, effects),
            SubscriptionReceiver::Untethered(_) => 0,
        }
    }
}
