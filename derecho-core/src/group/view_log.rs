//! A member's log of the group's views, and the data whose durability depends on that log.
//!
//! Owns: the contents of that log, and the gate through which a member's other logs report
//! durability (I-150). Never does: wait for the log, or decide which members restart;
//! [`log_register`] has the rule.
//!
//! ```text
//!   Register task ──> Registers, to all ──> views and register changes are put ──> durable
//!                                                               │                  └──> gate opens
//!                                                               └──> RegistrationsDurable, to all,
//!                                                                    if awaited
//! ```

use alloc::boxed::Box;
use alloc::collections::{BTreeSet, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::log_register::{self, LogRegister};
use crate::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::bytes::Wire;
use crate::fault::{Fault, planted};
use crate::ids::NodeId;
use crate::log::views::LoggedView;
use crate::log::{EpochMark, LogEntry, LogError, LogId, Version, WallTime};
use crate::membership::View;
use crate::storage::log_port::{LogPort, LogPortCondition, LogTask, LogTaskResult};

/// Maximum time between two turns while an entry is on its way to the log, in nanoseconds.
pub(super) const LOOK: u64 = 1_000_000;
/// Maximum number of views that wait for the log; beyond that the oldest are dropped.
const MOST_WAITING: usize = 64;
/// Maximum number of streams in one message.
const STREAMS_AT_ONCE: usize = 512;

/// Conditions that all logs of a member observe.
#[derive(Debug, Default)]
pub struct DurabilityGate {
    /// The member has announced to all members what its logs know of views.
    registered: AtomicBool,
    /// All views that the member has seen are durable in its log.
    settled: AtomicBool,
    /// The log of views waits for room.
    full: AtomicBool,
    /// Views are no longer logged.
    over: AtomicBool,
}

/// Log of a stream beside a log of views.
pub struct GatedLogPort {
    journal: Box<dyn LogPort>,
    gate: Arc<DurabilityGate>,
    /// Last version that was reported while the gate was open.
    durable: AtomicU64,
    noted: AtomicU64,
}

impl GatedLogPort {
    /// Combines a log with the gate.
    pub fn new(journal: Box<dyn LogPort>, gate: Arc<DurabilityGate>) -> GatedLogPort {
        GatedLogPort { journal, gate, durable: AtomicU64::new(0), noted: AtomicU64::new(0) }
    }

    /// Durable version, as far as the gate permits its report.
    fn gated(&self, last: &AtomicU64, now: impl FnOnce() -> u64) -> u64 {
        if self.gate.settled.load(Ordering::Acquire) || planted(Fault::DurableBeforeView) {
            last.store(now(), Ordering::Relaxed);
        }
        last.load(Ordering::Relaxed)
    }
}

impl LogPort for GatedLogPort {
    fn log(&self) -> LogId {
        self.journal.log()
    }

    fn ask(&mut self, task: &mut Option<LogTask>) -> bool {
        // Claims must be heard after the registration, which announces what is known of views.
        self.gate.registered.load(Ordering::Acquire) && self.journal.ask(task)
    }

    fn answer(&mut self) -> Option<LogTaskResult> {
        self.journal.answer()
    }

    fn put(&mut self, entry: LogEntry<'_>) -> bool {
        self.journal.put(entry)
    }

    fn mark(&mut self, mark: EpochMark) -> bool {
        self.journal.mark(mark)
    }

    fn hand_over(&mut self) {
        self.journal.hand_over();
    }

    fn durable(&self) -> Version {
        Version(self.gated(&self.durable, || self.journal.durable().0))
    }

    fn noted(&self) -> u64 {
        self.gated(&self.noted, || self.journal.noted())
    }

    fn condition(&self) -> LogPortCondition {
        // An error of the log itself is more specific.
        let own = self.journal.condition();
        if own.is_over() {
            return own;
        }
        match (self.gate.over.load(Ordering::Acquire), self.gate.full.load(Ordering::Acquire)) {
            (true, _) => LogPortCondition::Failed(Some(LogError::NoViews)),
            (false, true) => LogPortCondition::Full,
            (false, false) => own,
        }
    }
}

/// A member's log of views. See the [module](self).
pub(super) struct ViewLog {
    journal: Box<dyn LogPort>,
    gate: Arc<DurabilityGate>,
    task: Option<LogTask>,
    /// The log has accepted the task and has not answered.
    has_open_task: bool,
    /// Version of the last view that was put, once the log is open.
    put: Option<u64>,
    /// Newest view that was seen, in its logged form.
    last: Option<LoggedView>,
    /// Views that the log has not taken yet, each with the number of registrations at that time.
    waiting: VecDeque<(LoggedView, u64)>,
    /// Versions of logged views that are not known to be durable, each with the number of
    /// registrations.
    unsynced: VecDeque<(u64, u64)>,
    /// Number of registrations that are durable in the log, and number last announced to all
    /// members.
    synced: u64,
    noted: u64,
    over: bool,
}

impl ViewLog {
    pub(super) fn new(journal: Box<dyn LogPort>) -> ViewLog {
        ViewLog {
            journal,
            gate: Arc::default(),
            task: Some(LogTask::Register),
            has_open_task: false,
            put: None,
            last: None,
            waiting: VecDeque::new(),
            unsynced: VecDeque::new(),
            synced: 0,
            noted: 0,
            over: false,
        }
    }

    pub(super) fn gate(&self) -> Arc<DurabilityGate> {
        Arc::clone(&self.gate)
    }

    /// Whether the log needs a turn soon.
    pub(super) fn is_busy(&self) -> bool {
        let is_asking = self.has_open_task || self.task.is_some();
        !self.over && (is_asking || !self.waiting.is_empty() || !self.unsynced.is_empty())
    }

    /// Notes the current view and continues. Returns the amount of work done, and the messages
    /// for all members.
    pub(super) fn turn(
        &mut self,
        log_register: &LogRegister,
        view: &View,
        me: NodeId,
        required_logs: &BTreeSet<LogId>,
    ) -> (usize, Vec<log_register::LogRegisterMessage>) {
        let mut messages = Vec::new();
        if self.over {
            return (0, messages);
        }
        if let Some(now) = log_register.record(view, me, required_logs) {
            self.note_view(now, log_register.changes());
        }
        let mut done = self.register(&mut messages);
        done += self.write();
        let condition = self.journal.condition();
        self.gate.full.store(condition == LogPortCondition::Full, Ordering::Release);
        if self.over || condition.is_over() {
            self.over = true;
            self.gate.over.store(true, Ordering::Release);
            return (done + 1, Vec::new());
        }
        if self.synced > self.noted && log_register.lacks_durability_at(me) {
            self.noted = self.synced;
            messages.push(log_register::LogRegisterMessage::RegistrationsDurable(self.synced));
        }
        (done, messages)
    }

    fn note_view(&mut self, now: LoggedView, registrations: u64) {
        if self.last.as_ref() == Some(&now) {
            return;
        }
        // From here on, nothing that is delivered counts as durable before this view does.
        self.gate.settled.store(false, Ordering::Release);
        if self.waiting.len() == MOST_WAITING {
            self.waiting.pop_front();
        }
        self.waiting.push_back((now.clone(), registrations));
        self.last = Some(now);
    }

    /// Requests the last logged view, and announces the answer.
    fn register(&mut self, messages: &mut Vec<log_register::LogRegisterMessage>) -> usize {
        if self.task.is_some() && !self.has_open_task {
            self.has_open_task = self.journal.ask(&mut self.task);
        }
        if !self.has_open_task {
            return 0;
        }
        match self.journal.answer() {
            None => return 0,
            Some(LogTaskResult::Registered(registration, streams)) => {
                let some = streams.chunks(STREAMS_AT_ONCE);
                messages.extend(
                    some.map(|some| log_register::LogRegisterMessage::HasStreams(some.to_vec())),
                );
                messages.push(log_register::LogRegisterMessage::Registers(registration));
                self.put = Some(self.journal.durable().0);
                self.gate.registered.store(true, Ordering::Release);
            }
            Some(_) => self.over = true,
        }
        self.has_open_task = false;
        1
    }

    fn write(&mut self) -> usize {
        let Some(put) = &mut self.put else { return 0 };
        let mut done = 0;
        while let Some((view, registrations)) = self.waiting.front() {
            if !self.journal.put(view.entry(&view.to_bytes(), WallTime(0))) {
                break;
            }
            *put += 1;
            self.unsynced.push_back((*put, *registrations));
            self.waiting.pop_front();
            done += 1;
        }
        if !self.unsynced.is_empty() {
            self.journal.hand_over();
        }
        let durable = self.journal.durable().0;
        while let Some((_, registrations)) = self.unsynced.pop_front_if(|next| next.0 <= durable) {
            (self.synced, done) = (registrations, done + 1);
        }
        let is_settled = self.last.is_some() && self.waiting.is_empty() && self.unsynced.is_empty();
        if is_settled && !self.gate.settled.swap(true, Ordering::AcqRel) {
            done += 1;
        }
        done
    }
}
