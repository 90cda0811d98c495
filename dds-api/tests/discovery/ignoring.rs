//! Ignoring other participants' topics, writers and readers, or the participants themselves.

use crate::support::{CheckedSample, SOON, TestDomain, reader_of, until, writer_of};
use dds_api::domain::{
    ParticipantBuiltinTopicData, PublicationBuiltinTopicData, SubscriptionBuiltinTopicData,
    TopicBuiltinTopicData,
};
use dds_api::prelude::*;
use dds_api::subscription::InstanceState;
use dds_api::topic::AnnouncedTopic;

#[derive(DdsType, Clone, Copy, Debug, Default, PartialEq)]
struct Track {
    #[dds(key)]
    id: u32,
    count: u32,
}

fn topic(participant: &DomainParticipant, is_kept: bool) -> Topic<Track> {
    let topic = participant.topic::<Track>("Tracks");
    match is_kept {
        true => topic.transient_local().keep_all().create().unwrap(),
        false => topic.atomic().create().unwrap(),
    }
}

#[track_caller]
fn unknown(result: DdsResult<()>) {
    assert!(matches!(result, Err(DdsError::BadParameter(_))), "{result:?}");
}

/// Takes until a sample with this number has come from each of the given number of writers; returns
/// all samples.
fn take_until(reader: &DataReader<Track>, last: u32, mut writers: usize) -> Vec<Track> {
    let mut all = Vec::new();
    while writers > 0 {
        let sample = reader.take_next_data(SOON).unwrap().expect("it does not come");
        writers -= usize::from(sample.count == last);
        all.push(*sample);
    }
    all
}

#[test]
fn samples_of_ignored_writer_are_dropped_even_if_already_received() {
    let domain = TestDomain::new();
    let (here, there) = (domain.join(), domain.join());
    let reader = reader_of(&here, "Marks");
    let (bad, good) = (writer_of(&there, "Marks"), writer_of(&there, "Marks"));
    bad.wait_for_readers(1, SOON).unwrap();
    good.wait_for_readers(1, SOON).unwrap();
    reader.wait_for_writers(2, SOON).unwrap();
    bad.write(&CheckedSample::new(1)).unwrap();
    bad.wait_for_acknowledgments(SOON).unwrap();
    assert!(reader.has_samples());
    here.ignore_publication(bad.instance_handle()).unwrap();
    assert!(!reader.has_samples(), "it had come, and was not taken");
    assert_eq!((reader.matched_writers(), reader.matched_publications().len()), (1, 1));
    let status = reader.subscription_matched_status();
    assert_eq!((status.current_count, status.total_count), (1, 2));
    bad.write(&CheckedSample::new(2)).unwrap();
    good.write(&CheckedSample::new(3)).unwrap();
    assert_eq!(reader.take_next_data(SOON).unwrap().unwrap().number, 3);
    assert!(reader.take_next_data(Timeout::millis(20)).unwrap().is_none());
    // A later reader receives nothing of it either.
    let later = reader_of(&here, "Marks");
    until("it is matched", || later.matched_writers() == 1);
    bad.write(&CheckedSample::new(4)).unwrap();
    good.write(&CheckedSample::new(5)).unwrap();
    assert_eq!(later.take_next_data(SOON).unwrap().unwrap().number, 5);
    assert!(later.take_next_data(Timeout::millis(20)).unwrap().is_none());
    // One call is sufficient; the writer is still ignored after one of its policies changes.
    unknown(here.ignore_publication(bad.instance_handle()));
    let mut qos = bad.qos();
    qos.user_data.value = vec![1];
    bad.set_qos(&qos).unwrap();
    good.write(&CheckedSample::new(6)).unwrap();
    assert_eq!(reader.take_next_data(SOON).unwrap().unwrap().number, 6 - 1);
    assert_eq!(reader.take_next_data(SOON).unwrap().unwrap().number, 6);
    assert_eq!(reader.matched_publications(), [good.instance_handle()]);
}

