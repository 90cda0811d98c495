//! The data reader.
//!
//! Owns: the queues of all writers that the reader is matched with. Never does: copy what it can
//! lend, or hold its lock while the application looks at a sample.

mod asynchronous;
mod data;

use std::convert::identity;
use std::ops::{Deref, RangeFull, RangeTo};
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock, PoisonError, Weak};
use std::time::{Duration, SystemTime};

use derecho_core::ids::Time;
use derecho_core::link::Interest;
use derecho_node::{WaitOutcome, clock};
use idl_xtypes::TopicData;

use super::intake::ReaderCore;
use super::past::{PastSamples, RemoteLogs, Since, own_log};
use super::sample::Sample;
use super::states::ViewState;
use crate::domain::FillerEntry;
use crate::infrastructure::{DdsResult, InstanceHandle, Timeout};
use crate::mapping::membership_state::MembershipState;
use crate::topic::Topic;

/// Reads samples of one topic. Any number of threads may take at once; each sample goes to one.
///
/// Clones are handles on the same reader. Dropping the last handle deletes the reader.
///
/// ```
/// # use dds_api::prelude::*;
/// # #[derive(DdsType, Clone, Debug, Default)]
/// # struct Track { #[dds(key)] id: u32, height: f64 }
/// # fn example(participant: &DomainParticipant, topic: &Topic<Track>) -> DdsResult<()> {
/// let reader = participant.reader(topic).create()?;
/// for track in reader.take_data(.., Timeout::secs(1))? {
///     println!("track {} is at {} m", track.id, track.height);
/// }
/// # Ok(())
/// # }
/// ```
pub struct DataReader<T: TopicData> {
    pub(super) core: Arc<ReaderCore<T>>,
    active: Arc<ActiveReader<T>>,
}

/// The active life of a reader. It ends with the last handle, even if other code still refers to
/// the `ReaderCore`.
pub(super) struct ActiveReader<T: TopicData> {
    pub(super) core: Arc<ReaderCore<T>>,
    /// Registration with the cache filler, the thread that fills the cache while the application
    /// does not read. Set only if the cache needs that.
    pub(super) filler_entry: OnceLock<Arc<FillerEntry>>,
    /// Weak reference to this object, for the subscriber, which does not keep its readers alive.
    pub(super) me: Weak<ActiveReader<T>>,
}

impl<T: TopicData> Clone for DataReader<T> {
    fn clone(&self) -> Self {
        DataReader { core: Arc::clone(&self.core), active: Arc::clone(&self.active) }
    }
}

/// Gives access to the fields of the reader's own `ReaderCore`.
impl<T: TopicData> Deref for DataReader<T> {
    type Target = ReaderCore<T>;

    #[inline(always)]
    fn deref(&self) -> &ReaderCore<T> {
        &self.core
    }
}

/// Maximum number of samples to take: `..` for all available samples, `..n` for up to n.
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
    /// The maximum number.
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

pub use asynchronous::{DataStream, SampleStream};
pub use data::DataSamples;

impl<T: TopicData> DataReader<T> {
    /// Makes a reader of this core. The reader is not enabled.
    pub(super) fn of(core: ReaderCore<T>) -> DataReader<T> {
        let life = Arc::new_cyclic(|me| {
            let me = Weak::clone(me);
            ActiveReader { core: Arc::new(core), filler_entry: OnceLock::new(), me }
        });
        let entity: Weak<ActiveReader<T>> = Arc::downgrade(&life);
        life.core.participant.dispatcher.add(entity);
        if let Some(subscriber) = &life.core.subscriber {
            let core: Weak<ReaderCore<T>> = Arc::downgrade(&life.core);
            subscriber.data_on_readers().enter(core);
        }
        DataReader::alive(life)
    }

    pub(super) fn life(&self) -> &ActiveReader<T> {
        &self.active
    }

    pub(super) fn alive(life: Arc<ActiveReader<T>>) -> DataReader<T> {
        DataReader { core: Arc::clone(&life.core), active: life }
    }

