//! The log of one stream as a member's turn sees it; the log thread does the work.
//!
//! Owns: the batch of this turn, and the pending log task. Never does: wait for the log thread; a
//! full queue refuses, and the turn tries again.

use std::path::PathBuf;
use std::sync::mpsc::TrySendError;
use std::sync::{Arc, Mutex, PoisonError};

use derecho_core::log::restart_permission::{self, RestartPermission};
use derecho_core::log::views::VIEWS;
use derecho_core::log::{
    Disk, DiskError, EpochMark, LogEntry, LogError, LogId, LogKey, StreamKey, StreamLog, Version,
    WallTime, aside, folder,
};
use derecho_core::storage::log_damage::{self, DamageOutcome, LogDamage};
use derecho_core::storage::log_election::LogClaim;
use derecho_core::storage::log_port::{LogPort, LogPortCondition, LogTask, LogTaskResult};
use derecho_core::storage::log_tasks::{self, ReachableFolder, TopicLogRetention};

use super::batch::Batch;
use super::damage_cache::DamageCache;
use super::folder::LogFolder;
use super::shared_log_state::SharedLogState;
use super::thread::{
    FullDiskPolicy, LogJob, LogSettings, LogWriter, Logs, OpenLog, PushRefusal, StreamHandle,
    StreamState, VIEWS_FILE,
};
use crate::clock;

/// Bytes of a batch; further records go into the next one.
const BATCH: usize = 1 << 20;

/// Hand-over of a log task and its answer.
#[derive(Default)]
struct LogTaskSlot {
    task: Mutex<Option<LogTask>>,
    answer: Mutex<Option<LogTaskResult>>,
}

