//! Writer of a member's log of one subgroup: the log follows what is put into a store (I-104), or
//! applied to an object (I-110).
//!
//! Owns: the progress of the log towards following, and what is put into it next. Never does: wait
//! for the log; what it does not accept now is put later.
//!
//! ```text
//!   Away ──claim──> Claimed ──named──> loads what the log will follow ──────────────────> Follows
//!                      │                                                                     ^
//!                      '──receives it──> completes ──if impossible──> is replaced by a state ┘
//! ```

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::errands::Recalled;
use super::journal::{Answer, Condition, Errand, Journal};
use super::logbook::Claim;
use super::parcel::RECORD_HEAD;
use super::state::State;
use super::store::Store;
use crate::fault::{Fault, planted};
use crate::log::{Entry, EpochId, LogId, Mark, OwnedRecord, Tail, Version};

/// Maximum number of bytes that are in the store but not yet in the log; beyond it, delivered
/// records wait.
pub const MOST_BEHIND: u64 = 64 << 20;
/// Maximum number of bytes put into the log in one turn; the rest follows in later turns.
const A_TURN: u64 = 4 << 20;
/// Number of attempts to complete from a log that may lag behind its member; attempts are at least
/// a turn apart.
const PATIENCE: u32 = 1_000;

/// Messages that a log follows, in order, each with the number of messages before it.
pub(crate) trait Trail {
    /// Further data needed for reading.
    type Beside<'a>: Copy;

    /// Returns the version of the next message, if there is one.
    fn peek(&mut self) -> Option<u64>;

    /// Returns the next message, which must exist.
    fn entry<'a, 'b: 'a>(&'a self, beside: Self::Beside<'b>, epoch: EpochId) -> Entry<'a>;

    /// Moves past the next message.
    fn pass(&mut self);

    /// One past the version of the last message that was passed.
    fn passed(&self) -> u64;

