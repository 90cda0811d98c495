//! State that entities share with the machine.
//!
//! Owns: a reader's queues and a writer's memory, as both sides see them. Never does: decide
//! their content.

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use derecho_core::group::report::StreamId;
use derecho_core::link::{Bells, LinkError};
use derecho_core::multicast::claim::{ClaimError, SenderMemory};
use derecho_core::multicast::geometry::Geometry;
use derecho_core::multicast::inbox::{Inbox, InboxConsumer};
use derecho_core::node::SubscriptionId;
use derecho_node::clock;

use super::endpoint::Endpoint;
use super::kept_replay::{GONE_SENDER, KeptReplay};
use super::known_writers::KnownWriters;
use super::layouts::MemoryLayouts;
use super::membership_state::Life;
use super::policies::EndpointPolicies;
use super::record::{NoticeRecord, PolicyMetadata, RecordedOffer};
use super::timeliness::{ParticipantLiveliness, TimelinessMonitor};
use crate::infrastructure::InstanceHandle;
use crate::infrastructure::status_board::StatusBoard;
use crate::infrastructure::this_thread::this_thread;

/// State that a reader shares with the machine.
#[derive(Default)]
pub(crate) struct ReaderShared {
    /// Queues of the matched writers.
    pub(crate) sources: Mutex<Vec<ReaderSource>>,
    /// Number of changes of `sources` and `life`, so that a reader checks them only after a change.
    pub(crate) changes: AtomicU64,
    /// Highest TRANSPORT_PRIORITY of the matched writers.
    priority: AtomicI32,
    /// Number of changes of the priorities of the participant's readers.
    reordered: Arc<AtomicU64>,
    /// The streams that currently bring samples of an ordered topic; `None` if the topic is not
    /// ordered or has not begun. Changes are counted in `changes`.
    pub(crate) sending: Mutex<Option<Arc<[StreamId]>>>,
    /// For an ordered topic: the reader's knowledge of the topic's writers. Changes are counted
    /// in `changes`.
    pub(crate) known_writers: Mutex<Option<Arc<KnownWriters>>>,
    /// Ignored writers that the reader's cache does not know to be ignored yet.
    ignored_writers: Mutex<Vec<InstanceHandle>>,
    has_ignored_writers: AtomicBool,
    /// Whether there are policies that the reader's cache does not know yet.
    has_new_policies: AtomicBool,
    new_policies: Mutex<Option<Arc<EndpointPolicies>>>,
    /// The reader's statuses.
    pub(crate) board: StatusBoard,
    /// Number of writers of the same topic that cannot be matched.
    pub(crate) inconsistent: AtomicU32,
    /// Reason why the last of those writers cannot be matched.
    pub(crate) why_inconsistent: Mutex<Option<String>>,
    /// Marks of samples that arrive in the shared order and are of a type that the reader does
    /// not understand.
    refused: RwLock<Vec<u32>>,
    refuses: AtomicBool,
    /// Memory layouts of the values of writers in differently built programs.
    pub(crate) layouts: MemoryLayouts,
    /// Life of the participant in which the reader is matched.
    pub(crate) life: Mutex<Life>,
    /// Whether the reader replays the kept samples.
    pub(crate) reads_history: AtomicBool,
    /// Whether all samples that were kept when the reader joined, in this life, are present here,
    /// or no samples are kept.
    pub(crate) knows_history: AtomicBool,
    pub(crate) history: Mutex<Option<Arc<KeptReplay>>>,
    /// Kept samples that the reader did not want when it first joined: those of each stream before
    /// this number. `None` until that is known.
    pub(crate) floor: Mutex<Option<Vec<(StreamId, u64)>>>,
}

impl ReaderShared {
    /// State of a reader that counts changes of its priority in `reordered`.
    pub(crate) fn new(reordered: &Arc<AtomicU64>) -> ReaderShared {
        ReaderShared { reordered: Arc::clone(reordered), ..ReaderShared::default() }
    }

    /// Highest TRANSPORT_PRIORITY of the matched writers.
    pub(crate) fn priority(&self) -> i32 {
        self.priority.load(Ordering::Relaxed)
    }

    /// Sets the priority.
    pub(super) fn set_priority(&self, priority: i32) {
        if self.priority.swap(priority, Ordering::Relaxed) != priority {
            // Release: a thread that sees the count sees the priority.
            self.reordered.fetch_add(1, Ordering::Release);
        }
    }

