//! Installation of a view: streams come to the cut, and subgroups continue with the layouts of
//! the new view.
//!
//! Owns: the order of the steps, which is the same at every member. Never does: decide anything.
//!
//! ```text
//!   control stream     finished at the cut; its remaining deliveries change the state
//!   state              former members are removed, lowest rank first
//!   layouts            follow from state and view; every queue of epochs becomes one epoch
//!   subgroups          finished at the cut, and given that epoch
//!   newcomers          receive the state from a member that has it, and the beginnings of streams
//!                      from the senders
//! ```

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::control::{CONTROL_LINES, CONTROL_STREAM, EpochStart, UnicastMessage};
use super::epoch_progress::EpochProgress;
use super::registry::{Epoch, Layout, LayoutMember, Registry};
use super::report::{GroupCut, MemberReport, StreamId};
use super::{CONTROL, Group, GroupEvent, ReplicatedState};
use crate::fault::{Fault, planted};
use crate::ids::NodeId;
use crate::machine::Effects;
use crate::membership::{Decision, View};
use crate::multicast::stream::StreamStart;
use crate::multicast::subgroup::DeliveryGuarantee;
use crate::multicast::subgroup::epoch::EpochPhase;
use crate::node::SubgroupId;

impl<S: ReplicatedState> Group<S> {
    /// Progress of this node, for its report.
    pub(super) fn member_report(&self) -> MemberReport {
        MemberReport { informed: self.informed, subgroups: self.reports() }
    }

    /// Installs a view.
    pub(super) fn install(&mut self, decision: &Decision<MemberReport>, effects: &mut Effects) {
        let Decision { next, cut } = decision;
        let early = planted(Fault::SnapshotEarly).then(|| self.snapshot());
        self.pass_over_ungiven(next);
        self.forget_start_notices();
        self.finish_at(CONTROL, cut);
        self.process_control();
        self.control.forget_kept();
        let before = core::mem::replace(&mut self.installed, next.clone());
        let is_in_next_view = |node: &NodeId| next.rank_of(*node).is_some();
        let informed = |node: &NodeId| cut.informed.contains(node);
        let sponsor = next.members.iter().map(|member| member.node).find(informed);
        if sponsor.is_none() {
            // No informed member is left: all members begin with the same empty registry.
            (self.informed, self.registry) = (true, Registry::anew(next.number));
        }
        self.sponsor = sponsor;
        let gone =
            before.members.iter().map(|member| member.node).filter(|node| !is_in_next_view(node));
        gone.for_each(|node| {
            if let Some(&peer) = self.peers.get(&node) {
                self.node.put_out(peer);
            }
            self.state.forget(node);
            self.log_register.forget(node);
        });
        self.required_logs = None;
        if self.informed {
            self.state.begin_view(next);
            self.state.note_logs(&self.log_register);
        }
        let keys: Vec<u64> =
            self.progress_by_key().into_keys().filter(|key| *key != CONTROL).collect();
        keys.iter().for_each(|key| self.finish_at(*key, cut));
        self.behind.clear();
        self.unsent.retain(|node, _| is_in_next_view(node));
        self.forget_starts(is_in_next_view);
        let me = self.node.id();
        if !is_in_next_view(&me) {
            return;
        }
        let mut epochs = BTreeMap::from([(CONTROL, control_epoch(next, cut))]);
        if self.informed {
            let keys = self.state.keys().into_iter();
            let layouts: BTreeMap<u64, Layout> =
                keys.map(|key| (key, self.state.layout(key, next))).collect();
            self.registry.collapse(&layouts, cut);
            self.open = self.registry.keys().collect();
            let keys = self.registry.keys();
            epochs.extend(
                keys.filter_map(|key| Some((key, self.registry.epochs(key).last()?.clone()))),
            );
        }
        self.skipped
            .retain(|key, _| epochs.get(key).is_some_and(|it| it.layout.member(me).is_some()));
        self.begin_view(epochs, cut, effects);
        if sponsor == Some(me) {
            let state = early.unwrap_or_else(|| self.snapshot());
            let registry = self.registry.clone();
            let message = UnicastMessage::Snapshot { view: next.number, registry, state };
            let newcomers = next.members.iter().map(|member| member.node).filter(|n| !informed(n));
            newcomers.for_each(|node| self.tell(node, &message, effects));
        }
        self.expect(effects);
        self.met.retain(|node, peer| self.nodes.contains_key(peer) || is_in_next_view(node));
        // Before anything of this view can be reported as durable (I-150).
        self.log_views();
        self.events.push_back(GroupEvent::Installed(next.clone()));
        self.take_in_early();
        for (from, snapshot) in self.control.take_early() {
            if is_in_next_view(&from) {
                self.inform(from, snapshot);
            }
        }
    }

    /// Passes over epochs that could not be given to the subgroups of this node: other members may
    /// have begun them.
    fn pass_over_ungiven(&mut self, next: &View) {
        let mut ungiven: Vec<(u64, Epoch)> =
            core::mem::take(&mut self.expected).into_iter().collect();
        for key in self.registry.keys().filter(|_| self.informed) {
            let last = self.progress.get(&key).map(|progress| progress.last_epoch().number);
            let epochs = self.registry.epochs(key).filter(|it| last.is_none_or(|n| it.number > n));
            let is_new = |epoch: &&Epoch| ungiven.iter().all(|(_, it)| it.name != epoch.name);
            let epochs: Vec<Epoch> = epochs.filter(is_new).cloned().collect();
            ungiven.extend(epochs.into_iter().map(|epoch| (key, epoch)));
        }
        let me = self.node.id();
        for (key, epoch) in ungiven {
            let sends = epoch.layout.member(me).is_some_and(|member| member.sends.is_some());
            let epoch = self.known_of(&epoch, next);
            match self.progress.get(&key).and_then(EpochProgress::id) {
                Some(id) => self.node.pass_over_ungiven(id, epoch),
                None if sends => self.skipped.entry(key).or_default().push(epoch),
                None => {}
            }
        }
    }

