//! The queues of the writers that a reader is matched with, as the application's side last
//! saw them.
//!
//! Owns: which queue is read next, and which records must not be given out twice. Never does:
//! decode a record.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use derecho_core::group::report::StreamId;
use derecho_core::multicast::inbox::Record;
use derecho_core::storage::cursor::StoredRecord;
use derecho_node::clock;

use super::authors::{AuthoredSample, SampleAuthors, author};
use super::departures::WriterDepartures;
use super::lending::LendingLimit;
use super::queues_by_time::QueuesByTime;
use crate::infrastructure::InstanceHandle;
use crate::mapping::kept_replay::{DeliveredNumbers, KeptReplay, ReplayStep};
use crate::mapping::known_writers::{KnownWriters, WriterAcceptance};
use crate::mapping::membership_state::{Life, MembershipState};
use crate::mapping::record::{NEVER, expiry_of, is_other, origin};
use crate::mapping::set::OF_SEVERAL;
use crate::mapping::shares::{OrderPosition, ReaderShared, ReaderSource};

/// Position of a reader in an order that it shares with other readers of its participant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum QueueHead {
    /// The reader has no part in the order yet: all that it gets comes later.
    Outside,
    /// The next record of the reader is at this position.
    Ready(OrderPosition),
    /// The record at this position has not come, or it is not known yet whether the reader gets it.
    Pending(OrderPosition),
}

/// The queues as the application's side last saw them.
#[derive(Default)]
pub(super) struct Queues {
    pub(super) sources: Vec<ReaderSource>,
    /// Change number of [`ReaderShared`] for which the queues are current.
    pub(super) seen: u64,
    /// Index of the queue to look at first. Each take continues after the last, so that no writer
    /// starves another.
    next: usize,
    /// Number of records that have come into queues that are gone, less the places at which the
    /// present queues began.
    received_before: u64,
    /// Number of records that were received in an earlier life of the participant and never taken.
    pub(super) discarded: u64,
    /// The life of the participant that the queues belong to.
    pub(super) life: Life,
    /// The next record, if it was already taken out of its source to look at it. While the replay
    /// of kept records lasts, it is one of those.
    front: Option<TakenRecord>,
    /// Position of a queued `front`, if the queue that it was taken from is no longer there.
    front_position: Option<OrderPosition>,
    /// Information about the writers of an ordered topic.
    known_writers: Option<Arc<KnownWriters>>,
    /// Writers accepted last. Most samples have the same writer as one of the samples before.
    accepted: AcceptedWriters,
    /// Writers of the samples given out, for a reader that does not follow instances.
    authors: Option<SampleAuthors>,
    /// Whether the reader follows instances, so that only its cache takes from the queues.
    follows: bool,
    /// Whether a sample that comes next is given as the ones before: the reader does not follow
    /// instances, and nothing has ended since a sample was given.
    is_straight: bool,
    /// Whether an author may be gone, or policies have changed, since that was last checked.
    is_unchecked: bool,
    /// The records that were given out. Present only if records may come again: they are kept, and
    /// the participant may rejoin.
    delivered: Option<DeliveredNumbers>,
    /// For an ordered topic: the queue that was taken from last, and its number for the current set
    /// of senders.
    last_taken: Option<(usize, u64)>,
    /// Streams and writers that have ended.
    departures: Arc<WriterDepartures>,
    /// Limit on the memory that may be lent.
    pub(super) lending: LendingLimit,
    /// LIFESPAN of the topic, in nanoseconds; zero if only writers set a lifespan.
    lifespan: u64,
    /// Order between the queues.
    by_time: QueuesByTime,
}

/// A record out of a queue.
pub(super) struct QueuedRecord {
    pub(super) record: Record,
    pub(super) stream: StreamId,
    /// The life of the participant in which the record was received.
    pub(super) life: Life,
}

