//! Group: nodes that agree on their membership, and subgroups that continue from view to view.
//!
//! Owns: the connection between a node's streams and its membership service. Never does: decide the
//! purpose of a subgroup, or interpret its messages.
//!
//! Reading order: [`silence_detector`] (when a node is suspected), [`membership_service`] (a node's
//! part in the agreement on views), [`report`] (the stream state that a view change needs),
//! [`registry`] (the existing subgroups), [`log_register`] and [`view_log`] (views in logs).
//!
//! ```text
//!   control stream   an atomic subgroup of all members. Its messages change the replicated state
//!                    of the group, and thereby the layouts of the subgroups, at the same point
//!                    at every member
//!   subgroups        members of a subgroup move from epoch to epoch, independently of other
//!                    subgroups
//!   view change      all members stop, report, deliver up to the cut, and continue with the
//!                    layouts of the new view
//! ```

mod awaited;
mod control;
mod direct;
mod early_messages;
mod epoch_progress;
mod evidence;
mod install;
pub mod log_register;
pub mod membership_service;
pub mod registry;
pub mod report;
pub mod silence_detector;
mod stall_detector;
mod subgroup_regions;
pub mod view_log;

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;

use self::awaited::WaitTracker;
use self::control::{ControlStream, ControlSubject, UnicastMessage};
use self::early_messages::{EarlyMessages, HeldMessages};
use self::epoch_progress::EpochProgress;
use self::log_register::LogRegister;
use self::membership_service::{HostInterface, JoinMode, MembershipAction, MembershipService};
use self::registry::{Epoch, Layout, Registry};
use self::report::{MemberReport, StreamId};
use self::silence_detector::MemberTimeouts;
use self::stall_detector::StallDetector;
use self::subgroup_regions::{StreamMemory, stream_memory};
use self::view_log::{DurabilityGate, ViewLog};
use crate::bytes::Wire;
use crate::fault::{Fault, planted};
use crate::ids::{NodeId, Peer, RegionId, Time};
use crate::link::{Evidence, Interest, LinkError, LinkEvent};
use crate::log::LogId;
use crate::machine::{Effects, Machine};
use crate::membership::{ExitReason, MemberStatus, Membership, View, WaitAnswer};
use crate::multicast::ablation::Ablation;
use crate::multicast::stream::StreamStart;
use crate::node::{self, Node, NodeEvent, SubgroupId};
use crate::storage::log_port::LogPort;

pub use awaited::Wait;
pub use control::{CONTROL_LINES, CONTROL_STREAM, control_geometry};
pub use subgroup_regions::{StreamRegion, SubgroupRegions};

/// Key of the subgroup of all members.
pub const CONTROL: u64 = 0;

/// Replicated state of a group: every member applies the same messages in the same order, starting
/// from the same state.
pub trait ReplicatedState {
    /// Applies a member's message. Returns the subgroups whose layout the message may have changed.
    fn apply(&mut self, from: NodeId, message: &[u8]) -> Vec<u64>;

    /// Removes a node that is no longer a member.
    fn forget(&mut self, node: NodeId);

    /// Begins a view, after former members were forgotten. Changes that follow from the view as a
    /// whole are made here, once.
    fn begin_view(&mut self, _: &View) {}

    /// Notes a change of the members that keep logs, or of the logs that are awaited. Returns the
    /// subgroups whose layout this may have changed.
    fn note_logs(&mut self, _: &LogRegister) -> Vec<u64> {
        Vec::new()
    }

    /// Logs that hold durable data of which no member's log is complete: views name
    /// these logs (I-156).
    fn required_logs(&self) -> BTreeSet<LogId> {
        BTreeSet::new()
    }

    /// Keys of all subgroups that have a layout, never [`CONTROL`].
    fn keys(&self) -> Vec<u64>;

    /// Layout of a subgroup. The layout depends only on the state and the view, and all members of
    /// the subgroup are members of the view.
    fn layout(&self, key: u64, view: &View) -> Layout;

    /// Returns the state as bytes, for a joining node.
    fn snapshot(&self) -> Vec<u8>;

    /// Replaces the state by the state of another member. `false` if the bytes are malformed.
    fn restore(&mut self, bytes: &[u8]) -> bool;
}

