//! One connection to another node's rendezvous thread.
//!
//! Owns: the socket, its send queue, and the phase of the connection. Never does: decide what a
//! message means; the rendezvous does. Holds no descriptor of the other process while the
//! connection is up: the end of the connection shows the end of the process, and a descriptor is
//! opened then.
//!
//! ```text
//!   Greeting --hello, accept, first arena--> Up --goodbye or cut--> Departed --released--> gone
//!      |                                      |                                             ^
//!      +--refused, or no hello in time        +--ended without a goodbye--> Ended --evidence+
//! ```

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use derecho_core::ids::{NodeId, Peer};
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;

use super::command::{MESSAGE_BYTES, PeerQueueBytes, QUEUE_LIMIT};
use super::doorbell::Bell;
use super::exports::Announcement;
use super::imports::{Imports, ReadLease};
use super::process::{self, PeerProcess, ProcessStatus};
use super::socket::{self, Credentials};
use super::wire::{self, Message};

/// Pause when the system has no room for a packet although the peer has.
const NO_ROOM_PAUSE: Duration = Duration::from_millis(50);
/// Pause before the next check of a process that could not be checked.
const LOOK_PAUSE: Duration = Duration::from_millis(10);

/// Phase of a connection.
pub(crate) enum ConnectionPhase {
    /// The nodes identify themselves. An unknown node has only until the deadline.
    Greeting { deadline: Option<Instant>, step: GreetingStep },
    /// The other node is a peer.
    Up { peer: Peer },
    /// The connection ended without a goodbye. At the deadline the peer counts as lost.
    Ended { peer: Peer, deadline: Instant },
    /// The node was told that the peer is down. The other end may still read our memory; it closes
    /// its sending half when it has released the memory.
    Departed,
    /// No work is left for this connection.
    Over,
}

/// Message that the greeting expects next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum GreetingStep {
    Hello,
    Accept,
    Arena,
}

/// Origin of an epoll event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum EpollSource {
    Listener,
    Commands,
    Mark,
    Socket(u32),
    Process(u32),
}

impl EpollSource {
    /// Encodes the source for epoll.
    pub(crate) fn data(self) -> EventData {
        EventData::new_u64(match self {
            EpollSource::Listener => 0,
            EpollSource::Commands => 1,
            EpollSource::Mark => 4,
            EpollSource::Socket(key) => u64::from(key) << 2 | 2,
            EpollSource::Process(key) => u64::from(key) << 2 | 3,
        })
    }

