//! `squall perf throughput`: all processes of one measurement, once or alternating with the
//! bare ring.

use std::time::Duration;

use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};

use super::baseline::{self, BareRingKind, BareSettings, BareThroughput};
use super::machine::{commit, machine, median};
use super::members::{self, ProcessRole};
use super::payload::{ReadExtent, form};
use super::process_group::ProcessGroup;
use super::publish::PublisherResult;
use super::role::{DeliverySettings, Interface, PerfLevel, RoleSettings};
use super::subscribe::SubscriberResult;
use crate::outcome::{CommandAnswer, CommandResult, Failure, progress, show};

/// Default duration of a run in seconds.
pub(super) const USUAL_SECONDS: f64 = 2.0;
/// Additional time limit for starting and ending.
const USUAL_LIMIT: Duration = Duration::from_secs(120);
/// Default number of runs of each kind beside a baseline.
const BASELINE_RUNS: u32 = 3;
/// The shortest and the longest run of the bare ring.
const BARE_SECONDS: (f64, f64) = (0.2, 5.0);

/// How many samples per second reach the subscribers, each participant in a process of its own.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    squall perf throughput --size 10240 --subs 3 --seconds 2\n  \
    squall perf throughput --size 128 --baseline --json\n  \
    squall perf throughput --size 128 --level atomic --members 3\n  \
    squall perf throughput --size 16 --level atomic --interface core --subs 3 --baseline")]
pub(crate) struct ThroughputArgs {
    #[command(flatten)]
    pub(super) part: RoleSettings,
    /// Interface to measure: the whole product, or the multicast below it.
    #[arg(long, value_enum, default_value_t = Interface::Dds)]
    pub(super) interface: Interface,
    /// Processes that each write while there is room and read everything, compared with as many of
    /// which only the first writes.
    #[arg(long, value_parser = clap::value_parser!(u32).range(2..=32),
        conflicts_with_all = ["subs", "pubs", "baseline"])]
    pub(super) members: Option<u32>,
    /// Number of subscribers.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=32))]
    pub(super) subs: u32,
    /// Number of publishers.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=32))]
    pub(super) pubs: u32,
    /// Samples that each publisher writes.
    #[arg(long, conflicts_with = "seconds", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) count: Option<u64>,
    /// Seconds of writing [default: 2].
    #[arg(long, value_parser = seconds)]
    pub(super) seconds: Option<f64>,
    /// Bytes that subscribers check.
    #[arg(long, value_enum, default_value_t = ReadExtent::Whole)]
    pub(super) read: ReadExtent,
    #[command(flatten)]
    pub(super) manner: WriteMethodArgs,
    /// Measure a bare shared-memory ring beside it, alternating.
    #[arg(long)]
    baseline: bool,
    /// Runs; the median of several is reported [default: 1, with --baseline or --members 3].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: Option<u32>,
    /// Seconds after which an unfinished run counts as failed [default: 120, and the time
    /// of writing].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
}

impl ThroughputArgs {
    /// Returns one publisher of samples of `size` bytes, and a number of subscribers, with the
    /// defaults otherwise.
    pub(super) fn one_to(
        subs: u32,
        size: usize,
        delivery: DeliverySettings,
        seconds: f64,
        read: ReadExtent,
    ) -> ThroughputArgs {
        ThroughputArgs {
            part: RoleSettings { size, means: delivery },
            interface: Interface::Dds,
            members: None,
            subs,
            pubs: 1,
            count: None,
            seconds: Some(seconds),
            read,
            manner: WriteMethodArgs { loan: false, copy: false },
            baseline: false,
            runs: None,
            limit: None,
        }
    }

    /// Returns the number of runs of each kind.
    pub(super) fn runs(&self) -> u32 {
        let compares = self.baseline || self.members.is_some();
        self.runs.unwrap_or(if compares { BASELINE_RUNS } else { 1 })
    }