    /// Notes that a writer cannot be matched.
    pub(super) fn refuse(&self, why: &str) {
        let mut reason = self.why_inconsistent.lock().unwrap_or_else(PoisonError::into_inner);
        *reason = Some(why.to_owned());
        drop(reason);
        self.inconsistent.fetch_add(1, Ordering::Release);
    }

    /// Notes that samples of this mark are of a type that the reader does not understand.
    pub(super) fn refuse_mark(&self, mark: u32) {
        let mut refused = self.refused.write().unwrap_or_else(PoisonError::into_inner);
        if !refused.contains(&mark) {
            refused.push(mark);
        }
        self.refuses.store(true, Ordering::Release);
    }

    /// Whether the reader leaves out samples of this mark (I-173).
    #[inline(always)]
    pub(crate) fn refuses(&self, mark: u32) -> bool {
        mark != 0 && self.refuses.load(Ordering::Acquire) && self.has_refused(mark)
    }

    #[cold]
    fn has_refused(&self, mark: u32) -> bool {
        self.refused.read().unwrap_or_else(PoisonError::into_inner).contains(&mark)
    }

    /// Sets the streams that bring samples of an ordered topic. All samples from other streams are
    /// queued already.
    pub(crate) fn set_sending(&self, streams: &Arc<[StreamId]>) {
        *self.sending.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(streams));
    }

    /// Gives the reader new policies, which it applies at its next check.
    pub(super) fn set_policies(&self, policies: &Arc<EndpointPolicies>) {
        let policies = Some(Arc::clone(policies));
        *self.new_policies.lock().unwrap_or_else(PoisonError::into_inner) = policies;
        self.has_new_policies.store(true, Ordering::Release);
        self.changes.fetch_add(1, Ordering::Release);
    }

    /// Policies that have changed since the last call, if any.
    #[inline]
    pub(crate) fn take_new_policies(&self) -> Option<Arc<EndpointPolicies>> {
        match self.has_new_policies.load(Ordering::Acquire) {
            true => self.new_policies_that_are_there(),
            false => None,
        }
    }

    /// Policies that have changed, if any, which stay for [`Self::take_new_policies`].
    pub(crate) fn new_policies(&self) -> Option<Arc<EndpointPolicies>> {
        self.has_new_policies.load(Ordering::Acquire).then_some(())?;
        self.new_policies.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    #[cold]
    fn new_policies_that_are_there(&self) -> Option<Arc<EndpointPolicies>> {
        let mut policies = self.new_policies.lock().unwrap_or_else(PoisonError::into_inner);
        self.has_new_policies.store(false, Ordering::Relaxed);
        policies.take()
    }

    /// Notes that a matched writer is ignored from now on.
    pub(super) fn ignore_writer(&self, writer: InstanceHandle) {
        self.ignored_writers.lock().unwrap_or_else(PoisonError::into_inner).push(writer);
        self.has_ignored_writers.store(true, Ordering::Release);
        self.changes.fetch_add(1, Ordering::Release);
    }

    /// Whether there are writers that are ignored since the last
    /// [`take_ignored_writers`](Self::take_ignored_writers).
    pub(crate) fn ignores_writers(&self) -> bool {
        self.has_ignored_writers.load(Ordering::Relaxed)
    }

    /// Writers that are ignored since the last call, if any.
    #[inline]
    pub(crate) fn take_ignored_writers(&self) -> Option<Vec<InstanceHandle>> {
        // Loaded before the swap: the flag is written rarely and read at each check.
        match self.has_ignored_writers.load(Ordering::Relaxed)
            && self.has_ignored_writers.swap(false, Ordering::AcqRel)
        {
            true => Some(std::mem::take(
                &mut *self.ignored_writers.lock().unwrap_or_else(PoisonError::into_inner),
            )),
            false => None,
        }
    }

    /// Discards the queued samples of a source.
    pub(super) fn drop_source(&self, id: SourceId) {
        let mut sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        sources.retain(|source| source.id != id);
        self.changes.fetch_add(1, Ordering::Release);
    }

    /// Ends all sources, because a new life of the participant begins. At its next check the reader
    /// counts the samples queued in the old life. Samples of earlier lives, for which the reader
    /// never checked, stay uncounted.
    pub(super) fn end_sources(&self, new: Life) {
        let mut sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        sources.retain(|source| source.life.next() >= new);
        sources.iter_mut().for_each(|source| source.ended = true);
        drop(sources);
        *self.history.lock().unwrap_or_else(PoisonError::into_inner) = None;
        *self.sending.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.reads_history.store(false, Ordering::Release);
    }
}

