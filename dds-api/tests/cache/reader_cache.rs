//! The reader cache answers as the standard says: random histories beside an executable model, and
//! each rule by itself.

mod model;

use dds_api::prelude::InstanceHandle;
use dds_api::subscription::cache::{
    Arrival, ArrivalOutcome, CacheSettings, InstanceChange, InstanceScope, Key, NEVER,
    ReturnedSample, SampleCache, Selection,
};
use dds_api::subscription::{
    InstanceState, InstanceStateMask, SampleStateMask, States, ViewStateMask,
};
use model::Model;

/// Random number generator determined by a seed (SplitMix64).
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, count: u64) -> u64 {
        self.next() % count
    }

    fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }
}

/// Returns the handle of the writer with this number.
fn writer(number: u64) -> InstanceHandle {
    InstanceHandle::from_parts(u128::from(number), 7)
}

/// Number of calls in one history. The times of all calls differ in their last digits, which have
/// this many values.
const CALLS: u64 = 400;
const TICK: u64 = 1000;

fn settings(dice: &mut Dice) -> CacheSettings {
    let limit = |dice: &mut Dice, limits: &[usize]| match dice.one_in(2) {
        true => dice.pick(limits),
        false => 1 << 20,
    };
    CacheSettings {
        depth: dice.pick(&[None, Some(1), Some(1), Some(2), Some(4)]),
        max_samples: limit(dice, &[2, 5, 9]),
        max_instances: limit(dice, &[1, 2, 4]),
        max_samples_per_instance: limit(dice, &[1, 2, 4]),
        exclusive: dice.one_in(2),
        by_source: dice.one_in(2),
        across_instances: dice.one_in(2),
        minimum_separation: dice.pick(&[0, 0, 4 * TICK, 12 * TICK]),
        no_writer_delay: dice.pick(&[NEVER, NEVER, 0, 6 * TICK]),
        disposed_delay: dice.pick(&[NEVER, NEVER, 0, 6 * TICK]),
        deadline: NEVER,
        lease: NEVER,
    }
}

fn states(dice: &mut Dice) -> States {
    let samples = [
        SampleStateMask::ANY,
        SampleStateMask::ANY,
        SampleStateMask::NOT_READ,
        SampleStateMask::READ,
    ];
    let views = [
        ViewStateMask::ANY,
        ViewStateMask::ANY,
        ViewStateMask::ANY,
        ViewStateMask::NEW,
        ViewStateMask::NOT_NEW,
    ];
    let instances = [
        InstanceStateMask::ANY,
        InstanceStateMask::ANY,
        InstanceStateMask::ANY,
        InstanceStateMask::ALIVE,
        InstanceStateMask::NOT_ALIVE_DISPOSED | InstanceStateMask::NOT_ALIVE_NO_WRITERS,
    ];
    States { sample: dice.pick(&samples), view: dice.pick(&views), instance: dice.pick(&instances) }
}

/// Runs one random history of a cache and its model, side by side.
fn live(seed: u64) {
    live_with(seed, false);
}

/// Runs one random history of a cache whose samples may pass through (I-146), and often do.
fn live_and_pass(seed: u64) {
    live_with(seed, true);
}

