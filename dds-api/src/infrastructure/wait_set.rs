//! Wait sets: a thread waits until one of several conditions holds.
//!
//! Owns: the attached conditions, and which thread or task is woken. Never does: start a thread.
//!
//! ```text
//!   conditions of one participant   the waiting thread drives that participant's engine
//!   of several participants         the thread drives the first engine; the other engines call
//!                                   the wait set's waker, which nudges the first one
//!   of none (guards only)           the thread sleeps until the waker is called
//! ```

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use derecho_core::ids::Time;
use derecho_node::{TurnListener, WaitOutcome, clock};

use super::condition::{Condition, WaitDriver};
use super::{DdsError, DdsResult, Timeout};

/// Waits for conditions. See [`GuardCondition`](super::GuardCondition) for an example.
///
/// One thread at a time waits on a wait set; any thread may attach and detach conditions meanwhile.
///
/// ```
/// use dds_api::infrastructure::{StatusKind, WaitSet};
/// use dds_api::subscription::{ReadCondition, States};
/// # use dds_api::prelude::*;
/// # #[derive(DdsType, Clone, Debug, Default)]
/// # struct Track { #[dds(key)] id: u32, height: f64 }
/// # fn example(reader: &DataReader<Track>) -> DdsResult<()> {
/// let there = reader.condition(&ReadCondition::new(States::not_read()));
/// let matched = reader.status_condition();
/// matched.set_enabled_statuses(StatusKind::SubscriptionMatched);
/// let wait_set = WaitSet::new();
/// wait_set.attach(&there)?;
/// wait_set.attach(&matched)?;
/// for condition in wait_set.wait(Timeout::secs(10))? {
///     if condition == there {
///         println!("{} samples", reader.take_data(.., Timeout::NOW)?.count());
///     } else {
///         println!("{} writers", reader.subscription_matched_status().current_count);
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Default)]
pub struct WaitSet {
    waker: Arc<WaitSetWaker>,
    waits: AtomicBool,
}

/// Wakes the waiting thread.
#[derive(Default)]
struct WaitSetWaker {
    state: Mutex<WaitSetState>,
    woken: Condvar,
}

#[derive(Default)]
struct WaitSetState {
    attached: Vec<Condition>,
    /// Counts events that no turn of the driven engine announces.
    wakeups: u64,
    /// Participant whose engine the waiting thread drives.
    driver: Option<Arc<dyn WaitDriver>>,
    /// Waker of the waiting task, if a task waits and not a thread.
    task: Option<Waker>,
}

impl WaitSetWaker {
    fn lock(&self) -> MutexGuard<'_, WaitSetState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn triggered(&self) -> Vec<Condition> {
        // Without the waker's lock: the conditions check readers, which have locks of their own.
        let attached = self.lock().attached.clone();
        attached.into_iter().filter(Condition::trigger_value).collect()
    }
}

impl TurnListener for WaitSetWaker {
    fn on_turn(&self) {
        let mut state = self.lock();
        state.wakeups += 1;
        let (driver, task) = (state.driver.clone(), state.task.take());
        drop(state);
        self.woken.notify_all();
        task.into_iter().for_each(Waker::wake);
        if let Some(driver) = driver {
            driver.nudge();
        }
    }
}

/// The right to wait on a wait set.
struct WaitPermit<'a>(&'a WaitSet);

impl Drop for WaitPermit<'_> {
    fn drop(&mut self) {
        let mut state = self.0.waker.lock();
        (state.driver, state.task) = (None, None);
        drop(state);
        self.0.waits.store(false, Ordering::Release);
    }
}

impl WaitSet {
    /// A wait set without conditions.
    pub fn new() -> WaitSet {
        WaitSet::default()
    }

    /// Adds a condition to wait for. A condition that is already attached stays attached.
    #[doc(alias = "attach_condition")]
    pub fn attach(&self, condition: &impl AsRef<Condition>) -> DdsResult<()> {
        let condition = condition.as_ref();
        {
            let mut state = self.waker.lock();
            if state.attached.contains(condition) {
                return Ok(());
            }
            state.attached.push(condition.clone());
        }
        let waker: Arc<dyn TurnListener> = Arc::clone(&self.waker) as _;
        condition.0.attached(&waker);
        // The waiting thread may now have to wait in another way.
        self.waker.on_turn();
        Ok(())
    }

