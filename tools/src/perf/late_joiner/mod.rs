//! `squall perf late-joiner`: how fast a participant that comes late gets what was kept before, and what those who
//! are there already feel of it.
//!
//! Owns: the rounds, and what is made of the numbers. Never does: measure anything itself; the parts do, each in a
//! process of its own.
//!
//! ```text
//!   writer    the past, all of it ──GO──> live samples ............................................ STOP
//!   reader                                counts what comes, by the millisecond ................... STOP
//!                                   calm │ bare hauls │ calm │ newcomer: joins, gets the past │ calm     and again
//! ```

mod live;
mod part;

use std::time::Duration;

use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};

use super::baseline::{Hauled, haul};
use super::crew::Crew;
use super::machine::{commit, machine, median};
use super::payload::Read;
use super::role::{Level, Means, sample_size};
use super::throughput::{seconds, short};
use crate::outcome::{Done, Failure, Outcome, progress, show};

use live::{Lived, Wrote};
use part::{Came, Stayed};
pub(crate) use part::{PartArgs, play};

/// How long all of it may take, and so much longer for each MiB.
const LIMIT: Duration = Duration::from_secs(120);
const LIMIT_A_MIB: Duration = Duration::from_millis(50);

/// How long a participant that comes late takes to get all that was kept before it came, measured beside bare copies of
/// as many bytes, and what live samples lose meanwhile.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    squall perf late-joiner --mib 1024\n  \
    squall perf late-joiner --mib 256 --size 128 --live 0 --rounds 5 --json")]
pub(crate) struct LateJoinerArgs {
    /// Bytes of a sample.
    #[arg(long, value_name = "BYTES", default_value_t = 10240, value_parser = sample_size)]
    size: usize,
    /// MiB of samples that were written before.
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..=16384))]
    mib: u32,
    /// Samples that are written a second meanwhile; 0: none [default: as many as there is room for].
    #[arg(long, value_name = "SAMPLES")]
    live: Option<u64>,
    /// How long nothing else happens before and after each thing that is measured.
    #[arg(long, default_value_t = 0.5, value_parser = seconds)]
    calm: f64,
    /// Newcomers, one after the other; the one in the middle counts.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// What the newcomer looks at.
    #[arg(long, value_enum, default_value_t = Read::Ends)]
    read: Read,
}

impl LateJoinerArgs {
    fn samples(&self) -> u64 {
        (((self.mib as usize) << 20) / self.size).max(1) as u64
    }

    fn limit(&self) -> Duration {
        LIMIT + (LIMIT_A_MIB * self.mib + Duration::from_secs_f64(4.0 * self.calm)) * self.rounds
    }

    fn part(&self, role: &str) -> Vec<String> {
        let means = Means { keep: self.mib, ..Means::of(Level::Volatile) };
        let mut arguments = vec!["late-joiner-part".to_owned(), role.to_owned()];
        arguments.push(format!("--size={}", self.size));
        arguments.extend(means.arguments());
        arguments.push(format!("--past={}", self.samples()));
        arguments.push(format!("--read={}", self.read.name()));
        arguments.extend(self.live.map(|rate| format!("--live={rate}")));
        arguments
    }
}

/// What was measured of one newcomer.
#[derive(Clone, Copy, Debug, Serialize)]
struct Round {
    /// Seconds of the bare hauls.
    ring_s: f64,
    copy_s: f64,
    /// From the process's start to its being a participant.
    join_s: f64,
    /// From there to the first sample of the past in the application's hand.
    first_s: f64,
    /// And to the last one.
    last_s: f64,
    /// Live samples a second to the one who is there: before, while the bare hauls went on, and while the newcomer came.
    before: f64,
    beside_ring: f64,
    beside_copy: f64,
    beside_newcomer: f64,
    after: f64,
    /// The longest time, in milliseconds, for which none came while the newcomer did.
    silence_ms: u64,
}

/// A round, before it is known what was live meanwhile.
struct Marks {
    before: (u64, u64),
    ring: Hauled,
    copy: Hauled,
    came: Came,
    after: (u64, u64),
}

/// Runs the rounds.
pub(crate) fn run(args: &LateJoinerArgs, json: bool) -> Done {
    let mut crew = Crew::new(args.limit())?;
    let reader = crew.start("the reader", &args.part("reader"))?;
    let writer = crew.start("the writer", &args.part("writer"))?;
    progress(format_args!("{} samples of {} bytes ...", args.samples(), args.size));
    crew.all_ready()?;
    crew.tell(writer, "GO")?;
    let (mut marks, mut stayed) = (Vec::new(), Vec::new());
    for number in 1..=args.rounds {
        progress(format_args!("newcomer {number} of {} ...", args.rounds));
        let (found, stay) = round(args, &mut crew)?;
        marks.push(found);
        stayed.push(stay);
    }
    crew.tell(writer, "STOP")?;
    let wrote: Wrote = crew.result(writer)?;
    crew.tell(reader, "STOP")?;
    let lived: Lived = crew.result(reader)?;
    crew.dismiss()?;
    let rounds: Vec<Round> = marks.iter().map(|marks| sum_up(marks, &lived)).collect();
    let wrong = lived.wrong + stayed.iter().map(|stay| stay.wrong).sum::<u64>();
    let report = report(args, &rounds, (&wrote, &lived, &stayed), wrong);
    show(json, &report, &text(&report));
    Ok(if wrong == 0 { Outcome::Yes } else { Outcome::No })
}

fn round(args: &LateJoinerArgs, crew: &mut Crew) -> Result<(Marks, Stayed), Failure> {
    let calm = || {
        let start = super::clock::now();
        std::thread::sleep(Duration::from_secs_f64(args.calm));
        (start, super::clock::now())
    };
    let bytes = args.samples() as usize * args.size;
    let before = calm();
    let ring = haul(bytes, true, args.limit())?;
    let copy = haul(bytes, false, args.limit())?;
    calm();
    let newcomer = crew.start("the newcomer", &args.part("newcomer"))?;
    let came: Came = crew.result(newcomer)?;
    let after = calm();
    crew.tell(newcomer, "STOP")?;
    let stayed: Stayed = crew.result(newcomer)?;
    crew.let_go(newcomer)?;
    Ok((Marks { before, ring, copy, came, after }, stayed))
}

fn sum_up(marks: &Marks, lived: &Lived) -> Round {
    let Marks { before, ring, copy, came, after } = marks;
    let secs = |from: u64, to: u64| super::clock::secs(to.saturating_sub(from));
    let during = (came.t_start_ns, came.t_last_ns);
    Round {
        ring_s: ring.seconds(),
        copy_s: copy.seconds(),
        join_s: secs(came.t_start_ns, came.t_joined_ns),
        first_s: secs(came.t_joined_ns, came.t_first_ns),
        last_s: secs(came.t_joined_ns, came.t_last_ns),
        before: lived.rate(*before),
        beside_ring: lived.rate((ring.t_start_ns, ring.t_end_ns)),
        beside_copy: lived.rate((copy.t_start_ns, copy.t_end_ns)),
        beside_newcomer: lived.rate(during),
        after: lived.rate(*after),
        silence_ms: lived.silence(during),
    }
}

fn report(
    args: &LateJoinerArgs,
    rounds: &[Round],
    (wrote, lived, stayed): (&Wrote, &Lived, &[Stayed]),
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

/// The report as people read it.
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
