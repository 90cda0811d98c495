//! PRESENTATION with group access scope: topics in one order, sets over them, and readers that are
//! read together (I-210 to I-213).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::flight::{Display, Planner, SeenSample, Turn, Wind, together, turns, winds};
use crate::support::{Dice, SOON, TestDomain, until};
use dds_api::infrastructure::{DataReaderListener, StatusKind, SubscriberListener};
use dds_api::prelude::*;
use dds_api::qos::{
    Length, PresentationQosPolicy, PresentationQosPolicyAccessScopeKind, ResourceLimitsQosPolicy,
};
use dds_api::subscription::{InstanceState, States, Subscriber};

const LEVELS: [&str; 2] = ["atomic", "kept"];

#[test]
fn reader_in_common_order_receives_only_samples_of_its_topic() {
    for level in LEVELS {
        let domain = TestDomain::new();
        let (here, there) = (domain.join(), domain.join());
        let planner = Planner::new(&here, level);
        let plain = (
            there.reader(&winds(&there, level)).reliable_all().create().unwrap(),
            there.reader(&turns(&there, level)).reliable_all().create().unwrap(),
        );
        planner.wait_for_readers(1);
        until("the readers know of their writers", || {
            (plain.0.matched_writers(), plain.1.matched_writers()) == (1, 1)
        });
        for set in 0..50 {
            planner.write_set(&[('w', 1, set), ('t', 2, set), ('w', 3, set)]);
            planner.write(('t', 9, set));
        }
        let (mut of_winds, mut of_turns) = (Vec::new(), Vec::new());
        until("all have come", || {
            of_winds
                .extend(plain.0.take_data(.., Timeout::NOW).unwrap().map(|it| (it.layer, it.set)));
            of_turns
                .extend(plain.1.take_data(.., Timeout::NOW).unwrap().map(|it| (it.point, it.set)));
            of_winds.len() == 100 && of_turns.len() == 100
        });
        assert!(of_winds.into_iter().eq((0..50).flat_map(|set| [(1, set), (3, set)])), "{level}");
        assert!(of_turns.into_iter().eq((0..50).flat_map(|set| [(2, set), (9, set)])), "{level}");
        assert_eq!((plain.0.unreadable_samples(), plain.1.unreadable_samples()), (0, 0));
    }
}

#[test]
fn a_set_over_two_topics_is_seen_at_once() {
    for level in LEVELS {
        let domain = TestDomain::new();
        let (here, there) = (domain.join(), domain.join());
        let planner = Planner::new(&here, level);
        let displays = [Display::new(&here, level), Display::new(&there, level)];
        planner.wait_for_readers(2);
        let set = [('t', 1, 7), ('w', 1, 7), ('w', 2, 7), ('t', 2, 7)];
        planner.publisher.begin_coherent_changes().unwrap();
        set.iter().for_each(|sample| planner.write(*sample));
        planner.winds.wait_for_acknowledgments(SOON).unwrap();
        displays.iter().for_each(|display| assert_eq!(display.look(), [], "{level}"));
        planner.publisher.end_coherent_changes().unwrap();
        for display in &displays {
            let mut seen = Vec::new();
            until("the set has come", || {
                seen = display.look();
                !seen.is_empty()
            });
            assert_eq!(seen, set, "{level}");
        }
    }
}

/// Every reader of all samples sees the same order, whichever participant wrote them, on
/// whichever topic.
#[test]
fn all_readers_see_the_same_order_across_topics() {
    for level in LEVELS {
        let domain = TestDomain::new();
        let nodes = [domain.join(), domain.join(), domain.join()];
        let displays = nodes.each_ref().map(|node| Display::new(node, level));
        let planners = [Planner::new(&nodes[0], level), Planner::new(&nodes[1], level)];
        planners.iter().for_each(|planner| planner.wait_for_readers(3));
        let count = 400;
        std::thread::scope(|scope| {
            for (planner, name) in planners.iter().zip([0, 1 << 32]) {
                scope.spawn(move || {
                    let mut dice = Dice(name);
                    for set in name..name + count {
                        let size = dice.below(4);
                        let mut any = || if dice.below(2) == 0 { 'w' } else { 't' };
                        match size {
                            0 => planner.write_set(&[(any(), 1, set), (any(), 2, set)]),
                            _ => [1, 2]
                                .iter()
                                .for_each(|number| planner.write((any(), *number, set))),
                        }
                    }
                });
            }
            let seen = displays.each_ref().map(|display| display.look_for(4 * count as usize));
            assert_eq!(seen[0].len(), 4 * count as usize);
            assert_eq!(seen[0], seen[1], "{level}");
            assert_eq!(seen[0], seen[2], "{level}");
        });
    }
}

