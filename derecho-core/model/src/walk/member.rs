//! A member's knowledge of the subgroup and of the other members, and what it shows.
//!
//! Owns: the state. Never does: take a step.

use derecho_core::group::registry::{Epoch, Layout, LayoutMember, Registry};
use derecho_core::group::report::{MemberReport, StreamId};
use derecho_core::ids::{NodeId, RegionId};
use derecho_core::multicast::subgroup::DeliveryGuarantee;

use super::LayoutPart;

/// Maximum number of members of a model.
pub const MOST: usize = 3;

/// Key of the one subgroup.
pub(super) const KEY: u64 = 7;

/// Count of entries for each member's stream.
pub(super) type Counts = [u8; MOST];

pub(super) fn id(node: usize) -> NodeId {
    NodeId(node as u128 + 1)
}

pub(super) fn index(id: NodeId) -> usize {
    id.0 as usize - 1
}

pub(super) fn stream(node: usize) -> StreamId {
    StreamId { node: id(node), region: RegionId(20) }
}

/// Returns a layout in the product's form, restricted to the members of the view.
pub(super) fn layout(parts: &[LayoutPart], members: u8) -> Layout {
    let there = parts.iter().filter(|(node, _, _)| members >> node & 1 == 1);
    let seat = |&(node, reads, sends): &LayoutPart| LayoutMember {
        node: id(node),
        reads,
        sends: sends.then_some(RegionId(20)),
        lines: RegionId(21),
    };
    Layout { level: DeliveryGuarantee::Atomic, members: there.map(seat).collect() }
}

/// Returns whether a member reads and sends in a layout; `None` if it has no seat.
pub(super) fn part(layout: &Layout, node: usize) -> Option<(bool, bool)> {
    layout.member(id(node)).map(|seat| (seat.reads, seat.sends.is_some()))
}

pub(super) fn senders(layout: &Layout) -> impl Iterator<Item = usize> + '_ {
    layout.streams().map(|stream| index(stream.node))
}

/// Entry of a stream: a message, or the end of an epoch.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum StreamEntry {
    Message,
    End(u64),
}

/// State that a member shows in the epoch of this name.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct EpochLine {
    pub(super) name: u64,
    pub(super) received: Counts,
    /// True if the member has left by a change of layout, and the epoch was complete.
    pub(super) finished: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum EpochPhase {
    Open,
    Closing,
    Complete,
    Wedged,
    Finished,
}

/// State of a member within an epoch.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct EpochState {
    pub(super) epoch: Epoch,
    pub(super) phase: EpochPhase,
    /// Whether its readers have everything that it has delivered, and get what follows.
    pub(super) reads: bool,
    pub(super) start: Counts,
    pub(super) delivered: Counts,
    /// Ends of the streams, once the epoch is complete or finished.
    pub(super) ends: Counts,
    /// Members that left with the previous epoch, and must show that they have finished it.
    pub(super) former: u8,
    /// Name of the previous epoch.
    pub(super) before: u64,
}

/// Announced epoch that a member has not begun.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct AnnouncedEpoch {
    pub(super) epoch: Epoch,
    /// Beginnings of the epoch in each stream, as far as they were announced to the member.
    pub(super) starts: [Option<u8>; MOST],
}

/// Beginning of an epoch in one stream, as announced to one member.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct AnnouncedStart {
    pub(super) epoch: u64,
    pub(super) of: usize,
    pub(super) at: u8,
}

/// One member.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct WalkMember {
    pub(super) lives: bool,
    pub(super) wedged: Option<MemberReport>,
    /// View that the member has installed.
    pub(super) view: u64,
    /// Members of that view.
    pub(super) members: u8,
    /// Number of layout changes delivered to the member.
    pub(super) changes: usize,
    pub(super) registry: Registry,
    pub(super) stream: Vec<StreamEntry>,
    pub(super) received: Counts,
    pub(super) current: Option<EpochState>,
    /// Last announced epoch: the one that the member is in, if `begun`.
    pub(super) announced: Option<AnnouncedEpoch>,
    pub(super) begun: bool,
    /// True if an epoch was announced to the member, and no view has ended it before it began.
    pub(super) may_begin: bool,
    pub(super) left_behind: bool,
    /// Newcomers of the last announced epoch, to which this member must still announce the
    /// beginning in its stream.
    pub(super) owes: Vec<usize>,
    /// Epoch in which the node is no longer a member, if it has left in this view.
    pub(super) behind: Option<Epoch>,
    /// Epoch that a view has brought.
    pub(super) expected: Option<Epoch>,
    pub(super) lines: [EpochLine; 2],
    pub(super) sees: [[EpochLine; 2]; MOST],
    /// Beginnings that others have sent, and those of them that have arrived.
    pub(super) announced_starts: Vec<AnnouncedStart>,
    pub(super) heard: Vec<AnnouncedStart>,
}

impl WalkMember {
    /// Returns the beginning of an epoch in a stream, as its sender has announced.
    pub(super) fn heard_of(&self, epoch: u64, of: usize) -> Option<u8> {
        self.heard.iter().find(|start| (start.epoch, start.of) == (epoch, of)).map(|s| s.at)
    }

    /// Whether the member receives, delivers and shows.
    pub(super) fn is_at_work(&self) -> bool {
        let at_work = |place: &EpochState| {
            matches!(place.phase, EpochPhase::Open | EpochPhase::Closing | EpochPhase::Complete)
        };
        self.lives && self.current.as_ref().is_some_and(at_work)
    }
}
