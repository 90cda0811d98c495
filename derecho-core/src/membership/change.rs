//! State of one member in the change from its view to the next.
//!
//! Owns: the known rows of the other members, the member's own row, and the actions that follow.
//! Never does: withdraw a suspicion, a report or an acceptance within a view.

mod rules;

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::mem;

use super::arbitration::{Arbitration, FailureKnowledge};
use super::{RankSet, Report, View, ViewChangeMessage, WaitCondition};
use crate::fault::{Fault, planted};
use crate::ids::{NodeId, Rank};

/// Outcome of a view change: the members of the next view, and the cut of the view that ends.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Decision<R: Report> {
    /// The next view.
    pub next: View,
    /// How far every member delivers in the view that ends.
    pub cut: R::Cut,
}

/// Relation of a node to its group.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum MemberStatus {
    /// The node wants to be a member and is not one yet.
    Joining,
    /// A member.
    Member,
    /// No longer a member.
    Out(ExitReason),
}

/// Reason why a node is no longer a member.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ExitReason {
    /// The node asked to leave.
    Left,
    /// The other members go on without this node.
    Excluded,
    /// The node has lost so many other members that it may not decide anything any more.
    Minority,
    /// The group has decided something that no remaining member could tell this node.
    Overtaken,
    /// The node does not see data that a member has sent and other members have received (I-336).
    Blind,
}

/// Progress of a member in the change to the next view.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ViewChangeStage {
    /// No view change is under way.
    Calm,
    /// The member's streams are stopped, and it has not said so: it may be cut off.
    Wedged,
    /// The member has sent its report to the other members.
    Reported,
    /// The member leads and has proposed a decision.
    Proposed,
    /// The member has accepted the proposal of another member.
    Accepted,
    /// The host's decision word holds a ballot whose decision this member does not know.
    Decided,
}

/// Actions for the driver, in the order in which the driver must carry them out.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum ViewChangeAction<R: Report> {
    /// Send a message to another node.
    Send(NodeId, ViewChangeMessage<R>),
    /// Stop all streams, then call [`Membership::report`].
    Wedge,
    /// Submit this ballot to the host's decision word for this view, then call
    /// [`Membership::settled`].
    Settle {
        /// Number of the next view.
        view: u64,
        /// Rank of the member that proposed the decision.
        ballot: Rank,
    },
    /// Apply the cut and continue in the next view.
    Install(Decision<R>),
    /// This node is no longer a member. The node delivers nothing after this action.
    Out(ExitReason),
}

/// Announcements of one member in this view, as another member knows them.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct MemberRow<R: Report> {
    suspects: RankSet,
    leaves: bool,
    report: Option<R>,
    accepted: Option<(Rank, Decision<R>)>,
}

impl<R: Report> MemberRow<R> {
    fn new() -> MemberRow<R> {
        MemberRow { suspects: RankSet::EMPTY, leaves: false, report: None, accepted: None }
    }

    fn has_accepted(&self, ballot: Rank) -> bool {
        self.accepted.as_ref().is_some_and(|(accepted, _)| *accepted == ballot)
    }
}

/// Decision that is known only from a node that the decision admits.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct UnconfirmedDecision<R: Report> {
    node: NodeId,
    decision: Decision<R>,
    /// Messages of that node in the view of the decision. The node sends them only once.
    later: Vec<ViewChangeMessage<R>>,
}

/// Maximum number of messages of one node that are kept for the view of an unconfirmed decision.
const LATER_MESSAGES: usize = 2 * RankSet::MOST;

/// Membership of one node in its group. See the [module](super).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Membership<R: Report> {
    me: NodeId,
    arbitration: Arbitration,
    status: MemberStatus,
    view: View,
    rank: Rank,
    /// Rows of all members of this view, including this node's own.
    rows: Vec<MemberRow<R>>,
    /// Suspects that the kernel reports as gone or stopped.
    gone: RankSet,
    /// Members that this node would suspect if the remaining members could decide.
    held_back: RankSet,
    wants_to_leave: bool,
    /// This node's streams are stopped, or will be before any other action.
    wedged: bool,
    /// This node has sent its report to the other members.
    reported: bool,
    /// Ballot that was submitted to the host's decision word, and the ballot that the word holds.
    asked_ballot: Option<Rank>,
    winner: Option<Rank>,
    joiners: BTreeMap<NodeId, u16>,
    /// Most recent former members: a late request of one of these nodes to join is void.
    former: Vec<NodeId>,
    /// Members without a vote shall get their votes in another view.
    promotes: bool,
    /// Decisions that are known only from nodes that they admit (I-332).
    unconfirmed: Vec<UnconfirmedDecision<R>>,
    actions: Vec<ViewChangeAction<R>>,
}

