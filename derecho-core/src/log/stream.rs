//! The log of one stream: what is appended, what of it is durable, and when a new file begins.
//!
//! Owns: the appending end. Never does: say that something is durable before a sync that came after it
//! has succeeded (I-80), or try again after one that failed (I-82).
//!
//! ```text
//!                       durable_end        index.end
//!   ... records ... ────────┤ pending ...... │          append: to `pending`
//!                           └── one write, one sync ──> commit: durable
//! ```

use alloc::vec::Vec;

use super::checkpoint::Checkpoint;
use super::extents::{Extent, ExtentSlot};
use super::folder::publish;
use super::index::{self, Index};
use super::record::{LONGEST, encode};
use super::segment::{FileHeader, FileKind};
use super::{
    Disk, DiskError, Entry, EpochId, KeyHash, Kind, LogError, LogId, Mark, Owner, Record,
    StreamKey, Tail, Version, WallTime,
};
use crate::bytes::Wire;
use crate::fault::{Fault, planted};
use crate::ids::NodeId;

/// How large things get.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// A segment that has so many bytes is sealed, and a new one begun.
    pub segment_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { segment_bytes: 64 << 20 }
    }
}

/// A file of the log, and what is in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Segment {
    /// What it says of itself.
    pub header: FileHeader,
    /// What is in it.
    pub index: Index,
}

impl Segment {
    /// The last message before it.
    pub fn before(&self) -> Version {
        self.index.before
    }

    /// The last message in it, or before it.
    pub fn last(&self) -> Version {
        self.index.tail.version
    }
}

/// Whether a log still takes anything.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// It does.
    Open,
    /// It was opened to be read.
    Reading,
    /// A sync or a write has failed: nothing is durable any more that was not before (I-82).
    Failed,
}

/// The log of one stream.
pub struct StreamLog {
    pub(super) owner: Owner,
    pub(super) stream: StreamKey,
    limits: Limits,
    /// The files, oldest first. The last one is appended to.
    pub(super) segments: Vec<Segment>,
    pub(super) checkpoint: Option<Checkpoint>,
    /// What is appended and not written, encoded for its place in the last file.
    pending: Vec<u8>,
    /// It is written, and not synced.
    written: bool,
    /// A write has come to an end before its own: what it left lies beyond `durable_end`.
    spoilt: bool,
    pub(super) durable_end: u64,
    pub(super) durable: Version,
    state: State,
    /// The last marks of each kind, which every file begins with.
    begun: Option<Mark>,
    cut: Option<Mark>,
    /// Up to where readers have read that hold what follows.
    pub(super) pins: Vec<(u64, Version)>,
    pub(super) next_pin: u64,
    /// Entries that say how far the log reaches (I-97); none if the log is only read, or there was no room for them.
    pub(super) extent: Option<ExtentSlot>,
}

