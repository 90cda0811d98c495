//! A shard, as the application sees it: sends, queries, the object.
//!
//! Owns: the conversion from types to bytes, and back-pressure. Never does: keep a message that had
//! no room.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dds_transport_rdma::shm::ShmLink;
use derecho_core::bytes::Wire;
use derecho_core::ids::NodeId;
use derecho_core::link::Link;
use derecho_core::multicast::claim::{ClaimError, SenderMemory};
use derecho_core::multicast::subgroup::DeliveryGuarantee;
use derecho_core::replicated::ObjectPosition;
use derecho_core::replicated::messages::{MachineRequest, ObjectMessage};
use derecho_core::replicated::object_host::MessageHeader;
use derecho_core::replicated::plan::{MOST_SHARDS, key_of};
use derecho_node::{WaitOutcome, clock};

use crate::error::{GroupError, Result};
use crate::group::{Checkpoint, Group};
use crate::group_membership::{GroupMembership, as_object, lock};
use crate::replicated::Replicated;
use crate::replies::Replies;

/// Shard of a subgroup type; `()` for a raw one.
pub struct Shard<T, L: Link + Send + 'static = ShmLink> {
    group: Group<L>,
    index: usize,
    shard: usize,
    object: PhantomData<fn() -> T>,
}

impl<T, L: Link + Send + 'static> Clone for Shard<T, L> {
    fn clone(&self) -> Self {
        let Shard { group, index, shard, object } = self;
        Shard { group: group.clone(), index: *index, shard: *shard, object: *object }
    }
}

impl<T, L: Link + Send + 'static> Shard<T, L> {
    pub(crate) fn parts(&self) -> (&Group<L>, usize, usize) {
        (&self.group, self.index, self.shard)
    }

    fn of(group: Group<L>, subgroup: &str, shard: usize, level: DeliveryGuarantee) -> Result<Self> {
        let index = group.shared.index_of(subgroup)?;
        if group.shared.types[index].level != level || shard >= MOST_SHARDS {
            return Err(GroupError::NoSuchSubgroup(subgroup.into()));
        }
        Ok(Shard { group, index, shard, object: PhantomData })
    }

    pub(crate) fn key(&self) -> u64 {
        key_of(self.index, self.shard)
    }

    pub(crate) fn name(&self) -> String {
        self.group.shared.types[self.index].name.clone()
    }

    /// Returns the reason why this process has nothing to send from, or no object.
    fn why_not(&self, membership: &GroupMembership<L>, to: &'static str) -> GroupError {
        let missing = self.group.shared.plan(self.index).map(|plan| {
            let place =
                plan.get(self.shard).into_iter().flatten().find(|it| it.node == membership.me);
            place.is_some_and(|place| if to == "send" { !place.sends } else { !place.reads })
        });
        match missing {
            Err(error) => error,
            Ok(true) => GroupError::NotInThisPlace(to),
            Ok(false) => GroupError::NoSeat { subgroup: self.name(), shard: self.shard },
        }
    }

    pub(crate) fn memory(&self, membership: &GroupMembership<L>) -> Result<SenderMemory> {
        self.group.shared.state().check_member()?;
        let memory = lock(&membership.sending).get(&self.key()).cloned();
        memory.ok_or_else(|| self.why_not(membership, "send"))
    }

    /// Puts a message into the order, once there is room for it.
    fn commit(
        &self,
        membership: &GroupMembership<L>,
        parts: &[&[u8]],
        limit: Duration,
    ) -> Result<()> {
        let memory = self.memory(membership)?;
        let length: usize = parts.iter().map(|part| part.len()).sum();
        let deadline = clock::now().after(u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX));
        loop {
            match memory.claim(length) {
                Ok(mut claim) => {
                    let mut rest = claim.bytes();
                    for part in parts {
                        let (head, tail) = rest.split_at_mut(part.len());
                        head.copy_from_slice(part);
                        rest = tail;
                    }
                    claim.commit(length, |_, _| {});
                    membership.engine.poke();
                    return Ok(());
                }
                Err(ClaimError::TooLong { length, largest }) => {
                    return Err(GroupError::TooLong { length, longest: largest });
                }
                Err(ClaimError::Full) => {}
            }
            let key = self.key();
            let gone = || !lock(&membership.sending).contains_key(&key);
            match membership.engine.wait(Some(deadline), || memory.has_room(length) || gone()) {
                WaitOutcome::Ready if gone() => return Err(self.why_not(membership, "send")),
                WaitOutcome::Ready => {}
                WaitOutcome::TimedOut => return Err(GroupError::TimedOut(limit)),
                WaitOutcome::Stopped => {
                    self.group.shared.state().check_member()?;
                    return Err(self.why_not(membership, "send"));
                }
            }
        }
    }
}

