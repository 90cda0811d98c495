//! Core of a reader: its state, and the next sample out of its queues.
//!
//! Owns: the order in which coherent sets, kept samples and queued samples are given out, and which
//! of them the reader never gets. Never does: decode a sample under the queues' lock, or wait.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use derecho_core::group::report::StreamId;
use idl_cdr::Extensibility;
use idl_xtypes::TopicData;

use super::authors::SampleAuthors;
use super::cache::CacheSettings;
use super::data_available::DataAvailable;
use super::departures::WriterDepartures;
use super::enabling::{EnabledReader, ReaderDraft};
use super::joined::JoinedReaders;
use super::queues::{QueuedRecord, Queues, TakenFor, is_over, pass_over};
use super::reader_cache::ReaderCache;
use super::sample::{Sample, SampleBody};
use super::sets::OpenedSets;
use super::states::ViewState;
use super::subscriber::Subscriber;
use crate::domain::ParticipantInner;
use crate::domain::enabling::EnablingState;
use crate::infrastructure::listener::ListenerSlot;
use crate::infrastructure::this_thread::{ThreadGuard, ThreadLock};
use crate::infrastructure::{DataReaderListener, StatusCondition};
use crate::mapping::kept_replay::ReplayStep;
use crate::mapping::record::{RecordContext, lies_in_place, mark_of};
use crate::mapping::set;
use crate::mapping::shares::ReaderShared;
use crate::topic::{SharedFilter, Topic};

/// State of a reader, shared with the cache filler, the thread that fills the cache while the
/// application does not read.
#[doc(hidden)]
pub struct ReaderCore<T: TopicData> {
    pub(super) participant: Arc<ParticipantInner>,
    pub(super) topic: Topic<T>,
    pub(super) shared: Arc<ReaderShared>,
    pub(super) queues: ThreadLock<Queues>,
    /// Streams and writers that have ended, as of the record taken last.
    pub(super) departures: Arc<WriterDepartures>,
    /// Readers of the joined topics, if the topic is a multi-topic.
    pub(super) joined_readers: OnceLock<JoinedReaders>,
    /// Samples of a coherent set that was taken out of the queues, which have not all been given
    /// out yet.
    pub(super) opened_sets: OpenedSets<T>,
    pub(super) unreadable: AtomicU64,
    /// Maximum percentage of a writer's memory that samples given out may hold.
    pub(super) max_held_percent: u8,
    /// Number of samples that were copied because the limit was reached.
    pub(super) copied: AtomicU64,
    /// Whether the reader is enabled, and its state since then.
    pub(super) enabling: EnablingState<ReaderDraft>,
    /// Settings for the cache.
    pub(super) settings: Mutex<CacheSettings>,
    /// The cache, from the first request on that requires one.
    pub(super) cache: OnceLock<Mutex<ReaderCache<T>>>,
    /// Filter of the topic that samples must pass.
    pub(super) filter: Option<Arc<SharedFilter>>,
    /// The subscriber of the reader, unless the reader belongs directly to the participant.
    pub(super) subscriber: Option<Subscriber>,
    pub(super) status_condition: OnceLock<StatusCondition>,
    /// Number of times that the cache was filled while the application did not read.
    pub(super) fill_count: AtomicU64,
    /// Number of threads that wait for something in the cache.
    pub(super) waiting: AtomicU32,
    pub(super) listener: ListenerSlot<dyn DataReaderListener<T>>,
    /// Whether a sample was given to the application.
    pub(super) has_given: AtomicBool,
    /// DATA_AVAILABLE.
    pub(super) data_available: DataAvailable,
    /// Number of samples that had come when a listener was last called for data.
    pub(super) notified_arrivals: AtomicU64,
}

/// Decision about a record that was taken, in the uncommon cases.
enum Apart {
    /// The application gets its sample; whether that is the first one of the instance.
    Given(QueuedRecord, bool),
    /// The reader does not get it.
    PassedOver,
    /// The record stays in the queues for the cache: the reader follows instances.
    PutBack,
}

