//! Execution of log tasks, with the log, its disk, and the folders in reach.
//!
//! Owns: the steps, the same on real disks and on simulated ones. Never does: wait, or take a lock
//! of another process.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::checkpoint_state::CheckpointState;
use super::log_damage::LogDamage;
use super::log_election::LogClaim;
use super::log_port::{LogTask, LogTaskResult};
use super::store::{RecordFormat, Store, StoreRetention};
use crate::fault::{Fault, planted};
use crate::group::log_register::LogRegistration;
use crate::group::report::StreamId;
use crate::ids::RegionId;
use crate::log::aside;
use crate::log::checkpoint::Checkpoint;
use crate::log::record::{AsRecord, LONGEST};
use crate::log::restart::{self, FoundLog, LogCompletion, LogSummary, Restart, RestartVerdict};
use crate::log::restart_permission::RestartPermission;
use crate::log::stream::LogState;
use crate::log::views::{self, VIEWS};
use crate::log::{
    self, Disk, EpochId, LogError, LogId, LogKey, LogRecord, OwnedRecord, RecoveryCheck, StreamKey,
    StreamLog, Tail, Version, folder,
};
use crate::log::{EpochMark, WallTime};

/// Bytes that are appended before they are written and synced.
const PIECE: usize = 4 << 20;

/// Bits of a message's number in its stream; the higher bits identify the stream among
/// its writer's.
const NUMBER: u32 = 40;

/// Encodes a message's stream and number as one word for a log. Streams of one writer are
/// distinguished if the writer has no more than 2^24 of them in its life.
pub(crate) fn sequence_of(stream: StreamId, number: u64) -> u64 {
    stream.region.0 << NUMBER | number
}

/// Returns the message that a log record belongs to.
pub fn message_of(record: &LogRecord<'_>) -> (StreamId, u64) {
    let sequence = record.entry.writer_sequence;
    let region = RegionId(sequence >> NUMBER);
    (StreamId { node: record.entry.writer, region }, sequence & ((1 << NUMBER) - 1))
}

/// Content of a log, as it was read.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LogContent {
    /// State in the log's checkpoint, if it has one.
    pub state: Option<OwnedRecord>,
    /// Messages after that, as far as they were requested.
    pub messages: Vec<OwnedRecord>,
    /// End of the log.
    pub tail: Tail,
}

/// Another folder in reach.
pub struct ReachableFolder<D> {
    /// Identity of the folder.
    pub log: LogId,
    /// Files of the folder, for reading.
    pub disk: D,
    /// Whether another process may be writing in the folder.
    pub busy: bool,
    /// The folder's log, as far as it was read before.
    pub open_log: Option<StreamLog>,
    /// Damage of the folder's log, if it was found before and the files have not changed since, or
    /// is found now.
    pub damage: Option<LogDamage>,
}

impl<D: Disk> ReachableFolder<D> {
    /// Reads the log of a stream. Sealed files are assumed sound unless `check` says otherwise.
    /// Damage is remembered.
    pub(super) fn sound(
        &mut self,
        stream: StreamKey,
        check: RecoveryCheck,
    ) -> Result<StreamLog, LogError> {
        if let Some(damage) = &self.damage {
            return Err(damage.error.clone());
        }
        let owner = folder::owner(&mut self.disk)?;
        let owner = owner.filter(|owner| owner.log == self.log).ok_or(LogError::Failed)?;
        let read = StreamLog::read(&mut self.disk, LogKey { owner, stream }, check);
        if let Err(error) = &read
            && error.is_damage()
        {
            self.damage =
                Some(LogDamage::of(&mut self.disk, LogKey { owner, stream }, error.clone()));
        }
        read.map(|(log, _)| log)
    }
}

