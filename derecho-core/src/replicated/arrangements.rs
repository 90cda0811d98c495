//! Arrangements that are ready to be used.
//!
//! Owns: the rules that assign members to shards. Never does: use anything except its arguments.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::plan::{Arrangement, MemberInfo, ShardMember, ShardPlan};
use crate::ids::NodeId;

/// All members in one shard; no shard while there are fewer than `least`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OneShard {
    /// Minimum number of members.
    pub least: usize,
}

impl Arrangement for OneShard {
    fn arrange(&self, members: &[MemberInfo], _: &[ShardPlan]) -> Result<Vec<ShardPlan>, String> {
        match members.len() {
            there if there < self.least.max(1) => {
                Err(format!("{} members are needed, {there} are there", self.least.max(1)))
            }
            _ => Ok([members.iter().map(|member| ShardMember::full(member.node)).collect()].into()),
        }
    }

    fn describe(&self) -> String {
        format!("everyone, at least {}", self.least)
    }
}

/// Shards of members with listed attributes. Each shard needs `least` members of its list (or the
/// whole list, if that is shorter).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FixedShards {
    /// Attributes of the members of each shard.
    pub shards: Vec<Vec<Vec<u8>>>,
    /// Minimum number of present members of each list.
    pub least: usize,
}

impl Arrangement for FixedShards {
    fn arrange(&self, members: &[MemberInfo], _: &[ShardPlan]) -> Result<Vec<ShardPlan>, String> {
        let mut shards = Vec::new();
        for (number, list) in self.shards.iter().enumerate() {
            // If several members have the same attributes, the first one counts.
            let node = |name: &Vec<u8>| members.iter().find(|member| member.attributes == *name);
            let mut shard = ShardPlan::new();
            for member in list.iter().filter_map(node) {
                if shard.iter().all(|place| place.node != member.node) {
                    shard.push(ShardMember::full(member.node));
                }
            }
            let least = self.least.min(list.len()).max(1);
            if shard.len() < least {
                let there = shard.len();
                return Err(format!(
                    "shard {number} needs {least} members of its list, {there} are there"
                ));
            }
            shards.push(shard);
        }
        Ok(shards)
    }

    fn describe(&self) -> String {
        format!("fixed {:?}, at least {}", self.shards, self.least)
    }
}

/// A number of shards of limited size. Members stay in their shards. A new member goes to the shard
/// with the fewest members. A member moves only if another shard would have too few otherwise. A
/// member that finds every shard full is spare.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BalancedShards {
    /// Number of shards.
    pub shards: usize,
    /// Minimum number of members of each shard.
    pub least: usize,
    /// Maximum number of members of each shard.
    pub most: usize,
}

impl BalancedShards {
    /// Distributes members round robin over this number of shards.
    pub fn round_robin(shards: usize) -> BalancedShards {
        BalancedShards { shards, least: 1, most: usize::MAX }
    }
}

impl Arrangement for BalancedShards {
    fn arrange(
        &self,
        members: &[MemberInfo],
        before: &[ShardPlan],
    ) -> Result<Vec<ShardPlan>, String> {
        let least = self.least.max(1);
        let needed = self.shards.saturating_mul(least);
        if members.len() < needed {
            return Err(format!("{needed} members are needed, {} are there", members.len()));
        }
        let there: BTreeSet<NodeId> = members.iter().map(|member| member.node).collect();
        let mut shards: Vec<ShardPlan> = (0..self.shards)
            .map(|shard| {
                let staying = before.get(shard).into_iter().flatten();
                staying.filter(|place| there.contains(&place.node)).copied().collect()
            })
            .collect();
        let placed: BTreeSet<NodeId> = shards.iter().flatten().map(|place| place.node).collect();
        let free = members.iter().map(|member| member.node).filter(|node| !placed.contains(node));
        for node in free {
            let fewest = shards.iter_mut().min_by_key(|shard| shard.len());
            if let Some(shard) = fewest.filter(|shard| shard.len() < self.most.max(least)) {
                shard.push(ShardMember::full(node));
            }
        }
        // No member is free any more, so the member of the largest shard that came last moves.
        while let Some(short) = shards.iter().position(|shard| shard.len() < least) {
            let largest = shards.iter_mut().max_by_key(|shard| shard.len());
            let Some(moved) = largest.and_then(Vec::pop) else { break };
            shards[short].push(moved);
        }
        Ok(shards)
    }

    fn describe(&self) -> String {
        format!("{} shards of {} to {}", self.shards, self.least, self.most)
    }
}