/// Position of a record in one order, equal for all readers of the participant (I-212).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct OrderPosition(pub(crate) Life, pub(crate) u64);

/// One writer, or all writers of an ordered topic, as seen by a reader.
#[derive(Clone)]
pub(crate) struct ReaderSource {
    pub(crate) id: SourceId,
    /// Streams that bring the queued samples, indexed by the queue's sender numbers.
    pub(crate) writers: Arc<[StreamId]>,
    pub(crate) inbox: Arc<Inbox>,
    /// Whether the writer is gone, so that no more samples will be queued.
    pub(crate) ended: bool,
    /// Time at which that became known here, in nanoseconds of the wall clock; of an ordered topic
    /// always zero.
    pub(crate) ended_at: u64,
    /// Life of this participant in which the samples are received. They are invalid in any
    /// other life.
    pub(crate) life: Life,
    /// Added to positions in the queue; the sum is the version if samples are kept.
    pub(crate) offset: u64,
}

impl ReaderSource {
    /// The queue. The caller holds the lock of the reader's queues.
    #[inline(always)]
    pub(crate) fn consumer(&self) -> InboxConsumer<'_> {
        // SAFETY: a queue has one reader. All code that takes from it or inspects it is a method of
        // that reader's `Queues`, which a `ThreadLock` gives to one thread at a time.
        unsafe { self.inbox.consumer_unchecked() }
    }

    /// Position of the next sample (I-212). The caller holds the lock of the reader's queues.
    pub(crate) fn position(&self) -> OrderPosition {
        OrderPosition(self.life, self.offset.wrapping_add(self.consumer().place()))
    }

    /// Position of the last taken sample.
    pub(crate) fn last_position(&self) -> OrderPosition {
        let OrderPosition(life, next) = self.position();
        OrderPosition(life, next.wrapping_sub(1))
    }

    /// Sender with a number that `writers` does not contain yet. The machine's list contains that
    /// sender, because the list is updated before any record of a new sender is delivered.
    #[cold]
    pub(crate) fn newcomer(&self, shared: &ReaderShared, number: usize) -> StreamId {
        let sources = shared.sources.lock().unwrap_or_else(PoisonError::into_inner);
        let source = sources.iter().find(|source| source.id == self.id && !source.ended);
        let writer = source.and_then(|source| source.writers.get(number));
        writer.copied().unwrap_or(GONE_SENDER)
    }
}

/// Origin of a queue.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum SourceId {
    /// A stream of one writer.
    Stream(SubscriptionId),
    /// The order of a topic, for the reader of this number.
    Atomic(u64),
}

impl SourceId {
    /// Whether all samples from this source are in one order, independent of the sender.
    pub(crate) fn is_ordered(self) -> bool {
        matches!(self, SourceId::Atomic(_))
    }
}

/// Reason for which an endpoint was not made.
pub(crate) enum EndpointRefusal {
    /// The link has no memory for the endpoint.
    Link(LinkError),
    /// The endpoint is incompatible with existing ones.
    Mismatch(String),
    /// The announcement of the endpoint would be too large.
    TooLarge(String),
    /// This participant is no longer a member.
    Isolated,
}

impl From<LinkError> for EndpointRefusal {
    fn from(error: LinkError) -> EndpointRefusal {
        EndpointRefusal::Link(error)
    }
}

/// State that a writer shares with the machine.
pub(crate) struct WriterShared {
    /// Whether unregistering an instance also disposes it.
    pub(crate) autodispose: AtomicBool,
    /// The writer's statuses.
    pub(crate) board: StatusBoard,
    /// Deadline and liveliness monitoring of the writer.
    pub(crate) timeliness: TimelinessMonitor,
    /// LATENCY_BUDGET in nanoseconds: maximum time for which the wake-up of sleeping readers may
    /// be deferred.
    budget: AtomicU64,
    /// Whether a thread performs deferred wake-ups.
    may_defer_wakeups: AtomicBool,
    /// Whether the writer's samples carry any policy metadata.
    has_policy_metadata: AtomicBool,
    policy_metadata: RwLock<PolicyMetadata>,
    /// Memory of the current life, if the participant has rejoined since the writer was made.
    writer_memory: RwLock<Option<Arc<WriterMemory>>>,
}

impl WriterShared {
    pub(crate) fn new(liveliness: Arc<ParticipantLiveliness>) -> WriterShared {
        WriterShared {
            autodispose: AtomicBool::new(true),
            board: StatusBoard::default(),
            timeliness: TimelinessMonitor::new(liveliness),
            budget: AtomicU64::new(0),
            may_defer_wakeups: AtomicBool::new(false),
            has_policy_metadata: AtomicBool::new(false),
            policy_metadata: RwLock::default(),
            writer_memory: RwLock::new(None),
        }
    }

