//! The receive predicate: takes in every new entry that a sender's `sent` guards, hands it to the
//! readers, and acknowledges.
//!
//! Owns: what this node has received of one sender, and its acknowledgement row for it.
//! Never does: trust an entry, copy a payload, or wait for an application.
//!
//! Entries are copied out here, so the order ring may be reused as soon as `received` says so.
//! Bytes are not: `held` has a bit for each chunk that a reader of this node refers to.
//! The acknowledgement leaves in two steps: `held` and `received`, then `taken`, which says that
//! whatever below it is still needed has its bit in `held`.

use alloc::sync::Arc;

use super::Fault;
use super::entry::Entry;
use super::geometry::{ACK_HELD, ACK_RECEIVED, ACK_TAKEN, ACK_WORDS, Geometry, SENT};
use super::inbox::{Inbox, Source};
use crate::ids::RegionId;
use crate::link::{Waker, WordRange};
use crate::machine::{Effects, Target};
use crate::memory::{OwnRegion, Replica};

/// Where this node acknowledges one sender: a line of a region of its own.
#[derive(Clone, Debug)]
pub struct AckLine {
    region: OwnRegion,
    id: RegionId,
    first: usize,
}

impl AckLine {
    /// The line with this number of a region.
    pub fn new(region: OwnRegion, id: RegionId, line: usize) -> AckLine {
        assert!((line + 1) * ACK_WORDS <= region.words(), "the line lies in the region");
        AckLine { region, id, first: line * ACK_WORDS }
    }

    fn publish(&self, word: usize, value: u64) {
        self.region.word(self.first + word).publish(value);
    }

    fn post(&self, target: Option<Target>, word: usize, count: usize, effects: &mut Effects) {
        if let Some(target) = target {
            effects.write(target, self.id, WordRange::new(self.first + word, count));
        }
    }

    /// Makes it a fresh line again, for another stream.
    pub fn clear(&self) {
        for word in 0..ACK_WORDS {
            self.publish(word, 0);
        }
    }
}

/// One sender, as this node receives it.
pub struct Receiver {
    source: Arc<Source>,
    inbox: Option<Arc<Inbox>>,
    ack: AckLine,
    /// Whom the acknowledgements are for; none if it is this node itself.
    sender: Option<Target>,
    /// Whether the sender counts this node among its readers.
    started: bool,
    next: u64,
    held: u64,
}

impl Receiver {
    /// A receiver for the memory behind `replica`. It takes nothing in before [`Receiver::start`].
    pub fn new(
        replica: Replica,
        geometry: Geometry,
        ack: AckLine,
        sender: Option<Target>,
        waker: Waker,
    ) -> Receiver {
        let source = Source::new(replica, geometry, waker);
        let inbox = Some(Inbox::new(Arc::clone(&source)));
        Receiver { source, inbox, ack, sender, started: false, next: 0, held: 0 }
    }

    /// Begins at a slot: the sender counts this node among its readers from there on.
    pub fn start(&mut self, slot: u64, effects: &mut Effects) {
        self.next = slot;
        self.started = true;
        self.ack.publish(ACK_RECEIVED, slot);
        self.ack.publish(ACK_TAKEN, slot);
        self.ack.post(self.sender, ACK_RECEIVED, 1, effects);
        self.ack.post(self.sender, ACK_TAKEN, 1, effects);
    }

    /// The queue of this node's reader, if it still wants records.
    pub fn inbox(&self) -> Option<&Arc<Inbox>> {
        self.inbox.as_ref()
    }

    /// Queues nothing any more: what comes is acknowledged and dropped. What is queued stays.
    pub fn close(&mut self) {
        self.inbox = None;
    }

    /// Whether this node still refers to the sender's bytes.
    pub fn is_held(&self) -> bool {
        self.held != 0
    }

    /// The next slot to be received.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Takes in all that is there. Returns how many entries, or what is wrong with the sender.
    #[inline]
    pub fn receive(&mut self, effects: &mut Effects) -> Result<usize, Fault> {
        if !self.started {
            return Ok(0);
        }
        let replica = self.source.replica();
        let sent = replica.load(SENT);
        let news = sent.wrapping_sub(self.next);
        if news == 0 {
            return Ok(0);
        }
        let geometry = self.source.geometry();
        if news > geometry.entries() {
            return Err(Fault::Sent { known: self.next, shown: sent });
        }
        for slot in self.next..sent {
            let first = geometry.entry_word(slot);
            let words = [replica.load(first), replica.load(first + 1)];
            let entry = Entry::decode(words, slot, geometry).ok_or(Fault::Entry { slot })?;
            let Some(inbox) = &self.inbox else { continue };
            let chunk = entry.chunk(geometry);
            self.source.hold(chunk);
            self.held |= 1 << chunk;
            if !inbox.put(entry, slot) {
                return Err(Fault::Overrun);
            }
        }
        self.next = sent;
        // I-6: a chunk's bit is set before `taken` passes any of its entries.
        self.ack.publish(ACK_HELD, self.held);
        self.ack.publish(ACK_RECEIVED, sent);
        self.ack.publish(ACK_TAKEN, sent);
        self.ack.post(self.sender, ACK_RECEIVED, 2, effects);
        self.ack.post(self.sender, ACK_TAKEN, 1, effects);
        Ok(news as usize)
    }

    /// Clears the `held` bits of chunks that no reader refers to any more. Returns how many.
    #[inline]
    pub fn release(&mut self, effects: &mut Effects) -> usize {
        if self.held == 0 {
            return 0;
        }
        let mut still = self.held;
        let mut look = self.held;
        while look != 0 {
            let chunk = look.trailing_zeros();
            look &= look - 1;
            if self.source.is_released(chunk as usize) {
                still &= !(1 << chunk);
            }
        }
        let cleared = (self.held ^ still).count_ones() as usize;
        if cleared > 0 {
            self.held = still;
            self.ack.publish(ACK_HELD, still);
            self.ack.post(self.sender, ACK_HELD, 1, effects);
        }
        cleared
    }
}
