//! Progress of this node through the epochs of its subgroups, each independently.
//!
//! Owns: the epoch that each subgroup was given last, and the prerequisites of the next one. Never
//! does: choose an epoch; the registry holds all of them.
//!
//! ```text
//!   member of the epoch before   given the next epoch when it has begun the one before: it closes
//!                                that one and continues
//!   newcomer                     waits until the senders announce where the epoch begins
//! ```

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::control::{EpochStart, UnicastMessage};
use super::registry::Epoch;
use super::report::{EpochCut, StreamId, StreamReport, SubgroupReport};
use super::{CONTROL, Group, GroupEvent, ReplicatedState};
use crate::fault::{Fault, planted};
use crate::ids::{NodeId, RegionId};
use crate::machine::Effects;
use crate::membership::View;
use crate::multicast::ablation::Ablation;
use crate::multicast::stream::StreamStart;
use crate::multicast::subgroup::epoch::EpochPhase;
use crate::node::{self, EpochMember, MemberRole, StreamEnd, StreamOrigin, SubgroupId};

/// Progress of this node through one subgroup.
pub(super) struct EpochProgress {
    id: Option<SubgroupId>,
    /// Region of this node's acknowledgement lines.
    lines: RegionId,
    /// Last epoch that was given to the node.
    last_epoch: Epoch,
    /// Whether that epoch has begun.
    begun: bool,
    /// The cut left this node behind: it does not know by itself where the next epoch begins.
    pub(super) left_behind: bool,
    pending_notice: Option<PendingStartNotice>,
}

/// Newcomers that need the beginning of an epoch in this node's stream. They are notified when the
/// epoch before is complete here. Therefore, if one of them has begun, all readers have received
/// everything before.
#[derive(Debug)]
struct PendingStartNotice {
    start: Option<StreamStart>,
    nodes: Vec<NodeId>,
}

impl core::fmt::Debug for EpochProgress {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let EpochProgress {
            id, last_epoch: told, begun, left_behind, pending_notice: owes, ..
        } = self;
        let told = told.number;
        write!(f, "{id:?} given {told} begun {begun} behind {left_behind} pending {owes:?}")
    }
}

impl EpochProgress {
    pub(super) fn id(&self) -> Option<SubgroupId> {
        self.id
    }

    pub(super) fn last_epoch(&self) -> &Epoch {
        &self.last_epoch
    }

    pub(super) fn lines(&self) -> RegionId {
        self.lines
    }

    pub(super) fn is_settled(&self) -> bool {
        self.begun && self.pending_notice.is_none()
    }
}

impl<S: ReplicatedState> Group<S> {
    pub(super) fn key_of(&self, id: SubgroupId) -> Option<u64> {
        self.keys.get(&id).copied()
    }

    /// Notes that an epoch of a subgroup has begun here.
    pub(super) fn begun(&mut self, id: SubgroupId) {
        let Some(key) = self.key_of(id) else { return };
        let progress = self.progress.get_mut(&key).expect("the key was found above");
        let first =
            !core::mem::replace(&mut progress.begun, true) && progress.last_epoch.number == 0;
        (progress.left_behind, self.unsettled) = (false, true);
        let Epoch { number, name: epoch, layout, .. } = progress.last_epoch.clone();
        self.announced_starts.retain(|(k, epoch), _| *k != key || *epoch > number);
        self.behind.remove(&key);
        if key == CONTROL {
            self.control_begun();
        } else {
            self.registry.forget_before(key, number);
            self.forget_memories(key);
            self.events.push_back(GroupEvent::Begun { key, subgroup: id, epoch, layout, first });
        }
    }

    /// Notes that this node is no longer a member of a subgroup.
    pub(super) fn left(&mut self, id: SubgroupId) {
        let Some(key) = self.keys.remove(&id) else { return };
        self.open.insert(key);
        self.pending_notices.remove(&key);
        if let Some(progress) = self.progress.remove(&key) {
            let lines = progress.lines;
            // The node may become a member again later, but not of epochs that it has left.
            self.registry.forget_before(key, progress.last_epoch.number);
            // A subgroup without members is forgotten, including its numbers.
            if self.registry.epochs(key).any(|epoch| epoch.number == progress.last_epoch.number) {
                self.behind.insert(key, progress.last_epoch);
            }
            self.forget_regions(key, lines);
        }
        // A view that was installed before this node noticed that it has left expects an epoch that
        // can be given to no node any more (I-76).
        let me = self.node.id();
        let is_over = |epoch: &Epoch| epoch.layout.member(me).is_none();
        if self.expected.get(&key).is_some_and(is_over) {
            self.expected.remove(&key);
        }
        self.unsettled = true;
        self.events.push_back(GroupEvent::Left { key });
    }

