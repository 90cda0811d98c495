//! The operator's word: a restart is to go on without a log.
//!
//! Owns: how that is recorded beside the folders of a root, and until when it counts. Never does: decide who restarts;
//! a log that is gone on without is accounted for, nothing else (I-153).

use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use super::aside::Number;
use super::folder::publish;
use super::head::{self, Magic};
use super::views::LoggedView;
use super::{Disk, DiskError, LogError, LogId, StreamKey, WallTime};
use crate::bytes::{Reader, Wire, in_order};

/// The file in which it is recorded.
pub const FILE: &str = "proceed";
const MAGIC: Magic = *b"SQUALLGO";
/// So many words are kept at most; of more the newest.
const MOST: usize = 256;

/// That somebody has said so.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Word {
    /// Without which log.
    pub without: LogId,
    /// The era and number of the last view that was logged here then.
    pub after: (u64, u64),
    /// When.
    pub at: WallTime,
    /// Who.
    pub by: String,
    /// The streams of which the log was there and harmed.
    pub harmed: Vec<SaidHarm>,
}

/// The harm of the log of a stream, as it was when somebody said to go on without it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SaidHarm {
    /// The stream.
    pub stream: StreamKey,
    /// Number of the log of that stream that had been put aside last; 0 if there was none.
    pub last: Number,
    /// Text of the error.
    pub error: String,
}

in_order! { SaidHarm { stream, last, error } }

in_order! { Word { without, after, at, by, harmed } }

impl Word {
    /// Whether the word counts for a log that is harmed like this: it was so when somebody said it, and was not put aside since.
    pub fn counts_for_harmed(&self, stream: StreamKey, last: Number, error: &LogError) -> bool {
        self.harmed.contains(&SaidHarm { stream, last, error: error.to_string() })
    }

    /// Whether it still counts, as these views say: the log has not been a member's since.
    pub fn counts<'a>(&self, mut views: impl Iterator<Item = &'a LoggedView>) -> bool {
        !views
            .any(|view| view.place() > self.after && view.keepers().any(|log| log == self.without))
    }
}

/// What was said in this folder, oldest first.
///
/// # Errors
/// What the disk says, or that the file is not sound.
pub fn words(disk: &mut impl Disk) -> Result<Vec<Word>, LogError> {
    let length = match disk.length(FILE) {
        Err(DiskError::NotFound) => return Ok(Vec::new()),
        other => other.map_err(LogError::of(FILE))?,
    };
    let bad = || LogError::BadHeader { file: FILE.into() };
    let mut bytes = vec![0; usize::try_from(length).map_err(|_| bad())?];
    let read = disk.read_at(FILE, 0, &mut bytes).map_err(LogError::of(FILE))?;
    let body = head::body(FILE, MAGIC, bytes.get(..read).ok_or_else(bad)?, disk.checksum())?;
    Vec::decode(&mut Reader::new(body)).ok_or_else(bad)
}

/// Records a word; when this answers it is durable.
///
/// # Errors
/// As of [`words`].
pub fn say(disk: &mut impl Disk, word: Word) -> Result<(), LogError> {
    let mut all = words(disk)?;
    all.retain(|known| known.without != word.without);
    all.push(word);
    all.drain(..all.len().saturating_sub(MOST));
    let mut bytes = head::begin(MAGIC);
    all.encode(&mut bytes);
    head::seal(&mut bytes, disk.checksum());
    publish(disk, FILE, |disk, draft| disk.write_at(draft, 0, &bytes).map_err(LogError::of(draft)))
}
