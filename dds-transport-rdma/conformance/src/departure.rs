//! Ends of peers: a peer's last event is that it is down, and its replicas stay readable
//! and frozen.

use derecho_core::ids::RegionId;
use derecho_core::link::{Evidence, Link, LinkError, WordRange};

use crate::{LinkRig, Suite};

const REGION: RegionId = RegionId(4);
const WORDS: usize = 32;
const ALL: WordRange = WordRange { first: 0, count: WORDS };

/// Creates node 1 with varied work; the link decides what is under way when the node ends.
fn busy<R: LinkRig>(seed: u64) -> Suite<R> {
    let mut suite = Suite::<R>::new(3, seed);
    let own = suite.open(1, REGION, WORDS);
    let _mine = suite.open(0, REGION, WORDS);
    for round in 1..=20 {
        (0..WORDS).for_each(|index| own.word(index).put(round));
        suite.write(1, 0, REGION, ALL);
        let peer = suite.peer(1, 0);
        suite.link(1).note(peer, &round.to_le_bytes()).expect("the peer is up");
        let _ = suite.link(1).open(RegionId(100 + round), 8).expect("a new region opens");
        if suite.random.below(3) == 0 {
            suite.pass();
        }
    }
    suite
}

/// Every operation that needs the peer is refused; the observer sees that no further event comes.
fn check_gone<R: LinkRig>(suite: &mut Suite<R>) {
    let peer = suite.peer(0, 1);
    let gone = LinkError::PeerGone(peer);
    assert_eq!(suite.link(0).write(peer, REGION, ALL), Err(gone.clone()));
    assert_eq!(suite.link(0).read(peer, REGION, ALL), Err(gone.clone()));
    assert_eq!(suite.link(0).note(peer, b"?"), Err(gone));
    suite.link(0).ring(&[peer], &[]);
    (0..20).for_each(|_| suite.pass());
}

/// A node that dies without a goodbye is reported as the rig says, and no event of it follows.
pub fn a_death_is_the_last_event<R: LinkRig>(seed: u64) {
    let mut suite = busy::<R>(seed);
    suite.kill(1);
    suite.until("both others know", |suite| [0, 2].iter().all(|&at| suite.down(at, 1).is_some()));
    for at in [0, 2] {
        let evidence = suite.down(at, 1).expect("it was just looked at");
        assert!(suite.rig.kill_evidence().contains(&evidence), "{evidence:?}");
        assert_ne!(evidence, Evidence::Left, "it said no goodbye");
    }
    check_gone(&mut suite);
    // Notes that arrived came in order.
    let notes = suite.notes(0, 1);
    for (index, note) in notes.iter().enumerate() {
        assert_eq!(note, &(index as u64 + 1).to_le_bytes());
    }
}

/// A leaving node says so after everything else that it had to say.
pub fn a_leave_is_the_last_event<R: LinkRig>(seed: u64) {
    let mut suite = busy::<R>(seed);
    suite.leave(1);
    suite.until("both others know", |suite| [0, 2].iter().all(|&at| suite.down(at, 1).is_some()));
    for at in [0, 2] {
        assert_eq!(suite.down(at, 1), Some(Evidence::Left));
    }
    assert_eq!(suite.notes(0, 1).len(), 20, "notes are reliable, and so they come before the end");
    check_gone(&mut suite);
}

/// The replicas of a dead node keep the content that they had when its death was reported.
pub fn replicas_of_the_dead_are_frozen<R: LinkRig>(seed: u64) {
    for dies in [true, false] {
        let mut suite = busy::<R>(seed);
        let seen = suite.replica(0, 1, REGION).expect("it is open");
        if dies {
            suite.kill(1);
        } else {
            suite.leave(1);
        }
        suite.until("the others know", |suite| suite.down(0, 1).is_some());
        let last: Vec<u64> = (0..WORDS).map(|index| seen.load(index)).collect();
        assert!(last.iter().all(|value| *value <= 20), "never written: {last:?}");
        let late = suite.join();
        let own = suite.open(late, REGION, WORDS);
        (0..WORDS).for_each(|index| own.word(index).put(99));
        suite.write(late, 0, REGION, ALL);
        (0..20).for_each(|_| suite.pass());
        let now: Vec<u64> = (0..WORDS).map(|index| seen.load(index)).collect();
        assert_eq!(now, last, "a replica of the dead has changed");
    }
}

/// The end of one node does not affect the others.
pub fn survivors_go_on<R: LinkRig>(seed: u64) {
    let mut suite = busy::<R>(seed);
    suite.kill(1);
    let own = suite.open(2, RegionId(50), WORDS);
    let peer = suite.peer(2, 0);
    for round in 1..=50 {
        own.word(0).publish(round);
        suite.write(2, 0, RegionId(50), ALL);
        suite.link(2).note(peer, &round.to_le_bytes()).expect("the peer is up");
        suite.pass();
    }
    suite.until("all arrives", |suite| {
        suite.notes(0, 2).len() == 50
            && suite.replica(0, 2, RegionId(50)).is_some_and(|seen| seen.load(0) == 50)
    });
    suite.until("the death is known", |suite| suite.down(0, 1).is_some());
    assert_eq!(suite.down(0, 2), None);
    let late = suite.join();
    suite.until("the newcomer sees the survivors'", |suite| {
        suite.replica(late, 2, RegionId(50)).is_some()
    });
}
