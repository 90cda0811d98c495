//! One process of a topic that may write it, read it, or both, from one thread.
//!
//! Owns: the loop that writes while there is room and takes in between, and its report. Never does:
//! know the interface through which samples go; the [`TopicAccess`] does.
//!
//! ```text
//!   to the harness      READY   result as writer, if it writes   result as reader, if it reads
//!   from the harness          GO                             TOTAL                         EXIT
//! ```

mod core;
mod dds;
mod table;
pub(super) mod trial;

use std::hash::Hash;
use std::time::Instant;

use clap::Args;
use derecho_node::EngineCounters;
use serde::Serialize;

use super::clock;
use super::control::HarnessControl;
use super::payload::{ReadExtent, WithPayload, for_size};
use super::publish::{PublishLimit, PublisherResult, STALL_LIMIT};
use super::role::{
    Interface, ParticipantCounts, ResourceMeter, ResourceUse, RoleSettings, on_large_stack,
};
use super::subscribe::{SILENCE_LIMIT, START_LIMIT, SubscriberResult};
use super::subscriber_stats::SubscriberStats;
use super::throughput::{WriteMethodArgs, seconds};
use crate::outcome::{CommandAnswer, CommandResult, Failure, say};

/// Samples written before the next take.
const BURST: u64 = 64;

/// One process of a topic; the harness starts it.
#[derive(Args, Clone, Debug)]
pub(crate) struct MemberArgs {
    #[command(flatten)]
    pub(super) part: RoleSettings,
    /// Interface to measure.
    #[arg(long, value_enum, default_value_t = Interface::Dds)]
    pub(super) interface: Interface,
    /// Number of this process.
    #[arg(long)]
    pub(super) index: usize,
    /// Number of processes.
    #[arg(long)]
    pub(super) processes: usize,
    /// Number of processes that write.
    #[arg(long)]
    pub(super) writers: u32,
    /// Number of processes that read.
    #[arg(long)]
    pub(super) readers: u32,
    /// Whether this process writes.
    #[arg(long)]
    pub(super) writes: bool,
    /// Whether this process reads.
    #[arg(long)]
    pub(super) reads: bool,
    /// Samples that each writer writes.
    #[arg(long, conflicts_with = "seconds")]
    pub(super) count: Option<u64>,
    /// Seconds of writing.
    #[arg(long, value_parser = seconds)]
    pub(super) seconds: Option<f64>,
    /// Bytes that readers check.
    #[arg(long, value_enum, default_value_t = ReadExtent::Whole)]
    pub(super) read: ReadExtent,
    #[command(flatten)]
    pub(super) manner: WriteMethodArgs,
}

impl MemberArgs {
    fn counts(&self) -> ParticipantCounts {
        ParticipantCounts { writers: self.writers, readers: self.readers }
    }

    fn amount(&self) -> PublishLimit {
        match (self.count, self.seconds) {
            (Some(count), _) => PublishLimit::Count(count),
            (None, seconds) => PublishLimit::Seconds(seconds.unwrap_or(1.0)),
        }
    }
}

/// A process's access to the measured topic.
trait TopicAccess {
    /// Identifier of a writer, equal in all processes.
    type Writer: Copy + PartialEq + Hash;

    /// Waits until all processes are present. Returns whether to continue.
    fn meet(&self, control: &HarnessControl) -> Result<bool, Failure>;
    /// Returns the counters of the engine.
    fn counters(&self) -> &EngineCounters;
    /// Writes samples, numbered from `first`, while there is room and at most `most`. Returns
    /// their number.
    fn write(&mut self, first: u64, most: u64) -> Result<u64, Failure>;
    /// Takes the available samples. Returns their number.
    fn take(&mut self, stats: &mut SubscriberStats<Self::Writer>) -> Result<u64, Failure>;
    /// Waits briefly, until there is something to take or, if `writing`, room.
    fn wait(&self, writing: bool) -> Result<(), Failure>;
    /// Returns the number of copies of each written sample, and of all taken samples.
    fn copies(&self) -> (f64, u64);
    /// Returns the size in bytes of the value of a taken sample.
    fn sample_bytes(&self) -> usize;
}

/// Runs the role.
pub(crate) fn run(args: MemberArgs) -> CommandResult {
    on_large_stack(move || match args.interface {
        Interface::Dds => for_size(args.part.size, DdsMember(args)),
        Interface::Core => {
            let mut access = core::CoreAccess::join(&args, None)?;
            play(&args, &HarnessControl::new(true), &mut access)
        }
    })?;
    Ok(CommandAnswer::Yes)
}

struct DdsMember(MemberArgs);

