//! `squall perf upcall`: the effect of one slow member on the others.
//!
//! Owns: the trials and their comparison. Each trial has a sender and others on the multicast below
//! DDS, atomic. A sender at full speed for a given time shows the rates once the ring of the slow
//! member is full. A sender that sends less than the ring holds, at a pace, shows the delay of the
//! others before that.

use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};

use super::machine::{commit, machine};
use super::member::trial::TrialResult;
use super::process_group::ProcessGroup;
use super::role::sample_size;
use super::throughput::{seconds, short};
use crate::outcome::{CommandAnswer, CommandResult, Failure, progress, show};

/// Additional time limit for starting and ending.
const LIMIT: Duration = Duration::from_secs(60);
/// Nanoseconds between two messages of a paced sender.
const PACE: u64 = 10_000;
/// Maximum number of the first messages whose arrival time is measured: at most half of the
/// messages that fit into the default memory.
const MOST_FIRST: usize = 4096;

/// The cost of work for each delivery to the worker, the other reader and the sender, in the turn
/// or in a thread of its own; or the cost of fixed batches, or of undeclared silence.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    squall perf upcall --work 1us,100us,1ms\n  \
    squall perf upcall --fixed-batch 32\n  \
    squall perf upcall --silence --json")]
pub(crate) struct UpcallArgs {
    /// Work of one of the two readers for each delivery.
    #[arg(long, value_name = "TIMES", value_delimiter = ',', value_parser = nanos,
        default_value = "1us,100us,1ms")]
    work: Vec<u64>,
    /// Measure a sender that holds back this many messages until all of them are built, beside one
    /// that sends at once.
    #[arg(long, value_name = "MESSAGES", value_parser = clap::value_parser!(u64).range(2..=1024),
        conflicts_with = "work")]
    fixed_batch: Option<u64>,
    /// Measure a second sender that declares silence and sends nothing, beside one that sends
    /// null messages.
    #[arg(long, conflicts_with_all = ["work", "fixed_batch"])]
    silence: bool,
    /// Bytes of a message.
    #[arg(long, default_value_t = 128, value_name = "BYTES", value_parser = sample_size)]
    size: usize,
    /// Seconds of each trial.
    #[arg(long, default_value_t = 1.0, value_parser = seconds)]
    seconds: f64,
}

/// Parses a time such as `100us`, as nanoseconds.
fn nanos(text: &str) -> Result<u64, String> {
    const UNITS: [(&str, u64); 3] = [("ns", 1), ("us", 1000), ("ms", 1_000_000)];
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let unit = UNITS.iter().find(|(name, _)| *name == unit).map(|(_, nanos)| *nanos);
    let time = unit.and_then(|unit| number.parse::<u64>().ok()?.checked_mul(unit));
    time.filter(|nanos| *nanos <= 1_000_000_000)
        .ok_or_else(|| format!("`{text}` is no time such as 100us or 1ms, of one second at most"))
}

/// Role of one process of a trial.
struct TrialRole<'a> {
    duty: &'a str,
    more: Vec<String>,
}

impl<'a> TrialRole<'a> {
    fn new(duty: &'a str, more: &[String]) -> TrialRole<'a> {
        TrialRole { duty, more: more.to_vec() }
    }
}

impl UpcallArgs {
    fn first(&self) -> usize {
        ((1 << 19) / self.size.next_multiple_of(64)).clamp(16, MOST_FIRST)
    }

