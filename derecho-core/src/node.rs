//! The node: what one participant's protocol consists of, as one machine.
//!
//! Owns: the streams that this node sends, those that it receives, and who is matched with whom.
//! Never does: decide what matches; the upper layer reads announcements and subscribes.
//!
//! How a reader comes to a stream:
//!
//! ```text
//!   reader's node                                   sender's node
//!                      <---- Announce(what I write)
//!   subscribe()        ---- Attach(stream, line) -->  waits until the reader can be written to
//!                      <---- Accept(slot) ----------  counts it among its readers from `slot` on
//!   receives from `slot` on
//! ```
//! Nothing that is sent after the Accept is lost to that reader (I-4). A turn runs the predicates
//! in a fixed order, each over all that is ready: receive, send, release, reclaim.

mod activity;
mod epochs;
mod peers;
mod reception;
mod settle;
mod subgroups;
mod subscription;
mod urgent;

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;

use crate::ids::{NodeId, Peer, RegionId, Time};
use crate::link::{Evidence, Interest, LinkEvent, NOTE_LIMIT, Sharing, Waker};
use crate::machine::{Effects, Machine, Target};
use crate::memory::{LINE_WORDS, OwnRegion, Replica};
use crate::multicast::Fault;
use crate::multicast::acknowledgement::AckLine;
use crate::multicast::claim::SenderMemory;
use crate::multicast::inbox::{Inbox, Source};
use crate::multicast::stream::Stream;
use crate::note::Note;
use activity::Activity;
pub use epochs::{Epoch, Seat, StreamReach};
pub use subgroups::{Charter, Membership, Share, SubgroupId};
use subgroups::{Founded, Pending};
use subscription::{Stage, Subscription};
pub use urgent::Path;
use urgent::Urgent;

/// The region of a node's acknowledgements.
pub const ACKS: RegionId = RegionId(1);
/// Lines in it: how many streams a node can receive at once.
pub const ACK_LINES: usize = 4096;
/// Words of it.
pub const ACKS_WORDS: usize = ACK_LINES * LINE_WORDS;
/// The region of a node's change counts.
pub const CHANGES: RegionId = RegionId(2);
pub use crate::multicast::changes::CHANGES_WORDS;
/// The first region name that is free for streams.
const FIRST_STREAM: u64 = 16;

/// Bytes in one part of what is told: a note has a few of its own.
const MOST_OF_A_PART: usize = NOTE_LIMIT - 64;
/// The longest that a peer may tell at once.
const MOST_TOLD: u64 = 64 << 20;

/// Names a subscription of this node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SubscriptionId(u64);

/// Who sends a stream.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Origin {
    /// This node itself.
    Own,
    /// A peer.
    Peer(Peer),
}

/// What the upper layer should know.
#[derive(Debug)]
pub enum NodeEvent {
    /// A peer is there.
    PeerUp {
        /// The link's handle.
        peer: Peer,
        /// Who.
        node: NodeId,
    },
    /// A peer is gone, and all that it announced with it.
    PeerDown {
        /// The link's handle.
        peer: Peer,
        /// Who.
        node: NodeId,
        /// How sure that is.
        evidence: Evidence,
    },
    /// A peer announces something.
    Announced {
        /// Who.
        peer: Peer,
        /// Its name for it.
        id: u64,
        /// What: a peer's word, to be checked.
        bytes: Vec<u8>,
    },
    /// A peer's announcement holds no more.
    Retracted {
        /// Who.
        peer: Peer,
        /// Its name for it.
        id: u64,
    },
    /// The number of subscriptions that read an own stream has changed.
    Readers {
        /// The stream.
        stream: RegionId,
        /// How many read it.
        count: usize,
    },
    /// Records of a subscription arrive in this queue from now on.
    Subscribed(SubscriptionId, Arc<Inbox>),
    /// So many messages of a stream were lost to a subscription that its sender does not wait for.
    Lost(SubscriptionId, u64),
    /// A subscription ended at the sender's side. What was received can still be taken.
    Ended(SubscriptionId),
    /// A subgroup is at work: this node can send to it and deliver from it.
    Founded(SubgroupId),
    /// The number of members of a subgroup that read and have begun has changed.
    Gathered {
        /// Which.
        subgroup: SubgroupId,
        /// How many have begun.
        readers: usize,
        /// How many members other than this node send.
        senders: usize,
    },
    /// A member that the others of a subgroup need is gone: what all had received is delivered, and
    /// nothing more before the next epoch.
    Stalled(SubgroupId),
    /// A subgroup has gone on to its next epoch: what is delivered from now on is of that one.
    Begun {
        /// Which.
        subgroup: SubgroupId,
        /// The epoch's number.
        epoch: u64,
    },
    /// This node is no member of a subgroup any more. What was delivered can still be taken.
    Left(SubgroupId),
    /// A peer has told something.
    Told {
        /// Who.
        peer: Peer,
        /// What: a peer's word, to be checked.
        bytes: Vec<u8>,
    },
    /// A peer did what no correct node does; it is neither read nor waited for any more.
    Faulty {
        /// Who.
        peer: Peer,
        /// What it did.
        fault: Fault,
    },
}