    /// The topic of the reader.
    #[doc(alias = "get_topicdescription")]
    pub fn topic(&self) -> &Topic<T> {
        &self.topic
    }

    /// The reader's name in the domain. Enabling the reader changes the name; nobody else knows the
    /// name that it has before.
    #[doc(alias = "get_instance_handle")]
    pub fn instance_handle(&self) -> InstanceHandle {
        self.core.name_in_domain()
    }

    /// Number of matched writers: each sample that they write from now on reaches the reader. The
    /// number is that of [`subscription_matched_status`](Self::subscription_matched_status).
    pub fn matched_writers(&self) -> usize {
        if let Some(joined_readers) = self.joined_readers.get() {
            return joined_readers.matched_writers();
        }
        self.shared.board.matched_writers()
    }

    /// Number of writers of the same topic that the reader cannot be matched with, because it does
    /// not [understand](crate::subscription::DataReaderBuilder::type_consistency) their type, or
    /// because their topic differs. [`inconsistency`](Self::inconsistency) gives the reason.
    pub fn inconsistent_writers(&self) -> usize {
        self.shared.inconsistent.load(Ordering::Acquire) as usize
    }

    /// The reason, in words, why the last of the [inconsistent writers](Self::inconsistent_writers)
    /// cannot be matched.
    pub fn inconsistency(&self) -> Option<String> {
        self.shared.why_inconsistent.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Number of samples that were dropped because they are not of the reader's type: an error of
    /// the writer.
    pub fn unreadable_samples(&self) -> u64 {
        self.unreadable.load(Ordering::Relaxed)
    }

    /// Number of samples that were copied when they were given out, because the application already
    /// held as much of the writers' memory as it
    /// [may](crate::subscription::DataReaderBuilder::max_held_percent).
    pub fn copied_samples(&self) -> u64 {
        self.copied.load(Ordering::Relaxed)
    }

    /// Number of times that this participant's membership in its domain has ended, as far as is
    /// known. If the number has changed, the participant was isolated, and has [come back] or
    /// will. Samples may then be missing, and the memory of samples taken before the change may
    /// have been overwritten.
    ///
    /// [come back]: crate::domain::ParticipantConfig::rejoin
    pub fn membership_changes(&self) -> u64 {
        let membership = &self.participant.membership;
        // The process may have been stopped without having noticed its eviction yet.
        let _ = membership.is_evicted();
        membership.memberships_ended()
    }

    /// Number of samples that were received, and discarded because the membership ended before they
    /// were taken. Samples that were not received are not counted, nor are samples that are
    /// [kept](crate::topic::TopicBuilder::transient_local), because those come again. What no call
    /// had looked at yet is counted by records: a coherent set as one sample, and also what a
    /// filter would reject or what reports the end of an instance.
    pub fn discarded_samples(&self) -> u64 {
        if self.cache.get().is_some() {
            // Discards what the cache still holds of a membership that has ended.
            drop(self.cache_as_is());
        }
        self.queues().discarded
    }

    /// Waits until the reader receives the samples of at least `count` writers.
    pub fn wait_for_writers(&self, count: usize, timeout: impl Into<Timeout>) -> DdsResult<()> {
        let timeout = timeout.into();
        let missing = || {
            format!(
                "{} of {count} writers of `{}` had matched after {timeout}: {}",
                self.matched_writers(),
                self.topic.name(),
                self.participant.why_nobody()
            )
        };
        let holds = || self.matched_writers() >= count;
        self.enabling.wait_until(&self.participant, timeout, holds, missing)
    }

    /// Takes samples, with data and [without](Sample::data), oldest first for each writer. Waits
    /// until there is a sample. If none comes in
    /// time, the result is empty, which is not an error. The iterator ends when it has given all
    /// samples that were there, or when this participant is isolated; in the latter case the next
    /// call returns the error.
    pub fn take(
        &self,
        limit: impl Limit,
        timeout: impl Into<Timeout>,
    ) -> DdsResult<Samples<'_, T>> {
        let (limit, timeout) = (limit.limit(), timeout.into());
        let deadline = timeout.deadline();
        while self.cache.get().is_none() {
            let waited = self.wait_for_samples(timeout, deadline)?;
            if self.cache.get().is_some() {
                break;
            }
            let mark = self.mark_if_asked();
            let (waiting, view) = (self.queues().waiting(&self.shared), self.view());
            let left = limit.min(waiting).saturating_sub(1);
            let first =
                if limit == 0 { None } else { self.pop_sample(view, left, identity, || None) };
            // Another thread may have taken what was waited for.
            let is_over = limit == 0 || waited == WaitOutcome::TimedOut;
            if first.is_some() || is_over && self.goes_on(waited)? {
                self.note_read_if(mark);
                let left = if first.is_some() { left } else { 0 };
                let taken = Vec::new().into_iter();
                return Ok(Samples { reader: self, first, left, view, taken });
            }
        }
        let taken = self.take_all(limit, left_until(timeout, deadline))?.into_iter();
        Ok(Samples { reader: self, first: None, left: 0, view: ViewState::New, taken })
    }

