//! Instances that a writer knows: registered, written or disposed by it, and not unregistered
//! since.

use crate::support::{SOON, TestDomain};
use dds_api::prelude::*;
use dds_api::qos::PresentationQosPolicy;
use dds_api::subscription::InstanceState;

#[derive(DdsType, Clone, Copy, Debug, Default, PartialEq)]
struct Track {
    #[dds(key)]
    id: u32,
    height: u32,
}

#[derive(DdsType, Clone, Debug, Default, PartialEq)]
struct Flight {
    #[dds(key)]
    name: String,
    text: String,
}

#[derive(DdsType, Clone, Copy, Debug, Default, PartialEq)]
struct Wind {
    speed: u32,
}

fn track(id: u32) -> Track {
    Track { id, height: 7 }
}

fn flight(name: &str) -> Flight {
    Flight { name: name.into(), text: "x".into() }
}

fn writer<T: DdsType>(participant: &DomainParticipant) -> DataWriter<T> {
    let topic = participant.topic::<T>(T::TYPE_NAME).create().unwrap();
    participant.writer(&topic).create().unwrap()
}

fn is_unknown(unregistered: DdsResult<()>) {
    let error = unregistered.unwrap_err();
    assert!(matches!(error, DdsError::PreconditionNotMet(_)), "{error}");
}

#[test]
fn lookup_finds_what_the_writer_has_written() {
    let domain = TestDomain::new();
    let participant = domain.join();
    let (tracks, others) = (writer::<Track>(&participant), writer::<Track>(&participant));
    type Write = fn(&DataWriter<Track>, Track);
    let ways: [(&str, Write); 4] = [
        ("write", |writer, track| writer.write(&track).unwrap()),
        ("write_with", |writer, track| writer.write_with(|slot| *slot = track).unwrap()),
        ("dispose", |writer, track| writer.dispose(&track).unwrap()),
        ("register", |writer, track| assert!(writer.register_instance(&track).is_ok())),
    ];
    for (id, (way, apply)) in (0..).zip(ways) {
        assert_eq!(tracks.lookup_instance(&track(id)), None, "{way}");
        apply(&tracks, track(id));
        let handle = tracks.lookup_instance(&track(id)).unwrap();
        assert_eq!(tracks.get_key_value(handle).unwrap(), Track { id, height: 0 }, "{way}");
        assert_eq!(tracks.register_instance(&track(id)).unwrap(), handle, "{way}");
        assert_eq!(others.lookup_instance(&track(id)), None, "another writer does not know it");
        assert!(matches!(others.get_key_value(handle), Err(DdsError::BadParameter(_))), "{way}");
    }
    let flights = writer::<Flight>(&participant);
    let long = flight("a name that does not fit into a key hash");
    for flight in [&long, &flight("short")] {
        assert_eq!(flights.lookup_instance(flight), None);
        flights.write(flight).unwrap();
        let handle = flights.lookup_instance(flight).unwrap();
        assert_eq!(flights.get_key_value(handle).unwrap().name, flight.name);
    }
}

#[test]
fn many_written_instances_stay_known_until_they_are_unregistered() {
    const MANY: u32 = 1000;
    let domain = TestDomain::new();
    let writer = writer::<Track>(&domain.join());
    for round in 0..2 {
        (0..MANY).for_each(|id| writer.write(&track(id)).unwrap());
        let known = |id: &u32| writer.lookup_instance(&track(*id)).is_some();
        assert_eq!((0..MANY + 9).filter(known).count(), MANY as usize, "round {round}");
        (0..MANY).for_each(|id| writer.unregister_instance(&track(id)).unwrap());
        assert_eq!((0..MANY).filter(known).count(), 0, "round {round}");
    }
}

#[test]
fn unregistering_an_unknown_instance_is_refused_and_sends_nothing() {
    let domain = TestDomain::new();
    let (here, there) = (domain.join(), domain.join());
    let (one, other) = (writer::<Track>(&here), writer::<Track>(&here));
    let topic = there.topic::<Track>("Track").create().unwrap();
    let reader = there.reader(&topic).reliable_all().create().unwrap();
    [&one, &other].into_iter().for_each(|it| it.wait_for_readers(1, SOON).unwrap());
    is_unknown(one.unregister_instance(&track(1)));
    one.write(&track(1)).unwrap();
    is_unknown(other.unregister_instance(&track(1)));
    let time = std::time::SystemTime::now();
    is_unknown(other.unregister_instance_w_timestamp(&track(1), time));
    one.unregister_instance(&track(1)).unwrap();
    is_unknown(one.unregister_instance(&track(1)));
    // The instance becomes known again by a write, also by one that takes the shortest way.
    one.write(&track(1)).unwrap();
    one.unregister_instance(&track(1)).unwrap();
    other.register_instance(&track(2)).unwrap();
    other.unregister_instance(&track(2)).unwrap();
    one.dispose(&track(3)).unwrap();
    one.unregister_instance(&track(3)).unwrap();
    one.write(&track(4)).unwrap();
    one.wait_for_acknowledgments(SOON).unwrap();
    other.wait_for_acknowledgments(SOON).unwrap();
    let told = |sample: Sample<Track>| {
        let info = sample.info();
        (sample.key_value().id, info.valid_data, info.instance_state == InstanceState::Alive)
    };
    let mut told: Vec<_> = reader.take(.., SOON).unwrap().map(told).collect();
    told.retain(|(id, ..)| *id != 2 && *id != 3);
    assert_eq!(told, [(1, true, false), (1, true, false), (1, false, false), (4, true, true)]);
}

#[test]
fn unregistering_without_a_key_needs_no_registration() {
    let domain = TestDomain::new();
    let winds = writer::<Wind>(&domain.join());
    winds.unregister_instance(&Wind::default()).unwrap();
    winds.write(&Wind { speed: 3 }).unwrap();
    assert_eq!(winds.lookup_instance(&Wind::default()), None, "a type without key has no handles");
    winds.unregister_instance(&Wind::default()).unwrap();
}

#[test]
fn instances_of_a_discarded_set_are_not_known() {
    let domain = TestDomain::new();
    let participant = domain.join();
    let coherent = PresentationQosPolicy { coherent_access: true, ..Default::default() };
    let publisher = participant.publisher().presentation(coherent).create().unwrap();
    let topic = participant.topic::<Track>("Track").create().unwrap();
    let writer = publisher.writer(&topic).create().unwrap();
    let known = || -> Vec<u32> {
        (0..9).filter(|id| writer.lookup_instance(&track(*id)).is_some()).collect()
    };
    writer.write(&track(1)).unwrap();
    publisher.begin_coherent_changes().unwrap();
    writer.write(&track(1)).unwrap();
    writer.write(&track(2)).unwrap();
    writer.write_with(|slot| *slot = track(3)).unwrap();
    writer.dispose(&track(4)).unwrap();
    writer.unregister_instance(&track(1)).unwrap();
    writer.write(&track(5)).unwrap();
    writer.register_instance(&track(5)).unwrap();
    assert_eq!(known(), [2, 3, 4, 5]);
    publisher.discard_coherent_changes().unwrap();
    assert_eq!(known(), [1, 5], "the registration by the application does not belong to the set");
    is_unknown(writer.unregister_instance(&track(2)));
    publisher.begin_coherent_changes().unwrap();
    writer.write(&track(6)).unwrap();
    publisher.end_coherent_changes().unwrap();
    assert_eq!(known(), [1, 5, 6]);
}
