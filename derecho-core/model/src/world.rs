//! The world of the model: nodes, messages between them, the kernel's decisions, and all possible
//! next events.
//!
//! Owns: the faults and their bounds. Never does: choose among the possible events.

use derecho_core::ids::Rank;
use derecho_core::membership::{Arbitration, ExitReason, Membership};

use crate::channel::Channels;
use crate::event::Event;
use crate::node::{MOST, NodeEffect, NodeEnd, NodeInput, NodeSet, NodeTable, each, id};
use crate::property::Violation;
use crate::setting::Setting;

/// Maximum number of views decided in one run.
pub const VIEWS: usize = 8;

/// Complete state, in numbers of the [`World`]'s tables.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ModelState {
    pub(crate) nodes: [u32; MOST],
    channels: [[u32; MOST]; MOST],
    /// Decision of each view, by the view's number; counted from 1.
    pub(crate) decided: [u16; VIEWS],
    /// The kernel's decision word: view and ballot.
    word: (u8, u8),
    pub(crate) stopped: NodeSet,
    /// Channels that lose everything, one bit each.
    cut: u16,
    /// Pairs of a joining node and a node that it has asked, one bit each.
    asked: u16,
    /// Nodes that were suspected while alive, were stopped, or lost a channel.
    pub(crate) tainted: NodeSet,
    crashes: u8,
    doubts: u8,
    cuts: u8,
    stops: u8,
    leaves: u8,
}

/// The tables behind the numbers, and the rules of the world.
pub struct World {
    /// Events that may happen.
    pub setting: Setting,
    /// All states of nodes.
    pub node_table: NodeTable,
    channels: Channels,
}

impl World {
    /// Creates a world without any states yet.
    pub fn new(setting: Setting) -> World {
        assert!((1..=MOST).contains(&setting.nodes()), "a world has 1 to {MOST} nodes");
        World {
            setting,
            node_table: NodeTable::new(setting.streams),
            channels: Channels::default(),
        }
    }

    /// Returns the initial state.
    pub fn begin(&mut self) -> ModelState {
        let setting = self.setting;
        let empty = self.channels.number(Vec::new());
        let mut state = ModelState {
            nodes: [0; MOST],
            channels: [[empty; MOST]; MOST],
            decided: [0; VIEWS],
            word: (0, 0),
            stopped: 0,
            cut: 0,
            asked: 0,
            tainted: 0,
            crashes: setting.crashes,
            doubts: setting.doubts,
            cuts: setting.cuts,
            stops: setting.stops,
            leaves: setting.leaves,
        };
        let mut all_effects = Vec::new();
        for node in 0..setting.nodes() {
            let machine = if node < setting.members {
                Membership::founder(id(node), setting.arbitration, setting.first_view())
                    .expect("the node is a member of the first view")
            } else {
                Membership::joiner(id(node), setting.arbitration)
            };
            // Not all nodes have received the same; all have received at least one message.
            let received = if setting.streams { 0 } else { 2 - node as u8 % 2 };
            let (number, effects) = self.node_table.begin(machine, node, received);
            state.nodes[node] = number;
            all_effects.push(effects);
        }
        for (node, effects) in all_effects.iter().enumerate() {
            self.follow(&mut state, node, effects).expect("nothing has happened yet");
        }
        state
    }

    /// Returns the visible properties of a node, in a state.
    pub fn look(&self, state: &ModelState, node: usize) -> &crate::node::NodeProperties {
        self.node_table.look(state.nodes[node])
    }

    /// Whether a node is neither dead nor out.
    pub fn lives(&self, state: &ModelState, node: usize) -> bool {
        self.look(state, node).end.is_none()
    }

    /// Whether the node's messages certainly arrive: it lives, or it has left in an orderly way.
    fn is_heard_out(&self, state: &ModelState, node: usize) -> bool {
        matches!(self.look(state, node).end, None | Some(NodeEnd::Out(ExitReason::Left)))
    }

    fn runs(&self, state: &ModelState, node: usize) -> bool {
        self.lives(state, node) && state.stopped >> node & 1 == 0
    }

    /// Whether a channel loses everything.
    pub fn is_cut(&self, state: &ModelState, from: usize, to: usize) -> bool {
        state.cut >> (from * MOST + to) & 1 == 1
    }

