//! The writer's blocking calls as futures for any runtime.
//!
//! The futures have no time-out, not even max_blocking_time. To stop waiting, drop the future, as
//! the time-outs of runtimes do.

use idl_xtypes::TopicData;

use super::DataWriter;
use crate::infrastructure::{DdsError, DdsResult, Readiness, ReadyFuture, Timeout};
use crate::publication::{ByteLoan, Loan};
use crate::topic::Bytes;

impl<T: TopicData> DataWriter<T> {
    /// As [`DataWriter::write`], but waits without a limit for room.
    pub async fn write_async(&self, sample: &T) -> DdsResult<()> {
        let membership = &self.participant.membership;
        loop {
            match self.write_within(sample, None, Timeout::NOW) {
                Err(error) if membership.outlasts(&error) => {}
                result => return result,
            }
            self.until(|| self.has_room_for(sample)).await;
        }
    }

    /// As [`DataWriter::loan`], but waits without a limit for room.
    pub async fn loan_async(&self) -> DdsResult<Loan<'_, T>>
    where
        T: Default,
    {
        let membership = &self.participant.membership;
        loop {
            match self.loan_within(Timeout::NOW) {
                Err(error) if membership.outlasts(&error) => {}
                result => return result,
            }
            self.until(|| self.has_room(self.room_for_one())).await;
        }
    }

    /// As [`DataWriter::wait_for_readers`].
    pub async fn wait_for_readers_async(&self, count: usize) -> DdsResult<()> {
        let membership = &self.participant.membership;
        loop {
            self.until(|| self.matched_readers() >= count && !membership.is_out()).await;
            match self.wait_for_readers(count, Timeout::NOW) {
                Err(error) if membership.outlasts(&error) => {}
                result => return result,
            }
        }
    }

    /// As [`DataWriter::wait_for_acknowledgments`].
    pub async fn wait_for_acknowledgments_async(&self) -> DdsResult<()> {
        let engine = &self.participant.engine;
        loop {
            let turns = engine.counters().busy_turns();
            match self.wait_for_acknowledgments(Timeout::NOW) {
                Err(DdsError::Timeout(_)) => {}
                result => return result,
            }
            self.until(|| engine.counters().busy_turns() != turns).await;
        }
    }

    /// Waits until `ready`, or until it can never become true: the participant is out for good, or
    /// the writer deleted.
    async fn until(&self, mut ready: impl FnMut() -> bool + Unpin) {
        let membership = &self.participant.membership;
        let _wanted = self.participant.want_hints();
        ReadyFuture::new(&*self.participant, || {
            Readiness::from(ready() || membership.is_out_for_good() || !self.is_enabled())
        })
        .await;
    }
}

impl DataWriter<Bytes> {
    /// As [`DataWriter::loan_bytes`], but waits without a limit for room.
    pub async fn loan_bytes_async(&self, length: usize) -> DdsResult<ByteLoan<'_>> {
        let membership = &self.participant.membership;
        loop {
            match self.loan_bytes_within(length, Some(Timeout::NOW)) {
                Err(error) if membership.outlasts(&error) => {}
                result => {
                    let mut loan = result?;
                    loan.fill(0);
                    return Ok(loan);
                }
            }
            let size = self.room_for_bytes(length)?;
            self.until(|| self.has_room(size)).await;
        }
    }
}
