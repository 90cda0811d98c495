//! Foundation of subgroups: from a definition that all members agree on to the first delivery.
//!
//! Owns: definitions that wait for regions of peers. Never does: decide the membership.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::activity::SubgroupActivity;
use super::epochs::{EpochDescription, EpochMember, NextEpoch};
use super::{CHANGES, FoundFault, Node, NodeEvent, StreamOrigin};
use crate::ids::{Peer, RegionId, Time};
use crate::machine::{Effects, Target};
#[cfg(doc)]
use crate::memory::LINE_WORDS;
use crate::memory::OwnRegion;
use crate::multicast::claim::SenderMemory;
use crate::multicast::geometry::Geometry;
use crate::multicast::inbox::Inbox;
use crate::multicast::send::introduce;
use crate::multicast::subgroup::epoch::{EpochOpening, OpeningMemory, SkippedEpoch};
use crate::multicast::subgroup::{
    OpeningMember, OwnLines, SentStream, Subgroup, SubgroupConfig, Upcall,
};

/// Identifier of a subgroup at this node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SubgroupId(u64);

/// Role of one member in a subgroup definition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemberRole {
    /// Member.
    pub origin: StreamOrigin,
    /// Whether it delivers.
    pub reads: bool,
    /// The region of its stream, if it sends.
    pub sends: Option<RegionId>,
    /// Region of the member's lines, one for each member.
    pub lines: RegionId,
}

/// Definition of a subgroup, on which all founders agree. All founders list the members in the same
/// order. The definition is the subgroup's epoch 0, in which the line slot of a member is its index
/// in this list.
#[derive(Clone, Debug)]
pub struct SubgroupDefinition {
    /// Name of the subgroup in every member's lines. Lines of members with another definition have
    /// another name and are ignored.
    pub name: u64,
    /// Delivery level and mechanisms.
    pub config: SubgroupConfig,
    /// Members, including this node.
    pub members: Vec<MemberRole>,
}

/// Memory that this node brings into a subgroup.
pub struct SubgroupMemory {
    /// Region of this node's lines, with [`LINE_WORDS`] words for each founder, or with
    /// [`SUBGROUP_LINES`](crate::multicast::subgroup::SUBGROUP_LINES) lines if another
    /// epoch may follow.
    pub lines: OwnRegion,
    /// Memory of this node's stream, if it sends.
    pub memory: Option<SenderMemory>,
}

/// Subgroup that waits for regions of its members.
pub(super) struct PendingSubgroup {
    id: SubgroupId,
    config: SubgroupConfig,
    epoch: EpochDescription,
    memory: SubgroupMemory,
    /// Epochs with this node as a sender that have ended before this node began them.
    skipped: Vec<EpochDescription>,
    /// Whether the node was told to wedge before the subgroup has begun.
    pub(super) wedged: bool,
}

impl PendingSubgroup {
    pub(super) fn id(&self) -> SubgroupId {
        self.id
    }

    pub(super) fn epoch(&self) -> &EpochDescription {
        &self.epoch
    }

    /// Notes an epoch that has ended before this node began it.
    pub(super) fn note_skipped(&mut self, epoch: EpochDescription) {
        self.skipped.extend(Some(epoch).filter(|epoch| epoch.stream().is_some()));
    }
}

/// A subgroup at work.
pub(super) struct FoundedSubgroup {
    pub(super) id: SubgroupId,
    pub(super) subgroup: Subgroup,
    pub(super) activity: SubgroupActivity,
    /// Next epoch.
    pub(super) next: Option<NextEpoch>,
    /// Epochs with this node as a sender that have ended before this node began them.
    pub(super) skipped: Vec<EpochDescription>,
    readers: usize,
    gathered: bool,
    stalled: bool,
}

impl FoundedSubgroup {
    /// Runs a turn of this subgroup, if it has work.
    #[inline(always)]
    pub(super) fn turn(
        &mut self,
        now: Time,
        effects: &mut Effects,
        faults: &mut Vec<FoundFault>,
    ) -> usize {
        effects.work().cells += self.subgroup.senders() as u64;
        if !self.subgroup.has_news() {
            return 0;
        }
        self.subgroup.turn(now, effects, &mut |peer, fault| faults.push(FoundFault { peer, fault }))
    }

