//! A sample that has data.
//!
//! Owns: the proof that the data are there. Never does: copy a sample.

use std::ops::Deref;

use idl_xtypes::TopicData;

use super::{Sample, SampleInfo};

/// A [sample](Sample) with data. It dereferences to the data.
///
/// ```
/// # use dds_api::prelude::*;
/// # #[derive(DdsType, Clone, Debug, Default)]
/// # struct Track { #[dds(key)] id: u32, height: f64 }
/// # fn example(reader: &DataReader<Track>) -> DdsResult<()> {
/// if let Some(track) = reader.take_next_data(Timeout::secs(1))? {
///     println!("{} m", track.height);              // read where its writer wrote it
///     let kept: Track = track.clone();             // and kept without holding its writer's memory
/// }
/// # Ok(())
/// # }
/// ```
pub struct ValidSample<T> {
    sample: Sample<T>,
}

impl<T: TopicData> ValidSample<T> {
    /// The sample, which has data.
    #[inline(always)]
    pub(in crate::subscription) fn of(sample: Sample<T>) -> ValidSample<T> {
        ValidSample { sample }
    }

    /// Information about the sample besides its data.
    #[inline]
    pub fn info(&self) -> SampleInfo {
        self.sample.info()
    }

    /// Whether the sample is read where its writer built it, or where it is kept for late joiners.
    pub fn is_borrowed(&self) -> bool {
        self.sample.is_borrowed()
    }
}

impl<T: TopicData> Deref for ValidSample<T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        &self.sample.body
    }
}

impl<T> From<ValidSample<T>> for Sample<T> {
    fn from(valid: ValidSample<T>) -> Sample<T> {
        valid.sample
    }
}

impl<T: TopicData + std::fmt::Debug> std::fmt::Debug for ValidSample<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ValidSample").field("data", &**self).field("info", &self.info()).finish()
    }
}
