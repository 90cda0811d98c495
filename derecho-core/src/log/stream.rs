//! The log of one stream: appending, durability, and the beginning of new segments.
//!
//! Owns: the appending end. Never does: report anything as durable before a later sync has
//! succeeded (I-80), or retry after a sync that failed (I-82).
//!
//! ```text
//!                       durable_end        index.end
//!   ... records ... ────────┤ pending ...... │          append: to `pending`
//!                           └── one write, one sync ──> commit: durable
//! ```

use alloc::vec::Vec;

use super::checkpoint::Checkpoint;
use super::extents::{ExtentSlot, LogExtent};
use super::folder::publish;
use super::index::{self, SegmentIndex};
use super::record::{LONGEST, encode};
use super::segment::{FileHeader, FileKind};
use super::{
    Disk, DiskError, EpochId, EpochMark, KeyHash, LogEntry, LogError, LogId, LogKey, LogOwner,
    LogRecord, RecordKind, StreamKey, Tail, Version, WallTime,
};
use crate::bytes::Wire;
use crate::fault::{Fault, planted};
use crate::ids::NodeId;

/// Limits of a log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogLimits {
    /// Size of a segment, in bytes, at which it is sealed and a new one begins.
    pub segment_bytes: u64,
}

impl Default for LogLimits {
    fn default() -> Self {
        LogLimits { segment_bytes: 64 << 20 }
    }
}

/// A file of the log, and its index.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogSegment {
    /// Header of the file.
    pub header: FileHeader,
    /// Index of the file.
    pub index: SegmentIndex,
}

impl LogSegment {
    /// Returns the version of the last message before the segment.
    pub fn last_before(&self) -> Version {
        self.index.last_before
    }

    /// Returns the version of the last message in the segment, or before it if it has none.
    pub fn last(&self) -> Version {
        self.index.tail.version
    }
}

/// Whether a log accepts records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogState {
    /// Open for appending.
    Open,
    /// Opened for reading only.
    Reading,
    /// A sync or a write has failed: nothing more becomes durable (I-82).
    Failed,
}

/// The log of one stream.
pub struct StreamLog {
    pub(super) key: LogKey,
    limits: LogLimits,
    /// Segments, oldest first. The last one is appended to.
    pub(super) segments: Vec<LogSegment>,
    pub(super) checkpoint: Option<Checkpoint>,
    /// Appended records that are not yet written, encoded for their offset in the last file.
    pending: Vec<u8>,
    /// Whether `pending` is written but not yet synced.
    written: bool,
    /// Whether a write ended early and left bytes beyond `durable_end`.
    spoilt: bool,
    pub(super) durable_end: u64,
    /// Version of the last durable message.
    pub(super) durable: Version,
    state: LogState,
    /// The last mark of each kind, which every file begins with.
    begun: Option<EpochMark>,
    cut: Option<EpochMark>,
    /// Pins of readers: identifier, and the last version that the reader no longer needs.
    pub(super) pins: Vec<(u64, Version)>,
    pub(super) next_pin: u64,
    /// Entries that say how far the log reaches (I-97); `None` if the log is read-only or there was
    /// no space for them.
    pub(super) extent: Option<ExtentSlot>,
}

impl StreamLog {
    /// Assembles a log from files that were examined.
    pub(super) fn assemble(
        key: LogKey,
        limits: LogLimits,
        segments: Vec<LogSegment>,
        checkpoint: Option<Checkpoint>,
        state: LogState,
    ) -> StreamLog {
        let last =
            segments.last().map_or(SegmentIndex::new(Tail::default()), |last| last.index.clone());
        let mut log = StreamLog {
            key,
            limits,
            checkpoint,
            pending: Vec::new(),
            written: false,
            spoilt: false,
            durable_end: last.end,
            durable: last.tail.version,
            state,
            begun: None,
            cut: None,
            pins: Vec::new(),
            next_pin: 0,
            extent: None,
            segments: Vec::new(),
        };
        segments
            .iter()
            .flat_map(|segment| &segment.index.marks)
            .for_each(|mark| log.remember(mark));
        log.segments = segments;
        log
    }

