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
    EntityQos, PublisherQos, ResourceLimitsQosPolicy, SubscriberQos, TopicQos,
};

use super::factory::DomainParticipantFactory;
use super::{EntityGroup, ParticipantInner};
use crate::infrastructure::{DdsError, DdsResult, PublisherListener, SubscriberListener};
use crate::topic::{TopicEntity, TopicPolicies};

pub use reload::{QosReload, ReloadedEntity};

/// Source of a participant's profiles.
#[derive(Clone, Debug, Default)]
pub(super) enum ProfileSource {
    /// Files in `SQUALL_QOS_FILES`, and the file in the working folder.
    #[default]
    Environment,
    Files(Vec<PathBuf>),
    Provider(Arc<QosProvider>),
}

impl ProfileSource {
    /// Files that were named, for a caller that reads more files with them.
    pub(super) fn files(&self) -> DdsResult<Vec<PathBuf>> {
        match self {
            ProfileSource::Environment => Ok(Vec::new()),
            ProfileSource::Files(files) => Ok(files.clone()),
            ProfileSource::Provider(_) => Err(DdsError::BadParameter(
                "the configuration has a provider of profiles: name its files beside those of the application"
                    .to_owned(),
            )),
        }
    }
}

/// Link between an entity and the profile from which it takes its policies.
#[derive(Clone, Debug)]
pub(crate) struct ProfileBinding {
    profile: Arc<str>,
    /// Whether nothing was specified for the entity itself, so that the profile is that of
    /// its topic.
    by_topic: bool,
    policies: ProfilePolicies,
}

/// Policies that an entity takes from a profile.
#[derive(Clone, Debug)]
pub(crate) struct ProfilePolicies {
    pub(crate) qos: EntityQos,
    /// Settings of the profile itself for such entities; none if it has none.
    pub(crate) settings: Option<ResolvedEntity>,
}

impl ProfileBinding {
    pub(crate) fn new(profile: &str, by_topic: bool, given: ProfilePolicies) -> ProfileBinding {
        ProfileBinding { profile: profile.into(), by_topic, policies: given }
    }

    /// Settings of the profile itself for such entities, if it has any.
    pub(crate) fn settings(&self) -> Option<&ResolvedEntity> {
        self.policies.settings.as_ref()
    }

    pub(crate) fn profile(&self) -> &Arc<str> {
        &self.profile
    }
}

/// Weak reference to a publisher or a subscriber.
type WeakGroup<Q, E, L> = Weak<EntityGroup<Q, E, L>>;

/// An entity that shares its policies with all handles on it.
pub(crate) enum ProfiledEntity {
    Participant(Weak<ParticipantInner>),
    Topic(Weak<TopicEntity>),
    Publisher(WeakGroup<PublisherQos, DataWriterQos, dyn PublisherListener>),
    Subscriber(WeakGroup<SubscriberQos, DataReaderQos, dyn SubscriberListener>),
}

impl ProfiledEntity {
    fn is_there(&self) -> bool {
        match self {
            ProfiledEntity::Participant(participant) => participant.strong_count() > 0,
            ProfiledEntity::Topic(topic) => topic.strong_count() > 0,
            ProfiledEntity::Publisher(publisher) => publisher.strong_count() > 0,
            ProfiledEntity::Subscriber(subscriber) => subscriber.strong_count() > 0,
        }
    }
}

/// Entities of a participant that follow profiles.
#[derive(Default)]
struct ProfileBindings {
    /// Topics come first, because they are created before the entities that follow them.
    shared: Vec<(ProfiledEntity, ProfileBinding)>,
    /// Number of entries at which the entries of dropped entities are removed.
    tidy_at: usize,
    /// Writers and readers, by number.
    endpoints: BTreeMap<u64, (Arc<TopicPolicies>, ProfileBinding)>,
}

/// The profiles of a participant.
pub(crate) struct Profiles {
    provider: Arc<QosProvider>,
    /// Profile of entities for which nothing is specified; none: the default profile of the files.
    default_profile: Option<Arc<str>>,
    bindings: Mutex<ProfileBindings>,
}

impl Profiles {
    /// Reads the files. The error says what is wrong with them, or that there is no profile of
    /// this name.
    pub(super) fn new(
        source: ProfileSource,
        default_profile: Option<String>,
    ) -> DdsResult<Profiles> {
        let provider = match source {
            ProfileSource::Environment => QosProvider::from_environment().map(Arc::new),
            ProfileSource::Files(files) => QosProvider::from_files(files).map(Arc::new),
            ProfileSource::Provider(provider) => Ok(provider),
        };
        let provider = provider.map_err(|wrong| DdsError::BadParameter(format!("{wrong:#}")))?;
        let bindings = Mutex::new(ProfileBindings::default());
        let profiles =
            Profiles { provider, default_profile: default_profile.map(Arc::from), bindings };
        if let Some(default_profile) = &profiles.default_profile {
            profiles.find(EntityKind::DomainParticipant, default_profile, None)?;
        }
        Ok(profiles)
    }

