//! Past of a store that begins in the middle of the order, for records that are removed strictly in
//! order or never (I-230).
//!
//! Owns: the part of the past received so far, which is linked before the first record of the store
//! without a copy. Never does: return any of it before all of it is there.
//!
//! ```text
//!   past     ──> ──> ... arrives gradually ┊         below the floor: dropped, reused
//!   segments                               ──> ──> (last)   delivered records
//!   join     ──> ──> ──> ──> ──> ──> ──> ──> ──> ──> (last)
//! ```

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::{NumberedSegment, RecordFormat, SMALLEST, Store, StoreRetention};
use crate::group::report::StreamId;
use crate::storage::cursor::{StoreCursor, StorePin};
use crate::storage::segment::StoredHeader;

/// Number of the first segment for delivered records; segments of the past have lower numbers.
const AMID: u64 = 1 << 32;

/// Past received so far; see the [module](self).
#[derive(Default)]
pub(super) struct PastRecords {
    segments: VecDeque<NumberedSegment>,
    /// Number of the next message of each stream in the past.
    numbers: Vec<Option<u64>>,
    /// Position after the last record of the past, once that is known.
    end: Option<u64>,
    /// Least possible position of the next record of the past.
    next: u64,
    /// Number of records put in.
    records: u64,
}

/// Position in a store at which a transfer resumes that keeps no records in between.
#[derive(Clone, Copy, Default)]
pub(in crate::storage) struct ResumePoint {
    next: u64,
    floor: u64,
    /// Segment number and offset of the position, if that segment still exists.
    place: Option<(u64, usize)>,
}

impl Store {
    /// Creates an empty store that will get the records delivered before it began.
    pub(in crate::storage) fn amid(retention: StoreRetention, format: RecordFormat) -> Store {
        let past = Some(Box::default());
        Store { past, ..Store::numbered(AMID, retention, format) }
    }

    /// Discards what has arrived of the past.
    pub(in crate::storage) fn forget_past(&mut self) {
        if let Some(past) = &mut self.past {
            **past = PastRecords { end: past.end, ..PastRecords::default() };
        }
    }

    /// Sets the number of messages before the first delivered record; positions continue from it.
    /// Returns `false` if another number was set before: then all that has arrived of the past
    /// is worthless.
    pub(in crate::storage) fn begin_at(&mut self, version: u64) -> bool {
        let Some(past) = &mut self.past else { return true };
        let before = past.end.replace(version);
        if before == Some(version) {
            return true;
        }
        let by = version.wrapping_sub(before.unwrap_or(0));
        self.segments.iter().for_each(|numbered_segment| numbered_segment.segment.shift(by));
        self.stream_ends.iter_mut().for_each(|(over, _)| *over = over.wrapping_add(by));
        self.version = self.version.wrapping_add(by);
        if before.is_some() {
            self.forget_past();
        }
        before.is_none()
    }

    /// Puts in a record of the past. Returns `false` if it cannot be one.
    pub(in crate::storage) fn put_before(
        &mut self,
        stream: u32,
        number: u64,
        position: u64,
        record: &[u8],
    ) -> bool {
        let floor = self.floor();
        let Some(past) = &mut self.past else { return false };
        if position < past.next || past.end.is_none_or(|end| position >= end) {
            return false;
        }
        let index = stream as usize;
        past.numbers.resize(past.numbers.len().max(index + 1), None);
        (past.next, past.numbers[index]) = (position + 1, Some(number + 1));
        if position < floor {
            return true;
        }
        past.records += 1;
        let head = StoredHeader { position, number, stream, length: record.len() as u32 };
        if let Some(last) = past.segments.back_mut()
            && last.segment.put(head, record).is_some()
        {
            last.live += head.footprint();
            return true;
        }
        let size = past.segments.back().map_or(SMALLEST / 2, |last| last.segment.size());
        let segment = self.segment_after(size, record.len());
        segment.put(head, record).expect("a new segment has room for the record");
        let Some(past) = &mut self.past else { return false };
        let number = past.segments.back().map_or(0, |last| last.number + 1);
        if let Some(last) = past.segments.back() {
            last.segment.set_next(Some(Arc::clone(&segment)));
        }
        past.segments.push_back(NumberedSegment { number, segment, live: head.footprint() });
        self.trim_past();
        true
    }

