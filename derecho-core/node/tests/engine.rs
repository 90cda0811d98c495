//! Tests of the engine with a machine that only counts, over a link without peers.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use derecho_core::ids::{NodeId, Peer, RegionId, Time};
use derecho_core::link::{
    Interest, Link, LinkCounters, LinkError, LinkEvent, Parker, ReadId, WordRange,
};
use derecho_core::machine::{Effects, Machine};
use derecho_core::memory::{Backing, OwnRegion, Replica};
use derecho_node::{Engine, Pace, TurnListener, WaitOutcome, clock};

/// Link without peers that counts the notes it is given.
#[derive(Default)]
struct NoPeers {
    notes: Arc<AtomicU64>,
}

impl Link for NoPeers {
    fn node(&self) -> NodeId {
        NodeId(1)
    }
    fn open(&mut self, _region: RegionId, words: usize) -> Result<OwnRegion, LinkError> {
        Ok(OwnRegion::heap(words))
    }
    fn close(&mut self, _region: RegionId) -> Result<(), LinkError> {
        Ok(())
    }
    fn write(&mut self, peer: Peer, _: RegionId, _: WordRange) -> Result<(), LinkError> {
        Err(LinkError::PeerGone(peer))
    }
    fn read(&mut self, peer: Peer, _: RegionId, _: WordRange) -> Result<ReadId, LinkError> {
        Err(LinkError::PeerGone(peer))
    }
    fn note(&mut self, peer: Peer, _bytes: &[u8]) -> Result<(), LinkError> {
        self.notes.fetch_add(1, Ordering::SeqCst);
        Err(LinkError::PeerGone(peer))
    }
    fn ring(&mut self, _news: &[Peer], _hints: &[Peer]) {}
    fn poll(&mut self, _sink: &mut dyn FnMut(LinkEvent)) -> usize {
        0
    }
    fn counters(&self) -> LinkCounters {
        LinkCounters::default()
    }
}

/// Parker that sleeps on a condition variable; the flag is the `parked` word.
#[derive(Default)]
struct CondvarParker {
    parked: AtomicBool,
    /// Interest of the last sleep.
    interest: Mutex<Option<Interest>>,
    rung: Mutex<bool>,
    heard: Condvar,
}

impl Parker for CondvarParker {
    fn arm(&self, interest: Interest) {
        *self.interest.lock().unwrap() = Some(interest);
        self.parked.store(true, Ordering::SeqCst);
    }
    fn sleep(&self, limit: Option<u64>) {
        let rung = self.rung.lock().unwrap();
        let limit = Duration::from_nanos(limit.unwrap_or(u64::MAX).min(60_000_000_000));
        *self.heard.wait_timeout_while(rung, limit, |rung| !*rung).unwrap().0 = false;
    }
    fn disarm(&self) {
        self.parked.store(false, Ordering::SeqCst);
    }
    fn wake(&self) {
        if self.parked.load(Ordering::SeqCst) {
            *self.rung.lock().unwrap() = true;
            self.heard.notify_all();
        }
    }
}

/// Moves `given` to `taken`, and turns at `due`.
#[derive(Clone, Default)]
struct TestMachine {
    given: Arc<AtomicU64>,
    taken: Arc<AtomicU64>,
    due: Arc<AtomicU64>,
    rang: Arc<AtomicBool>,
}

impl Machine for TestMachine {
    fn handle(&mut self, _event: LinkEvent, _effects: &mut Effects) {}

    fn turn(&mut self, now: Time, _effects: &mut Effects) -> usize {
        let due = self.due.load(Ordering::SeqCst);
        if due != 0 && now.0 >= due {
            self.due.store(0, Ordering::SeqCst);
            self.rang.store(true, Ordering::SeqCst);
        }
        let given = self.given.load(Ordering::SeqCst);
        let taken = self.taken.swap(given, Ordering::SeqCst);
        (given - taken) as usize
    }

    fn interest(&self) -> Interest {
        Interest::News
    }

    fn wants_turn_at(&self) -> Option<Time> {
        let due = self.due.load(Ordering::SeqCst);
        (due != 0).then_some(Time(due))
    }
}

fn start(with_thread: bool) -> (Engine<TestMachine, NoPeers>, TestMachine) {
    let test_machine = TestMachine::default();
    let make = if with_thread { Engine::start } else { Engine::without_thread };
    (
        make(
            test_machine.clone(),
            NoPeers::default(),
            Arc::new(CondvarParker::default()),
            Pace::default(),
        ),
        test_machine,
    )
}

fn soon() -> Option<Time> {
    Some(clock::now().after(20_000_000_000))
}

/// Waits on the calling thread without ever driving.
fn watch(what: &str, condition: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !condition() {
        assert!(Instant::now() < end, "{what}");
        std::thread::yield_now();
    }
}