impl<L: Link + Send + 'static> Shard<(), L> {
    pub(crate) fn new_raw(group: Group<L>, subgroup: &str, shard: usize) -> Result<Self> {
        Shard::of(group, subgroup, shard, DeliveryGuarantee::Unordered)
    }

    /// Sends to all readers. Waits while the readers have not taken enough to make room.
    pub fn send(&self, message: &[u8], limit: Duration) -> Result<()> {
        let head = MessageHeader::new(None, None);
        self.commit(&self.group.shared.membership(), &[head.bytes(), message], limit)
    }

    /// Waits until this process has a seat.
    pub fn wait_ready(&self, limit: Duration) -> Result<()> {
        self.group.shared.wait_outside(limit, || {
            self.group.shared.state().check_member()?;
            let membership = self.group.shared.membership();
            let there = lock(&membership.object_host).reads(self.key());
            Ok(there.then_some(()))
        })
    }
}

impl<T: Replicated, L: Link + Send + 'static> Shard<T, L> {
    pub(crate) fn new(group: Group<L>, subgroup: &str, shard: usize) -> Result<Self> {
        Shard::of(group, subgroup, shard, DeliveryGuarantee::Atomic)
    }

    /// Waits until this process has a seat and the object. If the type is inadequate, waits for
    /// more members.
    pub fn wait_ready(&self, limit: Duration) -> Result<()> {
        let ready = self.group.shared.wait_outside(limit, || {
            self.group.shared.state().check_member()?;
            let membership = self.group.shared.membership();
            let there = lock(&membership.object_host).object(self.key()).is_some();
            Ok(there.then_some(()))
        });
        match ready {
            Err(GroupError::TimedOut(limit)) => {
                Err(self.awaits_logs().unwrap_or(GroupError::TimedOut(limit)))
            }
            other => other,
        }
    }

    /// Sends an update, which all members apply in the same order. Waits while there is no room
    /// because other members have not yet taken earlier messages. `Ok`: the update is in the order,
    /// unless this process falls out, or leaves the shard, before it is delivered.
    pub fn send(&self, update: &T::Update, limit: Duration) -> Result<()> {
        let head = self.head(None);
        self.commit(&self.group.shared.membership(), &[head.bytes(), &update.to_bytes()], limit)
    }

    /// Returns the header of an update, which for a logged object includes the time.
    fn head(&self, query: Option<u64>) -> MessageHeader {
        let logged = self.group.shared.types[self.index].logged;
        MessageHeader::new(query, logged.then(|| clock::wall(clock::now())))
    }

    /// Sends an update, and collects every member's answer to it. Not in upcalls.
    pub fn query(&self, update: &T::Update, limit: Duration) -> Result<Replies<T::Reply, L>> {
        self.group.shared.refuse_in_upcall()?;
        let membership = self.group.shared.membership();
        let mut object_host = lock(&membership.object_host);
        if !object_host.reads(self.key()) {
            drop(object_host);
            return Err(self.why_not(&membership, "read"));
        }
        let query = object_host.queries().open(self.key(), None);
        drop(object_host);
        let group = self.group.clone();
        let replies =
            Replies { group, membership: Arc::clone(&membership), query, reply: PhantomData };
        let head = self.head(Some(query));
        self.commit(&membership, &[head.bytes(), &update.to_bytes()], limit)?;
        Ok(replies)
    }

    /// Reads the object, between two updates.
    pub fn read<R>(&self, look: impl FnOnce(&T) -> R) -> Result<R> {
        self.group.shared.refuse_in_upcall()?;
        self.group.shared.state().check_member()?;
        let membership = self.group.shared.membership();
        let object_host = lock(&membership.object_host);
        match object_host.object(self.key()) {
            Some((_, object)) => {
                let object = as_object(object);
                Ok(look(object.ok_or_else(|| GroupError::NoSuchSubgroup(self.name()))?))
            }
            None if object_host.reads(self.key()) => {
                Err(GroupError::NoObject { subgroup: self.name(), shard: self.shard })
            }
            None => {
                drop(object_host);
                Err(self.why_not(&membership, "read"))
            }
        }
    }

    /// Returns the position of the object in the order.
    pub fn position(&self) -> Result<ObjectPosition> {
        self.checkpoint().map(|checkpoint| checkpoint.position)
    }

    /// Returns the object as bytes, with its position in the order.
    pub fn checkpoint(&self) -> Result<Checkpoint> {
        self.read(|_| ())?;
        let membership = self.group.shared.membership();
        let taken = lock(&membership.object_host).checkpoint(self.key());
        let (position, bytes) =
            taken.ok_or(GroupError::NoObject { subgroup: self.name(), shard: self.shard })?;
        Ok(Checkpoint { position, bytes })
    }

    /// Puts a question to one member of the group. The asking process need not be a member of
    /// this shard.
    pub fn ask(
        &self,
        member: NodeId,
        question: &T::Question,
        limit: Duration,
    ) -> Result<Replies<T::Reply, L>> {
        self.group.shared.refuse_in_upcall()?;
        let membership = self.group.shared.membership();
        let (key, bytes) = (self.key(), question.to_bytes());
        let query = lock(&membership.object_host).queries().open(key, Some(member));
        let group = self.group.clone();
        let replies =
            Replies { group, membership: Arc::clone(&membership), query, reply: PhantomData };
        self.direct(&membership, member, limit, ObjectMessage::Ask { key, query, bytes })?;
        Ok(replies)
    }

    /// Sends a message to one member: delivered in this view or a later one, in order, and never
    /// after this process was excluded. Waits while the member has not yet taken earlier messages.
    pub fn tell(&self, member: NodeId, what: &T::Question, limit: Duration) -> Result<()> {
        let membership = self.group.shared.membership();
        self.direct(
            &membership,
            member,
            limit,
            ObjectMessage::Say { key: self.key(), bytes: what.to_bytes() },
        )
    }

    fn direct(
        &self,
        membership: &GroupMembership<L>,
        to: NodeId,
        limit: Duration,
        direct_message: ObjectMessage,
    ) -> Result<()> {
        let deadline = Instant::now() + limit;
        let mut direct_message = Some(direct_message);
        loop {
            self.group.shared.state().check_member()?;
            let sent = membership.engine.act(|machine, _, effects| {
                if machine.group().view().rank_of(to).is_none() {
                    return Err(GroupError::NoMember(to));
                }
                if !machine.has_room_for(to) {
                    return Ok(false);
                }
                let requests =
                    direct_message.take().map(|message| MachineRequest::Direct(to, message));
                machine.perform(requests.into_iter().collect(), effects);
                Ok(true)
            })?;
            if sent {
                return Ok(());
            }
            if Instant::now() >= deadline {
                return Err(GroupError::TimedOut(limit));
            }
            std::thread::sleep(Duration::from_micros(200));
        }
    }
}
