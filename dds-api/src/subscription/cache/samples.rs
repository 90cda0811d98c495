//! Storage of the samples of a cache: reusable slots, and the linked lists (chains) that
//! connect them.
//!
//! ```text
//!   Instance   one chain for each instance: its samples in order; last a notice if it is over
//!   All        all samples, in the order in which they are given across instances
//!   Unread     those samples of `All` that have not been read
//! ```
//!
//! Owns: slots and chains. Never does: know why a sample has its position.

use derecho_core::ids::NodeId;

use super::CachedSampleInfo;
use crate::infrastructure::InstanceHandle;

/// Index of no slot.
pub(super) const NIL: u32 = u32::MAX;

/// Write time and writer of a sample: the sort key of DESTINATION_ORDER by source. With the writer
/// in the key, samples that two writers write at the same time have the same order at all readers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SourceOrder {
    // Fields in the order of comparison. A whole handle would make the key larger by half.
    pub(super) time: u64,
    node: NodeId,
    entity: u64,
}

impl SourceOrder {
    /// Precedes every other order.
    pub(super) const EARLIEST: SourceOrder = SourceOrder::new(0, InstanceHandle::NIL);

    pub(super) const fn new(time: u64, writer: InstanceHandle) -> SourceOrder {
        SourceOrder { time, node: writer.node, entity: writer.entity }
    }

    pub(super) const fn writer(self) -> InstanceHandle {
        InstanceHandle { node: self.node, entity: self.entity }
    }
}

/// One of the chains.
#[derive(Clone, Copy)]
pub(super) enum Chain {
    Instance,
    All,
    Unread,
}

#[derive(Clone, Copy)]
struct ChainLink {
    before: u32,
    after: u32,
}

const UNLINKED: ChainLink = ChainLink { before: NIL, after: NIL };

/// The first and last slots of a chain.
#[derive(Clone, Copy)]
pub(super) struct ChainEnds {
    pub(super) first: u32,
    pub(super) last: u32,
}

impl ChainEnds {
    pub(super) const EMPTY: ChainEnds = ChainEnds { first: NIL, last: NIL };
}

/// A sample, or the notice that its instance is over.
pub(super) struct CacheEntry<S> {
    pub(super) data: Option<S>,
    pub(super) instance: u32,
    pub(super) writer: InstanceHandle,
    /// Position among all samples of the reader's group.
    pub(super) position: u64,
    /// Time at which the sample was written.
    pub(super) time: u64,
    pub(super) expires: u64,
    pub(super) disposed_generation: u32,
    pub(super) no_writers_generation: u32,
    pub(super) valid: bool,
    pub(super) read: bool,
}

impl<S> CacheEntry<S> {
    /// Sort key of DESTINATION_ORDER by source. A notice follows all samples that were written at
    /// the same time.
    #[inline]
    pub(super) fn order(&self) -> SourceOrder {
        SourceOrder::new(self.time, if self.valid { self.writer } else { InstanceHandle::HIGHEST })
    }

    /// Number of rebirths of the instance when the entry came.
    pub(super) fn generation(&self) -> u32 {
        self.disposed_generation.saturating_add(self.no_writers_generation)
    }

    /// Information that the entry itself has. The caller adds that of the instance.
    pub(super) fn info(&self) -> CachedSampleInfo {
        CachedSampleInfo {
            source_timestamp: self.time,
            publication_handle: self.writer,
            disposed_generation_count: self.disposed_generation,
            no_writers_generation_count: self.no_writers_generation,
            valid_data: self.valid,
            ..CachedSampleInfo::default()
        }
    }
}

struct SampleSlot<S> {
    entry: Option<CacheEntry<S>>,
    links: [ChainLink; 3],
    /// Number of times that the slot was freed.
    epoch: u32,
}

pub(super) struct SampleTable<S> {
    slots: Vec<SampleSlot<S>>,
    free: Vec<u32>,
}

impl<S> Default for SampleTable<S> {
    fn default() -> Self {
        SampleTable { slots: Vec::new(), free: Vec::new() }
    }
}

const TAKEN: &str = "a chain consists of occupied places";

impl<S> SampleTable<S> {
    /// Number of entries, including notices.
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(super) fn add(&mut self, entry: CacheEntry<S>) -> u32 {
        match self.free.pop() {
            Some(at) => {
                self.slots[at as usize].entry = Some(entry);
                at
            }
            None => {
                self.slots.push(SampleSlot { entry: Some(entry), links: [UNLINKED; 3], epoch: 0 });
                (self.slots.len() - 1) as u32
            }
        }
    }

    /// Frees a slot that is in no chain any more, and returns its entry.
    pub(super) fn remove(&mut self, at: u32) -> CacheEntry<S> {
        let slot = &mut self.slots[at as usize];
        slot.epoch = slot.epoch.wrapping_add(1);
        self.free.push(at);
        slot.entry.take().expect(TAKEN)
    }

    #[inline]
    pub(super) fn get(&self, at: u32) -> &CacheEntry<S> {
        self.slots[at as usize].entry.as_ref().expect(TAKEN)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, at: u32) -> &mut CacheEntry<S> {
        self.slots[at as usize].entry.as_mut().expect(TAKEN)
    }

    pub(super) fn epoch(&self, at: u32) -> u32 {
        self.slots[at as usize].epoch
    }

    /// Whether the slot still holds the entry that it held at this epoch.
    pub(super) fn is_still(&self, at: u32, epoch: u32) -> bool {
        let slot = self.slots.get(at as usize);
        slot.is_some_and(|place| place.entry.is_some() && place.epoch == epoch)
    }

    #[inline]
    fn link(&mut self, chain: Chain, at: u32) -> &mut ChainLink {
        &mut self.slots[at as usize].links[chain as usize]
    }

    #[inline]
    pub(super) fn after(&self, chain: Chain, at: u32) -> u32 {
        self.slots[at as usize].links[chain as usize].after
    }

    #[inline]
    pub(super) fn before(&self, chain: Chain, at: u32) -> u32 {
        self.slots[at as usize].links[chain as usize].before
    }

    /// Inserts a slot into a chain behind another slot, or at the head.
    #[inline]
    pub(super) fn insert(&mut self, chain: Chain, ends: &mut ChainEnds, behind: u32, at: u32) {
        let after = match behind {
            NIL => std::mem::replace(&mut ends.first, at),
            behind => std::mem::replace(&mut self.link(chain, behind).after, at),
        };
        match after {
            NIL => ends.last = at,
            after => self.link(chain, after).before = at,
        }
        *self.link(chain, at) = ChainLink { before: behind, after };
    }

    /// Removes a slot from a chain.
    #[inline]
    pub(super) fn unlink(&mut self, chain: Chain, ends: &mut ChainEnds, at: u32) {
        let ChainLink { before, after } = std::mem::replace(self.link(chain, at), UNLINKED);
        match before {
            NIL => ends.first = after,
            before => self.link(chain, before).after = after,
        }
        match after {
            NIL => ends.last = before,
            after => self.link(chain, after).before = before,
        }
    }

    /// The last slot of a chain that is not later than `order`; [`NIL`] if all are later.
    #[inline]
    pub(super) fn last_until(&self, chain: Chain, ends: &ChainEnds, order: SourceOrder) -> u32 {
        let mut at = ends.last;
        while at != NIL && self.get(at).order() > order {
            at = self.before(chain, at);
        }
        at
    }
}
