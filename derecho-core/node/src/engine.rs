//! The engine: one machine and any number of threads, one of which drives the machine.
//!
//! Owns: the lock that makes a thread the driver, and the passing of that role. Never does: hold
//! the lock while an application's code runs, or lose a wake-up.
//!
//! **A waiting thread may drive.** With few cores the hand-off between threads is the main cost. A
//! thread that waits in a read, or has just committed a write, therefore turns the machine itself
//! when the role is free. The engine's own thread drives when no other thread does:
//!
//! ```text
//!            an application thread drove since the last tick
//!              .---------------------.
//!              v                     |
//!   ticking (role free, looks in now and then) --nobody drove--> driving --idle--> asleep
//!              ^                                                    |                 |
//!              '--- two knocks of application threads, or a take-over request --------'
//! ```
//! While the thread is asleep, it keeps the role, and peers ring its bell. If an application thread
//! knocks, the engine's thread runs the turn. If the knocks continue, it leaves the role to the
//! knocking threads and checks only every [`Pace::tick`], and more rarely while these threads drive
//! all the time. A process that calls often thus pays for no second thread, and the sleeping thread
//! serves at once a process that calls seldom.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering, fence};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::JoinHandle;
use std::time::Duration;

use derecho_core::ids::Time;
use derecho_core::link::{Interest, Link, Parker};
use derecho_core::machine::{Effects, Machine};

use crate::batch_pause::BatchPause;
use crate::clock;
use crate::condition_scope;
use crate::counters::EngineCounters;
use crate::driver;
use crate::event_loop::EventLoop;
use crate::process;
use crate::processor_sharing::ProcessorSharing;
use crate::threads::ThreadSettings;
use crate::turn_listener::{TurnListener, TurnListeners};

/// Time for which a driving thread stays awake when there is nothing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Turns without a pause at first: the answer of a peer on another core comes within this time.
    pub spin: Duration,
    /// Turns that offer the processor to other threads in between, followed by sleep.
    pub linger: Duration,
    /// Interval at which the engine's thread checks while application threads drive. While these
    /// drive all the time, the interval grows to four times as much.
    pub tick: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Pace {
            spin: Duration::from_micros(5),
            linger: Duration::from_micros(95),
            tick: Duration::from_millis(1),
        }
    }
}

/// Turns between two clock readings: a reading costs as much as an idle turn.
const TURNS_A_LOOK: u32 = 8;

/// Idle time of the driving thread, and the approximate current time.
pub(crate) struct IdleTimer<'a> {
    pace: Pace,
    now: Time,
    since: Option<Time>,
    turns: u32,
    sharing: &'a ProcessorSharing,
}

impl IdleTimer<'_> {
    pub(crate) fn new(pace: Pace, sharing: &ProcessorSharing) -> IdleTimer<'_> {
        IdleTimer { pace, now: clock::now(), since: None, turns: 0, sharing }
    }

    /// Time of the last clock reading.
    pub(crate) fn now(&self) -> Time {
        self.now
    }

    /// Whether this turn reads the clock: the first turn does, and every eighth.
    #[inline]
    fn looks(&self) -> bool {
        self.turns.is_multiple_of(TURNS_A_LOOK)
    }

    /// Takes the result of a turn, pauses as the pace says, and returns whether it is time to
    /// sleep. A thread that depends on others to continue offers the processor at once.
    #[inline]
    pub(crate) fn is_over(&mut self, done: usize, awaits_others: bool) -> bool {
        if done > 0 {
            self.since = None;
        }
        self.turns = self.turns.wrapping_add(1);
        if !self.turns.is_multiple_of(TURNS_A_LOOK) {
            if done == 0 {
                std::hint::spin_loop();
            }
            return false;
        }
        self.now = clock::now();
        if done > 0 {
            return false;
        }
        let idle = Duration::from_nanos(self.now.since(*self.since.get_or_insert(self.now)));
        if idle < self.pace.spin && !awaits_others {
            std::hint::spin_loop();
        } else if idle < self.pace.spin + self.pace.linger {
            self.now = self.sharing.offer(self.now);
        } else {
            return true;
        }
        false
    }
}

/// Result of a wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WaitOutcome {
    /// The awaited condition holds.
    Ready,
    /// The deadline has passed.
    TimedOut,
    /// The engine has stopped.
    Stopped,
}

