//! The cluster: threads that turn machines in virtual time over a simulated network.
//!
//! Owns: each thread's CPU clock, the moment of every post, and idle threads, whose turns are not
//! run one by one. Never does: protocol, or anything that the production driver does not.
//!
//! ```text
//!   turn begins                                             turn ends = next turn begins
//!   |-- turn_ns --|-- work --|-- post_ns --|-- work --|-- post_ns --|-- completions --|
//!   memory is read and                     ^ first post executed    ^ second post
//!   stored to: all at once                   (the source is read later still)
//! ```
//! A machine reads and stores at the moment its turn begins, so a turn sees nothing that lands
//! during it. A turn that did nothing would be repeated until something arrives; such a thread
//! sleeps instead, and wakes at the first moment at which one of those turns would have begun:
//!
//! ```text
//!   idle turn |----|----|----|----|  something lands in the middle of an earlier turn
//!                          x     ^   and is seen by the next turn
//! ```

mod clock;
mod thread;
mod turn_cost;

use std::collections::BTreeMap;

use derecho_core::ids::Time;
use derecho_core::link::{Evidence, Interest, Link, LinkCounters, LinkError, Sharing};
use derecho_core::machine::{Effects, Machine, Post, PostKind};

use crate::cost::CostModel;
use crate::link::{Adversary, EvidenceRules, NetworkMode, NodeIndex, SimLink, SimNetwork};
use crate::network::{DriverEvent, NetworkStep, RungPeers};
pub use clock::Clock;
pub use thread::ThreadUse;
use thread::{SimThread, TurnOutcome};
use turn_cost::{close_regions, rung_by, settle};

/// Setup of a cluster.
#[derive(Clone, Debug)]
pub struct Config {
    /// Seed of every random choice.
    pub seed: u64,
    /// Behaviour of the network.
    pub mode: NetworkMode,
    /// Whether nodes share memory or have copies of it.
    pub sharing: Sharing,
    /// Prices; those of the CPU apply in every mode.
    pub costs: CostModel,
    /// Reports of faults to nodes.
    pub evidence: EvidenceRules,
    /// Maximum delay, in nanoseconds, of a thread's first turn after its node was added. The delay
    /// is random, so that the nodes do not poll in step.
    pub start_spread_ns: u64,
    /// Time at which every run ends.
    pub deadline: Time,
    /// Maximum number of steps of a cluster over its life. A step is one event: a word lands, a
    /// turn, a post.
    pub step_limit: u64,
}

impl Config {
    /// Returns the setup with a network as adverse as the contract of the link allows.
    pub fn adversarial(seed: u64) -> Config {
        Config { mode: NetworkMode::Adversarial(Adversary::default()), ..Config::costed(seed) }
    }

    /// Returns the setup with the prices of the papers.
    pub fn costed(seed: u64) -> Config {
        Config {
            seed,
            mode: NetworkMode::Costed,
            sharing: Sharing::Copied,
            costs: CostModel::default(),
            evidence: EvidenceRules::default(),
            start_spread_ns: 1_000,
            deadline: Time(60_000_000_000),
            step_limit: 100_000_000,
        }
    }
}

/// Reason why a run stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StopReason {
    /// The requested condition is reached.
    Reached,
    /// No event is left.
    Quiet,
    /// The deadline of the configuration has come.
    Deadline,
    /// The step limit of the configuration is reached.
    Steps,
}

/// Action of an application thread: acts on a machine, and returns the time of its next act.
type Action<M> = Box<dyn FnMut(&mut M, Time, &mut Effects) -> Option<Time>>;

struct PendingAction<M> {
    thread: usize,
    action: Action<M>,
}

struct SimNode<M> {
    link: SimLink,
    threads: Vec<SimThread<M>>,
    running: bool,
    paused_since: Option<u64>,
    /// Nanoseconds for which the node stood still, over all completed pauses.
    stood: u64,
    /// Factor by which the node is slowed down.
    pace: u64,
    clock: Clock,
    /// Posts of the node's turns whose moment has not come.
    unposted: usize,
    /// Number of turns run, and of posts.
    acts: u64,
    /// Events that came due while the node was paused, with their moments.
    held: Vec<(u64, DriverEvent)>,
}

