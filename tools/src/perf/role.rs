//! Common parts of all roles: the domain where they meet, and their resource counters.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use dds_api::Ablation;
use dds_api::prelude::*;
use dds_api::qos::{DurabilityServiceQosPolicy, HistoryQosPolicyKind, Length};
use derecho_node::EngineCounters;
use serde::{Deserialize, Serialize};

use super::clock;
use super::control::HarnessControl;
use super::payload::{LARGEST, Payload, SMALLEST};
use crate::allocations;
use crate::outcome::Failure;

/// Maximum time in which roles look for each other.
const MATCH_LIMIT: Duration = Duration::from_secs(60);
/// Interval at which a waiting role checks whether it must end.
pub(crate) const LOOK: Duration = Duration::from_millis(100);
/// Stack size of a role: room for a few samples of the largest plain type.
const STACK: usize = 256 << 20;

/// Default number of MiB that members keep.
pub(crate) const USUAL_KEEP: u32 = 64;

/// Consumer of a role's result.
pub(crate) type ReportSink<T> = Box<dyn FnOnce(&T) -> Result<(), Failure> + Send>;

/// Delivery level of samples.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum PerfLevel {
    /// Reliable, in the order of each writer.
    Unordered,
    /// To all readers or to none, in one order.
    Atomic,
    /// As atomic, and kept in memory for late joiners.
    Kept,
    /// As atomic, and kept in logs.
    Logged,
}

/// Interface to measure: the whole product, or the layer below.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Interface {
    /// Writers and readers of the DDS interface.
    Dds,
    /// The multicast below it, of the crates `derecho-core` and `derecho-node`: bytes without
    /// types, time stamps or entities.
    Core,
}

impl Interface {
    /// Returns the name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Interface::Dds => "dds",
            Interface::Core => "core",
        }
    }
}

/// Transport of samples.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Transport {
    /// Shared memory.
    Shm,
}

impl PerfLevel {
    /// Whether all readers see one order.
    pub(crate) fn is_ordered(self) -> bool {
        self != PerfLevel::Unordered
    }

    /// Whether samples are kept.
    pub(crate) fn is_kept(self) -> bool {
        matches!(self, PerfLevel::Kept | PerfLevel::Logged)
    }

    /// Returns the name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            PerfLevel::Unordered => "unordered",
            PerfLevel::Atomic => "atomic",
            PerfLevel::Kept => "kept",
            PerfLevel::Logged => "logged",
        }
    }
}

impl Transport {
    /// Returns the name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Transport::Shm => "shm",
        }
    }
}

/// Parses the size of a sample.
pub(crate) fn sample_size(text: &str) -> Result<usize, String> {
    let size: usize = text.parse().map_err(|_| format!("`{text}` is no number of bytes"))?;
    if (SMALLEST..=LARGEST).contains(&size) {
        Ok(size)
    } else {
        Err(format!("samples have {SMALLEST} to {LARGEST} bytes"))
    }
}

/// Settings with which every role takes part.
#[derive(Args, Clone, Debug)]
pub(crate) struct RoleSettings {
    /// Bytes of a sample.
    #[arg(long, value_name = "BYTES", value_parser = sample_size)]
    pub(crate) size: usize,
    #[command(flatten)]
    pub(crate) means: DeliverySettings,
}

