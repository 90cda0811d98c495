//! Profiles of Fast DDS, translated to sets of policies.
//!
//! Owns: the elements of Fast DDS around policies, the standard's name of each policy, and values
//! that Fast DDS writes in another way. Never does: read a policy or a value of the standard.
//!
//! ```text
//! <data_writer profile_name="W">        profile W
//!   <qos> <reliability>, ...              datawriter_qos
//!         <partition>, <groupData>        publisher_qos
//!   <topic> <historyQos>, ...             datawriter_qos
//! ```
//! A topic decides here which samples are kept, and in which order they arrive. A profile of a
//! writer or reader without a topic of the same name therefore also gives such policies to its
//! topic.

use super::entity;
use super::error::{ElementPath, FileReport, UnplacedError, quoted};
use super::model::{Base, PolicySet, PolicySetKey, Profile, Setting};
use super::read::{attributes, check_name};
use super::source::Element;
use super::suggest::suggest;
use super::values::{boolean, no_text, one_of};
use super::vendor;
use crate::{EntityKind, PolicyId};
use std::sync::Arc;

/// Profile with the default profiles of a file, of all kinds of entities.
pub(super) const DEFAULTS: &str = "FastDdsDefaults";

/// Elements with profiles, and the spelling of the kind of entity that each is for.
const PROFILES: [(&str, EntityKind); 6] = [
    ("participant", EntityKind::DomainParticipant),
    ("topic", EntityKind::Topic),
    ("data_writer", EntityKind::DataWriter),
    ("publisher", EntityKind::DataWriter),
    ("data_reader", EntityKind::DataReader),
    ("subscriber", EntityKind::DataReader),
];

/// Policies with another name than that of the standard.
const POLICIES: [(&str, &str); 11] = [
    ("historyQos", "history"),
    ("resourceLimitsQos", "resource_limits"),
    ("userData", "user_data"),
    ("groupData", "group_data"),
    ("topicData", "topic_data"),
    ("latencyBudget", "latency_budget"),
    ("ownershipStrength", "ownership_strength"),
    ("timeBasedFilter", "time_based_filter"),
    ("destinationOrder", "destination_order"),
    ("durabilityService", "durability_service"),
    ("transportPriority", "transport_priority"),
];

/// Policies that decide here which samples of a topic are kept, and in which order they arrive.
const OF_TOPICS: [PolicyId; 5] = [
    PolicyId::Durability,
    PolicyId::DurabilityService,
    PolicyId::Reliability,
    PolicyId::History,
    PolicyId::ResourceLimits,
];

/// Returns the kind of entity whose profile an element is.
pub(super) fn kind_of(element: &str) -> Option<EntityKind> {
    PROFILES.iter().find(|(name, _)| *name == element).map(|(_, kind)| *kind)
}

/// Names of the elements with profiles, for messages.
pub(super) fn elements() -> Vec<&'static str> {
    PROFILES.iter().map(|(name, _)| *name).collect()
}

/// Sets of policies of one profile of Fast DDS.
pub(super) struct FastProfile {
    pub(super) name: String,
    pub(super) is_default: bool,
    pub(super) sets: Vec<PolicySet>,
}

/// Reads a profile; `None` if the name is missing or invalid.
pub(super) fn read(
    kind: EntityKind,
    element: &Element,
    path: &ElementPath<'_>,
    in_dds: bool,
    report: &mut FileReport,
) -> Option<FastProfile> {
    attributes(report, element, &["profile_name", "is_default_profile"], path);
    let name = element.attribute("profile_name");
    let checked = match name {
        Some(name) => check_name(name),
        None => Err(UnplacedError::new("found no attribute `profile_name`", "expected one")),
    };
    let is_default = element.attribute("is_default_profile").map_or(Ok(false), boolean);
    let is_default = is_default.unwrap_or_else(|error| {
        let found = format!("is_default_profile: {}", error.found);
        report.error(element.at, path, UnplacedError { found, ..error });
        false
    });
    if let Err(error) = checked {
        report.error(element.at, path, error);
        return None;
    }
    let mut policies = Policies { kind, own: Vec::new(), group: Vec::new(), report };
    policies.entity(element, path);
    let Policies { own, group, report, .. } = policies;
    let of_group = match kind {
        EntityKind::DataWriter => EntityKind::Publisher,
        _ => EntityKind::Subscriber,
    };
    let mut sets = Vec::new();
    for (kind, children) in [(kind, own), (of_group, group)] {
        if children.is_empty() && kind == of_group {
            continue;
        }
        let translated = Element { children, ..element.empty() };
        if let Some(set) = entity::read(kind, kind.element(), &translated, path, report) {
            sets.push(PolicySet { in_dds, path: Some(path.to_string().into()), ..set });
        }
    }
    let name = name.unwrap_or_default().to_owned();
    Some(FastProfile { name, is_default, sets })
}

