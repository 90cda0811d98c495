//! Participants that rejoin by themselves: processes that are stopped and resumed while their
//! threads are in calls, and the effect on loans, samples and errors.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use dds_api::prelude::*;
use rustix::process::Signal;
use support::{
    Actor, CheckedSample, Dice, SOON, TestDomain, listen, numbers, role, say, seed, until,
};

/// Maximum silence of a member for which the others wait. The value exceeds the delays of processes
/// that are not stopped on a loaded machine, because if all members except the stopped one counted
/// as silent, none would be left to admit them.
const MEMBER_TIMEOUT: Duration = Duration::from_millis(600);
/// Number of further samples that only a writer that waits for no reader can write: more than a
/// writer's memory holds.
const PAST_ALL_MEMORY: u64 = 1024;
/// Members of a test.
const MEMBERS: u64 = 3;

/// Role of a child process; does nothing when the test program is run normally.
#[test]
fn act() {
    let Some((role, folder)) = role() else { return };
    match role.as_str() {
        "ordinary" | "atomic" | KEPT | LOGGED => act_member(&folder, &role),
        "starter" => act_starter(&folder),
        "viewer" => act_viewer(&folder),
        other => panic!("no such role: {other}"),
    }
}

/// Role on a topic whose samples are all kept.
const KEPT: &str = "kept";
/// Role on a topic whose samples are all kept, in logs as well.
const LOGGED: &str = "logged";

/// Whether a member that was away receives the missed samples when it is back.
fn is_kept(role: &str) -> bool {
    matches!(role, KEPT | LOGGED)
}

fn config(folder: &Path, role: &str) -> ParticipantConfig {
    let config = ParticipantConfig::new().runtime_dir(folder).member_timeout(MEMBER_TIMEOUT);
    let config = if role == LOGGED { config.log_folder(log_folder(folder)) } else { config };
    config.rejoin(true)
}

/// Returns the folder where all participants of a test keep their logs.
fn log_folder(folder: &Path) -> PathBuf {
    let logs = folder.with_file_name("logs");
    std::fs::create_dir_all(&logs).unwrap();
    logs
}

fn topic(participant: &DomainParticipant, role: &str) -> Topic<CheckedSample> {
    let topic = participant.topic::<CheckedSample>("Marks");
    let topic = match role {
        "atomic" => topic.atomic(),
        KEPT => topic.transient_local().keep_all(),
        LOGGED => topic.persistent().keep_all(),
        _ => topic,
    };
    topic.create().unwrap()
}

/// Returns the file in which a process records the samples of one membership; for kept samples, of
/// all memberships.
fn log_of(folder: &Path, seed: u64, membership: u64) -> PathBuf {
    folder.with_file_name(format!("log-{seed}-{membership}"))
}

/// Meets all the others, and leaves.
fn act_starter(folder: &Path) {
    let participant = DomainParticipant::with_config(0, config(folder, "atomic")).unwrap();
    let topic = topic(&participant, "atomic");
    let reader = participant.reader(&topic).reliable_all().create().unwrap();
    let writer = participant.writer(&topic).create().unwrap();
    let met = writer.wait_for_readers(MEMBERS as usize, SOON);
    met.unwrap_or_else(|error| panic!("{error}: {}", participant.describe()));
    reader.wait_for_writers(MEMBERS as usize, SOON).unwrap();
    say("met");
    while listen().is_some() {}
}

/// Reports the view of the instance with each sample of an atomic topic that it is told to take;
/// told to read, the samples that are in its caches, of a reader that keeps all and of one that
/// keeps the last.
fn act_viewer(folder: &Path) {
    let participant = DomainParticipant::with_config(0, config(folder, "atomic")).unwrap();
    let topic = topic(&participant, "atomic");
    let picture = participant.reader(&topic).reliable().keep_last(2).create().unwrap();
    let reader = participant.reader(&topic).reliable_all().create().unwrap();
    while let Some(word) = listen() {
        if word == "read" {
            let before = reader.membership_changes();
            let all = [&reader, &picture].map(|reader| {
                let samples = went_well(reader.read_data(.., Timeout::NOW)).unwrap_or_default();
                samples.iter().map(|sample| sample.number).collect::<Vec<_>>()
            });
            say(&format!("{all:?} after {before} to {}", reader.membership_changes()));
            continue;
        }
        let sample = loop {
            match went_well(reader.take_next(SOON)) {
                Some(sample) => break sample.expect("a sample comes"),
                None => std::thread::sleep(Duration::from_millis(10)),
            }
        };
        let number = sample.data().map(|sample| sample.number);
        say(&format!("{number:?} {:?}", sample.info().view_state));
    }
}

