//! One member of a group: a node, and an application that writes and reads topics.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use derecho_core::group::council::{Entrance, Host};
use derecho_core::group::watch::Patience;
use derecho_core::group::{
    CONTROL_LINES, CONTROL_STREAM, Group, GroupEvent, Share, Terms, control_geometry,
};
use derecho_core::ids::{NodeId, RegionId, Time};
use derecho_core::link::{Interest, Link, LinkEvent};
use derecho_core::machine::{Effects, Machine};
use derecho_core::membership::Fate;
use derecho_core::memory::LINE_WORDS;
use derecho_core::multicast::ablation::Ablation;
use derecho_core::multicast::claim::SenderMemory;
use derecho_core::multicast::geometry::Geometry;
use derecho_core::multicast::inbox::Inbox;
use derecho_core::multicast::subgroup::SUBGROUP_LINES;
use derecho_core::node::{ACKS, ACKS_WORDS, Node, NodeEvent};
use derecho_sim::SimLink;

use super::court::{Court, Delivered};
use super::topics::{Part, Topics};

pub(crate) const PATIENCE: Patience = Patience { member_timeout: Some(2_000_000), gather: 100_000 };

/// A part in a topic.
struct Taken {
    lines: RegionId,
    stream: Option<(RegionId, SenderMemory)>,
    inbox: Option<Arc<Inbox>>,
    /// Epochs of the inbox's deliveries: a new one begins with the first that is put in after it.
    epoch: u64,
    written: u64,
    leaves: bool,
}

pub(crate) struct Member {
    pub(crate) me: NodeId,
    /// None before it knows with whom.
    group: Option<Group<Topics>>,
    prepared: Option<(Node, Share)>,
    pub(crate) out: Option<Fate>,
    link: SimLink,
    court: Rc<RefCell<Court>>,
    parts: BTreeMap<u64, Taken>,
}

impl Member {
    pub(crate) fn new(link: &mut SimLink, court: &Rc<RefCell<Court>>) -> Member {
        let acks = link.open(ACKS, ACKS_WORDS).unwrap();
        let node = Node::new(link.node(), acks, Arc::new(|| {}));
        let geometry = control_geometry();
        let lines = link.open(CONTROL_LINES, SUBGROUP_LINES * LINE_WORDS).unwrap();
        let region = link.open(CONTROL_STREAM, geometry.words()).unwrap();
        let memory = SenderMemory::with_nulls(region, geometry);
        let control =
            Share { lines: (CONTROL_LINES, lines), memory: Some((CONTROL_STREAM, memory)) };
        Member {
            me: link.node(),
            group: None,
            prepared: Some((node, control)),
            out: None,
            link: link.clone(),
            court: Rc::clone(court),
            parts: BTreeMap::new(),
        }
    }

    /// Comes into its group.
    pub(crate) fn begin(&mut self, entrance: Entrance) {
        let (node, control) = self.prepared.take().unwrap();
        let local = matches!(entrance, Entrance::Local);
        let terms =
            Terms { entrance, weight: 1, patience: PATIENCE, ablation: Ablation::default() };
        let host = self.link.arbiter().filter(|_| local).map(|arbiter| {
            // Whoever stands still is found out by its silence.
            Host { arbiter, is_halted: Arc::new(|_| false) }
        });
        self.group = Some(Group::new(node, terms, Topics::default(), control, host));
    }

    pub(crate) fn group(&self) -> &Group<Topics> {
        self.group.as_ref().unwrap()
    }

    fn group_mut(&mut self) -> &mut Group<Topics> {
        self.group.as_mut().unwrap()
    }

    /// Reads a topic from some time on, and perhaps writes it.
    pub(crate) fn enter(&mut self, topic: u64, reads: bool, sends: bool) {
        if self.parts.contains_key(&topic) {
            return;
        }
        let lines_id = self.group_mut().node_mut().fresh_region();
        let lines = self.link.open(lines_id, SUBGROUP_LINES * LINE_WORDS).unwrap();
        let stream = sends.then(|| {
            let id = self.group_mut().node_mut().fresh_region();
            let geometry = Geometry::fitting(4096, 16, 64).unwrap();
            let region = self.link.open(id, geometry.words()).unwrap();
            (id, SenderMemory::with_nulls(region, geometry))
        });
        let share = Share { lines: (lines_id, lines), memory: stream.clone() };
        self.group_mut().bring(topic, share);
        let sends = stream.as_ref().map(|(id, _)| *id);
        self.group_mut().submit(&Part { topic, reads, sends, lines: lines_id }.encode());
        let taken =
            Taken { lines: lines_id, stream, inbox: None, epoch: 0, written: 0, leaves: false };
        self.parts.insert(topic, taken);
    }

