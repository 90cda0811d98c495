//! Unplanned ends: processes that exit in the middle of work, forks, listeners that do not return,
//! entities that are deleted while a thread waits on them, clocks that differ.

use std::path::Path;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant, SystemTime};

use crate::support::{
    Actor, CheckedSample, PATIENCE, SOON, TestDomain, join, listen, role, say, until,
};
use dds_api::domain::DomainParticipantFactory;
use dds_api::infrastructure::{DataReaderListener, StatusKind, WaitSet};
use dds_api::prelude::*;
use dds_api::subscription::{ReadCondition, States};
use rustix::process::Signal;

const MEMORY: usize = 64 << 10;

unsafe extern "C" {
    fn fork() -> i32;
    fn waitpid(pid: i32, status: *mut i32, options: i32) -> i32;
    fn _exit(status: i32) -> !;
}

#[test]
fn act() {
    let Some((role, folder)) = role() else { return };
    match role.as_str() {
        "exits" => act_exits(&folder, ProcessEnd::Exit),
        "exits in a listener" => act_exits(&folder, ProcessEnd::ExitInListener),
        "aborts in a listener" => act_exits(&folder, ProcessEnd::AbortInListener),
        "forks" => act_forks(&folder),
        "forks and waits" => act_forks_and_waits(&folder),
        "reads" => act_reads(&folder),
        "has a clock ahead" => act_ahead(&folder),
        other => panic!("no such role: {other}"),
    }
}

fn topic(participant: &DomainParticipant) -> Topic<CheckedSample> {
    participant.topic::<CheckedSample>("Marks").atomic().create().unwrap()
}

fn small_writer(participant: &DomainParticipant) -> DataWriter<CheckedSample> {
    let writer = participant.writer(&topic(participant)).memory(MEMORY).in_flight(256);
    writer.max_blocking_time(SOON).create().unwrap()
}

#[derive(Clone, Copy, PartialEq)]
enum ProcessEnd {
    Exit,
    ExitInListener,
    AbortInListener,
}

struct EndingListener(ProcessEnd);

impl DataReaderListener<CheckedSample> for EndingListener {
    fn on_data_available(&mut self, _: &DataReader<CheckedSample>) {
        match self.0 {
            ProcessEnd::AbortInListener => std::process::abort(),
            _ => std::process::exit(0),
        }
    }
}

/// Holds samples and loans, and ends without leaving.
fn act_exits(folder: &Path, end: ProcessEnd) {
    let participant = join(folder);
    let (writer, topic) = (small_writer(&participant), topic(&participant));
    let reader = participant.reader(&topic).reliable_all().create().unwrap();
    let held = reader.take_next_data(SOON).unwrap().unwrap();
    let loans = [writer.loan().unwrap(), writer.loan().unwrap()];
    if end != ProcessEnd::Exit {
        let second = participant.reader(&topic).reliable_all().create().unwrap();
        second.set_listener(EndingListener(end), StatusKind::DataAvailable).unwrap();
        say("ready");
        std::thread::sleep(PATIENCE);
    }
    say("ready");
    held.assert_whole();
    let _still = (held, loans);
    std::process::exit(0);
}

/// Other participants do not wait for resources of a process that has ended, and it leaves
/// nothing behind.
#[test]
fn process_that_exits_with_samples_and_loans_blocks_no_participant() {
    for role in ["exits", "exits in a listener", "aborts in a listener"] {
        let domain = TestDomain::new();
        let participant = domain.join();
        let writer = small_writer(&participant);
        let reader = participant.reader(&topic(&participant)).reliable_all().create().unwrap();
        let mut actor = Actor::start(module_path!(), role, &domain, 0);
        writer.wait_for_readers(2, SOON).unwrap();
        writer.write(&CheckedSample::new(0)).unwrap();
        assert_eq!(actor.hear(), "ready");
        for number in 1..5000 {
            writer.write(&CheckedSample::new(number)).unwrap();
            reader.take_next_data(SOON).unwrap().unwrap();
        }
        assert!(actor.try_hear().is_none(), "it has ended");
        until("it is gone", || writer.matched_readers() == 1 && participant.view().1 == 1);
        drop((writer, reader, participant));
        domain.assert_empty();
    }
}

/// Whether a call reports that the entity belongs to another process.
fn is_refused<T>(result: DdsResult<T>) -> bool {
    match result {
        Err(DdsError::PreconditionNotMet(why)) => why.contains("forked"),
        _ => false,
    }
}

