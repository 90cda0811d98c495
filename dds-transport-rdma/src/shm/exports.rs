//! State that this node shows to its peers: arenas, open regions, and the peers that may read them.
//!
//! Owns: the record of what every current and later peer must be told, and of which peers have not
//! released a region. Never does: touch the memory.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use crossbeam_channel::Sender;
use derecho_core::ids::RegionId;

use super::arbiter::GroupMemory;
use super::arena::{ArenaRange, NewArena};
use super::wire::Message;

/// Release notice of a closed region. Its space is allocated again once both notices have arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RegionReleased {
    /// No handle on the region is left in this process.
    ByOwner { serial: u64 },
    /// The region is closed and no peer refers to it any more.
    ByPeers { serial: u64 },
}

/// An own region as peers see it.
struct ExportedRegion {
    region: RegionId,
    space: ArenaRange,
    words: usize,
    open: bool,
    /// Connections that were told of the region and have not released it.
    holders: BTreeSet<u32>,
}

/// A message and the descriptor that accompanies it.
pub(crate) type Announcement = (Message<'static>, Option<Arc<OwnedFd>>);

/// Everything that this node shows to its peers.
pub(crate) struct Exports {
    arenas: BTreeMap<u32, NewArena>,
    regions: BTreeMap<u64, ExportedRegion>,
    /// Words of the local group, once this node uses them.
    group: Option<Arc<GroupMemory>>,
    freed: Sender<RegionReleased>,
}

impl Exports {
    /// Creates an empty record that reports freed regions to `freed`.
    pub(crate) fn new(freed: Sender<RegionReleased>) -> Exports {
        Exports { arenas: BTreeMap::new(), regions: BTreeMap::new(), group: None, freed }
    }

    /// Records an arena; returns its announcement.
    pub(crate) fn add_arena(&mut self, arena: NewArena) -> Announcement {
        let announcement = announce_arena(&arena);
        self.arenas.insert(arena.index, arena);
        announcement
    }

    /// Returns the announcement of the first arena, which every peer receives before anything else.
    pub(crate) fn header_arena(&self) -> Announcement {
        announce_arena(self.arenas.get(&0).expect("a link is made with its first arena"))
    }

    /// Removes an arena; returns its announcement.
    pub(crate) fn retire(&mut self, index: u32) -> Announcement {
        self.arenas.remove(&index);
        (Message::Retire { index }, None)
    }

    /// Records the words of the local group, which this node uses from now on; returns
    /// their announcement.
    pub(crate) fn set_group(&mut self, memory: Arc<GroupMemory>) -> Announcement {
        let announcement = announce_group(&memory);
        self.group = Some(memory);
        announcement
    }

    /// Returns the announcement of the words of the local group, if this node uses them.
    pub(crate) fn group(&self) -> Option<Announcement> {
        self.group.as_deref().map(announce_group)
    }

    /// Records a region and its holders; returns its announcement.
    pub(crate) fn open(
        &mut self,
        serial: u64,
        region: RegionId,
        space: ArenaRange,
        words: usize,
        holders: BTreeSet<u32>,
    ) -> Announcement {
        let export = ExportedRegion { region, space, words, open: true, holders };
        let announcement = announce_region(serial, &export);
        self.regions.insert(serial, export);
        announcement
    }

    /// Marks a region as closed; returns its announcement.
    pub(crate) fn close(&mut self, serial: u64) -> Announcement {
        if let Some(export) = self.regions.get_mut(&serial) {
            export.open = false;
        }
        self.free_if_done(serial);
        (Message::Close { serial }, None)
    }

    /// Returns everything that a new peer must be told after the header's arena. The peer becomes a
    /// holder of every open region.
    pub(crate) fn catch_up(&mut self, connection: u32) -> Vec<Announcement> {
        let arenas = self.arenas.values().filter(|arena| arena.index != 0).map(announce_arena);
        // This node may have started to use the group words since the greeting.
        let group = self.group();
        let mut announcements: Vec<Announcement> = group.into_iter().chain(arenas).collect();
        for (serial, export) in self.regions.iter_mut().filter(|(_, export)| export.open) {
            export.holders.insert(connection);
            announcements.push(announce_region(*serial, export));
        }
        announcements
    }

    /// Returns the name of an open region that `connection` was told of.
    pub(crate) fn region(&self, serial: u64, connection: u32) -> Option<RegionId> {
        let export = self.regions.get(&serial)?;
        (export.open && export.holders.contains(&connection)).then_some(export.region)
    }

    /// Records that a peer has released a region.
    pub(crate) fn released(&mut self, serial: u64, connection: u32) {
        if let Some(export) = self.regions.get_mut(&serial) {
            export.holders.remove(&connection);
            self.free_if_done(serial);
        }
    }

    /// Records that a peer has released everything.
    pub(crate) fn released_all(&mut self, connection: u32) {
        let held: Vec<u64> = self
            .regions
            .iter()
            .filter(|(_, export)| export.holders.contains(&connection))
            .map(|(serial, _)| *serial)
            .collect();
        for serial in held {
            self.released(serial, connection);
        }
    }

    fn free_if_done(&mut self, serial: u64) {
        if self.regions.get(&serial).is_some_and(|it| !it.open && it.holders.is_empty()) {
            self.regions.remove(&serial);
            // If the node has gone, no space is allocated any more.
            let _ = self.freed.send(RegionReleased::ByPeers { serial });
        }
    }
}

fn announce_arena(arena: &NewArena) -> Announcement {
    let message = Message::Arena { index: arena.index, bytes: arena.bytes };
    (message, Some(Arc::clone(&arena.memory)))
}

fn announce_group(memory: &GroupMemory) -> Announcement {
    (Message::Group, Some(Arc::clone(memory.file())))
}

fn announce_region(serial: u64, export: &ExportedRegion) -> Announcement {
    let message = Message::Region {
        serial,
        region: export.region.0,
        arena: export.space.arena,
        offset: export.space.offset as u64,
        words: export.words as u64,
    };
    (message, None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crossbeam_channel::unbounded;

    #[test]
    fn region_space_is_freed_after_close_and_release_by_last_peer() {
        let (sender, freed) = unbounded();
        let mut exports = Exports::new(sender);
        let space = ArenaRange { arena: 0, offset: 0, bytes: 64 };
        exports.open(1, RegionId(9), space, 8, BTreeSet::from([5]));
        let later = exports.catch_up(6);
        assert_eq!(later.len(), 1);
        exports.released(1, 5);
        exports.close(1);
        assert_eq!(exports.region(1, 6), None);
        assert!(freed.try_recv().is_err());
        exports.released_all(6);
        assert_eq!(freed.try_recv(), Ok(RegionReleased::ByPeers { serial: 1 }));
        assert!(exports.catch_up(7).is_empty());
    }
}