    /// Runs one trial.
    fn trial(&self, parts: &[TrialRole<'_>]) -> Result<Vec<TrialResult>, Failure> {
        self.trial_of(self.seconds, parts)
    }

    fn trial_of(&self, seconds: f64, parts: &[TrialRole<'_>]) -> Result<Vec<TrialResult>, Failure> {
        let mut process_group = ProcessGroup::new(LIMIT + Duration::from_secs_f64(seconds))?;
        let count = |duty| parts.iter().filter(|part| part.duty == duty).count();
        let (writers, readers) = (count("--writes"), count("--reads"));
        for (index, part) in parts.iter().enumerate() {
            let mut arguments = vec![
                "trial".to_owned(),
                "--interface=core".to_owned(),
                "--level=atomic".to_owned(),
                "--read=ends".to_owned(),
                part.duty.to_owned(),
                format!("--size={}", self.size),
                format!("--seconds={seconds}"),
                format!("--first={}", self.first()),
                format!("--processes={}", parts.len()),
                format!("--writers={writers}"),
                format!("--readers={readers}"),
                format!("--index={index}"),
            ];
            arguments.extend_from_slice(&part.more);
            process_group.start(&format!("member {index}"), &arguments)?;
        }
        process_group.all_ready()?;
        for child in 0..parts.len() {
            process_group.tell(child, "GO")?;
        }
        let found = (0..parts.len()).map(|child| process_group.result(child)).collect();
        process_group.dismiss()?;
        found
    }
}

fn rate(tried: &TrialResult) -> f64 {
    tried.count as f64 / tried.seconds.max(1e-9)
}

/// Runs the command.
pub(crate) fn run(args: &UpcallArgs, json: bool) -> CommandResult {
    let mut report = json!({
        "size": args.size, "seconds": args.seconds, "first": args.first(), "machine": machine(),
        "commit": commit(),
    });
    let (name, rows) = match (args.fixed_batch, args.silence) {
        (Some(batch), _) => ("batches", batches(args, batch)?),
        (None, true) => ("silence", silence(args)?),
        (None, false) => ("slow", slow(args)?),
    };
    let clean = rows.iter().all(|row| row["bad"] == 0);
    let text: Vec<String> = rows.iter().map(line).collect();
    report[name] = rows.into();
    let head = format!("{} bytes, atomic, core over shm, {} s each", args.size, args.seconds);
    show(json, &report, &format!("{head}\n{}", text.join("\n")))?;
    Ok(if clean { CommandAnswer::Yes } else { CommandAnswer::No })
}

/// Runs a sender, a reader that works for each message, and one that does not.
fn slow(args: &UpcallArgs) -> Result<Vec<Value>, Failure> {
    let mut rows = Vec::new();
    for &work in [0].iter().chain(&args.work) {
        for (manner, more) in [
            ("single", "--place=upcall --ablate=delivery-batching"),
            ("batched", "--place=upcall"),
            ("cache", "--place=cache"),
        ] {
            progress(format_args!("{work} ns, {manner} ..."));
            let mut more: Vec<String> = more.split(' ').map(str::to_owned).collect();
            more.push(format!("--work={work}"));
            let parts = |sender: &[String]| {
                [("--writes", sender), ("--reads", &more), ("--reads", &[])]
                    .map(|(duty, more)| TrialRole::new(duty, more))
            };
            let full = args.trial(&parts(&[]))?;
            let first = args.first() as u64;
            // Twice the required time, for delayed members.
            let seconds = 2.0 * (first * PACE) as f64 / 1e9;
            let paced = [format!("--every={PACE}"), format!("--most={first}")];
            let paced = args.trial_of(seconds, &parts(&paced))?;
            let sending = paced[0].t_first_ns.saturating_sub(paced[0].t_start_ns);
            let (slow, other) = (&full[1], &full[2]);
            rows.push(json!({
                "work_ns": work,
                "manner": manner,
                "sender_per_s": rate(&full[0]),
                "slow_per_s": rate(slow),
                "other_per_s": rate(other),
                "paced": {
                    "every_ns": PACE,
                    "sender_late_us": sending.saturating_sub((first - 1) * PACE) as f64 / 1000.0,
                    "other_received": paced[2].count,
                    "other_p50_ns": paced[2].p50_ns,
                    "other_p99_ns": paced[2].p99_ns,
                    "other_max_ns": paced[2].max_ns,
                },
                "bad": slow.bad + other.bad + paced[1].bad + paced[2].bad,
            }));
        }
    }
    Ok(rows)
}

/// Returns a row for a paced or full-speed sender and its reader.
fn sends(what: &str, every: u64, sender: &TrialResult, reader: &TrialResult) -> Value {
    json!({
        "manner": what,
        "every_ns": every,
        "sender_per_s": rate(sender),
        "other_per_s": rate(reader),
        "p50_ns": reader.p50_ns,
        "p99_ns": reader.p99_ns,
        "bad": reader.bad,
    })
}

/// Compares a sender that holds messages back with one that does not.
fn batches(args: &UpcallArgs, batch: u64) -> Result<Vec<Value>, Failure> {
    let mut rows = Vec::new();
    for every in [PACE, 0] {
        for (what, batch) in [("opportunistic", 1), ("fixed", batch)] {
            let more = [format!("--every={every}"), format!("--fixed-batch={batch}")];
            let found =
                args.trial(&[TrialRole::new("--writes", &more), TrialRole::new("--reads", &[])])?;
            rows.push(sends(&format!("{what} {batch}"), every, &found[0], &found[1]));
        }
    }
    Ok(rows)
}

/// Runs a sender beside a silent one.
fn silence(args: &UpcallArgs) -> Result<Vec<Value>, Failure> {
    let mut rows = Vec::new();
    for every in [PACE, 0] {
        for (what, silent) in [("nulls", "--silent"), ("declared", "--silent --declares")] {
            let silent: Vec<String> = silent.split(' ').map(str::to_owned).collect();
            let found = args.trial(&[
                TrialRole::new("--writes", &[format!("--every={every}")]),
                TrialRole::new("--writes", &silent),
                TrialRole::new("--reads", &[]),
            ])?;
            let mut row = sends(what, every, &found[0], &found[2]);
            row["silent_cpu_s"] = found[1].cpu_s.into();
            rows.push(row);
        }
    }
    Ok(rows)
}

/// Returns a row as text.
fn line(row: &Value) -> String {
    let number = |name: &str| row[name].as_f64();
    let manner = row["manner"].as_str().unwrap_or("?");
    let per_s = |name: &str| short(number(name).unwrap_or(0.0));
    if let Some(work) = number("work_ns") {
        let paced = &row["paced"];
        let micros = |name: &str| paced[name].as_f64().unwrap_or(f64::NAN) / 1000.0;
        return format!(
            "  {:>6.0} us, {manner:7} slow {:>16}/s, other {:>16}/s; not full: {} at the other, \
             p50 {:.1} us, p99 {:.1} us, max {:.1} us; sender late by {:.0} us",
            work / 1000.0,
            per_s("slow_per_s"),
            per_s("other_per_s"),
            paced["other_received"],
            micros("other_p50_ns"),
            micros("other_p99_ns"),
            micros("other_max_ns"),
            paced["sender_late_us"].as_f64().unwrap_or(0.0),
        );
    }
    let pace = match number("every_ns") {
        Some(every) if every > 0.0 => format!("every {:.0} us", every / 1000.0),
        _ => "at full speed".to_owned(),
    };
    let [p50, p99] =
        ["p50_ns", "p99_ns"].map(|name| number(name).map_or(f64::NAN, |ns| ns / 1000.0));
    let mut text = format!(
        "  {pace:13} {manner:16} {:>16}/s, p50 {p50:.1} us, p99 {p99:.1} us",
        per_s("other_per_s")
    );
    if let Some(cpu) = number("silent_cpu_s") {
        text += &format!(", {cpu:.3} s of processor time of the silent one");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_parser_reads_units_and_rejects_other_text() {
        assert_eq!((nanos("1us"), nanos("100us")), (Ok(1_000), Ok(100_000)));
        assert_eq!((nanos("3ms"), nanos("40ns")), (Ok(3_000_000), Ok(40)));
        for nonsense in ["", "us", "1", "1.5us", "2000ms", "1 us", "1h"] {
            assert!(nanos(nonsense).is_err(), "{nonsense}");
        }
    }
}
