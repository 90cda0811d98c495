//! In-memory link that uses every freedom of the contract, and breaks it on request.
//!
//! One queue for each ordered pair of nodes. A pass advances a few items of each queue. The words
//! of a write move one by one and in any order, and each is read from its source only then.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use derecho_core::ids::{NodeId, Peer, RegionId};
use derecho_core::link::{
    Arbiter, Bells, Evidence, INLINE_WORDS, Link, LinkCounters, LinkError, LinkEvent, NOTE_LIMIT,
    Parker, ReadId, Sharing, WordRange,
};
use derecho_core::memory::{OwnRegion, WORD};
use link_conformance::{LinkRig, Random};

mod bells;
mod host;

use bells::{ModelBells, ModelParker, SleepState};
use host::{ModelArbiter, ModelHost};

/// Faults that the model can have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LinkFault {
    None,
    ReorderWrites,
    TakeShortWritesLate,
    TearWords,
    LoseWrites,
    AcceptEarlyWrites,
    AcceptAnyRange,
    LoseNotes,
    ReorderNotes,
    AcceptLongNotes,
    SpeakAfterTheEnd,
    ForgetLateJoiners,
    ShowDirtyRegions,
    ReuseNames,
    OverwriteClosed,
    FinishReadsEarly,
    ReorderReads,
    ThawTheDead,
    CallDeathALeave,
    CallLeaveALoss,
    AcceptTheDead,
    Miscount,
    NeverRing,
    RingTheWaking,
    HintEverybody,
    IgnoreHints,
    IgnoreBells,
    LoseBells,
    RingBellsOfTheWaking,
    ForgetTheOwnBell,
    ShareAPlace,
    RingTheGone,
    MeetTwice,
    FoundTwice,
    FoundInTwoSteps,
    LetTheLastWin,
    SettleInTwoSteps,
    SettleOldViews,
    ForgetGenerations,
    RememberTheDead,
    ForgetWhoEntered,
    KeepWhoLeft,
    ClearWhoCameLater,
    ClearNobody,
    HaltTheRunning,
    HaltNobody,
}

thread_local! {
    static FAULT: Cell<LinkFault> = const { Cell::new(LinkFault::None) };
}

/// Sets the fault of all models that this thread creates from now on.
pub(crate) fn plant(fault: LinkFault) {
    FAULT.set(fault);
}

enum ChannelItem {
    Up { node: usize },
    Open { region: RegionId, words: usize },
    Ready { region: RegionId },
    Close { region: RegionId },
    Note { bytes: Vec<u8> },
    Write { region: RegionId, left: Vec<usize>, source: OwnRegion },
    Down { evidence: Evidence },
}

struct PendingRead {
    peer: Peer,
    read: ReadId,
    left: Vec<usize>,
    source: OwnRegion,
    into: OwnRegion,
}

struct OwnRegionState {
    memory: OwnRegion,
    open: bool,
}

#[derive(Default)]
struct NodeState {
    gone: bool,
    halted: bool,
    /// Nodes by the handle that this node has for them.
    peers: Vec<usize>,
    down: BTreeSet<Peer>,
    own: BTreeMap<RegionId, OwnRegionState>,
    ready: BTreeSet<(Peer, RegionId)>,
    replicas: BTreeMap<(usize, RegionId), OwnRegion>,
    events: VecDeque<LinkEvent>,
    fetches: VecDeque<PendingRead>,
    reads: u64,
    counters: LinkCounters,
    bell: Arc<SleepState>,
    bells: Arc<ModelBells>,
    places: BTreeMap<Peer, u32>,
}

impl NodeState {
    fn peer(&self, node: usize) -> Peer {
        Peer(self.peers.iter().position(|it| *it == node).expect("it is a peer") as u32)
    }
}

struct ModelNetwork {
    fault: LinkFault,
    random: Random,
    nodes: Vec<NodeState>,
    host: ModelHost,
    pipes: BTreeMap<(usize, usize), VecDeque<ChannelItem>>,
}

impl ModelNetwork {
    fn pipe(&mut self, from: usize, to: usize) -> &mut VecDeque<ChannelItem> {
        self.pipes.entry((from, to)).or_default()
    }

    fn tell(&mut self, node: usize, event: LinkEvent) {
        self.nodes[node].events.push_back(event);
        let bell = &self.nodes[node].bell;
        if bell.is_asleep() {
            bell.ring();
        }
    }

    fn one_in(&mut self, bound: usize) -> bool {
        self.random.below(bound) == 0
    }

