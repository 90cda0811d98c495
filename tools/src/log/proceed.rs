//! `squall log proceed`: tells a waiting restart to continue without a log.
//!
//! Owns: the list of awaited logs according to the folders of a root, and the checks before the
//! operator's decision is recorded. Never does: touch a log.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Args;
use derecho_core::log::restart::{self, LogSummary};
use derecho_core::log::restart_permission::{
    PermittedDamage, RestartPermission, grant, permissions,
};
use derecho_core::log::views::{self, LoggedView, VIEWS};
use derecho_core::log::{
    LogError, LogId, LogKey, RecoveryCheck, StreamKey, StreamLog, WallTime, aside, folder,
};
use derecho_node::logs::LogFolder;
use serde_json::json;

use crate::outcome::{CommandAnswer, CommandResult, Failure, show};

/// Arguments of the command.
#[derive(Args, Debug)]
pub(super) struct ProceedArgs {
    /// Folder of a domain or group in a root of logs, such as /var/lib/squall/domain-0.
    dir: PathBuf,
    /// Log to continue without. Data that only this log has is lost to the topic; if the log
    /// returns it is put aside. Without this argument the awaited logs are listed.
    #[arg(long, value_name = "LOG", value_parser = log_id)]
    without: Vec<LogId>,
    /// Name of the operator; by default the variable USER.
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
}

fn log_id(text: &str) -> Result<LogId, String> {
    u128::from_str_radix(text, 16).map(LogId).map_err(|_| format!("`{text}` is no log's identity"))
}

/// Contents of the folders of a root.
struct RootContents {
    there: BTreeMap<LogId, PathBuf>,
    /// Whether a process keeps logs there at this moment.
    runs: bool,
    last: Option<LoggedView>,
    awaited: BTreeSet<LogId>,
    /// Damage of the present logs: the first error, and the errors of each stream.
    damaged: BTreeMap<LogId, (LogError, Vec<PermittedDamage>)>,
}

impl RootContents {
    fn in_root(root: &Path) -> Result<RootContents, Failure> {
        let (mut there, mut runs, mut last) = (BTreeMap::new(), false, None::<LoggedView>);
        let mut damaged = BTreeMap::<LogId, (LogError, Vec<_>)>::new();
        let mut streams: BTreeMap<StreamKey, Vec<LogSummary>> = BTreeMap::new();
        let unread = |error| Failure::unreadable(root, &error);
        for entry in std::fs::read_dir(root).map_err(unread)? {
            let path = entry.map_err(unread)?.path();
            let mut disk = match LogFolder::read(&path) {
                Ok(disk) if path.is_dir() => disk,
                _ => continue,
            };
            let within = |error: LogError| error.within(&path.display().to_string());
            let Some(owner) = folder::owner(&mut disk).map_err(within)? else { continue };
            runs |= matches!(LogFolder::look(&path), Err(LogError::Locked));
            for stream in folder::streams(&mut disk)? {
                let read =
                    StreamLog::read(&mut disk, LogKey { owner, stream }, RecoveryCheck::Last);
                // Same check as that of processes when they claim a log.
                let harm = match &read {
                    Ok((log, _)) => log.find_damage(&mut disk),
                    Err(error) => Some(error.clone()).filter(LogError::is_damage),
                };
                if let Some(error) = harm.filter(|_| stream != VIEWS) {
                    let last = aside::last(&mut disk, stream)?;
                    let how = PermittedDamage { stream, last, error: error.to_string() };
                    damaged.entry(owner.log).or_insert((within(error), Vec::new())).1.push(how);
                    continue;
                }
                let (log, _) = read.map_err(within)?;
                if stream != VIEWS {
                    streams.entry(stream).or_default().push(LogSummary::of(&log));
                } else if let Some(view) = views::last(&log, &mut disk)? {
                    match &mut last {
                        Some(known) if known.place() == view.place() => {
                            known.await_more(view.awaits);
                        }
                        Some(known) if known.place() > view.place() => {}
                        _ => last = Some(view),
                    }
                }
            }
            there.insert(owner.log, path);
        }
        if there.is_empty() {
            return Err(Failure::new(format!(
                "there is no log folder in {}: name the folder of a domain or group in a root, such as \
                 /var/lib/squall/domain-0",
                root.display()
            )));
        }
        let marked = streams.values().filter_map(restart::last_begun);
        let mut awaited: BTreeSet<LogId> = marked.flat_map(|(_, keepers)| keepers).collect();
        if let Some(last) = &last {
            awaited.extend(last.names());
            // Running processes know the members.
            let is_back = |log: &LogId| runs && last.member_logs().any(|keeper| keeper == *log);
            awaited.retain(|log| !is_back(log));
        }
        awaited.retain(|log| !there.contains_key(log));
        // A damaged log may have messages that no other log has (I-98).
        awaited.extend(damaged.keys());
        Ok(RootContents { there, runs, last, awaited, damaged })
    }

