//! Instances: their lifecycle, as written by writers and seen by readers.

use std::time::{Duration, SystemTime};

use crate::support::{Actor, SOON, TestDomain, join, role, say, seed, until};
use dds_api::prelude::*;
use dds_api::publication::Publisher;
use dds_api::subscription::{InstanceState, States, ViewState};
use dds_api::topic::TopicBuilder;

/// Plain, with a key.
#[derive(DdsType, Clone, Copy, Debug, Default, PartialEq)]
struct Track {
    #[dds(key)]
    id: u32,
    height: f64,
}

/// An encoded type, with a key that does not fit a hash.
#[derive(DdsType, Clone, Debug, Default, PartialEq)]
struct Flight {
    text: String,
    #[dds(key)]
    name: String,
}

fn track(id: u32, height: f64) -> Track {
    Track { id, height }
}

fn topic(participant: &DomainParticipant) -> TopicBuilder<Track> {
    participant.topic("Tracks")
}

fn writer_of<T: DdsType>(participant: &DomainParticipant, topic: &Topic<T>) -> DataWriter<T> {
    let writer = participant.writer(topic).memory(64 << 10).in_flight(256);
    writer.max_blocking_time(SOON).create().unwrap()
}

fn follower_of<T: DdsType>(participant: &DomainParticipant, topic: &Topic<T>) -> DataReader<T> {
    participant.reader(topic).reliable_all().create().unwrap()
}

/// Takes until the given number has arrived, and checks that no more follow.
fn take<T: DdsType>(reader: &DataReader<T>, count: usize) -> Vec<Sample<T>> {
    let mut all = Vec::new();
    until("all samples came", || {
        all.extend(reader.take(.., Timeout::millis(20)).unwrap());
        all.len() >= count
    });
    assert_eq!(all.len(), count);
    all
}

/// Returns the instance information of a sample.
fn told(sample: &Sample<Track>) -> (u32, InstanceState, bool) {
    (sample.key_value().id, sample.info().instance_state, sample.data().is_some())
}

fn height(sample: &Sample<Track>) -> f64 {
    sample.data().unwrap().height
}

use InstanceState::{Alive, NotAliveDisposed, NotAliveNoWriters};

/// Returns topics of the two levels at which a reader's queues are created differently.
fn levels(participant: &DomainParticipant) -> [Topic<Track>; 2] {
    let atomic = participant.topic("Atomic tracks").atomic();
    [topic(participant).create().unwrap(), atomic.create().unwrap()]
}

#[test]
fn an_instance_is_disposed_and_lives_again() {
    let domain = TestDomain::new();
    let (here, there) = (domain.join(), domain.join());
    for (ours, theirs) in levels(&here).iter().zip(&levels(&there)) {
        let (writer, reader) = (writer_of(&here, ours), follower_of(&there, theirs));
        writer.wait_for_readers(1, SOON).unwrap();
        writer.write(&track(1, 10.0)).unwrap();
        writer.write(&track(2, 20.0)).unwrap();
        let alive = take(&reader, 2);
        assert_eq!(
            alive.iter().map(told).collect::<Vec<_>>(),
            [(1, Alive, true), (2, Alive, true)]
        );
        assert!(alive.iter().all(|it| it.info().view_state == ViewState::New));

        writer.dispose(&track(1, 0.0)).unwrap();
        let over = take(&reader, 1);
        assert_eq!(told(&over[0]), (1, NotAliveDisposed, false));
        assert_eq!(over[0].info().view_state, ViewState::NotNew);
        assert_eq!(over[0].info().instance_handle, alive[0].info().instance_handle);

        writer.write(&track(1, 11.0)).unwrap();
        let again = take(&reader, 1);
        assert_eq!((told(&again[0]), again[0].data().unwrap().height), ((1, Alive, true), 11.0));
        let info = again[0].info();
        assert_eq!((info.disposed_generation_count, info.view_state), (1, ViewState::New));

        // These are two changes: a sample taken between them belongs to a live instance.
        writer.write_dispose(&track(2, 21.0)).unwrap();
        until("both changes came", || reader.read(.., Timeout::millis(20)).unwrap().len() == 2);
        let last = take(&reader, 2);
        assert_eq!(
            last.iter().map(told).collect::<Vec<_>>(),
            [(2, NotAliveDisposed, true), (2, NotAliveDisposed, false)]
        );
        assert_eq!(last[0].info().sample_rank, 1);
    }
}

