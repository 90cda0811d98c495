//! The engine's own thread: drives when no other thread does, and sleeps when there is nothing
//! to do.
//!
//! Owns: its states in the picture of [`crate::engine`]. Never does: compete with application
//! threads that drive themselves.

use std::sync::atomic::Ordering;
use std::time::Duration;

use derecho_core::link::Link;
use derecho_core::machine::Machine;

use crate::clock;
use crate::engine::{DriverGuard, EngineState, IdleTimer, holder};

/// Number of ticks in a row with the role taken, after which the thread waits to be recalled.
const TICKS_BEFORE_AWAY: u32 = 3;

/// Longest interval between two ticks, in multiples of [`Pace::tick`](crate::engine::Pace::tick).
const LONGEST_TICK: u32 = 4;

/// Interval between turns of application threads, up to which these count as driving all the time.
const BUSY_DRIVE_INTERVAL: Duration = Duration::from_micros(64);

/// Number of knocks within one waking period, after which application threads may drive themselves.
const KNOCKS_BEFORE_HAND_OVER: u32 = 2;

/// Runs until the engine stops.
pub(crate) fn run<M: Machine, L: Link>(shared: &EngineState<M, L>) {
    while !shared.stopped.load(Ordering::SeqCst) {
        match shared.try_role(holder::THREAD) {
            Some(role) => {
                drive(shared, role);
                tick_while_others_drive(shared);
                shared.counters.taken_over.up();
            }
            None => tick_while_others_drive(shared),
        }
    }
}

/// Turns, lingers and sleeps with the role, until another thread wants the role or should have it.
fn drive<M: Machine, L: Link>(shared: &EngineState<M, L>, mut role: DriverGuard<'_, M, L>) {
    let mut idle = IdleTimer::new(shared.pace, &shared.sharing);
    let mut knocks = 0;
    loop {
        let done = shared.turn(&mut role, idle.now());
        if shared.stopped.load(Ordering::SeqCst) {
            return;
        }
        knocks += shared.knocks.swap(0, Ordering::SeqCst);
        if shared.wanted.load(Ordering::SeqCst) > 0 || knocks >= KNOCKS_BEFORE_HAND_OVER {
            shared.counters.handed_over.up();
            return;
        }
        if idle.is_over(done, false) {
            // The knock of this waking period is answered; a lone writer wakes us each time.
            knocks = 0;
            let interest = role.event_loop.machine.interest();
            // A thread that waits for a condition drives itself, or checks again by itself.
            shared.park(&mut role, None, interest, || false);
            idle = IdleTimer::new(shared.pace, &shared.sharing);
        }
    }
}

/// Leaves the driving to application threads while they drive. While these drive all the time, the
/// ticks become rare: each one takes the processor from an application thread.
fn tick_while_others_drive<M: Machine, L: Link>(shared: &EngineState<M, L>) {
    let mut drives = shared.drives.load(Ordering::Relaxed);
    let (mut taken_ticks, mut interval) = (0, shared.pace.tick);
    while !shared.stopped.load(Ordering::SeqCst) {
        let ring_count = shared.ring_count();
        if taken_ticks >= TICKS_BEFORE_AWAY {
            // An application thread sleeps in a wait, for example. It recalls this thread when it
            // leaves the role. The second check sees a thread that left between the previous check
            // and this store.
            shared.away.store(true, Ordering::SeqCst);
            match shared.holder.load(Ordering::SeqCst) == holder::APPLICATION {
                true => drop(shared.recall.wait(ring_count)),
                // The turn below rings, which takes this lock.
                false => drop(ring_count),
            }
            shared.away.store(false, Ordering::SeqCst);
            taken_ticks = 0;
        } else {
            // Under the lock: a thread that hurries this one is seen here, or ends the wait.
            if shared.is_hurried(clock::now()) {
                interval = shared.pace.tick;
            }
            drop(shared.recall.wait_timeout(ring_count, interval));
            if interval > shared.pace.tick && shared.is_hurried(clock::now()) {
                // The long tick has been cut short, and a whole one follows.
                continue;
            }
        }
        shared.counters.ticks.up();
        // Between two calls of the application no thread processes what peers have written.
        if let Some(mut role) = shared.try_role(holder::THREAD) {
            shared.turn(&mut role, clock::now());
        }
        let now = shared.drives.load(Ordering::Relaxed);
        let taken = shared.holder.load(Ordering::SeqCst) == holder::APPLICATION;
        if now == drives && !taken {
            return;
        }
        let least = interval.as_nanos() / BUSY_DRIVE_INTERVAL.as_nanos();
        interval = match u128::from(now.wrapping_sub(drives)) >= least {
            true => (interval * 2).min(shared.pace.tick * LONGEST_TICK),
            false => shared.pace.tick,
        };
        taken_ticks = if now == drives { taken_ticks + 1 } else { 0 };
        drives = now;
    }
}
