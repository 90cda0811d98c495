//! Opening a log again: what is there, and what a crash has left.
//!
//! Owns: the decision to cut a torn tail, and to stop at anything else. Never does: pass over a record
//! (I-84).

use alloc::string::String;
use alloc::vec::Vec;

use super::checkpoint::Checkpoint;
use super::disk::SECTOR;
use super::extents::{self, ExtentSlot};
use super::folder::{DRAFT, remove};
use super::index::{self, Index};
use super::record::Record;
use super::segment::{FILE_HEADER, FileHeader, FileKind, Window};
use super::stream::{Limits, Segment, State, StreamLog};
use super::{BadCause, Disk, Kind, LogError, Mark, Owner, StreamKey, Tail, Version};
use crate::bytes::Wire;
use crate::fault::{Fault, planted};

/// How much is looked at when a log is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Check {
    /// The last file whole, of the others their indices: what a crash can have harmed.
    Last,
    /// Everything: also what a disk has lost since.
    All,
}

/// What a crash left at the end of a log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TornTail {
    /// In which file.
    pub file: String,
    /// From which offset on.
    pub offset: u64,
    /// How many bytes.
    pub bytes: u64,
}

/// What was found when a log was opened.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Recovery {
    /// Records, marks among them.
    pub records: u64,
    /// What was torn, and cut if the log was opened to be written.
    pub torn: Option<TornTail>,
    /// Segments whose index was missing or wrong, and was made again.
    pub reindexed: Vec<String>,
    /// Files that a checkpoint or a crash had left over, removed if the log was opened to be written.
    pub removed: Vec<String>,
    /// Bytes at the end that nobody vouched for, and that were therefore written again (I-85).
    pub rewritten: u64,
}

/// What [`scan`] found.
pub(super) struct Scanned {
    pub(super) index: Index,
    pub(super) torn: Option<TornTail>,
    /// Up to where a record says that the file was synced.
    proven: u64,
}

/// Whether a record may come after this message, in a segment.
pub(super) fn expected(last: Version, record: &Record<'_>) -> Result<(), BadCause> {
    let expected = if record.entry.kind.counts() { last.next() } else { last };
    if record.version != expected {
        return Err(BadCause::OtherVersion(record.version));
    }
    if record.entry.kind == Kind::Mark && Mark::from_bytes(record.entry.payload).is_none() {
        return Err(BadCause::Field("mark"));
    }
    Ok(())
}

/// Reads all of a segment. Only of the `last` one may a tail be torn.
pub(super) fn scan<D: Disk>(
    disk: &mut D,
    header: FileHeader,
    last: bool,
) -> Result<Scanned, LogError> {
    let before = Version(header.version.0.saturating_sub(1));
    scan_on(disk, header, last, Index::new(Tail { epoch: header.epoch, version: before }))
}

