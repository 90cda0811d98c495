//! The send predicate: takes in what was committed, and posts it where a store is not enough.
//!
//! Owns: what this sender has produced, what of its memory is still needed, and the room for null
//! runs. Never does: touch a record's bytes, or wait for a claim that is still open: only commits
//! have a place in the order.
//!
//! Peers that share the memory see a commit as it is made. For the others it is posted in two
//! steps, as the link's contract asks for: the records' bytes, then their entries, which vouch for
//! themselves. Everything that is ready leaves in as few writes as its neighbourhood allows.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::claim::SenderMemory;
use super::entry::{Entry, Found};
use super::geometry::{ENTRY_WORDS, GRAIN_WORDS};
use super::stream::Beginning;
use crate::ids::RegionId;
use crate::link::{OWN_PLACE, Sharing, WordRange};
use crate::machine::{Effects, Target};
use crate::memory::{LINE_WORDS, WORD};

/// What the turn knows of a chunk.
#[derive(Clone, Copy, Default)]
struct ChunkUse {
    /// Records in it that were taken in.
    committed: u32,
    /// One past the last entry that names a record in it.
    end: u64,
}

/// One sender: this node, in one subgroup or stream.
pub struct Sender {
    memory: SenderMemory,
    region: RegionId,
    /// Entries taken in: complete, and those before them too.
    entries: u64,
    /// Messages among them.
    messages: u64,
    /// Slots of them.
    slots: u64,
    /// One past the slot of the last message among them.
    message_slots: u64,
    /// Those of them that lie before the epoch.
    base: u64,
    /// One past the last entry among those taken in that ends an epoch.
    last_end: u64,
    /// Null slots committed so far, taken in or not.
    nulls: u64,
    /// Null runs, and ends of epochs, committed so far.
    run_count: u64,
    /// Those that were not yet taken in.
    new_runs: usize,
    /// A null run was wanted, and had no place.
    wants_place: bool,
    /// The numbers of null runs that were taken in and that not all readers have taken.
    runs: VecDeque<u64>,
    chunks: Vec<ChunkUse>,
    /// Entries whose places were given back.
    returned: u64,
    /// What readers needed when chunks were last given back.
    last_given: (u64, u64),
}

impl Sender {
    /// The sender of a memory that lies in `region`. A memory has one sender at a time: two would count each other's
    /// claims, and give a chunk back in which one is open.
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

    /// The region that the memory lies in.
    pub fn region(&self) -> RegionId {
        self.region
    }

    /// The memory.
    pub fn memory(&self) -> &SenderMemory {
        &self.memory
    }

    /// Entries taken in so far.
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// Messages among the entries taken in so far.
    pub fn messages(&self) -> u64 {
        self.messages
    }

    /// Entries committed so far, taken in or not: as many as a reader can have seen that has said
    /// so before this was called.
    pub fn committed(&self) -> u64 {
        self.memory.committed() + self.run_count
    }

    /// Slots of the entries of this epoch that were taken in so far.
    pub fn slots(&self) -> u64 {
        self.slots - self.base
    }

    /// Begins an epoch at this entry, which was committed or is the next one to be.
    pub(super) fn begin(&mut self, start: u64) {
        // Where commits are seen as they are made, others may be further than this turn.
        self.send(start.saturating_sub(self.entries), usize::MAX);
        let geometry = self.memory.geometry();
        let region = self.memory.region();
        self.base = self.slots;
        for index in start..self.entries {
            let word = geometry.entry_word(index);
            let words = [region.word(word).peek(), region.word(word + 1).peek()];
            if let Found::Entry(entry) = Entry::decode(words, index, geometry) {
                self.base -= entry.slots();
            }
        }
        self.wants_place = false;
    }

    /// Commits the end of this sender's part of the epoch that is called this. Returns where the
    /// next epoch begins; `None` if it has to be tried again, for a place for it or for a thread.
    pub(super) fn close(&mut self, epoch: u32) -> Option<Beginning> {
        self.wants_place = self.runs.len() + self.new_runs >= self.memory.null_places();
        if self.wants_place {
            return None;
        }
        let message = self.memory.commit_end(epoch)?;
        self.new_runs += 1;
        self.run_count += 1;
        // What is not a message was committed by this turn.
        Some(Beginning { entry: message + self.run_count, message })
    }

