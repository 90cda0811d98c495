//! When predicates fire, and what their triggers may do.

use std::sync::{Arc, Mutex};

use derecho_core::ids::Rank;
use derecho_core::link::Sharing;
use derecho_core::row;
use derecho_core::sst::{FireCondition, Scope, Table};

use crate::rig::{Rig, no_setup};

row! {
    struct Flags {
        flag: bool,
        count: u64,
        step: u64,
    }
}

const ZERO: Flags = Flags { flag: false, count: 0, step: 0 };

fn one_node() -> Rig<Flags> {
    Rig::started(1, Sharing::Shared, |_| ZERO, no_setup)
}

fn flag(table: &Table<Flags>) -> bool {
    table.get(table.me(), Flags::flag)
}

fn count(scope: &mut Scope<'_, Flags>) {
    let next = scope.get(scope.me(), Flags::count) + 1;
    scope.set(Flags::count, next);
}

fn counted(rig: &Rig<Flags>) -> u64 {
    rig.table(0).get(Rank(0), Flags::count)
}

fn set(rig: &mut Rig<Flags>, value: bool) {
    rig.with(0, |scope| scope.set(Flags::flag, value));
}

#[test]
fn once_predicate_fires_one_time_and_is_removed() {
    let mut rig = one_node();
    rig.with(0, |scope| scope.when(FireCondition::Once, flag, count));
    assert_eq!(rig.turn(0), 0);
    set(&mut rig, true);
    assert_eq!(rig.turn(0), 1);
    assert_eq!(rig.nodes[0].sst.predicate_count(), 0);
    assert_eq!((rig.turn(0), counted(&rig)), (0, 1));
}

#[test]
fn always_predicate_fires_at_every_evaluation_while_true() {
    let mut rig = one_node();
    rig.with(0, |scope| scope.when(FireCondition::Always, flag, count));
    for value in [true, true, false, true] {
        set(&mut rig, value);
        assert_eq!(rig.turn(0), usize::from(value));
    }
    assert_eq!(counted(&rig), 3);
}

#[test]
fn transition_predicate_fires_on_change_to_true() {
    let mut rig = one_node();
    rig.with(0, |scope| scope.when(FireCondition::OnTransition, flag, count));
    for (value, fires) in [(true, 1), (true, 0), (false, 0), (true, 1), (true, 0)] {
        set(&mut rig, value);
        assert_eq!(rig.turn(0), fires, "at {value}");
    }
    assert_eq!(counted(&rig), 2);
}

#[test]
fn turn_reports_evaluated_predicates_and_fired_triggers() {
    let mut rig = Rig::started(3, Sharing::Copied, |_| ZERO, no_setup);
    rig.with(0, |scope| {
        scope.when(
            FireCondition::Always,
            |table| table.rows().all(|row| !row.get(Flags::flag)),
            count,
        );
        scope.when(FireCondition::Always, flag, count);
    });
    rig.turn(0);
    let work = rig.work;
    assert_eq!((work.predicates, work.triggers), (2, 1));
    assert!(work.cells >= 4, "three cells of the first predicate, one of the second");
}

#[test]
fn triggers_of_one_predicate_run_in_their_order() {
    let mut rig = one_node();
    let order = Arc::new(Mutex::new(Vec::new()));
    rig.with(0, |scope| {
        let note = |name: u32| {
            let order = order.clone();
            move |_: &mut Scope<'_, Flags>| order.lock().unwrap().push(name)
        };
        let predicate = scope.when(FireCondition::Once, |_| true, note(1));
        assert!(scope.also(predicate, note(2)));
        assert!(scope.also(predicate, note(3)));
    });
    rig.turn(0);
    assert_eq!(*order.lock().unwrap(), [1, 2, 3]);
}

#[test]
fn later_predicate_sees_effect_of_earlier_trigger() {
    let mut rig = one_node();
    rig.with(0, |scope| {
        for step in 0..4u64 {
            scope.when(
                FireCondition::Once,
                move |table| table.get(table.me(), Flags::step) == step,
                move |scope| scope.set(Flags::step, step + 1),
            );
        }
    });
    assert_eq!(rig.turn(0), 4);
    assert_eq!(rig.table(0).get(Rank(0), Flags::step), 4);
}

#[test]
fn predicates_that_a_trigger_adds_join_at_the_next_evaluation() {
    let mut rig = one_node();
    rig.with(0, |scope| {
        scope.when(
            FireCondition::Once,
            |_| true,
            |scope| {
                scope.when(
                    FireCondition::Once,
                    |_| true,
                    |scope| {
                        count(scope);
                        scope.when(FireCondition::Always, |_| true, count);
                    },
                );
            },
        );
    });
    assert_eq!((rig.turn(0), counted(&rig)), (1, 0));
    assert_eq!((rig.turn(0), counted(&rig)), (1, 1));
    assert_eq!((rig.turn(0), counted(&rig)), (1, 2));
}

#[test]
fn trigger_may_remove_earlier_later_and_own_predicate() {
    let mut rig = one_node();
    rig.with(0, |scope| {
        let earlier = scope.when(FireCondition::Always, |_| true, count);
        let own = Arc::new(Mutex::new(None));
        let later = Arc::new(Mutex::new(None));
        let (own_id, later_id) = (own.clone(), later.clone());
        let remover = scope.when(
            FireCondition::Always,
            |_| true,
            move |scope| {
                scope.remove(earlier);
                scope.remove(own_id.lock().unwrap().expect("noted below"));
                scope.remove(later_id.lock().unwrap().expect("noted below"));
            },
        );
        *own.lock().unwrap() = Some(remover);
        *later.lock().unwrap() = Some(scope.when(FireCondition::Always, |_| true, count));
    });
    assert_eq!(rig.turn(0), 2, "the earlier and the remover; the later one is gone already");
    assert_eq!(counted(&rig), 1);
    assert_eq!((rig.turn(0), rig.nodes[0].sst.predicate_count()), (0, 0));
}

#[test]
fn a_predicate_that_is_removed_in_the_scope_that_added_it_never_fires() {
    let mut rig = one_node();
    rig.with(0, |scope| {
        let predicate = scope.when(FireCondition::Always, |_| true, count);
        scope.remove(predicate);
        scope.remove(predicate);
    });
    assert_eq!((rig.turn(0), counted(&rig)), (0, 0));
}

#[test]
fn trigger_runs_once_on_each_node() {
    let mut rig = Rig::started(
        3,
        Sharing::Copied,
        |_| ZERO,
        |_| {
            Box::new(|scope| {
                scope.when(
                    FireCondition::Once,
                    |table| table.rows().any(|row| row.get(Flags::flag)),
                    |scope| {
                        scope.publish(Flags::flag, true);
                        count(scope);
                    },
                );
            })
        },
    );
    rig.with(1, |scope| scope.publish(Flags::flag, true));
    rig.settle();
    for node in 0..3 {
        let table = rig.table(node);
        assert_eq!(table.get(table.me(), Flags::count), 1);
        assert!(table.rows().all(|row| row.get(Flags::flag)));
    }
}
