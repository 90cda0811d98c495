//! The rendezvous thread: all communication between nodes except loads and stores.
//!
//! Owns: the listening socket, all connections, and the record of what each peer has been told.
//! Sleeps in the kernel while there is nothing to do, except for a check of the peers' processes
//! twice a second. Never does: touch the words of a region, block on a peer, or let one peer's
//! invalid data reach another.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::Sender;
use derecho_core::ids::{NodeId, Peer};
use derecho_core::link::Evidence;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventFlags};
use rustix::io::Errno;

use super::arbiter::HandedOver;
use super::command::{Command, CommandReceiver, CommandSender};
use super::config::CheckedConfig;
use super::connection::{Connection, ConnectionPhase, EpollSource};
use super::domain_folder::{DomainFolder, NodeSocket};
use super::error::JoinError;
use super::event::{EventSender, RendezvousEvent};
use super::exports::{Announcement, Exports};
use super::imports::Imports;
use super::liveness_marks::LivenessMarks;
use super::process::{ProcessStatus, Processes};
use super::reserved_descriptors::ReservedDescriptors;
use super::socket;
use super::wire::{self, Message, PACKET_LIMIT};

mod greeting;
mod incoming;

/// Maximum number of connections, whatever their phase. Beyond it no node is accepted until a
/// connection is gone.
const CONNECTIONS_LIMIT: usize = 1024;
/// Maximum number of connections of nodes that have left and keep theirs open.
const DEPARTED_LIMIT: usize = 128;
/// Maximum number of connections of one user other than this node's own.
const USER_LIMIT: usize = 256;
/// Maximum number of such a user's connections that are in their greeting at once.
const USER_STRANGERS_LIMIT: usize = 16;
/// Interval between touches of the files of this node.
const REFRESH_PAUSE: Duration = Duration::from_secs(600);
/// Maximum number of unknown nodes in their greeting at once. Others wait in the kernel's queue.
const STRANGERS_LIMIT: usize = 64;
/// Packets read from one connection before the others have their turn.
const READS_LIMIT: usize = 64;
/// Maximum number of packets read from a connection whose process is dead; more than a
/// socket holds.
const LAST_READS_LIMIT: usize = 1 << 16;
/// Longest time for sending the goodbyes.
const FAREWELL_LIMIT: Duration = Duration::from_millis(500);
/// Interval between checks of all peers' processes. The end of a connection shows a death at once,
/// unless a forked child of the dead process holds the socket. Half of the time after which silent
/// members are suspected by default.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);
/// Pause of accepting after the system refused.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Pause of accepting after a new node was refused for lack of descriptors.
const REFUSAL_PAUSE: Duration = Duration::from_millis(5);
/// Shortest and longest pause between attempts to reach a node whose queue is full.
const RETRY_PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(2));
/// Maximum number of events taken from epoll at once.
const EVENTS: usize = 64;

/// Result for a node that the join waits for.
pub(crate) enum JoinAnswer {
    /// The node is a peer.
    Met(NodeId),
    /// The node is gone.
    Gone(NodeId),
    /// The node cannot be a peer, so this node cannot be in the domain.
    Failed(JoinError),
}

/// A connection attempt to repeat later.
struct ConnectRetry {
    place: NodeSocket,
    awaited: bool,
    at: Instant,
    pause: Duration,
}

/// Parts from which the thread is built.
pub(crate) struct RendezvousParts {
    pub(crate) checked: CheckedConfig,
    pub(crate) folder: DomainFolder,
    pub(crate) listener: OwnedFd,
    pub(crate) mark: Option<OwnedFd>,
    pub(crate) exports: Exports,
    pub(crate) events: EventSender,
    pub(crate) commands: CommandReceiver,
    pub(crate) command_sender: CommandSender,
    pub(crate) answers: Sender<JoinAnswer>,
    pub(crate) handed_over: Arc<HandedOver>,
    pub(crate) processes: Arc<Processes>,
}

