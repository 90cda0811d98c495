//! All stores of a member, in all its subgroups.
//!
//! Owns: its keepers, their requests to other members, and the requests of other members. Never
//! does: interpret records.
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

use super::frontier::Frontier;
use super::holders::Holders;
use super::journal::{Condition, Journal};
use super::keeper::Taken;
pub use super::keeper::{Keeper, Motion};
use super::logbook::{LogBook, Standing};
use super::parcel::{BlockHead, Parcel, Place};
pub use super::porter::porter_geometry;
use super::porter::{Porter, Want};
use super::scribe::Scribe;
use super::store::{Meaning, Retention};
use crate::bytes::Wire;
use crate::group::registry::Layout;
use crate::group::report::StreamId;
use crate::group::{Group, State};
use crate::ids::{NodeId, RegionId, Time};
use crate::machine::Effects;
use crate::multicast::claim::SenderMemory;
use crate::multicast::inbox::Inbox;
use crate::node::{NodeEvent, Origin, SubgroupId, SubscriptionId};

/// Maximum number of blocks taken in in one turn.
const BLOCKS_A_TURN: usize = 4;
/// Maximum interval between turns, in nanoseconds, during a transfer.
const LOOK: u64 = 1_000_000;
/// Default of the maximum number of ended streams announced with an offer (I-157).
pub const MOST_OVER: usize = 1024;
/// Interval, in nanoseconds, between searches for awaited logs.
const CLAIM_AGAIN: u64 = 100_000_000;

impl core::fmt::Debug for Depot {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let arrivals = self.arrivals.iter();
        let arrivals: Vec<_> =
            arrivals.map(|it| (it.key, it.request, it.inbox.is_some())).collect();
        let Depot { keepers, porter, unsettled, .. } = self;
        write!(f, "{keepers:?}; {porter:?}; arrivals {arrivals:?}, unsettled {unsettled:?}")
    }
}

/// State of a group that knows the holders of stores.
pub trait Holding: State {
    /// Returns the holders of a subgroup's store; `None` if it has no store.
    fn holders(&self, key: u64) -> Option<&Holders>;

    /// Returns the logs of a subgroup; `None` if it is not logged.
    fn logs(&self, key: u64) -> Option<&LogBook>;

    /// Encodes a member's announcement.
    fn motion(&self, key: u64, motion: Motion) -> Vec<u8>;
}

/// Transfer to this member.
struct Arrival {
    subscription: SubscriptionId,
    key: u64,
    request: u64,
    inbox: Option<Arc<Inbox>>,
}

/// All stores of a member; see the [module](self).
pub struct Depot {
    keepers: BTreeMap<u64, Keeper>,
    porter: Porter,
    arrivals: Vec<Arrival>,
    /// Keepers that are not yet settled.
    unsettled: BTreeSet<u64>,
    requests: u64,
    look_at: Option<Time>,
    /// Durability of the subgroups that are logged.
    frontiers: BTreeMap<u64, Frontier>,
    /// Time of the next search for awaited logs.
    claim_at: Option<Time>,
    /// Whether a message to a member could not be sent and must be repeated.
    untold: bool,
    /// Subgroups of which more is durable everywhere than at the last query.
    moved: Vec<u64>,
    /// Maximum number of ended streams announced with an offer.
    most_over: usize,
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
            frontiers: BTreeMap::new(),
            claim_at: None,
            untold: false,
            moved: Vec::new(),
            most_over: MOST_OVER,
        }
    }
}

impl Depot {
    /// Whether this member has a stream for transfers to other members.
    pub fn has_stream(&self) -> bool {
        self.porter.stream().is_some()
    }

    /// Sets the maximum number of ended streams announced with an offer (I-157).
    pub fn tell_over(&mut self, most: usize) {
        self.most_over = most;
    }

    /// Sets the stream for transfers: memory of [`porter_geometry`].
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

    /// Keeps the records delivered in a subgroup, as soon as this member begins in it.
    pub fn keep(&mut self, key: u64, retention: Retention, meaning: Meaning) {
        self.keepers.entry(key).or_insert_with(|| Keeper::new(retention, meaning));
    }

