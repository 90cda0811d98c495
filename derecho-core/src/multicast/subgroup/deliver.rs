//! Deliver predicate of a subgroup.
//!
//! Owns: the delivered part of the order, and the records put into the readers' queues. Never does:
//! wait for an application, or deliver a message that a reading member may not have received.

use alloc::sync::Arc;

use super::{DeliveryGuarantee, Subgroup, SubgroupSource};
use crate::ids::Peer;
use crate::machine::Effects;
use crate::multicast::PeerFault;
use crate::multicast::entry::RingEntry;
use crate::multicast::inbox::{Delivery, Inbox};

/// Result for an entry that takes no slot.
const PASSED: u64 = u64::MAX;
/// More null slots than any order reaches.
const ENDLESS: u64 = u64::MAX / 2;

impl Subgroup {
    pub(super) fn deliver(
        &mut self,
        effects: &mut Effects,
        faulty: &mut dyn FnMut(Peer, PeerFault),
    ) -> usize {
        effects.work().predicates += 1;
        let most = self.config.ablation.most_delivered();
        if !self.members[self.me].reads {
            return self.drop_all();
        }
        let done = match self.config.level {
            DeliveryGuarantee::Unordered => {
                // In an unordered subgroup no member can wait for an order.
                self.next.count = self.received;
                self.deliver_received(most, faulty)
            }
            DeliveryGuarantee::Atomic => {
                if self.next.count == self.received {
                    return 0;
                }
                effects.work().cells += self.members.len() as u64;
                let stable = self.stable(faulty);
                self.deliver_order(stable, most, faulty)
            }
        };
        effects.work().delivered += done as u64;
        if done > 0 {
            self.show_delivered();
        }
        done
    }

    fn show_delivered(&mut self) {
        self.unreported = true;
        self.sources.iter_mut().for_each(|source| source.incoming.count());
        self.inboxes.iter().for_each(|inbox| inbox.publish());
        self.upcall_due = self.upcall.is_some();
    }

    /// Delivers everything below the trim, all of which this node has received. A sender with
    /// nothing more below its trim is passed over.
    pub(super) fn deliver_trim(&mut self, trim: &[u64], faulty: &mut dyn FnMut(Peer, PeerFault)) {
        if self.config.level == DeliveryGuarantee::Unordered {
            // An unordered subgroup agrees on nothing: everything that has arrived is delivered.
            self.deliver_received(u64::MAX, faulty);
            return self.show_delivered();
        }
        let senders = self.sources.len();
        let mut batch = Batch::new(&self.inboxes);
        let left =
            |source: &SubgroupSource, trim: u64| !source.broken && source.incoming.is_below(trim);
        while self.sources.iter().zip(trim).any(|(source, trim)| left(source, *trim)) {
            let rank = self.next.rank;
            let rounds = if rank == 0 { self.rounds_without(trim) } else { 0 };
            if rounds > 0 {
                for source in &mut self.sources {
                    source.nulls = source.nulls.saturating_sub(rounds);
                }
                continue;
            }
            let source = &mut self.sources[rank];
            if source.nulls > 0 {
                source.nulls -= 1;
            } else if left(source, trim[rank]) {
                match batch.take_from(source, rank, &self.inboxes) {
                    Ok(PASSED) => continue,
                    Ok(slots) => source.nulls = slots.saturating_sub(1),
                    Err((culprit, fault)) => {
                        // Neither sender may delay the others.
                        source.broken = true;
                        self.sources[culprit].broken = true;
                        self.broke(culprit, fault, faulty);
                    }
                }
            }
            self.next = self.next.next(senders);
        }
        batch.flush(&self.inboxes);
        self.show_delivered();
    }

    /// Number of rounds without a message below the trim, while some senders still have messages.
    fn rounds_without(&self, trim: &[u64]) -> u64 {
        let rounds = self.sources.iter().zip(trim).filter_map(|(source, trim)| {
            let left = source.incoming.is_below(*trim) && !source.broken;
            (left || source.nulls > 0).then_some(source.nulls)
        });
        rounds.min().unwrap_or(0)
    }

    /// Number of positions of the order that all reading members have received without a gap.
    fn stable(&mut self, faulty: &mut dyn FnMut(Peer, PeerFault)) -> u64 {
        let mut stable = self.received;
        for member in self.members.iter_mut().filter(|member| member.reads) {
            match member.received() {
                Ok(Some(received)) => stable = stable.min(received),
                Ok(None) => {}
                Err(fault) => {
                    member.peer().into_iter().for_each(|peer| faulty(peer, fault));
                    stable = self.next.count;
                }
            }
        }
        stable
    }

