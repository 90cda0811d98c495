//! Rejoining of a participant that has lost its membership in its domain.
//!
//! Owns: the thread that rejoins, and when it tries. Never does: act while the participant is a
//! member, or after it has asked to leave.
//!
//! ```text
//!   out ──> new link, new machine ──> both replace the old, between two turns ──> joining ──> in
//!    ^           │ no memory, folder or room                                                  │
//!    '── pause ──┴────────────────────── out again soon, or not admitted for long ────────────'
//! ```
//! The engine stays: threads that wait in calls continue to wait, and drive the new machine.

use std::sync::{Arc, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use derecho_core::link::{Interest, Parker};

use super::assembly::{AssemblyConfig, DomainEngine, ParticipantParts, connect};
use crate::infrastructure::{DdsError, DdsResult, Timeout};
use crate::mapping::membership_state::MembershipState;
use crate::mapping::shares::EndpointRefusal;
use crate::publication::refused;

/// Interval between checks whether others continue without a participant none of whose threads run.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// Pause after the first failed attempt. Each later pause is twice as long, up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// A participant that loses its membership again within this time pauses as after a failed attempt,
/// because all others stop for a moment at every join and departure.
const SHORT_LIFE: Duration = Duration::from_secs(10);
/// Time that a new member waits for admission before it tries again with another link.
const ADMISSION: Duration = Duration::from_secs(10);

/// Parker that sleeps, and is woken, on the participant's present link.
///
/// A thread that wakes the sleeper first publishes the reason, in memory words that the sleeper
/// checks between arming and sleeping. A wake-up on the old link, while the new link replaces it,
/// is therefore seen on the new link.
pub(super) struct SwitchableParker {
    parker: RwLock<Arc<dyn Parker>>,
}

impl SwitchableParker {
    pub(super) fn new(parker: Arc<dyn Parker>) -> SwitchableParker {
        SwitchableParker { parker: RwLock::new(parker) }
    }

    /// Sleeps on this parker from now on. The caller has the driver's role, so no thread sleeps.
    fn switch_to(&self, parker: Arc<dyn Parker>) {
        *self.parker.write().unwrap_or_else(PoisonError::into_inner) = parker;
    }

    fn parker(&self) -> Arc<dyn Parker> {
        Arc::clone(&self.parker.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Parker for SwitchableParker {
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

/// The thread that rejoins for a participant.
pub(crate) struct Rejoiner {
    thread: JoinHandle<()>,
}

impl Rejoiner {
    pub(super) fn start(
        engine: DomainEngine,
        assembly_config: AssemblyConfig,
        parker: Arc<SwitchableParker>,
        membership: &Arc<MembershipState>,
    ) -> DdsResult<Rejoiner> {
        let rejoin_loop = RejoinLoop {
            engine: engine.clone(),
            assembly_config,
            parker,
            membership: Arc::clone(membership),
        };
        let thread = std::thread::Builder::new().name("squall-rejoin".into());
        match thread.spawn(move || rejoin_loop.run()) {
            Ok(thread) => Ok(Rejoiner { thread }),
            Err(error) => {
                engine.stop();
                Err(DdsError::OutOfResources(format!(
                    "the thread that rejoins cannot start: {error}"
                )))
            }
        }
    }

    /// Waits for the end of the thread. The membership state must be closed before.
    pub(super) fn join(self) {
        if self.thread.join().is_err() {
            tracing::error!("the thread that rejoins panicked");
        }
    }
}

struct RejoinLoop {
    engine: DomainEngine,
    assembly_config: AssemblyConfig,
    parker: Arc<SwitchableParker>,
    membership: Arc<MembershipState>,
}

impl RejoinLoop {
    fn run(self) {
        let (mut pause, mut rejoined_at) = (FIRST_PAUSE, None::<Instant>);
        while !self.membership.is_closing() {
            if !self.membership.is_evicted() {
                self.membership.sleep(CHECK_INTERVAL);
                continue;
            }
            let lived = rejoined_at.take().map(|at| at.elapsed());
            if lived.is_some_and(|lived| lived >= SHORT_LIFE) {
                pause = FIRST_PAUSE;
            }
            if lived.is_none_or(|lived| lived >= SHORT_LIFE) && self.try_rejoin(pause) {
                rejoined_at = Some(Instant::now());
                continue;
            }
            if !self.membership.pause(pause) {
                return;
            }
            pause = LONGEST_PAUSE.min(pause * 2);
        }
    }

    /// Tries to rejoin.
    fn try_rejoin(&self, pause: Duration) -> bool {
        match self.begin_again() {
            Ok(()) => self.wait_for_admission(),
            Err(error) => {
                tracing::warn!(%error, ?pause, "this participant cannot rejoin yet");
                false
            }
        }
    }

    /// Replaces the old link and machine by new ones.
    fn begin_again(&self) -> DdsResult<()> {
        // The next life uses the same log folder, so pending writes to it finish first.
        drop(self.engine.act(|machine, _, _| machine.end_logs()));
        let ParticipantParts { mut link, parker, group, host, logs } =
            connect(&self.assembly_config)?;
        let old = self.engine.act(|machine, slot, effects| {
            let next = machine.begin_again(group, host, logs, &mut link, effects);
            let next = next.inspect_err(|_| effects.clear())?;
            self.parker.switch_to(parker);
            Ok((std::mem::replace(machine, next), std::mem::replace(slot, link)))
        });
        // The old link leaves when it is dropped, which takes a while.
        old.map(drop).map_err(|refusal: EndpointRefusal| {
            let what = "writer or reader";
            refused(&refusal, &self.membership, what, "a participant that rejoins")
        })
    }

    /// Drives until the participant is a member, or is not and will not be one soon. Returns which.
    fn wait_for_admission(&self) -> bool {
        let ready = || !self.membership.is_joining() || self.membership.is_closing();
        self.engine.wait(Timeout::from(ADMISSION).deadline(), ready);
        let is_in = !self.membership.is_out();
        if !is_in && !self.membership.is_closing() {
            let peers = self.membership.snapshot().peers;
            tracing::warn!(peers, "the domain has not admitted this participant again yet");
        }
        is_in
    }
}
