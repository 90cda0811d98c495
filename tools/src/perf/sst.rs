//! `squall perf sst`: the shared state table on real processes, beside the bare machine.

use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};

use super::baseline::{self, WaitMethod};
use super::machine::{commit, machine, median};
use super::pingpong::OneWayTimes;
use super::process_group::ProcessGroup;
use super::sst_node::{SstMeasurement, SstResult};
use super::throughput::seconds;
use crate::arguments::whole_seconds;
use crate::outcome::{CommandAnswer, CommandResult, Failure, progress, show};

/// Round trips of the bare machine beside counting.
const BARE_ROUNDS: u64 = 200_000;
/// Default sizes of the tables that are evaluated.
const USUAL_ROWS: [u16; 3] = [2, 8, 32];

/// How fast the shared state table is: detection, evaluation, counting in lock step.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    squall perf sst\n  \
    squall perf sst --what count --count 1000000 --json\n  \
    squall perf sst --what evaluate --nodes 16")]
pub(crate) struct SstArgs {
    /// Measurement to run [default: all].
    #[arg(long, value_enum)]
    what: Option<SstMeasurement>,
    /// Rows of the table [default: 2; to evaluate: 2, 8 and 32, one after the other].
    #[arg(long, value_parser = clap::value_parser!(u16).range(2..=64))]
    nodes: Option<u16>,
    /// Rounds to detect [default: 100000], or final count [default: 1000000].
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    count: Option<u64>,
    /// Seconds of evaluating each table.
    #[arg(long, default_value = "1", value_parser = seconds)]
    seconds: f64,
    /// Runs of detection and counting, each alternating with the bare machine's; medians
    /// are reported.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// Seconds after which an unfinished measurement counts as failed.
    #[arg(long, default_value_t = 120, value_parser = whole_seconds())]
    limit: u64,
}

/// Runs the command.
pub(crate) fn run(args: &SstArgs, json: bool) -> CommandResult {
    let mut report = json!({ "machine": machine(), "commit": commit(), "transport": "shm" });
    let wanted = |what| args.what.is_none_or(|only| only == what);
    if args.what == Some(SstMeasurement::Detect) && args.nodes.is_some_and(|nodes| nodes != 2) {
        return Err(Failure::Usage("detection is between two nodes: leave --nodes out".to_owned()));
    }
    if wanted(SstMeasurement::Detect) {
        progress(format_args!("detection ..."));
        report["detect"] = detect(args)?;
    }
    if wanted(SstMeasurement::Evaluate) {
        let rows = args.nodes.map_or(USUAL_ROWS.to_vec(), |nodes| vec![nodes]);
        progress(format_args!("evaluation over {rows:?} rows ..."));
        let tables: Result<Vec<Value>, Failure> =
            rows.into_iter().map(|rows| evaluate(args, rows)).collect();
        report["evaluate"] = tables?.into();
    }
    if wanted(SstMeasurement::Count) {
        progress(format_args!("counting ..."));
        report["count"] = count(args)?;
    }
    show(json, &report, &text(&report))?;
    Ok(CommandAnswer::Yes)
}

/// Starts the processes of a table with the given numbers of nodes, and returns the result of each.
fn table(
    args: &SstArgs,
    what: SstMeasurement,
    hosts: &[u16],
    count: u64,
) -> Result<Vec<SstResult>, Failure> {
    let mut process_group =
        ProcessGroup::new(Duration::from_secs(args.limit) + Duration::from_secs_f64(args.seconds))?;
    let rows: u16 = hosts.iter().sum();
    let mut rank = 0;
    for (index, host) in hosts.iter().enumerate() {
        let arguments = [
            "sst-node".to_owned(),
            what.name().to_owned(),
            format!("--rows={rows}"),
            format!("--rank={rank}"),
            format!("--hosts={host}"),
            format!("--count={count}"),
            format!("--seconds={}", args.seconds),
        ];
        process_group.start(&format!("process {index} of the table"), &arguments)?;
        rank += host;
    }
    process_group.all_ready()?;
    for child in 0..hosts.len() {
        process_group.tell(child, "GO")?;
    }
    let found: Result<Vec<SstResult>, Failure> =
        (0..hosts.len()).map(|child| process_group.result(child)).collect();
    let found = found?;
    process_group.dismiss()?;
    Ok(found)
}

