//! The log thread: makes pushed records durable.
//!
//! Owns: the logs of a folder, and the reports of what is durable. Never does: wait for more before
//! it writes; batches form under load. Everything that is ready is appended, then each log is
//! written once and synced once.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use derecho_core::log::views::VIEWS;
use derecho_core::log::{
    Disk, DiskError, GroupId, LogError, LogId, LogKey, LogLimits, LogOwner, LogRecord, Recovery,
    RecoveryCheck, SegmentRetention, StreamKey, StreamLog, Version, WallTime, folder,
};
use derecho_core::storage::log_tasks;

use super::batch::{Batch, BatchItem};
use super::damage_cache::DamageCache;
use super::folder::LogFolder;
use super::shared_log_state::SharedLogState;
pub use super::shared_log_state::{FullDiskPolicy, StreamState};
use crate::clock;
use crate::threads::{ThreadSettings, fail_where_files_end};

/// Maximum bytes taken from the queue before everything is written and synced.
const GATHERED: usize = 16 << 20;
/// Interval between attempts of a log that found no room.
const ROOM_AGAIN: Duration = Duration::from_millis(20);
/// Longest time that dropping `Logs` waits for pending writes.
const LINGER: Duration = Duration::from_secs(5);
/// Default limit of the bytes that wait for the log thread.
pub const QUEUE_BYTES: usize = 64 << 20;
/// Minimum number of views that are kept.
const VIEWS_KEPT: u64 = 1_000;
/// Maximum size of a file of views.
pub(super) const VIEWS_FILE: u64 = 1 << 20;
/// Maximum number of batches kept for reuse.
const SPARE: usize = 64;

/// Settings of a folder's logs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogSettings {
    /// Maximum number of batches in the queue.
    pub queue: usize,
    /// Maximum bytes of batches in the queue, over all logs of the folder; a single batch may
    /// be larger.
    pub queue_bytes: usize,
    /// Size limits of files.
    pub limits: LogLimits,
    /// Extent of the check when a log is opened.
    pub check: RecoveryCheck,
    /// Scheduling of the log thread.
    pub thread: ThreadSettings,
}

impl Default for LogSettings {
    fn default() -> Self {
        LogSettings {
            queue: 1024,
            queue_bytes: QUEUE_BYTES,
            limits: LogLimits::default(),
            check: RecoveryCheck::Last,
            thread: ThreadSettings::default(),
        }
    }
}

/// Reason why a batch was refused.
#[derive(Debug)]
pub enum PushRefusal {
    /// The queue is full; the batch is returned, to push it later.
    Full(Batch),
    /// The log accepts nothing more.
    Over(StreamState),
}

/// Result of closing the logs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CloseOutcome {
    /// Everything that was pushed was written and synced, or its log had failed.
    Clean,
    /// The deadline passed first; records that are not durable may be lost.
    Late,
}

pub(super) type LogWork<D> = Box<dyn FnOnce(&mut LogWriter<D>) + Send>;

pub(super) enum LogJob<D> {
    Batch(Arc<SharedLogState>, Batch),
    /// Work on the logs, after everything before it is committed.
    Work(LogWork<D>),
    Close,
}

/// Logs of a folder, and the thread that writes them.
pub struct Logs<D = LogFolder> {
    owner: LogOwner,
    queue: SyncSender<LogJob<D>>,
    queued: Arc<LogQueueBytes>,
    spare: Arc<Mutex<Vec<Batch>>>,
    closing: Arc<AtomicBool>,
    ended: Mutex<Receiver<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Handle of one stream's log, for its user.
pub struct StreamHandle<D = LogFolder> {
    pub(super) state: Arc<SharedLogState>,
    pub(super) queue: SyncSender<LogJob<D>>,
    queued: Arc<LogQueueBytes>,
    spare: Arc<Mutex<Vec<Batch>>>,
}

/// Bytes that wait for the log thread.
struct LogQueueBytes {
    bytes: AtomicUsize,
    most: usize,
}

impl LogQueueBytes {
    /// Adds waiting bytes. Returns `false`, without adding, if that exceeds the limit.
    fn add(&self, bytes: usize) -> bool {
        let before = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let has_room = before == 0 || before.saturating_add(bytes) <= self.most;
        if !has_room {
            self.take(bytes);
        }
        has_room
    }

