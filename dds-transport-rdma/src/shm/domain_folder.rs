//! The folder where the nodes of a domain meet.
//!
//! Owns: the folders, the lock and the names of the sockets. Never does: send anything over a
//! socket; it only checks whether a process listens.
//!
//! ```text
//!   /tmp/squall-<uid>/          0700, or 3770 and the group's
//!     .made-by-squall           the folder was created by a node, not by a user
//!     <domain>/                 the same
//!       lock                    held while a node joins or leaves; says which `group` was created
//!       <node id, hex>.sock     a node listens here
//!       <node id, hex>.bell     and is woken here
//!       group                   locates the words by which the host decides, once a node has asked
//!       *.new                   one of these that is not finished
//! ```
//! * **Access by descriptor.** A member of the UNIX group may write in the folders, so it may
//!   replace any named entry between any two steps of another process. Each folder is opened once,
//!   without following a link, and every operation in it goes through that descriptor. Mode and
//!   group are set only on an opened folder that belongs to this user. The folders are sticky:
//!   entries of another user cannot be renamed or removed.
//! * **The lock is complete or absent.** The lock gets its name when its creator already holds it.
//!   A node that finds the lock missing while other nodes live knows that it was removed.
//! * **Protected from cleaners.** Each node holds a shared lock on both folders, which
//!   `systemd-tmpfiles` respects, and [touches](DomainFolder::refresh) the files, so that none is
//!   old. If files are removed nevertheless, the next node that joins fails with an error, see
//!   [`LivenessMarks`].
//!
//! The last node to leave removes the domain's folder. It also removes the folder above if a node
//! created that one and no other domain is in it. Folders of another user stay, and so does a
//! folder that a user created. A lock file that was removed and created again is another file: a
//! node that gets a lock checks that its file is still the one in the folder.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use derecho_core::ids::NodeId;
use rustix::fs::{
    AtFlags, CWD, Dir, FileType, FlockOperation, Mode, OFlags, RenameFlags, Stat, Timespec,
    Timestamps, UTIME_NOW, fchmod, flock, fstat, openat, renameat_with, rmdir, statat, unlinkat,
    utimensat,
};
use rustix::io::Errno;

use super::config::CheckedConfig;
use super::error::JoinError;
use super::liveness_marks::LivenessMarks;
use super::socket::{self, Credentials};

mod making;
mod sockets;

/// Time for which a folder may look unfinished, because another process may be creating it.
const UNFINISHED_LIMIT: Duration = Duration::from_millis(300);
/// Interval between checks of what another process holds.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

const LOCK: &str = "lock";
/// File that marks a runtime folder created by a node: the last node to leave removes such
/// a folder.
const MADE: &str = ".made-by-squall";
const GROUP: &str = "group";
/// Suffix of the name of an unfinished file.
const UNFINISHED: &str = ".new";
/// Advice for a folder whose files are missing.
const END_ALL: &str = "end all processes of this domain and start them again, and have cleaners of \
                       temporary files leave this folder alone or set SQUALL_RUNTIME_DIR to another one";

/// Folder in which the nodes of one domain meet.
#[derive(Clone)]
pub(crate) struct DomainFolder {
    runtime_dir: PathBuf,
    domain_dir: PathBuf,
    node: NodeId,
    liveness_marks: LivenessMarks,
    uid: u32,
    gid: Option<u32>,
    lock_limit: Duration,
    /// Both folders, each with a shared lock, once this node has entered.
    opened: Arc<Mutex<Option<Arc<OpenFolders>>>>,
}

/// Descriptors of the folders, independent of what is at their paths now.
struct OpenFolders {
    runtime: OwnedFd,
    domain: OwnedFd,
}

/// The domain's lock; released when dropped.
pub(crate) struct DomainLock {
    file: OwnedFd,
    folders: Arc<OpenFolders>,
    /// True if this lock file did not exist before.
    made: bool,
}

