//! One member of the experiments with subgroups: a node, and the application above it.
//!
//! Owns: the behaviour of the papers' application, and the measurements of it. Never does: know a
//! price, or anything of the protocol.
//!
//! ```text
//!   turn begins                                              turn ends = next turn begins
//!   |-- the application takes what the last turn delivered --|-- the node's turn, posts --|
//! ```
//! A delivery therefore takes as long as the turn that makes it, and the application's work delays
//! the next turn, as with the papers' upcalls, which run on the polling thread.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use derecho_core::ids::{RegionId, Time};
use derecho_core::link::{Link, LinkEvent};
use derecho_core::machine::{Effects, Machine};
use derecho_core::memory::{LINE, LINE_WORDS, OwnRegion};
use derecho_core::multicast::claim::SenderMemory;
use derecho_core::multicast::geometry::Geometry;
use derecho_core::multicast::inbox::Inbox;
use derecho_core::multicast::subgroup::SubgroupConfig;
use derecho_core::node::{
    MemberRole, Node, NodeEvent, StreamOrigin, SubgroupDefinition, SubgroupId, SubgroupMemory,
};
use derecho_sim::{DiskPrices, NodeIndex, SimLink};

use crate::keeping::{DiskLog, StorageMode};

/// First region of a member; each subgroup has two regions.
const FIRST_REGION: u64 = 16;
/// Interval at which an application looks for room, in nanoseconds per subgroup that it sends to.
const LOOK_AGAIN: u64 = 250;
/// Maximum number of subgroups that count for this interval.
const LOOKS: usize = 8;

/// Frequency of each batch size.
pub(crate) type Batches = BTreeMap<u64, u64>;

/// Measurements of a run.
#[derive(Default)]
pub(crate) struct MulticastMeasurements {
    pub(crate) measuring: bool,
    /// Commit times of the messages of each subgroup's senders.
    committed: Vec<Vec<Vec<Time>>>,
    /// Messages that each member has taken since the beginning.
    pub(crate) taken: Vec<u64>,
    /// Sum of the latencies from commit to delivery, over all members.
    pub(crate) latency_ns: u64,
    pub(crate) latencies: u64,
    /// Time that applications have waited for room.
    pub(crate) waited_ns: u64,
    pub(crate) sends: Batches,
    pub(crate) receives: Batches,
    pub(crate) deliveries: Batches,
    /// Errors that members reported.
    pub(crate) faults: Vec<String>,
}

impl MulticastMeasurements {
    pub(crate) fn new(members: usize, senders: usize, subgroups: usize) -> MulticastMeasurements {
        MulticastMeasurements {
            committed: vec![vec![Vec::new(); senders]; subgroups],
            taken: vec![0; members],
            ..MulticastMeasurements::default()
        }
    }

    /// Starts the measurement.
    pub(crate) fn begin(&mut self) {
        self.measuring = true;
    }
}

fn count(batches: &mut Batches, size: u64) {
    if size > 0 {
        *batches.entry(size).or_default() += 1;
    }
}

/// Parameters common to all members of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MulticastParameters {
    pub(crate) members: usize,
    /// Number of sending members, counted from the first.
    pub(crate) senders: usize,
    pub(crate) subgroups: usize,
    /// Number of subgroups with traffic, counted from the first.
    pub(crate) active: usize,
    /// Bytes of a message.
    pub(crate) bytes: usize,
    /// Maximum number of messages of a sender in flight.
    pub(crate) window: usize,
    pub(crate) terms: SubgroupConfig,
    pub(crate) keeping: StorageMode,
}

/// A subgroup, as its member's application sees it.
struct OwnSubgroup {
    id: Option<SubgroupId>,
    inbox: Option<Arc<Inbox>>,
    memory: Option<SenderMemory>,
    lines: OwnRegion,
    gathered: bool,
    /// True if the next message lies ready outside of the memory.
    copied: bool,
}

/// A node and its application.
pub(crate) struct MulticastTestMember {
    me: usize,
    parameters: MulticastParameters,
    node: Node,
    link: SimLink,
    peers: usize,
    groups: Vec<OwnSubgroup>,
    founded: bool,
    measurements: Rc<RefCell<MulticastMeasurements>>,
    log: Option<DiskLog>,
}