/// Nodes, their threads and the network between them.
pub struct Cluster<M: Machine> {
    network: SimNetwork,
    config: Config,
    nodes: Vec<SimNode<M>>,
    actions: BTreeMap<u64, PendingAction<M>>,
    next_action: u64,
    action_effects: Effects,
    steps: u64,
    refused: u64,
}

impl<M: Machine> Cluster<M> {
    /// Creates a cluster without nodes, at time zero.
    pub fn new(config: Config) -> Cluster<M> {
        let Config { seed, mode, sharing, costs, evidence, .. } = config.clone();
        let network = SimNetwork::new(seed, mode, costs, evidence);
        if sharing == Sharing::Shared {
            network.share_memory();
        }
        Cluster {
            network,
            config,
            nodes: Vec::new(),
            actions: BTreeMap::new(),
            next_action: 0,
            action_effects: Effects::new(),
            steps: 0,
            refused: 0,
        }
    }

    // Queries.

    /// Returns the current time.
    pub fn now(&self) -> Time {
        self.network.now()
    }

    /// Returns the network, for faults of links and for counters.
    pub fn network(&self) -> &SimNetwork {
        &self.network
    }

    /// Returns a node's end of the network. A machine may keep one to open and close regions.
    pub fn link(&self, node: NodeIndex) -> SimLink {
        self.nodes[node.0].link.clone()
    }

    /// Number of nodes ever added.
    pub fn nodes(&self) -> usize {
        self.nodes.len()
    }

    /// Whether a node has neither crashed nor left. A paused node counts as running.
    pub fn is_running(&self, node: NodeIndex) -> bool {
        self.nodes[node.0].running
    }

    /// Returns the machine of a thread, also of a node that is gone.
    pub fn machine(&self, node: NodeIndex, thread: usize) -> &M {
        &self.nodes[node.0].threads[thread].machine
    }

    /// Returns the machine of a thread, for tests that inspect it. To carry out its effects,
    /// use [`inject`](Cluster::inject).
    pub fn machine_mut(&mut self, node: NodeIndex, thread: usize) -> &mut M {
        &mut self.nodes[node.0].threads[thread].machine
    }

    /// Returns how a thread has spent its time.
    pub fn thread_use(&self, node: NodeIndex, thread: usize) -> ThreadUse {
        self.nodes[node.0].threads[thread].usage
    }

    /// Returns the counters of a node's posts.
    pub fn counters(&self, node: NodeIndex) -> LinkCounters {
        self.nodes[node.0].link.counters()
    }

    /// Number of landed writes and reads, arrived control messages, faults, and actions of
    /// application threads; idle turns never count.
    pub fn events(&self) -> u64 {
        self.network.events() + self.next_action
    }

    /// Number of steps taken; see [`Config::step_limit`].
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Whether a node's threads stand still.
    pub fn is_paused(&self, node: NodeIndex) -> bool {
        self.nodes[node.0].paused_since.is_some()
    }

    /// Number of posts of a node's turns whose moment has not come: the node is in the middle
    /// of sending.
    pub fn unposted(&self, node: NodeIndex) -> usize {
        self.nodes[node.0].unposted
    }

    /// Number of turns run and posts of a node: the moments between which a crash of the node makes
    /// a difference.
    pub fn acts(&self, node: NodeIndex) -> u64 {
        self.nodes[node.0].acts
    }

    /// Number of posts that the link refused because peer or region had gone since the turn began.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Returns [`SimNetwork::trace_hash`].
    pub fn trace_hash(&self) -> u64 {
        self.network.trace_hash()
    }

    // Actions.

    /// Adds a node. `build` opens its regions and returns one machine for each of its threads; all
    /// of them share the link and receive all its events.
    pub fn add_node(&mut self, build: impl FnOnce(&mut SimLink) -> Vec<M>) -> NodeIndex {
        let mut link = self.network.add_node();
        let node = link.index();
        let threads: Vec<SimThread<M>> = build(&mut link).into_iter().map(SimThread::new).collect();
        let count = threads.len();
        self.nodes.push(SimNode {
            link,
            threads,
            running: true,
            paused_since: None,
            stood: 0,
            pace: 1,
            clock: Clock::default(),
            unposted: 0,
            acts: 0,
            held: Vec::new(),
        });
        for thread in 0..count {
            let spread = self.config.start_spread_ns;
            let begin = self.network.with(|network| {
                let now = network.now();
                now + network.random().between(0, spread)
            });
            self.drive(begin, DriverEvent::Turn { node: node.0, thread, number: 0, stood: 0 });
        }
        node
    }

