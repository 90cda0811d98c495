//! Exploration of every order of events, breadth first: the first trace found is one of
//! the shortest.
//!
//! Owns: the set of visited states. Never does: know what a state means.

use std::collections::HashSet;
use std::fmt;
use std::hash::{BuildHasherDefault, Hash, Hasher};

use crate::event::Event;
use crate::intern::QuickHasher;
use crate::property::Violation;
use crate::setting::Setting;
use crate::state_tree::StateTree;
use crate::world::{ModelState, World};

/// Result of an exploration.
#[derive(Debug)]
pub struct Explored {
    /// Number of different states.
    pub states: usize,
    /// Longest sequence of events.
    pub depth: usize,
    /// Number of states in which no live node has anything left to send.
    pub quiet: usize,
    /// Number of different states of single nodes.
    pub of_nodes: usize,
    /// True if nothing was left out.
    pub complete: bool,
    /// Violated property, if any.
    pub failure: Option<Failure>,
}

/// Violation of a property.
pub struct Failure {
    /// Name of the property.
    pub property: &'static str,
    /// Events in order.
    pub events: Vec<Event>,
    description: Vec<String>,
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "violated: {}", self.property)?;
        self.description.iter().try_for_each(|line| writeln!(f, "  {line}"))
    }
}

/// Explores all events of this setting, up to `most` states.
pub fn explore(setting: Setting, most: usize) -> Explored {
    let mut world = World::new(setting);
    let start = world.begin();
    let mut seen: HashSet<u64, BuildHasherDefault<QuickHasher>> = HashSet::default();
    seen.insert(fingerprint(&start));
    let mut tree = StateTree::new();
    let mut frontier = vec![(start, 0u32)];
    let mut found =
        Explored { states: 1, depth: 0, quiet: 0, of_nodes: 0, complete: true, failure: None };
    let mut events = Vec::new();
    'deeper: while !frontier.is_empty() {
        let mut next_frontier = Vec::new();
        for (state, place) in &frontier {
            if world.due(state).is_none() {
                found.quiet += 1;
                if let Err((broken, way)) = world.check_progress(state) {
                    found.failure = Some(trace(&tree, *place, &way, broken, setting));
                    break 'deeper;
                }
            }
            world.events(state, &mut events);
            for &event in &events {
                let next = match world.apply(state, event) {
                    Ok(next) => next,
                    Err(broken) => {
                        found.failure = Some(trace(&tree, *place, &[event], broken, setting));
                        break 'deeper;
                    }
                };
                if seen.insert(fingerprint(&next)) {
                    next_frontier.push((next, tree.add(*place, event.pack())));
                }
            }
            if tree.count() > most {
                found.complete = false;
                break 'deeper;
            }
        }
        found.depth += 1;
        frontier = next_frontier;
    }
    found.states = tree.count();
    found.of_nodes = world.node_table.count();
    found
}

/// Replays given events, except those that are impossible, then lets the group continue without
/// further faults.
pub fn replay(setting: Setting, events: &[Event]) -> Result<(), Failure> {
    let mut world = World::new(setting);
    let mut state = world.begin();
    let mut told = Vec::new();
    let mut possible = Vec::new();
    for (count, &event) in events.iter().enumerate() {
        world.events(&state, &mut possible);
        if !possible.contains(&event) {
            continue;
        }
        told.push(world.tell(&state, event));
        state = world.apply(&state, event).map_err(|broken| {
            let events = events[..=count].to_vec();
            Failure { property: broken.0, events, description: told.clone() }
        })?;
    }
    world.check_progress(&state).map_err(|(broken, way)| {
        let all: Vec<Event> = events.iter().chain(&way).copied().collect();
        Failure { property: broken.0, description: tell(setting, &all), events: all }
    })
}

fn trace(
    tree: &StateTree<u16>,
    place: u32,
    then: &[Event],
    broken: Violation,
    setting: Setting,
) -> Failure {
    let before = tree.events_to(place).into_iter().map(Event::unpack);
    let events: Vec<Event> = before.chain(then.iter().copied()).collect();
    Failure { property: broken.0, description: tell(setting, &events), events }
}

fn tell(setting: Setting, events: &[Event]) -> Vec<String> {
    let mut world = World::new(setting);
    let mut state = world.begin();
    let mut told = Vec::new();
    for &event in events {
        told.push(world.tell(&state, event));
        match world.apply(&state, event) {
            Ok(next) => state = next,
            Err(_) => break,
        }
    }
    told.extend((0..setting.nodes()).map(|node| {
        let look = world.look(&state, node);
        format!(
            "{node}: {:?} view {} of {:#b}, suspects {:#b}, wedged {}",
            look.end, look.number, look.members, look.suspects, look.wedged
        )
    }));
    told
}

fn fingerprint(state: &ModelState) -> u64 {
    let mut hasher = QuickHasher::default();
    state.hash(&mut hasher);
    hasher.finish()
}