#[test]
fn instances_of_ignored_writer_become_not_alive_no_writers() {
    let domain = TestDomain::new();
    let (here, there) = (domain.join(), domain.join());
    let of =
        |participant: &DomainParticipant| participant.topic::<Track>("Tracks").create().unwrap();
    let (ours, theirs) = (of(&here), of(&there));
    let reader = here.reader(&ours).reliable_all().create().unwrap();
    let writer = there.writer(&theirs).create().unwrap();
    writer.wait_for_readers(1, SOON).unwrap();
    writer.write(&Track { id: 1, count: 1 }).unwrap();
    let first = reader.take_next_data(SOON).unwrap().unwrap();
    assert_eq!(first.info().instance_state, InstanceState::Alive);
    here.ignore_publication(writer.instance_handle()).unwrap();
    let last = reader.take_next(SOON).unwrap().unwrap();
    assert_eq!(last.info().instance_state, InstanceState::NotAliveNoWriters);
    assert_eq!(last.key_value().id, 1);
}

/// I-188: from then on the next strongest writer owns the instances.
#[test]
fn ownership_passes_to_next_writer_when_owner_is_ignored() {
    let domain = TestDomain::new();
    let (here, there) = (domain.join(), domain.join());
    let of = |participant: &DomainParticipant| {
        let topic = participant.topic::<Track>("Tracks").atomic().exclusive_ownership();
        topic.create().unwrap()
    };
    let (ours, theirs) = (of(&here), of(&there));
    let reader = here.reader(&ours).reliable_all().create().unwrap();
    let strong = there.writer(&theirs).ownership_strength(9).create().unwrap();
    let weak = there.writer(&theirs).ownership_strength(1).create().unwrap();
    strong.wait_for_readers(1, SOON).unwrap();
    until("both are matched", || reader.matched_publications().len() == 2);
    let write = |count| {
        strong.write(&Track { id: 1, count }).unwrap();
        weak.write(&Track { id: 1, count: count + 1 }).unwrap();
        weak.wait_for_acknowledgments(SOON).unwrap();
    };
    write(10);
    let all = |reader: &DataReader<Track>| {
        let all = reader.take(.., Timeout::millis(20)).unwrap();
        all.map(|it| (it.data().map(|data| data.count), it.info().instance_state))
            .collect::<Vec<_>>()
    };
    assert_eq!(all(&reader), [(Some(10), InstanceState::Alive)]);
    here.ignore_publication(strong.instance_handle()).unwrap();
    // The weaker writer still exists, so the instance continues.
    write(20);
    assert_eq!(all(&reader), [(Some(21), InstanceState::Alive)]);
    here.ignore_publication(weak.instance_handle()).unwrap();
    let over: Vec<_> = all(&reader).into_iter().map(|(_, state)| state).collect();
    assert_eq!(over, [InstanceState::NotAliveNoWriters]);
}

#[test]
fn ordered_topic_keeps_its_order_without_ignored_writer() {
    let domain = TestDomain::new();
    let (here, witness, there) = (domain.join(), domain.join(), domain.join());
    let topics = [topic(&here, false), topic(&witness, false), topic(&there, false)];
    let reader = here.reader(&topics[0]).reliable_all().create().unwrap();
    let observer = witness.reader(&topics[1]).reliable_all().create().unwrap();
    let writers = [
        there.writer(&topics[2]).create().unwrap(),
        there.writer(&topics[2]).create().unwrap(),
        here.writer(&topics[0]).create().unwrap(),
    ];
    writers.iter().for_each(|writer| writer.wait_for_readers(2, SOON).unwrap());
    until("the writers are known", || reader.matched_publications().len() == 3);
    here.ignore_publication(writers[0].instance_handle()).unwrap();
    assert_eq!(reader.matched_publications().len(), 2);
    const COUNT: u32 = 200;
    std::thread::scope(|scope| {
        for (id, writer) in (0..).zip(&writers) {
            scope.spawn(move || {
                for count in 1..=COUNT {
                    writer.write(&Track { id, count }).unwrap();
                }
            });
        }
    });
    let all = take_until(&observer, COUNT, 3);
    assert_eq!(all.len(), 3 * COUNT as usize);
    let wanted: Vec<Track> = all.into_iter().filter(|track| track.id != 0).collect();
    assert_eq!(take_until(&reader, COUNT, 2), wanted);
    assert!(reader.take_next_data(Timeout::millis(20)).unwrap().is_none());
}

