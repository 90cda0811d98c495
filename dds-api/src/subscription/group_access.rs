//! Readers of one subscriber whose samples are read together: PRESENTATION with the access scope of
//! a group.
//!
//! ```text
//!   one order of several topics ──> reader of A: A1 .  .  A4     each advances by itself,
//!                               └─> reader of B: .  B2 B3 .      none beyond the others (I-213)
//!   begin_access ── the caches hold what has come so far, and do not change ── end_access
//! ```
//! Owns: the common progress of the readers, and when their caches may change. Never does: know
//! a sample.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use qos_profiles::{PresentationQosPolicy, PresentationQosPolicyAccessScopeKind};

use super::cache::Selection;
use super::data_on_readers::DataOnReaders;
use super::queues::QueueHead;
use super::states::States;
use crate::infrastructure::{AnyDataReader, DdsError, DdsResult};

/// Number of low bits of a position that number the samples of one coherent set.
const SET_BITS: u32 = 24;

/// A reader as its subscriber leads it.
pub(super) trait GroupReader: Send + Sync {
    /// Retries what waits for room; `false` if there is still none.
    fn begin_turns(&self) -> bool;
    /// The reader's position in the order.
    fn head(&self) -> QueueHead;
    /// Takes the record at the reader's position, and returns whether the cache has room for it. If
    /// not, the reader keeps the record until there is room.
    fn stage(&self) -> bool;
    /// Puts the staged samples into the cache. The first sample of a set gets this position.
    fn store(&self, position: u64);
    /// Ends a round of filling. With `has_all` the reader has all that has come.
    fn end_turns(&self, has_all: bool);
    /// Positions and write times of the samples that are wanted.
    fn positions(&self, wanted: &Selection) -> Vec<(u64, u64)>;
    /// Whether samples are ordered by the times at which they were written.
    fn is_by_source(&self) -> bool;
}

/// A reader as the application holds it. The holder of this reference may be the last one to hold
/// the reader, so code that only looks at readers does not use it.
pub(super) trait NotifiedReader: Send + Sync {
    /// A handle on the reader; none if it is deleted.
    fn handle(self: Arc<Self>) -> Option<Box<dyn AnyDataReader>>;
    /// Calls the reader's listener if there are unread samples.
    fn notify(self: Arc<Self>);
}

/// A reader of a subscriber.
pub(super) struct GroupReaderEntry {
    pub(super) id: usize,
    /// The key of the stream that brings the reader's samples; `None` if they have no order.
    pub(super) key: Option<u64>,
    pub(super) topic: Arc<str>,
    pub(super) reader: Weak<dyn GroupReader>,
    pub(super) notified: Weak<dyn NotifiedReader>,
}

/// Strong references to a reader of the subscriber.
type ReaderRefs = (Arc<dyn GroupReader>, Arc<dyn NotifiedReader>);

#[derive(Default)]
struct GroupAccessState {
    members: Vec<GroupReaderEntry>,
    /// Number of accesses that were begun and not ended.
    depth: u32,
    /// Number of positions of the order that were stored so far, for all readers together.
    turns: u64,
}

/// The subscriber's own part of its state. See the [module](self).
#[derive(Default)]
pub(crate) struct GroupAccess {
    /// Whether the readers are read together. Fixed once there is a reader.
    is_group: AtomicBool,
    /// Copy of the number of open accesses, for reading threads.
    depth: AtomicU32,
    state: Mutex<GroupAccessState>,
    pub(super) data_on_readers: DataOnReaders,
}

impl GroupAccess {
    fn lock(&self) -> MutexGuard<'_, GroupAccessState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the readers are read together.
    #[inline]
    pub(super) fn is_group(&self) -> bool {
        self.is_group.load(Ordering::Acquire)
    }

