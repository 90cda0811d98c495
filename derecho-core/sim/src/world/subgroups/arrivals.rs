//! Entries that have arrived at a member, read from its memory without asking the member.

use derecho_core::memory::Replica;
use derecho_core::multicast::entry::{EntryRead, RingEntry};
use derecho_core::multicast::geometry::Geometry;

/// Entries of one sender that have arrived at one member.
#[derive(Default)]
pub struct ArrivedEntries {
    /// Writer of the stream.
    pub(super) writer: usize,
    /// The member's copy of the stream.
    pub replica: Option<Replica>,
    entries: u64,
    /// Number of slots in these entries.
    pub slots: u64,
    /// Number of null runs.
    pub null_entries: u64,
    /// Number of slots in null runs.
    pub null_slots: u64,
}

impl ArrivedEntries {
    pub(super) fn of(writer: usize) -> ArrivedEntries {
        ArrivedEntries { writer, ..ArrivedEntries::default() }
    }

    /// Number of entries that had arrived when its member last turned.
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// Takes note of entries that have arrived since.
    pub(super) fn look(&mut self, geometry: Geometry) {
        let Some(replica) = &self.replica else { return };
        loop {
            let word = geometry.entry_word(self.entries);
            let words = [replica.load(word), replica.load(word + 1)];
            let EntryRead::Entry(entry) = RingEntry::decode(words, self.entries, geometry) else {
                return;
            };
            self.entries += 1;
            self.slots += entry.slots();
            if let RingEntry::Nulls(run) = entry {
                self.null_entries += 1;
                self.null_slots += u64::from(run);
            }
        }
    }
}
