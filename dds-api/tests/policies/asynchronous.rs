//! Waiting calls as futures, on a runtime that is only a parking thread.

use std::future::Future;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use crate::runtime::block_on;
use crate::support::{
    self, Actor, CheckedSample, SOON, TestDomain, join, listen, reader_of, role, say, until,
    writer_of,
};
use dds_api::infrastructure::{GuardCondition, WaitSet};
use dds_api::prelude::*;
use dds_api::qos::{
    Length, PresentationQosPolicy, PresentationQosPolicyAccessScopeKind, ResourceLimitsQosPolicy,
};
use dds_api::subscription::{ReadCondition, States};
use dds_api::topic::Bytes;
use futures_util::StreamExt;

/// Role of a child process; does nothing when the test program is run normally.
#[test]
fn act() {
    let Some((role, folder)) = role() else { return };
    match role.as_str() {
        "writer" => act_writer(&folder),
        other => panic!("no such role: {other}"),
    }
}

/// Writes a sample on each order.
fn act_writer(folder: &Path) {
    let participant = join(folder);
    let writer = writer_of(&participant, "Marks");
    writer.wait_for_readers(1, SOON).unwrap();
    say("ready");
    let mut number = 0;
    while listen().is_some() {
        writer.write(&CheckedSample::new(number)).unwrap();
        number += 1;
    }
}

/// A coherent set without room is ended as soon as there is room.
#[test]
fn a_set_ends_when_its_readers_make_room() {
    let domain = TestDomain::new();
    let participant = domain.join();
    let access_scope = PresentationQosPolicyAccessScopeKind::Topic;
    let coherent =
        PresentationQosPolicy { access_scope, coherent_access: true, ordered_access: true };
    let publisher = participant.publisher().presentation(coherent).create().unwrap();
    let topic = participant.topic::<CheckedSample>("Marks").create().unwrap();
    let writer = publisher.writer(&topic).memory(4 << 10).max_blocking_time(Timeout::NOW);
    let (writer, reader) = (writer.create().unwrap(), reader_of(&participant, "Marks"));
    writer.wait_for_readers(1, SOON).unwrap();
    let written =
        (0..).take_while(|number| writer.write(&CheckedSample::new(*number)).is_ok()).count();
    publisher.begin_coherent_changes().unwrap();
    writer.write(&CheckedSample::last(written as u64)).unwrap();
    assert!(publisher.end_coherent_changes().is_err());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(50));
            let mut got = support::ReceivedSequence::default();
            support::take_to_the_end(&reader, &mut got);
            assert_eq!(got.next, written as u64 + 1);
        });
        block_on(publisher.end_coherent_changes_async()).unwrap();
    });
    assert!(publisher.end_coherent_changes().is_err(), "it has ended");
}

#[test]
fn task_is_woken_by_samples_of_another_process() {
    let domain = TestDomain::new();
    let participant = domain.join();
    let reader = reader_of(&participant, "Marks");
    let mut actor = Actor::start(module_path!(), "writer", &domain, 0);
    block_on(reader.wait_for_writers_async(1)).unwrap();
    assert_eq!(actor.hear(), "ready");
    // There are no samples at first, so each of these futures sleeps.
    for number in 0..3 {
        let taken = {
            let mut future = pin!(reader.take_next_data_async());
            let mut context = Context::from_waker(Waker::noop());
            assert!(future.as_mut().poll(&mut context).is_pending());
            actor.tell("write");
            block_on(future).unwrap()
        };
        assert_eq!(taken.number, number);
    }
    actor.tell("write");
    let samples: Vec<u64> =
        block_on(reader.take_data_async(..)).unwrap().map(|sample| sample.number).collect();
    assert_eq!(samples, [3]);
    let mut stream = reader.stream().data();
    for number in 4..8 {
        actor.tell("write");
        assert_eq!(block_on(stream.next()).unwrap().unwrap().number, number);
    }
    block_on(reader.wait_for_historical_data_async()).unwrap();
    drop(reader);
    actor.kill();
}

/// In this participant, and in another one, which reports released memory only to waiting writers.
#[test]
fn a_task_that_writes_is_woken_when_there_is_room() {
    let domain = TestDomain::new();
    let here = domain.join();
    write_as_there_is_room(&here, &here);
    write_as_there_is_room(&here, &domain.join());
}

fn write_as_there_is_room(here: &DomainParticipant, there: &DomainParticipant) {
    const COUNT: u64 = 1_000;
    let topic = here.topic::<CheckedSample>("Marks").create().unwrap();
    let writer = here.writer(&topic).memory(4096).in_flight(4).create().unwrap();
    let theirs = there.topic::<CheckedSample>("Marks").create().unwrap();
    let reader = there.reader(&theirs).reliable_all().create().unwrap();
    block_on(writer.wait_for_readers_async(1)).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            block_on(async {
                for number in 0..COUNT {
                    let sample = CheckedSample::new(number);
                    match number % 2 {
                        0 => writer.write_async(&sample).await.unwrap(),
                        _ => {
                            let mut loan = writer.loan_async().await.unwrap();
                            *loan = sample;
                            loan.publish().unwrap();
                        }
                    }
                }
                writer.wait_for_acknowledgments_async().await.unwrap();
            });
        });
        for number in 0..COUNT {
            if number % 100 == 0 {
                // The writer sleeps in the meantime.
                std::thread::sleep(Duration::from_millis(5));
            }
            assert_eq!(block_on(reader.take_next_data_async()).unwrap().number, number);
        }
    });
}

