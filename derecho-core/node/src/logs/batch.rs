//! What a turn has for the log of a stream: copied once, so that the turn can go on.
//!
//! Owns: the copies. Never does: give them versions; the log does.

use derecho_core::log::record::LONGEST;
use derecho_core::log::{Entry, LogError, Mark, WallTime};

/// Messages and marks of one stream, in order.
#[derive(Debug, Default)]
pub struct Batch {
    items: Vec<Item>,
    bytes: Vec<u8>,
}

#[derive(Debug)]
enum Item {
    /// A message whose payload ends here in `bytes`.
    Message(Entry<'static>, usize),
    Mark(Mark, WallTime),
}

/// One thing of a batch.
pub(super) enum Put<'a> {
    Message(Entry<'a>),
    Mark(&'a Mark, WallTime),
}

impl Batch {
    /// Adds a message.
    ///
    /// # Errors
    /// [`LogError::TooLong`].
    pub fn push(&mut self, entry: Entry<'_>) -> Result<(), LogError> {
        if entry.payload.len() > LONGEST {
            return Err(LogError::TooLong { length: entry.payload.len() });
        }
        self.bytes.extend_from_slice(entry.payload);
        self.items.push(Item::Message(Entry { payload: &[], ..entry }, self.bytes.len()));
        Ok(())
    }

    /// Adds a mark.
    pub fn mark(&mut self, mark: Mark, now: WallTime) {
        self.items.push(Item::Mark(mark, now));
    }

    /// How many messages and marks it has.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// How many bytes of payload it has.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// How much memory it takes.
    pub(super) fn footprint(&self) -> usize {
        self.bytes.len() + self.items.len() * size_of::<Item>()
    }

    pub(super) fn clear(&mut self) {
        self.items.clear();
        self.bytes.clear();
    }

    /// All that is in it, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = Put<'_>> {
        let mut from = 0;
        self.items.iter().map(move |item| match item {
            Item::Message(entry, end) => {
                let payload = &self.bytes[from..*end];
                from = *end;
                Put::Message(Entry { payload, ..*entry })
            }
            Item::Mark(mark, now) => Put::Mark(mark, *now),
        })
    }
}