    /// Returns an event that must happen sooner or later: a live node has sent or asked something.
    pub fn due(&self, state: &ModelState) -> Option<Event> {
        let nodes = self.setting.nodes();
        for to in (0..nodes).filter(|&to| self.runs(state, to)) {
            let look = self.look(state, to);
            if look.stops {
                return Some(Event::Stopped(to));
            }
            if look.answered {
                return Some(Event::Answer(to));
            }
            if look.asks.is_some() {
                return Some(Event::Settle(to));
            }
            for from in 0..nodes {
                if self.is_heard_out(state, from)
                    && self.channels.head(state.channels[from][to]).is_some()
                {
                    return Some(Event::Deliver(from, to));
                }
            }
        }
        None
    }

    /// Whether a node must learn anything of another one.
    pub fn evidence_of(&mut self, state: &ModelState, node: usize, other: usize) -> bool {
        self.evidence(state, node, other).is_some()
    }

    /// Returns what a node must learn of another one, if that is new: suspicion, certain or not.
    fn evidence(&mut self, state: &ModelState, node: usize, other: usize) -> Option<NodeInput> {
        let look = *self.look(state, node);
        if node == other || !self.runs(state, node) || !look.member {
            return None;
        }
        let end = self.look(state, other).end;
        let says = self.channels.head(state.channels[other][node]).is_some();
        if says && end == Some(NodeEnd::Out(ExitReason::Left)) {
            return None;
        }
        let stopped = state.stopped >> other & 1 == 1;
        if look.members >> other & 1 == 0 {
            let forget = NodeInput::Forget(other as u8);
            let news = end.is_some()
                && self.node_table.step(state.nodes[node], forget).0 != state.nodes[node];
            return news.then_some(forget);
        }
        let gone = match end {
            Some(NodeEnd::Dead) => true,
            // A node that is out reports that at least to the kernel's watchers: it never
            // decides again.
            Some(NodeEnd::Out(_)) => self.setting.arbitration == Arbitration::Local,
            None if stopped => self.setting.arbitration == Arbitration::Local,
            None => return None,
        };
        let input = NodeInput::Suspect(1 << other, gone);
        (self.node_table.step(state.nodes[node], input).0 != state.nodes[node]).then_some(input)
    }

    /// Collects all possible events.
    pub fn events(&mut self, state: &ModelState, into: &mut Vec<Event>) {
        let (setting, nodes) = (self.setting, self.setting.nodes());
        into.clear();
        for node in 0..nodes {
            let look = *self.look(state, node);
            let left = look.end == Some(NodeEnd::Out(ExitReason::Left));
            if left && state.crashes > 0 && self.is_saying(state, node) {
                into.push(Event::Crash(node));
            }
            if look.end.is_some() {
                continue;
            }
            if state.crashes > 0 && setting.mortal >> node & 1 == 1 {
                into.push(Event::Crash(node));
            }
            if !self.runs(state, node) {
                into.push(Event::Resume(node));
                continue;
            }
            if state.stops > 0 {
                into.push(Event::Stop(node));
            }
            for from in 0..nodes {
                if self.channels.head(state.channels[from][node]).is_some() {
                    into.push(Event::Deliver(from, node));
                }
                if self.evidence(state, node, from).is_some() {
                    into.push(Event::Evidence(node, from));
                }
            }
            self.own_events(state, node, into);
            for other in (0..nodes).filter(|&other| other != node) {
                let theirs = *self.look(state, other);
                let suspectable = look.member && look.members >> other & 1 == 1;
                let open = theirs.end.is_none() && !self.is_cut(state, other, node);
                if state.cuts > 0 && open && look.member {
                    into.push(Event::Cut(other, node));
                }
                if suspectable && look.suspects >> other & 1 == 0 && theirs.end.is_none() {
                    let may = setting.doubters >> node & setting.doubted >> other & 1 == 1;
                    let doubts = state.doubts > 0 && may;
                    if doubts || self.is_cut(state, other, node) {
                        into.push(Event::Doubt(node, other));
                    }
                }
                let pair = node * MOST + other;
                if !look.member
                    && theirs.end.is_none()
                    && other < setting.members
                    && state.asked >> pair & 1 == 0
                {
                    into.push(Event::Join(node, other));
                }
            }
        }
    }

    fn is_saying(&self, state: &ModelState, node: usize) -> bool {
        let mut to = state.channels[node].iter();
        to.any(|&channel| self.channels.head(channel).is_some())
    }

