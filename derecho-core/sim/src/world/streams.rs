//! Nodes with an application on top, and the rules for what their readers take.
//!
//! The content of every record follows from its stream's tag and its slot, so a reader checks
//! everything that it takes without further information: order, gaps, duplicates, every byte; and
//! again when it releases a record that it held.
#![allow(clippy::unwrap_used, reason = "a run that cannot go on fails")]

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use super::{ReadPace, WorldMember};
use crate::{Cluster, Config, NodeIndex, Random, SimLink, StopReason};
use derecho_core::ids::{Peer, RegionId, Time};
use derecho_core::link::{Link, LinkEvent};
use derecho_core::machine::{Effects, Machine};
use derecho_core::memory::OwnRegion;
use derecho_core::multicast::PeerFault;
use derecho_core::multicast::claim::SenderMemory;
use derecho_core::multicast::geometry::Geometry;
use derecho_core::multicast::inbox::{Inbox, Record};
use derecho_core::node::{ACKS, ACKS_WORDS, Node, NodeEvent, StreamOrigin, SubscriptionId};

/// Maximum length of a record.
pub const LONGEST: u64 = 200;

/// Returns the length of the record of a slot.
pub fn length_of(tag: u64, slot: u64) -> usize {
    Random::new(tag ^ slot.rotate_left(40)).between(1, LONGEST) as usize
}

/// Returns the content of the record of a slot.
pub fn content_of(tag: u64, slot: u64) -> Vec<u8> {
    let mut random = Random::new(tag.rotate_left(20) ^ slot);
    (0..length_of(tag, slot)).map(|_| random.next_word() as u8).collect()
}

/// Returns a geometry with far less memory than a test's data, so that everything is reused
/// many times.
pub fn tiny() -> Geometry {
    Geometry::fitting(4096, 16, LONGEST as usize).unwrap()
}

/// Stream that this node sends.
pub struct Writer {
    /// Seed of the contents.
    pub tag: u64,
    /// Region of the memory.
    pub region: RegionId,
    /// The memory.
    pub memory: SenderMemory,
    /// Number of written records.
    pub written: u64,
    /// Number of readers, as reported by the node.
    pub readers: usize,
    /// Whether the stream has ended.
    pub ended: bool,
}

/// Stream that this node receives, or has received.
pub struct Reader {
    /// Seed of the contents.
    pub tag: u64,
    /// Node that sends the stream.
    pub origin: StreamOrigin,
    /// Region of the stream.
    pub stream: RegionId,
    /// The subscription.
    pub subscription: SubscriptionId,
    /// Received records.
    pub inbox: Option<Arc<Inbox>>,
    /// First slot that was taken, and the slot that must come next.
    pub first: Option<u64>,
    /// Slot that must come next.
    pub next: u64,
    /// Whether the stream has ended.
    pub ended: bool,
    /// Whether the application has unsubscribed.
    pub left: bool,
    /// Number of records reported as lost.
    pub lost: u64,
    held: Vec<Record>,
}

impl Reader {
    fn check(&self, record: &Record, when: &str) -> Result<(), String> {
        let slot = record.number();
        if record.bytes() != content_of(self.tag, slot) {
            return Err(format!("slot {slot} of stream {} is corrupt when {when}", self.tag));
        }
        Ok(())
    }

    fn take(&mut self) -> Result<Option<Record>, String> {
        let Some(record) = self.inbox.as_ref().and_then(|inbox| inbox.take()) else {
            return Ok(None);
        };
        let slot = record.number();
        if self.first.is_some() && slot != self.next {
            return Err(format!("slot {slot} of stream {} where {} is due", self.tag, self.next));
        }
        self.first.get_or_insert(slot);
        self.next = slot + 1;
        self.check(&record, "taken")?;
        Ok(Some(record))
    }
}

/// A node and its application. The tests inject the application's threads.
pub struct App {
    /// The node.
    pub node: Node,
    link: SimLink,
    closing: Vec<RegionId>,
    /// Streams that it sends.
    pub writers: Vec<Writer>,
    /// Streams that it receives.
    pub readers: Vec<Reader>,
    /// Streams that peers announce, with their tags.
    pub known: BTreeMap<(Peer, u64), u64>,
    /// Other nodes that were present at any time.
    pub met: Vec<Peer>,
    /// Whether announced streams are subscribed to.
    pub reads: bool,
    /// Whether subscriptions are without back-pressure.
    pub untethered: bool,
    /// True once the application's threads end.
    pub over: bool,
    /// Faults that the node has found.
    pub faults: Vec<PeerFault>,
    /// Broken rules.
    pub violations: Vec<String>,
    /// Planted fault, which acts after each turn.
    pub planted: Option<PlantedFault>,
}