/// A record out of one of a reader's sources.
pub(super) enum TakenRecord {
    /// Out of a queue.
    Queued(QueuedRecord),
    /// Out of the replay of kept records.
    Kept(StoredRecord, StreamId),
    /// Out of a queue, as a copy: the record does not come again, so its sample must remain whole.
    Copied(CopiedRecord),
}

/// A record that was copied out of its writer's memory.
pub(super) struct CopiedRecord {
    bytes: Box<[u8]>,
    number: u64,
    stream: StreamId,
}

impl TakenRecord {
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            TakenRecord::Queued(queued) => queued.record.bytes(),
            TakenRecord::Kept(kept, _) => kept.bytes(),
            TakenRecord::Copied(copied) => &copied.bytes,
        }
    }

    /// Number among the messages of its stream.
    pub(super) fn number(&self) -> u64 {
        match self {
            TakenRecord::Queued(queued) => queued.record.number(),
            TakenRecord::Kept(kept, _) => kept.number(),
            TakenRecord::Copied(copied) => copied.number,
        }
    }

    pub(super) fn stream(&self) -> StreamId {
        match self {
            TakenRecord::Queued(queued) => queued.stream,
            TakenRecord::Kept(_, stream) => *stream,
            TakenRecord::Copied(copied) => copied.stream,
        }
    }

    /// The life of the participant in which a writer's memory may be overwritten unless it is still
    /// this life; `None` if the record does not lie there.
    pub(super) fn lent_in(&self) -> Option<Life> {
        match self {
            TakenRecord::Queued(queued) => Some(queued.life),
            TakenRecord::Kept(..) | TakenRecord::Copied(_) => None,
        }
    }

    /// The record as one that does not lie in its writer's memory.
    pub(super) fn into_copy(self) -> TakenRecord {
        match self {
            TakenRecord::Queued(QueuedRecord { record, stream, .. }) => {
                let (bytes, number) = (record.bytes().into(), record.number());
                TakenRecord::Copied(CopiedRecord { bytes, number, stream })
            }
            other => other,
        }
    }
}

/// Result of a look at a reader's sources.
pub(super) enum NextRecord {
    Found(TakenRecord),
    /// No record waits.
    Absent,
    /// No kept record is visible now. A turn of the machine may show more.
    NotShown,
}

/// Source of a record: the queue's index, its number for the sender, and the writer.
#[derive(Clone, Copy, PartialEq, Eq)]
struct RecordSource {
    queue: u32,
    sender: u32,
    writer: u32,
}

impl RecordSource {
    /// No source: there are fewer queues.
    const NONE: RecordSource = RecordSource { queue: u32::MAX, sender: 0, writer: 0 };

    #[inline(always)]
    fn new(queue: usize, sender: usize, writer: u32) -> RecordSource {
        RecordSource { queue: queue as u32, sender: sender as u32, writer }
    }
}

/// Number of sources in [`AcceptedWriters`].
const ACCEPTED: usize = 4;

/// Sources whose records the reader gets, each at the position that follows from its numbers.
struct AcceptedWriters([RecordSource; ACCEPTED]);

impl Default for AcceptedWriters {
    fn default() -> Self {
        AcceptedWriters([RecordSource::NONE; ACCEPTED])
    }
}

impl AcceptedWriters {
    #[inline(always)]
    fn position(source: RecordSource) -> usize {
        (source.queue ^ source.sender ^ source.writer) as usize % ACCEPTED
    }

    #[inline(always)]
    fn has(&self, source: RecordSource) -> bool {
        self.0[AcceptedWriters::position(source)] == source
    }

    fn note(&mut self, source: RecordSource) {
        self.0[AcceptedWriters::position(source)] = source;
    }
}

/// Whether an expiry time has come, by the wall clock (I-201).
#[inline(always)]
pub(super) fn is_over(expiry: u64) -> bool {
    expiry != NEVER && has_expired(expiry)
}

/// Releases a record that the reader does not get. This is a separate function, so that the code
/// for accepted records takes no record by its address.
#[cold]
pub(super) fn pass_over(_: Record) {}

#[cold]
fn has_expired(expiry: u64) -> bool {
    expiry <= clock::wall(clock::now())
}

