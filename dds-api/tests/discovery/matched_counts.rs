//! Counts of matched readers and writers: they count readers and writers, not participants, at
//! every level.

use crate::support::{CheckedSample, SOON, TestDomain, until};
use dds_api::prelude::*;

const LEVELS: [&str; 4] = ["unordered", "atomic", "kept", "logged"];

/// A participant that keeps logs.
fn join(domain: &TestDomain, name: &str) -> DomainParticipant {
    let folder = domain.runtime_dir();
    let logs = folder.with_file_name(name);
    std::fs::create_dir_all(&logs).unwrap();
    let config = ParticipantConfig::new().log_folder(logs);
    DomainParticipant::with_config(0, config.runtime_dir(folder)).unwrap()
}

fn topic(participant: &DomainParticipant, level: &str) -> Topic<CheckedSample> {
    let topic = participant.topic::<CheckedSample>("Marks");
    match level {
        "unordered" => topic,
        "atomic" => topic.atomic(),
        "kept" => topic.transient_local().keep_all(),
        _ => topic.persistent().keep_all(),
    }
    .create()
    .unwrap()
}

fn reader(participant: &DomainParticipant, level: &str) -> DataReader<CheckedSample> {
    participant.reader(&topic(participant, level)).reliable_all().create().unwrap()
}

fn writer(participant: &DomainParticipant, level: &str) -> DataWriter<CheckedSample> {
    participant.writer(&topic(participant, level)).create().unwrap()
}

#[test]
fn readers_are_counted_and_awaited_one_by_one_at_every_level() {
    for level in LEVELS {
        let domain = TestDomain::new();
        let (ours, theirs) = (join(&domain, "ours"), join(&domain, "theirs"));
        let writer = writer(&ours, level);
        let first = reader(&theirs, level);
        writer.wait_for_readers(1, SOON).unwrap();
        let error = writer.wait_for_readers(2, Timeout::millis(20)).unwrap_err();
        assert!(matches!(error, DdsError::Timeout(_)), "{level}: {error}");
        let second = reader(&theirs, level);
        writer.wait_for_readers(2, SOON).unwrap();
        let own = reader(&ours, level);
        writer.wait_for_readers(3, SOON).unwrap();
        assert_eq!(writer.matched_readers(), 3, "{level}");
        // Every reader that was awaited receives what is written from then on.
        writer.write(&CheckedSample::new(7)).unwrap();
        for reader in [&first, &second, &own] {
            assert_eq!(
                reader.take_next(SOON).unwrap().unwrap().data().unwrap().number,
                7,
                "{level}"
            );
        }
        assert_eq!(writer.publication_matched_status().current_count, 3, "{level}");
        assert_eq!(writer.matched_subscriptions().len(), 3, "{level}");
        drop(second);
        until("one reader is gone", || writer.matched_readers() == 2);
        drop(first);
        until("both readers are gone", || writer.matched_readers() == 1);
        drop(own);
        until("all readers are gone", || writer.matched_readers() == 0);
    }
}

#[test]
fn writers_are_counted_one_by_one_at_every_level() {
    for level in LEVELS {
        let domain = TestDomain::new();
        let (ours, theirs) = (join(&domain, "ours"), join(&domain, "theirs"));
        let reader = reader(&ours, level);
        let first = writer(&theirs, level);
        reader.wait_for_writers(1, SOON).unwrap();
        let second = writer(&theirs, level);
        reader.wait_for_writers(2, SOON).unwrap();
        let own = writer(&ours, level);
        reader.wait_for_writers(3, SOON).unwrap();
        assert_eq!(reader.matched_writers(), 3, "{level}");
        assert_eq!(reader.subscription_matched_status().current_count, 3, "{level}");
        assert_eq!(reader.matched_publications().len(), 3, "{level}");
        drop(second);
        until("one writer is gone", || reader.matched_writers() == 2);
        drop((first, own));
        until("all writers are gone", || reader.matched_writers() == 0);
    }
}

/// A reader that does not match counts nowhere, although its participant takes part in the order.
#[test]
fn readers_and_writers_that_do_not_match_are_not_counted() {
    for level in ["atomic", "kept"] {
        let domain = TestDomain::new();
        let (ours, theirs) = (domain.join(), domain.join());
        let writer = writer(&ours, level);
        let (fitting, picky) = (reader(&theirs, level), topic(&theirs, level));
        let picky = theirs.reader(&picky).reliable_all().exclusive_ownership().create().unwrap();
        writer.wait_for_readers(1, SOON).unwrap();
        until("the other reader is refused", || {
            picky.requested_incompatible_qos_status().total_count == 1
        });
        assert_eq!((writer.matched_readers(), picky.matched_writers()), (1, 0), "{level}");
        until("the writer is counted", || fitting.matched_writers() == 1);
    }
}
