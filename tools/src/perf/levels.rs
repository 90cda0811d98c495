//! `squall perf levels`: the four levels of delivery side by side, as in figure 18 of the
//! Spindle paper.
//!
//! Owns: the choice of levels and settings, and the evaluation of the rates. Never does: measure
//! anything itself; each number is a run of `squall perf throughput`.

use std::path::PathBuf;

use clap::Args;
use derecho_figures::{Costs, Figure, Options};
use serde::Serialize;
use serde_json::json;

use super::machine::{commit, machine, median};
use super::payload::ReadExtent;
use super::role::{DeliverySettings, PerfLevel, USUAL_KEEP, sample_size};
use super::throughput::{ThroughputArgs, measure, seconds, short};
use crate::outcome::{CommandAnswer, CommandResult, Failure, progress, show};

/// Figure for comparison.
const FIGURE: &str = "spindle-18";
/// All levels, the weakest first, with their names in the figure.
const LEVELS: [(PerfLevel, &str); 4] = [
    (PerfLevel::Unordered, "unordered"),
    (PerfLevel::Atomic, "atomic"),
    (PerfLevel::Kept, "volatile storage"),
    (PerfLevel::Logged, "logged storage"),
];

/// The four levels of delivery side by side: one publisher, and an increasing number of
/// subscribers, each in a process of its own, with and without all optimisations.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    squall perf levels --subs 3 --logs /var/tmp\n  \
    squall perf levels --size 128 --subs 1 --seconds 0.5 --runs 5 --json\n  \
    squall perf levels --subs 3 --figure")]
pub(crate) struct LevelsArgs {
    /// Bytes of a sample.
    #[arg(long, value_name = "BYTES", default_value_t = 10240, value_parser = sample_size)]
    size: usize,
    /// Maximum number of subscribers; all numbers from one are measured.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=32))]
    subs: u32,
    /// Seconds that the publisher writes in each run.
    #[arg(long, default_value_t = 0.5, value_parser = seconds)]
    seconds: f64,
    /// Runs of each kind, alternating; the median counts.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// MiB of samples that every member keeps in memory at levels kept and logged.
    #[arg(long, value_name = "MIB", default_value_t = USUAL_KEEP, value_parser = clap::value_parser!(u32).range(1..=16384))]
    keep: u32,
    /// Folder for the logs of members, on the disk to be measured [default: the folder for
    /// temporary files].
    #[arg(long, value_name = "DIR")]
    logs: Option<PathBuf>,
    /// Bytes that subscribers check.
    #[arg(long, value_enum, default_value_t = ReadExtent::Whole)]
    read: ReadExtent,
    /// Show the result of `squall sim figure spindle-18` beside it, with the prices of
    /// this product.
    #[arg(long)]
    figure: bool,
}

/// Variants of a level: with all optimisations, or without those that can be switched off.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum LevelVariant {
    Everything,
    Baseline,
}

impl LevelVariant {
    fn name(self) -> &'static str {
        match self {
            LevelVariant::Everything => "everything",
            LevelVariant::Baseline => "baseline",
        }
    }
}

/// A level with a number of subscribers.
#[derive(Clone, PartialEq, Debug, Serialize)]
struct LevelRow {
    subs: u32,
    level: &'static str,
    /// Messages per second to each subscriber; nothing can be switched off for an unordered topic.
    everything: f64,
    baseline: Option<f64>,
    /// Ratio of `everything` to `baseline`.
    gain: Option<f64>,
    /// Ratio of `everything` to that of the atomic level with as many subscribers.
    of_atomic: f64,
    /// The ratios `gain` and `of_atomic` of the figure.
    #[serde(skip_serializing_if = "Option::is_none")]
    figure_gain: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    figure_of_atomic: Option<f64>,
}

/// A combination to measure, and its rates so far.
struct LevelCell {
    subs: u32,
    level: PerfLevel,
    stage: LevelVariant,
    rates: Vec<f64>,
}

