//! Rules of the view change: wedge, propose, accept, settle, install.
//!
//! Owns: the rules I-40 to I-45. Never does: receive a message, or cause an effect other than a
//! [`ViewChangeAction`].

use alloc::vec::Vec;
use core::mem;

use super::{
    Decision, ExitReason, MemberRow, MemberStatus, Membership, UnconfirmedDecision,
    ViewChangeAction,
};
use crate::fault::{Fault, planted};
use crate::ids::{NodeId, Rank};
use crate::membership::arbitration::{Arbitration, ArbitrationVerdict, FailureKnowledge};
use crate::membership::{RankSet, Report, View, ViewChangeMessage, ViewMember};

impl<R: Report> Membership<R> {
    /// Applies all rules to the current knowledge.
    pub(super) fn advance(&mut self) {
        if self.status != MemberStatus::Member {
            return;
        }
        if !self.wedged && self.has_cause() {
            self.wedged = true;
            self.actions.push(ViewChangeAction::Wedge);
        }
        if self.own_row().report.is_none() {
            return;
        }
        if !self.is_cut_off() {
            self.propose();
            self.accept();
        }
        self.finish();
        self.adopt_unconfirmed();
    }

    fn has_cause(&self) -> bool {
        let others = self.unsuspected();
        let led = self.leader() == Some(self.rank);
        self.view.number == 0
            || self.wants_to_leave
            || !self.suspects().or(self.held_back).is_empty()
            || (led && (!self.joiners.is_empty() || self.wants_promotion()))
            || others.iter().any(|rank| self.row(rank).report.is_some())
    }

    /// Whether some members do not have all their votes yet.
    pub fn lacks_votes(&self) -> bool {
        let network = self.arbitration == Arbitration::Network;
        network && self.view.members.iter().any(|member| member.votes != member.weight)
    }

    /// Whether the leader must make a view in which all members have their votes.
    pub(super) fn wants_promotion(&self) -> bool {
        self.promotes && self.lacks_votes()
    }

    /// Members from which the leader lacks a report, or the suspicion of a member ranked before the
    /// leader, before it can propose (I-41). A member that suspects the leader counts as lacking;
    /// the leader suspects it in return (I-46).
    pub(super) fn lacked_to_propose(&self) -> RankSet {
        let Some(leader) = self.leader() else { return RankSet::EMPTY };
        let before = RankSet::below(leader);
        let is_ready = |rank: &Rank| {
            let row = self.row(*rank);
            let agrees = row.suspects.covers(before) || planted(Fault::Hasty);
            let follows = !row.suspects.has(leader) || planted(Fault::SuspectedLeads);
            row.report.is_some() && agrees && follows
        };
        self.unsuspected().iter().filter(|rank| !is_ready(rank)).collect()
    }

    /// Members that have not accepted the leader's proposal.
    pub(super) fn lacked_to_settle(&self) -> RankSet {
        let Some(leader) = self.leader() else { return RankSet::EMPTY };
        self.unsuspected().iter().filter(|rank| !self.row(*rank).has_accepted(leader)).collect()
    }

    /// Proposes a decision if this node leads (I-41). The ballot of a member is its rank. The
    /// leader proposes when it has the reports of all members that it does not suspect, all of them
    /// suspect every member before the leader, and none of them suspects the leader.
    fn propose(&mut self) {
        if self.leader() != Some(self.rank) || self.own_row().has_accepted(self.rank) {
            return;
        }
        // In a networked group these are a primary partition: I-45 limits the suspicions
        // of a member.
        let heard = self.unsuspected();
        if !self.lacked_to_propose().is_empty() {
            return;
        }
        let accepted = heard.iter().filter_map(|rank| self.row(rank).accepted.as_ref());
        // A decision that may be final already is among these.
        let decision = match accepted.max_by_key(|(ballot, _)| *ballot) {
            Some((_, decision)) if !planted(Fault::AdoptNothing) => decision.clone(),
            _ => self.compose(heard),
        };
        self.accept_as(self.rank, decision);
    }

    fn accept_as(&mut self, ballot: Rank, decision: Decision<R>) {
        let view = self.view.number;
        self.tell_all(&ViewChangeMessage::Accepted { view, ballot, decision: decision.clone() });
        self.rows[self.rank.index()].accepted = Some((ballot, decision));
    }

