//! `squall chaos-member`: one process of a cycle. It obeys the lines on its standard input and
//! records events in journals.
//!
//! ```text
//!   cycle                                   member
//!                                      -->  READY               the participant is a member
//!   READER level on|off                <--
//!   CHURN level on|off                 <--
//!   WRITER level burst pause in-flight <--
//!   WRITER level off                   <--
//!   HOLD samples, SLOW milliseconds    <--
//!   DESCRIBE                           <--
//!                                      -->  DESCRIBED text
//!   SETTLE                             <--  no churn from now on
//!                                      -->  SETTLED reader w:level ...
//!   CLOSE level reader reader ...      <--  write the closing sample when exactly these match
//!                                      -->  CLOSED level sample
//!   LEAVE keep, or end of file         <--
//!                                      -->  ISOLATED why        at any time; the process ends
//! ```
//! SETTLED lists the readers and writers of the member.

use std::collections::BTreeMap;
use std::io::BufRead;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use clap::Args;
use dds_api::prelude::*;

use super::journal::{Journal, JournalOwner, JournalRecord};
use super::member_tasks::{HeldSample, ReaderTask, WriterTask};
use super::sample::{ChaosLevel, CheckedSample, FeignedViolation};
use crate::outcome::{CommandAnswer, CommandResult, Failure, say};
use crate::perf::clock;

/// Exit code of a member that was isolated.
pub(crate) const ISOLATED_CODE: i32 = 3;
/// Interval of the member's own clock tick.
const TICK: Duration = Duration::from_millis(10);
/// A tick that is late by more than this shows that the process got no processor.
const LATE: Duration = Duration::from_millis(100);

/// One process of `squall chaos`.
#[derive(Args, Debug)]
pub(crate) struct MemberArgs {
    /// Folder where participants meet.
    #[arg(long)]
    runtime_dir: PathBuf,
    /// Folder of logs.
    #[arg(long)]
    logs: PathBuf,
    /// Folder of journals.
    #[arg(long)]
    journals: PathBuf,
    /// Number of the process within its cycle.
    #[arg(long)]
    process: u32,
    /// Member timeout, in milliseconds.
    #[arg(long)]
    member_timeout: u64,
    /// Bound of recovery, in milliseconds.
    #[arg(long)]
    limit: u64,
    #[arg(long)]
    plant: Option<FeignedViolation>,
}

/// State shared by all threads of a member.
pub(crate) struct MemberShared {
    pub(crate) journals: PathBuf,
    pub(crate) process: u32,
    pub(crate) limit: Duration,
    pub(crate) feigned: Option<FeignedViolation>,
    /// Number of samples that each reader holds.
    pub(crate) holds: AtomicU32,
    /// Pause of readers between two calls, in milliseconds.
    pub(crate) pause: AtomicU32,
    /// Set when the participant is isolated or a thread has failed.
    is_over: AtomicBool,
    ends: AtomicBool,
}

impl MemberShared {
    /// Tells the cycle that this process is isolated, and ends the process.
    pub(crate) fn isolated(&self, why: &str) -> ! {
        self.end(&format!("ISOLATED {}", one_line(why)), ISOLATED_CODE)
    }

    /// Tells the cycle that a call failed that must not fail, and ends the process.
    pub(crate) fn failed(&self, what: &str) -> ! {
        self.end(&format!("FAILED {}", one_line(what)), 1)
    }

    /// Ends the process with this message as its last one: threads may be inside calls, and the
    /// other processes expect no further message. A second thread that finds a reason waits for
    /// the end that the first one has begun.
    fn end(&self, message: &str, code: i32) -> ! {
        if !self.is_over.swap(true, Ordering::Relaxed) {
            let _ = say(message);
            std::process::exit(code);
        }
        loop {
            std::thread::park();
        }
    }

