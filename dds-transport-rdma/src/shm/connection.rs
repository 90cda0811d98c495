//! One connection to another node's rendezvous thread.
//!
//! Owns: the socket, the queue of what is to be sent over it, and how far the acquaintance has
//! come. Never does: decide what a message means; that is the rendezvous's business. Holds no descriptor of the other
//! process while the connection is there: its end shows the end of the process, and one is opened then.
//!
//! ```text
//!   Greeting --hello, accept, first arena--> Up --goodbye or cut--> Departed --all let go--> gone
//!      |                                      |                                               ^
//!      +--refused, or no hello in time        +--ended without a goodbye--> Ended --evidence--+
//! ```

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use derecho_core::ids::{NodeId, Peer};
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;

use super::command::{MESSAGE_BYTES, Outbox, QUEUE_LIMIT};
use super::doorbell::Bell;
use super::exports::Announcement;
use super::imports::{Imports, Lease};
use super::process::{self, Life, Process};
use super::socket::{self, Credentials};
use super::wire::{self, Message};

/// How long to wait when the system has no room for a packet although the peer has.
const NO_ROOM_PAUSE: Duration = Duration::from_millis(50);
/// How long to wait before the next look at a process that could not be looked at.
const LOOK_PAUSE: Duration = Duration::from_millis(10);

/// How far the acquaintance has come.
pub(crate) enum Phase {
    /// The nodes tell each other who they are. A stranger has only until the deadline.
    Greeting { deadline: Option<Instant>, step: Step },
    /// The other node is a peer.
    Up { peer: Peer },
    /// The connection ended without a goodbye. At the deadline the peer counts as lost.
    Ended { peer: Peer, deadline: Instant },
    /// The node was told that the peer is down. The other end may still look at our memory; it
    /// closes its sending half when it does so no more.
    Departed,
    /// There is nothing more to do.
    Over,
}

/// What has to come next in a greeting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    Hello,
    Accept,
    Arena,
}

/// What happens in epoll.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Source {
    Listener,
    Commands,
    Mark,
    Socket(u32),
    Process(u32),
}

impl Source {
    /// As epoll carries it.
    pub(crate) fn data(self) -> EventData {
        EventData::new_u64(match self {
            Source::Listener => 0,
            Source::Commands => 1,
            Source::Mark => 4,
            Source::Socket(key) => u64::from(key) << 2 | 2,
            Source::Process(key) => u64::from(key) << 2 | 3,
        })
    }

    /// As it was given to epoll.
    pub(crate) fn from_data(data: u64) -> Source {
        let key = (data >> 2) as u32;
        match data & 3 {
            0 if key == 0 => Source::Listener,
            0 => Source::Mark,
            1 => Source::Commands,
            2 => Source::Socket(key),
            _ => Source::Process(key),
        }
    }
}

struct Packet {
    bytes: Vec<u8>,
    descriptor: Option<Arc<OwnedFd>>,
}

impl Packet {
    fn cost(&self) -> usize {
        self.bytes.len() + MESSAGE_BYTES
    }
}

/// One connection.
pub(crate) struct Connection {
    pub(crate) key: u32,
    pub(crate) phase: Phase,
    pub(crate) credentials: Credentials,
    /// Whom this node connected to; `None` if the other connected.
    pub(crate) called: Option<NodeId>,
    /// Whether the join waits for it.
    pub(crate) awaited: bool,
    pub(crate) node: Option<NodeId>,
    pub(crate) bell: Option<Bell>,
    pub(crate) imports: Imports,
    pub(crate) lease: Option<Arc<Lease>>,
    pub(crate) outbox: Arc<Outbox>,
    /// The process at the other end.
    pub(crate) process: Process,
    /// Tells the death of a process that has ended the connection.
    death: Option<OwnedFd>,
    /// When the process is to be looked at again, because it could not be looked at.
    look_at: Option<Instant>,
    socket: Arc<OwnedFd>,
    queue: VecDeque<Packet>,
    /// When something was last sent, or the queue began.
    progress: Instant,
    paused_until: Option<Instant>,
    watched: Option<EventFlags>,
}

impl Connection {
    /// A connection that has just been made, and the process at its other end.
    pub(crate) fn new(
        key: u32,
        socket: Arc<OwnedFd>,
        credentials: Credentials,
        process: Process,
        imports: Imports,
        phase: Phase,
    ) -> Connection {
        Connection {
            key,
            phase,
            credentials,
            called: None,
            awaited: false,
            node: None,
            bell: None,
            imports,
            lease: Some(Arc::new(Lease(Arc::clone(&socket)))),
            outbox: Arc::new(Outbox::default()),
            process,
            death: None,
            look_at: None,
            socket,
            queue: VecDeque::new(),
            progress: Instant::now(),
            paused_until: None,
            watched: None,
        }
    }

