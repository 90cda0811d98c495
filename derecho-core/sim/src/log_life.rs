//! Life of one log on a disk that does its worst. The log is appended to, cut, replaced by
//! checkpoints, trimmed, killed at any step, and opened again.
//!
//! Owns: the events, and the rules that are checked: nothing reported as durable is lost or rolled
//! back (`durable`), reads return exactly what was appended (`prefix`), every change made by the
//! disk is found and located (`found`), nothing else stops a log (`opens`), and a failed log stays
//! failed (`failed`). Never does: anything of a log itself; the log is the product's.

use derecho_core::ids::NodeId;
use derecho_core::log::segment::FileHeader;
use derecho_core::log::stream::LogState;
use derecho_core::log::{
    DiskError, EpochId, EpochMark, GroupId, KeyHash, LogEntry, LogError, LogId, LogKey, LogLimits,
    LogOwner, LogRecord, RecordKind, Recovery, RecoveryCheck, SegmentRetention, StreamKey,
    StreamLog, Tail, Version, WallTime, folder, record,
};

use crate::disk::{DiskFaults, SimDisk};
use crate::random::Random;

const GROUP: GroupId = GroupId(7);
const STREAM: StreamKey = StreamKey(0xabc);

/// Hazards of a life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hazards {
    /// Loss of power, in addition to killed processes.
    pub power: bool,
    /// Failing syncs.
    pub failing_syncs: bool,
    /// A disk that is full now and then.
    pub full: bool,
    /// Flipped bits, and lost synced sectors.
    pub decay: bool,
    /// Sectors written in the place of others.
    pub misdirected: bool,
}

impl Hazards {
    /// All hazards.
    pub const ALL: Hazards =
        Hazards { power: true, failing_syncs: true, full: true, decay: true, misdirected: true };
}

/// Result of a life.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LogLifeReport {
    /// Number of messages appended.
    pub messages: u64,
    /// Number of commits reported as durable.
    pub commits: u64,
    /// Number of times the log was opened.
    pub openings: u64,
    /// Number of processes that ended at a planned step.
    pub crashes: u64,
    /// Number of torn tails that were cut.
    pub torn: u64,
    /// Number of syncs that failed.
    pub failed_syncs: u64,
    /// Number of times the disk was full.
    pub full: u64,
    /// Number of checkpoints made.
    pub checkpoints: u64,
    /// Number of segments dropped.
    pub dropped: u64,
    /// Number of cuts made.
    pub cuts: u64,
    /// Number of flipped bits and lost sectors.
    pub decays: u64,
    /// Number of misdirected sectors.
    pub misdirected: u64,
    /// Violations: the rule, and how it was broken.
    pub violations: Vec<String>,
}

impl LogLifeReport {
    /// Adds the counts of another life.
    pub fn add(&mut self, other: &LogLifeReport) {
        self.messages += other.messages;
        self.commits += other.commits;
        self.openings += other.openings;
        self.crashes += other.crashes;
        self.torn += other.torn;
        self.failed_syncs += other.failed_syncs;
        self.full += other.full;
        self.checkpoints += other.checkpoints;
        self.dropped += other.dropped;
        self.cuts += other.cuts;
        self.decays += other.decays;
        self.misdirected += other.misdirected;
        self.violations.extend(other.violations.iter().cloned());
    }
}

/// Message as it was appended.
#[derive(Clone)]
struct AppendedMessage {
    entry: LogEntry<'static>,
    payload: Vec<u8>,
}

impl AppendedMessage {
    fn is(&self, record: &LogRecord<'_>, version: u64) -> bool {
        let entry = LogEntry { payload: &self.payload, ..self.entry };
        *record == LogRecord { version: Version(version), entry }
    }
}

/// Reason why a process ended.
enum ProcessEnd {
    /// The process ended at a step, by its own failure, or because its time was up.
    Over,
    /// A rule is broken.
    Broken(String),
    /// The disk has misdirected data: later checks are meaningless.
    Spoilt,
}

/// Start of a comparison of the log with the appended messages.
#[derive(Clone, Copy)]
enum ComparisonStart {
    /// After a version.
    After(u64),
    /// From a time on.
    Since(u64),
}

type StepResult<T> = Result<T, ProcessEnd>;