type Peers = BTreeMap<Peer, PeerState>;

struct PeerState {
    node: NodeId,
    sharing: Sharing,
    place: Option<u32>,
    replicas: BTreeMap<RegionId, Replica>,
    ready: Vec<RegionId>,
    /// Readers that wait until this peer can be written to.
    attaching: Vec<Attach>,
    /// What it is about to tell, as far as it has come.
    telling: Vec<u8>,
    faulty: bool,
    /// It takes part no more, although it may still run.
    shut_out: bool,
    /// It is no member of the group any more: no subgroup keeps anything for it.
    put_out: bool,
    /// Lines that it may still look at.
    kept_lines: Vec<usize>,
}

struct Attach {
    reader: u64,
    stream: RegionId,
    acks: RegionId,
    line: u64,
    tethered: bool,
}

/// One participant's protocol. See the [module](self).
pub struct Node {
    me: NodeId,
    acks: OwnRegion,
    waker: Waker,
    free_lines: Vec<usize>,
    peers: Peers,
    streams: Vec<Stream>,
    /// Streams that end once their last reader refers to nothing in them.
    ending: Vec<RegionId>,
    subscriptions: Vec<Subscription>,
    /// Memory of peers from which nothing is received any more, although records may refer to it.
    forgotten: Vec<Weak<Source>>,
    pending: Vec<Pending>,
    subgroups: Vec<Founded>,
    /// Where a subgroup is in that list.
    numbers: BTreeMap<SubgroupId, usize>,
    /// Subgroups that were told something, that have an epoch to begin or whose members have not all begun: the
    /// others have nothing to settle.
    astir: BTreeSet<usize>,
    activity: Activity,
    urgent: Urgent,
    announcements: BTreeMap<u64, Vec<u8>>,
    events: VecDeque<NodeEvent>,
    next_region: u64,
    next_subscription: u64,
    next_subgroup: u64,
    /// Some subscription or stream is on its way in or out; only then are stages looked at.
    unsettled: bool,
    /// Whether this node receives nothing any more, and all memory that records refer to is private (I-335).
    privatized: bool,
}

impl Node {
    /// A node that knows nobody. `acks` is its region [`ACKS`] of [`ACKS_WORDS`] words; `waker` is
    /// called by application threads that leave a turn something to do.
    pub fn new(me: NodeId, acks: OwnRegion, waker: Waker) -> Node {
        Node {
            me,
            acks,
            waker,
            free_lines: (0..ACK_LINES).rev().collect(),
            peers: BTreeMap::new(),
            streams: Vec::new(),
            ending: Vec::new(),
            subscriptions: Vec::new(),
            forgotten: Vec::new(),
            pending: Vec::new(),
            subgroups: Vec::new(),
            numbers: BTreeMap::new(),
            astir: BTreeSet::new(),
            activity: Activity::default(),
            urgent: Urgent::default(),
            announcements: BTreeMap::new(),
            events: VecDeque::new(),
            next_region: FIRST_STREAM,
            next_subscription: 0,
            next_subgroup: 0,
            unsettled: false,
            privatized: false,
        }
    }

    /// Who this node is.
    pub fn id(&self) -> NodeId {
        self.me
    }

