//! Replay of kept samples by a reader, before the reader gets its own queue.
//!
//! Owns: the position of the replay, the visible versions, and the samples already given out. Never
//! does: hold its lock while the application looks at a sample.
//!
//! ```text
//!   machine    shows the delivered part of the store; when the reader has read it all, or is too
//!              far behind, the reader gets a queue for all later samples
//!   reader     replays the shown samples, then continues with its queue
//! ```
//! A late-joining reader thus blocks no writer while it reads the kept samples (I-103), and
//! receives every sample that arrives meanwhile.
//!
//! A participant that [rejoins](crate::domain::ParticipantConfig::rejoin) receives the kept samples
//! from other members again, and its readers replay them. Samples that were given out in an earlier
//! life are recognised by stream and number, which are equal in all stores, and skipped.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use derecho_core::group::report::StreamId;
use derecho_core::ids::{NodeId, RegionId};
use derecho_core::storage::cursor::{StoreCursor, StoredRecord};
use derecho_core::storage::store::{RecordFormat, Store};

use super::membership_state::Life;
use super::record;
use super::set;
use super::shares::ReaderShared;

/// Functions by which a store interprets records.
pub(crate) const RECORD_FORMAT: RecordFormat = RecordFormat {
    key: record::key_of,
    time: record::time_of,
    all_keys: set::keys_in_set,
    liveness: set::key_livenesses,
    companion: record::unregister_key,
};

/// Maximum number of samples that may be delivered during a replay. Beyond that the reader gets its
/// queue, and blocks its writers like any reader that does not take.
const MOST_BEHIND: u64 = 1 << 20;

/// A sender that has already gone.
pub(crate) const GONE_SENDER: StreamId = StreamId { node: NodeId(0), region: RegionId(0) };

/// Samples that a reader of a rejoining participant has given out or does not want: those of each
/// stream before this number.
#[derive(Default)]
pub(crate) struct DeliveredNumbers(BTreeMap<StreamId, u64>);

impl DeliveredNumbers {
    /// Notes that a sample was given out.
    pub(crate) fn note(&mut self, stream: StreamId, number: u64) {
        self.pass(stream, number + 1);
    }

    /// Notes that samples before this number are not wanted.
    pub(crate) fn pass(&mut self, stream: StreamId, next: u64) {
        let known = self.0.entry(stream).or_default();
        *known = next.max(*known);
    }

    fn has(&self, stream: StreamId, number: u64) -> bool {
        self.0.get(&stream).is_some_and(|next| number < *next)
    }
}

/// State that a replaying reader shares with the machine.
pub(crate) struct KeptReplay {
    /// Life of the participant in which the samples are kept.
    pub(crate) life: Life,
    state: Mutex<ReplayState>,
    /// One past the last visible version.
    shown: AtomicU64,
    /// Whether nothing more will be shown.
    ended: AtomicBool,
    /// Whether the reader has seen everything that was shown.
    caught_up: AtomicBool,
}

struct ReplayState {
    cursor: StoreCursor,
    /// A sample that was found and not taken yet.
    next: Option<StoredRecord>,
    /// Streams by the store's stream numbers.
    streams: Vec<StreamId>,
    /// Ended streams and the versions from which they have ended, in the order of versions.
    over: Vec<(u64, StreamId)>,
    /// Number of ended streams that the reader has passed.
    passed: usize,
}

/// Result of a check of the kept samples.
pub(crate) enum ReplayStep {
    /// The next sample, and its stream.
    Kept(StoredRecord, StreamId),
    /// There is no sample now.
    NoneYet,
    /// All kept samples have been read. Later samples come by a queue.
    Over,
}

impl ReplayState {
    fn find(&mut self, shown: u64, given: Option<&DeliveredNumbers>) -> bool {
        while self.next.is_none() && self.cursor.position() < shown {
            let Some(next) = self.cursor.next() else { break };
            let is_given =
                |given: &DeliveredNumbers| given.has(self.stream_of(&next), next.number());
            if !given.is_some_and(is_given) {
                self.next = Some(next);
            }
        }
        self.next.as_ref().is_some_and(|next| next.position() < shown)
    }