fn broken<T>(rule: &str, how: impl std::fmt::Display) -> StepResult<T> {
    Err(ProcessEnd::Broken(format!("{rule}: {how}")))
}

struct LogLife {
    random: Random,
    disk: SimDisk,
    hazards: Hazards,
    report: LogLifeReport,
    /// All appended messages that may still be in the log.
    messages: Vec<AppendedMessage>,
    /// Highest version reported as durable.
    reported: u64,
    epoch: EpochId,
    time: u64,
    limits: LogLimits,
}

/// Runs the life of this seed.
pub fn live(seed: u64, hazards: Hazards) -> LogLifeReport {
    let mut random = Random::new(seed);
    let limits = LogLimits { segment_bytes: random.between(1000, 20_000) };
    let mut life = LogLife {
        disk: SimDisk::new(random.next_word()),
        random,
        hazards,
        report: LogLifeReport::default(),
        messages: Vec::new(),
        reported: 0,
        epoch: EpochId { view: 1, sequence: 0 },
        time: 1000,
        limits,
    };
    for _ in 0..12 {
        match life.process() {
            Err(ProcessEnd::Broken(how)) => {
                life.report.violations.push(format!("{how} (seed {seed})"));
                break;
            }
            Err(ProcessEnd::Spoilt) => break,
            Ok(()) | Err(ProcessEnd::Over) => {}
        }
        life.report.crashes += u64::from(life.disk.has_crashed());
        if life.disk.take_misdirected().is_some() {
            life.report.misdirected += 1;
            break;
        }
        if life.hazards.power && life.random.one_in(2) {
            life.disk.lose_power();
        } else {
            life.disk.kill();
        }
    }
    life.report
}

impl LogLife {
    /// Runs one process: opens the log, works and ends.
    fn process(&mut self) -> StepResult<()> {
        let mishaps = DiskFaults {
            crash_at: (!self.random.one_in(4)).then(|| self.random.between(1, 120)),
            failing_syncs: if self.hazards.failing_syncs && self.random.one_in(3) { 20 } else { 0 },
            room: (self.hazards.full && self.random.one_in(4)).then(|| self.random.below(60_000)),
            misdirected: if self.hazards.misdirected && self.random.one_in(10) { 10 } else { 0 },
        };
        self.disk.plan(mishaps);
        let fresh = LogId(u128::from(self.random.next_word()));
        let claimed = folder::claim(&mut self.disk, GROUP, fresh);
        let owner = self.unless_excused(claimed)?;
        let mut log = self.open(owner)?;
        for _ in 0..self.random.below(40) {
            self.work(&mut log)?;
            if let Some(file) = self.disk.take_misdirected() {
                return self.spoilt(owner, &file);
            }
        }
        if self.hazards.decay && self.reported == self.messages.len() as u64 && log.pending() == 0 {
            drop(log);
            self.disk.kill();
            self.decay(owner)?;
        }
        Ok(())
    }

    /// Ends the process for an error that the disk's faults explain; any other error breaks a rule.
    fn unless_excused<T>(&mut self, result: Result<T, LogError>) -> StepResult<T> {
        let error = match result {
            Ok(value) => return Ok(value),
            Err(error) => error,
        };
        if self.disk.has_crashed() {
            return Err(ProcessEnd::Over);
        }
        match &error {
            // The next call reports a new file that could not be begun.
            LogError::Failed | LogError::Disk { cause: DiskError::FailedSync, .. }
                if self.disk.faults.failing_syncs > 0 =>
            {
                self.report.failed_syncs += 1;
                Err(ProcessEnd::Over)
            }
            LogError::Disk { cause: DiskError::Full, .. } if self.disk.faults.room.is_some() => {
                self.report.full += 1;
                Err(ProcessEnd::Over)
            }
            // Misdirected data is found later than at the step that misdirected it.
            _ if self.disk.take_misdirected().is_some() => {
                self.report.misdirected += 1;
                Err(ProcessEnd::Spoilt)
            }
            LogError::Lost { .. } => broken("durable", error),
            _ => broken("opens", error),
        }
    }

