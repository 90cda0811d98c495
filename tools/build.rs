//! Records the commit that the command is built from, if it is known.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // Without git or a repository, the commit stays unknown.
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
