//! A subscription to a stream: where it stands, and what it receives.
//!
//! Owns: what is told of what was received. Never does: decide when it begins or ends.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::reception::Reception;
use super::{NodeEvent, Origin, SubscriptionId};
use crate::ids::{Peer, RegionId};
use crate::multicast::Fault;

/// Where a subscription stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stage {
    /// The sender's header has not arrived yet.
    AwaitsHeader,
    /// The sender has not answered yet.
    AwaitsAccept,
    /// Records arrive.
    Receiving,
    /// The stream ends at this entry.
    Ending(u64),
    /// Nothing is wanted any more. The sender is told as soon as it has answered; one that is this node itself waits for
    /// what records refer to.
    Draining,
    /// The sender was told. It waits for what records of this node refer to, and has not yet said that it looks at this
    /// node's line no more.
    Detaching,
}

pub(super) struct Subscription {
    pub(super) id: SubscriptionId,
    pub(super) origin: Origin,
    pub(super) stream: RegionId,
    pub(super) line: usize,
    pub(super) stage: Stage,
    /// Whether the sender is to wait for it, if that can do otherwise.
    pub(super) tethered: bool,
    pub(super) receiver: Option<Reception>,
}

impl Subscription {
    /// Whether the sender was asked and has not answered.
    pub(super) fn is_unanswered(&self) -> bool {
        self.receiver.as_ref().is_some_and(|receiver| !receiver.is_started())
    }

    /// Receives what has arrived, which is the last of its stream or not, and tells what was lost of it. Returns how many entries.
    pub(super) fn receive(
        &mut self,
        is_last: bool,
        events: &mut VecDeque<NodeEvent>,
    ) -> Result<usize, Fault> {
        let Some(receiver) = &mut self.receiver else { return Ok(0) };
        let received = receiver.receive(is_last);
        let lost = receiver.take_lost();
        if lost > 0 {
            events.push_back(NodeEvent::Lost(self.id, lost));
        }
        received
    }

    /// Receives what has arrived, and tells what is wrong with it. Returns how many entries.
    #[inline]
    pub(super) fn take_in(
        &mut self,
        events: &mut VecDeque<NodeEvent>,
        faults: &mut Vec<(Peer, Fault)>,
    ) -> usize {
        let is_last = matches!(self.stage, Stage::Ending(_));
        match self.receive(is_last, events) {
            Ok(count) => return count,
            // The sender may go on without it by now.
            Err(_) if self.stage == Stage::Detaching => {}
            Err(fault) => {
                if let Origin::Peer(peer) = self.origin {
                    faults.push((peer, fault));
                }
            }
        }
        0
    }

    /// Whether the sender is still to answer, or is this node itself and waits for what records refer to.
    pub(super) fn is_occupied(&self) -> bool {
        let is_held = || self.receiver.as_ref().is_some_and(Reception::is_held);
        self.is_unanswered() || self.origin == Origin::Own && is_held()
    }
}
