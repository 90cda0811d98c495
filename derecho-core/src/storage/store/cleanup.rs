//! Forgetting of keys that are not alive (I-240).
//!
//! Owns: the time since which each key is not alive. Never does: read a clock, or know anything
//! that does not follow from the kept records.

use alloc::collections::{BTreeMap, BTreeSet};

use super::{Key, KeyLiveness, Store};

/// Keys that are not alive.
#[derive(Default)]
pub(super) struct DeadKeys {
    since: BTreeMap<Key, u64>,
    /// Keys and times of `since`, ordered by time.
    order: BTreeSet<(u64, Key)>,
}

impl DeadKeys {
    /// Whether all keys are alive.
    pub(super) fn is_empty(&self) -> bool {
        self.since.is_empty()
    }

    /// Notes that a key is not alive since this time, replacing any other time.
    fn begin(&mut self, key: Key, since: u64) {
        self.end(key);
        self.since.insert(key, since);
        self.order.insert((since, key));
    }

    /// Notes that a key is alive, or that none of its records is kept.
    fn end(&mut self, key: Key) {
        if let Some(since) = self.since.remove(&key) {
            self.order.remove(&(since, key));
        }
    }

    /// Returns the key that is not alive for longest, if it is so since `until` or before.
    fn first(&self, until: u64) -> Option<Key> {
        self.order.first().filter(|(since, _)| *since <= until).map(|(_, key)| *key)
    }
}

impl Store {
    /// Forgets all keys that have not been alive for the cleanup delay, by the time of this record.
    pub(super) fn clean(&mut self, record: &[u8], position: u64) {
        let Some(delay) = self.retention.cleanup else { return };
        let Some(until) = (self.format.time)(record).checked_sub(delay) else { return };
        while let Some(key) = self.dead_keys.first(until) {
            for place in self.index.remove(&key).into_iter().flatten() {
                self.let_go(place, position);
            }
            self.note_gone(key);
        }
    }

    /// Applies the statements of a record that was put in, as far as it is kept for the keys
    /// in question.
    pub(super) fn heed(&mut self, record: &[u8]) {
        if self.retention.cleanup.is_none() {
            return;
        }
        let (liveness, companion) = (self.format.liveness, self.format.companion);
        let since = (self.format.time)(record);
        liveness(record, &mut |key, what| {
            if !self.index.contains_key(&key) {
                return;
            }
            let is_over = match what {
                KeyLiveness::Alive => false,
                KeyLiveness::NotAlive => true,
                KeyLiveness::Companion => !self.index.contains_key(&companion(key)),
            };
            match is_over {
                true => self.dead_keys.begin(key, since),
                false => self.dead_keys.end(key),
            }
            if what != KeyLiveness::Companion {
                // The record that accompanies this key does so again.
                self.dead_keys.end(companion(key));
            }
        });
    }

    /// Notes that no record of a key is kept any more: a key that only accompanies it is then
    /// not alive.
    pub(super) fn note_gone(&mut self, key: Key) {
        if self.retention.cleanup.is_none() {
            return;
        }
        self.dead_keys.end(key);
        let other = (self.format.companion)(key);
        if let Some((KeyLiveness::Companion, since)) = self.last_of(other) {
            self.dead_keys.begin(other, since);
        }
    }

    /// Returns the statement of a key's last record about the key, and that record's time.
    fn last_of(&self, key: Key) -> Option<(KeyLiveness, u64)> {
        let place = self.index.get(&key)?.back()?;
        let segment = &self.segments[self.segment_index(place.segment)].segment;
        let at = place.at as usize;
        let record = segment.record(at, segment.head(at).length as usize);
        let mut last = None;
        (self.format.liveness)(record, &mut |of, liveness| {
            if of == key {
                last = Some(liveness);
            }
        });
        Some((last?, (self.format.time)(record)))
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;

    use super::super::tests::STREAM;
    use super::super::{RecordFormat, StoreRetention};
    use super::*;

    const LIVES: u8 = 0;
    const OVER: u8 = 1;
    const BESIDE: u8 = 2;

    /// A key, and a record's statement about it.
    type KeyStatement = (u8, u8);

    /// Encoded as the time, the number of parts, and the parts.
    fn parts(record: &[u8]) -> impl Iterator<Item = KeyStatement> + '_ {
        record[9..].chunks(2).take(record[8].into()).map(|part| (part[0], part[1]))
    }

