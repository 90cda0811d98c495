//! State of one shard in a group: the members wanted, their offers, and the holders of its object.
//!
//! Owns: the rules that assign seats and holders. Never does: choose the wanted members.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::ObjectPosition;
use super::plan::{ShardMember, ShardPlan};
use crate::bytes::in_order;
use crate::group::log_register::AwaitedLogs;
use crate::group::registry::LayoutMember;
use crate::ids::{NodeId, RegionId};
use crate::log::LogId;
use crate::storage::log_election::{ElectionState, LogClaim, LogElection};
use crate::transfer::holders::Holders;

/// Resources that a member has opened for a shard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ShardOffer {
    /// Region of its lines.
    pub lines: RegionId,
    /// Region of its stream, if it sends.
    pub sends: Option<RegionId>,
    /// Whether it reads.
    pub reads: bool,
    /// Position of the object in its checkpoint, if it has one.
    pub checkpoint: Option<ObjectPosition>,
}

impl ShardOffer {
    fn fits(&self, place: &ShardMember) -> bool {
        self.sends.is_some() == place.sends && self.reads == place.reads
    }
}

/// State of a shard, as one member's object needs it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ShardStatus {
    /// Whether messages are ordered, so that there can be an object.
    pub ordered: bool,
    /// Members that have the object.
    pub holders: Holders,
    /// Logs of the shard, if it is logged.
    pub logs: Option<Arc<LogElection>>,
    /// State of the beginning of a logged object that no member has.
    pub awaited: Option<ElectionState>,
    /// Whether the member is wanted as a reader of a logged shard.
    pub wanted: bool,
    /// Whether the member has a log of the shard from before.
    pub has_log: bool,
}

/// State of one shard; see the [module](self).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ShardState {
    /// Whether messages are totally ordered, so that there can be an object.
    ordered: bool,
    wanted: ShardPlan,
    offers: BTreeMap<NodeId, ShardOffer>,
    at_work: bool,
    holders: Holders,
    /// Logs of the shard, if it is logged.
    logs: Option<Arc<LogElection>>,
}

impl ShardState {
    /// Creates a shard of a directory of this era.
    pub(super) fn new(ordered: bool, logged: bool, era: u128) -> ShardState {
        ShardState {
            ordered,
            wanted: Vec::new(),
            offers: BTreeMap::new(),
            at_work: false,
            holders: Holders::of_era(era),
            logs: logged.then(Arc::default),
        }
    }

    /// Whether it has begun, so that its members have seats.
    pub fn is_at_work(&self) -> bool {
        self.at_work
    }

    /// Holders of its object, in the order in which they got it.
    pub fn holders(&self) -> &[NodeId] {
        self.holders.names()
    }

    /// Number of the object's beginning: later beginnings have greater numbers.
    pub fn beginning(&self) -> u128 {
        self.holders.beginning()
    }

    /// Number of the present vacancy, if no member is known to hold the object.
    pub fn vacancy(&self) -> Option<u64> {
        self.holders.vacancy()
    }

    /// Logs of the shard, if it is logged.
    pub fn logs(&self) -> Option<&LogElection> {
        self.logs.as_deref()
    }

    /// Returns the state that the object of this member needs.
    pub(super) fn status(&self, member: NodeId, has_log: bool) -> ShardStatus {
        let reads = || self.member_of(member).is_some_and(|place| place.reads);
        ShardStatus {
            ordered: self.ordered,
            holders: self.holders.clone(),
            logs: self.logs.clone(),
            awaited: self.awaited(),
            wanted: self.logs.is_some() && reads(),
            has_log,
        }
    }

    /// State of the beginning of a logged object that no member has.
    pub fn awaited(&self) -> Option<ElectionState> {
        let logs = self.logs.as_ref().filter(|_| self.holders().is_empty())?;
        (!self.wanted.is_empty()).then(|| logs.state(self.holders.vacancies()))
    }

