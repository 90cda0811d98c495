//! Joining of a node to its domain.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, unbounded};
use derecho_core::ids::NodeId;
use derecho_core::link::LinkCounters;
use derecho_core::memory::{OwnRegion, WORD};
use rustix::io::Errno;

use super::{Arenas, Doorbell, RegionReleased, ShmLink, own_region};
use crate::shm::arbiter::{HandedOver, ShmArbiter};
use crate::shm::arena::{MemoryOptions, NewArena};
use crate::shm::barrier::{self, Barriers};
use crate::shm::bell_table::BellTable;
use crate::shm::command;
use crate::shm::config::ShmConfig;
use crate::shm::domain_folder::{DomainFolder, DomainLock, NodeSocket};
use crate::shm::doorbell::{HEADER_BARRIERS, HEADER_MAGIC, HEADER_NODE, HEADER_WORDS};
use crate::shm::error::JoinError;
use crate::shm::event;
use crate::shm::exports::Exports;
use crate::shm::names::UsedNames;
use crate::shm::process::{PeerProcess, Processes};
use crate::shm::rendezvous::{JoinAnswer, Rendezvous, RendezvousParts};
use crate::shm::reserved_descriptors::check_free_descriptors;
use crate::shm::socket;

/// Serial of the header, which is announced with its arena and never closed.
const HEADER_SERIAL: u64 = u64::MAX;
/// Interval between checks of whether the unanswering nodes are stopped.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Another node that was found in the folder and called.
struct NodeCall {
    place: NodeSocket,
    /// Connection to the node; `None` if the node must be called again later.
    socket: Option<OwnedFd>,
}

/// The node's socket in the folder, and the other nodes found there.
struct JoinTargets {
    listener: OwnedFd,
    mark: Option<OwnedFd>,
    calls: Vec<NodeCall>,
}

impl ShmLink {
    /// Joins the domain: from now on other nodes find this node, and it finds them.
    ///
    /// Waits for the peers that are already in the domain, at most for [`ShmConfig::answer_limit`].
    /// A stopped peer is connected when it continues.
    ///
    /// # Errors
    /// [`JoinError`] says what is wrong and what to do. A failed attempt leaves nothing behind.
    pub fn join(config: ShmConfig) -> Result<ShmLink, JoinError> {
        let checked = config.check()?;
        check_free_descriptors()?;
        let ShmConfig { answer_limit, hello_limit, .. } = checked.config;
        let node = checked.config.node;
        let folder = DomainFolder::new(&checked)?;

        let admits_other_users = checked.gid.is_some();
        let ShmConfig { arena_bytes, memory_limit, lock_memory, huge_pages, .. } = checked.config;
        let kind = MemoryOptions { is_locked: lock_memory, is_huge: huge_pages };
        let mut arenas = Arenas::new(arena_bytes, memory_limit, kind);
        let (freed_sender, freed) = unbounded();
        let barriers = Barriers::prepare(
            checked.config.sleep_behind_barriers,
            checked.config.agree_to_barriers,
        );
        tracing::debug!(?barriers, "barriers of this node chosen");
        let (header, header_arena) =
            make_header(&mut arenas, node, barriers, freed_sender.clone())?;
        let doorbell = Doorbell::new(header, barriers)
            .map_err(|errno| JoinError::system("making the node's doorbell", errno))?;
        let bell_table = BellTable::new(&header_arena.memory, doorbell.bell(), barriers)
            .map_err(|errno| JoinError::system("making the table of bells", errno))?;
        let doorbell = Arc::new(doorbell);
        let mut exports = Exports::new(freed_sender.clone());
        exports.add_arena(header_arena);
        let (event_sender, events) = event::channel(Arc::clone(&doorbell));
        let (commands, command_receiver) = command::channel()
            .map_err(|errno| JoinError::system("making the link's queue", errno))?;
        let (answer_sender, answers) = unbounded();

        let found = find(&folder, node, doorbell.socket())?;
        let awaited = AwaitedNodes::new(&found.calls);
        let handed_over = Arc::new(HandedOver::default());
        let processes = Arc::<Processes>::default();
        let (handed, of_peers) = (Arc::clone(&handed_over), Arc::clone(&processes));
        let arbiter = ShmArbiter::new(node, &folder, commands.clone(), handed, of_peers);
        let parts = RendezvousParts {
            checked,
            folder: folder.clone(),
            listener: found.listener,
            mark: found.mark,
            exports,
            events: event_sender,
            commands: command_receiver,
            command_sender: commands.clone(),
            answers: answer_sender,
            handed_over: Arc::clone(&handed_over),
            processes: Arc::clone(&processes),
        };
        let thread = start(parts, found.calls).inspect_err(|_| folder.leave(node, true))?;
        let mut link = ShmLink {
            node,
            doorbell,
            commands,
            events,
            arenas,
            regions: BTreeMap::new(),
            used_names: UsedNames::default(),
            next_serial: 0,
            spaces: BTreeMap::new(),
            freed,
            freed_sender,
            bells: Arc::new(bell_table),
            arbiter: Arc::new(arbiter),
            processes,
            has_met: false,
            barrier: barrier::own(barriers),
            peers: Vec::new(),
            fenced_peers: 0,
            reads: VecDeque::new(),
            next_read: 0,
            counters: LinkCounters::default(),
            thread: Some(thread),
            admits_other_users,
        };
        // If a peer refuses, the link is dropped and leaves the domain.
        let now = Instant::now();
        let deadlines = [now + answer_limit, now + answer_limit.max(hello_limit)];
        link.has_met = wait_for_answers(&answers, awaited, deadlines)?;
        Ok(link)
    }
}

