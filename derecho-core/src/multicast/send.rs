//! Send predicate: takes in commits, and posts them to peers that have a copy.
//!
//! Owns: the items that this sender has produced, the parts of its memory that are still needed,
//! and the room for null runs. Never does: access a record's bytes, or wait for an open claim: only
//! commits have a place in the order.
//!
//! Peers that share the memory see a commit at once. For other peers a commit is posted in two
//! steps, as the link's contract requires: the records' bytes, then their entries, which vouch for
//! themselves (I-1). Everything that is ready leaves in as few writes as its neighbourhood allows.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::claim::SenderMemory;
use super::entry::{EntryRead, RingEntry};
use super::geometry::{ENTRY_WORDS, GRAIN_WORDS};
use super::stream::StreamStart;
use crate::ids::RegionId;
use crate::link::{OWN_PLACE, Sharing, WordRange};
use crate::machine::{Effects, Target};
use crate::memory::{LINE_WORDS, WORD};

/// Knowledge of the turn about a chunk.
#[derive(Clone, Copy, Default)]
struct ChunkUse {
    /// Number of records in the chunk that were taken in.
    committed: u32,
    /// One past the last entry that names a record in the chunk.
    end: u64,
}

/// Sender in one subgroup or stream: this node.
pub struct Sender {
    memory: SenderMemory,
    region: RegionId,
    /// Number of entries taken in: complete entries without a gap.
    entries: u64,
    /// Number of messages among them.
    messages: u64,
    /// Number of their slots.
    slots: u64,
    /// One past the slot of the last message among them.
    message_slots: u64,
    /// Number of slots before the epoch.
    base: u64,
    /// One past the last entry taken in that ends an epoch.
    last_end: u64,
    /// Number of null slots committed so far, taken in or not.
    nulls: u64,
    /// Number of null runs, and ends of epochs, committed so far.
    run_count: u64,
    /// Number of runs and ends that were not taken in yet.
    new_runs: usize,
    /// Whether a null run was wanted and had no place.
    wants_place: bool,
    /// Entry numbers of null runs and ends that were taken in and that not all readers have taken.
    runs: VecDeque<u64>,
    chunks: Vec<ChunkUse>,
    /// Number of entries whose places were reclaimed.
    returned: u64,
    /// Acknowledgements, `taken` and `held`, at the last reclaim of chunks.
    last_given: (u64, u64),
}

impl Sender {
    /// Creates the sender of a memory in `region`. A memory has one sender at a time: two senders
    /// would count each other's claims, and reclaim a chunk with an open claim.
    pub fn new(memory: SenderMemory, region: RegionId) -> Sender {
        let (geometry, null_places) = (memory.geometry(), memory.null_places());
        Sender {
            memory,
            region,
            entries: 0,
            messages: 0,
            slots: 0,
            message_slots: 0,
            base: 0,
            last_end: 0,
            nulls: 0,
            run_count: 0,
            new_runs: 0,
            wants_place: false,
            runs: VecDeque::with_capacity(null_places),
            chunks: alloc::vec![ChunkUse::default(); geometry.chunks()],
            returned: 0,
            last_given: (0, 0),
        }
    }

    /// Region of the memory.
    pub fn region(&self) -> RegionId {
        self.region
    }

    /// Memory of the sender.
    pub fn memory(&self) -> &SenderMemory {
        &self.memory
    }

    /// Number of entries taken in so far.
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// Number of messages among the entries taken in so far.
    pub fn messages(&self) -> u64 {
        self.messages
    }

    /// Number of entries committed so far, taken in or not. A reader that reported its progress
    /// before this call cannot have seen more.
    pub fn committed(&self) -> u64 {
        self.memory.committed() + self.run_count
    }

    /// Number of slots of this epoch's entries that were taken in so far.
    pub fn slots(&self) -> u64 {
        self.slots - self.base
    }

    /// Begins an epoch at this entry, which was committed or is the next one to be committed.
    pub(super) fn begin(&mut self, start: u64) {
        // If commits are visible at once, other nodes may be ahead of this turn.
        self.send(start.saturating_sub(self.entries), usize::MAX);
        let geometry = self.memory.geometry();
        let region = self.memory.region();
        self.base = self.slots;
        for index in start..self.entries {
            let word = geometry.entry_word(index);
            let words = [region.word(word).peek(), region.word(word + 1).peek()];
            if let EntryRead::Entry(entry) = RingEntry::decode(words, index, geometry) {
                self.base -= entry.slots();
            }
        }
        self.wants_place = false;
    }

    /// Commits the end of this sender's part of the epoch with this mark. Returns the beginning
    /// of the next epoch; `None` if the call must be repeated because a place is missing or a
    /// thread is committing.
    pub(super) fn close(&mut self, epoch: u32) -> Option<StreamStart> {
        self.wants_place = self.runs.len() + self.new_runs >= self.memory.null_places();
        if self.wants_place {
            return None;
        }
        let message = self.memory.commit_end(epoch)?;
        self.new_runs += 1;
        self.run_count += 1;
        // Only this turn commits entries other than messages.
        Some(StreamStart { entry: message + self.run_count, message })
    }