    fn add(&mut self) -> usize {
        let new = self.nodes.len();
        let bell = Arc::new(SleepState::default());
        let bells = Arc::new(ModelBells::new(self.fault, Arc::clone(&bell)));
        self.nodes.push(NodeState { bell, bells, ..NodeState::default() });
        for old in (0..new).filter(|old| !self.nodes[*old].gone).collect::<Vec<_>>() {
            self.pipe(new, old).push_back(ChannelItem::Up { node: new });
            self.pipe(old, new).push_back(ChannelItem::Up { node: old });
            if self.fault == LinkFault::MeetTwice {
                self.pipe(old, new).push_back(ChannelItem::Up { node: old });
            }
            if self.fault == LinkFault::ForgetLateJoiners {
                continue;
            }
            let open = self.nodes[old].own.iter().filter(|(_, own)| own.open);
            let open: Vec<_> = open.map(|(region, own)| (*region, own.memory.words())).collect();
            for (region, words) in open {
                self.pipe(old, new).push_back(ChannelItem::Open { region, words });
            }
        }
        new
    }

    fn pass(&mut self) {
        let pairs: Vec<(usize, usize)> = self.pipes.keys().copied().collect();
        for (from, to) in pairs {
            for _ in 0..self.random.below(8) {
                self.misorder(from, to);
                if self.nodes[to].gone || !self.step(from, to) {
                    break;
                }
            }
        }
        for node in 0..self.nodes.len() {
            self.fetch(node);
        }
    }

    fn misorder(&mut self, from: usize, to: usize) {
        let fault = self.fault;
        let swap = self.one_in(4);
        let pipe = self.pipe(from, to);
        let both = match (pipe.front(), pipe.get(1)) {
            (Some(ChannelItem::Write { .. }), Some(ChannelItem::Write { .. })) => {
                fault == LinkFault::ReorderWrites
            }
            (
                Some(ChannelItem::Note { .. }),
                Some(ChannelItem::Note { .. } | ChannelItem::Open { .. }),
            ) => fault == LinkFault::ReorderNotes,
            _ => false,
        };
        if both && swap {
            pipe.swap(0, 1);
        }
    }

    /// Advances the first item between two nodes. Returns whether it has arrived.
    fn step(&mut self, from: usize, to: usize) -> bool {
        let Some(item) = self.pipe(from, to).pop_front() else { return false };
        match item {
            ChannelItem::Up { node } => {
                let peer = Peer(self.nodes[to].peers.len() as u32);
                self.nodes[to].peers.push(node);
                let id = id(node);
                self.tell(
                    to,
                    LinkEvent::PeerUp { peer, node: id, sharing: Sharing::Copied, place: None },
                );
            }
            ChannelItem::Open { region, words } => {
                let copy = OwnRegion::heap(words);
                if self.fault == LinkFault::ShowDirtyRegions {
                    copy.word(words - 1).put(1);
                }
                let (peer, replica) = (self.nodes[to].peer(from), copy.replica());
                self.nodes[to].replicas.insert((from, region), copy);
                self.tell(to, LinkEvent::RegionUp { peer, region, replica });
                self.pipe(to, from).push_back(ChannelItem::Ready { region });
            }
            ChannelItem::Ready { region } => {
                if self.nodes[to].own.get(&region).is_some_and(|own| own.open) {
                    let peer = self.nodes[to].peer(from);
                    self.tell(to, LinkEvent::RegionReady { peer, region });
                }
            }
            ChannelItem::Close { region } => {
                let copy = self.nodes[to].replicas.remove(&(from, region));
                if let (LinkFault::OverwriteClosed, Some(copy)) = (self.fault, copy) {
                    copy.word(0).put(0);
                }
                let peer = self.nodes[to].peer(from);
                self.tell(to, LinkEvent::RegionDown { peer, region });
            }
            ChannelItem::Note { bytes } => {
                let peer = self.nodes[to].peer(from);
                if self.fault != LinkFault::LoseNotes || !self.one_in(30) {
                    self.tell(to, LinkEvent::Note { peer, bytes });
                }
            }
            ChannelItem::Write { region, left, source } => {
                return self.move_words(from, to, region, left, source);
            }
            ChannelItem::Down { evidence } => self.end(from, to, evidence),
        }
        true
    }