/// Place of the record that comes into a queue next.
fn place_of_end(source: &ReaderSource) -> u64 {
    let queue = source.consumer();
    queue.place().wrapping_add(queue.len() as u64)
}

/// Whether a queue brings nothing more.
fn has_ended(source: &ReaderSource) -> bool {
    source.ended && source.consumer().is_empty()
}

impl Queues {
    /// Makes an empty set of queues.
    pub(super) fn new(
        given: Option<DeliveredNumbers>,
        departures: &Arc<WriterDepartures>,
        lifespan: u64,
        max_held_percent: u8,
    ) -> Queues {
        let (departures, lending) = (Arc::clone(departures), LendingLimit::new(max_held_percent));
        let authors = Some(SampleAuthors::default());
        Queues { delivered: given, departures, lending, lifespan, authors, ..Queues::default() }
    }

    /// Writers of the samples given out so far, each with its stream. They are noted no longer,
    /// because the reader follows instances from now on.
    pub(super) fn take_authors(&mut self) -> BTreeMap<InstanceHandle, StreamId> {
        self.follow();
        let next = self.front.as_ref().map(|front| AuthoredSample {
            writer: author(front.stream(), origin(front.bytes()).writer),
            number: front.number(),
        });
        self.authors.take().unwrap_or_default().before(next)
    }

    /// Lets the application take nothing more from the queues: the reader follows instances from
    /// now on.
    #[cold]
    pub(super) fn follow(&mut self) {
        (self.follows, self.is_straight) = (true, false);
    }

    /// Whether a sample that comes next is given as the ones before.
    #[inline(always)]
    pub(super) fn is_straight(&self) -> bool {
        self.is_straight
    }

    /// Gives samples that come from now on as this one is given, until something ends.
    pub(super) fn go_straight(&mut self) {
        self.is_straight = !self.follows;
    }

    /// Whether an author may be gone, or policies have changed, since
    /// [`note_checked`](Self::note_checked).
    #[inline(always)]
    pub(super) fn is_unchecked(&self) -> bool {
        self.is_unchecked
    }

    /// Notes that no author is gone, as of these changes of the queues.
    #[cold]
    pub(super) fn note_checked(&mut self, changes: u64) {
        self.is_unchecked &= self.seen != changes;
    }

    /// Whether the reader follows instances.
    #[inline(always)]
    pub(super) fn follows(&self) -> bool {
        self.follows
    }

    /// Forgets the author of a record that the reader does not get after all.
    #[cold]
    pub(super) fn forget_author_of(&mut self, record: &[u8], stream: StreamId) {
        if let Some(authors) = &mut self.authors {
            authors.forget(author(stream, origin(record).writer));
        }
    }

    /// Writers of the samples given out so far; `None` if the reader follows instances.
    pub(super) fn authors(&self) -> Option<&SampleAuthors> {
        self.authors.as_ref()
    }

    /// Whether an author of samples given out has ended before the record taken last.
    #[cold]
    pub(super) fn has_lost_author(&self) -> bool {
        let is_lost = |authors: &SampleAuthors| self.departures.concern(authors);
        self.departures.are_any() && self.authors.as_ref().is_some_and(is_lost)
    }

    /// Whether something ends before the record taken last, or with it, so that a reader that
    /// takes straight must follow instances: an author has ended, or the record is other than data.
    #[cold]
    pub(super) fn end_before(&self, record: &[u8]) -> bool {
        is_other(record) || self.has_lost_author()
    }

    /// Orders the queues by time from now on (I-217).
    pub(super) fn order_by_time(&mut self) {
        self.by_time.is_used = true;
    }

    /// LIFESPAN: whether a record has expired.
    #[inline(always)]
    fn is_late(&self, record: &[u8]) -> bool {
        is_over(expiry_of(record, self.lifespan))
    }

