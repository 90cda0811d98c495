//! A subgroup's epochs at its node: what it is told, and when the next one begins.
//!
//! Owns: epochs that wait for what peers have to show first, or for the epoch before to be over. Never
//! does: decide what the next one is, or who failed.
//!
//! ```text
//!   change of view      wedge_subgroup, reach, finish, next_epoch
//!   change of layout    change_layout; newcomers are told the cuts, by whoever knows them
//! ```

use alloc::vec::Vec;

use super::subgroups::Founded;
use super::{Membership, Node, NodeEvent, Origin, Peers, SubgroupId};
use crate::ids::{Peer, RegionId};
use crate::machine::{Effects, Target};
use crate::membership::{Answer, Condition};
use crate::memory::{LINE_WORDS, OwnRegion};
use crate::multicast::Fault;
use crate::multicast::claim::SenderMemory;
use crate::multicast::stream::Beginning;
use crate::multicast::subgroup::LINE_SLOTS;
use crate::multicast::subgroup::epoch::{Opening, Phase};
use crate::multicast::subgroup::parting::Successor;

/// One member's place in an epoch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seat {
    /// Its line slot, for as long as it is a member.
    pub slot: usize,
    /// Who, and what it does.
    pub member: Membership,
    /// Where the epoch begins in its stream, if it sends. A member that goes on from the epoch before
    /// knows it by itself; one that is new in either, or was left behind, is told.
    pub start: Option<Beginning>,
}

/// An epoch of a subgroup, the same at all its members.
#[derive(Clone, Debug)]
pub struct Epoch {
    /// Its number: greater than that of every epoch that somebody may have begun.
    pub number: u64,
    /// What it is called in its members' lines and streams, shortened to 24 bits there: of epochs that
    /// follow each other no two are called the same.
    pub name: u64,
    /// Its members, in the same order at all of them.
    pub seats: Vec<Seat>,
}

impl Epoch {
    /// This node's seat.
    pub(super) fn own(&self) -> Option<&Seat> {
        self.seats.iter().find(|seat| seat.member.origin == Origin::Own)
    }

    /// What has to be known of it by a member of the epoch before that is none of this one.
    fn as_successor(&self, lines: RegionId, peers: &Peers) -> Successor {
        let sender = |seat: &Seat| match seat.member.origin {
            Origin::Own => None,
            Origin::Peer(peer) => {
                // Who cannot receive these lines yet has never been told anything in them.
                let state = peers.get(&peer).filter(|state| state.ready.contains(&lines))?;
                let target = Target { peer, sharing: state.sharing };
                Some((target, seat.slot, seat.member.sends?))
            }
        };
        let senders = self.seats.iter().filter_map(sender).collect();
        Successor { epoch: self.number, name: self.name, senders }
    }

    /// What this node sends.
    pub(super) fn stream(&self) -> Option<RegionId> {
        self.own().and_then(|own| own.member.sends)
    }

    /// Whether every member has a line, of its own, in a region of lines.
    pub(super) fn fits(&self, lines: &OwnRegion) -> bool {
        let first = (self.number % 2) as usize * LINE_SLOTS;
        let count = lines.words() / LINE_WORDS;
        let has_line = |seat: &Seat| {
            let line = first.checked_add(seat.slot).is_some_and(|line| line < count);
            line && (self.number == 0 || seat.slot < LINE_SLOTS)
        };
        let alone = |(index, seat): (usize, &Seat)| {
            self.seats[..index].iter().all(|other| other.slot != seat.slot)
        };
        self.seats.iter().all(has_line) && self.seats.iter().enumerate().all(alone)
    }
}

/// How far a node has come with one sender of a subgroup.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StreamReach {
    /// Who sends.
    pub origin: Origin,
    /// The region of its stream.
    pub stream: RegionId,
    /// Where the epoch begins in it.
    pub start: u64,
    /// Entries received, from the stream's beginning.
    pub received: u64,
}

/// What a subgroup goes on with.
pub(super) struct Next {
    pub(super) epoch: Epoch,
    memory: Option<SenderMemory>,
    /// The node was told to stop before it has begun.
    wedged: bool,
}

