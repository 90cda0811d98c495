//! `squall perf views`: time until deliveries continue after a member was killed, and until a
//! joining member has its first sample.
//!
//! Owns: the rounds. Three processes write and read one atomic topic as fast as they can. This
//! process is one of them; it kills another one, waits for the view without it, and starts a
//! new one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use dds_api::prelude::*;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::clock;
use super::control::HarnessControl;
use super::machine::machine;
use super::process_group::ProcessGroup;
use super::subscriber_stats::nanos_histogram;
use crate::outcome::{CommandAnswer, CommandResult, Failure, progress, say, show};

/// Number of processes at a time.
const MEMBERS: usize = 3;
/// Maximum time of any step.
const PATIENCE: Duration = Duration::from_secs(20);
/// Time of undisturbed flow between two events.
const CALM: Duration = Duration::from_millis(100);

/// How long a view change blocks readers: three processes over shared memory under full load, one
/// of which is killed; and how soon a joining one has its first sample.
#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  squall perf views --rounds 50 --json\n  squall perf views --rounds 200 --rate 1000    quiet processors"
)]
pub(crate) struct ViewsArgs {
    /// Number of times one process is killed and another one joins.
    #[arg(long, default_value_t = 30, value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=10_000))]
    rounds: u32,
    /// Samples per second that each process writes; as many as possible if absent
    #[arg(long, value_name = "HZ", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    rate: Option<u32>,
}

/// One of the other processes.
#[derive(Args, Debug)]
pub(crate) struct ViewsMemberArgs {
    #[arg(long)]
    rate: Option<u32>,
}

#[derive(DdsType, Clone, Copy, Debug, Default)]
struct ViewSample {
    number: u64,
    rest: [u64; 7],
}

/// Report of a member that has joined.
#[derive(Serialize, Deserialize)]
struct JoinReport {
    /// Nanoseconds from the call that joins the domain to the first sample.
    nanos: u64,
}

/// Work of a member: writes as fast as it can, and counts the samples it takes.
struct MemberTraffic {
    taken: Arc<AtomicU64>,
    over: Arc<AtomicBool>,
    threads: Vec<std::thread::JoinHandle<DdsResult<()>>>,
}

