//! `squall perf regress`: two builds of this command in turn, to tell whether one is slower.
//!
//! Owns: the cases, their order, and the judgement of their ratios. Never does: compare figures of
//! different rounds; the host changes the speed and the distance of its processors within minutes.
//!
//! ```text
//!   each round, each case:  bare ring (probe) ── one build ── the other build
//!                           the build that comes first alternates from round to round
//! ```

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};

use super::machine::{machine, median, quartiles};
use super::report::{arguments, measure, this_command};
use crate::outcome::{CommandAnswer, CommandResult, Failure, progress, show};

/// Rounds of a measurement without `--rounds`.
const USUAL_ROUNDS: u32 = 10;
/// Seconds of writing of one run without `--seconds`.
const USUAL_SECONDS: f64 = 0.3;
/// Ratio below which a case counts as slower without `--floor`.
const USUAL_FLOOR: f64 = 0.95;

/// Measurement that shows the distance of the processors.
const PROBE: &str = "bare --kind plain --size 128 --seconds 0.2";

/// Whether one build of this command is slower than another one: both run in turn, each pair beside
/// a bare ring that shows the distance of the processors.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  \
    squall perf regress /tmp/before/squall --rounds 10\n\n\
    A ratio is the speed of the build to judge by that of the build before, of two runs right after\n\
    each other. A case is slower if the median of its ratios is below --floor and three quarters of\n\
    them are below 1. Exit code 1 if a case is slower.")]
pub(crate) struct RegressArgs {
    /// The command `squall` of the build to compare with.
    before: PathBuf,
    /// The command `squall` of the build to judge [default: this one].
    #[arg(long)]
    after: Option<PathBuf>,
    /// Rounds; in each round both builds run every case once.
    #[arg(long, default_value_t = USUAL_ROUNDS, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Seconds of writing of one run.
    #[arg(long, default_value_t = USUAL_SECONDS, value_parser = super::throughput::seconds)]
    seconds: f64,
    /// Ratio below which a case counts as slower.
    #[arg(long, default_value_t = USUAL_FLOOR)]
    floor: f64,
    /// Cases to run, by a part of their names [default: all].
    #[arg(long = "case", value_name = "NAME")]
    cases: Vec<String>,
}

/// Figure of a case in the report of a run.
#[derive(Clone, Copy)]
enum Figure {
    /// A rate: more is faster.
    Rate,
    /// A time, by its key: less is faster.
    Time(&'static str),
}

impl Figure {
    fn key(self) -> &'static str {
        match self {
            Figure::Rate => "msgs_per_s",
            Figure::Time(key) => key,
        }
    }

    /// Speed of one build relative to another one.
    fn ratio(self, before: f64, after: f64) -> f64 {
        match self {
            Figure::Rate => after / before,
            Figure::Time(_) => before / after,
        }
    }

    fn best(self, values: &[f64]) -> f64 {
        match self {
            Figure::Rate => values.iter().copied().fold(0.0, f64::max),
            Figure::Time(_) => values.iter().copied().fold(f64::INFINITY, f64::min),
        }
    }

    fn text(self, value: f64) -> String {
        match self {
            Figure::Rate => format!("{:.2} M/s", value / 1e6),
            Figure::Time(_) => format!("{:.2} µs", value / 1e3),
        }
    }
}

/// One comparison.
struct RegressCase {
    name: String,
    arguments: Vec<String>,
    figures: Vec<(&'static str, Figure)>,
}

/// Values of one figure of one case in all rounds.
struct FigureSeries {
    case: String,
    figure: Figure,
    before: Vec<f64>,
    after: Vec<f64>,
    probes: Vec<f64>,
}

impl FigureSeries {
    fn ratios(&self) -> Vec<f64> {
        let pairs = self.before.iter().zip(&self.after);
        let mut ratios: Vec<f64> =
            pairs.map(|(before, after)| self.figure.ratio(*before, *after)).collect();
        ratios.sort_by(f64::total_cmp);
        ratios
    }

    /// Whether the later build is slower by more than the noise of the rounds.
    fn is_slower(&self, floor: f64) -> bool {
        let [_, middle, high] = quartiles(self.ratios());
        middle < floor && high < 1.0
    }

    fn report(&self, floor: f64) -> Value {
        let ratios = self.ratios();
        json!({
            "case": self.case,
            "before": self.before,
            "after": self.after,
            "probe_msgs_per_s": self.probes,
            "ratio": median(ratios.iter().copied()),
            "ratios": ratios,
            "slower": self.is_slower(floor),
        })
    }

