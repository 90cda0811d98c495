//! Control stream: messages that change the replicated state of the group, in one order
//! for all members.
//!
//! Owns: this node's messages on their way into the stream, the messages delivered from it, and the
//! messages between members outside of it. Never does: interpret a message.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::log_register::{self, LogRegister};
use super::registry::Registry;
use super::stall_detector::WaitQuestion;
use super::{CONTROL, Group, GroupEvent, ReplicatedState, SubgroupRegions};
use crate::bytes::{ByteReader, Wire};
use crate::ids::{NodeId, RegionId};
use crate::membership::WaitAnswer;
use crate::multicast::claim::SenderMemory;
use crate::multicast::geometry::Geometry;
use crate::multicast::inbox::Inbox;
use crate::node::StreamOrigin;

/// Region of a member's acknowledgement lines in the control stream.
pub const CONTROL_LINES: RegionId = RegionId(3);
/// Region of a member's messages.
pub const CONTROL_STREAM: RegionId = RegionId(4);

/// Maximum length of a message.
const LONGEST: usize = 16 << 10;

/// Geometry of a member's memory for the control stream.
pub fn control_geometry() -> Geometry {
    Geometry::fitting(8 * LONGEST, 512, LONGEST).expect("a modest shape")
}

/// Message from one member to another outside of the streams.
pub(super) enum UnicastMessage {
    /// Message of the membership service.
    Membership(Vec<u8>),
    /// State at the beginning of a view, for a member without the state.
    Snapshot { view: u64, registry: Registry, state: Vec<u8> },
    /// Beginnings of epochs in the sender's streams: subgroup, epoch, region, entry, message.
    EpochStarts(Vec<EpochStart>),
    /// Direct message between applications, with the view of its sender (I-70).
    Direct { view: u64, bytes: Vec<u8> },
    /// The sender holds direct messages back until the receiver answers that it has installed
    /// this view (I-333).
    AwaitsView { view: u64 },
    /// The sender has installed this view.
    ViewInstalled { view: u64 },
    /// Asks why the receiver does not make a condition true for which the sender waits (I-336).
    Why(WaitQuestion),
    /// Answer to [`UnicastMessage::Why`].
    Because(WaitQuestion, WaitAnswer),
}

/// Beginning of an epoch. See [`UnicastMessage::EpochStarts`].
pub(super) type EpochStart = (u64, u64, RegionId, u64, u64);

impl Wire for UnicastMessage {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            UnicastMessage::Membership(bytes) => {
                out.push(0);
                bytes.encode(out);
            }
            UnicastMessage::Snapshot { view, registry, state } => {
                out.push(1);
                view.encode(out);
                registry.encode(out);
                state.encode(out);
            }
            UnicastMessage::EpochStarts(starts) => {
                out.push(2);
                let nested =
                    |start: &EpochStart| ((start.0, start.1), ((start.2, start.3), start.4));
                starts.iter().map(nested).collect::<Vec<_>>().encode(out);
            }
            UnicastMessage::Direct { view, bytes } => {
                out.push(3);
                view.encode(out);
                bytes.encode(out);
            }
            UnicastMessage::AwaitsView { view } => (4_u8, *view).encode(out),
            UnicastMessage::ViewInstalled { view } => (5_u8, *view).encode(out),
            UnicastMessage::Why(question) => (6_u8, *question).encode(out),
            UnicastMessage::Because(question, answer) => {
                (7_u8, (*question, *answer as u8)).encode(out)
            }
        }
    }

    fn decode(from: &mut ByteReader<'_>) -> Option<Self> {
        Some(match from.byte()? {
            0 => UnicastMessage::Membership(Vec::decode(from)?),
            1 => UnicastMessage::Snapshot {
                view: u64::decode(from)?,
                registry: Registry::decode(from)?,
                state: Vec::decode(from)?,
            },
            2 => {
                let nested = Vec::<((u64, u64), ((RegionId, u64), u64))>::decode(from)?;
                let flat = |((key, epoch), ((region, entry), message))| {
                    (key, epoch, region, entry, message)
                };
                UnicastMessage::EpochStarts(nested.into_iter().map(flat).collect())
            }
            3 => UnicastMessage::Direct { view: u64::decode(from)?, bytes: Vec::decode(from)? },
            4 => UnicastMessage::AwaitsView { view: u64::decode(from)? },
            5 => UnicastMessage::ViewInstalled { view: u64::decode(from)? },
            6 => UnicastMessage::Why(WaitQuestion::decode(from)?),
            7 => {
                UnicastMessage::Because(WaitQuestion::decode(from)?, WaitAnswer::of(from.byte()?)?)
            }
            _ => return None,
        })
    }
}