    /// Drops segments of the past that are no longer kept.
    pub(super) fn trim_past(&mut self) {
        let floor = self.floor();
        while let Some(past) = self.past.as_mut().filter(|front| front.end.is_some()) {
            let next = past.segments.get(1).or(self.segments.front());
            if !next.is_some_and(|next| next.begins_by(floor)) {
                return;
            }
            let Some(first) = past.segments.pop_front() else { return };
            self.spare(first);
        }
    }

    /// Whether so much was delivered since that no record of the past is kept any more.
    pub(in crate::storage) fn has_outlived(&self) -> bool {
        let end = self.past.as_ref().and_then(|past| past.end);
        end.is_some_and(|end| end > 0 && self.floor() >= end)
    }

    /// Number of the next message of each stream in the past.
    pub(in crate::storage) fn past_numbers(&self) -> impl Iterator<Item = (StreamId, u64)> + '_ {
        let numbers = self.past.iter().flat_map(|past| &past.numbers);
        let numbers = self.streams.iter().zip(numbers);
        numbers.filter_map(|(stream, number)| Some((*stream, (*number)?)))
    }

    /// Joins the complete past, of which no record has been returned yet, to the store.
    pub(in crate::storage) fn join(&mut self) {
        self.trim_past();
        let Some(past) = self.past.take() else { return };
        for (known, number) in self.numbers.iter_mut().zip(&past.numbers) {
            *known = (*known).max(*number);
        }
        let PastRecords { segments: numbered_segments, records, .. } = *past;
        if let (Some(last), Some(first)) = (numbered_segments.back(), self.segments.front()) {
            last.segment.set_next(Some(Arc::clone(&first.segment)));
        }
        let later = core::mem::replace(&mut self.segments, numbered_segments);
        self.segments.extend(later);
        let all = self.live + records;
        self.live = self.retention.window().map_or(all, |most| all.min(most));
        self.tidy();
    }

    /// Returns a cursor at a resume point; also returns the number of records ahead of the point
    /// that were removed since the point moved last.
    pub(in crate::storage) fn cursor_from(
        &self,
        resume_point: &mut ResumePoint,
    ) -> (StoreCursor, u64) {
        let floor = self.floor();
        let gone = floor.saturating_sub(resume_point.floor.max(resume_point.next));
        (resume_point.next, resume_point.floor) = (resume_point.next.max(floor), floor);
        let known = resume_point.place.map(|(number, at)| (self.segment_index(number), number, at));
        let known = known.filter(|(index, number, _)| {
            self.segments
                .get(*index)
                .is_some_and(|numbered_segment| numbered_segment.number == *number)
        });
        let (index, at) = match known {
            Some((index, _, at)) => (index, at),
            None => (self.segment_index_at(resume_point.next), 0),
        };
        let mut cursor = StoreCursor::new(
            Arc::clone(&self.segments[index].segment),
            StorePin::new(&self.pinned),
        );
        cursor.begin_at(at, resume_point.next);
        (cursor, gone)
    }

    /// Notes the position that a cursor has reached.
    pub(in crate::storage) fn save_position(
        &self,
        cursor: &StoreCursor,
        resume_point: &mut ResumePoint,
    ) {
        resume_point.next = cursor.position();
        let numbered_segment =
            &self.segments[self.segment_index_at(resume_point.next.saturating_sub(1))];
        resume_point.place =
            cursor.place_in(&numbered_segment.segment).map(|at| (numbered_segment.number, at));
    }

    /// Returns the segment that contains the record of this position, or that precedes the place
    /// where it would be.
    fn segment_index_at(&self, position: u64) -> usize {
        self.segments
            .partition_point(|numbered_segment| numbered_segment.begins_by(position))
            .saturating_sub(1)
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::super::tests::{OF_ONE_KEY, STREAM};
    use super::*;

    fn last(most: u64) -> StoreRetention {
        StoreRetention { most: Some(most), ..StoreRetention::default() }
    }

    fn kept(store: &Store) -> Vec<(u64, u64, u8)> {
        store.cursor().map(|kept| (kept.position(), kept.number(), kept[0])).collect()
    }

    fn all(numbers: core::ops::Range<u64>) -> Vec<(u64, u64, u8)> {
        numbers.map(|number| (number, number, number as u8)).collect()
    }

    /// Records of all lengths. Number and version are equal, and the first byte identifies
    /// the record.
    fn record(number: u64) -> Vec<u8> {
        alloc::vec![number as u8; 1 + (number * 7919 % 9000) as usize]
    }

    fn put(store: &mut Store, numbers: core::ops::Range<u64>) {
        let stream = store.stream(STREAM);
        numbers.for_each(|number| store.append(stream, number, &record(number)));
    }

    fn put_before(store: &mut Store, numbers: core::ops::Range<u64>) {
        let stream = store.stream(STREAM);
        numbers
            .for_each(|number| assert!(store.put_before(stream, number, number, &record(number))));
    }

    #[test]
    fn past_records_that_arrive_later_precede_delivered_records() {
        for retention in [StoreRetention::default(), last(700)] {
            let mut store = Store::amid(retention, OF_ONE_KEY);
            put(&mut store, 1000..1200);
            assert!(store.begin_at(1000));
            put_before(&mut store, 300..600);
            put(&mut store, 1200..1300);
            put_before(&mut store, 600..1000);
            put(&mut store, 1300..1310);
            assert_eq!(store.past_numbers().collect::<Vec<_>>(), [(STREAM, 1000)]);
            store.join();
            let from = if retention.most.is_some() { 610 } else { 300 };
            assert_eq!(kept(&store), all(from..1310));
            assert_eq!(store.len(), 1310 - from);
            put(&mut store, 1310..2000);
            assert_eq!(kept(&store), all(from.max(store.floor())..2000));
        }
    }

    #[test]
    fn outlived_past_is_dropped_and_its_memory_is_reused() {
        let mut store = Store::amid(last(2000), OF_ONE_KEY);
        assert!(store.begin_at(5000));
        put_before(&mut store, 3000..4990);
        let (meter, mut most) = (store.meter(), 0);
        for number in 5000..7500 {
            put(&mut store, number..number + 1);
            most = most.max(meter.bytes());
            assert_eq!(store.has_outlived(), number + 1 >= 7000);
            // A record that is no longer kept is no error.
            if number == 6995 {
                put_before(&mut store, 4990..5000);
            }
        }
        // At most one past, and the segments at its ends.
        assert!(most < 14 << 20, "{most} bytes");
        store.join();
        assert_eq!(kept(&store), all(5500..7500));
        assert_eq!(store.numbers().collect::<Vec<_>>(), [(STREAM, 7500)]);
    }

    #[test]
    fn store_takes_in_exactly_the_past_records_that_retention_keeps() {
        let mut store = Store::amid(last(10), OF_ONE_KEY);
        assert!(store.begin_at(100));
        put(&mut store, 100..105);
        put_before(&mut store, 80..95);
        assert!(store.past.as_ref().is_some_and(|past| past.segments.is_empty()));
        put_before(&mut store, 95..100);
        store.join();
        assert_eq!(kept(&store), all(95..105));
    }

    #[test]
    fn complete_past_is_joined_before_any_record_is_delivered() {
        for retention in [StoreRetention::default(), last(1000)] {
            let mut store = Store::amid(retention, OF_ONE_KEY);
            assert!(store.begin_at(0));
            assert!(!store.has_outlived(), "there is nothing to be outlived");
            let mut store = Store::amid(retention, OF_ONE_KEY);
            assert!(store.begin_at(900));
            put_before(&mut store, 0..900);
            let sizes = |numbered_segments: &VecDeque<NumberedSegment>| -> Vec<usize> {
                numbered_segments
                    .iter()
                    .map(|numbered_segment| numbered_segment.segment.size() >> 10)
                    .collect()
            };
            let past = store.past.as_ref().map(|front| sizes(&front.segments));
            assert_eq!(past.expect("it is there")[..7], [16, 32, 64, 128, 256, 512, 1024]);
            store.join();
            let numbers: Vec<u64> =
                store.segments.iter().map(|numbered_segment| numbered_segment.number).collect();
            assert!(numbers.is_sorted_by(|one, next| one < next), "{numbers:?}");
            let (mut resume_point, mut seen) = (ResumePoint::default(), Vec::new());
            while resume_point.next < 900 {
                let (mut cursor, gone) = store.cursor_from(&mut resume_point);
                seen.extend(cursor.by_ref().take(7).map(|kept| kept.position()));
                store.save_position(&cursor, &mut resume_point);
                assert_eq!((gone, resume_point.next), (0, seen.len() as u64));
                let is_known = resume_point.place.is_some() || resume_point.next == 900;
                assert!(is_known, "it goes on where it is");
            }
            assert_eq!(seen, (0..900).collect::<Vec<u64>>());
            assert_eq!(kept(&store), all(0..900));
            put(&mut store, 900..1000);
            assert_eq!(kept(&store), all(0..1000));
        }
    }

    #[test]
    fn invalid_past_record_is_refused() {
        let mut store = Store::amid(StoreRetention::default(), OF_ONE_KEY);
        let stream = store.stream(STREAM);
        assert!(!store.put_before(stream, 0, 0, &[1]), "where it ends is not known");
        put(&mut store, 0..3);
        assert!(store.begin_at(100));
        assert!(!store.put_before(stream, 0, 100, &[1]));
        assert!(store.put_before(stream, 50, 50, &[50]));
        assert!(!store.put_before(stream, 51, 50, &[1]), "a version has one record");
        assert!(store.begin_at(100));
        assert!(!store.begin_at(90), "something else was said before");
        assert_eq!(store.past_numbers().count(), 0);
        assert!(store.begin_at(90), "that stands");
        assert!(store.put_before(stream, 50, 50, &[50]));
        store.forget_past();
        assert!(store.put_before(stream, 49, 49, &[49]), "where it ends stands, whatever has come");
        assert!(store.begin_at(90));
        store.join();
        let versions: Vec<u64> = store.cursor().map(|kept| kept.position()).collect();
        assert_eq!(versions, [49, 90, 91, 92]);
    }

    #[test]
    fn walk_continues_at_its_position_and_holds_no_memory() {
        let mut store = Store::new(last(1000), OF_ONE_KEY);
        put(&mut store, 0..1000);
        let (mut resume_point, mut seen) = (ResumePoint::default(), Vec::new());
        let mut step = |store: &Store, resume_point: &mut ResumePoint, count: usize| {
            let (mut cursor, gone) = store.cursor_from(resume_point);
            seen.extend(cursor.by_ref().take(count).map(|kept| kept.position()));
            store.save_position(&cursor, resume_point);
            gone
        };
        for _ in 0..60 {
            assert_eq!(step(&store, &mut resume_point, 10), 0);
        }
        put(&mut store, 1000..1500);
        assert_eq!(step(&store, &mut resume_point, 10), 0);
        let bytes = store.meter().bytes();
        put(&mut store, 1500..4000);
        assert!(store.meter().bytes() < bytes + (3 << 20), "nothing is held");
        assert_eq!(
            step(&store, &mut resume_point, 5),
            2390,
            "since the last step, of what was still to come"
        );
        put(&mut store, 4000..4100);
        assert_eq!(step(&store, &mut resume_point, 5), 95);
        assert_eq!(step(&store, &mut resume_point, 5), 0);
        let expected = (0..610).chain(3000..3005).chain(3100..3110);
        assert_eq!(seen, expected.collect::<Vec<u64>>());
    }
}
