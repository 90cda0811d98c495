//! Taking from a reader's queue.
//!
//! Owns: the side of the queue that one thread at a time uses. Never does: put anything in, or decide who takes.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::Cell;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ops::Deref;

use super::{Inbox, Part, Record, Source};
use crate::atomic::Ordering;

impl Inbox {
    /// The queue for the one who takes, without a check in each call that it is the only one.
    ///
    /// # Safety
    /// As long as the result lives nobody else takes from this queue or asks what waits in it, through whichever handle.
    #[inline(always)]
    pub unsafe fn alone(&self) -> Taking<'_> {
        Taking { queue: self, _alone: PhantomData }
    }

    /// The queue for the time of one call.
    #[inline]
    pub(super) fn guard(&self) -> Guard<'_> {
        let is_taken = self.taking.swap(true, Ordering::Acquire);
        assert!(!is_taken, "one thread at a time takes from a queue");
        Guard(Taking { queue: self, _alone: PhantomData })
    }

    /// Takes the oldest record out.
    ///
    /// # Panics
    /// As all that asks what waits: if another thread does the same at this time.
    #[inline]
    pub fn take(&self) -> Option<Record> {
        self.guard().take()
    }

    /// Records that wait to be taken.
    pub fn len(&self) -> usize {
        self.guard().len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.guard().is_empty()
    }

    /// The place of what is taken next (I-212).
    pub fn place(&self) -> u64 {
        self.guard().place()
    }

    /// The senders whose records are taken: [`Taking::senders`].
    pub fn senders(&self) -> impl Iterator<Item = usize> + use<> {
        self.guard().senders().collect::<Vec<usize>>().into_iter()
    }
}

/// A queue, for the one who takes from it.
pub struct Taking<'a> {
    queue: &'a Inbox,
    /// Two threads may not share it.
    _alone: PhantomData<Cell<()>>,
}

impl Taking<'_> {
    /// The place of what is taken next (I-212).
    pub fn place(&self) -> u64 {
        let before = self.queue.began.wrapping_add(self.queue.taken_before.load(Ordering::Relaxed));
        before.wrapping_add(self.front().taken.0.load(Ordering::Relaxed))
    }

    /// The part that is taken from.
    #[inline]
    fn front(&self) -> &Part {
        // SAFETY: the first part is freed only in `leave_first`, by whoever takes, which does not use this reference after that.
        // Whoever has made this `Taking` has promised that nobody else takes, or asks what waits.
        unsafe { &*self.queue.front.load(Ordering::Relaxed) }
    }

    /// Records that wait to be taken.
    #[inline]
    pub fn len(&self) -> usize {
        let (mut part, mut len) = (self.front(), 0);
        loop {
            // First: what was put in before there was a next part is found in this one.
            let next = part.next.load(Ordering::Acquire);
            len += part.len();
            // SAFETY: what is behind the first part is freed only after it, by whoever takes.
            match unsafe { next.as_ref() } {
                Some(next) => part = next,
                None => return len,
            }
        }
    }

    /// Whether none waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether readers of this node refer to half of the chunks of a sender, or more, of those whose records are taken
    /// next.
    pub fn holds_up(&self) -> bool {
        let half = |source: &Arc<Source>| {
            let in_use = |chunk: &usize| !source.is_released(*chunk);
            (0..source.references.len()).filter(in_use).count() * 2 >= source.references.len()
        };
        self.front().sources.iter().any(half)
    }

    /// The senders whose records are taken, by the numbers that records call them by. When they have become
    /// others, all that the senders before have sent was taken, and nothing of those that came (I-38).
    pub fn senders(&self) -> impl Iterator<Item = usize> + '_ {
        self.front().sources.iter().map(|source| usize::from(source.number))
    }

    /// Takes the oldest record out.
    #[inline(always)]
    pub fn take(&self) -> Option<Record> {
        // In one place, and by no call: what comes from a call lies in memory, and its caller waits for it.
        loop {
            let part = self.front();
            let record = part.take();
            if record.is_some() || part.next.load(Ordering::Acquire).is_null() {
                return record;
            }
            self.leave_first();
        }
    }

    /// Whether this is so of the bytes that are taken next, of those of the senders whose records are taken.
    #[inline]
    pub fn next_is(&self, holds: impl FnOnce(&[u8]) -> bool) -> bool {
        // The reference stays the queue's.
        let front = self.front();
        let next = front.next(front.taken.0.load(Ordering::Relaxed)).map(ManuallyDrop::new);
        next.is_some_and(|record| holds(record.bytes()))
    }

    /// The first part has had no more, and has a next one: goes on to that.
    #[cold]
    fn leave_first(&self) {
        let first = self.queue.front.load(Ordering::Relaxed);
        let part = self.front();
        let next = part.next.load(Ordering::Acquire);
        // What was put in before there was a next part is seen now: after it there is no more.
        if part.len() > 0 || next.is_null() {
            return;
        }
        let taken = self.queue.taken_before.load(Ordering::Relaxed);
        let taken = taken.wrapping_add(part.taken.0.load(Ordering::Relaxed));
        self.queue.taken_before.store(taken, Ordering::Relaxed);
        self.queue.front.store(next, Ordering::Relaxed);
        let passed = self.queue.passed().wrapping_add(u64::from(!self.front().goes_on));
        self.queue.passed.store(passed, Ordering::Relaxed);
        // SAFETY: it came from a box. The turn looks at it no more, for it has a next one, and
        // whoever takes is here and goes on.
        drop(unsafe { Box::from_raw(first) });
    }
}

/// The right to take from a queue, for the time of one call.
pub(super) struct Guard<'a>(Taking<'a>);

impl<'a> Deref for Guard<'a> {
    type Target = Taking<'a>;
    fn deref(&self) -> &Taking<'a> {
        &self.0
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.0.queue.taking.store(false, Ordering::Release);
    }
}
