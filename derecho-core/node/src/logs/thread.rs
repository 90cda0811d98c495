//! The log thread: makes durable what is pushed to it.
//!
//! Owns: the logs of a folder, and who is told what is durable. Never does: wait for more before it writes;
//! batches come from load. All that is ready is appended, then each log is written once and synced once.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use derecho_core::log::views::VIEWS;
use derecho_core::log::{
    Check, Disk, DiskError, GroupId, Limits, LogError, LogId, Owner, Record, Recovery, Retention,
    StreamKey, StreamLog, Version, WallTime, folder,
};
use derecho_core::storage::errands;

use super::batch::{Batch, Put};
use super::folder::Folder;
use super::harm::KnownHarm;
use super::shown::Shown;
pub use super::shown::{OnFull, StreamState};
use crate::clock;
use crate::threads::{ThreadSettings, fail_where_files_end};

/// So many bytes are taken from the queue before all of it is written and synced.
const GATHERED: usize = 16 << 20;
/// How often a log that found no room tries again.
const ROOM_AGAIN: Duration = Duration::from_millis(20);
/// How long a process that drops its logs waits for what is still to be written.
const LINGER: Duration = Duration::from_secs(5);
/// What waits for the log thread takes so many bytes at most, unless it is said.
pub const QUEUE_BYTES: usize = 64 << 20;
/// So many views are kept at least.
const VIEWS_KEPT: u64 = 1_000;
/// Files of views get so large.
pub(super) const VIEWS_FILE: u64 = 1 << 20;
/// Batches that are kept to be filled again.
const SPARE: usize = 64;

/// How a folder's logs are kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// So many batches are in the queue at most.
    pub queue: usize,
    /// Batches in the queue take so many bytes at most, all logs of the folder together; one alone may be larger.
    pub queue_bytes: usize,
    /// How large files get.
    pub limits: Limits,
    /// How much is looked at when a log is opened.
    pub check: Check,
    /// Where and how the thread runs.
    pub thread: ThreadSettings,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            queue: 1024,
            queue_bytes: QUEUE_BYTES,
            limits: Limits::default(),
            check: Check::Last,
            thread: ThreadSettings::default(),
        }
    }
}

/// Why a batch was not taken.
#[derive(Debug)]
pub enum Refused {
    /// The queue is full; the batch comes back to be pushed later.
    Full(Batch),
    /// The log takes nothing more.
    Over(StreamState),
}

/// How the log thread ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// All that was pushed was written and synced, or its log had failed.
    Clean,
    /// The deadline has passed first; what is not durable may be lost.
    Late,
}

pub(super) type Work<D> = Box<dyn FnOnce(&mut Writer<D>) + Send>;

pub(super) enum Job<D> {
    Batch(Arc<Shown>, Batch),
    /// Something that wants the logs as they are, with all before it committed.
    Work(Work<D>),
    Close,
}

/// The logs of a folder, and the thread that writes them.
pub struct Logs<D = Folder> {
    owner: Owner,
    queue: SyncSender<Job<D>>,
    load: Arc<Load>,
    spare: Arc<Mutex<Vec<Batch>>>,
    closing: Arc<AtomicBool>,
    ended: Mutex<Receiver<()>>,
    thread: Option<JoinHandle<()>>,
}

/// One stream's log, for whoever pushes to it.
pub struct StreamHandle<D = Folder> {
    pub(super) shown: Arc<Shown>,
    pub(super) queue: SyncSender<Job<D>>,
    load: Arc<Load>,
    spare: Arc<Mutex<Vec<Batch>>>,
}

/// How much waits for the log thread.
struct Load {
    bytes: AtomicUsize,
    most: usize,
}

impl Load {
    /// So many bytes more are to wait. `false`: that is too much, and they do not.
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
    /// Why the folder cannot be written in.
    pub fn start(
        path: &Path,
        group: GroupId,
        fresh: LogId,
        settings: Settings,
    ) -> Result<Logs, LogError> {
        Logs::start_on(Folder::open(path)?, group, fresh, settings)
    }
}