    /// Returns the time limit of a run.
    pub(super) fn limit(&self) -> Duration {
        let usual = || USUAL_LIMIT + Duration::from_secs_f64(self.seconds.unwrap_or(USUAL_SECONDS));
        self.limit.map_or_else(usual, |limit| Duration::from_secs(limit.into()))
    }
}

/// Way in which samples get into the writer's memory.
#[derive(Args, Clone, Copy, Debug)]
#[group(multiple = false)]
pub(crate) struct WriteMethodArgs {
    /// Build samples where readers read them (the default for plain types).
    #[arg(long)]
    loan: bool,
    /// Build samples elsewhere and let the write copy them (the default for types that are
    /// not plain).
    #[arg(long)]
    copy: bool,
}

impl WriteMethodArgs {
    /// Returns the chosen write method, or the default for samples of this size.
    pub(crate) fn manner(self, size: usize) -> super::publish::WriteMethod {
        use super::publish::WriteMethod;
        match (self.loan, self.copy) {
            (true, _) => WriteMethod::Loan,
            (_, true) => WriteMethod::Copy,
            _ if form(size) == "plain" => WriteMethod::Loan,
            _ => WriteMethod::Copy,
        }
    }

    pub(super) fn argument(self, size: usize) -> &'static str {
        match self.manner(size) {
            super::publish::WriteMethod::Loan => "--loan",
            super::publish::WriteMethod::Copy => "--copy",
        }
    }
}

/// Parses a number of seconds.
pub(crate) fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.01..=3600.0).contains(&seconds) => Ok(seconds),
        _ => Err(format!("`{text}` is no number of seconds between 0.01 and 3600")),
    }
}

/// Result of one run.
#[derive(Debug, Serialize)]
pub(super) struct ThroughputRun {
    pub(super) msgs_per_s: f64,
    bytes_per_s: f64,
    seconds: f64,
    sent: u64,
    lost: u64,
    reordered: u64,
    corrupt: u64,
    /// Whether all subscribers have seen all samples in the same order.
    orders_agree: bool,
    p50_ns: Option<u64>,
    p99_ns: Option<u64>,
    latency_samples: u64,
    cpu_s: f64,
    copies: f64,
    allocs: u64,
    publishers: Vec<PublisherResult>,
    subscribers: Vec<SubscriberResult>,
}

impl ThroughputRun {
    /// Whether the run satisfies the guarantees of the level.
    pub(super) fn is_clean(&self, level: PerfLevel) -> bool {
        self.lost + self.reordered + self.corrupt == 0
            && (self.orders_agree || level == PerfLevel::Unordered)
    }
}

/// Returns the bare rings for comparison with a level; the first is its limit.
fn rings(level: PerfLevel) -> &'static [BareRingKind] {
    match level.is_ordered() {
        false => &[BareRingKind::Plain, BareRingKind::Futex],
        true => &[BareRingKind::Stable, BareRingKind::Plain, BareRingKind::Futex],
    }
}

/// A bare ring, and its measurements.
type BareRuns = (BareRingKind, Vec<BareThroughput>);

/// Runs the command.
pub(crate) fn run(args: &ThroughputArgs, json: bool) -> CommandResult {
    args.part.means.are_offered()?;
    if args.interface == Interface::Core && args.part.means.level.is_kept() {
        return Err(Failure::Usage(
            "the core keeps nothing by itself: this level needs --interface dds".to_owned(),
        ));
    }
    if let Some(members) = args.members {
        return members::run(args, members, json);
    }
    let runs = args.runs();
    let mut ours = Vec::new();
    let kinds = rings(args.part.means.level);
    let mut bare: Vec<BareRuns> = kinds.iter().map(|&kind| (kind, Vec::new())).collect();
    for number in 1..=runs {
        progress(format_args!("run {number} of {runs} ..."));
        let run = measure(args)?;
        let seconds = run.seconds.clamp(BARE_SECONDS.0, BARE_SECONDS.1);
        progress(format_args!("  {} messages/s", short(run.msgs_per_s)));
        ours.push(run);
        if args.baseline {
            let order = BareSettings {
                size: args.part.size,
                readers: args.subs as usize,
                read: args.read,
                seconds,
                every: baseline::EVERY,
                limit: args.limit(),
            };
            for (kind, found) in &mut bare {
                let run = baseline::throughput(order, *kind)?;
                progress(format_args!("  bare, {}: {}", kind.label(), short(run.msgs_per_s)));
                found.push(run);
            }
        }
    }
    let clean = ours.iter().all(|run| run.is_clean(args.part.means.level));
    let mut report = report(args, ours)?;
    if args.baseline {
        let rate = report["msgs_per_s"].as_f64().unwrap_or(0.0);
        compare(&mut report, rate, args.part.size, &bare);
    }
    show(json, &report, &text(&report))?;
    Ok(if clean { CommandAnswer::Yes } else { CommandAnswer::No })
}