    /// Streams that had ended by this version and were not reported before.
    fn pass(&mut self, version: u64) -> impl Iterator<Item = StreamId> + '_ {
        let before = self.passed;
        self.passed = self.over.partition_point(|(over, _)| *over <= version).max(before);
        self.over[before..self.passed].iter().map(|(_, stream)| *stream)
    }

    fn stream_of(&self, kept: &StoredRecord) -> StreamId {
        self.streams.get(kept.stream() as usize).copied().unwrap_or(GONE_SENDER)
    }
}

impl KeptReplay {
    fn lock(&self) -> std::sync::MutexGuard<'_, ReplayState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the next kept sample that was not given out before. Reports the streams that had ended
    /// before it.
    pub(crate) fn take(
        &self,
        given: Option<&DeliveredNumbers>,
        over: impl FnOnce(Vec<StreamId>),
    ) -> ReplayStep {
        let mut state = self.lock();
        // Loaded first: versions shown before the end was set are all that will ever be shown.
        let ended = self.ended.load(Ordering::Acquire);
        let shown = self.shown.load(Ordering::Acquire);
        let next = if state.find(shown, given) { state.next.take() } else { None };
        let come_to = next.as_ref().map_or(shown, StoredRecord::position);
        if state.over.get(state.passed).is_some_and(|(version, _)| *version <= come_to) {
            over(state.pass(come_to).collect());
        }
        if let Some(kept) = next {
            let stream = state.stream_of(&kept);
            return ReplayStep::Kept(kept, stream);
        }
        if ended {
            return ReplayStep::Over;
        }
        self.caught_up.store(true, Ordering::Release);
        ReplayStep::NoneYet
    }

    /// Lower bound of the version of the next sample.
    pub(crate) fn position(&self) -> u64 {
        let state = self.lock();
        state.next.as_ref().map_or(state.cursor.position(), StoredRecord::position)
    }

    /// Whether there is a next sample.
    pub(crate) fn has_next(&self, given: Option<&DeliveredNumbers>) -> bool {
        self.lock().find(self.shown.load(Ordering::Acquire), given)
    }

    /// Whether everything has been read.
    pub(crate) fn is_over(&self, given: Option<&DeliveredNumbers>) -> bool {
        // Loaded first: versions shown before the end was set are all that will ever be shown.
        let ended = self.ended.load(Ordering::Acquire);
        ended && !self.has_next(given)
    }

    /// Upper bound of the number of remaining samples.
    pub(crate) fn len(&self) -> usize {
        let state = self.lock();
        let waits = u64::from(state.next.is_some());
        let shown = self.shown.load(Ordering::Acquire);
        (waits + shown.saturating_sub(state.cursor.position())) as usize
    }
}

/// The machine's side of a replay.
pub(super) struct ReplayControl {
    history: Arc<KeptReplay>,
    /// The version at which the reader began.
    from: u64,
    /// Number of ended streams shown to the reader.
    over: usize,
}

