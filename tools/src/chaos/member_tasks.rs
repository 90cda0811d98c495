//! Threads of a member that read and write.

use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use dds_api::prelude::*;

use super::journal::{Journal, JournalOwner, JournalRecord};
use super::member::MemberShared;
use super::sample::{ChaosLevel, CheckedSample, FeignedViolation, SampleId};
use crate::outcome::say;
use crate::perf::clock;

/// Timeout of one call of a reader.
const TAKE: Timeout = Timeout::millis(20);
/// Time without a successful write after which a writer records a stall.
const STALL: Duration = Duration::from_millis(250);
/// Deliveries before a planted violation, so that other readers have received the same samples.
const BEFORE_PLANT: u64 = 100;

/// A sample held by the application, with its value at the time it was taken.
pub(crate) struct HeldSample {
    sample: ValidSample<CheckedSample>,
    then: CheckedSample,
}

impl HeldSample {
    /// Reports to the cycle if the sample has changed.
    pub(crate) fn check(self) {
        if *self.sample != self.then {
            let _ = say(&format!("CORRUPT {} changed while it was held", SampleId(self.then.id)));
        }
    }
}

/// A thread that reads a topic.
pub(crate) struct ReaderTask {
    control: Arc<ReaderControl>,
    thread: JoinHandle<Vec<HeldSample>>,
}

#[derive(Default)]
struct ReaderControl {
    ends: AtomicBool,
    churns: AtomicBool,
    is_settled: AtomicBool,
    /// Ordinal of the reader that stays, once churn has ended.
    settled: OnceLock<String>,
}

impl ReaderTask {
    pub(crate) fn start(
        shared: Arc<MemberShared>,
        participant: DomainParticipant,
        topic: Topic<CheckedSample>,
        level: ChaosLevel,
    ) -> ReaderTask {
        let control = Arc::new(ReaderControl::default());
        let loop_ = ReaderLoop { shared, participant, topic, level, control: Arc::clone(&control) };
        ReaderTask { control, thread: std::thread::spawn(move || loop_.run()) }
    }

    pub(crate) fn churn(&self, is_on: bool) {
        self.control.churns.store(is_on, Ordering::Relaxed);
    }

    /// Ends churn, holding and slowness permanently.
    pub(crate) fn settle(&self) {
        self.control.is_settled.store(true, Ordering::Relaxed);
    }

    /// Waits for the reader that is not deleted any more, and returns its name; `None` if that
    /// takes longer than the limit.
    pub(crate) fn settled(&self, limit: Duration) -> Option<&str> {
        let end = Instant::now() + limit;
        while self.control.settled.get().is_none() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.control.settled.get().map(String::as_str)
    }

    /// Deletes the reader, and returns the samples that it held.
    pub(crate) fn end(self) -> Vec<HeldSample> {
        self.control.ends.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_default()
    }
}

struct ReaderLoop {
    shared: Arc<MemberShared>,
    participant: DomainParticipant,
    topic: Topic<CheckedSample>,
    level: ChaosLevel,
    control: Arc<ReaderControl>,
}

/// Ordinals of the readers of a process.
static READERS: AtomicU32 = AtomicU32::new(0);

impl ReaderLoop {
    fn run(self) -> Vec<HeldSample> {
        let mut held = VecDeque::new();
        let mut lives = 0;
        while !self.control.ends.load(Ordering::Relaxed) {
            lives += 1;
            self.live(lives, &mut held);
        }
        held.into()
    }

    fn is_settled(&self) -> bool {
        self.control.is_settled.load(Ordering::Relaxed)
    }

    /// Runs one reader from its creation to its deletion.
    fn live(&self, lives: u32, held: &mut VecDeque<HeldSample>) {
        let shared = &self.shared;
        let ordinal = READERS.fetch_add(1, Ordering::Relaxed);
        let owner = JournalOwner::Reader { level: self.level, process: shared.process, ordinal };
        // Writers identify readers by this name.
        let builder =
            self.participant.reader(&self.topic).reliable_all().user_data(owner.file_name());
        let Some(reader) = shared.succeeds("creating a reader", builder.create()) else { return };
        let mut journal = shared.journal(owner);
        shared.recorded(journal.record(JournalRecord::Began { time: clock::now() }));
        let mut recorder =
            Recorder { shared, level: self.level, deliveries: 0, kept_back: None, swapped_at: 0 };
        // A reader in churn lives for a few calls or for some milliseconds.
        let mut calls_left = 1 + (lives.wrapping_mul(0x9e37_79b9) >> 28);
        while !self.control.ends.load(Ordering::Relaxed) {
            let is_settled = self.is_settled();
            let churns = self.control.churns.load(Ordering::Relaxed) && !is_settled;
            if is_settled {
                self.control.settled.get_or_init(|| owner.file_name());
            }
            if churns {
                if calls_left == 0 {
                    break;
                }
                calls_left -= 1;
            }
            let timeout = if churns { Timeout::millis(1) } else { TAKE };
            self.take(&reader, timeout, &mut recorder, &mut journal, held);
        }
        // Samples discarded by the deletion of the reader were not delivered.
        reader.delete();
        let time = clock::now();
        shared
            .recorded(journal.record(JournalRecord::Deleted { time, count: recorder.deliveries }));
    }

