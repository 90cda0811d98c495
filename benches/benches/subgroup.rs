//! Cost of the predicates of a subgroup to a member: members over heap memory in one thread,
//! without a link, so that a post is only an entry in a list. Source of the prices in the
//! simulator's file `ours.toml`.
#![allow(missing_docs, reason = "criterion's macros make undocumented items")]

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use derecho_core::ids::{NodeId, Peer, RegionId, Time};
use derecho_core::link::{Barrier, LinkEvent, Sharing};
use derecho_core::machine::{Effects, Machine};
use derecho_core::memory::{LINE_WORDS, OwnRegion};
use derecho_core::multicast::ablation::Ablation;
use derecho_core::multicast::claim::SenderMemory;
use derecho_core::multicast::geometry::Geometry;
use derecho_core::multicast::inbox::Inbox;
use derecho_core::multicast::subgroup::{DeliveryGuarantee, SubgroupConfig};
use derecho_core::node::{
    CHANGES, CHANGES_WORDS, MemberRole, Node, NodeEvent, StreamOrigin, SubgroupDefinition,
    SubgroupMemory,
};

/// Bytes of a record; the contents are irrelevant where nothing is copied.
const LENGTH: usize = 64;
/// Messages committed in a row.
const BATCH: usize = 64;

struct BenchMember {
    node: Node,
    effects: Effects,
    lines: Vec<OwnRegion>,
    memories: Vec<SenderMemory>,
    changes: OwnRegion,
    inbox: Option<Arc<Inbox>>,
}

impl BenchMember {
    fn turn(&mut self) -> usize {
        self.turn_at(Time(0))
    }

    fn turn_at(&mut self, now: Time) -> usize {
        let done = self.node.turn(now, &mut self.effects);
        self.effects.clear();
        done
    }

    fn take_all(&self) {
        let Some(inbox) = &self.inbox else { return };
        // SAFETY: one thread does all of this.
        let taking = unsafe { inbox.consumer_unchecked() };
        while let Some(record) = taking.take() {
            black_box(record.number());
        }
    }
}

/// Barrier of a single thread, which has always passed it.
struct SingleThreadBarrier;

impl Barrier for SingleThreadBarrier {
    fn issue(&self) {}
}

/// All members of some subgroups, in each of which the first members send.
struct BenchGroup(Vec<BenchMember>);

fn lines_of(group: usize) -> RegionId {
    RegionId(16 + 2 * group as u64)
}

fn stream_of(group: usize) -> RegionId {
    RegionId(17 + 2 * group as u64)
}

impl BenchGroup {
    fn new(members: usize, senders: usize, groups: usize) -> BenchGroup {
        let geometry = Geometry::fitting(1 << 16, 128, LENGTH).expect("a usual shape");
        let member = |index: usize| {
            let acks = OwnRegion::heap(LINE_WORDS);
            let changes = OwnRegion::heap(CHANGES_WORDS);
            let node = Node::new(NodeId(index as u128 + 1), acks, Arc::new(|| ()));
            let mut node = node.with_changes(changes.clone(), Some(Arc::new(SingleThreadBarrier)));
            let lines = || OwnRegion::heap(members * LINE_WORDS);
            let mut memory = || {
                let region = OwnRegion::heap(geometry.words());
                node.count_changes(SenderMemory::with_nulls(region, geometry))
            };
            let sends = if index < senders { groups } else { 0 };
            let memories = (0..sends).map(|_| memory()).collect();
            BenchMember {
                node,
                effects: Effects::new(),
                lines: (0..groups).map(|_| lines()).collect(),
                memories,
                changes,
                inbox: None,
            }
        };
        let mut all = BenchGroup((0..members).map(member).collect());
        for me in 0..members {
            for other in (0..members).filter(|&other| other != me) {
                all.introduce(me, other, groups);
            }
        }
        for me in 0..members {
            all.found(me, members, senders, groups);
        }
        // Two rounds, because the first turns tell the others that a member has begun.
        for _ in 0..2 {
            all.rest(Time(0));
        }
        // Further turns until the streams are quiet; time stands still from there on.
        for second in 1..4 {
            all.rest(Time(second * 1_000_000_000));
        }
        all
    }

    fn introduce(&mut self, me: usize, other: usize, groups: usize) {
        let peer = Peer(other as u32);
        let mut events = vec![LinkEvent::PeerUp {
            peer,
            node: NodeId(other as u128 + 1),
            sharing: Sharing::Copied,
            place: None,
        }];
        let replica = self.0[other].changes.replica();
        events.push(LinkEvent::RegionUp { peer, region: CHANGES, replica });
        events.push(LinkEvent::RegionReady { peer, region: CHANGES });
        for group in 0..groups {
            let replica = self.0[other].lines[group].replica();
            events.push(LinkEvent::RegionUp { peer, region: lines_of(group), replica });
            if let Some(memory) = self.0[other].memories.get(group) {
                let replica = memory.replica();
                events.push(LinkEvent::RegionUp { peer, region: stream_of(group), replica });
            }
            events.push(LinkEvent::RegionReady { peer, region: lines_of(group) });
            events.push(LinkEvent::RegionReady { peer, region: stream_of(group) });
        }
        let BenchMember { node, effects, .. } = &mut self.0[me];
        events.into_iter().for_each(|event| node.handle(event, effects));
    }

