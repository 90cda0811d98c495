//! Reading a log for others.
//!
//! Owns: the readings that others have begun here. Never does: hold a turn up; the attendant's thread calls it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use derecho_core::ids::NodeId;
use derecho_core::log::cursor::Cursor;
use derecho_core::log::{
    Check, DiskError, LogError, Record, StreamKey, StreamLog, Version, WallTime, folder,
};
use derecho_core::storage::errands::message_of;
use derecho_node::logs::Folder;

use super::{Ask, Page, PastRecord, Wanted};

/// Bytes of samples that are told at once, and samples.
const PAGE_BYTES: usize = 1 << 20;
const PAGE_SAMPLES: usize = 4096;
/// Bytes of a state, which is told as a whole.
const STATE_BYTES: usize = 32 << 20;
/// So many readings are kept open; of more the oldest begin anew with their next page.
const MOST_OPEN: usize = 16;

/// A reading on its way.
struct Open {
    page: u64,
    disk: Folder,
    log: StreamLog,
    cursor: Cursor,
}

/// See the [module](self).
#[derive(Default)]
pub(crate) struct PastServer {
    open: BTreeMap<(NodeId, u64), Open>,
}

/// Opens a log to read in it.
pub(crate) fn open(dir: &Path, stream: StreamKey) -> Result<(Folder, StreamLog), LogError> {
    let mut disk = Folder::read(dir)?;
    let owner = folder::owner(&mut disk)?.ok_or(LogError::Failed)?;
    let (log, _) = StreamLog::read(&mut disk, (owner, stream), Check::Last)?;
    Ok((disk, log))
}

/// Where what was written at a time or later begins. If the log may have dropped some of that, it says so.
pub(crate) fn from_time(log: &StreamLog, time: WallTime) -> Result<Cursor, LogError> {
    let oldest = log.segments().first().map(|first| first.index.oldest);
    let is_whole = log.complete_from() <= Version(1) || oldest.is_some_and(|oldest| oldest <= time);
    match is_whole {
        true => Ok(log.since(time)),
        false => Err(LogError::Gone { from: log.complete_from() }),
    }
}

/// A sample of a log, as it is told.
pub(crate) fn told(record: &Record<'_>) -> PastRecord {
    let (stream, number) = message_of(record);
    let payload = record.entry.payload.to_vec();
    PastRecord { place: record.version.0, stream, number, payload }
}

impl PastServer {
    /// Answers a question by the log that is there.
    pub(crate) fn answer(
        &mut self,
        log: Option<(PathBuf, StreamKey)>,
        (from, ask): (NodeId, &Ask),
    ) -> Page {
        let Some((dir, stream)) = log else {
            return Page::Refused("it keeps no log of the topic".to_owned());
        };
        let answer = match ask.wanted {
            Wanted::StateAt(time) => state_at(&dir, stream, WallTime(time)),
            _ => self.page((&dir, stream), (from, ask)),
        };
        answer.unwrap_or_else(|error| match error {
            LogError::Gone { from } => Page::Gone(from.0),
            LogError::Beyond { last } => Page::Beyond(last.0),
            error => Page::Refused(format!("its log cannot be read: {error}")),
        })
    }

    fn page(
        &mut self,
        (dir, stream): (&Path, StreamKey),
        (from, ask): (NodeId, &Ask),
    ) -> Result<Page, LogError> {
        let name = (from, ask.reading);
        // It goes on where it was, if this is its next page.
        let known = self.open.remove(&name).filter(|open| open.page + 1 == ask.page);
        let mut reading = match known {
            Some(open) => Open { page: ask.page, ..open },
            None => {
                let (disk, log) = open(dir, stream)?;
                let cursor = match ask.wanted {
                    Wanted::Since(time, 0) => from_time(&log, WallTime(time))?,
                    Wanted::After(place) | Wanted::Since(_, place) => log.after(Version(place))?,
                    Wanted::StateAt(_) => return Ok(Page::Refused("it is no reading".to_owned())),
                };
                Open { page: ask.page, disk, log, cursor }
            }
        };
        let since = if let Wanted::Since(time, _) = ask.wanted { time } else { 0 };
        let (mut records, mut bytes, mut over) = (Vec::new(), 0, false);
        while bytes < PAGE_BYTES && records.len() < PAGE_SAMPLES {
            match reading.cursor.next(&mut reading.disk, &reading.log) {
                Ok(Some(record)) if record.entry.source_time.0 >= since => {
                    bytes += record.entry.payload.len();
                    records.push(told(&record));
                }
                Ok(Some(_)) => {}
                Ok(None) => {
                    over = true;
                    break;
                }
                Err(LogError::Disk { cause: DiskError::NotFound, .. }) => {
                    // The file was dropped meanwhile: what has to come next may be gone.
                    let last = reading.cursor.position();
                    (reading.disk, reading.log) = open(dir, stream)?;
                    reading.cursor = reading.log.after(last)?;
                }
                Err(error) => return Err(error),
            }
        }
        let next = reading.cursor.position().0;
        if !over {
            if self.open.len() >= MOST_OPEN {
                self.open.pop_first();
            }
            self.open.insert(name, reading);
        }
        Ok(Page::Records(records, next, over))
    }
}

fn state_at(dir: &Path, stream: StreamKey, time: WallTime) -> Result<Page, LogError> {
    let (mut disk, log) = open(dir, stream)?;
    from_time(&log, time)?;
    let state = log.last_of_each_key_at(&mut disk, time)?;
    let mut state: Vec<PastRecord> = state.values().map(|owned| told(&owned.record())).collect();
    state.sort_unstable_by_key(|record| record.place);
    if state.iter().map(|record| record.payload.len()).sum::<usize>() > STATE_BYTES {
        return Ok(Page::Refused(format!(
            "the state has more than {} MiB, which is the most that is told to others: ask where the log is",
            STATE_BYTES >> 20
        )));
    }
    let last = state.last().map_or(0, |record| record.place);
    Ok(Page::Records(state, last, true))
}
