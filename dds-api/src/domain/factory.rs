//! The factory of participants: the standard's `DomainParticipantFactory`.
//!
//! Owns: which participants this process has, and their default policies. Never does: keep a
//! participant alive that its application has dropped.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use qos_profiles::{DomainParticipantQos, EntityFactoryQosPolicy};

use super::participant_policies::DefaultQos;
use super::{DomainParticipant, ParticipantConfig, ParticipantInner};
use crate::infrastructure::{DdsError, DdsResult};

/// The policies of the factory.
///
/// ```
/// # use dds_api::prelude::*;
/// use dds_api::domain::{DomainParticipantFactory, DomainParticipantFactoryQos};
///
/// # fn example() -> DdsResult<()> {
/// let factory = DomainParticipantFactory::instance();
/// let mut qos: DomainParticipantFactoryQos = factory.qos();
/// qos.entity_factory.autoenable_created_entities = false;    // participants wait for `enable`
/// factory.set_qos(&qos)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct DomainParticipantFactoryQos {
    /// ENTITY_FACTORY: whether participants are enabled when they are created.
    pub entity_factory: EntityFactoryQosPolicy,
}

/// The factory of participants. Each process has one, which [`DomainParticipant::new`] uses
/// as well.
///
/// ```no_run
/// use dds_api::domain::DomainParticipantFactory;
/// use dds_api::prelude::*;
///
/// # fn main() -> DdsResult<()> {
/// let factory = DomainParticipantFactory::instance();
/// let participant = factory.create_participant(0)?;
/// assert!(factory.lookup_participant(0).is_some());
/// participant.delete_contained_entities()?;
/// factory.delete_participant(&participant)?;
/// # Ok(())
/// # }
/// ```
pub struct DomainParticipantFactory {
    autoenables: Mutex<bool>,
    default_qos: DefaultQos<DomainParticipantQos>,
    participants: Mutex<Vec<Weak<ParticipantInner>>>,
}

static FACTORY: DomainParticipantFactory = DomainParticipantFactory {
    autoenables: Mutex::new(true),
    default_qos: DefaultQos::new(),
    participants: Mutex::new(Vec::new()),
};

impl DomainParticipantFactory {
    /// The factory of this process.
    #[doc(alias = "get_instance")]
    pub fn instance() -> &'static DomainParticipantFactory {
        &FACTORY
    }

    /// Joins a domain with all defaults: [`DomainParticipant::new`].
    pub fn create_participant(&self, domain: u32) -> DdsResult<DomainParticipant> {
        DomainParticipant::new(domain)
    }

    /// Joins a domain: [`DomainParticipant::with_config`].
    #[doc(alias = "create_participant")]
    pub fn create_participant_with(
        &self,
        domain: u32,
        config: ParticipantConfig,
    ) -> DdsResult<DomainParticipant> {
        DomainParticipant::with_config(domain, config)
    }

    /// Makes a participant leave its domain, even if handles on it exist. Calls on these return
    /// [`DdsError::AlreadyDeleted`] from then on. The memory is freed with the last handle;
    /// dropping the last handle also leaves the domain.
    ///
    /// # Errors
    /// [`DdsError::PreconditionNotMet`] while the participant contains entities:
    /// see [`DomainParticipant::delete_contained_entities`].
    pub fn delete_participant(&self, participant: &DomainParticipant) -> DdsResult<()> {
        participant.check_there()?;
        match participant.inner().count() {
            0 => {
                participant.inner().end();
                Ok(())
            }
            count => Err(DdsError::PreconditionNotMet(format!(
                "this participant contains {count} entities: drop them first, or call delete_contained_entities"
            ))),
        }
    }

    /// A participant of this process in this domain, if there is one: the one that was
    /// created first.
    pub fn lookup_participant(&self, domain: u32) -> Option<DomainParticipant> {
        let all = self.participants().clone();
        let mut all = all.iter().filter_map(Weak::upgrade);
        let is_there =
            |it: &ParticipantInner| !it.lifecycle.is_deleted() && !it.lifecycle.is_inherited();
        let found = all.find(|it| it.domain_id() == domain && is_there(it));
        found.map(DomainParticipant::of)
    }

    /// Policies of participants for which nothing is specified; `None` means those of the standard.
    #[doc(alias = "get_default_participant_qos")]
    pub fn default_participant_qos(&self) -> Option<DomainParticipantQos> {
        self.default_qos.get()
    }

    /// Sets the policies of participants that are created from now on without any policies and
    /// without a [profile](ParticipantConfig::profile).
    pub fn set_default_participant_qos(&self, qos: Option<DomainParticipantQos>) -> DdsResult<()> {
        self.default_qos.set(qos)
    }

    /// Policies of the factory.
    #[doc(alias = "get_qos")]
    pub fn qos(&self) -> DomainParticipantFactoryQos {
        let mut qos = DomainParticipantFactoryQos::default();
        qos.entity_factory.autoenable_created_entities = self.autoenables();
        qos
    }

    /// Gives the factory other policies, for participants that are created from now on.
    pub fn set_qos(&self, qos: &DomainParticipantFactoryQos) -> DdsResult<()> {
        *self.autoenables.lock().unwrap_or_else(PoisonError::into_inner) =
            qos.entity_factory.autoenable_created_entities;
        Ok(())
    }

    /// Whether participants are enabled when they are created.
    pub(super) fn autoenables(&self) -> bool {
        *self.autoenables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn participants(&self) -> MutexGuard<'_, Vec<Weak<ParticipantInner>>> {
        self.participants.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds this participant to the list.
    pub(super) fn enter(&self, participant: &Arc<ParticipantInner>) {
        let mut participants = self.participants();
        participants.retain(|known| known.strong_count() > 0);
        participants.push(Arc::downgrade(participant));
    }
}
