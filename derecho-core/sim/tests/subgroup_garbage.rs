//! A member of a subgroup that writes nonsense: into its lines and into its stream, any word at any
//! time, and whole entries that look correct.
//!
//! Three nodes over shared memory, in two subgroups: one of all three, and one of the two good
//! ones. The good ones never panic, do a bounded amount of work in a turn, come to rest, and
//! continue in their own subgroup; their messages to each other are complete in both.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::VecDeque;
use std::sync::Arc;

use derecho_core::ids::{NodeId, Peer, RegionId, Time};
use derecho_core::link::{Evidence, LinkEvent, Sharing};
use derecho_core::machine::{Effects, Machine};
use derecho_core::memory::{LINE_WORDS, OwnRegion, Replica};
use derecho_core::multicast::ablation::Ablation;
use derecho_core::multicast::claim::SenderMemory;
use derecho_core::multicast::entry::{RecordExtent, RingEntry};
use derecho_core::multicast::inbox::{Inbox, Record};
use derecho_core::multicast::subgroup::{DeliveryGuarantee, SUBGROUP_LINES, SubgroupConfig};
use derecho_core::node::{
    ACKS_WORDS, EpochDescription, EpochMember, MemberRole, Node, NodeEvent, StreamEnd,
    StreamOrigin, SubgroupDefinition, SubgroupId, SubgroupMemory,
};
use derecho_sim::world::streams::{content_of, tiny};
use proptest::prelude::*;

const GOOD: [usize; 2] = [0, 1];
const EVIL: usize = 2;
/// Subgroup of all nodes, and that of the good ones.
const ALL: usize = 0;
const PURE: usize = 1;
/// Name of their first epoch.
const NAME: u64 = 5;
/// Upper bound of the work of a turn with such small memories: each ring once, null runs as one
/// step, and some steps of settling.
const MOST_WORK: usize = 400;
/// Number of turns within which everything settles.
const PATIENCE: usize = 200;
/// Number of records that an application takes after a turn.
const TAKES: usize = 16;

/// A node's part in a subgroup.
struct SubgroupPart {
    id: Option<SubgroupId>,
    lines: OwnRegion,
    memory: SenderMemory,
    written: u64,
    inbox: Option<Arc<Inbox>>,
    /// Next expected number of each sender.
    next: [u64; 3],
    held: VecDeque<Record>,
    log: Vec<(usize, u64)>,
}

struct TestMember {
    node: Node,
    events: VecDeque<LinkEvent>,
    effects: Effects,
    parts: Vec<SubgroupPart>,
    faults: usize,
    stalled: usize,
}

/// Returns a node's handle for a peer, which is that peer's index.
fn peer(index: usize) -> Peer {
    Peer(index as u32)
}

fn lines_of(subgroup: usize) -> RegionId {
    RegionId(100 + subgroup as u64 * 2)
}

fn stream_of(subgroup: usize) -> RegionId {
    RegionId(101 + subgroup as u64 * 2)
}

fn members_of(subgroup: usize) -> usize {
    if subgroup == ALL { 3 } else { 2 }
}

struct TestGroup {
    members: Vec<TestMember>,
    /// Number of held records above which some are released.
    hold: usize,
    /// True if applications take nothing.
    deaf: bool,
}

