//! The reading calls, and the policies of a reader's cache, through the public API.

use std::time::{Duration, Instant};

use crate::support::{SOON, TestDomain, until};
use dds_api::prelude::*;
use dds_api::qos::{
    DataReaderQos, HistoryQosPolicyKind, Length, PresentationQosPolicy,
    PresentationQosPolicyAccessScopeKind, ReaderDataLifecycleQosPolicy, ResourceLimitsQosPolicy,
};
use dds_api::subscription::{
    DataReaderBuilder, InstanceState, ReadCondition, SampleRejectedStatusKind, SampleState,
    SampleStateMask, States, ViewState,
};

#[derive(DdsType, Clone, Copy, Debug, Default, PartialEq)]
struct Reading {
    #[dds(key)]
    sensor: u32,
    value: u64,
}

fn reading(sensor: u32, value: u64) -> Reading {
    Reading { sensor, value }
}

/// A writer and a reader of one topic, with their participants.
struct Pair {
    writer: DataWriter<Reading>,
    reader: DataReader<Reading>,
    participant: DomainParticipant,
    _meeting: TestDomain,
}

impl Pair {
    fn new(build: impl FnOnce(DataReaderBuilder<Reading>) -> DataReaderBuilder<Reading>) -> Pair {
        let domain = TestDomain::new();
        let participant = domain.join();
        let topic = participant.topic("Readings").create().unwrap();
        let writer = participant.writer(&topic).memory(64 << 10).in_flight(64);
        let writer = writer.max_blocking_time(Timeout::millis(200)).create().unwrap();
        let reader = build(participant.reader(&topic).reliable_all()).create().unwrap();
        writer.wait_for_readers(1, SOON).unwrap();
        Pair { writer, reader, participant, _meeting: domain }
    }

    /// Writes, and waits until the sample can be read.
    fn write(&self, sensor: u32, value: u64) {
        self.writer.write(&reading(sensor, value)).unwrap();
        self.writer.wait_for_acknowledgments(SOON).unwrap();
    }
}

/// Takes until this value arrives.
fn until_last(reader: &DataReader<Reading>, last: u64) {
    while reader.take_next_data(SOON).unwrap().expect("it does not come").value != last {}
}

fn values(samples: &[Sample<Reading>]) -> Vec<u64> {
    samples.iter().filter_map(Sample::data).map(|data| data.value).collect()
}

#[test]
fn read_samples_stay_and_taken_samples_are_removed() {
    let pair = Pair::new(|reader| reader.keep_all());
    let reader = &pair.reader;
    (1..=4).for_each(|value| pair.write(value as u32 % 2, value));
    let first = reader.read(..3, SOON).unwrap();
    assert_eq!(values(&first), [1, 2, 3]);
    assert!(first.iter().all(|it| it.info().sample_state == SampleState::NotRead));
    let read = |mask: SampleStateMask| {
        let condition = ReadCondition::new(States::any().of_samples(mask));
        values(&reader.read_w_condition(.., &condition).unwrap())
    };
    assert_eq!(read(SampleStateMask::READ), [1, 2, 3]);
    assert_eq!(read(SampleStateMask::NOT_READ), [4]);
    assert_eq!(read(SampleStateMask::NOT_READ), []);
    assert_eq!(reader.read_next_sample().unwrap().map(|it| it.info()), None);
    pair.write(1, 5);
    let next = reader.read_next_sample().unwrap().unwrap();
    assert_eq!((next.data().unwrap().value, next.info().view_state), (5, ViewState::NotNew));
    let odd = ReadCondition::new(States::any()).matching(|it: &Reading| it.value % 2 == 1);
    assert_eq!(values(&reader.take_w_condition(.., &odd).unwrap()), [1, 3, 5]);
    let rest: Vec<_> = reader.take(.., SOON).unwrap().collect();
    assert_eq!(values(&rest), [2, 4]);
    assert!(!reader.has_samples());
    assert_eq!(
        first[0].data().unwrap().value,
        1,
        "what was read is held though the cache has let it go"
    );
    pair.write(1, 6);
    assert_eq!(reader.take_next_sample().unwrap().unwrap().data(), Some(&reading(1, 6)));
}

