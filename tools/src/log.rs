//! `squall log`: the files of logged streams.
//!
//! Owns: the output about them. Never does: change files, except by `truncate` (and `proceed`,
//! which writes a file beside them). Reading takes no lock, so a folder can be inspected while it
//! is written; a record that is being written may then look torn.

mod description;
mod proceed;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use dds_api::topic::LogDescription;
use derecho_core::log::aside::{self, PutAsideFolder};
use derecho_core::log::survey::{LogSurvey, survey, truncate};
use derecho_core::log::views::{self, LoggedMember, LoggedView, VIEWS};
use derecho_core::log::{
    Disk, LogEntry, LogError, LogKey, LogOwner, LogRecord, RecordKind, RecoveryCheck, StreamKey,
    StreamLog, Version, folder,
};
use derecho_node::logs::LogFolder;
use serde_json::{Value, json};

use description::{LogDates, date};

use crate::outcome::{CommandAnswer, CommandResult, Failure, say, show};

/// Command for logs.
#[derive(Args, Debug)]
#[command(
    arg_required_else_help = true,
    after_help = "Example:\n  \
    squall log verify /var/lib/squall/domain-0/0\n  \
    squall log dump /var/lib/squall/domain-0/0 --from 100 --to 120"
)]
pub(crate) struct LogArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// List the streams of a log folder with their topics, policies and dates, from their indices
    /// and the last file of each.
    #[command(after_help = "Example:\n  squall log ls /var/lib/squall/domain-0/0 --json")]
    Ls(LogSelection),
    /// Print the records.
    #[command(
        after_help = "Example:\n  squall log dump /var/lib/squall/domain-0/0 --from 100 --to 120"
    )]
    Dump(DumpArgs),
    /// Read and check every byte; exit code 1 for any error. A tail torn by a crash is no error: it
    /// is cut when the log is opened.
    #[command(after_help = "Example:\n  squall log verify /var/lib/squall/domain-0/0")]
    Verify(LogSelection),
    /// Cut all records of a stream after a version, whatever errors they have. No process may
    /// be writing.
    #[command(
        after_help = "Example:\n  squall log truncate /var/lib/squall/domain-0/0 --stream 4 --after 119"
    )]
    Truncate(TruncateArgs),
    /// Remove logs that were put aside, permanently. No process may be writing in the folder.
    #[command(
        after_help = "Example:\n  squall log remove-aside /var/lib/squall/domain-0/0 --number 1"
    )]
    RemoveAside(RemoveAsideArgs),
    /// Tell a waiting restart to continue without a log, or list the awaited logs. The name of the
    /// operator, the time and the log are recorded beside the logs.
    #[command(after_help = "Example:\n  squall log proceed /var/lib/squall/domain-0 \
                            --without 0000000000000000000000000000004f --by anna")]
    Proceed(proceed::ProceedArgs),
}

/// Folder and streams to read.
#[derive(Args, Debug)]
struct LogSelection {
    /// Log folder.
    dir: PathBuf,
    /// Only this stream: the hexadecimal number at the beginning of its file names.
    #[arg(long, value_name = "HEX", value_parser = stream_key)]
    stream: Option<StreamKey>,
    /// Logs of this number that were put aside, because their topics had continued without them.
    #[arg(long, value_name = "NUMBER")]
    aside: Option<aside::AsideNumber>,
}

/// Records to print.
#[derive(Args, Debug)]
struct DumpArgs {
    #[command(flatten)]
    place: LogSelection,
    /// First version.
    #[arg(long, value_name = "VERSION", default_value_t = 0)]
    from: u64,
    /// Last version.
    #[arg(long, value_name = "VERSION", default_value_t = u64::MAX)]
    to: u64,
    /// Print payloads too, in hexadecimal.
    #[arg(long)]
    payload: bool,
}

/// Records to cut.
#[derive(Args, Debug)]
struct TruncateArgs {
    /// Log folder.
    dir: PathBuf,
    /// Stream: the hexadecimal number at the beginning of its file names.
    #[arg(long, value_name = "HEX", value_parser = stream_key)]
    stream: StreamKey,
    /// Last version that stays.
    #[arg(long, value_name = "VERSION")]
    after: u64,
}

