//! Row functions, reducers, kept reductions and snapshots.

use std::sync::{Arc, Mutex};

use derecho_core::ids::Rank;
use derecho_core::link::Sharing;
use derecho_core::row;
use derecho_core::sst::FireCondition;
use proptest::prelude::*;

use crate::rig::{Rig, Setup, no_setup};

row! {
    struct Load {
        load: i64,
        share: f64,
        ready: bool,
        /// Whether all nodes are ready, as far as this node sees.
        all_ready: bool,
        /// Whether all nodes see that all are ready.
        all_know: bool,
        least: i64,
    }
}

fn row(load: i64) -> Load {
    let share = load as f64 / 2.0;
    Load { load, share, ready: load % 2 == 0, all_ready: false, all_know: false, least: 0 }
}

proptest! {
    #[test]
    fn reducers_agree_with_same_reduction_of_a_list(
        loads in proptest::collection::vec(-100i64..100, 1..6)
    ) {
        let rig = Rig::started(loads.len(), Sharing::Copied, |i| row(loads[i]), no_setup);
        for node in 0..loads.len() {
            let table = rig.table(node);
            let rows = table.rows();
            prop_assert_eq!(rows.min(|r| r.get(Load::load)), *loads.iter().min().unwrap());
            prop_assert_eq!(rows.max(|r| r.get(Load::load)), *loads.iter().max().unwrap());
            prop_assert_eq!(rows.sum(|r| r.get(Load::load)), loads.iter().sum::<i64>());
            prop_assert_eq!(
                rows.max(|r| r.get(Load::share)),
                *loads.iter().max().unwrap() as f64 / 2.0
            );
            prop_assert_eq!(rows.all(|r| r.get(Load::ready)), loads.iter().all(|l| l % 2 == 0));
            prop_assert_eq!(rows.any(|r| r.get(Load::ready)), loads.iter().any(|l| l % 2 == 0));
            prop_assert_eq!(
                rows.count(|r| r.get(Load::ready)),
                loads.iter().filter(|l| *l % 2 == 0).count()
            );
            // A row function may use several cells, and return the rank of its row.
            let busiest = rows.max(|r| (r.get(Load::load), r.rank())).1;
            prop_assert_eq!(loads[busiest.index()], *loads.iter().max().unwrap());
            prop_assert_eq!(rows.iter().count(), loads.len());
        }
    }
}

#[test]
fn failed_rows_are_reduced_by_rows_and_not_by_live() {
    let mut rig = Rig::started(4, Sharing::Copied, |i| row(i as i64), no_setup);
    rig.crash(0);
    rig.crash(3);
    let table = rig.table(1);
    assert_eq!(table.rows().sum(|r| r.get(Load::load)), 6);
    assert_eq!(table.live().sum(|r| r.get(Load::load)), 3);
    assert_eq!(table.live().min(|r| r.get(Load::load)), 1);
    assert_eq!(table.rows().min(|r| r.get(Load::load)), 0);
    let live: Vec<Rank> = table.live().iter().map(|r| r.rank()).collect();
    assert_eq!(live, [Rank(1), Rank(2)]);
}

/// K(all are ready), then K(all know it), as cells that are reduced again.
fn knowledge(certain: Arc<Mutex<Vec<usize>>>) -> impl FnMut(usize) -> Setup<Load> {
    move |index| {
        let certain = certain.clone();
        Box::new(move |scope| {
            scope.keep(Load::all_ready, |table| table.rows().all(|r| r.get(Load::ready)));
            scope.keep(Load::all_know, |table| table.rows().all(|r| r.get(Load::all_ready)));
            scope.when(
                FireCondition::Once,
                |table| table.rows().all(|r| r.get(Load::all_know)),
                move |_| certain.lock().unwrap().push(index),
            );
        })
    }
}

#[test]
fn all_nodes_learn_that_every_node_knows_all_are_ready() {
    let certain = Arc::new(Mutex::new(Vec::new()));
    let mut rig = Rig::started(3, Sharing::Copied, |i| row(i as i64), knowledge(certain.clone()));
    assert!(certain.lock().unwrap().is_empty());
    rig.with(1, |scope| scope.publish(Load::ready, true));
    rig.turn(1);
    assert!(rig.table(1).get(Rank(1), Load::all_ready), "it knows of itself first");
    assert!(!rig.table(1).get(Rank(1), Load::all_know));
    rig.settle();
    let mut nodes = certain.lock().unwrap().clone();
    nodes.sort_unstable();
    assert_eq!(nodes, [0, 1, 2]);
}

#[test]
fn a_kept_value_follows_its_rows_and_is_pushed_only_when_it_changes() {
    let mut rig = Rig::started(
        2,
        Sharing::Copied,
        |i| row(i as i64 + 5),
        |_| {
            Box::new(|scope| {
                scope.keep(Load::least, |table| table.rows().min(|r| r.get(Load::load)));
            })
        },
    );
    assert_eq!(rig.table(1).get(Rank(0), Load::least), 5);
    let before = rig.writes;
    rig.settle();
    assert_eq!(rig.writes, before);
    rig.with(1, |scope| scope.publish(Load::load, -3));
    rig.settle();
    assert_eq!(rig.table(1).get(Rank(0), Load::least), -3);
    assert_eq!(rig.writes, before + 3, "the load, and what both keep of it");
}

#[test]
fn snapshot_does_not_change_after_later_writes() {
    let mut rig = Rig::started(3, Sharing::Copied, |i| row(i as i64), no_setup);
    rig.crash(2);
    let snapshot = rig.table(0).snapshot();
    rig.with(1, |scope| {
        scope.set(Load::load, 50);
        scope.push_row();
    });
    rig.with(0, |scope| scope.publish(Load::load, 60));
    rig.deliver_all();
    assert_eq!(rig.table(0).rows().max(|r| r.get(Load::load)), 60);
    assert_eq!(rig.table(0).get(Rank(1), Load::load), 50);
    assert_eq!(snapshot.rows().max(|r| r.get(Load::load)), 2);
    assert_eq!(snapshot.row(Rank(1)), &row(1));
    assert_eq!((snapshot.me(), snapshot.all().len()), (Rank(0), 3));
    assert_ne!(snapshot, rig.table(0).snapshot());
}