    /// Continues every subgroup that can continue.
    pub(super) fn advance_epochs(&mut self, effects: &mut Effects) -> usize {
        let mut done = self.send_start_notices(effects);
        if core::mem::take(&mut self.unsettled) {
            let wedged = self.membership_service.membership().is_wedged();
            if !wedged {
                done += self.expect(effects);
            }
            if self.informed && !wedged {
                for key in core::mem::take(&mut self.open) {
                    done += self.step(key, effects);
                }
            }
        }
        // The end of an epoch that was just closed is known now, and no longer after the next
        // one has begun.
        done + self.send_start_notices(effects)
    }

    /// Next epoch for this node, regardless of whether it can be given to the node already.
    pub(super) fn next_of(&self, key: u64) -> Option<&Epoch> {
        let me = self.node.id();
        let mut epochs = self.registry.epochs(key);
        match self.progress.get(&key) {
            Some(progress) => epochs.find(|epoch| epoch.number > progress.last_epoch.number),
            None => epochs.find(|epoch| epoch.layout.member(me).is_some()),
        }
    }

    /// Gives an open subgroup its next epoch, if all prerequisites are known.
    fn step(&mut self, key: u64, effects: &mut Effects) -> usize {
        let Some(next) = self.next_of(key) else { return 0 };
        // A pending notice concerns the epoch that has begun last, and must be sent before the next
        // epoch is given to the node.
        let ready = self.progress.get(&key).is_none_or(EpochProgress::is_settled);
        let is_given = ready && !self.expected.contains_key(&key) && {
            let next = next.clone();
            self.give_next_epoch(key, next, false, effects)
        };
        // I-76: the subgroup stays open if another epoch follows.
        if self.next_of(key).is_some() {
            self.open.insert(key);
        }
        usize::from(is_given)
    }

    /// Gives a subgroup its next epoch, if all prerequisites are known. `ended`: a view has ended
    /// the epoch before.
    pub(super) fn give_next_epoch(
        &mut self,
        key: u64,
        next: Epoch,
        ended: bool,
        effects: &mut Effects,
    ) -> bool {
        let Some(epoch) = self.node_epoch(key, &next) else {
            self.unsettled = true;
            return false;
        };
        let me = self.node.id();
        let own = next.layout.member(me).copied();
        let regions = own.and_then(|seat| self.regions.get(&(key, seat.lines))).cloned();
        let sends = own.and_then(|seat| seat.sends);
        let memory = sends.and_then(|region| self.memories.get(&(key, region)));
        let memory = memory.map(|known| known.memory.clone());
        if let Some(id) = self.progress.get(&key).and_then(EpochProgress::id) {
            let is_given = match ended {
                true => self.node.next_epoch(id, epoch, memory, effects),
                false => self.node.change_layout(id, epoch, memory, effects),
            };
            let walk = self.progress.get_mut(&key).expect("the subgroup has progress");
            if is_given {
                if !ended {
                    let is_new = |node: &NodeId| walk.last_epoch.layout.member(*node).is_none();
                    let nodes = next.layout.members.iter().map(|member| member.node);
                    let newcomers: Vec<NodeId> = nodes.filter(is_new).collect();
                    let sends_next = next.layout.streams().any(|stream| stream.node == me);
                    let needs_notice = sends_next && !newcomers.is_empty();
                    walk.pending_notice = needs_notice
                        .then_some(PendingStartNotice { start: None, nodes: newcomers });
                    if needs_notice {
                        self.pending_notices.insert(key);
                    }
                }
                (walk.last_epoch, walk.begun) = (next, false);
            }
            return is_given;
        }
        let Some((own, regions)) = own.zip(regions) else { return false };
        let subgroup_memory = node::SubgroupMemory { lines: regions.lines.1, memory };
        // Members of the group are silent most of the time: without nulls they would never
        // agree on anything.
        let nulls = self.ablation.nulls && key != CONTROL;
        let config = next.layout.config(Ablation { nulls, ..self.ablation });
        let id = self.node.join(config, epoch, subgroup_memory, effects);
        let is_given = id.is_some();
        if let Some(id) = id {
            self.keys.insert(id, key);
            for passed in self.skipped.remove(&key).into_iter().flatten() {
                self.node.pass_over_ungiven(id, passed);
            }
            let lines = own.lines;
            let (id, begun, left_behind) = (Some(id), false, false);
            let walk = EpochProgress {
                id,
                lines,
                last_epoch: next,
                begun,
                left_behind,
                pending_notice: None,
            };
            self.progress.insert(key, walk);
        }
        is_given
    }

