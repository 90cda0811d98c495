//! Examination of all files of a stream to their end, whatever is wrong with them: what
//! `squall log` shows.
//!
//! Owns: continuing after an error. Never does: return what comes after an error as if nothing
//! were missing.

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;

use super::checkpoint::Checkpoint;
use super::extents::{self, SegmentBounds};
use super::folder::remove;
use super::index;
use super::recovery::{TornTail, expected};
use super::restart::{LogSummary, NotedCut, last_of};
use super::retention::{prefix, shorten};
use super::segment::{FILE_HEADER, FileHeader, FileKind, FileWindow};
use super::{
    Disk, DiskError, EpochId, EpochMark, LogError, LogId, LogKey, LogRecord, RecordKind, Tail,
    Version,
};
use crate::bytes::Wire;

/// Content of the files of a stream.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LogSurvey {
    /// Number of sound messages, except those of checkpoints.
    pub records: u64,
    /// Number of sound marks.
    pub marks: u64,
    /// Total size of the files, in bytes.
    pub bytes: u64,
    /// Version of the first message.
    pub first: Option<Version>,
    /// Version of the last message.
    pub last: Option<Version>,
    /// Last version that the latest checkpoint covers.
    pub checkpoint: Option<Version>,
    /// Torn tail that a crash has left.
    pub torn: Option<TornTail>,
    /// Whether no sound record follows the last damage, so that the end of the log is unknown.
    pub open_ended: bool,
    /// All defects, in order.
    pub errors: Vec<LogError>,
}

/// Returns the last epoch in the sound records of a log that cannot be opened. Also returns all
/// that is known of the log, unless the records do not show where the log ended and which folders
/// logged its last epoch. That summary is never complete.
///
/// # Errors
/// The errors of [`survey`].
pub fn salvage<D: Disk>(
    disk: &mut D,
    log: LogKey,
) -> Result<(EpochId, Option<LogSummary>), LogError> {
    let (mut tail, mut begun) = (Tail::default(), None);
    let mut cuts = BTreeSet::new();
    let survey = survey(disk, log, |record| {
        let entry = &record.entry;
        tail.epoch = tail.epoch.max(entry.epoch);
        tail.version = tail.version.max(record.version);
        match (entry.kind == RecordKind::Mark)
            .then(|| EpochMark::from_bytes(entry.payload))
            .flatten()
        {
            Some(EpochMark::Begun(epoch, mut epoch_logs)) => {
                // If several marks begin the same epoch, the names of all of them count.
                let same =
                    begun.take().filter(|(known, _): &(EpochId, Vec<LogId>)| *known == epoch);
                epoch_logs.extend(same.into_iter().flat_map(|(_, logs)| logs));
                begun = Some((epoch, epoch_logs));
            }
            Some(EpochMark::Cut(epoch, version)) => drop(cuts.insert(NotedCut { epoch, version })),
            None => {}
        }
    })?;
    // A file that could not be read may contain more.
    let is_read = survey.errors.iter().all(LogError::is_damage);
    let begun = begun.filter(|(epoch, _)| *epoch >= tail.epoch);
    let is_known = is_read && !survey.open_ended && begun.is_some();
    let found = LogSummary {
        tail,
        complete_from: Version(u64::MAX),
        checkpoint: None,
        cuts: last_of(cuts),
        begun,
    };
    Ok((tail.epoch, is_known.then_some(found)))
}

impl LogSurvey {
    fn took(&mut self, record: &LogRecord<'_>) {
        if record.entry.kind == RecordKind::Mark {
            self.marks += 1;
            return;
        }
        self.records += 1;
        self.first = self.first.or(Some(record.version));
        self.last = Some(record.version);
    }
}

