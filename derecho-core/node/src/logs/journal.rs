//! The log of one stream as a member's turn sees it, done by the log thread.
//!
//! Owns: the batch of this turn, and the errand on its way. Never does: wait for the log thread; a queue that is full
//! says so, and the turn asks again.

use std::path::PathBuf;
use std::sync::mpsc::TrySendError;
use std::sync::{Arc, Mutex, PoisonError};

use derecho_core::log::{
    DiskError, Entry, LogError, LogId, Mark, StreamKey, StreamLog, Version, WallTime, folder,
};
use derecho_core::storage::errands::{self, Neighbour};
use derecho_core::storage::journal::{Answer, Condition, Errand, Journal};

use super::batch::Batch;
use super::folder::Folder;
use super::thread::{Job, Kept, Logs, OnFull, Refused, Shown, StreamHandle, StreamState, Writer};
use crate::clock;

/// Bytes of a batch; more goes into the next one.
const BATCH: usize = 1 << 20;

/// What an errand and its answer are handed over in.
#[derive(Default)]
struct Slot {
    errand: Mutex<Option<Errand>>,
    answer: Mutex<Option<Answer>>,
}

/// See the [module](self).
pub struct StreamJournal {
    log: LogId,
    handle: StreamHandle,
    slot: Arc<Slot>,
    batch: Batch,
    /// The folders beside the own one lie in this one.
    root: PathBuf,
}

impl StreamJournal {
    pub(super) fn new(
        logs: &Logs,
        root: PathBuf,
        of: (StreamKey, OnFull),
        waker: impl Fn() + Send + Sync + 'static,
    ) -> StreamJournal {
        StreamJournal {
            log: logs.owner().log,
            handle: logs.handle(Arc::new(Shown::new(of, waker))),
            slot: Arc::default(),
            batch: Batch::default(),
            root,
        }
    }

    /// Hands the batch on. `false` if the queue is full.
    fn push(&mut self) -> bool {
        if self.batch.is_empty() {
            return true;
        }
        let batch = std::mem::replace(&mut self.batch, self.handle.batch());
        match self.handle.try_push(batch) {
            Err(Refused::Full(batch)) => {
                self.batch = batch;
                return false;
            }
            // The log's thread has ended without a word.
            Err(Refused::Over(StreamState::Closed)) if self.handle.state() == StreamState::Open => {
                self.handle.shown.show_failed(LogError::Failed);
            }
            Err(Refused::Over(_)) | Ok(()) => {}
        }
        true
    }
}

fn now() -> WallTime {
    WallTime(clock::wall(clock::now()))
}

impl Journal for StreamJournal {
    fn log(&self) -> LogId {
        self.log
    }

    fn ask(&mut self, errand: &mut Option<Errand>) -> bool {
        if !self.push() {
            return false;
        }
        let slot = Arc::clone(&self.slot);
        *self.slot.errand.lock().unwrap_or_else(PoisonError::into_inner) = errand.take();
        let (shown, root) = (Arc::clone(&self.handle.shown), self.root.clone());
        let work = Box::new(move |writer: &mut Writer<Folder>| {
            let errand = slot.errand.lock().unwrap_or_else(PoisonError::into_inner).take();
            let Some(errand) = errand else { return };
            let answer = run(writer, &shown, &root, errand);
            if let Answer::Failed(error) = &answer {
                writer.give_up(shown.key, (StreamState::Failed, error.clone()));
                shown.show_failed(error.clone());
            }
            *slot.answer.lock().unwrap_or_else(PoisonError::into_inner) = Some(answer);
            (shown.waker)();
        });
        match self.handle.queue.try_send(Job::Work(work)) {
            Err(TrySendError::Full(_)) => {
                *errand = self.slot.errand.lock().unwrap_or_else(PoisonError::into_inner).take();
                false
            }
            Err(TrySendError::Disconnected(_)) => {
                self.handle.shown.show_failed(LogError::Failed);
                true
            }
            Ok(()) => true,
        }
    }

