//! Tree of the visited states, from which a trace to any of them is found.
//!
//! Owns: the predecessor of each state. Never does: keep the states.

/// Visited states by number, each with its predecessor and the event that led from there.
pub(crate) struct StateTree<E>(Vec<TreeEdge<E>>);

/// Way by which a state was reached first.
struct TreeEdge<E> {
    /// Number of the predecessor.
    from: u32,
    event: E,
}

impl<E: Copy> StateTree<E> {
    /// Creates the tree of a first state, which has number zero.
    pub(crate) fn new() -> StateTree<E> {
        StateTree(Vec::new())
    }

    /// Adds a state that an event reaches from another one. Returns its number.
    pub(crate) fn add(&mut self, from: u32, event: E) -> u32 {
        self.0.push(TreeEdge { from, event });
        self.0.len() as u32
    }

    /// Number of states.
    pub(crate) fn count(&self) -> usize {
        self.0.len() + 1
    }

    /// Returns the events that lead from the first state to this one.
    pub(crate) fn events_to(&self, mut state: u32) -> Vec<E> {
        let mut events = Vec::new();
        while state != 0 {
            let edge = &self.0[state as usize - 1];
            events.push(edge.event);
            state = edge.from;
        }
        events.reverse();
        events
    }
}