impl<R: Report> Membership<R> {
    /// Creates a member of `view`, in which nothing has happened yet. The node founds the group
    /// alone ([`View::first`]) or with others ([`View::of_founders`]).
    pub fn founder(me: NodeId, arbitration: Arbitration, view: View) -> Option<Membership<R>> {
        let rank = view.rank_of(me)?;
        let mut new = Membership::joiner(me, arbitration);
        (new.status, new.rank) = (MemberStatus::Member, rank);
        new.rows = view.members.iter().map(|_| MemberRow::new()).collect();
        new.view = view;
        new.advance();
        Some(new)
    }

    /// Creates a node that wants to be a member. The node sends [`ViewChangeMessage::Join`] to
    /// members repeatedly until one of them tells it the view that admits it.
    pub fn joiner(me: NodeId, arbitration: Arbitration) -> Membership<R> {
        Membership {
            me,
            arbitration,
            status: MemberStatus::Joining,
            view: View::of_founders([]),
            rank: Rank(0),
            rows: Vec::new(),
            gone: RankSet::EMPTY,
            held_back: RankSet::EMPTY,
            wants_to_leave: false,
            wedged: false,
            reported: false,
            asked_ballot: None,
            winner: None,
            joiners: BTreeMap::new(),
            former: Vec::new(),
            promotes: false,
            unconfirmed: Vec::new(),
            actions: Vec::new(),
        }
    }

    /// Relation of this node to the group.
    pub fn status(&self) -> MemberStatus {
        self.status
    }

    /// Current view of this node, or its last view.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// Rank of this node in [`view`](Self::view).
    pub fn rank(&self) -> Rank {
        self.rank
    }

    /// Whether this node wants to leave. A report that this node makes after that says so, and no
    /// view that is decided with that report contains this node.
    pub fn wants_to_leave(&self) -> bool {
        self.wants_to_leave
    }

    /// Whether a view change is under way.
    pub fn is_wedged(&self) -> bool {
        self.wedged
    }

    /// Progress of this node in the change to the next view.
    pub fn stage(&self) -> ViewChangeStage {
        match self.rows.get(self.rank.index()).and_then(|own| own.accepted.as_ref()) {
            _ if !self.wedged => ViewChangeStage::Calm,
            _ if self.winner.is_some() => ViewChangeStage::Decided,
            Some((ballot, _)) if *ballot == self.rank => ViewChangeStage::Proposed,
            Some(_) => ViewChangeStage::Accepted,
            None if self.reported => ViewChangeStage::Reported,
            None => ViewChangeStage::Wedged,
        }
    }

    /// Members that this node suspects.
    pub fn suspects(&self) -> RankSet {
        self.rows.get(self.rank.index()).map_or(RankSet::EMPTY, |row| row.suspects)
    }

    /// Members that this node lacks because another member, which this node does not lack, suspects
    /// them, and that the kernel has not shown as gone or stopped. A member that suspects this node
    /// is lacked in return (I-46) and is no witness: this node itself may have been silent.
    pub fn reported_missing(&self) -> RankSet {
        let lacking = self.suspects().or(self.held_back);
        let witnesses = self.view.ranks().without(lacking.or(RankSet::one(self.rank)));
        let reported = |all: RankSet, rank: Rank| all.or(self.row(rank).suspects);
        let reported = witnesses.iter().fold(RankSet::EMPTY, reported);
        reported.and(lacking).without(self.gone)
    }

    /// Members that say that they suspect this node, and that this node does not suspect. Each of
    /// them and this node have lost contact. This node suspects them as well after a short time in
    /// which they may go on without it (I-46).
    pub fn suspected_by(&self) -> RankSet {
        let ranks = self.view.ranks().without(self.suspects().or(self.held_back));
        ranks.iter().filter(|&rank| self.row(rank).suspects.has(self.rank)).collect()
    }

