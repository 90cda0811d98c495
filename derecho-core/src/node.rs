//! Node: the complete protocol of one participant, as a single state machine.
//!
//! Owns: the streams that this node sends, the streams that it receives, and the matching of
//! readers with streams. Never does: decide the matching; the upper layer reads
//! announcements and subscribes.
//!
//! Attachment of a reader to a stream:
//!
//! ```text
//!   reader's node                                   sender's node
//!                      <---- Announce(stream)
//!   subscribe()        ---- Attach(stream, line) -->  waits until it can write to the reader
//!                      <---- Accept(entry) ---------  counts it among its readers from `entry` on
//!   receives from `entry` on
//! ```
//! That reader loses nothing that is sent after the Accept (I-4). A turn runs the predicates in a
//! fixed order, each over all that is ready: receive, send, release, reclaim.

mod activity;
mod epochs;
mod peers;
mod priority;
mod reception;
mod settle;
mod subgroups;
mod subscription;

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;

use crate::ids::{NodeId, Peer, RegionId, Time};
use crate::link::{Evidence, Interest, LinkEvent, NOTE_LIMIT, Sharing, Waker};
use crate::machine::{Effects, Machine, Target};
use crate::memory::{LINE_WORDS, OwnRegion, Replica};
use crate::multicast::PeerFault;
use crate::multicast::acknowledgement::AckLine;
use crate::multicast::claim::SenderMemory;
use crate::multicast::inbox::{Inbox, SenderReplica};
use crate::multicast::stream::{ReaderName, Stream};
use crate::note::Note;
use activity::Activity;
pub use epochs::{EpochDescription, EpochMember, StreamEnd, StreamProgress};
use priority::PriorityOrder;
pub use priority::PriorityTarget;
use subgroups::{FoundedSubgroup, PendingSubgroup};
pub use subgroups::{MemberRole, SubgroupDefinition, SubgroupId, SubgroupMemory};
use subscription::{Subscription, SubscriptionStage};

/// Fault in what a peer has sent.
struct FoundFault {
    peer: Peer,
    fault: PeerFault,
}

/// Region of a node's acknowledgements.
pub const ACKS: RegionId = RegionId(1);
/// Number of lines in [`ACKS`]: the maximum number of streams that a node receives at once.
pub const ACK_LINES: usize = 4096;
/// Number of words in [`ACKS`].
pub const ACKS_WORDS: usize = ACK_LINES * LINE_WORDS;
/// Region of a node's change counts.
pub const CHANGES: RegionId = RegionId(2);
pub use crate::multicast::changes::CHANGES_WORDS;
/// First region name that is free for streams.
const FIRST_STREAM: u64 = 16;

/// Maximum number of message bytes in one fragment: a note has some bytes of overhead.
const MOST_FRAGMENT_BYTES: usize = NOTE_LIMIT - 64;
/// Maximum length of a message from a peer.
const MOST_MESSAGE_BYTES: u64 = 64 << 20;

/// Identifier of a subscription of this node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SubscriptionId(u64);

/// Sender of a stream.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum StreamOrigin {
    /// This node itself.
    Own,
    /// A peer.
    Peer(Peer),
}