/// Configuration of a node's part in a group.
#[derive(Clone, Debug)]
pub struct GroupConfig {
    /// How the node enters the group.
    pub join_mode: JoinMode,
    /// Votes of the node in a networked group.
    pub weight: u16,
    /// Timeouts for other nodes.
    pub timeouts: MemberTimeouts,
    /// Mechanisms that are switched off; in the control stream all of them except nulls.
    pub ablation: Ablation,
}

/// Event for the upper layer.
#[derive(Debug)]
pub enum GroupEvent {
    /// A view was installed, and this node is a member of it.
    Installed(View),
    /// The state has changed: messages were applied, or the whole state was transferred.
    Changed,
    /// This node is no longer a member and delivers nothing more.
    Out(ExitReason),
    /// This node has begun an epoch of a subgroup.
    Begun {
        /// The subgroup's key.
        key: u64,
        /// Identifier of the subgroup at this node.
        subgroup: SubgroupId,
        /// Name of the epoch, unique within this group.
        epoch: u64,
        /// Its members.
        layout: Layout,
        /// Whether this node was no member before.
        first: bool,
    },
    /// More readers of a subgroup have begun its epoch ([`Node::begun_readers`]).
    Gathered {
        /// The subgroup's key.
        key: u64,
    },
    /// This node is no longer a member of a subgroup.
    Left {
        /// The subgroup's key.
        key: u64,
    },
    /// A member has sent this node a direct message (I-70).
    Direct {
        /// Sender of the message.
        from: NodeId,
        /// View in which the message was sent.
        view: u64,
        /// Contents of the message.
        bytes: Vec<u8>,
    },
    /// A live member makes no progress, as its answer to this node shows, and is suspected. If
    /// other members see the progress of that member, this node falls out instead (I-336).
    Stuck {
        /// The wait.
        wait: Wait,
        /// The answer.
        answer: WaitAnswer,
    },
    /// Event of the node itself, which does not concern the group.
    Node(NodeEvent),
}

/// State of one node in a group. See the [module](self).
pub struct Group<S: ReplicatedState> {
    node: Node,
    membership_service: MembershipService<MemberReport>,
    state: S,
    /// Whether `state` is the group's state.
    informed: bool,
    registry: Registry,
    /// Members that keep logs; part of the replicated state like `state`.
    log_register: LogRegister,
    /// This node's log of views, if it keeps logs.
    view_log: Option<ViewLog>,
    /// Cached result of [`ReplicatedState::required_logs`], if still valid.
    required_logs: Option<BTreeSet<LogId>>,
    control: ControlStream,
    ablation: Ablation,
    /// Regions that this node brings into subgroups, by subgroup and region of the acknowledgement
    /// lines.
    regions: BTreeMap<(u64, RegionId), SubgroupRegions>,
    /// Memory of this node's streams, by subgroup and region: kept while an epoch of that stream
    /// may still have to be given to the node (I-78).
    memories: BTreeMap<(u64, RegionId), StreamMemory>,
    progress: BTreeMap<u64, EpochProgress>,
    /// Keys of `progress`, by the node's subgroup identifier.
    keys: BTreeMap<SubgroupId, u64>,
    /// Subgroups whose queue may contain an epoch that was not given to the node yet (I-76).
    open: BTreeSet<u64>,
    /// Subgroups that this node has left in this view, each with the epoch in which it was no
    /// longer a member.
    behind: BTreeMap<u64, Epoch>,
    /// Beginnings of epochs in streams, as announced by the senders.
    announced_starts: BTreeMap<(u64, u64), BTreeMap<StreamId, StreamStart>>,
    peers: BTreeMap<NodeId, Peer>,
    nodes: BTreeMap<Peer, NodeId>,
    /// Messages for members that this node has not met yet.
    unsent: BTreeMap<NodeId, Vec<Vec<u8>>>,
    /// Peers of all nodes that this node has met, including failed nodes whose streams may
    /// still be named.
    met: BTreeMap<NodeId, Peer>,
    /// View of the streams: equal to the membership service's view once the streams have come to
    /// the cut.
    installed: View,
    /// Messages of other nodes about views that are not installed here.
    early_messages: BTreeMap<NodeId, EarlyMessages>,
    /// Direct messages of the current view to members that may not have installed this view.
    held: BTreeMap<NodeId, HeldMessages>,
    /// Epochs that came with a view and could not be given to the node yet.
    expected: BTreeMap<u64, Epoch>,
    /// Ended epochs in which this node was to be a member, of subgroups that it has not joined yet.
    skipped: BTreeMap<u64, Vec<node::EpochDescription>>,
    events: VecDeque<GroupEvent>,
    /// A change has happened for which a subgroup may wait.
    unsettled: bool,
    /// Subgroups in which newcomers still need the beginning of an epoch in this node's stream.
    pending_notices: BTreeSet<u64>,
    /// Time of the next look if no event happens before.
    next_look: Time,
    wait_tracker: WaitTracker,
    stall_detector: StallDetector,
    /// Member that sends this node the state, if this node lacks the state.
    sponsor: Option<NodeId>,
    now: Time,
}

