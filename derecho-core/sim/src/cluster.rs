//! The cluster: threads that turn machines in virtual time over a simulated network.
//!
//! Owns: each thread's CPU clock, the moment of every post, and idle threads, whose turns are not
//! run one by one. Never does: protocol, or anything that the driver of production does not.
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
//!   idle turn |----|----|----|----|  something lands in the middle of a turn that looked before
//!                          x     ^   and is seen by the next one
//! ```

mod bill;
mod clock;
mod thread;

use std::collections::BTreeMap;

use derecho_core::ids::{Peer, Time};
use derecho_core::link::{Evidence, Interest, Link, LinkCounters, LinkError, Sharing};
use derecho_core::machine::{Effects, Machine, Post, PostKind};

use crate::cost::CostModel;
use crate::link::{Adversary, EvidenceRules, Mode, NodeIndex, SimLink, SimNetwork};
use crate::network::{DriverEvent, Step};
use bill::{close_regions, rung_by, settle};
pub use clock::Clock;
pub use thread::ThreadUse;
use thread::{Rest, Thread};

/// How a cluster is set up.
#[derive(Clone, Debug)]
pub struct Config {
    /// What every random choice follows from.
    pub seed: u64,
    /// How the network behaves.
    pub mode: Mode,
    /// Whether nodes share memory or have copies of it.
    pub sharing: Sharing,
    /// What things cost; the CPU's part counts in every mode.
    pub costs: CostModel,
    /// What nodes hear of faults.
    pub evidence: EvidenceRules,
    /// A thread's first turn begins at a random moment within this time of its node's addition, so
    /// that the nodes do not poll in step. Nanoseconds.
    pub start_spread_ns: u64,
    /// No run goes beyond this time.
    pub deadline: Time,
    /// No cluster takes more steps than this over its life. A step is one thing that happens: a
    /// word lands, a turn, a post.
    pub step_limit: u64,
}

impl Config {
    /// As badly as the contract of the link allows.
    pub fn adversarial(seed: u64) -> Config {
        Config { mode: Mode::Adversarial(Adversary::default()), ..Config::costed(seed) }
    }

    /// At the prices of the papers.
    pub fn costed(seed: u64) -> Config {
        Config {
            seed,
            mode: Mode::Costed,
            sharing: Sharing::Copied,
            costs: CostModel::default(),
            evidence: EvidenceRules::default(),
            start_spread_ns: 1_000,
            deadline: Time(60_000_000_000),
            step_limit: 100_000_000,
        }
    }
}

/// Why a run stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stop {
    /// What was asked for is reached.
    Reached,
    /// Nothing is left that could happen.
    Quiet,
    /// The deadline of the configuration has come.
    Deadline,
    /// The step limit of the configuration is used up.
    Steps,
}

/// What an application thread does: it acts on a machine, and says when it acts again.
type Action<M> = Box<dyn FnMut(&mut M, Time, &mut Effects) -> Option<Time>>;

struct Pending<M> {
    thread: usize,
    action: Action<M>,
}

struct Node<M> {
    link: SimLink,
    threads: Vec<Thread<M>>,
    running: bool,
    paused_since: Option<u64>,
    /// Nanoseconds for which it stood still, over all pauses that are over.
    stood: u64,
    /// So many times slower than it should be.
    pace: u64,
    clock: Clock,
    /// Posts of its turns whose moment has not come.
    unposted: usize,
    /// Turns that were run, and posts.
    acts: u64,
    /// What came due while the node was paused, with its moment.
    held: Vec<(u64, DriverEvent)>,
}

/// Nodes, their threads and the network between them.
pub struct Cluster<M: Machine> {
    network: SimNetwork,
    config: Config,
    nodes: Vec<Node<M>>,
    actions: BTreeMap<u64, Pending<M>>,
    next_action: u64,
    action_effects: Effects,
    steps: u64,
    refused: u64,
}

impl<M: Machine> Cluster<M> {
    /// A cluster without nodes, at time zero.
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

    // What is the case.

    /// The time.
    pub fn now(&self) -> Time {
        self.network.now()
    }

    /// The network, for faults of links and for counters.
    pub fn network(&self) -> &SimNetwork {
        &self.network
    }

    /// A node's end of the network. A machine may keep one to open and close regions.
    pub fn link(&self, node: NodeIndex) -> SimLink {
        self.nodes[node.0].link.clone()
    }

    /// How many nodes were ever added.
    pub fn nodes(&self) -> usize {
        self.nodes.len()
    }

    /// Whether a node has neither crashed nor left. A paused one runs.
    pub fn is_running(&self, node: NodeIndex) -> bool {
        self.nodes[node.0].running
    }

    /// The machine of a thread, also of a node that is gone.
    pub fn machine(&self, node: NodeIndex, thread: usize) -> &M {
        &self.nodes[node.0].threads[thread].machine
    }

