//! Writers of the samples that a reader has given out while it did not follow instances.
//!
//! Owns: from which writers the only instance of a type without a key has its samples. Never does:
//! decide what the end of a writer means; the cache does, once the reader has one.

use std::collections::BTreeMap;

use derecho_core::group::report::StreamId;

use crate::infrastructure::InstanceHandle;

/// A sample's writer, and its number in the stream.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct AuthoredSample {
    pub(super) writer: InstanceHandle,
    pub(super) number: u64,
}

/// The writer of this number whose samples come by a stream.
#[inline(always)]
pub(super) fn author(stream: StreamId, writer: u32) -> InstanceHandle {
    InstanceHandle { node: stream.node, entity: u64::from(writer) }
}

/// See the [module](self).
#[derive(Default)]
pub(super) struct SampleAuthors {
    /// The stream by which the samples of each writer came.
    streams: BTreeMap<InstanceHandle, StreamId>,
    /// First sample of the newest author.
    newest: Option<AuthoredSample>,
}

impl SampleAuthors {
    /// Notes a writer whose sample of this number is given out next. Returns whether it is new.
    pub(super) fn note(&mut self, stream: StreamId, writer: u32, number: u64) -> bool {
        let writer = author(stream, writer);
        let is_new = self.streams.insert(writer, stream).is_none();
        if is_new {
            self.newest = Some(AuthoredSample { writer, number });
        }
        is_new
    }

    /// Forgets a writer of which no sample is given out.
    pub(super) fn forget(&mut self, writer: InstanceHandle) {
        self.streams.remove(&writer);
    }

    /// Whether a writer is an author.
    pub(super) fn has(&self, writer: InstanceHandle) -> bool {
        self.streams.contains_key(&writer)
    }

    /// Whether samples of an author came by a stream for which this holds.
    pub(super) fn any_stream(&self, mut holds: impl FnMut(StreamId) -> bool) -> bool {
        self.streams.values().any(|stream| holds(*stream))
    }

    /// The authors, each with its stream, without the one whose first sample is `next`.
    pub(super) fn before(
        mut self,
        next: Option<AuthoredSample>,
    ) -> BTreeMap<InstanceHandle, StreamId> {
        if let Some(next) = next.filter(|_| next == self.newest) {
            self.streams.remove(&next.writer);
        }
        self.streams
    }
}