    fn answer(&mut self) -> Option<Answer> {
        self.slot.answer.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn put(&mut self, entry: Entry<'_>) -> bool {
        if self.batch.bytes() >= BATCH && !self.push() {
            return false;
        }
        // A message that no record can hold would have been refused when it was written.
        let _ = self.batch.push(Entry { reception_time: now(), ..entry });
        true
    }

    fn mark(&mut self, mark: Mark) -> bool {
        self.batch.mark(mark, now());
        true
    }

    fn hand_over(&mut self) {
        self.push();
    }

    fn durable(&self) -> Version {
        self.handle.durable()
    }

    fn condition(&self) -> Condition {
        match self.handle.state() {
            StreamState::Open => Condition::Open,
            StreamState::Full => Condition::Full,
            StreamState::Detached => Condition::Detached,
            StreamState::Failed | StreamState::Closed => Condition::Failed(self.handle.error()),
        }
    }
}

impl Drop for StreamJournal {
    fn drop(&mut self) {
        // What is left of the batch, then the end: the log is written by nobody any more. If there is no room, the
        // thread sees that when it ends.
        self.push();
        let shown = Arc::clone(&self.handle.shown);
        let work = Box::new(move |writer: &mut Writer<Folder>| {
            // Another one may have taken it over meanwhile.
            if writer.logs.get(&shown.key).is_some_and(|kept| Arc::ptr_eq(&kept.shown, &shown)) {
                writer.logs.remove(&shown.key);
            }
        });
        let _ = self.handle.queue.try_send(Job::Work(work));
    }
}

/// Does an errand on the log thread.
fn run(
    writer: &mut Writer<Folder>,
    shown: &Arc<Shown>,
    root: &std::path::Path,
    errand: Errand,
) -> Answer {
    if !writer.logs.contains_key(&shown.key) {
        if shown.state() != StreamState::Open {
            return Answer::Failed(shown.error().unwrap_or(LogError::Failed));
        }
        let (of, settings) = ((writer.owner, shown.key), writer.settings);
        match StreamLog::open(&mut writer.disk, of, settings.limits, settings.check) {
            Ok((log, recovery)) => {
                if let Some(torn) = recovery.torn {
                    tracing::warn!("the log of stream {} ended torn: {torn:?} is cut", shown.key);
                }
                shown.publish(log.durable());
                writer.logs.insert(shown.key, Kept { log, shown: Arc::clone(shown) });
            }
            Err(error) => return Answer::Failed(error),
        }
    }
    if let Some(kept) = writer.logs.get_mut(&shown.key)
        && !Arc::ptr_eq(&kept.shown, shown)
    {
        // The one that wrote here before has ended, and nobody was told yet.
        kept.shown = Arc::clone(shown);
        shown.publish(kept.log.durable());
    }
    let locks = matches!(errand, Errand::Claim(_));
    let mut neighbours = match neighbours(root, writer.owner.log, locks) {
        Ok(neighbours) => neighbours,
        // What is not looked at may be what matters: nothing begins without it.
        Err(error) if locks => return Answer::Failed(error),
        Err(_) => Vec::new(),
    };
    let Some(kept) = writer.logs.get_mut(&shown.key) else {
        return Answer::Failed(LogError::Failed);
    };
    if matches!(errand, Errand::Replace(..)) && kept.log.tail().version > Version(0) {
        tracing::warn!(
            "the log of stream {} is no part of what this has been meanwhile: a checkpoint takes its place",
            shown.key
        );
    }
    let answer = errands::run(errand, &mut kept.log, &mut writer.disk, &mut neighbours);
    kept.shown.publish(kept.log.durable());
    answer
}

/// The folders beside the own one. Those that nobody keeps are kept out of others' hands as long as they are looked at.
fn neighbours(
    root: &std::path::Path,
    own: LogId,
    locks: bool,
) -> Result<Vec<Neighbour<Folder>>, LogError> {
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
        let mut disk = Folder::read(&path)?;
        let Some(owner) = folder::owner(&mut disk)? else {
            match folder::streams(&mut disk)?.is_empty() {
                true => continue,
                false => return Err(LogError::BadHeader { file: path.display().to_string() }),
            }
        };
        if owner.log == own {
            continue;
        }
        let (disk, busy) = match locks.then(|| Folder::open(&path)) {
            Some(Ok(locked)) => (locked, false),
            _ => (disk, true),
        };
        found.push(Neighbour { log: owner.log, disk, busy });
    }
    Ok(found)
}