    /// The machine of a thread, for tests that reach in; what it wants is for
    /// [`inject`](Cluster::inject).
    pub fn machine_mut(&mut self, node: NodeIndex, thread: usize) -> &mut M {
        &mut self.nodes[node.0].threads[thread].machine
    }

    /// How a thread has spent its time.
    pub fn thread_use(&self, node: NodeIndex, thread: usize) -> ThreadUse {
        self.nodes[node.0].threads[thread].usage
    }

    /// What a node has posted.
    pub fn counters(&self, node: NodeIndex) -> LinkCounters {
        self.nodes[node.0].link.counters()
    }

    /// Writes and reads that have landed, control messages that have arrived, faults, and actions
    /// of application threads; never idle turns.
    pub fn events(&self) -> u64 {
        self.network.events() + self.next_action
    }

    /// Steps taken; see [`Config::step_limit`].
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Whether a node's threads stand still.
    pub fn is_paused(&self, node: NodeIndex) -> bool {
        self.nodes[node.0].paused_since.is_some()
    }

    /// Posts of a node's turns whose moment has not come: it is in the midst of saying something.
    pub fn unposted(&self, node: NodeIndex) -> usize {
        self.nodes[node.0].unposted
    }

    /// Turns of a node that were run, and its posts: the moments between which a crash of it makes a
    /// difference.
    pub fn acts(&self, node: NodeIndex) -> u64 {
        self.nodes[node.0].acts
    }

    /// Posts that the link refused because peer or region had gone since the turn began.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// See [`SimNetwork::trace_hash`].
    pub fn trace_hash(&self) -> u64 {
        self.network.trace_hash()
    }

    // What is done to it.

