//! Common behaviour of publishers and subscribers: groups of writers or readers that share some of
//! their policies.
//!
//! Owns: the policies of the group, and the default policies of its entities. Never does: write
//! or read.

use std::any::Any;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use derecho_core::ids::Time;
use qos_profiles::{
    DataReaderQos, DataWriterQos, EntityKind, EntityQos, PartitionQosPolicy, PolicyId,
    PublisherQos, SubscriberQos,
};

use super::ParticipantInner;
use super::enabling::EndpointContainer;
use super::entity::{Entity, not_yet};
use super::listener_dispatcher::ListenedEntity;
use super::participant_policies::{DefaultQos, ParticipantPolicies};
use super::profiles::{ProfileBinding, ProfiledEntity};
use crate::infrastructure::lifecycle::Lifecycle;
use crate::infrastructure::listener::ListenerSlot;
use crate::infrastructure::{
    DdsError, DdsResult, InstanceHandle, PublisherListener, StatusMask, SubscriberListener,
    immutable,
};
use crate::mapping::policies::{EndpointPolicies, check_data};
use crate::mapping::record::{LONGEST_NAMES, PolicyMetadata};
use crate::publication::{HeldChanges, Publisher};
use crate::subscription::{GroupAccess, Subscriber, not_with_builtin};

/// The policies of a publisher or of a subscriber.
pub(crate) trait GroupQos: Clone + Default + Send + Sync + 'static {
    /// State of a group beside its policies; for a publisher, the changes that it holds back.
    type OwnState: Default + Send + Sync + 'static;

    /// Kind of the group: publisher or subscriber.
    const KIND: EntityKind;
    /// The policies in `qos`, if they are of this kind of entity.
    fn of(qos: &EntityQos) -> Option<&Self>;
    /// The participant's default policies of this kind of group, if any were set.
    fn default_from(policies: &ParticipantPolicies) -> Option<Self>;
    /// The group's policies among the policies of an endpoint.
    fn within(policies: &mut EndpointPolicies) -> Option<&mut Self>;
    /// PARTITION.
    fn partition(&self) -> &PartitionQosPolicy;
    /// GROUP_DATA.
    fn group_data(&self) -> &[u8];
    /// ENTITY_FACTORY.
    fn autoenables(&self) -> bool;
    /// EndpointPolicies that differ and may not change.
    fn immutable_changes(&self, other: &Self) -> Vec<PolicyId>;
}

macro_rules! group_qos {
    ($qos:ident, $kind:ident, $policies:ident, $field:ident, $own:ty) => {
        impl GroupQos for $qos {
            type OwnState = $own;

            const KIND: EntityKind = EntityKind::$kind;

            fn of(qos: &EntityQos) -> Option<&Self> {
                if let EntityQos::$kind(qos) = qos { Some(qos) } else { None }
            }

            fn default_from(policies: &ParticipantPolicies) -> Option<Self> {
                policies.$field.get()
            }

            fn within(policies: &mut EndpointPolicies) -> Option<&mut Self> {
                if let EndpointPolicies::$policies { $field, .. } = policies {
                    Some($field)
                } else {
                    None
                }
            }

            fn partition(&self) -> &PartitionQosPolicy {
                &self.partition
            }

            fn group_data(&self) -> &[u8] {
                &self.group_data.value
            }

            fn autoenables(&self) -> bool {
                self.entity_factory.autoenable_created_entities
            }

            fn immutable_changes(&self, other: &Self) -> Vec<PolicyId> {
                $qos::immutable_changes(self, other)
            }
        }
    };
}

group_qos!(PublisherQos, Publisher, Offered, publisher, HeldChanges);
group_qos!(SubscriberQos, Subscriber, Requested, subscriber, GroupAccess);

