//! Processes that share a topic, each of which may write and read it at once.
//!
//! Owns: the role of each process, their start, and the comparison of all processes writing with
//! one writing. Never does: measure anything itself.

use serde_json::json;

use super::machine::median;
use super::process_group::ProcessGroup;
use super::publish::PublisherResult;
use super::subscribe::SubscriberResult;
use super::throughput::{
    ThroughputArgs, ThroughputRun, USUAL_SECONDS, report, short, sum_up, text,
};
use crate::outcome::{CommandAnswer, CommandResult, Failure, progress, show};

/// Role of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ProcessRole {
    pub(super) writes: bool,
    pub(super) reads: bool,
}

impl ProcessRole {
    /// Returns a number of processes that only write, and a number that only read.
    pub(super) fn apart(writers: u32, readers: u32) -> Vec<ProcessRole> {
        let role = |index| ProcessRole { writes: index < writers, reads: index >= writers };
        (0..writers + readers).map(role).collect()
    }

    /// Returns a number of processes that read, of which the first ones write too.
    fn reading(members: u32, writers: u32) -> Vec<ProcessRole> {
        (0..members).map(|index| ProcessRole { writes: index < writers, reads: true }).collect()
    }
}

/// Measures all members writing, alternating with one of them writing.
pub(super) fn run(args: &ThroughputArgs, members: u32, json: bool) -> CommandResult {
    let level = args.part.means.level;
    let (mut all, mut one) = (Vec::new(), Vec::new());
    for number in 1..=args.runs() {
        progress(format_args!("run {number} of {} ...", args.runs()));
        for (found, writers) in [(&mut all, members), (&mut one, 1)] {
            let run = measure(args, &ProcessRole::reading(members, writers))?;
            progress(format_args!("  {writers} writing: {} messages/s", short(run.msgs_per_s)));
            found.push(run);
        }
    }
    let clean = all.iter().chain(&one).all(|run| run.is_clean(level));
    let rate = |runs: &[ThroughputRun]| median(runs.iter().map(|run| run.msgs_per_s));
    let (together, alone) = (rate(&all), rate(&one));
    let mut report = report(args, all)?;
    (report["pubs"], report["subs"]) = (members.into(), members.into());
    report["members"] = members.into();
    report["total"] = together.into();
    report["one_sender"] = json!({ "total": alone, "runs": one });
    report["ratio_one_sender"] = (together / alone).into();
    let mut text = text(&report);
    text += &format!(
        "  all {members} members write: {}/s in all at each; one of them: {}/s: ratio {:.3}\n",
        short(together),
        short(alone),
        together / alone
    );
    show(json, &report, &text)?;
    Ok(if clean { CommandAnswer::Yes } else { CommandAnswer::No })
}

/// Starts the processes, runs them, and collects their results.
pub(super) fn measure(
    args: &ThroughputArgs,
    roles: &[ProcessRole],
) -> Result<ThroughputRun, Failure> {
    let mut process_group = ProcessGroup::new(args.limit())?;
    let count = |does: fn(&ProcessRole) -> bool| roles.iter().filter(|role| does(role)).count();
    let (writers, readers) = (count(|role| role.writes), count(|duty| duty.reads));
    let mut children = Vec::new();
    for (index, role) in roles.iter().enumerate() {
        let mut arguments = vec!["member".to_owned(), format!("--size={}", args.part.size)];
        arguments.extend(args.part.means.arguments());
        arguments.push(format!("--interface={}", args.interface.name()));
        arguments.push(format!("--index={index}"));
        arguments.push(format!("--processes={}", roles.len()));
        arguments.push(format!("--writers={writers}"));
        arguments.push(format!("--readers={readers}"));
        arguments.push(format!("--read={}", args.read.name()));
        arguments.push(args.manner.argument(args.part.size).to_owned());
        arguments.extend(role.writes.then(|| "--writes".to_owned()));
        arguments.extend(role.reads.then(|| "--reads".to_owned()));
        arguments.push(match args.count {
            Some(count) => format!("--count={count}"),
            None => format!("--seconds={}", args.seconds.unwrap_or(USUAL_SECONDS)),
        });
        children.push((process_group.start(&format!("member {index}"), &arguments)?, *role));
    }
    process_group.all_ready()?;
    for (child, _) in &children {
        process_group.tell(*child, "GO")?;
    }
    let mut publishers: Vec<PublisherResult> = Vec::new();
    for (child, _) in children.iter().filter(|(_, role)| role.writes) {
        publishers.push(process_group.result(*child)?);
    }
    let sent: u64 = publishers.iter().map(|publisher| publisher.sent).sum();
    for (child, _) in children.iter().filter(|(_, role)| role.reads) {
        process_group.tell(*child, &format!("TOTAL {sent}"))?;
    }
    let mut subscribers: Vec<SubscriberResult> = Vec::new();
    for (child, _) in children.iter().filter(|(_, role)| role.reads) {
        subscribers.push(process_group.result(*child)?);
    }
    process_group.dismiss()?;
    Ok(sum_up(args, sent, publishers, subscribers))
}