/// Interval between looks for awaited members in a busy group, in nanoseconds.
const LOOK_INTERVAL: u64 = 5_000_000;

impl<S: ReplicatedState> Group<S> {
    /// Creates a node's part in a group. `control`: this node's regions of the control stream,
    /// [`CONTROL_LINES`] and [`CONTROL_STREAM`], with the geometry of [`control_geometry`]. A local
    /// group needs a host.
    pub fn new(
        node: Node,
        config: GroupConfig,
        state: S,
        control: SubgroupRegions,
        host: Option<HostInterface>,
    ) -> Group<S> {
        let GroupConfig { join_mode, weight, timeouts, ablation } = config;
        let is_local = matches!(join_mode, JoinMode::Local);
        let membership_service =
            MembershipService::new(node.id(), weight, join_mode, timeouts, host);
        Group {
            membership_service,
            state,
            informed: false,
            registry: Registry::default(),
            log_register: LogRegister::new(is_local),
            view_log: None,
            required_logs: None,
            control: ControlStream::new(&control),
            ablation,
            memories: stream_memory(CONTROL, &control).into_iter().collect(),
            regions: BTreeMap::from([((CONTROL, CONTROL_LINES), control)]),
            progress: BTreeMap::new(),
            keys: BTreeMap::new(),
            open: BTreeSet::new(),
            behind: BTreeMap::new(),
            announced_starts: BTreeMap::new(),
            peers: BTreeMap::new(),
            nodes: BTreeMap::new(),
            unsent: BTreeMap::new(),
            met: BTreeMap::new(),
            installed: View::of_founders([]),
            early_messages: BTreeMap::new(),
            held: BTreeMap::new(),
            expected: BTreeMap::new(),
            skipped: BTreeMap::new(),
            events: VecDeque::new(),
            unsettled: false,
            pending_notices: BTreeSet::new(),
            next_look: Time(0),
            wait_tracker: WaitTracker::new(&timeouts),
            stall_detector: StallDetector::new(timeouts.member_timeout),
            sponsor: None,
            now: Time(0),
            node,
        }
    }

    /// Shared reference to the node.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// Exclusive reference to the node, for its queues and streams.
    pub fn node_mut(&mut self) -> &mut Node {
        &mut self.node
    }

    /// Replicated state, as far as this node has it.
    pub fn state(&self) -> &S {
        &self.state
    }

    /// Members that keep logs, as far as this node knows.
    pub fn log_register(&self) -> &LogRegister {
        &self.log_register
    }

    /// Makes this node keep logs: views are logged here before anything that is delivered in them
    /// counts as durable. The returned gate is for the node's [other logs](view_log::GatedLogPort).
    pub fn keep_logs(&mut self, views: Box<dyn LogPort>) -> Arc<DurabilityGate> {
        let view_log = ViewLog::new(views);
        let gate = view_log.gate();
        (self.view_log, self.unsettled) = (Some(view_log), true);
        gate
    }

    /// Ends the logging of views at this node.
    pub fn end_logs(&mut self) {
        self.view_log = None;
    }

    /// Whether this node has the group's state.
    pub fn is_informed(&self) -> bool {
        self.informed
    }

    /// Relation of this node to the group.
    pub fn status(&self) -> MemberStatus {
        self.membership_service.membership().status()
    }

    /// Error of the host that keeps this node out of the group.
    pub fn founding_error(&self) -> Option<&LinkError> {
        self.membership_service.founding_error()
    }

    /// Installed view.
    pub fn view(&self) -> &View {
        &self.installed
    }

    /// Whether the other members have gone on without this node, according to the host. This node
    /// may have been stopped and have received nothing. If the answer is no, everything that was
    /// read before the call was valid when it was read.
    pub fn is_overtaken(&self) -> bool {
        self.membership_service.is_overtaken()
    }

