//! A participant that receives and answers, but whose stores no other participant sees: the others
//! continue without it (I-336).

use std::cell::Cell;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use dds_api::prelude::*;
use rustix::mm::{MapFlags, ProtFlags, mmap};

use crate::support::{Actor, CheckedSample, SOON, TestDomain, listen, role, say, until};

const MEMBER_TIMEOUT: Duration = Duration::from_millis(500);
/// Five member timeouts, plus the delay of a busy machine.
const FOUND_WITHIN: Duration = Duration::from_secs(20);

/// A participant, with its reader and its writer of the topic.
struct TestMember {
    participant: DomainParticipant,
    reader: DataReader<CheckedSample>,
    writer: DataWriter<CheckedSample>,
}

impl TestMember {
    fn join(folder: &Path) -> TestMember {
        let config = ParticipantConfig::new().runtime_dir(folder).member_timeout(MEMBER_TIMEOUT);
        let participant = DomainParticipant::with_config(0, config).unwrap();
        let topic = participant.topic::<CheckedSample>("Marks").atomic().create().unwrap();
        let reader = participant.reader(&topic).reliable_all().create().unwrap();
        let writer = participant.writer(&topic).max_blocking_time(Timeout::millis(20));
        let writer = writer.create().unwrap();
        TestMember { participant, reader, writer }
    }

    /// Returns the number of the last received sample.
    fn last(&self) -> Option<u64> {
        let samples = self.reader.take_data(.., Timeout::millis(2)).unwrap();
        samples.map(|sample| sample.number).last()
    }
}

/// Role of the child process; does nothing when the test program is run normally.
#[test]
fn act() {
    let Some((_, folder)) = role() else { return };
    let member = TestMember::join(&folder);
    member.writer.wait_for_readers(3, SOON).unwrap();
    say("ready");
    assert_eq!(listen().as_deref(), Some("numb"));
    keep_stores_private();
    say("numb");
    until("it is isolated", || member.participant.is_isolated());
    say("isolated");
}

/// Replaces the mappings of this process's shared memory by private ones of the same content, so
/// that its stores are not visible to others.
fn keep_stores_private() {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let mut count = 0;
    for line in maps.lines().filter(|line| line.contains("memfd:squall-arena")) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [range, "rw-s", offset, _, inode, ..] = words[..] else { continue };
        let (start, end) = range.split_once('-').unwrap();
        let number = |word: &str| usize::from_str_radix(word, 16).unwrap();
        let (start, end, offset) = (number(start), number(end), number(offset));
        let is_it = |path: &Path| {
            std::fs::metadata(path).is_ok_and(|it| it.ino() == inode.parse::<u64>().unwrap())
        };
        let descriptors = std::fs::read_dir("/proc/self/fd").unwrap();
        let path = descriptors.map(|it| it.unwrap().path()).find(|path| is_it(path)).unwrap();
        let memory = std::fs::File::open(path).unwrap();
        // SAFETY: the pages stay mapped, with the same content and the same rights.
        let mapped = unsafe {
            let flags = MapFlags::PRIVATE | MapFlags::FIXED;
            let rights = ProtFlags::READ | ProtFlags::WRITE;
            mmap(start as *mut _, end - start, rights, flags, memory.as_fd(), offset as u64)
        };
        assert_eq!(mapped.unwrap() as usize, start);
        count += 1;
    }
    assert!(count > 0, "the process has memory of its own:\n{maps}");
}

#[test]
fn participant_with_invisible_stores_is_excluded_from_view() {
    let domain = TestDomain::new();
    let folder = domain.runtime_dir();
    let (here, there) = (TestMember::join(&folder), TestMember::join(&folder));
    let mut child = Actor::start(module_path!(), "numb", &domain, 0);
    assert_eq!(child.hear(), "ready");
    here.writer.wait_for_readers(3, SOON).unwrap();
    let number = Cell::new(0);
    let write = || match here.writer.write(&CheckedSample::new(number.get())) {
        Ok(()) => number.set(number.get() + 1),
        Err(DdsError::Timeout(_)) => {}
        Err(error) => panic!("{error}"),
    };
    let last = || {
        here.last();
        there.last()
    };
    until("samples come", || {
        write();
        last().is_some_and(|number| number > 10)
    });
    child.tell("numb");
    assert_eq!(child.hear(), "numb");
    let begin = Instant::now();
    while here.participant.view().1 == 3 {
        write();
        last();
        assert!(begin.elapsed() < FOUND_WITHIN, "{}", here.participant.describe());
    }
    println!("left out after {:?}", begin.elapsed());
    assert!(begin.elapsed() >= 4 * MEMBER_TIMEOUT, "it was asked why: {:?}", begin.elapsed());
    assert_eq!(child.hear(), "isolated");
    let first = number.get();
    until("samples come again", || {
        write();
        last().is_some_and(|number| number > first)
    });
    assert_eq!((here.participant.view().1, there.participant.view().1), (2, 2));
    child.kill();
}