#[test]
fn every_poke_is_followed_by_turn_with_or_without_engine_thread() {
    for with_thread in [true, false] {
        let (engine, test_machine) = start(with_thread);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..20_000 {
                        test_machine.given.fetch_add(1, Ordering::SeqCst);
                        engine.poke();
                    }
                });
            }
        });
        // I-14: without any further call the last commits are processed, by the thread or by the
        // pokes themselves.
        watch("a knock was not answered", || test_machine.taken.load(Ordering::SeqCst) == 80_000);
        engine.stop();
    }
}

/// Memory of a peer. Records each range that becomes private, with the number of notes sent before.
struct RecordingMemory {
    region: OwnRegion,
    notes: Arc<AtomicU64>,
    private: Mutex<Vec<(Range<usize>, u64)>>,
}

impl Backing for RecordingMemory {
    fn privatize(&self, bytes: Range<usize>) {
        self.private.lock().unwrap().push((bytes, self.notes.load(Ordering::SeqCst)));
    }
}

#[test]
fn memory_becomes_private_before_any_post() {
    let (engine, _test_machine) = start(false);
    let notes = engine.act(|_, link, _| Arc::clone(&link.notes));
    let (region, private) = (OwnRegion::heap(8), Mutex::default());
    let base = region.bytes(0, 64).unwrap().cast();
    let memory = Arc::new(RecordingMemory { region, notes: Arc::clone(&notes), private });
    assert_eq!(memory.region.words(), 8);
    // SAFETY: the words are those of the region, which the backing keeps.
    let replica = unsafe { Replica::from_raw(base, 8, Arc::clone(&memory) as Arc<dyn Backing>) };
    engine.act(|_, _, effects| {
        effects.note(Peer(0), vec![1]);
        effects.privatize(replica.clone(), 16..32);
    });
    assert_eq!(*memory.private.lock().unwrap(), [(16..32, 0)]);
    assert_eq!(notes.load(Ordering::SeqCst), 1);
}

#[test]
fn a_lone_poke_wakes_the_sleeping_thread() {
    let (engine, test_machine) = start(true);
    for round in 1..=50 {
        let parks = engine.counters().parks();
        watch("the thread sleeps when idle", || engine.counters().parks() > parks || round > 1);
        test_machine.given.fetch_add(1, Ordering::SeqCst);
        engine.poke();
        watch("the thread was not woken", || test_machine.taken.load(Ordering::SeqCst) == round);
    }
    engine.stop();
}

#[test]
fn an_idle_engine_stops_turning() {
    let (engine, _test_machine) = start(true);
    watch("the thread sleeps", || engine.counters().parks() > 0);
    // The engine may be on its way into that first sleep; after that nothing wakes it.
    let turns = loop {
        let turns = engine.counters().turns();
        std::thread::sleep(Duration::from_millis(20));
        if engine.counters().turns() == turns {
            break turns;
        }
    };
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(engine.counters().turns(), turns, "an engine without news does not turn");
    engine.stop();
}

#[test]
fn waiting_threads_share_news_of_one_driver() {
    let (engine, test_machine) = start(true);
    std::thread::scope(|scope| {
        for target in 1..=6 {
            let (engine, test_machine) = (&engine, &test_machine);
            scope.spawn(move || {
                let ready = || test_machine.taken.load(Ordering::SeqCst) >= target * 100;
                assert_eq!(engine.wait(soon(), ready), WaitOutcome::Ready);
            });
        }
        scope.spawn(|| {
            for _ in 0..600 {
                test_machine.given.fetch_add(1, Ordering::SeqCst);
                engine.poke();
                std::thread::yield_now();
            }
        });
    });
    engine.stop();
}

#[test]
fn a_wait_ends_at_its_deadline_and_when_the_engine_stops() {
    let (engine, _test_machine) = start(true);
    let deadline = clock::now().after(30_000_000);
    assert_eq!(engine.wait(Some(deadline), || false), WaitOutcome::TimedOut);
    assert!(clock::now() >= deadline);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| engine.wait(None, || false));
        watch("the wait sleeps", || engine.counters().parks() > 0);
        engine.stop();
        assert_eq!(waiting.join().unwrap(), WaitOutcome::Stopped);
    });
}

#[test]
fn action_interrupts_driver_and_is_followed_by_turn() {
    let (engine, test_machine) = start(true);
    std::thread::scope(|scope| {
        let waiting = scope
            .spawn(|| engine.wait(soon(), || test_machine.taken.load(Ordering::SeqCst) >= 1000));
        for n in 1..=1000 {
            let seen = engine.act(|machine, _, _| machine.given.fetch_add(1, Ordering::SeqCst) + 1);
            assert_eq!(seen, n);
            assert!(test_machine.taken.load(Ordering::SeqCst) >= n);
        }
        assert_eq!(waiting.join().unwrap(), WaitOutcome::Ready);
    });
    engine.stop();
}