/// Gives topics to the profiles of writers and readers that have none.
pub(super) fn add_topics(profiles: &mut [Profile]) {
    for profile in profiles.iter_mut().filter(|profile| profile.is_of_fast_dds) {
        let plain = |kind| profile.entry(kind, PolicySetKey::default());
        let endpoint = plain(EntityKind::DataWriter).or(plain(EntityKind::DataReader));
        if let (None, Some(endpoint)) = (plain(EntityKind::Topic), endpoint) {
            let topic = topic_set(endpoint);
            profile.entries.push(topic);
        }
    }
}

/// Returns what a topic takes from the profile of a writer or reader.
fn topic_set(of: &PolicySet) -> PolicySet {
    if !of.bases.is_empty() {
        // The topic of the default profile is that of the default writer.
        return PolicySet { bases: of.bases.clone(), ..of.beside(EntityKind::Topic, Vec::new()) };
    }
    // The default of RELIABILITY differs between writers and topics.
    let (reliability, default) = (PolicyId::Reliability, of.kind.default_qos());
    let mut settings: Vec<Setting> = Vec::new();
    for index in 0..reliability.fields().len() {
        let field = u8::try_from(index).expect("no policy has so many fields");
        if let Some(value) = default.value(reliability, index) {
            settings.push(Setting { policy: reliability, field, at: of.at, value });
        }
    }
    for own in of.settings.iter().filter(|own| OF_TOPICS.contains(&own.policy)) {
        settings.retain(|other| (other.policy, other.field) != (own.policy, own.field));
        settings.push(own.clone());
    }
    of.beside(EntityKind::Topic, settings)
}

/// Adds a profile to the one with the same name; the error tells of a second one of its kind.
pub(super) fn add(profile: &mut Profile, new: FastProfile) -> Result<(), UnplacedError> {
    for set in new.sets {
        if let Some(other) = profile.entry(set.kind, PolicySetKey::default()) {
            let at = super::error::FilePosition::new(&other.file, other.at);
            return Err(UnplacedError::new(
                format!(
                    "found a second profile {} of this kind; the first is at {at}",
                    quoted(&new.name)
                ),
                "expected another name",
            ));
        }
        profile.entries.push(set);
    }
    Ok(())
}

/// Makes the sets of the default profile from those of a profile with `is_default_profile`.
pub(super) fn default_sets(profile: &FastProfile) -> Vec<PolicySet> {
    let based = |set: &PolicySet| PolicySet {
        bases: vec![Base { name: profile.name.as_str().into(), at: set.at }],
        path: set.path.clone(),
        ..set.beside(set.kind, Vec::new())
    };
    profile.sets.iter().map(based).collect()
}

/// Elements of one profile, as policies of the standard.
struct Policies<'a> {
    kind: EntityKind,
    /// Policies of the entity.
    own: Vec<Element>,
    /// Policies of its publisher or subscriber.
    group: Vec<Element>,
    report: &'a mut FileReport,
}

