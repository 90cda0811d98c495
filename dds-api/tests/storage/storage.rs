//! Topics whose samples are kept: a late joiner receives the kept samples, then the live ones,
//! without gap or duplicate.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use crate::support::{
    Actor, CheckedSample, PATIENCE, ReceivedSequence, SOON, TestDomain, join, listen, role, say,
    take_to_the_end, until,
};
use dds_api::prelude::*;
use dds_api::qos::{
    DataReaderQos, DurabilityQosPolicyKind, DurabilityServiceQosPolicy, HistoryQosPolicy,
    HistoryQosPolicyKind, Length, ReliabilityQosPolicyKind, TopicQos,
};

/// A value with a key.
#[derive(DdsType, Clone, Copy, Debug, Default, PartialEq)]
struct Reading {
    #[dds(key)]
    sensor: u32,
    value: u64,
}

/// A type that is encoded.
#[derive(DdsType, Clone, Debug, Default, PartialEq)]
struct Note {
    #[dds(key)]
    title: String,
    text: String,
}

fn all_marks(participant: &DomainParticipant) -> Topic<CheckedSample> {
    participant.topic::<CheckedSample>("Marks").transient_local().keep_all().create().unwrap()
}

fn writer_of<T: DdsType>(participant: &DomainParticipant, topic: &Topic<T>) -> DataWriter<T> {
    let writer = participant.writer(topic).memory(64 << 10).in_flight(256);
    writer.max_blocking_time(SOON).create().unwrap()
}

fn take_all<T: DdsType + Clone>(reader: &DataReader<T>, count: usize) -> Vec<T> {
    let deadline = Instant::now() + PATIENCE;
    let mut all = Vec::new();
    while all.len() < count {
        assert!(Instant::now() < deadline, "only {} of {count} came", all.len());
        all.extend(reader.take_data(.., Timeout::millis(50)).unwrap().map(|sample| sample.clone()));
    }
    assert!(reader.take_next_data(Timeout::millis(20)).unwrap().is_none(), "and no more");
    all
}

/// A participant with only a writer keeps the samples, and reads: its first reader changes nothing
/// for the subgroup, and is counted all the same.
#[test]
fn first_reader_of_a_participant_that_only_wrote_is_counted() {
    let domain = TestDomain::new();
    let (here, there) = (domain.join(), domain.join());
    let topics = [&here, &there].map(all_marks);
    let writers = [writer_of(&here, &topics[0]), writer_of(&there, &topics[1])];
    writers[0].write(&CheckedSample::new(0)).unwrap();
    let has_it =
        |topic: &Topic<CheckedSample>| topic.storage_status().is_some_and(|it| it.samples == 1);
    until("both keep it", || topics.iter().all(has_it));
    assert_eq!(writers.each_ref().map(DataWriter::matched_readers), [0, 0]);
    let reader = there.reader(&topics[1]).reliable_all().create().unwrap();
    writers.iter().for_each(|writer| writer.wait_for_readers(1, SOON).unwrap());
    drop(reader);
    until("it is gone", || writers.iter().all(|writer| writer.matched_readers() == 0));
}

#[test]
fn act() {
    let Some((role, folder)) = role() else { return };
    match role.as_str() {
        "keeper" => act_keeper(&folder),
        "writer" => act_writer(&folder),
        other => panic!("no such role: {other}"),
    }
}

/// Takes part in the topic, and keeps its samples.
fn act_keeper(folder: &std::path::Path) {
    let participant = join(folder);
    let topic = all_marks(&participant);
    let reader = participant.reader(&topic).reliable_all().create().unwrap();
    reader.wait_for_historical_data(SOON).unwrap();
    say("has it");
    let mut got = ReceivedSequence::default();
    loop {
        for sample in reader.take_data(.., Timeout::millis(10)).unwrap() {
            got.take_in(&sample);
        }
    }
}