/// Delivery, transport and resources.
#[derive(Args, Clone, Debug)]
pub(crate) struct DeliverySettings {
    /// Delivery level of samples.
    #[arg(long, value_enum, default_value_t = PerfLevel::Unordered)]
    pub(crate) level: PerfLevel,
    /// Transport of samples.
    #[arg(long, value_enum, default_value_t = Transport::Shm)]
    pub(crate) transport: Transport,
    /// Domain to meet in.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=232))]
    pub(crate) domain: u32,
    /// Microseconds of polling when there is nothing to do (the product's default otherwise).
    #[arg(long, value_name = "MICROS")]
    pub(crate) spin: Option<u64>,
    /// Microseconds to stay awake after that, yielding the processor between polls, before sleeping
    /// (the product's default otherwise).
    #[arg(long, value_name = "MICROS")]
    pub(crate) linger: Option<u64>,
    /// Memory of each writer for samples that are not taken yet (the product's default otherwise).
    #[arg(long, value_name = "BYTES")]
    pub(crate) memory: Option<usize>,
    /// Samples of each writer that may be in flight (the product's default otherwise).
    #[arg(long, value_name = "SAMPLES", value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    pub(crate) in_flight: Option<u32>,
    /// Folder in which every member logs at level logged, each in a folder of its own; the logs are
    /// removed at the end.
    #[arg(long, value_name = "DIR")]
    pub(crate) logs: Option<PathBuf>,
    /// MiB of samples that every member keeps in memory at levels kept and logged.
    #[arg(long, value_name = "MIB", default_value_t = USUAL_KEEP, value_parser = clap::value_parser!(u32).range(1..=16384))]
    pub(crate) keep: u32,
    /// Number of the last samples that every member keeps at levels kept and logged, instead of
    /// `--keep`.
    #[arg(long, value_name = "SAMPLES", value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    pub(crate) keep_last: Option<u32>,
    /// Optimisations to switch off, of an atomic topic, to see the effect of each: send-batching,
    /// receive-batching, delivery-batching, nulls, post-at-end, in-place, activity, or all.
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = ablation)]
    pub(crate) ablate: Vec<String>,
}

/// Numbers of participants that write a topic, and that read it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ParticipantCounts {
    pub(crate) writers: u32,
    pub(crate) readers: u32,
}

impl ParticipantCounts {
    /// Returns one writer, and a number of readers.
    pub(crate) fn one_to(readers: usize) -> ParticipantCounts {
        ParticipantCounts { writers: 1, readers: readers as u32 }
    }
}

/// Parses the name of an optimisation that can be switched off.
fn ablation(text: &str) -> Result<String, String> {
    if text == "all" || Ablation::NAMES.contains(&text) {
        return Ok(text.to_owned());
    }
    Err(format!(
        "`{text}` cannot be switched off; take all or some of {}",
        Ablation::NAMES.join(",")
    ))
}

impl DeliverySettings {
    /// Returns the delivery settings of this level, with the product's defaults otherwise.
    pub(crate) fn of(level: PerfLevel) -> DeliverySettings {
        DeliverySettings {
            level,
            transport: Transport::Shm,
            domain: 0,
            spin: None,
            linger: None,
            memory: None,
            in_flight: None,
            logs: None,
            keep: USUAL_KEEP,
            keep_last: None,
            ablate: Vec::new(),
        }
    }