impl<D: Disk + Send + 'static> Logs<D> {
    /// [`Logs::start`] on a disk that is open already.
    ///
    /// # Errors
    /// As of it.
    pub fn start_on(
        mut disk: D,
        group: GroupId,
        fresh: LogId,
        settings: Settings,
    ) -> Result<Logs<D>, LogError> {
        let owner = folder::claim(&mut disk, group, fresh)?;
        let (queue, jobs) = sync_channel(settings.queue.max(1));
        let (ends, ended) = sync_channel(1);
        let (spare, closing) = (Arc::default(), Arc::<AtomicBool>::default());
        let load = Arc::new(Load { bytes: AtomicUsize::new(0), most: settings.queue_bytes });
        let logs = BTreeMap::new();
        let mut writer = Writer {
            disk,
            owner,
            settings,
            logs,
            known: BTreeMap::new(),
            harm: KnownHarm::default(),
            load: Arc::clone(&load),
            spare: Arc::clone(&spare),
            closing: Arc::clone(&closing),
        };
        let run = move || {
            settings.thread.begin();
            fail_where_files_end();
            writer.run(&jobs);
            // Whoever waits for the end has all files closed and the folder unlocked.
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
            load,
            spare,
            closing,
            ended: Mutex::new(ended),
            thread: Some(thread),
        })
    }

    /// Whose the folder is.
    pub fn owner(&self) -> Owner {
        self.owner
    }

    /// For whoever pushes to the log that shows this.
    pub(super) fn handle(&self, shown: Arc<Shown>) -> StreamHandle<D> {
        let (queue, load) = (self.queue.clone(), Arc::clone(&self.load));
        StreamHandle { shown, queue, load, spare: Arc::clone(&self.spare) }
    }

    /// Opens the log of a stream. `waker` is called whenever more is durable or the state changes, by the log
    /// thread: it must not block. One that has failed may be opened again.
    ///
    /// # Errors
    /// What is wrong with the log, and where; [`LogError::Locked`] if it is open already.
    pub fn stream(
        &self,
        key: StreamKey,
        on_full: OnFull,
        waker: impl Fn() + Send + Sync + 'static,
    ) -> Result<(StreamHandle<D>, Recovery), LogError> {
        let opened = ask(&self.queue, move |writer: &mut Writer<D>| {
            if writer.logs.contains_key(&key) {
                return Err(LogError::Locked);
            }
            let opened = StreamLog::open(
                &mut writer.disk,
                (writer.owner, key),
                writer.settings.limits,
                writer.settings.check,
            );
            opened.map(|(log, recovery)| {
                let shown = Arc::new(Shown::new((key, on_full, None), waker));
                shown.publish(log.durable());
                writer.logs.insert(key, Kept::new(log, &shown));
                (shown, recovery)
            })
        });
        let (shown, recovery) = opened.unwrap_or(Err(LogError::Failed))?;
        Ok((self.handle(shown), recovery))
    }

    /// Has all that was pushed written and synced, and ends the thread, if that is done within this time.
    pub fn close(mut self, within: Duration) -> Ending {
        self.end(within)
    }
}

impl<D> Logs<D> {
    fn end(&mut self, within: Duration) -> Ending {
        let Some(thread) = self.thread.take() else { return Ending::Clean };
        let deadline = Instant::now() + within;
        self.closing.store(true, Ordering::Release);
        // The queue may be full: it empties, or the deadline passes.
        let mut job = Job::Close;
        while let Err(TrySendError::Full(back)) = self.queue.try_send(job) {
            if Instant::now() >= deadline {
                return Ending::Late;
            }
            std::thread::sleep(Duration::from_millis(1));
            job = back;
        }
        let ended = self.ended.get_mut().unwrap_or_else(PoisonError::into_inner);
        match ended.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Err(RecvTimeoutError::Timeout) => Ending::Late,
            _ => {
                let _ = thread.join();
                Ending::Clean
            }
        }
    }
}

impl<D> Drop for Logs<D> {
    fn drop(&mut self) {
        self.end(LINGER);
    }
}

/// Has the log thread do something, and waits for the answer; `None` if it has ended.
fn ask<D: 'static, T: Send + 'static>(
    queue: &SyncSender<Job<D>>,
    work: impl FnOnce(&mut Writer<D>) -> T + Send + 'static,
) -> Option<T> {
    let (answers, answer) = sync_channel(1);
    let work: Work<D> = Box::new(move |writer: &mut Writer<D>| {
        let _ = answers.send(work(writer));
    });
    queue.send(Job::Work(work)).ok()?;
    answer.recv().ok()
}