    fn own_events(&mut self, state: &ModelState, node: usize, into: &mut Vec<Event>) {
        let setting = self.setting;
        let look = *self.look(state, node);
        if look.stops {
            into.push(Event::Stopped(node));
        }
        if look.asks.is_some() {
            into.push(Event::Settle(node));
        }
        if look.answered {
            into.push(Event::Answer(node));
        }
        if state.leaves > 0
            && setting.leavers >> node & 1 == 1
            && look.member
            && self.changes(state, node, NodeInput::Leave)
        {
            into.push(Event::Leave(node));
        }
        if look.leads && look.lacks_votes && !look.wedged && look.number > 0 {
            into.push(Event::Promote(node));
        }
        if self.setting.early_return && look.suspected_by != 0 {
            into.push(Event::Return(node));
        }
        if self.setting.early_return && self.changes(state, node, NodeInput::GiveUp) {
            into.push(Event::GiveUp(node));
        }
        if self.setting.streams && look.member && look.number == 1 {
            let moves = !look.wedged || look.stops || setting.unstoppable;
            if look.received == 0 && moves {
                into.push(Event::Receive(node));
            }
            // The shown state of a node is its reception, or less.
            let mut all = each(look.members);
            if !look.wedged
                && look.delivered == 0
                && all.all(|other| self.look(state, other).received > 0)
            {
                into.push(Event::Take(node));
            }
        }
    }

    /// Whether an input would change a node.
    pub fn changes(&mut self, state: &ModelState, node: usize, input: NodeInput) -> bool {
        self.node_table.step(state.nodes[node], input).0 != state.nodes[node]
    }

    /// Returns the state after an event.
    pub fn apply(&mut self, state: &ModelState, event: Event) -> Result<ModelState, Violation> {
        let mut next = *state;
        match event {
            Event::Deliver(from, to) => {
                let channel = next.channels[from][to];
                let message = self
                    .channels
                    .head(channel)
                    .expect("the event is offered when there is a message");
                next.channels[from][to] = self.channels.rest(channel);
                self.step(&mut next, to, NodeInput::Hear(from as u8, message))?;
            }
            Event::Crash(node) => {
                next.crashes -= 1;
                next.stopped &= !(1 << node);
                self.step(&mut next, node, NodeInput::Die)?;
            }
            Event::Evidence(node, other) => {
                if let Some(input) = self.evidence(state, node, other) {
                    if self.lives(state, other) {
                        next.tainted |= 1 << other;
                    }
                    self.step(&mut next, node, input)?;
                }
            }
            Event::Doubt(node, other) => {
                if !self.is_cut(state, other, node) {
                    next.doubts = next.doubts.saturating_sub(1);
                }
                // The suspecting node may be the one that receives nothing.
                next.tainted |= 1 << other | 1 << node;
                self.step(&mut next, node, NodeInput::Suspect(1 << other, false))?;
            }
            Event::Cut(from, to) => {
                next.cuts -= 1;
                next.cut |= 1 << (from * MOST + to);
                next.tainted |= 1 << from | 1 << to;
                next.channels[from][to] = self.channels.number(Vec::new());
            }
            Event::Stop(node) => {
                next.stops -= 1;
                next.stopped |= 1 << node;
                next.tainted |= 1 << node;
            }
            Event::Resume(node) => next.stopped &= !(1 << node),
            Event::Join(joiner, member) => {
                next.asked |= 1 << (joiner * MOST + member);
                let ask = derecho_core::membership::ViewChangeMessage::Join {
                    node: id(joiner),
                    weight: 1,
                };
                let message = self.node_table.messages.number(ask);
                self.send(&mut next, joiner, member, message);
            }
            Event::Leave(node) => {
                next.leaves -= 1;
                next.tainted |= 1 << node;
                self.step(&mut next, node, NodeInput::Leave)?;
            }
            Event::Settle(node) => {
                if let Some((view, ballot)) = self.look(state, node).asks {
                    let winner = next.settle(view, ballot);
                    self.step(&mut next, node, NodeInput::Settle(winner))?;
                }
            }
            Event::Answer(node) => self.step(&mut next, node, NodeInput::Answer)?,
            Event::Stopped(node) => self.step(&mut next, node, NodeInput::Stopped)?,
            Event::Promote(node) => self.step(&mut next, node, NodeInput::Promote)?,
            Event::Return(node) => {
                let those = self.look(state, node).suspected_by;
                next.tainted |= those;
                self.step(&mut next, node, NodeInput::Suspect(those, false))?;
            }
            Event::Impatient(node) => {
                let those = self.look(state, node).awaited;
                self.step(&mut next, node, NodeInput::Suspect(those, false))?;
            }
            Event::GiveUp(node) => {
                next.tainted |= 1 << node;
                self.step(&mut next, node, NodeInput::GiveUp)?;
            }
            Event::Receive(node) => self.step(&mut next, node, NodeInput::Receive)?,
            Event::Take(node) => {
                self.step(&mut next, node, NodeInput::Deliver)?;
                self.check_delivered(&next)?;
            }
        }
        Ok(next)
    }

