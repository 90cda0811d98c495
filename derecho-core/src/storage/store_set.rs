//! All stores of a member, in all its subgroups.
//!
//! Owns: its subgroup stores, their requests to other members, and the requests of other members.
//! Never does: interpret records.
//!
//! ```text
//!   late joiner                                 holder
//!     begins in the epoch                         begins in it too: pins removed records
//!     --- Want(until, from) --->                  waits until it has come as far and is free
//!     <-- Give(stream) ---                        subscribes; blocks come as there is space
//!     ... the last block ...                      unsubscribes: the next request is served
//!     Holds, to all                               unpins
//! ```

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::durability_tracker::DurabilityTracker;
use super::log_election::{ElectionState, LogElection};
use super::log_follower::{BUSY_INTERVAL, CLAIM_INTERVAL, LogFollower};
use super::log_port::{LogPort, LogPortCondition};
use super::store::{RecordFormat, StoreRetention};
use super::store_message::{BlockHead, StoreMessage};
use super::subgroup_store::BlockResult;
pub use super::subgroup_store::{StoreAnnouncement, SubgroupStore};
pub use super::transfer_sender::transfer_geometry;
use super::transfer_sender::{TransferRequest, TransferSender};
use crate::bytes::Wire;
use crate::group::registry::Layout;
use crate::group::{Group, ReplicatedState};
use crate::ids::{NodeId, RegionId, Time};
use crate::machine::Effects;
use crate::multicast::claim::SenderMemory;
use crate::multicast::inbox::Inbox;
use crate::node::{NodeEvent, StreamOrigin, SubgroupId, SubscriptionId};
use crate::transfer::holders::Holders;
use crate::transfer::requester::HolderRotation;

/// Maximum number of blocks taken in in one turn.
const BLOCKS_A_TURN: usize = 4;
/// Default of the maximum number of ended streams announced with an offer (I-157).
pub const MOST_ENDED: usize = 1024;

impl core::fmt::Debug for StoreSet {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let arrivals = self.incoming.iter();
        let arrivals: Vec<_> =
            arrivals.map(|it| (it.key, it.request, it.inbox.is_some())).collect();
        let StoreSet { stores, sender, unsettled, .. } = self;
        write!(f, "{stores:?}; {sender:?}; incoming {arrivals:?}, unsettled {unsettled:?}")
    }
}

/// State of a group that knows the holders of stores.
pub trait StoreGroupState: ReplicatedState {
    /// Returns the holders of a subgroup's store; `None` if it has no store.
    fn holders(&self, key: u64) -> Option<&Holders>;

    /// Returns the logs of a subgroup; `None` if it is not logged.
    fn logs(&self, key: u64) -> Option<&LogElection>;

    /// Encodes a member's announcement.
    fn announcement(&self, key: u64, announcement: StoreAnnouncement) -> Vec<u8>;
}

/// Transfer to this member.
struct IncomingTransfer {
    subscription: SubscriptionId,
    from: NodeId,
    key: u64,
    request: u64,
    inbox: Option<Arc<Inbox>>,
}

/// All stores of a member; see the [module](self).
pub struct StoreSet {
    stores: BTreeMap<u64, SubgroupStore>,
    sender: TransferSender,
    incoming: Vec<IncomingTransfer>,
    /// Subgroup stores that are not yet settled.
    unsettled: BTreeSet<u64>,
    rotation: HolderRotation,
    /// Latest time of the next turn, while there is something to do.
    next_turn_at: Option<Time>,
    /// Durability of the subgroups that are logged.
    durability: BTreeMap<u64, DurabilityTracker>,
    /// Time of the next search for awaited logs.
    claim_at: Option<Time>,
    /// Whether a message to a member could not be sent and must be repeated.
    has_unsent: bool,
    /// Subgroups of which more is durable everywhere than at the last query.
    newly_durable: Vec<u64>,
    /// Maximum number of ended streams announced with an offer.
    most_ended: usize,
}

