//! Applications from files: a participant and all its entities, as DDS-XML describes them.
//!
//! ```text
//!   files ──> provider (profiles, descriptions), IDL ──> ApplicationFiles
//!         ──> entities ──> Application
//! ```
//! Owns: which entities a description yields, and their names. Never does: read XML; `qos-profiles`
//! does that.

mod types;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use idl::Specification;
use idl_xtypes::{DynamicData, DynamicType};
use qos_profiles::xml::{
    EndpointDescription, GroupDescription, ParticipantDescription, ProfileErrors, QosProvider,
};

use self::types::TopicTypes;
use super::{DomainParticipant, ParticipantConfig};
use crate::infrastructure::{DdsError, DdsResult};
use crate::publication::{DataWriter, DataWriterBuilder, Publisher, PublisherBuilder};
use crate::subscription::{DataReader, DataReaderBuilder, Subscriber, SubscriberBuilder};
use crate::topic::{ContentFilteredTopic, Topic, TopicBuilder};

/// Files that describe applications, read and found valid.
///
/// ```
/// use dds_api::domain::{Application, ApplicationFiles};
/// # use dds_api::prelude::*;
///
/// # fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let files = ApplicationFiles::from_files(["avionics.xml"])?;
/// for name in files.participant_names() {
///     let application = Application::new(&files, &name, ParticipantConfig::new())?;
/// }
/// # Ok(())
/// # }
/// ```
pub struct ApplicationFiles {
    provider: Arc<QosProvider>,
    types: TopicTypes,
}

impl ApplicationFiles {
    /// Reads files, which may refer to each other in any order. A type must stand before its uses.
    ///
    /// # Errors
    /// All errors in profiles, types, domains and participants, each with its location.
    pub fn from_files<P: AsRef<Path>>(
        paths: impl IntoIterator<Item = P>,
    ) -> Result<Self, ProfileErrors> {
        let mut types = TopicTypes::default();
        let provider = QosProvider::from_files_with(paths, |description| types.read(description))?;
        Ok(Self { provider: Arc::new(provider), types })
    }

    /// Profiles of the files, and their descriptions of participants.
    pub fn provider(&self) -> &Arc<QosProvider> {
        &self.provider
    }

    /// Names of all participants: `Library::Participant`.
    pub fn participant_names(&self) -> Vec<String> {
        self.provider.participant_names()
    }

    /// Names of the types that topics have.
    pub fn type_names(&self) -> impl Iterator<Item = &str> {
        self.types.names()
    }

    /// A type that topics have, by its name with modules.
    pub fn dynamic_type(&self, name: &str) -> Option<&DynamicType> {
        self.types.get(name)
    }

    /// All types of the files, also those that no topic has.
    pub fn types(&self) -> &Specification {
        &self.types.specification
    }
}

/// A participant that was created from files, with all its entities by name:
/// see [`DomainParticipant::from_xml`].
///
/// ```
/// # use dds_api::prelude::*;
/// # fn example() -> DdsResult<()> {
/// let application = DomainParticipant::from_xml(["avionics.xml"], "Avionics::Display")?;
/// for sample in application.reader("Screen::Attitude")?.take_data(.., Timeout::secs(1))? {
///     println!("{}", sample.to_json());
/// }
/// # Ok(())
/// # }
/// ```
pub struct Application {
    name: String,
    participant: DomainParticipant,
    topics: BTreeMap<String, Topic<DynamicData>>,
    filters: BTreeMap<String, ContentFilteredTopic<DynamicData>>,
    publishers: BTreeMap<String, Publisher>,
    subscribers: BTreeMap<String, Subscriber>,
    writers: BTreeMap<String, DataWriter<DynamicData>>,
    readers: BTreeMap<String, DataReader<DynamicData>>,
}

