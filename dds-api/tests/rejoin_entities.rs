//! Effects on writers, readers, loans, samples and calls when their participant falls out
//! and rejoins.
//!
//! To the others, a participant that runs no turn is a stopped one. A participant that runs turns
//! may also fall out if the machine delays it for long, and rejoins. The tests therefore do not
//! rely on the number of rejoins.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use dds_api::domain::PublicationBuiltinTopicData;
use dds_api::prelude::*;
use dds_api::qos::{Length, ResourceLimitsQosPolicy};
use dds_api::subscription::InstanceState;
use support::{CheckedSample, PATIENCE, SOON, TestDomain, until};

/// Maximum silence of a member for which the others wait.
const MEMBER_TIMEOUT: Duration = Duration::from_millis(150);
/// More samples than any memory here has room for.
const MANY: u64 = 600;
/// Timeout of a call that should return soon.
const BRIEF: Timeout = Timeout::millis(30);

#[derive(Clone, Copy)]
enum TopicKind {
    Ordinary,
    Atomic,
    AllKept,
    LastKept,
}

struct TestEndpoints {
    participant: DomainParticipant,
    writer: DataWriter<CheckedSample>,
    reader: DataReader<CheckedSample>,
}

impl TestEndpoints {
    fn new(config: ParticipantConfig, kind: TopicKind, blocking: Timeout) -> TestEndpoints {
        let participant = DomainParticipant::with_config(0, config).unwrap();
        let topic = participant.topic::<CheckedSample>("Marks");
        let topic = match kind {
            TopicKind::Ordinary => topic,
            TopicKind::Atomic => topic.atomic(),
            TopicKind::AllKept => topic.transient_local().keep_all(),
            TopicKind::LastKept => topic.transient_local(),
        };
        let topic = topic.create().unwrap();
        let reader = participant.reader(&topic).reliable_all().create().unwrap();
        let writer = participant.writer(&topic).memory(32 << 10).in_flight(128);
        let writer = writer.max_blocking_time(blocking).create().unwrap();
        TestEndpoints { participant, writer, reader }
    }

    /// Waits until this side is matched with a writer and a reader.
    fn meet(&self) {
        again(|| self.writer.wait_for_readers(2, SOON));
        again(|| self.reader.wait_for_writers(2, SOON));
    }

    /// Creates another writer, which has RESOURCE_LIMITS.
    fn limited_writer(&self, blocking: Timeout) -> DataWriter<CheckedSample> {
        let limits = ResourceLimitsQosPolicy { max_samples: Length::of(9), ..Default::default() };
        let writer =
            || self.participant.writer(self.writer.topic()).resource_limits(limits.clone());
        again(|| writer().max_blocking_time(blocking).create())
    }

    /// Takes until a sample of this number arrives.
    fn take_until(&self, number: u64) {
        until(&format!("{number} comes"), || {
            let sample = again(|| self.reader.take_next_data(BRIEF));
            sample.is_some_and(|sample| {
                sample.assert_whole();
                sample.number == number
            })
        });
    }
}

/// Repeats an action while its participant is rejoining, and returns the final result.
fn again<T>(mut act: impl FnMut() -> DdsResult<T>) -> T {
    let mut done = None;
    until("it is back", || match act() {
        Err(DdsError::Isolated(why)) => {
            assert!(why.contains("rejoin"), "{why}");
            false
        }
        result => {
            done = Some(result.unwrap());
            true
        }
    });
    done.unwrap()
}

/// Lock held by each test, because one counts the memory of the whole process.
static ALONE: Mutex<()> = Mutex::new(());

/// Thread that runs turns of a participant without a thread of its own, except while it
/// should sleep.
struct TurnThread {
    state: Arc<TurnThreadState>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct TurnThreadState {
    running: Mutex<()>,
    /// Set before the lock is taken, because the lock is not fair.
    sleeps: AtomicBool,
    is_over: AtomicBool,
}

impl TurnThread {
    fn of(participant: &DomainParticipant) -> TurnThread {
        let (state, participant) = (Arc::<TurnThreadState>::default(), participant.clone());
        let its = Arc::clone(&state);
        let thread = std::thread::spawn(move || {
            while !its.is_over.load(Ordering::Relaxed) {
                if its.sleeps.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_millis(1));
                } else {
                    let _running = its.running.lock().unwrap_or_else(PoisonError::into_inner);
                    participant.wait_until(Timeout::millis(2), || false).unwrap();
                }
            }
        });
        TurnThread { state, thread: Some(thread) }
    }

    /// Runs an action while the participant runs turns only in calls.
    fn asleep(&self, act: impl FnOnce()) {
        self.state.sleeps.store(true, Ordering::Relaxed);
        let running = self.state.running.lock().unwrap_or_else(PoisonError::into_inner);
        act();
        drop(running);
        self.state.sleeps.store(false, Ordering::Relaxed);
    }
}

