//! Effects of policies on a reader cache, as time passes and policies change.

use dds_api::prelude::InstanceHandle;
use dds_api::qos::*;
use dds_api::subscription::cache::{
    Arrival, ArrivalOutcome, ArrivalSummary, CacheSettings, InstanceChange, InstanceScope, Key,
    LimitReached, NEVER, RoomShortage, SampleCache, Selection,
};

/// More than any limit.
const MOST: usize = (u32::MAX - 1) as usize;

fn asked(change: impl FnOnce(&mut DataReaderQos, &mut PresentationQosPolicy)) -> CacheSettings {
    let (mut qos, mut presentation) = (DataReaderQos::default(), PresentationQosPolicy::default());
    change(&mut qos, &mut presentation);
    CacheSettings::new(&qos, &presentation)
}

/// Returns the standard's defaults as settings of a cache.
fn usual() -> CacheSettings {
    CacheSettings { depth: Some(1), across_instances: false, ..CacheSettings::default() }
}

#[test]
fn each_policy_sets_its_cache_setting() {
    use PresentationQosPolicyAccessScopeKind::{Group, Instance, Topic};
    const MILLI: u64 = 1_000_000;
    let (milli, typical) = (Duration::from_millis(1), usual());
    assert_eq!(asked(|_, _| ()), typical);
    assert_eq!((typical.max_samples, typical.max_instances), (MOST, MOST));
    assert_eq!(typical.max_samples_per_instance, MOST);
    let history = |kind, depth| asked(|qos, _| qos.history = HistoryQosPolicy { kind, depth });
    let keep_last = history(HistoryQosPolicyKind::KeepLast, 7);
    assert_eq!(keep_last, CacheSettings { depth: Some(7), ..typical });
    let keep_all = history(HistoryQosPolicyKind::KeepAll, 7);
    assert_eq!(keep_all, CacheSettings { depth: None, ..typical });
    assert_eq!(
        asked(|qos, _| qos.resource_limits.max_samples = Length::of(7)),
        CacheSettings { max_samples: 7, ..typical }
    );
    assert_eq!(
        asked(|qos, _| qos.resource_limits.max_instances = Length::of(7)),
        CacheSettings { max_instances: 7, ..typical }
    );
    assert_eq!(
        asked(|qos, _| qos.resource_limits.max_samples_per_instance = Length::of(7)),
        CacheSettings { max_samples_per_instance: 7, ..typical }
    );
    assert_eq!(
        asked(|qos, _| qos.ownership.kind = OwnershipQosPolicyKind::Exclusive),
        CacheSettings { exclusive: true, ..typical }
    );
    let by_source = DestinationOrderQosPolicyKind::BySourceTimestamp;
    assert_eq!(
        asked(|qos, _| qos.destination_order.kind = by_source),
        CacheSettings { by_source: true, ..typical }
    );
    for (scope, ordered, across) in [
        (Instance, false, false),
        (Instance, true, false),
        (Topic, false, false),
        (Topic, true, true),
        (Group, false, false),
        (Group, true, true),
    ] {
        let settings = asked(|_, presentation| {
            (presentation.access_scope, presentation.ordered_access) = (scope, ordered);
        });
        assert_eq!(settings, CacheSettings { across_instances: across, ..typical }, "{scope:?}");
    }
    assert_eq!(
        asked(|qos, _| qos.time_based_filter.minimum_separation = milli),
        CacheSettings { minimum_separation: MILLI, ..typical }
    );
    assert_eq!(
        asked(|qos, _| qos.reader_data_lifecycle.autopurge_nowriter_samples_delay = milli),
        CacheSettings { no_writer_delay: MILLI, ..typical }
    );
    assert_eq!(
        asked(|qos, _| qos.reader_data_lifecycle.autopurge_disposed_samples_delay = milli),
        CacheSettings { disposed_delay: MILLI, ..typical }
    );
    assert_eq!(
        asked(|qos, _| qos.deadline.period = milli),
        CacheSettings { deadline: MILLI, ..typical }
    );
}

