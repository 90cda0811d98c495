//! Priority targets, which a turn processes first (I-241).
//!
//! Owns: the order of these targets. Never does: postpone the other targets; the same turn
//! processes them.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::cmp::Reverse;

use super::{FoundFault, Node, SubgroupId, SubscriptionId};
use crate::ids::{RegionId, Time};
use crate::machine::Effects;

/// Part of a node that a turn processes and that can have a priority.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum PriorityTarget {
    /// A stream that this node sends.
    Stream(RegionId),
    /// Stream that this node receives.
    Subscription(SubscriptionId),
    /// Subgroup, in which this node may send and receive.
    Subgroup(SubgroupId),
}

/// Priorities of a node's targets. See the [module](self).
#[derive(Default)]
pub(super) struct PriorityOrder {
    /// Priorities other than 0.
    priorities: BTreeMap<PriorityTarget, i32>,
    /// Targets to process first, each with its index in its list at the last look.
    first: Vec<(PriorityTarget, usize)>,
    /// Whether a target was added or removed, or has another priority.
    stale: bool,
}

impl PriorityOrder {
    /// Notes that a target was added or removed.
    pub(super) fn renew(&mut self) {
        self.stale = true;
    }

    /// Whether any target has a priority.
    #[inline]
    pub(super) fn is_wanted(&self) -> bool {
        !self.priorities.is_empty()
    }
}

impl Node {
    /// Sets the priority of a target. A turn receives, sends and delivers on targets of higher
    /// priority before targets of lower priority. The initial priority is 0.
    pub fn set_priority(&mut self, target: PriorityTarget, priority: i32) {
        let PriorityOrder { priorities, stale, .. } = &mut self.priority_order;
        let before = match priority {
            0 => priorities.remove(&target),
            _ => priorities.insert(target, priority),
        };
        *stale |= before.unwrap_or(0) != priority;
    }

    /// Priority of a target; 0 after the target is gone.
    pub fn priority(&self, target: PriorityTarget) -> i32 {
        self.priority_order.priorities.get(&target).copied().unwrap_or(0)
    }

    /// Processes the targets with priority.
    #[cold]
    pub(super) fn turn_prioritized(
        &mut self,
        now: Time,
        effects: &mut Effects,
        faults: &mut Vec<FoundFault>,
    ) -> usize {
        if core::mem::take(&mut self.priority_order.stale) {
            self.put_in_order();
        }
        let mut done = 0;
        if self.is_in_many() && !self.priority_order.first.is_empty() {
            self.wake_active(effects);
        }
        for index in 0..self.priority_order.first.len() {
            let (target, at) = self.priority_order.first[index];
            let Some(at) = self.index_of(target, at) else {
                self.priority_order.stale = true;
                continue;
            };
            self.priority_order.first[index].1 = at;
            done += match target {
                PriorityTarget::Stream(_) => self.streams[at].send(now, effects),
                PriorityTarget::Subscription(_) => {
                    self.subscriptions[at].take_in(&mut self.events, faults)
                }
                PriorityTarget::Subgroup(_) => self.turn_awake(at, now, effects, faults),
            };
        }
        done
    }

    /// Index of a target in its list, if it exists. `before`: the index at the last look.
    fn index_of(&self, target: PriorityTarget, before: usize) -> Option<usize> {
        match target {
            PriorityTarget::Stream(region) => {
                position(&self.streams, before, |it| it.region() == region)
            }
            PriorityTarget::Subscription(id) => {
                position(&self.subscriptions, before, |it| it.id == id)
            }
            PriorityTarget::Subgroup(id) => self.numbers.get(&id).copied(),
        }
    }

    /// Sorts the targets whose priority exceeds the lowest one, highest priority first.
    fn put_in_order(&mut self) {
        let streams = self.streams.iter().map(|it| PriorityTarget::Stream(it.region()));
        let subscriptions = self.subscriptions.iter().map(|it| PriorityTarget::Subscription(it.id));
        let subgroups = self.numbers.keys().map(|id| PriorityTarget::Subgroup(*id));
        let all: Vec<PriorityTarget> = subscriptions.chain(streams).chain(subgroups).collect();
        let waiting = self.pending.iter().map(|pending| PriorityTarget::Subgroup(pending.id()));
        let known: BTreeSet<PriorityTarget> = all.iter().copied().chain(waiting).collect();
        let PriorityOrder { priorities, first, .. } = &mut self.priority_order;
        priorities.retain(|target, _| known.contains(target));
        let of = |target: &PriorityTarget| priorities.get(target).copied().unwrap_or(0);
        let least = all.iter().map(of).min().unwrap_or(0);
        *first = all.iter().filter(|target| of(target) > least).map(|path| (*path, 0)).collect();
        first.sort_by_key(|(target, _)| Reverse(of(target)));
    }
}

