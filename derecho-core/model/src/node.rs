//! One node: the product's own [`Membership`] with its driver's state, and the consequences of
//! each call.
//!
//! Owns: the driver's side of the machine, and the checks that concern one node alone. Never does:
//! know the state of other nodes.

use std::rc::Rc;

use derecho_core::ids::{NodeId, Rank};
use derecho_core::membership::{
    Action, Decision, Fate, Membership, Message, RankSet, Report, Standing,
};

use crate::intern::{Map, Table};

/// Maximum number of nodes of a world.
pub const MOST: usize = 4;

/// Set of nodes, one bit each.
pub type Nodes = u8;

/// Returns the id of the node with this index.
pub fn id(index: usize) -> NodeId {
    NodeId((index as u128 + 1) << 96)
}

/// Returns the index of a node.
pub fn index(id: NodeId) -> usize {
    (id.0 >> 96) as usize - 1
}

/// Iterates over the nodes of a set.
pub fn each(nodes: Nodes) -> impl Iterator<Item = usize> {
    (0..8).filter(move |node| nodes >> node & 1 == 1)
}

/// Report: the amount of the one abstract stream that its node has received, and the
/// reporting node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Shown {
    /// Reporting node.
    pub by: Nodes,
    /// Number of messages received.
    pub received: u8,
}

/// Cut: its end, and the reports it was computed from.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Cut {
    /// Nodes whose reports were used.
    pub of: Nodes,
    /// End of the cut.
    pub to: u8,
}

impl Report for Shown {
    type Cut = Cut;

    fn cut<'a>(reports: impl Iterator<Item = (NodeId, &'a Shown)>) -> Cut {
        let none = Cut { of: 0, to: u8::MAX };
        reports.fold(none, |cut, (node, report)| {
            assert_eq!(report.by, 1 << index(node), "a report goes under another's name");
            Cut { of: cut.of | report.by, to: cut.to.min(report.received) }
        })
    }
}

/// Message with the model's reports.
pub type Said = Message<Shown>;
/// Decision with the model's cuts.
pub type Decided = Decision<Shown>;

/// One node.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Node {
    /// `None` once the node is dead or out.
    machine: Option<Membership<Shown>>,
    end: Option<End>,
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
pub enum End {
    /// The node is dead.
    Dead,
    /// The node is out.
    Out(Fate),
}

