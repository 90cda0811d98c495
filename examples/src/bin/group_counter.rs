//! Four processes count together, and all of them answer every query.
//!
//! ```text
//! cargo run --release -p squall-examples --bin group_counter
//! ```
//! Each process adds to one replicated counter. Updates have one order, so all members give the
//! same answer to the same query, whichever process asks.

use std::time::Duration;

use derecho::{GroupBuilder, NodeId, OneShard, Replicated, Wire};
use squall_examples::{ExampleResult, part, play_all};

const MEMBERS: usize = 4;
const STEPS: u64 = 250;
const LIMIT: Duration = Duration::from_secs(30);

#[derive(Default)]
struct Counter(u64);

impl Replicated for Counter {
    type Update = u64;
    type Question = ();
    type Reply = u64;

    fn apply(&mut self, _: NodeId, add: u64) -> u64 {
        self.0 += add;
        self.0
    }

    fn answer(&self, _: NodeId, (): ()) -> u64 {
        self.0
    }

    fn snapshot(&self) -> Vec<u8> {
        self.0.to_bytes()
    }

    fn restored(bytes: &[u8]) -> Option<Counter> {
        u64::from_bytes(bytes).map(Counter)
    }
}

fn main() -> ExampleResult {
    match part()?.as_deref() {
        None => play_all(["member"; MEMBERS]),
        Some("member") => count(),
        Some(other) => Err(format!("there is no part `{other}`: member").into()),
    }
}

fn count() -> ExampleResult {
    // The counter exists as soon as all members are present.
    let group = GroupBuilder::new("group-counter")
        .replicated::<Counter>("counter", OneShard { least: MEMBERS })
        .join(LIMIT)?;
    let counter = group.shard::<Counter>("counter", 0)?;
    counter.wait_ready(LIMIT)?;

    for _ in 0..STEPS {
        counter.send(&1, LIMIT)?;
    }
    let replies = counter.query(&1, LIMIT)?.wait(LIMIT)?;
    let mut answers: Vec<u64> = replies.values().flatten().copied().collect();
    let answered = answers.len();
    answers.dedup();
    println!("{answered} members answered, all the same: {}", answers.len() == 1);

    let whole = MEMBERS as u64 * (STEPS + 1);
    while counter.read(|counter| counter.0)? < whole {
        std::thread::sleep(Duration::from_millis(1));
    }
    println!("the counter stands at {whole}");
    // With fewer members the counter would cease to exist, so all members must have seen its value
    // before one leaves.
    std::thread::sleep(Duration::from_secs(1));
    group.leave(LIMIT)?;
    Ok(())
}
