//! `benches/compare/run`: Squall DDS beside other systems, in one run.
//!
//! ```text
//!   install and build each system ── two warm-ups of each system in each scenario
//!   each repeat, each scenario, each system in turn:   bare ring (probe) ── measurement
//!   compare.json after each repeat ── compare.md and plots at the end
//! ```

mod log;
mod measure;
mod page;
mod plot;
mod process;
mod scenario;
mod statistics;
mod systems;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;

use log::{MachineDescription, RunLog, RunRecord, SystemEntry};
use measure::{MeasuringSite, probe};
use scenario::{SIZES, Scenario, USUAL_SIZES};
use systems::{BuildSettings, BuiltSystem, SYSTEMS};

/// Part of the time of a measurement that its second warm-up takes.
const WARM_UP_PART: f64 = 0.3;
/// Least and most messages of a measurement.
const COUNTS: [f64; 2] = [50.0, 200e6];
/// Bytes of messages of a measurement, at most: what a queue without limit may have to keep.
const MOST_BYTES: f64 = 16e9;

/// Squall DDS beside other systems, in one run: throughput to one and three subscribers, latency.
#[derive(Parser, Debug)]
#[command(after_help = "Examples:\n  benches/compare/run --short\n  \
    benches/compare/run --repeats 10 --out docs/lab\n  \
    benches/compare/run --systems squall,cyclone --sizes 128,10240")]
struct CompareArgs {
    /// Two repeats of 0.2 s each.
    #[arg(long)]
    short: bool,
    /// Systems, or beginnings of their names; all without it.
    #[arg(long, value_delimiter = ',')]
    systems: Vec<String>,
    /// Repeats [default: 7].
    #[arg(long)]
    repeats: Option<u32>,
    /// Seconds of each measurement [default: 1].
    #[arg(long)]
    seconds: Option<f64>,
    /// Bytes of the messages; of those, 16, 128 and 10240 also go to three subscribers.
    #[arg(long, value_delimiter = ',', default_values_t = USUAL_SIZES)]
    sizes: Vec<usize>,
    /// Folder of the page, the plots, and `compare.json` [default: compare in the target folder].
    #[arg(long)]
    out: Option<PathBuf>,
    /// The command `squall` of a release build; without it, the main workspace is built.
    #[arg(long)]
    squall: Option<PathBuf>,
    /// Seconds after which an unfinished measurement has failed.
    #[arg(long, default_value_t = 90)]
    limit: u64,
    /// Install no packages of the distribution.
    #[arg(long)]
    no_install: bool,
    /// Only write the page and the plots again, from this `compare.json`.
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
}