/// Holder of the driver's role.
pub(crate) mod holder {
    pub(crate) const NOBODY: u8 = 0;
    pub(crate) const THREAD: u8 = 1;
    pub(crate) const APPLICATION: u8 = 2;
}

pub(crate) struct EngineState<M, L> {
    pub(crate) event_loop: Mutex<EventLoop<M, L>>,
    pub(crate) parker: Arc<dyn Parker>,
    pub(crate) pace: Pace,
    /// Holder of `event_loop`; a hint for other threads, the lock decides.
    pub(crate) holder: AtomicU8,
    /// Number of threads that want the role now; the driving thread gives it up for a moment.
    pub(crate) wanted: AtomicU32,
    /// Calls that found the role taken since the driver thread last checked.
    pub(crate) knocks: AtomicU32,
    /// Turns that application threads drove since the driver thread last checked.
    pub(crate) drives: AtomicU32,
    pub(crate) stopped: AtomicBool,
    /// Consecutive waits whose first turn brought little; see [`BatchPause`].
    pub(crate) thin: AtomicU32,
    /// Number of application threads that wait for another thread's turns.
    pub(crate) waiters: AtomicU32,
    /// Number of rings of `news`; guards the sleeps of the two condition variables. No thread calls
    /// foreign code while it holds this lock: a wait's condition may take a lock whose owner runs a
    /// turn, and a turn takes this lock.
    pub(crate) ring_count: Mutex<u64>,
    /// Notified when a turn did something and a thread waits for another thread's turns.
    pub(crate) news: Condvar,
    /// Notified when the driver thread should check at once instead of at its next tick.
    pub(crate) recall: Condvar,
    /// True while the driver thread waits without a tick, because an application thread has
    /// the role.
    pub(crate) away: AtomicBool,
    /// Time until which the driver thread ticks often, whatever application threads do.
    hurried_until: AtomicU64,
    pub(crate) sharing: ProcessorSharing,
    /// Whether the driving thread sleeps, or is about to, and hints may not wake it.
    sleeps_for_news: AtomicBool,
    pub(crate) listeners: TurnListeners,
    pub(crate) counters: EngineCounters,
    /// Process in which the engine was created.
    process: u32,
}

/// A driven machine. Clones are handles on the same engine.
pub struct Engine<M, L> {
    pub(crate) shared: Arc<EngineState<M, L>>,
    thread: Arc<Mutex<Option<JoinHandle<()>>>>,
}

impl<M, L> Clone for Engine<M, L> {
    fn clone(&self) -> Self {
        Engine { shared: Arc::clone(&self.shared), thread: Arc::clone(&self.thread) }
    }
}

/// The driver's role, while this thread has it.
pub(crate) struct DriverGuard<'a, M, L> {
    pub(crate) event_loop: MutexGuard<'a, EventLoop<M, L>>,
    who: u8,
    shared: &'a EngineState<M, L>,
}

impl<M, L> Drop for DriverGuard<'_, M, L> {
    fn drop(&mut self) {
        // Sequentially consistent: pairs with the driver thread's check before it waits to be
        // recalled, see `driver::tick_while_others_drive`.
        self.shared.holder.store(holder::NOBODY, Ordering::SeqCst);
        if std::thread::panicking() {
            // An unwinding thread does not reach `EngineState::leave`.
            self.shared.recall_driver();
        }
    }
}

impl<M, L> EngineState<M, L> {
    pub(crate) fn ring_count(&self) -> MutexGuard<'_, u64> {
        self.ring_count.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the driver thread must tick often.
    pub(crate) fn is_hurried(&self, now: Time) -> bool {
        now.0 < self.hurried_until.load(Ordering::SeqCst)
    }

    /// Wakes the driver thread if it waits without a tick.
    fn recall_driver(&self) {
        if self.away.load(Ordering::SeqCst) {
            let _ring_count = self.ring_count();
            self.away.store(false, Ordering::SeqCst);
            self.recall.notify_one();
        }
    }
}

/// Reverts a thread's registration as sleeping or waiting, even if the checked condition panics.
struct ScopeGuard<F: FnMut()>(F);

impl<F: FnMut()> Drop for ScopeGuard<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

impl<M: Machine, L: Link> EngineState<M, L> {
    fn role<'a>(&'a self, duty: MutexGuard<'a, EventLoop<M, L>>, who: u8) -> DriverGuard<'a, M, L> {
        self.holder.store(who, Ordering::Relaxed);
        DriverGuard { event_loop: duty, who, shared: self }
    }

