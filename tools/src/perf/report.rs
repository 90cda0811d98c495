//! Reports of measurements that run as commands of their own.
//!
//! Owns: how a figure is read out of a report. Never does: choose what is measured.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::outcome::Failure;

/// Runs one measurement of one build and returns figures of its report.
pub(super) fn measure(
    build: &Path,
    arguments: &[String],
    keys: &[&str],
) -> Result<Vec<f64>, Failure> {
    let shown = format!("`{} perf {} --json`", build.display(), arguments.join(" "));
    let output = Command::new(build).arg("perf").args(arguments).arg("--json").output();
    let output = output.map_err(|error| Failure::new(format!("{shown} cannot run: {error}")))?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        return Err(Failure::new(format!("{shown} failed: {}", errors.trim_end())));
    }
    let printed = String::from_utf8_lossy(&output.stdout);
    let report: Value = serde_json::from_str(printed.lines().last().unwrap_or_default())
        .map_err(|error| Failure::new(format!("{shown} printed no report: {error}")))?;
    let figure = |key: &&str| {
        let value = report[*key].as_f64().filter(|value| *value > 0.0);
        value.ok_or_else(|| Failure::new(format!("the report of {shown} has no `{key}`")))
    };
    keys.iter().map(figure).collect()
}

/// Returns the path of this command.
pub(super) fn this_command() -> Result<std::path::PathBuf, Failure> {
    std::env::current_exe()
        .map_err(|error| Failure::new(format!("this command cannot find itself: {error}")))
}

/// Returns the arguments of a measurement.
pub(super) fn arguments(of: &str) -> Vec<String> {
    of.split_whitespace().map(str::to_owned).collect()
}