    /// Wants no more of a topic.
    pub(crate) fn exit(&mut self, topic: u64) {
        if let Some(part) = self.parts.get_mut(&topic).filter(|part| !part.leaves) {
            (part.stream, part.leaves) = (None, true);
            let gone = Part { topic, reads: false, sends: None, lines: part.lines };
            self.group_mut().submit(&gone.encode());
        }
    }

    pub(crate) fn leave(&mut self) {
        self.group_mut().leave();
    }

    pub(crate) fn topics(&self) -> Vec<u64> {
        self.parts.keys().copied().collect()
    }

    pub(crate) fn writes(&self, topic: u64) -> bool {
        self.parts.get(&topic).is_some_and(|part| part.stream.is_some())
    }

    /// Its stream in a topic, and what it has written there.
    pub(crate) fn written(&self, topic: u64) -> (u64, u64) {
        let part = self.parts.get(&topic);
        let stream = |part: &Taken| part.stream.as_ref().map_or(0, |(region, _)| region.0);
        part.map_or((0, 0), |part| (stream(part), part.written))
    }

    /// Writes a message, if there is room for it.
    pub(crate) fn write(&mut self, topic: u64) {
        let me = self.me;
        let Some(part) = self.parts.get_mut(&topic) else { return };
        let Some((region, memory)) = &part.stream else { return };
        let Ok(mut claim) = memory.claim(32) else { return };
        let number = part.written;
        claim.bytes()[..16].copy_from_slice(&me.0.to_le_bytes());
        claim.bytes()[16..24].copy_from_slice(&number.to_le_bytes());
        claim.bytes()[24..].copy_from_slice(&(topic << 32 | region.0).to_le_bytes());
        let stream_number = claim.commit(32, |_, _| {});
        assert_eq!(stream_number, number);
        part.written += 1;
    }

    fn drain(&mut self, topic: u64) {
        let Some(part) = self.parts.get(&topic) else { return };
        let Some(inbox) = &part.inbox else { return };
        while let Some(record) = inbox.take() {
            let bytes = record.bytes();
            let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
            assert_eq!((bytes.len(), word(24) >> 32), (32, topic), "a message of this topic");
            let stream = word(24) & 0xffff_ffff;
            assert_eq!(record.number(), word(16), "numbers run across epochs");
            let writer = NodeId(u128::from_le_bytes(bytes[..16].try_into().unwrap()));
            let what = Delivered { writer: (writer, stream), number: word(16) };
            self.court.borrow_mut().delivers(self.me, (topic, part.lines), part.epoch, what);
        }
    }

    fn take_in(&mut self, event: GroupEvent) {
        match event {
            GroupEvent::Begun { key, subgroup, epoch, layout, .. } => {
                let reads = layout.seat_of(self.me).is_some_and(|seat| seat.reads);
                self.drain(key);
                let Member { parts, group, .. } = self;
                let Some(part) = parts.get_mut(&key) else { return };
                part.epoch = epoch;
                if reads && part.inbox.is_none() {
                    let node = group.as_mut().unwrap().node_mut();
                    part.inbox = node.add_subgroup_reader(subgroup);
                }
                let who = (self.me, (key, part.lines));
                self.court.borrow_mut().begins(who, part.epoch, &layout);
            }
            GroupEvent::Left { key } => {
                self.drain(key);
                if let Some(part) = self.parts.remove(&key) {
                    self.court.borrow_mut().left(self.me, (key, part.lines));
                }
            }
            GroupEvent::Installed(view) => self.court.borrow_mut().installs(self.me, &view),
            GroupEvent::Out(fate) => self.out = Some(fate),
            GroupEvent::Node(NodeEvent::Faulty { peer, fault }) => {
                panic!("{:?} finds {peer:?} faulty: {fault}", self.me);
            }
            GroupEvent::Direct { .. } => unreachable!("nobody says anything directly"),
            GroupEvent::Node(_) | GroupEvent::Changed | GroupEvent::Gathered { .. } => {}
        }
    }
}

impl Machine for Member {
    fn handle(&mut self, event: LinkEvent, effects: &mut Effects) {
        self.group_mut().handle(event, effects);
    }

    fn turn(&mut self, now: Time, effects: &mut Effects) -> usize {
        if self.out.is_some() {
            return 0;
        }
        let done = self.group_mut().turn(now, effects);
        // Deliveries of this turn are of the epoch before any that begins in it.
        let mut events = Vec::new();
        while let Some(event) = self.group_mut().next_event() {
            events.push(event);
        }
        if !events.iter().any(|event| matches!(event, GroupEvent::Begun { .. })) {
            self.topics().into_iter().for_each(|topic| self.drain(topic));
        }
        let count = events.len();
        events.into_iter().for_each(|event| self.take_in(event));
        done + count
    }

    fn interest(&self) -> Interest {
        self.group().interest()
    }

    fn wants_turn_at(&self) -> Option<Time> {
        self.group().wants_turn_at().filter(|_| self.out.is_none())
    }
}
