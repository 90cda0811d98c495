//! A member's log of one subgroup: it follows what is put into the store (I-104).
//!
//! Owns: how far the log is on the way to following, and what is put into it next. Never does: wait for the log;
//! what it does not take now is put later.
//!
//! ```text
//!   Away ──claim──> Claimed ──named──> loads the store ──────────────────────────> Follows
//!                      │                                                              ^
//!                      '──gets the store──> completes ──else──> replaced by the store-'
//! ```

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::cursor::{Cursor, Kept};
use super::journal::{Answer, Condition, Errand, Journal};
use super::logbook::Claim;
use super::parcel::{Numbers, RECORD_HEAD};
use super::state::{State, entry};
use super::store::{Meaning, Retention, Store};
use crate::log::{EpochId, LogId, Mark, Tail, Version};

/// Bytes in the store that are not in the log yet: more, and what is delivered waits.
pub const MOST_BEHIND: u64 = 64 << 20;
/// Bytes that are put into the log in one turn; those that wait come in the next ones.
const A_TURN: u64 = 4 << 20;
/// So often a log is asked that may not have come as far as its member, a turn or more apart.
const PATIENCE: u32 = 1_000;

#[derive(Debug)]
enum Stage {
    Away,
    Claims(u64),
    Claimed(u64),
    Loads,
    /// The log is to end where the store began.
    Completes,
    Replaces,
    Follows,
    Over,
}

/// What has come of what the log was asked.
pub(super) enum News {
    Claimed(u64, Box<Claim>),
    Loaded(Box<Store>),
    /// It follows, or may be asked anew.
    Moved,
    /// It takes nothing more.
    Over,
}

/// What begins with a version.
struct Turning {
    version: u64,
    epoch: EpochId,
    keepers: Vec<LogId>,
}

/// See the [module](self).
pub(super) struct Scribe {
    journal: Box<dyn Journal>,
    stage: Stage,
    errand: Option<Errand>,
    asked: bool,
    /// Where the store began, for this log.
    begin: u64,
    /// From where on it follows, and which logs have what is before that.
    cut: u64,
    of: Vec<LogId>,
    /// Where the subgroup began, and in which era.
    began: (Tail, u64),
    /// So often they are asked again.
    patience: u32,
    /// It claims again in this vacancy, and follows.
    again: Option<u64>,
    cursor: Option<Cursor>,
    held: Option<Kept>,
    turnings: VecDeque<Turning>,
    epoch: EpochId,
    keepers: Vec<LogId>,
    /// Marks that the log has still to take.
    marks: VecDeque<Mark>,
    /// So many it has taken, and which of them name whom that may not be durable yet.
    noted: u64,
    naming: VecDeque<(u64, Vec<LogId>)>,
    /// Whom its last durable mark names.
    names: Vec<LogId>,
    /// Bytes that it has taken, and that it is to take.
    bytes: u64,
    wanted: u64,
}