fn live_with(seed: u64, passes: bool) {
    let mut dice = Dice(seed);
    let mut settings = settings(&mut dice);
    if passes && !dice.one_in(10) {
        settings =
            CacheSettings { depth: None, by_source: false, minimum_separation: 0, ..settings };
    }
    let (mut cache, mut model) = (SampleCache::<u64>::new(settings), Model::new(settings));
    let (keys, writers) = (1 + dice.below(6), 1 + dice.below(4));
    let lifespan = dice.pick(&[NEVER, NEVER, 5 * TICK, 20 * TICK]);
    let mut time = 100 * TICK;
    let key = |dice: &mut Dice| u128::from(dice.below(keys)) << dice.pick(&[0, 0, 100]);
    for call in 0..CALLS {
        time += dice.pick(&[0, 0, 1, 1, 2, 9]) * TICK;
        let now = time + call;
        let context = format!("seed {seed}, call {call}, {settings:?}");
        if passes && dice.one_in(3) && cache.passing() == 0 {
            cache.advance(now);
            cache.let_pass();
        }
        if passes && dice.one_in(6) && cache.passing() > 0 {
            let was = model.access(now, true, &Selection::default(), |_| true);
            let mut is = Vec::new();
            cache.advance(now);
            cache.give_passing(|data, info| {
                is.push(ReturnedSample { data: Some(data), info: *info })
            });
            assert_eq!(is, was, "what passes in {context}");
        }
        let calls = if passes && dice.one_in(2) { 12 } else { 20 };
        match dice.below(calls) {
            0..12 => {
                let change = match dice.below(10) {
                    0..7 => InstanceChange::Alive,
                    7 | 8 => InstanceChange::Dispose,
                    _ => InstanceChange::Unregister,
                };
                let written = now - dice.pick(&[0, 0, 1, 3, 7]) * TICK;
                let coarse = dice.one_in(3);
                let arrival = Arrival {
                    change,
                    key: key(&mut dice),
                    writer: writer(1 + dice.below(writers)),
                    strength: dice.pick(&[0, 0, 1, 2]),
                    source_timestamp: if coarse { written / TICK * TICK } else { written },
                    expires: written.saturating_add(lifespan),
                    data: call,
                };
                let was = model.put(now, arrival.clone());
                let may_pass = change == InstanceChange::Alive && arrival.expires == NEVER;
                let is = match cache.lets_pass() && may_pass {
                    true => {
                        cache.advance(now);
                        let Arrival { key, writer, strength, source_timestamp, expires, .. } =
                            arrival;
                        let data = ();
                        let given = Arrival {
                            change,
                            key,
                            writer,
                            strength,
                            source_timestamp,
                            expires,
                            data,
                        };
                        cache.pass(now, given, call, |_| Box::new([]))
                    }
                    false => cache.put(now, arrival.clone(), |_| Box::new([])),
                };
                assert_eq!(is.map_err(|it| it.reason), was, "{arrival:?} in {context}");
            }
            12 => {
                let writer = writer(1 + dice.below(writers));
                model.lose(now, writer);
                cache.lose(now, writer, |_| None);
            }
            13 => {
                model.advance(now);
                cache.advance(now);
                if call.is_multiple_of(8) {
                    assert_eq!(cache.discard_samples(), model.discard_samples(), "{context}");
                }
            }
            _ => {
                let scope = match dice.below(4) {
                    0 => InstanceScope::Instance(key(&mut dice)),
                    1 => {
                        let after = key(&mut dice);
                        InstanceScope::NextAfter(dice.one_in(2).then_some(after))
                    }
                    _ => InstanceScope::All,
                };
                let max = dice.pick(&[usize::MAX, usize::MAX, 1, 3]);
                let states = states(&mut dice);
                let wanted = Selection { states, scope, max, ..Selection::default() };
                let asks = dice.one_in(4);
                let condition = |data: Option<u64>| !asks || data.is_some_and(|it| it % 3 != 0);
                let takes = dice.one_in(2);
                let had = cache.has(now, &wanted, |data| condition(data.copied()));
                let was = model.access(now, takes, &wanted, condition);
                let mut is = Vec::new();
                match takes {
                    true => cache.take(now, &wanted, |data| condition(data.copied()), &mut is),
                    false => cache.read(now, &wanted, |data| condition(data.copied()), &mut is),
                }
                assert_eq!(is, was, "{wanted:?} in {context}");
                assert_eq!(had, !was.is_empty(), "{wanted:?} in {context}");
            }
        }
        assert_eq!(cache.len(), model.len(), "{context}");
        assert_eq!(cache.instances(), model.instances(), "{context}");
        let due = model.next_time().unwrap_or(NEVER);
        assert!(cache.next_time().unwrap_or(NEVER) <= due, "{context}");
    }
}

#[test]
fn random_histories_match_model() {
    (0..10_000).for_each(live);
}

#[test]
fn passing_samples_are_delivered_as_if_stored() {
    (0..10_000).for_each(live_and_pass);
}

/// A purge that becomes due before one that was due earlier.
#[test]
fn random_history_57_matches_model() {
    live(57);
}

/// A cache of all samples, with increasing times.
struct ClockedCache {
    cache: SampleCache<u64>,
    now: u64,
}

impl ClockedCache {
    fn new(settings: CacheSettings) -> ClockedCache {
        ClockedCache { cache: SampleCache::new(settings), now: 0 }
    }

    /// Stores a change from a writer with its strength, at the next time.
    fn put(
        &mut self,
        change: InstanceChange,
        key: Key,
        by: (u64, i32),
        data: u64,
    ) -> ArrivalOutcome {
        self.now += 1;
        let (number, strength) = by;
        let (writer, source_timestamp, expires) = (writer(number), self.now, NEVER);
        let arrival = Arrival { change, key, writer, strength, source_timestamp, expires, data };
        self.cache.put(self.now, arrival, |_| Box::default()).unwrap()
    }

    fn take(&mut self) -> Vec<ReturnedSample<u64>> {
        let mut found = Vec::new();
        self.cache.take(self.now, &Selection::default(), |_| true, &mut found);
        found
    }
}

/// A sample that expires at the moment when TIME_BASED_FILTER would release it is not delivered.
#[test]
fn waiting_sample_that_expires_at_release_is_not_delivered() {
    for (expires, expected) in [(15, 0), (16, 1)] {
        let settings = CacheSettings { minimum_separation: 10, ..CacheSettings::default() };
        let mut cache = SampleCache::<u64>::new(settings);
        for (now, expires) in [(5, NEVER), (6, expires)] {
            let (change, key, writer) = (InstanceChange::Alive, 5, writer(1));
            let (strength, source_timestamp, data) = (0, now, now);
            let arrival =
                Arrival { change, key, writer, strength, source_timestamp, expires, data };
            cache.put(now, arrival, |_| Box::default()).unwrap();
        }
        let mut found = Vec::new();
        cache.take(14, &Selection::default(), |_| true, &mut found);
        assert_eq!((found.len(), found[0].data), (1, Some(5)));
        found.clear();
        cache.take(15, &Selection::default(), |_| true, &mut found);
        assert_eq!(found.len(), expected, "what is good until {expires}");
    }
}