    fn new(id: SubgroupId, subgroup: Subgroup) -> FoundedSubgroup {
        let rest = SubgroupActivity::new(subgroup.senders());
        let (next, skipped) = (None, Vec::new());
        FoundedSubgroup {
            id,
            subgroup,
            activity: rest,
            next,
            skipped,
            readers: 0,
            gathered: false,
            stalled: false,
        }
    }

    /// Notes an epoch that has ended before this node began it, whether or not this node was told.
    /// Members that leave by that epoch may have been told (I-260).
    pub(super) fn note_skipped(&mut self, epoch: EpochDescription) {
        if let Some(own) = epoch.own_member() {
            self.subgroup.expect_partings_in(epoch.number, epoch.name, own.slot);
        }
        self.skipped.extend(Some(epoch).filter(|epoch| epoch.stream().is_some()));
    }

    /// Resets the state for another epoch.
    pub(super) fn begin_again(&mut self) {
        (self.readers, self.gathered, self.stalled) = (0, false, false);
        self.skipped.clear();
        self.activity.begin_again(self.subgroup.senders());
    }
}

impl Node {
    /// Founds a subgroup. [`NodeEvent::Founded`] follows when the required regions of its members
    /// are present. `None` if this node is no member, or if its memory does not match the
    /// definition.
    pub fn found(
        &mut self,
        definition: SubgroupDefinition,
        memory: SubgroupMemory,
        effects: &mut Effects,
    ) -> Option<SubgroupId> {
        let SubgroupDefinition { name, config, members } = definition;
        let seats = members.into_iter().enumerate();
        let seats = seats.map(|(slot, role)| EpochMember { slot, role, start: None }).collect();
        self.join(config, EpochDescription { number: 0, name, members: seats }, memory, effects)
    }

    /// Joins a subgroup in this epoch, whose members name its beginning in each stream.
    /// [`NodeEvent::Founded`] follows. `None` as for [`Node::found`].
    pub fn join(
        &mut self,
        config: SubgroupConfig,
        epoch: EpochDescription,
        memory: SubgroupMemory,
        effects: &mut Effects,
    ) -> Option<SubgroupId> {
        let id = SubgroupId(self.next_subgroup);
        let own = epoch.own_member().filter(|_| epoch.fits(&memory.lines))?;
        if own.role.sends.is_some() != memory.memory.is_some() {
            return None;
        }
        self.introduce_to_all(own.role.sends, effects);
        self.next_subgroup += 1;
        self.pending.push(PendingSubgroup {
            id,
            config,
            epoch,
            memory,
            skipped: Vec::new(),
            wedged: false,
        });
        self.unsettled = true;
        Some(id)
    }

    /// Shows the header of this node's stream to all peers that can receive it.
    pub(super) fn introduce_to_all(&self, stream: Option<RegionId>, effects: &mut Effects) {
        let Some(stream) = stream else { return };
        for (&peer, state) in self.peers.iter().filter(|(_, state)| state.ready.contains(&stream)) {
            introduce(stream, Target { peer, sharing: state.sharing }, effects);
        }
    }

    pub(super) fn subgroup(&self, id: SubgroupId) -> Option<&Subgroup> {
        self.numbers.get(&id).map(|&number| &self.subgroups[number].subgroup)
    }

    /// Returns a subgroup for modification; the next turn looks at it.
    pub(super) fn subgroup_mut(&mut self, id: SubgroupId) -> Option<&mut Subgroup> {
        self.founded_mut(id).map(|founded| &mut founded.subgroup)
    }

    /// Returns a subgroup that receives an instruction; the next turn looks at it (I-29).
    pub(super) fn founded_mut(&mut self, id: SubgroupId) -> Option<&mut FoundedSubgroup> {
        let number = *self.numbers.get(&id)?;
        Some(self.instruct(number))
    }