    /// Brings the queues up to date. Returns whether a new life of the participant has begun, in
    /// which a reader without a cache begins anew.
    #[cold]
    pub(super) fn renew(&mut self, shared: &ReaderShared, changes: u64) -> bool {
        let life = *shared.life.lock().unwrap_or_else(PoisonError::into_inner);
        let mut sources = shared.sources.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut self.delivered {
            // Kept records come again.
            Some(given) => {
                let floor = shared.floor.lock().unwrap_or_else(PoisonError::into_inner);
                floor.iter().flatten().for_each(|(stream, next)| given.pass(*stream, *next));
            }
            None => {
                let left_behind = sources.iter().filter(|source| source.life != life);
                self.discarded +=
                    left_behind.map(|source| source.consumer().len() as u64).sum::<u64>();
                let front = self.front.as_ref().and_then(TakenRecord::lent_in);
                self.discarded += u64::from(front.is_some_and(|received_in| received_in != life));
            }
        }
        let is_new_life = self.life != life;
        if is_new_life {
            // A record that was looked at comes again if it is kept. If it is not kept, it must not
            // be taken any more.
            (self.front, self.life) = (None, life);
            self.by_time.forget_ends();
            // Writers of the new life are announced again. A reader without a cache has no samples
            // of the former life, and begins anew.
            match &mut self.authors {
                Some(authors) => *authors = SampleAuthors::default(),
                None => self.departures.note_life(life),
            }
        }
        let known = shared.known_writers.lock().unwrap_or_else(PoisonError::into_inner);
        (self.known_writers, self.accepted) = (known.clone(), AcceptedWriters::default());
        drop(known);
        sources.retain(|source| {
            let is_over = has_ended(source);
            if is_over && source.life == life {
                self.by_time.note_end(source);
            }
            source.life == life && !is_over
        });
        self.front_position = self.position_of_front();
        let is_of = |all: &[ReaderSource], it: &ReaderSource| {
            all.iter().any(|other| (other.id, other.life) == (it.id, it.life))
        };
        let gone = self.sources.iter().filter(|source| !is_of(&sources, source));
        let gone = gone.map(place_of_end).fold(0, u64::wrapping_add);
        let come = sources.iter().filter(|source| !is_of(&self.sources, source));
        let come = come.map(|source| source.consumer().place()).fold(0, u64::wrapping_add);
        self.received_before = self.received_before.wrapping_add(gone).wrapping_sub(come);
        self.sources.clone_from(&sources);
        self.by_time.renew(&self.sources);
        (self.seen, self.is_straight, self.is_unchecked) = (changes, false, true);
        self.last_taken = None;
        if self.sources.iter().any(|source| source.id.is_ordered()) {
            // Queues that have ended come first.
            self.next = 0;
        }
        is_new_life
    }

    /// The next record for the reader, with its stream and the life in which it was received. It
    /// comes from the same queue as the last one, if that queue has any.
    #[inline(always)]
    pub(super) fn take(&mut self, shared: &ReaderShared) -> Option<QueuedRecord> {
        self.take_next::<false>(shared)
    }

    /// As [`take`](Self::take), but if the queues are [ordered by time](Self::order_by_time), the
    /// record that was written first of those that wait. Notes the streams that ended before that.
    #[inline(always)]
    pub(super) fn take_oldest(&mut self, shared: &ReaderShared) -> Option<QueuedRecord> {
        self.take_next::<true>(shared)
    }

    #[inline(always)]
    fn take_next<const OLDEST: bool>(&mut self, shared: &ReaderShared) -> Option<QueuedRecord> {
        loop {
            // Checked before the call, because a take moves a record even if there is none.
            let taken = match self.front {
                Some(_) => self.take_front()?,
                None => {
                    self.front_position = None;
                    if OLDEST && self.by_time.are_several() {
                        self.turn_to_oldest(shared);
                    }
                    self.take_any(shared)?
                }
            };
            // The queue of a record that was taken before the last update may be another one now.
            let is_of_queue = self.front_position.is_none();
            match self.judge(&taken.record, taken.stream, is_of_queue) {
                WriterAcceptance::Yes => return Some(taken),
                WriterAcceptance::No => pass_over(taken.record),
                WriterAcceptance::NotYet => {
                    self.put_back(taken);
                    return None;
                }
            }
        }
    }

