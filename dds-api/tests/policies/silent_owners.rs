//! Owners that are silent: lost liveliness and missed deadlines end the ownership of instances, at
//! the same place of the order for all readers (I-215), and lost liveliness ends instances.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::support::{SOON, TestDomain, until};
use dds_api::infrastructure::{DataReaderListener, StatusKind};
use dds_api::prelude::*;
use dds_api::qos::{DataWriterQos, LivelinessQosPolicyKind, OwnershipQosPolicyKind};
use dds_api::subscription::InstanceState;
use dds_api::topic::TopicBuilder;

#[derive(DdsType, Clone, Copy, Debug, Default, PartialEq)]
struct Command {
    #[dds(key)]
    actuator: u32,
    from: i32,
    number: u64,
}

/// Lease and deadline period of the owner.
const PERIOD: Duration = Duration::from_millis(100);

fn create(topic: TopicBuilder<Command>, atomic: bool) -> Topic<Command> {
    let topic = if atomic { topic.atomic() } else { topic };
    topic.create().unwrap()
}

fn topic(participant: &DomainParticipant, atomic: bool) -> Topic<Command> {
    create(participant.topic("Commands").exclusive_ownership(), atomic)
}

/// Topic whose instances have no owner.
fn shared_topic(participant: &DomainParticipant, atomic: bool) -> Topic<Command> {
    create(participant.topic("Commands"), atomic)
}

fn owner_qos(strength: i32) -> DataWriterQos {
    let mut qos = DataWriterQos::default();
    qos.ownership.kind = OwnershipQosPolicyKind::Exclusive;
    qos.ownership_strength.value = strength;
    qos
}

fn with_lease(mut qos: DataWriterQos, kind: LivelinessQosPolicyKind) -> DataWriterQos {
    qos.liveliness.kind = kind;
    qos.liveliness.lease_duration = PERIOD.into();
    qos
}

fn with_deadline(mut qos: DataWriterQos) -> DataWriterQos {
    qos.deadline.period = PERIOD.into();
    qos
}

fn reader_of(participant: &DomainParticipant, atomic: bool) -> DataReader<Command> {
    let reader =
        participant.reader(&topic(participant, atomic)).reliable_all().exclusive_ownership();
    reader.keep_all().create().unwrap()
}

/// Senders and numbers of the samples that are taken now.
fn take_into(seen: &mut Vec<(i32, u64)>, reader: &DataReader<Command>) {
    let samples = reader.take_data(.., Timeout::millis(1)).unwrap();
    seen.extend(samples.map(|it| (it.from, it.number)));
}

/// A strong writer speaks, is silent, and speaks again, while a weak one writes all the time. One
/// reader reads all the time, another one only at the end.
fn silent_owner_is_replaced_until_it_speaks(qos: &DataWriterQos, atomic: bool) {
    let domain = TestDomain::new();
    let (ours, theirs, third) = (domain.join(), domain.join(), domain.join());
    let (eager, lazy) = (reader_of(&ours, atomic), reader_of(&third, atomic));
    let strong = ours.writer(&topic(&ours, atomic)).qos(qos).create().unwrap();
    let weak = theirs.writer(&topic(&theirs, atomic)).ownership_strength(1).create().unwrap();
    strong.wait_for_readers(2, SOON).unwrap();
    weak.wait_for_readers(2, SOON).unwrap();
    let mut number = 0;
    let mut write = |writer: &DataWriter<Command>, from| {
        number += 1;
        writer.write(&Command { actuator: 1, from, number }).unwrap();
    };
    let (mut seen, mut last) = (Vec::new(), Vec::new());
    for round in 0..2 {
        until("the strong writer is the owner", || {
            write(&strong, 9);
            write(&weak, 1);
            take_into(&mut seen, &eager);
            seen.last().is_some_and(|(from, _)| *from == 9)
        });
        until("the weak writer is the owner while the strong one is silent", || {
            write(&weak, 1);
            take_into(&mut seen, &eager);
            seen.last().is_some_and(|(from, _)| *from == 1)
        });
        assert!(seen.len() > round, "samples came");
    }
    if atomic {
        weak.wait_for_acknowledgments(SOON).unwrap();
        until("the other reader has the same samples", || {
            take_into(&mut seen, &eager);
            take_into(&mut last, &lazy);
            last.len() >= seen.len()
        });
        assert_eq!(last, seen, "both readers follow one order");
    }
}