impl TestGroup {
    fn new(level: DeliveryGuarantee, hold: usize) -> TestGroup {
        let mut members: Vec<TestMember> = (0..3)
            .map(|index| {
                let acks = OwnRegion::heap(ACKS_WORDS);
                let node = Node::new(NodeId(index as u128), acks, Arc::new(|| {}));
                let parts = (0..2).filter(|&subgroup| index < members_of(subgroup)).map(|_| {
                    let stream = OwnRegion::heap(tiny().words());
                    SubgroupPart {
                        id: None,
                        lines: OwnRegion::heap(SUBGROUP_LINES * LINE_WORDS),
                        memory: SenderMemory::with_nulls(stream, tiny()),
                        written: 0,
                        inbox: None,
                        next: [0; 3],
                        held: VecDeque::new(),
                        log: Vec::new(),
                    }
                });
                let parts = parts.collect();
                let (events, effects) = (VecDeque::new(), Effects::new());
                TestMember { node, events, effects, parts, faults: 0, stalled: 0 }
            })
            .collect();
        for at in 0..3 {
            for about in (0..3).filter(|&about| about != at) {
                let (peer, node, sharing) = (peer(about), NodeId(about as u128), Sharing::Shared);
                let up = LinkEvent::PeerUp { peer, node, sharing, place: None };
                let mut events = vec![up];
                for (subgroup, part) in members[about].parts.iter().enumerate() {
                    let regions = [
                        (lines_of(subgroup), part.lines.replica()),
                        (stream_of(subgroup), part.memory.replica()),
                    ];
                    for (region, replica) in regions {
                        events.push(LinkEvent::RegionUp { peer, region, replica });
                        events.push(LinkEvent::RegionReady { peer, region });
                    }
                }
                members[at].events.extend(events);
            }
        }
        let mut bus = TestGroup { members, hold, deaf: false };
        for at in 0..3 {
            let TestMember { node, events, effects, parts, .. } = &mut bus.members[at];
            events.drain(..).for_each(|event| node.handle(event, effects));
            for (subgroup, part) in parts.iter_mut().enumerate() {
                let members = (0..members_of(subgroup)).map(|member| MemberRole {
                    origin: if member == at {
                        StreamOrigin::Own
                    } else {
                        StreamOrigin::Peer(peer(member))
                    },
                    reads: true,
                    sends: Some(stream_of(subgroup)),
                    lines: lines_of(subgroup),
                });
                let terms = SubgroupConfig { level, ablation: Ablation::default() };
                let definition =
                    SubgroupDefinition { name: NAME, config: terms, members: members.collect() };
                let share =
                    SubgroupMemory { lines: part.lines.clone(), memory: Some(part.memory.clone()) };
                part.id = node.found(definition, share, effects);
                assert!(part.id.is_some());
            }
        }
        bus
    }

    /// Runs one turn of a node and of its application. Returns the amount of work.
    fn turn(&mut self, at: usize) -> Result<usize, TestCaseError> {
        let member = &mut self.members[at];
        let TestMember { node, events, effects, .. } = member;
        events.drain(..).for_each(|event| node.handle(event, effects));
        let done = node.turn(Time(0), effects);
        effects.clear();
        prop_assert!(done <= MOST_WORK, "a turn did {done} things");
        while let Some(event) = member.node.next_event() {
            match event {
                NodeEvent::Founded(id) => {
                    let part = member.parts.iter_mut().find(|part| part.id == Some(id)).unwrap();
                    part.inbox = member.node.add_subgroup_reader(id);
                }
                NodeEvent::Faulty { peer, fault } => {
                    prop_assert_eq!(
                        peer.index(),
                        EVIL,
                        "a good node is reported as faulty: {}",
                        fault
                    );
                    member.faults += 1;
                }
                NodeEvent::Stalled(id) => {
                    prop_assert_eq!(Some(id), member.parts[ALL].id);
                    member.stalled += 1;
                }
                _ => {}
            }
        }
        self.take(at)?;
        Ok(done)
    }

    fn take(&mut self, at: usize) -> Result<(), TestCaseError> {
        if self.deaf {
            return Ok(());
        }
        for (subgroup, part) in self.members[at].parts.iter_mut().enumerate() {
            let Some(inbox) = &part.inbox else { continue };
            for _ in 0..TAKES {
                let Some(record) = inbox.take() else { break };
                let (from, number) = (record.sender(), record.number());
                if from == EVIL {
                    // The content is unknown, but all of it must be readable.
                    let _: u64 = record.bytes().iter().map(|byte| u64::from(*byte)).sum();
                } else {
                    prop_assert_eq!(number, part.next[from], "a record is lost or duplicated");
                    prop_assert_eq!(record.bytes(), content_of(tag_of(from, subgroup), number));
                    part.next[from] += 1;
                }
                part.log.push((from, number));
                part.held.push_back(record);
            }
            while part.held.len() > self.hold {
                part.held.pop_front();
            }
        }
        Ok(())
    }