/// Starts the processes, runs them, and collects their results.
pub(super) fn measure(args: &ThroughputArgs) -> Result<ThroughputRun, Failure> {
    if args.interface == Interface::Core {
        return members::measure(args, &ProcessRole::apart(args.pubs, args.subs));
    }
    let mut process_group = ProcessGroup::new(args.limit())?;
    let logs = args.part.means.fresh_logs()?;
    let common = |role: &str| {
        let mut arguments = vec![role.to_owned(), format!("--size={}", args.part.size)];
        arguments.extend(args.part.means.arguments());
        arguments.extend(logs.iter().map(|logs| format!("--logs={}", logs.path().display())));
        arguments.push("--harness".to_owned());
        arguments
    };
    let total = args.count.map(|count| count * u64::from(args.pubs));
    let (mut subs, mut pubs) = (Vec::new(), Vec::new());
    for index in 0..args.subs {
        let mut arguments = common("sub");
        arguments.push(format!("--pubs={}", args.pubs));
        arguments.push(format!("--subs={}", args.subs));
        arguments.push(format!("--index={index}"));
        arguments.push(format!("--read={}", args.read.name()));
        arguments.extend(total.map(|total| format!("--count={total}")));
        subs.push(process_group.start(&format!("subscriber {index}"), &arguments)?);
    }
    for index in 0..args.pubs {
        let mut arguments = common("pub");
        arguments.push(format!("--subs={}", args.subs));
        arguments.push(format!("--pubs={}", args.pubs));
        arguments.push(args.manner.argument(args.part.size).to_owned());
        arguments.push(match args.count {
            Some(count) => format!("--count={count}"),
            None => format!("--seconds={}", args.seconds.unwrap_or(USUAL_SECONDS)),
        });
        pubs.push(process_group.start(&format!("publisher {index}"), &arguments)?);
    }
    process_group.all_ready()?;
    for &publisher in &pubs {
        process_group.tell(publisher, "GO")?;
    }
    let mut publishers: Vec<PublisherResult> = Vec::new();
    for publisher in pubs {
        publishers.push(process_group.result(publisher)?);
    }
    let sent: u64 = publishers.iter().map(|publisher| publisher.sent).sum();
    for &subscriber in subs.iter().filter(|_| total.is_none()) {
        process_group.tell(subscriber, &format!("TOTAL {sent}"))?;
    }
    let mut subscribers: Vec<SubscriberResult> = Vec::new();
    for subscriber in subs {
        subscribers.push(process_group.result(subscriber)?);
    }
    process_group.dismiss()?;
    Ok(sum_up(args, sent, publishers, subscribers))
}