    fn step(
        &mut self,
        state: &mut ModelState,
        node: usize,
        input: NodeInput,
    ) -> Result<(), Violation> {
        let (next, effects) = self.node_table.step(state.nodes[node], input);
        let before = state.nodes[node];
        state.nodes[node] = next;
        let result = self.follow(state, node, &effects);
        if before != next {
            self.discard_stale(state, node);
        }
        result
    }

    fn follow(
        &mut self,
        state: &mut ModelState,
        node: usize,
        effects: &[NodeEffect],
    ) -> Result<(), Violation> {
        for &effect in effects {
            match effect {
                NodeEffect::Send(to, message) => self.send(state, node, to.into(), message),
                NodeEffect::Install(decision) => self.installed(state, decision)?,
                NodeEffect::Broken(what) => return Err(Violation(what)),
            }
        }
        Ok(())
    }

    fn send(&mut self, state: &mut ModelState, from: usize, to: usize, message: u32) {
        if !self.lives(state, to) || self.is_cut(state, from, to) {
            return;
        }
        let channel = state.channels[from][to];
        if self.channels.head(channel).is_none() && self.is_stale(state, to, message) {
            return;
        }
        state.channels[from][to] = self.channels.with(channel, message);
    }

    /// Whether a message no longer changes its receiver, now or ever, so that it need not
    /// be awaited.
    fn is_stale(&self, state: &ModelState, to: usize, message: u32) -> bool {
        use derecho_core::membership::ViewChangeMessage;
        let look = self.look(state, to);
        let past = match &**self.node_table.messages.get(message) {
            ViewChangeMessage::Join { .. } => return false,
            ViewChangeMessage::Decided(decision) => decision.next.number <= look.number,
            ViewChangeMessage::Wedged { view, .. }
            | ViewChangeMessage::Suspects { view, .. }
            | ViewChangeMessage::Accepted { view, .. } => *view < look.number,
        };
        look.member && past
    }

    fn discard_stale(&mut self, state: &mut ModelState, node: usize) {
        let ended = !self.lives(state, node);
        for from in 0..self.setting.nodes() {
            if ended {
                state.channels[from][node] = self.channels.number(Vec::new());
            }
            while let Some(message) = self.channels.head(state.channels[from][node]) {
                if !self.is_stale(state, node, message) {
                    break;
                }
                state.channels[from][node] = self.channels.rest(state.channels[from][node]);
            }
        }
    }

    /// Describes an event in words.
    pub fn tell(&self, state: &ModelState, event: Event) -> String {
        match event {
            Event::Deliver(from, to) => {
                let message = self.channels.head(state.channels[from][to]);
                let message = message.map(|message| &**self.node_table.messages.get(message));
                format!("{from} -> {to}: {message:?}")
            }
            other => format!("{other:?}"),
        }
    }
}

impl ModelState {
    /// Ignores the difference that a joining node has asked again.
    pub(crate) fn note_asked(&mut self, after: &ModelState) {
        self.asked = after.asked;
    }

    /// Performs the kernel's compare-and-swap on the group's decision word: returns the winner,
    /// `None` if the word is past that view.
    fn settle(&mut self, view: u64, ballot: Rank) -> Option<u16> {
        let (decided, winner) = self.word;
        match u64::from(decided).cmp(&view) {
            std::cmp::Ordering::Less => {
                self.word = (view as u8, ballot.0 as u8);
                Some(ballot.0)
            }
            std::cmp::Ordering::Equal => Some(winner.into()),
            std::cmp::Ordering::Greater => None,
        }
    }
}
