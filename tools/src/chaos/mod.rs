//! `squall chaos`: processes of one domain under faults, and a judgement of their deliveries.
//!
//! Owns: the command line, the sequence of cycles and the summary. Never does: faults ([`cycle`])
//! or checks ([`checks`]).
//!
//! ```text
//!   seed --> Schedule --> Cycle: starts members, applies each step, closes the domain
//!                           |
//!             members (`squall chaos-member`) write journals: deliveries with their times
//!                           |
//!                         checks: order, agreement, gaps, duplicates, progress
//! ```

mod checks;
mod cycle;
mod evidence;
mod journal;
pub(crate) mod member;
mod member_tasks;
mod process;
mod sample;
mod schedule;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use serde_json::json;

use crate::arguments;
use crate::end_signals::EndSignals;
use crate::outcome::{CommandAnswer, CommandResult, Failure, progress, show, tell};
use checks::CycleResult;
use cycle::{Cycle, CycleEnd};
use sample::FeignedViolation;
use schedule::{Action, Schedule};

/// Run processes of one domain under faults, and check their deliveries.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  squall chaos --seed 7 --duration 300 --processes 5\n\n\
    A run consists of cycles. Each cycle is a domain of its own with a schedule of its own: the first cycle has the \
    given seed, the next one the seed that follows. A violation names the seed of its cycle, and `--seed SEED \
    --duration CYCLE` repeats the schedule. Nothing is left in /dev/shm, in the temporary folder or running.")]
pub(crate) struct ChaosArgs {
    /// Seed of the first cycle.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Seconds in which new cycles are started.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = arguments::whole_seconds())]
    duration: u64,
    /// Seconds of faults in each cycle.
    #[arg(long, value_name = "SECONDS", default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=3600))]
    cycle: u64,
    /// Maximum number of processes that are alive at the same time.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(2..=32))]
    processes: u16,
    /// Actions of the schedule; `all` selects all of them.
    #[arg(long, value_name = "ACTION", value_delimiter = ',', default_values_t = Action::DEFAULT.map(Choice::Only))]
    actions: Vec<Choice>,
    /// Mean time between two actions, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 150, value_parser = clap::value_parser!(u64).range(1..=60_000))]
    every: u64,
    /// `member_timeout` of all participants, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(10..=60_000))]
    member_timeout: u64,
    /// Time beyond `member_timeout` within which writers and readers must make progress after a
    /// fault, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 3000, value_parser = clap::value_parser!(u64).range(1..=600_000))]
    margin: u64,
    /// Violation that one member feigns, to test the checks.
    #[arg(long, hide = true)]
    plant: Option<FeignedViolation>,
}

/// One action, or all of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Choice {
    All,
    Only(Action),
}

impl ValueEnum for Choice {
    fn value_variants<'a>() -> &'a [Choice] {
        const ALL: [Choice; Action::ALL.len() + 1] = {
            let mut all = [Choice::All; Action::ALL.len() + 1];
            let mut at = 0;
            while at < Action::ALL.len() {
                all[at + 1] = Choice::Only(Action::ALL[at]);
                at += 1;
            }
            all
        };
        &ALL
    }

    fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
        Some(match self {
            Choice::All => clap::builder::PossibleValue::new("all").help("All actions"),
            Choice::Only(action) => {
                clap::builder::PossibleValue::new(action.name()).help(action.meaning())
            }
        })
    }
}

impl std::fmt::Display for Choice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Choice::All => "all",
            Choice::Only(action) => action.name(),
        })
    }
}

/// Settings of each cycle.
pub(crate) struct Settings {
    pub(crate) processes: usize,
    pub(crate) length: Duration,
    pub(crate) every: Duration,
    pub(crate) actions: Vec<Action>,
    pub(crate) member_timeout: Duration,
    /// Bound of recovery: the member timeout and the margin.
    pub(crate) limit: Duration,
    pub(crate) plant: Option<FeignedViolation>,
}

/// Sums over all cycles.
#[derive(Default)]
struct Totals {
    cycles: u64,
    actions: u64,
    deliveries: u64,
    readers: u64,
    writers: u64,
    /// Nanoseconds from each fault to the next delivery at each healthy reader of an ordered topic.
    recovery: BTreeMap<&'static str, Vec<u64>>,
}

impl Totals {
    fn add(&mut self, actions: usize, result: &mut CycleResult) {
        self.cycles += 1;
        self.actions += actions as u64;
        self.deliveries += result.deliveries;
        self.readers += result.readers;
        self.writers += result.writers;
        for (fault, times) in &mut result.recovery {
            self.recovery.entry(fault).or_default().append(times);
        }
    }

