//! Checkpoints: the state that a log leads to, in place of the messages that led there.
//!
//! Owns: how a checkpoint is written and read. Never does: choose the state. The state is either
//! the last message of each instance, or given by an application.
//!
//! ```text
//!   header(version V, epoch) | messages up to V, in order | EpochMark::Cut(epoch, V): the end
//! ```

use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;

use super::folder::{publish, remove};
use super::index;
use super::record::{AsRecord, encode};
use super::segment::{FILE_HEADER, FileHeader, FileKind, FileWindow};
use super::stream::StreamLog;
use super::{
    BadCause, Disk, EpochId, EpochMark, KeyHash, LogEntry, LogError, LogRecord, OwnedRecord,
    RecordKind, Tail, Version, WallTime, aside,
};
use crate::bytes::Wire;
use crate::ids::NodeId;

/// Bytes that are gathered before they are written.
const PIECE: usize = 1 << 20;

/// A checkpoint in the folder.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Checkpoint {
    /// Header of its file.
    pub header: FileHeader,
}

impl Checkpoint {
    /// Passes its messages to `visit` one by one.
    ///
    /// # Errors
    /// Any defect of the file with its offset, including a missing end.
    pub fn each<D: Disk>(
        &self,
        disk: &mut D,
        mut visit: impl FnMut(&LogRecord<'_>),
    ) -> Result<(), LogError> {
        let file = self.header.name();
        let length = disk.length(&file).map_err(LogError::of(&file))?;
        let mut window = FileWindow::new(&file, length);
        let end = EpochMark::Cut(self.header.epoch, self.header.version).to_bytes();
        let (mut at, mut last, mut ended) = (FILE_HEADER, Version(0), false);
        loop {
            let found = window.record(disk, at)?.and_then(|read| match read {
                Some(_) if ended => Err(BadCause::Field("end")),
                Some(read) if read.record.entry.kind == RecordKind::Mark => {
                    ended = read.record.entry.payload == end;
                    if ended { Ok(Some(read.next)) } else { Err(BadCause::Field("mark")) }
                }
                Some(read)
                    if read.record.version <= last || read.record.version > self.header.version =>
                {
                    Err(BadCause::OtherVersion(read.record.version))
                }
                Some(read) => {
                    last = read.record.version;
                    visit(&read.record);
                    Ok(Some(read.next))
                }
                None if ended => Ok(None),
                None => Err(BadCause::Short),
            });
            match found {
                Ok(Some(next)) => at = next,
                Ok(None) => return Ok(()),
                Err(cause) => {
                    return Err(LogError::BadRecord {
                        file,
                        offset: at,
                        version: last.next(),
                        cause,
                    });
                }
            }
        }
    }

    /// Checks that the whole checkpoint is sound.
    ///
    /// # Errors
    /// The errors of [`Checkpoint::each`].
    pub fn check(&self, disk: &mut impl Disk) -> Result<(), LogError> {
        self.each(disk, |_| {})
    }
}

impl StreamLog {
    /// Returns the checkpoint, if there is one.
    pub fn checkpoint(&self) -> Option<&Checkpoint> {
        self.checkpoint.as_ref()
    }

    /// Returns the last message of each instance up to and including version `last`, as far as the
    /// log still has them.
    ///
    /// # Errors
    /// Any defect of the log, and its location.
    pub fn last_of_each_key(
        &self,
        disk: &mut impl Disk,
        last: Version,
    ) -> Result<BTreeMap<KeyHash, OwnedRecord>, LogError> {
        let key = |record: &LogRecord<'_>| [record.entry.key];
        let found = self.last_of_each(disk, |record| record.version <= last, key)?;
        let own =
            |record: Rc<OwnedRecord>| Rc::try_unwrap(record).unwrap_or_else(|it| (*it).clone());
        Ok(found.into_iter().map(|(key, record)| (key, own(record))).collect())
    }