    fn line(&self, floor: f64) -> String {
        let [low, middle, high] = quartiles(self.ratios());
        let both = |values: &[f64]| {
            let middle = median(values.iter().copied());
            format!("{} ({})", self.figure.text(middle), self.figure.text(self.figure.best(values)))
        };
        let least = self.probes.iter().copied().fold(f64::INFINITY, f64::min) / 1e6;
        let most = self.probes.iter().copied().fold(0.0, f64::max) / 1e6;
        format!(
            "{:<28} {:>24} {:>24}   {:.2}  {:.2} to {:.2}   {least:.1} to {most:.1}{}",
            self.case,
            both(&self.before),
            both(&self.after),
            middle,
            low,
            high,
            if self.is_slower(floor) { "   SLOWER" } else { "" }
        )
    }
}

/// Runs the cases.
pub(crate) fn run(args: &RegressArgs, json: bool) -> CommandResult {
    let after = match &args.after {
        Some(after) => after.clone(),
        None => this_command()?,
    };
    let cases = selected(cases(args.seconds), &args.cases)?;
    let mut all: Vec<FigureSeries> = cases.iter().flat_map(series_of).collect();
    for round in 0..args.rounds {
        let mut rest = all.as_mut_slice();
        for case in &cases {
            progress(format_args!("round {} of {}: {}", round + 1, args.rounds, case.name));
            let (series, others) = rest.split_at_mut(case.figures.len());
            rest = others;
            let probe = measure(&after, &arguments(PROBE), &["msgs_per_s"])?[0];
            let keys: Vec<_> = case.figures.iter().map(|(_, figure)| figure.key()).collect();
            let measure = |build: &Path| measure(build, &case.arguments, &keys);
            let (before, after) = if round % 2 == 0 {
                let before = measure(&args.before)?;
                (before, measure(&after)?)
            } else {
                let after = measure(&after)?;
                (measure(&args.before)?, after)
            };
            for (at, series) in series.iter_mut().enumerate() {
                series.before.push(before[at]);
                series.after.push(after[at]);
                series.probes.push(probe);
            }
        }
    }
    let slower = all.iter().any(|series| series.is_slower(args.floor));
    let report = json!({
        "rounds": args.rounds,
        "floor": args.floor,
        "cases": all.iter().map(|series| series.report(args.floor)).collect::<Vec<_>>(),
        "machine": machine(),
    });
    let mut text = format!(
        "{:<28} {:>24} {:>24}   ratio  quartiles     bare ring, M/s\n",
        "case", "before: median (best)", "after: median (best)"
    );
    for series in &all {
        text.push_str(&series.line(args.floor));
        text.push('\n');
    }
    show(json, &report, &text)?;
    Ok(if slower { CommandAnswer::No } else { CommandAnswer::Yes })
}

fn series_of(case: &RegressCase) -> Vec<FigureSeries> {
    let series = case.figures.iter().map(|(suffix, figure)| FigureSeries {
        case: format!("{}{suffix}", case.name),
        figure: *figure,
        before: Vec::new(),
        after: Vec::new(),
        probes: Vec::new(),
    });
    series.collect()
}

/// All cases: the sizes and levels of small samples, both ways to write, and the latency.
fn cases(seconds: f64) -> Vec<RegressCase> {
    let mut cases = Vec::new();
    let rates = [
        ("16", "atomic", "--loan"),
        ("16", "atomic", "--copy"),
        ("128", "atomic", "--loan"),
        ("128", "unordered", "--loan"),
        ("128", "kept", "--loan"),
        ("1024", "atomic", "--loan"),
        ("10240", "atomic", "--loan"),
    ];
    for (size, level, manner) in rates {
        let rest = format!("{manner} --read ends --seconds {seconds}");
        cases.push(RegressCase {
            name: format!("{level} {size} B {}", manner.trim_start_matches('-')),
            arguments: arguments(&format!("throughput --size {size} --level {level} {rest}")),
            figures: vec![("", Figure::Rate)],
        });
    }
    for level in ["atomic", "unordered"] {
        cases.push(RegressCase {
            name: format!("{level} 128 B latency"),
            arguments: arguments(&format!("latency --size 128 --level {level} --rounds 50000")),
            figures: vec![
                (" p50", Figure::Time("p50_ns")),
                (" p99", Figure::Time("p99_ns")),
                (" p99.9", Figure::Time("p999_ns")),
            ],
        });
    }
    cases
}

fn selected(cases: Vec<RegressCase>, names: &[String]) -> Result<Vec<RegressCase>, Failure> {
    let all: Vec<String> = cases.iter().map(|case| case.name.clone()).collect();
    for name in names {
        if !all.iter().any(|case| case.contains(name)) {
            let text = format!("no case is called `{name}`; the cases are: {}", all.join(", "));
            return Err(Failure::Usage(text));
        }
    }
    let is_wanted =
        |case: &RegressCase| names.is_empty() || names.iter().any(|name| case.name.contains(name));
    Ok(cases.into_iter().filter(is_wanted).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(figure: Figure, before: &[f64], after: &[f64]) -> FigureSeries {
        let (before, after) = (before.to_vec(), after.to_vec());
        let probes = vec![1.0; before.len()];
        FigureSeries { case: "some case".to_owned(), figure, before, after, probes }
    }

    #[test]
    fn build_is_slower_if_most_rounds_say_so_and_their_median_is_below_floor() {
        let before = [10.0, 20.0, 10.0, 30.0];
        let slower = series(Figure::Rate, &before, &[8.0, 16.0, 8.0, 24.0]);
        assert!(slower.is_slower(0.95), "{:?}", slower.ratios());
        assert!(!series(Figure::Rate, &before, &[9.9, 19.8, 9.9, 29.7]).is_slower(0.95));
        let noisy = series(Figure::Rate, &before, &[8.0, 30.0, 8.0, 60.0]);
        assert!(!noisy.is_slower(0.95), "{:?}", noisy.ratios());
    }

    #[test]
    fn shorter_time_is_faster() {
        let time = Figure::Time("p50_ns");
        assert!(series(time, &[100.0, 100.0], &[130.0, 130.0]).is_slower(0.95));
        assert!(!series(time, &[100.0, 100.0], &[70.0, 70.0]).is_slower(0.95));
        assert_eq!(time.best(&[3.0, 2.0]), 2.0);
        assert_eq!(Figure::Rate.best(&[3.0, 2.0]), 3.0);
    }

    #[test]
    fn cases_are_selected_by_part_of_name_and_unknown_name_is_an_error() {
        let chosen = selected(cases(0.1), &["latency".to_owned()]).ok().unwrap();
        assert_eq!(chosen.len(), 2);
        let Err(Failure::Usage(text)) = selected(cases(0.1), &["logged".to_owned()]) else {
            panic!("an unknown case has to be refused")
        };
        assert!(text.contains("atomic 16 B loan"), "{text}");
    }
}
