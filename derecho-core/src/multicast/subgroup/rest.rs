//! Resting subgroups: conditions under which a stream becomes quiet, and no node has to look
//! at a subgroup.
//!
//! Owns: these conditions. Never does: decide how long a subgroup must be inactive, or notice the
//! end of the rest.

use alloc::sync::Arc;

use super::epoch::EpochPhase;
use super::{Subgroup, SubgroupSource};
use crate::atomic::AtomicU64;
use crate::ids::Peer;
use crate::link::Sharing;
use crate::machine::Target;
use crate::multicast::changes::named;

impl Subgroup {
    /// Makes releases of records that this subgroup no longer checks set this bit.
    pub fn notice_in(&mut self, word: &Arc<AtomicU64>, bit: u32) {
        self.sources.iter_mut().for_each(|source| source.incoming.notice_in(word, bit));
        self.notice = Some((Arc::clone(word), bit));
    }

    /// Number and shown value of this member's mark, if its changes are counted.
    #[inline]
    pub fn mark(&self) -> Option<(usize, u64)> {
        self.own_stream.as_ref()?.sender.mark()
    }

    /// Members that have a copy of this member's stream.
    pub fn copies(&self) -> impl Iterator<Item = Target> {
        let copied = |target: &Target| target.sharing == Sharing::Copied;
        let staying = self.members.iter().filter(|member| !member.gone);
        staying.filter_map(|member| member.bell().0).filter(copied)
    }

    /// Declares this member's stream quiet, if all other members have been shown all of it and can
    /// be shown the end of the quiet. `counts`: whether a peer can be shown that.
    /// [`Subgroup::look_again`] must follow after a barrier.
    pub fn fall_quiet(&self, counts: impl Fn(Peer) -> bool) -> bool {
        let Some(own) = self.own_stream.as_ref().filter(|_| self.phase == EpochPhase::Open) else {
            return false;
        };
        let shown = self.members.iter().all(|member| member.gone || member.is_shown(&own.sender));
        shown && self.copies().all(|target| counts(target.peer)) && own.sender.fall_quiet()
    }

    /// Ends the quiet if there are new commits. See
    /// [`Sender::look_again`](crate::multicast::send::Sender::look_again).
    pub fn look_again(&self) {
        self.own_stream.iter().for_each(|own| own.sender.look_again());
    }

    /// Location of the sender with this rank (`None` for this node), and number of its mark. `None`
    /// if it has no mark, as far as can be seen yet.
    pub fn mark_of(&self, rank: usize) -> Option<(Option<Target>, usize)> {
        let number = named(self.sources[rank].incoming.sender_replica().replica())?;
        let member = self.members.iter().find(|member| member.source == Some(rank))?;
        Some((member.bell().0, number))
    }

    /// Whether the subgroup is in the middle of an epoch of which no member is missing (I-29), or
    /// this node has left it and has nothing more to report.
    pub fn may_rest(&self) -> bool {
        match self.phase {
            EpochPhase::Open => !self.stalled,
            phase => phase == EpochPhase::Left && !self.lingers(),
        }
    }

    /// Lets the subgroup rest, given that all its senders were seen to be quiet before: it is not
    /// looked at until [`Subgroup::look`], and releases of held memory are noticed. `false` if
    /// something may be found, or a member is gone.
    pub fn rest(&self) -> bool {
        let rests = self.may_rest()
            && !self.members.iter().any(|member| member.gone)
            && !self.may_find(SubgroupSource::has_next)
            && self.sources.iter().all(|source| source.incoming.rest_while_held());
        if !rests {
            self.look();
        }
        rests
    }

    /// Ends the rest.
    pub fn look(&self) {
        self.sources.iter().for_each(|source| source.incoming.look_while_held());
    }
}
