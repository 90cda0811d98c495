//! Exclusive ownership changes from one writer to the next at the same sample for all readers
//! (I-145), whenever they read and whenever they joined.

use std::path::Path;
use std::time::Duration;

use crate::support::{Actor, SOON, TestDomain, role, say, seed, until};
use dds_api::prelude::*;
use dds_api::subscription::InstanceState;

#[derive(DdsType, Clone, Copy, Debug, Default, PartialEq)]
struct Command {
    #[dds(key)]
    actuator: u32,
    /// Strength of the writer.
    from: u64,
    number: u64,
}

/// Delivery of a topic.
#[derive(Clone, Copy, PartialEq, Debug)]
enum How {
    Atomic,
    Kept,
    Durable,
}

const ALL: [How; 3] = [How::Atomic, How::Kept, How::Durable];

impl How {
    fn join(self, folder: &Path, name: &str) -> DomainParticipant {
        let mut config = ParticipantConfig::new().runtime_dir(folder);
        if self == How::Durable {
            let logs = folder.parent().unwrap().join("logs").join(name);
            std::fs::create_dir_all(&logs).unwrap();
            config = config.log_folder(logs);
        }
        DomainParticipant::with_config(0, config).unwrap()
    }

    fn topic(self, participant: &DomainParticipant) -> Topic<Command> {
        let topic = participant.topic("Commands").exclusive_ownership();
        let topic = match self {
            How::Atomic => topic.atomic(),
            How::Kept => topic.transient_local().keep_all(),
            How::Durable => topic.persistent().keep_all().durable_first(),
        };
        topic.create().unwrap()
    }

    fn reader(self, participant: &DomainParticipant) -> DataReader<Command> {
        let reader =
            participant.reader(&self.topic(participant)).reliable_all().exclusive_ownership();
        reader.keep_all().create().unwrap()
    }
}

#[test]
fn act() {
    let Some((role, folder)) = role() else { return };
    let strength = seed() / 10;
    let how = ALL[(seed() % 10) as usize];
    assert_eq!(role, "writer");
    let participant = how.join(&folder, &format!("writer{strength}"));
    let writer = participant.writer(&how.topic(&participant)).ownership_strength(strength as i32);
    let writer = writer.max_blocking_time(SOON).create().unwrap();
    writer.wait_for_readers(2, SOON).unwrap();
    for number in 0.. {
        writer.write(&Command { actuator: 1, from: strength, number }).unwrap();
        if number == 0 {
            say("writes");
        }
        std::thread::sleep(Duration::from_micros(300));
    }
}

/// Takes into `seen`; only samples of the owners are delivered.
fn take_into(seen: &mut Vec<(u64, u64)>, reader: &DataReader<Command>) {
    let samples = reader.take_data(.., Timeout::millis(1)).unwrap();
    seen.extend(samples.map(|sample| (sample.from, sample.number)));
}

/// Takes until no writer is left, and all samples have arrived.
fn take_to_the_end(reader: &DataReader<Command>) -> Vec<(u64, u64)> {
    let (mut seen, mut is_over) = (Vec::new(), false);
    until("the last writer is lost", || {
        for sample in reader.take(.., Timeout::millis(1)).unwrap() {
            is_over = sample.info().instance_state == InstanceState::NotAliveNoWriters;
            if let Some(data) = sample.data() {
                seen.push((data.from, data.number));
            }
        }
        is_over
    });
    seen
}

/// Increasingly strong writers join, and are killed; each time the weakest commands again. One
/// reader reads all the time, one only at the end, and one joins shortly before the end.
fn is_handed_over_at_one_place(how: How) {
    let domain = TestDomain::new();
    let folder = domain.runtime_dir();
    let [eager, lazy] = ["eager", "lazy"].map(|name| how.join(&folder, name));
    let (eager, lazy) = (how.reader(&eager), how.reader(&lazy));
    let code = |strength: u64| strength * 10 + how as u64;
    let mut weak = Actor::start(module_path!(), "writer", &domain, code(1));
    assert_eq!(weak.hear(), "writes");
    let mut seen = Vec::new();
    for strength in 2..6 {
        let mut strong = Actor::start(module_path!(), "writer", &domain, code(strength));
        assert_eq!(strong.hear(), "writes");
        let mut is_last = |strength| {
            take_into(&mut seen, &eager);
            seen.last().is_some_and(|(from, _)| *from == strength)
        };
        until("the stronger one commands", || is_last(strength));
        strong.kill();
        until("the weak one commands again", || is_last(1));
    }
    let late = (how != How::Atomic).then(|| how.join(&folder, "late"));
    let late = late.map(|late| {
        let late = how.reader(&late);
        late.wait_for_historical_data(SOON).unwrap();
        late
    });
    weak.kill();
    seen.extend(take_to_the_end(&eager));
    assert_eq!(take_to_the_end(&lazy), seen, "{how:?}: who looks in the end");
    if let Some(late) = late {
        assert_eq!(take_to_the_end(&late), seen, "{how:?}: who comes in the end");
    }
}

#[test]
fn ownership_of_atomic_topic_changes_at_same_sample_for_all_readers() {
    is_handed_over_at_one_place(How::Atomic);
}

#[test]
fn ownership_of_kept_topic_changes_at_same_sample_for_all_readers() {
    is_handed_over_at_one_place(How::Kept);
}

#[test]
fn ownership_of_durable_first_topic_changes_at_same_sample_for_all() {
    is_handed_over_at_one_place(How::Durable);
}
