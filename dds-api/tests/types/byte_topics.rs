//! Topics of byte strings, by name and by number: samples are read as they were written, in place,
//! in real processes and at every level.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::levels::{LEVELS, at_level};
use crate::support::{Actor, PATIENCE, SOON, TestDomain, join, listen, role, say, seed, until};
use dds_api::prelude::*;
use dds_api::qos::{PresentationQosPolicy, PresentationQosPolicyAccessScopeKind};
use dds_api::topic::Bytes;

/// Lengths: zero, around the padding of CDR, around a cache line, and long ones.
const LENGTHS: [usize; 10] = [0, 1, 3, 4, 5, 63, 64, 65, 1000, 40_000];

/// Type of the topic as IDL declares it, for programs without byte strings.
#[derive(DdsType, Clone, Debug, Default, PartialEq)]
#[dds(name = "Squall::Bytes")]
struct AsIdlHasIt {
    value: Vec<u8>,
}

/// Returns bytes that contain a check of their integrity.
fn bytes(number: usize, length: usize) -> Vec<u8> {
    (0..length).map(|at| (number * 31 + at * 7) as u8).collect()
}

#[test]
fn act() {
    let Some((role, folder)) = role() else { return };
    match role.as_str() {
        "sink" => act_sink(&folder),
        other => panic!("no such role: {other}"),
    }
}

/// Takes all samples of three topics, and reports whether each is correct.
fn act_sink(folder: &Path) {
    let participant = join(folder);
    for (number, level) in (0..).zip(LEVELS) {
        let topic = at_level(participant.numbered_topic(number), level);
        let reader = participant.reader(&topic).reliable_all().create().unwrap();
        say(level);
        let deadline = Instant::now() + PATIENCE;
        for (number, length) in LENGTHS.iter().cycle().take(seed() as usize).enumerate() {
            let sample = reader.take_next_data(SOON).unwrap().unwrap();
            assert!(Instant::now() < deadline);
            assert_eq!(**sample, *bytes(number, *length), "{level} {number}");
            assert!(sample.is_borrowed(), "{level}: read where it lies");
            assert!(sample.info().valid_data && sample.info().sequence_number == number as u64);
        }
        assert!(reader.take_next_data(Timeout::millis(20)).unwrap().is_none());
        assert_eq!(reader.unreadable_samples(), 0);
        say("all");
    }
    while listen().is_some() {}
}

#[test]
fn byte_strings_are_read_where_they_were_written() {
    const MANY: usize = 200;
    let domain = TestDomain::new();
    let participant = domain.join();
    let mut sink = Actor::start(module_path!(), "sink", &domain, MANY as u64);
    for (number, level) in (0..).zip(LEVELS) {
        assert_eq!(sink.hear(), level);
        let topic = at_level(participant.numbered_topic(number), level);
        assert_eq!(topic.name(), format!("Numbered/{number}"));
        assert_eq!((topic.type_name(), topic.number()), ("Squall::Bytes", Some(number)));
        let writer = participant.writer(&topic).max_blocking_time(SOON).create().unwrap();
        writer.wait_for_readers(1, SOON).unwrap();
        for (number, length) in LENGTHS.iter().cycle().take(MANY).enumerate() {
            let bytes = bytes(number, *length);
            match number % 5 {
                0 => writer.write_bytes(&bytes).unwrap(),
                1 => writer.write(&bytes.into()).unwrap(),
                2 => writer.write_with(|value| *value = bytes.into()).unwrap(),
                3 => writer
                    .write_bytes_with(*length, |slot| {
                        assert!(slot.iter().all(|byte| *byte == 0), "nothing old is in it");
                        slot.copy_from_slice(&bytes);
                    })
                    .unwrap(),
                _ => {
                    let mut loan = writer.loan_bytes_as_left(length + 100).unwrap();
                    loan[..*length].copy_from_slice(&bytes);
                    loan.truncate(*length);
                    loan.publish().unwrap();
                }
            }
        }
        assert_eq!(sink.hear(), "all");
    }
    sink.finish();
    drop(participant);
    domain.assert_empty();
}

#[test]
fn held_byte_sample_stays_in_place_and_kept_sample_is_a_copy() {
    let domain = TestDomain::new();
    let (here, there) = (domain.join(), domain.join());
    let topics = [&here, &there].map(|by| by.topic::<Bytes>("Frames").create().unwrap());
    let writer = here.writer(&topics[0]).memory(16 << 10).in_flight(64);
    let writer = writer.max_blocking_time(Timeout::millis(200)).create().unwrap();
    let (reader, last) = (
        there.reader(&topics[1]).reliable_all().create().unwrap(),
        there.reader(&topics[1]).reliable().keep_last(1).create().unwrap(),
    );
    writer.wait_for_readers(2, SOON).unwrap();
    writer.write_bytes(&bytes(0, 900)).unwrap();
    let held = reader.take_next_data(SOON).unwrap().unwrap();
    let copy = Bytes::clone(&held);
    // The writer's memory is reused many times while samples are held.
    for number in 1..100 {
        writer.write_bytes(&bytes(number, 900)).unwrap();
        let next = reader.take_next_data(SOON).unwrap().unwrap();
        assert_eq!(**next, *bytes(number, 900));
    }
    assert!(held.is_borrowed());
    assert_eq!((&**held, copy.into_vec()), (&*bytes(0, 900), bytes(0, 900)));
    until("the last one is there", || {
        let all = last.read_data(.., Timeout::NOW).unwrap();
        all.into_iter().any(|frame| **frame == *bytes(99, 900) && !frame.is_borrowed())
    });
    drop(held);
}

