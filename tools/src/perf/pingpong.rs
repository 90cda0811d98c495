//! Ping and pong: one sample back and forth.

use std::time::{Duration, Instant};

use dds_api::prelude::*;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::clock;
use super::control::HarnessControl;
use super::payload::{Payload, ReadExtent, WithPayload, check, fill, for_size};
use super::role::{
    DeliverySettings, LOOK, ReportSink, ResourceMeter, ResourceUse, meet, on_large_stack,
};
use super::subscriber_stats::nanos_histogram;
use crate::outcome::Failure;

/// Maximum time for an answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);
/// Maximum time that pong waits for a sample.
const IDLE_LIMIT: Duration = Duration::from_secs(60);

/// Settings of ping or pong.
#[derive(Clone, Debug)]
pub(crate) struct PingPongSettings {
    pub(crate) delivery: DeliverySettings,
    pub(crate) size: usize,
    pub(crate) session: String,
    pub(crate) rounds: u64,
}

/// One-way times in nanoseconds: half a round trip.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct OneWayTimes {
    pub(crate) p50_ns: u64,
    pub(crate) p90_ns: u64,
    pub(crate) p99_ns: u64,
    pub(crate) p999_ns: u64,
    pub(crate) p9999_ns: u64,
    pub(crate) min_ns: u64,
    pub(crate) max_ns: u64,
    pub(crate) mean_ns: f64,
}

impl OneWayTimes {
    /// Makes the summary of these times.
    pub(crate) fn of(histogram: &Histogram<u64>) -> OneWayTimes {
        let at = |quantile| histogram.value_at_quantile(quantile);
        OneWayTimes {
            p50_ns: at(0.5),
            p90_ns: at(0.9),
            p99_ns: at(0.99),
            p999_ns: at(0.999),
            p9999_ns: at(0.9999),
            min_ns: histogram.min(),
            max_ns: histogram.max(),
            mean_ns: histogram.mean(),
        }
    }
}

/// Result of ping.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct PingResult {
    pub(crate) role: String,
    pub(crate) count: u64,
    #[serde(flatten)]
    pub(crate) one_way: OneWayTimes,
    pub(crate) used: ResourceUse,
}

/// Result of pong.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct PongResult {
    pub(crate) role: String,
    pub(crate) answered: u64,
    pub(crate) used: ResourceUse,
}

/// Writer and reader of one side.
type EndpointPair<P> = (DataWriter<P>, DataReader<P>);

impl PingPongSettings {
    /// Returns the number of round trips before those that count.
    fn warm_up(&self) -> u64 {
        self.rounds / 10
    }

    /// Sends, and waits for the answers.
    pub(crate) fn ping(
        self,
        control: HarnessControl,
        report: impl FnOnce(&PingResult) -> Result<(), Failure> + Send + 'static,
    ) -> Result<(), Failure> {
        let report = Box::new(report);
        on_large_stack(move || for_size(self.size, Ping { settings: self, control, report }))
    }

    /// Answers.
    pub(crate) fn pong(
        self,
        control: HarnessControl,
        report: impl FnOnce(&PongResult) -> Result<(), Failure> + Send + 'static,
    ) -> Result<(), Failure> {
        let report = Box::new(report);
        on_large_stack(move || for_size(self.size, Pong { settings: self, control, report }))
    }

    /// Creates the writer and the reader of this side, and waits until they are matched. `None` if
    /// the role must end.
    fn meet<P: Payload>(
        &self,
        participant: &DomainParticipant,
        control: &HarnessControl,
        [writes, reads]: [&str; 2],
    ) -> Result<Option<EndpointPair<P>>, Failure> {
        let topic = |way: &str| format!("{} {way}", self.session);
        let writer = self.delivery.writer::<P>(participant, &topic(writes), self.size)?;
        let reader = self.delivery.reader::<P>(participant, &topic(reads), self.size)?;
        let met = meet(control, || writer.wait_for_readers(1, LOOK))?
            && meet(control, || reader.wait_for_writers(1, LOOK))?;
        Ok(met.then_some((writer, reader)))
    }
}