    /// Removes a condition.
    ///
    /// # Errors
    /// [`DdsError::PreconditionNotMet`] if the condition was not attached.
    #[doc(alias = "detach_condition")]
    pub fn detach(&self, condition: &impl AsRef<Condition>) -> DdsResult<()> {
        let mut state = self.waker.lock();
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

    /// Attached conditions, in the order of attachment.
    #[doc(alias = "get_conditions")]
    pub fn conditions(&self) -> Vec<Condition> {
        self.waker.lock().attached.clone()
    }

    /// Waits until one of the conditions holds, and returns all that hold.
    ///
    /// # Errors
    /// [`DdsError::Timeout`] if no condition holds in time; [`DdsError::PreconditionNotMet`] if
    /// another thread waits on this wait set; [`DdsError::AlreadyDeleted`] if the participant of a
    /// condition leaves meanwhile.
    pub fn wait(&self, timeout: impl Into<Timeout>) -> DdsResult<Vec<Condition>> {
        let timeout = timeout.into();
        let deadline = timeout.deadline();
        let _turn = self.acquire_permit()?;
        loop {
            let wakeups = self.waker.lock().wakeups;
            let triggered = self.waker.triggered();
            if !triggered.is_empty() {
                return Ok(triggered);
            }
            let next_look = self.conditions().iter().filter_map(|one| one.0.next_check()).min();
            let until = deadline.into_iter().chain(next_look).min();
            match self.wait_once(until, wakeups) {
                WaitOutcome::Ready => {}
                WaitOutcome::TimedOut
                    if deadline.is_none_or(|deadline| clock::now() < deadline) => {}
                WaitOutcome::TimedOut => {
                    let count = self.waker.lock().attached.len();
                    return Err(DdsError::Timeout(format!(
                        "none of {count} conditions became true within {timeout}"
                    )));
                }
                WaitOutcome::Stopped => {
                    return Err(DdsError::AlreadyDeleted(
                        "the participant of a condition has left: detach its conditions".to_owned(),
                    ));
                }
            }
        }
    }

    /// Waits as [`wait`](Self::wait) does, but without a thread, on any runtime, and without a time
    /// limit. To stop waiting, drop the future.
    pub async fn wait_async(&self) -> DdsResult<Vec<Condition>> {
        let _turn = self.acquire_permit()?;
        // Notified only while this wait lasts.
        let relay: Arc<dyn TurnListener> = Arc::new(RelayWaker(Arc::clone(&self.waker)));
        let mut registered: Vec<Arc<dyn WaitDriver>> = Vec::new();
        let poll = |context: &mut Context<'_>| {
            self.waker.lock().task = Some(context.waker().clone());
            for driver in self.drivers() {
                if !registered.iter().any(|known| address(known) == address(&driver)) {
                    driver.tell(&relay);
                    registered.push(driver);
                }
            }
            registered.iter().for_each(|driver| driver.look());
            let triggered = self.waker.triggered();
            if !triggered.is_empty() {
                return Poll::Ready(Ok(triggered));
            }
            for condition in self.conditions() {
                if let (Some(at), Some(driver)) = (condition.0.next_check(), condition.0.driver()) {
                    driver.alarm(at);
                }
            }
            Poll::Pending
        };
        poll_fn(poll).await
    }

    fn acquire_permit(&self) -> DdsResult<WaitPermit<'_>> {
        match self.waits.swap(true, Ordering::Acquire) {
            false => Ok(WaitPermit(self)),
            true => Err(DdsError::PreconditionNotMet(
                "another thread waits on this wait set: give each thread its own".to_owned(),
            )),
        }
    }

    /// Engines that can make the attached conditions true, each once.
    fn drivers(&self) -> Vec<Arc<dyn WaitDriver>> {
        let mut drivers: Vec<Arc<dyn WaitDriver>> = Vec::new();
        for driver in self.conditions().iter().filter_map(|condition| condition.0.driver()) {
            if !drivers.iter().any(|known| address(known) == address(&driver)) {
                drivers.push(driver);
            }
        }
        drivers
    }

    /// Waits until there is something to check.
    fn wait_once(&self, deadline: Option<Time>, wakeups: u64) -> WaitOutcome {
        let drivers = self.drivers();
        let mut drivers = drivers.into_iter();
        let Some(driver) = drivers.next() else { return self.sleep(deadline, wakeups) };
        self.waker.lock().driver = Some(Arc::clone(&driver));
        // Notified only while this wait lasts.
        let relay: Arc<dyn TurnListener> = Arc::new(RelayWaker(Arc::clone(&self.waker)));
        drivers.for_each(|driver| driver.tell(&relay));
        let ready =
            &mut || self.waker.lock().wakeups != wakeups || !self.waker.triggered().is_empty();
        driver.wait(deadline, ready)
    }

    fn sleep(&self, deadline: Option<Time>, wakeups: u64) -> WaitOutcome {
        let mut state = self.waker.lock();
        while state.wakeups == wakeups {
            state = match deadline {
                None => self.waker.woken.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(deadline) => {
                    let left = deadline.since(clock::now());
                    if left == 0 {
                        return WaitOutcome::TimedOut;
                    }
                    let left = Duration::from_nanos(left);
                    let waited = self.waker.woken.wait_timeout(state, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
        WaitOutcome::Ready
    }
}

/// Calls the wait set's waker for engines that the waiting thread does not drive.
struct RelayWaker(Arc<WaitSetWaker>);

impl TurnListener for RelayWaker {
    fn on_turn(&self) {
        self.0.on_turn();
    }
}

fn address(driver: &Arc<dyn WaitDriver>) -> *const () {
    Arc::as_ptr(driver).cast()
}
