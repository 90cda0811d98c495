//! A key-value store in two shards, with a late joiner that receives the part of its shard.
//!
//! ```text
//! cargo run --release -p squall-examples --bin group_store
//! ```
//! The first letter of a key selects its shard. The group distributes the members over the shards.
//! Each member writes the keys of its own shard, and asks a member of the other shard for the rest.

use std::collections::BTreeMap;
use std::time::Duration;

use derecho::{BalancedShards, Group, GroupBuilder, NodeId, Replicated, Wire};
use squall_examples::{ExampleResult, part, play_all};

const SHARDS: usize = 2;
const KEYS: usize = 100;
const LIMIT: Duration = Duration::from_secs(30);

#[derive(Default)]
struct Store(BTreeMap<String, String>);

impl Replicated for Store {
    type Update = (String, String);
    type Question = String;
    type Reply = Option<String>;

    fn apply(&mut self, _: NodeId, entry: Self::Update) -> Option<String> {
        let (key, value) = entry;
        self.0.insert(key, value)
    }

    fn answer(&self, _: NodeId, key: String) -> Option<String> {
        self.0.get(&key).cloned()
    }

    fn snapshot(&self) -> Vec<u8> {
        self.0.to_bytes()
    }

    fn restored(bytes: &[u8]) -> Option<Store> {
        Wire::from_bytes(bytes).map(Store)
    }
}

fn main() -> ExampleResult {
    match part()?.as_deref() {
        None => play_all(["member", "member", "late"]),
        Some("member") => serve(),
        Some("late") => come_late(),
        Some(other) => Err(format!("there is no part `{other}`: member or late").into()),
    }
}

fn join() -> derecho::Result<Group> {
    GroupBuilder::new("group-store")
        .replicated::<Store>("store", BalancedShards { shards: SHARDS, least: 1, most: 2 })
        .join(LIMIT)
}

/// Returns the shard to which the layout assigns this process.
fn own_shard(group: &Group) -> derecho::Result<usize> {
    let me = group.me();
    loop {
        let plan = group.wait_layout("store", LIMIT)?;
        let own = plan.iter().position(|shard| shard.iter().any(|place| place.node == me));
        if let Some(shard) = own {
            return Ok(shard);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn serve() -> ExampleResult {
    let group = join()?;
    let own = own_shard(&group)?;
    let store = group.shard::<Store>("store", own)?;
    store.wait_ready(LIMIT)?;
    for key in 0..KEYS {
        let pair = (format!("{own}-{key}"), format!("value {key}"));
        store.send(&pair, LIMIT)?;
    }
    // The late joiner asks, and leaves when it is done; then the others may leave too.
    group.wait_view(LIMIT, |view| view.members.len() == 3)?;
    group.wait_view(LIMIT, |view| view.members.len() < 3)?;
    group.leave(LIMIT)?;
    Ok(())
}

fn come_late() -> ExampleResult {
    std::thread::sleep(Duration::from_millis(300));
    let group = join()?;
    group.wait_view(LIMIT, |view| view.members.len() == 3)?;
    let own = own_shard(&group)?;
    let store = group.shard::<Store>("store", own)?;
    store.wait_ready(LIMIT)?;
    let last = KEYS - 1;
    while store.read(|store| store.0.len())? < KEYS {
        std::thread::sleep(Duration::from_millis(1));
    }
    println!("the late one has {KEYS} keys of its shard");

    let other = group.shard::<Store>("store", 1 - own)?;
    let plan = group.layout("store")?;
    let member = plan[1 - own][0].node;
    loop {
        let replies = other.ask(member, &format!("{}-{last}", 1 - own), LIMIT)?.wait(LIMIT)?;
        if let Some(Ok(Some(value))) = replies.get(&member) {
            println!("the other shard says: {value}");
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    group.leave(LIMIT)?;
    Ok(())
}