/// State of the thread.
pub(crate) struct Rendezvous {
    epoll: OwnedFd,
    checked: CheckedConfig,
    folder: DomainFolder,
    listener: OwnedFd,
    /// Mark that shows other nodes that this node lives.
    mark: Option<OwnedFd>,
    refresh_at: Instant,
    /// Time of the next check of the peers' processes.
    next_check_at: Instant,
    listening: bool,
    accept_at: Option<Instant>,
    exports: Exports,
    events: EventSender,
    commands: CommandReceiver,
    command_sender: CommandSender,
    answers: Sender<JoinAnswer>,
    /// Words of the local group that peers have handed over.
    handed_over: Arc<HandedOver>,
    /// Processes of the peers and of the nodes that have not greeted yet (I-57).
    processes: Arc<Processes>,
    connections: BTreeMap<u32, Connection>,
    spares: ReservedDescriptors,
    next_key: u32,
    /// Connection of each peer that is up, by the peer's handle.
    peers: Vec<Option<u32>>,
    /// Every node that ever was a peer: ids are not reused.
    known: BTreeSet<NodeId>,
    retries: Vec<ConnectRetry>,
    /// True while the node has so many unpolled events that the peers are not read.
    deaf: bool,
    buffer: Vec<u8>,
    ending: Option<ThreadEnding>,
}

/// Kind of the thread's end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ThreadEnding {
    Farewell,
    Abrupt,
}

