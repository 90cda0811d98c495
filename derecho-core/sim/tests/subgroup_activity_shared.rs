//! Many subgroups over shared memory: members sleep and only bells wake them, in any order of
//! commits, turns and releases; no turn of its sender announces a commit.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use derecho_core::ids::{NodeId, Peer, RegionId, Time};
use derecho_core::link::{Barrier, Interest, LinkEvent, OWN_PLACE, Sharing};
use derecho_core::machine::{Effects, Machine};
use derecho_core::memory::{LINE_WORDS, OwnRegion};
use derecho_core::multicast::ablation::Ablation;
use derecho_core::multicast::changes::{HEADER_MARK, MOST_STREAMS};
use derecho_core::multicast::claim::SenderMemory;
use derecho_core::multicast::geometry::Geometry;
use derecho_core::multicast::inbox::{Inbox, Record};
use derecho_core::multicast::subgroup::{DeliveryGuarantee, SubgroupConfig};
use derecho_core::node::{
    ACKS_WORDS, CHANGES, CHANGES_WORDS, MemberRole, Node, NodeEvent, StreamOrigin,
    SubgroupDefinition, SubgroupMemory,
};
use derecho_sim::Random;

/// Barrier of a single thread, which has always passed it.
struct SingleThreadBarrier;

impl Barrier for SingleThreadBarrier {
    fn issue(&self) {}
}

/// A member's part in one subgroup.
struct SubgroupPart {
    memory: SenderMemory,
    inbox: Option<Arc<Inbox>>,
    held: Vec<Record>,
    taken: u64,
}

struct TestMember {
    node: Node,
    parts: Vec<SubgroupPart>,
    /// True if the previous turn did nothing.
    idle: bool,
}

struct TestGroup {
    members: Vec<TestMember>,
    /// Bits of the members that are awake; bells set them.
    awake: Arc<AtomicU64>,
    effects: Effects,
    now: Time,
    committed: Vec<u64>,
}

/// Regions of a member: its counts, and for each subgroup its lines, beside the stream of its part.
struct MemberRegions {
    changes: OwnRegion,
    lines: Vec<OwnRegion>,
}

fn lines_of(at: usize) -> RegionId {
    RegionId(16 + 2 * at as u64)
}

fn stream_of(at: usize) -> RegionId {
    RegionId(17 + 2 * at as u64)
}

/// Mark that a header names, if not its own.
type HeaderMark = fn(usize) -> Option<u64>;

impl TestGroup {
    fn new(members: usize, groups: usize, ablation: Ablation, names: HeaderMark) -> TestGroup {
        let geometry = Geometry::fitting(2048, 8, 64).unwrap();
        let awake = Arc::new(AtomicU64::new(u64::MAX));
        let lines = |_| OwnRegion::heap(members * LINE_WORDS);
        let regions: Vec<MemberRegions> = (0..members)
            .map(|_| MemberRegions {
                changes: OwnRegion::heap(CHANGES_WORDS),
                lines: (0..groups).map(lines).collect(),
            })
            .collect();
        let mut bus = TestGroup {
            members: Vec::new(),
            awake: Arc::clone(&awake),
            effects: Effects::new(),
            now: Time(0),
            committed: vec![0; groups],
        };
        for (me, own) in regions.iter().enumerate() {
            let bell = Arc::clone(&awake);
            let waker = Arc::new(move || {
                bell.fetch_or(1 << me, Ordering::Relaxed);
            });
            let node = Node::new(NodeId(me as u128), OwnRegion::heap(ACKS_WORDS), waker);
            let mut node =
                node.with_changes(own.changes.clone(), Some(Arc::new(SingleThreadBarrier)));
            let parts = (0..groups).map(|at| {
                let stream = OwnRegion::heap(geometry.words());
                let memory = node.count_changes(SenderMemory::with_nulls(stream, geometry));
                let shown = memory.replica();
                if let Some(word) = names(at) {
                    // SAFETY: the memory is on the heap, and no slice of it exists yet.
                    unsafe { shown.word(HEADER_MARK) }.publish(word);
                }
                SubgroupPart { memory, inbox: None, held: Vec::new(), taken: 0 }
            });
            let parts = parts.collect();
            bus.members.push(TestMember { node, parts, idle: false });
        }
        for me in 0..members {
            bus.introduce(me, &regions);
            bus.found(me, &regions[me], ablation);
        }
        bus
    }