#[test]
fn late_reader_receives_no_kept_sample_of_ignored_writer() {
    let domain = TestDomain::new();
    let (here, there) = (domain.join(), domain.join());
    let theirs = topic(&there, true);
    let (bad, good) =
        (there.writer(&theirs).create().unwrap(), there.writer(&theirs).create().unwrap());
    bad.write(&Track { id: 0, count: 1 }).unwrap();
    good.write(&Track { id: 1, count: 2 }).unwrap();
    let publications = here.builtin_reader::<PublicationBuiltinTopicData>().unwrap();
    until("both are known", || publications.read_data(.., Timeout::NOW).unwrap().len() == 2);
    here.ignore_publication(bad.instance_handle()).unwrap();
    let handle = bad.instance_handle();
    // The ignored writer is remembered even after it is gone.
    drop(bad);
    let ours = topic(&here, true);
    let reader = here.reader(&ours).reliable_all().create().unwrap();
    reader.wait_for_historical_data(SOON).unwrap();
    assert_eq!(take_until(&reader, 2, 1), [Track { id: 1, count: 2 }]);
    assert!(reader.take_next_data(Timeout::millis(20)).unwrap().is_none());
    unknown(here.ignore_publication(handle));
}

#[test]
fn ignored_participant_and_its_entities_are_invisible() {
    let domain = TestDomain::new();
    let (here, there, other) = (domain.join(), domain.join(), domain.join());
    let participants = here.builtin_reader::<ParticipantBuiltinTopicData>().unwrap();
    let topics = here.builtin_reader::<TopicBuiltinTopicData>().unwrap();
    let publications = here.builtin_reader::<PublicationBuiltinTopicData>().unwrap();
    let subscriptions = here.builtin_reader::<SubscriptionBuiltinTopicData>().unwrap();
    let _before = (writer_of(&there, "Before"), reader_of(&there, "Before"));
    let reader = reader_of(&here, "Before");
    let writer = writer_of(&here, "Before");
    let alive = || {
        let is_alive = |state| state == InstanceState::Alive;
        let count = |states: Vec<InstanceState>| {
            states.into_iter().filter(|state| is_alive(*state)).count()
        };
        [
            count(states(&participants)),
            count(states(&topics)),
            count(states(&publications)),
            count(states(&subscriptions)),
        ]
    };
    until("all is known", || alive() == [2, 2, 1, 1]);
    until("they are matched", || {
        reader.matched_publications().len() == 2 && writer.matched_subscriptions().len() == 2
    });
    here.ignore_participant(there.instance_handle()).unwrap();
    assert_eq!(alive(), [1, 0, 0, 0]);
    assert_eq!(here.discovered_participants().unwrap(), [other.instance_handle()]);
    assert!(here.discovered_topics().unwrap().is_empty());
    assert_eq!(reader.matched_publications(), [writer.instance_handle()]);
    assert_eq!(writer.matched_subscriptions(), [reader.instance_handle()]);
    // Its own writer or reader may still be announced.
    assert!(here.announced_topics().iter().all(|it| it.writers() <= 1 && it.readers() <= 1));
    // Entities that it creates later are ignored too.
    let (after, reader) = (writer_of(&there, "After"), reader_of(&here, "After"));
    let theirs = writer_of(&other, "After");
    reader.wait_for_writers(1, SOON).unwrap();
    let knows_reader = |topic: &AnnouncedTopic| topic.name() == "After" && topic.readers() == 1;
    until("the others know of it", || there.announced_topics().iter().any(knows_reader));
    // The reader receives nothing of the writer, so the writer is not matched with it either.
    assert!(after.matched_subscriptions().is_empty() && after.matched_readers() == 0);
    after.write(&CheckedSample::new(1)).unwrap();
    theirs.write(&CheckedSample::new(2)).unwrap();
    assert_eq!(reader.take_next_data(SOON).unwrap().unwrap().number, 2);
    assert!(reader.take_next_data(Timeout::millis(20)).unwrap().is_none());
    assert_eq!(alive(), [1, 1, 1, 0]);
    unknown(here.ignore_participant(there.instance_handle()));
    unknown(here.ignore_publication(after.instance_handle()));
    unknown(here.discovered_participant_data(there.instance_handle()).map(drop));
    let found = here.find_topic::<CheckedSample>("Before", Timeout::NOW).map(drop);
    assert!(found.is_ok(), "its own");
}

fn states<T: dds_api::types::TopicData>(reader: &DataReader<T>) -> Vec<InstanceState> {
    let all = reader.read(.., Timeout::NOW).unwrap();
    all.iter().map(|it| it.info().instance_state).collect()
}

