//! Membership of a participant in its domain, as its entities see it: the current life, and whether
//! the participant is a member.
//!
//! Owns: the reason why the participant is no longer a member, and the numbers of its lives. Never
//! does: decide that, or rejoin; it reports when a rejoin is wanted.
//!
//! ```text
//!   word   life: 56 | state: 8        IN of the first life is zero
//!   IN ──others go on──> EXCLUDED, MINORITY, OVERTAKEN, BLIND ──rejoin──> JOINING of the next life
//!    '──leaves──> LEFT                        JOINING ──view──> IN
//!                                             JOINING ──out again──> FAILED ──rejoin──> JOINING
//! ```
//! The participant is a member once in each life. Everything that belongs to a life (a writer's
//! memory, a reader's queue) carries the number of that life. So one load of one word shows whether
//! it is still valid.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use derecho_core::ids::NodeId;
use derecho_core::link::{Arbiter, LinkError};
use derecho_core::membership::ExitReason;

use crate::infrastructure::{DdsError, InstanceHandle};

const IN: u64 = 0;
const JOINING: u64 = 1;
const LEFT: u64 = 2;
const EXCLUDED: u64 = 3;
const MINORITY: u64 = 4;
const OVERTAKEN: u64 = 5;
const FAILED: u64 = 6;
const BLIND: u64 = 7;

const STATE_BITS: u32 = 8;
const STATE: u64 = (1 << STATE_BITS) - 1;

/// One life of a participant in its domain, from its joining until the membership ends.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) struct Life(u64);

impl Life {
    const fn in_state(self, state: u64) -> u64 {
        self.0 << STATE_BITS | state
    }

    /// The next life.
    pub(crate) const fn next(self) -> Life {
        Life(self.0 + 1)
    }
}

/// [`Link::halts`](derecho_core::link::Link::halts) of the participant's link.
pub(crate) type HaltQuery = Arc<dyn Fn(NodeId) -> bool + Send + Sync>;

/// The members of the domain that the participant knows of.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct MembershipSnapshot {
    /// Number of the view, and number of its members.
    pub(crate) view: (u64, usize),
    /// Number of connected other participants.
    pub(crate) peers: usize,
}

/// See the [module](self).
pub(crate) struct MembershipState {
    word: AtomicU64,
    /// The host's knowledge about the first life, available since the participant joined its group.
    host: OnceLock<Arc<dyn Arbiter>>,
    /// The host's knowledge about the later life, which is read under a lock.
    later_host: RwLock<Option<Arc<dyn Arbiter>>>,
    /// The participant's id in the domain, in this life.
    node: RwLock<NodeId>,
    /// Tells whether the process of a node is stopped, in this life.
    halts: RwLock<Option<HaltQuery>>,
    /// Stored here and not in the machine, so that callers can read it while they hold the machine.
    snapshot: RwLock<MembershipSnapshot>,
    /// Error of the host that keeps the participant out of its domain.
    obstacle: Mutex<Option<LinkError>>,
    /// Whether the participant rejoins after its membership has ended.
    rejoins: AtomicBool,
    /// Lock of the rejoining thread's wait; `true` once no rejoin is wanted any more.
    closing: Mutex<bool>,
    changed: Condvar,
}

impl MembershipState {
    /// Membership of a participant that rejoins after its membership has ended, or does not.
    pub(crate) fn new(rejoins: bool) -> MembershipState {
        MembershipState {
            word: AtomicU64::new(Life::default().in_state(IN)),
            host: OnceLock::new(),
            later_host: RwLock::new(None),
            node: RwLock::new(NodeId(0)),
            halts: RwLock::new(None),
            snapshot: RwLock::default(),
            obstacle: Mutex::default(),
            rejoins: AtomicBool::new(rejoins),
            closing: Mutex::new(false),
            changed: Condvar::new(),
        }
    }

    /// Makes the participant a member in this life.
    pub(crate) fn begin_membership(&self, life: Life, host: Option<&Arc<dyn Arbiter>>) {
        if life == Life::default() {
            if let Some(host) = host {
                self.host.get_or_init(|| Arc::clone(host));
            }
            return;
        }
        if self.word.load(Ordering::Acquire) != life.in_state(JOINING) {
            return;
        }
        *self.later_host.write().unwrap_or_else(PoisonError::into_inner) = host.cloned();
        // Publishes everything that this life has prepared.
        if self.change(life.in_state(JOINING), life.in_state(IN)) {
            tracing::info!(node = %self.node(), "this participant is a member of its domain again");
        }
    }

