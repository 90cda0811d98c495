//! Which subgroups there are, with which members, in which epoch: the same at every member, for it follows
//! from what all have delivered.
//!
//! Owns: the layouts in effect and those that are to come. Never does: begin or end an epoch; members walk
//! through them, each in its own time.
//!
//! ```text
//!   a message changes a layout      one epoch more at the end of that subgroup's queue
//!   a view is installed             all queues are one epoch long again, that begins at the cut
//! ```

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use super::report::{Cut, StreamId};
use crate::bytes::{Reader, Wire, in_order};
use crate::ids::{NodeId, RegionId};
use crate::multicast::ablation::Ablation;
use crate::multicast::subgroup::{Level, Terms};

/// One member of a subgroup.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Seat {
    /// Who.
    pub node: NodeId,
    /// Whether it delivers.
    pub reads: bool,
    /// The region of its stream, if it sends. Used for one subgroup, once.
    pub sends: Option<RegionId>,
    /// The region of its lines.
    pub lines: RegionId,
}

/// Members of a subgroup and what it promises.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Layout {
    /// What it promises.
    pub level: Level,
    /// Its members; those that send have their ranks in this order.
    pub seats: Vec<Seat>,
}

impl Layout {
    /// How it works.
    pub fn terms(&self, ablation: Ablation) -> Terms {
        Terms { level: self.level, ablation }
    }

    /// A node's seat.
    pub fn seat_of(&self, node: NodeId) -> Option<&Seat> {
        self.seats.iter().find(|seat| seat.node == node)
    }

    /// The nodes that read.
    pub fn readers(&self) -> Vec<NodeId> {
        self.seats.iter().filter(|seat| seat.reads).map(|seat| seat.node).collect()
    }

    /// The streams of its senders.
    pub fn streams(&self) -> impl Iterator<Item = StreamId> + '_ {
        let stream = |seat: &Seat| Some(StreamId { node: seat.node, region: seat.sends? });
        self.seats.iter().filter_map(stream)
    }
}

/// An epoch of a subgroup.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Epoch {
    /// Its number; the subgroup's epochs are numbered one after the other.
    pub number: u64,
    /// What it is called in its members' lines: nothing else that could be met there is called so.
    pub name: u64,
    /// Its members.
    pub layout: Layout,
    /// Its streams that have a past: who was not in it is told by their senders where the epoch begins.
    pub old: Vec<StreamId>,
}

/// More epochs than begin between two views that nobody comes through: as a power of two.
const NAMES_OF_A_VIEW: u32 = 20;

/// See the [module](self).
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Registry {
    /// The last name of an epoch, of all subgroups.
    count: u64,
    subgroups: BTreeMap<u64, VecDeque<Epoch>>,
}

impl Registry {
    /// None yet, in a view into which nobody has brought what there was: what was there before has other
    /// names (I-50).
    pub fn anew(view: u64) -> Registry {
        Registry { count: view << NAMES_OF_A_VIEW, subgroups: BTreeMap::new() }
    }

    /// The epochs of a subgroup that are not over everywhere, oldest first.
    pub fn epochs(&self, key: u64) -> impl Iterator<Item = &Epoch> {
        self.subgroups.get(&key).into_iter().flatten()
    }

    /// All subgroups.
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

    /// The streams of a subgroup's newest epoch.
    fn newest_streams(&self, key: u64) -> Vec<StreamId> {
        let newest = self.subgroups.get(&key).and_then(VecDeque::back);
        newest.map(|epoch| epoch.layout.streams().collect()).unwrap_or_default()
    }

    /// Takes in what a subgroup's layout is from now on. Returns whether that is another one.
    pub fn change(&mut self, key: u64, layout: Layout) -> bool {
        let newest = self.subgroups.get(&key).and_then(VecDeque::back);
        let same = match newest {
            Some(newest) => newest.layout == layout,
            None => layout.seats.is_empty(),
        };
        if !same {
            let past = self.newest_streams(key);
            self.add(key, layout, &past);
        }
        !same
    }

    /// A view ends all epochs; in the next one these layouts hold, from the cut on. Subgroups of which
    /// nobody is a member are forgotten.
    pub fn collapse(&mut self, layouts: &BTreeMap<u64, Layout>, cut: &Cut) {
        let lives = |key: &u64| layouts.get(key).is_some_and(|layout| !layout.seats.is_empty());
        self.subgroups.retain(|key, _| lives(key));
        for (&key, layout) in layouts.iter().filter(|(key, _)| lives(key)) {
            let ends = cut.of(key).into_iter().flat_map(|cut| &cut.last.ends);
            let past: Vec<StreamId> = ends.map(|(stream, _)| *stream).collect();
            self.add(key, layout.clone(), &past);
            let queue = self.subgroups.get_mut(&key).expect("it was added to just now");
            queue.drain(..queue.len() - 1);
        }
    }

    /// Epochs before this one are over for this node.
    pub fn forget_before(&mut self, key: u64, number: u64) {
        if let Some(queue) = self.subgroups.get_mut(&key) {
            while queue.len() > 1 && queue.front().is_some_and(|epoch| epoch.number < number) {
                queue.pop_front();
            }
        }
    }
}

impl Wire for Level {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(match self {
            Level::Unordered => 0,
            Level::Atomic => 1,
        });
    }

    fn decode(from: &mut Reader<'_>) -> Option<Self> {
        match from.byte()? {
            0 => Some(Level::Unordered),
            1 => Some(Level::Atomic),
            _ => None,
        }
    }
}

in_order! {
    Seat { node, reads, sends, lines }
    Layout { level, seats }
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

    fn decode(from: &mut Reader<'_>) -> Option<Self> {
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
        let seat =
            |&node| Seat { node, reads: true, sends: Some(RegionId(20)), lines: RegionId(21) };
        Layout { level: Level::Atomic, seats: nodes.iter().map(seat).collect() }
    }

    #[test]
    fn every_change_is_an_epoch_and_a_view_leaves_one() {
        let mut registry = Registry::default();
        assert!(registry.change(7, layout(&[A])));
        assert!(!registry.change(7, layout(&[A])), "nothing has changed");
        assert!(registry.change(7, layout(&[A, B])));
        assert!(registry.change(7, layout(&[])));
        assert!(!registry.change(8, layout(&[])), "nobody is in it");
        let epochs: Vec<_> =
            registry.epochs(7).map(|e| (e.number, e.layout.seats.len(), e.old.len())).collect();
        assert_eq!(epochs, [(0, 1, 0), (1, 2, 1), (2, 0, 0)]);
        assert_eq!(Registry::from_bytes(&registry.to_bytes()).as_ref(), Some(&registry));

        let stream = StreamId { node: A, region: RegionId(20) };
        let last = EpochCut { epoch: 1, ends: [(stream, 5)].into() };
        let cut = SubgroupCut { key: 7, last, before: Vec::new() };
        let cut = Cut { informed: Vec::new(), subgroups: [cut].into() };
        registry.collapse(&BTreeMap::from([(7, layout(&[A, B]))]), &cut);
        let epochs: Vec<Epoch> = registry.epochs(7).cloned().collect();
        assert_eq!(epochs.len(), 1);
        assert_eq!((epochs[0].number, epochs[0].old.as_slice()), (3, [stream].as_slice()));
        registry.collapse(&BTreeMap::from([(7, layout(&[]))]), &cut);
        assert_eq!(registry.keys().count(), 0);
    }

    #[test]
    fn names_are_used_once() {
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