impl Default for StoreSet {
    fn default() -> StoreSet {
        StoreSet {
            stores: BTreeMap::new(),
            sender: TransferSender::new(),
            incoming: Vec::new(),
            unsettled: BTreeSet::new(),
            rotation: HolderRotation::default(),
            next_turn_at: None,
            durability: BTreeMap::new(),
            claim_at: None,
            has_unsent: false,
            newly_durable: Vec::new(),
            most_ended: MOST_ENDED,
        }
    }
}

impl StoreSet {
    /// Whether this member has a stream for transfers to other members.
    pub fn has_stream(&self) -> bool {
        self.sender.stream().is_some()
    }

    /// Whether a transfer to another member waits for room, which hints bring.
    pub fn awaits_room(&self) -> bool {
        self.sender.gives().is_some()
    }

    /// Sets the maximum number of ended streams announced with an offer (I-157).
    pub fn set_most_ended(&mut self, most: usize) {
        self.most_ended = most;
    }

    /// Sets the stream for transfers: memory of [`transfer_geometry`].
    pub fn bring<S: StoreGroupState>(
        &mut self,
        group: &mut Group<S>,
        region: RegionId,
        memory: SenderMemory,
        effects: &mut Effects,
    ) {
        group.node_mut().add_stream(region, memory.clone(), effects);
        self.sender.bring(region, memory);
    }

    /// Keeps the records delivered in a subgroup, as soon as this member begins in it.
    pub fn keep(&mut self, key: u64, retention: StoreRetention, format: RecordFormat) {
        self.stores.entry(key).or_insert_with(|| SubgroupStore::new(retention, format));
    }

    /// Keeps a subgroup's records in this log as well. Further calls have no effect.
    pub fn log(&mut self, key: u64, log_port: Box<dyn LogPort>) {
        if let Some(subgroup_store) = self.stores.get_mut(&key) {
            subgroup_store.attach(log_port);
            self.unsettled.insert(key);
        }
    }

    /// Stops keeping logs.
    pub fn end_logs(&mut self) {
        self.stores.values_mut().for_each(SubgroupStore::detach);
    }

    /// Whether all own messages delivered to this member in a subgroup so far are
    /// durable everywhere.
    pub fn is_durable(&mut self, key: u64) -> bool {
        self.catch_up(key);
        let durable = self.durable(key);
        let is_durable = |it: &SubgroupStore| it.has_taken_all() && it.own_version() <= durable;
        self.stores.get(&key).is_none_or(is_durable)
    }

    /// Whether this member keeps a log of a subgroup.
    pub fn has_log(&self, key: u64) -> bool {
        self.stores.get(&key).is_some_and(|subgroup_store| subgroup_store.condition().is_some())
    }

    /// Whether this member's log of a subgroup holds every message of the subgroup up to
    /// [`own_durable`](StoreSet::own_durable). False for a log that is still being completed, or
    /// has failed.
    pub fn has_complete_log(&self, key: u64) -> bool {
        self.stores
            .get(&key)
            .and_then(SubgroupStore::log_follower)
            .is_some_and(LogFollower::is_complete)
    }

    /// Last version that is durable in all logs of a subgroup, as far as is known here.
    pub fn durable(&self, key: u64) -> u64 {
        self.durability.get(&key).map_or(0, DurabilityTracker::everywhere)
    }

