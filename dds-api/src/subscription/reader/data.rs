//! The short way of reading: samples with data alone.
//!
//! Owns: the choice of the samples that have data. Never does: copy a sample.

use idl_xtypes::TopicData;

use super::{DataReader, Limit, Samples, left_until};
use crate::infrastructure::{DdsResult, Timeout};
use crate::subscription::sample::{Sample, ValidSample};

impl<T: TopicData> DataReader<T> {
    /// Takes samples with data, oldest first for each writer. Samples [without](Sample::data) data,
    /// which report that instances are over, are taken too, and dropped;
    /// [`take`](DataReader::take) gives them. `limit` counts both.
    ///
    /// Waits until there is a sample with data. If none comes in time, the result is empty, which
    /// is not an error.
    pub fn take_data(
        &self,
        limit: impl Limit,
        timeout: impl Into<Timeout>,
    ) -> DdsResult<DataSamples<'_, T>> {
        let (limit, timeout) = (limit.limit(), timeout.into());
        let deadline = timeout.deadline();
        loop {
            let mut samples = self.take(..limit, left_until(timeout, deadline))?;
            let has_any = limit > 0 && !samples.is_empty();
            let first = samples.find_map(Sample::into_data);
            if first.is_some() || !has_any {
                return Ok(DataSamples { first, samples });
            }
            // Only samples without data have come so far, or another thread took the others.
        }
    }

    /// Takes the next sample with data, if one comes in time. Drops the samples
    /// [without](Sample::data) data before that.
    #[inline]
    pub fn take_next_data(&self, timeout: impl Into<Timeout>) -> DdsResult<Option<ValidSample<T>>> {
        if self.cache.get().is_none() {
            let mark = self.mark_if_asked();
            let next = self.pop_sample(self.view(), 0, ValidSample::of, || None);
            if next.is_some() {
                self.note_read_if(mark);
                return Ok(next);
            }
        }
        Ok(self.take_data(..1, timeout.into())?.next())
    }
}

/// Iterator over samples with data that are being taken: see [`DataReader::take_data`].
///
/// ```
/// # use dds_api::prelude::*;
/// # #[derive(DdsType, Clone, Debug, Default)]
/// # struct Track { #[dds(key)] id: u32, height: f64 }
/// # fn example(reader: &DataReader<Track>) -> DdsResult<()> {
/// for track in reader.take_data(.., Timeout::secs(1))? {
///     println!("{} m", track.height);
/// }
/// # Ok(())
/// # }
/// ```
pub struct DataSamples<'a, T: TopicData> {
    first: Option<ValidSample<T>>,
    samples: Samples<'a, T>,
}

impl<T: TopicData> DataSamples<'_, T> {
    /// Whether there are no samples, or no more. Samples without data that are still to be dropped
    /// count.
    pub fn is_empty(&self) -> bool {
        self.first.is_none() && self.samples.is_empty()
    }
}

impl<'a, T: TopicData> Samples<'a, T> {
    /// The samples with data. The others are taken too, and dropped.
    pub fn data(self) -> DataSamples<'a, T> {
        let mut samples = self;
        DataSamples { first: samples.first.take().and_then(Sample::into_data), samples }
    }
}

impl<T: TopicData> Iterator for DataSamples<'_, T> {
    type Item = ValidSample<T>;

    #[inline(always)]
    fn next(&mut self) -> Option<ValidSample<T>> {
        if self.first.is_some() {
            return self.first.take();
        }
        self.samples.next_as(ValidSample::of, |taken| taken.find_map(Sample::into_data))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let first = usize::from(self.first.is_some());
        let (_, most) = self.samples.size_hint();
        (first, most.and_then(|most| most.checked_add(first)))
    }
}
