//! Participants with different definitions of the same topic or order, and the effect of the
//! departure of some of them.

use crate::support::{CheckedSample, SOON, TestDomain, until};
use dds_api::prelude::*;

/// Creates a topic of this name, whose samples are kept or not.
fn topic(participant: &DomainParticipant, name: &str, is_kept: bool) -> Topic<CheckedSample> {
    let topic = participant.topic::<CheckedSample>(name);
    if is_kept { topic.transient_local() } else { topic.atomic() }.create().unwrap()
}

/// Creates a writer and a reader of it.
fn both(
    participant: &DomainParticipant,
    topic: &Topic<CheckedSample>,
) -> (DataWriter<CheckedSample>, DataReader<CheckedSample>) {
    let writer = participant.writer(topic).create().unwrap();
    (writer, participant.reader(topic).reliable_all().create().unwrap())
}

fn sees(reader: &DataReader<CheckedSample>, number: u64) {
    assert_eq!(reader.take_next_data(SOON).unwrap().unwrap().number, number);
}

/// The first participant has another definition than the others, and leaves; a late joiner receives
/// all of this as one state.
#[test]
fn inconsistent_topic_is_reported_and_used_once_conflict_is_gone() {
    // Names of participants are random, so the first one is not always the one with the lower name.
    for number in 0..8 {
        let domain = TestDomain::new();
        let (first, second) = (domain.join(), domain.join());
        let one = both(&first, &topic(&first, "Marks", number % 2 == 0));
        one.0.wait_for_readers(1, SOON).unwrap();
        let meant = topic(&second, "Marks", number % 2 == 1);
        let two = both(&second, &meant);
        until("it is told", || meant.inconsistent_topic_status().total_count > 0);
        let third = domain.join();
        let other = topic(&third, "Marks", number % 2 == 1);
        let three = both(&third, &other);
        until("it is told, too", || other.inconsistent_topic_status().total_count > 0);
        assert!(two.0.wait_for_readers(1, Timeout::millis(5)).is_err(), "nobody is there yet");
        one.0.write(&CheckedSample::new(1)).unwrap();
        sees(&one.1, 1);
        drop(one);
        two.0.wait_for_readers(2, SOON).unwrap();
        two.0.write(&CheckedSample::new(2)).unwrap();
        three.0.wait_for_readers(2, SOON).unwrap();
        two.0.wait_for_acknowledgments(SOON).unwrap();
        three.0.write(&CheckedSample::new(3)).unwrap();
        for reader in [&two.1, &three.1] {
            sees(reader, 2);
            sees(reader, 3);
        }
        drop((two, three, meant, other, first, second, third));
        domain.assert_empty();
    }
}

/// No writer and reader of the same topic would report this: the mismatch in an order shared with
/// another topic is reported at each topic.
#[test]
fn topic_excluded_from_common_order_reports_inconsistency() {
    let of = |participant: &DomainParticipant, name: &str, is_kept: bool| {
        let topic = participant.topic::<CheckedSample>(name).common_order("flight");
        if is_kept { topic.transient_local() } else { topic.atomic() }.create().unwrap()
    };
    // Two topics created at the same time: neither participant knows the other's when it begins,
    // and one of them is left out.
    let mut left_out = 0;
    for _ in 0..20 {
        let domain = TestDomain::new();
        let (here, there) = (domain.join(), domain.join());
        let (plain, kept) = (of(&here, "Winds", false), of(&there, "Turns", true));
        let (one, two) = std::thread::scope(|scope| {
            let one = scope.spawn(|| here.writer(&plain).create());
            let two = scope.spawn(|| there.writer(&kept).create());
            (one.join().unwrap(), two.join().unwrap())
        });
        let (Ok(one), Ok(two)) = (one, two) else { continue };
        left_out += 1;
        let count = |topic: &Topic<CheckedSample>| topic.inconsistent_topic_status().total_count;
        until("one is told", || count(&plain) + count(&kept) > 0);
        assert_eq!(count(&plain) + count(&kept), 1, "the other one is in it");
        let is_first = count(&plain) == 0;
        let (topic, other) = if is_first { (&kept, &plain) } else { (&plain, &kept) };
        let why = topic.inconsistent_topic_status().last_reason.unwrap();
        assert!(why.contains("common order `flight`") && why.contains(other.name()), "{why}");
        let (remains, goes) = if is_first { (two, one) } else { (one, two) };
        drop(goes);
        let mut made = None;
        until("the order is its own", || {
            let reader = if is_first {
                there.reader(&kept).reliable_all()
            } else {
                here.reader(&plain).reliable_all()
            };
            made = reader.create().ok();
            made.is_some()
        });
        remains.wait_for_readers(1, SOON).unwrap();
        remains.write(&CheckedSample::new(4)).unwrap();
        sees(&made.unwrap(), 4);
    }
    assert!(left_out > 0, "never at once");
}

/// A held sample of a former topic does not affect the retention of a new topic of the same name.
#[test]
fn recreated_topic_follows_its_new_durability_despite_held_sample() {
    for is_kept in [false, true] {
        let domain = TestDomain::new();
        let (here, there) = (domain.join(), domain.join());
        let before = topic(&here, "Marks", !is_kept);
        let (writer, reader) = both(&here, &before);
        writer.wait_for_readers(1, SOON).unwrap();
        writer.write(&CheckedSample::new(1)).unwrap();
        let held = reader.take_next_data(SOON).unwrap().unwrap();
        drop((writer, reader, before));
        let anew = topic(&here, "Marks", is_kept);
        let (writer, _reader) = both(&here, &anew);
        let other = topic(&there, "Marks", is_kept);
        let (_writer, elsewhere) = both(&there, &other);
        assert_eq!(held.number, 1);
        drop(held);
        writer.wait_for_readers(2, SOON).unwrap();
        writer.write(&CheckedSample::new(2)).unwrap();
        sees(&elsewhere, 2);
        let late = domain.join();
        let marks = topic(&late, "Marks", is_kept);
        let reader = late.reader(&marks).reliable_all().create().unwrap();
        writer.wait_for_readers(3, SOON).unwrap();
        writer.write(&CheckedSample::new(3)).unwrap();
        if is_kept {
            sees(&reader, 2);
        }
        sees(&reader, 3);
    }
}