    /// Members that this node awaits, each with the condition that the member can make true (I-79).
    pub fn waits(&self) -> Vec<(WaitCondition, Rank)> {
        if self.status != MemberStatus::Member {
            return Vec::new();
        }
        let leader = self.leader().map_or(RankSet::EMPTY, RankSet::one);
        let mut waits: Vec<(WaitCondition, RankSet)> = Vec::new();
        if self.wedged {
            waits.push((WaitCondition::Report, self.lacked_to_propose()));
            waits.push((WaitCondition::Proposal, leader));
            if self.own_row().accepted.is_some() {
                waits.push((WaitCondition::Acceptance, self.lacked_to_settle()));
            }
        } else {
            if !self.joiners.is_empty() {
                waits.push((WaitCondition::Admission, leader));
            }
            if self.wants_promotion() {
                waits.push((WaitCondition::Promotion, leader));
            }
        }
        let others = self.unsuspected().without(RankSet::one(self.rank).or(self.held_back));
        let of_others = |(what, ranks): (WaitCondition, RankSet)| {
            ranks.and(others).iter().map(move |rank| (what, rank)).collect::<Vec<_>>()
        };
        waits.into_iter().flat_map(of_others).collect()
    }

    /// Members that this node awaits and suspects if they stay silent for too long.
    pub fn awaited(&self) -> RankSet {
        self.waits().into_iter().map(|(_, rank)| rank).collect()
    }

    /// Returns the pending actions and clears them. The driver calls this method after each input.
    pub fn take_actions(&mut self) -> Vec<ViewChangeAction<R>> {
        mem::take(&mut self.actions)
    }

    /// Notes that a node wants to be a member, on its own request or on one that a member forwards
    /// (I-331). Does nothing if the node is a member already.
    fn wants_to_join(&mut self, from: NodeId, node: NodeId, weight: u16) {
        let known = self.view.rank_of(node).is_some() || self.former.contains(&node);
        let may_request = from == node || self.view.rank_of(from).is_some();
        if self.status != MemberStatus::Member || known || !may_request {
            return;
        }
        match from == node {
            true => self.joiners.insert(node, weight),
            // The node's own message has precedence.
            false => Some(*self.joiners.entry(node).or_insert(weight)),
        };
        // The leader may not have heard the request. A forwarded request is not forwarded again.
        if let Some(leader) = self.leader().filter(|leader| *leader != self.rank && from == node) {
            self.send(leader, ViewChangeMessage::Join { node, weight });
        }
    }

    /// Requests another view in which members that were admitted without a vote get their votes.
    pub fn promote(&mut self) {
        self.promotes = true;
        self.advance();
    }

    /// Drops the request of a node that wanted to be a member and is gone.
    pub fn forget_joiner(&mut self, node: NodeId) {
        self.joiners.remove(&node);
    }

    /// Starts to leave the group.
    pub fn leave(&mut self) {
        self.wants_to_leave = true;
        if self.status == MemberStatus::Joining {
            self.out(ExitReason::Left);
        }
        self.advance();
    }

    /// Suspects these members. `gone`: the kernel reports them as gone or stopped.
    pub fn suspect(&mut self, nodes: impl IntoIterator<Item = NodeId>, gone: bool) {
        let ranks: RankSet = nodes.into_iter().filter_map(|node| self.view.rank_of(node)).collect();
        self.suspect_ranks(ranks, gone);
        self.advance();
    }

    fn suspect_ranks(&mut self, ranks: RankSet, gone: bool) {
        if self.status != MemberStatus::Member {
            return;
        }
        let ranks = ranks.and(self.view.ranks()).without(RankSet::one(self.rank));
        if gone {
            self.gone = self.gone.or(ranks);
        }
        let suspects = self.suspects().or(self.held_back).or(ranks);
        if suspects == self.suspects() {
            return;
        }
        let alone = self.view.ranks().without(suspects) == RankSet::one(self.rank);
        if self.wants_to_leave && alone && !self.gone.covers(suspects) {
            // No other member is left for which this node could decide, and other members
            // may go on.
            return self.out(ExitReason::Left);
        }
        let known = FailureKnowledge { suspects, gone: self.gone };
        if !self.arbitration.allows(&self.view, known) && !self.can_ask(known) {
            // Before the first view nothing can be lost: late founders are waited for.
            if self.view.number > 0 {
                self.held_back = suspects.without(self.suspects());
                if planted(Fault::Rash) {
                    self.out(ExitReason::Minority);
                }
            }
            return;
        }
        self.held_back = RankSet::EMPTY;
        self.rows[self.rank.index()].suspects = suspects;
        // Sent after everything that was accepted before, and before everything that is
        // accepted later (I-42).
        if self.reported {
            self.tell_all(&ViewChangeMessage::Suspects { view: self.view.number, suspects });
        } else {
            self.tell_report();
        }
    }

