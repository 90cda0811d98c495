//! Reload of QoS profiles while entities run with them.
//!
//! Owns: which changes an entity adopts, and which are reported instead. Never does: apply a part
//! of a change that contradicts the rest.

use std::fmt;
use std::sync::{Arc, Weak};

use qos_profiles::{EntityKind, EntityQos, PolicyId};

use super::{ProfileBinding, ProfilePolicies, ProfiledEntity, Profiles};
use crate::domain::ParticipantInner;
use crate::domain::entity_group::{EndpointQos, EntityGroup, GroupEntity, GroupQos};
use crate::infrastructure::{DdsError, DdsResult, InstanceHandle};
use crate::mapping::policies::EndpointPolicies;
use crate::topic::TopicPolicies;

/// Result of a reload of the profiles: see
/// [`DomainParticipant::reload_qos`](crate::domain::DomainParticipant::reload_qos).
///
/// ```
/// # use dds_api::prelude::*;
/// # fn example(participant: &DomainParticipant) -> DdsResult<()> {
/// let report = participant.reload_qos()?;
/// println!("{} entities have other policies now", report.changed.len());
/// for entity in report.unchanged {
///     eprintln!("{entity}");
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct QosReload {
    /// Entities whose policies have changed, each with these policies.
    pub changed: Vec<ReloadedEntity>,
    /// Entities that do not fully follow their profile, each with the policies that stay as they
    /// were, and the reason.
    pub unchanged: Vec<ReloadedEntity>,
}

/// An entity whose profile has other values than before.
///
/// ```
/// # use dds_api::prelude::*;
/// # fn example(participant: &DomainParticipant) -> DdsResult<()> {
/// for it in participant.reload_qos()?.changed {
///     println!("a {:?} of {} by {}: {:?}", it.kind, it.topic.unwrap_or_default(), it.profile, it.policies);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ReloadedEntity {
    /// Kind of the entity.
    pub kind: EntityKind,
    /// Name of the entity in the domain; topics have none.
    pub handle: Option<InstanceHandle>,
    /// Topic of the entity, if it has one.
    pub topic: Option<String>,
    /// Profile from which the entity was created.
    pub profile: String,
    /// Policies that this report is about.
    pub policies: Vec<PolicyId>,
    /// Reason why the policies did not change.
    pub reason: Option<String>,
}

impl fmt::Display for ReloadedEntity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.word())?;
        if let Some(handle) = self.handle {
            write!(f, " {handle}")?;
        }
        if let Some(topic) = &self.topic {
            write!(f, " `{topic}`")?;
        }
        write!(f, " by profile `{}`", self.profile)?;
        for (index, policy) in self.policies.iter().enumerate() {
            write!(f, "{} {policy}", if index == 0 { ":" } else { "," })?;
        }
        match &self.reason {
            Some(reason) => write!(f, ": {reason}"),
            None => Ok(()),
        }
    }
}

/// Pending change of an entity's policies.
struct PolicyChange {
    qos: EntityQos,
    /// Values of the entity's profile after the change; policies that may not change keep the
    /// old value.
    given: EntityQos,
    changed: Vec<PolicyId>,
    fixed: Vec<PolicyId>,
}

impl PolicyChange {
    /// Compares the values that a profile gave to an entity with the values that it gives now.
    /// Policies that the application has set otherwise stay.
    fn new(
        present: EntityQos,
        given: &EntityQos,
        new: &EntityQos,
        may_change: impl Fn(PolicyId) -> bool,
    ) -> PolicyChange {
        let mut change = PolicyChange {
            qos: present.clone(),
            given: given.clone(),
            changed: Vec::new(),
            fixed: Vec::new(),
        };
        for (policy, _) in new.kind().policies().filter(|(policy, _)| !given.agrees(new, *policy)) {
            if !present.agrees(given, policy) {
                change.given.adopt(new, policy);
            } else if may_change(policy) {
                change.qos.adopt(new, policy);
                change.given.adopt(new, policy);
                change.changed.push(policy);
            } else {
                change.fixed.push(policy);
            }
        }
        change
    }

