//! One process of `squall perf sst`: some nodes of a shared state table over shared memory.
//!
//! Owns: the first node, which is driven by this thread and measures, and further ones that only
//! have rows and drive themselves.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};

use clap::{Args, ValueEnum};
use dds_transport_rdma::shm::{ShmConfig, ShmLink};
use derecho_core::ids::{NodeId, Rank};
use derecho_core::link::Link;
use derecho_core::sst::{FireCondition, Scope, Sst, Strategy, TableRow};
use derecho_node::{Engine, Pace};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use sst_programs::counting::{self, Count};
use sst_programs::detection::{self, Elements, Push};

use super::clock;
use super::control::HarnessControl;
use super::pingpong::OneWayTimes;
use super::subscriber_stats::nanos_histogram;
use crate::outcome::{CommandAnswer, CommandResult, Failure, say};

/// Row of nodes that detect: the smallest possible row.
type SmallestRow = Elements<1>;
type SstEngine<R> = Engine<Sst<R>, ShmLink>;

/// Nanoseconds between two checks whether to leave.
const LOOK: u64 = 20_000_000;
/// Evaluations between two reads of the clock.
const EVALUATIONS_A_LOOK: u32 = 256;

/// Kinds of measurement.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum SstMeasurement {
    /// How soon a node sees a write of another node.
    Detect,
    /// How often a predicate over all rows is evaluated.
    Evaluate,
    /// How fast all nodes count in lock step.
    Count,
}

impl SstMeasurement {
    /// Returns the name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            SstMeasurement::Detect => "detect",
            SstMeasurement::Evaluate => "evaluate",
            SstMeasurement::Count => "count",
        }
    }
}

/// One process of a table.
#[derive(Args, Debug)]
pub(crate) struct SstNodeArgs {
    /// Kind of measurement.
    #[arg(value_enum)]
    what: SstMeasurement,
    /// Rows of the table.
    #[arg(long)]
    rows: usize,
    /// Rank of this process's first node.
    #[arg(long)]
    rank: u16,
    /// Nodes in this process.
    #[arg(long, default_value_t = 1)]
    hosts: u16,
    /// Rounds, or the final count.
    #[arg(long, default_value_t = 1000)]
    count: u64,
    /// Seconds of evaluating.
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
}

/// Result of a process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum SstResult {
    /// The process only had rows.
    Nothing,
    /// Time from one node's push to the other's trigger.
    Detected(OneWayTimes),
    /// Number of evaluated predicates, and the nanoseconds they took.
    Evaluated { evaluations: u64, nanos: u64 },
    /// Nanoseconds of the whole count.
    Counted { nanos: u64 },
}

/// Runs the process.
pub(crate) fn run(args: &SstNodeArgs) -> CommandResult {
    let control = HarnessControl::new(true);
    if !control.ready(Some("GO"))? {
        return Ok(CommandAnswer::Yes);
    }
    match args.what {
        SstMeasurement::Detect if args.rank == 0 => detect(args, &control),
        SstMeasurement::Detect => {
            let engine = join(
                args,
                args.rank,
                SmallestRow::ready(),
                detection::echo(Rank(0), Push::Mark, |_| {}),
            )?;
            finish(&engine, &control, &SstResult::Nothing)
        }
        SstMeasurement::Evaluate if args.rank == 0 => evaluate(args, &control),
        SstMeasurement::Evaluate => {
            let rows: Result<Vec<_>, Failure> = (args.rank..args.rank + args.hosts)
                .map(|rank| join(args, rank, SmallestRow::HELD, |_| {}))
                .collect();
            host(&rows?, &control)
        }
        SstMeasurement::Count => count(args, &control),
    }
}

