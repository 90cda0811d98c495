//! One member's part in the change from its view to the next.
//!
//! Owns: what it knows of the others' rows, what it has said itself, and what follows. Never does:
//! take back a suspicion, a report or an acceptance within a view.

mod rules;

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::mem;

use super::arbitration::{Arbitration, Known};
use super::{Condition, Message, RankSet, Report, View};
use crate::fault::{Fault, planted};
use crate::ids::{NodeId, Rank};

/// What is decided: who goes on, and up to where those who were together come together.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Decision<R: Report> {
    /// The next view.
    pub next: View,
    /// How far everybody comes in the view that ends.
    pub cut: R::Cut,
}

/// How a node stands to its group.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Standing {
    /// It wants to be a member and is none yet.
    Joining,
    /// A member.
    Member,
    /// No member any more.
    Out(Fate),
}

/// Why a node is no member any more.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Fate {
    /// It wanted so.
    Left,
    /// The others go on without it.
    Excluded,
    /// It has lost so many others that it may decide nothing any more.
    Minority,
    /// The group has decided something that nobody who is left could tell it.
    Overtaken,
    /// It does not see what a member has sent and others have received (I-336).
    Blind,
}

/// How far a member has come in the change to the next view.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Stage {
    /// None is under way.
    Calm,
    /// Its streams are stopped, and it has not said so: it may be cut off.
    Wedged,
    /// It has told the others how far it has come.
    Reported,
    /// It leads, and has proposed a decision.
    Proposed,
    /// It has accepted what another one proposes.
    Accepted,
    /// The kernel has picked a decision, and this member does not know its contents.
    Decided,
}

/// What is to be done, in this order.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Action<R: Report> {
    /// Tell another one.
    Send(NodeId, Message<R>),
    /// Stop all streams, then call [`Membership::report`].
    Wedge,
    /// Ask the kernel whether this ballot is the one for this view, then call
    /// [`Membership::settled`].
    Settle {
        /// The number of the view to come.
        view: u64,
        /// Whose decision.
        ballot: Rank,
    },
    /// Apply the cut and go on in the next view.
    Install(Decision<R>),
    /// This node is no member any more: it delivers nothing after this.
    Out(Fate),
}

/// What one member has said in this view, as another one knows it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Row<R: Report> {
    suspects: RankSet,
    leaves: bool,
    report: Option<R>,
    accepted: Option<(Rank, Decision<R>)>,
}

impl<R: Report> Row<R> {
    fn new() -> Row<R> {
        Row { suspects: RankSet::EMPTY, leaves: false, report: None, accepted: None }
    }

    fn has_accepted(&self, ballot: Rank) -> bool {
        self.accepted.as_ref().is_some_and(|(accepted, _)| *accepted == ballot)
    }
}

/// Decision on the word of a node that it lets in.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Hearsay<R: Report> {
    node: NodeId,
    decision: Decision<R>,
    /// Words of that node in the view of the decision. The node says them once.
    later: Vec<Message<R>>,
}

/// Most words of one node that are kept for the view of a decision that is hearsay.
const LATER_WORDS: usize = 2 * RankSet::MOST;

/// Membership of one node in its group. See the [module](super).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Membership<R: Report> {
    me: NodeId,
    arbitration: Arbitration,
    standing: Standing,
    view: View,
    rank: Rank,
    /// Of every member of this view; this node's own too.
    rows: Vec<Row<R>>,
    /// Suspects of which the kernel says that they are gone, or stopped.
    gone: RankSet,
    /// Whom it would suspect if those who are left could decide.
    held_back: RankSet,
    wants_to_leave: bool,
    /// Its streams are stopped, or will be before anything else is done.
    wedged: bool,
    /// It has told the others its report.
    reported: bool,
    /// What the kernel was asked, and what it answered.
    asked: Option<Rank>,
    winner: Option<Rank>,
    joiners: BTreeMap<NodeId, u16>,
    /// The last members that are none any more: a request of theirs that comes late is void.
    former: Vec<NodeId>,
    /// Members that have no vote yet are to get theirs.
    promotes: bool,
    /// Decisions on the word of nodes that they let in (I-332).
    hearsay: Vec<Hearsay<R>>,
    actions: Vec<Action<R>>,
}

impl<R: Report> Membership<R> {
    /// A member of `view`, in which nothing has happened yet: of a group that it founds, alone
    /// ([`View::first`]) or with others ([`View::of_founders`]).
    pub fn founder(me: NodeId, arbitration: Arbitration, view: View) -> Option<Membership<R>> {
        let rank = view.rank_of(me)?;
        let mut new = Membership::joiner(me, arbitration);
        (new.standing, new.rank) = (Standing::Member, rank);
        new.rows = view.members.iter().map(|_| Row::new()).collect();
        new.view = view;
        new.advance();
        Some(new)
    }