#[test]
fn readers_are_read_only_within_access_and_receive_nothing_meanwhile() {
    let domain = TestDomain::new();
    let here = domain.join();
    let (planner, display) = (Planner::new(&here, "atomic"), Display::new(&here, "atomic"));
    planner.wait_for_readers(1);
    let refused = |result: DdsResult<usize>| {
        let error = result.unwrap_err();
        assert!(
            matches!(&error, DdsError::PreconditionNotMet(why) if why.contains("begin_access")),
            "{error}"
        );
    };
    refused(display.winds.take_data(.., Timeout::NOW).map(Iterator::count));
    refused(display.winds.read_data(.., Timeout::NOW).map(|all| all.len()));
    refused(display.winds.take_next_data(SOON).map(|all| all.iter().count()));
    refused(display.turns.read_next_sample().map(|all| all.iter().count()));
    refused(display.subscriber.data_readers(States::any()).map(|all| all.len()));
    refused(display.subscriber.end_access().map(|()| 0));

    planner.write_set(&[('w', 1, 1), ('t', 1, 1)]);
    until("it is there", || {
        display.subscriber.begin_access().unwrap();
        let is_there = !display.subscriber.data_readers(States::any()).unwrap().is_empty();
        if !is_there {
            display.subscriber.end_access().unwrap();
        }
        is_there
    });
    display.subscriber.begin_access().unwrap();
    planner.write_set(&[('w', 1, 2), ('t', 1, 2)]);
    planner.turns.wait_for_acknowledgments(SOON).unwrap();
    assert_eq!(
        display.winds.read_data(.., SOON).unwrap().len(),
        1,
        "one that waits would wait for ever"
    );
    display.subscriber.end_access().unwrap();
    assert_eq!(display.taken(), [('w', 1, 1), ('t', 1, 1)][1..], "the other one is read");
    assert_eq!(display.turns.take_data(.., SOON).unwrap().count(), 0);
    display.subscriber.end_access().unwrap();
    refused(display.turns.take_data(.., Timeout::NOW).map(Iterator::count));
    assert_eq!(display.look(), [('w', 1, 2), ('t', 1, 2)]);
}

/// Without ordered access a reader is listed once, and likewise without group scope.
#[test]
fn each_reader_that_has_samples_is_listed() {
    let domain = TestDomain::new();
    let here = domain.join();
    let planner = Planner::new(&here, "atomic");
    let of = |presentation: PresentationQosPolicy| {
        let subscriber = here.subscriber().presentation(presentation).create().unwrap();
        let winds = subscriber.reader(&winds(&here, "atomic")).reliable_all().create().unwrap();
        let turns = subscriber.reader(&turns(&here, "atomic")).reliable_all().create().unwrap();
        (subscriber, winds, turns)
    };
    let coherent = PresentationQosPolicy { ordered_access: false, ..together() };
    let (group, plain) = (of(coherent), of(PresentationQosPolicy::default()));
    planner.wait_for_readers(1);
    for set in 0..3 {
        planner.write(('w', 1, set));
    }
    planner.winds.wait_for_acknowledgments(SOON).unwrap();
    let names = |subscriber: &Subscriber, states: States| -> Vec<String> {
        let readers = subscriber.data_readers(states).unwrap();
        readers.iter().map(|reader| reader.topic_name().to_owned()).collect()
    };
    until("they are there", || !names(&plain.0, States::any()).is_empty());
    assert_eq!(names(&plain.0, States::any()), ["Winds"]);
    assert_eq!(plain.1.read_data(.., SOON).unwrap().len(), 3);
    assert!(names(&plain.0, States::not_read()).is_empty());
    group.0.begin_access().unwrap();
    assert_eq!(names(&group.0, States::not_read()), ["Winds"]);
    let first = &group.0.data_readers(States::any()).unwrap()[0];
    let first = first.as_any().downcast_ref::<DataReader<Wind>>().unwrap();
    assert_eq!(first.take_data(.., Timeout::NOW).unwrap().count(), 3);
    assert!(names(&group.0, States::any()).is_empty());
    group.0.end_access().unwrap();
    drop((group.1, group.2, plain.2));
}

