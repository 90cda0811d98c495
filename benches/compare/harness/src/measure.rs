//! One measurement: the processes of one system in one scenario, by the measuring protocol.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::process::PeerProcess;
use crate::scenario::Scenario;
use crate::systems::{BuiltSystem, PeerCommand};

/// Folder of shared memory.
const SHARED_MEMORY: &str = "/dev/shm";
/// Seconds of the bare ring before each measurement.
const PROBE_SECONDS: &str = "0.1";

/// Figures of one measurement.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Figures {
    /// Messages a second to each subscriber, or one way a second for latency.
    pub(crate) rate: f64,
    pub(crate) p50_ns: f64,
    pub(crate) p99_ns: f64,
    pub(crate) p999_ns: f64,
}

/// Processes and folders of all measurements.
pub(crate) struct MeasuringSite {
    /// Folder for the files of the systems, removed at the end.
    folder: PathBuf,
    sessions: u32,
    limit: Duration,
}

impl MeasuringSite {
    pub(crate) fn new(limit: Duration) -> Result<MeasuringSite, String> {
        let folder = std::env::temp_dir().join(format!("compare-{}", std::process::id()));
        std::fs::create_dir_all(&folder)
            .map_err(|error| format!("{} cannot be made: {error}", folder.display()))?;
        Ok(MeasuringSite { folder, sessions: 0, limit })
    }

    /// Runs one measurement.
    pub(crate) fn measure(
        &mut self,
        built: &BuiltSystem,
        scenario: Scenario,
        count: u64,
    ) -> Result<Figures, String> {
        self.sessions += 1;
        let session = format!("compare{}x{}", std::process::id(), self.sessions);
        let before = names_in(Path::new(SHARED_MEMORY));
        let figures = self.run(&built.command, scenario, count, &session);
        for name in names_in(Path::new(SHARED_MEMORY)).difference(&before) {
            let mut left = built.system.leaves.iter().copied().chain([session.as_str()]);
            if left.any(|part| name.contains(part)) {
                // Another process may have removed it meanwhile.
                let _ = std::fs::remove_file(Path::new(SHARED_MEMORY).join(name));
            }
        }
        figures
    }

    fn run(
        &self,
        peer: &PeerCommand,
        scenario: Scenario,
        count: u64,
        session: &str,
    ) -> Result<Figures, String> {
        let deadline = Instant::now() + self.limit;
        let start = |role: &str, index: usize| {
            let mut command = Command::new(&peer.program);
            command.args(&peer.before).arg(role);
            command.arg("--size").arg(scenario.size.to_string());
            command.arg("--count").arg(count.to_string());
            command.arg("--session").arg(session);
            if !scenario.is_latency() {
                command.arg("--subs").arg(scenario.subs.to_string());
            }
            if role == "sub" {
                command.arg("--index").arg(index.to_string());
            }
            command.args(&peer.after);
            command
                .env_remove("RUST_BACKTRACE")
                .env("TMPDIR", &self.folder)
                .env("SQUALL_RUNTIME_DIR", self.folder.join("s"));
            PeerProcess::start(format!("{role} {index}"), &mut command, deadline)
        };
        let mut peers = Vec::new();
        if scenario.is_latency() {
            peers.push(start("ping", 0)?);
            peers.push(start("pong", 0)?);
        } else {
            peers.push(start("pub", 0)?);
            for index in 0..scenario.subs {
                peers.push(start("sub", index)?);
            }
        }
        // Subscribers first: an error of theirs is often the reason of the publisher's.
        for peer in peers.iter_mut().rev() {
            peer.line("READY")?;
        }
        peers[0].tell("GO")?;
        let mut results = Vec::new();
        for peer in peers.iter_mut().rev() {
            results.push(parse(&peer.line("{")?)?);
        }
        for peer in &mut peers {
            peer.tell("EXIT")?;
        }
        for peer in &mut peers {
            peer.end()?;
        }
        let first = results.pop().unwrap_or_default();
        if scenario.is_latency() { times(&first) } else { throughput(&first, &results, count) }
    }
}

