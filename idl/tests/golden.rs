//! The Rust generated for IDL, character by character.
//!
//! After an intended change of the generator, run with `UPDATE_GOLDEN=1` and read the difference.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::process::Command;
use std::{env, fs};

use idl::{Compiler, Generator};

const DIRECTORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden");

/// The Rust file, the IDL files it is made of, and the crate that it is for.
const GOLDEN: [(&str, &[&str], &str); 9] = [
    ("nav.rs", &["nav.idl"], "idl_cdr"),
    ("nav_for_dds_api.rs", &["nav.idl"], "dds_api::types"),
    ("constants.rs", &["constants.idl"], "idl_cdr"),
    ("types.rs", &["types.idl"], "idl_cdr"),
    ("annotated.rs", &["annotated.idl"], "idl_cdr"),
    ("names.rs", &["names.idl"], "idl_cdr"),
    ("skipped.rs", &["skipped.idl"], "idl_cdr"),
    // This file is compiled by the tests of `idl-xtypes`, where `Any` is.
    ("any.rs", &["any.idl"], "idl_xtypes::types"),
    (
        "ros.rs",
        &["ros/fleet_interfaces/msg/VehicleState.idl", "ros/fleet_interfaces/srv/Park.idl"],
        "idl_cdr",
    ),
];

#[test]
fn generated_code_equals_golden_files() {
    for (file, inputs, crate_path) in GOLDEN {
        let compiler = Compiler::new().include(format!("{DIRECTORY}/ros"));
        let inputs: Vec<String> =
            inputs.iter().map(|input| format!("{DIRECTORY}/{input}")).collect();
        let compiled = compiler.compile(&inputs).unwrap();
        assert!(!compiled.diagnostics.has_errors(), "{}", compiled.diagnostics);
        let rust =
            Generator::new().crate_path(crate_path).generate(&compiled.specification.unwrap());
        let path = format!("{DIRECTORY}/{file}");
        if env::var_os("UPDATE_GOLDEN").is_some() {
            fs::write(&path, &rust).unwrap();
        }
        let golden = fs::read_to_string(&path).unwrap();
        let line = rust.lines().zip(golden.lines()).position(|(new, old)| new != old);
        assert!(rust == golden, "{file} differs from line {line:?} on (counted from 0)");
    }
}

/// The golden files equal the output of `cargo fmt` without settings.
#[test]
fn golden_files_are_formatted() {
    for (file, ..) in GOLDEN {
        let path = format!("{DIRECTORY}/{file}");
        let config = ["--check", "--edition", "2024"];
        let Ok(output) = Command::new("rustfmt").args(config).arg(&path).output() else {
            // Without rustfmt on the machine there is nothing to compare with.
            return;
        };
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    }
}
