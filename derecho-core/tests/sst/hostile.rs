//! Any content that a peer writes into its row yields some value, and never a panic.

use derecho_core::ids::Rank;
use derecho_core::link::Sharing;
use derecho_core::sst::{FireCondition, Sst};
use proptest::prelude::*;

use crate::cells::Kinds;
use crate::rig::{Rig, Setup};

/// Reads every column in every way.
fn curious(_: usize) -> Setup<Kinds> {
    Box::new(|scope| {
        scope.keep(Kinds::c, |table| table.rows().max(|r| r.get(Kinds::words)[2]));
        scope.keep(Kinds::g, |table| table.rows().any(|r| r.get(Kinds::truths)[8]));
        scope.when(
            FireCondition::Always,
            |table| table.rows().min(|r| r.get(Kinds::f)) < 0.0,
            |scope| {
                let snapshot = scope.snapshot();
                let sum: f64 = snapshot.all().iter().map(|row| row.floats[1]).sum();
                scope.publish(Kinds::floats.at(1), sum);
            },
        );
        scope.when(
            FireCondition::OnTransition,
            |table| table.live().count(|r| r.get(Kinds::g)) > 0,
            |scope| {
                let least = scope.rows().min(|r| r.get(Kinds::e));
                scope.publish(Kinds::e, least);
            },
        );
    })
}

proptest! {
    #[test]
    fn garbage_in_every_word_of_a_row_never_panics(
        garbage in proptest::collection::vec(any::<u64>(), Sst::<Kinds>::REGION_WORDS),
        fails in any::<bool>(),
    ) {
        let mut rig = Rig::started(3, Sharing::Copied, |_| Kinds::ZERO, curious);
        for (index, word) in garbage.iter().enumerate() {
            rig.seen(1, 0).word(index).publish(*word);
            rig.turn(0);
        }
        if fails {
            rig.crash(1);
            rig.turn(0);
        }
        let (table, snapshot) = (rig.table(0), rig.table(0).snapshot());
        let row = table.row(Rank(1));
        prop_assert_eq!(format!("{row:?}"), format!("{:?}", snapshot.row(Rank(1))));
        prop_assert_eq!(table.get(Rank(1), Kinds::bytes), row.bytes);
        prop_assert_eq!(table.get(Rank(1), Kinds::a), row.a);
        for index in 0..9 {
            prop_assert_eq!(table.get(Rank(1), Kinds::truths.at(index)), row.truths[index]);
        }
    }

    #[test]
    fn garbage_before_the_start_never_panics(
        garbage in proptest::collection::vec(any::<u64>(), Sst::<Kinds>::REGION_WORDS),
    ) {
        let mut rig = Rig::apart(2, Sharing::Copied, |_| Kinds::ZERO, curious);
        rig.meet();
        for (index, word) in garbage.iter().enumerate() {
            rig.seen(1, 0).word(index).publish(*word);
        }
        rig.turn(0);
        prop_assert!(rig.nodes[0].sst.table().is_none());
        prop_assert_eq!(rig.nodes[0].sst.error().is_some(), garbage[0] != 0);
    }
}
