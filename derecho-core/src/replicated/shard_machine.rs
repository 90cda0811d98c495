//! Machine of a node's shards: a group, and its events, queued in the order in which objects must
//! receive them.
//!
//! Owns: this node's seats in shards: what is opened for them, offered, and withdrawn. Never does:
//! call an application; an [`ObjectHost`](super::object_host::ObjectHost) takes the events from the
//! queue.
//!
//! At the end of a turn, delivered messages are in the readers' queues and belong to the epoch
//! before any that begins in the turn. The queues are therefore emptied first, and the group's
//! events follow.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::ObjectPosition;
use super::direct_messages::DirectMessages;
use super::messages::{DirectoryChange, MachineRequest, ObjectMessage};
use super::plan::{MOST_SHARDS, ShardMember, shard_of};
use super::shard::{ShardOffer, ShardStatus};
use super::shard_directory::ShardDirectory;
use crate::atomic::{AtomicBool, Ordering};
use crate::bytes::Wire;
use crate::group::registry::Layout;
use crate::group::report::StreamId;
use crate::group::{Group, GroupEvent, StreamRegion, SubgroupRegions};
use crate::ids::{NodeId, Peer, RegionId, Time};
use crate::link::{Interest, Link, LinkError, LinkEvent};
use crate::machine::{Effects, Machine};
use crate::membership::{ExitReason, View};
use crate::multicast::claim::SenderMemory;
use crate::multicast::geometry::Geometry;
use crate::multicast::inbox::{Inbox, Record};
use crate::multicast::subgroup::DeliveryGuarantee;
use crate::node::{NodeEvent, StreamOrigin};

/// Event of a group, in order.
#[derive(Debug)]
pub enum ShardEvent {
    /// A view was installed.
    View {
        /// The view.
        view: View,
        /// Members that were not in the previous view.
        joined: Vec<NodeId>,
        /// Members of the previous view that are gone.
        departed: Vec<NodeId>,
    },
    /// The state of a shard according to the directory has changed.
    Status {
        /// The shard.
        key: u64,
        /// The new state.
        status: ShardStatus,
    },
    /// An epoch of a shard has begun.
    Begun {
        /// The shard.
        key: u64,
        /// Name of the epoch.
        epoch: u64,
        /// Members of the epoch.
        layout: Layout,
        /// Memory that this node sends from.
        memory: Option<SenderMemory>,
        /// State of the shard according to the directory.
        status: ShardStatus,
        /// Number of the next delivered message of each stream.
        numbers: BTreeMap<StreamId, u64>,
    },
    /// A message was delivered.
    Message {
        /// The shard.
        key: u64,
        /// Sender and stream of the message.
        from: StreamId,
        /// The message.
        record: Record,
    },
    /// This node no longer has a seat in a shard.
    Left {
        /// The shard.
        key: u64,
    },
    /// A direct message arrived.
    Direct {
        /// Sender of the message.
        from: NodeId,
        /// The message.
        message: ObjectMessage,
        /// Length of the message in bytes.
        length: usize,
    },
    /// This node has declared other subgroups than the other members.
    Refused,
    /// This node is out of the group.
    Out(ExitReason),
}

/// This node's seat in a shard.
struct ShardSeat {
    inbox: Option<Arc<Inbox>>,
    senders: BTreeMap<usize, StreamId>,
}

/// Resources opened for a shard that are not in use yet.
struct PendingOffer {
    lines: RegionId,
    memory: Option<SenderMemory>,
    /// Number of directory changes that this node had submitted when it offered these resources.
    ticket: u64,
}

/// Machine of a node's shards; see the [module](self).
pub struct ShardMachine {
    group: Group<ShardDirectory>,
    me: NodeId,
    attributes: Vec<u8>,
    geometry: Geometry,
    checkpoints: BTreeMap<u64, ObjectPosition>,
    /// Shards of which this node has logs from before.
    known_logs: BTreeSet<u64>,
    seats: BTreeMap<u64, ShardSeat>,
    pending_offers: BTreeMap<u64, PendingOffer>,
    wanted: Vec<(u64, ShardMember)>,
    statuses: BTreeMap<u64, ShardStatus>,
    direct_messages: DirectMessages,
    events: VecDeque<ShardEvent>,
    /// Set if there are events, or resources to open; read without being the driver.
    news: Arc<AtomicBool>,
    /// Whether code outside the machine has set `news`.
    nudged: Arc<AtomicBool>,
    nodes: BTreeMap<Peer, NodeId>,
    members: Vec<NodeId>,
    submitted: u64,
    greeted: bool,
    refused: bool,
    out: Option<ExitReason>,
}

