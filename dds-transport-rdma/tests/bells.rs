//! Bells between real processes: with barriers in place of fences, with fences, and mixed; and rung
//! by a thread while peers are killed.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use dds_transport_rdma::shm::ShmConfig;
use derecho_core::ids::{Peer, RegionId};
use derecho_core::link::{Bells, Evidence, Interest, Link, Parker};
use derecho_core::memory::Replica;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use support::{ChildNode, TestDomain, TestNode, config, role};

const NEWS: RegionId = RegionId(1);
const ECHO: RegionId = RegionId(2);
const ROUNDS: u64 = 30_000;
/// Round after the last one.
const END: u64 = u64::MAX;
/// Longer than any wake-up takes; a sleep of this length was not ended by a bell.
const FOR_EVER: Duration = Duration::from_secs(10);

/// Means of a node: whether it issues barriers, and whether it omits fences for peers that
/// issue them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct BarrierSettings {
    issues: bool,
    agrees: bool,
}

const ALL: [BarrierSettings; 4] = [
    BarrierSettings { issues: true, agrees: true },
    BarrierSettings { issues: true, agrees: false },
    BarrierSettings { issues: false, agrees: true },
    BarrierSettings { issues: false, agrees: false },
];

impl BarrierSettings {
    fn config(self, folder: &Path) -> ShmConfig {
        let mut config = config(folder);
        config.sleep_behind_barriers = self.issues;
        config.agree_to_barriers = self.agrees;
        config
    }
}

/// Entry point of a child process; does nothing in an ordinary run of the tests.
#[test]
fn act() {
    let Some((role, folder)) = role() else { return };
    let index: usize = role.parse().unwrap();
    echo(&mut TestNode::join(ALL[index].config(&folder)));
}

/// Stores that miss every cache, so that later stores wait in the store buffer. During that time a
/// thread without a fence and without a barrier could overlook a sleeper.
struct StoreBufferFiller(Vec<AtomicU64>);

impl StoreBufferFiller {
    fn new() -> StoreBufferFiller {
        StoreBufferFiller((0..4 << 20).map(|_| AtomicU64::new(0)).collect())
    }

    fn drop_some(&self, round: u64) {
        for step in 0..32 {
            let place = (round ^ step << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 42;
            self.0[place as usize].store(round, Ordering::Relaxed);
        }
    }
}

/// Keeps this thread on one processor, so that two processes really run at once. Left alone,
/// the kernel tends to put threads that wake each other on the same processor, where nothing
/// can go wrong.
fn stay_on(number: usize) {
    let allowed = sched_getaffinity(None).unwrap();
    let mut processors = (0..CpuSet::MAX_CPU).filter(|it| allowed.is_set(*it));
    if let Some(processor) = processors.nth(number) {
        let mut set = CpuSet::new();
        set.set(processor);
        sched_setaffinity(None, &set).unwrap();
    }
}

/// Spins for a short time that varies with the round.
fn linger(round: u64, most: u64) {
    (0..(round.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) % most).for_each(|step| {
        std::hint::black_box(step);
    });
}

/// Answers every round, woken by bells and waking by bells.
fn echo(node: &mut TestNode) {
    let own = node.link.open(ECHO, 8).unwrap();
    node.until("the news are there", |node| !node.regions.is_empty());
    let (parker, bells) = (node.link.parker(), node.link.bells());
    let news = node.replica(NEWS);
    let place = 1 << node.link.place(Peer(0)).unwrap();
    let (litter, mut round) = (StoreBufferFiller::new(), 0);
    stay_on(0);
    while round != END {
        round = wait_for(&*parker, &news, round + 1);
        litter.drop_some(round);
        own.word(0).publish(round);
        bells.before_looking();
        bells.ring(place);
        linger(round, 1500);
    }
    node.until("the other has left", |node| !node.down.is_empty());
}

/// Sleeps until a round is visible; returns the newest round.
fn wait_for(parker: &dyn Parker, seen: &Replica, round: u64) -> u64 {
    loop {
        parker.arm(Interest::News);
        let newest = seen.load(0);
        if newest < round {
            let start = Instant::now();
            parker.sleep(u64::try_from(FOR_EVER.as_nanos()).ok());
            let woken = start.elapsed() < FOR_EVER;
            assert!(woken, "a wake-up was lost in round {round}; now it is {}", seen.load(0));
        }
        parker.disarm();
        if newest >= round {
            return newest;
        }
    }
}

fn wake_each_other(ours: BarrierSettings, theirs: usize) {
    let meeting = TestDomain::new();
    let mut node = TestNode::join(ours.config(&meeting.runtime_dir()));
    let own = node.link.open(NEWS, 8).unwrap();
    let other = ChildNode::start(&theirs.to_string(), &meeting.runtime_dir());
    node.until("both see each other", |node| !node.ready.is_empty() && !node.regions.is_empty());
    let (parker, bells) = (node.link.parker(), node.link.bells());
    let answer = node.replica(ECHO);
    let place = 1 << node.link.place(Peer(0)).unwrap();
    // A thread that drives no node rings.
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let litter = StoreBufferFiller::new();
            stay_on(1);
            for round in 1..=ROUNDS {
                litter.drop_some(round);
                own.word(0).publish(round);
                bells.before_looking();
                bells.ring(place);
                // The peer is asleep, on the way there, or awake: pauses of many lengths make the
                // news meet the peer in each step towards its sleep.
                if round % 3 == 0 {
                    wait_for(&*parker, &answer, round);
                } else {
                    look_for(&answer, round);
                    linger(round / 7, 1500);
                }
            }
            own.word(0).publish(END);
            bells.ring(place);
        });
    });
    assert!(node.link.counters().rings > 0, "nobody ever slept, so nothing was tested");
    drop((answer, node));
    other.finish();
    meeting.assert_empty();
}

