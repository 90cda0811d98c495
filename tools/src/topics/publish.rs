//! `squall publish`: samples from the command line or standard input.
//!
//! Owns: the choice and the number of samples. Never does: know the type by itself; it is learnt
//! from the domain or from IDL.

use std::io::BufRead;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use dds_api::domain::DomainParticipant;
use dds_api::infrastructure::Timeout;
use dds_api::topic::Topic;
use dds_api::types::{DynamicData, DynamicType};
use serde_json::json;

use super::{Domain, EndCondition, announced, largest_sample, require_membership};
use crate::arguments;
use crate::idl::SearchArgs;
use crate::outcome::{CommandAnswer, CommandResult, Failure, show};
use crate::types::CompiledFile;

/// Maximum time for readers to receive the samples before the command ends.
const PATIENCE: Timeout = Timeout::secs(10);

/// Write samples of a topic.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    squall publish Wind '{station: 7, speed: 12.5}'\n  \
    squall publish Wind '{station: 7}' --count 100 --every 0.01\n  \
    squall publish Wind --idl weather.idl --readers 0 < samples.jsonl\n\n\
    A sample is JSON, or text as squall spy shows it; members that are left out have their defaults. Without one each line of\n\
    standard input is a sample. The type comes from the participants that have the topic, or from --idl.")]
pub(crate) struct PublishArgs {
    /// Name of the topic.
    topic: String,
    /// The sample; without it one from each line of standard input.
    sample: Option<String>,
    #[command(flatten)]
    domain: Domain,
    /// Number of times to write each sample.
    #[arg(long, default_value_t = 1)]
    count: u64,
    /// Seconds between samples.
    #[arg(long, value_name = "SECONDS", default_value = "0", value_parser = arguments::duration)]
    every: Duration,
    /// Wait for this many readers first.
    #[arg(long, default_value_t = 1)]
    readers: usize,
    /// Seconds to wait for them, and for a participant that has the topic.
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = arguments::duration)]
    wait: Duration,
    /// Dispose the instance of each sample instead.
    #[arg(long)]
    dispose: bool,
    /// Write in this partition, or in several.
    #[arg(long, value_name = "NAME")]
    partition: Vec<String>,
    /// IDL file with the type. Unless the topic exists, it is unordered.
    #[arg(long, value_name = "FILE")]
    idl: Option<PathBuf>,
    /// Name of the type in the file, if there are several topic types.
    #[arg(long = "type", value_name = "NAME", requires = "idl")]
    type_name: Option<String>,
    #[command(flatten)]
    search: SearchArgs,
    /// With --idl: the topic is atomic.
    #[arg(long, requires = "idl")]
    atomic: bool,
    /// With --idl: the topic keeps the last sample of each instance for late joiners.
    #[arg(long, requires = "idl")]
    transient_local: bool,
}

/// Runs the command.
pub(crate) fn run(args: &PublishArgs, json: bool) -> CommandResult {
    let until = EndCondition::new(None)?;
    let (every, wait) = (args.every, args.wait);
    let of = match &args.idl {
        Some(file) => {
            let source = CompiledFile::read(file, &args.search)?;
            Some(source.named(&source.name(args.type_name.as_deref())?)?)
        }
        None => None,
    };
    // Errors in the sample are reported before the command waits.
    if let (Some(of), Some(text)) = (&of, &args.sample) {
        parsed(of, text, "the sample")?;
    }
    let participant = args.domain.join()?;
    let topic = topic(args, &participant, of.as_ref())?;
    let given = args.sample.as_ref().map(|text| parsed(&topic.dynamic_type(), text, "the sample"));
    let given = given.transpose()?;
    let publisher = participant.publisher().partition(args.partition.clone()).create()?;
    let largest = largest_sample(&topic.dynamic_type(), 1 << 20);
    let writer = publisher.writer(&topic).max_sample_size(largest).memory(4 * largest);
    // What was written stays when the command ends.
    let writer = writer.autodispose_unregistered_instances(false).create()?;
    writer.wait_for_readers(args.readers, wait)?;
    let (mut written, mut next) = (0, Instant::now());
    let mut write = |sample: DynamicData| -> Result<(), Failure> {
        for _ in 0..args.count {
            if until.is_over() {
                break;
            }
            if args.dispose { writer.dispose(&sample) } else { writer.write(&sample) }?;
            written += 1;
            next += every;
            pause(next, &until);
        }
        Ok(())
    };
    match given {
        Some(sample) => write(sample)?,
        None => {
            for (number, line) in std::io::stdin().lock().lines().enumerate() {
                let line = line.map_err(|error| {
                    Failure::new(format!("standard input cannot be read: {error}"))
                })?;
                if until.is_over() {
                    break;
                }
                if !line.trim().is_empty() {
                    let what = format!("line {} of standard input", number + 1);
                    write(parsed(&topic.dynamic_type(), &line, &what)?)?;
                }
            }
        }
    }
    require_membership(&participant)?;
    writer.wait_for_acknowledgments(PATIENCE)?;
    let value = json!({ "topic": args.topic, "samples": written });
    show(json, &value, &format!("{written} samples of {}", args.topic))?;
    Ok(CommandAnswer::Yes)
}

/// Creates the topic as announced by others, or else as given by the options.
fn topic(
    args: &PublishArgs,
    participant: &DomainParticipant,
    of: Option<&DynamicType>,
) -> Result<Topic<DynamicData>, Failure> {
    let Some(of) = of else {
        announced(participant, &args.topic, args.wait)?;
        return Ok(participant.find_dynamic_topic(&args.topic, Timeout::secs(1))?);
    };
    let topic = participant.dynamic_topic(&args.topic, of);
    Ok(match (args.transient_local, args.atomic) {
        (true, _) => topic.transient_local(),
        (false, true) => topic.atomic(),
        (false, false) => topic,
    }
    .create()?)
}

fn parsed(of: &DynamicType, text: &str, what: &str) -> Result<DynamicData, Failure> {
    DynamicData::parse(of, text).map_err(|error| Failure::Usage(format!("{what}: {error}")))
}

/// Waits until a time or a signal.
pub(super) fn pause(next: Instant, until: &EndCondition) {
    while Instant::now() < next && !until.is_over() {
        let left = next.saturating_duration_since(Instant::now());
        std::thread::sleep(left.min(Duration::from_millis(50)));
    }
}