/// Writes many samples, and then one from time to time, until it is told to end.
fn act_writer(folder: &std::path::Path) {
    static STOPS: AtomicBool = AtomicBool::new(false);
    let participant = join(folder);
    let topic = all_marks(&participant);
    let writer = writer_of(&participant, &topic);
    for number in 0..MANY {
        writer.write(&CheckedSample::new(number)).unwrap();
    }
    say("written");
    std::thread::spawn(|| {
        let _ = listen();
        STOPS.store(true, Ordering::Relaxed);
    });
    let mut number = MANY;
    while !STOPS.load(Ordering::Relaxed) {
        writer.write(&CheckedSample::new(number)).unwrap();
        number += 1;
        std::thread::sleep(Duration::from_micros(50));
    }
    writer.write(&CheckedSample::last(number)).unwrap();
    writer.wait_for_acknowledgments(SOON).unwrap();
    say("ended");
    while listen().is_some() {}
}

/// Number of samples whose transfer takes a while.
const MANY: u64 = 200_000;

/// No reader exists during the writing; the writer keeps the samples. The writer leaves, and others
/// have them.
#[test]
fn samples_written_before_any_reader_joins_outlive_their_writer() {
    let domain = TestDomain::new();
    let first = domain.join();
    let topic = all_marks(&first);
    let writer = writer_of(&first, &topic);
    (0..5_000).for_each(|number| writer.write(&CheckedSample::new(number)).unwrap());
    let second = domain.join();
    let reader = second.reader(&all_marks(&second)).reliable_all().create().unwrap();
    reader.wait_for_historical_data(SOON).unwrap();
    (5_000..6_000).for_each(|number| writer.write(&CheckedSample::new(number)).unwrap());
    writer.wait_for_acknowledgments(SOON).unwrap();
    drop((writer, topic, first));
    let third = domain.join();
    let late = third.reader(&all_marks(&third)).reliable_all().create().unwrap();
    for reader in [&reader, &late] {
        let all = take_all(reader, 6_000);
        assert!(all.iter().zip(0..).all(|(sample, number)| *sample == CheckedSample::new(number)));
    }
    drop((reader, second, late, third));
    domain.assert_empty();
}

/// While a writer writes as fast as it can, readers join one after the other, in new participants
/// and in old ones.
#[test]
fn readers_that_join_during_writing_receive_each_sample_once() {
    let domain = TestDomain::new();
    let participant = domain.join();
    let topic = all_marks(&participant);
    let writer = writer_of(&participant, &topic);
    let stops = AtomicBool::new(false);
    let folder = domain.runtime_dir();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut number = 0;
            while !stops.load(Ordering::Relaxed) {
                writer.write(&CheckedSample::new(number)).unwrap();
                number += 1;
            }
            writer.write(&CheckedSample::last(number)).unwrap();
        });
        let read = |participant: &DomainParticipant| {
            let reader =
                participant.reader(&all_marks(participant)).reliable_all().create().unwrap();
            move || {
                let mut got = ReceivedSequence::default();
                take_to_the_end(&reader, &mut got);
                assert_eq!(got.first, Some(0));
                got.next
            }
        };
        let mut readers = Vec::new();
        for round in 0..4 {
            std::thread::sleep(Duration::from_millis(20));
            let other = join(&folder);
            let take = read(&other);
            readers.push(scope.spawn(take));
            if round % 2 == 1 {
                let take = read(&participant);
                readers.push(scope.spawn(take));
            }
        }
        std::thread::sleep(Duration::from_millis(50));
        stops.store(true, Ordering::Relaxed);
        let counts: Vec<u64> = readers.into_iter().map(|it| it.join().unwrap()).collect();
        assert!(counts.windows(2).all(|pair| pair[0] == pair[1]), "{counts:?}");
    });
}

