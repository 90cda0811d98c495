//! Four processes count to 10,000 in lock step over a shared state table: no process counts to `n +
//! 1` before all have counted to `n`.

use dds_api::prelude::*;
use dds_api::shared_state::SharedState;
use squall_examples::{ExampleResult, part, play_all};
use sst_programs::counting::{Count, setup};

const MEMBERS: usize = 4;
const TARGET: u64 = 10_000;

fn main() -> ExampleResult {
    match part()?.as_deref() {
        None => play_all(["counter"; MEMBERS]),
        Some("counter") => count(),
        Some(other) => Err(format!("there is no part `{other}`: counter").into()),
    }
}

fn count() -> ExampleResult {
    let table = SharedState::join("example-counting", MEMBERS, Count::ZERO, setup(TARGET, |_| {}))?;
    table.wait_until(Timeout::secs(60), |table| table.rows().all(|row| row.get(Count::done)))?;
    let counts: Vec<u64> = table.snapshot()?.all().iter().map(|row| row.count).collect();
    println!("process {}: everyone has counted: {counts:?}", std::process::id());
    Ok(())
}