    /// The peers that are there.
    pub fn peers(&self) -> impl Iterator<Item = (Peer, NodeId)> + '_ {
        self.peers.iter().map(|(&peer, state)| (peer, state.node))
    }

    /// Who a peer is, if it is there.
    pub fn node_of(&self, peer: Peer) -> Option<NodeId> {
        self.peers.get(&peer).map(|state| state.node)
    }

    /// Whether a peer's memory is seen as it is, or copied.
    pub fn sharing(&self, peer: Peer) -> Option<Sharing> {
        self.peers.get(&peer).map(|state| state.sharing)
    }

    /// A region name that was never used.
    pub fn fresh_region(&mut self) -> RegionId {
        self.next_region += 1;
        RegionId(self.next_region - 1)
    }

    /// Sends a stream from now on: `memory` lies in the region `stream`, which the caller opened.
    pub fn add_stream(&mut self, stream: RegionId, memory: SenderMemory, effects: &mut Effects) {
        let new = Stream::new(memory, stream);
        for (&peer, state) in &self.peers {
            if state.ready.contains(&stream) {
                new.introduce(Target { peer, sharing: state.sharing }, effects);
            }
        }
        self.streams.push(new);
        self.urgent.renew();
        self.unsettled = true;
    }

    /// Ends a stream: readers get what was committed. Its region is closed once no reader refers
    /// to it any more.
    pub fn end_stream(&mut self, stream: RegionId, effects: &mut Effects) {
        let Some(ended) = self.streams.iter_mut().find(|s| s.region() == stream) else { return };
        // All are told of what was committed, whoever was not yet.
        ended.sender().memory().hurry();
        ended.send(Time::default(), effects);
        let entry = ended.sender().entries();
        let (mut own, mut notes) = (Vec::new(), Vec::new());
        for member in ended.members() {
            match member.peer() {
                Some(peer) => notes.push((peer, member.reader())),
                None => own.push(member.reader()),
            }
        }
        for (peer, reader) in notes {
            effects.note(peer, Note::End { reader, entry }.encode());
        }
        own.into_iter().for_each(|reader| self.end_at(Origin::Own, reader, entry));
        self.ending.push(stream);
        self.unsettled = true;
    }

    fn stream(&self, stream: RegionId) -> Option<&Stream> {
        self.streams.iter().find(|known| known.region() == stream)
    }

    /// How many subscriptions read a stream of this node's.
    pub fn readers(&self, stream: RegionId) -> usize {
        self.stream(stream).map_or(0, Stream::readers)
    }

    /// Whether every reader has received all that was committed to a stream.
    pub fn is_acknowledged(&self, stream: RegionId) -> bool {
        self.stream(stream).is_none_or(Stream::is_acknowledged)
    }

    /// Whoever was not told yet of what was committed to a stream is told in the next turn: somebody waits.
    pub fn hurry(&self, stream: RegionId) {
        self.stream(stream).into_iter().for_each(|stream| stream.sender().memory().hurry());
    }

    /// Tells all peers, now and later, until it is retracted. The same id replaces it.
    pub fn announce(&mut self, id: u64, bytes: Vec<u8>, effects: &mut Effects) {
        let note = Note::Announce { id, bytes: bytes.clone() }.encode();
        for &peer in self.peers.keys() {
            effects.note(peer, note.clone());
        }
        self.announcements.insert(id, bytes);
    }

    /// Tells a peer something of any length, reliably and in order.
    pub fn tell(&self, peer: Peer, bytes: &[u8], effects: &mut Effects) {
        let mut left = bytes.len();
        for part in bytes.chunks(MOST_OF_A_PART) {
            left -= part.len();
            effects.note(peer, Note::Part { left: left as u64, bytes: part.to_vec() }.encode());
        }
    }

    /// An announcement holds no more.
    pub fn retract(&mut self, id: u64, effects: &mut Effects) {
        if self.announcements.remove(&id).is_some() {
            for &peer in self.peers.keys() {
                effects.note(peer, Note::Retract { id }.encode());
            }
        }
    }

    /// Subscribes to a stream that somebody has told of; it begins when the stream's region is there.
    /// `None` if this node receives [`ACK_LINES`] streams already.
    pub fn subscribe(&mut self, origin: Origin, stream: RegionId) -> Option<SubscriptionId> {
        self.add_subscription(origin, stream, true)
    }

    /// As [`Node::subscribe`], without being waited for: what the sender overwrites before this node has copied it is lost,
    /// and so is what finds no room in this node's copies, as [`NodeEvent::Lost`] tells. Where memory is not shared the
    /// sender waits all the same.
    pub fn subscribe_untethered(
        &mut self,
        origin: Origin,
        stream: RegionId,
    ) -> Option<SubscriptionId> {
        self.add_subscription(origin, stream, false)
    }

    fn add_subscription(
        &mut self,
        origin: Origin,
        stream: RegionId,
        tethered: bool,
    ) -> Option<SubscriptionId> {
        let line = self.free_lines.pop()?;
        let id = SubscriptionId(self.next_subscription);
        self.next_subscription += 1;
        self.ack_line(line, id).clear();
        let (stage, receiver) = (Stage::AwaitsHeader, None);
        let new = Subscription { id, origin, stream, line, stage, tethered, receiver };
        self.subscriptions.push(new);
        self.urgent.renew();
        self.unsettled = true;
        Some(id)
    }

    /// The stream of a subscription is over, or about to be, as somebody told. It ends if it still waits
    /// for the stream's region, which may have come and gone unseen.
    pub fn withdrawn(&mut self, id: SubscriptionId) {
        let Some(index) = self.subscriptions.iter().position(|s| s.id == id) else { return };
        let Subscription { origin, stream, stage, .. } = self.subscriptions[index];
        let Origin::Peer(peer) = origin else { return };
        let there = self.peers.get(&peer).is_some_and(|it| it.replicas.contains_key(&stream));
        if stage == Stage::AwaitsHeader && !there {
            self.end_unattached(index);
        }
    }

    fn ack_line(&self, line: usize, id: SubscriptionId) -> AckLine {
        AckLine::new(self.acks.clone(), ACKS, line, id.0)
    }

    /// Wants no more of a stream, and is not counted among its readers any more. Records that the application still has stay
    /// readable: the sender uses their memory for nothing else until the last of them is dropped (I-225).
    pub fn unsubscribe(&mut self, id: SubscriptionId) {
        let leaves = |s: &&mut Subscription| matches!(s.stage, Stage::Draining | Stage::Detaching);
        let subscription = self.subscriptions.iter_mut().find(|s| s.id == id);
        let Some(subscription) = subscription.filter(|s| !leaves(s)) else { return };
        if let Some(receiver) = &mut subscription.receiver {
            receiver.close();
        }
        subscription.stage = Stage::Draining;
        let Subscription { origin, stream, .. } = *subscription;
        let own = self.streams.iter_mut().filter(|_| origin == Origin::Own);
        own.filter(|it| it.region() == stream).for_each(|stream| {
            stream.dismiss(None, id.0);
        });
        self.unsettled = true;
    }

    /// Receives nothing more, and makes the memory of peers private where records may refer to it (I-335): the peers are about to go
    /// on without this node, or have done so. Subgroups stop as if they were told to wedge.
    pub fn privatize(&mut self, effects: &mut Effects) {
        if core::mem::replace(&mut self.privatized, true) {
            return;
        }
        let ids: Vec<SubgroupId> = self.subgroups.iter().map(|founded| founded.id).collect();
        ids.into_iter().for_each(|id| self.wedge_subgroup(id));
        self.subgroups.iter_mut().for_each(|founded| founded.subgroup.privatize(effects));
        let receivers = self.subscriptions.iter_mut().filter_map(|it| it.receiver.as_mut());
        receivers.for_each(|receiver| receiver.privatize(effects));
        let forgotten = self.forgotten.drain(..).filter_map(|source| source.upgrade());
        forgotten.for_each(|source| source.privatize(0, effects));
    }

    /// Whether there is something that the upper layer should know.
    #[inline]
    pub fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// Takes out what the upper layer should know, oldest first.
    pub fn next_event(&mut self) -> Option<NodeEvent> {
        self.events.pop_front()
    }
}

