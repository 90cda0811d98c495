//! TRANSPORT_PRIORITY: the order in which this participant serves its traffic (I-241).
//!
//! A stream has the priority of its writer, at both ends. An ordered topic has the highest priority
//! of its writers, because its samples come in one order. A reader has the highest priority of its
//! matched writers.
//!
//! Owns: the choice of each priority. Never does: reorder anything; the node and the listener
//! thread do.

use std::collections::{BTreeMap, BTreeSet};

use derecho_core::ids::{NodeId, RegionId};
use derecho_core::node::PriorityTarget;

use super::{ParticipantMachine, WriterSubscription};
use crate::mapping::endpoint::Endpoint;
use crate::mapping::policies::EndpointPolicies;

/// See the [module](self).
#[derive(Default)]
pub(super) struct PriorityUpdates {
    /// Whether some endpoint has, or had, a priority other than 0.
    is_used: bool,
    /// Topics of which a priority may have changed.
    topics: BTreeSet<String>,
}

/// TRANSPORT_PRIORITY of a writer; `None` for a reader.
fn priority_of(endpoint: &Endpoint) -> Option<i32> {
    match &*endpoint.policies {
        EndpointPolicies::Offered { writer, .. } => Some(writer.transport_priority.value),
        EndpointPolicies::Requested { .. } => None,
    }
}

impl ParticipantMachine {
    /// Schedules an update of priorities, because an endpoint was matched here, was lost, or is a
    /// new or changed local one.
    pub(super) fn schedule_priority_update(&mut self, endpoint: &Endpoint) {
        let PriorityUpdates { is_used, topics } = &mut self.priority_updates;
        *is_used |= priority_of(endpoint).is_some_and(|priority| priority != 0);
        if *is_used && !topics.contains(&endpoint.topic) {
            topics.insert(endpoint.topic.clone());
        }
    }

