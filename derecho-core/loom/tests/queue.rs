//! A reader's queue that continues from one epoch's senders to the next epoch's while records are
//! taken from it (I-38).
#![cfg(loom)]

use derecho_core::ids::{RegionId, Time};
use derecho_core::link::Waker;
use derecho_core::machine::Effects;
use derecho_core::memory::{LINE_WORDS, OwnRegion};
use derecho_core::multicast::ablation::Ablation;
use derecho_core::multicast::claim::SenderMemory;
use derecho_core::multicast::subgroup::epoch::{EpochOpening, OpeningMemory};
use derecho_core::multicast::subgroup::{
    DeliveryGuarantee, OpeningMember, OwnLines, SUBGROUP_LINES, SentStream, Subgroup,
    SubgroupConfig,
};
use derecho_loom::{explore, memory_with_nulls, shape, smallest};
use loom::thread;

/// Creates an epoch in which only this node reads, and sends from this memory.
fn opening(epoch: u64, memory: &SenderMemory, lines: &OwnRegion) -> EpochOpening {
    let stream = RegionId(20 + epoch);
    let (replica, geometry) = (memory.replica(), memory.geometry());
    let own = OpeningMember {
        target: None,
        bell: None,
        slot: 0,
        reads: true,
        sends: Some(SentStream { stream, replica, geometry, start: None }),
        ready: true,
        lines: lines.replica(),
    };
    let memory = Some(OpeningMemory { memory: memory.clone(), region: stream });
    EpochOpening { epoch, name: 100 + epoch, members: vec![own], memory, skipped: Vec::new() }
}

fn commit(memory: &SenderMemory) {
    memory.claim(1).unwrap().commit(1, |_, _| {});
}

#[test]
fn queue_continues_with_next_epoch_while_records_are_taken() {
    explore(3, || {
        let region = OwnRegion::heap(SUBGROUP_LINES * LINE_WORDS);
        let lines = OwnLines { region: region.clone(), id: RegionId(16) };
        let terms =
            SubgroupConfig { level: DeliveryGuarantee::Unordered, ablation: Ablation::default() };
        let waker: Waker = std::sync::Arc::new(|| {});
        let [first, second] = [(); 2].map(|()| memory_with_nulls(smallest(2, 2)));
        commit(&first);
        commit(&second);
        let mut subgroup =
            Subgroup::new(terms, opening(0, &first, &region), lines, &waker).unwrap();
        let inbox = subgroup.add_reader().unwrap();
        let application = thread::spawn({
            let inbox = inbox.clone();
            move || {
                let mut took = Vec::new();
                while took.len() < 2 {
                    match inbox.take() {
                        Some(record) => took.push((record.sender(), record.number())),
                        None => thread::yield_now(),
                    }
                }
                took
            }
        });
        drop(inbox);
        let effects = &mut Effects::new();
        subgroup.turn(Time::default(), effects, &mut |_, fault| panic!("{fault}"));
        subgroup.wedge();
        assert!(subgroup.finish(&[1], &mut |_, fault| panic!("{fault}")));
        assert!(subgroup.next_epoch(opening(1, &second, &region)));
        subgroup.turn(Time::default(), effects, &mut |_, fault| panic!("{fault}"));
        assert_eq!(application.join().unwrap(), [(0, 0), (1, 0)]);
    });
}

/// One turn receives more records than a section of the queue has places: no record is shown before
/// the references to the section are counted.
#[test]
fn queue_grows_while_records_are_taken() {
    explore(3, || {
        let region = OwnRegion::heap(SUBGROUP_LINES * LINE_WORDS);
        let lines = OwnLines { region: region.clone(), id: RegionId(16) };
        let terms =
            SubgroupConfig { level: DeliveryGuarantee::Unordered, ablation: Ablation::default() };
        let waker: Waker = std::sync::Arc::new(|| {});
        let memory = memory_with_nulls(shape(8, 2, 4));
        (0..3).for_each(|_| commit(&memory));
        let mut subgroup =
            Subgroup::new(terms, opening(0, &memory, &region), lines, &waker).unwrap();
        let inbox = subgroup.add_reader().unwrap();
        let application = thread::spawn({
            let inbox = inbox.clone();
            move || {
                let mut took = Vec::new();
                while took.len() < 3 {
                    match inbox.take() {
                        Some(record) => took.push(record.number()),
                        None => thread::yield_now(),
                    }
                }
                (took, inbox.passed())
            }
        });
        drop(inbox);
        let effects = &mut Effects::new();
        subgroup.turn(Time::default(), effects, &mut |_, fault| panic!("{fault}"));
        assert_eq!(application.join().unwrap(), (vec![0, 1, 2], 0));
    });
}
