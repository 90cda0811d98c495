//! What entities share with the machine.
//!
//! Owns: a reader's queues and a writer's memory, as both sides see them. Never does: decide what is in them.

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use derecho_core::group::report::StreamId;
use derecho_core::link::{Bells, LinkError};
use derecho_core::multicast::claim::SenderMemory;
use derecho_core::multicast::inbox::{Inbox, Taking};
use derecho_core::node::SubscriptionId;

use super::acquaintance::Acquaintance;
use super::history::{History, NOBODY};
use super::layouts::Layouts;
use super::policies::Policies;
use super::record::{Offer, Terms};
use super::standing::Life;
use super::vigil::{Pulse, Vigil};
use crate::infrastructure::InstanceHandle;
use crate::infrastructure::board::Board;

/// What a reader shares with the machine.
#[derive(Default)]
pub(crate) struct ReaderShared {
    /// The queues of the writers that it is matched with.
    pub(crate) sources: Mutex<Vec<ReaderSource>>,
    /// Counts changes of `sources` and `life`, so that a reader looks at them only after one.
    pub(crate) changes: AtomicU64,
    /// Writers that it is matched with.
    pub(crate) matched: AtomicU32,
    /// The greatest TRANSPORT_PRIORITY of those.
    priority: AtomicI32,
    /// Counts changes of the priorities of its participant's readers.
    reordered: Arc<AtomicU64>,
    /// The streams that bring samples of an ordered topic now; none if it is none, or has not begun. Changes of it are
    /// counted in `changes`.
    pub(crate) sending: Mutex<Option<Arc<[StreamId]>>>,
    /// Of an ordered topic: what it knows of those who write there. Changes of it are counted in `changes`.
    pub(crate) acquaintance: Mutex<Option<Arc<Acquaintance>>>,
    /// Writers that are ignored, and of which its cache does not know that yet.
    parted: Mutex<Vec<InstanceHandle>>,
    has_parted: AtomicBool,
    /// It has policies that its cache does not know of yet.
    has_new_policies: AtomicBool,
    new_policies: Mutex<Option<Arc<Policies>>>,
    /// Its statuses.
    pub(crate) board: Board,
    /// Writers of the same topic that it cannot be matched with.
    pub(crate) inconsistent: AtomicU32,
    /// Why the last of them cannot.
    pub(crate) why_inconsistent: Mutex<Option<String>>,
    /// How samples are marked that come with others in one order, and are of a type that it does not understand.
    refused: RwLock<Vec<u32>>,
    refuses: AtomicBool,
    /// How what writers write lies in memory that were built otherwise.
    pub(crate) layouts: Layouts,
    /// The life of its participant that it is matched in.
    pub(crate) life: Mutex<Life>,
    /// It reads along what is kept.
    pub(crate) reads_history: AtomicBool,
    /// What was kept when it came, in this life, is known here, or nothing is kept.
    pub(crate) knows_history: AtomicBool,
    pub(crate) history: Mutex<Option<Arc<History>>>,
    /// What was kept when it came first and it did not want: of these streams all before these numbers. None until
    /// that is known.
    pub(crate) floor: Mutex<Option<Vec<(StreamId, u64)>>>,
}

impl ReaderShared {
    /// Of a reader that counts changes of its priority there.
    pub(crate) fn new(reordered: &Arc<AtomicU64>) -> ReaderShared {
        ReaderShared { reordered: Arc::clone(reordered), ..ReaderShared::default() }
    }

    /// The greatest TRANSPORT_PRIORITY of the writers that it is matched with.
    pub(crate) fn priority(&self) -> i32 {
        self.priority.load(Ordering::Relaxed)
    }

    /// It has this priority from now on.
    pub(super) fn set_priority(&self, priority: i32) {
        if self.priority.swap(priority, Ordering::Relaxed) != priority {
            // Release: whoever sees the count sees the priority.
            self.reordered.fetch_add(1, Ordering::Release);
        }
    }

    /// It cannot be matched with some writer.
    pub(super) fn refuse(&self, why: &str) {
        let mut place = self.why_inconsistent.lock().unwrap_or_else(PoisonError::into_inner);
        *place = Some(why.to_owned());
        drop(place);
        self.inconsistent.fetch_add(1, Ordering::Release);
    }

    /// Samples of this mark are of a type that it does not understand.
    pub(super) fn leave_out(&self, mark: u32) {
        let mut refused = self.refused.write().unwrap_or_else(PoisonError::into_inner);
        if !refused.contains(&mark) {
            refused.push(mark);
        }
        self.refuses.store(true, Ordering::Release);
    }

    /// Whether samples of this mark are not for it (I-173).
    #[inline(always)]
    pub(crate) fn refuses(&self, mark: u32) -> bool {
        mark != 0 && self.refuses.load(Ordering::Acquire) && self.has_refused(mark)
    }

