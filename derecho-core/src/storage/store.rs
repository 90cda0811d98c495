//! Records delivered to a member that it keeps in memory.
//!
//! Owns: records in delivery order, and which of them are kept. Never does: read a clock, or
//! anything that other stores at the same position in the same order would not do as well (I-100).
//!
//! ```text
//!   segments   ──> ──> ──> ──> (last)      all records in order, for a while also removed ones
//!   index      key -> places of kept records, oldest first    only if records may be replaced
//! ```

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::cursor::{MemoryMeter, StoreCursor, StorePin};
use super::key_counts::KeyCounts;
use super::segment::{Segment, SegmentMemory, StoredHeader, footprint};
use crate::atomic::AtomicU64;
use crate::bytes::in_order;
use crate::group::report::StreamId;

mod cleanup;
mod past;
mod streams;
mod tidy;

use cleanup::DeadKeys;
use past::PastRecords;
pub(super) use past::ResumePoint;

/// Sizes of a store's first segment, and of the largest segment that is made for records that fit.
const SMALLEST: usize = 16 << 10;
const LARGEST: usize = 1 << 20;

/// Key of a record. Later records replace earlier ones with the same key.
pub type Key = u128;

/// Limits of what is kept, the same at all members of a subgroup.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StoreRetention {
    /// Maximum number of records of each key; `None`: no limit.
    pub depth: Option<u32>,
    /// Maximum number of records in all, of which the oldest are removed first; `None`: no limit.
    pub most: Option<u64>,
    /// Maximum number of keys: a record of one more key is not kept; `None`: no limit.
    pub keys: Option<u64>,
    /// Lifespan of a record, by the records' own times: a record is removed when there is one that
    /// is newer by this much; `None`: no limit.
    pub lifespan: Option<u64>,
    /// Cleanup delay: a key that is not alive is forgotten when there is a record that is newer by
    /// this much (I-240); `None`: never.
    pub cleanup: Option<u64>,
}

in_order! { StoreRetention { depth, most, keys, lifespan, cleanup } }

impl StoreRetention {
    /// Whether any record is ever removed.
    fn removes_records(&self) -> bool {
        *self != StoreRetention::default()
    }

    /// Number of newest records that are kept, if records are removed strictly in order, whatever
    /// their content.
    fn window(&self) -> Option<u64> {
        self.most.filter(|_| !self.is_by_key() && self.lifespan.is_none())
    }

    /// Whether records are removed strictly in order, whatever their content, or never (I-230).
    pub(super) fn is_by_order(&self) -> bool {
        !self.removes_records() || self.window().is_some()
    }

    /// Whether it matters which records have the same key.
    fn is_by_key(&self) -> bool {
        self.depth.is_some() || self.keys.is_some() || self.cleanup.is_some()
    }
}

/// Location of a record: number of the segment, and offset in it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct RecordLocation {
    segment: u64,
    at: u32,
}

struct NumberedSegment {
    number: u64,
    segment: Arc<Segment>,
    /// Bytes of its records that are kept.
    live: usize,
}

impl NumberedSegment {
    /// Whether it has a record, and the first one has at most this position.
    fn begins_by(&self, position: u64) -> bool {
        self.segment.shown() > 0 && self.segment.head(0).position <= position
    }
}

/// Statement of a record about a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyLiveness {
    /// The key is alive.
    Alive,
    /// The key is no longer alive.
    NotAlive,
    /// No statement: the record accompanies the records of [another key](RecordFormat::companion).
    Companion,
}

/// Functions by which a store interprets records.
#[derive(Clone, Copy, Debug)]
pub struct RecordFormat {
    /// Returns a record's key.
    pub key: fn(&[u8]) -> Key,
    /// Returns the time at which the record was written, by its writer's clock.
    pub time: fn(&[u8]) -> u64,
    /// Returns the keys of a record that stands for several. Such a record is kept while it is kept
    /// for one of them (I-191).
    pub all_keys: fn(&[u8]) -> Option<Vec<Key>>,
    /// Passes the record's statement about each of its keys, one after the other. Called only if
    /// dead keys are forgotten.
    pub liveness: fn(&[u8], &mut dyn FnMut(Key, KeyLiveness)),
    /// Returns the key that accompanies another one. The relation is symmetric.
    pub companion: fn(Key) -> Key,
}