    /// Takes the record that was looked at, if it came out of a queue.
    #[cold]
    fn take_front(&mut self) -> Option<QueuedRecord> {
        match self.front.take() {
            Some(TakenRecord::Queued(queued)) => Some(queued),
            other => {
                self.front = other;
                None
            }
        }
    }

    /// Puts back the record that was taken last. It comes next.
    #[cold]
    pub(super) fn put_back(&mut self, taken: QueuedRecord) {
        self.front = Some(TakenRecord::Queued(taken));
    }

    /// Leaves the record that was taken last to the cache: the reader follows instances from now
    /// on.
    #[cold]
    pub(super) fn leave_to_cache(&mut self, taken: TakenRecord) {
        self.front = Some(taken);
        self.follow();
    }

    /// The next record that the reader gets: out of the replay of kept records while that lasts,
    /// and out of the queues after that.
    #[inline]
    pub(super) fn next_record(
        &mut self,
        shared: &ReaderShared,
        membership: &MembershipState,
    ) -> NextRecord {
        match self.find_kept(shared, membership) {
            ReplayStep::Kept(kept, stream) => NextRecord::Found(TakenRecord::Kept(kept, stream)),
            ReplayStep::NoneYet => NextRecord::NotShown,
            ReplayStep::Over => match self.take_oldest(shared) {
                Some(queued) => NextRecord::Found(TakenRecord::Queued(queued)),
                None => NextRecord::Absent,
            },
        }
    }

    /// The next record, from any writer.
    #[inline(always)]
    fn take_any(&mut self, shared: &ReaderShared) -> Option<QueuedRecord> {
        loop {
            if let Some(source) = self.sources.get(self.next)
                && let Some(record) = source.consumer().take()
            {
                let writer = match source.writers.get(record.sender()) {
                    Some(writer) => *writer,
                    // The sender has joined since `writers` was brought up to date.
                    None => source.newcomer(shared, record.sender()),
                };
                let life = source.life;
                if source.id.is_ordered() {
                    let position = Some((self.next, source.inbox.passed()));
                    if self.last_taken != position {
                        self.last_taken = position;
                        self.note_senders(shared);
                    }
                }
                return Some(QueuedRecord { record, stream: writer, life });
            }
            if !self.turn_to_another() {
                return None;
            }
        }
    }

    /// The record taken is of another epoch than the record before: only the senders of that epoch
    /// are present.
    #[cold]
    fn note_senders(&mut self, shared: &ReaderShared) {
        self.is_straight = false;
        let Some(source) = self.sources.get(self.next) else { return };
        let known = |number: usize| source.writers.get(number).copied();
        let taking = source.consumer();
        let streams =
            taking.senders().map(|it| known(it).unwrap_or_else(|| source.newcomer(shared, it)));
        self.departures.note_others_than(streams.collect());
    }

    /// Whether the reader gets a record. It came from the queue that is looked at, or may have come
    /// from another one.
    #[inline(always)]
    fn judge(&mut self, record: &Record, stream: StreamId, is_of_queue: bool) -> WriterAcceptance {
        if self.is_late(record.bytes()) {
            return WriterAcceptance::No;
        }
        let origin = origin(record.bytes());
        let from = RecordSource::new(self.next, record.sender(), origin.writer);
        let is_of_one = is_of_queue && origin.names.is_none();
        if is_of_one && self.accepted.has(from) {
            return WriterAcceptance::Yes;
        }
        let verdict = self.judge_anew(stream, record.bytes(), record.number());
        if is_of_one && origin.writer != OF_SEVERAL && verdict == WriterAcceptance::Yes {
            self.accepted.note(from);
        }
        verdict
    }

