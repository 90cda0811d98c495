//! What one sender's memory shows at another node: entries received, delivered, still referred to.
//!
//! Owns: how far this node has come in one sender's entries. Never does: trust an entry, copy a
//! payload, decide what is delivered, or wait for an application.
//!
//! An entry vouches for itself, so receiving is looking whether the next one is there. Its place in
//! the ring is the sender's again once this node has *taken* it, that is delivered or dropped it;
//! its bytes once `held` has no bit for their chunk. Delivery never waits for an application, so
//! neither does the ring.

mod epoch;

use alloc::sync::Arc;
use core::ops::Range;

use super::Fault;
use super::acknowledgement::Acknowledged;
use super::entry::{Entry, Extent, Found};
use super::geometry::Geometry;
use super::inbox::Source;
use super::send::Sender;
use crate::atomic::AtomicU64;
use crate::link::Waker;
use crate::machine::Effects;
use crate::memory::Replica;

/// One sender, as this node receives it.
pub struct Incoming {
    source: Arc<Source>,
    /// Entries received.
    entries: u64,
    /// Those of them that are no messages.
    others: u64,
    /// Where this epoch begins.
    start: u64,
    /// What this epoch is called in the stream.
    epoch: u32,
    /// The end of this epoch was received.
    ended: bool,
    /// Ends of other epochs that were received and not taken.
    stale: u32,
    /// Ends that were passed, without anything between them.
    passed: Range<u64>,
    /// Slots received, from the epoch's start.
    slots: u64,
    /// One past the slot of the last message among them.
    message_slots: u64,
    /// Entries taken: delivered or dropped.
    taken: u64,
    /// Messages of the sender before entry `taken`.
    messages: u64,
    held: u64,
    /// The chunk of the newest record: its sender is most likely still filling it.
    newest: usize,
    /// References that were made since they were last counted, all to the newest chunk.
    uncounted: u32,
}

impl Incoming {
    /// The sender whose memory is behind `replica`, from its beginning.
    pub fn new(replica: Replica, geometry: Geometry, waker: Waker) -> Incoming {
        Incoming::numbered(0, replica, geometry, waker)
    }

    /// As [`Incoming::new`], for the sender that is called so in the readers' queues.
    pub(super) fn numbered(
        number: u16,
        replica: Replica,
        geometry: Geometry,
        waker: Waker,
    ) -> Incoming {
        Incoming {
            source: Source::new(replica, geometry, number, waker),
            entries: 0,
            others: 0,
            start: 0,
            epoch: 0,
            ended: false,
            stale: 0,
            passed: 0..0,
            slots: 0,
            message_slots: 0,
            taken: 0,
            messages: 0,
            held: 0,
            newest: 0,
            uncounted: 0,
        }
    }

    /// Begins at this entry, before which so many messages were sent.
    pub fn start(&mut self, entry: u64, messages: u64) {
        (self.entries, self.taken, self.messages) = (entry, entry, messages);
        (self.start, self.others) = (entry, entry.wrapping_sub(messages));
    }

    /// The memory.
    pub fn source(&self) -> &Arc<Source> {
        &self.source
    }

    /// Entries received.
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// Slots of the entries received.
    #[inline]
    pub fn slots(&self) -> u64 {
        self.slots
    }

    /// One past the slot of the last message received: what follows it are nulls.
    #[inline]
    pub fn message_slots(&self) -> u64 {
        self.message_slots
    }

    /// Entries delivered or dropped.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// The sender's number of the message that is delivered next.
    pub fn next_number(&self) -> u64 {
        self.messages
    }

    /// Whether this node still refers to the sender's bytes.
    pub fn is_held(&self) -> bool {
        self.held != 0
    }

    /// What is to be acknowledged to the sender.
    #[inline]
    pub fn acknowledged(&self, received: u64) -> Acknowledged {
        Acknowledged { received, taken: self.taken, held: self.held }
    }

    #[inline]
    fn words(&self, index: u64) -> [u64; 2] {
        let replica = self.source.replica();
        let word = self.source.geometry().entry_word(index);
        // The second word first: where memory is shared it publishes the first one.
        let word1 = replica.load(word + 1);
        [replica.load(word), word1]
    }

    /// Whether there is a next entry that belongs to this epoch or may do so. It may still be half there, or nonsense.
    #[inline]
    pub fn has_next(&self) -> bool {
        let word = self.source.geometry().entry_word(self.entries) + 1;
        !self.ended && Entry::is_stamped(self.source.replica().load(word), self.entries)
    }

