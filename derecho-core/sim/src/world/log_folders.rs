//! Log folders on simulated disks, and the logs that members keep there.
//!
//! Owns: the assignment of folders, and the times at which log records become durable. Never does:
//! run a log task in a way of its own; the core does.
#![allow(clippy::unwrap_used, reason = "a run that cannot go on fails")]

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};

use crate::Random;
use crate::disk::{DiskFaults, SimDisk};
use derecho_core::log::restart_permission::{PermittedDamage, RestartPermission};
use derecho_core::log::segment::{FILE_HEADER, FileHeader, FileKind};
use derecho_core::log::views::{self, VIEWS};
use derecho_core::log::{
    Disk, DiskError, EpochMark, GroupId, LogEntry, LogError, LogId, LogKey, LogLimits, LogOwner,
    LogRecord, OwnedRecord, RecoveryCheck, StreamKey, StreamLog, Tail, Version, aside, folder,
};
use derecho_core::storage::log_damage::{self, DamageOutcome, LogDamage};
use derecho_core::storage::log_port::{LogPort, LogPortCondition, LogTask, LogTaskResult};
use derecho_core::storage::log_tasks::{self, ReachableFolder};

const GROUP: GroupId = GroupId(9);
/// Small, so that logs have many files.
const LIMITS: LogLimits = LogLimits { segment_bytes: 16 << 10 };

/// Log folder on a simulated disk.
#[derive(Clone)]
pub struct SimFolder(Arc<Mutex<SimDisk>>);

macro_rules! passed_on {
    ($($name:ident($($arg:ident: $type:ty),*) -> $result:ty;)*) => {$(
        fn $name(&mut self, $($arg: $type),*) -> Result<$result, DiskError> {
            self.0.lock().unwrap().$name($($arg),*)
        }
    )*};
}

impl Disk for SimFolder {
    passed_on! {
        list() -> Vec<String>;
        length(name: &str) -> u64;
        read_at(name: &str, at: u64, into: &mut [u8]) -> usize;
        create(name: &str) -> ();
        write_at(name: &str, at: u64, bytes: &[u8]) -> ();
        sync_file(name: &str) -> ();
        sync_folder() -> ();
        rename(from: &str, to: &str) -> ();
        remove(name: &str) -> ();
        truncate(name: &str, length: u64) -> ();
    }
}

struct FolderState {
    log: LogId,
    folder: SimFolder,
    busy: bool,
    /// True while its disk makes no progress.
    stalled: bool,
    /// True while each sync of its disk fails, until its process has ended.
    failing: bool,
    /// True if others continued, none of which had a complete log.
    left_behind: bool,
    /// Last view that is durable in it: its era and number.
    viewed: (u64, u64),
}

/// Content of a log.
pub struct FoundLog {
    /// Id of the log.
    pub log: LogId,
    /// Its end.
    pub tail: Tail,
    /// Version that it has as a checkpoint, if any.
    pub checkpoint: Option<Version>,
    /// Records in its segments.
    pub records: Vec<OwnedRecord>,
}

/// All folders of a host; or of as many hosts, none of which sees another's.
#[derive(Clone, Default)]
pub struct LogFolders(Arc<Mutex<Vec<FolderState>>>, bool, Arc<Mutex<Vec<RestartPermission>>>);

impl LogFolders {
    /// Creates folders on disks of their own, which no other host reaches.
    pub fn separate() -> LogFolders {
        LogFolders(Arc::default(), true, Arc::default())
    }

    /// Gives the operator's permission to restart without this folder, based on the content of
    /// another one.
    pub fn proceed_without(&self, at: usize, seen_in: usize) {
        let mut slots = self.0.lock().unwrap();
        let (without, after) = (slots[at].log, slots[seen_in].viewed);
        let owner = LogOwner { group: GROUP, log: without };
        let folder = &mut slots[at].folder;
        let mut damaged = Vec::new();
        for stream in folder::streams(folder).unwrap() {
            if let Err(error) =
                StreamLog::read(folder, LogKey { owner, stream }, RecoveryCheck::All)
            {
                let last = aside::last(folder, stream).unwrap();
                damaged.push(PermittedDamage { stream, last, error: error.to_string() });
            }
        }
        let by = "operator".to_owned();
        let permission = RestartPermission { without, after, at: Default::default(), by, damaged };
        self.2.lock().unwrap().push(permission);
    }

    /// Records that others continue without this folder, none of which has a complete log.
    pub fn leave_behind(&self, at: usize) {
        self.0.lock().unwrap()[at].left_behind = true;
    }

    /// Whether the folders are on disks of their own.
    pub fn is_separate(&self) -> bool {
        self.1
    }