#[test]
fn last_samples_of_each_instance_are_kept() {
    let domain = TestDomain::new();
    let (here, there) = (domain.join(), domain.join());
    let topic = |participant: &DomainParticipant| {
        participant.topic::<Reading>("Readings").transient_local().keep_last(2).create().unwrap()
    };
    let (ours, theirs) = (topic(&here), topic(&there));
    let writer = writer_of(&here, &ours);
    for value in 0..10_000 {
        writer.write(&Reading { sensor: value as u32 % 7, value }).unwrap();
    }
    let mut loan = writer.loan().unwrap();
    *loan = Reading { sensor: 99, value: 10_000 };
    loan.publish().unwrap();
    writer.wait_for_acknowledgments(SOON).unwrap();
    let reader = there.reader(&theirs).reliable_all().create().unwrap();
    let values: Vec<u64> = take_all(&reader, 15).iter().map(|it| it.value).collect();
    assert_eq!(values, (9_986..=10_000).collect::<Vec<u64>>());
    let current = there.reader(&theirs).reliable_all().volatile().create().unwrap();
    current.wait_for_historical_data(SOON).unwrap();
    assert!(current.take_next_data(Timeout::millis(50)).unwrap().is_none());
    let again = here.reader(&ours).reliable_all().create().unwrap();
    assert_eq!(take_all(&again, 15).len(), 15);
    for reader in [&reader, &current, &again] {
        until("all get what is new", || {
            writer.write(&Reading { sensor: 1, value: 20_000 }).unwrap();
            reader.take_next_data(Timeout::millis(50)).unwrap().is_some_and(|it| it.value == 20_000)
        });
    }
}

/// A reader that has read all kept samples without taking one more continues with live ones.
#[test]
fn batch_reads_continue_with_live_samples_after_kept_samples() {
    let domain = TestDomain::new();
    let (here, there) = (domain.join(), domain.join());
    let ours = all_marks(&here);
    let writer = writer_of(&here, &ours);
    let reader = there.reader(&all_marks(&there)).reliable_all().create().unwrap();
    writer.wait_for_readers(1, SOON).unwrap();
    assert!(reader.take_next_data(Timeout::millis(20)).unwrap().is_none());
    let mut next = 0;
    for number in 0..300 {
        writer.write(&CheckedSample::new(number)).unwrap();
        let start = Instant::now();
        while next <= number {
            assert!(start.elapsed() < PATIENCE, "sample {next} does not come");
            for sample in reader.take_data(.., Timeout::millis(100)).unwrap() {
                assert_eq!(*sample, CheckedSample::new(next));
                next += 1;
            }
        }
    }
}

/// A sample may be larger than one batch of the state transfer.
#[test]
fn late_joiner_receives_large_kept_samples() {
    let domain = TestDomain::new();
    let (here, there) = (domain.join(), domain.join());
    let topic = |participant: &DomainParticipant| {
        participant.topic::<Note>("Large").transient_local().keep_all().create().unwrap()
    };
    let ours = topic(&here);
    let writer = here.writer(&ours).memory(8 << 20).max_sample_size(1 << 20);
    let writer = writer.max_blocking_time(SOON).create().unwrap();
    let note = |number: usize| Note {
        title: format!("note {}", number % 3),
        text: char::from(b'a' + number as u8).to_string().repeat(number * 37_003 % 700_000),
    };
    let notes: Vec<Note> = (0..25).map(note).collect();
    notes.iter().for_each(|note| writer.write(note).unwrap());
    writer.wait_for_acknowledgments(SOON).unwrap();
    let reader = there.reader(&topic(&there)).reliable_all().create().unwrap();
    assert_eq!(take_all(&reader, 25), notes);
}

