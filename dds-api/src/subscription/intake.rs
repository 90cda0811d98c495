//! Core of a reader: its state, and the next sample out of its queues.
//!
//! ```text
//!   replay of kept records ──┐
//!   queues ──────────────────┴─take_record──> record ──unpack──> a sample, or those of a set
//! ```
//! Owns: the order in which kept and queued samples are given out, and which of them the reader
//! never gets. Never does: decode a sample under the queues' lock, or wait.

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
use super::queues::{NextRecord, QueuedRecord, Queues, TakenRecord, is_over, pass_over};
use super::reader_cache::ReaderCache;
use super::sample::{Sample, SampleBody};
use super::sets::PositionedSamples;
use super::states::ViewState;
use super::subscriber::Subscriber;
use super::unqueued::UnqueuedSamples;
use crate::domain::ParticipantInner;
use crate::domain::enabling::EnablingState;
use crate::infrastructure::listener::ListenerSlot;
use crate::infrastructure::this_thread::{ThreadGuard, ThreadLock};
use crate::infrastructure::{DataReaderListener, StatusCondition};
use crate::mapping::record::{RecordContext, is_plain, lies_in_place, mark_of};
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
    /// Samples that do not come through the queues.
    pub(super) unqueued: UnqueuedSamples<T>,
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

/// Receiver of a sample.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum TakenFor {
    /// The reader's cache.
    Cache,
    /// The application, from a reader that does not follow instances.
    Application,
}

/// Result of one step along a reader's sources.
pub(super) enum IntakeStep {
    /// The reader gets the samples of this record.
    Taken(RecordToUnpack),
    /// The reader does not get the record that came next.
    PassedOver,
    /// There is no record for the receiver now.
    Absent,
}

/// A record whose samples a reader gets.
pub(super) struct RecordToUnpack {
    record: TakenRecord,
    /// Whether none of the writer's memory may be lent.
    copies: bool,
    /// Whether the record is the first one that the application gets.
    is_first: bool,
}

impl RecordToUnpack {
    /// The stream that brought the record.
    #[inline(always)]
    pub(super) fn stream(&self) -> StreamId {
        self.record.stream()
    }
}