/// Logs to remove.
#[derive(Args, Debug)]
struct RemoveAsideArgs {
    /// Log folder.
    dir: PathBuf,
    /// Number under which the logs were put aside, as shown by `squall log ls`.
    #[arg(long, value_name = "NUMBER")]
    number: aside::AsideNumber,
    /// Only this stream: the hexadecimal number at the beginning of its file names.
    #[arg(long, value_name = "HEX", value_parser = stream_key)]
    stream: Option<StreamKey>,
}

fn stream_key(text: &str) -> Result<StreamKey, String> {
    u128::from_str_radix(text, 16)
        .map(StreamKey)
        .map_err(|_| format!("`{text}` is no hexadecimal number"))
}

impl From<LogError> for Failure {
    fn from(error: LogError) -> Failure {
        Failure::new(error.to_string())
    }
}

/// Runs the command.
pub(crate) fn run(args: &LogArgs, json: bool) -> CommandResult {
    match &args.command {
        Command::Ls(selection) => look(selection, json, list),
        Command::Dump(args) => dump(args, json),
        Command::Verify(selection) => look(selection, json, |disk, of| survey(disk, of, |_| {})),
        Command::Truncate(args) => cut(args, json),
        Command::RemoveAside(args) => remove_aside(args, json),
        Command::Proceed(args) => proceed::run(args, json),
    }
}

/// A folder to read, its owner, and the requested streams.
type OpenedFolder = (Box<dyn Disk>, LogOwner, Vec<StreamKey>);

/// Opens a folder for reading.
fn open(selection: &LogSelection) -> Result<OpenedFolder, Failure> {
    let mut folder = LogFolder::read(&selection.dir)?;
    let owner = owner_of(&mut folder, &selection.dir)?;
    let mut disk: Box<dyn Disk> = match selection.aside {
        Some(number) => Box::new(PutAsideFolder::new(folder, number)),
        None => Box::new(folder),
    };
    let streams = folder::streams(&mut disk)?;
    match selection.stream {
        Some(wanted) if !streams.contains(&wanted) => {
            Err(Failure::new(format!("there is no stream {wanted} in {}", selection.dir.display())))
        }
        Some(wanted) => Ok((disk, owner, vec![wanted])),
        None => Ok((disk, owner, streams.into_iter().collect())),
    }
}

/// Opens a folder for exclusive writing.
fn folder_to_write(dir: &Path) -> Result<LogFolder, Failure> {
    // Only an existing log folder is locked, because a lock is a file in it.
    owner_of(&mut LogFolder::read(dir)?, dir)?;
    match LogFolder::open(dir) {
        Err(LogError::Locked) => {
            Err(Failure::new(format!("{}: {}", dir.display(), LogError::Locked)))
        }
        other => Ok(other?),
    }
}

fn owner_of(disk: &mut LogFolder, dir: &Path) -> Result<LogOwner, Failure> {
    let owner = folder::owner(disk).map_err(|error| error.within(&dir.display().to_string()))?;
    owner.ok_or_else(|| {
        Failure::new(format!(
            "{} is no log folder: it has no file `identity`; name the folder of one process, such as \
             /var/lib/squall/domain-0/0",
            dir.display()
        ))
    })
}

/// Reads the indices of a stream.
fn list(disk: &mut Box<dyn Disk>, log: LogKey) -> Result<LogSurvey, LogError> {
    match StreamLog::read(disk, log, RecoveryCheck::Last) {
        Ok((log, recovery)) => {
            let messages = log.segments().iter().map(|segment| segment.index.messages()).sum();
            let some = |version| (messages > 0).then_some(version);
            Ok(LogSurvey {
                records: messages,
                marks: recovery.records - messages,
                bytes: log.segments().iter().map(|segment| segment.index.end).sum(),
                first: some(log.complete_from()),
                last: some(log.durable()),
                checkpoint: log.checkpointed(),
                torn: recovery.torn,
                open_ended: false,
                errors: Vec::new(),
            })
        }
        Err(error) => Ok(LogSurvey { errors: vec![error], ..LogSurvey::default() }),
    }
}