    /// Stalls or continues the disk of this folder.
    pub fn stall(&self, at: usize, stalled: bool) {
        self.0.lock().unwrap()[at].stalled = stalled;
    }

    /// Fills the disk of this folder, or gives it room again.
    pub fn fill(&self, at: usize, is_full: bool) {
        let slots = self.0.lock().unwrap();
        slots[at].folder.0.lock().unwrap().faults.room = is_full.then_some(0);
    }

    /// Makes each later sync of this folder's disk fail, until its process has ended.
    pub fn fail_syncs(&self, at: usize) {
        let slot = &mut self.0.lock().unwrap()[at];
        slot.failing = true;
        slot.folder.0.lock().unwrap().faults.failing_syncs = 1;
    }

    /// Whether the syncs of this folder's disk fail.
    pub fn is_failing(&self, at: usize) -> bool {
        self.0.lock().unwrap()[at].failing
    }

    /// Whether each folder is in use, so that the next member gets a new one.
    pub fn is_used(&self) -> bool {
        self.count().1 == 0
    }

    /// Hides this folder, or makes it available again.
    pub fn hide(&self, at: usize, hidden: bool) {
        self.0.lock().unwrap()[at].busy = hidden;
    }

    /// Returns the last view that is durable in this folder: its era and number.
    pub fn viewed(&self, at: usize) -> (u64, u64) {
        self.0.lock().unwrap()[at].viewed
    }

    /// Returns the number of folders, and of those that are not in use.
    pub fn count(&self) -> (usize, usize) {
        let slots = self.0.lock().unwrap();
        (slots.len(), slots.iter().filter(|slot| !slot.busy).count())
    }

    /// Takes an unused folder, or a new one.
    pub fn take(&self, random: &mut Random) -> usize {
        let mut slots = self.0.lock().unwrap();
        let mut free: Vec<usize> = (0..slots.len()).filter(|at| !slots[*at].busy).collect();
        // A folder lost before it had recorded anything knows of no other member: it does not come
        // back alone.
        let noted: Vec<usize> =
            free.iter().copied().filter(|at| self.1 && has_noted(&mut slots[*at])).collect();
        if !noted.is_empty() {
            free = noted;
        }
        // A folder that was left behind cannot know what others have logged since: on a host it is
        // not the first one to come back.
        if self.1 && slots.iter().all(|slot| !slot.busy) {
            let known = free.iter().copied().filter(|at| !slots[*at].left_behind);
            let known: Vec<usize> = known.collect();
            free = if known.is_empty() { free } else { known };
        }
        // A host that comes back has its previous disk.
        let choices = free.len() as u64 + u64::from(!self.1);
        let some = free.get(random.below(choices.max(1)) as usize);
        let at = some.copied().unwrap_or_else(|| {
            let mut disk = SimDisk::new(random.next_word());
            disk.plan(DiskFaults::default());
            let log = LogId(slots.len() as u128 + 1);
            let mut folder = SimFolder(Arc::new(Mutex::new(disk)));
            folder::claim(&mut folder, GROUP, log).unwrap();
            slots.push(FolderState {
                log,
                folder,
                busy: false,
                stalled: false,
                failing: false,
                left_behind: false,
                viewed: (0, 0),
            });
            slots.len() - 1
        });
        (slots[at].busy, slots[at].left_behind) = (true, false);
        at
    }

    /// Ends the process of a folder; if the power was lost, some unsynced data is lost.
    pub fn give_back(&self, at: usize, power: bool) {
        let slot = &mut self.0.lock().unwrap()[at];
        (slot.busy, slot.stalled, slot.failing) = (false, false, false);
        let mut disk = slot.folder.0.lock().unwrap();
        match power {
            true => disk.lose_power(),
            false => disk.kill(),
        }
    }

    /// Returns the streams in this folder.
    pub fn streams(&self, at: usize) -> Vec<StreamKey> {
        let slot = &mut self.0.lock().unwrap()[at];
        folder::streams(&mut slot.folder).unwrap().into_iter().collect()
    }

    /// Returns the log of a stream in this folder.
    pub fn journal(&self, at: usize, stream: StreamKey, seed: u64) -> SimLogPort {
        let slot = &mut self.0.lock().unwrap()[at];
        let owner = LogOwner { group: GROUP, log: slot.log };
        let of = LogKey { owner, stream };
        let (log, damaged) = match StreamLog::open(&mut slot.folder, of, LIMITS, RecoveryCheck::All)
        {
            Ok((log, _)) => (log, None),
            Err(error) => {
                assert!(error.is_damage() && stream != VIEWS, "{error}");
                // A substitute, until the damaged log is put aside.
                let (log, _) =
                    StreamLog::open(&mut SimDisk::new(0), of, LIMITS, RecoveryCheck::All).unwrap();
                (log, Some(LogDamage::of(&mut slot.folder, of, error)))
            }
        };
        SimLogPort {
            folders: self.clone(),
            at,
            folder: slot.folder.clone(),
            log,
            random: Random::new(seed),
            queue: VecDeque::new(),
            task: None,
            answer: None,
            marked: 0,
            noted: 0,
            failed: None,
            damaged,
        }
    }

