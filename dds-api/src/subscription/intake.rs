//! What a reader consists of, and the next sample out of its queues.
//!
//! Owns: the order in which sets, what is kept and what is queued are given out, and what of it no reader gets to see. Never
//! does: decode a sample under the queues' lock, or wait.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use derecho_core::group::report::StreamId;
use derecho_core::multicast::inbox::Record;
use idl_cdr::Extensibility;
use idl_xtypes::TopicData;

use super::cache::Settings;
use super::departures::Departures;
use super::enabling::{Draft, Started};
use super::joined::Joining;
use super::queues::{Queues, is_over, pass_over};
use super::sample::{Body, Sample};
use super::sets::Opened;
use super::shelf::Shelf;
use super::subscriber::Subscriber;
use crate::domain::Inner;
use crate::domain::enabling::Enabling;
use crate::infrastructure::listener::Slot;
use crate::infrastructure::this_thread::{ThreadGuard, ThreadLock};
use crate::infrastructure::{DataReaderListener, StatusCondition};
use crate::mapping::history::Look;
use crate::mapping::record::{Fate, Reading, lies_in_place, mark_of};
use crate::mapping::set;
use crate::mapping::shares::ReaderShared;
use crate::mapping::standing::Life;
use crate::topic::{SharedFilter, Topic};

/// What a reader consists of: also for whoever fills its cache when nobody looks.
#[doc(hidden)]
pub struct ReaderCore<T: TopicData> {
    pub(super) participant: Arc<Inner>,
    pub(super) topic: Topic<T>,
    pub(super) shared: Arc<ReaderShared>,
    pub(super) queues: ThreadLock<Queues>,
    /// Who sends no more, as of what was taken out of these last.
    pub(super) departures: Arc<Departures>,
    /// Of a multi-topic: the way to the samples of its topics.
    pub(super) joining: OnceLock<Joining>,
    /// Samples of a coherent set that was taken out of the queues, and of which some are still to be given.
    pub(super) opened: Opened<T>,
    pub(super) unreadable: AtomicU64,
    /// So much of a writer's memory may be held by what it has given out.
    pub(super) max_held_percent: u8,
    /// Samples that were copied, as more was held.
    pub(super) copied: AtomicU64,
    /// Whether it is enabled, and what it has since then.
    pub(super) enabling: Enabling<Draft>,
    /// What the cache is to do.
    pub(super) settings: Mutex<Settings>,
    /// The cache, as soon as something asks for what only that knows.
    pub(super) shelf: OnceLock<Mutex<Shelf<T>>>,
    /// What samples have to pass.
    pub(super) filter: Option<Arc<SharedFilter>>,
    /// The subscriber that it belongs to, if it is not the participant's own.
    pub(super) subscriber: Option<Subscriber>,
    pub(super) status_condition: OnceLock<StatusCondition>,
    /// How often its cache was filled although nobody looked.
    pub(super) collected: AtomicU64,
    /// Threads that wait for something in its cache.
    pub(super) waiting: AtomicU32,
    pub(super) listener: Slot<dyn DataReaderListener<T>>,
    /// How much had come when a listener was told of that last.
    pub(super) told: AtomicU64,
}

/// For whom a sample is taken out of the queues.
#[derive(Clone, Copy)]
pub(super) enum Receiver {
    /// For the application, which may hold it as long as it likes.
    Application,
    /// For the cache, which is limited by policies.
    Cache,
}

/// What was in a record.
enum Unpacked<T> {
    Sample(Body<T>, StreamId),
    /// No sample, or several, which come next.
    Nothing,
    /// It may have been written anew meanwhile: nothing more comes for now.
    Evicted,
}

impl<T: TopicData> ReaderCore<T> {
    /// What its cache is to do.
    pub(super) fn settings(&self) -> Settings {
        *self.settings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The queues, brought up to date.
    #[inline(always)]
    pub(super) fn queues(&self) -> ThreadGuard<'_, Queues> {
        let mut queues = self.queues.lock();
        let changes = self.shared.changes.load(Ordering::Acquire);
        if changes != queues.seen {
            queues.renew(&self.shared, changes);
        }
        queues
    }

    /// Whether a record waits in the queues.
    #[inline]
    pub(super) fn has_queued(&self) -> bool {
        if let Some(joining) = self.joining.get() {
            self.join_news(joining);
        }
        let follows = self.shelf.get().is_some();
        self.opened.has_next()
            || self.queues().has_any((&self.shared, &self.participant.standing), follows)
    }

    /// Whether what is queued holds up a writer, or soon will.
    pub(super) fn holds_up(&self) -> bool {
        self.queues().hold_up()
    }

