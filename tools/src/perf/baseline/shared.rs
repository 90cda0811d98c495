//! Memory that the processes of a baseline share: a `memfd`, inherited and mapped by each.
//!
//! ```text
//!   line  0   head            u64   messages published             } one writer each
//!         1   end             u64   total messages plus one; zero: not known yet
//!         2   news            u32   futex of the readers; 3 number of sleepers on it
//!         4   room            u32   futex of the writer;  5 whether it sleeps on it
//!         8+i tail            u64   messages that reader i has finished with
//!        64+i received        u64   messages that reader i has received, and may not read yet
//!   8192..    the ring
//! ```

use std::ffi::c_void;
use std::fs::{File, OpenOptions};
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64};

use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::outcome::Failure;

/// Bytes before the ring.
const HEADER: usize = 8192;
const LINE: usize = 64;
/// Maximum number of readers that have lines.
pub(crate) const MOST_READERS: usize = 56;

/// An anonymous file that children inherit.
pub(crate) struct InheritedMemory {
    file: OwnedFd,
}

impl InheritedMemory {
    /// Makes zeroed memory with room for a ring of `bytes`.
    pub(crate) fn new(bytes: usize) -> Result<InheritedMemory, Failure> {
        let fail = |error| Failure::new(format!("no shared memory can be made: {error}"));
        // The file is not closed on exec, so that the children find it under its number.
        let file = memfd_create("squall-baseline", MemfdFlags::empty()).map_err(fail)?;
        ftruncate(&file, (HEADER + bytes) as u64).map_err(fail)?;
        Ok(InheritedMemory { file })
    }

    /// Returns its number here and in every child.
    pub(crate) fn number(&self) -> i32 {
        self.file.as_raw_fd()
    }
}

/// The memory as mapped by one process.
pub(crate) struct Mapping {
    base: NonNull<u8>,
    bytes: usize,
    _file: File,
}

impl Mapping {
    /// Maps the inherited file of this number.
    pub(crate) fn of(number: i32) -> Result<Mapping, Failure> {
        let fail = |error: std::io::Error| {
            Failure::new(format!("descriptor {number} is no memory of a baseline: {error}"))
        };
        let path = format!("/proc/self/fd/{number}");
        let file = OpenOptions::new().read(true).write(true).open(path).map_err(fail)?;
        let bytes = file.metadata().map_err(fail)?.len() as usize;
        if bytes < HEADER {
            return Err(Failure::new(format!("descriptor {number} is no memory of a baseline")));
        }
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address chosen by the kernel touches no existing memory.
        let base = unsafe { mmap(std::ptr::null_mut(), bytes, access, MapFlags::SHARED, &file, 0) };
        let base = base.map_err(|error| fail(error.into()))?;
        let base = NonNull::new(base.cast()).expect("a mapping is never at address zero");
        Ok(Mapping { base, bytes, _file: file })
    }

    /// Returns the bytes of the ring.
    pub(crate) fn ring_bytes(&self) -> usize {
        self.bytes - HEADER
    }

    fn line(&self, line: usize) -> *mut u8 {
        assert!(line < HEADER / LINE, "the header has no line {line}");
        // SAFETY: the header lies inside the mapping.
        unsafe { self.base.as_ptr().add(line * LINE) }
    }

    /// Returns the counter at the start of a line.
    #[inline]
    pub(crate) fn counter(&self, line: usize) -> &AtomicU64 {
        // SAFETY: the line is mapped while `self` lives and is aligned to 64 bytes; every process
        // accesses it only by atomics of this width.
        unsafe { AtomicU64::from_ptr(self.line(line).cast()) }
    }

    /// Returns the futex word at the start of a line.
    #[inline]
    pub(crate) fn futex(&self, line: usize) -> &AtomicU32 {
        // SAFETY: as in `counter`; futex lines are not counter lines.
        unsafe { AtomicU32::from_ptr(self.line(line).cast()) }
    }

    /// Returns bytes of the ring.
    ///
    /// # Safety
    /// No process may write the bytes while the slice is used.
    #[inline]
    pub(crate) unsafe fn bytes(&self, offset: usize, length: usize) -> &[u8] {
        assert!(offset + length <= self.ring_bytes(), "inside the ring");
        // SAFETY: the range is inside the mapping, and the caller guarantees that it is
        // not written.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr().add(HEADER + offset), length) }
    }

    /// Returns bytes of the ring for writing.
    ///
    /// # Safety
    /// No other process or thread may read or write the bytes while the slice is used.
    #[inline]
    #[allow(clippy::mut_from_ref, reason = "which bytes are whose is what the ring's counters say")]
    pub(crate) unsafe fn bytes_mut(&self, offset: usize, length: usize) -> &mut [u8] {
        assert!(offset + length <= self.ring_bytes(), "inside the ring");
        // SAFETY: the range is inside the mapping, and the caller guarantees exclusive access.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr().add(HEADER + offset), length) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `of` and nothing borrows from it any more.
        let _ = unsafe { munmap(self.base.as_ptr().cast::<c_void>(), self.bytes) };
    }
}