    /// Whether this process was forked from the one that owns the engine.
    fn is_inherited(&self) -> bool {
        self.process != process::number()
    }

    /// Takes the role if it is free.
    #[inline]
    pub(crate) fn try_role(&self, who: u8) -> Option<DriverGuard<'_, M, L>> {
        if self.is_inherited() {
            return None;
        }
        match self.event_loop.try_lock() {
            Ok(duty) => Some(self.role(duty, who)),
            // A panic inside a turn is a defect of ours; the state is still the best there is.
            Err(TryLockError::Poisoned(poison)) => Some(self.role(poison.into_inner(), who)),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Takes the role from the thread that has it.
    fn demand_role(&self, who: u8) -> DriverGuard<'_, M, L> {
        if let Some(role) = self.try_role(who) {
            return role;
        }
        if self.is_inherited() {
            // The thread that had the role does not exist in this process and cannot give it up,
            // and a turn would write what the parent writes.
            eprintln!(
                "squall: this process was forked from a member of a domain, and made a call that \
                 only that member can answer: a forked process is no member; create a participant \
                 after the fork"
            );
            std::process::abort();
        }
        self.wanted.fetch_add(1, Ordering::SeqCst);
        self.parker.wake();
        let duty = self.event_loop.lock().unwrap_or_else(PoisonError::into_inner);
        self.wanted.fetch_sub(1, Ordering::SeqCst);
        self.role(duty, who)
    }

    /// Runs one turn and wakes the threads that wait for news.
    #[inline]
    pub(crate) fn turn(&self, role: &mut DriverGuard<'_, M, L>, now: Time) -> usize {
        if role.who == holder::APPLICATION && self.knocks.load(Ordering::Relaxed) > 0 {
            // This turn answers the knocks. The driver thread counts its own.
            self.knocks.store(0, Ordering::SeqCst);
        }
        let done = role.event_loop.turn(now);
        self.counters.turns.up();
        if done > 0 {
            self.counters.busy_turns.up();
            self.tell_waiters();
            self.listeners.tell();
        }
        done
    }

    fn tell_waiters(&self) {
        if self.waiters.load(Ordering::SeqCst) > 0 {
            self.ring_news();
        }
    }

    fn ring_news(&self) {
        *self.ring_count() += 1;
        self.news.notify_all();
    }

    /// Sleeps with the role until a bell rings, `until` has come or the machine wants a turn.
    /// Between announcing the sleep and sleeping, runs one more turn and checks `ready`: a turn
    /// that does nothing may have read what makes the caller `ready`. Returns whether the thread
    /// really slept.
    pub(crate) fn park(
        &self,
        role: &mut DriverGuard<'_, M, L>,
        until: Option<Time>,
        interest: Interest,
        ready: impl FnOnce() -> bool,
    ) -> bool {
        self.parker.arm(interest);
        let _armed = ScopeGuard(|| self.parker.disarm());
        let now = clock::now();
        let news = self.turn(role, now) > 0
            || ready()
            || self.wanted.load(Ordering::SeqCst) > 0
            || self.knocks.load(Ordering::SeqCst) > 0
            || self.stopped.load(Ordering::SeqCst);
        if news {
            return false;
        }
        let wanted = role.event_loop.machine.wants_turn_at();
        self.counters.parks.up();
        self.parker.sleep(until.into_iter().chain(wanted).min().map(|at| at.since(now)));
        true
    }

    /// Sleeps as [`EngineState::park`] does, for an application thread that waits for news, or also
    /// for hints: it may wait for room, or for acknowledgements.
    fn park_for(
        &self,
        awaited: Interest,
        role: &mut DriverGuard<'_, M, L>,
        until: Option<Time>,
        mut ready: impl FnMut() -> bool,
    ) {
        if awaited == Interest::Hints || self.waiters.load(Ordering::SeqCst) > 0 {
            self.park(role, until, Interest::Hints, ready);
            return;
        }
        // A thread that begins to wait for hints either sees this and wakes the sleeper, or is seen
        // by the sleeper's last check.
        self.sleeps_for_news.store(true, Ordering::SeqCst);
        let _sleeps = ScopeGuard(|| self.sleeps_for_news.store(false, Ordering::SeqCst));
        let interest = role.event_loop.machine.interest();
        self.park(role, until, interest, || ready() || self.waiters.load(Ordering::SeqCst) > 0);
    }

