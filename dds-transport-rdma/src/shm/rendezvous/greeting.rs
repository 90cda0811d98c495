//! How two nodes become peers: connecting, hellos, refusals.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use derecho_core::ids::{NodeId, Peer};
use derecho_core::link::Evidence;
use rustix::event::epoll::{self, EventFlags};
use rustix::fs::{OFlags, fcntl_getfl};
use rustix::io::Errno;

use super::{
    ACCEPT_PAUSE, Answer, CONNECTIONS_LIMIT, Connection, Event, JoinError, Message, Phase, Place,
    RETRY_PAUSES, Rendezvous, Retry, STRANGERS_LIMIT, Source, socket, wire,
};
use crate::shm::connection::Step;
use crate::shm::imports::Imports;
use crate::shm::process::Process;
use crate::shm::socket::Credentials;
use crate::shm::wire::{Greeting, Platform, Reason};

/// What is understood of a node that introduced itself and is welcome.
struct Introduced {
    node: NodeId,
    version: u16,
}

impl Rendezvous {
    /// Takes what waits at the listening socket.
    pub(super) fn accept(&mut self) {
        while self.has_room() {
            match socket::accept(&self.listener) {
                Ok(socket) => self.add_stranger(socket),
                Err(Errno::WOULDBLOCK) => return,
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(errno) => {
                    tracing::warn!(%errno, "a connection could not be accepted");
                    self.accept_at = Some(Instant::now() + ACCEPT_PAUSE);
                    break;
                }
            }
        }
        self.listen_if_room();
    }

    fn has_room(&self) -> bool {
        let strangers =
            |it: &&Connection| matches!(it.phase, Phase::Greeting { .. }) && it.called.is_none();
        self.connections.len() < CONNECTIONS_LIMIT
            && self.connections.values().filter(strangers).count() < STRANGERS_LIMIT
    }