    const FORMAT: RecordFormat = RecordFormat {
        key: |record| record[9].into(),
        time: |record| u64::from_le_bytes(*record.first_chunk().expect("a time")),
        all_keys: |record| {
            (record[8] > 1).then(|| parts(record).map(|(key, _)| key.into()).collect())
        },
        liveness: |record, each| {
            for (key, liveness) in parts(record) {
                let liveness = match liveness {
                    LIVES => KeyLiveness::Alive,
                    OVER => KeyLiveness::NotAlive,
                    _ => KeyLiveness::Companion,
                };
                each(key.into(), liveness);
            }
        },
        companion: |key| key ^ 0x80,
    };

    fn record(time: u64, of: &[KeyStatement]) -> Vec<u8> {
        let mut record = time.to_le_bytes().to_vec();
        record.push(of.len() as u8);
        record.extend(of.iter().flat_map(|(key, liveness)| [*key, *liveness]));
        record.resize(600, 0);
        record
    }

    fn put(store: &mut Store, time: u64, of: &[KeyStatement]) {
        let stream = store.stream(STREAM);
        store.append(stream, store.version(), &record(time, of));
    }

    fn versions(store: &Store) -> Vec<u64> {
        let mut cursor = store.cursor();
        core::iter::from_fn(|| cursor.next().map(|kept| kept.position())).collect()
    }

    fn after(delay: u64) -> Store {
        Store::new(StoreRetention { cleanup: Some(delay), ..StoreRetention::default() }, FORMAT)
    }

    #[test]
    fn dead_key_is_forgotten_after_the_delay_and_not_before() {
        let mut store = after(10);
        put(&mut store, 100, &[(1, LIVES)]);
        put(&mut store, 101, &[(2, LIVES)]);
        put(&mut store, 102, &[(1, OVER)]);
        put(&mut store, 111, &[(3, LIVES)]);
        assert_eq!(versions(&store), [0, 1, 2, 3], "it is not so long ago");
        let mut before = store.cursor();
        put(&mut store, 112, &[(3, LIVES)]);
        assert_eq!(versions(&store), [1, 3, 4]);
        let passed = core::iter::from_fn(|| before.next().map(|kept| kept.position()));
        assert_eq!(passed.collect::<Vec<_>>(), [0, 1, 2, 3, 4], "who was on its way gets it");
        put(&mut store, 90, &[(2, OVER)]);
        assert_eq!(versions(&store), [1, 3, 4, 5], "nothing later has come behind it");
        put(&mut store, 99, &[(3, LIVES)]);
        assert_eq!(versions(&store), [1, 3, 4, 5, 6]);
        put(&mut store, 100, &[(3, OVER)]);
        assert_eq!(versions(&store), [3, 4, 6, 7]);
    }

    #[test]
    fn revived_key_is_not_forgotten() {
        let mut store = after(10);
        put(&mut store, 100, &[(1, OVER)]);
        put(&mut store, 105, &[(1, LIVES)]);
        put(&mut store, 999, &[(2, LIVES)]);
        assert_eq!(versions(&store), [0, 1, 2]);
        put(&mut store, 1000, &[(1, OVER)]);
        put(&mut store, 1005, &[(1, OVER)]);
        put(&mut store, 1014, &[(2, LIVES)]);
        assert_eq!(versions(&store).len(), 6, "it is over since the last one said so");
        put(&mut store, 1015, &[(1, LIVES)]);
        assert_eq!(versions(&store), [2, 5, 6], "it begins anew");
    }

