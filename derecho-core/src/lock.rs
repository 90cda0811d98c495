//! A lock that costs the one thread that takes it no read-modify-write, until another thread wants it.
//!
//! ```text
//!   owner of the bias      enters ── has the value ── leaves
//!   anybody else, once     takes the bias away, waits while the owner is inside
//!   everybody from then on the lock of the platform
//! ```
//! Owns: who has the value. Never does: wait by itself for a thread that has it; the lock that it is given does.

use alloc::sync::Arc;
use core::cell::UnsafeCell;
use core::fmt;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};

use crate::link::Barrier;
use crate::multicast::bias::{Bias, Thread};

/// A lock that any number of threads take, and one has at a time: the platform's.
pub trait Mutual: Send + Sync {
    /// What is kept as long as it is had.
    type Held<'a>
    where
        Self: 'a;

    /// Waits until nobody has it, and has it.
    fn lock(&self) -> Self::Held<'_>;
}

/// See the [module](self).
pub struct Lock<T, M> {
    bias: Bias,
    others: M,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached by one thread at a time (I-204), which may be another one each time.
unsafe impl<T: Send, M: Sync> Sync for Lock<T, M> {}

impl<T, M: Mutual> Lock<T, M> {
    /// A lock that no thread has had. Without a barrier it is as quick as that of the others.
    pub fn new(value: T, barrier: Option<Arc<dyn Barrier>>, others: M) -> Lock<T, M> {
        Lock { bias: Bias::new(barrier), others, value: UnsafeCell::new(value) }
    }

    /// Has the value, on this thread, as soon as nobody else does.
    ///
    /// # Panics
    /// If this thread has it already, or waits for ever, as that of the others does.
    ///
    /// # Safety
    /// `me` is this thread, and no other one is called so here.
    #[inline(always)]
    pub unsafe fn lock(&self, me: Thread) -> Guard<'_, T, M> {
        let held = if self.bias.enter_once(me) { None } else { Some(self.others.lock()) };
        Guard { lock: self, held, here: PhantomData }
    }

    /// The next thread that takes it has it for nothing, if until now it was this one: the one that made the value is seldom the
    /// one that uses it.
    pub fn hand_over(&self, me: Thread) {
        self.bias.hand_over(me);
    }
}

impl<T, M> fmt::Debug for Lock<T, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lock").field("bias", &self.bias).finish_non_exhaustive()
    }
}

/// The value, until this is dropped.
pub struct Guard<'a, T, M: Mutual> {
    lock: &'a Lock<T, M>,
    /// None of the owner of the bias.
    held: Option<M::Held<'a>>,
    /// The thread that enters is the one that leaves.
    here: PhantomData<*const ()>,
}

impl<T, M: Mutual> Deref for Guard<'_, T, M> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: this thread alone has the value (I-204): it is inside, as the only one that enters, or nobody enters any more and
        // it has the lock of the others.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T, M: Mutual> DerefMut for Guard<'_, T, M> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above; and there is one guard at a time.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T, M: Mutual> Drop for Guard<'_, T, M> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.held.is_none() {
            self.lock.bias.leave();
        }
    }
}

impl<T: fmt::Debug, M: Mutual> fmt::Debug for Guard<'_, T, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}