    /// Returns the offer of a member.
    pub fn offer_of(&self, node: NodeId) -> Option<&ShardOffer> {
        self.offers.get(&node)
    }

    /// Returns the place that a member is asked to take.
    pub fn member_of(&self, node: NodeId) -> Option<ShardMember> {
        self.expected().into_iter().find(|place| place.node == node)
    }

    /// Places in the layout of the members that have offered, once the shard has begun.
    pub fn layout_members(&self) -> Vec<LayoutMember> {
        if !self.at_work {
            return Vec::new();
        }
        let expected = self.expected().into_iter();
        let seat = |place: ShardMember| {
            let ShardOffer { lines, sends, reads, .. } = *self.offers.get(&place.node)?;
            Some(LayoutMember { node: place.node, reads, sends, lines })
        };
        expected.filter_map(seat).collect()
    }

    /// Returns the wanted members, followed by the members called up because no wanted member has
    /// the object.
    fn expected(&self) -> ShardPlan {
        let mut expected = self.wanted.clone();
        let holds = |place: &ShardMember| place.reads && self.holders().contains(&place.node);
        if expected.is_empty() || expected.iter().any(holds) {
            return expected;
        }
        let is_wanted = |node: &NodeId| self.wanted.iter().any(|place| place.node == *node);
        // A holder that is wanted without reading reads until another member has the object.
        let held = |place: &&mut ShardMember| self.holders().contains(&place.node);
        if let Some(place) = expected.iter_mut().find(held) {
            place.reads = true;
            return expected;
        }
        let others = self.holders().iter().filter(|node| !is_wanted(node));
        let place = |node: NodeId, offer: &ShardOffer| ShardMember {
            node,
            sends: offer.sends.is_some(),
            reads: offer.reads,
        };
        let seated = others.clone().filter_map(|node| Some(place(*node, self.offers.get(node)?)));
        let called: ShardPlan = seated.collect();
        match called.is_empty() {
            true => {
                let place = |node: &NodeId| ShardMember { node: *node, sends: false, reads: true };
                expected.extend(others.take(1).map(place));
            }
            false => expected.extend(called),
        }
        expected
    }

    /// Sets the wanted members.
    pub(super) fn want(&mut self, wanted: &[ShardMember]) {
        self.wanted = wanted.to_vec();
        self.tidy();
    }

    pub(super) fn offer(&mut self, node: NodeId, offer: ShardOffer) {
        if self.member_of(node).is_some_and(|place| offer.fits(&place)) {
            self.offers.insert(node, offer);
            self.tidy();
        }
    }

    pub(super) fn holds(&mut self, node: NodeId, beginning: u128) {
        let seated = self.at_work && self.offers.get(&node).is_some_and(|offer| offer.reads);
        if seated {
            self.holders.holds(node, beginning);
            self.tidy();
        }
    }

    pub(super) fn lacks(&mut self, node: NodeId, vacancy: u64) {
        if self.holders.lacks(node, vacancy) {
            self.tidy();
        }
    }

    pub(super) fn forget(&mut self, node: NodeId) {
        self.wanted.retain(|place| place.node != node);
        self.offers.remove(&node);
        self.holders.forget(node);
        self.logs_mut().into_iter().for_each(|logs| logs.forget(node));
        self.tidy();
    }

    pub(super) fn claim(&mut self, node: NodeId, vacancy: u64, claim: LogClaim) {
        let matters = self.holders().is_empty() || self.member_of(node).is_some();
        if let Some(logs) = self.logs_mut().filter(|_| matters) {
            logs.claim(node, vacancy, claim);
            self.tidy();
        }
    }

    pub(super) fn disclaim(&mut self, node: NodeId, holds: bool) {
        self.logs_mut().into_iter().for_each(|logs| logs.disclaim(node));
        if !holds {
            self.holders.forget(node);
        }
        self.tidy();
    }

