//! Members that a member of a subgroup awaits, and the condition for each (I-79).
//!
//! Owns: the conditions of a subgroup, each with the function that names the members that can make
//! it true. Never does: suspect a member; a named member is asked whether it is there.
//!
//! ```text
//!   Receipt   a reader has not received what this member had received at the last look
//!   Slot      a sender has not committed the slot that the order needed at the last look
//!   End       a member has not shown the end of an epoch that was closing at the last look, or a
//!             former member has not shown that it has finished the epoch that it left
//!   Room      a member has not taken entries that this member had sent at the last look; or it, or
//!             a former member, refers to chunks of this member's memory, and a claim has found no
//!             free chunk
//! ```
//! Each condition is measured against the last look (I-65). Therefore a stopped member is named at
//! every look, however much the others send meanwhile, and a member that keeps up is not named.

use super::epoch::EpochPhase;
use super::member::SubgroupMember;
use super::{DeliveryGuarantee, Subgroup};
use crate::ids::Peer;
use crate::membership::{WaitAnswer, WaitCondition};
use crate::multicast::acknowledgement::Acknowledged;
use crate::multicast::order::owed;

/// Progress of this member when it last looked for awaited members.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct LastProgress {
    /// Mark of the epoch, which distinguishes it from earlier epochs.
    mark: u32,
    /// Number of positions of the order received without a gap.
    received: u64,
    /// Number of its own entries that it had sent.
    entries: u64,
    /// Whether the epoch was closing.
    closing: bool,
}

impl Subgroup {
    /// Number of slots that the order needs of the sender with this rank, for messages that
    /// were received here.
    fn wanted_of(&self, rank: usize) -> u64 {
        if self.config.level != DeliveryGuarantee::Atomic || self.config.ablation.nulls {
            return 0;
        }
        let others = self.sources.iter().enumerate().filter(|(other, _)| *other != rank);
        owed(rank, others.map(|(other, source)| (other, source.incoming.message_slots())))
    }

    /// Whether messages of this member wait until other members have taken them, without news of
    /// that waking this node: this member does not deliver them itself, or its memory is half full.
    fn awaits_takers(&self) -> bool {
        let Some(own) = &self.own_stream else { return false };
        let delivers =
            self.members[self.me].reads && self.config.level == DeliveryGuarantee::Atomic;
        let is_short = own.sender.memory().is_half_full() || own.sender.wants_place();
        (!delivers || is_short) && !own.sender.is_acknowledged()
    }

    /// Whether memory of this member waits until other members release it: no news of that
    /// wakes this node.
    pub fn awaits_room(&self) -> bool {
        let Some(own) = self.own_stream.as_ref().filter(|_| self.phase.is_at_work()) else {
            return false;
        };
        let holds = |member: &SubgroupMember| member.peer().is_some() && member.seen().held != 0;
        self.awaits_takers()
            || own.sender.lacks_chunk()
                && (self.members.iter().any(holds) || self.holding_former().next().is_some())
    }