impl ShardMachine {
    /// Creates a node's part in a group. `geometry` is that of the memory that it sends from, in
    /// each shard.
    pub fn new(
        group: Group<ShardDirectory>,
        attributes: Vec<u8>,
        geometry: Geometry,
    ) -> ShardMachine {
        ShardMachine {
            me: group.node().id(),
            group,
            attributes,
            geometry,
            checkpoints: BTreeMap::new(),
            known_logs: BTreeSet::new(),
            seats: BTreeMap::new(),
            pending_offers: BTreeMap::new(),
            wanted: Vec::new(),
            statuses: BTreeMap::new(),
            direct_messages: DirectMessages::default(),
            events: VecDeque::new(),
            news: Arc::new(AtomicBool::new(false)),
            nudged: Arc::new(AtomicBool::new(false)),
            nodes: BTreeMap::new(),
            members: Vec::new(),
            submitted: 0,
            greeted: false,
            refused: false,
            out: None,
        }
    }

    /// Notes that this node has a checkpoint of a shard's object, at this position.
    pub fn has_checkpoint(&mut self, key: u64, position: ObjectPosition) {
        self.checkpoints.insert(key, position);
    }

    /// Notes that this node has logs of these shards from before.
    pub fn has_logs(&mut self, keys: impl IntoIterator<Item = u64>) {
        self.known_logs.extend(keys);
    }

    /// Returns the group.
    pub fn group(&self) -> &Group<ShardDirectory> {
        &self.group
    }

    /// Returns the state that all members replicate.
    pub fn directory(&self) -> &ShardDirectory {
        self.group.state()
    }

