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

use super::checkpoint_state::CheckpointState;
use super::log_election::LogClaim;
use super::log_port::{LogPort, LogPortCondition, LogTask, LogTaskResult};
use super::log_tasks::LogContent;
use super::store::Store;
use super::store_message::RECORD_HEAD;
use crate::fault::{Fault, planted};
use crate::log::{EpochId, EpochMark, LogEntry, LogId, OwnedRecord, Tail, Version};

/// Maximum number of bytes that are in the store but not yet in the log; beyond it, delivered
/// records wait.
pub const MOST_BEHIND: u64 = 64 << 20;
/// Maximum number of bytes put into the log in one turn; the rest follows in later turns.
const A_TURN: u64 = 4 << 20;
/// Interval, in nanoseconds, between searches for awaited logs.
pub(crate) const CLAIM_INTERVAL: u64 = 100_000_000;
/// Maximum interval, in nanoseconds, between turns while a log or a transfer is busy.
pub(crate) const BUSY_INTERVAL: u64 = 1_000_000;
/// Number of attempts to complete from a log that may lag behind its member; attempts are at least
/// a turn apart.
const PATIENCE: u32 = 1_000;

/// Messages that a log follows, in order, each with its position: the number of messages before it.
pub(crate) trait LogInput {
    /// Further data needed for reading.
    type ReadingContext<'a>: Copy;

    /// Returns the position of the next message, if there is one.
    fn peek(&mut self) -> Option<u64>;

    /// Returns the next message, which must exist.
    fn entry<'a, 'b: 'a>(
        &'a self,
        reading_context: Self::ReadingContext<'b>,
        epoch: EpochId,
    ) -> LogEntry<'a>;

    /// Moves past the next message.
    fn pass(&mut self);

    /// Position after the last message that was passed, which is the version of that message.
    fn passed(&self) -> u64;

    /// Number of messages, including those that will still arrive here.
    fn end(&self, reading_context: Self::ReadingContext<'_>) -> u64;

    /// Skips all messages before this position.
    fn skip_to(&mut self, position: u64);

    /// Returns the state that replaces all messages before position `end`, where the log input
    /// began in this epoch.
    fn state(
        &mut self,
        reading_context: Self::ReadingContext<'_>,
        epoch: EpochId,
        end: u64,
    ) -> CheckpointState;
}

