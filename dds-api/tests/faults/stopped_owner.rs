//! An owner whose process is stopped: on a topic without order each reader takes the instance from
//! it by the reader's own DEADLINE (I-348).

use std::path::Path;
use std::time::Duration;

use dds_api::prelude::*;
use dds_api::qos::{DataReaderQos, DataWriterQos, HistoryQosPolicyKind, OwnershipQosPolicyKind};
use rustix::process::Signal;

use crate::support::{Actor, SOON, TestDomain, listen, role, say, until};

#[derive(DdsType, Clone, Debug, Default)]
struct Command {
    #[dds(key)]
    actuator: u32,
    from: i32,
    number: u64,
    /// Makes the type one that is not read in place.
    remark: String,
}

/// Deadline that the writers offer.
const OFFERED: Duration = Duration::from_millis(100);
/// Deadline that the readers request.
const REQUESTED: Duration = Duration::from_millis(300);
/// Time between two samples of a writer.
const PAUSE: Duration = Duration::from_millis(5);

fn join(folder: &Path) -> DomainParticipant {
    DomainParticipant::with_config(0, ParticipantConfig::new().runtime_dir(folder)).unwrap()
}

fn topic(participant: &DomainParticipant) -> Topic<Command> {
    participant.topic("Commands").exclusive_ownership().create().unwrap()
}

fn writer(participant: &DomainParticipant, strength: i32) -> DataWriter<Command> {
    let mut qos = DataWriterQos::default();
    qos.ownership.kind = OwnershipQosPolicyKind::Exclusive;
    qos.ownership_strength.value = strength;
    qos.deadline.period = OFFERED.into();
    participant.writer(&topic(participant)).qos(&qos).create().unwrap()
}

fn reader(participant: &DomainParticipant) -> DataReader<Command> {
    let mut qos = DataReaderQos::default();
    qos.ownership.kind = OwnershipQosPolicyKind::Exclusive;
    qos.history.kind = HistoryQosPolicyKind::KeepAll;
    qos.deadline.period = REQUESTED.into();
    participant.reader(&topic(participant)).qos(&qos).reliable().create().unwrap()
}

fn command(from: i32, number: u64) -> Command {
    Command { actuator: 1, from, number, remark: "steer".to_owned() }
}

/// Role of a child process; does nothing when the test program is run normally.
#[test]
fn act() {
    let Some((_, folder)) = role() else { return };
    let participant = join(&folder);
    let strong = writer(&participant, 9);
    strong.wait_for_readers(2, SOON).unwrap();
    say("ready");
    std::thread::scope(|scope| {
        let orders = scope.spawn(|| while listen().is_some() {});
        for number in 1.. {
            if orders.is_finished() {
                break;
            }
            strong.write(&command(9, number)).unwrap();
            std::thread::sleep(PAUSE);
        }
    });
}

/// The backup takes over from a strong writer that is stopped, at the same sample at a reader that
/// reads all the time and at one that looks late, and the strong writer owns the instance again
/// when it continues.
#[test]
fn backup_replaces_a_stopped_owner_after_the_readers_deadline() {
    let domain = TestDomain::new();
    let here = join(&domain.runtime_dir());
    let (eager, lazy) = (reader(&here), reader(&here));
    let weak = writer(&here, 1);
    let mut strong = Actor::start(module_path!(), "owner", &domain, 0);
    assert_eq!(strong.hear(), "ready");
    weak.wait_for_readers(2, SOON).unwrap();
    let (mut number, mut seen) = (0, Vec::new());
    let mut write_until_from = |from: i32, seen: &mut Vec<(i32, u64)>| {
        until("the expected writer is the owner", || {
            number += 1;
            weak.write(&command(1, number)).unwrap();
            std::thread::sleep(PAUSE);
            let samples = eager.take_data(.., Timeout::NOW).unwrap();
            seen.extend(samples.map(|it| (it.from, it.number)));
            seen.last().is_some_and(|(last, _)| *last == from)
        });
        number
    };
    write_until_from(9, &mut seen);
    strong.signal(Signal::STOP);
    let at_stop = write_until_from(9, &mut seen);
    let at_end = write_until_from(1, &mut seen);
    let silence = PAUSE * u32::try_from(at_end - at_stop).unwrap();
    assert!(silence < 20 * REQUESTED, "the backup takes over after {silence:?}");
    strong.signal(Signal::CONT);
    write_until_from(9, &mut seen);
    strong.finish();
    weak.wait_for_acknowledgments(SOON).unwrap();
    let mut late = Vec::new();
    until("the late reader has the same samples", || {
        for (reader, found) in [(&eager, &mut seen), (&lazy, &mut late)] {
            let samples = reader.take_data(.., Timeout::NOW).unwrap();
            found.extend(samples.map(|it| (it.from, it.number)));
        }
        late.len() >= seen.len()
    });
    let owners = |seen: &[(i32, u64)]| {
        let mut owners: Vec<i32> = seen.iter().map(|(from, _)| *from).collect();
        owners.dedup();
        owners
    };
    assert!(owners(&seen).ends_with(&[9, 1, 9]) || owners(&seen).ends_with(&[9, 1, 9, 1]));
    let taken_over = |seen: &[(i32, u64)]| {
        let of_backup = seen.iter().position(|(from, number)| *from == 1 && *number > at_stop);
        of_backup.map(|at| seen[at])
    };
    assert_eq!(taken_over(&late), taken_over(&seen), "both readers judge by the times of commits");
}