    /// Other members whose logs of a subgroup wait for space, which blocks all writers.
    pub fn full(&self, key: u64) -> impl Iterator<Item = NodeId> + '_ {
        self.durability.get(&key).into_iter().flat_map(DurabilityTracker::full)
    }

    /// Last version that this member reports as durable in its own log of a subgroup.
    pub fn own_durable(&self, key: u64) -> u64 {
        self.stores.get(&key).and_then(SubgroupStore::log_follower).map_or(0, LogFollower::durable)
    }

    /// Returns the subgroups of which more is durable everywhere than at the last call.
    pub fn newly_durable(&mut self) -> impl Iterator<Item = u64> + '_ {
        self.newly_durable.drain(..)
    }

    /// Returns the store of a subgroup.
    pub fn subgroup_store(&self, key: u64) -> Option<&SubgroupStore> {
        self.stores.get(&key)
    }

    /// Returns the store of a subgroup, for changes.
    pub fn store_mut(&mut self, key: u64) -> Option<&mut SubgroupStore> {
        self.stores.get_mut(&key)
    }

    /// Takes in the records delivered in a subgroup so far.
    pub fn catch_up(&mut self, key: u64) {
        if let Some(subgroup_store) = self.stores.get_mut(&key) {
            subgroup_store.take();
        }
    }

    /// Begins an epoch of a subgroup. Must be called before any record of the epoch is taken in.
    pub fn begun<S: StoreGroupState>(
        &mut self,
        group: &mut Group<S>,
        key: u64,
        subgroup: SubgroupId,
        epoch: u64,
        layout: &Layout,
    ) {
        let Some(subgroup_store) = self.stores.get_mut(&key) else { return };
        let (holders, logs) = (group.state().holders(key), group.state().logs(key));
        let (holders, logs) = (holders.cloned(), logs.cloned());
        let node = group.node_mut();
        subgroup_store.begun(node, subgroup, epoch, layout, holders.as_ref(), logs.as_ref());
        if logs.is_some() {
            let (me, durability) = (group.node().id(), self.durability.entry(key).or_default());
            let others = layout.members.iter().filter(|seat| seat.node != me);
            durability.begun(others.map(|seat| (seat.node, seat.lines)));
        }
        self.unsettled.insert(key);
        self.update_subgroup(group, key);
    }

    /// Ends this member's part in a subgroup.
    pub fn left(&mut self, key: u64) {
        self.stores.remove(&key);
        self.unsettled.remove(&key);
        self.durability.remove(&key);
    }

    /// Reacts to a change of the group's state.
    pub fn changed<S: StoreGroupState>(&mut self, group: &mut Group<S>) {
        for key in self.unsettled.iter().copied().collect::<Vec<u64>>() {
            self.update_subgroup(group, key);
        }
        // A subgroup with a log has a durability tracker.
        for key in self.durability.keys() {
            let subgroup_store = self.stores.get_mut(key);
            subgroup_store.into_iter().for_each(|it| it.note_epoch_logs(group.state().logs(*key)));
        }
        let view = group.view();
        self.sender.retain(|node| view.rank_of(node).is_some());
    }

    /// Reacts to a change of what the group knows about a subgroup's store.
    fn update_subgroup<S: StoreGroupState>(&mut self, group: &mut Group<S>, key: u64) {
        let me = group.node().id();
        let Some(subgroup_store) = self.stores.get_mut(&key) else { return };
        let Some(holders) = group.state().holders(key) else { return };
        let logs = group.state().logs(key);
        let others = logs.into_iter().flat_map(|logs| logs.complete(holders));
        let others = others.map(|(node, _)| node).filter(|node| *node != me);
        if subgroup_store.note_named(others, holders, self.durability.get(&key)) {
            subgroup_store.note_epoch_logs(logs);
        }
        let announcement = subgroup_store.changed(me, holders, logs);
        if subgroup_store.is_settled(holders, me) {
            self.unsettled.remove(&key);
        }
        if let Some(announcement) = announcement {
            let message = group.state().announcement(key, announcement);
            group.submit(&message);
        }
    }

    /// Sends the subgroup stores' requests to holders.
    fn ask<S: StoreGroupState>(&mut self, group: &mut Group<S>, effects: &mut Effects) -> usize {
        let (me, mut done) = (group.node().id(), 0);
        for &key in &self.unsettled {
            let Some(subgroup_store) = self.stores.get_mut(&key) else { continue };
            let Some(range) = subgroup_store.wants() else { continue };
            let Some(holders) = group.state().holders(key) else { continue };
            let Some((node, request)) = self.rotation.next(holders, me, &[]) else { continue };
            let transfer_request = StoreMessage::Want { key, request, range };
            if group.send_direct(node, transfer_request.to_bytes(), effects) {
                subgroup_store.ask(node, request);
                done += 1;
            }
        }
        done
    }

    /// Takes in a direct message of a member. Returns `false` if it is invalid.
    pub fn direct<S: StoreGroupState>(
        &mut self,
        group: &mut Group<S>,
        from: NodeId,
        bytes: &[u8],
    ) -> bool {
        match StoreMessage::from_bytes(bytes) {
            Some(StoreMessage::Want { key, request, range }) => {
                let wanted = range;
                self.sender.enqueue(TransferRequest { node: from, key, request, wanted });
            }
            Some(StoreMessage::Durable { key, version }) => {
                // The other member may know of the epoch before this one does.
                if self.stores.contains_key(&key) {
                    self.durability.entry(key).or_default().note_reported(from, version);
                }
            }
            Some(StoreMessage::Room { key, is_full }) => {
                if self.stores.contains_key(&key) {
                    self.durability.entry(key).or_default().note_full(from, is_full);
                }
            }
            Some(StoreMessage::Names { key, logs }) => {
                if self.stores.contains_key(&key) {
                    self.durability.entry(key).or_default().note_names(from, logs);
                    self.update_subgroup(group, key);
                }
            }
            Some(StoreMessage::Later { key, request, since }) => {
                if let Some(subgroup_store) = self.asked_of(key, from, request) {
                    subgroup_store.begin_later(since);
                }
            }
            Some(StoreMessage::Give { key, request, stream, streams, version, since }) => {
                let Some(peer) = group.peer_of(from) else { return true };
                let Some(subgroup_store) = self.asked_of(key, from, request) else { return true };
                subgroup_store.begin_transfer(&streams, version, since);
                match group.node_mut().subscribe(StreamOrigin::Peer(peer), stream, 0) {
                    Some(subscription) => {
                        self.incoming.push(IncomingTransfer {
                            subscription,
                            from,
                            key,
                            request,
                            inbox: None,
                        });
                    }
                    // The maximum number of streams is being read; the request is repeated later.
                    None => subgroup_store.requester.cancel(),
                }
            }
            Some(StoreMessage::Lack { key, request }) => self.give_up(key, from, request),
            Some(StoreMessage::Behind { key, request }) => {
                self.asked_of(key, from, request).into_iter().for_each(|it| it.requester.refuse());
            }
            None => return false,
        }
        true
    }

    /// Returns the subgroup store that made this request to this member.
    fn asked_of(&mut self, key: u64, node: NodeId, request: u64) -> Option<&mut SubgroupStore> {
        self.stores.get_mut(&key).filter(|it| it.requester.has_asked(node, request))
    }

    /// Takes in an event of a stream. Returns `true` if it is one of the streams used here.
    pub fn take_in(&mut self, event: &NodeEvent) -> bool {
        match event {
            NodeEvent::Readers { stream, count } if self.sender.stream() == Some(*stream) => {
                self.sender.readers(*count);
                true
            }
            NodeEvent::Subscribed(subscription, inbox) => {
                let arrival = self.incoming.iter_mut().find(|it| it.subscription == *subscription);
                arrival.map(|arrival| arrival.inbox = Some(Arc::clone(inbox))).is_some()
            }
            NodeEvent::Ended(subscription) => {
                let index = self.incoming.iter().position(|it| it.subscription == *subscription);
                let Some(index) = index else { return false };
                // The blocks received so far are used; the rest is requested from another holder.
                while self.take_blocks(index, usize::MAX) == Some(true) {}
                let IncomingTransfer { from, key, request, .. } = self.incoming.swap_remove(index);
                self.give_up(key, from, request);
                true
            }
            _ => false,
        }
    }

    /// Gives up a subgroup store's request.
    fn give_up(&mut self, key: u64, from: NodeId, request: u64) {
        self.asked_of(key, from, request).into_iter().for_each(|it| it.requester.cancel());
    }

    /// Takes blocks in. `Some(true)`: there may be more; `None`: no more are wanted.
    fn take_blocks(&mut self, index: usize, most: usize) -> Option<bool> {
        let IncomingTransfer { from, key, request, inbox, .. } = &self.incoming[index];
        let Some(inbox) = inbox else { return Some(false) };
        // The subgroup store may have asked another holder meanwhile.
        let subgroup_store =
            self.stores.get_mut(key).filter(|it| it.requester.has_asked(*from, *request))?;
        for _ in 0..most {
            let Some(record) = inbox.take() else { return Some(false) };
            // I-330: the checked bytes and the stored ones are the same.
            let block = record.bytes().to_vec();
            let taken = match BlockHead::read(&block) {
                Some((head, run)) if head.request == *request => {
                    subgroup_store.take_block(head, run)
                }
                _ => BlockResult::Invalid,
            };
            if taken != BlockResult::More {
                return None;
            }
        }
        Some(true)
    }

    /// Takes in delivered records, and advances transfers. Returns how much was done, and the
    /// subgroups whose stores became complete.
    pub fn turn<S: StoreGroupState>(
        &mut self,
        group: &mut Group<S>,
        now: Time,
        effects: &mut Effects,
    ) -> (usize, Vec<u64>) {
        let (mut done, mut whole) = (0, Vec::new());
        let mut with_news = Vec::new();
        for (&key, subgroup_store) in &mut self.stores {
            let (taken, is_whole) = subgroup_store.turn();
            done += taken;
            whole.extend(is_whole.then_some(key));
        }
        // I-108: all copies so far are valid if this member was still a member after them.
        let keeps_logs =
            self.stores.values().any(|subgroup_store| subgroup_store.log_follower().is_some());
        if keeps_logs && !group.is_overtaken() {
            for (&key, subgroup_store) in &mut self.stores {
                done += subgroup_store.advance_log();
                with_news.extend(subgroup_store.take_news().then_some(key));
            }
        }
        with_news.iter().for_each(|key| self.update_subgroup(group, *key));
        done += self.spread(group, effects);
        if !self.is_busy() {
            return (done, whole);
        }
        self.next_turn_at = Some(now.after(BUSY_INTERVAL));
        self.claim_again(group, now);
        whole.iter().for_each(|key| self.update_subgroup(group, *key));
        done += self.arrive(group) + self.ask(group, effects);
        if self.sender.is_free() {
            done += self.begin_to_serve(group, now, effects);
        }
        if let Some(TransferRequest { node, key, request, .. }) = self.sender.take_absent(now) {
            group.send_direct(node, StoreMessage::Lack { key, request }.to_bytes(), effects);
        }
        let subgroup_store = self.sender.gives().and_then(|key| self.stores.get_mut(&key));
        done += self
            .sender
            .turn(subgroup_store.filter(|it| it.is_complete()).map(SubgroupStore::store));
        (done, whole)
    }

    /// Reports how far this member's logs are durable, and computes what is durable everywhere.
    /// Returns the number of subgroups for which that has advanced.
    fn spread<S: StoreGroupState>(&mut self, group: &mut Group<S>, effects: &mut Effects) -> usize {
        let (me, mut done) = (group.node().id(), 0);
        self.has_unsent = false;
        for (&key, durability) in &mut self.durability {
            let log_follower = self.stores.get(&key).and_then(SubgroupStore::log_follower);
            let names = log_follower.map_or(&[][..], |follower| follower.names());
            for node in durability.names_unannounced(names) {
                let announced = StoreMessage::Names { key, logs: names.to_vec() };
                match group.send_direct(node, announced.to_bytes(), effects) {
                    true => durability.note_names_announced(node),
                    false => self.has_unsent = true,
                }
            }
            let is_full =
                log_follower.is_some_and(|follower| follower.condition() == LogPortCondition::Full);
            for node in durability.fullness_unannounced(is_full) {
                match group.send_direct(
                    node,
                    StoreMessage::Room { key, is_full }.to_bytes(),
                    effects,
                ) {
                    true => durability.note_fullness_announced(node, is_full),
                    false => self.has_unsent = true,
                }
            }
            let own = self
                .stores
                .get(&key)
                .and_then(SubgroupStore::log_follower)
                .map_or(0, LogFollower::durable);
            for node in durability.unannounced(own) {
                let announced = StoreMessage::Durable { key, version: own };
                match group.send_direct(node, announced.to_bytes(), effects) {
                    true => durability.note_announced(node, own),
                    false => self.has_unsent = true,
                }
            }
            let (holders, logs) = (group.state().holders(key), group.state().logs(key));
            let (Some(holders), Some(logs)) = (holders, logs) else { continue };
            let complete_members = logs.complete(holders).map(|(node, _)| node);
            if durability.settle(me, own, complete_members) {
                self.newly_durable.push(key);
                done += 1;
            }
        }
        done
    }

    /// Searches again for awaited logs: their folders may be free by now.
    fn claim_again<S: StoreGroupState>(&mut self, group: &Group<S>, now: Time) {
        if self.claim_at.is_some_and(|at| now < at) {
            return;
        }
        self.claim_at = Some(now.after(CLAIM_INTERVAL));
        for key in &self.unsettled {
            let (holders, logs) = (group.state().holders(*key), group.state().logs(*key));
            let (Some(holders), Some(logs)) = (holders, logs) else { continue };
            let vacancy = holders.vacancies();
            let waits = matches!(logs.state(vacancy), ElectionState::Waits(_));
            let log_follower = self.stores.get_mut(key).and_then(SubgroupStore::log_follower_mut);
            if holders.names().is_empty() && waits {
                log_follower.into_iter().for_each(|follower| follower.claim(vacancy, true));
            }
        }
    }

    fn arrive<S: StoreGroupState>(&mut self, group: &mut Group<S>) -> usize {
        let (mut done, mut index) = (0, 0);
        while index < self.incoming.len() {
            match self.take_blocks(index, BLOCKS_A_TURN) {
                Some(more) => {
                    done += usize::from(more);
                    index += 1;
                }
                None => {
                    let IncomingTransfer { subscription, from, key, request, .. } =
                        self.incoming.swap_remove(index);
                    group.node_mut().unsubscribe(subscription);
                    // If the store is still incomplete, another holder is asked.
                    self.give_up(key, from, request);
                    done += 1;
                }
            }
        }
        done
    }

    /// Answers the first request that can be answered. Returns how much was done.
    fn begin_to_serve<S: StoreGroupState>(
        &mut self,
        group: &mut Group<S>,
        now: Time,
        effects: &mut Effects,
    ) -> usize {
        let Some(stream) = self.sender.stream() else { return 0 };
        let StoreSet { stores, sender, most_ended, .. } = self;
        let answered = sender.queue.take_answered(|it| {
            let is_logged = group.state().logs(it.key).is_some();
            match stores.get_mut(&it.key) {
                Some(subgroup_store) => subgroup_store.answer(it, is_logged, stream, *most_ended),
                None => Some((StoreMessage::Lack { key: it.key, request: it.request }, None)),
            }
        });
        let Some((transfer_request, (answer, reader))) = answered else { return 0 };
        let is_sent = group.send_direct(transfer_request.node, answer.to_bytes(), effects);
        if let (true, Some(reader), StoreMessage::Give { streams, .. }) = (is_sent, reader, answer)
        {
            let announced = streams.into_iter().map(|(stream, _)| stream).collect();
            if let Some(subgroup_store) = stores.get_mut(&transfer_request.key) {
                let store = subgroup_store.store();
                sender.serve(transfer_request, reader, store, announced, now);
            }
        }
        1
    }

    fn is_busy(&self) -> bool {
        let subgroup_stores = || self.durability.keys().filter_map(|key| self.stores.get(key));
        let logs = || subgroup_stores().any(SubgroupStore::is_logging);
        let waits = self.has_unsent || self.sender.is_busy();
        waits || !self.incoming.is_empty() || !self.unsettled.is_empty() || logs()
    }

    /// Latest time of the next turn.
    pub fn wants_turn_at(&self) -> Option<Time> {
        self.next_turn_at.filter(|_| self.is_busy())
    }
}
