//! `squall perf late-joiner`: time for a late joiner to receive the kept samples, and the effect on
//! the existing participants.
//!
//! Owns: the rounds, and the evaluation. Never does: measure anything itself; each of its processes
//! does.
//!
//! ```text
//!   writer   the history ──GO──> live samples ......................................... STOP
//!   reader                       counts samples, by the millisecond ................... STOP
//!   rounds                       calm │ bare transfers │ calm │ late joiner │ calm, repeated
//! ```
//! A late joiner joins and receives the history.

mod live;
mod process;

use std::time::Duration;

use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};

use super::baseline::{TransferResult, transfer};
use super::machine::{commit, machine, median};
use super::payload::ReadExtent;
use super::process_group::ProcessGroup;
use super::role::{DeliverySettings, PerfLevel, sample_size};
use super::throughput::{seconds, short};
use crate::outcome::{CommandAnswer, CommandResult, Failure, progress, show};

use live::{ReaderResult, WriterResult};
use process::{FinalReport, HistoryReport};
pub(crate) use process::{ProcessArgs, play};

/// Time limit of the measurement, and its increase for each MiB.
const LIMIT: Duration = Duration::from_secs(120);
const LIMIT_A_MIB: Duration = Duration::from_millis(50);

/// How long a late joiner takes to receive all kept samples, beside bare copies of as many bytes,
/// and the effect on live samples.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    squall perf late-joiner --mib 1024\n  \
    squall perf late-joiner --mib 256 --size 128 --live 0 --rounds 5 --json")]
pub(crate) struct LateJoinerArgs {
    /// Bytes of a sample.
    #[arg(long, value_name = "BYTES", default_value_t = 10240, value_parser = sample_size)]
    size: usize,
    /// MiB of samples written before.
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..=16384))]
    mib: u32,
    /// Live samples per second; 0: none [default: as many as there is room for].
    #[arg(long, value_name = "SAMPLES")]
    live: Option<u64>,
    /// Seconds without other activity before and after each measurement.
    #[arg(long, default_value_t = 0.5, value_parser = seconds)]
    calm: f64,
    /// Number of late joiners, one after the other; the median one counts.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Bytes that the late joiner checks.
    #[arg(long, value_enum, default_value_t = ReadExtent::Ends)]
    read: ReadExtent,
}

impl LateJoinerArgs {
    fn samples(&self) -> u64 {
        (((self.mib as usize) << 20) / self.size).max(1) as u64
    }

    fn limit(&self) -> Duration {
        LIMIT + (LIMIT_A_MIB * self.mib + Duration::from_secs_f64(4.0 * self.calm)) * self.rounds
    }

    fn part(&self, role: &str) -> Vec<String> {
        let delivery = DeliverySettings { keep: self.mib, ..DeliverySettings::of(PerfLevel::Kept) };
        let mut arguments = vec!["late-joiner-part".to_owned(), role.to_owned()];
        arguments.push(format!("--size={}", self.size));
        arguments.extend(delivery.arguments());
        arguments.push(format!("--past={}", self.samples()));
        arguments.push(format!("--read={}", self.read.name()));
        arguments.extend(self.live.map(|rate| format!("--live={rate}")));
        arguments
    }
}

/// Measurement of one late joiner.
#[derive(Clone, Copy, Debug, Serialize)]
struct Round {
    /// Seconds of the bare transfers.
    ring_s: f64,
    copy_s: f64,
    /// Seconds from the process's start to the creation of its participant.
    join_s: f64,
    /// Seconds from the creation of the participant to the first sample of the history in
    /// the application.
    first_s: f64,
    /// Seconds from the creation of the participant to the last sample of the history.
    last_s: f64,
    /// Live samples per second at the existing reader: before, during the bare transfers, and
    /// during the arrival of the late joiner.
    before: f64,
    beside_ring: f64,
    beside_copy: f64,
    beside_newcomer: f64,
    after: f64,
    /// Longest time, in milliseconds, without a sample during the arrival of the late joiner.
    silence_ms: u64,
}

/// A round before the live samples are evaluated.
struct RoundTimes {
    before: (u64, u64),
    ring: TransferResult,
    copy: TransferResult,
    history: HistoryReport,
    after: (u64, u64),
}

/// Runs the rounds.
pub(crate) fn run(args: &LateJoinerArgs, json: bool) -> CommandResult {
    let mut process_group = ProcessGroup::new(args.limit())?;
    let reader = process_group.start("the reader", &args.part("reader"))?;
    let writer = process_group.start("the writer", &args.part("writer"))?;
    progress(format_args!("{} samples of {} bytes ...", args.samples(), args.size));
    process_group.all_ready()?;
    process_group.tell(writer, "GO")?;
    let (mut marks, mut stayed) = (Vec::new(), Vec::new());
    for number in 1..=args.rounds {
        progress(format_args!("newcomer {number} of {} ...", args.rounds));
        let (found, stay) = round(args, &mut process_group)?;
        marks.push(found);
        stayed.push(stay);
    }
    process_group.tell(writer, "STOP")?;
    let wrote: WriterResult = process_group.result(writer)?;
    process_group.tell(reader, "STOP")?;
    let lived: ReaderResult = process_group.result(reader)?;
    process_group.dismiss()?;
    let rounds: Vec<Round> = marks.iter().map(|marks| sum_up(marks, &lived)).collect();
    let wrong = lived.wrong + stayed.iter().map(|stay| stay.wrong).sum::<u64>();
    let report = report(args, &rounds, &wrote, &lived, &stayed, wrong);
    show(json, &report, &text(&report))?;
    Ok(if wrong == 0 { CommandAnswer::Yes } else { CommandAnswer::No })
}