fn origin_of(peer: Option<Peer>) -> Origin {
    peer.map_or(Origin::Own, Origin::Peer)
}

impl Node {
    /// The number of a subgroup's epoch: the last one that this node has begun, or is about to begin.
    pub fn epoch(&self, id: SubgroupId) -> Option<u64> {
        self.subgroup(id).map(|subgroup| subgroup.epoch())
    }

    /// Where this node is in its epoch of a subgroup.
    pub fn phase(&self, id: SubgroupId) -> Option<Phase> {
        self.subgroup(id).map(|subgroup| subgroup.phase())
    }

    /// The senders of a subgroup's epoch: what [`Record::sender`](crate::multicast::inbox::Record::sender)
    /// calls them, who they are, and the regions of their streams.
    pub fn senders(&self, id: SubgroupId) -> Vec<(u16, Origin, RegionId)> {
        let sources = self.subgroup(id).into_iter().flat_map(|subgroup| subgroup.sources());
        sources.map(|(number, peer, stream)| (number, origin_of(peer), stream)).collect()
    }

    /// As [`Node::senders`], and of each the number of the message that is delivered here next.
    pub fn next_numbers(&self, id: SubgroupId) -> Vec<((u16, Origin, RegionId), u64)> {
        let numbers = self.subgroup(id).into_iter().flat_map(|subgroup| subgroup.next_numbers());
        self.senders(id).into_iter().zip(numbers).collect()
    }

    /// Whether this node refers to anything of a subgroup's senders: until it does not, it stays a member.
    pub fn holds(&self, id: SubgroupId) -> bool {
        self.subgroup(id).is_some_and(|subgroup| subgroup.holds())
    }

    /// Stops a subgroup at this node, until it is told how the epoch ends.
    pub fn wedge_subgroup(&mut self, id: SubgroupId) {
        if let Some(pending) = self.pending_mut(id) {
            pending.wedged = true;
        }
        if let Some(founded) = self.founded_mut(id) {
            founded.subgroup.wedge();
            founded.next.iter_mut().for_each(|next| next.wedged = true);
        }
    }

    /// What a wedged node reports of a subgroup: the epoch that it is in, or was about to begin, and how
    /// far it has come with each sender of it.
    pub fn reach(&self, id: SubgroupId) -> Option<(u64, Vec<StreamReach>)> {
        if let Some(pending) = self.pending.iter().find(|pending| pending.id() == id) {
            return Some((pending.epoch().number, self.starts_of(pending.epoch(), id)));
        }
        let founded = &self.subgroups[*self.numbers.get(&id)?];
        match &founded.next {
            // An epoch in which this node has no part says nothing of where the node has come (I-337).
            Some(next)
                if founded.subgroup.phase() == Phase::Finished && next.epoch.own().is_some() =>
            {
                Some((next.epoch.number, self.starts_of(&next.epoch, id)))
            }
            _ => {
                let reach = founded.subgroup.reach().map(|reach| StreamReach {
                    origin: origin_of(reach.peer),
                    stream: reach.stream,
                    start: reach.start,
                    received: reach.received,
                });
                Some((founded.subgroup.epoch(), reach.collect()))
            }
        }
    }

    /// How far one is that has not begun an epoch.
    fn starts_of(&self, epoch: &Epoch, id: SubgroupId) -> Vec<StreamReach> {
        let ended: Vec<_> = self.subgroup(id).into_iter().flat_map(|s| s.ends()).collect();
        let senders = epoch.seats.iter().filter_map(|seat| Some((seat, seat.member.sends?)));
        senders
            .map(|(seat, stream)| {
                let origin = seat.member.origin;
                let is_it = |known: &&((Option<Peer>, RegionId), u64)| {
                    (origin_of(known.0.0), known.0.1) == (origin, stream)
                };
                let known = || ended.iter().find(is_it).map(|(_, entry)| *entry);
                let told = seat.start.map(|start| start.entry);
                let start = told.or_else(known).unwrap_or(0);
                StreamReach { origin, stream, start, received: start }
            })
            .collect()
    }