#[test]
fn topics_that_cannot_share_an_order_are_refused() {
    let domain = TestDomain::new();
    let (here, there) = (domain.join(), domain.join());
    let wrong = |error: Option<DdsError>, word: &str| {
        let error = error.unwrap();
        let why = error.to_string();
        assert!(matches!(error, DdsError::InconsistentPolicy(_)) && why.contains(word), "{why}");
    };
    let of = |name: &str| here.topic::<Wind>(name);
    wrong(of("A").common_order("x").create().err(), "atomic");
    wrong(of("A").atomic().common_order("").create().err(), "name");
    wrong(of("A").persistent().common_order("x").create().err(), "log");
    let (alone, unordered) = (of("B").atomic().create().unwrap(), of("C").create().unwrap());
    let in_flight = winds(&here, "atomic");

    let publisher = here.publisher().presentation(together()).create().unwrap();
    wrong(publisher.writer(&unordered).create().err(), "no order");
    let writer = publisher.writer(&in_flight).create().unwrap();
    wrong(publisher.writer(&alone).create().err(), "common_order");
    drop(writer);
    let writer = publisher.writer(&alone).create().unwrap();

    let subscriber = here.subscriber().presentation(together()).create().unwrap();
    let reader = subscriber.reader(&alone).reliable_all().create().unwrap();
    wrong(subscriber.reader(&in_flight).reliable_all().create().err(), "common_order");
    drop((reader, writer));
    let _reader = subscriber.reader(&in_flight).reliable_all().create().unwrap();

    // All topics of an order must have the same policies, here and in other participants.
    let kept = of("D").transient_local().common_order("flight").create().unwrap();
    let error = here.reader(&kept).reliable_all().create().err().unwrap();
    assert!(
        matches!(&error, DdsError::PreconditionNotMet(why) if why.contains("flight")),
        "{error}"
    );
    let kept = there.topic::<Turn>("E").transient_local().common_order("flight").create().unwrap();
    until("it is heard of", || {
        let error = there.writer(&kept).create().err();
        matches!(&error, Some(DdsError::PreconditionNotMet(why)) if why.contains("`Winds`"))
    });
    // Two definitions of the same topic are two topics of one name.
    let other = there.topic::<Wind>("Winds").atomic().create().unwrap();
    let stranger = there.writer(&other).create().unwrap();
    until("both are told", || other.inconsistent_topic_status().total_count > 0);
    assert_eq!(stranger.matched_subscriptions().len(), 0);
}

/// A set that finds no room at one reader waits as a whole.
#[test]
fn set_without_room_at_one_reader_is_seen_by_no_reader() {
    let domain = TestDomain::new();
    let here = domain.join();
    let planner = Planner::new(&here, "atomic");
    let subscriber = here.subscriber().presentation(together()).create().unwrap();
    let limits = ResourceLimitsQosPolicy { max_samples: Length::of(2), ..Default::default() };
    let display = Display {
        winds: subscriber.reader(&winds(&here, "atomic")).reliable_all().create().unwrap(),
        turns: subscriber
            .reader(&turns(&here, "atomic"))
            .reliable_all()
            .resource_limits(limits)
            .create()
            .unwrap(),
        subscriber,
    };
    planner.wait_for_readers(1);
    planner.write_set(&[('t', 1, 1), ('w', 1, 1), ('t', 2, 1)]);
    planner.write_set(&[('t', 1, 2), ('w', 1, 2), ('t', 2, 2)]);
    planner.write(('w', 3, 3));
    planner.winds.wait_for_acknowledgments(SOON).unwrap();
    display.subscriber.begin_access().unwrap();
    assert_eq!(display.winds.take_data(.., Timeout::NOW).unwrap().count(), 1);
    display.subscriber.end_access().unwrap();
    // There is no room yet.
    display.subscriber.begin_access().unwrap();
    assert_eq!(display.winds.read_data(.., Timeout::NOW).unwrap().len(), 0);
    assert_eq!(display.turns.sample_rejected_status().total_count, 2);
    assert_eq!(display.taken(), [('t', 1, 1), ('t', 2, 1)]);
    display.subscriber.end_access().unwrap();
    assert_eq!(display.look(), [('t', 1, 2), ('w', 1, 2), ('t', 2, 2), ('w', 3, 3)]);
    assert_eq!(display.turns.sample_rejected_status().total_count, 2);
    // A set that never finds room is rejected there, and blocks no other reader.
    planner.write_set(&[('t', 1, 4), ('t', 2, 4), ('t', 3, 4), ('w', 1, 4)]);
    assert_eq!(display.look_for(1), [('w', 1, 4)]);
    assert_eq!(display.turns.sample_rejected_status().total_count, 5);
}