/// Performs a log task. Either all records appended before are durable, or the log has failed. If
/// the disk was full, the log may be opened again, and the task may be repeated.
pub fn run<D: Disk, N: Disk>(
    task: &LogTask,
    log: &mut StreamLog,
    disk: &mut D,
    neighbours: &mut [ReachableFolder<N>],
) -> LogTaskResult {
    let done = match task {
        LogTask::Claim(vacant) => claim(log, disk, neighbours, *vacant)
            .map(|claim| LogTaskResult::Claimed(Box::new(claim))),
        LogTask::Load(retention, format, number_ends) => {
            let store = Store::new(*retention, *format);
            load(log, disk, store, number_ends).map(|store| LogTaskResult::Loaded(Box::new(store)))
        }
        LogTask::Complete(of, last, (base, era)) => {
            complete(log, disk, neighbours, of, *last, *base, *era)
        }
        LogTask::Read(number_ends) => {
            read_content(log, disk, number_ends).map(|it| LogTaskResult::Content(Box::new(it)))
        }
        LogTask::Checkpoint(version, state) => checkpoint(log, disk, *version, state),
        LogTask::Register => find_registration(log, disk, neighbours),
        LogTask::Replace(state, (base, era)) => {
            let mut lengths = state.messages().map(|it| it.as_record().entry.payload.len());
            if let Some(length) = lengths.find(|length| *length > LONGEST) {
                return LogTaskResult::Failed(LogError::TooLong { length });
            }
            replace(log, disk, state, *base, *era).map(|()| LogTaskResult::Replaced)
        }
    };
    done.unwrap_or_else(LogTaskResult::Failed)
}

/// Copies the content of folders that no process uses, and reports what exists.
fn claim<D: Disk, N: Disk>(
    log: &mut StreamLog,
    disk: &mut D,
    neighbours: &mut [ReachableFolder<N>],
    vacant: bool,
) -> Result<LogClaim, LogError> {
    let own = log.owner().log;
    let (mut accounts, mut awaits, mut logs) = (Vec::new(), Vec::new(), BTreeMap::new());
    let mut damaged = BTreeSet::new();
    for neighbour in neighbours.iter_mut() {
        let has = folder::streams(&mut neighbour.disk).map(|all| all.contains(&log.stream()));
        match (has, neighbour.busy) {
            (Ok(false), _) => accounts.push(neighbour.log),
            (Ok(true), false) => match neighbour.sound(log.stream(), RecoveryCheck::Last) {
                Ok(other) => {
                    accounts.push(neighbour.log);
                    logs.insert(neighbour.log, other);
                }
                Err(_) if neighbour.damage.is_some() => drop(damaged.insert(neighbour.log)),
                // The unreadable log may be the one that matters.
                Err(_) => awaits.push(neighbour.log),
            },
            (Ok(true), true) | (Err(_), _) => awaits.push(neighbour.log),
        }
    }
    let found = |logs: &BTreeMap<LogId, StreamLog>, log: &StreamLog| {
        let all = logs.values().chain([log]);
        all.map(|log| (log.owner().log, LogSummary::of(log))).collect::<BTreeMap<_, _>>()
    };
    let restart = loop {
        // The log with the most content got it from the logs that were named; a named log may have
        // been emptied to be completed (I-91).
        let all =
            found(&logs, log).into_iter().map(|(log, found)| (log, found.without_epoch_logs()));
        let all: BTreeMap<LogId, LogSummary> = all.collect();
        let restart =
            restart::logs_of_stream(&all.iter().map(|(id, found)| (*id, found)).collect());
        let Some(RestartVerdict::Ready(ready)) = restart.as_ref().filter(|_| vacant) else {
            break restart;
        };
        let winner = neighbours.iter_mut().find(|it| it.log == ready.winner);
        let Some(winner) = winner.filter(|_| copies(ready, own)) else { break restart };
        if winner.sound(log.stream(), RecoveryCheck::All).is_ok() {
            break restart;
        }
        match winner.damage {
            Some(_) => drop(damaged.insert(winner.log)),
            // The unreadable log may be the one that matters.
            None => awaits.push(winner.log),
        }
        accounts.retain(|log| *log != winner.log);
        logs.remove(&winner.log);
    };
    // A log named by the newest mark is elsewhere if it is neither here nor in use by
    // other processes.
    let all = found(&logs, log);
    let begun = all.values().filter_map(|found| found.begun.as_ref());
    let named = begun.max_by_key(|(epoch, _)| *epoch).map(|(_, epoch_logs)| epoch_logs.clone());
    let named = named.filter(|_| !planted(Fault::NamedNotAwaited)).into_iter().flatten();
    let is_known =
        |log: &LogId| all.contains_key(log) || damaged.contains(log) || awaits.contains(log);
    let elsewhere: Vec<LogId> = named.filter(|log| !is_known(log)).collect();
    awaits.extend(elsewhere);
    match restart {
        Some(RestartVerdict::Ready(restart)) if vacant => {
            if let Some(version) = restart.cuts.get(&own) {
                log.cut_after(disk, *version)?;
            }
            let winner = neighbours.iter_mut().find(|neighbour| neighbour.log == restart.winner);
            if let (Some(winner), Some(other)) = (winner, logs.get(&restart.winner)) {
                take_over(log, disk, &restart, other, &mut winner.disk, Version(u64::MAX))?;
            }
        }
        // None of the logs found here is complete.
        Some(RestartVerdict::Wait(_)) => {
            awaits.extend(accounts.extract_if(.., |log| logs.contains_key(log)));
        }
        _ => {}
    }
    let found = LogSummary::of(log);
    let in_reach = neighbours.iter().filter_map(|it| Some((it.log, it.damage.as_ref()?)));
    for (of, damage) in in_reach.filter(|(of, _)| damaged.contains(of)) {
        match damage.is_covered(FoundLog { log: own, summary: &found }, of) {
            true => accounts.push(of),
            false => awaits.push(of),
        }
    }
    let damaged = damaged.into_iter().collect();
    Ok(LogClaim { log: own, accounts, awaits, found, began: 0, damaged })
}

