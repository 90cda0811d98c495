//! What a publisher holds back: coherent sets, and the news of what its writers write while it is suspended.
//!
//! ```text
//!   begin ── write, dispose, ... ──> gathered, for each writer ── the outermost end ──> one record of each writer
//! ```
//! If the publisher's writers are one, for its PRESENTATION has the access scope of a group, one record holds what all of them
//! have written.
//!
//! So nothing of a set has left its process before it ends, and what leaves then does so as one (I-190).
//!
//! Owns: what was written in the set that is open. Never does: write; the writers do.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use qos_profiles::PresentationQosPolicy;

use crate::infrastructure::{DdsError, DdsResult, Timeout};
use crate::mapping::set::Gathered;
use crate::subscription::{check_order, is_one};

/// A coherent set is open, and its samples are held back.
const IN_SET: u32 = 1;
/// Nobody is woken for what is written.
const SUSPENDED: u32 = 2;

/// Whose samples were gathered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Authors {
    /// The writer's that writes them.
    One,
    /// Those of several: each sample says whose it is.
    Several,
}

/// What a sample of a set has changed of its writer beside being written, which is taken back if the set is discarded.
pub(super) enum Effect {
    /// It is the first of an instance that counts among those of max_instances since.
    Entered(u128),
    /// It says that its writer has no more to say of an instance: which was registered with this key, if it was, and counted,
    /// if it did.
    Left { key: u128, registered: Option<Box<[u8]>>, counted: bool },
}

/// A writer, as its publisher needs it.
pub(super) trait HeldBack: Send + Sync {
    /// Writes what was gathered as one record; waits for room as long as this says, or as the writer's policies do.
    fn publish(
        self: Arc<Self>,
        gathered: &Gathered,
        authors: Authors,
        blocking: Option<Timeout>,
    ) -> DdsResult<()>;
    /// Whether there is room for that now.
    fn has_room_for_set(&self, gathered: &Gathered) -> bool;
    /// Wakes those who wait for what it has written.
    fn wake(&self);
    /// A sample with this effect was discarded.
    fn take_back(self: Arc<Self>, effect: Effect);
}

/// A writer that has written in the set that is open.
struct Author {
    id: u64,
    writer: Weak<dyn HeldBack>,
    /// What its samples have changed, in their order.
    effects: Vec<Effect>,
}

/// What was written of an open set by one writer, or by all of them.
struct Part {
    writers: Vec<Author>,
    gathered: Gathered,
}

impl Part {
    /// Who writes it: of several one that is there.
    fn writer(&self) -> Option<Arc<dyn HeldBack>> {
        self.writers.iter().find_map(|author| author.writer.upgrade())
    }

    fn authors(&self) -> Authors {
        if self.writers.len() > 1 { Authors::Several } else { Authors::One }
    }
}

/// A writer's topic, and the stream by which its samples go, if they have an order.
struct Course {
    writer: usize,
    key: u64,
    topic: Arc<str>,
}

#[derive(Default)]
struct State {
    /// How many sets are open, one within the other.
    depth: u32,
    parts: Vec<Part>,
    /// Where its writers write.
    courses: Vec<Course>,
    /// How often it was suspended and not resumed.
    suspended: u32,
    /// Writers for whose samples nobody was woken.
    quiet: Vec<(u64, Weak<dyn HeldBack>)>,
}

/// See the [module](self).
#[derive(Default)]
pub(crate) struct Changes {
    /// PRESENTATION.coherent_access. Without it a set is not kept together.
    is_coherent: AtomicBool,
    /// A set is one, whoever has written it.
    is_group: AtomicBool,
    mode: AtomicU32,
    state: Mutex<State>,
}

impl Changes {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it keeps sets together.
    pub(super) fn is_coherent(&self) -> bool {
        self.is_coherent.load(Ordering::Relaxed)
    }

    /// PRESENTATION is this when the first of its writers begins; before that it may change.
    pub(super) fn agree(&self, presentation: &PresentationQosPolicy) {
        self.is_coherent.store(presentation.coherent_access, Ordering::Relaxed);
        self.is_group.store(is_one(presentation), Ordering::Relaxed);
    }

    /// A writer begins, whose samples go by the stream of this key, if they have an order.
    ///
    /// # Errors
    /// If it cannot be one with those that are there.
    pub(super) fn join(&self, writer: usize, key: Option<u64>, topic: &str) -> DdsResult<()> {
        let mut state = self.lock();
        if self.is_group.load(Ordering::Relaxed) {
            let others = state.courses.iter().map(|course| (course.key, &*course.topic));
            check_order("publisher", (key, topic), others)?;
        }
        state.courses.push(Course { writer, key: key.unwrap_or(0), topic: topic.into() });
        Ok(())
    }

    /// A writer is no more.
    pub(super) fn leave(&self, writer: usize) {
        self.lock().courses.retain(|course| course.writer != writer);
    }

    /// Whether what is written now may have to be held back.
    #[inline(always)]
    pub(super) fn is_in_set(&self) -> bool {
        self.mode.load(Ordering::Relaxed) & IN_SET != 0
    }