impl ReplayControl {
    /// Begins a replay of the samples that were kept when the reader first joined, if it wants
    /// those, and of all later samples; up to the version `until` at first.
    pub(super) fn begin(
        mut cursor: StoreCursor,
        store: &Store,
        until: u64,
        shared: &ReaderShared,
        wants_history: bool,
    ) -> ReplayControl {
        let from = until.min(store.version());
        let mut floor = shared.floor.lock().unwrap_or_else(PoisonError::into_inner);
        if floor.is_none() {
            let unwanted = (!wants_history).then(|| {
                cursor.skip_to(store.version());
                store.numbers().collect()
            });
            *floor = Some(unwanted.unwrap_or_default());
        }
        drop(floor);
        let (streams, over) = (store.streams().to_vec(), store.ended_streams().to_vec());
        // A reader that has nothing to replay gets its queue at once.
        let caught_up = AtomicBool::new(cursor.position() >= from || store.is_empty());
        let history = Arc::new(KeptReplay {
            life: *shared.life.lock().unwrap_or_else(PoisonError::into_inner),
            state: Mutex::new(ReplayState { cursor, next: None, streams, over, passed: 0 }),
            shown: AtomicU64::new(from),
            ended: AtomicBool::new(false),
            caught_up,
        });
        *shared.history.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&history));
        // The floor is known before anything is read.
        shared.changes.fetch_add(1, Ordering::Release);
        shared.reads_history.store(true, Ordering::Release);
        shared.knows_history.store(true, Ordering::Release);
        ReplayControl { history, from, over: store.ended_streams().len() }
    }

    /// Shows samples delivered meanwhile up to the version `until`, and their senders. Returns 1 if
    /// there was anything new.
    pub(super) fn show(&mut self, store: &Store, until: u64, shared: &ReaderShared) -> usize {
        let (history, until) = (&*self.history, until.min(store.version()));
        let over = store.ended_streams();
        if history.shown.load(Ordering::Relaxed) >= until && self.over == over.len() {
            return 0;
        }
        let mut state = history.lock();
        let met = store.streams().get(state.streams.len()..);
        let (Some(met), Some(ended)) = (met, over.get(state.over.len()..)) else {
            // A participant that is out of its group has an empty store.
            return 0;
        };
        state.streams.extend_from_slice(met);
        state.over.extend_from_slice(ended);
        let is_over = state.over.get(state.passed).is_some_and(|(version, _)| *version <= until);
        drop(state);
        self.over = over.len();
        history.shown.store(until, Ordering::Release);
        if is_over {
            // The reader must notice the end of a writer even if there is no sample to take.
            shared.changes.fetch_add(1, Ordering::Release);
        }
        1
    }

    /// Whether the reader must get its queue.
    pub(super) fn is_over(&self) -> bool {
        let shown = self.history.shown.load(Ordering::Relaxed);
        self.history.caught_up.load(Ordering::Acquire) || shown - self.from > MOST_BEHIND
    }

    /// Ends the replay at the store's current version.
    pub(super) fn end(&mut self, store: &Store, shared: &ReaderShared) {
        self.show(store, u64::MAX, shared);
        self.history.ended.store(true, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use derecho_core::storage::store::StoreRetention;

    use super::*;

    const ONE: StreamId = StreamId { node: NodeId(1), region: RegionId(7) };
    const TWO: StreamId = StreamId { node: NodeId(2), region: RegionId(7) };

    /// A store to which the streams were added in this order.
    fn store(streams: [StreamId; 2], records: &[(StreamId, u64)]) -> Store {
        let mut store = Store::new(StoreRetention::default(), RECORD_FORMAT);
        for stream in streams {
            store.stream(stream);
        }
        for &(stream, number) in records {
            let index = store.stream(stream);
            store.append(index, number, &[0; 16]);
        }
        store
    }

    fn read(shared: &ReaderShared, given: &mut DeliveredNumbers) -> Vec<(StreamId, u64)> {
        let history = shared.history.lock().unwrap_or_else(PoisonError::into_inner);
        let history = history.as_ref().expect("history has begun");
        let mut read = Vec::new();
        while history.has_next(Some(given)) {
            let ReplayStep::Kept(kept, stream) = history.take(Some(given), |_| {}) else { break };
            given.note(stream, kept.number());
            read.push((stream, kept.number()));
        }
        read
    }

    #[test]
    fn replay_from_second_store_skips_samples_already_given_out() {
        let all = [(ONE, 0), (TWO, 0), (ONE, 1), (TWO, 1), (ONE, 2)];
        let (shared, mut given) = (ReaderShared::default(), DeliveredNumbers::default());
        let first = store([ONE, TWO], &all[..3]);
        let _ = ReplayControl::begin(first.cursor(), &first, u64::MAX, &shared, true);
        assert_eq!(read(&shared, &mut given), all[..3]);
        let second = store([TWO, ONE], &all);
        let _ = ReplayControl::begin(second.cursor(), &second, u64::MAX, &shared, true);
        assert_eq!(read(&shared, &mut given), all[3..]);
    }

    #[test]
    fn volatile_reader_never_replays_samples_older_than_its_first_join() {
        let all = [(ONE, 0), (ONE, 1), (TWO, 0), (TWO, 1), (ONE, 2)];
        let (shared, mut given) = (ReaderShared::default(), DeliveredNumbers::default());
        let first = store([ONE, TWO], &all[..2]);
        let _ = ReplayControl::begin(first.cursor(), &first, u64::MAX, &shared, false);
        assert_eq!(read(&shared, &mut given), []);
        let floor = shared.floor.lock().unwrap_or_else(PoisonError::into_inner).clone();
        floor.into_iter().flatten().for_each(|(stream, next)| given.pass(stream, next));
        let second = store([TWO, ONE], &all);
        let _ = ReplayControl::begin(second.cursor(), &second, u64::MAX, &shared, false);
        assert_eq!(read(&shared, &mut given), all[2..]);
    }
}
