//! Who is waited for and says nothing: when a member is suspected although nobody knows that it failed.
//!
//! Owns: the times. Never does: decide what a suspicion leads to, or suspect somebody for whom nobody
//! waits: a member that sleeps, or sits in a debugger while nothing happens, harms nobody.
//!
//! ```text
//!   awaited ── a quarter of the limit, silent ──> asked ("are you there?") ── the limit ──> suspected
//! ```
//! Uncertain suspicions are gathered for a moment, so that what fails together is suspected together.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::ids::{NodeId, Time};

/// How patient a member is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Patience {
    /// A member that others wait for and that says nothing for so long is suspected; `None`: never.
    pub member_timeout: Option<u64>,
    /// So long uncertain suspicions are gathered before they are published.
    pub gather: u64,
}

impl Patience {
    /// So long a member that can decide nothing waits for others who perhaps have.
    pub fn word_timeout(&self) -> u64 {
        self.member_timeout.unwrap_or(DEFAULT_TIMEOUT)
    }
}

impl Default for Patience {
    fn default() -> Patience {
        Patience { member_timeout: Some(DEFAULT_TIMEOUT), gather: 2_000_000 }
    }
}

const DEFAULT_TIMEOUT: u64 = 1_000_000_000;

/// So many times within the limit a silent member is asked.
const ASKS: u64 = 4;

struct Awaited {
    /// Since when it has been silent, as far as anybody waits for it.
    since: Time,
    asked: Time,
}

/// See the [module](self).
pub struct Watch {
    patience: Patience,
    awaited: BTreeMap<NodeId, Awaited>,
    /// Suspects that are not published yet, and since when.
    gathered: BTreeMap<NodeId, Time>,
    /// When this node looked last while it waited for somebody.
    looked: Option<Time>,
}

/// What has to be done.
#[derive(Default, PartialEq, Eq, Debug)]
pub struct Due {
    /// These are to be asked whether they are there.
    pub ask: Vec<NodeId>,
    /// These are to be suspected.
    pub suspect: Vec<NodeId>,
}

impl Watch {
    /// Watches nobody.
    pub fn new(patience: Patience) -> Watch {
        Watch { patience, awaited: BTreeMap::new(), gathered: BTreeMap::new(), looked: None }
    }

    /// A node has answered: it is alive, and hears.
    pub fn heard(&mut self, node: NodeId, now: Time) {
        if let Some(awaited) = self.awaited.get_mut(&node) {
            (awaited.since, awaited.asked) = (now, now);
        }
    }

    /// A node has most likely failed; it is suspected in a moment.
    pub fn doubts(&mut self, node: NodeId, now: Time) {
        self.gathered.entry(node).or_insert(now);
    }

    /// Nothing is known of a node any more.
    pub fn forget(&mut self, node: NodeId) {
        self.awaited.remove(&node);
        self.gathered.remove(&node);
    }

    /// What is due, now that exactly these nodes are waited for.
    pub fn look(&mut self, awaited: &[NodeId], now: Time) -> Due {
        let mut due = Due::default();
        if let Some(timeout) = self.patience.member_timeout {
            // Whoever was stopped itself has not waited all that time.
            let gap = self.looked.is_some_and(|looked| now.since(looked) > timeout / 2);
            self.awaited.retain(|node, _| awaited.contains(node));
            for &node in awaited {
                let fresh = Awaited { since: now, asked: now };
                let state = self.awaited.entry(node).or_insert(fresh);
                if gap {
                    (state.since, state.asked) = (now, now);
                }
                if now.since(state.since) >= timeout {
                    self.gathered.entry(node).or_insert(now);
                } else if now.since(state.asked) >= timeout / ASKS {
                    state.asked = now;
                    due.ask.push(node);
                }
            }
            self.looked = (!awaited.is_empty()).then_some(now);
        }
        if self.gathered.values().any(|&since| now.since(since) >= self.patience.gather) {
            due.suspect.extend(core::mem::take(&mut self.gathered).into_keys());
        }
        due
    }

    /// When something is due at the latest.
    pub fn wants_turn_at(&self) -> Option<Time> {
        let gathered = self.gathered.values().map(|since| since.after(self.patience.gather));
        let asked = self.patience.member_timeout.into_iter().flat_map(|timeout| {
            self.awaited.values().map(move |awaited| awaited.asked.after(timeout / ASKS))
        });
        gathered.chain(asked).min()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const A: NodeId = NodeId(1);
    const B: NodeId = NodeId(2);
    const PATIENCE: Patience = Patience { member_timeout: Some(1000), gather: 50 };

    /// Looks at whatever moments it wants to until `end`; returns who was suspected, and when first.
    fn run(
        watch: &mut Watch,
        awaited: &[NodeId],
        from: u64,
        end: u64,
    ) -> Option<(u64, Vec<NodeId>)> {
        let mut now = from;
        while now <= end {
            let due = watch.look(awaited, Time(now));
            if !due.suspect.is_empty() {
                return Some((now, due.suspect));
            }
            now = watch.wants_turn_at().map_or(end + 1, |at| at.0.max(now + 1));
        }
        None
    }

    #[test]
    fn whoever_is_awaited_and_silent_is_asked_and_then_suspected_with_the_others() {
        let mut watch = Watch::new(PATIENCE);
        assert_eq!(run(&mut watch, &[A, B], 0, 5000), Some((1050, [A, B].into())));
    }

    #[test]
    fn whoever_answers_or_is_not_awaited_is_left_alone() {
        let mut watch = Watch::new(PATIENCE);
        for now in (0..10_000).step_by(100) {
            assert_eq!(watch.look(&[A], Time(now)).suspect, []);
            watch.heard(A, Time(now));
        }
        assert_eq!(watch.look(&[], Time(10_000)), Due::default());
        assert_eq!(watch.wants_turn_at(), None);
        assert_eq!(watch.look(&[], Time(90_000)), Due::default());
    }

    #[test]
    fn whoever_was_stopped_itself_begins_anew() {
        let mut watch = Watch::new(PATIENCE);
        watch.look(&[A], Time(0));
        assert_eq!(watch.look(&[A], Time(600)), Due::default(), "it was not there itself");
        assert_eq!(run(&mut watch, &[A], 601, 5000).map(|(at, _)| at), Some(1650));
    }

    #[test]
    fn doubts_are_gathered() {
        let mut watch = Watch::new(PATIENCE);
        watch.doubts(A, Time(10));
        watch.doubts(B, Time(40));
        assert_eq!(run(&mut watch, &[], 40, 100), Some((60, [A, B].into())));
        let patience = Patience { member_timeout: None, ..PATIENCE };
        assert_eq!(run(&mut Watch::new(patience), &[A], 0, 1 << 40), None);
    }
}