#[test]
fn instance_without_writers_is_not_alive() {
    let domain = TestDomain::new();
    let (here, there) = (domain.join(), domain.join());
    for (ours, theirs) in levels(&here).iter().zip(&levels(&there)) {
        let polite = here.writer(ours).autodispose_unregistered_instances(false);
        let polite = polite.max_blocking_time(SOON).create().unwrap();
        let (other, reader) = (writer_of(&there, theirs), follower_of(&there, theirs));
        polite.wait_for_readers(1, SOON).unwrap();
        other.wait_for_readers(1, SOON).unwrap();
        polite.write(&track(1, 10.0)).unwrap();
        take(&reader, 1);
        other.write(&track(1, 11.0)).unwrap();
        take(&reader, 1);

        polite.unregister_instance(&track(1, 0.0)).unwrap();
        polite.write(&track(2, 20.0)).unwrap();
        assert_eq!(told(&take(&reader, 1)[0]), (2, Alive, true), "the other has 1 still");
        // By default, unregistering also disposes.
        other.unregister_instance(&track(1, 0.0)).unwrap();
        assert_eq!(told(&take(&reader, 1)[0]), (1, NotAliveDisposed, false));
        polite.unregister_instance(&track(2, 0.0)).unwrap();
        assert_eq!(told(&take(&reader, 1)[0]), (2, NotAliveNoWriters, false));

        // A writer that is gone has unregistered all its instances.
        polite.write(&track(3, 30.0)).unwrap();
        drop(polite);
        let gone = take(&reader, 2);
        assert_eq!(told(&gone[1]), (3, NotAliveNoWriters, false));
    }
}

#[test]
fn instance_handle_of_a_key_is_equal_in_all_participants() {
    let domain = TestDomain::new();
    let (here, there) = (domain.join(), domain.join());
    let flights = |participant: &DomainParticipant| {
        participant.topic::<Flight>("Flights").atomic().create().unwrap()
    };
    let writer = writer_of(&here, &flights(&here));
    let reader = follower_of(&there, &flights(&there));
    writer.wait_for_readers(1, SOON).unwrap();
    let named = |name: &str| Flight { name: name.into(), text: "x".into() };
    assert_eq!(writer.lookup_instance(&named("AB 1234 from far away")), None);
    let handle = writer.register_instance(&named("AB 1234 from far away")).unwrap();
    assert_eq!(writer.register_instance(&named("AB 1234 from far away")).unwrap(), handle);
    assert_eq!(writer.lookup_instance(&named("AB 1234 from far away")), Some(handle));
    assert_eq!(writer.get_key_value(handle).unwrap().name, "AB 1234 from far away");
    assert_eq!(reader.lookup_instance(&named("AB 1234 from far away")), None);
    assert!(reader.get_key_value(handle).is_err());

    writer.write(&named("AB 1234 from far away")).unwrap();
    let first = take(&reader, 1);
    assert_eq!(first[0].info().instance_handle, handle);
    assert_eq!(reader.lookup_instance(first[0].key_value()), Some(handle));
    assert_eq!(reader.get_key_value(handle).unwrap().name, "AB 1234 from far away");
    assert!(writer.get_key_value(writer.instance_handle()).is_err(), "that is the writer's own");

    writer.unregister_instance(&named("AB 1234 from far away")).unwrap();
    assert_eq!(writer.lookup_instance(&named("AB 1234 from far away")), None);
    let over = take(&reader, 1);
    assert!(over[0].data().is_none() && !over[0].info().valid_data);
    let key = over[0].key_value();
    assert_eq!((&*key.name, &*key.text), ("AB 1234 from far away", ""), "the key alone");
    assert_eq!(reader.lookup_instance(first[0].key_value()), None, "it is over, and has no sample");
}

