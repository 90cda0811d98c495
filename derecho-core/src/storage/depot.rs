//! All that a member keeps, in all its subgroups.
//!
//! Owns: its keepers, whom they ask, and whom they serve. Never does: read what is kept.
//!
//! ```text
//!   newcomer                                    holder
//!     begins in the epoch                         begins in it too: pins what has died for it
//!     --- Want(until, from) --->                  when it has come as far, and it is its turn
//!     <-- Give(stream) ---                        subscribes; blocks come as there is room
//!     ... the last block ...                      unsubscribes: the next one's turn
//!     Holds, to all                               unpins
//! ```

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::holders::Holders;
use super::keeper::Taken;
pub use super::keeper::{Keeper, Motion};
use super::parcel::{BlockHead, Numbers, Parcel};
pub use super::porter::porter_geometry;
use super::porter::{Porter, Want};
use super::store::{Meaning, Retention};
use crate::bytes::Wire;
use crate::group::registry::Layout;
use crate::group::{Group, State};
use crate::ids::{NodeId, RegionId, Time};
use crate::machine::Effects;
use crate::multicast::claim::SenderMemory;
use crate::multicast::inbox::Inbox;
use crate::node::{NodeEvent, Origin, SubgroupId, SubscriptionId};

/// Blocks that are taken in in one turn.
const BLOCKS_A_TURN: usize = 4;
/// While something is on its way it is looked after so often at least.
const LOOK: u64 = 1_000_000;

impl core::fmt::Debug for Depot {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let arrivals = self.arrivals.iter();
        let arrivals: Vec<_> =
            arrivals.map(|it| (it.key, it.request, it.inbox.is_some())).collect();
        let Depot { keepers, porter, unsettled, .. } = self;
        write!(f, "{keepers:?}; {porter:?}; arrivals {arrivals:?}, unsettled {unsettled:?}")
    }
}

/// A state of a group that knows who keeps what.
pub trait Holding: State {
    /// Who has what is kept of a subgroup; none if nothing is.
    fn holders(&self, key: u64) -> Option<&Holders>;

    /// The message by which a member says this.
    fn motion(&self, key: u64, motion: Motion) -> Vec<u8>;
}

/// What is on its way to this member.
struct Arrival {
    subscription: SubscriptionId,
    key: u64,
    request: u64,
    inbox: Option<Arc<Inbox>>,
}

/// See the [module](self).
pub struct Depot {
    keepers: BTreeMap<u64, Keeper>,
    porter: Porter,
    arrivals: Vec<Arrival>,
    /// Keepers that are on their way to something.
    unsettled: BTreeSet<u64>,
    requests: u64,
    look_at: Option<Time>,
}

impl Default for Depot {
    fn default() -> Depot {
        Depot {
            keepers: BTreeMap::new(),
            porter: Porter::new(),
            arrivals: Vec::new(),
            unsettled: BTreeSet::new(),
            requests: 0,
            look_at: None,
        }
    }
}

impl Depot {
    /// Whether this member has a stream by which it can give others what it keeps.
    pub fn has_stream(&self) -> bool {
        self.porter.stream().is_some()
    }

    /// Brings that stream: memory of [`porter_geometry`].
    pub fn bring<S: Holding>(
        &mut self,
        group: &mut Group<S>,
        region: RegionId,
        memory: SenderMemory,
        effects: &mut Effects,
    ) {
        group.node_mut().add_stream(region, memory.clone(), effects);
        self.porter.bring(region, memory);
    }

    /// From now on what is delivered in a subgroup is kept, as soon as this member begins in it.
    pub fn keep(&mut self, key: u64, retention: Retention, meaning: Meaning) {
        self.keepers.entry(key).or_insert_with(|| Keeper::new(retention, meaning));
    }

    /// What is kept of a subgroup.
    pub fn keeper(&self, key: u64) -> Option<&Keeper> {
        self.keepers.get(&key)
    }

    /// The same, to be told something.
    pub fn keeper_mut(&mut self, key: u64) -> Option<&mut Keeper> {
        self.keepers.get_mut(&key)
    }

    /// Takes in what was delivered in a subgroup so far.
    pub fn catch_up(&mut self, key: u64) {
        if let Some(keeper) = self.keepers.get_mut(&key) {
            keeper.take();
        }
    }