    fn deliver_order(
        &mut self,
        stable: u64,
        most: u64,
        faulty: &mut dyn FnMut(Peer, PeerFault),
    ) -> usize {
        let senders = self.sources.len();
        let (mut done, mut messages) = (0, 0);
        let mut batch = Batch::new(&self.inboxes);
        while self.next.count < stable && messages < most {
            let rounds = self.null_rounds(stable);
            if rounds > 0 {
                self.sources.iter_mut().for_each(|source| source.nulls -= rounds);
                self.next.count += rounds * senders as u64;
                done += 1;
                continue;
            }
            let source = &mut self.sources[self.next.rank];
            if source.nulls > 0 {
                source.nulls -= 1;
            } else if source.broken {
                break;
            } else {
                match batch.take_from(source, self.next.rank, &self.inboxes) {
                    Ok(0) => messages += 1,
                    Ok(PASSED) => continue,
                    Ok(nulls) => source.nulls = nulls - 1,
                    Err((rank, fault)) => {
                        self.broke(rank, fault, faulty);
                        break;
                    }
                }
            }
            self.next = self.next.next(senders);
            done += 1;
        }
        batch.flush(&self.inboxes);
        done
    }

    /// Number of rounds in which no sender has a message. They are passed in one step, because a
    /// sender may commit a run of any length.
    #[inline]
    fn null_rounds(&self, stable: u64) -> u64 {
        if self.next.rank != 0 || self.sources[0].nulls == 0 {
            return 0;
        }
        let nulls = self.sources.iter().map(|source| source.nulls).min().unwrap_or(0);
        nulls.min((stable - self.next.count) / self.sources.len() as u64)
    }

    fn deliver_received(&mut self, most: u64, faulty: &mut dyn FnMut(Peer, PeerFault)) -> usize {
        let mut done = 0;
        let mut batch = Batch::new(&self.inboxes);
        for rank in 0..self.sources.len() {
            let source = &mut self.sources[rank];
            let received =
                |source: &SubgroupSource| source.incoming.taken() < source.incoming.entries();
            while !source.broken && received(source) && done < most {
                match batch.take_from(source, rank, &self.inboxes) {
                    Ok(_) => done += 1,
                    Err((rank, fault)) => {
                        self.broke(rank, fault, faulty);
                        break;
                    }
                }
            }
        }
        batch.flush(&self.inboxes);
        done as usize
    }

    /// Drops received entries: a member that only sends needs the other members' entries only
    /// for its nulls.
    fn drop_all(&mut self) -> usize {
        let sources = self.sources.iter_mut().filter(|source| !source.broken);
        let done = sources.map(|source| source.incoming.drop_received()).sum();
        self.next.count = self.received;
        done
    }
}

/// Deliveries that are put into the readers' queues together.
struct Batch {
    deliveries: [Delivery; Batch::ROOM],
    count: usize,
    /// Number of further records that fit into all of the queues.
    left: u64,
}

impl Batch {
    /// One under loom, so that loom sees each delivery put into the queues separately.
    const ROOM: usize = if cfg!(loom) { 1 } else { 32 };

    fn new(inboxes: &[Arc<Inbox>]) -> Batch {
        Batch { deliveries: [Delivery::default(); Batch::ROOM], count: 0, left: left_in(inboxes) }
    }

    /// Takes a source's next entry. Returns the length of a null run, zero for a message,
    /// [`PASSED`] for an entry without a slot, or the faulty sender and its fault; in that case the
    /// entry remains undelivered.
    #[inline(always)]
    fn take_from(
        &mut self,
        source: &mut SubgroupSource,
        rank: usize,
        inboxes: &[Arc<Inbox>],
    ) -> Result<u64, (usize, PeerFault)> {
        if self.left == 0 {
            self.look_for_room(rank, inboxes)?;
        }
        match source.incoming.take().map_err(|fault| (rank, fault))? {
            RingEntry::Nulls(run) => Ok(u64::from(run)),
            RingEntry::Message(extent) => {
                let number = source.incoming.number();
                if !inboxes.is_empty() {
                    source.incoming.refer(extent, inboxes.len() as u32);
                    self.deliveries[self.count] = Delivery::new(rank, extent, number);
                    self.count += 1;
                    self.left -= 1;
                    if self.count == Batch::ROOM {
                        self.flush(inboxes);
                    }
                }
                Ok(0)
            }
            // A sender that has ended has unlimited nulls.
            RingEntry::End(epoch) if source.incoming.pass_end(epoch) => Ok(ENDLESS),
            RingEntry::End(_) => Ok(PASSED),
        }
    }

    /// Finds room in the queues. All senders share the queues: a sender that overruns them must not
    /// cost the other senders a message.
    #[cold]
    fn look_for_room(
        &mut self,
        rank: usize,
        inboxes: &[Arc<Inbox>],
    ) -> Result<(), (usize, PeerFault)> {
        self.flush(inboxes);
        self.left = left_in(inboxes);
        match inboxes.iter().find(|inbox| inbox.room_left() == 0) {
            Some(full) => Err((full.overrun_by(rank), PeerFault::Overrun)),
            None => Ok(()),
        }
    }

    fn flush(&mut self, inboxes: &[Arc<Inbox>]) {
        let batch = &self.deliveries[..core::mem::take(&mut self.count)];
        for inbox in inboxes {
            assert!(inbox.put(batch), "the inbox has room, which the turn checked before");
        }
    }
}

/// Number of further records that fit into all of these queues.
fn left_in(inboxes: &[Arc<Inbox>]) -> u64 {
    inboxes.iter().map(|inbox| inbox.room_left()).min().unwrap_or(u64::MAX)
}
