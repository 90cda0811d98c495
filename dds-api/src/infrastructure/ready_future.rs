//! Waiting without a thread: a future that completes on any runtime when its condition holds.
//!
//! Owns: which task is woken. Never does: drive the engine; the participant's own thread does, or a
//! thread that waits elsewhere.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use derecho_core::ids::Time;
use derecho_node::TurnListener;

use super::condition::WaitDriver;

/// Future that completes when `ready` reports it. `ready` is called once at first, and again after
/// every event.
pub(crate) struct ReadyFuture<'a, F> {
    driver: &'a dyn WaitDriver,
    ready: F,
    waker: Option<Arc<WakerSlot>>,
}

/// Result of a check.
pub(crate) enum Readiness {
    /// The awaited event has happened.
    Ready,
    /// The event has not happened; a later turn will announce it.
    NotYet,
    /// The event has not happened, and may happen at this time without another event.
    NotBefore(Time),
}

impl From<bool> for Readiness {
    fn from(is_ready: bool) -> Readiness {
        if is_ready { Readiness::Ready } else { Readiness::NotYet }
    }
}

/// Waker of the task to wake after an event.
#[derive(Default)]
pub(crate) struct WakerSlot(Mutex<Option<Waker>>);

impl WakerSlot {
    /// Registers this waker for the next event. The caller must check for earlier events
    /// afterwards.
    pub(crate) fn register(
        slot: &mut Option<Arc<WakerSlot>>,
        driver: &dyn WaitDriver,
        waker: &Waker,
    ) {
        let slot = slot.get_or_insert_with(|| {
            let slot = Arc::new(WakerSlot::default());
            let listener: Arc<dyn TurnListener> = Arc::clone(&slot) as _;
            driver.tell(&listener);
            slot
        });
        let mut held_waker = slot.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *held_waker {
            Some(known) => known.clone_from(waker),
            None => *held_waker = Some(waker.clone()),
        }
        drop(held_waker);
        driver.look();
    }
}

impl TurnListener for WakerSlot {
    fn on_turn(&self) {
        let waker = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        // Without the lock: the waker may run any code of the runtime.
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<'a, F: FnMut() -> Readiness + Unpin> ReadyFuture<'a, F> {
    pub(crate) fn new(driver: &'a dyn WaitDriver, ready: F) -> Self {
        ReadyFuture { driver, ready, waker: None }
    }
}

impl<F: FnMut() -> Readiness + Unpin> Future for ReadyFuture<'_, F> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if let Readiness::Ready = (self.ready)() {
            return Poll::Ready(());
        }
        let driver = self.driver;
        WakerSlot::register(&mut self.waker, driver, context.waker());
        match (self.ready)() {
            Readiness::Ready => return Poll::Ready(()),
            Readiness::NotYet => {}
            Readiness::NotBefore(time) => driver.alarm(time),
        }
        Poll::Pending
    }
}