#[test]
fn instances_are_gone_through_one_by_one() {
    let pair = Pair::new(|reader| reader.keep_all());
    let reader = &pair.reader;
    for value in 0..6 {
        pair.write(10 * (value as u32 % 3), value);
    }
    let (mut previous, mut seen) = (None, Vec::new());
    loop {
        let of_one = reader.read_next_instance(.., previous, States::any()).unwrap();
        let Some(last) = of_one.last() else { break };
        previous = Some(last.info().instance_handle);
        seen.push((last.key_value().sensor, values(&of_one)));
    }
    assert_eq!(seen, [(0, vec![0, 3]), (10, vec![1, 4]), (20, vec![2, 5])]);
    let ten = reader.lookup_instance(&reading(10, 0)).unwrap();
    assert_eq!(values(&reader.take_instance(..1, ten, States::any()).unwrap()), [1]);
    assert_eq!(values(&reader.read_instance(.., ten, States::any()).unwrap()), [4]);
    let big = ReadCondition::new(States::any()).matching(|it: &Reading| it.value > 2);
    let next = reader.take_next_instance_w_condition(.., Some(ten), &big).unwrap();
    assert_eq!(values(&next), [5]);
    let none = reader.read_next_instance_w_condition(.., Some(ten), &big).unwrap();
    assert!(none.is_empty());
    assert!(reader.read_instance(.., reader.instance_handle(), States::any()).is_err());
}

#[test]
fn keep_last_reader_that_only_queries_blocks_no_writer() {
    let pair = Pair::new(|reader| reader.keep_last(2));
    for value in 0..1000 {
        pair.write(value as u32 % 2, value);
        if value % 32 == 0 {
            assert!(pair.reader.has_samples());
        }
    }
    let mut last: Vec<_> = pair.reader.take_data(.., SOON).unwrap().map(|it| it.value).collect();
    last.sort_unstable();
    assert_eq!(last, [996, 997, 998, 999]);
}

#[test]
fn sample_without_room_waits_and_is_counted_as_rejected() {
    let limits = ResourceLimitsQosPolicy {
        max_samples: Length::of(4),
        max_samples_per_instance: Length::of(3),
        ..ResourceLimitsQosPolicy::default()
    };
    let pair = Pair::new(|reader| reader.keep_all().resource_limits(limits));
    let reader = &pair.reader;
    (0..8).for_each(|value| pair.write(1, value));
    assert_eq!(values(&reader.read(.., SOON).unwrap()), [0, 1, 2]);
    let status = reader.sample_rejected_status();
    assert_eq!((status.total_count, status.total_count_change), (1, 1));
    assert_eq!(status.last_reason, SampleRejectedStatusKind::RejectedBySamplesPerInstanceLimit);
    assert_eq!(status.last_instance_handle, reader.lookup_instance(&reading(1, 0)));
    let mut all = Vec::new();
    while all.len() < 8 {
        all.extend(reader.take_data(.., SOON).unwrap().map(|it| it.value));
    }
    assert_eq!(all, (0..8).collect::<Vec<_>>(), "nothing is lost");
    assert_eq!(reader.sample_rejected_status().total_count_change, 1, "3 in, 3 in, 2 in");
    // The writer is blocked in the end.
    let mut written = 0;
    while pair.writer.write(&reading(1, written)).is_ok() {
        written += 1;
    }
    assert!(reader.read_data(.., SOON).unwrap().len() == 3);
}

#[test]
fn time_based_filter_delivers_last_sample_after_the_separation() {
    let separation = Duration::from_millis(300);
    let pair = Pair::new(|reader| reader.minimum_separation(separation));
    let begin = Instant::now();
    (1..=5).for_each(|value| pair.write(1, value));
    let reader = &pair.reader;
    assert_eq!(reader.take_next_data(SOON).unwrap().map(|it| it.value), Some(1));
    assert_eq!(reader.take_next_data(Timeout::NOW).unwrap().map(|it| it.value), None);
    assert_eq!(reader.take_next_data(SOON).unwrap().map(|it| it.value), Some(5));
    assert!(begin.elapsed() >= separation);
}