fn main() -> ExitCode {
    match run(&CompareArgs::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("compare: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &CompareArgs) -> Result<(), String> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let target = std::path::absolute(target.unwrap_or_else(|| workspace.join("target")))
        .map_err(|error| error.to_string())?;
    let out = args.out.clone().unwrap_or_else(|| target.join("compare"));
    if let Some(from) = &args.from {
        let text = std::fs::read_to_string(from);
        let text = text.map_err(|error| format!("{}: {error}", from.display()))?;
        let log = serde_json::from_str(&text);
        return write_page(&log.map_err(|error| format!("{}: {error}", from.display()))?, &out);
    }
    if let Some(size) = args.sizes.iter().find(|size| !SIZES.contains(size)) {
        return Err(format!("the peers have no type of {size} bytes, only of {SIZES:?}"));
    }
    let squall = args.squall.as_ref().map(std::path::absolute).transpose();
    let squall = squall.map_err(|error| error.to_string())?;
    let settings = BuildSettings { workspace, target, squall, installs: !args.no_install };
    let squall = settings.squall()?;
    let first = probe(&squall, Scenario { size: 128, subs: 1 })?;
    let mut log = RunLog {
        command: command_line(),
        machine: machine(),
        seconds: args.seconds.unwrap_or(if args.short { 0.2 } else { 1.0 }),
        repeats: args.repeats.unwrap_or(if args.short { 2 } else { 7 }),
        scenarios: Scenario::all(&args.sizes),
        ..RunLog::default()
    };
    let built = build(args, &settings, &squall, &first.commit, &mut log)?;
    let mut comparison = Comparison {
        site: MeasuringSite::new(Duration::from_secs(args.limit))?,
        squall,
        plan: Vec::new(),
        log,
    };
    comparison.warm_up(&built);
    for round in 1..=comparison.log.repeats {
        comparison.repeat(round);
        write_log(&comparison.log, &out)?;
    }
    write_page(&comparison.log, &out)
}

/// Installs and builds the chosen systems; those that cannot be had are noted as absent.
fn build(
    args: &CompareArgs,
    settings: &BuildSettings,
    squall: &Path,
    commit: &str,
    log: &mut RunLog,
) -> Result<Vec<BuiltSystem>, String> {
    let is_chosen = |name: &str| {
        args.systems.is_empty() || args.systems.iter().any(|start| name.starts_with(start))
    };
    let mut built = Vec::new();
    for system in SYSTEMS.into_iter().filter(|system| is_chosen(system.name)) {
        eprintln!("building {}", system.label);
        let found = settings.build(system, squall, commit);
        log.systems.push(SystemEntry {
            name: system.name.to_owned(),
            version: found.as_ref().map(|found| found.version.clone()).unwrap_or_default(),
            absent: found.as_ref().err().cloned(),
        });
        match found {
            Ok(found) => built.push(found),
            Err(error) => eprintln!("{} is absent: {error}", system.label),
        }
    }
    if built.is_empty() {
        let names = SYSTEMS.map(|system| system.name).join(", ");
        return Err(format!("no system is there to be measured; the names are {names}"));
    }
    Ok(built)
}

/// A system in a scenario, with the number of its messages.
struct PlannedMeasurement {
    built: BuiltSystem,
    scenario: Scenario,
    count: u64,
}

/// A run in progress.
struct Comparison {
    site: MeasuringSite,
    squall: PathBuf,
    plan: Vec<PlannedMeasurement>,
    log: RunLog,
}

impl Comparison {
    /// Plans the measurements by two warm-ups of each. One that fails twice is left out.
    fn warm_up(&mut self, built: &[BuiltSystem]) {
        for scenario in self.log.scenarios.clone() {
            for built in built {
                eprintln!("warm-up: {}, {}", scenario.name(), built.system.label);
                match self.count(built, scenario) {
                    Ok(count) => {
                        let built = built.clone();
                        self.plan.push(PlannedMeasurement { built, scenario, count });
                    }
                    Err(error) => {
                        eprintln!("  failed: {error}");
                        let system = built.system.name.to_owned();
                        let (round, count, probe) = (0, 0, 0.0);
                        let error = Some(format!("in the warm-up: {error}"));
                        let figures = None;
                        self.log.records.push(RunRecord {
                            system,
                            scenario,
                            round,
                            count,
                            probe,
                            figures,
                            error,
                        });
                    }
                }
            }
        }
    }

    /// Returns the number of messages that take about the wanted time.
    fn count(&mut self, built: &BuiltSystem, scenario: Scenario) -> Result<u64, String> {
        let seconds = self.log.seconds;
        let first = self
            .site
            .measure(built, scenario, scenario.first_count())
            .or_else(|_| self.site.measure(built, scenario, scenario.first_count()))?;
        let count = count_for(first.rate, scenario, seconds * WARM_UP_PART);
        let second = self
            .site
            .measure(built, scenario, count)
            .or_else(|_| self.site.measure(built, scenario, count))?;
        Ok(count_for(second.rate, scenario, seconds))
    }

    /// Measures all that is planned once.
    fn repeat(&mut self, round: u32) {
        for scenario in self.log.scenarios.clone() {
            let mut turns: Vec<&PlannedMeasurement> =
                self.plan.iter().filter(|planned| planned.scenario == scenario).collect();
            let turn = (round - 1) as usize % turns.len().max(1);
            turns.rotate_left(turn);
            for planned in turns {
                let near = probe(&self.squall, scenario);
                let found = self.site.measure(&planned.built, scenario, planned.count);
                let found = near.and_then(|near| Ok((near.rate, found?)));
                let label = planned.built.system.label;
                match &found {
                    Ok((_, figures)) => eprintln!(
                        "{round}: {}, {label}: {} a second",
                        scenario.name(),
                        statistics::three_digits(figures.rate)
                    ),
                    Err(error) => eprintln!("{round}: {}, {label}: {error}", scenario.name()),
                }
                self.log.records.push(RunRecord {
                    system: planned.built.system.name.to_owned(),
                    scenario,
                    round,
                    count: planned.count,
                    probe: found.as_ref().map(|(probe, _)| *probe).unwrap_or_default(),
                    figures: found.as_ref().ok().map(|(_, figures)| *figures),
                    error: found.err(),
                });
            }
        }
    }
}

/// Returns the number of messages (round trips, for latency) for a time.
fn count_for(rate: f64, scenario: Scenario, seconds: f64) -> u64 {
    let one_way = if scenario.is_latency() { 2.0 } else { 1.0 };
    let most = COUNTS[1].min(MOST_BYTES / scenario.size as f64);
    (rate * seconds / one_way).clamp(COUNTS[0], most) as u64
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    let folder = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::write(path, text))
        .map_err(|error| format!("{} cannot be written: {error}", path.display()))
}

fn write_log(log: &RunLog, out: &Path) -> Result<(), String> {
    let text = serde_json::to_string(log).map_err(|error| error.to_string())?;
    write(&out.join(page::PLOTS).join("compare.json"), &text)
}

fn write_page(log: &RunLog, out: &Path) -> Result<(), String> {
    let plots = out.join(page::PLOTS);
    for subs in [1, 3] {
        if log.scenarios.iter().any(|scenario| scenario.subs == subs) {
            let picture = plot::throughput(log, subs);
            write(&plots.join(format!("throughput-{subs}.svg")), &picture)?;
        }
    }
    write(&plots.join("latency.svg"), &plot::latency(log))?;
    let page = out.join("compare.md");
    write(&page, &page::page(log))?;
    println!("{}", page.display());
    Ok(())
}

/// Returns the command line without the folders of this machine.
fn command_line() -> String {
    let mut words = vec!["benches/compare/run".to_owned()];
    for word in std::env::args().skip(1) {
        let name = Path::new(&word).file_name().filter(|_| Path::new(&word).is_absolute());
        words.push(name.map_or(word.clone(), |name| name.to_string_lossy().into_owned()));
    }
    words.join(" ")
}

/// Returns the machine, as far as the system tells.
fn machine() -> MachineDescription {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let field = |text: String, key: &str| {
        let line = text.lines().find(|line| line.starts_with(key)).unwrap_or_default().to_owned();
        let value = line.split_once([':', '=']).map(|(_, value)| value.trim().trim_matches('"'));
        value.unwrap_or_default().to_owned()
    };
    let memory = field(read("/proc/meminfo"), "MemTotal");
    let kib: u64 = memory.trim_end_matches(" kB").parse().unwrap_or_default();
    MachineDescription {
        processor: field(read("/proc/cpuinfo"), "model name"),
        cores: std::thread::available_parallelism().map_or(0, usize::from),
        memory_gib: (kib + (1 << 19)) >> 20,
        kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
        distribution: field(read("/etc/os-release"), "PRETTY_NAME"),
        load_before: read("/proc/loadavg").split(' ').next().unwrap_or_default().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_of_messages_is_bounded_by_time_and_memory() {
        let small = Scenario { size: 16, subs: 1 };
        assert_eq!(count_for(1e6, small, 0.5), 500_000);
        assert_eq!(count_for(1.0, small, 0.5), 50);
        assert_eq!(count_for(1e12, small, 0.5), 200_000_000);
        assert_eq!(count_for(1e12, Scenario { size: 1 << 20, subs: 1 }, 0.5), 15_258);
        assert_eq!(count_for(1e6, Scenario { size: 128, subs: 0 }, 1.0), 500_000);
    }

    #[test]
    fn command_line_is_well_formed() {
        use clap::CommandFactory;
        CompareArgs::command().debug_assert();
    }
}
