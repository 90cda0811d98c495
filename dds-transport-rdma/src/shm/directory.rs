//! The folder where the nodes of a domain meet.
//!
//! Owns: the folders, the lock and the sockets' names. Never does: say anything over a socket; it
//! only looks whether somebody listens.
//!
//! ```text
//!   /tmp/squall-<uid>/          0700, or 2770 and the group's
//!     .made-by-squall           the folder was made by a node, not by a user
//!     <domain>/                 the same
//!       lock                    held while a node joins or leaves; released with its holder
//!       <node id, hex>.sock     a node listens here
//!       group                   what the host decides for all of them, once somebody has asked
//! ```
//! The last node to leave removes the folder of the domain, and the folder above if a node made that one and no other
//! domain is in it. A folder that a user made stays. A lock file that was removed and made anew meanwhile is
//! another file: whoever gets a lock looks whether its file is still the one in the folder.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use derecho_core::ids::NodeId;
use rustix::fs::{
    AtFlags, CWD, FileType, FlockOperation, Gid, Mode, OFlags, chmod, chown, fchmod, flock, fstat,
    lstat, mkdir, open, rmdir, statat, unlink,
};
use rustix::io::Errno;

use super::config::Checked;
use super::error::JoinError;
use super::socket;

/// How long a folder may look unfinished, for it may just be made by another process.
const UNFINISHED_LIMIT: Duration = Duration::from_millis(300);
/// Between two looks at what another process holds.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

const LOCK: &str = "lock";
/// File that marks a runtime folder that a node made: the last node to leave removes such a folder.
const MADE: &str = ".made-by-squall";
const GROUP: &str = "group";
const GROUP_DRAFT: &str = "group.new";

/// Where the nodes of one domain meet.
#[derive(Clone)]
pub(crate) struct Folder {
    runtime_dir: PathBuf,
    domain_dir: PathBuf,
    uid: u32,
    gid: Option<u32>,
    lock_limit: Duration,
}