#[test]
fn ignore_topic_applies_to_all_other_participants() {
    let domain = TestDomain::new();
    let (here, there, other) = (domain.join(), domain.join(), domain.join());
    let topics = here.builtin_reader::<TopicBuiltinTopicData>().unwrap();
    let (theirs, kept) = (topic(&there, false), writer_of(&there, "Marks"));
    until("both are known", || topics.read_data(.., Timeout::NOW).unwrap().len() == 2);
    // Ignored by its instance in the builtin topic.
    let all = topics.read_data(.., Timeout::NOW).unwrap();
    let of_it = all.iter().find(|it| it.name == "Tracks").unwrap();
    let instance = of_it.info().instance_handle;
    assert_eq!(here.discovered_topic_data(instance).unwrap(), **of_it);
    here.ignore_topic(instance).unwrap();
    let ours = topic(&here, false);
    let (reader, own) =
        (here.reader(&ours).reliable_all().create().unwrap(), here.writer(&ours).create().unwrap());
    let writers = [
        there.writer(&theirs).create().unwrap(),
        other.writer(&topic(&other, false)).create().unwrap(),
    ];
    let (marks, all) = (reader_of(&here, "Marks"), writers.iter().chain([&own]));
    all.for_each(|writer| writer.wait_for_readers(1, SOON).unwrap());
    kept.wait_for_readers(1, SOON).unwrap();
    writers.iter().for_each(|it| it.write(&Track { id: 1, count: 1 }).unwrap());
    own.write(&Track { id: 2, count: 2 }).unwrap();
    kept.write(&CheckedSample::new(7)).unwrap();
    assert_eq!(take_until(&reader, 2, 1), [Track { id: 2, count: 2 }]);
    assert_eq!(marks.take_next_data(SOON).unwrap().unwrap().number, 7);
    writers.iter().for_each(|writer| writer.wait_for_acknowledgments(SOON).unwrap());
    assert!(reader.take_next_data(Timeout::millis(20)).unwrap().is_none());
    assert_eq!(reader.matched_publications(), [own.instance_handle()]);
}

#[test]
fn ignored_reader_is_unmatched_and_still_receives_samples() {
    for is_ordered in [false, true] {
        let domain = TestDomain::new();
        let (here, there) = (domain.join(), domain.join());
        let of = |participant: &DomainParticipant| match is_ordered {
            true => topic(participant, false),
            false => participant.topic::<Track>("Tracks").create().unwrap(),
        };
        let writer = here.writer(&of(&here)).create().unwrap();
        let theirs = of(&there);
        let readers = [
            there.reader(&theirs).reliable_all().create().unwrap(),
            there.reader(&theirs).reliable_all().create().unwrap(),
        ];
        // For an ordered topic, participants are counted.
        writer.wait_for_readers(if is_ordered { 1 } else { 2 }, SOON).unwrap();
        until("both are matched", || writer.matched_subscriptions().len() == 2);
        here.ignore_subscription(readers[0].instance_handle()).unwrap();
        assert_eq!(writer.matched_subscriptions(), [readers[1].instance_handle()]);
        let status = writer.publication_matched_status();
        assert_eq!((status.current_count, status.total_count), (1, 2));
        // The ignored participant is not notified and not affected.
        writer.write(&Track { id: 1, count: 1 }).unwrap();
        readers.iter().for_each(|reader| assert_eq!(take_until(reader, 1, 1).len(), 1));
        unknown(here.ignore_publication(readers[1].instance_handle()));
        if is_ordered {
            here.ignore_subscription(readers[1].instance_handle()).unwrap();
            until("nobody counts", || writer.matched_readers() == 0);
        }
    }
}

#[test]
fn ignoring_unknown_or_own_entity_is_refused() {
    let domain = TestDomain::new();
    let (here, there) = (domain.join(), domain.join());
    let own = writer_of(&here, "Marks");
    until("it is there", || here.discovered_participants().unwrap().len() == 1);
    unknown(here.ignore_participant(here.instance_handle()));
    unknown(here.ignore_publication(own.instance_handle()));
    unknown(here.ignore_topic(own.topic().instance_handle()));
    unknown(here.ignore_topic(there.instance_handle()));
    unknown(here.ignore_participant(InstanceHandle::from_parts(1, 2)));
    let gone = there.instance_handle();
    drop(there);
    until("it is gone", || here.discovered_participants().unwrap().is_empty());
    unknown(here.ignore_participant(gone));
}
