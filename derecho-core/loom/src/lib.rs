//! Models of derecho-core's lock-free parts for loom, which runs them in every interleaving with at
//! most a few preemptions, and with every value that the memory model lets a load see.
//!
//! ```text
//! cd derecho-core/loom
//! RUSTFLAGS="--cfg loom" LOOM_MAX_PREEMPTIONS=3 cargo test --release
//! ```
//! Owns: parts shared by the models. Never does: contain a copy of the modelled code; the code that
//! runs is derecho-core's own. Without `--cfg loom` this crate is empty.
#![cfg(loom)]

use std::ops::Range;

use derecho_core::link::Barrier;
use derecho_core::memory::OwnRegion;
use derecho_core::multicast::claim::SenderMemory;
use derecho_core::multicast::geometry::{GRAIN, Geometry};
use loom::cell::UnsafeCell;
use loom::sync::atomic::{Ordering, fence};

/// Explores a model with at most `most` preemptions, for large models; fewer if
/// `LOOM_MAX_PREEMPTIONS` says so.
pub fn explore(most: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(builder.preemption_bound.map_or(most, |bound| bound.min(most)));
    builder.check(model);
}

/// Stand-in for a barrier that makes every thread pass a full fence. loom has no such barrier, so
/// both halves are fences here; the models check the order of the steps.
#[derive(Debug)]
pub struct FenceBarrier;

impl Barrier for FenceBarrier {
    fn issue(&self) {
        fence(Ordering::SeqCst);
    }
}

/// Barrier without effect.
#[derive(Debug)]
pub struct NoBarrier;

impl Barrier for NoBarrier {
    fn issue(&self) {}
}

/// Returns the smallest memory: `entries` entries (a power of two) and `chunks` chunks of one
/// line each.
pub fn smallest(entries: u64, chunks: u64) -> Geometry {
    shape(entries, chunks, 1)
}

/// Returns a memory of `entries` entries (a power of two) and `chunks` chunks of `lines` lines.
pub fn shape(entries: u64, chunks: u64, lines: u64) -> Geometry {
    // Start from the header of a fitting geometry, whose other fields are the same for all shapes.
    let mut header = Geometry::fitting(1, 2, 1).expect("a small shape").header();
    (header[0], header[1], header[2]) = (entries.ilog2().into(), chunks, lines);
    let region = OwnRegion::heap(1024);
    header.iter().enumerate().for_each(|(index, word)| region.word(index).publish(*word));
    Geometry::read(&region.replica()).expect("a valid shape").expect("a whole header")
}

/// Creates a sender's memory of this shape.
pub fn memory(geometry: Geometry) -> SenderMemory {
    SenderMemory::new(OwnRegion::heap(geometry.words()), geometry)
}

/// Creates a sender's memory as [`memory`] does, with a place for null runs.
pub fn memory_with_nulls(geometry: Geometry) -> SenderMemory {
    SenderMemory::with_nulls(OwnRegion::heap(geometry.words()), geometry)
}

/// Stand-in for the lines of a byte memory. loom does not observe bytes, but it detects a thread
/// that reads one of these cells while another writes it, or without synchronising with the write.
#[derive(Debug)]
pub struct MemoryLines {
    base: usize,
    cells: Vec<UnsafeCell<u64>>,
}

impl MemoryLines {
    /// Creates the lines of a sender's memory.
    pub fn of(memory: &SenderMemory) -> MemoryLines {
        let geometry = memory.geometry();
        let start =
            memory.replica().bytes(geometry.first_byte(), 0).expect("a place in the region");
        let cells = (0..geometry.grains()).map(|_| UnsafeCell::new(0)).collect();
        MemoryLines { base: start.as_ptr() as usize, cells }
    }

    fn of_bytes(&self, bytes: &[u8]) -> Range<usize> {
        let first = (bytes.as_ptr() as usize - self.base) / GRAIN;
        first..first + bytes.len().div_ceil(GRAIN).max(1)
    }

    /// Writes the line at this address, whether or not this thread may still write it.
    pub fn write_at(&self, address: usize, value: u64) {
        // SAFETY: as in `write`.
        self.cells[(address - self.base) / GRAIN].with_mut(|line| unsafe { *line = value });
    }

    /// Reads the line at this address.
    pub fn read_at(&self, address: usize) -> u64 {
        // SAFETY: as in `write`.
        self.cells[(address - self.base) / GRAIN].with(|line| unsafe { *line })
    }

    /// Writes the lines of these bytes.
    pub fn write(&self, bytes: &[u8], value: u64) {
        for cell in &self.cells[self.of_bytes(bytes)] {
            // SAFETY: loom checks that no other thread is here.
            cell.with_mut(|line| unsafe { *line = value });
        }
    }

    /// Reads the lines of these bytes, which all have one value.
    pub fn read(&self, bytes: &[u8]) -> u64 {
        let cells = &self.cells[self.of_bytes(bytes)];
        // SAFETY: as in `write`.
        let mut values = cells.iter().map(|cell| cell.with(|line| unsafe { *line }));
        let first = values.next().expect("at least one line");
        assert!(values.all(|value| value == first));
        first
    }
}

// SAFETY: loom watches the cells; sharing them is the purpose.
unsafe impl Sync for MemoryLines {}
// SAFETY: as above.
unsafe impl Send for MemoryLines {}
