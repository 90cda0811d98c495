//! Establishment of peers: connecting, hellos, refusals.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use derecho_core::ids::{NodeId, Peer};
use rustix::event::epoll::{self, EventFlags};
use rustix::io::Errno;

use super::{
    ACCEPT_PAUSE, CONNECTIONS_LIMIT, ConnectRetry, Connection, ConnectionPhase, DEPARTED_LIMIT,
    EpollSource, JoinAnswer, JoinError, Message, NodeSocket, REFUSAL_PAUSE, RETRY_PAUSES,
    Rendezvous, RendezvousEvent, STRANGERS_LIMIT, USER_LIMIT, USER_STRANGERS_LIMIT, socket, wire,
};
use crate::shm::connection::GreetingStep;
use crate::shm::doorbell::Bell;
use crate::shm::imports::Imports;
use crate::shm::process::PeerProcess;
use crate::shm::reserved_descriptors::ReservedDescriptors;
use crate::shm::socket::Credentials;
use crate::shm::wire::{Greeting, Platform, RefusalReason};

/// Identity of a node whose hello was accepted.
struct AcceptedHello {
    node: NodeId,
    version: u16,
}

/// Reason why a node that introduced itself is not a peer.
enum GreetingRefusal {
    Refused(RefusalReason, String),
    /// The node has begun to leave. A retry checks whether it is gone.
    Leaving,
}

impl Rendezvous {
    /// Accepts the connections that wait at the listening socket.
    pub(super) fn accept(&mut self) {
        while self.has_room() {
            self.make_up();
            let is_short = self.spares.is_short();
            if is_short && self.question_spares.try_lock().is_err() {
                // The spares can be completed once the arbiter has its answer.
                self.accept_at = Some(Instant::now() + REFUSAL_PAUSE);
                break;
            }
            match is_short {
                true => self.spares.lend_one(),
                false => self.spares.lend_to_newcomer(),
            }
            match socket::accept(&self.listener) {
                Ok(socket) if is_short => {
                    self.turn_away(&socket);
                    // Other callers have their turn after the peers.
                    self.accept_at = Some(Instant::now() + REFUSAL_PAUSE);
                    break;
                }
                Ok(socket) => self.add_stranger(socket),
                Err(Errno::WOULDBLOCK) => break,
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(errno) => {
                    tracing::warn!(%errno, "a connection could not be accepted");
                    self.accept_at = Some(Instant::now() + ACCEPT_PAUSE);
                    break;
                }
            }
        }
        self.make_up();
        self.listen_if_room();
    }

    /// Refuses a new node for lack of descriptors. The node gets no connection, because that would
    /// need descriptors.
    fn turn_away(&self, socket: &OwnedFd) {
        let text = ReservedDescriptors::shortage();
        tracing::warn!(text, "a node was refused");
        let refusal = wire::encode(&self.refusal(RefusalReason::Full, &text));
        if let Err(errno) = socket::send(socket, &refusal, None) {
            tracing::debug!(%errno, "a node was gone before it was refused");
        }
    }

    fn has_room(&self) -> bool {
        self.connections.len() < CONNECTIONS_LIMIT
            && self.connections.values().filter(|it| is_stranger(it)).count() < STRANGERS_LIMIT
    }

    /// Watches the listening socket if there is room for another connection.
    pub(super) fn listen_if_room(&mut self) {
        let wanted = self.accept_at.is_none() && self.has_room();
        if wanted == self.listening {
            return;
        }
        let result = if wanted {
            epoll::add(&self.epoll, &self.listener, EpollSource::Listener.data(), EventFlags::IN)
        } else {
            epoll::delete(&self.epoll, &self.listener)
        };
        match result {
            Ok(()) => self.listening = wanted,
            Err(errno) => tracing::warn!(%errno, "the listening socket could not be watched"),
        }
    }

    fn add_stranger(&mut self, socket: OwnedFd) {
        let deadline = Some(Instant::now() + self.checked.config.hello_limit);
        if let Err(errno) = self.add(socket, None, false, deadline) {
            tracing::debug!(%errno, "a connection was gone before it was accepted");
        }
    }