/// Joins the table with a node of this rank: nodes are ranked by their ids.
fn join<R: TableRow>(
    args: &SstNodeArgs,
    rank: u16,
    initial: R,
    setup: impl FnOnce(&mut Scope<'_, R>) + Send + 'static,
) -> Result<SstEngine<R>, Failure> {
    let fail = |error: &dyn std::fmt::Display| Failure::new(format!("node {rank}: {error}"));
    let mut config = ShmConfig::new("sst");
    config.node = NodeId(u128::from(rank) + 1);
    let mut link = ShmLink::join(config).map_err(|error| fail(&error))?;
    let own =
        link.open(Sst::<R>::region(0), Sst::<R>::REGION_WORDS).map_err(|error| fail(&error))?;
    let parker = link.parker();
    let sst = Sst::new(link.node(), own, args.rows, Strategy::Writes, initial, setup);
    // Only the nodes without a measurement have a thread of their own.
    let alone = args.what == SstMeasurement::Evaluate && rank > 0;
    let start = if alone { Engine::start } else { Engine::without_thread };
    Ok(start(sst, link, parker, Pace::default()))
}

/// Drives until `done`, or until the role must end. Returns whether it is done.
fn drive<R: TableRow>(
    engine: &SstEngine<R>,
    control: &HarnessControl,
    done: impl Fn() -> bool,
) -> bool {
    while !done() {
        if control.ended() {
            return false;
        }
        engine.wait(Some(derecho_node::clock::now().after(LOOK)), &done);
    }
    true
}

/// Reports, and drives for the others until all may leave.
fn finish<R: TableRow>(
    engine: &SstEngine<R>,
    control: &HarnessControl,
    found: &SstResult,
) -> CommandResult {
    tell(found)?;
    while !control.may_leave() {
        engine.wait(Some(derecho_node::clock::now().after(LOOK)), || control.ended());
    }
    engine.stop();
    Ok(CommandAnswer::Yes)
}

/// Reports, and lets the nodes drive themselves until all may leave.
fn host<R: TableRow>(engines: &[SstEngine<R>], control: &HarnessControl) -> CommandResult {
    tell(&SstResult::Nothing)?;
    control.wait_for_exit();
    engines.iter().for_each(Engine::stop);
    Ok(CommandAnswer::Yes)
}

fn tell(found: &SstResult) -> Result<(), Failure> {
    let line = serde_json::to_string(found).map_err(|error| Failure::new(error.to_string()))?;
    say(&line)
}

/// Pushes the next mark whenever the other node has shown the last one.
fn detect(args: &SstNodeArgs, control: &HarnessControl) -> CommandResult {
    let (rounds, warm_up) = (args.count, args.count / 10);
    let (done, times): (_, Receiver<Histogram<u64>>) = channel();
    let mut found = Some((nanos_histogram(), done));
    let finished = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&finished);
    let (mut round, mut last) = (0u64, 0);
    let engine = join(args, 0, SmallestRow::ready(), move |scope| {
        scope.when(
            FireCondition::Always,
            |table| {
                table.get(Rank(1), SmallestRow::mark()) >= table.get(Rank(0), SmallestRow::mark())
            },
            move |scope| {
                let now = clock::now();
                let Some((times, _)) = &mut found else { return };
                if round > warm_up {
                    times.saturating_record((now - last) / 2);
                }
                if round == warm_up + rounds {
                    if let Some((times, done)) = found.take() {
                        // The receiver waits for the message in `detect`.
                        let _ = done.send(times);
                        flag.store(true, Ordering::Release);
                    }
                    return;
                }
                round += 1;
                last = now;
                detection::set_mark(scope, round as i32, Push::Mark);
            },
        );
    })?;
    if !drive(&engine, control, || finished.load(Ordering::Acquire)) {
        return Ok(CommandAnswer::Yes);
    }
    let times = times.try_recv().map_err(|_| Failure::new("no round was measured"))?;
    finish(&engine, control, &SstResult::Detected(OneWayTimes::of(&times)))
}

/// Evaluates a predicate over all rows that holds all the time.
fn evaluate(args: &SstNodeArgs, control: &HarnessControl) -> CommandResult {
    let fired = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&fired);
    let last = args.rows as u16 - 1;
    let setup = detection::spin(0..=last, move || {
        // One thread counts, so a plain load and store are sufficient.
        count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    });
    let engine = join(args, 0, SmallestRow::HELD, setup)?;
    let so_far = || fired.load(Ordering::Relaxed);
    if !drive(&engine, control, || so_far() > 0) {
        return Ok(CommandAnswer::Yes);
    }
    let (before, start) = (so_far(), clock::now());
    let end = start + (args.seconds * 1e9) as u64;
    let (mut calls, mut over) = (0u32, false);
    engine.wait(None, || {
        calls = calls.wrapping_add(1);
        // The predicate is asked again after it has answered, and must repeat its answer.
        if calls.is_multiple_of(EVALUATIONS_A_LOOK) {
            over = clock::now() >= end || control.ended();
        }
        over
    });
    let (evaluations, nanos) = (so_far() - before, clock::now() - start);
    // From here on the node must not be driven, or the evaluation would never end.
    tell(&SstResult::Evaluated { evaluations, nanos })?;
    control.wait_for_exit();
    engine.stop();
    Ok(CommandAnswer::Yes)
}

/// Counts in lock step with all others.
fn count(args: &SstNodeArgs, control: &HarnessControl) -> CommandResult {
    let start = Arc::new(AtomicU64::new(0));
    let end = Arc::new(AtomicU64::new(0));
    let (started, ended) = (Arc::clone(&start), Arc::clone(&end));
    let program =
        counting::setup(args.count, move |_| ended.store(clock::now(), Ordering::Release));
    let engine = join(args, args.rank, Count::ZERO, move |scope| {
        started.store(clock::now(), Ordering::Release);
        program(scope);
    })?;
    if !drive(&engine, control, || end.load(Ordering::Acquire) != 0) {
        return Ok(CommandAnswer::Yes);
    }
    let nanos = end.load(Ordering::Acquire).saturating_sub(start.load(Ordering::Acquire));
    finish(&engine, control, &SstResult::Counted { nanos })
}
