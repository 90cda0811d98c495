//! What arrives, checked: the order of each publisher, the content of each sample, and latencies.

use dds_api::prelude::InstanceHandle;
use hdrhistogram::Histogram;

use super::clock;
use super::payload::{Read, check};

/// One publisher, as a subscriber sees it.
struct Origin {
    writer: InstanceHandle,
    next: u64,
}

/// Everything that a subscriber has seen.
pub(crate) struct Track {
    origins: Vec<Origin>,
    read: Read,
    /// Samples in their place.
    pub(crate) received: u64,
    /// Indices that were passed over.
    pub(crate) lost: u64,
    /// Samples that came late or twice.
    pub(crate) disorder: u64,
    /// Samples whose content is wrong.
    pub(crate) corrupt: u64,
    /// Nanoseconds from the write to the take, of those samples that have a stamp.
    pub(crate) latency: Histogram<u64>,
}

/// A histogram of nanoseconds, three digits of each, of a size that never grows.
pub(crate) fn nanos_histogram() -> Histogram<u64> {
    const MINUTE: u64 = 60_000_000_000;
    Histogram::new_with_bounds(1, MINUTE, 3).expect("the bounds are valid")
}

impl Track {
    pub(crate) fn new(read: Read) -> Track {
        let (origins, latency) = (Vec::with_capacity(64), nanos_histogram());
        Track { origins, read, received: 0, lost: 0, disorder: 0, corrupt: 0, latency }
    }

    /// Looks at one sample.
    #[inline]
    pub(crate) fn look(&mut self, bytes: &[u8], writer: InstanceHandle) {
        let Some((index, stamp)) = check(bytes, self.read) else {
            self.corrupt += 1;
            return;
        };
        if stamp != 0 {
            // Saturating: the stamp is a word of another process.
            self.latency.saturating_record(clock::now().saturating_sub(stamp));
        }
        let known = self.origins.iter().position(|origin| origin.writer == writer);
        let at = known.unwrap_or_else(|| {
            self.origins.push(Origin { writer, next: 0 });
            self.origins.len() - 1
        });
        let next = &mut self.origins[at].next;
        if index < *next {
            self.disorder += 1;
            return;
        }
        self.lost += index - *next;
        *next = index + 1;
        self.received += 1;
    }

    /// Samples that came, whatever was wrong with them.
    pub(crate) fn seen(&self) -> u64 {
        self.received + self.disorder + self.corrupt
    }
}
