//! `squall perf latency`: ping-pong between two processes, once or alternating with the bare one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};

use super::baseline::{self, WaitMethod};
use super::machine::{commit, machine, median};
use super::payload::form;
use super::pingpong::{OneWayTimes, PingResult, PongResult};
use super::process_group::ProcessGroup;
use super::role::RoleSettings;
use crate::arguments::whole_seconds;
use crate::outcome::{CommandAnswer, CommandResult, Failure, progress, show};

/// Default number of runs of each kind beside a baseline.
const BASELINE_RUNS: u32 = 3;

/// How long a sample takes from one process to another: half of a round trip.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    squall perf latency --size 128 --rounds 100000\n  \
    squall perf latency --size 128 --sleep --baseline --json")]
pub(crate) struct LatencyArgs {
    #[command(flatten)]
    part: RoleSettings,
    /// Round trips that count; a tenth as many come before them.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
    /// Both sides sleep as soon as possible, instead of staying awake for the answer.
    #[arg(long, conflicts_with_all = ["spin", "linger"])]
    sleep: bool,
    /// Threads that keep processors busy during the measurement, like unrelated programs.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=256))]
    load: u32,
    /// Measure a ping-pong through bare rings beside it, alternating.
    #[arg(long)]
    baseline: bool,
    /// Runs; the median of several is reported [default: 1, with --baseline 3].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: Option<u32>,
    /// Seconds after which an unfinished run counts as failed.
    #[arg(long, default_value_t = 120, value_parser = whole_seconds())]
    limit: u64,
}

/// Runs the command.
pub(crate) fn run(args: &LatencyArgs, json: bool) -> CommandResult {
    args.part.means.are_offered()?;
    let runs = args.runs.unwrap_or(if args.baseline { BASELINE_RUNS } else { 1 });
    let limit = Duration::from_secs(args.limit);
    let mut ours = Vec::new();
    let mut bare: [Vec<OneWayTimes>; 2] = [Vec::new(), Vec::new()];
    for number in 1..=runs {
        progress(format_args!("run {number} of {runs} ..."));
        let load = BusyThreads::begin(args.load);
        ours.push(measure(args, limit)?);
        drop(load);
        if args.baseline {
            for (wait, found) in [WaitMethod::Poll, WaitMethod::Sleep].into_iter().zip(&mut bare) {
                found.push(baseline::latency(Some(args.part.size), args.rounds, wait, limit)?);
            }
        }
    }
    let medians: Vec<u64> = ours.iter().map(|(ping, _)| ping.one_way.p50_ns).collect();
    ours.sort_by_key(|(ping, _)| ping.one_way.p50_ns);
    let (ping, pong) = ours.swap_remove(ours.len() / 2);
    let mut report = json!({
        "size": args.part.size,
        "level": args.part.means.level.name(),
        "transport": args.part.means.transport.name(),
        "form": form(args.part.size),
        "rounds": ping.count,
        "sleep": args.sleep,
        "load": args.load,
        "runs_p50_ns": medians,
        "cpu_s": ping.used.cpu_s + pong.used.cpu_s,
        "allocs": ping.used.allocs + pong.used.allocs,
        "ping": ping.used,
        "pong": pong.used,
        "machine": machine(),
        "commit": commit(),
    });
    let one_way =
        serde_json::to_value(ping.one_way).map_err(|error| Failure::new(error.to_string()))?;
    if let (Value::Object(report), Value::Object(one_way)) = (&mut report, one_way) {
        report.extend(one_way);
    }
    if args.baseline {
        let middle = |runs: &[OneWayTimes]| median(runs.iter().map(|run| run.p50_ns as f64));
        let [poll, sleep] = [middle(&bare[0]), middle(&bare[1])];
        report["baseline"] = json!({
            "poll": { "p50_ns": poll, "runs": bare[0] },
            "sleep": { "p50_ns": sleep, "runs": bare[1] },
        });
        let p50 = ping.one_way.p50_ns as f64;
        report["ratio"] = (p50 / poll).into();
        report["ratio_sleep"] = (p50 / sleep).into();
    }
    show(json, &report, &text(&report))?;
    Ok(CommandAnswer::Yes)
}

/// Threads that are busy all the time. They end when this value is dropped.
struct BusyThreads {
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl BusyThreads {
    fn begin(count: u32) -> BusyThreads {
        let is_over = Arc::<AtomicBool>::default();
        let busy = || {
            let is_over = Arc::clone(&is_over);
            move || {
                let mut work = 1_u64;
                while !is_over.load(Ordering::Relaxed) {
                    work = std::hint::black_box(work.wrapping_mul(0x9e37_79b9_7f4a_7c15));
                }
            }
        };
        let threads = (0..count).map(|_| std::thread::spawn(busy())).collect();
        BusyThreads { is_over, threads }
    }
}

impl Drop for BusyThreads {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // The thread does nothing that could fail.
            let _ = thread.join();
        }
    }
}

fn measure(args: &LatencyArgs, limit: Duration) -> Result<(PingResult, PongResult), Failure> {
    let mut process_group = ProcessGroup::new(limit)?;
    let arguments = |role: &str| {
        let mut arguments = vec![role.to_owned(), format!("--size={}", args.part.size)];
        arguments.extend(args.part.means.arguments());
        arguments.push(format!("--count={}", args.rounds));
        if args.sleep {
            arguments.extend(["--spin=0".to_owned(), "--linger=0".to_owned()]);
        }
        arguments.push("--harness".to_owned());
        arguments
    };
    let pong = process_group.start("pong", &arguments("pong"))?;
    let ping = process_group.start("ping", &arguments("ping"))?;
    process_group.all_ready()?;
    process_group.tell(ping, "GO")?;
    let found = (process_group.result(ping)?, process_group.result(pong)?);
    process_group.dismiss()?;
    Ok(found)
}

fn text(report: &Value) -> String {
    let micros = |value: &Value| value.as_f64().unwrap_or(0.0) / 1e3;
    let mut text = format!(
        "{} bytes ({}), {}, over {}, {} rounds{}{}: one way in microseconds\n  ",
        report["size"],
        report["form"].as_str().unwrap_or("?"),
        report["level"].as_str().unwrap_or("?"),
        report["transport"].as_str().unwrap_or("?"),
        report["rounds"],
        if report["sleep"] == true { ", sleeping" } else { "" },
        if report["load"] == 0 {
            String::new()
        } else {
            format!(", {} busy threads beside", report["load"])
        },
    );
    for (label, field) in [
        ("p50", "p50_ns"),
        ("p90", "p90_ns"),
        ("p99", "p99_ns"),
        ("p99.9", "p999_ns"),
        ("p99.99", "p9999_ns"),
        ("max", "max_ns"),
    ] {
        text += &format!("{label} {:.2}  ", micros(&report[field]));
    }
    if !report["baseline"].is_null() {
        for (label, wait, ratio) in
            [("polling", "poll", "ratio"), ("sleeping", "sleep", "ratio_sleep")]
        {
            text += &format!(
                "\n  bare ring, {label}: p50 {:.2}, ratio {:.2}",
                micros(&report["baseline"][wait]["p50_ns"]),
                report[ratio].as_f64().unwrap_or(0.0),
            );
        }
    }
    text
}