/// Forks with all kinds of entities; the child may call everything.
fn act_forks(folder: &Path) {
    let participant = join(folder);
    let (writer, topic) = (small_writer(&participant), topic(&participant));
    let reader = participant.reader(&topic).reliable_all().create().unwrap();
    let follows = participant.reader(&topic).reliable().keep_last(10).create().unwrap();
    writer.wait_for_readers(2, SOON).unwrap();
    writer.write(&CheckedSample::new(0)).unwrap();
    let held = reader.take_next_data(SOON).unwrap().unwrap();
    let mut loan = writer.loan().unwrap();
    *loan = CheckedSample::new(5);
    // More samples can be taken.
    writer.write(&CheckedSample::new(1)).unwrap();
    until("it has come", || reader.has_samples());
    // SAFETY: the child does only what a process may do after a fork, except for locks of the
    // allocator, which glibc handles.
    let child = unsafe { fork() };
    if child == 0 {
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            assert!(is_refused(loan.publish()));
            let writer = writer.clone();
            in_the_child(folder, (participant, writer, reader, follows, topic, held));
        }));
        // SAFETY: the call ends the process.
        unsafe { _exit(if ended.is_ok() { 0 } else { 1 }) };
    }
    assert!(child > 0);
    // The parent continues in the meantime.
    loan.publish().unwrap();
    let mut next = 1;
    let mut read = |count: u64| {
        for _ in 0..count {
            let sample = reader.take_next_data(SOON).unwrap().unwrap();
            sample.assert_whole();
            next += 1;
        }
    };
    read(2);
    for number in 0..2000 {
        writer.write(&CheckedSample::new(number)).unwrap();
        read(1);
    }
    let mut status = -1;
    // SAFETY: the process is a child of this one, and the variable for its status exists.
    assert_eq!(unsafe { waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0, "the child found that all is as it should be");
    for number in 0..2000 {
        writer.write(&CheckedSample::new(number)).unwrap();
        read(1);
    }
    held.assert_whole();
    say("all is well");
    while listen().is_some() {}
}

type AllEntities = (
    DomainParticipant,
    DataWriter<CheckedSample>,
    DataReader<CheckedSample>,
    DataReader<CheckedSample>,
    Topic<CheckedSample>,
    ValidSample<CheckedSample>,
);

/// Each call reports the error, no drop announces a departure of the parent, and a participant of
/// its own works.
fn in_the_child(folder: &Path, (participant, writer, reader, follows, topic, held): AllEntities) {
    assert!(is_refused(writer.write(&CheckedSample::new(9))));
    assert!(is_refused(writer.loan().map(drop)));
    assert!(is_refused(writer.wait_for_readers(1, SOON)));
    assert!(is_refused(writer.wait_for_acknowledgments(SOON)));
    assert!(is_refused(writer.dispose(&CheckedSample::new(9))));
    assert!(is_refused(reader.take_data(.., Timeout::NOW).map(drop)));
    assert!(is_refused(reader.take_next_data(SOON).map(drop)));
    assert!(is_refused(reader.read_data(.., SOON).map(drop)));
    assert!(is_refused(follows.take_data(.., SOON).map(drop)));
    assert!(is_refused(reader.wait_for_writers(9, SOON)));
    assert!(is_refused(participant.topic::<CheckedSample>("Others").create().map(drop)));
    assert!(is_refused(participant.writer(&topic).create().map(drop)));
    assert!(is_refused(participant.publisher().create().map(drop)));
    assert!(is_refused(participant.delete_contained_entities()));
    let factory = DomainParticipantFactory::instance();
    assert!(is_refused(factory.delete_participant(&participant)));
    assert!(factory.lookup_participant(0).is_none(), "none of this process");
    drop(held);
    reader.delete();
    drop((writer, follows, topic, participant));
    // The child may have entities of its own.
    let own = join(&folder.with_file_name("of the child"));
    let topic = own.topic::<CheckedSample>("Marks").atomic().create().unwrap();
    let (writer, reader) =
        (own.writer(&topic).create().unwrap(), own.reader(&topic).reliable_all().create().unwrap());
    writer.wait_for_readers(1, SOON).unwrap();
    writer.write(&CheckedSample::new(7)).unwrap();
    assert_eq!(reader.take_next_data(SOON).unwrap().unwrap().number, 7);
    assert!(factory.lookup_participant(0).is_some());
}

