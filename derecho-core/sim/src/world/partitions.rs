//! Links that are cut between two sides of a group.
//!
//! Owns: the cut links and their durations. Never does: decide what a partition may lead to.

use super::group::OwnFolder;
use super::{GroupMember, World};
use crate::NodeIndex;

type Pair = (NodeIndex, NodeIndex);

/// Partitions of one world, with their results.
#[derive(Default)]
pub struct Partitions {
    /// Directed links that are cut at the moment.
    cut: Vec<Pair>,
    /// Number of partitions so far.
    pub count: usize,
    /// Number of live members that were excluded so far.
    pub evicted: usize,
    /// Number of partitions that ended before any member was out.
    pub survived: usize,
    evicted_before: usize,
    /// Members that ran when the excluded ones were last ended, with their folders, if they have
    /// any.
    pub members: Vec<(NodeIndex, Option<OwnFolder>)>,
}

impl<M: GroupMember> World<M> {
    /// Whether a partition is under way.
    pub fn is_partitioned(&self) -> bool {
        !self.setting.partitions.cut.is_empty()
    }

    /// Cuts links between two sides of the group: all of them, or some, in both directions or in
    /// one. Posted messages are held back until the partition ends.
    pub fn cut_at_random(&mut self) {
        let mut nodes = self.living();
        if self.is_partitioned() || nodes.len() < 2 {
            return;
        }
        self.shuffle(&mut nodes);
        let side = self.random.between(1, nodes.len() as u64 / 2) as usize;
        let (some, others) = nodes.split_at(side);
        let (partial, one_way) = (self.random.one_in(3), self.random.one_in(4));
        let mut pairs: Vec<Pair> = Vec::new();
        for (from, to) in some.iter().flat_map(|from| others.iter().map(|to| (*from, *to))) {
            if partial && self.random.one_in(2) {
                continue;
            }
            let outward = self.random.one_in(2);
            pairs.extend((!one_way || outward).then_some((from, to)));
            pairs.extend((!one_way || !outward).then_some((to, from)));
        }
        pairs.iter().for_each(|(from, to)| self.cluster.network().cut(*from, *to));
        let partitions = &mut self.setting.partitions;
        partitions.count += usize::from(!pairs.is_empty());
        partitions.evicted_before = partitions.evicted;
        partitions.cut = pairs;
    }

    /// Ends the partition, if there is one.
    pub fn heal(&mut self) {
        let partitions = &mut self.setting.partitions;
        let pairs = std::mem::take(&mut partitions.cut);
        let is_survived = !pairs.is_empty() && partitions.evicted == partitions.evicted_before;
        partitions.survived += usize::from(is_survived);
        pairs.iter().for_each(|(from, to)| self.cluster.network().heal(*from, *to));
    }
}