/// Store of one member; see the [module](self).
pub struct Store {
    retention: StoreRetention,
    format: RecordFormat,
    segments: VecDeque<NumberedSegment>,
    /// Memory for reuse: fresh memory from the system is slower.
    spare: Vec<SegmentMemory>,
    index: BTreeMap<Key, VecDeque<RecordLocation>>,
    /// For records with several keys: the number of keys that they are kept for.
    key_counts: KeyCounts,
    /// Keys that are not alive.
    dead_keys: DeadKeys,
    /// Where to look for the oldest kept record, if the oldest records are removed.
    oldest: RecordLocation,
    live: u64,
    /// Newest time of all records.
    newest: u64,
    /// Version of the last record delivered, and so the position of the next one.
    version: u64,
    streams: Vec<StreamId>,
    /// The store's number for each stream.
    names: BTreeMap<StreamId, u32>,
    /// Number of the next message of each stream, once it is known.
    numbers: Vec<Option<u64>>,
    /// First epoch in which each stream is known to have existed.
    met: Vec<u64>,
    /// Streams that have ended, with the version of the store at that time, in order of version.
    stream_ends: Vec<(u64, StreamId)>,
    /// The ended streams alone.
    ended: BTreeSet<StreamId>,
    pinned: Arc<()>,
    total: Arc<AtomicU64>,
    /// Past that will be put before all present records.
    past: Option<Box<PastRecords>>,
}

impl Store {
    /// Creates an empty store.
    pub fn new(retention: StoreRetention, format: RecordFormat) -> Store {
        Store::numbered(0, retention, format)
    }

    /// Creates an empty store whose segments are numbered from `number` on.
    fn numbered(number: u64, retention: StoreRetention, format: RecordFormat) -> Store {
        let total = Arc::new(AtomicU64::new(0));
        let numbered_segment =
            NumberedSegment { number, segment: Segment::new(SMALLEST, &total), live: 0 };
        Store {
            retention,
            format,
            segments: [numbered_segment].into(),
            spare: Vec::new(),
            index: BTreeMap::new(),
            key_counts: KeyCounts::default(),
            dead_keys: DeadKeys::default(),
            oldest: RecordLocation { segment: 0, at: 0 },
            live: 0,
            newest: 0,
            version: 0,
            streams: Vec::new(),
            names: BTreeMap::new(),
            numbers: Vec::new(),
            met: Vec::new(),
            stream_ends: Vec::new(),
            ended: BTreeSet::new(),
            pinned: Arc::new(()),
            total,
            past: None,
        }
    }

    /// Version of the last record delivered, which is the position of the next one.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Number of kept records.
    pub fn len(&self) -> u64 {
        self.live
    }

    /// Whether no record is kept.
    pub fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// Returns a meter of the memory that the store takes, including memory kept by cursors
    /// and records.
    pub fn meter(&self) -> MemoryMeter {
        MemoryMeter(Arc::clone(&self.total))
    }

    /// Raises the version of the store to at least `version`: records up to and including it
    /// existed, but are no longer kept.
    pub fn resume(&mut self, version: u64) {
        self.version = self.version.max(version);
    }

    /// Takes in a record that was delivered. `record` may lie in its sender's memory, which may
    /// change at any time, so it is read once (I-330).
    pub fn append(&mut self, stream: u32, number: u64, record: &[u8]) {
        self.take_in(stream, number, record, true);
    }

    /// Takes in a record that is kept at the version to which this store is brought. Removes no
    /// record that is kept there: such a record was delivered after this one, or has outlived
    /// it (I-240).
    pub(super) fn restore(&mut self, stream: u32, number: u64, record: &[u8]) {
        self.take_in(stream, number, record, false);
    }