/// Input of a node.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Input {
    /// A message arrives: sender and message.
    Hear(u8, u32),
    /// These nodes are suspected; the flag says whether they are certainly gone.
    Suspect(Nodes, bool),
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
pub enum Effect {
    /// A message to a node.
    Send(u8, u32),
    /// The node continues by a decision.
    Install(u32),
    /// A property of the node itself does not hold.
    Broken(&'static str),
}

/// Visible properties of each state of a node.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// End of the node, if it has ended.
    pub end: Option<End>,
    /// True if the node is a member.
    pub member: bool,
    /// Number of its view.
    pub number: u64,
    /// Members of its view.
    pub members: Nodes,
    /// Nodes that it suspects.
    pub suspects: Nodes,
    /// Nodes that report that they suspect it.
    pub suspected_by: Nodes,
    /// Nodes for which it waits.
    pub awaited: Nodes,
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
pub struct Nodebook {
    nodes: Table<Node>,
    looks: Vec<Look>,
    /// All messages.
    pub messages: Table<Said>,
    /// All decisions.
    pub decisions: Table<Decided>,
    steps: Map<(u32, Input), (u32, u32)>,
    effects: Table<Vec<Effect>>,
    slow: bool,
}

impl Nodebook {
    /// Creates an empty book. `slow`: streams do not stop at once.
    pub fn new(slow: bool) -> Nodebook {
        Nodebook {
            nodes: Table::default(),
            looks: Vec::new(),
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
        machine: Membership<Shown>,
        me: usize,
        received: u8,
    ) -> (u32, Rc<Vec<Effect>>) {
        let before = (machine.standing() == Standing::Member).then_some(machine.view().number);
        let mut node = Node {
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
    pub fn look(&self, node: u32) -> &Look {
        &self.looks[node as usize]
    }

    fn number(&mut self, node: Node) -> u32 {
        let look = look(&node);
        let number = self.nodes.number(node);
        if number as usize == self.looks.len() {
            self.looks.push(look);
        }
        number
    }

    /// Returns the next state of a node, and the effects of the step.
    pub fn step(&mut self, node: u32, input: Input) -> (u32, Rc<Vec<Effect>>) {
        if let Some(&(next, effects)) = self.steps.get(&(node, input)) {
            return (next, Rc::clone(self.effects.get(effects)));
        }
        let mut next = Node::clone(self.nodes.get(node));
        let mut effects = Vec::new();
        self.apply(&mut next, input, &mut effects);
        let (next, effects) = (self.number(next), self.effects.number(effects));
        self.steps.insert((node, input), (next, effects));
        (next, Rc::clone(self.effects.get(effects)))
    }

    fn apply(&mut self, node: &mut Node, input: Input, effects: &mut Vec<Effect>) {
        let Some(machine) = &mut node.machine else {
            if input == Input::Die {
                node.end_with(End::Dead);
            }
            return;
        };
        let before = (machine.standing() == Standing::Member).then_some(machine.view().number);
        match input {
            Input::Hear(from, message) => {
                let message = Said::clone(self.messages.get(message));
                machine.hear(id(from.into()), message);
            }
            Input::Suspect(nodes, gone) => machine.suspect(each(nodes).map(id), gone),
            Input::Stopped => {
                node.stops = false;
                let report = Shown { by: 1 << node.me, received: node.received };
                machine.report(report);
            }
            Input::Settle(winner) => {
                if let Some((view, _)) = node.asks.take() {
                    node.answer = Some((view, winner.map(Rank)));
                }
            }
            Input::Answer => {
                if let Some((view, winner)) = node.answer.take() {
                    machine.settled(view, winner);
                }
            }
            Input::Leave => machine.leave(),
            Input::Promote => machine.promote(),
            Input::Forget(joiner) => machine.forget_joiner(id(joiner.into())),
            Input::GiveUp => machine.give_up(),
            Input::Receive => node.received += 1,
            Input::Deliver => node.delivered += 1,
            Input::Die => {
                node.end_with(End::Dead);
                return;
            }
        }
        self.follow(node, before, effects);
    }

    /// Performs the machine's deeds; `at` is the view that it was in, if it was a member.
    fn follow(&mut self, node: &mut Node, mut at: Option<u64>, effects: &mut Vec<Effect>) {
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
                    effects.push(Effect::Broken("a node that is out stays out"));
                }
                match action {
                    Action::Send(to, message) => {
                        let stopped = !matches!(message, Message::Wedged { .. });
                        let silent = matches!(message, Message::Join { .. } | Message::Decided(_));
                        if node.stops && stopped && !silent {
                            effects.push(Effect::Broken("no wedged node changes its report"));
                        }
                        let number = self.messages.number(message);
                        effects.push(Effect::Send(index(to) as u8, number));
                    }
                    Action::Wedge => node.stops = true,
                    Action::Settle { view, ballot } => node.asks = Some((view, ballot)),
                    Action::Install(decision) => {
                        let named = decision.next.rank_of(id(me.into())).is_some();
                        (node.stops, node.asks, node.answer) = (false, None, None);
                        if at.is_some_and(|at| decision.next.number != at + 1) {
                            effects.push(Effect::Broken("views in order"));
                        }
                        at = Some(decision.next.number);
                        let number = self.decisions.number(decision);
                        effects.push(Effect::Install(number));
                        // Only a leaving node installs a view that does not name it, and is
                        // out then.
                        if !named && machine.standing() != Standing::Out(Fate::Left) {
                            effects.push(Effect::Broken("nobody installs a view without itself"));
                        }
                    }
                    Action::Out(fate) => out = Some(fate),
                }
            }
            if let Some(fate) = out {
                if !stays_out(machine) {
                    effects.push(Effect::Broken("a node that is out stays out"));
                }
                node.last = machine.view().number;
                node.end_with(End::Out(fate));
                return;
            }
            if node.stops && !self.slow {
                node.stops = false;
                machine.report(Shown { by: 1 << me, received: node.received });
            }
        }
    }
}

/// Whether a node that is out stays out and does nothing, whatever it is told (I-48).
fn stays_out(machine: &Membership<Shown>) -> bool {
    let mut machine = machine.clone();
    let before = machine.standing();
    if !matches!(before, Standing::Out(_)) {
        return false;
    }
    let view = machine.view().clone();
    let others: Vec<NodeId> = view.members.iter().map(|member| member.node).collect();
    for &other in &others {
        let (view, suspects) = (view.number, RankSet::first(1));
        let report = Shown { by: 1, received: 0 };
        machine.hear(other, Message::Join { node: id(MOST), weight: 1 });
        machine.hear(other, Message::Wedged { view, suspects, leaves: false, report });
    }
    let mut next = view.clone();
    next.number += 1;
    machine.hear(id(0), Message::Decided(Decision { next, cut: Cut { of: 1, to: 0 } }));
    machine.suspect(others, true);
    machine.report(Shown { by: 1, received: 0 });
    machine.settled(view.number + 1, Some(Rank(0)));
    machine.settled(view.number + 1, None);
    machine.give_up();
    machine.promote();
    machine.leave();
    machine.take_actions().is_empty() && machine.standing() == before
}

impl Node {
    fn end_with(&mut self, end: End) {
        self.machine = None;
        self.end = Some(end);
        (self.stops, self.asks, self.answer) = (false, None, None);
    }
}

fn look(node: &Node) -> Look {
    let nothing = Look {
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
    let member = machine.standing() == Standing::Member;
    if !member {
        return nothing;
    }
    Look {
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