    /// An epoch of a subgroup has begun: to be told before anything of it is taken in.
    pub fn begun<S: Holding>(
        &mut self,
        group: &mut Group<S>,
        key: u64,
        subgroup: SubgroupId,
        (epoch, layout): (u64, &Layout),
    ) {
        let Some(keeper) = self.keepers.get_mut(&key) else { return };
        let holders = group.state().holders(key).cloned();
        keeper.begun(group.node_mut(), subgroup, (epoch, layout), holders.as_ref());
        self.unsettled.insert(key);
        self.look_at(group, key);
    }

    /// This member is no member of a subgroup any more.
    pub fn left(&mut self, key: u64) {
        self.keepers.remove(&key);
        self.unsettled.remove(&key);
    }

    /// The group's state has changed.
    pub fn changed<S: Holding>(&mut self, group: &mut Group<S>) {
        for key in self.unsettled.iter().copied().collect::<Vec<u64>>() {
            self.look_at(group, key);
        }
        let view = group.view();
        self.porter.retain(|node| view.rank_of(node).is_some());
    }

    fn look_at<S: Holding>(&mut self, group: &mut Group<S>, key: u64) {
        let me = group.node().id();
        let Some(keeper) = self.keepers.get_mut(&key) else { return };
        let Some(holders) = group.state().holders(key).cloned() else { return };
        if let Some(motion) = keeper.changed(me, &holders) {
            let message = group.state().motion(key, motion);
            group.submit(&message);
        }
        if keeper.is_settled(Some(&holders), me) {
            self.unsettled.remove(&key);
        }
    }

    /// Asks holders for what keepers want.
    fn ask<S: Holding>(&mut self, group: &mut Group<S>, effects: &mut Effects) -> usize {
        let (me, mut done) = (group.node().id(), 0);
        for &key in &self.unsettled {
            let Some(keeper) = self.keepers.get_mut(&key) else { continue };
            let Some((epoch, from, until)) = keeper.wants() else { continue };
            let Some(holders) = group.state().holders(key) else { continue };
            let others: Vec<NodeId> =
                holders.names().iter().copied().filter(|node| *node != me).collect();
            if others.is_empty() {
                continue;
            }
            // Not always the same one, and not all the same.
            self.requests += 1 + (me.0 as u64 & 0xff);
            let (node, request) = (others[self.requests as usize % others.len()], self.requests);
            let want = Parcel::Want { key, request, epoch, until, from };
            if group.send_direct(node, want.to_bytes(), effects) {
                keeper.ask(Some((node, request)));
                done += 1;
            }
        }
        done
    }

    /// A member says something directly. `false` if it makes no sense.
    pub fn direct<S: Holding>(&mut self, group: &mut Group<S>, from: NodeId, bytes: &[u8]) -> bool {
        match Parcel::from_bytes(bytes) {
            Some(Parcel::Want { key, request, epoch, until, from: known }) => {
                self.porter.want(Want { node: from, key, request, epoch, until, from: known });
            }
            Some(Parcel::Give { key, request, stream, streams }) => {
                let is_it = |keeper: &mut Keeper| {
                    keeper.asked().is_some_and(|it| (it.node, it.request) == (from, request))
                };
                let Some(keeper) = self.keepers.get_mut(&key) else { return true };
                let peer = group.peer_of(from);
                let (true, Some(peer)) = (is_it(keeper), peer) else { return true };
                keeper.given(&streams);
                match group.node_mut().subscribe(Origin::Peer(peer), stream) {
                    Some(subscription) => {
                        self.arrivals.push(Arrival { subscription, key, request, inbox: None });
                    }
                    // As many streams as can be are read; another time.
                    None => keeper.ask(None),
                }
            }
            Some(Parcel::Lack { key, request }) => {
                if let Some(keeper) = self.keepers.get_mut(&key)
                    && keeper.asked().is_some_and(|it| (it.node, it.request) == (from, request))
                {
                    keeper.ask(None);
                }
            }
            None => return false,
        }
        true
    }

    /// Something has become of a stream. `true` if it is one of these.
    pub fn take_in(&mut self, event: &NodeEvent) -> bool {
        match event {
            NodeEvent::Readers { stream, count } if self.porter.stream() == Some(*stream) => {
                self.porter.readers(*count);
                true
            }
            NodeEvent::Subscribed(subscription, inbox) => {
                let arrival = self.arrivals.iter_mut().find(|it| it.subscription == *subscription);
                arrival.map(|arrival| arrival.inbox = Some(Arc::clone(inbox))).is_some()
            }
            NodeEvent::Ended(subscription) => {
                let index = self.arrivals.iter().position(|it| it.subscription == *subscription);
                let Some(index) = index else { return false };
                // What was received of it is worth something: the rest is asked of another.
                while self.take_blocks(index, usize::MAX) == Some(true) {}
                let Arrival { key, request, .. } = self.arrivals.swap_remove(index);
                self.give_up(key, request);
                true
            }
            _ => false,
        }
    }

