//! `squall record`: topics to a file, as they are written.
//!
//! Owns: the choice of topics, and the order in which samples came. Never does: lose a sample that
//! its reader received; before that, it makes writers wait.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant, UNIX_EPOCH};

use clap::Args;
use dds_api::domain::DomainParticipant;
use dds_api::infrastructure::Timeout;
use dds_api::qos::{
    DataRepresentationId, DestinationOrderQosPolicyKind, HistoryQosPolicyKind,
    OwnershipQosPolicyKind,
};
use dds_api::subscription::{DataReader, InstanceState, Sample};
use dds_api::topic::AnnouncedTopic;
use dds_api::types::SerializedData;
use idl_cdr::to_cdr;
use idl_xtypes::ObjectKind;
use qos_profiles::Glob;
use serde_json::json;

use super::recording::{RecordedSample, RecordedTopic, Recorder, RecordingEntry};
use super::{Domain, EndCondition, LOOK, readers, require_membership};
use crate::arguments;
use crate::outcome::{CommandAnswer, CommandResult, Failure, say, show};

/// Record topics to a file.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    squall record --out flight.rec\n  \
    squall record --topics 'Nav/*' --topics Alarm --out flight.rec --for 60\n\n\
    A topic is recorded from the moment when a participant has it, including its kept samples. squall record is a reliable\n\
    reader: a disk that is slower than the writers delays them. Ends at SIGINT or SIGTERM. squall replay writes the samples again.")]
pub(crate) struct RecordArgs {
    /// Record topics whose names match: `*` stands for any text, `?` for one character. May be
    /// given more than once; without it all topics are recorded.
    #[arg(long, value_name = "GLOB")]
    topics: Vec<String>,
    /// Output file, which must not exist.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    #[command(flatten)]
    domain: Domain,
    /// End after this many seconds.
    #[arg(long = "for", value_name = "SECONDS", value_parser = arguments::duration)]
    time: Option<Duration>,
    /// End after this many samples.
    #[arg(long)]
    count: Option<u64>,
}

/// A recorded topic.
struct TopicReaders {
    number: u32,
    readers: Vec<DataReader<SerializedData>>,
}

/// Runs the command.
pub(crate) fn run(args: &RecordArgs, json: bool) -> CommandResult {
    let globs = globs(&args.topics)?;
    let until = EndCondition::new(args.time)?;
    let mut recorder = Recorder::new(&args.out)?;
    let participant = args.domain.join()?;
    let began = Instant::now();
    let mut sources: BTreeMap<String, Option<TopicReaders>> = BTreeMap::new();
    let (mut samples, mut looked) = (0_u64, None::<Instant>);
    let most = args.count.unwrap_or(u64::MAX);
    'recording: while samples < most && !until.is_over() {
        if looked.is_none_or(|looked| looked.elapsed().as_millis() >= 20) {
            for topic in participant.announced_topics() {
                let is_new = !sources.contains_key(topic.name());
                if is_new && globs.iter().any(|glob| glob.matches(topic.name())) {
                    let number = sources.len() as u32;
                    let source = open(&participant, &topic, number, &mut recorder)?;
                    if !json {
                        let what = if source.is_some() { "" } else { "not " };
                        match say(&format!("{}: {what}recorded", topic.name())) {
                            // Nobody reads the output: the recording ends, and is complete so far.
                            Err(Failure::OutputClosed) => break 'recording,
                            said => said?,
                        }
                    }
                    sources.insert(topic.name().to_owned(), source);
                }
            }
            require_membership(&participant)?;
            looked = Some(Instant::now());
        }
        let before = samples;
        for source in sources.values().flatten() {
            for reader in &source.readers {
                let left = usize::try_from(most - samples).unwrap_or(usize::MAX);
                for sample in reader.take(..left.min(1 << 10), Timeout::NOW)? {
                    let came = began.elapsed().as_nanos() as u64;
                    recorder.put(&RecordingEntry::Sample(recorded(
                        source.number,
                        came,
                        &sample,
                    )))?;
                    samples += 1;
                }
            }
        }
        if samples == before {
            recorder.flush()?;
            std::thread::sleep(Duration::from_millis(2));
        }
    }
    recorder.flush()?;
    let seconds = began.elapsed().as_secs_f64();
    let topics = sources.values().flatten().count();
    let value = json!({
        "topics": topics, "samples": samples, "seconds": seconds, "bytes": recorder.bytes,
    });
    let text =
        format!("{samples} samples of {topics} topics in {seconds:.1} s, {} bytes", recorder.bytes);
    show(json, &value, &text)?;
    let left_out = sources.values().any(Option::is_none);
    Ok(if left_out { CommandAnswer::No } else { CommandAnswer::Yes })
}

/// Parses patterns of topic names; none stand for all topics.
pub(crate) fn globs(patterns: &[String]) -> Result<Vec<Glob>, Failure> {
    let all = ["*".to_owned()];
    let patterns = if patterns.is_empty() { &all[..] } else { patterns };
    let glob = |text: &String| {
        Glob::new(text).map_err(|error| Failure::Usage(format!("--topics `{text}`: {error}")))
    };
    patterns.iter().map(glob).collect()
}

/// Creates readers of a topic; `None` if its type is not announced.
fn open(
    participant: &DomainParticipant,
    announced: &AnnouncedTopic,
    number: u32,
    recorder: &mut Recorder,
) -> Result<Option<TopicReaders>, Failure> {
    let Some(of) = announced.dynamic_type() else { return Ok(None) };
    let topic = participant.find_serialized_topic(announced.name(), LOOK)?;
    let readers = readers(participant, &topic, announced, &[], |reader| reader)?;
    let qos = topic.qos();
    let service = &qos.durability_service;
    recorder.put(&RecordingEntry::Topic(RecordedTopic {
        number,
        name: announced.name().to_owned(),
        of: to_cdr(&of.objects(ObjectKind::Complete))
            .map_err(|error| Failure::new(error.to_string()))?,
        atomic: topic.is_atomic(),
        kept: topic.is_kept(),
        logged: topic.is_logged(),
        exclusive: qos.ownership.kind == OwnershipQosPolicyKind::Exclusive,
        by_source_timestamp: qos.destination_order.kind
            == DestinationOrderQosPolicyKind::BySourceTimestamp,
        depth: match service.history_kind {
            HistoryQosPolicyKind::KeepLast => service.history_depth,
            HistoryQosPolicyKind::KeepAll => 0,
        },
        cdr_version: match qos.representation.value.first() {
            Some(DataRepresentationId::Xcdr2) => 2,
            Some(_) => 1,
            None => 0,
        },
    }))?;
    Ok(Some(TopicReaders { number, readers }))
}

fn recorded(topic: u32, came: u64, sample: &Sample<SerializedData>) -> RecordedSample {
    let info = sample.info();
    let since = info.source_timestamp.duration_since(UNIX_EPOCH).unwrap_or_default();
    let fate = match info.instance_state {
        _ if info.valid_data => 0,
        InstanceState::NotAliveNoWriters => 2,
        _ => 1,
    };
    RecordedSample {
        topic,
        came,
        source_timestamp: u64::try_from(since.as_nanos()).unwrap_or(u64::MAX),
        fate,
        payload: sample.key_value().payload().to_vec(),
    }
}
