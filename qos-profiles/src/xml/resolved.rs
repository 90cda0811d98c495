//! Profiles with all values resolved.
//!
//! Owns: a resolved set of policies, the origin of each value, and the requested level of delivery.
//! Never does: look into files.

use super::entity::{ATOMIC, DELIVERY, UNORDERED};
use super::error::FilePosition;
use super::model::{Libraries, Property, PropertySetting};
use super::resolve::{
    EnclosingProfile, LocatedSet, by_name, key_for, keys, lineage, lineage_of_set,
};
use super::suggest::suggest;
use crate::{DurabilityQosPolicyKind, EntityKind, EntityQos, PolicyId, ReliabilityQosPolicyKind};
use std::error::Error;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// Origin of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// No file names the value; it is the standard's default.
    Default,
    /// The requested set has the value.
    Profile(DefiningSet),
    /// The set inherited the value.
    Base(DefiningSet),
}

/// Set of policies that a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefiningSet {
    /// Name of the set: `Fleet::State`.
    pub name: Arc<str>,
    /// Position of the value in its file.
    pub place: FilePosition,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (word, source) = match self {
            Origin::Default => return f.write_str("default"),
            Origin::Profile(source) => ("profile", source),
            Origin::Base(source) => ("base", source),
        };
        write!(f, "{word} {} ({})", source.name, source.place)
    }
}

/// Delivery guarantee for the samples of a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DeliveryLevel {
    /// Samples in the order of arrival, ordered for each writer.
    Unordered,
    /// One order for all readers, all or nothing.
    Atomic,
    /// Atomic, and kept in memory for late joiners.
    Kept,
    /// Atomic, and kept on disk.
    Logged,
}

impl DeliveryLevel {
    /// Returns the level that a topic's policies ask for. Kept samples have one order, even with
    /// best effort.
    pub fn of(reliability: ReliabilityQosPolicyKind, durability: DurabilityQosPolicyKind) -> Self {
        match durability {
            DurabilityQosPolicyKind::Volatile => match reliability {
                ReliabilityQosPolicyKind::BestEffort => Self::Unordered,
                ReliabilityQosPolicyKind::Reliable => Self::Atomic,
            },
            DurabilityQosPolicyKind::TransientLocal | DurabilityQosPolicyKind::Transient => {
                Self::Kept
            }
            DurabilityQosPolicyKind::Persistent => Self::Logged,
        }
    }
}

impl fmt::Display for DeliveryLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unordered => "unordered",
            Self::Atomic => "atomic",
            Self::Kept => "kept",
            Self::Logged => "logged",
        })
    }
}

/// A set of policies with all values resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvedEntity {
    /// Own name within its profile, if it has one.
    pub name: Option<String>,
    /// Pattern of the topics that the set applies to; `None` for all topics.
    pub topic_filter: Option<String>,
    /// Policies of the set.
    pub qos: EntityQos,
    /// Properties, ordered by name.
    pub properties: Vec<Property>,
    origins: Vec<((PolicyId, usize), Origin)>,
    property_origins: Vec<Origin>,
}

impl ResolvedEntity {
    /// Returns the defaults of the standard.
    fn default_of(kind: EntityKind) -> Self {
        Self {
            name: None,
            topic_filter: None,
            qos: kind.default_qos(),
            properties: Vec::new(),
            origins: Vec::new(),
            property_origins: Vec::new(),
        }
    }

    /// Combines the values of sets; later sets override earlier ones. The last set is the requested
    /// one if `is_own`.
    fn of(kind: EntityKind, lineage: &[LocatedSet<'_>], is_own: bool) -> Self {
        let mut resolved = Self::default_of(kind);
        for (index, found) in lineage.iter().enumerate() {
            let own = is_own && index + 1 == lineage.len();
            let name: Arc<str> = found.name().into();
            let origin = |at| {
                let source = DefiningSet {
                    name: Arc::clone(&name),
                    place: FilePosition::new(&found.set.file, at),
                };
                if own { Origin::Profile(source) } else { Origin::Base(source) }
            };
            for setting in &found.set.settings {
                let field = (setting.policy, usize::from(setting.field));
                resolved.qos.set_value(field.0, field.1, &setting.value);
                match resolved.origins.iter_mut().find(|(other, _)| *other == field) {
                    Some((_, place)) => *place = origin(setting.at),
                    None => resolved.origins.push((field, origin(setting.at))),
                }
            }
            for PropertySetting { property, at } in &found.set.properties {
                let position =
                    resolved.properties.binary_search_by(|other| other.name.cmp(&property.name));
                match position {
                    Ok(place) => {
                        resolved.properties[place] = property.clone();
                        resolved.property_origins[place] = origin(*at);
                    }
                    Err(place) => {
                        resolved.properties.insert(place, property.clone());
                        resolved.property_origins.insert(place, origin(*at));
                    }
                }
            }
        }
        resolved
    }

    /// Returns the origin of a value, by its policy and its index in [`PolicyId::fields`].
    pub fn origin(&self, policy: PolicyId, field: usize) -> &Origin {
        let found = self.origins.iter().find(|(own, _)| *own == (policy, field));
        found.map_or(&Origin::Default, |(_, origin)| origin)
    }

    /// Returns the origin of a property, by its index in [`properties`](Self::properties).
    pub fn property_origin(&self, index: usize) -> &Origin {
        self.property_origins.get(index).unwrap_or(&Origin::Default)
    }

    /// Returns the value of a property.
    pub fn property(&self, name: &str) -> Option<&str> {
        let found = self.properties.iter().find(|property| property.name == name);
        found.map(|property| property.value.as_str())
    }

    /// Returns the value of a numeric property.
    pub fn number<N: FromStr>(&self, name: &str) -> Option<N> {
        self.property(name)?.parse().ok()
    }

    /// Returns the delivery level of a topic with these policies; `None` for entities without
    /// a topic.
    pub fn level(&self) -> Option<DeliveryLevel> {
        let (reliability, durability) = match &self.qos {
            EntityQos::Topic(qos) => (qos.reliability.kind, qos.durability.kind),
            EntityQos::DataWriter(qos) => (qos.reliability.kind, qos.durability.kind),
            EntityQos::DataReader(qos) => (qos.reliability.kind, qos.durability.kind),
            _ => return None,
        };
        Some(match self.property(DELIVERY) {
            // The check refuses an unordered topic whose samples are kept.
            Some(UNORDERED) => DeliveryLevel::Unordered,
            _ => DeliveryLevel::of(reliability, durability),
        })
    }

    /// Whether `squall.delivery` asks for one order of samples.
    pub fn asks_for_order(&self) -> bool {
        self.property(DELIVERY) == Some(ATOMIC)
    }

    /// Whether all values are the standard's defaults, because no file mentions such an entity.
    pub fn says_nothing(&self) -> bool {
        self.origins.is_empty() && self.properties.is_empty()
    }
}

/// A profile with all values resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvedProfile {
    /// Full name: `Fleet::State`.
    pub name: String,
    /// Sets of the profile and its bases, ordered by kind.
    pub entities: Vec<ResolvedEntity>,
}