#[test]
fn owner_that_loses_liveliness_is_replaced_until_it_speaks() {
    let qos = with_lease(owner_qos(9), LivelinessQosPolicyKind::ManualByTopic);
    silent_owner_is_replaced_until_it_speaks(&qos, false);
    silent_owner_is_replaced_until_it_speaks(&qos, true);
}

#[test]
fn owner_that_misses_its_deadline_is_replaced_until_it_speaks() {
    silent_owner_is_replaced_until_it_speaks(&with_deadline(owner_qos(9)), false);
    silent_owner_is_replaced_until_it_speaks(&with_deadline(owner_qos(9)), true);
}

/// The deadline of one instance says nothing about another one, and ends no instance.
#[test]
fn missed_deadline_ends_no_instance_and_concerns_no_other_one() {
    let domain = TestDomain::new();
    let (ours, theirs) = (domain.join(), domain.join());
    let reader = reader_of(&theirs, true);
    let qos = with_deadline(owner_qos(9));
    let strong = ours.writer(&topic(&ours, true)).qos(&qos).create().unwrap();
    let weak = theirs.writer(&topic(&theirs, true)).ownership_strength(1).create().unwrap();
    strong.wait_for_readers(1, SOON).unwrap();
    let command = |actuator, from| Command { actuator, from, number: 0 };
    strong.write(&command(1, 9)).unwrap();
    let mut senders = Vec::new();
    until("the weak writer owns the first instance", || {
        strong.write(&command(2, 9)).unwrap();
        weak.write(&command(1, 1)).unwrap();
        weak.write(&command(2, 1)).unwrap();
        for sample in reader.take_data(.., Timeout::millis(1)).unwrap() {
            assert_eq!(sample.info().instance_state, InstanceState::Alive);
            senders.push((sample.actuator, sample.from));
        }
        senders.contains(&(1, 1))
    });
    assert!(senders.contains(&(2, 9)), "{senders:?}");
}

/// A disposed instance stays with its owner (DDS 1.4, 2.2.3.9): the writer is still registered.
#[test]
fn dispose_does_not_end_ownership_and_unregister_does() {
    let domain = TestDomain::new();
    let (ours, theirs) = (domain.join(), domain.join());
    let reader = reader_of(&theirs, true);
    let strong = ours.writer(&topic(&ours, true)).qos(&owner_qos(9)).create().unwrap();
    let weak = ours.writer(&topic(&ours, true)).qos(&owner_qos(1)).create().unwrap();
    strong.wait_for_readers(1, SOON).unwrap();
    let command = |from, number| Command { actuator: 1, from, number };
    strong.write(&command(9, 1)).unwrap();
    strong.dispose(&command(9, 2)).unwrap();
    weak.write(&command(1, 3)).unwrap();
    strong.unregister_instance(&command(9, 4)).unwrap();
    weak.write(&command(1, 5)).unwrap();
    let mut seen = Vec::new();
    until("the weak writer owns the instance", || {
        take_into(&mut seen, &reader);
        seen.contains(&(1, 5))
    });
    assert_eq!(seen, [(9, 1), (1, 5)]);
}

#[test]
fn of_equally_strong_writers_the_one_with_the_smaller_handle_owns_the_instance() {
    let domain = TestDomain::new();
    let (ours, theirs) = (domain.join(), domain.join());
    let reader = reader_of(&theirs, true);
    let one = ours.writer(&topic(&ours, true)).qos(&owner_qos(5)).create().unwrap();
    let other = theirs.writer(&topic(&theirs, true)).qos(&owner_qos(5)).create().unwrap();
    one.wait_for_readers(1, SOON).unwrap();
    let owner = if one.instance_handle() < other.instance_handle() { 1 } else { 2 };
    let mut seen = Vec::new();
    for number in 0..10 {
        one.write(&Command { actuator: 1, from: 1, number }).unwrap();
        one.wait_for_acknowledgments(SOON).unwrap();
        other.write(&Command { actuator: 1, from: 2, number }).unwrap();
        other.wait_for_acknowledgments(SOON).unwrap();
    }
    until("the last sample of the owner came", || {
        take_into(&mut seen, &reader);
        seen.contains(&(owner, 9))
    });
    let of_other = seen.iter().filter(|(from, _)| *from != owner).count();
    assert!(of_other <= 1, "only before the first sample of the owner: {seen:?}");
}