/// Writes one sample, built in the readers' view if its type is plain.
#[inline]
fn send<P: Payload>(writer: &DataWriter<P>, spare: &mut P, index: u64) -> DdsResult<()> {
    if P::PLAIN {
        let mut loan = P::loan(writer)?;
        fill(loan.bytes_mut(), index, 0);
        loan.publish()
    } else {
        fill(spare.bytes_mut(), index, 0);
        writer.write(spare)
    }
}

struct Ping {
    settings: PingPongSettings,
    control: HarnessControl,
    report: ReportSink<PingResult>,
}

impl WithPayload for Ping {
    type Output = Result<(), Failure>;

    fn with<P: Payload>(self) -> Result<(), Failure> {
        let Ping { settings, control, report } = self;
        let participant = settings.delivery.join()?;
        let Some((writer, reader)) =
            settings.meet::<P>(&participant, &control, ["ping", "pong"])?
        else {
            return Ok(());
        };
        if !control.ready(Some("GO"))? {
            return Ok(());
        }
        let mut spare = Box::<P>::default();
        spare.resize(settings.size);
        let mut times = nanos_histogram();
        let mut meter = ResourceMeter::start(participant.counters());
        let warm_up = settings.warm_up();
        for index in 0..warm_up + settings.rounds {
            if index == warm_up {
                meter = ResourceMeter::start(participant.counters());
            }
            let start = clock::now();
            send(&writer, &mut spare, index)?;
            let Some(sample) = await_answer(&reader, &control)? else { return Ok(()) };
            let end = clock::now();
            if check(sample.bytes(), ReadExtent::Ends).map(|(index, _)| index) != Some(index) {
                return Err(Failure::new(format!(
                    "the answer to sample {index} is of another sample"
                )));
            }
            if index >= warm_up {
                times.saturating_record((end - start) / 2);
            }
        }
        let (role, count, used) =
            ("ping".to_owned(), settings.rounds, meter.used(participant.counters()));
        report(&PingResult { role, count, one_way: OneWayTimes::of(&times), used })?;
        control.wait_for_exit();
        Ok(())
    }
}

/// Returns the next answer; `None` if the role must end.
#[inline]
fn await_answer<P: Payload>(
    reader: &DataReader<P>,
    control: &HarnessControl,
) -> Result<Option<ValidSample<P>>, Failure> {
    if let Some(sample) = reader.take_next_data(LOOK)? {
        return Ok(Some(sample));
    }
    let started = Instant::now();
    while started.elapsed() < ANSWER_LIMIT {
        if let Some(sample) = reader.take_next_data(LOOK)? {
            return Ok(Some(sample));
        }
        if control.ended() {
            return Ok(None);
        }
    }
    Err(Failure::new(format!("no answer came within {ANSWER_LIMIT:?}: is the other side alive?")))
}

struct Pong {
    settings: PingPongSettings,
    control: HarnessControl,
    report: ReportSink<PongResult>,
}

impl WithPayload for Pong {
    type Output = Result<(), Failure>;

    fn with<P: Payload>(self) -> Result<(), Failure> {
        let Pong { settings, control, report } = self;
        let participant = settings.delivery.join()?;
        let Some((writer, reader)) =
            settings.meet::<P>(&participant, &control, ["pong", "ping"])?
        else {
            return Ok(());
        };
        control.ready(None)?;
        let mut spare = Box::<P>::default();
        spare.resize(settings.size);
        let meter = ResourceMeter::start(participant.counters());
        let (mut answered, all) = (0, settings.warm_up() + settings.rounds);
        let mut idle: Option<Instant> = None;
        while answered < all && !control.ended() {
            let Some(sample) = reader.take_next_data(LOOK)? else {
                let waited = idle.get_or_insert_with(Instant::now).elapsed();
                if reader.matched_writers() == 0 || waited >= IDLE_LIMIT {
                    break;
                }
                continue;
            };
            idle = None;
            let Some((index, _)) = check(sample.bytes(), ReadExtent::Ends) else {
                return Err(Failure::new("a sample came with wrong content"));
            };
            drop(sample);
            send(&writer, &mut spare, index)?;
            answered += 1;
        }
        let (role, used) = ("pong".to_owned(), meter.used(participant.counters()));
        report(&PongResult { role, answered, used })?;
        control.wait_for_exit();
        if !control.is_harnessed() {
            writer.wait_for_acknowledgments(ANSWER_LIMIT)?;
        }
        Ok(())
    }
}
