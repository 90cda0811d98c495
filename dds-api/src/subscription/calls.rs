//! The reading calls of the standard, on the reader cache.
//!
//! Owns: what each call requests of the cache, and waiting for it. Never does: know the contents of
//! the cache.

use std::sync::atomic::{AtomicU32, Ordering};

use derecho_core::ids::Time;
use derecho_node::{WaitOutcome, clock};
use idl_xtypes::TopicData;

use super::cache::{InstanceScope, Selection};
use super::condition::ReadCondition;
use super::data_available::ArrivalMark;
use super::intake::ReaderCore;
use super::lending::LendingCheck;
use super::reader::{DataReader, Limit};
use super::reader_cache::{SampleRejectedStatus, wall};
use super::sample::{Sample, SampleBody, ValidSample, key_of};
use super::states::States;
use crate::infrastructure::{DdsError, DdsResult, InstanceHandle, StatusKind, Timeout};

/// Reading by states and by instance.
///
/// `read` leaves samples in the cache, marked as read; `take` removes them. Only the two calls that
/// have a time-out wait; the others give what is there. In all calls, samples without data report
/// instances that are over: their `valid_data` is false.
///
/// ```no_run
/// use dds_api::prelude::*;
/// use dds_api::subscription::InstanceState;
///
/// #[derive(DdsType, Clone, Debug, Default)]
/// struct Track { #[dds(key)] id: u32, height: f64 }
///
/// # fn main() -> DdsResult<()> {
/// let participant = DomainParticipant::new(0)?;
/// let topic = participant.topic::<Track>("Tracks").atomic().create()?;
/// let reader = participant.reader(&topic).keep_last(1).create()?; // the picture of now
/// for track in reader.read(.., Timeout::secs(1))? {
///     match track.info().instance_state {
///         InstanceState::Alive => println!("{:?}", track.data()),
///         InstanceState::NotAliveDisposed => println!("{} has landed", track.key_value().id),
///         InstanceState::NotAliveNoWriters => println!("nobody sees {} any more", track.key_value().id),
///     }
/// }
/// # Ok(())
/// # }
/// ```
impl<T: TopicData> DataReader<T> {
    /// Reads samples in any state. Waits until there is an unread sample. If none comes in time,
    /// the call gives the samples that are there.
    pub fn read(
        &self,
        limit: impl Limit,
        timeout: impl Into<Timeout>,
    ) -> DdsResult<Vec<Sample<T>>> {
        self.read_any(Selection { max: limit.limit(), ..Selection::default() }, timeout.into())
    }

    /// Reads samples with data, and leaves them in the reader: [`DataReader::read`] without the
    /// samples that report that instances are over. Waits until there is an unread sample with
    /// data. If none comes in time, the call gives the samples that are there.
    pub fn read_data(
        &self,
        limit: impl Limit,
        timeout: impl Into<Timeout>,
    ) -> DdsResult<Vec<ValidSample<T>>> {
        let wanted = Selection { max: limit.limit(), data_alone: true, ..Selection::default() };
        let found = self.read_any(wanted, timeout.into())?;
        Ok(found.into_iter().filter_map(Sample::into_data).collect())
    }

    fn read_any(&self, wanted: Selection, timeout: Timeout) -> DdsResult<Vec<Sample<T>>> {
        let awaited = Selection { states: States::not_read(), ..wanted };
        self.access(false, &wanted, &awaited, None, timeout)
    }

    /// Takes samples: [`DataReader::take`] of a reader that follows instances.
    pub(super) fn take_all(&self, max: usize, timeout: Timeout) -> DdsResult<Vec<Sample<T>>> {
        let wanted = Selection { max, ..Selection::default() };
        self.access(true, &wanted, &wanted, None, timeout)
    }

    /// Reads samples that a condition selects.
    pub fn read_w_condition(
        &self,
        limit: impl Limit,
        condition: &ReadCondition<T>,
    ) -> DdsResult<Vec<Sample<T>>> {
        self.now(false, InstanceScope::All, limit, condition)
    }