    fn found(&mut self, me: usize, members: usize, senders: usize, groups: usize) {
        let terms =
            SubgroupConfig { level: DeliveryGuarantee::Atomic, ablation: Ablation::default() };
        for group in 0..groups {
            let membership = |index: usize| MemberRole {
                origin: if index == me {
                    StreamOrigin::Own
                } else {
                    StreamOrigin::Peer(Peer(index as u32))
                },
                reads: true,
                sends: (index < senders).then(|| stream_of(group)),
                lines: lines_of(group),
            };
            let members = (0..members).map(membership).collect();
            let charter = SubgroupDefinition { name: group as u64, config: terms, members };
            let BenchMember { node, effects, lines, memories, .. } = &mut self.0[me];
            let memory = memories.get(group).cloned();
            let share = SubgroupMemory { lines: lines[group].clone(), memory };
            node.found(charter, share, effects).expect("it is a member, and brings what it says");
        }
    }

    /// Runs turns until no member has work, and the readers of the first subgroup.
    fn rest(&mut self, now: Time) {
        while self.0.iter_mut().map(|member| member.turn_at(now)).sum::<usize>() > 0 {}
        for member in &mut self.0 {
            while let Some(event) = member.node.next_event() {
                if let NodeEvent::Founded(id) = event
                    && member.inbox.is_none()
                {
                    member.inbox = member.node.add_subgroup_reader(id);
                }
            }
        }
    }

    fn commit(&self) {
        for _ in 0..BATCH {
            let claim = self.0[0].memories[0].claim(LENGTH).expect("everything was taken");
            claim.commit(LENGTH, |_, _| ());
        }
    }

    /// Sends one batch from the first member to all; returns the time of the given step.
    fn batch(&mut self, step: MessageStep) -> Duration {
        let mut took = Duration::ZERO;
        let mut time = |is: MessageStep, act: &mut dyn FnMut()| {
            let start = Instant::now();
            act();
            if is == step {
                took = start.elapsed();
            }
        };
        time(MessageStep::Commit, &mut || self.commit());
        time(MessageStep::Send, &mut || assert!(self.0[0].turn() > 0));
        // All others except the last one, so that not all have received the batch yet.
        let last = self.0.len() - 1;
        time(MessageStep::Receive, &mut || assert!(self.0[1].turn() > 0));
        self.0[2..=last].iter_mut().for_each(|member| assert!(member.turn() > 0));
        time(MessageStep::Deliver, &mut || assert!(self.0[1].turn() > 0));
        while self.0.iter_mut().map(BenchMember::turn).sum::<usize>() > 0 {
            self.0.iter().for_each(BenchMember::take_all);
        }
        self.0.iter().for_each(BenchMember::take_all);
        while self.0.iter_mut().map(BenchMember::turn).sum::<usize>() > 0 {}
        took
    }
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum MessageStep {
    Commit,
    Send,
    Receive,
    Deliver,
}

fn prices(criterion: &mut Criterion) {
    let mut bench = criterion.benchmark_group("subgroup");
    bench.measurement_time(Duration::from_secs(2)).warm_up_time(Duration::from_millis(300));
    for (members, senders, groups) in [
        (2, 1, 1),
        (2, 1, 51),
        (2, 2, 1),
        (2, 2, 51),
        (16, 1, 1),
        (16, 1, 51),
        (16, 16, 1),
        (16, 16, 51),
    ] {
        let mut all = BenchGroup::new(members, senders, groups);
        let name = format!("idle turn, {groups} subgroups, {senders} senders");
        bench.bench_function(BenchmarkId::new(name, members), |bencher| {
            bencher.iter(|| all.0[0].turn());
        });
    }
    bench.throughput(Throughput::Elements(BATCH as u64));
    for step in [MessageStep::Commit, MessageStep::Send, MessageStep::Receive, MessageStep::Deliver]
    {
        for members in [3, 16] {
            let mut all = BenchGroup::new(members, 1, 1);
            let name = format!("{step:?} {BATCH} messages");
            bench.bench_function(BenchmarkId::new(name, members), |bencher| {
                bencher.iter_custom(|rounds| (0..rounds).map(|_| all.batch(step)).sum());
            });
        }
    }
    bench.throughput(Throughput::Bytes(10240));
    // Sixteen times the size of a core's cache: messages come from and go to memory.
    let (from, mut to) = (vec![1_u8; 16 << 20], vec![0_u8; 16 << 20]);
    let mut bell = 0;
    bench.bench_function("copy 10 KB", |bencher| {
        bencher.iter(|| {
            bell = (bell + 10240) % (from.len() - 10240);
            to[bell..bell + 10240].copy_from_slice(black_box(&from[bell..bell + 10240]));
        });
    });
    bench.finish();
}

/// A turn without work, and a message through one subgroup, by the number of subgroups over the
/// same three members, all of which send in all subgroups.
fn activity(criterion: &mut Criterion) {
    let mut bench = criterion.benchmark_group("activity");
    bench.measurement_time(Duration::from_secs(1)).warm_up_time(Duration::from_millis(300));
    for groups in [1, 2, 5, 10, 20, 50, 500] {
        let mut all = BenchGroup::new(3, 3, groups);
        bench.bench_function(BenchmarkId::new("idle turn", groups), |bencher| {
            bencher.iter(|| all.0[0].turn());
        });
        bench.bench_function(BenchmarkId::new("64 messages received", groups), |bencher| {
            bencher
                .iter_custom(|rounds| (0..rounds).map(|_| all.batch(MessageStep::Receive)).sum());
        });
    }
    bench.finish();
}

criterion_group!(benches, prices, activity);
criterion_main!(benches);
