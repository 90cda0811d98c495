//! `squall perf summary`: the figures of one build for samples of several sizes, beside bare rings
//! and the interface of the core.
//!
//! Owns: what is measured in turn, and its tables. Never does: compare figures of different rounds;
//! the host changes the speed and the distance of its processors within minutes.

use std::path::Path;

use clap::Args;
use serde_json::{Value, json};

use super::machine::{commit, machine, quartiles};
use super::report::{arguments, measure, this_command};
use crate::outcome::{CommandAnswer, CommandResult, Failure, progress, show};

/// Rounds of a measurement without `--rounds`.
const USUAL_ROUNDS: u32 = 9;
/// Seconds of writing of one run without `--seconds`.
const USUAL_SECONDS: f64 = 0.3;
/// Sizes of samples in bytes, each with a number of readers.
const RATES: [(u32, u32); 8] =
    [(16, 1), (128, 1), (1024, 1), (10_240, 1), (1_048_576, 1), (16, 3), (128, 3), (10_240, 3)];

/// Throughput and latency at several sizes beside bare rings and the interface of the core, all in
/// turn, as tables.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  \
    squall perf summary --rounds 9 > summary.md\n\n\
    Each figure is the median of all rounds with its quartiles. A ratio is the median of the ratios\n\
    within each round, because the speed of the machine differs from round to round.")]
pub(crate) struct SummaryArgs {
    /// Rounds; each round runs every case once.
    #[arg(long, default_value_t = USUAL_ROUNDS, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Seconds of writing of one run.
    #[arg(long, default_value_t = USUAL_SECONDS, value_parser = super::throughput::seconds)]
    seconds: f64,
}

