//! Names of things: a newtype for every id, so that one cannot be taken for another.

use core::fmt;

/// A participant's identity: 128 random bits, never used again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u128);

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Eight digits tell the nodes of any test apart and keep traces readable.
        write!(f, "n{:08x}", (self.0 >> 96) as u32)
    }
}

/// A link's handle for one peer. Given out in order from 0 and never reused by that link, so it
/// may index a table, and a late event of a dead peer cannot be taken for a living one's.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Peer(pub u32);

impl Peer {
    /// The handle as an index into a table of peers.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A region's name, unique for its owner and never reused by it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RegionId(pub u64);

/// A member's position in a view or table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Rank(pub u16);

impl Rank {
    /// The rank as an index.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// Nanoseconds on the node's monotonic clock. The core never reads a clock; it is told.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Time(pub u64);

impl Time {
    /// The time `nanos` later; stays at the end of time instead of wrapping.
    pub fn after(self, nanos: u64) -> Time {
        Time(self.0.saturating_add(nanos))
    }

    /// Nanoseconds from `earlier` to `self`, zero if it is not earlier.
    pub fn since(self, earlier: Time) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}
