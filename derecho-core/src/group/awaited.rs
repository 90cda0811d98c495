//! Members that this node awaits, each for a condition (I-79).
//!
//! Owns: the list of all waits at this node, from the functions of the conditions themselves, and
//! the start of each wait. Never does: suspect a silent member; the [membership
//! service](super::membership_service) asks the awaited members and suspects those that do not
//! answer.
//!
//! ```text
//!   membership ── Admission, Promotion, Report, Proposal, Acceptance ─┐
//!   service    ── Introduction ───────────────────────────────────────┤
//!   group      ── State, Start ───────────────────────────────────────┼──> waits ──> asked, and
//!   node       ── Opening, Stream ────────────────────────────────────┤              suspected if
//!   subgroups  ── Receipt, Slot, End, Room ───────────────────────────┘              silent
//! ```

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::silence_detector::MemberTimeouts;
use super::{Group, LOOK_INTERVAL, ReplicatedState};
use crate::ids::{NodeId, Time};
use crate::membership::{MemberStatus, WaitCondition};

/// One wait of this node for a member.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Wait {
    /// Subgroup in which the member is awaited, if the wait concerns a subgroup.
    pub key: Option<u64>,
    /// Member that can make the condition true.
    pub node: NodeId,
    /// The condition.
    pub condition: WaitCondition,
}

/// Waits of this node, as found at the last look.
pub(super) struct WaitTracker {
    /// Minimum time between two looks at the streams: a member that keeps up receives within this
    /// time everything that another member has received before.
    interval: u64,
    next_scan: Time,
    /// Waits found in the streams at the last look, and the progress of each awaited member.
    streams: Vec<(Wait, u64)>,
    /// All waits: the start of each, and the progress of the awaited member.
    since: BTreeMap<Wait, (Time, u64)>,
    /// Maximum silence of an awaited member; `None` for no limit.
    timeout: Option<u64>,
    looked: Time,
    /// A condition may have come up since the last look.
    is_new: bool,
}

impl WaitTracker {
    pub(super) fn new(timeouts: &MemberTimeouts) -> WaitTracker {
        let interval = timeouts.member_timeout.map_or(LOOK_INTERVAL, |timeout| timeout / 8);
        WaitTracker {
            interval: interval.min(LOOK_INTERVAL),
            next_scan: Time(0),
            streams: Vec::new(),
            since: BTreeMap::new(),
            timeout: timeouts.member_timeout,
            looked: Time(0),
            is_new: false,
        }
    }

    /// Time between two looks.
    pub(super) fn interval(&self) -> u64 {
        self.interval
    }

    /// Whether anybody is awaited.
    pub(super) fn is_anybody(&self) -> bool {
        self.is_new || !self.since.is_empty()
    }
}

impl<S: ReplicatedState> Group<S> {
    /// Waits of this node: each awaited member with its condition, and the start of the wait.
    pub fn waits(&self) -> impl Iterator<Item = (Wait, Time)> + '_ {
        self.wait_tracker.since.iter().map(|(wait, (since, _))| (*wait, *since))
    }

    /// Progress of the awaited member in this wait.
    pub(super) fn progress_of(&self, wait: &Wait) -> Option<u64> {
        self.wait_tracker.since.get(wait).map(|(_, progress)| *progress)
    }

    /// Determines the members that this node awaits.
    pub(super) fn look_for_awaited(&mut self, now: Time) -> Vec<NodeId> {
        if now >= self.wait_tracker.next_scan {
            self.wait_tracker.next_scan = now.after(self.wait_tracker.interval);
            self.wait_tracker.streams = self.waits_of_streams();
        }
        let mut waits: Vec<(Wait, u64)> =
            self.waits_of_group().into_iter().map(|wait| (wait, 0)).collect();
        waits.extend(&self.wait_tracker.streams);
        let view = &self.installed;
        // The agreement may be in a later view than the streams.
        let newest = self.membership_service.membership().view();
        let is_member =
            |node: NodeId| view.rank_of(node).is_some() || newest.rank_of(node).is_some();
        waits.retain(|(wait, _)| is_member(wait.node));
        let WaitTracker { since, looked, timeout, interval, .. } = &mut self.wait_tracker;
        // I-65: a node that was stopped itself has not waited for that time.
        let patient =
            timeout.is_none_or(|timeout| now.since(*looked) <= (timeout / 2).max(*interval));
        *looked = now;
        let known = core::mem::take(since);
        *since = waits
            .into_iter()
            .map(|(wait, progress)| {
                let same = known.get(&wait).filter(|(_, before)| patient && *before == progress);
                (wait, (same.map_or(now, |(since, _)| *since), progress))
            })
            .collect();
        let waits = self.wait_tracker.since.keys();
        let mut nodes: Vec<NodeId> = waits.map(|wait| wait.node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }

    /// Requests another look if work since the last look may have caused new waits.
    pub(super) fn note_new_waits(&mut self) {
        self.wait_tracker.is_new = !self.waits_of_group().is_empty();
    }

    /// Waits of the agreement on views, and of everything that begins with a view.
    fn waits_of_group(&self) -> Vec<Wait> {
        let agreement = self.membership_service.membership();
        if agreement.status() != MemberStatus::Member {
            return Vec::new();
        }
        let of_group = |condition, node| Wait { key: None, node, condition };
        let view = agreement.view();
        let mut waits: Vec<Wait> = agreement
            .waits()
            .into_iter()
            .map(|(condition, rank)| of_group(condition, view.member(rank).node))
            .collect();
        waits.extend(
            self.membership_service
                .unlinked()
                .map(|node| of_group(WaitCondition::Introduction, node)),
        );
        if agreement.is_wedged() {
            return waits;
        }
        let sponsor = self.sponsor.filter(|_| !self.informed);
        waits.extend(sponsor.map(|node| of_group(WaitCondition::State, node)));
        let starts = self.unannounced().into_iter();
        waits.extend(starts.map(|(key, node)| Wait {
            key: Some(key),
            node,
            condition: WaitCondition::Start,
        }));
        for (id, peer) in self.node.unshown() {
            let key = self.key_of(id);
            let node = self.node_of(peer);
            waits.extend(node.map(|node| Wait { key, node, condition: WaitCondition::Opening }));
        }
        waits
    }

    fn waits_of_streams(&mut self) -> Vec<(Wait, u64)> {
        let readers: Vec<_> = self.node.lagging_readers().collect();
        let readers = readers.into_iter().map(|peer| (None, WaitCondition::Stream, peer, 0));
        let subgroups = self.node.waits().into_iter();
        let subgroups =
            subgroups.map(|(id, condition, peer, far)| (self.key_of(id), condition, peer, far));
        let all = readers.chain(subgroups);
        all.filter_map(|(key, condition, peer, progress)| {
            Some((Wait { key, node: *self.nodes.get(&peer)?, condition }, progress))
        })
        .collect()
    }
}
