//! DEADLINE and LIVELINESS: writers that break a promise, and the notifications.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::support::{Actor, SOON, TestDomain, join, listen, role, say, until};
use dds_api::infrastructure::{StatusKind, WaitSet};
use dds_api::prelude::*;
use dds_api::qos::{DataReaderQos, DataWriterQos, LivelinessQosPolicyKind};

#[derive(DdsType, Clone, Copy, Debug, Default, PartialEq)]
struct Track {
    #[dds(key)]
    id: u32,
    height: f64,
}

/// Role of a child process; does nothing when the test program is run normally.
#[test]
fn act() {
    let Some((role, folder)) = role() else { return };
    assert_eq!(role, "writer");
    let participant = join(&folder);
    let topic = participant.topic::<Track>("Tracks").atomic().create().unwrap();
    let _writer = participant.writer(&topic).create().unwrap();
    say("ready");
    while listen().is_some() {}
}

/// A deadline that is met easily when samples are written, and certainly missed otherwise, even on
/// a busy machine.
const PERIOD: Duration = Duration::from_millis(100);

fn track(id: u32) -> Track {
    Track { id, height: 0.0 }
}

/// One of two instances is no longer written; both sides report it, without being asked, once per
/// missed period.
#[test]
fn missed_deadline_is_reported_on_both_sides() {
    for atomic in [false, true] {
        let domain = TestDomain::new();
        let (ours, theirs) = (domain.join(), domain.join());
        let topic = |participant: &DomainParticipant| {
            let topic = participant.topic::<Track>("Tracks").deadline(PERIOD);
            let topic = if atomic { topic.atomic() } else { topic };
            topic.create().unwrap()
        };
        let writer = ours.writer(&topic(&ours)).create().unwrap();
        let reader = Arc::new(theirs.reader(&topic(&theirs)).reliable_all().create().unwrap());
        writer.wait_for_readers(1, SOON).unwrap();
        assert_eq!(writer.offered_deadline_missed_status().total_count, 0);
        let offered = writer.status_condition();
        offered.set_enabled_statuses(StatusKind::OfferedDeadlineMissed);
        let requested = reader.status_condition();
        requested.set_enabled_statuses(StatusKind::RequestedDeadlineMissed);
        let handle = writer.register_instance(&track(2)).unwrap();
        writer.write(&track(1)).unwrap();
        writer.write(&track(2)).unwrap();
        writer.dispose(&track(1)).unwrap();
        let begun = Instant::now();
        for condition in [&offered, &requested] {
            let wait_set = WaitSet::new();
            wait_set.attach(condition).unwrap();
            wait_set.wait(SOON).unwrap();
        }
        assert!(begun.elapsed() >= PERIOD / 2, "{:?}", begun.elapsed());
        let offered = writer.offered_deadline_missed_status();
        let requested = reader.requested_deadline_missed_status();
        assert!(offered.total_count >= 1 && requested.total_count >= 1);
        let of_it = [offered.last_instance_handle, requested.last_instance_handle];
        assert_eq!(of_it, [Some(handle); 2], "only what is not over is waited for");
        until("it is missed again", || {
            writer.offered_deadline_missed_status().total_count > offered.total_count
                && reader.requested_deadline_missed_status().total_count > requested.total_count
        });
        writer.dispose(&track(2)).unwrap();
        writer.wait_for_acknowledgments(SOON).unwrap();
        until("the reader knows", || reader.take(.., Timeout::NOW).unwrap().count() > 0);
        let totals = || {
            let offered = writer.offered_deadline_missed_status().total_count;
            (offered, reader.requested_deadline_missed_status().total_count)
        };
        let over = totals();
        std::thread::sleep(3 * PERIOD);
        assert_eq!(totals(), over, "nothing is due any more");
    }
}

/// A deadline set on an active writer applies from the next sample of each instance.
#[test]
fn a_deadline_may_be_set_later() {
    let domain = TestDomain::new();
    let participant = domain.join();
    let topic = participant.topic::<Track>("Tracks").create().unwrap();
    let writer = participant.writer(&topic).create().unwrap();
    let reader = participant.reader(&topic).reliable_all().create().unwrap();
    writer.wait_for_readers(1, SOON).unwrap();
    let loan = writer.loan().unwrap();
    let mut qos = writer.qos();
    qos.deadline.period = PERIOD.into();
    writer.set_qos(&qos).unwrap();
    loan.publish().unwrap();
    writer.write(&track(3)).unwrap();
    until("it is missed", || writer.offered_deadline_missed_status().total_count > 0);
    let mut qos = reader.qos();
    qos.deadline.period = PERIOD.into();
    reader.set_qos(&qos).unwrap();
    assert_eq!(
        reader.take_data(.., SOON).unwrap().map(|track| track.id).collect::<Vec<_>>(),
        [0, 3]
    );
    until("it is missed there", || reader.requested_deadline_missed_status().total_count > 1);
    qos.deadline.period = dds_api::qos::Duration::INFINITE;
    let mut offered = writer.qos();
    offered.deadline.period = dds_api::qos::Duration::INFINITE;
    writer.set_qos(&offered).unwrap();
    reader.set_qos(&qos).unwrap();
    let total = writer.offered_deadline_missed_status().total_count;
    std::thread::sleep(2 * PERIOD);
    assert_eq!(writer.offered_deadline_missed_status().total_count, total);
}