    /// Takes the next sample, if one comes in time.
    #[inline]
    pub fn take_next(&self, timeout: impl Into<Timeout>) -> DdsResult<Option<Sample<T>>> {
        if self.cache.get().is_some() {
            return Ok(self.take_all(1, timeout.into())?.pop());
        }
        let mark = self.mark_if_asked();
        match self.pop_sample(self.view(), 0, identity, || None) {
            Some(sample) => {
                self.note_read_if(mark);
                Ok(Some(sample))
            }
            None => self.take_later(timeout.into()),
        }
    }

    fn take_later(&self, timeout: Timeout) -> DdsResult<Option<Sample<T>>> {
        let deadline = timeout.deadline();
        loop {
            let waited = self.wait_for_samples(timeout, deadline)?;
            if self.cache.get().is_some() {
                return Ok(self.take_all(1, left_until(timeout, deadline))?.pop());
            }
            let mark = self.mark_if_asked();
            let sample = self.pop_sample(self.view(), 0, identity, || None);
            if sample.is_none() && self.queues().follows() {
                continue;
            }
            // Another thread may have taken the sample, or it may have been discarded.
            if sample.is_some() || (self.goes_on(waited)? && waited == WaitOutcome::TimedOut) {
                self.note_read_if(mark);
                return Ok(sample);
            }
        }
    }

    /// Whether the participant is a member. If it is not, this is an error, or `false` if the last
    /// wait ended before its deadline and the participant may rejoin: then the caller waits again.
    fn goes_on(&self, waited: WaitOutcome) -> DdsResult<bool> {
        let membership = &self.participant.membership;
        // This process may have been stopped, and the memory that it has read may have
        // been overwritten.
        match membership.is_evicted() {
            false => Ok(true),
            true if waited == WaitOutcome::Ready && !membership.is_out_for_good() => Ok(false),
            true => Err(membership.error()),
        }
    }

    /// Waits until there is a sample. If the participant is out for good, this is an error.
    fn wait_for_samples(&self, timeout: Timeout, deadline: Option<Time>) -> DdsResult<WaitOutcome> {
        self.enabling.check()?;
        let membership = &self.participant.membership;
        let waited = if timeout == Timeout::NOW {
            if !self.has_samples() {
                self.poke();
            }
            self.enabling.check()?;
            WaitOutcome::TimedOut
        } else {
            self.wait_until(deadline, || self.has_samples())?
        };
        match waited {
            _ if membership.is_out_for_good() => Err(membership.error()),
            WaitOutcome::TimedOut if membership.is_out() => Err(membership.error()),
            waited => Ok(waited),
        }
    }

