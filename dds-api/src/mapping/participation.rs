//! Who takes part in which ordered topic, and who is left out as long as others mean something else by it.
//!
//! ```text
//!   announced ──> fits those that take part? ── yes ──> takes part ──> gone
//!                                             └ no ───> left out ──> those are gone: takes part (I-178)
//! ```
//! Owns: which endpoints of a key belong together. Never does: say what follows from that.

use std::collections::{BTreeMap, BTreeSet};

use derecho_core::ids::NodeId;

use super::endpoint::Endpoint;

/// An endpoint: who has it, and what that calls it.
pub(super) type Who = (NodeId, u64);

/// All endpoints, by who has them.
pub(super) type Endpoints = BTreeMap<NodeId, BTreeMap<u64, Endpoint>>;

/// Of each key those left out, in the order in which they were announced.
pub(super) type LeftOut = BTreeMap<u64, Vec<Who>>;

/// See the [module](self).
#[derive(Default)]
pub(super) struct Participation {
    inside: BTreeMap<u64, BTreeSet<Who>>,
    left_out: LeftOut,
}

impl Participation {
    /// All endpoints of ordered topics, of which these were left out.
    pub(super) fn restored(endpoints: &Endpoints, mut left_out: LeftOut) -> Participation {
        let mut inside: BTreeMap<u64, BTreeSet<Who>> = BTreeMap::new();
        let is_of = |key: u64, who: &Who| found(endpoints, *who).is_some_and(|it| it.key() == key);
        left_out.iter_mut().for_each(|(key, all)| all.retain(|who| is_of(*key, who)));
        left_out.retain(|_, all| !all.is_empty());
        let all = endpoints.iter().flat_map(|(node, all)| all.iter().map(move |it| (*node, it)));
        for (node, (id, endpoint)) in all.filter(|(_, (_, it))| it.level.is_ordered()) {
            let key = endpoint.key();
            if !left_out.get(&key).is_some_and(|all| all.contains(&(node, *id))) {
                inside.entry(key).or_default().insert((node, *id));
            }
        }
        Participation { inside, left_out }
    }

    /// The keys that somebody takes part in.
    pub(super) fn keys(&self) -> impl Iterator<Item = u64> {
        self.inside.keys().copied()
    }

    /// Whether somebody takes part there.
    pub(super) fn has(&self, key: u64) -> bool {
        self.inside.contains_key(&key)
    }

    /// Those that take part.
    pub(super) fn of(&self, key: u64) -> impl Iterator<Item = Who> {
        self.inside.get(&key).into_iter().flatten().copied()
    }

    /// Those that are left out, of all keys.
    pub(super) fn left_out(&self) -> &LeftOut {
        &self.left_out
    }

    /// Whether an endpoint of this key is left out.
    pub(super) fn is_left_out(&self, key: u64, who: Who) -> bool {
        self.left_out.get(&key).is_some_and(|all| all.contains(&who))
    }

    /// An endpoint is announced.
    ///
    /// # Errors
    /// Why it is left out, if it is.
    pub(super) fn enter(
        &mut self,
        (key, who): (u64, Who),
        endpoints: &Endpoints,
    ) -> Result<(), String> {
        let Some(why) = self.objection(key, who, endpoints) else {
            self.inside.entry(key).or_default().insert(who);
            return Ok(());
        };
        self.left_out.entry(key).or_default().push(who);
        Err(why)
    }

    /// An endpoint is no more.
    pub(super) fn leave(&mut self, key: u64, who: Who) {
        if let Some(inside) = self.inside.get_mut(&key) {
            inside.remove(&who);
            if inside.is_empty() {
                self.inside.remove(&key);
            }
        }
        if let Some(left_out) = self.left_out.get_mut(&key) {
            left_out.retain(|it| *it != who);
            if left_out.is_empty() {
                self.left_out.remove(&key);
            }
        }
    }

    /// Those left out that go with all who take part now take part as well. Says whether there are any.
    pub(super) fn let_in(&mut self, key: u64, endpoints: &Endpoints) -> bool {
        let waiting = self.left_out.remove(&key).unwrap_or_default();
        let count = waiting.len();
        for who in waiting {
            // Those that do not are left out again, each behind the one that it was behind.
            let _ = self.enter((key, who), endpoints);
        }
        self.left_out.get(&key).map_or(0, Vec::len) < count
    }

    /// Why an endpoint cannot take part, if it cannot.
    pub(super) fn objection(&self, key: u64, who: Who, endpoints: &Endpoints) -> Option<String> {
        let first = found(endpoints, self.of(key).next()?)?;
        first.parts_from(found(endpoints, who)?)
    }
}

fn found(endpoints: &Endpoints, (node, id): Who) -> Option<&Endpoint> {
    endpoints.get(&node)?.get(&id)
}