    /// Returns a success; ends the process at an error other than a time-out.
    pub(crate) fn succeeds<T>(&self, what: &str, result: DdsResult<T>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(DdsError::Timeout(_)) => None,
            Err(DdsError::Isolated(why)) => self.isolated(&why),
            Err(error) => self.failed(&format!("{what}: {error}")),
        }
    }

    pub(crate) fn journal(&self, owner: JournalOwner) -> Journal {
        match Journal::create(&self.journals, owner) {
            Ok(journal) => journal,
            Err(error) => self.cannot_record(&error),
        }
    }

    pub(crate) fn recorded(&self, result: std::io::Result<()>) {
        if let Err(error) = result {
            self.cannot_record(&error);
        }
    }

    fn cannot_record(&self, error: &std::io::Error) -> ! {
        // A killed cycle removes the folder while its members run; then the message is not read.
        let _ = say(&format!("FAILED the journal cannot be written: {error}"));
        std::process::exit(1)
    }
}

fn one_line(text: &str) -> String {
    text.replace('\n', " | ")
}

struct ChaosMember {
    shared: Arc<MemberShared>,
    participant: DomainParticipant,
    topics: BTreeMap<ChaosLevel, Topic<CheckedSample>>,
    readers: BTreeMap<ChaosLevel, ReaderTask>,
    writers: BTreeMap<ChaosLevel, WriterTask>,
    /// Ordinals of endpoints within this process.
    endpoints: u32,
    held: Vec<HeldSample>,
}

/// Runs the command.
pub(crate) fn run(args: MemberArgs) -> CommandResult {
    // If the cycle is killed, its members die too, including stopped ones.
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL)).map_err(
        |error| Failure::new(format!("the death of the parent cannot be watched: {error}")),
    )?;
    let shared = Arc::new(MemberShared {
        journals: args.journals,
        process: args.process,
        limit: Duration::from_millis(args.limit),
        feigned: args.plant,
        holds: AtomicU32::new(0),
        pause: AtomicU32::new(0),
        is_over: AtomicBool::new(false),
        ends: AtomicBool::new(false),
    });
    let tick = tick(&shared);
    let config = ParticipantConfig::new()
        .runtime_dir(args.runtime_dir)
        .log_folder(args.logs)
        .member_timeout(Duration::from_millis(args.member_timeout));
    let participant = DomainParticipant::with_config(0, config)?;
    // The participant exists before the others have admitted it.
    while participant.view().1 == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    say("READY")?;
    let mut member = ChaosMember {
        shared: Arc::clone(&shared),
        participant,
        topics: BTreeMap::new(),
        readers: BTreeMap::new(),
        writers: BTreeMap::new(),
        endpoints: 0,
        held: Vec::new(),
    };
    let mut keeps = false;
    for line in std::io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        let words: Vec<&str> = line.split_whitespace().collect();
        if let ["LEAVE", keep] = words.as_slice() {
            keeps = *keep == "true";
            break;
        }
        member.obey(&words)?;
    }
    if shared.feigned == Some(FeignedViolation::Linger) {
        std::thread::sleep(3 * shared.limit + Duration::from_secs(60));
    }
    member.leave(keeps);
    shared.ends.store(true, Ordering::Relaxed);
    let _ = tick.join();
    Ok(CommandAnswer::Yes)
}

/// Records the times in which this process gets no processor, and checks whether the participant is
/// a member.
fn tick(shared: &Arc<MemberShared>) -> JoinHandle<()> {
    let shared = Arc::clone(shared);
    std::thread::spawn(move || {
        let mut journal = shared.journal(JournalOwner::Member { process: shared.process });
        let mut last = clock::now();
        while !shared.ends.load(Ordering::Relaxed) {
            std::thread::sleep(TICK);
            let now = clock::now();
            if now - last > LATE.as_nanos() as u64 {
                shared.recorded(journal.record(JournalRecord::Starved { from: last, to: now }));
            }
            last = now;
        }
    })
}