    fn move_words(
        &mut self,
        from: usize,
        to: usize,
        region: RegionId,
        mut left: Vec<usize>,
        source: OwnRegion,
    ) -> bool {
        let Some(copy) = self.nodes[to].replicas.get(&(from, region)).cloned() else { return true };
        if self.fault == LinkFault::LoseWrites && self.one_in(30) {
            return true;
        }
        let half = 0xffff_ffff;
        if self.fault == LinkFault::TearWords && left.len() > 1 && self.one_in(2) {
            let index = left[0];
            let mixed = copy.word(index).peek() & !half | source.word(index).peek() & half;
            copy.word(index).put(mixed);
        } else {
            for _ in 0..=self.random.below(2 * left.len().max(1)) {
                if left.is_empty() {
                    break;
                }
                let index = left.swap_remove(self.random.below(left.len()));
                copy.word(index).put(source.word(index).load());
            }
        }
        let done = left.is_empty();
        if !done {
            self.pipe(from, to).push_front(ChannelItem::Write { region, left, source });
        }
        done
    }

    fn end(&mut self, from: usize, to: usize, evidence: Evidence) {
        let evidence = match (self.fault, evidence) {
            (LinkFault::CallDeathALeave, Evidence::Certain) => Evidence::Left,
            (LinkFault::CallLeaveALoss, Evidence::Left) => Evidence::Uncertain,
            (_, evidence) => evidence,
        };
        let peer = self.nodes[to].peer(from);
        self.tell(to, LinkEvent::PeerDown { peer, evidence });
        match self.fault {
            LinkFault::SpeakAfterTheEnd => {
                self.tell(to, LinkEvent::Note { peer, bytes: b"I was".to_vec() });
            }
            LinkFault::ThawTheDead => {
                let copies: Vec<OwnRegion> = self.nodes[to]
                    .replicas
                    .iter()
                    .filter(|((owner, _), _)| *owner == from)
                    .map(|(_, copy)| copy.clone())
                    .collect();
                // Late: after the end has been reported.
                for (number, copy) in copies.into_iter().enumerate() {
                    let left = vec![0];
                    let region = RegionId(u64::MAX - number as u64);
                    self.nodes[to].replicas.insert((from, region), copy);
                    let source = OwnRegion::heap(1);
                    source.word(0).put(77);
                    self.pipe(from, to).push_back(ChannelItem::Write { region, left, source });
                }
            }
            _ => {}
        }
    }

    fn fetch(&mut self, node: usize) {
        if self.fault == LinkFault::ReorderReads && self.nodes[node].fetches.len() > 1 {
            self.nodes[node].fetches.swap(0, 1);
        }
        let early = self.fault == LinkFault::FinishReadsEarly;
        let steps = self.random.below(12);
        let state = &mut self.nodes[node];
        for _ in 0..steps {
            let Some(fetch) = state.fetches.front_mut() else { return };
            if let Some(index) = fetch.left.pop()
                && !early
            {
                fetch.into.word(index).put(fetch.source.word(index).load());
                continue;
            }
            let event = LinkEvent::ReadDone { peer: fetch.peer, read: fetch.read };
            state.fetches.pop_front();
            state.events.push_back(event);
        }
    }
}

fn id(node: usize) -> NodeId {
    NodeId(node as u128 + 100)
}

/// End of the model at one node.
pub(crate) struct ModelLink {
    node: usize,
    world: Rc<RefCell<ModelNetwork>>,
}

fn check(region: RegionId, range: WordRange, words: usize) -> Result<(), LinkError> {
    match range.end() {
        Some(end) if end <= words => Ok(()),
        _ => Err(LinkError::OutOfRegion(region, range)),
    }
}

impl ModelNetwork {
    /// Returns the node behind a peer that is up.
    fn target(&self, node: usize, peer: Peer) -> Result<usize, LinkError> {
        let state = &self.nodes[node];
        match state.peers.get(peer.index()) {
            Some(target) if !state.down.contains(&peer) => Ok(*target),
            Some(target) if self.fault == LinkFault::AcceptTheDead => Ok(*target),
            _ => Err(LinkError::PeerGone(peer)),
        }
    }
}

impl Link for ModelLink {
    fn node(&self) -> NodeId {
        id(self.node)
    }

    fn open(&mut self, region: RegionId, words: usize) -> Result<OwnRegion, LinkError> {
        let world = &mut *self.world.borrow_mut();
        let used = world.nodes[self.node].own.get(&region);
        if used.is_some_and(|own| own.open || world.fault != LinkFault::ReuseNames) {
            return Err(LinkError::RegionExists(region));
        }
        let memory = OwnRegion::heap(words);
        let own = OwnRegionState { memory: memory.clone(), open: true };
        world.nodes[self.node].own.insert(region, own);
        world.broadcast(self.node, || ChannelItem::Open { region, words });
        Ok(memory)
    }

