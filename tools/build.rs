//! Says which commit the command is built from, if that can be known.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // Where there is no git, or no repository, the commit stays unknown.
    for state in ["../.git/HEAD", "../.git/logs/HEAD"] {
        if std::path::Path::new(state).exists() {
            println!("cargo::rerun-if-changed={state}");
        }
    }
    let described = Command::new("git").args(["describe", "--always", "--dirty"]).output();
    if let Ok(output) = described
        && output.status.success()
        && let Ok(text) = String::from_utf8(output.stdout)
    {
        println!("cargo::rustc-env=SQUALL_COMMIT={}", text.trim());
    }
}