/// A late joiner receives the kept samples in order, and each set whole.
#[test]
fn late_joiner_sees_whole_sets_in_order() {
    let domain = TestDomain::new();
    let (here, there) = (domain.join(), domain.join());
    let planner = Planner::new(&here, "kept");
    let early = Display::new(&here, "kept");
    let set = |of: u64| [('w', 1, of), ('t', of as u32, of), ('w', 2, of)];
    let all: Vec<SeenSample> = (0..200).flat_map(set).collect();
    (0..100).for_each(|of| planner.write_set(&set(of)));
    let late = Display::new(&there, "kept");
    (100..200).for_each(|of| planner.write_set(&set(of)));
    late.winds.wait_for_historical_data(SOON).unwrap();
    late.turns.wait_for_historical_data(SOON).unwrap();
    let mut seen = Vec::new();
    until("all have come", || {
        let more = late.look();
        assert_eq!(more.len() % 3, 0, "a part of a set");
        seen.extend(more);
        seen.len() >= all.len()
    });
    // Of the two readers, the first one alone received the samples kept before the other one
    // was created.
    assert_eq!(seen, all);
    assert_eq!(early.look_for(all.len()), all);
}

/// Instances of two topics are distinct, even with equal keys.
#[test]
fn last_sample_of_an_instance_is_kept_for_each_topic() {
    let domain = TestDomain::new();
    let (here, there) = (domain.join(), domain.join());
    let winds = |participant: &DomainParticipant| {
        let topic = participant.topic::<Wind>("Winds").common_order("flight");
        topic.transient_local().keep_last(1).create().unwrap()
    };
    let turns = |participant: &DomainParticipant| {
        let topic = participant.topic::<Turn>("Turns").common_order("flight");
        topic.transient_local().keep_last(1).create().unwrap()
    };
    let wind = here.writer(&winds(&here)).create().unwrap();
    let turn = here.writer(&turns(&here)).create().unwrap();
    for set in 0..10 {
        wind.write(&Wind { layer: 1, set }).unwrap();
        turn.write(&Turn { point: 1, set, name: String::new() }).unwrap();
    }
    let of_winds = there.reader(&winds(&there)).reliable_all().create().unwrap();
    let of_turns = there.reader(&turns(&there)).reliable_all().create().unwrap();
    of_winds.wait_for_historical_data(SOON).unwrap();
    of_turns.wait_for_historical_data(SOON).unwrap();
    let sets: Vec<u64> = of_winds.take_data(.., SOON).unwrap().map(|it| it.set).collect();
    assert_eq!(sets.last(), Some(&9));
    let sets: Vec<u64> = of_turns.take_data(.., SOON).unwrap().map(|it| it.set).collect();
    assert_eq!(sets.last(), Some(&9));
}