impl ChaosMember {
    fn obey(&mut self, words: &[&str]) -> Result<(), Failure> {
        let number = |word: &str| -> Result<u32, Failure> {
            word.parse().map_err(|_| Failure::new(format!("`{word}` is no number")))
        };
        match words {
            ["READER", level, switch] => self.set_reader(parse(level)?, *switch == "on")?,
            ["CHURN", level, switch] => {
                if let Some(reader) = self.readers.get(&parse(level)?) {
                    reader.churn(*switch == "on");
                }
            }
            ["WRITER", level, "off"] => {
                if let Some(writer) = self.writers.remove(&parse(level)?) {
                    writer.end();
                }
            }
            ["WRITER", level, burst, pause, in_flight] => {
                let pause = Duration::from_micros(u64::from(number(pause)?));
                self.add_writer(parse(level)?, number(burst)?, pause, number(in_flight)? as usize)?;
            }
            ["HOLD", samples] => self.shared.holds.store(number(samples)?, Ordering::Relaxed),
            ["SLOW", pause] => self.shared.pause.store(number(pause)?, Ordering::Relaxed),
            ["DESCRIBE"] => {
                say(&format!("DESCRIBED {}", one_line(&self.participant.describe())))?;
            }
            ["SETTLE"] => {
                let mut endpoints = String::from("SETTLED");
                self.readers.values().for_each(ReaderTask::settle);
                for (level, reader) in &self.readers {
                    let Some(name) = reader.settled(2 * self.shared.limit) else {
                        return Err(Failure::new(format!(
                            "the reader of the {level} topic is not created in time"
                        )));
                    };
                    endpoints.push_str(&format!(" {name}"));
                }
                for level in self.writers.keys() {
                    endpoints.push_str(&format!(" w:{level}"));
                }
                say(&endpoints)?;
            }
            ["CLOSE", level, readers @ ..] => {
                if let Some(writer) = self.writers.get(&parse(level)?) {
                    writer.close(readers.iter().map(ToString::to_string).collect());
                }
            }
            _ => return Err(Failure::new(format!("unknown member command `{}`", words.join(" ")))),
        }
        Ok(())
    }

    fn topic(&mut self, level: ChaosLevel) -> Option<Topic<CheckedSample>> {
        if let Some(topic) = self.topics.get(&level) {
            return Some(topic.clone());
        }
        let topic = self.shared.succeeds("creating a topic", level.topic(&self.participant))?;
        self.topics.insert(level, topic.clone());
        Some(topic)
    }

    fn set_reader(&mut self, level: ChaosLevel, is_on: bool) -> Result<(), Failure> {
        if !is_on {
            if let Some(reader) = self.readers.remove(&level) {
                self.held.extend(reader.end());
            }
            return Ok(());
        }
        if self.readers.contains_key(&level) {
            return Ok(());
        }
        let Some(topic) = self.topic(level) else { return Ok(()) };
        let (shared, participant) = (Arc::clone(&self.shared), self.participant.clone());
        self.readers.insert(level, ReaderTask::start(shared, participant, topic, level));
        Ok(())
    }

    fn add_writer(
        &mut self,
        level: ChaosLevel,
        burst: u32,
        pause: Duration,
        in_flight: usize,
    ) -> Result<(), Failure> {
        let Some(topic) = self.topic(level) else { return Ok(()) };
        if self.writers.contains_key(&level) {
            return Ok(());
        }
        let ordinal = self.endpoints;
        self.endpoints += 1;
        let builder = self.participant.writer(&topic).memory(64 << 10).in_flight(in_flight);
        let Some(writer) = self.shared.succeeds("creating a writer", builder.create()) else {
            return Err(Failure::new(format!(
                "a writer of the {level} topic was not created in time"
            )));
        };
        let shared = Arc::clone(&self.shared);
        self.writers.insert(level, WriterTask::start(shared, writer, level, ordinal, burst, pause));
        Ok(())
    }

    /// Deletes all entities in order. If `keeps` is set, held samples outlive the participant.
    fn leave(self, keeps: bool) {
        let ChaosMember { participant, topics, readers, writers, mut held, .. } = self;
        writers.into_values().for_each(WriterTask::end);
        held.extend(readers.into_values().flat_map(ReaderTask::end));
        if !keeps {
            held.clear();
        }
        drop(topics);
        drop(participant);
        if !held.is_empty() {
            // During this time the other processes reuse the memory that they may reuse.
            std::thread::sleep(Duration::from_millis(100));
        }
        for held in held {
            held.check();
        }
    }
}

fn parse(level: &str) -> Result<ChaosLevel, Failure> {
    level.parse().map_err(Failure::new)
}