    /// Applies the change, all or nothing, and reports the result. `policies` holds the values that
    /// the profile gave to the entity.
    fn apply(
        self,
        entity: &ReloadedEntity,
        given: &mut EntityQos,
        apply: impl FnOnce(EntityQos) -> DdsResult<()>,
        report: &mut QosReload,
    ) {
        let PolicyChange { qos, given: new, changed, fixed } = self;
        let reloaded_entity =
            |policies, reason| ReloadedEntity { policies, reason, ..entity.clone() };
        if !fixed.is_empty() {
            let reason = "cannot change after creation: create the entity anew".to_owned();
            report.unchanged.push(reloaded_entity(fixed, Some(reason)));
        }
        let applied = match qos.inconsistencies().first() {
            _ if changed.is_empty() => Ok(()),
            Some(wrong) => Err(DdsError::InconsistentPolicy(format!(
                "{wrong}; the file is consistent, but contradicts values that were set elsewhere \
                 or cannot change"
            ))),
            None => apply(qos),
        };
        match applied {
            Err(wrong) => report.unchanged.push(reloaded_entity(changed, Some(wrong.to_string()))),
            Ok(()) => {
                *given = new;
                if !changed.is_empty() {
                    report.changed.push(reloaded_entity(changed, None));
                }
            }
        }
    }
}

impl Profiles {
    /// Reads the files again, and applies the changes to the entities that run. If the files have
    /// an error, nothing changes.
    pub(in crate::domain) fn reload(&self, participant: &ParticipantInner) -> DdsResult<QosReload> {
        let mut report = QosReload::default();
        self.provider.reload().map_err(|wrong| DdsError::BadParameter(format!("{wrong:#}")))?;
        // Threads that create or drop an entity wait meanwhile. Topics come before the entities
        // that follow them.
        let mut bindings = self.bindings();
        let bindings = &mut *bindings;
        for (shared, binding) in &mut bindings.shared {
            self.reload_shared(shared, binding, &mut report);
        }
        for (id, (topic, binding)) in &mut bindings.endpoints {
            self.reload_endpoint(participant, *id, topic, binding, &mut report);
        }
        Ok(report)
    }

    fn reload_shared(
        &self,
        shared: &ProfiledEntity,
        binding: &mut ProfileBinding,
        report: &mut QosReload,
    ) {
        match shared {
            ProfiledEntity::Participant(participant) => {
                let Some(participant) = participant.upgrade() else { return };
                reload_participant(self, &participant, binding, report);
            }
            ProfiledEntity::Topic(topic) => {
                let Some(topic) = topic.upgrade() else { return };
                let policies = &topic.policies;
                let entity = entity(EntityKind::Topic, None, Some(policies), binding);
                let name = Some(&*policies.name);
                let new = self.of_shared(EntityKind::Topic, &binding.profile, name);
                let Some(new) = known(new, &entity, report) else { return };
                check_level(&binding.policies, &new, &entity, report);
                let may_change = |policy| policies.may_change(policy);
                let present = policies.qos().into();
                let change =
                    PolicyChange::new(present, &binding.policies.qos, &new.qos, may_change);
                let apply = |qos| match qos {
                    EntityQos::Topic(qos) => topic.set_qos(&qos),
                    _ => Ok(()),
                };
                change.apply(&entity, &mut binding.policies.qos, apply, report);
            }
            ProfiledEntity::Publisher(publisher) => self.reload_group(publisher, binding, report),
            ProfiledEntity::Subscriber(subscriber) => {
                self.reload_group(subscriber, binding, report)
            }
        }
    }

    fn reload_group<Q, E, L>(
        &self,
        group: &Weak<EntityGroup<Q, E, L>>,
        binding: &mut ProfileBinding,
        report: &mut QosReload,
    ) where
        Q: GroupQos + Into<EntityQos>,
        E: EndpointQos,
        L: ?Sized + Send + 'static,
        EntityGroup<Q, E, L>: GroupEntity,
    {
        let Some(group) = group.upgrade() else { return };
        let entity = entity(Q::KIND, Some(group.handle()), None, binding);
        let new = self.of_shared(Q::KIND, &binding.profile, None);
        let Some(new) = known(new, &entity, report) else { return };
        let apply = |qos: EntityQos| Q::of(&qos).map_or(Ok(()), |qos| group.set_qos(qos));
        let (present, given) = (group.qos().into(), &mut binding.policies.qos);
        PolicyChange::new(present, given, &new.qos, PolicyId::changeable_after_enable)
            .apply(&entity, given, apply, report);
    }