fn look_for(seen: &Replica, round: u64) {
    let start = Instant::now();
    let mut looks = 0_u64;
    while seen.load(0) < round {
        looks += 1;
        if looks.is_multiple_of(1000) {
            assert!(start.elapsed() < FOR_EVER, "round {round} was never answered");
            std::thread::yield_now();
        }
    }
}

#[test]
fn no_bell_is_lost_with_barriers_on_both_sides() {
    wake_each_other(ALL[0], 0);
}

#[test]
fn no_bell_is_lost_with_fences_on_both_sides() {
    wake_each_other(ALL[3], 3);
}

#[test]
fn no_bell_is_lost_with_barriers_on_only_one_side() {
    wake_each_other(ALL[0], 3);
    wake_each_other(ALL[3], 0);
}

#[test]
fn no_bell_is_lost_if_one_side_issues_barriers_and_other_agrees() {
    wake_each_other(ALL[1], 2);
    wake_each_other(ALL[2], 1);
}

#[test]
fn ringing_thread_continues_while_peers_are_killed() {
    const CYCLES: u32 = 20;
    let meeting = TestDomain::new();
    let mut node = meeting.join();
    let own = node.link.open(NEWS, 8).unwrap();
    let bells: Arc<dyn Bells> = node.link.bells();
    let (stop, rings) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                bells.ring(!0);
                rings.fetch_add(1, Ordering::Relaxed);
            }
        });
        for cycle in 0..CYCLES {
            let peer = Peer(cycle);
            // Every second new node relies on the fences of its peers.
            let index = if cycle % 2 == 0 { 0 } else { 3 };
            let mut other = ChildNode::start(&index.to_string(), &meeting.runtime_dir());
            node.until("it sees the news and shows its echo", |node| {
                let ready = node.ready.iter().any(|(it, _)| *it == peer);
                ready && node.regions.iter().any(|(it, _, _)| *it == peer)
            });
            assert_eq!(node.link.place(peer), Some(0), "the place of the last one is used again");
            let (_, _, answer) = node.regions.iter().rfind(|(it, _, _)| *it == peer).unwrap();
            let round = u64::from(cycle) + 1;
            own.word(0).publish(round);
            // The ringing thread wakes the peer.
            look_for(answer, round);
            let before = rings.load(Ordering::Relaxed);
            other.kill();
            node.until("it is down", |node| node.down.len() == cycle as usize + 1);
            assert_eq!(node.down.last(), Some(&(peer, Evidence::Certain)));
            assert_eq!(node.link.place(peer), None);
            support::until("the thread goes on", || rings.load(Ordering::Relaxed) > before + 2);
        }
        stop.store(true, Ordering::Relaxed);
    });
    drop(node);
    bells.ring(!0);
    meeting.assert_empty();
}
