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
    // Longer than any stop, so that no participant is excluded.
    let config = ParticipantConfig::new().member_timeout(Duration::from_secs(30));
    DomainParticipant::with_config(0, config.runtime_dir(folder)).unwrap()
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
    if role == "reader" {
        return act_reader(&folder);
    }
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

/// Deadline of the writers and of the reader whose process is stopped. A busy machine delays no
/// writer for as long.
const LONG: Duration = Duration::from_secs(1);

fn long_deadline(strength: i32) -> DataWriterQos {
    let mut qos = DataWriterQos::default();
    qos.ownership.kind = OwnershipQosPolicyKind::Exclusive;
    qos.ownership_strength.value = strength;
    qos.deadline.period = LONG.into();
    qos
}

/// Takes all samples, and reports the senders at the end, once the strong writer is the owner.
fn act_reader(folder: &Path) {
    let participant = join(folder);
    let mut qos = DataReaderQos::default();
    qos.ownership.kind = OwnershipQosPolicyKind::Exclusive;
    qos.history.kind = HistoryQosPolicyKind::KeepAll;
    qos.deadline.period = LONG.into();
    let reader = participant.reader(&topic(&participant)).qos(&qos).reliable().create().unwrap();
    let mut senders: Vec<i32> = Vec::new();
    std::thread::scope(|scope| {
        let orders = scope.spawn(listen);
        while !orders.is_finished() {
            let samples = reader.take_data(.., Timeout::millis(5)).unwrap();
            let begun = senders.contains(&9);
            senders.extend(samples.map(|it| it.from));
            if !begun && senders.contains(&9) {
                say("owned");
            }
        }
    });
    let first = senders.iter().position(|from| *from == 9).unwrap();
    say(&format!("{} of the backup", senders[first..].iter().filter(|from| **from == 1).count()));
}

/// An owner that writes in time stays the owner for a reader whose process was stopped for longer
/// than the deadline.
#[test]
fn owner_stays_for_a_reader_that_was_stopped() {
    let domain = TestDomain::new();
    let folder = domain.runtime_dir();
    let (one, other) = (join(&folder), join(&folder));
    let strong = one.writer(&topic(&one)).qos(&long_deadline(9)).create().unwrap();
    let weak = other.writer(&topic(&other)).qos(&long_deadline(1)).create().unwrap();
    let mut actor = Actor::start(module_path!(), "reader", &domain, 0);
    strong.wait_for_readers(1, SOON).unwrap();
    weak.wait_for_readers(1, SOON).unwrap();
    let is_over = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        for (writer, from) in [(&strong, 9), (&weak, 1)] {
            scope.spawn(move || {
                for number in 1.. {
                    if is_over.load(Ordering::Relaxed) {
                        break;
                    }
                    writer.write(&command(from, number)).unwrap();
                    std::thread::sleep(PAUSE / 2);
                }
            });
        }
        assert_eq!(actor.hear(), "owned");
        for _ in 0..5 {
            actor.signal(Signal::STOP);
            std::thread::sleep(LONG + LONG / 3);
            actor.signal(Signal::CONT);
            std::thread::sleep(LONG / 4);
        }
        is_over.store(true, Ordering::Relaxed);
    });
    actor.tell("end");
    assert_eq!(actor.hear(), "0 of the backup");
    actor.finish();
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

    /// Checks that the late reader takes the instance from the stopped owner at the same sample:
    /// both judge by the times of commits.
    fn assert_late_reader_agrees(&self, at_stop: u64) {
        let samples = self.lazy.take_data(.., Timeout::NOW).unwrap();
        let late: Vec<(i32, u64)> = samples.map(|it| (it.from, it.number)).collect();
        let taken_over = |seen: &[(i32, u64)]| {
            let of_backup = seen.iter().position(|(from, number)| *from == 1 && *number > at_stop);
            of_backup.map(|at| seen[at])
        };
        assert!(taken_over(&late).is_some());
        assert_eq!(taken_over(&late), taken_over(&self.seen));
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

/// The backup takes over from a strong writer that is stopped, and the strong writer owns the
/// instance again when it continues.
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
    if by == Judgement::Deadline {
        cockpit.assert_late_reader_agrees(at_stop);
    }
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
