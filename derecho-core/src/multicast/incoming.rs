//! What one sender's memory shows at another node: entries received, delivered, still referred to.
//!
//! Owns: how far this node has come in one sender's entries. Never does: trust an entry, copy a
//! payload, decide what is delivered, or wait for an application.
//!
//! An entry vouches for itself, so receiving is looking whether the next one is there. Its place in
//! the ring is the sender's again once this node has *taken* it, that is delivered or dropped it;
//! its bytes once `held` has no bit for their chunk. Delivery never waits for an application, so
//! neither does the ring.

use alloc::sync::Arc;

use super::Fault;
use super::acknowledgement::Acknowledged;
use super::entry::{Entry, Extent, Found};
use super::geometry::Geometry;
use super::inbox::Source;
use crate::link::Waker;
use crate::memory::Replica;

/// One sender, as this node receives it.
pub struct Incoming {
    source: Arc<Source>,
    /// Entries received.
    entries: u64,
    /// Slots of them.
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
        Incoming {
            source: Source::new(replica, geometry, waker),
            entries: 0,
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

    /// Whether the next entry shows. It may still be half there, or nonsense.
    #[inline]
    pub fn has_next(&self) -> bool {
        let word = self.source.geometry().entry_word(self.entries) + 1;
        Entry::is_stamped(self.source.replica().load(word), self.entries)
    }

    /// Receives up to `most` entries that have arrived. Returns how many, or what is wrong with
    /// the sender.
    #[inline]
    pub fn receive(&mut self, most: u64) -> Result<usize, Fault> {
        let geometry = self.source.geometry();
        let first = self.entries;
        // Only a sender that overtakes its readers has more than a lap for them.
        let end = (self.taken + geometry.entries()).min(first.saturating_add(most));
        while self.entries < end {
            match Entry::decode(self.words(self.entries), self.entries, geometry) {
                Found::Entry(entry) => {
                    self.slots = self.slots.saturating_add(entry.slots());
                    if let Entry::Message(extent) = entry {
                        self.message_slots = self.slots;
                        self.source.replica().prefetch(extent.first_byte(geometry));
                    }
                }
                Found::NotYet => break,
                Found::Nonsense => return Err(Fault::Entry { index: self.entries }),
            }
            self.entries += 1;
        }
        Ok((self.entries - first) as usize)
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