#[test]
fn later_reads_know_what_was_taken_before() {
    let domain = TestDomain::new();
    let here = domain.join();
    let topic = topic(&here).create().unwrap();
    let (writer, reader) =
        (writer_of(&here, &topic), here.reader(&topic).reliable_all().create().unwrap());
    writer.wait_for_readers(1, SOON).unwrap();
    writer.write(&track(1, 10.0)).unwrap();
    writer.dispose(&track(1, 0.0)).unwrap();
    writer.write(&track(2, 20.0)).unwrap();
    writer.wait_for_acknowledgments(SOON).unwrap();
    let all: Vec<_> = take(&reader, 3).iter().map(told).collect();
    let over = |is_data| (1, NotAliveDisposed, is_data);
    assert_eq!(all, [over(true), over(false), (2, Alive, true)]);
    writer.write(&track(2, 21.0)).unwrap();
    writer.wait_for_acknowledgments(SOON).unwrap();
    let read = reader.read_next_sample().unwrap().unwrap();
    assert_eq!((told(&read), read.info().view_state), ((2, Alive, true), ViewState::NotNew));
    let handle = reader.lookup_instance(read.key_value()).unwrap();
    assert_eq!(reader.read_instance(.., handle, States::any()).unwrap().len(), 1);
}

#[test]
fn late_joiner_is_notified_of_disposed_instance() {
    let domain = TestDomain::new();
    let (here, there) = (domain.join(), domain.join());
    let kept = |participant| topic(participant).transient_local().create().unwrap();
    let writer = writer_of(&here, &kept(&here));
    for id in 1..=4 {
        writer.write(&track(id, f64::from(id))).unwrap();
    }
    writer.dispose(&track(2, 0.0)).unwrap();
    writer.unregister_instance(&track(3, 0.0)).unwrap();
    let late = follower_of(&there, &kept(&there));
    late.wait_for_historical_data(SOON).unwrap();
    // Samples on their way when the reader joined arrive as written, so only the final state
    // is certain.
    let mut last = std::collections::BTreeMap::new();
    let mut comes_to = |expected: [(u32, InstanceState); 4]| {
        until("all instances are as they should be", || {
            for sample in late.take(.., Timeout::millis(20)).unwrap() {
                last.insert(sample.key_value().id, sample.info().instance_state);
            }
            last.clone().into_iter().eq(expected)
        });
    };
    let over = NotAliveDisposed;
    comes_to([(1, Alive), (2, over), (3, over), (4, Alive)]);
    drop(writer);
    comes_to([(1, over), (2, over), (3, over), (4, over)]);
}

/// Writers of one participant share a stream (I-214).
#[test]
fn writer_loss_is_reported_while_other_writers_use_its_stream() {
    for is_kept in [false, true] {
        let domain = TestDomain::new();
        let (here, there) = (domain.join(), domain.join());
        let of = |participant: &DomainParticipant| match is_kept {
            true => topic(participant).transient_local().keep_last(1).create().unwrap(),
            false => topic(participant).atomic().create().unwrap(),
        };
        let (topic, theirs) = (of(&here), of(&there));
        let readers = [follower_of(&there, &theirs), follower_of(&here, &topic)];
        let one = here.writer(&topic).autodispose_unregistered_instances(false).create().unwrap();
        let other = writer_of(&here, &topic);
        one.wait_for_readers(2, SOON).unwrap();
        other.wait_for_readers(2, SOON).unwrap();
        one.write(&track(1, 1.0)).unwrap();
        one.write(&track(2, 1.0)).unwrap();
        other.write(&track(2, 2.0)).unwrap();
        drop(one);
        other.write(&track(2, 3.0)).unwrap();
        for reader in &readers {
            let all: Vec<_> = take(reader, 5).iter().map(told).collect();
            let last = [(1, NotAliveNoWriters, false), (2, Alive, true)];
            assert_eq!(all[3..], last, "kept: {is_kept}");
        }
        assert!(readers.iter().all(|reader| reader.unreadable_samples() == 0));
        if is_kept {
            let late = follower_of(&there, &theirs);
            late.wait_for_historical_data(SOON).unwrap();
            let all: Vec<_> = take(&late, 3).iter().map(told).collect();
            assert_eq!(all[..2], [(1, NotAliveNoWriters, true), (1, NotAliveNoWriters, false)]);
            assert_eq!(all[2], (2, Alive, true));
        }
    }
}

