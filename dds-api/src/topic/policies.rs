//! Policies that a topic and its clones share, from which its writers and readers take theirs.
//!
//! Owns: how they change. Never does: change an existing endpoint.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use qos_profiles::xml::DeliveryLevel;
use qos_profiles::{
    DataRepresentationQosPolicy, DurabilityQosPolicyKind, DurabilityServiceQosPolicy, PolicyId,
    TopicQos,
};

use super::representation::{PolicyOwner, TypeRepresentations};
use super::storage_options::{ResolvedTopic, StorageOptions};
use crate::infrastructure::{DdsError, DdsResult, immutable};
use crate::mapping::level::{TopicLevel, TopicRetention};
use crate::mapping::order::TopicOrder;

/// See the [module](self).
pub(crate) struct TopicPolicies {
    pub(crate) name: Arc<str>,
    /// The profile that the topic was made by, if any. It is the default profile of its writers
    /// and readers.
    pub(crate) profile: Option<Arc<str>>,
    /// Topics or partitions that share the order.
    pub(crate) order: TopicOrder,
    options: StorageOptions,
    /// DATA_REPRESENTATION that the type allows.
    representations: TypeRepresentations,
    /// Level and kept samples, fixed once the topic is enabled.
    fixed: OnceLock<(TopicLevel, TopicRetention)>,
    present: Mutex<ResolvedTopic>,
}

impl TopicPolicies {
    pub(super) fn new(
        name: Arc<str>,
        profile: Option<Arc<str>>,
        order: TopicOrder,
        representations: TypeRepresentations,
        present: ResolvedTopic,
        options: StorageOptions,
    ) -> Arc<Self> {
        let (fixed, present) = (OnceLock::new(), Mutex::new(present));
        Arc::new(TopicPolicies { name, profile, order, options, representations, fixed, present })
    }

    fn present(&self) -> MutexGuard<'_, ResolvedTopic> {
        self.present.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn qos(&self) -> TopicQos {
        self.present().qos.clone()
    }

    /// The level of the topic.
    #[inline]
    pub(crate) fn level(&self) -> TopicLevel {
        self.fixed.get().map_or_else(|| self.present().level, |(level, _)| *level)
    }

    /// Which samples are kept.
    pub(crate) fn retention(&self) -> TopicRetention {
        self.fixed.get().map_or_else(|| self.present().retention, |(_, keeping)| *keeping)
    }

    /// Fixes the policies that may not change any more.
    pub(super) fn fix(&self) {
        let present = self.present();
        self.fixed.get_or_init(|| (present.level, present.retention));
    }

    /// Whether a policy may change. LIFESPAN of kept samples may not, because all participants have
    /// agreed on it.
    pub(crate) fn may_change(&self, policy: PolicyId) -> bool {
        let is_agreed = policy == PolicyId::Lifespan && self.level().is_kept();
        self.fixed.get().is_none() || policy.changeable_after_enable() && !is_agreed
    }

    /// Fills in DATA_REPRESENTATION of an endpoint, by default from the type.
    ///
    /// # Errors
    /// [`DdsError::InconsistentPolicy`] if the type does not allow the representations, or no
    /// participant could send them.
    pub(crate) fn settle_representation(
        &self,
        owner: PolicyOwner,
        policy: &mut DataRepresentationQosPolicy,
    ) -> DdsResult<()> {
        self.representations.settle(owner, &self.name, policy)
    }

    /// Changes the policies of an enabled topic that may change, unless `announce` refuses.
    pub(super) fn change(
        &self,
        qos: &TopicQos,
        announce: impl FnOnce(&TopicQos) -> DdsResult<()>,
    ) -> DdsResult<()> {
        let mut qos = qos.clone();
        self.settle_representation(PolicyOwner::Topic, &mut qos.representation)?;
        let mut changed = self.qos().changed(&qos);
        changed.retain(|policy| !self.may_change(*policy));
        immutable("topic", &changed)?;
        if let Some(wrong) = qos.inconsistencies().first() {
            return Err(DdsError::InconsistentPolicy(format!("topic `{}`: {wrong}", self.name)));
        }
        announce(&qos)?;
        self.present().qos = qos;
        Ok(())
    }

    /// Changes any policies of a topic that is not enabled. If RELIABILITY or DURABILITY changes,
    /// the level changes too.
    pub(super) fn change_all(&self, qos: &TopicQos) -> DdsResult<()> {
        let mut qos = qos.clone();
        self.settle_representation(PolicyOwner::Topic, &mut qos.representation)?;
        let mut present = self.present();
        let changed = present.qos.changed(&qos);
        let has_changed = |policies: &[PolicyId]| policies.iter().any(|it| changed.contains(it));
        let mut level = present.level;
        if has_changed(&[PolicyId::Reliability, PolicyId::Durability]) {
            level = DeliveryLevel::of(qos.reliability.kind, qos.durability.kind).into();
        }
        let says_nothing = qos.durability_service == DurabilityServiceQosPolicy::default();
        let follows = [PolicyId::Durability, PolicyId::History, PolicyId::ResourceLimits];
        if qos.durability.kind == DurabilityQosPolicyKind::TransientLocal
            && (says_nothing || has_changed(&follows))
        {
            qos.durability_service = StorageOptions::service_of(&qos);
        }
        self.order.check(&self.name, level)?;
        *present = self.options.resolve(&self.name, level, qos)?;
        Ok(())
    }
}