impl Rendezvous {
    /// Creates the state of the thread, ready to run.
    pub(crate) fn new(parts: RendezvousParts) -> Result<Rendezvous, Errno> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let commands = parts.commands;
        epoll::add(&epoll, commands.bell(), EpollSource::Commands.data(), EventFlags::IN)?;
        if let Some(mark) = &parts.mark {
            epoll::add(&epoll, mark, EpollSource::Mark.data(), EventFlags::IN)?;
        }
        let mut spares = ReservedDescriptors::default();
        spares.make_up(&epoll);
        let mut known = BTreeSet::new();
        known.insert(parts.checked.config.node);
        let mut rendezvous = Rendezvous {
            epoll,
            checked: parts.checked,
            folder: parts.folder,
            listener: parts.listener,
            mark: parts.mark,
            refresh_at: Instant::now() + REFRESH_PAUSE,
            next_check_at: Instant::now(),
            listening: false,
            accept_at: None,
            exports: parts.exports,
            events: parts.events,
            commands,
            command_sender: parts.command_sender,
            answers: parts.answers,
            handed_over: parts.handed_over,
            processes: parts.processes,
            connections: BTreeMap::new(),
            spares,
            next_key: 0,
            peers: Vec::new(),
            known,
            retries: Vec::new(),
            deaf: false,
            buffer: vec![0; PACKET_LIMIT],
            ending: None,
        };
        rendezvous.listen_if_room();
        Ok(rendezvous)
    }

    /// Adds a node that was found when this one joined, with the connection to it if there is one.
    pub(crate) fn call(&mut self, place: NodeSocket, socket: Option<OwnedFd>) {
        match socket {
            Some(socket) => self.add_called(place, socket, true),
            None => self.retry_later(place, true, RETRY_PAUSES.0),
        }
    }

    /// Runs until the node leaves.
    pub(crate) fn run(mut self) {
        let mut events = Vec::with_capacity(EVENTS);
        while self.ending.is_none() {
            let timeout = self.timeout();
            events.clear();
            match epoll::wait(
                &self.epoll,
                rustix::buffer::spare_capacity(&mut events),
                timeout.as_ref(),
            ) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => panic!("epoll with valid arguments does not fail: {errno}"),
            }
            for event in &events {
                self.on_event(EpollSource::from_data(event.data.u64()), event.flags);
            }
            self.on_time(Instant::now());
            self.shed_departed();
            self.hear_or_not();
        }
        self.end();
    }

    fn on_event(&mut self, source: EpollSource, flags: EventFlags) {
        match source {
            EpollSource::Listener => self.accept(),
            // A process that only checks whether this node lives sends nothing.
            EpollSource::Mark => {
                while self.mark.as_ref().is_some_and(|mark| socket::accept(mark).is_ok()) {}
            }
            EpollSource::Commands => {
                self.commands.hush();
                while self.ending.is_none()
                    && let Some(command) = self.commands.take()
                {
                    self.on_command(command);
                }
            }
            EpollSource::Socket(key) => {
                if flags.contains(EventFlags::OUT) {
                    self.with(key, |_, connection| connection.flush());
                }
                let over = EventFlags::HUP | EventFlags::ERR;
                if flags.intersects(EventFlags::IN | EventFlags::RDHUP | over) {
                    self.read(key, READS_LIMIT);
                }
            }
            EpollSource::Process(key) => self.on_death(key),
        }
    }

    fn on_command(&mut self, command: Command) {
        match command {
            Command::Arena(arena) => {
                let announcement = self.exports.add_arena(arena);
                self.tell_all(&announcement);
            }
            Command::Open { serial, region, space, words } => {
                let holders = self.peers.iter().flatten().copied().collect();
                let announcement = self.exports.open(serial, region, space, words, holders);
                self.tell_all(&announcement);
            }
            Command::Close { serial } => {
                let announcement = self.exports.close(serial);
                self.tell_all(&announcement);
            }
            Command::Retire { index } => {
                let announcement = self.exports.retire(index);
                self.tell_all(&announcement);
            }
            Command::Note { peer, bytes } => {
                self.with_peer(peer, |_, connection| {
                    connection.push_note(&bytes);
                    connection.flush();
                });
            }
            Command::CutOff { peer } => {
                self.with_peer(peer, |this, connection| {
                    this.cut_off(connection, "the peer does not read, and its queue is full");
                });
            }
            Command::Released { connection, serial } => {
                self.with(connection, |_, connection| {
                    if connection.peer().is_some() {
                        connection.queue_message(&Message::Released { serial });
                        connection.flush();
                    }
                });
            }
            Command::Group { memory, done } => {
                let announcement = self.exports.set_group(memory);
                self.tell_all(&announcement);
                // The node may have stopped waiting.
                let _ = done.try_send(());
            }
            Command::Resume => self.set_deaf(false),
            Command::Leave => self.ending = Some(ThreadEnding::Farewell),
            Command::Abandon => self.ending = Some(ThreadEnding::Abrupt),
        }
    }

    /// Runs `act` with a connection that is taken out of the table meanwhile, so that both can be
    /// changed. Drops the connection if it is over afterwards.
    fn with(&mut self, key: u32, act: impl FnOnce(&mut Rendezvous, &mut Connection)) {
        let Some(mut connection) = self.connections.remove(&key) else { return };
        act(self, &mut connection);
        if connection.is_over() {
            self.forget(connection);
        } else {
            connection.watch(&self.epoll, self.deaf);
            self.connections.insert(key, connection);
        }
    }

    fn with_peer(&mut self, peer: Peer, act: impl FnOnce(&mut Rendezvous, &mut Connection)) {
        // The node may not have heard yet that the peer is down.
        if let Some(Some(key)) = self.peers.get(peer.index()) {
            self.with(*key, act);
        }
    }

    fn tell_all(&mut self, announcement: &Announcement) {
        let keys: Vec<u32> = self.peers.iter().flatten().copied().collect();
        for key in keys {
            let announcement = announcement.clone();
            self.with(key, |_, connection| {
                connection.push(announcement);
                connection.flush();
            });
        }
    }

    /// Releases everything that belongs to a finished connection.
    fn forget(&mut self, mut connection: Connection) {
        connection.unwatch(&self.epoll);
        self.handed_over.remove(connection.key);
        self.exports.released_all(connection.key);
        if let (true, Some(node)) = (connection.awaited, connection.called) {
            let _ = self.answers.send(JoinAnswer::Gone(node));
        }
        // The link forgets the process of a peer when it takes in the end of that peer.
        let unmet = connection.called.or(connection.node);
        if let Some(node) = unmet.filter(|node| !self.known.contains(node)) {
            self.processes.remove(node);
        }
        self.listen_if_room();
    }

    /// Tells the node that a peer is down. No event of that peer follows.
    fn peer_down(&mut self, connection: &mut Connection, evidence: Evidence) {
        let Some(peer) = connection.peer() else { return };
        let node = connection.node.expect("a peer has sent its hello");
        tracing::debug!(%node, ?evidence, pid = connection.credentials.pid, "peer down");
        self.peers[peer.index()] = None;
        self.handed_over.remove(connection.key);
        // Sent first: the driver wakes while this thread unmaps memory and removes files.
        self.events.send(RendezvousEvent::PeerDown { peer, evidence });
        connection.imports = self.no_imports(connection);
        if evidence == Evidence::Certain {
            self.folder.remove_socket(node);
        }
    }

    fn no_imports(&self, connection: &Connection) -> Imports {
        let uid = connection.credentials.uid;
        let populates = self.checked.config.lock_memory;
        Imports::new(uid, connection.key, self.command_sender.clone(), populates)
    }

    /// Disconnects a peer, and sends it the reason.
    fn cut_off(&mut self, connection: &mut Connection, why: &str) {
        let pid = connection.credentials.pid;
        tracing::warn!(node = ?connection.node, pid, why, "peer cut off");
        let evidence = self.evidence(connection);
        self.peer_down(connection, evidence);
        connection.clear_queue();
        connection.queue_message(&Message::Cut { text: why });
        connection.depart(&self.epoll);
    }

    /// Checks the process at the other end of a connection. If no descriptor is free, a spare one
    /// is lent.
    fn look(&mut self, connection: &Connection) -> ProcessStatus {
        match connection.look() {
            ProcessStatus::Unknown(Errno::MFILE | Errno::NFILE) => {
                self.with_spare(|_| connection.look())
            }
            life => life,
        }
    }

    /// Lends a spare descriptor while `act` runs.
    fn with_spare<T>(&mut self, act: impl FnOnce(&mut Rendezvous) -> T) -> T {
        self.spares.lend_one();
        let done = act(self);
        self.spares.make_up(&self.epoll);
        done
    }

    /// Determines how certain the death is of a peer to which this node has just stopped talking.
    fn evidence(&mut self, connection: &Connection) -> Evidence {
        match self.look(connection) {
            ProcessStatus::Dead => Evidence::Certain,
            ProcessStatus::Alive(_) | ProcessStatus::Unknown(_) => Evidence::Uncertain,
        }
    }

    /// Waits for the death of the process at the other end of a connection that has ended.
    fn await_death(&mut self, connection: &mut Connection) {
        match self.look(connection) {
            ProcessStatus::Dead => {
                self.peer_down(connection, Evidence::Certain);
                connection.finish();
            }
            life => connection.await_death(life, &self.epoll),
        }
    }

    /// Checks the processes of all connections that have not ended. Lends no spare
    /// descriptor: a spare that is lent again and again is lost to an application that waits
    /// for a free descriptor.
    fn look_at_all(&mut self) {
        let dead = |it: &&Connection| it.is_listening() && it.is_dead();
        let dead: Vec<u32> = self.connections.values().filter(dead).map(|it| it.key).collect();
        for key in dead {
            self.on_death(key);
        }
    }

    /// Returns the time of the next check of the peers' processes, if there are any.
    fn look_deadline(&self) -> Option<Instant> {
        self.connections.values().any(Connection::is_listening).then_some(self.next_check_at)
    }

    /// Handles the death of the process at the other end: reads what it had sent, then reports
    /// it down.
    fn on_death(&mut self, key: u32) {
        self.read(key, LAST_READS_LIMIT);
        self.with(key, |this, connection| {
            this.peer_down(connection, Evidence::Certain);
            if let (ConnectionPhase::Greeting { .. }, Some(node)) =
                (&connection.phase, connection.called)
            {
                this.folder.remove_socket(node);
            }
            connection.finish();
        });
    }

    fn hear_or_not(&mut self) {
        if !self.deaf && self.events.is_full() {
            self.set_deaf(true);
        }
    }

    fn set_deaf(&mut self, deaf: bool) {
        self.deaf = deaf;
        for connection in self.connections.values_mut() {
            connection.watch(&self.epoll, deaf);
        }
    }

    fn on_time(&mut self, now: Instant) {
        let silence_limit = self.checked.config.silence_limit;
        let due: Vec<u32> = self
            .connections
            .values()
            .filter(|it| it.deadline(silence_limit).is_some_and(|at| at <= now))
            .map(|it| it.key)
            .collect();
        for key in due {
            self.with(key, |this, connection| {
                if connection.silence_deadline(silence_limit).is_some_and(|at| at <= now) {
                    this.cut_off(connection, "the peer has not read its full queue for too long");
                }
                connection.flush();
                match connection.phase {
                    ConnectionPhase::Greeting { deadline: Some(at), .. } if at <= now => {
                        let pid = connection.credentials.pid;
                        tracing::warn!(pid, "connection closed: no hello arrived in time");
                        connection.finish();
                    }
                    ConnectionPhase::Ended { deadline, .. } if deadline <= now => {
                        let evidence = this.evidence(connection);
                        this.peer_down(connection, evidence);
                        connection.finish();
                    }
                    ConnectionPhase::Ended { .. } if connection.is_look_due(now) => {
                        this.await_death(connection);
                    }
                    _ => {}
                }
            });
        }
        if self.look_deadline().is_some_and(|at| at <= now) {
            self.next_check_at = now + LOOK_INTERVAL;
            self.look_at_all();
        }
        if self.accept_at.is_some_and(|at| at <= now) {
            self.accept_at = None;
            self.listen_if_room();
        }
        if self.refresh_at <= now {
            self.refresh_at = now + REFRESH_PAUSE;
            self.folder.refresh();
        }
        self.retry_due(now);
    }

    fn timeout(&self) -> Option<Timespec> {
        let silence_limit = self.checked.config.silence_limit;
        let connections =
            self.connections.values().filter_map(|connection| connection.deadline(silence_limit));
        let retries = self.retries.iter().map(|retry| retry.at);
        let others = [self.accept_at, self.look_deadline(), Some(self.refresh_at)];
        let next = connections.chain(retries).chain(others.into_iter().flatten()).min()?;
        let left = next.saturating_duration_since(Instant::now());
        // The timeout has a resolution of milliseconds, so round up to sleep through a fraction
        // of one.
        let left = left + Duration::from_millis(1);
        Timespec::try_from(left).ok()
    }

    /// Says goodbye, leaves the folder, and gives the goodbyes time to be sent.
    fn end(mut self) {
        self.handed_over.clear();
        // Before the socket is removed: a mark without a socket means a node whose files
        // were removed.
        if let Some(mark) = self.mark.take() {
            LivenessMarks::clear(mark);
        }
        if self.ending == Some(ThreadEnding::Abrupt) {
            self.connections.values().for_each(Connection::break_off);
            return;
        }
        // No new node uses the spares any more, and each check of a peer needs one.
        self.spares = ReservedDescriptors::default();
        let deadline = Instant::now() + FAREWELL_LIMIT;
        for connection in self.connections.values_mut() {
            if connection.peer().is_some() {
                connection.queue_message(&Message::Goodbye);
                connection.flush();
            }
        }
        // The thread may not have heard yet of a peer that was just killed.
        let lives = |it: &Connection| it.peer().is_some() && !it.is_dead();
        let alone = !self.connections.values().any(lives);
        self.folder.leave(self.checked.config.node, alone);
        self.connections.retain(|_, it| it.peer().is_some() && !it.is_flushed());
        while !self.connections.is_empty() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
            self.connections.values_mut().for_each(Connection::flush);
            self.connections.retain(|_, it| !it.is_flushed());
        }
    }
}