/// Instances owned by a deleted writer go to another writer of the same stream.
#[test]
fn instances_of_deleted_owner_go_to_another_writer_of_its_stream() {
    let domain = TestDomain::new();
    let (here, there) = (domain.join(), domain.join());
    let of = |participant: &DomainParticipant| {
        topic(participant).atomic().exclusive_ownership().create().unwrap()
    };
    let (topic, theirs) = (of(&here), of(&there));
    let readers = [follower_of(&there, &theirs), follower_of(&here, &topic)];
    let strong = here.writer(&topic).ownership_strength(7);
    let strong = strong.autodispose_unregistered_instances(false).create().unwrap();
    let weak = here.writer(&topic).ownership_strength(1).create().unwrap();
    weak.wait_for_readers(2, SOON).unwrap();
    strong.wait_for_readers(2, SOON).unwrap();
    strong.write(&track(1, 1.0)).unwrap();
    weak.write(&track(1, 2.0)).unwrap();
    drop(strong);
    weak.write(&track(1, 3.0)).unwrap();
    for reader in readers {
        let heights: Vec<f64> = take(&reader, 2).iter().map(height).collect();
        assert_eq!(heights, [1.0, 3.0]);
    }
}

/// The unregistration by one of its writers does not replace an instance's last sample.
#[test]
fn kept_sample_outlives_unregistration_of_its_instance() {
    let domain = TestDomain::new();
    let (here, there) = (domain.join(), domain.join());
    let kept = |participant| topic(participant).transient_local().create().unwrap();
    let topic = kept(&here);
    let writer = here.writer(&topic).autodispose_unregistered_instances(false).create().unwrap();
    writer.write(&track(1, 10.0)).unwrap();
    writer.unregister_instance(&track(1, 0.0)).unwrap();
    let late = follower_of(&there, &kept(&there));
    late.wait_for_historical_data(SOON).unwrap();
    let all: Vec<_> = take(&late, 2).iter().map(told).collect();
    assert_eq!(all, [(1, NotAliveNoWriters, true), (1, NotAliveNoWriters, false)]);
}

#[test]
fn samples_are_ordered_by_source_timestamp() {
    let domain = TestDomain::new();
    let here = domain.join();
    let topic = topic(&here).by_source_timestamp().create().unwrap();
    let writer = writer_of(&here, &topic);
    let reader = here.reader(&topic).reliable_all().create().unwrap();
    writer.wait_for_readers(1, SOON).unwrap();
    let time = |secs: u64| SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 + secs);
    writer.write_w_timestamp(&track(1, 3.0), time(3)).unwrap();
    writer.write_w_timestamp(&track(1, 1.0), time(1)).unwrap();
    writer.write_w_timestamp(&track(1, 2.0), time(2)).unwrap();
    writer.wait_for_acknowledgments(SOON).unwrap();
    let heights: Vec<_> = reader.take_data(.., SOON).unwrap().map(|it| it.height).collect();
    assert_eq!(heights, [1.0, 2.0, 3.0]);
    writer.dispose_w_timestamp(&track(1, 0.0), time(9)).unwrap();
    writer.write_w_timestamp(&track(1, 4.0), time(4)).unwrap();
    let over = take(&reader, 1);
    assert_eq!(told(&over[0]), (1, NotAliveDisposed, false), "4 comes too late");
    assert_eq!(over[0].info().source_timestamp, time(9));
    assert!(
        writer
            .write_w_timestamp(&track(1, 0.0), SystemTime::UNIX_EPOCH - Duration::from_secs(1))
            .is_err()
    );
}