    fn take(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Logs {
    /// Opens a folder, or claims it for this group with this identity, and starts its thread.
    ///
    /// # Errors
    /// The reason why the folder cannot be written to.
    pub fn start(
        path: &Path,
        group: GroupId,
        fresh: LogId,
        settings: LogSettings,
    ) -> Result<Logs, LogError> {
        Logs::start_on(LogFolder::open(path)?, group, fresh, settings)
    }
}

impl<D: Disk + Send + 'static> Logs<D> {
    /// Starts the logs as [`Logs::start`] does, on a disk that is already open.
    ///
    /// # Errors
    /// As for [`Logs::start`].
    pub fn start_on(
        mut disk: D,
        group: GroupId,
        fresh: LogId,
        settings: LogSettings,
    ) -> Result<Logs<D>, LogError> {
        let owner = folder::claim(&mut disk, group, fresh)?;
        let (queue, jobs) = sync_channel(settings.queue.max(1));
        let (ends, ended) = sync_channel(1);
        let (spare, closing) = (Arc::default(), Arc::<AtomicBool>::default());
        let load =
            Arc::new(LogQueueBytes { bytes: AtomicUsize::new(0), most: settings.queue_bytes });
        let logs = BTreeMap::new();
        let mut writer = LogWriter {
            disk,
            owner,
            settings,
            logs,
            known: BTreeMap::new(),
            damage_cache: DamageCache::default(),
            load: Arc::clone(&load),
            spare: Arc::clone(&spare),
            closing: Arc::clone(&closing),
        };
        let run = move || {
            settings.thread.begin();
            fail_where_files_end();
            writer.run(&jobs);
            // When the end is reported, all files are closed and the folder is unlocked.
            drop(writer);
            let _ = ends.send(());
        };
        let thread = std::thread::Builder::new().name("squall-log".into()).spawn(run);
        let thread = thread.map_err(|error| LogError::Disk {
            file: String::new(),
            cause: DiskError::Other(format!("no thread can be started: {error}")),
        })?;
        Ok(Logs {
            owner,
            queue,
            queued: load,
            spare,
            closing,
            ended: Mutex::new(ended),
            thread: Some(thread),
        })
    }

    /// Owner of the folder.
    pub fn owner(&self) -> LogOwner {
        self.owner
    }

    /// Creates a handle on the log with this visible state.
    pub(super) fn handle(&self, log_state: Arc<SharedLogState>) -> StreamHandle<D> {
        let (queue, load) = (self.queue.clone(), Arc::clone(&self.queued));
        StreamHandle { state: log_state, queue, queued: load, spare: Arc::clone(&self.spare) }
    }

    /// Opens the log of a stream. The log thread calls `waker` whenever more is durable or the
    /// state changes; `waker` must not block. A failed log may be opened again.
    ///
    /// # Errors
    /// The fault of the log, and where it is; [`LogError::Locked`] if the log is already open.
    pub fn stream(
        &self,
        key: StreamKey,
        on_full: FullDiskPolicy,
        waker: impl Fn() + Send + Sync + 'static,
    ) -> Result<(StreamHandle<D>, Recovery), LogError> {
        let opened = ask(&self.queue, move |writer: &mut LogWriter<D>| {
            if writer.logs.contains_key(&key) {
                return Err(LogError::Locked);
            }
            let opened = StreamLog::open(
                &mut writer.disk,
                LogKey { owner: writer.owner, stream: key },
                writer.settings.limits,
                writer.settings.check,
            );
            opened.map(|(log, recovery)| {
                let log_state = Arc::new(SharedLogState::new(key, on_full, None, waker));
                log_state.publish(log.durable());
                writer.logs.insert(key, OpenLog::new(log, &log_state));
                (log_state, recovery)
            })
        });
        let (log_state, recovery) = opened.unwrap_or(Err(LogError::Failed))?;
        Ok((self.handle(log_state), recovery))
    }

    /// Writes and syncs everything that was pushed, and ends the thread, if that succeeds within
    /// this time.
    pub fn close(mut self, within: Duration) -> CloseOutcome {
        self.end(within)
    }
}

impl<D> Logs<D> {
    fn end(&mut self, within: Duration) -> CloseOutcome {
        let Some(thread) = self.thread.take() else { return CloseOutcome::Clean };
        let deadline = Instant::now() + within;
        self.closing.store(true, Ordering::Release);
        // If the queue is full, wait until it has room or the deadline passes.
        let mut job = LogJob::Close;
        while let Err(TrySendError::Full(back)) = self.queue.try_send(job) {
            if Instant::now() >= deadline {
                return CloseOutcome::Late;
            }
            std::thread::sleep(Duration::from_millis(1));
            job = back;
        }
        let ended = self.ended.get_mut().unwrap_or_else(PoisonError::into_inner);
        match ended.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Err(RecvTimeoutError::Timeout) => CloseOutcome::Late,
            _ => {
                let _ = thread.join();
                CloseOutcome::Clean
            }
        }
    }
}

impl<D> Drop for Logs<D> {
    fn drop(&mut self) {
        self.end(LINGER);
    }
}

/// Runs `work` on the log thread, and waits for the answer; `None` if the thread has ended.
fn ask<D: 'static, T: Send + 'static>(
    queue: &SyncSender<LogJob<D>>,
    work: impl FnOnce(&mut LogWriter<D>) -> T + Send + 'static,
) -> Option<T> {
    let (answers, answer) = sync_channel(1);
    let work: LogWork<D> = Box::new(move |writer: &mut LogWriter<D>| {
        let _ = answers.send(work(writer));
    });
    queue.send(LogJob::Work(work)).ok()?;
    answer.recv().ok()
}

impl<D: Disk + Send + 'static> StreamHandle<D> {
    /// Returns an empty batch, reused if one is spare.
    pub fn batch(&self) -> Batch {
        self.spare.try_lock().ok().and_then(|mut spare| spare.pop()).unwrap_or_default()
    }

