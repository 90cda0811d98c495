//! The receive predicate of a stream: one sender, whose records are delivered as they come.
//!
//! Owns: what this node has received of one sender outside of any order, and what it acknowledges.
//! Never does: trust an entry, copy a payload, or wait for an application.

use alloc::sync::Arc;

use super::Fault;
use super::acknowledgement::AckLine;
use super::entry::Entry;
use super::geometry::Geometry;
use super::inbox::{Delivery, Inbox, Source};
use super::incoming::Incoming;
use crate::link::Waker;
use crate::machine::{Effects, Target};
use crate::memory::Replica;

/// One sender, as this node receives it.
pub struct Receiver {
    incoming: Incoming,
    inbox: Option<Arc<Inbox>>,
    ack: AckLine,
    /// Whom the acknowledgements are for; none if it is this node itself.
    sender: Option<Target>,
    /// Whether the sender counts this node among its readers.
    started: bool,
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
        let incoming = Incoming::new(replica, geometry, waker);
        let inbox = Some(Inbox::new([Arc::clone(incoming.source())].into()));
        Receiver { incoming, inbox, ack, sender, started: false, unposted: false }
    }

    /// Begins at an entry, before which so many messages were sent: the sender counts this node
    /// among its readers from there on.
    pub fn start(&mut self, entry: u64, messages: u64, effects: &mut Effects) {
        self.incoming.start(entry, messages);
        self.started = true;
        self.acknowledge();
        self.post(effects);
    }

    fn acknowledge(&mut self) {
        let what = self.incoming.acknowledged(self.incoming.entries());
        self.ack.store(what, self.incoming.source().geometry());
        self.unposted = true;
    }

    fn post(&mut self, effects: &mut Effects) {
        if core::mem::take(&mut self.unposted) {
            self.ack.post(self.sender, self.incoming.source().geometry(), effects);
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
        self.incoming.is_held()
    }

    /// The next entry to be received.
    pub fn next(&self) -> u64 {
        self.incoming.entries()
    }

    /// Takes in all that has arrived. Returns how many entries, or what is wrong with the sender.
    /// The sender is shown so by the [`release`](Receiver::release) of the same turn.
    #[inline]
    pub fn receive(&mut self) -> Result<usize, Fault> {
        if !self.started {
            return Ok(0);
        }
        let count = self.incoming.receive(u64::MAX)?;
        if count > 0 {
            for _ in 0..count {
                let Entry::Message(extent) = self.incoming.take()? else { continue };
                let number = self.incoming.number();
                if let Some(inbox) = &self.inbox {
                    self.incoming.refer(extent, 1);
                    if !inbox.put(&[Delivery::new(0, extent, number)]) {
                        return Err(Fault::Overrun);
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

    /// The memory of a peer, if records may refer to it.
    pub(crate) fn held_source(&self) -> Option<&Arc<Source>> {
        (self.sender.is_some() && self.is_held()).then(|| self.incoming.source())
    }

    /// Makes the memory of a peer private that records may refer to (I-335). Nothing more may be received.
    pub fn privatize(&mut self, effects: &mut Effects) {
        if self.sender.is_some() {
            self.incoming.privatize(effects);
        }
    }

    /// Lets go of what no reader refers to any more, and shows the sender what has changed in this
    /// turn. Returns how much.
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
