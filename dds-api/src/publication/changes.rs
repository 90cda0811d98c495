//! Changes that a publisher holds back: coherent sets, and wake-ups of readers while it
//! is suspended.
//!
//! ```text
//!   begin ── write, dispose, ... ──> gathered ── outermost end ──> one record per writer
//! ```
//! If PRESENTATION has group access scope, one record holds the changes of all the
//! publisher's writers.
//!
//! Nothing of a set leaves the process before the set ends, and then it leaves as one
//! record (I-190).
//!
//! Owns: the changes in the open set. Never does: write; the writers do.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use qos_profiles::PresentationQosPolicy;

use super::known_instances::InstanceKnowledge;
use crate::infrastructure::{DdsError, DdsResult, Timeout};
use crate::mapping::set::GatheredSamples;
use crate::subscription::{check_order, is_one};

/// A coherent set is open, and its samples are held back.
const IN_SET: u32 = 1;
/// Writes wake no reader.
const SUSPENDED: u32 = 2;

/// Number of writers of the gathered samples: one or several.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SetWriterCount {
    /// The writer that publishes the record.
    One,
    /// Several writers: each sample names its writer.
    Several,
}

/// Side effect of a sample of a set on its writer. Reverted if the set is discarded.
pub(super) enum SampleSideEffect {
    /// The sample is the first one of an instance, which its writer knows since then, and which
    /// counts towards max_instances.
    Entered(u128),
    /// The sample is the first one of an instance that counts towards max_instances. The writer
    /// knew the instance before.
    Counted(u128),
    /// The sample unregisters an instance. `known` is what the writer knew of it; `counted` says
    /// whether it counted towards max_instances.
    Left { key: u128, known: Option<InstanceKnowledge>, counted: bool },
}

/// A writer, as seen by its publisher.
pub(super) trait HeldBackWriter: Send + Sync {
    /// Writes the gathered samples as one record. Waits for room for up to `blocking`, or as long
    /// as the writer's policies say.
    fn publish(
        self: Arc<Self>,
        gathered: &GatheredSamples,
        writer_count: SetWriterCount,
        blocking: Option<Timeout>,
    ) -> DdsResult<()>;
    /// Whether there is room for the gathered samples now.
    fn has_room_for_set(&self, gathered: &GatheredSamples) -> bool;
    /// Wakes readers that sleep until the writer writes.
    fn wake(&self);
    /// Reverts the effect of a discarded sample.
    fn revert(self: Arc<Self>, effect: SampleSideEffect);
}

/// A writer with samples in the open set.
struct SetWriter {
    id: u64,
    writer: Weak<dyn HeldBackWriter>,
    /// Effects of the writer's samples, in their order.
    effects: Vec<SampleSideEffect>,
}

/// The part of an open set written by one writer, or by all writers of a group.
struct SetPart {
    writers: Vec<SetWriter>,
    gathered: GatheredSamples,
}

impl SetPart {
    /// The writer that publishes the part: the first one with samples in it that still exists.
    fn writer(&self) -> Option<Arc<dyn HeldBackWriter>> {
        self.writers.iter().find_map(|set_writer| set_writer.writer.upgrade())
    }

    fn writer_count(&self) -> SetWriterCount {
        if self.writers.len() > 1 { SetWriterCount::Several } else { SetWriterCount::One }
    }
}

/// A writer's topic, and the key of its stream if the topic is ordered.
struct WriterStream {
    writer: usize,
    key: Option<u64>,
    topic: Arc<str>,
}

#[derive(Default)]
struct ChangesState {
    /// Number of open sets, nested in each other.
    depth: u32,
    parts: Vec<SetPart>,
    /// Topics and streams of the publisher's writers.
    streams: Vec<WriterStream>,
    /// Number of suspensions that were not resumed.
    suspended: u32,
    /// Writers whose samples woke no reader.
    unwoken: Vec<(u64, Weak<dyn HeldBackWriter>)>,
}

/// See the [module](self).
#[derive(Default)]
pub(crate) struct HeldChanges {
    /// PRESENTATION.coherent_access. Without it the samples of a set are not held back.
    is_coherent: AtomicBool,
    /// Whether all writers of the publisher share one part of a set.
    is_group: AtomicBool,
    mode: AtomicU32,
    state: Mutex<ChangesState>,
}

impl HeldChanges {
    fn lock(&self) -> MutexGuard<'_, ChangesState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether sets are held back.
    pub(super) fn is_coherent(&self) -> bool {
        self.is_coherent.load(Ordering::Relaxed)
    }

    /// Sets the PRESENTATION. It is fixed when the first writer of the publisher begins.
    pub(super) fn agree(&self, presentation: &PresentationQosPolicy) {
        self.is_coherent.store(presentation.coherent_access, Ordering::Relaxed);
        self.is_group.store(is_one(presentation), Ordering::Relaxed);
    }

    /// Adds a writer. `key` identifies its stream if the topic is ordered.
    ///
    /// # Errors
    /// If the writer cannot share one order with the other writers of a group.
    pub(super) fn join(&self, writer: usize, key: Option<u64>, topic: &str) -> DdsResult<()> {
        let mut state = self.lock();
        if self.is_group.load(Ordering::Relaxed) {
            let others = state.streams.iter().map(|stream| (stream.key, &*stream.topic));
            check_order("publisher", key, topic, others)?;
        }
        state.streams.push(WriterStream { writer, key, topic: topic.into() });
        Ok(())
    }

    /// Removes a writer.
    pub(super) fn leave(&self, writer: usize) {
        self.lock().streams.retain(|stream| stream.writer != writer);
    }

    /// Whether samples written now may have to be held back.
    #[inline(always)]
    pub(super) fn is_in_set(&self) -> bool {
        self.mode.load(Ordering::Relaxed) & IN_SET != 0
    }

