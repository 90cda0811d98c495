//! RESOURCE_LIMITS of writers: the numbers of samples in flight, and of their instances.

use crate::levels::{LEVELS, at_level, take};
use crate::runtime::block_on;
use crate::support::{SOON, TestDomain};
use dds_api::prelude::*;
use dds_api::publication::Publisher;
use dds_api::qos::{
    DataWriterQos, DurabilityQosPolicyKind, Length, PresentationQosPolicy, ResourceLimitsQosPolicy,
};

const A_MOMENT: Timeout = Timeout::millis(20);

#[derive(DdsType, Clone, Copy, Debug, Default, PartialEq)]
struct Track {
    #[dds(key)]
    id: u32,
    number: u64,
}

fn track(id: u32, number: u64) -> Track {
    Track { id, number }
}

fn limits(samples: u16, instances: u16, each: u16) -> ResourceLimitsQosPolicy {
    let length = |limit| if limit == 0 { Length::UNLIMITED } else { Length::of(limit) };
    ResourceLimitsQosPolicy {
        max_samples: length(samples),
        max_instances: length(instances),
        max_samples_per_instance: length(each),
    }
}

fn is_late(result: DdsResult<()>) -> bool {
    match result {
        Ok(()) => false,
        Err(DdsError::Timeout(why)) => {
            assert!(why.contains("RESOURCE_LIMITS") && why.contains("`Tracks`"), "{why}");
            true
        }
        Err(other) => panic!("{other}"),
    }
}

/// Creates a writer with limits, and a reader whose participant receives only in its own calls.
fn limited(
    domain: &TestDomain,
    level: &str,
    limits: ResourceLimitsQosPolicy,
) -> (DataWriter<Track>, DataReader<Track>) {
    let here = domain.join();
    let config = ParticipantConfig::new().runtime_dir(domain.runtime_dir()).caller_drives();
    let there = DomainParticipant::with_config(0, config).unwrap();
    let topic = at_level(here.topic("Tracks"), level);
    let reader =
        there.reader(&at_level(there.topic("Tracks"), level)).reliable_all().create().unwrap();
    let writer = here.writer(&topic).resource_limits(limits).max_blocking_time(A_MOMENT);
    let writer = writer.create().unwrap();
    while writer.matched_readers() == 0 || reader.matched_writers() == 0 {
        assert_eq!(reader.take_data(.., Timeout::millis(1)).unwrap().count(), 0);
    }
    (writer, reader)
}

/// Creates a writer with at most two instances, whose publisher has coherent access, without which
/// a set holds nothing back; and its reader.
fn of_two_instances(
    participant: &DomainParticipant,
) -> (Publisher, DataWriter<Track>, DataReader<Track>) {
    let topic = at_level(participant.topic("Tracks"), "atomic");
    let reader = participant.reader(&topic).reliable_all().create().unwrap();
    let coherent = PresentationQosPolicy { coherent_access: true, ..Default::default() };
    let publisher = participant.publisher().presentation(coherent).create().unwrap();
    let writer = publisher.writer(&topic).resource_limits(limits(0, 2, 0)).create().unwrap();
    (publisher, writer, reader)
}

/// Checks that a call failed because of one instance too many.
fn refused(result: DdsResult<()>) {
    match result {
        Err(DdsError::OutOfResources(why)) => assert!(why.contains("max_instances"), "{why}"),
        other => panic!("{other:?}"),
    }
}

/// Writes up to the limit; returns the written samples.
fn fill(writer: &DataWriter<Track>, samples: impl IntoIterator<Item = Track>) -> Vec<Track> {
    samples.into_iter().take_while(|sample| !is_late(writer.write(sample))).collect()
}

#[test]
fn write_beyond_max_samples_waits_until_earlier_samples_are_received() {
    for level in LEVELS {
        let domain = TestDomain::new();
        let (writer, reader) = limited(&domain, level, limits(3, 0, 0));
        for round in 0..10 {
            let written = fill(&writer, (0..9).map(|n| track(n, round)));
            assert_eq!(written.len(), 3, "{level}, {round}");
            assert!(!writer.has_room_for(&track(9, 9)));
            let mut loan = writer.loan().unwrap();
            *loan = track(9, 9);
            assert!(is_late(loan.publish()), "{level}, {round}");
            assert_eq!(take(&reader, 3, |track: &Track| *track), written, "{level}, {round}");
            writer.wait_for_acknowledgments(SOON).unwrap();
            assert!(writer.has_room_for(&track(9, 9)), "{level}, {round}");
        }
    }
}