    fn write(&mut self, at: usize, subgroup: usize) {
        let Some(part) = self.members[at].parts.get_mut(subgroup) else { return };
        let content = content_of(tag_of(at, subgroup), part.written);
        if let Ok(mut claim) = part.memory.claim(content.len()) {
            claim.bytes().copy_from_slice(&content);
            claim.commit(content.len(), |_, _| {});
            part.written += 1;
        }
    }

    fn change(&mut self, step: &GarbageStep) {
        let SubgroupPart { lines, memory, .. } = &self.members[EVIL].parts[ALL];
        let (lines, stream) = (lines.replica(), memory.replica());
        match *step {
            GarbageStep::Line(word, how) => how.apply(&lines, word as usize % lines.words()),
            // Nearly all important words are at the start: the header and the ring.
            GarbageStep::Stream(word, how) => how.apply(&stream, word as usize % (LINE_WORDS * 6)),
            GarbageStep::Entry(index, entry) => {
                let words = entry.encode(index);
                let first = tiny().entry_word(index);
                store(&stream, first, words[0]);
                store(&stream, first + 1, words[1]);
            }
            _ => {}
        }
    }

    /// Runs turns of all three nodes.
    fn rounds(&mut self, count: usize) {
        for node in (0..count * 3).map(|turn| turn % 3) {
            self.turn(node).unwrap();
        }
    }

    /// Continues the subgroup of all with the good nodes only.
    fn goes_on(&mut self) -> Result<(), TestCaseError> {
        let origin = |at: usize, of: usize| match at == of {
            true => StreamOrigin::Own,
            false => StreamOrigin::Peer(peer(of)),
        };
        let mut trim = [u64::MAX; 3];
        for at in GOOD {
            let TestMember { node, parts, .. } = &mut self.members[at];
            let id = parts[ALL].id.unwrap();
            node.wedge_subgroup(id);
            let (epoch, reach) = node.progress(id).unwrap();
            prop_assert_eq!(epoch, 0);
            for (of, trim) in trim.iter_mut().enumerate() {
                let reach = reach.iter().find(|reach| reach.origin == origin(at, of)).unwrap();
                *trim = reach.received.min(*trim);
            }
        }
        for at in GOOD {
            let TestMember { node, parts, effects, .. } = &mut self.members[at];
            let id = parts[ALL].id.unwrap();
            let end =
                |of| StreamEnd { origin: origin(at, of), stream: stream_of(ALL), entry: trim[of] };
            let ends: Vec<StreamEnd> = (0..3).map(end).collect();
            prop_assert!(node.finish(id, &ends), "node {} does not finish at {:?}", at, trim);
            let seats = GOOD.map(|of| {
                let sends = Some(stream_of(ALL));
                let (origin, lines) = (origin(at, of), lines_of(ALL));
                let member = MemberRole { origin, reads: true, sends, lines };
                EpochMember { slot: of, role: member, start: None }
            });
            let epoch = EpochDescription { number: 1, name: NAME + 1, members: seats.into() };
            prop_assert!(node.next_epoch(id, epoch, None, effects));
        }
        for at in GOOD {
            self.turn(at)?;
            self.write(at, ALL);
        }
        self.settles()?;
        for at in GOOD {
            for from in GOOD {
                let written = self.members[from].parts[ALL].written;
                prop_assert_eq!(self.members[at].parts[ALL].next[from], written);
            }
        }
        Ok(())
    }

    /// Checks that the good nodes come to rest, and that their own subgroup delivers everything
    /// that is written.
    fn settles(&mut self) -> Result<(), TestCaseError> {
        self.hold = 0;
        for node in GOOD {
            let goal = self.members[node].parts[PURE].written + 30;
            let mut turns = 0;
            while self.members[node].parts[PURE].written < goal {
                self.write(node, PURE);
                for node in GOOD {
                    self.turn(node)?;
                }
                turns += 1;
                prop_assert!(turns < PATIENCE, "node {} never gets room", node);
            }
        }
        let mut idle = 0;
        for _ in 0..PATIENCE {
            let done = self.turn(0)? + self.turn(1)?;
            idle = if done == 0 { idle + 1 } else { 0 };
        }
        prop_assert!(idle > PATIENCE / 2, "the nodes never come to rest");
        for at in GOOD {
            for from in GOOD {
                let written = self.members[from].parts[PURE].written;
                prop_assert_eq!(self.members[at].parts[PURE].next[from], written);
            }
        }
        Ok(())
    }
}

