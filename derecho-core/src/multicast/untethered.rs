//! Receive predicate of an untethered reader: it copies records, and counts those that
//! were overwritten before.
//!
//! ```text
//!   sender's ring    ... overwritten ... [ e ][   ][   ][   ][ not yet ]
//!                                          |     copies the record, then checks whether it was
//!                                          |     still entry e's
//!   own memory       [ record ][ record ]<-+     queued from here: no memory of the sender is ever
//!                                                borrowed
//! ```
//! Owns: the memory for the copies, and the count of lost messages. Never does: show the sender
//! anything, keep the sender's memory from being reused, or wait for an application.
//!
//! The sender may overwrite a record while it is being copied. A copy belongs to entry e if the
//! entry had its stamp, and the following holds after the copy: the chunk says that it was opened
//! with e or earlier (I-220), and the sender has not reclaimed the place of any entry so late that
//! its stamp would be the same (I-221).

use alloc::sync::Arc;

use super::PeerFault;
use super::commit_counter::INDEX_BITS;
use super::entry::{EntryRead, RecordExtent, RingEntry};
use super::geometry::{Geometry, HEADER_RETURNED};
use super::inbox::{Delivery, Inbox, SenderReplica};
use crate::atomic::{Ordering, fence};
use crate::fault::{Fault as Planted, planted};
use crate::link::Waker;
use crate::memory::{OwnRegion, Replica, WORD};

/// Distance of reclaimed entries beyond which a place may hold another entry of the same stamp.
/// Equal stamps are twice as far apart.
const SAME_STAMP: u64 = 1 << (INDEX_BITS - 1);
/// Limit that no count of a correct sender reaches.
const MOST_COUNTED: u64 = 1 << 47;

/// Untethered receiver of one sender.
pub struct UntetheredReceiver {
    theirs: Replica,
    own_region: OwnRegion,
    source: Arc<SenderReplica>,
    inbox: Option<Arc<Inbox>>,
    /// Number of the next entry.
    next: u64,
    /// Difference between an entry's number and that of its message.
    others: u64,
    /// Destination of the next copy: a chunk of the own memory, and the first free grain in it.
    chunk: usize,
    grain: usize,
    started: bool,
    /// Number of messages that were overwritten or had no room, since the last
    /// call of [`UntetheredReceiver::take_lost`].
    lost: u64,
}

/// Contents of the next entry's place.
enum PlaceContents {
    /// The record of the entry.
    Record(RecordExtent),
    /// The entry is not there yet.
    NotYet,
    /// A later entry is there.
    Overtaken,
}

impl UntetheredReceiver {
    /// Creates a receiver for the memory behind `replica`, which receives nothing before
    /// [`UntetheredReceiver::start`]. `waker`: called when there is room for copies again.
    pub fn new(replica: Replica, geometry: Geometry, waker: Waker) -> UntetheredReceiver {
        // As much memory as the sender has, so that every record fits. Unused pages of it
        // are never allocated.
        let own_region = OwnRegion::heap(geometry.words());
        let source = SenderReplica::new(own_region.replica(), geometry, 0, waker);
        let inbox = Some(Inbox::new([Arc::clone(&source)].into()));
        UntetheredReceiver {
            theirs: replica,
            own_region,
            source,
            inbox,
            next: 0,
            others: 0,
            chunk: 0,
            grain: 0,
            started: false,
            lost: 0,
        }
    }

    /// Begins at an entry. `messages`: number of messages before the entry.
    pub fn start(&mut self, entry: u64, messages: u64) {
        (self.next, self.others, self.started) = (entry, entry.wrapping_sub(messages), true);
    }

    /// Whether the sender has named the beginning.
    pub fn is_started(&self) -> bool {
        self.started
    }

    /// Queue of this node's reader, unless the receiver is closed.
    pub fn inbox(&self) -> Option<&Arc<Inbox>> {
        self.inbox.as_ref()
    }

    /// Stops queueing and counting of losses. Queued records stay.
    pub fn close(&mut self) {
        self.inbox = None;
    }

    /// Number of the next entry to be received.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Returns the number of messages lost since the last call.
    #[inline]
    pub fn take_lost(&mut self) -> u64 {
        core::mem::take(&mut self.lost)
    }