/// Content of the log of a stream.
struct StreamSurvey {
    stream: StreamKey,
    description: LogDescription,
    survey: LogSurvey,
    dates: Option<LogDates>,
}

/// Inspects each stream, and shows the results.
fn look(
    selection: &LogSelection,
    json: bool,
    what: impl Fn(&mut Box<dyn Disk>, LogKey) -> Result<LogSurvey, LogError>,
) -> CommandResult {
    let (mut disk, owner, streams) = open(selection)?;
    let mut found = Vec::new();
    for stream in streams {
        let survey = what(&mut disk, LogKey { owner, stream })?;
        let description = LogDescription::read(&selection.dir, stream);
        let dates = LogDates::read(&mut disk, LogKey { owner, stream });
        found.push(StreamSurvey { stream, description, survey, dates });
    }
    let sound = found.iter().all(|it| it.survey.errors.is_empty());
    let asides = match selection.aside {
        None => asides(selection, owner)?,
        Some(_) => Vec::new(),
    };
    let mut report = report(owner, &found);
    // Views are listed too: the last one gives the members that must return.
    let last = last_view(&mut disk, owner, &found)?;
    report["last_view"] = last.as_ref().map_or(Value::Null, fields_of_view);
    let of_views = last.map(|view| format!("\nThe last view: {}.", text_of_view(&view)));
    report["aside"] = json!(asides.iter().map(fields_of_aside).collect::<Vec<Value>>());
    show(
        json,
        &report,
        &(text(owner, &found) + &of_views.unwrap_or_default() + &text_of_asides(&asides)),
    )?;
    Ok(if sound { CommandAnswer::Yes } else { CommandAnswer::No })
}

/// Returns the last view in a folder, if it has an intact log of views.
fn last_view(
    disk: &mut Box<dyn Disk>,
    owner: LogOwner,
    found: &[StreamSurvey],
) -> Result<Option<LoggedView>, LogError> {
    let is_there = found.iter().any(|it| it.stream == VIEWS && it.survey.errors.is_empty());
    if !is_there {
        return Ok(None);
    }
    let (log, _) = StreamLog::read(disk, LogKey { owner, stream: VIEWS }, RecoveryCheck::Last)?;
    views::last(&log, disk)
}

/// A log that was put aside: its stream, its number, the total size of its files in bytes, and
/// its contents.
type PutAside = (StreamKey, aside::AsideNumber, u64, LogSurvey);

/// Returns the logs that were put aside, for the requested streams.
fn asides(selection: &LogSelection, owner: LogOwner) -> Result<Vec<PutAside>, Failure> {
    let mut disk = LogFolder::read(&selection.dir)?;
    let mut found = Vec::new();
    for stream in aside::asides(&mut disk)?.into_keys() {
        if selection.stream.is_some_and(|wanted| wanted != stream) {
            continue;
        }
        for (number, bytes) in aside::bytes_of(&mut disk, stream)? {
            let mut of: Box<dyn Disk> =
                Box::new(PutAsideFolder::new(LogFolder::read(&selection.dir)?, number));
            found.push((stream, number, bytes, list(&mut of, LogKey { owner, stream })?));
        }
    }
    Ok(found)
}

fn fields_of_aside((stream, number, bytes, survey): &PutAside) -> Value {
    let mut of = fields(survey);
    of["stream"] = json!(stream.to_string());
    of["number"] = json!(number);
    of["bytes"] = json!(bytes);
    of
}

fn text_of_asides(asides: &[PutAside]) -> String {
    let one = |(stream, number, bytes, survey): &PutAside| {
        let of = match (survey.first, survey.last) {
            (Some(first), Some(last)) => format!("records {first} to {last}"),
            _ => "no records".to_owned(),
        };
        let wrong: String = survey.errors.iter().map(|error| format!("; BAD: {error}")).collect();
        format!(
            "\nPut aside, because the topic had continued without this log: {stream}, number \
             {number}, {of}, {bytes} bytes; see --aside{wrong}."
        )
    };
    asides.iter().map(one).collect()
}