/// Allocates the node's header from the space that becomes its first arena.
fn make_header(
    arenas: &mut Arenas,
    node: NodeId,
    barriers: Barriers,
    freed: crossbeam_channel::Sender<RegionReleased>,
) -> Result<(OwnRegion, NewArena), JoinError> {
    // A whole page, so that the words that all peers read share no page with regions.
    let bytes = (HEADER_WORDS * WORD).max(rustix::param::page_size());
    let mut allocation = arenas.allocate(bytes).map_err(JoinError::Memory)?;
    let arena = allocation.new_arena.take().expect("the first space makes the first arena");
    let header = own_region(&allocation, HEADER_WORDS, HEADER_SERIAL, freed);
    header.word(HEADER_NODE).put(node.0 as u64);
    header.word(HEADER_NODE + 1).put((node.0 >> 64) as u64);
    header.word(HEADER_BARRIERS).put(barriers.to_word());
    header.word(0).publish(HEADER_MAGIC);
    Ok((header, arena))
}

/// Binds this node's sockets in the folder and connects to all other nodes, under the lock. Of any
/// two nodes the later one therefore finds the earlier, and they are connected once.
fn find(folder: &DomainFolder, node: NodeId, bell: &OwnedFd) -> Result<JoinTargets, JoinError> {
    let lock = folder.enter()?;
    let found = folder.check_whole(&lock).and_then(|()| bind_socket(folder, node, bell, &lock));
    let found = found.and_then(|(listener, mark)| {
        let calls = call_others(folder, node, &lock);
        if calls.is_err() {
            folder.remove_socket(node);
        }
        Ok(JoinTargets { listener, mark, calls: calls? })
    });
    if found.is_err() {
        folder.remove_if_empty(&lock);
    }
    found
}

fn bind_socket(
    folder: &DomainFolder,
    node: NodeId,
    bell: &OwnedFd,
    lock: &DomainLock,
) -> Result<(OwnedFd, Option<OwnedFd>), JoinError> {
    let doing = |what| format!("{what} the socket {}", folder.socket_path(node).display());
    let listener = socket::listener().map_err(|errno| JoinError::system(doing("making"), errno))?;
    match folder.bind(&listener, bell, lock) {
        Err(Errno::ADDRINUSE) => return Err(JoinError::NodeExists(node)),
        Err(errno) => {
            folder.remove_socket(node);
            return Err(JoinError::system(doing("making"), errno));
        }
        Ok(()) => {}
    }
    let mark = folder.set_mark();
    if let Err(errno) = socket::listen(&listener) {
        folder.remove_socket(node);
        return Err(JoinError::system(doing("listening at"), errno));
    }
    Ok((listener, mark))
}