    /// Watches the listening socket if another connection could be taken.
    pub(super) fn listen_if_room(&mut self) {
        let wanted = self.accept_at.is_none() && self.has_room();
        if wanted == self.listening {
            return;
        }
        let result = if wanted {
            epoll::add(&self.epoll, &self.listener, Source::Listener.data(), EventFlags::IN)
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

    /// A connection that this node made. It may take its time: the other may be stopped.
    pub(super) fn add_called(&mut self, place: Place, socket: OwnedFd, awaited: bool) {
        let node = place.node;
        if let Err(errno) = self.add(socket, Some(node), awaited, None) {
            tracing::debug!(%errno, %node, "a connection was gone before it was used");
            if awaited {
                let _ = self.answers.send(Answer::Settled);
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
        let process = Process::at(&socket, credentials.pid)?;
        let key = self.next_key;
        self.next_key = self.next_key.wrapping_add(1);
        let populates = self.checked.config.lock_memory;
        let imports = Imports::new(credentials.uid, key, self.command_sender.clone(), populates);
        let phase = Phase::Greeting { deadline, step: Step::Hello };
        let allowed = self.may_join(&credentials);
        let socket = Arc::new(socket);
        let mut connection = Connection::new(key, socket, credentials, process, imports, phase);
        connection.called = called;
        connection.awaited = awaited;
        connection.watch_process(&self.epoll)?;
        self.connections.insert(key, connection);
        self.with(key, |this, connection| match allowed {
            Ok(()) => {
                connection.push_hello(this.hello(), Arc::clone(&this.bell));
                connection.flush();
            }
            Err(text) => this.refuse(connection, Reason::NotAllowed, text),
        });
        Ok(())
    }

    /// Whether a process may be a peer.
    fn may_join(&self, credentials: &Credentials) -> Result<(), String> {
        if credentials.uid == self.checked.uid {
            return Ok(());
        }
        match self.checked.gid {
            Some(gid) if credentials.gids.contains(&gid) => Ok(()),
            Some(gid) => Err(format!(
                "user {} is neither user {} nor a member of group {gid}",
                credentials.uid, self.checked.uid
            )),
            None => Err(format!(
                "user {} is not user {}, and no group is configured (SQUALL_GROUP)",
                credentials.uid, self.checked.uid
            )),
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

    /// A message in a greeting.
    pub(super) fn on_greeting(
        &mut self,
        connection: &mut Connection,
        step: Step,
        message: &Message<'_>,
        descriptor: Option<OwnedFd>,
    ) {
        match (step, message) {
            (Step::Hello, Message::Hello { versions, rest }) => {
                match self.introduce(connection, versions, rest, descriptor) {
                    Ok(Introduced { node, version }) => {
                        connection.node = Some(node);
                        connection.say(&Message::Accept { version });
                        connection.push(self.exports.header_arena());
                        connection.next_step(Step::Accept);
                        connection.flush();
                    }
                    Err((reason, text)) => {
                        if reason == Reason::Version {
                            let error = self.no_common_version(connection, versions);
                            self.settle(connection, Answer::Failed(error));
                        }
                        self.refuse(connection, reason, text);
                    }
                }
            }
            (Step::Accept, Message::Accept { version })
                if self.checked.config.versions.contains(version) =>
            {
                connection.next_step(Step::Arena);
            }
            (Step::Arena, Message::Arena { index: 0, bytes }) => {
                let added = connection.imports.add_arena(0, *bytes, descriptor);
                if let Err(fault) = added.and_then(|()| self.peer_up(connection)) {
                    self.dismiss(connection, &fault.to_string());
                }
            }
            (_, Message::Refuse { versions, reason, text }) => {
                self.on_refusal(connection, versions, *reason, text);
            }
            _ => self.dismiss(connection, "it does not keep to the order of a greeting"),
        }
    }

    /// Whether a node that says who it is can be a peer.
    fn introduce(
        &self,
        connection: &mut Connection,
        versions: &[u16],
        rest: &[u8],
        descriptor: Option<OwnedFd>,
    ) -> Result<Introduced, (Reason, String)> {
        let ours = &self.checked.config.versions;
        let common = versions.iter().filter(|version| ours.contains(version)).max();
        let Some(version) = common.copied() else {
            return Err((Reason::Version, format!("versions {versions:?} against {ours:?}")));
        };
        let greeting = wire::decode_greeting(rest)
            .map_err(|nonsense| (Reason::Other, format!("its hello is nonsense: {nonsense}")))?;
        let here = Platform::here();
        if greeting.platform != here {
            let text = format!("its platform is {:?} and not {here:?}", greeting.platform);
            return Err((Reason::Platform, text));
        }
        if greeting.domain != self.checked.config.domain {
            let text = format!(
                "it is in domain {:?} and not in {:?}",
                greeting.domain, self.checked.config.domain
            );
            return Err((Reason::Domain, text));
        }
        let node = NodeId(greeting.node);
        if self.known.contains(&node) || connection.called.is_some_and(|called| called != node) {
            return Err((Reason::NodeKnown, format!("node id {node} was used before")));
        }
        let bell = descriptor.filter(is_bell);
        if bell.is_none() {
            return Err((Reason::Other, "its hello came without a doorbell".to_owned()));
        }
        connection.bell = bell;
        Ok(Introduced { node, version })
    }

    fn peer_up(&mut self, connection: &mut Connection) -> Result<(), crate::shm::imports::Fault> {
        let node = connection.node.expect("a node says who it is before it shows memory");
        let (header, memory) = connection.imports.header(node)?;
        let bell = connection.bell.take().expect("a hello brings the doorbell");
        if !self.known.insert(node) {
            // Two connections of one node raced; the first has won.
            self.refuse(connection, Reason::NodeKnown, format!("node id {node} is in use"));
            return Ok(());
        }
        let peer = Peer(u32::try_from(self.peers.len()).expect("peers are counted by connections"));
        self.peers.push(Some(connection.key));
        connection.phase = Phase::Up { peer };
        tracing::debug!(%node, pid = connection.credentials.pid, ?peer, "peer up");
        let outbox = Arc::clone(&connection.outbox);
        let process = Arc::clone(&connection.process);
        self.events.send(Event::PeerUp { peer, node, header, memory, bell, outbox, process });
        for announcement in self.exports.catch_up(connection.key) {
            connection.push(announcement);
        }
        connection.flush();
        self.settle(connection, Answer::Settled);
        Ok(())
    }

    /// Tells the other node why it cannot be a peer.
    pub(super) fn refuse(&mut self, connection: &mut Connection, reason: Reason, text: String) {
        let pid = connection.credentials.pid;
        tracing::warn!(pid, ?reason, text, "a node was refused");
        connection.clear_queue();
        connection.say(&Message::Refuse {
            versions: self.checked.config.versions.clone(),
            reason,
            text: &text,
        });
        connection.flush();
        self.settle(connection, Answer::Failed(JoinError::Refused { pid, reason: text }));
        connection.finish();
    }

    fn on_refusal(
        &mut self,
        connection: &mut Connection,
        theirs: &[u16],
        reason: Reason,
        text: &str,
    ) {
        let pid = connection.credentials.pid;
        tracing::warn!(pid, ?reason, text, "this node was refused");
        let error = match reason {
            Reason::Version => self.no_common_version(connection, theirs),
            _ => JoinError::Refused { pid, reason: format!("it refuses this process: {text}") },
        };
        self.settle(connection, Answer::Failed(error));
        connection.finish();
    }

    fn no_common_version(&self, connection: &Connection, theirs: &[u16]) -> JoinError {
        JoinError::Version {
            ours: self.checked.config.versions.clone(),
            theirs: theirs.to_vec(),
            pid: connection.credentials.pid,
        }
    }

    /// Closes a connection whose other end is no node of ours, or a broken one.
    pub(super) fn dismiss(&mut self, connection: &mut Connection, why: &str) {
        let pid = connection.credentials.pid;
        tracing::warn!(pid, why, "a connection was closed");
        connection.finish();
    }

    /// Answers the join that waits for this connection.
    fn settle(&mut self, connection: &mut Connection, answer: Answer) {
        if std::mem::take(&mut connection.awaited) {
            // A join that has stopped waiting does not want to hear it any more.
            let _ = self.answers.send(answer);
        }
    }

    /// The other node closed the connection before it was a peer. If this node had called, it
    /// calls again: the other may have taken it for a stranger that does not speak.
    pub(super) fn on_greeting_ended(&mut self, connection: &mut Connection) {
        if let Some(node) = connection.called {
            let awaited = std::mem::take(&mut connection.awaited);
            let place = Place { path: self.folder.socket_path(node), node };
            self.retry_later(place, awaited, RETRY_PAUSES.0);
        }
        connection.finish();
    }

    pub(super) fn retry_later(&mut self, place: Place, awaited: bool, pause: Duration) {
        self.retries.push(Retry { place, awaited, at: Instant::now() + pause, pause });
    }

    pub(super) fn retry_due(&mut self, now: Instant) {
        let (due, later) = std::mem::take(&mut self.retries)
            .into_iter()
            .partition(|retry: &Retry| retry.at <= now);
        self.retries = later;
        for Retry { place, awaited, pause, .. } in due {
            match socket::connect(&place.path) {
                Ok(socket) => self.add_called(place, socket, awaited),
                Err(Errno::AGAIN | Errno::INTR | Errno::MFILE | Errno::NFILE) => {
                    self.retry_later(place, awaited, (pause * 2).min(RETRY_PAUSES.1));
                }
                Err(errno) => {
                    // Nobody listens there any more.
                    if errno == Errno::CONNREFUSED {
                        self.folder.remove_socket(place.node);
                    }
                    if awaited {
                        let _ = self.answers.send(Answer::Settled);
                    }
                }
            }
        }
    }

    /// What to think of a peer whose connection has ended.
    pub(super) fn on_ended(&mut self, connection: &mut Connection) {
        match connection.phase {
            Phase::Greeting { .. } => self.on_greeting_ended(connection),
            Phase::Up { peer } if !connection.is_dead() => {
                let deadline = Instant::now() + self.checked.config.evidence_limit;
                connection.phase = Phase::Ended { peer, deadline };
            }
            Phase::Up { .. } => {
                self.peer_down(connection, Evidence::Certain);
                connection.finish();
            }
            Phase::Ended { .. } => {}
            Phase::Departed | Phase::Over => connection.finish(),
        }
    }
}

/// Whether a descriptor is an eventfd that does not block: the node itself writes to it.
fn is_bell(descriptor: &OwnedFd) -> bool {
    use std::os::fd::AsRawFd;
    let path = format!("/proc/self/fd/{}", descriptor.as_fd().as_raw_fd());
    let kind = std::fs::read_link(path);
    let named = kind.map_or(true, |kind| kind.to_string_lossy().contains("eventfd"));
    named && fcntl_getfl(descriptor).is_ok_and(|flags| flags.contains(OFlags::NONBLOCK))
}