    /// Epoch in the node's form; `None` if a prerequisite is unknown.
    fn node_epoch(&self, key: u64, epoch: &Epoch) -> Option<node::EpochDescription> {
        let me = self.node.id();
        let is_in = epoch.layout.member(me).is_some();
        let knows = match self.progress.get(&key) {
            Some(progress) => !progress.left_behind,
            None => false,
        };
        let heard = self.announced_starts.get(&(key, epoch.number));
        let mut members = Vec::new();
        for seat in &epoch.layout.members {
            let origin = match seat.node == me {
                true => StreamOrigin::Own,
                false => StreamOrigin::Peer(*self.peers.get(&seat.node)?),
            };
            let rank = self.view().rank_of(seat.node)?;
            let slot = usize::from(self.view().member(rank).slot);
            let Some(region) = seat.sends else {
                let role = self.member_role(origin, seat.reads, None, seat.lines);
                members.push(EpochMember { slot, role, start: None });
                continue;
            };
            let stream = StreamId { node: seat.node, region };
            let start = heard.and_then(|heard| heard.get(&stream)).copied();
            // The node itself knows its own stream best.
            let is_known = knows || start.is_some() || seat.node == me;
            if is_in && !is_known && epoch.old.contains(&stream) {
                return None;
            }
            let start = start.filter(|_| !knows);
            let role = self.member_role(origin, seat.reads, Some(region), seat.lines);
            members.push(EpochMember { slot, role, start });
        }
        // Epochs of different subgroups have different lines; epochs of one subgroup
        // have different names.
        Some(node::EpochDescription { number: epoch.number, name: epoch.name, members })
    }

    /// Epoch with the members that this node has met and that stay in the next view. The beginnings
    /// of the streams are left open.
    pub(super) fn known_of(&self, epoch: &Epoch, next: &View) -> node::EpochDescription {
        let me = self.node.id();
        let continues = |seat: &&super::registry::LayoutMember| next.rank_of(seat.node).is_some();
        let members = epoch.layout.members.iter().filter(continues).filter_map(|seat| {
            let origin = match seat.node == me {
                true => StreamOrigin::Own,
                false => StreamOrigin::Peer(*self.peers.get(&seat.node)?),
            };
            let slot = usize::from(self.view().member(self.view().rank_of(seat.node)?).slot);
            let role = self.member_role(origin, seat.reads, seat.sends, seat.lines);
            Some(EpochMember { slot, role, start: None })
        });
        node::EpochDescription {
            number: epoch.number,
            name: epoch.name,
            members: members.collect(),
        }
    }

    /// Senders that have not announced the beginning of an epoch that this node needs, by subgroup.
    /// A sender may have fallen out before it knew that this node is a member; it says so when it
    /// is asked (I-64).
    pub(super) fn unannounced(&self) -> Vec<(u64, NodeId)> {
        let me = self.node.id();
        let expected = self.expected.iter().map(|(key, epoch)| (*key, epoch));
        // A newcomer waits for senders that go on without a view change.
        let open = self.open.iter().filter_map(|key| Some((*key, self.next_of(*key)?)));
        let mut unheard = Vec::new();
        for (key, epoch) in expected.chain(open) {
            let knows = self.progress.get(&key).is_some_and(|progress| !progress.left_behind);
            if knows || epoch.layout.member(me).is_none() {
                continue;
            }
            let heard = self.announced_starts.get(&(key, epoch.number));
            let has_start =
                |stream: &StreamId| heard.is_some_and(|heard| heard.contains_key(stream));
            let silent = epoch.old.iter().filter(|stream| stream.node != me && !has_start(stream));
            unheard.extend(silent.map(|stream| (key, stream.node)));
        }
        unheard.sort_unstable();
        unheard.dedup();
        unheard
    }

    fn member_role(
        &self,
        origin: StreamOrigin,
        reads: bool,
        sends: Option<RegionId>,
        lines: RegionId,
    ) -> MemberRole {
        MemberRole { origin, reads, sends, lines }
    }

