//! Topics whose samples come in one order: which participants share one, and when it begins.
//!
//! Owns: the memberships of this participant in such topics. Never does: let a topic begin before
//! exactly those are there that it was made for.
//!
//! The members of an ordered topic are fixed when it is made, by their number ([`Founders`]): every
//! participant announces what it writes and reads, and whoever sees that all are there founds the
//! subgroup. All see the same announcements, so all found the same one.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use derecho_core::ids::{NodeId, Peer, RegionId};
use derecho_core::machine::Effects;
use derecho_core::memory::OwnRegion;
use derecho_core::multicast::ablation::Ablation;
use derecho_core::multicast::claim::SenderMemory;
use derecho_core::multicast::inbox::Inbox;
use derecho_core::multicast::subgroup::{Level, Terms};
use derecho_core::node::{Charter, Membership, Node, Origin, Share, SubgroupId};

use super::endpoint::{Endpoint, EndpointKind, Founders, Match};
use super::machine::{ReaderShared, ReaderSource, SourceId, WriterShared};

/// One participant's part in an ordered topic.
#[derive(Clone, Copy, Default)]
struct Part {
    stream: Option<RegionId>,
    reads: bool,
    lines: u64,
}

/// A participant's membership in an ordered topic.
pub(crate) struct Group {
    endpoint: Endpoint,
    founders: Founders,
    lines: (RegionId, OwnRegion),
    memory: Option<(RegionId, SenderMemory)>,
    reads: bool,
    ablation: Ablation,
    subgroup: Option<SubgroupId>,
    /// Of the founded subgroup's senders, by rank.
    senders: Arc<[NodeId]>,
    readers: BTreeMap<u64, (Arc<ReaderShared>, Option<Arc<Inbox>>)>,
    writers: BTreeMap<u64, Arc<WriterShared>>,
}

impl Group {
    pub(crate) fn new(
        endpoint: Endpoint,
        founders: Founders,
        lines: (RegionId, OwnRegion),
        ablation: Ablation,
    ) -> Group {
        Group {
            endpoint,
            founders,
            lines,
            memory: None,
            reads: false,
            ablation,
            subgroup: None,
            senders: Arc::new([]),
            readers: BTreeMap::new(),
            writers: BTreeMap::new(),
        }
    }

    /// Whether an endpoint of this participant goes with those that it has.
    pub(crate) fn check(&self, endpoint: &Endpoint) -> Result<(), String> {
        match self.endpoint.matches(endpoint) {
            Match::Yes => Ok(()),
            Match::Inconsistent(why) => Err(why),
            Match::OtherTopic => Err("it is another topic".to_owned()),
        }
    }

    /// Whether this participant may take a part that it does not have yet: not once the topic has
    /// begun without it.
    pub(crate) fn is_late(&self, kind: EndpointKind) -> bool {
        let has = match kind {
            EndpointKind::Writer => self.memory.is_some(),
            EndpointKind::Reader => self.reads,
        };
        self.subgroup.is_some() && !has
    }

    pub(crate) fn lines(&self) -> RegionId {
        self.lines.0
    }

    pub(crate) fn memory(&self) -> Option<&(RegionId, SenderMemory)> {
        self.memory.as_ref()
    }

    pub(crate) fn subgroup(&self) -> Option<SubgroupId> {
        self.subgroup
    }

    pub(crate) fn add_writer(
        &mut self,
        id: u64,
        shared: Arc<WriterShared>,
        memory: (RegionId, SenderMemory),
    ) {
        self.memory.get_or_insert(memory);
        self.writers.insert(id, shared);
    }

    pub(crate) fn add_reader(&mut self, id: u64, shared: Arc<ReaderShared>, node: &mut Node) {
        self.reads = true;
        let inbox = self.subgroup.and_then(|subgroup| node.add_subgroup_reader(subgroup));
        if let Some(inbox) = &inbox {
            self.connect(id, &shared, inbox);
        }
        self.readers.insert(id, (shared, inbox));
    }

    pub(crate) fn remove(&mut self, id: u64, node: &mut Node) {
        self.writers.remove(&id);
        if let Some((_, Some(inbox))) = self.readers.remove(&id)
            && let Some(subgroup) = self.subgroup
        {
            node.remove_subgroup_reader(subgroup, &inbox);
        }
    }

