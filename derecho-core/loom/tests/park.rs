//! Parking: of a sleeper and a writer with news, at least one always sees the other (I-13).
//!
//! These models have fences on both sides. loom cannot run a barrier that the kernel makes other
//! threads pass; the shared-memory link tests that pair with real processes.
#![cfg(loom)]

use derecho_core::link::Interest;
use derecho_core::memory::AtomicWord;
use derecho_core::park::{announce, asleep, before_looking, retract};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

struct Node {
    parked: AtomicWord,
    news: [AtomicWord; 2],
}

impl Node {
    fn new() -> Arc<Node> {
        Arc::new(Node {
            parked: AtomicWord::new(0),
            news: [AtomicWord::new(0), AtomicWord::new(0)],
        })
    }
}

/// Publishes a writer's news; returns whether the writer rings.
fn tell(node: &Node, writer: usize) -> bool {
    node.news[writer].publish(1);
    before_looking();
    asleep(node.parked.peek())
}

#[test]
fn the_sleeper_finds_the_news_or_the_writer_rings() {
    loom::model(|| {
        let node = Node::new();
        let writer = thread::spawn({
            let node = node.clone();
            move || tell(&node, 0)
        });
        announce(&node.parked, Interest::News);
        let found = node.news[0].load() == 1;
        let rang = writer.join().unwrap();
        assert!(found || rang, "a wake-up is lost");
    });
}

#[test]
fn sleeper_misses_neither_of_two_writers() {
    loom::model(|| {
        let node = Node::new();
        let writers = [0, 1].map(|writer| {
            let node = node.clone();
            thread::spawn(move || tell(&node, writer))
        });
        announce(&node.parked, Interest::News);
        let found = [0, 1].map(|writer| node.news[writer].load() == 1);
        for (found, writer) in found.into_iter().zip(writers) {
            let rang = writer.join().unwrap();
            assert!(found || rang, "a wake-up is lost");
        }
    });
}

/// As above, with a bell on which a thread really waits: a lost wake-up would be a deadlock.
#[test]
fn sleeper_wakes_on_bell_and_sleeps_again() {
    const ROUNDS: u64 = 2;
    loom::model(|| {
        let node = Node::new();
        let bell = Arc::new((Mutex::new(false), Condvar::new()));
        let writer = thread::spawn({
            let (node, bell) = (node.clone(), bell.clone());
            move || {
                for round in 1..=ROUNDS {
                    node.news[0].publish(round);
                    before_looking();
                    if asleep(node.parked.peek()) {
                        *bell.0.lock().unwrap() = true;
                        bell.1.notify_one();
                    }
                }
            }
        });
        while node.news[0].load() < ROUNDS {
            announce(&node.parked, Interest::News);
            if node.news[0].load() < ROUNDS {
                let mut rung = bell.0.lock().unwrap();
                while !*rung {
                    rung = bell.1.wait(rung).unwrap();
                }
                *rung = false;
            }
            retract(&node.parked);
        }
        writer.join().unwrap();
    });
}

/// Proof that the model can fail: without its fence the writer may miss the sleeper.
#[test]
#[should_panic(expected = "a wake-up is lost")]
fn model_detects_writer_without_fence() {
    loom::model(|| {
        let node = Node::new();
        let writer = thread::spawn({
            let node = node.clone();
            move || {
                node.news[0].publish(1);
                asleep(node.parked.peek())
            }
        });
        announce(&node.parked, Interest::News);
        let found = node.news[0].load() == 1;
        assert!(found || writer.join().unwrap(), "a wake-up is lost");
    });
}

/// Without its fence the sleeper may likewise miss the news.
#[test]
#[should_panic(expected = "a wake-up is lost")]
fn model_detects_sleeper_without_fence() {
    loom::model(|| {
        let node = Node::new();
        let writer = thread::spawn({
            let node = node.clone();
            move || tell(&node, 0)
        });
        node.parked.put(1);
        let found = node.news[0].load() == 1;
        assert!(found || writer.join().unwrap(), "a wake-up is lost");
    });
}
