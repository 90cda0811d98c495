//! The disk port over a folder of this host.
//!
//! Owns: the folder's lock, and its open files. Never does: leave the folder; all names are names
//! in it.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use derecho_core::log::checksum::Checksum;
use derecho_core::log::{Disk, DiskError, LogError};
use rustix::fs::{self, AtFlags, CWD, FileType, FlockOperation, Mode, OFlags};
use rustix::io::{Errno, pread, pwrite, retry_on_intr};

/// File whose lock makes this process the folder's only writer (I-81).
pub const LOCK: &str = "lock";
/// Maximum number of open files. Beyond it all are closed, and opened again as needed.
const OPEN_FILES: usize = 64;

/// Folder of logs.
pub struct LogFolder {
    path: PathBuf,
    dir: OwnedFd,
    /// Lock held while the folder is open, exclusive for the writer or shared for readers; `None`
    /// if the folder is read without a lock.
    lock: Option<OwnedFd>,
    writes: bool,
    files: HashMap<String, OwnedFd>,
}

impl LogFolder {
    /// Opens a folder as its only writer.
    ///
    /// # Errors
    /// [`LogError::Locked`] if another process writes there, or the reason why the folder cannot
    /// be opened.
    pub fn open(path: &Path) -> Result<LogFolder, LogError> {
        let mut folder = LogFolder::read(path)?;
        folder.lock = Some(folder.locked(FlockOperation::NonBlockingLockExclusive)?);
        folder.writes = true;
        Ok(folder)
    }

    /// Opens a folder without a writer for reading: no process can open it for writing until this
    /// is closed. Several readers may do so at a time.
    ///
    /// # Errors
    /// [`LogError::Locked`] if a process writes there, or the reason why the folder cannot
    /// be opened.
    pub fn look(path: &Path) -> Result<LogFolder, LogError> {
        let mut folder = LogFolder::read(path)?;
        folder.lock = Some(folder.locked(FlockOperation::NonBlockingLockShared)?);
        Ok(folder)
    }

    fn locked(&self, how: FlockOperation) -> Result<OwnedFd, LogError> {
        let flags = OFlags::CREATE | OFlags::RDWR | OFlags::CLOEXEC;
        let lock = fs::openat(&self.dir, LOCK, flags, Mode::from_raw_mode(0o600));
        let lock = lock.map_err(|errno| refused(&self.path, errno))?;
        match fs::flock(&lock, how) {
            Ok(()) => Ok(lock),
            Err(Errno::WOULDBLOCK) => Err(LogError::Locked),
            Err(errno) => Err(refused(&self.path, errno)),
        }
    }

    /// Opens a folder for reading, even while another process writes there.
    ///
    /// # Errors
    /// The reason why the folder cannot be opened.
    pub fn read(path: &Path) -> Result<LogFolder, LogError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = fs::openat(CWD, path, flags, Mode::empty());
        let dir = dir.map_err(|errno| refused(path, errno))?;
        Ok(LogFolder {
            path: path.to_owned(),
            dir,
            lock: None,
            writes: false,
            files: HashMap::new(),
        })
    }

    /// Creates a folder so that it survives a crash; an existing folder is accepted.
    ///
    /// # Errors
    /// The reason why the folder cannot be created. Its parent folder must exist.
    pub fn make(path: &Path) -> Result<(), LogError> {
        match retry_on_intr(|| fs::mkdirat(CWD, path, Mode::from_raw_mode(0o700))) {
            Ok(()) => {}
            // The existing entry may be something else than a folder.
            Err(Errno::EXIST) => drop(LogFolder::read(path)?),
            Err(errno) => return Err(refused(path, errno)),
        }
        let parent = path.parent().filter(|parent| *parent != Path::new(""));
        let parent = parent.unwrap_or(Path::new("."));
        let synced = LogFolder::read(parent)?.sync_folder();
        synced.map_err(|cause| LogError::Disk { file: parent.display().to_string(), cause })
    }

    fn file(&mut self, name: &str) -> Result<&OwnedFd, DiskError> {
        if !self.files.contains_key(name) {
            let access = if self.writes { OFlags::RDWR } else { OFlags::RDONLY };
            self.keep(name, access)?;
        }
        self.files.get(name).ok_or(DiskError::NotFound)
    }

    fn keep(&mut self, name: &str, flags: OFlags) -> Result<(), DiskError> {
        if self.files.len() >= OPEN_FILES {
            self.files.clear();
        }
        let mode = Mode::from_raw_mode(0o600);
        // Without NONBLOCK a FIFO in the place of a file would wait for its other end.
        let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let open = || fs::openat(&self.dir, name, flags, mode);
        let file = retry_on_intr(open).map_err(|errno| match errno {
            // Creating a file needs nothing but the folder, so the folder was removed.
            Errno::NOENT if flags.contains(OFlags::CREATE) => DiskError::Removed,
            other => cause(other),
        })?;
        let stat = fs::fstat(&file).map_err(cause)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(DiskError::Other("a FIFO, a device or a folder is no log file".to_owned()));
        }
        self.files.insert(name.to_owned(), file);
        Ok(())
    }

    /// Closes the open files; files that have their names now are opened when needed.
    pub(super) fn close_files(&mut self) {
        self.files.clear();
    }

    fn writes(&self) -> Result<(), DiskError> {
        if self.writes { Ok(()) } else { Err(DiskError::ReadOnly) }
    }
}