    fn close(&mut self, region: RegionId) -> Result<(), LinkError> {
        let world = &mut *self.world.borrow_mut();
        match world.nodes[self.node].own.get_mut(&region) {
            Some(own) if own.open => own.open = false,
            _ => return Err(LinkError::NoRegion(region)),
        }
        world.broadcast(self.node, || ChannelItem::Close { region });
        Ok(())
    }

    fn write(&mut self, peer: Peer, region: RegionId, range: WordRange) -> Result<(), LinkError> {
        let world = &mut *self.world.borrow_mut();
        let to = world.target(self.node, peer)?;
        let state = &world.nodes[self.node];
        let own = state.own.get(&region).filter(|own| own.open);
        let source = own.ok_or(LinkError::NoRegion(region))?.memory.clone();
        let late = range.count > INLINE_WORDS || world.fault == LinkFault::TakeShortWritesLate;
        let checked = check(region, range, source.words());
        if checked.is_err() {
            return if world.fault == LinkFault::AcceptAnyRange { Ok(()) } else { checked };
        }
        if !state.ready.contains(&(peer, region)) && world.fault != LinkFault::AcceptEarlyWrites {
            return Err(LinkError::NotReady(peer, region));
        }
        let counters = &mut world.nodes[self.node].counters;
        counters.writes += if world.fault == LinkFault::Miscount { 2 } else { 1 };
        counters.written_bytes += (range.count * WORD) as u64;
        let left = (range.first..range.first + range.count).collect();
        let source = if late { source } else { copy_of(&source, range) };
        world.pipe(self.node, to).push_back(ChannelItem::Write { region, left, source });
        Ok(())
    }

    fn read(
        &mut self,
        peer: Peer,
        region: RegionId,
        range: WordRange,
    ) -> Result<ReadId, LinkError> {
        let world = &mut *self.world.borrow_mut();
        let from = world.target(self.node, peer)?;
        let into = world.nodes[self.node].replicas.get(&(from, region)).cloned();
        let into = into.ok_or(LinkError::NoRegion(region))?;
        check(region, range, into.words())?;
        let source = world.nodes[from].own[&region].memory.clone();
        let state = &mut world.nodes[self.node];
        let read = ReadId(state.reads);
        state.reads += 1;
        state.counters.reads += 1;
        state.counters.read_bytes += (range.count * WORD) as u64;
        let left = (range.first..range.first + range.count).collect();
        state.fetches.push_back(PendingRead { peer, read, left, source, into });
        Ok(read)
    }

    fn note(&mut self, peer: Peer, bytes: &[u8]) -> Result<(), LinkError> {
        let world = &mut *self.world.borrow_mut();
        if bytes.len() > NOTE_LIMIT && world.fault != LinkFault::AcceptLongNotes {
            return Err(LinkError::NoteTooLong(bytes.len()));
        }
        let to = world.target(self.node, peer)?;
        world.nodes[self.node].counters.notes += 1;
        world.pipe(self.node, to).push_back(ChannelItem::Note { bytes: bytes.to_vec() });
        Ok(())
    }

    fn ring(&mut self, news: &[Peer], hints: &[Peer]) {
        let world = &mut *self.world.borrow_mut();
        let asked = news.iter().map(|peer| (*peer, false));
        for (peer, hint) in asked.chain(hints.iter().map(|peer| (*peer, true))) {
            let Ok(target) = world.target(self.node, peer) else { continue };
            let bell = Arc::clone(&world.nodes[target].bell);
            let wanted = match world.fault {
                LinkFault::NeverRing => false,
                LinkFault::RingTheWaking => true,
                LinkFault::IgnoreHints if hint => false,
                LinkFault::HintEverybody => bell.is_asleep(),
                _ if hint => bell.is_asleep_for_hints(),
                _ => bell.is_asleep(),
            };
            if wanted {
                bell.ring();
                world.nodes[self.node].counters.rings += 1;
            }
        }
    }

    fn place(&self, peer: Peer) -> Option<u32> {
        self.world.borrow().nodes[self.node].places.get(&peer).copied()
    }

    fn bells(&self) -> Arc<dyn Bells> {
        Arc::clone(&self.world.borrow().nodes[self.node].bells) as Arc<dyn Bells>
    }

    fn arbiter(&self) -> Option<Arc<dyn Arbiter>> {
        let host = self.world.borrow().host.clone();
        Some(Arc::new(ModelArbiter { node: self.node, host }))
    }

    fn is_halted(&self, peer: Peer) -> bool {
        let world = self.world.borrow();
        match world.fault {
            LinkFault::HaltTheRunning => true,
            LinkFault::HaltNobody => false,
            _ => world.target(self.node, peer).is_ok_and(|target| world.nodes[target].halted),
        }
    }

