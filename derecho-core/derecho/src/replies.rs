//! Answers to a query.
//!
//! Owns: the wait for the answers. Never does: repeat the query.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use derecho_core::bytes::Wire;
use derecho_core::ids::NodeId;
use derecho_core::link::Link;
use derecho_core::replicated::messages::QueryOutcome;

use crate::error::Result;
use crate::group::Group;
use crate::group_membership::{GroupMembership, lock};

/// Reason why a queried member has not answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QueryFailure {
    /// The member fell out of the group first. It is unknown whether it has applied the query.
    Failed,
    /// The member received the query's effect by state transfer, and so has no answer of its own.
    Transferred,
    /// The member has no such object.
    NoObject,
    /// The member's answer is not of the expected type.
    Unreadable,
    /// This process left the shard before the query was delivered to it. It is unknown whether
    /// others have applied the query.
    Lost,
}

/// A pending query. When it is dropped, later answers are discarded.
pub struct Replies<R, L: Link + Send + 'static> {
    pub(crate) group: Group<L>,
    pub(crate) membership: Arc<GroupMembership<L>>,
    pub(crate) query: u64,
    pub(crate) reply: PhantomData<fn() -> R>,
}

impl<R: Wire, L: Link + Send + 'static> Replies<R, L> {
    /// Returns the answers so far: for each member its answer, or the reason why there is none.
    pub fn so_far(&self) -> BTreeMap<NodeId, std::result::Result<R, QueryFailure>> {
        let mut object_host = lock(&self.membership.object_host);
        let Some(query) = object_host.queries().get(self.query) else { return BTreeMap::new() };
        let read = |outcome: &QueryOutcome| match outcome {
            QueryOutcome::Answer(bytes) => R::from_bytes(bytes).ok_or(QueryFailure::Unreadable),
            QueryOutcome::Transferred => Err(QueryFailure::Transferred),
            QueryOutcome::NoObject => Err(QueryFailure::NoObject),
            QueryOutcome::Failed => Err(QueryFailure::Failed),
        };
        let known = query.outcomes().iter().map(|(node, outcome)| (*node, read(outcome)));
        let mut replies: BTreeMap<_, _> = known.collect();
        if query.is_lost() {
            for node in query.asked_members().unwrap_or(&[self.membership.me]) {
                replies.entry(*node).or_insert(Err(QueryFailure::Lost));
            }
        }
        replies
    }

    /// Returns the version of a logged object after the query, once it was applied here.
    pub fn version(&self) -> Option<u64> {
        lock(&self.membership.object_host).queries().get(self.query)?.version()
    }

    /// Whether every member has answered or failed.
    pub fn is_over(&self) -> bool {
        lock(&self.membership.object_host)
            .queries()
            .get(self.query)
            .is_none_or(|query| query.is_over())
    }

    /// Waits until every member has answered or failed.
    pub fn wait(
        &self,
        limit: Duration,
    ) -> Result<BTreeMap<NodeId, std::result::Result<R, QueryFailure>>> {
        self.group.shared.wait_outside(limit, || Ok(self.is_over().then(|| self.so_far())))
    }
}

impl<R, L: Link + Send + 'static> Drop for Replies<R, L> {
    fn drop(&mut self) {
        // In an upcall this thread may hold the object host; queries are only made outside of
        // upcalls.
        lock(&self.membership.object_host).queries().close(self.query);
    }
}
