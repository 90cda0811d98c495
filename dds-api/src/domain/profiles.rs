//! QoS profiles in use: the policies that entities take from a profile by its name.
//!
//! ```text
//!   files ──> provider ──> builders ──> entities
//!                └── read again ──> those entities that run (reload)
//! ```
//! Owns: the participant's provider, the policies that a profile gives to an entity, and which
//! running entity follows which profile. Never does: read XML; `qos-profiles` does that.

mod reload;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use qos_profiles::xml::{QosProvider, ResolvedEntity};
use qos_profiles::{
    DataReaderQos, DataWriterQos, DomainParticipantQos, DurabilityQosPolicyKind, EntityKind,
    EntityQos, HistoryQosPolicyKind, PublisherQos, ReliabilityQosPolicyKind,
    ResourceLimitsQosPolicy, SubscriberQos, TopicQos,
};

use super::factory::DomainParticipantFactory;
use super::{EntityGroup, Inner};
use crate::infrastructure::{DdsError, DdsResult, PublisherListener, SubscriberListener};
use crate::topic::{TopicEntity, TopicPolicies};

pub use reload::{QosReload, ReloadedEntity};

/// Source of a participant's profiles.
#[derive(Clone, Debug, Default)]
pub(super) enum Source {
    /// Files in `SQUALL_QOS_FILES`, and the file in the working folder.
    #[default]
    Environment,
    Files(Vec<PathBuf>),
    Provider(Arc<QosProvider>),
}

impl Source {
    /// Files that were named, for a caller that reads more files with them.
    pub(super) fn files(&self) -> DdsResult<Vec<PathBuf>> {
        match self {
            Source::Environment => Ok(Vec::new()),
            Source::Files(files) => Ok(files.clone()),
            Source::Provider(_) => Err(DdsError::BadParameter(
                "the configuration has a provider of profiles: name its files beside those of the application"
                    .to_owned(),
            )),
        }
    }
}

/// Link between an entity and the profile from which it takes its policies.
#[derive(Clone, Debug)]
pub(crate) struct Following {
    profile: Arc<str>,
    /// Whether nothing was specified for the entity itself, so that the profile is that of
    /// its topic.
    by_topic: bool,
    given: Given,
}

/// Policies that an entity takes from a profile.
#[derive(Clone, Debug)]
pub(crate) struct Given {
    pub(crate) qos: EntityQos,
    /// Settings of the profile itself for such entities; none if it has none.
    pub(crate) said: Option<ResolvedEntity>,
}

impl Following {
    pub(crate) fn new(profile: &str, by_topic: bool, given: Given) -> Following {
        Following { profile: profile.into(), by_topic, given }
    }

    /// Settings of the profile itself for such entities, if it has any.
    pub(crate) fn said(&self) -> Option<&ResolvedEntity> {
        self.given.said.as_ref()
    }

    pub(crate) fn profile(&self) -> &Arc<str> {
        &self.profile
    }
}

/// Weak reference to a publisher or a subscriber.
type Group<Q, E, L> = Weak<EntityGroup<Q, E, L>>;

/// An entity that shares its policies with all handles on it.
pub(crate) enum Shared {
    Participant(Weak<Inner>),
    Topic(Weak<TopicEntity>),
    Publisher(Group<PublisherQos, DataWriterQos, dyn PublisherListener>),
    Subscriber(Group<SubscriberQos, DataReaderQos, dyn SubscriberListener>),
}

impl Shared {
    fn is_there(&self) -> bool {
        match self {
            Shared::Participant(participant) => participant.strong_count() > 0,
            Shared::Topic(topic) => topic.strong_count() > 0,
            Shared::Publisher(publisher) => publisher.strong_count() > 0,
            Shared::Subscriber(subscriber) => subscriber.strong_count() > 0,
        }
    }
}

/// Entities of a participant that follow profiles.
#[derive(Default)]
struct Followers {
    /// Topics come first, because they are created before the entities that follow them.
    shared: Vec<(Shared, Following)>,
    /// Number of entries at which the entries of dropped entities are removed.
    tidy_at: usize,
    /// Writers and readers, by number.
    endpoints: BTreeMap<u64, (Arc<TopicPolicies>, Following)>,
}

/// The profiles of a participant.
pub(crate) struct Profiles {
    provider: Arc<QosProvider>,
    /// Profile of entities for which nothing is specified; none: the default profile of the files.
    usual: Option<Arc<str>>,
    followers: Mutex<Followers>,
}

impl Profiles {
    /// Reads the files. The error says what is wrong with them, or that there is no profile of
    /// this name.
    pub(super) fn new(source: Source, usual: Option<String>) -> DdsResult<Profiles> {
        let provider = match source {
            Source::Environment => QosProvider::from_environment().map(Arc::new),
            Source::Files(files) => QosProvider::from_files(files).map(Arc::new),
            Source::Provider(provider) => Ok(provider),
        };
        let provider = provider.map_err(|wrong| DdsError::BadParameter(wrong.to_string()))?;
        let followers = Mutex::new(Followers::default());
        let profiles = Profiles { provider, usual: usual.map(Arc::from), followers };
        if let Some(usual) = &profiles.usual {
            profiles.find(EntityKind::DomainParticipant, usual, None)?;
        }
        Ok(profiles)
    }

    pub(crate) fn provider(&self) -> &Arc<QosProvider> {
        &self.provider
    }

    /// Profile of entities for which nothing is specified.
    pub(crate) fn usual(&self) -> Option<Arc<str>> {
        self.usual.clone().or_else(|| self.provider.default_profile().map(Arc::from))
    }