fn manual(kind: LivelinessQosPolicyKind) -> DataWriterQos {
    let mut qos = DataWriterQos::default();
    qos.liveliness.kind = kind;
    qos.liveliness.lease_duration = PERIOD.into();
    qos
}

/// A writer with manual liveliness that asserts nothing: its readers are notified, and again when
/// it asserts.
#[test]
fn silent_writer_is_not_alive_until_it_asserts_liveliness() {
    let domain = TestDomain::new();
    let (ours, theirs) = (domain.join(), domain.join());
    let topic = |participant: &DomainParticipant| {
        participant.topic::<Track>("Tracks").atomic().create().unwrap()
    };
    let here = topic(&ours);
    let qos = manual(LivelinessQosPolicyKind::ManualByTopic);
    let writer = ours.writer(&here).qos(&qos).create().unwrap();
    let other = ours.writer(&here).create().unwrap();
    let reader = Arc::new(theirs.reader(&topic(&theirs)).reliable_all().create().unwrap());
    let condition = reader.status_condition();
    condition.set_enabled_statuses(StatusKind::LivelinessChanged);
    let counts = || {
        let status = reader.liveliness_changed_status();
        (status.alive_count, status.not_alive_count)
    };
    let wait_set = WaitSet::new();
    wait_set.attach(&condition).unwrap();
    while counts() != (1, 1) {
        // The writer is not called.
        wait_set.wait(SOON).unwrap();
    }
    assert_eq!(writer.liveliness_lost_status().total_count, 1);
    assert_eq!(other.liveliness_lost_status().total_count, 0);
    other.assert_liveliness().unwrap();
    assert_eq!(counts(), (1, 1), "another writer speaks for itself");
    writer.assert_liveliness().unwrap();
    while counts() != (2, 0) {
        wait_set.wait(SOON).unwrap();
    }
    assert_eq!(reader.subscription_matched_status().total_count, 2, "it was matched all the time");
    let begun = Instant::now();
    let lost = writer.liveliness_lost_status().total_count;
    while begun.elapsed() < 3 * PERIOD {
        writer.write(&track(1)).unwrap();
        std::thread::sleep(Duration::from_millis(1));
    }
    let now = writer.liveliness_lost_status().total_count;
    assert!(now <= lost + 1, "each write says that it is alive");
    drop(writer);
    until("it is gone", || counts() == (1, 0));
}

/// With liveliness by participant, each of its writers asserts it, and so does the
/// participant itself.
#[test]
fn writers_and_participant_renew_leases_of_all_writers() {
    let domain = TestDomain::new();
    let participant = domain.join();
    let topic = participant.topic::<Track>("Tracks").create().unwrap();
    let mut qos = manual(LivelinessQosPolicyKind::ManualByParticipant);
    let one = participant.writer(&topic).qos(&qos).create().unwrap();
    qos.liveliness.lease_duration = Duration::from_millis(50).into();
    let other = participant.writer(&topic).qos(&qos).create().unwrap();
    let liveliness = manual(LivelinessQosPolicyKind::ManualByParticipant).liveliness;
    let requested = DataReaderQos { liveliness, ..DataReaderQos::default() };
    let reader = participant.reader(&topic).qos(&requested).create().unwrap();
    until("both are lost", || {
        let status = reader.liveliness_changed_status();
        (status.alive_count, status.not_alive_count) == (0, 2)
    });
    let writes = || one.write(&track(1)).unwrap();
    let says = || participant.assert_liveliness().unwrap();
    for speak in [&writes as &dyn Fn(), &says] {
        let mut revived = false;
        until("both are alive", || {
            speak();
            revived |= reader.liveliness_changed_status().alive_count == 2;
            revived
        });
        until("both are lost again", || reader.liveliness_changed_status().not_alive_count == 2);
    }
    assert!(one.liveliness_lost_status().total_count >= 2);
    assert!(other.liveliness_lost_status().total_count >= 2);
}

/// Automatic liveliness lasts as long as the process.
#[test]
fn a_killed_process_has_no_writer_that_is_alive() {
    let domain = TestDomain::new();
    let participant = domain.join();
    let topic = participant.topic::<Track>("Tracks").atomic().create().unwrap();
    let reader = participant.reader(&topic).reliable_all().create().unwrap();
    let mut actor = Actor::start(module_path!(), "writer", &domain, 0);
    assert_eq!(actor.hear(), "ready");
    until("it is alive", || reader.liveliness_changed_status().alive_count == 1);
    actor.kill();
    until("it is not", || reader.liveliness_changed_status().alive_count == 0);
    assert_eq!(reader.liveliness_changed_status().not_alive_count, 0);
}