    /// Ends a subgroup's epoch as it was decided: `trim` says of each sender at which entry; of one that it
    /// does not name nothing was received. `false` if this node cannot: it has not received as much, or has
    /// delivered more.
    pub fn finish(&mut self, id: SubgroupId, trim: &[(Origin, RegionId, u64)]) -> bool {
        if self.pending_mut(id).is_some() {
            return true;
        }
        let mut faults: Vec<(Peer, Fault)> = Vec::new();
        let Some(founded) = self.founded_mut(id) else { return false };
        if founded.subgroup.phase() == Phase::Finished {
            // It has received nothing of the epoch that it was about to begin.
            if let Some(Next { epoch, .. }) = founded.next.take() {
                let reads = epoch.own().is_some_and(|own| own.member.reads);
                founded.note_passed(epoch);
                founded.subgroup.pass_over(reads);
            }
            return true;
        }
        let of = |origin, stream, start| {
            let named = trim.iter().find(|(o, s, _)| (*o, *s) == (origin, stream));
            named.map_or(start, |(_, _, entry)| *entry)
        };
        let reach = founded.subgroup.reach();
        let ends: Vec<u64> =
            reach.map(|reach| of(origin_of(reach.peer), reach.stream, reach.start)).collect();
        let finished =
            founded.subgroup.finish(&ends, &mut |peer, fault| faults.push((peer, fault)));
        if finished && let Some(Next { epoch, .. }) = founded.next.take() {
            // Others may have begun it.
            founded.note_passed(epoch);
        }
        for (peer, fault) in faults {
            self.faulty(peer, fault);
        }
        finished
    }

    /// After [`Node::finish`]: passes over an epoch that others have begun, and that has ended without this
    /// node. If it was not to read there its readers get nothing more, and are added anew when it
    /// reads again.
    pub fn pass_over(&mut self, id: SubgroupId, reads: bool) {
        if let Some(subgroup) = self.subgroup_mut(id) {
            subgroup.pass_over(reads);
        }
    }

    /// Passes over an epoch that this node could not be told before a view change took its place: its leavers may have been
    /// told (I-260).
    pub fn pass_over_untold(&mut self, id: SubgroupId, epoch: Epoch) {
        if let Some(pending) = self.pending_mut(id) {
            pending.note_passed(epoch);
        } else if let Some(founded) = self.founded_mut(id) {
            founded.note_passed(epoch);
        }
    }

    /// Goes on with this epoch when the one before is over and all that has to be known of the members is
    /// there; [`NodeEvent::Begun`] follows, or [`NodeEvent::Left`] if this node is not one of
    /// them. `memory`: what it sends from, if it begins to. `false` if that makes no sense.
    pub fn next_epoch(
        &mut self,
        id: SubgroupId,
        epoch: Epoch,
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
        let fits = epoch.own().is_none() || epoch.fits(founded.subgroup.lines());
        if !sends || !fits || epoch.number <= known || founded.subgroup.phase() == Phase::Left {
            return false;
        }
        if founded.next.as_ref().is_some_and(|next| next.epoch.own().is_none() && !next.wedged)
            && epoch.own().is_none()
        {
            // It leaves by the first one: there it is expected to say so (I-260).
            return true;
        }
        let begins = stream.filter(|_| memory.is_some());
        founded.next = Some(Next { epoch, memory, wedged: false });
        self.introduce_to_all(begins, effects);
        self.unsettled = true;
        true
    }

    /// A change of layout: ends the epoch in ordinary turns, and goes on with this one. As
    /// [`Node::next_epoch`]; the starts need not be known, but to those who are new.
    pub fn change_layout(
        &mut self,
        id: SubgroupId,
        epoch: Epoch,
        memory: Option<SenderMemory>,
        effects: &mut Effects,
    ) -> bool {
        let told = self.next_epoch(id, epoch, memory, effects);
        if let Some(subgroup) = self.subgroup_mut(id).filter(|_| told) {
            subgroup.close();
        }
        told
    }

    /// Members that some subgroup awaits at this node, why, and how far each has come with that (I-79): a subgroup that is at rest
    /// awaits nobody.
    pub fn waits(&mut self) -> Vec<(SubgroupId, Condition, Peer, u64)> {
        let Node { subgroups, activity, .. } = self;
        let mut waits = Vec::new();
        for &number in activity.active() {
            let Founded { id, subgroup, .. } = &mut subgroups[number];
            subgroup.waits(&mut |condition, peer, progress| {
                waits.push((*id, condition, peer, progress));
            });
        }
        waits
    }