/// Contents of a record.
enum Unpacked<T> {
    Sample(SampleBody<T>, StreamId),
    /// No sample, or several, which are given next.
    Nothing,
    /// The record may have been overwritten in the meantime: nothing more is given for now.
    Evicted,
}

impl<T: TopicData> ReaderCore<T> {
    /// The settings for the cache.
    pub(super) fn settings(&self) -> CacheSettings {
        *self.settings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The queues, after an update if they have changed.
    #[inline(always)]
    pub(super) fn queues(&self) -> ThreadGuard<'_, Queues> {
        let mut queues = self.queues.lock();
        let changes = self.shared.changes.load(Ordering::Acquire);
        if changes != queues.seen && queues.renew(&self.shared, changes) {
            self.has_given.store(false, Ordering::Relaxed);
        }
        queues
    }

    /// Whether a record waits in the queues.
    #[inline]
    pub(super) fn has_queued(&self) -> bool {
        if let Some(joined_readers) = self.joined_readers.get() {
            self.join_changes(joined_readers);
        }
        self.opened_sets.has_next()
            || self.queues().has_any(&self.shared, &self.participant.membership)
    }

    /// Whether samples wait in the queues of a reader that does not follow instances. `None` if it
    /// follows them, as it does from now on if something other than data comes next.
    pub(super) fn has_data(&self) -> Option<bool> {
        if self.cache.get().is_some() {
            return None;
        }
        let mut queues = self.queues();
        let has_any = self.opened_sets.has_next()
            || queues.has_any(&self.shared, &self.participant.membership);
        let is_end = queues.follows()
            || has_any && queues.others_come_next()
            || !queues.is_straight() && queues.has_lost_author();
        let is_unchecked = queues.is_unchecked();
        drop(queues);
        if is_end || is_unchecked && self.must_follow(has_any) {
            drop(self.cache_as_is());
            return None;
        }
        Some(has_any)
    }

    /// Whether policies have changed so that the reader needs its cache, or an author of samples
    /// given out sends nothing more or is ignored from now on. While samples wait, the author's may
    /// be among them. A participant that is out begins anew when it is back.
    #[cold]
    fn must_follow(&self, has_any: bool) -> bool {
        // The cache takes them up, because it may be made by another thread at the same time.
        let settings = self.shared.new_policies().and_then(|policies| self.changed_to(&policies));
        if settings.is_some_and(|settings| !settings.keep_all_as_they_come()) {
            return true;
        }
        let is_out = self.participant.membership.is_out();
        if has_any || is_out || !self.has_given.load(Ordering::Relaxed) || self.reads_history() {
            return false;
        }
        let (changes, sending) = (self.queues().seen, self.sending());
        let mut queues = self.queues();
        let is_lost = |authors: &SampleAuthors| {
            authors.any_stream(|stream| !sending.contains(&stream)) || self.shared.ignores_writers()
        };
        let is_lost = queues.authors().is_some_and(is_lost);
        queues.note_checked(changes);
        is_lost
    }

    /// Whether the queued records hold up a writer, or soon will.
    pub(super) fn holds_up(&self) -> bool {
        self.queues().hold_up()
    }

    /// Number of changes of the queues, or of the streams that fill them.
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

    /// Whether the reader reads kept samples. Their replay reports by itself which streams have
    /// ended.
    pub(super) fn reads_history(&self) -> bool {
        self.shared.reads_history.load(Ordering::Acquire)
    }

    /// Whether taken records may be overwritten: this participant may have been stopped, and be no
    /// member any more.
    pub(super) fn is_evicted(&self) -> bool {
        self.participant.membership.is_evicted()
    }

    /// Whether the participant may rejoin after its membership has ended.
    pub(super) fn may_rejoin(&self) -> bool {
        self.participant.membership.may_rejoin()
    }

    /// The reader's state since it was enabled; `None` in a process forked after that.
    #[inline(always)]
    fn enabled(&self) -> Option<&EnabledReader> {
        self.enabling.started().filter(|_| !self.enabling.lifecycle().is_inherited())
    }