impl Drop for TurnThread {
    fn drop(&mut self) {
        self.state.is_over.store(true, Ordering::Relaxed);
        let joined = self.thread.take().map(JoinHandle::join);
        assert!(joined.is_none_or(|it| it.is_ok()) || std::thread::panicking());
    }
}

/// Two participants. `busy` has threads of its own and waits for `idle` when its memory is full.
/// `idle` acts only in its calls, and when its turn thread runs.
struct RejoinSetup {
    /// Dropped before the participant whose turns it runs.
    turn_thread: TurnThread,
    busy: TestEndpoints,
    idle: TestEndpoints,
    domain: TestDomain,
    _alone: MutexGuard<'static, ()>,
}

impl RejoinSetup {
    fn new(kind: TopicKind, rejoins: bool) -> RejoinSetup {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let domain = TestDomain::new();
        let config = || ParticipantConfig::new().runtime_dir(domain.runtime_dir());
        let busy = TestEndpoints::new(config().member_timeout(MEMBER_TIMEOUT), kind, SOON);
        let config = config().member_timeout(MEMBER_TIMEOUT).caller_drives().rejoin(rejoins);
        let idle = TestEndpoints::new(config, kind, BRIEF);
        let turn_thread = TurnThread::of(&idle.participant);
        let setup = RejoinSetup { turn_thread, busy, idle, domain, _alone };
        setup.meet();
        setup
    }

    fn meet(&self) {
        self.busy.meet();
        self.idle.meet();
    }

    /// Makes the busy participant write until it has continued without the idle one.
    fn evict(&self) {
        let busy = &self.busy;
        self.turn_thread.asleep(|| {
            std::thread::scope(|scope| {
                let written = scope.spawn(|| {
                    (0..=MANY)
                        .for_each(|number| busy.writer.write(&CheckedSample::new(number)).unwrap());
                });
                busy.take_until(MANY);
                written.join().unwrap();
            });
        });
    }

    fn until_back(&self, times: u64) {
        until("it is back", || self.idle.participant.rejoins() >= times);
    }

    /// Checks that samples written on each side arrive at the other one.
    fn talk(&self, number: u64) {
        self.meet();
        again(|| self.idle.writer.write(&CheckedSample::new(number)));
        self.busy.take_until(number);
        self.busy.writer.write(&CheckedSample::new(number + 1)).unwrap();
        self.idle.take_until(number + 1);
    }

    fn end(self) {
        drop((self.turn_thread, self.idle, self.busy));
        self.domain.assert_empty();
    }

    /// Prevents all joining until the folder is restored.
    fn hide_folder(&self) -> HiddenFolder {
        let folder = self.domain.runtime_dir();
        let aside = folder.with_extension("aside");
        std::fs::rename(&folder, &aside).unwrap();
        std::fs::write(&folder, "no folder").unwrap();
        HiddenFolder { folder, aside }
    }
}

struct HiddenFolder {
    folder: PathBuf,
    aside: PathBuf,
}

impl HiddenFolder {
    fn show(self) {
        std::fs::remove_file(&self.folder).unwrap();
        std::fs::rename(&self.aside, &self.folder).unwrap();
    }
}

#[track_caller]
fn assert_rejoining<T>(result: DdsResult<T>) {
    let error = result.err().unwrap();
    assert!(matches!(&error, DdsError::Isolated(why) if why.contains("is rejoining")), "{error}");
}