    /// Counts a record that was delivered, before it is put in. Returns its position.
    pub(super) fn count(&mut self, stream: u32, number: u64) -> u64 {
        self.version += 1;
        self.numbers[stream as usize] = Some(number + 1);
        self.version - 1
    }

    /// Puts in a record that was [counted](Store::count). Counted records are put in in their
    /// order, except records that are no longer kept when the last one is put in (I-349).
    pub(super) fn put_counted(&mut self, position: u64, stream: u32, number: u64, record: &[u8]) {
        let head = StoredHeader { position, number, stream, length: record.len() as u32 };
        self.put_in(head, record, true);
    }

    fn take_in(&mut self, stream: u32, number: u64, record: &[u8], cleans: bool) {
        let position = self.count(stream, number);
        let head = StoredHeader { position, number, stream, length: record.len() as u32 };
        self.put_in(head, record, cleans);
    }

    fn put_in(&mut self, head: StoredHeader, record: &[u8], cleans: bool) {
        let position = head.position;
        let place = self.put(head, record);
        self.live += 1;
        if !self.retention.removes_records() {
            return;
        }
        if let Some(most) = self.retention.window() {
            self.live = self.live.min(most);
            return;
        }
        // I-330: everything below depends on the copy, as do all later reads of the record.
        let last = self.segments.back().expect("a store has at least one piece");
        let memory = Arc::clone(last.segment.memory());
        let record = memory.record(place.at as usize, record.len());
        if cleans {
            self.clean(record, position);
        }
        if self.retention.is_by_key() && !self.file(place, position, record) {
            return;
        }
        self.heed(record);
        if cleans {
            self.clean(record, position);
        }
        if self.retention.most.is_some_and(|most| self.live > most) {
            self.bury_oldest(position, |_| true);
        }
        if let Some(lifespan) = self.retention.lifespan {
            self.newest = self.newest.max((self.format.time)(record));
            let limit = self.newest.saturating_sub(lifespan);
            while self.bury_oldest(position, |time| time < limit) {}
        }
    }

    /// Number of later records, of the same key if keys matter, that remove a record whatever else
    /// is kept; `None` if more than that decides, or a cursor would return removed records.
    pub(super) fn replacing_depth(&self) -> Option<u64> {
        if Arc::strong_count(&self.pinned) > 1 || !self.dead_keys.is_empty() {
            return None;
        }
        let by_depth = StoreRetention { depth: None, cleanup: None, ..self.retention };
        match self.retention.depth {
            Some(depth) => (by_depth == StoreRetention::default()).then_some(depth.into()),
            None => self.retention.window(),
        }
    }

    /// Key by which a record is replaced if [a number of later records](Store::replacing_depth)
    /// does so: all have the same key if keys do not matter. `None` if it has several keys, or
    /// states something else than that its key is alive. The result decides about no copy.
    pub(super) fn sole_key(&self, record: &[u8]) -> Option<Key> {
        if !self.retention.is_by_key() {
            return Some(0);
        }
        if (self.format.all_keys)(record).is_some() {
            return None;
        }
        let mut is_alive = true;
        if self.retention.cleanup.is_some() {
            let mut note = |_, liveness| is_alive &= liveness == KeyLiveness::Alive;
            (self.format.liveness)(record, &mut note);
        }
        (is_alive && self.dead_keys.is_empty()).then(|| (self.format.key)(record))
    }

    /// Adds a record to the index under each of its keys. Returns `false` if it is not kept.
    fn file(&mut self, place: RecordLocation, position: u64, record: &[u8]) -> bool {
        let Some(keys) = self.key_counts.begin(place, (self.format.all_keys)(record)) else {
            return self.file_under((self.format.key)(record), place, position);
        };
        let kept = keys.into_iter().filter(|key| self.file_under(*key, place, position));
        kept.count() > 0
    }

