//! Endpoints of ordered topics. Endpoints that contradict the present ones are excluded.
//!
//! ```text
//!   announced ──> agrees with present ones? ── yes ──> included ──> gone
//!                                            └ no ───> excluded ──those gone──> included (I-178)
//! ```
//! Owns: the endpoints of a key that belong together. Never does: decide the consequences.

use std::collections::{BTreeMap, BTreeSet};

use derecho_core::ids::NodeId;

use super::endpoint::Endpoint;

/// An endpoint: its participant and its id.
pub(super) type EndpointId = (NodeId, u64);

/// All endpoints by participant.
pub(super) type Endpoints = BTreeMap<NodeId, BTreeMap<u64, Endpoint>>;

/// Excluded endpoints of each key, in the order of their announcement.
pub(super) type ExcludedEndpoints = BTreeMap<u64, Vec<EndpointId>>;

/// See the [module](self).
#[derive(Default)]
pub(super) struct TopicEndpoints {
    included: BTreeMap<u64, BTreeSet<EndpointId>>,
    excluded: ExcludedEndpoints,
}

impl TopicEndpoints {
    /// Participation of all endpoints of ordered topics except these excluded ones.
    pub(super) fn restored(
        endpoints: &Endpoints,
        mut left_out: ExcludedEndpoints,
    ) -> TopicEndpoints {
        let mut included: BTreeMap<u64, BTreeSet<EndpointId>> = BTreeMap::new();
        let is_of =
            |key: u64, who: &EndpointId| found(endpoints, *who).is_some_and(|it| it.key() == key);
        left_out.iter_mut().for_each(|(key, all)| all.retain(|who| is_of(*key, who)));
        left_out.retain(|_, all| !all.is_empty());
        let all = endpoints.iter().flat_map(|(node, all)| all.iter().map(move |it| (*node, it)));
        for (node, (id, endpoint)) in all.filter(|(_, (_, it))| it.level.is_ordered()) {
            let key = endpoint.key();
            if !left_out.get(&key).is_some_and(|all| all.contains(&(node, *id))) {
                included.entry(key).or_default().insert((node, *id));
            }
        }
        TopicEndpoints { included, excluded: left_out }
    }

    /// Keys with participating endpoints.
    pub(super) fn keys(&self) -> impl Iterator<Item = u64> {
        self.included.keys().copied()
    }

    /// Whether the key has a participating endpoint.
    pub(super) fn has(&self, key: u64) -> bool {
        self.included.contains_key(&key)
    }

    /// Participating endpoints.
    pub(super) fn of(&self, key: u64) -> impl Iterator<Item = EndpointId> {
        self.included.get(&key).into_iter().flatten().copied()
    }

    /// Excluded endpoints of all keys.
    pub(super) fn excluded(&self) -> &ExcludedEndpoints {
        &self.excluded
    }

    /// Whether an endpoint of this key is excluded.
    pub(super) fn is_excluded(&self, key: u64, endpoint: EndpointId) -> bool {
        self.excluded.get(&key).is_some_and(|all| all.contains(&endpoint))
    }

    /// Adds an announced endpoint.
    ///
    /// # Errors
    /// Reason why the endpoint is excluded, if it is.
    pub(super) fn include(
        &mut self,
        key: u64,
        endpoint: EndpointId,
        endpoints: &Endpoints,
    ) -> Result<(), String> {
        let Some(why) = self.exclusion_reason(key, endpoint, endpoints) else {
            self.included.entry(key).or_default().insert(endpoint);
            return Ok(());
        };
        self.excluded.entry(key).or_default().push(endpoint);
        Err(why)
    }

    /// Removes an endpoint.
    pub(super) fn leave(&mut self, key: u64, endpoint: EndpointId) {
        if let Some(included) = self.included.get_mut(&key) {
            included.remove(&endpoint);
            if included.is_empty() {
                self.included.remove(&key);
            }
        }
        if let Some(left_out) = self.excluded.get_mut(&key) {
            left_out.retain(|it| *it != endpoint);
            if left_out.is_empty() {
                self.excluded.remove(&key);
            }
        }
    }

    /// Includes excluded endpoints that agree with all participating ones. Returns whether there
    /// are any.
    pub(super) fn admit(&mut self, key: u64, endpoints: &Endpoints) -> bool {
        let waiting = self.excluded.remove(&key).unwrap_or_default();
        let count = waiting.len();
        for endpoint in waiting {
            // Endpoints that still contradict are excluded again and keep their order.
            let _ = self.include(key, endpoint, endpoints);
        }
        self.excluded.get(&key).map_or(0, Vec::len) < count
    }

    /// Reason why an endpoint cannot participate; `None` if it can.
    pub(super) fn exclusion_reason(
        &self,
        key: u64,
        endpoint: EndpointId,
        endpoints: &Endpoints,
    ) -> Option<String> {
        let first = found(endpoints, self.of(key).next()?)?;
        first.sharing_conflict(found(endpoints, endpoint)?)
    }
}

fn found(endpoints: &Endpoints, (node, id): EndpointId) -> Option<&Endpoint> {
    endpoints.get(&node)?.get(&id)
}
