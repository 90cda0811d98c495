//! The instances of a cache: their writers and states.
//!
//! Owns: instances by their keys, and the order of the keys. Never does: hold samples, except one
//! that waits for TIME_BASED_FILTER.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Bound;

use super::samples::{CacheEntry, ChainEnds, NIL, SourceOrder};
use super::settings::NEVER;
use super::{InstanceState, ViewState};
use crate::infrastructure::InstanceHandle;

/// Identity of an instance: the hash of its key. The order of these numbers is the order
/// of instances.
pub type Key = u128;

/// Hasher for keys. Most keys are small numbers in a few of their bytes.
#[derive(Default)]
pub struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u128(u128::from(*byte)));
    }

    #[inline]
    fn write_u128(&mut self, key: u128) {
        // Multipliers such as the golden ratio. The halves are mixed so that every bit of the
        // key counts.
        const FIRST: u64 = 0x9e37_79b9_7f4a_7c15;
        const SECOND: u64 = 0xd6e8_feb8_6659_fd93;
        let (low, high) = (key as u64 ^ self.0 ^ FIRST, (key >> 64) as u64 ^ SECOND);
        let wide = u128::from(low.wrapping_mul(FIRST) ^ high.rotate_left(32)) * u128::from(SECOND);
        self.0 = (wide as u64) ^ (wide >> 64) as u64;
    }
}

/// A live writer of an instance, and its strength; `None` if the writer has missed its deadline for
/// the instance since its last sample. Then every other writer is stronger.
type RankedWriter = (InstanceHandle, Option<i32>);

/// The live writers of an instance. Most instances have one.
pub(super) struct InstanceWriters {
    others: Vec<RankedWriter>,
    first: Option<RankedWriter>,
}

/// Order between two writers: by strength; of two equally strong ones the smaller handle wins.
fn rank((writer, strength): RankedWriter) -> impl Ord {
    (strength, std::cmp::Reverse(writer))
}

impl InstanceWriters {
    pub(super) fn one(writer: InstanceHandle, strength: i32) -> InstanceWriters {
        InstanceWriters { first: Some((writer, Some(strength))), others: Vec::new() }
    }

    fn all(&self) -> impl Iterator<Item = RankedWriter> {
        self.first.into_iter().chain(self.others.iter().copied())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.first.is_none() && self.others.is_empty()
    }

    pub(super) fn has(&self, writer: InstanceHandle) -> bool {
        self.all().any(|(known, _)| known == writer)
    }

    /// Whether this writer with this strength is the only one.
    #[inline(always)]
    pub(super) fn is_only(&self, writer: InstanceHandle, strength: i32) -> bool {
        let is_it = |(first, known): RankedWriter| first == writer && known == Some(strength);
        self.first.is_some_and(is_it) && self.others.is_empty()
    }

    /// Adds a writer, or updates its strength.
    #[inline]
    pub(super) fn register(&mut self, writer: InstanceHandle, strength: i32) {
        let strength = Some(strength);
        // Usually it is the only writer, and its strength has not changed.
        if self.first == Some((writer, strength)) {
            return;
        }
        if self.first.is_none_or(|(first, _)| first == writer) && self.others.is_empty() {
            self.first = Some((writer, strength));
        } else if let Some(known) =
            self.first.iter_mut().chain(&mut self.others).find(|known| known.0 == writer)
        {
            known.1 = strength;
        } else {
            self.others.push((writer, strength));
        }
    }

    /// Makes a writer weaker than all others, until it is registered again.
    pub(super) fn give_up(&mut self, writer: InstanceHandle) {
        let mut all = self.first.iter_mut().chain(&mut self.others);
        if let Some(known) = all.find(|known| known.0 == writer) {
            known.1 = None;
        }
    }

    /// Whether this live writer is stronger than all others.
    pub(super) fn is_strongest(&self, writer: InstanceHandle) -> bool {
        self.all().max_by_key(|known| rank(*known)).is_some_and(|(owner, _)| owner == writer)
    }

    /// Removes a writer. Returns whether it was there.
    pub(super) fn unregister(&mut self, writer: InstanceHandle) -> bool {
        if self.first.is_some_and(|(first, _)| first == writer) {
            self.first = self.others.pop();
            return true;
        }
        let known = self.others.iter().position(|(other, _)| *other == writer);
        known.map(|known| self.others.swap_remove(known)).is_some()
    }

    /// Whether this writer with this strength owns the instance, or will own it once it writes.
    #[inline]
    pub(super) fn is_owner(&self, writer: InstanceHandle, strength: i32) -> bool {
        self.all().all(|other| other.0 == writer || rank(other) < rank((writer, Some(strength))))
    }
}