impl<D: Disk + Send + 'static> StreamHandle<D> {
    /// An empty batch, one that was used before if there is one.
    pub fn batch(&self) -> Batch {
        self.spare.try_lock().ok().and_then(|mut spare| spare.pop()).unwrap_or_default()
    }

    /// Hands a batch to the log thread, without waiting.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn try_push(&self, batch: Batch) -> Result<(), Refused> {
        if !self.shown.takes() {
            return Err(Refused::Over(self.state()));
        }
        let bytes = batch.footprint();
        if !self.load.add(bytes) {
            return Err(Refused::Full(batch));
        }
        // First: what is taken was pushed.
        self.shown.push();
        let refused = match self.queue.try_send(Job::Batch(Arc::clone(&self.shown), batch)) {
            Ok(()) => return Ok(()),
            Err(TrySendError::Full(Job::Batch(_, batch))) => Refused::Full(batch),
            Err(_) => Refused::Over(StreamState::Closed),
        };
        self.shown.take_back();
        self.load.take(bytes);
        Err(refused)
    }

    /// The last message that is durable (I-80).
    pub fn durable(&self) -> Version {
        self.shown.durable()
    }

    /// How the log is.
    pub fn state(&self) -> StreamState {
        self.shown.state()
    }

    /// Why it is not [`StreamState::Open`].
    pub fn error(&self) -> Option<LogError> {
        self.shown.error()
    }

    /// Has the log thread do something with the log as it is when all that was pushed before is committed:
    /// read, drop, cut, make a checkpoint. Waits for it; nothing for a turn.
    ///
    /// # Errors
    /// [`LogError::Failed`] if there is no log any more; what `work` says.
    pub fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut StreamLog, &mut D) -> Result<T, LogError> + Send + 'static,
    ) -> Result<T, LogError> {
        let key = self.shown.key;
        let done = ask(&self.queue, move |writer: &mut Writer<D>| {
            let kept = writer.logs.get_mut(&key).ok_or(LogError::Failed)?;
            let done = work(&mut kept.log, &mut writer.disk);
            kept.shown.publish(kept.log.durable());
            done
        });
        done.unwrap_or(Err(LogError::Failed))
    }
}

/// A log, and what it shows.
pub(super) struct Kept {
    pub(super) log: StreamLog,
    pub(super) shown: Arc<Shown>,
    /// All of its files were checked.
    pub(super) is_checked: bool,
    /// So many files it had when it was looked last what may be dropped.
    files: usize,
}

impl Kept {
    pub(super) fn new(log: StreamLog, shown: &Arc<Shown>) -> Kept {
        Kept { log, shown: Arc::clone(shown), is_checked: false, files: 0 }
    }

    /// Drops what is to be kept no longer; it is looked for when another file was begun.
    fn trim(&mut self, disk: &mut impl Disk) -> Result<(), LogError> {
        let files = self.log.segments().len();
        if self.log.stream() == VIEWS && files != self.files {
            self.files = files;
            return trim_views(&mut self.log, disk);
        }
        let Some(keep) = self.shown.keep.as_ref().filter(|_| files != self.files) else {
            return Ok(());
        };
        let now = WallTime(clock::wall(clock::now()));
        let trimmed = errands::trim(&mut self.log, disk, keep, now);
        self.files = self.log.segments().len();
        match trimmed {
            // Without room for the checkpoint all stays.
            Err(error) if !error.is_full() => Err(error),
            _ => Ok(()),
        }
    }
}

/// Drops views that were long ago: a restart asks for the last one alone.
fn trim_views(log: &mut StreamLog, disk: &mut impl Disk) -> Result<(), LogError> {
    let policy = Retention { messages: Some(VIEWS_KEPT), ..Retention::default() };
    let Some(tail) = log.spare(policy, WallTime::default()) else { return Ok(()) };
    match log.drop_up_to(disk, tail, std::iter::empty::<Record<'_>>()) {
        Err(error) if !error.is_full() => Err(error),
        _ => Ok(()),
    }
}

/// What the log thread has.
pub(super) struct Writer<D> {
    pub(super) disk: D,
    pub(super) owner: Owner,
    pub(super) settings: Settings,
    pub(super) logs: BTreeMap<StreamKey, Kept>,
    /// Others' logs of a stream, as far as they were read when they had not come as far as was asked.
    pub(super) known: BTreeMap<(StreamKey, LogId), StreamLog>,
    /// The harmed logs of this folder and of others.
    pub(super) harm: KnownHarm,
    load: Arc<Load>,
    spare: Arc<Mutex<Vec<Batch>>>,
    closing: Arc<AtomicBool>,
}

impl<D> Drop for Writer<D> {
    fn drop(&mut self) {
        // However the thread ends, nobody waits for it.
        let shown = self.logs.values().map(|kept| &kept.shown);
        shown.filter(|it| it.takes()).for_each(|it| it.show(StreamState::Closed, None));
    }
}