    #[cold]
    fn has_refused(&self, mark: u32) -> bool {
        self.refused.read().unwrap_or_else(PoisonError::into_inner).contains(&mark)
    }

    /// These bring samples of an ordered topic from now on; all that others have brought is queued already.
    pub(crate) fn is_sent_by(&self, streams: &Arc<[StreamId]>) {
        *self.sending.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(streams));
    }

    /// It has other policies now; it takes them up when it looks next.
    pub(super) fn set_policies(&self, policies: &Arc<Policies>) {
        let policies = Some(Arc::clone(policies));
        *self.new_policies.lock().unwrap_or_else(PoisonError::into_inner) = policies;
        self.has_new_policies.store(true, Ordering::Release);
        self.changes.fetch_add(1, Ordering::Release);
    }

    /// The policies that it has since it was asked last, if they are others.
    #[inline]
    pub(crate) fn take_new_policies(&self) -> Option<Arc<Policies>> {
        match self.has_new_policies.load(Ordering::Acquire) {
            true => self.new_policies_that_are_there(),
            false => None,
        }
    }

    #[cold]
    fn new_policies_that_are_there(&self) -> Option<Arc<Policies>> {
        let mut policies = self.new_policies.lock().unwrap_or_else(PoisonError::into_inner);
        self.has_new_policies.store(false, Ordering::Relaxed);
        policies.take()
    }

    /// A writer that it was matched with is ignored from now on.
    pub(super) fn part_from(&self, writer: InstanceHandle) {
        self.parted.lock().unwrap_or_else(PoisonError::into_inner).push(writer);
        self.has_parted.store(true, Ordering::Release);
        self.changes.fetch_add(1, Ordering::Release);
    }

    /// The writers that are ignored since it was asked last, if there are any.
    #[inline]
    pub(crate) fn take_parted(&self) -> Option<Vec<InstanceHandle>> {
        // Looked at first: it is written when there are some, and read each time.
        match self.has_parted.load(Ordering::Relaxed)
            && self.has_parted.swap(false, Ordering::AcqRel)
        {
            true => Some(std::mem::take(
                &mut *self.parted.lock().unwrap_or_else(PoisonError::into_inner),
            )),
            false => None,
        }
    }

    /// What is queued of a writer is not to be given any more.
    pub(super) fn drop_source(&self, id: SourceId) {
        let mut sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        sources.retain(|source| source.id != id);
        self.changes.fetch_add(1, Ordering::Release);
    }

    /// What is queued is of a life that is over, and a new one begins. The reader counts it when it looks next;
    /// that of still earlier lives, at which nobody has looked at all, goes uncounted.
    pub(super) fn leave_behind(&self, new: Life) {
        let mut sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        sources.retain(|source| source.life.next() >= new);
        sources.iter_mut().for_each(|source| source.ended = true);
        drop(sources);
        *self.history.lock().unwrap_or_else(PoisonError::into_inner) = None;
        *self.sending.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.reads_history.store(false, Ordering::Release);
    }
}

/// Where a record stands among all that a participant's readers of one order get: the same for each of them (I-212).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Place(pub(crate) Life, pub(crate) u64);

/// One writer, or all writers of an ordered topic, as a reader sees them.
#[derive(Clone)]
pub(crate) struct ReaderSource {
    pub(crate) id: SourceId,
    /// Which streams bring what is in the queue, by the queue's numbers for who sends them.
    pub(crate) writers: Arc<[StreamId]>,
    pub(crate) inbox: Arc<Inbox>,
    /// The writer is gone: what is queued is the last of it.
    pub(crate) ended: bool,
    /// The life of this participant in which it was received. Nothing of it is good in another one.
    pub(crate) life: Life,
    /// What the places in the queue are to be added to, so that they are versions where samples are kept.
    pub(crate) offset: u64,
}

impl ReaderSource {
    /// The queue, for whoever has the lock of the reader's queues.
    #[inline(always)]
    pub(crate) fn taking(&self) -> Taking<'_> {
        // SAFETY: a queue has one reader. All that takes from it or asks what waits in it is a method of that reader's `Queues`,
        // which a `ThreadLock` gives to one thread at a time.
        unsafe { self.inbox.alone() }
    }

    /// The place of what is taken next (I-212); for whoever takes.
    pub(crate) fn place(&self) -> Place {
        Place(self.life, self.offset.wrapping_add(self.taking().place()))
    }

    /// The place of what was taken last.
    pub(crate) fn last_place(&self) -> Place {
        let Place(life, next) = self.place();
        Place(life, next.wrapping_sub(1))
    }

    /// Who sends under a number that these writers do not have yet: those of the machine do, for they are
    /// brought up to date before anything of a newcomer's is delivered.
    #[cold]
    pub(crate) fn newcomer(&self, shared: &ReaderShared, number: usize) -> StreamId {
        let sources = shared.sources.lock().unwrap_or_else(PoisonError::into_inner);
        let source = sources.iter().find(|source| source.id == self.id && !source.ended);
        let writer = source.and_then(|source| source.writers.get(number));
        writer.copied().unwrap_or(NOBODY)
    }
}