impl Machine for Node {
    fn handle(&mut self, event: LinkEvent, effects: &mut Effects) {
        match event {
            LinkEvent::PeerUp { peer, node, sharing, place } => {
                let state = PeerState {
                    node,
                    sharing,
                    place,
                    replicas: BTreeMap::new(),
                    ready: Vec::new(),
                    attaching: Vec::new(),
                    telling: Vec::new(),
                    faulty: false,
                    shut_out: false,
                    put_out: false,
                    kept_lines: Vec::new(),
                };
                self.peers.insert(peer, state);
                self.events.push_back(NodeEvent::PeerUp { peer, node });
                for (&id, bytes) in &self.announcements {
                    let note = Note::Announce { id, bytes: bytes.clone() };
                    effects.note(peer, note.encode());
                }
            }
            LinkEvent::RegionUp { peer, region, replica } => {
                if let Some(state) = self.peers.get_mut(&peer) {
                    state.replicas.insert(region, replica);
                    self.unsettled = true;
                }
            }
            LinkEvent::RegionReady { peer, region } => self.region_ready(peer, region, effects),
            LinkEvent::RegionDown { peer, region } => {
                if let Some(state) = self.peers.get_mut(&peer) {
                    state.replicas.remove(&region);
                }
                let origin = Origin::Peer(peer);
                let of_it = |s: &Subscription| s.origin == origin && s.stream == region;
                for index in 0..self.subscriptions.len() {
                    let subscription = &self.subscriptions[index];
                    if of_it(subscription) && subscription.stage == Stage::AwaitsHeader {
                        self.end_unattached(index);
                    }
                }
            }
            LinkEvent::Note { peer, bytes } => {
                if self.peers.get(&peer).is_some_and(|state| !state.faulty) {
                    self.note(peer, &bytes, effects);
                }
            }
            LinkEvent::ReadDone { .. } => {}
            LinkEvent::PeerDown { peer, evidence } => {
                self.take_in_the_last(peer);
                self.forget(peer);
                self.lose(peer);
                if let Some(PeerState { node, kept_lines, .. }) = self.peers.remove(&peer) {
                    self.free_lines.extend(kept_lines);
                    self.events.push_back(NodeEvent::PeerDown { peer, node, evidence });
                }
            }
        }
    }

