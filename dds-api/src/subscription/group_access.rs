//! Readers of one subscriber whose samples are seen as one: PRESENTATION with the access scope of a group.
//!
//! ```text
//!   one order of several topics ──> reader of A: A1 .  .  A4        each goes along the order by itself, ...
//!                               └─> reader of B: .  B2 B3 .         ... and none farther than the others (I-213)
//!   begin_access ── what has come so far is in the caches, and stays as it is ── end_access
//! ```
//! Owns: how far its readers go, and when their caches may change. Never does: know a sample.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use qos_profiles::{PresentationQosPolicy, PresentationQosPolicyAccessScopeKind};

use super::cache::Selection;
use super::data_on_readers::DataOnReaders;
use super::queues::Head;
use super::states::States;
use crate::infrastructure::{AnyDataReader, DdsError, DdsResult};

/// A place in an order has room for so many samples of one set: bits.
const SET_BITS: u32 = 24;

/// A reader, as its subscriber leads it.
pub(super) trait GroupReader: Send + Sync {
    /// It takes up what waits for room; `false` if there is still none.
    fn begin_turns(&self) -> bool;
    /// Where it stands.
    fn head(&self) -> Head;
    /// Takes what it stands at, and says whether its cache has room for that. If not, it keeps it until there is.
    fn stage(&self) -> bool;
    /// Puts what was staged into its cache; what is first in a set has this place.
    fn store(&self, place: u64);
    /// Nothing more comes now; `true`: it has all that has come.
    fn end_turns(&self, has_all: bool);
    /// The places, and the times, of samples in these states.
    fn places(&self, wanted: &Selection) -> Vec<(u64, u64)>;
    /// Whether its samples are ordered by the times at which they were written.
    fn is_by_source(&self) -> bool;
}

/// The same as the application has it. Whoever holds it may be the last to: so not where readers are only looked at.
pub(super) trait GroupMember: Send + Sync {
    /// A handle on it; none if it is deleted.
    fn handle(self: Arc<Self>) -> Option<Box<dyn AnyDataReader>>;
    /// Calls its listener if there is something to be told of.
    fn notify(self: Arc<Self>);
}

/// A reader of a subscriber.
struct Member {
    id: usize,
    /// The stream that its samples come by.
    key: u64,
    topic: Arc<str>,
    reader: Weak<dyn GroupReader>,
    member: Weak<dyn GroupMember>,
}

/// The same while it is looked at.
type Both = (Arc<dyn GroupReader>, Arc<dyn GroupMember>);

#[derive(Default)]
struct State {
    members: Vec<Member>,
    /// How often it was begun, and not ended.
    depth: u32,
    /// Records that came, to all of them.
    turns: u64,
}

/// What a subscriber has of its own. See the [module](self).
#[derive(Default)]
pub(crate) struct GroupAccess {
    /// Its readers are seen as one. Does not change any more once it has a reader.
    is_group: AtomicBool,
    /// How often it was begun, as whoever reads sees it.
    depth: AtomicU32,
    state: Mutex<State>,
    pub(super) data_on_readers: DataOnReaders,
}

impl GroupAccess {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether its readers are seen as one.
    #[inline]
    pub(super) fn is_group(&self) -> bool {
        self.is_group.load(Ordering::Acquire)
    }

    /// A reader begins, whose samples come by the stream of this key, if they have an order.
    ///
    /// # Errors
    /// If it cannot be seen as one with those that are there.
    pub(super) fn join(
        &self,
        presentation: &PresentationQosPolicy,
        (id, key): (usize, Option<u64>),
        topic: &str,
        (reader, member): (Weak<dyn GroupReader>, Weak<dyn GroupMember>),
    ) -> DdsResult<()> {
        let mut state = self.lock();
        state.members.retain(|member| member.reader.strong_count() > 0);
        let is_group = is_one(presentation);
        if is_group {
            let others = state.members.iter().map(|member| (member.key, &*member.topic));
            check_order("subscriber", (key, topic), others)?;
        }
        self.is_group.store(is_group, Ordering::Release);
        let (key, topic) = (key.unwrap_or(0), topic.into());
        state.members.push(Member { id, key, topic, reader, member });
        Ok(())
    }

    /// A reader is no more.
    pub(super) fn leave(&self, id: usize) {
        self.lock().members.retain(|member| member.id != id);
    }

    /// An error unless its readers may be read now.
    pub(super) fn check(&self) -> DdsResult<()> {
        if !self.is_group() || self.depth.load(Ordering::Acquire) > 0 {
            return Ok(());
        }
        Err(DdsError::PreconditionNotMet(
            "this reader's subscriber has PRESENTATION with access_scope GROUP, so its readers are read together: \
             begin_access of the subscriber comes first, and end_access afterwards"
                .to_owned(),
        ))
    }

    /// Brings what has come into the caches, unless they are to stay as they are now.
    pub(super) fn fill(&self) {
        // Let go of after the lock.
        let members = self.readers_now();
        let mut state = self.lock();
        if state.depth == 0 {
            state.fill(&members);
        }
    }

    /// From now on the caches stay as they are.
    pub(super) fn begin(&self) {
        let members = self.readers_now();
        let mut state = self.lock();
        if state.depth == 0 && self.is_group() {
            state.fill(&members);
        }
        state.depth += 1;
        self.depth.store(state.depth, Ordering::Release);
    }

