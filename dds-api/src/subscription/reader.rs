//! The reader.
//!
//! Owns: the queues of all writers that it is matched with. Never does: copy what it can lend, or
//! hold its lock while the application looks at a sample.

mod asynchronous;

use std::ops::{Deref, RangeFull, RangeTo};
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock, PoisonError, Weak};
use std::time::SystemTime;

use derecho_core::ids::Time;
use derecho_node::Waited;
use idl_xtypes::TopicData;

use super::intake::ReaderCore;
use super::past::{Others, PastSamples, Since, own_log};
use super::sample::Sample;
use crate::domain::Charge;
use crate::infrastructure::{DdsError, DdsResult, InstanceHandle, Timeout};
use crate::mapping::standing::Standing;
use crate::topic::Topic;

/// Reads samples of one topic. Any number of threads may take at once; each sample goes to one.
///
/// Unless it is told otherwise it keeps all samples, in the order in which they came, and does not follow instances: they go
/// straight from its queues to whoever takes them.
///
/// Clones are the same reader; it is gone with the last of them.
///
/// ```
/// # use dds_api::prelude::*;
/// # #[derive(DdsType, Clone, Debug, Default)]
/// # struct Track { #[dds(key)] id: u32, height: f64 }
/// # fn example(participant: &DomainParticipant, topic: &Topic<Track>) -> DdsResult<()> {
/// let reader = participant.reader(topic).create()?;
/// for track in reader.take(.., Timeout::secs(1))? {
///     println!("track {} is at {} m", track.id, track.height);
/// }
/// # Ok(())
/// # }
/// ```
pub struct DataReader<T: TopicData> {
    pub(super) core: Arc<ReaderCore<T>>,
    life: Arc<ReaderLife<T>>,
}

/// A reader's time at work: it ends with the last handle, although somebody may look at what the reader consists of yet.
pub(super) struct ReaderLife<T: TopicData> {
    pub(super) core: Arc<ReaderCore<T>>,
    /// Its place with whoever fills its cache when nobody looks, if somebody is to.
    pub(super) charge: OnceLock<Arc<Charge>>,
    /// For its subscriber, which does not keep it.
    pub(super) me: Weak<ReaderLife<T>>,
}

impl<T: TopicData> Clone for DataReader<T> {
    fn clone(&self) -> Self {
        DataReader { core: Arc::clone(&self.core), life: Arc::clone(&self.life) }
    }
}

/// What it consists of is its own.
impl<T: TopicData> Deref for DataReader<T> {
    type Target = ReaderCore<T>;

    #[inline(always)]
    fn deref(&self) -> &ReaderCore<T> {
        &self.core
    }
}

/// How many samples to take at most: `..` for all that are there, `..n` for up to n.
///
/// ```
/// # use dds_api::prelude::*;
/// # #[derive(DdsType, Clone, Debug, Default)]
/// # struct Track { #[dds(key)] id: u32, height: f64 }
/// # fn example(reader: &DataReader<Track>) -> DdsResult<()> {
/// let all = reader.take(.., Timeout::NOW)?;
/// let some = reader.take(..10, Timeout::NOW)?;
/// # Ok(())
/// # }
/// ```
pub trait Limit {
    /// The number.
    fn limit(self) -> usize;
}

impl Limit for RangeFull {
    fn limit(self) -> usize {
        usize::MAX
    }
}

impl Limit for RangeTo<usize> {
    fn limit(self) -> usize {
        self.end
    }
}

pub use asynchronous::SampleStream;

impl<T: TopicData> DataReader<T> {
    /// A reader that consists of this, and is not enabled.
    pub(super) fn of(core: ReaderCore<T>) -> DataReader<T> {
        let life = Arc::new_cyclic(|me| {
            let me = Weak::clone(me);
            ReaderLife { core: Arc::new(core), charge: OnceLock::new(), me }
        });
        let entity: Weak<ReaderLife<T>> = Arc::downgrade(&life);
        life.core.participant.roster.enter(entity);
        if let Some(subscriber) = &life.core.subscriber {
            let core: Weak<ReaderCore<T>> = Arc::downgrade(&life.core);
            subscriber.data_on_readers().enter(core);
        }
        DataReader::alive(life)
    }

    pub(super) fn life(&self) -> &ReaderLife<T> {
        &self.life
    }

    pub(super) fn alive(life: Arc<ReaderLife<T>>) -> DataReader<T> {
        DataReader { core: Arc::clone(&life.core), life }
    }

    /// What it reads.
    pub fn topic(&self) -> &Topic<T> {
        &self.topic
    }

