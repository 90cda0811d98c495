//! Members of a subgroup over shared memory that sleep whenever they have nothing to do. Only
//! a bell for news wakes a member, or one for hints if it waits for them, or the time that it
//! has named.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use derecho_core::ids::{NodeId, Peer, RegionId, Time};
use derecho_core::link::{Interest, LinkEvent, OWN_PLACE, Sharing};
use derecho_core::machine::{Effects, Machine};
use derecho_core::memory::{LINE_WORDS, OwnRegion};
use derecho_core::multicast::ablation::Ablation;
use derecho_core::multicast::claim::SenderMemory;
use derecho_core::multicast::geometry::Geometry;
use derecho_core::multicast::inbox::{Inbox, Record};
use derecho_core::multicast::subgroup::{DeliveryGuarantee, SubgroupConfig};
use derecho_core::node::{
    ACKS_WORDS, MemberRole, Node, NodeEvent, StreamOrigin, SubgroupDefinition, SubgroupMemory,
};
use derecho_sim::Random;

const LINES: RegionId = RegionId(100);
const STREAM: RegionId = RegionId(101);

struct TestMember {
    node: Node,
    memory: SenderMemory,
    inbox: Option<Arc<Inbox>>,
    held: Option<Record>,
    goal: u64,
    taken: u64,
    by_sender: BTreeMap<usize, u64>,
    /// True if the previous turn did nothing.
    idle: bool,
    /// Maximum delay of the bells for its writes.
    budget: u64,
    /// Number of times that it slept and was woken.
    woken: u64,
}

struct TestGroup {
    members: Vec<TestMember>,
    /// Bits of the members that are awake; bells set them.
    awake: Arc<AtomicU64>,
    effects: Effects,
    now: Time,
}

impl TestGroup {
    /// Creates senders with memories of this geometry, each with a goal.
    fn new(geometry: Geometry, goals: &[u64]) -> TestGroup {
        let awake = Arc::new(AtomicU64::new(u64::MAX));
        let memory = || SenderMemory::with_nulls(OwnRegion::heap(geometry.words()), geometry);
        let regions: Vec<_> =
            goals.iter().map(|_| (OwnRegion::heap(8 * LINE_WORDS), memory())).collect();
        let mut effects = Effects::new();
        let members = goals.iter().enumerate().map(|(me, &goal)| {
            let bell = Arc::clone(&awake);
            let waker = Arc::new(move || {
                bell.fetch_or(1 << me, Ordering::Relaxed);
            });
            let acks = OwnRegion::heap(ACKS_WORDS);
            let mut node = Node::new(NodeId(me as u128), acks, waker);
            let memory = regions[me].1.clone();
            let mut members = Vec::new();
            for (other, (lines, stream)) in regions.iter().enumerate() {
                let peer = Peer(other as u32);
                let origin = if other == me { StreamOrigin::Own } else { StreamOrigin::Peer(peer) };
                let sends = Some(STREAM);
                // A member without a goal does not read either: no application would wake it.
                let reads = goals[other] > 0;
                members.push(MemberRole { origin, reads, sends, lines: LINES });
                if other == me {
                    continue;
                }
                let (id, sharing) = (NodeId(other as u128), Sharing::Shared);
                let place = Some(other as u32);
                let mut events = vec![LinkEvent::PeerUp { peer, node: id, sharing, place }];
                for (region, replica) in [(LINES, lines.replica()), (STREAM, stream.replica())] {
                    events.push(LinkEvent::RegionUp { peer, region, replica });
                    events.push(LinkEvent::RegionReady { peer, region });
                }
                events.into_iter().for_each(|event| node.handle(event, &mut effects));
            }
            let terms =
                SubgroupConfig { level: DeliveryGuarantee::Atomic, ablation: Ablation::default() };
            let definition = SubgroupDefinition { name: 3, config: terms, members };
            let share =
                SubgroupMemory { lines: regions[me].0.clone(), memory: Some(memory.clone()) };
            node.found(definition, share, &mut effects).unwrap();
            TestMember {
                node,
                memory,
                inbox: None,
                held: None,
                goal,
                taken: 0,
                by_sender: BTreeMap::new(),
                idle: false,
                budget: 0,
                woken: 0,
            }
        });
        TestGroup { members: members.collect(), awake, effects: Effects::new(), now: Time(0) }
    }