    fn reload_endpoint(
        &self,
        participant: &ParticipantInner,
        id: u64,
        topic: &Arc<TopicPolicies>,
        binding: &mut ProfileBinding,
        report: &mut QosReload,
    ) {
        let Some(policies) = participant.engine.act(|machine, _, _| machine.policies(id)) else {
            return;
        };
        let present: EntityQos = match &*policies {
            EndpointPolicies::Offered { writer, .. } => writer.clone().into(),
            EndpointPolicies::Requested { reader, .. } => reader.clone().into(),
        };
        let kind = present.kind();
        let handle = participant.membership.handle(id);
        let entity = entity(kind, Some(handle), Some(topic), binding);
        let new = self.of_endpoint(kind, &binding.profile, topic, binding.by_topic);
        let Some(new) = known(new, &entity, report) else { return };
        let has_cache = binding.policies.settings.is_some();
        let may_change = |policy: PolicyId| {
            // Without settings in its profile a reader may take samples without a cache, and these
            // policies need a cache.
            let is_cache = kind == EntityKind::DataReader
                && matches!(
                    policy,
                    PolicyId::TimeBasedFilter | PolicyId::ReaderDataLifecycle | PolicyId::Deadline
                );
            policy.changeable_after_enable() && (has_cache || !is_cache)
        };
        let change = PolicyChange::new(present, &binding.policies.qos, &new.qos, may_change);
        let apply = |qos| {
            let change = |policies: &mut EndpointPolicies| match (policies, &qos) {
                (EndpointPolicies::Offered { writer, .. }, EntityQos::DataWriter(qos)) => {
                    writer.clone_from(qos);
                }
                (EndpointPolicies::Requested { reader, .. }, EntityQos::DataReader(qos)) => {
                    reader.clone_from(qos);
                }
                _ => {}
            };
            let changed = participant.engine.act(|machine, _, _| machine.change(id, change));
            changed.map_err(DdsError::BadParameter)
        };
        change.apply(&entity, &mut binding.policies.qos, apply, report);
    }
}

fn reload_participant(
    profiles: &Profiles,
    participant: &ParticipantInner,
    binding: &mut ProfileBinding,
    report: &mut QosReload,
) {
    let handle = participant.membership.handle(0);
    let kind = EntityKind::DomainParticipant;
    let entity = entity(kind, Some(handle), None, binding);
    let new = profiles.of_shared(kind, &binding.profile, None);
    let Some(new) = known(new, &entity, report) else { return };
    let apply = |qos| match qos {
        EntityQos::DomainParticipant(qos) => participant.set_qos(&qos),
        _ => Ok(()),
    };
    let (present, given) = (participant.policies.qos().into(), &mut binding.policies.qos);
    PolicyChange::new(present, given, &new.qos, PolicyId::changeable_after_enable)
        .apply(&entity, given, apply, report);
}

/// Report on an entity, with no policies yet.
fn entity(
    kind: EntityKind,
    handle: Option<InstanceHandle>,
    topic: Option<&Arc<TopicPolicies>>,
    binding: &ProfileBinding,
) -> ReloadedEntity {
    ReloadedEntity {
        kind,
        handle,
        topic: topic.map(|topic| topic.name.as_ref().to_owned()),
        profile: binding.profile.as_ref().to_owned(),
        policies: Vec::new(),
        reason: None,
    }
}

/// Returns the values that a profile gives now. If the profile no longer exists, reports that.
fn known(
    new: DdsResult<ProfilePolicies>,
    entity: &ReloadedEntity,
    report: &mut QosReload,
) -> Option<ProfilePolicies> {
    new.map_err(|wrong| {
        let reason = Some(wrong.to_string());
        report.unchanged.push(ReloadedEntity { reason, ..entity.clone() });
    })
    .ok()
}

/// Reports a changed level of a topic: a topic keeps the level with which it was created, even if
/// `squall.delivery` has another value now.
fn check_level(
    old: &ProfilePolicies,
    new: &ProfilePolicies,
    entity: &ReloadedEntity,
    report: &mut QosReload,
) {
    let level =
        |given: &ProfilePolicies| given.settings.as_ref().and_then(|settings| settings.level());
    let (was, is) = (level(old), level(new));
    let fixed = [PolicyId::Reliability, PolicyId::Durability];
    if was != is && fixed.iter().all(|policy| old.qos.agrees(&new.qos, *policy)) {
        let is = is.map_or("unordered".to_owned(), |level| level.to_string());
        let reason = format!(
            "the topic would be {is} by `squall.delivery`, which cannot change: create the topic \
             anew"
        );
        report.unchanged.push(ReloadedEntity { reason: Some(reason), ..entity.clone() });
    }
}
