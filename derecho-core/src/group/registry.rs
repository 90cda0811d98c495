//! Register of subgroups with their members and epochs. It follows from delivered messages and is
//! therefore the same at every member.
//!
//! Owns: current and coming layouts. Never does: begin or end an epoch; each member moves through
//! the epochs at its own pace.
//!
//! ```text
//!   a message changes a layout    one more epoch at the end of that subgroup's queue
//!   a view is installed           every queue becomes one epoch, which begins at the cut
//! ```

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use super::report::{GroupCut, StreamId};
use crate::bytes::{ByteReader, Wire, in_order};
use crate::ids::{NodeId, RegionId};
use crate::multicast::ablation::Ablation;
use crate::multicast::subgroup::{DeliveryGuarantee, SubgroupConfig};

/// Member of a subgroup, as its layout describes it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct LayoutMember {
    /// Node of the member.
    pub node: NodeId,
    /// Whether the member delivers.
    pub reads: bool,
    /// Region of the member's stream, if it sends. A region is used for one subgroup, once.
    pub sends: Option<RegionId>,
    /// Region of the member's acknowledgement lines.
    pub lines: RegionId,
}

/// Members of a subgroup and its delivery level.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Layout {
    /// Delivery level.
    pub level: DeliveryGuarantee,
    /// Members; senders have their ranks in this order.
    pub members: Vec<LayoutMember>,
}

impl Layout {
    /// Configuration of the subgroup.
    pub fn config(&self, ablation: Ablation) -> SubgroupConfig {
        SubgroupConfig { level: self.level, ablation }
    }

    /// Returns the member on the given node.
    pub fn member(&self, node: NodeId) -> Option<&LayoutMember> {
        self.members.iter().find(|seat| seat.node == node)
    }

    /// Nodes that read.
    pub fn readers(&self) -> Vec<NodeId> {
        self.members.iter().filter(|member| member.reads).map(|seat| seat.node).collect()
    }

    /// Streams of the senders.
    pub fn streams(&self) -> impl Iterator<Item = StreamId> + '_ {
        let stream =
            |member: &LayoutMember| Some(StreamId { node: member.node, region: member.sends? });
        self.members.iter().filter_map(stream)
    }
}

/// Epoch of a subgroup.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Epoch {
    /// Number of the epoch; the epochs of a subgroup are numbered consecutively.
    pub number: u64,
    /// Name of the epoch in its members' lines, different from any other name that
    /// may appear there.
    pub name: u64,
    /// Members and delivery level.
    pub layout: Layout,
    /// Streams that existed in the epoch before: members that were not in that epoch are told by
    /// the senders where this epoch begins.
    pub old: Vec<StreamId>,
}

/// Binary logarithm of a number of names that exceeds the epochs between two views without
/// a common member.
const NAMES_OF_A_VIEW: u32 = 20;

/// Register of the subgroups of a group. See the [module](self).
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Registry {
    /// Last name given to an epoch of any subgroup.
    count: u64,
    subgroups: BTreeMap<u64, VecDeque<Epoch>>,
}

impl Registry {
    /// Creates an empty registry for a view whose members all lack the state. Names of epochs
    /// differ from all names used before (I-50).
    pub fn anew(view: u64) -> Registry {
        Registry { count: view << NAMES_OF_A_VIEW, subgroups: BTreeMap::new() }
    }

    /// Epochs of a subgroup that are not over everywhere, oldest first.
    pub fn epochs(&self, key: u64) -> impl Iterator<Item = &Epoch> {
        self.subgroups.get(&key).into_iter().flatten()
    }

    /// Keys of all subgroups.
    pub fn keys(&self) -> impl Iterator<Item = u64> + '_ {
        self.subgroups.keys().copied()
    }

    fn add(&mut self, key: u64, layout: Layout, past: &[StreamId]) {
        self.count += 1;
        let name = self.count;
        let queue = self.subgroups.entry(key).or_default();
        let number = queue.back().map_or(0, |last| last.number + 1);
        let old = layout.streams().filter(|stream| past.contains(stream)).collect();
        queue.push_back(Epoch { number, name, layout, old });
    }

    /// Streams of a subgroup's newest epoch.
    fn newest_streams(&self, key: u64) -> Vec<StreamId> {
        let newest = self.subgroups.get(&key).and_then(VecDeque::back);
        newest.map(|epoch| epoch.layout.streams().collect()).unwrap_or_default()
    }

    /// Takes in the layout of a subgroup. Returns whether the layout has changed.
    pub fn change(&mut self, key: u64, layout: Layout) -> bool {
        let newest = self.subgroups.get(&key).and_then(VecDeque::back);
        let same = match newest {
            Some(newest) => newest.layout == layout,
            None => layout.members.is_empty(),
        };
        if !same {
            let past = self.newest_streams(key);
            self.add(key, layout, &past);
        }
        !same
    }

    /// Replaces all epochs by one epoch for each subgroup, with these layouts, from the cut on.
    /// Forgets subgroups without members.
    pub fn collapse(&mut self, layouts: &BTreeMap<u64, Layout>, cut: &GroupCut) {
        let lives = |key: &u64| layouts.get(key).is_some_and(|layout| !layout.members.is_empty());
        self.subgroups.retain(|key, _| lives(key));
        for (&key, layout) in layouts.iter().filter(|(key, _)| lives(key)) {
            let ends = cut.of(key).into_iter().flat_map(|cut| &cut.last.ends);
            let past: Vec<StreamId> = ends.map(|(stream, _)| *stream).collect();
            self.add(key, layout.clone(), &past);
            let queue = self.subgroups.get_mut(&key).expect("the subgroup has an epoch");
            queue.drain(..queue.len() - 1);
        }
    }

    /// Drops epochs before this one, which are over for this node.
    pub fn forget_before(&mut self, key: u64, number: u64) {
        if let Some(queue) = self.subgroups.get_mut(&key) {
            while queue.len() > 1 && queue.front().is_some_and(|epoch| epoch.number < number) {
                queue.pop_front();
            }
        }
    }
}