/// Combines the results of all processes of one run.
pub(super) fn sum_up(
    args: &ThroughputArgs,
    sent: u64,
    publishers: Vec<PublisherResult>,
    subscribers: Vec<SubscriberResult>,
) -> ThroughputRun {
    let start = publishers.iter().map(|publisher| publisher.t_start_ns).min().unwrap_or(0);
    let span = |sub: &SubscriberResult| sub.t_last_ns.saturating_sub(start).max(1) as f64 / 1e9;
    let count = subscribers.len().max(1) as f64;
    let msgs_per_s =
        subscribers.iter().map(|sub| sub.received as f64 / span(sub)).sum::<f64>() / count;
    let used = || publishers.iter().map(|p| p.used).chain(subscribers.iter().map(|s| s.used));
    let copied_out = subscribers.iter().map(|sub| sub.copies).sum::<f64>() / count;
    let copied_in = publishers.iter().map(|publisher| publisher.copies).fold(0.0, f64::max);
    ThroughputRun {
        msgs_per_s,
        bytes_per_s: msgs_per_s * args.part.size as f64,
        seconds: subscribers.iter().map(span).fold(0.0, f64::max),
        sent,
        lost: subscribers.iter().map(|sub| sub.lost).sum(),
        reordered: subscribers.iter().map(|sub| sub.disorder).sum(),
        corrupt: subscribers.iter().map(|sub| sub.corrupt).sum(),
        orders_agree: subscribers.windows(2).all(|pair| pair[0].order == pair[1].order),
        p50_ns: subscribers.iter().filter_map(|sub| sub.p50_ns).max(),
        p99_ns: subscribers.iter().filter_map(|sub| sub.p99_ns).max(),
        latency_samples: subscribers.iter().map(|sub| sub.latency_samples).sum(),
        cpu_s: used().map(|used| used.cpu_s).sum(),
        copies: copied_in + copied_out,
        allocs: used().map(|used| used.allocs).sum(),
        publishers,
        subscribers,
    }
}

/// Returns the report of the median run, with the checks of all runs.
pub(super) fn report(
    args: &ThroughputArgs,
    mut runs: Vec<ThroughputRun>,
) -> Result<Value, Failure> {
    let rates: Vec<f64> = runs.iter().map(|run| run.msgs_per_s).collect();
    let bad = |count: fn(&ThroughputRun) -> u64| runs.iter().map(count).sum::<u64>();
    let (lost, reordered) = (bad(|run| run.lost), bad(|run| run.reordered));
    let corrupt = bad(|run| run.corrupt);
    let agree = runs.iter().all(|run| run.orders_agree);
    runs.sort_by(|a, b| a.msgs_per_s.total_cmp(&b.msgs_per_s));
    let middle = runs.swap_remove(runs.len() / 2);
    let (form, method) = match args.interface {
        Interface::Dds => (form(args.part.size), args.manner.argument(args.part.size)),
        Interface::Core => ("bytes", "--loan"),
    };
    let mut report = json!({
        "size": args.part.size,
        "pubs": args.pubs,
        "subs": args.subs,
        "interface": args.interface.name(),
        "level": args.part.means.level.name(),
        "transport": args.part.means.transport.name(),
        "form": form,
        "ablate": args.part.means.ablate,
        "read": args.read.name(),
        "manner": method.trim_start_matches('-'),
        "runs_msgs_per_s": rates,
        "machine": machine(),
        "commit": commit(),
    });
    let middle = serde_json::to_value(&middle).map_err(|error| Failure::new(error.to_string()))?;
    if let (Value::Object(report), Value::Object(middle)) = (&mut report, middle) {
        report.extend(middle);
    }
    // The checks cover all runs, not only the reported one.
    report["orders_agree"] = agree.into();
    (report["lost"], report["reordered"]) = (lost.into(), reordered.into());
    report["corrupt"] = corrupt.into();
    Ok(report)
}

/// Adds the baselines and the ratios to them. `ratio` is the ratio to the polling ring at every
/// level, so that levels can be compared.
fn compare(report: &mut Value, rate: f64, size: usize, bare: &[BareRuns]) {
    let memcpy = baseline::memcpy(size);
    report["baseline"] = json!({
        "ring_bytes": baseline::ring_bytes(size),
        "memcpy_bytes_per_s": memcpy,
    });
    for (kind, runs) in bare {
        let middle = median(runs.iter().map(|run| run.msgs_per_s));
        report["baseline"][kind.name()] = json!({ "msgs_per_s": middle, "runs": runs });
        report[ratio_name(*kind)] = (rate / middle).into();
    }
    report["ratio_memcpy"] = (rate * size as f64 / memcpy).into();
}

