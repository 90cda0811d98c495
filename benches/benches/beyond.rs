//! Cost of a sample in `write` and in a batched `take` beyond the multicast itself, and memory of
//! an instance.
//!
//! `cargo bench -p squall-benches --bench beyond -- [--rounds N] [--only NAME] [--fastest]`. A
//! writer and a reader of one participant run in one thread, beside the node alone over heap
//! memory, with as many turns: batches are written, then taken. Both sides alternate; the results
//! are medians of the rounds, in nanoseconds per sample. With `--fastest`, the result is the
//! fastest batch on each side, so that two versions can be compared on a busy machine.

use std::hint::black_box;
use std::time::{Duration, Instant};

use dds_api::prelude::*;
use derecho_core::multicast::bias::ThreadToken;
use squall_benches::LoneNode;

/// Samples in a batch.
const BATCH: u64 = 1000;
/// Batches in a round.
const BATCHES: u64 = 200;
/// Commits that share a turn, as in a writer.
const COMMITS_A_TURN: u64 = 32;
/// Time limit that is never reached.
const SOON: Timeout = Timeout::secs(10);

#[derive(DdsType, Clone, Debug, Default, PartialEq)]
struct Plain {
    number: u64,
    rest: [u64; 5],
}

#[derive(DdsType, Clone, Debug, Default, PartialEq)]
struct Keyed {
    #[dds(key)]
    id: u32,
    number: u64,
    rest: [u64; 4],
}

/// Time spent on writing and on taking: in all batches of a round, and in the fastest.
#[derive(Clone, Copy)]
struct BatchTimes {
    all: [Duration; 2],
    fastest: [Duration; 2],
}

impl BatchTimes {
    /// Returns the nanoseconds per sample of writing and of taking.
    fn each(self, fastest: bool) -> [f64; 2] {
        let (times, batches) = if fastest { (self.fastest, 1) } else { (self.all, BATCHES) };
        times.map(|time| time.as_nanos() as f64 / (BATCH * batches) as f64)
    }
}

/// Implementation that writes a batch, and takes it.
trait BatchBench {
    fn write(&mut self, first: u64);
    fn take(&mut self);

    fn round(&mut self) -> BatchTimes {
        let mut spent = BatchTimes { all: [Duration::ZERO; 2], fastest: [Duration::MAX; 2] };
        for batch in 0..BATCHES {
            let start = Instant::now();
            self.write(batch * BATCH);
            let written = Instant::now();
            self.take();
            for (side, time) in [written - start, written.elapsed()].into_iter().enumerate() {
                spent.all[side] += time;
                spent.fastest[side] = spent.fastest[side].min(time);
            }
        }
        spent
    }
}

/// A node that reads its own stream, in records of this length.
struct Multicast {
    alone: LoneNode,
    length: usize,
}

impl BatchBench for Multicast {
    fn write(&mut self, first: u64) {
        for number in first..first + BATCH {
            let length = self.length;
            // A claim as a writer's thread makes it: of the only thread, by its number.
            let claim = self.alone.memory.claim_on(ThreadToken::new(1), length);
            let mut claim = claim.expect("everything was taken");
            claim.bytes()[..length].fill(number as u8);
            let number = claim.commit_on(ThreadToken::new(1), length, |_, _| ());
            if number.is_multiple_of(COMMITS_A_TURN) {
                self.alone.turn();
            }
        }
    }

    fn take(&mut self) {
        let mut taken = 0;
        while taken < BATCH {
            if self.alone.inbox.is_empty() {
                self.alone.turn();
            }
            // SAFETY: one thread does all of this.
            let taking = unsafe { self.alone.inbox.consumer_unchecked() };
            while let Some(record) = taking.take() {
                black_box(record.bytes()[0]);
                taken += 1;
            }
        }
    }
}

/// Path of samples in the reader.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ReaderPath {
    /// Directly from its queues.
    Straight,
    /// Through its cache, which keeps all samples.
    Follows,
    /// Through its cache, which keeps the last sample of each instance.
    KeepsLast,
}

/// A writer and a reader.
struct Dds<T: DdsType, F> {
    writer: DataWriter<T>,
    reader: DataReader<T>,
    make: F,
}

impl<T: DdsType, F: Fn(u64) -> T> Dds<T, F> {
    fn new(participant: &DomainParticipant, name: &str, manner: ReaderPath, make: F) -> Dds<T, F> {
        let made = || {
            let topic = participant.topic::<T>(name).create()?;
            let writer = participant.writer(&topic).create()?;
            let reader = participant.reader(&topic).reliable_all();
            let reader = match manner {
                ReaderPath::Straight => reader,
                ReaderPath::Follows => reader,
                ReaderPath::KeepsLast => reader.keep_last(1),
            };
            let reader = reader.create()?;
            writer.wait_for_readers(1, SOON)?;
            DdsResult::Ok((writer, reader))
        };
        let (writer, reader) = made().expect("both are here");
        Dds { writer, reader, make }
    }
}