    /// This node's part in the agreement on views.
    pub fn agreement(&self) -> &Membership<MemberReport> {
        self.membership_service.membership()
    }

    /// Whether a subgroup of this node is moving from one epoch to another.
    pub fn is_changing_epochs(&self) -> bool {
        !self.expected.is_empty() || !self.progress.values().all(EpochProgress::is_settled)
    }

    /// Whether this node is a member of a view, has the state, and has no change in progress.
    pub fn is_settled(&self) -> bool {
        let member = self.status() == MemberStatus::Member
            && !self.membership_service.membership().is_wedged();
        member && self.informed && !self.is_changing_epochs()
    }

    /// Describes the state of the subgroups, for diagnosis.
    pub fn describe(&self) -> alloc::string::String {
        use core::fmt::Write;
        let mut text = alloc::string::String::new();
        let (view, wedged) =
            (self.installed.number, self.membership_service.membership().is_wedged());
        let _ = write!(text, "view {view}, wedged {wedged}, informed {}", self.informed);
        let _ = write!(text, ", expected {:?}", self.expected.keys());
        for (key, walk) in &self.progress {
            let id = walk.id();
            let phase = id.and_then(|id| self.node.phase(id));
            let epoch = id.and_then(|id| self.node.epoch(id));
            let _ = write!(text, "; {key}: {walk:?}, {phase:?} in {epoch:?}");
        }
        for key in self.registry.keys() {
            for epoch in self.registry.epochs(key) {
                let seats = epoch.layout.members.iter().map(|member| (member.node, member.sends));
                let seats: Vec<_> = seats.collect();
                let _ = write!(text, "\n  {key} {}: {seats:?} old {:?}", epoch.number, epoch.old);
            }
        }
        let _ = write!(text, "\n heard {:?}", self.announced_starts);
        for (Wait { key, node, condition }, since) in self.waits() {
            let _ = write!(
                text,
                "\n awaits {node:?} since {since:?}, subgroup {key:?}: that node {condition}"
            );
        }
        let _ = write!(text, "\n {}", self.node.describe());
        text
    }

    /// Node identifier of a subgroup at work, if this node is a member of the subgroup.
    pub fn subgroup(&self, key: u64) -> Option<SubgroupId> {
        self.progress.get(&key).and_then(EpochProgress::id)
    }

    /// Whether this node is a member of a subgroup, or of one of its coming epochs.
    pub fn is_in_subgroup(&self, key: u64) -> bool {
        let me = self.node.id();
        let mut coming = self.registry.epochs(key).chain(self.expected.get(&key));
        self.progress.contains_key(&key) || coming.any(|epoch| epoch.layout.member(me).is_some())
    }

    /// Whether a node reads in this node's current epoch of a subgroup, and in all epochs that are
    /// known to follow.
    pub fn reads_on(&self, key: u64, node: NodeId) -> bool {
        let Some(progress) = self.progress.get(&key) else { return false };
        let now = progress.id().and_then(|id| self.node.epoch(id)).unwrap_or(0);
        let last_epoch = core::iter::once(progress.last_epoch());
        let coming = self.registry.epochs(key).chain(self.expected.get(&key)).chain(last_epoch);
        let mut coming = coming.filter(|epoch| epoch.number >= now);
        coming.all(|epoch| epoch.layout.member(node).is_some_and(|member| member.reads))
    }

    /// Whether this node sends this stream in a subgroup, or will in a coming epoch.
    pub fn sends(&self, key: u64, stream: RegionId) -> bool {
        let own = StreamId { node: self.node.id(), region: stream };
        let last_epoch = self.progress.get(&key).map(EpochProgress::last_epoch);
        let epochs = self.registry.epochs(key).chain(self.expected.get(&key)).chain(last_epoch);
        let mut streams = epochs.flat_map(|epoch| epoch.layout.streams());
        streams.any(|stream| stream == own)
    }

    /// Sends all members a message that changes the state. All members, including this node, apply
    /// messages in one order. If this node falls out first, the message may be applied nowhere.
    /// `false` if this node is out (I-48): nothing is sent.
    pub fn submit(&mut self, message: &[u8]) -> bool {
        let is_in = !self.is_out();
        if is_in {
            self.control.submit(ControlSubject::State, message);
        }
        is_in
    }

