//! Members that have the data replicated beside a subgroup's messages: an object, or a store.
//!
//! Owns: the rule, applied in one order by all members of the group. Never does: ask a member, or
//! know what the data is.
//!
//! ```text
//!   no member ever had it    the first member begins it
//!   a member has it          a late joiner asks a holder
//!   all holders are gone     the others say whether they lack it; if all do, one begins it again
//! ```

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use crate::bytes::in_order;
use crate::ids::NodeId;

/// Bits of a beginning's number within its era, which is stored above these bits.
const ERA: u32 = 32;

/// Holders of the data; see the [module](self).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Holders {
    names: Vec<NodeId>,
    /// Whether no member has the data, and how often that happened.
    vacant: bool,
    vacancy: u64,
    lacking: BTreeSet<NodeId>,
    beginning: u128,
}

impl Holders {
    /// Creates the state without any holder, in this era.
    pub fn of_era(era: u128) -> Holders {
        Holders { beginning: era << ERA, ..Holders::default() }
    }

    /// Holders, in the order in which they got the data.
    pub fn names(&self) -> &[NodeId] {
        &self.names
    }

    /// Number of the beginning of the data: later beginnings have greater numbers.
    pub fn beginning(&self) -> u128 {
        self.beginning
    }

    /// Number of the present vacancy, if no member is known to have the data any more.
    pub fn vacancy(&self) -> Option<u64> {
        self.vacant.then_some(self.vacancy)
    }

    /// Number of vacancies so far: times when no member had the data any more.
    pub fn vacancies(&self) -> u64 {
        self.vacancy
    }

    /// Whether the data has ever begun, in this era.
    pub fn has_begun(&self) -> bool {
        self.beginning & ((1 << ERA) - 1) > 0
    }

    /// Notes that a member has the data of this beginning.
    pub fn holds(&mut self, node: NodeId, beginning: u128) {
        if beginning == self.beginning && !self.names.contains(&node) {
            self.names.push(node);
            self.vacant = false;
        }
    }

    /// Notes that a member lacks the data, in this vacancy. Returns whether that is news.
    pub fn lacks(&mut self, node: NodeId, vacancy: u64) -> bool {
        self.vacancy() == Some(vacancy) && self.lacking.insert(node)
    }

    /// Notes that a member no longer has the data.
    pub fn forget(&mut self, node: NodeId) {
        self.names.retain(|holder| *holder != node);
        self.lacking.remove(&node);
    }

    /// Keeps only the holders for which `is_kept` is true.
    pub fn retain(&mut self, is_kept: impl Fn(&NodeId) -> bool) {
        self.names.retain(is_kept);
    }

    /// Suspends the search for a holder, because there are no members.
    pub fn adjourn(&mut self) {
        self.vacant = false;
    }

    /// Decides what follows if these members could have the data. If the data must begin again,
    /// `founder` chooses the member that begins it in this vacancy.
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