    /// Leaves the role after an application thread drove, once every knock is answered: a thread
    /// that knocked during the last turn relies on this one.
    fn leave<'a>(&'a self, mut role: DriverGuard<'a, M, L>, now: Time) {
        loop {
            drop(role);
            // Only a hint for the driver thread's next tick; a lost count delays nothing for long.
            let drives = self.drives.load(Ordering::Relaxed).wrapping_add(1);
            self.drives.store(drives, Ordering::Relaxed);
            // Pairs with the fence in `Engine::poke`.
            fence(Ordering::SeqCst);
            if self.knocks.load(Ordering::Relaxed) == 0 {
                break;
            }
            let Some(next) = self.try_role(holder::APPLICATION) else { break };
            role = next;
            self.turn(&mut role, now);
        }
        self.tell_waiters();
        self.recall_driver();
    }
}

impl<M: Machine + Send + 'static, L: Link + Send + 'static> Engine<M, L> {
    /// Starts to drive a machine over a link with a thread of its own.
    pub fn start(machine: M, link: L, parker: Arc<dyn Parker>, pace: Pace) -> Self {
        Self::start_on(ThreadSettings::default(), machine, link, parker, pace)
    }

    /// Starts an engine as [`Engine::start`] does, with these settings for its thread.
    pub fn start_on(
        settings: ThreadSettings,
        machine: M,
        link: L,
        parker: Arc<dyn Parker>,
        pace: Pace,
    ) -> Self {
        let engine = Self::without_thread(machine, link, parker, pace);
        let shared = Arc::clone(&engine.shared);
        let thread = std::thread::Builder::new()
            .name("squall-driver".into())
            .spawn(move || {
                settings.begin();
                driver::run(&shared);
            })
            .map_err(
                |error| tracing::error!(%error, "no driver thread: only application threads drive"),
            );
        *engine.thread.lock().unwrap_or_else(PoisonError::into_inner) = thread.ok();
        engine
    }

    /// Creates an engine without a thread: the machine only turns in [`Engine::poke`],
    /// [`Engine::wait`] and [`Engine::act`], on the caller's thread. For callers who schedule
    /// everything themselves.
    pub fn without_thread(machine: M, link: L, parker: Arc<dyn Parker>, pace: Pace) -> Self {
        let shared = EngineState {
            event_loop: Mutex::new(EventLoop::new(machine, link)),
            parker,
            pace,
            holder: AtomicU8::new(holder::NOBODY),
            wanted: AtomicU32::new(0),
            knocks: AtomicU32::new(0),
            drives: AtomicU32::new(0),
            stopped: AtomicBool::new(false),
            thin: AtomicU32::new(0),
            waiters: AtomicU32::new(0),
            ring_count: Mutex::new(0),
            news: Condvar::new(),
            recall: Condvar::new(),
            away: AtomicBool::new(false),
            hurried_until: AtomicU64::new(0),
            sharing: ProcessorSharing::default(),
            sleeps_for_news: AtomicBool::new(false),
            listeners: TurnListeners::default(),
            counters: EngineCounters::default(),
            process: process::number(),
        };
        Engine { shared: Arc::new(shared), thread: Arc::new(Mutex::new(None)) }
    }