#[test]
fn machine_gets_requested_turn_while_all_threads_sleep() {
    let (engine, test_machine) = start(true);
    engine.act(|machine, _, _| {
        machine.due.store(clock::now().after(30_000_000).0, Ordering::SeqCst);
    });
    watch("the alarm", || test_machine.rang.load(Ordering::SeqCst));
    engine.stop();
}

/// Parker for which another thread shows news at the very moment at which the engine announces its
/// sleep, and therefore does not ring.
#[derive(Default)]
struct LateNewsParker {
    shown: Arc<AtomicBool>,
    slept: Arc<AtomicBool>,
}

impl Parker for LateNewsParker {
    fn arm(&self, _interest: Interest) {
        self.shown.store(true, Ordering::SeqCst);
    }
    fn sleep(&self, _limit: Option<u64>) {
        self.slept.store(true, Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(10));
    }
    fn disarm(&self) {}
    fn wake(&self) {}
}

#[test]
fn wait_condition_is_checked_between_announcement_and_sleep() {
    let parker = LateNewsParker::default();
    let (shown, slept) = (Arc::clone(&parker.shown), Arc::clone(&parker.slept));
    // Its turns do nothing, like turns that find an acknowledgement which frees nothing.
    let engine = Engine::without_thread(
        TestMachine::default(),
        NoPeers::default(),
        Arc::new(parker),
        Pace::default(),
    );
    let waited = engine.wait(soon(), || shown.load(Ordering::SeqCst));
    assert_eq!(waited, WaitOutcome::Ready);
    assert!(!slept.load(Ordering::SeqCst), "it slept on what it waited for");
}

/// Counts its calls.
#[derive(Default)]
struct CountingListener(AtomicU64);

