//! Queries of this member, and what has come of them.
//!
//! Owns: who still has to answer. Never does: wait.
//!
//! To a query that all readers of a shard apply, those answer that read in the epoch in which it is delivered;
//! who they are the asker learns when it is delivered to itself. Some answers may have come before.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::errand::Outcome;
use crate::ids::NodeId;

/// What is known of a query.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Query {
    /// Whom it was put to; `None` before that is known.
    asked: Option<Vec<NodeId>>,
    outcomes: BTreeMap<NodeId, Outcome>,
    /// This member left the shard before it was delivered; perhaps others have it delivered.
    lost: bool,
    key: u64,
    /// The version of the object after it, where that counts.
    version: Option<u64>,
}

impl Query {
    /// Whether nothing more will come of it.
    pub fn is_over(&self) -> bool {
        let asked = self.asked.as_ref();
        self.lost
            || asked.is_some_and(|asked| asked.iter().all(|it| self.outcomes.contains_key(it)))
    }

    /// Whether this member has left the shard before the query was delivered.
    pub fn is_lost(&self) -> bool {
        self.lost
    }

    /// Whom it was put to, once that is known.
    pub fn asked(&self) -> Option<&[NodeId]> {
        self.asked.as_deref()
    }

    /// Which version of a logged object it led to, once it was delivered to this member.
    pub fn version(&self) -> Option<u64> {
        self.version
    }

    /// What has come of it so far.
    pub fn outcomes(&self) -> &BTreeMap<NodeId, Outcome> {
        &self.outcomes
    }
}

/// See the [module](self).
#[derive(Default)]
pub struct Ledger {
    next: u64,
    queries: BTreeMap<u64, Query>,
}

impl Ledger {
    /// A new query to all readers of a shard, or to one member.
    pub fn open(&mut self, key: u64, to: Option<NodeId>) -> u64 {
        self.next += 1;
        let asked = to.map(|node| [node].into());
        self.queries.insert(self.next, Query { asked, key, ..Query::default() });
        self.next
    }

    /// What is known of a query.
    pub fn get(&self, query: u64) -> Option<&Query> {
        self.queries.get(&query)
    }

    /// Nobody wants to know more of it.
    pub fn close(&mut self, query: u64) -> Option<Query> {
        self.queries.remove(&query)
    }

    /// How many are open.
    pub fn len(&self) -> usize {
        self.queries.len()
    }

    /// Whether none is open.
    pub fn is_empty(&self) -> bool {
        self.queries.is_empty()
    }

    /// A query was delivered in an epoch with these readers; only some of them are members still.
    pub(super) fn delivered(
        &mut self,
        (query, version): (u64, Option<u64>),
        readers: Vec<NodeId>,
        members: &[NodeId],
    ) {
        let Some(known) = self.queries.get_mut(&query) else { return };
        known.version = version;
        known.outcomes.retain(|node, _| readers.contains(node));
        for node in readers.iter().filter(|node| !members.contains(node)) {
            known.outcomes.entry(*node).or_insert(Outcome::Failed);
        }
        known.asked = Some(readers);
    }

    pub(super) fn replied(&mut self, from: NodeId, query: u64, outcome: Outcome) {
        if let Some(known) = self.queries.get_mut(&query)
            && known.asked.as_ref().is_none_or(|asked| asked.contains(&from))
        {
            known.outcomes.entry(from).or_insert(outcome);
        }
    }

    /// These are no members any more.
    pub(super) fn failed(&mut self, gone: &[NodeId]) {
        for known in self.queries.values_mut() {
            for node in known.asked.iter().flatten().filter(|node| gone.contains(node)) {
                known.outcomes.entry(*node).or_insert(Outcome::Failed);
            }
        }
    }

    /// This member has left a shard: what was not delivered to it by now will never be.
    pub(super) fn left(&mut self, key: u64) {
        let waits = |known: &&mut Query| known.key == key && known.asked.is_none();
        self.queries.values_mut().filter(waits).for_each(|known| known.lost = true);
    }

    /// This member is out: nothing more will come of anything.
    pub(super) fn out(&mut self) {
        self.queries.values_mut().for_each(|known| known.lost = !known.is_over() || known.lost);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const A: NodeId = NodeId(1);
    const B: NodeId = NodeId(2);
    const C: NodeId = NodeId(3);

    #[test]
    fn everybody_who_was_asked_answers_or_fails() {
        let mut ledger = Ledger::default();
        let query = ledger.open(7, None);
        ledger.replied(B, query, Outcome::Answer([2].into()));
        assert!(!ledger.get(query).is_some_and(Query::is_over));
        ledger.delivered((query, None), [A, B, C].into(), &[A, B]);
        ledger.replied(A, query, Outcome::Transferred);
        let known = ledger.close(query).expect("it is open");
        assert!(known.is_over() && !known.is_lost());
        let outcomes: Vec<&Outcome> = known.outcomes().values().collect();
        assert_eq!(
            outcomes,
            [&Outcome::Transferred, &Outcome::Answer([2].into()), &Outcome::Failed]
        );
    }

    #[test]
    fn what_is_not_delivered_when_its_asker_leaves_is_lost() {
        let mut ledger = Ledger::default();
        let (early, late) = (ledger.open(7, None), ledger.open(7, None));
        let direct = ledger.open(7, Some(B));
        ledger.delivered((early, None), [A, B].into(), &[A, B]);
        ledger.left(7);
        let lost = |ledger: &Ledger, query| ledger.get(query).is_some_and(Query::is_lost);
        assert_eq!([early, late, direct].map(|query| lost(&ledger, query)), [false, true, false]);
        ledger.failed(&[B]);
        assert!(ledger.get(direct).is_some_and(Query::is_over));
        ledger.out();
        assert!(lost(&ledger, early));
    }
}
