//! One node: the product's own [`Membership`] with its driver's state, and the consequences of
//! each call.
//!
//! Owns: the driver's side of the machine, and the checks that concern one node alone. Never does:
//! know the state of other nodes.

use std::rc::Rc;

use derecho_core::ids::{NodeId, Rank};
use derecho_core::membership::{
    Decision, ExitReason, MemberStatus, Membership, RankSet, Report, ViewChangeAction,
    ViewChangeMessage,
};

use crate::intern::{Map, Table};

/// Maximum number of nodes of a world.
pub const MOST: usize = 4;

/// Set of nodes, one bit each.
pub type NodeSet = u8;

/// Returns the id of the node with this index.
pub fn id(index: usize) -> NodeId {
    NodeId((index as u128 + 1) << 96)
}

/// Returns the index of a node.
pub fn index(id: NodeId) -> usize {
    (id.0 >> 96) as usize - 1
}

/// Iterates over the nodes of a set.
pub fn each(nodes: NodeSet) -> impl Iterator<Item = usize> {
    (0..8).filter(move |node| nodes >> node & 1 == 1)
}

/// Report: the amount of the one abstract stream that its node has received, and the
/// reporting node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ModelReport {
    /// Reporting node.
    pub by: NodeSet,
    /// Number of messages received.
    pub received: u8,
}

/// Cut: its end, and the reports it was computed from.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ModelCut {
    /// Nodes whose reports were used.
    pub of: NodeSet,
    /// End of the cut.
    pub to: u8,
}

impl Report for ModelReport {
    type Cut = ModelCut;

    fn cut<'a>(reports: impl Iterator<Item = (NodeId, &'a ModelReport)>) -> ModelCut {
        let none = ModelCut { of: 0, to: u8::MAX };
        reports.fold(none, |cut, (node, report)| {
            assert_eq!(report.by, 1 << index(node), "a report carries the name of another node");
            ModelCut { of: cut.of | report.by, to: cut.to.min(report.received) }
        })
    }
}

/// Membership message with the model's reports.
pub type ModelMessage = ViewChangeMessage<ModelReport>;
/// Decision with the model's cuts.
pub type ModelDecision = Decision<ModelReport>;

/// One node.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ModelNode {
    /// `None` once the node is dead or out.
    machine: Option<Membership<ModelReport>>,
    end: Option<NodeEnd>,
    me: u8,
    /// Messages of the abstract stream that the node has received and delivered, in its first view.
    received: u8,
    delivered: u8,
    /// View in which the node went out.
    last: u64,
    stops: bool,
    asks: Option<(u64, Rank)>,
    answer: Option<(u64, Option<Rank>)>,
}

/// End of a node.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum NodeEnd {
    /// The node is dead.
    Dead,
    /// The node is out.
    Out(ExitReason),
}

/// Input of a node.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum NodeInput {
    /// A message arrives: sender and message.
    Hear(u8, u32),
    /// These nodes are suspected; the flag says whether they are certainly gone.
    Suspect(NodeSet, bool),
    /// The node's streams have stopped.
    Stopped,
    /// The kernel decides on the node's request; the value is the winner.
    Settle(Option<u16>),
    /// The kernel's answer arrives.
    Answer,
    /// The node wants to leave.
    Leave,
    /// Members without a vote get theirs.
    Promote,
    /// A joining node is gone.
    Forget(u8),
    /// The node stops waiting for a decision.
    GiveUp,
    /// The node receives one more message of the stream.
    Receive,
    /// The node delivers one more message of the stream.
    Deliver,
    /// The node dies.
    Die,
}

/// Consequence of a step for other nodes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum NodeEffect {
    /// A message to a node.
    Send(u8, u32),
    /// The node continues by a decision.
    Install(u32),
    /// A property of the node itself does not hold.
    Broken(&'static str),
}

/// Visible properties of each state of a node.
#[derive(Clone, Copy, Debug)]
pub struct NodeProperties {
    /// End of the node, if it has ended.
    pub end: Option<NodeEnd>,
    /// True if the node is a member.
    pub member: bool,
    /// Number of its view.
    pub number: u64,
    /// Members of its view.
    pub members: NodeSet,
    /// Nodes that it suspects.
    pub suspects: NodeSet,
    /// Nodes that report that they suspect it.
    pub suspected_by: NodeSet,
    /// Nodes for which it waits.
    pub awaited: NodeSet,
    /// True while a view change is under way at the node.
    pub wedged: bool,
    /// True if the node leads.
    pub leads: bool,
    /// True if the node could give votes to members that have none.
    pub lacks_votes: bool,
    /// True if its streams must stop.
    pub stops: bool,
    /// Request that the node wants to make of the kernel.
    pub asks: Option<(u64, Rank)>,
    /// True while an answer of the kernel is on its way to the node.
    pub answered: bool,
    /// Messages of the stream that it has received.
    pub received: u8,
    /// Messages of the stream that it has delivered.
    pub delivered: u8,
}