    /// Composes a decision: the members that have reported go on in their order, without those that
    /// leave. Joiners follow after them.
    fn compose(&self, heard: RankSet) -> Decision<R> {
        let reports = heard.iter().filter_map(|rank| {
            let report = self.row(rank).report.as_ref()?;
            let counts = rank == self.rank || !planted(Fault::CutOfOne);
            counts.then_some((self.view.member(rank).node, report))
        });
        let cut = R::cut(reports);
        let staying = heard.iter().filter(|&rank| !self.row(rank).leaves);
        let mut members: Vec<ViewMember> = staying
            .map(|rank| {
                let member = *self.view.member(rank);
                ViewMember { votes: member.weight, ..member }
            })
            .collect();
        // A new member that vanishes must not remove a majority, but some member must have votes.
        let voiceless = members.iter().all(|member| member.votes == 0);
        for (&node, &weight) in &self.joiners {
            let taken = |slot| members.iter().any(|member: &ViewMember| member.slot == slot);
            let slot = self.view.free_slot(taken).filter(|_| members.len() < RankSet::MOST);
            let Some(slot) = slot else { break };
            let votes = if voiceless || planted(Fault::JoinersVote) { weight } else { 0 };
            members.push(ViewMember { node, slot, votes, weight });
        }
        let View { group, number, .. } = self.view;
        Decision { next: View { group, number: number + 1, members }, cut }
    }

    /// Accepts the proposal of the lowest-ranked member that is not suspected, from its own row.
    /// Never accepts a lower ballot than before (I-42).
    fn accept(&mut self) {
        let Some(leader) = self.leader().filter(|leader| *leader != self.rank) else { return };
        if planted(Fault::AcceptFromAnybody) || planted(Fault::AcceptLower) {
            return self.accept_wrongly();
        }
        let row = self.row(leader);
        let older = self.own_row().accepted.as_ref().is_some_and(|(ballot, _)| *ballot >= leader);
        if older || row.suspects.has(self.rank) {
            return;
        }
        if let Some((ballot, decision)) = &row.accepted
            && *ballot == leader
        {
            let decision = decision.clone();
            self.accept_as(leader, decision);
        }
    }

    /// Planted fault: accepts without I-42.
    fn accept_wrongly(&mut self) {
        let own = self.own_row().accepted.as_ref().map(|(ballot, _)| *ballot);
        let lower = planted(Fault::AcceptLower);
        let found = self.rows.iter().enumerate().find_map(|(rank, row)| {
            let (ballot, decision) = row.accepted.as_ref()?;
            let wanted =
                if lower { ballot.index() == rank } else { own.is_none_or(|own| *ballot > own) };
            (wanted && Some(*ballot) != own).then(|| (*ballot, decision.clone()))
        });
        if let Some((ballot, decision)) = found {
            self.accept_as(ballot, decision);
        }
    }

    fn finish(&mut self) {
        let ballots = self.ballots();
        for ballot in ballots.iter() {
            let Some(decision) = self.decision_of(ballot) else { continue };
            match self.judge(&decision, ballot, self.failure_knowledge()) {
                ArbitrationVerdict::Final => return self.decided(decision),
                ArbitrationVerdict::Ask if self.asked_ballot.is_none() => {
                    self.asked_ballot = Some(ballot);
                    self.actions
                        .push(ViewChangeAction::Settle { view: self.view.number + 1, ballot });
                }
                ArbitrationVerdict::Ask | ArbitrationVerdict::Wait => {}
            }
        }
        if let Some(decision) = self.winner.and_then(|winner| self.decision_of(winner)) {
            self.decided(decision);
        }
    }

    fn ballots(&self) -> RankSet {
        let accepted = self.rows.iter().filter_map(|row| row.accepted.as_ref());
        accepted.map(|(ballot, _)| *ballot).collect()
    }

    fn failure_knowledge(&self) -> FailureKnowledge {
        FailureKnowledge { suspects: self.suspects(), gone: self.gone }
    }