/// Runs the command.
pub(crate) fn run(args: &LevelsArgs, json: bool) -> CommandResult {
    let figure = if args.figure { Some(simulated()?) } else { None };
    let mut cells = cells(args.subs);
    let mut clean = true;
    for round in 1..=args.runs {
        for cell in &mut cells {
            let (name, stage) = (cell.level.name(), cell.stage.name());
            let found = measure(&settings_of(args, cell))?;
            clean &= found.is_clean(cell.level);
            let rate = short(found.msgs_per_s);
            progress(format_args!("{round}: {} of {name}, {stage}: {rate}/s", cell.subs));
            cell.rates.push(found.msgs_per_s);
        }
    }
    let rows = rows(&cells, figure.as_ref());
    let runs = cells.iter().map(|cell| {
        json!({ "subs": cell.subs, "level": cell.level.name(), "stage": cell.stage.name(), "msgs_per_s": cell.rates })
    });
    let report = json!({
        "size": args.size,
        "seconds": args.seconds,
        "keep_mib": args.keep,
        "logs": args.logs(),
        "rows": rows,
        "runs": runs.collect::<Vec<_>>(),
        "clean": clean,
        "machine": machine(),
        "commit": commit(),
    });
    show(json, &report, &text(args, &rows))?;
    Ok(if clean { CommandAnswer::Yes } else { CommandAnswer::No })
}

impl LevelsArgs {
    fn logs(&self) -> PathBuf {
        self.logs.clone().unwrap_or_else(std::env::temp_dir)
    }
}

/// Returns all combinations in the order in which they alternate.
fn cells(most: u32) -> Vec<LevelCell> {
    let mut cells = Vec::new();
    for subs in 1..=most {
        for (level, _) in LEVELS {
            let stages = [LevelVariant::Everything, LevelVariant::Baseline];
            let stages = stages.into_iter().filter(|&stage| can_be(level, stage));
            cells.extend(stages.map(|stage| LevelCell { subs, level, stage, rates: Vec::new() }));
        }
    }
    cells
}

fn can_be(level: PerfLevel, stage: LevelVariant) -> bool {
    stage == LevelVariant::Everything || level.is_ordered()
}

/// Returns the run of `squall perf throughput` for a combination.
fn settings_of(args: &LevelsArgs, cell: &LevelCell) -> ThroughputArgs {
    let mut delivery = DeliverySettings::of(cell.level);
    delivery.keep = args.keep;
    delivery.logs = (cell.level == PerfLevel::Logged).then(|| args.logs());
    if cell.stage == LevelVariant::Baseline {
        delivery.ablate = vec!["all".to_owned()];
    }
    ThroughputArgs::one_to(cell.subs, args.size, delivery, args.seconds, args.read)
}

fn simulated() -> Result<Figure, Failure> {
    progress(format_args!("{FIGURE} ..."));
    let options = Options { costs: Costs::Ours, ..Options::default() };
    derecho_figures::run(FIGURE, &options).map_err(|error| Failure::new(error.to_string()))
}

fn rows(cells: &[LevelCell], figure: Option<&Figure>) -> Vec<LevelRow> {
    let rate = |subs: u32, level: PerfLevel, stage: LevelVariant| {
        let of = |cell: &&LevelCell| (cell.subs, cell.level, cell.stage) == (subs, level, stage);
        cells.iter().find(of).map(|cell| median(cell.rates.iter().copied()))
    };
    let drawn = |subs: u32, level: &str, stage: LevelVariant| {
        let name = format!("{}, {level}", stage.name());
        figure?.line(&name)?.at(f64::from(subs))
    };
    let over = |a: Option<f64>, b: Option<f64>| Some(a? / b?);
    let of = |subs| {
        LEVELS.into_iter().filter_map(move |(level, name)| {
            let everything = rate(subs, level, LevelVariant::Everything)?;
            let baseline = rate(subs, level, LevelVariant::Baseline);
            let figure = drawn(subs, name, LevelVariant::Everything);
            Some(LevelRow {
                subs,
                level: level.name(),
                everything,
                baseline,
                gain: over(Some(everything), baseline),
                of_atomic: over(
                    Some(everything),
                    rate(subs, PerfLevel::Atomic, LevelVariant::Everything),
                )?,
                figure_gain: over(figure, drawn(subs, name, LevelVariant::Baseline)),
                figure_of_atomic: over(figure, drawn(subs, "atomic", LevelVariant::Everything)),
            })
        })
    };
    let most = cells.iter().map(|cell| cell.subs).max().unwrap_or(0);
    (1..=most).flat_map(of).collect()
}