/// A publisher or subscriber: its policies, and the default policies of its entities, if any
/// were set.
pub(crate) struct EntityGroup<Q: GroupQos, E, L: ?Sized> {
    pub(crate) participant: Arc<ParticipantInner>,
    pub(crate) id: u64,
    qos: Mutex<Q>,
    default: DefaultQos<E>,
    lifecycle: Lifecycle,
    /// Whether the group is the participant's own, for builtin topics.
    pub(crate) is_builtin: bool,
    pub(crate) own: Q::OwnState,
    pub(crate) listener: ListenerSlot<L>,
}

/// Policies of a group's entities.
pub(crate) trait EndpointQos: Clone + Into<EntityQos> + Send + Sync + 'static {}

impl<E: Clone + Into<EntityQos> + Send + Sync + 'static> EndpointQos for E {}

impl<Q: GroupQos, E: EndpointQos, L: ?Sized + Send + 'static> EndpointContainer
    for EntityGroup<Q, E, L>
where
    Self: GroupEntity,
{
    fn enables(&self) -> bool {
        self.lifecycle.is_enabled() && self.lock_qos().autoenables()
    }

    fn check_enables(&self) -> DdsResult<()> {
        match self.lifecycle.is_enabled() {
            true => Ok(()),
            false => Err(not_yet(&format!("the {} of this endpoint", Q::KIND.word()))),
        }
    }
}