    /// Returns the arguments for another process.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let mut arguments = vec![
            "--level".to_owned(),
            self.level.name().to_owned(),
            "--transport".to_owned(),
            self.transport.name().to_owned(),
            format!("--domain={}", self.domain),
        ];
        arguments.push(format!("--keep={}", self.keep));
        arguments.extend(self.keep_last.map(|depth| format!("--keep-last={depth}")));
        arguments.extend(self.spin.map(|micros| format!("--spin={micros}")));
        arguments.extend(self.linger.map(|micros| format!("--linger={micros}")));
        arguments.extend(self.memory.map(|bytes| format!("--memory={bytes}")));
        arguments.extend(self.in_flight.map(|samples| format!("--in-flight={samples}")));
        arguments.extend(
            (!self.ablate.is_empty()).then(|| format!("--ablate={}", self.ablate.join(","))),
        );
        arguments
    }

    /// Fails if the product does not offer this combination.
    pub(crate) fn are_offered(&self) -> Result<(), Failure> {
        if self.level == PerfLevel::Unordered && !self.ablate.is_empty() {
            return Err(Failure::Usage(
                "only mechanisms of an atomic topic can be switched off: add --level atomic"
                    .to_owned(),
            ));
        }
        if (self.level == PerfLevel::Logged) != self.logs.is_some() {
            return Err(Failure::Usage(
                "--level logged needs a folder on the disk to measure (--logs DIR); other levels \
                 take no --logs"
                    .to_owned(),
            ));
        }
        Ok(())
    }

    /// Makes a folder for the logs of one run, if it logs, so that earlier logs are no part of it.
    pub(crate) fn fresh_logs(&self) -> Result<Option<tempfile::TempDir>, Failure> {
        let Some(dir) = &self.logs else { return Ok(None) };
        let made = tempfile::Builder::new().prefix("squall-perf-").tempdir_in(dir);
        made.map(Some).map_err(|error| {
            Failure::new(format!("no logs can be kept in `{}`: {error}", dir.display()))
        })
    }

    /// Returns the optimisations that are switched off.
    pub(crate) fn ablation(&self) -> Ablation {
        let mut ablation = Ablation::default();
        for name in &self.ablate {
            match ablation.named(name) {
                Some(off) => *off = true,
                None => return Ablation::all(),
            }
        }
        ablation
    }

    /// Returns the retention: the last samples, or all samples up to a number of bytes.
    fn service(&self, size: usize) -> DurabilityServiceQosPolicy {
        if let Some(depth) = self.keep_last {
            return DurabilityServiceQosPolicy {
                history_kind: HistoryQosPolicyKind::KeepLast,
                history_depth: depth,
                ..DurabilityServiceQosPolicy::default()
            };
        }
        let most = ((self.keep as usize) << 20) / size.max(1);
        DurabilityServiceQosPolicy {
            history_kind: HistoryQosPolicyKind::KeepAll,
            max_samples: Length::new(i32::try_from(most).unwrap_or(i32::MAX))
                .unwrap_or(Length::UNLIMITED),
            ..DurabilityServiceQosPolicy::default()
        }
    }

    fn topic<P: Payload>(
        &self,
        participant: &DomainParticipant,
        name: &str,
        size: usize,
    ) -> Result<Topic<P>, Failure> {
        let mut topic = participant.topic::<P>(name);
        topic = match self.level {
            PerfLevel::Unordered => topic,
            PerfLevel::Atomic => topic.atomic(),
            PerfLevel::Kept => topic.transient_local().durability_service(self.service(size)),
            PerfLevel::Logged => topic.persistent().durability_service(self.service(size)),
        };
        Ok(topic.create()?)
    }

    /// Joins the domain.
    pub(crate) fn join(&self) -> Result<DomainParticipant, Failure> {
        self.are_offered()?;
        let mut config = ParticipantConfig::new().ablation(self.ablation());
        if let Some(micros) = self.spin {
            config = config.spin(Duration::from_micros(micros));
        }
        if let Some(micros) = self.linger {
            config = config.linger(Duration::from_micros(micros));
        }
        if let Some(folder) = &self.logs {
            config = config.log_folder(folder);
        }
        Ok(DomainParticipant::with_config(self.domain, config)?)
    }

    /// Creates a writer of samples of `size` bytes. A write waits only briefly, so that the role
    /// notices when it must end.
    pub(crate) fn writer<P: Payload>(
        &self,
        participant: &DomainParticipant,
        topic: &str,
        size: usize,
    ) -> Result<DataWriter<P>, Failure> {
        let topic = self.topic::<P>(participant, topic, size)?;
        let mut writer = participant.writer(&topic).max_blocking_time(LOOK);
        if let Some(bytes) = self.memory {
            writer = writer.memory(bytes);
        }
        if let Some(samples) = self.in_flight {
            writer = writer.in_flight(samples as usize);
        }
        if !P::PLAIN {
            // Header, length and padding of CDR need less.
            writer = writer.max_sample_size(size + 64);
        }
        Ok(writer.create()?)
    }

    /// Creates a reader.
    pub(crate) fn reader<P: Payload>(
        &self,
        participant: &DomainParticipant,
        topic: &str,
        size: usize,
    ) -> Result<DataReader<P>, Failure> {
        let topic = self.topic::<P>(participant, topic, size)?;
        Ok(participant.reader(&topic).reliable_all().create()?)
    }
}