    /// The peer that is down only after this connection says so.
    pub(crate) fn peer(&self) -> Option<Peer> {
        match self.phase {
            Phase::Up { peer } | Phase::Ended { peer, .. } => Some(peer),
            Phase::Greeting { .. } | Phase::Departed | Phase::Over => None,
        }
    }

    /// Queues a message and the descriptor that goes with it.
    pub(crate) fn push(&mut self, announcement: Announcement) {
        let (message, descriptor) = announcement;
        self.push_packet(wire::encode(&message), descriptor);
    }

    /// Queues a message without a descriptor.
    pub(crate) fn say(&mut self, message: &Message<'_>) {
        self.push_packet(wire::encode(message), None);
    }

    /// Queues a hello, which is encoded already.
    pub(crate) fn push_hello(&mut self, hello: Vec<u8>) {
        self.push_packet(hello, None);
    }

    /// Queues a note, which was counted when the node sent it.
    pub(crate) fn push_note(&mut self, note: &[u8]) {
        let packet = Packet { bytes: wire::encode(&Message::Note(note)), descriptor: None };
        self.enqueue(packet);
    }

    fn push_packet(&mut self, bytes: Vec<u8>, descriptor: Option<Arc<OwnedFd>>) {
        let packet = Packet { bytes, descriptor };
        self.outbox.add(packet.cost());
        self.enqueue(packet);
    }

    fn enqueue(&mut self, packet: Packet) {
        if self.queue.is_empty() {
            self.progress = Instant::now();
        }
        self.queue.push_back(packet);
    }

    /// Forgets what was to be sent.
    pub(crate) fn clear_queue(&mut self) {
        self.queue.clear();
    }

    /// Whether all has been sent.
    pub(crate) fn is_flushed(&self) -> bool {
        self.queue.is_empty()
    }

    /// Sends what the socket takes.
    pub(crate) fn flush(&mut self) {
        if self.paused_until.is_some_and(|until| Instant::now() < until) {
            return;
        }
        self.paused_until = None;
        while let Some(packet) = self.queue.front() {
            let descriptor = packet.descriptor.as_ref().map(|descriptor| descriptor.as_fd());
            match socket::send(&self.socket, &packet.bytes, descriptor) {
                Ok(()) => {
                    self.outbox.remove(packet.cost());
                    self.queue.pop_front();
                    self.progress = Instant::now();
                }
                Err(Errno::INTR) => {}
                Err(Errno::WOULDBLOCK) => break,
                Err(Errno::TOOMANYREFS | Errno::NOBUFS | Errno::NOMEM) => {
                    self.paused_until = Some(Instant::now() + NO_ROOM_PAUSE);
                    break;
                }
                // The other end is gone; what it had sent is still to be read, and its end too.
                Err(_) => self.queue.clear(),
            }
        }
        if matches!(self.phase, Phase::Departed) && self.queue.is_empty() {
            self.lease = None;
        }
    }

    /// Whether a descriptor comes with the next packet, by its kind.
    pub(crate) fn brings_descriptor(&self) -> bool {
        socket::peek(&self.socket).is_some_and(wire::brings_descriptor)
    }

    /// Receives one packet.
    pub(crate) fn receive(&self, buffer: &mut [u8]) -> Result<socket::Received, Errno> {
        socket::receive(&self.socket, buffer)
    }

    /// Looks at the process at the other end.
    pub(crate) fn look(&self) -> Life {
        match &self.death {
            Some(death) if socket::is_dead(death) => Life::Dead,
            _ => process::look(&self.socket, self.process),
        }
    }

    /// Whether the process at the other end is dead, for certain.
    pub(crate) fn is_dead(&self) -> bool {
        matches!(self.look(), Life::Dead)
    }

    /// Waits for the death of a process that was just looked at and is not dead.
    pub(crate) fn await_death(&mut self, life: Life, epoll: &OwnedFd) {
        let watched = match life {
            Life::Dead => return,
            Life::Unknown(errno) => Err(errno),
            Life::Alive(death) => {
                let data = Source::Process(self.key).data();
                epoll::add(epoll, &death, data, EventFlags::IN).map(|()| death)
            }
        };
        match watched {
            Ok(death) => (self.death, self.look_at) = (Some(death), None),
            Err(errno) => {
                let pid = self.process.pid();
                tracing::debug!(%errno, pid, "a process cannot be watched yet");
                self.look_at = Some(Instant::now() + LOOK_PAUSE);
            }
        }
    }