    #[test]
    fn zero_delay_forgets_dead_key_together_with_its_end_record() {
        let mut store = after(0);
        put(&mut store, 100, &[(1, LIVES)]);
        put(&mut store, 101, &[(2, LIVES)]);
        let mut live = store.cursor();
        put(&mut store, 90, &[(1, OVER)]);
        assert_eq!(versions(&store), [1]);
        assert_eq!((store.len(), store.index.len()), (1, 1));
        assert_eq!(live.by_ref().count(), 3, "who is there gets it");
        put(&mut store, 91, &[(0x81, BESIDE)]);
        assert_eq!(versions(&store), [1], "what stands beside it is forgotten as well");
        put(&mut store, 91, &[(0x82, BESIDE)]);
        assert_eq!(versions(&store), [1, 4], "and that beside what lives is not");
        assert!(store.dead_keys.since.is_empty());
    }

    #[test]
    fn keys_of_a_coherent_set_are_forgotten_independently() {
        let mut store = after(10);
        put(&mut store, 100, &[(1, LIVES), (2, OVER), (3, OVER), (3, LIVES)]);
        put(&mut store, 110, &[(1, OVER)]);
        assert_eq!(store.index.keys().copied().collect::<Vec<_>>(), [1, 3]);
        put(&mut store, 120, &[(3, OVER)]);
        assert_eq!((versions(&store), store.index.len()), (vec![0, 2], 1));
        put(&mut store, 130, &[(4, LIVES)]);
        assert_eq!(versions(&store), [3]);
        assert!(store.key_counts.is_empty());
    }

    #[test]
    fn set_without_room_for_its_keys_expires_no_record() {
        let retention =
            StoreRetention { keys: Some(1), lifespan: Some(10), ..StoreRetention::default() };
        let mut store = Store::new(retention, FORMAT);
        put(&mut store, 100, &[(1, LIVES)]);
        put(&mut store, 200, &[(2, LIVES), (3, LIVES)]);
        assert_eq!(versions(&store), [0]);
        put(&mut store, 200, &[(2, LIVES), (1, LIVES)]);
        assert_eq!(versions(&store), [2]);
    }

    #[test]
    fn dead_keys_do_not_accumulate_in_memory() {
        let retention =
            StoreRetention { depth: Some(1), cleanup: Some(100), ..StoreRetention::default() };
        let mut store = Store::new(retention, FORMAT);
        let meter = store.meter();
        for round in 0..100_000_u64 {
            let key = (round % 100) as u8;
            put(&mut store, round * 3, &[(key, LIVES)]);
            put(&mut store, round * 3 + 1, &[(key, OVER)]);
            put(&mut store, round * 3 + 2, &[(key | 0x80, BESIDE)]);
        }
        assert!(store.len() < 80 && store.index.len() < 80, "{}", store.len());
        assert!(store.dead_keys.since.len() < 80 && store.dead_keys.order.len() < 80);
        assert!(meter.bytes() < 4 << 20, "{} bytes", meter.bytes());
    }

    /// Model of a store, in the simplest form.
    struct ModelStore {
        retention: StoreRetention,
        /// Version, time and parts.
        records: BTreeMap<u64, (u64, Vec<KeyStatement>)>,
        index: BTreeMap<u8, Vec<u64>>,
    }

    impl ModelStore {
        fn kept(&self) -> Vec<u64> {
            let mut kept: Vec<u64> = self.index.values().flatten().copied().collect();
            kept.sort_unstable();
            kept.dedup();
            kept
        }

        fn since(&self, key: u8) -> Option<u64> {
            let (time, parts) = &self.records[self.index[&key].last()?];
            let (_, liveness) = parts.iter().rfind(|(of, _)| *of == key)?;
            let is_over = match *liveness {
                BESIDE => !self.index.contains_key(&(key ^ 0x80)),
                says => says == OVER,
            };
            is_over.then_some(*time)
        }