/// Lost liveliness ends the instances that no other live writer has; a sample begins them again.
#[test]
fn lost_liveliness_ends_instances_without_another_live_writer() {
    use LivelinessQosPolicyKind::{ManualByParticipant, ManualByTopic};
    for kind in [ManualByTopic, ManualByParticipant] {
        for atomic in [false, true] {
            let domain = TestDomain::new();
            let (ours, theirs) = (domain.join(), domain.join());
            let there = shared_topic(&theirs, atomic);
            let reader = theirs.reader(&there).reliable_all().create().unwrap();
            let qos = with_lease(DataWriterQos::default(), kind);
            let silent = ours.writer(&shared_topic(&ours, atomic)).qos(&qos).create().unwrap();
            let other = theirs.writer(&there).create().unwrap();
            silent.wait_for_readers(1, SOON).unwrap();
            other.wait_for_readers(1, SOON).unwrap();
            let command = |actuator, from| Command { actuator, from, number: 0 };
            other.write(&command(1, 2)).unwrap();
            let mut ended = Vec::new();
            let mut take = |wanted: usize| {
                until("an instance is over", || {
                    for sample in reader.take(.., Timeout::millis(1)).unwrap() {
                        if sample.data().is_none() {
                            ended.push((sample.key_value().actuator, sample.info().instance_state));
                        }
                    }
                    ended.len() >= wanted
                });
                ended.clone()
            };
            for round in 1..3 {
                silent.write(&command(1, 1)).unwrap();
                silent.write(&command(2, 1)).unwrap();
                let over = vec![(2, InstanceState::NotAliveNoWriters); round];
                assert_eq!(take(round), over, "{kind:?}, atomic: {atomic}");
            }
        }
    }
}

/// The end of an instance by the end of its writer is news for a listener and for a status
/// condition, as a sample is.
#[test]
fn listener_and_condition_report_the_end_of_an_instance() {
    for atomic in [false, true] {
        let domain = TestDomain::new();
        let (ours, theirs) = (domain.join(), domain.join());
        let subscriber = theirs.subscriber().create().unwrap();
        let there = shared_topic(&theirs, atomic);
        let reader = subscriber.reader(&there).reliable_all().create().unwrap();
        let topic = shared_topic(&ours, atomic);
        let writer = ours.writer(&topic).autodispose_unregistered_instances(false);
        let writer = writer.create().unwrap();
        let calls = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&calls);
        struct Counter(Arc<AtomicUsize>);
        impl DataReaderListener<Command> for Counter {
            fn on_data_available(&mut self, reader: &DataReader<Command>) {
                let taken = reader.take(.., Timeout::NOW).unwrap();
                self.0.fetch_add(taken.count(), Ordering::AcqRel);
            }
        }
        reader.set_listener(Counter(count), StatusKind::DataAvailable).unwrap();
        writer.wait_for_readers(1, SOON).unwrap();
        writer.write(&Command { actuator: 1, from: 1, number: 1 }).unwrap();
        until("the sample is reported", || calls.load(Ordering::Acquire) == 1);
        writer.delete();
        until("the end is reported", || calls.load(Ordering::Acquire) == 2);
    }
}

/// The reader is made first, so its participant has not announced the writers when they match.
#[test]
fn reader_notices_the_end_of_one_of_two_writers_of_its_own_participant() {
    let domain = TestDomain::new();
    let participant = domain.join();
    let topic = shared_topic(&participant, false);
    let reader = participant.reader(&topic).reliable_all().create().unwrap();
    let writer = || {
        let writer = participant.writer(&topic).autodispose_unregistered_instances(false);
        writer.create().unwrap()
    };
    let (one, other) = (writer(), writer());
    reader.wait_for_writers(2, SOON).unwrap();
    one.write(&Command { actuator: 1, from: 1, number: 1 }).unwrap();
    other.write(&Command { actuator: 2, from: 2, number: 2 }).unwrap();
    let mut seen = 0;
    until("both samples came", || {
        seen += reader.take_data(.., Timeout::millis(1)).unwrap().count();
        seen == 2
    });
    drop(one);
    let mut ended = Vec::new();
    until("the instance is over", || {
        let notices = reader.take(.., Timeout::millis(1)).unwrap();
        ended.extend(notices.map(|it| (it.key_value().actuator, it.info().instance_state)));
        !ended.is_empty()
    });
    assert_eq!(ended, [(1, InstanceState::NotAliveNoWriters)]);
}