/// Returns the name of the ratio to a ring in a report.
fn ratio_name(kind: BareRingKind) -> &'static str {
    match kind {
        BareRingKind::Plain => "ratio",
        BareRingKind::Futex => "ratio_futex",
        BareRingKind::Stable => "ratio_stable",
    }
}

/// Formats a rate for human readers.
pub(crate) fn short(rate: f64) -> String {
    match rate {
        r if r >= 1e6 => format!("{:.2} million", r / 1e6),
        r if r >= 1e3 => format!("{:.1} thousand", r / 1e3),
        r => format!("{r:.1}"),
    }
}

/// Returns the report as text.
pub(super) fn text(report: &Value) -> String {
    let number = |name: &str| report[name].as_f64().unwrap_or(0.0);
    let mut text = format!(
        "{} bytes ({}, {}), {} to {}, {}, {} over {}\n  {} messages/s, {:.3} GB/s to each subscriber\n  \
         lost {}, reordered {}, corrupt {}{}\n",
        report["size"],
        report["form"].as_str().unwrap_or("?"),
        report["manner"].as_str().unwrap_or("?"),
        report["pubs"],
        report["subs"],
        report["level"].as_str().unwrap_or("?"),
        report["interface"].as_str().unwrap_or("?"),
        report["transport"].as_str().unwrap_or("?"),
        short(number("msgs_per_s")),
        number("bytes_per_s") / 1e9,
        report["lost"],
        report["reordered"],
        report["corrupt"],
        match report["orders_agree"].as_bool() {
            Some(true) => ", all orders agree",
            // Orders may differ for several writers of an unordered topic.
            _ if report["level"] == "unordered" => "",
            _ => ", ORDERS DIFFER",
        },
    );
    if !report["p50_ns"].is_null() {
        let [p50, p99] = ["p50_ns", "p99_ns"].map(|name| number(name) / 1e3);
        text += &format!("  from write to take {p50:.1} us, 99 % within {p99:.1} us\n");
    }
    text += &format!(
        "  {:.2} s of processor time in {:.2} s, {:.1} copies a sample, {} allocations\n",
        number("cpu_s"),
        number("seconds"),
        number("copies"),
        report["allocs"],
    );
    if !report["baseline"].is_null() {
        for kind in [BareRingKind::Stable, BareRingKind::Plain, BareRingKind::Futex] {
            let ring = &report["baseline"][kind.name()]["msgs_per_s"];
            if let Some(rate) = ring.as_f64() {
                let (label, ratio) = (kind.label(), number(ratio_name(kind)));
                text += &format!("  bare ring, {label} {}/s: ratio {ratio:.3}\n", short(rate));
            }
        }
        text += &format!(
            "  memcpy {:.1} GB/s: ratio {:.3}\n",
            report["baseline"]["memcpy_bytes_per_s"].as_f64().unwrap_or(0.0) / 1e9,
            number("ratio_memcpy"),
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn atomic_level_is_also_compared_with_stable_ring() {
        let run =
            |msgs_per_s| BareThroughput { msgs_per_s, cpu_s: 0.1, written: 7, read_by: vec![7, 7] };
        let mut bare = Vec::new();
        for (&kind, rate) in rings(PerfLevel::Atomic).iter().zip([2e6, 4e6, 1e6]) {
            bare.push((kind, vec![run(rate), run(9e9), run(1.0)]));
        }
        let mut report = json!({ "size": 16 });
        compare(&mut report, 1e6, 16, &bare);
        assert_eq!(report["ratio_stable"], 0.5);
        assert_eq!((&report["ratio"], &report["ratio_futex"]), (&0.25.into(), &1.0.into()));
        let text = text(&report);
        assert!(text.contains("waiting until all have it 2.00 million/s: ratio 0.500"), "{text}");
        assert!(text.contains("polling 4.00 million/s: ratio 0.250"), "{text}");
        assert!(!rings(PerfLevel::Unordered).contains(&BareRingKind::Stable));
    }
}
