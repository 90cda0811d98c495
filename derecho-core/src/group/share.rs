//! What a node brings into a subgroup, opened on its link: the same for whoever hosts a [`Group`](super::Group).
//!
//! Owns: which regions those are. Never does: keep them.

use super::control::{CONTROL_LINES, CONTROL_STREAM, control_geometry};
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