    /// Takes samples that a condition selects.
    pub fn take_w_condition(
        &self,
        limit: impl Limit,
        condition: &ReadCondition<T>,
    ) -> DdsResult<Vec<Sample<T>>> {
        self.now(true, InstanceScope::All, limit, condition)
    }

    /// Waits until there is a sample that a condition selects. Returns whether there is one
    /// in time.
    pub fn wait_for_condition(
        &self,
        condition: &ReadCondition<T>,
        timeout: impl Into<Timeout>,
    ) -> DdsResult<bool> {
        let awaited = Selection { states: condition.states, ..Selection::default() };
        let nothing = Selection { max: 0, ..awaited };
        self.access(false, &nothing, &awaited, Some(condition), timeout.into())?;
        Ok(self.has_any(condition))
    }

    /// Reads the next unread sample.
    pub fn read_next_sample(&self) -> DdsResult<Option<Sample<T>>> {
        Ok(self.now(false, InstanceScope::All, ..1, &States::not_read().into())?.pop())
    }

    /// Takes the next unread sample.
    pub fn take_next_sample(&self) -> DdsResult<Option<Sample<T>>> {
        Ok(self.now(true, InstanceScope::All, ..1, &States::not_read().into())?.pop())
    }

    /// Reads samples of one instance.
    ///
    /// # Errors
    /// [`DdsError::BadParameter`] if the reader knows no such instance.
    pub fn read_instance(
        &self,
        limit: impl Limit,
        instance: InstanceHandle,
        condition: impl Into<ReadCondition<T>>,
    ) -> DdsResult<Vec<Sample<T>>> {
        let scope = self.scope_of(instance)?;
        self.now(false, scope, limit, &condition.into())
    }

    /// Takes samples of one instance.
    ///
    /// # Errors
    /// [`DdsError::BadParameter`] if the reader knows no such instance.
    pub fn take_instance(
        &self,
        limit: impl Limit,
        instance: InstanceHandle,
        condition: impl Into<ReadCondition<T>>,
    ) -> DdsResult<Vec<Sample<T>>> {
        let scope = self.scope_of(instance)?;
        self.now(true, scope, limit, &condition.into())
    }

    /// Reads samples of the next instance after `previous` that has samples which the condition
    /// selects, or of the first such instance if `previous` is `None`. The reader need not know the
    /// previous instance any more.
    ///
    /// # Errors
    /// [`DdsError::BadParameter`] if the handle is not that of an instance.
    pub fn read_next_instance(
        &self,
        limit: impl Limit,
        previous: Option<InstanceHandle>,
        condition: impl Into<ReadCondition<T>>,
    ) -> DdsResult<Vec<Sample<T>>> {
        let scope = self.scope_behind(previous)?;
        self.now(false, scope, limit, &condition.into())
    }

    /// Takes samples of the next instance; see [`DataReader::read_next_instance`].
    ///
    /// # Errors
    /// [`DdsError::BadParameter`] if the handle is not that of an instance.
    pub fn take_next_instance(
        &self,
        limit: impl Limit,
        previous: Option<InstanceHandle>,
        condition: impl Into<ReadCondition<T>>,
    ) -> DdsResult<Vec<Sample<T>>> {
        let scope = self.scope_behind(previous)?;
        self.now(true, scope, limit, &condition.into())
    }

    /// [`DataReader::read_next_instance`], under the standard's name for the call with a condition.
    ///
    /// # Errors
    /// [`DdsError::BadParameter`] if the handle is not that of an instance.
    pub fn read_next_instance_w_condition(
        &self,
        limit: impl Limit,
        previous: Option<InstanceHandle>,
        condition: &ReadCondition<T>,
    ) -> DdsResult<Vec<Sample<T>>> {
        self.read_next_instance(limit, previous, condition.clone())
    }