    /// Settings of a profile for a kind of entity; none if the profile has none for it.
    fn find(
        &self,
        kind: EntityKind,
        profile: &str,
        topic: Option<&str>,
    ) -> DdsResult<Option<ResolvedEntity>> {
        let found = self.provider.entity(kind, profile, topic).map_err(|unknown| {
            let places = match self.provider.places() {
                places if places.is_empty() => "no file".to_owned(),
                places => places.join(", "),
            };
            DdsError::BadParameter(format!(
                "{unknown} looked for in the ready-made profiles and in: {places}"
            ))
        })?;
        Ok(Some(found).filter(|found| !found.says_nothing()))
    }

    /// Policies of a participant for which no more is specified than this set: those of its
    /// profile, or else those of the factory.
    pub(super) fn of_participant(
        &self,
        set: Option<&str>,
    ) -> DdsResult<(DomainParticipantQos, Option<Following>)> {
        let usual = DomainParticipantFactory::instance().default_participant_qos();
        let Some(profile) = set.map(Arc::from).or_else(|| self.usual()) else {
            return Ok((usual.unwrap_or_default(), None));
        };
        let given = self.of_shared(EntityKind::DomainParticipant, &profile, None)?;
        let qos = match (&given.qos, &given.said) {
            (EntityQos::DomainParticipant(qos), Some(_)) => qos.clone(),
            _ => usual.unwrap_or_default(),
        };
        Ok((qos, Some(Following::new(&profile, false, given))))
    }

    /// Policies that a topic, a publisher or a subscriber takes from a profile.
    pub(crate) fn of_shared(
        &self,
        kind: EntityKind,
        profile: &str,
        topic: Option<&str>,
    ) -> DdsResult<Given> {
        let said = self.find(kind, profile, topic)?;
        let usual = || match kind {
            EntityKind::Topic => usual_topic().into(),
            kind => kind.default_qos(),
        };
        let qos = said.as_ref().map_or_else(usual, |said| said.qos.clone());
        Ok(Given { qos, said })
    }

    /// Policies that a writer or reader takes from a profile: the profile's settings for it, or
    /// else the policies of its topic. If the profile is that of the topic, the DURABILITY of the
    /// writer or reader does not exceed that of the topic, for which more may have been specified.
    pub(crate) fn of_endpoint(
        &self,
        kind: EntityKind,
        profile: &str,
        topic: &TopicPolicies,
        by_topic: bool,
    ) -> DdsResult<Given> {
        let said = match self.find(kind, profile, Some(&topic.name)) {
            // A topic may take its policies from a set that is for topics alone.
            Err(_) if by_topic => None,
            said => said?,
        };
        let Some(set) = &said else {
            return Ok(Given { qos: usual_endpoint(kind, &topic.qos()), said });
        };
        if !by_topic && set.asks_for_order() && !topic.level().is_ordered() {
            return Err(DdsError::InconsistentPolicy(format!(
                "a {} of `{}`: `squall.delivery` is `atomic` in profile `{profile}`, but the topic \
                 is {}: create the topic with such a profile, or with atomic()",
                kind.word(),
                topic.name,
                topic.level()
            )));
        }
        let mut qos = set.qos.clone();
        let most = topic.qos().durability.kind;
        match &mut qos {
            EntityQos::DataWriter(qos) if by_topic => {
                qos.durability.kind = qos.durability.kind.min(most);
            }
            EntityQos::DataReader(qos) if by_topic => {
                qos.durability.kind = qos.durability.kind.min(most);
            }
            _ => {}
        }
        Ok(Given { qos, said })
    }

    fn followers(&self) -> MutexGuard<'_, Followers> {
        self.followers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that a topic, publisher or subscriber follows a profile from now on.
    pub(crate) fn note(&self, shared: Shared, following: Following) {
        let mut followers = self.followers();
        if followers.shared.len() >= followers.tidy_at {
            followers.shared.retain(|(shared, _)| shared.is_there());
            followers.tidy_at = (2 * followers.shared.len()).max(64);
        }
        followers.shared.push((shared, following));
    }

    /// Records that a writer or reader follows a profile from now on.
    pub(crate) fn note_endpoint(&self, id: u64, topic: &Arc<TopicPolicies>, following: Following) {
        self.followers().endpoints.insert(id, (Arc::clone(topic), following));
    }

    /// Removes a writer or reader that is gone.
    pub(crate) fn forget(&self, id: u64) {
        self.followers().endpoints.remove(&id);
    }
}

/// Policies of a topic for which nothing is specified: delivery is reliable.
pub(crate) fn usual_topic() -> TopicQos {
    let mut qos = TopicQos::default();
    qos.reliability.kind = ReliabilityQosPolicyKind::Reliable;
    qos
}

/// Policies of a writer for which nothing is specified: those of its topic, except the topic's
/// limits on kept samples.
pub(crate) fn usual_writer(topic: &TopicQos) -> DataWriterQos {
    let mut qos = DataWriterQos::default();
    qos.copy_from_topic_qos(topic);
    if topic.durability.kind != DurabilityQosPolicyKind::Volatile {
        // The topic's limits say how many samples are kept.
        qos.resource_limits = ResourceLimitsQosPolicy::default();
    }
    qos
}

/// Policies of a reader for which nothing is specified: those of its topic, and it keeps
/// all samples.
pub(crate) fn usual_reader(topic: &TopicQos) -> DataReaderQos {
    let mut qos = DataReaderQos::default();
    qos.copy_from_topic_qos(topic);
    qos.history.kind = HistoryQosPolicyKind::KeepAll;
    qos
}

fn usual_endpoint(kind: EntityKind, topic: &TopicQos) -> EntityQos {
    match kind {
        EntityKind::DataReader => usual_reader(topic).into(),
        _ => usual_writer(topic).into(),
    }
}
