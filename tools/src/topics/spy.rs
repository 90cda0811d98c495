//! `squall spy`: the samples of a topic as text.
//!
//! Owns: the display of a sample. Never does: make a writer wait; samples that come faster than
//! they can be shown are left out.

use std::borrow::Cow;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;
use dds_api::subscription::{DataReaderBuilder, InstanceState, Sample};
use dds_api::types::DynamicData;

use super::{Domain, EndCondition, LOOK, announced, readers, require_membership};
use crate::arguments;
use crate::outcome::{CommandAnswer, CommandResult, Failure, say, tell};

/// Maximum number of samples of each instance waiting to be shown; beyond it the oldest are
/// left out.
const DEPTH: u32 = 1 << 12;

/// Show the samples of a topic.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    squall spy Attitude\n  \
    squall spy Track --filter \"altitude < 1000\" --count 10 --json\n\n\
    The type comes from the participants that write or read the topic. squall spy delays no writer: if samples come faster\n\
    than they are shown, the last samples of each instance are shown. With --json each sample is one line. Of an instance\n\
    that has ended, the key is shown. Exit code 1 if samples could not be read.")]
pub(crate) struct SpyArgs {
    /// Name of the topic.
    topic: String,
    #[command(flatten)]
    domain: Domain,
    /// Show only samples that pass a filter expression in the standard's SQL.
    #[arg(long, value_name = "EXPRESSION")]
    filter: Option<String>,
    /// Show samples of this partition, or of partitions that match this pattern; all without it.
    /// May be given more than once.
    #[arg(long, value_name = "NAME")]
    partition: Vec<String>,
    /// End after this many samples.
    #[arg(long)]
    count: Option<u64>,
    /// End after this many seconds.
    #[arg(long = "for", value_name = "SECONDS", value_parser = arguments::duration)]
    time: Option<Duration>,
    /// Seconds to wait for a participant that has the topic.
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = arguments::duration)]
    wait: Duration,
    /// Leave out samples that were written before the command joined and are kept.
    #[arg(long)]
    new: bool,
}

/// Runs the command.
pub(crate) fn run(args: &SpyArgs, json: bool) -> CommandResult {
    let until = EndCondition::new(args.time)?;
    let participant = args.domain.join()?;
    let found = announced(&participant, &args.topic, args.wait)?;
    let topic = participant.find_dynamic_topic(&args.topic, LOOK)?;
    let settled = |reader: DataReaderBuilder<DynamicData>| {
        let reader = reader.keep_last(DEPTH);
        if args.new { reader.volatile() } else { reader }
    };
    let readers = match &args.filter {
        None => readers(&participant, &topic, &found, &args.partition, settled)?,
        Some(filter) => {
            let part = participant.content_filtered_topic("what is shown", &topic, filter, &[]);
            let part = part.map_err(|error| Failure::Usage(error.to_string()))?;
            readers(&participant, &part, &found, &args.partition, settled)?
        }
    };
    let mut left = args.count.unwrap_or(u64::MAX);
    while left > 0 && !until.is_over() {
        for reader in &readers {
            let most = usize::try_from(left).unwrap_or(usize::MAX);
            for sample in reader.take(..most, LOOK)? {
                left -= 1;
                say(&if json { line(&sample) } else { text(&sample) })?;
            }
        }
        require_membership(&participant)?;
    }
    let unreadable: u64 = readers.iter().map(|reader| reader.unreadable_samples()).sum();
    if unreadable > 0 {
        tell(format_args!(
            "squall: {unreadable} samples could not be read: they are no values of the announced \
             type, or no participant announced their memory layout"
        ));
        return Ok(CommandAnswer::No);
    }
    Ok(CommandAnswer::Yes)
}

fn state(sample: &Sample<DynamicData>) -> &'static str {
    match sample.info().instance_state {
        _ if sample.data().is_some() => "alive",
        InstanceState::NotAliveNoWriters => "no writers",
        _ => "disposed",
    }
}

/// Returns what is known of a sample: its key alone if it is without data.
fn known(sample: &Sample<DynamicData>) -> Cow<'_, DynamicData> {
    match sample.data() {
        Some(data) => Cow::Borrowed(data),
        None => match sample.key_value().only_key() {
            Ok(key) => Cow::Owned(key),
            // A key that has been read can be written again.
            Err(_) => Cow::Borrowed(sample.key_value()),
        },
    }
}

fn text(sample: &Sample<DynamicData>) -> String {
    let info = sample.info();
    let (when, by, state) =
        (time_of_day(info.source_timestamp), info.publication_handle, state(sample));
    format!("-- {when} by {by}, {state}\n{}", known(sample).to_text())
}

/// Returns the sample as one line. No JSON library is used, because some numbers of IDL types
/// exceed its range.
fn line(sample: &Sample<DynamicData>) -> String {
    let info = sample.info();
    let nanos = info.source_timestamp.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    let data = known(sample).to_json_line();
    let (writer, number) = (info.publication_handle, info.sequence_number);
    let state = state(sample);
    format!(
        "{{\"source_timestamp\": {nanos}, \"writer\": \"{writer}\", \"number\": {number}, \"state\": \"{state}\", \"data\": {data}}}"
    )
}

/// Returns the time of the day, UTC.
fn time_of_day(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (of_day, micros) = (since.as_secs() % 86_400, since.subsec_micros());
    let (hours, minutes, seconds) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    format!("{hours:02}:{minutes:02}:{seconds:02}.{micros:06}Z")
}