impl MulticastTestMember {
    /// Creates the member at this end of the network.
    pub(crate) fn new(
        link: &mut SimLink,
        parameters: MulticastParameters,
        disk: DiskPrices,
        measurements: &Rc<RefCell<MulticastMeasurements>>,
    ) -> Result<MulticastTestMember, String> {
        let me = link.index().0;
        // The member reads no streams, so its acknowledgements of them are not read.
        let acks = OwnRegion::heap(LINE_WORDS);
        let node = Node::new(link.node(), acks, Arc::new(|| {}));
        let mut groups = Vec::new();
        for group in 0..parameters.subgroups {
            let words = parameters.members * LINE_WORDS;
            let lines = open(link, lines_of(group), words)?;
            let geometry = geometry_of(&parameters, group)?;
            let memory = if me < parameters.senders {
                let region = open(link, stream_of(group), geometry.words())?;
                Some(SenderMemory::with_nulls(region, geometry))
            } else {
                None
            };
            let (id, inbox) = (None, None);
            groups.push(OwnSubgroup { id, inbox, memory, lines, gathered: false, copied: false });
        }
        let (link, measurements) = (link.clone(), Rc::clone(measurements));
        let log = (parameters.keeping == StorageMode::Log).then(|| DiskLog::new(disk));
        Ok(MulticastTestMember {
            me,
            parameters,
            node,
            link,
            peers: 0,
            groups,
            founded: false,
            measurements,
            log,
        })
    }

    /// Whether all members of all subgroups have begun.
    pub(crate) fn is_gathered(&self) -> bool {
        self.groups.iter().all(|group| group.gathered)
    }

    /// Returns the places of the orders that this member has passed, including null ones.
    pub(crate) fn passed(&self) -> u64 {
        let ids = self.groups.iter().filter_map(|group| group.id);
        ids.map(|id| self.node.delivered(id)).sum()
    }

    /// Performs one act of the thread that sends to a subgroup: sends a message, if there is room.
    /// Returns the time of its next act.
    pub(crate) fn send(&mut self, group: usize, now: Time, effects: &mut Effects) -> Time {
        let MulticastParameters { bytes, terms, .. } = self.parameters;
        let own = &mut self.groups[group];
        let Some(memory) = &own.memory else { return now };
        if terms.ablation.in_place && !own.copied && memory.has_room(bytes) {
            effects.work().copied_bytes += bytes as u64;
            own.copied = true;
            return now;
        }
        let mut measurements = self.measurements.borrow_mut();
        let Ok(claim) = memory.claim(bytes) else {
            let pause = LOOK_AGAIN * self.parameters.active.min(LOOKS) as u64;
            if measurements.measuring {
                measurements.waited_ns += pause;
            }
            return now.after(pause);
        };
        claim.commit(bytes, |_, _| {});
        own.copied = false;
        effects.work().committed += 1;
        measurements.committed[group][self.me].push(now);
        now
    }

    fn found(&mut self, effects: &mut Effects) {
        let MulticastParameters { members, senders, terms, .. } = self.parameters;
        for group in 0..self.groups.len() {
            let origin = |index: usize| match self.link.peer(NodeIndex(index)) {
                _ if index == self.me => Some(StreamOrigin::Own),
                peer => peer.map(StreamOrigin::Peer),
            };
            let membership = |index: usize| {
                Some(MemberRole {
                    origin: origin(index)?,
                    reads: true,
                    sends: (index < senders).then(|| stream_of(group)),
                    lines: lines_of(group),
                })
            };
            let listed: Option<Vec<MemberRole>> = (0..members).map(membership).collect();
            let Some(listed) = listed else { return };
            let own = &mut self.groups[group];
            let definition =
                SubgroupDefinition { name: group as u64 + 1, config: terms, members: listed };
            let share = SubgroupMemory { lines: own.lines.clone(), memory: own.memory.clone() };
            own.id = self.node.found(definition, share, effects);
        }
        self.founded = true;
    }

