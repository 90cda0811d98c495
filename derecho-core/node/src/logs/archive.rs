//! Where a process keeps its logs: a folder of its own among those of a host, for a domain or a group.
//!
//! Owns: which of them is this process's. Never does: read what is in them.
//!
//! ```text
//!   <root> ─ domain-7 ─┬─ 0   kept by one process, as long as it runs
//!                      ├─ 1   nobody's at this moment: whoever comes next takes it
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
use derecho_core::storage::errands::Keep;

use super::folder::Folder;
use super::journal::StreamJournal;
use super::thread::{Logs, OnFull, Settings};

/// So many processes keep logs in one root at most.
const MOST: usize = 256;
/// So long a folder that nobody keeps may be looked at by others before it is passed over.
const LOOKED_AT: Duration = Duration::from_secs(5);
/// So often it is looked whether they still do.
const LOOK_AGAIN: Duration = Duration::from_millis(2);
/// What the group of a domain is called in its logs: this, and the domain's number.
const GROUP: u128 = u128::from_be_bytes(*b"squall domain \0\0");

/// For what logs are kept: all that take part in it keep theirs side by side.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Home {
    folder: String,
    group: GroupId,
}

impl Home {
    /// For the topics of a domain.
    pub fn of_domain(domain: u32) -> Home {
        Home { folder: format!("domain-{domain}"), group: GroupId(GROUP + u128::from(domain)) }
    }

    /// For the objects of a group.
    pub fn of_group(name: &str) -> Home {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        let letter = |byte: u8| match plain(byte) {
            true => char::from(byte).to_string(),
            false => format!("%{byte:02x}"),
        };
        let folder = format!("group-{}", name.bytes().map(letter).collect::<String>());
        Home { folder, group: GroupId(u128::from(number_of(name)) | 1 << 127) }
    }
}

/// A process's folder of logs.
pub struct Archive {
    logs: Logs,
    /// The folder in which the own one lies with those of others.
    root: PathBuf,
    folder: PathBuf,
    known: BTreeSet<StreamKey>,
    /// Those of which a log was opened since.
    opened: Mutex<BTreeSet<StreamKey>>,
}

impl Archive {
    /// Takes a folder under `root` that nobody has, or makes one, with this identity.
    ///
    /// # Errors
    /// Why nothing can be kept there.
    pub fn open(
        root: &Path,
        home: &Home,
        fresh: LogId,
        settings: Settings,
    ) -> Result<Archive, LogError> {
        // Not made: a mistyped name would be a place where nobody looks for what was kept.
        Folder::read(root)?;
        let root = root.join(&home.folder);
        Folder::make(&root)?;
        let deadline = Instant::now() + LOOKED_AT;
        for number in 0..MOST {
            let folder = root.join(number.to_string());
            Folder::make(&folder)?;
            let Some(mut disk) = take(&folder, deadline)? else { continue };
            let within = |error: LogError| error.within(&folder.display().to_string());
            let known = folder::streams(&mut disk).map_err(within)?;
            let logs = Logs::start_on(disk, home.group, fresh, settings).map_err(within)?;
            return Ok(Archive { logs, root, folder, known, opened: Mutex::default() });
        }
        let cause = DiskError::Other(format!(
            "{MOST} processes keep logs there already; end one of them, or name another folder"
        ));
        Err(LogError::Disk { file: root.display().to_string(), cause })
    }

    /// Its identity.
    pub fn log(&self) -> LogId {
        self.logs.owner().log
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether there was something of this stream in it when it was opened.
    pub fn knows(&self, stream: StreamKey) -> bool {
        self.known.contains(&stream)
    }

    /// All streams of which there is something in it, or may be.
    pub fn streams(&self) -> BTreeSet<StreamKey> {
        let opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        self.known.union(&opened).copied().collect()
    }

    /// The log of views. `waker` is called by the log thread when something has become of it.
    pub fn views(&self, waker: impl Fn() + Send + Sync + 'static) -> StreamJournal {
        StreamJournal::new(&self.logs, self.root.clone(), (VIEWS, OnFull::Wait, None), waker)
    }

    /// The log of a stream, of which so much is kept, or all. `waker` is called by the log thread when something has become of it.
    pub fn journal(
        &self,
        stream: StreamKey,
        (on_full, keep): (OnFull, Option<Keep>),
        waker: impl Fn() + Send + Sync + 'static,
    ) -> StreamJournal {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner).insert(stream);
        StreamJournal::new(&self.logs, self.root.clone(), (stream, on_full, keep), waker)
    }
}

/// Takes a folder; none if another process keeps it. One at which others only look (I-106) is as good as free: they
/// have done soon.
fn take(folder: &Path, deadline: Instant) -> Result<Option<Folder>, LogError> {
    loop {
        match Folder::open(folder) {
            Err(LogError::Locked) => {}
            other => return other.map(Some),
        }
        match Folder::look(folder) {
            Err(LogError::Locked) => return Ok(None),
            Err(error) => return Err(error),
            Ok(_) if Instant::now() >= deadline => return Ok(None),
            Ok(_) => {}
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}