    /// Verdict of the arbitration rule on a decision, with this knowledge.
    fn judge(
        &self,
        decision: &Decision<R>,
        ballot: Rank,
        failures: FailureKnowledge,
    ) -> ArbitrationVerdict {
        let accepted = |rank: &Rank| self.row(*rank).has_accepted(ballot);
        let accepted: RankSet = self.view.ranks().iter().filter(accepted).collect();
        let kept = decision.next.members.iter();
        let kept: RankSet = kept.filter_map(|m| self.view.rank_of(m.node)).collect();
        match self.arbitration.judge(&self.view, failures, kept, accepted) {
            // A member that the next view excludes leaves the submission to members of
            // the next view.
            ArbitrationVerdict::Ask if !kept.has(self.rank) && !self.own_row().leaves => {
                ArbitrationVerdict::Wait
            }
            verdict => verdict,
        }
    }

    /// Whether this member has submitted a ballot to the host's decision word, or could do so with
    /// this knowledge. The answer may be that this member goes on, with any set of members.
    pub(super) fn can_ask(&self, failures: FailureKnowledge) -> bool {
        let asks = |ballot| {
            let decision = self.decision_of(ballot);
            decision
                .is_some_and(|what| self.judge(&what, ballot, failures) == ArbitrationVerdict::Ask)
        };
        self.asked_ballot.is_some() || self.ballots().iter().any(asks)
    }

    /// Decision that the member of this rank has proposed, if any member has told it.
    fn decision_of(&self, ballot: Rank) -> Option<Decision<R>> {
        let accepted = self.rows.iter().filter_map(|row| row.accepted.as_ref());
        accepted.into_iter().find(|(known, _)| *known == ballot).map(|(_, what)| what.clone())
    }

    /// Applies a final decision. I-40: tells the decision to all members before anything is said in
    /// the next view.
    pub(super) fn decided(&mut self, decision: Decision<R>) {
        let next = &decision.next;
        // A late founder is in no view yet either.
        let viewless = self.status == MemberStatus::Joining
            || (self.status == MemberStatus::Member && self.view.number == 0);
        let joins = viewless && next.rank_of(self.me).is_some();
        let same = next.group == self.view.group;
        let follows =
            self.status == MemberStatus::Member && same && next.number == self.view.number + 1;
        if !joins && !follows {
            return;
        }
        // New members also tell the decision: theirs may be the only message that arrives.
        let silent = planted(Fault::NewcomersSilent) && joins;
        if !silent && !planted(Fault::Silent) {
            let old = self.view.members.iter().map(|member| member.node);
            let new = next.members.iter().map(|member| member.node);
            let new = new.filter(|node| self.view.rank_of(*node).is_none());
            let all: Vec<NodeId> = old.chain(new).filter(|node| *node != self.me).collect();
            for node in all {
                self.actions.push(ViewChangeAction::Send(
                    node,
                    ViewChangeMessage::Decided(decision.clone()),
                ));
            }
        }
        let Some(rank) = next.rank_of(self.me) else {
            return self.end(decision);
        };
        // Suspicions of a view in which this node never was are meaningless here.
        let suspects = self.suspects().or(self.held_back);
        let suspects = if follows { suspects } else { RankSet::EMPTY };
        let still = suspects.iter().map(|rank| (self.view.member(rank).node, self.gone.has(rank)));
        let later: Vec<(NodeId, bool)> = still.collect();
        // Late founders were never members.
        let ended = self.view.members.iter().filter(|_| self.view.number > 0);
        let ended = ended.map(|member| member.node);
        self.former.extend(ended.filter(|node| next.rank_of(*node).is_none()));
        self.former.drain(..self.former.len().saturating_sub(RankSet::MOST));
        (self.status, self.rank) = (MemberStatus::Member, rank);
        self.view = decision.next.clone();
        self.rows = self.view.members.iter().map(|_| MemberRow::new()).collect();
        (self.gone, self.held_back) = (RankSet::EMPTY, RankSet::EMPTY);
        (self.wedged, self.reported, self.promotes) = (false, false, false);
        (self.asked_ballot, self.winner) = (None, None);
        let mut unconfirmed = mem::take(&mut self.unconfirmed);
        unconfirmed.retain(|hearsay| hearsay.decision == decision);
        self.joiners.retain(|node, _| self.view.rank_of(*node).is_none());
        self.actions.push(ViewChangeAction::Install(decision));
        for UnconfirmedDecision { node, later, .. } in unconfirmed {
            later.into_iter().for_each(|message| self.hear(node, message));
        }
        // The next view change deals with members that failed meanwhile.
        for (node, gone) in later {
            let ranks = self.view.rank_of(node).into_iter().collect();
            self.suspect_ranks(ranks, gone);
        }
        self.advance();
    }

