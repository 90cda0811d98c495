//! `squall sim run` and `squall sim replay`: random runs of whole groups under faults, with
//! all checkers.
//!
//! Owns: the choice of runs, and the report of their results. Never does: judge one.

use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use derecho_lives::{Coverage, Faults, GroupKind, LifePlan, LifeReport, ViewChangeStep, live};
use serde_json::{Value, json};

use crate::outcome::{CommandAnswer, CommandResult, progress, show};

/// Allowed numbers of nodes; more nodes only make a run slower.
const NODES: std::ops::RangeInclusive<usize> = 1..=16;

/// Maximum number of violations that are shown; the others are counted.
const TOLD: usize = 20;

/// Run random histories of whole groups under faults, and check all deliveries.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    squall sim run --seeds 0..1000\n  \
    squall sim run --group local --faults crash,pause --nodes 4\n  \
    squall sim run --aimed                        faults at every step of view changes\n  \
    squall sim run --minutes 30                   one seed after the other, for half an hour\n\n\
    A seed with the same options repeats the same run, word by word. Exit code 1 if any\n\
    rule was broken; each violation names the command that shows it step by step.")]
pub(crate) struct RunArgs {
    /// Range of seeds, without the second one.
    #[arg(long, value_name = "A..B", default_value = "0..200", value_parser = seeds)]
    seeds: (u64, u64),
    #[command(flatten)]
    life: LifeArgs,
    /// Continue after the last seed until this many minutes have passed.
    #[arg(long, value_name = "M", value_parser = minutes)]
    minutes: Option<f64>,
}

/// Repeat one of these runs, and show it step by step.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  squall sim replay --seed 84 --group local --faults crash")]
pub(crate) struct ReplayArgs {
    /// Seed of the run.
    #[arg(long, value_name = "N")]
    seed: u64,
    #[command(flatten)]
    life: LifeArgs,
}

#[derive(Args, Debug)]
struct LifeArgs {
    /// Number of nodes at the beginning, from 1 to 16.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = nodes)]
    nodes: usize,
    /// Kind of group.
    #[arg(long, value_enum, default_value_t = GroupChoice::All)]
    group: GroupChoice,
    /// Faults: crash, restart, partition, one-way, pause, slow-node, slow-link, delay, skew, stop,
    /// separated by commas; all; none.
    #[arg(long, value_name = "LIST", default_value = "all")]
    faults: Faults,
    /// View changes follow each other, and faults are aimed at their steps.
    #[arg(long)]
    aimed: bool,
    /// Readers become writers, and writers become readers only, all the time.
    #[arg(long)]
    toggles: bool,
    /// Faults do not spare a networked group: most of these groups are lost, and little is left
    /// to judge.
    #[arg(long)]
    wild: bool,
}

/// Kinds of groups.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Debug)]
enum GroupChoice {
    /// On one host over memory that the nodes share: any survivors continue.
    Shared,
    /// On one host over memory that is copied: any survivors continue.
    Local,
    /// On several hosts: only a primary partition continues.
    Network,
    /// All kinds, one after the other.
    All,
}

impl GroupChoice {
    fn kinds(self) -> &'static [GroupKind] {
        match self {
            GroupChoice::Shared => &[GroupKind::Shared],
            GroupChoice::Local => &[GroupKind::Local],
            GroupChoice::Network => &[GroupKind::Network],
            GroupChoice::All => &[GroupKind::Shared, GroupKind::Local, GroupKind::Network],
        }
    }
}

fn seeds(text: &str) -> Result<(u64, u64), String> {
    let (from, to) = text.split_once("..").ok_or("seeds are given as A..B, such as 0..200")?;
    let number = |text: &str| text.parse().map_err(|_| format!("`{text}` is no seed"));
    let (from, to) = (number(from)?, number(to)?);
    if from < to { Ok((from, to)) } else { Err(format!("there is no seed from {from} to {to}")) }
}

fn nodes(text: &str) -> Result<usize, String> {
    let nodes = text.parse().ok().filter(|nodes| NODES.contains(nodes));
    nodes.ok_or_else(|| format!("a run begins with {} to {} nodes", NODES.start(), NODES.end()))
}

fn minutes(text: &str) -> Result<f64, String> {
    let minutes = text.parse().ok().filter(|minutes: &f64| *minutes > 0.0 && *minutes <= 1e6);
    minutes.ok_or_else(|| format!("`{text}` is no number of minutes"))
}

impl LifeArgs {
    fn plans(&self, seed: u64) -> impl Iterator<Item = LifePlan> {
        let LifeArgs { nodes, faults, aimed, toggles, wild, .. } = *self;
        let kinds = self.group.kinds().iter();
        kinds.map(move |kind| LifePlan {
            nodes,
            faults,
            aimed,
            toggles,
            wild,
            ..LifePlan::new(seed, *kind)
        })
    }
}