    /// One past the slot of this epoch's last message taken in so far; zero if there is none.
    pub fn message_slots(&self) -> u64 {
        self.message_slots.saturating_sub(self.base)
    }

    /// Number of entries taken in so far that are not messages.
    pub fn others(&self) -> u64 {
        self.entries - self.messages
    }

    /// One past the last entry taken in so far that ends an epoch; zero if there is none.
    pub fn last_end(&self) -> u64 {
        self.last_end
    }

    /// Whether all commits are taken in.
    fn is_taken_in(&self) -> bool {
        self.committed() == self.entries
    }

    /// Number and shown value of this stream's mark.
    #[inline]
    pub fn mark(&self) -> Option<(usize, u64)> {
        self.memory.mark().shown()
    }

    /// Declares this stream quiet, if no commit is on its way. A barrier in all threads must
    /// follow, and then [`Sender::look_again`].
    pub fn fall_quiet(&self) -> bool {
        self.is_taken_in() && self.memory.mark().fall_quiet()
    }

    /// Ends the quiet if there are new commits. I-27: commits of threads that did not see the mark
    /// are visible now.
    pub fn look_again(&self) {
        if !self.is_taken_in() {
            self.memory.mark().changed();
        }
    }

    /// Ends the quiet of the stream, as a commit does.
    pub(super) fn be_heard(&self) {
        self.memory.mark().changed();
    }

    /// Whether all commits are taken in and reclaimed.
    pub fn is_at_rest(&self) -> bool {
        self.returned == self.entries && self.memory.committed() == self.messages
    }

    /// Whether every committed message is reclaimed. A null may have to wait for messages
    /// of other senders.
    pub fn is_acknowledged(&self) -> bool {
        let given_back = |chunk: &ChunkUse| chunk.end <= self.returned;
        self.memory.committed() == self.messages && self.chunks.iter().all(given_back)
    }

    /// Whether a claim has found no chunk, and none has become free since.
    pub(super) fn lacks_chunk(&self) -> bool {
        self.memory.lacks_chunk()
    }

    /// Number of entries reclaimed so far: every reader has taken them.
    pub(super) fn returned(&self) -> u64 {
        self.returned
    }

    /// Whether readers have nothing more to release: they hold nothing, and room is not short.
    #[inline]
    pub fn is_given_back(&self) -> bool {
        self.is_at_rest() && self.last_given.1 == 0 && !self.memory.is_half_full()
    }

    /// Commits a null run that brings this sender to `slots` slots of the epoch, unless messages
    /// do. Returns whether a run was committed. Without a place for it, a later turn commits it.
    #[inline]
    pub fn fill_up_to(&mut self, slots: u64) -> bool {
        self.fill(slots.saturating_add(self.base))
    }

    /// Does the same as [`Sender::fill_up_to`], with slots counted from the stream's beginning.
    #[inline]
    fn fill(&mut self, slots: u64) -> bool {
        self.wants_place = false;
        if slots <= self.slots || slots <= self.nulls + self.memory.committed() {
            return false;
        }
        if self.runs.len() + self.new_runs >= self.memory.null_places() {
            self.wants_place = true;
            return false;
        }
        let run = self.memory.commit_nulls(slots, self.nulls);
        self.nulls += run;
        // The thread that owns the bias was committing: the next turn tries again.
        self.wants_place = run == 0 && slots > self.nulls + self.memory.committed();
        self.new_runs += usize::from(run > 0);
        self.run_count += u64::from(run > 0);
        run > 0
    }

    /// Whether the last wanted null run could not be committed: it waits for a place that readers
    /// release, or for the thread that owns the bias.
    pub fn wants_place(&self) -> bool {
        self.wants_place
    }

    /// Whether a null or an end cannot be committed, or would not be visible, before others act:
    /// readers that release places, or a thread of this node in the middle of a commit.
    pub fn is_hindered(&self) -> bool {
        self.wants_place
            || self.runs.len() + self.new_runs >= self.memory.null_places()
            || !self.is_taken_in()
    }

    /// Commits a null run of this number of slots, if there is a place for it.
    pub fn fill_up_with(&mut self, slots: u64) -> bool {
        // The caller gets the result. The request of the null predicate remains as it was.
        let wants_place = self.wants_place;
        let done = self.fill((self.nulls + self.memory.committed()).saturating_add(slots));
        self.wants_place = wants_place;
        done
    }