    fn connect(&self, id: u64, shared: &ReaderShared, inbox: &Arc<Inbox>) {
        let writers = Arc::clone(&self.senders);
        let source = ReaderSource {
            id: SourceId::Group(id),
            writers,
            inbox: Arc::clone(inbox),
            ended: false,
        };
        shared.sources.lock().unwrap_or_else(PoisonError::into_inner).push(source);
        shared.changes.fetch_add(1, Ordering::Release);
        shared.matched.store(self.senders.len() as u32, Ordering::Release);
    }

    /// Founds the subgroup if all are there. `remote` is what peers have announced.
    pub(crate) fn try_found(
        &mut self,
        node: &mut Node,
        peers: &BTreeMap<Peer, NodeId>,
        remote: &BTreeMap<Peer, BTreeMap<u64, Endpoint>>,
        effects: &mut Effects,
    ) {
        if self.subgroup.is_some() {
            return;
        }
        let mut parts: BTreeMap<NodeId, (Origin, Part)> = BTreeMap::new();
        let stream = self.memory.as_ref().map(|(region, _)| *region);
        let own = Part { stream, reads: self.reads, lines: self.lines.0.0 };
        parts.insert(node.id(), (Origin::Own, own));
        for (peer, announced) in remote {
            let Some(id) = peers.get(peer) else { continue };
            let ours = announced.values().filter(|e| self.endpoint.matches(e) == Match::Yes);
            for endpoint in ours {
                let (_, part) = parts.entry(*id).or_insert((Origin::Peer(*peer), Part::default()));
                part.lines = endpoint.lines;
                match endpoint.kind {
                    EndpointKind::Writer => part.stream = Some(RegionId(endpoint.stream)),
                    EndpointKind::Reader => part.reads = true,
                }
            }
        }
        let writing = parts.values().filter(|(_, part)| part.stream.is_some()).count();
        let reading = parts.values().filter(|(_, part)| part.reads).count();
        let Founders { writers, readers } = self.founders;
        if (writing, reading) != (writers as usize, readers as usize) {
            return;
        }
        let charter = self.charter(&parts);
        let memory = self.memory.as_ref().map(|(_, memory)| memory.clone());
        let share = Share { lines: self.lines.1.clone(), memory };
        let sending = parts.iter().filter(|(_, (_, part))| part.stream.is_some());
        self.senders = sending.map(|(node, _)| *node).collect();
        self.subgroup = node.found(charter, share, effects);
    }

    fn charter(&self, parts: &BTreeMap<NodeId, (Origin, Part)>) -> Charter {
        let mut name = Name::new();
        name.add(self.endpoint.topic.as_bytes());
        let mut members = Vec::new();
        for (node, (origin, part)) in parts {
            name.add(&node.0.to_le_bytes());
            name.add(&[u8::from(part.reads), u8::from(part.stream.is_some())]);
            members.push(Membership {
                origin: *origin,
                reads: part.reads,
                sends: part.stream,
                lines: RegionId(part.lines),
            });
        }
        let terms = Terms { level: Level::Atomic, ablation: self.ablation };
        Charter { name: name.0, terms, members }
    }

    /// The subgroup is at work.
    pub(crate) fn founded(&mut self, node: &mut Node) {
        let Some(subgroup) = self.subgroup else { return };
        let mut readers = std::mem::take(&mut self.readers);
        for (id, (shared, inbox)) in &mut readers {
            *inbox = node.add_subgroup_reader(subgroup);
            if let Some(inbox) = inbox {
                self.connect(*id, shared, inbox);
            }
        }
        self.readers = readers;
    }

    /// So many reading members have begun.
    pub(crate) fn gathered(&self, readers: usize) {
        for shared in self.writers.values() {
            shared.matched.store(readers as u32, Ordering::Release);
        }
    }

    /// A member is gone that the others need.
    pub(crate) fn wedged(&self) {
        tracing::warn!(topic = %self.endpoint.topic, "a participant of an atomic topic is gone");
        for shared in self.writers.values() {
            shared.broken.store(true, Ordering::Release);
        }
        for (shared, _) in self.readers.values() {
            shared.broken.store(true, Ordering::Release);
        }
    }
}

/// A name that follows from what it was made of: FNV-1a, the same in every process.
struct Name(u64);

impl Name {
    fn new() -> Name {
        Name(0xcbf2_9ce4_8422_2325)
    }

    fn add(&mut self, bytes: &[u8]) {
        // The length first, so that two parts are not taken for two others.
        for byte in (bytes.len() as u64).to_le_bytes().iter().chain(bytes) {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}