    pub(super) fn instruct(&mut self, number: usize) -> &mut FoundedSubgroup {
        let Node { subgroups, activity, unsettled_subgroups: astir, .. } = self;
        activity.touch(number, &mut subgroups[number]);
        astir.insert(number);
        &mut subgroups[number]
    }

    pub(super) fn pending_mut(&mut self, id: SubgroupId) -> Option<&mut PendingSubgroup> {
        self.pending.iter_mut().find(|pending| pending.id == id)
    }

    /// Replaces the epoch of a pending subgroup, or cancels its beginning.
    pub(super) fn replace_pending(
        &mut self,
        index: usize,
        epoch: EpochDescription,
        memory: Option<SenderMemory>,
        effects: &mut Effects,
    ) -> bool {
        let pending = &mut self.pending[index];
        let memory = memory.or_else(|| pending.memory.memory.clone());
        let Some(own) = epoch.own_member() else {
            let pending = self.pending.remove(index);
            self.events.push_back(NodeEvent::Left(pending.id));
            return true;
        };
        let sends = own.role.sends;
        if !epoch.fits(&pending.memory.lines) || sends.is_some() && memory.is_none() {
            return false;
        }
        pending.memory.memory = memory.filter(|_| sends.is_some());
        let before = core::mem::replace(&mut pending.epoch, epoch);
        pending.note_skipped(before);
        pending.wedged = false;
        self.introduce_to_all(sends, effects);
        self.unsettled = true;
        true
    }

    /// Adds a queue for a reader of a founded subgroup; see [`Subgroup::add_reader`].
    pub fn add_subgroup_reader(&mut self, id: SubgroupId) -> Option<Arc<Inbox>> {
        self.subgroup_mut(id)?.add_reader()
    }

    /// Whether a queue belongs to a reader of a subgroup. See [`Subgroup::has_reader`].
    pub fn has_subgroup_reader(&self, id: SubgroupId, inbox: &Arc<Inbox>) -> bool {
        self.subgroup(id).is_some_and(|subgroup| subgroup.has_reader(inbox))
    }

    /// Removes a reader of a subgroup.
    pub fn remove_subgroup_reader(&mut self, id: SubgroupId, inbox: &Arc<Inbox>) {
        if let Some(subgroup) = self.subgroup_mut(id) {
            subgroup.remove_reader(inbox);
        }
    }

    /// Registers `upcall`, which is called after each delivery of a subgroup.
    pub fn set_subgroup_upcall(&mut self, id: SubgroupId, upcall: Upcall) {
        if let Some(subgroup) = self.subgroup_mut(id) {
            subgroup.set_upcall(upcall);
        }
    }

    /// Whether every member has delivered all messages that this node has committed to a subgroup.
    pub fn is_subgroup_acknowledged(&self, id: SubgroupId) -> bool {
        self.subgroup(id).is_none_or(Subgroup::is_acknowledged)
    }

    /// Number of positions of a subgroup's order that this node has delivered.
    pub fn delivered(&self, id: SubgroupId) -> u64 {
        self.subgroup(id).map_or(0, Subgroup::delivered)
    }

