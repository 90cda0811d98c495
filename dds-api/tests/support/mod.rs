//! Common parts of the tests with several processes: participants in a folder of their own, and
//! child processes that run this test program again in a role.
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use dds_api::prelude::*;
use rustix::process::{Pid, Signal};
use tempfile::TempDir;

/// Time limit above the duration of every action here.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// Time limit of calls.
pub(crate) const SOON: Timeout = Timeout::secs(60);

/// A sample that contains a check of its own integrity.
#[derive(DdsType, Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct CheckedSample {
    pub(crate) number: u64,
    /// Check value of the number, different for each number.
    pub(crate) check: [u64; 6],
    /// Non-zero for the last sample of a test.
    pub(crate) last: u64,
}

impl CheckedSample {
    pub(crate) fn new(number: u64) -> CheckedSample {
        let mut check = number;
        let check = std::array::from_fn(|_| {
            check = check.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29) ^ 0x5eed;
            check
        });
        CheckedSample { number, check, last: 0 }
    }

    pub(crate) fn last(number: u64) -> CheckedSample {
        CheckedSample { last: 1, ..CheckedSample::new(number) }
    }

    pub(crate) fn assert_whole(&self) {
        assert_eq!(
            self.check,
            CheckedSample::new(self.number).check,
            "sample {} is corrupt",
            self.number
        );
    }
}

/// Samples that a reader has received from one writer: every sample is whole and follows the
/// previous one.
#[derive(Debug, Default)]
pub(crate) struct ReceivedSequence {
    pub(crate) first: Option<u64>,
    pub(crate) next: u64,
    pub(crate) ended: bool,
}

impl ReceivedSequence {
    pub(crate) fn take_in(&mut self, mark: &CheckedSample) {
        mark.assert_whole();
        if self.first.is_some() {
            assert_eq!(mark.number, self.next, "a gap, or a sample twice");
        }
        self.first.get_or_insert(mark.number);
        self.next = mark.number + 1;
        self.ended = mark.last != 0;
    }
}

/// A folder in which participants meet. Fails the test if any file is left in it at the end.
pub(crate) struct TestDomain {
    folder: TempDir,
}

impl TestDomain {
    pub(crate) fn new() -> TestDomain {
        TestDomain { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn runtime_dir(&self) -> PathBuf {
        self.folder.path().join("run")
    }

    pub(crate) fn join(&self) -> DomainParticipant {
        join(&self.runtime_dir())
    }

    /// Returns the numbers that actors have written beside the folder, in files called `log-...`.
    pub(crate) fn logs(&self) -> Vec<(String, Vec<u64>)> {
        let files = std::fs::read_dir(self.folder.path()).unwrap().flatten();
        let logs = files.filter(|file| file.file_name().to_string_lossy().starts_with("log-"));
        let of_it =
            |path: &Path| (path.file_name().unwrap().to_string_lossy().into(), numbers(path));
        logs.map(|file| of_it(&file.path())).collect()
    }

    /// Removes the files that actors have written beside the folder.
    pub(crate) fn clean_logs(&self) {
        for file in std::fs::read_dir(self.folder.path()).unwrap().flatten() {
            if file.file_name().to_string_lossy().starts_with("log-") {
                std::fs::remove_file(file.path()).unwrap();
            }
        }
    }

    /// Checks that all participants have left or died, and that no file of them is left.
    pub(crate) fn assert_empty(&self) {
        let left: Vec<_> = std::fs::read_dir(self.folder.path()).unwrap().flatten().collect();
        assert!(left.is_empty(), "left behind: {left:?}");
        let shm = std::fs::read_dir("/dev/shm").into_iter().flatten().flatten();
        let named: Vec<_> =
            shm.filter(|entry| entry.file_name().to_string_lossy().contains("squall")).collect();
        assert!(named.is_empty(), "left in /dev/shm: {named:?}");
    }
}

/// Returns the contents of a file of numbers.
pub(crate) fn numbers(path: &Path) -> Vec<u64> {
    let bytes = std::fs::read(path).unwrap();
    bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect()
}

pub(crate) fn join(folder: &Path) -> DomainParticipant {
    let config = ParticipantConfig::new().runtime_dir(folder);
    DomainParticipant::with_config(0, config).unwrap()
}

pub(crate) fn writer_of(participant: &DomainParticipant, name: &str) -> DataWriter<CheckedSample> {
    let topic = participant.topic::<CheckedSample>(name).create().unwrap();
    let writer = participant.writer(&topic).memory(64 << 10).in_flight(256);
    writer.max_blocking_time(SOON).create().unwrap()
}

pub(crate) fn reader_of(participant: &DomainParticipant, name: &str) -> DataReader<CheckedSample> {
    let topic = participant.topic::<CheckedSample>(name).create().unwrap();
    participant.reader(&topic).reliable_all().create().unwrap()
}

/// Takes until the last sample of a test.
pub(crate) fn take_to_the_end(reader: &DataReader<CheckedSample>, got: &mut ReceivedSequence) {
    let deadline = Instant::now() + PATIENCE;
    while !got.ended {
        assert!(Instant::now() < deadline, "the last sample does not come: {got:?}");
        if let Some(sample) = reader.take_next_data(Timeout::millis(100)).unwrap() {
            got.take_in(&sample);
        }
    }
}

/// Waits until a condition holds.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "it did not come about that {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Pseudo-random numbers, the same on each run.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let word = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.roll() % bound
    }

