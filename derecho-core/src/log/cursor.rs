//! Reading a log: every message after a version, or from a time on.
//!
//! Owns: where a reader is. Never does: read what is not durable, or go on past a record that is not sound.

use super::recovery::expected;
use super::segment::Window;
use super::stream::StreamLog;
use super::{Disk, LogError, Record, Version, WallTime};

/// Where a reader is in a log. It may be read on when more has become durable.
pub struct Cursor {
    /// The last message that was passed.
    last: Version,
    /// What is older is left out.
    since: WallTime,
    /// Messages up to this one are left out.
    after: Version,
    /// The file that is read: its first version, the window onto it, and where the next record begins.
    reading: Option<(Version, Window, u64)>,
}

impl StreamLog {
    /// Reads the messages after this version.
    ///
    /// # Errors
    /// [`LogError::Gone`] if they are not all there any more, [`LogError::Beyond`] if the log does not go
    /// so far.
    pub fn after(&self, version: Version) -> Result<Cursor, LogError> {
        if version.next() < self.complete_from() {
            return Err(LogError::Gone { from: self.complete_from() });
        }
        if version > self.durable() {
            return Err(LogError::Beyond { last: self.durable() });
        }
        Ok(self.cursor(version, WallTime(0)))
    }

    /// Reads the messages that were written at this time or later, as far as they are there.
    pub fn since(&self, time: WallTime) -> Cursor {
        // Whatever comes before the first segment with so late a message is older.
        let first = self.segments().iter().find(|segment| segment.index.newest >= time);
        let before = first.map_or(self.durable(), |segment| segment.before());
        self.cursor(before, time)
    }

    fn cursor(&self, after: Version, since: WallTime) -> Cursor {
        let at = self.segments().partition_point(|segment| segment.last() <= after);
        let segment = self.segments().get(at).unwrap_or_else(|| self.active());
        let index = &segment.index;
        // The later of both: everything before it is too old for one reason or the other.
        let place = index.place_after(after).max(if since == WallTime(0) {
            0
        } else {
            index.place_at(since)
        });
        let last = index
            .places
            .iter()
            .rfind(|known| known.at <= place)
            .map_or(index.before, |known| known.before);
        let window = Window::new(&segment.header.name(), 0);
        Cursor { last, since, after, reading: Some((segment.header.version, window, place)) }
    }
}

impl Cursor {
    /// The last message that was passed: read, or left out.
    pub fn position(&self) -> Version {
        self.last
    }

    /// The next message that is durable; `None` when there is none yet.
    ///
    /// # Errors
    /// What is wrong with the record that has to come next, and where; [`LogError::Gone`] if it was dropped
    /// meanwhile. A reader that must not be overtaken so holds a pin.
    pub fn next(
        &mut self,
        disk: &mut impl Disk,
        log: &StreamLog,
    ) -> Result<Option<Record<'_>>, LogError> {
        let Some(found) = self.find(disk, log)? else { return Ok(None) };
        // Found again in what was read just now, so that the loop need not hold on to it.
        let Some((_, window, _)) = &mut self.reading else { return Ok(None) };
        Ok(window.record(disk, found)?.ok().flatten().map(|read| read.record))
    }

    /// Where the next message begins, and goes past it.
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
                        Window::new(&next.name(), 0),
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