    fn open(&mut self, owner: LogOwner) -> StepResult<StreamLog> {
        let check = if self.random.one_in(3) { RecoveryCheck::All } else { RecoveryCheck::Last };
        let opened =
            StreamLog::open(&mut self.disk, LogKey { owner, stream: STREAM }, self.limits, check);
        let (log, recovery) = self.unless_excused(opened)?;
        self.report.openings += 1;
        if let Some(file) = self.disk.take_misdirected() {
            self.spoilt(owner, &file)?;
        }
        self.report.torn += u64::from(recovery.torn.is_some());
        let last = log.durable().0;
        if last < self.reported || last > self.messages.len() as u64 {
            let (reported, appended) = (self.reported, self.messages.len());
            return broken(
                "durable",
                format!("{last} of {reported} that were reported, {appended} appended"),
            );
        }
        self.messages.truncate(last as usize);
        self.compare(&log, ComparisonStart::After(log.complete_from().0 - 1))?;
        self.epoch = self.epoch.max(log.tail().epoch);
        self.reported = last;
        Ok(log)
    }

    /// Checks that reads from this start return what was appended.
    fn compare(&mut self, log: &StreamLog, start: ComparisonStart) -> StepResult<()> {
        let (cursor, after, since) = match start {
            ComparisonStart::After(version) => (log.after(Version(version)), version, 0),
            ComparisonStart::Since(time) => (Ok(log.since(WallTime(time))), 0, time),
        };
        let mut cursor = match cursor {
            Ok(cursor) => cursor,
            Err(error) => return broken("prefix", error),
        };
        let first = after.max(log.complete_from().0 - 1);
        for version in first + 1..=log.durable().0 {
            let message = &self.messages[version as usize - 1];
            if message.entry.source_time.0 < since {
                continue;
            }
            let read = cursor.next(&mut self.disk, log);
            match read {
                Ok(Some(record)) if message.is(&record, version) => {}
                Ok(other) => {
                    let found = other.map(|record| record.version);
                    return broken("prefix", format!("{found:?} in place of {version}"));
                }
                Err(error) => return self.unless_excused(Err(error)),
            }
        }
        let end =
            cursor.next(&mut self.disk, log).map(|record| record.map(|record| record.version));
        match self.unless_excused(end)? {
            None => Ok(()),
            Some(more) => broken("prefix", format!("{more} after the end")),
        }
    }

    fn work(&mut self, log: &mut StreamLog) -> StepResult<()> {
        match self.random.below(24) {
            0 => self.checkpoint(log),
            1 => self.drop_some(log),
            2 => self.cut(log),
            3 => self.note(log),
            4 => {
                let first = log.complete_from().0 - 1;
                let after = self.random.between(first, log.durable().0);
                self.compare(log, ComparisonStart::After(after))
            }
            5 => {
                let since = self.random.between(1000, self.time);
                self.compare(log, ComparisonStart::Since(since))
            }
            6 => self.look_at_state(log),
            _ => self.append(log),
        }
    }

    fn append(&mut self, log: &mut StreamLog) -> StepResult<()> {
        for _ in 0..self.random.between(1, 6) {
            let message = self.message();
            let appended =
                log.append(LogEntry { payload: &message.payload, ..message.entry }, &self.disk);
            self.messages.push(message);
            self.report.messages += 1;
            let version = self.unless_excused(appended)?;
            if version.0 != self.messages.len() as u64 {
                return broken("prefix", format!("{version} was given to {}", self.messages.len()));
            }
        }
        if self.random.one_in(8) {
            // The message goes with the next commit, or not at all.
            return Ok(());
        }
        self.commit(log)
    }

    fn message(&mut self) -> AppendedMessage {
        // Clocks of writers differ.
        self.time += self.random.below(20);
        let length = if self.random.one_in(5) { 4000 } else { 200 };
        let mut payload = vec![0; self.random.below(length) as usize];
        if !self.random.one_in(4) {
            payload.iter_mut().for_each(|byte| *byte = self.random.next_word() as u8);
        }
        let kinds = [
            RecordKind::Sample,
            RecordKind::Sample,
            RecordKind::Disposed,
            RecordKind::Unregistered,
        ];
        let entry = LogEntry {
            kind: kinds[self.random.below(4) as usize],
            epoch: self.epoch,
            writer: NodeId(u128::from(self.random.below(3))),
            writer_sequence: self.messages.len() as u64,
            source_time: WallTime(self.time - self.random.below(100)),
            reception_time: WallTime(self.time),
            key: KeyHash([self.random.below(5) as u8; 16]),
            payload: &[],
        };
        AppendedMessage { entry, payload }
    }