    /// Calls `name` for each member that this one awaits, with a condition that the member has not
    /// made true since the last call, and with the member's progress: a number that changes with
    /// each step of progress.
    pub fn waits(&mut self, name: &mut dyn FnMut(WaitCondition, Peer, u64)) {
        let is_at_work = self.phase.is_at_work();
        let entries = self.own_stream.as_ref().map_or(0, |own| own.sender.entries());
        let closing = self.phase == EpochPhase::Closing;
        let now = LastProgress { mark: self.mark, received: self.received, entries, closing };
        let before = core::mem::replace(&mut self.looked, now);
        let is_same_epoch = before.mark == self.mark;
        let mut late = 0_u64;
        for rank in 0..self.sources.len() {
            let wanted = if is_at_work { self.wanted_of(rank) } else { 0 };
            let source = &mut self.sources[rank];
            let wanted = core::mem::replace(&mut source.wanted, wanted);
            let is_late = wanted > source.incoming.slots() && !source.incoming.is_ended();
            late |= u64::from(is_late) << (rank % 64);
        }
        if !is_at_work || !is_same_epoch {
            return;
        }
        let (length, awaits_takers) = (self.length(), self.awaits_takers());
        let delivers =
            self.config.level == DeliveryGuarantee::Atomic && self.members[self.me].reads;
        let receipt = delivers && self.next.count < self.received;
        self.needed_by_former();
        self.lagging_former().for_each(|peer| name(WaitCondition::End, peer, 0));
        let lacks_chunk = self.own_stream.as_ref().is_some_and(|own| own.sender.lacks_chunk());
        if lacks_chunk {
            self.holding_former().for_each(|(peer, held)| name(WaitCondition::Room, peer, held));
        }
        let Subgroup { members, sources, own_stream, .. } = self;
        for member in members.iter_mut().filter(|member| !member.gone) {
            let Some(peer) = member.peer() else { continue };
            let slots = member.source.map_or(0, |rank| sources[rank].incoming.slots());
            if member.source.is_some_and(|rank| late >> (rank % 64) & 1 == 1) {
                name(WaitCondition::Slot, peer, slots);
            }
            let received = member.received().ok().flatten().unwrap_or(0);
            if receipt && member.reads && !member.has_received(before.received).unwrap_or(true) {
                name(WaitCondition::Receipt, peer, received);
            }
            if closing && before.closing {
                let open = member.source.is_some_and(|rank| !sources[rank].incoming.is_ended());
                if open || !member.has_received(length).unwrap_or(true) {
                    name(WaitCondition::End, peer, received.wrapping_add(slots));
                }
            }
            if let Some(own) = own_stream.as_ref().filter(|_| awaits_takers || lacks_chunk) {
                let seen = member.taken(&own.sender).ok().flatten();
                let is_behind = |seen: &Acknowledged| {
                    awaits_takers && seen.taken < before.entries || lacks_chunk && seen.held != 0
                };
                if let Some(seen) = seen.filter(is_behind) {
                    name(WaitCondition::Room, peer, seen.taken ^ seen.held);
                }
            }
        }
    }

    /// Answer of this member to one that awaits it in this epoch for the condition. `progress`:
    /// this member's progress as the asking member sees it (I-336).
    pub fn answer(&self, condition: WaitCondition, progress: u64) -> WaitAnswer {
        let own = self.own_stream.as_ref();
        let has_ended = own.is_none_or(|own| own.closed.is_some());
        let is_hindered = own.is_some_and(|own| own.sender.is_hindered());
        let known = |is_true: bool| if is_true { WaitAnswer::True } else { WaitAnswer::Excused };
        match condition {
            _ if !self.phase.is_at_work() => WaitAnswer::Excused,
            WaitCondition::Receipt if self.received > progress => WaitAnswer::True,
            WaitCondition::Receipt => WaitAnswer::Unseen,
            WaitCondition::Slot => match own {
                None => WaitAnswer::Excused,
                Some(own) if own.sender.slots() > progress => WaitAnswer::True,
                Some(_) if is_hindered => WaitAnswer::Excused,
                Some(_) if has_ended => WaitAnswer::True,
                Some(own) if self.wanted_of(own.rank) > own.sender.slots() => WaitAnswer::Due,
                Some(_) => WaitAnswer::Unseen,
            },
            WaitCondition::End
                if self.phase == EpochPhase::Closing && !has_ended && !is_hindered =>
            {
                WaitAnswer::Due
            }
            WaitCondition::End => known(self.phase == EpochPhase::Complete),
            _ => WaitAnswer::Excused,
        }
    }

    /// Observation of this member about another one that a third one awaits, as a witness.
    /// `Unseen`: this member needs the same, and does not see it either.
    pub fn testify(&mut self, peer: Peer, condition: WaitCondition, progress: u64) -> WaitAnswer {
        let member = self.members.iter().position(|member| member.peer() == Some(peer));
        let member = member.filter(|member| !self.members[*member].gone);
        let Some(member) = member.filter(|_| self.phase.is_at_work()) else {
            return WaitAnswer::Excused;
        };
        let rank = self.members[member].source;
        let (is_true, needs) = match (condition, rank) {
            (WaitCondition::Receipt, _) => {
                let has_received = self.members[member].has_received(progress.saturating_add(1));
                (has_received.unwrap_or(false), self.received > progress)
            }
            (WaitCondition::Slot, Some(rank)) => {
                let incoming = &self.sources[rank].incoming;
                let is_true = incoming.is_ended() || incoming.slots() > progress;
                (is_true, self.wanted_of(rank) > progress)
            }
            _ => (false, false),
        };
        match (is_true, needs) {
            (true, _) => WaitAnswer::True,
            (false, true) => WaitAnswer::Unseen,
            (false, false) => WaitAnswer::Excused,
        }
    }
}