/// Contents of a record.
pub(super) enum RecordContents<T> {
    Sample(SampleBody<T>),
    /// The samples of a coherent set; none of a notice about a writer.
    Set(PositionedSamples<T>),
    /// No sample that the reader can read.
    Unreadable,
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
        self.unqueued.has_next()
            || self.queues().has_any(&self.shared, &self.participant.membership)
    }

    /// Whether samples wait in the queues of a reader that does not follow instances. `None` if it
    /// follows them, as it does from now on if something other than data comes next.
    pub(super) fn has_data(&self) -> Option<bool> {
        if self.cache.get().is_some() {
            return None;
        }
        let mut queues = self.queues();
        let has_any =
            self.unqueued.has_next() || queues.has_any(&self.shared, &self.participant.membership);
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
    /// follows instances from now on. If there is none, the result is that of `otherwise`.
    ///
    /// The common case, a record that is read in place, is inlined into the caller, and the sample
    /// is written only to its destination: moving a sample from one place on the stack to another
    /// costs as much as a lock. Everything else is left to [`pop_any`](Self::pop_any).
    #[inline(always)]
    pub(super) fn pop_sample<R>(
        &self,
        view: ViewState,
        rank: usize,
        form: impl Fn(Sample<T>) -> R,
        otherwise: impl FnOnce() -> Option<R>,
    ) -> Option<R> {
        if is_plain::<T>() && self.all_are_queued() {
            // Only the queues behind the guard are passed on: the guard stays in registers.
            let mut queues = self.queues();
            let Some(taken) = queues.take(&self.shared) else {
                drop(queues);
                return otherwise();
            };
            let QueuedRecord { record, stream, life } = taken;
            let is_common = !queues.lending.is_full(&record)
                && queues.is_straight()
                && !self.is_refused(record.bytes())
                && lies_in_place::<T>(record.bytes());
            if is_common {
                drop(queues);
                // This process may have been stopped, and the memory that it has read may have
                // been overwritten.
                if self.participant.membership.is_evicted_from(life) {
                    pass_over(record);
                    self.discard();
                    return otherwise();
                }
                return Some(form(Sample::in_place(record, stream.node, view, rank)));
            }
            queues.put_back(QueuedRecord { record, stream, life });
        }
        // The sample is returned through a variable, because a call that returns it in registers
        // and memory would move it twice.
        let mut found = None;
        self.pop_any(view, rank, &mut found);
        found.map_or_else(otherwise, |sample| Some(form(sample)))
    }

    /// The next sample for the application, whatever record it is in.
    #[inline(never)]
    fn pop_any(&self, view: ViewState, rank: usize, found: &mut Option<Sample<T>>) {
        loop {
            let record = match self.take_record(TakenFor::Application) {
                IntakeStep::Taken(record) => record,
                IntakeStep::PassedOver => continue,
                IntakeStep::Absent => return,
            };
            let view = if record.is_first { ViewState::New } else { view };
            match self.unpack(record) {
                RecordContents::Sample(sample) => {
                    *found = Some(sample.into_next(view, rank));
                    return;
                }
                // The application gets no sets from here, see `Queues::end_before`.
                RecordContents::Set(_) | RecordContents::Unreadable => {}
                RecordContents::Evicted => return,
            }
        }
    }

    /// The contents of the next record for the cache that has any, with its stream.
    #[inline(always)]
    pub(super) fn pop(&self) -> Option<(RecordContents<T>, StreamId)> {
        loop {
            if let Some((sample, stream)) = self.unqueued.next() {
                return Some((RecordContents::Sample(sample), stream));
            }
            let record = match self.take_record(TakenFor::Cache) {
                IntakeStep::Taken(record) => record,
                IntakeStep::PassedOver => continue,
                IntakeStep::Absent => return None,
            };
            let stream = record.stream();
            match self.unpack(record) {
                RecordContents::Unreadable => {}
                RecordContents::Set(samples) if samples.is_empty() => {}
                RecordContents::Evicted => return None,
                contents => return Some((contents, stream)),
            }
        }
    }

    /// Takes the next record out of the reader's sources, and decides whether the reader gets it.
    /// For the application there is none if something other than data comes next, or a writer of
    /// earlier samples has ended: the reader follows instances from now on.
    ///
    /// The lock of the queues is held until this is decided, so that no thread takes a later record
    /// before. The record is unpacked without the lock, because decoding runs code of the type.
    #[inline]
    pub(super) fn take_record(&self, taken_for: TakenFor) -> IntakeStep {
        let Some(started) = self.enabled() else { return IntakeStep::Absent };
        let membership = &self.participant.membership;
        let is_direct = taken_for == TakenFor::Application;
        let mut queues = self.queues();
        if is_direct && queues.follows() {
            return IntakeStep::Absent;
        }
        let mut record = match queues.next_record(&self.shared, membership) {
            NextRecord::Found(record) => record,
            NextRecord::Absent => return IntakeStep::Absent,
            NextRecord::NotShown => {
                drop(queues);
                self.participant.engine.poke();
                return IntakeStep::Absent;
            }
        };
        let is_refused = self.is_refused(record.bytes());
        if is_direct && !is_refused && queues.end_before(record.bytes()) {
            queues.leave_to_cache(record);
            return IntakeStep::Absent;
        }
        let copies = match &record {
            TakenRecord::Queued(_) if !is_direct => self.max_held_percent == 0,
            TakenRecord::Queued(queued) => queues.lending.is_full(&queued.record),
            _ => false,
        };
        if started.remembers {
            // A record that is given out does not come again, so its sample must remain whole. A
            // record that cannot be given out now comes again while it is kept.
            let lent_in = record.lent_in();
            record = record.into_copy();
            if lent_in.is_some_and(|life| membership.is_evicted_from(life)) {
                return IntakeStep::Absent;
            }
        }
        queues.note(record.stream(), record.number());
        if is_refused {
            queues.forget_author_of(record.bytes(), record.stream());
            return IntakeStep::PassedOver;
        }
        if is_direct && record.lent_in().is_some() {
            queues.go_straight();
        }
        let is_first = is_direct && !self.has_given.swap(true, Ordering::Relaxed);
        IntakeStep::Taken(RecordToUnpack { record, copies, is_first })
    }

    /// The contents of a record.
    #[inline(always)]
    pub(super) fn unpack(&self, taken: RecordToUnpack) -> RecordContents<T> {
        let RecordToUnpack { record, copies, .. } = taken;
        let lent_in = record.lent_in();
        let contents = if set::is_apart(record.bytes()) {
            self.unpack_set(&record)
        } else {
            let sample = SampleBody::of(record, &self.reading());
            let sample = if copies { sample.and_then(|it| self.copy_out(it)) } else { sample };
            sample.map_or(RecordContents::Unreadable, RecordContents::Sample)
        };
        // This process may have been stopped, and the memory that it has read may have been
        // overwritten.
        if lent_in.is_some_and(|life| self.participant.membership.is_evicted_from(life)) {
            self.discard();
            return RecordContents::Evicted;
        }
        if matches!(contents, RecordContents::Unreadable) {
            self.note_unreadable();
        }
        contents
    }

    /// Whether the reader is enabled in this process, and all its samples come through its queues
    /// from now on.
    #[inline(always)]
    pub(super) fn all_are_queued(&self) -> bool {
        let comes_again = |started: &EnabledReader| started.remembers || self.reads_history();
        self.enabled().is_some_and(|started| !started.is_kept || !comes_again(started))
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
