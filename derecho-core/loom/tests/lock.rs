//! BiasedLock that is free of cost for its only thread, against other threads that want it.
//!
//! The guarded value is a cell of loom's, which detects two threads that access it at once, and a
//! thread that has not synchronised with the other's writes.
#![cfg(loom)]

use derecho_core::link::Barrier;
use derecho_core::lock::{BiasedLock, PlatformLock};
use derecho_core::multicast::bias::ThreadToken;
use derecho_loom::{FenceBarrier, NoBarrier, explore};
use loom::cell::UnsafeCell;
use loom::sync::{Arc, Mutex, MutexGuard};
use loom::thread;

struct Others(Mutex<()>);

impl PlatformLock for Others {
    type Guard<'a> = MutexGuard<'a, ()>;

    fn lock(&self) -> MutexGuard<'_, ()> {
        self.0.lock().unwrap()
    }
}

type Counted = BiasedLock<UnsafeCell<u32>, Others>;

type Issued = Option<std::sync::Arc<dyn Barrier>>;

fn lock(barrier: Issued) -> Arc<Counted> {
    Arc::new(BiasedLock::new(UnsafeCell::new(0), barrier, Others(Mutex::new(()))))
}

fn count(lock: &Counted, number: u32, times: u32) {
    for _ in 0..times {
        // SAFETY: each thread of these models has a number of its own.
        unsafe { lock.lock(ThreadToken::new(number)) }.with_mut(|count| {
            // SAFETY: loom panics if another thread accesses the cell.
            unsafe { *count += 1 }
        });
    }
}

/// Returns the count that a thread finds when all others have ended.
fn total(lock: &Counted) -> u32 {
    // SAFETY: as in `count`; and the others have ended.
    let guard = unsafe { lock.lock(ThreadToken::ANY) };
    // SAFETY: loom panics if another thread accesses the cell.
    guard.with(|count| unsafe { *count })
}

fn two_threads(barrier: fn() -> Issued) {
    explore(3, move || {
        let lock = lock(barrier());
        let other = Arc::clone(&lock);
        let owner = thread::spawn(move || count(&other, 1, 2));
        count(&lock, 2, 2);
        owner.join().unwrap();
        assert_eq!(total(&lock), 4);
    });
}

#[test]
fn one_thread_holds_lock_and_sees_writes_of_previous_holder() {
    two_threads(|| Some(std::sync::Arc::new(FenceBarrier)));
}

#[test]
fn lock_without_system_barrier_falls_back_to_mutex() {
    two_threads(|| None);
}

/// The creating thread uses the lock and hands it over, while another thread has begun to use it.
#[test]
fn thread_loses_bias_of_lock_after_hand_over() {
    explore(3, || {
        let lock = lock(Some(std::sync::Arc::new(FenceBarrier)));
        let other = Arc::clone(&lock);
        let second = thread::spawn(move || count(&other, 1, 2));
        count(&lock, 2, 1);
        lock.hand_over(ThreadToken::new(2));
        count(&lock, 2, 1);
        second.join().unwrap();
        assert_eq!(total(&lock), 4);
    });
}

/// Proof that the model can fail: with a barrier that has no effect, two threads have the lock.
#[test]
#[should_panic]
fn two_threads_hold_lock_if_barrier_has_no_effect() {
    two_threads(|| Some(std::sync::Arc::new(NoBarrier)));
}