    /// A node that wants to be a member. It tells members so by [`Message::Join`], again and again, until
    /// one of them tells it the view that it is in.
    pub fn joiner(me: NodeId, arbitration: Arbitration) -> Membership<R> {
        Membership {
            me,
            arbitration,
            standing: Standing::Joining,
            view: View::of_founders([]),
            rank: Rank(0),
            rows: Vec::new(),
            gone: RankSet::EMPTY,
            held_back: RankSet::EMPTY,
            wants_to_leave: false,
            wedged: false,
            reported: false,
            asked: None,
            winner: None,
            joiners: BTreeMap::new(),
            former: Vec::new(),
            promotes: false,
            hearsay: Vec::new(),
            actions: Vec::new(),
        }
    }

    /// How this node stands to the group.
    pub fn standing(&self) -> Standing {
        self.standing
    }

    /// The view that it is in, or was in last.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// Its rank in it.
    pub fn rank(&self) -> Rank {
        self.rank
    }

    /// Whether this node wants to leave. A report that it makes from now on says so, and no view that is decided with that report
    /// has this node in it.
    pub fn wants_to_leave(&self) -> bool {
        self.wants_to_leave
    }

    /// Whether a view change is under way.
    pub fn is_wedged(&self) -> bool {
        self.wedged
    }

    /// How far it has come in the change to the next view.
    pub fn stage(&self) -> Stage {
        match self.rows.get(self.rank.index()).and_then(|own| own.accepted.as_ref()) {
            _ if !self.wedged => Stage::Calm,
            _ if self.winner.is_some() => Stage::Decided,
            Some((ballot, _)) if *ballot == self.rank => Stage::Proposed,
            Some(_) => Stage::Accepted,
            None if self.reported => Stage::Reported,
            None => Stage::Wedged,
        }
    }

    /// Whom it suspects.
    pub fn suspects(&self) -> RankSet {
        self.rows.get(self.rank.index()).map_or(RankSet::EMPTY, |row| row.suspects)
    }

    /// Those who say that they suspect this node. Either it is gone for them or they for it: it suspects
    /// them as well when they have had a moment to go on without it (I-46).
    pub fn suspected_by(&self) -> RankSet {
        let ranks = self.view.ranks().without(self.suspects().or(self.held_back));
        ranks.iter().filter(|&rank| self.row(rank).suspects.has(self.rank)).collect()
    }

    /// Members whom this node awaits, each with the condition that it can make true (I-79).
    pub fn waits(&self) -> Vec<(Condition, Rank)> {
        if self.standing != Standing::Member {
            return Vec::new();
        }
        let leader = self.leader().map_or(RankSet::EMPTY, RankSet::one);
        let mut waits: Vec<(Condition, RankSet)> = Vec::new();
        if self.wedged {
            waits.push((Condition::Report, self.lacked_to_propose()));
            waits.push((Condition::Proposal, leader));
            if self.own().accepted.is_some() {
                waits.push((Condition::Acceptance, self.lacked_to_settle()));
            }
        } else {
            if !self.joiners.is_empty() {
                waits.push((Condition::Admission, leader));
            }
            if self.wants_promotion() {
                waits.push((Condition::Promotion, leader));
            }
        }
        let others = self.unsuspected().without(RankSet::one(self.rank).or(self.held_back));
        let of_others = |(what, ranks): (Condition, RankSet)| {
            ranks.and(others).iter().map(move |rank| (what, rank)).collect::<Vec<_>>()
        };
        waits.into_iter().flat_map(of_others).collect()
    }

    /// Members whom this node awaits, and who are to be suspected if they are silent for too long.
    pub fn awaited(&self) -> RankSet {
        self.waits().into_iter().map(|(_, rank)| rank).collect()
    }

    /// What is to be done. Whoever drives takes it after each call.
    pub fn take_actions(&mut self) -> Vec<Action<R>> {
        mem::take(&mut self.actions)
    }

    /// Notes that a node wants to be a member, by its own word or by a member's (I-331). Nothing happens if it is one.
    fn wants_to_join(&mut self, from: NodeId, node: NodeId, weight: u16) {
        let known = self.view.rank_of(node).is_some() || self.former.contains(&node);
        let may_say = from == node || self.view.rank_of(from).is_some();
        if self.standing != Standing::Member || known || !may_say {
            return;
        }
        match from == node {
            true => self.joiners.insert(node, weight),
            // Its own word counts more.
            false => Some(*self.joiners.entry(node).or_insert(weight)),
        };
        // Not everybody may have heard of it; but what was told on is not told on again.
        if let Some(leader) = self.leader().filter(|leader| *leader != self.rank && from == node) {
            self.send(leader, Message::Join { node, weight });
        }
    }

