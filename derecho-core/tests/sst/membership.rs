//! Gathering, failures, and rows that come and go.

use std::sync::{Arc, Mutex};

use derecho_core::ids::{Peer, Rank};
use derecho_core::link::{Evidence, LinkEvent, Sharing};
use derecho_core::machine::Effects;
use derecho_core::memory::OwnRegion;
use derecho_core::row;
use derecho_core::sst::{FireCondition, Sst, SstError, Strategy, TableRow};

use crate::rig::{Rig, Setup, id, no_setup};

row! {
    struct Count { count: u64 }
}

row! {
    struct Other { amount: u64 }
}

row! {
    struct Longer { count: [u64; 20] }
}

const ZERO: Count = Count { count: 0 };

#[test]
fn table_starts_when_all_members_are_present_ranked_by_node_id() {
    let mut rig = Rig::apart(3, Sharing::Copied, |_| ZERO, no_setup);
    assert_eq!(rig.turn(0), 0);
    assert!(rig.nodes[0].sst.members().is_empty());
    rig.meet();
    assert_eq!(rig.turn(0), 0, "the others' rows are posted, not arrived");
    rig.settle();
    for index in 0..3 {
        assert_eq!(rig.nodes[index].sst.members(), [id(0), id(1), id(2)]);
        assert_eq!(rig.table(index).me(), Rank(index as u16));
        assert_eq!(rig.table(index).len(), 3);
        assert!(!rig.table(index).is_empty());
    }
}

/// The post that shows a row may read its words late. If a table started while that post is under
/// way, the post could carry a guard's new value ahead of the values that the guard covers (I-19).
#[test]
fn table_does_not_start_before_all_members_have_seen_its_row() {
    let mut rig = Rig::apart(2, Sharing::Copied, |_| ZERO, no_setup);
    rig.meet();
    while rig.deliver(1, 0) {}
    assert_eq!(rig.turn(0), 0, "node 1's row is here, but node 0's is under way to it");
    while rig.deliver(0, 1) {}
    assert_eq!(rig.turn(1), 1, "node 1 knows that node 0 has seen its row");
    assert_eq!(rig.turn(0), 0, "but not the other way round");
    while rig.deliver(1, 0) {}
    assert_eq!(rig.turn(0), 1);
}

#[test]
fn a_step_on_a_table_that_has_not_started_is_refused() {
    let mut rig = Rig::apart(2, Sharing::Copied, |_| ZERO, no_setup);
    let answer = rig.nodes[0].sst.with_table(&mut Effects::new(), |_| ());
    assert!(answer.is_none());
}

#[test]
fn a_failed_nodes_row_is_frozen_and_the_application_is_told() {
    let notices = Arc::new(Mutex::new(Vec::new()));
    let mut rig = Rig::started(3, Sharing::Copied, |i| Count { count: i as u64 }, no_setup);
    let failures = notices.clone();
    rig.nodes[0].sst.on_failure(move |scope, rank| {
        assert!(scope.is_frozen(rank));
        failures.lock().unwrap().push((rank, scope.get(rank, Count::count)));
        let failed = scope.get(scope.me(), Count::count) + 100;
        scope.publish(Count::count, failed);
    });
    rig.crash(2);
    assert_eq!(*notices.lock().unwrap(), [(Rank(2), 2)]);
    // I-17: late writes of the failed node are not seen.
    rig.seen(2, 0).word(8).publish(77);
    assert_eq!(rig.table(0).get(Rank(2), Count::count), 2);
    assert_eq!(rig.table(0).row(Rank(2)), Count { count: 2 });
    assert!(rig.table(0).is_frozen(Rank(2)));
    assert!(!rig.table(0).is_frozen(Rank(1)));
    // The upcall's push reaches the others, and nothing is posted to the dead node.
    let before = rig.writes;
    rig.settle();
    assert_eq!(rig.table(1).get(Rank(0), Count::count), 100);
    rig.with(0, |scope| scope.publish(Count::count, 101));
    assert_eq!(rig.writes - before, 1);
}

