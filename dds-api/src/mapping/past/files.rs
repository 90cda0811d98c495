//! Reading the files of a log from a position, or the state at a time.
//!
//! Owns: the position of such a reading. Never does: use or block the log's thread; files may be
//! dropped during a reading.

use std::path::{Path, PathBuf};

use derecho_core::log::cursor::LogCursor;
use derecho_core::log::{
    DiskError, KeyHash, LogError, LogKey, LogRecord, RecoveryCheck, StreamKey, StreamLog, Version,
    WallTime, folder,
};
use derecho_core::storage::log_tasks::message_of;
use derecho_node::logs::LogFolder;

use super::{LogLocation, PastRecord};
use crate::mapping::set::keys_of;

/// A reading in progress.
pub(crate) struct PastFileReader {
    dir: PathBuf,
    disk: LogFolder,
    log: Box<StreamLog>,
    cursor: LogCursor,
}

impl PastFileReader {
    /// Begins after this position.
    pub(crate) fn after(location: &LogLocation, position: u64) -> Result<Self, LogError> {
        Self::begin(location, |log| log.after(Version(position)))
    }

    /// Begins with samples written at this time or later.
    pub(crate) fn since(location: &LogLocation, time: WallTime) -> Result<Self, LogError> {
        Self::begin(location, |log| from_time(log, time))
    }

    fn begin(
        location: &LogLocation,
        find: impl FnOnce(&StreamLog) -> Result<LogCursor, LogError>,
    ) -> Result<Self, LogError> {
        let (disk, log) = open(&location.folder, location.stream)?;
        let cursor = find(&log)?;
        Ok(PastFileReader { dir: location.folder.clone(), disk, log: Box::new(log), cursor })
    }

    /// The next sample written at this time or later; `None` at the end of the log.
    pub(crate) fn next(&mut self, since: WallTime) -> Result<Option<PastRecord>, LogError> {
        loop {
            match self.cursor.next(&mut self.disk, &self.log) {
                Ok(Some(record)) if record.entry.source_time < since => {}
                Ok(record) => return Ok(record.as_ref().map(to_past_record)),
                Err(LogError::Disk { cause: DiskError::NotFound, .. }) => {
                    // The file was dropped in the meantime, so the next sample may be gone.
                    let last = self.cursor.position();
                    (self.disk, *self.log) = open(&self.dir, self.log.stream())?;
                    self.cursor = self.log.after(last)?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Position of the last sample read.
    pub(crate) fn position(&self) -> u64 {
        self.cursor.position().0
    }
}

fn as_hash(key: u128) -> KeyHash {
    KeyHash(key.to_le_bytes())
}

/// The last sample of each instance that was written at this time or before, in their order. A
/// coherent set is included as a whole if any of its samples is.
pub(crate) fn state_at(
    location: &LogLocation,
    time: WallTime,
) -> Result<Vec<PastRecord>, LogError> {
    let (mut disk, log) = open(&location.folder, location.stream)?;
    from_time(&log, time)?;
    let keys = |record: &LogRecord<'_>| keys_of(record.entry.payload).map(as_hash);
    let state = log.last_of_each_key_at(&mut disk, time, keys)?;
    let mut state: Vec<PastRecord> =
        state.values().map(|owned| to_past_record(&owned.record())).collect();
    state.sort_unstable_by_key(|record| record.position);
    // A set contains samples of several instances.
    state.dedup_by_key(|record| record.position);
    Ok(state)
}

/// Opens a log for reading.
fn open(dir: &Path, stream: StreamKey) -> Result<(LogFolder, StreamLog), LogError> {
    let mut disk = LogFolder::read(dir)?;
    let owner = folder::owner(&mut disk)?.ok_or(LogError::Failed)?;
    let (log, _) = StreamLog::read(&mut disk, LogKey { owner, stream }, RecoveryCheck::Last)?;
    Ok((disk, log))
}

/// Position of samples written at a time or later. Fails if the log may have dropped some of them.
fn from_time(log: &StreamLog, time: WallTime) -> Result<LogCursor, LogError> {
    let oldest = log.segments().first().map(|first| first.index.oldest);
    let is_whole = log.complete_from() <= Version(1) || oldest.is_some_and(|oldest| oldest <= time);
    match is_whole {
        true => Ok(log.since(time)),
        false => Err(LogError::Gone { from: log.complete_from() }),
    }
}

/// A sample of a log in the form that is sent.
fn to_past_record(record: &LogRecord<'_>) -> PastRecord {
    let (stream, number) = message_of(record);
    let payload = record.entry.payload.to_vec();
    PastRecord { position: record.version.0, stream, number, payload }
}
