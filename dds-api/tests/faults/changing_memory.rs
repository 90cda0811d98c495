//! A writer whose process changes samples in its own memory after publishing them, and the
//! guarantees that a reader still has.

use std::fs::{File, read_to_string};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::str::from_utf8;

use crate::support::{Actor, PATIENCE, SOON, TestDomain, join, listen, role, say};
use dds_api::prelude::*;
use dds_api::topic::Bytes;

/// Bytes of the sample, by which the sample is found in the writer's memory.
const TEXT: [u8; 64] = [b'q'; 64];
/// A plain sample of the same bytes.
#[derive(DdsType, Clone, Copy, Debug)]
struct Letters {
    all: [u8; 64],
}

/// Role of a child process; does nothing when the test program is run normally.
#[test]
fn act() {
    match role() {
        Some((role, folder)) if role == "changes bytes" => act_changing_writer(&folder),
        Some((role, _)) => panic!("no such role: {role}"),
        None => {}
    }
}

/// Writes one sample of each topic, and then changes their bytes until the director has gone.
fn act_changing_writer(folder: &Path) {
    let participant = join(folder);
    let bytes = participant.topic::<Bytes>("Bytes").create().unwrap();
    let plain = participant.topic::<Letters>("Letters").create().unwrap();
    let bytes = participant.writer(&bytes).create().unwrap();
    let plain = participant.writer(&plain).create().unwrap();
    say("ready");
    bytes.wait_for_readers(1, SOON).unwrap();
    plain.wait_for_readers(2, SOON).unwrap();
    bytes.write_bytes(&TEXT).unwrap();
    plain.write(&Letters { all: TEXT }).unwrap();
    let memory = File::options().read(true).write(true).open("/proc/self/mem").unwrap();
    let places = places_of(&TEXT, &memory);
    assert!(places.len() >= 2, "the samples lie in {places:?}");
    say("changing");
    // Beginning of an incomplete UTF-8 character.
    let other = [0xf0; TEXT.len()];
    std::thread::spawn(|| {
        while listen().is_some() {}
        std::process::exit(0);
    });
    loop {
        for content in [&other, &TEXT] {
            places.iter().for_each(|at| memory.write_all_at(content, *at).unwrap());
        }
    }
}

/// Returns the positions of a pattern in memory that this process shares.
fn places_of(pattern: &[u8], memory: &File) -> Vec<u64> {
    let maps = read_to_string("/proc/self/maps").unwrap();
    let mut addresses = Vec::new();
    for map in maps.lines().filter(|map| map.contains(" rw-s ")) {
        let (start, end) = map.split(' ').next().and_then(|range| range.split_once('-')).unwrap();
        let [start, end] = [start, end].map(|at| u64::from_str_radix(at, 16).unwrap());
        let mut content = vec![0; (end - start) as usize];
        if memory.read_exact_at(&mut content, start).is_ok() {
            let at = (0..content.len()).filter(|at| content[*at..].starts_with(pattern));
            addresses.extend(at.map(|at| start + at as u64));
        }
    }
    addresses
}

#[test]
fn text_from_taken_bytes_stays_valid_while_writer_changes_memory() {
    let domain = TestDomain::new();
    let participant = domain.join();
    let bytes = participant.topic::<Bytes>("Bytes").create().unwrap();
    let plain = participant.topic::<Letters>("Letters").create().unwrap();
    let reader = participant.reader(&bytes).reliable_all().create().unwrap();
    let lending = participant.reader(&plain).reliable_all().create().unwrap();
    let copying = participant.reader(&plain).reliable_all().copied().create().unwrap();
    let mut writer = Actor::start(module_path!(), "changes bytes", &domain, 0);
    assert_eq!(writer.hear(), "ready");
    let frame = reader.take_next_data(SOON).unwrap().unwrap();
    let lent = lending.take_next_data(SOON).unwrap().unwrap();
    let copy = copying.take_next_data(SOON).unwrap().unwrap();
    assert!(frame.is_borrowed() && lent.is_borrowed() && !copy.is_borrowed());
    assert_eq!(writer.hear(), "changing");

    let own: &[u8] = &frame;
    let (first, copied) = (own.to_vec(), copy.all);
    let text = from_utf8(own);
    let deadline = std::time::Instant::now() + PATIENCE;
    // The writer really changes its published samples.
    let (mut bytes_changed, mut plain_changed) = (false, false);
    while !(bytes_changed && plain_changed) {
        assert!(std::time::Instant::now() < deadline, "nothing changes where it was written");
        bytes_changed |= frame.in_place() != first;
        plain_changed |= lent.all != copied;
    }
    for _ in 0..100_000 {
        assert_eq!(own, first, "bytes that were dereferenced have changed");
        assert_eq!(from_utf8(own).is_ok(), text.is_ok(), "a text has become another one");
        assert_eq!(copy.all, copied, "a copy has changed");
    }
    writer.kill();
    assert_eq!((&**frame, copy.all), (&*first, copied));
}

#[test]
fn readers_in_group_shared_domain_copy_samples_unless_limit_is_set() {
    let domain = TestDomain::new();
    let gid = rustix::process::getegid().as_raw().to_string();
    let config = || ParticipantConfig::new().runtime_dir(domain.runtime_dir());
    let participant = DomainParticipant::with_config(0, config().group(gid)).unwrap();
    let topic = participant.topic::<Letters>("Letters").create().unwrap();
    let writer = participant.writer(&topic).create().unwrap();
    let usual = participant.reader(&topic).reliable_all().create().unwrap();
    let trusting = participant.reader(&topic).reliable_all().max_held_percent(25).create().unwrap();
    writer.wait_for_readers(2, SOON).unwrap();
    writer.write(&Letters { all: TEXT }).unwrap();
    assert!(!usual.take_next_data(SOON).unwrap().unwrap().is_borrowed());
    assert!(trusting.take_next_data(SOON).unwrap().unwrap().is_borrowed());
}
