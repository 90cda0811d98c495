//! The way of an event from the rendezvous thread to the node.
//!
//! Owns: the queue, how full it is, and the wake-up that follows an event. A node that does not
//! poll is not flooded: from [`BACKLOG_LIMIT`] on the thread stops reading from the peers, their
//! queues fill, and those that go on sending nevertheless find this node too slow for them.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crossbeam_channel::{Receiver, Sender, unbounded};
use derecho_core::ids::{NodeId, Peer, RegionId};
use derecho_core::link::Evidence;
use derecho_core::memory::Replica;

use super::command::Outbox;
use super::doorbell::{Bell, Doorbell};
use super::process::Process;

/// Unpolled events, in bytes, at which the thread stops reading.
const BACKLOG_LIMIT: usize = 4 << 20;
/// What an event counts beside the bytes that it carries.
const EVENT_BYTES: usize = 128;

/// What has happened, with what the link needs to know beyond what the node is told.
pub(crate) enum Event {
    PeerUp {
        peer: Peer,
        node: NodeId,
        header: Replica,
        /// What the header lies at the beginning of.
        memory: OwnedFd,
        bell: Bell,
        outbox: Arc<Outbox>,
        process: Process,
    },
    RegionUp {
        peer: Peer,
        region: RegionId,
        replica: Replica,
    },
    RegionReady {
        peer: Peer,
        region: RegionId,
    },
    RegionDown {
        peer: Peer,
        region: RegionId,
    },
    Note {
        peer: Peer,
        bytes: Vec<u8>,
    },
    PeerDown {
        peer: Peer,
        evidence: Evidence,
    },
}

impl Event {
    fn cost(&self) -> usize {
        match self {
            Event::Note { bytes, .. } => EVENT_BYTES + bytes.len(),
            _ => EVENT_BYTES,
        }
    }
}

/// How much lies in the queue.
struct Backlog {
    events: AtomicUsize,
    bytes: AtomicUsize,
    /// The thread has stopped reading and wants to be told when there is room again.
    waiting: AtomicBool,
}

/// The thread's end.
pub(crate) struct EventSender {
    queue: Sender<Event>,
    backlog: Arc<Backlog>,
    doorbell: Arc<Doorbell>,
}

/// The node's end.
pub(crate) struct EventReceiver {
    queue: Receiver<Event>,
    backlog: Arc<Backlog>,
}

/// A queue whose events wake `doorbell`.
pub(crate) fn channel(doorbell: Arc<Doorbell>) -> (EventSender, EventReceiver) {
    let (sender, receiver) = unbounded();
    let backlog = Arc::new(Backlog {
        events: AtomicUsize::new(0),
        bytes: AtomicUsize::new(0),
        waiting: AtomicBool::new(false),
    });
    let receiver = EventReceiver { queue: receiver, backlog: Arc::clone(&backlog) };
    (EventSender { queue: sender, backlog, doorbell }, receiver)
}

impl EventSender {
    /// Tells the node, and wakes it if it sleeps.
    pub(crate) fn send(&self, event: Event) {
        self.backlog.bytes.fetch_add(event.cost(), Ordering::Relaxed);
        // A node that is leaving does not want to hear it any more.
        if self.queue.send(event).is_ok() {
            // After the event is in the queue: who sees the count finds the event.
            self.backlog.events.fetch_add(1, Ordering::Release);
            self.doorbell.wake();
        }
    }

    /// Whether there is so much unpolled that nothing more should be read from the peers. If so,
    /// the node will send a resume when it has caught up.
    pub(crate) fn is_full(&self) -> bool {
        if self.backlog.bytes.load(Ordering::Relaxed) < BACKLOG_LIMIT {
            return false;
        }
        self.backlog.waiting.store(true, Ordering::SeqCst);
        // Looked at again after `waiting` shows: either this sees the room that the node has just
        // made, or the node sees that it is waited for.
        let full = self.backlog.bytes.load(Ordering::SeqCst) >= BACKLOG_LIMIT / 2;
        if !full {
            self.backlog.waiting.store(false, Ordering::SeqCst);
        }
        full
    }
}

impl EventReceiver {
    /// How many events can be taken now. One load, for this is asked every turn.
    #[inline]
    pub(crate) fn ready(&self) -> usize {
        self.backlog.events.load(Ordering::Acquire)
    }

    /// Takes one of the events that are [ready](EventReceiver::ready).
    pub(crate) fn take(&self) -> Option<Event> {
        let event = self.queue.try_recv().ok()?;
        self.backlog.events.fetch_sub(1, Ordering::Relaxed);
        self.backlog.bytes.fetch_sub(event.cost(), Ordering::SeqCst);
        Some(event)
    }

    /// Whether the thread waits for room that there is now.
    pub(crate) fn should_resume(&self) -> bool {
        self.backlog.bytes.load(Ordering::SeqCst) < BACKLOG_LIMIT / 2
            && self.backlog.waiting.swap(false, Ordering::SeqCst)
    }
}