#[test]
fn limits_and_lifespan_hold() {
    let domain = TestDomain::new();
    let participant = domain.join();
    let service = DurabilityServiceQosPolicy {
        history_kind: HistoryQosPolicyKind::KeepAll,
        max_samples: Length::of(10),
        max_instances: Length::of(3),
        ..DurabilityServiceQosPolicy::default()
    };
    let topic = participant.topic::<Note>("Notes").transient_local();
    let topic = topic.durability_service(service).create().unwrap();
    let writer = writer_of(&participant, &topic);
    for number in 0..100 {
        let title = format!("the title of note {}, longer than a hash", number % 5);
        writer.write(&Note { title, text: number.to_string() }).unwrap();
    }
    writer.wait_for_acknowledgments(SOON).unwrap();
    let reader = participant.reader(&topic).reliable_all().create().unwrap();
    let kept: Vec<String> = take_all(&reader, 10).into_iter().map(|note| note.text).collect();
    let expected = (0..100).filter(|number| number % 5 < 3).skip(50).map(|it: u32| it.to_string());
    assert_eq!(kept, expected.collect::<Vec<_>>());

    let short = participant.topic::<CheckedSample>("Short").transient_local().keep_all();
    let short = short.lifespan(Duration::from_secs(2)).create().unwrap();
    let writer = writer_of(&participant, &short);
    writer.write(&CheckedSample::new(1)).unwrap();
    // Longer than the sample's lifespan.
    std::thread::sleep(Duration::from_millis(2200));
    writer.write(&CheckedSample::new(2)).unwrap();
    let reader = participant.reader(&short).reliable_all().create().unwrap();
    assert_eq!(take_all(&reader, 1), [CheckedSample::new(2)]);
}

/// A topic keeps few samples, and drops more than it keeps during a join. A counted reader receives
/// all samples written from then on, whether it requests earlier ones or not (I-232).
#[test]
fn counted_reader_receives_every_sample_written_from_then_on() {
    let domain = TestDomain::new();
    let of = |participant: &DomainParticipant| {
        let service = DurabilityServiceQosPolicy {
            history_kind: HistoryQosPolicyKind::KeepAll,
            max_samples: Length::of(40),
            ..DurabilityServiceQosPolicy::default()
        };
        let topic = participant.topic::<CheckedSample>("Marks").transient_local();
        topic.durability_service(service).create().unwrap()
    };
    let here = domain.join();
    let topic = of(&here);
    let writer = here.writer(&topic).memory(64 << 10).in_flight(256);
    let writer = writer.max_blocking_time(Timeout::millis(10)).create().unwrap();
    let mut number = 0;
    // Returns the number of samples written. A reader that does not take yet may leave no room for
    // another one.
    let mut write = || {
        match writer.write(&CheckedSample::new(number)) {
            Ok(_) => number += 1,
            Err(DdsError::Timeout(_)) => {}
            Err(error) => panic!("{error}"),
        }
        number
    };
    (0..100).for_each(|_| _ = write());
    for wants_history in [true, false].repeat(3) {
        let there = domain.join();
        let topic = of(&there);
        let kind = match wants_history {
            true => DurabilityQosPolicyKind::TransientLocal,
            false => DurabilityQosPolicyKind::Volatile,
        };
        let reader = there.reader(&topic).reliable_all().durability(kind).create().unwrap();
        let deadline = Instant::now() + PATIENCE;
        let mut counted = write();
        while writer.matched_readers() == 0 {
            assert!(Instant::now() < deadline, "it is never counted");
            counted = write();
        }
        let (mut end, mut got) = (counted, ReceivedSequence::default());
        while got.next < end || end < counted + 500 {
            assert!(Instant::now() < deadline, "only up to {} of {end}", got.next);
            if end < counted + 500 {
                end = write();
            }
            let timeout = if end < counted + 500 { Timeout::NOW } else { Timeout::millis(10) };
            reader.take_data(.., timeout).unwrap().for_each(|sample| got.take_in(&sample));
        }
        let first = got.first.unwrap();
        assert!(first <= counted, "{first} is the first, and {counted} was written then");
        drop(reader);
        drop(there);
        until("it is gone", || writer.matched_readers() == 0);
    }
}