    /// Adds a record to the index under this key. Returns `false` if it is not kept for the key.
    fn file_under(&mut self, key: Key, place: RecordLocation, position: u64) -> bool {
        let is_full = self.retention.keys.is_some_and(|most| self.index.len() as u64 >= most);
        if is_full && !self.index.contains_key(&key) {
            // A cursor that passes this point later still returns the record.
            self.let_go(place, position);
            return false;
        }
        let of_key = self.index.entry(key).or_default();
        of_key.push_back(place);
        let too_old = match self.retention.depth {
            Some(depth) if of_key.len() > depth as usize => of_key.pop_front(),
            _ => None,
        };
        if let Some(place) = too_old {
            self.let_go(place, position);
        }
        true
    }

    /// Stops keeping a record for one of its keys.
    fn let_go(&mut self, place: RecordLocation, position: u64) {
        if self.key_counts.is_last(place) {
            self.bury(place, position);
        }
    }

    fn put(&mut self, head: StoredHeader, record: &[u8]) -> RecordLocation {
        loop {
            let last = self.segments.back_mut().expect("a store has at least one piece");
            if let Some(at) = last.segment.put(head, record) {
                last.live += head.footprint();
                return RecordLocation { segment: last.number, at: at as u32 };
            }
            let size = last.segment.size();
            let segment = self.segment_after(size, record.len());
            let last = self.segments.back_mut().expect("a store has at least one piece");
            last.segment.set_next(Some(Arc::clone(&segment)));
            let number = last.number + 1;
            self.segments.push_back(NumberedSegment { number, segment, live: 0 });
            self.tidy();
        }
    }

    /// Returns a segment to follow one of this size, with space for a record of this length.
    fn segment_after(&mut self, size: usize, length: usize) -> Arc<Segment> {
        let bytes = (size * 2).min(LARGEST).max(footprint(length));
        let fits = self.spare.iter().position(|memory| memory.size() >= bytes);
        match fits {
            Some(index) => Segment::with_memory(self.spare.swap_remove(index)),
            None => Segment::new(bytes, &self.total),
        }
    }

    fn segment_index(&self, number: u64) -> usize {
        self.segments.partition_point(|numbered_segment| numbered_segment.number < number)
    }

    /// Removes a record.
    fn bury(&mut self, place: RecordLocation, position: u64) {
        let index = self.segment_index(place.segment);
        let numbered_segment = &mut self.segments[index];
        let at = place.at as usize;
        numbered_segment.segment.bury(at, position);
        numbered_segment.live -= numbered_segment.segment.head(at).footprint();
        self.live -= 1;
    }

    /// Removes the oldest kept record if `is_due` says so of its time. Returns whether it
    /// was removed.
    fn bury_oldest(&mut self, position: u64, is_due: impl Fn(u64) -> bool) -> bool {
        let Some((place, key, _)) = self.oldest().filter(|(.., time)| is_due(*time)) else {
            return false;
        };
        match self.keys_of(place) {
            Some(keys) => keys.into_iter().for_each(|key| self.forget(key, place)),
            None => self.forget(key, place),
        }
        self.bury(place, position);
        true
    }

    /// Returns the keys of a record that is removed, if it has several.
    fn keys_of(&mut self, place: RecordLocation) -> Option<Vec<Key>> {
        if !self.key_counts.end(place) {
            return None;
        }
        let segment = &self.segments[self.segment_index(place.segment)].segment;
        let head = segment.head(place.at as usize);
        (self.format.all_keys)(segment.record(place.at as usize, head.length as usize))
    }

    /// Returns the location, key and time of the oldest kept record.
    fn oldest(&mut self) -> Option<(RecordLocation, Key, u64)> {
        let mut index = self.segment_index(self.oldest.segment);
        let mut at = match self.segments[index].number == self.oldest.segment {
            true => self.oldest.at as usize,
            // The segment was merged with others, or is gone.
            false => 0,
        };
        loop {
            let NumberedSegment { segment, number, .. } = self.segments.get(index)?;
            if at == segment.shown() {
                (index, at) = (index + 1, 0);
                continue;
            }
            let head = segment.head(at);
            if segment.died(at).is_some() {
                at += head.footprint();
                continue;
            }
            let record = segment.record(at, head.length as usize);
            let (key, time) = ((self.format.key)(record), (self.format.time)(record));
            self.oldest = RecordLocation { segment: *number, at: at as u32 };
            return Some((self.oldest, key, time));
        }
    }

