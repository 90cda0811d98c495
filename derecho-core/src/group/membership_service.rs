//! Membership service of one node: outgoing and incoming messages, time, and the host's decisions.
//!
//! Owns: the connection of the rules of a view change ([`Membership`]) to a node with peers and a
//! clock. Never does: stop or start a stream; the caller carries out the [`MembershipAction`]s.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::silence_detector::{MemberTimeouts, SilenceDetector};
use crate::bytes::{ByteReader, Wire};
use crate::ids::{NodeId, Time};
use crate::link::{Arbiter, Evidence, Founding, LinkError};
use crate::membership::{
    Arbitration, Decision, ExitReason, MemberStatus, Membership, Report, View, ViewChangeAction,
    ViewChangeMessage,
};

/// Way in which a node enters its group.
#[derive(Clone, Debug)]
pub enum JoinMode {
    /// Group of this host: the node founds the group if none exists.
    Local,
    /// Group on a network with named founders and their votes. Any other node joins.
    Network(Vec<(NodeId, u16)>),
}

/// Interface of the host for a local group.
#[derive(Clone)]
pub struct HostInterface {
    /// Decides which node founds, and which decision is final.
    pub arbiter: Arc<dyn Arbiter>,
    /// Whether the process of a node is stopped or traced.
    pub is_halted: Arc<dyn Fn(NodeId) -> bool + Send + Sync>,
}

/// Action that a node must carry out for its group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MembershipAction<R: Report> {
    /// Send a message to a node, reliably and in order.
    Tell(NodeId, Vec<u8>),
    /// Stop all streams; then call [`MembershipService::report`].
    Wedge,
    /// Apply the cut and begin the next view.
    Install(Decision<R>),
    /// This node is no longer a member.
    Out(ExitReason),
}

/// Interval between requests to join, until one is heard, in nanoseconds.
const JOIN_INTERVAL: u64 = 20_000_000;
/// Interval between questions to the host about founding, in nanoseconds.
const FOUND_INTERVAL: u64 = 200_000_000;
/// Time that members remain without a vote before a view is made to give them
/// votes, in nanoseconds.
const PROMOTE_AFTER: u64 = 50_000_000;

/// Maximum number of nodes remembered as gone.
const MOST_GONE: usize = 256;

/// Message between members.
enum MembershipMessage<R: Report> {
    Rule(ViewChangeMessage<R>),
    /// Asks whether the receiver is there.
    Ask,
    /// Answer to [`MembershipMessage::Ask`].
    Answer,
    /// The sender is no longer a member.
    Out,
}

impl<R: Report + Wire> Wire for MembershipMessage<R>
where
    R::Cut: Wire,
{
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            MembershipMessage::Rule(message) => {
                out.push(0);
                message.encode(out);
            }
            MembershipMessage::Ask => out.push(1),
            MembershipMessage::Answer => out.push(2),
            MembershipMessage::Out => out.push(3),
        }
    }

    fn decode(from: &mut ByteReader<'_>) -> Option<Self> {
        Some(match from.byte()? {
            0 => MembershipMessage::Rule(ViewChangeMessage::decode(from)?),
            1 => MembershipMessage::Ask,
            2 => MembershipMessage::Answer,
            3 => MembershipMessage::Out,
            _ => return None,
        })
    }
}

/// Membership service of one node in its group. See the [module](self).
pub struct MembershipService<R: Report> {
    me: NodeId,
    weight: u16,
    join_mode: JoinMode,
    membership: Membership<R>,
    silence_detector: SilenceDetector,
    timeouts: MemberTimeouts,
    host: Option<HostInterface>,
    /// The node has entered a view.
    entered: bool,
    /// The host has answered since this node last started to ask for admission.
    answered: bool,
    /// Error of the last question to the host about founding.
    founding_error: Option<LinkError>,
    /// Nodes that can be reached, and messages that wait for a connection to other nodes.
    linked: Vec<NodeId>,
    unsent: BTreeMap<NodeId, Vec<Vec<u8>>>,
    /// Nodes that are gone. A node may become a member after that, through nodes that
    /// have not noticed.
    gone: VecDeque<NodeId>,
    next_join: Option<Time>,
    /// Time of the next question to the host about founding. The host is asked seldom because it
    /// may block the caller for a moment.
    next_found: Time,
    promote_at: Option<Time>,
    /// Time since which this node waits for messages of other members that may never come.
    unread_since: Option<Time>,
    actions: Vec<MembershipAction<R>>,
}