    fn remember(&mut self, mark: &EpochMark) {
        *(match mark {
            EpochMark::Begun(..) => &mut self.begun,
            EpochMark::Cut(..) => &mut self.cut,
        }) = Some(mark.clone());
    }

    /// Forgets the last marks, so that no new file repeats them.
    pub(super) fn forget_marks(&mut self) {
        (self.begun, self.cut) = (None, None);
    }

    /// Owner of the log.
    pub fn owner(&self) -> LogOwner {
        self.key.owner
    }

    /// Stream of the log.
    pub fn stream(&self) -> StreamKey {
        self.key.stream
    }

    /// Whether the log accepts records.
    pub fn state(&self) -> LogState {
        self.state
    }

    /// Version of the last message that no crash can remove (I-80).
    pub fn durable(&self) -> Version {
        self.durable
    }

    /// End of the log, including what is not yet durable.
    pub fn tail(&self) -> Tail {
        self.active().index.tail
    }

    /// First version from which on every message is in the log.
    pub fn complete_from(&self) -> Version {
        self.segments.first().map_or(Version(1), |first| first.last_before().next())
    }

    /// Last version that the checkpoint covers, with all versions before it.
    pub fn checkpointed(&self) -> Option<Version> {
        self.checkpoint.as_ref().map(|checkpoint| checkpoint.header.version)
    }

    /// Segments, oldest first.
    pub fn segments(&self) -> &[LogSegment] {
        &self.segments
    }

    /// Marks in the existing files, in order. A mark that a later file repeats is returned again.
    pub fn marks(&self) -> impl Iterator<Item = &EpochMark> {
        self.segments.iter().flat_map(|segment| &segment.index.marks)
    }

    /// Last epoch that was noted, and the folders that log it.
    pub fn epoch(&self) -> Option<(EpochId, &[LogId])> {
        match &self.begun {
            Some(EpochMark::Begun(epoch, epoch_logs)) => Some((*epoch, epoch_logs)),
            _ => None,
        }
    }

    /// Number of bytes that are appended but not yet durable.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// The segment that is appended to.
    pub(super) fn active(&self) -> &LogSegment {
        self.segments.last().expect("a log has a file from its opening on")
    }

    fn active_mut(&mut self) -> &mut LogSegment {
        self.segments.last_mut().expect("a log has a file from its opening on")
    }

    /// Appends a message and returns its version. The message is durable when [`StreamLog::commit`]
    /// says so.
    ///
    /// # Errors
    /// [`LogError::Failed`] if the log has failed, [`LogError::TooLong`] if the payload is
    /// too long.
    pub fn append(&mut self, entry: LogEntry<'_>, disk: &impl Disk) -> Result<Version, LogError> {
        if entry.payload.len() > LONGEST {
            return Err(LogError::TooLong { length: entry.payload.len() });
        }
        let last = self.tail();
        let (epoch, before) = (entry.epoch, last.epoch);
        assert!(epoch >= before, "epochs are gone through in order: {epoch} after {before}");
        let version = if entry.kind.counts() { last.version.next() } else { last.version };
        self.put(LogRecord { version, entry }, disk)?;
        Ok(version)
    }

    /// Appends a mark. A mark becomes durable like a message.
    ///
    /// # Errors
    /// The errors of [`StreamLog::append`].
    pub fn mark(
        &mut self,
        mark: &EpochMark,
        now: WallTime,
        disk: &impl Disk,
    ) -> Result<(), LogError> {
        let payload = mark.to_bytes();
        let entry = mark_entry(mark, &payload, now, self.tail().epoch);
        self.put(LogRecord { version: self.tail().version, entry }, disk)?;
        self.remember(mark);
        Ok(())
    }

