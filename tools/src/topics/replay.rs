//! `squall replay`: writes recorded samples again.
//!
//! Owns: the pace. Never does: change a sample.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant, UNIX_EPOCH};

use clap::Args;
use dds_api::domain::DomainParticipant;
use dds_api::infrastructure::Timeout;
use dds_api::publication::DataWriter;
use dds_api::qos::DataRepresentationId;
use dds_api::types::{DynamicType, SerializedData};
use serde_json::json;

use super::record::globs;
use super::recording::{RecordedSample, RecordedTopic, Recording, RecordingEntry};
use super::{Domain, EndCondition, largest_sample, require_membership};
use crate::arguments::{self, MOST_SECONDS};
use crate::outcome::{CommandAnswer, CommandResult, Failure, show};

/// Maximum time for readers to receive the samples before the command ends.
const PATIENCE: Timeout = Timeout::secs(10);

/// Write recorded samples again.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    squall replay flight.rec\n  \
    squall replay flight.rec --topics 'Nav/*' --speed 10 --readers 1\n\n\
    Topics have the types and levels with which they were recorded; readers must use the same ones. Samples get the current\n\
    time as time stamp, unless --timestamps is given.")]
pub(crate) struct ReplayArgs {
    /// Recording to read.
    file: PathBuf,
    /// Write only topics whose names match. May be given more than once.
    #[arg(long, value_name = "GLOB")]
    topics: Vec<String>,
    #[command(flatten)]
    domain: Domain,
    /// Factor of the recorded pace; 0: as fast as readers take the samples.
    #[arg(long, value_name = "TIMES", default_value_t = 1.0)]
    speed: f64,
    /// Wait for this many readers of each topic before its first sample.
    #[arg(long, default_value_t = 0)]
    readers: usize,
    /// Seconds to wait for them.
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = arguments::duration)]
    wait: Duration,
    /// Use the recorded time stamps of samples.
    #[arg(long)]
    timestamps: bool,
}

/// A topic that is written again.
struct ReplayedTopic {
    of: DynamicType,
    writer: DataWriter<SerializedData>,
}

/// Runs the command.
pub(crate) fn run(args: &ReplayArgs, json: bool) -> CommandResult {
    let globs = globs(&args.topics)?;
    if !(args.speed >= 0.0 && args.speed.is_finite()) {
        return Err(Failure::Usage(format!(
            "--speed {}: use a finite number, 0 or more",
            args.speed
        )));
    }
    let mut recording = Recording::open(&args.file)?;
    let until = EndCondition::new(None)?;
    let participant = args.domain.join()?;
    let mut targets: BTreeMap<u32, Option<ReplayedTopic>> = BTreeMap::new();
    let (mut samples, began) = (0_u64, Instant::now());
    // The time spent waiting for readers does not count.
    let mut waited = Duration::ZERO;
    while let Some(entry) = recording.next()?
        && !until.is_over()
    {
        match entry {
            RecordingEntry::Topic(topic) => {
                let is_wanted = globs.iter().any(|glob| glob.matches(&topic.name));
                let target = is_wanted.then(|| open(&participant, &topic)).transpose()?;
                if let Some(target) = &target {
                    let start = Instant::now();
                    target.writer.wait_for_readers(args.readers, args.wait)?;
                    waited += start.elapsed();
                }
                targets.insert(topic.number, target);
            }
            RecordingEntry::Sample(sample) => {
                let target = targets.get(&sample.topic).ok_or_else(|| {
                    Failure::new(format!(
                        "{}: a sample of topic {} comes before any entry of this topic: the file \
                         is damaged",
                        args.file.display(),
                        sample.topic
                    ))
                })?;
                let Some(target) = target else { continue };
                if args.speed > 0.0 {
                    let seconds = sample.came as f64 / 1e9 / args.speed;
                    let at = Duration::from_secs_f64(seconds.min(MOST_SECONDS as f64));
                    super::publish::pause(began + waited + at, &until);
                }
                write(target, sample, args.timestamps)?;
                samples += 1;
            }
        }
    }
    require_membership(&participant)?;
    for target in targets.values().flatten() {
        target.writer.wait_for_acknowledgments(PATIENCE)?;
    }
    let seconds = (began.elapsed() - waited).as_secs_f64();
    let value = json!({ "topics": targets.values().flatten().count(), "samples": samples, "seconds": seconds });
    show(json, &value, &format!("{samples} samples in {seconds:.1} s"))?;
    Ok(CommandAnswer::Yes)
}

fn open(
    participant: &DomainParticipant,
    recorded: &RecordedTopic,
) -> Result<ReplayedTopic, Failure> {
    let wrong = |why: String| Failure::new(format!("topic `{}`: its type: {why}", recorded.name));
    let objects = recorded.type_objects().map_err(wrong)?;
    let of = DynamicType::from_objects(&objects).map_err(|error| wrong(error.to_string()))?;
    let mut topic = participant.serialized_topic(&recorded.name, &of);
    topic = match (recorded.logged, recorded.kept, recorded.atomic) {
        (true, ..) => topic.persistent(),
        (_, true, _) => topic.transient_local(),
        (_, _, true) => topic.atomic(),
        _ => topic,
    };
    if recorded.kept {
        topic = match recorded.depth {
            0 => topic.keep_all(),
            depth => topic.keep_last(depth),
        };
    }
    if recorded.exclusive {
        topic = topic.exclusive_ownership();
    }
    if recorded.by_source_timestamp {
        topic = topic.by_source_timestamp();
    }
    let topic = topic.create()?;
    let largest = largest_sample(&of, 4 << 20);
    let mut writer = participant.writer(&topic).memory(2 * largest).max_sample_size(largest);
    writer = match recorded.cdr_version {
        1 => writer.representation(DataRepresentationId::Xcdr),
        2 => writer.representation(DataRepresentationId::Xcdr2),
        _ => writer,
    };
    // Only what was recorded as disposed is disposed.
    let writer = writer.autodispose_unregistered_instances(false).create()?;
    Ok(ReplayedTopic { of, writer })
}

fn write(target: &ReplayedTopic, sample: RecordedSample, timestamps: bool) -> Result<(), Failure> {
    let ReplayedTopic { of, writer } = target;
    let time = UNIX_EPOCH + Duration::from_nanos(sample.source_timestamp);
    let of_key = |payload: Vec<u8>| SerializedData::of_key(of, payload);
    Ok(match (sample.fate, timestamps) {
        (0, false) => writer.write(&SerializedData::new(of, sample.payload)),
        (0, true) => writer.write_w_timestamp(&SerializedData::new(of, sample.payload), time),
        (1, false) => writer.dispose(&of_key(sample.payload)),
        (1, true) => writer.dispose_w_timestamp(&of_key(sample.payload), time),
        (_, timestamps) => {
            let key = of_key(sample.payload);
            // The recorded writer knew the instance. Another writer that it was recorded with may
            // have unregistered the instance before.
            writer.register_instance(&key)?;
            match timestamps {
                false => writer.unregister_instance(&key),
                true => writer.unregister_instance_w_timestamp(&key, time),
            }
        }
    }?)
}