    /// Hands a batch to the log thread, without waiting.
    ///
    /// # Errors
    /// [`PushRefusal`] if the queue is full or the log accepts nothing more.
    pub fn try_push(&self, batch: Batch) -> Result<(), PushRefusal> {
        if !self.state.takes() {
            return Err(PushRefusal::Over(self.state()));
        }
        let bytes = batch.footprint();
        if !self.queued.add(bytes) {
            return Err(PushRefusal::Full(batch));
        }
        // Count the push first: every batch taken then counts as pushed.
        self.state.push();
        let refused = match self.queue.try_send(LogJob::Batch(Arc::clone(&self.state), batch)) {
            Ok(()) => return Ok(()),
            Err(TrySendError::Full(LogJob::Batch(_, batch))) => PushRefusal::Full(batch),
            Err(_) => PushRefusal::Over(StreamState::Closed),
        };
        self.state.take_back();
        self.queued.take(bytes);
        Err(refused)
    }

    /// Returns the version of the last durable message (I-80).
    pub fn durable(&self) -> Version {
        self.state.durable()
    }

    /// Returns the state of the log.
    pub fn state(&self) -> StreamState {
        self.state.state()
    }

    /// Returns the reason why the log is not [`StreamState::Open`].
    pub fn error(&self) -> Option<LogError> {
        self.state.error()
    }

    /// Runs `work` on the log thread once everything pushed before is committed: read, drop, cut,
    /// make a checkpoint. Waits for the result; not for use in a turn.
    ///
    /// # Errors
    /// [`LogError::Failed`] if the log no longer exists; any error of `work`.
    pub fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut StreamLog, &mut D) -> Result<T, LogError> + Send + 'static,
    ) -> Result<T, LogError> {
        let key = self.state.key;
        let done = ask(&self.queue, move |writer: &mut LogWriter<D>| {
            let open_log = writer.logs.get_mut(&key).ok_or(LogError::Failed)?;
            let done = work(&mut open_log.log, &mut writer.disk);
            open_log.log_state.publish(open_log.log.durable());
            done
        });
        done.unwrap_or(Err(LogError::Failed))
    }
}