impl TurnListener for CountingListener {
    fn on_turn(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn listener_is_told_of_busy_turns_and_not_kept_alive() {
    let (engine, test_machine) = start(true);
    let listener = Arc::new(CountingListener::default());
    let hearer: Arc<dyn TurnListener> = Arc::clone(&listener) as _;
    engine.add_listener(&hearer);
    engine.poke();
    assert_eq!(listener.0.load(Ordering::SeqCst), 0, "nothing was done");
    test_machine.given.fetch_add(1, Ordering::SeqCst);
    engine.poke();
    watch("it was not told", || listener.0.load(Ordering::SeqCst) == 1);
    engine.stop();
    assert_eq!(listener.0.load(Ordering::SeqCst), 2, "the end is news");
    drop(hearer);
    let weak = Arc::downgrade(&listener);
    drop(listener);
    assert!(weak.upgrade().is_none(), "nobody keeps it");
}

#[test]
fn nudge_makes_waiting_threads_check_their_condition_again() {
    for with_thread in [true, false] {
        let (engine, _) = start(with_thread);
        let flag = AtomicBool::new(false);
        let ready = || flag.load(Ordering::SeqCst);
        std::thread::scope(|scope| {
            // One thread drives, and sleeps with the role; the other waits for the driver's turns.
            let both = [(); 2].map(|()| scope.spawn(|| engine.wait(soon(), ready)));
            watch("nobody sleeps", || engine.counters().parks() > 0);
            let start = Instant::now();
            flag.store(true, Ordering::SeqCst);
            engine.nudge();
            for waiting in both {
                assert_eq!(waiting.join().unwrap(), WaitOutcome::Ready);
            }
            assert!(start.elapsed() < Duration::from_secs(10), "by the nudge, not by the deadline");
        });
    }
}

/// The thread that drives sleeps for news alone, until another thread waits for its turns: that one
/// may wait for room, which hints bring.
#[test]
fn sleeper_for_news_hears_hints_while_another_thread_waits() {
    let parker = Arc::new(CondvarParker::default());
    let (test_machine, link) = (TestMachine::default(), NoPeers::default());
    let engine =
        Engine::without_thread(test_machine, link, Arc::clone(&parker) as _, Pace::default());
    let flag = AtomicBool::new(false);
    let ready = || flag.load(Ordering::SeqCst);
    let sleeps_for = |interest| {
        watch("the sleeper has another interest", || {
            *parker.interest.lock().unwrap() == Some(interest)
        });
    };
    std::thread::scope(|scope| {
        for _ in 0..20 {
            flag.store(false, Ordering::SeqCst);
            let news = scope.spawn(|| engine.wait_for(Interest::News, soon(), ready));
            sleeps_for(Interest::News);
            let hints = scope.spawn(|| engine.wait(soon(), ready));
            sleeps_for(Interest::Hints);
            flag.store(true, Ordering::SeqCst);
            engine.nudge();
            for waiting in [news, hints] {
                assert_eq!(waiting.join().unwrap(), WaitOutcome::Ready);
            }
        }
    });
}

#[test]
fn engine_thread_rarely_wakes_while_application_drives_all_the_time() {
    let (engine, _) = start(true);
    // Other programs may take the processor from this thread for a while.
    let few = (0..20).any(|_| {
        let (before, start) = (engine.counters().ticks(), Instant::now());
        while start.elapsed() < Duration::from_millis(300) {
            engine.poke();
        }
        engine.counters().ticks() - before < 120
    });
    assert!(few, "the thread ticks as often as beside an application that drives now and then");
    engine.stop();
}

/// A writer with a latency budget, for example, has promised its peers a bell at a certain time,
/// and the application that drives all the time may stop before.
#[test]
fn engine_thread_ticks_often_until_the_machine_wants_its_turn() {
    let (engine, _) = start(true);
    let drive = |time| {
        let (before, start) = (engine.counters().ticks(), Instant::now());
        while start.elapsed() < Duration::from_millis(time) {
            engine.poke();
        }
        engine.counters().ticks() - before
    };
    // Other programs may take the processor from this thread for a while.
    let often = (0..20).any(|_| {
        drive(100);
        engine.poke_until(clock::now(), clock::now().after(40_000_000));
        drive(40) >= 24
    });
    assert!(often, "the thread ticks as rarely as if nothing were promised");
    engine.stop();
}

/// A wait's condition may take a lock whose owner, another thread, runs a turn.
#[test]
fn wait_does_not_deadlock_on_mutex_of_thread_that_runs_a_turn() {
    let (engine, test_machine) = start(true);
    let (cache, is_over) = (Arc::new(Mutex::new(0_u64)), Arc::new(AtomicBool::new(false)));
    let mut threads = Vec::new();
    for _ in 0..3 {
        let (engine, cache, is_over) = (engine.clone(), Arc::clone(&cache), Arc::clone(&is_over));
        threads.push(std::thread::spawn(move || {
            while !is_over.load(Ordering::SeqCst) {
                let before = *cache.lock().unwrap();
                engine.wait(soon(), || {
                    *cache.lock().unwrap() != before || is_over.load(Ordering::SeqCst)
                });
            }
        }));
    }
    for _ in 0..2 {
        let (engine, test_machine) = (engine.clone(), test_machine.clone());
        let (cache, is_over) = (Arc::clone(&cache), Arc::clone(&is_over));
        threads.push(std::thread::spawn(move || {
            while !is_over.load(Ordering::SeqCst) {
                let mut cache = cache.lock().unwrap();
                test_machine.given.fetch_add(1, Ordering::SeqCst);
                engine.poke();
                *cache += 1;
            }
        }));
    }
    std::thread::sleep(Duration::from_secs(2));
    is_over.store(true, Ordering::SeqCst);
    // Deadlocked threads are not joined.
    watch("all threads end", || threads.iter().all(std::thread::JoinHandle::is_finished));
    engine.stop();
}

/// A handle may be dropped while a condition is checking the handle's object.
#[test]
fn action_requested_by_condition_check_runs_after_the_check() {
    let (engine, test_machine) = start(true);
    let mut asked = false;
    let ready = || {
        if !std::mem::replace(&mut asked, true) {
            engine.act_soon(|machine, _, _| _ = machine.given.fetch_add(1, Ordering::SeqCst));
        }
        test_machine.taken.load(Ordering::SeqCst) > 0
    };
    assert_eq!(engine.wait(soon(), ready), WaitOutcome::Ready);
    engine.act_soon(|machine, _, _| _ = machine.given.fetch_add(1, Ordering::SeqCst));
    assert_eq!(test_machine.given.load(Ordering::SeqCst), 2, "done at once where nobody looks");
    engine.stop();
}

/// A thread drives for long, so the engine's thread waits to be recalled; then that thread panics.
#[test]
fn engine_continues_after_panic_in_wait_condition() {
    let (engine, test_machine) = start(true);
    let panics = Arc::new(AtomicBool::new(false));
    let waiting = std::thread::spawn({
        let (engine, panics) = (engine.clone(), Arc::clone(&panics));
        move || {
            engine.wait(soon(), || {
                if panics.load(Ordering::SeqCst) { panic!("as planned") } else { false }
            })
        }
    });
    watch("the thread sleeps with the role", || engine.counters().parks() > 0);
    std::thread::sleep(Duration::from_millis(50));
    panics.store(true, Ordering::SeqCst);
    engine.nudge();
    assert!(waiting.join().is_err());
    // No application thread drives any more.
    test_machine.given.fetch_add(1, Ordering::SeqCst);
    test_machine.due.store(clock::now().0 + 1_000_000, Ordering::SeqCst);
    // The engine's thread may sleep already, and then does not know the new time.
    engine.nudge();
    watch("a turn", || test_machine.taken.load(Ordering::SeqCst) == 1);
    engine.stop();
}
