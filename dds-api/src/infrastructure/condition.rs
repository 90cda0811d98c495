//! Conditions for which a wait set waits.
//!
//! Owns: the interface of a condition to a wait set, and the guard condition, which the application
//! triggers itself. Never does: know the meaning of other conditions.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use derecho_core::ids::Time;
use derecho_node::{TurnListener, WaitOutcome};

use super::InstanceHandle;

/// Source of the events that make a condition true: a participant's engine.
pub(crate) trait WaitDriver: Send + Sync {
    /// Waits until `ready` returns true, and drives the engine meanwhile.
    fn wait(&self, deadline: Option<Time>, ready: &mut dyn FnMut() -> bool) -> WaitOutcome;
    /// Notifies this listener of events from now on.
    fn tell(&self, listener: &Arc<dyn TurnListener>);
    /// Makes waiting threads check their conditions again.
    fn nudge(&self);
    /// Takes in what has arrived, on this thread if no other thread drives.
    fn look(&self);
    /// Notifies the listeners at this time, whether there is an event or not.
    fn alarm(&self, at: Time);
}

/// Source of a condition's value.
pub(crate) trait ConditionSource: Send + Sync {
    /// Whether the condition holds now.
    fn is_triggered(&self) -> bool;
    /// Engine that can make the condition true; none if only the application makes it true.
    fn driver(&self) -> Option<Arc<dyn WaitDriver>>;
    /// Time at which the condition may come to hold without an event.
    fn next_check(&self) -> Option<Time> {
        None
    }
    /// Entity that the condition belongs to; none if it belongs to no entity or the entity is gone.
    fn entity(&self) -> Option<InstanceHandle> {
        None
    }
    /// Called when a wait set starts to wait for the condition. A condition without an engine calls
    /// this waker itself.
    fn attached(&self, _bell: &Arc<dyn TurnListener>) {}
}

/// Any condition, in the form that [wait sets](super::WaitSet) take. Clones are the same condition.
///
/// ```
/// use dds_api::infrastructure::{Condition, GuardCondition};
///
/// let stop = GuardCondition::new();
/// let condition: Condition = stop.as_ref().clone();
/// assert!(!condition.trigger_value());
/// stop.set_trigger_value(true);
/// assert!(condition.trigger_value());
/// ```
#[derive(Clone)]
pub struct Condition(pub(crate) Arc<dyn ConditionSource>);

impl Condition {
    pub(crate) fn new(trigger: impl ConditionSource + 'static) -> Condition {
        Condition(Arc::new(trigger))
    }

    /// Whether the condition holds now.
    #[doc(alias = "get_trigger_value")]
    pub fn trigger_value(&self) -> bool {
        self.0.is_triggered()
    }

    /// Entity that the condition belongs to: the owner of the statuses, or the reader of the
    /// samples. `None` for a guard condition, and if the entity is gone.
    ///
    /// ```
    /// # use dds_api::infrastructure::WaitSet;
    /// # use dds_api::prelude::*;
    /// # #[derive(DdsType, Clone, Debug, Default)]
    /// # struct Track { #[dds(key)] id: u32, height: f64 }
    /// # fn example(wait_set: &WaitSet, tracks: &DataReader<Track>, writer: &DataWriter<Track>) -> DdsResult<()> {
    /// for condition in wait_set.wait(Timeout::secs(1))? {
    ///     match condition.entity() {
    ///         Some(handle) if handle == tracks.instance_handle() => println!("samples have come"),
    ///         Some(handle) if handle == writer.instance_handle() => println!("something has happened to the writer"),
    ///         _ => println!("somebody has set a guard"),
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "get_entity")]
    #[doc(alias = "get_datareader")]
    pub fn entity(&self) -> Option<InstanceHandle> {
        self.0.entity()
    }

    fn address(&self) -> *const () {
        Arc::as_ptr(&self.0).cast()
    }
}

impl PartialEq for Condition {
    fn eq(&self, other: &Condition) -> bool {
        std::ptr::eq(self.address(), other.address())
    }
}

impl Eq for Condition {}

impl AsRef<Condition> for Condition {
    fn as_ref(&self) -> &Condition {
        self
    }
}

impl fmt::Debug for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Condition({:p}, {})", self.address(), self.trigger_value())
    }
}

/// A condition that the application triggers from any thread, for example to end a wait.
///
/// ```
/// use dds_api::infrastructure::{GuardCondition, Timeout, WaitSet};
///
/// let (wait_set, stop) = (WaitSet::new(), GuardCondition::new());
/// wait_set.attach(&stop)?;
/// std::thread::scope(|scope| {
///     scope.spawn(|| stop.set_trigger_value(true));
///     let ready = wait_set.wait(Timeout::secs(10))?;
///     assert!(ready.contains(stop.as_ref()));
///     # Ok::<(), dds_api::infrastructure::DdsError>(())
/// })?;
/// # Ok::<(), dds_api::infrastructure::DdsError>(())
/// ```
#[derive(Clone, Debug)]
pub struct GuardCondition {
    condition: Condition,
    guard: Arc<GuardState>,
}

#[derive(Default)]
struct GuardState {
    value: AtomicBool,
    wakers: Mutex<Vec<Weak<dyn TurnListener>>>,
}

impl fmt::Debug for GuardState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Guard({})", self.value.load(Ordering::Relaxed))
    }
}

impl ConditionSource for GuardState {
    fn is_triggered(&self) -> bool {
        self.value.load(Ordering::SeqCst)
    }

    fn driver(&self) -> Option<Arc<dyn WaitDriver>> {
        None
    }

    fn attached(&self, waker: &Arc<dyn TurnListener>) {
        let mut wakers = self.wakers.lock().unwrap_or_else(PoisonError::into_inner);
        wakers.retain(|waker| waker.strong_count() > 0);
        wakers.push(Arc::downgrade(waker));
    }
}

impl Default for GuardCondition {
    fn default() -> Self {
        Self::new()
    }
}

impl GuardCondition {
    /// Creates a condition that does not hold yet.
    pub fn new() -> GuardCondition {
        let guard = Arc::new(GuardState::default());
        let condition = Condition(Arc::clone(&guard) as Arc<dyn ConditionSource>);
        GuardCondition { condition, guard }
    }

    /// Sets whether the condition holds. The value stays until it is set again.
    pub fn set_trigger_value(&self, value: bool) {
        self.guard.value.store(value, Ordering::SeqCst);
        if value {
            let wakers = self.guard.wakers.lock().unwrap_or_else(PoisonError::into_inner);
            wakers.iter().filter_map(Weak::upgrade).for_each(|waker| waker.on_turn());
        }
    }

    /// Whether the condition holds.
    pub fn trigger_value(&self) -> bool {
        self.guard.is_triggered()
    }
}

impl AsRef<Condition> for GuardCondition {
    fn as_ref(&self) -> &Condition {
        &self.condition
    }
}
