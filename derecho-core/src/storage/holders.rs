//! Who has what the members of a subgroup replicate beside its messages: an object, or a store.
//!
//! Owns: the rule, applied in one order by all members of the group. Never does: ask anybody, or know what
//! it is that they have.
//!
//! ```text
//!   nobody ever had it     the first member begins it
//!   somebody has it        who comes asks one who has
//!   all who had are gone   those who are left say whether they lack it; if all do, one begins anew
//! ```

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use crate::bytes::in_order;
use crate::ids::NodeId;

/// A beginning is numbered within its era, which stands above these bits.
const ERA: u32 = 32;

/// See the [module](self).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Holders {
    names: Vec<NodeId>,
    /// Nobody has it, and how often that was so.
    vacant: bool,
    vacancy: u64,
    lacking: BTreeSet<NodeId>,
    beginning: u128,
}

impl Holders {
    /// Nobody has it yet, in this era.
    pub fn of_era(era: u128) -> Holders {
        Holders { beginning: era << ERA, ..Holders::default() }
    }

    /// Who has it, in the order in which they got it.
    pub fn names(&self) -> &[NodeId] {
        &self.names
    }

    /// Which beginning it is of: later ones have greater numbers.
    pub fn beginning(&self) -> u128 {
        self.beginning
    }

    /// Its number, if nobody is known to have it any more.
    pub fn vacancy(&self) -> Option<u64> {
        self.vacant.then_some(self.vacancy)
    }

    /// How often nobody had it any more.
    pub fn vacancies(&self) -> u64 {
        self.vacancy
    }

    /// Whether it has ever begun, in this era.
    pub fn has_begun(&self) -> bool {
        self.beginning & ((1 << ERA) - 1) > 0
    }

    /// A member has it, of this beginning.
    pub fn holds(&mut self, node: NodeId, beginning: u128) {
        if beginning == self.beginning && !self.names.contains(&node) {
            self.names.push(node);
            self.vacant = false;
        }
    }

    /// A member lacks it, and speaks of this vacancy. Returns whether that is news.
    pub fn lacks(&mut self, node: NodeId, vacancy: u64) -> bool {
        self.vacancy() == Some(vacancy) && self.lacking.insert(node)
    }

    /// A member has it no more.
    pub fn forget(&mut self, node: NodeId) {
        self.names.retain(|holder| *holder != node);
        self.lacking.remove(&node);
    }

    /// Those alone who stay have it.
    pub fn retain(&mut self, stays: impl Fn(&NodeId) -> bool) {
        self.names.retain(stays);
    }

    /// Nobody is asked for it for the time being: it has no members.
    pub fn adjourn(&mut self) {
        self.vacant = false;
    }

    /// What follows while these members could have it. If it is to begin anew, `founder` says with whom in
    /// this vacancy.
    pub fn settle(&mut self, members: &[NodeId], founder: impl FnOnce(u64) -> Option<NodeId>) {
        if !self.names.is_empty() {
            self.vacant = false;
            return;
        }
        if self.has_begun() && !self.vacant {
            (self.vacant, self.vacancy) = (true, self.vacancy + 1);
            self.lacking.clear();
        }
        if self.vacant && members.iter().any(|node| !self.lacking.contains(node)) {
            return;
        }
        if let Some(founder) = founder(self.vacancy) {
            self.beginning += 1;
            self.names.push(founder);
            self.vacant = false;
        }
    }
}

in_order! { Holders { names, vacant, vacancy, lacking, beginning } }
