//! The receive predicate: takes in every new entry that a sender's `sent` guards, hands it to the
//! readers, and acknowledges.
//!
//! Owns: what this node has received of one sender, and its acknowledgement row for it.
//! Never does: trust an entry, copy a payload, or wait for an application.
//!
//! Entries are copied out here, so the order ring may be reused as soon as `received` says so.
//! Bytes are not: `held` has a bit for each chunk that a reader of this node refers to.
//! The acknowledgement says in `taken` that whatever below it is still needed has its bit in
//! `held`; see [`acknowledgement`](super::acknowledgement).

use alloc::sync::Arc;

use super::Fault;
use super::acknowledgement::{AckLine, Acknowledged};
use super::entry::{Entry, Found};
use super::geometry::{Geometry, SENT};
use super::inbox::{Inbox, Source};
use crate::link::Waker;
use crate::machine::{Effects, Target};
use crate::memory::Replica;

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
    /// The chunk of the newest record: its sender is most likely still filling it.
    newest: usize,
    /// Something was stored that the sender has not been shown.
    unposted: bool,
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
        Receiver {
            source,
            inbox,
            ack,
            sender,
            started: false,
            next: 0,
            held: 0,
            newest: 0,
            unposted: false,
        }
    }

    /// Begins at a slot: the sender counts this node among its readers from there on.
    pub fn start(&mut self, slot: u64, effects: &mut Effects) {
        (self.next, self.started) = (slot, true);
        self.acknowledge();
        self.post(effects);
    }

    fn acknowledge(&mut self) {
        let what = Acknowledged { received: self.next, taken: self.next, held: self.held };
        self.ack.store(what, self.source.geometry());
        self.unposted = true;
    }

    fn post(&mut self, effects: &mut Effects) {
        if core::mem::take(&mut self.unposted) {
            self.ack.post(self.sender, self.source.geometry(), effects);
        }
    }

    /// The queue of this node's reader, if it still wants records.
    pub fn inbox(&self) -> Option<&Arc<Inbox>> {
        self.inbox.as_ref()
    }

    /// Queues nothing any more: what comes is acknowledged and dropped. What is queued stays.
    pub fn close(&mut self) {
        self.inbox = None;
    }

    /// Whether the sender counts this node among its readers.
    pub fn is_started(&self) -> bool {
        self.started
    }

    /// Whether this node still refers to the sender's bytes.
    pub fn is_held(&self) -> bool {
        self.held != 0
    }

    /// The next slot to be received.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Takes in all that has arrived. Returns how many entries, or what is wrong with the sender.
    /// The sender is shown so by the [`release`](Receiver::release) of the same turn.
    #[inline]
    pub fn receive(&mut self) -> Result<usize, Fault> {
        if !self.started {
            return Ok(0);
        }
        let replica = self.source.replica();
        let sent = replica.load(SENT);
        // An older count than the one that is known may still arrive, and says nothing.
        if sent <= self.next {
            return Ok(0);
        }
        let geometry = self.source.geometry();
        if sent - self.next > geometry.entries() {
            return Err(Fault::Sent { known: self.next, shown: sent });
        }
        let first = self.next;
        while self.next < sent {
            let word = geometry.entry_word(self.next);
            let words = [replica.load(word), replica.load(word + 1)];
            let entry = match Entry::decode(words, self.next, geometry) {
                Found::Entry(entry) => entry,
                Found::NotYet => break,
                Found::Nonsense => return Err(Fault::Entry { slot: self.next }),
            };
            if let Some(inbox) = &self.inbox {
                let chunk = entry.chunk(geometry);
                self.source.hold(chunk);
                self.held |= 1 << chunk;
                self.newest = chunk;
                replica.prefetch(entry.first_byte(geometry));
                if !inbox.put(entry, self.next) {
                    return Err(Fault::Overrun);
                }
            }
            self.next += 1;
        }
        if self.next > first {
            self.acknowledge();
        }
        Ok((self.next - first) as usize)
    }

    /// Clears the `held` bits of chunks that no reader refers to any more, and shows the sender
    /// what has changed in this turn. Returns how many.
    ///
    /// In a turn that is not `idle` the newest chunk is left alone: its sender cannot use it again
    /// before it has moved on, and a bit that goes to and fro with every record would take the
    /// line of acknowledgements to and fro between the two nodes.
    #[inline]
    pub fn release(&mut self, idle: bool, effects: &mut Effects) -> usize {
        let mut still = self.held;
        let mut look = if idle { self.held } else { self.held & !(1 << self.newest) };
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
            self.acknowledge();
        }
        self.post(effects);
        cleared
    }
}