/// Whether this log lacks something that the winner has.
fn copies(restart: &Restart, log: LogId) -> bool {
    match restart.completions.get(&log) {
        Some(LogCompletion::After(version)) => *version < restart.tail.version,
        Some(LogCompletion::FromCheckpoint | LogCompletion::AfterPutAside) => true,
        None => false,
    }
}

/// Returns the logs without which the operator allows a stream to go on, as far as the permissions
/// still count (I-153). `damage` is the damage of the own log.
pub fn excused<D: Disk, N: Disk>(
    words: &[RestartPermission],
    key: LogKey,
    disk: &mut D,
    damage: Option<&LogDamage>,
    neighbours: &mut [ReachableFolder<N>],
) -> Vec<LogId> {
    if words.is_empty() {
        return Vec::new();
    }
    let LogKey { owner, stream } = key;
    let own = StreamLog::read(disk, LogKey { owner, stream: VIEWS }, RecoveryCheck::Last);
    let mut seen = own.and_then(|(log, _)| views::all(&log, disk)).unwrap_or_default();
    for neighbour in neighbours.iter_mut() {
        let log = read(neighbour, VIEWS);
        let views = log.and_then(|log| views::all(&log, &mut neighbour.disk));
        seen.extend(views.into_iter().flatten());
    }
    let mut is_as_said = |word: &RestartPermission| {
        let found = match word.without == owner.log {
            true => damage.zip(aside::last(disk, stream).ok()),
            false => {
                let other = neighbours.iter_mut().find(|it| it.log == word.without);
                other.and_then(|it| it.damage.as_ref().zip(aside::last(&mut it.disk, stream).ok()))
            }
        };
        found.is_some_and(|(damage, last)| word.counts_for_damaged(stream, last, &damage.error))
    };
    let counts = |word: &&RestartPermission| word.counts(seen.iter()) || is_as_said(word);
    words.iter().filter(counts).map(|word| word.without).collect()
}

/// Returns the last view, here and in the folders in reach, and the streams that have logs here.
fn find_registration<D: Disk, N: Disk>(
    log: &mut StreamLog,
    disk: &mut D,
    neighbours: &mut [ReachableFolder<N>],
) -> Result<LogTaskResult, LogError> {
    let mut last = views::last(log, disk)?;
    let mut unread = Vec::new();
    for neighbour in neighbours.iter_mut() {
        let read = read(neighbour, log.stream());
        match read.and_then(|other| views::last(&other, &mut neighbour.disk)) {
            Ok(Some(view)) => match &mut last {
                Some(known) if known.place() > view.place() => {}
                Some(known) if known.place() == view.place() => known.await_more(view.names()),
                _ => last = Some(view),
            },
            Ok(None) => {}
            // The process that writes there reports itself what it knows.
            Err(_) if neighbour.busy => {}
            // The unreadable log may be the one that matters, so it is checked again whenever a
            // stream begins.
            Err(_) => unread.push(neighbour.log),
        }
    }
    last.iter_mut().for_each(|last| last.await_more(unread.drain(..)));
    let streams = folder::streams(disk)?.into_iter().filter(|key| *key != log.stream()).collect();
    let registration = LogRegistration { log: log.owner().log, last };
    Ok(LogTaskResult::Registered(Box::new(registration), streams))
}

