//! Without `crate`, the types are those of `dds_api`, which this file stands in for.
extern crate self as dds_api;

pub mod types {
    pub use idl_cdr::*;
}

#[derive(types::DdsType)]
struct Reading {
    #[dds(key, bound = 8)]
    name: String,
    level: Level,
}

#[derive(types::DdsType)]
enum Level {
    Low,
    High,
}

fn main() {
    for level in [Level::Low, Level::High] {
        let reading = Reading { name: "a".to_owned(), level };
        assert_eq!(types::key_to_cdr(&reading).map(|key| key.len()), Ok(6));
    }
}
