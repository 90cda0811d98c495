//! Reading a log: every message after a version, or from a time on.
//!
//! Owns: the position of a reader. Never does: read what is not durable, or go on past a record
//! that is not sound.

use super::recovery::expected;
use super::segment::FileWindow;
use super::stream::StreamLog;
use super::{Disk, LogError, LogRecord, Version, WallTime};

/// Position of a reader in a log. Reading may continue when more messages have become durable.
pub struct LogCursor {
    /// Version of the last message that was passed.
    last: Version,
    /// Messages written earlier are left out.
    since: WallTime,
    /// Messages up to and including this version are left out.
    after: Version,
    /// File being read: its first version, the window onto it, and the offset of the next record.
    reading: Option<(Version, FileWindow, u64)>,
}

impl StreamLog {
    /// Reads the messages after this version.
    ///
    /// # Errors
    /// [`LogError::Gone`] if some of them are no longer in the log, [`LogError::Beyond`] if the log
    /// ends before `version`.
    pub fn after(&self, version: Version) -> Result<LogCursor, LogError> {
        if version.next() < self.complete_from() {
            return Err(LogError::Gone { from: self.complete_from() });
        }
        if version > self.durable() {
            return Err(LogError::Beyond { last: self.durable() });
        }
        Ok(self.cursor(version, WallTime(0)))
    }

    /// Reads the messages written at this time or later, as far as they are in the log.
    pub fn since(&self, time: WallTime) -> LogCursor {
        // All messages before the first segment with such a late message are older.
        let first = self.segments().iter().find(|segment| segment.index.newest >= time);
        let last_before = first.map_or(self.durable(), |segment| segment.last_before());
        self.cursor(last_before, time)
    }

    fn cursor(&self, after: Version, since: WallTime) -> LogCursor {
        let at = self.segments().partition_point(|segment| segment.last() <= after);
        let segment = self.segments().get(at).unwrap_or_else(|| self.active());
        let index = &segment.index;
        // The later of both places: everything before it is left out, by version or by time.
        let place = index.offset_after(after).max(if since == WallTime(0) {
            0
        } else {
            index.offset_at(since)
        });
        let last = index
            .entries
            .iter()
            .rfind(|known| known.at <= place)
            .map_or(index.last_before, |known| known.last_before);
        let window = FileWindow::new(&segment.header.name(), 0);
        LogCursor { last, since, after, reading: Some((segment.header.version, window, place)) }
    }
}

impl LogCursor {
    /// Returns the version of the last message that was passed, whether returned or left out.
    pub fn position(&self) -> Version {
        self.last
    }

    /// Returns the next durable message; `None` if there is none yet.
    ///
    /// # Errors
    /// Any defect of the next record and its location; [`LogError::Gone`] if that record was
    /// dropped meanwhile. A reader that must not be overtaken in this way holds a pin.
    pub fn next(
        &mut self,
        disk: &mut impl Disk,
        log: &StreamLog,
    ) -> Result<Option<LogRecord<'_>>, LogError> {
        let Some(found) = self.find(disk, log)? else { return Ok(None) };
        // The record is read a second time from the window, so that the loop in `find` need not
        // keep a borrow of it.
        let Some((_, window, _)) = &mut self.reading else { return Ok(None) };
        Ok(window.record(disk, found)?.ok().flatten().map(|read| read.record))
    }

    /// Finds the offset of the next message, and moves past the message.
    fn find(&mut self, disk: &mut impl Disk, log: &StreamLog) -> Result<Option<u64>, LogError> {
        loop {
            let Some((first, window, at)) = &mut self.reading else { return Ok(None) };
            let here = log.segments().iter().position(|segment| segment.header.version == *first);
            let Some(here) = here else { return Err(LogError::Gone { from: log.complete_from() }) };
            let active = here + 1 == log.segments().len();
            window.extend(if active { log.durable_end } else { log.segments()[here].index.end });
            let begin = *at;
            let read = match window.record(disk, begin)? {
                Ok(None) if active => return Ok(None),
                Ok(None) => {
                    let next = &log.segments()[here + 1].header;
                    self.reading = Some((
                        next.version,
                        FileWindow::new(&next.name(), 0),
                        super::segment::FILE_HEADER,
                    ));
                    continue;
                }
                Ok(Some(read)) => expected(self.last, &read.record).map(|()| read),
                Err(cause) => Err(cause),
            };
            let read = read.map_err(|cause| LogError::BadRecord {
                file: log.segments()[here].header.name(),
                offset: begin,
                version: self.last.next(),
                cause,
            })?;
            *at = read.next;
            self.last = read.record.version;
            let entry = &read.record.entry;
            if entry.kind.counts() && self.last > self.after && entry.source_time >= self.since {
                return Ok(Some(begin));
            }
        }
    }
}