    /// Keeps a subgroup's records in this log as well. Further calls have no effect.
    pub fn log(&mut self, key: u64, journal: Box<dyn Journal>) {
        if let Some(keeper) = self.keepers.get_mut(&key) {
            keeper.attach(journal);
            self.unsettled.insert(key);
        }
    }

    /// Stops keeping logs.
    pub fn end_logs(&mut self) {
        self.keepers.values_mut().for_each(Keeper::detach);
    }

    /// Whether all own messages delivered to this member in a subgroup so far are
    /// durable everywhere.
    pub fn is_durable(&mut self, key: u64) -> bool {
        self.catch_up(key);
        let durable = self.durable(key);
        let is_durable = |it: &Keeper| it.has_taken_all() && it.own_version() <= durable;
        self.keepers.get(&key).is_none_or(is_durable)
    }

    /// Whether this member keeps a log of a subgroup.
    pub fn has_log(&self, key: u64) -> bool {
        self.keepers.get(&key).is_some_and(|keeper| keeper.condition().is_some())
    }

    /// Whether this member's log of a subgroup holds every message of the subgroup up to
    /// [`own_durable`](Depot::own_durable). False for a log that is still being completed, or
    /// has failed.
    pub fn has_complete_log(&self, key: u64) -> bool {
        self.keepers.get(&key).and_then(Keeper::scribe).is_some_and(Scribe::is_complete)
    }

    /// Last version that is durable in all logs of a subgroup, as far as is known here.
    pub fn durable(&self, key: u64) -> u64 {
        self.frontiers.get(&key).map_or(0, Frontier::everywhere)
    }