        fn clean(&mut self, time: u64) {
            let Some(delay) = self.retention.cleanup else { return };
            // A key that accompanies another one is dead only when that one is gone.
            for _ in 0..2 {
                let keys: Vec<u8> = self.index.keys().copied().collect();
                let due = |key: &u8| self.since(*key).is_some_and(|it| it + delay <= time);
                let due: Vec<u8> = keys.into_iter().filter(due).collect();
                due.iter().for_each(|key| _ = self.index.remove(key));
            }
        }

        fn append(&mut self, version: u64, time: u64, of: &[KeyStatement]) {
            self.clean(time);
            self.records.insert(version, (time, of.to_vec()));
            let mut keys: Vec<u8> = of.iter().map(|(key, _)| *key).collect();
            keys.sort_unstable();
            keys.dedup();
            for key in keys {
                let is_full = self.retention.keys.is_some_and(|it| self.index.len() as u64 >= it);
                if is_full && !self.index.contains_key(&key) {
                    continue;
                }
                let of_key = self.index.entry(key).or_default();
                of_key.push(version);
                if self.retention.depth.is_some_and(|depth| of_key.len() > depth as usize) {
                    of_key.remove(0);
                }
            }
            self.clean(time);
            let kept = self.kept();
            if self.retention.most.is_some_and(|most| kept.len() as u64 > most) {
                self.index.values_mut().for_each(|of_key| of_key.retain(|it| *it != kept[0]));
                self.index.retain(|_, of_key| !of_key.is_empty());
            }
        }
    }

    /// For every retention, and with times that go back and forth: all stores forget keys at the
    /// same version, and a store that takes over the records kept by another one then behaves
    /// exactly like it.
    #[test]
    fn all_stores_forget_dead_keys_at_the_same_version() {
        let mut forgotten = 0;
        for seed in 1..120_u64 {
            let mut state = seed * 0x9e37_79b9;
            let mut random = |limit: u64| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state % limit
            };
            let mut some = |limit: u64| (random(3) > 0).then(|| 1 + random(limit));
            let (depth, most) = (some(4).map(|depth| depth as u32), some(60));
            let (keys, cleanup) = (some(30), Some(some(400).unwrap_or(0)));
            let retention = StoreRetention { depth, most, keys, lifespan: None, cleanup };
            let mut store = Store::new(retention, FORMAT);
            let mut plain =
                ModelStore { retention, records: BTreeMap::new(), index: BTreeMap::new() };
            let mut others: Vec<Store> = Vec::new();
            let has_sets = seed % 2 == 0;
            for version in 0..1500 {
                let time = 1000 + version * 3 + random(60);
                let count = if has_sets && random(3) == 0 { 1 + random(5) } else { 1 };
                let part = |_| match (random(40) as u8, random(6)) {
                    (key, 0) => (key, OVER),
                    (key, 1) => (key | 0x80, BESIDE),
                    (key, _) => (key, LIVES),
                };
                let of: Vec<KeyStatement> = (0..count).map(part).collect();
                let before = plain.kept().len();
                for store in others.iter_mut().chain([&mut store]) {
                    put(store, time, &of);
                }
                plain.append(version, time, &of);
                forgotten += usize::from(plain.kept().len() + 1 < before);
                if version % 97 == 0 {
                    assert_eq!(versions(&store), plain.kept(), "seed {seed}, {retention:?}");
                    assert_eq!(store.index.len(), plain.index.len());
                    let since = plain.index.keys().filter(|key| plain.since(**key).is_some());
                    assert_eq!(store.dead_keys.since.len(), since.count(), "seed {seed}");
                }
                if !has_sets && random(300) == 0 {
                    let mut other = Store::new(retention, FORMAT);
                    let stream = other.stream(STREAM);
                    for kept in store.cursor() {
                        other.resume(kept.position());
                        other.restore(stream, kept.number(), &kept);
                    }
                    other.resume(version + 1);
                    others.push(other);
                }
            }
            for other in &others {
                assert_eq!(versions(other), versions(&store), "seed {seed}, {retention:?}");
            }
        }
        assert!(forgotten > 1000, "{forgotten}");
    }
}
