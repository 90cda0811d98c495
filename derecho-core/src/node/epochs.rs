//! Epochs of a subgroup at its node: the instructions for them, and the conditions for
//! the next one.
//!
//! Owns: epochs that wait for regions of peers, or for the end of the epoch before. Never does:
//! choose the next epoch, or decide which member failed.
//!
//! ```text
//!   view change        wedge_subgroup, progress, finish, next_epoch
//!   layout change      change_layout; newcomers are told the cuts by members that know them
//! ```

use alloc::vec::Vec;

use super::subgroups::FoundedSubgroup;
use super::{FoundFault, MemberRole, Node, NodeEvent, Peers, StreamOrigin, SubgroupId};
use crate::ids::{Peer, RegionId};
use crate::machine::{Effects, Target};
use crate::membership::{WaitAnswer, WaitCondition};
use crate::memory::{LINE_WORDS, OwnRegion};
use crate::multicast::claim::SenderMemory;
use crate::multicast::stream::StreamStart;
use crate::multicast::subgroup::LINE_SLOTS;
use crate::multicast::subgroup::epoch::{EpochOpening, EpochPhase};
use crate::multicast::subgroup::parting::SuccessorEpoch;

/// Member of an epoch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EpochMember {
    /// Line slot of the member, the same for as long as it is a member.
    pub slot: usize,
    /// Member and its role.
    pub role: MemberRole,
    /// Beginning of the epoch in the member's stream, if it sends. A member that continues from the
    /// epoch before knows the beginning itself. A member that is new in either epoch, or was left
    /// behind, is told.
    pub start: Option<StreamStart>,
}

/// Epoch of a subgroup, the same at all its members.
#[derive(Clone, Debug)]
pub struct EpochDescription {
    /// Number of the epoch, greater than the number of every epoch that a member may have begun.
    pub number: u64,
    /// Name of the epoch in its members' lines and streams, shortened to 24 bits there. Consecutive
    /// epochs have different names.
    pub name: u64,
    /// Members, in the same order at all of them.
    pub members: Vec<EpochMember>,
}

impl EpochDescription {
    /// This node as a member of the epoch.
    pub(super) fn own_member(&self) -> Option<&EpochMember> {
        self.members.iter().find(|member| member.role.origin == StreamOrigin::Own)
    }

    /// Description of this epoch for a member of the epoch before that is not a member of this one.
    fn as_successor(&self, lines: RegionId, peers: &Peers) -> SuccessorEpoch {
        let sender = |member: &EpochMember| match member.role.origin {
            StreamOrigin::Own => None,
            StreamOrigin::Peer(peer) => {
                // A peer that cannot receive these lines yet has never been told anything in them.
                let state = peers.get(&peer).filter(|state| state.ready.contains(&lines))?;
                let target = Target { peer, sharing: state.sharing };
                Some((target, member.slot, member.role.sends?))
            }
        };
        let senders = self.members.iter().filter_map(sender).collect();
        SuccessorEpoch { epoch: self.number, name: self.name, senders }
    }

    /// Stream that this node sends.
    pub(super) fn stream(&self) -> Option<RegionId> {
        self.own_member().and_then(|own| own.role.sends)
    }

    /// Whether a region of lines has a separate line for each member.
    pub(super) fn fits(&self, lines: &OwnRegion) -> bool {
        let first = (self.number % 2) as usize * LINE_SLOTS;
        let count = lines.words() / LINE_WORDS;
        let has_line = |member: &EpochMember| {
            let line = first.checked_add(member.slot).is_some_and(|line| line < count);
            line && (self.number == 0 || member.slot < LINE_SLOTS)
        };
        let alone = |(index, member): (usize, &EpochMember)| {
            self.members[..index].iter().all(|other| other.slot != member.slot)
        };
        self.members.iter().all(has_line) && self.members.iter().enumerate().all(alone)
    }
}

/// Progress of a node in the stream of one sender of a subgroup.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StreamProgress {
    /// Sender of the stream.
    pub origin: StreamOrigin,
    /// Region of the stream.
    pub stream: RegionId,
    /// Entry at which the epoch begins.
    pub start: u64,
    /// Number of entries received, from the beginning of the stream.
    pub received: u64,
}

/// End of an epoch in the stream of one sender of a subgroup.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StreamEnd {
    /// Sender of the stream.
    pub origin: StreamOrigin,
    /// Region of the stream.
    pub stream: RegionId,
    /// Number of entries up to the end, from the beginning of the stream.
    pub entry: u64,
}

/// Next epoch of a subgroup.
pub(super) struct NextEpoch {
    pub(super) epoch: EpochDescription,
    memory: Option<SenderMemory>,
    /// Whether the node was told to wedge before the epoch has begun.
    wedged: bool,
}

