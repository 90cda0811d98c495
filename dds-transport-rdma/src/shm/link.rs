//! The link itself: the calls of a node's driver.
//!
//! Owns: the node's memory and its view of regions and peers, as of the last poll. Never does: wait
//! for a peer. [`Link::write`] moves nothing, because a store is visible at once.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender};
use derecho_core::ids::{NodeId, Peer, RegionId};
use derecho_core::link::{
    Arbiter, Barrier, Bells, Link, LinkCounters, LinkError, LinkEvent, NOTE_LIMIT, Parker, ReadId,
    Sharing, WordRange,
};
use derecho_core::memory::{Backing, OwnRegion, Replica, WORD};
use derecho_core::park;

use super::arbiter::ShmArbiter;
use super::arena::{ArenaAllocation, ArenaRange, Arenas};
use super::barrier::Barriers;
use super::bell_table::BellTable;
use super::command::{Command, CommandSender, MESSAGE_BYTES, PeerQueueBytes, QUEUE_HARD_LIMIT};
use super::doorbell::{Bell, Doorbell, HEADER_BARRIERS, HEADER_PARKED, ShmParker};
use super::event::{EventReceiver, RendezvousEvent};
use super::exports::RegionReleased;
use super::imports::REGIONS_LIMIT;
use super::mapping::Mapping;
use super::names::UsedNames;
use super::process::{PeerProcess, Processes};

mod join;

/// Link of a node to all other nodes of its domain on this host.
///
/// Created by [`ShmLink::join`]; leaves the domain when dropped.
pub struct ShmLink {
    node: NodeId,
    doorbell: Arc<Doorbell>,
    commands: CommandSender,
    events: EventReceiver,
    arenas: Arenas,
    regions: BTreeMap<RegionId, OpenRegion>,
    used_names: UsedNames,
    next_serial: u64,
    /// Space of every region that is not free again, by serial.
    spaces: BTreeMap<u64, UnreleasedRange>,
    freed: Receiver<RegionReleased>,
    freed_sender: Sender<RegionReleased>,
    bells: Arc<BellTable>,
    arbiter: Arc<ShmArbiter>,
    processes: Arc<Processes>,
    /// Whether a node answered while this node joined.
    has_met: bool,
    /// Barrier over all threads of this process, where the system has one.
    barrier: Option<Arc<dyn Barrier>>,
    peers: Vec<Option<ConnectedPeer>>,
    /// Number of peers that are up and issue no barrier before they sleep.
    fenced_peers: usize,
    reads: VecDeque<(Peer, ReadId)>,
    next_read: u64,
    /// Counts of operations, except rings, which the bell table counts.
    counters: LinkCounters,
    thread: Option<JoinHandle<()>>,
    admits_other_users: bool,
}

/// An own region that is open.
struct OpenRegion {
    serial: u64,
    words: usize,
    /// One bit for each peer that can receive the region.
    ready: Vec<u64>,
}

impl OpenRegion {
    fn is_ready(&self, peer: Peer) -> bool {
        let word = self.ready.get(peer.index() / 64);
        word.is_some_and(|word| word >> (peer.index() % 64) & 1 == 1)
    }

    fn set_ready(&mut self, peer: Peer) {
        let word = peer.index() / 64;
        if self.ready.len() <= word {
            self.ready.resize(word + 1, 0);
        }
        self.ready[word] |= 1 << (peer.index() % 64);
    }
}

/// Space of a region, until no process uses it any more.
struct UnreleasedRange {
    space: ArenaRange,
    owner_done: bool,
    peers_done: bool,
}

/// A peer that is up, as the node knows it.
struct ConnectedPeer {
    header: Replica,
    bell: Arc<Bell>,
    node: NodeId,
    /// The peer's place in the bell table, if it has one.
    place: Option<u32>,
    barriers: Barriers,
    outbox: Arc<PeerQueueBytes>,
    process: PeerProcess,
    /// Words of each of the peer's regions.
    regions: BTreeMap<RegionId, usize>,
}

/// Keeps an own region's memory mapped. Reports when the last handle on the region is gone.
struct RegionBacking {
    _mapping: Arc<Mapping>,
    freed: Sender<RegionReleased>,
    serial: u64,
}