/// Whether a call succeeded; the error that the participant is rejoining is no failure here.
fn went_well<T>(result: DdsResult<T>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(DdsError::Isolated(why)) => {
            assert!(why.contains("rejoin"), "{why}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Position of a member, and the orders it has received.
#[derive(Default)]
struct Progress {
    written: AtomicU64,
    stops: AtomicBool,
    quits: AtomicBool,
    leaves: AtomicBool,
}

impl Progress {
    fn quits(&self) -> bool {
        self.quits.load(Ordering::Relaxed)
    }

    /// Obeys orders: reports the number of written samples, announces in its samples that it stops,
    /// stops writing, leaves.
    fn obey(&self) {
        while let Some(word) = listen() {
            match word.as_str() {
                "count" => say(&format!("written {}", self.written.load(Ordering::Relaxed))),
                "stop" => self.stops.store(true, Ordering::Relaxed),
                "quit" => self.quits.store(true, Ordering::Relaxed),
                _ => break,
            }
        }
        self.quits.store(true, Ordering::Relaxed);
        self.leaves.store(true, Ordering::Relaxed);
    }
}

/// Writes and reads, each in a thread of its own that may be in a call when the process is stopped.
/// It takes until no member writes any more.
fn act_member(folder: &Path, role: &str) {
    let progress = &Progress::default();
    // Half of the members stay in their calls for as long as necessary.
    let patience = if seed().is_multiple_of(2) { SOON } else { Timeout::millis(20) };
    let participant = DomainParticipant::with_config(0, config(folder, role)).unwrap();
    let topic = topic(&participant, role);
    let reader = participant.reader(&topic).reliable_all().create().unwrap();
    let writer = participant.writer(&topic).memory(32 << 10).in_flight(128);
    let writer = writer.max_blocking_time(patience).create().unwrap();
    std::thread::scope(|scope| {
        let writer = &writer;
        scope.spawn(|| progress.obey());
        // The kept samples are numerous at the end.
        let pause = Duration::from_micros(if is_kept(role) { 1_000 } else { 200 });
        let acknowledge = scope.spawn(|| {
            while !progress.quits() {
                match writer.wait_for_acknowledgments(Timeout::millis(50)) {
                    Err(DdsError::Timeout(_)) => {}
                    result => drop(went_well(result)),
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            until("all that was written is acknowledged", || {
                went_well(writer.wait_for_acknowledgments(SOON)).is_some()
            });
        });
        scope.spawn(move || {
            write(writer, pause, progress);
            acknowledge.join().unwrap();
            say("quiet");
        });
        let met = writer.wait_for_readers(MEMBERS as usize, SOON);
        met.unwrap_or_else(|error| panic!("{error}: {}", participant.describe()));
        say("ready");
        read(&reader, folder, is_kept(role), progress);
    });
    // A participant that is out of the domain at this moment will return.
    until("it is back for good", || participant.rejoins() == reader.membership_changes());
    say(&format!("back {}", participant.rejoins()));
}

fn write(writer: &DataWriter<CheckedSample>, pause: Duration, progress: &Progress) {
    let mut number = 0;
    while !progress.quits() {
        for _ in 0..8 {
            let mut sample = CheckedSample::new(seed() << 40 | number);
            sample.last = u64::from(progress.stops.load(Ordering::Relaxed));
            let written = match number % 16 < 8 {
                true => writer.write(&sample),
                // Loans are taken before an absence, published after it, or both.
                false => writer.loan().and_then(|mut loan| {
                    *loan = sample;
                    loan.publish()
                }),
            };
            match written {
                Err(DdsError::Timeout(_)) => {}
                written => number += u64::from(went_well(written).is_some()),
            }
            progress.written.store(number, Ordering::Relaxed);
        }
        std::thread::sleep(pause);
    }
}

/// Takes until all members have announced that they have stopped.
fn read(reader: &DataReader<CheckedSample>, folder: &Path, is_kept: bool, progress: &Progress) {
    let mut logs = BTreeMap::new();
    let mut last = BTreeSet::new();
    let mut is_done = false;
    while !progress.leaves.load(Ordering::Relaxed) {
        let before = reader.membership_changes();
        let Some(samples) = went_well(reader.take_data(..64, Timeout::millis(20))) else {
            continue;
        };
        let taken: Vec<CheckedSample> = samples.map(|sample| *sample).collect();
        if reader.membership_changes() != before && !is_kept {
            // The sample's memory may have been reused before it was read.
            continue;
        }
        let mut lines = Vec::new();
        for checked in taken {
            checked.assert_whole();
            lines.extend_from_slice(&checked.number.to_le_bytes());
            if checked.last != 0 {
                last.insert(checked.number >> 40);
            }
        }
        let membership = if is_kept { 0 } else { before };
        let log = logs.entry(membership);
        let log = log.or_insert_with(|| File::create(log_of(folder, seed(), membership)).unwrap());
        log.write_all(&lines).unwrap();
        if last.len() as u64 == MEMBERS && !is_done {
            is_done = true;
            say("done");
        }
    }
}

/// Checks that each writer's samples arrive in order and once, and that samples are missing only
/// where that writer fell out.
fn check_order_of_writers(name: &str, log: &[u64], rejoins: &BTreeMap<u64, u64>) {
    let mut last = BTreeMap::new();
    let mut gaps = BTreeMap::new();
    for number in log {
        let (writer, number) = (number >> 40, number & 0xff_ffff_ffff);
        if let Some(last) = last.insert(writer, number) {
            assert!(last < number, "{name}: {number} after {last} from {writer}");
            *gaps.entry(writer).or_insert(0) += u64::from(last + 1 != number);
        }
    }
    for (writer, gaps) in gaps {
        let rejoins = rejoins[&writer];
        assert!(
            gaps <= rejoins,
            "{name}: {gaps} gaps from {writer}, which was back {rejoins} times"
        );
    }
}

/// Checks that two members that take together take the same: the common part is one contiguous
/// piece of each log, the same in both, that begins where one of them joined and ends where one of
/// them ended.
fn check_agreement((one, left): (&str, &[u64]), (two, right): (&str, &[u64])) {
    let place: BTreeMap<u64, usize> = right.iter().enumerate().map(|(at, n)| (*n, at)).collect();
    let Some(first) = left.iter().position(|number| place.contains_key(number)) else { return };
    let start = place[&left[first]];
    assert!(first == 0 || start == 0, "{one} and {two} begin together where one of them joined");
    let common = left[first..].iter().zip(&right[start..]).take_while(|(a, b)| a == b).count();
    let (left_end, right_end) = (first + common == left.len(), start + common == right.len());
    assert!(left_end || right_end, "{one} and {two} agree for {common} samples and then part");
}

/// The members of a test.
struct TestMembers<'a> {
    domain: &'a TestDomain,
    actors: Vec<Actor>,
}

impl<'a> TestMembers<'a> {
    fn new(domain: &'a TestDomain, role: &str) -> TestMembers<'a> {
        let start = |seed| Actor::start(module_path!(), role, domain, seed);
        let mut members = TestMembers { domain, actors: (0..MEMBERS).map(start).collect() };
        members.actors.iter_mut().for_each(|actor| assert_eq!(actor.hear(), "ready"));
        members
    }

    /// Returns the size in bytes of all samples that a member has taken, over all its memberships.
    fn taken(&self, index: usize) -> u64 {
        let folder = self.domain.runtime_dir();
        let of_membership = |number| {
            std::fs::metadata(log_of(&folder, index as u64, number)).map_or(0, |it| it.len())
        };
        (0..64).map(of_membership).sum()
    }

    /// Waits until each member takes something new from each: only then all wait for a member that
    /// is stopped.
    fn until_all_meet(&self) {
        for index in 0..self.actors.len() {
            let before = self.taken(index);
            until("a member goes on", || self.taken(index) > before + 800);
        }
        let folder = self.domain.runtime_dir();
        for seed in 0..MEMBERS {
            until("a member takes what all write", || {
                let mut logs = (0..64).map(|number| log_of(&folder, seed, number)).rev();
                let Some(log) = logs.find(|log| log.exists()) else { return false };
                let log = numbers(&log);
                let newest = &log[log.len().saturating_sub(4096)..];
                let writers: BTreeSet<u64> = newest.iter().map(|number| number >> 40).collect();
                writers.len() as u64 == MEMBERS
            });
        }
    }

    /// Returns the number of samples that a member has written. Its taken samples may be fewer.
    fn written(&mut self, index: usize) -> u64 {
        self.actors[index].tell("count");
        let line = self.actors[index].hear();
        line.strip_prefix("written ").unwrap().parse().unwrap()
    }

    /// Stops a member until the others have continued without it.
    fn evict(&mut self, index: usize) {
        self.actors[index].signal(Signal::STOP);
        // A member that has just returned may briefly have readers that it is not one of; the
        // others wait for it all the same.
        std::thread::sleep(2 * MEMBER_TIMEOUT);
        for other in (0..self.actors.len()).filter(|other| *other != index) {
            let before = self.written(other);
            until("the others go on", || self.written(other) > before + PAST_ALL_MEMORY);
        }
    }

    fn resume(&self, index: usize) {
        self.actors[index].signal(Signal::CONT);
    }

    /// Makes all members stop writing, and take the rest. Returns the number of rejoins of each.
    fn end(mut self) -> BTreeMap<u64, u64> {
        self.actors.iter_mut().for_each(|actor| actor.tell("stop"));
        self.actors.iter_mut().for_each(|actor| assert_eq!(actor.hear(), "done"));
        self.actors.iter_mut().for_each(|actor| actor.tell("quit"));
        // A writer may wait for a reader.
        self.actors.iter_mut().for_each(|actor| assert_eq!(actor.hear(), "quiet"));
        self.actors.iter_mut().for_each(|actor| actor.tell("leave"));
        let mut rejoins = BTreeMap::new();
        for (seed, mut actor) in (0..).zip(self.actors) {
            let line = actor.hear();
            rejoins.insert(seed, line.strip_prefix("back ").unwrap().parse().unwrap());
            actor.finish();
        }
        rejoins
    }
}

/// Number of rounds, which `SQUALL_TEST_ROUNDS` can increase.
fn rounds(usual: u64) -> u64 {
    std::env::var("SQUALL_TEST_ROUNDS").map_or(usual, |rounds| rounds.parse().unwrap())
}

/// Stops members one after the other, some of them again while they rejoin.
fn stop_and_continue(role: &str, seed: u64) {
    let domain = TestDomain::new();
    let mut members = TestMembers::new(&domain, role);
    members.until_all_meet();
    let (mut dice, mut evictions) = (Dice(seed), BTreeMap::<u64, u64>::new());
    for round in 0..rounds(4) {
        // Each member has its turn.
        let index = (round % MEMBERS) as usize;
        members.evict(index);
        *evictions.entry(index as u64).or_default() += 1;
        members.resume(index);
        if round % 2 == 1 {
            dice.pause(Duration::from_millis(60));
            members.actors[index].signal(Signal::STOP);
            dice.pause(2 * MEMBER_TIMEOUT);
            members.resume(index);
        }
        members.until_all_meet();
    }
    let rejoins = members.end();
    for (member, evictions) in evictions {
        assert!(rejoins[&member] >= evictions, "{member}: {rejoins:?} after {evictions}");
    }
    let logs = domain.logs();
    for (index, (name, log)) in logs.iter().enumerate() {
        check_order_of_writers(name, log, &rejoins);
        for (other, theirs) in &logs[..index] {
            match role {
                "atomic" => check_agreement((name, log), (other, theirs)),
                KEPT | LOGGED => assert_same((name, log), (other, theirs)),
                _ => {}
            }
        }
    }
    if role == LOGGED {
        check_logged(&domain, &logs);
    }
    domain.clean_logs();
    domain.assert_empty();
}

/// Checks that one of the two begins with the other.
fn assert_same((one, left): (&str, &[u64]), (two, right): (&str, &[u64])) {
    let (length, known) = (left.len().min(right.len()), left.len() + right.len());
    let same = left.iter().zip(right).take_while(|(a, b)| a == b).count();
    assert_eq!(same, length, "{one} and {two}, {known} in all");
}

/// Checks that all taken samples became durable: a late joiner receives them from the logs, in the
/// same order.
fn check_logged(domain: &TestDomain, taken: &[(String, Vec<u64>)]) {
    let folder = domain.runtime_dir();
    let participant = DomainParticipant::with_config(0, config(&folder, LOGGED)).unwrap();
    let reader = participant.reader(&topic(&participant, LOGGED)).reliable_all().create().unwrap();
    reader.wait_for_historical_data(SOON).unwrap();
    let most = taken.iter().map(|(_, log)| log.len()).max().unwrap();
    let mut history = Vec::new();
    until("what was logged comes", || {
        let samples = reader.take_data(.., Timeout::millis(10)).unwrap();
        history.extend(samples.map(|sample| sample.number));
        history.len() >= most
    });
    taken.iter().for_each(|(name, log)| assert_same((name, log), ("the logs", &history)));
    drop((reader, participant));
    let logs = log_folder(&folder);
    let folders = std::fs::read_dir(logs.join("domain-0")).unwrap().count() as u64;
    assert_eq!(folders, MEMBERS, "each membership has the folder of the one before");
    std::fs::remove_dir_all(logs).unwrap();
}

#[test]
fn members_started_simultaneously_match() {
    for _ in 0..rounds(10) {
        let domain = TestDomain::new();
        let start = |seed| Actor::start(module_path!(), "starter", &domain, seed);
        let mut actors: Vec<Actor> = (0..MEMBERS).map(start).collect();
        actors.iter_mut().for_each(|actor| assert_eq!(actor.hear(), "met"));
        actors.into_iter().for_each(Actor::finish);
        domain.assert_empty();
    }
}

/// A writer on an atomic topic, and a viewer in another process whose two readers it has found.
fn writer_and_viewer(domain: &TestDomain) -> (DataWriter<CheckedSample>, Actor) {
    let here = DomainParticipant::with_config(0, config(&domain.runtime_dir(), "atomic")).unwrap();
    let writer = here.writer(&topic(&here, "atomic")).in_flight(64).max_blocking_time(SOON);
    let writer = writer.create().unwrap();
    let viewer = Actor::start(module_path!(), "viewer", domain, 0);
    writer.wait_for_readers(2, SOON).unwrap();
    (writer, viewer)
}

/// Stops the viewer until the writer has continued without it, and resumes it.
fn expel(writer: &DataWriter<CheckedSample>, viewer: &Actor) {
    viewer.signal(Signal::STOP);
    // The writer waits for it when its memory is full.
    until("it is expelled", || {
        writer.write(&CheckedSample::new(0)).unwrap();
        writer.matched_readers() == 0
    });
    viewer.signal(Signal::CONT);
}

/// A reader that takes straight begins anew when its participant is back (I-345).
#[test]
fn first_sample_after_a_rejoin_is_of_a_new_instance() {
    let domain = TestDomain::new();
    let (writer, mut viewer) = writer_and_viewer(&domain);
    let view_of = |viewer: &mut Actor, number| {
        writer.write(&CheckedSample::new(number)).unwrap();
        viewer.tell("take");
        viewer.hear()
    };
    assert_eq!(view_of(&mut viewer, 1), "Some(1) New");
    assert_eq!(view_of(&mut viewer, 2), "Some(2) NotNew");
    expel(&writer, &viewer);
    writer.wait_for_readers(2, SOON).unwrap();
    assert_eq!(view_of(&mut viewer, 3), "Some(3) New");
    assert_eq!(view_of(&mut viewer, 4), "Some(4) NotNew");
    viewer.finish();
}

/// Samples in the cache of a reader that keeps all are of the present membership (I-347). A reader
/// that keeps the last samples retains them.
#[test]
fn samples_not_taken_are_discarded_with_their_membership() {
    let domain = TestDomain::new();
    let (writer, mut viewer) = writer_and_viewer(&domain);
    let read = |viewer: &mut Actor| {
        viewer.tell("read");
        viewer.hear()
    };
    (1..=3).for_each(|number| writer.write(&CheckedSample::new(number)).unwrap());
    until("the samples are there", || read(&mut viewer) == "[[1, 2, 3], [2, 3]] after 0 to 0");
    expel(&writer, &viewer);
    until("it is told", || {
        let found = read(&mut viewer);
        let is_over = found.ends_with("after 1 to 1");
        // The last samples may be some that came when the process was to be stopped.
        let is_kept = found.starts_with("[[], [") && !found.starts_with("[[], []");
        assert!(!is_over || is_kept, "{found}");
        is_over
    });
    writer.wait_for_readers(2, SOON).unwrap();
    writer.write(&CheckedSample::new(4)).unwrap();
    until("the next sample is there", || {
        let found = read(&mut viewer);
        found.starts_with("[[4], [") && found.ends_with(", 4]] after 1 to 1")
    });
    viewer.finish();
}

#[test]
fn stopped_members_of_atomic_topic_rejoin() {
    stop_and_continue("atomic", 21);
}

/// All members have taken all samples, in the same order, as if none had ever been away.
#[test]
fn stopped_members_of_transient_local_topic_miss_no_sample() {
    stop_and_continue(KEPT, 23);
}

/// All members have taken all samples, and all of them are in the logs.
#[test]
fn stopped_members_of_persistent_topic_miss_no_sample() {
    stop_and_continue(LOGGED, 24);
}

#[test]
fn stopped_members_of_unordered_topic_rejoin() {
    stop_and_continue("ordinary", 22);
}