    pub(crate) fn provider(&self) -> &Arc<QosProvider> {
        &self.provider
    }

    /// Profile of entities for which nothing is specified.
    pub(crate) fn default_profile(&self) -> Option<Arc<str>> {
        self.default_profile.clone().or_else(|| self.provider.default_profile().map(Arc::from))
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
    ) -> DdsResult<(DomainParticipantQos, Option<ProfileBinding>)> {
        let default_qos = DomainParticipantFactory::instance().default_participant_qos();
        let Some(profile) = set.map(Arc::from).or_else(|| self.default_profile()) else {
            return Ok((default_qos.unwrap_or_default(), None));
        };
        let given = self.of_shared(EntityKind::DomainParticipant, &profile, None)?;
        let qos = match (&given.qos, &given.settings) {
            (EntityQos::DomainParticipant(qos), Some(_)) => qos.clone(),
            _ => default_qos.unwrap_or_default(),
        };
        Ok((qos, Some(ProfileBinding::new(&profile, false, given))))
    }

    /// Policies that a topic, a publisher or a subscriber takes from a profile.
    pub(crate) fn of_shared(
        &self,
        kind: EntityKind,
        profile: &str,
        topic: Option<&str>,
    ) -> DdsResult<ProfilePolicies> {
        let settings = self.find(kind, profile, topic)?;
        let default_qos = || match kind {
            EntityKind::Topic => TopicQos::default().into(),
            kind => kind.default_qos(),
        };
        let qos = settings.as_ref().map_or_else(default_qos, |said| said.qos.clone());
        Ok(ProfilePolicies { qos, settings })
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
    ) -> DdsResult<ProfilePolicies> {
        let settings = match self.find(kind, profile, Some(&topic.name)) {
            // A topic may take its policies from a set that is for topics alone.
            Err(_) if by_topic => None,
            said => said?,
        };
        let Some(set) = &settings else {
            return Ok(ProfilePolicies { qos: default_endpoint_qos(kind, &topic.qos()), settings });
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
        Ok(ProfilePolicies { qos, settings })
    }

    fn bindings(&self) -> MutexGuard<'_, ProfileBindings> {
        self.bindings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that a topic, publisher or subscriber follows a profile from now on.
    pub(crate) fn note(&self, shared: ProfiledEntity, binding: ProfileBinding) {
        let mut bindings = self.bindings();
        if bindings.shared.len() >= bindings.tidy_at {
            bindings.shared.retain(|(shared, _)| shared.is_there());
            bindings.tidy_at = (2 * bindings.shared.len()).max(64);
        }
        bindings.shared.push((shared, binding));
    }

    /// Records that a writer or reader follows a profile from now on.
    pub(crate) fn note_endpoint(
        &self,
        id: u64,
        topic: &Arc<TopicPolicies>,
        binding: ProfileBinding,
    ) {
        self.bindings().endpoints.insert(id, (Arc::clone(topic), binding));
    }

    /// Removes a writer or reader that is gone.
    pub(crate) fn forget(&self, id: u64) {
        self.bindings().endpoints.remove(&id);
    }
}

/// Policies of a writer for which nothing is specified: the standard's defaults, except for the
/// policies that its topic sets. The topic's limits on kept samples do not limit a writer.
pub(crate) fn default_writer_qos(topic: &TopicQos) -> DataWriterQos {
    let mut qos = DataWriterQos::default();
    let reliability = qos.reliability.clone();
    qos.copy_from_topic_qos(topic);
    // The standard's default is reliable for writers, and best effort for topics.
    if topic.reliability == TopicQos::default().reliability {
        qos.reliability = reliability;
    }
    if topic.durability.kind != DurabilityQosPolicyKind::Volatile {
        // The topic's limits say how many samples are kept.
        qos.resource_limits = ResourceLimitsQosPolicy::default();
    }
    qos
}

/// Policies of a reader for which nothing is specified: the standard's defaults, except for the
/// policies that its topic sets.
pub(crate) fn default_reader_qos(topic: &TopicQos) -> DataReaderQos {
    let mut qos = DataReaderQos::default();
    qos.copy_from_topic_qos(topic);
    qos
}

fn default_endpoint_qos(kind: EntityKind, topic: &TopicQos) -> EntityQos {
    match kind {
        EntityKind::DataReader => default_reader_qos(topic).into(),
        _ => default_writer_qos(topic).into(),
    }
}