    /// Adds a connection that this node made. There is no deadline: the other node may be stopped.
    pub(super) fn add_called(&mut self, place: NodeSocket, socket: OwnedFd, awaited: bool) {
        let node = place.node;
        if let Err(errno) = self.add(socket, Some(node), awaited, None) {
            if matches!(errno, Errno::MFILE | Errno::NFILE) {
                let doing = format!("watching the process of node {node}");
                match awaited {
                    true => {
                        drop(self.answers.send(JoinAnswer::Failed(JoinError::system(doing, errno))))
                    }
                    false => self.retry_later(place, false, RETRY_PAUSES.1),
                }
                return;
            }
            tracing::debug!(%errno, %node, "a connection was gone before it was used");
            if errno == Errno::SRCH {
                // A child of the dead process may hold its listening socket.
                self.folder.remove_socket(node);
            }
            if awaited {
                let _ = self.answers.send(JoinAnswer::Gone(node));
            }
        }
    }

    fn add(
        &mut self,
        socket: OwnedFd,
        called: Option<NodeId>,
        awaited: bool,
        deadline: Option<Instant>,
    ) -> Result<(), Errno> {
        let credentials = socket::credentials(&socket)?;
        let process = self.with_spare(|_| PeerProcess::at(&socket, credentials.pid))?;
        let key = self.next_key;
        self.next_key = self.next_key.wrapping_add(1);
        let populates = self.checked.config.lock_memory;
        let imports = Imports::new(credentials.uid, key, self.command_sender.clone(), populates);
        let phase = ConnectionPhase::Greeting { deadline, step: GreetingStep::Hello };
        let allowed = self.may_join(&credentials).and_then(|()| match called {
            Some(_) => Ok(()),
            None => self.has_room_for(credentials.uid),
        });
        let socket = Arc::new(socket);
        let mut connection = Connection::new(key, socket, credentials, process, imports, phase);
        connection.called = called;
        connection.awaited = awaited;
        called.into_iter().for_each(|node| self.processes.add(node, process));
        self.connections.insert(key, connection);
        self.with(key, |this, connection| match allowed {
            Ok(()) => {
                connection.push_hello(this.hello());
                connection.flush();
            }
            Err((reason, text)) => this.refuse(connection, reason, text),
        });
        Ok(())
    }

    /// Whether a process may be a peer.
    fn may_join(&self, credentials: &Credentials) -> Result<(), (RefusalReason, String)> {
        if self.folder.admits(credentials) {
            return Ok(());
        }
        let text = match self.checked.gid {
            Some(gid) => format!(
                "user {} is neither user {} nor a member of group {gid}",
                credentials.uid, self.checked.uid
            ),
            None => format!(
                "user {} is not user {}, and no group is configured (SQUALL_GROUP)",
                credentials.uid, self.checked.uid
            ),
        };
        Err((RefusalReason::NotAllowed, text))
    }

    /// Whether a user may have another connection. This node's own user has no limit of its own.
    fn has_room_for(&self, uid: u32) -> Result<(), (RefusalReason, String)> {
        if uid == self.checked.uid {
            return Ok(());
        }
        let theirs = || self.connections.values().filter(|it| it.credentials.uid == uid);
        let strangers = theirs().filter(|it| is_stranger(it)).count();
        if theirs().count() < USER_LIMIT && strangers < USER_STRANGERS_LIMIT {
            return Ok(());
        }
        let text = format!(
            "user {uid} has {} connections to this process, {strangers} of them from nodes that have not said who they \
             are; the limits are {USER_LIMIT} and {USER_STRANGERS_LIMIT}",
            theirs().count()
        );
        Err((RefusalReason::Full, text))
    }