#[test]
fn unpublished_loans_send_no_sample_and_excessive_lengths_are_refused() {
    let domain = TestDomain::new();
    let participant = domain.join();
    let topic = participant.topic::<Bytes>("Frames").create().unwrap();
    let writer = participant.writer(&topic).memory(64 << 10).create().unwrap();
    let reader = participant.reader(&topic).reliable_all().create().unwrap();
    writer.wait_for_readers(1, SOON).unwrap();
    let mut loan = writer.loan_bytes(10).unwrap();
    loan.fill(7);
    drop(loan);
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _ = writer.write_bytes_with(10, |_| panic!("not this one"));
    }));
    assert!(panicked.is_err());
    for length in [64 << 10, u32::MAX as usize, usize::MAX, usize::MAX - 3] {
        let error = writer.loan_bytes(length).err().unwrap();
        assert!(
            matches!(&error, DdsError::OutOfResources(_) | DdsError::BadParameter(_)),
            "{length}: {error}"
        );
    }
    writer.write_bytes(b"seen").unwrap();
    assert_eq!(**reader.take_next_data(SOON).unwrap().unwrap(), *b"seen");
    assert!(reader.take_next_data(Timeout::millis(20)).unwrap().is_none());
}

#[test]
fn byte_samples_of_a_coherent_set_arrive_together() {
    let domain = TestDomain::new();
    let participant = domain.join();
    let topic = participant.topic::<Bytes>("Frames").atomic().create().unwrap();
    let presentation = PresentationQosPolicy {
        access_scope: PresentationQosPolicyAccessScopeKind::Topic,
        coherent_access: true,
        ordered_access: true,
    };
    let publisher = participant.publisher().presentation(presentation.clone()).create().unwrap();
    let subscriber = participant.subscriber().presentation(presentation).create().unwrap();
    let writer = publisher.writer(&topic).create().unwrap();
    let reader = subscriber.reader(&topic).reliable_all().create().unwrap();
    writer.wait_for_readers(1, SOON).unwrap();
    publisher.begin_coherent_changes().unwrap();
    writer.write_bytes(b"one").unwrap();
    writer.write_bytes_with(3, |slot| slot.copy_from_slice(b"two")).unwrap();
    assert!(reader.take_data(.., Timeout::millis(50)).unwrap().is_empty());
    publisher.end_coherent_changes().unwrap();
    let all: Vec<Vec<u8>> = reader.take_data(.., SOON).unwrap().map(|it| it.to_vec()).collect();
    assert_eq!(all, [b"one", b"two"]);
}

/// Tools, and programs that have the type from IDL, see the same topic.
#[test]
fn other_programs_see_a_byte_topic_as_struct_of_a_sequence() {
    let domain = TestDomain::new();
    let (here, there) = (domain.join(), domain.join());
    let topic = here.numbered_topic(255).create().unwrap();
    let (writer, reader) = (
        here.writer(&topic).create().unwrap(),
        here.reader(&topic).reliable_all().create().unwrap(),
    );
    let dynamic = there.find_dynamic_topic("Numbered/255", SOON).unwrap();
    let seen = there.reader(&dynamic).reliable_all().create().unwrap();
    let third = domain.join();
    let compiled = third.topic::<AsIdlHasIt>("Numbered/255").create().unwrap();
    let (taken, given) = (
        third.reader(&compiled).reliable_all().create().unwrap(),
        third.writer(&compiled).create().unwrap(),
    );
    writer.wait_for_readers(3, SOON).unwrap();
    given.wait_for_readers(3, SOON).unwrap();
    writer.write_bytes(&[1, 2, 255]).unwrap();
    let sample = seen.take_next_data(SOON).unwrap().unwrap();
    assert_eq!(sample.to_json_line(), r#"{"value": [1, 2, 255]}"#);
    let sample = taken.take_next_data(SOON).unwrap().unwrap();
    assert_eq!(*sample, AsIdlHasIt { value: vec![1, 2, 255] });
    assert_eq!(**reader.take_next_data(SOON).unwrap().unwrap(), [1, 2, 255]);
    given.write(&AsIdlHasIt { value: vec![9; 7] }).unwrap();
    assert_eq!(**reader.take_next_data(SOON).unwrap().unwrap(), [9; 7]);
    // Filters can use the contents, as for any topic.
    let filtered = here.content_filtered_topic("Nines", &topic, "value[0] = 9", &[]).unwrap();
    let nines = here.reader(&filtered).reliable_all().create().unwrap();
    writer.wait_for_readers(4, SOON).unwrap();
    writer.write_bytes(b"no").unwrap();
    writer.write_bytes(&[9]).unwrap();
    assert_eq!(**nines.take_next_data(SOON).unwrap().unwrap(), [9]);
    assert!(nines.take_next_data(Timeout::millis(20)).unwrap().is_none());
}

#[test]
fn write_of_bytes_waits_until_loans_are_returned() {
    let domain = TestDomain::new();
    let participant = domain.join();
    let topic = participant.topic::<Bytes>("Frames").create().unwrap();
    let writer = participant.writer(&topic).memory(4096).in_flight(2);
    let writer = writer.max_blocking_time(Timeout::secs(5)).create().unwrap();
    let loans = [writer.loan_bytes(10).unwrap(), writer.loan_bytes(10).unwrap()];
    std::thread::scope(|scope| {
        let first = scope.spawn(|| writer.write_bytes(b"waits"));
        // Long enough for the thread to be asleep in most runs; in other runs the test cannot fail.
        std::thread::sleep(Duration::from_millis(50));
        assert!(!first.is_finished());
        drop(loans);
        first.join().unwrap().unwrap();
    });
}