    /// Whether the engine has a thread of its own, which turns when the machine wants it.
    pub fn has_thread(&self) -> bool {
        self.thread.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Counters of this engine's work.
    pub fn counters(&self) -> &EngineCounters {
        &self.shared.counters
    }

    /// Acts on the machine and its link, between two turns. For control, not for the hot path.
    ///
    /// # Panics
    /// If this thread is within the `ready` of an [`Engine::wait`] of this engine, during which no
    /// turn may run.
    pub fn act<T>(&self, f: impl FnOnce(&mut M, &mut L, &mut Effects) -> T) -> T {
        assert!(
            !condition_scope::is_in(self.place()),
            "the condition of a wait made a call that needs a turn of the engine, and no turn runs \
             while the condition is checked: ask before the call, and within the condition ask \
             readers and writers only for samples and for room"
        );
        let mut role = self.shared.demand_role(holder::APPLICATION);
        let result = role.event_loop.act(f);
        // The changes may need a turn to take effect.
        let now = clock::now();
        self.shared.turn(&mut role, now);
        self.shared.leave(role, now);
        result
    }

    /// Reports news from an application thread (something was committed or released). Ensures that
    /// a turn processes it, on this thread if the role is free.
    pub fn poke(&self) {
        self.poke_at(clock::now());
    }

    /// Variant of [`Engine::poke`] for a caller that has just read the [clock] anyway.
    #[inline]
    pub fn poke_at(&self, now: Time) {
        let shared = &*self.shared;
        let mut role = match shared.try_role(holder::APPLICATION) {
            Some(role) => role,
            None if shared.is_inherited() => return,
            None => {
                shared.knocks.fetch_add(1, Ordering::SeqCst);
                shared.parker.wake();
                fence(Ordering::SeqCst);
                // The thread that had the role may have left it before it could see the knock.
                match shared.try_role(holder::APPLICATION) {
                    Some(role) => role,
                    None => return,
                }
            }
        };
        shared.turn(&mut role, now);
        shared.leave(role, now);
    }

    /// Runs a turn as [`Engine::poke_at`] does, after which the machine wants a further turn at
    /// `until`, although application threads may stop driving before: the driver thread ticks often
    /// until then.
    pub fn poke_until(&self, now: Time, until: Time) {
        self.poke_at(now);
        let shared = &*self.shared;
        // The turn at `until` may find the role taken, and the next tick repeats it.
        let until = until.after(2 * shared.pace.tick.as_nanos() as u64);
        if shared.hurried_until.fetch_max(until.0, Ordering::SeqCst) < now.0
            && !shared.is_inherited()
        {
            let _ring_count = shared.ring_count();
            shared.recall.notify_one();
        }
    }

    /// Registers a listener, which is called whenever a turn did something, as long as the listener
    /// exists.
    pub fn add_listener(&self, listener: &Arc<dyn TurnListener>) {
        self.shared.listeners.add(listener);
    }

    /// Makes a [waiting](Engine::wait) thread check again because its condition has changed without
    /// a turn of this engine. Takes no lock under which a turn runs, so another engine's turn may
    /// call this.
    pub fn nudge(&self) {
        let shared = &*self.shared;
        if shared.is_inherited() {
            return;
        }
        shared.knocks.fetch_add(1, Ordering::SeqCst);
        shared.parker.wake();
        shared.tell_waiters();
    }

    /// Acts as [`Engine::act`] does, but asynchronously if this thread is within the `ready` of an
    /// [`Engine::wait`]. For actions at the drop of a last handle, which may happen there.
    pub fn act_soon(&self, f: impl FnOnce(&mut M, &mut L, &mut Effects) + Send + 'static) {
        if !condition_scope::is_in(self.place()) {
            return self.act(f);
        }
        let engine = self.clone();
        // Rare: a handle was dropped while a condition was checking the handle's object.
        let thread = std::thread::Builder::new().name("squall-apart".into());
        if let Err(error) = thread.spawn(move || engine.act(f)) {
            tracing::error!(%error, "thread not started: an ended entity stays announced");
        }
    }

    /// Identity of this engine.
    fn place(&self) -> *const () {
        Arc::as_ptr(&self.shared).cast()
    }

    /// Waits until `ready` returns true or the deadline (none: forever) has passed, driving the
    /// machine meanwhile if no other thread does.
    ///
    /// `ready` is called often and must be cheap. It may take a lock whose owner pokes or nudges,
    /// but none whose owner [acts](Engine::act), because it is called with the driver's role. No
    /// turn runs during the call: a wait within `ready` ends at once, and an operation that would
    /// need a turn ([`Engine::act`]) panics.
    pub fn wait(&self, deadline: Option<Time>, ready: impl FnMut() -> bool) -> WaitOutcome {
        self.wait_for(Interest::Hints, deadline, ready)
    }

    /// Waits as [`Engine::wait`] does. If only news bring what is awaited, such as samples, hints
    /// wake a sleeping thread only if the machine or another waiting thread needs them.
    pub fn wait_for(
        &self,
        awaited: Interest,
        deadline: Option<Time>,
        mut ready: impl FnMut() -> bool,
    ) -> WaitOutcome {
        let shared = &*self.shared;
        let mut ready = || condition_scope::within(self.place(), &mut ready);
        if ready() {
            return WaitOutcome::Ready;
        }
        if condition_scope::is_in(self.place()) {
            return WaitOutcome::TimedOut;
        }
        loop {
            if shared.stopped.load(Ordering::SeqCst) || shared.is_inherited() {
                return WaitOutcome::Stopped;
            }
            if deadline.is_some_and(|deadline| clock::now() >= deadline) {
                return WaitOutcome::TimedOut;
            }
            let role = if shared.holder.load(Ordering::Relaxed) == holder::THREAD {
                Some(shared.demand_role(holder::APPLICATION))
            } else {
                shared.try_role(holder::APPLICATION)
            };
            let is_ready = match role {
                Some(role) => self.drive(role, awaited, deadline, &mut ready),
                None => self.sit_and_wait(deadline, &mut ready),
            };
            if is_ready {
                return WaitOutcome::Ready;
            }
        }
    }

    /// Drives until `ready`, the deadline, or until another thread wants the role. Returns whether
    /// the condition was ready.
    fn drive<'a>(
        &'a self,
        mut role: DriverGuard<'a, M, L>,
        awaited: Interest,
        deadline: Option<Time>,
        ready: &mut impl FnMut() -> bool,
    ) -> bool {
        let shared = &*self.shared;
        let mut is_ready = false;
        let mut idle = IdleTimer::new(shared.pace, &shared.sharing);
        let mut gather = Some(BatchPause::begin(&shared.thin, idle.now()));
        loop {
            let done = shared.turn(&mut role, idle.now());
            // Awaited news usually comes with a turn; news from another thread is seen a little
            // later. Calling `ready` costs as much as the turn.
            if done > 0 || idle.looks() {
                is_ready = ready();
            }
            if let Some(gather) = gather.take() {
                gather.learn(done, is_ready);
            }
            if is_ready || shared.wanted.load(Ordering::Relaxed) > 0 {
                break;
            }
            // Other threads must run first, perhaps on this very processor.
            let awaits = done == 0 && role.event_loop.machine.awaits_others();
            let over = idle.is_over(done, awaits);
            if deadline.is_some_and(|deadline| idle.now() >= deadline) {
                is_ready = ready();
                break;
            }
            if over {
                shared.park_for(awaited, &mut role, deadline, &mut *ready);
                idle = IdleTimer::new(shared.pace, &shared.sharing);
                is_ready = ready();
                if is_ready || shared.stopped.load(Ordering::SeqCst) {
                    break;
                }
            }
        }
        shared.leave(role, idle.now());
        if shared.wanted.load(Ordering::SeqCst) > 0 {
            // A thread waits for the lock; a mutex is not fair, so yield to that thread.
            std::thread::yield_now();
        }
        is_ready
    }