    /// Whether wake-ups may have to be held back now.
    #[inline(always)]
    pub(super) fn is_suspended(&self) -> bool {
        self.mode.load(Ordering::Relaxed) & SUSPENDED != 0
    }

    pub(super) fn begin(&self) {
        let mut state = self.lock();
        state.depth += 1;
        if self.is_coherent() {
            self.mode.fetch_or(IN_SET, Ordering::Relaxed);
        }
    }

    /// Ends the innermost set. The end of the outermost set writes all parts. If writing fails, the
    /// set stays open with the parts that are not written yet.
    pub(super) fn end(&self, blocking: Option<Timeout>) -> DdsResult<()> {
        // Dropped after the lock is released: dropping the last handle on a writer calls `leave`,
        // which takes the lock.
        let mut busy = Vec::new();
        let mut state = self.lock();
        state.check_open()?;
        if state.depth == 1 {
            while let Some(part) = state.parts.first() {
                // The samples of a deleted writer are lost, unless the part has other writers.
                if part.gathered.samples() > 0
                    && let Some(writer) = part.writer()
                {
                    busy.push(Arc::clone(&writer));
                    writer.publish(&part.gathered, part.writer_count(), blocking)?;
                }
                state.parts.remove(0);
            }
            self.mode.fetch_and(!IN_SET, Ordering::Relaxed);
        }
        state.depth -= 1;
        Ok(())
    }

    /// Discards all samples of the open set and closes all nested sets.
    pub(super) fn discard(&self) -> DdsResult<usize> {
        let mut state = self.lock();
        state.check_open()?;
        let parts = std::mem::take(&mut state.parts);
        state.depth = 0;
        self.mode.fetch_and(!IN_SET, Ordering::Relaxed);
        drop(state);
        let samples = parts.iter().map(|part| part.gathered.samples()).sum();
        for set_writer in parts.into_iter().flat_map(|part| part.writers) {
            let Some(writer) = set_writer.writer.upgrade() else { continue };
            let effects = set_writer.effects.into_iter().rev();
            effects.for_each(|effect| Arc::clone(&writer).revert(effect));
        }
        Ok(samples)
    }

    /// Whether there is room for the part that is written next.
    pub(super) fn has_room(&self) -> bool {
        // Dropped after the lock is released.
        let writer;
        let Ok(state) = self.state.try_lock() else { return false };
        let Some(part) = state.parts.first() else { return true };
        writer = part.writer();
        writer.as_ref().is_none_or(|writer| writer.has_room_for_set(&part.gathered))
    }

    /// Calls `add` for the part of the open set to which this writer's samples belong. `None` if no
    /// set is open any more.
    pub(super) fn gather<R>(
        &self,
        id: u64,
        writer: impl FnOnce() -> Weak<dyn HeldBackWriter>,
        add: impl FnOnce(&mut GatheredSamples, &mut Vec<SampleSideEffect>) -> R,
    ) -> Option<R> {
        let mut state = self.lock();
        if state.depth == 0 {
            return None;
        }
        let is_group = self.is_group.load(Ordering::Relaxed);
        let is_its =
            |part: &SetPart| is_group || part.writers.iter().any(|set_writer| set_writer.id == id);
        let known = state.parts.iter().position(is_its);
        let at = known.unwrap_or_else(|| {
            state.parts.push(SetPart { writers: Vec::new(), gathered: GatheredSamples::default() });
            state.parts.len() - 1
        });
        let part = &mut state.parts[at];
        let known = part.writers.iter().position(|set_writer| set_writer.id == id);
        let set_writer = known.unwrap_or_else(|| {
            part.writers.push(SetWriter { id, writer: writer(), effects: Vec::new() });
            part.writers.len() - 1
        });
        Some(add(&mut part.gathered, &mut part.writers[set_writer].effects))
    }

    pub(super) fn suspend(&self) {
        self.lock().suspended += 1;
        self.mode.fetch_or(SUSPENDED, Ordering::Relaxed);
    }

    pub(super) fn resume(&self) -> DdsResult<()> {
        let mut state = self.lock();
        let Some(left) = state.suspended.checked_sub(1) else {
            return Err(DdsError::PreconditionNotMet(
                "this publisher is not suspended: call suspend_publications before \
                 resume_publications"
                    .to_owned(),
            ));
        };
        state.suspended = left;
        if left > 0 {
            return Ok(());
        }
        self.mode.fetch_and(!SUSPENDED, Ordering::Relaxed);
        let quiet = std::mem::take(&mut state.unwoken);
        drop(state);
        quiet.iter().filter_map(|(_, writer)| writer.upgrade()).for_each(|writer| writer.wake());
        Ok(())
    }

    /// Notes that the writer's readers are woken when the publisher is resumed. Returns `false` if
    /// they must be woken now.
    pub(super) fn wakes_later(
        &self,
        id: u64,
        writer: impl FnOnce() -> Weak<dyn HeldBackWriter>,
    ) -> bool {
        // The lock is taken while this or another thread publishes a set. Then readers are woken at
        // once, because a suspension is only a hint.
        let Ok(mut state) = self.state.try_lock() else { return false };
        let is_suspended = state.suspended > 0;
        if is_suspended && state.unwoken.iter().all(|(known, _)| *known != id) {
            state.unwoken.push((id, writer()));
        }
        is_suspended
    }
}

impl ChangesState {
    fn check_open(&self) -> DdsResult<()> {
        if self.depth > 0 {
            return Ok(());
        }
        Err(DdsError::PreconditionNotMet(
            "this publisher has no coherent set open: call begin_coherent_changes first".to_owned(),
        ))
    }
}

#[cfg(test)]
mod tests;