#[test]
fn misuse_of_kept_topics_is_refused_with_advice() {
    let domain = TestDomain::new();
    let (here, there) = (domain.join(), domain.join());
    let says = |error: DdsError, words: &str| {
        assert!(error.to_string().contains(words), "`{error}` does not say `{words}`");
    };
    let none = here.topic::<CheckedSample>("None").transient_local().keep_last(0).create();
    says(none.err().unwrap(), "depth is 0");
    let service = DurabilityServiceQosPolicy {
        history_depth: 5,
        max_samples_per_instance: Length::of(2),
        ..DurabilityServiceQosPolicy::default()
    };
    let wrong =
        here.topic::<CheckedSample>("Wrong").transient_local().durability_service(service).create();
    says(wrong.err().unwrap(), "max_samples_per_instance");
    let none =
        here.topic::<CheckedSample>("None").transient_local().lifespan(Duration::ZERO).create();
    says(none.err().unwrap(), "nothing would be kept");
    let kept =
        here.topic::<CheckedSample>("Marks").transient_local().keep_last(3).create().unwrap();
    let _reader = here.reader(&kept).reliable_all().create().unwrap();
    let other = here.topic::<CheckedSample>("Marks").transient_local().keep_all().create().unwrap();
    says(here.writer(&other).create().err().unwrap(), "all samples");
    let atomic = there.topic::<CheckedSample>("Marks").atomic().create().unwrap();
    let reader = there.reader(&atomic).reliable_all().create().unwrap();
    reader.wait_for_historical_data(Timeout::NOW).unwrap();
}

/// The process that sends its kept samples is killed at some moment during the transfer: another
/// one has them, too.
#[test]
fn state_transfer_completes_when_a_sending_member_is_killed() {
    let rounds = std::env::var("SQUALL_TEST_ROUNDS").ok().and_then(|it| it.parse().ok());
    let mut landed = 0;
    for round in 0..rounds.unwrap_or(8) {
        let domain = TestDomain::new();
        let mut writer = Actor::start(module_path!(), "writer", &domain, round);
        assert_eq!(writer.hear(), "written");
        let mut holders: Vec<Actor> =
            (0..2).map(|seed| Actor::start(module_path!(), "keeper", &domain, seed)).collect();
        holders.iter_mut().for_each(|holder| assert_eq!(holder.hear(), "has it"));
        let participant = domain.join();
        let reader = participant.reader(&all_marks(&participant)).reliable_all().create().unwrap();
        std::thread::sleep(Duration::from_millis(5 + round * 7 % 40));
        let before = reader.wait_for_historical_data(Timeout::NOW).is_ok();
        holders[(round % 2) as usize].kill();
        landed += u32::from(!before);
        reader.wait_for_historical_data(SOON).unwrap();
        writer.tell("end");
        let mut got = ReceivedSequence::default();
        take_to_the_end(&reader, &mut got);
        assert_eq!(got.first, Some(0));
        assert!(got.next > MANY);
        assert_eq!(writer.hear(), "ended");
        holders.iter_mut().for_each(Actor::kill);
        writer.finish();
        drop((reader, participant));
        domain.assert_empty();
    }
    assert!(landed > 0, "no kill landed in a transfer");
}

/// The offer of a writer whose participant is gone is not remembered for late joiners: its records
/// contain the offer, and its promises for the future do not apply any more.
#[test]
fn kept_samples_of_departed_writer_go_only_to_compatible_readers() {
    const PERIOD: Duration = Duration::from_millis(500);
    let domain = TestDomain::new();
    // Writes as an owner, or for readers without requests.
    let topic = |participant: &DomainParticipant, period: Option<Duration>| {
        let topic = participant.topic::<Reading>("Readings").transient_local().keep_all();
        let topic = match period {
            Some(period) => topic.deadline(period).exclusive_ownership().by_source_timestamp(),
            None => topic,
        };
        topic.create().unwrap()
    };
    let reader = |participant: &DomainParticipant, period| {
        let reader = participant.reader(&topic(participant, period)).reliable_all();
        reader.create().unwrap()
    };
    let [here, there] = [domain.join(), domain.join()];
    let (owned, shared) = (reader(&here, Some(PERIOD)), reader(&there, None));
    {
        let goes = domain.join();
        let writer = goes.writer(&topic(&goes, Some(PERIOD / 2))).create().unwrap();
        writer.wait_for_readers(1, SOON).unwrap();
        (0..5).for_each(|value| writer.write(&Reading { sensor: 1, value }).unwrap());
        writer.wait_for_acknowledgments(SOON).unwrap();
    }
    until("the writer is gone", || owned.matched_writers() == 0);
    let values = |reader: &DataReader<Reading>| {
        let samples = reader.take_data(.., Timeout::millis(20)).unwrap();
        let told = samples;
        told.map(|sample| sample.value).collect::<Vec<u64>>()
    };
    // A reader that was present then, and reads only now.
    assert_eq!(values(&owned), [0, 1, 2, 3, 4]);
    let [late, other] = [domain.join(), domain.join()];
    let [late, other] = [reader(&late, Some(PERIOD)), reader(&other, None)];
    [&late, &other].iter().for_each(|reader| reader.wait_for_historical_data(SOON).unwrap());
    assert_eq!(values(&late), [0, 1, 2, 3, 4]);
    // The writer offered these readers too little.
    assert_eq!([values(&shared), values(&other)], [vec![], vec![]]);
}

