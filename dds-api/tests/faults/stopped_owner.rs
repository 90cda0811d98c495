//! An owner whose process is stopped: on a topic without order each reader takes the instance from
//! it by the reader's own DEADLINE, or by its own lease (I-348).

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
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

/// Deadline or lease that the writers offer.
const OFFERED: Duration = Duration::from_millis(100);
/// Deadline or lease that the readers request.
const REQUESTED: Duration = Duration::from_millis(300);
/// Time between two samples of a writer.
const PAUSE: Duration = Duration::from_millis(5);

fn join(folder: &Path) -> DomainParticipant {
    DomainParticipant::with_config(0, ParticipantConfig::new().runtime_dir(folder)).unwrap()
}

fn topic(participant: &DomainParticipant) -> Topic<Command> {
    participant.topic("Commands").exclusive_ownership().create().unwrap()
}

/// Policy that makes the readers judge the owner.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Judgement {
    Deadline,
    Lease,
}

fn writer(participant: &DomainParticipant, strength: i32, by: Judgement) -> DataWriter<Command> {
    let mut qos = DataWriterQos::default();
    qos.ownership.kind = OwnershipQosPolicyKind::Exclusive;
    qos.ownership_strength.value = strength;
    match by {
        Judgement::Deadline => qos.deadline.period = OFFERED.into(),
        Judgement::Lease => qos.liveliness.lease_duration = OFFERED.into(),
    }
    participant.writer(&topic(participant)).qos(&qos).create().unwrap()
}

fn reader(participant: &DomainParticipant, by: Judgement) -> DataReader<Command> {
    let mut qos = DataReaderQos::default();
    qos.ownership.kind = OwnershipQosPolicyKind::Exclusive;
    qos.history.kind = HistoryQosPolicyKind::KeepAll;
    match by {
        Judgement::Deadline => qos.deadline.period = REQUESTED.into(),
        Judgement::Lease => qos.liveliness.lease_duration = REQUESTED.into(),
    }
    participant.reader(&topic(participant)).qos(&qos).reliable().create().unwrap()
}

fn command(from: i32, number: u64) -> Command {
    Command { actuator: 1, from, number, remark: "steer".to_owned() }
}

/// Role of a child process; does nothing when the test program is run normally.
#[test]
fn act() {
    let Some((role, folder)) = role() else { return };
    let by = if role == "lease" { Judgement::Lease } else { Judgement::Deadline };
    let participant = join(&folder);
    let strong = writer(&participant, 9, by);
    strong.wait_for_readers(2, SOON).unwrap();
    say("ready");
    let is_silent = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        let orders = scope.spawn(|| {
            while let Some(word) = listen() {
                is_silent.store(word == "silence", Ordering::Relaxed);
            }
        });
        for number in 1.. {
            if orders.is_finished() {
                break;
            }
            if !is_silent.load(Ordering::Relaxed) {
                strong.write(&command(9, number)).unwrap();
            }
            std::thread::sleep(PAUSE);
        }
    });
}

/// A backup that writes all the time, and two readers in its participant: an eager one, and one
/// that looks late.
struct Cockpit {
    weak: DataWriter<Command>,
    eager: DataReader<Command>,
    lazy: DataReader<Command>,
    number: u64,
    /// Senders and numbers of the samples that the eager reader has taken.
    seen: Vec<(i32, u64)>,
}

impl Cockpit {
    fn new(folder: &Path, by: Judgement) -> Cockpit {
        let here = join(folder);
        let (eager, lazy) = (reader(&here, by), reader(&here, by));
        Cockpit { weak: writer(&here, 1, by), eager, lazy, number: 0, seen: Vec::new() }
    }

    fn write(&mut self) {
        self.number += 1;
        self.weak.write(&command(1, self.number)).unwrap();
        std::thread::sleep(PAUSE);
        let samples = self.eager.take_data(.., Timeout::NOW).unwrap();
        self.seen.extend(samples.map(|it| (it.from, it.number)));
    }

    /// Writes until a writer is the owner. Returns the number of the last sample.
    fn write_until_owner_is(&mut self, from: i32) -> u64 {
        until("the expected writer is the owner", || {
            self.write();
            self.seen.last().is_some_and(|(last, _)| *last == from)
        });
        self.number
    }
}

/// The backup takes over from a strong writer that is stopped, at the same sample at a reader that
/// reads all the time and at one that looks late, and the strong writer owns the instance again
/// when it continues.
fn backup_replaces_a_stopped_owner(by: Judgement) {
    let domain = TestDomain::new();
    let mut cockpit = Cockpit::new(&domain.runtime_dir(), by);
    let role = if by == Judgement::Lease { "lease" } else { "deadline" };
    let mut strong = Actor::start(module_path!(), role, &domain, 0);
    assert_eq!(strong.hear(), "ready");
    cockpit.weak.wait_for_readers(2, SOON).unwrap();
    cockpit.write_until_owner_is(9);
    if by == Judgement::Lease {
        // A writer with automatic liveliness is alive without a write.
        strong.tell("silence");
        (0..100).for_each(|_| cockpit.write());
        assert!(cockpit.seen.last().is_some_and(|(from, _)| *from == 9), "the owner is alive");
        strong.tell("speak");
        let before = cockpit.seen.len();
        until("the owner speaks", || {
            cockpit.write();
            cockpit.seen.len() > before
        });
    }
    strong.signal(Signal::STOP);
    let at_stop = cockpit.write_until_owner_is(9);
    let at_end = cockpit.write_until_owner_is(1);
    let silence = PAUSE * u32::try_from(at_end - at_stop).unwrap();
    assert!(silence < 20 * REQUESTED, "the backup takes over after {silence:?}");
    // The late reader judges by the same times, while the owner is still stopped.
    let samples = cockpit.lazy.take_data(.., Timeout::NOW).unwrap();
    let late: Vec<(i32, u64)> = samples.map(|it| (it.from, it.number)).collect();
    let taken_over = |seen: &[(i32, u64)]| {
        let of_backup = seen.iter().position(|(from, number)| *from == 1 && *number > at_stop);
        of_backup.map(|at| seen[at])
    };
    assert!(taken_over(&late).is_some());
    assert_eq!(taken_over(&late), taken_over(&cockpit.seen), "both judge by the times of commits");
    strong.signal(Signal::CONT);
    cockpit.write_until_owner_is(9);
    strong.finish();
}

#[test]
fn backup_replaces_a_stopped_owner_after_the_readers_deadline() {
    backup_replaces_a_stopped_owner(Judgement::Deadline);
}

#[test]
fn backup_replaces_a_stopped_owner_after_the_readers_lease() {
    backup_replaces_a_stopped_owner(Judgement::Lease);
}