    /// Receives what has arrived, one lap of the ring at most: a sender that does not wait may
    /// never let the reader catch up. A record without room stays in place while the sender leaves
    /// it there. If `is_last`, nothing more arrives in this stream, and a record without room is
    /// lost. Returns the number of entries, including lost ones, or the fault of the sender.
    pub fn receive(&mut self, is_last: bool) -> Result<usize, PeerFault> {
        if !self.started {
            return Ok(0);
        }
        let (mut looks, most) = (0, self.source.geometry().entries());
        let first = self.next;
        let mut found = Ok(true);
        while looks < most && found == Ok(true) {
            found = self.receive_next(is_last);
            looks += u64::from(found == Ok(true));
        }
        if self.next != first
            && let Some(inbox) = &self.inbox
        {
            inbox.publish();
        }
        found.map(|_| looks as usize)
    }

    /// Receives the next entry. Returns whether it was processed.
    fn receive_next(&mut self, is_last: bool) -> Result<bool, PeerFault> {
        match self.look(self.next)? {
            PlaceContents::Record(extent) if self.inbox.is_some() => self.copy(extent, is_last),
            PlaceContents::Record(_) => {
                self.next += 1;
                Ok(true)
            }
            PlaceContents::NotYet => Ok(false),
            PlaceContents::Overtaken => self.go_on(),
        }
    }

    fn found(&self, index: u64) -> EntryRead {
        let geometry = self.source.geometry();
        let word = geometry.entry_word(index);
        // The second word first: it publishes the first one, and the record.
        let word1 = self.theirs.load(word + 1);
        RingEntry::decode([self.theirs.load(word), word1], index, geometry)
    }

    /// Number of entries whose places were reclaimed. Earlier loads did not read from a place of
    /// a later entry.
    fn returned(&self) -> u64 {
        fence(Ordering::Acquire);
        self.theirs.load(HEADER_RETURNED)
    }

    /// Examines the place of an entry.
    fn look(&self, index: u64) -> Result<PlaceContents, PeerFault> {
        let found = match self.found(index) {
            // A reclaimed place was filled before, so a second look finds the entry, or
            // a later one.
            EntryRead::NotYet if self.returned() > index => match self.found(index) {
                EntryRead::NotYet => return Ok(PlaceContents::Overtaken),
                found => found,
            },
            found => found,
        };
        match found {
            EntryRead::NotYet => Ok(PlaceContents::NotYet),
            EntryRead::Entry(RingEntry::Message(extent)) => Ok(PlaceContents::Record(extent)),
            // A place that was reused so much later may hold halves of two entries.
            _ if self.is_out_of_sight(index) => Ok(PlaceContents::Overtaken),
            // Streams without an order contain only messages.
            EntryRead::Entry(RingEntry::Nulls(_) | RingEntry::End(_)) | EntryRead::Invalid => {
                Err(PeerFault::Entry { index })
            }
        }
    }

    /// I-221: whether a later entry of the same stamp may be in the place of this one.
    fn is_out_of_sight(&self, index: u64) -> bool {
        self.returned() > index + SAME_STAMP && !planted(Planted::StampBelieved)
    }

    /// Whether earlier loads of this record belonged to the entry with this number.
    fn was_intact(&self, index: u64, extent: RecordExtent) -> bool {
        if planted(Planted::NoSecondLook) {
            return true;
        }
        let geometry = self.source.geometry();
        fence(Ordering::Acquire);
        let opened = self.theirs.load(geometry.opened_word(extent.chunk(geometry)));
        opened <= index && !self.is_out_of_sight(index)
    }

    /// Copies the record of the next entry, if there is room for it.
    fn copy(&mut self, extent: RecordExtent, is_last: bool) -> Result<bool, PeerFault> {
        let geometry = self.source.geometry();
        let room = self.room(extent.grains());
        if let Some(position) = room {
            let own = RecordExtent { position, ..extent };
            let (to, from) = (own.first_byte(geometry) / WORD, extent.first_byte(geometry) / WORD);
            let words = (extent.length as usize).div_ceil(WORD);
            if !self.own_region.copy_from(to, &self.theirs, from, words) {
                return Err(PeerFault::Entry { index: self.next });
            }
        }
        if !self.was_intact(self.next, extent) {
            return self.go_on();
        }
        match (room, &self.inbox) {
            (Some(position), Some(inbox)) => {
                let own = RecordExtent { position, ..extent };
                let number = self.next.wrapping_sub(self.others);
                SenderReplica::hold(&self.source, self.chunk, 1);
                let is_put = inbox.put(&[Delivery::new(0, own, number)]);
                assert!(is_put, "a queue has a place for each grain");
                self.grain += extent.grains();
            }
            // The entry is examined again when a reader has released memory.
            _ if !is_last => return Ok(false),
            _ => self.lost += 1,
        }
        self.next += 1;
        Ok(true)
    }

