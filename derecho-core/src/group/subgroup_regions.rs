//! Regions that a node brings into a subgroup, opened on its link. Every host of a
//! [`Group`](super::Group) uses the same ones.
//!
//! Owns: the set of these regions, and the lifetime of a stream's memory. Never does: open a region
//! on its own.

use alloc::vec::Vec;

use super::control::{CONTROL_LINES, CONTROL_STREAM, control_geometry};
use super::registry::Epoch;
use super::{Group, ReplicatedState};
use crate::fault::{Fault, planted};
use crate::ids::RegionId;
use crate::link::{Link, LinkError};
use crate::memory::{LINE_WORDS, OwnRegion};
use crate::multicast::claim::SenderMemory;
use crate::multicast::geometry::Geometry;
use crate::multicast::subgroup::SUBGROUP_LINES;

/// Regions that a node brings into a subgroup.
#[derive(Clone)]
pub struct SubgroupRegions {
    /// Region with [`SUBGROUP_LINES`] acknowledgement lines.
    pub lines: (RegionId, OwnRegion),
    /// Memory of the node's stream, if the node sends.
    pub memory: Option<(RegionId, SenderMemory)>,
}

/// Region to be opened for a stream.
#[derive(Clone, Copy, Debug)]
pub struct StreamRegion {
    /// Region of the stream.
    pub region: RegionId,
    /// Shape of its memory.
    pub geometry: Geometry,
}

impl SubgroupRegions {
    /// Opens the regions: the lines, and the stream with this geometry if the node sends.
    pub fn open(
        link: &mut (impl Link + ?Sized),
        lines: RegionId,
        stream: Option<StreamRegion>,
    ) -> Result<SubgroupRegions, LinkError> {
        let opened = link.open(lines, SUBGROUP_LINES * LINE_WORDS)?;
        let memory = stream.map(|StreamRegion { region, geometry }| {
            let memory = match link.open(region, geometry.words()) {
                Ok(memory) => memory,
                Err(error) => {
                    // An incomplete set of regions is useless.
                    let _ = link.close(lines);
                    return Err(error);
                }
            };
            Ok((region, SenderMemory::with_nulls(memory, geometry)))
        });
        Ok(SubgroupRegions { lines: (lines, opened), memory: memory.transpose()? })
    }

    /// Opens the regions that every member brings into the control stream.
    pub fn open_control(link: &mut (impl Link + ?Sized)) -> Result<SubgroupRegions, LinkError> {
        let stream = StreamRegion { region: CONTROL_STREAM, geometry: control_geometry() };
        SubgroupRegions::open(link, CONTROL_LINES, Some(stream))
    }

    /// Identifiers of the regions, for closing.
    pub fn regions(&self) -> impl Iterator<Item = RegionId> + '_ {
        core::iter::once(self.lines.0).chain(self.memory.iter().map(|(region, _)| *region))
    }
}

/// Memory from which this node sends a stream.
pub(super) struct StreamMemory {
    pub(super) memory: SenderMemory,
    /// Number of messages that this node had submitted to the control stream when it brought
    /// another memory. No later message leads to an epoch of this stream.
    replaced: Option<u64>,
}

/// Memory that this node brings into a subgroup, keyed by subgroup and region.
pub(super) fn stream_memory(
    key: u64,
    regions: &SubgroupRegions,
) -> Option<((u64, RegionId), StreamMemory)> {
    let (region, memory) = regions.memory.clone()?;
    Some(((key, region), StreamMemory { memory, replaced: None }))
}

impl<S: ReplicatedState> Group<S> {
    /// Adds this node's regions for a subgroup. Must be called before the state makes this node a
    /// member. The regions serve no other subgroup, and serve this one until it is
    /// [left](super::GroupEvent::Left).
    ///
    /// The memory of an earlier stream of this node serves the coming epochs of that stream (I-78).
    pub fn add_regions(&mut self, key: u64, regions: SubgroupRegions) {
        let submitted = self.control.submitted();
        for (_, memory) in self.memories.iter_mut().filter(|((of, _), _)| *of == key) {
            memory.replaced.get_or_insert(submitted);
        }
        self.memories.extend(stream_memory(key, &regions));
        self.regions.insert((key, regions.lines.0), regions);
        self.unsettled = true;
    }

    /// Withdraws the regions for a subgroup of which this node has not become a member. `None` if
    /// the regions are, or are about to be, in use.
    pub fn withdraw(&mut self, key: u64, lines: RegionId) -> Option<SubgroupRegions> {
        let me = self.node.id();
        let is_at_work = self.progress.get(&key).is_some_and(|walk| walk.lines() == lines);
        let mut epochs = self.registry.epochs(key).chain(self.expected.get(&key));
        let has_lines =
            |epoch: &Epoch| epoch.layout.member(me).is_some_and(|seat| seat.lines == lines);
        if is_at_work || epochs.any(has_lines) {
            return None;
        }
        drop(epochs);
        let regions = self.regions.remove(&(key, lines))?;
        if let Some((region, _)) = &regions.memory {
            self.memories.remove(&(key, *region));
        }
        Some(regions)
    }

    /// Drops the memory of replaced streams, once no epoch of them can follow (I-78).
    pub(super) fn forget_memories(&mut self, key: u64) {
        let heard = self.control.applied_own();
        let of_it = self.memories.iter().filter(|((of, _), _)| *of == key);
        let replaced =
            of_it.filter(|(_, memory)| memory.replaced.is_some_and(|submitted| submitted <= heard));
        let is_over =
            |region: &RegionId| planted(Fault::MemoryReplaced) || !self.sends(key, *region);
        let over = replaced.map(|((_, region), _)| *region).filter(is_over);
        for region in over.collect::<Vec<RegionId>>() {
            self.memories.remove(&(key, region));
        }
    }

    /// Drops the regions for a subgroup that this node has left.
    pub(super) fn forget_regions(&mut self, key: u64, lines: RegionId) {
        let regions = self.regions.remove(&(key, lines));
        if let Some((region, _)) = regions.and_then(|share| share.memory)
            && !self.sends(key, region)
        {
            self.memories.remove(&(key, region));
        }
        self.forget_memories(key);
    }
}