fn round(
    args: &LateJoinerArgs,
    process_group: &mut ProcessGroup,
) -> Result<(RoundTimes, FinalReport), Failure> {
    let calm = || {
        let start = super::clock::now();
        std::thread::sleep(Duration::from_secs_f64(args.calm));
        (start, super::clock::now())
    };
    let bytes = args.samples() as usize * args.size;
    let before = calm();
    let ring = transfer(bytes, true, args.limit())?;
    let copy = transfer(bytes, false, args.limit())?;
    calm();
    let newcomer = process_group.start("the newcomer", &args.part("newcomer"))?;
    let came: HistoryReport = process_group.result(newcomer)?;
    let after = calm();
    process_group.tell(newcomer, "STOP")?;
    let stayed: FinalReport = process_group.result(newcomer)?;
    process_group.let_go(newcomer)?;
    Ok((RoundTimes { before, ring, copy, history: came, after }, stayed))
}

fn sum_up(marks: &RoundTimes, lived: &ReaderResult) -> Round {
    let RoundTimes { before, ring, copy, history: came, after } = marks;
    let secs = |from: u64, to: u64| super::clock::secs(to.saturating_sub(from));
    Round {
        ring_s: ring.seconds(),
        copy_s: copy.seconds(),
        join_s: secs(came.t_start_ns, came.t_joined_ns),
        first_s: secs(came.t_joined_ns, came.t_first_ns),
        last_s: secs(came.t_joined_ns, came.t_last_ns),
        before: lived.rate(before.0, before.1),
        beside_ring: lived.rate(ring.t_start_ns, ring.t_end_ns),
        beside_copy: lived.rate(copy.t_start_ns, copy.t_end_ns),
        beside_newcomer: lived.rate(came.t_start_ns, came.t_last_ns),
        after: lived.rate(after.0, after.1),
        silence_ms: lived.silence(came.t_start_ns, came.t_last_ns),
    }
}

fn report(
    args: &LateJoinerArgs,
    rounds: &[Round],
    wrote: &WriterResult,
    lived: &ReaderResult,
    stayed: &[FinalReport],
    wrong: u64,
) -> Value {
    let of = |value: fn(&Round) -> f64| median(rounds.iter().map(value));
    let bytes = (args.samples() * args.size as u64) as f64;
    let peak = stayed.iter().map(|stay| stay.peak_mib).max();
    json!({
        "size": args.size,
        "samples": args.samples(),
        "mib": args.mib,
        "live": args.live,
        "last_s": of(|round| round.last_s),
        "bytes_per_s": bytes / of(|round| round.last_s),
        "of_ring": of(|round| round.last_s / round.ring_s),
        "of_copy": of(|round| round.last_s / round.copy_s),
        "live_before": of(|round| round.before),
        "live_kept": of(|round| round.beside_newcomer / round.before),
        "live_kept_by_ring": of(|round| round.beside_ring / round.before),
        "live_kept_by_copy": of(|round| round.beside_copy / round.before),
        "live_kept_after": of(|round| round.after / round.before),
        "silence_ms": rounds.iter().map(|round| round.silence_ms).max(),
        "wrong": wrong,
        "past_s": wrote.past_s,
        "peak_mib": { "writer": wrote.peak_mib, "reader": lived.peak_mib, "newcomer": peak },
        "rounds": rounds,
        "machine": machine(),
        "commit": commit(),
    })
}

/// Returns the report as text.
fn text(report: &Value) -> String {
    let number = |name: &str| report[name].as_f64().unwrap_or(0.0);
    let peak = |name: &str| report["peak_mib"][name].as_u64().unwrap_or(0);
    let percent = |name: &str| match number(name).is_normal() {
        true => format!("{:.0} %", 100.0 * number(name)),
        false => "-".to_owned(),
    };
    format!(
        "{} MiB of samples of {} bytes to a newcomer: {:.3} s, {:.2} GB/s, wrong {}\n  \
         bare copies of as much: {:.2} times the one through a ring, {:.2} times one out of shared memory\n  \
         live {}/s before; kept {} beside the newcomer ({} after it came), {} beside the bare ring, \
         {} beside the bare copy; longest silence {} ms\n  \
         most memory: writer {} MiB, reader {} MiB, newcomer {} MiB",
        report["mib"],
        report["size"],
        number("last_s"),
        number("bytes_per_s") / 1e9,
        report["wrong"],
        number("of_ring"),
        number("of_copy"),
        short(number("live_before")),
        percent("live_kept"),
        percent("live_kept_after"),
        percent("live_kept_by_ring"),
        percent("live_kept_by_copy"),
        report["silence_ms"],
        peak("writer"),
        peak("reader"),
        peak("newcomer"),
    )
}
