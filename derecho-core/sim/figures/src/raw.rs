//! One-sided operations without a table: the baseline of the SST, and the overlap of operations
//! (table 4, figure 3).
//!
//! Owns: bare machines that post and poll. Never does: use anything of the SST.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use derecho_core::ids::{Peer, RegionId, Time};
use derecho_core::link::{Link, LinkEvent, Sharing, WordRange};
use derecho_core::machine::{Effects, Machine, Target};
use derecho_core::memory::{OwnRegion, Replica};
use derecho_sim::{Cluster, Config, CostModel, NodeIndex, Random, StopReason};

use crate::FigureError;
use crate::sst_test_bed::SstTransfer;

const REGION: RegionId = RegionId(1);

fn costed(costs: CostModel, seed: u64) -> Config {
    Config { costs, deadline: Time(u64::MAX), step_limit: u64::MAX, ..Config::costed(seed) }
}

/// One of two nodes that pass a number back and forth.
struct PingPongNode {
    kind: SstTransfer,
    own: OwnRegion,
    /// True for the node that answers; the other one begins.
    answers: bool,
    peer: Option<(Peer, Replica)>,
    ready: bool,
    reading: bool,
    /// Time at which the sent number came back.
    back: Arc<AtomicU64>,
    came_back: bool,
    sent: u64,
}

impl PingPongNode {
    fn set(&mut self, value: u64, effects: &mut Effects) {
        self.sent = value;
        self.own.word(0).publish(value);
        if let (SstTransfer::Writes, Some((peer, _))) = (self.kind, &self.peer) {
            let target = Target { peer: *peer, sharing: Sharing::Copied };
            effects.write(target, REGION, WordRange::new(0, 1));
        }
    }
}

impl Machine for PingPongNode {
    fn handle(&mut self, event: LinkEvent, _effects: &mut Effects) {
        match event {
            LinkEvent::RegionUp { peer, replica, .. } => self.peer = Some((peer, replica)),
            LinkEvent::RegionReady { .. } => self.ready = true,
            LinkEvent::ReadDone { .. } => self.reading = false,
            _ => {}
        }
    }

    fn turn(&mut self, now: Time, effects: &mut Effects) -> usize {
        if self.came_back {
            // The turn that saw the number has ended now.
            self.came_back = false;
            self.back.store(now.0, Ordering::Relaxed);
        }
        let Some((peer, replica)) = &self.peer else { return 0 };
        let (peer, seen) = (*peer, replica.load(0));
        let mut done = 0;
        if self.answers && seen > self.sent {
            self.set(seen, effects);
            done = 1;
        } else if !self.answers && seen == self.sent && seen > 0 {
            self.sent = 0;
            self.came_back = true;
            done = 1;
        }
        if self.kind == SstTransfer::Reads && !self.reading {
            self.reading = true;
            effects.read(peer, REGION, WordRange::new(0, 1));
        }
        done
    }
}

/// Returns the times of round trips of detection between two nodes, in nanoseconds, each after a
/// random wait.
pub(crate) fn round_trips(
    costs: CostModel,
    kind: SstTransfer,
    seed: u64,
    rounds: usize,
    wait: u64,
) -> Result<Vec<f64>, FigureError> {
    let mut cluster = Cluster::new(costed(costs, seed));
    let back = Arc::new(AtomicU64::new(0));
    for answers in [false, true] {
        let back = back.clone();
        cluster.add_node(|link| {
            // A line, of which one word is used.
            let Ok(own) = link.open(REGION, 8) else { return Vec::new() };
            let (peer, ready) = (None, false);
            let (reading, came_back) = (false, false);
            vec![PingPongNode {
                kind,
                own,
                answers,
                peer,
                ready,
                reading,
                back,
                came_back,
                sent: 0,
            }]
        });
    }
    let met = |cluster: &Cluster<PingPongNode>| {
        (0..2).all(|node| {
            let player = cluster.machine(NodeIndex(node), 0);
            player.peer.is_some() && player.ready
        })
    };
    expect(cluster.run_until_met(met), "two nodes meet")?;
    let mut random = Random::new(seed);
    let mut times = Vec::with_capacity(rounds);
    for round in 1..=rounds as u64 {
        let start = cluster.now().after(random.between(1, wait));
        cluster.inject(NodeIndex(0), 0, start, move |player: &mut PingPongNode, _, effects| {
            player.set(round, effects);
        });
        back.store(0, Ordering::Relaxed);
        let stop = cluster.run_until_met(|_| back.load(Ordering::Relaxed) > 0);
        expect(stop, "a number comes back")?;
        times.push(Time(back.load(Ordering::Relaxed)).since(start) as f64);
    }
    Ok(times)
}