/// Keeps memory that only this process writes.
impl Backing for RegionBacking {}

impl Drop for RegionBacking {
    fn drop(&mut self) {
        // Without a link no space is allocated any more.
        let _ = self.freed.send(RegionReleased::ByOwner { serial: self.serial });
    }
}

impl ShmLink {
    /// Returns the parker of the thread that drives this node.
    pub fn parker(&self) -> Arc<dyn Parker> {
        Arc::new(ShmParker::new(Arc::clone(&self.doorbell)))
    }

    /// Whether processes of other users may be peers: true if a UNIX group shares the domain.
    pub fn admits_other_users(&self) -> bool {
        self.admits_other_users
    }

    /// Returns the current members of the host's group. A node killed a moment ago may still be
    /// among them.
    ///
    /// # Errors
    /// The error with which the host refused.
    pub fn members(&self) -> Result<Vec<NodeId>, LinkError> {
        self.arbiter.members()
    }

    /// Whether a node of the domain answered while this node joined.
    pub fn has_met(&self) -> bool {
        self.has_met
    }

    /// Names the process of a node, or the node if its process is unknown.
    pub fn process_of(&self, node: NodeId) -> String {
        self.processes.name(node)
    }

    /// Ends the link as if the process had died: no goodbye, and the socket stays.
    #[doc(hidden)]
    pub fn abandon(mut self) {
        self.end(Command::Abandon);
    }

    fn end(&mut self, command: Command) {
        // Threads may hold these for longer.
        self.bells.close();
        self.arbiter.end(matches!(command, Command::Leave));
        self.commands.send(command);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the rendezvous thread had failed");
        }
    }

    #[inline]
    fn ring_if(&self, peer: Peer, asleep: fn(u64) -> bool) {
        if let Some(Some(line)) = self.peers.get(peer.index())
            && line.header.peek(HEADER_PARKED).is_some_and(asleep)
        {
            line.bell.ring();
            self.bells.count_ring();
        }
    }

    fn line(&self, peer: Peer) -> Result<&ConnectedPeer, LinkError> {
        let line = self.peers.get(peer.index()).and_then(Option::as_ref);
        line.ok_or(LinkError::PeerGone(peer))
    }

    /// Takes back the space that no process uses any more.
    fn collect(&mut self) {
        while let Ok(freed) = self.freed.try_recv() {
            let (RegionReleased::ByOwner { serial } | RegionReleased::ByPeers { serial }) = freed;
            // The header's handle is not a region.
            let Some(lent) = self.spaces.get_mut(&serial) else { continue };
            match freed {
                RegionReleased::ByOwner { .. } => lent.owner_done = true,
                RegionReleased::ByPeers { .. } => lent.peers_done = true,
            }
            if lent.owner_done && lent.peers_done {
                let space = lent.space;
                self.spaces.remove(&serial);
                if let Some(index) = self.arenas.release(space) {
                    self.commands.send(Command::Retire { index });
                }
            }
        }
    }

    /// Applies an event; returns what the node is told of it, if anything.
    fn take_in(&mut self, event: RendezvousEvent) -> Option<LinkEvent> {
        match event {
            RendezvousEvent::PeerUp { peer, node, header, memory, bell, outbox, process } => {
                assert_eq!(peer.index(), self.peers.len(), "peers are handed out in order");
                let barriers = Barriers::from_word(header.load(HEADER_BARRIERS));
                let bell = Arc::new(bell);
                let place = self.bells.seat(&memory, &bell, barriers);
                tracing::debug!(?peer, ?place, ?barriers, "bell");
                self.fenced_peers += usize::from(!barriers.before_sleep);
                let regions = BTreeMap::new();
                self.processes.add(node, process);
                let line =
                    ConnectedPeer { header, bell, node, place, barriers, outbox, process, regions };
                self.peers.push(Some(line));
                Some(LinkEvent::PeerUp { peer, node, sharing: Sharing::Shared, place })
            }
            RendezvousEvent::RegionUp { peer, region, replica } => {
                let line = self.peers[peer.index()].as_mut().expect("the peer is up");
                line.regions.insert(region, replica.words());
                Some(LinkEvent::RegionUp { peer, region, replica })
            }
            RendezvousEvent::RegionReady { peer, region } => {
                // The region may have been closed since.
                self.regions.get_mut(&region)?.set_ready(peer);
                Some(LinkEvent::RegionReady { peer, region })
            }
            RendezvousEvent::RegionDown { peer, region } => {
                let line = self.peers[peer.index()].as_mut().expect("the peer is up");
                line.regions.remove(&region);
                Some(LinkEvent::RegionDown { peer, region })
            }
            RendezvousEvent::Note { peer, bytes } => Some(LinkEvent::Note { peer, bytes }),
            RendezvousEvent::PeerDown { peer, evidence } => {
                let line = self.peers[peer.index()].take().expect("the peer is up");
                self.processes.remove(line.node);
                self.fenced_peers -= usize::from(!line.barriers.before_sleep);
                if let Some(place) = line.place {
                    self.bells.clear(place);
                }
                Some(LinkEvent::PeerDown { peer, evidence })
            }
        }
    }

    fn send(&self, command: Command) -> Result<(), LinkError> {
        if self.commands.send(command) {
            return Ok(());
        }
        Err(LinkError::System(
            "the thread that announces regions and notes has failed; leave the domain and join \
             again"
                .to_owned(),
        ))
    }
}