/// Each change has a variant with a time stamp, which readers receive.
#[test]
fn changes_carry_the_timestamps_given_by_the_application() {
    let domain = TestDomain::new();
    let here = domain.join();
    let topic = topic(&here).create().unwrap();
    let writer = here.writer(&topic).autodispose_unregistered_instances(false).create().unwrap();
    let reader = follower_of(&here, &topic);
    writer.wait_for_readers(1, SOON).unwrap();
    let time = |secs: u64| SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 + secs);
    let handle = writer.register_instance_w_timestamp(&track(1, 0.0), time(1)).unwrap();
    writer.write_w_timestamp(&track(1, 1.0), time(2)).unwrap();
    writer.unregister_instance_w_timestamp(&track(1, 0.0), time(3)).unwrap();
    writer.write_dispose_w_timestamp(&track(2, 2.0), time(4)).unwrap();
    writer.wait_for_acknowledgments(SOON).unwrap();
    let told: Vec<_> = take(&reader, 4)
        .iter()
        .map(|it| (told(it).0, it.info().instance_state, it.info().source_timestamp))
        .collect();
    assert_eq!(
        told,
        [
            (1, NotAliveNoWriters, time(2)),
            (1, NotAliveNoWriters, time(3)),
            (2, NotAliveDisposed, time(4)),
            (2, NotAliveDisposed, time(4)),
        ]
    );
    assert_eq!(handle, writer.register_instance(&track(1, 0.0)).unwrap());
    let before = SystemTime::UNIX_EPOCH - Duration::from_secs(1);
    assert!(writer.register_instance_w_timestamp(&track(3, 0.0), before).is_err());
    assert!(writer.unregister_instance_w_timestamp(&track(1, 0.0), before).is_err());
}

/// OWNERSHIP_STRENGTH may change during operation: from its next sample on the other writer owns
/// the instance.
#[test]
fn owner_with_reduced_strength_loses_the_instance() {
    let domain = TestDomain::new();
    let here = domain.join();
    let topic = topic(&here).atomic().create().unwrap();
    let of = |strength| here.writer(&topic).ownership_strength(strength).create().unwrap();
    let (strong, weak) = (of(5), of(3));
    let reader = here.reader(&topic).reliable_all().exclusive_ownership().create().unwrap();
    [&strong, &weak].iter().for_each(|writer| writer.wait_for_readers(1, SOON).unwrap());
    let mut got = Vec::new();
    let mut round = |height: f64| {
        for (writer, by) in [(&strong, 100.0), (&weak, 0.0)] {
            writer.write(&track(1, by + height)).unwrap();
            writer.wait_for_acknowledgments(SOON).unwrap();
        }
        got.extend(reader.take_data(.., Timeout::millis(20)).unwrap().map(|it| it.height));
        got.last().copied()
    };
    assert_eq!(round(1.0), Some(101.0));
    let mut qos = strong.qos();
    qos.ownership_strength.value = 1;
    strong.set_qos(&qos).unwrap();
    let mut height = 2.0;
    until("the other one has it", || {
        height += 1.0;
        round(height) == Some(height)
    });
    assert_eq!(strong.qos().ownership_strength.value, 1);
}

#[test]
fn act() {
    let Some((role, folder)) = role() else { return };
    match role.as_str() {
        "writer" => act_writer(&folder),
        "reader" => act_reader(&folder),
        other => panic!("no such role: {other}"),
    }
}

fn owned(participant: &DomainParticipant) -> Topic<Track> {
    topic(participant).atomic().create().unwrap()
}