impl LogTaskSlot {
    fn take_task(&self) -> Option<LogTask> {
        self.task.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// A pending log task, which is answered however it ends.
struct PendingLogTask {
    slot: Arc<LogTaskSlot>,
    log_state: Arc<SharedLogState>,
    root: PathBuf,
    state: TaskProgress,
}

#[derive(PartialEq, Eq)]
enum TaskProgress {
    Waits,
    Begun,
    Answered,
}

impl PendingLogTask {
    fn run(mut self, writer: &mut LogWriter<LogFolder>) {
        let Some(task) = self.slot.take_task() else { return };
        self.state = TaskProgress::Begun;
        let answer = run_task(writer, &self.log_state, &self.root, &task);
        self.answer(answer);
    }

    fn answer(&mut self, answer: LogTaskResult) {
        self.state = TaskProgress::Answered;
        *self.slot.answer.lock().unwrap_or_else(PoisonError::into_inner) = Some(answer);
        (self.log_state.waker)();
    }
}

impl Drop for PendingLogTask {
    fn drop(&mut self) {
        // The log thread has ended before it reached the task, or in the middle of it. A task that
        // has been taken back is no longer in the slot.
        let unanswered = match self.state {
            TaskProgress::Waits => self.slot.take_task().is_some(),
            TaskProgress::Begun => true,
            TaskProgress::Answered => false,
        };
        if unanswered {
            self.log_state.show_failed(LogError::Failed);
            self.answer(LogTaskResult::Failed(LogError::Failed));
        }
    }
}

/// Log port of one stream; see the [module](self).
pub struct StreamLogPort {
    log: LogId,
    handle: StreamHandle,
    slot: Arc<LogTaskSlot>,
    batch: Batch,
    /// Folder that contains this process's folder and its neighbours.
    root: PathBuf,
}

impl StreamLogPort {
    pub(super) fn new(
        logs: &Logs,
        root: PathBuf,
        stream: StreamKey,
        on_full: FullDiskPolicy,
        keep: Option<TopicLogRetention>,
        waker: impl Fn() + Send + Sync + 'static,
    ) -> StreamLogPort {
        StreamLogPort {
            log: logs.owner().log,
            handle: logs.handle(Arc::new(SharedLogState::new(stream, on_full, keep, waker))),
            slot: Arc::default(),
            batch: Batch::default(),
            root,
        }
    }

    /// Hands the batch on. Returns `false` if the queue is full.
    fn push(&mut self) -> bool {
        if self.batch.is_empty() {
            return true;
        }
        let batch = std::mem::replace(&mut self.batch, self.handle.batch());
        match self.handle.try_push(batch) {
            Err(PushRefusal::Full(batch)) => {
                self.batch = batch;
                return false;
            }
            // The log thread has ended without a report.
            Err(PushRefusal::Over(StreamState::Closed))
                if self.handle.state() == StreamState::Open =>
            {
                self.handle.state.show_failed(LogError::Failed);
            }
            Err(PushRefusal::Over(_)) | Ok(()) => {}
        }
        true
    }
}

fn now() -> WallTime {
    WallTime(clock::wall(clock::now()))
}

impl LogPort for StreamLogPort {
    fn log(&self) -> LogId {
        self.log
    }

    fn ask(&mut self, task: &mut Option<LogTask>) -> bool {
        if !self.push() {
            return false;
        }
        *self.slot.task.lock().unwrap_or_else(PoisonError::into_inner) = task.take();
        let (slot, log_state) = (Arc::clone(&self.slot), Arc::clone(&self.handle.state));
        let log_tasks =
            PendingLogTask { slot, log_state, root: self.root.clone(), state: TaskProgress::Waits };
        let work = Box::new(move |writer: &mut LogWriter<LogFolder>| log_tasks.run(writer));
        if let Err(TrySendError::Full(_refused)) = self.handle.queue.try_send(LogJob::Work(work)) {
            *task = self.slot.take_task();
            return false;
        }
        true
    }

    fn answer(&mut self) -> Option<LogTaskResult> {
        self.slot.answer.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn put(&mut self, entry: LogEntry<'_>) -> bool {
        if self.batch.bytes() >= BATCH && !self.push() {
            return false;
        }
        // A message that no record can hold would have been refused at its write.
        let _ = self.batch.push(LogEntry { reception_time: now(), ..entry });
        true
    }

    fn mark(&mut self, mark: EpochMark) -> bool {
        self.batch.mark(mark, now());
        true
    }

    fn hand_over(&mut self) {
        self.push();
    }

    fn durable(&self) -> Version {
        self.handle.durable()
    }

    fn noted(&self) -> u64 {
        self.handle.state.noted()
    }

    fn condition(&self) -> LogPortCondition {
        match self.handle.state() {
            StreamState::Open => LogPortCondition::Open,
            StreamState::Full => LogPortCondition::Full,
            StreamState::Damaged => LogPortCondition::Damaged(self.handle.error()),
            StreamState::Detached => LogPortCondition::Detached,
            StreamState::Failed | StreamState::Closed => {
                LogPortCondition::Failed(self.handle.error())
            }
        }
    }
}

impl StreamLogPort {
    /// Runs `work` on the log thread, before what is pushed later. Never waits: returns `false` if
    /// the thread has ended, or its queue is full.
    pub fn run(&self, work: impl FnOnce() + Send + 'static) -> bool {
        let work = Box::new(move |_: &mut LogWriter<LogFolder>| work());
        self.handle.queue.try_send(LogJob::Work(work)).is_ok()
    }
}

impl Drop for StreamLogPort {
    fn drop(&mut self) {
        // Hand over the rest of the batch and the end: no further writes follow. If the queue is
        // full, the log thread finds the rest once it has made room.
        let rest = std::mem::take(&mut self.batch);
        self.handle.state.leave(rest);
        self.run(|| {});
    }
}

/// Runs a log task on the log thread. If the disk is full, waits for room or gives up, as appends
/// do.
fn run_task(
    writer: &mut LogWriter<LogFolder>,
    log_state: &Arc<SharedLogState>,
    root: &std::path::Path,
    task: &LogTask,
) -> LogTaskResult {
    loop {
        let answer = try_task(writer, log_state, root, task);
        let LogTaskResult::Failed(error) = &answer else {
            log_state.show_room();
            return answer;
        };
        match writer.judge(log_state, error) {
            // Its state after the partial task is read when the log is opened again.
            None => drop(writer.logs.remove(&log_state.key)),
            Some(state) => {
                let error = error.clone().within(&writer.disk.place());
                writer.give_up(log_state.key, state, error.clone());
                log_state.show(state, Some(error));
                return answer;
            }
        }
    }
}

fn try_task(
    writer: &mut LogWriter<LogFolder>,
    log_state: &Arc<SharedLogState>,
    root: &std::path::Path,
    task: &LogTask,
) -> LogTaskResult {
    // The whole log behind a claim is checked, once.
    let damage = match writer.open_or_damage(log_state, matches!(task, LogTask::Claim(_))) {
        Ok(damage) => damage,
        Err(error) => return LogTaskResult::Failed(error),
    };
    let locks = matches!(task, LogTask::Claim(_) | LogTask::Register);
    let mut neighbours = match neighbours(root, writer.owner.log, locks) {
        Ok(neighbours) => neighbours,
        // An unread neighbour may be the one that matters, so nothing begins without it.
        Err(error) if locks => return LogTaskResult::Failed(error),
        Err(_) => Vec::new(),
    };
    for neighbour in &mut neighbours {
        neighbour.damage =
            writer.damage_cache.find(log_state.key, neighbour.log, &neighbour.disk.place());
    }
    if let Some(damage) = damage {
        let judged = open_damaged(writer, log_state, root, task, &mut neighbours, damage);
        note_damage(&mut writer.damage_cache, log_state.key, &neighbours);
        match judged {
            Ok(None) => {}
            Ok(Some(claim)) => return LogTaskResult::Claimed(claim),
            Err(error) => return LogTaskResult::Failed(error),
        }
    }
    let Some(open_log) = writer.logs.get_mut(&log_state.key) else {
        return LogTaskResult::Failed(LogError::Failed);
    };
    // Use what was read of the neighbours' logs a moment ago.
    for neighbour in &mut neighbours {
        neighbour.open_log = writer.known.remove(&(log_state.key, neighbour.log));
    }
    let known = aside::asides(&mut writer.disk).unwrap_or_default();
    let mut answer = log_tasks::run(task, &mut open_log.log, &mut writer.disk, &mut neighbours);
    if let LogTaskResult::Claimed(claim) = &mut answer {
        let (key, disk) = (LogKey { owner: writer.owner, stream: log_state.key }, &mut writer.disk);
        let permissions = permissions_in(root);
        let more = log_tasks::excused(&permissions, key, disk, None, &mut neighbours);
        claim.accounts.extend(more);
    }
    note_damage(&mut writer.damage_cache, log_state.key, &neighbours);
    if matches!(answer, LogTaskResult::NotYet) {
        let logs = neighbours.into_iter().filter_map(|it| Some((it.log, it.open_log?)));
        writer.known.extend(logs.map(|(of, log)| ((log_state.key, of), log)));
    }
    open_log.log_state.publish(open_log.log.durable());
    if let Ok(now) = aside::asides(&mut writer.disk)
        && let Some(numbers) = now.get(&log_state.key)
        && let Some(number) = numbers.last()
        && now != known
    {
        tracing::warn!(
            "the log of stream {} was put aside as number {number}, because its topic has \
             continued without this log; `squall log dump {} --aside {number}` shows it; {} logs \
             of the stream are aside now, and the last {} are kept",
            log_state.key,
            writer.disk.place(),
            numbers.len(),
            aside::MOST
        );
        tidy_asides(writer, log_state);
    }
    answer
}

/// Returns the claim of a damaged log (I-98). `None`: the log was put aside, and is open and empty.
fn open_damaged(
    writer: &mut LogWriter<LogFolder>,
    shown: &Arc<SharedLogState>,
    root: &std::path::Path,
    errand: &LogTask,
    neighbours: &mut [ReachableFolder<LogFolder>],
    damage: LogDamage,
) -> Result<Option<Box<LogClaim>>, LogError> {
    let (owner, stream, place) = (writer.owner, shown.key, writer.disk.place());
    let key = LogKey { owner, stream };
    let begins = matches!(errand, LogTask::Load(..) | LogTask::Read(_));
    if begins && !writer.damage_cache.is_known(stream, owner.log) {
        // The log was claimed as a sound one: a start from it must find what was claimed.
        return Err(damage.error);
    }
    let judged = log_damage::judge(errand, key, &mut writer.disk, neighbours, &damage);
    let error = damage.error.clone().within(&place);
    let number = match judged? {
        DamageOutcome::PutAside(number) => number,
        DamageOutcome::Claimed(mut claim) => {
            let (permissions, disk) = (permissions_in(root), &mut writer.disk);
            let more = log_tasks::excused(&permissions, key, disk, Some(&damage), neighbours);
            claim.accounts.extend(more);
            writer.damage_cache.set(stream, owner.log, &place, Some(damage));
            // Other members that hold the store complete it.
            if matches!(errand, LogTask::Claim(true)) {
                shown.show_damaged(error);
            }
            return Ok(Some(claim));
        }
    };
    tracing::warn!(
        "the log of stream {stream} is damaged: {error}. The log was put aside in {place} as \
         number {number}, and its records are fetched from other logs"
    );
    writer.damage_cache.set(stream, owner.log, &place, None);
    writer.open(shown)?;
    tidy_asides(writer, shown);
    Ok(None)
}

/// Removes logs put aside beyond the limit (I-96), and logs their removal.
fn tidy_asides(writer: &mut LogWriter<LogFolder>, log_state: &SharedLogState) {
    let (stream, most) =
        (log_state.key, log_state.retention.as_ref().and_then(|keep| keep.past.bytes));
    match aside::keep_last(&mut writer.disk, stream, most) {
        Ok(removed) => {
            for (number, bytes) in removed {
                tracing::warn!(
                    "a log of stream {stream} that was put aside in {} was removed: number \
                     {number}, {bytes} bytes; only the last {} logs put aside are kept, as far as \
                     the topic's log retention has room",
                    writer.disk.place(),
                    aside::MOST
                );
            }
        }
        // They are examined again when the next log is put aside.
        Err(error) => tracing::warn!("logs that were put aside cannot be removed: {error}"),
    }
}

/// Returns the logs without which an operator has allowed to proceed.
fn permissions_in(root: &std::path::Path) -> Vec<RestartPermission> {
    let recorded =
        LogFolder::read(root).and_then(|mut root| restart_permission::permissions(&mut root));
    recorded.unwrap_or_else(|error| {
        tracing::warn!("decisions of `squall log proceed` cannot be read: {error}");
        Vec::new()
    })
}

/// Records which logs in reach are damaged.
fn note_damage(
    known: &mut DamageCache,
    stream: StreamKey,
    neighbours: &[ReachableFolder<LogFolder>],
) {
    for neighbour in neighbours {
        let log = neighbour.log;
        if neighbour.damage.is_some() || known.is_known(stream, log) {
            known.set(stream, log, &neighbour.disk.place(), neighbour.damage.clone());
        }
    }
}

impl LogWriter<LogFolder> {
    /// Ensures that the log of a stream is open and shown here, or returns its damage. A damaged
    /// log of views is an error.
    fn open_or_damage(
        &mut self,
        log_state: &Arc<SharedLogState>,
        checks: bool,
    ) -> Result<Option<LogDamage>, LogError> {
        let (owner, stream) = (self.owner, log_state.key);
        let of = LogKey { owner, stream };
        if self.damage_cache.is_known(stream, owner.log) {
            if let Some(damage) = self.damage_cache.find(stream, owner.log, &self.disk.place()) {
                return Ok(Some(damage));
            }
            // Other files may have the same names now.
            self.disk.close_files();
        }
        let error = match self.open(log_state) {
            Err(error) if error.is_damage() && stream != VIEWS => Some(error),
            Err(error) => return Err(error),
            Ok(()) => {
                let open_log = self.logs.get_mut(&stream).filter(|it| checks && !it.is_checked);
                open_log.and_then(|kept| {
                    kept.is_checked = true;
                    kept.log.find_damage(&mut self.disk).filter(|_| stream != VIEWS)
                })
            }
        };
        Ok(error.map(|error| {
            self.logs.remove(&stream);
            LogDamage::of(&mut self.disk, of, error)
        }))
    }

    /// Ensures that the log of a stream is open and shown here.
    fn open(&mut self, log_state: &Arc<SharedLogState>) -> Result<(), LogError> {
        let is_left = self
            .logs
            .get(&log_state.key)
            .is_some_and(|open_log| !Arc::ptr_eq(&open_log.log_state, log_state));
        if is_left {
            // The previous user has left the log, and this thread has not processed that yet.
            self.close_left();
        }
        if let Some(open_log) = self.logs.get_mut(&log_state.key) {
            open_log.log_state = Arc::clone(log_state);
            return Ok(());
        }
        if !log_state.takes() {
            return Err(log_state.error().unwrap_or(LogError::Failed));
        }
        let key = LogKey { owner: self.owner, stream: log_state.key };
        let LogSettings { mut limits, check, .. } = self.settings;
        if log_state.key == VIEWS {
            limits.segment_bytes = limits.segment_bytes.min(VIEWS_FILE);
        }
        let (log, recovery) = StreamLog::open(&mut self.disk, key, limits, check)?;
        if let Some(torn) = recovery.torn {
            tracing::warn!("the torn end of the log of stream {} was cut: {torn:?}", log_state.key);
        }
        log_state.publish(log.durable());
        log_state.show_open();
        self.logs.insert(log_state.key, OpenLog::new(log, log_state));
        Ok(())
    }
}

/// Returns the folders beside this process's own. With `locks`, folders without a writer are locked
/// for reading; a process that wants one waits for that (see [`ProcessLogs`](super::ProcessLogs)).
fn neighbours(
    root: &std::path::Path,
    own: LogId,
    locks: bool,
) -> Result<Vec<ReachableFolder<LogFolder>>, LogError> {
    let unread = |path: &std::path::Path, error: std::io::Error| LogError::Disk {
        file: path.display().to_string(),
        cause: DiskError::Other(error.to_string()),
    };
    let mut found = Vec::new();
    for entry in std::fs::read_dir(root).map_err(|error| unread(root, error))? {
        let path = entry.map_err(|error| unread(root, error))?.path();
        if !path.is_dir() {
            continue;
        }
        let mut disk = LogFolder::read(&path)?;
        let within = |error: LogError| error.within(&path.display().to_string());
        let Some(owner) = folder::owner(&mut disk).map_err(within)? else {
            match folder::streams(&mut disk).map_err(within)?.first() {
                None => continue,
                Some(stream) => {
                    let folder = path.display().to_string();
                    return Err(LogError::NoIdentity { folder, stream: *stream });
                }
            }
        };
        if owner.log == own {
            continue;
        }
        let (disk, busy) = match locks.then(|| LogFolder::look(&path)) {
            Some(Ok(looked)) => (looked, false),
            _ => (disk, true),
        };
        found.push(ReachableFolder { log: owner.log, disk, busy, open_log: None, damage: None });
    }
    Ok(found)
}

#[cfg(test)]
mod tests;
