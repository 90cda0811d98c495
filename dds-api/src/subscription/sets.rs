//! Coherent sets: a record that holds a set is split into its samples.
//!
//! Owns: which samples of a set a reader gets. Never does: give a part of a set.

use std::sync::PoisonError;

use idl_xtypes::TopicData;

use super::authors::author;
use super::intake::{ReaderCore, RecordContents, is_out_of_date};
use super::queues::TakenRecord;
use super::sample::SampleBody;
use crate::mapping::record::{WriterNotice, is_notice, origin, time_of};
use crate::mapping::set;

/// The samples of a record, each with its position in a coherent set.
pub(super) type PositionedSamples<T> = Vec<(u32, SampleBody<T>)>;

impl<T: TopicData> ReaderCore<T> {
    /// The samples of a coherent set that the reader gets. A notice about a writer is noted, and
    /// has no samples.
    #[cold]
    pub(super) fn unpack_set(&self, record: &TakenRecord) -> RecordContents<T> {
        let samples = match is_notice(record.bytes()) {
            true => self.note_notice(record).map(|()| Vec::new()),
            false => self.samples_of_set(record),
        };
        samples.map_or(RecordContents::Unreadable, RecordContents::Set)
    }

    fn note_notice(&self, record: &TakenRecord) -> Option<()> {
        let notice = WriterNotice::of(record.bytes())?;
        // Only this thread brings earlier samples to the application, or into the cache.
        let writer = author(record.stream(), origin(record.bytes()).writer);
        self.departures.note_notice(writer, notice, time_of(record.bytes()));
        Some(())
    }

    /// The samples of a set, without those for other readers and those that have expired. `None` if
    /// a sample has no known form.
    fn samples_of_set(&self, set: &TakenRecord) -> Option<PositionedSamples<T>> {
        let (with, node) = (self.reading(), set.stream().node);
        let known = set::of_several(set.bytes()).and_then(|_| {
            self.shared.known_writers.lock().unwrap_or_else(PoisonError::into_inner).clone()
        });
        let is_others = |record: &[u8]| {
            known.as_ref().is_some_and(|known| !known.has(node, record)) || self.is_refused(record)
        };
        let lifespan = self.enabling.started().map_or(0, |started| started.lifespan);
        let mut samples = Vec::new();
        for (position, record) in (0..).zip(set::records(set.bytes())?) {
            let record = record.ok()?;
            if is_others(record) {
                continue;
            }
            let sample = SampleBody::of_bytes(record, set.number(), node, &with)?;
            if !is_out_of_date(&sample, lifespan) {
                samples.push((position, sample));
            }
        }
        Some(samples)
    }
}
