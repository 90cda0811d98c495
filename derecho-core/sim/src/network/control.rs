//! Control messages: the presence of nodes, open regions, and notes.
//!
//! Owns: their order in a channel and the effect of their arrival. Never does: order anything
//! relative to one-sided writes, except that the goodbye of a node comes after all its writes.

use derecho_core::ids::{Peer, RegionId};
use derecho_core::link::{Evidence, LinkError, LinkEvent, NOTE_LIMIT};
use derecho_core::memory::{OwnRegion, Replica, WORD};

use super::{Event, Network, NetworkStep, RegionCopy};
use crate::link::NetworkMode;
use crate::random::mix;

/// Interval at which a goodbye checks whether everything before it has landed.
const GOODBYE_LOOK_NS: u64 = 100;

/// Delay of a control message beyond which its sender and its receiver count as held up. Peers may
/// take them for silent.
pub(super) const HELD_UP_NS: u64 = 500_000;

/// Message between the links of two nodes.
pub(super) enum Control {
    /// The sender is up.
    Up,
    /// The sender has opened a region.
    Region(RegionId, Replica),
    /// The sender can receive a region of the receiver's.
    Ready(RegionId),
    /// The sender has closed a region.
    Closed(RegionId),
    /// A note.
    Note(Vec<u8>),
    /// The sender leaves.
    Goodbye,
}

impl Control {
    /// Content of the message in the trace.
    fn digest(&self) -> [u64; 2] {
        match self {
            Control::Up => [0, 0],
            Control::Region(region, own) => [1, region.0 ^ (own.words() as u64).rotate_left(32)],
            Control::Ready(region) => [2, region.0],
            Control::Closed(region) => [3, region.0],
            Control::Note(bytes) => {
                [4, bytes.iter().fold(bytes.len() as u64, |sum, &byte| mix(sum ^ u64::from(byte)))]
            }
            Control::Goodbye => [5, 0],
        }
    }

    fn bytes(&self) -> u64 {
        match self {
            Control::Note(bytes) => bytes.len() as u64,
            _ => 4 * WORD as u64,
        }
    }
}

impl Network {
    pub(crate) fn note(&mut self, node: usize, peer: Peer, bytes: &[u8]) -> Result<(), LinkError> {
        let to = self.check_peer(node, peer)?;
        if bytes.len() > NOTE_LIMIT {
            return Err(LinkError::NoteTooLong(bytes.len()));
        }
        self.nodes[node].counters.notes += 1;
        self.send_control(node, to, Control::Note(bytes.to_vec()));
        Ok(())
    }

    /// Says goodbye to every peer; the node does nothing more.
    pub(crate) fn leave(&mut self, node: usize) {
        if !self.nodes[node].up {
            return;
        }
        for other in 0..self.nodes.len() {
            if other != node {
                self.send_control(node, other, Control::Goodbye);
            }
        }
        self.nodes[node].up = false;
        self.host.node_down(node, true);
        self.events += 1;
        self.note_trace(&[10, node as u64]);
    }

    /// Rings for peers that are up.
    pub(crate) fn ring(&mut self, node: usize, peers: &[Peer], hint: bool) {
        for &peer in peers {
            let Ok(to) = self.check_peer(node, peer) else { continue };
            let at = self.now.saturating_add(self.adverse_delay(node, to));
            self.nodes[node].counters.rings += 1;
            self.schedule(at, Event::Bell { from: node, to, hint });
        }
    }

    pub(super) fn hear_bell(&mut self, from: usize, to: usize, hint: bool) -> NetworkStep {
        if !self.nodes[to].up {
            return NetworkStep::Unseen;
        }
        self.events += 1;
        self.note_trace(&[6, from as u64, to as u64, u64::from(hint)]);
        NetworkStep::Rung { node: to, hint }
    }

    /// Sends a control message, behind all that are on their way.
    pub(super) fn send_control(&mut self, from: usize, to: usize, message: Control) {
        if !self.nodes[to].up || self.channels[from][to].down {
            return;
        }
        let bytes = message.bytes();
        self.channels[from][to].control.push_back(message);
        if !self.channels[from][to].cut {
            self.plan_control(from, to, bytes);
        }
    }

