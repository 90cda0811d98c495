//! Everything that a run of the harness found, as written to `compare.json`.

use serde::{Deserialize, Serialize};

use crate::measure::Figures;
use crate::scenario::Scenario;
use crate::statistics::{Quartiles, quartiles};

/// Record of a whole run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct RunLog {
    /// Command line.
    pub(crate) command: String,
    pub(crate) machine: MachineDescription,
    /// Seconds of each throughput measurement, as asked.
    pub(crate) seconds: f64,
    pub(crate) repeats: u32,
    pub(crate) scenarios: Vec<Scenario>,
    pub(crate) systems: Vec<SystemEntry>,
    pub(crate) records: Vec<RunRecord>,
}

/// Machine of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct MachineDescription {
    pub(crate) processor: String,
    pub(crate) cores: usize,
    pub(crate) memory_gib: u64,
    pub(crate) kernel: String,
    pub(crate) distribution: String,
    /// Load average of the minute before the run.
    pub(crate) load_before: String,
}

/// A system of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SystemEntry {
    pub(crate) name: String,
    pub(crate) version: String,
    /// Reason for which it was not measured.
    pub(crate) absent: Option<String>,
}

/// One measurement.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct RunRecord {
    pub(crate) system: String,
    pub(crate) scenario: Scenario,
    /// Number of the repeat; zero is the warm-up, recorded only if it failed.
    pub(crate) round: u32,
    pub(crate) count: u64,
    /// Messages a second of the bare ring right before.
    pub(crate) probe: f64,
    pub(crate) figures: Option<Figures>,
    pub(crate) error: Option<String>,
}

/// Figure of a measurement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FigureKind {
    Rate,
    P50,
    P99,
    P999,
    /// Rate of the bare ring right before the measurement.
    Probe,
}

impl FigureKind {
    fn of(self, record: &RunRecord) -> Option<f64> {
        let figures = record.figures?;
        Some(match self {
            FigureKind::Rate => figures.rate,
            FigureKind::P50 => figures.p50_ns,
            FigureKind::P99 => figures.p99_ns,
            FigureKind::P999 => figures.p999_ns,
            FigureKind::Probe => record.probe,
        })
    }

    fn is_time(self) -> bool {
        matches!(self, FigureKind::P50 | FigureKind::P99 | FigureKind::P999)
    }
}

impl RunLog {
    fn of<'a>(
        &'a self,
        system: &'a str,
        scenario: Scenario,
    ) -> impl Iterator<Item = &'a RunRecord> {
        let is_it =
            move |record: &&RunRecord| record.system == system && record.scenario == scenario;
        self.records.iter().filter(is_it)
    }

    /// Returns the quartiles of a figure over all valid repeats.
    pub(crate) fn quartiles(
        &self,
        system: &str,
        scenario: Scenario,
        kind: FigureKind,
    ) -> Option<Quartiles> {
        let values: Vec<f64> =
            self.of(system, scenario).filter_map(|record| kind.of(record)).collect();
        quartiles(&values)
    }

    /// Returns the quartiles of the bare ring over all measurements of a scenario.
    pub(crate) fn ring(&self, scenario: Scenario) -> Option<Quartiles> {
        let records = self.records.iter().filter(|record| record.scenario == scenario);
        let probes: Vec<f64> =
            records.map(|record| record.probe).filter(|probe| *probe > 0.0).collect();
        quartiles(&probes)
    }

    /// Returns the quartiles of how many times faster `first` was than `second` in the same round.
    pub(crate) fn advantage(
        &self,
        first: &str,
        second: &str,
        scenario: Scenario,
        kind: FigureKind,
    ) -> Option<Quartiles> {
        let ratio = |record: &RunRecord| {
            let other = self.of(second, scenario).find(|other| other.round == record.round)?;
            let (first, second) = (kind.of(record)?, kind.of(other)?);
            Some(if kind.is_time() { second / first } else { first / second })
        };
        quartiles(&self.of(first, scenario).filter_map(ratio).collect::<Vec<_>>())
    }

    /// Returns the failed measurements of a system: number of failures, number of measurements, and
    /// the first error of each scenario.
    pub(crate) fn failures(&self, system: &str, scenario: Scenario) -> Option<FailureSummary> {
        let errors: Vec<&String> =
            self.of(system, scenario).filter_map(|record| record.error.as_ref()).collect();
        let first = (*errors.first()?).clone();
        Some(FailureSummary { failed: errors.len(), all: self.of(system, scenario).count(), first })
    }

    /// Returns the names of the systems that were measured, in order.
    pub(crate) fn measured(&self) -> impl Iterator<Item = &SystemEntry> {
        self.systems.iter().filter(|entry| entry.absent.is_none())
    }
}

/// Failed measurements of a system in a scenario.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct FailureSummary {
    pub(crate) failed: usize,
    pub(crate) all: usize,
    pub(crate) first: String,
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) const ONE: Scenario = Scenario { size: 128, subs: 1 };
    pub(crate) const PING: Scenario = Scenario { size: 128, subs: 0 };

    fn record(system: &str, scenario: Scenario, round: u32, value: f64) -> RunRecord {
        let figures =
            Figures { rate: value, p50_ns: value, p99_ns: 2.0 * value, p999_ns: 3.0 * value };
        RunRecord {
            system: system.to_owned(),
            scenario,
            round,
            count: 1000,
            probe: 5e7,
            figures: Some(figures),
            error: None,
        }
    }

    /// A run with two systems, and a failure of a third one.
    pub(crate) fn sample() -> RunLog {
        let mut log = RunLog {
            scenarios: vec![ONE, PING],
            systems: ["squall-atomic", "zenoh", "rustdds", "cyclone"]
                .map(|name| SystemEntry {
                    name: name.to_owned(),
                    version: "1.2".to_owned(),
                    absent: (name == "cyclone").then(|| "no package".to_owned()),
                })
                .to_vec(),
            ..RunLog::default()
        };
        for round in 1..=3 {
            let speed = f64::from(round);
            log.records.push(record("squall-atomic", ONE, round, 2e6 * speed));
            log.records.push(record("zenoh", ONE, round, 1e6 * speed));
            log.records.push(record("squall-atomic", PING, round, 300.0));
            log.records.push(record("zenoh", PING, round, 30_000.0));
            let mut lost = record("rustdds", ONE, round, 0.0);
            lost.figures = None;
            lost.error = Some("invalid: 5 lost".to_owned());
            log.records.push(lost);
        }
        log
    }

    #[test]
    fn ratios_are_of_pairs_of_the_same_round() {
        let log = sample();
        let twice = Quartiles { low: 2.0, median: 2.0, high: 2.0 };
        assert_eq!(log.advantage("squall-atomic", "zenoh", ONE, FigureKind::Rate), Some(twice));
        let time = log.advantage("squall-atomic", "zenoh", PING, FigureKind::P50);
        assert_eq!(time.map(|it| it.median), Some(100.0));
        assert_eq!(log.advantage("squall-atomic", "rustdds", ONE, FigureKind::Rate), None);
    }

    #[test]
    fn failures_are_counted_and_give_no_figures() {
        let log = sample();
        let failures = log.failures("rustdds", ONE).unwrap();
        assert_eq!([failures.failed, failures.all], [3, 3]);
        assert_eq!(log.failures("zenoh", ONE), None);
        assert_eq!(log.quartiles("rustdds", ONE, FigureKind::Rate), None);
        assert_eq!(log.measured().count(), 3);
    }
}
