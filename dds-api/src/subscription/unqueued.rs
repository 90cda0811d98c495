//! Samples that a reader gets beside its queues: rows of a multi-topic, and what discovery reports
//! to a reader of a builtin topic.
//!
//! Owns: the samples that have not been taken yet. Never does: wait.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use derecho_core::group::report::StreamId;

use super::sample::SampleBody;

/// See the [module](self).
pub(super) struct UnqueuedSamples<T> {
    has_next: AtomicBool,
    /// Number of samples so far.
    received: AtomicU64,
    samples: Mutex<VecDeque<(SampleBody<T>, StreamId)>>,
}

impl<T> Default for UnqueuedSamples<T> {
    fn default() -> Self {
        let (has_next, received) = (AtomicBool::new(false), AtomicU64::new(0));
        UnqueuedSamples { has_next, received, samples: Mutex::default() }
    }
}

impl<T> UnqueuedSamples<T> {
    fn lock(&self) -> MutexGuard<'_, VecDeque<(SampleBody<T>, StreamId)>> {
        self.samples.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there is a sample.
    #[inline(always)]
    pub(super) fn has_next(&self) -> bool {
        self.has_next.load(Ordering::Acquire)
    }

    /// The next sample.
    #[inline(always)]
    pub(super) fn next(&self) -> Option<(SampleBody<T>, StreamId)> {
        if self.has_next() { self.take() } else { None }
    }

    #[cold]
    fn take(&self) -> Option<(SampleBody<T>, StreamId)> {
        let mut samples = self.lock();
        let next = samples.pop_front();
        self.has_next.store(!samples.is_empty(), Ordering::Release);
        next
    }

    /// Appends samples.
    pub(super) fn receive(&self, received: impl Iterator<Item = (SampleBody<T>, StreamId)>) {
        let mut samples = self.lock();
        samples.extend(received.inspect(|_| {
            self.received.fetch_add(1, Ordering::Release);
        }));
        self.has_next.store(!samples.is_empty(), Ordering::Release);
    }

    /// Number of samples that were received so far.
    pub(super) fn received(&self) -> u64 {
        self.received.load(Ordering::Acquire)
    }

    pub(super) fn clear(&self) {
        self.lock().clear();
        self.has_next.store(false, Ordering::Release);
    }
}