fn origin_of(peer: Option<Peer>) -> StreamOrigin {
    peer.map_or(StreamOrigin::Own, StreamOrigin::Peer)
}

impl Node {
    /// Number of a subgroup's epoch: the last one that this node has begun or is about to begin.
    pub fn epoch(&self, id: SubgroupId) -> Option<u64> {
        self.subgroup(id).map(|subgroup| subgroup.epoch())
    }

    /// Phase of this node in its epoch of a subgroup.
    pub fn phase(&self, id: SubgroupId) -> Option<EpochPhase> {
        self.subgroup(id).map(|subgroup| subgroup.phase())
    }

    /// Senders of a subgroup's epoch: their numbers as returned by
    /// [`Record::sender`](crate::multicast::inbox::Record::sender), their origins, and the regions
    /// of their streams.
    pub fn senders(&self, id: SubgroupId) -> Vec<(u16, StreamOrigin, RegionId)> {
        let sources = self.subgroup(id).into_iter().flat_map(|subgroup| subgroup.sources());
        sources.map(|(number, peer, stream)| (number, origin_of(peer), stream)).collect()
    }

    /// Senders as in [`Node::senders`], each with the number of its message that is
    /// delivered here next.
    pub fn next_numbers(&self, id: SubgroupId) -> Vec<((u16, StreamOrigin, RegionId), u64)> {
        let numbers = self.subgroup(id).into_iter().flat_map(|subgroup| subgroup.next_numbers());
        self.senders(id).into_iter().zip(numbers).collect()
    }