impl Wire for DeliveryGuarantee {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(match self {
            DeliveryGuarantee::Unordered => 0,
            DeliveryGuarantee::Atomic => 1,
        });
    }

    fn decode(from: &mut ByteReader<'_>) -> Option<Self> {
        match from.byte()? {
            0 => Some(DeliveryGuarantee::Unordered),
            1 => Some(DeliveryGuarantee::Atomic),
            _ => None,
        }
    }
}

in_order! {
    LayoutMember { node, reads, sends, lines }
    Layout { level, members }
    Epoch { number, name, layout, old }
}

impl Wire for Registry {
    fn encode(&self, out: &mut Vec<u8>) {
        self.count.encode(out);
        (self.subgroups.len() as u32).encode(out);
        for (key, queue) in &self.subgroups {
            key.encode(out);
            queue.iter().cloned().collect::<Vec<Epoch>>().encode(out);
        }
    }

    fn decode(from: &mut ByteReader<'_>) -> Option<Self> {
        let count = u64::decode(from)?;
        let subgroups = Vec::<(u64, Vec<Epoch>)>::decode(from)?;
        let subgroups = subgroups.into_iter().map(|(key, queue)| (key, queue.into())).collect();
        Some(Registry { count, subgroups })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::group::report::{EpochCut, SubgroupCut};

    const A: NodeId = NodeId(1);
    const B: NodeId = NodeId(2);

    fn layout(nodes: &[NodeId]) -> Layout {
        let member = |&node| LayoutMember {
            node,
            reads: true,
            sends: Some(RegionId(20)),
            lines: RegionId(21),
        };
        Layout { level: DeliveryGuarantee::Atomic, members: nodes.iter().map(member).collect() }
    }

    #[test]
    fn each_layout_change_is_an_epoch_and_a_view_change_leaves_one() {
        let mut registry = Registry::default();
        assert!(registry.change(7, layout(&[A])));
        assert!(!registry.change(7, layout(&[A])), "nothing has changed");
        assert!(registry.change(7, layout(&[A, B])));
        assert!(registry.change(7, layout(&[])));
        assert!(!registry.change(8, layout(&[])), "nobody is in it");
        let epochs: Vec<_> =
            registry.epochs(7).map(|e| (e.number, e.layout.members.len(), e.old.len())).collect();
        assert_eq!(epochs, [(0, 1, 0), (1, 2, 1), (2, 0, 0)]);
        assert_eq!(Registry::from_bytes(&registry.to_bytes()).as_ref(), Some(&registry));

        let stream = StreamId { node: A, region: RegionId(20) };
        let last = EpochCut { epoch: 1, ends: [(stream, 5)].into() };
        let cut = SubgroupCut { key: 7, last, before: Vec::new() };
        let cut = GroupCut { informed: Vec::new(), subgroups: [cut].into() };
        registry.collapse(&BTreeMap::from([(7, layout(&[A, B]))]), &cut);
        let epochs: Vec<Epoch> = registry.epochs(7).cloned().collect();
        assert_eq!(epochs.len(), 1);
        assert_eq!((epochs[0].number, epochs[0].old.as_slice()), (3, [stream].as_slice()));
        registry.collapse(&BTreeMap::from([(7, layout(&[]))]), &cut);
        assert_eq!(registry.keys().count(), 0);
    }

    #[test]
    fn epoch_names_are_used_only_once() {
        let mut registry = Registry::default();
        let mut names = Vec::new();
        for nodes in [[A, B].as_slice(), &[A], &[]] {
            for key in [1, 2] {
                registry.change(key, layout(nodes));
                names.extend(registry.epochs(key).last().map(|epoch| epoch.name));
            }
        }
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}
