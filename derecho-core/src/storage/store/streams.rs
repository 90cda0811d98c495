//! Streams that the records of a store came by.
//!
//! Owns: the number of each stream in the store, its next message, and when it began and ended.
//! Never does: look at a record.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::Store;
use crate::group::report::StreamId;
use crate::storage::store_message::AnnouncedStream;

impl Store {
    /// Returns a stream's number in this store.
    pub fn stream(&mut self, stream: StreamId) -> u32 {
        *self.names.entry(stream).or_insert_with(|| {
            self.streams.push(stream);
            self.numbers.push(None);
            self.met.push(u64::MAX);
            self.streams.len() as u32 - 1
        })
    }

    /// Streams, by their numbers in this store.
    pub fn streams(&self) -> &[StreamId] {
        &self.streams
    }

    /// Notes that a stream existed in this epoch.
    pub fn meet(&mut self, stream: StreamId, epoch: u64) {
        let index = self.stream(stream) as usize;
        self.met[index] = self.met[index].min(epoch);
    }

    /// Streams, by their numbers in this store, with the first epoch in which each is known to
    /// have existed.
    pub fn met(&self) -> impl Iterator<Item = (StreamId, u64)> + '_ {
        self.streams.iter().copied().zip(self.met.iter().copied())
    }

    /// Returns what another store must be told of each stream: when it began and ended.
    pub(in crate::storage) fn announced(&self) -> impl Iterator<Item = AnnouncedStream> + '_ {
        let ends: BTreeMap<StreamId, u64> =
            self.stream_ends.iter().map(|(at, stream)| (*stream, *at)).collect();
        self.met().map(move |(stream, met)| {
            (stream, (met, ends.get(&stream).copied().unwrap_or(u64::MAX)))
        })
    }

    /// Returns the streams that are announced before a transfer (I-157): those that have not ended,
    /// and the `most_ended` that ended last.
    pub(in crate::storage) fn offered(&self, most_ended: usize) -> Vec<AnnouncedStream> {
        let last = &self.stream_ends[self.stream_ends.len().saturating_sub(most_ended)..];
        let last: BTreeMap<StreamId, u64> =
            last.iter().map(|(at, stream)| (*stream, *at)).collect();
        let announced = self.met().filter_map(|(stream, met)| match last.get(&stream) {
            Some(ended_at) => Some((stream, (met, *ended_at))),
            None => (!self.ended.contains(&stream)).then_some((stream, (met, u64::MAX))),
        });
        announced.collect()
    }

    /// Notes that a stream ended when the store had this version (I-155). An earlier note stands.
    pub fn end(&mut self, stream: StreamId, version: u64) {
        if self.ended.insert(stream) {
            let place = self.stream_ends.partition_point(|(other, _)| *other <= version);
            self.stream_ends.insert(place, (version, stream));
        }
    }

    /// Ends, at the present version, all streams for which `goes_on` is false.
    pub fn end_others(&mut self, goes_on: impl Fn(StreamId) -> bool) {
        let ended: Vec<StreamId> =
            self.streams.iter().copied().filter(|stream| !goes_on(*stream)).collect();
        ended.into_iter().for_each(|stream| self.end(stream, self.version));
    }

    /// Takes out the first stream that ended when the store had this version or a lower one. The
    /// stream no longer counts as ended here.
    pub(in crate::storage) fn take_ended(&mut self, version: u64) -> Option<StreamId> {
        let is_over = self.stream_ends.first().is_some_and(|(over, _)| *over <= version);
        let (_, stream) = is_over.then(|| self.stream_ends.remove(0))?;
        self.ended.remove(&stream);
        Some(stream)
    }

    /// Streams that have ended, with the version of the store at that time, in order of version.
    pub fn ended_streams(&self) -> &[(u64, StreamId)] {
        &self.stream_ends
    }

    /// Number of the next message of the stream with this number, once it is known.
    pub fn next_in(&self, stream: u32) -> Option<u64> {
        self.numbers[stream as usize]
    }

    /// Number of the next message of a stream; `None` if it is unknown here.
    pub fn number_of(&self, stream: StreamId) -> Option<u64> {
        self.names.get(&stream).and_then(|index| self.numbers[*index as usize])
    }

    /// Number of the next message of each stream.
    pub fn numbers(&self) -> impl Iterator<Item = (StreamId, u64)> + '_ {
        let numbers = self.streams.iter().zip(&self.numbers);
        numbers.filter_map(|(stream, number)| Some((*stream, (*number)?)))
    }

    /// Sets the number of the next message of this stream to at least `number`: earlier messages do
    /// not concern this store.
    pub fn expect(&mut self, stream: StreamId, number: u64) {
        let index = self.stream(stream) as usize;
        self.numbers[index] = self.numbers[index].max(Some(number));
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::super::StoreRetention;
    use super::super::tests::OF_ONE_KEY;
    use super::*;
    use crate::ids::{NodeId, RegionId};

    fn stream(number: u64) -> StreamId {
        StreamId { node: NodeId(u128::from(number)), region: RegionId(7) }
    }

    /// Every stream that ever existed is remembered: even for very many streams this is cheap, as
    /// it is sent in one turn.
    #[test]
    fn knowledge_of_very_many_streams_is_transferred_to_another_store() {
        const MANY: u64 = 50_000;
        let mut stores = [(); 2].map(|()| Store::new(StoreRetention::default(), OF_ONE_KEY));
        let [ours, theirs] = &mut stores;
        for number in 0..MANY {
            let index = ours.stream(stream(number));
            ours.meet(stream(number), number / 10);
            ours.append(index, 3, &[0; 16]);
            if number % 3 > 0 {
                ours.end(stream(number), ours.version());
                ours.end(stream(number), 0);
            }
        }
        for (stream, (met, ended_at)) in ours.announced() {
            theirs.meet(stream, met);
            if ended_at < u64::MAX {
                theirs.end(stream, ended_at);
            }
        }
        assert_eq!(theirs.announced().collect::<Vec<_>>(), ours.announced().collect::<Vec<_>>());
        assert_eq!(theirs.ended_streams(), ours.ended_streams());
        assert_eq!(ours.number_of(stream(MANY - 1)), Some(4));
        assert_eq!(theirs.number_of(stream(MANY)), None);
        assert_eq!(theirs.take_ended(1), None);
        assert_eq!(theirs.take_ended(2), Some(stream(1)));
        theirs.end(stream(1), 9);
        assert!(theirs.ended_streams().contains(&(9, stream(1))), "it may be said anew");
    }

    #[test]
    fn next_number_of_stream_follows_announcement_or_last_record() {
        let mut store = Store::new(StoreRetention::default(), OF_ONE_KEY);
        let index = store.stream(stream(1));
        assert_eq!(store.next_in(index), None);
        store.expect(stream(1), 5);
        store.expect(stream(2), 0);
        assert_eq!(store.next_in(index), Some(5));
        store.expect(stream(1), 3);
        assert_eq!(store.next_in(index), Some(5), "that was before");
        store.append(index, 5, &[0; 16]);
        assert_eq!(store.next_in(index), Some(6));
        store.stream(stream(3));
        assert_eq!(store.numbers().collect::<Vec<_>>(), [(stream(1), 6), (stream(2), 0)]);
        assert_eq!(store.streams(), [1, 2, 3].map(stream));
    }

    #[test]
    fn streams_that_do_not_continue_end_at_current_version() {
        let mut store = Store::new(StoreRetention::default(), OF_ONE_KEY);
        for number in 1..5 {
            let index = store.stream(stream(number));
            store.append(index, 0, &[0; 16]);
        }
        store.end(stream(2), 1);
        store.end_others(|of| of == stream(3));
        assert_eq!(store.ended_streams(), [(1, stream(2)), (4, stream(1)), (4, stream(4))]);
        let met = [(stream(3), (u64::MAX, u64::MAX)), (stream(4), (u64::MAX, 4))];
        assert_eq!(store.offered(1), met, "who is there, and the last one that is not");
    }
}