    /// Decodes the source from epoll's data.
    pub(crate) fn from_data(data: u64) -> EpollSource {
        let key = (data >> 2) as u32;
        match data & 3 {
            0 if key == 0 => EpollSource::Listener,
            0 => EpollSource::Mark,
            1 => EpollSource::Commands,
            2 => EpollSource::Socket(key),
            _ => EpollSource::Process(key),
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

/// Connection to one other node.
pub(crate) struct Connection {
    pub(crate) key: u32,
    pub(crate) phase: ConnectionPhase,
    pub(crate) credentials: Credentials,
    /// Node that this node connected to; `None` if the other node connected.
    pub(crate) called: Option<NodeId>,
    /// Whether the join waits for this connection.
    pub(crate) awaited: bool,
    pub(crate) node: Option<NodeId>,
    pub(crate) bell: Option<Bell>,
    pub(crate) imports: Imports,
    pub(crate) lease: Option<Arc<ReadLease>>,
    pub(crate) outbox: Arc<PeerQueueBytes>,
    /// Process at the other end.
    pub(crate) process: PeerProcess,
    /// Descriptor that becomes readable when a process that has ended the connection dies.
    death: Option<OwnedFd>,
    /// Time of the next check of a process that could not be checked.
    next_check_at: Option<Instant>,
    socket: Arc<OwnedFd>,
    queue: VecDeque<Packet>,
    /// Time of the last send, or of the first packet in the queue.
    progress: Instant,
    paused_until: Option<Instant>,
    watched: Option<EventFlags>,
}

impl Connection {
    /// Creates the state of a new connection to `process`.
    pub(crate) fn new(
        key: u32,
        socket: Arc<OwnedFd>,
        credentials: Credentials,
        process: PeerProcess,
        imports: Imports,
        phase: ConnectionPhase,
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
            lease: Some(Arc::new(ReadLease(Arc::clone(&socket)))),
            outbox: Arc::new(PeerQueueBytes::default()),
            process,
            death: None,
            next_check_at: None,
            socket,
            queue: VecDeque::new(),
            progress: Instant::now(),
            paused_until: None,
            watched: None,
        }
    }

    /// Returns the peer that is up until this connection reports it down.
    pub(crate) fn peer(&self) -> Option<Peer> {
        match self.phase {
            ConnectionPhase::Up { peer } | ConnectionPhase::Ended { peer, .. } => Some(peer),
            ConnectionPhase::Greeting { .. }
            | ConnectionPhase::Departed
            | ConnectionPhase::Over => None,
        }
    }

    /// Queues a message and the descriptor that accompanies it.
    pub(crate) fn push(&mut self, announcement: Announcement) {
        let (message, descriptor) = announcement;
        self.push_packet(wire::encode(&message), descriptor);
    }

    /// Queues a message without a descriptor.
    pub(crate) fn queue_message(&mut self, message: &Message<'_>) {
        self.push_packet(wire::encode(message), None);
    }

    /// Queues an encoded hello.
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

    /// Drops all queued packets.
    pub(crate) fn clear_queue(&mut self) {
        self.queue.clear();
    }

    /// Whether everything has been sent.
    pub(crate) fn is_flushed(&self) -> bool {
        self.queue.is_empty()
    }

    /// Sends as many packets as the socket accepts.
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
                // The other end is gone; packets that it had sent, and its end, are still to
                // be read.
                Err(_) => self.queue.clear(),
            }
        }
        if matches!(self.phase, ConnectionPhase::Departed) && self.queue.is_empty() {
            self.lease = None;
        }
    }

    /// Whether a descriptor accompanies the next packet, by its kind.
    pub(crate) fn brings_descriptor(&self) -> bool {
        socket::peek(&self.socket).is_some_and(wire::brings_descriptor)
    }

    /// Receives one packet.
    pub(crate) fn receive(&self, buffer: &mut [u8]) -> Result<socket::ReceivedPacket, Errno> {
        socket::receive(&self.socket, buffer)
    }

    /// Checks the process at the other end.
    pub(crate) fn look(&self) -> ProcessStatus {
        match &self.death {
            Some(death) if socket::is_dead(death) => ProcessStatus::Dead,
            _ => process::look(&self.socket, self.process),
        }
    }

    /// Whether the process at the other end is certainly dead.
    pub(crate) fn is_dead(&self) -> bool {
        matches!(self.look(), ProcessStatus::Dead)
    }

    /// Waits for the death of a process that was just checked and is not dead.
    pub(crate) fn await_death(&mut self, status: ProcessStatus, epoll: &OwnedFd) {
        let watched = match status {
            ProcessStatus::Dead => return,
            ProcessStatus::Unknown(errno) => Err(errno),
            ProcessStatus::Alive(death) => {
                let data = EpollSource::Process(self.key).data();
                epoll::add(epoll, &death, data, EventFlags::IN).map(|()| death)
            }
        };
        match watched {
            Ok(death) => (self.death, self.next_check_at) = (Some(death), None),
            Err(errno) => {
                let pid = self.process.pid();
                tracing::debug!(%errno, pid, "a process cannot be watched yet");
                self.next_check_at = Some(Instant::now() + LOOK_PAUSE);
            }
        }
    }

    /// Whether a process that could not be checked is due for the next check.
    pub(crate) fn is_look_due(&self, now: Instant) -> bool {
        self.next_check_at.is_some_and(|at| at <= now)
    }

    /// Departs from a peer that the node has been told is down. Queued packets are still sent.
    pub(crate) fn depart(&mut self, epoll: &OwnedFd) {
        self.stop_awaiting_death(epoll);
        self.phase = ConnectionPhase::Departed;
        self.bell = None;
        self.flush();
    }

    /// Advances the greeting to its next step.
    pub(crate) fn next_step(&mut self, next: GreetingStep) {
        if let ConnectionPhase::Greeting { step, .. } = &mut self.phase {
            *step = next;
        }
    }

    /// Marks the connection as over.
    pub(crate) fn finish(&mut self) {
        self.phase = ConnectionPhase::Over;
    }

    /// Whether the connection is over.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.phase, ConnectionPhase::Over)
    }

    /// Whether incoming packets are read.
    pub(crate) fn is_listening(&self) -> bool {
        matches!(self.phase, ConnectionPhase::Greeting { .. } | ConnectionPhase::Up { .. })
    }

    /// Closes both directions, as the death of this process would.
    pub(crate) fn break_off(&self) {
        let _ = rustix::net::shutdown(&*self.socket, rustix::net::Shutdown::Both);
    }

    /// Registers for the epoll events that the phase needs. While `deaf`, peers' messages stay in
    /// the socket.
    pub(crate) fn watch(&mut self, epoll: &OwnedFd, deaf: bool) {
        let mut wanted = match self.phase {
            ConnectionPhase::Up { .. } if deaf => Some(EventFlags::empty()),
            ConnectionPhase::Greeting { .. } | ConnectionPhase::Up { .. } => Some(EventFlags::IN),
            ConnectionPhase::Ended { .. } | ConnectionPhase::Over => None,
            ConnectionPhase::Departed => Some(EventFlags::RDHUP),
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
        let data = EpollSource::Socket(self.key).data();
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

    /// Stops watching; necessary because replicas in use may keep the socket open.
    pub(crate) fn unwatch(&mut self, epoll: &OwnedFd) {
        if self.watched.take().is_some() {
            let _ = epoll::delete(epoll, &*self.socket);
        }
        self.stop_awaiting_death(epoll);
    }

    fn stop_awaiting_death(&mut self, epoll: &OwnedFd) {
        self.next_check_at = None;
        if let Some(death) = self.death.take() {
            // Closing is not enough where a forked child holds a copy.
            let _ = epoll::delete(epoll, &death);
        }
    }

    /// Returns the time at which the connection needs attention even without an event.
    pub(crate) fn deadline(&self, silence_limit: Duration) -> Option<Instant> {
        let phase = match self.phase {
            ConnectionPhase::Greeting { deadline, .. } => deadline,
            ConnectionPhase::Ended { deadline, .. } => Some(deadline),
            ConnectionPhase::Up { .. } | ConnectionPhase::Departed | ConnectionPhase::Over => None,
        };
        let silence = self.silence_deadline(silence_limit);
        [phase, self.paused_until, silence, self.next_check_at].into_iter().flatten().min()
    }

    /// Returns the time at which a peer that does not read is disconnected; `None` while its queue
    /// is not full.
    pub(crate) fn silence_deadline(&self, silence_limit: Duration) -> Option<Instant> {
        let full = !self.queue.is_empty() && self.outbox.bytes() > QUEUE_LIMIT;
        (full && matches!(self.phase, ConnectionPhase::Up { .. }))
            .then(|| self.progress + silence_limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_sources_round_trip_through_epoll_data() {
        for source in [
            EpollSource::Listener,
            EpollSource::Commands,
            EpollSource::Mark,
            EpollSource::Socket(0),
            EpollSource::Process(0),
            EpollSource::Socket(u32::MAX),
            EpollSource::Process(77),
        ] {
            assert_eq!(EpollSource::from_data(source.data().u64()), source);
        }
    }
}
