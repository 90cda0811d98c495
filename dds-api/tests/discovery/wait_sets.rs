//! Wait sets and conditions.

use std::sync::atomic::{AtomicBool, Ordering};

use dds_api::infrastructure::{GuardCondition, WaitSet};
use dds_api::prelude::*;

const SOON: Timeout = Timeout::secs(30);

fn is_timeout<T: std::fmt::Debug>(result: DdsResult<T>) -> bool {
    matches!(result, Err(DdsError::Timeout(_)))
}

fn is_precondition<T: std::fmt::Debug>(result: DdsResult<T>) -> bool {
    matches!(result, Err(DdsError::PreconditionNotMet(_)))
}

#[test]
fn guard_condition_keeps_trigger_value_until_set_again() {
    let (wait_set, guard, other) = (WaitSet::new(), GuardCondition::new(), GuardCondition::new());
    wait_set.attach(&guard).unwrap();
    wait_set.attach(&other).unwrap();
    assert!(is_timeout(wait_set.wait(Timeout::millis(5))));
    guard.set_trigger_value(true);
    for _ in 0..2 {
        assert_eq!(wait_set.wait(SOON).unwrap(), [guard.as_ref().clone()]);
    }
    other.set_trigger_value(true);
    assert_eq!(wait_set.wait(Timeout::NOW).unwrap().len(), 2);
    guard.set_trigger_value(false);
    assert_eq!(wait_set.wait(SOON).unwrap(), [other.as_ref().clone()]);
    other.set_trigger_value(false);
    assert!(is_timeout(wait_set.wait(Timeout::NOW)));
}

#[test]
fn condition_is_attached_once_and_detached_only_if_attached() {
    let (wait_set, guard) = (WaitSet::new(), GuardCondition::new());
    assert!(is_precondition(wait_set.detach(&guard)));
    wait_set.attach(&guard).unwrap();
    wait_set.attach(&guard).unwrap();
    assert_eq!(wait_set.conditions(), [guard.as_ref().clone()]);
    wait_set.detach(&guard).unwrap();
    assert!(wait_set.conditions().is_empty());
    guard.set_trigger_value(true);
    assert!(is_timeout(wait_set.wait(Timeout::millis(1))), "it is waited for no more");
}

#[test]
fn wait_set_allows_one_waiting_thread_at_a_time() {
    let (wait_set, guard) = (WaitSet::new(), GuardCondition::new());
    let waits = AtomicBool::new(false);
    wait_set.attach(&guard).unwrap();
    std::thread::scope(|scope| {
        let first = scope.spawn(|| {
            waits.store(true, Ordering::SeqCst);
            wait_set.wait(SOON)
        });
        while !waits.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        // The first thread may not have reached its wait yet: then this one waits, and times out,
        // or the first one is refused.
        let mut refused = false;
        while !refused && !first.is_finished() {
            let second = wait_set.wait(Timeout::NOW);
            refused = is_precondition(second.clone());
            assert!(refused || is_timeout(second.clone()), "{second:?}");
        }
        guard.set_trigger_value(true);
        let first = first.join().unwrap();
        // The first thread may be the one that was refused.
        assert!(is_precondition(first.clone()) || first.unwrap().len() == 1);
    });
    assert_eq!(wait_set.wait(SOON).unwrap().len(), 1, "whoever waited has ended");
}

#[test]
fn true_condition_attached_during_wait_ends_wait() {
    let (wait_set, guard) = (WaitSet::new(), GuardCondition::new());
    guard.set_trigger_value(true);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| wait_set.wait(SOON));
        wait_set.attach(&guard).unwrap();
        assert_eq!(waiting.join().unwrap().unwrap(), [guard.as_ref().clone()]);
    });
}

#[test]
fn guard_condition_ends_waits_of_several_wait_sets() {
    let (sets, guard) = ([WaitSet::new(), WaitSet::new()], GuardCondition::new());
    sets.iter().for_each(|set| set.attach(&guard).unwrap());
    std::thread::scope(|scope| {
        let waiting = sets.each_ref().map(|set| scope.spawn(|| set.wait(SOON)));
        guard.set_trigger_value(true);
        for waiting in waiting {
            assert_eq!(waiting.join().unwrap().unwrap().len(), 1);
        }
    });
}