impl Drop for LogFolder {
    fn drop(&mut self) {
        if let Some(lock) = &self.lock {
            // Unlock explicitly: a child that was just forked also has the file until it executes
            // its program.
            let _ = fs::flock(lock, FlockOperation::Unlock);
        }
    }
}

fn refused(path: &Path, errno: Errno) -> LogError {
    LogError::Disk { file: path.display().to_string(), cause: cause(errno) }
}

fn cause(errno: Errno) -> DiskError {
    match errno {
        Errno::NOENT => DiskError::NotFound,
        Errno::NOTDIR => DiskError::NotAFolder,
        Errno::NOSPC | Errno::DQUOT | Errno::FBIG => DiskError::Full,
        Errno::ROFS | Errno::ACCESS | Errno::PERM => DiskError::ReadOnly,
        other => DiskError::Other(other.to_string()),
    }
}

/// Fails for a file without a name: such a file accepts writes, and vanishes with this process.
fn has_name(file: &OwnedFd) -> Result<(), DiskError> {
    match fs::fstat(file) {
        Ok(stat) if stat.st_nlink == 0 => Err(DiskError::Removed),
        Ok(_) => Ok(()),
        Err(errno) => Err(cause(errno)),
    }
}

fn synced(result: Result<(), Errno>) -> Result<(), DiskError> {
    result.map_err(|errno| {
        tracing::error!("a sync of a log failed: {errno}");
        DiskError::FailedSync
    })
}

impl Disk for LogFolder {
    fn list(&mut self) -> Result<Vec<String>, DiskError> {
        let mut names = Vec::new();
        for entry in fs::Dir::read_from(&self.dir).map_err(cause)? {
            let entry = entry.map_err(cause)?;
            // Names that are not text are not ours.
            names.extend(entry.file_name().to_str().ok().map(str::to_owned));
        }
        Ok(names)
    }

    fn length(&mut self, name: &str) -> Result<u64, DiskError> {
        fs::fstat(self.file(name)?).map(|stat| stat.st_size.cast_unsigned()).map_err(cause)
    }

    fn read_at(&mut self, name: &str, at: u64, into: &mut [u8]) -> Result<usize, DiskError> {
        let file = self.file(name)?;
        let mut read = 0;
        while read < into.len() {
            match retry_on_intr(|| pread(file, &mut into[read..], at + read as u64))
                .map_err(cause)?
            {
                0 => break,
                more => read += more,
            }
        }
        Ok(read)
    }

    fn create(&mut self, name: &str) -> Result<(), DiskError> {
        self.writes()?;
        self.files.remove(name);
        self.keep(name, OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC)
    }

    fn write_at(&mut self, name: &str, at: u64, bytes: &[u8]) -> Result<(), DiskError> {
        self.writes()?;
        let file = self.file(name)?;
        let mut written = 0;
        while written < bytes.len() {
            let count = retry_on_intr(|| pwrite(file, &bytes[written..], at + written as u64));
            match count.map_err(cause)? {
                // A file system that writes nothing and reports no error has no room.
                0 => return Err(DiskError::Full),
                count => written += count,
            }
        }
        Ok(())
    }

    fn sync_file(&mut self, name: &str) -> Result<(), DiskError> {
        self.writes()?;
        let file = self.file(name)?;
        synced(retry_on_intr(|| fs::fdatasync(file)))?;
        has_name(file)
    }

    fn sync_folder(&mut self) -> Result<(), DiskError> {
        synced(retry_on_intr(|| fs::fsync(&self.dir)))?;
        has_name(&self.dir)
    }

    fn rename(&mut self, from: &str, to: &str) -> Result<(), DiskError> {
        self.writes()?;
        retry_on_intr(|| fs::renameat(&self.dir, from, &self.dir, to)).map_err(cause)?;
        self.files.remove(to);
        if let Some(file) = self.files.remove(from) {
            self.files.insert(to.to_owned(), file);
        }
        Ok(())
    }

    fn remove(&mut self, name: &str) -> Result<(), DiskError> {
        self.writes()?;
        self.files.remove(name);
        retry_on_intr(|| fs::unlinkat(&self.dir, name, AtFlags::empty())).map_err(cause)
    }

    fn truncate(&mut self, name: &str, length: u64) -> Result<(), DiskError> {
        self.writes()?;
        let file = self.file(name)?;
        retry_on_intr(|| fs::ftruncate(file, length)).map_err(cause)
    }

    fn checksum(&self) -> Checksum {
        crc32c::crc32c
    }

    fn place(&self) -> String {
        self.path.display().to_string()
    }
}