    /// Starts to leave the group. [`GroupEvent::Out`] follows. `false` if this node is
    /// out already (I-48).
    pub fn leave(&mut self) -> bool {
        let is_in = !self.is_out();
        self.membership_service.leave();
        is_in
    }

    fn is_out(&self) -> bool {
        matches!(self.status(), MemberStatus::Out(_))
    }

    /// Removes and returns the oldest event for the upper layer.
    pub fn next_event(&mut self) -> Option<GroupEvent> {
        self.events.pop_front()
    }

    fn take_in(&mut self, event: NodeEvent) {
        match event {
            NodeEvent::PeerUp { peer, node } => {
                self.peers.insert(node, peer);
                self.nodes.insert(peer, node);
                self.met.insert(node, peer);
                self.membership_service.linked(node);
                self.unsettled = true;
            }
            NodeEvent::PeerDown { peer, node, evidence } => {
                if self.peers.get(&node) == Some(&peer) {
                    self.peers.remove(&node);
                }
                self.nodes.remove(&peer);
                self.release_budget(node);
                self.membership_service.disconnected(node, evidence, self.now);
            }
            // The node reads no more from that peer, and falls out when the host says so.
            NodeEvent::Faulty { fault, .. } if !self.is_proven(fault) => return,
            NodeEvent::Faulty { peer, .. } => {
                if let Some(&node) = self.nodes.get(&peer) {
                    self.membership_service.disconnected(node, Evidence::Uncertain, self.now);
                }
            }
            NodeEvent::Told { peer, ref bytes } => {
                let Some(&node) = self.nodes.get(&peer) else { return };
                if !UnicastMessage::from_bytes(bytes)
                    .is_some_and(|message| self.receive_unicast(node, message))
                {
                    self.membership_service.faulty(node, self.now);
                }
                return;
            }
            NodeEvent::Founded(id) => return self.begun(id),
            NodeEvent::Begun { subgroup, .. } => return self.begun(subgroup),
            NodeEvent::Left(id) => return self.left(id),
            NodeEvent::Gathered { subgroup, .. } => {
                if let Some(key) = self.key_of(subgroup) {
                    self.events.push_back(GroupEvent::Gathered { key });
                }
                return;
            }
            _ => {}
        }
        self.events.push_back(GroupEvent::Node(event));
    }

    fn receive_unicast(&mut self, node: NodeId, message: UnicastMessage) -> bool {
        match message {
            UnicastMessage::Membership(bytes) => {
                return self.membership_service.hear(node, &bytes, self.now);
            }
            UnicastMessage::Snapshot { view, registry, state } => {
                self.inform(node, (view, registry, state));
            }
            UnicastMessage::Direct { view, bytes } => return self.direct(node, view, bytes),
            UnicastMessage::EpochStarts(starts) => return self.receive_starts(node, starts),
            UnicastMessage::AwaitsView { view } => self.asked_for(node, view),
            UnicastMessage::ViewInstalled { view } => self.note_installed(node, view),
            UnicastMessage::Why(question) => self.explain(node, question),
            UnicastMessage::Because(question, answer) => {
                self.receive_answer(node, question, answer)
            }
        }
        true
    }

    fn act(&mut self, action: MembershipAction<MemberReport>, effects: &mut Effects) {
        match action {
            MembershipAction::Tell(node, bytes) => {
                self.tell(node, &UnicastMessage::Membership(bytes), effects)
            }
            MembershipAction::Wedge => {
                if !planted(Fault::WedgedLate) {
                    self.wedge_all();
                }
                if self.membership_service.membership().wants_to_leave() {
                    // This precedes the report: no member may know the report and go on without
                    // this node before (I-335).
                    self.node.privatize(effects);
                }
                let report = self.member_report();
                self.membership_service.report(report);
            }
            MembershipAction::Install(decision) => {
                if planted(Fault::WedgedLate) {
                    self.wedge_all();
                }
                self.install(&decision, effects);
            }
            MembershipAction::Out(reason) => {
                self.privatize(effects);
                self.end_logs();
                self.events.push_back(GroupEvent::Out(reason));
            }
        }
    }

    /// Stops delivery, and makes memory of peers private where records may refer to it (I-335).
    /// Must be called before this node leaves its link, and as soon as the other members are known
    /// to have gone on without this node. No turn may follow.
    pub fn privatize(&mut self, effects: &mut Effects) {
        self.wedge_all();
        self.node.privatize(effects);
    }

