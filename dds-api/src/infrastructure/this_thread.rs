//! Number of the current thread, and locks that cost a thread nothing while no other thread
//! takes them.
//!
//! Owns: the numbers of threads. Never does: assign a number twice.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use derecho_core::link::Barrier;
use derecho_core::lock::{BiasedLock, BiasedLockGuard, PlatformLock};
use derecho_core::multicast::bias::ThreadToken;

/// Returns the current thread, under a number that no other thread has or had.
#[inline]
pub(crate) fn this_thread() -> ThreadToken {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    thread_local! {
        static NUMBER: Cell<Option<u32>> = const { Cell::new(None) };
    }
    NUMBER.with(|number| match number.get() {
        Some(number) => ThreadToken::new(number),
        None => {
            // After four thousand million threads, every new thread counts as an unknown one.
            let fresh =
                NEXT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_add(1));
            fresh.map_or(ThreadToken::ANY, |fresh| {
                number.set(Some(fresh));
                ThreadToken::new(fresh)
            })
        }
    })
}

/// The platform's lock. Poisoning is ignored: a panic of the holder leaves the value as valid
/// as before.
#[derive(Default)]
pub(crate) struct PlatformMutex(Mutex<()>);

impl PlatformLock for PlatformMutex {
    type Guard<'a> = MutexGuard<'a, ()>;

    fn lock(&self) -> MutexGuard<'_, ()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A lock that costs two plain stores while only one thread takes it.
pub(crate) struct ThreadLock<T>(BiasedLock<T, PlatformMutex>);

/// Access to the locked value, until the guard is dropped.
pub(crate) type ThreadGuard<'a, T> = BiasedLockGuard<'a, T, PlatformMutex>;

impl<T> ThreadLock<T> {
    /// See [`BiasedLock::new`].
    pub(crate) fn new(value: T, barrier: Option<Arc<dyn Barrier>>) -> ThreadLock<T> {
        ThreadLock(BiasedLock::new(value, barrier, PlatformMutex::default()))
    }

    /// See [`BiasedLock::lock`].
    #[inline(always)]
    pub(crate) fn lock(&self) -> ThreadGuard<'_, T> {
        // SAFETY: no other thread has the number of this thread.
        unsafe { self.0.lock(this_thread()) }
    }

    /// See [`BiasedLock::hand_over`].
    pub(crate) fn hand_over(&self) {
        self.0.hand_over(this_thread());
    }
}
