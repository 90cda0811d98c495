//! What a topic and its clones share: the policies of which its writers and readers take their own.
//!
//! Owns: how they change. Never does: change an endpoint that is there.

use std::sync::{Arc, Mutex, PoisonError};

use qos_profiles::{PolicyId, TopicQos};

use crate::infrastructure::{DdsError, DdsResult, immutable};
use crate::mapping::level::TopicLevel;

/// See the [module](self).
pub(crate) struct TopicPolicies {
    pub(crate) name: Arc<str>,
    pub(crate) level: TopicLevel,
    /// The profile that it was made by, if it was: its writers and readers follow it if nothing is said of them.
    pub(crate) profile: Option<Arc<str>>,
    qos: Mutex<TopicQos>,
}

impl TopicPolicies {
    pub(super) fn new(
        name: Arc<str>,
        level: TopicLevel,
        profile: Option<Arc<str>>,
        qos: TopicQos,
    ) -> Arc<Self> {
        Arc::new(TopicPolicies { name, level, profile, qos: Mutex::new(qos) })
    }

    pub(crate) fn qos(&self) -> TopicQos {
        self.qos.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether a policy may change. How long samples are kept all participants have said to each other.
    pub(crate) fn may_change(&self, policy: PolicyId) -> bool {
        let is_agreed = policy == PolicyId::Lifespan && self.level.is_kept();
        policy.changeable_after_enable() && !is_agreed
    }

    pub(crate) fn set_qos(&self, qos: &TopicQos) -> DdsResult<()> {
        let mut present = self.qos.lock().unwrap_or_else(PoisonError::into_inner);
        let mut changed = present.changed(qos);
        changed.retain(|policy| !self.may_change(*policy));
        immutable("topic", &changed)?;
        if let Some(wrong) = qos.inconsistencies().first() {
            return Err(DdsError::InconsistentPolicy(format!("topic `{}`: {wrong}", self.name)));
        }
        present.clone_from(qos);
        Ok(())
    }
}
