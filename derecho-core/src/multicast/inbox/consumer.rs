//! Taking records from a reader's queue.
//!
//! Owns: the side of the queue that one thread at a time uses. Never does: put anything in, or
//! decide which thread takes.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::Cell;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ops::Deref;

use super::{Inbox, InboxSection, Record, SenderReplica};
use crate::atomic::Ordering;

impl Inbox {
    /// Gives access to the taking side without a check in each call that the caller is
    /// the only one.
    ///
    /// # Safety
    /// While the result lives, no other code takes from this queue or queries it,
    /// through any handle.
    #[inline(always)]
    pub unsafe fn consumer_unchecked(&self) -> InboxConsumer<'_> {
        InboxConsumer { queue: self, _alone: PhantomData }
    }

    /// Gives access to the taking side while the result lives.
    ///
    /// # Panics
    /// If another thread has access at the same time.
    #[inline]
    pub(crate) fn guard(&self) -> ConsumerGuard<'_> {
        let is_taken = self.taking.swap(true, Ordering::Acquire);
        assert!(!is_taken, "one thread at a time takes from a queue");
        ConsumerGuard(InboxConsumer { queue: self, _alone: PhantomData })
    }

    /// Takes the oldest record.
    ///
    /// # Panics
    /// If another thread takes from or queries the queue at the same time. The same holds
    /// for all queries.
    #[inline]
    pub fn take(&self) -> Option<Record> {
        self.guard().take()
    }

    /// Number of records that wait to be taken.
    pub fn len(&self) -> usize {
        self.guard().len()
    }

    /// Whether no record waits.
    pub fn is_empty(&self) -> bool {
        self.guard().is_empty()
    }

    /// Place of the next record to be taken (I-212).
    pub fn place(&self) -> u64 {
        self.guard().place()
    }

    /// Senders whose records are taken: [`InboxConsumer::senders`].
    pub fn senders(&self) -> impl Iterator<Item = usize> + use<> {
        self.guard().senders().collect::<Vec<usize>>().into_iter()
    }
}

/// Taking side of a queue.
pub struct InboxConsumer<'a> {
    queue: &'a Inbox,
    /// Prevents sharing between threads.
    _alone: PhantomData<Cell<()>>,
}

impl InboxConsumer<'_> {
    /// Place of the next record to be taken (I-212).
    pub fn place(&self) -> u64 {
        let before = self.queue.began.wrapping_add(self.queue.taken_before.load(Ordering::Relaxed));
        before.wrapping_add(self.front().taken.0.load(Ordering::Relaxed))
    }

    /// Section from which records are taken.
    #[inline]
    fn front(&self) -> &InboxSection {
        // SAFETY: only the taking thread frees the first section, in `leave_first`, and does not
        // use this reference after that. The creator of this `InboxConsumer` has promised that no
        // other code takes records or queries the queue.
        unsafe { &*self.queue.front.load(Ordering::Relaxed) }
    }

    /// Number of records that wait to be taken.
    #[inline]
    pub fn len(&self) -> usize {
        let (mut section, mut len) = (self.front(), 0);
        loop {
            // Loaded first: everything that was put in before there was a next section is found in
            // this one.
            let next = section.next.load(Ordering::Acquire);
            len += section.len();
            // SAFETY: sections behind the first are freed only after it, by the taking thread.
            match unsafe { next.as_ref() } {
                Some(next) => section = next,
                None => return len,
            }
        }
    }

    /// Whether no record waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether readers of this node refer to at least half of the chunks of one of the senders
    /// whose records are taken next.
    pub fn holds_up(&self) -> bool {
        let half = |replica: &Arc<SenderReplica>| {
            let in_use = |chunk: &usize| !replica.is_released(*chunk);
            (0..replica.references.len()).filter(in_use).count() * 2 >= replica.references.len()
        };
        self.front().replicas.iter().any(half)
    }

    /// Senders whose records are taken, by their numbers in the records. When the senders change,
    /// all records of the former senders were taken, and none of the new ones (I-38).
    pub fn senders(&self) -> impl Iterator<Item = usize> + '_ {
        self.front().replicas.iter().map(|replica| usize::from(replica.number))
    }

    /// Takes the oldest record.
    #[inline(always)]
    pub fn take(&self) -> Option<Record> {
        // Inlined here instead of a call: the result of a call lies in memory, and its caller
        // waits for it.
        loop {
            let section = self.front();
            let record = section.take();
            if record.is_some() || section.next.load(Ordering::Acquire).is_null() {
                return record;
            }
            self.leave_first();
        }
    }

    /// Whether `holds` is true for the bytes of the next record, if the current senders have one.
    #[inline]
    pub fn next_is(&self, holds: impl FnOnce(&[u8]) -> bool) -> bool {
        // The reference remains the queue's.
        let front = self.front();
        let next = front.next(front.taken.0.load(Ordering::Relaxed)).map(ManuallyDrop::new);
        next.is_some_and(|record| holds(record.bytes()))
    }

    /// Moves to the next section if the first one is empty and has a next one.
    #[cold]
    fn leave_first(&self) {
        let first = self.queue.front.load(Ordering::Relaxed);
        let section = self.front();
        let next = section.next.load(Ordering::Acquire);
        // Records put in before there was a next section are visible now, and none follow.
        if section.len() > 0 || next.is_null() {
            return;
        }
        let taken = self.queue.taken_before.load(Ordering::Relaxed);
        let taken = taken.wrapping_add(section.taken.0.load(Ordering::Relaxed));
        self.queue.taken_before.store(taken, Ordering::Relaxed);
        self.queue.front.store(next, Ordering::Relaxed);
        let passed = self.queue.passed().wrapping_add(u64::from(!self.front().goes_on));
        self.queue.passed.store(passed, Ordering::Relaxed);
        // SAFETY: the section came from a box. The turn no longer looks at it, because it has a
        // next one, and the taking thread is here and moves on.
        drop(unsafe { Box::from_raw(first) });
    }
}

/// Right to take from a queue.
pub(crate) struct ConsumerGuard<'a>(InboxConsumer<'a>);

impl<'a> Deref for ConsumerGuard<'a> {
    type Target = InboxConsumer<'a>;
    fn deref(&self) -> &InboxConsumer<'a> {
        &self.0
    }
}

impl Drop for ConsumerGuard<'_> {
    fn drop(&mut self) {
        self.0.queue.taking.store(false, Ordering::Release);
    }
}
