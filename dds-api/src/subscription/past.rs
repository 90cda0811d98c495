//! Reading of a topic's log: from a sample on, from a time on, or the state at a time.
//!
//! Owns: the position of a reading, and which participant it asks. Never does: delay the topic, or
//! ask the log's thread. If this participant has a log, its files are read; otherwise another
//! participant that keeps a log is asked, and after that a further one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use derecho_core::ids::{NodeId, Time};
use derecho_core::log::{LogError, Version, WallTime};
use derecho_core::storage::cursor::StoredRecord;
use derecho_core::storage::store::{Store, StoreRetention};
use derecho_node::WaitOutcome;
use derecho_node::clock;
use idl_xtypes::TopicData;

use super::sample::Sample;
use crate::domain::ParticipantInner;
use crate::infrastructure::{DdsError, DdsResult, LogCondition, Timeout};
use crate::mapping::kept_replay::RECORD_FORMAT;
use crate::mapping::past::files::{self, PastFileReader};
use crate::mapping::past::{LogLocation, OwnLog, PastPage, PastRange, PastRecord, PastRequest};
use crate::mapping::record::{RecordContext, key_of, mark_of};
use crate::mapping::set::{keys_of, records};
use crate::mapping::shares::ReaderShared;

/// Number of samples that are read from the files at once.
const AT_ONCE: usize = 64;
/// Interval between checks whether the participants that keep logs are known, in nanoseconds.
const CHECK_INTERVAL: u64 = 1_000_000;
/// Default time that other participants may take to answer.
const ANSWER_TIMEOUT: Timeout = Timeout::secs(10);

/// Start of a reading of the past.
///
/// ```
/// use std::time::{Duration, SystemTime};
///
/// use dds_api::subscription::Since;
/// # use dds_api::prelude::*;
/// # #[derive(DdsType, Clone, Debug, Default)]
/// # struct Track { #[dds(key)] id: u32, height: f64 }
/// # fn example(reader: &DataReader<Track>) -> DdsResult<()> {
/// let hour_ago = SystemTime::now() - Duration::from_secs(3600);
/// let recent = reader.past(Since::Time(hour_ago))?;
/// let all = reader.past(Since::Sample(1))?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Since {
    /// Starts with this sample in the topic's order, counted from 1.
    Sample(u64),
    /// Starts with the first sample that was written at or after this time.
    Time(SystemTime),
}

/// Iterator over logged samples in the topic's order, each with its position in that order. It ends
/// at the present end of the files; more samples may be logged later.
///
/// Made by [`DataReader::past`](super::DataReader::past).
///
/// ```
/// use dds_api::subscription::Since;
/// # use dds_api::prelude::*;
/// # #[derive(DdsType, Clone, Debug, Default)]
/// # struct Track { #[dds(key)] id: u32, height: f64 }
/// # fn example(reader: &DataReader<Track>) -> DdsResult<()> {
/// for read in reader.past(Since::Sample(1))?.within(Timeout::secs(5)) {
///     let (place, track) = read?;
///     println!("{place}: {:?}", track.data());
/// }
/// # Ok(())
/// # }
/// ```
pub struct PastSamples<T: TopicData> {
    source: PastSource,
    read: std::vec::IntoIter<(u64, Sample<T>)>,
    shared: Arc<ReaderShared>,
    over: bool,
    support: T::TypeSupport,
}

enum PastSource {
    Files(PastFileReader),
    Remote(RemoteLogs),
}

/// Other participants that are asked.
pub(super) struct RemoteLogs {
    participant: Arc<ParticipantInner>,
    /// The reader, and the number of its reading.
    reader: u64,
    reading: u64,
    page: u64,
    wanted: PastRange,
    /// The participant that was asked last.
    of: Option<NodeId>,
    timeout: Timeout,
}