/// Returns the rows as text.
fn text(args: &LevelsArgs, rows: &[LevelRow]) -> String {
    let mut text = format!(
        "{} bytes, one publisher, messages/s to each subscriber, medians of {}; logs in {}\n  \
         {:>4}  {:<10} {:>15} {:>15} {:>6} {:>10}{}\n",
        args.size,
        args.runs,
        args.logs().display(),
        "subs",
        "level",
        "everything",
        "baseline",
        "gain",
        "of atomic",
        if args.figure { format!("    {FIGURE}: gain, of atomic") } else { String::new() },
    );
    let number = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.2}"));
    for row in rows {
        text += &format!(
            "  {:>4}  {:<10} {:>15} {:>15} {:>6} {:>10.2}",
            row.subs,
            row.level,
            short(row.everything),
            row.baseline.map_or("-".to_owned(), short),
            number(row.gain),
            row.of_atomic,
        );
        if args.figure {
            let (gain, share) = (number(row.figure_gain), number(row.figure_of_atomic));
            text += &format!("    {gain:>16} {share:>10}");
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use derecho_figures::Series;

    use super::*;

    /// Returns example rates: half as much for the second number of subscribers.
    fn measured() -> Vec<LevelCell> {
        let mut cells = cells(2);
        for cell in &mut cells {
            let rate = match (cell.level, cell.stage) {
                (PerfLevel::Unordered | PerfLevel::Atomic, LevelVariant::Everything) => 100.0,
                (PerfLevel::Kept, LevelVariant::Everything) => 60.0,
                (PerfLevel::Logged, LevelVariant::Everything) => 20.0,
                (_, LevelVariant::Baseline) => 10.0,
            };
            cell.rates =
                [3.0, 1.0, 0.5].map(|factor| factor * rate / f64::from(cell.subs)).to_vec();
        }
        cells
    }

    #[test]
    fn rows_compare_each_level_with_baseline_and_with_atomic() {
        let rows = rows(&measured(), None);
        let shares: Vec<_> = rows.iter().map(|row| (row.subs, row.level, row.of_atomic)).collect();
        let one = [("unordered", 1.0), ("atomic", 1.0), ("kept", 0.6), ("logged", 0.2)];
        let all = |subs| one.map(|(level, share)| (subs, level, share));
        assert_eq!(shares, [all(1), all(2)].concat());
        assert_eq!((rows[0].baseline, rows[0].gain), (None, None));
        assert_eq!((rows[6].everything, rows[6].gain), (30.0, Some(6.0)));
    }

    #[test]
    fn figure_values_are_read_by_level_stage_and_subscribers() {
        let mut figure = Figure::new(FIGURE, "", "", "");
        for (name, at_one) in [
            ("everything, atomic", 8.0),
            ("everything, volatile storage", 4.0),
            ("baseline, volatile storage", 2.0),
        ] {
            let mut line = Series::new(name);
            line.push(1.0, at_one);
            figure.series.push(line);
        }
        let rows = rows(&measured(), Some(&figure));
        let of = |index: usize| (rows[index].figure_gain, rows[index].figure_of_atomic);
        assert_eq!(of(2), (Some(2.0), Some(0.5)));
        // The figure has no such point.
        assert_eq!((of(3), of(6)), ((None, None), (None, None)));
    }
}