impl DomainParticipant {
    /// Joins a domain as files describe it: with the topics, publishers, subscribers, writers and
    /// readers of a participant in the files, and with policies from their profiles. Samples are
    /// [`DynamicData`]. A program that was compiled with the type uses the same topic.
    /// `docs/reference/application-files.md` describes the content of the files.
    ///
    /// # Errors
    /// [`DdsError::BadParameter`] if the files have an error or describe no such participant; the
    /// message says what and where. Otherwise the errors of the entities' builders.
    ///
    /// ```no_run
    /// use dds_api::prelude::*;
    /// use dds_api::types::{DynamicData, Value};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let application = DomainParticipant::from_xml(["avionics.xml"], "Avionics::Sensor")?;
    /// let writer = application.writer("Air::AttitudeWriter")?;
    /// let mut attitude = DynamicData::new(&application.dynamic_type("Attitude")?);
    /// attitude.set("pitch", Value::Double(1.5))?;
    /// writer.write(&attitude)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn from_xml<P: AsRef<Path>>(
        files: impl IntoIterator<Item = P>,
        name: &str,
    ) -> DdsResult<Application> {
        Self::from_xml_with(files, name, ParticipantConfig::new())
    }

    /// Joins a domain as [`from_xml`](Self::from_xml) does, with further configuration of the
    /// participant. The [profile files](ParticipantConfig::qos_files) that the configuration names
    /// are read beside the others.
    ///
    /// # Errors
    /// The errors of [`from_xml`](Self::from_xml), and [`DdsError::BadParameter`] if the
    /// configuration has a provider of profiles.
    pub fn from_xml_with<P: AsRef<Path>>(
        files: impl IntoIterator<Item = P>,
        name: &str,
        config: ParticipantConfig,
    ) -> DdsResult<Application> {
        let more = config.profile_files()?;
        let files = files.into_iter().map(|file| file.as_ref().to_owned()).chain(more);
        let files = ApplicationFiles::from_files(files.collect::<Vec<PathBuf>>())
            .map_err(|wrong| DdsError::BadParameter(format!("{wrong:#}")))?;
        Application::new(&files, name, config)
    }
}

impl Application {
    /// Creates a participant and its entities from files that were read.
    ///
    /// # Errors
    /// [`DdsError::BadParameter`] if the files describe no such participant. Otherwise the errors
    /// of the entities' builders.
    pub fn new(
        files: &ApplicationFiles,
        name: &str,
        config: ParticipantConfig,
    ) -> DdsResult<Application> {
        let description = files.provider.participant(name).map_err(|unknown| {
            let places = files.provider.places().join(", ");
            DdsError::BadParameter(format!("{unknown} looked for in: {places}"))
        })?;
        let mut config = config.qos_provider(Arc::clone(&files.provider));
        config.own_set.clone_from(&description.qos);
        let participant = DomainParticipant::with_config(description.domain_id, config)?;
        let mut application = Application {
            name: description.name.clone(),
            participant,
            topics: BTreeMap::new(),
            filters: BTreeMap::new(),
            publishers: BTreeMap::new(),
            subscribers: BTreeMap::new(),
            writers: BTreeMap::new(),
            readers: BTreeMap::new(),
        };
        application.make(files, &description)?;
        Ok(application)
    }

    fn make(
        &mut self,
        files: &ApplicationFiles,
        description: &ParticipantDescription,
    ) -> DdsResult<()> {
        for topic in &description.topics {
            let of = files.dynamic_type(&topic.type_name).ok_or_else(|| {
                DdsError::BadParameter(format!("there is no type `{}`", topic.type_name))
            })?;
            let builder = self.participant.dynamic_topic(&topic.name, of);
            let builder = by(&topic.qos, builder, TopicBuilder::profile);
            self.topics.insert(topic.name.clone(), builder.create()?);
        }
        description.publishers.iter().try_for_each(|group| self.publisher_of(group))?;
        description.subscribers.iter().try_for_each(|group| self.subscriber_of(group))
    }

    fn publisher_of(&mut self, group: &GroupDescription) -> DdsResult<()> {
        let publisher = match &group.name {
            None => None,
            Some(name) => {
                let builder = self.participant.publisher();
                let publisher = by(&group.qos, builder, PublisherBuilder::profile).create()?;
                self.publishers.insert(name.clone(), publisher.clone());
                Some(publisher)
            }
        };
        for writer in &group.endpoints {
            let topic = self.topic(&writer.topic)?;
            let builder = match &publisher {
                Some(publisher) => publisher.writer(&topic),
                None => self.participant.writer(&topic),
            };
            let writer_of = by(&writer.qos, builder, DataWriterBuilder::profile).create()?;
            self.writers.insert(path(group, writer), writer_of);
        }
        Ok(())
    }

