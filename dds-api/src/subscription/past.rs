//! Reading what is in a participant's log of a topic: from a sample on, from a time on, or the state at a time.
//!
//! Owns: where such a reading is. Never does: hold the topic up, or ask the log's thread; it reads the files.

use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use derecho_core::log::cursor::Cursor;
use derecho_core::log::{
    Check, DiskError, LogError, Record, StreamKey, StreamLog, Version, WallTime, folder,
};
use derecho_core::storage::errands::message_of;
use derecho_core::storage::store::{Retention, Store};
use derecho_node::logs::Folder;
use idl_cdr::DdsType;

use super::sample::Sample;
use crate::infrastructure::{DdsError, DdsResult};
use crate::mapping::history::MEANING;
use crate::mapping::record::mark_of;
use crate::mapping::shares::ReaderShared;

/// Samples that are read from the files at once.
const AT_ONCE: usize = 64;

/// Where in the past to begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Since {
    /// With this sample of the topic, counted from 1 on, in its order.
    Sample(u64),
    /// With the first one that was written at this time or later.
    Time(SystemTime),
}

/// What was logged, one after the other, with the place of each in the topic's order. It ends with what is in the files when
/// it comes to their end; more may come later.
///
/// Made by [`DataReader::past`](super::DataReader::past).
pub struct PastSamples<T> {
    dir: PathBuf,
    disk: Folder,
    log: StreamLog,
    cursor: Cursor,
    read: std::vec::IntoIter<(u64, Sample<T>)>,
    shared: Arc<ReaderShared>,
    over: bool,
    _type: PhantomData<fn() -> T>,
}

fn open(dir: &Path, stream: StreamKey) -> Result<(Folder, StreamLog), LogError> {
    let mut disk = Folder::read(dir)?;
    let owner = folder::owner(&mut disk)?.ok_or(LogError::Failed)?;
    let (log, _) = StreamLog::read(&mut disk, (owner, stream), Check::Last)?;
    Ok((disk, log))
}

/// Where what was written at a time or later begins. If the log may have dropped some of that, it says so.
fn from_time(log: &StreamLog, time: WallTime) -> Result<Cursor, LogError> {
    let oldest = log.segments().first().map(|first| first.index.oldest);
    let is_whole = log.complete_from() <= Version(1) || oldest.is_some_and(|oldest| oldest <= time);
    match is_whole {
        true => Ok(log.since(time)),
        false => Err(LogError::Gone { from: log.complete_from() }),
    }
}

fn nanos(time: SystemTime) -> WallTime {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    WallTime(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}

/// Samples of records: they are copied to where samples may lie.
fn samples<T: DdsType>(
    records: &[derecho_core::log::OwnedRecord],
    reader: &ReaderShared,
) -> Vec<(u64, Sample<T>)> {
    let mut store = Store::new(Retention::default(), MEANING);
    let mut found = Vec::new();
    for owned in records {
        let record: Record<'_> = owned.record();
        let (stream, number) = message_of(&record);
        let index = store.stream(stream);
        store.append(index, number, record.entry.payload);
        found.push((record.version.0, stream.node));
    }
    let kept = store.cursor().zip(found);
    // What is not of this type was written under another one of the same name, long ago.
    let understood = kept.filter(|(kept, _)| !reader.refuses(mark_of(kept.bytes())));
    understood
        .filter_map(|(kept, (place, node))| Some((place, Sample::of_kept(kept, node)?)))
        .collect()
}

impl<T: DdsType> PastSamples<T> {
    pub(super) fn open(
        (dir, stream): (&Path, StreamKey),
        since: Since,
        shared: Arc<ReaderShared>,
    ) -> Result<Self, LogError> {
        let (disk, log) = open(dir, stream)?;
        let cursor = match since {
            Since::Sample(place) => log.after(Version(place.saturating_sub(1)))?,
            Since::Time(time) => from_time(&log, nanos(time))?,
        };
        let read = Vec::new().into_iter();
        Ok(PastSamples {
            dir: dir.to_owned(),
            disk,
            log,
            cursor,
            read,
            shared,
            over: false,
            _type: PhantomData,
        })
    }

    /// The last sample of each instance that was written at this time or before, in their order.
    pub(super) fn state_at(
        (dir, stream): (&Path, StreamKey),
        time: SystemTime,
        reader: &ReaderShared,
    ) -> Result<Vec<(u64, Sample<T>)>, LogError> {
        let (mut disk, log) = open(dir, stream)?;
        from_time(&log, nanos(time))?;
        let state = log.last_of_each_key_at(&mut disk, nanos(time))?;
        let mut state: Vec<_> = state.into_values().collect();
        state.sort_unstable_by_key(|owned| owned.record().version);
        Ok(samples(&state, reader))
    }

    fn read_on(&mut self) -> Result<(), LogError> {
        let mut records = Vec::new();
        while records.len() < AT_ONCE {
            match self.cursor.next(&mut self.disk, &self.log) {
                Ok(Some(record)) => records.push(record.to_owned()),
                Ok(None) => {
                    self.over = true;
                    break;
                }
                Err(LogError::Disk { cause: DiskError::NotFound, .. }) => {
                    // The file was dropped meanwhile: what has to come next may be gone.
                    let last = self.cursor.position();
                    (self.disk, self.log) = open(&self.dir, self.log.stream())?;
                    self.cursor = self.log.after(last)?;
                }
                Err(error) => return Err(error),
            }
        }
        self.read = samples(&records, &self.shared).into_iter();
        Ok(())
    }
}

impl<T: DdsType> Iterator for PastSamples<T> {
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
                return Some(Err(unreadable(&error)));
            }
        }
    }
}

/// The error of a log that cannot be read.
pub(super) fn unreadable(error: &LogError) -> DdsError {
    match error {
        LogError::Gone { from } => DdsError::BadParameter(format!(
            "what was asked for is no longer in this participant's log (see log_retention): it begins with sample {from} now"
        )),
        LogError::Beyond { .. } => DdsError::BadParameter(error.to_string()),
        error => DdsError::Error(format!("the log cannot be read: {error}")),
    }
}
