//! Subgroups on their way in: from a charter that all members agree on to the first delivery.
//!
//! Owns: charters that wait for what peers have to show first. Never does: decide who is a member.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::{Node, NodeEvent, Origin, PeerState};
use crate::ids::{Peer, RegionId};
use crate::link::WordRange;
use crate::machine::{Effects, Target};
use crate::memory::{LINE_WORDS, OwnRegion};
use crate::multicast::claim::SenderMemory;
use crate::multicast::geometry::Geometry;
use crate::multicast::inbox::Inbox;
use crate::multicast::subgroup::{Founder, OwnLines, Subgroup, Terms, Upcall};

/// Names a subgroup of this node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SubgroupId(u64);

/// One member, as its charter names it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Membership {
    /// Who.
    pub origin: Origin,
    /// Whether it delivers.
    pub reads: bool,
    /// The region of its stream, if it sends.
    pub sends: Option<RegionId>,
    /// The region of its lines, one for each member.
    pub lines: RegionId,
}

/// What all members of a subgroup have to agree on. They list the members in the same order.
#[derive(Clone, Debug)]
pub struct Charter {
    /// What the subgroup is called in every member's lines. Members with another charter have
    /// another name, and are not believed.
    pub name: u64,
    /// What it promises.
    pub terms: Terms,
    /// Its members; this node is one of them.
    pub members: Vec<Membership>,
}

/// What this node brings into a subgroup.
pub struct Share {
    /// Its lines, a [`LINE_WORDS`] for each member.
    pub lines: OwnRegion,
    /// Its memory, if it sends.
    pub memory: Option<SenderMemory>,
}

/// A subgroup that waits for what its members have to show.
pub(super) struct Pending {
    id: SubgroupId,
    charter: Charter,
    share: Share,
}

/// A subgroup at work.
pub(super) struct Founded {
    pub(super) id: SubgroupId,
    pub(super) subgroup: Subgroup,
    readers: usize,
    gathered: bool,
    wedged: bool,
}

impl Founded {
    fn new(id: SubgroupId, subgroup: Subgroup) -> Founded {
        Founded { id, subgroup, readers: 0, gathered: false, wedged: false }
    }
}

impl Pending {
    fn own(&self) -> Option<&Membership> {
        self.charter.members.iter().find(|member| member.origin == Origin::Own)
    }

    fn stream(&self) -> Option<RegionId> {
        self.own().and_then(|own| own.sends)
    }
}

impl Node {
    /// Founds a subgroup. [`NodeEvent::Founded`] follows when all that has to be known of its
    /// members is there. `None` if this node is not one of them, or brings not what the charter
    /// says.
    pub fn found(
        &mut self,
        charter: Charter,
        share: Share,
        effects: &mut Effects,
    ) -> Option<SubgroupId> {
        let id = SubgroupId(self.next_subgroup);
        let fits = share.lines.words() >= charter.members.len() * LINE_WORDS;
        let pending = Pending { id, charter, share };
        let own = pending.own().filter(|_| fits)?;
        if own.sends.is_some() != pending.share.memory.is_some() {
            return None;
        }
        if let Some(stream) = pending.stream() {
            for (&peer, state) in &self.peers {
                if state.ready.contains(&stream) {
                    introduce(peer, state, stream, effects);
                }
            }
        }
        self.next_subgroup += 1;
        self.pending.push(pending);
        self.unsettled = true;
        Some(id)
    }

    fn subgroup(&self, id: SubgroupId) -> Option<&Subgroup> {
        self.subgroups.iter().find(|founded| founded.id == id).map(|founded| &founded.subgroup)
    }

    fn subgroup_mut(&mut self, id: SubgroupId) -> Option<&mut Subgroup> {
        let founded = self.subgroups.iter_mut().find(|founded| founded.id == id);
        founded.map(|founded| &mut founded.subgroup)
    }

    /// A queue for a reader of a founded subgroup; see [`Subgroup::add_reader`].
    pub fn add_subgroup_reader(&mut self, id: SubgroupId) -> Option<Arc<Inbox>> {
        self.subgroup_mut(id)?.add_reader()
    }

    /// A reader of a subgroup wants no more.
    pub fn remove_subgroup_reader(&mut self, id: SubgroupId, inbox: &Arc<Inbox>) {
        if let Some(subgroup) = self.subgroup_mut(id) {
            subgroup.remove_reader(inbox);
        }
    }

    /// Has `upcall` called after each delivery of a subgroup.
    pub fn set_subgroup_upcall(&mut self, id: SubgroupId, upcall: Upcall) {
        if let Some(subgroup) = self.subgroup_mut(id) {
            subgroup.set_upcall(upcall);
        }
    }