    fn ring(&self, places: u64) {
        self.awake.fetch_or(places, Ordering::Relaxed);
    }

    /// Advances time; members that want a turn by now get it.
    fn pass(&mut self, nanos: u64) {
        self.now = self.now.after(nanos);
        for at in 0..self.members.len() {
            if self.members[at].node.wants_turn_at().is_some_and(|at| at <= self.now) {
                self.ring(1 << at);
            }
        }
    }

    fn awake(&self) -> u64 {
        self.awake.load(Ordering::Relaxed) & ((1 << self.members.len()) - 1)
    }

    /// Runs one turn; after two idle turns the member sleeps.
    fn turn(&mut self, at: usize) {
        let effects = &mut self.effects;
        let member = &mut self.members[at];
        let done = member.node.turn(self.now, effects);
        let mut handled = 0;
        while let Some(event) = member.node.next_event() {
            handled += 1;
            if let NodeEvent::Founded(id) = event {
                member.inbox = member.node.add_subgroup_reader(id);
            }
        }
        let news: Vec<usize> = effects.touched().iter().map(|peer| peer.index()).collect();
        let hints: Vec<usize> = effects.hinted().iter().map(|peer| peer.index()).collect();
        effects.clear();
        if done + handled == 0 && member.idle {
            self.awake.fetch_and(!(1 << at), Ordering::Relaxed);
        }
        let member = &mut self.members[at];
        let sleeps = done + handled == 0 && member.idle;
        member.woken += u64::from(sleeps);
        member.idle = done + handled == 0;
        news.into_iter().for_each(|peer| self.ring(1 << peer));
        for peer in hints {
            if self.members[peer].node.interest() == Interest::Hints {
                self.ring(1 << peer);
            }
        }
    }

    fn commit(&mut self, at: usize) {
        let memory = self.members[at].memory.clone();
        if memory.committed() == self.members[at].goal {
            return;
        }
        match memory.claim(8) {
            Ok(claim) => {
                claim.commit(8, |_, _| {});
                let places = memory.audience();
                let budget = self.members[at].budget;
                if budget > 0 && !memory.is_half_full() {
                    // The driving thread must learn the time.
                    if memory.put_off(self.now, budget) {
                        self.ring(1 << at);
                    }
                    return;
                }
                self.ring(places);
                if places >> OWN_PLACE & 1 == 1 || memory.needs_turn() {
                    self.ring(1 << at);
                }
            }
            // A thread that waits for room drives.
            Err(_) => self.ring(1 << at),
        }
    }

    /// Takes a record as the application and releases the previous one, which wakes its node.
    fn take(&mut self, at: usize) {
        let member = &mut self.members[at];
        let record = member.inbox.as_ref().and_then(|inbox| inbox.take());
        if let Some(record) = &record {
            member.taken += 1;
            *member.by_sender.entry(record.sender()).or_default() += 1;
        }
        member.held = record;
    }

    fn total(&self) -> u64 {
        self.members.iter().map(|member| member.goal).sum()
    }
}

#[test]
fn no_member_sleeps_while_other_members_await_its_work() {
    for seed in 0..2_000 {
        let mut random = Random::new(seed);
        let entries = [2, 4, 8, 16][random.below(4) as usize];
        let geometry = Geometry::fitting(2048, entries, 64).unwrap();
        let goals: Vec<u64> = (0..random.between(2, 4))
            .map(|_| if random.one_in(2) { 0 } else { random.between(1, 60) })
            .collect();
        let mut bus = TestGroup::new(geometry, &goals);
        let mut steps = 0;
        loop {
            let at = random.below(goals.len() as u64) as usize;
            match random.below(4) {
                0 => bus.commit(at),
                1 => bus.take(at),
                _ if bus.awake() >> at & 1 == 1 => bus.turn(at),
                _ => {}
            }
            let total = bus.total();
            let written = bus.members.iter().all(|m| m.memory.committed() == m.goal);
            if written && bus.members.iter().all(|m| m.goal == 0 || m.taken == total) {
                break;
            }
            steps += 1;
            let taken: Vec<u64> = bus.members.iter().map(|member| member.taken).collect();
            assert!(
                steps < 200_000,
                "seed {seed}: {taken:?} of {goals:?}, awake {:b}",
                bus.awake()
            );
        }
        // In the end all members sleep.
        for turn in 0..100 {
            (0..goals.len()).for_each(|at| bus.take(at));
            for at in 0..goals.len() {
                if bus.awake() >> at & 1 == 1 {
                    bus.turn(at);
                }
            }
            assert!(turn < 99 || bus.awake() == 0, "seed {seed}: a member never sleeps");
        }
    }
}