/// All states of nodes seen so far, all messages and decisions, and the transitions between states.
pub struct NodeTable {
    nodes: Table<ModelNode>,
    properties: Vec<NodeProperties>,
    /// All messages.
    pub messages: Table<ModelMessage>,
    /// All decisions.
    pub decisions: Table<ModelDecision>,
    steps: Map<(u32, NodeInput), (u32, u32)>,
    effects: Table<Vec<NodeEffect>>,
    slow: bool,
}

impl NodeTable {
    /// Creates an empty table. `slow`: streams do not stop at once.
    pub fn new(slow: bool) -> NodeTable {
        NodeTable {
            nodes: Table::default(),
            properties: Vec::new(),
            messages: Table::default(),
            decisions: Table::default(),
            steps: Map::default(),
            effects: Table::default(),
            slow,
        }
    }

    /// Number of states of single nodes.
    pub fn count(&self) -> usize {
        self.nodes.count()
    }

    /// Returns a node's initial state, with the effects of its creation.
    pub fn begin(
        &mut self,
        machine: Membership<ModelReport>,
        me: usize,
        received: u8,
    ) -> (u32, Rc<Vec<NodeEffect>>) {
        let before = (machine.status() == MemberStatus::Member).then_some(machine.view().number);
        let mut node = ModelNode {
            machine: Some(machine),
            end: None,
            me: me as u8,
            received,
            delivered: 0,
            last: 0,
            stops: false,
            asks: None,
            answer: None,
        };
        let mut effects = Vec::new();
        self.follow(&mut node, before, &mut effects);
        let number = self.number(node);
        (number, Rc::new(effects))
    }

    /// Returns the visible properties of a state.
    pub fn look(&self, node: u32) -> &NodeProperties {
        &self.properties[node as usize]
    }

    fn number(&mut self, node: ModelNode) -> u32 {
        let look = look(&node);
        let number = self.nodes.number(node);
        if number as usize == self.properties.len() {
            self.properties.push(look);
        }
        number
    }

    /// Returns the next state of a node, and the effects of the step.
    pub fn step(&mut self, node: u32, input: NodeInput) -> (u32, Rc<Vec<NodeEffect>>) {
        if let Some(&(next, effects)) = self.steps.get(&(node, input)) {
            return (next, Rc::clone(self.effects.get(effects)));
        }
        let mut next = ModelNode::clone(self.nodes.get(node));
        let mut effects = Vec::new();
        self.apply(&mut next, input, &mut effects);
        let (next, effects) = (self.number(next), self.effects.number(effects));
        self.steps.insert((node, input), (next, effects));
        (next, Rc::clone(self.effects.get(effects)))
    }

    fn apply(&mut self, node: &mut ModelNode, input: NodeInput, effects: &mut Vec<NodeEffect>) {
        let Some(machine) = &mut node.machine else {
            if input == NodeInput::Die {
                node.end_with(NodeEnd::Dead);
            }
            return;
        };
        let before = (machine.status() == MemberStatus::Member).then_some(machine.view().number);
        match input {
            NodeInput::Hear(from, message) => {
                let message = ModelMessage::clone(self.messages.get(message));
                machine.hear(id(from.into()), message);
            }
            NodeInput::Suspect(nodes, gone) => machine.suspect(each(nodes).map(id), gone),
            NodeInput::Stopped => {
                node.stops = false;
                let report = ModelReport { by: 1 << node.me, received: node.received };
                machine.report(report);
            }
            NodeInput::Settle(winner) => {
                if let Some((view, _)) = node.asks.take() {
                    node.answer = Some((view, winner.map(Rank)));
                }
            }
            NodeInput::Answer => {
                if let Some((view, winner)) = node.answer.take() {
                    machine.settled(view, winner);
                }
            }
            NodeInput::Leave => machine.leave(),
            NodeInput::Promote => machine.promote(),
            NodeInput::Forget(joiner) => machine.forget_joiner(id(joiner.into())),
            NodeInput::GiveUp => machine.give_up(),
            NodeInput::Receive => node.received += 1,
            NodeInput::Deliver => node.delivered += 1,
            NodeInput::Die => {
                node.end_with(NodeEnd::Dead);
                return;
            }
        }
        self.follow(node, before, effects);
    }