    /// Takes in every complete commit, up to `most` entries, and no further one once their records
    /// have `grains` grains. Returns the number of entries.
    #[inline]
    pub fn send(&mut self, most: u64, mut grains: usize) -> usize {
        let geometry = self.memory.geometry();
        let region = self.memory.region();
        let first = self.entries;
        // The maximum is a lap of the ring: each commit had a place (I-8).
        let end = self.returned + geometry.entries();
        let end = end.min(first.saturating_add(most));
        while self.entries < end && grains > 0 {
            let word = geometry.entry_word(self.entries);
            let word1 = region.word(word + 1).load();
            match RingEntry::decode([region.word(word).peek(), word1], self.entries, geometry) {
                EntryRead::Entry(RingEntry::Message(extent)) => {
                    let chunk = &mut self.chunks[extent.chunk(geometry)];
                    chunk.committed += 1;
                    chunk.end = self.entries + 1;
                    self.messages += 1;
                    self.slots += 1;
                    self.message_slots = self.slots;
                    grains = grains.saturating_sub(extent.grains());
                }
                EntryRead::Entry(RingEntry::Nulls(run)) => {
                    self.slots += u64::from(run);
                    self.runs.push_back(self.entries);
                    self.new_runs -= 1;
                }
                EntryRead::Entry(RingEntry::End(_)) => {
                    self.last_end = self.entries + 1;
                    self.runs.push_back(self.entries);
                    self.new_runs -= 1;
                }
                EntryRead::NotYet => break,
                EntryRead::Invalid => unreachable!("this node's own entries make sense"),
            }
            self.entries += 1;
        }
        let count = (self.entries - first) as usize;
        if count > 0 {
            self.memory.know(self.messages);
        }
        count
    }

    /// Reclaims memory that no reader needs any more: places of entries below the least `taken`,
    /// and chunks whose entries are all below it and that are not in `held`. The bits for entries
    /// below `taken` were set before `taken` was stored, so a missing bit means that it was
    /// cleared. Returns the amount of work done.
    #[inline]
    pub fn give_back(&mut self, taken: u64, held: u64) -> usize {
        let mut done = 0;
        if taken > self.returned {
            let mut places = taken - self.returned;
            // Places of null runs count too: the next turn may need one for a run.
            done += places as usize;
            while self.runs.front().is_some_and(|&run| run < taken) {
                self.runs.pop_front();
                places -= 1;
            }
            self.returned = taken;
            self.memory.give_places(taken, places as u32);
        }
        // Abandoned claims may free a chunk without any acknowledgement. Therefore a memory without
        // free chunks is checked in any case.
        if (taken, held) == self.last_given && !self.memory.is_out_of_chunks() {
            return done;
        }
        self.last_given = (taken, held);
        for (index, chunk) in self.chunks.iter_mut().enumerate() {
            let needed = held >> index & 1 == 1 || chunk.end > taken;
            if !needed && self.memory.claims_in(index) == Some(chunk.committed) {
                *chunk = ChunkUse::default();
                self.memory.free_chunk(index, self.entries);
                done += 1;
            }
        }
        done
    }

    /// Sets the peers that must be told of a commit. `readers`: the target of each reader (`None`
    /// for this node) and its bell. Returns whether a turn must tell some of them.
    pub fn tell_audience(
        &self,
        readers: impl Iterator<Item = (Option<Target>, Option<u32>)>,
    ) -> bool {
        let (mut bells, mut needs_turn) = (0, false);
        for (target, place) in readers {
            let bell = match target.map(|target| target.sharing) {
                None => Some(OWN_PLACE),
                Some(Sharing::Shared) => place,
                Some(Sharing::Copied) => None,
            };
            match bell {
                Some(place) => bells |= 1 << place,
                None => needs_turn = true,
            }
        }
        self.memory.set_audience(bells, needs_turn);
        needs_turn
    }

    /// Posts the header to a peer that can receive it from now on.
    pub fn introduce(&self, target: Target, effects: &mut Effects) {
        introduce(self.region, target, effects);
    }

    /// Posts the bytes, and then the entries (I-1), with the numbers `from..to`, which were
    /// taken in.
    pub fn post(&self, target: Target, from: u64, to: u64, effects: &mut Effects) {
        effects.work().shown += to - from;
        let geometry = self.memory.geometry();
        let region = self.memory.region();
        let mut run: Option<(usize, usize)> = None;
        let first_word = geometry.first_byte() / WORD;
        let post = |(first, count): (usize, usize), effects: &mut Effects| {
            effects.write(target, self.region, WordRange::new(first, count));
        };
        for index in from..to {
            let word = geometry.entry_word(index);
            let words = [region.word(word).peek(), region.word(word + 1).peek()];
            let EntryRead::Entry(RingEntry::Message(extent)) =
                RingEntry::decode(words, index, geometry)
            else {
                continue;
            };
            let first = first_word + extent.position as usize * GRAIN_WORDS;
            let count = extent.grains() * GRAIN_WORDS;
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
        // The ring of entries is one range, or two if it wraps.
        let until_wrap = geometry.entries() - from % geometry.entries();
        let count = to - from;
        let straight = count.min(until_wrap);
        post((geometry.entry_word(from), straight as usize * ENTRY_WORDS), effects);
        if count > straight {
            post((geometry.entry_word(0), (count - straight) as usize * ENTRY_WORDS), effects);
        }
    }
}

/// Posts the header of a sender's region to a peer that can receive it.
pub fn introduce(region: RegionId, target: Target, effects: &mut Effects) {
    effects.write(target, region, WordRange::new(0, LINE_WORDS));
}
