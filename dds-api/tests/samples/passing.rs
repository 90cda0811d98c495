//! Samples that pass directly through a reader's cache are reported like samples that were stored
//! there first (I-146).

use crate::support::{SOON, TestDomain};
use dds_api::prelude::*;
use dds_api::qos::{
    Length, PresentationQosPolicy, PresentationQosPolicyAccessScopeKind, ResourceLimitsQosPolicy,
};
use dds_api::subscription::{DataReaderBuilder, SampleInfo};

#[derive(DdsType, Clone, Debug, Default, PartialEq)]
struct Reading {
    #[dds(key)]
    sensor: u32,
    value: u64,
}

/// An encoded type with the same members.
#[derive(DdsType, Clone, Debug, Default, PartialEq)]
struct Named {
    #[dds(key)]
    sensor: String,
    value: u64,
}

/// Random number generator determined by a seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, count: u64) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 >> 33) % count
    }
}

/// Compares two readers of the same writers, several on an ordered topic: one takes each sample at
/// once, the samples of the other lie in the cache first.
fn compare<T: DdsType + Clone + PartialEq + std::fmt::Debug>(
    (name, count): (&str, u64),
    make: impl Fn(u64, u64) -> T,
    build: impl Fn(DataReaderBuilder<T>) -> DataReaderBuilder<T>,
) {
    let domain = TestDomain::new();
    let participant = domain.join();
    let topic = participant.topic::<T>(name);
    let topic = if count > 1 { topic.atomic() } else { topic };
    let topic = topic.create().unwrap();
    let writers: Vec<_> =
        (0..count).map(|_| participant.writer(&topic).create().unwrap()).collect();
    let [passes, lies] =
        [0, 1].map(|_| build(participant.reader(&topic).reliable_all()).create().unwrap());
    // For an ordered topic a participant counts once.
    writers.iter().for_each(|writer| writer.wait_for_readers(1, SOON).unwrap());
    for reader in [&passes, &lies] {
        reader.wait_for_writers(1, SOON).unwrap();
    }
    let nobody = make(u64::MAX, 0);
    let mut given = 0;
    for (step, mut dice) in (0..60).map(|seed| (seed, Dice(seed))) {
        for _ in 0..dice.below(30) {
            let writer = &writers[dice.below(count) as usize];
            let sample = make(dice.below(4), step);
            match dice.below(if step % 3 == 0 { 24 } else { 200 }) {
                0 => drop(writer.dispose(&sample)),
                1 => drop(writer.unregister_instance(&sample)),
                _ => writer.write(&sample).unwrap(),
            }
            writer.wait_for_acknowledgments(SOON).unwrap();
        }
        let most = dice.below(12) as usize;
        let take = |reader: &DataReader<T>| -> Vec<(T, SampleInfo)> {
            let taken = match step % 4 {
                0 => reader.take(..most, Timeout::NOW).unwrap(),
                _ => reader.take(.., Timeout::NOW).unwrap(),
            };
            taken.map(|sample| (sample.key_value().clone(), sample.info())).collect()
        };
        // Every query of the cache fills it.
        assert_eq!(lies.lookup_instance(&nobody), None);
        let [passed, lain] = [&passes, &lies].map(take);
        assert_eq!(passed, lain, "{name}, step {step}");
        given += passed.len();
    }
    assert!(given > 300, "{given} samples were given");
    let rejected = [&passes, &lies].map(|reader| reader.sample_rejected_status().total_count);
    assert_eq!(rejected[0], rejected[1], "{name}");
}

fn reading(sensor: u64, value: u64) -> Reading {
    Reading { sensor: sensor as u32, value }
}

#[test]
fn passed_samples_equal_cached_samples_in_arrival_order() {
    compare(("one writer", 1), reading, |reader| reader);
    compare(("two writers", 2), reading, |reader| reader);
}

#[test]
fn passed_samples_equal_cached_samples_instance_by_instance() {
    let order = PresentationQosPolicyAccessScopeKind::Instance;
    let order = PresentationQosPolicy { access_scope: order, ..Default::default() };
    compare(("by instance of one", 1), reading, |reader| reader.presentation(order.clone()));
    compare(("by instance of two", 2), reading, |reader| reader.presentation(order.clone()));
}

#[test]
fn passed_samples_equal_cached_samples_across_instances() {
    let order = PresentationQosPolicyAccessScopeKind::Topic;
    let order =
        PresentationQosPolicy { access_scope: order, ordered_access: true, ..Default::default() };
    compare(("across", 2), reading, |reader| reader.presentation(order.clone()));
}

#[test]
fn passed_encoded_samples_equal_cached_samples() {
    let named = |sensor: u64, value| Named { sensor: format!("sensor number {sensor}"), value };
    compare(("encoded", 2), named, |reader| reader);
}

#[test]
fn passed_samples_equal_cached_samples_within_resource_limits() {
    let limits = ResourceLimitsQosPolicy {
        max_samples: Length::of(6),
        max_samples_per_instance: Length::of(4),
        ..Default::default()
    };
    compare(("limits", 2), reading, |reader| reader.resource_limits(limits.clone()));
}

#[test]
fn passed_samples_equal_cached_samples_with_keep_last() {
    compare(("last", 2), reading, |reader| reader.keep_last(2));
}
