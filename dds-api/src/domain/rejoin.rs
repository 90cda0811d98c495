//! How a participant comes in again that has fallen out of its domain.
//!
//! Owns: the thread that brings it in, and when that is tried. Never does: anything while the participant is a
//! member, or after it has wanted to leave.
//!
//! ```text
//!   out ──> a new link, a new machine ──> both take the old ones' place, between two turns ──> joining ──> in
//!    ^           │ no memory, no folder, no place                                                  │
//!    '── pause ──┴────────────────────────────── out again soon, or not let in for long ───────────'
//! ```
//! The engine stays, so threads that wait in calls go on to wait, and drive what is there now.

use std::sync::{Arc, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use derecho_core::link::{Interest, Parker};

use super::assembly::{DomainEngine, Parts, Plan, connect};
use crate::infrastructure::{DdsError, DdsResult, Timeout};
use crate::mapping::shares::Refusal;
use crate::mapping::standing::Standing;
use crate::publication::refused;

/// How often it is looked whether the others go on without a participant of which no thread runs.
const LOOK: Duration = Duration::from_millis(50);
/// The pause after the first attempt that failed; each after it is twice as long, up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// Whoever falls out again within this time pauses as after an attempt that failed: all others stop for a moment
/// whenever somebody comes or goes.
const SHORT_LIFE: Duration = Duration::from_secs(10);
/// So long a new member waits to be let in before it tries it with another link.
const ADMISSION: Duration = Duration::from_secs(10);

/// Sleeps, and is woken, on the link that the participant has now.
///
/// Whoever wakes has said before why, in words that whoever sleeps looks at between arming and sleeping. So one
/// that wakes on the old link, while the new one takes its place, is seen on the new one.
pub(super) struct Turnout {
    parker: RwLock<Arc<dyn Parker>>,
}

impl Turnout {
    pub(super) fn new(parker: Arc<dyn Parker>) -> Turnout {
        Turnout { parker: RwLock::new(parker) }
    }

    /// From now on this is slept on. Called by whoever has the driver's role: nobody sleeps.
    fn turn_to(&self, parker: Arc<dyn Parker>) {
        *self.parker.write().unwrap_or_else(PoisonError::into_inner) = parker;
    }

    fn parker(&self) -> Arc<dyn Parker> {
        Arc::clone(&self.parker.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Parker for Turnout {
    fn arm(&self, interest: Interest) {
        self.parker().arm(interest);
    }

    fn sleep(&self, limit: Option<u64>) {
        self.parker().sleep(limit);
    }

    fn disarm(&self) {
        self.parker().disarm();
    }

    fn wake(&self) {
        self.parker().wake();
    }
}

/// The thread that brings a participant in again.
pub(crate) struct Rejoiner {
    thread: JoinHandle<()>,
}

impl Rejoiner {
    pub(super) fn start(
        engine: DomainEngine,
        plan: Plan,
        turnout: Arc<Turnout>,
        standing: &Arc<Standing>,
    ) -> DdsResult<Rejoiner> {
        let work = Work { engine: engine.clone(), plan, turnout, standing: Arc::clone(standing) };
        let thread = std::thread::Builder::new().name("squall-rejoin".into());
        match thread.spawn(move || work.run()) {
            Ok(thread) => Ok(Rejoiner { thread }),
            Err(error) => {
                engine.stop();
                Err(DdsError::OutOfResources(format!(
                    "no thread for a participant that rejoins: {error}"
                )))
            }
        }
    }

    /// Waits for its end. To be said to the standing before.
    pub(super) fn join(self) {
        if self.thread.join().is_err() {
            tracing::error!("the thread that rejoins panicked");
        }
    }
}

struct Work {
    engine: DomainEngine,
    plan: Plan,
    turnout: Arc<Turnout>,
    standing: Arc<Standing>,
}

impl Work {
    fn run(self) {
        let (mut pause, mut came_in) = (FIRST_PAUSE, None::<Instant>);
        while !self.standing.is_closing() {
            if !self.standing.is_evicted() {
                self.standing.sleep(LOOK);
                continue;
            }
            let lived = came_in.take().map(|at| at.elapsed());
            if lived.is_some_and(|lived| lived >= SHORT_LIFE) {
                pause = FIRST_PAUSE;
            }
            if lived.is_none_or(|lived| lived >= SHORT_LIFE) && self.comes_in(pause) {
                came_in = Some(Instant::now());
                continue;
            }
            if !self.standing.pause(pause) {
                return;
            }
            pause = LONGEST_PAUSE.min(pause * 2);
        }
    }

    /// Tries to come in.
    fn comes_in(&self, pause: Duration) -> bool {
        match self.begin_again() {
            Ok(()) => self.is_let_in(),
            Err(error) => {
                tracing::warn!(%error, ?pause, "this participant cannot rejoin yet");
                false
            }
        }
    }

    /// A new link and a new machine take the places of the old ones.
    fn begin_again(&self) -> DdsResult<()> {
        // The next life has the same folder: what is still to be written there is written before.
        drop(self.engine.act(|machine, _, _| machine.end_logs()));
        let Parts { mut link, parker, group, host, logs } = connect(&self.plan)?;
        let old = self.engine.act(|machine, slot, effects| {
            let next = machine.begin_again((group, host), logs, &mut link, effects);
            let next = next.inspect_err(|_| effects.clear())?;
            self.turnout.turn_to(parker);
            Ok((std::mem::replace(machine, next), std::mem::replace(slot, link)))
        });
        // The old link leaves now, and that takes a while.
        old.map(drop).map_err(|refusal: Refusal| {
            let what = "writer or reader";
            refused(&refusal, &self.standing, what, "a participant that rejoins")
        })
    }

    /// Drives until it is a member, or is not and will not be so soon.
    fn is_let_in(&self) -> bool {
        let ready = || !self.standing.is_joining() || self.standing.is_closing();
        self.engine.wait(Timeout::from(ADMISSION).deadline(), ready);
        let is_in = !self.standing.is_out();
        if !is_in && !self.standing.is_closing() {
            let peers = self.standing.company().peers;
            tracing::warn!(peers, "the domain has not let this participant in again yet");
        }
        is_in
    }
}
