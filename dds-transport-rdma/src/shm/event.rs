//! Queue of events from the rendezvous thread to the node.
//!
//! Owns: the queue, its fill level, and the wake-up that follows an event. A node that does not
//! poll is not flooded: from [`BACKLOG_LIMIT`] on, the thread stops reading from the peers. The
//! peers' queues then fill, and peers that go on sending treat this node as too slow.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crossbeam_channel::{Receiver, Sender, unbounded};
use derecho_core::ids::{NodeId, Peer, RegionId};
use derecho_core::link::Evidence;
use derecho_core::memory::Replica;

use super::command::PeerQueueBytes;
use super::doorbell::{Bell, Doorbell};
use super::process::PeerProcess;

/// Bytes of unpolled events at which the thread stops reading.
const BACKLOG_LIMIT: usize = 4 << 20;
/// Bytes counted for an event in addition to its payload.
const EVENT_BYTES: usize = 128;

/// Event, with details that the link needs and the node is not told.
pub(crate) enum RendezvousEvent {
    PeerUp {
        peer: Peer,
        node: NodeId,
        header: Replica,
        /// Memory that begins with the header.
        memory: OwnedFd,
        bell: Bell,
        outbox: Arc<PeerQueueBytes>,
        process: PeerProcess,
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

impl RendezvousEvent {
    fn cost(&self) -> usize {
        match self {
            RendezvousEvent::Note { bytes, .. } => EVENT_BYTES + bytes.len(),
            _ => EVENT_BYTES,
        }
    }
}

/// Fill level of the queue.
struct EventBacklog {
    events: AtomicUsize,
    bytes: AtomicUsize,
    /// The thread has stopped reading and waits for notice of free room.
    waiting: AtomicBool,
}

/// The rendezvous thread's end of the queue.
pub(crate) struct EventSender {
    queue: Sender<RendezvousEvent>,
    backlog: Arc<EventBacklog>,
    doorbell: Arc<Doorbell>,
}

/// The node's end of the queue.
pub(crate) struct EventReceiver {
    queue: Receiver<RendezvousEvent>,
    backlog: Arc<EventBacklog>,
}

/// Creates a queue whose events wake `doorbell`.
pub(crate) fn channel(doorbell: Arc<Doorbell>) -> (EventSender, EventReceiver) {
    let (sender, receiver) = unbounded();
    let backlog = Arc::new(EventBacklog {
        events: AtomicUsize::new(0),
        bytes: AtomicUsize::new(0),
        waiting: AtomicBool::new(false),
    });
    let receiver = EventReceiver { queue: receiver, backlog: Arc::clone(&backlog) };
    (EventSender { queue: sender, backlog, doorbell }, receiver)
}

impl EventSender {
    /// Queues an event for the node, and wakes the node if it sleeps.
    pub(crate) fn send(&self, event: RendezvousEvent) {
        self.backlog.bytes.fetch_add(event.cost(), Ordering::Relaxed);
        // A node that is leaving does not receive the event.
        if self.queue.send(event).is_ok() {
            // After the event is in the queue: a thread that sees the count finds the event.
            self.backlog.events.fetch_add(1, Ordering::Release);
            self.doorbell.wake();
        }
    }

    /// Whether the thread should stop reading from the peers because too much is unpolled. If so,
    /// the node sends a resume command once it has caught up.
    pub(crate) fn is_full(&self) -> bool {
        if self.backlog.bytes.load(Ordering::Relaxed) < BACKLOG_LIMIT {
            return false;
        }
        self.backlog.waiting.store(true, Ordering::SeqCst);
        // Look again after `waiting` is visible: either this load sees the room that the node has
        // just made, or the node sees that the thread waits.
        let full = self.backlog.bytes.load(Ordering::SeqCst) >= BACKLOG_LIMIT / 2;
        if !full {
            self.backlog.waiting.store(false, Ordering::SeqCst);
        }
        full
    }
}

impl EventReceiver {
    /// Number of events that can be taken now. One load, because every turn calls it.
    #[inline]
    pub(crate) fn ready(&self) -> usize {
        self.backlog.events.load(Ordering::Acquire)
    }

    /// Takes one of the events that are [ready](EventReceiver::ready).
    pub(crate) fn take(&self) -> Option<RendezvousEvent> {
        let event = self.queue.try_recv().ok()?;
        self.backlog.events.fetch_sub(1, Ordering::Relaxed);
        self.backlog.bytes.fetch_sub(event.cost(), Ordering::SeqCst);
        Some(event)
    }

    /// Whether the thread waits for room and there is room now.
    pub(crate) fn should_resume(&self) -> bool {
        self.backlog.bytes.load(Ordering::SeqCst) < BACKLOG_LIMIT / 2
            && self.backlog.waiting.swap(false, Ordering::SeqCst)
    }
}