    /// Returns the logs that have what was durable of the shard, while no present member has a
    /// complete log; none for a shard without wanted members.
    pub(super) fn leans_on(&self) -> impl Iterator<Item = LogId> + '_ {
        let logs = self.logs.iter().filter(|_| !self.wanted.is_empty());
        logs.flat_map(|logs| logs.leans_on(&self.holders))
    }

    /// Sets the logs that the logs of views name for the shard.
    pub(super) fn await_logs(&mut self, awaited: AwaitedLogs) {
        if let Some(logs) = self.logs_mut() {
            logs.await_logs(awaited);
            self.tidy();
        }
    }

    fn logs_mut(&mut self) -> Option<&mut LogElection> {
        self.logs.as_mut().map(Arc::make_mut)
    }

    /// Applies the consequences of a change.
    fn tidy(&mut self) {
        if self.wanted.is_empty() {
            // A holder keeps the object for when the shard begins again.
            self.offers.clear();
            self.at_work = false;
            self.holders.adjourn();
            return;
        }
        self.reseat();
        if self.logs.is_some() && !self.at_work {
            // No member has a seat, so no unknown member can have the object.
            self.fill_vacancy(false);
            self.reseat();
        }
        if self.at_work {
            // A member without a seat does not receive further messages of the shard.
            self.holders.retain(|node| self.offers.contains_key(node));
            self.fill_vacancy(true);
        }
        if !self.holders().is_empty() {
            // A member without a part in the shard keeps no log of later messages.
            let ShardState { logs, offers, wanted, holders, .. } = self;
            let takes_part = |node: &NodeId| {
                let is_wanted = wanted.iter().any(|place| place.node == *node);
                is_wanted || offers.contains_key(node) || holders.names().contains(node)
            };
            logs.iter_mut().for_each(|logs| Arc::make_mut(logs).retain(takes_part));
        }
    }

    /// Decides which members lose their seats, and whether the shard begins.
    fn reseat(&mut self) {
        let expected = self.expected();
        let place = |node: &NodeId| expected.iter().find(|place| place.node == *node);
        let others_hold = |node: &NodeId| self.holders().iter().any(|other| other != node);
        // A member with a changed place joins again, unless it is the only holder of the object.
        let keeps_seat = |node: &NodeId, offer: &ShardOffer| {
            place(node).is_some_and(|place| offer.fits(place) || !others_hold(node))
        };
        let gone: Vec<NodeId> = {
            let leaves = self.offers.iter().filter(|(node, offer)| !keeps_seat(node, offer));
            leaves.map(|(node, _)| *node).collect()
        };
        self.offers.retain(|node, _| !gone.contains(node));
        if self.offers.is_empty() {
            self.at_work = false;
        } else if expected.iter().all(|place| self.offers.contains_key(&place.node)) {
            // A logged shard begins once it is known from which log (I-109).
            self.at_work |= self.logs.is_none() || !self.holders().is_empty();
        }
    }

    fn fill_vacancy(&mut self, seated: bool) {
        if !self.ordered {
            return self.holders.adjourn();
        }
        let readers = self.offers.iter().filter(|(_, offer)| offer.reads && seated);
        let readers: Vec<NodeId> = readers.map(|(node, _)| *node).collect();
        if let Some(logs) = &mut self.logs {
            return Arc::make_mut(logs).settle(&mut self.holders, &readers);
        }
        let seats = self.layout_members();
        // The newest checkpoint wins; among equal ones, the first in the order of seats.
        let checkpoint = |node: &NodeId| self.offers.get(node).and_then(|offer| offer.checkpoint);
        let seated = seats.iter().filter(|seat| seat.reads).map(|seat| seat.node);
        self.holders.settle(&readers, |_| seated.rev().max_by_key(checkpoint));
    }
}