#[test]
fn forked_child_has_no_access_to_domain_of_parent() {
    let domain = TestDomain::new();
    let participant = domain.join();
    let writer = small_writer(&participant);
    let reader = participant.reader(&topic(&participant)).reliable_all().create().unwrap();
    let mut actor = Actor::start(module_path!(), "forks", &domain, 0);
    until("it has written all", || {
        reader.take_data(.., Timeout::millis(10)).unwrap().for_each(|sample| sample.assert_whole());
        reader.matched_writers() == 2
    });
    let line = std::thread::scope(|scope| {
        let line = scope.spawn(|| actor.try_hear());
        while !line.is_finished() {
            reader
                .take_data(.., Timeout::millis(10))
                .unwrap()
                .for_each(|sample| sample.assert_whole());
        }
        line.join().unwrap()
    });
    assert_eq!(line.as_deref(), Some("all is well"));
    assert_eq!(participant.view().1, 2, "nobody else came, and nobody has gone");
    actor.finish();
    drop((writer, reader, participant));
    domain.assert_empty();
}

/// Has a child that lives on.
fn act_forks_and_waits(folder: &Path) {
    let participant = join(folder);
    let _reader = participant.reader(&topic(&participant)).reliable_all().create().unwrap();
    // SAFETY: the child only sleeps and ends.
    let child = unsafe { fork() };
    if child == 0 {
        std::thread::sleep(Duration::from_secs(8));
        // SAFETY: the call ends the process.
        unsafe { _exit(0) };
    }
    say(&child.to_string());
    while listen().is_some() {}
}

/// A living child does not hide the death of its parent.
#[test]
fn killed_parent_leaves_domain_although_forked_child_lives() {
    let domain = TestDomain::new();
    let participant = domain.join();
    let writer = small_writer(&participant);
    let mut actor = Actor::start(module_path!(), "forks and waits", &domain, 0);
    let child: i32 = actor.hear().parse().unwrap();
    writer.wait_for_readers(1, SOON).unwrap();
    actor.signal(Signal::KILL);
    until("it is gone", || participant.view().1 == 1);
    for number in 0..5000 {
        writer.write(&CheckedSample::new(number)).unwrap();
    }
    let child = rustix::process::Pid::from_raw(child).unwrap();
    let ended = rustix::process::kill_process(child, Signal::KILL);
    assert!(ended.is_ok(), "the child was still there");
    drop((writer, participant));
    domain.assert_empty();
}

struct BlockingListener(std::sync::mpsc::Sender<()>);

impl DataReaderListener<CheckedSample> for BlockingListener {
    fn on_data_available(&mut self, reader: &DataReader<CheckedSample>) {
        // The listener's own entity, through another handle.
        reader.clone().delete();
        assert!(matches!(reader.take_next_data(Timeout::NOW), Err(DdsError::AlreadyDeleted(_))));
        self.0.send(()).unwrap();
        std::thread::sleep(PATIENCE);
    }
}

/// A listener that deletes its entity, and then does not return, is abandoned.
#[test]
fn participant_is_deleted_despite_listener_that_never_returns() {
    let domain = TestDomain::new();
    let participant = domain.join();
    let (sender, reports) = channel();
    let reader = participant.reader(&topic(&participant)).reliable_all().create().unwrap();
    reader.set_listener(BlockingListener(sender), StatusKind::DataAvailable).unwrap();
    let writer = small_writer(&participant);
    writer.wait_for_readers(1, SOON).unwrap();
    writer.write(&CheckedSample::new(0)).unwrap();
    reports.recv_timeout(PATIENCE).unwrap();
    for number in 0..5000 {
        writer.write(&CheckedSample::new(number)).unwrap();
    }
    let begin = Instant::now();
    drop((reader, writer));
    participant.delete_contained_entities().unwrap();
    DomainParticipantFactory::instance().delete_participant(&participant).unwrap();
    assert!(begin.elapsed() < PATIENCE / 2, "{:?}", begin.elapsed());
}

/// Takes nothing; may be stopped.
fn act_reads(folder: &Path) {
    let participant = join(folder);
    let _reader = participant.reader(&topic(&participant)).reliable_all().create().unwrap();
    say("ready");
    while listen().is_some() {}
}

/// A write that waits for room, and a wait for acknowledgments, with a stopped reader.
#[test]
fn writer_deletion_fails_calls_waiting_for_stopped_reader() {
    let domain = TestDomain::new();
    let config = ParticipantConfig::new().runtime_dir(domain.runtime_dir());
    let config = config.member_timeout(Timeout::FOREVER);
    let participant = DomainParticipant::with_config(0, config).unwrap();
    let writer = small_writer(&participant);
    let mut actor = Actor::start(module_path!(), "reads", &domain, 0);
    assert_eq!(actor.hear(), "ready");
    writer.wait_for_readers(1, SOON).unwrap();
    actor.signal(Signal::STOP);
    // Until it is stopped, the process acknowledges samples.
    until("it is stopped", || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", actor.pid())).unwrap();
        stat.rsplit_once(") ").unwrap().1.starts_with('T')
    });
    let deleted = |result: DdsResult<()>| {
        assert!(matches!(result, Err(DdsError::AlreadyDeleted(_))), "{result:?}")
    };
    std::thread::scope(|scope| {
        let writes = scope
            .spawn(|| (0..).find_map(|number| writer.write(&CheckedSample::new(number)).err()));
        until("the memory is full", || !writer.has_room_for(&CheckedSample::new(0)));
        let waits = scope.spawn(|| writer.wait_for_acknowledgments(SOON));
        std::thread::sleep(Duration::from_millis(50));
        assert!(!writes.is_finished() && !waits.is_finished());
        writer.clone().delete();
        deleted(writes.join().unwrap().map_or(Ok(()), Err));
        deleted(waits.join().unwrap());
    });
    actor.signal(Signal::CONT);
    actor.kill();
}