    fn introduce(&mut self, me: usize, regions: &[MemberRegions]) {
        let TestGroup { members, effects, .. } = self;
        for (other, opened) in regions.iter().enumerate().filter(|(other, _)| *other != me) {
            let parts = &members[other].parts;
            let streams: Vec<_> = parts.iter().map(|part| part.memory.replica()).collect();
            let node = &mut members[me].node;
            let peer = Peer(other as u32);
            let (id, sharing) = (NodeId(other as u128), Sharing::Shared);
            let place = Some(other as u32);
            node.handle(LinkEvent::PeerUp { peer, node: id, sharing, place }, effects);
            let mut open = |region, replica| {
                node.handle(LinkEvent::RegionUp { peer, region, replica }, effects);
                node.handle(LinkEvent::RegionReady { peer, region }, effects);
            };
            open(CHANGES, opened.changes.replica());
            for (at, (lines, stream)) in opened.lines.iter().zip(streams).enumerate() {
                open(lines_of(at), lines.replica());
                open(stream_of(at), stream);
            }
        }
    }

    fn found(&mut self, me: usize, own: &MemberRegions, ablation: Ablation) {
        let count = self.members.len();
        let TestMember { node, parts, .. } = &mut self.members[me];
        for (at, part) in parts.iter().enumerate() {
            let members = (0..count).map(|other| MemberRole {
                origin: if other == me {
                    StreamOrigin::Own
                } else {
                    StreamOrigin::Peer(Peer(other as u32))
                },
                reads: true,
                sends: Some(stream_of(at)),
                lines: lines_of(at),
            });
            let terms = SubgroupConfig { level: DeliveryGuarantee::Atomic, ablation };
            let definition =
                SubgroupDefinition { name: at as u64, config: terms, members: members.collect() };
            let memory = Some(part.memory.clone());
            let share = SubgroupMemory { lines: own.lines[at].clone(), memory };
            node.found(definition, share, &mut self.effects).unwrap();
        }
    }

    fn ring(&self, places: u64) {
        self.awake.fetch_or(places, Ordering::Relaxed);
    }

    fn is_awake(&self, at: usize) -> bool {
        let due = self.members[at].node.wants_turn_at().is_some_and(|due| due <= self.now);
        due || self.awake.load(Ordering::Relaxed) >> at & 1 == 1
    }

    /// Runs one turn; after two idle turns the member sleeps.
    fn turn(&mut self, at: usize) {
        let TestGroup { members, effects, now, .. } = self;
        let member = &mut members[at];
        let done = member.node.turn(*now, effects);
        let mut handled = 0;
        while let Some(event) = member.node.next_event() {
            handled += 1;
            match event {
                NodeEvent::Founded(id) => {
                    // Subgroups are founded in their order.
                    let part = member.parts.iter_mut().find(|part| part.inbox.is_none());
                    part.unwrap().inbox = member.node.add_subgroup_reader(id);
                }
                NodeEvent::Faulty { fault, .. } => panic!("{fault}"),
                _ => {}
            }
        }
        let news: Vec<usize> = effects.touched().iter().map(|peer| peer.index()).collect();
        let hints: Vec<usize> = effects.hinted().iter().map(|peer| peer.index()).collect();
        effects.clear();
        if done + handled == 0 && member.idle {
            self.awake.fetch_and(!(1 << at), Ordering::Relaxed);
        }
        self.members[at].idle = done + handled == 0;
        news.into_iter().for_each(|peer| self.ring(1 << peer));
        for peer in hints {
            if self.members[peer].node.interest() == Interest::Hints {
                self.ring(1 << peer);
            }
        }
    }

    fn commit(&mut self, at: usize, group: usize) {
        let memory = self.members[at].parts[group].memory.clone();
        match memory.claim(8) {
            Ok(claim) => {
                claim.commit(8, |_, _| {});
                self.committed[group] += 1;
                let places = memory.audience();
                self.ring(places);
                if places >> OWN_PLACE & 1 == 1 {
                    self.ring(1 << at);
                }
            }
            // A thread that waits for room drives.
            Err(_) => self.ring(1 << at),
        }
    }

    /// Takes all available records as the application and releases some, which wakes its node.
    fn take(&mut self, at: usize, keep: usize) {
        for part in &mut self.members[at].parts {
            while let Some(record) = part.inbox.as_ref().and_then(|inbox| inbox.take()) {
                part.taken += 1;
                part.held.push(record);
            }
            while part.held.len() > keep {
                part.held.remove(0);
            }
        }
    }