    /// One past the slot of this epoch's last message taken in so far; zero if there is none.
    pub fn message_slots(&self) -> u64 {
        self.message_slots.saturating_sub(self.base)
    }

    /// Entries taken in so far that are no messages.
    pub fn others(&self) -> u64 {
        self.entries - self.messages
    }

    /// One past the last entry taken in so far that ends an epoch; zero if there is none.
    pub fn last_end(&self) -> u64 {
        self.last_end
    }

    /// Whether all that was committed is taken in.
    fn is_taken_in(&self) -> bool {
        self.committed() == self.entries
    }

    /// The number of this stream's mark, and what it shows.
    #[inline]
    pub fn mark(&self) -> Option<(usize, u64)> {
        self.memory.mark().shown()
    }

    /// Says that this stream is quiet, if nothing is on its way. A barrier in all threads has to
    /// follow, and then [`Sender::look_again`].
    pub fn fall_quiet(&self) -> bool {
        self.is_taken_in() && self.memory.mark().fall_quiet()
    }

    /// I-27: what was committed by a thread that did not see the mark is there now.
    pub fn look_again(&self) {
        if !self.is_taken_in() {
            self.memory.mark().changed();
        }
    }

    /// Ends its quiet, as a commit does.
    pub(super) fn be_heard(&self) {
        self.memory.mark().changed();
    }

    /// Whether everything that was committed is taken in and given back.
    pub fn is_at_rest(&self) -> bool {
        self.returned == self.entries && self.memory.committed() == self.messages
    }

    /// Whether every message that was committed is given back. A null may have to wait for messages of
    /// others.
    pub fn is_acknowledged(&self) -> bool {
        let given_back = |chunk: &ChunkUse| chunk.end <= self.returned;
        self.memory.committed() == self.messages && self.chunks.iter().all(given_back)
    }

    /// Whether a claim has found no chunk, and none has become free since.
    pub(super) fn lacks_chunk(&self) -> bool {
        self.memory.lacks_chunk()
    }

    /// Entries given back so far: every reader has taken them.
    pub(super) fn returned(&self) -> u64 {
        self.returned
    }

    /// Whether readers have nothing more to give back: they hold nothing, and room is not short.
    #[inline]
    pub fn is_given_back(&self) -> bool {
        self.is_at_rest() && self.last_given.1 == 0 && !self.memory.is_half_full()
    }

    /// Makes the null predicate's wish come true: commits a null run that brings this sender to so
    /// many slots, unless messages do. Returns whether there was anything to do. Without a place
    /// for it, a later turn does it.
    #[inline]
    pub fn fill_up_to(&mut self, slots: u64) -> bool {
        self.fill(slots.saturating_add(self.base))
    }