fn tag_of(from: usize, subgroup: usize) -> u64 {
    (from * 2 + subgroup) as u64
}

/// Stores to a word of the evil node.
fn store(region: &Replica, word: usize, value: u64) {
    // SAFETY: the memory is on the heap, and this thread, the only one, has no slice of a claim or
    // of a record here.
    unsafe { region.word(word) }.publish(value);
}

#[derive(Clone, Copy, Debug)]
enum WordChange {
    Value(u64),
    Bit(u8),
    Add(u8),
}

impl WordChange {
    fn apply(self, region: &Replica, word: usize) {
        let was = region.load(word);
        let value = match self {
            WordChange::Value(value) => value,
            WordChange::Bit(bit) => was ^ 1 << (bit % 64),
            WordChange::Add(more) => was.wrapping_add(u64::from(more)),
        };
        store(region, word, value);
    }
}

#[derive(Clone, Debug)]
enum GarbageStep {
    Turn(usize),
    Write(usize, usize),
    Line(u32, WordChange),
    Stream(u32, WordChange),
    Entry(u64, RingEntry),
}

fn change() -> impl Strategy<Value = WordChange> {
    prop_oneof![
        any::<u64>().prop_map(WordChange::Value),
        any::<u8>().prop_map(WordChange::Bit),
        any::<u8>().prop_map(WordChange::Add),
    ]
}

fn entry() -> impl Strategy<Value = RingEntry> {
    let position = prop_oneof![4 => 0_u32..64, 1 => any::<u32>().prop_map(|p| p >> 2)];
    let length = prop_oneof![4 => 0_u32..256, 1 => any::<u32>()];
    let run = prop::sample::select(vec![1_u32, 2, 7, 1 << 20, u32::MAX]);
    prop_oneof![
        (position, length)
            .prop_map(|(position, length)| RingEntry::Message(RecordExtent { position, length })),
        run.prop_map(RingEntry::Nulls),
        // The name of the subgroups' first epoch, or any other.
        prop_oneof![Just(NAME as u32 + 1), 1..u32::MAX].prop_map(RingEntry::End),
    ]
}

fn step() -> impl Strategy<Value = GarbageStep> {
    prop_oneof![
        5 => (0..2_usize).prop_map(GarbageStep::Turn),
        3 => (0..2_usize, 0..2_usize).prop_map(|(node, subgroup)| GarbageStep::Write(node, subgroup)),
        2 => (any::<u32>(), change()).prop_map(|(word, how)| GarbageStep::Line(word, how)),
        1 => (any::<u32>(), change()).prop_map(|(word, how)| GarbageStep::Stream(word, how)),
        3 => (0..40_u64, entry()).prop_map(|(index, entry)| GarbageStep::Entry(index, entry)),
    ]
}

/// Behaves for some rounds; then the evil node acts arbitrarily, and no longer as a node.
fn run(
    level: DeliveryGuarantee,
    rounds: usize,
    steps: &[GarbageStep],
) -> Result<TestGroup, TestCaseError> {
    let mut bus = TestGroup::new(level, 6);
    for _ in 0..rounds {
        for node in 0..3 {
            bus.write(node, ALL);
            bus.write(node, PURE);
            bus.turn(node)?;
        }
    }
    for step in steps {
        match step {
            GarbageStep::Turn(node) => {
                bus.turn(*node)?;
            }
            GarbageStep::Write(node, subgroup) => bus.write(*node, *subgroup),
            other => bus.change(other),
        }
    }
    Ok(bus)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 3000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn correct_members_survive_arbitrary_writes_of_another_member(
        ordered in any::<bool>(),
        rounds in 0_usize..12,
        steps in prop::collection::vec(step(), 1..150),
    ) {
        let level = if ordered { DeliveryGuarantee::Atomic } else { DeliveryGuarantee::Unordered };
        let mut bus = run(level, rounds, &steps)?;
        // The evil one is still there.
        bus.settles()?;
        if ordered {
            let logs = GOOD.map(|node| bus.members[node].parts[PURE].log.clone());
            prop_assert_eq!(&logs[0], &logs[1], "the order of the good nodes' own subgroup");
        }
        for node in GOOD {
            let evidence = Evidence::Certain;
            let down = LinkEvent::PeerDown { peer: peer(EVIL), evidence };
            bus.members[node].events.push_back(down);
        }
        bus.settles()?;
        for node in GOOD {
            // With a nonsense header they have never begun.
            let begun = bus.members[node].parts[ALL].inbox.is_some();
            prop_assert_eq!(bus.members[node].stalled, usize::from(begun));
        }
        if GOOD.iter().all(|&node| bus.members[node].parts[ALL].inbox.is_some()) {
            bus.goes_on()?;
        }
    }
}