/// Event for the upper layer.
#[derive(Debug)]
pub enum NodeEvent {
    /// A peer has appeared.
    PeerUp {
        /// The link's handle.
        peer: Peer,
        /// Identity of the peer's node.
        node: NodeId,
    },
    /// A peer is gone, with all its announcements.
    PeerDown {
        /// The link's handle.
        peer: Peer,
        /// Identity of the peer's node.
        node: NodeId,
        /// Certainty that the peer is gone.
        evidence: Evidence,
    },
    /// A peer has made an announcement.
    Announced {
        /// Peer that announces.
        peer: Peer,
        /// Identifier of the announcement, chosen by the peer.
        id: u64,
        /// Contents from the peer, to be checked by the receiver.
        bytes: Vec<u8>,
    },
    /// A peer has withdrawn an announcement.
    Retracted {
        /// Peer that withdraws.
        peer: Peer,
        /// Identifier of the announcement, chosen by the peer.
        id: u64,
    },
    /// The number of subscriptions that read an own stream has changed.
    Readers {
        /// The stream.
        stream: RegionId,
        /// Number of subscriptions that read the stream.
        count: usize,
    },
    /// Records of a subscription arrive in this queue from now on.
    Subscribed(SubscriptionId, Arc<Inbox>),
    /// An untethered subscription has lost this number of messages of its stream.
    Lost(SubscriptionId, u64),
    /// A subscription has ended at the sender's side. Received records can still be taken.
    Ended(SubscriptionId),
    /// A subgroup is at work: this node can send to it and deliver from it.
    Founded(SubgroupId),
    /// The number of members of a subgroup that read and have begun has changed.
    Gathered {
        /// Identifier of the subgroup.
        subgroup: SubgroupId,
        /// Number of reading members that have begun.
        readers: usize,
        /// Number of sending members other than this node.
        senders: usize,
    },
    /// A member that the others of a subgroup need is gone: messages that all members had received
    /// are delivered, and no more before the next epoch.
    Stalled(SubgroupId),
    /// A subgroup has begun its next epoch: later deliveries belong to that epoch.
    Begun {
        /// Identifier of the subgroup.
        subgroup: SubgroupId,
        /// Number of the epoch.
        epoch: u64,
    },
    /// This node is no longer a member of a subgroup. Delivered records can still be taken.
    Left(SubgroupId),
    /// A peer has sent a message.
    Told {
        /// Peer that sent the message.
        peer: Peer,
        /// Contents from the peer, to be checked by the receiver.
        bytes: Vec<u8>,
    },
    /// A peer did what no correct node does. It is neither read nor awaited any more.
    Faulty {
        /// Peer that is faulty.
        peer: Peer,
        /// Fault of the peer.
        fault: PeerFault,
    },
}

type Peers = BTreeMap<Peer, PeerState>;

struct PeerState {
    node: NodeId,
    sharing: Sharing,
    bell: Option<u32>,
    replicas: BTreeMap<RegionId, Replica>,
    ready: Vec<RegionId>,
    /// Readers that wait until this node can write to the peer.
    attaching: Vec<AttachRequest>,
    /// Received fragments of an incomplete message.
    fragments: Vec<u8>,
    faulty: bool,
    /// The peer takes part no more, although it may still run.
    shut_out: bool,
    /// The peer is no longer a member of the group: no subgroup keeps memory for it.
    put_out: bool,
    /// Lines of this node that the peer may still read.
    kept_lines: Vec<usize>,
}

struct AttachRequest {
    reader: ReaderName,
    stream: RegionId,
    acks: RegionId,
    line: u64,
    tethered: bool,
}

/// Protocol of one participant. See the [module](self).
pub struct Node {
    me: NodeId,
    acks: OwnRegion,
    waker: Waker,
    free_lines: Vec<usize>,
    peers: Peers,
    streams: Vec<Stream>,
    /// Streams that end when their last reader refers to none of their memory.
    ending: Vec<RegionId>,
    subscriptions: Vec<Subscription>,
    /// Memory of peers from which nothing is received any more, although records may refer to it.
    forgotten: Vec<Weak<SenderReplica>>,
    pending: Vec<PendingSubgroup>,
    subgroups: Vec<FoundedSubgroup>,
    /// Index of each subgroup in `subgroups`.
    numbers: BTreeMap<SubgroupId, usize>,
    /// Subgroups that have received an instruction, that have an epoch to begin, or whose members
    /// have not all begun. Other subgroups have nothing to settle.
    unsettled_subgroups: BTreeSet<usize>,
    activity: Activity,
    priority_order: PriorityOrder,
    announcements: BTreeMap<u64, Vec<u8>>,
    events: VecDeque<NodeEvent>,
    next_region: u64,
    next_subscription: u64,
    next_subgroup: u64,
    /// Whether a subscription or stream is being added or removed; only then stages are checked.
    unsettled: bool,
    /// Whether this node receives nothing any more, and all memory to which records refer
    /// is private (I-335).
    privatized: bool,
}