impl StreamLog {
    /// A log whose files were looked through.
    pub(super) fn assemble(
        (owner, stream, limits): (Owner, StreamKey, Limits),
        segments: Vec<Segment>,
        (checkpoint, state): (Option<Checkpoint>, State),
    ) -> StreamLog {
        let last = segments.last().map_or(Index::new(Tail::default()), |last| last.index.clone());
        let mut log = StreamLog {
            owner,
            stream,
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

    fn remember(&mut self, mark: &Mark) {
        *(match mark {
            Mark::Begun(..) => &mut self.begun,
            Mark::Cut(..) => &mut self.cut,
        }) = Some(mark.clone());
    }

    /// No file repeats any more what was noted so far.
    pub(super) fn forget_marks(&mut self) {
        (self.begun, self.cut) = (None, None);
    }

    /// Whose it is.
    pub fn owner(&self) -> Owner {
        self.owner
    }

    /// Of which stream.
    pub fn stream(&self) -> StreamKey {
        self.stream
    }

    /// Whether it still takes anything.
    pub fn state(&self) -> State {
        self.state
    }

    /// The last message that a crash cannot take any more (I-80).
    pub fn durable(&self) -> Version {
        self.durable
    }

    /// Where the log ends, with what is not durable yet.
    pub fn tail(&self) -> Tail {
        self.active().index.tail
    }

    /// Every message from this one on is in the log.
    pub fn complete_from(&self) -> Version {
        self.segments.first().map_or(Version(1), |first| first.before().next())
    }

    /// The version up to which a checkpoint accounts for all messages.
    pub fn checkpointed(&self) -> Option<Version> {
        self.checkpoint.as_ref().map(|checkpoint| checkpoint.header.version)
    }

    /// The files, oldest first.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// The marks in the files that are there, in order; a mark that a file repeats comes again.
    pub fn marks(&self) -> impl Iterator<Item = &Mark> {
        self.segments.iter().flat_map(|segment| &segment.index.marks)
    }

    /// The last epoch that was noted, and who keeps it.
    pub fn epoch(&self) -> Option<(EpochId, &[LogId])> {
        match &self.begun {
            Some(Mark::Begun(epoch, keepers)) => Some((*epoch, keepers)),
            _ => None,
        }
    }

    /// Bytes that are appended and not durable.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// The file that is appended to.
    pub(super) fn active(&self) -> &Segment {
        self.segments.last().expect("a log has a file from its opening on")
    }

    fn active_mut(&mut self) -> &mut Segment {
        self.segments.last_mut().expect("a log has a file from its opening on")
    }

    /// Appends a message; it is durable when [`StreamLog::commit`] says so. Answers its version.
    ///
    /// # Errors
    /// [`LogError::Failed`] if the log has failed, [`LogError::TooLong`].
    pub fn append(&mut self, entry: Entry<'_>, disk: &impl Disk) -> Result<Version, LogError> {
        if entry.payload.len() > LONGEST {
            return Err(LogError::TooLong { length: entry.payload.len() });
        }
        let last = self.tail();
        let (epoch, before) = (entry.epoch, last.epoch);
        assert!(epoch >= before, "epochs are gone through in order: {epoch} after {before}");
        let version = if entry.kind.counts() { last.version.next() } else { last.version };
        self.put(Record { version, entry }, disk)?;
        Ok(version)
    }

    /// Appends a mark; durable as a message is.
    ///
    /// # Errors
    /// As of [`StreamLog::append`].
    pub fn mark(&mut self, mark: &Mark, now: WallTime, disk: &impl Disk) -> Result<(), LogError> {
        let payload = mark.to_bytes();
        let entry = mark_entry(mark, &payload, now, self.tail().epoch);
        self.put(Record { version: self.tail().version, entry }, disk)?;
        self.remember(mark);
        Ok(())
    }

    fn put(&mut self, record: Record<'_>, disk: &impl Disk) -> Result<(), LogError> {
        self.takes()?;
        // What is written cannot grow, or a part of it would never be.
        assert!(!self.written, "what was written is synced before more is appended");
        let place = (self.active().index.end, self.durable_end);
        encode(record, place, disk.checksum(), &mut self.pending);
        let end = self.durable_end + self.pending.len() as u64;
        self.active_mut().index.note(&record, end);
        Ok(())
    }

    fn takes(&self) -> Result<(), LogError> {
        match self.state {
            State::Open => Ok(()),
            State::Failed => Err(LogError::Failed),
            State::Reading => Err(LogError::Disk {
                file: self.active().header.name(),
                cause: DiskError::ReadOnly,
            }),
        }
    }

    /// Makes durable what was appended, by one write and one sync. Answers up to where the log is durable.
    ///
    /// # Errors
    /// If the disk is full, nothing is lost: the same call may be made again when there is room. After any
    /// other error the log has failed.
    pub fn commit(&mut self, disk: &mut impl Disk) -> Result<Version, LogError> {
        self.write(disk)?;
        self.sync(disk)
    }

    /// The first half of [`StreamLog::commit`].
    ///
    /// # Errors
    /// As of it.
    pub fn write(&mut self, disk: &mut impl Disk) -> Result<(), LogError> {
        self.takes()?;
        if self.pending.is_empty() || self.written {
            return Ok(());
        }
        let name = self.active().header.name();
        if self.spoilt {
            // Synced, so that no sector of the last attempt is ever seen among those of this one.
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

    /// The second half of [`StreamLog::commit`].
    ///
    /// # Errors
    /// As of it.
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
            // What was to be durable is. If there is no room for a new file, this one goes on; if there is worse,
            // the next call says so.
            let _ = self.roll(disk);
        }
        Ok(self.durable)
    }

    /// What was appended is durable.
    fn settle(&mut self) {
        self.pending.clear();
        self.written = false;
        self.durable_end = self.active().index.end;
        self.durable = self.active().index.tail.version;
    }

    /// Passes a result on; after an error the log takes nothing more.
    pub(super) fn unless_failed<T>(&mut self, result: Result<T, LogError>) -> Result<T, LogError> {
        if result.is_err() {
            self.state = State::Failed;
        }
        result
    }

    /// Seals the last file and begins a new one. All must be durable.
    pub(super) fn roll(&mut self, disk: &mut impl Disk) -> Result<(), LogError> {
        let sealed = self.active();
        let (name, index, tail) = (sealed.header.name(), sealed.index.clone(), sealed.index.tail);
        match self.begin(disk, tail) {
            Ok(()) => {}
            // Nothing refers to a file that is not whole.
            Err(error) if error.is_full() => return Err(error),
            Err(error) => return self.unless_failed(Err(error)),
        }
        // Only a short cut for the next opening, which goes the long way if it is not there.
        let _ = index::store(disk, &name, &index);
        Ok(())
    }

    /// Begins a file after this message, with the last marks.
    pub(super) fn begin(&mut self, disk: &mut impl Disk, tail: Tail) -> Result<(), LogError> {
        let header = FileHeader {
            owner: self.owner,
            stream: self.stream,
            version: tail.version.next(),
            kind: FileKind::Segment,
            epoch: tail.epoch,
        };
        let mut bytes = header.encode(disk.checksum());
        let mut index = Index::new(tail);
        for mark in [&self.cut, &self.begun].into_iter().flatten() {
            let payload = mark.to_bytes();
            let entry = mark_entry(mark, &payload, WallTime(0), tail.epoch);
            let record = Record { version: tail.version, entry };
            encode(record, (index.end, 0), disk.checksum(), &mut bytes);
            index.note(&record, bytes.len() as u64);
        }
        publish(disk, &header.name(), |disk, draft| {
            disk.write_at(draft, 0, &bytes).map_err(LogError::of(draft))
        })?;
        self.durable_end = index.end;
        self.durable = tail.version;
        self.segments.push(Segment { header, index });
        if self.extent.is_none() {
            // There may have been no room for it when the log was opened.
            self.extent = ExtentSlot::claim(disk, self.stream).unwrap_or_default();
        }
        self.note_extent(disk);
        Ok(())
    }
}

impl StreamLog {
    /// Reach of the files that are there for good.
    pub(super) fn reaches(&self) -> Extent {
        let first = self.segments.first().map_or(Version(0), |first| first.header.version);
        Extent { first, last: self.active().header.version, end: self.durable_end }
    }

    /// Notes how far the log reaches now. The note before is right as well.
    pub(super) fn note_extent(&mut self, disk: &mut impl Disk) {
        let extent = self.reaches();
        if let Some(slot) = &mut self.extent {
            // A disk that does not take it says so when it matters.
            let _ = slot.note(disk, extent);
        }
    }

    /// Clears the note of how far the log reaches, for good, before the log becomes shorter.
    pub(super) fn forget_extent(&mut self, disk: &mut impl Disk) -> Result<(), LogError> {
        self.extent.as_mut().map_or(Ok(()), |slot| slot.keep(disk, Extent::default()))
    }
}

impl StreamLog {
    /// What is left of the last file after a cut.
    pub(super) fn settle_after_cut(&mut self, index: Index) {
        self.durable_end = index.end;
        self.durable = index.tail.version;
        self.active_mut().index = index;
        self.forget_marks();
        let marks: Vec<Mark> = self.marks().cloned().collect();
        marks.iter().for_each(|mark| self.remember(mark));
    }

    /// A log without a file, for whoever only reads: as if one had just been begun.
    pub(super) fn pretend_begun(&mut self, tail: Tail) {
        let header = FileHeader {
            owner: self.owner,
            stream: self.stream,
            version: tail.version.next(),
            kind: FileKind::Segment,
            epoch: tail.epoch,
        };
        self.segments.push(Segment { header, index: Index::new(tail) });
        self.settle_after_cut(Index::new(tail));
    }
}

fn mark_entry<'a>(mark: &Mark, payload: &'a [u8], now: WallTime, epoch: EpochId) -> Entry<'a> {
    let (Mark::Begun(of, _) | Mark::Cut(of, _)) = mark;
    Entry {
        kind: Kind::Mark,
        epoch: epoch.max(*of),
        writer: NodeId(0),
        writer_sequence: 0,
        source_time: now,
        reception_time: now,
        key: KeyHash::default(),
        payload,
    }
}