    /// Destination for a record of this number of grains; `None` while readers refer
    /// to every chunk.
    fn room(&mut self, grains: usize) -> Option<u32> {
        let geometry = self.source.geometry();
        if self.source.is_released(self.chunk) {
            // The whole chunk was released: nearby memory is reused.
            self.grain = 0;
        } else if self.grain + grains > geometry.chunk_grains() {
            let mut others = 0..geometry.chunks();
            self.chunk = others.find(|chunk| self.source.is_released(*chunk))?;
            self.grain = 0;
        }
        u32::try_from(self.chunk * geometry.chunk_grains() + self.grain).ok()
    }

    /// Continues after the next entry was overwritten, at an entry that the sender is not about to
    /// overwrite at once.
    #[cold]
    fn go_on(&mut self) -> Result<bool, PeerFault> {
        let returned = self.returned();
        if returned > MOST_COUNTED {
            return Err(PeerFault::Entry { index: returned });
        }
        let least = self.next + 1;
        let mut back = self.source.geometry().entries() / 2;
        let next = loop {
            let next = returned.saturating_sub(back).max(least);
            if back == 0 || next >= returned || self.is_there(next) {
                break next;
            }
            back /= 2;
        };
        if self.inbox.is_some() {
            self.lost += next - self.next;
        }
        self.next = next;
        Ok(true)
    }