impl Scribe {
    pub(super) fn new(journal: Box<dyn Journal>) -> Scribe {
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
            cursor: None,
            held: None,
            turnings: VecDeque::new(),
            epoch: EpochId::default(),
            keepers: Vec::new(),
            marks: VecDeque::new(),
            noted: 0,
            naming: VecDeque::new(),
            names: Vec::new(),
            bytes: 0,
            wanted: 0,
        }
    }

    /// The same log, for a member that begins anew.
    pub(super) fn begin_again(mut self) -> Scribe {
        let over = matches!(self.stage, Stage::Over);
        self.journal.hand_over();
        let (errand, asked, noted) = (self.errand.take(), self.asked, self.noted);
        let mut again = Scribe::new(self.journal);
        again.noted = noted;
        // What was asked is answered all the same, and the answer is nobody's.
        (again.errand, again.asked) = (errand, asked);
        again.stage = if over { Stage::Over } else { Stage::Away };
        again
    }

    pub(super) fn condition(&self) -> Condition {
        self.journal.condition()
    }

    /// The last version that is durable in a log that follows.
    pub(super) fn durable(&self) -> u64 {
        match self.stage {
            Stage::Follows => self.journal.durable().0,
            _ => 0,
        }
    }

    /// Whether it has come to something.
    pub(super) fn is_settled(&self) -> bool {
        matches!(self.stage, Stage::Follows | Stage::Over)
    }

    /// Whether an answer is awaited, or something durable.
    pub(super) fn is_busy(&self) -> bool {
        match self.stage {
            Stage::Follows => {
                let unnamed = !self.naming.is_empty() || !self.marks.is_empty();
                let lacking = self.bytes < self.wanted || self.journal.durable().0 < self.put();
                lacking || unnamed || self.asked || self.errand.is_some()
            }
            Stage::Over | Stage::Away => self.asked,
            Stage::Claimed(_) => false,
            _ => true,
        }
    }

    /// One past the last version that was put.
    fn put(&self) -> u64 {
        let next = self.cursor.as_ref().map_or(0, Cursor::version);
        self.held.as_ref().map_or(next, Kept::version)
    }

    /// Whether the log is so far behind that what is delivered has to wait.
    pub(super) fn holds_up(&self) -> bool {
        matches!(self.stage, Stage::Follows) && self.wanted - self.bytes > MOST_BEHIND
    }

    /// So many bytes more are in the store.
    pub(super) fn grows(&mut self, bytes: u64) {
        self.wanted += bytes;
    }

    /// Whether it may claim in this vacancy, and has not.
    pub(super) fn may_claim(&self, vacancy: u64) -> bool {
        match self.stage {
            Stage::Away => !self.asked,
            Stage::Claimed(of) => of != vacancy,
            _ => false,
        }
    }

    /// Looks what there is; if so, nobody has it.
    pub(super) fn claim(&mut self, vacancy: u64, vacant: bool) {
        if matches!(self.stage, Stage::Away | Stage::Claimed(_)) && !self.asked {
            (self.stage, self.errand) = (Stage::Claims(vacancy), Some(Errand::Claim(vacant)));
        }
    }

    /// The same of a log that follows: nobody who had it before knows of this one (I-109).
    pub(super) fn claim_again(&mut self, vacancy: u64) {
        if matches!(self.stage, Stage::Follows) && !self.asked && self.errand.is_none() {
            (self.again, self.errand) = (Some(vacancy), Some(Errand::Claim(false)));
        }
    }

    /// Its log won: the store is made of it, up to what has come since.
    pub(super) fn load(&mut self, (retention, meaning): (Retention, Meaning), until: &Numbers) {
        if matches!(self.stage, Stage::Away | Stage::Claimed(_)) && !self.asked {
            self.stage = Stage::Loads;
            self.errand = Some(Errand::Load(retention, meaning, until.clone()));
        }
    }

    /// The store is there: what the cursor passes from this version on is put into the log. Who holds the store
    /// has what is missing before it.
    pub(super) fn follow(
        &mut self,
        (cursor, begin): (Cursor, u64),
        (base, era): (Tail, u64),
        of: Vec<LogId>,
    ) {
        self.began = (base, era);
        // What was there before this beginning is in the log from which it began as it was then.
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
        (self.cursor, self.bytes) = (Some(cursor), self.wanted);
        if matches!(self.stage, Stage::Follows) {
            self.skip();
        }
    }

    /// Whether it is to be told where the store begins.
    pub(super) fn awaits_store(&self) -> bool {
        matches!(self.stage, Stage::Claimed(_))
    }

    /// What is before the cut is in the log, or in its checkpoint.
    fn skip(&mut self) {
        self.forget_turnings();
        if let Some(cursor) = &mut self.cursor {
            cursor.skip_to(self.cut);
        }
    }

    /// Of what begins before the cut or there the last alone is still to be noted.
    fn forget_turnings(&mut self) {
        while self.turnings.get(1).is_some_and(|next| next.version <= self.cut) {
            self.turnings.pop_front();
        }
    }

    /// From this version on messages are of this epoch, and these logs keep them.
    pub(super) fn turning(&mut self, version: u64, epoch: EpochId, keepers: Vec<LogId>) {
        let known = self.turnings.back().map_or(self.epoch, |last| last.epoch);
        if (known, self.last_noted()) != (epoch, &keepers[..]) {
            self.turnings.push_back(Turning { version, epoch, keepers });
        }
    }

    /// Which logs keep what comes, as it was told last.
    pub(super) fn last_noted(&self) -> &[LogId] {
        self.turnings.back().map_or(&self.keepers, |last| &last.keepers)
    }

    /// Goes on. Returns how much was done, and what has come of it.
    pub(super) fn turn(&mut self, store: &Store, meaning: Meaning) -> (usize, Option<News>) {
        if self.journal.condition().is_over() && !matches!(self.stage, Stage::Over) {
            return (1, Some(self.give_up()));
        }
        if self.errand.is_some() && !self.asked {
            self.asked = self.journal.ask(&mut self.errand);
        }
        if self.asked
            && let Some(answer) = self.journal.answer()
        {
            self.asked = false;
            return (1, self.answered(answer, store, meaning));
        }
        match self.stage {
            Stage::Follows => (self.write(store, meaning), None),
            _ => (0, None),
        }
    }

    fn give_up(&mut self) -> News {
        (self.stage, self.cursor, self.held) = (Stage::Over, None, None);
        News::Over
    }

    fn answered(&mut self, answer: Answer, store: &Store, meaning: Meaning) -> Option<News> {
        match (answer, &self.stage) {
            (Answer::Claimed(claim), Stage::Claims(vacancy)) => {
                let vacancy = *vacancy;
                self.stage = Stage::Claimed(vacancy);
                Some(News::Claimed(vacancy, claim))
            }
            (Answer::Claimed(claim), Stage::Follows) if self.again.is_some() => {
                self.again.take().map(|vacancy| News::Claimed(vacancy, claim))
            }
            (Answer::Failed(_), Stage::Follows) if self.again.is_some() => Some(self.give_up()),
            (Answer::Loaded(store), Stage::Loads) => Some(News::Loaded(store)),
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
                let replaced = self.state(store, meaning);
                self.errand = replaced.map(|state| Errand::Replace(state, self.began));
                self.stage = Stage::Replaces;
                None
            }
            (
                Answer::Failed(_),
                Stage::Claims(_) | Stage::Loads | Stage::Completes | Stage::Replaces,
            ) => Some(self.give_up()),
            // Of something that was asked in another life: it may ask anew.
            _ => Some(News::Moved),
        }
    }

    /// What the store was where it began.
    fn state(&mut self, store: &Store, meaning: Meaning) -> Option<State> {
        self.cut = self.begin;
        self.forget_turnings();
        let epoch = self.turnings.front().map_or(self.epoch, |turning| turning.epoch);
        let cursor = self.cursor.as_ref()?.fork();
        Some(State::new((cursor, store), (self.cut, epoch), meaning))
    }

    /// Puts what has come into the log.
    fn write(&mut self, store: &Store, meaning: Meaning) -> usize {
        let (mut done, until) = (0, self.bytes + A_TURN);
        while self.bytes < until
            && let Some(kept) = self.held.take().or_else(|| self.cursor.as_mut()?.next())
        {
            self.turn_over(kept.version());
            let entry = entry(&kept, store.streams(), (self.epoch, meaning));
            if !self.put_marks() || !self.journal.put(entry) {
                self.held = Some(kept);
                break;
            }
            self.bytes += footprint(kept.bytes());
            done += 1;
        }
        if self.held.is_none() && self.bytes < until {
            self.turn_over(store.version());
            self.put_marks();
        }
        self.journal.hand_over();
        done
    }

    /// What begins with this version, or began before it.
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

    /// Whether it takes nothing more.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Over)
    }

    /// Which log it is.
    pub(super) fn log(&self) -> LogId {
        self.journal.log()
    }

    /// Whom its last durable mark names, if it follows.
    pub(super) fn names(&mut self) -> &[LogId] {
        let noted = self.journal.noted();
        while let Some((_, names)) = self.naming.pop_front_if(|next| next.0 <= noted) {
            self.names = names;
        }
        &self.names
    }
}

impl core::fmt::Debug for Scribe {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let (errand, durable, put) = (&self.errand, self.journal.durable(), self.put());
        let asked = self.asked;
        write!(f, "{:?}, asked {asked} {errand:?}, {durable} durable of {put}", self.stage)
    }
}

/// What a record takes, as it is counted here.
pub(super) fn footprint(bytes: &[u8]) -> u64 {
    (bytes.len() + RECORD_HEAD) as u64
}
