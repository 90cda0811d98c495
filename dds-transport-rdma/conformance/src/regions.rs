//! Regions: announced to all nodes, ready before they are written to, closed and never renamed.

use derecho_core::ids::{Peer, RegionId};
use derecho_core::link::{Link, LinkError, WordRange};

use crate::{LinkRig, Suite};

const ALL: WordRange = WordRange { first: 0, count: 16 };

/// A write is refused until the owner has heard that the peer is ready, and accepted afterwards.
pub fn a_write_before_ready_is_refused<R: LinkRig>(seed: u64) {
    let mut suite = Suite::<R>::new(2, seed);
    let peer = suite.peer(0, 1);
    let region = RegionId(5);
    let own = suite.link(0).open(region, 16).expect("a new region opens");
    let refused = suite.link(0).write(peer, region, ALL);
    assert_eq!(refused, Err(LinkError::NotReady(peer, region)));
    suite.until_ready(0, region);
    own.word(3).publish(9);
    suite.write(0, 1, region, ALL);
    suite.until("the word arrives", |suite| {
        suite.replica(1, 0, region).is_some_and(|seen| seen.load(3) == 9)
    });
}

/// Ranges outside a region, and unknown regions and peers, are refused.
pub fn what_lies_outside_is_refused<R: LinkRig>(seed: u64) {
    let mut suite = Suite::<R>::new(2, seed);
    let region = RegionId(5);
    let _own = suite.open(0, region, 16);
    let (to_reader, to_owner) = (suite.peer(0, 1), suite.peer(1, 0));
    for range in [
        WordRange::new(16, 1),
        WordRange::new(0, 17),
        WordRange::new(17, 0),
        WordRange::new(usize::MAX, 2),
        WordRange::new(1, usize::MAX),
    ] {
        let refused = Err(LinkError::OutOfRegion(region, range));
        assert_eq!(suite.link(0).write(to_reader, region, range), refused);
        let refused = Err(LinkError::OutOfRegion(region, range));
        assert_eq!(suite.link(1).read(to_owner, region, range), refused);
    }
    let (other, nobody) = (RegionId(6), Peer(99));
    assert_eq!(suite.link(0).write(to_reader, other, ALL), Err(LinkError::NoRegion(other)));
    assert_eq!(suite.link(1).read(to_owner, other, ALL), Err(LinkError::NoRegion(other)));
    assert_eq!(suite.link(0).close(other), Err(LinkError::NoRegion(other)));
    assert_eq!(suite.link(0).write(nobody, region, ALL), Err(LinkError::PeerGone(nobody)));
    assert_eq!(suite.link(0).read(nobody, region, ALL), Err(LinkError::PeerGone(nobody)));
    assert_eq!(suite.link(0).note(nobody, b""), Err(LinkError::PeerGone(nobody)));
    // Refused operations have not happened.
    assert_eq!((suite.link(0).counters().writes, suite.link(1).counters().reads), (0, 0));
    suite.write(0, 1, region, WordRange::new(0, 16));
}

/// A region is zeroed at its owner and at its readers, whatever was in the space before.
pub fn a_replica_appears_zeroed<R: LinkRig>(seed: u64) {
    let words = 100;
    let mut suite = Suite::<R>::new(2, seed);
    for name in 0..6 {
        let region = RegionId(name);
        let own = suite.open(0, region, words);
        let seen = suite.replica(1, 0, region).expect("it is open");
        assert_eq!(seen.words(), words);
        for index in 0..words {
            assert_eq!(own.word(index).load(), 0, "word {index} of a new region at its owner");
            assert_eq!(seen.load(index), 0, "word {index} of a new region at a reader");
            own.word(index).put(u64::MAX);
        }
        suite.write(0, 1, region, WordRange::new(0, words));
        suite.until("it is filled", |_| (0..words).all(|index| seen.load(index) == u64::MAX));
        drop((own, seen));
        suite.link(0).close(region).expect("it is open");
        suite.until("it is closed", |suite| suite.replica(1, 0, region).is_none());
        // Leave time for the space to become free, so that it is reused if ever.
        (0..5).for_each(|_| suite.pass());
    }
}

/// A late joiner is told of open regions, not of closed ones.
pub fn a_late_joiner_is_told_of_what_is_open<R: LinkRig>(seed: u64) {
    let mut suite = Suite::<R>::new(2, seed);
    let (kept, closed) = (RegionId(1), RegionId(2));
    let own = suite.open(0, kept, 16);
    let _closed = suite.open(0, closed, 16);
    own.word(0).publish(4711);
    suite.write(0, 1, kept, ALL);
    suite.link(0).close(closed).expect("it is open");
    let late = suite.join();
    suite.until_ready(0, kept);
    // The owner posts once what the late joiner must see.
    suite.write(0, late, kept, ALL);
    suite.until("the newcomer sees it", |suite| {
        suite.replica(late, 0, kept).is_some_and(|seen| seen.load(0) == 4711)
    });
    assert!(suite.replica(late, 0, closed).is_none());
    let own = suite.open(late, RegionId(1), 16);
    own.word(1).publish(5);
    suite.write(late, 1, RegionId(1), ALL);
    suite.until("the others see the newcomer's", |suite| {
        suite.replica(1, late, RegionId(1)).is_some_and(|seen| seen.load(1) == 5)
    });
}