    /// How often queues, or those who fill them, have changed.
    pub(super) fn changes(&self) -> u64 {
        self.shared.changes.load(Ordering::Acquire)
    }

    /// The streams that may still bring samples.
    pub(super) fn sending(&self) -> Vec<StreamId> {
        let sending = self.shared.sending.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sending) = &*sending {
            return sending.to_vec();
        }
        let sources = self.shared.sources.lock().unwrap_or_else(PoisonError::into_inner);
        let live = sources.iter().filter(|source| !source.ended);
        live.flat_map(|source| source.writers.iter().copied()).collect()
    }

    /// Whether it reads along what is kept, which says by itself who sends no more.
    pub(super) fn reads_history(&self) -> bool {
        self.shared.reads_history.load(Ordering::Acquire)
    }

    /// What is taken may be written anew: this participant may have been stopped, and be no member any more.
    pub(super) fn is_evicted(&self) -> bool {
        self.participant.standing.is_evicted()
    }

    /// Whether the participant may come back after it has fallen out.
    pub(super) fn may_rejoin(&self) -> bool {
        self.participant.standing.may_rejoin()
    }

    /// What it has while it is at work here.
    #[inline(always)]
    fn at_work(&self) -> Option<&Started> {
        self.enabling.started().filter(|_| !self.enabling.lifecycle().is_inherited())
    }

    /// The next sample for the application, as whoever does not follow instances gets it. What is the rule, a record that lies in
    /// place, is in one piece with whoever takes it, and goes nowhere but where it is asked for: each time that a sample is moved from one
    /// place on the stack to another costs as much as a lock.
    #[inline(always)]
    pub(super) fn pop_told(&self) -> Option<Sample<T>> {
        // What is not the rule comes by a place of its own.
        let mut other = None;
        if self.at_work()?.is_kept || self.opened.has_next() {
            self.pop_any_told(&mut other);
            return other;
        }
        // Decoded without the lock, for that is a type's own code.
        let mut queues = self.queues();
        let (record, writer, life) = queues.take(&self.shared)?;
        let is_full = queues.lending.is_full(&record);
        drop(queues);
        if is_full || self.is_refused(record.bytes()) || !lies_in_place::<T>(record.bytes()) {
            self.unpack_told((record, writer, life), is_full, &mut other);
            return other;
        }
        // This process may have been stopped, and what it has read be written anew since.
        if self.participant.standing.is_evicted_from(life) {
            pass_over(record);
            self.discard();
            return None;
        }
        Some(Sample::in_place(record, writer.node))
    }

    /// The same, whatever comes: that one of several writers has no more to say of an instance tells nothing to who does not
    /// follow instances.
    #[inline(never)]
    fn pop_any_told(&self, found: &mut Option<Sample<T>>) {
        while let Some((sample, _)) = self.pop(Receiver::Application) {
            if sample.fate() != Fate::Unregistered {
                *found = Some(sample.fresh());
                return;
            }
        }
    }

    /// The same, if this is what was taken out of the queues.
    #[inline(never)]
    fn unpack_told(
        &self,
        taken: (Record, StreamId, Life),
        is_full: bool,
        found: &mut Option<Sample<T>>,
    ) {
        match self.unpack(taken, is_full) {
            Unpacked::Sample(sample, _) if sample.fate() != Fate::Unregistered => {
                *found = Some(sample.fresh());
            }
            Unpacked::Evicted => {}
            Unpacked::Sample(..) | Unpacked::Nothing => self.pop_any_told(found),
        }
    }

    /// The next sample, if there is one.
    #[inline(always)]
    pub(super) fn pop(&self, to: Receiver) -> Option<(Body<T>, StreamId)> {
        let started = self.at_work()?;
        if started.is_kept
            && let Some(kept) = self.pop_kept(started)
        {
            return kept;
        }
        loop {
            if let Some(next) = self.opened.next() {
                if is_out_of_date(&next.0, started.lifespan) {
                    continue;
                }
                return Some(next);
            }
            let mut queues = self.queues();
            let taken = queues.take(&self.shared)?;
            // Of a reader that lends nothing the cache has copies as well: a filter, a key and the data are of one copy.
            let is_full = self.max_held_percent == 0
                || matches!(to, Receiver::Application) && queues.lending.is_full(&taken.0);
            drop(queues);
            match self.unpack(taken, is_full) {
                Unpacked::Sample(sample, writer) => return Some((sample, writer)),
                Unpacked::Nothing => {}
                Unpacked::Evicted => return None,
            }
        }
    }

    /// What is in a record that was taken out of the queues. `is_full`: none of its writer's memory may be lent.
    #[inline(always)]
    fn unpack(
        &self,
        (record, writer, life): (Record, StreamId, Life),
        is_full: bool,
    ) -> Unpacked<T> {
        if self.is_refused(record.bytes()) {
            return Unpacked::Nothing;
        }
        // This process may have been stopped, and what it has read be written anew since.
        let is_evicted = || self.participant.standing.is_evicted_from(life);
        if set::is_apart(record.bytes()) {
            self.open(record.bytes(), (record.number(), writer), || !is_evicted());
            return Unpacked::Nothing;
        }
        let mut sample = Body::new(record, writer.node, &self.reading());
        if is_full {
            sample = sample.and_then(|sample| self.copy_out(sample));
        }
        if is_evicted() {
            self.discard();
            return Unpacked::Evicted;
        }
        match sample {
            Some(sample) => Unpacked::Sample(sample, writer),
            None => {
                self.note_unreadable();
                Unpacked::Nothing
            }
        }
    }

    /// Whether it is at work here, and what it gets comes by its queues alone.
    pub(super) fn is_volatile(&self) -> bool {
        let started = self.enabling.started().filter(|started| !started.is_kept);
        started.is_some() && !self.enabling.lifecycle().is_inherited()
    }

    /// The next sample of a topic that is kept; `None` if it comes by a queue, as others do.
    fn pop_kept(&self, started: &Started) -> Option<Option<(Body<T>, StreamId)>> {
        while started.remembers || self.shared.reads_history.load(Ordering::Acquire) {
            if let Some(next) = self.opened.next() {
                if is_out_of_date(&next.0, started.lifespan) {
                    continue;
                }
                return Some(Some(next));
            }
            let mut queues = self.queues();
            let (found, stream) = match queues.take_kept(&self.shared, &self.participant.standing) {
                Look::Kept(kept, stream) => {
                    drop(queues);
                    if self.is_refused(kept.bytes()) {
                        continue;
                    }
                    if set::is_apart(kept.bytes()) {
                        self.open(kept.bytes(), (kept.number(), stream), || true);
                        continue;
                    }
                    (Body::of_kept(kept, stream.node, &self.reading()), stream)
                }
                Look::NoneYet => {
                    drop(queues);
                    self.participant.engine.poke();
                    return Some(None);
                }
                Look::Over if !started.remembers => return None,
                Look::Over => {
                    let Some((record, stream, life)) = queues.take(&self.shared) else {
                        return Some(None);
                    };
                    let number = record.number();
                    let refused = self.is_refused(record.bytes());
                    let is_apart = set::is_apart(record.bytes());
                    let opened = is_apart.then(|| self.read_set(record.bytes(), number, stream));
                    let copied = || Body::copied(&record, stream.node, &self.reading());
                    let sample = (!is_apart).then(copied).flatten();
                    // If it cannot be given out now it comes again, as long as it is kept. Nobody takes the next
                    // one before that is decided. What is given out will not come again, so it has to stay whole.
                    if self.participant.standing.is_evicted_from(life) {
                        return Some(None);
                    }
                    queues.note(stream, number);
                    drop(queues);
                    if refused {
                        continue;
                    }
                    if let Some(opened) = opened {
                        self.keep_set(opened);
                        continue;
                    }
                    (sample, stream)
                }
            };
            match found {
                Some(sample) => return Some(Some((sample, stream))),
                None => self.note_unreadable(),
            }
        }
        None
    }

    /// What has to be known to read records.
    #[inline(always)]
    pub(super) fn reading(&self) -> Reading<'_, T> {
        Reading { support: self.topic.support(), layouts: &self.shared.layouts }
    }

    /// Whether a record is of a writer that this reader is not matched with: in the order of a topic there may be those of
    /// other versions of the type (I-173).
    #[inline(always)]
    pub(super) fn is_refused(&self, record: &[u8]) -> bool {
        T::extensibility(self.topic.support()) != Extensibility::Final
            && self.shared.refuses(mark_of(record))
    }

    /// The same sample, copied out if its data lie in its writer's memory.
    #[cold]
    pub(super) fn copy_out(&self, sample: Body<T>) -> Option<Body<T>> {
        if sample.is_lent() {
            self.copied.fetch_add(1, Ordering::Relaxed);
        }
        sample.into_own()
    }

    /// What was taken out of the queues is not given out.
    #[cold]
    pub(super) fn discard(&self) {
        self.queues().discarded += 1;
    }

    #[cold]
    pub(super) fn note_unreadable(&self) {
        self.unreadable.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(topic = self.topic.name(), "a sample of no known form");
    }
}

/// LIFESPAN: whether it is too late for a sample that was taken out of a coherent set.
pub(super) fn is_out_of_date<T: TopicData>(sample: &Body<T>, lifespan: u64) -> bool {
    is_over(sample.expiry(lifespan))
}
