//! The walk of one subgroup from layout to layout, with view changes in between at every point.
//!
//! Owns: the possible next events, and every order of them. Never does: decide where an epoch ends,
//! or which epochs there are: [`MemberReport`](derecho_core::group::report::MemberReport) and
//! [`Registry`](derecho_core::group::registry::Registry) are derecho-core's own. Streams, lines and
//! each member's steps are the model's, by the rules of `docs/internals/protocol/README.md`; the
//! other model checks that a view change has one decision.
//!
//! ```text
//!   change of layout    announced (closed, an end in its stream) -> complete -> begun, or left
//!   view change         wedged, with a report -> decided (the cut) -> installed -> announced
//!                       -> begun
//! ```

mod member;
mod progress;
mod rules;
mod steps;

use std::collections::HashSet;
use std::fmt;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::rc::Rc;

pub use member::MOST;
use member::WalkMember;
pub use progress::{AGREEMENT, BEGUN, COME_TO_CUT, ONE_START, RESTS, SEQUENCE};

use crate::intern::QuickHasher;
use crate::state_tree::StateTree;
use progress::EpochRecord;

/// A member's part in a layout: node, whether it reads, whether it sends.
pub type LayoutPart = (usize, bool, bool);

/// Events that may happen to a subgroup, with their limits.
#[derive(Clone, Copy, Debug)]
pub struct WalkSetting {
    /// Number of members of the group, from its beginning on.
    pub nodes: usize,
    /// Successive layouts; all members begin in the first one.
    pub layouts: &'static [&'static [LayoutPart]],
    /// Number of messages that are written.
    pub messages: u8,
    /// Number of view changes.
    pub views: u8,
    /// Number of members that die; each causes a view change.
    pub crashes: u8,
    /// Number of members that are excluded while they live, and continue for a while.
    pub doubts: u8,
    /// Error in the model's rules.
    pub planted: Option<PlantedError>,
}

/// Error that can be planted into a member's steps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PlantedError {
    /// A beginning is announced to newcomers as soon as the sender has put its end.
    DebtEarly,
    /// An epoch counts as complete before the other members have shown that they have
    /// received everything.
    CompleteEarly,
    /// A member that has been told to stop continues to receive and show.
    NotStopped,
    /// A member that has ended an epoch reports what it has received beyond the end (I-56).
    BeyondTheEnd,
    /// A member reports one entry more than it has received.
    Boasts,
    /// A member that was about to begin an epoch knows where the next one begins (I-58).
    NotBegunKnows,
    /// All epochs use the same lines (I-33).
    LinesOnce,
    /// Messages below the cut are not delivered.
    CutIgnored,
    /// The next epoch begins where this member's receptions end.
    OwnStart,
    /// A member that has finished an epoch reports the start of the epoch, as a member in the
    /// midst of the epoch does (I-337).
    EndsDecidedAnew,
}

/// Event of the walk.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum WalkEvent {
    /// A member writes.
    Write(usize),
    /// The next change of layout is delivered to a member.
    Change(usize),
    /// A member takes its next step: announced, complete, begun, left, or pending starts
    /// announced.
    Step(usize),
    /// A member receives the next entry of another member.
    Receive(usize, usize),
    /// A member, the first of these, sees what the second one shows.
    See(usize, usize),
    /// A newcomer, the first of these, learns where the epoch begins in the second one's stream.
    Hear(usize, usize),
    /// A member dies.
    Crash(usize),
    /// A member stops, and reports.
    Wedge(usize),
    /// The members of these bits decide: all others are dead or excluded.
    Decide(u8),
    /// A member finishes at the cut.
    Install(usize),
}

/// Complete state of the walk.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct WalkState {
    nodes: Vec<Rc<WalkMember>>,
    /// The decision that is being installed: the continuing members, their number of layout
    /// changes, and the cut.
    decision: Option<(u8, usize, derecho_core::group::report::GroupCut)>,
    /// Members of the newest view that was decided.
    members: u8,
    view: u64,
    record: EpochRecord,
    messages: u8,
    views: u8,
    crashes: u8,
    doubts: u8,
}

/// Violated property.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WalkViolation(pub &'static str);

/// Result of a walk.
pub struct WalkResult {
    /// Number of different states.
    pub states: usize,
    /// Number of states in which only faults and writes are left to happen.
    pub quiet: usize,
    /// Number of transitions in which a member wedged between two layouts.
    pub met: usize,
    /// True if nothing was left out.
    pub complete: bool,
    /// Violated property, with the events that led to it.
    pub failure: Option<(&'static str, Vec<WalkEvent>, String)>,
}

impl fmt::Debug for WalkResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} states, {} quiet, {} met", self.states, self.quiet, self.met)?;
        match &self.failure {
            None => Ok(()),
            Some((what, way, state)) => write!(f, "\nviolated: {what}\n{way:?}\n{state}"),
        }
    }
}

/// Explores all events, up to `most` states.
pub fn walk(course: WalkSetting, most: usize) -> WalkResult {
    let start = WalkState::begin(&course);
    let mut seen: HashSet<u64, BuildHasherDefault<QuickHasher>> = HashSet::default();
    seen.insert(fingerprint(&start));
    let mut tree = StateTree::new();
    let mut frontier = vec![(start, 0_u32)];
    let mut found = WalkResult { states: 1, quiet: 0, met: 0, complete: true, failure: None };
    let mut can = Vec::new();
    while !frontier.is_empty() {
        let mut deeper = Vec::new();
        for (world, place) in &frontier {
            world.all_that_can_happen(&course, &mut can);
            if can.iter().all(|event| !world.has_to_happen(*event)) {
                found.quiet += 1;
                if let Err(wrong) = world.check_rest(&course) {
                    found.failure = Some((wrong.0, tree.events_to(*place), format!("{world:#?}")));
                    return found;
                }
            }
            for &event in &can {
                let mut next = world.clone();
                found.met += usize::from(next.meets(event));
                if let Err(wrong) = next.happen(&course, event) {
                    let mut way = tree.events_to(*place);
                    way.push(event);
                    found.failure = Some((wrong.0, way, format!("{next:#?}")));
                    return found;
                }
                if seen.insert(fingerprint(&next)) {
                    deeper.push((next, tree.add(*place, event)));
                    found.states += 1;
                }
            }
            if found.states > most {
                found.complete = false;
                return found;
            }
        }
        frontier = deeper;
    }
    found
}

fn fingerprint(world: &WalkState) -> u64 {
    let mut hasher = QuickHasher::default();
    world.hash(&mut hasher);
    hasher.finish()
}