impl<Q: GroupQos, E: EndpointQos, L: ?Sized + Send + 'static> EntityGroup<Q, E, L>
where
    Self: GroupEntity,
{
    fn new(participant: Arc<ParticipantInner>, qos: Q) -> Arc<Self> {
        Self::with_state(participant, qos, false)
    }

    /// Creates a group for builtin topics, which is enabled whatever else is enabled.
    pub(crate) fn builtin(participant: Arc<ParticipantInner>, qos: Q) -> Arc<Self> {
        Self::with_state(participant, qos, true)
    }

    fn with_state(participant: Arc<ParticipantInner>, qos: Q, is_builtin: bool) -> Arc<Self> {
        let id = participant.engine.act(|machine, _, _| machine.fresh_group());
        let (qos, default) = (Mutex::new(qos), DefaultQos::new());
        let (lifecycle, listener) = (Lifecycle::default(), ListenerSlot::default());
        let own = Q::OwnState::default();
        let group =
            EntityGroup { participant, id, qos, default, lifecycle, is_builtin, own, listener };
        if is_builtin || group.participant.enables() {
            group.lifecycle.enable();
        }
        let group = Arc::new(group);
        let entity: Weak<Self> = Arc::downgrade(&group);
        group.participant.dispatcher.add(entity);
        group
    }

    /// Whether the group is enabled, and whether it still exists.
    pub(crate) fn lifecycle(&self) -> &Lifecycle {
        &self.lifecycle
    }

    /// Returns an error unless the group is enabled.
    pub(crate) fn check(&self) -> DdsResult<()> {
        self.lifecycle.check(format_args!("this {}", Q::KIND.word()))
    }

    /// Returns an error if the group is deleted.
    pub(crate) fn check_there(&self) -> DdsResult<()> {
        self.lifecycle.check_there(format_args!("this {}", Q::KIND.word()))
    }

    /// Returns an error if the application may not change or delete the group.
    fn check_changes(&self) -> DdsResult<()> {
        if self.is_builtin { Err(not_with_builtin("this subscriber")) } else { Ok(()) }
    }

    /// Enables the group, and its entities if ENTITY_FACTORY says so.
    pub(crate) fn enable(&self) -> DdsResult<()> {
        self.check_there()?;
        if self.lifecycle.is_enabled() {
            return Ok(());
        }
        self.participant.check_enables()?;
        self.lifecycle.enable();
        match self.enables() {
            true => self.participant.endpoints_of(self.id).try_for_each(|it| it.enable()),
            false => Ok(()),
        }
    }

    /// Deletes the entities of the group, even if applications still have handles on them.
    pub(crate) fn delete_contents(&self) -> DdsResult<()> {
        self.check_there()?;
        self.check_changes()?;
        self.participant.endpoints_of(self.id).for_each(|it| it.delete());
        self.participant.engine.nudge();
        Ok(())
    }

    /// Deletes the group if it has no entities. `of` names such entities in the error.
    pub(crate) fn delete(&self, of: &str) -> DdsResult<()> {
        self.check_there()?;
        self.check_changes()?;
        let what = Q::KIND.word();
        match self.entities().len() {
            0 => {
                self.lifecycle.delete();
                Ok(())
            }
            count => Err(DdsError::PreconditionNotMet(format!(
                "this {what} has {count} {of}: drop them first, or call delete_contained_entities"
            ))),
        }
    }

    pub(crate) fn handle(&self) -> InstanceHandle {
        self.participant.membership.handle(self.id)
    }

    /// Policies of the group.
    pub(crate) fn qos(&self) -> Q {
        self.lock_qos().clone()
    }

    /// Locks the policies. They do not change while the guard is held.
    fn lock_qos(&self) -> MutexGuard<'_, Q> {
        self.qos.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the group and all its entities other policies.
    pub(crate) fn set_qos(&self, qos: &Q) -> DdsResult<()> {
        self.check_there()?;
        self.check_changes()?;
        let mut present = self.lock_qos();
        if self.lifecycle.is_enabled() {
            immutable(Q::KIND.word(), &present.immutable_changes(qos))?;
        }
        check(qos)?;
        let change = |policies: &mut EndpointPolicies| {
            if let Some(of_it) = Q::within(policies) {
                of_it.clone_from(qos);
            }
        };
        let changed =
            self.participant.engine.act(|machine, _, _| machine.change_group(self.id, change));
        changed.map_err(DdsError::ImmutablePolicy)?;
        present.clone_from(qos);
        Ok(())
    }

    /// Policies of entities for which nothing else is specified, if any were set.
    pub(crate) fn default(&self) -> Option<E> {
        self.default.get()
    }

    /// Sets these default policies.
    pub(crate) fn set_default(&self, qos: Option<E>) -> DdsResult<()> {
        self.default.set(qos)
    }

    /// Sets the listener for changes that the entities do not report to a listener of their own.
    pub(crate) fn set_listener(&self, listener: Box<L>, mask: StatusMask) -> DdsResult<()> {
        self.listener.set(listener, mask);
        self.participant.start_listeners()
    }

    /// Names of the group's entities that exist.
    pub(crate) fn entities(&self) -> Vec<InstanceHandle> {
        let node = self.participant.membership.node();
        let all = self.participant.endpoints_of(self.id);
        all.map(|it| InstanceHandle { node, entity: it.id() }).collect()
    }

    /// One of the group's entities with a topic of this name, as this kind of handle.
    pub(crate) fn lookup<H: 'static>(&self, topic: &str) -> Option<H> {
        let is_it = |it: &dyn ListenedEntity| it.group() == self.id && it.topic_name() == topic;
        self.participant.look_up(is_it).next()
    }
}

/// A publisher or subscriber from which handles are made.
pub(crate) trait GroupEntity: ListenedEntity {}

macro_rules! grouped {
    ($handle:ident, $qos:ident, $member:ident, $listener:ident) => {
        impl Entity for EntityGroup<$qos, $member, dyn $listener> {
            fn kind(&self) -> EntityKind {
                $qos::KIND
            }

            fn id(&self) -> u64 {
                self.id
            }

            fn is_builtin(&self) -> bool {
                self.is_builtin
            }

            fn lifecycle(&self) -> &Lifecycle {
                &self.lifecycle
            }

            fn handle(self: Arc<Self>) -> Box<dyn Any> {
                Box::new($handle::of(self))
            }

            fn enable(self: Arc<Self>) -> DdsResult<()> {
                EntityGroup::enable(&self)
            }

            fn delete(self: Arc<Self>) {
                self.lifecycle.delete();
            }
        }

        impl ListenedEntity for EntityGroup<$qos, $member, dyn $listener> {
            // A group's listener is called for changes of its entities. The group itself has none.
            fn notify_listeners(self: Arc<Self>) -> bool {
                false
            }

            fn next_check(&self) -> Option<Time> {
                None
            }
        }

        impl GroupEntity for EntityGroup<$qos, $member, dyn $listener> {}
    };
}