    /// Reading members of a subgroup's epoch that are known to have begun.
    pub fn begun_readers(&self, id: SubgroupId) -> impl Iterator<Item = StreamOrigin> + '_ {
        let readers = self.subgroup(id).into_iter().flat_map(|subgroup| subgroup.begun_readers());
        readers.map(origin_of)
    }

    /// Whether this node refers to memory of a subgroup's senders. While it does, it
    /// stays a member.
    pub fn holds(&self, id: SubgroupId) -> bool {
        self.subgroup(id).is_some_and(|subgroup| subgroup.holds())
    }

    /// Stops a subgroup at this node, until the end of the epoch is decided.
    pub fn wedge_subgroup(&mut self, id: SubgroupId) {
        if let Some(pending) = self.pending_mut(id) {
            pending.wedged = true;
        }
        if let Some(founded) = self.founded_mut(id) {
            founded.subgroup.wedge();
            founded.next.iter_mut().for_each(|next| next.wedged = true);
        }
    }

    /// Progress that a wedged node reports of a subgroup: the epoch that it is in or about to
    /// begin, and the progress in each sender's stream.
    pub fn progress(&self, id: SubgroupId) -> Option<(u64, Vec<StreamProgress>)> {
        if let Some(pending) = self.pending.iter().find(|pending| pending.id() == id) {
            return Some((pending.epoch().number, self.starts_of(pending.epoch(), id)));
        }
        let founded = &self.subgroups[*self.numbers.get(&id)?];
        match &founded.next {
            // An epoch in which this node has no part tells nothing of its progress (I-337).
            Some(next)
                if founded.subgroup.phase() == EpochPhase::Finished
                    && next.epoch.own_member().is_some() =>
            {
                Some((next.epoch.number, self.starts_of(&next.epoch, id)))
            }
            _ => {
                let reach = founded.subgroup.progress().map(|reach| StreamProgress {
                    origin: origin_of(reach.peer),
                    stream: reach.stream,
                    start: reach.start,
                    received: reach.received,
                });
                Some((founded.subgroup.epoch(), reach.collect()))
            }
        }
    }

    /// Progress of a node that has not begun an epoch.
    fn starts_of(&self, epoch: &EpochDescription, id: SubgroupId) -> Vec<StreamProgress> {
        let ended: Vec<_> = self.subgroup(id).into_iter().flat_map(|s| s.ends()).collect();
        let senders = epoch.members.iter().filter_map(|member| Some((member, member.role.sends?)));
        senders
            .map(|(member, stream)| {
                let origin = member.role.origin;
                let is_it = |known: &&((Option<Peer>, RegionId), u64)| {
                    (origin_of(known.0.0), known.0.1) == (origin, stream)
                };
                let known = || ended.iter().find(is_it).map(|(_, entry)| *entry);
                let given = member.start.map(|start| start.entry);
                let start = given.or_else(known).unwrap_or(0);
                StreamProgress { origin, stream, start, received: start }
            })
            .collect()
    }

    /// Ends a subgroup's epoch as decided. `trim`: end of each sender's stream; nothing was
    /// received of a sender that is not named. `false` if this node cannot: it has not received as
    /// much, or has delivered more.
    pub fn finish(&mut self, id: SubgroupId, trim: &[StreamEnd]) -> bool {
        if self.pending_mut(id).is_some() {
            return true;
        }
        let mut faults: Vec<FoundFault> = Vec::new();
        let Some(founded) = self.founded_mut(id) else { return false };
        if founded.subgroup.phase() == EpochPhase::Finished {
            // This node has received nothing of the epoch that it was about to begin.
            if let Some(NextEpoch { epoch, .. }) = founded.next.take() {
                let reads = epoch.own_member().is_some_and(|own| own.role.reads);
                founded.note_skipped(epoch);
                founded.subgroup.pass_over(reads);
            }
            return true;
        }
        let of = |origin, stream, start| {
            let named = trim.iter().find(|end| (end.origin, end.stream) == (origin, stream));
            named.map_or(start, |end| end.entry)
        };
        let progress = founded.subgroup.progress();
        let ends: Vec<u64> =
            progress.map(|reach| of(origin_of(reach.peer), reach.stream, reach.start)).collect();
        let finished = founded
            .subgroup
            .finish(&ends, &mut |peer, fault| faults.push(FoundFault { peer, fault }));
        if finished && let Some(NextEpoch { epoch, .. }) = founded.next.take() {
            // Other members may have begun this epoch.
            founded.note_skipped(epoch);
        }
        for FoundFault { peer, fault } in faults {
            self.faulty(peer, fault);
        }
        finished
    }

    /// Passes over an epoch that others have begun, and that has ended without this node, after
    /// [`Node::finish`]. If this node was not to read in that epoch, its readers get nothing more
    /// and are added again when it reads again.
    pub fn pass_over(&mut self, id: SubgroupId, reads: bool) {
        if let Some(subgroup) = self.subgroup_mut(id) {
            subgroup.pass_over(reads);
        }
    }

    /// Passes over an epoch that could not be given to this node before a view change took its
    /// place: members that leave by that epoch may have been told (I-260).
    pub fn pass_over_ungiven(&mut self, id: SubgroupId, epoch: EpochDescription) {
        if let Some(pending) = self.pending_mut(id) {
            pending.note_skipped(epoch);
        } else if let Some(founded) = self.founded_mut(id) {
            founded.note_skipped(epoch);
        }
    }

    /// Begins this epoch when the epoch before is over and the required regions of all members are
    /// present. [`NodeEvent::Begun`] follows, or [`NodeEvent::Left`] if this node is no member.
    /// `memory`: memory of this node's stream, if it begins to send. `false` if the arguments do
    /// not fit the subgroup's state.
    pub fn next_epoch(
        &mut self,
        id: SubgroupId,
        epoch: EpochDescription,
        memory: Option<SenderMemory>,
        effects: &mut Effects,
    ) -> bool {
        if let Some(index) = self.pending.iter().position(|pending| pending.id() == id) {
            return self.replace_pending(index, epoch, memory, effects);
        }
        let Some(founded) = self.founded_mut(id) else { return false };
        let stream = epoch.stream();
        let sends = stream.is_none() || stream == founded.subgroup.region() || memory.is_some();
        let known = founded.next.as_ref().map_or(founded.subgroup.epoch(), |n| n.epoch.number);
        let fits = epoch.own_member().is_none() || epoch.fits(founded.subgroup.lines());
        if !sends || !fits || epoch.number <= known || founded.subgroup.phase() == EpochPhase::Left
        {
            return false;
        }
        if founded
            .next
            .as_ref()
            .is_some_and(|next| next.epoch.own_member().is_none() && !next.wedged)
            && epoch.own_member().is_none()
        {
            // This node leaves by the first epoch: other members expect its parting
            // line there (I-260).
            return true;
        }
        let begins = stream.filter(|_| memory.is_some());
        founded.next = Some(NextEpoch { epoch, memory, wedged: false });
        self.introduce_to_all(begins, effects);
        self.unsettled = true;
        true
    }

    /// Changes the layout: ends the current epoch in ordinary turns, then begins this one as
    /// [`Node::next_epoch`] does. Only new members need the starts.
    pub fn change_layout(
        &mut self,
        id: SubgroupId,
        epoch: EpochDescription,
        memory: Option<SenderMemory>,
        effects: &mut Effects,
    ) -> bool {
        let is_accepted = self.next_epoch(id, epoch, memory, effects);
        if let Some(subgroup) = self.subgroup_mut(id).filter(|_| is_accepted) {
            subgroup.close();
        }
        is_accepted
    }

    /// Members that the subgroups of this node await, each with the condition and the member's
    /// progress (I-79). A subgroup at rest awaits no member.
    pub fn waits(&mut self) -> Vec<(SubgroupId, WaitCondition, Peer, u64)> {
        let Node { subgroups, activity, .. } = self;
        let mut waits = Vec::new();
        for &number in activity.active() {
            let FoundedSubgroup { id, subgroup, .. } = &mut subgroups[number];
            subgroup.waits(&mut |condition, peer, progress| {
                waits.push((*id, condition, peer, progress));
            });
        }
        waits
    }

    /// Answer of this node to a member that awaits it in its epoch of a subgroup (I-336).
    pub fn answer(&self, id: SubgroupId, condition: WaitCondition, progress: u64) -> WaitAnswer {
        self.subgroup(id).map_or(WaitAnswer::Excused, |it| it.answer(condition, progress))
    }

    /// Observation of this node about a peer that another member awaits in this node's epoch of
    /// a subgroup (I-336).
    pub fn testify(
        &mut self,
        id: SubgroupId,
        peer: Peer,
        condition: WaitCondition,
        progress: u64,
    ) -> WaitAnswer {
        let subgroup = self.subgroup_mut(id);
        subgroup.map_or(WaitAnswer::Excused, |it| it.testify(peer, condition, progress))
    }

    /// Whether a subgroup awaits a member although no news of that member wakes this node.
    pub fn awaits_room(&self) -> bool {
        let mut active = self.activity.active().iter();
        active.any(|&number| self.subgroups[number].subgroup.awaits_room())
    }

    /// Beginning of the next epoch in this node's own stream, once a layout change has ended
    /// this epoch there.
    pub fn cut(&self, id: SubgroupId) -> Option<StreamStart> {
        self.subgroup(id).and_then(|subgroup| subgroup.cut())
    }

    /// Beginning of this epoch in this node's own stream.
    pub fn own_start(&self, id: SubgroupId) -> Option<StreamStart> {
        self.subgroup(id)?.own_start()
    }

    /// Whether this node sends that stream in the current epoch of a subgroup.
    pub fn sends_in(&self, id: SubgroupId, stream: RegionId) -> bool {
        self.subgroup(id).is_some_and(|subgroup| subgroup.region() == Some(stream))
    }

    /// Position of this entry of this node's own stream in a subgroup, with the number of
    /// messages before it.
    pub fn own_start_at(&self, id: SubgroupId, entry: u64) -> Option<StreamStart> {
        self.subgroup(id)?.own_start_at(entry)
    }

    /// Beginning of the next epoch in each stream of this one, as far as known here. Known when
    /// this epoch is complete or finished.
    pub fn starts(&self, id: SubgroupId) -> Vec<(StreamOrigin, RegionId, Option<StreamStart>)> {
        let starts = self.subgroup(id).into_iter().flat_map(|subgroup| subgroup.starts());
        starts.map(|((peer, stream), start)| (origin_of(peer), stream, start)).collect()
    }

    /// Begins the epochs whose conditions hold.
    pub(super) fn settle_epochs(&mut self, effects: &mut Effects) -> usize {
        let mut settled = 0;
        for index in self.unsettled_subgroups.iter().copied().collect::<Vec<usize>>() {
            let founded = &self.subgroups[index];
            let over =
                matches!(founded.subgroup.phase(), EpochPhase::Complete | EpochPhase::Finished);
            let Some(next) = &founded.next else { continue };
            self.unsettled = true;
            if next.wedged || !over {
                continue;
            }
            if next.epoch.own_member().is_none() {
                let successor = next.epoch.as_successor(founded.subgroup.lines_id(), &self.peers);
                let founded = self.instruct(index);
                founded.next = None;
                founded.subgroup.leave(&successor, effects);
                founded.begin_again();
                let id = founded.id;
                self.events.push_back(NodeEvent::Left(id));
                settled += 1;
            } else if let Some(opening) = self.next_opening(index) {
                settled += usize::from(self.go_on(index, opening));
            }
        }
        settled
    }

    fn next_opening(&self, index: usize) -> Option<EpochOpening> {
        let founded = &self.subgroups[index];
        let next = founded.next.as_ref()?;
        let sends = next.epoch.stream();
        let goes_on = sends.is_some() && sends == founded.subgroup.region();
        let memory = if goes_on { founded.subgroup.memory() } else { next.memory.as_ref() };
        self.opening(&next.epoch, memory, founded.subgroup.lines(), &founded.skipped)
    }

    fn go_on(&mut self, index: usize, opening: EpochOpening) -> bool {
        let founded = self.instruct(index);
        founded.next = None;
        let (subgroup, epoch) = (founded.id, opening.epoch);
        let begun = founded.subgroup.next_epoch(opening);
        if begun {
            founded.begin_again();
            self.events.push_back(NodeEvent::Begun { subgroup, epoch });
        } else {
            // The given epoch does not fit this node's state: the subgroup waits for another one.
            self.events.push_back(NodeEvent::Stalled(subgroup));
        }
        begun
    }
}