/// The same, from where this index of it ends.
fn scan_on<D: Disk>(
    disk: &mut D,
    header: FileHeader,
    last: bool,
    mut index: Index,
) -> Result<Scanned, LogError> {
    let file = header.name();
    let length = disk.length(&file).map_err(LogError::of(&file))?;
    let mut window = Window::new(&file, length);
    let mut proven = FILE_HEADER;
    loop {
        let at = index.end;
        let version = index.tail.version.next();
        let found = match window.record(disk, at)? {
            Ok(None) => return Ok(Scanned { index, torn: None, proven }),
            Ok(Some(read)) => expected(index.tail.version, &read.record).map(|()| {
                proven = proven.max(read.synced);
                index.note(&read.record, read.next);
            }),
            Err(cause) => Err(cause),
        };
        let Err(cause) = found else { continue };
        let cause = if last { window.judge(disk, (at, cause))? } else { Some(cause) };
        let Some(cause) = cause else {
            let torn = Some(TornTail { file, offset: at, bytes: length - at });
            return Ok(Scanned { index, torn, proven });
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
struct Names {
    segments: Vec<FileHeader>,
    checkpoints: Vec<FileHeader>,
    drafts: Vec<String>,
}

fn names(disk: &mut impl Disk, owner: Owner, stream: StreamKey) -> Result<Names, LogError> {
    let mut all = disk.list().map_err(LogError::of(""))?;
    all.sort_unstable();
    let mut names = Names { segments: Vec::new(), checkpoints: Vec::new(), drafts: Vec::new() };
    for name in all {
        if let Some(whole) = name.strip_suffix(DRAFT) {
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

/// Looks at a log that somebody else changes, of which no two found the same.
const READ_ATTEMPTS: usize = 8;

impl StreamLog {
    /// Opens the log of a stream, or begins it, to be written. The folder is this process's alone.
    ///
    /// # Errors
    /// What is wrong with it, and where. Nothing was changed then but what a crash had left over.
    pub fn open(
        disk: &mut impl Disk,
        of: (Owner, StreamKey),
        limits: Limits,
        check: Check,
    ) -> Result<(StreamLog, Recovery), LogError> {
        StreamLog::look_through(disk, (of.0, of.1, limits), (check, State::Open))
    }

    /// Opens the log of a stream to be read; changes nothing. Whoever writes the log may drop files while this looks at them: what is wrong
    /// counts if it is found twice.
    ///
    /// # Errors
    /// What is wrong with it, and where.
    pub fn read(
        disk: &mut impl Disk,
        of: (Owner, StreamKey),
        check: Check,
    ) -> Result<(StreamLog, Recovery), LogError> {
        let mut before = None;
        for _ in 0..READ_ATTEMPTS {
            let of = (of.0, of.1, Limits::default());
            match StreamLog::look_through(disk, of, (check, State::Reading)) {
                Err(error) if before.as_ref() != Some(&error) => before = Some(error),
                other => return other,
            }
        }
        Err(before.expect("there was an attempt"))
    }

    /// Harm in what a look at the last file alone has taken for sound: in closed files, and in the checkpoint. What cannot be read is
    /// no harm.
    pub fn find_harm(&self, disk: &mut impl Disk) -> Option<LogError> {
        if self.segments().len() <= 1 && self.checkpoint().is_none() {
            return None;
        }
        let read = StreamLog::read(disk, (self.owner(), self.stream()), Check::All);
        read.err().filter(LogError::is_harm)
    }

    /// Reads what has come to a log that is only read. `false`: other files are there now, and it is to be read anew.
    ///
    /// # Errors
    /// What is wrong with it, and where.
    pub fn read_on(&mut self, disk: &mut impl Disk) -> Result<bool, LogError> {
        let names = names(disk, self.owner, self.stream)?;
        let Segment { header, index } = self.active().clone();
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
        (owner, stream, limits): (Owner, StreamKey, Limits),
        (check, state): (Check, State),
    ) -> Result<(StreamLog, Recovery), LogError> {
        let writes = state == State::Open;
        let mut recovery = Recovery::default();
        if writes {
            // Whoever made or removed a file may have gone before that was kept.
            disk.sync_folder().map_err(LogError::of(""))?;
        }
        // Before the files are looked at: whoever writes goes on meanwhile.
        let known = extents::of(disk, stream)?;
        let mut names = names(disk, owner, stream)?;
        let ends = names.segments.first().zip(names.segments.last());
        let ends = ends.map(|(first, last)| (first.version, last.version));
        if let Some(missing) = known.lost(disk, stream, ends)? {
            return Err(LogError::Lost { stream, version: missing, end: None });
        }
        recovery.removed.append(&mut names.drafts);
        let checkpoint = names.checkpoints.pop().map(|header| Checkpoint { header });
        if check == Check::All
            && let Some(checkpoint) = &checkpoint
        {
            checkpoint.check(disk)?;
        }
        recovery.removed.extend(names.checkpoints.iter().map(FileHeader::name));
        let state_at = checkpoint.as_ref().map(|checkpoint| Tail {
            epoch: checkpoint.header.epoch,
            version: checkpoint.header.version,
        });

        let mut segments: Vec<Segment> = Vec::new();
        let mut proven = FILE_HEADER;
        let count = names.segments.len();
        for (at, header) in names.segments.iter().enumerate() {
            let next = names.segments.get(at + 1);
            // All in it is in the checkpoint too.
            if let (Some(state_at), Some(next)) = (state_at, next)
                && next.version.0 <= state_at.version.0 + 1
            {
                recovery.removed.push(header.name());
                continue;
            }
            let before = segments.last().map(Segment::last).or(state_at.map(|tail| tail.version));
            let begins = Version(header.version.0.saturating_sub(1));
            // The first one may begin within what a checkpoint accounts for.
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
                if known.is_cut(disk, stream, (header.version, scanned.index.end))? {
                    let (version, end) = (header.version, Some((scanned.index.end, known.end)));
                    return Err(LogError::Lost { stream, version, end });
                }
                (scanned.index, scanned.torn)
            } else {
                (sealed(disk, *header, (check, writes), &mut recovery)?, None)
            };
            recovery.records += index.records;
            recovery.torn = torn;
            segments.push(Segment { header: *header, index });
        }
        // What a checkpoint was taken over from another log for ends before it.
        if let Some(state_at) = state_at
            && segments.last().is_some_and(|last| last.last() < state_at.version)
        {
            recovery.removed.extend(segments.drain(..).map(|segment| segment.header.name()));
            recovery.torn = None;
        }
        let empty = segments.is_empty();
        let mut log = StreamLog::assemble((owner, stream, limits), segments, (checkpoint, state));
        if writes {
            log.extent = ExtentSlot::claim(disk, stream)?;
            if empty {
                log.begin(disk, state_at.unwrap_or_default())?;
            } else {
                recovery.rewritten = log.make_sure(disk, (&recovery.torn, proven))?;
            }
            // Also what is said already: a sync that failed may have dropped what can still be read (I-85).
            let reaches = log.reaches();
            if let Some(slot) = &mut log.extent {
                slot.keep(disk, reaches)?;
            }
            // Oldest first, each for good before the next: what is left is never in pieces.
            for name in &recovery.removed {
                remove(disk, &index::name_of(name))?;
                remove(disk, name)?;
            }
        } else if empty {
            log.pretend_begun(state_at.unwrap_or_default());
        }
        Ok((log, recovery))
    }

    /// Cuts what is torn, and writes again what no record vouches for (I-85): a sync that failed may have dropped
    /// it while it can still be read.
    fn make_sure(
        &mut self,
        disk: &mut impl Disk,
        (torn, proven): (&Option<TornTail>, u64),
    ) -> Result<u64, LogError> {
        const PIECE: u64 = 1 << 20;
        let name = self.active().header.name();
        if let Some(torn) = torn {
            disk.truncate(&name, torn.offset).map_err(LogError::of(&name))?;
        }
        let end = self.durable_end;
        // From a sector's beginning, so that each is written whole.
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

/// The index of a segment that is appended to no more.
fn sealed(
    disk: &mut impl Disk,
    header: FileHeader,
    (check, writes): (Check, bool),
    recovery: &mut Recovery,
) -> Result<Index, LogError> {
    let name = header.name();
    let before = Version(header.version.0.saturating_sub(1));
    let length = disk.length(&name).map_err(LogError::of(&name))?;
    let kept = index::load(disk, &name, (before, length))?;
    if let (Check::Last, Some(index)) = (check, &kept) {
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