#[test]
fn active_reader_cache_adopts_only_changeable_policies() {
    let mut qos = DataReaderQos::default();
    let milli = Duration::from_millis(1);
    qos.time_based_filter.minimum_separation = milli;
    qos.reader_data_lifecycle.autopurge_nowriter_samples_delay = milli;
    qos.reader_data_lifecycle.autopurge_disposed_samples_delay = milli;
    qos.deadline.period = milli;
    qos.history.depth = 7;
    qos.resource_limits.max_samples = Length::of(7);
    qos.ownership.kind = OwnershipQosPolicyKind::Exclusive;
    let before = CacheSettings { across_instances: true, ..usual() };
    let expected = CacheSettings {
        minimum_separation: 1_000_000,
        no_writer_delay: 1_000_000,
        disposed_delay: 1_000_000,
        deadline: 1_000_000,
        ..before
    };
    assert_eq!(before.changed_to(&qos), expected);
}

/// Returns a sample of an instance that expires at a time.
fn arrival(change: InstanceChange, key: Key, (now, expires): (u64, u64)) -> Arrival<u64> {
    let writer = InstanceHandle::from_parts(1, 7);
    Arrival { change, key, writer, strength: 0, source_timestamp: now, expires, data: now }
}

fn put(
    cache: &mut SampleCache<u64>,
    change: InstanceChange,
    key: Key,
    times: (u64, u64),
) -> ArrivalOutcome {
    cache.put(times.0, arrival(change, key, times), |_| Box::new([7])).unwrap()
}

/// Takes at a time; returns `None` for a sample without data.
fn take(cache: &mut SampleCache<u64>, now: u64) -> Vec<Option<u64>> {
    let mut found = Vec::new();
    cache.take(now, &Selection::default(), |_| true, &mut found);
    found.iter().map(|taken| taken.data.filter(|_| taken.info.valid_data)).collect()
}

/// The current TIME_BASED_FILTER applies to waiting samples: a shorter one releases them sooner, a
/// longer one later.
#[test]
fn changed_time_based_filter_applies_to_waiting_samples() {
    for (separation, comes) in [(4, 14), (30, 40), (10, 20), (0, 16)] {
        let settings = CacheSettings { minimum_separation: 10, ..CacheSettings::default() };
        let mut cache = SampleCache::new(settings);
        // Another instance, which has no waiting sample.
        assert_eq!(put(&mut cache, InstanceChange::Alive, 1, (9, NEVER)), ArrivalOutcome::Stored);
        assert_eq!(put(&mut cache, InstanceChange::Alive, 2, (10, NEVER)), ArrivalOutcome::Stored);
        assert_eq!(put(&mut cache, InstanceChange::Alive, 2, (12, NEVER)), ArrivalOutcome::Waits);
        assert_eq!(take(&mut cache, 13), [Some(9), Some(10)]);
        cache.set_settings(CacheSettings { minimum_separation: separation, ..settings });
        assert_eq!(cache.settings().minimum_separation, separation);
        if separation > 0 {
            assert_eq!(take(&mut cache, comes - 1), [], "separation {separation}");
        }
        assert_eq!(take(&mut cache, comes), [Some(12)], "separation {separation}");
        // The next sample waits for the same interval, counted from the release of the
        // previous one.
        let next = comes + 1;
        let expected = if separation > 1 { ArrivalOutcome::Waits } else { ArrivalOutcome::Stored };
        assert_eq!(put(&mut cache, InstanceChange::Alive, 2, (next, NEVER)), expected);
    }
}

/// A sample that arrives exactly when TIME_BASED_FILTER would release it does not wait; one that
/// arrives exactly at the end of its LIFESPAN is not stored.
#[test]
fn minimum_separation_and_lifespan_end_at_exact_time() {
    let settings = CacheSettings { minimum_separation: 10, ..CacheSettings::default() };
    let mut cache = SampleCache::new(settings);
    assert_eq!(put(&mut cache, InstanceChange::Alive, 1, (5, NEVER)), ArrivalOutcome::Stored);
    assert_eq!(put(&mut cache, InstanceChange::Alive, 1, (15, NEVER)), ArrivalOutcome::Stored);
    assert_eq!(put(&mut cache, InstanceChange::Alive, 1, (24, NEVER)), ArrivalOutcome::Waits);
    assert_eq!(put(&mut cache, InstanceChange::Alive, 2, (30, 30)), ArrivalOutcome::Expired);
    assert_eq!(put(&mut cache, InstanceChange::Alive, 2, (30, 31)), ArrivalOutcome::Stored);
}

