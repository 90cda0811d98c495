//! Sockets in the folder.
//!
//! Owns: how they are created and reached. Never does: follow a link, or use a file that another
//! user has put in their place.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use derecho_core::ids::NodeId;
use rustix::fs::{FileType, Mode, OFlags, chmod, fstat, openat};
use rustix::io::Errno;

use super::{DomainFolder, DomainLock, bell_name, socket_name};
use crate::shm::socket;

impl DomainFolder {
    /// Binds this node's sockets, so that permitted processes can reach them once they listen.
    pub(crate) fn bind(
        &self,
        listener: &OwnedFd,
        bell: &OwnedFd,
        lock: &DomainLock,
    ) -> Result<(), Errno> {
        let domain = lock.folders.domain.as_fd();
        for (socket, name) in [(listener, socket_name(self.node)), (bell, bell_name(self.node))] {
            self.through(domain, &name, |path| socket::bind(socket, path))?;
            let made = openat(
                domain,
                &name,
                OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC,
                Mode::empty(),
            )?;
            let stat = fstat(&made)?;
            let is_socket = FileType::from_raw_mode(stat.st_mode) == FileType::Socket;
            if !is_socket || stat.st_uid != self.uid {
                return Err(Errno::PERM);
            }
            self.through(made.as_fd(), "", |path| chmod(path, self.file_mode())).or_else(
                |errno| match self.gid {
                    None => chmod(self.domain_dir.join(&name), self.file_mode()),
                    Some(_) => Err(errno),
                },
            )?;
        }
        Ok(())
    }

    /// Runs `act` with a path to an entry of an opened folder, for system calls that require
    /// a path.
    fn through<T>(
        &self,
        folder: BorrowedFd<'_>,
        name: &str,
        act: impl Fn(&Path) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let path = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd()));
        let path = if name.is_empty() { path } else { path.join(name) };
        match act(&path) {
            // Without /proc, use the plain path; it is safe where no other user can write in
            // the folder.
            Err(Errno::NOENT) if self.gid.is_none() && !name.is_empty() => {
                act(&self.domain_dir.join(name))
            }
            result => result,
        }
    }

    /// Connects to a node. `NOENT`: it has no socket; `CONNREFUSED`: no process listens there.
    pub(crate) fn connect(&self, node: NodeId) -> Result<OwnedFd, Errno> {
        self.reach(&socket_name(node), None, socket::connect)
    }

    /// Creates a socket that rings the bell of a node, a process of user `owner`.
    pub(crate) fn connect_bell(&self, node: NodeId, owner: u32) -> Result<OwnedFd, Errno> {
        self.reach(&bell_name(node), Some(owner), socket::connect_bell)
    }

    /// Connects to a socket in the folder, and never to another kind of file with its name.
    fn reach(
        &self,
        name: &str,
        owner: Option<u32>,
        connect: impl Fn(&Path) -> Result<OwnedFd, Errno>,
    ) -> Result<OwnedFd, Errno> {
        let folders = self.opened()?;
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let found = openat(&folders.domain, name, flags, Mode::empty())?;
        let stat = fstat(&found)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::Socket {
            return Err(Errno::PROTOTYPE);
        }
        if owner.is_some_and(|owner| owner != stat.st_uid) {
            return Err(Errno::PERM);
        }
        match self.through(found.as_fd(), "", &connect) {
            Err(Errno::NOENT) if self.gid.is_none() => connect(&self.domain_dir.join(name)),
            result => result,
        }
    }
}