    /// Whether all that this node has committed to a subgroup is delivered by every member.
    pub fn is_subgroup_acknowledged(&self, id: SubgroupId) -> bool {
        self.subgroup(id).is_none_or(Subgroup::is_acknowledged)
    }

    /// Positions of a subgroup's order that this node has delivered.
    pub fn delivered(&self, id: SubgroupId) -> u64 {
        self.subgroup(id).map_or(0, Subgroup::delivered)
    }

    /// Declares that this node will send nothing in so many rounds of a subgroup's order, so that
    /// nobody has to wait for its nulls. What it sends nevertheless comes after them.
    pub fn declare_silence(&mut self, id: SubgroupId, rounds: u64) -> bool {
        self.subgroup_mut(id).is_some_and(|subgroup| subgroup.declare_silence(rounds))
    }

    pub(super) fn subgroup_region_ready(
        &mut self,
        peer: Peer,
        region: RegionId,
        effects: &mut Effects,
    ) {
        let Node { peers, pending, subgroups, .. } = self;
        if let Some(state) = peers.get(&peer)
            && pending.iter().any(|pending| pending.stream() == Some(region))
        {
            introduce(peer, state, region, effects);
        }
        for founded in subgroups {
            founded.subgroup.region_ready(peer, region, effects);
        }
    }

    /// Begins with those subgroups whose members have shown all that has to be known of them.
    pub(super) fn settle_subgroups(&mut self) -> usize {
        let mut settled = 0;
        for pending in core::mem::take(&mut self.pending) {
            let Some(subgroup) = self.begin(&pending) else {
                self.unsettled = true;
                self.pending.push(pending);
                continue;
            };
            let id = pending.id;
            self.subgroups.push(Founded::new(id, subgroup));
            self.events.push_back(NodeEvent::Founded(id));
            settled += 1;
        }
        for founded in &mut self.subgroups {
            if !founded.gathered {
                founded.gathered = founded.subgroup.is_gathered();
                self.unsettled |= !founded.gathered;
            }
            let readers = founded.subgroup.readers();
            if readers != founded.readers {
                founded.readers = readers;
                let (id, senders) = (founded.id, founded.subgroup.other_senders());
                self.events.push_back(NodeEvent::Gathered { subgroup: id, readers, senders });
            }
            if founded.subgroup.is_wedged() && !founded.wedged {
                founded.wedged = true;
                self.events.push_back(NodeEvent::Wedged(founded.id));
            }
        }
        settled
    }

    /// The subgroup of a charter, if its members have shown what has to be known of them.
    fn begin(&self, pending: &Pending) -> Option<Subgroup> {
        let Pending { charter, share, .. } = pending;
        let own_stream = pending.stream();
        let me = charter.members.iter().position(|member| member.origin == Origin::Own)?;
        let own_lines = charter.members[me].lines;
        let mut founders = Vec::new();
        for member in &charter.members {
            let founder = match member.origin {
                Origin::Own => Founder {
                    target: None,
                    place: None,
                    reads: member.reads,
                    sends: share.memory.as_ref().map(|m| (m.region().replica(), m.geometry())),
                    ready: true,
                    lines: share.lines.replica(),
                    first_line: 0,
                },
                Origin::Peer(peer) => {
                    let state = self.peers.get(&peer)?;
                    // The first turn tells it how far this node has come.
                    state.ready.contains(&own_lines).then_some(())?;
                    let sends = match member.sends {
                        Some(stream) => {
                            let replica = state.replicas.get(&stream)?.clone();
                            let geometry = Geometry::read(&replica).ok().flatten()?;
                            Some((replica, geometry))
                        }
                        None => None,
                    };
                    Founder {
                        target: Some(Target { peer, sharing: state.sharing }),
                        place: state.place,
                        reads: member.reads,
                        sends,
                        ready: own_stream.is_none_or(|stream| state.ready.contains(&stream)),
                        lines: state.replicas.get(&member.lines)?.clone(),
                        first_line: 0,
                    }
                }
            };
            founders.push(founder);
        }
        let region = share.lines.clone();
        let lines = OwnLines { region, id: own_lines, first: 0, name: charter.name };
        let memory = share.memory.clone().zip(own_stream);
        Subgroup::new(charter.terms, founders, me, memory, &lines, &self.waker)
    }

    pub(super) fn wedge(&mut self, peer: Peer) {
        for founded in &mut self.subgroups {
            founded.subgroup.peer_down(peer);
        }
        self.unsettled = true;
    }
}

/// Shows the header of a stream to a peer that can receive it.
fn introduce(peer: Peer, state: &PeerState, stream: RegionId, effects: &mut Effects) {
    let target = Target { peer, sharing: state.sharing };
    effects.write(target, stream, WordRange::new(0, LINE_WORDS));
}