/// One measured figure: the columns of a table for one row, each with its command.
struct SummaryTable {
    title: &'static str,
    /// Unit of the figures, and how many of a report's units it is.
    unit: (&'static str, f64),
    columns: Vec<&'static str>,
    rows: Vec<SummaryRow>,
    /// Ratios to show: title, numerator and denominator by column.
    ratios: Vec<(&'static str, usize, usize)>,
}

struct SummaryRow {
    name: String,
    /// Measurements of one round, by column.
    runs: Vec<SummaryRun>,
    /// Figures by column, each with one value a round.
    figures: Vec<Vec<f64>>,
}

/// One command, and the keys of the figures that its report adds to the columns.
struct SummaryRun {
    command: String,
    keys: Vec<&'static str>,
}

impl SummaryRow {
    fn new(name: String, runs: Vec<SummaryRun>) -> SummaryRow {
        let columns = runs.iter().map(|run| run.keys.len()).sum();
        SummaryRow { name, runs, figures: vec![Vec::new(); columns] }
    }

    /// Measures each command once.
    fn measure(&mut self, build: &Path) -> Result<(), Failure> {
        let mut columns = self.figures.iter_mut();
        for run in &self.runs {
            for value in measure(build, &arguments(&run.command), &run.keys)? {
                columns.next().into_iter().for_each(|column| column.push(value));
            }
        }
        Ok(())
    }

    fn ratios(&self, above: usize, below: usize) -> Vec<f64> {
        let pairs = self.figures[above].iter().zip(&self.figures[below]);
        pairs.map(|(above, below)| above / below).collect()
    }
}

impl SummaryTable {
    fn text(&self) -> String {
        let ratios = self.ratios.iter().map(|(title, ..)| *title);
        let heads: Vec<&str> = self.columns.iter().copied().chain(ratios).collect();
        let mut text = format!("**{}**, {}\n\n", self.title, self.unit.0);
        text += &format!("| | {} |\n|{}\n", heads.join(" | "), " --- |".repeat(heads.len() + 1));
        for row in &self.rows {
            let figures = row.figures.iter().map(|values| spread(values, self.unit.1));
            let ratios = self.ratios.iter().map(|(_, above, below)| {
                let ratios = row.ratios(*above, *below);
                spread(&ratios, 1.0)
            });
            let cells: Vec<String> = figures.chain(ratios).collect();
            text += &format!("| {} | {} |\n", row.name, cells.join(" | "));
        }
        text
    }

    fn report(&self) -> Value {
        let rows = self.rows.iter().map(|row| {
            let commands = row.runs.iter().map(|run| &run.command);
            json!({
                "name": row.name,
                "commands": commands.collect::<Vec<_>>(),
                "columns": self.columns,
                "values": row.figures,
            })
        });
        json!({ "title": self.title, "rows": rows.collect::<Vec<_>>() })
    }
}

/// Returns median and quartiles in a unit.
fn spread(values: &[f64], unit: f64) -> String {
    let [low, middle, high] = quartiles(values.iter().map(|value| value / unit));
    let number = |value: f64| match value {
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value if value >= 0.095 => format!("{value:.2}"),
        value => format!("{value:.4}"),
    };
    format!("{} ({} to {})", number(middle), number(low), number(high))
}

/// Runs all cases in turn.
pub(crate) fn run(args: &SummaryArgs, json: bool) -> CommandResult {
    let build = this_command()?;
    let mut tables = [rates(args.seconds), latencies()];
    for round in 0..args.rounds {
        for row in tables.iter_mut().flat_map(|table| &mut table.rows) {
            progress(format_args!("round {} of {}: {}", round + 1, args.rounds, row.name));
            row.measure(&build)?;
        }
    }
    let report = json!({
        "rounds": args.rounds,
        "commit": commit(),
        "machine": machine(),
        "tables": tables.iter().map(SummaryTable::report).collect::<Vec<_>>(),
    });
    let of = format!("Commit {}, {} rounds.\n", commit(), args.rounds);
    let text = tables.iter().map(|table| format!("\n{}", table.text())).collect::<String>();
    show(json, &report, &(of + &text))?;
    Ok(CommandAnswer::Yes)
}

fn rates(seconds: f64) -> SummaryTable {
    let row = |(size, readers): (u32, u32)| {
        let common = format!("--size {size} --subs {readers} --read ends --seconds {seconds}");
        let bare = |kind: &str| format!("bare --kind {kind} {common}");
        let dds = |level: &str| format!("throughput --level {level} --loan {common}");
        let core = format!("throughput --interface core --level atomic {common}");
        let commands = [
            bare("plain"),
            bare("stable"),
            core,
            dds("atomic"),
            dds("unordered"),
            dds("kept --keep-last 1"),
            dds("kept"),
        ];
        let run = |command| SummaryRun { command, keys: vec!["msgs_per_s"] };
        let runs = commands.into_iter().map(run);
        SummaryRow::new(format!("{size} B, {readers} to read"), runs.collect())
    };
    SummaryTable {
        title: "Samples to each reader, one writer",
        unit: ("million a second", 1e6),
        columns: vec![
            "polling ring",
            "stable ring",
            "core",
            "atomic",
            "unordered",
            "last kept",
            "64 MiB kept",
        ],
        rows: RATES.into_iter().map(row).collect(),
        ratios: vec![
            ("atomic to core", 3, 2),
            ("atomic to stable ring", 3, 1),
            ("unordered to polling ring", 4, 0),
            ("last kept to atomic", 5, 3),
            ("64 MiB kept to atomic", 6, 3),
        ],
    }
}

fn latencies() -> SummaryTable {
    let row = |(level, sleep): (&str, &str)| {
        let command = format!("latency --size 128 --level {level} --rounds 50000 {sleep}");
        let keys = vec!["p50_ns", "p99_ns", "p999_ns"];
        let name = if sleep.is_empty() { "polling" } else { "sleeping" };
        SummaryRow::new(format!("{level}, {name}"), vec![SummaryRun { command, keys }])
    };
    let cases =
        [("unordered", ""), ("atomic", ""), ("unordered", "--sleep"), ("atomic", "--sleep")];
    SummaryTable {
        title: "One way of a sample of 128 B, half of a round trip",
        unit: ("µs", 1e3),
        columns: vec!["p50", "p99", "p99.9"],
        rows: cases.into_iter().map(row).collect(),
        ratios: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratio_is_taken_within_each_round() {
        let run = SummaryRun { command: "b".to_owned(), keys: vec!["x", "y"] };
        let mut row = SummaryRow::new("a".to_owned(), vec![run]);
        row.figures = vec![vec![1.0, 20.0, 3.0], vec![2.0, 40.0, 6.0]];
        assert_eq!(row.ratios(0, 1), [0.5; 3]);
        let table = SummaryTable {
            title: "t",
            unit: ("u", 1.0),
            columns: vec!["x", "y"],
            rows: vec![row],
            ratios: vec![("x to y", 0, 1)],
        };
        let text = table.text();
        assert!(text.contains("| | x | y | x to y |\n| --- | --- | --- | --- |\n"), "{text}");
        assert!(text.contains("| a | 3.00 (1.00 to 20.0) | "), "{text}");
        assert!(text.ends_with("0.50 (0.50 to 0.50) |\n"), "{text}");
    }

    #[test]
    fn every_row_has_a_figure_for_each_column() {
        for table in [rates(0.1), latencies()] {
            assert!(table.rows.iter().all(|row| row.figures.len() == table.columns.len()));
        }
    }
}