    #[cold]
    fn judge_anew(&mut self, stream: StreamId, record: &[u8], number: u64) -> WriterAcceptance {
        let known = self.known_writers.as_ref();
        let verdict = known.map_or(WriterAcceptance::Yes, |known| known.judge(stream.node, record));
        if verdict == WriterAcceptance::Yes
            && let Some(authors) = &mut self.authors
        {
            self.is_unchecked |= authors.note(stream, origin(record).writer, number);
        }
        verdict
    }

    /// The replay of kept records, while it lasts.
    fn replay(&mut self, shared: &ReaderShared) -> Option<Arc<KeptReplay>> {
        if !shared.reads_history.load(Ordering::Acquire) {
            return None;
        }
        let mut replay = shared.history.lock().unwrap_or_else(PoisonError::into_inner);
        let is_over = |replay: &Arc<KeptReplay>| replay.is_over(self.delivered.as_ref());
        if self.front_kept().is_none() && replay.as_ref().is_none_or(is_over) {
            // From now on records come through a queue.
            let received = replay.take().map_or(0, |it| it.position() + it.len() as u64);
            self.received_before = self.received_before.wrapping_add(received);
            shared.reads_history.store(false, Ordering::Release);
        }
        replay.clone()
    }

    /// Finds the next kept record that the reader gets, without counting it as given out.
    fn find_kept(&mut self, shared: &ReaderShared, membership: &MembershipState) -> ReplayStep {
        let Some(replay) = self.replay(shared) else { return ReplayStep::Over };
        if !membership.is_in(replay.life) {
            return ReplayStep::NoneYet;
        }
        loop {
            let (kept, stream) = match self.front.take() {
                Some(TakenRecord::Kept(kept, stream)) => (kept, stream),
                front => {
                    self.front = front;
                    match replay
                        .take(self.delivered.as_ref(), |departed| self.departures.note(departed))
                    {
                        ReplayStep::Kept(kept, stream) => (kept, stream),
                        none => return none,
                    }
                }
            };
            // This process may have been stopped during the copy, and the memory may have been
            // reused by others.
            if membership.is_evicted_from(replay.life) {
                return ReplayStep::NoneYet;
            }
            let verdict = match self.is_late(kept.bytes()) {
                true => WriterAcceptance::No,
                false => self.judge_anew(stream, kept.bytes(), kept.number()),
            };
            match verdict {
                WriterAcceptance::Yes => return ReplayStep::Kept(kept, stream),
                WriterAcceptance::No => self.note(stream, kept.number()),
                WriterAcceptance::NotYet => {
                    self.front = Some(TakenRecord::Kept(kept, stream));
                    return ReplayStep::NoneYet;
                }
            }
        }
    }

    /// The next kept record, if it was already looked at.
    fn front_kept(&self) -> Option<&StoredRecord> {
        match &self.front {
            Some(TakenRecord::Kept(kept, _)) => Some(kept),
            _ => None,
        }
    }

    /// Notes that the reader has got a record, or never gets it.
    pub(super) fn note(&mut self, stream: StreamId, number: u64) {
        if let Some(given) = &mut self.delivered {
            given.note(stream, number);
        }
    }

    /// Whether a record for the reader waits, in the present life.
    pub(super) fn has_any(&mut self, shared: &ReaderShared, membership: &MembershipState) -> bool {
        if let ReplayStep::Kept(kept, stream) = self.find_kept(shared, membership) {
            self.front = Some(TakenRecord::Kept(kept, stream));
            return true;
        }
        if self.known_writers.is_some() {
            // Only the record itself shows whether the reader gets it.
            let Some(next) = self.take(shared) else { return false };
            let life = next.life;
            self.put_back(next);
            return membership.is_in(life);
        }
        let present = self.sources.iter().filter(|source| membership.is_in(source.life));
        present.into_iter().any(|source| {
            // An expired record does not count, and holds up no writer.
            while source.consumer().next_is(|record| self.is_late(record)) {
                source.consumer().take();
            }
            !source.consumer().is_empty()
        })
    }