    /// Performs the machine's actions; `at` is the view that it was in, if it was a member.
    fn follow(&mut self, node: &mut ModelNode, mut at: Option<u64>, effects: &mut Vec<NodeEffect>) {
        let me = node.me;
        loop {
            let Some(machine) = &mut node.machine else { return };
            let actions = machine.take_actions();
            if actions.is_empty() {
                return;
            }
            let mut out = None;
            for action in actions {
                if out.is_some() {
                    effects.push(NodeEffect::Broken("a node that is out stays out"));
                }
                match action {
                    ViewChangeAction::Send(to, message) => {
                        let stopped = !matches!(message, ViewChangeMessage::Wedged { .. });
                        let silent = matches!(
                            message,
                            ViewChangeMessage::Join { .. } | ViewChangeMessage::Decided(_)
                        );
                        if node.stops && stopped && !silent {
                            effects.push(NodeEffect::Broken("no wedged node changes its report"));
                        }
                        let number = self.messages.number(message);
                        effects.push(NodeEffect::Send(index(to) as u8, number));
                    }
                    ViewChangeAction::Wedge => node.stops = true,
                    ViewChangeAction::Settle { view, ballot } => node.asks = Some((view, ballot)),
                    ViewChangeAction::Install(decision) => {
                        let named = decision.next.rank_of(id(me.into())).is_some();
                        (node.stops, node.asks, node.answer) = (false, None, None);
                        if at.is_some_and(|at| decision.next.number != at + 1) {
                            effects.push(NodeEffect::Broken("views in order"));
                        }
                        at = Some(decision.next.number);
                        let number = self.decisions.number(decision);
                        effects.push(NodeEffect::Install(number));
                        // Only a leaving node installs a view that does not name it, and is
                        // out then.
                        if !named && machine.status() != MemberStatus::Out(ExitReason::Left) {
                            effects
                                .push(NodeEffect::Broken("no node installs a view without itself"));
                        }
                    }
                    ViewChangeAction::Out(fate) => out = Some(fate),
                }
            }
            if let Some(fate) = out {
                if !stays_out(machine) {
                    effects.push(NodeEffect::Broken("a node that is out stays out"));
                }
                node.last = machine.view().number;
                node.end_with(NodeEnd::Out(fate));
                return;
            }
            if node.stops && !self.slow {
                node.stops = false;
                machine.report(ModelReport { by: 1 << me, received: node.received });
            }
        }
    }
}

/// Whether a node that is out stays out and does nothing, whatever it receives (I-48).
fn stays_out(machine: &Membership<ModelReport>) -> bool {
    let mut machine = machine.clone();
    let before = machine.status();
    if !matches!(before, MemberStatus::Out(_)) {
        return false;
    }
    let view = machine.view().clone();
    let others: Vec<NodeId> = view.members.iter().map(|member| member.node).collect();
    for &other in &others {
        let (view, suspects) = (view.number, RankSet::first(1));
        let report = ModelReport { by: 1, received: 0 };
        machine.hear(other, ViewChangeMessage::Join { node: id(MOST), weight: 1 });
        machine.hear(other, ViewChangeMessage::Wedged { view, suspects, leaves: false, report });
    }
    let mut next = view.clone();
    next.number += 1;
    machine
        .hear(id(0), ViewChangeMessage::Decided(Decision { next, cut: ModelCut { of: 1, to: 0 } }));
    machine.suspect(others, true);
    machine.report(ModelReport { by: 1, received: 0 });
    machine.settled(view.number + 1, Some(Rank(0)));
    machine.settled(view.number + 1, None);
    machine.give_up();
    machine.promote();
    machine.leave();
    machine.take_actions().is_empty() && machine.status() == before
}

impl ModelNode {
    fn end_with(&mut self, end: NodeEnd) {
        self.machine = None;
        self.end = Some(end);
        (self.stops, self.asks, self.answer) = (false, None, None);
    }
}

fn look(node: &ModelNode) -> NodeProperties {
    let nothing = NodeProperties {
        end: node.end,
        member: false,
        number: node.last,
        members: 0,
        suspects: 0,
        suspected_by: 0,
        awaited: 0,
        wedged: false,
        leads: false,
        lacks_votes: false,
        stops: node.stops,
        asks: node.asks,
        answered: node.answer.is_some(),
        received: node.received,
        delivered: node.delivered,
    };
    let Some(machine) = &node.machine else { return nothing };
    let nodes = |ranks: RankSet| {
        ranks.iter().fold(0, |all, rank| all | 1 << index(machine.view().member(rank).node))
    };
    let member = machine.status() == MemberStatus::Member;
    if !member {
        return nothing;
    }
    NodeProperties {
        member,
        number: machine.view().number,
        members: nodes(machine.view().ranks()),
        suspects: nodes(machine.suspects()),
        suspected_by: nodes(machine.suspected_by()),
        awaited: nodes(machine.awaited()),
        wedged: machine.is_wedged(),
        leads: machine.leader() == Some(machine.rank()),
        lacks_votes: machine.lacks_votes(),
        ..nothing
    }
}
