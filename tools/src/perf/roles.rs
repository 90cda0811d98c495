//! `squall perf pub|sub|ping|pong`: one role, started by a person or by the harness.

use clap::Args;
use serde::Serialize;

use super::control::HarnessControl;
use super::payload::ReadExtent;
use super::pingpong::{PingPongSettings, PingResult, PongResult};
use super::publish::{PublishLimit, PublisherResult, PublisherSettings};
use super::role::{ParticipantCounts, RoleSettings};
use super::subscribe::{SubscriberResult, SubscriberSettings};
use super::throughput::{WriteMethodArgs, seconds};
use crate::outcome::{CommandAnswer, CommandResult, Failure, say, show};

/// Default number of samples that a publisher writes, or of round trips that ping makes.
const USUAL_COUNT: u64 = 100_000;

/// Arguments of every role.
#[derive(Args, Debug)]
struct RoleArgs {
    #[command(flatten)]
    part: RoleSettings,
    /// Name under which the roles of one measurement meet.
    #[arg(long, default_value = "perf")]
    session: String,
    /// Speak the measuring protocol: READY, GO, the result, EXIT.
    #[arg(long, hide = true)]
    harness: bool,
}

/// Publish, and report the rate.
#[derive(Args, Debug)]
#[command(after_help = "Example, in two terminals:\n  \
    squall perf sub --size 128\n  squall perf pub --size 128 --count 1000000")]
pub(crate) struct PubArgs {
    #[command(flatten)]
    role: RoleArgs,
    /// Begin when this many subscribers are present.
    #[arg(long, default_value_t = 1)]
    subs: usize,
    /// Number of publishers; all roles must agree on it if the level is atomic.
    #[arg(long, default_value_t = 1)]
    pubs: usize,
    /// Samples to write [default: 100000].
    #[arg(long, conflicts_with = "seconds")]
    count: Option<u64>,
    /// Seconds of writing.
    #[arg(long, value_parser = seconds)]
    seconds: Option<f64>,
    #[command(flatten)]
    manner: WriteMethodArgs,
}

/// Subscribe, and report the rate and errors of samples.
#[derive(Args, Debug)]
#[command(after_help = "Example, in two terminals:\n  \
    squall perf sub --size 128\n  squall perf pub --size 128 --count 1000000")]
pub(crate) struct SubArgs {
    #[command(flatten)]
    role: RoleArgs,
    /// Begin when this many publishers are present.
    #[arg(long, default_value_t = 1)]
    pubs: usize,
    /// Number of subscribers; all roles must agree on it if the level is atomic.
    #[arg(long, default_value_t = 1)]
    subs: usize,
    /// Samples of all publishers together [default: until they leave].
    #[arg(long)]
    count: Option<u64>,
    /// Number of this subscriber, for the report.
    #[arg(long, default_value_t = 0)]
    index: usize,
    /// Bytes to check.
    #[arg(long, value_enum, default_value_t = ReadExtent::Whole)]
    read: ReadExtent,
}

/// Send to pong, wait for the answer, and report the one-way time.
#[derive(Args, Debug)]
#[command(after_help = "Example, in two terminals:\n  \
    squall perf pong --size 128\n  squall perf ping --size 128")]
pub(crate) struct PingArgs {
    #[command(flatten)]
    role: RoleArgs,
    /// Round trips that count; a tenth as many come before them.
    #[arg(long, default_value_t = USUAL_COUNT, value_parser = clap::value_parser!(u64).range(1..))]
    count: u64,
}

/// Answer ping until it leaves.
#[derive(Args, Debug)]
#[command(after_help = "Example, in two terminals:\n  \
    squall perf pong --size 128\n  squall perf ping --size 128")]
pub(crate) struct PongArgs {
    #[command(flatten)]
    role: RoleArgs,
    /// Round trips that ping counts [default: until it leaves].
    #[arg(long)]
    count: Option<u64>,
}

