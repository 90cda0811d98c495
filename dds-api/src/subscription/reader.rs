//! The reader.
//!
//! Owns: the queues of all writers that it is matched with. Never does: copy what it can lend, or
//! hold its lock while the application looks at a sample.

use std::ops::{RangeFull, RangeTo};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use derecho_core::ids::NodeId;
use derecho_core::log::StreamKey;
use derecho_core::multicast::inbox::Record;
use derecho_node::{Waited, clock};
use idl_cdr::DdsType;

use super::past::{PastSamples, Since, unreadable};
use super::sample::Sample;
use crate::domain::Inner;
use crate::infrastructure::{DdsError, DdsResult, InstanceHandle, Timeout};
use crate::mapping::endpoint::{Endpoint, EndpointKind};
use crate::mapping::history::{History, Look};
use crate::mapping::machine::{ReaderShared, ReaderSource};
use crate::publication::refused;
use crate::topic::Topic;

/// A reader that is being made.
pub struct DataReaderBuilder<T> {
    participant: Arc<Inner>,
    topic: Topic<T>,
    wants_history: bool,
}

impl<T: DdsType> DataReaderBuilder<T> {
    pub(crate) fn new(participant: Arc<Inner>, topic: Topic<T>) -> Self {
        DataReaderBuilder { participant, topic, wants_history: true }
    }

    /// Wants nothing that was written before it came, although the topic
    /// [keeps](crate::topic::TopicBuilder::transient_local) it: DURABILITY volatile.
    pub fn volatile(mut self) -> Self {
        self.wants_history = false;
        self
    }

    /// Makes the reader and announces it.
    pub fn create(self) -> DdsResult<DataReader<T>> {
        let DataReaderBuilder { participant, topic, wants_history } = self;
        if !topic.is_of(&participant) {
            return Err(DdsError::PreconditionNotMet(format!(
                "topic `{}` belongs to another participant: create it from the one that reads it",
                topic.name()
            )));
        }
        let shared = Arc::new(ReaderShared::default());
        let (kind, level) = (EndpointKind::Reader, topic.level());
        let (name, data_type) = (topic.name().to_owned(), topic.identity());
        let (keeping, stream, lines) = (topic.keeping(), 0, 0);
        let endpoint = Endpoint { kind, topic: name, data_type, level, keeping, stream, lines };
        let machine_share = (Arc::clone(&shared), wants_history);
        shared.knows_history.store(!level.is_kept(), Ordering::Release);
        let made = participant.engine.act(|machine, link, effects| {
            machine.add_reader(link, endpoint, machine_share, effects)
        });
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
}

impl Queues {
    #[cold]
    fn renew(&mut self, shared: &ReaderShared, changes: u64) {
        let mut sources = shared.sources.lock().unwrap_or_else(PoisonError::into_inner);
        sources.retain(|source| !(source.ended && source.inbox.is_empty()));
        self.sources.clone_from(&sources);
        self.seen = changes;
    }

