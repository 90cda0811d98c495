//! A machine: protocol without clock, thread or I/O. It is told what happened and what time it
//! is, and answers with effects.
//!
//! Owns: the port between the protocol and whatever drives it. Production drives a machine with a
//! thread over real links, the simulator in virtual time over simulated ones; the machine cannot
//! tell the difference, and there is no second implementation of anything.

use alloc::vec::Vec;
use core::ops::Range;

use crate::ids::{Peer, RegionId, Time};
use crate::link::{Interest, LinkEvent, Sharing, WordRange};
use crate::memory::Replica;

/// A deterministic state machine that a driver turns.
pub trait Machine {
    /// Takes in one event of the link.
    fn handle(&mut self, event: LinkEvent, effects: &mut Effects);

    /// One pass over everything that is ready. Returns how much was done; zero means idle.
    fn turn(&mut self, now: Time, effects: &mut Effects) -> usize;

    /// What a sleep has to end for.
    fn interest(&self) -> Interest {
        Interest::Hints
    }

    /// Whether it can go on only after others have run, so that an idle driver offers them its
    /// processor at once instead of spinning.
    fn awaits_others(&self) -> bool {
        false
    }

    /// When the machine wants a turn at the latest although nothing happens.
    fn wants_turn_at(&self) -> Option<Time> {
        None
    }
}

/// A peer as a machine addresses it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Target {
    /// The link's handle.
    pub peer: Peer,
    /// Whether a store is enough.
    pub sharing: Sharing,
}

/// What a turn cost, in units that a cost model can price. Production ignores it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Work {
    /// Predicates evaluated.
    pub predicates: u64,
    /// Cells of other nodes' rows that were looked at.
    pub cells: u64,
    /// Triggers run.
    pub triggers: u64,
    /// Bytes copied.
    pub copied_bytes: u64,
    /// Messages that an application has committed.
    pub committed: u64,
    /// Entries that a send predicate has taken in.
    pub sent: u64,
    /// Entries that were gone over for the posts to one peer, for each peer.
    pub shown: u64,
    /// Entries that a receive predicate has taken in.
    pub received: u64,
    /// Places of an order that a delivery predicate has passed.
    pub delivered: u64,
}

impl Work {
    /// What was done since `earlier`.
    pub fn since(self, earlier: Work) -> Work {
        Work {
            predicates: self.predicates - earlier.predicates,
            cells: self.cells - earlier.cells,
            triggers: self.triggers - earlier.triggers,
            copied_bytes: self.copied_bytes - earlier.copied_bytes,
            committed: self.committed - earlier.committed,
            sent: self.sent - earlier.sent,
            shown: self.shown - earlier.shown,
            received: self.received - earlier.received,
            delivered: self.delivered - earlier.delivered,
        }
    }
}

/// One thing that a machine wants done, and the work that came before it in this turn.
#[derive(Debug)]
pub struct Post {
    /// To whom.
    pub peer: Peer,
    /// What.
    pub kind: PostKind,
    /// The turn's work up to this post.
    pub work: Work,
}

/// What a [`Post`] is.
#[derive(Debug)]
pub enum PostKind {
    /// A one-sided write of words of an own region.
    Write(RegionId, WordRange),
    /// A one-sided read of words of the peer's region.
    Read(RegionId, WordRange),
    /// A control message.
    Note(Vec<u8>),
}

/// What a machine wants done, in order. Its buffers are kept from turn to turn, so that a turn
/// allocates nothing once they have grown to their working size.
#[derive(Debug, Default)]
pub struct Effects {
    posts: Vec<Post>,
    touched: Vec<Peer>,
    hinted: Vec<Peer>,
    closes: Vec<RegionId>,
    privatized: Vec<(Replica, Range<usize>)>,
    work: Work,
}

impl Effects {
    /// No effects yet.
    pub fn new() -> Effects {
        Effects::default()
    }

    /// Words of an own region are to be seen by `target`: posted where they have to be, and the
    /// peer is woken at the end of the turn if it sleeps.
    #[inline]
    pub fn write(&mut self, target: Target, region: RegionId, range: WordRange) {
        self.touch(target.peer);
        self.post(target, region, range);
    }

    /// As [`Effects::write`], for what only matters to a peer that waits for it: one that sleeps
    /// is woken only if it said that it wants [hints](Interest).
    #[inline]
    pub fn hint(&mut self, target: Target, region: RegionId, range: WordRange) {
        if !self.hinted.contains(&target.peer) {
            self.hinted.push(target.peer);
        }
        self.post(target, region, range);
    }

    #[inline]
    fn post(&mut self, target: Target, region: RegionId, range: WordRange) {
        if target.sharing == Sharing::Copied {
            let kind = PostKind::Write(region, range);
            self.posts.push(Post { peer: target.peer, kind, work: self.work });
        }
    }

    /// Words of a peer's region are to be fetched.
    pub fn read(&mut self, peer: Peer, region: RegionId, range: WordRange) {
        self.posts.push(Post { peer, kind: PostKind::Read(region, range), work: self.work });
    }

    /// A control message is to be sent.
    pub fn note(&mut self, peer: Peer, bytes: Vec<u8>) {
        self.posts.push(Post { peer, kind: PostKind::Note(bytes), work: self.work });
    }

    /// An own region is used no more, by nobody.
    pub fn close(&mut self, region: RegionId) {
        self.closes.push(region);
    }

    /// Lets bytes of a replica [become private](Replica::privatize), before any post of this turn is made (I-335).
    pub fn privatize(&mut self, replica: Replica, bytes: Range<usize>) {
        self.privatized.push((replica, bytes));
    }

    /// Takes out the bytes that are to become private, before the posts.
    pub fn take_privatized(&mut self) -> impl Iterator<Item = (Replica, Range<usize>)> + '_ {
        self.privatized.drain(..)
    }

    /// Takes out the regions to be closed, after the posts.
    pub fn take_closes(&mut self) -> impl Iterator<Item = RegionId> + '_ {
        self.closes.drain(..)
    }

    /// `peer` has news to look at.
    #[inline]
    pub fn touch(&mut self, peer: Peer) {
        if self.touched.last() != Some(&peer) && !self.touched.contains(&peer) {
            self.touched.push(peer);
        }
    }

    /// The work of this turn, to be added to.
    #[inline]
    pub fn work(&mut self) -> &mut Work {
        &mut self.work
    }

    /// The work of this turn so far.
    pub fn work_done(&self) -> Work {
        self.work
    }

    /// The peers that have news.
    pub fn touched(&self) -> &[Peer] {
        &self.touched
    }

    /// The peers to which something was said that they may wait for.
    pub fn hinted(&self) -> &[Peer] {
        &self.hinted
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.posts.is_empty()
            && self.touched.is_empty()
            && self.hinted.is_empty()
            && self.closes.is_empty()
            && self.privatized.is_empty()
    }

    /// Takes the posts out, in order; the buffer stays.
    pub fn take_posts(&mut self) -> impl Iterator<Item = Post> + '_ {
        self.posts.drain(..)
    }

    /// Ready for the next turn.
    pub fn clear(&mut self) {
        self.posts.clear();
        self.touched.clear();
        self.hinted.clear();
        self.closes.clear();
        self.privatized.clear();
        self.work = Work::default();
    }
}