    /// Whether the record of an entry is in place at the moment.
    fn is_there(&self, index: u64) -> bool {
        matches!(self.look(index), Ok(PlaceContents::Record(extent)) if self.was_intact(index, extent))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::ids::{RegionId, Time};
    use crate::machine::Effects;
    use crate::multicast::claim::SenderMemory;
    use crate::multicast::stream::{ReaderName, Stream};
    use alloc::vec::Vec;

    fn pair(entries: usize, bytes: usize) -> (Stream, UntetheredReceiver) {
        let geometry = Geometry::fitting(bytes, entries, 64).expect("a small shape");
        let memory = SenderMemory::new(OwnRegion::heap(geometry.words()), geometry);
        let replica = memory.replica();
        let mut stream = Stream::new(memory, RegionId(16));
        let from = stream
            .add_reader(None, None, ReaderName { subscription: 7, entity: 0 }, None)
            .expect("it needs no line");
        let mut reader = UntetheredReceiver::new(replica, geometry, Arc::new(|| {}));
        reader.start(from.entry, from.message);
        (stream, reader)
    }

    fn write(stream: &mut Stream, count: u64) {
        for _ in 0..count {
            let memory = stream.sender().memory().clone();
            if !memory.has_room(40) {
                stream.send(Time::default(), &mut Effects::new());
                stream.reclaim(|_, fault| panic!("{fault}"));
            }
            let number = memory.committed();
            let mut claim = memory.claim(40).expect("nobody is waited for");
            claim.bytes().fill(number as u8);
            claim.commit(40, |_, _| ());
        }
    }

    fn take(reader: &UntetheredReceiver) -> Vec<u64> {
        let inbox = reader.inbox().expect("it is open");
        let taken = core::iter::from_fn(|| inbox.take());
        taken
            .map(|record| {
                let number = record.number();
                assert!(record.bytes().iter().all(|byte| *byte == number as u8));
                number
            })
            .collect()
    }

    #[test]
    fn untethered_reader_receives_or_counts_as_lost_each_record() {
        for (entries, bytes) in [(16, 1 << 14), (1024, 4096), (16, 1024)] {
            let (mut stream, mut reader) = pair(entries, bytes);
            let (mut got, mut lost, mut next) = (0, 0, 0);
            for round in 0..400_u64 {
                let count = if round % 7 == 6 { 500 } else { round % 5 };
                write(&mut stream, count);
                while reader.receive(false).expect("a correct sender") > 0 {}
                for number in take(&reader) {
                    assert!(number >= next);
                    next = number + 1;
                    got += 1;
                }
                lost += reader.take_lost();
                assert_eq!(got + lost, stream.sender().memory().committed(), "round {round}");
            }
            assert!(got > 1000 && lost > 1000, "{got} and {lost}");
        }
    }

    /// Nearly all of the memory is the reader's window.
    #[test]
    fn only_oldest_records_are_overwritten_in_untethered_stream() {
        let (mut stream, mut reader) = pair(1024, 1 << 14);
        for _ in 0..40 {
            let before = stream.sender().memory().committed();
            // Fifteen sixteenths of the memory, as far as chunks are full.
            write(&mut stream, 14 * (1024 / 48));
            while reader.receive(false).expect("a correct sender") > 0 {}
            let took = take(&reader);
            assert_eq!((took.first(), reader.take_lost()), (Some(&before), 0));
        }
    }

    #[test]
    fn records_without_room_stay_at_sender_and_held_records_stay_valid() {
        let (mut stream, mut reader) = pair(64, 1024);
        write(&mut stream, 3);
        reader.receive(false).expect("a correct sender");
        let inbox = Arc::clone(reader.inbox().expect("it is open"));
        let held: Vec<_> = core::iter::from_fn(|| inbox.take()).collect();
        for _ in 0..100 {
            write(&mut stream, 7);
            while reader.receive(false).expect("a correct sender") > 0 {}
        }
        for (record, number) in held.iter().zip(0_u8..) {
            assert!(record.bytes().iter().all(|byte| *byte == number));
        }
        let queued = take(&reader);
        assert!(queued.len() > 4 && queued[0] == 3, "the first that came are there: {queued:?}");
        // The latest records are still in the sender's memory.
        let mut more = Vec::new();
        while reader.receive(false).expect("a correct sender") > 0 {
            more.extend(take(&reader));
        }
        assert!(more.len() > 4 && more.last() == Some(&702), "{more:?}");
        assert_eq!(reader.take_lost() + (queued.len() + more.len()) as u64, 700);
        drop(held);
    }

    #[test]
    fn last_records_without_room_are_counted_as_lost() {
        let (mut stream, mut reader) = pair(64, 1024);
        for _ in 0..20 {
            write(&mut stream, 7);
            while reader.receive(false).expect("a correct sender") > 0 {}
        }
        let lost = reader.take_lost();
        assert_eq!(reader.receive(false), Ok(0));
        while reader.receive(true).expect("a correct sender") > 0 {}
        assert_eq!(reader.next(), 140);
        let at_the_end = reader.take_lost();
        assert!(at_the_end > 4);
        assert_eq!(take(&reader).len() as u64 + lost + at_the_end, 140);
    }

    /// I-221: a stamp recurs after two million entries.
    #[test]
    fn entry_with_recurring_stamp_is_not_mistaken_for_another_entry() {
        let (mut stream, mut reader) = pair(16, 4096);
        write(&mut stream, 3);
        reader.receive(false).expect("a correct sender");
        assert_eq!(take(&reader), [0, 1, 2]);
        // A claim that stays open lies in a chunk that was opened before.
        let memory = stream.sender().memory().clone();
        let mut late = memory.claim(40).expect("room");
        write(&mut stream, 1 << INDEX_BITS);
        late.bytes().fill(3);
        assert_eq!(late.commit(40, |_, _| ()), 3 + (1 << INDEX_BITS));
        while reader.receive(false).expect("a correct sender") > 0 {}
        let took = take(&reader);
        assert!(took[0] > 1 << 20, "{took:?}");
        assert_eq!(took.len() as u64 + reader.take_lost(), 1 + (1 << INDEX_BITS));
    }

    #[test]
    fn corrupt_sender_memory_causes_only_a_fault_or_a_loss() {
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        for round in 0..2000_u64 {
            let (mut stream, mut reader) = pair(16, 1024);
            write(&mut stream, round % 40);
            let region = stream.sender().memory().replica();
            for _ in 0..1 + round % 3 {
                random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                let word = HEADER_RETURNED + (random >> 33) as usize % (region.words() - 5);
                let value =
                    [u64::MAX, random, random & 0xff, 1 << 46, 0][(random >> 20) as usize % 5];
                // SAFETY: the memory is on the heap, and this thread, the only one, has no slice of
                // a claim or of a record.
                unsafe { region.word(word) }.publish(value);
            }
            for _ in 0..4 {
                let _ = reader.receive(false);
                let inbox = Arc::clone(reader.inbox().expect("it is open"));
                while inbox.take().is_some() {}
            }
        }
    }
}