    /// As [`Sender::fill_up_to`], with slots counted from the stream's beginning.
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
        // Whoever moves the words alone was just doing so: the next turn tries again.
        self.wants_place = run == 0 && slots > self.nulls + self.memory.committed();
        self.new_runs += usize::from(run > 0);
        self.run_count += u64::from(run > 0);
        run > 0
    }

    /// Whether a null run that was wanted last could not be committed: it waits for a place that
    /// readers give back, or for whoever moves the words alone.
    pub fn wants_place(&self) -> bool {
        self.wants_place
    }

    /// Whether a null or an end cannot be committed, or would not be seen, before others have done something: readers that give
    /// places back, or a thread of this node that is in the midst of a commit.
    pub fn is_hindered(&self) -> bool {
        self.wants_place
            || self.runs.len() + self.new_runs >= self.memory.null_places()
            || !self.is_taken_in()
    }

    /// Commits a null run of so many slots, if there is a place for it.
    pub fn fill_up_with(&mut self, slots: u64) -> bool {
        // Whoever asks is told; what the null predicate wanted it still wants.
        let wants_place = self.wants_place;
        let done = self.fill((self.nulls + self.memory.committed()).saturating_add(slots));
        self.wants_place = wants_place;
        done
    }

    /// Takes in every complete commit, up to `most` entries, and no further one once their records
    /// have `grains` grains. Returns how many entries.
    #[inline]
    pub fn send(&mut self, most: u64, mut grains: usize) -> usize {
        let geometry = self.memory.geometry();
        let region = self.memory.region();
        let first = self.entries;
        // A lap of the ring is the most there can be: each commit had a place.
        let end = self.returned + geometry.entries();
        let end = end.min(first.saturating_add(most));
        while self.entries < end && grains > 0 {
            let word = geometry.entry_word(self.entries);
            let word1 = region.word(word + 1).load();
            match Entry::decode([region.word(word).peek(), word1], self.entries, geometry) {
                Found::Entry(Entry::Message(extent)) => {
                    let chunk = &mut self.chunks[extent.chunk(geometry)];
                    chunk.committed += 1;
                    chunk.end = self.entries + 1;
                    self.messages += 1;
                    self.slots += 1;
                    self.message_slots = self.slots;
                    grains = grains.saturating_sub(extent.grains());
                }
                Found::Entry(Entry::Nulls(run)) => {
                    self.slots += u64::from(run);
                    self.runs.push_back(self.entries);
                    self.new_runs -= 1;
                }
                Found::Entry(Entry::End(_)) => {
                    self.last_end = self.entries + 1;
                    self.runs.push_back(self.entries);
                    self.new_runs -= 1;
                }
                Found::NotYet => break,
                Found::Nonsense => unreachable!("this node's own entries make sense"),
            }
            self.entries += 1;
        }
        let count = (self.entries - first) as usize;
        if count > 0 {
            self.memory.know(self.messages);
        }
        count
    }

    /// Gives back what no reader needs any more: places of entries below the least `taken`; chunks
    /// of which all entries are below it and that no `held` has. Every bit for what lies below a
    /// `taken` was set before it, so a missing bit means that it was cleared. Returns how much.
    #[inline]
    pub fn give_back(&mut self, taken: u64, held: u64) -> usize {
        let mut done = 0;
        if taken > self.returned {
            let mut places = taken - self.returned;
            // Those of null runs too: the turn that follows may have a run to put there.
            done += places as usize;
            while self.runs.front().is_some_and(|&run| run < taken) {
                self.runs.pop_front();
                places -= 1;
            }
            self.returned = taken;
            self.memory.give_places(taken, places as u32);
        }
        // Abandoned claims may free a chunk without any acknowledgement, so a memory that is out
        // of room is looked at in any case.
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

    /// Says who has to be told of a commit: for each reader where it is (none: at this node) and its
    /// place among the bells. Returns whether a turn has to tell some of them.
    pub fn tell_audience(
        &self,
        readers: impl Iterator<Item = (Option<Target>, Option<u32>)>,
    ) -> bool {
        let (mut places, mut needs_turn) = (0, false);
        for (target, place) in readers {
            let bell = match target.map(|target| target.sharing) {
                None => Some(OWN_PLACE),
                Some(Sharing::Shared) => place,
                Some(Sharing::Copied) => None,
            };
            match bell {
                Some(place) => places |= 1 << place,
                None => needs_turn = true,
            }
        }
        self.memory.set_audience(places, needs_turn);
        needs_turn
    }

    /// Shows the header to a peer that can receive it from now on.
    pub fn introduce(&self, target: Target, effects: &mut Effects) {
        introduce(self.region, target, effects);
    }

    /// Posts the bytes and the entries with the numbers `from..to`, which were taken in.
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
            let Found::Entry(Entry::Message(extent)) = Entry::decode(words, index, geometry) else {
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
        // The ring of entries is one range, or two where it wraps.
        let until_wrap = geometry.entries() - from % geometry.entries();
        let count = to - from;
        let straight = count.min(until_wrap);
        post((geometry.entry_word(from), straight as usize * ENTRY_WORDS), effects);
        if count > straight {
            post((geometry.entry_word(0), (count - straight) as usize * ENTRY_WORDS), effects);
        }
    }
}

/// Shows the header of a sender's region to a peer that can receive it.
pub fn introduce(region: RegionId, target: Target, effects: &mut Effects) {
    effects.write(target, region, WordRange::new(0, LINE_WORDS));
}