    /// Returns the flag that is set whenever there are events for the object host, or resources to
    /// open.
    pub fn news(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.news)
    }

    /// Returns a function that marks data brought to the object host from elsewhere as news. The
    /// caller wakes the driver afterwards.
    pub fn nudge(&self) -> impl Fn() + Send + Sync + 'static {
        let (news, nudged) = (Arc::clone(&self.news), Arc::clone(&self.nudged));
        move || {
            news.store(true, Ordering::Release);
            nudged.store(true, Ordering::Release);
        }
    }

    /// Reason why this node is out of the group.
    pub fn exit_reason(&self) -> Option<ExitReason> {
        self.out
    }

    /// Takes the queued events, oldest first. Direct messages among them count as taken.
    pub fn take_events(&mut self) -> VecDeque<ShardEvent> {
        self.news.store(false, Ordering::Relaxed);
        for item in &self.events {
            if let ShardEvent::Direct { from, length, .. } = item {
                self.direct_messages.took(*from, *length);
            }
        }
        core::mem::take(&mut self.events)
    }

    /// Whether resources must be opened.
    pub fn wants_opening(&self) -> bool {
        !self.wanted.is_empty()
    }

    /// Opens the resources of the shards in which this node is wanted, and offers them.
    pub fn open(&mut self, link: &mut (impl Link + ?Sized)) -> Result<(), LinkError> {
        for (key, place) in core::mem::take(&mut self.wanted) {
            let still = self.directory().shard(key).and_then(|shard| shard.member_of(self.me));
            if still != Some(place) || self.pending_offers.contains_key(&key) {
                continue;
            }
            let lines = self.group.node_mut().fresh_region();
            let geometry = self.geometry;
            let stream = place
                .sends
                .then(|| StreamRegion { region: self.group.node_mut().fresh_region(), geometry });
            let share = SubgroupRegions::open(link, lines, stream)?;
            let sends = stream.map(|stream| stream.region);
            let memory = share.memory.as_ref().map(|(_, memory)| memory.clone());
            self.group.add_regions(key, share);
            let checkpoint = self.checkpoints.get(&key).copied();
            let offer = ShardOffer { lines, sends, reads: place.reads, checkpoint };
            self.submit(&DirectoryChange::Offer { key, offer });
            self.pending_offers.insert(key, PendingOffer { lines, memory, ticket: self.submitted });
        }
        Ok(())
    }

    /// Changes this node's attributes.
    pub fn describe_self(&mut self, attributes: Vec<u8>) {
        self.attributes = attributes.clone();
        if self.greeted {
            let hello = self.directory().hello(attributes);
            self.submit(&hello);
        }
    }

    /// Leaves the group.
    pub fn leave(&mut self) {
        self.group.leave();
    }

    /// Performs the requests of the object host.
    pub fn perform(&mut self, requests: Vec<MachineRequest>, effects: &mut Effects) {
        for request in requests {
            match request {
                MachineRequest::Submit(directory_change) => self.submit(&directory_change),
                MachineRequest::Direct(to, message) => self.post(to, &message),
            }
        }
        self.dispatch(effects);
    }

    /// Whether the application may send more to a member now.
    pub fn has_room_for(&self, node: NodeId) -> bool {
        self.direct_messages.has_room(node)
    }

    fn submit(&mut self, directory_change: &DirectoryChange) {
        self.submitted += 1;
        self.group.submit(&directory_change.to_bytes());
    }

    fn post(&mut self, to: NodeId, message: &ObjectMessage) {
        if self.members.contains(&to) {
            self.direct_messages.post(to, message.to_bytes());
        }
    }

    fn dispatch(&mut self, effects: &mut Effects) -> usize {
        let mut done = 0;
        while let Some((node, count)) = self.direct_messages.next_taken() {
            self.group.send_direct(node, ObjectMessage::Taken(count).to_bytes(), effects);
        }
        while let Some((node, bytes)) = self.direct_messages.next() {
            self.group.send_direct(node, bytes, effects);
            done += 1;
        }
        done
    }

    fn drain(&mut self) {
        for (&key, shard_seat) in &self.seats {
            let Some(inbox) = &shard_seat.inbox else { continue };
            while let Some(record) = inbox.take() {
                let Some(&from) = shard_seat.senders.get(&record.sender()) else { continue };
                self.events.push_back(ShardEvent::Message { key, from, record });
            }
        }
    }

    fn take_in(&mut self, event: GroupEvent) {
        match event {
            GroupEvent::Installed(view) => self.installed(view),
            GroupEvent::Begun { key, subgroup, epoch, layout, .. } => {
                let memory = self.pending_offers.remove(&key).and_then(|opened| opened.memory);
                let node = self.group.node_mut();
                let known = ShardSeat { inbox: None, senders: BTreeMap::new() };
                let shard_seat = self.seats.entry(key).or_insert(known);
                let reads = layout.member(self.me).is_some_and(|seat| seat.reads);
                if reads && shard_seat.inbox.is_none() {
                    shard_seat.inbox = node.add_subgroup_reader(subgroup);
                }
                let mut numbers = BTreeMap::new();
                for ((number, origin, region), next) in node.next_numbers(subgroup) {
                    let sender = match origin {
                        StreamOrigin::Own => Some(self.me),
                        StreamOrigin::Peer(peer) => self.nodes.get(&peer).copied(),
                    };
                    let Some(node) = sender else { continue };
                    let stream = StreamId { node, region };
                    shard_seat.senders.insert(usize::from(number), stream);
                    numbers.insert(stream, next);
                }
                let status = self.status_of(key);
                let begun = ShardEvent::Begun { key, epoch, layout, memory, status, numbers };
                self.events.push_back(begun);
            }
            GroupEvent::Left { key } => {
                self.seats.remove(&key);
                self.pending_offers.remove(&key);
                self.events.push_back(ShardEvent::Left { key });
            }
            // The next view tells which members were suspected.
            GroupEvent::Stuck { .. } => {}
            GroupEvent::Direct { from, bytes, .. } => self.direct_message(from, &bytes),
            GroupEvent::Out(exit_reason) => {
                self.out = Some(exit_reason);
                self.events.push_back(ShardEvent::Out(exit_reason));
            }
            GroupEvent::Node(NodeEvent::PeerUp { peer, node }) => {
                self.nodes.insert(peer, node);
            }
            GroupEvent::Node(_) | GroupEvent::Changed | GroupEvent::Gathered { .. } => {}
        }
    }

    fn installed(&mut self, view: View) {
        let members: Vec<NodeId> = view.members.iter().map(|member| member.node).collect();
        let before = core::mem::replace(&mut self.members, members.clone());
        let not_in = |all: &[NodeId], of: &[NodeId]| -> Vec<NodeId> {
            of.iter().filter(|node| !all.contains(node)).copied().collect()
        };
        let (joined, departed) = (not_in(&before, &members), not_in(&members, &before));
        self.direct_messages.keep(|node| members.contains(&node));
        self.events.push_back(ShardEvent::View { view, joined, departed });
    }

    fn direct_message(&mut self, from: NodeId, bytes: &[u8]) {
        let length = bytes.len();
        match ObjectMessage::from_bytes(bytes) {
            Some(ObjectMessage::Taken(bytes)) => self.direct_messages.taken(from, bytes),
            // A message that is not passed on counts as taken, because it has arrived: the sender's
            // window would shrink otherwise.
            None => self.direct_messages.took(from, length),
            Some(ObjectMessage::Want { key, .. }) if !self.is_shard(key) => {
                self.direct_messages.took(from, length);
            }
            Some(message) => self.events.push_back(ShardEvent::Direct { from, message, length }),
        }
    }

    /// Whether an object with this key may exist.
    fn is_shard(&self, key: u64) -> bool {
        let (index, shard) = shard_of(key);
        let level = self.directory().types().get(index).map(|it| it.level);
        level == Some(DeliveryGuarantee::Atomic) && shard < MOST_SHARDS
    }

    fn status_of(&self, key: u64) -> ShardStatus {
        let directory = self.directory();
        let level = directory.types().get(shard_of(key).0).map(|it| it.level);
        let ordered = level == Some(DeliveryGuarantee::Atomic);
        let status = directory.shard(key);
        let has_log = self.known_logs.contains(&key);
        let status = status.map(|shard| shard.status(self.me, has_log));
        status.unwrap_or_else(|| ShardStatus { ordered, ..ShardStatus::default() })
    }

    /// Reacts to a change of the directory, or to a seat that became free.
    fn take_part(&mut self) {
        if !self.group.is_informed() || self.out.is_some() {
            return;
        }
        let is_member = self.group.view().rank_of(self.me).is_some();
        if !self.greeted && is_member {
            self.greeted = true;
            let hello = self.directory().hello(self.attributes.clone());
            self.submit(&hello);
        }
        let heard = self.directory().heard(self.me);
        let known = self.directory().members().iter().any(|member| member.node == self.me);
        if heard > 0 && !known && !self.refused {
            self.refused = true;
            self.events.push_back(ShardEvent::Refused);
        }
        self.take_back(heard);
        let directory = self.group.state();
        let (mut wanted, mut changed) = (Vec::new(), Vec::new());
        for (key, shard) in directory.shards() {
            let is_free = !self.seats.contains_key(&key) && !self.pending_offers.contains_key(&key);
            wanted.extend(shard.member_of(self.me).filter(|_| is_free).map(|place| (key, place)));
            let has_log = shard.logs().is_some()
                && (self.known_logs.contains(&key) || shard.member_of(self.me).is_some());
            let concerns = shard.offer_of(self.me).is_some() || self.seats.contains_key(&key);
            if concerns
                || has_log
                || shard.holders().contains(&self.me)
                || self.statuses.contains_key(&key)
            {
                changed.push(key);
            }
        }
        self.wanted = wanted;
        for key in changed {
            let status = self.status_of(key);
            if self.statuses.get(&key) != Some(&status) {
                self.statuses.insert(key, status.clone());
                self.events.push_back(ShardEvent::Status { key, status });
            }
        }
    }

    /// Withdraws offers that came too late because this node is no longer wanted there.
    fn take_back(&mut self, heard: u64) {
        let directory = self.group.state();
        let lines = |key| directory.shard(key)?.offer_of(self.me).map(|offer| offer.lines);
        let late = |(key, opened): (&u64, &PendingOffer)| {
            let is_late = heard >= opened.ticket && lines(*key) != Some(opened.lines);
            is_late.then_some((*key, opened.lines))
        };
        let late: Vec<(u64, RegionId)> = self.pending_offers.iter().filter_map(late).collect();
        for (key, lines) in late {
            // An offer that an epoch still waits for stays until that epoch; this node leaves the
            // subgroup afterwards.
            if self.group.withdraw(key, lines).is_some() {
                self.pending_offers.remove(&key);
            }
        }
    }
}

