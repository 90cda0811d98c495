//! The Rust that is written for IDL, letter by letter.
//!
//! After a change of the generator on purpose, run with `UPDATE_GOLDEN=1` and read the difference.

use std::{env, fs};

#[test]
fn the_generated_code_is_the_golden_one() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden");
    let text = fs::read_to_string(format!("{directory}/nav.idl")).unwrap();
    let specification = idl::parse("nav.idl", &text).unwrap();
    for (file, generator) in [
        ("nav.rs", idl::Generator::new().crate_path("idl_cdr")),
        ("nav_for_dds_api.rs", idl::Generator::new()),
    ] {
        let path = format!("{directory}/{file}");
        let rust = generator.generate(&specification);
        if env::var_os("UPDATE_GOLDEN").is_some() {
            fs::write(&path, &rust).unwrap();
        }
        let golden = fs::read_to_string(&path).unwrap();
        assert_eq!(rust, golden, "{file} differs");
    }
}