/// Index of the element for which `is` holds. `before`: the index to try first.
fn position<T>(all: &[T], before: usize, is: impl Fn(&T) -> bool) -> Option<usize> {
    match all.get(before) {
        Some(it) if is(it) => Some(before),
        _ => all.iter().position(is),
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use alloc::sync::Arc;
    use alloc::vec;
    use std::sync::Mutex;

    use super::super::{
        ACKS_WORDS, CHANGES_WORDS, MemberRole, NodeEvent, StreamOrigin, SubgroupDefinition,
        SubgroupMemory,
    };
    use super::*;
    use crate::ids::NodeId;
    use crate::machine::Machine;
    use crate::memory::{LINE_WORDS, OwnRegion};
    use crate::multicast::ablation::Ablation;
    use crate::multicast::claim::SenderMemory;
    use crate::multicast::geometry::Geometry;
    use crate::multicast::subgroup::{DeliveryGuarantee, SubgroupConfig};

    type Delivered = Arc<Mutex<Vec<usize>>>;

    /// Returns a node that is alone in this number of subgroups, with a log of its deliveries.
    fn alone(subgroups: usize) -> (Node, Vec<SubgroupId>, Vec<SenderMemory>, Delivered) {
        let node = Node::new(NodeId(1), OwnRegion::heap(ACKS_WORDS), Arc::new(|| {}));
        let mut node = node.with_changes(OwnRegion::heap(CHANGES_WORDS), None);
        let (mut effects, delivered) = (Effects::new(), Delivered::default());
        let (mut ids, mut memories) = (Vec::new(), Vec::new());
        for at in 0..subgroups {
            let (lines, stream) = (RegionId(100 + at as u64), RegionId(200 + at as u64));
            let geometry = Geometry::fitting(4096, 16, 64).expect("it fits");
            let memory = SenderMemory::with_nulls(OwnRegion::heap(geometry.words()), geometry);
            let member =
                MemberRole { origin: StreamOrigin::Own, reads: true, sends: Some(stream), lines };
            let config =
                SubgroupConfig { level: DeliveryGuarantee::Atomic, ablation: Ablation::default() };
            let definition = SubgroupDefinition { name: at as u64, config, members: vec![member] };
            let subgroup_memory =
                SubgroupMemory { lines: OwnRegion::heap(LINE_WORDS), memory: Some(memory.clone()) };
            ids.push(
                node.found(definition, subgroup_memory, &mut effects).expect("it is a member"),
            );
            memories.push(memory);
        }
        while node.turn(Time(0), &mut effects) > 0 {}
        while let Some(event) = node.next_event() {
            assert!(!matches!(event, NodeEvent::Faulty { .. }));
        }
        for (at, id) in ids.iter().enumerate() {
            node.add_subgroup_reader(*id).expect("it reads");
            let delivered = Arc::clone(&delivered);
            let note = move |inbox: &_| note_delivery(inbox, &delivered, at);
            node.set_subgroup_upcall(*id, alloc::boxed::Box::new(note));
        }
        (node, ids, memories, delivered)
    }

    fn note_delivery(inbox: &crate::multicast::inbox::Inbox, delivered: &Delivered, at: usize) {
        while inbox.take().is_some() {
            delivered.lock().expect("no test panics").push(at);
        }
    }

    /// Writes one message in each subgroup, and returns the order of the deliveries.
    fn turn(node: &mut Node, memories: &[SenderMemory], delivered: &Delivered) -> Vec<usize> {
        for memory in memories {
            memory.claim(8).expect("there is room").commit(8, |_, _| ());
        }
        while node.turn(Time(0), &mut Effects::new()) > 0 {}
        core::mem::take(&mut *delivered.lock().expect("no test panics"))
    }

    #[test]
    fn few_or_many_subgroups_are_processed_by_priority() {
        for count in [3, 9] {
            let (mut node, ids, memories, delivered) = alone(count);
            let usual: Vec<usize> = (0..count).collect();
            assert_eq!(turn(&mut node, &memories, &delivered), usual);
            node.set_priority(PriorityTarget::Subgroup(ids[2]), 5);
            node.set_priority(PriorityTarget::Subgroup(ids[1]), 9);
            let first = turn(&mut node, &memories, &delivered);
            assert_eq!(first[..3], [1, 2, 0], "of {count}");
            assert_eq!(first.len(), count, "all are turned");
            // A target of lower priority than all others goes last.
            node.set_priority(PriorityTarget::Subgroup(ids[1]), 0);
            node.set_priority(PriorityTarget::Subgroup(ids[2]), 0);
            node.set_priority(PriorityTarget::Subgroup(ids[0]), -1);
            let last = turn(&mut node, &memories, &delivered);
            assert_eq!((last.len(), last.last()), (count, Some(&0)), "of {count}");
            node.set_priority(PriorityTarget::Subgroup(ids[0]), 0);
            assert_eq!(turn(&mut node, &memories, &delivered), usual);
            assert!(!node.priority_order.is_wanted());
        }
    }

    #[test]
    fn priority_of_absent_stream_is_dropped() {
        let (mut node, _, _, _) = alone(1);
        let target = PriorityTarget::Stream(RegionId(77));
        node.set_priority(target, 3);
        assert!(node.priority_order.is_wanted() && node.priority(target) == 3);
        node.turn(Time(0), &mut Effects::new());
        assert!(!node.priority_order.is_wanted() && node.priority(target) == 0);
    }
}