    /// Schedules one act of an application thread of the node on the machine of `thread`, at `at`.
    pub fn inject(
        &mut self,
        node: NodeIndex,
        thread: usize,
        at: Time,
        action: impl FnOnce(&mut M, Time, &mut Effects) + 'static,
    ) {
        let mut action = Some(action);
        self.inject_again(node, thread, at, move |machine, now, effects| {
            if let Some(action) = action.take() {
                action(machine, now, effects);
            }
            None
        });
    }

    /// Schedules acts of an application thread of the node on the machine of `thread`, at `at` and
    /// whenever the action asks again, but not before the CPU time of its last act is over.
    pub fn inject_again(
        &mut self,
        node: NodeIndex,
        thread: usize,
        at: Time,
        action: impl FnMut(&mut M, Time, &mut Effects) -> Option<Time> + 'static,
    ) {
        assert!(thread < self.nodes[node.0].threads.len(), "node {} has no such thread", node.0);
        let number = self.next_action;
        self.next_action += 1;
        self.actions.insert(number, PendingAction { thread, action: Box::new(action) });
        self.drive(at.0, DriverEvent::Action { node: node.0, action: number });
    }

    /// Crashes a node at this moment, possibly within a turn. See [`SimNetwork::crash`].
    pub fn crash(&mut self, node: NodeIndex) {
        self.nodes[node.0].running = false;
        self.network.crash(node);
    }

    /// Makes a node say goodbye and stop. See [`SimNetwork::leave`].
    pub fn leave(&mut self, node: NodeIndex) {
        self.nodes[node.0].running = false;
        self.network.leave(node);
    }

    /// Pauses the node's threads. Writes of peers still land in its memory, and its own
    /// posts continue.
    pub fn pause(&mut self, node: NodeIndex) {
        let now = self.now().0;
        self.nodes[node.0].paused_since.get_or_insert(now);
        self.network.show_halted(node, true);
    }

    /// Continues the node's threads where they stopped.
    pub fn resume(&mut self, node: NodeIndex) {
        let now = self.now().0;
        let state = &mut self.nodes[node.0];
        let Some(since) = state.paused_since.take() else { return };
        self.network.show_halted(node, false);
        let pause = now - since;
        state.stood += pause;
        for thread in &mut state.threads {
            thread.shift(pause);
        }
        let stood_now = state.stood;
        for (due, event) in std::mem::take(&mut state.held) {
            let at = match &event {
                // An application's act waits for a moment, turns and posts for CPU time.
                DriverEvent::Action { .. } => now,
                DriverEvent::Turn { stood, .. }
                | DriverEvent::Post { stood, .. }
                | DriverEvent::Ring { stood, .. } => due + (stood_now - stood),
            };
            self.drive(at, event.planned_after(stood_now));
        }
        self.wake(node.0);
    }

    /// Slows down everything that the node's threads do by this factor from now on.
    pub fn set_pace(&mut self, node: NodeIndex, pace: u64) {
        self.nodes[node.0].pace = pace.max(1);
    }

    /// Sets the clock that the node's machines see. Call before their first turn, because the times
    /// that they ask for are kept in the cluster's time.
    pub fn set_clock(&mut self, node: NodeIndex, clock: Clock) {
        self.nodes[node.0].clock = clock;
    }

    /// Cuts both directions between two nodes. See [`SimNetwork::cut`] for one direction.
    pub fn cut(&mut self, a: NodeIndex, b: NodeIndex) {
        self.network.cut_both(a, b);
    }

    /// Heals both directions.
    pub fn heal(&mut self, a: NodeIndex, b: NodeIndex) {
        self.network.heal_both(a, b);
    }

    /// Causes a false suspicion: see [`SimNetwork::conclude`].
    pub fn conclude(&mut self, at: NodeIndex, about: NodeIndex, evidence: Evidence, after: u64) {
        self.network.conclude(at, about, evidence, after);
    }

