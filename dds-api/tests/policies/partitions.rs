//! PARTITION: readers receive the samples of their partitions, at every level; and shards, which
//! are independent of each other.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::support::{
    Actor, CheckedSample, SOON, TestDomain, join, listen, role, say, seed, until,
};
use dds_api::infrastructure::StorageStatus;
use dds_api::prelude::*;
use dds_api::publication::Publisher;
use dds_api::topic::TopicBuilder;

/// Role of a child process; does nothing when the test program is run normally.
#[test]
fn act() {
    let Some((role, folder)) = role() else { return };
    match role.as_str() {
        "reader" => act_reader(&folder),
        other => panic!("no such role: {other}"),
    }
}

/// Returns the partition for a seed.
fn named(seed: u64) -> &'static str {
    ["left", "right", "*", "l?f*"][seed as usize]
}

/// Reports the numbers that it receives, up to the last one.
fn act_reader(folder: &std::path::Path) {
    let participant = join(folder);
    let topic = participant.topic::<CheckedSample>("Marks").atomic().create().unwrap();
    let subscriber = participant.subscriber().partition([named(seed())]).create().unwrap();
    let reader = subscriber.reader(&topic).reliable_all().create().unwrap();
    say("ready");
    let mut numbers = Vec::new();
    loop {
        let Some(sample) = reader.take_next_data(SOON).unwrap() else { panic!("no last one") };
        sample.assert_whole();
        numbers.push(sample.number.to_string());
        if sample.last != 0 {
            break;
        }
    }
    say(&numbers.join(" "));
    while listen().is_some() {}
}

fn writer(publisher: &Publisher, topic: &Topic<CheckedSample>) -> DataWriter<CheckedSample> {
    publisher.writer(topic).max_blocking_time(SOON).create().unwrap()
}

/// Several processes, with two writers, one of which changes its partition while it writes:
/// all readers of a partition receive the same samples in the same order, and together they
/// receive all.
#[test]
fn partition_of_a_writer_changes_at_the_same_sample_for_all_readers() {
    const SAMPLES: u64 = 3000;
    let domain = TestDomain::new();
    let partitions = [0, 0, 1, 1, 2, 3];
    let mut readers = partitions.map(|seed| Actor::start(module_path!(), "reader", &domain, seed));
    readers.iter_mut().for_each(|reader| assert_eq!(reader.hear(), "ready"));
    let participant = domain.join();
    let topic = participant.topic::<CheckedSample>("Marks").atomic().create().unwrap();
    let moves = participant.publisher().partition(["left"]).create().unwrap();
    let stays = participant.publisher().partition(["right", "left"]).create().unwrap();
    let (moving, staying) = (writer(&moves, &topic), writer(&stays, &topic));
    staying.wait_for_readers(partitions.len(), SOON).unwrap();
    let (is_over, changes) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..SAMPLES {
                // Keeps pace with the other thread, however fast or slow either is.
                if number % (SAMPLES / 30) == 0 {
                    let before = changes.load(Ordering::Acquire);
                    while changes.load(Ordering::Acquire) == before {
                        std::thread::yield_now();
                    }
                }
                moving.write(&CheckedSample::new(number)).unwrap();
            }
            is_over.store(true, Ordering::Release);
        });
        for round in 0.. {
            let mut qos = moves.qos();
            qos.partition.name = vec![["left", "right"][round % 2].to_owned()];
            moves.set_qos(&qos).unwrap();
            changes.fetch_add(1, Ordering::Release);
            if is_over.load(Ordering::Acquire) {
                break;
            }
        }
    });
    staying.write(&CheckedSample::last(SAMPLES)).unwrap();
    let got = readers.each_mut().map(|reader| {
        let numbers = reader.hear();
        numbers.split(' ').map(|number| number.parse().unwrap()).collect::<Vec<u64>>()
    });
    let [left, also_left, right, also_right, all, left_again] = &got;
    assert_eq!((left, left), (also_left, left_again));
    assert_eq!(right, also_right);
    assert_eq!(*all, (0..=SAMPLES).collect::<Vec<_>>());
    assert!(left.len() > 1 && right.len() > 1, "it was in both: {} {}", left.len(), right.len());
    let mut both: Vec<u64> = left.iter().chain(right).copied().collect();
    both.sort_unstable();
    both.dedup();
    assert_eq!(both, *all, "each sample was in one of them");
    assert_eq!(left.len() + right.len(), all.len() + 1, "and the last one in both");
}

