//! A writer whose process changes the keys of its samples in its own memory while other members
//! copy them into their stores.

use std::fs::read_to_string;
use std::path::Path;
use std::time::Instant;

use crate::support::{
    Actor, CheckedSample, PATIENCE, SOON, TestDomain, join, listen, reader_of, role, say, writer_of,
};
use dds_api::prelude::*;

/// Pattern in each sample, by which samples are found in memory.
const MARK: [u8; 60] = [b'q'; 60];
/// Number of samples that are written while their keys change.
const SAMPLES: u32 = 60_000;

#[derive(DdsType, Clone, Copy, Debug)]
struct KeyedSample {
    #[dds(key)]
    id: u32,
    mark: [u8; 60],
}

/// Role of a child process; does nothing when the test program is run normally.
#[test]
fn act() {
    match role() {
        Some((role, folder)) if role == "changes keys" => act_changing_writer(&folder),
        Some((role, _)) => panic!("no such role: {role}"),
        None => {}
    }
}

fn topic(participant: &DomainParticipant) -> Topic<KeyedSample> {
    participant.topic::<KeyedSample>("Parts").transient_local().keep_last(1).create().unwrap()
}

fn act_changing_writer(folder: &Path) {
    let participant = join(folder);
    let writer = participant.writer(&topic(&participant)).create().unwrap();
    say("ready");
    writer.wait_for_readers(1, SOON).unwrap();
    let write = |number: u32| writer.write(&KeyedSample { id: number % 7, mark: MARK });
    // Two passes through the memory, so that later samples occupy these positions again.
    (0..60_000).for_each(|number| write(number).unwrap());
    let addresses = keys_after_marks();
    assert!(addresses.len() > 100, "{} samples are found", addresses.len());
    std::thread::spawn(move || change(&addresses));
    // Its own store may be damaged.
    let written = (0..SAMPLES).filter(|number| write(*number).is_ok()).count();
    say(&format!("{written}"));
    while listen().is_some() {}
    std::process::exit(0);
}

/// Returns the positions in shared memory of the key hashes after samples.
fn keys_after_marks() -> Vec<usize> {
    let maps = read_to_string("/proc/self/maps").unwrap();
    let mut addresses = Vec::new();
    for map in maps.lines().filter(|map| map.contains(" rw-s ")) {
        let (start, end) = map.split(' ').next().and_then(|range| range.split_once('-')).unwrap();
        let [start, end] = [start, end].map(|at| usize::from_str_radix(at, 16).unwrap());
        let mut content = vec![0; end - start];
        let memory = std::fs::File::open("/proc/self/mem").unwrap();
        let read = std::os::unix::fs::FileExt::read_exact_at(&memory, &mut content, start as u64);
        if read.is_ok() {
            let ends = (64..content.len() - 16).step_by(16);
            let ends = ends.filter(|end| content[end - MARK.len()..*end] == MARK);
            addresses.extend(ends.map(|end| start + end));
        }
    }
    addresses
}

/// Changes these keys for the rest of the process's life.
fn change(addresses: &[usize]) {
    loop {
        for &at in addresses {
            let word = at as *mut u64;
            // SAFETY: the word lies in memory that is mapped while the participant exists, which
            // outlives this thread, and is aligned like each key after a plain sample. Concurrent
            // access by others is the purpose of this test.
            unsafe { word.write_volatile(word.read_volatile() ^ 1) };
        }
    }
}

#[test]
fn store_stays_valid_while_writer_changes_published_keys() {
    let domain = TestDomain::new();
    let participant = domain.join();
    let reader = participant.reader(&topic(&participant)).reliable_all().create().unwrap();
    let mut writer = Actor::start(module_path!(), "changes keys", &domain, 0);
    assert_eq!(writer.hear(), "ready");
    let done =
        std::thread::spawn(move || writer.hear().parse::<u32>().map(|written| (writer, written)));
    let (mut taken, deadline) = (0, Instant::now() + PATIENCE);
    while !done.is_finished() && Instant::now() < deadline {
        taken += reader.take_data(.., Timeout::millis(10)).unwrap().count();
    }
    let (mut writer, written) = done.join().unwrap().unwrap();
    assert_eq!(written, SAMPLES);
    assert!(taken > 0);
    writer.kill();
    // This participant works as before.
    let marks = reader_of(&participant, "Marks");
    let other = writer_of(&participant, "Marks");
    other.wait_for_readers(1, SOON).unwrap();
    other.write(&CheckedSample::new(5)).unwrap();
    assert_eq!(marks.take_next_data(SOON).unwrap().unwrap().number, 5);
}
