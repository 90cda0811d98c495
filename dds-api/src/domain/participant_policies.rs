//! Policies of a participant, and default policies of its publishers, subscribers and topics.
//!
//! Owns: these policies. Never does: announce them itself; the machine does.

use std::sync::{Mutex, PoisonError};

use qos_profiles::{DomainParticipantQos, EntityQos, PublisherQos, SubscriberQos, TopicQos};

use super::ParticipantInner;
use crate::infrastructure::{DdsError, DdsResult};
use crate::mapping::directory::ParticipantFacts;

/// See the [module](self).
#[derive(Default)]
pub(crate) struct ParticipantPolicies {
    qos: Mutex<DomainParticipantQos>,
    pub(crate) publisher: DefaultQos<PublisherQos>,
    pub(crate) subscriber: DefaultQos<SubscriberQos>,
    pub(crate) topic: DefaultQos<TopicQos>,
}

/// Policies of entities for which nothing is specified, if any were set.
pub(crate) struct DefaultQos<Q>(Mutex<Option<Q>>);

impl<Q> DefaultQos<Q> {
    pub(crate) const fn new() -> Self {
        DefaultQos(Mutex::new(None))
    }
}

impl<Q> Default for DefaultQos<Q> {
    fn default() -> Self {
        DefaultQos::new()
    }
}

impl<Q: Clone + Into<EntityQos>> DefaultQos<Q> {
    pub(crate) fn get(&self) -> Option<Q> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets these policies.
    ///
    /// # Errors
    /// If the policies contradict each other.
    pub(crate) fn set(&self, qos: Option<Q>) -> DdsResult<()> {
        let set: Option<EntityQos> = qos.clone().map(Into::into);
        if let Some(wrong) = set.and_then(|set| set.inconsistencies().into_iter().next()) {
            return Err(DdsError::InconsistentPolicy(wrong.to_string()));
        }
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = qos;
        Ok(())
    }
}

impl ParticipantPolicies {
    pub(super) fn new(qos: DomainParticipantQos) -> ParticipantPolicies {
        ParticipantPolicies { qos: Mutex::new(qos), ..ParticipantPolicies::default() }
    }

    pub(crate) fn qos(&self) -> DomainParticipantQos {
        self.qos.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// ENTITY_FACTORY.
    pub(crate) fn autoenables(&self) -> bool {
        let qos = self.qos.lock().unwrap_or_else(PoisonError::into_inner);
        qos.entity_factory.autoenable_created_entities
    }
}

impl ParticipantInner {
    /// Gives the participant other policies, and announces them if the participant is enabled.
    pub(crate) fn set_qos(&self, qos: &DomainParticipantQos) -> DdsResult<()> {
        // A thread that enables the participant meanwhile waits, and then announces these policies.
        let mut present = self.policies.qos.lock().unwrap_or_else(PoisonError::into_inner);
        self.announce(qos, self.lifecycle.is_enabled())?;
        present.clone_from(qos);
        Ok(())
    }

    /// Enables the participant and announces it.
    pub(super) fn introduce(&self) -> DdsResult<()> {
        let present = self.policies.qos.lock().unwrap_or_else(PoisonError::into_inner);
        self.announce(&present, true)?;
        self.lifecycle.enable();
        Ok(())
    }

    fn announce(&self, qos: &DomainParticipantQos, is_enabled: bool) -> DdsResult<()> {
        let data = ParticipantFacts { user_data: qos.user_data.value.clone() };
        let announced = self.engine.act(|machine, _, _| machine.introduce(data, is_enabled));
        announced.map_err(|wrong| DdsError::BadParameter(format!("a participant: {wrong}")))
    }
}
