//! Baseline of the bare machine, measured beside the product in the same run.
//!
//! Owns: a broadcast ring, plain and with agreement, a ping-pong between processes, and a transfer
//! of bytes from one process to another, written by hand without other code, and one `memcpy`. The
//! same code writes and checks payloads as for the product.

mod alone;
mod line;
mod ring;
mod shared;
mod stable;
mod transfer;
mod wait;

use std::hint::black_box;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use serde::Serialize;
use serde_json::Value;

use super::control::HarnessControl;
use super::payload::ReadExtent;
use super::pingpong::OneWayTimes;
use super::process_group::ProcessGroup;
use super::role::sample_size;
use crate::outcome::{CommandAnswer, CommandResult, Failure, say};
use ring::{BareRing, RingResult};
use shared::{InheritedMemory, MOST_READERS, Mapping};

pub(crate) use alone::{BareArgs, run as run_alone};
pub(crate) use ring::ring_bytes;
pub(crate) use stable::EVERY;
pub(crate) use transfer::{TransferArgs, TransferResult, run as run_haul, transfer};
pub(crate) use wait::WaitMethod;

/// Kinds of bare rings.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum BareRingKind {
    /// All processes poll.
    Plain,
    /// A process without work sleeps in a futex.
    Futex,
    /// All processes poll, and readers read only messages that all readers have received.
    Stable,
}

impl BareRingKind {
    /// Returns the name in reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            BareRingKind::Plain => "poll",
            BareRingKind::Futex => "futex",
            BareRingKind::Stable => "stable",
        }
    }

    /// Returns the label for human readers.
    pub(crate) fn label(self) -> &'static str {
        match self {
            BareRingKind::Plain => "polling",
            BareRingKind::Futex => "sleeping",
            BareRingKind::Stable => "waiting until all have it",
        }
    }

    fn wait(self) -> WaitMethod {
        match self {
            BareRingKind::Plain | BareRingKind::Stable => WaitMethod::Poll,
            BareRingKind::Futex => WaitMethod::Futex,
        }
    }
}

/// One process of a baseline.
#[derive(Args, Debug)]
pub(crate) struct BareNodeArgs {
    /// Role of the process.
    #[arg(value_enum)]
    role: BareRole,
    /// Inherited memory.
    #[arg(long)]
    memory: i32,
    /// Way of waiting.
    #[arg(long, value_enum)]
    wait: WaitMethod,
    /// Bytes of a message.
    #[arg(long, default_value = "64", value_parser = sample_size)]
    size: usize,
    /// Number of readers.
    #[arg(long, default_value_t = 1)]
    readers: usize,
    /// Index of the reader.
    #[arg(long, default_value_t = 0)]
    index: usize,
    /// Bytes that readers check.
    #[arg(long, value_enum, default_value_t = ReadExtent::Whole)]
    read: ReadExtent,
    /// Seconds of writing.
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Round trips.
    #[arg(long, default_value_t = 1000)]
    rounds: u64,
    /// Whether round trips carry messages of this size, instead of a bare counter.
    #[arg(long)]
    messages: bool,
    /// Read only messages that all readers have received, and report the position after this
    /// many messages.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    stable: Option<u64>,
}

/// Command of one process.
const NODE: &str = "bare-node";

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum BareRole {
    Write,
    Read,
    Ping,
    Pong,
}

/// Runs one process of a baseline.
pub(crate) fn run_node(args: &BareNodeArgs) -> CommandResult {
    let control = HarnessControl::new(true);
    let mapping = Mapping::of(args.memory)?;
    if args.readers > MOST_READERS || args.index >= args.readers {
        return Err(Failure::Usage(format!("a ring has 1 to {MOST_READERS} readers")));
    }
    let starts = matches!(args.role, BareRole::Write | BareRole::Ping);
    if !control.ready(starts.then_some("GO"))? {
        return Ok(CommandAnswer::Yes);
    }
    let result = match args.role {
        BareRole::Write | BareRole::Read => {
            let ring = BareRing::new(mapping, args.size, args.wait)?;
            let ring_result = match (args.role, args.stable) {
                (BareRole::Write, every) => {
                    let every = every.map_or(1, |every| ring.at_most(every));
                    ring.write(args.readers, every, args.seconds, &control)
                }
                (_, None) => ring.read(args.index, args.read, &control),
                (_, Some(every)) => {
                    ring.read_stable(args.index, args.readers, every, args.read, &control)
                }
            };
            serde_json::to_string(&ring_result)
        }
        BareRole::Ping => {
            let size = if args.messages { args.size } else { 0 };
            serde_json::to_string(&line::ping(&mapping, args.wait, args.rounds, size, &control))
        }
        BareRole::Pong => {
            let size = if args.messages { args.size } else { 0 };
            line::pong(&mapping, args.wait, args.rounds, size, &control);
            serde_json::to_string(&Value::Null)
        }
    };
    say(&result.map_err(|error| Failure::new(error.to_string()))?)?;
    control.wait_for_exit();
    Ok(CommandAnswer::Yes)
}

