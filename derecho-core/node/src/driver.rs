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
const LONGEST_TICK: u32 = 8;

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
            shared.ticks_rarely.store(interval > shared.pace.tick, Ordering::SeqCst);
            drop(shared.recall.wait_timeout(ring_count, interval));
        }
        shared.counters.ticks.up();
        let is_hurried = interval > shared.pace.tick && !shared.ticks_rarely.load(Ordering::SeqCst);
        let mut longest = shared.pace.tick * LONGEST_TICK;
        // Between two calls of the application no thread processes what peers have written.
        if let Some(mut role) = shared.try_role(holder::THREAD) {
            let now = clock::now();
            shared.turn(&mut role, now);
            let wanted = role.event_loop.machine.wants_turn_at();
            longest = wanted.map_or(longest, |at| longest.min(Duration::from_nanos(at.since(now))));
        }
        let now = shared.drives.load(Ordering::Relaxed);
        let taken = shared.holder.load(Ordering::SeqCst) == holder::APPLICATION;
        if now == drives && !taken {
            return;
        }
        let least = interval.as_nanos() / BUSY_DRIVE_INTERVAL.as_nanos();
        let is_busy = u128::from(now.wrapping_sub(drives)) >= least && !is_hurried;
        let next = if is_busy { (interval * 2).min(longest) } else { shared.pace.tick };
        interval = next.max(shared.pace.tick);
        taken_ticks = if now == drives { taken_ticks + 1 } else { 0 };
        drives = now;
    }
}