impl Drop for MeasuringSite {
    fn drop(&mut self) {
        // An empty folder that stays does no harm.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Names in a folder; none if it cannot be read.
fn names_in(folder: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// Parses a line of a role.
fn parse(line: &str) -> Result<Value, String> {
    serde_json::from_str(line).map_err(|error| format!("`{line}` is no JSON: {error}"))
}

fn number(result: &Value, key: &str) -> Result<f64, String> {
    result[key].as_f64().ok_or_else(|| format!("a result has no number `{key}`: {result}"))
}

/// Returns the rate to each subscriber: messages by the time from before the first write to after
/// the last message. Lost, repeated and corrupt messages make it an error.
fn throughput(publisher: &Value, subscribers: &[Value], count: u64) -> Result<Figures, String> {
    let start = number(publisher, "t_start_ns")?;
    let mut rates = 0.0;
    for result in subscribers {
        let received = number(result, "received")?;
        let [lost, disorder, corrupt] =
            ["lost", "disorder", "corrupt"].map(|key| number(result, key));
        let (lost, disorder, corrupt) = (lost?, disorder?, corrupt?);
        if lost + disorder + corrupt > 0.0 || received != count as f64 {
            return Err(format!(
                "invalid: {received} of {count} messages, {lost} lost, {disorder} out of order, \
                 {corrupt} corrupt"
            ));
        }
        rates += received * 1e9 / (number(result, "t_last_ns")? - start).max(1.0);
    }
    Ok(Figures { rate: rates / subscribers.len().max(1) as f64, ..Figures::default() })
}

/// Returns the one-way times of ping.
fn times(ping: &Value) -> Result<Figures, String> {
    let mean = number(ping, "mean_ns")?;
    Ok(Figures {
        rate: 1e9 / mean.max(1.0),
        p50_ns: number(ping, "p50_ns")?,
        p99_ns: number(ping, "p99_ns")?,
        p999_ns: number(ping, "p999_ns")?,
    })
}

/// Report of the bare ring: how near the cores are now, and which commit the product has.
#[derive(Debug)]
pub(crate) struct RingProbe {
    pub(crate) rate: f64,
    pub(crate) commit: String,
}

/// Runs the bare ring for a short time.
pub(crate) fn probe(squall: &Path, scenario: Scenario) -> Result<RingProbe, String> {
    let output = Command::new(squall)
        .args(["perf", "bare", "--kind", "plain", "--read", "ends", "--json"])
        .args(["--seconds", PROBE_SECONDS, "--limit", "20"])
        .args(["--size", &scenario.size.to_string()])
        .args(["--subs", &scenario.subs.max(1).to_string()])
        .output()
        .map_err(|error| format!("{} cannot run: {error}", squall.display()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let report = parse(text.lines().last().unwrap_or_default())?;
    let commit = report["commit"].as_str().unwrap_or("unknown").to_owned();
    Ok(RingProbe { rate: number(&report, "msgs_per_s")?, commit })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PUB: &str = r#"{"role":"pub","sent":1000,"t_start_ns":1000,"t_end_ns":90000}"#;

    fn subscriber(received: u64, lost: u64, t_last_ns: u64) -> Value {
        parse(&format!(
            "{{\"role\":\"sub\",\"index\":0,\"received\":{received},\"lost\":{lost},\"disorder\":0,\
             \"corrupt\":0,\"t_first_ns\":2000,\"t_last_ns\":{t_last_ns}}}"
        ))
        .unwrap()
    }

    #[test]
    fn rate_is_the_mean_over_subscribers_since_the_first_write() {
        let publisher = parse(PUB).unwrap();
        let subscribers = [subscriber(1000, 0, 101_000), subscriber(1000, 0, 201_000)];
        let figures = throughput(&publisher, &subscribers, 1000).unwrap();
        assert_eq!(figures.rate, (1e7 + 5e6) / 2.0);
    }

    #[test]
    fn lost_messages_make_a_run_invalid() {
        let publisher = parse(PUB).unwrap();
        let error = throughput(&publisher, &[subscriber(990, 10, 101_000)], 1000).unwrap_err();
        assert_eq!(error, "invalid: 990 of 1000 messages, 10 lost, 0 out of order, 0 corrupt");
        assert!(throughput(&publisher, &[subscriber(999, 0, 101_000)], 1000).is_err());
    }

    #[test]
    fn times_of_ping_are_read_and_missing_numbers_are_errors() {
        let line = r#"{"role":"ping","count":9,"p50_ns":5,"p99_ns":7,"p999_ns":8,"mean_ns":5.5,"min_ns":4}"#;
        let figures = times(&parse(line).unwrap()).unwrap();
        assert_eq!([figures.p50_ns, figures.p99_ns, figures.p999_ns], [5.0, 7.0, 8.0]);
        assert!(times(&parse("{}").unwrap()).unwrap_err().contains("mean_ns"));
        assert!(parse("READY").is_err());
    }
}
