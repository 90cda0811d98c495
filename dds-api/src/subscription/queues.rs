//! The queues of the writers that a reader is matched with, as the application's side last saw them.
//!
//! Owns: which of them is looked at next, and what must not be given out twice. Never does: decode a record.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use derecho_core::group::report::StreamId;
use derecho_core::multicast::inbox::Record;
use derecho_core::storage::cursor::Kept;
use derecho_node::clock;

use super::departures::Departures;
use super::lending::Lending;
use crate::mapping::acquaintance::{Acquaintance, Verdict};
use crate::mapping::history::{Given, History, Look};
use crate::mapping::record::{NEVER, expiry_of, is_end, origin};
use crate::mapping::set::OF_SEVERAL;
use crate::mapping::shares::{Place, ReaderShared, ReaderSource};
use crate::mapping::standing::{Life, Standing};

/// Where a reader stands in an order that it shares with other readers of its participant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Head {
    /// It has no part in the order yet: whatever it gets comes later.
    Nowhere,
    /// What it is to have next is here.
    At(Place),
    /// What is here has not come, or it is not known yet whether it is to have it.
    Waits(Place),
}

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
    /// The life of the participant that they are of.
    life: Life,
    /// What comes next, if it was looked at already.
    front: Option<(Record, StreamId, Life)>,
    /// Its place, if it cannot be seen any more where it was taken from.
    front_place: Option<Place>,
    /// The same along what is kept.
    front_kept: Option<(Kept, StreamId)>,
    /// Of an ordered topic: what is known of those who write there.
    known: Option<Arc<Acquaintance>>,
    /// The last writer that was accepted, as the queue of this source knows it: most samples are of the same as the one before.
    accepted: Option<(usize, usize, u32)>,
    /// What was given out, if it may come again: it is kept, and the participant may come back.
    given: Option<Given>,
    /// Of an ordered topic: the queue that was taken from last, and the set of its senders.
    place: Option<(usize, u64)>,
    /// Who sends no more.
    departures: Arc<Departures>,
    /// What may be lent.
    pub(super) lending: Lending,
    /// LIFESPAN of the topic, in nanoseconds; zero if only writers say how long their samples are of use.
    lifespan: u64,
}

/// Whether a time has come, by the wall clock, at which something is out of date.
#[inline(always)]
pub(super) fn is_over(expiry: u64) -> bool {
    expiry != NEVER && has_come(expiry)
}

/// A record that the reader is not to have is let go of, apart from those that it is: they are not to be looked at by their address.
#[cold]
pub(super) fn pass_over(_: Record) {}

#[cold]
fn has_come(expiry: u64) -> bool {
    expiry <= clock::wall(clock::now())
}

impl Queues {
    /// None yet.
    pub(super) fn new(
        given: Option<Given>,
        departures: &Arc<Departures>,
        (lifespan, max_held_percent): (u64, u8),
    ) -> Queues {
        let (departures, lending) = (Arc::clone(departures), Lending::new(max_held_percent));
        Queues { given, departures, lending, lifespan, ..Queues::default() }
    }