    fn commit(&mut self, log: &mut StreamLog) -> StepResult<()> {
        let before = log.durable();
        let mut done = log.commit(&mut self.disk);
        if done.as_ref().is_err_and(LogError::is_full) && log.state() == LogState::Open {
            self.report.full += 1;
            if self.random.one_in(2) {
                return Err(ProcessEnd::Over);
            }
            self.disk.faults.room = None;
            done = log.commit(&mut self.disk);
        }
        match done {
            Ok(version) => {
                if version.0 != self.messages.len() as u64 || version != log.durable() {
                    return broken("durable", format!("{version} of {}", self.messages.len()));
                }
                self.report.commits += 1;
                self.reported = version.0;
                Ok(())
            }
            Err(error) => {
                if log.state() == LogState::Failed {
                    let again = log.commit(&mut self.disk);
                    if again != Err(LogError::Failed) || log.durable() != before {
                        return broken(
                            "failed",
                            format!("{again:?} and {} of {before}", log.durable()),
                        );
                    }
                }
                self.unless_excused(Err(error))
            }
        }
    }

    /// Returns the last message of each instance, of those that can still be known.
    fn state(
        &self,
        log: &StreamLog,
        known: impl Fn(&AppendedMessage) -> bool,
    ) -> Vec<(KeyHash, u64)> {
        let gone = log.checkpointed().map_or(0, |version| version.0)..log.complete_from().0 - 1;
        let mut state = std::collections::BTreeMap::new();
        for (message, version) in self.messages.iter().zip(1..=log.durable().0) {
            if known(message) && !gone.contains(&(version - 1)) {
                state.insert(message.entry.key, version);
            }
        }
        state.into_iter().collect()
    }

    fn look_at_state(&mut self, log: &StreamLog) -> StepResult<()> {
        let expected = self.state(log, |_| true);
        let state = log.last_of_each_key(&mut self.disk, log.durable());
        let state = self.unless_excused(state)?;
        for (key, owned) in &state {
            let record = owned.record();
            if !self.messages[record.version.0 as usize - 1].is(&record, record.version.0) {
                return broken("prefix", format!("the state of {key:?} differs"));
            }
        }
        let found: Vec<_> =
            state.iter().map(|(key, owned)| (*key, owned.record().version.0)).collect();
        if found != expected {
            return broken("prefix", format!("the state {found:?} in place of {expected:?}"));
        }
        Ok(())
    }

    fn checkpoint(&mut self, log: &mut StreamLog) -> StepResult<()> {
        self.commit(log)?;
        if log.checkpointed().is_none() && log.complete_from() > Version(1) {
            return Ok(());
        }
        let made = if self.random.one_in(4) {
            // As if another member's log had been taken over: it extends further.
            for _ in 0..self.random.below(5) {
                let message = self.message();
                self.messages.push(message);
            }
            let tail = Tail { epoch: self.epoch, version: Version(self.messages.len() as u64) };
            let mut last = std::collections::BTreeMap::new();
            for (message, version) in self.messages.iter().zip(1..) {
                last.insert(message.entry.key, version);
            }
            let mut versions: Vec<u64> = last.into_values().collect();
            versions.sort_unstable();
            let messages = &self.messages;
            let records = versions.into_iter().map(|version| {
                let message = &messages[version as usize - 1];
                let entry = LogEntry { payload: &message.payload, ..message.entry };
                LogRecord { version: Version(version), entry }
            });
            log.put_checkpoint(&mut self.disk, tail, records)
        } else {
            log.checkpoint_last_of_each_key(&mut self.disk)
        };
        if made.as_ref().is_err_and(LogError::is_full) {
            // The log is unchanged, or ends with this process.
            return self.unless_excused(made);
        }
        self.unless_excused(made)?;
        self.report.checkpoints += 1;
        self.reported = self.messages.len() as u64;
        self.look_at_state(log)
    }

    fn drop_some(&mut self, log: &mut StreamLog) -> StepResult<()> {
        let keep = SegmentRetention {
            bytes: self.random.one_in(2).then(|| self.random.below(40_000)),
            messages: self.random.one_in(2).then(|| self.random.below(100)),
            nanos: self.random.one_in(2).then(|| self.random.below(500)),
        };
        let after = self.random.between(log.complete_from().0 - 1, log.durable().0);
        let pinned = log.pin(Version(after));
        let pin = self.unless_excused(pinned)?;
        let dropped = log.retain(&mut self.disk, keep, WallTime(self.time));
        self.report.dropped += self.unless_excused(dropped)? as u64;
        // I-88: all messages after the pin are still there.
        self.compare(log, ComparisonStart::After(after))?;
        log.unpin(pin);
        Ok(())
    }