/// Runs the histories of some seeds.
pub(crate) fn run(args: &RunArgs, json: bool) -> CommandResult {
    let begun = Instant::now();
    let most = args.minutes.map(|minutes| Duration::from_secs_f64(minutes * 60.0));
    let (first, end) = args.seeds;
    let (mut sum, mut told) = (LifeReport::default(), Vec::new());
    let mut seed = first;
    while most.map_or(seed < end, |most| begun.elapsed() < most) {
        for plan in args.life.plans(seed) {
            let account = live(plan, false);
            if let Some(what) = account.violations.first() {
                told.push(violation(&plan, what));
            }
            sum += &account;
        }
        seed += 1;
        if (seed - first).is_multiple_of(100) {
            progress(format_args!("{} seeds, {} violations ...", seed - first, told.len()));
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    let report = report(&sum, seed - first, &told, seconds);
    let text = text(&sum, seed - first, &told, seconds);
    show(json, &report, &text)?;
    Ok(if told.is_empty() { CommandAnswer::Yes } else { CommandAnswer::No })
}

/// Repeats one run, and shows it.
pub(crate) fn replay(args: &ReplayArgs, json: bool) -> CommandResult {
    let (mut sum, mut violations, mut text) = (LifeReport::default(), Vec::new(), String::new());
    for plan in args.life.plans(args.seed) {
        let account = live(plan, true);
        text += &format!("squall sim replay {plan}\n\n");
        for line in &account.journal {
            text += &format!("{line}\n");
        }
        text += &format!(
            "\n{} views, {} messages, {} crashes, trace {:016x}: {}\n\n",
            account.view_changes,
            account.messages,
            account.crashes,
            account.hash,
            if account.violations.is_empty() { "all rules hold" } else { "RULES ARE BROKEN" },
        );
        violations.extend(account.violations.iter().map(|what| violation(&plan, what)));
        sum += &account;
    }
    let mut report = report(&sum, 1, &violations, 0.0);
    report["trace"] = json!(format!("{:016x}", sum.hash));
    report["steps"] = json!(sum.journal);
    show(json, &report, &text)?;
    Ok(if violations.is_empty() { CommandAnswer::Yes } else { CommandAnswer::No })
}

fn violation(plan: &LifePlan, what: &str) -> Value {
    json!({ "seed": plan.seed, "what": what, "replay": format!("squall sim replay {plan}") })
}

fn report(sum: &LifeReport, seeds: u64, violations: &[Value], seconds: f64) -> Value {
    json!({
        "seeds": seeds,
        "events": sum.events,
        "messages": sum.messages,
        "deliveries": sum.deliveries,
        "view_changes": sum.view_changes,
        "crashes": sum.crashes,
        "partitions": sum.partitions,
        "restarts": sum.restarts,
        "pauses": sum.pauses,
        "stops": sum.stops,
        "lives": sum.lives,
        "judged": sum.judged,
        "judged_without": sum.judged_without,
        "looked_for": sum.looked_for,
        "deliveries_per_message": sum.deliveries_per_message(),
        "evictions": sum.evictions,
        "lost": sum.lost,
        "coverage": coverage(&sum.coverage),
        "violations": violations.len(),
        "found": violations,
        "seconds": seconds,
    })
}

fn coverage(coverage: &Coverage) -> Value {
    let by_step = |counts: &[u64; 6]| -> Value {
        ViewChangeStep::ALL
            .iter()
            .zip(counts)
            .map(|(step, count)| (step.name().into(), json!(count)))
            .collect::<serde_json::Map<_, _>>()
            .into()
    };
    json!({
        "crashes": by_step(&coverage.crashes),
        "leader_crashes": by_step(&coverage.leader_crashes),
        "pauses": by_step(&coverage.pauses),
        "resumes": by_step(&coverage.resumes),
        "overslept": coverage.overslept,
        "layouts_met": coverage.layouts_met,
        "transfers_cut": coverage.transfers_cut,
    })
}

fn text(sum: &LifeReport, seeds: u64, violations: &[Value], seconds: f64) -> String {
    let mut text = format!(
        "{seeds} seeds in {seconds:.1} s: {} events, {} messages, {} view changes\n\
         {} crashes, {} restarts, {} partitions, {} pauses; {} nodes fell out, {} groups were lost as they may be\n\
         {} of {} lives ended with a group to judge, {} of them also while some of {} stopped nodes stood still; \
         {} messages were looked for at their readers at these ends; {:.2} deliveries per message\n\n",
        sum.events,
        sum.messages,
        sum.view_changes,
        sum.crashes,
        sum.restarts,
        sum.partitions,
        sum.pauses,
        sum.evictions,
        sum.lost,
        sum.judged,
        sum.lives,
        sum.judged_without,
        sum.stops,
        sum.looked_for,
        sum.deliveries_per_message(),
    );
    text += "at the step    crashes  of leaders   pauses  resumes\n";
    let Coverage { crashes, leader_crashes, pauses, resumes, .. } = sum.coverage;
    for (index, step) in ViewChangeStep::ALL.iter().enumerate() {
        let (all, leaders) = (crashes[index], leader_crashes[index]);
        let (pauses, resumes) = (pauses[index], resumes[index]);
        text += &format!("{:<12} {all:>9} {leaders:>11} {pauses:>8} {resumes:>8}\n", step.name());
    }
    let Coverage { overslept, layouts_met, transfers_cut, .. } = sum.coverage;
    text += &format!(
        "decisions that a stopped node missed: {overslept}; changes of layout that met a view \
         change: {layouts_met}; state transfers cut short: {transfers_cut}\n\n"
    );
    for found in violations.iter().take(TOLD) {
        let what = found["what"].as_str().unwrap_or_default();
        let line = what.lines().next().unwrap_or_default();
        text += &format!("VIOLATION, seed {}: {line}\n", found["seed"]);
        text += &format!("  {}\n", found["replay"].as_str().unwrap_or_default());
    }
    if violations.len() > TOLD {
        text += &format!("and {} more\n", violations.len() - TOLD);
    }
    text += match violations.is_empty() {
        true => "no rule was broken",
        false => "rules were broken",
    };
    text
}
