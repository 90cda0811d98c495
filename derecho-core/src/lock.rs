//! A lock biased to one thread: that thread takes it without a read-modify-write until another
//! thread wants it.
//!
//! ```text
//!   owner of the bias      enters ── has the value ── leaves
//!   any other thread, once revokes the bias, waits while the owner is inside
//!   all threads after that take the lock of the platform
//! ```
//! Owns: which thread has the value. Never does: wait itself for a thread that has the value; the
//! lock passed to it does that.

use alloc::sync::Arc;
use core::cell::UnsafeCell;
use core::fmt;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};

use crate::link::Barrier;
use crate::multicast::bias::{Bias, ThreadToken};

/// Lock of the platform, which excludes any number of threads from one another.
pub trait PlatformLock: Send + Sync {
    /// Guard of the lock.
    type Guard<'a>
    where
        Self: 'a;

    /// Waits until no other thread has the lock, and takes it.
    fn lock(&self) -> Self::Guard<'_>;
}

/// Biased lock; see the [module](self).
pub struct BiasedLock<T, M> {
    bias: Bias,
    others: M,
    value: UnsafeCell<T>,
}

// SAFETY: one thread at a time reaches the value (I-204), possibly a different one each time.
unsafe impl<T: Send, M: Sync> Sync for BiasedLock<T, M> {}

impl<T, M: PlatformLock> BiasedLock<T, M> {
    /// Creates a lock that no thread has taken. Without a barrier, the lock is as fast as `others`.
    pub fn new(value: T, barrier: Option<Arc<dyn Barrier>>, others: M) -> BiasedLock<T, M> {
        BiasedLock { bias: Bias::new(barrier), others, value: UnsafeCell::new(value) }
    }

    /// Takes the value on this thread, as soon as no other thread has it.
    ///
    /// # Panics
    /// If this thread has the value already; it may also wait for ever instead, as `others` does.
    ///
    /// # Safety
    /// `me` must be this thread, and no other thread may pass the same `me` to this lock.
    #[inline(always)]
    pub unsafe fn lock(&self, me: ThreadToken) -> BiasedLockGuard<'_, T, M> {
        let held = if self.bias.enter_once(me) { None } else { Some(self.others.lock()) };
        BiasedLockGuard { lock: self, held, here: PhantomData }
    }

    /// Passes the bias on: the next thread that takes the lock becomes its owner, if the owner was
    /// `me` until now. The thread that creates the value is seldom the one that uses it.
    pub fn hand_over(&self, me: ThreadToken) {
        self.bias.hand_over(me);
    }
}

impl<T, M> fmt::Debug for BiasedLock<T, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BiasedLock").field("bias", &self.bias).finish_non_exhaustive()
    }
}

/// Access to the value until this guard is dropped.
pub struct BiasedLockGuard<'a, T, M: PlatformLock> {
    lock: &'a BiasedLock<T, M>,
    /// Guard of `others`; `None` for the owner of the bias.
    held: Option<M::Guard<'a>>,
    /// Not `Send`: the thread that enters must be the one that leaves.
    here: PhantomData<*const ()>,
}

impl<T, M: PlatformLock> Deref for BiasedLockGuard<'_, T, M> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: only this thread has the value (I-204). Either it is inside as the owner of the
        // bias, or the bias is revoked and it holds the lock `others`.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T, M: PlatformLock> DerefMut for BiasedLockGuard<'_, T, M> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and there is only one guard at a time.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T, M: PlatformLock> Drop for BiasedLockGuard<'_, T, M> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.held.is_none() {
            self.lock.bias.leave();
        }
    }
}

impl<T: fmt::Debug, M: PlatformLock> fmt::Debug for BiasedLockGuard<'_, T, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}
