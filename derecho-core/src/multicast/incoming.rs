//! View of one sender's memory at another node: entries received, delivered, and still referred to.
//!
//! Owns: the progress of this node in one sender's entries. Never does: trust an entry, copy a
//! payload, decide what is delivered, or wait for an application.
//!
//! An entry vouches for itself, so receiving means looking whether the next one is present. The
//! sender may reuse the entry's place in the ring once this node has *taken* it, that is, delivered
//! or dropped it. The sender may reuse its bytes once `held` has no bit for their chunk. Delivery
//! never waits for an application, and so the ring does not either.

mod epoch;

use alloc::sync::Arc;
use core::ops::Range;

use super::PeerFault;
use super::acknowledgement::Acknowledged;
use super::entry::{EntryRead, RecordExtent, RingEntry};
use super::geometry::Geometry;
use super::inbox::SenderReplica;
use super::send::Sender;
use crate::atomic::AtomicU64;
use crate::link::Waker;
use crate::machine::Effects;
use crate::memory::Replica;

/// Receiver state for one sender.
pub struct IncomingStream {
    sender_replica: Arc<SenderReplica>,
    /// Number of entries received.
    entries: u64,
    /// Number of received entries that are not messages.
    others: u64,
    /// First entry of this epoch.
    start: u64,
    /// Mark of this epoch in the stream.
    epoch: u32,
    /// Whether the end of this epoch was received.
    ended: bool,
    /// Number of ends of other epochs that were received and not taken.
    stale: u32,
    /// Consecutive ends that were passed.
    passed: Range<u64>,
    /// Number of slots received, from the epoch's start.
    slots: u64,
    /// One past the slot of the last message among them.
    message_slots: u64,
    /// Number of entries taken: delivered or dropped.
    taken: u64,
    /// Number of messages of the sender before entry `taken`.
    messages: u64,
    held: u64,
    /// Chunk of the newest record, which its sender is most likely still filling.
    newest: usize,
    /// References made since the last count, all to the newest chunk.
    uncounted: u32,
}

impl IncomingStream {
    /// Creates the state for the sender whose memory is behind `replica`, from the beginning
    /// of the stream.
    pub fn new(replica: Replica, geometry: Geometry, waker: Waker) -> IncomingStream {
        IncomingStream::numbered(0, replica, geometry, waker)
    }