    fn cut(&mut self, log: &mut StreamLog) -> StepResult<()> {
        self.commit(log)?;
        let floor =
            log.checkpointed().map_or(0, |version| version.0).max(log.complete_from().0 - 1);
        let version = self.random.between(floor, log.durable().0);
        // From here on the cut may have happened.
        self.reported = version;
        let cut = log.cut_after(&mut self.disk, Version(version));
        self.unless_excused(cut)?;
        self.messages.truncate(version as usize);
        self.report.cuts += 1;
        Ok(())
    }

    fn note(&mut self, log: &mut StreamLog) -> StepResult<()> {
        let mark = if self.random.one_in(2) {
            EpochMark::Cut(self.epoch, log.tail().version)
        } else {
            self.epoch.sequence += 1;
            EpochMark::Begun(self.epoch, vec![log.owner().log])
        };
        let marked = log.mark(&mark, WallTime(self.time), &self.disk);
        self.unless_excused(marked)?;
        self.commit(log)?;
        let known = log.marks().any(|other| *other == mark);
        if known { Ok(()) } else { broken("prefix", format!("{mark:?} is not there")) }
    }

    fn look(&mut self, owner: LogOwner) -> Result<(StreamLog, Recovery), LogError> {
        StreamLog::read(&mut self.disk, LogKey { owner, stream: STREAM }, RecoveryCheck::All)
    }

    /// Checks that a misdirected sector is found, or that the missing data is reported as torn.
    fn spoilt(&mut self, owner: LogOwner, file: &str) -> StepResult<()> {
        self.report.misdirected += 1;
        self.disk.kill();
        match self.look(owner) {
            Err(_) => {}
            Ok((log, recovery)) => {
                if recovery.torn.is_none() && log.durable().0 < self.reported {
                    return broken(
                        "found",
                        format!("a sector in {file} that belongs to another one"),
                    );
                }
                self.messages.truncate(log.durable().0 as usize);
                self.compare(&log, ComparisonStart::After(log.complete_from().0 - 1))?;
            }
        }
        Err(ProcessEnd::Spoilt)
    }

    /// Flips a bit or loses a synced sector, and checks that this is found and located.
    fn decay(&mut self, owner: LogOwner) -> StepResult<()> {
        let files = self.disk.files();
        for _ in 0..4 {
            let file = &files[self.random.below(files.len() as u64) as usize];
            let length = self.disk.bytes(file).len() as u64;
            if length == 0 || FileHeader::parse_name(file).is_none() {
                continue;
            }
            let before = self.disk.bytes(file).to_vec();
            let bit = self.random.below(length * 8);
            self.disk.flip(file, bit);
            self.report.decays += 1;
            let found = self.look(owner).map(|_| ());
            self.disk.flip(file, bit);
            assert_eq!(self.disk.bytes(file), before, "the flip is undone");
            let located = match &found {
                Err(LogError::BadRecord { file: named, offset, version, .. }) => {
                    let longest = self.longest_before(version.0);
                    named == file && (*offset..offset + longest).contains(&(bit / 8))
                }
                Err(LogError::BadHeader { file: named } | LogError::Format { file: named, .. }) => {
                    named == file && bit < 128 * 8
                }
                _ => false,
            };
            if !located {
                return broken(
                    "found",
                    format!("bit {bit} of {file}, {length} bytes, flipped: {found:?}"),
                );
            }
        }
        Ok(())
    }

    /// Returns the maximum size of the record at a place where this version is expected, which may
    /// also be a mark.
    fn longest_before(&self, version: u64) -> u64 {
        let message = self.messages.get(version.saturating_sub(1) as usize);
        let own = message.map_or(0, |message| record::size(message.payload.len()));
        // A checkpoint leaves versions out, so a later one may be there.
        let any = self.messages.iter().map(|message| record::size(message.payload.len())).max();
        own.max(any.unwrap_or(0)).max(record::size(64)) as u64
    }
}
