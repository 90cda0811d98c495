//! What becomes of writers, readers, loans, samples and calls when their participant falls out and comes back.
//!
//! A participant that never turns is one that was stopped, as far as the others can tell.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use dds_api::prelude::*;
use support::{Mark, Meeting, SOON, until};

/// A member for which the others wait may be silent for so long.
const MEMBER_TIMEOUT: Duration = Duration::from_millis(100);
/// More samples than any memory here has room for.
const MANY: u64 = 600;
/// A call that is not to wait for long.
const BRIEF: Timeout = Timeout::millis(30);

#[derive(Clone, Copy)]
enum Kind {
    Ordinary,
    Atomic,
    AllKept,
    LastKept,
}

struct Side {
    participant: DomainParticipant,
    writer: DataWriter<Mark>,
    reader: DataReader<Mark>,
}

impl Side {
    fn new(config: ParticipantConfig, kind: Kind, blocking: Timeout) -> Side {
        let participant = DomainParticipant::with_config(0, config).unwrap();
        let topic = participant.topic::<Mark>("Marks");
        let topic = match kind {
            Kind::Ordinary => topic,
            Kind::Atomic => topic.atomic(),
            Kind::AllKept => topic.transient_local().keep_all(),
            Kind::LastKept => topic.transient_local(),
        };
        let topic = topic.create().unwrap();
        let reader = participant.reader(&topic).create().unwrap();
        let writer = participant.writer(&topic).memory(32 << 10).in_flight(128);
        let writer = writer.max_blocking_time(blocking).create().unwrap();
        Side { participant, writer, reader }
    }

    /// Both sides are there, for this one.
    fn meet(&self) {
        self.writer.wait_for_readers(2, SOON).unwrap();
        self.reader.wait_for_writers(2, SOON).unwrap();
    }

    /// Takes until a sample of this number comes.
    fn take_until(&self, number: u64) {
        until(&format!("{number} comes"), || {
            let sample = self.reader.take_next(BRIEF).unwrap();
            sample.is_some_and(|sample| {
                sample.assert_whole();
                sample.number == number
            })
        });
    }
}

/// Held by each test: one counts the memory of the whole process.
static ALONE: Mutex<()> = Mutex::new(());

/// Two participants. `busy` has threads of its own and waits for `idle` when its memory is full; `idle` does
/// nothing but in its calls.
struct Stage {
    busy: Side,
    idle: Side,
    meeting: Meeting,
    _alone: MutexGuard<'static, ()>,
}

impl Stage {
    fn new(kind: Kind, rejoins: bool) -> Stage {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let meeting = Meeting::new();
        let config = || ParticipantConfig::new().runtime_dir(meeting.runtime_dir());
        let busy = Side::new(config().member_timeout(MEMBER_TIMEOUT), kind, SOON);
        let config = config().member_timeout(MEMBER_TIMEOUT).caller_drives().rejoin(rejoins);
        let stage = Stage { busy, idle: Side::new(config, kind, BRIEF), meeting, _alone };
        stage.meet();
        stage
    }

    /// Does something while the idle one turns after all.
    fn awake<T>(&self, act: impl FnOnce() -> T) -> T {
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let over = || is_over.load(Ordering::Relaxed);
                while !self.idle.participant.wait_until(Timeout::millis(1), over).unwrap() {}
            });
            let result = act();
            is_over.store(true, Ordering::Relaxed);
            result
        })
    }

    fn meet(&self) {
        self.awake(|| {
            self.busy.meet();
            self.idle.meet();
        });
    }

    /// The busy one writes until it has gone on without the idle one.
    fn evict(&self) {
        let busy = &self.busy;
        std::thread::scope(|scope| {
            let written = scope.spawn(|| {
                (0..MANY).for_each(|number| busy.writer.write(&Mark::new(number)).unwrap());
                busy.writer.write(&Mark::new(MANY)).unwrap();
            });
            busy.take_until(MANY);
            written.join().unwrap();
        });
    }

    fn until_back(&self, times: u64) {
        until("it is back", || self.idle.participant.rejoins() == times);
    }

    /// What is written on one side comes to the other one.
    fn talk(&self, number: u64) {
        self.awake(|| {
            self.busy.meet();
            self.idle.meet();
            self.idle.writer.write(&Mark::new(number)).unwrap();
            self.busy.take_until(number);
            self.busy.writer.write(&Mark::new(number + 1)).unwrap();
            self.idle.take_until(number + 1);
        });
    }

    fn end(self) {
        drop((self.idle, self.busy));
        self.meeting.assert_empty();
    }

    /// Nobody can join any more, until the folder is back.
    fn hide_folder(&self) -> Hidden {
        let folder = self.meeting.runtime_dir();
        let aside = folder.with_extension("aside");
        std::fs::rename(&folder, &aside).unwrap();
        std::fs::write(&folder, "no folder").unwrap();
        Hidden { folder, aside }
    }
}

