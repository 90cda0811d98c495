//! The send predicate: publishes all that is committed, in slot order.
//!
//! Owns: `sent`, and who reads this stream from which slot. Never does: touch a record's bytes, or
//! wait for a claim that is still open: only commits have slots.
//!
//! Three steps, as the link's contract asks for: the records' bytes, their entries, then `sent`.
//! Where memory is shared the first two are there already and one store is all.

use alloc::vec::Vec;

use super::claim::SenderMemory;
use super::entry::Entry;
use super::geometry::{ACK_WORDS, ENTRY_WORDS, SENT};
use super::reclaim::Acknowledged;
use crate::ids::{Peer, RegionId};
use crate::link::{Sharing, WordRange};
use crate::machine::{Effects, Target};
use crate::memory::{LINE_WORDS, Replica, WORD};

/// One reader node of a stream.
pub struct Member {
    /// Where it is; none if it is this node itself.
    pub(super) target: Option<Target>,
    /// The reader node's name for its subscription.
    pub(super) reader: u64,
    /// The reader's region for acknowledgements, and the first word of its line for this stream.
    pub(super) ack: Replica,
    pub(super) ack_first: usize,
    /// The slot that it starts at, until it shows that it has.
    pub(super) starts_at: Option<u64>,
    pub(super) seen: Acknowledged,
}

impl Member {
    /// Where it is; none if it is this node itself.
    pub fn target(&self) -> Option<Target> {
        self.target
    }

    /// The reader node's name for its subscription.
    pub fn reader(&self) -> u64 {
        self.reader
    }

    /// Whether it is this peer's (or this node's own) subscription of that name.
    pub fn is(&self, peer: Option<Peer>, reader: u64) -> bool {
        self.peer() == peer && self.reader == reader
    }

    /// The peer; none if it is this node itself.
    pub fn peer(&self) -> Option<Peer> {
        self.target.map(|target| target.peer)
    }
}

/// One stream that this node sends.
pub struct Sender {
    pub(super) memory: SenderMemory,
    region: RegionId,
    pub(super) sent: u64,
    pub(super) members: Vec<Member>,
    members_changed: bool,
    /// Slots whose entries every member has received, as far as credits were given back.
    pub(super) credited: u64,
    /// What members held when chunks were last given back.
    pub(super) last_given: (u64, u64),
}

impl Sender {
    /// The sender of a memory that lies in `region`.
    pub fn new(memory: SenderMemory, region: RegionId) -> Sender {
        let sent = memory.sent();
        let (members, members_changed) = (Vec::new(), false);
        let (credited, last_given) = (sent, (sent, 0));
        Sender { memory, region, sent, members, members_changed, credited, last_given }
    }

    /// The stream's region.
    pub fn region(&self) -> RegionId {
        self.region
    }

    /// The memory.
    pub fn memory(&self) -> &SenderMemory {
        &self.memory
    }

    /// Who reads the stream.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// Shows the header and the count to a peer that can receive them from now on.
    pub fn introduce(&self, target: Target, effects: &mut Effects) {
        effects.write(target, self.region, WordRange::new(SENT, 1));
        effects.write(target, self.region, WordRange::new(0, LINE_WORDS));
    }

    /// Counts a node among the readers, from the next slot on. Returns that slot. `None` if the
    /// reader's line does not lie in its region.
    pub fn add_member(
        &mut self,
        target: Option<Target>,
        reader: u64,
        ack: Replica,
        ack_line: usize,
        effects: &mut Effects,
    ) -> Option<u64> {
        let ack_first = ack_line.checked_mul(ACK_WORDS)?;
        ack.get(ack_first.checked_add(ACK_WORDS - 1)?)?;
        let slot = self.sent;
        let seen = Acknowledged { received: slot, taken: slot, held: 0 };
        self.members_changed = true;
        self.members.push(Member { target, reader, ack, ack_first, starts_at: Some(slot), seen });
        if let Some(target) = target {
            // It begins at this count; without it a copy would show zero.
            effects.write(target, self.region, WordRange::new(SENT, 1));
        }
        Some(slot)
    }

    /// Waits for these readers no more.
    pub fn remove_members(&mut self, mut gone: impl FnMut(&Member) -> bool) -> usize {
        let before = self.members.len();
        self.members.retain(|member| !gone(member));
        self.members_changed |= before != self.members.len();
        before - self.members.len()
    }

    /// How many readers there are now, if that has changed since the last call.
    pub fn take_members_changed(&mut self) -> Option<usize> {
        core::mem::take(&mut self.members_changed).then_some(self.members.len())
    }

    /// Slots published so far.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Whether every reader has received everything that was committed.
    pub fn is_acknowledged(&self) -> bool {
        self.memory.committed() == self.sent
            && self.members.iter().all(|member| member.seen.received == self.sent)
    }

    /// Publishes every complete commit. Returns how many.
    #[inline]
    pub fn send(&mut self, effects: &mut Effects) -> usize {
        if self.memory.committed() == self.sent {
            return 0;
        }
        let geometry = self.memory.geometry();
        let region = self.memory.region();
        let mut next = self.sent;
        // A lap of the ring is the most there can be: each commit had a credit.
        while next - self.sent < geometry.entries() {
            let word1 = region.word(geometry.entry_word(next) + 1).load();
            if !Entry::is_committed(word1, next) {
                break;
            }
            next += 1;
        }
        let count = (next - self.sent) as usize;
        if count == 0 {
            return 0;
        }
        region.word(SENT).publish(next);
        for member in self.members.iter().filter_map(|member| member.target) {
            if member.sharing == Sharing::Copied {
                self.post_records(member, next, effects);
            }
            effects.write(member, self.region, WordRange::new(SENT, 1));
        }
        self.sent = next;
        count
    }

    /// Posts the bytes and the entries of the slots from `sent` to `next`, in as few writes as
    /// their neighbourhood allows.
    fn post_records(&self, target: Target, next: u64, effects: &mut Effects) {
        let geometry = self.memory.geometry();
        let region = self.memory.region();
        let mut run: Option<(usize, usize)> = None;
        let first_word = geometry.first_byte() / WORD;
        let post = |(first, count): (usize, usize), effects: &mut Effects| {
            effects.write(target, self.region, WordRange::new(first, count));
        };
        for slot in self.sent..next {
            let word = geometry.entry_word(slot);
            let words = [region.word(word).peek(), region.word(word + 1).peek()];
            let entry = Entry::decode(words, slot, geometry).expect("our own entry");
            let first = first_word + entry.position as usize * LINE_WORDS;
            let count = entry.lines() * LINE_WORDS;
            run = match run {
                Some((start, length)) if start + length == first => Some((start, length + count)),
                Some(done) => {
                    post(done, effects);
                    Some((first, count))
                }
                None => Some((first, count)),
            };
        }
        if let Some(done) = run {
            post(done, effects);
        }
        // The ring of entries is one range, or two where it wraps.
        let until_wrap = geometry.entries() - self.sent % geometry.entries();
        let count = next - self.sent;
        let straight = count.min(until_wrap);
        post((geometry.entry_word(self.sent), straight as usize * ENTRY_WORDS), effects);
        if count > straight {
            post((geometry.entry_word(0), (count - straight) as usize * ENTRY_WORDS), effects);
        }
    }
}