    /// Returns the last message of each instance that was written at `time` or before. A message
    /// may stand for several instances, which `keys` returns.
    ///
    /// # Errors
    /// Any defect of the log, and its location.
    pub fn last_of_each_key_at<K: IntoIterator<Item = KeyHash>>(
        &self,
        disk: &mut impl Disk,
        time: WallTime,
        keys: impl Fn(&LogRecord<'_>) -> K,
    ) -> Result<BTreeMap<KeyHash, Rc<OwnedRecord>>, LogError> {
        self.last_of_each(disk, |record| record.entry.source_time <= time, keys)
    }

    fn last_of_each<K: IntoIterator<Item = KeyHash>>(
        &self,
        disk: &mut impl Disk,
        wanted: impl Fn(&LogRecord<'_>) -> bool,
        keys: impl Fn(&LogRecord<'_>) -> K,
    ) -> Result<BTreeMap<KeyHash, Rc<OwnedRecord>>, LogError> {
        let mut last = BTreeMap::new();
        let mut take = |record: &LogRecord<'_>| {
            if wanted(record) {
                let owned = Rc::new(record.to_owned());
                last.extend(keys(record).into_iter().map(|key| (key, Rc::clone(&owned))));
            }
        };
        if let Some(checkpoint) = &self.checkpoint {
            checkpoint.each(disk, &mut take)?;
        }
        let mut cursor = self.after(self.begins_after())?;
        while let Some(record) = cursor.next(disk, self)? {
            take(&record);
        }
        Ok(last)
    }

    /// Version after which reading begins for what a checkpoint does not cover.
    fn begins_after(&self) -> Version {
        let first = Version(self.complete_from().0 - 1);
        self.checkpointed().map_or(first, |version| version.max(first))
    }

    /// Replaces all durable messages by the last message of each instance, except messages that
    /// readers hold.
    ///
    /// # Errors
    /// Any defect of the log, or an error of the disk. The log is then unchanged or has failed.
    pub fn checkpoint_last_of_each_key(&mut self, disk: &mut impl Disk) -> Result<(), LogError> {
        let tail = Tail { version: self.durable(), epoch: self.tail().epoch };
        let state = self.last_of_each_key(disk, tail.version)?;
        let mut state: Vec<&OwnedRecord> = state.values().collect();
        state.sort_unstable_by_key(|owned| owned.record().version);
        self.put_checkpoint(disk, tail, state.iter().map(|owned| owned.record()))
    }

    /// Replaces all messages up to `tail` by this state. `tail` is either the end of the log, which
    /// must be durable, or beyond its end if the state was taken over from another member. The
    /// messages come with growing versions.
    ///
    /// # Errors
    /// The errors of [`StreamLog::checkpoint_last_of_each_key`]; [`LogError::Beyond`] if `tail`
    /// lies within the log.
    pub fn put_checkpoint<D: Disk, R: AsRecord>(
        &mut self,
        disk: &mut D,
        tail: Tail,
        state: impl Iterator<Item = R>,
    ) -> Result<(), LogError> {
        if self.pending() > 0 {
            self.commit(disk)?;
        }
        if tail.version < self.durable() {
            return Err(LogError::Beyond { last: self.durable() });
        }
        let header = self.state_header(tail);
        let written = write(disk, header, state);
        match written {
            Err(error) if error.is_full() => return Err(error),
            other => self.unless_failed(other)?,
        }
        let before = self.checkpoint.replace(Checkpoint { header });
        let taken_over = tail.version > self.durable();
        let result = self.go_on_from(
            disk,
            tail,
            taken_over,
            before.filter(|old| old.header.version != header.version),
        );
        self.unless_failed(result)
    }

    /// Replaces the segments up to `tail`, the end of one of them, by this state, and leaves all
    /// later segments (I-94).
    ///
    /// # Errors
    /// The errors of [`StreamLog::put_checkpoint`].
    pub fn drop_up_to<D: Disk, R: AsRecord>(
        &mut self,
        disk: &mut D,
        tail: Tail,
        state: impl Iterator<Item = R>,
    ) -> Result<(), LogError> {
        let header = self.state_header(tail);
        match write(disk, header, state) {
            Err(error) if error.is_full() => return Err(error),
            other => self.unless_failed(other)?,
        }
        let before = self.checkpoint.replace(Checkpoint { header });
        let before = before.filter(|old| old.header.version != header.version);
        let removed = before.map_or(Ok(()), |old| remove(disk, &old.header.name()));
        self.unless_failed(removed)?;
        self.drop_superseded(disk)
    }

    fn state_header(&self, tail: Tail) -> FileHeader {
        let (owner, stream, kind) = (self.key.owner, self.key.stream, FileKind::Checkpoint);
        FileHeader { owner, stream, version: tail.version, kind, epoch: tail.epoch }
    }

    /// Replaces the whole content of the log by this state. This is for a log that does not agree
    /// with the winning log (I-92). If the replacement is interrupted, the log is shorter or empty,
    /// and may be replaced again.
    ///
    /// # Errors
    /// Errors of the disk. The log has failed then.
    pub fn replace<D: Disk, R: AsRecord>(
        &mut self,
        disk: &mut D,
        tail: Tail,
        state: impl Iterator<Item = R>,
    ) -> Result<(), LogError> {
        self.commit(disk)?;
        let (segments, state_at) = self.give_up_files();
        // The files at the beginning of the log go last: the rest is always a log.
        let names = segments.into_iter().rev().chain(state_at);
        let empty = self.start_over(disk, Tail::default(), names);
        self.unless_failed(empty)?;
        self.put_checkpoint(disk, tail, state)
    }

    /// Puts the whole content of the log aside, where [`aside`] finds it, and begins an empty log
    /// (I-93). If this is interrupted, the log is shorter, and may be put aside again.
    ///
    /// # Errors
    /// Errors of the disk. The log has failed then.
    pub fn put_aside(&mut self, disk: &mut impl Disk) -> Result<aside::AsideNumber, LogError> {
        self.commit(disk)?;
        let number = aside::number_for(disk, self.key.stream, self.durable())?;
        let (segments, state_at) = self.give_up_files();
        let forgotten = self.forget_extent(disk);
        self.unless_failed(forgotten)?;
        let moved = segments.iter().rev().chain(&state_at).try_for_each(|name| {
            // The index can be rebuilt.
            remove(disk, &index::name_of(name))?;
            aside::put(disk, name, number)
        });
        self.unless_failed(moved)?;
        let empty = self.start_over(disk, Tail::default(), []);
        self.unless_failed(empty).map(|()| number)
    }

    /// Gives up all files of the log, oldest first, and its checkpoint.
    fn give_up_files(&mut self) -> (Vec<String>, Option<String>) {
        // The marks belonged to the files that are given up.
        self.forget_marks();
        let segments = self.segments.iter().map(|segment| segment.header.name()).collect();
        (segments, self.checkpoint.take().map(|checkpoint| checkpoint.header.name()))
    }

    /// Removes these files, which are all files of the log, and begins one after this message.
    fn start_over(
        &mut self,
        disk: &mut impl Disk,
        tail: Tail,
        names: impl IntoIterator<Item = String>,
    ) -> Result<(), LogError> {
        self.forget_extent(disk)?;
        for name in names {
            remove(disk, &index::name_of(&name))?;
            remove(disk, &name)?;
        }
        let gone = core::mem::take(&mut self.segments);
        let begun = self.begin(disk, tail);
        if begun.is_err() {
            // The log has failed; its former state can still be queried.
            self.segments = gone;
        }
        begun
    }

    /// Begins a file after the checkpoint, and removes the files that the checkpoint replaces.
    fn go_on_from(
        &mut self,
        disk: &mut impl Disk,
        tail: Tail,
        taken_over: bool,
        before: Option<Checkpoint>,
    ) -> Result<(), LogError> {
        if taken_over {
            let names: Vec<String> =
                self.segments.iter().map(|segment| segment.header.name()).collect();
            self.start_over(disk, tail, names)?;
        } else if self.active().index.messages() > 0 {
            self.roll(disk)?;
        }
        if let Some(old) = before {
            remove(disk, &old.header.name())?;
        }
        self.drop_superseded(disk)
    }
}

fn write<D: Disk, R: AsRecord>(
    disk: &mut D,
    header: FileHeader,
    state: impl Iterator<Item = R>,
) -> Result<(), LogError> {
    let sum = disk.checksum();
    let end = EpochMark::Cut(header.epoch, header.version).to_bytes();
    publish(disk, &header.name(), |disk, temporary| {
        let mut bytes = header.encode(sum);
        let mut at = 0;
        for record in state {
            let place = at + bytes.len() as u64;
            encode(record.as_record(), place, 0, sum, &mut bytes);
            if bytes.len() >= PIECE {
                disk.write_at(temporary, at, &bytes).map_err(LogError::of(temporary))?;
                at += bytes.len() as u64;
                bytes.clear();
            }
        }
        let last = LogRecord { version: header.version, entry: end_of(&end, header.epoch) };
        let place = at + bytes.len() as u64;
        encode(last, place, 0, sum, &mut bytes);
        disk.write_at(temporary, at, &bytes).map_err(LogError::of(temporary))
    })
}

fn end_of(payload: &[u8], epoch: EpochId) -> LogEntry<'_> {
    LogEntry {
        kind: RecordKind::Mark,
        epoch,
        writer: NodeId(0),
        writer_sequence: 0,
        source_time: WallTime(0),
        reception_time: WallTime(0),
        key: KeyHash::default(),
        payload,
    }
}
