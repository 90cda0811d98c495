//! The Rust that is written for IDL, letter by letter.
//!
//! After a change of the generator on purpose, run with `UPDATE_GOLDEN=1` and read the difference.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::process::Command;
use std::{env, fs};

use idl::{Compiler, Generator};

const DIRECTORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden");

/// The Rust, the IDL it is made of, and whether it is for `dds-api`.
const GOLDEN: [(&str, &[&str], bool); 8] = [
    ("nav.rs", &["nav.idl"], false),
    ("nav_for_dds_api.rs", &["nav.idl"], true),
    ("constants.rs", &["constants.idl"], false),
    ("types.rs", &["types.idl"], false),
    ("annotated.rs", &["annotated.idl"], false),
    ("names.rs", &["names.idl"], false),
    ("skipped.rs", &["skipped.idl"], false),
    (
        "ros.rs",
        &["ros/fleet_interfaces/msg/VehicleState.idl", "ros/fleet_interfaces/srv/Park.idl"],
        false,
    ),
];

#[test]
fn the_generated_code_is_the_golden_one() {
    for (file, inputs, for_dds_api) in GOLDEN {
        let compiler = Compiler::new().include(format!("{DIRECTORY}/ros"));
        let inputs: Vec<String> =
            inputs.iter().map(|input| format!("{DIRECTORY}/{input}")).collect();
        let compiled = compiler.compile(&inputs).unwrap();
        assert!(!compiled.diagnostics.has_errors(), "{}", compiled.diagnostics);
        let generator = Generator::new();
        let generator = if for_dds_api { generator } else { generator.crate_path("idl_cdr") };
        let rust = generator.generate(&compiled.specification.unwrap());
        let path = format!("{DIRECTORY}/{file}");
        if env::var_os("UPDATE_GOLDEN").is_some() {
            fs::write(&path, &rust).unwrap();
        }
        let golden = fs::read_to_string(&path).unwrap();
        let line = rust.lines().zip(golden.lines()).position(|(new, old)| new != old);
        assert!(rust == golden, "{file} differs from line {line:?} on (counted from 0)");
    }
}

/// The golden files are as a fresh `cargo fmt` of a user without settings would leave them.
#[test]
fn the_generated_code_is_formatted() {
    for (file, ..) in GOLDEN {
        let path = format!("{DIRECTORY}/{file}");
        let config = ["--check", "--edition", "2024"];
        let Ok(output) = Command::new("rustfmt").args(config).arg(&path).output() else {
            // A machine that builds without rustfmt has nothing to compare with.
            return;
        };
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    }
}
