//! Writes with the handle of an instance.

use std::time::{Duration, SystemTime};

use crate::support::{SOON, TestDomain};
use dds_api::infrastructure::InstanceHandle;
use dds_api::prelude::*;

#[derive(DdsType, Clone, Copy, Debug, Default, PartialEq)]
struct Track {
    #[dds(key)]
    id: u32,
    height: f64,
}

fn track(id: u32) -> Track {
    Track { id, height: 100.0 }
}

fn writer_and_reader(participant: &DomainParticipant) -> (DataWriter<Track>, DataReader<Track>) {
    let topic = participant.topic::<Track>("Tracks").create().unwrap();
    let writer = participant.writer(&topic).create().unwrap();
    let reader = participant.reader(&topic).reliable_all().create().unwrap();
    writer.wait_for_readers(1, SOON).unwrap();
    (writer, reader)
}

fn time() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000)
}

/// Keys and data of all samples that wait.
fn taken(reader: &DataReader<Track>) -> Vec<(u32, bool)> {
    let all = reader.take(.., Timeout::NOW).unwrap();
    all.map(|sample| (sample.key_value().id, sample.data().is_some())).collect()
}

#[test]
fn calls_with_the_handle_of_the_instance_do_what_calls_without_do() {
    let domain = TestDomain::new();
    let participant = domain.join();
    let (writer, reader) = writer_and_reader(&participant);
    let handle = writer.register_instance(&track(1)).unwrap();
    writer.write_w_handle(&track(1), handle).unwrap();
    writer.dispose_w_handle(&track(1), handle).unwrap();
    writer.unregister_instance_w_handle(&track(1), handle).unwrap();
    assert_eq!(writer.lookup_instance(&track(1)), None);
    writer.register_instance(&track(1)).unwrap();
    writer.write_w_handle_w_timestamp(&track(1), handle, time()).unwrap();
    writer.dispose_w_handle_w_timestamp(&track(1), handle, time()).unwrap();
    writer.unregister_instance_w_handle_w_timestamp(&track(1), handle, time()).unwrap();
    writer.wait_for_acknowledgments(SOON).unwrap();
    let all: Vec<_> = reader.take(.., Timeout::NOW).unwrap().collect();
    assert!(all.iter().all(|sample| sample.info().instance_handle == handle));
    assert!(all.iter().map(|it| it.data().is_some()).eq([true, true, false]));
    assert!(all[1..].iter().all(|sample| sample.info().source_timestamp == time()));
}

#[test]
fn handle_of_another_instance_or_of_none_is_refused_and_nothing_is_written() {
    let domain = TestDomain::new();
    let participant = domain.join();
    let (writer, reader) = writer_and_reader(&participant);
    let [one, two] = [1, 2].map(|id| writer.register_instance(&track(id)).unwrap());
    writer.unregister_instance(&track(2)).unwrap();
    writer.wait_for_acknowledgments(SOON).unwrap();
    assert_eq!(taken(&reader), [(2, false)]);
    let calls = |handle| {
        let sample = track(2);
        [
            writer.write_w_handle(&sample, handle),
            writer.write_w_handle_w_timestamp(&sample, handle, time()),
            writer.dispose_w_handle(&sample, handle),
            writer.dispose_w_handle_w_timestamp(&sample, handle, time()),
            writer.unregister_instance_w_handle(&sample, handle),
            writer.unregister_instance_w_handle_w_timestamp(&sample, handle, time()),
        ]
    };
    for refused in calls(one) {
        assert!(matches!(refused, Err(DdsError::PreconditionNotMet(_))), "{refused:?}");
    }
    // Of an instance that is no longer registered, and of an entity that is no instance.
    for refused in [two, writer.instance_handle()].into_iter().flat_map(calls) {
        assert!(matches!(refused, Err(DdsError::BadParameter(_))), "{refused:?}");
    }
    writer.wait_for_acknowledgments(SOON).unwrap();
    assert_eq!(taken(&reader), []);
    assert_eq!(writer.lookup_instance(&track(1)), Some(one));
}

#[test]
fn handle_of_a_type_without_key_is_accepted() {
    #[derive(DdsType, Clone, Copy, Debug, Default, PartialEq)]
    struct Pressure {
        pascal: f64,
    }
    let domain = TestDomain::new();
    let participant = domain.join();
    let topic = participant.topic::<Pressure>("Pressures").create().unwrap();
    let writer = participant.writer(&topic).create().unwrap();
    let reader = participant.reader(&topic).reliable_all().create().unwrap();
    writer.wait_for_readers(1, SOON).unwrap();
    let sample = Pressure { pascal: 101_325.0 };
    let handle = writer.register_instance(&sample).unwrap();
    writer.write_w_handle(&sample, handle).unwrap();
    assert_eq!(*reader.take_next_data(SOON).unwrap().unwrap(), sample);
}

#[test]
fn nil_handle_leaves_the_instance_to_the_key_of_the_sample() {
    let domain = TestDomain::new();
    let participant = domain.join();
    let (writer, reader) = writer_and_reader(&participant);
    writer.write_w_handle(&track(1), InstanceHandle::NIL).unwrap();
    writer.dispose_w_handle(&track(1), InstanceHandle::NIL).unwrap();
    writer.unregister_instance_w_handle(&track(1), InstanceHandle::NIL).unwrap();
    writer.wait_for_acknowledgments(SOON).unwrap();
    let any = dds_api::subscription::States::any();
    let first = reader.read_next_instance(.., Some(InstanceHandle::NIL), any).unwrap();
    assert_eq!(first.iter().map(|it| it.data().is_some()).collect::<Vec<_>>(), [true, false]);
}

#[test]
fn key_value_of_the_only_instance_of_a_type_without_key_is_a_default_value() {
    #[derive(DdsType, Clone, Copy, Debug, Default, PartialEq)]
    struct Attitude {
        pitch: f64,
    }
    let domain = TestDomain::new();
    let participant = domain.join();
    let topic = participant.topic::<Attitude>("Attitude").create().unwrap();
    let writer = participant.writer(&topic).create().unwrap();
    let handle = writer.register_instance(&Attitude { pitch: 1.0 }).unwrap();
    assert_eq!(writer.get_key_value(handle), Ok(Attitude::default()));
}
