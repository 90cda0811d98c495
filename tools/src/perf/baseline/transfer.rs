//! Hand-written transfer of bytes from one process's memory to another's: the baseline for
//! state transfer.
//!
//! Owns: two ways. Through a ring that stays in the caches, with one copy on either side; and at
//! once, with one copy from shared memory that exists already. The receiver uses memory that was
//! never touched, like a late joiner.

use std::hint::black_box;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

use super::ring::{HEAD, NEWS, ROOM, TAILS};
use super::shared::{InheritedMemory, Mapping};
use super::wait::WaitMethod;
use crate::outcome::{CommandAnswer, CommandResult, Failure, say};
use crate::perf::clock;
use crate::perf::control::HarnessControl;
use crate::perf::process_group::ProcessGroup;

/// Bytes of a block.
const BLOCK: usize = 128 << 10;
/// Blocks of the ring.
const BLOCKS: usize = 8;

/// Way in which the processes wait for each other.
const WAIT: WaitMethod = WaitMethod::Futex;

/// One of the two processes.
#[derive(Args, Debug)]
pub(crate) struct TransferArgs {
    /// Role of the process.
    #[arg(value_enum)]
    role: TransferRole,
    /// Inherited memory.
    #[arg(long)]
    memory: i32,
    /// Total number of bytes.
    #[arg(long)]
    bytes: usize,
}

/// Command of one process.
const NODE: &str = "bare-haul";

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum TransferRole {
    Give,
    Take,
}

/// Duration of the transfer in both processes, with its time.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct TransferResult {
    pub(crate) t_start_ns: u64,
    pub(crate) t_end_ns: u64,
}

impl TransferResult {
    /// Returns the duration in seconds.
    pub(crate) fn seconds(&self) -> f64 {
        clock::secs(self.t_end_ns.saturating_sub(self.t_start_ns).max(1))
    }
}

/// Transfers bytes from one process to another, through a ring or at once.
pub(crate) fn transfer(
    bytes: usize,
    ring: bool,
    limit: Duration,
) -> Result<TransferResult, Failure> {
    let bytes = bytes.next_multiple_of(BLOCK);
    let memory = InheritedMemory::new(if ring { BLOCK * BLOCKS } else { bytes })?;
    let mut process_group = ProcessGroup::without_folder(limit);
    let arguments = |role: &str| {
        vec![
            NODE.to_owned(),
            role.to_owned(),
            format!("--memory={}", memory.number()),
            format!("--bytes={bytes}"),
        ]
    };
    let giver = process_group.start("the bare sender", &arguments("give"))?;
    let taker = process_group.start("the bare receiver", &arguments("take"))?;
    process_group.all_ready()?;
    process_group.tell(taker, "GO")?;
    process_group.tell(giver, "GO")?;
    let transferred = process_group.result(taker)?;
    let _: TransferResult = process_group.result(giver)?;
    process_group.dismiss()?;
    Ok(transferred)
}

/// Runs one of the two processes.
pub(crate) fn run(args: &TransferArgs) -> CommandResult {
    let (control, mapping) = (HarnessControl::new(true), Mapping::of(args.memory)?);
    let through_ring = mapping.ring_bytes() < args.bytes;
    let gives = args.role == TransferRole::Give;
    // The data to send exists before the clock is read.
    let source = vec![1_u8; if gives && through_ring { args.bytes } else { 0 }];
    if gives && !through_ring {
        // SAFETY: no other process reads the memory before this process reports that it is ready.
        unsafe { mapping.bytes_mut(0, args.bytes) }.fill(1);
    }
    if !control.ready(Some("GO"))? {
        return Ok(CommandAnswer::Yes);
    }
    let t_start_ns = clock::now();
    match (args.role, through_ring) {
        (TransferRole::Give, true) => give(&source, &mapping, &control),
        (TransferRole::Give, false) => {}
        (TransferRole::Take, true) => take(args.bytes, &mapping, &control),
        (TransferRole::Take, false) => {
            // SAFETY: the sending process has filled the memory, and writes no more.
            black_box(unsafe { mapping.bytes(0, args.bytes) }.to_vec());
        }
    }
    let transferred = TransferResult { t_start_ns, t_end_ns: clock::now() };
    say(&serde_json::to_string(&transferred).map_err(|error| Failure::new(error.to_string()))?)?;
    control.wait_for_exit();
    Ok(CommandAnswer::Yes)
}

fn give(source: &[u8], mapping: &Mapping, control: &HarnessControl) {
    let (head, tail) = (mapping.counter(HEAD), mapping.counter(TAILS));
    for (number, block) in source.chunks_exact(BLOCK).enumerate() {
        WAIT.until(mapping, ROOM, control, || (number as u64) < tail.load(Acquire) + BLOCKS as u64);
        // SAFETY: the receiving process has read the old contents of the slot, and reads the slot
        // again only after `head` advances.
        let slot = unsafe { mapping.bytes_mut(number % BLOCKS * BLOCK, BLOCK) };
        slot.copy_from_slice(block);
        head.store(number as u64 + 1, Release);
        WAIT.wake(mapping, NEWS);
    }
}

fn take(bytes: usize, mapping: &Mapping, control: &HarnessControl) {
    let (head, tail) = (mapping.counter(HEAD), mapping.counter(TAILS));
    let mut all: Vec<u8> = Vec::with_capacity(bytes);
    for number in 0..bytes / BLOCK {
        WAIT.until(mapping, NEWS, control, || head.load(Acquire) > number as u64);
        // SAFETY: the sending process has filled the slot, and writes it again only after
        // `tail` advances.
        all.extend_from_slice(unsafe { mapping.bytes(number % BLOCKS * BLOCK, BLOCK) });
        tail.store(number as u64 + 1, Release);
        WAIT.wake(mapping, ROOM);
    }
    black_box(all);
}
