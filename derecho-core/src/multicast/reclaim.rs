//! The reclaim predicate: what no reader needs any more is the sender's again.
//!
//! Owns: the least of all readers' acknowledgements. Never does: believe a reader who takes more
//! than was sent; such a one is reported and dropped.
//!
//! Entries come back at the least `received`, for readers copy them out. Chunks come back at the
//! least `taken`, and only those that no `held` has: every bit for what lies below a `taken` was
//! set before it, so a missing bit means that it was cleared.

use super::Fault;
use super::send::{Member, Sender};

impl Sender {
    /// Gives back what all readers are done with. Returns how much, and tells `faulty` of each
    /// reader whose acknowledgement cannot be; it is waited for no more.
    #[inline]
    pub fn reclaim(&mut self, mut faulty: impl FnMut(&Member, Fault)) -> usize {
        let (mut received, mut taken, mut held) = (self.sent, self.sent, 0);
        let geometry = self.memory.geometry();
        let mut index = 0;
        while index < self.members.len() {
            match self.members[index].ack.look(self.sent, geometry) {
                Ok(seen) if self.members[index].until.is_some_and(|slot| seen.received >= slot) => {
                    let member = self.members.swap_remove(index);
                    self.departed.extend(member.peer().map(|peer| (peer, member.reader)));
                }
                Ok(seen) => {
                    received = received.min(seen.received);
                    taken = taken.min(seen.taken);
                    held |= seen.held;
                    index += 1;
                }
                Err(fault) => {
                    faulty(&self.members.swap_remove(index), fault);
                    self.members_changed = true;
                }
            }
        }
        let credits = received - self.credited;
        if credits > 0 {
            self.credited = received;
            self.memory.give_credits(credits);
        }
        // Abandoned claims may free a chunk without any acknowledgement, so a memory that is out
        // of room is looked at in any case.
        if (taken, held) == self.last_given && self.memory.has_room(geometry.largest()) {
            return credits as usize;
        }
        self.last_given = (taken, held);
        credits as usize + self.memory.give_chunks(taken, held)
    }
}
