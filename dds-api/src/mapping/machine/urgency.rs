//! TRANSPORT_PRIORITY: what of this participant's goes first (I-241).
//!
//! A stream goes by its writer, one that is received by the writer at its other end, and an ordered topic by the greatest of
//! those who write there, for its samples come in one order. A reader goes by the greatest of the writers that it is matched with.
//!
//! Owns: which priority that is. Never does: put anything in order; the node does, and whoever calls listeners.

use std::collections::{BTreeMap, BTreeSet};

use derecho_core::ids::{NodeId, RegionId};
use derecho_core::node::{Origin, Path};

use super::ParticipantMachine;
use crate::mapping::endpoint::Endpoint;
use crate::mapping::policies::Policies;

/// See the [module](self).
#[derive(Default)]
pub(super) struct Urgency {
    /// Some endpoint has, or had, another priority than 0.
    is_used: bool,
    /// Topics of which something may have another priority than before.
    topics: BTreeSet<String>,
}

/// TRANSPORT_PRIORITY of a writer; none of a reader.
fn priority_of(endpoint: &Endpoint) -> Option<i32> {
    match &*endpoint.policies {
        Policies::Offered { writer, .. } => Some(writer.transport_priority.value),
        Policies::Requested { .. } => None,
    }
}

impl ParticipantMachine {
    /// An endpoint was matched with one here, or is lost to it, or is one here and another one than before.
    pub(super) fn weigh_later(&mut self, endpoint: &Endpoint) {
        let Urgency { is_used, topics } = &mut self.urgency;
        *is_used |= priority_of(endpoint).is_some_and(|priority| priority != 0);
        if *is_used && !topics.contains(&endpoint.topic) {
            topics.insert(endpoint.topic.clone());
        }
    }

    /// Gives all of these topics the priorities that they have by now.
    pub(super) fn weigh(&mut self) {
        while let Some(topic) = self.urgency.topics.pop_first() {
            let own: Vec<u64> = self.by_topic.get(&topic).into_iter().flatten().copied().collect();
            let mut ordered: BTreeMap<u64, Option<i32>> = BTreeMap::new();
            for id in own {
                let Some(endpoint) = self.own(id) else { continue };
                let (is_ordered, key) = (endpoint.level.is_ordered(), endpoint.key());
                let priority = match priority_of(endpoint) {
                    Some(priority) => {
                        let stream = Path::Stream(RegionId(endpoint.stream));
                        if !is_ordered {
                            self.group.node_mut().set_priority(stream, priority);
                        }
                        Some(priority)
                    }
                    None => self.weigh_reader(id),
                };
                if is_ordered {
                    let greatest = ordered.entry(key).or_default();
                    *greatest = (*greatest).max(priority);
                }
            }
            for (key, priority) in ordered {
                self.atomic.prioritize(&mut self.group, key, priority.unwrap_or(0));
            }
        }
    }

    /// Gives a reader and what it subscribes to their priorities; returns the greatest.
    fn weigh_reader(&mut self, id: u64) -> Option<i32> {
        let reader = self.readers.get(&id)?;
        let me = self.group.node().id();
        let of = |node: NodeId, id: u64| {
            let own = self.writers.get(&id).map(|writer| &writer.endpoint);
            let own = own.filter(|_| node == me);
            own.or_else(|| self.group.state().endpoint(node, id)).and_then(priority_of)
        };
        let greatest = reader.partners.matched().filter_map(|(node, id)| of(node, id)).max();
        reader.shared.set_priority(greatest.unwrap_or(0));
        let node_of = |origin| match origin {
            Origin::Own => Some(me),
            Origin::Peer(peer) => self.group.node().node_of(peer),
        };
        let subscribed = reader.subscriptions.iter().filter_map(|(subscription, (origin, id))| {
            Some((Path::Subscription(*subscription), of(node_of(*origin)?, *id)?))
        });
        let subscribed: Vec<(Path, i32)> = subscribed.collect();
        let node = self.group.node_mut();
        subscribed.into_iter().for_each(|(path, priority)| node.set_priority(path, priority));
        greatest
    }

    /// Whether some topic is to be looked at.
    pub(super) fn is_to_weigh(&self) -> bool {
        !self.urgency.topics.is_empty()
    }
}
