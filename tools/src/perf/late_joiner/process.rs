//! One of the processes of `squall perf late-joiner`.
//!
//! Owns: the common part of all processes, and the late joiner. Never does: judge its measurements.

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

use super::live;
use crate::outcome::{CommandAnswer, CommandResult, Failure, say};
use crate::perf::clock;
use crate::perf::control::HarnessControl;
use crate::perf::payload::{Payload, ReadExtent, WithPayload, check, for_size};
use crate::perf::role::{self, DeliverySettings, LOOK, on_large_stack};
use crate::perf::subscriber_stats::SubscriberStats;

/// Topic of the measurement.
pub(super) const TOPIC: &str = "late-joiner";

/// Arguments of one process.
#[derive(Args, Clone, Debug)]
pub(crate) struct ProcessArgs {
    #[arg(value_enum)]
    role: LateJoinRole,
    #[command(flatten)]
    part: role::RoleSettings,
    /// Number of samples of the history.
    #[arg(long)]
    past: u64,
    /// Samples per second after that; none: as many as there is room for.
    #[arg(long)]
    live: Option<u64>,
    /// Bytes that the late joiner checks.
    #[arg(long, value_enum)]
    read: ReadExtent,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum LateJoinRole {
    Writer,
    Reader,
    Newcomer,
}

/// Settings of a process.
pub(super) struct ProcessSettings {
    role: LateJoinRole,
    pub(super) delivery: DeliverySettings,
    pub(super) size: usize,
    pub(super) past: u64,
    pub(super) live: Option<u64>,
    pub(super) read: ReadExtent,
}

/// Report of a late joiner that has received the history.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct HistoryReport {
    /// CLOCK_MONOTONIC at the start of its process.
    pub(super) t_start_ns: u64,
    /// Time at which it was a participant.
    pub(super) t_joined_ns: u64,
    /// Time of the first sample of the history.
    pub(super) t_first_ns: u64,
    /// Time of the last sample of the history.
    pub(super) t_last_ns: u64,
}

/// Final report of a late joiner.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct FinalReport {
    /// Samples that were missing, damaged or out of order.
    pub(super) wrong: u64,
    pub(super) peak_mib: u64,
}

struct ProcessRun(ProcessSettings, HarnessControl);

impl WithPayload for ProcessRun {
    type Output = Result<(), Failure>;

    fn with<P: Payload>(self) -> Result<(), Failure> {
        let ProcessRun(part, control) = self;
        match part.role {
            LateJoinRole::Writer => live::write::<P>(&part, &control),
            LateJoinRole::Reader => live::read::<P>(&part, &control),
            LateJoinRole::Newcomer => come::<P>(&part, &control),
        }
    }
}

/// Runs one of the processes.
pub(crate) fn play(args: ProcessArgs) -> CommandResult {
    let ProcessArgs { role, part, past, live, read } = args;
    let part = ProcessSettings { role, delivery: part.means, size: part.size, past, live, read };
    let control = HarnessControl::new(true);
    on_large_stack(move || for_size(part.size, ProcessRun(part, control)))?;
    Ok(CommandAnswer::Yes)
}

/// Joins late: receives the history, and continues with live samples.
fn come<P: Payload>(part: &ProcessSettings, control: &HarnessControl) -> Result<(), Failure> {
    let t_start_ns = clock::now();
    let participant = part.delivery.join()?;
    let t_joined_ns = clock::now();
    let reader = part.delivery.reader::<P>(&participant, TOPIC, part.size)?;
    let mut stats = SubscriberStats::new(part.read);
    let (mut first, mut has_come) = (None, false);
    loop {
        for sample in reader.take_data(.., LOOK)? {
            let bytes = sample.bytes();
            // Samples before the kept history are not missed.
            first.get_or_insert_with(|| {
                (clock::now(), check(bytes, part.read).map_or(0, |it| it.0))
            });
            stats.look(bytes, sample.info().publication_handle);
        }
        if let (Some((t_first_ns, _)), false) = (first, has_come)
            && stats.seen() >= part.past
        {
            let came =
                HistoryReport { t_start_ns, t_joined_ns, t_first_ns, t_last_ns: clock::now() };
            say(&serde_json::to_string(&came).map_err(|error| Failure::new(error.to_string()))?)?;
            has_come = true;
        }
        if has_come && control.has_received("STOP") || control.ended() {
            break;
        }
    }
    let passed = first.map_or(0, |(_, index)| index);
    let wrong = stats.lost.saturating_sub(passed) + stats.disorder + stats.corrupt;
    let stayed = FinalReport { wrong, peak_mib: peak_mib() };
    say(&serde_json::to_string(&stayed).map_err(|error| Failure::new(error.to_string()))?)?;
    control.wait_for_exit();
    Ok(())
}

/// Returns the peak memory of this process, in MiB.
pub(super) fn peak_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().split(' ').next()?.parse::<u64>().ok());
    kib.unwrap_or(0) / 1024
}