/// A log, and its visible state.
pub(super) struct OpenLog {
    pub(super) log: StreamLog,
    pub(super) log_state: Arc<SharedLogState>,
    /// True if all files of the log were checked.
    pub(super) is_checked: bool,
    /// Number of files at the last check of what may be dropped.
    files: usize,
}

impl OpenLog {
    pub(super) fn new(log: StreamLog, log_state: &Arc<SharedLogState>) -> OpenLog {
        OpenLog { log, log_state: Arc::clone(log_state), is_checked: false, files: 0 }
    }

    /// Drops records beyond the retention; checked when a further file was begun.
    fn trim(&mut self, disk: &mut impl Disk) -> Result<(), LogError> {
        let files = self.log.segments().len();
        if self.log.stream() == VIEWS && files != self.files {
            self.files = files;
            return trim_views(&mut self.log, disk);
        }
        let Some(keep) = self.log_state.retention.as_ref().filter(|_| files != self.files) else {
            return Ok(());
        };
        let now = WallTime(clock::wall(clock::now()));
        let trimmed = log_tasks::trim(&mut self.log, disk, keep, now);
        self.files = self.log.segments().len();
        match trimmed {
            // Without room for the checkpoint, everything stays.
            Err(error) if !error.is_full() => Err(error),
            _ => Ok(()),
        }
    }
}

/// Drops old views: a restart needs only the last one.
fn trim_views(log: &mut StreamLog, disk: &mut impl Disk) -> Result<(), LogError> {
    let policy = SegmentRetention { messages: Some(VIEWS_KEPT), ..SegmentRetention::default() };
    let Some(tail) = log.spare(policy, WallTime::default()) else { return Ok(()) };
    match log.drop_up_to(disk, tail, std::iter::empty::<LogRecord<'_>>()) {
        Err(error) if !error.is_full() => Err(error),
        _ => Ok(()),
    }
}

/// State of the log thread.
pub(super) struct LogWriter<D> {
    pub(super) disk: D,
    pub(super) owner: LogOwner,
    pub(super) settings: LogSettings,
    pub(super) logs: BTreeMap<StreamKey, OpenLog>,
    /// Others' logs of a stream, as far as they were read when they had not reached the
    /// requested point.
    pub(super) known: BTreeMap<(StreamKey, LogId), StreamLog>,
    /// Damaged logs of this folder and of others.
    pub(super) damage_cache: DamageCache,
    load: Arc<LogQueueBytes>,
    spare: Arc<Mutex<Vec<Batch>>>,
    closing: Arc<AtomicBool>,
}

impl<D> Drop for LogWriter<D> {
    fn drop(&mut self) {
        // However the thread ends, no user keeps waiting for it.
        let log_state = self.logs.values().map(|open_log| &open_log.log_state);
        log_state.filter(|it| it.takes()).for_each(|it| it.show(StreamState::Closed, None));
    }
}

