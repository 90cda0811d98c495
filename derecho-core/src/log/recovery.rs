//! Opening a log: finding its files, and repairing what a crash has left.
//!
//! Owns: the decision to cut a torn tail, and to stop at any other defect. Never does: skip a
//! record (I-84).

use alloc::string::String;
use alloc::vec::Vec;

use super::checkpoint::Checkpoint;
use super::disk::SECTOR;
use super::extents::{self, ExtentSlot, SegmentBounds};
use super::folder::{UNFINISHED, remove};
use super::index::{self, SegmentIndex};
use super::record::LogRecord;
use super::segment::{FILE_HEADER, FileHeader, FileKind, FileWindow};
use super::stream::{LogLimits, LogSegment, LogState, StreamLog};
use super::{BadCause, Disk, EpochMark, LogError, LogKey, RecordKind, Tail, Version};
use crate::bytes::Wire;
use crate::fault::{Fault, planted};

/// How much of a log is checked when it is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecoveryCheck {
    /// The last file completely, and the indices of the others: all that a crash can have damaged.
    Last,
    /// Everything, including what a disk has lost since.
    All,
}

/// Bytes that a crash left at the end of a log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TornTail {
    /// Name of the file.
    pub file: String,
    /// Offset at which the torn bytes begin.
    pub offset: u64,
    /// Number of torn bytes.
    pub bytes: u64,
}

/// Result of opening a log.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Recovery {
    /// Number of records, including marks.
    pub records: u64,
    /// Torn tail; it was cut if the log was opened for writing.
    pub torn: Option<TornTail>,
    /// Segments whose index was missing or wrong, and was rebuilt.
    pub reindexed: Vec<String>,
    /// Files left over by a checkpoint or a crash; they were removed if the log was opened
    /// for writing.
    pub removed: Vec<String>,
    /// Number of bytes at the end that no record vouched for, and that were therefore
    /// rewritten (I-85).
    pub rewritten: u64,
}

/// Result of [`scan`].
pub(super) struct ScanResult {
    pub(super) index: SegmentIndex,
    pub(super) torn: Option<TornTail>,
    /// Offset up to which a record says that the file was synced.
    proven: u64,
}

/// Whether this record may follow the message `last` in a segment.
pub(super) fn expected(last: Version, record: &LogRecord<'_>) -> Result<(), BadCause> {
    let expected = if record.entry.kind.counts() { last.next() } else { last };
    if record.version != expected {
        return Err(BadCause::OtherVersion(record.version));
    }
    if record.entry.kind == RecordKind::Mark
        && EpochMark::from_bytes(record.entry.payload).is_none()
    {
        return Err(BadCause::Field("mark"));
    }
    Ok(())
}

/// Reads a whole segment. Only the `last` segment may have a torn tail.
pub(super) fn scan<D: Disk>(
    disk: &mut D,
    header: FileHeader,
    last: bool,
) -> Result<ScanResult, LogError> {
    let before = Version(header.version.0.saturating_sub(1));
    scan_on(disk, header, last, SegmentIndex::new(Tail { epoch: header.epoch, version: before }))
}

/// Performs [`scan`] from the end of this index on.
fn scan_on<D: Disk>(
    disk: &mut D,
    header: FileHeader,
    last: bool,
    mut index: SegmentIndex,
) -> Result<ScanResult, LogError> {
    let file = header.name();
    let length = disk.length(&file).map_err(LogError::of(&file))?;
    let mut window = FileWindow::new(&file, length);
    let mut proven = FILE_HEADER;
    loop {
        let at = index.end;
        let version = index.tail.version.next();
        let found = match window.record(disk, at)? {
            Ok(None) => return Ok(ScanResult { index, torn: None, proven }),
            Ok(Some(read)) => expected(index.tail.version, &read.record).map(|()| {
                proven = proven.max(read.synced);
                index.note(&read.record, read.next);
            }),
            Err(cause) => Err(cause),
        };
        let Err(cause) = found else { continue };
        let cause = if last { window.judge(disk, at, cause)? } else { Some(cause) };
        let Some(cause) = cause else {
            let torn = Some(TornTail { file, offset: at, bytes: length - at });
            return Ok(ScanResult { index, torn, proven });
        };
        if planted(Fault::BadRecordSkipped)
            && let Some(next) = window.find(disk, at, |_| true)?
        {
            index.end = next;
            continue;
        }
        return Err(LogError::BadRecord { file, offset: at, version, cause });
    }
}

/// The files of a stream, as their names say.
struct StreamFiles {
    segments: Vec<FileHeader>,
    checkpoints: Vec<FileHeader>,
    drafts: Vec<String>,
}