/// Effects of a set on instances.
#[test]
fn sets_contain_disposals_and_writers_are_lost_one_by_one() {
    let domain = TestDomain::new();
    let (here, there) = (domain.join(), domain.join());
    let planner = Planner::new(&here, "atomic");
    let display = Display::new(&there, "atomic");
    planner.wait_for_readers(1);
    planner.write_set(&[('w', 1, 1), ('t', 1, 1)]);
    assert_eq!(display.look_for(2).len(), 2);
    planner.publisher.begin_coherent_changes().unwrap();
    planner.winds.dispose(&Wind { layer: 1, set: 0 }).unwrap();
    planner.write(('t', 1, 2));
    planner.publisher.end_coherent_changes().unwrap();
    let mut states = Vec::new();
    until("it has come", || {
        display.subscriber.begin_access().unwrap();
        let winds = display.winds.take(.., Timeout::NOW).unwrap();
        states.extend(winds.map(|wind| wind.info().instance_state));
        let turns = display.turns.take_data(.., Timeout::NOW).unwrap().count();
        display.subscriber.end_access().unwrap();
        assert_eq!(turns, states.len());
        turns > 0
    });
    assert_eq!(states, [InstanceState::NotAliveDisposed]);
    // One of two writers that share a stream is deleted: it disposes its instances.
    let Planner { winds, turns, .. } = planner;
    drop(turns);
    until("it is lost", || {
        display.subscriber.begin_access().unwrap();
        let mut lost = display.turns.take(.., Timeout::NOW).unwrap();
        let is_lost =
            lost.any(|turn| turn.info().instance_state == InstanceState::NotAliveDisposed);
        display.subscriber.end_access().unwrap();
        is_lost
    });
    // Its announcement takes another path.
    until("it is not matched any more", || display.turns.matched_writers() == 0);
    assert_eq!(display.winds.matched_writers(), 1);
    drop(winds);
}

struct CountingListener(Arc<AtomicUsize>);

impl DataReaderListener<Wind> for CountingListener {
    fn on_data_available(&mut self, reader: &DataReader<Wind>) {
        assert_eq!(reader.topic().name(), "Winds");
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

struct ForwardingListener(Arc<AtomicUsize>);

impl SubscriberListener for ForwardingListener {
    fn on_data_on_readers(&mut self, subscriber: &Subscriber) {
        self.0.fetch_add(1, Ordering::SeqCst);
        subscriber.notify_data_readers().unwrap();
    }
}

/// A listener of the subscriber is called, and notifies the listeners of its readers that
/// have data.
#[test]
fn subscriber_listener_notifies_listeners_of_readers_with_data() {
    let domain = TestDomain::new();
    let here = domain.join();
    let (planner, display) = (Planner::new(&here, "atomic"), Display::new(&here, "atomic"));
    let [told, passed, none] = [(); 3].map(|()| Arc::new(AtomicUsize::new(0)));
    display
        .winds
        .set_listener(CountingListener(Arc::clone(&told)), StatusKind::DataAvailable)
        .unwrap();
    let passes = ForwardingListener(Arc::clone(&passed));
    display.subscriber.set_listener(passes, StatusKind::DataOnReaders).unwrap();
    planner.wait_for_readers(1);
    planner.write(('t', 1, 1));
    until("it is told", || passed.load(Ordering::SeqCst) > 0);
    assert_eq!(told.load(Ordering::SeqCst), 0, "there is nothing to be read there");
    planner.write(('w', 1, 1));
    until("it is told", || told.load(Ordering::SeqCst) > 0);
    drop(none);
}

/// Group access scope without order or coherence requires no access calls.
#[test]
fn group_scope_without_order_or_coherence_needs_no_access_calls() {
    let domain = TestDomain::new();
    let here = domain.join();
    let access_scope = PresentationQosPolicyAccessScopeKind::Group;
    let nothing =
        PresentationQosPolicy { access_scope, coherent_access: false, ordered_access: false };
    let publisher = here.publisher().presentation(nothing.clone()).create().unwrap();
    let subscriber = here.subscriber().presentation(nothing).create().unwrap();
    let topic = here.topic::<Wind>("A").create().unwrap();
    let writer = publisher.writer(&topic).create().unwrap();
    let reader = subscriber.reader(&topic).reliable_all().create().unwrap();
    writer.wait_for_readers(1, SOON).unwrap();
    writer.write(&Wind { layer: 1, set: 1 }).unwrap();
    assert_eq!(reader.take_data(.., SOON).unwrap().count(), 1);
}
