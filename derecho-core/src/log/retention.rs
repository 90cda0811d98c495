//! Retention: the oldest segments of a log are dropped as a whole.
//!
//! Owns: which segments may be dropped. Never does: drop messages that a reader holds, or any part
//! of the last segment.

use alloc::vec::Vec;

use super::folder::{publish, remove};
use super::index::{self, SegmentIndex};
use super::recovery::expected;
use super::segment::{FileHeader, FileWindow};
use super::stream::{LogSegment, StreamLog};
use super::{Disk, LogError, Tail, Version, WallTime};

/// Minimum amount of a log that is kept. Segments that all of the given limits release are dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SegmentRetention {
    /// Messages written in the last `nanos` nanoseconds are kept.
    pub nanos: Option<u64>,
    /// Number of bytes that are kept.
    pub bytes: Option<u64>,
    /// Number of messages that are kept.
    pub messages: Option<u64>,
}

/// A hold on all messages after a version.
#[derive(PartialEq, Eq, Debug)]
pub struct LogPin(u64);

impl StreamLog {
    /// Holds all messages after this version until the pin is released.
    ///
    /// # Errors
    /// [`LogError::Gone`] if some of them are gone already.
    pub fn pin(&mut self, version: Version) -> Result<LogPin, LogError> {
        if version.next() < self.complete_from() {
            return Err(LogError::Gone { from: self.complete_from() });
        }
        self.next_pin += 1;
        self.pins.push((self.next_pin, version));
        Ok(LogPin(self.next_pin))
    }

    /// Moves a pin: its holder only needs messages after this version.
    pub fn advance(&mut self, pin: &LogPin, version: Version) {
        if let Some((_, at)) = self.pins.iter_mut().find(|(name, _)| *name == pin.0) {
            *at = version.max(*at);
        }
    }

    /// Releases a pin.
    #[expect(clippy::needless_pass_by_value, reason = "a pin that was let go holds nothing")]
    pub fn unpin(&mut self, pin: LogPin) {
        self.pins.retain(|(name, _)| *name != pin.0);
    }

    /// Whether a pinned reader still needs messages up to and including `last`, which are then not
    /// dropped (I-88).
    fn is_held(&self, last: Version) -> bool {
        self.pins.iter().any(|(_, after)| *after < last)
    }

    /// Drops the oldest segments as far as this policy allows. Returns their number.
    ///
    /// # Errors
    /// Errors of the disk. The log has failed then, because it is unknown which files exist.
    pub fn retain(
        &mut self,
        disk: &mut impl Disk,
        policy: SegmentRetention,
        now: WallTime,
    ) -> Result<usize, LogError> {
        if policy == SegmentRetention::default() {
            return Ok(0);
        }
        let mut dropped = 0;
        while let [first, rest @ ..] = &self.segments[..]
            && !rest.is_empty()
        {
            if !self.may_go(first, rest, policy, now) {
                break;
            }
            if self.checkpointed().is_some_and(|state| state < first.last()) {
                // A checkpoint followed by a gap in the messages would be no valid state.
                let name = self.checkpoint.take().map(|checkpoint| checkpoint.header.name());
                let removed = name.map_or(Ok(()), |name| remove(disk, &name));
                self.unless_failed(removed)?;
            }
            self.drop_first(disk)?;
            dropped += 1;
        }
        Ok(dropped)
    }

    fn may_go(
        &self,
        first: &LogSegment,
        rest: &[LogSegment],
        policy: SegmentRetention,
        now: WallTime,
    ) -> bool {
        let bytes = || rest.iter().map(|segment| segment.index.end).sum::<u64>();
        let messages = self.durable.0 - first.last().0;
        policy.nanos.is_none_or(|nanos| first.index.newest.0.saturating_add(nanos) < now.0)
            && policy.messages.is_none_or(|keep| messages >= keep)
            && policy.bytes.is_none_or(|keep| bytes() >= keep)
            && !self.is_held(first.last())
    }

    /// Returns the end of the last segment that this policy allows to drop.
    pub fn spare(&self, policy: SegmentRetention, now: WallTime) -> Option<Tail> {
        let mut spare = None;
        let mut left = &self.segments[..];
        while let [first, rest @ ..] = left
            && !rest.is_empty()
            && policy != SegmentRetention::default()
            && self.may_go(first, rest, policy, now)
        {
            (spare, left) = (Some(first.index.tail), rest);
        }
        spare
    }