    /// Other members whose logs of a subgroup wait for space, which blocks all writers.
    pub fn full(&self, key: u64) -> impl Iterator<Item = NodeId> + '_ {
        self.frontiers.get(&key).into_iter().flat_map(Frontier::full)
    }

    /// Last version that this member reports as durable in its own log of a subgroup.
    pub fn own_durable(&self, key: u64) -> u64 {
        self.keepers.get(&key).and_then(Keeper::scribe).map_or(0, Scribe::durable)
    }

    /// Returns the subgroups of which more is durable everywhere than at the last call.
    pub fn moved(&mut self) -> impl Iterator<Item = u64> + '_ {
        self.moved.drain(..)
    }

    /// Returns the keeper of a subgroup.
    pub fn keeper(&self, key: u64) -> Option<&Keeper> {
        self.keepers.get(&key)
    }

    /// Returns the keeper of a subgroup, for changes.
    pub fn keeper_mut(&mut self, key: u64) -> Option<&mut Keeper> {
        self.keepers.get_mut(&key)
    }

    /// Takes in the records delivered in a subgroup so far.
    pub fn catch_up(&mut self, key: u64) {
        if let Some(keeper) = self.keepers.get_mut(&key) {
            keeper.take();
        }
    }

    /// Begins an epoch of a subgroup. Must be called before any record of the epoch is taken in.
    pub fn begun<S: Holding>(
        &mut self,
        group: &mut Group<S>,
        key: u64,
        subgroup: SubgroupId,
        (epoch, layout): (u64, &Layout),
    ) {
        let Some(keeper) = self.keepers.get_mut(&key) else { return };
        let (holders, logs) = (group.state().holders(key), group.state().logs(key));
        let (holders, logs) = (holders.cloned(), logs.cloned());
        let state = (holders.as_ref(), logs.as_ref());
        keeper.begun(group.node_mut(), subgroup, (epoch, layout), state);
        if logs.is_some() {
            let (me, frontier) = (group.node().id(), self.frontiers.entry(key).or_default());
            let others = layout.seats.iter().filter(|seat| seat.node != me);
            frontier.begun(others.map(|seat| (seat.node, seat.lines)));
        }
        self.unsettled.insert(key);
        self.look_at(group, key);
    }

    /// Ends this member's part in a subgroup.
    pub fn left(&mut self, key: u64) {
        self.keepers.remove(&key);
        self.unsettled.remove(&key);
        self.frontiers.remove(&key);
    }

    /// Reacts to a change of the group's state.
    pub fn changed<S: Holding>(&mut self, group: &mut Group<S>) {
        for key in self.unsettled.iter().copied().collect::<Vec<u64>>() {
            self.look_at(group, key);
        }
        // A subgroup with a log has a frontier.
        for key in self.frontiers.keys() {
            let keeper = self.keepers.get_mut(key);
            keeper.into_iter().for_each(|it| it.note_keepers(group.state().logs(*key)));
        }
        let view = group.view();
        self.porter.retain(|node| view.rank_of(node).is_some());
    }

    fn look_at<S: Holding>(&mut self, group: &mut Group<S>, key: u64) {
        let me = group.node().id();
        let Some(keeper) = self.keepers.get_mut(&key) else { return };
        let Some(holders) = group.state().holders(key) else { return };
        let logs = group.state().logs(key);
        let others = logs.into_iter().flat_map(|logs| logs.complete(holders));
        let others = others.map(|(node, _)| node).filter(|node| *node != me);
        if keeper.note_named(others, (holders, self.frontiers.get(&key))) {
            keeper.note_keepers(logs);
        }
        let motion = keeper.changed(me, holders, logs);
        if keeper.is_settled(holders, me) {
            self.unsettled.remove(&key);
        }
        if let Some(motion) = motion {
            let message = group.state().motion(key, motion);
            group.submit(&message);
        }
    }

    /// Sends the keepers' requests to holders.
    fn ask<S: Holding>(&mut self, group: &mut Group<S>, effects: &mut Effects) -> usize {
        let (me, mut done) = (group.node().id(), 0);
        for &key in &self.unsettled {
            let Some(keeper) = self.keepers.get_mut(&key) else { continue };
            let Some(wish) = keeper.wants() else { continue };
            let Some(holders) = group.state().holders(key) else { continue };
            let others: Vec<NodeId> =
                holders.names().iter().copied().filter(|node| *node != me).collect();
            if others.is_empty() {
                continue;
            }
            // Requests vary, and go to different holders.
            self.requests += 1 + (me.0 as u64 & 0xff);
            let (node, request) = (others[self.requests as usize % others.len()], self.requests);
            let want = Parcel::Want { key, request, wish };
            if group.send_direct(node, want.to_bytes(), effects) {
                keeper.ask(Some((node, request)));
                done += 1;
            }
        }
        done
    }

    /// Takes in a direct message of a member. Returns `false` if it is invalid.
    pub fn direct<S: Holding>(&mut self, group: &mut Group<S>, from: NodeId, bytes: &[u8]) -> bool {
        match Parcel::from_bytes(bytes) {
            Some(Parcel::Want { key, request, wish }) => {
                self.porter.want(Want { node: from, key, request, wish });
            }
            Some(Parcel::Durable { key, version }) => {
                // The other member may know of the epoch before this one does.
                if self.keepers.contains_key(&key) {
                    self.frontiers.entry(key).or_default().told(from, version);
                }
            }
            Some(Parcel::Room { key, is_full }) => {
                if self.keepers.contains_key(&key) {
                    self.frontiers.entry(key).or_default().is_full(from, is_full);
                }
            }
            Some(Parcel::Names { key, logs }) => {
                if self.keepers.contains_key(&key) {
                    self.frontiers.entry(key).or_default().names(from, logs);
                    self.look_at(group, key);
                }
            }
            Some(Parcel::Later { key, request, since }) => {
                if let Some(keeper) = self.asked_of(key, (from, request)) {
                    keeper.begin_later(since);
                }
            }
            Some(Parcel::Give { key, request, stream, streams, version, since }) => {
                let Some(peer) = group.peer_of(from) else { return true };
                let Some(keeper) = self.asked_of(key, (from, request)) else { return true };
                keeper.given(&streams, version, since);
                match group.node_mut().subscribe(Origin::Peer(peer), stream) {
                    Some(subscription) => {
                        self.arrivals.push(Arrival { subscription, key, request, inbox: None });
                    }
                    // The maximum number of streams is being read; the request is repeated later.
                    None => keeper.ask(None),
                }
            }
            Some(Parcel::Lack { key, request }) => {
                if let Some(keeper) = self.asked_of(key, (from, request)) {
                    keeper.ask(None);
                }
            }
            Some(Parcel::Behind { key, request }) => {
                self.asked_of(key, (from, request)).into_iter().for_each(Keeper::is_behind);
            }
            None => return false,
        }
        true
    }

    /// Returns the keeper that made this request to this member.
    fn asked_of(&mut self, key: u64, of: (NodeId, u64)) -> Option<&mut Keeper> {
        let keeper = self.keepers.get_mut(&key)?;
        keeper.asked().is_some_and(|it| (it.node, it.request) == of).then_some(keeper)
    }

    /// Takes in an event of a stream. Returns `true` if it is one of the streams used here.
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
                // The blocks received so far are used; the rest is requested from another holder.
                while self.take_blocks(index, usize::MAX) == Some(true) {}
                let Arrival { key, request, .. } = self.arrivals.swap_remove(index);
                self.give_up(key, request);
                true
            }
            _ => false,
        }
    }

    /// Gives up a keeper's request.
    fn give_up(&mut self, key: u64, request: u64) {
        if let Some(keeper) = self.keepers.get_mut(&key)
            && keeper.asked().is_some_and(|asked| asked.request == request)
        {
            keeper.ask(None);
        }
    }

    /// Takes blocks in. `Some(true)`: there may be more; `None`: no more are wanted.
    fn take_blocks(&mut self, index: usize, most: usize) -> Option<bool> {
        let Arrival { key, request, inbox, .. } = &self.arrivals[index];
        let Some(inbox) = inbox else { return Some(false) };
        let keeper = self.keepers.get_mut(key)?;
        // The keeper may have asked another holder meanwhile.
        keeper.asked().filter(|asked| asked.request == *request)?;
        for _ in 0..most {
            let Some(record) = inbox.take() else { return Some(false) };
            // I-330: the checked bytes and the stored ones are the same.
            let block = record.bytes().to_vec();
            let taken = match BlockHead::read(&block) {
                Some((head, run)) if head.request == *request => keeper.take_block(head, run),
                _ => Taken::Nonsense,
            };
            if taken != Taken::More {
                return None;
            }
        }
        Some(true)
    }

    /// Takes in delivered records, and advances transfers. Returns how much was done, and the
    /// subgroups whose stores became complete.
    pub fn turn<S: Holding>(
        &mut self,
        group: &mut Group<S>,
        now: Time,
        effects: &mut Effects,
    ) -> (usize, Vec<u64>) {
        let (mut done, mut whole) = (0, Vec::new());
        let mut speaks = Vec::new();
        for (&key, keeper) in &mut self.keepers {
            let (taken, is_whole) = keeper.turn();
            done += taken;
            whole.extend(is_whole.then_some(key));
        }
        // I-108: all copies so far are valid if this member was still a member after them.
        let keeps_logs = self.keepers.values().any(|keeper| keeper.scribe().is_some());
        if keeps_logs && !group.is_overtaken() {
            for (&key, keeper) in &mut self.keepers {
                done += keeper.log();
                speaks.extend(keeper.has_news().then_some(key));
            }
        }
        speaks.iter().for_each(|key| self.look_at(group, *key));
        done += self.spread(group, effects);
        if !self.is_busy() {
            return (done, whole);
        }
        self.look_at = Some(now.after(LOOK));
        self.claim_again(group, now);
        whole.iter().for_each(|key| self.look_at(group, *key));
        done += self.arrive(group) + self.ask(group, effects);
        if self.porter.is_free() {
            done += self.begin_to_serve(group, now, effects);
        }
        if let Some(Want { node, key, request, .. }) = self.porter.take_absent(now) {
            group.send_direct(node, Parcel::Lack { key, request }.to_bytes(), effects);
        }
        let keeper = self.porter.gives().and_then(|key| self.keepers.get(&key));
        done += self.porter.turn(keeper.filter(|keeper| keeper.is_whole()).map(Keeper::store));
        (done, whole)
    }

    /// Reports how far this member's logs are durable, and computes what is durable everywhere.
    /// Returns the number of subgroups for which that has advanced.
    fn spread<S: Holding>(&mut self, group: &mut Group<S>, effects: &mut Effects) -> usize {
        let (me, mut done) = (group.node().id(), 0);
        self.untold = false;
        for (&key, frontier) in &mut self.frontiers {
            let scribe = self.keepers.get(&key).and_then(Keeper::scribe);
            let names = scribe.map_or(&[][..], |scribe| scribe.names());
            for node in frontier.names_untold(names) {
                let told = Parcel::Names { key, logs: names.to_vec() };
                match group.send_direct(node, told.to_bytes(), effects) {
                    true => frontier.names_told(node),
                    false => self.untold = true,
                }
            }
            let is_full = scribe.is_some_and(|scribe| scribe.condition() == Condition::Full);
            for node in frontier.fullness_untold(is_full) {
                match group.send_direct(node, Parcel::Room { key, is_full }.to_bytes(), effects) {
                    true => frontier.fullness_told(node, is_full),
                    false => self.untold = true,
                }
            }
            let own = self.keepers.get(&key).and_then(Keeper::scribe).map_or(0, Scribe::durable);
            for node in frontier.untold(own) {
                let told = Parcel::Durable { key, version: own };
                match group.send_direct(node, told.to_bytes(), effects) {
                    true => frontier.tells(node, own),
                    false => self.untold = true,
                }
            }
            let (holders, logs) = (group.state().holders(key), group.state().logs(key));
            let (Some(holders), Some(logs)) = (holders, logs) else { continue };
            let storers = logs.complete(holders).map(|(node, _)| node);
            if frontier.settle((me, own), storers) {
                self.moved.push(key);
                done += 1;
            }
        }
        done
    }

    /// Searches again for awaited logs: their folders may be free by now.
    fn claim_again<S: Holding>(&mut self, group: &Group<S>, now: Time) {
        if self.claim_at.is_some_and(|at| now < at) {
            return;
        }
        self.claim_at = Some(now.after(CLAIM_AGAIN));
        for key in &self.unsettled {
            let (holders, logs) = (group.state().holders(*key), group.state().logs(*key));
            let (Some(holders), Some(logs)) = (holders, logs) else { continue };
            let vacancy = holders.vacancies();
            let waits = matches!(logs.standing(vacancy), Standing::Waits(_));
            let scribe = self.keepers.get_mut(key).and_then(Keeper::scribe_mut);
            if holders.names().is_empty() && waits {
                scribe.into_iter().for_each(|scribe| scribe.claim(vacancy, true));
            }
        }
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
                    // If the store is still incomplete, another holder is asked.
                    self.give_up(key, request);
                    done += 1;
                }
            }
        }
        done
    }

    /// Serves the first request that can be served.
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
            if keeper.is_before(&want.wish.now) {
                self.porter.queue.remove(index);
                let behind = Parcel::Behind { key, request };
                group.send_direct(node, behind.to_bytes(), effects);
                return 1;
            }
            let since = keeper.since();
            if let Some(since) = since.filter(|since| is_before(&want.wish.until, since)) {
                let later = Parcel::Later { key, request, since: since.clone() };
                self.porter.queue.remove(index);
                group.send_direct(node, later.to_bytes(), effects);
                return 1;
            }
            let since = since.cloned().unwrap_or_default();
            let is_logged = group.state().logs(key).is_some();
            let Some((found, version)) = keeper.serve(&want, is_logged) else { continue };
            self.porter.queue.remove(index);
            let streams = keeper.store().offered(self.most_over);
            let told = streams.iter().map(|(stream, _)| *stream).collect();
            let give = Parcel::Give { key, request, stream, streams, version, since };
            if group.send_direct(node, give.to_bytes(), effects) {
                self.porter.serve(want, found, (keeper.store(), told), now);
            }
            done = 1;
            break;
        }
        done
    }

    fn is_busy(&self) -> bool {
        let keepers = || self.frontiers.keys().filter_map(|key| self.keepers.get(key));
        let logs = || keepers().any(Keeper::is_logging);
        let waits = self.untold || self.porter.is_busy();
        waits || !self.arrivals.is_empty() || !self.unsettled.is_empty() || logs()
    }

    /// Latest time of the next turn.
    pub fn wants_turn_at(&self) -> Option<Time> {
        self.look_at.filter(|_| self.is_busy())
    }
}

/// Whether a request ends before the place at which a store began from a log.
fn is_before((until, ends): &Place, (epoch, numbers): &Place) -> bool {
    let ends = |stream: &StreamId| ends.iter().find(|(known, _)| known == stream);
    let mut numbers = numbers.iter();
    let earlier = |(stream, from): &(StreamId, u64)| ends(stream).is_some_and(|it| it.1 < *from);
    until < epoch || until == epoch && numbers.any(earlier)
}