    /// Its name in the domain. Until it is enabled it has another one, which nobody else knows.
    pub fn instance_handle(&self) -> InstanceHandle {
        self.core.name_in_domain()
    }

    /// Writers whose samples it gets now.
    pub fn matched_writers(&self) -> usize {
        if let Some(joining) = self.joining.get() {
            return joining.matched_writers();
        }
        self.shared.matched.load(Ordering::Acquire) as usize
    }

    /// Writers of the same topic that it cannot be matched with, because their type is none that it
    /// [understands](crate::subscription::DataReaderBuilder::type_consistency), or the topic is another one there.
    /// [`inconsistency`](Self::inconsistency) says why.
    pub fn inconsistent_writers(&self) -> usize {
        self.shared.inconsistent.load(Ordering::Acquire) as usize
    }

    /// Why the last of the writers that it [cannot be matched with](Self::inconsistent_writers) cannot, in words.
    pub fn inconsistency(&self) -> Option<String> {
        self.shared.why_inconsistent.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Samples that were dropped because they were none of this type: a writer's mistake.
    pub fn unreadable_samples(&self) -> u64 {
        self.unreadable.load(Ordering::Relaxed)
    }

    /// Samples that were copied when they were given out, because the application held as much of their writers' memory as it
    /// [may](crate::subscription::DataReaderBuilder::max_held_percent).
    pub fn copied_samples(&self) -> u64 {
        self.copied.load(Ordering::Relaxed)
    }

    /// How often this participant's membership in its domain has ended, as far as is known. If it is another
    /// number than before, samples may be missing in between, and what was taken before may have been written
    /// anew since: the participant was isolated, and has [come back] or will.
    ///
    /// [come back]: crate::domain::ParticipantConfig::rejoin
    pub fn membership_changes(&self) -> u64 {
        let standing = &self.participant.standing;
        // It may have been stopped, and not know of it yet.
        let _ = standing.is_evicted();
        standing.memberships_ended()
    }

    /// Samples that were received, and discarded because the membership ended before they were taken. What was
    /// not even received is not counted, nor is what is [kept](crate::topic::TopicBuilder::transient_local): that
    /// comes again.
    pub fn discarded_samples(&self) -> u64 {
        self.queues().discarded
    }

    /// Waits until it gets the samples of at least so many writers.
    pub fn wait_for_writers(&self, count: usize, timeout: impl Into<Timeout>) -> DdsResult<()> {
        self.enabling.check()?;
        let timeout = timeout.into();
        let standing = &self.participant.standing;
        // Asked once: they may be gone again before they are counted anew.
        let mut is_there = false;
        let ready = || {
            is_there = self.matched_writers() >= count && !standing.is_out();
            is_there || standing.is_out_for_good() || !self.is_enabled()
        };
        match self.participant.engine.wait(timeout.deadline(), ready) {
            _ if !self.is_enabled() => self.enabling.check(),
            Waited::Stopped => Err(self.deleted()),
            _ if is_there => Ok(()),
            _ if standing.is_out() => Err(standing.error()),
            _ => Err(DdsError::Timeout(format!(
                "{} of {count} writers of `{}` were there after {timeout}: {}",
                self.matched_writers(),
                self.topic.name(),
                self.participant.why_nobody()
            ))),
        }
    }

    /// Takes samples, oldest first of each writer. Waits until there is one; if none comes in
    /// time there are none, which is no error. Ends when it has given all that were there, or when this
    /// participant is isolated, which the next call says.
    pub fn take(
        &self,
        limit: impl Limit,
        timeout: impl Into<Timeout>,
    ) -> DdsResult<Samples<'_, T>> {
        let (limit, timeout) = (limit.limit(), timeout.into());
        if self.shelf.get().is_some() {
            let taken = self.take_all(limit, timeout)?.into_iter();
            return Ok(Samples { reader: self, left: 0, more: 0, taken });
        }
        let deadline = timeout.deadline();
        loop {
            let waited = self.wait_for_samples(timeout, deadline)?;
            let waiting = self.queues().waiting(&self.shared);
            if self.goes_on(waited)? {
                let (left, taken) = (limit.min(waiting), Vec::new().into_iter());
                return Ok(Samples { reader: self, left, more: limit - left, taken });
            }
        }
    }

    /// Takes the next sample, if one comes in time.
    #[inline]
    pub fn take_next(&self, timeout: impl Into<Timeout>) -> DdsResult<Option<Sample<T>>> {
        if self.shelf.get().is_some() {
            return Ok(self.take_all(1, timeout.into())?.pop());
        }
        match self.pop_told() {
            Some(sample) => Ok(Some(sample)),
            None => self.take_later(timeout.into()),
        }
    }