/// Where a queue comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum SourceId {
    /// A stream of one writer.
    Stream(SubscriptionId),
    /// The order of a topic, for the reader of this number.
    Atomic(u64),
}

impl SourceId {
    /// Whether what it brings has one order, whoever sends it.
    pub(crate) fn is_ordered(self) -> bool {
        matches!(self, SourceId::Atomic(_))
    }
}

/// Why an endpoint was not made.
pub(crate) enum Refusal {
    /// The link has no memory for it.
    Link(LinkError),
    /// It does not go with what is there.
    Mismatch(String),
    /// More is to be announced of it than can be.
    TooLarge(String),
    /// This participant is no member any more.
    Isolated,
}

impl From<LinkError> for Refusal {
    fn from(error: LinkError) -> Refusal {
        Refusal::Link(error)
    }
}

/// What a writer shares with the machine.
pub(crate) struct WriterShared {
    /// Readers that it is matched with.
    pub(crate) matched: AtomicU32,
    /// Unregistering an instance disposes it as well.
    pub(crate) autodispose: AtomicBool,
    /// Its statuses.
    pub(crate) board: Board,
    /// What it has promised to do in time.
    pub(crate) vigil: Vigil,
    /// LATENCY_BUDGET, in nanoseconds: so long readers that sleep may do so although something was written.
    budget: AtomicU64,
    /// Somebody sees to it that they are woken then.
    may_put_off: AtomicBool,
    /// Whether anything goes with its samples.
    has_terms: AtomicBool,
    terms: RwLock<Terms>,
    /// Where it writes since its participant has come in again, if it has since the writer was made.
    berth: RwLock<Option<Arc<Berth>>>,
}

impl WriterShared {
    pub(crate) fn new(pulse: Arc<Pulse>) -> WriterShared {
        WriterShared {
            matched: AtomicU32::new(0),
            autodispose: AtomicBool::new(true),
            board: Board::default(),
            vigil: Vigil::new(pulse),
            budget: AtomicU64::new(0),
            may_put_off: AtomicBool::new(false),
            has_terms: AtomicBool::new(false),
            terms: RwLock::default(),
            berth: RwLock::new(None),
        }
    }

    /// Whether anything goes with its samples.
    #[inline(always)]
    pub(crate) fn has_terms(&self) -> bool {
        self.has_terms.load(Ordering::Relaxed)
    }

    /// What goes with its samples.
    #[inline(always)]
    pub(crate) fn terms(&self) -> Terms {
        match self.has_terms() {
            true => self.some_terms(),
            false => Terms::default(),
        }
    }

    #[cold]
    fn some_terms(&self) -> Terms {
        self.terms.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What its calls have to know of its policies, and what goes with its samples from now on.
    pub(crate) fn set_policies(&self, policies: &Policies, terms: Terms) {
        if let Policies::Offered { writer, .. } = policies {
            let lifecycle = &writer.writer_data_lifecycle;
            self.autodispose.store(lifecycle.autodispose_unregistered_instances, Ordering::Relaxed);
            let nanos = writer.latency_budget.duration.nanos().unwrap_or(u64::MAX);
            let may = self.may_put_off.load(Ordering::Relaxed);
            self.budget.store(if may { nanos } else { 0 }, Ordering::Relaxed);
        }
        self.set_terms(terms);
    }

    /// Somebody sees to it that readers are woken in time that were not at once.
    pub(crate) fn allow_to_put_off(&self) {
        self.may_put_off.store(true, Ordering::Relaxed);
    }

    /// How long readers that sleep may do so although something was written, in nanoseconds.
    #[inline(always)]
    pub(crate) fn budget(&self) -> u64 {
        self.budget.load(Ordering::Relaxed)
    }

    fn set_terms(&self, terms: Terms) {
        let has_terms = terms.size() > 0 || terms.keyed || terms.offer != Offer::default();
        *self.terms.write().unwrap_or_else(PoisonError::into_inner) = terms;
        self.has_terms.store(has_terms, Ordering::Release);
    }

    /// Where it writes since its participant has come in again.
    pub(crate) fn berth(&self) -> Option<Arc<Berth>> {
        self.berth.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// From now on it writes here.
    pub(super) fn move_to(&self, berth: Berth) {
        *self.berth.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(berth));
    }
}

/// Where a writer writes, in one life of its participant.
pub(crate) struct Berth {
    pub(crate) memory: SenderMemory,
    pub(crate) bells: Arc<dyn Bells>,
    pub(crate) life: Life,
}

impl Berth {
    /// Tells those who see commits as they are made that there are some.
    #[inline(always)]
    pub(crate) fn ring(&self) {
        self.bells.before_looking();
        self.bells.ring(self.memory.audience());
    }
}