    /// Notifies newcomers where this node's streams go on, as soon as this node knows.
    fn send_start_notices(&mut self, effects: &mut Effects) -> usize {
        let mut due = Vec::new();
        for &key in &self.pending_notices {
            let Some(progress) = self.progress.get_mut(&key) else { continue };
            let Some(notice) = &mut progress.pending_notice else { continue };
            // The end, the last acknowledgements of the other members, and the beginning may all
            // have come in one turn.
            notice.start = notice.start.or_else(|| match progress.begun {
                true => self.node.own_start(progress.id?),
                false => self.node.cut(progress.id?),
            });
            let own = progress.last_epoch.layout.member(self.node.id());
            let region = own.and_then(|member| member.sends);
            let phase = progress.id.and_then(|id| self.node.phase(id));
            let over = progress.begun || phase == Some(EpochPhase::Complete);
            if let Some((start, region)) = notice.start.zip(region).filter(|_| over) {
                let more = u64::from(planted(Fault::NewcomerOffByOne));
                let (entry, message) = (start.entry + more, start.message + more);
                let start: EpochStart = (key, progress.last_epoch.number, region, entry, message);
                due.extend(progress.pending_notice.take().map(|notice| (start, notice.nodes)));
            }
        }
        let done = due.len();
        for (start, nodes) in due {
            self.pending_notices.remove(&start.0);
            for node in nodes {
                self.tell(node, &UnicastMessage::EpochStarts([start].into()), effects);
            }
        }
        done
    }

    /// Reports of this node on its subgroups, all of which are stopped.
    pub(super) fn reports(&self) -> Vec<SubgroupReport> {
        let mut reports = Vec::new();
        for (&key, progress) in &self.progress {
            // A subgroup that is about to begin its first epoch has received nothing, and shows
            // nothing of other members.
            let id = progress.id.filter(|id| self.node.phase(*id).is_some());
            let Some((epoch, reach)) = id.and_then(|id| self.node.progress(id)) else { continue };
            let reached = reach.iter().filter_map(|reach| {
                let node = match reach.origin {
                    StreamOrigin::Own => self.node.id(),
                    StreamOrigin::Peer(peer) => self.node_of(peer)?,
                };
                let stream = StreamId { node, region: reach.stream };
                Some(StreamReport { stream, start: reach.start, received: reach.received })
            });
            let reached = reached.collect();
            // The readers of an epoch that a view has ended need not be known: its ends
            // are decided (I-337).
            let mut epochs = self.registry.epochs(key).chain([&progress.last_epoch]);
            let of_it = epochs.find(|known| known.number == epoch);
            let readers = of_it.map(|known| known.layout.readers()).unwrap_or_default();
            reports.push(SubgroupReport { key, epoch, left: false, readers, streams: reached });
        }
        for (&key, epoch) in &self.behind {
            if reports.iter().all(|report| report.key != key) {
                let readers = epoch.layout.readers();
                let (epoch, left, reached) = (epoch.number, true, Vec::new());
                reports.push(SubgroupReport { key, epoch, left, readers, streams: reached });
            }
        }
        reports
    }

    /// Ends a subgroup's epoch at the ends of this cut. `false` if this node cannot.
    pub(super) fn finish(&mut self, id: SubgroupId, cut: &EpochCut) -> bool {
        let me = self.node.id();
        let trim: Vec<StreamEnd> = cut
            .ends
            .iter()
            .filter_map(|(stream, end)| {
                let origin = match stream.node == me {
                    true => StreamOrigin::Own,
                    false => StreamOrigin::Peer(self.peer_of(stream.node)?),
                };
                Some(StreamEnd { origin, stream: stream.region, entry: *end })
            })
            .collect();
        self.node.finish(id, &trim)
    }

    /// Node of a peer handle. Includes former peers, so that the streams of failed nodes
    /// can be named.
    pub(super) fn node_of(&self, peer: crate::ids::Peer) -> Option<NodeId> {
        self.met.iter().find(|(_, known)| **known == peer).map(|(node, _)| *node)
    }

    /// Peer handle of a node that this node has met.
    pub fn peer_of(&self, node: NodeId) -> Option<crate::ids::Peer> {
        self.met.get(&node).copied()
    }

    /// Drops all pending notices: epochs that a view has ended are announced again.
    pub(super) fn forget_start_notices(&mut self) {
        self.progress.values_mut().for_each(|progress| progress.pending_notice = None);
        self.pending_notices.clear();
    }

    pub(super) fn progress_by_key(&self) -> BTreeMap<u64, (SubgroupId, u64)> {
        let walks = self.progress.iter();
        walks
            .filter_map(|(key, progress)| Some((*key, (progress.id?, progress.last_epoch.number))))
            .collect()
    }
}
