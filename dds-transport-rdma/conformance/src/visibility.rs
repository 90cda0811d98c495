//! One-sided writes: in order to one peer, words atomic; short writes are captured at the post,
//! long ones may be read later.
//!
//! The source of a long write may be read late, so a value may become visible through an earlier
//! post of its word. The clauses therefore conclude no order from a word of a long write that was
//! changed while the write was under way; counts that guard other words are short writes.

use std::sync::atomic::{AtomicBool, Ordering};

use derecho_core::ids::RegionId;
use derecho_core::link::{Link, WordRange};
use derecho_core::memory::{OwnRegion, Replica, WORD};

use crate::{LinkRig, Suite};

const BYTES: RegionId = RegionId(10);
const COUNT: RegionId = RegionId(11);
const ROUNDS: u64 = 150;

/// All nodes meet, each under the id that its link reports.
pub fn nodes_meet<R: LinkRig>(seed: u64) {
    let mut suite = Suite::<R>::new(3, seed);
    for at in 0..3 {
        for other in (0..3).filter(|other| *other != at) {
            let node = suite.id(other);
            assert_eq!(suite.link(other).node(), node);
            assert!(suite.peer(at, other).index() < 2);
        }
    }
}

/// A counter in one region never becomes visible before words of another region that were
/// posted earlier.
pub fn writes_become_visible_in_order<R: LinkRig>(seed: u64) {
    let words = 24;
    let mut suite = Suite::<R>::new(3, seed);
    let bytes = suite.open(0, BYTES, words);
    let count = suite.open(0, COUNT, ROUNDS as usize + 1);
    for round in 1..=ROUNDS {
        for index in 0..words {
            bytes.word(index).put(round);
        }
        for reader in [1, 2] {
            suite.write(0, reader, BYTES, WordRange::new(0, words));
        }
        count.word(round as usize).publish(round);
        for reader in [1, 2] {
            suite.write(0, reader, COUNT, WordRange::new(round as usize, 1));
        }
        for _ in 0..suite.random.below(4) {
            suite.rig.pass();
            check_order(&suite, words, round);
        }
    }
    suite.until("the last round arrives", |suite| {
        check_order(suite, words, ROUNDS);
        [1, 2].iter().all(|&reader| load(suite, reader, COUNT, ROUNDS as usize) == ROUNDS)
    });
    if R::PARALLEL {
        order_in_parallel(&bytes, &count, &replica(&suite, 1, BYTES), &replica(&suite, 1, COUNT));
    }
}

fn replica<R: LinkRig>(suite: &Suite<R>, at: usize, region: RegionId) -> Replica {
    suite.replica(at, 0, region).expect("the region is open")
}

fn load<R: LinkRig>(suite: &Suite<R>, at: usize, region: RegionId, index: usize) -> u64 {
    replica(suite, at, region).load(index)
}

fn check_order<R: LinkRig>(suite: &Suite<R>, words: usize, round: u64) {
    for reader in [1, 2] {
        let counted = replica(suite, reader, COUNT);
        let seen = (1..=ROUNDS).rev().find(|index| counted.load(*index as usize) != 0).unwrap_or(0);
        assert!(seen <= round, "round {seen} was never counted");
        for index in 0..words {
            let value = load(suite, reader, BYTES, index);
            assert!(value >= seen, "round {seen} is counted, word {index} is of round {value}");
            assert!(value <= round, "word {index} was never {value}");
        }
    }
}

/// Checks `writes_become_visible_in_order`, with two threads: the stores alone must suffice.
fn order_in_parallel(bytes: &OwnRegion, count: &OwnRegion, seen: &Replica, counted: &Replica) {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in ROUNDS + 1..100_000 {
                (0..bytes.words()).for_each(|index| bytes.word(index).put(round));
                count.word(0).publish(round);
            }
            stop.store(true, Ordering::Release);
        });
        while !stop.load(Ordering::Acquire) {
            let guard = counted.load(0);
            for index in 0..seen.words() {
                let value = seen.load(index);
                assert!(value >= guard, "round {guard} is counted, word {index} is {value}");
            }
        }
    });
}

/// Order holds with many small writes to separate places, and a window of them under way.
pub fn order_holds_while_many_writes_are_under_way<R: LinkRig>(seed: u64) {
    let words = 2000;
    let mut suite = Suite::<R>::new(2, seed);
    let own = suite.open(0, BYTES, words);
    let seen = replica(&suite, 1, BYTES);
    let mut next = 0;
    while next < words {
        for _ in 0..=suite.random.below(40).min(words - next - 1) {
            own.word(next).publish(1);
            suite.write(0, 1, BYTES, WordRange::new(next, 1));
            next += 1;
        }
        suite.rig.pass();
        assert!(check_prefix(&seen) <= next, "more is seen than was posted");
    }
    suite.until("the last write arrives", |_| check_prefix(&seen) == words);
}