#[test]
fn loans_are_published_and_samples_stay_readable_after_rejoin() {
    for kind in [TopicKind::Ordinary, TopicKind::Atomic] {
        let setup = RejoinSetup::new(kind, true);
        let RejoinSetup { busy, idle, .. } = &setup;
        let handle = idle.participant.instance_handle();
        (0..5).for_each(|number| busy.writer.write(&CheckedSample::new(number)).unwrap());
        busy.writer.wait_for_acknowledgments(SOON).unwrap();
        let held = idle.reader.take_next_data(SOON).unwrap().unwrap();
        assert_eq!((held.number, held.is_borrowed()), (0, true));
        let (mut published, abandoned) = (idle.writer.loan().unwrap(), idle.writer.loan().unwrap());
        *published = CheckedSample::new(4_711);
        setup.evict();
        setup.until_back(1);
        assert!(idle.reader.membership_changes() >= 1);
        setup.meet();
        until("both see both", || (idle.participant.view().1, busy.participant.view().1) == (2, 2));
        assert_ne!(idle.participant.instance_handle(), handle);
        published.publish().unwrap();
        busy.take_until(4_711);
        drop(abandoned);
        // The memory of the sample may have been reused; only reading it must be possible.
        let _ = held.check;
        drop(held);
        setup.talk(5_000);
        let discarded = idle.reader.discarded_samples();
        assert!(discarded >= 4, "{discarded} samples were never taken");
        setup.end();
    }
}

#[test]
fn calls_wait_for_rejoin_or_report_that_participant_is_rejoining() {
    for kind in [TopicKind::Ordinary, TopicKind::Atomic] {
        let setup = RejoinSetup::new(kind, true);
        let RejoinSetup { busy, idle, .. } = &setup;
        let limited = idle.limited_writer(BRIEF);
        let loan = idle.writer.loan().unwrap();
        let hidden = setup.hide_folder();
        setup.evict();
        until("it is isolated", || idle.participant.is_isolated());
        assert_eq!(idle.participant.rejoins() + 1, idle.reader.membership_changes());
        let start = Instant::now();
        assert_rejoining(idle.reader.take_next_data(BRIEF));
        assert_rejoining(idle.writer.write(&CheckedSample::new(0)));
        assert_rejoining(limited.write(&CheckedSample::new(0)));
        assert!(start.elapsed() >= Duration::from_millis(90), "each has waited");
        drop(limited);
        assert_rejoining(idle.reader.take_data(.., Timeout::NOW).map(|_| ()));
        assert_rejoining(idle.writer.loan().map(|_| ()));
        assert_rejoining(loan.publish());
        assert_rejoining(idle.writer.wait_for_readers(1, BRIEF));
        assert_rejoining(idle.reader.wait_for_writers(1, BRIEF));
        assert_rejoining(idle.writer.wait_for_acknowledgments(SOON));
        assert_rejoining(
            idle.participant.reader(idle.reader.topic()).reliable_all().create().map(|_| ()),
        );
        assert!(!idle.writer.has_room_for(&CheckedSample::new(0)) && !idle.reader.has_samples());
        let (is_over, has_written) = (&AtomicBool::new(false), &AtomicBool::new(false));
        std::thread::scope(|scope| {
            let (took, has_taken) = mpsc::channel();
            scope.spawn(move || {
                idle.reader.take_next_data(SOON).unwrap().unwrap().assert_whole();
                took.send(()).unwrap();
                // The busy participant may wait for this take, in its last write too.
                while !has_written.load(Ordering::Relaxed) {
                    drop(again(|| idle.reader.take_next_data(BRIEF)));
                }
            });
            let met = scope.spawn(|| idle.writer.wait_for_readers(2, SOON).unwrap());
            hidden.show();
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    busy.writer.write(&CheckedSample::new(1)).unwrap();
                    busy.reader.take_data(.., Timeout::millis(1)).unwrap().for_each(drop);
                }
                has_written.store(true, Ordering::Relaxed);
            });
            has_taken.recv().unwrap();
            met.join().unwrap();
            is_over.store(true, Ordering::Relaxed);
        });
        setup.until_back(1);
        setup.talk(6_000);
        setup.end();
    }
}

/// Number of the sample that the idle participant writes between actions of the busy one.
const OWN: u64 = 4_711;

/// Takes the given number of the busy participant's samples, and checks that no more arrive.
fn take_numbers(reader: &DataReader<CheckedSample>, count: usize) -> Vec<u64> {
    let mut numbers = Vec::new();
    until(&format!("{count} samples come"), || {
        // Later the participant may detect that it is not back yet.
        let samples = reader.take_data(.., BRIEF).into_iter().flatten();
        numbers.extend(samples.map(|sample| {
            sample.assert_whole();
            sample.number
        }));
        numbers.retain(|number| *number != OWN);
        numbers.len() >= count
    });
    while let Some(sample) = again(|| reader.take_next_data(BRIEF)) {
        assert_eq!(sample.number, OWN, "no more come");
    }
    numbers
}