    /// Takes delivered messages as the application, and stores them if required, while its log
    /// keeps up.
    fn take(&mut self, now: Time, effects: &mut Effects) -> usize {
        let mut measurements = self.measurements.borrow_mut();
        let measurements = &mut *measurements;
        let mut all = 0;
        let copies = usize::from(self.parameters.terms.ablation.in_place)
            + usize::from(self.parameters.keeping != StorageMode::Nothing);
        if let Some(log) = &mut self.log {
            log.settle(now);
        }
        for (index, group) in self.groups.iter().take(self.parameters.active).enumerate() {
            let Some(inbox) = &group.inbox else { continue };
            let mut batch = 0;
            while !self.log.as_ref().is_some_and(DiskLog::holds_up)
                && let Some(record) = inbox.take()
            {
                batch += 1;
                let bytes = record.bytes().len();
                effects.work().copied_bytes += (bytes * copies) as u64;
                if let Some(log) = &mut self.log {
                    log.append(bytes as u64, now);
                }
                if measurements.measuring {
                    let sent =
                        measurements.committed[index][record.sender()][record.number() as usize];
                    measurements.latency_ns += now.since(sent);
                    measurements.latencies += 1;
                }
            }
            measurements.taken[self.me] += batch;
            all += batch as usize;
            if measurements.measuring {
                count(&mut measurements.deliveries, batch);
            }
        }
        all
    }

    fn hear(&mut self, event: NodeEvent) {
        match event {
            NodeEvent::Founded(id) => {
                let inbox = self.node.add_subgroup_reader(id);
                if let Some(group) = self.groups.iter_mut().find(|group| group.id == Some(id)) {
                    group.inbox = inbox;
                }
            }
            NodeEvent::Gathered { subgroup, readers, .. } => {
                let group = self.groups.iter_mut().find(|group| group.id == Some(subgroup));
                if let Some(group) = group {
                    group.gathered = readers == self.parameters.members;
                }
            }
            NodeEvent::Faulty { fault, .. } => {
                self.measurements.borrow_mut().faults.push(fault.to_string());
            }
            _ => {}
        }
    }
}

impl Machine for MulticastTestMember {
    fn handle(&mut self, event: LinkEvent, effects: &mut Effects) {
        if let LinkEvent::PeerUp { .. } = event {
            self.peers += 1;
        }
        self.node.handle(event, effects);
    }

    fn turn(&mut self, now: Time, effects: &mut Effects) -> usize {
        if !self.founded && self.peers + 1 == self.parameters.members {
            self.found(effects);
        }
        let mut done = self.take(now, effects);
        done += self.node.turn(now, effects);
        while let Some(event) = self.node.next_event() {
            self.hear(event);
            done += 1;
        }
        let mut measurements = self.measurements.borrow_mut();
        if measurements.measuring {
            let work = effects.work_done();
            count(&mut measurements.sends, work.sent);
            count(&mut measurements.receives, work.received);
        }
        done
    }

    /// Blocked work continues when the disk is done.
    fn wants_turn_at(&self) -> Option<Time> {
        self.log.as_ref().filter(|log| log.holds_up()).and_then(DiskLog::next_sync)
    }
}

fn lines_of(group: usize) -> RegionId {
    RegionId(FIRST_REGION + 2 * group as u64)
}

fn stream_of(group: usize) -> RegionId {
    RegionId(FIRST_REGION + 2 * group as u64 + 1)
}

fn open(link: &mut SimLink, region: RegionId, words: usize) -> Result<OwnRegion, String> {
    link.open(region, words).map_err(|error| error.to_string())
}

/// Returns the geometry of a sender's memory: the papers' window is the capacity of its bytes and
/// its order ring. Without traffic there are as many places, but no bytes.
fn geometry_of(parameters: &MulticastParameters, group: usize) -> Result<Geometry, String> {
    let MulticastParameters { bytes, window, .. } = *parameters;
    // A record has whole lines.
    let record = bytes.next_multiple_of(LINE);
    let (bytes, largest) =
        if group < parameters.active { (record * window, record) } else { (1, 1) };
    Geometry::fitting(bytes, window, largest)
        .ok_or_else(|| format!("no memory fits {window} messages of {largest} bytes"))
}
