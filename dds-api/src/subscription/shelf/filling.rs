//! How what is queued comes into a reader's cache, or passes through it.
//!
//! Owns: the order in which that is done with what else a look finds: policies, writers that are gone, what found no room. Never
//! does: wait.

use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};

use idl_xtypes::TopicData;

use super::{Shelf, wall};
use crate::domain::{Collect, Found};
use crate::infrastructure::InstanceHandle;
use crate::infrastructure::status::StatusKind;
use crate::mapping::policies::Policies;
use crate::mapping::record::{Fate, NEVER, expiry_of, is_plain, lies_in_place};
use crate::subscription::cache::Settings;
use crate::subscription::intake::{ReaderCore, Receiver};
use crate::subscription::sample::Body;

/// So many samples are taken out of the queues under one lock, at most: who asks whether any wait is soon answered.
const LONGEST_RUN: usize = 64;

impl<T: TopicData> ReaderCore<T> {
    /// The shelf, which begins with the first call that asks for it, with all that the queues hold in it.
    pub(in crate::subscription) fn shelf(&self) -> MutexGuard<'_, Shelf<T>> {
        self.shelf_for(false)
    }

    /// The same, for a call that takes all there is, if this is one: what comes may pass through the cache then (I-146).
    pub(in crate::subscription) fn shelf_for(&self, takes_all: bool) -> MutexGuard<'_, Shelf<T>> {
        if let Some(leader) = self.leader() {
            leader.fill();
            return self.shelf_as_it_is();
        }
        let mut shelf = self.shelf_as_it_is();
        self.take_up_settings(&mut shelf);
        self.fill(&mut shelf, takes_all);
        self.tell_of_filling(&mut shelf);
        shelf
    }

    /// The shelf, and nothing comes into it.
    pub(in crate::subscription) fn shelf_as_it_is(&self) -> MutexGuard<'_, Shelf<T>> {
        let shelf =
            self.shelf.get_or_init(|| Shelf::new(self.settings(), self.topic.support()).into());
        shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(in crate::subscription) fn take_up_settings(&self, shelf: &mut Shelf<T>) {
        if let Some(settings) = self.new_settings() {
            shelf.set_settings(settings);
        }
    }

    /// Puts up what has come of it that the shelf was filled.
    pub(in crate::subscription) fn tell_of_filling(&self, shelf: &mut Shelf<T>) {
        self.look_at_deadlines(shelf);
        if std::mem::take(&mut shelf.has_rejected) {
            self.shared.board.raise(StatusKind::SampleRejected);
        }
    }

    /// What the cache is to do from now on, if policies have changed since it was asked last.
    fn new_settings(&self) -> Option<Settings> {
        let policies = self.shared.take_new_policies()?;
        let Policies::Requested { reader, .. } = &*policies else { return None };
        let mut settings = self.settings.lock().unwrap_or_else(PoisonError::into_inner);
        *settings = settings.changed_to(reader);
        Some(*settings)
    }

    /// What has not come in time, now that all that has come is known.
    fn look_at_deadlines(&self, shelf: &mut Shelf<T>) {
        let Some(deadlines) = &mut shelf.deadlines else { return };
        let missed = deadlines.advance(wall());
        if missed.count > 0 {
            self.shared.board.note(StatusKind::RequestedDeadlineMissed, |all| {
                let status = &mut all.requested_deadline_missed;
                status.count(missed.count);
                status.last_instance_handle = Some(InstanceHandle::of_instance(missed.last));
            });
        }
    }

    fn fill(&self, shelf: &mut Shelf<T>, takes_all: bool) {
        let now = wall();
        if !self.begin_filling(shelf, now) {
            return;
        }
        if takes_all {
            shelf.cache.let_pass();
        }
        loop {
            self.note_sending(shelf);
            if !self.empty_queues(shelf, now) || self.note_losses(shelf, now) {
                return;
            }
        }
    }

    /// Takes up what is there beside the queues; `false` if something finds no room.
    pub(in crate::subscription) fn begin_filling(&self, shelf: &mut Shelf<T>, now: u64) -> bool {
        shelf.cache.advance(now);
        if let Some(joining) = self.joining.get() {
            self.join_news(joining);
        }
        if let Some(parted) = self.shared.take_parted() {
            shelf.part_from(now, &parted);
        }
        shelf.take_up_stalled(now)
    }

    /// Before the queues are gone through: what was not sending any more then has all it sent in them.
    pub(in crate::subscription) fn note_sending(&self, shelf: &mut Shelf<T>) {
        shelf.looked = self.changes();
        if !shelf.has_seen(shelf.looked) {
            shelf.sending = self.sending();
        }
    }

    /// When all that was queued is in the cache: who does not send any more is lost. `false` if the queues have changed since
    /// they were gone through.
    pub(in crate::subscription) fn note_losses(&self, shelf: &mut Shelf<T>, now: u64) -> bool {
        let changes = shelf.looked;
        if changes != self.changes() {
            return false;
        }
        let is_seen = shelf.has_seen(changes);
        if std::mem::take(&mut shelf.has_news) || !is_seen {
            shelf.seen = Some(changes);
            if !self.reads_history() {
                let sending = std::mem::take(&mut shelf.sending);
                shelf.lose(now, |_, stream| !sending.contains(&stream));
                shelf.sending = sending;
            }
        }
        true
    }

    /// Has what is queued pass through the cache, as far as it lies where it was written; `false` if it finds no room there. What
    /// cannot pass is the next that is taken out of the queues. For all of it together it is asked whether the participant is
    /// a member, when the call gives it: one that is none, and will never be one again, gives nothing.
    fn pass_queued(&self, shelf: &mut Shelf<T>, now: u64, lifespan: u64) -> bool {
        let is_usual = is_plain::<T>() && self.filter.is_none() && !self.may_rejoin();
        if !is_usual || !shelf.cache.lets_pass() || self.opened.has_next() || !self.is_volatile() {
            return true;
        }
        let standing = &self.participant.standing;
        loop {
            // A type's own code is asked for no more than the hash of a key here.
            let mut queues = self.queues();
            for _ in 0..LONGEST_RUN {
                let Some((record, stream, life)) = queues.take(&self.shared) else { return true };
                let bytes = record.bytes();
                let may_pass = standing.is_in(life)
                    && !self.departures.are_any()
                    && !self.is_refused(bytes)
                    && lies_in_place::<T>(bytes)
                    && expiry_of(bytes, lifespan) == NEVER;
                if !may_pass {
                    queues.put_back(record, stream, life);
                    return true;
                }
                if !shelf.pass(now, Body::in_place(record, stream.node), stream) {
                    return false;
                }
            }
        }
    }

    /// Puts into the cache what the queues hold; `false` if it does not all find room.
    fn empty_queues(&self, shelf: &mut Shelf<T>, now: u64) -> bool {
        let lifespan = self.enabling.started().map_or(0, |started| started.lifespan);
        loop {
            if !self.pass_queued(shelf, now, lifespan) {
                return false;
            }
            let next = match shelf.next.take() {
                Some(next) => next,
                None => {
                    let popped = self.pop(Receiver::Cache);
                    self.take_departures(shelf);
                    let Some((sample, stream)) = popped else { return true };
                    if self.opened.has_next() {
                        let set = self.whole_set((sample, stream), shelf, lifespan);
                        if !shelf.put_set(now, set, false) {
                            return false;
                        }
                        continue;
                    }
                    if !self.passes(&sample) {
                        continue;
                    }
                    let Some(sample) = self.own(sample, shelf.cache.settings()) else { continue };
                    if shelf.lets_pass(&sample, lifespan) {
                        if !shelf.pass(now, sample, stream) {
                            return false;
                        }
                        continue;
                    }
                    shelf.arrival(sample, stream, lifespan)
                }
            };
            if !shelf.put(now, next, false) {
                return false;
            }
        }
    }

    /// What tells of an instance passes whatever is filtered.
    #[inline(always)]
    pub(in crate::subscription) fn passes(&self, sample: &Body<T>) -> bool {
        let filter = self.filter.as_ref().filter(|_| sample.fate() == Fate::Alive);
        filter.is_none_or(|filter| filter.accepts::<T>(sample))
    }

    /// A sample that may stay as long as it likes: what is kept beside others, or might be written anew while it stays, is
    /// copied out of its writer's memory.
    #[inline(always)]
    pub(in crate::subscription) fn own(
        &self,
        sample: Body<T>,
        settings: &Settings,
    ) -> Option<Body<T>> {
        if settings.depth.is_none() && !self.may_rejoin() {
            return Some(sample);
        }
        self.copied_for_good(sample)
    }

    fn copied_for_good(&self, sample: Body<T>) -> Option<Body<T>> {
        let own = sample.into_own();
        // What was written anew while it was copied is none.
        own.filter(|_| !self.is_evicted())
    }
}

/// When its cache is filled although nobody looks.
impl<T: TopicData> Collect for ReaderCore<T> {
    fn collect(&self) -> Found {
        if let Some(leader) = self.leader() {
            return self.collect_in_step(leader);
        }
        // Whoever looks fills it.
        let Some(Ok(mut shelf)) = self.shelf.get().map(Mutex::try_lock) else {
            return Found::Nothing;
        };
        if shelf.is_stalled() || !self.has_queued() {
            return Found::Nothing;
        }
        let holds_up = self.holds_up();
        self.fill(&mut shelf, false);
        // Under the lock: who has seen the cache as it was before waits for another number.
        self.collected.fetch_add(1, Ordering::SeqCst);
        drop(shelf);
        self.wake_waiting();
        if holds_up { Found::Much } else { Found::Little }
    }
}

impl<T: TopicData> ReaderCore<T> {
    /// Whoever waits for something in the cache looks again.
    pub(in crate::subscription) fn wake_waiting(&self) {
        if self.waiting.load(Ordering::SeqCst) > 0 {
            self.participant.engine.nudge();
        }
    }
}