/// DURABILITY transient, as in ported applications: kept by all participants, even when the writer
/// is gone.
#[test]
fn transient_samples_outlive_their_writer() {
    let domain = TestDomain::new();
    let (here, there) = (domain.join(), domain.join());
    let mut qos = TopicQos::default();
    qos.reliability.kind = ReliabilityQosPolicyKind::Reliable;
    qos.durability.kind = DurabilityQosPolicyKind::Transient;
    qos.durability_service.history_kind = HistoryQosPolicyKind::KeepAll;
    let of = |participant: &DomainParticipant| {
        participant.topic::<CheckedSample>("Marks").qos(&qos).create().unwrap()
    };
    let (ours, theirs) = (of(&here), of(&there));
    assert!(ours.is_kept() && !ours.is_logged());
    let reader = there.reader(&theirs).reliable_all().create().unwrap();
    let writer = writer_of(&here, &ours);
    writer.wait_for_readers(1, SOON).unwrap();
    (0..10).for_each(|number| writer.write(&CheckedSample::new(number)).unwrap());
    writer.wait_for_acknowledgments(SOON).unwrap();
    drop((writer, ours, here));
    let asks = DataReaderQos { durability: qos.durability.clone(), ..DataReaderQos::default() };
    let asks = DataReaderQos { history: qos_of_all(), ..asks };
    let late = there.reader(&theirs).qos(&asks).create().unwrap();
    for reader in [&reader, &late] {
        let mut numbers = Vec::new();
        until("all have come", || {
            let taken = reader.take_data(.., Timeout::millis(20)).unwrap();
            // The reader is also notified that the one instance has no writer any more.
            numbers.extend(taken.map(|sample| sample.number));
            numbers.len() == 10
        });
        assert_eq!(numbers, (0..10).collect::<Vec<u64>>());
    }
}

fn qos_of_all() -> HistoryQosPolicy {
    HistoryQosPolicy { kind: HistoryQosPolicyKind::KeepAll, ..HistoryQosPolicy::default() }
}

/// LIFESPAN may change unless it governs the retention: all participants of a kept topic have
/// agreed on it.
#[test]
fn lifespan_of_a_kept_topic_cannot_change() {
    let domain = TestDomain::new();
    let participant = domain.join();
    let plain = participant.topic::<CheckedSample>("Plain").create().unwrap();
    let kept = participant.topic::<CheckedSample>("Kept").transient_local().create().unwrap();
    let changed = |topic: &Topic<CheckedSample>| {
        let mut qos = topic.qos();
        qos.lifespan.duration = Duration::from_secs(3).into();
        topic.set_qos(&qos).map(|()| topic.qos() == qos)
    };
    assert_eq!(changed(&plain), Ok(true));
    let refused = changed(&kept).unwrap_err();
    assert!(matches!(&refused, DdsError::ImmutablePolicy(why) if why.contains("LIFESPAN")));
}