/// The current TIME_BASED_FILTER applies also to samples that already wait, and to threads waiting
/// for them.
#[test]
fn a_filter_by_time_may_change_while_samples_wait_for_it() {
    let hour = Duration::from_secs(3600);
    let pair = Pair::new(|reader| reader.minimum_separation(hour));
    let reader = &pair.reader;
    let set = |separation: Duration| {
        let mut qos = reader.qos();
        qos.time_based_filter.minimum_separation = separation.into();
        reader.set_qos(&qos).unwrap();
    };
    let next = |timeout: Timeout| reader.take_next_data(timeout).unwrap().map(|it| it.value);
    (1..=3).for_each(|value| pair.write(1, value));
    assert_eq!((next(SOON), next(Timeout::millis(5))), (Some(1), None));
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| next(SOON));
        set(Duration::ZERO);
        assert_eq!(waits.join().unwrap(), Some(3), "it waits no more");
    });
    (4..=5).for_each(|value| pair.write(1, value));
    assert_eq!((next(SOON), next(SOON)), (Some(4), Some(5)));
    // The waiting sample must wait longer; whether it still waits then depends on the time that
    // this took.
    let short = Duration::from_millis(200);
    set(short);
    pair.write(2, 6);
    let began = Instant::now();
    pair.write(2, 7);
    set(hour);
    let is_quick = began.elapsed() < short / 2;
    assert_eq!(next(SOON), Some(6));
    std::thread::sleep(short + short / 2);
    match next(Timeout::NOW) {
        None => set(Duration::ZERO),
        Some(early) => assert!(!is_quick, "{early} has not waited"),
    }
    pair.write(2, 8);
    until_last(reader, 8);
}

#[test]
fn wait_succeeds_only_when_its_condition_holds() {
    let pair = Pair::new(|reader| reader.keep_all());
    let reader = &pair.reader;
    let large = ReadCondition::new(States::not_read()).matching(|it: &Reading| it.value > 5);
    pair.write(1, 1);
    assert!(!reader.wait_for_condition(&large, Timeout::millis(20)).unwrap());
    std::thread::scope(|scope| {
        scope.spawn(|| (4..=7).for_each(|value| pair.write(1, value)));
        assert!(reader.wait_for_condition(&large, SOON).unwrap());
    });
    assert_eq!(reader.take_w_condition(..1, &large).unwrap()[0].data(), Some(&reading(1, 6)));
    // Samples that were read before do not end the wait, but are returned with new ones.
    reader.read_data(.., SOON).unwrap();
    let begin = Instant::now();
    let again = reader.read_data(.., Timeout::millis(30)).unwrap();
    assert!(begin.elapsed() >= Duration::from_millis(30) && !again.is_empty());
    assert!(pair.participant.topic::<Reading>("Readings").create().is_ok());
}

#[test]
fn policies_that_contradict_each_other_are_refused() {
    let pair = Pair::new(|reader| reader);
    let topic = pair.participant.topic::<Reading>("Readings").create().unwrap();
    let mut qos = DataReaderQos::default();
    qos.history.depth = 5;
    qos.resource_limits.max_samples_per_instance = Length::of(2);
    let refused = pair.participant.reader(&topic).qos(&qos).create();
    assert!(matches!(refused, Err(DdsError::InconsistentPolicy(_))));
    qos.history.kind = HistoryQosPolicyKind::KeepLast;
    qos.history.depth = 2;
    let reader = pair.participant.reader(&topic).qos(&qos).create().unwrap();
    pair.writer.wait_for_readers(2, SOON).unwrap();
    for value in 0..6 {
        pair.write(value as u32 % 2, value);
    }
    let by_instance: Vec<_> = reader.take_data(.., SOON).unwrap().map(|it| it.value).collect();
    assert_eq!(by_instance, [2, 4, 3, 5], "instance by instance, as the standard's default is");
}