    /// Applies a decision in which this node is not a member.
    fn end(&mut self, decision: Decision<R>) {
        if self.view.number == 0 {
            // The other founders have founded the group meanwhile. This node joins later.
            *self =
                Membership::joiner(self.me, self.arbitration).keeping(mem::take(&mut self.actions));
        } else if self.own_row().leaves {
            // A leaving member has reported like the others and delivers up to the same cut.
            self.actions.push(ViewChangeAction::Install(decision));
            self.out(ExitReason::Left);
        } else {
            self.out(ExitReason::Excluded);
        }
    }

    fn keeping(self, actions: Vec<ViewChangeAction<R>>) -> Membership<R> {
        Membership { actions, ..self }
    }

    pub(super) fn out(&mut self, reason: ExitReason) {
        if !planted(Fault::OutGoesOn) {
            self.status = MemberStatus::Out(reason);
        }
        self.actions.push(ViewChangeAction::Out(reason));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use crate::ids::{NodeId, Rank};
    use crate::membership::{
        Arbitration, Membership, RankSet, Report, View, ViewChangeMessage, WaitCondition,
    };

    impl Report for u64 {
        type Cut = u64;

        fn cut<'a>(reports: impl Iterator<Item = (NodeId, &'a u64)>) -> u64 {
            reports.map(|(_, report)| *report).min().unwrap_or(0)
        }
    }

    /// Returns the second of five members, in a view of all five.
    fn second_of_five() -> Membership<u64> {
        second_of_five_in(Arbitration::Network)
    }

    fn second_of_five_in(arbitration: Arbitration) -> Membership<u64> {
        let nodes: [NodeId; 5] = core::array::from_fn(|rank| NodeId(rank as u128 + 1));
        let mut view = View::of_founders(nodes.map(|node| (node, 1)));
        view.number = 1;
        Membership::founder(nodes[1], arbitration, view).expect("it is a member")
    }

    fn reports(suspects: RankSet) -> ViewChangeMessage<u64> {
        ViewChangeMessage::Wedged { view: 1, suspects, leaves: false, report: 0 }
    }

    #[test]
    fn leader_awaits_reporter_that_does_not_suspect_earlier_members() {
        let mut leader = second_of_five();
        // The fourth member has reported before the first one failed, and says nothing more.
        leader.hear(NodeId(4), reports(RankSet::EMPTY));
        leader.report(0);
        for other in [NodeId(3), NodeId(5)] {
            leader.hear(other, reports(RankSet::one(Rank(0))));
        }
        assert_eq!(leader.leader(), Some(Rank(1)));
        assert_eq!(leader.waits(), [(WaitCondition::Report, Rank(3))]);
        leader.suspect([NodeId(4)], false);
        let accepts = [(WaitCondition::Acceptance, Rank(2)), (WaitCondition::Acceptance, Rank(4))];
        assert_eq!(leader.waits(), accepts, "it has proposed");
    }

    #[test]
    fn host_is_asked_only_for_members_that_a_present_member_suspects() {
        let mut member = second_of_five_in(Arbitration::Local);
        let missing: RankSet = [2, 3, 4].map(Rank).into_iter().collect();
        member.hear(NodeId(1), reports(missing));
        assert!(member.is_cut_off());
        assert_eq!(member.reported_missing(), missing);
        member.suspect([NodeId(3), NodeId(4)], true);
        assert!(!member.is_cut_off(), "two of three living members remain");
        // All others suspect this member, which was silent itself.
        let mut silent = second_of_five_in(Arbitration::Local);
        let others = [1, 3, 4, 5].map(NodeId);
        others.into_iter().for_each(|node| silent.hear(node, reports(RankSet::one(Rank(1)))));
        silent.suspect(others, false);
        assert!(silent.is_cut_off());
        assert_eq!(silent.reported_missing(), RankSet::EMPTY);
    }

    #[test]
    fn member_that_knows_a_joiner_awaits_the_leader() {
        let mut member = second_of_five();
        assert_eq!(member.waits(), []);
        member.hear(NodeId(9), ViewChangeMessage::Join { node: NodeId(9), weight: 1 });
        assert_eq!(member.waits(), [(WaitCondition::Admission, Rank(0))]);
        member.forget_joiner(NodeId(9));
        assert_eq!(member.waits(), []);
    }
}