#[test]
fn failure_is_reported_once_and_strangers_are_not_members() {
    let notices = Arc::new(Mutex::new(0));
    let mut rig = Rig::started(2, Sharing::Copied, |_| ZERO, no_setup);
    let failures = notices.clone();
    rig.nodes[0].sst.on_failure(move |_, _| *failures.lock().unwrap() += 1);
    let (peer, node, sharing) = (Peer(9), id(9), Sharing::Copied);
    rig.tell(0, LinkEvent::PeerUp { peer, node, sharing, place: None });
    rig.tell(0, LinkEvent::PeerDown { peer, evidence: Evidence::Uncertain });
    assert_eq!(*notices.lock().unwrap(), 0);
    rig.crash(1);
    rig.tell(0, LinkEvent::PeerDown { peer: Peer(1), evidence: Evidence::Certain });
    assert_eq!(*notices.lock().unwrap(), 1);
}

fn regenerate(
    rig: &mut Rig<Count>,
    index: usize,
    generation: u32,
    members: &[usize],
    setup: Setup<Count>,
) {
    let own = OwnRegion::heap(Sst::<Count>::REGION_WORDS);
    rig.nodes[index].own.insert(Sst::<Count>::region(generation), own.clone());
    // The caller carries state over where wanted.
    let table = rig.table(index);
    let carried = table.row(table.me());
    let members: Vec<_> = members.iter().map(|&index| id(index)).collect();
    let mut effects = Effects::new();
    let sst = &mut rig.nodes[index].sst;
    sst.rebuild(own, generation, &members, carried, setup, &mut effects);
    assert!(sst.table().is_none() && sst.predicate_count() == 0);
    rig.take(index, effects);
}

fn count_up_to(limit: u64) -> Setup<Count> {
    Box::new(move |scope| {
        scope.when(
            FireCondition::Always,
            move |table| table.get(table.me(), Count::count) < limit,
            |scope| {
                let next = scope.get(scope.me(), Count::count) + 1;
                scope.publish(Count::count, next);
            },
        );
    })
}

#[test]
fn rows_are_removed_and_added_again_with_their_state() {
    for sharing in [Sharing::Shared, Sharing::Copied] {
        let mut rig = Rig::started(3, sharing, |_| ZERO, |_| count_up_to(5));
        assert_eq!(rig.table(0).rows().sum(|r| r.get(Count::count)), 15);
        // Node 1 leaves.
        for index in [0, 2] {
            regenerate(&mut rig, index, 1, &[0, 2], count_up_to(7));
        }
        rig.announce(Sst::<Count>::region(1));
        rig.settle();
        for index in [0, 2] {
            assert_eq!(rig.nodes[index].sst.members(), [id(0), id(2)]);
            assert_eq!(rig.table(index).rows().sum(|r| r.get(Count::count)), 14);
        }
        assert_eq!(rig.table(2).me(), Rank(1));
        // Node 1 comes back, with its previous values.
        for index in 0..3 {
            regenerate(&mut rig, index, 2, &[0, 1, 2], Box::new(|_| {}));
        }
        rig.announce(Sst::<Count>::region(2));
        rig.settle();
        for index in 0..3 {
            let table = rig.table(index);
            let counts: Vec<u64> = table.rows().iter().map(|r| r.get(Count::count)).collect();
            assert_eq!(counts, [7, 5, 7]);
        }
    }
}

#[test]
fn newcomer_joins_members_that_rebuild_the_table() {
    let mut rig = Rig::started(2, Sharing::Copied, |_| ZERO, |_| count_up_to(3));
    // A third node founds nothing; it was created for generation 1.
    let (generation, region) = (1, Sst::<Count>::region(1));
    let members = [id(0), id(1), id(2)];
    let mut late = Rig::apart(3, Sharing::Copied, |_| ZERO, no_setup);
    let mut node = late.nodes.pop().unwrap();
    let own = OwnRegion::heap(Sst::<Count>::REGION_WORDS);
    let writes = Strategy::Writes;
    node.sst = Sst::with_members(id(2), own.clone(), generation, &members, writes, ZERO, |_| {});
    node.own.insert(region, own);
    rig.nodes.push(node);
    for (reader, owner) in [(0, 2), (1, 2), (2, 0), (2, 1)] {
        let (peer, node, sharing) = (Peer(owner), id(owner as usize), Sharing::Copied);
        rig.tell(reader, LinkEvent::PeerUp { peer, node, sharing, place: None });
    }
    for index in [0, 1] {
        regenerate(&mut rig, index, generation, &[0, 1, 2], count_up_to(4));
    }
    rig.announce(region);
    rig.settle();
    for index in 0..3 {
        assert_eq!(rig.nodes[index].sst.members(), members);
        assert_eq!(rig.table(index).rows().sum(|r| r.get(Count::count)), 8);
    }
}

