//! `squall store`: a member of a domain that keeps persistent topics, so that they outlive
//! all applications.
//!
//! Owns: the end of the command, and its output. Never does: keep anything; its participant does.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use dds_api::domain::{DomainParticipant, ParticipantConfig};
use dds_api::infrastructure::{LogCondition, StorageStatus};
use serde_json::json;

use crate::arguments;
use crate::end_signals::EndSignals;
use crate::outcome::{CommandAnswer, CommandResult, Failure, say, show};
use crate::topics::record::globs;

/// Interval between two checks of the topics' states, and of the end.
const LOOK: Duration = Duration::from_millis(50);

/// Keep persistent topics.
#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  squall store --dir /var/lib/squall --topics 'Flight*' --topics Alarm\n\n\
    Each process of a host has its own folder in DIR, which must exist. `squall log` shows the contents of these \
    folders. Ends at SIGINT or SIGTERM, after all samples have been written."
)]
pub(crate) struct StoreArgs {
    /// Folder of the logs; applications that keep logs themselves must use the same folder.
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// Keep topics whose names match: `*` stands for any text, `?` for one character, `[a-z]` for
    /// one of several. May be given more than once; without it all persistent topics are kept.
    #[arg(long, value_name = "GLOB")]
    topics: Vec<String>,
    /// Domain to keep topics of.
    #[arg(long, default_value_t = 0, value_parser = arguments::domain())]
    domain: u32,
    /// End after this many seconds.
    #[arg(long = "for", value_name = "SECONDS", value_parser = arguments::duration)]
    time: Option<Duration>,
    /// Folder where participants meet; SQUALL_RUNTIME_DIR, or /tmp/squall-UID, by default.
    #[arg(long, value_name = "DIR")]
    runtime_dir: Option<PathBuf>,
}

/// Runs the command.
pub(crate) fn run(args: &StoreArgs, json: bool) -> CommandResult {
    let end_signals = EndSignals::new()?;
    globs(&args.topics)?;
    let topics = if args.topics.is_empty() { vec!["*".to_owned()] } else { args.topics.clone() };
    let mut config = ParticipantConfig::new().log_folder(&args.dir).log_topics(topics.clone());
    if let Some(folder) = &args.runtime_dir {
        config = config.runtime_dir(folder);
    }
    let participant = DomainParticipant::with_config(args.domain, config)?;
    if !json {
        let (dir, domain) = (args.dir.display(), args.domain);
        // The store continues even if nobody reads its output.
        let _ = say(&format!("keeps {} of domain {domain} in {dir}", topics.join(", ")));
    }
    let deadline = args.time.map(|time| Instant::now() + time);
    let mut known: BTreeMap<String, StorageStatus> = BTreeMap::new();
    loop {
        let over = end_signals.are_there() || deadline.is_some_and(|at| Instant::now() >= at);
        if participant.is_isolated() {
            return Err(Failure::new(
                "the other participants excluded this one, because it was stopped for too long; \
                 start the command again",
            ));
        }
        for (topic, _, status) in participant.stored_topics() {
            let before = known.insert(topic.clone(), status.clone());
            if !json && before.is_none_or(|before| before.log != status.log) {
                let _ = say(&format!("{topic}: {}", condition(&status)));
            }
        }
        if over {
            break;
        }
        std::thread::sleep(LOOK);
    }
    drop(participant);
    let records: u64 = known.values().map(|status| status.samples).sum();
    let bytes = bytes_in(&args.dir.join(format!("domain-{}", args.domain)));
    let value = json!({ "streams": known.len(), "records": records, "bytes": bytes });
    let text = format!("{} topics, {records} samples, {bytes} bytes in logs", known.len());
    show(json, &value, &text)?;
    let failed = |status: &StorageStatus| matches!(status.log, Some(LogCondition::Failed(_)));
    Ok(if known.values().any(failed) { CommandAnswer::No } else { CommandAnswer::Yes })
}

fn condition(status: &StorageStatus) -> String {
    match &status.log {
        Some(LogCondition::Open) => "is logged".to_owned(),
        Some(LogCondition::Full) => "waits, because the disk is full: make room".to_owned(),
        Some(LogCondition::Damaged(why)) => {
            format!("waits, because the log here is damaged: {why}")
        }
        Some(LogCondition::Detached) => "is no longer logged, because the disk was full".to_owned(),
        Some(LogCondition::Failed(why)) => format!("is no longer logged: {why}"),
        None => "is kept in memory only".to_owned(),
    }
}

/// Returns the total size of the files in this folder and its subfolders.
fn bytes_in(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(data) if data.is_dir() => bytes_in(&entry.path()),
            Ok(data) => data.len(),
            Err(_) => 0,
        })
        .sum()
}
