//! The subscriber.

use std::time::{Duration, Instant};

use dds_api::prelude::*;
use serde::{Deserialize, Serialize};

use super::clock;
use super::control::HarnessControl;
use super::payload::{Payload, ReadExtent, WithPayload, for_size};
use super::role::{
    DeliverySettings, LOOK, ParticipantCounts, ReportSink, ResourceMeter, ResourceUse, meet,
    on_large_stack,
};
use super::subscriber_stats::SubscriberStats;
use crate::outcome::Failure;

/// Maximum time that a subscriber waits for the next sample.
pub(super) const SILENCE_LIMIT: Duration = Duration::from_secs(5);
/// Maximum time that a subscriber waits for the first sample.
pub(super) const START_LIMIT: Duration = Duration::from_secs(60);

/// Settings of a subscriber.
#[derive(Clone, Debug)]
pub(crate) struct SubscriberSettings {
    pub(crate) delivery: DeliverySettings,
    pub(crate) size: usize,
    pub(crate) session: String,
    pub(crate) cast: ParticipantCounts,
    pub(crate) index: usize,
    /// Samples of all publishers; `None`: until they leave.
    pub(crate) count: Option<u64>,
    pub(crate) read: ReadExtent,
}

/// Result of a subscriber.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SubscriberResult {
    pub(crate) role: String,
    pub(crate) index: usize,
    pub(crate) received: u64,
    pub(crate) lost: u64,
    pub(crate) disorder: u64,
    pub(crate) corrupt: u64,
    /// CLOCK_MONOTONIC at the first and after the last sample; zero if there was none.
    pub(crate) t_first_ns: u64,
    pub(crate) t_last_ns: u64,
    /// Latency from write to take; `None` if no sample had a stamp.
    pub(crate) p50_ns: Option<u64>,
    pub(crate) p99_ns: Option<u64>,
    pub(crate) latency_samples: u64,
    /// Minimum number of copies of the payload per sample.
    pub(crate) copies: f64,
    /// Size in bytes of the value of a taken sample. If the payload is part of the value, every
    /// move of the value copies the payload, even if the application reads the writer's memory.
    pub(crate) sample_bytes: usize,
    /// Hash of the order in which all samples arrived.
    pub(crate) order: u64,
    pub(crate) used: ResourceUse,
}

impl SubscriberSettings {
    /// Subscribes. `report` receives the result. Nothing is reported if the role must end before
    /// it begins.
    pub(crate) fn run(
        self,
        control: HarnessControl,
        report: impl FnOnce(&SubscriberResult) -> Result<(), Failure> + Send + 'static,
    ) -> Result<(), Failure> {
        let report = Box::new(report);
        on_large_stack(move || {
            for_size(self.size, SubscriberRun { settings: self, control, report })
        })
    }
}

struct SubscriberRun {
    settings: SubscriberSettings,
    control: HarnessControl,
    report: ReportSink<SubscriberResult>,
}

/// Counters beside those of [`SubscriberStats`].
#[derive(Default)]
struct SubscriberCounters {
    copied: u64,
    t_first_ns: u64,
    t_last_ns: u64,
}

impl WithPayload for SubscriberRun {
    type Output = Result<(), Failure>;

    fn with<P: Payload>(self) -> Result<(), Failure> {
        let SubscriberRun { settings, control, report } = self;
        let participant = settings.delivery.join()?;
        let reader =
            settings.delivery.reader::<P>(&participant, &settings.session, settings.size)?;
        if !meet(&control, || reader.wait_for_writers(settings.cast.writers as usize, LOOK))? {
            return Ok(());
        }
        let mut stats = SubscriberStats::new(settings.read);
        control.ready(None)?;
        let meter = ResourceMeter::start(participant.counters());
        let run = take_all(&settings, &control, &reader, &mut stats)?;
        let used = meter.used(participant.counters());
        let latency = |quantile| {
            (!stats.latency.is_empty()).then(|| stats.latency.value_at_quantile(quantile))
        };
        let expected = control.total().or(settings.count);
        let missing = expected.map_or(0, |count| count.saturating_sub(stats.seen()));
        report(&SubscriberResult {
            role: "sub".to_owned(),
            index: settings.index,
            received: stats.received,
            lost: stats.lost.max(missing),
            disorder: stats.disorder,
            corrupt: stats.corrupt,
            t_first_ns: run.t_first_ns,
            t_last_ns: run.t_last_ns,
            p50_ns: latency(0.5),
            p99_ns: latency(0.99),
            latency_samples: stats.latency.len(),
            copies: run.copied as f64 / stats.seen().max(1) as f64,
            sample_bytes: size_of::<ValidSample<P>>(),
            order: stats.order,
            used,
        })?;
        control.wait_for_exit();
        Ok(())
    }
}

/// Whether a taken sample contains the payload itself, so that taking moves all of it.
pub(super) const fn carries_payload<P: Payload>() -> bool {
    /// A payload up to this size is no larger than the references in a sample.
    const SMALL: usize = 64;
    P::PLAIN
        && size_of::<P>() >= SMALL
        && size_of::<ValidSample<P>>() >= size_of::<P>() + size_of::<SampleInfo>()
}

/// Takes samples until there are enough, no writer is left, or the role must end.
fn take_all<P: Payload>(
    settings: &SubscriberSettings,
    control: &HarnessControl,
    reader: &DataReader<P>,
    stats: &mut SubscriberStats<InstanceHandle>,
) -> Result<SubscriberCounters, Failure> {
    let mut run = SubscriberCounters::default();
    let mut quiet: Option<Instant> = None;
    loop {
        let mut any = false;
        for sample in reader.take_data(.., LOOK)? {
            if run.t_first_ns == 0 {
                run.t_first_ns = clock::now();
            }
            any = true;
            run.copied += u64::from(!sample.is_borrowed() || carries_payload::<P>());
            stats.look(sample.bytes(), sample.info().publication_handle);
        }
        if any {
            run.t_last_ns = clock::now();
            quiet = None;
        }
        if control.total().or(settings.count).is_some_and(|count| stats.seen() >= count) {
            return Ok(run);
        }
        if any {
            continue;
        }
        if control.ended() {
            return Ok(run);
        }
        // The samples of the last writer were queued before its departure was counted.
        if reader.matched_writers() == 0 && reader.take_data(.., Timeout::NOW)?.is_empty() {
            return Ok(run);
        }
        let limit = if run.t_first_ns == 0 { START_LIMIT } else { SILENCE_LIMIT };
        if quiet.get_or_insert_with(Instant::now).elapsed() >= limit {
            return Ok(run);
        }
    }
}