/// Creates a node 0 with a table of `Count`; node 1's region is `words` long and begins with the
/// word `first`.
fn meets(words: usize, first: u64) -> Rig<Count> {
    let mut rig = Rig::apart(2, Sharing::Copied, |_| ZERO, no_setup);
    let (peer, node, sharing) = (Peer(1), id(1), Sharing::Copied);
    rig.tell(0, LinkEvent::PeerUp { peer, node, sharing, place: None });
    let theirs = OwnRegion::heap(words);
    if words > 0 {
        theirs.word(0).publish(first);
    }
    let (region, replica) = (Sst::<Count>::region(0), theirs.replica());
    rig.tell(0, LinkEvent::RegionUp { peer, region, replica });
    rig.tell(0, LinkEvent::RegionReady { peer, region });
    rig.turn(0);
    rig
}

/// I-18: a table does not start with a member whose row has other columns.
#[test]
fn different_row_declaration_is_reported() {
    let rig = meets(Sst::<Other>::REGION_WORDS, Other::FINGERPRINT);
    let error = rig.nodes[0].sst.error().expect("the columns differ");
    let (ours, theirs) = (Count::FINGERPRINT, Other::FINGERPRINT);
    assert_eq!(*error, SstError::RowMismatch { node: id(1), ours, theirs });
    assert!(error.to_string().contains("build all members from the same row! declaration"));
    // A longer row is noticed as well, by its fingerprint.
    let rig = meets(Sst::<Longer>::REGION_WORDS, Longer::FINGERPRINT);
    assert!(matches!(rig.nodes[0].sst.error(), Some(SstError::RowMismatch { .. })));
}

#[test]
fn too_short_region_is_reported() {
    let rig = meets(8, Count::FINGERPRINT);
    let error = rig.nodes[0].sst.error().expect("there is no room for a row");
    assert_eq!(*error, SstError::RegionTooShort { node: id(1), words: 8, needed: 16 });
    assert!(error.to_string().contains("8 words where 16 are needed"));
    let rig = meets(0, 0);
    assert!(matches!(rig.nodes[0].sst.error(), Some(SstError::RegionTooShort { .. })));
}

#[test]
fn table_waits_for_row_that_has_not_arrived() {
    let rig = meets(Sst::<Count>::REGION_WORDS, 0);
    assert!(rig.nodes[0].sst.error().is_none());
    assert!(rig.nodes[0].sst.table().is_none());
}

#[test]
fn names_types_and_order_of_columns_are_in_the_fingerprint() {
    row! {
        struct A { x: u64, y: u64 }
    }
    row! {
        struct B { y: u64, x: u64 }
    }
    row! {
        struct C { x: u64, y: i64 }
    }
    row! {
        struct D { xy: u64, u64y: u64 }
    }
    let prints = [A::FINGERPRINT, B::FINGERPRINT, C::FINGERPRINT, D::FINGERPRINT];
    for (index, print) in prints.iter().enumerate() {
        assert!(!prints[..index].contains(print));
    }
}

#[test]
fn a_member_that_fails_before_the_rebuilt_table_starts_is_an_error() {
    let mut rig = Rig::started(2, Sharing::Copied, |_| ZERO, no_setup);
    regenerate(&mut rig, 0, 1, &[0, 1], Box::new(|_| {}));
    rig.crash(1);
    let error = rig.nodes[0].sst.error().expect("node 1 will not come");
    assert_eq!(*error, SstError::LostWhileGathering { node: id(1) });
    // Gathering without the lost node continues.
    let own = OwnRegion::heap(Sst::<Count>::REGION_WORDS);
    let sst = &mut rig.nodes[0].sst;
    sst.rebuild(own, 2, &[id(0)], ZERO, |_| {}, &mut Effects::new());
    assert_eq!((rig.turn(0), rig.table(0).len()), (1, 1));
}