/// I-202: delayed bells reach all sleeping members in time, and the order does not wait for
/// the delay.
#[test]
fn delayed_bells_ring_within_their_budget() {
    let geometry = Geometry::fitting(1 << 16, 256, 64).unwrap();
    for seed in 0..500 {
        let mut random = Random::new(seed);
        let mut bus = TestGroup::new(geometry, &[20, 20, 20]);
        let budget = random.between(1_000, 10_000);
        (bus.members[0].budget, bus.members[1].budget) = (budget, 2 * budget);
        settle(&mut bus);
        let mut committed = Vec::new();
        while bus.members.iter().any(|member| member.memory.committed() < member.goal) {
            let at = random.below(3) as usize;
            bus.commit(at);
            committed.push((
                bus.now.after(bus.members[at].budget),
                bus.members[at].memory.committed(),
                at,
            ));
            // All members do their work, and sleep.
            settle(&mut bus);
            for &(due, count, at) in &committed {
                let is_there = || (0..3).all(|reader| seen(&bus, reader, at) >= count);
                assert!(bus.now < due || is_there(), "seed {seed}: {count} of {at} are late");
            }
            bus.pass(random.below(budget));
            settle(&mut bus);
        }
        bus.pass(2 * budget);
        settle(&mut bus);
        assert!((0..3).all(|at| bus.members[at].taken == 60), "seed {seed}");
    }
}

/// A sleeping reader is woken once for many records, and at once if a member waits
/// for acknowledgements.
#[test]
fn records_within_the_latency_budget_wake_readers_together() {
    let geometry = Geometry::fitting(1 << 16, 256, 64).unwrap();
    for budget in [0, 1_000] {
        let mut bus = TestGroup::new(geometry, &[100, 1]);
        bus.members[0].budget = budget;
        settle(&mut bus);
        let before = bus.members[1].woken;
        for _ in 0..50 {
            bus.commit(0);
            bus.pass(10);
            settle(&mut bus);
        }
        let woken = bus.members[1].woken - before;
        match budget {
            0 => assert!(woken >= 50, "woken {woken} times"),
            _ => assert_eq!((woken, bus.members[1].taken), (0, 0)),
        }
        bus.pass(1_000);
        settle(&mut bus);
        assert_eq!(bus.members[1].taken, 50);
        if budget > 0 {
            // For the news, and for the consequences of the order.
            let woken = bus.members[1].woken - before;
            assert!(woken <= 5, "woken {woken} times");
            bus.commit(0);
            settle(&mut bus);
            assert_eq!(bus.members[1].taken, 50);
            bus.members[0].memory.hurry();
            bus.ring(1);
            settle(&mut bus);
            assert_eq!(bus.members[1].taken, 51);
        }
    }
}

/// Number of records that this reader has taken of that sender.
fn seen(bus: &TestGroup, reader: usize, sender: usize) -> u64 {
    bus.members[reader].by_sender.get(&sender).copied().unwrap_or(0)
}

/// Runs turns of all awake members, with takes, until all sleep.
fn settle(bus: &mut TestGroup) {
    for _ in 0..1_000 {
        for at in 0..bus.members.len() {
            while bus.awake() >> at & 1 == 1 {
                bus.turn(at);
            }
            while bus.members[at].inbox.as_ref().is_some_and(|inbox| !inbox.is_empty()) {
                bus.take(at);
            }
            bus.members[at].held = None;
        }
        if bus.awake() == 0 {
            return;
        }
    }
    panic!("a member never sleeps");
}