/// The returned loan gives no turn of any participant anything to do.
#[test]
fn a_task_that_writes_is_woken_when_a_loan_is_given_back() {
    let domain = TestDomain::new();
    let participant = domain.join();
    let topic = participant.topic::<CheckedSample>("Marks").create().unwrap();
    let writer = participant.writer(&topic).in_flight(4).max_blocking_time(Timeout::NOW);
    let writer = writer.create().unwrap();
    let mut loans: Vec<_> = std::iter::from_fn(|| writer.loan().ok()).collect();
    assert!(!loans.is_empty());
    let bell = Arc::new(FlagWaker::default());
    let waker = Waker::from(Arc::clone(&bell));
    let (sample, mut context) = (CheckedSample::new(1), Context::from_waker(&waker));
    let mut writes = pin!(writer.write_async(&sample));
    assert!(writes.as_mut().poll(&mut context).is_pending(), "there is no room");
    let polls = Instant::now();
    while bell.0.swap(false, Ordering::SeqCst) && polls.elapsed() < Duration::from_secs(1) {
        assert!(writes.as_mut().poll(&mut context).is_pending());
    }
    loans.pop();
    assert!(bell.0.load(Ordering::SeqCst), "it is told at once");
    let Poll::Ready(written) = writes.as_mut().poll(&mut context) else { panic!("there is room") };
    written.unwrap();
}

/// A sample that readers would have had to receive first was not written. The failure gives no turn
/// of any participant anything to do.
#[test]
fn task_waiting_behind_a_write_is_woken_when_the_write_fails() {
    let domain = TestDomain::new();
    let participant = domain.join();
    let topic = participant.topic::<Bytes>("Octets").create().unwrap();
    let writer = participant.writer(&topic).memory(64 << 10).in_flight(256);
    let one = ResourceLimitsQosPolicy { max_samples: Length::of(1), ..Default::default() };
    let writer = writer.max_blocking_time(Timeout::millis(100)).resource_limits(one);
    let writer = writer.max_sample_size(4000);
    let writer = writer.create().unwrap();
    let reader = participant.reader(&topic).reliable_all().max_held_percent(100).create().unwrap();
    writer.wait_for_readers(1, SOON).unwrap();
    let [short, middle, long] = [8, 500, 3 << 10].map(|length| Bytes::from(vec![0; length]));
    let mut held = Vec::new();
    while writer.has_room_for(&long) {
        writer.write(&middle).unwrap();
        held.push(reader.take_next_data(SOON).unwrap().unwrap());
        writer.wait_for_acknowledgments(SOON).unwrap();
    }
    assert!(writer.has_room_for(&short), "for one that is short there is room");
    let bell = Arc::new(FlagWaker::default());
    let waker = Waker::from(Arc::clone(&bell));
    let mut context = Context::from_waker(&waker);
    let mut writes = pin!(writer.write_async(&short));
    std::thread::scope(|scope| {
        let fails = scope.spawn(|| writer.write(&long).unwrap_err());
        until("it stands in front", || !writer.has_room_for(&short));
        assert!(writes.as_mut().poll(&mut context).is_pending(), "it waits for the other one");
        let error = fails.join().unwrap();
        assert!(matches!(error, DdsError::Timeout(_)), "{error}");
    });
    assert!(bell.0.load(Ordering::SeqCst), "it is told at once");
    let Poll::Ready(written) = writes.as_mut().poll(&mut context) else { panic!("nobody is left") };
    written.unwrap();
}

/// Waker that records that it was called.
#[derive(Default)]
struct FlagWaker(AtomicBool);

impl Wake for FlagWaker {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn task_is_woken_when_time_based_filter_releases_a_sample() {
    let domain = TestDomain::new();
    let participant = domain.join();
    let topic = participant.topic::<CheckedSample>("Marks").create().unwrap();
    let writer = participant.writer(&topic).create().unwrap();
    let separation = Duration::from_millis(50);
    let reader =
        participant.reader(&topic).reliable_all().minimum_separation(separation).create().unwrap();
    writer.wait_for_readers(1, SOON).unwrap();
    writer.write(&CheckedSample::new(0)).unwrap();
    assert_eq!(block_on(reader.take_next_data_async()).unwrap().number, 0);
    // The sample is delivered only when its time is over, and nothing arrives by then.
    writer.write(&CheckedSample::new(1)).unwrap();
    assert_eq!(block_on(reader.take_next_data_async()).unwrap().number, 1);
    writer.write(&CheckedSample::new(2)).unwrap();
    let (reader, wait_set) = (Arc::new(reader), WaitSet::new());
    let there = reader.condition(&ReadCondition::new(States::any()));
    wait_set.attach(&there).unwrap();
    assert_eq!(block_on(wait_set.wait_async()).unwrap(), [there]);
    assert_eq!(reader.take_next_data(Timeout::NOW).unwrap().unwrap().number, 2);
    let stop = GuardCondition::new();
    wait_set.attach(&stop).unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| block_on(wait_set.wait_async()).unwrap());
        stop.set_trigger_value(true);
        assert!(waiting.join().unwrap().contains(stop.as_ref()));
    });
}

#[test]
fn futures_of_entities_can_be_sent_to_other_threads() {
    fn may_go(_: &impl Send) {}
    let domain = TestDomain::new();
    let participant = domain.join();
    let reader = reader_of(&participant, "Marks");
    may_go(&reader.take_data_async(..));
    may_go(&reader.take_next_data_async());
    may_go(&reader.wait_for_writers_async(1));
    may_go(&reader.stream().data());
    let writer = writer_of(&participant, "Marks");
    may_go(&writer.write_async(&CheckedSample::new(0)));
    may_go(&writer.loan_async());
    may_go(&writer.wait_for_acknowledgments_async());
    may_go(&WaitSet::new().wait_async());
}