    /// Begins a life, in which `halts` tells whether the process of a node is stopped. The
    /// participant is not a member yet.
    pub(crate) fn begin(&self, life: Life, node: NodeId, halts: HaltQuery) {
        self.name(node);
        *self.halts.write().unwrap_or_else(PoisonError::into_inner) = Some(halts);
        if life != Life::default() {
            self.word.store(life.in_state(JOINING), Ordering::Release);
        }
    }

    fn name(&self, node: NodeId) {
        *self.node.write().unwrap_or_else(PoisonError::into_inner) = node;
    }

    /// The participant's id in the domain.
    pub(crate) fn node(&self) -> NodeId {
        *self.node.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the kernel shows the process of a participant as stopped. Costs a few system calls.
    pub(crate) fn is_stopped(&self, node: NodeId) -> bool {
        let halts = self.halts.read().unwrap_or_else(PoisonError::into_inner);
        halts.as_ref().is_some_and(|halts| halts(node))
    }

    /// Sets the known members.
    pub(crate) fn set_snapshot(&self, snapshot: MembershipSnapshot) {
        *self.snapshot.write().unwrap_or_else(PoisonError::into_inner) = snapshot;
    }

    /// The known members.
    pub(crate) fn snapshot(&self) -> MembershipSnapshot {
        *self.snapshot.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the error of the host that keeps the participant out of its domain.
    pub(crate) fn set_obstacle(&self, error: Option<&LinkError>) {
        let mut obstacle = self.obstacle.lock().unwrap_or_else(PoisonError::into_inner);
        if obstacle.as_ref() != error {
            if let Some(error) = error {
                tracing::warn!(%error, "the domain has not admitted this participant yet");
            }
            *obstacle = error.cloned();
        }
    }

    /// Error of the host that keeps the participant out of its domain.
    pub(crate) fn obstacle(&self) -> Option<LinkError> {
        self.obstacle.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Domain-wide handle of a local entity id; zero is the participant itself.
    pub(crate) fn handle(&self, entity: u64) -> InstanceHandle {
        InstanceHandle { node: self.node(), entity }
    }

    /// The current life, or the one that ended last.
    pub(crate) fn life(&self) -> Life {
        self.look().0
    }

    fn look(&self) -> (Life, u64) {
        let word = self.word.load(Ordering::Acquire);
        (Life(word >> STATE_BITS), word & STATE)
    }

    /// The life that begins with the next join.
    pub(crate) fn next_life(&self) -> Life {
        match self.look() {
            (life, JOINING | FAILED) => life,
            (life, _) => life.next(),
        }
    }

    /// Whether an unlimited wait continues after this error, because its condition may still
    /// become true.
    pub(crate) fn outlasts(&self, error: &DdsError) -> bool {
        match error {
            DdsError::Timeout(_) => true,
            DdsError::Isolated(_) => !self.is_out_for_good(),
            _ => false,
        }
    }

    /// Whether the participant is a member in this life.
    #[inline(always)]
    pub(crate) fn is_in(&self, life: Life) -> bool {
        // Acquire: everything that a life has prepared is visible once the life has begun.
        self.word.load(Ordering::Acquire) == life.in_state(IN)
    }

    /// Whether the other members continue without this life. The host may know that although the
    /// machine had no turn since, because the process was stopped. If the result is `false`,
    /// everything that the caller read before the call was valid.
    #[inline]
    pub(crate) fn is_evicted_from(&self, life: Life) -> bool {
        // Orders the caller's earlier reads before the load of the word and the host's answer.
        fence(Ordering::Acquire);
        if !self.is_in(life) {
            return true;
        }
        let is_out = |host: &Arc<dyn Arbiter>| !host.is_member();
        let is_out = match life == Life::default() {
            true => self.host.get().is_some_and(is_out),
            false => self.is_out_of_later(is_out),
        };
        is_out && self.evicted(life)
    }

    #[cold]
    fn is_out_of_later(&self, is_out: impl FnOnce(&Arc<dyn Arbiter>) -> bool) -> bool {
        let host = self.later_host.read().unwrap_or_else(PoisonError::into_inner);
        host.as_ref().is_some_and(is_out)
    }

    /// Whether the other members continue without the current life.
    pub(crate) fn is_evicted(&self) -> bool {
        self.is_evicted_from(self.life())
    }

    #[cold]
    fn evicted(&self, life: Life) -> bool {
        if self.change(life.in_state(IN), life.in_state(EXCLUDED)) {
            tracing::error!("this participant was stopped, and is isolated from its domain");
        }
        true
    }

    /// Ends the membership in this life.
    pub(crate) fn end_membership(&self, life: Life, reason: ExitReason) {
        let state = match reason {
            ExitReason::Left => LEFT,
            ExitReason::Excluded => EXCLUDED,
            ExitReason::Minority => MINORITY,
            ExitReason::Overtaken => OVERTAKEN,
            ExitReason::Blind => BLIND,
        };
        let was_in = self.change(life.in_state(IN), life.in_state(state));
        if !was_in && state == LEFT {
            // A participant that was excluded while it wanted to leave has left.
            self.change(life.in_state(EXCLUDED), life.in_state(LEFT));
        }
        if !was_in {
            self.change(life.in_state(JOINING), life.in_state(FAILED));
        }
    }

    fn change(&self, from: u64, to: u64) -> bool {
        let (yes, no) = (Ordering::AcqRel, Ordering::Acquire);
        let is_changed = self.word.compare_exchange(from, to, yes, no).is_ok();
        if is_changed {
            let _closing = self.closing();
            self.changed.notify_all();
        }
        is_changed
    }

    /// Whether the participant is not a member, or not yet.
    #[inline]
    pub(crate) fn is_out(&self) -> bool {
        self.word.load(Ordering::Relaxed) & STATE != IN
    }

    /// Whether the participant is not a member and cannot become one again.
    #[inline]
    pub(crate) fn is_out_for_good(&self) -> bool {
        self.is_out() && !self.will_rejoin()
    }

    #[cold]
    fn will_rejoin(&self) -> bool {
        let has_left = self.word.load(Ordering::Acquire) & STATE == LEFT;
        self.rejoins.load(Ordering::Relaxed) && !has_left
    }

    /// Whether a life is over.
    #[inline]
    pub(crate) fn is_over(&self, life: Life) -> bool {
        let word = self.word.load(Ordering::Relaxed);
        word & STATE > JOINING || word >> STATE_BITS != life.0
    }

    /// Whether the current life is over.
    pub(crate) fn has_ended(&self) -> bool {
        self.word.load(Ordering::Acquire) & STATE > JOINING
    }

    /// Whether the participant is rejoining.
    pub(crate) fn is_joining(&self) -> bool {
        self.word.load(Ordering::Acquire) & STATE == JOINING
    }

    /// Number of completed rejoins.
    pub(crate) fn rejoins(&self) -> u64 {
        match self.look() {
            (life, JOINING | FAILED) => life.0 - 1,
            (life, _) => life.0,
        }
    }

    /// Number of ended memberships.
    pub(crate) fn memberships_ended(&self) -> u64 {
        match self.look() {
            (life, IN | JOINING | FAILED) => life.0,
            (life, _) => life.0 + 1,
        }
    }

    /// Whether the participant rejoins after its membership has ended.
    pub(crate) fn may_rejoin(&self) -> bool {
        self.rejoins.load(Ordering::Relaxed)
    }

    /// Ends all wish for a rejoin.
    pub(crate) fn close(&self) {
        self.rejoins.store(false, Ordering::Relaxed);
        *self.closing() = true;
        self.changed.notify_all();
    }

    fn closing(&self) -> MutexGuard<'_, bool> {
        self.closing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether no rejoin is wanted any more.
    pub(crate) fn is_closing(&self) -> bool {
        *self.closing()
    }

    /// Sleeps until a change, or for `at_most`.
    pub(crate) fn sleep(&self, at_most: Duration) {
        let closing = self.closing();
        if !*closing {
            drop(self.changed.wait_timeout(closing, at_most));
        }
    }

    /// Sleeps for this time. Returns `false` if no rejoin is wanted any more.
    pub(crate) fn pause(&self, time: Duration) -> bool {
        let closing = self.closing();
        let woken = self.changed.wait_timeout_while(closing, time, |closing| !*closing);
        !*woken.unwrap_or_else(PoisonError::into_inner).0
    }

    /// The error of every call on an entity of a participant that is not a member.
    #[cold]
    pub(crate) fn error(&self) -> DdsError {
        let why = match self.word.load(Ordering::Acquire) & STATE {
            LEFT => return DdsError::AlreadyDeleted("the participant has left".to_owned()),
            EXCLUDED => {
                "the other participants excluded this one, because it was silent for longer than \
                 the member_timeout (perhaps stopped) or broke the protocol"
            }
            MINORITY => {
                "too many other participants have failed for this one to agree on views without \
                 them"
            }
            BLIND => {
                "this participant cannot receive samples of another one that the others have \
                 received"
            }
            IN => {
                return DdsError::Isolated(
                    "this participant was excluded from its domain and has rejoined: samples that \
                     it wrote before may be lost"
                        .to_owned(),
                );
            }
            JOINING | FAILED => "the other participants have continued without this one",
            _ => {
                "the other participants have taken a decision that no remaining one can report to \
                 this one"
            }
        };
        let remedy = match self.will_rejoin() {
            true => "This participant is rejoining: try again",
            false => "This participant can no longer write or take samples: drop it and join anew",
        };
        DdsError::Isolated(format!("this participant is isolated from its domain: {why}. {remedy}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Life = Life(0);
    const SECOND: Life = Life(1);

    fn counts(membership: &MembershipState) -> (u64, u64) {
        (membership.memberships_ended(), membership.rejoins())
    }

    #[test]
    fn ended_life_does_not_affect_the_next_life() {
        let membership = MembershipState::new(true);
        assert!(membership.is_in(FIRST) && !membership.is_out());
        assert_eq!(counts(&membership), (0, 0));
        membership.end_membership(FIRST, ExitReason::Excluded);
        assert!(membership.is_out() && !membership.is_out_for_good() && membership.is_over(FIRST));
        assert!(membership.error().to_string().contains("is rejoining"));
        assert_eq!((counts(&membership), membership.next_life()), ((1, 0), SECOND));
        membership.begin(SECOND, NodeId(7), Arc::new(|_| false));
        assert!(membership.is_out() && membership.is_joining() && !membership.is_over(SECOND));
        assert_eq!((counts(&membership), membership.next_life()), ((1, 0), SECOND));
        membership.end_membership(SECOND, ExitReason::Excluded);
        assert!(
            !membership.is_joining() && membership.is_over(SECOND),
            "second life was never admitted"
        );
        assert_eq!((counts(&membership), membership.next_life()), ((1, 0), SECOND));
        membership.begin(SECOND, NodeId(8), Arc::new(|node| node == NodeId(7)));
        assert!(membership.is_stopped(NodeId(7)) && !membership.is_stopped(NodeId(8)));
        membership.begin_membership(SECOND, None);
        assert!(membership.is_in(SECOND) && !membership.is_in(FIRST));
        assert!(membership.is_evicted_from(FIRST) && !membership.is_evicted());
        membership.end_membership(FIRST, ExitReason::Excluded);
        assert!(membership.is_in(SECOND), "first life is already over");
        assert_eq!((counts(&membership), membership.node()), ((1, 1), NodeId(8)));
        membership.end_membership(SECOND, ExitReason::Left);
        assert!(membership.is_out_for_good());
        assert!(matches!(membership.error(), DdsError::AlreadyDeleted(_)));
    }

    #[test]
    fn participant_without_rejoin_is_out_permanently() {
        let membership = MembershipState::new(false);
        membership.end_membership(FIRST, ExitReason::Excluded);
        assert!(
            membership.is_out_for_good() && membership.error().to_string().contains("join anew")
        );
        membership.end_membership(FIRST, ExitReason::Left);
        assert!(matches!(membership.error(), DdsError::AlreadyDeleted(_)));
    }
}