    /// Members that were admitted without a vote are to get theirs: another view.
    pub fn promote(&mut self) {
        self.promotes = true;
        self.advance();
    }

    /// A node that wanted to be a member is gone.
    pub fn forget_joiner(&mut self, node: NodeId) {
        self.joiners.remove(&node);
    }

    /// This node wants to leave.
    pub fn leave(&mut self) {
        self.wants_to_leave = true;
        if self.standing == Standing::Joining {
            self.out(Fate::Left);
        }
        self.advance();
    }

    /// These members are suspected. `gone`: the kernel says that they are gone, or stopped.
    pub fn suspect(&mut self, nodes: impl IntoIterator<Item = NodeId>, gone: bool) {
        let ranks: RankSet = nodes.into_iter().filter_map(|node| self.view.rank_of(node)).collect();
        self.suspect_ranks(ranks, gone);
        self.advance();
    }

    fn suspect_ranks(&mut self, ranks: RankSet, gone: bool) {
        if self.standing != Standing::Member {
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
            // There is nobody left for whom it could decide, and others may go on.
            return self.out(Fate::Left);
        }
        let known = Known { suspects, gone: self.gone };
        if !self.arbitration.allows(&self.view, known) && !self.can_ask(known) {
            // Before the first view there is nothing to lose: whoever is late is waited for.
            if self.view.number > 0 {
                self.held_back = suspects.without(self.suspects());
                if planted(Fault::Rash) {
                    self.out(Fate::Minority);
                }
            }
            return;
        }
        self.held_back = RankSet::EMPTY;
        self.rows[self.rank.index()].suspects = suspects;
        // Posted after all that was accepted before, and before all that will be (I-42).
        if self.reported {
            self.tell_all(&Message::Suspects { view: self.view.number, suspects });
        } else {
            self.tell_report();
        }
    }

    /// All streams are stopped; this is how far they have come, and they come no further.
    pub fn report(&mut self, report: R) {
        if self.standing != Standing::Member || !self.wedged || self.own().report.is_some() {
            return;
        }
        let leaves = self.wants_to_leave;
        let row = &mut self.rows[self.rank.index()];
        (row.report, row.leaves) = (Some(report), leaves);
        self.tell_report();
        self.advance();
    }

    /// Says that this node has wedged, if it has and is not cut off.
    fn tell_report(&mut self) {
        let own = self.own();
        let Some(report) = own.report.clone().filter(|_| !self.is_cut_off()) else { return };
        let (view, suspects, leaves) = (self.view.number, own.suspects, own.leaves);
        self.reported = true;
        self.tell_all(&Message::Wedged { view, suspects, leaves, report });
    }

    /// The kernel's answer: whose decision is the one for the view of this number. `None` if the group is
    /// past that view.
    pub fn settled(&mut self, view: u64, winner: Option<Rank>) {
        if self.standing != Standing::Member || view != self.view.number + 1 {
            return;
        }
        match winner {
            Some(winner) => self.winner = Some(winner),
            None => self.out(Fate::Overtaken),
        }
        self.advance();
    }

    /// Whether the kernel has picked a decision whose contents nobody has told this node.
    pub fn is_unread(&self) -> bool {
        self.standing == Standing::Member && self.winner.is_some()
    }

    /// Whether this node lacks so many others that those who are left could decide nothing, as far as it
    /// knows. It may learn that others have decided something already, or that more of those whom it lacks
    /// are gone; if neither comes in a moment, it gives up (I-45).
    pub fn is_cut_off(&self) -> bool {
        self.standing == Standing::Member && !self.held_back.is_empty()
    }

    /// For too long nobody has told this node what was decided, or it was cut off.
    pub fn give_up(&mut self) {
        if self.standing != Standing::Member {
            return;
        }
        if self.winner.is_some() {
            self.out(Fate::Overtaken);
        } else if self.is_cut_off() {
            self.out(Fate::Minority);
        }
    }

    /// This member does not see what others have received.
    pub fn fall_blind(&mut self) {
        if self.standing == Standing::Member {
            self.out(Fate::Blind);
        }
    }

    /// The group was given up before this member came to its view: it is out (I-62).
    pub fn given_up(&mut self) {
        if self.standing == Standing::Member {
            self.actions.clear();
            self.out(Fate::Overtaken);
        }
    }

