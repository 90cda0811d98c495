//! Topics of one name: a participant has one type for them, whichever threads make them.

use std::sync::Barrier;

use crate::support::TestDomain;
use dds_api::prelude::*;

#[derive(DdsType, Clone, Debug, Default)]
struct Height {
    metres: f64,
}

#[derive(DdsType, Clone, Debug, Default)]
struct Depth {
    metres: f64,
}

/// Makes a topic once all threads are there.
fn make<T: DdsType>(
    participant: &DomainParticipant,
    (name, barrier): (&str, &Barrier),
) -> DdsResult<Topic<T>> {
    let topic = participant.topic::<T>(name);
    barrier.wait();
    topic.create()
}

#[test]
fn one_of_two_threads_that_give_a_name_two_types_is_refused() {
    let domain = TestDomain::new();
    let here = domain.join();
    for round in 0..2000 {
        let name = format!("Level {}", round % 3);
        let barrier = Barrier::new(2);
        let at = (name.as_str(), &barrier);
        let (height, depth) = std::thread::scope(|scope| {
            let height = scope.spawn(|| make::<Height>(&here, at));
            let depth = make::<Depth>(&here, at);
            (height.join().unwrap(), depth)
        });
        let refusal = match (&height, &depth) {
            (Ok(_), Err(error)) | (Err(error), Ok(_)) => error,
            (Ok(_), Ok(_)) => panic!("round {round}: `{name}` has two types"),
            (Err(one), Err(other)) => panic!("round {round}: no topic: {one}; {other}"),
        };
        assert!(matches!(refusal, DdsError::PreconditionNotMet(_)), "{refusal}");
    }
}

#[test]
fn threads_that_agree_on_the_type_all_get_the_topic() {
    let domain = TestDomain::new();
    let here = domain.join();
    for _ in 0..200 {
        let barrier = Barrier::new(2);
        let at = ("Level", &barrier);
        let (one, other) = std::thread::scope(|scope| {
            let one = scope.spawn(|| make::<Height>(&here, at));
            let other = make::<Height>(&here, at);
            (one.join().unwrap(), other)
        });
        assert_eq!((one.map(drop), other.map(drop)), (Ok(()), Ok(())));
    }
}
