//! Identifiers. Each has a type of its own, so that one cannot be mistaken for another.

use core::fmt;

/// Identity of a participant: 128 random bits, never reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u128);

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Eight digits distinguish the nodes of any test and keep traces readable.
        write!(f, "n{:08x}", (self.0 >> 96) as u32)
    }
}

/// A link's handle for one peer. Handles are numbered from 0 and never reused by that link. A
/// handle may therefore index a table, and a late event of a dead peer cannot be taken for one of a
/// living peer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Peer(pub u32);

impl Peer {
    /// Returns the handle as an index into a table of peers.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Name of a region, unique for its owner and never reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RegionId(pub u64);

/// A member's position in a view or table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Rank(pub u16);

impl Rank {
    /// Returns the rank as an index.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// Nanoseconds on the node's monotonic clock. The core never reads a clock; the time is passed
/// to it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Time(pub u64);

impl Time {
    /// Returns the time `nanos` later, saturating at the end of time.
    pub fn after(self, nanos: u64) -> Time {
        Time(self.0.saturating_add(nanos))
    }

    /// Returns the nanoseconds from `earlier` to `self`, or zero if `earlier` is not earlier.
    pub fn since(self, earlier: Time) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}