    /// Flips a bit of a file of this stream in this folder: in the longest file, before other
    /// records, or at the end of the last file.
    pub fn damage(&self, at: usize, stream: StreamKey, at_the_end: bool) {
        let folder = self.0.lock().unwrap()[at].folder.clone();
        let mut disk = folder.0.lock().unwrap();
        let is_it = |name: &String| {
            FileHeader::parse_name(name)
                .is_some_and(|(of, kind, _)| of == stream && kind == FileKind::Segment)
        };
        let files: Vec<String> = disk.files().into_iter().filter(is_it).collect();
        let length = |name: &&String| disk.bytes(name).len() as u64;
        let (name, byte) = match at_the_end {
            true => (files.last().unwrap(), length(&files.last().unwrap()) - 12),
            false => (files.iter().max_by_key(length).unwrap(), FILE_HEADER + 12),
        };
        let name = name.clone();
        disk.flip(&name, byte * 8);
    }

    /// Number of logs of a stream that were put aside in this folder.
    pub fn asides(&self, at: usize, stream: StreamKey) -> usize {
        let folder = &mut self.0.lock().unwrap()[at].folder;
        aside::asides(folder).unwrap().get(&stream).map_or(0, BTreeSet::len)
    }

    /// Returns the content of all logs of a stream, as a reader finds it.
    pub fn logs(&self, stream: StreamKey) -> Vec<FoundLog> {
        let mut slots = self.0.lock().unwrap();
        let all = slots.iter_mut().filter_map(|FolderState { log, folder, .. }| {
            let owner = LogOwner { group: GROUP, log: *log };
            let known = folder::streams(folder).unwrap().contains(&stream);
            let (read, _) = known.then(|| {
                StreamLog::read(folder, LogKey { owner, stream }, RecoveryCheck::All).unwrap()
            })?;
            let mut records = Vec::new();
            let mut cursor = read.after(Version(read.complete_from().0 - 1)).unwrap();
            while let Some(record) = cursor.next(folder, &read).unwrap() {
                records.push(record.to_owned());
            }
            Some(FoundLog {
                log: *log,
                tail: read.tail(),
                checkpoint: read.checkpointed(),
                records,
            })
        });
        all.collect()
    }
}

fn has_noted(FolderState { log, folder, .. }: &mut FolderState) -> bool {
    let owner = LogOwner { group: GROUP, log: *log };
    let streams = folder::streams(folder).unwrap();
    streams.into_iter().any(|stream| {
        let (log, _) =
            StreamLog::read(folder, LogKey { owner, stream }, RecoveryCheck::All).unwrap();
        log.epoch().is_some() || stream == VIEWS && log.durable() > Version(0)
    })
}

enum QueuedItem {
    Message(OwnedRecord),
    Mark(EpochMark),
}

/// A log, and the thread that would write it.
pub struct SimLogPort {
    folders: LogFolders,
    at: usize,
    folder: SimFolder,
    log: StreamLog,
    random: Random,
    queue: VecDeque<QueuedItem>,
    task: Option<LogTask>,
    answer: Option<LogTaskResult>,
    /// Number of marks appended, and number of those that are durable.
    marked: u64,
    noted: u64,
    /// Error for which it accepts nothing more.
    failed: Option<LogError>,
    /// Damage that prevents the log from being opened, if any.
    damaged: Option<LogDamage>,
}

/// Maximum length of the queue.
const ROOM: usize = 40;

impl SimLogPort {
    fn sync(&mut self) {
        let before = self.log.durable();
        if let Err(error) = self.log.sync(&mut self.folder) {
            self.failed = Some(error);
            return;
        }
        if self.log.pending() > 0 {
            return;
        }
        self.noted = self.marked;
        if self.log.stream() == VIEWS && self.log.durable() > before {
            let last = views::last(&self.log, &mut self.folder).unwrap().unwrap();
            self.folders.0.lock().unwrap()[self.at].viewed = last.place();
        }
    }

