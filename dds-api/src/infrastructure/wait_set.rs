//! Wait sets: a thread waits until one of several conditions holds.
//!
//! Owns: which conditions, and who is woken. Never does: take a thread of its own.
//!
//! ```text
//!   conditions of one participant   the waiting thread drives that participant's engine
//!   of several                      it drives the first one; the others' engines ring the bell, which nudges it
//!   of none (guards alone)          it sleeps on the bell
//! ```

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use derecho_core::ids::Time;
use derecho_node::{Hearer, Waited, clock};

use super::condition::{Condition, Driver};
use super::{DdsError, DdsResult, Timeout};

/// Waits for conditions. See [`GuardCondition`](super::GuardCondition) for an example.
///
/// One thread at a time waits on a wait set; any thread may attach and detach conditions meanwhile.
#[derive(Default)]
pub struct WaitSet {
    bell: Arc<Bell>,
    waits: AtomicBool,
}

/// What wakes the thread that waits.
#[derive(Default)]
struct Bell {
    state: Mutex<State>,
    rung: Condvar,
}

#[derive(Default)]
struct State {
    attached: Vec<Condition>,
    /// Counts what happened that no engine's turn tells of.
    rings: u64,
    /// Whose engine the waiting thread drives.
    driver: Option<Arc<dyn Driver>>,
}

impl Bell {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn triggered(&self) -> Vec<Condition> {
        // The conditions look at readers, which have locks of their own.
        let attached = self.lock().attached.clone();
        attached.into_iter().filter(Condition::trigger_value).collect()
    }
}

impl Hearer for Bell {
    fn hear(&self) {
        let mut state = self.lock();
        state.rings += 1;
        let driver = state.driver.clone();
        drop(state);
        self.rung.notify_all();
        if let Some(driver) = driver {
            driver.nudge();
        }
    }
}

/// The right to wait on a wait set.
struct Turn<'a>(&'a WaitSet);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.bell.lock().driver = None;
        self.0.waits.store(false, Ordering::Release);
    }
}

impl WaitSet {
    /// A wait set without conditions.
    pub fn new() -> WaitSet {
        WaitSet::default()
    }

    /// Waits for this condition as well. One that is attached already stays so.
    pub fn attach(&self, condition: &impl AsRef<Condition>) -> DdsResult<()> {
        let condition = condition.as_ref();
        {
            let mut state = self.bell.lock();
            if state.attached.contains(condition) {
                return Ok(());
            }
            state.attached.push(condition.clone());
        }
        let bell: Arc<dyn Hearer> = Arc::clone(&self.bell) as _;
        condition.0.attached(&bell);
        // Whoever waits may have to wait in another way now.
        self.bell.hear();
        Ok(())
    }

    /// Waits for this condition no more.
    ///
    /// # Errors
    /// [`DdsError::PreconditionNotMet`] if it was not attached.
    pub fn detach(&self, condition: &impl AsRef<Condition>) -> DdsResult<()> {
        let mut state = self.bell.lock();
        match state.attached.iter().position(|attached| attached == condition.as_ref()) {
            Some(index) => {
                state.attached.remove(index);
                Ok(())
            }
            None => Err(DdsError::PreconditionNotMet(
                "this condition is not attached to this wait set: attach it first".to_owned(),
            )),
        }
    }

    /// The conditions that are attached, in the order in which they were.
    pub fn conditions(&self) -> Vec<Condition> {
        self.bell.lock().attached.clone()
    }

    /// Waits until one of the conditions holds, and returns all that do.
    ///
    /// # Errors
    /// [`DdsError::Timeout`] if none did in time; [`DdsError::PreconditionNotMet`] if another thread waits on this wait
    /// set; [`DdsError::AlreadyDeleted`] if the participant of a condition leaves meanwhile.
    pub fn wait(&self, timeout: impl Into<Timeout>) -> DdsResult<Vec<Condition>> {
        let timeout = timeout.into();
        let deadline = timeout.deadline();
        if self.waits.swap(true, Ordering::Acquire) {
            return Err(DdsError::PreconditionNotMet(
                "another thread waits on this wait set: give each thread its own".to_owned(),
            ));
        }
        let _turn = Turn(self);
        loop {
            let rings = self.bell.lock().rings;
            let triggered = self.bell.triggered();
            if !triggered.is_empty() {
                return Ok(triggered);
            }
            let next_look = self.conditions().iter().filter_map(|one| one.0.next_look()).min();
            let until = deadline.into_iter().chain(next_look).min();
            match self.wait_once(until, rings) {
                Waited::Ready => {}
                Waited::TimedOut if deadline.is_none_or(|deadline| clock::now() < deadline) => {}
                Waited::TimedOut => {
                    let count = self.bell.lock().attached.len();
                    return Err(DdsError::Timeout(format!(
                        "none of {count} conditions came to hold within {timeout}"
                    )));
                }
                Waited::Stopped => {
                    return Err(DdsError::AlreadyDeleted(
                        "the participant of a condition has left: detach its conditions".to_owned(),
                    ));
                }
            }
        }
    }

    /// Waits until there is something to look at.
    fn wait_once(&self, deadline: Option<Time>, rings: u64) -> Waited {
        let mut drivers: Vec<Arc<dyn Driver>> = Vec::new();
        for driver in self.conditions().iter().filter_map(|condition| condition.0.driver()) {
            let is_it = |known: &Arc<dyn Driver>| place(known) == place(&driver);
            if !drivers.iter().any(is_it) {
                drivers.push(driver);
            }
        }
        let mut drivers = drivers.into_iter();
        let Some(driver) = drivers.next() else { return self.sleep(deadline, rings) };
        self.bell.lock().driver = Some(Arc::clone(&driver));
        // Told as long as this wait lasts.
        let relay: Arc<dyn Hearer> = Arc::new(Relay(Arc::clone(&self.bell)));
        drivers.for_each(|driver| driver.tell(&relay));
        let ready = &mut || self.bell.lock().rings != rings || !self.bell.triggered().is_empty();
        driver.wait(deadline, ready)
    }

    fn sleep(&self, deadline: Option<Time>, rings: u64) -> Waited {
        let mut state = self.bell.lock();
        while state.rings == rings {
            state = match deadline {
                None => self.bell.rung.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(deadline) => {
                    let left = deadline.since(clock::now());
                    if left == 0 {
                        return Waited::TimedOut;
                    }
                    let left = Duration::from_nanos(left);
                    let waited = self.bell.rung.wait_timeout(state, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
        Waited::Ready
    }
}

/// The bell, for the engines that the waiting thread does not drive.
struct Relay(Arc<Bell>);

impl Hearer for Relay {
    fn hear(&self) {
        self.0.hear();
    }
}

fn place(driver: &Arc<dyn Driver>) -> *const () {
    Arc::as_ptr(driver).cast()
}