    fn put(&mut self, record: LogRecord<'_>, disk: &impl Disk) -> Result<(), LogError> {
        self.takes()?;
        // `pending` must not grow once it is written, or the added part would never be written.
        assert!(!self.written, "what was written is synced before more is appended");
        let at = self.active().index.end;
        encode(record, at, self.durable_end, disk.checksum(), &mut self.pending);
        let end = self.durable_end + self.pending.len() as u64;
        self.active_mut().index.note(&record, end);
        Ok(())
    }

    fn takes(&self) -> Result<(), LogError> {
        match self.state {
            LogState::Open => Ok(()),
            LogState::Failed => Err(LogError::Failed),
            LogState::Reading => Err(LogError::Disk {
                file: self.active().header.name(),
                cause: DiskError::ReadOnly,
            }),
        }
    }

    /// Makes all appended records durable by one write and one sync. Returns the last
    /// durable version.
    ///
    /// # Errors
    /// If the disk is full, nothing is lost, and the call may be repeated when there is space.
    /// After any other error the log has failed.
    pub fn commit(&mut self, disk: &mut impl Disk) -> Result<Version, LogError> {
        self.write(disk)?;
        self.sync(disk)
    }

    /// Performs the first half of [`StreamLog::commit`].
    ///
    /// # Errors
    /// The errors of [`StreamLog::commit`].
    pub fn write(&mut self, disk: &mut impl Disk) -> Result<(), LogError> {
        self.takes()?;
        if self.pending.is_empty() || self.written {
            return Ok(());
        }
        let name = self.active().header.name();
        if self.spoilt {
            // The truncation is synced, so that sectors of the last attempt never appear among
            // those of this one.
            let end = self.durable_end;
            let cleared = disk.truncate(&name, end).and_then(|()| disk.sync_file(&name));
            self.unless_failed(cleared.map_err(LogError::of(&name)))?;
            self.spoilt = false;
        }
        match disk.write_at(&name, self.durable_end, &self.pending) {
            Ok(()) if planted(Fault::DurableBeforeSync) => self.settle(),
            Ok(()) => self.written = true,
            Err(DiskError::Full) => {
                self.spoilt = true;
                return Err(LogError::of(&name)(DiskError::Full));
            }
            Err(cause) => return self.unless_failed(Err(LogError::of(&name)(cause))),
        }
        Ok(())
    }

    /// Performs the second half of [`StreamLog::commit`].
    ///
    /// # Errors
    /// The errors of [`StreamLog::commit`].
    pub fn sync(&mut self, disk: &mut impl Disk) -> Result<Version, LogError> {
        self.takes()?;
        if !self.written {
            return Ok(self.durable);
        }
        let name = self.active().header.name();
        let synced = match disk.sync_file(&name) {
            Err(_) if planted(Fault::SyncRetried) => disk.sync_file(&name),
            other => other,
        };
        self.unless_failed(synced.map_err(LogError::of(&name)))?;
        self.settle();
        self.note_extent(disk);
        let full = self.durable_end >= self.limits.segment_bytes;
        if full && self.active().index.messages() > 0 {
            // All pending records are durable already. If there is no space for a new file, this
            // one grows further; any worse error shows in the next call.
            let _ = self.roll(disk);
        }
        Ok(self.durable)
    }

    /// Counts all appended records as durable.
    fn settle(&mut self) {
        self.pending.clear();
        self.written = false;
        self.durable_end = self.active().index.end;
        self.durable = self.active().index.tail.version;
    }

    /// Passes a result on. After an error the log accepts nothing more.
    pub(super) fn unless_failed<T>(&mut self, result: Result<T, LogError>) -> Result<T, LogError> {
        if result.is_err() {
            self.state = LogState::Failed;
        }
        result
    }

    /// Seals the last file and begins a new one. All records must be durable.
    pub(super) fn roll(&mut self, disk: &mut impl Disk) -> Result<(), LogError> {
        let sealed = self.active();
        let (name, index, tail) = (sealed.header.name(), sealed.index.clone(), sealed.index.tail);
        match self.begin(disk, tail) {
            Ok(()) => {}
            // An incomplete new file is harmless, because nothing refers to it.
            Err(error) if error.is_full() => return Err(error),
            Err(error) => return self.unless_failed(Err(error)),
        }
        // The index only speeds up the next opening, which rebuilds it if it is missing.
        let _ = index::store(disk, &name, &index);
        Ok(())
    }