fn names(disk: &mut impl Disk, LogKey { owner, stream }: LogKey) -> Result<StreamFiles, LogError> {
    let mut all = disk.list().map_err(LogError::of(""))?;
    all.sort_unstable();
    let mut names =
        StreamFiles { segments: Vec::new(), checkpoints: Vec::new(), drafts: Vec::new() };
    for name in all {
        if let Some(whole) = name.strip_suffix(UNFINISHED) {
            if FileHeader::parse_name(whole).is_some_and(|(of, ..)| of == stream) {
                names.drafts.push(name);
            }
            continue;
        }
        match FileHeader::parse_name(&name) {
            Some((of, kind, _)) if of == stream => {
                let header = FileHeader::expect(disk, owner, &name)?;
                match kind {
                    FileKind::Segment => names.segments.push(header),
                    FileKind::Checkpoint => names.checkpoints.push(header),
                }
            }
            _ => {}
        }
    }
    names.segments.sort_unstable_by_key(|header| header.version);
    names.checkpoints.sort_unstable_by_key(|header| header.version);
    Ok(names)
}

/// Number of attempts to read a log that another process changes, while no two attempts find
/// the same.
const READ_ATTEMPTS: usize = 8;

impl StreamLog {
    /// Opens the log of a stream for writing, or begins it. This process must be the only user of
    /// the folder.
    ///
    /// # Errors
    /// Any defect and its location. In that case only leftovers of a crash were changed.
    pub fn open(
        disk: &mut impl Disk,
        key: LogKey,
        limits: LogLimits,
        check: RecoveryCheck,
    ) -> Result<(StreamLog, Recovery), LogError> {
        StreamLog::look_through(disk, key, limits, check, LogState::Open)
    }

    /// Opens the log of a stream for reading; changes nothing. A process that writes the log may
    /// drop files meanwhile, so a defect counts only if it is found twice.
    ///
    /// # Errors
    /// Any defect and its location.
    pub fn read(
        disk: &mut impl Disk,
        key: LogKey,
        check: RecoveryCheck,
    ) -> Result<(StreamLog, Recovery), LogError> {
        let mut before = None;
        for _ in 0..READ_ATTEMPTS {
            let limits = LogLimits::default();
            match StreamLog::look_through(disk, key, limits, check, LogState::Reading) {
                Err(error) if before.as_ref() != Some(&error) => before = Some(error),
                other => return other,
            }
        }
        Err(before.expect("there was an attempt"))
    }

    /// Searches for damage that a check of the last file alone does not find: in sealed segments
    /// and in the checkpoint. A read error of the disk does not count as damage.
    pub fn find_damage(&self, disk: &mut impl Disk) -> Option<LogError> {
        if self.segments().len() <= 1 && self.checkpoint().is_none() {
            return None;
        }
        let read = StreamLog::read(disk, self.key, RecoveryCheck::All);
        read.err().filter(LogError::is_damage)
    }

    /// Reads what was added to a read-only log. Returns `false` if there are other files now, and
    /// the log must be read from the beginning.
    ///
    /// # Errors
    /// Any defect and its location.
    pub fn read_on(&mut self, disk: &mut impl Disk) -> Result<bool, LogError> {
        let names = names(disk, self.key)?;
        let LogSegment { header, index } = self.active().clone();
        let state_at = names.checkpoints.last().map(|header| header.version);
        let same = names.segments.last() == Some(&header) && state_at == self.checkpointed();
        if !same || disk.length(&header.name()).map_err(LogError::of(&header.name()))? < index.end {
            return Ok(false);
        }
        self.settle_after_cut(scan_on(disk, header, true, index)?.index);
        Ok(true)
    }

