//! The queues of the writers that a reader is matched with, as the application's side last saw them.
//!
//! Owns: which of them is looked at next, and what must not be given out twice. Never does: decode a record.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use derecho_core::group::report::StreamId;
use derecho_core::multicast::inbox::Record;

use crate::mapping::history::{Given, History, Look};
use crate::mapping::shares::{ReaderShared, ReaderSource};
use crate::mapping::standing::{Life, Standing};

/// The queues as the application's side last saw them.
#[derive(Default)]
pub(super) struct Queues {
    pub(super) sources: Vec<ReaderSource>,
    /// The change of [`ReaderShared`] that they are from.
    pub(super) seen: u64,
    /// Where to look first: each take goes on behind the last, so that no writer starves another.
    next: usize,
    /// Records that were received in a life of the participant that is over, and never taken.
    pub(super) discarded: u64,
    /// What was given out, if it may come again: it is kept, and the participant may come back.
    given: Option<Given>,
}

impl Queues {
    /// None yet.
    pub(super) fn remembering(given: Option<Given>) -> Queues {
        Queues { given, ..Queues::default() }
    }

    #[cold]
    pub(super) fn renew(&mut self, shared: &ReaderShared, changes: u64) {
        let life = *shared.life.lock().unwrap_or_else(PoisonError::into_inner);
        let mut sources = shared.sources.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut self.given {
            // What is kept comes again.
            Some(given) => {
                let floor = shared.floor.lock().unwrap_or_else(PoisonError::into_inner);
                floor.iter().flatten().for_each(|(stream, next)| given.pass(*stream, *next));
            }
            None => {
                let left_behind = sources.iter().filter(|source| source.life != life);
                self.discarded += left_behind.map(|source| source.inbox.len() as u64).sum::<u64>();
            }
        }
        sources.retain(|source| source.life == life && !(source.ended && source.inbox.is_empty()));
        self.sources.clone_from(&sources);
        self.seen = changes;
    }

    /// The next record, the stream that it came by, and the life that it was received in: of the writer that the
    /// last one came from, if it has any.
    #[inline(always)]
    pub(super) fn take(&mut self, shared: &ReaderShared) -> Option<(Record, StreamId, Life)> {
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

    /// What is kept, as long as the reader reads along it.
    fn history(&self, shared: &ReaderShared) -> Option<Arc<History>> {
        if !shared.reads_history.load(Ordering::Acquire) {
            return None;
        }
        let mut history = shared.history.lock().unwrap_or_else(PoisonError::into_inner);
        if history.as_ref().is_none_or(|history| history.is_over(self.given.as_ref())) {
            // What comes now comes by a queue.
            *history = None;
            shared.reads_history.store(false, Ordering::Release);
        }
        history.clone()
    }

    /// The next record along what is kept.
    pub(super) fn take_kept(&mut self, shared: &ReaderShared, standing: &Standing) -> Look {
        let Some(history) = self.history(shared) else { return Look::Over };
        if !standing.is_in(history.life) {
            return Look::NoneYet;
        }
        let look = history.take(self.given.as_ref());
        if let Look::Kept(kept, stream) = &look {
            // This process may have been stopped while it was copied, from memory that is others' again.
            if standing.is_evicted_from(history.life) {
                return Look::NoneYet;
            }
            self.note(*stream, kept.number());
        }
        look
    }

    pub(super) fn note(&mut self, stream: StreamId, number: u64) {
        if let Some(given) = &mut self.given {
            given.note(stream, number);
        }
    }

    /// Whether a record waits, in the present life.
    pub(super) fn has_any(&self, shared: &ReaderShared, standing: &Standing) -> bool {
        if let Some(history) = self.history(shared)
            && standing.is_in(history.life)
            && history.has_next(self.given.as_ref())
        {
            return true;
        }
        let waits = |source: &ReaderSource| !source.inbox.is_empty() && standing.is_in(source.life);
        self.sources.iter().any(waits)
    }

    /// Whether what waits holds up a writer, or soon will: half of the memory of one is in use by readers here.
    pub(super) fn hold_up(&self) -> bool {
        self.sources.iter().any(|source| source.inbox.holds_up())
    }

    /// How many wait, at most.
    pub(super) fn waiting(&self, shared: &ReaderShared) -> usize {
        match self.history(shared) {
            Some(history) if history.has_next(self.given.as_ref()) => history.len(),
            Some(_) => 0,
            None => self.sources.iter().map(|source| source.inbox.len()).sum(),
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