    /// Removes the oldest record from the index, where it is the oldest of its key if it is kept
    /// for that key.
    fn forget(&mut self, key: Key, place: RecordLocation) {
        let Some(of_key) = self.index.get_mut(&key) else { return };
        if of_key.front() != Some(&place) {
            return;
        }
        of_key.pop_front();
        if of_key.is_empty() {
            self.index.remove(&key);
            self.note_gone(key);
        }
    }

    /// Returns a cursor over all records kept now, and all later records.
    pub fn cursor(&self) -> StoreCursor {
        let first = Arc::clone(&self.segments[0].segment);
        let mut cursor = StoreCursor::new(first, StorePin::new(&self.pinned));
        self.cut(&mut cursor, self.version);
        cursor
    }

    /// Makes a cursor that has not moved yet pass over the records that were kept at this version,
    /// and all later records.
    pub fn cut(&self, cursor: &mut StoreCursor, version: u64) {
        cursor.cut_at(version, self.floor_at(version));
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;
    use crate::ids::{NodeId, RegionId};

    pub(super) const STREAM: StreamId = StreamId { node: NodeId(1), region: RegionId(7) };

    /// The key is the first eight bytes.
    fn key_of(record: &[u8]) -> Key {
        u128::from(u64::from_le_bytes(*record.first_chunk().expect("a record has a key")))
    }

    /// The time is the content.
    pub(super) const FORMAT: RecordFormat = RecordFormat {
        key: key_of,
        time: |record| u64::from_le_bytes(*record[8..].first_chunk().expect("and a time")),
        all_keys: |_| None,
        liveness: |_, _| {},
        companion: |key| key,
    };

    /// Format of records that all have one key, and no time.
    pub(super) const OF_ONE_KEY: RecordFormat = RecordFormat {
        key: |_| 0,
        time: |_| 0,
        all_keys: |_| None,
        liveness: |_, _| {},
        companion: |key| key,
    };

    pub(super) fn record(key: u64, content: u64, length: usize) -> Vec<u8> {
        let mut record = alloc::vec![content as u8; length.max(16)];
        record[..8].copy_from_slice(&key.to_le_bytes());
        record[8..16].copy_from_slice(&content.to_le_bytes());
        record
    }

    fn contents(cursor: &mut StoreCursor) -> Vec<(u64, u64)> {
        let next = || {
            cursor.next().map(|kept| {
                (kept.position(), u64::from_le_bytes(kept[8..16].try_into().expect("eight")))
            })
        };
        core::iter::from_fn(next).collect()
    }

    /// A stand-in for a sender's memory that changes: each look for a key or a time there finds
    /// another one.
    struct ChangingMemory {
        bytes: Vec<u8>,
    }

    std::thread_local! {
        /// Start and length of the changing memory, and the number of looks at that memory.
        static CHANGING: core::cell::Cell<(usize, usize, u64)> = const { core::cell::Cell::new((0, 0, 0)) };
    }

    impl ChangingMemory {
        fn new(bytes: Vec<u8>) -> ChangingMemory {
            CHANGING.set((bytes.as_ptr() as usize, bytes.len(), 0));
            ChangingMemory { bytes }
        }

        /// Result of a look at these bytes: different at each look if they lie in changing memory.
        fn look(record: &[u8], found: u64) -> u64 {
            let (start, length, looks) = CHANGING.get();
            if !(start..start + length).contains(&(record.as_ptr() as usize)) {
                return found;
            }
            CHANGING.set((start, length, looks + 1));
            u64::MAX - looks
        }

        fn looks() -> u64 {
            CHANGING.get().2
        }
    }

    const OF_CHANGING: RecordFormat = RecordFormat {
        key: |record| ChangingMemory::look(record, key_of(record) as u64).into(),
        time: |record| ChangingMemory::look(record, (FORMAT.time)(record)),
        all_keys: |record| {
            let key = ChangingMemory::look(record, key_of(record) as u64).into();
            (key % 2 == 1).then(|| alloc::vec![key, key - 1])
        },
        liveness: |record, tell| {
            let key = ChangingMemory::look(record, key_of(record) as u64).into();
            tell(key, if key % 5 == 0 { KeyLiveness::NotAlive } else { KeyLiveness::Alive });
        },
        companion: |key| !key,
    };

    #[test]
    fn record_changed_by_its_sender_is_filed_by_its_copy() {
        let all = StoreRetention::default();
        let (depth, keys, most) = (Some(1), Some(40), Some(100));
        let (lifespan, cleanup) = (Some(500), Some(300));
        let retentions = [
            StoreRetention { depth, ..all },
            StoreRetention { depth, keys, ..all },
            StoreRetention { depth: Some(3), most, ..all },
            StoreRetention { depth, lifespan, ..all },
            StoreRetention { depth, cleanup, ..all },
            StoreRetention { lifespan, ..all },
        ];
        for retention in retentions {
            let [mut store, mut other] = [(); 2].map(|()| Store::new(retention, OF_CHANGING));
            let stream = store.stream(STREAM);
            assert_eq!(other.stream(STREAM), stream);
            for number in 0..6000 {
                // Some records are replaced soon and others late, so that segments are merged.
                let key = if number % 10 == 0 { number % 1000 } else { number % 7 };
                let record = record(key, number, 1000);
                other.append(stream, number, &record);
                let changing = ChangingMemory::new(record);
                store.append(stream, number, &changing.bytes);
                assert_eq!(
                    ChangingMemory::looks(),
                    0,
                    "the sender's memory was read again, {retention:?}"
                );
            }
            assert_eq!(contents(&mut store.cursor()), contents(&mut other.cursor()));
        }
    }

    #[test]
    fn retention_is_by_order_unless_depth_keys_or_times_decide() {
        let all = StoreRetention::default();
        let (depth, keys, most) = (Some(1), Some(1), Some(1));
        let by_order = [all, StoreRetention { most, ..all }];
        assert!(by_order.iter().all(StoreRetention::is_by_order));
        let by_time = StoreRetention { lifespan: Some(1), ..all };
        let by_key = StoreRetention { cleanup: Some(1), ..all };
        for others in
            [StoreRetention { depth, ..all }, StoreRetention { keys, ..all }, by_time, by_key]
        {
            assert!(!others.is_by_order() && !StoreRetention { most, ..others }.is_by_order());
        }
        let mut store = Store::new(StoreRetention { keys, depth, ..all }, FORMAT);
        assert!(store.is_empty());
        let stream = store.stream(STREAM);
        store.append(stream, 0, &record(1, 1, 16));
        assert!(!store.is_empty());
    }

    /// Model of a store, in the simplest form.
    struct ModelStore(StoreRetention, Vec<(u64, u64, u64)>);

    impl ModelStore {
        fn append(&mut self, version: u64, key: u64, content: u64) {
            let ModelStore(StoreRetention { depth, most, keys, lifespan, .. }, kept) = self;
            let mut known: Vec<u64> = kept.iter().map(|(_, key, _)| *key).collect();
            known.sort_unstable();
            known.dedup();
            if keys.is_some_and(|keys| known.len() as u64 >= keys) && !known.contains(&key) {
                return;
            }
            kept.push((version, key, content));
            let of_key = kept.iter().filter(|(_, known, _)| *known == key).count();
            if depth.is_some_and(|depth| of_key > depth as usize) {
                let first = kept.iter().position(|(_, known, _)| *known == key);
                kept.remove(first.expect("there is one"));
            }
            if most.is_some_and(|most| kept.len() as u64 > most) {
                kept.remove(0);
            }
            let old = |kept: &[(u64, u64, u64)]| {
                kept.first().is_some_and(|(.., time)| {
                    *time < content.saturating_sub(lifespan.unwrap_or(u64::MAX))
                })
            };
            while old(kept) {
                kept.remove(0);
            }
        }

        fn contents(&self) -> Vec<(u64, u64)> {
            self.1.iter().map(|(version, _, content)| (*version, *content)).collect()
        }
    }

    struct Random(u64);

    impl Random {
        fn below(&mut self, limit: u64) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0 % limit
        }
    }