/// Publishes.
pub(crate) fn publish(args: PubArgs, json: bool) -> CommandResult {
    let PubArgs { role, subs, pubs, count, seconds, manner: method } = args;
    let amount = match (count, seconds) {
        (_, Some(seconds)) => PublishLimit::Seconds(seconds),
        (count, None) => PublishLimit::Count(count.unwrap_or(USUAL_COUNT)),
    };
    let size = role.part.size;
    let settings = PublisherSettings {
        delivery: role.part.means,
        size,
        session: role.session,
        cast: ParticipantCounts { writers: pubs as u32, readers: subs as u32 },
        amount,
        method: method.manner(size),
        stamps: true,
    };
    let harness = role.harness;
    settings.run(HarnessControl::new(harness), move |done| {
        tell(harness, json, done, |done: &PublisherResult| {
            let seconds = done.t_end_ns.saturating_sub(done.t_start_ns).max(1) as f64 / 1e9;
            format!(
                "sent {} samples of {size} bytes in {seconds:.3} s: {:.0} a second",
                done.sent,
                done.sent as f64 / seconds
            )
        })
    })?;
    Ok(CommandAnswer::Yes)
}

/// Subscribes.
pub(crate) fn subscribe(args: SubArgs, json: bool) -> CommandResult {
    let SubArgs { role, pubs, subs, count, index, read } = args;
    let size = role.part.size;
    let cast = ParticipantCounts { writers: pubs as u32, readers: subs as u32 };
    let (delivery, session) = (role.part.means, role.session);
    let settings = SubscriberSettings { delivery, size, session, cast, index, count, read };
    let harness = role.harness;
    let (verdict, found) = std::sync::mpsc::channel();
    settings.run(HarnessControl::new(harness), move |seen| {
        let _ = verdict.send(seen.lost + seen.disorder + seen.corrupt == 0);
        tell(harness, json, seen, |seen: &SubscriberResult| {
            let seconds = seen.t_last_ns.saturating_sub(seen.t_first_ns).max(1) as f64 / 1e9;
            format!(
                "received {} samples of {size} bytes in {seconds:.3} s: {:.0} a second\n\
                 lost {}, reordered {}, corrupt {}",
                seen.received,
                seen.received as f64 / seconds,
                seen.lost,
                seen.disorder,
                seen.corrupt
            )
        })
    })?;
    // Under a harness, the harness judges.
    let clean = harness || found.try_recv().unwrap_or(true);
    Ok(if clean { CommandAnswer::Yes } else { CommandAnswer::No })
}

/// Pings.
pub(crate) fn ping(args: PingArgs, json: bool) -> CommandResult {
    let harness = args.role.harness;
    order(args.role, args.count).ping(HarnessControl::new(harness), move |found| {
        tell(harness, json, found, |found: &PingResult| {
            let OneWayMicros { p50, p99, p999, max } = OneWayMicros::of(found);
            format!(
                "{} round trips; one way in microseconds: p50 {p50:.2}, p99 {p99:.2}, \
                 p99.9 {p999:.2}, max {max:.2}",
                found.count
            )
        })
    })?;
    Ok(CommandAnswer::Yes)
}

/// Pongs.
pub(crate) fn pong(args: PongArgs, json: bool) -> CommandResult {
    let harness = args.role.harness;
    let count = args.count.unwrap_or(u64::MAX / 2);
    order(args.role, count).pong(HarnessControl::new(harness), move |done| {
        tell(harness, json, done, |done: &PongResult| format!("answered {} times", done.answered))
    })?;
    Ok(CommandAnswer::Yes)
}

fn order(role: RoleArgs, rounds: u64) -> PingPongSettings {
    PingPongSettings {
        size: role.part.size,
        delivery: role.part.means,
        session: role.session,
        rounds,
    }
}

struct OneWayMicros {
    p50: f64,
    p99: f64,
    p999: f64,
    max: f64,
}

impl OneWayMicros {
    fn of(found: &PingResult) -> OneWayMicros {
        let micros = |nanos: u64| nanos as f64 / 1e3;
        let times = &found.one_way;
        OneWayMicros {
            p50: micros(times.p50_ns),
            p99: micros(times.p99_ns),
            p999: micros(times.p999_ns),
            max: micros(times.max_ns),
        }
    }
}

/// Reports the result to the harness or to a person.
fn tell<T: Serialize>(
    harness: bool,
    json: bool,
    result: &T,
    text: impl FnOnce(&T) -> String,
) -> Result<(), Failure> {
    let value = serde_json::to_value(result).map_err(|error| Failure::new(error.to_string()))?;
    if harness {
        return say(&value.to_string());
    }
    show(json, &value, &text(result))?;
    Ok(())
}