impl ResolvedProfile {
    /// Returns the plain set of a kind, if the profile or one of its bases has one.
    pub fn entity(&self, kind: EntityKind) -> Option<&ResolvedEntity> {
        let own = self.entities.iter().filter(|entity| entity.qos.kind() == kind);
        let plain =
            own.clone().find(|entity| entity.name.is_none() && entity.topic_filter.is_none());
        plain.or_else(|| own.into_iter().find(|entity| entity.topic_filter.is_none()))
    }
}

/// Error: no profile has this name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownProfile {
    /// Requested name.
    pub name: String,
    /// Similar name that was probably meant.
    pub suggestion: Option<String>,
}

impl fmt::Display for UnknownProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "there is no profile `{}`; expected `Library::Profile`", self.name)?;
        match &self.suggestion {
            Some(name) => write!(f, "; did you mean `{name}`?"),
            None => Ok(()),
        }
    }
}

impl Error for UnknownProfile {}

/// Returns the full names of all profiles, in the order of their libraries.
pub(super) fn names(libraries: &Libraries) -> Vec<String> {
    let named = libraries.iter().flat_map(|(library, content)| {
        content.profiles.iter().map(move |profile| super::model::full_name(library, &profile.name))
    });
    named.collect()
}

fn unknown(libraries: &Libraries, name: &str) -> UnknownProfile {
    let names = names(libraries);
    let whole = || suggest(name, names.iter().map(String::as_str));
    // The name may lack its library.
    let inside = |full_name: &&String| full_name.rsplit("::").next() == Some(name);
    let suggestion = names.iter().find(inside).cloned().or_else(whole);
    UnknownProfile { name: name.to_owned(), suggestion }
}

/// Returns a profile by its full name.
pub(super) fn profile(
    libraries: &Libraries,
    name: &str,
) -> Result<ResolvedProfile, UnknownProfile> {
    let found = by_name(libraries, EntityKind::Topic, name);
    let Some((place @ EnclosingProfile { profile: Some(profile), .. }, None)) = found else {
        return Err(unknown(libraries, name));
    };
    let mut entities = Vec::new();
    for kind in EntityKind::ALL {
        for key in keys(libraries, place, kind) {
            let lineage = lineage(libraries, place, kind, key);
            let is_own =
                profile.entries.iter().any(|entry| entry.kind == kind && entry.key() == key);
            let mut entity = ResolvedEntity::of(kind, &lineage, is_own);
            entity.name = key.name.map(str::to_owned);
            entity.topic_filter = key.filter.map(str::to_owned);
            entities.push(entity);
        }
    }
    Ok(ResolvedProfile { name: name.to_owned(), entities })
}

/// Returns the policies of a kind of entity for a name: those of a profile, selected by the topic
/// if one is given, or those of a set. A profile without a set of the kind gives the defaults.
pub(super) fn entity(
    libraries: &Libraries,
    kind: EntityKind,
    name: &str,
    topic: Option<&str>,
) -> Result<ResolvedEntity, UnknownProfile> {
    let (place, set) = by_name(libraries, kind, name).ok_or_else(|| unknown(libraries, name))?;
    if let Some(entry) = set {
        let mut entity = ResolvedEntity::of(
            kind,
            &lineage_of_set(libraries, LocatedSet { place, set: entry }),
            true,
        );
        entity.name = entry.name.as_deref().map(str::to_owned);
        entity.topic_filter = entry.filter.as_ref().map(|filter| filter.as_str().to_owned());
        return Ok(entity);
    }
    let key = key_for(libraries, place, kind, topic);
    let is_own = place.profile.is_some_and(|profile| profile.entry(kind, key).is_some());
    let mut entity = ResolvedEntity::of(kind, &lineage(libraries, place, kind, key), is_own);
    entity.name = key.name.map(str::to_owned);
    entity.topic_filter = key.filter.map(str::to_owned);
    Ok(entity)
}
