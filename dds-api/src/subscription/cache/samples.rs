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

use super::Info;
use crate::infrastructure::InstanceHandle;

/// Index of no slot.
pub(super) const NIL: u32 = u32::MAX;

/// Write time and writer of a sample: the sort key of DESTINATION_ORDER by source. With the writer
/// in the key, samples that two writers write at the same time have the same order at all readers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Order {
    // Fields in the order of comparison. A whole handle would make the key larger by half.
    pub(super) time: u64,
    node: NodeId,
    entity: u64,
}

impl Order {
    /// Precedes every other order.
    pub(super) const EARLIEST: Order = Order::new(0, InstanceHandle::LOWEST);

    pub(super) const fn new(time: u64, writer: InstanceHandle) -> Order {
        Order { time, node: writer.node, entity: writer.entity }
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
struct Link {
    before: u32,
    after: u32,
}

const UNLINKED: Link = Link { before: NIL, after: NIL };

/// The first and last slots of a chain.
#[derive(Clone, Copy)]
pub(super) struct Ends {
    pub(super) first: u32,
    pub(super) last: u32,
}

impl Ends {
    pub(super) const EMPTY: Ends = Ends { first: NIL, last: NIL };
}

/// A sample, or the notice that its instance is over.
pub(super) struct Entry<S> {
    pub(super) data: Option<S>,
    pub(super) instance: u32,
    pub(super) writer: InstanceHandle,
    /// Position among all samples of the reader's group.
    pub(super) place: u64,
    /// Time at which the sample was written.
    pub(super) time: u64,
    pub(super) expires: u64,
    pub(super) disposed_generation: u32,
    pub(super) no_writers_generation: u32,
    pub(super) valid: bool,
    pub(super) read: bool,
}

impl<S> Entry<S> {
    /// Sort key of DESTINATION_ORDER by source. A notice follows all samples that were written at
    /// the same time.
    #[inline]
    pub(super) fn order(&self) -> Order {
        Order::new(self.time, if self.valid { self.writer } else { InstanceHandle::HIGHEST })
    }

    /// Number of rebirths of the instance when the entry came.
    pub(super) fn generation(&self) -> u32 {
        self.disposed_generation.saturating_add(self.no_writers_generation)
    }

    /// Information that the entry itself has. The caller adds that of the instance.
    pub(super) fn info(&self) -> Info {
        Info {
            source_timestamp: self.time,
            publication_handle: self.writer,
            disposed_generation_count: self.disposed_generation,
            no_writers_generation_count: self.no_writers_generation,
            valid_data: self.valid,
            ..Info::default()
        }
    }
}

struct Place<S> {
    entry: Option<Entry<S>>,
    links: [Link; 3],
    /// Number of times that the slot was freed.
    epoch: u32,
}

pub(super) struct Samples<S> {
    places: Vec<Place<S>>,
    free: Vec<u32>,
}

impl<S> Default for Samples<S> {
    fn default() -> Self {
        Samples { places: Vec::new(), free: Vec::new() }
    }
}

const TAKEN: &str = "a chain consists of occupied places";

impl<S> Samples<S> {
    /// Number of entries, including notices.
    pub(super) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    pub(super) fn add(&mut self, entry: Entry<S>) -> u32 {
        match self.free.pop() {
            Some(at) => {
                self.places[at as usize].entry = Some(entry);
                at
            }
            None => {
                self.places.push(Place { entry: Some(entry), links: [UNLINKED; 3], epoch: 0 });
                (self.places.len() - 1) as u32
            }
        }
    }

    /// Frees a slot that is in no chain any more, and returns its entry.
    pub(super) fn remove(&mut self, at: u32) -> Entry<S> {
        let place = &mut self.places[at as usize];
        place.epoch = place.epoch.wrapping_add(1);
        self.free.push(at);
        place.entry.take().expect(TAKEN)
    }

    #[inline]
    pub(super) fn get(&self, at: u32) -> &Entry<S> {
        self.places[at as usize].entry.as_ref().expect(TAKEN)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, at: u32) -> &mut Entry<S> {
        self.places[at as usize].entry.as_mut().expect(TAKEN)
    }

    pub(super) fn epoch(&self, at: u32) -> u32 {
        self.places[at as usize].epoch
    }

    /// Whether the slot still holds the entry that it held at this epoch.
    pub(super) fn is_still(&self, at: u32, epoch: u32) -> bool {
        let place = self.places.get(at as usize);
        place.is_some_and(|place| place.entry.is_some() && place.epoch == epoch)
    }

    #[inline]
    fn link(&mut self, chain: Chain, at: u32) -> &mut Link {
        &mut self.places[at as usize].links[chain as usize]
    }

    #[inline]
    pub(super) fn after(&self, chain: Chain, at: u32) -> u32 {
        self.places[at as usize].links[chain as usize].after
    }

    #[inline]
    pub(super) fn before(&self, chain: Chain, at: u32) -> u32 {
        self.places[at as usize].links[chain as usize].before
    }

    /// Inserts a slot into a chain behind another slot, or at the head.
    #[inline]
    pub(super) fn insert(&mut self, chain: Chain, ends: &mut Ends, behind: u32, at: u32) {
        let after = match behind {
            NIL => std::mem::replace(&mut ends.first, at),
            behind => std::mem::replace(&mut self.link(chain, behind).after, at),
        };
        match after {
            NIL => ends.last = at,
            after => self.link(chain, after).before = at,
        }
        *self.link(chain, at) = Link { before: behind, after };
    }

    /// Removes a slot from a chain.
    #[inline]
    pub(super) fn unlink(&mut self, chain: Chain, ends: &mut Ends, at: u32) {
        let Link { before, after } = std::mem::replace(self.link(chain, at), UNLINKED);
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
    pub(super) fn last_until(&self, chain: Chain, ends: &Ends, order: Order) -> u32 {
        let mut at = ends.last;
        while at != NIL && self.get(at).order() > order {
            at = self.before(chain, at);
        }
        at
    }
}