/// Arrangement defined by a function, with a name that members compare.
pub struct CustomShards<F> {
    /// Name of the arrangement. It must change whenever the function changes.
    pub name: String,
    /// The function: see [`Arrangement::arrange`].
    pub rule: F,
}

impl<F> Arrangement for CustomShards<F>
where
    F: Fn(&[MemberInfo], &[ShardPlan]) -> Result<Vec<ShardPlan>, String> + Send + Sync,
{
    fn arrange(
        &self,
        members: &[MemberInfo],
        before: &[ShardPlan],
    ) -> Result<Vec<ShardPlan>, String> {
        (self.rule)(members, before)
    }

    fn describe(&self) -> String {
        self.name.clone()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use super::*;
    use crate::replicated::plan::make;
    use alloc::vec;
    use proptest::prelude::*;

    fn members(nodes: &[u128]) -> Vec<MemberInfo> {
        let member_info = |&node| MemberInfo { node: NodeId(node), attributes: vec![node as u8] };
        nodes.iter().map(member_info).collect()
    }

    fn nodes(shards: &[ShardPlan]) -> Vec<Vec<u128>> {
        let shard = |shard: &ShardPlan| shard.iter().map(|place| place.node.0).collect();
        shards.iter().map(shard).collect()
    }

    #[test]
    fn missing_members_are_reported() {
        let sized = BalancedShards { shards: 2, least: 2, most: 3 };
        let text = sized.arrange(&members(&[1, 2, 3]), &[]).unwrap_err();
        assert_eq!(text, "4 members are needed, 3 are there");
        assert!(OneShard { least: 2 }.arrange(&members(&[1]), &[]).is_err());
        let fixed =
            FixedShards { shards: vec![vec![vec![1], vec![2]], vec![vec![2], vec![3]]], least: 2 };
        assert!(fixed.arrange(&members(&[1, 2]), &[]).is_err());
        let shards = fixed.arrange(&members(&[3, 2, 1]), &[]).unwrap();
        assert_eq!(nodes(&shards), [[1, 2], [2, 3]], "shards may overlap");
    }

    #[test]
    fn invalid_result_of_custom_arrangement_is_refused() {
        let twice = |members: &[MemberInfo], _: &[ShardPlan]| {
            let place = ShardMember::full(members[0].node);
            Ok(vec![vec![place, place]])
        };
        let custom = CustomShards { name: "twice".into(), rule: twice };
        assert!(make(&custom, &members(&[1]), &[]).unwrap_err().contains("twice"));
        let deaf = |members: &[MemberInfo], _: &[ShardPlan]| {
            Ok(vec![vec![ShardMember { reads: false, ..ShardMember::full(members[0].node) }]])
        };
        let custom = CustomShards { name: "deaf".into(), rule: deaf };
        assert!(make(&custom, &members(&[1]), &[]).unwrap_err().contains("has no reader"));
    }

    proptest! {
        /// While members come and go: every member computes the same shards, sizes stay within
        /// limits, and members move only if necessary.
        #[test]
        fn shards_are_stable(least in 1_usize..3, extra in 0_usize..3, count in 1_usize..4,
                             steps in prop::collection::vec((any::<bool>(), 0_usize..100), 1..60)) {
            let sized = BalancedShards { shards: count, least, most: least + extra };
            let (mut there, mut next) = (Vec::new(), 0);
            let (mut before, mut adequate): (Vec<ShardPlan>, bool) = (Vec::new(), false);
            for (comes, which) in steps {
                if comes || there.is_empty() {
                    there.push(next);
                    next += 1;
                } else {
                    there.remove(which % there.len());
                }
                let Ok(shards) = make(&sized, &members(&there), &before) else {
                    prop_assert!(there.len() < count * least);
                    adequate = false;
                    continue;
                };
                prop_assert_eq!(&shards, &make(&sized, &members(&there), &before).unwrap());
                let mut moved = 0;
                for (number, shard) in shards.iter().enumerate() {
                    prop_assert!((least..=least + extra).contains(&shard.len()));
                    let has_stayed = |node| shard.iter().any(|place: &ShardMember| place.node == node);
                    let old = before.get(number).into_iter().flatten().map(|place| place.node);
                    moved += old.filter(|node| there.contains(&node.0) && !has_stayed(*node)).count();
                }
                // One member has come or gone, so at most one place had to be filled
                // from elsewhere.
                prop_assert!(moved <= 1 || !adequate, "{moved} were moved");
                (before, adequate) = (shards, true);
            }
        }
    }
}
