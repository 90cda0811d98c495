//! Streams and writers that bring nothing any more, where they end in the order of a topic.
//!
//! Owns: who is gone before the record that was taken last. Never does: lose a writer; the cache does that, before it takes in
//! what came behind (I-145).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use derecho_core::group::report::StreamId;

use crate::infrastructure::InstanceHandle;

/// See the [module](self).
#[derive(Default)]
pub(super) struct Departures {
    is_any: AtomicBool,
    gone: Mutex<Gone>,
}

/// Who is gone.
#[derive(Default)]
pub(super) struct Gone {
    these: Vec<StreamId>,
    /// All but these, and what joined them later.
    others_than: Option<Vec<StreamId>>,
    /// Writers whose streams go on.
    writers: Vec<InstanceHandle>,
}

impl Gone {
    /// Whether this writer is, who wrote by that stream.
    pub(super) fn has(&self, writer: InstanceHandle, stream: StreamId) -> bool {
        let is_other = self.others_than.as_ref().is_some_and(|stay| !stay.contains(&stream));
        is_other || self.these.contains(&stream) || self.writers.contains(&writer)
    }
}

impl Departures {
    /// From here on these bring nothing.
    #[cold]
    pub(super) fn note(&self, streams: impl IntoIterator<Item = StreamId>) {
        self.change(|gone| gone.these.extend(streams));
    }

    /// From here on only these bring anything.
    #[cold]
    pub(super) fn note_others_than(&self, streams: Vec<StreamId>) {
        // Whoever was gone before is none of these.
        self.change(|gone| (gone.these, gone.others_than) = (Vec::new(), Some(streams)));
    }

    /// From here on nothing comes of this writer.
    #[cold]
    pub(super) fn note_writer(&self, writer: InstanceHandle) {
        self.change(|gone| gone.writers.push(writer));
    }

    fn change(&self, change: impl FnOnce(&mut Gone)) {
        let mut gone = self.gone.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut gone);
        let are_streams = gone.others_than.is_some() || !gone.these.is_empty();
        let is_any = are_streams || !gone.writers.is_empty();
        self.is_any.store(is_any, Ordering::Release);
    }

    /// Whether anybody is gone since that was taken up last.
    #[inline(always)]
    pub(super) fn are_any(&self) -> bool {
        self.is_any.load(Ordering::Relaxed)
    }

    /// Who is gone since this was asked last, if anybody is.
    #[inline(always)]
    pub(super) fn take(&self) -> Option<Gone> {
        if self.is_any.load(Ordering::Relaxed) { Some(self.take_all()) } else { None }
    }

    #[cold]
    fn take_all(&self) -> Gone {
        let mut gone = self.gone.lock().unwrap_or_else(PoisonError::into_inner);
        self.is_any.store(false, Ordering::Relaxed);
        std::mem::take(&mut gone)
    }
}