    fn turn(&mut self, now: Time, effects: &mut Effects) -> usize {
        let mut done = 0;
        // Allocates only when there is a fault.
        let mut faults: Vec<(Peer, Fault)> = Vec::new();
        if self.urgent.is_wanted() && !self.privatized {
            done += self.turn_urgent(now, effects, &mut faults);
        }
        if !self.privatized {
            for subscription in &mut self.subscriptions {
                done += subscription.take_in(&mut self.events, &mut faults);
            }
        }
        for stream in &mut self.streams {
            done += stream.send(now, effects);
        }
        if self.is_in_many() {
            done += self.turn_active(now, effects, &mut faults);
        } else {
            for founded in &mut self.subgroups {
                done += founded.turn(now, effects, &mut faults);
            }
        }
        // What is given back is looked at when there is nothing better to do, or when it is needed.
        let idle = done == 0;
        for subscription in &mut self.subscriptions {
            if let Some(receiver) = &mut subscription.receiver {
                done += receiver.release(idle, effects);
            }
        }
        for stream in &mut self.streams {
            if !idle && !stream.is_half_full() {
                continue;
            }
            done += stream.reclaim(|member, fault| {
                faults.extend(member.peer().map(|peer| (peer, fault)));
            });
            while let Some((peer, reader)) = stream.take_departed() {
                effects.note(peer, Note::Detached { reader }.encode());
                (done, self.unsettled) = (done + 1, true);
            }
        }
        for (peer, fault) in faults {
            // It may be found again while what it has left behind is in the way.
            done += usize::from(self.faulty(peer, fault));
        }
        if self.unsettled {
            done += self.settle(effects);
        }
        done
    }

    fn interest(&self) -> Interest {
        // Whoever waits for room or for acknowledgements drives, and asks for hints itself.
        let awaits = self.unsettled || self.awaits_others();
        if awaits { Interest::Hints } else { Interest::News }
    }

    fn awaits_others(&self) -> bool {
        let mut active = self.activity.active().iter();
        active.any(|&number| self.subgroups[number].subgroup.awaits_others())
    }

    fn wants_turn_at(&self) -> Option<Time> {
        let streams = self.streams.iter().filter_map(|stream| stream.sender().memory().bells_due());
        let subgroups = self.subgroups.iter().filter_map(|founded| founded.subgroup.bells_due());
        streams.chain(subgroups).chain(self.activity.due()).min()
    }
}

impl Node {
    /// A peer is gone: what it published before is still there and is received.
    fn take_in_the_last(&mut self, peer: Peer) {
        if self.privatized {
            return;
        }
        for subscription in &mut self.subscriptions {
            if subscription.origin != Origin::Peer(peer) {
                continue;
            }
            // It is gone already; whatever is wrong with the rest of it is not received.
            let _ = subscription.receive(true, &mut self.events);
        }
    }
}
