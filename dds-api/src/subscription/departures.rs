//! Ends of streams and writers in the order of a topic.
//!
//! Owns: the streams and writers that have ended before the record that was taken last. Never does:
//! mark a writer as lost; the cache does that before it takes in later records (I-145).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use derecho_core::group::report::StreamId;

use super::cache::Key;
use crate::infrastructure::InstanceHandle;

/// See the [module](self).
#[derive(Default)]
pub(super) struct WriterDepartures {
    is_any: AtomicBool,
    departed: Mutex<DepartedWriters>,
}

/// Streams and writers that have ended.
#[derive(Default)]
pub(super) struct DepartedWriters {
    streams: Vec<StreamId>,
    /// If set, all streams have ended except these, and those that joined later.
    others_than: Option<Vec<StreamId>>,
    /// Writers that have ended, or have lost their liveliness, while their streams go on.
    writers: Vec<InstanceHandle>,
    /// Writers that have missed their deadline for an instance, with that instance.
    pub(super) overdue: Vec<(InstanceHandle, Key)>,
}

impl DepartedWriters {
    /// Whether this writer, which wrote by that stream, has ended.
    pub(super) fn has(&self, writer: InstanceHandle, stream: StreamId) -> bool {
        let is_other =
            self.others_than.as_ref().is_some_and(|remaining| !remaining.contains(&stream));
        is_other || self.streams.contains(&stream) || self.writers.contains(&writer)
    }
}

impl WriterDepartures {
    /// Notes that these streams bring nothing from here on.
    #[cold]
    pub(super) fn note(&self, streams: impl IntoIterator<Item = StreamId>) {
        self.change(|departed| departed.streams.extend(streams));
    }

    /// Notes that only these streams bring anything from here on.
    #[cold]
    pub(super) fn note_others_than(&self, streams: Vec<StreamId>) {
        // None of these streams had ended before.
        self.change(|departed| {
            (departed.streams, departed.others_than) = (Vec::new(), Some(streams))
        });
    }

    /// Notes that this writer is not live for any instance before its next record.
    #[cold]
    pub(super) fn note_writer(&self, writer: InstanceHandle) {
        self.change(|departed| departed.writers.push(writer));
    }

    /// Notes that this writer has missed its deadline for an instance.
    #[cold]
    pub(super) fn note_overdue(&self, writer: InstanceHandle, key: Key) {
        self.change(|departed| departed.overdue.push((writer, key)));
    }

    fn change(&self, change: impl FnOnce(&mut DepartedWriters)) {
        let mut departed = self.departed.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut departed);
        let are_streams = departed.others_than.is_some() || !departed.streams.is_empty();
        let is_any = are_streams || !departed.writers.is_empty() || !departed.overdue.is_empty();
        self.is_any.store(is_any, Ordering::Release);
    }

    /// Whether any stream or writer has ended since the last [`take`](Self::take).
    #[inline(always)]
    pub(super) fn are_any(&self) -> bool {
        self.is_any.load(Ordering::Relaxed)
    }

    /// The streams and writers that have ended since the last call, if any.
    #[inline(always)]
    pub(super) fn take(&self) -> Option<DepartedWriters> {
        if self.is_any.load(Ordering::Relaxed) { Some(self.take_all()) } else { None }
    }

    #[cold]
    fn take_all(&self) -> DepartedWriters {
        let mut departed = self.departed.lock().unwrap_or_else(PoisonError::into_inner);
        self.is_any.store(false, Ordering::Relaxed);
        std::mem::take(&mut departed)
    }
}