    fn look_through(
        disk: &mut impl Disk,
        key: LogKey,
        limits: LogLimits,
        check: RecoveryCheck,
        state: LogState,
    ) -> Result<(StreamLog, Recovery), LogError> {
        let stream = key.stream;
        let writes = state == LogState::Open;
        let mut recovery = Recovery::default();
        if writes {
            // The process that created or removed a file may have ended before that change
            // was durable.
            disk.sync_folder().map_err(LogError::of(""))?;
        }
        // The extents are read before the files are listed, because a writing process goes
        // on meanwhile.
        let known = extents::of(disk, stream)?;
        let mut names = names(disk, key)?;
        let ends = names.segments.first().zip(names.segments.last());
        let ends =
            ends.map(|(first, last)| SegmentBounds { first: first.version, last: last.version });
        if let Some(missing) = known.lost(disk, stream, ends)? {
            return Err(LogError::Lost { stream, version: missing, end: None });
        }
        recovery.removed.append(&mut names.drafts);
        let checkpoint = names.checkpoints.pop().map(|header| Checkpoint { header });
        if check == RecoveryCheck::All
            && let Some(checkpoint) = &checkpoint
        {
            checkpoint.check(disk)?;
        }
        recovery.removed.extend(names.checkpoints.iter().map(FileHeader::name));
        let state_at = checkpoint.as_ref().map(|checkpoint| Tail {
            epoch: checkpoint.header.epoch,
            version: checkpoint.header.version,
        });

        let mut segments: Vec<LogSegment> = Vec::new();
        let mut proven = FILE_HEADER;
        let count = names.segments.len();
        for (at, header) in names.segments.iter().enumerate() {
            let next = names.segments.get(at + 1);
            // The checkpoint covers all messages of this segment.
            if let (Some(state_at), Some(next)) = (state_at, next)
                && next.version.0 <= state_at.version.0 + 1
            {
                recovery.removed.push(header.name());
                continue;
            }
            let before =
                segments.last().map(LogSegment::last).or(state_at.map(|tail| tail.version));
            let begins = Version(header.version.0.saturating_sub(1));
            // The first segment may begin within the range that a checkpoint covers.
            let contiguous = match (before, segments.is_empty()) {
                (Some(before), true) => begins <= before,
                (Some(before), false) => begins == before,
                (None, _) => true,
            };
            if let (false, Some(before)) = (contiguous, before) {
                return Err(LogError::Gap { stream, missing: before.next(), next: header.name() });
            }
            let (index, torn) = if at + 1 == count {
                let scanned = scan(disk, *header, true)?;
                proven = scanned.proven;
                if known.is_cut(disk, stream, header.version, scanned.index.end)? {
                    let (version, end) = (header.version, Some((scanned.index.end, known.end)));
                    return Err(LogError::Lost { stream, version, end });
                }
                (scanned.index, scanned.torn)
            } else {
                (sealed(disk, *header, check, writes, &mut recovery)?, None)
            };
            recovery.records += index.records;
            recovery.torn = torn;
            segments.push(LogSegment { header: *header, index });
        }
        // A checkpoint taken over from another log covers more than these segments: they end
        // before it.
        if let Some(state_at) = state_at
            && segments.last().is_some_and(|last| last.last() < state_at.version)
        {
            recovery.removed.extend(segments.drain(..).map(|segment| segment.header.name()));
            recovery.torn = None;
        }
        let empty = segments.is_empty();
        let mut log = StreamLog::assemble(key, limits, segments, checkpoint, state);
        if writes {
            log.extent = ExtentSlot::claim(disk, stream)?;
            if empty {
                log.begin(disk, state_at.unwrap_or_default())?;
            } else {
                recovery.rewritten = log.make_sure(disk, recovery.torn.as_ref(), proven)?;
            }
            // The extent is rewritten even if the file says it already: a sync that failed may have
            // dropped bytes that can still be read (I-85).
            let reaches = log.reaches();
            if let Some(slot) = &mut log.extent {
                slot.keep(disk, reaches)?;
            }
            // The oldest files go first, each durably before the next: the rest is
            // always contiguous.
            for name in &recovery.removed {
                remove(disk, &index::name_of(name))?;
                remove(disk, name)?;
            }
        } else if empty {
            log.pretend_begun(state_at.unwrap_or_default());
        }
        Ok((log, recovery))
    }

    /// Cuts a torn tail, and rewrites all that no record vouches for (I-85): a sync that failed may
    /// have dropped bytes that can still be read.
    fn make_sure(
        &mut self,
        disk: &mut impl Disk,
        torn: Option<&TornTail>,
        proven: u64,
    ) -> Result<u64, LogError> {
        const PIECE: u64 = 1 << 20;
        let name = self.active().header.name();
        if let Some(torn) = torn {
            disk.truncate(&name, torn.offset).map_err(LogError::of(&name))?;
        }
        let end = self.durable_end;
        // Rewriting starts at a sector boundary, so that each sector is written completely.
        let begin = (proven.min(end) / SECTOR * SECTOR).max(FILE_HEADER.min(end));
        let mut piece = Vec::new();
        let mut at = if planted(Fault::UnprovenBelieved) { end } else { begin };
        while at < end {
            piece.resize((end - at).min(PIECE) as usize, 0);
            let found = disk.read_at(&name, at, &mut piece).map_err(LogError::of(&name))?;
            if found < piece.len() {
                let version = self.durable.next();
                return Err(LogError::BadRecord {
                    file: name,
                    offset: at,
                    version,
                    cause: BadCause::Short,
                });
            }
            disk.write_at(&name, at, &piece).map_err(LogError::of(&name))?;
            at += found as u64;
        }
        disk.sync_file(&name).map_err(LogError::of(&name))?;
        Ok(end - begin)
    }
}

/// Returns the index of a sealed segment.
fn sealed(
    disk: &mut impl Disk,
    header: FileHeader,
    check: RecoveryCheck,
    writes: bool,
    recovery: &mut Recovery,
) -> Result<SegmentIndex, LogError> {
    let name = header.name();
    let before = Version(header.version.0.saturating_sub(1));
    let length = disk.length(&name).map_err(LogError::of(&name))?;
    let kept = index::load(disk, &name, before, length)?;
    if let (RecoveryCheck::Last, Some(index)) = (check, &kept) {
        return Ok(index.clone());
    }
    let index = scan(disk, header, false)?.index;
    if kept.as_ref() != Some(&index) {
        if writes {
            index::store(disk, &name, &index)?;
        }
        recovery.reindexed.push(name);
    }
    Ok(index)
}