/// Reads the log of a stream in a folder in reach, whether or not it is being written. Sealed files
/// are assumed sound.
fn read<N: Disk>(from: &mut ReachableFolder<N>, stream: StreamKey) -> Result<StreamLog, LogError> {
    let owner = folder::owner(&mut from.disk)?;
    let owner = owner.filter(|owner| owner.log == from.log).ok_or(LogError::Failed)?;
    StreamLog::read(&mut from.disk, LogKey { owner, stream }, RecoveryCheck::Last)
        .map(|(log, _)| log)
}

/// As [`read`], but of a log read before, only the new records are read.
fn read_on<N: Disk>(
    from: &mut ReachableFolder<N>,
    stream: StreamKey,
) -> Result<StreamLog, LogError> {
    if let Some(mut log) = from.open_log.take()
        && log.read_on(&mut from.disk)?
    {
        return Ok(log);
    }
    read(from, stream)
}

/// Copies from the winner what a log lacks, up to and including version `last`.
fn take_over<D: Disk, N: Disk>(
    log: &mut StreamLog,
    disk: &mut D,
    restart: &Restart,
    other: &StreamLog,
    other_disk: &mut N,
    last: Version,
) -> Result<(), LogError> {
    match restart.completions.get(&log.owner().log) {
        Some(LogCompletion::After(_)) => {}
        Some(how @ (LogCompletion::FromCheckpoint | LogCompletion::AfterPutAside)) => {
            let (mut state, mut tail) = (Vec::new(), Tail::default());
            if let Some(checkpoint) = other.checkpoint() {
                checkpoint.each(other_disk, |record| state.push(record.to_owned()))?;
                tail = Tail { epoch: checkpoint.header.epoch, version: checkpoint.header.version };
            }
            if *how == LogCompletion::AfterPutAside {
                log.put_aside(disk)?;
            }
            log.replace(disk, tail, state.iter().map(|owned| owned.record()))?;
        }
        None => return Ok(()),
    }
    let mut cursor = other.after(log.tail().version)?;
    while let Some(LogRecord { version, entry }) = cursor.next(other_disk, other)? {
        if version > last.min(restart.tail.version) {
            break;
        }
        log.append(entry, disk)?;
        if log.pending() > PIECE {
            log.commit(disk)?;
        }
    }
    let noted: BTreeSet<EpochMark> = log.marks().cloned().collect();
    let found = LogSummary::of(log);
    let is_there = log.tail().version == other.tail().version;
    for mark in other.marks().filter(|mark| !noted.contains(mark)) {
        let epoch = epoch_of(mark);
        // An epoch that begins only with later messages is marked when these are put.
        if is_there && last > log.tail().version || epoch <= log.tail().epoch {
            log.mark(mark, WallTime::default(), disk)?;
        }
    }
    // Older marks may have come after the last one, and other marks of the same epoch.
    let both = restart::last_begun([&found, &LogSummary::of(log)]);
    let mark = |(epoch, epoch_logs): (EpochId, BTreeSet<LogId>)| {
        EpochMark::Begun(epoch, epoch_logs.into_iter().collect())
    };
    if let Some(begun) = both.map(mark).filter(|begun| begun_of(log).as_ref() != Some(begun)) {
        log.mark(&begun, WallTime::default(), disk)?;
    }
    log.commit(disk).map(|_| ())
}

fn epoch_of(mark: &EpochMark) -> EpochId {
    let (EpochMark::Begun(epoch, _) | EpochMark::Cut(epoch, _)) = mark;
    *epoch
}

/// Returns the mark of the last epoch that a log has noted.
fn begun_of(log: &StreamLog) -> Option<EpochMark> {
    log.epoch().map(|(epoch, epoch_logs)| EpochMark::Begun(epoch, epoch_logs.to_vec()))
}

