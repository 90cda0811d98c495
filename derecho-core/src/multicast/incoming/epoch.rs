//! Transitions of one sender's entries between epochs: the start of the next epoch, and the end
//! of this one.
//!
//! Owns: the entries to which this node returns, or which it drops first, to reach an epoch's
//! start. Never does: decide where an epoch begins, or go below what was delivered.

use super::IncomingStream;
use crate::multicast::PeerFault;
use crate::multicast::entry::{EntryRead, RingEntry};
use crate::multicast::stream::StreamStart;

impl IncomingStream {
    /// Begins an epoch with this mark at this entry. Entries from there on are received once more,
    /// because their slots are counted from the start (I-30).
    ///
    /// `again`: this node delivers the whole epoch, and may have dropped some of it.
    pub(in super::super) fn begin(&mut self, start: u64, epoch: u32, again: bool) {
        let known = self.beginning_at(start.min(self.entries));
        self.others = known.entry.wrapping_sub(known.message);
        self.entries = known.entry;
        if again {
            (self.taken, self.messages) = (known.entry, known.message);
        }
        (self.start, self.epoch) = (start, epoch);
        (self.ended, self.stale) = (false, 0);
        (self.slots, self.message_slots) = (0, 0);
    }

    /// Begins an epoch as [`IncomingStream::begin`] does, for a node that delivers received entries
    /// at once; they stay delivered.
    pub(in super::super) fn go_on(&mut self, start: u64, epoch: u32) {
        (self.start, self.epoch, self.ended) = (start, epoch, false);
        (self.slots, self.message_slots) = (0, 0);
        for index in start..self.entries {
            let found = RingEntry::decode(self.words(index), index, self.sender_replica.geometry());
            let EntryRead::Entry(entry) = found else { continue };
            self.slots += entry.slots();
            if matches!(entry, RingEntry::Message(_)) {
                self.message_slots = self.slots;
            }
        }
    }

    /// Position of this entry, with the number of messages before it. The entry was received or is
    /// the next one, and was not reclaimed yet.
    pub(in super::super) fn beginning_at(&self, entry: u64) -> StreamStart {
        let mut others = self.others;
        for index in entry..self.entries {
            let found = RingEntry::decode(self.words(index), index, self.sender_replica.geometry());
            // A peer may have changed the entry since.
            others = others.saturating_sub(u64::from(matches!(
                found,
                EntryRead::Entry(RingEntry::Nulls(_) | RingEntry::End(_))
            )));
        }
        StreamStart { entry, message: entry.wrapping_sub(others) }
    }

    /// Whether any entry of the epoch below this one remains to be delivered.
    pub(in super::super) fn is_below(&self, entry: u64) -> bool {
        self.taken.max(self.start) < entry
    }

    /// Position as from [`IncomingStream::beginning_at`], also of an entry that this node has not
    /// received: a member that only sends may be behind members that read. `None` if the entry is
    /// not visible yet.
    pub(in super::super) fn beginning_of(&self, entry: u64) -> Option<StreamStart> {
        if entry <= self.entries {
            return Some(self.beginning_at(entry));
        }
        let mut others = self.others;
        for index in self.entries..entry {
            match RingEntry::decode(self.words(index), index, self.sender_replica.geometry()) {
                EntryRead::Entry(RingEntry::Message(_)) => {}
                EntryRead::Entry(_) => others += 1,
                EntryRead::NotYet | EntryRead::Invalid => return None,
            }
        }
        Some(StreamStart { entry, message: entry.wrapping_sub(others) })
    }

    /// Whether any entry above this one was delivered. Ends of other epochs are passed, and
    /// not delivered (I-39).
    pub(in super::super) fn is_beyond(&self, entry: u64) -> bool {
        let only_passed = self.passed.end == self.taken && self.passed.start <= entry;
        self.taken > entry && !only_passed
    }

    fn note_passed(&mut self, entry: u64) {
        let start = if self.passed.end == entry { self.passed.start } else { entry };
        self.passed = start..entry + 1;
    }

    /// First entry of the epoch.
    pub(in super::super) fn start_of_epoch(&self) -> u64 {
        self.start
    }

    /// Whether the epoch's end was received.
    #[inline]
    pub(in super::super) fn is_ended(&self) -> bool {
        self.ended
    }

    /// Whether ends of other epochs remain to be passed.
    #[inline]
    pub(in super::super) fn has_stale(&self) -> bool {
        self.stale > 0
    }

    /// Notes that an end was received. Returns whether it is this epoch's.
    #[cold]
    pub(super) fn meet_end(&mut self, epoch: u32) -> bool {
        self.ended = epoch == self.epoch;
        self.stale += u32::from(!self.ended);
        self.ended
    }

    /// Notes that an end was taken. Returns whether it is this epoch's.
    #[cold]
    pub(in super::super) fn pass_end(&mut self, epoch: u32) -> bool {
        let ends = epoch == self.epoch;
        self.stale = self.stale.saturating_sub(u32::from(!ends));
        self.note_passed(self.taken - 1);
        ends
    }

    /// Passes ends of other epochs if no undelivered entry precedes them (I-39). Returns whether
    /// there were any.
    #[cold]
    pub(in super::super) fn pass_stale(&mut self) -> bool {
        let before = self.taken;
        while self.stale > 0 && self.taken < self.entries {
            let words = self.words(self.taken);
            match RingEntry::decode(words, self.taken, self.sender_replica.geometry()) {
                EntryRead::Entry(RingEntry::End(epoch)) if epoch != self.epoch => {
                    self.note_passed(self.taken);
                    self.taken += 1;
                    self.stale -= 1;
                }
                _ => return self.taken > before,
            }
        }
        // A node that drops entries at once has passed these ends.
        self.stale = 0;
        self.taken > before
    }

    /// Receives and drops entries before the epoch, up to `end`: this node did not read, and is
    /// behind nodes that did. The entries are acknowledged now that they have arrived (I-37).
    #[cold]
    pub(super) fn catch_up(&mut self, end: u64) -> Result<usize, PeerFault> {
        let first = self.entries;
        while self.entries < end {
            let words = self.words(self.entries);
            match RingEntry::decode(words, self.entries, self.sender_replica.geometry()) {
                EntryRead::Entry(RingEntry::Message(_)) => {}
                EntryRead::Entry(_) => self.others += 1,
                EntryRead::NotYet => break,
                EntryRead::Invalid => return Err(PeerFault::Entry { index: self.entries }),
            }
            self.entries += 1;
        }
        self.taken = self.taken.max(self.entries);
        self.messages = self.entries.wrapping_sub(self.others);
        Ok((self.entries - first) as usize)
    }
}