#[test]
fn reader_of_keep_all_topic_receives_each_sample_once_across_rejoin() {
    let setup = RejoinSetup::new(TopicKind::AllKept, true);
    let RejoinSetup { busy, idle, .. } = &setup;
    (0..10).for_each(|number| busy.writer.write(&CheckedSample::new(number)).unwrap());
    let first = take_numbers(&idle.reader, 10);
    let volatile = || {
        let reader = again(|| {
            idle.participant.reader(idle.reader.topic()).reliable_all().volatile().create()
        });
        again(|| reader.wait_for_writers(2, SOON));
        reader
    };
    let (volatile, never) = (volatile(), volatile());
    (10..30).for_each(|number| busy.writer.write(&CheckedSample::new(number)).unwrap());
    again(|| {
        idle.writer.write(&CheckedSample::new(OWN))?;
        idle.writer.wait_for_acknowledgments(SOON)
    });
    busy.writer.wait_for_acknowledgments(SOON).unwrap();
    // Some samples come through a queue and stay whole in any case; some are never taken.
    let mut held = Vec::new();
    until("five come", || {
        held.extend(
            idle.reader.take_next_data(SOON).unwrap().filter(|sample| sample.number != OWN),
        );
        held.len() == 5
    });
    let mut taken = Vec::new();
    until("one comes", || {
        let sample = volatile.take_next_data(SOON).unwrap();
        taken.extend(sample.map(|sample| sample.number).filter(|number| *number != OWN));
        !taken.is_empty()
    });
    let mut expected: Vec<u64> = (0..30).collect();
    for round in 1..=2 {
        let hidden = setup.hide_folder();
        setup.evict();
        until("it is isolated", || idle.participant.is_isolated());
        // Samples in its queue must not be delivered now, and are not lost.
        (0..3).for_each(|_| assert_rejoining(idle.reader.take_next_data(BRIEF)));
        hidden.show();
        setup.until_back(round);
        again(|| idle.reader.wait_for_historical_data(SOON));
        expected.extend(0..=MANY);
    }
    held.iter().for_each(|sample| sample.assert_whole());
    let before = [first, held.iter().map(|sample| sample.number).collect()].concat();
    for (reader, before, expected) in [
        (&idle.reader, before, &expected[..]),
        (&volatile, taken, &expected[10..]),
        (&never, vec![], &expected[10..]),
    ] {
        let missing = expected.len() - before.len();
        let all = [before, take_numbers(reader, missing)].concat();
        assert!(all == expected, "{all:?}");
    }
    assert_eq!(idle.reader.discarded_samples(), 0);
    assert!(idle.reader.membership_changes() >= 2);
    drop((volatile, never));
    setup.talk(5_000);
    setup.end();
}

#[test]
fn reader_of_keep_last_topic_receives_kept_samples_after_rejoin() {
    let setup = RejoinSetup::new(TopicKind::LastKept, true);
    let RejoinSetup { busy, idle, .. } = &setup;
    for round in 0..3 {
        busy.writer.write(&CheckedSample::new(round)).unwrap();
        assert_eq!(take_numbers(&idle.reader, 1), [round]);
        setup.evict();
        setup.until_back(round + 1);
        assert_eq!(take_numbers(&idle.reader, 1), [MANY]);
    }
    setup.talk(5_000);
    setup.end();
}

/// Returns the megabytes of samples' memory that this process maps.
fn mapped() -> u64 {
    let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let mut is_ours = false;
    let mut kilobytes = 0;
    for line in maps.lines() {
        if line.contains("memfd:") || line.split(' ').next().is_some_and(|it| it.contains('-')) {
            is_ours = line.contains("memfd:");
        } else if let Some(size) = line.strip_prefix("Size:").filter(|_| is_ours) {
            kilobytes += size.trim().trim_end_matches(" kB").parse::<u64>().unwrap();
        }
    }
    kilobytes >> 10
}

#[test]
fn participant_rejoins_repeatedly_without_leaking_memory_or_files() {
    for kind in [TopicKind::Ordinary, TopicKind::Atomic] {
        let setup = RejoinSetup::new(kind, true);
        let mut mappings = Vec::new();
        for round in 1..=3 {
            setup.evict();
            setup.until_back(round);
            setup.talk(round * 1_000);
            mappings.push(mapped());
        }
        // Some memory of the first membership stays, none of all others. A new membership maps the
        // same amount again.
        until(&format!("{mappings:?} MB are as few as before"), || mapped() <= mappings[1]);
        assert!(setup.idle.reader.membership_changes() >= 3);
        setup.end();
    }
}