    pub(crate) fn pause(&mut self, at_most: Duration) {
        let nanos = self.below(at_most.as_nanos() as u64);
        std::thread::sleep(Duration::from_nanos(nanos));
    }
}

const ROLE: &str = "SQUALL_TEST_ROLE";
const FOLDER: &str = "SQUALL_TEST_FOLDER";
const SEED: &str = "SQUALL_TEST_SEED";

/// Returns the role of this process and the runtime folder, if it is an actor.
pub(crate) fn role() -> Option<(String, PathBuf)> {
    Some((std::env::var(ROLE).ok()?, PathBuf::from(std::env::var_os(FOLDER)?)))
}

/// Returns the seed of this actor.
pub(crate) fn seed() -> u64 {
    std::env::var(SEED).unwrap().parse().unwrap()
}

/// Sends a line from an actor to its director. Does not use `println`, which a test harness
/// may capture.
pub(crate) fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "@{text}").unwrap();
    out.flush().unwrap();
}

/// Waits for the director's next line; `None` when the director has gone.
pub(crate) fn listen() -> Option<String> {
    let mut line = String::new();
    let length = std::io::stdin().lock().read_line(&mut line).unwrap_or(0);
    (length > 0).then(|| line.trim_end().to_owned())
}

/// A process that runs a role.
pub(crate) struct Actor {
    process: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Actor {
    /// Starts this program again in a role. It runs only the test named `act` of a module, whose
    /// `module_path!()` is given.
    pub(crate) fn start(module: &str, role: &str, domain: &TestDomain, seed: u64) -> Actor {
        // The path begins with the name of the program; names of tests do not.
        let act = match module.split_once("::") {
            Some((_, module)) => format!("{module}::act"),
            None => "act".to_owned(),
        };
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", &act, "--nocapture", "--test-threads=1"])
            .env(ROLE, role)
            .env(FOLDER, domain.runtime_dir())
            .env(SEED, seed.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let input = process.stdin.take();
        let output = BufReader::new(process.stdout.take().unwrap());
        Actor { process, input, output }
    }

    /// Returns the next line of the actor, if it is alive.
    pub(crate) fn try_hear(&mut self) -> Option<String> {
        loop {
            let mut line = String::new();
            if self.output.read_line(&mut line).unwrap() == 0 {
                return None;
            }
            // The harness prints before the actor's first line, on the same line.
            if let Some((_, said)) = line.trim_end().split_once('@') {
                return Some(said.to_owned());
            }
        }
    }

    pub(crate) fn hear(&mut self) -> String {
        self.try_hear().expect("the actor has ended without a word")
    }

    pub(crate) fn tell(&mut self, text: &str) {
        let input = self.input.as_mut().unwrap();
        writeln!(input, "{text}").unwrap();
        input.flush().unwrap();
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        rustix::process::kill_process(Pid::from_child(&self.process), signal).unwrap();
    }

    /// Kills the actor and waits for its end.
    pub(crate) fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Tells the actor to end, and waits for an orderly end.
    pub(crate) fn finish(mut self) {
        self.input = None;
        let status = self.process.wait().unwrap();
        assert!(status.success(), "{status}");
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Writes checked samples, counting them in `written`, until `over` is set, and then a last one.
/// Returns the total number.
pub(crate) fn write_until(
    over: &AtomicBool,
    written: &AtomicU64,
    writer: &DataWriter<CheckedSample>,
) -> u64 {
    while !over.load(Ordering::Relaxed) {
        let number = written.load(Ordering::Relaxed);
        writer.write(&CheckedSample::new(number)).unwrap();
        written.store(number + 1, Ordering::Relaxed);
    }
    let number = written.load(Ordering::Relaxed);
    writer.write(&CheckedSample::last(number)).unwrap();
    number + 1
}