in_order! {
    ShardMember { node, sends, reads }
    ShardOffer { lines, sends, reads, checkpoint }
    ShardState { ordered, wanted, offers, at_work, holders, logs }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::bytes::Wire;

    const A: NodeId = NodeId(1);
    const B: NodeId = NodeId(2);
    const C: NodeId = NodeId(3);

    fn places(nodes: &[NodeId]) -> ShardPlan {
        nodes.iter().map(|node| ShardMember::full(*node)).collect()
    }

    fn offer(lines: u64, applied: Option<u64>) -> ShardOffer {
        let at = |applied| ObjectPosition { beginning: 1, epoch: 1, applied };
        let sends = Some(RegionId(lines + 1));
        ShardOffer { lines: RegionId(lines), sends, reads: true, checkpoint: applied.map(at) }
    }

    fn seated(shard: &ShardState) -> Vec<NodeId> {
        shard.layout_members().iter().map(|seat| seat.node).collect()
    }

    fn begun(nodes: &[NodeId]) -> ShardState {
        let mut shard = ShardState::new(true, false, 0);
        shard.want(&places(nodes));
        nodes.iter().for_each(|node| shard.offer(*node, offer(20, None)));
        nodes.iter().for_each(|node| shard.holds(*node, 1));
        shard
    }

    #[test]
    fn shard_begins_after_all_offers_from_newest_checkpoint() {
        let mut shard = ShardState::new(true, false, 0);
        shard.want(&places(&[A, B, C]));
        shard.offer(A, offer(20, None));
        shard.offer(B, offer(20, Some(7)));
        assert_eq!((seated(&shard).len(), shard.holders().len()), (0, 0));
        shard.offer(C, offer(20, Some(9)));
        assert_eq!((seated(&shard), shard.holders()), ([A, B, C].into(), [C].as_slice()));
    }

    #[test]
    fn only_holder_keeps_its_seat_until_another_member_has_the_object() {
        let mut shard = begun(&[A]);
        shard.want(&places(&[B, C]));
        assert_eq!(seated(&shard), [A]);
        shard.offer(B, offer(20, None));
        shard.offer(C, offer(20, None));
        assert_eq!(seated(&shard), [B, C, A]);
        shard.holds(C, 1);
        assert_eq!((seated(&shard), shard.holders()), ([B, C].into(), [C].as_slice()));
    }

    #[test]
    fn last_holder_is_called_back_when_shard_begins_again() {
        let mut shard = begun(&[A, B]);
        shard.want(&[]);
        assert_eq!((seated(&shard).len(), shard.holders()), (0, [A, B].as_slice()));
        shard.want(&places(&[C]));
        shard.offer(C, offer(30, None));
        assert_eq!(seated(&shard), [], "nobody has the object there");
        let place = shard.member_of(A);
        assert_eq!(place, Some(ShardMember { node: A, sends: false, reads: true }));
        shard.offer(A, ShardOffer { sends: None, ..offer(30, None) });
        assert_eq!((seated(&shard), shard.holders()), ([C, A].into(), [A].as_slice()));
        assert_eq!(shard.beginning(), 1);
    }

    #[test]
    fn shard_begins_anew_only_when_all_members_lack_the_object() {
        let mut shard = begun(&[A]);
        shard.want(&places(&[A, B, C]));
        shard.offer(B, offer(20, None));
        shard.offer(C, offer(20, None));
        shard.forget(A);
        assert_eq!((shard.vacancy(), seated(&shard)), (Some(1), [B, C].into()));
        shard.lacks(B, 1);
        let mut other = shard.clone();
        other.holds(C, 1);
        assert_eq!(
            (other.vacancy(), other.holders(), other.beginning()),
            (None, [C].as_slice(), 1)
        );
        shard.lacks(C, 1);
        assert_eq!(
            (shard.vacancy(), shard.holders(), shard.beginning()),
            (None, [B].as_slice(), 2)
        );
        assert_eq!(ShardState::from_bytes(&shard.to_bytes()), Some(shard));
    }
}