    /// Adds a node. `build` opens its regions and gives one machine for each of its threads; all
    /// of them share the link and hear all its events.
    pub fn add_node(&mut self, build: impl FnOnce(&mut SimLink) -> Vec<M>) -> NodeIndex {
        let mut link = self.network.add_node();
        let node = link.index();
        let threads: Vec<Thread<M>> = build(&mut link).into_iter().map(Thread::new).collect();
        let count = threads.len();
        self.nodes.push(Node {
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

    /// At `at` an application thread of the node acts once on the machine of `thread`.
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

    /// At `at` an application thread of the node acts on the machine of `thread`, and again
    /// whenever it says, but not before the CPU time of its last act is over.
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
        self.actions.insert(number, Pending { thread, action: Box::new(action) });
        self.drive(at.0, DriverEvent::Action { node: node.0, action: number });
    }

    /// The node stops at this moment, within a turn perhaps. See [`SimNetwork::crash`].
    pub fn crash(&mut self, node: NodeIndex) {
        self.nodes[node.0].running = false;
        self.network.crash(node);
    }

    /// The node says goodbye and stops. See [`SimNetwork::leave`].
    pub fn leave(&mut self, node: NodeIndex) {
        self.nodes[node.0].running = false;
        self.network.leave(node);
    }

    /// The node's threads stand still; what peers write still lands in its memory, and what it
    /// has posted goes on.
    pub fn pause(&mut self, node: NodeIndex) {
        let now = self.now().0;
        self.nodes[node.0].paused_since.get_or_insert(now);
        self.network.show_halted(node, true);
    }

    /// The node's threads go on where they stopped.
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

    /// From now on everything that the node's threads do takes so many times as long.
    pub fn set_pace(&mut self, node: NodeIndex, pace: u64) {
        self.nodes[node.0].pace = pace.max(1);
    }

    /// What the node's machines are told of the time. To be set before their first turn: what they want
    /// is kept in the cluster's time.
    pub fn set_clock(&mut self, node: NodeIndex, clock: Clock) {
        self.nodes[node.0].clock = clock;
    }

    /// Cuts both ways between two nodes. See [`SimNetwork::cut`] for one way.
    pub fn cut(&mut self, a: NodeIndex, b: NodeIndex) {
        self.network.cut_both(a, b);
    }

    /// Heals both ways.
    pub fn heal(&mut self, a: NodeIndex, b: NodeIndex) {
        self.network.heal_both(a, b);
    }

    /// A false suspicion: see [`SimNetwork::conclude`].
    pub fn conclude(&mut self, at: NodeIndex, about: NodeIndex, evidence: Evidence, after: u64) {
        self.network.conclude(at, about, evidence, after);
    }

    /// Runs until `at`, and lets the time pass if nothing happens.
    pub fn run_until(&mut self, at: Time) -> Stop {
        let end = at.min(self.config.deadline);
        while self.next_at().is_some_and(|next| next <= end.0) {
            if !self.step() {
                return Stop::Steps;
            }
        }
        self.network.with(|network| network.idle_until(end.0));
        if end == at { Stop::Reached } else { Stop::Deadline }
    }

    /// Runs until `condition` holds; it is looked at after each step.
    pub fn run_until_met(&mut self, mut condition: impl FnMut(&Cluster<M>) -> bool) -> Stop {
        loop {
            if condition(self) {
                return Stop::Reached;
            }
            match self.next_at() {
                None => return Stop::Quiet,
                Some(next) if next > self.config.deadline.0 => return Stop::Deadline,
                Some(_) if !self.step() => return Stop::Steps,
                Some(_) => {}
            }
        }
    }

    /// Runs until `condition` holds, which is looked at after each step, but not beyond `at`. Returns whether
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

    // What happens.

    fn next_at(&self) -> Option<u64> {
        self.network.with(|network| network.next_at())
    }

    fn drive(&self, at: u64, event: DriverEvent) {
        self.network.with(|network| network.drive(at, event));
    }

    /// Takes one step; false if the limit is used up.
    fn step(&mut self) -> bool {
        if self.steps == self.config.step_limit {
            return false;
        }
        self.steps += 1;
        match self.network.step() {
            None | Some(Step::Unseen) => {}
            Some(Step::Arrived(node)) => self.wake(node),
            Some(Step::Rung { node, hint }) => self.hear(node, hint),
            Some(Step::Driver(event)) => self.dispatch(event),
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
        // Turns and posts that were planned before a pause wait for as much CPU time as before it, also those that
        // come due after the pause. Otherwise, posts of one turn would overtake each other.
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
            DriverEvent::Ring { news, hints, .. } => state.link.ring(&news, &hints),
            DriverEvent::Action { action, .. } => self.act(node, action),
        }
    }

    /// A bell was rung: threads that sleep wake, for a hint only those that want hints.
    fn hear(&mut self, node: usize, hint: bool) {
        let threads = &self.nodes[node].threads;
        let wants = |thread: &Thread<M>| thread.machine.interest() == Interest::Hints;
        if !hint || threads.iter().any(wants) {
            self.wake(node);
        }
    }

    /// Rings at this moment for whoever has news, where memory is shared.
    fn ring_at(&mut self, node: usize, at: u64, rung: (Vec<Peer>, Vec<Peer>)) {
        let (news, hints) = rung;
        if !news.is_empty() || !hints.is_empty() {
            let stood = self.nodes[node].stood;
            self.drive(at, DriverEvent::Ring { node, news, hints, stood });
        }
    }

    /// Something arrived: threads that sleep take the next turn that they would have taken.
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
        let Node { link, threads, pace, clock, acts, stood, .. } = &mut self.nodes[node];
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
        let bill = settle(costs, *pace, now.0, costs.turn_ns, &mut turning.effects, |at, post| {
            self.network.with(|network| network.drive(at, DriverEvent::Post { node, post, stood }));
        });
        // A turn that took no time at all would be repeated for ever at one moment.
        let took = (bill.end - now.0).max(1);
        turning.usage.turns += 1;
        turning.usage.busy_ns += took;
        turning.usage.posting_ns += bill.posting;
        let unposted = bill.posts;
        let rest = if done == 0 && bill.posts == 0 { Rest::Idle } else { Rest::Busy };
        let wanted = turning.machine.wants_turn_at().map(|at| clock.moment(at).0);
        let next = turning.end_turn(now.0, took, rest, wanted);
        self.nodes[node].unposted += unposted;
        self.ring_at(node, bill.end, rung);
        if let Some((at, number)) = next {
            self.drive(at, DriverEvent::Turn { node, thread, number, stood });
        }
    }

    fn act(&mut self, node: usize, action: u64) {
        let now = self.now();
        let Some(mut pending) = self.actions.remove(&action) else { return };
        let Node { link, threads, pace, stood, .. } = &mut self.nodes[node];
        let stood = *stood;
        let (machine, pace) = (&mut threads[pending.thread].machine, *pace);
        let again = (pending.action)(machine, now, &mut self.action_effects);
        close_regions(link, &mut self.action_effects);
        let rung = rung_by(&self.config, &self.action_effects);
        let costs = &self.config.costs;
        let bill = settle(costs, pace, now.0, 0.0, &mut self.action_effects, |at, post| {
            self.network.with(|network| network.drive(at, DriverEvent::Post { node, post, stood }));
        });
        self.nodes[node].unposted += bill.posts;
        self.ring_at(node, bill.end, rung);
        if let Some(again) = again {
            // An act that takes no time and asks to act at once would stop time.
            let at = again.0.max(bill.end).max(now.0 + 1);
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
            // Between the turn and the post the peer went, or a region was closed.
            Err(LinkError::PeerGone(_) | LinkError::NoRegion(_)) => self.refused += 1,
            Err(error) => panic!("a machine of node {node} posted what no link takes: {error}"),
        }
    }
}