/// Fields in the order of use: those that a sample needs which arrives and is taken at once are
/// together, at the beginning.
#[repr(C)]
pub(super) struct Instance<S> {
    pub(super) key: Key,
    /// Order of the latest sample or dispose that was taken in.
    pub(super) latest: SourceOrder,
    pub(super) writers: InstanceWriters,
    /// Time at which the last sample came, or was released by TIME_BASED_FILTER.
    pub(super) passed: Option<u64>,
    /// Number of samples, without the notice.
    pub(super) len: usize,
    /// Chain of the samples. A notice that the instance is over is the last.
    pub(super) samples: ChainEnds,
    pub(super) notice: u32,
    pub(super) disposed_generation: u32,
    pub(super) no_writers_generation: u32,
    pub(super) state: InstanceState,
    pub(super) view: ViewState,
    /// Whether a timer for the release of the waiting sample is set.
    pub(super) release_listed: bool,
    /// Scratch fields of the call that goes over samples now.
    pub(super) following: u32,
    pub(super) last_generation: u32,
    pub(super) look: u64,
    /// Earlier samples are late, because something later has been read.
    pub(super) accessed: SourceOrder,
    /// Earlier samples are late, because the instance was over at this time.
    pub(super) overtaken: SourceOrder,
    /// Time at which the samples are removed, because the instance is over.
    pub(super) purge_at: u64,
    /// Time at which the instance's next purge is scheduled.
    pub(super) purge_listed: u64,
    /// The key itself, where the hash does not give it.
    pub(super) key_value: Box<[u8]>,
    /// A sample that waits for TIME_BASED_FILTER.
    pub(super) waiting: Option<CacheEntry<S>>,
}

impl<S> Instance<S> {
    fn new(key: Key, key_value: Box<[u8]>, writers: InstanceWriters) -> Self {
        Instance {
            key,
            key_value,
            state: InstanceState::Alive,
            view: ViewState::New,
            disposed_generation: 0,
            no_writers_generation: 0,
            writers,
            samples: ChainEnds::EMPTY,
            len: 0,
            notice: NIL,
            latest: SourceOrder::EARLIEST,
            accessed: SourceOrder::EARLIEST,
            overtaken: SourceOrder::EARLIEST,
            passed: None,
            waiting: None,
            purge_at: NEVER,
            purge_listed: NEVER,
            release_listed: false,
            look: 0,
            following: 0,
            last_generation: 0,
        }
    }

    pub(super) fn generation(&self) -> u32 {
        self.disposed_generation.saturating_add(self.no_writers_generation)
    }

    /// Whether the instance can be forgotten.
    fn is_over(&self) -> bool {
        self.samples.first == NIL && self.writers.is_empty() && self.waiting.is_none()
    }
}

struct InstanceSlot<S> {
    instance: Option<Instance<S>>,
    epoch: u32,
}

pub(super) struct InstanceTable<S> {
    slots: Vec<InstanceSlot<S>>,
    free: Vec<u32>,
    by_key: HashMap<Key, u32, BuildHasherDefault<KeyHasher>>,
    ordered: BTreeMap<Key, u32>,
    /// The instance that was found last: consecutive samples often have the same instance.
    last_found: u32,
}

impl<S> Default for InstanceTable<S> {
    fn default() -> Self {
        let (by_key, ordered) = (HashMap::default(), BTreeMap::new());
        InstanceTable { slots: Vec::new(), free: Vec::new(), by_key, ordered, last_found: NIL }
    }
}

const THERE: &str = "samples and tables name existing instances";

impl<S> InstanceTable<S> {
    pub(super) fn len(&self) -> usize {
        self.by_key.len()
    }

    #[inline]
    pub(super) fn find(&self, key: Key) -> Option<u32> {
        self.by_key.get(&key).copied()
    }

    /// Does what [`InstanceTable::find`] does, faster if the same key was asked for last.
    #[inline(always)]
    pub(super) fn find_again(&mut self, key: Key) -> Option<u32> {
        let found = self.slots.get(self.last_found as usize).and_then(|it| it.instance.as_ref());
        if found.is_some_and(|instance| instance.key == key) {
            return Some(self.last_found);
        }
        let found = self.find(key)?;
        self.last_found = found;
        Some(found)
    }

    /// The first instance after this key, which need not exist; without a key the first of all.
    pub(super) fn next(&self, after: Option<Key>) -> Option<(Key, u32)> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.ordered.range((from, Bound::Unbounded)).next().map(|(key, at)| (*key, *at))
    }

    pub(super) fn all(&self) -> impl Iterator<Item = u32> {
        self.ordered.values().copied()
    }

    pub(super) fn add(&mut self, key: Key, value: Box<[u8]>, writers: InstanceWriters) -> u32 {
        let instance = Some(Instance::new(key, value, writers));
        let at = match self.free.pop() {
            Some(at) => {
                self.slots[at as usize].instance = instance;
                at
            }
            None => {
                self.slots.push(InstanceSlot { instance, epoch: 0 });
                (self.slots.len() - 1) as u32
            }
        };
        self.by_key.insert(key, at);
        self.ordered.insert(key, at);
        at
    }

    /// Forgets an instance that has no samples, no waiting sample and no writers.
    #[inline]
    pub(super) fn tidy(&mut self, at: u32) {
        let slot = &mut self.slots[at as usize];
        if slot.instance.as_ref().is_none_or(|instance| !instance.is_over()) {
            return;
        }
        let Some(instance) = slot.instance.take() else { return };
        slot.epoch = slot.epoch.wrapping_add(1);
        self.free.push(at);
        self.by_key.remove(&instance.key);
        self.ordered.remove(&instance.key);
    }

    #[inline]
    pub(super) fn get(&self, at: u32) -> &Instance<S> {
        self.slots[at as usize].instance.as_ref().expect(THERE)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, at: u32) -> &mut Instance<S> {
        self.slots[at as usize].instance.as_mut().expect(THERE)
    }

    pub(super) fn epoch(&self, at: u32) -> u32 {
        self.slots[at as usize].epoch
    }

    pub(super) fn is_still(&self, at: u32, epoch: u32) -> bool {
        let slot = self.slots.get(at as usize);
        slot.is_some_and(|place| place.instance.is_some() && place.epoch == epoch)
    }
}