/// Planted fault in the words of its node's acknowledgements.
pub type PlantedFault = fn(&OwnRegion);

/// Application with the region of its node's acknowledgements.
pub struct PlantedApp {
    /// The application.
    pub app: App,
    acks: OwnRegion,
}

impl std::ops::Deref for PlantedApp {
    type Target = App;
    fn deref(&self) -> &App {
        &self.app
    }
}

impl std::ops::DerefMut for PlantedApp {
    fn deref_mut(&mut self) -> &mut App {
        &mut self.app
    }
}

impl PlantedApp {
    /// Creates a node. `reads`: whether it subscribes to announced streams.
    pub fn new(link: &mut SimLink, reads: bool) -> PlantedApp {
        let acks = link.open(ACKS, ACKS_WORDS).unwrap();
        let app = App {
            node: Node::new(link.node(), acks.clone(), Arc::new(|| {})),
            link: link.clone(),
            closing: Vec::new(),
            writers: Vec::new(),
            readers: Vec::new(),
            known: BTreeMap::new(),
            met: Vec::new(),
            reads,
            untethered: false,
            over: false,
            faults: Vec::new(),
            violations: Vec::new(),
            planted: None,
        };
        PlantedApp { app, acks }
    }
}

impl App {
    /// Sends a stream from now on.
    pub fn open(&mut self, tag: u64, geometry: Geometry, effects: &mut Effects) {
        let region = self.node.fresh_region();
        let memory = SenderMemory::new(self.link.open(region, geometry.words()).unwrap(), geometry);
        self.node.add_stream(region, memory.clone(), effects);
        self.node.announce(region.0, tag.to_le_bytes().to_vec(), effects);
        if self.reads {
            self.subscribe(StreamOrigin::Own, region, tag);
        }
        self.writers.push(Writer { tag, region, memory, written: 0, readers: 0, ended: false });
    }

    /// Ends the stream of a writer.
    pub fn end(&mut self, writer: usize, effects: &mut Effects) {
        let writer = &mut self.writers[writer];
        writer.ended = true;
        self.node.retract(writer.region.0, effects);
        self.node.end_stream(writer.region, effects);
    }

    /// Writes the next records of a stream, while there is room. Returns their number.
    pub fn write(&mut self, writer: usize, count: u64) -> u64 {
        let writer = &mut self.writers[writer];
        for done in 0..count {
            let slot = writer.written;
            let content = content_of(writer.tag, slot);
            let Ok(mut claim) = writer.memory.claim(content.len()) else { return done };
            claim.bytes().copy_from_slice(&content);
            assert_eq!(claim.commit(content.len(), |_, _| {}), slot);
            writer.written += 1;
        }
        count
    }

    /// Subscribes to a stream.
    pub fn subscribe(&mut self, origin: StreamOrigin, stream: RegionId, tag: u64) {
        let subscription = match self.untethered {
            true => self.node.subscribe_untethered(origin, stream, tag).unwrap(),
            false => self.node.subscribe(origin, stream, tag).unwrap(),
        };
        self.readers.push(Reader {
            tag,
            origin,
            stream,
            subscription,
            inbox: None,
            first: None,
            next: 0,
            ended: false,
            left: false,
            lost: 0,
            held: Vec::new(),
        });
    }

    /// Subscribes to every known stream that is not being read.
    pub fn join(&mut self) {
        self.reads = true;
        let known: Vec<_> = self.known.iter().map(|(&key, &tag)| (key, tag)).collect();
        for ((peer, stream), tag) in known {
            let (origin, stream) = (StreamOrigin::Peer(peer), RegionId(stream));
            let reads = |r: &Reader| r.origin == origin && r.stream == stream && !r.left;
            if !self.readers.iter().any(reads) {
                self.subscribe(origin, stream, tag);
            }
        }
    }

    /// Unsubscribes from everything. Held records stay held.
    pub fn part(&mut self) {
        self.reads = false;
        for reader in self.readers.iter_mut().filter(|reader| !reader.left && !reader.ended) {
            (reader.left, reader.inbox) = (true, None);
            self.node.unsubscribe(reader.subscription);
        }
    }