    fn text(&self) -> String {
        let mut text = format!(
            "{} cycles, {} actions, {} readers, {} writers, {} deliveries\n",
            self.cycles, self.actions, self.readers, self.writers, self.deliveries
        );
        text.push_str("from an action to the next delivered sample, in ms:\n");
        text.push_str("  action      readers       p50       p99       max\n");
        for (fault, times) in &self.recovery {
            let [p50, p99, max] = percentiles(times);
            let count = times.len();
            text.push_str(&format!("  {fault:<10} {count:>8} {p50:>9.2} {p99:>9.2} {max:>9.2}\n"));
        }
        text
    }

    fn json(&self) -> serde_json::Value {
        let recovery = self.recovery.iter().map(|(fault, times)| {
            let [p50, p99, max] = percentiles(times);
            let value =
                json!({ "readers": times.len(), "p50_ms": p50, "p99_ms": p99, "max_ms": max });
            ((*fault).to_owned(), value)
        });
        json!({
            "cycles": self.cycles, "actions": self.actions, "deliveries": self.deliveries,
            "readers": self.readers, "writers": self.writers,
            "recovery": recovery.collect::<serde_json::Map<_, _>>(),
        })
    }
}

/// Median, 99th percentile and maximum, in milliseconds.
fn percentiles(times: &[u64]) -> [f64; 3] {
    let mut times = times.to_vec();
    times.sort_unstable();
    let at = |share: f64| {
        let index = (times.len().saturating_sub(1) as f64 * share).round() as usize;
        times.get(index).map_or(0.0, |nanos| *nanos as f64 / 1e6)
    };
    [at(0.5), at(0.99), at(1.0)]
}

/// Runs the command.
pub(crate) fn run(args: &ChaosArgs, json: bool) -> CommandResult {
    let end_signals = EndSignals::new()?;
    let settings = settings(args);
    let end = Instant::now() + Duration::from_secs(args.duration);
    let mut totals = Totals::default();
    let mut violations = Vec::new();
    let mut seed = args.seed;
    while (totals.cycles == 0 || Instant::now() < end)
        && violations.is_empty()
        && !end_signals.are_there()
    {
        let schedule = Schedule::of_seed(seed, &settings);
        progress(format_args!(
            "cycle {}: seed {seed}, {} actions",
            totals.cycles,
            schedule.steps.len()
        ));
        match Cycle::run(&settings, &schedule, &end_signals)? {
            CycleEnd::Interrupted => break,
            CycleEnd::Judged(mut result) => {
                totals.add(schedule.steps.len(), &mut result);
                violations = result.violations;
            }
        }
        if violations.is_empty() {
            seed += 1;
        }
    }
    let mut value = totals.json();
    value["seed"] = seed.into();
    value["violations"] = violations.clone().into();
    value["interrupted"] = end_signals.are_there().into();
    show(json, &value, &totals.text())?;
    if violations.is_empty() && end_signals.are_there() {
        return Err(Failure::new("interrupted before the end; the cycles before are judged"));
    }
    if violations.is_empty() {
        return Ok(CommandAnswer::Yes);
    }
    for violation in &violations {
        tell(format_args!("squall: violation with seed {seed}: {violation}"));
    }
    tell(format_args!("squall: the same schedule again: {}", repetition(args, seed)));
    Ok(CommandAnswer::No)
}

fn settings(args: &ChaosArgs) -> Settings {
    let mut actions: Vec<Action> = Vec::new();
    for choice in &args.actions {
        match choice {
            Choice::All => actions.extend(Action::ALL),
            Choice::Only(action) => actions.push(*action),
        }
    }
    actions.sort_unstable();
    actions.dedup();
    let member_timeout = Duration::from_millis(args.member_timeout);
    Settings {
        processes: usize::from(args.processes),
        length: Duration::from_secs(args.cycle.min(args.duration)),
        every: Duration::from_millis(args.every),
        actions,
        member_timeout,
        limit: member_timeout + Duration::from_millis(args.margin),
        plant: args.plant,
    }
}

/// Returns the command line that repeats a cycle.
fn repetition(args: &ChaosArgs, seed: u64) -> String {
    let length = args.cycle.min(args.duration);
    let actions: Vec<String> = args.actions.iter().map(Choice::to_string).collect();
    format!(
        "squall chaos --seed {seed} --duration {length} --cycle {length} --processes {} --every {} \
         --member-timeout {} --margin {} --actions {}",
        args.processes,
        args.every,
        args.member_timeout,
        args.margin,
        actions.join(",")
    )
}