    /// Waits for the turns of another application thread that drives. Returns whether the condition
    /// was ready.
    fn sit_and_wait(&self, deadline: Option<Time>, ready: &mut impl FnMut() -> bool) -> bool {
        let shared = &*self.shared;
        shared.waiters.fetch_add(1, Ordering::SeqCst);
        if shared.sleeps_for_news.load(Ordering::SeqCst) {
            shared.parker.wake();
        }
        let _waiting = ScopeGuard(|| {
            shared.waiters.fetch_sub(1, Ordering::SeqCst);
        });
        let rung = *shared.ring_count();
        let is_ready = ready();
        if !is_ready && shared.holder.load(Ordering::SeqCst) == holder::APPLICATION {
            let tick = shared.pace.tick;
            let limit = deadline.map_or(tick, |deadline| {
                Duration::from_nanos(deadline.since(clock::now())).min(tick)
            });
            let ring_count = shared.ring_count();
            // If `news` was rung meanwhile, there may be news since `ready` was called.
            if *ring_count == rung {
                drop(shared.news.wait_timeout(ring_count, limit));
            }
        }
        is_ready
    }

    /// Whether this process was forked from the one that owns the engine. If so, no turn runs
    /// here: waits end with [`WaitOutcome::Stopped`], [`Engine::poke`] does nothing, and
    /// [`Engine::act`] ends the process with a message on standard error. Leave the engine, its
    /// machine and its link untouched.
    pub fn is_inherited(&self) -> bool {
        self.shared.is_inherited()
    }

    /// Makes all waiting threads and tasks check again because a condition has changed without
    /// a turn.
    pub fn announce(&self) {
        self.poke();
        self.shared.tell_waiters();
        self.shared.listeners.tell();
    }

    /// Stops the thread and returns once it has ended. Waits end with [`WaitOutcome::Stopped`].
    pub fn stop(&self) {
        self.shared.stopped.store(true, Ordering::SeqCst);
        self.shared.parker.wake();
        self.shared.ring_news();
        self.shared.recall.notify_all();
        self.shared.listeners.tell();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread
            && thread.thread().id() != std::thread::current().id()
            && thread.join().is_err()
        {
            tracing::error!("the driver thread panicked");
        }
    }
}