/// Copies from the logs of holders of the store what this log lacks, up to and including version
/// `last`.
fn complete<D: Disk, N: Disk>(
    log: &mut StreamLog,
    disk: &mut D,
    neighbours: &mut [ReachableFolder<N>],
    of: &[LogId],
    last: Version,
    base: Tail,
    era: u64,
) -> Result<LogTaskResult, LogError> {
    let (stream, own) = (log.stream(), log.owner().log);
    let mut answer = LogTaskResult::OutOfReach;
    // Two logs with the same version may have different messages, unless both belong to the present
    // beginning or end where it began.
    let tail = log.tail();
    if tail.epoch.view == era && tail.version > last {
        return Ok(LogTaskResult::Completed(tail.version));
    }
    let mut agrees = tail == base || tail.epoch.view == era;
    for neighbour in neighbours.iter_mut().filter(|it| of.contains(&it.log)) {
        if agrees && log.tail().version == last {
            break;
        }
        // The log is being written at this moment: a present defect may soon be gone.
        answer = LogTaskResult::NotYet;
        let Ok(other) = read_on(neighbour, stream) else { continue };
        let [ours, theirs] = [&*log, &other].map(|log| LogSummary::of(log).without_epoch_logs());
        let both = [(own, &ours), (neighbour.log, &theirs)].into();
        let Some(RestartVerdict::Ready(restart)) = restart::logs_of_stream(&both) else { continue };
        if restart.winner != neighbour.log {
            neighbour.open_log = Some(other);
            continue;
        }
        if let Some(version) = restart.cuts.get(&own) {
            log.cut_after(disk, *version)?;
        }
        if log.tail().version > last {
            return Ok(LogTaskResult::OutOfReach);
        }
        let taken_over = take_over(log, disk, &restart, &other, &mut neighbour.disk, last);
        if let Err(error) = &taken_over
            && (error.is_full() || log.state() == LogState::Failed)
        {
            // The error comes from the own disk.
            return Err(error.clone());
        }
        neighbour.open_log = Some(other);
        // The part that was copied stays, even if the rest cannot be read.
        let is_prefix = matches!(restart.completions.get(&own), Some(LogCompletion::After(_)));
        agrees = taken_over.is_ok() || is_prefix;
    }
    Ok(match agrees && log.tail().version == last {
        true => LogTaskResult::Completed(last),
        false if log.tail().version > last => LogTaskResult::OutOfReach,
        false => answer,
    })
}

/// Replaces the whole log by a state (I-93).
fn replace<D: Disk>(
    log: &mut StreamLog,
    disk: &mut D,
    state: &CheckpointState,
    base: Tail,
    era: u64,
) -> Result<(), LogError> {
    let Tail { epoch, version } = log.tail();
    let is_part = version == Version(0)
        || epoch.view == era
        || epoch.view == base.epoch.view && log.tail() <= base;
    if !is_part {
        log.put_aside(disk)?;
    }
    log.replace(disk, state.tail(), state.messages())
}

/// Builds a store from a log, without the messages from these numbers on.
fn load<D: Disk>(
    log: &StreamLog,
    disk: &mut D,
    mut store: Store,
    number_ends: &BTreeMap<StreamId, u64>,
) -> Result<Store, LogError> {
    let mut ends = BTreeMap::new();
    let wanted = |record: &LogRecord<'_>| {
        let (stream, number) = message_of(record);
        let is_wanted = !is_beyond(number_ends, stream, number);
        if is_wanted {
            ends.insert(stream, record.version.0);
        }
        is_wanted
    };
    let last = fill(&mut store, log, disk, wanted)?;
    store.resume(last.0);
    // A log does not say when a stream ended that ended before the store began again (I-155).
    for (stream, version) in
        ends.into_iter().filter(|(stream, _)| !number_ends.contains_key(stream))
    {
        store.end(stream, version);
    }
    Ok(store)
}

/// Fills a store from a log, up to the first message that is not wanted. Returns the last version
/// before that message.
fn fill<D: Disk>(
    store: &mut Store,
    log: &StreamLog,
    disk: &mut D,
    mut wanted: impl FnMut(&LogRecord<'_>) -> bool,
) -> Result<Version, LogError> {
    // A complete log needs no checkpoint, and the checkpoint may cover more than is wanted.
    let is_whole = log.complete_from() <= Version(1);
    let take = |record: &LogRecord<'_>, is_state: bool| {
        let goes_on = wanted(record);
        if goes_on {
            let (stream, number) = message_of(record);
            store.resume(record.version.0 - 1);
            let index = store.stream(stream);
            // The stream is older than any epoch in which a member could ask for it.
            store.meet(stream, 0);
            match is_state {
                true => store.restore(index, number, record.entry.payload),
                false => store.append(index, number, record.entry.payload),
            }
        }
        goes_on
    };
    go_from(log, disk, log.checkpoint().filter(|_| !is_whole), take)
}