    /// A message has come.
    pub fn hear(&mut self, from: NodeId, message: Message<R>) {
        let Some(message) = self.keep_for_later(from, message) else { return };
        match message {
            Message::Join { node, weight } => self.wants_to_join(from, node, weight),
            Message::Decided(decision) => {
                if self.may_decide(from, &decision) {
                    self.decided(decision);
                } else {
                    self.note_hearsay(from, decision);
                }
            }
            Message::Wedged { view, suspects, leaves, report } => {
                if let Some(row) = self.row_of(from, view) {
                    row.leaves |= leaves;
                    row.report.get_or_insert(report);
                    self.hear_suspects(from, suspects);
                }
            }
            Message::Suspects { view, suspects } => {
                if self.row_of(from, view).is_some() {
                    self.hear_suspects(from, suspects);
                }
            }
            Message::Accepted { view, ballot, decision } => {
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

    /// Whether a node may say that this is final (I-332). A member believes the others, and whoever repeats what one of them has
    /// accepted. A node without a view has nothing to compare the decision with.
    fn may_decide(&self, from: NodeId, decision: &Decision<R>) -> bool {
        let has_view = self.standing == Standing::Member && self.view.number > 0;
        if !has_view || self.view.rank_of(from).is_some() {
            return true;
        }
        let mut accepted = self.rows.iter().filter_map(|row| row.accepted.as_ref());
        accepted.any(|(_, known)| known == decision)
    }

    /// Keeps the first decision that a node tells which the decision lets in: all members that have accepted it may be gone.
    fn note_hearsay(&mut self, from: NodeId, decision: Decision<R>) {
        let next = &decision.next;
        let follows = next.group == self.view.group && next.number == self.view.number + 1;
        let is_new = self.hearsay.iter().all(|hearsay| hearsay.node != from);
        let fits = self.hearsay.len() < RankSet::MOST;
        if follows && next.rank_of(from).is_some() && is_new && fits {
            self.hearsay.push(Hearsay { node: from, decision, later: Vec::new() });
        }
    }

    /// Keeps what a node says in the view of a decision that is hearsay until now. Returns any other message.
    fn keep_for_later(&mut self, from: NodeId, message: Message<R>) -> Option<Message<R>> {
        let (Message::Wedged { view, .. }
        | Message::Suspects { view, .. }
        | Message::Accepted { view, .. }) = &message
        else {
            return Some(message);
        };
        let is_later = *view == self.view.number + 1;
        let mut hearsay = self.hearsay.iter_mut().filter(|_| is_later);
        let Some(hearsay) = hearsay.find(|it| it.node == from) else { return Some(message) };
        if hearsay.later.len() < LATER_WORDS {
            hearsay.later.push(message);
        }
        None
    }

    /// Believes what was noted, if this member would go out otherwise: it is cut off, or nobody tells it what the kernel has
    /// picked.
    pub(super) fn believe_hearsay(&mut self) {
        if self.is_unread() || self.is_cut_off() {
            let decision = self.hearsay.first().map(|hearsay| hearsay.decision.clone());
            decision.into_iter().for_each(|decision| self.decided(decision));
        }
    }

    fn row_of(&mut self, from: NodeId, view: u64) -> Option<&mut Row<R>> {
        let current = self.standing == Standing::Member && view == self.view.number;
        let rank = self.view.rank_of(from).filter(|_| current)?;
        self.rows.get_mut(rank.index())
    }

    /// A published suspicion is joined by those who do not suspect the one who published it.
    fn hear_suspects(&mut self, from: NodeId, suspects: RankSet) {
        let Some(rank) = self.view.rank_of(from) else { return };
        let row = &mut self.rows[rank.index()];
        row.suspects = row.suspects.or(suspects);
        if !self.suspects().has(rank) && !suspects.has(self.rank) {
            self.suspect_ranks(suspects, false);
        }
    }

    fn row(&self, rank: Rank) -> &Row<R> {
        &self.rows[rank.index()]
    }

    fn own(&self) -> &Row<R> {
        self.row(self.rank)
    }

    fn unsuspected(&self) -> RankSet {
        self.view.ranks().without(self.suspects())
    }

    /// The lowest-ranked member that this one does not suspect.
    pub fn leader(&self) -> Option<Rank> {
        self.unsuspected().lowest()
    }

    fn send(&mut self, to: Rank, message: Message<R>) {
        self.actions.push(Action::Send(self.view.member(to).node, message));
    }

    fn tell_all(&mut self, message: &Message<R>) {
        for rank in self.view.ranks().without(RankSet::one(self.rank)).iter() {
            self.send(rank, message.clone());
        }
    }
}