/// Writes its instance repeatedly, with its seed as strength and height, until it is killed.
fn act_writer(folder: &std::path::Path) {
    let participant = join(folder);
    let topic = owned(&participant);
    let writer = participant.writer(&topic).ownership_strength(seed() as i32);
    let writer = writer.max_blocking_time(SOON).create().unwrap();
    writer.wait_for_readers(2, SOON).unwrap();
    for count in 0.. {
        writer.write(&track(7, seed() as f64)).unwrap();
        if count == 0 {
            writer.wait_for_acknowledgments(SOON).unwrap();
            say("writes");
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Reports its samples, whenever they change, under exclusive ownership.
fn act_reader(folder: &std::path::Path) {
    let participant = join(folder);
    let reader = participant
        .reader(&owned(&participant))
        .reliable_all()
        .exclusive_ownership()
        .create()
        .unwrap();
    say("ready");
    let mut last = String::new();
    loop {
        for sample in reader.take(.., Timeout::millis(50)).unwrap() {
            let id = sample.key_value().id;
            let what = match sample.data() {
                Some(data) => format!("{id} by {}", data.height),
                None => format!("{id} {:?}", sample.info().instance_state),
            };
            if what != last {
                say(&what);
            }
            last = what;
        }
    }
}

/// The strongest writer owns an instance. When its process is killed the next strongest does, at
/// all readers; when all are killed, the instance has no writers.
#[test]
fn next_owner_takes_over_from_killed_owner_until_no_writer_remains() {
    let domain = TestDomain::new();
    let mut readers = [(); 2].map(|()| Actor::start(module_path!(), "reader", &domain, 0));
    readers.iter_mut().for_each(|reader| assert_eq!(reader.hear(), "ready"));
    let mut hear = |expected: &str| {
        readers.iter_mut().for_each(|reader| assert_eq!(reader.hear(), expected));
    };
    let mut writers = Vec::new();
    for strength in [3, 2, 1] {
        let mut writer = Actor::start(module_path!(), "writer", &domain, strength);
        assert_eq!(writer.hear(), "writes");
        writers.push(writer);
    }
    hear("7 by 3");
    writers[0].kill();
    hear("7 by 2");
    writers[1].kill();
    hear("7 by 1");
    writers[2].kill();
    hear("7 NotAliveNoWriters");
}

/// WRITER_DATA_LIFECYCLE, 2.2.3.21: the deletion of a writer unregisters its instances, and
/// disposes them by default. Each way to delete the writer has this effect.
#[test]
fn deleted_writer_disposes_its_instances_unless_it_does_not_autodispose() {
    let ways: [fn(&DomainParticipant, Publisher, DataWriter<Track>); 4] = [
        |_, _, writer| drop(writer),
        |_, _, writer| writer.delete(),
        |_, publisher, _writer| publisher.delete_contained_entities().unwrap(),
        |participant, _publisher, _writer| participant.delete_contained_entities().unwrap(),
    ];
    for (at, way) in (0..2).flat_map(|level| ways.map(|way| (level, way))) {
        for disposes in [true, false] {
            let domain = TestDomain::new();
            let (here, there) = (domain.join(), domain.join());
            let (ours, theirs) = (&levels(&here)[at], &levels(&there)[at]);
            let publisher = here.publisher().create().unwrap();
            let writer = publisher.writer(ours).autodispose_unregistered_instances(disposes);
            let (writer, other) = (writer.create().unwrap(), writer_of(&there, theirs));
            let reader = follower_of(&there, theirs);
            writer.wait_for_readers(1, SOON).unwrap();
            writer.write(&track(1, 10.0)).unwrap();
            other.write(&track(2, 20.0)).unwrap();
            take(&reader, 2);
            way(&here, publisher, writer);
            let state = if disposes { NotAliveDisposed } else { NotAliveNoWriters };
            assert_eq!(told(&take(&reader, 1)[0]), (1, state, false), "level {at}");
            other.write(&track(2, 21.0)).unwrap();
            assert_eq!(told(&take(&reader, 1)[0]), (2, Alive, true));
        }
    }
}

/// 2.2.3.23: under exclusive ownership only the owner of an instance disposes it.
#[test]
fn deleted_writer_disposes_only_instances_that_it_owns() {
    let domain = TestDomain::new();
    let (here, there, observer) = (domain.join(), domain.join(), domain.join());
    let reader =
        observer.reader(&owned(&observer)).reliable_all().exclusive_ownership().create().unwrap();
    let writer = |participant: &DomainParticipant, strength| {
        let topic = owned(participant);
        let writer = participant.writer(&topic).ownership_strength(strength).create().unwrap();
        writer.wait_for_readers(1, SOON).unwrap();
        writer
    };
    let (weak, strong) = (writer(&here, 1), writer(&there, 2));
    weak.write(&track(1, 1.0)).unwrap();
    weak.write(&track(2, 2.0)).unwrap();
    take(&reader, 2);
    strong.write(&track(1, 10.0)).unwrap();
    take(&reader, 1);
    drop(weak);
    assert_eq!(told(&take(&reader, 1)[0]), (2, NotAliveDisposed, false));
    drop(strong);
    assert_eq!(told(&take(&reader, 1)[0]), (1, NotAliveDisposed, false));
}
