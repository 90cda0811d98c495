//! What a node brings into a subgroup, opened on its link: the same for whoever hosts a [`Group`](super::Group).
//!
//! Owns: which regions those are, and how long the memory of a stream is kept. Never does: open a region by itself.

use alloc::vec::Vec;

use super::control::{CONTROL_LINES, CONTROL_STREAM, control_geometry};
use super::registry::Epoch;
use super::{Group, State};
use crate::fault::{Fault, planted};
use crate::ids::RegionId;
use crate::link::{Link, LinkError};
use crate::memory::{LINE_WORDS, OwnRegion};
use crate::multicast::claim::SenderMemory;
use crate::multicast::geometry::Geometry;
use crate::multicast::subgroup::SUBGROUP_LINES;

/// What a node brings into a subgroup.
#[derive(Clone)]
pub struct Share {
    /// Its lines: [`SUBGROUP_LINES`] of them.
    pub lines: (RegionId, OwnRegion),
    /// What it sends from, if it does.
    pub memory: Option<(RegionId, SenderMemory)>,
}

impl Share {
    /// Opens the regions of a share: its lines, and if it sends a stream of that shape.
    pub fn open(
        link: &mut (impl Link + ?Sized),
        lines: RegionId,
        stream: Option<(RegionId, Geometry)>,
    ) -> Result<Share, LinkError> {
        let opened = link.open(lines, SUBGROUP_LINES * LINE_WORDS)?;
        let memory = stream.map(|(region, geometry)| {
            let memory = match link.open(region, geometry.words()) {
                Ok(memory) => memory,
                Err(error) => {
                    // Half a share is of no use to anybody.
                    let _ = link.close(lines);
                    return Err(error);
                }
            };
            Ok((region, SenderMemory::with_nulls(memory, geometry)))
        });
        Ok(Share { lines: (lines, opened), memory: memory.transpose()? })
    }

    /// Opens what every member brings into the control stream.
    pub fn open_control(link: &mut (impl Link + ?Sized)) -> Result<Share, LinkError> {
        Share::open(link, CONTROL_LINES, Some((CONTROL_STREAM, control_geometry())))
    }

    /// The regions, to be closed.
    pub fn regions(&self) -> impl Iterator<Item = RegionId> + '_ {
        core::iter::once(self.lines.0).chain(self.memory.iter().map(|(region, _)| *region))
    }
}

/// What this node sends a stream from.
pub(super) struct StreamMemory {
    pub(super) memory: SenderMemory,
    /// The number of messages that this node had submitted to the control stream when it brought another memory: an
    /// epoch of this stream follows from none that came later.
    replaced: Option<u64>,
}

/// The memory that a share brings into a subgroup, by subgroup and region.
pub(super) fn stream_memory(key: u64, share: &Share) -> Option<((u64, RegionId), StreamMemory)> {
    let (region, memory) = share.memory.clone()?;
    Some(((key, region), StreamMemory { memory, replaced: None }))
}

impl<S: State> Group<S> {
    /// Brings what this node needs in a subgroup; to be done before the state says that it is a member.
    /// Its regions are used for no other one, and for this one until it is [left](super::GroupEvent::Left).
    ///
    /// The memory of an earlier stream of this node is used for the epochs of that stream that are still to come (I-78).
    pub fn bring(&mut self, key: u64, share: Share) {
        let said = self.control.submitted();
        for (_, memory) in self.memories.iter_mut().filter(|((of, _), _)| *of == key) {
            memory.replaced.get_or_insert(said);
        }
        self.memories.extend(stream_memory(key, &share));
        self.shares.insert((key, share.lines.0), share);
        self.unsettled = true;
    }

    /// Takes back what was brought for a subgroup in which this node has got no seat. `None` if it is, or is
    /// about to be, at work.
    pub fn withdraw(&mut self, key: u64, lines: RegionId) -> Option<Share> {
        let me = self.node.id();
        let is_at_work = self.walks.get(&key).is_some_and(|walk| walk.lines() == lines);
        let mut epochs = self.registry.epochs(key).chain(self.expected.get(&key));
        let seat = |epoch: &Epoch| epoch.layout.seat_of(me).is_some_and(|seat| seat.lines == lines);
        if is_at_work || epochs.any(seat) {
            return None;
        }
        drop(epochs);
        let share = self.shares.remove(&(key, lines))?;
        if let Some((region, _)) = &share.memory {
            self.memories.remove(&(key, *region));
        }
        Some(share)
    }

    /// Forgets the memory of streams that were replaced, once no epoch of them can come any more (I-78).
    pub(super) fn forget_memories(&mut self, key: u64) {
        let heard = self.control.heard_own();
        let of_it = self.memories.iter().filter(|((of, _), _)| *of == key);
        let replaced =
            of_it.filter(|(_, memory)| memory.replaced.is_some_and(|said| said <= heard));
        let is_over =
            |region: &RegionId| planted(Fault::MemoryReplaced) || !self.sends(key, *region);
        let over = replaced.map(|((_, region), _)| *region).filter(is_over);
        for region in over.collect::<Vec<RegionId>>() {
            self.memories.remove(&(key, region));
        }
    }

    /// Forgets a share of a subgroup that this node has left.
    pub(super) fn forget_share(&mut self, key: u64, lines: RegionId) {
        let share = self.shares.remove(&(key, lines));
        if let Some((region, _)) = share.and_then(|share| share.memory)
            && !self.sends(key, region)
        {
            self.memories.remove(&(key, region));
        }
        self.forget_memories(key);
    }
}
