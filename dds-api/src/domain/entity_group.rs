//! What publishers and subscribers have in common: writers or readers whose policies they share a part of.
//!
//! Owns: the policies of the group, and those that its entities have if nothing else is said. Never does: write or read.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use qos_profiles::{
    EntityKind, EntityQos, PartitionQosPolicy, PolicyId, PublisherQos, SubscriberQos,
};

use super::Inner;
use super::profiles::{Following, Shared};
use crate::infrastructure::listener::Slot;
use crate::infrastructure::{DdsError, DdsResult, InstanceHandle, StatusMask, immutable};
use crate::mapping::policies::Policies;
use crate::mapping::record::{LONGEST_NAMES, Terms};

/// The policies of a publisher or of a subscriber.
pub(crate) trait GroupQos: Clone + Default {
    /// Which of the two.
    const KIND: EntityKind;
    /// Those of this kind of entity, if these are.
    fn of(qos: &EntityQos) -> Option<&Self>;
    /// Those among the policies of an endpoint.
    fn within(policies: &mut Policies) -> Option<&mut Self>;
    /// PARTITION.
    fn partition(&self) -> &PartitionQosPolicy;
    /// Those that differ, and may not.
    fn immutable_changes(&self, other: &Self) -> Vec<PolicyId>;
}

macro_rules! group_qos {
    ($qos:ident, $kind:ident, $policies:ident, $field:ident) => {
        impl GroupQos for $qos {
            const KIND: EntityKind = EntityKind::$kind;

            fn of(qos: &EntityQos) -> Option<&Self> {
                if let EntityQos::$kind(qos) = qos { Some(qos) } else { None }
            }

            fn within(policies: &mut Policies) -> Option<&mut Self> {
                if let Policies::$policies { $field, .. } = policies { Some($field) } else { None }
            }

            fn partition(&self) -> &PartitionQosPolicy {
                &self.partition
            }

            fn immutable_changes(&self, other: &Self) -> Vec<PolicyId> {
                $qos::immutable_changes(self, other)
            }
        }
    };
}

group_qos!(PublisherQos, Publisher, Offered, publisher);
group_qos!(SubscriberQos, Subscriber, Requested, subscriber);

/// A publisher or subscriber: its policies, and those that its entities have by default, if any were set.
pub(crate) struct EntityGroup<Q, E, L: ?Sized> {
    pub(crate) participant: Arc<Inner>,
    pub(crate) id: u64,
    qos: Mutex<Q>,
    default: Mutex<Option<E>>,
    pub(crate) listener: Slot<L>,
}

impl<Q: GroupQos, E: Clone + Into<EntityQos>, L: ?Sized> EntityGroup<Q, E, L> {
    fn new(participant: Arc<Inner>, qos: Q) -> Arc<Self> {
        let id = participant.engine.act(|machine, _, _| machine.fresh_group());
        let (qos, default) = (Mutex::new(qos), Mutex::new(None));
        let listener = Slot::default();
        Arc::new(EntityGroup { participant, id, qos, default, listener })
    }

    pub(crate) fn handle(&self) -> InstanceHandle {
        InstanceHandle { node: self.participant.standing.node(), entity: self.id }
    }

    /// Its policies.
    pub(crate) fn qos(&self) -> Q {
        self.lock_qos().clone()
    }

