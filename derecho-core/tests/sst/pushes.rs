//! Visibility of pushes at other nodes, and its order.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use derecho_core::ids::Rank;
use derecho_core::link::Sharing;
use derecho_core::row;
use derecho_core::sst::FireCondition;

use crate::rig::{Rig, Setup, no_setup};

row! {
    pub(crate) struct Guarded {
        pub(crate) value: [u64; 4],
        pub(crate) guard: u64,
    }
}

pub(crate) const ZERO: Guarded = Guarded { value: [0; 4], guard: 0 };

fn seen(rig: &Rig<Guarded>) -> ([u64; 4], u64) {
    let table = rig.table(1);
    (table.get(Rank(0), Guarded::value), table.get(Rank(0), Guarded::guard))
}

#[test]
fn value_that_is_set_but_not_pushed_is_seen_only_by_its_owner() {
    for sharing in [Sharing::Shared, Sharing::Copied] {
        let mut rig = Rig::started(2, sharing, |_| ZERO, no_setup);
        rig.with(0, |table| table.set(Guarded::guard, 7));
        rig.settle();
        assert_eq!(rig.table(0).get(Rank(0), Guarded::guard), 7);
        assert_eq!(seen(&rig), ([0; 4], 0));
        rig.with(0, |table| table.push(Guarded::guard));
        rig.deliver_all();
        assert_eq!(seen(&rig), ([0; 4], 7));
    }
}

#[test]
fn push_of_a_column_pushes_no_other_column() {
    for sharing in [Sharing::Shared, Sharing::Copied] {
        let mut rig = Rig::started(2, sharing, |_| ZERO, no_setup);
        rig.with(0, |table| {
            table.set(Guarded::value, [1; 4]);
            table.publish(Guarded::guard, 1);
        });
        rig.deliver_all();
        assert_eq!(seen(&rig), ([0; 4], 1));
        rig.with(0, |table| table.push_row());
        rig.deliver_all();
        assert_eq!(seen(&rig), ([1; 4], 1));
    }
}

#[test]
fn a_push_is_one_post_to_each_other_row() {
    for nodes in [1, 2, 5, 9] {
        let mut rig = Rig::started(nodes, Sharing::Copied, |_| ZERO, no_setup);
        let before = rig.writes;
        rig.with(0, |table| table.publish(Guarded::guard, 1));
        assert_eq!(rig.writes - before, nodes - 1);
        rig.with(0, |table| table.push_row());
        assert_eq!(rig.writes - before, 2 * (nodes - 1));
    }
}

#[test]
fn push_over_shared_memory_makes_no_post() {
    let mut rig = Rig::started(3, Sharing::Shared, |_| ZERO, no_setup);
    rig.with(0, |table| table.publish(Guarded::guard, 5));
    assert_eq!(rig.writes, 0);
    assert_eq!(rig.table(2).get(Rank(0), Guarded::guard), 5);
}

/// I-15: two pushes are seen in their order.
#[test]
fn column_pushed_later_guards_column_pushed_earlier() {
    let mut rig = Rig::started(2, Sharing::Copied, |_| ZERO, no_setup);
    rig.with(0, |table| {
        table.publish(Guarded::value, [9; 4]);
        table.publish(Guarded::guard, 1);
    });
    assert_eq!(seen(&rig), ([0; 4], 0));
    assert!(rig.deliver(0, 1));
    assert_eq!(seen(&rig), ([9; 4], 0), "the value comes first");
    assert!(rig.deliver(0, 1));
    assert_eq!(seen(&rig), ([9; 4], 1));
    assert!(!rig.deliver(0, 1));
}

#[test]
fn pushes_of_a_trigger_leave_in_their_order_and_before_the_next_predicate() {
    let order = Arc::new(Mutex::new(Vec::new()));
    let setup = |index: usize| -> Setup<Guarded> {
        let order = order.clone();
        Box::new(move |scope| {
            if index == 0 {
                return;
            }
            scope.when(
                FireCondition::Once,
                |table| table.get(Rank(0), Guarded::guard) == 1,
                move |scope| {
                    order.lock().unwrap().push(scope.get(Rank(0), Guarded::value)[0]);
                    scope.publish(Guarded::value, [4; 4]);
                    scope.publish(Guarded::guard, 4);
                },
            );
        })
    };
    let mut rig = Rig::started(2, Sharing::Copied, |_| ZERO, setup);
    rig.with(0, |table| {
        table.publish(Guarded::value, [3; 4]);
        table.publish(Guarded::guard, 1);
    });
    rig.deliver(0, 1);
    assert_eq!(rig.turn(1), 0);
    rig.deliver(0, 1);
    assert_eq!(rig.turn(1), 1);
    assert_eq!(*order.lock().unwrap(), [3]);
    rig.deliver(1, 0);
    let back = |rig: &Rig<Guarded>| {
        let table = rig.table(0);
        (table.get(Rank(1), Guarded::value)[0], table.get(Rank(1), Guarded::guard))
    };
    assert_eq!(back(&rig), (4, 0));
    rig.deliver(1, 0);
    assert_eq!(back(&rig), (4, 4));
}

/// The own row may be written while another process reads it: a column to the right of a value
/// guards that value in a copied row as well.
#[test]
fn a_snapshot_and_a_frozen_row_keep_guards_and_values_together() {
    let mut rig = Rig::started(2, Sharing::Shared, |_| ZERO, no_setup);
    let own = rig.nodes[0].own.values().next().unwrap().clone();
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = stop.clone();
    let words = own.words();
    let writer = std::thread::spawn(move || {
        let mut count = 0;
        while !stopped.load(Ordering::Relaxed) {
            count += 1;
            for word in words - 8..words - 3 {
                own.word(word).publish(count);
            }
        }
    });
    // The row is the last line: four words of value, then the guard.
    for _ in 0..100_000 {
        let row = *rig.table(1).snapshot().row(Rank(0));
        assert!(row.value.iter().all(|&v| v >= row.guard), "torn: {row:?}");
    }
    rig.with(1, |table| table.freeze(Rank(0)));
    let row = rig.table(1).row(Rank(0));
    assert!(row.value.iter().all(|&v| v >= row.guard), "torn: {row:?}");
    stop.store(true, Ordering::Relaxed);
    writer.join().unwrap();
    assert_eq!(rig.table(1).row(Rank(0)), row);
}
