//! The send predicate: publishes all that is committed, in slot order.
//!
//! Owns: `sent`, and who reads this stream from which slot. Never does: touch a record's bytes, or
//! wait for a claim that is still open: only commits have slots.
//!
//! Three steps, as the link's contract asks for: the records' bytes, their entries, then `sent`.
//! Where memory is shared the first two are there already and one store is all.

use alloc::vec::Vec;

use super::acknowledgement::AckView;
use super::claim::SenderMemory;
use super::entry::{Entry, Found};
use super::geometry::{ENTRY_WORDS, SENT};
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
    /// Its line of acknowledgements for this stream.
    pub(super) ack: AckView,
    /// It leaves, and was sent nothing from this slot on.
    pub(super) until: Option<u64>,
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
    pub(super) members_changed: bool,
    /// Readers that have left since they were last asked for.
    pub(super) departed: Vec<(Peer, u64)>,
    /// Slots whose entries every member has received, as far as credits were given back.
    pub(super) credited: u64,
    /// What members held when chunks were last given back.
    pub(super) last_given: (u64, u64),
}

impl Sender {
    /// The sender of a memory that lies in `region`.
    pub fn new(memory: SenderMemory, region: RegionId) -> Sender {
        let sent = memory.sent();
        let (members, members_changed, departed) = (Vec::new(), false, Vec::new());
        let (credited, last_given) = (sent, (sent, 0));
        Sender { memory, region, sent, members, members_changed, departed, credited, last_given }
    }

    /// The stream's region.
    pub fn region(&self) -> RegionId {
        self.region
    }

    /// The memory.
    pub fn memory(&self) -> &SenderMemory {
        &self.memory
    }

    /// Who reads the stream, and who has not quite left it yet.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// How many read the stream.
    pub fn readers(&self) -> usize {
        self.members.iter().filter(|member| member.until.is_none()).count()
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
    ) -> Option<u64> {
        let slot = self.sent;
        let ack = AckView::new(ack, ack_line, reader, slot)?;
        self.members_changed = true;
        self.members.push(Member { target, reader, ack, until: None });
        Some(slot)
    }

    /// Sends a reader nothing more. It has left when it shows that everything which was posted to
    /// it has arrived: then no write from this memory to it is under way any more, and the memory
    /// may be closed, or read by the same node anew.
    ///
    /// `false` if there is no such reader.
    pub fn dismiss(&mut self, peer: Peer, reader: u64) -> bool {
        let until = self.sent;
        let mut known = false;
        for member in self.members.iter_mut().filter(|member| member.is(Some(peer), reader)) {
            member.until.get_or_insert(until);
            (known, self.members_changed) = (true, true);
        }
        known
    }

    /// Takes out a reader that was dismissed and has left.
    pub fn take_departed(&mut self) -> Option<(Peer, u64)> {
        self.departed.pop()
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
        core::mem::take(&mut self.members_changed).then(|| self.readers())
    }

    /// Slots published so far.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Whether every reader has received everything that was committed.
    pub fn is_acknowledged(&self) -> bool {
        self.memory.committed() == self.sent
            && self
                .members
                .iter()
                .all(|member| member.until.is_some() || member.ack.seen().received == self.sent)
    }

    /// Whether it is time to look what readers have given back, in a turn that is not idle.
    #[inline]
    pub fn is_half_full(&self) -> bool {
        self.memory.is_half_full()
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
        let readers = self.members.iter().filter(|member| member.until.is_none());
        for member in readers.filter_map(|member| member.target) {
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
            let Found::Entry(entry) = Entry::decode(words, slot, geometry) else {
                unreachable!("an entry that is committed is whole");
            };
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