/// Creates a region over allocated space.
fn own_region(
    allocation: &ArenaAllocation,
    words: usize,
    serial: u64,
    freed: Sender<RegionReleased>,
) -> OwnRegion {
    let backing = RegionBacking { _mapping: Arc::clone(&allocation.mapping), freed, serial };
    // SAFETY: the space was allocated for this region: it lies on a line of a mapping that the
    // backing keeps, has memory, is zeroed, and is allocated to nobody else while the backing
    // lives. Its memfd is sealed, so no other process can write it.
    unsafe { OwnRegion::from_raw(allocation.base, words, Arc::new(backing)) }
}

/// Checks that `range` lies in a region of `words` words.
fn check_range(region: RegionId, range: WordRange, words: usize) -> Result<(), LinkError> {
    match range.end() {
        Some(end) if end <= words => Ok(()),
        _ => Err(LinkError::OutOfRegion(region, range)),
    }
}

impl Link for ShmLink {
    fn node(&self) -> NodeId {
        self.node
    }

    fn open(&mut self, region: RegionId, words: usize) -> Result<OwnRegion, LinkError> {
        if self.used_names.contains(region.0) {
            return Err(LinkError::RegionExists(region));
        }
        if self.regions.len() >= REGIONS_LIMIT {
            return Err(LinkError::System(format!(
                "{REGIONS_LIMIT} regions are open, which is the limit; close some"
            )));
        }
        self.collect();
        let bytes = words.checked_mul(WORD).ok_or_else(|| {
            LinkError::System(format!("a region of {words} words is larger than any memory"))
        })?;
        let mut allocation = self.arenas.allocate(bytes).map_err(|text| {
            LinkError::System(format!("region {:#x} was not opened: {text}", region.0))
        })?;
        let serial = self.next_serial;
        self.next_serial += 1;
        let space = allocation.space;
        if let Some(arena) = allocation.new_arena.take() {
            self.send(Command::Arena(arena))?;
        }
        let own = own_region(&allocation, words, serial, self.freed_sender.clone());
        self.spaces.insert(serial, UnreleasedRange { space, owner_done: false, peers_done: false });
        self.send(Command::Open { serial, region, space, words })?;
        self.regions.insert(region, OpenRegion { serial, words, ready: Vec::new() });
        self.used_names.insert(region.0);
        Ok(own)
    }

    fn close(&mut self, region: RegionId) -> Result<(), LinkError> {
        let opened = self.regions.remove(&region).ok_or(LinkError::NoRegion(region))?;
        self.collect();
        self.send(Command::Close { serial: opened.serial })
    }