/// The cache loses no due timer, however many of its timers have become void.
#[test]
fn agenda_keeps_due_events_while_other_entries_become_void() {
    let settings = CacheSettings {
        depth: Some(1),
        disposed_delay: 500_000,
        minimum_separation: 0,
        ..CacheSettings::default()
    };
    let mut cache = SampleCache::new(settings);
    put(&mut cache, InstanceChange::Alive, 1, (1, 400_000));
    put(&mut cache, InstanceChange::Alive, 2, (2, NEVER));
    put(&mut cache, InstanceChange::Dispose, 2, (3, NEVER));
    for now in 10..10_000 {
        assert_eq!(
            put(&mut cache, InstanceChange::Alive, 3, (now, 600_000)),
            ArrivalOutcome::Stored
        );
    }
    let count_at = |cache: &mut SampleCache<u64>, now| {
        cache.advance(now);
        cache.len()
    };
    assert_eq!(count_at(&mut cache, 399_999), 4);
    assert_eq!(count_at(&mut cache, 400_000), 3, "a sample is out of date");
    assert_eq!(count_at(&mut cache, 500_002), 3);
    assert_eq!(count_at(&mut cache, 500_003), 1, "an instance that is disposed is purged");
    assert_eq!(count_at(&mut cache, 599_999), 1);
    assert_eq!(count_at(&mut cache, 600_000), 0);
    assert!(cache.is_empty() && cache.next_time().is_none_or(|next| next > 600_000));
}

/// The cache loses no sample that waits for TIME_BASED_FILTER.
#[test]
fn agenda_keeps_waiting_sample_while_other_instances_end() {
    let settings =
        CacheSettings { depth: Some(1), minimum_separation: 100_000, ..CacheSettings::default() };
    let mut cache = SampleCache::new(settings);
    put(&mut cache, InstanceChange::Alive, 1, (1, NEVER));
    assert_eq!(put(&mut cache, InstanceChange::Alive, 1, (2, NEVER)), ArrivalOutcome::Waits);
    for key in 10..2000 {
        put(&mut cache, InstanceChange::Alive, key, (3, 600_000));
        put(&mut cache, InstanceChange::Dispose, key, (3, NEVER));
        put(&mut cache, InstanceChange::Unregister, key, (3, NEVER));
        take(&mut cache, 3);
    }
    assert_eq!(take(&mut cache, 100_000), []);
    assert_eq!(take(&mut cache, 100_001), [Some(2)]);
}

fn put_plain(cache: &mut SampleCache<u64>, key: Key, now: u64, expires: u64) {
    cache
        .put(now, arrival(InstanceChange::Alive, key, (now, expires)), |_| Box::default())
        .unwrap();
}

#[test]
fn cache_reports_its_samples_instances_keys_and_places() {
    let mut cache = SampleCache::new(CacheSettings::default());
    assert!(cache.is_empty() && !cache.knows(5) && cache.key_value(5).is_none());
    cache.set_position(40);
    put(&mut cache, InstanceChange::Alive, 5, (1, NEVER));
    cache.set_position(41);
    put(&mut cache, InstanceChange::Alive, 6, (2, NEVER));
    put(&mut cache, InstanceChange::Dispose, 5, (3, NEVER));
    assert!(!cache.is_empty() && cache.knows(5) && !cache.knows(7));
    assert_eq!((cache.len(), cache.instances()), (3, 2));
    assert_eq!(cache.key_value(5), Some(&[7_u8][..]));
    assert_eq!(cache.positions(3, &Selection::default()), [(40, 1), (41, 2), (41, 3)]);
    let one = Selection { scope: InstanceScope::Instance(6), ..Selection::default() };
    assert_eq!(cache.positions(3, &one), [(41, 2)]);
    assert_eq!(cache.next_time(), None, "nothing is ever due");
    // The loss of a writer is reported with the key that each of its instances had on arrival.
    let mut keys = Vec::new();
    let lost = InstanceHandle::from_parts(1, 7);
    cache.lose(4, lost, |key| {
        keys.push(key.to_vec());
        Some(70)
    });
    assert_eq!(keys, [[7], [7]]);
    assert_eq!(cache.len(), 4, "the one that was disposed is over already");
    let nobody = InstanceHandle::from_parts(2, 7);
    cache.lose(4, nobody, |_| panic!("it has no instance"));
}