impl<T: DdsType, F: Fn(u64) -> T> BatchBench for Dds<T, F> {
    fn write(&mut self, first: u64) {
        for number in first..first + BATCH {
            self.writer.write(&(self.make)(number)).expect("there is room");
        }
    }

    fn take(&mut self) {
        let mut taken = 0;
        while taken < BATCH {
            for sample in self.reader.take_data(.., SOON).expect("the participant is there") {
                black_box(&*sample);
                taken += 1;
            }
        }
    }
}

fn keyed(instances: u64) -> impl Fn(u64) -> Keyed {
    move |number| Keyed { id: (number * 7 % instances) as u32, number, rest: [number; 4] }
}

/// Returns the bytes of memory that this process has.
fn resident() -> f64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok());
    kilobytes.unwrap_or(0.0) * 1024.0
}

/// Measures the memory of an instance with one kept sample of 48 bytes.
fn weigh(participant: &DomainParticipant) {
    const INSTANCES: u64 = 200_000;
    let side = Dds::new(participant, "weight", ReaderPath::KeepsLast, keyed(INSTANCES));
    let before = resident();
    for number in 0..INSTANCES {
        side.writer.write(&(side.make)(number)).expect("there is room");
        if number.is_multiple_of(BATCH) {
            side.reader.read_data(..1, Timeout::NOW).expect("the participant is there");
        }
    }
    side.reader.read_data(..1, SOON).expect("the participant is there");
    let each = (resident() - before) / INSTANCES as f64;
    println!("an instance with its last sample of 48 bytes: {each:.0} bytes, of {INSTANCES}");
}

struct Options {
    rounds: usize,
    only: Option<String>,
    fastest: bool,
}

fn options() -> Options {
    let mut options = Options { rounds: 9, only: None, fastest: false };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--rounds" => {
                let rounds = arguments.next().and_then(|rounds| rounds.parse().ok());
                options.rounds = rounds.filter(|rounds| *rounds > 0).unwrap_or(options.rounds);
            }
            "--fastest" => options.fastest = true,
            "--only" => options.only = arguments.next(),
            // A test only checks that the benchmark runs.
            "--test" => options.rounds = 1,
            _ => {}
        }
    }
    options
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn main() {
    let options = options();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let config = ParticipantConfig::new().runtime_dir(folder.path().join("run"));
    let participant = DomainParticipant::with_config(0, config).expect("nobody else is there");
    let plain = |number| Plain { number, rest: [number; 5] };
    let follows = |name, instances| -> Box<dyn BatchBench> {
        Box::new(Dds::new(&participant, name, ReaderPath::Follows, keyed(instances)))
    };
    let mut sides: Vec<(&str, Box<dyn BatchBench>)> = vec![
        // The same number of bytes: a header of 16, and 48.
        ("multicast", Box::new(Multicast { alone: LoneNode::over_heap(), length: 64 })),
        ("plain", Box::new(Dds::new(&participant, "plain", ReaderPath::Straight, plain))),
        ("plain, followed", Box::new(Dds::new(&participant, "one", ReaderPath::Follows, plain))),
        ("keyed, 1 instance", follows("keyed 1", 1)),
        ("keyed, 100 instances", follows("keyed 100", 100)),
        ("keyed, 1000 instances", follows("keyed 1000", 1000)),
    ];
    sides.retain(|(name, _)| options.only.as_ref().is_none_or(|only| name == only));
    let mut rounds = vec![Vec::new(); sides.len()];
    for _ in 0..options.rounds {
        for ((_, side), found) in sides.iter_mut().zip(&mut rounds) {
            found.push(side.round().each(options.fastest));
        }
    }
    let what = if options.fastest { "the fastest batches" } else { "medians" };
    println!("batches of {BATCH}, ns a sample, {what} of {} rounds", options.rounds);
    println!("{:<24} {:>8} {:>8} {:>14} {:>8}", "", "write", "take", "beyond: write", "take");
    let of = |found: &[[f64; 2]], side: usize| {
        let times = found.iter().map(|each| each[side]);
        if options.fastest { times.fold(f64::NAN, f64::min) } else { median(times) }
    };
    for ((name, _), found) in sides.iter().zip(&rounds) {
        let [write, take] = [0, 1].map(|side| of(found, side));
        let [more_write, more_take] = [0, 1].map(|side| match options.fastest {
            true => of(found, side) - of(&rounds[0], side),
            false => {
                median(found.iter().zip(&rounds[0]).map(|(each, base)| each[side] - base[side]))
            }
        });
        println!("{name:<24} {write:>8.1} {take:>8.1} {more_write:>14.1} {more_take:>8.1}");
    }
    if options.only.is_none() {
        weigh(&participant);
    }
}
