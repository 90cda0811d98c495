//! Bells that any thread may ring, for links that give places. Real threads, so real time.
//!
//! The published words lie in the process's own memory: a ring comes after every store of its
//! thread, wherever the store goes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use derecho_core::link::{Bells, Interest, Link, OWN_PLACE, Parker};
use derecho_core::memory::AtomicWord;

use crate::sleep::{FOR_EVER, nanos};
use crate::{LinkRig, Suite};

/// Returns the place that `at` has for `node`, as a bit.
fn place<R: LinkRig>(suite: &mut Suite<R>, at: usize, node: usize) -> Option<u64> {
    let peer = suite.peer(at, node);
    let place = suite.link(at).place(peer)?;
    assert!(place < OWN_PLACE, "place {place} is none that a peer may have");
    Some(1 << place)
}

/// Sleeps until another thread rings.
fn sleep_and_ring(parker: &dyn Parker, bells: &Arc<dyn Bells>, places: u64) {
    for interest in [Interest::News, Interest::Hints] {
        parker.arm(interest);
        let bells = Arc::clone(bells);
        let ringer = std::thread::spawn(move || bells.ring(places));
        let start = Instant::now();
        parker.sleep(nanos(FOR_EVER));
        parker.disarm();
        assert!(start.elapsed() < FOR_EVER, "asleep for {interest:?}, a bell woke nobody");
        ringer.join().expect("a bell can be rung by any thread");
    }
}

/// A thread that is not a driver wakes a sleeping peer, and its own node. It wakes no other node,
/// and no node that is awake.
pub fn a_bell_wakes_a_sleeper<R: LinkRig>(seed: u64) {
    let mut suite = Suite::<R>::new(3, seed);
    let Some(parker) = suite.rig.parker(1) else { return };
    let Some(one) = place(&mut suite, 0, 1) else { return };
    let other = place(&mut suite, 0, 2).expect("there are places for two");
    assert_ne!(one, other, "two peers have one place");
    let bells = suite.link(0).bells();
    let rings = suite.link(0).counters().rings;
    bells.ring(one | other);
    assert_eq!(suite.link(0).counters().rings, rings, "it was awake and was rung");
    sleep_and_ring(&*parker, &bells, one | other);
    assert_eq!(suite.link(0).counters().rings, rings + 2, "rings of bells are counted");
    parker.arm(Interest::Hints);
    bells.ring(other | 1 << OWN_PLACE);
    parker.disarm();
    assert_eq!(suite.link(0).counters().rings, rings + 2, "another was meant");
    let own = suite.rig.parker(0).expect("every node has a parker");
    sleep_and_ring(&*own, &bells, 1 << OWN_PLACE);
}

/// Ringing a place without a peer has no effect. Another peer may get the place, and is then woken
/// through it.
pub fn a_place_whose_peer_has_gone_says_nothing<R: LinkRig>(seed: u64) {
    let mut suite = Suite::<R>::new(2, seed);
    let Some(parker) = suite.rig.parker(1) else { return };
    let Some(stale) = place(&mut suite, 0, 1) else { return };
    let bells = suite.link(0).bells();
    let peer = suite.peer(0, 1);
    // The peer dies asleep: its header last showed that it must be rung.
    parker.arm(Interest::Hints);
    let stop = Arc::new(AtomicBool::new(false));
    let ringer = std::thread::spawn({
        let (bells, stop) = (Arc::clone(&bells), Arc::clone(&stop));
        move || {
            while !stop.load(Ordering::Relaxed) {
                bells.ring(stale);
            }
        }
    });
    drop(parker);
    suite.kill(1);
    suite.until("it is down", |suite| suite.down(0, 1).is_some());
    stop.store(true, Ordering::Relaxed);
    ringer.join().expect("a bell can be rung while its peer dies");
    assert_eq!(suite.link(0).place(peer), None);
    let rings = suite.link(0).counters().rings;
    bells.ring(stale);
    bells.ring(!(1 << OWN_PLACE));
    assert_eq!(suite.link(0).counters().rings, rings, "a peer was rung that is gone");
    let mut newcomers = Vec::new();
    for _ in 0..3 {
        let node = suite.join();
        newcomers.push((node, place(&mut suite, 0, node).expect("places are free")));
    }
    for (node, place) in newcomers {
        let parker = suite.rig.parker(node).expect("every node has a parker");
        sleep_and_ring(&*parker, &bells, place);
    }
    // Bells outlive their link and are silent then.
    suite.leave(0);
    bells.ring(u64::MAX);
}

/// Publishes and rings thousands of times against arm, look and sleep, both by threads that drive
/// no node. No ring is lost.
pub fn no_bell_is_lost<R: LinkRig>(seed: u64) {
    const ROUNDS: u64 = 2500;
    let mut suite = Suite::<R>::new(2, seed);
    let Some(parker) = suite.rig.parker(1) else { return };
    let Some(place) = place(&mut suite, 0, 1) else { return };
    let bells = suite.link(0).bells();
    let news = Arc::new([AtomicWord::new(0), AtomicWord::new(0)]);
    let seen = Arc::clone(&news);
    let sleeper = std::thread::spawn(move || {
        for round in 1..=ROUNDS {
            while seen[0].load() < round {
                parker.arm(Interest::News);
                if seen[0].load() < round {
                    let start = Instant::now();
                    parker.sleep(nanos(FOR_EVER));
                    assert!(start.elapsed() < FOR_EVER, "slept on the news of round {round}");
                }
                parker.disarm();
            }
            seen[1].publish(round);
        }
    });
    for round in 1..=ROUNDS {
        news[0].publish(round);
        bells.ring(place);
        while news[1].load() < round && !sleeper.is_finished() {
            std::thread::yield_now();
        }
    }
    sleeper.join().expect("no bell is lost");
}