    /// Sets these epochs as the next ones of this node's subgroups, and tells their members where
    /// the epochs begin in this node's streams.
    fn begin_view(&mut self, epochs: BTreeMap<u64, Epoch>, cut: &GroupCut, effects: &mut Effects) {
        let me = self.node.id();
        let mut starts_by_node: BTreeMap<NodeId, Vec<EpochStart>> = BTreeMap::new();
        let progress = self.progress_by_key();
        for (key, epoch) in epochs {
            if let Some(start) = self.own_start_of(key, &epoch, cut) {
                for member in epoch.layout.members.iter().filter(|seat| seat.node != me) {
                    starts_by_node.entry(member.node).or_default().push(start);
                }
            }
            if epoch.layout.member(me).is_some() || progress.contains_key(&key) {
                self.expected.insert(key, epoch);
            }
        }
        for (key, (_, last)) in progress {
            // The subgroup has no members any more.
            self.expected.entry(key).or_insert_with(|| {
                let layout = Layout { level: DeliveryGuarantee::Atomic, members: Vec::new() };
                Epoch { number: last + 1, name: 0, layout, old: Vec::new() }
            });
        }
        for (node, starts) in starts_by_node {
            self.tell(node, &UnicastMessage::EpochStarts(starts), effects);
        }
    }

    /// Gives subgroups the epochs of the view, as far as all prerequisites are known.
    pub(super) fn expect(&mut self, effects: &mut Effects) -> usize {
        let mut done = 0;
        for (key, epoch) in core::mem::take(&mut self.expected) {
            if self.give_next_epoch(key, epoch.clone(), true, effects) {
                done += 1;
            } else {
                self.expected.insert(key, epoch);
            }
        }
        done
    }

    fn finish_at(&mut self, key: u64, cut: &GroupCut) {
        let Some((id, _)) = self.progress_by_key().get(&key).copied() else { return };
        let epoch = self.node.progress(id).map(|(epoch, _)| epoch);
        let Some(decided) = cut.of(key) else { return };
        let newest = epoch == Some(decided.last.epoch);
        let before = decided.before.iter().find(|cut| Some(cut.epoch) == epoch && !newest);
        let epoch_cut = before.unwrap_or(&decided.last);
        // If this node was about to begin the epoch and passes over it, only members of that epoch
        // know where it ends.
        let was_in_it = self.node.phase(id) == Some(EpochPhase::Wedged);
        let finished = self.finish(id, epoch_cut);
        if let Some(progress) = self.progress.get_mut(&key) {
            let took_part = was_in_it || planted(Fault::NotBegunKnows);
            progress.left_behind |= !newest || !finished || !took_part;
        }
    }

    /// Beginning of an epoch in this node's own stream, if the stream existed before.
    fn own_start_of(&mut self, key: u64, epoch: &Epoch, cut: &GroupCut) -> Option<EpochStart> {
        let me = self.node.id();
        let own = *epoch.old.iter().find(|stream| stream.node == me)?;
        let ends = &cut.of(key)?.last.ends;
        let (_, entry) = *ends.iter().find(|(stream, _)| *stream == own)?;
        let id = self.progress.get(&key).and_then(EpochProgress::id);
        let has_begun = |id: &SubgroupId| match planted(Fault::ReaderTellsNoStart) {
            true => self.node.phase(*id).is_some(),
            false => self.node.sends_in(*id, own.region),
        };
        let begun = id.filter(has_begun);
        // Other members may have seen commits of a stream that has not begun at this node. Such
        // commits are messages only: nulls and ends are committed by turns of an epoch. This node
        // may have begun earlier epochs, as a reader or with another stream (I-52).
        let early = StreamStart { entry, message: entry };
        let start = begun.map_or(Some(early), |id| self.node.own_start_at(id, entry))?;
        // If this node was left behind, it needs the beginning of its own stream like
        // the other members.
        self.announced_starts.entry((key, epoch.number)).or_default().insert(own, start);
        Some((key, epoch.number, own.region, start.entry, start.message))
    }
}

/// Epoch of the control stream in a view: every member sends and reads.
fn control_epoch(view: &View, cut: &GroupCut) -> Epoch {
    let layout_member = |node| LayoutMember {
        node,
        reads: true,
        sends: Some(CONTROL_STREAM),
        lines: CONTROL_LINES,
    };
    let members = view.members.iter().map(|member| layout_member(member.node)).collect();
    let layout = Layout { level: DeliveryGuarantee::Atomic, members };
    let ends = cut.of(CONTROL).into_iter().flat_map(|cut| &cut.last.ends);
    let past: Vec<StreamId> = ends.map(|(stream, _)| *stream).collect();
    let old = layout.streams().filter(|stream| past.contains(stream)).collect();
    Epoch { number: view.number, name: view.number, layout, old }
}