fn unexpected() -> Failure {
    Failure::new("a process of the table measured something else: a defect of this command")
}

fn bare(args: &SstArgs, rounds: u64) -> Result<OneWayTimes, Failure> {
    baseline::latency(None, rounds, WaitMethod::Poll, Duration::from_secs(args.limit))
}

fn detect(args: &SstArgs) -> Result<Value, Failure> {
    let rounds = args.count.unwrap_or(100_000);
    let (mut ours, mut bare) = (Vec::new(), Vec::new());
    for _ in 0..args.runs {
        let found = table(args, SstMeasurement::Detect, &[1, 1], rounds)?;
        let Some(&SstResult::Detected(one_way)) = found.first() else { return Err(unexpected()) };
        ours.push(one_way);
        bare.push(self::bare(args, rounds)?);
    }
    let middle = |runs: &[OneWayTimes]| median(runs.iter().map(|run| run.p50_ns as f64));
    let (p50_ns, bare_ns) = (middle(&ours), middle(&bare));
    Ok(json!({
        "rounds": rounds,
        "p50_ns": p50_ns,
        "runs": ours,
        "baseline": { "p50_ns": bare_ns, "runs": bare },
        "ratio": p50_ns / bare_ns.max(1.0),
    }))
}

fn evaluate(args: &SstArgs, rows: u16) -> Result<Value, Failure> {
    // One process evaluates; the other has all other rows.
    let found = table(args, SstMeasurement::Evaluate, &[1, rows - 1], 0)?;
    let Some(&SstResult::Evaluated { evaluations, nanos }) = found.first() else {
        return Err(unexpected());
    };
    let per_s = evaluations as f64 * 1e9 / nanos.max(1) as f64;
    Ok(json!({ "rows": rows, "evaluations": evaluations, "per_s": per_s }))
}

fn count(args: &SstArgs) -> Result<Value, Failure> {
    let (target, nodes) = (args.count.unwrap_or(1_000_000), args.nodes.unwrap_or(2));
    let (mut steps, mut bare) = (Vec::new(), Vec::new());
    for _ in 0..args.runs {
        let found = table(args, SstMeasurement::Count, &vec![1; usize::from(nodes)], target)?;
        let mut slowest = 1;
        for one in &found {
            let &SstResult::Counted { nanos } = one else { return Err(unexpected()) };
            slowest = slowest.max(nanos);
        }
        steps.push(slowest as f64 / target as f64);
        bare.push(self::bare(args, target.min(BARE_ROUNDS))?);
    }
    let step_ns = median(steps.iter().copied());
    let bare_ns = median(bare.iter().map(|run| run.p50_ns as f64));
    Ok(json!({
        "nodes": nodes,
        "target": target,
        "seconds": step_ns * target as f64 / 1e9,
        "per_s": 1e9 / step_ns,
        "step_ns": step_ns,
        "runs_step_ns": steps,
        "baseline": { "p50_ns": bare_ns, "runs": bare },
        "ratio": step_ns / bare_ns.max(1.0),
    }))
}

fn text(report: &Value) -> String {
    let number = |value: &Value| value.as_f64().unwrap_or(0.0);
    let mut text = String::new();
    if let Some(found) = report.get("detect") {
        text += &format!(
            "detection of the simplest predicate: p50 {:.0} ns one way; bare cache line {:.0} ns: \
             ratio {:.2}\n",
            number(&found["p50_ns"]),
            number(&found["baseline"]["p50_ns"]),
            number(&found["ratio"]),
        );
    }
    for found in report["evaluate"].as_array().into_iter().flatten() {
        text += &format!(
            "a predicate over {} rows: {:.2} million evaluations a second\n",
            found["rows"],
            number(&found["per_s"]) / 1e6,
        );
    }
    if let Some(found) = report.get("count") {
        text += &format!(
            "{} nodes count to {} in lock step in {:.3} s: {:.0} ns a step; bare cache line {:.0} \
             ns: ratio {:.2}\n",
            found["nodes"],
            found["target"],
            number(&found["seconds"]),
            number(&found["step_ns"]),
            number(&found["baseline"]["p50_ns"]),
            number(&found["ratio"]),
        );
    }
    text
}
