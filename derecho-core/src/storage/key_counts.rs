//! Records of a store that stand for several keys: each is kept while it is kept for one of its
//! keys (I-191).
//!
//! Owns: the number of keys that each record is kept for. Never does: know the keys; the
//! records do.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::store::{Key, RecordLocation};

/// Key counts; see the [module](self).
#[derive(Default)]
pub(super) struct KeyCounts(BTreeMap<RecordLocation, u32>);

impl KeyCounts {
    /// Adds a record with these keys, if it has several. Returns each key once.
    pub(super) fn begin(
        &mut self,
        place: RecordLocation,
        keys: Option<Vec<Key>>,
    ) -> Option<Vec<Key>> {
        let mut keys = keys.filter(|keys| !keys.is_empty())?;
        keys.sort_unstable();
        keys.dedup();
        self.0.insert(place, keys.len() as u32);
        Some(keys)
    }

    /// Stops keeping a record for one of its keys. Returns whether that was its last.
    pub(super) fn is_last(&mut self, place: RecordLocation) -> bool {
        let Some(left) = self.0.get_mut(&place) else { return true };
        *left -= 1;
        *left == 0 && self.0.remove(&place).is_some()
    }

    /// Removes a record, whatever it is kept for. Returns whether it has several keys.
    pub(super) fn end(&mut self, place: RecordLocation) -> bool {
        self.0.remove(&place).is_some()
    }

    /// Whether there is no such record.
    #[cfg(test)]
    #[cfg(not(loom))]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Moves a record to another place. Returns whether it has several keys.
    pub(super) fn moves(&mut self, from: RecordLocation, to: RecordLocation) -> bool {
        let left = self.0.remove(&from);
        left.is_some_and(|left| self.0.insert(to, left).is_none())
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use alloc::collections::BTreeMap;

    use super::*;
    use crate::group::report::StreamId;
    use crate::ids::{NodeId, RegionId};
    use crate::storage::store::{RecordFormat, Store, StoreRetention};

    /// The bytes of a record are its keys; a single key is an ordinary record. The record's number
    /// follows a zero.
    const FORMAT: RecordFormat = RecordFormat {
        key: |record| record[0].into(),
        time: |_| 0,
        all_keys: |record| {
            let keys = record.split(|byte| *byte == 0).next()?;
            (keys.len() > 1).then(|| keys.iter().map(|key| (*key).into()).collect())
        },
        liveness: |_, _| {},
        companion: |key| key,
    };

    fn kept(store: &Store) -> Vec<u64> {
        let mut cursor = store.cursor();
        core::iter::from_fn(|| cursor.next().map(|kept| kept.number())).collect()
    }

    fn put(store: &mut Store, number: u64, keys: &[u8]) {
        let stream = store.stream(StreamId { node: NodeId(1), region: RegionId(7) });
        let mut record = keys.to_vec();
        record.resize(keys.len() + 1 + 600, 0);
        store.append(stream, number, &record);
    }

    #[test]
    fn record_is_kept_while_needed_by_any_of_its_keys() {
        let retention = StoreRetention { depth: Some(1), ..StoreRetention::default() };
        let mut store = Store::new(retention, FORMAT);
        put(&mut store, 0, &[1, 2, 3, 2]);
        put(&mut store, 1, &[1]);
        put(&mut store, 2, &[3]);
        assert_eq!(kept(&store), [0, 1, 2]);
        put(&mut store, 3, &[2, 4]);
        assert_eq!(kept(&store), [1, 2, 3]);
        put(&mut store, 4, &[2]);
        put(&mut store, 5, &[1]);
        assert_eq!(kept(&store), [2, 3, 4, 5]);
    }

    #[test]
    fn oldest_record_is_removed_regardless_of_its_keys() {
        let retention =
            StoreRetention { depth: Some(2), most: Some(3), ..StoreRetention::default() };
        let mut store = Store::new(retention, FORMAT);
        put(&mut store, 0, &[1, 2]);
        put(&mut store, 1, &[1]);
        put(&mut store, 2, &[1]);
        assert_eq!(kept(&store), [0, 1, 2], "two of one key, and one of the other");
        put(&mut store, 3, &[3]);
        assert_eq!(kept(&store), [1, 2, 3]);
        let retention = StoreRetention { keys: Some(2), ..StoreRetention::default() };
        let mut store = Store::new(retention, FORMAT);
        put(&mut store, 0, &[1, 2, 3]);
        put(&mut store, 1, &[3, 4]);
        put(&mut store, 2, &[2, 4]);
        assert_eq!(kept(&store), [0, 2], "no more keys than two");
    }

    /// Compares a store with a simple model, while records move.
    #[test]
    fn store_keeps_exactly_the_records_that_some_key_keeps() {
        for seed in 1..40_u64 {
            let mut state = seed * 0x9e37_79b9;
            let mut random = |limit: u64| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state % limit
            };
            let depth = 1 + random(3) as usize;
            let retention =
                StoreRetention { depth: Some(depth as u32), ..StoreRetention::default() };
            let mut store = Store::new(retention, FORMAT);
            let mut of_keys: BTreeMap<u8, Vec<u64>> = BTreeMap::new();
            for number in 0..3000 {
                // Some keys are rare, so that records with these keys stay for long.
                let spread = if random(10) == 0 { 200 } else { 7 };
                let count = if random(3) == 0 { 1 + random(9) } else { 1 };
                let mut keys: Vec<u8> = (0..count).map(|_| 1 + random(spread) as u8).collect();
                put(&mut store, number, &keys);
                keys.sort_unstable();
                keys.dedup();
                for key in keys {
                    let places = of_keys.entry(key).or_default();
                    places.push(number);
                    if places.len() > depth {
                        places.remove(0);
                    }
                }
                if number % 500 == 499 {
                    let mut expected: Vec<u64> = of_keys.values().flatten().copied().collect();
                    expected.sort_unstable();
                    expected.dedup();
                    assert_eq!(kept(&store), expected, "seed {seed}, depth {depth}");
                    assert_eq!(store.len() as usize, expected.len());
                }
            }
        }
    }
}