    fn subscriber_of(&mut self, group: &GroupDescription) -> DdsResult<()> {
        let subscriber = match &group.name {
            None => None,
            Some(name) => {
                let builder = self.participant.subscriber();
                let subscriber = by(&group.qos, builder, SubscriberBuilder::profile).create()?;
                self.subscribers.insert(name.clone(), subscriber.clone());
                Some(subscriber)
            }
        };
        for reader in &group.endpoints {
            let topic = self.topic(&reader.topic)?;
            let path = path(group, reader);
            let filtered = match &reader.filter {
                None => None,
                Some(filter) => {
                    let (expression, parameters) = (&filter.expression, &filter.parameters);
                    let name = &filter.name;
                    let made = self
                        .participant
                        .content_filtered_topic(name, &topic, expression, parameters)?;
                    self.filters.insert(path.clone(), made.clone());
                    Some(made)
                }
            };
            let builder = match (&subscriber, &filtered) {
                (Some(subscriber), Some(filtered)) => subscriber.reader(filtered),
                (Some(subscriber), None) => subscriber.reader(&topic),
                (None, Some(filtered)) => self.participant.reader(filtered),
                (None, None) => self.participant.reader(&topic),
            };
            let builder = by(&reader.qos, builder, DataReaderBuilder::profile);
            self.readers.insert(path, builder.create()?);
        }
        Ok(())
    }

    /// Name of the participant in the files: `Library::Participant`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The participant.
    pub fn participant(&self) -> &DomainParticipant {
        &self.participant
    }

    /// A topic of the participant or of its domain.
    ///
    /// # Errors
    /// As for all these look-ups, [`DdsError::BadParameter`] if there is none of this name; the
    /// message lists the names that exist.
    pub fn topic(&self, name: &str) -> DdsResult<Topic<DynamicData>> {
        self.find("topic", &self.topics, name).cloned()
    }

    /// The type of a topic.
    pub fn dynamic_type(&self, topic: &str) -> DdsResult<DynamicType> {
        self.find("topic", &self.topics, topic).map(Topic::dynamic_type)
    }

    /// A publisher.
    pub fn publisher(&self, name: &str) -> DdsResult<Publisher> {
        self.find("publisher", &self.publishers, name).cloned()
    }

    /// A subscriber.
    pub fn subscriber(&self, name: &str) -> DdsResult<Subscriber> {
        self.find("subscriber", &self.subscribers, name).cloned()
    }

    /// A writer: `Publisher::Writer`, or its own name alone if it belongs to no publisher.
    pub fn writer(&self, name: &str) -> DdsResult<DataWriter<DynamicData>> {
        self.find("writer", &self.writers, name).cloned()
    }

    /// A reader: `Subscriber::Reader`, or its own name alone if it belongs to no subscriber.
    pub fn reader(&self, name: &str) -> DdsResult<DataReader<DynamicData>> {
        self.find("reader", &self.readers, name).cloned()
    }

    /// The filter of a reader, by the reader's name. The parameters of the filter may change.
    pub fn filter(&self, reader: &str) -> DdsResult<ContentFilteredTopic<DynamicData>> {
        self.find("reader with a filter", &self.filters, reader).cloned()
    }

    fn find<'a, T>(
        &self,
        what: &str,
        all: &'a BTreeMap<String, T>,
        name: &str,
    ) -> DdsResult<&'a T> {
        all.get(name).ok_or_else(|| {
            let names: Vec<String> = all.keys().map(|name| format!("`{name}`")).collect();
            let there = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            DdsError::BadParameter(format!(
                "participant `{}` has no {what} `{name}`; available: {there}",
                self.name
            ))
        })
    }
}

/// Gives a profile to a builder, if a profile is named.
fn by<B>(profile: &Option<String>, builder: B, set: fn(B, &str) -> B) -> B {
    match profile {
        Some(profile) => set(builder, profile),
        None => builder,
    }
}

/// Name of a writer or reader within an application.
fn path(group: &GroupDescription, endpoint: &EndpointDescription) -> String {
    match &group.name {
        Some(group) => format!("{group}::{}", endpoint.name),
        None => endpoint.name.clone(),
    }
}