/// The domain's lock; released when dropped.
pub(crate) struct Lock(#[allow(dead_code, reason = "held, not used")] OwnedFd);

/// A socket in the folder.
pub(crate) struct Place {
    pub(crate) path: PathBuf,
    pub(crate) node: NodeId,
}

impl Folder {
    /// The folder of a configuration; nothing is touched yet.
    pub(crate) fn new(checked: &Checked) -> Result<Folder, JoinError> {
        let folder = Folder {
            domain_dir: checked.runtime_dir.join(&checked.config.domain),
            runtime_dir: checked.runtime_dir.clone(),
            uid: checked.uid,
            gid: checked.gid,
            lock_limit: checked.config.lock_limit,
        };
        let path = folder.socket_path(checked.config.node);
        if path.as_os_str().len() > socket::PATH_LIMIT {
            return Err(JoinError::PathTooLong { path, limit: socket::PATH_LIMIT });
        }
        Ok(folder)
    }

    /// Where a node listens.
    pub(crate) fn socket_path(&self, node: NodeId) -> PathBuf {
        self.domain_dir.join(format!("{node}.sock"))
    }

    fn lock_path(&self) -> PathBuf {
        self.domain_dir.join(LOCK)
    }

    /// Where the words of the local group are.
    pub(crate) fn group_path(&self) -> PathBuf {
        self.domain_dir.join(GROUP)
    }

    /// Where they are made.
    pub(crate) fn group_draft_path(&self) -> PathBuf {
        self.domain_dir.join(GROUP_DRAFT)
    }

    /// The same folder, for whoever does not want to wait that long for its lock.
    pub(crate) fn with_lock_limit(&self, limit: Duration) -> Folder {
        Folder { lock_limit: self.lock_limit.min(limit), ..self.clone() }
    }

    /// The mode of what all who may join can write.
    pub(crate) fn file_mode(&self) -> u32 {
        if self.gid.is_some() { 0o660 } else { 0o600 }
    }

    /// Whether a file in the folder may be believed to be made by a node; if not, why.
    pub(crate) fn check_owner(&self, uid: u32, gid: u32) -> Result<(), String> {
        match self.gid {
            None if uid != self.uid => {
                Err(format!("belongs to user {uid} and not to user {}", self.uid))
            }
            Some(group) if gid != group => {
                Err(format!("belongs to group {gid} and not to group {group}"))
            }
            _ => Ok(()),
        }
    }

    /// Takes the lock for a node that is in the folder already.
    pub(crate) fn stay(&self) -> Result<Lock, JoinError> {
        let deadline = Instant::now() + self.lock_limit;
        loop {
            if let Some(lock) = self.lock(deadline)? {
                return Ok(lock);
            }
            if Instant::now() >= deadline {
                // Nobody removes it from under a node.
                let doing = format!("taking the lock {}", self.lock_path().display());
                return Err(JoinError::system(doing, Errno::NOENT));
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    /// Makes the folders if need be, checks them, and takes the lock.
    pub(crate) fn enter(&self) -> Result<Lock, JoinError> {
        let deadline = Instant::now() + self.lock_limit;
        loop {
            if self.prepare(&self.runtime_dir)? {
                self.mark_as_made();
            }
            match self.prepare(&self.domain_dir) {
                Ok(_) => {}
                // The last node of another domain has just removed the folder above.
                Err(JoinError::System { errno: Errno::NOENT, .. }) if Instant::now() < deadline => {
                    continue;
                }
                Err(error) => return Err(error),
            }
            if let Some(lock) = self.lock(deadline)? {
                return Ok(lock);
            }
        }
    }

    /// Takes the lock, or `None` if its file was removed meanwhile.
    fn lock(&self, deadline: Instant) -> Result<Option<Lock>, JoinError> {
        let path = self.lock_path();
        let flags = OFlags::RDONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = if self.gid.is_some() { Mode::from_raw_mode(0o660) } else { Mode::RUSR };
        let doing = || format!("taking the lock {}", path.display());
        let file = loop {
            match open(&path, flags, mode) {
                Ok(file) => break file,
                Err(Errno::NOENT) => return Ok(None),
                // Another member of the group has made it and not opened it to the group yet.
                Err(Errno::ACCESS) if self.gid.is_some() && Instant::now() < deadline => {
                    std::thread::sleep(LOOK_AGAIN);
                }
                Err(errno) => return Err(JoinError::system(doing(), errno)),
            }
        };
        let stat = fstat(&file).map_err(|errno| JoinError::system(doing(), errno))?;
        if self.gid.is_some() && stat.st_uid == self.uid {
            fchmod(&file, mode).map_err(|errno| JoinError::system(doing(), errno))?;
        }
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => break,
                Err(Errno::WOULDBLOCK | Errno::INTR) if Instant::now() < deadline => {
                    std::thread::sleep(LOOK_AGAIN);
                }
                Err(Errno::WOULDBLOCK | Errno::INTR) => {
                    return Err(JoinError::LockBusy { path, waited: self.lock_limit });
                }
                Err(errno) => return Err(JoinError::system(doing(), errno)),
            }
        }
        let current = lstat(&path).map(|now| (now.st_dev, now.st_ino));
        Ok((current == Ok((stat.st_dev, stat.st_ino))).then_some(Lock(file)))
    }

    /// The sockets of all nodes but `own`.
    pub(crate) fn others(&self, own: NodeId, _lock: &Lock) -> Result<Vec<Place>, JoinError> {
        let path = &self.domain_dir;
        let failed = |error: std::io::Error| {
            let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
            JoinError::system(format!("reading the folder {}", path.display()), errno)
        };
        let mut places = Vec::new();
        for entry in fs::read_dir(path).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            if let Some(node) = node_of(&path)
                && node != own
            {
                places.push(Place { path, node });
            }
        }
        // The folder's own order depends on the file system.
        places.sort_by_key(|place| place.node);
        Ok(places)
    }

    /// Makes a bound socket reachable for whoever may join.
    pub(crate) fn open_to_peers(&self, path: &Path) -> Result<(), JoinError> {
        chmod(path, Mode::from_raw_mode(self.file_mode())).map_err(|errno| {
            JoinError::system(format!("setting the mode of {}", path.display()), errno)
        })
    }

    /// Removes what a dead node left behind. Ids are never reused, so nobody else listens there.
    pub(crate) fn remove_socket(&self, node: NodeId) {
        let path = self.socket_path(node);
        match unlink(&path) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => tracing::warn!(path = %path.display(), %errno, "socket not removed"),
        }
    }

    /// Removes the node's socket, and the folders if nobody else is in them. A node that is
    /// `alone` looks whether what is left there is left by the dead.
    pub(crate) fn leave(&self, node: NodeId, alone: bool) {
        let lock = self.lock(Instant::now() + self.lock_limit);
        self.remove_socket(node);
        match lock {
            Ok(Some(lock)) => {
                if alone {
                    self.sweep(node, &lock);
                }
                self.remove_if_empty(&lock);
            }
            // Whoever removed the lock's file removes the folder too.
            Ok(None) => {}
            Err(error) => tracing::warn!(%error, "the folder of the domain stays"),
        }
    }

    /// Removes the sockets at which nobody listens.
    fn sweep(&self, own: NodeId, lock: &Lock) {
        for place in self.others(own, lock).unwrap_or_default() {
            if socket::connect(&place.path).err() == Some(Errno::CONNREFUSED) {
                self.remove_socket(place.node);
            }
        }
    }

    /// Removes the folders if there is nothing in them but what nodes share that are all gone.
    pub(crate) fn remove_if_empty(&self, _lock: &Lock) {
        let Ok(entries) = fs::read_dir(&self.domain_dir) else { return };
        let shared = [LOCK, GROUP, GROUP_DRAFT].map(std::ffi::OsStr::new);
        if entries.flatten().any(|entry| !shared.contains(&&*entry.file_name())) {
            return;
        }
        // Seldom there.
        let _ = (unlink(self.group_path()), unlink(self.group_draft_path()));
        // A node that opened the file before it goes notices that it has another one's lock; one
        // that makes a new file keeps the folder from being removed.
        if unlink(self.lock_path()).is_ok() && rmdir(&self.domain_dir).is_ok() {
            self.remove_runtime_dir();
        }
    }

    /// Notes that a node made the runtime folder. Without the note the folder stays for good, which harms nobody.
    fn mark_as_made(&self) {
        let flags = OFlags::RDONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        if let Err(errno) = open(self.runtime_dir.join(MADE), flags, Mode::RUSR) {
            tracing::debug!(path = %self.runtime_dir.display(), %errno, "the folder stays");
        }
    }

    /// Removes the runtime folder if a node made it and nothing else is in it.
    fn remove_runtime_dir(&self) {
        while let Ok(entries) = fs::read_dir(&self.runtime_dir) {
            let names: Vec<_> = entries.flatten().map(|entry| entry.file_name()).collect();
            let is_done = names.as_slice() != [MADE]
                || unlink(self.runtime_dir.join(MADE)).is_err()
                || rmdir(&self.runtime_dir).is_ok();
            if is_done {
                return;
            }
            // A node of another domain has come since the folder was read, and may have left again.
            self.mark_as_made();
        }
    }

    /// Makes one folder if it is missing and checks it. Returns whether this call made the folder.
    fn prepare(&self, path: &Path) -> Result<bool, JoinError> {
        let deadline = Instant::now() + UNFINISHED_LIMIT;
        let mut is_made = false;
        loop {
            let made = match mkdir(path, Mode::RWXU) {
                Ok(()) => true,
                Err(Errno::EXIST) => false,
                Err(errno) => {
                    return Err(JoinError::system(
                        format!("making the folder {}", path.display()),
                        errno,
                    ));
                }
            };
            if made {
                self.finish(path)?;
                is_made = true;
            }
            match self.inspect(path) {
                Ok(Fault::None) => return Ok(is_made),
                // Another process has just removed it.
                Err(Errno::NOENT) if Instant::now() < deadline => is_made = false,
                Ok(Fault::Unfinished(_)) if Instant::now() < deadline => {
                    std::thread::sleep(LOOK_AGAIN);
                }
                Ok(Fault::Unfinished(fault) | Fault::Wrong(fault)) => {
                    return Err(JoinError::Folder {
                        path: path.to_owned(),
                        fault,
                        remedy: "correct or remove it, or set SQUALL_RUNTIME_DIR to another folder"
                            .to_owned(),
                    });
                }
                Err(errno) => {
                    return Err(JoinError::system(
                        format!("looking at the folder {}", path.display()),
                        errno,
                    ));
                }
            }
        }
    }

    /// Gives a folder that was just made its group and mode, whatever the umask is.
    fn finish(&self, path: &Path) -> Result<(), JoinError> {
        let mode = Mode::from_raw_mode(self.mode());
        let result = match self.gid {
            None => chmod(path, mode),
            Some(gid) => {
                chown(path, None, Some(Gid::from_raw(gid))).and_then(|()| chmod(path, mode))
            }
        };
        result.or_else(|errno| match errno {
            // Removed by another process that found it empty; it is made again.
            Errno::NOENT => Ok(()),
            errno => {
                let _ = rmdir(path);
                Err(JoinError::system(
                    format!(
                        "giving the folder {} to the group (are you a member of it?)",
                        path.display()
                    ),
                    errno,
                ))
            }
        })
    }

    fn mode(&self) -> u32 {
        if self.gid.is_some() { 0o2770 } else { 0o700 }
    }

    /// What is wrong with a folder.
    fn inspect(&self, path: &Path) -> Result<Fault, Errno> {
        let stat = statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW)?;
        let mode = stat.st_mode & 0o7777;
        Ok(match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => match self.gid {
                None if stat.st_uid != self.uid => Fault::Wrong(format!(
                    "belongs to user {} and not to user {}, who is joining",
                    stat.st_uid, self.uid
                )),
                None if mode & 0o077 != 0 => Fault::Wrong(format!(
                    "has mode {mode:04o}, which lets other users in; it has to be 0700"
                )),
                None if mode & 0o700 != 0o700 => {
                    Fault::Unfinished(format!("has mode {mode:04o}; it has to be 0700"))
                }
                Some(_) if mode & 0o007 != 0 => Fault::Wrong(format!(
                    "has mode {mode:04o}, which lets users outside the group in; it has to be 2770"
                )),
                Some(gid) if stat.st_gid != gid => Fault::Unfinished(format!(
                    "belongs to group {} and not to group {gid}, which is configured",
                    stat.st_gid
                )),
                Some(_) if mode != 0o2770 => {
                    Fault::Unfinished(format!("has mode {mode:04o}; it has to be 2770"))
                }
                _ => Fault::None,
            },
            FileType::Symlink => {
                Fault::Wrong("is a symbolic link and not a folder itself".to_owned())
            }
            _ => Fault::Wrong("is not a folder".to_owned()),
        })
    }
}

/// What is wrong with a folder.
enum Fault {
    None,
    /// It may be one that another process is just making.
    Unfinished(String),
    Wrong(String),
}

/// The node that listens at a path, if it is such a path.
fn node_of(path: &Path) -> Option<NodeId> {
    let digits = path.file_name()?.to_str()?.strip_suffix(".sock")?;
    let hex = digits.len() == 32 && digits.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    hex.then(|| u128::from_str_radix(digits, 16).ok().map(NodeId)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_nodes_own_form_of_name_is_a_socket() {
        let node = NodeId(0xab << 120);
        let path = PathBuf::from(format!("/x/{node}.sock"));
        assert_eq!(node_of(&path), Some(node));
        for other in ["lock", "ab.sock", "+b000000000000000000000000000000f.sock"] {
            assert_eq!(node_of(Path::new(other)), None, "{other}");
        }
    }
}