/// Subject of a message in the control stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum ControlSubject {
    /// Message for the replicated state.
    State = 0,
    /// Message of a member that keeps logs.
    Logs = 1,
}

/// Number of a view, with the registry and the state at its beginning.
pub(super) type GroupSnapshot = (u64, Registry, Vec<u8>);

/// State of this node in the control stream.
pub(super) struct ControlStream {
    memory: Option<SenderMemory>,
    inbox: Option<Arc<Inbox>>,
    /// Senders, by their number in the records of the queue.
    senders: BTreeMap<usize, NodeId>,
    /// Messages that wait for room.
    outbox: VecDeque<Vec<u8>>,
    /// Number of messages that this node has submitted, and number of those that were applied in
    /// the common order.
    submitted: u64,
    applied_own: u64,
    /// Delivered messages of this view that wait for the state transfer.
    kept: Vec<(NodeId, Vec<u8>)>,
    /// State at the beginning of a view that has not begun here yet, one for each node that has
    /// sent one (I-333).
    early: BTreeMap<NodeId, GroupSnapshot>,
}

impl ControlStream {
    pub(super) fn new(regions: &SubgroupRegions) -> ControlStream {
        ControlStream {
            memory: regions.memory.as_ref().map(|(_, memory)| memory.clone()),
            inbox: None,
            senders: BTreeMap::new(),
            outbox: VecDeque::new(),
            submitted: 0,
            applied_own: 0,
            kept: Vec::new(),
            early: BTreeMap::new(),
        }
    }

    /// Number of messages that this node has submitted.
    pub(super) fn submitted(&self) -> u64 {
        self.submitted
    }

    /// Number of this node's messages that every member applies before the next message.
    pub(super) fn applied_own(&self) -> u64 {
        self.applied_own
    }

    pub(super) fn submit(&mut self, subject: ControlSubject, message: &[u8]) {
        self.submitted += 1;
        self.outbox.push_back([&[subject as u8], message].concat());
    }

    /// Whether messages were delivered, or an informed member has messages to send.
    #[inline]
    pub(super) fn has_work(&self, informed: bool) -> bool {
        self.inbox.as_ref().is_some_and(|inbox| !inbox.is_empty())
            || (informed && !self.outbox.is_empty())
    }

    /// Commits messages as far as there is room.
    fn send(&mut self) -> usize {
        let Some(memory) = &self.memory else { return 0 };
        let mut sent = 0;
        while let Some(message) = self.outbox.front() {
            let Ok(mut claim) = memory.claim(message.len()) else { break };
            claim.bytes().copy_from_slice(message);
            claim.commit(message.len(), |_, _| {});
            self.outbox.pop_front();
            sent += 1;
        }
        sent
    }

    fn take(&self) -> Option<(NodeId, Vec<u8>)> {
        let record = self.inbox.as_ref()?.take()?;
        let from = *self.senders.get(&record.sender())?;
        Some((from, record.bytes().to_vec()))
    }

    /// Takes the states that came before their view, with the nodes that sent them.
    pub(super) fn take_early(&mut self) -> BTreeMap<NodeId, GroupSnapshot> {
        core::mem::take(&mut self.early)
    }

    /// Forgets the state that a node has sent before its view.
    pub(super) fn forget_early(&mut self, node: NodeId) {
        self.early.remove(&node);
    }

    /// Forgets messages that were kept for a state that has not come.
    pub(super) fn forget_kept(&mut self) {
        self.kept.clear();
    }
}