impl WithPayload for DdsMember {
    type Output = Result<(), Failure>;

    fn with<P: super::payload::Payload>(self) -> Result<(), Failure> {
        let control = HarnessControl::new(true);
        let mut access = dds::DdsAccess::<P>::join(&self.0)?;
        play(&self.0, &control, &mut access)
    }
}

fn play<S: TopicAccess>(
    args: &MemberArgs,
    control: &HarnessControl,
    access: &mut S,
) -> Result<(), Failure> {
    if !access.meet(control)? || !control.ready(Some("GO"))? {
        return Ok(());
    }
    let mut stats = SubscriberStats::new(args.read);
    let meter = ResourceMeter::start(access.counters());
    let times = work(args, control, access, &mut stats)?;
    let used = meter.used(access.counters());
    if args.reads && !control.ended() {
        tell(&seen(args, control, access, &stats, times, used))?;
    }
    control.wait_for_exit();
    Ok(())
}

fn tell(result: &impl Serialize) -> Result<(), Failure> {
    say(&serde_json::to_string(result).map_err(|error| Failure::new(error.to_string()))?)
}

/// Times of the first and the last taken sample; 0 if none was taken.
#[derive(Clone, Copy, Default)]
struct FirstAndLast {
    first_ns: u64,
    last_ns: u64,
}

/// Writes and takes until all is done or the process must end.
fn work<S: TopicAccess>(
    args: &MemberArgs,
    control: &HarnessControl,
    access: &mut S,
    stats: &mut SubscriberStats<S::Writer>,
) -> Result<FirstAndLast, Failure> {
    let t_start_ns = clock::now();
    let (count, deadline) = match args.amount() {
        PublishLimit::Count(count) => (count, u64::MAX),
        PublishLimit::Seconds(seconds) => (u64::MAX, t_start_ns + (seconds * 1e9) as u64),
    };
    let all = args.count.map(|count| count * u64::from(args.writers));
    let (mut times, mut sent, mut writing) = (FirstAndLast::default(), 0, args.writes);
    let mut quiet: Option<Instant> = None;
    loop {
        let mut done = 0;
        if writing && (sent == count || clock::now() >= deadline) {
            writing = false;
            let (role, t_end_ns, copies) = ("pub".to_owned(), clock::now(), access.copies().0);
            // If the process also reads, its report as a reader has its resource use.
            let used = ResourceUse::default();
            tell(&PublisherResult { role, sent, t_start_ns, t_end_ns, copies, used })?;
        }
        if writing {
            let written = access.write(sent, BURST.min(count - sent))?;
            sent += written;
            done += written;
        }
        if args.reads {
            let taken = access.take(stats)?;
            if taken > 0 {
                times.last_ns = clock::now();
                if times.first_ns == 0 {
                    times.first_ns = times.last_ns;
                }
            }
            done += taken;
        }
        let enough = control.total().or(all).is_some_and(|all| stats.seen() >= all);
        if !writing && (enough || !args.reads) {
            return Ok(times);
        }
        if done > 0 {
            quiet = None;
            continue;
        }
        if control.ended() {
            return Ok(times);
        }
        let quiet = quiet.get_or_insert_with(Instant::now).elapsed();
        if writing && quiet >= STALL_LIMIT {
            return Err(Failure::new(format!("no reader made room for {STALL_LIMIT:?}")));
        }
        let limit = if times.first_ns == 0 { START_LIMIT } else { SILENCE_LIMIT };
        if !writing && quiet >= limit {
            return Ok(times);
        }
        access.wait(writing)?;
    }
}

fn seen<S: TopicAccess>(
    args: &MemberArgs,
    control: &HarnessControl,
    access: &S,
    track: &SubscriberStats<S::Writer>,
    times: FirstAndLast,
    used: ResourceUse,
) -> SubscriberResult {
    let all = args.count.map(|count| count * u64::from(args.writers));
    let missing = control.total().or(all).map_or(0, |all| all.saturating_sub(track.seen()));
    let latency =
        |quantile| (!track.latency.is_empty()).then(|| track.latency.value_at_quantile(quantile));
    SubscriberResult {
        role: "sub".to_owned(),
        index: args.index,
        received: track.received,
        lost: track.lost.max(missing),
        disorder: track.disorder,
        corrupt: track.corrupt,
        t_first_ns: times.first_ns,
        t_last_ns: times.last_ns,
        p50_ns: latency(0.5),
        p99_ns: latency(0.99),
        latency_samples: track.latency.len(),
        copies: access.copies().1 as f64 / track.seen().max(1) as f64,
        sample_bytes: access.sample_bytes(),
        order: track.order,
        used,
    }
}
