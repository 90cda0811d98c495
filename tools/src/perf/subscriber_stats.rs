//! Checks of arriving samples: the order of each publisher and of all together, the content of each
//! sample, and latencies.

use std::hash::{DefaultHasher, Hash, Hasher};

use hdrhistogram::Histogram;

use super::clock;
use super::payload::{ReadExtent, check};

/// One publisher from the view of a subscriber.
struct TrackedPublisher<W> {
    writer: W,
    /// Identifier of the publisher, equal in all processes.
    mark: u64,
    next: u64,
}

/// Statistics of a subscriber. `W` identifies a publisher, equally in all processes.
pub(crate) struct SubscriberStats<W> {
    origins: Vec<TrackedPublisher<W>>,
    read: ReadExtent,
    /// Samples in the right position.
    pub(crate) received: u64,
    /// Indices that were skipped.
    pub(crate) lost: u64,
    /// Samples that came late or twice.
    pub(crate) disorder: u64,
    /// Samples whose content is wrong.
    pub(crate) corrupt: u64,
    /// Nanoseconds from the write to the take, of samples with a stamp.
    pub(crate) latency: Histogram<u64>,
    /// Hash of the publishers and indices in order; equal orders give equal hashes.
    pub(crate) order: u64,
}

/// Returns a histogram of nanoseconds with three digits, of a size that never grows.
pub(crate) fn nanos_histogram() -> Histogram<u64> {
    const MINUTE: u64 = 60_000_000_000;
    Histogram::new_with_bounds(1, MINUTE, 3).expect("the bounds are valid")
}

impl<W: Copy + PartialEq + Hash> SubscriberStats<W> {
    pub(crate) fn new(read: ReadExtent) -> SubscriberStats<W> {
        let (origins, latency) = (Vec::with_capacity(64), nanos_histogram());
        SubscriberStats {
            origins,
            read,
            received: 0,
            lost: 0,
            disorder: 0,
            corrupt: 0,
            latency,
            order: 0,
        }
    }

    /// Checks one sample.
    #[inline]
    pub(crate) fn look(&mut self, bytes: &[u8], writer: W) {
        let Some((index, stamp)) = check(bytes, self.read) else {
            self.corrupt += 1;
            return;
        };
        if stamp != 0 {
            // Saturating, because the stamp comes from another process.
            self.latency.saturating_record(clock::now().saturating_sub(stamp));
        }
        let known = self.origins.iter().position(|origin| origin.writer == writer);
        let at = known.unwrap_or_else(|| {
            let mut hasher = DefaultHasher::new();
            writer.hash(&mut hasher);
            self.origins.push(TrackedPublisher { writer, mark: hasher.finish(), next: 0 });
            self.origins.len() - 1
        });
        let what = self.origins[at].mark.wrapping_add(index);
        // The odd multiplier loses no information. Only one multiplication, because it runs for
        // every sample.
        self.order = (self.order ^ what).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31);
        let next = &mut self.origins[at].next;
        if index < *next {
            self.disorder += 1;
            return;
        }
        self.lost += index - *next;
        *next = index + 1;
        self.received += 1;
    }

    /// Returns the number of samples that arrived, with or without errors.
    pub(crate) fn seen(&self) -> u64 {
        self.received + self.disorder + self.corrupt
    }
}

#[cfg(test)]
mod tests {
    use super::super::payload::fill;
    use super::*;

    fn order_of(samples: &[(u8, u64)]) -> u64 {
        let mut stats = SubscriberStats::new(ReadExtent::Whole);
        for &(writer, index) in samples {
            let mut bytes = [0; 32];
            fill(&mut bytes, index, 0);
            stats.look(&bytes, writer);
        }
        assert_eq!(stats.corrupt, 0);
        stats.order
    }

    #[test]
    fn only_equal_orders_have_equal_digests() {
        let order = [(1, 0), (2, 0), (1, 1), (2, 1)];
        assert_eq!(order_of(&order), order_of(&order));
        for other in [
            [(2, 0), (1, 0), (1, 1), (2, 1)].as_slice(),
            &[(1, 0), (2, 0), (2, 1), (1, 1)],
            &[(1, 0), (2, 0), (1, 1)],
        ] {
            assert_ne!(order_of(&order), order_of(other), "{other:?}");
        }
    }
}