#[derive(Debug)]
enum FollowerStage {
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
pub(crate) enum LogEvent {
    Claimed(u64, Box<LogClaim>),
    Loaded(Box<Store>),
    Content(Box<LogContent>),
    /// The log follows, or may be asked again.
    Moved,
    /// The log accepts nothing more.
    Over,
}

/// Change of epoch.
struct EpochChange {
    /// Position of the first message of the epoch.
    begin: u64,
    epoch: EpochId,
    epoch_logs: Vec<LogId>,
}

/// Writer of a log; see the [module](self).
pub(crate) struct LogFollower<T> {
    log_port: Box<dyn LogPort>,
    stage: FollowerStage,
    /// Task that the log has not accepted yet.
    task: Option<LogTask>,
    /// Whether the log works on a task that it has not answered.
    has_open_task: bool,
    /// Position of the first message of the log input.
    begin: u64,
    /// Position from which on the log follows, and the logs that have the messages before it.
    cut: u64,
    of: Vec<LogId>,
    /// End of the log from which the subgroup began, and the era.
    began: (Tail, u64),
    /// Number of further attempts.
    retries: u32,
    /// Vacancy in which a log that follows claims again.
    again: Option<u64>,
    input: Option<T>,
    epoch_changes: VecDeque<EpochChange>,
    epoch: EpochId,
    epoch_logs: Vec<LogId>,
    /// Marks that the log must still accept.
    marks: VecDeque<EpochMark>,
    /// Number of marks accepted, and those among them that name logs and may not be durable yet.
    noted: u64,
    naming: VecDeque<(u64, Vec<LogId>)>,
    /// Logs that its last durable mark names.
    names: Vec<LogId>,
    /// State that replaces all messages before this position, once the log has reached it.
    checkpoint: Option<(u64, OwnedRecord)>,
    /// Bytes that the log has accepted, and bytes that it must accept.
    bytes: u64,
    wanted: u64,
}

impl<T: LogInput> LogFollower<T> {
    pub(crate) fn new(log_port: Box<dyn LogPort>) -> LogFollower<T> {
        LogFollower {
            log_port,
            stage: FollowerStage::Away,
            task: None,
            has_open_task: false,
            begin: 0,
            cut: 0,
            of: Vec::new(),
            began: (Tail::default(), 0),
            retries: 0,
            again: None,
            input: None,
            epoch_changes: VecDeque::new(),
            epoch: EpochId::default(),
            epoch_logs: Vec::new(),
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
    pub(crate) fn begin_again(mut self) -> LogFollower<T> {
        let was_over = matches!(self.stage, FollowerStage::Over);
        self.log_port.hand_over();
        let (task, has_open_task, noted) = (self.task.take(), self.has_open_task, self.noted);
        let mut again = LogFollower::new(self.log_port);
        again.noted = noted;
        // The outstanding request is still answered, and the answer is ignored.
        (again.task, again.has_open_task) = (task, has_open_task);
        again.stage = if was_over { FollowerStage::Over } else { FollowerStage::Away };
        again
    }

    pub(crate) fn condition(&self) -> LogPortCondition {
        self.log_port.condition()
    }

    /// Last durable version of a log that follows.
    pub(crate) fn durable(&self) -> u64 {
        match self.stage {
            FollowerStage::Follows => self.log_port.durable().0,
            _ => 0,
        }
    }

    /// Whether the log follows, or is over.
    pub(crate) fn is_settled(&self) -> bool {
        matches!(self.stage, FollowerStage::Follows | FollowerStage::Over)
    }

    /// Whether the log holds every message before the ones that are being appended.
    pub(crate) fn is_complete(&self) -> bool {
        matches!(self.stage, FollowerStage::Follows)
    }

    /// Whether it waits for an answer or for durability, or has a request to make.
    pub(crate) fn is_busy(&self) -> bool {
        match self.stage {
            FollowerStage::Follows => {
                let unnamed = !self.naming.is_empty() || !self.marks.is_empty();
                let lacking = self.bytes < self.wanted || self.log_port.durable().0 < self.put();
                let pending = self.checkpoint.is_some() || self.task.is_some();
                lacking || unnamed || pending || self.has_open_task
            }
            FollowerStage::Over | FollowerStage::Away => self.has_open_task,
            FollowerStage::Claimed(_) => false,
            _ => true,
        }
    }

    /// Position after the last message that was put.
    fn put(&self) -> u64 {
        self.input.as_ref().map_or(0, LogInput::passed)
    }

    /// Returns the log input, once it was set.
    pub(crate) fn input_mut(&mut self) -> Option<&mut T> {
        self.input.as_mut()
    }

    /// Log that it writes.
    pub(crate) fn log(&self) -> LogId {
        self.log_port.log()
    }

    /// Whether it can take a state that replaces all messages before position `end`: no message
    /// from that position on was put.
    pub(crate) fn takes_checkpoint(&self, end: u64) -> bool {
        let is_free = self.checkpoint.is_none() && !self.has_open_task && self.task.is_none();
        is_free && matches!(self.stage, FollowerStage::Follows) && end >= self.put()
    }

    /// Sets a state that replaces all messages before position `end` as soon as the log has reached
    /// that position. The caller must have checked that the writer [can
    /// take](LogFollower::takes_checkpoint) it.
    pub(crate) fn put_checkpoint(&mut self, end: u64, state: OwnedRecord) {
        self.checkpoint = Some((end, state));
    }

    /// Whether the log is so far behind that delivered records must wait.
    pub(crate) fn holds_up(&self) -> bool {
        matches!(self.stage, FollowerStage::Follows) && self.wanted - self.bytes > MOST_BEHIND
    }

    /// Notes that the store has grown by this number of bytes.
    pub(crate) fn grows(&mut self, bytes: u64) {
        self.wanted += bytes;
    }

    /// Whether it may claim in this vacancy, and has not done so.
    pub(crate) fn may_claim(&self, vacancy: u64) -> bool {
        match self.stage {
            FollowerStage::Away => !self.has_open_task,
            FollowerStage::Claimed(of) => of != vacancy,
            _ => false,
        }
    }

    /// Begins a claim: examines the logs. `vacant` says that no member has the store.
    pub(crate) fn claim(&mut self, vacancy: u64, vacant: bool) {
        if matches!(self.stage, FollowerStage::Away | FollowerStage::Claimed(_))
            && !self.has_open_task
        {
            (self.stage, self.task) =
                (FollowerStage::Claims(vacancy), Some(LogTask::Claim(vacant)));
        }
    }

    /// Claims again with a log that follows, because no former holder knows of it (I-113).
    pub(crate) fn claim_again(&mut self, vacancy: u64) {
        if matches!(self.stage, FollowerStage::Follows)
            && !self.has_open_task
            && self.task.is_none()
        {
            (self.again, self.task) = (Some(vacancy), Some(LogTask::Claim(false)));
        }
    }

    /// Builds what the log will follow by this log task, because this log won.
    pub(crate) fn load(&mut self, task: impl FnOnce() -> LogTask) {
        if matches!(self.stage, FollowerStage::Away | FollowerStage::Claimed(_))
            && !self.has_open_task
        {
            (self.stage, self.task) = (FollowerStage::Loads, Some(task()));
        }
    }

    /// Begins to follow: the messages of the log input, from position `begin` on, are put into the
    /// log. The logs `of` of the holders have the messages before it that may be missing.
    pub(crate) fn follow(&mut self, trail: T, begin: u64, base: Tail, era: u64, of: Vec<LogId>) {
        self.began = (base, era);
        // Messages from before this beginning are in the log from which it began, as it was then.
        let cut = begin.max(base.version.0);
        match self.stage {
            FollowerStage::Loads => (self.stage, self.epoch) = (FollowerStage::Follows, base.epoch),
            FollowerStage::Claimed(_) => {
                (self.stage, self.retries) = (FollowerStage::Completes, PATIENCE);
                self.task = Some(LogTask::Complete(of.clone(), Version(cut), self.began));
                self.of = of;
            }
            _ => return,
        }
        (self.begin, self.cut) = (begin, cut);
        (self.input, self.bytes) = (Some(trail), self.wanted);
        if matches!(self.stage, FollowerStage::Follows) {
            self.skip();
        }
    }

    /// Whether it must be told where the log input begins.
    pub(crate) fn awaits_input(&self) -> bool {
        matches!(self.stage, FollowerStage::Claimed(_))
    }

    /// Skips all messages before the cut, which are in the log or in its checkpoint.
    fn skip(&mut self) {
        self.drop_epoch_changes();
        if let Some(log_input) = self.input.as_mut().filter(|_| !planted(Fault::AppendedTwice)) {
            log_input.skip_to(self.cut);
        }
    }

    /// Drops changes of epoch up to the cut, except the last one, which must still be marked.
    fn drop_epoch_changes(&mut self) {
        while self.epoch_changes.get(1).is_some_and(|next| next.begin <= self.cut) {
            self.epoch_changes.pop_front();
        }
    }

    /// Notes that messages from position `begin` on belong to this epoch, and which logs keep them.
    pub(crate) fn change_epoch(&mut self, begin: u64, epoch: EpochId, epoch_logs: Vec<LogId>) {
        let known = self.epoch_changes.back().map_or(self.epoch, |last| last.epoch);
        if (known, self.last_noted()) != (epoch, &epoch_logs[..]) {
            self.epoch_changes.push_back(EpochChange { begin, epoch, epoch_logs });
        }
    }

    /// Logs that keep later messages, according to the last change of epoch.
    pub(crate) fn last_noted(&self) -> &[LogId] {
        self.epoch_changes.back().map_or(&self.epoch_logs, |last| &last.epoch_logs)
    }

    /// Advances. Returns how much was done, and the result of a request, if any.
    pub(crate) fn turn(
        &mut self,
        reading_context: T::ReadingContext<'_>,
    ) -> (usize, Option<LogEvent>) {
        if self.log_port.condition().is_over() && !matches!(self.stage, FollowerStage::Over) {
            return (1, Some(self.give_up()));
        }
        let noted = self.log_port.noted();
        while let Some((_, names)) = self.naming.pop_front_if(|next| next.0 <= noted) {
            self.names = names;
        }
        if self.task.is_some() && !self.has_open_task {
            self.has_open_task = self.log_port.ask(&mut self.task);
        }
        if self.has_open_task
            && let Some(answer) = self.log_port.answer()
        {
            self.has_open_task = false;
            return (1, self.answered(answer, reading_context));
        }
        match self.stage {
            FollowerStage::Follows => (self.write(reading_context), None),
            _ => (0, None),
        }
    }

    fn give_up(&mut self) -> LogEvent {
        (self.stage, self.input, self.checkpoint) = (FollowerStage::Over, None, None);
        LogEvent::Over
    }

    fn answered(
        &mut self,
        answer: LogTaskResult,
        reading_context: T::ReadingContext<'_>,
    ) -> Option<LogEvent> {
        match (answer, &self.stage) {
            (LogTaskResult::Claimed(claim), FollowerStage::Claims(vacancy)) => {
                let vacancy = *vacancy;
                self.stage = FollowerStage::Claimed(vacancy);
                Some(LogEvent::Claimed(vacancy, claim))
            }
            (LogTaskResult::Claimed(claim), FollowerStage::Follows) if self.again.is_some() => {
                self.again.take().map(|vacancy| LogEvent::Claimed(vacancy, claim))
            }
            (LogTaskResult::Loaded(store), FollowerStage::Loads) => Some(LogEvent::Loaded(store)),
            (LogTaskResult::Content(content), FollowerStage::Loads) => {
                Some(LogEvent::Content(content))
            }
            (LogTaskResult::Completed(end), FollowerStage::Completes) => {
                // I-341: the log may have more, from the log of a former holder.
                (self.stage, self.cut) = (FollowerStage::Follows, self.cut.max(end.0));
                self.skip();
                Some(LogEvent::Moved)
            }
            (LogTaskResult::Replaced, FollowerStage::Replaces) => {
                self.stage = FollowerStage::Follows;
                self.skip();
                Some(LogEvent::Moved)
            }
            (LogTaskResult::NotYet, FollowerStage::Completes) if self.retries > 0 => {
                self.retries -= 1;
                let cut = Version(self.cut);
                self.task = Some(LogTask::Complete(self.of.clone(), cut, self.began));
                None
            }
            (LogTaskResult::NotYet | LogTaskResult::OutOfReach, FollowerStage::Completes) => {
                let replaced = self.state(reading_context);
                self.task = replaced.map(|state| LogTask::Replace(state, self.began));
                self.stage = FollowerStage::Replaces;
                None
            }
            (
                LogTaskResult::Failed(_),
                FollowerStage::Away | FollowerStage::Claimed(_) | FollowerStage::Over,
            ) => Some(LogEvent::Moved),
            (LogTaskResult::Failed(_), _) => Some(self.give_up()),
            // The request was made before the follower began again; a new one may be made.
            _ => Some(LogEvent::Moved),
        }
    }

    /// Returns the state at the beginning of the log input.
    fn state(&mut self, reading_context: T::ReadingContext<'_>) -> Option<CheckpointState> {
        self.cut = self.begin;
        self.drop_epoch_changes();
        let epoch =
            self.epoch_changes.front().map_or(self.epoch, |epoch_change| epoch_change.epoch);
        let cut = self.cut;
        self.input.as_mut().map(|log_input| log_input.state(reading_context, epoch, cut))
    }

    /// Puts new messages into the log.
    fn write(&mut self, reading_context: T::ReadingContext<'_>) -> usize {
        if self.task.is_some() && !self.has_open_task {
            // A checkpoint that the log has not accepted yet belongs to its present end.
            return 0;
        }
        let (mut done, until) = (0, self.bytes + A_TURN);
        let mut has_room = true;
        while self.bytes < until
            && has_room
            && let Some(next) = self.input.as_mut().and_then(LogInput::peek)
            && self.checkpoint.as_ref().is_none_or(|(at, _)| next < *at)
        {
            self.mark_epochs(next);
            has_room = self.put_marks();
            let Some(log_input) = self.input.as_mut().filter(|_| has_room) else { break };
            let entry = log_input.entry(reading_context, self.epoch);
            let bytes = footprint(entry.payload);
            has_room = self.log_port.put(entry);
            if has_room {
                log_input.pass();
                (self.bytes, done) = (self.bytes + bytes, done + 1);
            }
        }
        if has_room && self.bytes < until {
            let end = self.input.as_ref().map_or(0, |log_input| log_input.end(reading_context));
            let end = self.checkpoint.as_ref().map_or(end, |(at, _)| end.min(*at));
            self.mark_epochs(end);
            has_room = self.put_marks();
        }
        self.log_port.hand_over();
        let put = self.put();
        if has_room && let Some((at, state)) = self.checkpoint.take_if(|(at, _)| *at <= put) {
            self.task = Some(LogTask::Checkpoint(Version(at), Box::new(state)));
            self.has_open_task = self.log_port.ask(&mut self.task);
        }
        done
    }

    /// Queues the marks of all epochs that begin at this position or before.
    fn mark_epochs(&mut self, position: u64) {
        while let Some(next) = self.epoch_changes.pop_front_if(|next| next.begin <= position) {
            if next.epoch != self.epoch && self.epoch != EpochId::default() {
                let version = Version(next.begin.max(self.cut));
                self.marks.push_back(EpochMark::Cut(self.epoch, version));
            }
            (self.epoch, self.epoch_logs) = (next.epoch, next.epoch_logs.clone());
            self.marks.push_back(EpochMark::Begun(next.epoch, next.epoch_logs));
        }
    }

    fn put_marks(&mut self) -> bool {
        while let Some(mark) = self.marks.front() {
            if !self.log_port.mark(mark.clone()) {
                return false;
            }
            self.noted += 1;
            if let Some(EpochMark::Begun(_, epoch_logs)) = self.marks.pop_front() {
                self.naming.push_back((self.noted, epoch_logs));
            }
        }
        true
    }

    /// Whether it accepts nothing more.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.stage, FollowerStage::Over)
    }

    /// Logs that its last durable mark names, if it follows.
    pub(crate) fn names(&self) -> &[LogId] {
        &self.names
    }
}

impl<T: LogInput> core::fmt::Debug for LogFollower<T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let (errand, durable, put) = (&self.task, self.log_port.durable(), self.put());
        let is_open = self.has_open_task;
        write!(f, "{:?}, task {errand:?}, open {is_open}, {durable} durable of {put}", self.stage)
    }
}

/// Size of a record, as it is counted here.
pub(crate) fn footprint(bytes: &[u8]) -> u64 {
    (bytes.len() + RECORD_HEAD) as u64
}