    /// View of the only instance of a type without a key, for a reader that does not follow
    /// instances.
    #[inline(always)]
    pub(super) fn view(&self) -> ViewState {
        match self.has_given.load(Ordering::Relaxed) {
            true => ViewState::NotNew,
            false => ViewState::New,
        }
    }

    /// The next sample for the application, for a reader that does not follow instances, with this
    /// view of the instance and this rank, as `form` makes it. It has data. If something other than
    /// data comes next, or a writer of earlier samples has ended, there is none, and the reader
    /// follows instances from now on. The common case, a record that is read in place, is inlined
    /// into the caller, and the sample is written only to its destination: moving a sample from one
    /// place on the stack to another costs as much as a lock. If there is none, the result is that
    /// of `otherwise`.
    #[inline(always)]
    pub(super) fn pop_sample<R>(
        &self,
        view: ViewState,
        rank: usize,
        form: impl Fn(Sample<T>) -> R,
        otherwise: impl FnOnce() -> Option<R>,
    ) -> Option<R> {
        // Uncommon cases return their sample through this variable.
        let mut other = None;
        let started = self.enabled()?;
        if started.is_kept
            && (started.remembers || self.reads_history())
            && self.pop_kept_sample(started, view, rank, &mut other)
        {
            return other.map_or_else(otherwise, |sample| Some(form(sample)));
        }
        loop {
            // Decoding happens without the lock, because it runs code of the type. Only the queues
            // behind the guard are passed on: the guard stays in registers.
            let mut queues = self.queues();
            let Some(taken) = queues.take(&self.shared) else { break };
            let QueuedRecord { record, stream, life } = taken;
            let is_full = queues.lending.is_full(&record);
            let is_apart = is_full || !queues.is_straight();
            if is_apart || self.is_refused(record.bytes()) || !lies_in_place::<T>(record.bytes()) {
                let verdict = self.judge_apart(&mut queues, QueuedRecord { record, stream, life });
                drop(queues);
                let goes_on = match verdict {
                    Apart::Given(taken, is_first) => {
                        let view = if is_first { ViewState::New } else { view };
                        self.unpack_apart(taken, is_full, view, rank, &mut other)
                    }
                    Apart::PassedOver => true,
                    Apart::PutBack => false,
                };
                if goes_on {
                    continue;
                }
                break;
            }
            drop(queues);
            // This process may have been stopped, and the memory that it has read may have
            // been overwritten.
            if self.participant.membership.is_evicted_from(life) {
                pass_over(record);
                self.discard();
                break;
            }
            return Some(form(Sample::in_place(record, stream.node, view, rank)));
        }
        other.map_or_else(otherwise, |sample| Some(form(sample)))
    }

    /// The next sample of a topic that keeps samples, while those come that were written before or
    /// come again. Returns `false` if samples now come through a queue, as on other topics.
    #[inline(never)]
    fn pop_kept_sample(
        &self,
        started: &EnabledReader,
        view: ViewState,
        rank: usize,
        found: &mut Option<Sample<T>>,
    ) -> bool {
        // An update of the queues may begin a new life of the participant.
        drop(self.queues());
        let view = if self.has_given.load(Ordering::Relaxed) { view } else { ViewState::New };
        match self.pop_kept(started, TakenFor::Application) {
            Some(next) => *found = next.map(|(sample, _)| sample.into_next(view, rank)),
            None => return false,
        }
        true
    }

    /// Decides, in the uncommon cases, what becomes of a record that was taken. The lock of the
    /// queues is held meanwhile, so that no thread takes a later record before.
    #[inline(never)]
    fn judge_apart(&self, queues: &mut Queues, taken: QueuedRecord) -> Apart {
        let bytes = taken.record.bytes();
        if queues.follows() {
            queues.put_back(taken);
            return Apart::PutBack;
        }
        if self.is_refused(bytes) {
            queues.forget_author_of(bytes, taken.stream);
            return Apart::PassedOver;
        }
        if queues.end_before(bytes) {
            queues.leave_to_cache(taken);
            return Apart::PutBack;
        }
        queues.go_straight();
        Apart::Given(taken, self.note_given(TakenFor::Application))
    }

