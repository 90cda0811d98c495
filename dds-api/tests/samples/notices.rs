//! Samples without data: never taken for samples with data.

use crate::support::{SOON, TestDomain};
use dds_api::prelude::*;
use dds_api::subscription::{DataReaderBuilder, InstanceState};

#[derive(DdsType, Clone, Copy, Debug, Default, PartialEq)]
struct Track {
    #[dds(key)]
    id: u32,
    height: f64,
}

#[derive(DdsType, Clone, Debug, Default, PartialEq)]
struct Flight {
    #[dds(key)]
    name: String,
    height: f64,
}

/// A reader after two notices, a sample, and another notice.
fn scene<T: DdsType>(
    domain: &TestDomain,
    make: impl Fn(u32) -> T,
    build: impl Fn(DataReaderBuilder<T>) -> DataReaderBuilder<T>,
) -> (DomainParticipant, DataWriter<T>, DataReader<T>) {
    let participant = domain.join();
    let topic = participant.topic::<T>("Tracks").create().unwrap();
    let reader = build(participant.reader(&topic).reliable_all()).create().unwrap();
    let writer = participant.writer(&topic).create().unwrap();
    writer.wait_for_readers(1, SOON).unwrap();
    writer.dispose(&make(1)).unwrap();
    writer.dispose(&make(2)).unwrap();
    writer.write(&make(3)).unwrap();
    writer.dispose(&make(4)).unwrap();
    writer.wait_for_acknowledgments(SOON).unwrap();
    (participant, writer, reader)
}

fn track(id: u32) -> Track {
    Track { id, height: 100.0 }
}

fn flight(id: u32) -> Flight {
    Flight { name: id.to_string(), height: 100.0 }
}

#[test]
fn sample_without_data_has_a_key_and_no_data() {
    let domain = TestDomain::new();
    let (_participant, _writer, reader) = scene(&domain, track, |reader| reader);
    let all: Vec<_> = reader.take(.., SOON).unwrap().collect();
    let data: Vec<_> = all.iter().map(|sample| sample.data().copied()).collect();
    assert_eq!(data, [None, None, Some(track(3)), None]);
    assert!(all.iter().map(|sample| sample.key_value().id).eq(1..=4));
    assert_eq!(*all[2].key_value(), track(3));
    for sample in &all {
        let info = sample.info();
        assert_eq!(info.valid_data, sample.data().is_some());
        assert_eq!(info.valid_data, info.instance_state == InstanceState::Alive);
    }
    // The text of a notice shows no data either.
    let texts: Vec<_> = all.iter().map(|sample| format!("{sample:?}")).collect();
    assert!(texts[2].contains("height: 100.0") && !texts[0].contains("height"), "{texts:?}");
    assert_eq!(all.into_iter().filter_map(Sample::into_data).count(), 1);
}

/// The first call has to pass over notices, and takes the last one with the sample.
fn gives_data_alone<T: DdsType + Clone + PartialEq + std::fmt::Debug>(
    make: impl Fn(u32) -> T + Copy,
    build: impl Fn(DataReaderBuilder<T>) -> DataReaderBuilder<T> + Copy,
) {
    let domain = TestDomain::new();
    let take_data = |reader: &DataReader<T>, timeout| {
        reader.take_data(.., timeout).unwrap().map(|data| (*data).clone()).collect::<Vec<_>>()
    };
    let (participant, writer, reader) = scene(&domain, make, build);
    assert_eq!(take_data(&reader, SOON), [make(3)]);
    assert!(reader.take(.., Timeout::NOW).unwrap().is_empty(), "the notices are taken too");
    drop((participant, writer, reader));

    let (participant, writer, reader) = scene(&domain, make, build);
    let samples = reader.take(.., SOON).unwrap().data();
    assert!(samples.map(|data| (*data).clone()).eq([make(3)]));
    drop((participant, writer, reader));

    // Calls that do not wait, one sample at a time.
    let (participant, writer, reader) = scene(&domain, make, build);
    let next = || reader.take_next_data(Timeout::NOW).unwrap().map(|data| (*data).clone());
    assert_eq!((next(), next()), (Some(make(3)), None));
    writer.dispose(&make(3)).unwrap();
    writer.write(&make(5)).unwrap();
    writer.wait_for_acknowledgments(SOON).unwrap();
    assert_eq!(reader.take_data(..1, Timeout::NOW).unwrap().count(), 1);

    // A call that waits goes on waiting when only notices have come.
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| take_data(&reader, SOON));
        let next = make(6);
        for step in 0..50 {
            writer.dispose(&make(5)).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(1));
            if step == 49 {
                writer.write(&next).unwrap();
            }
        }
        assert_eq!(waits.join().unwrap(), [next]);
    });
    drop((participant, writer, reader));
}

#[test]
fn calls_for_data_pass_over_notices_in_queues() {
    gives_data_alone(track, |reader| reader);
    gives_data_alone(flight, |reader| reader);
}

#[test]
fn calls_for_data_pass_over_notices_in_the_cache() {
    gives_data_alone(track, |reader| reader);
    gives_data_alone(flight, |reader| reader);
}

#[test]
fn read_data_leaves_notices_in_the_reader() {
    let domain = TestDomain::new();
    let (_participant, _writer, reader) = scene(&domain, track, |reader| reader.keep_all());
    let read: Vec<_> = reader.read_data(.., SOON).unwrap().iter().map(|data| **data).collect();
    assert_eq!(read, [track(3)]);
    assert_eq!(reader.take(.., Timeout::NOW).unwrap().count(), 4);
}