    fn poll(&mut self, sink: &mut dyn FnMut(LinkEvent)) -> usize {
        let mut handed = 0;
        loop {
            let mut world = self.world.borrow_mut();
            let bells: Vec<Arc<SleepState>> =
                world.nodes.iter().map(|state| Arc::clone(&state.bell)).collect();
            let state = &mut world.nodes[self.node];
            let Some(event) = state.events.pop_front() else { return handed };
            match &event {
                LinkEvent::RegionReady { peer, region } => {
                    state.ready.insert((*peer, *region));
                }
                LinkEvent::PeerUp { peer, .. } => {
                    let bell = &bells[state.peers[peer.index()]];
                    if let Some(place) = state.bells.seat(Arc::clone(bell)) {
                        state.places.insert(*peer, place);
                    }
                }
                LinkEvent::PeerDown { peer, .. } => {
                    state.down.insert(*peer);
                    if let Some(place) = state.places.remove(peer) {
                        state.bells.clear(place);
                    }
                    state.fetches.retain(|fetch| fetch.peer != *peer);
                }
                _ => {}
            }
            drop(world);
            sink(event);
            handed += 1;
        }
    }

    fn counters(&self) -> LinkCounters {
        let state = &self.world.borrow().nodes[self.node];
        let rings = state.counters.rings + state.bells.rings();
        LinkCounters { rings, ..state.counters }
    }
}

impl ModelNetwork {
    fn broadcast(&mut self, from: usize, item: impl Fn() -> ChannelItem) {
        for to in 0..self.nodes.len() {
            if to != from && !self.nodes[to].gone {
                self.pipe(from, to).push_back(item());
            }
        }
    }
}

/// Models that have met.
pub(crate) struct ModelRig {
    world: Rc<RefCell<ModelNetwork>>,
    links: Vec<ModelLink>,
}

impl LinkRig for ModelRig {
    type Link = ModelLink;

    fn new(nodes: usize, seed: u64) -> ModelRig {
        let world = ModelNetwork {
            fault: FAULT.get(),
            random: Random::new(seed),
            nodes: Vec::new(),
            host: ModelHost::new(FAULT.get()),
            pipes: BTreeMap::new(),
        };
        let mut rig = ModelRig { world: Rc::new(RefCell::new(world)), links: Vec::new() };
        for _ in 0..nodes {
            rig.join();
        }
        rig
    }

    fn join(&mut self) -> usize {
        let node = self.world.borrow_mut().add();
        self.links.push(ModelLink { node, world: Rc::clone(&self.world) });
        node
    }

    fn link(&mut self, node: usize) -> &mut ModelLink {
        assert!(!self.world.borrow().nodes[node].gone, "node {node} is gone");
        &mut self.links[node]
    }

    fn pass(&mut self) {
        self.world.borrow_mut().pass();
    }

    fn kill(&mut self, node: usize) {
        let world = &mut *self.world.borrow_mut();
        world.nodes[node].gone = true;
        world.host.node_gone(node, false);
        for to in (0..world.nodes.len()).filter(|to| *to != node) {
            // Part of the queue still arrives.
            let under_way = world.pipe(node, to).len();
            let keep = world.random.below(under_way + 1);
            world.pipe(node, to).truncate(keep);
            world.pipe(node, to).push_back(ChannelItem::Down { evidence: Evidence::Certain });
        }
    }

    fn leave(&mut self, node: usize) {
        let world = &mut *self.world.borrow_mut();
        world.nodes[node].gone = true;
        world.host.node_gone(node, true);
        for to in (0..world.nodes.len()).filter(|to| *to != node) {
            world.pipe(node, to).push_back(ChannelItem::Down { evidence: Evidence::Left });
        }
    }

    fn halt(&mut self, node: usize, halted: bool) -> bool {
        self.world.borrow_mut().nodes[node].halted = halted;
        true
    }

    fn kill_evidence(&self) -> &[Evidence] {
        &[Evidence::Certain]
    }

    fn patience(&self) -> usize {
        5000
    }

    fn parker(&mut self, node: usize) -> Option<Arc<dyn Parker>> {
        let bell = Arc::clone(&self.world.borrow().nodes[node].bell);
        Some(Arc::new(ModelParker(bell)))
    }
}

/// Copies these words of a region, as they are now.
fn copy_of(source: &OwnRegion, range: WordRange) -> OwnRegion {
    let copy = OwnRegion::heap(range.first + range.count);
    for index in range.first..range.first + range.count {
        copy.word(index).put(source.word(index).load());
    }
    copy
}