    /// [`DataReader::take_next_instance`], under the standard's name for the call with a condition.
    ///
    /// # Errors
    /// [`DdsError::BadParameter`] if the handle is not that of an instance.
    pub fn take_next_instance_w_condition(
        &self,
        limit: impl Limit,
        previous: Option<InstanceHandle>,
        condition: &ReadCondition<T>,
    ) -> DdsResult<Vec<Sample<T>>> {
        self.take_next_instance(limit, previous, condition.clone())
    }

    /// The handle of a sample's instance, if the reader knows that instance.
    pub fn lookup_instance(&self, sample: &T) -> Option<InstanceHandle> {
        let handle = InstanceHandle::of_instance(key_of(sample));
        self.cache().knows(handle).then_some(handle)
    }

    /// A value with the key of an instance that the reader knows. All other members have
    /// their defaults.
    ///
    /// # Errors
    /// [`DdsError::BadParameter`] if the reader knows no such instance.
    pub fn get_key_value(&self, instance: InstanceHandle) -> DdsResult<T> {
        self.cache().key_value(instance).ok_or_else(|| self.unknown(instance))
    }

    /// SAMPLE_REJECTED. Reading it resets its change count.
    #[doc(alias = "get_sample_rejected_status")]
    pub fn sample_rejected_status(&self) -> SampleRejectedStatus {
        match self.cache.get() {
            Some(_) => {
                let mut reader_cache = self.cache();
                self.shared.board.clear(StatusKind::SampleRejected);
                reader_cache.take_rejected()
            }
            None => SampleRejectedStatus::default(),
        }
    }

    fn scope_of(&self, instance: InstanceHandle) -> DdsResult<InstanceScope> {
        let key = instance.instance_key().filter(|_| self.cache().knows(instance));
        key.map(InstanceScope::Instance).ok_or_else(|| self.unknown(instance))
    }

    fn scope_behind(&self, previous: Option<InstanceHandle>) -> DdsResult<InstanceScope> {
        match previous.map(|previous| (previous, previous.instance_key())) {
            None | Some((InstanceHandle::NIL, _)) => Ok(InstanceScope::NextAfter(None)),
            Some((_, Some(key))) => Ok(InstanceScope::NextAfter(Some(key))),
            Some((previous, None)) => Err(self.unknown(previous)),
        }
    }

    fn unknown(&self, instance: InstanceHandle) -> DdsError {
        DdsError::BadParameter(format!(
            "{instance} is not an instance that this reader of `{}` knows: use a handle from \
             lookup_instance or from the info of a sample",
            self.topic().name()
        ))
    }

    fn now(
        &self,
        takes: bool,
        scope: InstanceScope,
        limit: impl Limit,
        condition: &ReadCondition<T>,
    ) -> DdsResult<Vec<Sample<T>>> {
        let states = condition.states;
        let wanted = Selection { states, scope, max: limit.limit(), ..Selection::default() };
        self.access(takes, &wanted, &wanted, Some(condition), Timeout::NOW)
    }