    /// The next record and whose it is: of the writer that the last one came from, if it has any.
    #[inline(always)]
    fn take(&mut self, shared: &ReaderShared) -> Option<(Record, NodeId)> {
        loop {
            if let Some(source) = self.sources.get(self.next)
                && let Some(record) = source.inbox.take()
            {
                let writer = match source.writers.get(record.sender()) {
                    Some(writer) => *writer,
                    // It has joined since these were brought up to date.
                    None => source.newcomer(shared, record.sender()),
                };
                return Some((record, writer));
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
        InstanceHandle { node: self.participant.node, entity: self.id }
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

    /// Waits until it gets the samples of at least so many writers.
    pub fn wait_for_writers(&self, count: usize, timeout: impl Into<Timeout>) -> DdsResult<()> {
        let timeout = timeout.into();
        let ready = || self.matched_writers() >= count || self.is_isolated();
        match self.participant.engine.wait(timeout.deadline(), ready) {
            Waited::Ready if self.is_isolated() => Err(self.participant.standing.error()),
            Waited::Ready => Ok(()),
            Waited::Stopped => Err(self.deleted()),
            Waited::TimedOut => Err(DdsError::Timeout(format!(
                "{} of {count} writers of `{}` were there after {timeout}: start the others, in \
                 the same domain and with the same type",
                self.matched_writers(),
                self.topic.name()
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
        self.wait_for_samples(timeout.into())?;
        let waiting = match self.history() {
            Some(history) => history.len(),
            None => self.queues().sources.iter().map(|source| source.inbox.len()).sum(),
        };
        self.still_in()?;
        Ok(Samples { reader: self, left: limit.limit().min(waiting) })
    }

    /// Takes the next sample, if one comes in time.
    #[inline]
    pub fn take_next(&self, timeout: impl Into<Timeout>) -> DdsResult<Option<Sample<T>>> {
        let mut sample = self.pop();
        if sample.is_none() {
            self.wait_for_samples(timeout.into())?;
            sample = self.pop();
        }
        self.still_in()?;
        Ok(sample)
    }

    /// This process may have been stopped, and what it has read be written anew since.
    #[inline]
    fn still_in(&self) -> DdsResult<()> {
        match self.participant.standing.is_evicted() {
            true => Err(self.participant.standing.error()),
            false => Ok(()),
        }
    }

    #[inline]
    fn is_isolated(&self) -> bool {
        self.participant.standing.is_out()
    }

    fn wait_for_samples(&self, timeout: Timeout) -> DdsResult<()> {
        let engine = &self.participant.engine;
        let waited = if timeout == Timeout::NOW {
            if !self.has_samples() {
                engine.poke();
            }
            Waited::Ready
        } else {
            engine.wait(timeout.deadline(), || self.has_samples() || self.is_isolated())
        };
        match waited {
            _ if self.is_isolated() => Err(self.participant.standing.error()),
            Waited::Ready | Waited::TimedOut => Ok(()),
            Waited::Stopped => Err(self.deleted()),
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
        if let Some(history) = self.history()
            && history.has_next()
        {
            return true;
        }
        self.queues().sources.iter().any(|source| !source.inbox.is_empty())
    }

    /// The next sample, if there is one. All in one piece with whoever takes it: a record that is
    /// handed from function to function by way of the stack costs as much as the rest.
    #[inline(always)]
    fn pop(&self) -> Option<Sample<T>> {
        if self.shared.reads_history.load(Ordering::Acquire)
            && let Some(kept) = self.pop_kept()
        {
            return kept;
        }
        loop {
            // Decoded without the lock, for that is a type's own code.
            let (record, writer) = self.queues().take(&self.shared)?;
            match Sample::new(record, writer) {
                Some(sample) if self.is_expired(&sample) => {}
                Some(sample) => return Some(sample),
                None => self.note_unreadable(),
            }
        }
    }

    /// What is kept, as long as this reader reads along it.
    #[inline]
    fn history(&self) -> Option<Arc<History>> {
        if !self.shared.reads_history.load(Ordering::Acquire) {
            return None;
        }
        let mut history = self.shared.history.lock().unwrap_or_else(PoisonError::into_inner);
        if history.as_ref().is_none_or(|history| history.is_over()) {
            // What comes now comes by a queue.
            *history = None;
            self.shared.reads_history.store(false, Ordering::Release);
        }
        history.clone()
    }

    /// The next sample that is kept; `None` once what comes next comes by a queue.
    #[cold]
    fn pop_kept(&self) -> Option<Option<Sample<T>>> {
        let history = self.history()?;
        loop {
            match history.take() {
                Look::Kept(kept, writer) => match Sample::of_kept(kept, writer) {
                    Some(sample) if self.is_expired(&sample) => {}
                    Some(sample) => return Some(Some(sample)),
                    None => self.note_unreadable(),
                },
                Look::NoneYet => {
                    self.participant.engine.poke();
                    return Some(None);
                }
                Look::Over => return None,
            }
        }
    }

    /// LIFESPAN: whether it is too late for this sample.
    #[inline]
    fn is_expired(&self, sample: &Sample<T>) -> bool {
        let lifespan = self.topic.keeping().lifespan;
        lifespan > 0 && sample.timestamp().saturating_add(lifespan) < clock::wall(clock::now())
    }

    /// Waits until what was written before this reader came, as far as it is kept, is there to be taken. On a topic
    /// of which nothing is kept there is nothing to wait for.
    pub fn wait_for_historical_data(&self, timeout: impl Into<Timeout>) -> DdsResult<()> {
        let timeout = timeout.into();
        let known = || self.shared.knows_history.load(Ordering::Acquire) || self.is_isolated();
        match self.participant.engine.wait(timeout.deadline(), known) {
            Waited::Ready if self.is_isolated() => Err(self.participant.standing.error()),
            Waited::Ready => Ok(()),
            Waited::Stopped => Err(self.deleted()),
            Waited::TimedOut => Err(DdsError::Timeout(format!(
                "what was kept of `{}` has not come after {timeout}: another participant that has it \
                 is slow, or there is very much of it; wait longer{}",
                self.topic.name(),
                self.topic.waiting()
            ))),
        }
    }

    /// What was written in the past, from some sample or time on, as this participant's log has it: also what
    /// is no longer kept for readers that come late. It holds nobody up. Each sample comes with its place in the topic's
    /// order.
    ///
    /// # Errors
    /// [`DdsError::PreconditionNotMet`] if this participant keeps no log of the topic; [`DdsError::BadParameter`] if the log
    /// does not go back so far, or has not come so far.
    pub fn past(&self, since: Since) -> DdsResult<PastSamples<T>> {
        let (folder, stream) = self.log()?;
        PastSamples::open(&folder, stream, since).map_err(|error| unreadable(&error))
    }

    /// The state at a time: of each instance the last sample that was written at this time or before, with its place in the
    /// topic's order.
    ///
    /// # Errors
    /// As of [`DataReader::past`].
    pub fn state_at(&self, time: SystemTime) -> DdsResult<Vec<(u64, Sample<T>)>> {
        let (folder, stream) = self.log()?;
        PastSamples::state_at(&folder, stream, time).map_err(|error| unreadable(&error))
    }

    /// Where this participant's log of the topic is.
    fn log(&self) -> DdsResult<(PathBuf, StreamKey)> {
        let log = self.participant.engine.act(|machine, _, _| machine.log_of(self.id));
        log.ok_or_else(|| {
            DdsError::PreconditionNotMet(format!(
                "this participant keeps no log of `{}`: make the topic persistent, and give the participant a log folder",
                self.topic.name()
            ))
        })
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
        let sample = self.reader.pop();
        sample.filter(|_| self.reader.still_in().is_ok())
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, Some(self.left))
    }
}