#[test]
fn instances_are_taken_one_by_one() {
    let pair = Pair::new(|reader| reader.keep_all());
    let reader = &pair.reader;
    (0..6).for_each(|value| pair.write(10 * (value as u32 % 3), value));
    let (mut previous, mut taken) = (None, Vec::new());
    loop {
        let of_one = reader.take_next_instance(..1, previous, States::any()).unwrap();
        let Some(last) = of_one.last() else { break };
        previous = Some(last.info().instance_handle);
        taken.push(last.data().unwrap().value);
    }
    assert_eq!(taken, [0, 1, 2], "one of each");
    let rest: Vec<_> = reader.take_data(.., SOON).unwrap().map(|it| it.value).collect();
    assert_eq!(rest, [3, 4, 5], "the others have stayed");
}

#[test]
fn read_condition_reports_its_states_and_query() {
    let states =
        States::not_read().of_views(ViewState::New).of_instances(InstanceState::NotAliveDisposed);
    let plain = ReadCondition::<Reading>::new(states);
    assert_eq!(plain.states(), states);
    assert_ne!(plain.states(), States::not_read());
    assert_eq!((plain.query_expression(), plain.query_parameters()), (None, vec![]));
    let parameters = ["7".to_owned()];
    let query = ReadCondition::<Reading>::query(states, "value > %0", &parameters).unwrap();
    assert_eq!((query.states(), query.query_parameters()), (states, parameters.to_vec()));
    query.set_query_parameters(&["8".to_owned()]).unwrap();
    assert_eq!(query.clone().query_parameters(), ["8"], "clones share them");
}

/// READER_DATA_LIFECYCLE: samples of an ended instance are removed after the delay; those of a live
/// instance stay.
#[test]
fn samples_of_disposed_instance_are_purged_after_the_delay() {
    let delay = Duration::from_millis(50);
    let policy = ReaderDataLifecycleQosPolicy {
        autopurge_disposed_samples_delay: delay.into(),
        ..ReaderDataLifecycleQosPolicy::default()
    };
    let pair = Pair::new(|reader| reader.keep_all().data_lifecycle(policy));
    pair.write(1, 1);
    pair.write(2, 2);
    let begin = Instant::now();
    pair.writer.dispose(&reading(1, 0)).unwrap();
    pair.writer.wait_for_acknowledgments(SOON).unwrap();
    let there = || values(&pair.reader.read(.., Timeout::NOW).unwrap());
    until("it is purged", || there() == [2]);
    assert!(begin.elapsed() >= delay, "and not sooner");
    assert!(pair.reader.lookup_instance(&reading(2, 0)).is_some());
}

/// PRESENTATION.ordered_access: across instances if the scope is the topic, and instance by
/// instance otherwise.
#[test]
fn changes_are_delivered_in_the_requested_access_order() {
    let domain = TestDomain::new();
    let participant = domain.join();
    let topic = participant.topic::<Reading>("Readings").create().unwrap();
    let mut qos = DataReaderQos::default();
    qos.history.kind = HistoryQosPolicyKind::KeepAll;
    let scope = |access_scope| PresentationQosPolicy {
        access_scope,
        coherent_access: false,
        ordered_access: true,
    };
    let whole = scope(PresentationQosPolicyAccessScopeKind::Topic);
    let publisher = participant.publisher().presentation(whole.clone()).create().unwrap();
    let writer = publisher.writer(&topic).create().unwrap();
    let reader = |presentation| {
        let subscriber = participant.subscriber().presentation(presentation).create().unwrap();
        subscriber.reader(&topic).qos(&qos).create().unwrap()
    };
    let by_topic = reader(whole);
    let by_instance = reader(scope(PresentationQosPolicyAccessScopeKind::Instance));
    writer.wait_for_readers(2, SOON).unwrap();
    (1..=4).for_each(|value| writer.write(&reading(value as u32 % 2, value)).unwrap());
    writer.wait_for_acknowledgments(SOON).unwrap();
    for (reader, expected) in [(by_topic, [1, 2, 3, 4]), (by_instance, [1, 3, 2, 4])] {
        let got: Vec<_> = reader.take_data(.., SOON).unwrap().map(|it| it.value).collect();
        assert_eq!(got, expected);
    }
}