    /// Creates the state as [`IncomingStream::new`] does, with the sender's number in
    /// the readers' queues.
    pub(super) fn numbered(
        number: u16,
        replica: Replica,
        geometry: Geometry,
        waker: Waker,
    ) -> IncomingStream {
        IncomingStream {
            sender_replica: SenderReplica::new(replica, geometry, number, waker),
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

    /// Begins at this entry. `messages`: number of messages before the entry.
    pub fn start(&mut self, entry: u64, messages: u64) {
        (self.entries, self.taken, self.messages) = (entry, entry, messages);
        (self.start, self.others) = (entry, entry.wrapping_sub(messages));
    }

    /// Memory of the sender.
    pub fn sender_replica(&self) -> &Arc<SenderReplica> {
        &self.sender_replica
    }

    /// Number of entries received.
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// Number of slots of the entries received.
    #[inline]
    pub fn slots(&self) -> u64 {
        self.slots
    }

    /// One past the slot of the last message received: only nulls follow it.
    #[inline]
    pub fn message_slots(&self) -> u64 {
        self.message_slots
    }

    /// Number of entries delivered or dropped.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// Sender's number of the message that is delivered next.
    pub fn next_number(&self) -> u64 {
        self.messages
    }

    /// Whether this node still refers to the sender's bytes.
    pub fn is_held(&self) -> bool {
        self.held != 0
    }

    /// Acknowledgement for the sender.
    #[inline]
    pub fn acknowledged(&self, received: u64) -> Acknowledged {
        Acknowledged { received, taken: self.taken, held: self.held }
    }

    #[inline]
    fn words(&self, index: u64) -> [u64; 2] {
        let replica = self.sender_replica.replica();
        let word = self.sender_replica.geometry().entry_word(index);
        // The second word first: if memory is shared, it publishes the first one.
        let word1 = replica.load(word + 1);
        [replica.load(word), word1]
    }

    /// Whether the next entry is present and may belong to this epoch. The entry may be
    /// incomplete or invalid.
    #[inline]
    pub fn has_next(&self) -> bool {
        let word = self.sender_replica.geometry().entry_word(self.entries) + 1;
        !self.ended && RingEntry::is_stamped(self.sender_replica.replica().load(word), self.entries)
    }

    /// Receives up to `most` entries that have arrived. Returns their number, or the fault
    /// of the sender.
    #[inline]
    pub fn receive(&mut self, most: u64) -> Result<usize, PeerFault> {
        let geometry = self.sender_replica.geometry();
        let first = self.entries;
        // Only a sender that overtakes its readers has more than a lap for them.
        let end = (self.taken + geometry.entries()).min(first.saturating_add(most));
        if self.entries < self.start {
            return self.catch_up(end.min(self.start));
        }
        let end = if self.ended { first } else { end };
        while self.entries < end {
            match RingEntry::decode(self.words(self.entries), self.entries, geometry) {
                EntryRead::Entry(entry) => {
                    self.slots = self.slots.saturating_add(entry.slots());
                    match entry {
                        RingEntry::Message(extent) => {
                            self.message_slots = self.slots;
                            if self.entries == first {
                                // The first record is read at once. Prefetching the others
                                // as well would only take lines from a sender that still
                                // fills nearby memory.
                                let (at, length) = (extent.first_byte(geometry), extent.length);
                                self.sender_replica.replica().prefetch(at, length as usize);
                            }
                        }
                        RingEntry::Nulls(_) => self.others += 1,
                        RingEntry::End(epoch) => {
                            self.others += 1;
                            if self.meet_end(epoch) {
                                self.entries += 1;
                                break;
                            }
                        }
                    }
                }
                EntryRead::NotYet => break,
                EntryRead::Invalid => return Err(PeerFault::Entry { index: self.entries }),
            }
            self.entries += 1;
        }
        Ok((self.entries - first) as usize)
    }

    /// Receives what this node itself has sent, as far as its [`Sender`] has taken it in. The
    /// `Sender` has looked at each entry already, so a second look is necessary only where epochs
    /// end. Returns the number of entries.
    #[inline]
    pub fn follow(&mut self, sender: &Sender) -> Result<usize, PeerFault> {
        let count = sender.entries().saturating_sub(self.entries);
        if self.ended || self.entries < self.start || sender.last_end() > self.entries {
            return self.receive(count);
        }
        self.entries += count;
        self.others = sender.others();
        (self.slots, self.message_slots) = (sender.slots(), sender.message_slots());
        Ok(count as usize)
    }

    /// Takes all received entries without looking at them, for a node that delivers nothing.
    /// Returns their number.
    #[inline]
    pub fn drop_received(&mut self) -> usize {
        // Entries dropped in the epoch before may be received once more.
        let count = self.entries.saturating_sub(self.taken);
        self.taken += count;
        count as usize
    }

    /// Takes the next received entry. The entry is read again, and therefore checked again.
    #[inline]
    pub fn take(&mut self) -> Result<RingEntry, PeerFault> {
        let words = self.words(self.taken);
        match RingEntry::decode(words, self.taken, self.sender_replica.geometry()) {
            EntryRead::Entry(entry) => {
                self.taken += 1;
                Ok(entry)
            }
            EntryRead::NotYet | EntryRead::Invalid => Err(PeerFault::Entry { index: self.taken }),
        }
    }

    /// Sender's number of the message that was just taken.
    #[inline]
    pub fn number(&mut self) -> u64 {
        self.messages += 1;
        self.messages - 1
    }

    /// Adds references to a record, one for each of `readers` readers at this node.
    /// [`IncomingStream::count`] must follow before any reader sees the record.
    #[inline]
    pub fn refer(&mut self, extent: RecordExtent, readers: u32) {
        let chunk = extent.chunk(self.sender_replica.geometry());
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
            SenderReplica::hold(&self.sender_replica, self.newest, self.uncounted);
            self.uncounted = 0;
        }
    }

    /// Makes releases of [memory held for long](IncomingStream::rest_while_held) set this bit.
    pub fn notice_in(&mut self, word: &Arc<AtomicU64>, bit: u32) {
        SenderReplica::notice_in(&mut self.sender_replica, word, bit);
    }

    /// Replaces looks for released memory by notices. `false` if some held memory
    /// was released already.
    pub fn rest_while_held(&self) -> bool {
        self.held == 0 || self.sender_replica.want_notice(self.held)
    }

    /// Ends the notices: releases are looked for again.
    pub fn look_while_held(&self) {
        self.sender_replica.want_no_notice();
    }

    /// Makes the chunks private to which records may refer (I-335): chunks to which readers
    /// refer, and chunks of the entries that were received and not taken. These entries
    /// become private as well, because a leaving member takes them at the cut. Nothing more
    /// may be received afterwards.
    pub(super) fn privatize(&mut self, effects: &mut Effects) {
        self.count();
        let geometry = self.sender_replica.geometry();
        let mut chunks = 0_u64;
        for index in self.taken..self.entries {
            let found = RingEntry::decode(self.words(index), index, geometry);
            if let EntryRead::Entry(RingEntry::Message(extent)) = found {
                chunks |= 1 << extent.chunk(geometry);
            }
        }
        if self.taken < self.entries {
            effects.privatize(self.sender_replica.replica().clone(), geometry.ring_bytes());
        }
        self.sender_replica.privatize(chunks, effects);
    }

    /// Clears the `held` bits of chunks to which no reader refers any more. Returns whether
    /// there were any.
    ///
    /// In a turn that is not `idle`, the newest chunk is skipped: its sender cannot reuse it before
    /// it has moved on. A bit that changed with every record would move the acknowledgement line
    /// back and forth between the two nodes.
    #[inline]
    pub fn release(&mut self, idle: bool) -> bool {
        let mut look = if idle { self.held } else { self.held & !(1 << self.newest) };
        let before = self.held;
        while look != 0 {
            let chunk = look.trailing_zeros();
            look &= look - 1;
            if self.sender_replica.is_released(chunk as usize) {
                self.held &= !(1 << chunk);
            }
        }
        self.held != before
    }
}