    /// Gives what is wanted as soon as something exists that is waited for, or at the end of
    /// the time.
    fn access(
        &self,
        takes: bool,
        wanted: &Selection,
        awaited: &Selection,
        condition: Option<&ReadCondition<T>>,
        timeout: Timeout,
    ) -> DdsResult<Vec<Sample<T>>> {
        let deadline = timeout.deadline();
        let query = |data: &T| condition.is_none_or(|condition| condition.wants(data));
        let asks = |sample: Option<&SampleBody<T>>| sample.is_none_or(|sample| query(sample));
        let is_any = wanted.scope == InstanceScope::All && wanted.states == States::any();
        let takes_any = (takes && is_any && condition.is_none()).then_some(wanted.max);
        let mut is_over = timeout == Timeout::NOW;
        loop {
            self.enabling.check()?;
            if let Some(leader) = self.leader() {
                leader.check()?;
                // The contents do not change during the access, so waiting is useless.
                is_over = true;
            }
            let mut reader_cache = self.cache_for(takes_any);
            let mut passing = reader_cache.give_passing(wanted.max);
            if passing.is_none() && is_over && reader_cache.cache.is_empty() {
                // Samples under way may arrive with a turn of the machine.
                drop(reader_cache);
                self.poke();
                reader_cache = self.cache_for(takes_any);
                passing = reader_cache.give_passing(wanted.max);
            }
            // A call that only waits reads nothing.
            let mark = (wanted.max > 0).then(|| ArrivalMark::InCache(reader_cache.arrivals()));
            if let Some(mut found) = passing {
                drop(reader_cache);
                self.note_read_if(mark);
                self.lend(&mut found);
                self.check_membership(false)?;
                return Ok(found);
            }
            let now = wall();
            if is_over || reader_cache.cache.has(now, awaited, asks) {
                let mut found = reader_cache.access(now, takes, wanted, &query);
                drop(reader_cache);
                self.note_read_if(mark);
                self.lend(&mut found);
                if let Some(condition) = condition {
                    condition.put_in_order(&mut found);
                }
                self.check_membership(found.is_empty())?;
                return Ok(found);
            }
            let due = reader_cache.next_look();
            let is_stalled = reader_cache.is_stalled();
            let seen = self.changes();
            let collected = self.fill_count.load(Ordering::SeqCst);
            // Begins before the lock is released: a thread that fills the cache after that wakes
            // this one.
            let _waits = WaitGuard::begin(&self.waiting);
            let is_new = !reader_cache.has_seen(seen) && !is_stalled;
            drop(reader_cache);
            if is_new {
                continue;
            }
            let until = deadline.into_iter().chain(due).min();
            let ready = || {
                self.changes() != seen
                    || self.fill_count.load(Ordering::SeqCst) != collected
                    || !is_stalled && self.has_queued()
            };
            match self.wait_until(until, ready)? {
                WaitOutcome::TimedOut => {
                    let now = clock::now();
                    // A wait within a condition ends at once.
                    let is_in_condition = until.is_none_or(|until| now < until);
                    is_over = is_in_condition || deadline.is_some_and(|end| now >= end);
                }
                _ => is_over = false,
            }
        }
    }
}

impl<T: TopicData> ReaderCore<T> {
    /// Lends samples that came out of the cache and lie in writers' memory, up to the limit that
    /// may be held. Copies the others.
    pub(super) fn lend(&self, found: &mut [Sample<T>]) {
        let mut lending_check = LendingCheck::default();
        for sample in found {
            if sample.is_over_limit(&mut lending_check, self.max_held_percent) {
                self.copied.fetch_add(1, Ordering::Relaxed);
                sample.own();
                lending_check.forget();
            }
        }
    }

    /// Whether a call with this condition has something to return, be it an error.
    pub(super) fn has_wanted(&self, condition: &ReadCondition<T>) -> bool {
        let is_out =
            self.participant.membership.is_out_for_good() || self.enabling.lifecycle().is_deleted();
        is_out || self.has_any(condition)
    }

    /// Whether there is a sample that a condition selects.
    pub(super) fn has_any(&self, condition: &ReadCondition<T>) -> bool {
        let awaited = Selection { states: condition.states, ..Selection::default() };
        let wants = |sample: Option<&SampleBody<T>>| sample.is_none_or(|it| condition.wants(it));
        self.cache().cache.has(wall(), &awaited, wants)
    }

    /// Time at which something may become visible although nothing arrives.
    pub(super) fn next_look(&self) -> Option<Time> {
        self.cache.get()?;
        self.cache().next_look()
    }
}

/// A thread's wait for something in a reader's cache.
struct WaitGuard<'a>(&'a AtomicU32);

impl WaitGuard<'_> {
    fn begin(count: &AtomicU32) -> WaitGuard<'_> {
        count.fetch_add(1, Ordering::SeqCst);
        WaitGuard(count)
    }
}

impl Drop for WaitGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}