    /// Ends what was begun last.
    pub(super) fn end(&self) -> DdsResult<()> {
        let mut state = self.lock();
        let Some(depth) = state.depth.checked_sub(1) else {
            return Err(DdsError::PreconditionNotMet(
                "this subscriber's readers are not accessed: begin_access comes before end_access"
                    .to_owned(),
            ));
        };
        state.depth = depth;
        self.depth.store(depth, Ordering::Release);
        Ok(())
    }

    /// The readers that have samples in these states: each once, or, if they are one and in order, one for each sample in the
    /// order of these.
    pub(super) fn readers(
        &self,
        states: States,
        is_ordered: bool,
    ) -> DdsResult<Vec<Box<dyn AnyDataReader>>> {
        self.check()?;
        let members = self.members();
        let wanted = Selection { states, ..Selection::default() };
        let found: Vec<_> = members.iter().map(|(reader, _)| reader.places(&wanted)).collect();
        let handle = |(_, member): &Both| Arc::clone(member).handle();
        if !(is_ordered && self.is_group()) {
            let has_any = members.iter().zip(&found).filter(|(_, places)| !places.is_empty());
            return Ok(has_any.filter_map(|(member, _)| handle(member)).collect());
        }
        let by_source = members.iter().all(|(reader, _)| reader.is_by_source());
        let by = |&(place, time): &(u64, u64)| if by_source { (time, place) } else { (place, 0) };
        let found: Vec<Vec<_>> = found.iter().map(|it| it.iter().map(by).collect()).collect();
        Ok(merged(&found).into_iter().filter_map(|at| handle(&members[at])).collect())
    }

    /// Has the listeners of its readers called that have something to be told of.
    pub(super) fn notify(&self) {
        self.members().into_iter().for_each(|(_, member)| member.notify());
    }

    fn readers_now(&self) -> Vec<Arc<dyn GroupReader>> {
        self.lock().members.iter().filter_map(|member| member.reader.upgrade()).collect()
    }

    fn members(&self) -> Vec<Both> {
        let state = self.lock();
        let both = |it: &Member| it.reader.upgrade().zip(it.member.upgrade());
        state.members.iter().filter_map(both).collect()
    }
}

impl State {
    /// Brings all readers as far as all of them can go.
    fn fill(&mut self, readers: &[Arc<dyn GroupReader>]) {
        // Each of them takes up what waits.
        let has_room =
            readers.iter().map(|reader| reader.begin_turns()).fold(true, |all, it| all & it);
        let mut has_all = false;
        if has_room {
            self.turns += 1;
            readers.iter().for_each(|reader| reader.store(self.turns << SET_BITS));
            has_all = self.go_along(readers);
        }
        readers.iter().for_each(|reader| reader.end_turns(has_all));
    }

    /// Leads all readers along the order, and says whether they have all that has come.
    fn go_along(&mut self, readers: &[Arc<dyn GroupReader>]) -> bool {
        loop {
            let heads: Vec<Head> = readers.iter().map(|reader| reader.head()).collect();
            let place = |head: &Head| match head {
                Head::Nowhere => None,
                Head::At(place) | Head::Waits(place) => Some(*place),
            };
            let Some(first) = heads.iter().filter_map(place).min() else { return true };
            if heads.contains(&Head::Waits(first)) {
                return !heads.iter().any(|head| matches!(head, Head::At(_)));
            }
            let turn = || readers.iter().zip(&heads).filter(|(_, head)| **head == Head::At(first));
            // All of a set comes into all caches, or nothing of it into any.
            if !turn().map(|(reader, _)| reader.stage()).fold(true, |all, it| all & it) {
                return false;
            }
            self.turns += 1;
            turn().for_each(|(reader, _)| reader.store(self.turns << SET_BITS));
        }
    }
}

/// Whether PRESENTATION makes one of what a publisher or subscriber has.
pub(crate) fn is_one(presentation: &PresentationQosPolicy) -> bool {
    let is_group = presentation.access_scope == PresentationQosPolicyAccessScopeKind::Group;
    is_group && (presentation.coherent_access || presentation.ordered_access)
}

/// Whether what this topic's endpoint has can be one with what others of its publisher or subscriber have.
///
/// # Errors
/// If not.
pub(crate) fn check_order<'a>(
    what: &str,
    (key, topic): (Option<u64>, &str),
    mut others: impl Iterator<Item = (u64, &'a str)>,
) -> DdsResult<()> {
    let Some(key) = key else {
        return Err(DdsError::InconsistentPolicy(format!(
            "PRESENTATION of this {what} has access_scope GROUP, and the samples of topic `{topic}` have no order: make it \
             atomic"
        )));
    };
    match others.find(|(other, _)| *other != key) {
        None => Ok(()),
        Some((_, other)) => Err(DdsError::InconsistentPolicy(format!(
            "PRESENTATION of this {what} has access_scope GROUP, and its topics `{other}` and `{topic}` have each an order of \
             its own: make both with the same .common_order()"
        ))),
    }
}

/// Which list each of all is from, if they are put in order and each list stays in its own.
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
    fn lists_are_merged_and_each_stays_in_its_order() {
        assert_eq!(merged(&[vec![1, 5, 4], vec![2, 3, 9], vec![]]), [0, 1, 1, 0, 0, 1]);
        assert!(merged::<u64>(&[]).is_empty());
    }
}