    /// Updates the priorities of all scheduled topics.
    pub(super) fn update_priorities(&mut self) {
        while let Some(topic) = self.priority_updates.topics.pop_first() {
            let own: Vec<u64> = self.by_topic.get(&topic).into_iter().flatten().copied().collect();
            let mut ordered: BTreeMap<u64, Option<i32>> = BTreeMap::new();
            for id in own {
                let Some(endpoint) = self.own(id) else { continue };
                let (is_ordered, key) = (endpoint.level.is_ordered(), endpoint.key());
                let priority = match priority_of(endpoint) {
                    Some(priority) => {
                        let stream = PriorityTarget::Stream(RegionId(endpoint.stream));
                        if !is_ordered {
                            self.group.node_mut().set_priority(stream, priority);
                        }
                        Some(priority)
                    }
                    None => self.update_reader_priority(id),
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

    /// Updates the priorities of a reader and its subscriptions. Returns the highest one.
    fn update_reader_priority(&mut self, id: u64) -> Option<i32> {
        let reader = self.readers.get(&id)?;
        let me = self.group.node().id();
        let of = |node: NodeId, id: u64| {
            let own = self.writers.get(&id).map(|writer| &writer.endpoint);
            let own = own.filter(|_| node == me);
            own.or_else(|| self.group.state().endpoint(node, id)).and_then(priority_of)
        };
        let greatest = reader.partners.compatible().filter_map(|it| of(it.node, it.entity)).max();
        reader.shared.set_priority(greatest.unwrap_or(0));
        let subscribed = reader.subscriptions.iter().filter_map(|(subscription, of_it)| {
            let WriterSubscription { origin, writer, .. } = *of_it;
            Some((
                PriorityTarget::Subscription(*subscription),
                of(self.group.node().node_at(origin)?, writer)?,
            ))
        });
        let subscribed: Vec<(PriorityTarget, i32)> = subscribed.collect();
        let node = self.group.node_mut();
        subscribed.into_iter().for_each(|(path, priority)| node.set_priority(path, priority));
        greatest
    }

    /// Whether an update of priorities is scheduled.
    pub(super) fn has_priority_update(&self) -> bool {
        !self.priority_updates.topics.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::domain::{DomainParticipant, ParticipantConfig};
    use crate::infrastructure::Timeout;
    use crate::prelude::{DataReader, DataWriter, DdsType, Topic};

    #[derive(DdsType, Clone, Copy, Debug, Default)]
    struct NumberedSample {
        number: u64,
    }

    /// Priorities known to the node for local topics, named by the kind of path (stream,
    /// subscription, subgroup), and priorities of readers, known to the listener thread.
    type KnownPriorities = Vec<(&'static str, i32)>;

    impl ParticipantMachine {
        fn told_of(&self, topic: &str) -> KnownPriorities {
            let node = self.group.node();
            let mut known = KnownPriorities::new();
            for id in self.by_topic.get(topic).into_iter().flatten() {
                let Some(endpoint) = self.own(*id) else { continue };
                if endpoint.level.is_ordered() {
                    let id = self.atomic.subgroup(endpoint.key());
                    known.extend(
                        id.map(|id| ("subgroup", node.priority(PriorityTarget::Subgroup(id)))),
                    );
                } else if self.writers.contains_key(id) {
                    let path = PriorityTarget::Stream(RegionId(endpoint.stream));
                    known.push(("stream", node.priority(path)));
                }
                let Some(reader) = self.readers.get(id) else { continue };
                known.push(("reader", reader.shared.priority()));
                let paths = reader.subscriptions.keys().map(|id| PriorityTarget::Subscription(*id));
                known.extend(paths.map(|path| ("subscription", node.priority(path))));
            }
            known.sort_unstable();
            known
        }
    }

    fn known_priorities(participant: &DomainParticipant, topic: &str) -> KnownPriorities {
        participant.inner.engine.act(|machine, _, _| machine.told_of(topic))
    }

    /// Waits until a participant's node knows these priorities.
    #[track_caller]
    fn wait_for_priorities(
        participant: &DomainParticipant,
        topic: &str,
        expected: &[(&'static str, i32)],
    ) {
        let end = Instant::now() + Duration::from_secs(30);
        while known_priorities(participant, topic) != expected {
            let told = known_priorities(participant, topic);
            assert!(Instant::now() < end, "{topic}: {told:?} instead of {expected:?}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn writer(topic: &Topic<NumberedSample>, priority: i32) -> DataWriter<NumberedSample> {
        let participant = topic.participant();
        participant.writer(topic).transport_priority(priority).create().unwrap()
    }

    fn change(writer: &DataWriter<NumberedSample>, priority: i32) {
        let mut qos = writer.qos();
        qos.transport_priority.value = priority;
        writer.set_qos(&qos).unwrap();
    }

    /// A reader that is matched with all of these writers.
    fn reader(
        topic: &Topic<NumberedSample>,
        writers: &[&DataWriter<NumberedSample>],
    ) -> DataReader<NumberedSample> {
        let reader = topic.participant().reader(topic).reliable().create().unwrap();
        let wait =
            |writer: &&DataWriter<NumberedSample>| writer.wait_for_readers(1, Timeout::secs(30));
        writers.iter().map(wait).collect::<Result<Vec<()>, _>>().unwrap();
        reader
    }

    /// Two participants of one domain.
    fn two() -> (tempfile::TempDir, [DomainParticipant; 2]) {
        let folder = tempfile::tempdir().unwrap();
        let join = || {
            let config = ParticipantConfig::new().runtime_dir(folder.path().join("run"));
            DomainParticipant::with_config(0, config).unwrap()
        };
        let both = [join(), join()];
        (folder, both)
    }

    #[test]
    fn streams_have_the_priorities_of_their_writers_at_both_ends() {
        let (_folder, [here, there]) = two();
        let topic = |participant: &DomainParticipant| {
            participant.topic::<NumberedSample>("Alarm").create().unwrap()
        };
        let (first, second) = (writer(&topic(&here), 90), writer(&topic(&here), -5));
        let own = writer(&topic(&there), 40);
        let _reader = reader(&topic(&there), &[&first, &second, &own]);
        wait_for_priorities(&here, "Alarm", &[("stream", -5), ("stream", 90)]);
        let subscriptions = [("subscription", -5), ("subscription", 40), ("subscription", 90)];
        let known = [&[("reader", 90), ("stream", 40)], &subscriptions[..]].concat();
        wait_for_priorities(&there, "Alarm", &known);
        // One writer changes, and one ends.
        change(&first, 7);
        wait_for_priorities(&here, "Alarm", &[("stream", -5), ("stream", 7)]);
        drop(own);
        let subscriptions = [("subscription", -5), ("subscription", 7)];
        wait_for_priorities(&there, "Alarm", &[&[("reader", 7)], &subscriptions[..]].concat());
        change(&first, 0);
        change(&second, 0);
        wait_for_priorities(&here, "Alarm", &[("stream", 0), ("stream", 0)]);
        wait_for_priorities(
            &there,
            "Alarm",
            &[("reader", 0), ("subscription", 0), ("subscription", 0)],
        );
    }

    /// Samples in one order cannot overtake each other, so their topic has the highest priority of
    /// its writers.
    #[test]
    fn an_ordered_topic_has_the_greatest_priority_of_its_writers() {
        let (_folder, [here, there]) = two();
        let topic = |participant: &DomainParticipant| {
            participant.topic::<NumberedSample>("Command").atomic().create().unwrap()
        };
        let (low, high) = (writer(&topic(&here), -9), writer(&topic(&here), 4));
        let _reader = reader(&topic(&there), &[&low, &high]);
        wait_for_priorities(&here, "Command", &[("subgroup", 4), ("subgroup", 4)]);
        wait_for_priorities(&there, "Command", &[("reader", 4), ("subgroup", 4)]);
        drop(high);
        wait_for_priorities(&here, "Command", &[("subgroup", -9)]);
        wait_for_priorities(&there, "Command", &[("reader", -9), ("subgroup", -9)]);
        change(&low, 12);
        wait_for_priorities(&here, "Command", &[("subgroup", 12)]);
        wait_for_priorities(&there, "Command", &[("reader", 12), ("subgroup", 12)]);
    }

    /// No priorities are computed while no endpoint has set one.
    #[test]
    fn priorities_are_not_computed_while_no_writer_sets_a_priority() {
        let (_folder, [here, there]) = two();
        let topic = |participant: &DomainParticipant| {
            participant.topic::<NumberedSample>("State").create().unwrap()
        };
        let quiet = writer(&topic(&here), 0);
        let _reader = reader(&topic(&there), &[&quiet]);
        wait_for_priorities(&there, "State", &[("reader", 0), ("subscription", 0)]);
        for participant in [&here, &there] {
            let is_used =
                participant.inner.engine.act(|machine, _, _| machine.priority_updates.is_used);
            assert!(!is_used);
        }
    }
}
