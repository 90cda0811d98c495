//! Subscription to a stream: its stage and its receiver.
//!
//! Owns: the events that report reception. Never does: decide when the subscription begins or ends.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::reception::SubscriptionReceiver;
use super::{FoundFault, NodeEvent, StreamOrigin, SubscriptionId};
use crate::ids::RegionId;
use crate::multicast::PeerFault;

/// Stage of a subscription.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SubscriptionStage {
    /// The sender's header has not arrived yet.
    AwaitsHeader,
    /// The sender has not answered yet.
    AwaitsAccept,
    /// Records arrive.
    Receiving,
    /// The stream ends at this entry.
    Ending(u64),
    /// The subscription has ended here. The sender is told as soon as it has answered. If the
    /// sender is this node, the subscription waits until no record refers to the stream's memory.
    Draining,
    /// The sender was told. It waits for memory to which records of this node refer, and has not
    /// yet said that it stopped reading this node's line.
    Detaching,
}

pub(super) struct Subscription {
    pub(super) id: SubscriptionId,
    /// Name of the reader, for the upper layer of the sender.
    pub(super) entity: u64,
    pub(super) origin: StreamOrigin,
    pub(super) stream: RegionId,
    pub(super) line: usize,
    pub(super) stage: SubscriptionStage,
    /// Whether the sender waits for this subscription, if there is a choice.
    pub(super) tethered: bool,
    pub(super) receiver: Option<SubscriptionReceiver>,
}

impl Subscription {
    /// Whether the sender was asked and has not answered.
    pub(super) fn is_unanswered(&self) -> bool {
        self.receiver.as_ref().is_some_and(|receiver| !receiver.is_started())
    }

    /// Receives what has arrived, and reports lost messages. `is_last`: nothing more will arrive in
    /// this stream. Returns the number of entries.
    pub(super) fn receive(
        &mut self,
        is_last: bool,
        events: &mut VecDeque<NodeEvent>,
    ) -> Result<usize, PeerFault> {
        let Some(receiver) = &mut self.receiver else { return Ok(0) };
        let received = receiver.receive(is_last);
        let lost = receiver.take_lost();
        if lost > 0 {
            events.push_back(NodeEvent::Lost(self.id, lost));
        }
        received
    }

    /// Receives what has arrived, and reports faults. Returns the number of entries.
    #[inline]
    pub(super) fn take_in(
        &mut self,
        events: &mut VecDeque<NodeEvent>,
        faults: &mut Vec<FoundFault>,
    ) -> usize {
        let is_last = matches!(self.stage, SubscriptionStage::Ending(_));
        match self.receive(is_last, events) {
            Ok(count) => return count,
            // The sender may have stopped counting this node by now.
            Err(_) if self.stage == SubscriptionStage::Detaching => {}
            Err(fault) => {
                if let StreamOrigin::Peer(peer) = self.origin {
                    faults.push(FoundFault { peer, fault });
                }
            }
        }
        0
    }

    /// Whether the sender has not answered yet, or is this node itself and records refer
    /// to its memory.
    pub(super) fn is_occupied(&self) -> bool {
        let is_held = || self.receiver.as_ref().is_some_and(SubscriptionReceiver::is_held);
        self.is_unanswered() || self.origin == StreamOrigin::Own && is_held()
    }
}