#[test]
fn max_samples_per_instance_limits_samples_in_flight() {
    let domain = TestDomain::new();
    let (writer, reader) = limited(&domain, "unordered", limits(0, 0, 2));
    let written = fill(&writer, (0..9).map(|number| track(1, number)));
    assert_eq!(written, [track(1, 0), track(1, 1)]);
    assert_eq!(fill(&writer, (0..9).map(|number| track(2, number))).len(), 2);
    assert!(writer.has_room_for(&track(3, 0)) && !writer.has_room_for(&track(2, 0)));
    assert_eq!(take(&reader, 4, |track: &Track| track.id), [1, 1, 2, 2]);
    writer.wait_for_acknowledgments(SOON).unwrap();
    assert_eq!(fill(&writer, (0..9).map(|number| track(1, number))).len(), 2);
}

/// A waiting write continues as soon as a reader has received the earlier samples, and so does an
/// asynchronous one.
#[test]
fn waiting_write_continues_when_there_is_room() {
    const MANY: u64 = 500;
    for level in LEVELS {
        let domain = TestDomain::new();
        let (here, there) = (domain.join(), domain.join());
        let reader =
            there.reader(&at_level(there.topic("Tracks"), level)).reliable_all().create().unwrap();
        let writer = here.writer(&at_level(here.topic("Tracks"), level));
        let writer = writer.resource_limits(limits(1, 0, 0)).max_blocking_time(SOON);
        let writer = writer.create().unwrap();
        writer.wait_for_readers(1, SOON).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| (0..MANY).for_each(|n| writer.write(&track(1, n)).unwrap()));
            scope.spawn(|| {
                let all = async {
                    for number in 0..MANY {
                        writer.write_async(&track(2, number)).await.unwrap();
                    }
                };
                block_on(all);
            });
            let taken = take(&reader, 2 * MANY as usize, |track: &Track| *track);
            for id in [1, 2] {
                let of_it = taken.iter().filter(|track| track.id == id).map(|track| track.number);
                assert!(of_it.eq(0..MANY), "{level}");
            }
        });
    }
}

#[test]
fn instance_beyond_max_instances_is_refused_until_one_is_unregistered() {
    let domain = TestDomain::new();
    let participant = domain.join();
    let (publisher, writer, reader) = of_two_instances(&participant);
    writer.register_instance(&track(1, 0)).unwrap();
    writer.write(&track(2, 0)).unwrap();
    refused(writer.write(&track(3, 0)));
    refused(writer.register_instance(&track(3, 0)).map(drop));
    writer.write(&track(1, 1)).unwrap();
    writer.dispose(&track(1, 1)).unwrap();
    refused(writer.write(&track(3, 0)));
    writer.unregister_instance(&track(1, 0)).unwrap();
    writer.write(&track(3, 0)).unwrap();
    // The limit also applies within a set, whose samples no reader has before its end.
    publisher.begin_coherent_changes().unwrap();
    refused(writer.write(&track(4, 0)));
    refused(writer.write_with(|slot| *slot = track(4, 0)));
    writer.write(&track(3, 1)).unwrap();
    writer.write_with(|slot| *slot = track(3, 2)).unwrap();
    publisher.end_coherent_changes().unwrap();
    writer.wait_for_acknowledgments(SOON).unwrap();
    let alive = reader.take_data(.., SOON).unwrap();
    assert_eq!(alive.map(|sample| sample.id).collect::<Vec<_>>(), [2, 1, 3, 3, 3]);
}

/// The failed write found no room, and its instance has no other sample.
#[test]
fn a_write_that_fails_leaves_no_instance_counted() {
    let domain = TestDomain::new();
    let participant = domain.join();
    let topic = at_level(participant.topic("Tracks"), "atomic");
    let writer = participant.writer(&topic).in_flight(4).max_blocking_time(Timeout::NOW);
    let writer = writer.resource_limits(limits(0, 1, 0)).create().unwrap();
    let loans: Vec<_> = std::iter::from_fn(|| writer.loan().ok()).collect();
    assert!(!loans.is_empty());
    let late = writer.write(&track(1, 0));
    assert!(matches!(late, Err(DdsError::Timeout(_))), "{late:?}");
    drop(loans);
    writer.write(&track(2, 0)).unwrap();
    refused(writer.write(&track(1, 0)));
}

