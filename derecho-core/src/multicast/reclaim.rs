//! The reclaim predicate: what no reader needs any more is the sender's again.
//!
//! Owns: the least of all readers' acknowledgements. Never does: believe a reader who takes more
//! than was sent; such a one is reported and dropped.
//!
//! Entries come back at the least `received`, for readers copy them out. Chunks come back at the
//! least `taken`, and only those that no `held` has. `taken` is read before `held`: every bit for
//! what lies below that `taken` was set before it, so a missing bit means that it was cleared.

use super::Fault;
use super::geometry::{ACK_HELD, ACK_RECEIVED, ACK_TAKEN};
use super::send::{Member, Sender};

/// What a reader has acknowledged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Acknowledged {
    /// Slots received.
    pub received: u64,
    /// Slots delivered or dropped.
    pub taken: u64,
    /// Chunks it still refers to.
    pub held: u64,
}

impl Member {
    /// Reads the reader's row. I-3: its counters only grow and never pass what was sent.
    fn acknowledged(&mut self, sent: u64) -> Result<Acknowledged, Fault> {
        let word = |word| self.ack.load(self.ack_first + word);
        // From right to left: `taken` vouches for `received` and `held`.
        let taken = word(ACK_TAKEN);
        if let Some(slot) = self.starts_at {
            if taken < slot {
                // It has not heard yet where it starts.
                return Ok(self.seen);
            }
            self.starts_at = None;
        }
        let received = word(ACK_RECEIVED);
        let held = word(ACK_HELD);
        let grows = received >= self.seen.received && taken >= self.seen.taken;
        if !grows || received > sent || taken > received {
            return Err(Fault::Acknowledgement { sent, received, taken });
        }
        self.seen = Acknowledged { received, taken, held };
        Ok(self.seen)
    }
}

impl Sender {
    /// Gives back what all readers are done with. Returns how much, and tells `faulty` of each
    /// reader whose acknowledgement cannot be; it is waited for no more.
    #[inline]
    pub fn reclaim(&mut self, mut faulty: impl FnMut(&Member, Fault)) -> usize {
        let (mut received, mut taken, mut held) = (self.sent, self.sent, 0);
        let mut index = 0;
        while index < self.members.len() {
            match self.members[index].acknowledged(self.sent) {
                Ok(seen) => {
                    received = received.min(seen.received);
                    taken = taken.min(seen.taken);
                    held |= seen.held;
                    index += 1;
                }
                Err(fault) => faulty(&self.members.swap_remove(index), fault),
            }
        }
        let credits = received - self.credited;
        if credits > 0 {
            self.credited = received;
            self.memory.give_credits(credits);
        }
        // Abandoned claims may free a chunk without any acknowledgement, so a memory that is out
        // of room is looked at in any case.
        if (taken, held) == self.last_given
            && self.memory.has_room(self.memory.geometry().largest())
        {
            return credits as usize;
        }
        self.last_given = (taken, held);
        credits as usize + self.memory.give_chunks(taken, held)
    }
}