    /// Adds a reader.
    ///
    /// # Errors
    /// If the reader cannot be read together with those that are there.
    pub(super) fn join(
        &self,
        presentation: &PresentationQosPolicy,
        entry: GroupReaderEntry,
    ) -> DdsResult<()> {
        let mut state = self.lock();
        state.members.retain(|member| member.reader.strong_count() > 0);
        let is_group = is_one(presentation);
        if is_group {
            let others = state.members.iter().map(|member| (member.key, &*member.topic));
            check_order("subscriber", entry.key, &entry.topic, others)?;
        }
        self.is_group.store(is_group, Ordering::Release);
        state.members.push(entry);
        Ok(())
    }

    /// Removes a reader.
    pub(super) fn leave(&self, id: usize) {
        self.lock().members.retain(|member| member.id != id);
    }

    /// Returns an error unless the readers may be read now.
    pub(super) fn check(&self) -> DdsResult<()> {
        if !self.is_group() || self.depth.load(Ordering::Acquire) > 0 {
            return Ok(());
        }
        Err(DdsError::PreconditionNotMet(
            "this reader's subscriber has PRESENTATION with access_scope GROUP, so its readers are \
             read together: call begin_access of the subscriber first, and end_access afterwards"
                .to_owned(),
        ))
    }

    /// Brings new samples into the caches, unless an access is open.
    pub(super) fn fill(&self) {
        // These references are dropped after the lock is released.
        let members = self.readers_now();
        let mut state = self.lock();
        if state.depth == 0 {
            state.fill(&members);
        }
    }

    /// Begins an access. From now on the caches stay as they are.
    pub(super) fn begin(&self) {
        let members = self.readers_now();
        let mut state = self.lock();
        if state.depth == 0 && self.is_group() {
            state.fill(&members);
        }
        state.depth += 1;
        self.depth.store(state.depth, Ordering::Release);
    }

    /// Ends the access that was begun last.
    pub(super) fn end(&self) -> DdsResult<()> {
        let mut state = self.lock();
        let Some(depth) = state.depth.checked_sub(1) else {
            return Err(DdsError::PreconditionNotMet(
                "this subscriber has no open access: call begin_access before end_access"
                    .to_owned(),
            ));
        };
        state.depth = depth;
        self.depth.store(depth, Ordering::Release);
        Ok(())
    }

    /// The readers that have samples in these states. Each is listed once; if they are read
    /// together and in order, each is listed once for each sample, in the order of the samples.
    pub(super) fn readers(
        &self,
        states: States,
        is_ordered: bool,
    ) -> DdsResult<Vec<Box<dyn AnyDataReader>>> {
        self.check()?;
        let members = self.members();
        let wanted = Selection { states, ..Selection::default() };
        let found: Vec<_> = members.iter().map(|(reader, _)| reader.positions(&wanted)).collect();
        let handle = |(_, member): &ReaderRefs| Arc::clone(member).handle();
        if !(is_ordered && self.is_group()) {
            let has_any = members.iter().zip(&found).filter(|(_, positions)| !positions.is_empty());
            return Ok(has_any.filter_map(|(member, _)| handle(member)).collect());
        }
        let by_source = members.iter().all(|(reader, _)| reader.is_by_source());
        let by = |&(position, time): &(u64, u64)| {
            if by_source { (time, position) } else { (position, 0) }
        };
        let found: Vec<Vec<_>> = found.iter().map(|it| it.iter().map(by).collect()).collect();
        Ok(merged(&found).into_iter().filter_map(|at| handle(&members[at])).collect())
    }

    /// Calls the listeners of the readers that have unread samples.
    pub(super) fn notify(&self) {
        self.members().into_iter().for_each(|(_, member)| member.notify());
    }

    fn readers_now(&self) -> Vec<Arc<dyn GroupReader>> {
        self.lock().members.iter().filter_map(|member| member.reader.upgrade()).collect()
    }

    fn members(&self) -> Vec<ReaderRefs> {
        let state = self.lock();
        let references = |it: &GroupReaderEntry| it.reader.upgrade().zip(it.notified.upgrade());
        state.members.iter().filter_map(references).collect()
    }
}

