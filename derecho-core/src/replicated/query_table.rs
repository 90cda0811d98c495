//! Queries of this member, and their outcomes.
//!
//! Owns: the members that still have to answer. Never does: wait.
//!
//! A query that all readers of a shard apply is answered by the readers of the epoch in which it is
//! delivered. The asker learns who they are when the query is delivered to itself; some answers may
//! have arrived before.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::messages::QueryOutcome;
use crate::ids::NodeId;

/// State of a query.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Query {
    /// Members that the query was put to; `None` before they are known.
    asked_members: Option<Vec<NodeId>>,
    outcomes: BTreeMap<NodeId, QueryOutcome>,
    /// Whether this member left the shard before the query was delivered to it; other members may
    /// have received the query.
    lost: bool,
    key: u64,
    /// Version of the object after the query, if the object is logged.
    version: Option<u64>,
}

impl Query {
    /// Whether no further outcome is expected.
    pub fn is_over(&self) -> bool {
        let asked = self.asked_members.as_ref();
        self.lost
            || asked.is_some_and(|asked| asked.iter().all(|it| self.outcomes.contains_key(it)))
    }

    /// Whether this member has left the shard before the query was delivered.
    pub fn is_lost(&self) -> bool {
        self.lost
    }

    /// Members that the query was put to, once they are known.
    pub fn asked_members(&self) -> Option<&[NodeId]> {
        self.asked_members.as_deref()
    }

    /// Version of a logged object after the query, once it was delivered to this member.
    pub fn version(&self) -> Option<u64> {
        self.version
    }

    /// Outcomes so far.
    pub fn outcomes(&self) -> &BTreeMap<NodeId, QueryOutcome> {
        &self.outcomes
    }
}

/// Queries of this member; see the [module](self).
#[derive(Default)]
pub struct QueryTable {
    next: u64,
    queries: BTreeMap<u64, Query>,
}

impl QueryTable {
    /// Opens a query to all readers of a shard, or to one member.
    pub fn open(&mut self, key: u64, to: Option<NodeId>) -> u64 {
        self.next += 1;
        let asked = to.map(|node| [node].into());
        self.queries.insert(self.next, Query { asked_members: asked, key, ..Query::default() });
        self.next
    }

    /// Returns the state of a query.
    pub fn get(&self, query: u64) -> Option<&Query> {
        self.queries.get(&query)
    }

    /// Closes a query, whose outcomes are no longer of interest.
    pub fn close(&mut self, query: u64) -> Option<Query> {
        self.queries.remove(&query)
    }

    /// Number of open queries.
    pub fn len(&self) -> usize {
        self.queries.len()
    }

    /// Whether no query is open.
    pub fn is_empty(&self) -> bool {
        self.queries.is_empty()
    }

    /// Notes that a query was delivered in an epoch with these readers, some of which may no longer
    /// be members.
    pub(super) fn delivered(
        &mut self,
        query: u64,
        version: Option<u64>,
        readers: Vec<NodeId>,
        members: &[NodeId],
    ) {
        let Some(known) = self.queries.get_mut(&query) else { return };
        known.version = version;
        known.outcomes.retain(|node, _| readers.contains(node));
        for node in readers.iter().filter(|node| !members.contains(node)) {
            known.outcomes.entry(*node).or_insert(QueryOutcome::Failed);
        }
        known.asked_members = Some(readers);
    }

    pub(super) fn replied(&mut self, from: NodeId, query: u64, outcome: QueryOutcome) {
        if let Some(known) = self.queries.get_mut(&query)
            && known.asked_members.as_ref().is_none_or(|asked| asked.contains(&from))
        {
            known.outcomes.entry(from).or_insert(outcome);
        }
    }

    /// Notes that these nodes are no longer members.
    pub(super) fn failed(&mut self, gone: &[NodeId]) {
        for known in self.queries.values_mut() {
            for node in known.asked_members.iter().flatten().filter(|node| gone.contains(node)) {
                known.outcomes.entry(*node).or_insert(QueryOutcome::Failed);
            }
        }
    }

    /// Notes that this member has left a shard: its queries that were not delivered to it by now
    /// never will be.
    pub(super) fn left(&mut self, key: u64) {
        let waits = |known: &&mut Query| known.key == key && known.asked_members.is_none();
        self.queries.values_mut().filter(waits).for_each(|known| known.lost = true);
    }

    /// Notes that this member is out: no further outcomes arrive.
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
    fn each_asked_member_answers_or_is_counted_as_failed() {
        let mut queries = QueryTable::default();
        let query = queries.open(7, None);
        queries.replied(B, query, QueryOutcome::Answer([2].into()));
        assert!(!queries.get(query).is_some_and(Query::is_over));
        queries.delivered(query, None, [A, B, C].into(), &[A, B]);
        queries.replied(A, query, QueryOutcome::Transferred);
        let known = queries.close(query).expect("it is open");
        assert!(known.is_over() && !known.is_lost());
        let outcomes: Vec<&QueryOutcome> = known.outcomes().values().collect();
        assert_eq!(
            outcomes,
            [&QueryOutcome::Transferred, &QueryOutcome::Answer([2].into()), &QueryOutcome::Failed]
        );
    }

    #[test]
    fn undelivered_query_is_lost_when_its_asker_leaves_the_shard() {
        let mut queries = QueryTable::default();
        let (early, late) = (queries.open(7, None), queries.open(7, None));
        let direct = queries.open(7, Some(B));
        queries.delivered(early, None, [A, B].into(), &[A, B]);
        queries.left(7);
        let lost = |queries: &QueryTable, query| queries.get(query).is_some_and(Query::is_lost);
        assert_eq!([early, late, direct].map(|query| lost(&queries, query)), [false, true, false]);
        queries.failed(&[B]);
        assert!(queries.get(direct).is_some_and(Query::is_over));
        queries.out();
        assert!(lost(&queries, early));
    }
}