    /// Whether nobody may have to be woken now.
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

    /// Ends the innermost set. The outermost one is written; if that fails it is still open, and what is not written
    /// yet is still in it.
    pub(super) fn end(&self, blocking: Option<Timeout>) -> DdsResult<()> {
        // Let go of without the lock: a writer of which nobody else is left by then says so here.
        let mut busy = Vec::new();
        let mut state = self.lock();
        state.check_open()?;
        if state.depth == 1 {
            while let Some(part) = state.parts.first() {
                // Who is gone takes its samples with it, unless others go on with them.
                if part.gathered.samples() > 0
                    && let Some(writer) = part.writer()
                {
                    busy.push(Arc::clone(&writer));
                    writer.publish(&part.gathered, part.authors(), blocking)?;
                }
                state.parts.remove(0);
            }
            self.mode.fetch_and(!IN_SET, Ordering::Relaxed);
        }
        state.depth -= 1;
        Ok(())
    }

    /// Forgets all that was written in the set that is open, and closes it, whatever it is within.
    pub(super) fn discard(&self) -> DdsResult<usize> {
        let mut state = self.lock();
        state.check_open()?;
        let parts = std::mem::take(&mut state.parts);
        state.depth = 0;
        self.mode.fetch_and(!IN_SET, Ordering::Relaxed);
        drop(state);
        let samples = parts.iter().map(|part| part.gathered.samples()).sum();
        for author in parts.into_iter().flat_map(|part| part.writers) {
            let Some(writer) = author.writer.upgrade() else { continue };
            let effects = author.effects.into_iter().rev();
            effects.for_each(|effect| Arc::clone(&writer).take_back(effect));
        }
        Ok(samples)
    }

    /// Whether there is room for what is to be written next.
    pub(super) fn has_room(&self) -> bool {
        // Let go of without the lock.
        let writer;
        let Ok(state) = self.state.try_lock() else { return false };
        let Some(part) = state.parts.first() else { return true };
        writer = part.writer();
        writer.as_ref().is_none_or(|writer| writer.has_room_for_set(&part.gathered))
    }

    /// What a writer has written in the set that is open; `None` if there is none any more.
    pub(super) fn gather<R>(
        &self,
        id: u64,
        writer: impl FnOnce() -> Weak<dyn HeldBack>,
        add: impl FnOnce(&mut Gathered, &mut Vec<Effect>) -> R,
    ) -> Option<R> {
        let mut state = self.lock();
        if state.depth == 0 {
            return None;
        }
        let is_group = self.is_group.load(Ordering::Relaxed);
        let is_its = |part: &Part| is_group || part.writers.iter().any(|author| author.id == id);
        let known = state.parts.iter().position(is_its);
        let at = known.unwrap_or_else(|| {
            state.parts.push(Part { writers: Vec::new(), gathered: Gathered::default() });
            state.parts.len() - 1
        });
        let part = &mut state.parts[at];
        let known = part.writers.iter().position(|author| author.id == id);
        let author = known.unwrap_or_else(|| {
            part.writers.push(Author { id, writer: writer(), effects: Vec::new() });
            part.writers.len() - 1
        });
        Some(add(&mut part.gathered, &mut part.writers[author].effects))
    }

    pub(super) fn suspend(&self) {
        self.lock().suspended += 1;
        self.mode.fetch_or(SUSPENDED, Ordering::Relaxed);
    }

    pub(super) fn resume(&self) -> DdsResult<()> {
        let mut state = self.lock();
        let Some(left) = state.suspended.checked_sub(1) else {
            return Err(DdsError::PreconditionNotMet(
                "this publisher is not suspended: suspend_publications comes before resume_publications"
                    .to_owned(),
            ));
        };
        state.suspended = left;
        if left > 0 {
            return Ok(());
        }
        self.mode.fetch_and(!SUSPENDED, Ordering::Relaxed);
        let quiet = std::mem::take(&mut state.quiet);
        drop(state);
        quiet.iter().filter_map(|(_, writer)| writer.upgrade()).for_each(|writer| writer.wake());
        Ok(())
    }

    /// Somebody is to be woken for what this writer has written when the publisher is resumed; `false` if that is now.
    pub(super) fn wakes_later(&self, id: u64, writer: impl FnOnce() -> Weak<dyn HeldBack>) -> bool {
        // Taken while a set is published, by this thread or another one: then readers are woken at once, for a
        // suspension is a hint.
        let Ok(mut state) = self.state.try_lock() else { return false };
        let is_suspended = state.suspended > 0;
        if is_suspended && state.quiet.iter().all(|(known, _)| *known != id) {
            state.quiet.push((id, writer()));
        }
        is_suspended
    }
}

impl State {
    fn check_open(&self) -> DdsResult<()> {
        if self.depth > 0 {
            return Ok(());
        }
        Err(DdsError::PreconditionNotMet(
            "this publisher has no coherent set open: begin_coherent_changes comes first"
                .to_owned(),
        ))
    }
}

#[cfg(test)]
mod tests;
