//! A turn's records for the log of a stream: copied once, so that the turn can go on.
//!
//! Owns: the copies. Never does: assign versions; the log does.

use derecho_core::log::record::LONGEST;
use derecho_core::log::{EpochMark, LogEntry, LogError, WallTime};

/// Messages and marks of one stream, in order.
#[derive(Debug, Default)]
pub struct Batch {
    items: Vec<StoredItem>,
    bytes: Vec<u8>,
}

#[derive(Debug)]
enum StoredItem {
    /// Message whose payload ends at this offset of `bytes`.
    Message(LogEntry<'static>, usize),
    Mark(EpochMark, WallTime),
}

/// Message or mark of a batch.
pub(super) enum BatchItem<'a> {
    Message(LogEntry<'a>),
    Mark(&'a EpochMark, WallTime),
}

impl Batch {
    /// Adds a message.
    ///
    /// # Errors
    /// [`LogError::TooLong`].
    pub fn push(&mut self, entry: LogEntry<'_>) -> Result<(), LogError> {
        if entry.payload.len() > LONGEST {
            return Err(LogError::TooLong { length: entry.payload.len() });
        }
        self.bytes.extend_from_slice(entry.payload);
        self.items.push(StoredItem::Message(LogEntry { payload: &[], ..entry }, self.bytes.len()));
        Ok(())
    }

    /// Adds a mark.
    pub fn mark(&mut self, mark: EpochMark, now: WallTime) {
        self.items.push(StoredItem::Mark(mark, now));
    }

    /// Number of messages and marks.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether the batch is empty.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Bytes of payload.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Bytes of memory that the batch takes.
    pub(super) fn footprint(&self) -> usize {
        self.bytes.len() + self.items.len() * size_of::<StoredItem>()
    }

    pub(super) fn clear(&mut self) {
        self.items.clear();
        self.bytes.clear();
    }

    /// Iterates over all messages and marks, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = BatchItem<'_>> {
        let mut from = 0;
        self.items.iter().map(move |item| match item {
            StoredItem::Message(entry, end) => {
                let payload = &self.bytes[from..*end];
                from = *end;
                BatchItem::Message(LogEntry { payload, ..*entry })
            }
            StoredItem::Mark(mark, now) => BatchItem::Mark(mark, *now),
        })
    }
}