    /// Closes connections of departed nodes that keep theirs open: the oldest first, of the user
    /// who has most of them. A departed node that still reads memory here then finds other content
    /// in it.
    pub(super) fn shed_departed(&mut self) {
        if self.connections.len() <= DEPARTED_LIMIT {
            return;
        }
        loop {
            let mut departed: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
            for it in
                self.connections.values().filter(|it| matches!(it.phase, ConnectionPhase::Departed))
            {
                departed.entry(it.credentials.uid).or_default().push(it.key);
            }
            let count: usize = departed.values().map(Vec::len).sum();
            let most = departed.values().max_by_key(|keys| keys.len());
            let (Some(keys), true) = (most, count > DEPARTED_LIMIT) else { return };
            for &key in keys.iter().take((count - DEPARTED_LIMIT).min(keys.len().div_ceil(2))) {
                self.with(key, |_, connection| connection.finish());
            }
        }
    }

    fn hello(&self) -> Vec<u8> {
        let config = &self.checked.config;
        let greeting = Greeting {
            platform: Platform::here(),
            features: 0,
            node: config.node.0,
            domain: &config.domain,
        };
        let rest = wire::encode_greeting(&greeting);
        wire::encode(&Message::Hello { versions: config.versions.clone(), rest: &rest })
    }

    /// Handles a message of a greeting.
    pub(super) fn on_greeting(
        &mut self,
        connection: &mut Connection,
        step: GreetingStep,
        message: &Message<'_>,
        descriptor: Option<OwnedFd>,
    ) {
        match (step, message) {
            (GreetingStep::Hello, Message::Hello { versions, rest }) => {
                // A spare descriptor for the node's doorbell.
                match self.with_spare(|this| this.introduce(connection, versions, rest)) {
                    Ok(AcceptedHello { node, version }) => {
                        connection.node = Some(node);
                        self.processes.add(node, connection.process);
                        connection.queue_message(&Message::Accept { version });
                        // Before the arena: every node that has this node as a peer then has the
                        // group words it uses.
                        if let Some(group) = self.exports.group() {
                            connection.push(group);
                        }
                        connection.push(self.exports.header_arena());
                        connection.next_step(GreetingStep::Accept);
                        connection.flush();
                    }
                    Err(GreetingRefusal::Leaving) => self.on_greeting_ended(connection),
                    Err(GreetingRefusal::Refused(reason, text)) => {
                        if reason == RefusalReason::Version {
                            let error = self.no_common_version(connection, versions);
                            self.settle(connection, JoinAnswer::Failed(error));
                        }
                        self.refuse(connection, reason, text);
                    }
                }
            }
            (GreetingStep::Accept, Message::Accept { version })
                if self.checked.config.versions.contains(version) =>
            {
                connection.next_step(GreetingStep::Arena);
            }
            (GreetingStep::Arena, Message::Group) => {
                if let Err(fault) = self.on_group(connection, descriptor) {
                    self.dismiss(connection, &fault.to_string());
                }
            }
            (GreetingStep::Arena, Message::Arena { index: 0, bytes }) => {
                let added = connection.imports.add_arena(0, *bytes, descriptor);
                if let Err(fault) = added.and_then(|()| self.peer_up(connection)) {
                    self.dismiss(connection, &fault.to_string());
                }
            }
            (_, Message::Refuse { versions, reason, text }) => {
                self.on_refusal(connection, versions, *reason, text);
            }
            _ => self.dismiss(connection, "its greeting messages are out of order"),
        }
    }