impl<S: ReplicatedState> Group<S> {
    /// Takes delivered messages, and commits waiting ones.
    pub(super) fn process_control(&mut self) -> usize {
        let mut done = 0;
        while let Some((from, message)) = self.control.take() {
            done += 1;
            if self.informed {
                self.apply(from, &message);
            } else {
                self.control.kept.push((from, message));
            }
        }
        // Only with the state: a message belongs to the view in which it was submitted.
        if self.informed {
            done += self.control.send();
        }
        done
    }

    fn apply(&mut self, from: NodeId, message: &[u8]) {
        self.control.applied_own += u64::from(from == self.node.id());
        let changed = match message.split_first() {
            Some((topic, message)) if *topic == ControlSubject::State as u8 => {
                self.state.apply(from, message)
            }
            Some((topic, message)) if *topic == ControlSubject::Logs as u8 => {
                let entry = log_register::LogRegisterMessage::from_bytes(message);
                entry.into_iter().for_each(|entry| self.log_register.apply(from, entry));
                self.state.note_logs(&self.log_register)
            }
            _ => Vec::new(),
        };
        self.required_logs = None;
        for key in changed {
            let layout = self.state.layout(key, &self.installed);
            if self.registry.change(key, layout) {
                self.open.insert(key);
                self.unsettled = true;
            }
        }
        self.events.push_back(GroupEvent::Changed);
    }

    /// Notes the senders of the epoch that the control stream has begun.
    pub(super) fn control_begun(&mut self) {
        let Some(id) = self.subgroup(CONTROL) else { return };
        if self.control.inbox.is_none() {
            self.control.inbox = self.node.add_subgroup_reader(id);
        }
        for (number, origin, _) in self.node.senders(id) {
            let node = match origin {
                StreamOrigin::Own => Some(self.node.id()),
                // Includes a sender that is gone already: all members apply its messages.
                StreamOrigin::Peer(peer) => self.node_of(peer),
            };
            if let Some(node) = node {
                self.control.senders.insert(usize::from(number), node);
            }
        }
    }

    /// State of the group as bytes, with the members that keep logs.
    pub(super) fn snapshot(&self) -> Vec<u8> {
        (self.log_register.clone(), self.state.snapshot()).to_bytes()
    }

    fn restore(&mut self, bytes: &[u8]) -> bool {
        let Some((log_register, state)) = <(LogRegister, Vec<u8>)>::from_bytes(bytes) else {
            return false;
        };
        let is_read = self.state.restore(&state);
        if is_read {
            self.log_register = log_register;
            self.state.note_logs(&self.log_register);
            self.required_logs = None;
        }
        is_read
    }

    /// Takes over the state of the group, as it was when a view began, from a member of that view.
    /// The state may arrive before that view begins here.
    pub(super) fn inform(&mut self, from: NodeId, (view, registry, state): GroupSnapshot) {
        // I-55: a node that has reported that it has no state takes none in that view.
        let agreement = self.membership_service.membership();
        let (newest, stopped) = (agreement.view().number, agreement.is_wedged());
        let late = view < newest || (view == newest && stopped);
        // I-48: a node that is out takes none either.
        if self.informed || late || self.is_out() {
            return;
        }
        if view > self.installed.number {
            self.control.early.insert(from, (view, registry, state));
            return;
        }
        // I-334.
        if self.installed.rank_of(from).is_none() || !self.restore(&state) {
            return;
        }
        (self.informed, self.registry) = (true, registry);
        for (from, message) in core::mem::take(&mut self.control.kept) {
            self.apply(from, &message);
        }
        let me = self.node.id();
        for key in self.registry.keys().collect::<Vec<u64>>() {
            let newest = self.registry.epochs(key).next().cloned();
            let own = newest.filter(|epoch| epoch.layout.member(me).is_some());
            self.expected.extend(own.map(|epoch| (key, epoch)));
            self.open.insert(key);
        }
        self.unsettled = true;
        self.events.push_back(GroupEvent::Changed);
    }
}