    /// Whether a sample waits to be taken. A queued record that may turn out to be a sample
    /// counts too.
    #[inline]
    pub fn has_samples(&self) -> bool {
        if let Some(has_data) = self.has_data() {
            return has_data;
        }
        // Queued records are not examined here. The call that returns them does so.
        let mut reader_cache = self.cache_as_is();
        reader_cache.let_time_pass();
        let has_changed = !reader_cache.has_seen(self.changes()) || self.has_queued();
        !reader_cache.cache.is_empty() || !reader_cache.is_stalled() && has_changed
    }

    /// Lets the participant's machine take a turn.
    pub(super) fn poke(&self) {
        self.participant.engine.poke();
    }

    /// Returns an error if the participant is not a member, and either has no samples to give
    /// (`has_nothing`) or cannot rejoin.
    pub(super) fn check_membership(&self, has_nothing: bool) -> DdsResult<()> {
        let membership = &self.participant.membership;
        let is_out = membership.is_evicted() && (has_nothing || !membership.may_rejoin());
        if is_out { Err(membership.error()) } else { Ok(()) }
    }

    /// Waits until `ready` holds, which news bring. If the participant is out for good, this is an
    /// error.
    pub(super) fn wait_until(
        &self,
        deadline: Option<Time>,
        ready: impl FnMut() -> bool,
    ) -> DdsResult<WaitOutcome> {
        self.enabling.wait(&self.participant, Interest::News, deadline, ready)
    }

    /// Waits until the kept samples that were written before this reader came can be taken. If the
    /// participant has [come back], waits for what was written in the meantime. On a topic that
    /// keeps no samples, the call returns at once.
    ///
    /// [come back]: crate::domain::ParticipantConfig::rejoin
    pub fn wait_for_historical_data(&self, timeout: impl Into<Timeout>) -> DdsResult<()> {
        let timeout = timeout.into();
        let missing = || {
            format!(
                "historical data of `{}` has not arrived after {timeout}: the participant that \
                 sends the data is slow, or there is a lot of data; wait longer{}",
                self.topic.name(),
                self.topic.waiting()
            )
        };
        let holds = || self.knows_history();
        self.enabling.wait_until(&self.participant, timeout, holds, missing)
    }

    fn knows_history(&self) -> bool {
        if let Some(joined_readers) = self.joined_readers.get() {
            return joined_readers.readers.iter().all(DataReader::knows_history);
        }
        self.shared.knows_history.load(Ordering::Acquire) && !self.membership().is_out()
    }

    #[inline]
    fn membership(&self) -> &MembershipState {
        &self.participant.membership
    }

    /// Reads logged samples of the past, from a sample or a time on, including those that are no
    /// longer kept for late joiners. The samples come from this participant's log, or else from
    /// another participant's log. Reading them delays no one. Each sample comes with its position
    /// in the topic's order.
    ///
    /// The result is complete: it holds every sample that was delivered to this participant before
    /// the call. If this participant has no log of its own, or the log is still being completed or
    /// has failed, the reader asks another participant whose log is complete, part by part. If that
    /// participant leaves or does not answer, the reader asks a further one. The reader waits for
    /// up to 10 s each time, or for the time given to [`PastSamples::within`]. If no other
    /// participant has a complete log, the call waits for up to 10 s until this participant's own
    /// log is complete.
    ///
    /// # Errors
    /// [`PreconditionNotMet`] if no present participant has a complete log of the topic or
    /// completes one; [`BadParameter`] if the log does not go back that far, or has not come that
    /// far; [`Timeout`] if no participant answers, or the own log is not complete in time.
    ///
    /// [`PreconditionNotMet`]: crate::infrastructure::DdsError::PreconditionNotMet
    /// [`BadParameter`]: crate::infrastructure::DdsError::BadParameter
    /// [`Timeout`]: crate::infrastructure::DdsError::Timeout
    pub fn past(&self, since: Since) -> DdsResult<PastSamples<T>> {
        self.enabling.check()?;
        let shared = Arc::clone(&self.shared);
        let log = own_log(&self.participant, self.enabling.id())?;
        let others = || RemoteLogs::new(&self.participant, self.enabling.id());
        PastSamples::open(log, since, shared, self.topic.support().clone(), others)
    }