/// Socket of a node in the folder.
pub(crate) struct NodeSocket {
    pub(crate) path: PathBuf,
    pub(crate) node: NodeId,
}

impl DomainFolder {
    /// Creates the folder object of a configuration; touches nothing yet.
    pub(crate) fn new(checked: &CheckedConfig) -> Result<DomainFolder, JoinError> {
        let folder = DomainFolder {
            domain_dir: checked.runtime_dir.join(&checked.config.domain),
            runtime_dir: checked.runtime_dir.clone(),
            node: checked.config.node,
            liveness_marks: LivenessMarks::new(&checked.runtime_dir, &checked.config.domain),
            uid: checked.uid,
            gid: checked.gid,
            lock_limit: checked.config.lock_limit,
            opened: Arc::default(),
        };
        let path = folder.socket_path(checked.config.node);
        if path.as_os_str().len() > socket::PATH_LIMIT {
            return Err(JoinError::PathTooLong { path, limit: socket::PATH_LIMIT });
        }
        Ok(folder)
    }

    /// Path at which a node listens.
    pub(crate) fn socket_path(&self, node: NodeId) -> PathBuf {
        self.domain_dir.join(socket_name(node))
    }

    fn lock_path(&self) -> PathBuf {
        self.domain_dir.join(LOCK)
    }

    /// Path of the group file, which says which memory has the words of the local group.
    pub(crate) fn group_path(&self) -> PathBuf {
        self.domain_dir.join(GROUP)
    }

    /// Returns the same folder with a shorter limit for waiting for its lock.
    pub(crate) fn with_lock_limit(&self, limit: Duration) -> DomainFolder {
        DomainFolder { lock_limit: self.lock_limit.min(limit), ..self.clone() }
    }

    /// Mode of the files that all permitted users can write.
    pub(crate) fn file_mode(&self) -> Mode {
        Mode::from_raw_mode(if self.gid.is_some() { 0o660 } else { 0o600 })
    }

    /// Whether a file in the folder may be trusted as created by a node; an error says why not.
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

    /// Whether a process may be a node of this domain, by its user and groups.
    pub(crate) fn admits(&self, credentials: &Credentials) -> bool {
        let in_group = self.gid.is_some_and(|gid| credentials.gids.contains(&gid));
        credentials.uid == self.uid || in_group
    }

    fn opened(&self) -> Result<Arc<OpenFolders>, Errno> {
        let opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        opened.clone().ok_or(Errno::NOENT)
    }

    /// Takes the lock for a node that is already in the folder.
    pub(crate) fn lock_again(&self) -> Result<DomainLock, JoinError> {
        let folders = self.opened().map_err(|errno| self.not_locked(errno))?;
        let lock = self.lock(&folders, Instant::now() + self.lock_limit, false)?;
        lock.ok_or_else(|| {
            self.damaged(format!(
                "has lost its file {LOCK:?}, which was removed while nodes used it"
            ))
        })
    }

    /// Creates the folders if necessary, checks them, and takes the lock.
    pub(crate) fn enter(&self) -> Result<DomainLock, JoinError> {
        let deadline = Instant::now() + self.lock_limit;
        loop {
            let (runtime, is_made) =
                self.prepare(CWD, self.runtime_dir.as_os_str(), &self.runtime_dir)?;
            if is_made {
                self.mark_as_made(&runtime);
            }
            let name = self.domain_dir.file_name().unwrap_or_default();
            let (domain, _) = match self.prepare(runtime.as_fd(), name, &self.domain_dir) {
                // The last node of another domain has just removed the folder above.
                Err(JoinError::System { errno: Errno::NOENT, .. }) if Instant::now() < deadline => {
                    continue;
                }
                result => result?,
            };
            share(&runtime, &self.runtime_dir);
            share(&domain, &self.domain_dir);
            let folders = Arc::new(OpenFolders { runtime, domain });
            if let Some(lock) = self.lock(&folders, deadline, true)? {
                *self.opened.lock().unwrap_or_else(PoisonError::into_inner) = Some(folders);
                return Ok(lock);
            }
            if Instant::now() >= deadline {
                return Err(self.not_locked(Errno::NOENT));
            }
        }
    }