impl Policies<'_> {
    /// Reads the elements of a profile.
    fn entity(&mut self, element: &Element, path: &ElementPath<'_>) {
        if self.kind == EntityKind::Topic {
            return self.topic(element, "", path);
        }
        let inner: &[&str] = match self.kind {
            EntityKind::DomainParticipant => &["rtps"],
            _ => &["qos", "topic", "propertiesPolicy"],
        };
        if let Err(error) = no_text(element, || format!("expected {}", one_of(inner))) {
            self.report.error(element.at, path, error);
        }
        for child in &element.children {
            let path = path.inner(&child.name);
            match child.name.as_str() {
                "rtps" if inner.contains(&"rtps") => self.rtps(child, &path),
                "qos" if inner.contains(&"qos") => self.qos(child, &path),
                "topic" if inner.contains(&"topic") => self.topic(child, "topic/", &path),
                "propertiesPolicy" if inner.contains(&"qos") => self.properties(child, "", &path),
                _ => self.other(child, &path, inner),
            }
        }
    }

    fn rtps(&mut self, element: &Element, path: &ElementPath<'_>) {
        for child in &element.children {
            let path = path.inner(&child.name);
            match child.name.as_str() {
                "userData" => self.policy(child, "rtps/"),
                "propertiesPolicy" => self.properties(child, "rtps/", &path),
                _ => self.other(child, &path, &["userData", "propertiesPolicy"]),
            }
        }
    }

    fn qos(&mut self, element: &Element, path: &ElementPath<'_>) {
        for child in &element.children {
            let name = standard_name(&child.name);
            let inner = path.inner(&child.name);
            let of_group = matches!(name, "partition" | "presentation" | "group_data");
            if of_group || self.kind.policies().any(|(_, own)| own == name) {
                self.policy(child, "qos/");
            } else {
                let names: Vec<&str> = self.kind.policies().map(|(_, name)| name).collect();
                self.other(child, &inner, &names);
            }
        }
    }

    /// Reads the element of a topic, or the limits of a writer or reader in such an element.
    fn topic(&mut self, element: &Element, prefix: &str, path: &ElementPath<'_>) {
        for child in &element.children {
            match child.name.as_str() {
                "historyQos" | "resourceLimitsQos" => self.policy(child, prefix),
                _ => {
                    let inner = path.inner(&child.name);
                    self.other(child, &inner, &["historyQos", "resourceLimitsQos"]);
                }
            }
        }
    }

    /// Takes a policy, under the standard's name and with the standard's values.
    fn policy(&mut self, element: &Element, prefix: &str) {
        let mut policy = element.renamed(standard_name(&element.name), prefix);
        for field in &mut policy.children {
            match policy.name.as_str() {
                // A limit of zero or less is none.
                "resource_limits" if field.text.parse::<i64>().is_ok_and(|limit| limit <= 0) => {
                    field.text = "LENGTH_UNLIMITED".to_owned();
                }
                "user_data" | "group_data" => field.text = octets(&field.text),
                _ => {}
            }
        }
        match policy.name.as_str() {
            "partition" | "presentation" | "group_data" => self.group.push(policy),
            _ => self.own.push(policy),
        }
    }

    /// Reads `<properties><property><name/><value/><propagate/></property></properties>`.
    fn properties(&mut self, element: &Element, prefix: &str, path: &ElementPath<'_>) {
        for list in &element.children {
            if list.name != "properties" {
                self.other(list, &path.inner(&list.name), &["properties"]);
                continue;
            }
            let renamed = |child: &Element| match child.name.as_str() {
                "property" => child.renamed("element", ""),
                _ => child.clone(),
            };
            let mut value = list.renamed("value", "");
            value.children = list.children.iter().map(renamed).collect();
            let mut policy = element.renamed("property", prefix);
            policy.children = vec![value];
            self.own.push(policy);
        }
    }

    /// Reports an element that is not read: one of Fast DDS without an effect, or an unknown one.
    /// A participant has only settings of networks, discovery and threads beside those that are
    /// read, so an unknown one that resembles none of these is one of a later version.
    fn other(&mut self, element: &Element, path: &ElementPath<'_>, expected: &[&str]) {
        let is_setting = self.kind == EntityKind::DomainParticipant
            && suggest(&element.name, expected.iter().copied()).is_none();
        if is_setting || vendor::is_of_fast_dds(&element.name) {
            return self.report.ignored(element.at, path, vendor::FAST);
        }
        let error = UnplacedError::new(
            "found an unknown element",
            format!("expected {}", one_of(expected)),
        );
        let meant = suggest(&element.name, expected.iter().copied());
        self.report.error(element.at, path, error.suggest(meant));
    }
}

fn standard_name(name: &str) -> &str {
    POLICIES.iter().find(|(own, _)| *own == name).map_or(name, |(_, standard)| standard)
}

/// Returns bytes in hexadecimal with dots between them as a list of numbers; another text as it is.
fn octets(text: &str) -> String {
    let bytes: Result<Vec<String>, _> = text
        .split('.')
        .map(|byte| u8::from_str_radix(byte.trim(), 16).map(|byte| byte.to_string()))
        .collect();
    bytes.map_or_else(|_| text.to_owned(), |bytes| bytes.join(","))
}

/// Makes an empty profile.
pub(super) fn empty(name: &str, is_default: bool, set: &PolicySet, file: &Arc<str>) -> Profile {
    Profile {
        name: name.into(),
        bases: Vec::new(),
        is_default,
        entries: Vec::new(),
        file: Arc::clone(file),
        at: set.at,
        in_dds: set.in_dds,
        is_of_fast_dds: true,
    }
}