struct Hidden {
    folder: PathBuf,
    aside: PathBuf,
}

impl Hidden {
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
fn loans_and_samples_of_a_membership_that_is_over() {
    for kind in [Kind::Ordinary, Kind::Atomic] {
        let stage = Stage::new(kind, true);
        let Stage { busy, idle, .. } = &stage;
        let handle = idle.participant.instance_handle();
        (0..5).for_each(|number| busy.writer.write(&Mark::new(number)).unwrap());
        stage.awake(|| busy.writer.wait_for_acknowledgments(SOON).unwrap());
        let held = idle.reader.take_next(SOON).unwrap().unwrap();
        assert_eq!((held.number, held.is_borrowed()), (0, true));
        let (mut published, abandoned) = (idle.writer.loan().unwrap(), idle.writer.loan().unwrap());
        *published = Mark::new(4_711);
        stage.evict();
        stage.until_back(1);
        let counts = (idle.reader.membership_changes(), idle.participant.is_isolated());
        assert_eq!(counts, (1, false));
        stage.meet();
        assert_eq!((idle.participant.view().1, busy.participant.view().1), (2, 2));
        assert_ne!(idle.participant.instance_handle(), handle);
        stage.awake(|| {
            published.publish().unwrap();
            busy.take_until(4_711);
        });
        drop(abandoned);
        // What it says may have been written anew; that it can be read is all.
        let _ = held.check;
        drop(held);
        stage.talk(5_000);
        let discarded = idle.reader.discarded_samples();
        assert!((4..=MANY).contains(&discarded), "{discarded} samples were never taken");
        stage.end();
    }
}

#[test]
fn calls_wait_until_their_participant_is_back_or_say_that_it_is_rejoining() {
    for kind in [Kind::Ordinary, Kind::Atomic] {
        let stage = Stage::new(kind, true);
        let Stage { busy, idle, .. } = &stage;
        let loan = idle.writer.loan().unwrap();
        let hidden = stage.hide_folder();
        stage.evict();
        until("it is isolated", || idle.participant.is_isolated());
        assert_eq!((idle.participant.rejoins(), idle.reader.membership_changes()), (0, 1));
        let start = Instant::now();
        assert_rejoining(idle.reader.take_next(BRIEF));
        assert_rejoining(idle.writer.write(&Mark::new(0)));
        assert!(start.elapsed() >= Duration::from_millis(60), "both have waited");
        assert_rejoining(idle.reader.take(.., Timeout::NOW).map(|_| ()));
        assert_rejoining(idle.writer.loan().map(|_| ()));
        assert_rejoining(loan.publish());
        assert_rejoining(idle.writer.wait_for_readers(1, BRIEF));
        assert_rejoining(idle.reader.wait_for_writers(1, BRIEF));
        assert_rejoining(idle.writer.wait_for_acknowledgments(SOON));
        assert_rejoining(idle.participant.reader(idle.reader.topic()).create().map(|_| ()));
        assert!(!idle.writer.has_room_for(&Mark::new(0)) && !idle.reader.has_samples());
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let taken =
                scope.spawn(|| idle.reader.take_next(SOON).unwrap().unwrap().assert_whole());
            let met = scope.spawn(|| idle.writer.wait_for_readers(2, SOON).unwrap());
            hidden.show();
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    busy.writer.write(&Mark::new(1)).unwrap();
                    busy.reader.take(.., Timeout::millis(1)).unwrap().for_each(drop);
                }
            });
            taken.join().unwrap();
            met.join().unwrap();
            is_over.store(true, Ordering::Relaxed);
        });
        stage.until_back(1);
        stage.talk(6_000);
        stage.end();
    }
}

/// Takes so many, and no more come.
fn take_numbers(reader: &DataReader<Mark>, count: usize) -> Vec<u64> {
    let mut numbers = Vec::new();
    until(&format!("{count} samples come"), || {
        // In time it may find that it is not back yet.
        let samples = reader.take(.., BRIEF).into_iter().flatten();
        numbers.extend(samples.map(|sample| {
            sample.assert_whole();
            sample.number
        }));
        numbers.len() >= count
    });
    assert!(reader.take_next(BRIEF).unwrap().is_none(), "and no more");
    numbers
}