    fn take(
        &self,
        reader: &DataReader<CheckedSample>,
        timeout: Timeout,
        recorder: &mut Recorder<'_>,
        journal: &mut Journal,
        held: &mut VecDeque<HeldSample>,
    ) {
        let shared = &self.shared;
        let is_settled = self.is_settled();
        let holds = if is_settled { 0 } else { shared.holds.load(Ordering::Relaxed) as usize };
        let pause = if is_settled { 0 } else { shared.pause.load(Ordering::Relaxed) };
        let before = reader.membership_changes();
        let Some(samples) = shared.succeeds("taking samples", reader.take_data(..64, timeout))
        else {
            return;
        };
        let samples: Vec<(ValidSample<CheckedSample>, CheckedSample)> = samples
            .map(|sample| {
                let mark = *sample;
                (sample, mark)
            })
            .collect();
        // This process may have been stopped since the call. Then other processes reuse the memory,
        // and the samples are invalid.
        if reader.membership_changes() != before || self.participant.is_isolated() {
            shared.isolated("the participant is isolated");
        }
        let now = clock::now();
        for (sample, mark) in samples {
            recorder.deliver(journal, &mark, now);
            if holds > 0 {
                held.push_back(HeldSample { sample, then: mark });
            }
        }
        shared.recorded(journal.flush());
        while held.len() > holds {
            if let Some(held) = held.pop_front() {
                held.check();
            }
        }
        if pause > 0 {
            std::thread::sleep(Duration::from_millis(u64::from(pause)));
        }
    }
}

/// Recorder of deliveries that also feigns planted violations.
struct Recorder<'a> {
    shared: &'a MemberShared,
    level: ChaosLevel,
    deliveries: u64,
    kept_back: Option<(JournalRecord, SampleId)>,
    /// Number of deliveries at the last swap.
    swapped_at: u64,
}

impl Recorder<'_> {
    fn deliver(&mut self, journal: &mut Journal, mark: &CheckedSample, delivered: u64) {
        let id = SampleId(mark.id);
        let mut is_whole = mark.is_whole();
        let written = mark.written;
        let record = match mark.last {
            0 => JournalRecord::Delivered { id, written, delivered },
            _ => JournalRecord::Closing { id, written, delivered },
        };
        self.deliveries += 1;
        let is_time = self.deliveries == BEFORE_PLANT && self.level == ChaosLevel::Atomic;
        let plant = self.shared.feigned;
        match plant {
            Some(FeignedViolation::Skip) if is_time => return,
            Some(FeignedViolation::Tail)
                if self.level == ChaosLevel::Atomic && self.deliveries > BEFORE_PLANT =>
            {
                return;
            }
            Some(FeignedViolation::Twice) if is_time => journal.add(record),
            Some(FeignedViolation::Change) if is_time => is_whole = false,
            Some(FeignedViolation::Swap)
                if self.level == ChaosLevel::Atomic && self.swap(journal, record, id) =>
            {
                return;
            }
            _ => {}
        }
        if !is_whole {
            journal.add(JournalRecord::Corrupt { id, time: delivered });
        }
        journal.add(record);
        if self.shared.feigned == Some(FeignedViolation::Isolate) && is_time {
            self.shared.isolated("feigned");
        }
    }

    /// Holds a record back until one of another writer arrives, and records that one first, again
    /// and again: another reader must have the same samples. Each writer's own order is kept.
    /// Returns whether the record has been handled.
    fn swap(&mut self, journal: &mut Journal, record: JournalRecord, id: SampleId) -> bool {
        let is_closing = matches!(record, JournalRecord::Closing { .. });
        let Some((earlier, other)) = self.kept_back.take() else {
            if self.deliveries >= self.swapped_at + BEFORE_PLANT && !is_closing {
                self.kept_back = Some((record, id));
                return true;
            }
            return false;
        };
        if other.writer() == id.writer() {
            journal.add(earlier);
            match is_closing {
                true => journal.add(record),
                false => self.kept_back = Some((record, id)),
            }
        } else {
            journal.add(record);
            journal.add(earlier);
            self.swapped_at = self.deliveries;
        }
        true
    }
}

