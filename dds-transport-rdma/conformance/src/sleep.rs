//! Sleeping and ringing, for links that have a parker. Real threads, so real time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use derecho_core::ids::RegionId;
use derecho_core::link::{Interest, Link, Parker, WordRange};
use derecho_core::memory::{OwnRegion, Replica};

use crate::{LinkRig, Suite};

/// Longer than any wake-up takes; a sleep of this length was not woken.
pub(crate) const FOR_EVER: Duration = Duration::from_secs(5);
const NEWS: RegionId = RegionId(8);
const HEARD: RegionId = RegionId(9);

pub(crate) fn nanos(duration: Duration) -> Option<u64> {
    u64::try_from(duration.as_nanos()).ok()
}

/// A sleeper wakes when it is rung, and otherwise sleeps on.
pub fn a_ring_wakes_a_sleeper<R: LinkRig>(seed: u64) {
    let mut suite = Suite::<R>::new(2, seed);
    let Some(parker) = suite.rig.parker(1) else { return };
    let start = Instant::now();
    parker.arm(Interest::Hints);
    parker.sleep(nanos(Duration::from_millis(20)));
    parker.disarm();
    assert!(start.elapsed() >= Duration::from_millis(19), "it woke and nobody had rung");
    // No node sleeps, so none is rung.
    let peer = suite.peer(0, 1);
    let rings = suite.link(0).counters().rings;
    suite.link(0).ring(&[peer], &[]);
    assert_eq!(suite.link(0).counters().rings, rings);
    parker.arm(Interest::Hints);
    suite.link(0).ring(&[peer], &[]);
    assert_eq!(suite.link(0).counters().rings, rings + 1);
    let start = Instant::now();
    parker.sleep(nanos(FOR_EVER));
    parker.disarm();
    assert!(start.elapsed() < FOR_EVER, "a ring before the sleep was lost");
    // The node's own threads wake it as well.
    parker.arm(Interest::Hints);
    parker.wake();
    let start = Instant::now();
    parker.sleep(nanos(FOR_EVER));
    parker.disarm();
    assert!(start.elapsed() < FOR_EVER, "the node's own wake-up was lost");
}

/// A sleeper for news ignores a hint; a sleeper for hints is woken by both.
pub fn a_sleeper_is_woken_for_what_it_wants<R: LinkRig>(seed: u64) {
    let mut suite = Suite::<R>::new(2, seed);
    let Some(parker) = suite.rig.parker(1) else { return };
    let peer = [suite.peer(0, 1)];
    for (interest, news, woken) in [
        (Interest::News, false, false),
        (Interest::News, true, true),
        (Interest::Hints, false, true),
        (Interest::Hints, true, true),
    ] {
        let before = suite.link(0).counters().rings;
        parker.arm(interest);
        if news {
            suite.link(0).ring(&peer, &[]);
        } else {
            suite.link(0).ring(&[], &peer);
        }
        let rings = suite.link(0).counters().rings - before;
        assert_eq!(rings, u64::from(woken), "asleep for {interest:?}, rung for news: {news}");
        let start = Instant::now();
        parker.sleep(nanos(if woken { FOR_EVER } else { Duration::from_millis(20) }));
        parker.disarm();
        if woken {
            assert!(start.elapsed() < FOR_EVER, "a ring for {interest:?} was lost");
        } else {
            assert!(start.elapsed() >= Duration::from_millis(19), "a hint has woken it");
        }
    }
}

/// Publishes and rings thousands of times against arm, look and sleep. No wake-up is lost.
pub fn no_wake_up_is_lost<R: LinkRig>(seed: u64) {
    let mut suite = Suite::<R>::new(2, seed);
    if !R::PARALLEL {
        return;
    }
    let Some(parker) = suite.rig.parker(1) else { return };
    let news = suite.open(0, NEWS, 8);
    let heard = suite.open(1, HEARD, 8);
    let seen = suite.replica(1, 0, NEWS).expect("it is open");
    let echo = suite.replica(0, 1, HEARD).expect("it is open");
    let peer = suite.peer(0, 1);
    let rounds = 5000;
    let sleeper = std::thread::spawn(move || sleep_for_news(&parker, &seen, &heard, rounds));
    for round in 1..=rounds {
        news.word(0).publish(round);
        suite.write(0, 1, NEWS, WordRange::new(0, 1));
        suite.link(0).ring(&[peer], &[]);
        let start = Instant::now();
        while echo.load(0) < round {
            assert!(start.elapsed() < FOR_EVER, "round {round} was never heard");
            std::thread::yield_now();
        }
    }
    sleeper.join().expect("no wake-up is lost");
}

fn sleep_for_news(parker: &Arc<dyn Parker>, seen: &Replica, heard: &OwnRegion, rounds: u64) {
    for round in 1..=rounds {
        while seen.load(0) < round {
            parker.arm(Interest::Hints);
            if seen.load(0) < round {
                let start = Instant::now();
                parker.sleep(nanos(FOR_EVER));
                assert!(start.elapsed() < FOR_EVER, "slept on the news of round {round}");
            }
            parker.disarm();
        }
        heard.word(0).publish(round);
    }
}

/// Events of the link itself wake the node, too.
pub fn an_event_wakes_a_sleeper<R: LinkRig>(seed: u64) {
    let mut suite = Suite::<R>::new(2, seed);
    if !R::PARALLEL {
        // Nothing would be under way while the node sleeps.
        return;
    }
    let Some(parker) = suite.rig.parker(1) else { return };
    let peer = suite.peer(0, 1);
    for round in 0..20 {
        let before = suite.notes(1, 0).len();
        suite.link(0).note(peer, b"wake up").expect("the peer is up");
        let start = Instant::now();
        while suite.notes(1, 0).len() == before {
            parker.arm(Interest::Hints);
            suite.poll(1);
            if suite.notes(1, 0).len() == before {
                parker.sleep(nanos(FOR_EVER));
            }
            parker.disarm();
            suite.poll(1);
            assert!(start.elapsed() < FOR_EVER, "the note of round {round} woke nobody");
        }
    }
}