    fn some(random: &mut Random, limit: u64) -> Option<u64> {
        (random.below(3) > 0).then(|| 1 + random.below(limit))
    }

    /// For every retention, while records move and readers look at them: a cursor finds the records
    /// that were kept when it was made, and all later ones.
    #[test]
    fn store_follows_retention_and_cursors_find_all_kept_records() {
        for seed in 1..80 {
            let mut random = Random(seed * 0x9e37_79b9);
            let depth = some(&mut random, 4).map(|depth| depth as u32);
            let (most, keys) = (some(&mut random, 300), some(&mut random, 40));
            let lifespan = some(&mut random, 3000);
            let retention = StoreRetention { depth, most, keys, lifespan, cleanup: None };
            let mut store = Store::new(retention, FORMAT);
            let mut plain = ModelStore(retention, Vec::new());
            let stream = store.stream(STREAM);
            let mut cursors: Vec<(StoreCursor, Vec<(u64, u64)>)> = Vec::new();
            let spread = 1 + random.below(60);
            for version in 0..2500 {
                let key = random.below(spread) * random.below(2);
                let length = 16 + random.below(2000) as usize;
                store.append(stream, version, &record(key, version * 3, length));
                plain.append(version, key, version * 3);
                cursors.iter_mut().for_each(|(_, expected)| expected.push((version, version * 3)));
                if random.below(400) == 0 {
                    cursors.push((store.cursor(), plain.contents()));
                }
                if random.below(300) == 0 && !cursors.is_empty() {
                    let index = random.below(cursors.len() as u64) as usize;
                    let (mut cursor, expected) = cursors.swap_remove(index);
                    assert_eq!(contents(&mut cursor), expected, "seed {seed}");
                }
            }
            assert_eq!(store.len() as usize, plain.1.len());
            assert_eq!(
                contents(&mut store.cursor()),
                plain.contents(),
                "seed {seed}, {retention:?}"
            );
        }
    }