    /// Receives up to `most` entries that have arrived. Returns how many, or what is wrong with
    /// the sender.
    #[inline]
    pub fn receive(&mut self, most: u64) -> Result<usize, Fault> {
        let geometry = self.source.geometry();
        let first = self.entries;
        // Only a sender that overtakes its readers has more than a lap for them.
        let end = (self.taken + geometry.entries()).min(first.saturating_add(most));
        if self.entries < self.start {
            return self.catch_up(end.min(self.start));
        }
        let end = if self.ended { first } else { end };
        while self.entries < end {
            match Entry::decode(self.words(self.entries), self.entries, geometry) {
                Found::Entry(entry) => {
                    self.slots = self.slots.saturating_add(entry.slots());
                    match entry {
                        Entry::Message(extent) => {
                            self.message_slots = self.slots;
                            if self.entries == first {
                                // The first one is read at once. To ask for the others as well
                                // would only take lines from a sender that still fills what is near.
                                let (at, length) = (extent.first_byte(geometry), extent.length);
                                self.source.replica().prefetch(at, length as usize);
                            }
                        }
                        Entry::Nulls(_) => self.others += 1,
                        Entry::End(epoch) => {
                            self.others += 1;
                            if self.meet_end(epoch) {
                                self.entries += 1;
                                break;
                            }
                        }
                    }
                }
                Found::NotYet => break,
                Found::Nonsense => return Err(Fault::Entry { index: self.entries }),
            }
            self.entries += 1;
        }
        Ok((self.entries - first) as usize)
    }

    /// Receives what this node itself has sent, as far as its [`Sender`] has taken it in: that has
    /// looked at each entry already, so only where epochs end is there another look. Returns how
    /// many.
    #[inline]
    pub fn follow(&mut self, sender: &Sender) -> Result<usize, Fault> {
        let count = sender.entries().saturating_sub(self.entries);
        if self.ended || self.entries < self.start || sender.last_end() > self.entries {
            return self.receive(count);
        }
        self.entries += count;
        self.others = sender.others();
        (self.slots, self.message_slots) = (sender.slots(), sender.message_slots());
        Ok(count as usize)
    }

    /// Takes all entries that were received, without a look at them: for a node that delivers
    /// nothing. Returns how many.
    #[inline]
    pub fn drop_received(&mut self) -> usize {
        // What was dropped in the epoch before may be received once more.
        let count = self.entries.saturating_sub(self.taken);
        self.taken += count;
        count as usize
    }

    /// Takes the next entry, which was received. It is read anew, so it is checked anew.
    #[inline]
    pub fn take(&mut self) -> Result<Entry, Fault> {
        let words = self.words(self.taken);
        match Entry::decode(words, self.taken, self.source.geometry()) {
            Found::Entry(entry) => {
                self.taken += 1;
                Ok(entry)
            }
            Found::NotYet | Found::Nonsense => Err(Fault::Entry { index: self.taken }),
        }
    }

    /// The sender's number of the message that was just taken.
    #[inline]
    pub fn number(&mut self) -> u64 {
        self.messages += 1;
        self.messages - 1
    }

    /// Refers to a record, as many times as there are readers at this node. To be
    /// [counted](Incoming::count) before any of them sees it.
    #[inline]
    pub fn refer(&mut self, extent: Extent, readers: u32) {
        let chunk = extent.chunk(self.source.geometry());
        if chunk != self.newest {
            self.count();
            self.newest = chunk;
        }
        self.uncounted += readers;
    }

    /// Counts the references that were made.
    #[inline]
    pub fn count(&mut self) {
        if self.uncounted > 0 {
            self.held |= 1 << self.newest;
            Source::hold(&self.source, self.newest, self.uncounted);
            self.uncounted = 0;
        }
    }

    /// Sets this bit when something is released that is [held for
    /// long](Incoming::rest_while_held).
    pub fn notice_in(&mut self, word: &Arc<AtomicU64>, bit: u32) {
        Source::notice_in(&mut self.source, word, bit);
    }

    /// From now on nobody looks whether what is held was released; it is noticed. `false` if some
    /// of it was released already.
    pub fn rest_while_held(&self) -> bool {
        self.held == 0 || self.source.want_notice(self.held)
    }

    /// Somebody looks again.
    pub fn look_while_held(&self) {
        self.source.want_no_notice();
    }

    /// Makes the chunks private that records may refer to (I-335): those to which readers refer, and those of the entries that were
    /// received and not taken; these entries as well, for a leaver takes them at the cut. Nothing more may be received.
    pub(super) fn privatize(&mut self, effects: &mut Effects) {
        self.count();
        let geometry = self.source.geometry();
        let mut chunks = 0_u64;
        for index in self.taken..self.entries {
            let found = Entry::decode(self.words(index), index, geometry);
            if let Found::Entry(Entry::Message(extent)) = found {
                chunks |= 1 << extent.chunk(geometry);
            }
        }
        if self.taken < self.entries {
            effects.privatize(self.source.replica().clone(), geometry.ring_bytes());
        }
        self.source.privatize(chunks, effects);
    }

    /// Clears the `held` bits of chunks that no reader refers to any more. Returns whether there
    /// were any.
    ///
    /// In a turn that is not `idle` the newest chunk is left alone: its sender cannot use it again
    /// before it has moved on, and a bit that goes to and fro with every record would take the
    /// line of acknowledgements to and fro between the two nodes.
    #[inline]
    pub fn release(&mut self, idle: bool) -> bool {
        let mut look = if idle { self.held } else { self.held & !(1 << self.newest) };
        let before = self.held;
        while look != 0 {
            let chunk = look.trailing_zeros();
            look &= look - 1;
            if self.source.is_released(chunk as usize) {
                self.held &= !(1 << chunk);
            }
        }
        self.held != before
    }
}
