//! Reading the files of a log: on from a place, or the state at a time.
//!
//! Owns: where such a reading is. Never does: ask the log's thread, or hold it up: files may be dropped meanwhile.

use std::path::{Path, PathBuf};

use derecho_core::log::cursor::Cursor;
use derecho_core::log::{
    Check, DiskError, KeyHash, LogError, Record, StreamKey, StreamLog, Version, WallTime, folder,
};
use derecho_core::storage::errands::message_of;
use derecho_node::logs::Folder;

use super::PastRecord;
use crate::mapping::set::keys_of;

/// A reading on its way.
pub(crate) struct PastFiles {
    dir: PathBuf,
    disk: Folder,
    log: Box<StreamLog>,
    cursor: Cursor,
}

impl PastFiles {
    /// Of what comes after this place.
    pub(crate) fn after(dir: &Path, stream: StreamKey, place: u64) -> Result<Self, LogError> {
        Self::begin(dir, stream, |log| log.after(Version(place)))
    }

    /// Of what was written at this time or later.
    pub(crate) fn since(dir: &Path, stream: StreamKey, time: WallTime) -> Result<Self, LogError> {
        Self::begin(dir, stream, |log| from_time(log, time))
    }

    fn begin(
        dir: &Path,
        stream: StreamKey,
        place: impl FnOnce(&StreamLog) -> Result<Cursor, LogError>,
    ) -> Result<Self, LogError> {
        let (disk, log) = open(dir, stream)?;
        let cursor = place(&log)?;
        Ok(PastFiles { dir: dir.to_owned(), disk, log: Box::new(log), cursor })
    }

    /// The next sample that was written at this time or later; none at the end of what there is.
    pub(crate) fn next(&mut self, since: WallTime) -> Result<Option<PastRecord>, LogError> {
        loop {
            match self.cursor.next(&mut self.disk, &self.log) {
                Ok(Some(record)) if record.entry.source_time < since => {}
                Ok(record) => return Ok(record.as_ref().map(told)),
                Err(LogError::Disk { cause: DiskError::NotFound, .. }) => {
                    // The file was dropped meanwhile: what has to come next may be gone.
                    let last = self.cursor.position();
                    (self.disk, *self.log) = open(&self.dir, self.log.stream())?;
                    self.cursor = self.log.after(last)?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// The place of the sample that it has come to.
    pub(crate) fn place(&self) -> u64 {
        self.cursor.position().0
    }
}

fn as_hash(key: u128) -> KeyHash {
    KeyHash(key.to_le_bytes())
}

/// The last sample of each instance that was written at this time or before, in their order; of a coherent set all of it,
/// if any of it is.
pub(crate) fn state_at(
    dir: &Path,
    stream: StreamKey,
    time: WallTime,
) -> Result<Vec<PastRecord>, LogError> {
    let (mut disk, log) = open(dir, stream)?;
    from_time(&log, time)?;
    let keys = |record: &Record<'_>| keys_of(record.entry.payload).map(as_hash);
    let state = log.last_of_each_key_at(&mut disk, time, keys)?;
    let mut state: Vec<PastRecord> = state.values().map(|owned| told(&owned.record())).collect();
    state.sort_unstable_by_key(|record| record.place);
    // A set stands for several instances.
    state.dedup_by_key(|record| record.place);
    Ok(state)
}

/// Opens a log to read in it.
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

/// A sample of a log, as it is told.
fn told(record: &Record<'_>) -> PastRecord {
    let (stream, number) = message_of(record);
    let payload = record.entry.payload.to_vec();
    PastRecord { place: record.version.0, stream, number, payload }
}