    #[test]
    fn replaced_records_free_memory_and_held_records_stay() {
        let retention = StoreRetention { depth: Some(1), ..StoreRetention::default() };
        let mut store = Store::new(retention, FORMAT);
        let stream = store.stream(STREAM);
        store.append(stream, 0, &record(u64::MAX, 1, 100));
        let held = store.cursor().next().expect("it was just put in");
        for number in 1..200_000 {
            // One in a thousand is never replaced.
            let key = if number % 1000 == 0 { number } else { number % 7 };
            store.append(stream, number, &record(key, number, 1000));
        }
        assert_eq!(store.len(), 7 + 1 + 199);
        let meter = store.meter();
        assert!(meter.bytes() < 4 * LARGEST as u64, "{} bytes", meter.bytes());
        let mut cursor = store.cursor();
        for number in 200_000..220_000 {
            store.append(stream, number, &record(number % 7, number, 1000));
        }
        assert!(meter.bytes() > 20 * LARGEST as u64, "what a cursor has before it stays");
        assert_eq!(contents(&mut cursor).len(), 207 + 20_000);
        drop(cursor);
        for number in 220_000..230_000 {
            store.append(stream, number, &record(number % 7, number, 1000));
        }
        assert!(meter.bytes() < 5 * LARGEST as u64, "{} bytes", meter.bytes());
        drop(store);
        assert_eq!(held.bytes(), record(u64::MAX, 1, 100));
        drop(held);
        assert_eq!(meter.bytes(), 0);
    }

    /// A long chain that is dropped at once is taken apart segment by segment, without recursion.
    #[test]
    fn long_store_is_dropped_without_deep_recursion() {
        let mut store = Store::new(StoreRetention::default(), FORMAT);
        let stream = store.stream(STREAM);
        for number in 0..3000 {
            store.append(stream, number, &record(1, number, LARGEST));
        }
        let cursor = store.cursor();
        let meter = store.meter();
        drop(store);
        drop(cursor);
        assert_eq!(meter.bytes(), 0);
    }
}
