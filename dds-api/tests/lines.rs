//! Cache lines that a sample on its way from write to take leaves changed in shared memory, which
//! are the lines that move between the processors.
//!
//! Owns: the count, by comparing the memory that participants share before and after a batch.
//! `--nocapture` prints the table of `docs/internals/write-to-take.md`.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};

use dds_api::prelude::*;
use dds_api::topic::TopicBuilder;
use support::{SOON, TestDomain};

/// Bytes of a cache line.
const LINE: usize = 64;
/// Samples between two looks at the memory: a batch, for which the reader acknowledges once.
const BATCH: u64 = 64;

/// Contents of the memory that the participants of this process share, by the number of its file.
fn shared_memory() -> BTreeMap<u64, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in std::fs::read_dir("/proc/self/fd").unwrap() {
        let path = entry.unwrap().path();
        let is_arena = |to: std::path::PathBuf| to.to_string_lossy().contains("squall-arena");
        if !std::fs::read_link(&path).is_ok_and(is_arena) {
            continue;
        }
        let file = File::open(&path).unwrap();
        let metadata = file.metadata().unwrap();
        all.entry(metadata.ino()).or_insert_with(|| {
            let mut bytes = vec![0; metadata.len() as usize];
            file.read_exact_at(&mut bytes, 0).unwrap();
            bytes
        });
    }
    all
}

/// Number of lines that differ in each memory, the most first.
fn changed_lines(before: &BTreeMap<u64, Vec<u8>>, after: &BTreeMap<u64, Vec<u8>>) -> Vec<usize> {
    let count = |file: &u64| {
        let pairs = before[file].chunks(LINE).zip(after[file].chunks(LINE));
        pairs.filter(|(before, after)| before != after).count()
    };
    let mut counts: Vec<usize> = before.keys().map(count).collect();
    counts.sort_unstable_by(|a, b| b.cmp(a));
    counts
}

/// Lines that a batch changes in the writer's memory and in the reader's.
struct BatchLines {
    writer: usize,
    reader: usize,
}

fn lines_of_batch<T>(
    level: fn(TopicBuilder<T>) -> TopicBuilder<T>,
    sample: fn(u64) -> T,
) -> BatchLines
where
    T: DdsType + Clone + Copy + PartialEq + std::fmt::Debug,
{
    let domain = TestDomain::new();
    let (here, there) = (domain.join(), domain.join());
    let topic = |participant: &DomainParticipant| {
        level(participant.topic::<T>("Samples")).create().unwrap()
    };
    let writer = here.writer(&topic(&here)).create().unwrap();
    let reader = there.reader(&topic(&there)).reliable_all().create().unwrap();
    writer.wait_for_readers(1, SOON).unwrap();
    let exchange = |batch: u64| {
        let numbers = batch * BATCH..(batch + 1) * BATCH;
        numbers.clone().for_each(|number| writer.write(&sample(number)).unwrap());
        for number in numbers {
            assert_eq!(*reader.take_next_data(SOON).unwrap().unwrap(), sample(number));
        }
        writer.wait_for_acknowledgments(SOON).unwrap();
    };
    (0..40).for_each(exchange);
    // A turn for something else, such as a sign of life, changes a line more: the least counts.
    let counts = (40..48).map(|batch| {
        let before = shared_memory();
        exchange(batch);
        changed_lines(&before, &shared_memory())
    });
    let least = counts.min_by_key(|counts| counts.iter().sum::<usize>()).unwrap();
    assert_eq!(least.len(), 2, "both participants share memory");
    BatchLines { writer: least[0], reader: least[1] }
}

macro_rules! sized {
    ($name:ident, $bytes:literal) => {
        #[derive(DdsType, Clone, Copy, Debug, PartialEq)]
        struct $name {
            words: [u64; $bytes / 8],
        }

        impl $name {
            /// Every byte differs from that of the sample before in the same place.
            fn new(number: u64) -> $name {
                $name { words: [0x0101_0101_0101_0101 * (number % 251 + 1); $bytes / 8] }
            }
        }

        impl Default for $name {
            fn default() -> $name {
                $name::new(0)
            }
        }
    };
}

sized!(Of16, 16);
sized!(Of64, 64);
sized!(Of128, 128);
sized!(Of1024, 1024);

/// A record takes the bytes of the sample and 16 more, its entry takes 16: no other line of the
/// writer changes for each sample, and none of the reader.
#[test]
fn sample_changes_only_the_lines_of_its_record_and_entry() {
    let check = |level: &str, bytes: usize, lines: BatchLines| {
        let of_sample = (16 + bytes + 16) as f64 / LINE as f64;
        let (writer, reader) =
            (lines.writer as f64 / BATCH as f64, lines.reader as f64 / BATCH as f64);
        println!("| {bytes} B, {level} | {of_sample:.2} | {writer:.2} | {reader:.2} |");
        // Records and entries begin and end within lines; the heads of the memory change as well.
        assert!(writer <= of_sample + 0.2, "{level}, {bytes} B: {writer} lines of the writer");
        assert!(reader <= 0.2, "{level}, {bytes} B: {reader} lines of the reader");
    };
    check("atomic", 16, lines_of_batch(TopicBuilder::atomic, Of16::new));
    check("atomic", 64, lines_of_batch(TopicBuilder::atomic, Of64::new));
    check("atomic", 128, lines_of_batch(TopicBuilder::atomic, Of128::new));
    check("atomic", 1024, lines_of_batch(TopicBuilder::atomic, Of1024::new));
    check("unordered", 16, lines_of_batch(|topic| topic, Of16::new));
    check("unordered", 64, lines_of_batch(|topic| topic, Of64::new));
    check("unordered", 128, lines_of_batch(|topic| topic, Of128::new));
    check("unordered", 1024, lines_of_batch(|topic| topic, Of1024::new));
}
