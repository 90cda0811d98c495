//! The instances that a writer knows: those that its application has registered or written, and not
//! unregistered since.
//!
//! ```text
//!   write ──> recent keys ── found: nothing to do
//!                  └──────── not found ──> lock ──> all known keys ──> recent keys
//! ```
//! Owns: the keys of these instances. Never does: take a lock for a key that was written shortly
//! before.

use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasherDefault;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::subscription::cache::KeyHasher;

/// Number of recent keys, a power of two.
const RECENT: usize = 1 << RECENT_BITS;
const RECENT_BITS: u32 = 6;

/// An instance that the writer may not know yet.
pub(super) struct FreshInstance {
    pub(super) key: u128,
    /// The key, encoded.
    pub(super) value: Vec<u8>,
}

/// Instance of a sample that is built in memory, which belongs to the readers once it is published.
pub(super) struct BuiltInstance {
    pub(super) key: u128,
    /// Number of instances that were left before the key was read.
    pub(super) departures: u64,
    /// The instance, if the writer did not know it then.
    pub(super) fresh: Option<FreshInstance>,
}

/// How a writer knows an instance.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum InstanceKnowledge {
    /// The application has registered the instance.
    Registered,
    /// The application has written or disposed the instance.
    Written,
    /// The application has unregistered the instance. The key remains for a while, because another
    /// thread may be writing a sample of the instance.
    Left,
}

/// An instance that the writer knows, or has left shortly before.
struct KnownInstance {
    /// The key, encoded.
    value: Box<[u8]>,
    knowledge: InstanceKnowledge,
}

/// Maximum number of instances whose keys remain after they were left.
const LEFT: usize = 64;

/// All instances of a writer, by their keys.
#[derive(Default)]
struct InstancesByKey {
    known: HashMap<u128, KnownInstance, BuildHasherDefault<KeyHasher>>,
    /// Instances in the order in which they were left.
    left: VecDeque<u128>,
}

impl InstancesByKey {
    fn get(&self, key: u128) -> Option<&KnownInstance> {
        self.known.get(&key).filter(|it| it.knowledge != InstanceKnowledge::Left)
    }

    /// Forgets an instance. Returns how it was known.
    fn leave(&mut self, key: u128) -> Option<InstanceKnowledge> {
        let known = self.known.get_mut(&key)?;
        let before = std::mem::replace(&mut known.knowledge, InstanceKnowledge::Left);
        if before == InstanceKnowledge::Left {
            return None;
        }
        self.left.push_back(key);
        if self.left.len() > LEFT
            && let Some(first) = self.left.pop_front()
            && self.get(first).is_none()
        {
            self.known.remove(&first);
        }
        Some(before)
    }

    /// Makes an instance known that was left, in this way.
    fn enter_again(&mut self, key: u128, knowledge: InstanceKnowledge) {
        if let Some(known) = self.known.get_mut(&key)
            && known.knowledge == InstanceKnowledge::Left
        {
            known.knowledge = knowledge;
        }
    }
}

/// See the [module](self). All keys are key hashes.
#[derive(Default)]
pub(super) struct KnownInstances {
    all: Mutex<InstancesByKey>,
    /// Number of instances that were left so far.
    departures: AtomicU64,
    /// Known keys, each at the place that follows from the key. Empty for a type without key.
    /// Written only under the lock of `all`, so that a key is here only while it is there.
    recent: Box<[RecentKey]>,
}

impl KnownInstances {
    /// Creates the empty set of a writer's instances.
    pub(super) fn new(has_key: bool) -> KnownInstances {
        let recent = if has_key { RECENT } else { 0 };
        let recent = (0..recent).map(|_| RecentKey::default()).collect();
        KnownInstances { recent, ..KnownInstances::default() }
    }

