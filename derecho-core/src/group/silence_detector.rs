//! Detection of silent members: when an awaited member is suspected without evidence of a failure.
//!
//! Owns: the times. Never does: decide the consequences of a suspicion, or suspect a member
//! for which no node waits: a member that sleeps, or is held in a debugger while nothing
//! happens, harms nobody.
//!
//! ```text
//!   awaited ── silent for a quarter of the limit ──> asked ("are you there?")
//!           ── silent for the limit ──> suspected
//! ```
//! Uncertain suspicions are gathered for a short time, so that members that fail together
//! are suspected together.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::ids::{NodeId, Time};

/// Timeouts for other members, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemberTimeouts {
    /// Maximum silence of an awaited member before it is suspected; `None` for no limit.
    pub member_timeout: Option<u64>,
    /// Time for which uncertain suspicions are gathered before they are published.
    pub gather: u64,
}

impl MemberTimeouts {
    /// Time for which a member that cannot decide waits for members that may have decided.
    pub fn decision_timeout(&self) -> u64 {
        self.member_timeout.unwrap_or(DEFAULT_TIMEOUT)
    }
}

impl Default for MemberTimeouts {
    fn default() -> MemberTimeouts {
        MemberTimeouts { member_timeout: Some(DEFAULT_TIMEOUT), gather: 2_000_000 }
    }
}

const DEFAULT_TIMEOUT: u64 = 1_000_000_000;

/// Number of questions to a silent member within the limit.
const ASKS: u64 = 4;

struct AwaitedMember {
    /// Start of the silence while the member is awaited.
    since: Time,
    asked_at: Time,
}

/// Times of awaited and doubted members. See the [module](self).
pub struct SilenceDetector {
    timeouts: MemberTimeouts,
    awaited: BTreeMap<NodeId, AwaitedMember>,
    /// Unpublished suspects, each with the time of the first doubt.
    gathered: BTreeMap<NodeId, Time>,
    /// Time of the last look at which this node waited for a member.
    looked: Option<Time>,
}

/// Actions that are due.
#[derive(Default, PartialEq, Eq, Debug)]
pub struct DetectorActions {
    /// Members to ask whether they are there.
    pub ask: Vec<NodeId>,
    /// Members to suspect.
    pub suspect: Vec<NodeId>,
}

impl SilenceDetector {
    /// Creates a detector without awaited members.
    pub fn new(timeouts: MemberTimeouts) -> SilenceDetector {
        SilenceDetector {
            timeouts,
            awaited: BTreeMap::new(),
            gathered: BTreeMap::new(),
            looked: None,
        }
    }

    /// Notes an answer: the node is alive and receives messages.
    pub fn answered(&mut self, node: NodeId, now: Time) {
        if let Some(awaited) = self.awaited.get_mut(&node) {
            (awaited.since, awaited.asked_at) = (now, now);
        }
    }

    /// Notes that a node has probably failed. The node is suspected when the gathering
    /// time is over.
    pub fn doubts(&mut self, node: NodeId, now: Time) {
        self.gathered.entry(node).or_insert(now);
    }

    /// Forgets everything about a node.
    pub fn forget(&mut self, node: NodeId) {
        self.awaited.remove(&node);
        self.gathered.remove(&node);
    }

    /// Returns the actions that are due. `awaited`: exactly the nodes that are awaited now.
    pub fn look(&mut self, awaited: &[NodeId], now: Time) -> DetectorActions {
        let mut due = DetectorActions::default();
        if let Some(timeout) = self.timeouts.member_timeout {
            // I-65: a node that was stopped itself has not waited for that time.
            let gap = self.looked.is_some_and(|looked| now.since(looked) > timeout / 2);
            self.awaited.retain(|node, _| awaited.contains(node));
            for &node in awaited {
                let fresh = AwaitedMember { since: now, asked_at: now };
                let state = self.awaited.entry(node).or_insert(fresh);
                if gap {
                    (state.since, state.asked_at) = (now, now);
                }
                if now.since(state.since) >= timeout {
                    self.gathered.entry(node).or_insert(now);
                } else if now.since(state.asked_at) >= timeout / ASKS {
                    state.asked_at = now;
                    due.ask.push(node);
                }
            }
            self.looked = (!awaited.is_empty()).then_some(now);
        }
        if self.gathered.values().any(|&since| now.since(since) >= self.timeouts.gather) {
            due.suspect.extend(core::mem::take(&mut self.gathered).into_keys());
        }
        due
    }

    /// Latest time of the next action.
    pub fn wants_turn_at(&self) -> Option<Time> {
        let gathered = self.gathered.values().map(|since| since.after(self.timeouts.gather));
        let asked = self.timeouts.member_timeout.into_iter().flat_map(|timeout| {
            self.awaited.values().map(move |awaited| awaited.asked_at.after(timeout / ASKS))
        });
        gathered.chain(asked).min()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const A: NodeId = NodeId(1);
    const B: NodeId = NodeId(2);
    const TIMEOUTS: MemberTimeouts = MemberTimeouts { member_timeout: Some(1000), gather: 50 };

    /// Looks at the times that the detector requests until `end`. Returns the first suspects, and
    /// the time.
    fn run(
        detector: &mut SilenceDetector,
        awaited: &[NodeId],
        from: u64,
        end: u64,
    ) -> Option<(u64, Vec<NodeId>)> {
        let mut now = from;
        while now <= end {
            let due = detector.look(awaited, Time(now));
            if !due.suspect.is_empty() {
                return Some((now, due.suspect));
            }
            now = detector.wants_turn_at().map_or(end + 1, |at| at.0.max(now + 1));
        }
        None
    }

    #[test]
    fn silent_awaited_members_are_suspected_together_after_timeout() {
        let mut detector = SilenceDetector::new(TIMEOUTS);
        assert_eq!(run(&mut detector, &[A, B], 0, 5000), Some((1050, [A, B].into())));
    }

    #[test]
    fn member_that_answers_or_is_not_awaited_is_not_suspected() {
        let mut detector = SilenceDetector::new(TIMEOUTS);
        for now in (0..10_000).step_by(100) {
            assert_eq!(detector.look(&[A], Time(now)).suspect, []);
            detector.answered(A, Time(now));
        }
        assert_eq!(detector.look(&[], Time(10_000)), DetectorActions::default());
        assert_eq!(detector.wants_turn_at(), None);
        assert_eq!(detector.look(&[], Time(90_000)), DetectorActions::default());
    }

    /// I-65: no member is suspected for the lateness of the node that waits.
    #[test]
    fn node_that_was_stopped_restarts_timeouts_of_others() {
        let mut detector = SilenceDetector::new(TIMEOUTS);
        detector.look(&[A], Time(0));
        assert_eq!(
            detector.look(&[A], Time(600)),
            DetectorActions::default(),
            "it was not there itself"
        );
        assert_eq!(run(&mut detector, &[A], 601, 5000).map(|(at, _)| at), Some(1650));
    }

    #[test]
    fn doubts_are_gathered() {
        let mut detector = SilenceDetector::new(TIMEOUTS);
        detector.doubts(A, Time(10));
        detector.doubts(B, Time(40));
        assert_eq!(run(&mut detector, &[], 40, 100), Some((60, [A, B].into())));
        let timeouts = MemberTimeouts { member_timeout: None, ..TIMEOUTS };
        assert_eq!(run(&mut SilenceDetector::new(timeouts), &[A], 0, 1 << 40), None);
    }
}
