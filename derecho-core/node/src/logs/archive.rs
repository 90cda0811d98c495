//! Where a process keeps its logs: a folder of its own among those of a host.
//!
//! Owns: which of them is this process's. Never does: read what is in them.
//!
//! ```text
//!   <root> ─ domain-7 ─┬─ 0   kept by one process, as long as it runs
//!                      ├─ 1   nobody's at this moment: whoever comes next takes it
//!                      └─ 2
//! ```

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use derecho_core::log::{DiskError, GroupId, LogError, LogId, StreamKey, folder};
use derecho_core::storage::errands::Keep;

use super::folder::Folder;
use super::journal::StreamJournal;
use super::thread::{Logs, OnFull, Settings};

/// So many processes keep logs in one root at most.
const MOST: usize = 256;
/// What the group of a domain is called in its logs: this, and the domain's number.
const GROUP: u128 = u128::from_be_bytes(*b"squall domain \0\0");

/// A process's folder of logs.
pub struct Archive {
    logs: Logs,
    /// The folder in which the own one lies with those of others.
    root: PathBuf,
    folder: PathBuf,
    known: BTreeSet<StreamKey>,
}

impl Archive {
    /// Takes a folder under `root` that nobody has, or makes one, with this identity.
    ///
    /// # Errors
    /// Why nothing can be kept there.
    pub fn open(
        root: &Path,
        domain: u32,
        fresh: LogId,
        settings: Settings,
    ) -> Result<Archive, LogError> {
        // Not made: a mistyped name would be a place where nobody looks for what was kept.
        Folder::read(root)?;
        let root = root.join(format!("domain-{domain}"));
        Folder::make(&root)?;
        for number in 0..MOST {
            let folder = root.join(number.to_string());
            Folder::make(&folder)?;
            let mut disk = match Folder::open(&folder) {
                Err(LogError::Locked) => continue,
                other => other?,
            };
            let known = folder::streams(&mut disk)?;
            let group = GroupId(GROUP + u128::from(domain));
            let logs = Logs::start_on(disk, group, fresh, settings)?;
            return Ok(Archive { logs, root, folder, known });
        }
        let cause = DiskError::Other(format!("{MOST} processes keep logs there already"));
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

    /// The log of a stream, of which so much is kept, or all. `waker` is called by the log thread when something has become of it.
    pub fn journal(
        &self,
        stream: StreamKey,
        (on_full, keep): (OnFull, Option<Keep>),
        waker: impl Fn() + Send + Sync + 'static,
    ) -> StreamJournal {
        StreamJournal::new(&self.logs, self.root.clone(), (stream, on_full, keep), waker)
    }
}