    /// Whether the writer's type has a key. If not, no instances are known.
    #[inline(always)]
    pub(super) fn has_key(&self) -> bool {
        !self.recent.is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, InstancesByKey> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn place(&self, key: u128) -> Option<&RecentKey> {
        const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
        let mixed = (key as u64 ^ (key >> 64) as u64).wrapping_mul(FACTOR);
        self.recent.get((mixed >> (u64::BITS - RECENT_BITS)) as usize)
    }

    /// Whether an instance is known and was used recently. If not, it may be known all the same.
    #[inline(always)]
    pub(super) fn is_recent(&self, key: u128) -> bool {
        self.place(key).is_some_and(|place| place.is(key))
    }

    /// Whether an instance is known.
    pub(super) fn knows(&self, key: u128) -> bool {
        self.lock().get(key).is_some()
    }

    /// The encoded key of a known instance, as `read` reads it.
    pub(super) fn value<R>(&self, key: u128, read: impl FnOnce(&[u8]) -> R) -> Option<R> {
        self.lock().get(key).map(|instance| read(&instance.value))
    }

    /// Makes a known instance a recent one. Returns whether it is known.
    pub(super) fn touch(&self, key: u128) -> bool {
        let all = self.lock();
        let is_known = all.get(key).is_some();
        if is_known {
            self.set_recent(key);
        }
        is_known
    }

    /// Makes an instance known that was written or disposed. Returns whether it was not known
    /// before.
    pub(super) fn enter(&self, FreshInstance { key, value }: FreshInstance) -> bool {
        let mut all = self.lock();
        let is_new = all.get(key).is_none();
        if is_new {
            let (value, knowledge) = (value.into_boxed_slice(), InstanceKnowledge::Written);
            all.known.insert(key, KnownInstance { value, knowledge });
        }
        self.set_recent(key);
        is_new
    }

    /// Makes an instance known that the application registers.
    pub(super) fn register(&self, FreshInstance { key, value }: FreshInstance) {
        let mut all = self.lock();
        let (value, knowledge) = (value.into_boxed_slice(), InstanceKnowledge::Registered);
        all.known.insert(key, KnownInstance { value, knowledge });
        self.set_recent(key);
    }

    fn set_recent(&self, key: u128) {
        self.place(key).into_iter().for_each(|place| place.set(key));
    }

    /// Forgets an instance. Returns how it was known.
    pub(super) fn leave(&self, key: u128) -> Option<InstanceKnowledge> {
        let mut all = self.lock();
        let known = all.leave(key);
        self.forget_recent(key);
        self.departures.fetch_add(1, Ordering::Relaxed);
        known
    }

    /// Number of instances that were left so far.
    #[inline(always)]
    pub(super) fn departures(&self) -> u64 {
        self.departures.load(Ordering::Relaxed)
    }

    /// Makes an instance known again that was left since the caller found it known, and before the
    /// caller's sample of it.
    #[cold]
    pub(super) fn enter_left(&self, key: u128) {
        self.enter_again(key, InstanceKnowledge::Written);
    }

    /// Reverts [`leave`](Self::leave). An instance that was entered in the meantime remains as it
    /// is.
    pub(super) fn enter_again(&self, key: u128, known: InstanceKnowledge) {
        self.lock().enter_again(key, known);
    }

    /// Reverts [`enter`](Self::enter), unless the application has registered the instance since.
    /// Returns whether the instance is unknown from now on.
    pub(super) fn revert_entry(&self, key: u128) -> bool {
        let mut all = self.lock();
        if all.get(key).is_some_and(|it| it.knowledge == InstanceKnowledge::Registered) {
            return false;
        }
        all.known.remove(&key);
        self.forget_recent(key);
        true
    }

    fn forget_recent(&self, key: u128) {
        let place = self.place(key).filter(|place| place.is(key));
        place.into_iter().for_each(RecentKey::clear);
    }
}

/// A key that threads read without a lock. One thread at a time writes.
struct RecentKey {
    /// Changes with each write. Odd while the key is being written.
    version: AtomicU64,
    high: AtomicU64,
    low: AtomicU64,
}

/// Mark in the version of a place that holds no key.
const EMPTY: u64 = 2;
/// Step of versions: those of a place that holds a key are multiples of it.
const STEP: u64 = 4;

impl Default for RecentKey {
    fn default() -> Self {
        let [high, low] = [0, 0].map(AtomicU64::new);
        RecentKey { version: AtomicU64::new(EMPTY), high, low }
    }
}

impl RecentKey {
    /// Whether the place holds this key.
    #[inline(always)]
    fn is(&self, key: u128) -> bool {
        // Acquire: the halves are those of this version, or of a later one.
        let version = self.version.load(Ordering::Acquire);
        let high = self.high.load(Ordering::Relaxed);
        let low = self.low.load(Ordering::Relaxed);
        // Acquire: if a half is of a later version, the next load finds that version.
        fence(Ordering::Acquire);
        version.is_multiple_of(STEP)
            && self.version.load(Ordering::Relaxed) == version
            && (high, low) == ((key >> 64) as u64, key as u64)
    }

    fn set(&self, key: u128) {
        if !self.is(key) {
            self.write(key, 0);
        }
    }

    fn clear(&self) {
        self.write(0, EMPTY);
    }