    /// What a keeper has asked for does not come.
    fn give_up(&mut self, key: u64, request: u64) {
        if let Some(keeper) = self.keepers.get_mut(&key)
            && keeper.asked().is_some_and(|asked| asked.request == request)
        {
            keeper.ask(None);
        }
    }

    /// Takes blocks in. `Some(true)`: there may be more; `None`: nothing more is wanted.
    fn take_blocks(&mut self, index: usize, most: usize) -> Option<bool> {
        let Arrival { key, request, inbox, .. } = &self.arrivals[index];
        let Some(inbox) = inbox else { return Some(false) };
        let keeper = self.keepers.get_mut(key)?;
        // It may have asked another one meanwhile.
        keeper.asked().filter(|asked| asked.request == *request)?;
        for _ in 0..most {
            let Some(record) = inbox.take() else { return Some(false) };
            let taken = match BlockHead::read(record.bytes()) {
                Some((head, run)) if head.request == *request => keeper.take_block(head, run),
                _ => Taken::Nonsense,
            };
            if taken != Taken::More {
                return None;
            }
        }
        Some(true)
    }

    /// Takes in what was delivered, and moves on what is on its way. Returns how much, and which subgroups'
    /// keepers have become whole.
    pub fn turn<S: Holding>(
        &mut self,
        group: &mut Group<S>,
        now: Time,
        effects: &mut Effects,
    ) -> (usize, Vec<u64>) {
        let (mut done, mut whole) = (0, Vec::new());
        for (&key, keeper) in &mut self.keepers {
            let (taken, is_whole) = keeper.turn();
            done += taken;
            whole.extend(is_whole.then_some(key));
        }
        if !self.is_busy() {
            return (done, whole);
        }
        self.look_at = Some(now.after(LOOK));
        whole.iter().for_each(|key| self.look_at(group, *key));
        done += self.arrive(group) + self.ask(group, effects);
        if self.porter.is_free() {
            done += self.begin_to_serve(group, now, effects);
        }
        if let Some(Want { node, key, request, .. }) = self.porter.take_absent(now) {
            group.send_direct(node, Parcel::Lack { key, request }.to_bytes(), effects);
        }
        done += self.porter.turn();
        (done, whole)
    }

    fn arrive<S: Holding>(&mut self, group: &mut Group<S>) -> usize {
        let (mut done, mut index) = (0, 0);
        while index < self.arrivals.len() {
            match self.take_blocks(index, BLOCKS_A_TURN) {
                Some(more) => {
                    done += usize::from(more);
                    index += 1;
                }
                None => {
                    let Arrival { subscription, key, request, .. } =
                        self.arrivals.swap_remove(index);
                    group.node_mut().unsubscribe(subscription);
                    // If it did not become whole by that, another one is asked.
                    self.give_up(key, request);
                    done += 1;
                }
            }
        }
        done
    }

    /// The first one that can be served has its turn.
    fn begin_to_serve<S: Holding>(
        &mut self,
        group: &mut Group<S>,
        now: Time,
        effects: &mut Effects,
    ) -> usize {
        let Some(stream) = self.porter.stream() else { return 0 };
        let mut done = 0;
        for index in 0..self.porter.queue.len() {
            let want = self.porter.queue[index].clone();
            let Want { node, key, request, .. } = want;
            let Some(keeper) = self.keepers.get_mut(&key).filter(|keeper| keeper.is_whole()) else {
                self.porter.queue.remove(index);
                group.send_direct(node, Parcel::Lack { key, request }.to_bytes(), effects);
                return 1;
            };
            let Some(found) = keeper.serve(&want) else { continue };
            let streams: Numbers = keeper.store().met().collect();
            self.porter.queue.remove(index);
            let give = Parcel::Give { key, request, stream, streams: streams.clone() };
            if group.send_direct(node, give.to_bytes(), effects) {
                self.porter.serve(want, found, &streams, now);
            }
            done = 1;
            break;
        }
        done
    }

    fn is_busy(&self) -> bool {
        !self.arrivals.is_empty() || self.porter.is_busy() || !self.unsettled.is_empty()
    }

    /// When it wants a turn at the latest.
    pub fn wants_turn_at(&self) -> Option<Time> {
        self.look_at.filter(|_| self.is_busy())
    }
}