/// 2.2.2.5.1.6 to .10 and figure 2.11: an instance is disposed and reborn between two reads; the
/// ranks of its samples then and later.
#[test]
fn ranks_and_generations_count_rebirths() {
    let mut cache = ClockedCache::new(CacheSettings::default());
    let one = (1, 0);
    for data in [10, 11] {
        cache.put(InstanceChange::Alive, 5, one, data);
    }
    cache.put(InstanceChange::Dispose, 5, one, 0);
    cache.put(InstanceChange::Alive, 5, one, 20);
    cache.put(InstanceChange::Unregister, 5, one, 0);
    cache.put(InstanceChange::Alive, 5, one, 30);
    cache.put(InstanceChange::Alive, 5, one, 31);
    let mut found = Vec::new();
    let two = Selection { max: 3, ..Selection::default() };
    cache.cache.read(9, &two, |_| true, &mut found);
    let told_of = |found: &[ReturnedSample<u64>]| -> Vec<[u32; 6]> {
        let each = found.iter().map(|ReturnedSample { data, info }| {
            let counts = [info.disposed_generation_count, info.no_writers_generation_count];
            let ranks = [info.sample_rank, info.generation_rank, info.absolute_generation_rank];
            let data = data.unwrap() as u32;
            [data, counts[0], counts[1], ranks[0], ranks[1], ranks[2]]
        });
        each.collect()
    };
    assert_eq!(told_of(&found), [[10, 0, 0, 2, 1, 2], [11, 0, 0, 1, 1, 2], [20, 1, 0, 0, 0, 1]]);
    let all = cache.take();
    let last = [[30, 1, 1, 1, 0, 0], [31, 1, 1, 0, 0, 0]];
    assert_eq!(told_of(&all)[3..], last);
    assert!(all.iter().all(|it| it.info.instance_state == InstanceState::Alive));
}

/// 2.2.3.9.2: the strongest writer of an instance owns it until it unregisters the instance; then
/// the strongest of the others does.
#[test]
fn ownership_passes_to_strongest_remaining_writer() {
    let mut cache =
        ClockedCache::new(CacheSettings { exclusive: true, ..CacheSettings::default() });
    let (weak, middle, strong) = ((1, 1), (2, 2), (3, 3));
    assert_eq!(cache.put(InstanceChange::Alive, 5, strong, 30), ArrivalOutcome::Stored);
    assert_eq!(cache.put(InstanceChange::Alive, 5, weak, 10), ArrivalOutcome::NotOwner);
    assert_eq!(cache.put(InstanceChange::Alive, 5, middle, 20), ArrivalOutcome::NotOwner);
    assert_eq!(cache.put(InstanceChange::Dispose, 5, middle, 0), ArrivalOutcome::NotOwner);
    assert_eq!(
        cache.put(InstanceChange::Alive, 6, weak, 11),
        ArrivalOutcome::Stored,
        "of another instance"
    );
    cache.cache.lose(cache.now, writer(3), |_| None);
    assert_eq!(
        cache.put(InstanceChange::Alive, 5, weak, 12),
        ArrivalOutcome::NotOwner,
        "the middle one has it"
    );
    assert_eq!(cache.put(InstanceChange::Alive, 5, middle, 21), ArrivalOutcome::Stored);
    let valid: Vec<_> = cache.take().iter().filter_map(|it| it.data).collect();
    assert_eq!(valid, [30, 11, 21]);
}

/// 2.2.2.5.1.3: an instance has no writers only when the last one is gone, and a disposal is final.
#[test]
fn instance_ends_when_its_last_writer_is_gone() {
    let mut cache = ClockedCache::new(CacheSettings::default());
    cache.put(InstanceChange::Alive, 5, (1, 0), 10);
    cache.put(InstanceChange::Alive, 5, (2, 0), 11);
    cache.put(InstanceChange::Alive, 6, (2, 0), 12);
    assert_eq!(cache.put(InstanceChange::Unregister, 5, (1, 0), 0), ArrivalOutcome::Unnoticed);
    cache.put(InstanceChange::Dispose, 6, (1, 0), 0);
    cache.take();
    cache.cache.lose(cache.now, writer(2), |_| None);
    let over = cache.take();
    assert_eq!(over.len(), 1);
    let info = over[0].info;
    assert_eq!((info.instance, info.valid_data, over[0].data), (5, false, None));
    assert_eq!(info.instance_state, InstanceState::NotAliveNoWriters);
    assert_eq!(cache.cache.instances(), 1, "writer 1 has not let go what it disposed");
    cache.cache.lose(cache.now, writer(1), |_| None);
    assert_eq!(cache.cache.instances(), 0);
}