    /// Takes and releases some records of each stream.
    pub fn take(&mut self, random: &mut Random, pace: ReadPace) {
        let App { readers, violations, .. } = self;
        for reader in readers {
            for _ in 0..pace.count {
                match reader.take() {
                    Ok(Some(record)) if random.one_in(pace.hold_one_in) => reader.held.push(record),
                    Ok(Some(_)) => {}
                    Ok(None) => break,
                    Err(violation) => {
                        violations.push(violation);
                        break;
                    }
                }
            }
            for record in std::mem::take(&mut reader.held) {
                if let Err(violation) = reader.check(&record, "held") {
                    violations.push(violation);
                }
                if !random.one_in(pace.release_one_in) {
                    reader.held.push(record);
                }
            }
        }
    }

    /// Takes and releases everything.
    pub fn take_all(&mut self) {
        self.take(&mut Random::new(0), ReadPace::ALL);
    }

    fn take_in(&mut self, event: NodeEvent) {
        match event {
            NodeEvent::Announced { peer, id, bytes } => {
                let tag = u64::from_le_bytes(bytes.try_into().unwrap());
                self.known.insert((peer, id), tag);
                if self.reads {
                    self.subscribe(StreamOrigin::Peer(peer), RegionId(id), tag);
                }
            }
            NodeEvent::Retracted { peer, id } => {
                self.known.remove(&(peer, id));
                let (origin, stream) = (StreamOrigin::Peer(peer), RegionId(id));
                let of_it = |reader: &&Reader| reader.origin == origin && reader.stream == stream;
                for reader in self.readers.iter().filter(of_it) {
                    self.node.withdrawn(reader.subscription);
                }
            }
            NodeEvent::PeerDown { peer, .. } => self.known.retain(|(other, _), _| *other != peer),
            NodeEvent::Readers { stream, count } => {
                if let Some(writer) = self.writers.iter_mut().find(|w| w.region == stream) {
                    writer.readers = count;
                }
            }
            NodeEvent::Subscribed(id, inbox) => {
                let reader = self.readers.iter_mut().find(|r| r.subscription == id && !r.left);
                if let Some(reader) = reader {
                    reader.inbox = Some(inbox);
                }
            }
            NodeEvent::Lost(id, count) => {
                let reader = self.readers.iter_mut().find(|r| r.subscription == id);
                reader.expect("losses are of subscribed streams").lost += count;
            }
            NodeEvent::Ended(id) => {
                if let Some(reader) = self.readers.iter_mut().find(|r| r.subscription == id) {
                    reader.ended = true;
                }
            }
            NodeEvent::Faulty { fault, .. } => self.faults.push(fault),
            NodeEvent::PeerUp { peer, .. } => self.met.push(peer),
            NodeEvent::Founded(_)
            | NodeEvent::Gathered { .. }
            | NodeEvent::Told { .. }
            | NodeEvent::Stalled(_)
            | NodeEvent::Begun { .. }
            | NodeEvent::Left(_) => {}
        }
    }
}

impl Machine for PlantedApp {
    fn handle(&mut self, event: LinkEvent, effects: &mut Effects) {
        self.app.node.handle(event, effects);
    }

    fn turn(&mut self, now: Time, effects: &mut Effects) -> usize {
        // Closed after the posts of the turn that requested it.
        for region in std::mem::take(&mut self.app.closing) {
            self.app.link.close(region).unwrap();
        }
        let mut done = self.app.node.turn(now, effects);
        while let Some(event) = self.app.node.next_event() {
            self.app.take_in(event);
            done += 1;
        }
        self.app.closing.extend(effects.take_closes());
        if let Some(planted) = self.app.planted {
            planted(&self.acks);
        }
        done
    }
}

/// Whether a node's reader of a tag has taken all up to `written`.
pub fn has(cluster: &Cluster<PlantedApp>, node: NodeIndex, tag: u64, written: u64) -> bool {
    let app: &App = cluster.machine(node, 0);
    let mut readers = app.readers.iter().filter(|reader| reader.tag == tag && !reader.left);
    readers.any(|reader| reader.next == written)
}

/// A cluster of such nodes, and the application threads on it. The applications themselves are the
/// checkers.
pub type World = super::World<PlantedApp>;

impl WorldMember for PlantedApp {
    type Checker = ();
    type Setting = ();
}

impl World {
    /// Creates a world without nodes.
    pub fn new(config: Config) -> World {
        World::empty(config, 0x5eed, Rc::default(), ())
    }

    /// Adds a node; one that reads subscribes to every announced stream.
    pub fn add(&mut self, reads: bool) -> NodeIndex {
        self.cluster.add_node(|link| vec![PlantedApp::new(link, reads)])
    }

    /// Returns a node's application.
    pub fn app(&self, node: NodeIndex) -> &App {
        self.cluster.machine(node, 0)
    }