    /// Returns the state at a time: for each instance, the last sample written at or before this
    /// time, with its position in the topic's order. If another participant's log provides the
    /// state, it is limited to 32 MiB.
    ///
    /// # Errors
    /// As for [`DataReader::past`].
    pub fn state_at(&self, time: SystemTime) -> DdsResult<Vec<(u64, Sample<T>)>> {
        self.enabling.check()?;
        let others = || RemoteLogs::new(&self.participant, self.enabling.id());
        let log = own_log(&self.participant, self.enabling.id())?;
        PastSamples::state_at(log, time, &self.shared, self.topic.support(), others)
    }
}

/// Rest of the time of a call that began with this time-out.
fn left_until(timeout: Timeout, deadline: Option<Time>) -> Timeout {
    let left = |end: Time| Duration::from_nanos(end.0.saturating_sub(clock::now().0)).into();
    deadline.map_or(timeout, left)
}

impl<T: TopicData> Drop for ActiveReader<T> {
    fn drop(&mut self) {
        self.end();
    }
}

/// Iterator over samples that are being taken.
///
/// ```
/// # use dds_api::prelude::*;
/// # #[derive(DdsType, Clone, Debug, Default)]
/// # struct Track { #[dds(key)] id: u32, height: f64 }
/// # fn example(reader: &DataReader<Track>) -> DdsResult<()> {
/// let samples = reader.take(.., Timeout::secs(1))?;
/// if !samples.is_empty() {
///     let highest = samples.data().map(|track| track.height).fold(0.0, f64::max);
/// }
/// # Ok(())
/// # }
/// ```
pub struct Samples<'a, T: TopicData> {
    reader: &'a DataReader<T>,
    /// The first sample, which was taken at once.
    first: Option<Sample<T>>,
    /// Maximum number of samples that follow it out of the queues.
    left: usize,
    /// The reader's view of the instance when the call began.
    view: ViewState,
    /// Samples of a reader that follows instances.
    taken: std::vec::IntoIter<Sample<T>>,
}

impl<T: TopicData> Samples<'_, T> {
    /// Whether there are no samples, or no more. While `false`, there may still be none if those
    /// that were counted expire, or are taken by another thread.
    pub fn is_empty(&self) -> bool {
        self.first.is_none() && self.left == 0 && self.taken.len() == 0
    }

    /// The next sample behind the first one as `form` makes it if it comes out of the queues, or
    /// else that of `from_cache`.
    #[inline(always)]
    fn next_as<R>(
        &mut self,
        form: impl Fn(Sample<T>) -> R,
        from_cache: impl Fn(&mut std::vec::IntoIter<Sample<T>>) -> Option<R>,
    ) -> Option<R> {
        let Some(left) = self.left.checked_sub(1) else { return from_cache(&mut self.taken) };
        self.left = left;
        let (reader, view) = (self.reader, self.view);
        reader.pop_sample(view, left, form, || {
            self.go_on_in_cache(left + 1);
            from_cache(&mut self.taken)
        })
    }

    /// Takes the rest of the call's samples, of which there are at most `limit`, from the cache if
    /// the reader follows instances since the call began.
    #[cold]
    fn go_on_in_cache(&mut self, limit: usize) {
        self.left = 0;
        if self.reader.has_data().is_none() {
            // The next call returns the error.
            let rest = self.reader.take_all(limit, Timeout::NOW).unwrap_or_default();
            self.taken = rest.into_iter();
        }
    }
}

impl<T: TopicData> Iterator for Samples<'_, T> {
    type Item = Sample<T>;

    #[inline(always)]
    fn next(&mut self) -> Option<Sample<T>> {
        // Checked first, because a take of nothing writes as well.
        if self.first.is_some() {
            return self.first.take();
        }
        self.next_as(identity, Iterator::next)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let certain = self.taken.len() + usize::from(self.first.is_some());
        (certain, certain.checked_add(self.left))
    }
}