    /// Whether a process that could not be looked at is to be looked at again.
    pub(crate) fn is_look_due(&self, now: Instant) -> bool {
        self.look_at.is_some_and(|at| at <= now)
    }

    /// Takes leave of a peer that the node has been told is down. What is queued is still sent.
    pub(crate) fn depart(&mut self, epoll: &OwnedFd) {
        self.stop_awaiting_death(epoll);
        self.phase = Phase::Departed;
        self.bell = None;
        self.flush();
    }

    /// The next step of the greeting.
    pub(crate) fn next_step(&mut self, next: Step) {
        if let Phase::Greeting { step, .. } = &mut self.phase {
            *step = next;
        }
    }

    /// There is nothing more to do with this connection.
    pub(crate) fn finish(&mut self) {
        self.phase = Phase::Over;
    }

    /// Whether there is nothing more to do.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Over)
    }

    /// Whether what comes is to be read.
    pub(crate) fn is_listening(&self) -> bool {
        matches!(self.phase, Phase::Greeting { .. } | Phase::Up { .. })
    }

    /// Closes both directions, as the death of this process would.
    pub(crate) fn break_off(&self) {
        let _ = rustix::net::shutdown(&*self.socket, rustix::net::Shutdown::Both);
    }

    /// Watches for what the phase needs. While `deaf`, peers' messages stay in the socket.
    pub(crate) fn watch(&mut self, epoll: &OwnedFd, deaf: bool) {
        let mut wanted = match self.phase {
            Phase::Up { .. } if deaf => Some(EventFlags::empty()),
            Phase::Greeting { .. } | Phase::Up { .. } => Some(EventFlags::IN),
            Phase::Ended { .. } | Phase::Over => None,
            Phase::Departed => Some(EventFlags::RDHUP),
        };
        if let Some(flags) = &mut wanted
            && !self.queue.is_empty()
            && self.paused_until.is_none()
        {
            *flags |= EventFlags::OUT;
        }
        if wanted == self.watched {
            return;
        }
        let data = Source::Socket(self.key).data();
        let result = match (self.watched, wanted) {
            (None, Some(flags)) => epoll::add(epoll, &*self.socket, data, flags),
            (Some(_), Some(flags)) => epoll::modify(epoll, &*self.socket, data, flags),
            (Some(_), None) => epoll::delete(epoll, &*self.socket),
            (None, None) => Ok(()),
        };
        match result {
            Ok(()) => self.watched = wanted,
            Err(errno) => tracing::warn!(%errno, "a connection could not be watched"),
        }
    }

    /// Stops watching: replicas in hand may keep the socket open.
    pub(crate) fn unwatch(&mut self, epoll: &OwnedFd) {
        if self.watched.take().is_some() {
            let _ = epoll::delete(epoll, &*self.socket);
        }
        self.stop_awaiting_death(epoll);
    }

    fn stop_awaiting_death(&mut self, epoll: &OwnedFd) {
        self.look_at = None;
        if let Some(death) = self.death.take() {
            // Closing is not enough where a forked child holds a copy.
            let _ = epoll::delete(epoll, &death);
        }
    }

    /// When the connection needs attention although nothing happens.
    pub(crate) fn deadline(&self, silence_limit: Duration) -> Option<Instant> {
        let phase = match self.phase {
            Phase::Greeting { deadline, .. } => deadline,
            Phase::Ended { deadline, .. } => Some(deadline),
            Phase::Up { .. } | Phase::Departed | Phase::Over => None,
        };
        let silence = self.silence_deadline(silence_limit);
        [phase, self.paused_until, silence, self.look_at].into_iter().flatten().min()
    }

    /// When a peer that does not read is cut off; `None` while its queue is not full.
    pub(crate) fn silence_deadline(&self, silence_limit: Duration) -> Option<Instant> {
        let full = !self.queue.is_empty() && self.outbox.bytes() > QUEUE_LIMIT;
        (full && matches!(self.phase, Phase::Up { .. })).then(|| self.progress + silence_limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_survive_their_way_through_epoll() {
        for source in [
            Source::Listener,
            Source::Commands,
            Source::Mark,
            Source::Socket(0),
            Source::Process(0),
            Source::Socket(u32::MAX),
            Source::Process(77),
        ] {
            assert_eq!(Source::from_data(source.data().u64()), source);
        }
    }
}
