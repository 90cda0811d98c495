//! Commands that show, write, record and replay the samples of topics whose types are not
//! compiled in.
//!
//! Owns: the participation of such a command in a domain, and its end. Never does: look into a
//! sample by itself.

pub(crate) mod ls;
pub(crate) mod publish;
pub(crate) mod record;
pub(crate) mod recording;
pub(crate) mod replay;
pub(crate) mod spy;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use dds_api::domain::{DomainParticipant, ParticipantConfig};
use dds_api::infrastructure::Timeout;
use dds_api::qos::DataRepresentationId;
use dds_api::subscription::{DataReader, DataReaderBuilder};
use dds_api::topic::{AnnouncedTopic, TopicDescription};
use dds_api::types::{DynamicData, DynamicType, Encoding};

use crate::arguments;
use crate::end_signals::EndSignals;
use crate::outcome::Failure;

/// Interval between two checks whether the command must end.
const LOOK: Timeout = Timeout::millis(50);

/// Domain of a command.
#[derive(Args, Clone, Debug)]
pub(crate) struct Domain {
    /// Number of the domain.
    #[arg(long, default_value_t = 0, value_parser = arguments::domain())]
    domain: u32,
    /// Folder where participants meet; SQUALL_RUNTIME_DIR, or /tmp/squall-UID, by default.
    #[arg(long, value_name = "DIR")]
    runtime_dir: Option<PathBuf>,
}

impl Domain {
    pub(crate) fn join(&self) -> Result<DomainParticipant, Failure> {
        let mut config = ParticipantConfig::new();
        if let Some(folder) = &self.runtime_dir {
            config = config.runtime_dir(folder);
        }
        Ok(DomainParticipant::with_config(self.domain, config)?)
    }
}

/// Conditions under which a command ends.
struct EndCondition {
    end_signals: EndSignals,
    deadline: Option<Instant>,
}

impl EndCondition {
    fn new(limit: Option<Duration>) -> Result<EndCondition, Failure> {
        Ok(EndCondition {
            end_signals: EndSignals::new()?,
            deadline: limit.map(|limit| Instant::now() + limit),
        })
    }

    fn is_over(&self) -> bool {
        self.end_signals.are_there() || self.deadline.is_some_and(|at| Instant::now() >= at)
    }
}

/// Returns a size in bytes that a writer of the type needs: for an empty sample, and `usual` bytes
/// in its strings and sequences.
fn largest_sample(of: &DynamicType, usual: usize) -> usize {
    usual + DynamicData::new(of).cdr_size(Encoding::default()).unwrap_or_default()
}

/// Checks the membership: a participant that was stopped for too long has lost it.
fn require_membership(participant: &DomainParticipant) -> Result<(), Failure> {
    match participant.is_isolated() {
        false => Ok(()),
        true => Err(Failure::new(
            "the other participants excluded this one, because it was stopped for too long; start \
             the command again",
        )),
    }
}

/// Waits for the announcement of a topic, and returns it.
pub(crate) fn announced(
    participant: &DomainParticipant,
    name: &str,
    wait: Duration,
) -> Result<AnnouncedTopic, Failure> {
    let deadline = Instant::now() + wait;
    loop {
        let topics = participant.announced_topics();
        let names: Vec<String> = topics.iter().map(|topic| format!("`{}`", topic.name())).collect();
        if let Some(found) = topics.into_iter().find(|topic| topic.name() == name) {
            return Ok(found);
        }
        require_membership(participant)?;
        if Instant::now() >= deadline {
            let there = match names.is_empty() {
                true => "the domain has no topics".to_owned(),
                false => format!("the domain has the topics {}", names.join(", ")),
            };
            return Err(Failure::new(format!(
                "no participant of the domain had a writer or reader of a topic `{name}` within \
                 {} s; {there}",
                wait.as_secs_f64()
            )));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Creates readers in these partitions. If each partition is a stream by itself, creates one reader
/// for each.
fn readers<D: TopicDescription>(
    participant: &DomainParticipant,
    topic: &D,
    announced: &AnnouncedTopic,
    partitions: &[String],
    settled: impl Fn(DataReaderBuilder<D::Data>) -> DataReaderBuilder<D::Data>,
) -> Result<Vec<DataReader<D::Data>>, Failure> {
    let groups: Vec<Vec<String>> = match (announced.is_sharded(), partitions.is_empty()) {
        (true, true) => {
            let named = announced.partitions().iter().filter(|name| !name.is_empty());
            named.map(|name| vec![name.clone()]).chain([Vec::new()]).collect()
        }
        (true, false) => partitions.iter().map(|name| vec![name.clone()]).collect(),
        (false, true) => vec![vec!["*".to_owned(), String::new()]],
        (false, false) => vec![partitions.to_vec()],
    };
    let mut readers = Vec::new();
    for names in groups {
        let subscriber = participant.subscriber().partition(names).create()?;
        let either = [DataRepresentationId::Xcdr2, DataRepresentationId::Xcdr];
        let reader = subscriber.reader(topic).reliable_all().representations(either);
        readers.push(settled(reader).create()?);
    }
    Ok(readers)
}
