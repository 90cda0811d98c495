//! A topic as an entity of its participant: state that its clones share, and its announcement in
//! the domain.
//!
//! Owns: the announcement of the topic while it is enabled and not deleted. Never does: write or
//! read. Endpoints announce by themselves what matters to those they are matched with.

use std::any::{Any, TypeId};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use derecho_core::ids::Time;
use idl_xtypes::{DynamicData, DynamicType, TopicData};
use qos_profiles::{EntityKind, TopicQos};

use super::{Topic, TopicPolicies};
use crate::domain::enabling::EndpointContainer;
use crate::domain::{Entity, ListenedEntity, ParticipantInner};
use crate::infrastructure::lifecycle::Lifecycle;
use crate::infrastructure::listener::{ListenerSlot, responsible_listener};
use crate::infrastructure::status_board::StatusBoard;
use crate::infrastructure::{
    DdsError, DdsResult, StatusCondition, StatusKind, StatusMask, TopicListener,
};
use crate::mapping::directory::TopicFacts;
use crate::mapping::type_identity::TypeIdentity;
use crate::subscription::not_with_builtin;

/// Origin of a topic's samples.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TopicOrigin {
    /// Writers. The topic is announced.
    Writers,
    /// Discovery.
    Discovery,
    /// Other topics, whose samples are joined.
    Topics,
}

/// See the [module](self).
pub(crate) struct TopicEntity {
    participant: Weak<ParticipantInner>,
    pub(super) id: u64,
    type_id: TypeId,
    /// Run-time information about the type, for handles.
    support: Box<dyn Any + Send + Sync>,
    pub(super) identity: TypeIdentity,
    pub(crate) policies: Arc<TopicPolicies>,
    pub(crate) origin: TopicOrigin,
    /// The type of the samples.
    pub(super) of: DynamicType,
    pub(super) lifecycle: Lifecycle,
    /// Serialises enabling, changes of the announcement, and deletion.
    changing: Mutex<()>,
    /// Status board, shared by all topics of this name of the participant.
    pub(super) status_board: Arc<StatusBoard>,
    pub(super) listener: ListenerSlot<dyn TopicListener>,
    pub(super) status_condition: OnceLock<StatusCondition>,
}

impl TopicEntity {
    /// Makes a topic with samples of this type. The topic is not enabled.
    pub(super) fn new<T: TopicData>(
        participant: &Arc<ParticipantInner>,
        support: &T::TypeSupport,
        policies: Arc<TopicPolicies>,
        origin: TopicOrigin,
    ) -> Arc<TopicEntity> {
        let (id, board) = participant
            .engine
            .act(|machine, _, _| (machine.fresh_group(), machine.topic_board(&policies.name)));
        let topic = Arc::new(TopicEntity {
            participant: Arc::downgrade(participant),
            id,
            type_id: TypeId::of::<T>(),
            support: Box::new(support.clone()),
            identity: TypeIdentity::of::<T>(support),
            policies,
            origin,
            of: TypeIdentity::type_of::<T>(support),
            lifecycle: Lifecycle::default(),
            changing: Mutex::new(()),
            status_board: board,
            listener: ListenerSlot::default(),
            status_condition: OnceLock::new(),
        });
        let entity: Weak<TopicEntity> = Arc::downgrade(&topic);
        participant.dispatcher.add(entity);
        topic
    }

    /// A handle on the topic, if its samples are of type `T`.
    pub(super) fn topic<T: TopicData>(self: Arc<Self>) -> Option<Topic<T>> {
        let participant = self.participant.upgrade().filter(|_| self.type_id == TypeId::of::<T>());
        let support = self.support.downcast_ref::<T::TypeSupport>().cloned();
        Some(Topic::of(participant?, support?, self))
    }

    /// A handle on the topic with any type of samples, as dynamic data.
    pub(super) fn any_topic(self: Arc<Self>) -> Option<Topic<DynamicData>> {
        let participant = self.participant.upgrade()?;
        Some(Topic::of(participant, self.of.clone(), self))
    }

    /// The announcement of the topic with these policies.
    fn data(&self, qos: TopicQos) -> TopicFacts {
        TopicFacts {
            name: self.policies.name.as_ref().to_owned(),
            data_type: self.identity.clone(),
            level: self.policies.level(),
            order: self.policies.order.clone(),
            retention: self.policies.retention(),
            qos,
        }
    }

    fn announce(&self, participant: &ParticipantInner, qos: TopicQos) -> DdsResult<()> {
        let data = self.data(qos);
        let announced =
            participant.engine.act(|machine, _, _| machine.announce_topic(self.id, data));
        announced.map_err(|wrong| {
            DdsError::BadParameter(format!("topic `{}`: {wrong}", self.policies.name))
        })
    }

    /// Whether the topic is announced.
    pub(crate) fn is_announced(&self) -> bool {
        self.origin == TopicOrigin::Writers
    }