    /// Whether the record that comes next, or one of them if several queues have a next one, is
    /// other than the data of one sample.
    pub(super) fn others_come_next(&self) -> bool {
        if let Some(front) = &self.front {
            return is_other(front.bytes());
        }
        self.sources.iter().any(|source| source.consumer().next_is(is_other))
    }

    /// The reader's position in its topic's order.
    pub(super) fn head(
        &mut self,
        shared: &ReaderShared,
        membership: &MembershipState,
    ) -> QueueHead {
        match self.find_kept(shared, membership) {
            ReplayStep::Kept(kept, stream) => {
                let position = OrderPosition(self.life, kept.position());
                self.front = Some(TakenRecord::Kept(kept, stream));
                return QueueHead::Ready(position);
            }
            ReplayStep::NoneYet => {
                let replay = self.replay(shared);
                let version = match (self.front_kept(), replay) {
                    (Some(kept), _) => kept.position(),
                    (None, Some(replay)) => replay.position(),
                    (None, None) => return QueueHead::Outside,
                };
                return QueueHead::Pending(OrderPosition(self.life, version));
            }
            ReplayStep::Over => {}
        }
        let next = self.take(shared);
        let is_known = next.is_some();
        next.into_iter().for_each(|next| self.put_back(next));
        match (self.position_of_front(), self.sources.last()) {
            (Some(position), _) if is_known => QueueHead::Ready(position),
            (Some(position), _) => QueueHead::Pending(position),
            (None, Some(source)) => QueueHead::Pending(source.position()),
            (None, None) => QueueHead::Outside,
        }
    }

    /// Position of the next record, if that was already looked at.
    fn position_of_front(&self) -> Option<OrderPosition> {
        self.front.as_ref()?.lent_in()?;
        self.front_position.or_else(|| self.sources.get(self.next).map(ReaderSource::last_position))
    }

    /// Whether waiting records hold up a writer, or soon will: half of a writer's memory is in use
    /// by readers here.
    pub(super) fn hold_up(&self) -> bool {
        self.sources.iter().any(|source| source.consumer().holds_up())
    }

    /// Upper limit of the number of waiting records.
    pub(super) fn waiting(&mut self, shared: &ReaderShared) -> usize {
        match self.replay(shared) {
            Some(replay) => {
                let waits = usize::from(self.front_kept().is_some());
                let next = replay.has_next(self.delivered.as_ref());
                waits + if next { replay.len() } else { 0 }
            }
            None => {
                let queued: usize = self.sources.iter().map(|source| source.consumer().len()).sum();
                queued + usize::from(self.front.is_some())
            }
        }
    }

    /// Number of records that have come into the queues, including those that were taken. Changes
    /// with each record, and only with records.
    pub(super) fn received(&mut self, shared: &ReaderShared) -> u64 {
        let replayed = self.replay(shared).map_or(0, |it| it.position() + it.len() as u64);
        let received = self.sources.iter().map(place_of_end);
        received.fold(self.received_before.wrapping_add(replayed), u64::wrapping_add)
    }

    /// Moves to the queue whose next record was written first.
    #[inline(never)]
    fn turn_to_oldest(&mut self, shared: &ReaderShared) {
        if self.sources.get(self.next).is_some_and(|source| self.by_time.stays_at(source)) {
            return;
        }
        if self.sources.iter().any(has_ended) {
            self.renew(shared, self.seen);
        }
        let departures = &self.departures;
        let oldest = self.by_time.oldest(&self.sources, |stream| departures.note([stream]));
        self.next = oldest.unwrap_or(self.next);
    }

    /// Moves to the next queue with a waiting record; `false` if there is none.
    #[cold]
    fn turn_to_another(&mut self) -> bool {
        let count = self.sources.len();
        let waits = |index: &usize| !self.sources[*index].consumer().is_empty();
        match (1..=count).map(|step| (self.next + step) % count).find(waits) {
            Some(index) => {
                self.next = index;
                true
            }
            None => {
                // The next look begins with the next writer, so that none is favoured.
                self.next = self.next.wrapping_add(1) % count.max(1);
                false
            }
        }
    }
}
