//! Location of a process's logs: a folder of its own among those of a host, for a domain or
//! a group.
//!
//! Owns: the choice of this process's folder. Never does: read the folder's logs.
//!
//! ```text
//!   <root> ─ domain-7 ─┬─ 0   used by one process while it runs
//!                      ├─ 1   unused at this moment: the next process takes it
//!                      └─ 2
//!          group-bank ─── 0
//! ```

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use derecho_core::log::views::VIEWS;
use derecho_core::log::{DiskError, GroupId, LogError, LogId, StreamKey, folder};
use derecho_core::replicated::plan::number_of;
use derecho_core::storage::log_tasks::TopicLogRetention;

use super::folder::LogFolder;
use super::stream_log_port::StreamLogPort;
use super::thread::{FullDiskPolicy, LogSettings, Logs};

/// Maximum number of processes that keep logs in one root.
const MOST: usize = 256;
/// Longest time for which others may read an unused folder before it is skipped.
const LOOKED_AT: Duration = Duration::from_secs(5);
/// Interval between checks of whether others still read the folder.
const LOOK_AGAIN: Duration = Duration::from_millis(2);
/// Prefix of a domain's group id in its logs; the domain's number is added.
const GROUP: u128 = u128::from_be_bytes(*b"squall domain \0\0");

/// Domain or group whose logs are kept: all its members keep their logs side by side.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogScope {
    folder: String,
    group: GroupId,
}

impl LogScope {
    /// Returns the scope of the topics of a domain.
    pub fn of_domain(domain: u32) -> LogScope {
        LogScope { folder: format!("domain-{domain}"), group: GroupId(GROUP + u128::from(domain)) }
    }

    /// Returns the scope of the objects of a group.
    pub fn of_group(name: &str) -> LogScope {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        let letter = |byte: u8| match plain(byte) {
            true => char::from(byte).to_string(),
            false => format!("%{byte:02x}"),
        };
        let folder = format!("group-{}", name.bytes().map(letter).collect::<String>());
        LogScope { folder, group: GroupId(u128::from(number_of(name)) | 1 << 127) }
    }
}

/// A process's folder of logs.
pub struct ProcessLogs {
    logs: Logs,
    /// Folder that contains this process's folder and those of others.
    root: PathBuf,
    folder: PathBuf,
    known: BTreeSet<StreamKey>,
    /// Streams whose log was opened since.
    opened: Mutex<BTreeSet<StreamKey>>,
}

impl ProcessLogs {
    /// Takes an unused folder under `root`, or creates one, with this identity.
    ///
    /// # Errors
    /// The reason why nothing can be kept there.
    pub fn open(
        root: &Path,
        scope: &LogScope,
        fresh: LogId,
        settings: LogSettings,
    ) -> Result<ProcessLogs, LogError> {
        // The root is not created: a mistyped name would create a place where nobody looks for
        // the logs.
        LogFolder::read(root)?;
        let root = root.join(&scope.folder);
        LogFolder::make(&root)?;
        let deadline = Instant::now() + LOOKED_AT;
        for number in 0..MOST {
            let folder = root.join(number.to_string());
            LogFolder::make(&folder)?;
            let Some(mut disk) = take(&folder, deadline)? else { continue };
            let within = |error: LogError| error.within(&folder.display().to_string());
            let known = folder::streams(&mut disk).map_err(within)?;
            let logs = Logs::start_on(disk, scope.group, fresh, settings).map_err(within)?;
            return Ok(ProcessLogs { logs, root, folder, known, opened: Mutex::default() });
        }
        let cause = DiskError::Other(format!(
            "{MOST} processes keep logs there already; end one of them, or name another folder"
        ));
        Err(LogError::Disk { file: root.display().to_string(), cause })
    }

    /// Identity of the folder's logs.
    pub fn log(&self) -> LogId {
        self.logs.owner().log
    }

    /// Path of the folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether the folder contained anything of this stream when it was opened.
    pub fn knows(&self, stream: StreamKey) -> bool {
        self.known.contains(&stream)
    }

    /// Returns all streams of which the folder contains, or may contain, anything.
    pub fn streams(&self) -> BTreeSet<StreamKey> {
        let opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        self.known.union(&opened).copied().collect()
    }

    /// Returns the log of views. The log thread calls `waker` when the log's state has changed.
    pub fn views(&self, waker: impl Fn() + Send + Sync + 'static) -> StreamLogPort {
        StreamLogPort::new(&self.logs, self.root.clone(), VIEWS, FullDiskPolicy::Wait, None, waker)
    }

    /// Returns the log of a stream, of which `keep` is kept, or everything. The log thread calls
    /// `waker` when the log's state has changed.
    pub fn stream_log_port(
        &self,
        stream: StreamKey,
        on_full: FullDiskPolicy,
        keep: Option<TopicLogRetention>,
        waker: impl Fn() + Send + Sync + 'static,
    ) -> StreamLogPort {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner).insert(stream);
        StreamLogPort::new(&self.logs, self.root.clone(), stream, on_full, keep, waker)
    }
}

/// Takes a folder; returns `None` if another process uses it. A folder that others only read
/// (I-106) counts as free, because they finish soon.
fn take(folder: &Path, deadline: Instant) -> Result<Option<LogFolder>, LogError> {
    loop {
        match LogFolder::open(folder) {
            Err(LogError::Locked) => {}
            other => return other.map(Some),
        }
        match LogFolder::look(folder) {
            Err(LogError::Locked) => return Ok(None),
            Err(error) => return Err(error),
            Ok(_) if Instant::now() >= deadline => return Ok(None),
            Ok(_) => {}
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}
