//! Safety properties, by rules of the model's own.
//!
//! Owns: the checks at the installation of a decision and at a delivery. Never does: ask the
//! product whether it is right.

use derecho_core::membership::{Arbitration, View, ViewMember};

use crate::node::{NodeSet, each, index};
use crate::world::{ModelState, VIEWS, World};

/// Violated property.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Violation(pub &'static str);

impl World {
    /// Returns the view of a number: as decided, or the first one.
    pub fn view(&self, state: &ModelState, number: u64) -> Option<View> {
        let first = self.setting.first_view();
        if number == first.number {
            return Some(first);
        }
        match state.decided.get(number as usize) {
            Some(&decision) if decision > 0 => {
                Some(self.node_table.decisions.get(u32::from(decision) - 1).next.clone())
            }
            _ => None,
        }
    }

    /// Returns the view of a number with the correct votes by the model's own rule: new members
    /// have none, if any other member has.
    pub(crate) fn rightful(&self, state: &ModelState, number: u64) -> Option<View> {
        let mut view = self.view(state, number)?;
        let before = number.checked_sub(1).and_then(|number| self.view(state, number));
        if let Some(before) = before.filter(|before| before.number > 0 || self.setting.founders) {
            let old = |member: &ViewMember| before.rank_of(member.node).is_some();
            let all_new = !view.members.iter().any(old);
            for member in &mut view.members {
                member.votes = if all_new || old(member) { member.weight } else { 0 };
            }
        }
        Some(view)
    }

    /// Returns the number of the newest view that any node has installed.
    pub fn newest(&self, state: &ModelState) -> u64 {
        let first = self.setting.first_view().number;
        (first..VIEWS as u64).rev().find(|&n| self.view(state, n).is_some()).unwrap_or(first)
    }

    pub(crate) fn installed(
        &mut self,
        state: &mut ModelState,
        decision: u32,
    ) -> Result<(), Violation> {
        let decided = std::rc::Rc::clone(self.node_table.decisions.get(decision));
        let number = decided.next.number as usize;
        if number >= VIEWS {
            return Err(Violation("the group settles"));
        }
        let known = state.decided[number];
        if known != 0 {
            let same = u32::from(known) - 1 == decision;
            return if same { Ok(()) } else { Err(Violation("one view per number")) };
        }
        state.decided[number] = u16::try_from(decision + 1).expect("few decisions");
        let before = self.rightful(state, decided.next.number - 1);
        let Some(before) = before else { return Err(Violation("views in order")) };
        let kept: NodeSet = nodes_of(decided.next.members.iter());
        let kept = kept & nodes_of(before.members.iter());
        // Every continuing member has reported, and was not below the cut.
        let late = |node| self.look(state, node).received < decided.cut.to;
        if kept & !decided.cut.of != 0 || before.number <= 1 && each(kept).any(late) {
            return Err(Violation("the cut is at most what was reported"));
        }
        let network = self.setting.arbitration == Arbitration::Network;
        if network && !is_primary(&before, decided.cut.of) {
            return Err(Violation("views intersect in a primary partition"));
        }
        self.check_delivered(state)
    }

    /// Checks that every delivery of a live or dead node in the first view lies below the cut.
    pub(crate) fn check_delivered(&self, state: &ModelState) -> Result<(), Violation> {
        let first = self.setting.first_view();
        let decision = state.decided[first.number as usize + 1];
        if decision == 0 {
            return Ok(());
        }
        let cut = self.node_table.decisions.get(u32::from(decision) - 1).cut.to;
        let beyond = |node| {
            // Without moving streams, every node has delivered what all have received.
            let delivered = self.look(state, node).delivered;
            let delivered = if self.setting.streams { delivered } else { 1 };
            delivered > cut
        };
        let lost = (0..self.setting.members).any(beyond);
        if lost { Err(Violation("every delivery is below the cut")) } else { Ok(()) }
    }
}

/// Returns the nodes of these members.
pub fn nodes_of<'a>(members: impl Iterator<Item = &'a ViewMember>) -> NodeSet {
    members.fold(0, |all, member| all | 1 << index(member.node))
}

/// The model's own rule, not the product's: more than half of the votes, or half with the
/// first voter.
pub fn is_primary(view: &View, some: NodeSet) -> bool {
    let has = |member: &&ViewMember| some >> index(member.node) & 1 == 1;
    let all: u16 = view.members.iter().map(|member| member.votes).sum();
    let theirs: u16 = view.members.iter().filter(has).map(|member| member.votes).sum();
    let first = view.members.iter().find(|member| member.votes > 0);
    2 * theirs > all || 2 * theirs == all && first.is_some_and(|first| has(&first))
}