impl<R: Report + Wire> MembershipService<R>
where
    R::Cut: Wire,
{
    /// Creates the membership service of node `me` with `weight` votes in a networked group. A
    /// local group needs a host.
    pub fn new(
        me: NodeId,
        weight: u16,
        join_mode: JoinMode,
        timeouts: MemberTimeouts,
        host: Option<HostInterface>,
    ) -> MembershipService<R> {
        let membership = match &join_mode {
            JoinMode::Local => Membership::joiner(me, Arbitration::Local),
            JoinMode::Network(founders) => {
                let view = View::of_founders(founders.iter().copied());
                Membership::founder(me, Arbitration::Network, view)
                    .unwrap_or_else(|| Membership::joiner(me, Arbitration::Network))
            }
        };
        MembershipService {
            me,
            weight,
            join_mode,
            membership,
            silence_detector: SilenceDetector::new(timeouts),
            timeouts,
            host,
            entered: false,
            answered: false,
            founding_error: None,
            linked: Vec::new(),
            unsent: BTreeMap::new(),
            gone: VecDeque::new(),
            next_join: None,
            next_found: Time(0),
            promote_at: None,
            unread_since: None,
            actions: Vec::new(),
        }
    }

    /// Membership state of this node.
    pub fn membership(&self) -> &Membership<R> {
        &self.membership
    }

    /// Notes that a node can be reached.
    pub fn linked(&mut self, node: NodeId) {
        if !self.linked.contains(&node) {
            self.linked.push(node);
        }
        if let MemberStatus::Out(_) = self.membership.status() {
            // A view may let both in (I-54).
            self.tell(node, &MembershipMessage::Out);
        }
        for bytes in self.unsent.remove(&node).into_iter().flatten() {
            self.actions.push(MembershipAction::Tell(node, bytes));
        }
        self.next_join = None;
    }

    /// Notes that a node can no longer be reached.
    pub fn disconnected(&mut self, node: NodeId, evidence: Evidence, now: Time) {
        self.linked.retain(|known| *known != node);
        self.unsent.remove(&node);
        self.membership.forget_joiner(node);
        match evidence {
            Evidence::Certain | Evidence::Left => self.note_gone(node),
            Evidence::Uncertain => self.silence_detector.doubts(node, now),
        }
        self.act();
    }

    /// Notes that a node delivers nothing more. The node may still become a member, through nodes
    /// that do not know this.
    fn note_gone(&mut self, node: NodeId) {
        if !self.gone.contains(&node) {
            self.gone.push_back(node);
            self.gone.drain(..self.gone.len().saturating_sub(MOST_GONE));
        }
        self.membership.forget_joiner(node);
        self.membership.suspect([node], true);
    }

    /// Notes that a node has done what no correct node does.
    pub fn faulty(&mut self, node: NodeId, now: Time) {
        self.silence_detector.doubts(node, now);
    }

    /// Leaves the group because this node does not see data that other members have received.
    pub fn fall_blind(&mut self) {
        self.membership.fall_blind();
        self.act();
    }

    /// Takes a message of a node. `false` if no correct node would send the message.
    pub fn hear(&mut self, node: NodeId, bytes: &[u8], now: Time) -> bool {
        let Some(word) = MembershipMessage::<R>::from_bytes(bytes) else { return false };
        match word {
            // I-331: all members of a view would wait for a joiner that no node can meet.
            MembershipMessage::Rule(ViewChangeMessage::Join { node: joiner, .. })
                if !self.linked.contains(&joiner) || self.gone.contains(&joiner) => {}
            MembershipMessage::Rule(message) => self.membership.hear(node, message),
            MembershipMessage::Ask => match self.membership.status() {
                MemberStatus::Out(_) => self.tell(node, &MembershipMessage::Out),
                MemberStatus::Joining | MemberStatus::Member => {
                    self.tell(node, &MembershipMessage::Answer)
                }
            },
            // A node that is out counts as dead: it delivers nothing more and submits no ballot.
            MembershipMessage::Out => self.note_gone(node),
            // Only an answer shows that the node receives as well as sends.
            MembershipMessage::Answer => self.silence_detector.answered(node, now),
        }
        self.act();
        true
    }

    /// Takes the report of this node; all streams are stopped.
    pub fn report(&mut self, report: R) {
        self.membership.report(report);
        self.act();
    }

    /// Starts to leave the group.
    pub fn leave(&mut self) {
        self.membership.leave();
        self.act();
    }

    /// Returns the actions that are due now. `awaited`: the members that this node awaits for the
    /// membership, for [an introduction](MembershipService::unlinked), and for the streams (I-79).
    pub fn turn(&mut self, awaited: &[NodeId], now: Time) -> Vec<MembershipAction<R>> {
        match self.membership.status() {
            MemberStatus::Joining => self.request_admission(now),
            MemberStatus::Member => {
                if self.membership.view().number == 0 {
                    // The other founders may have founded the group already.
                    self.request_admission(now);
                }
                self.attend(awaited, now);
            }
            MemberStatus::Out(_) => {}
        }
        core::mem::take(&mut self.actions)
    }

    /// Whether the other members have gone on without this node, according to the host. This node
    /// may have been stopped and have received nothing. If the answer is no, everything that was
    /// read before the call was valid when it was read.
    pub fn is_overtaken(&self) -> bool {
        let member = self.entered && self.membership.status() == MemberStatus::Member;
        member && self.host.as_ref().is_some_and(|host| !host.arbiter.is_member())
    }

    /// Whether an action is due at once.
    pub fn has_actions(&self) -> bool {
        !self.actions.is_empty()
    }

    /// Latest time of the next turn.
    pub fn wants_turn_at(&self) -> Option<Time> {
        let due = match self.membership.status() {
            MemberStatus::Joining => return Some(self.next_join.unwrap_or_default()),
            MemberStatus::Member => self.silence_detector.wants_turn_at(),
            MemberStatus::Out(_) => return None,
        };
        let founding = self.membership.view().number == 0;
        let due = due.into_iter().chain(self.next_join.filter(|_| founding));
        let unread = self.unread_since.map(|since| since.after(self.timeouts.decision_timeout()));
        due.chain(self.promote_at).chain(unread).min()
    }

    /// Requests admission, or founds the group if no group exists.
    fn request_admission(&mut self, now: Time) {
        if self.next_join.is_some_and(|at| now < at) {
            return;
        }
        self.next_join = Some(now.after(JOIN_INTERVAL));
        if now >= self.next_found {
            self.next_found = now.after(FOUND_INTERVAL);
            if self.found() {
                return self.act();
            }
        }
        if self.local_host().is_some() && !self.answered {
            // I-77: without a seat on the host, this node would look to the other members like a
            // member that keeps silent.
            self.next_found = now;
            return;
        }
        let join =
            MembershipMessage::Rule(ViewChangeMessage::Join { node: self.me, weight: self.weight });
        self.tell_linked(&join);
    }

    /// Host that decides for a local group.
    fn local_host(&self) -> Option<&HostInterface> {
        self.host.as_ref().filter(|_| matches!(self.join_mode, JoinMode::Local))
    }

    /// Founds a local group if the host assigns this to the node.
    fn found(&mut self) -> bool {
        let answer = self.local_host().map(|host| host.arbiter.found());
        let answer = match answer {
            None => return false,
            Some(Err(error)) => {
                self.founding_error = Some(error);
                return false;
            }
            Some(Ok(answer)) => answer,
        };
        self.answered = true;
        self.founding_error = None;
        let Founding::Founded(group) = answer else { return false };
        let view = View::first(self.me, self.weight).of_group(group);
        let decision = Decision { next: view.clone(), cut: R::cut(core::iter::empty()) };
        let founded = Membership::founder(self.me, Arbitration::Local, view);
        self.membership = founded.expect("the founder is a member of its view");
        self.installed(decision)
    }

    /// Error of the last question to the host about which node founds the group, while it keeps
    /// this node out of the group.
    pub fn founding_error(&self) -> Option<&LinkError> {
        self.founding_error.as_ref()
    }

    /// Members of the view that this node has not met. A member that died before they met is never
    /// reported as gone (I-57).
    pub fn unlinked(&self) -> impl Iterator<Item = NodeId> + '_ {
        let view = self.membership.view();
        let members = view.ranks().without(self.membership.suspects()).iter();
        let nodes = members.map(|rank| view.member(rank).node).filter(|_| view.number > 0);
        nodes.filter(|node| *node != self.me && !self.linked.contains(node))
    }

    fn attend(&mut self, awaited: &[NodeId], now: Time) {
        let view = self.membership.view();
        let node = |rank| view.member(rank).node;
        let hostile: Vec<NodeId> = self.membership.suspected_by().iter().map(node).collect();
        hostile.into_iter().for_each(|node| self.silence_detector.doubts(node, now));
        let due = self.silence_detector.look(awaited, now);
        due.ask.into_iter().for_each(|node| self.tell(node, &MembershipMessage::Ask));
        let halted = |node: &NodeId| self.is_halted(*node);
        let (halted, silent): (Vec<_>, Vec<_>) = due.suspect.into_iter().partition(halted);
        if !halted.is_empty() {
            self.membership.suspect(halted, true);
        }
        if !silent.is_empty() {
            self.membership.suspect(silent, false);
        }
        self.note_halted();
        self.promote(now);
        self.read(now);
        self.act();
    }

    /// Whether the host shows that a node is stopped.
    fn is_halted(&self, node: NodeId) -> bool {
        self.host.as_ref().is_some_and(|host| (host.is_halted)(node))
    }

    /// Asks the host for the members that this node lacks, if too few others remain: other members
    /// may have found them silent, and have not said whether they are stopped (I-45).
    fn note_halted(&mut self) {
        if !self.membership.is_cut_off() {
            return;
        }
        let view = self.membership.view();
        let lacking = self.membership.reported_missing();
        let nodes = lacking.iter().map(|rank| view.member(rank).node);
        let halted: Vec<NodeId> = nodes.filter(|node| self.is_halted(*node)).collect();
        if !halted.is_empty() {
            self.membership.suspect(halted, true);
        }
    }

    fn promote(&mut self, now: Time) {
        if !self.membership.lacks_votes() || self.membership.is_wedged() {
            self.promote_at = None;
        } else if *self.promote_at.get_or_insert(now.after(PROMOTE_AFTER)) <= now {
            self.promote_at = None;
            self.membership.promote();
        }
    }

    fn read(&mut self, now: Time) {
        if !self.membership.is_unread() && !self.membership.is_cut_off() {
            self.unread_since = None;
        } else {
            let since = *self.unread_since.get_or_insert(now);
            if now.since(since) >= self.timeouts.decision_timeout() {
                self.membership.give_up();
            }
        }
    }

    fn tell(&mut self, node: NodeId, message: &MembershipMessage<R>) {
        let bytes = message.to_bytes();
        if self.linked.contains(&node) {
            self.actions.push(MembershipAction::Tell(node, bytes));
        } else if let MembershipMessage::Rule(_) = message {
            // A member that this node has not met yet must not miss any message of this node's row
            // (I-53).
            self.unsent.entry(node).or_default().push(bytes);
        }
    }

    fn tell_linked(&mut self, message: &MembershipMessage<R>) {
        for node in self.linked.clone() {
            self.tell(node, message);
        }
    }

    fn act(&mut self) {
        loop {
            let actions = self.membership.take_actions();
            if actions.is_empty() {
                break;
            }
            for action in actions {
                match action {
                    // If the host refuses the view, the remaining actions belong to a view that
                    // this node has not entered.
                    ViewChangeAction::Install(decision) => {
                        if !self.installed(decision) {
                            break;
                        }
                    }
                    ViewChangeAction::Send(node, message) => {
                        self.tell(node, &MembershipMessage::Rule(message))
                    }
                    ViewChangeAction::Wedge => self.actions.push(MembershipAction::Wedge),
                    ViewChangeAction::Settle { view, ballot } => {
                        let group = self.membership.view().group;
                        let host = self.host.as_ref();
                        let winner = host.and_then(|host| host.arbiter.settle(group, view, ballot));
                        self.membership.settled(view, winner);
                    }
                    ViewChangeAction::Out(reason) => {
                        self.leave_host();
                        // Nodes that the next view admits are told as well: this node may be a
                        // member of that view (I-54).
                        self.tell_linked(&MembershipMessage::Out);
                        self.actions.push(MembershipAction::Out(reason));
                    }
                }
            }
        }
    }

    /// Begins a view. `false` if the group was given up before this node entered the view (I-62).
    fn installed(&mut self, decision: Decision<R>) -> bool {
        let members = |node: &NodeId| decision.next.rank_of(*node).is_some();
        self.unsent.retain(|node, _| members(node));
        if !self.enter_on_host(&decision.next) {
            if self.entered {
                self.membership.given_up();
            } else {
                self.membership = Membership::joiner(self.me, Arbitration::Local);
                (self.next_found, self.answered) = (Time(0), false);
            }
            return false;
        }
        self.entered = true;
        let next = &decision.next;
        let gone = self.gone.iter().copied().filter(|node| next.rank_of(*node).is_some());
        let gone: Vec<NodeId> = gone.collect();
        self.actions.push(MembershipAction::Install(decision));
        if !gone.is_empty() {
            self.membership.suspect(gone, true);
        }
        true
    }

    /// Reports the members of the view to the host. `false` if this node may not be a member.
    fn enter_on_host(&self, next: &View) -> bool {
        let Some(HostInterface { arbiter, .. }) = &self.host else { return true };
        let Some(own) = next.members.iter().find(|member| member.node == self.me) else {
            return true;
        };
        let members = next.members.iter().fold(0, |slots, member| slots | 1 << member.slot);
        let entered = arbiter.entered(next.group, next.number, own.slot);
        if entered {
            arbiter.cleared(next.group, next.number, !members);
        }
        entered
    }

    fn leave_host(&self) {
        self.host.iter().for_each(|host| host.arbiter.left());
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use core::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::group::report::MemberReport;
    use crate::ids::Rank;
    use crate::link::{Generation, LinkError};

    /// Host with a group, which does not answer at first.
    struct BusyArbiter(AtomicBool);

    /// Host whose group is founded by the caller, and that says whether the caller is a member.
    struct MembershipArbiter(AtomicBool);

    impl Arbiter for MembershipArbiter {
        fn found(&self) -> Result<Founding, LinkError> {
            Ok(Founding::Founded(Generation(1)))
        }

        fn settle(&self, _: Generation, _: u64, _: Rank) -> Option<Rank> {
            None
        }

        fn entered(&self, _: Generation, _: u64, _: u8) -> bool {
            true
        }

        fn left(&self) {}

        fn is_member(&self) -> bool {
            self.0.load(Ordering::Relaxed)
        }

        fn cleared(&self, _: Generation, _: u64, _: u64) {}
    }

    fn service_of(node: NodeId, arbiter: Arc<dyn Arbiter>) -> MembershipService<MemberReport> {
        let host = HostInterface { arbiter, is_halted: Arc::new(|_| false) };
        MembershipService::new(node, 1, JoinMode::Local, MemberTimeouts::default(), Some(host))
    }

    #[test]
    fn service_learns_from_host_that_node_is_no_longer_member() {
        let host = Arc::new(MembershipArbiter(AtomicBool::new(false)));
        let mut service = service_of(NodeId(1), Arc::clone(&host) as Arc<dyn Arbiter>);
        assert!(!service.is_overtaken(), "it was no member yet");
        host.0.store(true, Ordering::Relaxed);
        service.turn(&[], Time(0));
        assert_eq!(
            (service.membership().status(), service.is_overtaken()),
            (MemberStatus::Member, false)
        );
        host.0.store(false, Ordering::Relaxed);
        assert_eq!(
            (service.membership().status(), service.is_overtaken()),
            (MemberStatus::Member, true)
        );
    }

    impl Arbiter for BusyArbiter {
        fn found(&self) -> Result<Founding, LinkError> {
            match self.0.load(Ordering::Relaxed) {
                true => Err(LinkError::System("the lock is taken".into())),
                false => Ok(Founding::Exists(Generation(1))),
            }
        }

        fn settle(&self, _: Generation, _: u64, _: Rank) -> Option<Rank> {
            None
        }

        fn entered(&self, _: Generation, _: u64, _: u8) -> bool {
            !self.0.load(Ordering::Relaxed)
        }

        fn left(&self) {}

        fn is_member(&self) -> bool {
            false
        }

        fn cleared(&self, _: Generation, _: u64, _: u64) {}
    }

    #[test]
    fn node_asks_to_join_only_after_its_host_has_answered() {
        let busy = Arc::new(BusyArbiter(AtomicBool::new(true)));
        let mut service = service_of(NodeId(2), Arc::clone(&busy) as Arc<dyn Arbiter>);
        service.linked(NodeId(1));
        let asks = |service: &mut MembershipService<MemberReport>, at: u64| {
            let actions = service.turn(&[], Time(at));
            actions
                .iter()
                .filter(|action| matches!(action, MembershipAction::Tell(NodeId(1), _)))
                .count()
        };
        assert_eq!(asks(&mut service, 0), 0);
        assert_eq!(asks(&mut service, JOIN_INTERVAL), 0);
        busy.0.store(false, Ordering::Relaxed);
        assert_eq!(asks(&mut service, 2 * JOIN_INTERVAL), 1, "asked again as soon as that");
    }
}