/// Examines all files of a stream and passes every sound record of its segments to `visit`,
/// in order.
///
/// # Errors
/// If the extents cannot be read or the folder cannot be listed. All other defects are in
/// the result.
pub fn survey<D: Disk>(
    disk: &mut D,
    LogKey { owner, stream }: LogKey,
    mut visit: impl FnMut(&LogRecord<'_>),
) -> Result<LogSurvey, LogError> {
    let known = extents::of(disk, stream)?;
    let names: Vec<String> = disk.list().map_err(LogError::of(""))?;
    let mut files: Vec<(FileKind, Version, String)> = names
        .into_iter()
        .filter_map(|name| FileHeader::parse_name(&name).map(|of| (of, name)))
        .filter(|((of, ..), _)| *of == stream)
        .map(|((_, kind, version), name)| (kind, version, name))
        .collect();
    files.sort_unstable();
    let mut survey = LogSurvey::default();
    let segments = files.iter().filter(|(kind, ..)| *kind == FileKind::Segment).count();
    let state = files.iter().rfind(|(kind, ..)| *kind == FileKind::Checkpoint);
    survey.checkpoint = state.map(|(_, version, _)| *version);
    let mut last: Option<Version> = None;
    for (at, (kind, _, name)) in files.iter().enumerate() {
        survey.bytes += disk.length(name).unwrap_or(0);
        let header = match FileHeader::expect(disk, owner, name) {
            Ok(header) => header,
            // The process that writes the log has dropped the file since the files were listed.
            Err(LogError::Disk { cause: DiskError::NotFound, .. })
                if !disk.list().map_err(LogError::of(""))?.contains(name) =>
            {
                last = None;
                continue;
            }
            Err(error) => {
                survey.errors.push(error);
                survey.open_ended |= at + 1 == segments;
                last = None;
                continue;
            }
        };
        let looked = match kind {
            FileKind::Checkpoint => Checkpoint { header }.check(disk).map(|()| last),
            FileKind::Segment => {
                let before = Version(header.version.0.saturating_sub(1));
                // Files before one that a checkpoint reaches into may be gone.
                let whole = last.is_none_or(|last| last == before);
                let reached = survey.checkpoint.is_none_or(|state| at > 0 || state >= before);
                if !whole || !reached {
                    let missing = last.unwrap_or(Version(0)).next();
                    survey.errors.push(LogError::Gap { stream, missing, next: name.clone() });
                }
                let is_last = at + 1 == segments;
                file(disk, header, is_last, &mut survey, &mut visit).map(Some)
            }
        };
        match looked {
            Ok(end) => last = end,
            Err(error) => survey.errors.push(error),
        }
    }
    let ends = files[..segments].first().zip(files[..segments].last());
    let ends = ends.map(|(first, last)| SegmentBounds { first: first.1, last: last.1 });
    if let Some(version) = known.lost(disk, stream, ends)? {
        survey.open_ended |= ends.is_none_or(|ends| ends.last < known.last);
        survey.errors.push(LogError::Lost { stream, version, end: None });
    }
    if let Some((_, version, name)) = files[..segments].last() {
        let length = disk.length(name).unwrap_or(0);
        let end = survey.torn.as_ref().map_or(length, |torn| torn.offset);
        if known.is_cut(disk, stream, *version, end)? {
            survey.open_ended = true;
            let (version, end) = (*version, Some((end, known.end)));
            survey.errors.push(LogError::Lost { stream, version, end });
        }
    }
    Ok(survey)
}

/// Cuts all messages of a stream after this version, whatever is wrong with later ones. This makes
/// a damaged log usable again. This process must be the only user of the folder.
///
/// # Errors
/// [`LogError::Gone`] or [`LogError::Beyond`] if the log does not have this version, or a
/// checkpoint contains messages to be cut; any defect up to and including this version.
pub fn truncate<D: Disk>(
    disk: &mut D,
    LogKey { owner, stream }: LogKey,
    version: Version,
) -> Result<(), LogError> {
    let names: Vec<String> = disk.list().map_err(LogError::of(""))?;
    let mut segments = Vec::new();
    for name in names {
        match FileHeader::parse_name(&name) {
            Some((of, FileKind::Segment, first)) if of == stream => segments.push((first, name)),
            Some((of, FileKind::Checkpoint, state)) if of == stream && state > version => {
                return Err(LogError::Beyond { last: version });
            }
            _ => {}
        }
    }
    segments.sort_unstable();
    let first = segments.first().map_or(Version(1), |(first, _)| *first);
    if first > version.next() {
        return Err(LogError::Gone { from: first });
    }
    if segments.is_empty() && version == Version(0) {
        // All files of the stream are gone, and the log begins from the start.
        return extents::forget(disk, stream);
    }
    let keeps = segments.partition_point(|(first, _)| *first <= version.next());
    let Some((_, name)) = keeps.checked_sub(1).and_then(|last| segments.get(last)) else {
        return Err(LogError::Beyond { last: Version(0) });
    };
    // Checked before any file is removed: the log may not have the version at all.
    let header = FileHeader::expect(disk, owner, name)?;
    let length = disk.length(name).map_err(LogError::of(name))?;
    let kept = prefix(disk, header, length, version)?;
    if kept.tail.version < version {
        return Err(LogError::Beyond { last: kept.tail.version });
    }
    extents::forget(disk, stream)?;
    for (_, later) in segments[keeps..].iter().rev() {
        remove(disk, &index::name_of(later))?;
        remove(disk, later)?;
    }
    remove(disk, &index::name_of(name))?;
    if kept.end < length {
        shorten(disk, name, kept.end)?;
    }
    Ok(())
}

/// Examines one segment, and continues after any defect in it. Returns its last message.
fn file<D: Disk>(
    disk: &mut D,
    header: FileHeader,
    is_last: bool,
    survey: &mut LogSurvey,
    visit: &mut impl FnMut(&LogRecord<'_>),
) -> Result<Version, LogError> {
    let file = header.name();
    let length = disk.length(&file).map_err(LogError::of(&file))?;
    let mut window = FileWindow::new(&file, length);
    let (mut at, mut last) = (FILE_HEADER, Version(header.version.0.saturating_sub(1)));
    loop {
        let found = match window.record(disk, at)? {
            Ok(None) => return Ok(last),
            Ok(Some(read)) => expected(last, &read.record).map(|()| {
                visit(&read.record);
                survey.took(&read.record);
                last = read.record.version;
                read.next
            }),
            Err(cause) => Err(cause),
        };
        let cause = match found {
            Ok(next) => {
                at = next;
                continue;
            }
            Err(cause) => cause,
        };
        let verdict = if is_last { window.judge(disk, at, cause)? } else { Some(cause) };
        let Some(cause) = verdict else {
            survey.torn = Some(TornTail { file, offset: at, bytes: length - at });
            return Ok(last);
        };
        let bad =
            LogError::BadRecord { file: file.clone(), offset: at, version: last.next(), cause };
        survey.errors.push(bad);
        let Some(next) = window.find(disk, at, |_| true)? else {
            survey.open_ended |= is_last;
            return Ok(last);
        };
        // The next record need not follow the last one: the gap has been reported.
        if let Ok(Some(read)) = window.record(disk, next)? {
            let counts = u64::from(read.record.entry.kind.counts());
            last = Version(read.record.version.0.saturating_sub(counts));
        }
        at = next;
    }
}