    fn not_locked(&self, errno: Errno) -> JoinError {
        JoinError::system(format!("taking the lock {}", self.lock_path().display()), errno)
    }

    fn damaged(&self, fault: String) -> JoinError {
        JoinError::Folder { path: self.domain_dir.clone(), fault, remedy: END_ALL.to_owned() }
    }

    /// Takes the lock. Returns `None` if there is none, or if it was removed meanwhile.
    fn lock(
        &self,
        folders: &Arc<OpenFolders>,
        deadline: Instant,
        may_make: bool,
    ) -> Result<Option<DomainLock>, JoinError> {
        let failed = |errno| self.not_locked(errno);
        let domain = folders.domain.as_fd();
        // NONBLOCK: opening the file never blocks, whatever kind of file it is.
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let (file, made) = match openat(domain, LOCK, flags, Mode::empty()) {
            Ok(file) => (file, false),
            Err(Errno::NOENT) if may_make => match self.make_lock(domain) {
                Ok(file) => (file, true),
                // Another process was quicker, or the folder is gone.
                Err(Errno::EXIST | Errno::NOENT) => return Ok(None),
                Err(errno) => return Err(failed(errno)),
            },
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(failed(errno)),
        };
        let stat = fstat(&file).map_err(failed)?;
        let fault = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => self.check_owner(stat.st_uid, stat.st_gid).err(),
            kind => Some(format!("is a {kind:?} instead of a file")),
        };
        if let Some(fault) = fault {
            return Err(self.damaged(format!("has no valid lock file: {LOCK:?} {fault}")));
        }
        while let Err(errno) = flock(&file, FlockOperation::NonBlockingLockExclusive) {
            match errno {
                Errno::WOULDBLOCK | Errno::INTR if Instant::now() < deadline => {
                    std::thread::sleep(LOOK_AGAIN);
                }
                Errno::WOULDBLOCK | Errno::INTR => {
                    let path = self.lock_path();
                    return Err(JoinError::LockBusy { path, waited: self.lock_limit });
                }
                errno => return Err(failed(errno)),
            }
        }
        let is_current = same_file(statat(domain, LOCK, AtFlags::SYMLINK_NOFOLLOW), &stat)
            && fstat(domain).is_ok_and(|own| {
                same_file(statat(CWD, &self.domain_dir, AtFlags::SYMLINK_NOFOLLOW), &own)
            });
        Ok(is_current.then(|| DomainLock { file, folders: Arc::clone(folders), made }))
    }

    fn discard(&self, domain: impl AsFd, name: &str) {
        if let Err(errno) = unlinkat(domain, name, AtFlags::empty()) {
            tracing::debug!(name, %errno, "unfinished file not removed");
        }
    }

    /// Creates the lock file, held from the moment at which it gets its name.
    fn make_lock(&self, domain: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
        let unfinished = self.unfinished(LOCK);
        let file = self.make_file(domain, &unfinished)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)
            .and_then(|()| renameat_with(domain, &unfinished, domain, LOCK, RenameFlags::NOREPLACE))
            .inspect_err(|_| self.discard(domain, &unfinished))?;
        Ok(file)
    }

    fn unfinished(&self, name: &str) -> String {
        format!("{name}.{}{UNFINISHED}", self.node)
    }

    /// Creates a file that all permitted users can write, whatever the umask.
    fn make_file(&self, domain: BorrowedFd<'_>, name: &str) -> Result<OwnedFd, Errno> {
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        // Left by this node if it failed half way.
        let _ = unlinkat(domain, name, AtFlags::empty());
        let file = openat(domain, name, flags, Mode::RUSR | Mode::WUSR)?;
        fchmod(&file, self.file_mode())?;
        Ok(file)
    }

    /// Fails if nodes live whose files are missing: joining would create two groups in one domain.
    pub(crate) fn check_whole(&self, lock: &DomainLock) -> Result<(), JoinError> {
        // An ending process may have lost its socket but not yet its mark.
        let deadline = Instant::now() + UNFINISHED_LIMIT;
        let living = loop {
            let living = self.living_without_files(lock);
            if living.is_empty() {
                return Ok(());
            }
            if Instant::now() >= deadline {
                break living;
            }
            std::thread::sleep(LOOK_AGAIN);
        };
        if lock.made {
            // Otherwise the next node that joins would find the lock and take the folder
            // for complete.
            let _ = unlinkat(&lock.folders.domain, LOCK, AtFlags::empty());
        }
        let mut pids: Vec<String> = living.iter().map(|(_, pid)| pid.to_string()).collect();
        pids.sort();
        pids.dedup();
        Err(self.damaged(format!(
            "has lost files, which were removed while nodes used them (processes {})",
            pids.join(", ")
        )))
    }

    /// Returns the live nodes whose files are not in the folder, and their processes.
    fn living_without_files(&self, lock: &DomainLock) -> Vec<(NodeId, i32)> {
        let mut living = self.liveness_marks.living(|credentials| self.admits(credentials));
        let missing = |node: NodeId| {
            let socket = statat(&lock.folders.domain, socket_name(node), AtFlags::SYMLINK_NOFOLLOW);
            lock.made || socket.is_err()
        };
        living.retain(|(node, _)| *node != self.node && missing(*node));
        living
    }

    /// Sets the mark that this node lives; `None` if the system allows none.
    pub(crate) fn set_mark(&self) -> Option<OwnedFd> {
        let mark = self.liveness_marks.set(self.node);
        mark.inspect_err(|errno| tracing::warn!(%errno, "life mark of this node not created")).ok()
    }

    /// Returns the sockets of all nodes but `own`.
    pub(crate) fn others(
        &self,
        own: NodeId,
        lock: &DomainLock,
    ) -> Result<Vec<NodeSocket>, JoinError> {
        let failed = |errno| {
            JoinError::system(format!("reading the folder {}", self.domain_dir.display()), errno)
        };
        let names = names_in(&lock.folders.domain).map_err(failed)?;
        let paths = names.iter().map(|name| self.domain_dir.join(OsStr::from_bytes(name)));
        let mut places: Vec<NodeSocket> = paths
            .filter_map(|path| node_of(&path).map(|node| NodeSocket { path, node }))
            .filter(|place| place.node != own)
            .collect();
        // The folder's own order depends on the file system.
        places.sort_by_key(|place| place.node);
        Ok(places)
    }

    /// Opens the group file, `None` if there is none.
    pub(crate) fn open_group(&self, lock: &DomainLock) -> Result<Option<OwnedFd>, Errno> {
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        match openat(&lock.folders.domain, GROUP, flags, Mode::empty()) {
            Err(Errno::NOENT) => Ok(None),
            result => result.map(Some),
        }
    }

    /// Creates the group file, complete before it gets its name.
    pub(crate) fn make_group(
        &self,
        lock: &DomainLock,
        fill: impl FnOnce(&OwnedFd) -> Result<(), Errno>,
    ) -> Result<OwnedFd, Errno> {
        let (domain, unfinished) = (&lock.folders.domain, self.unfinished(GROUP));
        let file = self.make_file(domain.as_fd(), &unfinished)?;
        fill(&file)
            .and_then(|()| {
                renameat_with(domain, &unfinished, domain, GROUP, RenameFlags::NOREPLACE)
            })
            .inspect_err(|_| self.discard(domain, &unfinished))?;
        Ok(file)
    }

    /// Touches the files that this node needs, so that no cleaner takes them for old. Logs an error
    /// if the node's socket is gone.
    pub(crate) fn refresh(&self) {
        let Ok(folders) = self.opened() else { return };
        let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
        let now = Timestamps { last_access: now, last_modification: now };
        let socket = socket_name(self.node);
        for name in [".", LOCK, GROUP, &bell_name(self.node), &socket] {
            let touched = utimensat(&folders.domain, name, &now, AtFlags::SYMLINK_NOFOLLOW);
            if touched == Err(Errno::NOENT) && name == socket {
                let path = self.socket_path(self.node);
                tracing::error!(path = %path.display(), "this node's socket was removed, so nobody can join any more; {END_ALL}");
            }
        }
        let _ = utimensat(&folders.runtime, ".", &now, AtFlags::SYMLINK_NOFOLLOW);
    }

    /// Removes the sockets of a dead node. Ids are never reused, so no other node listens there.
    pub(crate) fn remove_socket(&self, node: NodeId) {
        let Ok(folders) = self.opened() else { return };
        for name in [bell_name(node), socket_name(node)] {
            match unlinkat(&folders.domain, &name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                // The entry belongs to another user, and only that user may remove it.
                Err(errno @ (Errno::PERM | Errno::ACCESS)) if self.gid.is_some() => {
                    tracing::debug!(name, %errno, "socket not removed");
                }
                Err(errno) => tracing::warn!(name, %errno, "socket not removed"),
            }
        }
    }

    /// Removes the node's sockets, and the folders if no other node is in them. A node that is
    /// `alone` also removes the sockets of dead nodes.
    pub(crate) fn leave(&self, node: NodeId, alone: bool) {
        let Ok(folders) = self.opened() else { return };
        let lock = self.lock(&folders, Instant::now() + self.lock_limit, false);
        self.remove_socket(node);
        match lock {
            Ok(Some(lock)) => {
                if alone {
                    self.sweep(node, &lock);
                }
                self.remove_if_empty(&lock);
            }
            // The process that removed the lock file removes the folder too.
            Ok(None) => self.remove_folders(&folders),
            Err(error) => tracing::warn!(%error, "folder of the domain not removed"),
        }
    }

    /// Removes the sockets that have no listener.
    fn sweep(&self, own: NodeId, lock: &DomainLock) {
        for place in self.others(own, lock).unwrap_or_default() {
            if self.connect(place.node).err() == Some(Errno::CONNREFUSED) {
                self.remove_socket(place.node);
            }
        }
    }

    /// Removes the folders if they contain only files that nodes share.
    pub(crate) fn remove_if_empty(&self, lock: &DomainLock) {
        let domain = &lock.folders.domain;
        let Ok(names) = names_in(domain) else { return };
        // The bell of a node has no use without its socket.
        let is_orphan = |name: &[u8]| {
            let node = name.strip_suffix(b".bell");
            node.is_some_and(|node| !names.contains(&[node, b".sock"].concat()))
        };
        let is_shared = |name: &[u8]| {
            [LOCK, GROUP].iter().any(|it| it.as_bytes() == name)
                || is_draft(name)
                || is_orphan(name)
        };
        if names.iter().any(|name| !is_shared(name)) {
            return;
        }
        // Remove the lock last. A node that opened the file before its removal notices that the
        // file is no longer the one in the folder; a node that creates a new file keeps the folder
        // from being removed.
        for name in names.iter().filter(|name| **name != LOCK.as_bytes()) {
            let _ = unlinkat(domain, OsStr::from_bytes(name), AtFlags::empty());
        }
        let _ = unlinkat(domain, LOCK, AtFlags::empty());
        self.remove_folders(&lock.folders);
    }

    /// Records that a node created the runtime folder. Without this record the folder stays for
    /// good, which does no harm.
    fn mark_as_made(&self, runtime: &OwnedFd) {
        let flags = OFlags::RDONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        if let Err(errno) = openat(runtime, MADE, flags, Mode::RUSR) {
            tracing::debug!(path = %self.runtime_dir.display(), %errno, "runtime folder stays");
        }
    }

    /// Removes the runtime folder if it contains only the record that a node created it.
    fn remove_runtime_dir(&self, runtime: &OwnedFd) {
        while let Ok(names) = names_in(runtime) {
            let is_done = names.as_slice() != [MADE.as_bytes()]
                || unlinkat(runtime, MADE, AtFlags::empty()).is_err()
                || rmdir(&self.runtime_dir).is_ok();
            if is_done {
                return;
            }
            // A node of another domain has arrived since the folder was read, and may have
            // left again.
            self.mark_as_made(runtime);
        }
    }

    /// Removes the folders unless they have content or belong to another user.
    fn remove_folders(&self, folders: &OpenFolders) {
        let name = self.domain_dir.file_name().unwrap_or_default();
        if unlinkat(&folders.runtime, name, AtFlags::REMOVEDIR).is_ok() {
            self.remove_runtime_dir(&folders.runtime);
        }
    }
}