    /// Runs until `at`, and lets the time pass if nothing happens.
    pub fn run_until(&mut self, at: Time) -> StopReason {
        let end = at.min(self.config.deadline);
        while self.next_at().is_some_and(|next| next <= end.0) {
            if !self.step() {
                return StopReason::Steps;
            }
        }
        self.network.with(|network| network.idle_until(end.0));
        if end == at { StopReason::Reached } else { StopReason::Deadline }
    }

    /// Runs until `condition` holds; checks it after each step.
    pub fn run_until_met(&mut self, mut condition: impl FnMut(&Cluster<M>) -> bool) -> StopReason {
        loop {
            if condition(self) {
                return StopReason::Reached;
            }
            match self.next_at() {
                None => return StopReason::Quiet,
                Some(next) if next > self.config.deadline.0 => return StopReason::Deadline,
                Some(_) if !self.step() => return StopReason::Steps,
                Some(_) => {}
            }
        }
    }

    /// Runs until `condition` holds, checked after each step, but not beyond `at`. Returns whether
    /// it holds.
    pub fn run_until_or(
        &mut self,
        at: Time,
        mut condition: impl FnMut(&Cluster<M>) -> bool,
    ) -> bool {
        let end = at.min(self.config.deadline);
        while !condition(self) {
            if self.next_at().is_none_or(|next| next > end.0) || !self.step() {
                self.network.with(|network| network.idle_until(end.0));
                return condition(self);
            }
        }
        true
    }

    // Execution.

    fn next_at(&self) -> Option<u64> {
        self.network.with(|network| network.next_at())
    }

    fn drive(&self, at: u64, event: DriverEvent) {
        self.network.with(|network| network.drive(at, event));
    }

    /// Takes one step; returns false if the step limit is reached.
    fn step(&mut self) -> bool {
        if self.steps == self.config.step_limit {
            return false;
        }
        self.steps += 1;
        match self.network.step() {
            None | Some(NetworkStep::Unseen) => {}
            Some(NetworkStep::Arrived(node)) => self.wake(node),
            Some(NetworkStep::Rung { node, hint }) => self.hear(node, hint),
            Some(NetworkStep::Driver(event)) => self.dispatch(event),
        }
        true
    }

    fn dispatch(&mut self, event: DriverEvent) {
        let now = self.now().0;
        let node = match &event {
            DriverEvent::Turn { node, .. }
            | DriverEvent::Post { node, .. }
            | DriverEvent::Ring { node, .. }
            | DriverEvent::Action { node, .. } => *node,
        };
        let state = &mut self.nodes[node];
        if !state.running {
            if let DriverEvent::Action { action, .. } = event {
                self.actions.remove(&action);
            }
            return;
        }
        if state.paused_since.is_some() {
            state.held.push((now, event));
            return;
        }
        // Turns and posts planned before a pause wait for the CPU time that was left, also those
        // that come due after the pause. Otherwise the posts of one turn would overtake each other.
        if let DriverEvent::Turn { stood, .. }
        | DriverEvent::Post { stood, .. }
        | DriverEvent::Ring { stood, .. } = &event
            && *stood < state.stood
        {
            let (at, stood) = (now + (state.stood - stood), state.stood);
            return self.drive(at, event.planned_after(stood));
        }
        match event {
            DriverEvent::Turn { thread, number, .. } => self.turn(node, thread, number),
            DriverEvent::Post { post, .. } => {
                state.unposted -= 1;
                state.acts += 1;
                self.post(node, post);
            }
            DriverEvent::Ring { rung, .. } => state.link.ring(&rung.news, &rung.hints),
            DriverEvent::Action { action, .. } => self.act(node, action),
        }
    }

    /// Handles a ring: sleeping threads wake; for a hint, only those that want hints.
    fn hear(&mut self, node: usize, hint: bool) {
        let threads = &self.nodes[node].threads;
        let wants = |thread: &SimThread<M>| thread.machine.interest() == Interest::Hints;
        if !hint || threads.iter().any(wants) {
            self.wake(node);
        }
    }

    /// Schedules the rings for peers with news, where memory is shared.
    fn ring_at(&mut self, node: usize, at: u64, rung: RungPeers) {
        if !rung.news.is_empty() || !rung.hints.is_empty() {
            let stood = self.nodes[node].stood;
            self.drive(at, DriverEvent::Ring { node, rung, stood });
        }
    }

