//! Receive predicate of a stream: one sender, whose records are delivered as they arrive.
//!
//! Owns: the entries received from one sender outside of any order, and their acknowledgement.
//! Never does: trust an entry, copy a payload, or wait for an application.

use alloc::sync::Arc;

use super::PeerFault;
use super::acknowledgement::AckLine;
use super::entry::RingEntry;
use super::geometry::Geometry;
use super::inbox::{Delivery, Inbox, SenderReplica};
use super::incoming::IncomingStream;
use crate::link::Waker;
use crate::machine::{Effects, Target};
use crate::memory::Replica;

/// Receiver of one sender.
pub struct TetheredReceiver {
    incoming: IncomingStream,
    inbox: Option<Arc<Inbox>>,
    ack: AckLine,
    /// Receiver of the acknowledgements; `None` if the sender is this node itself.
    sender: Option<Target>,
    /// Whether the sender counts this node among its readers.
    started: bool,
    /// Whether a stored acknowledgement was not posted to the sender yet.
    unposted: bool,
}

impl TetheredReceiver {
    /// Creates a receiver for the memory behind `replica`, which receives
    /// nothing before [`TetheredReceiver::start`].
    pub fn new(
        replica: Replica,
        geometry: Geometry,
        ack: AckLine,
        sender: Option<Target>,
        waker: Waker,
    ) -> TetheredReceiver {
        let incoming = IncomingStream::new(replica, geometry, waker);
        let inbox = Some(Inbox::new([Arc::clone(incoming.sender_replica())].into()));
        TetheredReceiver { incoming, inbox, ack, sender, started: false, unposted: false }
    }

    /// Begins at an entry, from which on the sender counts this node among its readers. The
    /// acknowledgement line gets the subscription's name only now (I-10). `messages`: number of
    /// messages before the entry.
    pub fn start(&mut self, entry: u64, messages: u64, effects: &mut Effects) {
        self.incoming.start(entry, messages);
        self.started = true;
        self.acknowledge();
        self.post(effects);
    }

    fn acknowledge(&mut self) {
        let what = self.incoming.acknowledged(self.incoming.entries());
        self.ack.store(what, self.incoming.sender_replica().geometry());
        self.unposted = true;
    }

    fn post(&mut self, effects: &mut Effects) {
        if core::mem::take(&mut self.unposted) {
            self.ack.post(self.sender, self.incoming.sender_replica().geometry(), effects);
        }
    }

    /// Queue of this node's reader, unless the receiver is closed.
    pub fn inbox(&self) -> Option<&Arc<Inbox>> {
        self.inbox.as_ref()
    }

    /// Stops queueing: later entries are acknowledged and dropped. Queued records stay.
    pub fn close(&mut self) {
        self.inbox = None;
    }

    /// Whether the sender counts this node among its readers.
    pub fn is_started(&self) -> bool {
        self.started
    }

    /// Whether this node still refers to the sender's bytes.
    pub fn is_held(&self) -> bool {
        self.incoming.is_held()
    }

    /// Number of the next entry to be received.
    pub fn next(&self) -> u64 {
        self.incoming.entries()
    }

    /// Receives all that has arrived. Returns the number of entries, or the fault of the sender.
    /// The acknowledgement is posted by the [`release`](TetheredReceiver::release) of the same
    /// turn.
    #[inline]
    pub fn receive(&mut self) -> Result<usize, PeerFault> {
        if !self.started {
            return Ok(0);
        }
        let count = self.incoming.receive(u64::MAX)?;
        if count > 0 {
            for _ in 0..count {
                let RingEntry::Message(extent) = self.incoming.take()? else { continue };
                let number = self.incoming.number();
                if let Some(inbox) = &self.inbox {
                    self.incoming.refer(extent, 1);
                    if !inbox.put(&[Delivery::new(0, extent, number)]) {
                        return Err(PeerFault::Overrun);
                    }
                }
            }
            self.incoming.count();
            if let Some(inbox) = &self.inbox {
                inbox.publish();
            }
            self.acknowledge();
        }
        Ok(count)
    }

    /// Memory of a peer to which records may refer.
    pub(crate) fn held_replica(&self) -> Option<&Arc<SenderReplica>> {
        (self.sender.is_some() && self.is_held()).then(|| self.incoming.sender_replica())
    }

    /// Makes memory of a peer private if records may refer to it (I-335). Nothing more may
    /// be received afterwards.
    pub fn privatize(&mut self, effects: &mut Effects) {
        if self.sender.is_some() {
            self.incoming.privatize(effects);
        }
    }

    /// Releases chunks to which no reader refers any more, and posts this turn's acknowledgement to
    /// the sender. Returns the amount of work done.
    #[inline]
    pub fn release(&mut self, idle: bool, effects: &mut Effects) -> usize {
        let released = self.incoming.release(idle);
        if released {
            self.acknowledge();
        }
        self.post(effects);
        usize::from(released)
    }
}