/// The reason why a set finds no room, and whether an empty cache would have room.
#[test]
fn shortage_of_coherent_set_names_limit_and_permanence() {
    let room = |settings: CacheSettings, before: &[Key], set: &[(InstanceChange, Key)]| {
        let mut cache = SampleCache::new(settings);
        before.iter().for_each(|key| put_plain(&mut cache, *key, 1, NEVER));
        let set: Vec<ArrivalSummary> = set
            .iter()
            .map(|(change, key)| ArrivalSummary::from(&arrival(*change, *key, (2, NEVER))))
            .collect();
        cache.room_for(2, set.into_iter())
    };
    use InstanceChange::{Alive, Dispose, Unregister};
    let all = CacheSettings { max_samples: 2, ..CacheSettings::default() };
    assert_eq!(room(all, &[], &[(Alive, 1), (Alive, 2)]), Ok(()));
    assert_eq!(room(all, &[1], &[(Alive, 2)]), Ok(()));
    assert_eq!(
        room(all, &[1], &[(Alive, 1), (Alive, 2)]),
        Err(RoomShortage::Now(LimitReached::Samples))
    );
    let three = [(Alive, 1), (Alive, 2), (Alive, 3)];
    assert_eq!(room(all, &[], &three), Err(RoomShortage::Always(LimitReached::Samples)));
    assert_eq!(room(all, &[1, 2], &[(Dispose, 3), (Unregister, 1)]), Ok(()), "they are no samples");
    let each = CacheSettings { max_samples_per_instance: 2, ..CacheSettings::default() };
    assert_eq!(room(each, &[1], &[(Alive, 1), (Alive, 2), (Alive, 2)]), Ok(()));
    let twice = [(Alive, 1), (Alive, 1)];
    assert_eq!(room(each, &[1], &twice), Err(RoomShortage::Now(LimitReached::SamplesPerInstance)));
    let thrice = [(Alive, 1), (Alive, 1), (Alive, 1)];
    assert_eq!(
        room(each, &[], &thrice),
        Err(RoomShortage::Always(LimitReached::SamplesPerInstance))
    );
    let filtered = CacheSettings { minimum_separation: 10, ..each };
    assert_eq!(room(filtered, &[], &thrice), Ok(()), "one comes, and one waits");
    let mut waiting = SampleCache::new(filtered);
    put(&mut waiting, Alive, 1, (1, NEVER));
    assert_eq!(put(&mut waiting, Alive, 1, (2, NEVER)), ArrivalOutcome::Waits);
    let one_more =
        waiting.room_for(3, [ArrivalSummary::from(&arrival(Alive, 1, (3, NEVER)))].into_iter());
    let short = Err(RoomShortage::Now(LimitReached::SamplesPerInstance));
    assert_eq!(one_more, short, "what waits is counted as well");
    let instances = CacheSettings { max_instances: 2, ..CacheSettings::default() };
    assert_eq!(room(instances, &[1, 2], &[(Alive, 1), (Unregister, 3)]), Ok(()));
    assert_eq!(room(instances, &[1], &[(Alive, 2)]), Ok(()));
    let another = [(Alive, 2), (Dispose, 3)];
    assert_eq!(room(instances, &[1], &another), Err(RoomShortage::Now(LimitReached::Instances)));
    assert_eq!(room(instances, &[], &three), Err(RoomShortage::Always(LimitReached::Instances)));
}

/// Cost of samples that arrive while the reader takes everything; whether they pass through the
/// cache, not any result.
#[test]
fn arriving_samples_pass_through_cache_until_given_to_reader() {
    let settings = CacheSettings { depth: None, ..usual() };
    let mut cache = SampleCache::<u64>::new(settings);
    assert!(!cache.lets_pass());
    for round in 0..2 {
        cache.let_pass();
        assert!(cache.lets_pass() && cache.passing() == 0);
        for (number, key) in [5, 6, 5].into_iter().enumerate() {
            let (change, writer) = (InstanceChange::Alive, InstanceHandle::from_parts(1, 7));
            let (strength, expires) = (0, NEVER);
            let (source_timestamp, data) = (10 * round + number as u64, ());
            let arrival =
                Arrival { change, key, writer, strength, source_timestamp, expires, data };
            let passed =
                cache.pass(source_timestamp, arrival, source_timestamp, |_| Box::default());
            assert_eq!((passed.unwrap(), cache.passing()), (ArrivalOutcome::Stored, number + 1));
        }
        let mut given = Vec::new();
        cache.give_passing(|data, _| given.push(data));
        assert_eq!(given, [0, 2, 1].map(|number| 10 * round + number));
        assert!(!cache.lets_pass() && cache.passing() == 0 && cache.is_empty());
    }
    let mut kept = SampleCache::<u64>::new(usual());
    kept.let_pass();
    assert!(!kept.lets_pass(), "one sample makes room for another");
}