    /// Runs turns of all awake members until none is awake, and lets time pass.
    fn settle(&mut self, keep: usize) {
        for _ in 0..8 {
            for at in 0..self.members.len() {
                self.take(at, keep);
            }
            for turn in 0.. {
                assert!(turn < 1_000, "a member never sleeps");
                let awake: Vec<usize> =
                    (0..self.members.len()).filter(|&at| self.is_awake(at)).collect();
                awake.iter().for_each(|&at| self.turn(at));
                if awake.is_empty() {
                    break;
                }
            }
            self.now = self.now.after(1_100_000);
        }
        // Members are not woken to go to rest: the next turn does that.
        (0..self.members.len()).for_each(|at| self.turn(at));
    }

    fn looked_at(&self) -> Vec<usize> {
        self.members.iter().map(|member| member.node.subgroups_looked_at()).collect()
    }

    fn assert_complete(&self, seed: u64) {
        for (index, member) in self.members.iter().enumerate() {
            let taken: Vec<u64> = member.parts.iter().map(|part| part.taken).collect();
            assert_eq!(taken, self.committed, "seed {seed}: member {index}");
        }
    }

    /// Lets all members act, with long and short times in between.
    fn run(&mut self, seed: u64, steps: usize) {
        let mut random = Random::new(seed);
        let groups = self.committed.len() as u64;
        let mut likings = vec![0; self.members.len()];
        for _ in 0..steps {
            let at = random.below(self.members.len() as u64) as usize;
            match random.below(6) {
                0 => {
                    if random.one_in(6) {
                        likings[at] = random.below(groups) as usize;
                    }
                    self.commit(at, likings[at]);
                }
                1 => self.take(at, random.below(3) as usize),
                2 if random.one_in(8) => {
                    self.now = self.now.after(random.between(1, 2_500_000));
                }
                _ if self.is_awake(at) => self.turn(at),
                _ => {}
            }
        }
    }
}

#[test]
fn commit_wakes_resting_members() {
    for seed in 0..300 {
        let mut bus = TestGroup::new(3, 8, Ablation::default(), |_| None);
        for part in 0..4 {
            bus.run(seed * 4 + part, 600);
            // Records that applications still hold keep only the members awake that wait for them.
            bus.settle(0);
            bus.assert_complete(seed);
            assert_eq!(bus.looked_at(), [0, 0, 0], "seed {seed}");
        }
    }
}

/// The reader of a held record rests; its sender checks for the release.
#[test]
fn sender_sees_release_of_a_record_held_by_resting_reader() {
    let mut bus = TestGroup::new(2, 8, Ablation::default(), |_| None);
    bus.settle(0);
    bus.commit(0, 5);
    bus.settle(1);
    bus.assert_complete(0);
    assert_eq!(bus.looked_at(), [1, 0]);
    // Both members hold the record, because the sender has a reader too.
    bus.settle(0);
    assert_eq!(bus.looked_at(), [0, 0]);
    assert!(bus.members.iter().all(|member| !member.node.awaits_others()));
}

#[test]
fn few_subgroups_never_rest() {
    let mut bus = TestGroup::new(2, 4, Ablation::default(), |_| None);
    bus.settle(0);
    assert_eq!(bus.looked_at(), [4, 4]);
    assert!(bus.members.iter().all(|member| member.node.wants_turn_at().is_none()));
}

#[test]
fn no_member_rests_if_activity_tracking_is_switched_off() {
    let ablation = Ablation { activity: true, ..Ablation::default() };
    let mut bus = TestGroup::new(2, 8, ablation, |_| None);
    bus.settle(0);
    assert_eq!(bus.looked_at(), [8, 8]);
}

/// A stream whose header names nonsense is always looked at; one that names another stream's mark
/// may be seen late, and no other stream.
#[test]
fn header_with_invalid_mark_number_harms_no_other_stream() {
    let names: [HeaderMark; 4] = [
        |_| Some(0),
        |_| Some(u64::MAX),
        |_| Some(MOST_STREAMS as u64 + 1),
        |at| (at % 2 == 1).then_some(1),
    ];
    for (case, names) in names.into_iter().enumerate() {
        let mut bus = TestGroup::new(2, 8, Ablation::default(), names);
        bus.run(case as u64, 2_000);
        bus.settle(0);
        if case < 3 {
            bus.assert_complete(case as u64);
            assert_eq!(bus.looked_at(), [8, 8]);
        }
        for (index, member) in bus.members.iter().enumerate() {
            for at in (0..8).step_by(2) {
                assert_eq!(member.parts[at].taken, bus.committed[at], "{case}: {index} in {at}");
            }
        }
    }
}
