//! A replicated key-value store: every process has the whole store in its memory, and all agree.
//!
//! ```text
//! cargo run --release -p squall-examples --bin key_value
//! ```
//! The store *is* a reader's cache: a put is a sample of the key's instance, a removal disposes it,
//! and the cache keeps the last sample of each. The topic is atomic, so all replicas see the puts
//! of all processes in one order, and of two puts to one key the same one wins everywhere. The
//! topic is transient-local, so a late joiner receives the current values.

use std::collections::BTreeMap;

use dds_api::prelude::*;
use dds_api::subscription::{InstanceState, States};
use squall_examples::{ExampleResult, part, play_all};

/// Value of a key.
#[derive(DdsType, Clone, Debug, Default)]
struct Entry {
    #[dds(key)]
    key: String,
    value: u64,
}

/// Time limit of each step.
const SOON: Timeout = Timeout::secs(30);

/// A replica of the store.
struct Store {
    writer: DataWriter<Entry>,
    replica: DataReader<Entry>,
}

impl Store {
    fn join() -> DdsResult<Store> {
        let participant = DomainParticipant::new(0)?;
        let topic = participant.topic::<Entry>("Store").transient_local().create()?;
        let replica = participant.reader(&topic).reliable().keep_last(1).create()?;
        let writer = participant.writer(&topic).max_blocking_time(SOON);
        // The values of a replica outlive it.
        let writer = writer.autodispose_unregistered_instances(false).create()?;
        replica.wait_for_historical_data(SOON)?;
        Ok(Store { writer, replica })
    }

    fn put(&self, key: &str, value: u64) -> DdsResult<()> {
        self.writer.write(&Entry { key: key.to_owned(), value })
    }

    fn remove(&self, key: &str) -> DdsResult<()> {
        self.writer.dispose(&Entry { key: key.to_owned(), value: 0 })
    }

    fn get(&self, key: &str) -> DdsResult<Option<u64>> {
        let entry = Entry { key: key.to_owned(), value: 0 };
        let Some(instance) = self.replica.lookup_instance(&entry) else { return Ok(None) };
        let last = self.replica.read_instance(..1, instance, States::any())?;
        let alive = last.first().filter(|last| is_there(&last.info()));
        Ok(alive.and_then(Sample::data).map(|entry| entry.value))
    }

    /// Returns all keys of this kind, with their values.
    fn list(&self, kind: &str) -> DdsResult<BTreeMap<String, u64>> {
        let all = self.replica.read_data(.., Timeout::NOW)?;
        let chosen =
            all.iter().filter(|entry| is_there(&entry.info()) && entry.key.starts_with(kind));
        Ok(chosen.map(|entry| (entry.key.clone(), entry.value)).collect())
    }

    /// Waits until there is a number of keys of this kind.
    fn wait_for(&self, kind: &str, count: usize) -> DdsResult<()> {
        while self.list(kind)?.len() < count {
            self.replica.read_data(.., Timeout::millis(100))?; // until there is something new
        }
        Ok(())
    }
}

/// Whether the entry has a value. The process that put it may be gone.
fn is_there(entry: &SampleInfo) -> bool {
    entry.instance_state != InstanceState::NotAliveDisposed
}

/// Two replicas put to the same keys at the same time; a third one joins when they are done.
fn main() -> ExampleResult {
    match part()?.as_deref() {
        None => play_all(["left", "right", "late"]),
        Some("late") => play("late"),
        Some(name @ ("left" | "right")) => play(name),
        Some(other) => Err(format!("there is no part `{other}`: left, right or late").into()),
    }
}

fn play(name: &str) -> ExampleResult {
    let store = Store::join()?;
    if name != "late" {
        store.put(&format!("here/{name}"), 1)?;
        store.wait_for("here/", 2)?;
        let own = if name == "left" { 1 } else { 2 };
        for round in 0..500 {
            store.put(&format!("item/{}", round % 5), 10 * round + own)?;
        }
        store.put(&format!("put/{name}"), 1)?;
        store.wait_for("put/", 2)?;
        store.remove(&format!("item/{own}"))?;
    }
    store.put(&format!("done/{name}"), 1)?;
    store.wait_for("done/", 3)?;
    println!("{name} has {:?}; item/0 is {:?}", store.list("item/")?, store.get("item/0")?);
    // A departing replica takes nothing away, but the last query must be answered before it leaves.
    store.put(&format!("over/{name}"), 1)?;
    Ok(store.wait_for("over/", 3)?)
}
