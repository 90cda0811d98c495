//! The reader's waiting calls, as futures for any runtime.
//!
//! The futures have no time-out of their own. To stop waiting, drop the future, as the time-outs of
//! runtimes do.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use idl_xtypes::TopicData;

use super::{DataReader, DataSamples, Limit, Samples};
use crate::infrastructure::{DdsResult, Readiness, ReadyFuture, Timeout, WaitDriver, WakerSlot};
use crate::subscription::{Sample, ValidSample};

impl<T: TopicData> DataReader<T> {
    /// Does what [`DataReader::take`] does, once there is a sample.
    pub async fn take_async(&self, limit: impl Limit) -> DdsResult<Samples<'_, T>> {
        let limit = limit.limit();
        loop {
            self.until(|| self.has_samples()).await;
            match self.take(..limit, Timeout::NOW) {
                // Another thread has taken the samples.
                Ok(samples) if samples.is_empty() => {}
                Err(error) if self.membership().outlasts(&error) => {}
                result => return result,
            }
        }
    }

    /// Does what [`DataReader::take_next`] does, once there is a sample.
    pub async fn take_next_async(&self) -> DdsResult<Sample<T>> {
        loop {
            self.until(|| self.has_samples()).await;
            match self.take_next(Timeout::NOW) {
                Ok(Some(sample)) => return Ok(sample),
                Ok(None) => {}
                Err(error) if self.membership().outlasts(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Does what [`DataReader::take_data`] does, once there is a sample with data.
    pub async fn take_data_async(&self, limit: impl Limit) -> DdsResult<DataSamples<'_, T>> {
        let limit = limit.limit();
        loop {
            self.until(|| self.has_samples()).await;
            match self.take_data(..limit, Timeout::NOW) {
                Ok(samples) if samples.is_empty() => {}
                Err(error) if self.membership().outlasts(&error) => {}
                result => return result,
            }
        }
    }

    /// Does what [`DataReader::take_next_data`] does, once there is a sample with data.
    pub async fn take_next_data_async(&self) -> DdsResult<ValidSample<T>> {
        loop {
            if let Some(valid) = self.take_next_async().await?.into_data() {
                return Ok(valid);
            }
        }
    }

    /// Does what [`DataReader::wait_for_writers`] does.
    pub async fn wait_for_writers_async(&self, count: usize) -> DdsResult<()> {
        loop {
            self.until(|| self.matched_writers() >= count && !self.membership().is_out()).await;
            match self.wait_for_writers(count, Timeout::NOW) {
                Err(error) if self.membership().outlasts(&error) => {}
                result => return result,
            }
        }
    }

    /// Does what [`DataReader::wait_for_historical_data`] does.
    pub async fn wait_for_historical_data_async(&self) -> DdsResult<()> {
        loop {
            self.until(|| self.knows_history()).await;
            match self.wait_for_historical_data(Timeout::NOW) {
                Err(error) if self.membership().outlasts(&error) => {}
                result => return result,
            }
        }
    }

    /// Stream of the reader's samples as they come, each once. If this participant is isolated for
    /// good, the error is the last item.
    ///
    /// ```no_run
    /// # use dds_api::prelude::*;
    /// # use futures_util::StreamExt;
    /// # #[derive(DdsType, Clone, Debug, Default)]
    /// # struct Altitude { feet: f64 }
    /// # async fn show(reader: DataReader<Altitude>) -> DdsResult<()> {
    /// let mut samples = reader.stream().data();
    /// while let Some(sample) = samples.next().await {
    ///     println!("{} ft", sample?.feet);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn stream(&self) -> SampleStream<'_, T> {
        SampleStream { reader: self, waker: None, is_over: false }
    }

    /// Waits until `ready` holds, or until it is certain that nothing more comes.
    async fn until(&self, mut ready: impl FnMut() -> bool + Unpin) {
        let membership = self.membership();
        let check = || match ready() || membership.is_out_for_good() || !self.is_enabled() {
            true => Readiness::Ready,
            false => self.next_look().map_or(Readiness::NotYet, Readiness::NotBefore),
        };
        ReadyFuture::new(&*self.participant, check).await;
    }
}

/// The samples of a reader: see [`DataReader::stream`].
///
/// ```
/// use futures_util::StreamExt;
/// # use dds_api::prelude::*;
/// # #[derive(DdsType, Clone, Debug, Default)]
/// # struct Track { #[dds(key)] id: u32, height: f64 }
///
/// async fn show(reader: &DataReader<Track>) -> DdsResult<()> {
///     let mut tracks = reader.stream();
///     while let Some(track) = tracks.next().await {
///         let track = track?;
///         match track.data() {
///             Some(data) => println!("{} m", data.height),
///             None => println!("{} is over", track.key_value().id),
///         }
///     }
///     Ok(())
/// }
/// ```
pub struct SampleStream<'a, T: TopicData> {
    reader: &'a DataReader<T>,
    waker: Option<Arc<WakerSlot>>,
    is_over: bool,
}

impl<T: TopicData> Stream for SampleStream<'_, T> {
    type Item = DdsResult<Sample<T>>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let reader = self.reader;
        while !self.is_over {
            match reader.take_next(Timeout::NOW) {
                Ok(Some(sample)) => return Poll::Ready(Some(Ok(sample))),
                Ok(None) => {}
                Err(error) if reader.membership().outlasts(&error) => {}
                Err(error) => {
                    self.is_over = true;
                    return Poll::Ready(Some(Err(error)));
                }
            }
            WakerSlot::register(&mut self.waker, &*reader.participant, context.waker());
            let is_over = reader.membership().is_out_for_good() || !reader.is_enabled();
            if !reader.has_samples() && !is_over {
                if let Some(time) = reader.next_look() {
                    reader.participant.alarm(time);
                }
                return Poll::Pending;
            }
        }
        Poll::Ready(None)
    }
}

impl<'a, T: TopicData> SampleStream<'a, T> {
    /// The samples with data alone.
    pub fn data(self) -> DataStream<'a, T> {
        DataStream { samples: self }
    }
}

/// The samples of a reader that have data: see [`SampleStream::data`].
///
/// ```
/// use futures_util::StreamExt;
/// # use dds_api::prelude::*;
/// # #[derive(DdsType, Clone, Debug, Default)]
/// # struct Track { #[dds(key)] id: u32, height: f64 }
///
/// async fn show(reader: &DataReader<Track>) -> DdsResult<()> {
///     let mut tracks = reader.stream().data();
///     while let Some(track) = tracks.next().await {
///         println!("{} m", track?.height);
///     }
///     Ok(())
/// }
/// ```
pub struct DataStream<'a, T: TopicData> {
    samples: SampleStream<'a, T>,
}

impl<T: TopicData> Stream for DataStream<'_, T> {
    type Item = DdsResult<ValidSample<T>>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            match ready!(Pin::new(&mut self.samples).poll_next(context)) {
                None => return Poll::Ready(None),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                Some(Ok(sample)) => {
                    if let Some(valid) = sample.into_data() {
                        return Poll::Ready(Some(Ok(valid)));
                    }
                }
            }
        }
    }
}