fn fields(survey: &LogSurvey) -> Value {
    let torn = survey.torn.as_ref();
    json!({
        "records": survey.records,
        "bytes": survey.bytes,
        "first_seq": survey.first.map(|version| version.0),
        "last_seq": survey.last.map(|version| version.0),
        "torn_tail": torn.map(|torn| json!({ "file": torn.file, "offset": torn.offset, "bytes": torn.bytes })),
        "errors": survey.errors.iter().map(LogError::to_string).collect::<Vec<_>>(),
    })
}

fn report(owner: LogOwner, found: &[StreamSurvey]) -> Value {
    let all = LogSurvey {
        records: found.iter().map(|it| it.survey.records).sum(),
        marks: 0,
        bytes: found.iter().map(|it| it.survey.bytes).sum(),
        first: found.iter().filter_map(|it| it.survey.first).min(),
        last: found.iter().filter_map(|it| it.survey.last).max(),
        checkpoint: None,
        torn: found.iter().find_map(|it| it.survey.torn.clone()),
        open_ended: found.iter().any(|it| it.survey.open_ended),
        errors: found.iter().flat_map(|it| it.survey.errors.clone()).collect(),
    };
    let streams = found.iter().map(|StreamSurvey { stream, description, survey, dates }| {
        let mut of = fields(survey);
        of["first_date"] = json!(dates.map(|dates| dates.first()));
        of["last_date"] = json!(dates.map(|dates| dates.last()));
        of["stream"] = json!(stream.to_string());
        of["topic"] = description::fields(description);
        of["marks"] = json!(survey.marks);
        of["checkpoint"] = json!(survey.checkpoint.map(|version| version.0));
        of
    });
    let streams: Vec<Value> = streams.collect();
    let mut report = fields(&all);
    report["streams"] = json!(streams);
    report["group"] = json!(owner.group.to_string());
    report["log"] = json!(owner.log.to_string());
    report
}

fn text(owner: LogOwner, found: &[StreamSurvey]) -> String {
    let mut text = format!("group {}, log {}\n", owner.group, owner.log);
    text += &format!(
        "{:<32} {:>12} {:>14} {:>10} {:>10}\n",
        "stream", "records", "bytes", "first", "last"
    );
    let number =
        |version: Option<Version>| version.map_or("-".to_owned(), |version| version.to_string());
    for StreamSurvey { stream, description, survey, dates } in found {
        let (first, last) = (number(survey.first), number(survey.last));
        let what = if *stream == VIEWS { "  views" } else { "" };
        text += &format!(
            "{stream} {:>12} {:>14} {first:>10} {last:>10}{what}\n",
            survey.records, survey.bytes
        );
        for line in description::lines(description) {
            text += &format!("  {line}\n");
        }
        if let Some(dates) = dates {
            text += &format!("  written from {} to {}\n", dates.first(), dates.last());
        }
        if let Some(checkpoint) = survey.checkpoint {
            text += &format!("  a checkpoint replaces all versions up to {checkpoint}\n");
        }
        if let Some(torn) = &survey.torn {
            text += &format!(
                "  torn: the last {} bytes of {}, from offset {} on; they are cut at the next opening\n",
                torn.bytes, torn.file, torn.offset
            );
        }
        for error in &survey.errors {
            text += &format!("  BAD: {error}\n");
        }
    }
    let wrong: usize = found.iter().map(|it| it.survey.errors.len()).sum();
    text += &match wrong {
        0 => "Nothing is wrong.".to_owned(),
        1 => "One thing is wrong.".to_owned(),
        many => format!("{many} things are wrong."),
    };
    text
}