    /// What this node answers to a member that awaits it in its epoch of a subgroup (I-336).
    pub fn answer(&self, id: SubgroupId, condition: Condition, progress: u64) -> Answer {
        self.subgroup(id).map_or(Answer::Excused, |it| it.answer(condition, progress))
    }

    /// What this node sees of a peer that another member awaits in this node's epoch of a subgroup (I-336).
    pub fn testify(
        &mut self,
        id: SubgroupId,
        peer: Peer,
        condition: Condition,
        progress: u64,
    ) -> Answer {
        let subgroup = self.subgroup_mut(id);
        subgroup.map_or(Answer::Excused, |it| it.testify(peer, condition, progress))
    }

    /// Whether some subgroup awaits a member, although no news of that member wakes this node.
    pub fn awaits_room(&self) -> bool {
        let mut active = self.activity.active().iter();
        active.any(|&number| self.subgroups[number].subgroup.awaits_room())
    }

    /// Where the next epoch begins in this node's own stream, once a change of layout has ended this
    /// one there.
    pub fn cut(&self, id: SubgroupId) -> Option<Beginning> {
        self.subgroup(id).and_then(|subgroup| subgroup.cut())
    }

    /// Where this epoch begins in this node's own stream.
    pub fn own_start(&self, id: SubgroupId) -> Option<Beginning> {
        self.subgroup(id)?.own_start()
    }

    /// Whether this node sends that stream in the epoch of a subgroup that it has begun.
    pub fn sends_in(&self, id: SubgroupId, stream: RegionId) -> bool {
        self.subgroup(id).is_some_and(|subgroup| subgroup.region() == Some(stream))
    }

    /// This entry of this node's own stream in a subgroup, and the messages before it.
    pub fn own_beginning(&self, id: SubgroupId, entry: u64) -> Option<Beginning> {
        self.subgroup(id)?.own_beginning(entry)
    }

    /// Where the next epoch begins in each stream of this one, as far as it is known here: when this epoch
    /// is complete or finished.
    pub fn starts(&self, id: SubgroupId) -> Vec<(Origin, RegionId, Option<Beginning>)> {
        let starts = self.subgroup(id).into_iter().flat_map(|subgroup| subgroup.starts());
        starts.map(|((peer, stream), start)| (origin_of(peer), stream, start)).collect()
    }

    /// Begins what can be begun.
    pub(super) fn settle_epochs(&mut self, effects: &mut Effects) -> usize {
        let mut settled = 0;
        for index in self.astir.iter().copied().collect::<Vec<usize>>() {
            let founded = &self.subgroups[index];
            let over = matches!(founded.subgroup.phase(), Phase::Complete | Phase::Finished);
            let Some(next) = &founded.next else { continue };
            self.unsettled = true;
            if next.wedged || !over {
                continue;
            }
            if next.epoch.own().is_none() {
                let successor = next.epoch.as_successor(founded.subgroup.lines_id(), &self.peers);
                let founded = self.told(index);
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

    fn next_opening(&self, index: usize) -> Option<Opening> {
        let founded = &self.subgroups[index];
        let next = founded.next.as_ref()?;
        let sends = next.epoch.stream();
        let goes_on = sends.is_some() && sends == founded.subgroup.region();
        let memory = if goes_on { founded.subgroup.memory() } else { next.memory.as_ref() };
        self.opening(&next.epoch, memory, founded.subgroup.lines(), &founded.passed)
    }

    fn go_on(&mut self, index: usize, opening: Opening) -> bool {
        let founded = self.told(index);
        founded.next = None;
        let (subgroup, epoch) = (founded.id, opening.epoch);
        let begun = founded.subgroup.next_epoch(opening);
        if begun {
            founded.begin_again();
            self.events.push_back(NodeEvent::Begun { subgroup, epoch });
        } else {
            // What it was told makes no sense here: it waits for something better.
            self.events.push_back(NodeEvent::Stalled(subgroup));
        }
        begun
    }
}