fn taken(reader: &DataReader<CheckedSample>) -> Vec<u64> {
    reader.take_data(.., Timeout::millis(50)).unwrap().map(|sample| sample.number).collect()
}

/// In an unordered topic each writer has its own stream, and a change of partitions begins and
/// ends subscriptions.
#[test]
fn partition_change_moves_matches_of_unordered_topic() {
    let domain = TestDomain::new();
    let (ours, theirs) = (domain.join(), domain.join());
    let (here, there) =
        (ours.topic::<CheckedSample>("Marks"), theirs.topic::<CheckedSample>("Marks"));
    let (here, there) = (here.create().unwrap(), there.create().unwrap());
    let publisher = ours.publisher().partition(["left"]).create().unwrap();
    let writer = writer(&publisher, &here);
    let left = theirs.subscriber().partition(["l*"]).create().unwrap();
    let reader_of_left = left.reader(&there).reliable_all().create().unwrap();
    let reader_of_none = theirs.reader(&there).reliable_all().create().unwrap();
    writer.wait_for_readers(1, SOON).unwrap();
    writer.write(&CheckedSample::new(1)).unwrap();
    assert_eq!(reader_of_left.take_next_data(SOON).unwrap().unwrap().number, 1);
    assert_eq!(taken(&reader_of_none), []);
    let mut qos = publisher.qos();
    qos.partition.name = vec![String::new()];
    publisher.set_qos(&qos).unwrap();
    until("it is another one's", || {
        reader_of_none.matched_writers() == 1 && reader_of_left.matched_writers() == 0
    });
    until("the writer knows", || writer.matched_readers() == 1);
    writer.write(&CheckedSample::new(2)).unwrap();
    assert_eq!(reader_of_none.take_next_data(SOON).unwrap().unwrap().number, 2);
    assert_eq!(taken(&reader_of_left), []);
    let mut qos = left.qos();
    qos.partition.name.clear();
    left.set_qos(&qos).unwrap();
    writer.wait_for_readers(2, SOON).unwrap();
    writer.write(&CheckedSample::new(3)).unwrap();
    assert_eq!(reader_of_left.take_next_data(SOON).unwrap().unwrap().number, 3);
    assert_eq!(reader_of_none.take_next_data(SOON).unwrap().unwrap().number, 3);
}

/// Kept samples record their partitions: a reader that joins when the writers are gone receives
/// those of its own.
#[test]
fn kept_samples_retain_their_partitions() {
    let domain = TestDomain::new();
    let holder = domain.join();
    let kept = |participant: &DomainParticipant| {
        participant.topic::<CheckedSample>("Marks").transient_local().keep_all().create().unwrap()
    };
    let of_all = holder.subscriber().partition(["*"]).create().unwrap();
    let _keeps = of_all.reader(&kept(&holder)).reliable_all().create().unwrap();
    let ours = domain.join();
    for (number, names) in [&["left"][..], &["right"], &["left", "right"], &[]].iter().enumerate() {
        let publisher = ours.publisher().partition(names.iter().copied()).create().unwrap();
        let writer = writer(&publisher, &kept(&ours));
        writer.write(&CheckedSample::new(number as u64)).unwrap();
        writer.wait_for_acknowledgments(SOON).unwrap();
    }
    drop(ours);
    until("they are gone", || holder.peer_count() == 0);
    let theirs = domain.join();
    for (name, expected) in
        [("left", &[0, 2][..]), ("right", &[1, 2]), ("?*", &[0, 1, 2]), ("", &[3])]
    {
        let subscriber = theirs.subscriber().partition([name]).create().unwrap();
        let reader = subscriber.reader(&kept(&theirs)).reliable_all().create().unwrap();
        reader.wait_for_historical_data(SOON).unwrap();
        assert_eq!(taken(&reader), expected, "{name}");
    }
}