    /// Checks whether the restart can continue without this log.
    fn check(&self, root: &Path, without: LogId) -> Result<(), Failure> {
        let names = |logs: &BTreeSet<LogId>| {
            logs.iter().map(ToString::to_string).collect::<Vec<String>>().join(", ")
        };
        let root = root.display();
        let sound = self.there.get(&without).filter(|_| !self.damaged.contains_key(&without));
        let wrong = if let Some(path) = sound {
            format!(
                "log {without} is here, in {}, so no restart waits for this log",
                path.display()
            )
        } else if self.awaited.is_empty() {
            format!("no log is awaited in {root}: all logs named there are present")
        } else if !self.awaited.contains(&without) {
            format!(
                "no restart in {root} waits for log {without}; the awaited logs are {}",
                names(&self.awaited)
            )
        } else {
            return Ok(());
        };
        Err(Failure::new(wrong))
    }
}

/// Runs the command.
pub(super) fn run(args: &ProceedArgs, json: bool) -> CommandResult {
    let ProceedArgs { dir, without, by } = args;
    let found = RootContents::in_root(dir)?;
    without.iter().try_for_each(|log| found.check(dir, *log))?;
    if !without.is_empty() {
        let by = by.clone().or_else(|| std::env::var("USER").ok());
        let Some(by) = by.filter(|by| !by.trim().is_empty()) else {
            return Err(Failure::Usage("say who you are: --by NAME".to_owned()));
        };
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let at = WallTime(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX));
        let after = found.last.as_ref().map_or((0, 0), LoggedView::place);
        let mut disk = LogFolder::open(dir)?;
        for log in without {
            let damaged = found.damaged.get(log).map_or(Vec::new(), |(_, streams)| streams.clone());
            grant(
                &mut disk,
                RestartPermission { without: *log, after, at, by: by.clone(), damaged },
            )?;
        }
    }
    let decisions = permissions(&mut LogFolder::read(dir)?)?;
    let still: Vec<&LogId> = found.awaited.iter().filter(|log| !without.contains(log)).collect();
    let awaited = |log: &&&LogId| match found.damaged.get(**log) {
        Some((error, _)) => format!(
            "Awaited, unless a sound log has all of it: log {log}, which is damaged: {error}.\n"
        ),
        None => format!("Awaited: log {log}.\n"),
    };
    let mut text: String = still.iter().map(|log| awaited(&log)).collect();
    if still.is_empty() && without.is_empty() {
        text += "Nothing is awaited.\n";
    }
    for RestartPermission { without, at, by, after, .. } in &decisions {
        let (seconds, (era, number)) = (at.0 / 1_000_000_000, after);
        text += &format!(
            "{by} has decided, {seconds} s after 1970 and after view {number} of era {era:x}, to \
             proceed without log {without}.\n"
        );
    }
    if !without.is_empty() {
        text += match found.runs {
            true => {
                "Processes that wait here continue within a second, unless they await other logs."
            }
            false => "No process runs here. The decision takes effect at the next start.",
        };
    }
    let word = |word: &RestartPermission| json!({ "without": word.without.to_string(), "at": word.at.0, "by": word.by });
    let report = json!({
        "awaited": still.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "words": decisions.iter().map(word).collect::<Vec<_>>(),
        "harmed": found.damaged.keys().map(ToString::to_string).collect::<Vec<_>>(),
        "runs": found.runs,
    });
    show(json, &report, &text)?;
    Ok(CommandAnswer::Yes)
}