    /// Begins a file after this message, with the last marks.
    pub(super) fn begin(&mut self, disk: &mut impl Disk, tail: Tail) -> Result<(), LogError> {
        let header = FileHeader {
            owner: self.key.owner,
            stream: self.key.stream,
            version: tail.version.next(),
            kind: FileKind::Segment,
            epoch: tail.epoch,
        };
        let mut bytes = header.encode(disk.checksum());
        let mut index = SegmentIndex::new(tail);
        for mark in [&self.cut, &self.begun].into_iter().flatten() {
            let payload = mark.to_bytes();
            let entry = mark_entry(mark, &payload, WallTime(0), tail.epoch);
            let record = LogRecord { version: tail.version, entry };
            encode(record, index.end, 0, disk.checksum(), &mut bytes);
            index.note(&record, bytes.len() as u64);
        }
        publish(disk, &header.name(), |disk, temporary| {
            disk.write_at(temporary, 0, &bytes).map_err(LogError::of(temporary))
        })?;
        self.durable_end = index.end;
        self.durable = tail.version;
        self.segments.push(LogSegment { header, index });
        if self.extent.is_none() {
            // There may have been no space for it when the log was opened.
            self.extent = ExtentSlot::claim(disk, self.key.stream).unwrap_or_default();
        }
        self.note_extent(disk);
        Ok(())
    }
}

impl StreamLog {
    /// Returns the reach of the files that durably exist.
    pub(super) fn reaches(&self) -> LogExtent {
        let first = self.segments.first().map_or(Version(0), |first| first.header.version);
        LogExtent { first, last: self.active().header.version, end: self.durable_end }
    }

    /// Notes how far the log reaches now. The note before remains correct as a lower bound.
    pub(super) fn note_extent(&mut self, disk: &mut impl Disk) {
        let extent = self.reaches();
        if let Some(slot) = &mut self.extent {
            // If the disk refuses the note, it reports its error at the next operation
            // that matters.
            let _ = slot.note(disk, extent);
        }
    }

    /// Durably clears the note of how far the log reaches, before the log becomes shorter.
    pub(super) fn forget_extent(&mut self, disk: &mut impl Disk) -> Result<(), LogError> {
        self.extent.as_mut().map_or(Ok(()), |slot| slot.keep(disk, LogExtent::default()))
    }
}

impl StreamLog {
    /// Adopts the rest of the last file after a cut.
    pub(super) fn settle_after_cut(&mut self, index: SegmentIndex) {
        self.durable_end = index.end;
        self.durable = index.tail.version;
        self.active_mut().index = index;
        self.forget_marks();
        let marks: Vec<EpochMark> = self.marks().cloned().collect();
        marks.iter().for_each(|mark| self.remember(mark));
    }

    /// Assembles a log without a file for a read-only user, as if the log had just begun.
    pub(super) fn pretend_begun(&mut self, tail: Tail) {
        let header = FileHeader {
            owner: self.key.owner,
            stream: self.key.stream,
            version: tail.version.next(),
            kind: FileKind::Segment,
            epoch: tail.epoch,
        };
        self.segments.push(LogSegment { header, index: SegmentIndex::new(tail) });
        self.settle_after_cut(SegmentIndex::new(tail));
    }
}

fn mark_entry<'a>(
    mark: &EpochMark,
    payload: &'a [u8],
    now: WallTime,
    epoch: EpochId,
) -> LogEntry<'a> {
    let (EpochMark::Begun(of, _) | EpochMark::Cut(of, _)) = mark;
    LogEntry {
        kind: RecordKind::Mark,
        epoch: epoch.max(*of),
        writer: NodeId(0),
        writer_sequence: 0,
        source_time: now,
        reception_time: now,
        key: KeyHash::default(),
        payload,
    }
}