impl DomainLock {
    /// Returns device and inode of the group file, as recorded by the node that created the file.
    pub(crate) fn group(&self) -> Result<Option<(u64, u64)>, Errno> {
        let mut bytes = [0; 16];
        if rustix::io::pread(&self.file, &mut bytes, 0)? < bytes.len() {
            return Ok(None);
        }
        let number = u128::from_le_bytes(bytes);
        Ok(Some((number as u64, (number >> 64) as u64)))
    }

    /// Records which file is the group file.
    pub(crate) fn set_group(&self, device: u64, inode: u64) -> Result<(), Errno> {
        let number = u128::from(inode) << 64 | u128::from(device);
        rustix::io::pwrite(&self.file, &number.to_le_bytes(), 0).map(drop)
    }
}

/// Takes a shared lock on a folder, which other nodes can share and which excludes cleaners that
/// want the folder exclusively.
fn share(folder: &OwnedFd, path: &Path) {
    let deadline = Instant::now() + UNFINISHED_LIMIT;
    while let Err(errno) = flock(folder, FlockOperation::NonBlockingLockShared) {
        if Instant::now() >= deadline {
            tracing::warn!(path = %path.display(), %errno, "a cleaner may remove files from this folder");
            return;
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}

fn same_file(now: Result<Stat, Errno>, then: &Stat) -> bool {
    now.is_ok_and(|now| (now.st_dev, now.st_ino) == (then.st_dev, then.st_ino))
}

/// Returns the names of the entries of a folder.
fn names_in(folder: &OwnedFd) -> Result<Vec<Vec<u8>>, Errno> {
    let mut names = Vec::new();
    for entry in Dir::read_from(folder)? {
        let name = entry?.file_name().to_bytes().to_vec();
        if name != b"." && name != b".." {
            names.push(name);
        }
    }
    Ok(names)
}

fn is_draft(name: &[u8]) -> bool {
    name.ends_with(UNFINISHED.as_bytes())
}

fn socket_name(node: NodeId) -> String {
    format!("{node}.sock")
}

fn bell_name(node: NodeId) -> String {
    format!("{node}.bell")
}

/// Returns the node that listens at a path, if the path has the form of a node's socket.
fn node_of(path: &Path) -> Option<NodeId> {
    let digits = path.file_name()?.to_str()?.strip_suffix(".sock")?;
    let hex = digits.len() == 32 && digits.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    hex.then(|| u128::from_str_radix(digits, 16).ok().map(NodeId)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_socket_file_names_are_parsed_as_node_ids() {
        let node = NodeId(0xab << 120);
        let path = PathBuf::from(format!("/x/{node}.sock"));
        assert_eq!(node_of(&path), Some(node));
        for other in ["lock", "ab.sock", "+b000000000000000000000000000000f.sock"] {
            assert_eq!(node_of(Path::new(other)), None, "{other}");
        }
    }
}