    #[inline]
    fn write(&mut self, peer: Peer, region: RegionId, range: WordRange) -> Result<(), LinkError> {
        self.line(peer)?;
        let opened = self.regions.get(&region).ok_or(LinkError::NoRegion(region))?;
        check_range(region, range, opened.words)?;
        if !opened.is_ready(peer) {
            return Err(LinkError::NotReady(peer, region));
        }
        self.counters.writes += 1;
        self.counters.written_bytes += (range.count * WORD) as u64;
        Ok(())
    }

    fn read(
        &mut self,
        peer: Peer,
        region: RegionId,
        range: WordRange,
    ) -> Result<ReadId, LinkError> {
        let line = self.line(peer)?;
        let words = *line.regions.get(&region).ok_or(LinkError::NoRegion(region))?;
        check_range(region, range, words)?;
        let read = ReadId(self.next_read);
        self.next_read += 1;
        self.counters.reads += 1;
        self.counters.read_bytes += (range.count * WORD) as u64;
        self.reads.push_back((peer, read));
        Ok(read)
    }

    fn note(&mut self, peer: Peer, bytes: &[u8]) -> Result<(), LinkError> {
        if bytes.len() > NOTE_LIMIT {
            return Err(LinkError::NoteTooLong(bytes.len()));
        }
        let line = self.line(peer)?;
        // One byte more for the kind of message, as the queue counts it.
        if line.outbox.add(bytes.len() + 1 + MESSAGE_BYTES) > QUEUE_HARD_LIMIT {
            self.send(Command::CutOff { peer })?;
            return Err(LinkError::System(format!(
                "peer {} does not read, and more than {QUEUE_HARD_LIMIT} bytes wait for it; it is \
                 cut off",
                peer.0
            )));
        }
        self.send(Command::Note { peer, bytes: bytes.to_vec() })?;
        self.counters.notes += 1;
        Ok(())
    }

    #[inline]
    fn ring(&mut self, news: &[Peer], hints: &[Peer]) {
        if self.bells.agreed() && self.fenced_peers == 0 {
            park::before_looking_without_fence();
        } else {
            park::before_looking();
        }
        for peer in news {
            self.ring_if(*peer, park::asleep);
        }
        for peer in hints {
            self.ring_if(*peer, park::asleep_for_hints);
        }
    }

    fn place(&self, peer: Peer) -> Option<u32> {
        self.peers.get(peer.index())?.as_ref()?.place
    }

    fn barrier(&self) -> Option<Arc<dyn Barrier>> {
        self.barrier.clone()
    }

    fn bells(&self) -> Arc<dyn Bells> {
        Arc::clone(&self.bells) as Arc<dyn Bells>
    }

    fn arbiter(&self) -> Option<Arc<dyn Arbiter>> {
        Some(Arc::clone(&self.arbiter) as Arc<dyn Arbiter>)
    }

    fn is_halted(&self, peer: Peer) -> bool {
        self.line(peer).is_ok_and(|line| line.process.is_halted())
    }

    fn halts(&self) -> Arc<dyn Fn(NodeId) -> bool + Send + Sync> {
        let processes = Arc::clone(&self.processes);
        Arc::new(move |node| processes.is_halted(node))
    }

    fn poll(&mut self, sink: &mut dyn FnMut(LinkEvent)) -> usize {
        let mut handed = 0;
        // The replica is the memory itself, so a read is complete as soon as it is posted.
        while let Some((peer, read)) = self.reads.pop_front() {
            sink(LinkEvent::ReadDone { peer, read });
            handed += 1;
        }
        let ready = self.events.ready();
        if ready == 0 {
            return handed;
        }
        for _ in 0..ready {
            let event = self.events.take().expect("an event is counted when it is in the queue");
            if let Some(event) = self.take_in(event) {
                sink(event);
                handed += 1;
            }
        }
        self.collect();
        if self.events.should_resume() {
            self.commands.send(Command::Resume);
        }
        handed
    }

    fn counters(&self) -> LinkCounters {
        LinkCounters { rings: self.bells.rings(), ..self.counters }
    }
}

impl Drop for ShmLink {
    fn drop(&mut self) {
        self.end(Command::Leave);
    }
}