/// Returns the number of visible writes; the last of them guards all others.
fn check_prefix(seen: &Replica) -> usize {
    let count = (0..seen.words()).rev().find(|index| seen.load(*index) != 0).map_or(0, |i| i + 1);
    for index in 0..count {
        assert_eq!(seen.load(index), 1, "write {} is seen and write {index} is not", count - 1);
    }
    count
}

/// A word is seen as it was stored at some moment, never as a mixture.
pub fn words_are_never_torn<R: LinkRig>(seed: u64) {
    let words = 9;
    let mut suite = Suite::<R>::new(2, seed);
    let own = suite.open(0, BYTES, words);
    let seen = replica(&suite, 1, BYTES);
    for round in 0..400_u64 {
        (0..words).for_each(|index| own.word(index).put(pattern(round)));
        suite.write(0, 1, BYTES, WordRange::new(0, words));
        if suite.random.below(3) == 0 {
            suite.rig.pass();
        }
        check_whole(&seen);
    }
    suite.until("the last round arrives", |_| {
        check_whole(&seen);
        (0..words).all(|index| seen.load(index) == pattern(399))
    });
    if R::PARALLEL {
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 0..100_000 {
                    (0..words).for_each(|index| own.word(index).put(pattern(round)));
                }
                stop.store(true, Ordering::Release);
            });
            while !stop.load(Ordering::Acquire) {
                check_whole(&seen);
            }
        });
    }
}

/// Returns a word of eight equal bytes.
fn pattern(round: u64) -> u64 {
    (round & 0xff) * 0x0101_0101_0101_0101
}

fn check_whole(seen: &Replica) {
    for index in 0..seen.words() {
        let value = seen.load(index);
        assert_eq!(value, pattern(value), "word {index} is torn: {value:#x}");
    }
}

/// Records of any length, written as bytes, are complete once the counter after them covers them.
pub fn a_counter_guards_the_bytes_before_it<R: LinkRig>(seed: u64) {
    let words = 2048;
    let mut suite = Suite::<R>::new(2, seed);
    let bytes = suite.open(0, BYTES, words);
    let count = suite.open(0, COUNT, 1);
    let (seen, counted) = (replica(&suite, 1, BYTES), replica(&suite, 1, COUNT));
    let mut filled = 0;
    let mut checked = 0;
    while filled + 400 <= words * WORD {
        let length = 1 + suite.random.below(390);
        let place = bytes.bytes(filled, length).expect("there is room");
        for offset in 0..length {
            // SAFETY: the range is inside the region, this is its only writer, and no reader looks
            // at it before the counter has passed it.
            unsafe { place.add(offset).write(byte(filled + offset)) };
        }
        let first = filled / WORD;
        let last = (filled + length).div_ceil(WORD);
        suite.write(0, 1, BYTES, WordRange::new(first, last - first));
        filled += length;
        // The same word each time: an earlier post of this word must not carry this value.
        count.word(0).publish(filled as u64);
        suite.write(0, 1, COUNT, WordRange::new(0, 1));
        if suite.random.below(2) == 0 {
            suite.rig.pass();
        }
        checked = check_bytes(&seen, checked, counted.load(0) as usize);
    }
    while counted.load(0) != filled as u64 {
        checked = check_bytes(&seen, checked, counted.load(0) as usize);
        suite.pass();
    }
    assert_eq!(check_bytes(&seen, checked, filled), filled);
}

fn byte(offset: usize) -> u8 {
    (offset * 31 + offset / 251) as u8 | 1
}

fn check_bytes(seen: &Replica, from: usize, to: usize) -> usize {
    let place = seen.bytes(from, to - from).expect("the counter counts what was written");
    for offset in from..to {
        // SAFETY: the range is inside the replica. The counter, loaded before, says that its bytes
        // are written; they no longer change.
        let value = unsafe { place.add(offset - from).read() };
        assert_eq!(value, byte(offset), "byte {offset} of {to} that are counted");
    }
    to
}

/// Every posted word finally arrives at every reader, and nothing else is changed.
pub fn what_is_posted_arrives<R: LinkRig>(seed: u64) {
    let words = 64;
    let mut suite = Suite::<R>::new(3, seed);
    let own = suite.open(0, BYTES, words);
    let mut expected = vec![0; words];
    for value in 1..=100 {
        let first = suite.random.below(words);
        let count = 1 + suite.random.below(words - first);
        for (index, slot) in expected.iter_mut().enumerate().skip(first).take(count) {
            own.word(index).put(value);
            *slot = value;
        }
        for reader in [1, 2] {
            suite.write(0, reader, BYTES, WordRange::new(first, count));
        }
    }
    suite.until("all that was posted is there", |suite| {
        [1, 2].iter().all(|&reader| {
            (0..words).all(|index| load(suite, reader, BYTES, index) == expected[index])
        })
    });
}