/// Waits until `wait`, which waits for at most [`LOOK`], has met all other roles. Returns whether
/// to continue.
pub(crate) fn meet(
    control: &HarnessControl,
    mut wait: impl FnMut() -> DdsResult<()>,
) -> Result<bool, Failure> {
    let mut last = None;
    let met = within_match_limit(control, || match wait() {
        Ok(()) => Ok(true),
        Err(error @ DdsError::Timeout(_)) => {
            last = Some(error);
            Ok(false)
        }
        Err(error) => Err(error.into()),
    });
    match (met, last) {
        (Err(_), Some(error)) => Err(error.into()),
        (met, _) => met,
    }
}

/// Waits until `wait`, which waits for at most [`LOOK`], returns true. Returns whether to continue.
pub(crate) fn within_match_limit(
    control: &HarnessControl,
    mut wait: impl FnMut() -> Result<bool, Failure>,
) -> Result<bool, Failure> {
    let deadline = Instant::now() + MATCH_LIMIT;
    while !wait()? {
        if control.ended() {
            return Ok(false);
        }
        if Instant::now() >= deadline {
            return Err(Failure::new(format!(
                "the other roles did not appear within {MATCH_LIMIT:?}"
            )));
        }
    }
    Ok(true)
}

/// Runs a role on a thread whose stack has room for the largest samples.
pub(crate) fn on_large_stack<T: Send + 'static>(
    role: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let thread = std::thread::Builder::new()
        .name("squall-role".to_owned())
        .stack_size(STACK)
        .spawn(role)
        .map_err(|error| Failure::new(format!("no thread can be started: {error}")))?;
    thread.join().unwrap_or_else(|_| Err(Failure::new("the role failed; its message is above")))
}

/// Resources that a process used between two moments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct ResourceUse {
    /// Seconds of processor time, over all threads.
    pub(crate) cpu_s: f64,
    /// Number of allocations.
    pub(crate) allocs: u64,
    /// Turns of the engine.
    pub(crate) turns: u64,
    /// Turns that found work.
    pub(crate) busy_turns: u64,
    /// Times that the driving thread went to sleep.
    pub(crate) parks: u64,
    /// Times that the driver thread left the driving to application threads.
    pub(crate) handed_over: u64,
    /// Times that the driver thread took the driving back.
    pub(crate) taken_over: u64,
}

/// Resources that a process had used at one moment.
pub(crate) struct ResourceMeter {
    cpu: u64,
    start: ResourceUse,
}

impl ResourceMeter {
    /// Starts counting.
    pub(crate) fn start(counters: &EngineCounters) -> ResourceMeter {
        ResourceMeter { cpu: clock::cpu(), start: so_far(counters) }
    }

    /// Returns the resources used since the start, by the engine of the same counters.
    pub(crate) fn used(&self, counters: &EngineCounters) -> ResourceUse {
        let (now, start) = (so_far(counters), &self.start);
        ResourceUse {
            cpu_s: clock::secs(clock::cpu() - self.cpu),
            allocs: now.allocs - start.allocs,
            turns: now.turns - start.turns,
            busy_turns: now.busy_turns - start.busy_turns,
            parks: now.parks - start.parks,
            handed_over: now.handed_over - start.handed_over,
            taken_over: now.taken_over - start.taken_over,
        }
    }
}

fn so_far(counters: &EngineCounters) -> ResourceUse {
    ResourceUse {
        cpu_s: 0.0,
        allocs: allocations::count(),
        turns: counters.turns(),
        busy_turns: counters.busy_turns(),
        parks: counters.parks(),
        handed_over: counters.handed_over(),
        taken_over: counters.taken_over(),
    }
}