impl<D: Disk> Writer<D> {
    fn run(&mut self, jobs: &Receiver<Job<D>>) {
        // It ends as well when nobody is left who could push.
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
                    Job::Batch(shown, batch) => {
                        gathered += batch.bytes();
                        let bytes = batch.footprint();
                        self.append(&shown, batch);
                        self.load.take(bytes);
                        shown.take();
                    }
                    Job::Work(work) => {
                        self.commit();
                        work(self);
                    }
                    Job::Close => {
                        self.commit();
                        self.close_left();
                        self.logs
                            .values()
                            .for_each(|kept| kept.shown.show(StreamState::Closed, None));
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
        self.logs.get(&VIEWS).is_some_and(|kept| kept.log.pending() > 0)
    }

    /// Closes the logs that were left, with the last that is for them.
    pub(super) fn close_left(&mut self) {
        let left = self.logs.iter().filter_map(|(key, kept)| {
            let rest = kept.shown.rest()?;
            Some((*key, Arc::clone(&kept.shown), rest))
        });
        let left: Vec<_> = left.collect();
        for (key, shown, rest) in left {
            self.append(&shown, rest);
            self.commit();
            self.logs.remove(&key);
        }
    }

    fn append(&mut self, shown: &Shown, mut batch: Batch) {
        // What is for a log that has failed or was detached is lost; who pushed it sees the state.
        if let Some(kept) = self.logs.get_mut(&shown.key) {
            let (log, disk) = (&mut kept.log, &self.disk);
            let appended = batch.iter().try_for_each(|put| match put {
                Put::Message(entry) => log.append(entry, disk).map(|_| ()),
                Put::Mark(mark, now) => {
                    shown.mark();
                    log.mark(mark, now, disk)
                }
            });
            if let Err(error) = appended {
                self.give_up(shown.key, (StreamState::Failed, error));
            }
        }
        batch.clear();
        if let Ok(mut spare) = self.spare.try_lock()
            && spare.len() < SPARE
        {
            spare.push(batch);
        }
    }

    /// Writes and syncs all that was appended, and tells it.
    fn commit(&mut self) {
        let keys: Vec<StreamKey> = self
            .logs
            .iter()
            .filter(|(_, kept)| kept.log.pending() > 0)
            .map(|(key, _)| *key)
            .collect();
        // All are written before the first is synced, so that the disk can put them into one sweep.
        for key in &keys {
            self.write(*key);
        }
        for key in &keys {
            let Some(kept) = self.logs.get_mut(key) else { continue };
            match kept.log.sync(&mut self.disk) {
                Ok(version) => {
                    kept.shown.publish_all(version);
                    if let Err(error) = kept.trim(&mut self.disk) {
                        self.give_up(*key, (StreamState::Failed, error));
                    }
                }
                Err(error) => self.give_up(*key, (StreamState::Failed, error)),
            }
        }
    }

    /// Writes what was appended to a log; waits for room if that is how it was opened.
    fn write(&mut self, key: StreamKey) {
        loop {
            let Some(kept) = self.logs.get_mut(&key) else { return };
            let Err(error) = kept.log.write(&mut self.disk) else {
                return kept.shown.show_room();
            };
            let shown = Arc::clone(&kept.shown);
            if key == VIEWS && error.is_full() && !self.closing.load(Ordering::Acquire) {
                // The logs beside it have policies of their own for a full disk, and are not kept from them.
                return shown.show_full(error.within(&self.disk.place()));
            }
            if let Some(state) = self.judge(&shown, &error) {
                return self.give_up(key, (state, error));
            }
        }
    }

    /// What becomes of a log by this error. If it is that the disk is full, and that is waited for: none, after a while.
    pub(super) fn judge(&self, shown: &Shown, error: &LogError) -> Option<StreamState> {
        if !error.is_full() {
            return Some(StreamState::Failed);
        }
        if shown.on_full == OnFull::Detach {
            return Some(StreamState::Detached);
        }
        if self.closing.load(Ordering::Acquire) {
            return Some(StreamState::Failed);
        }
        shown.show_full(error.clone().within(&self.disk.place()));
        std::thread::sleep(ROOM_AGAIN);
        None
    }

    pub(super) fn give_up(&mut self, key: StreamKey, (state, error): (StreamState, LogError)) {
        let error = error.within(&self.disk.place());
        tracing::error!("the log of stream {key} takes nothing more: {error}");
        if let Some(kept) = self.logs.remove(&key) {
            kept.shown.show(state, Some(error));
        }
    }
}