    /// Unpacks the record of a sample that the application gets, in the uncommon cases. Returns
    /// whether the next record must be taken instead.
    #[inline(never)]
    fn unpack_apart(
        &self,
        taken: QueuedRecord,
        is_full: bool,
        view: ViewState,
        rank: usize,
        found: &mut Option<Sample<T>>,
    ) -> bool {
        match self.unpack(taken, is_full) {
            Unpacked::Sample(sample, _) => {
                *found = Some(sample.into_next(view, rank));
                false
            }
            Unpacked::Nothing => true,
            Unpacked::Evicted => false,
        }
    }

    /// The next sample for the cache, if there is one.
    #[inline(always)]
    pub(super) fn pop(&self) -> Option<(SampleBody<T>, StreamId)> {
        let started = self.enabled()?;
        if started.is_kept
            && let Some(kept) = self.pop_kept(started, TakenFor::Cache)
        {
            return kept;
        }
        loop {
            if let Some(next) = self.opened_sets.next() {
                if is_out_of_date(&next.0, started.lifespan) {
                    continue;
                }
                return Some(next);
            }
            let taken = self.queues().take_oldest(&self.shared)?;
            // If the reader lends nothing, the cache also gets copies, so that filter, key and data
            // come from the same copy.
            let is_full = self.max_held_percent == 0;
            match self.unpack(taken, is_full) {
                Unpacked::Sample(sample, writer) => return Some((sample, writer)),
                Unpacked::Nothing => {}
                Unpacked::Evicted => return None,
            }
        }
    }

    /// The contents of a record that was taken out of the queues. With `is_full` none of the
    /// writer's memory may be lent.
    #[inline(always)]
    fn unpack(&self, taken: QueuedRecord, is_full: bool) -> Unpacked<T> {
        let QueuedRecord { record, stream, life } = taken;
        if self.is_refused(record.bytes()) {
            return Unpacked::Nothing;
        }
        // This process may have been stopped, and the memory that it has read may have
        // been overwritten.
        let is_evicted = || self.participant.membership.is_evicted_from(life);
        if set::is_apart(record.bytes()) {
            self.open(record.bytes(), record.number(), stream, || !is_evicted());
            return Unpacked::Nothing;
        }
        let mut sample = SampleBody::new(record, stream.node, &self.reading());
        if is_full {
            sample = sample.and_then(|sample| self.copy_out(sample));
        }
        if is_evicted() {
            self.discard();
            return Unpacked::Evicted;
        }
        match sample {
            Some(sample) => Unpacked::Sample(sample, stream),
            None => {
                self.note_unreadable();
                Unpacked::Nothing
            }
        }
    }

    /// Whether the reader is enabled in this process, and all its samples come through its queues
    /// from now on.
    pub(super) fn all_are_queued(&self) -> bool {
        let comes_again = |started: &EnabledReader| started.remembers || self.reads_history();
        self.enabled().is_some_and(|started| !started.is_kept || !comes_again(started))
    }