impl Node {
    /// Creates a node without peers. `acks`: region [`ACKS`] of this node, with [`ACKS_WORDS`]
    /// words. `waker`: called by application threads that leave work for a turn.
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
            unsettled_subgroups: BTreeSet::new(),
            activity: Activity::default(),
            priority_order: PriorityOrder::default(),
            announcements: BTreeMap::new(),
            events: VecDeque::new(),
            next_region: FIRST_STREAM,
            next_subscription: 0,
            next_subgroup: 0,
            unsettled: false,
            privatized: false,
        }
    }

    /// Identity of this node.
    pub fn id(&self) -> NodeId {
        self.me
    }

    /// Present peers.
    pub fn peers(&self) -> impl Iterator<Item = (Peer, NodeId)> + '_ {
        self.peers.iter().map(|(&peer, state)| (peer, state.node))
    }

    /// Identity of a peer, if it is present.
    pub fn node_of(&self, peer: Peer) -> Option<NodeId> {
        self.peers.get(&peer).map(|state| state.node)
    }

    /// Identity of the node that sends or reads a stream, if it is present.
    pub fn node_at(&self, origin: StreamOrigin) -> Option<NodeId> {
        match origin {
            StreamOrigin::Own => Some(self.id()),
            StreamOrigin::Peer(peer) => self.node_of(peer),
        }
    }

    /// Whether a peer's memory is shared or copied.
    pub fn sharing(&self, peer: Peer) -> Option<Sharing> {
        self.peers.get(&peer).map(|state| state.sharing)
    }

    /// Returns a region name that was never used before.
    pub fn fresh_region(&mut self) -> RegionId {
        self.next_region += 1;
        RegionId(self.next_region - 1)
    }

    /// Starts to send a stream: `memory` lies in the region `stream`, which the caller opened.
    pub fn add_stream(&mut self, stream: RegionId, memory: SenderMemory, effects: &mut Effects) {
        let new = Stream::new(memory, stream);
        for (&peer, state) in &self.peers {
            if state.ready.contains(&stream) {
                new.introduce(Target { peer, sharing: state.sharing }, effects);
            }
        }
        self.streams.push(new);
        self.priority_order.renew();
        self.unsettled = true;
    }

    /// Ends a stream: readers get everything that was committed. The region is closed when no
    /// reader refers to it any more.
    pub fn end_stream(&mut self, stream: RegionId, effects: &mut Effects) {
        let Some(ended) = self.streams.iter_mut().find(|s| s.region() == stream) else { return };
        // All readers are informed of everything that was committed.
        ended.sender().memory().hurry();
        ended.send(Time::default(), effects);
        let entry = ended.sender().entries();
        let (mut own, mut notes) = (Vec::new(), Vec::new());
        for member in ended.all_readers() {
            match member.peer() {
                Some(peer) => notes.push((peer, member.reader())),
                None => own.push(member.reader()),
            }
        }
        for (peer, reader) in notes {
            effects.note(peer, Note::End { reader, entry }.encode());
        }
        own.into_iter().for_each(|reader| self.end_at(StreamOrigin::Own, reader, entry));
        self.ending.push(stream);
        self.unsettled = true;
    }

    fn stream(&self, stream: RegionId) -> Option<&Stream> {
        self.streams.iter().find(|known| known.region() == stream)
    }

    /// Readers that receive each message that is committed to a stream of this node from now on:
    /// origin, and name for the upper layer.
    pub fn served(&self, stream: RegionId) -> impl Iterator<Item = (StreamOrigin, u64)> + '_ {
        let served = self.stream(stream).into_iter().flat_map(Stream::served);
        served.map(|(peer, entity)| (peer.map_or(StreamOrigin::Own, StreamOrigin::Peer), entity))
    }

    /// Number of subscriptions that read a stream of this node.
    pub fn readers(&self, stream: RegionId) -> usize {
        self.stream(stream).map_or(0, Stream::readers)
    }

    /// Whether every reader has received everything that was committed to a stream.
    pub fn is_acknowledged(&self, stream: RegionId) -> bool {
        self.stream(stream).is_none_or(Stream::is_acknowledged)
    }

    /// Requests that the next turn sends what was committed to a stream: a thread waits for it.
    pub fn hurry(&self, stream: RegionId) {
        self.stream(stream).into_iter().for_each(|stream| stream.sender().memory().hurry());
    }

    /// Makes an announcement to all present and later peers, until it is retracted. A later
    /// announcement with the same id replaces it.
    pub fn announce(&mut self, id: u64, bytes: Vec<u8>, effects: &mut Effects) {
        let note = Note::Announce { id, bytes: bytes.clone() }.encode();
        for &peer in self.peers.keys() {
            effects.note(peer, note.clone());
        }
        self.announcements.insert(id, bytes);
    }

    /// Sends a peer a message of any length, reliably and in order.
    pub fn tell(&self, peer: Peer, bytes: &[u8], effects: &mut Effects) {
        let mut left = bytes.len();
        for fragment in bytes.chunks(MOST_FRAGMENT_BYTES) {
            left -= fragment.len();
            effects.note(
                peer,
                Note::Fragment { left: left as u64, bytes: fragment.to_vec() }.encode(),
            );
        }
    }

    /// Retracts an announcement.
    pub fn retract(&mut self, id: u64, effects: &mut Effects) {
        if self.announcements.remove(&id).is_some() {
            for &peer in self.peers.keys() {
                effects.note(peer, Note::Retract { id }.encode());
            }
        }
    }

    /// Subscribes to an announced stream. Reception begins when the stream's region is present.
    /// `entity` is the name of the reader for the upper layer of the sender ([`Node::served`]).
    /// `None` if this node receives [`ACK_LINES`] streams already.
    pub fn subscribe(
        &mut self,
        origin: StreamOrigin,
        stream: RegionId,
        entity: u64,
    ) -> Option<SubscriptionId> {
        self.add_subscription(origin, stream, entity, true)
    }

    /// Like [`Node::subscribe`], but the sender does not wait for this node. Messages are lost
    /// if the sender overwrites them before this node has copied them, or if this node's copies
    /// have no room for them; [`NodeEvent::Lost`] reports losses. If memory is not shared, the
    /// sender waits nevertheless.
    pub fn subscribe_untethered(
        &mut self,
        origin: StreamOrigin,
        stream: RegionId,
        entity: u64,
    ) -> Option<SubscriptionId> {
        self.add_subscription(origin, stream, entity, false)
    }

    fn add_subscription(
        &mut self,
        origin: StreamOrigin,
        stream: RegionId,
        entity: u64,
        tethered: bool,
    ) -> Option<SubscriptionId> {
        let line = self.free_lines.pop()?;
        let id = SubscriptionId(self.next_subscription);
        self.next_subscription += 1;
        self.ack_line(line, id).clear();
        let (stage, receiver) = (SubscriptionStage::AwaitsHeader, None);
        let new = Subscription { id, entity, origin, stream, line, stage, tethered, receiver };
        self.subscriptions.push(new);
        self.priority_order.renew();
        self.unsettled = true;
        Some(id)
    }

    /// Notes an announcement that the stream of a subscription is over or about to be. The
    /// subscription ends if it still waits for the stream's region, which may have come
    /// and gone unseen.
    pub fn withdrawn(&mut self, id: SubscriptionId) {
        let Some(index) = self.subscriptions.iter().position(|s| s.id == id) else { return };
        let Subscription { origin, stream, stage, .. } = self.subscriptions[index];
        let StreamOrigin::Peer(peer) = origin else { return };
        let there = self.peers.get(&peer).is_some_and(|it| it.replicas.contains_key(&stream));
        if stage == SubscriptionStage::AwaitsHeader && !there {
            self.end_unattached(index);
        }
    }

    fn ack_line(&self, line: usize, id: SubscriptionId) -> AckLine {
        AckLine::new(self.acks.clone(), ACKS, line, id.0)
    }

    /// Ends a subscription: this node is no longer counted among the stream's readers. Records that
    /// the application still holds stay readable: the sender reuses their memory only after the
    /// last of them is dropped (I-225).
    pub fn unsubscribe(&mut self, id: SubscriptionId) {
        let leaves = |s: &&mut Subscription| {
            matches!(s.stage, SubscriptionStage::Draining | SubscriptionStage::Detaching)
        };
        let subscription = self.subscriptions.iter_mut().find(|s| s.id == id);
        let Some(subscription) = subscription.filter(|s| !leaves(s)) else { return };
        if let Some(receiver) = &mut subscription.receiver {
            receiver.close();
        }
        subscription.stage = SubscriptionStage::Draining;
        let Subscription { origin, stream, .. } = *subscription;
        let own = self.streams.iter_mut().filter(|_| origin == StreamOrigin::Own);
        own.filter(|it| it.region() == stream).for_each(|stream| {
            stream.dismiss(None, id.0);
        });
        self.unsettled = true;
    }

    /// Stops reception, and makes memory of peers private where records may refer to it (I-335):
    /// the peers are about to go on without this node, or have done so. Subgroups stop as if they
    /// were told to wedge.
    pub fn privatize(&mut self, effects: &mut Effects) {
        if core::mem::replace(&mut self.privatized, true) {
            return;
        }
        let ids: Vec<SubgroupId> = self.subgroups.iter().map(|founded| founded.id).collect();
        ids.into_iter().for_each(|id| self.wedge_subgroup(id));
        self.subgroups.iter_mut().for_each(|founded| founded.subgroup.privatize(effects));
        let receivers = self.subscriptions.iter_mut().filter_map(|it| it.receiver.as_mut());
        receivers.for_each(|receiver| receiver.privatize(effects));
        let forgotten = self.forgotten.drain(..).filter_map(|replica| replica.upgrade());
        forgotten.for_each(|replica| replica.privatize(0, effects));
    }

    /// Whether an event for the upper layer is pending.
    #[inline]
    pub fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// Removes and returns the oldest event for the upper layer.
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
                    bell: place,
                    replicas: BTreeMap::new(),
                    ready: Vec::new(),
                    attaching: Vec::new(),
                    fragments: Vec::new(),
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
                let origin = StreamOrigin::Peer(peer);
                let of_it = |s: &Subscription| s.origin == origin && s.stream == region;
                for index in 0..self.subscriptions.len() {
                    let subscription = &self.subscriptions[index];
                    if of_it(subscription) && subscription.stage == SubscriptionStage::AwaitsHeader
                    {
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
        // Allocates only if there is a fault.
        let mut faults: Vec<FoundFault> = Vec::new();
        if self.priority_order.is_wanted() && !self.privatized {
            done += self.turn_prioritized(now, effects, &mut faults);
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
        // Memory is reclaimed when there is nothing better to do, or when the memory is needed.
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
                faults.extend(member.peer().map(|peer| FoundFault { peer, fault }));
            });
            while let Some((peer, reader)) = stream.take_departed() {
                effects.note(peer, Note::Detached { reader }.encode());
                (done, self.unsettled) = (done + 1, true);
            }
        }
        for FoundFault { peer, fault } in faults {
            // The same fault may be found again while remains of the peer are in the way.
            done += usize::from(self.faulty(peer, fault));
        }
        if self.unsettled {
            done += self.settle(effects);
        }
        done
    }

    fn interest(&self) -> Interest {
        // A thread that waits for room or for acknowledgements drives the node, and asks
        // for hints itself.
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
    /// Receives everything that a peer published before it was gone.
    fn take_in_the_last(&mut self, peer: Peer) {
        if self.privatized {
            return;
        }
        for subscription in &mut self.subscriptions {
            if subscription.origin != StreamOrigin::Peer(peer) {
                continue;
            }
            // The peer is gone already; faulty remains are not received.
            let _ = subscription.receive(true, &mut self.events);
        }
    }
}