fn expect(stop: StopReason, what: &str) -> Result<(), FigureError> {
    if stop == StopReason::Reached {
        return Ok(());
    }
    Err(FigureError::Stuck(format!("waiting until {what}: {stop:?}")))
}

/// Node that posts one operation to each peer on request.
struct PostingNode {
    own: OwnRegion,
    peers: Vec<(Peer, Replica)>,
    ready: usize,
    /// Number of completed reads.
    complete: usize,
    /// Time at which the last of them was seen to be complete.
    ended: Arc<AtomicU64>,
    expected: usize,
}

impl Machine for PostingNode {
    fn handle(&mut self, event: LinkEvent, _effects: &mut Effects) {
        match event {
            LinkEvent::RegionUp { peer, replica, .. } => self.peers.push((peer, replica)),
            LinkEvent::RegionReady { .. } => self.ready += 1,
            LinkEvent::ReadDone { .. } => self.complete += 1,
            _ => {}
        }
    }

    fn turn(&mut self, now: Time, _effects: &mut Effects) -> usize {
        if self.expected > 0 && self.complete == self.expected {
            (self.expected, self.complete) = (0, 0);
            self.ended.store(now.0, Ordering::Relaxed);
            return 1;
        }
        0
    }
}

/// Returns the mean time of `parallel` operations to as many nodes at once, in nanoseconds: for
/// reads until the poll that sees the last completion, for writes until the last is visible at
/// its reader.
pub(crate) fn parallel(
    costs: CostModel,
    kind: SstTransfer,
    seed: u64,
    parallel: usize,
    bytes: usize,
    rounds: usize,
) -> Result<f64, FigureError> {
    let words = bytes.div_ceil(8);
    let mut cluster = Cluster::new(costed(costs, seed));
    let ended = Arc::new(AtomicU64::new(0));
    for _ in 0..=parallel {
        let ended = ended.clone();
        cluster.add_node(|link| {
            let Ok(own) = link.open(REGION, words) else { return Vec::new() };
            let (peers, ready, complete, expected) = (Vec::new(), 0, 0, 0);
            vec![PostingNode { own, peers, ready, complete, ended, expected }]
        });
    }
    let met = |cluster: &Cluster<PostingNode>| {
        (0..=parallel).all(|node| {
            let poster = cluster.machine(NodeIndex(node), 0);
            poster.peers.len() == parallel && poster.ready == parallel
        })
    };
    expect(cluster.run_until_met(met), "all nodes meet")?;
    let mut random = Random::new(seed);
    let mut sum = 0;
    for round in 1..=rounds as u64 {
        let start = cluster.now().after(random.between(20_000, 30_000));
        ended.store(0, Ordering::Relaxed);
        cluster.inject(NodeIndex(0), 0, start, move |poster: &mut PostingNode, _, effects| {
            poster.post(kind, words, round, effects);
        });
        let landed = |cluster: &Cluster<PostingNode>| {
            (1..=parallel).all(|node| cluster.machine(NodeIndex(node), 0).sees(round, words))
        };
        let stop = cluster.run_until_met(|cluster| match kind {
            SstTransfer::Reads => ended.load(Ordering::Relaxed) > 0,
            SstTransfer::Writes => landed(cluster),
        });
        expect(stop, "operations end")?;
        let end = match kind {
            SstTransfer::Reads => Time(ended.load(Ordering::Relaxed)),
            SstTransfer::Writes => cluster.now(),
        };
        sum += end.since(start);
    }
    Ok(sum as f64 / rounds as f64)
}