/// The samples of a discarded set were never written: their instances do not count for
/// max_instances, and instances unregistered in the set still count.
#[test]
fn instances_of_a_set_that_is_discarded_count_as_before() {
    let domain = TestDomain::new();
    let participant = domain.join();
    let (publisher, writer, reader) = of_two_instances(&participant);
    writer.register_instance(&track(1, 0)).unwrap();
    publisher.begin_coherent_changes().unwrap();
    writer.write(&track(1, 1)).unwrap();
    writer.unregister_instance(&track(1, 0)).unwrap();
    writer.write(&track(2, 1)).unwrap();
    writer.write_with(|slot| *slot = track(3, 1)).unwrap();
    writer.unregister_instance(&track(2, 0)).unwrap();
    // Registrations by the application in the meantime do not belong to the set.
    writer.register_instance(&track(4, 0)).unwrap();
    writer.unregister_instance(&track(3, 0)).unwrap();
    writer.write(&track(5, 1)).unwrap();
    writer.unregister_instance(&track(5, 0)).unwrap();
    writer.write(&track(6, 1)).unwrap();
    writer.register_instance(&track(6, 0)).unwrap();
    refused(writer.write(&track(7, 1)));
    assert_eq!(publisher.discard_coherent_changes().unwrap(), 9);
    let registered: Vec<u32> =
        (1..9).filter(|id| writer.lookup_instance(&track(*id, 0)).is_some()).collect();
    assert_eq!(registered, [1, 4, 6], "1 was never unregistered");
    // With instances 1, which existed before, 4 and 6 there is one too many; instances only in the
    // set do not count any more.
    writer.unregister_instance(&track(6, 0)).unwrap();
    refused(writer.write(&track(7, 2)));
    writer.unregister_instance(&track(4, 0)).unwrap();
    writer.write(&track(7, 2)).unwrap();
    refused(writer.write(&track(8, 2)));
    writer.write(&track(1, 2)).unwrap();
    // An ended set counts like samples written without one.
    writer.unregister_instance(&track(7, 0)).unwrap();
    publisher.begin_coherent_changes().unwrap();
    writer.write(&track(8, 3)).unwrap();
    publisher.end_coherent_changes().unwrap();
    publisher.begin_coherent_changes().unwrap();
    publisher.discard_coherent_changes().unwrap();
    refused(writer.write(&track(9, 3)));
    writer.wait_for_acknowledgments(SOON).unwrap();
    let alive = reader.take_data(.., SOON).unwrap();
    let alive: Vec<_> = alive.map(|sample| (sample.id, sample.number)).collect();
    assert_eq!(alive, [(7, 2), (1, 2), (8, 3)]);
}

/// For a kept topic the limits apply to the kept samples, and not to its writers.
#[test]
fn resource_limits_of_a_kept_topic_do_not_apply_to_its_writers() {
    let domain = TestDomain::new();
    let participant = domain.join();
    let few = limits(0, 2, 0);
    let mut qos = participant.topic::<Track>("Usual").atomic().create().unwrap().qos();
    qos.resource_limits = few.clone();
    let atomic = participant.topic::<Track>("Atomic").qos(&qos).create().unwrap();
    assert_eq!(participant.writer(&atomic).create().unwrap().qos().resource_limits, few);
    qos.durability.kind = DurabilityQosPolicyKind::TransientLocal;
    let kept = participant.topic::<Track>("Kept").qos(&qos).create().unwrap();
    let writer = participant.writer(&kept).create().unwrap();
    assert_eq!(writer.qos().resource_limits, ResourceLimitsQosPolicy::default());
    (0..9).for_each(|id| writer.write(&track(id, 0)).unwrap());
    let qos = DataWriterQos { resource_limits: few, ..writer.qos() };
    let limited = participant.writer(&kept).qos(&qos).create().unwrap();
    assert!((0..9).any(|id| limited.write(&track(id, 0)).is_err()));
}