    /// Takes the report of this node. All streams are stopped and make no progress
    /// beyond the report.
    pub fn report(&mut self, report: R) {
        if self.status != MemberStatus::Member || !self.wedged || self.own_row().report.is_some() {
            return;
        }
        let leaves = self.wants_to_leave;
        let row = &mut self.rows[self.rank.index()];
        (row.report, row.leaves) = (Some(report), leaves);
        self.tell_report();
        self.advance();
    }

    /// Tells the other members that this node has wedged, if it has and is not cut off.
    fn tell_report(&mut self) {
        let own_row = self.own_row();
        let Some(report) = own_row.report.clone().filter(|_| !self.is_cut_off()) else { return };
        let (view, suspects, leaves) = (self.view.number, own_row.suspects, own_row.leaves);
        self.reported = true;
        self.tell_all(&ViewChangeMessage::Wedged { view, suspects, leaves, report });
    }

    /// Takes the answer of the host's decision word: the ballot that decides the view of this
    /// number. `None` if the group is past that view.
    pub fn settled(&mut self, view: u64, winner: Option<Rank>) {
        if self.status != MemberStatus::Member || view != self.view.number + 1 {
            return;
        }
        match winner {
            Some(winner) => self.winner = Some(winner),
            None => self.out(ExitReason::Overtaken),
        }
        self.advance();
    }

    /// Whether the host's decision word holds a ballot whose decision no member has told this node.
    pub fn is_unread(&self) -> bool {
        self.status == MemberStatus::Member && self.winner.is_some()
    }

    /// Whether this node lacks so many members that the remaining members could not decide, as
    /// far as this node knows. The node may still learn of a decision that others have made, or
    /// that more of the missing members are gone. If neither happens in a short time, the node
    /// gives up (I-45).
    pub fn is_cut_off(&self) -> bool {
        self.status == MemberStatus::Member && !self.held_back.is_empty()
    }

    /// Leaves the group because no member has told this node the decision for too long, or because
    /// this node was cut off for too long.
    pub fn give_up(&mut self) {
        if self.status != MemberStatus::Member {
            return;
        }
        if self.winner.is_some() {
            self.out(ExitReason::Overtaken);
        } else if self.is_cut_off() {
            self.out(ExitReason::Minority);
        }
    }

    /// Leaves the group because this member does not see data that other members have received.
    pub fn fall_blind(&mut self) {
        if self.status == MemberStatus::Member {
            self.out(ExitReason::Blind);
        }
    }

    /// Leaves the group because the group was given up before this member entered its view (I-62).
    pub fn given_up(&mut self) {
        if self.status == MemberStatus::Member {
            self.actions.clear();
            self.out(ExitReason::Overtaken);
        }
    }

    /// Takes a message of another node.
    pub fn hear(&mut self, from: NodeId, message: ViewChangeMessage<R>) {
        let Some(message) = self.keep_for_later(from, message) else { return };
        match message {
            ViewChangeMessage::Join { node, weight } => self.wants_to_join(from, node, weight),
            ViewChangeMessage::Decided(decision) => {
                if self.may_decide(from, &decision) {
                    self.decided(decision);
                } else {
                    self.note_unconfirmed(from, decision);
                }
            }
            ViewChangeMessage::Wedged { view, suspects, leaves, report } => {
                if let Some(row) = self.row_of(from, view) {
                    row.leaves |= leaves;
                    row.report.get_or_insert(report);
                    self.receive_suspects(from, suspects);
                }
            }
            ViewChangeMessage::Suspects { view, suspects } => {
                if self.row_of(from, view).is_some() {
                    self.receive_suspects(from, suspects);
                }
            }
            ViewChangeMessage::Accepted { view, ballot, decision } => {
                if let Some(row) = self.row_of(from, view)
                    && row.accepted.as_ref().is_none_or(|(known, _)| *known < ballot)
                    && decision.next.number == view + 1
                {
                    row.accepted = Some((ballot, decision));
                }
            }
        }
        self.advance();
    }