/// A replica in use keeps its content when its region is closed, whatever is opened later.
pub fn a_closed_region_stays_readable<R: LinkRig>(seed: u64) {
    let mut suite = Suite::<R>::new(2, seed);
    let region = RegionId(1);
    let own = suite.open(0, region, 64);
    (0..64).for_each(|index| own.word(index).put(index as u64 + 1));
    suite.write(0, 1, region, WordRange::new(0, 64));
    let seen = suite.replica(1, 0, region).expect("it is open");
    suite.until("it is filled", |_| (0..64).all(|index| seen.load(index) == index as u64 + 1));
    suite.link(0).close(region).expect("it is open");
    drop(own);
    let peer = suite.peer(0, 1);
    assert_eq!(
        suite.link(0).write(peer, region, WordRange::new(0, 1)),
        Err(LinkError::NoRegion(region))
    );
    suite.until("the reader knows", |suite| suite.replica(1, 0, region).is_none());
    for name in 2..10 {
        let other = suite.open(0, RegionId(name), 64);
        (0..64).for_each(|index| other.word(index).put(u64::MAX));
        suite.write(0, 1, RegionId(name), WordRange::new(0, 64));
        suite.pass();
        assert!((0..64).all(|index| seen.load(index) == index as u64 + 1), "it was overwritten");
    }
    let owner = suite.peer(1, 0);
    assert_eq!(
        suite.link(1).read(owner, region, WordRange::new(0, 1)),
        Err(LinkError::NoRegion(region))
    );
}

/// The owner's handle stays valid when the region is closed, whatever is opened later.
pub fn an_own_handle_outlives_the_region<R: LinkRig>(seed: u64) {
    let mut suite = Suite::<R>::new(2, seed);
    let own = suite.open(0, RegionId(1), 32);
    let second = own.clone();
    drop(own);
    suite.link(0).close(RegionId(1)).expect("it is open");
    suite.until("the reader knows", |suite| suite.replica(1, 0, RegionId(1)).is_none());
    (0..32).for_each(|index| second.word(index).put(7));
    for name in 2..10 {
        let other = suite.open(0, RegionId(name), 32);
        (0..32).for_each(|index| assert_eq!(other.word(index).load(), 0));
        (0..32).for_each(|index| other.word(index).put(u64::MAX));
        (0..3).for_each(|_| suite.pass());
    }
    assert!((0..32).all(|index| second.word(index).load() == 7));
}

/// A name that was used once is refused forever.
pub fn names_are_not_reused<R: LinkRig>(seed: u64) {
    let mut suite = Suite::<R>::new(2, seed);
    let region = RegionId(u64::MAX);
    let own = suite.open(0, region, 16);
    assert_eq!(suite.link(0).open(region, 16).err(), Some(LinkError::RegionExists(region)));
    suite.link(0).close(region).expect("it is open");
    drop(own);
    assert_eq!(suite.link(0).close(region), Err(LinkError::NoRegion(region)));
    suite.until("the reader knows", |suite| suite.replica(1, 0, region).is_none());
    assert_eq!(suite.link(0).open(region, 16).err(), Some(LinkError::RegionExists(region)));
    // Names belong to their owner: another node may use the same name.
    let _other = suite.open(1, region, 16);
}

/// Many regions of many sizes are independent of each other.
pub fn a_thousand_regions<R: LinkRig>(seed: u64) {
    let mut suite = Suite::<R>::new(2, seed);
    let mut owned = Vec::new();
    for name in 0..1000 {
        let words = 1 + suite.random.below(40);
        let own = suite.link(0).open(RegionId(name), words).expect("a new region opens");
        owned.push(own);
    }
    suite.until_ready(0, RegionId(999));
    for (name, own) in owned.iter().enumerate() {
        (0..own.words()).for_each(|index| own.word(index).put(name as u64 + 1));
        suite.write(0, 1, RegionId(name as u64), WordRange::new(0, own.words()));
    }
    suite.until("all are filled", |suite| {
        owned.iter().enumerate().all(|(name, own)| {
            let seen = suite.replica(1, 0, RegionId(name as u64)).expect("it is open");
            (0..own.words()).all(|index| seen.load(index) == name as u64 + 1)
        })
    });
    for name in 0..1000 {
        suite.link(0).close(RegionId(name)).expect("it is open");
    }
    suite.until("all are closed", |suite| suite.replica(1, 0, RegionId(999)).is_none());
}

/// Space is reused: regions can be opened and closed without end.
pub fn opening_and_closing_goes_on_for_ever<R: LinkRig>(seed: u64) {
    let mut suite = Suite::<R>::new(2, seed);
    for name in 0..200 {
        // One megabyte each, so that a leak of two hundred would be noticed.
        let own = suite.open(0, RegionId(name), 1 << 17);
        own.word(0).publish(name + 1);
        suite.write(0, 1, RegionId(name), WordRange::new(0, 1));
        suite.until("it is seen", |suite| {
            suite.replica(1, 0, RegionId(name)).is_some_and(|seen| seen.load(0) == name + 1)
        });
        suite.link(0).close(RegionId(name)).expect("it is open");
        suite.until("it is closed", |suite| suite.replica(1, 0, RegionId(name)).is_none());
    }
}