fn dump(args: &DumpArgs, json: bool) -> CommandResult {
    let (mut disk, owner, streams) = open(&args.place)?;
    let mut found = Vec::new();
    for stream in streams {
        let mut unsaid = Ok(());
        let description = LogDescription::read(&args.place.dir, stream);
        let name = description.value("topic");
        let name = name.map_or_else(|| format!("{:x}", stream.0), str::to_owned);
        let of = survey(&mut disk, LogKey { owner, stream }, |record| {
            let wanted = (args.from..=args.to).contains(&record.version.0);
            // With `--json` the last line is the report; the lines before it are for human readers,
            // and are left out.
            if wanted && !json && unsaid.is_ok() {
                unsaid = say(&line(&name, &description, record, args.payload));
            }
        })?;
        unsaid?;
        let dates = LogDates::read(&mut disk, LogKey { owner, stream });
        found.push(StreamSurvey { stream, description, survey: of, dates });
    }
    let sound = found.iter().all(|it| it.survey.errors.is_empty());
    let mut report = report(owner, &found);
    if json {
        report["dump"] = records(&mut disk, owner, &found, args)?;
    }
    show(json, &report, &text(owner, &found))?;
    Ok(if sound { CommandAnswer::Yes } else { CommandAnswer::No })
}

/// Maximum number of records in one report.
const MOST_TOLD: usize = 100_000;

fn records(
    disk: &mut Box<dyn Disk>,
    owner: LogOwner,
    found: &[StreamSurvey],
    args: &DumpArgs,
) -> Result<Value, Failure> {
    let mut told = Vec::new();
    let mut too_many = false;
    for StreamSurvey { stream, description, .. } in found {
        survey(disk, LogKey { owner, stream: *stream }, |record| {
            if !(args.from..=args.to).contains(&record.version.0) {
                return;
            }
            too_many |= told.len() == MOST_TOLD;
            if !too_many {
                told.push(fields_of(*stream, description, record, args.payload));
            }
        })?;
    }
    if too_many {
        return Err(Failure::Usage(format!(
            "there are more than {MOST_TOLD} records: choose some with --from and --to"
        )));
    }
    Ok(json!(told))
}

fn fields_of(
    stream: StreamKey,
    description: &LogDescription,
    record: &LogRecord<'_>,
    payload: bool,
) -> Value {
    let entry = &record.entry;
    let mut fields = json!({
        "stream": stream.to_string(),
        "seq": record.version.0,
        "kind": kind(entry.kind),
        "epoch": entry.epoch.to_string(),
        "writer": entry.writer.to_string(),
        "writer_seq": entry.writer_sequence,
        "source_time": entry.source_time.0,
        "source_date": date(entry.source_time.0),
        "reception_time": entry.reception_time.0,
        "key": key(description, entry),
        "bytes": entry.payload.len(),
    });
    if has_samples(record) && description.data_type().is_some() {
        description::add_samples(description, entry.payload, &mut fields);
    }
    if payload {
        fields["payload"] = json!(hexadecimal(entry.payload));
    }
    if let Some(view) = LoggedView::of(entry) {
        fields["view"] = fields_of_view(&view);
    }
    fields
}

fn fields_of_view(view: &LoggedView) -> Value {
    let member = |member: &LoggedMember| {
        json!({
            "node": member.node.to_string(),
            "log": member.log.map(|log| log.to_string()),
            "votes": member.votes,
            "weight": member.weight,
        })
    };
    json!({
        "era": view.era,
        "number": view.number,
        "members": view.members.iter().map(member).collect::<Vec<_>>(),
        "awaits": view.awaits.iter().map(ToString::to_string).collect::<Vec<_>>(),
    })
}

fn text_of_view(view: &LoggedView) -> String {
    let member = |member: &LoggedMember| match member.log {
        Some(log) => format!("{} ({} votes) log {log}", member.node, member.votes),
        None => format!("{} ({} votes) no log", member.node, member.votes),
    };
    let members: Vec<String> = view.members.iter().map(member).collect();
    let awaits: Vec<String> = view.awaits.iter().map(ToString::to_string).collect();
    let awaits = match awaits.is_empty() {
        true => String::new(),
        false => format!("; awaits {}", awaits.join(", ")),
    };
    format!("view {} of era {:x}: {}{awaits}", view.number, view.era, members.join(", "))
}