    /// Number of messages, including those that will still arrive here.
    fn end(&self, beside: Self::Beside<'_>) -> u64;

    /// Skips all messages before this version.
    fn skip_to(&mut self, version: u64);

    /// Returns the state that replaces all messages before this version, where the trail began.
    fn state(&mut self, beside: Self::Beside<'_>, of: (EpochId, u64)) -> State;
}

#[derive(Debug)]
enum Stage {
    Away,
    Claims(u64),
    Claimed(u64),
    Loads,
    /// The log must be completed up to the beginning of the store.
    Completes,
    Replaces,
    Follows,
    Over,
}

/// Result of a request to the log.
pub(crate) enum News {
    Claimed(u64, Box<Claim>),
    Loaded(Box<Store>),
    Recalled(Box<Recalled>),
    /// The log follows, or may be asked again.
    Moved,
    /// The log accepts nothing more.
    Over,
}

/// Change of epoch at a version.
struct Turning {
    version: u64,
    epoch: EpochId,
    keepers: Vec<LogId>,
}

/// Writer of a log; see the [module](self).
pub(crate) struct Scribe<T> {
    journal: Box<dyn Journal>,
    stage: Stage,
    errand: Option<Errand>,
    asked: bool,
    /// Version at which the trail began.
    begin: u64,
    /// Version from which on the log follows, and the logs that have the messages before it.
    cut: u64,
    of: Vec<LogId>,
    /// End of the log from which the subgroup began, and the era.
    began: (Tail, u64),
    /// Number of further attempts.
    patience: u32,
    /// Vacancy in which a log that follows claims again.
    again: Option<u64>,
    trail: Option<T>,
    turnings: VecDeque<Turning>,
    epoch: EpochId,
    keepers: Vec<LogId>,
    /// Marks that the log must still accept.
    marks: VecDeque<Mark>,
    /// Number of marks accepted, and those among them that name logs and may not be durable yet.
    noted: u64,
    naming: VecDeque<(u64, Vec<LogId>)>,
    /// Logs that its last durable mark names.
    names: Vec<LogId>,
    /// State that replaces all messages before this version, once the log has reached the version.
    checkpoint: Option<(u64, OwnedRecord)>,
    /// Bytes that the log has accepted, and bytes that it must accept.
    bytes: u64,
    wanted: u64,
}

impl<T: Trail> Scribe<T> {
    pub(crate) fn new(journal: Box<dyn Journal>) -> Scribe<T> {
        Scribe {
            journal,
            stage: Stage::Away,
            errand: None,
            asked: false,
            begin: 0,
            cut: 0,
            of: Vec::new(),
            began: (Tail::default(), 0),
            patience: 0,
            again: None,
            trail: None,
            turnings: VecDeque::new(),
            epoch: EpochId::default(),
            keepers: Vec::new(),
            marks: VecDeque::new(),
            noted: 0,
            naming: VecDeque::new(),
            names: Vec::new(),
            checkpoint: None,
            bytes: 0,
            wanted: 0,
        }
    }

    /// Returns a writer of the same log for a member that begins again.
    pub(crate) fn begin_again(mut self) -> Scribe<T> {
        let over = matches!(self.stage, Stage::Over);
        self.journal.hand_over();
        let (errand, asked, noted) = (self.errand.take(), self.asked, self.noted);
        let mut again = Scribe::new(self.journal);
        again.noted = noted;
        // The outstanding request is still answered, and the answer is ignored.
        (again.errand, again.asked) = (errand, asked);
        again.stage = if over { Stage::Over } else { Stage::Away };
        again
    }

    pub(crate) fn condition(&self) -> Condition {
        self.journal.condition()
    }

    /// Last durable version of a log that follows.
    pub(crate) fn durable(&self) -> u64 {
        match self.stage {
            Stage::Follows => self.journal.durable().0,
            _ => 0,
        }
    }

    /// Whether the log follows, or is over.
    pub(crate) fn is_settled(&self) -> bool {
        matches!(self.stage, Stage::Follows | Stage::Over)
    }

    /// Whether the log holds every message before the ones that are being appended.
    pub(crate) fn is_complete(&self) -> bool {
        matches!(self.stage, Stage::Follows)
    }

    /// Whether it waits for an answer or for durability, or has a request to make.
    pub(crate) fn is_busy(&self) -> bool {
        match self.stage {
            Stage::Follows => {
                let unnamed = !self.naming.is_empty() || !self.marks.is_empty();
                let lacking = self.bytes < self.wanted || self.journal.durable().0 < self.put();
                let pending = self.checkpoint.is_some() || self.errand.is_some();
                lacking || unnamed || pending || self.asked
            }
            Stage::Over | Stage::Away => self.asked,
            Stage::Claimed(_) => false,
            _ => true,
        }
    }

    /// One past the last version that was put.
    fn put(&self) -> u64 {
        self.trail.as_ref().map_or(0, Trail::passed)
    }

    /// Returns the trail, once it was set.
    pub(crate) fn trail_mut(&mut self) -> Option<&mut T> {
        self.trail.as_mut()
    }

    /// Log that it writes.
    pub(crate) fn log(&self) -> LogId {
        self.journal.log()
    }

    /// Whether it can take a state that replaces all messages before this version: no message from
    /// that version on was put.
    pub(crate) fn takes_checkpoint(&self, version: u64) -> bool {
        let is_free = self.checkpoint.is_none() && !self.asked && self.errand.is_none();
        is_free && matches!(self.stage, Stage::Follows) && version >= self.put()
    }

    /// Sets a state that replaces all messages before this version as soon as the log has reached
    /// the version. The caller must have checked that the writer
    /// [can take](Scribe::takes_checkpoint) it.
    pub(crate) fn put_checkpoint(&mut self, version: u64, state: OwnedRecord) {
        self.checkpoint = Some((version, state));
    }

    /// Whether the log is so far behind that delivered records must wait.
    pub(crate) fn holds_up(&self) -> bool {
        matches!(self.stage, Stage::Follows) && self.wanted - self.bytes > MOST_BEHIND
    }

    /// Notes that the store has grown by this number of bytes.
    pub(crate) fn grows(&mut self, bytes: u64) {
        self.wanted += bytes;
    }

    /// Whether it may claim in this vacancy, and has not done so.
    pub(crate) fn may_claim(&self, vacancy: u64) -> bool {
        match self.stage {
            Stage::Away => !self.asked,
            Stage::Claimed(of) => of != vacancy,
            _ => false,
        }
    }

    /// Begins a claim: examines the logs. `vacant` says that no member has the store.
    pub(crate) fn claim(&mut self, vacancy: u64, vacant: bool) {
        if matches!(self.stage, Stage::Away | Stage::Claimed(_)) && !self.asked {
            (self.stage, self.errand) = (Stage::Claims(vacancy), Some(Errand::Claim(vacant)));
        }
    }

    /// Claims again with a log that follows, because no former holder knows of it (I-113).
    pub(crate) fn claim_again(&mut self, vacancy: u64) {
        if matches!(self.stage, Stage::Follows) && !self.asked && self.errand.is_none() {
            (self.again, self.errand) = (Some(vacancy), Some(Errand::Claim(false)));
        }
    }

    /// Builds what the log will follow by this errand, because this log won.
    pub(crate) fn load(&mut self, errand: impl FnOnce() -> Errand) {
        if matches!(self.stage, Stage::Away | Stage::Claimed(_)) && !self.asked {
            (self.stage, self.errand) = (Stage::Loads, Some(errand()));
        }
    }

    /// Begins to follow: the messages along the trail, from version `begin` on, are put into the
    /// log. The logs `of` of the holders have the messages before it that may be missing.
    pub(crate) fn follow(
        &mut self,
        (trail, begin): (T, u64),
        (base, era): (Tail, u64),
        of: Vec<LogId>,
    ) {
        self.began = (base, era);
        // Messages from before this beginning are in the log from which it began, as it was then.
        let cut = begin.max(base.version.0);
        match self.stage {
            Stage::Loads => (self.stage, self.epoch) = (Stage::Follows, base.epoch),
            Stage::Claimed(_) => {
                (self.stage, self.patience) = (Stage::Completes, PATIENCE);
                self.errand = Some(Errand::Complete(of.clone(), Version(cut), self.began));
                self.of = of;
            }
            _ => return,
        }
        (self.begin, self.cut) = (begin, cut);
        (self.trail, self.bytes) = (Some(trail), self.wanted);
        if matches!(self.stage, Stage::Follows) {
            self.skip();
        }
    }

    /// Whether it must be told where the trail begins.
    pub(crate) fn awaits_trail(&self) -> bool {
        matches!(self.stage, Stage::Claimed(_))
    }

    /// Skips all messages before the cut, which are in the log or in its checkpoint.
    fn skip(&mut self) {
        self.forget_turnings();
        if let Some(trail) = self.trail.as_mut().filter(|_| !planted(Fault::AppendedTwice)) {
            trail.skip_to(self.cut);
        }
    }

    /// Drops changes of epoch up to the cut, except the last one, which must still be marked.
    fn forget_turnings(&mut self) {
        while self.turnings.get(1).is_some_and(|next| next.version <= self.cut) {
            self.turnings.pop_front();
        }
    }

    /// Notes that messages from this version on belong to this epoch, and which logs keep them.
    pub(crate) fn turning(&mut self, version: u64, epoch: EpochId, keepers: Vec<LogId>) {
        let known = self.turnings.back().map_or(self.epoch, |last| last.epoch);
        if (known, self.last_noted()) != (epoch, &keepers[..]) {
            self.turnings.push_back(Turning { version, epoch, keepers });
        }
    }

    /// Logs that keep later messages, according to the last change of epoch.
    pub(crate) fn last_noted(&self) -> &[LogId] {
        self.turnings.back().map_or(&self.keepers, |last| &last.keepers)
    }

    /// Advances. Returns how much was done, and the result of a request, if any.
    pub(crate) fn turn(&mut self, beside: T::Beside<'_>) -> (usize, Option<News>) {
        if self.journal.condition().is_over() && !matches!(self.stage, Stage::Over) {
            return (1, Some(self.give_up()));
        }
        let noted = self.journal.noted();
        while let Some((_, names)) = self.naming.pop_front_if(|next| next.0 <= noted) {
            self.names = names;
        }
        if self.errand.is_some() && !self.asked {
            self.asked = self.journal.ask(&mut self.errand);
        }
        if self.asked
            && let Some(answer) = self.journal.answer()
        {
            self.asked = false;
            return (1, self.answered(answer, beside));
        }
        match self.stage {
            Stage::Follows => (self.write(beside), None),
            _ => (0, None),
        }
    }

    fn give_up(&mut self) -> News {
        (self.stage, self.trail, self.checkpoint) = (Stage::Over, None, None);
        News::Over
    }

    fn answered(&mut self, answer: Answer, beside: T::Beside<'_>) -> Option<News> {
        match (answer, &self.stage) {
            (Answer::Claimed(claim), Stage::Claims(vacancy)) => {
                let vacancy = *vacancy;
                self.stage = Stage::Claimed(vacancy);
                Some(News::Claimed(vacancy, claim))
            }
            (Answer::Claimed(claim), Stage::Follows) if self.again.is_some() => {
                self.again.take().map(|vacancy| News::Claimed(vacancy, claim))
            }
            (Answer::Loaded(store), Stage::Loads) => Some(News::Loaded(store)),
            (Answer::Recalled(recalled), Stage::Loads) => Some(News::Recalled(recalled)),
            (Answer::Completed, Stage::Completes) | (Answer::Replaced, Stage::Replaces) => {
                self.stage = Stage::Follows;
                self.skip();
                Some(News::Moved)
            }
            (Answer::NotYet, Stage::Completes) if self.patience > 0 => {
                self.patience -= 1;
                let cut = Version(self.cut);
                self.errand = Some(Errand::Complete(self.of.clone(), cut, self.began));
                None
            }
            (Answer::NotYet | Answer::OutOfReach, Stage::Completes) => {
                let replaced = self.state(beside);
                self.errand = replaced.map(|state| Errand::Replace(state, self.began));
                self.stage = Stage::Replaces;
                None
            }
            (Answer::Failed(_), Stage::Away | Stage::Claimed(_) | Stage::Over) => Some(News::Moved),
            (Answer::Failed(_), _) => Some(self.give_up()),
            // The request belongs to an earlier life; a new one may be made.
            _ => Some(News::Moved),
        }
    }

    /// Returns the state at the beginning of the trail.
    fn state(&mut self, beside: T::Beside<'_>) -> Option<State> {
        self.cut = self.begin;
        self.forget_turnings();
        let epoch = self.turnings.front().map_or(self.epoch, |turning| turning.epoch);
        let cut = self.cut;
        self.trail.as_mut().map(|trail| trail.state(beside, (epoch, cut)))
    }

    /// Puts new messages into the log.
    fn write(&mut self, beside: T::Beside<'_>) -> usize {
        if self.errand.is_some() && !self.asked {
            // A checkpoint that the log has not accepted yet belongs to its present end.
            return 0;
        }
        let (mut done, until) = (0, self.bytes + A_TURN);
        let mut has_room = true;
        while self.bytes < until
            && has_room
            && let Some(next) = self.trail.as_mut().and_then(Trail::peek)
            && self.checkpoint.as_ref().is_none_or(|(at, _)| next < *at)
        {
            self.turn_over(next);
            has_room = self.put_marks();
            let Some(trail) = self.trail.as_mut().filter(|_| has_room) else { break };
            let entry = trail.entry(beside, self.epoch);
            let bytes = footprint(entry.payload);
            has_room = self.journal.put(entry);
            if has_room {
                trail.pass();
                (self.bytes, done) = (self.bytes + bytes, done + 1);
            }
        }
        if has_room && self.bytes < until {
            let end = self.trail.as_ref().map_or(0, |trail| trail.end(beside));
            let end = self.checkpoint.as_ref().map_or(end, |(at, _)| end.min(*at));
            self.turn_over(end);
            has_room = self.put_marks();
        }
        self.journal.hand_over();
        let put = self.put();
        if has_room && let Some((at, state)) = self.checkpoint.take_if(|(at, _)| *at <= put) {
            self.errand = Some(Errand::Checkpoint(Version(at), Box::new(state)));
            self.asked = self.journal.ask(&mut self.errand);
        }
        done
    }

    /// Queues the marks of all changes of epoch up to this version.
    fn turn_over(&mut self, version: u64) {
        while let Some(next) = self.turnings.pop_front_if(|next| next.version <= version) {
            if next.epoch != self.epoch && self.epoch != EpochId::default() {
                let version = Version(next.version.max(self.cut));
                self.marks.push_back(Mark::Cut(self.epoch, version));
            }
            (self.epoch, self.keepers) = (next.epoch, next.keepers.clone());
            self.marks.push_back(Mark::Begun(next.epoch, next.keepers));
        }
    }

    fn put_marks(&mut self) -> bool {
        while let Some(mark) = self.marks.front() {
            if !self.journal.mark(mark.clone()) {
                return false;
            }
            self.noted += 1;
            if let Some(Mark::Begun(_, keepers)) = self.marks.pop_front() {
                self.naming.push_back((self.noted, keepers));
            }
        }
        true
    }

    /// Whether it accepts nothing more.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Over)
    }

    /// Logs that its last durable mark names, if it follows.
    pub(crate) fn names(&self) -> &[LogId] {
        &self.names
    }
}

impl<T: Trail> core::fmt::Debug for Scribe<T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let (errand, durable, put) = (&self.errand, self.journal.durable(), self.put());
        let asked = self.asked;
        write!(f, "{:?}, asked {asked} {errand:?}, {durable} durable of {put}", self.stage)
    }
}

/// Size of a record, as it is counted here.
pub(crate) fn footprint(bytes: &[u8]) -> u64 {
    (bytes.len() + RECORD_HEAD) as u64
}
