//! A subgroup in which nothing happens: what makes its own stream quiet, and when nobody has to look
//! at it.
//!
//! Owns: these conditions. Never does: decide how long nothing has to happen, or notice what ends it.

use alloc::sync::Arc;

use super::epoch::Phase;
use super::{Source, Subgroup};
use crate::atomic::AtomicU64;
use crate::ids::Peer;
use crate::link::Sharing;
use crate::machine::Target;
use crate::multicast::changes::named;

impl Subgroup {
    /// Sets this bit when an application lets go of what this subgroup does not look at any more.
    pub fn notice_in(&mut self, word: &Arc<AtomicU64>, bit: u32) {
        self.sources.iter_mut().for_each(|source| source.incoming.notice_in(word, bit));
        self.notice = Some((Arc::clone(word), bit));
    }

    /// The number of this member's mark and what it shows, if its changes are counted.
    #[inline]
    pub fn mark(&self) -> Option<(usize, u64)> {
        self.own.as_ref()?.sender.mark()
    }

    /// The members that have a copy of this member's stream.
    pub fn copies(&self) -> impl Iterator<Item = Target> {
        let copied = |target: &Target| target.sharing == Sharing::Copied;
        let staying = self.members.iter().filter(|member| !member.gone);
        staying.filter_map(|member| member.bell().0).filter(copied)
    }

    /// Says that this member's stream is quiet, if all others have been shown all of it and can be
    /// shown when that ends; `counts` says of whom. After a barrier [`Subgroup::look_again`] has to
    /// follow.
    pub fn fall_quiet(&self, counts: impl Fn(Peer) -> bool) -> bool {
        let Some(own) = self.own.as_ref().filter(|_| self.phase == Phase::Open) else {
            return false;
        };
        let shown = self.members.iter().all(|member| member.gone || member.is_shown(&own.sender));
        shown && self.copies().all(|target| counts(target.peer)) && own.sender.fall_quiet()
    }

    /// See [`Sender::look_again`](crate::multicast::send::Sender::look_again).
    pub fn look_again(&self) {
        self.own.iter().for_each(|own| own.sender.look_again());
    }

    /// The sender of this rank: where it is (none: here), and the number of its mark. `None` where
    /// it has none, as far as can be seen yet.
    pub fn mark_of(&self, rank: usize) -> Option<(Option<Target>, usize)> {
        let number = named(self.sources[rank].incoming.source().replica())?;
        let member = self.members.iter().find(|member| member.source == Some(rank))?;
        Some((member.bell().0, number))
    }

    /// Whether it is in the midst of an epoch of which nobody is missing (I-29); or this node is no
    /// member, and nothing happens here any more.
    pub fn may_rest(&self) -> bool {
        match self.phase {
            Phase::Open => !self.stalled,
            phase => phase == Phase::Left && !self.lingers(),
        }
    }

    /// Nothing can be found in this subgroup, and what is held is noticed when it is released: until
    /// [`Subgroup::look`] it is not looked at, given that all its senders were seen to be quiet
    /// before. `false` if something may be found, or a member is gone.
    pub fn rest(&self) -> bool {
        let rests = self.may_rest()
            && !self.members.iter().any(|member| member.gone)
            && !self.may_find(Source::has_next)
            && self.sources.iter().all(|source| source.incoming.rest_while_held());
        if !rests {
            self.look();
        }
        rests
    }

    /// It is looked at again.
    pub fn look(&self) {
        self.sources.iter().for_each(|source| source.incoming.look_while_held());
    }
}