    fn wedge_all(&mut self) {
        let ids: Vec<SubgroupId> = self.progress.values().filter_map(EpochProgress::id).collect();
        ids.into_iter().for_each(|id| self.node.wedge_subgroup(id));
    }

    fn tell(&mut self, node: NodeId, message: &UnicastMessage, effects: &mut Effects) {
        match self.peers.get(&node) {
            Some(&peer) => self.node.tell(peer, &message.to_bytes(), effects),
            // I-53: this node has not met the member yet.
            None => self.unsent.entry(node).or_default().push(message.to_bytes()),
        }
    }

    /// Sends messages that could not be sent before, after the messages of the membership service.
    fn send_unsent(&mut self, effects: &mut Effects) {
        let met: Vec<(NodeId, Peer)> =
            self.unsent.keys().filter_map(|node| Some((*node, *self.peers.get(node)?))).collect();
        for (node, peer) in met {
            for bytes in self.unsent.remove(&node).into_iter().flatten() {
                self.node.tell(peer, &bytes, effects);
            }
        }
    }
}

impl<S: ReplicatedState> Machine for Group<S> {
    fn handle(&mut self, event: LinkEvent, effects: &mut Effects) {
        if matches!(event, LinkEvent::RegionUp { .. } | LinkEvent::RegionReady { .. }) {
            self.unsettled = true;
        }
        self.node.handle(event, effects);
    }

    fn turn(&mut self, now: Time, effects: &mut Effects) -> usize {
        self.now = now;
        let done = self.node.turn(now, effects);
        match self.is_quiet(now) {
            true => done,
            false => done + self.process(now, effects),
        }
    }

    fn interest(&self) -> Interest {
        match self.unsettled || self.membership_service.membership().is_wedged() {
            true => Interest::Hints,
            false => self.node.interest(),
        }
    }

    fn awaits_others(&self) -> bool {
        self.node.awaits_others()
    }

    fn wants_turn_at(&self) -> Option<Time> {
        let membership_service = self.membership_service.wants_turn_at();
        // Members for which the streams wait must be watched.
        let streams = self.node.awaits_others() || self.node.awaits_readers();
        let waits = streams || self.node.awaits_room() || self.wait_tracker.is_anybody();
        let look = waits.then_some(self.next_look);
        let logs = self.is_logging_views().then(|| self.now.after(view_log::LOOK));
        let look = look.into_iter().chain(logs);
        membership_service.into_iter().chain(self.node.wants_turn_at()).chain(look).min()
    }
}

impl<S: ReplicatedState> Group<S> {
    /// Whether only the node has work, as in almost every turn.
    #[inline]
    fn is_quiet(&self, now: Time) -> bool {
        now < self.next_look
            && !self.unsettled
            && self.pending_notices.is_empty()
            && !self.node.has_events()
            && !self.membership_service.has_actions()
            && !self.control.has_work(self.informed)
            && !self.is_logging_views()
    }

    fn is_logging_views(&self) -> bool {
        self.view_log.as_ref().is_some_and(ViewLog::is_busy)
    }

    /// Continues the log of views.
    fn log_views(&mut self) -> usize {
        let Some(view_log) = &mut self.view_log else { return 0 };
        let required_logs = self.required_logs.get_or_insert_with(|| self.state.required_logs());
        let (done, messages) =
            view_log.turn(&self.log_register, &self.installed, self.node.id(), required_logs);
        messages
            .iter()
            .for_each(|message| self.control.submit(ControlSubject::Logs, &message.to_bytes()));
        done + messages.len()
    }

    fn process(&mut self, now: Time, effects: &mut Effects) -> usize {
        let mut done = 0;
        while let Some(event) = self.node.next_event() {
            self.take_in(event);
            done += 1;
        }
        done += self.process_control();
        loop {
            let awaited = self.look_for_awaited(now);
            let actions = self.membership_service.turn(&awaited, now);
            if actions.is_empty() {
                break;
            }
            done += actions.len();
            actions.into_iter().for_each(|action| self.act(action, effects));
        }
        self.ask_why(now);
        if !self.unsent.is_empty() {
            self.send_unsent(effects);
        }
        done += self.advance_epochs(effects) + self.log_views();
        self.note_new_waits();
        let membership_service = self.membership_service.wants_turn_at().unwrap_or(Time(u64::MAX));
        self.next_look = now.after(self.wait_tracker.interval()).min(membership_service);
        done
    }
}