/// Listeners and what is ignored pass into the next life of a participant (I-185).
#[test]
fn builtin_readers_and_ignored_writers_persist_across_rejoin() {
    let setup = RejoinSetup::new(TopicKind::Ordinary, true);
    let RejoinSetup { busy, idle, .. } = &setup;
    let bad = busy.participant.writer(busy.writer.topic()).create().unwrap();
    until("it is matched", || idle.reader.matched_publications().contains(&bad.instance_handle()));
    again(|| idle.participant.ignore_publication(bad.instance_handle()));
    // Ignored by their instances: those of an ended membership and those of this one.
    let of = |side: &TestEndpoints| {
        side.participant.builtin_reader::<PublicationBuiltinTopicData>().unwrap()
    };
    let (of_busy, of_idle) = (of(busy), of(idle));
    let first = idle.writer.instance_handle();
    let seen = |reader: &DataReader<PublicationBuiltinTopicData>| {
        let all = again(|| reader.read(.., Timeout::NOW)).into_iter();
        all.map(|it| (it.key_value().key, it.info().instance_state)).collect::<Vec<_>>()
    };
    assert_eq!(seen(&of_busy), [(first, InstanceState::Alive)]);
    assert_eq!(seen(&of_idle), [(busy.writer.instance_handle(), InstanceState::Alive)]);
    setup.evict();
    // Entities that are created and deleted while it is away: it must detect them by itself.
    let later = busy.participant.writer(busy.writer.topic()).create().unwrap();
    setup.until_back(1);
    setup.meet();
    until("its old writer is disposed, and the new one there", || {
        let seen = seen(&of_busy);
        seen.contains(&(first, InstanceState::NotAliveDisposed))
            && seen.contains(&(idle.writer.instance_handle(), InstanceState::Alive))
    });
    until("it knows the new one", || {
        seen(&of_idle).contains(&(later.instance_handle(), InstanceState::Alive))
    });
    let all = seen(&of_idle);
    assert!(all.contains(&(busy.writer.instance_handle(), InstanceState::Alive)), "{all:?}");
    assert_eq!(all.len(), 2, "{all:?}");
    assert!(!idle.reader.matched_publications().contains(&bad.instance_handle()));
    drop(later);
    until("it is gone", || seen(&of_idle).iter().any(|it| it.1 == InstanceState::NotAliveDisposed));
    drop((bad, of_busy, of_idle));
    setup.end();
}

#[test]
fn participant_deleted_while_isolated_does_not_rejoin() {
    let setup = RejoinSetup::new(TopicKind::Atomic, true);
    let hidden = setup.hide_folder();
    setup.evict();
    let RejoinSetup { busy, idle, domain, turn_thread, _alone } = setup;
    until("it is isolated", || idle.participant.is_isolated());
    drop(turn_thread);
    let start = Instant::now();
    drop(idle);
    assert!(start.elapsed() < PATIENCE / 2, "{:?}", start.elapsed());
    hidden.show();
    std::thread::sleep(3 * MEMBER_TIMEOUT);
    assert_eq!(busy.participant.view().1, 1);
    drop(busy);
    domain.assert_empty();
}

#[test]
fn participant_without_rejoin_setting_stays_isolated() {
    let setup = RejoinSetup::new(TopicKind::Ordinary, false);
    let RejoinSetup { idle, .. } = &setup;
    let limited = idle.limited_writer(SOON);
    setup.evict();
    until("it is isolated", || idle.participant.is_isolated());
    std::thread::sleep(3 * MEMBER_TIMEOUT);
    assert!(idle.participant.is_isolated() && idle.participant.rejoins() == 0);
    assert_eq!(idle.reader.membership_changes(), 1);
    let start = Instant::now();
    for error in [
        idle.reader.take_next_data(SOON).map(|_| ()).unwrap_err(),
        idle.writer.write(&CheckedSample::new(0)).unwrap_err(),
        limited.write(&CheckedSample::new(0)).unwrap_err(),
        idle.writer.wait_for_readers(1, SOON).unwrap_err(),
    ] {
        assert!(matches!(&error, DdsError::Isolated(why) if why.contains("join anew")), "{error}");
    }
    assert!(start.elapsed() < PATIENCE / 2, "nobody waits for what never comes");
    drop(limited);
    setup.end();
}