impl MemberTraffic {
    fn begin(participant: &DomainParticipant, rate: Option<u32>) -> Result<MemberTraffic, Failure> {
        let topic = participant.topic::<ViewSample>("Beats").atomic().create()?;
        let reader = participant.reader(&topic).reliable_all().create()?;
        let writer = participant.writer(&topic).max_blocking_time(Timeout::millis(20)).create()?;
        let (taken, over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (count, ends) = (Arc::clone(&taken), Arc::clone(&over));
        let taking = std::thread::spawn(move || {
            while !ends.load(Ordering::Relaxed) {
                for _ in reader.take_data(.., Timeout::millis(20))? {
                    count.fetch_add(1, Ordering::Relaxed);
                }
            }
            Ok(())
        });
        let ends = Arc::clone(&over);
        let writing = std::thread::spawn(move || {
            let mut number = 0;
            while !ends.load(Ordering::Relaxed) {
                if let Some(rate) = rate {
                    std::thread::sleep(Duration::from_secs(1) / rate);
                }
                match writer.write(&ViewSample { number, rest: [number; 7] }) {
                    Ok(()) => number += 1,
                    Err(DdsError::Timeout(_)) => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(())
        });
        Ok(MemberTraffic { taken, over, threads: vec![taking, writing] })
    }

    fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    fn end(self) -> Result<(), Failure> {
        self.over.store(true, Ordering::Relaxed);
        for thread in self.threads {
            thread.join().map_err(|_| Failure::new("a thread failed; its message is above"))??;
        }
        Ok(())
    }
}

/// Waits until a condition holds, checking as rarely as is sufficient.
fn until(what: &str, mut holds: impl FnMut() -> bool) -> Result<(), Failure> {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        if Instant::now() >= deadline {
            return Err(Failure::new(format!("waited {PATIENCE:?} for {what}, in vain")));
        }
        std::thread::sleep(Duration::from_micros(50));
    }
    Ok(())
}

/// Runs the rounds.
pub(crate) fn run(args: &ViewsArgs, json: bool) -> CommandResult {
    let rounds = args.rounds;
    let mut process_group = ProcessGroup::new(PATIENCE + Duration::from_secs(u64::from(rounds)))?;
    let config = ParticipantConfig::new().runtime_dir(process_group.folder()?);
    let participant = DomainParticipant::with_config(0, config)?;
    let flow = MemberTraffic::begin(&participant, args.rate)?;
    let (mut killed, mut joined) = (nanos_histogram(), nanos_histogram());
    let member = || {
        let rate = args.rate.into_iter().flat_map(|rate| ["--rate".to_owned(), rate.to_string()]);
        [vec!["views-member".to_owned()], rate.collect()].concat()
    };
    let mut children = Vec::new();
    for index in 1..MEMBERS {
        children.push(process_group.start(&format!("member {index}"), &member())?);
        let _: JoinReport = process_group.result(children[index - 1])?;
    }
    for round in 0..rounds {
        progress(format_args!("round {round} of {rounds}"));
        std::thread::sleep(CALM);
        let victim = children.remove(round as usize % children.len());
        let (view, _) = participant.view();
        let start = clock::now();
        process_group.kill(victim)?;
        until("a view without the killed process", || participant.view().0 > view)?;
        let before = flow.taken();
        until("a delivery in the new view", || flow.taken() > before)?;
        killed.record(clock::now() - start).map_err(|error| Failure::new(error.to_string()))?;
        std::thread::sleep(CALM);
        children.push(process_group.start("another member", &member())?);
        let came: JoinReport = process_group.result(*children.last().unwrap_or(&0))?;
        joined.record(came.nanos).map_err(|error| Failure::new(error.to_string()))?;
    }
    flow.end()?;
    drop(participant);
    process_group.dismiss()?;
    let report = json!({
        "rounds": rounds,
        "members": MEMBERS,
        "rate": args.rate,
        "killed_to_delivery_ns": quantiles(&killed),
        "join_to_delivery_ns": quantiles(&joined),
        "machine": machine(),
    });
    let line = |name: &str, of: &Histogram<u64>| {
        let millis = |quantile| of.value_at_quantile(quantile) as f64 / 1e6;
        format!(
            "  {name:<44} p50 {:.2}  p90 {:.2}  p99 {:.2}  max {:.2} ms\n",
            millis(0.5),
            millis(0.9),
            millis(0.99),
            millis(1.0)
        )
    };
    let load = match args.rate {
        Some(rate) => format!("{rate} samples per second each"),
        None => "at full load".to_owned(),
    };
    let text = format!(
        "{MEMBERS} processes that write and read, {load}, {rounds} rounds\n{}{}",
        line("from SIGKILL to a delivery in the new view", &killed),
        line("from joining to the first delivery", &joined)
    );
    show(json, &report, text.trim_end())?;
    Ok(CommandAnswer::Yes)
}

fn quantiles(of: &Histogram<u64>) -> Value {
    let at = |quantile| of.value_at_quantile(quantile);
    json!({ "p50": at(0.5), "p90": at(0.9), "p99": at(0.99), "max": at(1.0) })
}

/// Runs one of the other processes.
pub(crate) fn play(args: &ViewsMemberArgs) -> CommandResult {
    let control = HarnessControl::new(true);
    let start = clock::now();
    let participant = DomainParticipant::new(0)?;
    let flow = MemberTraffic::begin(&participant, args.rate)?;
    until("a first delivery", || flow.taken() > 0)?;
    let joined = JoinReport { nanos: clock::now() - start };
    say(&serde_json::to_string(&joined).map_err(|error| Failure::new(error.to_string()))?)?;
    control.wait_for_exit();
    flow.end()?;
    Ok(CommandAnswer::Yes)
}