#[test]
fn a_reader_of_what_is_kept_goes_on_where_it_was() {
    let stage = Stage::new(Kind::AllKept, true);
    let Stage { busy, idle, .. } = &stage;
    (0..10).for_each(|number| busy.writer.write(&Mark::new(number)).unwrap());
    let first = take_numbers(&idle.reader, 10);
    let volatile = idle.participant.reader(idle.reader.topic()).volatile().create().unwrap();
    stage.awake(|| volatile.wait_for_writers(2, SOON).unwrap());
    let never = idle.participant.reader(idle.reader.topic()).volatile().create().unwrap();
    stage.awake(|| {
        never.wait_for_writers(2, SOON).unwrap();
        (10..30).for_each(|number| busy.writer.write(&Mark::new(number)).unwrap());
        idle.writer.write(&Mark::new(4_711)).unwrap();
        idle.writer.wait_for_acknowledgments(SOON).unwrap();
        busy.writer.wait_for_acknowledgments(SOON).unwrap();
    });
    // Some of it comes by a queue and is whole whatever happens, some is never taken.
    let held: Vec<_> = (0..5).map(|_| idle.reader.take_next(SOON).unwrap().unwrap()).collect();
    let taken = volatile.take_next(SOON).unwrap().unwrap().number;
    let mut expected: Vec<u64> = (0..30).collect();
    for round in 1..=2 {
        let hidden = stage.hide_folder();
        stage.evict();
        until("it is isolated", || idle.participant.is_isolated());
        // What waits in its queue is nothing to be given out now, and not lost by that.
        (0..3).for_each(|_| assert_rejoining(idle.reader.take_next(BRIEF)));
        hidden.show();
        stage.until_back(round);
        stage.awake(|| idle.reader.wait_for_historical_data(SOON).unwrap());
        expected.extend(0..=MANY);
    }
    held.iter().for_each(|sample| sample.assert_whole());
    let before = [first, held.iter().map(|sample| sample.number).collect()].concat();
    for (reader, before, expected) in [
        (&idle.reader, before, &expected[..]),
        (&volatile, vec![taken], &expected[10..]),
        (&never, vec![], &expected[10..]),
    ] {
        let missing = expected.len() + 1 - before.len();
        let mut all = [before, take_numbers(reader, missing)].concat();
        // What it wrote itself may have come before or after the others.
        all.retain(|number| *number != 4_711);
        assert_eq!(all.len(), expected.len());
        assert!(all == expected, "{all:?}");
    }
    assert_eq!((idle.reader.discarded_samples(), idle.reader.membership_changes()), (0, 2));
    drop((volatile, never));
    stage.talk(5_000);
    stage.end();
}

#[test]
fn of_what_is_replaced_a_reader_that_is_back_gets_what_is_kept() {
    let stage = Stage::new(Kind::LastKept, true);
    let Stage { busy, idle, .. } = &stage;
    for round in 0..3 {
        busy.writer.write(&Mark::new(round)).unwrap();
        assert_eq!(take_numbers(&idle.reader, 1), [round]);
        stage.evict();
        stage.until_back(round + 1);
        assert_eq!(take_numbers(&idle.reader, 1), [MANY]);
    }
    stage.talk(5_000);
    stage.end();
}

/// Megabytes of samples' memory that this process maps.
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
fn a_participant_comes_back_again_and_again_and_leaves_nothing_behind() {
    for kind in [Kind::Ordinary, Kind::Atomic] {
        let stage = Stage::new(kind, true);
        let mut mappings = Vec::new();
        for round in 1..=5 {
            stage.evict();
            stage.until_back(round);
            stage.talk(round * 1_000);
            mappings.push(mapped());
        }
        // Of the first membership's memory some stays, of all others nothing.
        assert!(mappings[4] <= mappings[1], "{mappings:?} MB");
        assert_eq!(stage.idle.reader.membership_changes(), 5);
        stage.end();
    }
}

#[test]
fn who_leaves_while_isolated_does_not_come_back() {
    let stage = Stage::new(Kind::Atomic, true);
    let hidden = stage.hide_folder();
    stage.evict();
    let Stage { busy, idle, meeting, _alone } = stage;
    until("it is isolated", || idle.participant.is_isolated());
    let start = Instant::now();
    drop(idle);
    assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
    hidden.show();
    std::thread::sleep(3 * MEMBER_TIMEOUT);
    assert_eq!(busy.participant.view().1, 1);
    drop(busy);
    meeting.assert_empty();
}

#[test]
fn who_may_not_rejoin_stays_isolated() {
    let stage = Stage::new(Kind::Ordinary, false);
    stage.evict();
    let Stage { idle, .. } = &stage;
    until("it is isolated", || idle.participant.is_isolated());
    std::thread::sleep(3 * MEMBER_TIMEOUT);
    assert!(idle.participant.is_isolated() && idle.participant.rejoins() == 0);
    assert_eq!(idle.reader.membership_changes(), 1);
    let start = Instant::now();
    for error in [
        idle.reader.take_next(SOON).map(|_| ()).unwrap_err(),
        idle.writer.write(&Mark::new(0)).unwrap_err(),
        idle.writer.wait_for_readers(1, SOON).unwrap_err(),
    ] {
        assert!(matches!(&error, DdsError::Isolated(why) if why.contains("join anew")), "{error}");
    }
    assert!(start.elapsed() < Duration::from_secs(10), "nobody waits for what never comes");
    stage.end();
}