fn call_others(
    folder: &DomainFolder,
    node: NodeId,
    lock: &DomainLock,
) -> Result<Vec<NodeCall>, JoinError> {
    let mut calls = Vec::new();
    for place in folder.others(node, lock)? {
        match folder.connect(place.node) {
            Ok(socket) => calls.push(NodeCall { place, socket: Some(socket) }),
            // The other node's queue is full; try again later.
            Err(Errno::AGAIN | Errno::INTR) => calls.push(NodeCall { place, socket: None }),
            Err(Errno::CONNREFUSED) => {
                tracing::debug!(node = %place.node, "removing the files of a dead node");
                folder.remove_socket(place.node);
            }
            // The other node has just left.
            Err(Errno::NOENT) => {}
            Err(Errno::PROTOTYPE) => {
                tracing::warn!(path = %place.path.display(), "not a socket of a node; ignored");
            }
            Err(errno) => {
                let doing = format!("connecting to {}", place.path.display());
                return Err(JoinError::system(doing, errno));
            }
        }
    }
    Ok(calls)
}

fn start(
    parts: RendezvousParts,
    calls: Vec<NodeCall>,
) -> Result<thread::JoinHandle<()>, JoinError> {
    let mut rendezvous = Rendezvous::new(parts)
        .map_err(|errno| JoinError::system("preparing to watch the peers", errno))?;
    let run = move || {
        for NodeCall { place, socket } in calls {
            rendezvous.call(place, socket);
        }
        rendezvous.run();
    };
    thread::Builder::new().name("shm-rendezvous".to_owned()).spawn(run).map_err(|error| {
        let errno = Errno::from_io_error(&error).unwrap_or(Errno::AGAIN);
        JoinError::system("starting the link's thread", errno)
    })
}

/// Nodes that a join waits for.
struct AwaitedNodes {
    /// Nodes that have not answered, with their processes as far as these are known.
    pending: BTreeMap<NodeId, Option<PeerProcess>>,
    /// Whether any node has answered as a peer.
    met: bool,
}

impl AwaitedNodes {
    fn new(calls: &[NodeCall]) -> AwaitedNodes {
        let process = |socket: &OwnedFd| {
            socket::credentials(socket).and_then(|it| PeerProcess::at(socket, it.pid)).ok()
        };
        let called =
            calls.iter().map(|call| (call.place.node, call.socket.as_ref().and_then(process)));
        AwaitedNodes { pending: called.collect(), met: false }
    }

    fn hear(&mut self, answers: &Receiver<JoinAnswer>, deadline: Instant) -> Result<(), JoinError> {
        while !self.pending.is_empty() {
            match answers.recv_deadline(deadline) {
                Ok(JoinAnswer::Met(node)) => {
                    self.met = true;
                    self.pending.remove(&node);
                }
                Ok(JoinAnswer::Gone(node)) => drop(self.pending.remove(&node)),
                Ok(JoinAnswer::Failed(error)) => return Err(error),
                Err(_) => break,
            }
        }
        Ok(())
    }

    /// Processes of nodes that could have answered: neither stopped nor dead, as far as can
    /// be determined.
    fn running(&self) -> impl Iterator<Item = &Option<PeerProcess>> {
        self.pending.values().filter(|process| process.is_none_or(PeerProcess::runs))
    }
}

/// Waits for the answers of the called nodes that run. A node that has not answered by the first
/// deadline, or is stopped, becomes a peer later. If no node has answered although some run, the
/// join waits until the second deadline and then fails. Returns whether any node has answered.
fn wait_for_answers(
    answers: &Receiver<JoinAnswer>,
    mut awaited: AwaitedNodes,
    [usual, last]: [Instant; 2],
) -> Result<bool, JoinError> {
    awaited.hear(answers, Instant::now())?;
    while awaited.running().next().is_some() {
        let (now, limit) = (Instant::now(), if awaited.met { usual } else { last });
        if now < limit {
            awaited.hear(answers, limit.min(now + LOOK_AGAIN))?;
        } else if awaited.met {
            break;
        } else {
            let pids = awaited.running().flatten().map(|process| process.pid()).collect();
            return Err(JoinError::Unanswered { pids });
        }
    }
    Ok(awaited.met)
}