/// A wait set whose condition's reader is deleted, and a wait for a condition.
#[test]
fn reader_deletion_ends_wait_sets_and_fails_waiting_calls() {
    let domain = TestDomain::new();
    let participant = domain.join();
    let reader = participant.reader(&topic(&participant)).reliable_all().create().unwrap();
    let set = WaitSet::new();
    let condition = reader.condition(&ReadCondition::new(States::not_read()));
    set.attach(&condition).unwrap();
    std::thread::scope(|scope| {
        let sets = scope.spawn(|| set.wait(SOON).map(drop));
        let wants = ReadCondition::new(States::not_read());
        let other = reader.clone();
        let waits = scope.spawn(move || other.wait_for_condition(&wants, SOON));
        let other = reader.clone();
        let writers = scope.spawn(move || other.wait_for_writers(3, SOON));
        std::thread::sleep(Duration::from_millis(50));
        reader.clone().delete();
        assert!(matches!(waits.join().unwrap(), Err(DdsError::AlreadyDeleted(_))));
        assert!(matches!(writers.join().unwrap(), Err(DdsError::AlreadyDeleted(_))));
        assert!(sets.join().unwrap().is_ok(), "the next call on the reader says why");
    });
}

#[derive(DdsType, Clone, Copy, Debug, Default, PartialEq)]
struct KeyedState {
    #[dds(key)]
    id: u32,
    by: u32,
}

fn by_source(participant: &DomainParticipant) -> Topic<KeyedState> {
    let topic = participant.topic::<KeyedState>("States").atomic().by_source_timestamp();
    topic.create().unwrap()
}

/// Role whose clock is an hour ahead.
fn act_ahead(folder: &Path) {
    let participant = join(folder);
    let topic = by_source(&participant);
    let writer = participant.writer(&topic).create().unwrap();
    let reader = participant.reader(&topic).reliable().keep_last(1).create().unwrap();
    writer.wait_for_readers(2, SOON).unwrap();
    let hour = SystemTime::now() + Duration::from_secs(3600);
    for id in 0..10 {
        writer.write_w_timestamp(&KeyedState { id, by: 1 }, hour).unwrap();
    }
    say("written");
    assert_eq!(listen().as_deref(), Some("written"));
    say(&picture(&reader));
    while listen().is_some() {}
}

/// Returns the state of each instance: the last writer of each.
fn picture(reader: &DataReader<KeyedState>) -> String {
    let mut all = String::new();
    until("all instances are there", || {
        let samples = reader.read_data(.., Timeout::millis(10)).unwrap();
        let mut states: Vec<_> = samples.into_iter().map(|state| (state.id, state.by)).collect();
        states.sort_unstable();
        all = format!("{states:?}");
        states.len() == 20
    });
    all
}

/// With different clocks all readers have the same state: that of the writer whose clock is ahead.
#[test]
fn readers_agree_despite_different_clocks_of_writers() {
    let domain = TestDomain::new();
    let participant = domain.join();
    let topic = by_source(&participant);
    let writer = participant.writer(&topic).create().unwrap();
    let reader = participant.reader(&topic).reliable().keep_last(1).create().unwrap();
    let mut ahead = Actor::start(module_path!(), "has a clock ahead", &domain, 0);
    writer.wait_for_readers(2, SOON).unwrap();
    assert_eq!(ahead.hear(), "written");
    // Written later, but earlier by this clock; some instances have no other writer.
    for id in 0..20 {
        writer.write(&KeyedState { id, by: 2 }).unwrap();
    }
    writer.wait_for_acknowledgments(SOON).unwrap();
    ahead.tell("written");
    let theirs = ahead.hear();
    let ours = picture(&reader);
    assert_eq!(ours, theirs);
    let expected: Vec<_> = (0..20).map(|id| (id, if id < 10 { 1 } else { 2 })).collect();
    assert_eq!(ours, format!("{expected:?}"), "the later time stays, though the other came later");
    ahead.finish();
}