/// A thread that writes a topic.
pub(crate) struct WriterTask {
    control: Arc<WriterControl>,
    thread: JoinHandle<()>,
}

struct WriterControl {
    ends: AtomicBool,
    /// Names of the readers that must be matched, and no others, before the closing sample
    /// is written.
    closing: Mutex<Option<BTreeSet<String>>>,
}

impl WriterTask {
    pub(crate) fn start(
        shared: Arc<MemberShared>,
        writer: DataWriter<CheckedSample>,
        level: ChaosLevel,
        ordinal: u32,
        burst: u32,
        pause: Duration,
    ) -> WriterTask {
        let control =
            Arc::new(WriterControl { ends: AtomicBool::new(false), closing: Mutex::new(None) });
        let theirs = Arc::clone(&control);
        let thread = std::thread::spawn(move || {
            let owner = JournalOwner::Writer { level, process: shared.process, ordinal };
            let journal = shared.journal(owner);
            let mut writing =
                WriterLoop { shared, writer, ordinal, level, journal, number: 0, success: 0 };
            writing.run(&theirs, burst, pause);
        });
        WriterTask { control, thread }
    }

    /// Writes the closing sample as soon as exactly these readers are matched. A reader of a
    /// process that was just killed stays matched until the other members detect the failure.
    pub(crate) fn close(&self, readers: BTreeSet<String>) {
        *self.control.closing.lock().unwrap_or_else(PoisonError::into_inner) = Some(readers);
    }

    /// Deletes the writer.
    pub(crate) fn end(self) {
        self.control.ends.store(true, Ordering::Relaxed);
        let _ = self.thread.join();
    }
}

struct WriterLoop {
    shared: Arc<MemberShared>,
    writer: DataWriter<CheckedSample>,
    level: ChaosLevel,
    ordinal: u32,
    journal: Journal,
    /// Number of the next sample.
    number: u64,
    /// Time of the last success.
    success: u64,
}

impl WriterLoop {
    fn run(&mut self, control: &WriterControl, burst: u32, pause: Duration) {
        self.success = clock::now();
        self.shared.recorded(self.journal.record(JournalRecord::Began { time: self.success }));
        let mut is_closed = false;
        while !control.ends.load(Ordering::Relaxed) {
            if !is_closed && self.may_close(control) && self.write(true) {
                is_closed = true;
                let id = SampleId::new(self.shared.process, self.ordinal, self.number - 1);
                let _ = say(&format!("CLOSED {} {}", self.level, id.0));
            }
            for _ in 0..burst {
                if is_closed || control.ends.load(Ordering::Relaxed) || !self.write(false) {
                    break;
                }
            }
            std::thread::sleep(pause);
            if self.shared.feigned == Some(FeignedViolation::Stall)
                && self.number > BEFORE_PLANT
                && !is_closed
            {
                std::thread::sleep(self.shared.limit + Duration::from_secs(1));
            }
        }
        self.writer.clone().delete();
        let (time, count) = (clock::now(), self.number);
        self.shared.recorded(self.journal.record(JournalRecord::Deleted { time, count }));
    }

    fn may_close(&self, control: &WriterControl) -> bool {
        let readers = control.closing.lock().unwrap_or_else(PoisonError::into_inner);
        readers.as_ref().is_some_and(|readers| self.is_matched_with(readers))
    }

    /// Whether these readers, and no others, are matched and receive what is written now.
    fn is_matched_with(&self, readers: &BTreeSet<String>) -> bool {
        let matched = self.writer.matched_subscriptions();
        let name = |handle: &InstanceHandle| {
            let data = self.writer.matched_subscription_data(*handle).ok()?;
            String::from_utf8(data.user_data.value).ok()
        };
        // A reader that has gone has no name.
        let names: Option<BTreeSet<String>> = matched.iter().map(name).collect();
        names.as_ref() == Some(readers) && self.writer.matched_readers() == readers.len()
    }

    /// Writes one sample: eight are copied, the next eight are built in place. Returns whether
    /// the sample is written.
    fn write(&mut self, last: bool) -> bool {
        let id = SampleId::new(self.shared.process, self.ordinal, self.number);
        let written = match self.number % 16 < 8 {
            true => self.writer.write(&CheckedSample::new(id, clock::now(), last)),
            false => self.writer.loan().and_then(|mut loan| {
                *loan = CheckedSample::new(id, clock::now(), last);
                loan.publish()
            }),
        };
        let is_written = self.shared.succeeds("writing", written).is_some();
        if is_written {
            let now = clock::now();
            if now - self.success > STALL.as_nanos() as u64 {
                let stalled = JournalRecord::Stalled { from: self.success, to: now };
                self.shared.recorded(self.journal.record(stalled));
            }
            self.success = now;
            self.number += 1;
        }
        is_written
    }
}