    /// Decides whether a node that identifies itself can be a peer.
    fn introduce(
        &self,
        connection: &mut Connection,
        versions: &[u16],
        rest: &[u8],
    ) -> Result<AcceptedHello, GreetingRefusal> {
        let ours = &self.checked.config.versions;
        let common = versions.iter().filter(|version| ours.contains(version)).max();
        let Some(version) = common.copied() else {
            let text = format!("versions {versions:?} against {ours:?}");
            return Err(GreetingRefusal::Refused(RefusalReason::Version, text));
        };
        let greeting = wire::decode_greeting(rest).map_err(|nonsense| {
            GreetingRefusal::Refused(
                RefusalReason::Other,
                format!("its hello is invalid: {nonsense}"),
            )
        })?;
        let here = Platform::here();
        if greeting.platform != here {
            let text = format!("its platform is {:?} and not {here:?}", greeting.platform);
            return Err(GreetingRefusal::Refused(RefusalReason::Platform, text));
        }
        if greeting.domain != self.checked.config.domain {
            let text = format!(
                "it is in domain {:?} and not in {:?}",
                greeting.domain, self.checked.config.domain
            );
            return Err(GreetingRefusal::Refused(RefusalReason::Domain, text));
        }
        let node = NodeId(greeting.node);
        if self.known.contains(&node) || connection.called.is_some_and(|called| called != node) {
            let text = format!("node id {node} was used before");
            return Err(GreetingRefusal::Refused(RefusalReason::NodeKnown, text));
        }
        let bell = match self.folder.connect_bell(node, connection.credentials.uid) {
            Ok(bell) => bell,
            // A leaving node removes its bell first, and its socket right after it.
            Err(Errno::NOENT | Errno::CONNREFUSED) if connection.called.is_some() => {
                return Err(GreetingRefusal::Leaving);
            }
            Err(Errno::MFILE | Errno::NFILE) => {
                return Err(GreetingRefusal::Refused(
                    RefusalReason::Full,
                    ReservedDescriptors::shortage(),
                ));
            }
            Err(errno) => {
                let text = format!("its doorbell cannot be rung: {errno}");
                return Err(GreetingRefusal::Refused(RefusalReason::Other, text));
            }
        };
        connection.bell = Some(Bell::Peer(bell));
        Ok(AcceptedHello { node, version })
    }

    fn peer_up(
        &mut self,
        connection: &mut Connection,
    ) -> Result<(), crate::shm::imports::AnnouncementFault> {
        let node = connection.node.expect("a node sends its hello before its memory");
        let (header, memory) = connection.imports.header(node)?;
        let bell = connection.bell.take().expect("a hello is answered when the doorbell is there");
        if !self.known.insert(node) {
            // Two connections of one node raced; the first has won.
            self.refuse(connection, RefusalReason::NodeKnown, format!("node id {node} is in use"));
            return Ok(());
        }
        let peer = Peer(u32::try_from(self.peers.len()).expect("peers are counted by connections"));
        self.peers.push(Some(connection.key));
        connection.phase = ConnectionPhase::Up { peer };
        tracing::debug!(%node, pid = connection.credentials.pid, ?peer, "peer up");
        let outbox = Arc::clone(&connection.outbox);
        let process = connection.process;
        self.events.send(RendezvousEvent::PeerUp {
            peer,
            node,
            header,
            memory,
            bell,
            outbox,
            process,
        });
        for announcement in self.exports.catch_up(connection.key) {
            connection.push(announcement);
        }
        connection.flush();
        self.settle(connection, JoinAnswer::Met(node));
        Ok(())
    }

    /// Tells the other node why it cannot be a peer.
    pub(super) fn refuse(
        &mut self,
        connection: &mut Connection,
        reason: RefusalReason,
        text: String,
    ) {
        let pid = connection.credentials.pid;
        tracing::warn!(pid, ?reason, text, "a node was refused");
        connection.clear_queue();
        connection.queue_message(&self.refusal(reason, &text));
        connection.flush();
        let error = match (reason, connection.called) {
            // This node has called, and has no descriptor for the answer.
            (RefusalReason::Full, Some(_)) => {
                JoinError::system(format!("connecting to process {pid}"), Errno::MFILE)
            }
            _ => JoinError::Refused { pid, reason: text },
        };
        self.settle(connection, JoinAnswer::Failed(error));
        connection.finish();
    }

