//! The reader.
//!
//! Owns: the queues of all writers that it is matched with. Never does: copy what it can lend, or
//! hold its lock while the application looks at a sample.

use std::ops::{RangeFull, RangeTo};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use derecho_core::ids::{NodeId, Time};
use derecho_core::multicast::inbox::Record;
use derecho_node::Waited;
use idl_cdr::DdsType;

use super::sample::Sample;
use crate::domain::Inner;
use crate::infrastructure::{DdsError, DdsResult, InstanceHandle, Timeout};
use crate::mapping::endpoint::{Endpoint, EndpointKind};
use crate::mapping::machine::{ReaderShared, ReaderSource};
use crate::mapping::standing::Life;
use crate::publication::refused;
use crate::topic::Topic;

/// A reader that is being made.
pub struct DataReaderBuilder<T> {
    participant: Arc<Inner>,
    topic: Topic<T>,
}

impl<T: DdsType> DataReaderBuilder<T> {
    pub(crate) fn new(participant: Arc<Inner>, topic: Topic<T>) -> Self {
        DataReaderBuilder { participant, topic }
    }

    /// Makes the reader and announces it.
    pub fn create(self) -> DdsResult<DataReader<T>> {
        let DataReaderBuilder { participant, topic } = self;
        if !topic.is_of(&participant) {
            return Err(DdsError::PreconditionNotMet(format!(
                "topic `{}` belongs to another participant: create it from the one that reads it",
                topic.name()
            )));
        }
        let shared = Arc::new(ReaderShared::default());
        let (kind, level) = (EndpointKind::Reader, topic.level());
        let (name, data_type) = (topic.name().to_owned(), topic.identity());
        let endpoint = Endpoint { kind, topic: name, data_type, level, stream: 0, lines: 0 };
        let machine_share = Arc::clone(&shared);
        let made = participant
            .engine
            .act(|machine, link, _| machine.add_reader(link, endpoint, machine_share));
        let id = made
            .map_err(|refusal| refused(&refusal, &participant.standing, "reader", topic.name()))?;
        let (queues, unreadable) = (Mutex::new(Queues::default()), AtomicU64::new(0));
        Ok(DataReader { participant, topic, shared, queues, unreadable, id })
    }
}

/// The queues as the application's side last saw them.
#[derive(Default)]
struct Queues {
    sources: Vec<ReaderSource>,
    /// The change of [`ReaderShared`] that they are from.
    seen: u64,
    /// Where to look first: each take goes on behind the last, so that no writer starves another.
    next: usize,
    /// Records that were received in a life of the participant that is over, and never taken.
    discarded: u64,
}

impl Queues {
    #[cold]
    fn renew(&mut self, shared: &ReaderShared, changes: u64) {
        let life = *shared.life.lock().unwrap_or_else(PoisonError::into_inner);
        let mut sources = shared.sources.lock().unwrap_or_else(PoisonError::into_inner);
        let left_behind = sources.iter().filter(|source| source.life != life);
        self.discarded += left_behind.map(|source| source.inbox.len() as u64).sum::<u64>();
        sources.retain(|source| source.life == life && !(source.ended && source.inbox.is_empty()));
        self.sources.clone_from(&sources);
        self.seen = changes;
    }

    /// The next record, whose it is, and the life that it was received in: of the writer that the last one came
    /// from, if it has any.
    #[inline(always)]
    fn take(&mut self, shared: &ReaderShared) -> Option<(Record, NodeId, Life)> {
        loop {
            if let Some(source) = self.sources.get(self.next)
                && let Some(record) = source.inbox.take()
            {
                let writer = match source.writers.get(record.sender()) {
                    Some(writer) => *writer,
                    // It has joined since these were brought up to date.
                    None => source.newcomer(shared, record.sender()),
                };
                return Some((record, writer, source.life));
            }
            if !self.turn_to_another() {
                return None;
            }
        }
    }