    fn write(&self, key: u128, mark: u64) {
        let version = self.version.load(Ordering::Relaxed) / STEP * STEP;
        self.version.store(version | 1, Ordering::Relaxed);
        // Release: a thread that reads one of the halves below finds the odd version.
        fence(Ordering::Release);
        self.high.store((key >> 64) as u64, Ordering::Relaxed);
        self.low.store(key as u64, Ordering::Relaxed);
        // Release: the halves are written before the version says so.
        self.version.store((version + STEP) | mark, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fresh(key: u128) -> FreshInstance {
        FreshInstance { key, value: key.to_be_bytes().to_vec() }
    }

    fn enter(instances: &KnownInstances, key: u128) -> bool {
        instances.enter(fresh(key))
    }

    #[test]
    fn key_is_recent_only_while_it_is_known() {
        let instances = KnownInstances::new(true);
        for key in [0, 7 << 96, u128::MAX] {
            assert!(!instances.is_recent(key) && !instances.knows(key));
            assert!(enter(&instances, key) && !enter(&instances, key));
            assert!(instances.is_recent(key) && instances.knows(key));
            assert_eq!(instances.value(key, <[u8]>::to_vec), Some(key.to_be_bytes().to_vec()));
            let left = instances.leave(key).unwrap();
            assert!(!instances.is_recent(key) && !instances.knows(key));
            instances.enter_again(key, left);
            assert!(instances.knows(key));
            assert!(instances.revert_entry(key) && !instances.knows(key));
        }
    }

    #[test]
    fn instance_that_is_left_while_its_sample_is_published_is_known_again() {
        let instances = KnownInstances::new(true);
        enter(&instances, 5);
        let before = instances.departures();
        assert_eq!(instances.leave(5), Some(InstanceKnowledge::Written));
        assert!(instances.departures() != before && !instances.knows(5));
        instances.enter_left(5);
        assert!(instances.knows(5));
        assert_eq!(instances.value(5, <[u8]>::to_vec), Some(5_u128.to_be_bytes().to_vec()));
        assert_eq!(instances.leave(5), Some(InstanceKnowledge::Written));
        assert_eq!(instances.leave(5), None, "the instance was left before");
    }

    #[test]
    fn only_the_last_instances_that_were_left_remain() {
        let instances = KnownInstances::new(true);
        for key in 0..3 * LEFT as u128 {
            enter(&instances, key);
            instances.leave(key);
        }
        assert_eq!(instances.lock().known.len(), LEFT);
        instances.enter_left(0);
        assert!(!instances.knows(0));
        // An instance that was entered again is no longer a left one.
        let last = 3 * LEFT as u128 - 1;
        enter(&instances, last);
        for key in 1000..1000 + 2 * LEFT as u128 {
            enter(&instances, key);
            instances.leave(key);
        }
        assert!(instances.knows(last));
    }

    #[test]
    fn keys_beyond_the_recent_ones_stay_known() {
        let instances = KnownInstances::new(true);
        let keys = || (0..3 * RECENT as u128).map(|key| key << 96);
        keys().for_each(|key| assert!(enter(&instances, key)));
        assert!(keys().all(|key| instances.knows(key) && instances.touch(key)));
        assert!(!instances.touch(1) && !instances.is_recent(1));
        let recent = keys().filter(|key| instances.is_recent(*key)).count();
        assert!((RECENT / 2..=RECENT).contains(&recent), "{recent}");
        for key in keys() {
            instances.leave(key);
        }
        assert!(!keys().any(|key| instances.is_recent(key) || instances.knows(key)));
    }

    #[test]
    fn registered_instance_outlasts_the_revert_of_its_first_write() {
        let instances = KnownInstances::new(true);
        enter(&instances, 5);
        instances.register(fresh(5));
        assert!(!instances.revert_entry(5) && instances.knows(5));
    }

    #[test]
    fn threads_never_find_a_key_that_is_not_known() {
        let instances = KnownInstances::new(true);
        // Keys of one place, whose halves would pass for each other if they were mixed up.
        let keys: Vec<u128> = (1..4).map(|half| half << 64 | half).collect();
        let mixed: Vec<u128> = vec![1 << 64 | 2, 2 << 64 | 3, 3 << 64 | 1];
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for round in 0..20_000 {
                        let key = keys[round % keys.len()];
                        enter(&instances, key);
                        instances.leave(key);
                    }
                });
            }
            for _ in 0..100_000 {
                for key in &mixed {
                    let place = instances.place(keys[0]).unwrap();
                    assert!(!place.is(*key));
                }
            }
        });
    }
}
