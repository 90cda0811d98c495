//! The publisher.

use std::time::{Duration, Instant};

use dds_api::prelude::*;
use serde::{Deserialize, Serialize};

use super::clock;
use super::control::HarnessControl;
use super::payload::{Payload, WithPayload, fill, for_size, has_stamp};
use super::role::{
    DeliverySettings, LOOK, ParticipantCounts, ReportSink, ResourceMeter, ResourceUse, meet,
    on_large_stack,
};
use crate::outcome::Failure;

/// Maximum time for which a write may find no room before the publisher gives up.
pub(super) const STALL_LIMIT: Duration = Duration::from_secs(10);
/// Minimum size of samples that are all stamped. Of smaller ones, one in [`STAMP_EVERY`] is
/// stamped, because reading the clock for each would cost as much as sending it.
const STAMP_ALL_FROM: usize = 64 << 10;
/// Number of samples per stamp, see [`STAMP_ALL_FROM`].
pub(super) const STAMP_EVERY: u64 = 64;

/// Way in which samples get into the writer's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WriteMethod {
    /// Built where readers read them. A type that is not plain is built on the heap.
    Loan,
    /// Built in the application's memory, and copied by the write.
    Copy,
}

/// Amount after which the publisher stops.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum PublishLimit {
    /// Number of samples.
    Count(u64),
    /// Number of seconds.
    Seconds(f64),
}

/// Settings of a publisher.
#[derive(Clone, Debug)]
pub(crate) struct PublisherSettings {
    pub(crate) delivery: DeliverySettings,
    pub(crate) size: usize,
    pub(crate) session: String,
    pub(crate) cast: ParticipantCounts,
    pub(crate) amount: PublishLimit,
    pub(crate) method: WriteMethod,
    pub(crate) stamps: bool,
}

/// Result of a publisher.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct PublisherResult {
    pub(crate) role: String,
    pub(crate) sent: u64,
    /// CLOCK_MONOTONIC before the first write.
    pub(crate) t_start_ns: u64,
    /// CLOCK_MONOTONIC after the last write.
    pub(crate) t_end_ns: u64,
    /// Copies of the payload per sample.
    pub(crate) copies: f64,
    pub(crate) used: ResourceUse,
}

impl PublisherSettings {
    /// Publishes. `report` receives the result while the writer still exists; readers may still be
    /// reading. Nothing is reported if the role must end before it begins.
    pub(crate) fn run(
        self,
        control: HarnessControl,
        report: impl FnOnce(&PublisherResult) -> Result<(), Failure> + Send + 'static,
    ) -> Result<(), Failure> {
        let report = Box::new(report);
        on_large_stack(move || {
            for_size(self.size, PublisherRun { settings: self, control, report })
        })
    }
}

struct PublisherRun {
    settings: PublisherSettings,
    control: HarnessControl,
    report: ReportSink<PublisherResult>,
}

impl WithPayload for PublisherRun {
    type Output = Result<(), Failure>;

    fn with<P: Payload>(self) -> Result<(), Failure> {
        let PublisherRun { settings, control, report } = self;
        let participant = settings.delivery.join()?;
        let writer =
            settings.delivery.writer::<P>(&participant, &settings.session, settings.size)?;
        if !meet(&control, || writer.wait_for_readers(settings.cast.readers as usize, LOOK))?
            || !control.ready(Some("GO"))?
        {
            return Ok(());
        }
        let mut sample = Box::<P>::default();
        sample.resize(settings.size);
        let meter = ResourceMeter::start(participant.counters());
        let t_start_ns = clock::now();
        let sent = match settings.method {
            WriteMethod::Loan => write_all(&settings, &control, |index, stamp| {
                let mut loan = P::loan(&writer)?;
                loan.resize(settings.size);
                fill(loan.bytes_mut(), index, stamp);
                loan.publish()
            }),
            WriteMethod::Copy => write_all(&settings, &control, |index, stamp| {
                fill(sample.bytes_mut(), index, stamp);
                writer.write(&sample)
            }),
        }?;
        let t_end_ns = clock::now();
        let used = meter.used(participant.counters());
        let copies = if P::PLAIN && settings.method == WriteMethod::Loan { 0.0 } else { 1.0 };
        let role = "pub".to_owned();
        // The reader of the report may end this process, so all samples must be
        // acknowledged before.
        writer.wait_for_acknowledgments(STALL_LIMIT)?;
        report(&PublisherResult { role, sent, t_start_ns, t_end_ns, copies, used })?;
        control.wait_for_exit();
        Ok(())
    }
}

/// Returns the number of samples of this size per read of the clock.
pub(super) fn stamp_every(size: usize) -> u64 {
    if size >= STAMP_ALL_FROM { 1 } else { STAMP_EVERY }
}

/// Writes samples until there are enough, or the role must end. Returns their number.
fn write_all(
    settings: &PublisherSettings,
    control: &HarnessControl,
    mut write: impl FnMut(u64, u64) -> DdsResult<()>,
) -> Result<u64, Failure> {
    let (count, deadline) = match settings.amount {
        PublishLimit::Count(count) => (count, u64::MAX),
        PublishLimit::Seconds(seconds) => (u64::MAX, clock::now() + (seconds * 1e9) as u64),
    };
    let stamped = settings.stamps && has_stamp(settings.size);
    let every = stamp_every(settings.size);
    let mut index = 0;
    while index < count && !control.ended() {
        let looks = index % every == 0;
        let now = if looks && (stamped || deadline != u64::MAX) { clock::now() } else { 0 };
        if now >= deadline {
            break;
        }
        let stamp = if stamped { now } else { 0 };
        let mut stalled: Option<Instant> = None;
        loop {
            match write(index, stamp) {
                Ok(()) => break,
                // The write found no room within its maximum blocking time.
                Err(DdsError::Timeout(_)) if control.ended() => return Ok(index),
                Err(DdsError::Timeout(_))
                    if stalled.get_or_insert_with(Instant::now).elapsed() < STALL_LIMIT => {}
                Err(error) => return Err(error.into()),
            }
        }
        index += 1;
    }
    Ok(index)
}
