//! Marks of live nodes, which no cleaner of files can remove.
//!
//! Owns: one listening socket of each node, whose name is in no folder. Never does: send anything
//! over the socket, or trust a mark whose process may not be a peer.
//!
//! A folder under `/tmp` can be emptied while nodes use it. The next node then sees an empty
//! folder and would found the domain a second time. The kernel's list of sockets still shows the
//! marks of the nodes, and the kernel releases each mark with its process. A mark is an abstract
//! UNIX socket:
//!
//! ```text
//!   @squall-<16 digits: folder and domain>-<32 digits: node id>
//! ```
//! The key identifies the folder by the folder *above* it, as device and inode, so that the `/tmp`
//! folders of two mount namespaces differ. Marks are visible within one network namespace only;
//! across namespaces only the folder decides.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use derecho_core::ids::NodeId;
use rustix::io::Errno;
use rustix::net::Shutdown;

use super::process::PeerProcess;
use super::socket::{self, Credentials};

/// Marks of one domain in one folder.
#[derive(Clone, Copy)]
pub(crate) struct LivenessMarks {
    key: u64,
}

impl LivenessMarks {
    /// Creates the marks of `domain` in `runtime_dir`; the folder above may not exist.
    pub(crate) fn new(runtime_dir: &Path, domain: &str) -> LivenessMarks {
        let above = match runtime_dir.parent() {
            Some(above) if !above.as_os_str().is_empty() => above,
            _ => Path::new("."),
        };
        let above = rustix::fs::stat(above).map_or((0, 0), |stat| (stat.st_dev, stat.st_ino));
        let name = runtime_dir.file_name().unwrap_or_default().as_bytes();
        let parts: [&[u8]; 5] =
            [&above.0.to_le_bytes(), &above.1.to_le_bytes(), name, b"/", domain.as_bytes()];
        LivenessMarks { key: parts.iter().copied().flatten().fold(FNV_START, fnv) }
    }

    fn prefix(self) -> String {
        format!("squall-{:016x}-", self.key)
    }

    /// Sets the mark of a node of this process; it lasts while the socket is open.
    pub(crate) fn set(self, node: NodeId) -> Result<OwnedFd, Errno> {
        let mark = socket::bind_abstract(format!("{}{node}", self.prefix()).as_bytes())?;
        socket::listen(&mark)?;
        Ok(mark)
    }

    /// Removes a mark, even if a forked process holds the socket as well.
    pub(crate) fn clear(mark: OwnedFd) {
        let _ = rustix::net::shutdown(&mark, Shutdown::Both);
    }

    /// Returns the live nodes that `may_be_peer` allows, and their processes.
    pub(crate) fn living(self, may_be_peer: impl Fn(&Credentials) -> bool) -> Vec<(NodeId, i32)> {
        // Where the list cannot be read, only the folder decides.
        let list = fs::read_to_string("/proc/net/unix").unwrap_or_default();
        let mut nodes: Vec<NodeId> = nodes_in(&list, &self.prefix());
        nodes.sort_unstable();
        nodes.dedup();
        let pid = |node: &NodeId| {
            let name = format!("{}{node}", self.prefix());
            let mark = socket::connect_abstract(name.as_bytes()).ok()?;
            let credentials = socket::credentials(&mark).ok()?;
            // A forked process may hold the socket of a dead one.
            PeerProcess::at(&mark, credentials.pid).ok()?;
            may_be_peer(&credentials).then_some((*node, credentials.pid))
        };
        nodes.iter().filter_map(pid).collect()
    }
}

/// Returns the nodes whose marks are in the kernel's list of sockets.
fn nodes_in(list: &str, prefix: &str) -> Vec<NodeId> {
    let node = |line: &str| {
        let name = line.split_ascii_whitespace().last()?.strip_prefix('@')?;
        let digits = name.strip_prefix(prefix).filter(|digits| digits.len() == 32)?;
        u128::from_str_radix(digits, 16).ok().map(NodeId)
    };
    list.lines().filter_map(node).collect()
}

const FNV_START: u64 = 0xcbf2_9ce4_8422_2325;

fn fnv(hash: u64, byte: &u8) -> u64 {
    (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mark_is_visible_only_in_own_domain_until_socket_shutdown() {
        let folder = tempfile::tempdir().unwrap();
        let marks = LivenessMarks::new(&folder.path().join("run"), "a");
        let other = LivenessMarks::new(&folder.path().join("run"), "b");
        let node = NodeId(7 << 100);
        let mark = marks.set(node).unwrap();
        let own = (node, std::process::id().cast_signed());
        assert_eq!(marks.living(|_| true), [own]);
        assert_eq!(marks.living(|_| false), []);
        assert_eq!(other.living(|_| true), []);
        let held_by_a_child = mark.try_clone().unwrap();
        LivenessMarks::clear(mark);
        assert_eq!(marks.living(|_| true), []);
        drop(held_by_a_child);
    }

    #[test]
    fn only_complete_socket_names_are_parsed_as_marks() {
        let id = format!("{:032x}", 9);
        let list = format!(
            "Num RefCount\n0: 2 0 0 1 1 7 @squall-1-{id}\n0: 2 0 7 squall-1-{id}\n@squall-1-9\n"
        );
        assert_eq!(nodes_in(&list, "squall-1-"), [NodeId(9)]);
    }
}