    fn drop_first(&mut self, disk: &mut impl Disk) -> Result<(), LogError> {
        let name = self.segments[0].header.name();
        let mut reaches = self.reaches();
        reaches.first = self.segments.get(1).map_or(reaches.first, |next| next.header.version);
        let said = self.extent.as_mut().map_or(Ok(()), |slot| slot.keep(disk, reaches));
        self.unless_failed(said)?;
        let removed = remove(disk, &index::name_of(&name)).and_then(|()| remove(disk, &name));
        self.unless_failed(removed)?;
        self.segments.remove(0);
        Ok(())
    }

    /// Drops the segments that a checkpoint covers and no reader holds.
    pub(super) fn drop_superseded(&mut self, disk: &mut impl Disk) -> Result<(), LogError> {
        let Some(version) = self.checkpointed() else { return Ok(()) };
        while let [first, _, ..] = &self.segments[..]
            && first.last() <= version
            && !self.is_held(first.last())
        {
            self.drop_first(disk)?;
        }
        Ok(())
    }

    /// Cuts all messages after this version, and the marks after them. Only a recorded cut or a
    /// restart may demand this (I-89, I-90).
    ///
    /// # Errors
    /// [`LogError::Gone`] if the log begins later; [`LogError::Beyond`] if the log ends
    /// earlier or a checkpoint contains messages to be cut; errors of the disk, after which
    /// the log has failed.
    pub fn cut_after(&mut self, disk: &mut impl Disk, version: Version) -> Result<(), LogError> {
        self.commit(disk)?;
        if version.next() < self.complete_from() {
            return Err(LogError::Gone { from: self.complete_from() });
        }
        if version > self.durable || self.checkpointed().is_some_and(|state| state > version) {
            return Err(LogError::Beyond { last: self.durable });
        }
        let cut = self.cut(disk, version);
        self.unless_failed(cut)
    }

    fn cut(&mut self, disk: &mut impl Disk, version: Version) -> Result<(), LogError> {
        self.forget_extent(disk)?;
        // The newest files go first, each durably before the next: the rest is always a prefix.
        while self.segments.len() > 1 && self.active().last_before() > version {
            let name = self.active().header.name();
            remove(disk, &index::name_of(&name))?;
            remove(disk, &name)?;
            self.segments.pop();
        }
        let header = self.active().header;
        let name = header.name();
        // The active segment has no index file: an old one would describe records that are gone.
        remove(disk, &index::name_of(&name))?;
        let end = self.active().index.end;
        let kept = prefix(disk, header, end, version)?;
        if kept.end < end {
            shorten(disk, &name, kept.end)?;
        }
        self.settle_after_cut(kept);
        self.note_extent(disk);
        Ok(())
    }
}

/// Returns the index of a segment of this length up to and including version `last`.
pub(super) fn prefix(
    disk: &mut impl Disk,
    header: FileHeader,
    end: u64,
    last: Version,
) -> Result<SegmentIndex, LogError> {
    let file = header.name();
    let before = Version(header.version.0.saturating_sub(1));
    let mut kept = SegmentIndex::new(Tail { epoch: header.epoch, version: before });
    let mut window = FileWindow::new(&file, end);
    loop {
        let at = kept.end;
        let found = window.record(disk, at)?.and_then(|read| match read {
            Some(read) if read.record.version <= last => {
                expected(kept.tail.version, &read.record).map(|()| Some(read))
            }
            _ => Ok(None),
        });
        match found {
            Ok(Some(read)) => kept.note(&read.record, read.next),
            Ok(None) => return Ok(kept),
            // All after the requested message is cut, sound or not.
            Err(_) if kept.tail.version == last => return Ok(kept),
            Err(cause) => {
                let version = kept.tail.version.next();
                return Err(LogError::BadRecord { file, offset: at, version, cause });
            }
        }
    }
}

/// Shortens a segment to its beginning by copying it. The file is not truncated: if the power
/// failed meanwhile, durable sectors could be gone while later ones survive.
pub(super) fn shorten(disk: &mut impl Disk, name: &str, end: u64) -> Result<(), LogError> {
    publish(disk, name, |disk, temporary| copy(disk, name, temporary, end))
}

/// Copies the beginning of a file.
fn copy(disk: &mut impl Disk, from: &str, to: &str, end: u64) -> Result<(), LogError> {
    const PIECE: u64 = 1 << 20;
    let mut piece = Vec::new();
    let mut at = 0;
    while at < end {
        piece.resize((end - at).min(PIECE) as usize, 0);
        let found = disk.read_at(from, at, &mut piece).map_err(LogError::of(from))?;
        if found < piece.len() {
            return Err(LogError::BadHeader { file: from.into() });
        }
        disk.write_at(to, at, &piece).map_err(LogError::of(to))?;
        at += found as u64;
    }
    Ok(())
}