/// Each partition of a sharded topic has its own stream: a reader that does not take in one
/// partition blocks no reader of another.
#[test]
fn blocked_shard_does_not_block_another_shard() {
    let domain = TestDomain::new();
    let (ours, theirs) = (domain.join(), domain.join());
    let sharded = |participant: &DomainParticipant| {
        participant
            .topic::<CheckedSample>("Marks")
            .atomic()
            .sharded_by_partition()
            .create()
            .unwrap()
    };
    let (here, there) = (sharded(&ours), sharded(&theirs));
    let ends = ["left", "right"].map(|name| {
        let publisher = ours.publisher().partition([name]).create().unwrap();
        let writer = publisher.writer(&here).in_flight(64).memory(16 << 10);
        let writer = writer.max_blocking_time(Timeout::millis(200)).create().unwrap();
        let subscriber = theirs.subscriber().partition([name]).create().unwrap();
        (writer, subscriber.reader(&there).reliable_all().create().unwrap())
    });
    let [(left, reader_of_left), (right, reader_of_right)] = &ends;
    left.wait_for_readers(1, SOON).unwrap();
    right.wait_for_readers(1, SOON).unwrap();
    let mut written = 0;
    while left.write(&CheckedSample::new(written)).is_ok() {
        written += 1;
        assert!(written < 10_000, "nobody takes, so there is no room in the end");
    }
    for number in 0..2000 {
        right.write(&CheckedSample::new(number)).unwrap();
        assert_eq!(reader_of_right.take_next_data(SOON).unwrap().unwrap().number, number);
    }
    for number in 0..written {
        assert_eq!(reader_of_left.take_next_data(SOON).unwrap().unwrap().number, number);
    }
    assert!(taken(reader_of_right).is_empty() && taken(reader_of_left).is_empty());
}

/// Without shards, all samples of a topic are in one order, and a reader blocks it even if it reads
/// none of them: the price of one order over all partitions.
#[test]
fn sharding_needs_one_fixed_partition_and_agreement_of_participants() {
    let domain = TestDomain::new();
    let (ours, theirs) = (domain.join(), domain.join());
    let of = |participant: &DomainParticipant| {
        participant.topic::<CheckedSample>("Marks").transient_local()
    };
    let make = |builder: TopicBuilder<CheckedSample>| builder.create().unwrap();
    let sharded = make(of(&ours).sharded_by_partition());
    assert!(sharded.is_sharded());
    for names in [&["left", "right"][..], &["l*"]] {
        let publisher = ours.publisher().partition(names.iter().copied()).create().unwrap();
        let error = publisher.writer(&sharded).create().err().unwrap();
        assert!(matches!(&error, DdsError::InconsistentPolicy(why) if why.contains("sharded")));
        let subscriber = ours.subscriber().partition(names.iter().copied()).create().unwrap();
        assert!(subscriber.reader(&sharded).reliable_all().create().is_err());
    }
    let publisher = ours.publisher().partition(["left"]).create().unwrap();
    let writer = writer(&publisher, &sharded);
    let mut qos = publisher.qos();
    qos.partition.name = vec!["right".to_owned()];
    let error = publisher.set_qos(&qos).unwrap_err();
    assert!(matches!(&error, DdsError::ImmutablePolicy(why) if why.contains("`Marks`")), "{error}");
    assert_eq!(publisher.qos().partition.name, ["left"], "it is as it was");
    let whole = make(of(&theirs));
    let _reader = theirs.reader(&whole).reliable_all().create().unwrap();
    until("they are told", || whole.inconsistent_topic_status().total_count == 1);
    writer.write(&CheckedSample::new(1)).unwrap();
    let samples = |status: Option<StorageStatus>| status.map(|status| status.kept);
    until("it is kept", || samples(sharded.storage_status_of("left")) == Some(1));
    assert_eq!(samples(sharded.storage_status()), None);
}

#[test]
fn names_that_cannot_be_sent_are_refused() {
    let domain = TestDomain::new();
    let participant = domain.join();
    let error = participant.publisher().partition(["a\0b"]).create().err().unwrap();
    assert!(matches!(&error, DdsError::BadParameter(why) if why.contains("NUL")), "{error}");
    let long = "x".repeat(5000);
    let error = participant.subscriber().partition([long]).create().err().unwrap();
    assert!(matches!(&error, DdsError::BadParameter(why) if why.contains("4096")), "{error}");
}