    /// Whether the writer's samples carry any policy metadata.
    #[inline(always)]
    pub(crate) fn has_policy_metadata(&self) -> bool {
        self.has_policy_metadata.load(Ordering::Relaxed)
    }

    /// Policy metadata of the writer's samples.
    #[inline(always)]
    pub(crate) fn policy_metadata(&self) -> PolicyMetadata {
        match self.has_policy_metadata() {
            true => self.some_policy_metadata(),
            false => PolicyMetadata::default(),
        }
    }

    #[cold]
    fn some_policy_metadata(&self) -> PolicyMetadata {
        self.policy_metadata.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets the policies that the writer's calls need, and the policy metadata of later samples.
    pub(crate) fn set_policies(
        &self,
        policies: &EndpointPolicies,
        policy_metadata: PolicyMetadata,
    ) {
        if let EndpointPolicies::Offered { writer, .. } = policies {
            let lifecycle = &writer.writer_data_lifecycle;
            self.autodispose.store(lifecycle.autodispose_unregistered_instances, Ordering::Relaxed);
            let nanos = writer.latency_budget.duration.nanos().unwrap_or(u64::MAX);
            let may = self.may_defer_wakeups.load(Ordering::Relaxed);
            self.budget.store(if may { nanos } else { 0 }, Ordering::Relaxed);
        }
        self.set_policy_metadata(policy_metadata);
    }

    /// Permits deferred wake-ups, because a thread performs them in time.
    pub(crate) fn allow_deferred_wakeups(&self) {
        self.may_defer_wakeups.store(true, Ordering::Relaxed);
    }

    /// Maximum deferral of wake-ups in nanoseconds.
    #[inline(always)]
    pub(crate) fn budget(&self) -> u64 {
        self.budget.load(Ordering::Relaxed)
    }

    fn set_policy_metadata(&self, policy_metadata: PolicyMetadata) {
        let has_terms = policy_metadata.size() > 0
            || policy_metadata.keyed
            || policy_metadata.offer != RecordedOffer::default();
        *self.policy_metadata.write().unwrap_or_else(PoisonError::into_inner) = policy_metadata;
        self.has_policy_metadata.store(has_terms, Ordering::Release);
    }

    /// Memory of the current life, if the participant has rejoined since the writer was made.
    pub(crate) fn writer_memory(&self) -> Option<Arc<WriterMemory>> {
        self.writer_memory.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Makes the writer write into this memory from now on.
    pub(super) fn set_writer_memory(&self, writer_memory: WriterMemory) {
        *self.writer_memory.write().unwrap_or_else(PoisonError::into_inner) =
            Some(Arc::new(writer_memory));
    }
}

/// Memory and doorbells of a writer in one life of its participant.
#[derive(Clone)]
pub(crate) struct WriterMemory {
    pub(crate) memory: SenderMemory,
    pub(crate) bells: Arc<dyn Bells>,
    pub(crate) life: Life,
}

impl WriterMemory {
    /// Rings the doorbells of readers that see commits directly.
    #[inline(always)]
    pub(crate) fn ring(&self) {
        self.bells.before_looking();
        self.bells.ring(self.memory.audience());
    }

    /// Writes a notice about a writer, between the records of the application: at the same place of
    /// an order for all readers (I-214, I-215).
    ///
    /// # Errors
    /// There is no room for the record, or never will be.
    pub(crate) fn write_notice(&self, notice: &NoticeRecord) -> Result<(), ClaimError> {
        let size = notice.size();
        let claim = self.memory.claim_on(this_thread(), size)?;
        let time = clock::wall(clock::now());
        claim.commit_on(this_thread(), size, |_, record| notice.write(record, time));
        self.ring();
        Ok(())
    }
}

/// Writer that becomes an endpoint of the participant.
pub(crate) struct NewWriter {
    pub(crate) id: u64,
    pub(crate) endpoint: Endpoint,
    pub(crate) geometry: Geometry,
    pub(crate) shared: Arc<WriterShared>,
}

/// Reader that becomes an endpoint of the participant.
pub(crate) struct NewReader {
    pub(crate) id: u64,
    pub(crate) endpoint: Endpoint,
    pub(crate) shared: Arc<ReaderShared>,
    pub(crate) wants_history: bool,
}