    /// LIFESPAN: whether it is too late for a record.
    #[inline(always)]
    fn is_late(&self, record: &[u8]) -> bool {
        is_over(expiry_of(record, self.lifespan))
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
                self.discarded +=
                    left_behind.map(|source| source.taking().len() as u64).sum::<u64>();
                let front = self.front.as_ref().filter(|(_, _, of)| *of != life);
                self.discarded += front.map_or(0, |_| 1);
            }
        }
        if self.life != life {
            // What was looked at comes again if it is kept, and is not to be taken any more if it is not.
            (self.front, self.front_kept, self.life) = (None, None, life);
            // Whoever writes in the new one is heard of anew.
            self.departures.note_others_than(Vec::new());
        }
        let known = shared.acquaintance.lock().unwrap_or_else(PoisonError::into_inner);
        (self.known, self.accepted) = (known.clone(), None);
        drop(known);
        sources
            .retain(|source| source.life == life && !(source.ended && source.taking().is_empty()));
        self.front_place = self.place_of_front();
        self.sources.clone_from(&sources);
        self.seen = changes;
        self.place = None;
        if self.sources.iter().any(|source| source.id.is_ordered()) {
            // What has ended comes first.
            self.next = 0;
        }
    }

    /// The next record that the reader is to have, the stream that it came by, and the life that it was received in: of the
    /// writer that the last one came from, if it has any.
    #[inline(always)]
    pub(super) fn take(&mut self, shared: &ReaderShared) -> Option<(Record, StreamId, Life)> {
        loop {
            // Looked at first: to take it moves it, also where there is none.
            let (record, writer, life) = match self.front {
                Some(_) => self.take_front()?,
                None => {
                    self.front_place = None;
                    self.take_any(shared)?
                }
            };
            match self.judge(&record, writer) {
                Verdict::Yes => return Some((record, writer, life)),
                Verdict::No => pass_over(record),
                Verdict::NotYet => {
                    self.put_back(record, writer, life);
                    return None;
                }
            }
        }
    }

    #[cold]
    fn take_front(&mut self) -> Option<(Record, StreamId, Life)> {
        self.front.take()
    }

    /// What was taken last comes next.
    #[cold]
    pub(super) fn put_back(&mut self, record: Record, stream: StreamId, life: Life) {
        self.front = Some((record, stream, life));
    }

    /// The next record, whoever wrote it.
    #[inline(always)]
    fn take_any(&mut self, shared: &ReaderShared) -> Option<(Record, StreamId, Life)> {
        loop {
            if let Some(source) = self.sources.get(self.next)
                && let Some(record) = source.taking().take()
            {
                let writer = match source.writers.get(record.sender()) {
                    Some(writer) => *writer,
                    // It has joined since these were brought up to date.
                    None => source.newcomer(shared, record.sender()),
                };
                let life = source.life;
                if source.id.is_ordered() {
                    let place = Some((self.next, source.inbox.passed()));
                    if self.place != place {
                        self.place = place;
                        self.note_senders(shared);
                    }
                }
                return Some((record, writer, life));
            }
            if !self.turn_to_another() {
                return None;
            }
        }
    }

    /// What was taken is of another epoch than what was taken before: those who send in that are there, and nobody else.
    #[cold]
    fn note_senders(&self, shared: &ReaderShared) {
        let Some(source) = self.sources.get(self.next) else { return };
        let known = |number: usize| source.writers.get(number).copied();
        let taking = source.taking();
        let streams =
            taking.senders().map(|it| known(it).unwrap_or_else(|| source.newcomer(shared, it)));
        self.departures.note_others_than(streams.collect());
    }

    /// Whether the reader is to have a record.
    #[inline(always)]
    fn judge(&mut self, record: &Record, stream: StreamId) -> Verdict {
        if self.is_late(record.bytes()) {
            return Verdict::No;
        }
        if self.known.is_none() {
            return Verdict::Yes;
        }
        let origin = origin(record.bytes());
        let from = Some((self.next, record.sender(), origin.writer));
        if origin.names.is_none() && self.accepted == from {
            return Verdict::Yes;
        }
        let verdict = self.judge_anew(stream, record.bytes());
        let is_of_one = origin.names.is_none() && origin.writer != OF_SEVERAL;
        if is_of_one && verdict == Verdict::Yes {
            self.accepted = from;
        }
        verdict
    }

    #[cold]
    fn judge_anew(&self, stream: StreamId, record: &[u8]) -> Verdict {
        self.known.as_ref().map_or(Verdict::Yes, |known| known.judge(stream.node, record))
    }

    /// What is kept, as long as the reader reads along it.
    fn history(&self, shared: &ReaderShared) -> Option<Arc<History>> {
        if !shared.reads_history.load(Ordering::Acquire) {
            return None;
        }
        let mut history = shared.history.lock().unwrap_or_else(PoisonError::into_inner);
        let is_over = |history: &Arc<History>| history.is_over(self.given.as_ref());
        if self.front_kept.is_none() && history.as_ref().is_none_or(is_over) {
            // What comes now comes by a queue.
            *history = None;
            shared.reads_history.store(false, Ordering::Release);
        }
        history.clone()
    }

    /// The next record along what is kept that the reader is to have.
    pub(super) fn take_kept(&mut self, shared: &ReaderShared, standing: &Standing) -> Look {
        let look = self.find_kept(shared, standing);
        if let Look::Kept(kept, stream) = &look {
            self.note(*stream, kept.number());
        }
        look
    }

    /// The same, and it is not given out yet.
    fn find_kept(&mut self, shared: &ReaderShared, standing: &Standing) -> Look {
        let Some(history) = self.history(shared) else { return Look::Over };
        if !standing.is_in(history.life) {
            return Look::NoneYet;
        }
        loop {
            let (kept, stream) = match self.front_kept.take() {
                Some(front) => front,
                None => {
                    match history.take(self.given.as_ref(), |gone| self.departures.note(gone)) {
                        Look::Kept(kept, stream) => (kept, stream),
                        none => return none,
                    }
                }
            };
            // This process may have been stopped while it was copied, from memory that is others' again.
            if standing.is_evicted_from(history.life) {
                return Look::NoneYet;
            }
            let verdict = match self.is_late(kept.bytes()) {
                true => Verdict::No,
                false => self.judge_anew(stream, kept.bytes()),
            };
            match verdict {
                Verdict::Yes => return Look::Kept(kept, stream),
                Verdict::No => self.note(stream, kept.number()),
                Verdict::NotYet => {
                    self.front_kept = Some((kept, stream));
                    return Look::NoneYet;
                }
            }
        }
    }

    pub(super) fn note(&mut self, stream: StreamId, number: u64) {
        if let Some(given) = &mut self.given {
            given.note(stream, number);
        }
    }

    /// Whether a record waits that the reader is to have, in the present life. That a writer is no more is something to who
    /// follows instances, and to nobody else.
    pub(super) fn has_any(
        &mut self,
        (shared, standing): (&ReaderShared, &Standing),
        follows: bool,
    ) -> bool {
        while let Look::Kept(kept, stream) = self.find_kept(shared, standing) {
            if follows || !is_end(kept.bytes()) {
                self.front_kept = Some((kept, stream));
                return true;
            }
            self.note(stream, kept.number());
        }
        while self.known.is_some() {
            // Only a look at it says whether the reader is to have it.
            let Some((record, stream, life)) = self.take(shared) else { return false };
            if follows || !is_end(record.bytes()) {
                self.front = Some((record, stream, life));
                return standing.is_in(life);
            }
            self.note(stream, record.number());
        }
        let present = self.sources.iter().filter(|source| standing.is_in(source.life));
        present.into_iter().any(|source| {
            // What is out of date is none, and holds nobody up.
            while source.taking().next_is(|record| self.is_late(record)) {
                source.taking().take();
            }
            !source.taking().is_empty()
        })
    }

    /// Where it stands in its topic's order.
    pub(super) fn head(&mut self, shared: &ReaderShared, standing: &Standing) -> Head {
        match self.find_kept(shared, standing) {
            Look::Kept(kept, stream) => {
                let place = Place(self.life, kept.version());
                self.front_kept = Some((kept, stream));
                return Head::At(place);
            }
            Look::NoneYet => {
                let version = match (&self.front_kept, self.history(shared)) {
                    (Some((kept, _)), _) => kept.version(),
                    (None, Some(history)) => history.place(),
                    (None, None) => return Head::Nowhere,
                };
                return Head::Waits(Place(self.life, version));
            }
            Look::Over => {}
        }
        let next = self.take(shared);
        let is_known = next.is_some();
        self.front = next.or(self.front.take());
        match (self.place_of_front(), self.sources.last()) {
            (Some(place), _) if is_known => Head::At(place),
            (Some(place), _) => Head::Waits(place),
            (None, Some(source)) => Head::Waits(source.place()),
            (None, None) => Head::Nowhere,
        }
    }

    /// The place of what comes next, if it was looked at already.
    fn place_of_front(&self) -> Option<Place> {
        self.front.as_ref()?;
        self.front_place.or_else(|| self.sources.get(self.next).map(ReaderSource::last_place))
    }

    /// Whether what waits holds up a writer, or soon will: half of the memory of one is in use by readers here.
    pub(super) fn hold_up(&self) -> bool {
        self.sources.iter().any(|source| source.taking().holds_up())
    }

    /// How many wait, at most.
    pub(super) fn waiting(&self, shared: &ReaderShared) -> usize {
        match self.history(shared) {
            Some(history) => {
                let waits = usize::from(self.front_kept.is_some());
                let next = history.has_next(self.given.as_ref());
                waits + if next { history.len() } else { 0 }
            }
            None => {
                let queued: usize = self.sources.iter().map(|source| source.taking().len()).sum();
                queued + usize::from(self.front.is_some())
            }
        }
    }

    /// Turns to the next writer of which a record waits, or says that there is none.
    #[cold]
    fn turn_to_another(&mut self) -> bool {
        let count = self.sources.len();
        let waits = |index: &usize| !self.sources[*index].taking().is_empty();
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