impl PostingNode {
    fn post(&mut self, kind: SstTransfer, words: usize, round: u64, effects: &mut Effects) {
        let range = WordRange::new(0, words);
        for &(peer, _) in &self.peers {
            match kind {
                SstTransfer::Reads => effects.read(peer, REGION, range),
                SstTransfer::Writes => {
                    effects.write(Target { peer, sharing: Sharing::Copied }, REGION, range);
                }
            }
        }
        for word in 0..words {
            self.own.word(word).publish(round);
        }
        if kind == SstTransfer::Reads {
            self.expected = self.peers.len();
        }
    }

    /// Whether some peer's last word has this value here; only node 0 writes.
    fn sees(&self, round: u64, words: usize) -> bool {
        self.peers.iter().any(|(_, replica)| replica.load(words - 1) == round)
    }
}

/// Times of consecutive writes, in nanoseconds.
pub(crate) struct WriteTimes {
    /// Time from the beginning to the last post.
    pub(crate) post: f64,
    /// Time from the last post to its visibility.
    pub(crate) arrival: f64,
}

/// Measures a number of writes of one size to one peer, one after the other.
pub(crate) fn writes(
    costs: CostModel,
    seed: u64,
    bytes: usize,
    count: u64,
) -> Result<WriteTimes, FigureError> {
    let words = bytes.div_ceil(8);
    let mut cluster = Cluster::new(costed(costs, seed));
    for _ in 0..2 {
        cluster.add_node(|link| {
            let Ok(own) = link.open(REGION, words) else { return Vec::new() };
            let ended = Arc::new(AtomicU64::new(0));
            let (peers, ready, complete, expected) = (Vec::new(), 0, 0, 0);
            vec![PostingNode { own, peers, ready, complete, ended, expected }]
        });
    }
    let met = |cluster: &Cluster<PostingNode>| {
        (0..2).all(|node| {
            let poster = cluster.machine(NodeIndex(node), 0);
            poster.peers.len() == 1 && poster.ready == 1
        })
    };
    expect(cluster.run_until_met(met), "two nodes meet")?;
    let before = cluster.counters(NodeIndex(0)).writes;
    cluster.run_until(cluster.now().after(10_000));
    let landings = cluster.network().events();
    let start = cluster.now().after(1);
    cluster.inject(NodeIndex(0), 0, start, move |poster: &mut PostingNode, _, effects| {
        (0..count).for_each(|_| poster.post(SstTransfer::Writes, words, 1, effects));
    });
    let posted = |cluster: &Cluster<PostingNode>| cluster.counters(NodeIndex(0)).writes - before;
    expect(cluster.run_until_met(|cluster| posted(cluster) == count), "all is posted")?;
    let last = cluster.now();
    let landed = |cluster: &Cluster<PostingNode>| {
        cluster.network().events() == landings + count
            && cluster.machine(NodeIndex(1), 0).sees(1, words)
    };
    expect(cluster.run_until_met(landed), "all is visible")?;
    let post = last.since(start) as f64;
    Ok(WriteTimes { post, arrival: cluster.now().since(last) as f64 })
}

/// Node that copies bytes in each of a number of turns.
struct CopyingNode {
    from: Vec<u8>,
    to: Vec<u8>,
    turns: u64,
}

impl Machine for CopyingNode {
    fn handle(&mut self, _event: LinkEvent, _effects: &mut Effects) {}

    fn turn(&mut self, _now: Time, effects: &mut Effects) -> usize {
        if self.turns == 0 {
            return 0;
        }
        self.turns -= 1;
        self.to.copy_from_slice(&self.from);
        effects.work().copied_bytes += self.from.len() as u64;
        1
    }
}

/// Returns the time of a turn that copies `bytes` bytes, in nanoseconds.
pub(crate) fn copies(costs: CostModel, seed: u64, bytes: u64) -> Result<f64, FigureError> {
    const TURNS: u64 = 4;
    let mut cluster = Cluster::new(costed(costs, seed));
    let node = cluster.add_node(|_| {
        let bytes = bytes as usize;
        vec![CopyingNode { from: vec![1; bytes], to: vec![0; bytes], turns: TURNS }]
    });
    let done = |cluster: &Cluster<CopyingNode>| cluster.machine(node, 0).turns == 0;
    expect(cluster.run_until_met(done), "everything is copied")?;
    let usage = cluster.thread_use(node, 0);
    Ok(usage.busy_ns as f64 / usage.turns as f64)
}
