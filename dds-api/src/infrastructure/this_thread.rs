//! What this thread is called, and locks that cost it nothing as long as no other thread takes them.
//!
//! Owns: the numbers of threads. Never does: give one twice.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use derecho_core::link::Barrier;
use derecho_core::lock::{Guard, Lock, Mutual};
use derecho_core::multicast::bias::Thread;

/// This thread, under a number that no other one has or had.
#[inline]
pub(crate) fn this_thread() -> Thread {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    thread_local! {
        static NUMBER: Cell<Option<u32>> = const { Cell::new(None) };
    }
    NUMBER.with(|number| match number.get() {
        Some(number) => Thread::new(number),
        None => {
            // Four thousand million threads later all are taken for others.
            let fresh =
                NEXT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_add(1));
            fresh.map_or(Thread::ANY, |fresh| {
                number.set(Some(fresh));
                Thread::new(fresh)
            })
        }
    })
}

/// The platform's lock. What a thread leaves that panics is as good as what it found.
#[derive(Default)]
pub(crate) struct Platform(Mutex<()>);

impl Mutual for Platform {
    type Held<'a> = MutexGuard<'a, ()>;

    fn lock(&self) -> MutexGuard<'_, ()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A lock that its only thread has for two plain stores.
pub(crate) struct ThreadLock<T>(Lock<T, Platform>);

/// What it guards, until this is dropped.
pub(crate) type ThreadGuard<'a, T> = Guard<'a, T, Platform>;

impl<T> ThreadLock<T> {
    /// See [`Lock::new`].
    pub(crate) fn new(value: T, barrier: Option<Arc<dyn Barrier>>) -> ThreadLock<T> {
        ThreadLock(Lock::new(value, barrier, Platform::default()))
    }

    /// See [`Lock::lock`].
    #[inline(always)]
    pub(crate) fn lock(&self) -> ThreadGuard<'_, T> {
        // SAFETY: what a thread is called no other one is called.
        unsafe { self.0.lock(this_thread()) }
    }

    /// See [`Lock::hand_over`].
    pub(crate) fn hand_over(&self) {
        self.0.hand_over(this_thread());
    }
}
