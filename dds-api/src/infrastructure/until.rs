//! Waiting without a thread: a future that completes on any runtime when its condition holds.
//!
//! Owns: which task is woken. Never does: drive the engine; the participant's own thread does, or a
//! thread that waits elsewhere.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use derecho_core::ids::Time;
use derecho_node::Hearer;

use super::condition::Driver;

/// Future that completes when `ready` says so. `ready` is called once at first, and again whenever
/// there is news.
pub(crate) struct Until<'a, F> {
    driver: &'a dyn Driver,
    ready: F,
    ear: Option<Arc<Ear>>,
}

/// Result of a check.
pub(crate) enum Look {
    /// The awaited event has happened.
    Ready,
    /// The event has not happened; news will announce it.
    NotYet,
    /// The event has not happened, and may happen at this time without any news.
    NotBefore(Time),
}

impl From<bool> for Look {
    fn from(is_ready: bool) -> Look {
        if is_ready { Look::Ready } else { Look::NotYet }
    }
}

/// Waker of the task to wake when there is news.
#[derive(Default)]
pub(crate) struct Ear(Mutex<Option<Waker>>);

impl Ear {
    /// Registers this waker for the next news. The caller must check for earlier events afterwards.
    pub(crate) fn listen(ear: &mut Option<Arc<Ear>>, driver: &dyn Driver, waker: &Waker) {
        let ear = ear.get_or_insert_with(|| {
            let ear = Arc::new(Ear::default());
            let hearer: Arc<dyn Hearer> = Arc::clone(&ear) as _;
            driver.tell(&hearer);
            ear
        });
        let mut place = ear.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *place {
            Some(known) => known.clone_from(waker),
            None => *place = Some(waker.clone()),
        }
        drop(place);
        driver.look();
    }
}

impl Hearer for Ear {
    fn hear(&self) {
        let waker = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        // Without the lock: the waker may run any code of the runtime.
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<'a, F: FnMut() -> Look + Unpin> Until<'a, F> {
    pub(crate) fn new(driver: &'a dyn Driver, ready: F) -> Self {
        Until { driver, ready, ear: None }
    }
}

impl<F: FnMut() -> Look + Unpin> Future for Until<'_, F> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if let Look::Ready = (self.ready)() {
            return Poll::Ready(());
        }
        let driver = self.driver;
        Ear::listen(&mut self.ear, driver, context.waker());
        match (self.ready)() {
            Look::Ready => return Poll::Ready(()),
            Look::NotYet => {}
            Look::NotBefore(time) => driver.alarm(time),
        }
        Poll::Pending
    }
}
