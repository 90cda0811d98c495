//! Waiting without a thread: a future that ends when what it waits for is there, on any runtime.
//!
//! Owns: who is woken. Never does: drive; the participant's own thread does, or whoever waits elsewhere.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use derecho_core::ids::Time;
use derecho_node::Hearer;

use super::condition::Driver;

/// Ends when `ready` answers so. It is asked whenever there is news, and once at first.
pub(crate) struct Until<'a, F> {
    driver: &'a dyn Driver,
    ready: F,
    ear: Option<Arc<Ear>>,
}

/// What came of a look.
pub(crate) enum Look {
    /// What was waited for is there.
    Ready,
    /// It is not, and comes with news.
    NotYet,
    /// It is not, and may be there at this time without any news.
    NotBefore(Time),
}

impl From<bool> for Look {
    fn from(is_ready: bool) -> Look {
        if is_ready { Look::Ready } else { Look::NotYet }
    }
}

/// Whom to wake when there is news.
#[derive(Default)]
pub(crate) struct Ear(Mutex<Option<Waker>>);

impl Ear {
    /// Has this waker woken by the next news. What came before is looked for by the caller, after this.
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
        // It may run what a runtime does to wake a task: without the lock.
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