    /// The same; whoever holds them keeps others from changing them.
    fn lock_qos(&self) -> MutexGuard<'_, Q> {
        self.qos.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives it, and all its entities, other policies.
    pub(crate) fn set_qos(&self, qos: &Q) -> DdsResult<()> {
        let mut present = self.lock_qos();
        immutable(Q::KIND.word(), &present.immutable_changes(qos))?;
        check_partition(qos.partition())?;
        let change = |policies: &mut Policies| {
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

    /// The policies of entities of which nothing else is said, if any were set.
    pub(crate) fn default(&self) -> Option<E> {
        self.default.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets them.
    pub(crate) fn set_default(&self, qos: Option<E>) -> DdsResult<()> {
        let set: Option<EntityQos> = qos.clone().map(Into::into);
        if let Some(wrong) = set.and_then(|set| set.inconsistencies().into_iter().next()) {
            return Err(DdsError::InconsistentPolicy(wrong.to_string()));
        }
        *self.default.lock().unwrap_or_else(PoisonError::into_inner) = qos;
        Ok(())
    }

    /// This one is told from now on what its entities do not tell their own.
    pub(crate) fn set_listener(&self, listener: Box<L>, mask: StatusMask) -> DdsResult<()> {
        self.listener.set(listener, mask);
        self.participant.attend()
    }

    /// The entities that there are.
    pub(crate) fn entities(&self) -> Vec<InstanceHandle> {
        let ids = self.participant.engine.act(|machine, _, _| machine.of_group(self.id));
        let node = self.participant.standing.node();
        ids.into_iter().map(|entity| InstanceHandle { node, entity }).collect()
    }

    /// One of its entities, of a topic of this name and as this kind of handle.
    pub(crate) fn lookup<H: 'static>(&self, topic: &str) -> Option<H> {
        let all = self.participant.roster.entities().into_iter();
        let mut named = all.filter(|it| it.group() == self.id && it.topic_name() == topic);
        named.find_map(|entity| entity.handle().downcast().ok().map(|handle| *handle))
    }

    /// An error as long as there are entities.
    pub(crate) fn check_empty(&self, of: &str) -> DdsResult<()> {
        let what = Q::KIND.word();
        match self.entities().len() {
            0 => Ok(()),
            count => Err(DdsError::PreconditionNotMet(format!(
                "this {what} has {count} {of}: drop them first"
            ))),
        }
    }
}

/// A publisher or subscriber that is being made.
pub(crate) struct Draft<Q> {
    participant: Arc<Inner>,
    pub(crate) qos: Q,
    /// The profile that its policies are by, if they are.
    following: Option<Following>,
    wrong: Option<DdsError>,
}

impl<Q: GroupQos> Draft<Q> {
    pub(crate) fn new(participant: Arc<Inner>) -> Self {
        let usual = participant.profiles.usual();
        let draft = Draft { participant, qos: Q::default(), following: None, wrong: None };
        match usual {
            Some(profile) => draft.profile(&profile),
            None => draft,
        }
    }

    /// Its policies by a profile.
    pub(crate) fn profile(mut self, name: &str) -> Self {
        match self.participant.profiles.of_shared(Q::KIND, name, None) {
            Ok(given) => {
                if let Some(qos) = Q::of(&given.qos) {
                    self.qos.clone_from(qos);
                }
                self.following = Some(Following::new(name, false, given));
                self.wrong = None;
            }
            Err(wrong) => self.wrong = Some(wrong),
        }
        self
    }

    /// All its policies.
    pub(crate) fn all(mut self, qos: &Q) -> Self {
        (self.following, self.wrong) = (None, None);
        self.qos.clone_from(qos);
        self
    }

    /// Makes it. `shared`: as whoever reads profiles again knows it.
    pub(crate) fn create<E: Clone + Into<EntityQos>, L: ?Sized>(
        self,
        shared: impl FnOnce(Weak<EntityGroup<Q, E, L>>) -> Shared,
    ) -> DdsResult<Arc<EntityGroup<Q, E, L>>> {
        if let Some(wrong) = self.wrong {
            return Err(wrong);
        }
        check_partition(self.qos.partition())?;
        let group = EntityGroup::new(self.participant, self.qos);
        if let Some(following) = self.following {
            group.participant.profiles.note(shared(Arc::downgrade(&group)), following);
        }
        Ok(group)
    }
}

/// Whether names of partitions can be sent.
fn check_partition(partition: &PartitionQosPolicy) -> DdsResult<()> {
    let size = Terms::names(partition).map_or(0, |names| names.len());
    if size > LONGEST_NAMES {
        return Err(DdsError::BadParameter(format!(
            "the names of PARTITION have {size} bytes in all; at most {LONGEST_NAMES} go with each sample"
        )));
    }
    match partition.name.iter().find(|name| name.contains('\0')) {
        Some(name) => Err(DdsError::BadParameter(format!(
            "a name of PARTITION has a NUL in it: {name:?}; leave it out"
        ))),
        None => Ok(()),
    }
}