    fn take_later(&self, timeout: Timeout) -> DdsResult<Option<Sample<T>>> {
        let deadline = timeout.deadline();
        loop {
            let waited = self.wait_for_samples(timeout, deadline)?;
            let sample = self.pop_told();
            // Another thread may have been quicker, or what was there be discarded.
            if sample.is_some() || (self.goes_on(waited)? && waited == Waited::TimedOut) {
                return Ok(sample);
            }
        }
    }

    /// Whether the participant is a member. If not it is an error, or worth another wait if the last one had not
    /// come to its end.
    fn goes_on(&self, waited: Waited) -> DdsResult<bool> {
        let standing = &self.participant.standing;
        // This process may have been stopped, and what it has read be written anew since.
        match standing.is_evicted() {
            false => Ok(true),
            true if waited == Waited::Ready && !standing.is_out_for_good() => Ok(false),
            true => Err(standing.error()),
        }
    }

    /// Waits until there is a sample, or the participant is out for good, which is an error.
    fn wait_for_samples(&self, timeout: Timeout, deadline: Option<Time>) -> DdsResult<Waited> {
        self.enabling.check()?;
        let (engine, standing) = (&self.participant.engine, &self.participant.standing);
        let waited = if timeout == Timeout::NOW {
            if !self.has_samples() {
                engine.poke();
            }
            Waited::TimedOut
        } else {
            let is_over = || standing.is_out_for_good() || !self.is_enabled();
            engine.wait(deadline, || self.has_samples() || is_over())
        };
        self.enabling.check()?;
        match waited {
            Waited::Stopped => Err(self.deleted()),
            _ if standing.is_out_for_good() => Err(standing.error()),
            Waited::TimedOut if standing.is_out() => Err(standing.error()),
            waited => Ok(waited),
        }
    }

    /// Whether a sample waits to be taken. Of a reader that follows instances: or something that may turn out to be one.
    #[inline]
    pub fn has_samples(&self) -> bool {
        match self.shelf.get() {
            // Without a look at what is queued: that is for a call that gives it.
            Some(shelf) => {
                let mut shelf = shelf.lock().unwrap_or_else(PoisonError::into_inner);
                shelf.let_time_pass();
                let has_news = !shelf.has_seen(self.changes()) || self.has_queued();
                !shelf.cache.is_empty() || !shelf.is_stalled() && has_news
            }
            None => self.has_queued(),
        }
    }

    /// Lets the participant's machine turn.
    pub(super) fn poke(&self) {
        self.participant.engine.poke();
    }

    /// That the participant is no member is an error, at least for who has nothing.
    pub(super) fn check_membership(&self, has_nothing: bool) -> DdsResult<()> {
        let standing = &self.participant.standing;
        let is_out = standing.is_evicted() && (has_nothing || !standing.may_rejoin());
        if is_out { Err(standing.error()) } else { Ok(()) }
    }

    /// Waits until something holds, or the participant is out for good, which is an error.
    pub(super) fn wait_until(
        &self,
        deadline: Option<Time>,
        mut ready: impl FnMut() -> bool,
    ) -> DdsResult<Waited> {
        let standing = &self.participant.standing;
        let is_over = || standing.is_out_for_good() || !self.is_enabled();
        let waited = self.participant.engine.wait(deadline, || ready() || is_over());
        self.enabling.check()?;
        match waited {
            Waited::Stopped => Err(self.deleted()),
            _ if standing.is_out_for_good() => Err(standing.error()),
            waited => Ok(waited),
        }
    }

    /// Waits until what was written before this reader came, as far as it is kept, is there to be taken; or, if its
    /// participant has [come back], what was written meanwhile. On a topic of which nothing is kept there is nothing
    /// to wait for.
    ///
    /// [come back]: crate::domain::ParticipantConfig::rejoin
    pub fn wait_for_historical_data(&self, timeout: impl Into<Timeout>) -> DdsResult<()> {
        self.enabling.check()?;
        let timeout = timeout.into();
        let standing = &self.participant.standing;
        let mut is_known = false;
        let ready = || {
            is_known = self.knows_history();
            is_known || standing.is_out_for_good() || !self.is_enabled()
        };
        match self.participant.engine.wait(timeout.deadline(), ready) {
            _ if !self.is_enabled() => self.enabling.check(),
            Waited::Stopped => Err(self.deleted()),
            _ if is_known => Ok(()),
            _ if standing.is_out() => Err(standing.error()),
            _ => Err(DdsError::Timeout(format!(
                "what was kept of `{}` has not come after {timeout}: another participant that has it \
                 is slow, or there is very much of it; wait longer{}",
                self.topic.name(),
                self.topic.waiting()
            ))),
        }
    }