/// Returns the digits of the key of the instance that a record is about.
fn key(description: &LogDescription, entry: &LogEntry<'_>) -> String {
    match description.data_type() {
        Some(_) => hexadecimal(&description.instance_key(entry.key.0, entry.payload)),
        None => hexadecimal(&entry.key.0),
    }
}

/// Whether a record may hold samples.
fn has_samples(record: &LogRecord<'_>) -> bool {
    !matches!(record.entry.kind, RecordKind::View | RecordKind::Mark)
}

fn line(name: &str, description: &LogDescription, record: &LogRecord<'_>, payload: bool) -> String {
    let entry = &record.entry;
    if let Some(view) = LoggedView::of(entry) {
        return format!("{name} {} {}", record.version, text_of_view(&view));
    }
    let bytes = if payload { hexadecimal(entry.payload) } else { String::new() };
    let samples = match has_samples(record) {
        true => description::sample_lines(description, entry.payload),
        false => Vec::new(),
    };
    let head = format!(
        "{name} {} {} epoch {} writer {}#{} at {} received {} key {} {} bytes {bytes}",
        record.version,
        kind(entry.kind),
        entry.epoch,
        entry.writer,
        entry.writer_sequence,
        date(entry.source_time.0),
        date(entry.reception_time.0),
        key(description, entry),
        entry.payload.len(),
    );
    let lines = samples.iter().map(|sample| format!("\n  {sample}"));
    head.trim_end().to_owned() + &lines.collect::<String>()
}

fn kind(kind: RecordKind) -> &'static str {
    match kind {
        RecordKind::Sample => "sample",
        RecordKind::Disposed => "disposed",
        RecordKind::Unregistered => "unregistered",
        RecordKind::View => "view",
        RecordKind::Mark => "mark",
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn remove_aside(args: &RemoveAsideArgs, json: bool) -> CommandResult {
    let RemoveAsideArgs { dir, number, stream } = args;
    let mut disk = folder_to_write(dir)?;
    let asides = aside::asides(&mut disk)?;
    let wanted = asides.iter().filter(|(_, numbers)| numbers.contains(number));
    let wanted = wanted.map(|(key, _)| *key).filter(|key| stream.is_none_or(|only| only == *key));
    let wanted: Vec<StreamKey> = wanted.collect();
    if wanted.is_empty() {
        let (of, dir) =
            (stream.map_or_else(String::new, |key| format!(" of stream {key}")), dir.display());
        return Err(Failure::new(format!("nothing{of} was put aside as number {number} in {dir}")));
    }
    let (mut removed, mut text) = (Vec::new(), String::new());
    for key in wanted {
        let bytes = aside::remove(&mut disk, key, *number)?;
        removed.push(json!({ "stream": key.to_string(), "bytes": bytes }));
        text += &format!("Removed of stream {key}: {bytes} bytes.\n");
    }
    show(json, &json!({ "removed": removed }), &text)?;
    Ok(CommandAnswer::Yes)
}

fn cut(args: &TruncateArgs, json: bool) -> CommandResult {
    let mut disk = folder_to_write(&args.dir)?;
    let owner = owner_of(&mut disk, &args.dir)?;
    if !folder::streams(&mut disk)?.contains(&args.stream) {
        return Err(Failure::new(format!(
            "there is no stream {} in {}",
            args.stream,
            args.dir.display()
        )));
    }
    truncate(&mut disk, LogKey { owner, stream: args.stream }, Version(args.after))?;
    if !folder::streams(&mut disk)?.contains(&args.stream) {
        let text = format!("Nothing is left of stream {}: its log begins anew.", args.stream);
        show(json, &json!({ "records": 0, "streams": [] }), &text)?;
        return Ok(CommandAnswer::Yes);
    }
    drop(disk);
    let selection = LogSelection { dir: args.dir.clone(), stream: Some(args.stream), aside: None };
    look(&selection, json, |disk, of| survey(disk, of, |_| {}))
}