fn is_beyond(number_ends: &BTreeMap<StreamId, u64>, stream: StreamId, number: u64) -> bool {
    number_ends.get(&stream).is_some_and(|end| number >= *end)
}

/// Reads the content of a log, without the messages from these numbers on.
fn read_content<D: Disk>(
    log: &StreamLog,
    disk: &mut D,
    number_ends: &BTreeMap<StreamId, u64>,
) -> Result<LogContent, LogError> {
    let mut content = LogContent { tail: log.tail(), ..LogContent::default() };
    go_through(log, disk, |record, is_state| {
        let (stream, number) = message_of(record);
        if is_state {
            content.state = Some(record.to_owned());
        } else if is_beyond(number_ends, stream, number) {
            return false;
        } else {
            content.messages.push(record.to_owned());
        }
        true
    })?;
    Ok(content)
}

/// Passes the content of a log to `take` until that returns false: first the checkpoint (`true`),
/// then the messages after it. Returns the last version that counts.
///
/// # Errors
/// Any defect of the log, and its location.
pub fn go_through<D: Disk>(
    log: &StreamLog,
    disk: &mut D,
    take: impl FnMut(&LogRecord<'_>, bool) -> bool,
) -> Result<Version, LogError> {
    go_from(log, disk, log.checkpoint(), take)
}

fn go_from<D: Disk>(
    log: &StreamLog,
    disk: &mut D,
    checkpoint: Option<&Checkpoint>,
    mut take: impl FnMut(&LogRecord<'_>, bool) -> bool,
) -> Result<Version, LogError> {
    let mut after = Version(log.complete_from().0 - 1);
    if let Some(checkpoint) = checkpoint {
        let mut goes_on = true;
        checkpoint.each(disk, |record| goes_on = goes_on && take(record, true))?;
        if !goes_on {
            // The state before the checkpoint is no longer known.
            return Err(LogError::Gone { from: checkpoint.header.version.next() });
        }
        after = after.max(checkpoint.header.version);
    }
    let mut cursor = log.after(after)?;
    while let Some(record) = cursor.next(disk, log)? {
        if !take(&record, false) {
            return Ok(Version(record.version.0 - 1));
        }
    }
    Ok(log.durable())
}

/// Retention of a topic's log: what is kept, and which of the dropped messages must stay available
/// to late joiners.
#[derive(Clone, Copy, Debug)]
pub struct TopicLogRetention {
    /// Messages kept in the log.
    pub past: log::SegmentRetention,
    /// State kept in the log's checkpoint.
    pub state: StoreRetention,
    /// Interpretation of records.
    pub format: RecordFormat,
}

/// Drops the oldest files of a log as far as the retention allows. Their resulting state is
/// put into a checkpoint first (I-94). All records must be durable. Returns whether anything
/// was dropped.
///
/// # Errors
/// Any defect of the log, and its location; errors of the disk.
pub fn trim<D: Disk>(
    log: &mut StreamLog,
    disk: &mut D,
    keep: &TopicLogRetention,
    now: WallTime,
) -> Result<bool, LogError> {
    let Some(tail) = log.spare(keep.past, now) else { return Ok(false) };
    let mut store = Store::new(keep.state, keep.format);
    fill(&mut store, log, disk, |record| record.version <= tail.version)?;
    let state =
        CheckpointState::new(store.cursor(), &store, tail.version.0, tail.epoch, keep.format);
    log.drop_up_to(disk, tail, state.messages())?;
    Ok(true)
}

/// Replaces all messages up to and including a version by a state, if the log ends there.
fn checkpoint<D: Disk>(
    log: &mut StreamLog,
    disk: &mut D,
    version: Version,
    state: &OwnedRecord,
) -> Result<LogTaskResult, LogError> {
    let (tail, state) = (log.tail(), state.record());
    if tail.version != version || state.entry.payload.len() > LONGEST {
        return Ok(LogTaskResult::NotYet);
    }
    match log.put_checkpoint(disk, tail, core::iter::once(state)) {
        // The log is unchanged.
        Err(error) if error.is_full() => Ok(LogTaskResult::NotYet),
        other => other.map(|()| LogTaskResult::Replaced),
    }
}