    /// Whether the topic is enabled and not deleted.
    pub(crate) fn is_enabled(&self) -> bool {
        self.lifecycle.is_enabled()
    }

    /// Returns an error if the topic is deleted.
    pub(super) fn check_there(&self) -> DdsResult<()> {
        self.lifecycle.check_there(format_args!("topic `{}`", self.policies.name))
    }

    /// Sets the policies. Before the topic is enabled all policies may change.
    pub(crate) fn set_qos(&self, qos: &TopicQos) -> DdsResult<()> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        self.check_there()?;
        if !self.is_announced() {
            return Err(not_with_builtin("this topic"));
        }
        match self.participant.upgrade().filter(|_| self.lifecycle.is_enabled()) {
            Some(participant) => {
                let announce = |qos: &TopicQos| self.announce(&participant, qos.clone());
                self.policies.change(qos, announce)
            }
            None => self.policies.change_all(qos),
        }
    }

    fn enable_now(&self) -> DdsResult<()> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        self.check_there()?;
        let Some(participant) = self.participant.upgrade().filter(|_| !self.lifecycle.is_enabled())
        else {
            return Ok(());
        };
        participant.check_enables()?;
        if self.is_announced() {
            self.announce(&participant, self.policies.qos())?;
        }
        self.policies.fix();
        self.lifecycle.enable();
        // Listeners are called for events since the announcement.
        participant.dispatcher.wake();
        Ok(())
    }

    fn end(&self) {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        if self.lifecycle.delete() == Some(true)
            && let Some(participant) = self.participant.upgrade()
        {
            let id = self.id;
            participant.engine.act_soon(move |machine, _, _| machine.retract_topic(id));
        }
    }
}

impl Drop for TopicEntity {
    fn drop(&mut self) {
        self.end();
    }
}

impl Entity for TopicEntity {
    fn kind(&self) -> EntityKind {
        EntityKind::Topic
    }

    fn id(&self) -> u64 {
        self.id
    }

    fn topic_name(&self) -> &str {
        &self.policies.name
    }

    fn is_builtin(&self) -> bool {
        !self.is_announced()
    }

    fn lifecycle(&self) -> &Lifecycle {
        &self.lifecycle
    }

    fn handle(self: Arc<Self>) -> Box<dyn Any> {
        Box::new(self)
    }

    fn enable(self: Arc<Self>) -> DdsResult<()> {
        self.enable_now()
    }

    fn delete(self: Arc<Self>) {
        self.end();
    }
}

impl ListenedEntity for TopicEntity {
    fn notify_listeners(self: Arc<Self>) -> bool {
        let kind = StatusKind::InconsistentTopic;
        let Some(participant) = self.participant.upgrade() else { return false };
        let masks = [self.listener.mask(), StatusMask::NONE, participant.listener.mask()];
        let Some(level) = responsible_listener(kind, masks)
            .filter(|_| self.status_board.changes().contains(kind))
        else {
            return false;
        };
        let (name, status) =
            (&self.policies.name, self.status_board.take(kind, |all| &mut all.inconsistent_topic));
        match level {
            0 => self.listener.call(kind, |it| it.on_inconsistent_topic(name, &status)),
            _ => {
                let slot = &participant.listener;
                slot.call(kind, |it| it.on_inconsistent_topic(name, &status));
            }
        }
        true
    }

    fn next_check(&self) -> Option<Time> {
        None
    }
}

impl ParticipantInner {
    /// The announced topics of this name that the participant has.
    pub(super) fn topics(&self, name: &str) -> impl Iterator<Item = Arc<TopicEntity>> {
        let all = self.look_up::<Arc<TopicEntity>>(move |it| {
            it.kind() == EntityKind::Topic && it.topic_name() == name
        });
        all.filter(|topic| topic.is_announced())
    }

    /// Returns an error if the participant has a topic of this name with a type of another name
    /// than `type_name`.
    pub(super) fn check_type_name(&self, name: &str, type_name: &str) -> DdsResult<()> {
        let mut names = self.topics(name).map(|topic| topic.identity.name.clone());
        match names.find(|known| known != type_name) {
            Some(other) => Err(DdsError::PreconditionNotMet(format!(
                "topic `{name}` has type `{other}` in this participant, not `{type_name}`: give \
                 the new topic another name, or delete the other topic first"
            ))),
            None => Ok(()),
        }
    }

    /// The type name of a topic of this name that the participant has, if none of them has the
    /// type `data_type`.
    pub(crate) fn other_type_of(&self, name: &str, data_type: TypeId) -> Option<String> {
        let mut topics = self.topics(name).peekable();
        let first = topics.peek().map(|topic| topic.identity.name.clone());
        first.filter(|_| topics.all(|topic| topic.type_id != data_type))
    }
}