    /// Turns to the next writer of which a record waits, or says that there is none.
    #[cold]
    fn turn_to_another(&mut self) -> bool {
        let count = self.sources.len();
        let waits = |index: &usize| !self.sources[*index].inbox.is_empty();
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

/// Reads samples of one topic. Any number of threads may take at once; each sample goes to one.
pub struct DataReader<T: DdsType> {
    participant: Arc<Inner>,
    topic: Topic<T>,
    shared: Arc<ReaderShared>,
    queues: Mutex<Queues>,
    unreadable: AtomicU64,
    id: u64,
}

/// How many samples to take at most: `..` for all that are there, `..n` for up to n.
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

impl<T: DdsType> DataReader<T> {
    /// What it reads.
    pub fn topic(&self) -> &Topic<T> {
        &self.topic
    }

    /// Its name in the domain.
    pub fn instance_handle(&self) -> InstanceHandle {
        InstanceHandle { node: self.participant.standing.node(), entity: self.id }
    }

    /// Writers whose samples it gets now.
    pub fn matched_writers(&self) -> usize {
        self.shared.matched.load(Ordering::Acquire) as usize
    }

    /// Writers of the same topic that it cannot be matched with, because their type differs.
    pub fn inconsistent_writers(&self) -> usize {
        self.shared.inconsistent.load(Ordering::Acquire) as usize
    }

    /// Samples that were dropped because they were none of this type: a writer's mistake.
    pub fn unreadable_samples(&self) -> u64 {
        self.unreadable.load(Ordering::Relaxed)
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
    /// not even received is not counted.
    pub fn discarded_samples(&self) -> u64 {
        self.queues().discarded
    }

    /// Waits until it gets the samples of at least so many writers.
    pub fn wait_for_writers(&self, count: usize, timeout: impl Into<Timeout>) -> DdsResult<()> {
        let timeout = timeout.into();
        let standing = &self.participant.standing;
        let is_there = || self.matched_writers() >= count && !standing.is_out();
        let ready = || is_there() || standing.is_out_for_good();
        match self.participant.engine.wait(timeout.deadline(), ready) {
            Waited::Stopped => Err(self.deleted()),
            _ if is_there() => Ok(()),
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
        let timeout = timeout.into();
        let deadline = timeout.deadline();
        loop {
            let waited = self.wait_for_samples(timeout, deadline)?;
            let waiting = self.queues().sources.iter().map(|source| source.inbox.len()).sum();
            if self.goes_on(waited)? {
                return Ok(Samples { reader: self, left: limit.limit().min(waiting) });
            }
        }
    }

    /// Takes the next sample, if one comes in time.
    #[inline]
    pub fn take_next(&self, timeout: impl Into<Timeout>) -> DdsResult<Option<Sample<T>>> {
        match self.pop() {
            Some(sample) => Ok(Some(sample)),
            None => self.take_later(timeout.into()),
        }
    }

    fn take_later(&self, timeout: Timeout) -> DdsResult<Option<Sample<T>>> {
        let deadline = timeout.deadline();
        loop {
            let waited = self.wait_for_samples(timeout, deadline)?;
            let sample = self.pop();
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
        let (engine, standing) = (&self.participant.engine, &self.participant.standing);
        let waited = if timeout == Timeout::NOW {
            if !self.has_samples() {
                engine.poke();
            }
            Waited::TimedOut
        } else {
            engine.wait(deadline, || self.has_samples() || standing.is_out_for_good())
        };
        match waited {
            Waited::Stopped => Err(self.deleted()),
            _ if standing.is_out_for_good() => Err(standing.error()),
            Waited::TimedOut if standing.is_out() => Err(standing.error()),
            waited => Ok(waited),
        }
    }

    /// The queues, brought up to date.
    #[inline]
    fn queues(&self) -> MutexGuard<'_, Queues> {
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        let changes = self.shared.changes.load(Ordering::Acquire);
        if changes != queues.seen {
            queues.renew(&self.shared, changes);
        }
        queues
    }

    /// Whether a sample waits to be taken.
    #[inline]
    pub fn has_samples(&self) -> bool {
        let standing = &self.participant.standing;
        let waits = |source: &ReaderSource| !source.inbox.is_empty() && standing.is_in(source.life);
        self.queues().sources.iter().any(waits)
    }

    /// The next sample, if there is one. All in one piece with whoever takes it: a record that is
    /// handed from function to function by way of the stack costs as much as the rest.
    #[inline(always)]
    fn pop(&self) -> Option<Sample<T>> {
        loop {
            // Decoded without the lock, for that is a type's own code.
            let (record, writer, life) = self.queues().take(&self.shared)?;
            let sample = Sample::new(record, writer);
            // This process may have been stopped, and what it has read be written anew since.
            if self.participant.standing.is_evicted_from(life) {
                self.discard();
                return None;
            }
            if sample.is_some() {
                return sample;
            }
            self.note_unreadable();
        }
    }

    #[cold]
    fn discard(&self) {
        self.queues().discarded += 1;
    }

    #[cold]
    fn note_unreadable(&self) {
        self.unreadable.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(topic = self.topic.name(), "a sample of no known form");
    }

    fn deleted(&self) -> DdsError {
        DdsError::AlreadyDeleted(format!("the participant of `{}` has left", self.topic.name()))
    }
}

impl<T: DdsType> Drop for DataReader<T> {
    fn drop(&mut self) {
        let id = self.id;
        self.shared.sources.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.queues.lock().unwrap_or_else(PoisonError::into_inner).sources.clear();
        self.participant.engine.act(|machine, _, effects| machine.remove_reader(id, effects));
    }
}

/// Samples being taken.
pub struct Samples<'a, T: DdsType> {
    reader: &'a DataReader<T>,
    left: usize,
}

impl<T: DdsType> Samples<'_, T> {
    /// Whether there are none (any more).
    pub fn is_empty(&self) -> bool {
        self.left == 0
    }
}

impl<T: DdsType> Iterator for Samples<'_, T> {
    type Item = Sample<T>;

    #[inline(always)]
    fn next(&mut self) -> Option<Sample<T>> {
        self.left = self.left.checked_sub(1)?;
        self.reader.pop()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, Some(self.left))
    }
}