    fn knows_history(&self) -> bool {
        if let Some(joining) = self.joining.get() {
            return joining.readers.iter().all(DataReader::knows_history);
        }
        self.shared.knows_history.load(Ordering::Acquire) && !self.standing().is_out()
    }

    #[inline]
    fn standing(&self) -> &Standing {
        &self.participant.standing
    }

    /// What was written in the past, from some sample or time on, as this participant's log has it, or else another
    /// participant's: also what is no longer kept for readers that come late. It holds nobody up. Each sample comes
    /// with its place in the topic's order.
    ///
    /// The past is whole: it holds every sample that was delivered to this participant before the call. A participant
    /// without a log of its own, or with one that is still being completed or has failed, asks another participant
    /// whose log is complete, part by part, and a further one if that one is gone or does not answer. The participant waits for
    /// up to 10 s each time, or as long as [`PastSamples::within`] says. If no other participant has a complete log, the
    /// call waits for up to 10 s until the own log is complete.
    ///
    /// # Errors
    /// [`DdsError::PreconditionNotMet`] if no participant that is there keeps a log of the topic that is complete or
    /// becomes so; [`DdsError::BadParameter`] if the log does not go back so far, or has not come so far;
    /// [`DdsError::Timeout`] if no participant answers, or the own log is not complete in time.
    pub fn past(&self, since: Since) -> DdsResult<PastSamples<T>> {
        self.enabling.check()?;
        let shared = Arc::clone(&self.shared);
        let log = own_log(&self.participant, self.enabling.id())?;
        PastSamples::open(log, since, (shared, self.topic.support().clone()), || {
            Others::new(&self.participant, self.enabling.id())
        })
    }

    /// The state at a time: of each instance the last sample that was written at this time or before, with its place in the
    /// topic's order. It may have 32 MiB where it is another participant's log that says it.
    ///
    /// # Errors
    /// As of [`DataReader::past`].
    pub fn state_at(&self, time: SystemTime) -> DdsResult<Vec<(u64, Sample<T>)>> {
        self.enabling.check()?;
        let others = || Others::new(&self.participant, self.enabling.id());
        let log = own_log(&self.participant, self.enabling.id())?;
        PastSamples::state_at(log, time, (&self.shared, self.topic.support()), others)
    }

    fn deleted(&self) -> DdsError {
        DdsError::AlreadyDeleted(format!("the participant of `{}` has left", self.topic.name()))
    }
}

impl<T: TopicData> Drop for ReaderLife<T> {
    fn drop(&mut self) {
        self.end();
    }
}

/// Samples being taken.
///
/// ```
/// # use dds_api::prelude::*;
/// # #[derive(DdsType, Clone, Debug, Default)]
/// # struct Track { #[dds(key)] id: u32, height: f64 }
/// # fn example(reader: &DataReader<Track>) -> DdsResult<()> {
/// let samples = reader.take(.., Timeout::secs(1))?;
/// if !samples.is_empty() {
///     let highest = samples.map(|track| track.height).fold(0.0, f64::max);
/// }
/// # Ok(())
/// # }
/// ```
pub struct Samples<'a, T: TopicData> {
    reader: &'a DataReader<T>,
    left: usize,
    /// So many more may be given, if some of them are sets of several.
    more: usize,
    /// Those of a reader that follows instances.
    taken: std::vec::IntoIter<Sample<T>>,
}

impl<T: TopicData> Samples<'_, T> {
    /// Whether there are none (any more).
    pub fn is_empty(&self) -> bool {
        self.left == 0 && self.taken.len() == 0 && !(self.more > 0 && self.reader.opened.has_next())
    }
}

impl<T: TopicData> Samples<'_, T> {
    /// The next of a set that was opened.
    #[inline(never)]
    fn next_of_set(&mut self, next: &mut Option<Sample<T>>) {
        if self.reader.opened.has_next() {
            self.more -= 1;
            *next = self.reader.pop_told();
        }
    }
}

impl<T: TopicData> Iterator for Samples<'_, T> {
    type Item = Sample<T>;

    #[inline(always)]
    fn next(&mut self) -> Option<Sample<T>> {
        match self.left.checked_sub(1) {
            Some(left) => {
                self.left = left;
                self.reader.pop_told()
            }
            None if self.more > 0 => {
                let mut next = None;
                self.next_of_set(&mut next);
                next
            }
            None => self.taken.next(),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.taken.len(), self.left.checked_add(self.taken.len()).filter(|_| self.more == 0))
    }
}