    fn plan_control(&mut self, from: usize, to: usize, bytes: u64) {
        let delay = match self.mode {
            NetworkMode::Adversarial(_) => self.adverse_delay(from, to),
            NetworkMode::Costed => self.costs.write_latency_ns(bytes, from, to),
        };
        let channel = &mut self.channels[from][to];
        let at = channel.control_last.max(self.now.saturating_add(delay));
        channel.control_last = at;
        let plan = channel.control_plan;
        if delay > HELD_UP_NS {
            for node in [from, to] {
                let until = &mut self.nodes[node].held_up_until;
                *until = at.max(*until);
            }
        }
        self.schedule(at, Event::Control { from, to, plan });
    }

    /// Time until which control messages from or to a node were late.
    pub(crate) fn held_up_until(&self, node: usize) -> u64 {
        self.nodes[node].held_up_until
    }

    /// Gives every control message of a reopened channel a new moment.
    pub(super) fn replan_control(&mut self, from: usize, to: usize) {
        let channel = &mut self.channels[from][to];
        channel.control_last = 0;
        let lengths: Vec<u64> = channel.control.iter().map(Control::bytes).collect();
        for bytes in lengths {
            self.plan_control(from, to, bytes);
        }
    }

    pub(super) fn deliver_control(&mut self, from: usize, to: usize, plan: u32) -> NetworkStep {
        let channel = &mut self.channels[from][to];
        if channel.control_plan != plan || channel.down || !self.nodes[to].up {
            return NetworkStep::Unseen;
        }
        let Some(message) = channel.control.pop_front() else { return NetworkStep::Unseen };
        if matches!(message, Control::Goodbye) && !channel.writes.is_empty() {
            // The sender said goodbye after its last write: the writes arrive first.
            let at = channel.writes.last_landing().max(self.now + GOODBYE_LOOK_NS);
            channel.control.push_front(message);
            self.schedule(at, Event::Control { from, to, plan });
            return NetworkStep::Unseen;
        }
        self.events += 1;
        let [kind, content] = message.digest();
        self.note_trace(&[3, from as u64, to as u64, kind, content]);
        match message {
            Control::Up => self.peer_up(from, to),
            Control::Region(region, own) => self.region_up(from, to, region, own),
            Control::Ready(region) => self.region_ready(from, to, region),
            Control::Closed(region) => {
                self.channels[from][to].replicas.remove(&region);
                let peer = self.handle(to, from);
                self.tell(to, LinkEvent::RegionDown { peer, region });
            }
            Control::Note(bytes) => {
                let peer = self.handle(to, from);
                self.tell(to, LinkEvent::Note { peer, bytes });
            }
            Control::Goodbye => return self.deliver_evidence(to, from, Evidence::Left, None),
        }
        NetworkStep::Arrived(to)
    }

    fn peer_up(&mut self, from: usize, to: usize) {
        let node = self.nodes[from].id;
        let node_state = &mut self.nodes[to];
        let peer = Peer(u32::try_from(node_state.peers.len()).expect("fewer than 2^32 nodes"));
        node_state.peers.push(from);
        node_state.handles[from] = Some(peer);
        let open: Vec<(RegionId, Replica)> = node_state
            .regions
            .iter()
            .filter_map(|(&region, own)| own.clone().map(|own| (region, own)))
            .collect();
        self.channels[from][to].up = true;
        self.tell(to, LinkEvent::PeerUp { peer, node, sharing: self.sharing, place: None });
        for (region, own) in open {
            self.send_control(to, from, Control::Region(region, own));
        }
    }

    fn region_up(&mut self, from: usize, to: usize, region: RegionId, source: Replica) {
        let memory = (!self.shares_memory()).then(|| OwnRegion::heap(source.words()));
        // The contract leaves open whether a replica appears zeroed or with the words as they are.
        if let Some(memory) = &memory
            && matches!(self.mode, NetworkMode::Adversarial(_))
            && self.random.one_in(2)
        {
            for index in 0..source.words() {
                memory.word(index).put(source.load(index));
            }
        }
        let replica = memory.as_ref().map_or_else(|| source.clone(), OwnRegion::replica);
        self.channels[from][to].replicas.insert(region, RegionCopy { source, memory });
        let peer = self.handle(to, from);
        self.tell(to, LinkEvent::RegionUp { peer, region, replica });
        self.send_control(to, from, Control::Ready(region));
    }

    fn region_ready(&mut self, from: usize, to: usize, region: RegionId) {
        if self.nodes[to].regions.get(&region).is_some_and(Option::is_some) {
            self.channels[to][from].ready.insert(region);
            let peer = self.handle(to, from);
            self.tell(to, LinkEvent::RegionReady { peer, region });
        }
    }
}