grouped!(Publisher, PublisherQos, DataWriterQos, PublisherListener);
grouped!(Subscriber, SubscriberQos, DataReaderQos, SubscriberListener);

/// A publisher or subscriber that is being created.
pub(crate) struct EntityGroupBuilder<Q> {
    participant: Arc<ParticipantInner>,
    pub(crate) qos: Q,
    /// Profile from which the policies come, if there is one.
    profile_binding: Option<ProfileBinding>,
    wrong: Option<DdsError>,
}

impl<Q: GroupQos> EntityGroupBuilder<Q> {
    pub(crate) fn new(participant: Arc<ParticipantInner>) -> Self {
        let (set, default) =
            (Q::default_from(&participant.policies), participant.profiles.default_profile());
        let draft = EntityGroupBuilder {
            participant,
            qos: Q::default(),
            profile_binding: None,
            wrong: None,
        };
        match (set, default) {
            (Some(qos), _) => draft.all(&qos),
            (None, Some(profile)) => draft.profile(&profile),
            (None, None) => draft,
        }
    }

    /// Takes the policies from a profile.
    pub(crate) fn profile(mut self, name: &str) -> Self {
        match self.participant.profiles.of_shared(Q::KIND, name, None) {
            Ok(given) => {
                if let Some(qos) = Q::of(&given.qos) {
                    self.qos.clone_from(qos);
                }
                self.profile_binding = Some(ProfileBinding::new(name, false, given));
                self.wrong = None;
            }
            Err(wrong) => self.wrong = Some(wrong),
        }
        self
    }

    /// Sets all policies.
    pub(crate) fn all(mut self, qos: &Q) -> Self {
        (self.profile_binding, self.wrong) = (None, None);
        self.qos.clone_from(qos);
        self
    }

    /// Creates the group. `shared` gives the form in which a reload of the profiles knows it.
    pub(crate) fn create<E: EndpointQos, L: ?Sized + Send + 'static>(
        self,
        shared: impl FnOnce(Weak<EntityGroup<Q, E, L>>) -> ProfiledEntity,
    ) -> DdsResult<Arc<EntityGroup<Q, E, L>>>
    where
        EntityGroup<Q, E, L>: GroupEntity,
    {
        self.participant.lifecycle.check_there("the participant")?;
        if let Some(wrong) = self.wrong {
            return Err(wrong);
        }
        check(&self.qos)?;
        let group = EntityGroup::new(self.participant, self.qos);
        if let Some(binding) = self.profile_binding {
            group.participant.profiles.note(shared(Arc::downgrade(&group)), binding);
        }
        Ok(group)
    }
}

/// Checks that the policies can be announced and sent.
fn check<Q: GroupQos>(qos: &Q) -> DdsResult<()> {
    check_data(PolicyId::GroupData, qos.group_data())?;
    check_partition(qos.partition())
}

/// Checks that the names of partitions can be sent.
fn check_partition(partition: &PartitionQosPolicy) -> DdsResult<()> {
    let size = PolicyMetadata::names(partition).map_or(0, |names| names.len());
    if size > LONGEST_NAMES {
        return Err(DdsError::BadParameter(format!(
            "the names of PARTITION have {size} bytes in all, more than the maximum of \
             {LONGEST_NAMES}: use fewer or shorter names"
        )));
    }
    match partition.name.iter().find(|name| name.contains('\0')) {
        Some(name) => Err(DdsError::BadParameter(format!(
            "a name of PARTITION has a NUL in it: {name:?}; leave it out"
        ))),
        None => Ok(()),
    }
}