    /// Handles an arrival: sleeping threads take the next turn that they would have taken.
    fn wake(&mut self, node: usize) {
        let now = self.now().0;
        let state = &mut self.nodes[node];
        if !state.running || state.paused_since.is_some() {
            return;
        }
        for thread in 0..state.threads.len() {
            if let Some((at, number)) = state.threads[thread].wake(now) {
                let event = DriverEvent::Turn { node, thread, number, stood: state.stood };
                self.network.with(|network| network.drive(at, event));
            }
        }
    }

    fn turn(&mut self, node: usize, thread: usize, number: u64) {
        let now = self.now();
        let SimNode { link, threads, pace, clock, acts, stood, .. } = &mut self.nodes[node];
        let stood = *stood;
        if !threads[thread].is_due(number) {
            return;
        }
        *acts += 1;
        link.poll(&mut |event| {
            for thread in threads.iter_mut() {
                thread.inbox.push_back(event.clone());
            }
        });
        let turning = &mut threads[thread];
        let mut done = turning.inbox.len();
        while let Some(event) = turning.inbox.pop_front() {
            turning.machine.handle(event, &mut turning.effects);
        }
        done += turning.machine.turn(clock.reading(now), &mut turning.effects);
        close_regions(link, &mut turning.effects);
        let rung = rung_by(&self.config, &turning.effects);
        let costs = &self.config.costs;
        let turn_cost =
            settle(costs, *pace, now.0, costs.turn_ns, &mut turning.effects, |at, post| {
                self.network
                    .with(|network| network.drive(at, DriverEvent::Post { node, post, stood }));
            });
        // A turn without duration would be repeated forever at one moment.
        let took = (turn_cost.end - now.0).max(1);
        turning.usage.turns += 1;
        turning.usage.busy_ns += took;
        turning.usage.posting_ns += turn_cost.posting;
        let unposted = turn_cost.posts;
        let rest =
            if done == 0 && turn_cost.posts == 0 { TurnOutcome::Idle } else { TurnOutcome::Busy };
        let wanted = turning.machine.wants_turn_at().map(|at| clock.moment(at).0);
        let next = turning.end_turn(now.0, took, rest, wanted);
        self.nodes[node].unposted += unposted;
        self.ring_at(node, turn_cost.end, rung);
        if let Some((at, number)) = next {
            self.drive(at, DriverEvent::Turn { node, thread, number, stood });
        }
    }

    fn act(&mut self, node: usize, action: u64) {
        let now = self.now();
        let Some(mut pending) = self.actions.remove(&action) else { return };
        let SimNode { link, threads, pace, stood, .. } = &mut self.nodes[node];
        let stood = *stood;
        let (machine, pace) = (&mut threads[pending.thread].machine, *pace);
        let again = (pending.action)(machine, now, &mut self.action_effects);
        close_regions(link, &mut self.action_effects);
        let rung = rung_by(&self.config, &self.action_effects);
        let costs = &self.config.costs;
        let turn_cost = settle(costs, pace, now.0, 0.0, &mut self.action_effects, |at, post| {
            self.network.with(|network| network.drive(at, DriverEvent::Post { node, post, stood }));
        });
        self.nodes[node].unposted += turn_cost.posts;
        self.ring_at(node, turn_cost.end, rung);
        if let Some(again) = again {
            // An act without duration that asks to act at once would stop time.
            let at = again.0.max(turn_cost.end).max(now.0 + 1);
            self.actions.insert(action, pending);
            self.drive(at, DriverEvent::Action { node, action });
        }
        self.wake(node);
    }

    fn post(&mut self, node: usize, post: Post) {
        let link = &mut self.nodes[node].link;
        let done = match post.kind {
            PostKind::Write(region, range) => link.write(post.peer, region, range),
            PostKind::Read(region, range) => link.read(post.peer, region, range).map(|_| ()),
            PostKind::Note(bytes) => link.note(post.peer, &bytes),
        };
        match done {
            Ok(()) => {}
            // The peer went, or a region was closed, between the turn and the post.
            Err(LinkError::PeerGone(_) | LinkError::NoRegion(_)) => self.refused += 1,
            Err(error) => panic!("a machine of node {node} posted what no link takes: {error}"),
        }
    }
}
