//! What a store knows of the streams that its records came by.
//!
//! Owns: what each is called, which of its messages comes next, and since and until when it has been there. Never does: look at
//! a record.

use alloc::vec::Vec;

use super::Store;
use crate::group::report::StreamId;

impl Store {
    /// A stream's number here.
    pub fn stream(&mut self, stream: StreamId) -> u32 {
        let known = self.streams.iter().position(|known| *known == stream);
        let index = known.unwrap_or_else(|| {
            self.streams.push(stream);
            self.numbers.push(None);
            self.met.push(u64::MAX);
            self.streams.len() - 1
        });
        index as u32
    }

    /// The streams, by their numbers here.
    pub fn streams(&self) -> &[StreamId] {
        &self.streams
    }

    /// A stream was there in this epoch.
    pub fn meet(&mut self, stream: StreamId, epoch: u64) {
        let index = self.stream(stream) as usize;
        self.met[index] = self.met[index].min(epoch);
    }

    /// The streams, by their numbers here, and the first epoch in which each is known to have been there.
    pub fn met(&self) -> impl Iterator<Item = (StreamId, u64)> + '_ {
        self.streams.iter().copied().zip(self.met.iter().copied())
    }

    /// What another store has to be told of them: of each since and until when it has been there.
    pub(in crate::storage) fn known(&self) -> impl Iterator<Item = (StreamId, (u64, u64))> + '_ {
        self.met().map(|(stream, met)| {
            let over = self.over.iter().find(|(_, over)| *over == stream);
            (stream, (met, over.map_or(u64::MAX, |(version, _)| *version)))
        })
    }

    /// Nothing of a stream comes from this version on (I-155). What was known of that before stands.
    pub fn end(&mut self, stream: StreamId, version: u64) {
        if self.over.iter().all(|(_, over)| *over != stream) {
            let place = self.over.partition_point(|(other, _)| *other <= version);
            self.over.insert(place, (version, stream));
        }
    }

    /// Nothing comes from now on of the streams that are not among these.
    pub fn end_others(&mut self, goes_on: impl Fn(StreamId) -> bool) {
        let ended: Vec<StreamId> =
            self.streams.iter().copied().filter(|stream| !goes_on(*stream)).collect();
        ended.into_iter().for_each(|stream| self.end(stream, self.version));
    }

    /// The first stream that is over from this version on or before, and is not called so any more.
    pub(in crate::storage) fn take_over(&mut self, version: u64) -> Option<StreamId> {
        let is_over = self.over.first().is_some_and(|(over, _)| *over <= version);
        is_over.then(|| self.over.remove(0).1)
    }

    /// The streams that are over, and from which version on, in the order of these.
    pub fn over(&self) -> &[(u64, StreamId)] {
        &self.over
    }

    /// Of the stream that is called so here the number that comes next, once it is known.
    pub fn next_in(&self, stream: u32) -> Option<u64> {
        self.numbers[stream as usize]
    }

    /// Of a stream the number that comes next; none if it is not known here.
    pub fn number_of(&self, stream: StreamId) -> Option<u64> {
        let index = self.streams.iter().position(|known| *known == stream)?;
        self.numbers[index]
    }

    /// Of each stream the number that comes next.
    pub fn numbers(&self) -> impl Iterator<Item = (StreamId, u64)> + '_ {
        let numbers = self.streams.iter().zip(&self.numbers);
        numbers.filter_map(|(stream, number)| Some((*stream, (*number)?)))
    }

    /// Of this stream this number comes next: what was before it is none of this store's business.
    pub fn expect(&mut self, stream: StreamId, number: u64) {
        let index = self.stream(stream) as usize;
        self.numbers[index] = self.numbers[index].max(Some(number));
    }
}