fn nanos(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// For each key: the position of its last sample in the order, and in the coherent set at
/// that position.
type LastPositions = BTreeMap<u128, (u64, usize)>;

/// The last sample of each instance in a state. If the state has any sample of a coherent set, it
/// has the whole set.
fn last(state: &[PastRecord]) -> LastPositions {
    let positions = |record: &PastRecord| {
        let (keys, position) = (keys_of(&record.payload), record.position);
        keys.enumerate().map(move |(index, key)| (key, (position, index)))
    };
    state.iter().flat_map(positions).collect()
}

/// Converts records to samples. The records are copied to memory where samples may lie. If `last`
/// is given, only those samples of a coherent set are returned that are the last of their instance.
fn samples<T: TopicData>(
    records: &[PastRecord],
    last: Option<&LastPositions>,
    reader: &ReaderShared,
    support: &T::TypeSupport,
) -> Vec<(u64, Sample<T>)> {
    let with = RecordContext { support, layouts: &reader.layouts };
    let mut store = Store::new(StoreRetention::default(), RECORD_FORMAT);
    let mut found = Vec::new();
    for PastRecord { position, stream, number, payload } in records {
        let index = store.stream(*stream);
        store.append(index, *number, payload);
        found.push((*position, stream.node));
    }
    let kept = store.cursor().zip(found);
    // A record of another type was written under an earlier type of the same name.
    let understood = kept.filter(|(kept, _)| !reader.refuses(mark_of(kept.bytes())));
    understood
        .flat_map(|(kept, (position, node))| samples_of(kept, position, node, last, &with))
        .collect()
}

/// The samples of one record: several if it is a coherent set.
fn samples_of<T: TopicData>(
    kept: StoredRecord,
    position: u64,
    node: NodeId,
    last: Option<&LastPositions>,
    with: &RecordContext<'_, T>,
) -> Vec<(u64, Sample<T>)> {
    let Some(records) = records(kept.bytes()) else {
        return Sample::of_kept(kept, node, with).map(|it| (position, it)).into_iter().collect();
    };
    let mut all = Vec::new();
    for (index, record) in records.enumerate() {
        let read =
            |record| Some((key_of(record), Sample::of_set(record, kept.number(), node, with)?));
        // A set is returned as a whole or not at all.
        let Some((key, sample)) = record.ok().and_then(read) else { return Vec::new() };
        if last.is_none_or(|last| last.get(&key) == Some(&(position, index))) {
            all.push((position, sample));
        }
    }
    all
}

impl RemoteLogs {
    pub(super) fn new(participant: &Arc<ParticipantInner>, reader: u64) -> RemoteLogs {
        let reading = participant.engine.act(|machine, _, _| machine.past().begin());
        RemoteLogs {
            participant: Arc::clone(participant),
            reader,
            reading,
            page: 0,
            wanted: PastRange::After(0),
            of: None,
            timeout: ANSWER_TIMEOUT,
        }
    }

    /// Asks other participants one after the other, until one has what is wanted.
    fn next(&mut self) -> DdsResult<(Vec<PastRecord>, bool)> {
        let deadline = self.timeout.deadline();
        let engine = &self.participant.engine;
        let past_requests = engine.act(|machine, _, _| machine.past());
        // A participant that has just joined must first learn which others are present.
        while !engine.act(|machine, _, _| machine.knows_logs())
            && !self.participant.membership.is_out()
            && deadline.is_none_or(|deadline| clock::now() < deadline)
        {
            engine.wait(Some(clock::now().after(CHECK_INTERVAL)), || false);
        }
        let (mut tried, mut error) = (Vec::new(), None);
        loop {
            self.page += 1;
            let (reading, page, wanted) = (self.reading, self.page, self.wanted);
            let past_request = PastRequest { reading, page, key: 0, wanted };
            let (reader, last) = (self.reader, self.of);
            let asked = engine.act(|machine, _, effects| {
                machine.ask_past(reader, past_request, last, &tried, effects)
            });
            let Some((of, others)) = asked else {
                self.of = None;
                return Err(error.unwrap_or_else(nobody));
            };
            self.of = Some(of);
            // If there are further participants, one that does not answer may use only a part of
            // the time.
            let until = deadline.map(|deadline| match others {
                0 => deadline,
                more => share_of_time(deadline, more),
            });
            engine
                .wait(until, || past_requests.has(reading) || self.participant.membership.is_out());
            match past_requests.take(reading) {
                Some(PastPage::Records(records, next, over)) => {
                    self.wanted = match self.wanted {
                        PastRange::Since(time, _) => PastRange::Since(time, next),
                        _ => PastRange::After(next),
                    };
                    return Ok((records, over));
                }
                _ if self.participant.membership.is_out() => {
                    return Err(self.participant.membership.error());
                }
                Some(PastPage::Gone(from)) => {
                    error = Some(unreadable(&LogError::Gone { from: Version(from) }));
                }
                Some(PastPage::Beyond(last)) => {
                    error = Some(unreadable(&LogError::Beyond { last: Version(last) }));
                }
                Some(PastPage::Refused(because)) => {
                    let text = format!(
                        "participant {of}, which keeps a log, failed to answer a request for past \
                         samples: {because}"
                    );
                    error = Some(DdsError::Error(text));
                }
                None => {
                    error = Some(DdsError::Timeout(format!(
                        "participant {of}, which keeps a log, has not answered a request for past \
                         samples in time"
                    )));
                }
            }
            tried.push(of);
        }
    }
}

impl Drop for RemoteLogs {
    fn drop(&mut self) {
        self.participant.engine.act(|machine, _, _| machine.past()).take(self.reading);
    }
}

/// The participant's log of a reader's topic, once the log holds every sample that was delivered
/// before the call; `None` if other participants must be asked instead.
pub(super) fn own_log(
    participant: &ParticipantInner,
    reader: u64,
) -> DdsResult<Option<LogLocation>> {
    let (engine, deadline) = (&participant.engine, ANSWER_TIMEOUT.deadline());
    let mut wanted = None;
    loop {
        let (log, has_other) =
            engine.act(|machine, _, _| (machine.own_log(reader), machine.has_other_log(reader)));
        let behind = match log {
            OwnLog::Absent => return Ok(None),
            OwnLog::Incomplete | OwnLog::Over(_) if has_other => return Ok(None),
            OwnLog::Over(condition) => return Err(log_is_over(&condition)),
            OwnLog::Complete { location, durable, delivered } => {
                let wanted = *wanted.get_or_insert(delivered);
                if durable >= wanted {
                    return Ok(Some(location));
                }
                Some(IncompleteLog { durable, delivered: wanted })
            }
            OwnLog::Incomplete => None,
        };
        if participant.membership.is_out() {
            return Err(participant.membership.error());
        }
        let now = clock::now();
        if deadline.is_some_and(|deadline| now >= deadline) {
            return Err(log_is_incomplete(behind));
        }
        if engine.wait(Some(now.after(CHECK_INTERVAL)), || false) == WaitOutcome::Stopped {
            let text = "the participant has left".to_owned();
            return Err(DdsError::AlreadyDeleted(text));
        }
    }
}

fn log_is_over(condition: &LogCondition) -> DdsError {
    let why = match condition {
        LogCondition::Failed(why) => format!("has failed: {why}"),
        _ => "takes nothing more since its disk was full".to_owned(),
    };
    DdsError::PreconditionNotMet(format!(
        "this participant's log of the topic lacks samples and no other participant has a complete one: the log {why}; \
         `squall log dump` shows what the log holds"
    ))
}

/// Numbers of samples in a log that lacks the newest ones.
struct IncompleteLog {
    durable: u64,
    delivered: u64,
}

fn log_is_incomplete(behind: Option<IncompleteLog>) -> DdsError {
    DdsError::Timeout(match behind {
        Some(IncompleteLog { durable, delivered }) => format!(
            "this participant's log holds {durable} of the {delivered} samples that were delivered after {ANSWER_TIMEOUT}: its \
             disk is full or slow; ask again later"
        ),
        None => format!(
            "this participant's log of the topic is still being completed after {ANSWER_TIMEOUT}, and no other participant \
             has a complete one; ask again later"
        ),
    })
}

/// End of the time that one of several participants may take.
fn share_of_time(deadline: Time, others: usize) -> Time {
    let now = clock::now();
    now.after(deadline.since(now) / (others as u64 + 1))
}

fn nobody() -> DdsError {
    DdsError::PreconditionNotMet(
        "this participant keeps no log of the topic, and no other participant has a complete one: \
         make the topic persistent, and give a participant a log folder, or run `squall store`"
            .to_owned(),
    )
}

impl<T: TopicData> PastSamples<T> {
    pub(super) fn open(
        log: Option<LogLocation>,
        since: Since,
        shared: Arc<ReaderShared>,
        support: T::TypeSupport,
        others: impl FnOnce() -> RemoteLogs,
    ) -> DdsResult<Self> {
        let (source, first) = match log {
            Some(log) => (of_files(&log, since).map_err(|it| unreadable(&it))?, None),
            None => {
                let mut others = others();
                others.wanted = match since {
                    Since::Sample(position) => PastRange::After(position.saturating_sub(1)),
                    Since::Time(time) => PastRange::Since(nanos(time), 0),
                };
                // Errors are reported at once, as those of files are.
                let first = others.next()?;
                (PastSource::Remote(others), Some(first))
            }
        };
        let (records, over) = first.unwrap_or_default();
        let read = samples(&records, None, &shared, &support).into_iter();
        Ok(PastSamples { source, read, shared, over, support })
    }

    /// Sets the time that other participants may take to answer (10 s by default). It has an effect
    /// only if this participant has no log of the topic and asks others.
    #[must_use]
    pub fn within(mut self, patience: impl Into<Timeout>) -> Self {
        if let PastSource::Remote(others) = &mut self.source {
            others.timeout = patience.into();
        }
        self
    }

    /// The last sample of each instance that was written at or before this time, in their order.
    pub(super) fn state_at(
        log: Option<LogLocation>,
        time: SystemTime,
        reader: &ReaderShared,
        support: &T::TypeSupport,
        others: impl FnOnce() -> RemoteLogs,
    ) -> DdsResult<Vec<(u64, Sample<T>)>> {
        let time = nanos(time);
        let Some(log) = log else {
            let mut others = others();
            others.wanted = PastRange::StateAt(time);
            let (state, _) = others.next()?;
            return Ok(samples(&state, Some(&last(&state)), reader, support));
        };
        let state = files::state_at(&log, WallTime(time));
        let state = state.map_err(|error| unreadable(&error))?;
        Ok(samples(&state, Some(&last(&state)), reader, support))
    }

    fn read_on(&mut self) -> DdsResult<()> {
        let records = match &mut self.source {
            PastSource::Remote(others) => {
                let (records, over) = others.next()?;
                self.over = over;
                records
            }
            PastSource::Files(files) => {
                let (records, over) = read_files(files).map_err(|error| unreadable(&error))?;
                self.over = over;
                records
            }
        };
        self.read = samples(&records, None, &self.shared, &self.support).into_iter();
        Ok(())
    }
}

fn of_files(log: &LogLocation, since: Since) -> Result<PastSource, LogError> {
    let files = match since {
        Since::Sample(position) => PastFileReader::after(log, position.saturating_sub(1))?,
        Since::Time(time) => PastFileReader::since(log, WallTime(nanos(time)))?,
    };
    Ok(PastSource::Files(files))
}

fn read_files(files: &mut PastFileReader) -> Result<(Vec<PastRecord>, bool), LogError> {
    let mut records = Vec::new();
    while records.len() < AT_ONCE {
        match files.next(WallTime(0))? {
            Some(record) => records.push(record),
            None => return Ok((records, true)),
        }
    }
    Ok((records, false))
}

impl<T: TopicData> Iterator for PastSamples<T> {
    type Item = DdsResult<(u64, Sample<T>)>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(next) = self.read.next() {
                return Some(Ok(next));
            }
            if self.over {
                return None;
            }
            if let Err(error) = self.read_on() {
                self.over = true;
                return Some(Err(error));
            }
        }
    }
}

/// The error of a log that cannot be read.
fn unreadable(error: &LogError) -> DdsError {
    match error {
        LogError::Gone { from } => DdsError::BadParameter(format!(
            "the requested samples are no longer in the log (see log_retention), which now begins \
             with sample {from}"
        )),
        LogError::Beyond { .. } => DdsError::BadParameter(error.to_string()),
        error => DdsError::Error(format!("the log cannot be read: {error}")),
    }
}