impl Machine for ShardMachine {
    fn handle(&mut self, event: LinkEvent, effects: &mut Effects) {
        self.group.handle(event, effects);
    }

    fn turn(&mut self, now: Time, effects: &mut Effects) -> usize {
        if self.out.is_some() {
            return 0;
        }
        let mut done = self.group.turn(now, effects);
        // Other threads wait for the results of this turn.
        done += usize::from(self.nudged.swap(false, Ordering::Acquire));
        self.drain();
        let mut takes_part = false;
        let mut events = Vec::new();
        while let Some(event) = self.group.next_event() {
            takes_part |= !matches!(event, GroupEvent::Node(_) | GroupEvent::Direct { .. });
            events.push(event);
        }
        done += events.len();
        // The state of the directory is queued before events that follow from it.
        if takes_part {
            self.take_part();
        }
        events.into_iter().for_each(|event| self.take_in(event));
        if takes_part {
            self.take_part();
        }
        done += self.dispatch(effects);
        if !self.events.is_empty() || !self.wanted.is_empty() {
            self.news.store(true, Ordering::Release);
        }
        done
    }

    fn interest(&self) -> Interest {
        self.group.interest()
    }

    fn awaits_others(&self) -> bool {
        self.group.awaits_others()
    }

    fn wants_turn_at(&self) -> Option<Time> {
        self.group.wants_turn_at().filter(|_| self.out.is_none())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::group::membership_service::JoinMode;
    use crate::group::silence_detector::MemberTimeouts;
    use crate::group::{CONTROL_LINES, GroupConfig};
    use crate::memory::{LINE_WORDS, OwnRegion};
    use crate::multicast::ablation::Ablation;
    use crate::multicast::subgroup::SUBGROUP_LINES;
    use crate::node::{ACKS_WORDS, Node};

    const ME: NodeId = NodeId(1);
    const PEER: NodeId = NodeId(2);

    fn machine_without_shards() -> ShardMachine {
        let node = Node::new(ME, OwnRegion::heap(ACKS_WORDS), Arc::new(|| {}));
        let join_mode = JoinMode::Network(Vec::from([(ME, 1)]));
        let (timeouts, ablation) = (MemberTimeouts::default(), Ablation::default());
        let config = GroupConfig { join_mode, weight: 1, timeouts, ablation };
        let lines = OwnRegion::heap(SUBGROUP_LINES * LINE_WORDS);
        let control = SubgroupRegions { lines: (CONTROL_LINES, lines), memory: None };
        let directory = ShardDirectory::new(Arc::new([]));
        let group = Group::new(node, config, directory, control, None);
        let geometry = Geometry::fitting(1 << 16, 64, 1 << 12).expect("a modest shape");
        ShardMachine::new(group, Vec::new(), geometry)
    }

    #[test]
    fn request_for_unknown_shard_counts_as_taken() {
        const WINDOW: usize = 1 << 20;
        let (mut machine, mut sender) = (machine_without_shards(), DirectMessages::default());
        let request = ObjectMessage::Want { key: 7 << 32, epoch: 1, request: 1 }.to_bytes();
        for _ in 0..WINDOW / request.len() {
            sender.post(ME, request.clone());
            let (_, bytes) = sender.next().expect("the window of the sender stays open");
            machine.direct_message(PEER, &bytes);
            while let Some((node, count)) = machine.direct_messages.next_taken() {
                assert_eq!(node, PEER);
                sender.taken(ME, count);
            }
        }
        assert!(machine.take_events().is_empty(), "the request concerns no object");
    }
}