/// Creates a topic that forgets ended instances after a delay; never, if there is none.
fn cleaned(participant: &DomainParticipant, name: &str, after: Option<Duration>) -> Topic<Reading> {
    let topic = participant.topic::<Reading>(name).transient_local();
    let service = after.map(|after| DurabilityServiceQosPolicy {
        service_cleanup_delay: after.into(),
        history_kind: HistoryQosPolicyKind::KeepAll,
        ..DurabilityServiceQosPolicy::default()
    });
    match service {
        Some(service) => topic.durability_service(service),
        None => topic.keep_all(),
    }
    .create()
    .unwrap()
}

/// Returns the samples that a new reader receives: the sensor of each, and whether it is alive.
fn of_late_reader(participant: &DomainParticipant, topic: &Topic<Reading>) -> Vec<(u32, bool)> {
    let reader = participant.reader(topic).reliable_all().create().unwrap();
    reader.wait_for_historical_data(SOON).unwrap();
    let mut all = Vec::new();
    loop {
        let before = all.len();
        let taken = reader.take(.., Timeout::millis(20)).unwrap();
        all.extend(taken.map(|sample| (sample.key_value().sensor, sample.data().is_some())));
        if all.len() == before {
            return all;
        }
    }
}

/// DURABILITY_SERVICE.service_cleanup_delay: late joiners receive a disposed instance until the
/// delay is over, and not afterwards (I-240). The times are those of the samples: the test waits
/// for no clock.
#[test]
fn disposed_instance_is_forgotten_after_the_cleanup_delay() {
    let domain = TestDomain::new();
    let [here, there] = [domain.join(), domain.join()];
    let begin = SystemTime::now() - Duration::from_secs(1000);
    let at = |seconds| begin + Duration::from_secs(seconds);
    let never = Some(Duration::from_secs(1 << 30));
    for (name, after) in
        [("After", Some(Duration::from_secs(60))), ("Long", never), ("Never", None)]
    {
        let [ours, theirs] = [&here, &there].map(|it| cleaned(it, name, after));
        let keeps = there.reader(&theirs).reliable_all().create().unwrap();
        let writer = writer_of(&here, &ours);
        writer.wait_for_readers(1, SOON).unwrap();
        let of = |sensor| Reading { sensor, value: 7 };
        for sensor in 1..=3 {
            writer.write_w_timestamp(&of(sensor), at(0)).unwrap();
        }
        writer.dispose_w_timestamp(&of(1), at(10)).unwrap();
        writer.unregister_instance_w_timestamp(&of(2), at(20)).unwrap();
        writer.write_w_timestamp(&of(3), at(69)).unwrap();
        writer.wait_for_acknowledgments(SOON).unwrap();
        let all = [(1, true), (2, true), (3, true), (1, false), (2, false), (3, true)];
        let both =
            || [(&here, &ours), (&there, &theirs)].map(|(it, topic)| of_late_reader(it, topic));
        let has_all = |it: &Topic<Reading>| it.storage_status().unwrap().samples == 6;
        until("both have it", || has_all(&ours) && has_all(&theirs));
        assert_eq!(both(), [all; 2], "{name}: nothing is over for long enough");
        // The third instance is alive, and the notice of this is for none but itself; the second
        // one is alive again.
        writer.write_w_timestamp(&of(3), at(70)).unwrap();
        writer.write_w_timestamp(&of(2), at(71)).unwrap();
        writer.write_w_timestamp(&of(3), at(900)).unwrap();
        writer.wait_for_acknowledgments(SOON).unwrap();
        let lately = [(3, true), (3, true), (2, true), (3, true)];
        // The earlier end of the second instance is kept, but is not reported to a reader for which
        // the instance is alive.
        let (left, kept) = match name {
            "After" => (vec![(2, true), (3, true)], 7),
            _ => (vec![(1, true), (2, true), (3, true), (1, false)], 9),
        };
        let left: Vec<_> = left.into_iter().chain(lately).collect();
        let samples = all.len() as u64 + 3;
        let status = || [&ours, &theirs].map(|it| it.storage_status().unwrap());
        until("both have all", || status().iter().all(|it| it.samples == samples));
        assert_eq!(status().map(|it| it.kept), [kept; 2]);
        assert_eq!(both(), [left.clone(), left.clone()], "{name}");
        let latest = domain.join();
        let topic = cleaned(&latest, name, after);
        assert_eq!(of_late_reader(&latest, &topic), left, "{name}: of who was not there");
        let mut seen = 0;
        until("who was there hears of all", || {
            seen += keeps.take(.., Timeout::millis(20)).unwrap().count();
            seen == all.len() + 2
        });
    }
}