    /// The next sample of a topic that keeps samples; `None` if samples now come through a queue,
    /// as on other topics. For the application there is none if something other than data comes
    /// next, or a writer of earlier samples has ended; the reader follows instances from now on.
    fn pop_kept(
        &self,
        started: &EnabledReader,
        taken_for: TakenFor,
    ) -> Option<Option<(SampleBody<T>, StreamId)>> {
        let is_direct = taken_for == TakenFor::Application;
        while started.remembers || self.shared.reads_history.load(Ordering::Acquire) {
            // Only the cache opens sets, and another thread may be filling it.
            if !is_direct && let Some(next) = self.opened_sets.next() {
                if is_out_of_date(&next.0, started.lifespan) {
                    continue;
                }
                return Some(Some(next));
            }
            let mut queues = self.queues();
            if is_direct && queues.follows() {
                return Some(None);
            }
            let membership = &self.participant.membership;
            let (found, stream) = match queues.take_kept(&self.shared, membership, taken_for) {
                ReplayStep::Kept(kept, stream) => {
                    if self.is_refused(kept.bytes()) {
                        queues.forget_author_of(kept.bytes(), stream);
                        continue;
                    }
                    self.note_given(taken_for);
                    drop(queues);
                    if set::is_apart(kept.bytes()) {
                        self.open(kept.bytes(), kept.number(), stream, || true);
                        continue;
                    }
                    (SampleBody::of_kept(kept, stream.node, &self.reading()), stream)
                }
                ReplayStep::NoneYet => {
                    drop(queues);
                    self.participant.engine.poke();
                    return Some(None);
                }
                ReplayStep::Over if !started.remembers => return None,
                ReplayStep::Over => {
                    let Some(taken) = queues.take(&self.shared) else { return Some(None) };
                    let QueuedRecord { record, stream, life } = taken;
                    let number = record.number();
                    let refused = self.is_refused(record.bytes());
                    if is_direct && !refused && queues.end_before(record.bytes()) {
                        queues.leave_to_cache(QueuedRecord { record, stream, life });
                        return Some(None);
                    }
                    let is_apart = set::is_apart(record.bytes());
                    let opened = is_apart.then(|| self.read_set(record.bytes(), number, stream));
                    let copied = || SampleBody::copied(&record, stream.node, &self.reading());
                    let sample = (!is_apart).then(copied).flatten();
                    // A record that cannot be given out now comes again while it is kept. The lock
                    // stays held until this is decided, so that no thread takes the next record
                    // before. A record that is given out does not come again, so the sample must
                    // remain whole.
                    if self.participant.membership.is_evicted_from(life) {
                        return Some(None);
                    }
                    queues.note(stream, number);
                    if refused {
                        queues.forget_author_of(record.bytes(), stream);
                        continue;
                    }
                    self.note_given(taken_for);
                    drop(queues);
                    if let Some(opened) = opened {
                        self.keep_set(opened, stream);
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

    /// Notes that the application gets a sample. Returns whether that is the first one.
    fn note_given(&self, taken_for: TakenFor) -> bool {
        taken_for == TakenFor::Application && !self.has_given.swap(true, Ordering::Relaxed)
    }

    /// The type information that is needed to read records.
    #[inline(always)]
    pub(super) fn reading(&self) -> RecordContext<'_, T> {
        RecordContext { support: self.topic.support(), layouts: &self.shared.layouts }
    }

    /// Whether a record is of a writer that this reader is not matched with: the order of a topic
    /// may hold records of other versions of the type (I-173).
    #[inline(always)]
    pub(super) fn is_refused(&self, record: &[u8]) -> bool {
        T::extensibility(self.topic.support()) != Extensibility::Final
            && self.shared.refuses(mark_of(record))
    }

    /// Copies the data of a sample out of its writer's memory, if they lie there.
    #[cold]
    pub(super) fn copy_out(&self, sample: SampleBody<T>) -> Option<SampleBody<T>> {
        if sample.is_lent() {
            self.copied.fetch_add(1, Ordering::Relaxed);
        }
        sample.into_own()
    }

    /// Counts a sample that was taken out of the queues and is not given out.
    #[cold]
    pub(super) fn discard(&self) {
        self.queues().discarded += 1;
    }

    #[cold]
    pub(super) fn note_unreadable(&self) {
        self.unreadable.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(topic = self.topic.name(), "sample of unknown format discarded");
    }
}

/// LIFESPAN: whether a sample that was taken out of a coherent set has expired.
pub(super) fn is_out_of_date<T: TopicData>(sample: &SampleBody<T>, lifespan: u64) -> bool {
    is_over(sample.expiry(lifespan))
}