    /// Declares that this node will send nothing in the next `rounds` rounds of a subgroup's
    /// order, so that no member waits for its nulls. Messages that it sends nevertheless come
    /// after these rounds.
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
        let is_own = |epoch: &EpochDescription| epoch.stream() == Some(region);
        // Peers that may become members later are included.
        let waiting = pending.iter().any(|pending| is_own(&pending.epoch));
        let next = |founded: &FoundedSubgroup| {
            founded.next.as_ref().is_some_and(|next| is_own(&next.epoch))
        };
        let known =
            |founded: &FoundedSubgroup| founded.subgroup.region() == Some(region) || next(founded);
        if let Some(state) = peers.get(&peer)
            && (waiting || subgroups.iter().any(known))
        {
            introduce(region, Target { peer, sharing: state.sharing }, effects);
        }
        // Some streams wait for this region to become quiet, or can be shown only now.
        let concerned = subgroups.iter().enumerate().filter(|(_, founded)| known(founded));
        for number in concerned.map(|(number, _)| number).collect::<Vec<usize>>() {
            self.instruct(number).subgroup.region_ready(peer, region);
        }
        if region == CHANGES {
            self.show_all_marks();
            self.touch_all();
        }
    }

    /// Begins the subgroups whose members have published the required regions.
    pub(super) fn settle_subgroups(&mut self, effects: &mut Effects) -> usize {
        let mut settled = self.settle_epochs(effects);
        for pending in core::mem::take(&mut self.pending) {
            let Some(subgroup) = self.open(&pending).filter(|_| !pending.wedged) else {
                self.unsettled = true;
                self.pending.push(pending);
                continue;
            };
            let id = pending.id;
            let mut founded = FoundedSubgroup::new(id, subgroup);
            let number = self.subgroups.len();
            self.activity.add(&mut founded, number);
            self.subgroups.push(founded);
            self.priority_order.renew();
            self.numbers.insert(id, number);
            self.unsettled_subgroups.insert(number);
            self.events.push_back(NodeEvent::Founded(id));
            settled += 1;
        }
        for number in core::mem::take(&mut self.unsettled_subgroups) {
            let founded = &mut self.subgroups[number];
            if !founded.gathered {
                founded.gathered = founded.subgroup.is_gathered();
                self.unsettled |= !founded.gathered;
            }
            if !founded.gathered || founded.next.is_some() {
                self.unsettled_subgroups.insert(number);
            }
            let readers = founded.subgroup.readers();
            if readers != founded.readers {
                founded.readers = readers;
                let (id, senders) = (founded.id, founded.subgroup.other_senders());
                self.events.push_back(NodeEvent::Gathered { subgroup: id, readers, senders });
            }
            let stalled = founded.subgroup.is_stalled();
            if stalled && !core::mem::replace(&mut founded.stalled, stalled) {
                self.events.push_back(NodeEvent::Stalled(founded.id));
            }
        }
        settled
    }

    /// Opens a pending subgroup, if its members have published the required regions.
    fn open(&self, pending: &PendingSubgroup) -> Option<Subgroup> {
        let PendingSubgroup { config, epoch, memory, skipped, .. } = pending;
        let opening = self.opening(epoch, memory.memory.as_ref(), &memory.lines, skipped)?;
        let lines = OwnLines { region: memory.lines.clone(), id: epoch.own_member()?.role.lines };
        Subgroup::new(*config, opening, lines, &self.waker)
    }

    /// View of an epoch from this node, if its members have published the required regions.
    /// `memory`: memory of this node's stream, if it sends.
    pub(super) fn opening(
        &self,
        epoch: &EpochDescription,
        memory: Option<&SenderMemory>,
        lines: &OwnRegion,
        skipped: &[EpochDescription],
    ) -> Option<EpochOpening> {
        let own_stream = epoch.stream();
        let mut members = Vec::new();
        for seat in &epoch.members {
            let EpochMember { slot, role, start } = seat;
            members.push(match role.origin {
                StreamOrigin::Own => OpeningMember {
                    target: None,
                    bell: None,
                    slot: *slot,
                    reads: role.reads,
                    sends: memory.and_then(|memory| {
                        let (stream, geometry) = (role.sends?, memory.geometry());
                        let replica = memory.replica();
                        Some(SentStream { stream, replica, geometry, start: *start })
                    }),
                    ready: true,
                    lines: lines.replica(),
                },
                StreamOrigin::Peer(peer) => self.opening_member(epoch, seat, peer)?,
            });
        }
        let memory = memory.cloned().zip(own_stream);
        let memory = memory.map(|(memory, region)| OpeningMemory { memory, region });
        let skipped = skipped.iter().filter_map(|epoch| self.skipped(epoch)).collect();
        Some(EpochOpening { epoch: epoch.number, name: epoch.name, members, memory, skipped })
    }

    /// Description of an epoch that this node, a sender of it, has passed over.
    fn skipped(&self, epoch: &EpochDescription) -> Option<SkippedEpoch> {
        let (own, stream) = (epoch.own_member()?, epoch.stream()?);
        let describe = |seat: &EpochMember| {
            let StreamOrigin::Peer(peer) = seat.role.origin else { return None };
            let state = self.peers.get(&peer).filter(|state| !state.faulty && !state.put_out)?;
            Some(OpeningMember {
                target: Some(Target { peer, sharing: state.sharing }),
                bell: state.bell,
                slot: seat.slot,
                reads: seat.role.reads,
                sends: None,
                ready: false,
                lines: state.replicas.get(&seat.role.lines)?.clone(),
            })
        };
        let members = epoch.members.iter().filter_map(describe).collect();
        Some(SkippedEpoch {
            epoch: epoch.number,
            name: epoch.name,
            slot: own.slot,
            stream,
            members,
        })
    }

    /// Description of a peer as a member of an epoch, if the peer has published
    /// the required regions.
    fn opening_member(
        &self,
        epoch: &EpochDescription,
        seat: &EpochMember,
        peer: Peer,
    ) -> Option<OpeningMember> {
        let EpochMember { slot, role, start } = seat;
        let (own_stream, own_lines) = (epoch.stream(), epoch.own_member()?.role.lines);
        // The first turn already writes to the peer in this node's lines.
        let state = self.peers.get(&peer).filter(|s| s.ready.contains(&own_lines))?;
        if state.faulty {
            return None;
        }
        let sends = match role.sends {
            Some(stream) => {
                let replica = state.replicas.get(&stream)?.clone();
                let geometry = Geometry::read(&replica).ok().flatten()?;
                Some(SentStream { stream, replica, geometry, start: *start })
            }
            None => None,
        };
        Some(OpeningMember {
            target: Some(Target { peer, sharing: state.sharing }),
            bell: state.bell,
            slot: *slot,
            reads: role.reads,
            sends,
            ready: own_stream.is_none_or(|stream| state.ready.contains(&stream)),
            lines: state.replicas.get(&role.lines)?.clone(),
        })
    }

    /// Peers that have not published the regions required for an epoch of this node,
    /// by subgroup (I-79).
    pub fn unshown(&self) -> Vec<(SubgroupId, Peer)> {
        let pending = self.pending.iter().map(|pending| (pending.id, &pending.epoch));
        let astir = self.unsettled_subgroups.iter().map(|number| &self.subgroups[*number]);
        let is_over = |founded: &&FoundedSubgroup| founded.subgroup.is_over();
        let next = astir.filter(is_over).filter_map(|founded| {
            let next = founded.next.as_ref()?;
            Some((founded.id, &next.epoch))
        });
        let mut unshown = Vec::new();
        for (id, epoch) in pending.chain(next) {
            for member in &epoch.members {
                let StreamOrigin::Peer(peer) = member.role.origin else { continue };
                if self.opening_member(epoch, member, peer).is_none() {
                    unshown.push((id, peer));
                }
            }
        }
        unshown
    }

    /// Stops reading what a peer publishes in any subgroup.
    pub(super) fn leave_out(&mut self, peer: Peer) {
        for founded in &mut self.subgroups {
            founded.subgroup.leave_out(peer);
        }
        self.settle_all(peer);
    }

    /// Notes that a peer is no longer a member of the group, although it may still run. No subgroup
    /// keeps memory for it in the epochs that begin from now on (I-260).
    pub fn put_out(&mut self, peer: Peer) {
        for number in 0..self.subgroups.len() {
            self.instruct(number).subgroup.put_out(peer);
        }
        self.peers.get_mut(&peer).into_iter().for_each(|state| state.put_out = true);
    }

    pub(super) fn lose(&mut self, peer: Peer) {
        for founded in &mut self.subgroups {
            founded.subgroup.peer_down(peer);
        }
        self.settle_all(peer);
    }

    /// Marks all subgroups: any of them may continue, or stall, without this peer.
    fn settle_all(&mut self, peer: Peer) {
        self.watch_no_more(peer);
        self.unsettled_subgroups = (0..self.subgroups.len()).collect();
        self.unsettled = true;
    }
}