/// With ever new keys the kept samples do not grow, at any participant, also in sets; with a delay
/// of zero no late joiner is notified of disposed instances.
#[test]
fn disposed_instances_do_not_accumulate_in_the_store() {
    const COUNT: u32 = 10_000;
    let domain = TestDomain::new();
    let [here, there] = [domain.join(), domain.join()];
    let mut qos = TopicQos::default();
    qos.reliability.kind = ReliabilityQosPolicyKind::Reliable;
    qos.durability.kind = DurabilityQosPolicyKind::Transient;
    let of = |it: &DomainParticipant| it.topic::<Reading>("Readings").qos(&qos).create().unwrap();
    let topics = [&here, &there].map(of);
    let reader = there.reader(&topics[1]).reliable_all().create().unwrap();
    let writer = here.writer(&topics[0]).autodispose_unregistered_instances(false);
    let writer = writer.max_blocking_time(SOON).create().unwrap();
    writer.wait_for_readers(1, SOON).unwrap();
    writer.write(&Reading { sensor: u32::MAX, value: 1 }).unwrap();
    let taker = std::thread::spawn(move || {
        let mut disposed = 0;
        let deadline = Instant::now() + PATIENCE;
        while disposed < COUNT && Instant::now() < deadline {
            let taken = reader.take(.., Timeout::millis(20)).unwrap();
            disposed += taken.filter(|it| it.data().is_none()).count() as u32;
        }
        (disposed, reader)
    });
    for sensor in 0..COUNT {
        let reading = Reading { sensor, value: 1 };
        writer.write(&reading).unwrap();
        writer.dispose(&reading).unwrap();
        writer.unregister_instance(&reading).unwrap();
    }
    writer.wait_for_acknowledgments(SOON).unwrap();
    let (disposed, _reader) = taker.join().unwrap();
    assert_eq!(disposed, COUNT, "who is there hears of all");
    let all = 1 + 3 * u64::from(COUNT);
    let status = || topics.each_ref().map(|topic| topic.storage_status().unwrap());
    until("both have all", || status().iter().all(|it| it.samples == all));
    assert_eq!(status().map(|it| it.kept), [1; 2]);
    assert_eq!(of_late_reader(&there, &topics[1]), [(u32::MAX, true)]);
}

/// All participants must agree on the delay; a topic that serves no late joiner has none.
#[test]
fn participants_agree_on_the_cleanup_delay() {
    let domain = TestDomain::new();
    let here = domain.join();
    let one = cleaned(&here, "Readings", Some(Duration::from_secs(60)));
    let _reader = here.reader(&one).reliable_all().create().unwrap();
    for other in [Some(Duration::ZERO), None] {
        let other = cleaned(&here, "Readings", other);
        let refused = here.writer(&other).create().err().unwrap().to_string();
        assert!(refused.contains("until 60s after the end of an instance"), "{refused}");
    }
    let mut qos = TopicQos::default();
    qos.reliability.kind = ReliabilityQosPolicyKind::Reliable;
    qos.durability.kind = DurabilityQosPolicyKind::TransientLocal;
    let local = here.topic::<Reading>("Local").qos(&qos).create().unwrap();
    let writer = writer_of(&here, &local);
    let reading = Reading { sensor: 1, value: 1 };
    writer.write(&reading).unwrap();
    writer.dispose(&reading).unwrap();
    writer.write(&Reading { sensor: 2, value: 1 }).unwrap();
    writer.wait_for_acknowledgments(SOON).unwrap();
    assert_eq!(of_late_reader(&here, &local), [(1, false), (2, true)]);
}