    /// Whether a node may declare this decision final (I-332). A member accepts a decision from
    /// another member, or from any node if a member has accepted the same decision. A node without
    /// a view cannot compare the decision with anything.
    fn may_decide(&self, from: NodeId, decision: &Decision<R>) -> bool {
        let has_view = self.status == MemberStatus::Member && self.view.number > 0;
        if !has_view || self.view.rank_of(from).is_some() {
            return true;
        }
        let mut accepted = self.rows.iter().filter_map(|row| row.accepted.as_ref());
        accepted.any(|(_, known)| known == decision)
    }

    /// Keeps the first decision of a node that the decision admits: all members that have accepted
    /// the decision may be gone.
    fn note_unconfirmed(&mut self, from: NodeId, decision: Decision<R>) {
        let next = &decision.next;
        let follows = next.group == self.view.group && next.number == self.view.number + 1;
        let is_new = self.unconfirmed.iter().all(|unconfirmed| unconfirmed.node != from);
        let fits = self.unconfirmed.len() < RankSet::MOST;
        if follows && next.rank_of(from).is_some() && is_new && fits {
            self.unconfirmed.push(UnconfirmedDecision { node: from, decision, later: Vec::new() });
        }
    }

    /// Keeps messages that a node sends in the view of an unconfirmed decision. Returns any other
    /// message.
    fn keep_for_later(
        &mut self,
        from: NodeId,
        message: ViewChangeMessage<R>,
    ) -> Option<ViewChangeMessage<R>> {
        let (ViewChangeMessage::Wedged { view, .. }
        | ViewChangeMessage::Suspects { view, .. }
        | ViewChangeMessage::Accepted { view, .. }) = &message
        else {
            return Some(message);
        };
        let is_later = *view == self.view.number + 1;
        let mut unconfirmed = self.unconfirmed.iter_mut().filter(|_| is_later);
        let Some(unconfirmed) = unconfirmed.find(|it| it.node == from) else {
            return Some(message);
        };
        if unconfirmed.later.len() < LATER_MESSAGES {
            unconfirmed.later.push(message);
        }
        None
    }

    /// Adopts an unconfirmed decision if this member would fall out otherwise: the member is cut
    /// off, or no member tells it the decision that the host's decision word holds.
    pub(super) fn adopt_unconfirmed(&mut self) {
        if self.is_unread() || self.is_cut_off() {
            let decision = self.unconfirmed.first().map(|unconfirmed| unconfirmed.decision.clone());
            decision.into_iter().for_each(|decision| self.decided(decision));
        }
    }

    fn row_of(&mut self, from: NodeId, view: u64) -> Option<&mut MemberRow<R>> {
        let current = self.status == MemberStatus::Member && view == self.view.number;
        let rank = self.view.rank_of(from).filter(|_| current)?;
        self.rows.get_mut(rank.index())
    }

    /// Takes the suspicions of another member. This node adopts them if it does not suspect the
    /// member that published them.
    fn receive_suspects(&mut self, from: NodeId, suspects: RankSet) {
        let Some(rank) = self.view.rank_of(from) else { return };
        let row = &mut self.rows[rank.index()];
        row.suspects = row.suspects.or(suspects);
        if !self.suspects().has(rank) && !suspects.has(self.rank) {
            self.suspect_ranks(suspects, false);
        }
    }

    fn row(&self, rank: Rank) -> &MemberRow<R> {
        &self.rows[rank.index()]
    }

    fn own_row(&self) -> &MemberRow<R> {
        self.row(self.rank)
    }

    fn unsuspected(&self) -> RankSet {
        self.view.ranks().without(self.suspects())
    }

    /// The lowest-ranked member that this one does not suspect.
    pub fn leader(&self) -> Option<Rank> {
        self.unsuspected().lowest()
    }

    fn send(&mut self, to: Rank, message: ViewChangeMessage<R>) {
        self.actions.push(ViewChangeAction::Send(self.view.member(to).node, message));
    }

    fn tell_all(&mut self, message: &ViewChangeMessage<R>) {
        for rank in self.view.ranks().without(RankSet::one(self.rank)).iter() {
            self.send(rank, message.clone());
        }
    }
}
