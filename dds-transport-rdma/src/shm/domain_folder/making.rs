//! Creation and checks of the folders.
//!
//! Owns: the rules for a folder's owner and mode. Never does: change or open anything by a path
//! that another user could have replaced; see [`DomainFolder`].

use std::ffi::OsStr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Instant;

use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, Stat, fchmod, fchown, fstat, mkdirat, openat, rmdir,
    statat,
};
use rustix::io::Errno;

use super::{DomainFolder, LOOK_AGAIN, UNFINISHED_LIMIT, names_in};
use crate::shm::error::JoinError;

impl DomainFolder {
    /// Creates one folder if it is missing, checks it and opens it. Also returns whether this call
    /// created it.
    pub(super) fn prepare(
        &self,
        above: BorrowedFd<'_>,
        name: &OsStr,
        path: &Path,
    ) -> Result<(OwnedFd, bool), JoinError> {
        let deadline = Instant::now() + UNFINISHED_LIMIT;
        let mut is_made = false;
        loop {
            let made = match mkdirat(above, name, Mode::RWXU) {
                Ok(()) => true,
                Err(Errno::EXIST) => false,
                Err(errno) => {
                    let doing = format!("making the folder {}", path.display());
                    return Err(JoinError::system(doing, errno));
                }
            };
            is_made |= made;
            let looking = |errno| {
                JoinError::system(format!("looking at the folder {}", path.display()), errno)
            };
            let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let opened = openat(above, name, flags, Mode::empty());
            if let Ok(folder) = &opened {
                self.finish(folder, made, path)?;
            }
            let stat = match &opened {
                Ok(folder) => fstat(folder),
                Err(_) => statat(above, name, AtFlags::SYMLINK_NOFOLLOW),
            };
            let fault = match stat {
                // Another process has just removed the folder.
                Err(Errno::NOENT) if Instant::now() < deadline => continue,
                stat => self.inspect(&stat.map_err(looking)?),
            };
            match (fault, opened) {
                (FolderFault::None, Ok(folder)) => return Ok((folder, is_made)),
                // The folder was replaced between the two checks, or cannot be opened at all.
                (FolderFault::None, Err(_)) if Instant::now() < deadline => {}
                (FolderFault::None, Err(errno)) => return Err(looking(errno)),
                (FolderFault::Unfinished(_), _) if Instant::now() < deadline => {
                    std::thread::sleep(LOOK_AGAIN);
                }
                (FolderFault::Unfinished(fault) | FolderFault::Wrong(fault), _) => {
                    return Err(JoinError::Folder {
                        path: path.to_owned(),
                        fault,
                        remedy: "correct or remove it, or set SQUALL_RUNTIME_DIR to another folder"
                            .to_owned(),
                    });
                }
            }
        }
    }

    /// Gives a new folder its group and mode, whatever the umask, and upgrades the mode of a folder
    /// from an earlier release. Changes only folders of this user, and opens only empty folders to
    /// the group.
    fn finish(&self, folder: &OwnedFd, made: bool, path: &Path) -> Result<(), JoinError> {
        let failed = |errno| {
            let _ = made.then(|| rmdir(path));
            JoinError::system(
                format!(
                    "giving the folder {} to the group (are you a member of it?)",
                    path.display()
                ),
                errno,
            )
        };
        let stat = fstat(folder).map_err(failed)?;
        if stat.st_uid != self.uid {
            return Ok(());
        }
        let mode = stat.st_mode & 0o7777;
        let finished = Mode::from_raw_mode(self.mode());
        match self.gid {
            None if made => fchmod(folder, finished).map_err(failed),
            Some(gid)
                if made && mode & 0o077 == 0 && names_in(folder).is_ok_and(|it| it.is_empty()) =>
            {
                fchown(folder, None, Some(Gid::from_raw(gid)))
                    .and_then(|()| fchmod(folder, finished))
                    .map_err(failed)
            }
            Some(gid) if stat.st_gid == gid && mode == 0o2770 => {
                fchmod(folder, finished).map_err(failed)
            }
            _ => Ok(()),
        }
    }

    fn mode(&self) -> u32 {
        if self.gid.is_some() { 0o3770 } else { 0o700 }
    }

    /// Returns the fault of a folder, by its status.
    fn inspect(&self, stat: &Stat) -> FolderFault {
        let mode = stat.st_mode & 0o7777;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => match self.gid {
                None if stat.st_uid != self.uid => FolderFault::Wrong(format!(
                    "belongs to user {} and not to user {}, who is joining",
                    stat.st_uid, self.uid
                )),
                None if mode & 0o077 != 0 => FolderFault::Wrong(format!(
                    "has mode {mode:04o}, which lets other users in; it has to be 0700"
                )),
                None if mode & 0o700 != 0o700 => {
                    FolderFault::Unfinished(format!("has mode {mode:04o}; it has to be 0700"))
                }
                Some(_) if mode & 0o007 != 0 => FolderFault::Wrong(format!(
                    "has mode {mode:04o}, which lets users outside the group in; it has to be 3770"
                )),
                Some(gid) if stat.st_gid != gid => FolderFault::Unfinished(format!(
                    "belongs to group {} and not to group {gid}, which is configured",
                    stat.st_gid
                )),
                Some(_) if mode != 0o3770 => {
                    FolderFault::Unfinished(format!("has mode {mode:04o}; it has to be 3770"))
                }
                _ => FolderFault::None,
            },
            FileType::Symlink => {
                FolderFault::Wrong("is a symbolic link and not a folder itself".to_owned())
            }
            _ => FolderFault::Wrong("is not a folder".to_owned()),
        }
    }
}

/// Fault of a folder.
enum FolderFault {
    None,
    /// Fault of a folder that another process may be creating.
    Unfinished(String),
    Wrong(String),
}