    /// Gives the log thread some time.
    fn advance(&mut self) {
        if self.folders.0.lock().unwrap()[self.at].stalled || self.random.one_in(3) {
            return;
        }
        if self.failed.is_none()
            && let Err(error) = self.work()
            && !error.is_full()
        {
            self.failed = Some(error);
        }
    }

    fn work(&mut self) -> Result<(), LogError> {
        self.sync();
        let some = match self.random.below(3) {
            0 if self.task.is_none() => self.random.below(self.queue.len() as u64 + 1) as usize,
            _ => self.queue.len(),
        };
        for put in self.queue.drain(..some) {
            match put {
                QueuedItem::Message(record) => {
                    self.log.append(record.record().entry, &self.folder)?;
                }
                QueuedItem::Mark(mark) => {
                    self.marked += 1;
                    self.log.mark(&mark, Default::default(), &self.folder)?;
                }
            }
        }
        // A process may end between these two steps.
        self.log.write(&mut self.folder)?;
        if self.random.one_in(2) {
            self.sync();
        } else {
            return Ok(());
        }
        // Tasks on a full disk are done when there is room again.
        let is_full = self.folder.0.lock().unwrap().faults.room.is_some();
        let Some(task) = self.task.take_if(|_| !is_full) else { return Ok(()) };
        let slots = self.folders.0.lock().unwrap();
        // Some have no others in reach once they are running: these get what they lack from
        // the store.
        let reaches = self.at.is_multiple_of(2) || !matches!(task, LogTask::Complete(..));
        let reaches = reaches && !self.folders.1;
        let others = slots.iter().enumerate().filter(|(at, _)| *at != self.at && reaches);
        let neighbour = |(_, slot): (usize, &FolderState)| ReachableFolder {
            log: slot.log,
            disk: slot.folder.clone(),
            busy: slot.busy,
            open_log: None,
            damage: None,
        };
        let mut others: Vec<ReachableFolder<SimFolder>> = others.map(neighbour).collect();
        drop(slots);
        let permissions = self.folders.2.lock().unwrap().clone();
        if let Some(damage) = &self.damaged {
            let (owner, stream) = (self.log.owner(), self.log.stream());
            let key = LogKey { owner, stream };
            match log_damage::judge(&task, key, &mut self.folder, &mut others, damage)? {
                DamageOutcome::Claimed(mut claim) => {
                    claim.accounts.extend(log_tasks::excused(
                        &permissions,
                        key,
                        &mut self.folder,
                        Some(damage),
                        &mut others,
                    ));
                    self.answer = Some(LogTaskResult::Claimed(claim));
                    return Ok(());
                }
                DamageOutcome::PutAside(_) => {
                    let of = LogKey { owner, stream };
                    self.log = StreamLog::open(&mut self.folder, of, LIMITS, RecoveryCheck::All)?.0;
                    self.damaged = None;
                }
            }
        }
        let mut answer = log_tasks::run(&task, &mut self.log, &mut self.folder, &mut others);
        if let LogTaskResult::Claimed(claim) = &mut answer {
            let key = LogKey { owner: self.log.owner(), stream: self.log.stream() };
            let more = log_tasks::excused(&permissions, key, &mut self.folder, None, &mut others);
            claim.accounts.extend(more);
        }
        self.answer = Some(answer);
        Ok(())
    }
}

impl LogPort for SimLogPort {
    fn log(&self) -> LogId {
        self.log.owner().log
    }

    fn ask(&mut self, task: &mut Option<LogTask>) -> bool {
        self.task = task.take();
        true
    }

    fn answer(&mut self) -> Option<LogTaskResult> {
        self.advance();
        self.answer.take()
    }

    fn put(&mut self, entry: LogEntry<'_>) -> bool {
        // Records after a task wait for it.
        let has_room = self.queue.len() < ROOM && self.task.is_none();
        if has_room {
            self.queue.push_back(QueuedItem::Message(
                LogRecord { version: Version(0), entry }.to_owned(),
            ));
        }
        has_room
    }

    fn mark(&mut self, mark: EpochMark) -> bool {
        let has_room = self.queue.len() < ROOM && self.task.is_none();
        if has_room {
            self.queue.push_back(QueuedItem::Mark(mark));
        }
        has_room
    }

    fn hand_over(&mut self) {
        self.advance();
    }

    fn durable(&self) -> Version {
        self.log.durable()
    }

    fn noted(&self) -> u64 {
        self.noted
    }

    fn condition(&self) -> LogPortCondition {
        match &self.failed {
            Some(error) => LogPortCondition::Failed(Some(error.clone())),
            None if self.folder.0.lock().unwrap().faults.room.is_some() => LogPortCondition::Full,
            None => LogPortCondition::Open,
        }
    }
}
