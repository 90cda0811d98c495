//! A member's log of the group's views, and what waits for it.
//!
//! Owns: what is put into that log, and the gate through which a member's other logs say that something is durable
//! (I-150). Never does: wait for the log, or decide who restarts; [`book`] has the rule.
//!
//! ```text
//!   Roll errand ──> Enrols, to all ──> each view, and each change of the book, is put ──> durable ──> the gate is open
//!                                                                             └──> Notes, to all, if somebody waits for it
//! ```

use alloc::boxed::Box;
use alloc::collections::{BTreeSet, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::book::{self, Book};
use crate::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::bytes::Wire;
use crate::fault::{Fault, planted};
use crate::ids::NodeId;
use crate::log::views::LoggedView;
use crate::log::{Entry, LogError, LogId, Mark, Version, WallTime};
use crate::membership::View;
use crate::storage::journal::{Answer, Condition, Errand, Journal};

/// While something is on its way to the log it is looked after so often at least.
pub(super) const LOOK: u64 = 1_000_000;
/// So many views wait for the log at most; of more the newest.
const MOST_WAITING: usize = 64;
/// So many streams are told in one message.
const STREAMS_AT_ONCE: usize = 512;

/// What all logs of a member have to go by.
#[derive(Debug, Default)]
pub struct Gate {
    /// It has said to all what it knows.
    enrolled: AtomicBool,
    /// All that it has seen of views is durable in its log.
    settled: AtomicBool,
    /// Its log waits for room.
    full: AtomicBool,
    /// Views are logged no more.
    over: AtomicBool,
}

/// A log of a stream beside a log of views.
pub struct Gated {
    journal: Box<dyn Journal>,
    gate: Arc<Gate>,
    /// What it has said last while the gate was open.
    durable: AtomicU64,
    noted: AtomicU64,
}

impl Gated {
    /// This log, behind this gate.
    pub fn new(journal: Box<dyn Journal>, gate: Arc<Gate>) -> Gated {
        Gated { journal, gate, durable: AtomicU64::new(0), noted: AtomicU64::new(0) }
    }

    /// What is durable, as far as the gate lets it be told.
    fn told(&self, last: &AtomicU64, now: impl FnOnce() -> u64) -> u64 {
        if self.gate.settled.load(Ordering::Acquire) || planted(Fault::DurableBeforeView) {
            last.store(now(), Ordering::Relaxed);
        }
        last.load(Ordering::Relaxed)
    }
}

impl Journal for Gated {
    fn log(&self) -> LogId {
        self.journal.log()
    }

    fn ask(&mut self, errand: &mut Option<Errand>) -> bool {
        // What it claims is heard after what it knows of views.
        self.gate.enrolled.load(Ordering::Acquire) && self.journal.ask(errand)
    }

    fn answer(&mut self) -> Option<Answer> {
        self.journal.answer()
    }

    fn put(&mut self, entry: Entry<'_>) -> bool {
        self.journal.put(entry)
    }

    fn mark(&mut self, mark: Mark) -> bool {
        self.journal.mark(mark)
    }

    fn hand_over(&mut self) {
        self.journal.hand_over();
    }

    fn durable(&self) -> Version {
        Version(self.told(&self.durable, || self.journal.durable().0))
    }

    fn noted(&self) -> u64 {
        self.told(&self.noted, || self.journal.noted())
    }

    fn condition(&self) -> Condition {
        // What is wrong with the log itself says more.
        let own = self.journal.condition();
        if own.is_over() {
            return own;
        }
        match (self.gate.over.load(Ordering::Acquire), self.gate.full.load(Ordering::Acquire)) {
            (true, _) => Condition::Failed(Some(LogError::NoViews)),
            (false, true) => Condition::Full,
            (false, false) => own,
        }
    }
}

/// See the [module](self).
pub(super) struct Chronicle {
    journal: Box<dyn Journal>,
    gate: Arc<Gate>,
    errand: Option<Errand>,
    asked: bool,
    /// The version of the last view that was put, once the log is open.
    put: Option<u64>,
    /// The newest view that was seen, as it is logged.
    last: Option<LoggedView>,
    /// Views that the log has still to take, and how many had enrolled then.
    waiting: VecDeque<(LoggedView, u64)>,
    /// The same of those that are not known to be durable, by their versions.
    unsynced: VecDeque<(u64, u64)>,
    /// So many who have enrolled are in the log for good, and so many it has said are.
    synced: u64,
    noted: u64,
    over: bool,
}

impl Chronicle {
    pub(super) fn new(journal: Box<dyn Journal>) -> Chronicle {
        Chronicle {
            journal,
            gate: Arc::default(),
            errand: Some(Errand::Roll),
            asked: false,
            put: None,
            last: None,
            waiting: VecDeque::new(),
            unsynced: VecDeque::new(),
            synced: 0,
            noted: 0,
            over: false,
        }
    }

    pub(super) fn gate(&self) -> Arc<Gate> {
        Arc::clone(&self.gate)
    }

    /// Whether it is to be looked after soon.
    pub(super) fn is_busy(&self) -> bool {
        let is_asking = self.asked || self.errand.is_some();
        !self.over && (is_asking || !self.waiting.is_empty() || !self.unsynced.is_empty())
    }

    /// Takes in what is seen of views now, and goes on. Returns how much was done, and what is to be said to all.
    pub(super) fn turn(
        &mut self,
        (book, view, me): (&Book, &View, NodeId),
        leans: &BTreeSet<LogId>,
    ) -> (usize, Vec<book::Entry>) {
        let mut said = Vec::new();
        if self.over {
            return (0, said);
        }
        if let Some(now) = book.record(view, me, leans) {
            self.see(now, book.changes());
        }
        let mut done = self.enrol(&mut said);
        done += self.write();
        let condition = self.journal.condition();
        self.gate.full.store(condition == Condition::Full, Ordering::Release);
        if self.over || condition.is_over() {
            self.over = true;
            self.gate.over.store(true, Ordering::Release);
            return (done + 1, Vec::new());
        }
        if self.synced > self.noted && book.lacks_note_of(me) {
            self.noted = self.synced;
            said.push(book::Entry::Notes(self.synced));
        }
        (done, said)
    }

    fn see(&mut self, now: LoggedView, enrolled: u64) {
        if self.last.as_ref() == Some(&now) {
            return;
        }
        // From here on nothing that is delivered counts before this does.
        self.gate.settled.store(false, Ordering::Release);
        if self.waiting.len() == MOST_WAITING {
            self.waiting.pop_front();
        }
        self.waiting.push_back((now.clone(), enrolled));
        self.last = Some(now);
    }

    /// Has the last view looked up, and tells what was found.
    fn enrol(&mut self, said: &mut Vec<book::Entry>) -> usize {
        if self.errand.is_some() && !self.asked {
            self.asked = self.journal.ask(&mut self.errand);
        }
        if !self.asked {
            return 0;
        }
        match self.journal.answer() {
            None => return 0,
            Some(Answer::Rolled(roll, streams)) => {
                let some = streams.chunks(STREAMS_AT_ONCE);
                said.extend(some.map(|some| book::Entry::Has(some.to_vec())));
                said.push(book::Entry::Enrols(roll));
                self.put = Some(self.journal.durable().0);
                self.gate.enrolled.store(true, Ordering::Release);
            }
            Some(_) => self.over = true,
        }
        self.asked = false;
        1
    }

    fn write(&mut self) -> usize {
        let Some(put) = &mut self.put else { return 0 };
        let mut done = 0;
        while let Some((view, enrolled)) = self.waiting.front() {
            if !self.journal.put(view.entry(&view.to_bytes(), WallTime(0))) {
                break;
            }
            *put += 1;
            self.unsynced.push_back((*put, *enrolled));
            self.waiting.pop_front();
            done += 1;
        }
        if !self.unsynced.is_empty() {
            self.journal.hand_over();
        }
        let durable = self.journal.durable().0;
        while let Some((_, enrolled)) = self.unsynced.pop_front_if(|next| next.0 <= durable) {
            (self.synced, done) = (enrolled, done + 1);
        }
        let is_settled = self.last.is_some() && self.waiting.is_empty() && self.unsynced.is_empty();
        if is_settled && !self.gate.settled.swap(true, Ordering::AcqRel) {
            done += 1;
        }
        done
    }
}