/// No member answers a null, and a run is passed in one step, whatever its length.
#[test]
fn endless_run_of_nulls_costs_no_work_per_null() {
    let mut bus = run(DeliveryGuarantee::Atomic, 0, &[]).unwrap();
    bus.rounds(10);
    for member in &mut bus.members {
        let id = member.parts[ALL].id.unwrap();
        assert!(member.node.declare_silence(id, u64::MAX));
    }
    bus.rounds(10);
    for member in &bus.members {
        let id = member.parts[ALL].id.unwrap();
        assert_eq!(member.node.delivered(id), 3 * u64::from(u32::MAX));
    }
}

#[test]
fn member_with_invalid_entries_is_reported_once_and_excluded() {
    for level in [DeliveryGuarantee::Unordered, DeliveryGuarantee::Atomic] {
        let mut bus = run(level, 8, &[]).unwrap();
        bus.rounds(20);
        let sent: u64 = bus.members[EVIL].parts[ALL].memory.committed();
        // A correct stamp, and a position behind the end; for whichever entry is next.
        for index in sent..sent + 8 {
            let extent = RecordExtent { position: (1 << 30) - 1, length: 64 };
            bus.change(&GarbageStep::Entry(index, RingEntry::Message(extent)));
        }
        // The evil one's own node would find its memory broken.
        for node in GOOD {
            bus.turn(node).unwrap();
        }
        assert!(GOOD.iter().all(|&node| bus.members[node].faults == 1), "{level:?}");
        assert!(GOOD.iter().all(|&node| bus.members[node].stalled == 1), "{level:?}");
        bus.settles().unwrap();
        assert!(GOOD.iter().all(|&node| bus.members[node].faults == 1), "{level:?}");
    }
}

#[test]
fn member_with_invalid_acknowledgements_is_reported_once_and_excluded() {
    let mut bus = run(DeliveryGuarantee::Atomic, 8, &[]).unwrap();
    let lines = bus.members[EVIL].parts[ALL].lines.clone();
    (0..lines.words()).for_each(|word| lines.word(word).publish(0x1234_5678_9abc_def0));
    bus.write(0, ALL);
    bus.settles().unwrap();
    assert_eq!(bus.members[0].faults, 1);
    assert_eq!(bus.members[0].stalled, 1);
}

/// A member that sends far more than its memory holds fills the queue that it shares with the
/// others. It is blamed, the others are not, and nothing of theirs is lost.
#[test]
fn only_the_member_that_overruns_a_queue_is_blamed() {
    for level in [DeliveryGuarantee::Unordered, DeliveryGuarantee::Atomic] {
        let mut bus = run(level, 4, &[]).unwrap();
        bus.rounds(20);
        bus.deaf = true;
        let mut index = bus.members[EVIL].parts[ALL].memory.committed();
        for round in 0..100 {
            for _ in 0..14 {
                let extent = RecordExtent { position: 0, length: 1 };
                bus.change(&GarbageStep::Entry(index, RingEntry::Message(extent)));
                index += 1;
            }
            // The evil one gives no room back, so the others say little.
            for node in GOOD {
                if round % 3 == 0 {
                    bus.write(node, ALL);
                }
                bus.turn(node).unwrap();
            }
        }
        bus.deaf = false;
        bus.settles().unwrap();
        for at in GOOD {
            if level == DeliveryGuarantee::Unordered {
                assert_eq!(bus.members[at].faults, 1);
                for from in GOOD {
                    let written = bus.members[from].parts[ALL].written;
                    assert_eq!(bus.members[at].parts[ALL].next[from], written, "{at} of {from}");
                }
            }
        }
    }
}
