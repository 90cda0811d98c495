//! One-sided reads and counters.

use derecho_core::ids::{Peer, RegionId};
use derecho_core::link::{Link, ReadId, WordRange};
use derecho_core::memory::WORD;

use crate::{LinkRig, Suite};

/// Reads complete in the order posted, and their values are no older than their post.
pub fn reads_complete_in_order_and_are_fresh<R: LinkRig>(seed: u64) {
    let words = 12;
    let mut suite = Suite::<R>::new(3, seed);
    let regions = [RegionId(1), RegionId(2)];
    let own = [suite.open(1, regions[0], words), suite.open(2, regions[1], words)];
    let mut posted: Vec<PostedRead> = Vec::new();
    for round in 1..=100 {
        for own in &own {
            (0..words).for_each(|index| own.word(index).publish(round));
        }
        let pick = suite.random.below(2);
        let peer = suite.peer(0, pick + 1);
        let range = WordRange::new(0, words);
        let read = suite.link(0).read(peer, regions[pick], range).expect("it can be read");
        assert!(posted.last().is_none_or(|(_, last, ..)| *last < read), "reads are numbered");
        posted.push((peer, read, pick, round));
        for _ in 0..suite.random.below(3) {
            suite.pass();
            check_fresh(&suite, &posted, words, round);
        }
    }
    suite.until("all reads are done", |suite| suite.reads_done(0).len() == 100);
    check_fresh(&suite, &posted, words, 100);
    let done = suite.reads_done(0);
    let expected: Vec<_> = posted.iter().map(|(peer, read, ..)| (*peer, *read)).collect();
    assert_eq!(done, expected);
}

/// Peer, read, index of the region, and round of a posted read.
type PostedRead = (Peer, ReadId, usize, u64);

fn check_fresh<R: LinkRig>(suite: &Suite<R>, posted: &[PostedRead], words: usize, now: u64) {
    let done = suite.reads_done(0).len();
    for (.., pick, round) in &posted[..done] {
        let seen = suite
            .replica(0, pick + 1, RegionId(*pick as u64 + 1))
            .expect("a region that was read is open");
        for index in 0..words {
            let value = seen.load(index);
            assert!(value >= *round, "a read of round {round} is done and brought {value}");
            assert!(value <= now, "word {index} was never {value}");
        }
    }
}

/// Counters count exactly the posted operations.
pub fn writes_reads_and_notes_are_counted<R: LinkRig>(seed: u64) {
    let mut suite = Suite::<R>::new(2, seed);
    let region = RegionId(3);
    let _own = suite.open(0, region, 64);
    let before = [suite.link(0).counters(), suite.link(1).counters()];
    suite.write(0, 1, region, WordRange::new(3, 5));
    suite.write(0, 1, region, WordRange::new(0, 64));
    let peer = suite.peer(0, 1);
    suite.link(0).note(peer, b"one").expect("the peer is up");
    let owner = suite.peer(1, 0);
    suite.link(1).read(owner, region, WordRange::new(1, 2)).expect("it can be read");
    suite.until("the read is done", |suite| suite.reads_done(1).len() == 1);
    let after = [suite.link(0).counters(), suite.link(1).counters()];
    assert_eq!(after[0].writes - before[0].writes, 2);
    assert_eq!(after[0].written_bytes - before[0].written_bytes, (69 * WORD) as u64);
    assert_eq!(after[0].notes - before[0].notes, 1);
    assert_eq!(after[1].reads - before[1].reads, 1);
    assert_eq!(after[1].read_bytes - before[1].read_bytes, (2 * WORD) as u64);
    assert_eq!(after[1].writes, before[1].writes);
}