    fn refusal<'a>(&self, reason: RefusalReason, text: &'a str) -> Message<'a> {
        Message::Refuse { versions: self.checked.config.versions.clone(), reason, text }
    }

    fn on_refusal(
        &mut self,
        connection: &mut Connection,
        theirs: &[u16],
        reason: RefusalReason,
        text: &str,
    ) {
        let pid = connection.credentials.pid;
        tracing::warn!(pid, ?reason, text, "this node was refused");
        if let (RefusalReason::Full, false, Some(node)) =
            (reason, connection.awaited, connection.called)
        {
            // The join has continued without that node and cannot fail any more.
            let place = NodeSocket { path: self.folder.socket_path(node), node };
            self.retry_later(place, false, RETRY_PAUSES.1);
        }
        let error = match reason {
            RefusalReason::Version => self.no_common_version(connection, theirs),
            _ => JoinError::Refused { pid, reason: format!("it refuses this process: {text}") },
        };
        self.settle(connection, JoinAnswer::Failed(error));
        connection.finish();
    }

    fn no_common_version(&self, connection: &Connection, theirs: &[u16]) -> JoinError {
        JoinError::Version {
            ours: self.checked.config.versions.clone(),
            theirs: theirs.to_vec(),
            pid: connection.credentials.pid,
        }
    }

    /// Closes a connection whose other end is not a node, or a faulty one.
    pub(super) fn dismiss(&mut self, connection: &mut Connection, why: &str) {
        let pid = connection.credentials.pid;
        tracing::warn!(pid, why, "a connection was closed");
        connection.finish();
    }

    /// Answers the join that waits for this connection.
    fn settle(&mut self, connection: &mut Connection, answer: JoinAnswer) {
        if std::mem::take(&mut connection.awaited) {
            // A join that has stopped waiting does not receive the answer.
            let _ = self.answers.send(answer);
        }
    }

    /// Handles the end of a connection that was not yet a peer's. If this node had called, it calls
    /// again: the other node may have taken it for an unknown node that does not speak.
    pub(super) fn on_greeting_ended(&mut self, connection: &mut Connection) {
        if let Some(node) = connection.called {
            let awaited = std::mem::take(&mut connection.awaited);
            let place = NodeSocket { path: self.folder.socket_path(node), node };
            self.retry_later(place, awaited, RETRY_PAUSES.0);
        }
        connection.finish();
    }

    pub(super) fn retry_later(&mut self, place: NodeSocket, awaited: bool, pause: Duration) {
        self.retries.push(ConnectRetry { place, awaited, at: Instant::now() + pause, pause });
    }

    pub(super) fn retry_due(&mut self, now: Instant) {
        let (due, later) = std::mem::take(&mut self.retries)
            .into_iter()
            .partition(|retry: &ConnectRetry| retry.at <= now);
        self.retries = later;
        for ConnectRetry { place, awaited, pause, .. } in due {
            match self.folder.connect(place.node) {
                Ok(socket) => self.add_called(place, socket, awaited),
                Err(Errno::AGAIN | Errno::INTR | Errno::MFILE | Errno::NFILE) => {
                    self.retry_later(place, awaited, (pause * 2).min(RETRY_PAUSES.1));
                }
                Err(errno) => {
                    // No process listens there any more.
                    if errno == Errno::CONNREFUSED {
                        self.folder.remove_socket(place.node);
                    }
                    if awaited {
                        let _ = self.answers.send(JoinAnswer::Gone(place.node));
                    }
                }
            }
        }
    }

    /// Handles the end of a connection, by its phase.
    pub(super) fn on_ended(&mut self, connection: &mut Connection) {
        match connection.phase {
            ConnectionPhase::Greeting { .. } => self.on_greeting_ended(connection),
            ConnectionPhase::Up { peer } => {
                // A dying process closes its sockets shortly before it is dead.
                let deadline = Instant::now() + self.checked.config.evidence_limit;
                connection.phase = ConnectionPhase::Ended { peer, deadline };
                self.await_death(connection);
            }
            ConnectionPhase::Ended { .. } => {}
            ConnectionPhase::Departed | ConnectionPhase::Over => connection.finish(),
        }
    }
}

/// Whether the connection belongs to a process that has not identified itself yet.
fn is_stranger(connection: &Connection) -> bool {
    matches!(connection.phase, ConnectionPhase::Greeting { .. }) && connection.called.is_none()
}