    /// Makes the node write `goal` records to its first stream in bursts of up to `burst`, as soon
    /// as it has `readers` readers.
    pub fn writes(&mut self, node: NodeIndex, goal: u64, burst: u64, readers: usize) {
        let mut random = Random::new(self.random.next_word());
        let start = self.cluster.now();
        self.cluster.inject_again(node, 0, start, move |app, now, _| {
            let writer = &app.writers[0];
            let left = goal.saturating_sub(writer.written);
            if writer.ended || left == 0 {
                return None;
            }
            if writer.readers >= readers || writer.written > 0 {
                app.write(0, random.between(1, burst).min(left));
            }
            Some(now.after(random.between(1, 4_000)))
        });
    }

    /// Makes the node take now and then until `until`, and hold some records for a long time.
    pub fn takes(&mut self, node: NodeIndex, until: Time) {
        let mut random = Random::new(self.random.next_word());
        let start = self.cluster.now();
        let slow = random.between(1, 8) * 1_000;
        let pace = ReadPace::random(&mut random);
        self.cluster.inject_again(node, 0, start, move |app, now, _| {
            if now >= until || app.over {
                app.take_all();
                return None;
            }
            let count = random.between(0, pace.count);
            app.take(&mut random, ReadPace { count, ..pace });
            Some(now.after(random.between(1, slow)))
        });
    }

    /// Runs until `met`; panics with the seed if that does not happen.
    pub fn until(&mut self, what: &str, mut met: impl FnMut(&Cluster<PlantedApp>) -> bool) {
        let stop = self.cluster.run_until_met(|cluster| met(cluster));
        assert_eq!(stop, StopReason::Reached, "seed {}: {what}: {:?}", self.seed, self.states());
    }

    fn run_until_quiet(&mut self) {
        let stop = self.cluster.run_until_met(|_| false);
        let seed = self.seed;
        assert_eq!(stop, StopReason::Quiet, "seed {seed}: the cluster never becomes quiet");
    }

    /// Lets every node take everything until nothing happens any more.
    pub fn drain(&mut self) {
        for node in self.all() {
            self.cluster.machine_mut(node, 0).over = true;
        }
        loop {
            let posted = (self.cluster.network().counters(), self.cluster.events());
            self.run_until_quiet();
            let before = (self.cluster.network().counters(), self.cluster.events());
            for node in self.all() {
                if self.cluster.is_running(node) {
                    self.cluster.machine_mut(node, 0).take_all();
                    self.act(node, |_, _| {});
                }
            }
            self.run_until_quiet();
            if posted == before && self.cluster.network().counters() == before.0 {
                return;
            }
        }
    }

    /// Returns all complaints of all running nodes.
    pub fn violations(&self) -> Vec<String> {
        let mut all = Vec::new();
        for node in self.all() {
            let app = self.app(node);
            all.extend(app.violations.iter().map(|text| format!("node {}: {text}", node.0)));
            all.extend(app.faults.iter().map(|fault| format!("node {}: {fault}", node.0)));
        }
        all
    }

    /// Fails if a rule was broken.
    pub fn assert_no_complaints(&self) {
        let all = self.violations();
        assert!(all.is_empty(), "seed {}: {all:#?}", self.seed);
    }

    /// Fails unless a node has taken all records of a stream, from this one on.
    pub fn assert_all(&self, node: NodeIndex, tag: u64, from: Option<u64>, written: u64) {
        let app = self.app(node);
        let reader = app.readers.iter().rfind(|reader| reader.tag == tag && !reader.left);
        let reader = reader.unwrap_or_else(|| panic!("seed {}: no reader of {tag}", self.seed));
        let (first, next) = (reader.first, reader.next);
        assert_eq!(next, written, "seed {}: node {} lacks the rest of {tag}", self.seed, node.0);
        if from.is_some() {
            assert_eq!(first, from, "seed {}: node {} lacks the start of {tag}", self.seed, node.0);
        }
    }

    /// Describes the state of every stream, for messages.
    pub fn states(&self) -> Vec<String> {
        let mut all = self.violations();
        for node in self.all() {
            let app = self.app(node);
            for writer in &app.writers {
                let (written, sent) = (writer.written, writer.memory.committed());
                all.push(format!(
                    "node {} wrote {written}, sent {sent}, {} readers",
                    node.0, writer.readers
                ));
            }
            for r in &app.readers {
                all.push(format!(
                    "node {} has {:?}..{} of {}, ended {}, left {}, {} held, {} queued",
                    node.0,
                    r.first,
                    r.next,
                    r.tag,
                    r.ended,
                    r.left,
                    r.held.len(),
                    r.inbox.as_ref().map_or(0, |inbox| inbox.len())
                ));
            }
        }
        all
    }
}
