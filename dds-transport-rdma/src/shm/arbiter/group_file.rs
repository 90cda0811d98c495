//! The group file: records the memory with the words of the local group, and the nodes that use it.
//!
//! Owns: the format of the file. Never does: map the file, so that truncating it harms no reader.
//!
//! ```text
//!   0    magic[8]
//!   8    device:u64 inode:u64     of the memory with the words
//!   24   generation:u64           the last founding that was recorded
//!   64   node:u128[254]           the owner of each seat; zero if it is free
//! ```
//! Read and written under the folder's lock. The size of the file is always 8 KiB.

use std::os::fd::OwnedFd;

use derecho_core::ids::NodeId;
use derecho_core::link::Generation;
use rustix::fs::{FallocateFlags, FileType, Stat, fallocate};
use rustix::io::{Errno, pread, pwrite};

use super::page::{MemoryIdentity, SEATS};

/// Size of the file in bytes.
const BYTES: usize = 8 << 10;
/// First bytes of a file of this format.
const MAGIC: u64 = u64::from_le_bytes(*b"SquallG2");
const NODES: usize = 64;
const NODE_BYTES: usize = size_of::<u128>();
const END: usize = NODES + SEATS * NODE_BYTES;

const _: () = assert!(END <= BYTES);

/// Content of the file.
pub(super) struct GroupFile {
    /// The memory with the words; `None` before it exists.
    pub(super) memory: Option<MemoryIdentity>,
    /// The last founding that was recorded.
    pub(super) generation: Generation,
    /// The node of each seat; zero if the seat is free.
    pub(super) nodes: Vec<NodeId>,
}

/// Gives a new file its size and its initial content.
pub(super) fn fill(file: &OwnedFd) -> Result<(), Errno> {
    match fallocate(file, FallocateFlags::empty(), 0, BYTES as u64) {
        Ok(()) => {}
        // A file system that cannot reserve space must write it.
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => drop(pwrite(file, &[0; BYTES], 0)?),
        Err(errno) => return Err(errno),
    }
    pwrite(file, &MAGIC.to_le_bytes(), 0).map(drop)
}

/// Reads the file; an error says what is wrong with its format.
pub(super) fn read(file: &OwnedFd, stat: &Stat) -> Result<GroupFile, String> {
    let is_regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    let mut bytes = [0; END];
    if !is_regular || stat.st_size != BYTES as i64 || pread(file, &mut bytes, 0) != Ok(END) {
        return Err(format!("is no file of {BYTES} bytes"));
    }
    let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|index| bytes[at + index]));
    if word(0) != MAGIC {
        return Err("was made by another release of Squall".to_owned());
    }
    let memory = MemoryIdentity { device: word(8), inode: word(16) };
    let node =
        |bytes: &[u8]| NodeId(u128::from_le_bytes(std::array::from_fn(|index| bytes[index])));
    Ok(GroupFile {
        memory: (memory.inode != 0).then_some(memory),
        generation: Generation(word(24)),
        nodes: bytes[NODES..].chunks_exact(NODE_BYTES).map(node).collect(),
    })
}

impl GroupFile {
    /// Records a new memory, which no node uses yet.
    pub(super) fn set_memory(
        &mut self,
        file: &OwnedFd,
        memory: MemoryIdentity,
    ) -> Result<(), Errno> {
        let mut bytes = [0; END - 8];
        bytes[..8].copy_from_slice(&memory.device.to_le_bytes());
        bytes[8..16].copy_from_slice(&memory.inode.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.generation.0.to_le_bytes());
        // If the writer dies in the middle, some of the old nodes remain, all of which are gone.
        write(file, &bytes, 8)?;
        self.memory = Some(memory);
        self.nodes = vec![NodeId(0); SEATS];
        Ok(())
    }

    /// Records a founding.
    pub(super) fn set_generation(
        &mut self,
        file: &OwnedFd,
        group: Generation,
    ) -> Result<(), Errno> {
        self.generation = group;
        write(file, &group.0.to_le_bytes(), 24)
    }

    /// Assigns a seat to a node.
    pub(super) fn set_node(
        &mut self,
        file: &OwnedFd,
        seat: usize,
        node: NodeId,
    ) -> Result<(), Errno> {
        self.nodes[seat] = node;
        write(file, &node.0.to_le_bytes(), (NODES + seat * NODE_BYTES) as u64)
    }
}

fn write(file: &OwnedFd, bytes: &[u8], at: u64) -> Result<(), Errno> {
    match pwrite(file, bytes, at)? {
        written if written == bytes.len() => Ok(()),
        _ => Err(Errno::NOSPC),
    }
}