impl<D: Disk> LogWriter<D> {
    fn run(&mut self, jobs: &Receiver<LogJob<D>>) {
        // The loop also ends when no user is left that could push.
        loop {
            let first = match self.views_wait() {
                true => jobs.recv_timeout(ROOM_AGAIN),
                false => jobs.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            let mut next = match first {
                Ok(first) => Some(first),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            let mut gathered = 0;
            while let Some(job) = next {
                match job {
                    LogJob::Batch(log_state, batch) => {
                        gathered += batch.bytes();
                        let bytes = batch.footprint();
                        self.append(&log_state, batch);
                        self.load.take(bytes);
                        log_state.take();
                    }
                    LogJob::Work(work) => {
                        self.commit();
                        work(self);
                    }
                    LogJob::Close => {
                        self.commit();
                        self.close_left();
                        self.logs.values().for_each(|open_log| {
                            open_log.log_state.show(StreamState::Closed, None)
                        });
                        return;
                    }
                }
                next = if gathered < GATHERED { jobs.try_recv().ok() } else { None };
            }
            self.commit();
            self.close_left();
        }
    }

    /// Whether a view waits for room on the disk.
    fn views_wait(&self) -> bool {
        self.logs.get(&VIEWS).is_some_and(|open_log| open_log.log.pending() > 0)
    }

    /// Closes the logs whose users have left, with their last batches.
    pub(super) fn close_left(&mut self) {
        let left = self.logs.iter().filter_map(|(key, open_log)| {
            let rest = open_log.log_state.rest()?;
            Some((*key, Arc::clone(&open_log.log_state), rest))
        });
        let left: Vec<_> = left.collect();
        for (key, log_state, rest) in left {
            self.append(&log_state, rest);
            self.commit();
            self.logs.remove(&key);
        }
    }

    fn append(&mut self, log_state: &SharedLogState, mut batch: Batch) {
        // Records for a failed or detached log are lost; the log's user sees the state.
        if let Some(open_log) = self.logs.get_mut(&log_state.key) {
            let (log, disk) = (&mut open_log.log, &self.disk);
            let appended = batch.iter().try_for_each(|put| match put {
                BatchItem::Message(entry) => log.append(entry, disk).map(|_| ()),
                BatchItem::Mark(mark, now) => {
                    log_state.mark();
                    log.mark(mark, now, disk)
                }
            });
            if let Err(error) = appended {
                self.give_up(log_state.key, StreamState::Failed, error);
            }
        }
        batch.clear();
        if let Ok(mut spare) = self.spare.try_lock()
            && spare.len() < SPARE
        {
            spare.push(batch);
        }
    }

    /// Writes and syncs everything that was appended, and publishes it.
    fn commit(&mut self) {
        let keys: Vec<StreamKey> = self
            .logs
            .iter()
            .filter(|(_, open_log)| open_log.log.pending() > 0)
            .map(|(key, _)| *key)
            .collect();
        // Write all before the first sync, so that the disk can handle them in one sweep.
        for key in &keys {
            self.write(*key);
        }
        for key in &keys {
            let Some(open_log) = self.logs.get_mut(key) else { continue };
            match open_log.log.sync(&mut self.disk) {
                Ok(version) => {
                    open_log.log_state.publish_all(version);
                    if let Err(error) = open_log.trim(&mut self.disk) {
                        self.give_up(*key, StreamState::Failed, error);
                    }
                }
                Err(error) => self.give_up(*key, StreamState::Failed, error),
            }
        }
    }

    /// Writes what was appended to a log; waits for room if the log was opened so.
    fn write(&mut self, key: StreamKey) {
        loop {
            let Some(open_log) = self.logs.get_mut(&key) else { return };
            let Err(error) = open_log.log.write(&mut self.disk) else {
                return open_log.log_state.show_room();
            };
            let log_state = Arc::clone(&open_log.log_state);
            if key == VIEWS && error.is_full() && !self.closing.load(Ordering::Acquire) {
                // Other logs have policies of their own for a full disk; a waiting log of views
                // must not stop them.
                return log_state.show_full(error.within(&self.disk.place()));
            }
            if let Some(state) = self.judge(&log_state, &error) {
                return self.give_up(key, state, error);
            }
        }
    }

    /// Returns the state of a log after this error. Returns `None`, after a pause, if the disk is
    /// full and the log waits for room.
    pub(super) fn judge(
        &self,
        log_state: &SharedLogState,
        error: &LogError,
    ) -> Option<StreamState> {
        if !error.is_full() {
            return Some(StreamState::Failed);
        }
        if log_state.on_full == FullDiskPolicy::Detach {
            return Some(StreamState::Detached);
        }
        if self.closing.load(Ordering::Acquire) {
            return Some(StreamState::Failed);
        }
        log_state.show_full(error.clone().within(&self.disk.place()));
        std::thread::sleep(ROOM_AGAIN);
        None
    }

    pub(super) fn give_up(&mut self, key: StreamKey, state: StreamState, error: LogError) {
        let error = error.within(&self.disk.place());
        tracing::error!("the log of stream {key} accepts no more records: {error}");
        if let Some(open_log) = self.logs.remove(&key) {
            open_log.log_state.show(state, Some(error));
        }
    }
}