impl GroupAccessState {
    /// Brings all readers as far as all of them can go.
    fn fill(&mut self, readers: &[Arc<dyn GroupReader>]) {
        // All of them are called, even if one has no room.
        let has_room =
            readers.iter().map(|reader| reader.begin_turns()).fold(true, |all, it| all & it);
        let mut has_all = false;
        if has_room {
            self.turns += 1;
            readers.iter().for_each(|reader| reader.store(self.turns << SET_BITS));
            has_all = self.advance_together(readers);
        }
        readers.iter().for_each(|reader| reader.end_turns(has_all));
    }

    /// Leads all readers along the order. Returns whether they have all that has come.
    fn advance_together(&mut self, readers: &[Arc<dyn GroupReader>]) -> bool {
        loop {
            let heads: Vec<QueueHead> = readers.iter().map(|reader| reader.head()).collect();
            let position = |head: &QueueHead| match head {
                QueueHead::Outside => None,
                QueueHead::Ready(position) | QueueHead::Pending(position) => Some(*position),
            };
            let Some(first) = heads.iter().filter_map(position).min() else { return true };
            if heads.contains(&QueueHead::Pending(first)) {
                return !heads.iter().any(|head| matches!(head, QueueHead::Ready(_)));
            }
            let turn =
                || readers.iter().zip(&heads).filter(|(_, head)| **head == QueueHead::Ready(first));
            // All of a record comes into all caches, or nothing of it into any.
            if !turn().map(|(reader, _)| reader.stage()).fold(true, |all, it| all & it) {
                return false;
            }
            self.turns += 1;
            turn().for_each(|(reader, _)| reader.store(self.turns << SET_BITS));
        }
    }
}

/// Whether PRESENTATION makes one group of a publisher's or subscriber's endpoints.
pub(crate) fn is_one(presentation: &PresentationQosPolicy) -> bool {
    let is_group = presentation.access_scope == PresentationQosPolicyAccessScopeKind::Group;
    is_group && (presentation.coherent_access || presentation.ordered_access)
}

/// Checks that an endpoint of this topic can form a group with the others of its publisher
/// or subscriber.
///
/// # Errors
/// If the endpoint cannot.
pub(crate) fn check_order<'a>(
    what: &str,
    key: Option<u64>,
    topic: &str,
    mut others: impl Iterator<Item = (Option<u64>, &'a str)>,
) -> DdsResult<()> {
    if key.is_none() {
        return Err(DdsError::InconsistentPolicy(format!(
            "PRESENTATION of this {what} has access_scope GROUP, and the samples of topic `{topic}` have no order: make it \
             atomic"
        )));
    }
    match others.find(|(other, _)| *other != key) {
        None => Ok(()),
        Some((_, other)) => Err(DdsError::InconsistentPolicy(format!(
            "PRESENTATION of this {what} has access_scope GROUP, but its topics `{other}` and \
             `{topic}` have separate orders: create both with the same .common_order()"
        ))),
    }
}

/// Merges lists by their next elements, each list in its own order. Returns for each element the
/// index of its list.
fn merged<K: Ord + Copy>(lists: &[Vec<K>]) -> Vec<usize> {
    let mut next = vec![0; lists.len()];
    let mut order = Vec::new();
    loop {
        let heads = lists.iter().zip(&next).enumerate();
        let heads = heads.filter_map(|(at, (list, next))| Some((*list.get(*next)?, at)));
        let Some((_, at)) = heads.min() else { return order };
        next[at] += 1;
        order.push(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merge_keeps_the_order_of_each_list() {
        assert_eq!(merged(&[vec![1, 5, 4], vec![2, 3, 9], vec![]]), [0, 1, 1, 0, 0, 1]);
        assert!(merged::<u64>(&[]).is_empty());
    }
}