/// Result of a run of the bare ring.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct BareThroughput {
    /// Messages per second, as the mean over the readers.
    pub(crate) msgs_per_s: f64,
    pub(crate) cpu_s: f64,
    /// Messages written, and read by each reader, in order and intact.
    pub(crate) written: u64,
    pub(crate) read_by: Vec<u64>,
}

/// Settings of a bare run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BareSettings {
    pub(crate) size: usize,
    pub(crate) readers: usize,
    pub(crate) read: ReadExtent,
    pub(crate) seconds: f64,
    /// Number of messages after which a process of the stable ring reports its position.
    pub(crate) every: u64,
    pub(crate) limit: Duration,
}

/// Runs a bare ring.
pub(crate) fn throughput(
    settings: BareSettings,
    kind: BareRingKind,
) -> Result<BareThroughput, Failure> {
    let BareSettings { size, readers, read, seconds, every, limit } = settings;
    let memory = InheritedMemory::new(ring_bytes(size))?;
    let mut process_group = ProcessGroup::without_folder(limit);
    let common = |role: &str| {
        let stable = (kind == BareRingKind::Stable).then(|| format!("--stable={every}"));
        [
            NODE.to_owned(),
            role.to_owned(),
            format!("--memory={}", memory.number()),
            format!("--wait={}", kind.wait().name()),
            format!("--size={size}"),
            format!("--readers={readers}"),
            format!("--read={}", read.name()),
            format!("--seconds={seconds}"),
        ]
        .into_iter()
        .chain(stable)
        .collect::<Vec<_>>()
    };
    for index in 0..readers {
        let mut arguments = common("read");
        arguments.push(format!("--index={index}"));
        process_group.start(&format!("bare reader {index}"), &arguments)?;
    }
    let writer = process_group.start("the bare writer", &common("write"))?;
    process_group.all_ready()?;
    process_group.tell(writer, "GO")?;
    let written: RingResult = process_group.result(writer)?;
    let (mut rates, mut cpu_s, mut read_by) = (0.0, written.cpu_s, Vec::new());
    for reader in 0..readers {
        let ring_result: RingResult = process_group.result(reader)?;
        if ring_result.wrong > 0 || ring_result.messages != written.messages {
            return Err(Failure::new(
                "the bare ring has lost or corrupted messages: a defect of the ring",
            ));
        }
        let nanos = ring_result.t_end_ns.saturating_sub(written.t_start_ns).max(1);
        rates += ring_result.messages as f64 * 1e9 / nanos as f64;
        cpu_s += ring_result.cpu_s;
        read_by.push(ring_result.messages);
    }
    process_group.dismiss()?;
    let msgs_per_s = rates / readers as f64;
    Ok(BareThroughput { msgs_per_s, cpu_s, written: written.messages, read_by })
}

/// Runs the bare ping-pong: with messages of this size through two rings, or with a counter on one
/// cache line.
pub(crate) fn latency(
    size: Option<usize>,
    rounds: u64,
    wait: WaitMethod,
    limit: Duration,
) -> Result<OneWayTimes, Failure> {
    let memory = InheritedMemory::new(size.map_or(0, |size| 2 * ring_bytes(size)))?;
    let mut process_group = ProcessGroup::without_folder(limit);
    let arguments = |role: &str| {
        [
            NODE.to_owned(),
            role.to_owned(),
            format!("--memory={}", memory.number()),
            format!("--wait={}", wait.name()),
            format!("--rounds={rounds}"),
        ]
        .into_iter()
        .chain(size.map(|size| format!("--size={size}")))
        .chain(size.map(|_| "--messages".to_owned()))
        .collect::<Vec<_>>()
    };
    process_group.start("bare pong", &arguments("pong"))?;
    let ping = process_group.start("bare ping", &arguments("ping"))?;
    process_group.all_ready()?;
    process_group.tell(ping, "GO")?;
    let one_way = process_group.result(ping)?;
    process_group.dismiss()?;
    Ok(one_way)
}

/// Returns the bytes per second that one thread copies, in messages of this size, between buffers
/// as large as the ring.
pub(crate) fn memcpy(size: usize) -> f64 {
    const TIME: Duration = Duration::from_millis(200);
    let room = ring_bytes(size);
    let (from, mut to) = (vec![1u8; room], vec![2u8; room]);
    let per_pass = room / size;
    let (start, mut passes) = (Instant::now(), 0u64);
    while passes == 0 || start.elapsed() < TIME {
        for (from, to) in from.chunks_exact(size).zip(to.chunks_exact_mut(size)) {
            to.copy_from_slice(black_box(from));
        }
        black_box(&mut to);
        passes += 1;
    }
    (passes as f64 * per_pass as f64 * size as f64) / start.elapsed().as_secs_f64()
}
