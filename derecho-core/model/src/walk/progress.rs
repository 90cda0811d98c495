//! Properties that must hold in every walk.
//!
//! Owns: the properties, and the record of deliveries. Never does: ask a member whether it
//! is right.

use std::collections::BTreeMap;

use super::member::{EpochPhase, part, senders};
use super::{WalkSetting, WalkState, WalkViolation};

/// All readers that continue from an epoch have delivered the same of it, and no other member, dead
/// or excluded, has delivered more. Where no reader continues, there is nothing to compare.
pub const AGREEMENT: &str = "all readers deliver the same entries of an epoch";
/// An epoch begins at one place in each stream.
pub const ONE_START: &str = "an epoch begins at one place";
/// A reader's deliveries in one epoch and in the next follow without a gap, and nothing
/// comes twice.
pub const SEQUENCE: &str = "nothing is left out or comes twice";
/// Invariant I-51.
pub const BEGUN: &str =
    "a member that begins by a change of layout knows that all have received the last epoch";
/// A continuing member can deliver everything up to the cut, and has delivered no more.
pub const COME_TO_CUT: &str = "every continuing member can reach the cut";
/// When no fault happens any more, all members are in the newest layout, and have
/// delivered everything.
pub const RESTS: &str = "every member reaches the newest layout";

/// Entry count by epoch and stream.
type EntryCounts = BTreeMap<(u64, usize), u8>;

/// Knowledge of all epochs.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct EpochRecord {
    starts: EntryCounts,
    ends: EntryCounts,
    /// Most deliveries of any member.
    most: EntryCounts,
}

impl EpochRecord {
    pub(super) fn begins(&mut self, epoch: u64, of: usize, at: u8) -> Result<(), WalkViolation> {
        let one = *self.starts.entry((epoch, of)).or_insert(at) == at;
        if one { Ok(()) } else { Err(WalkViolation(ONE_START)) }
    }

    pub(super) fn delivers(&mut self, epoch: u64, of: usize, to: u8) -> Result<(), WalkViolation> {
        let most = self.most.entry((epoch, of)).or_insert(to);
        *most = to.max(*most);
        let beyond = self.ends.get(&(epoch, of)).is_some_and(|end| to > *end);
        if beyond { Err(WalkViolation(AGREEMENT)) } else { Ok(()) }
    }

    /// Records that a reader continues from an epoch.
    pub(super) fn ends(&mut self, epoch: u64, of: usize, at: u8) -> Result<(), WalkViolation> {
        let one = *self.ends.entry((epoch, of)).or_insert(at) == at;
        self.delivers(epoch, of, at)?;
        let beyond = self.most.get(&(epoch, of)).is_some_and(|most| *most > at);
        if !one || beyond { Err(WalkViolation(AGREEMENT)) } else { Ok(()) }
    }
}

impl WalkState {
    /// Checks the state in which only faults and writes are left to happen.
    pub(super) fn check_rest(&self, course: &WalkSetting) -> Result<(), WalkViolation> {
        let there = (0..course.nodes).filter(|&node| self.is_member(node));
        for index in there {
            let node = &self.nodes[index];
            let newest = node.registry.epochs(super::member::KEY).last();
            let seat = newest.and_then(|epoch| part(&epoch.layout, index));
            let rests = match (&node.current, newest, seat) {
                (None, _, None) => node.announced.is_none(),
                (Some(place), Some(newest), Some((reads, _))) => {
                    let all = |of: usize| {
                        let length = self.nodes[of].stream.len() as u8;
                        !reads || place.delivered[of] == length
                    };
                    let is_in_it = place.epoch.number == newest.number && node.begun;
                    is_in_it
                        && place.phase == EpochPhase::Open
                        && node.owes.is_empty()
                        && senders(&place.epoch.layout).all(all)
                }
                _ => false,
            };
            let up_to_date = node.changes + 1 == course.layouts.len() && node.view == self.view;
            if !rests || !up_to_date || node.wedged.is_some() {
                return Err(WalkViolation(RESTS));
            }
        }
        Ok(())
    }
}
