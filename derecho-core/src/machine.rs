//! A machine: protocol without clock, thread or I/O. Its inputs are events and the time, its
//! outputs are effects.
//!
//! Owns: the port between the protocol and its driver. Production drives a machine with a thread
//! over real links, the simulator in virtual time over simulated links. The machine cannot tell the
//! difference, and nothing is implemented twice.

use alloc::vec::Vec;
use core::ops::Range;

use crate::ids::{Peer, RegionId, Time};
use crate::link::{Interest, LinkEvent, Sharing, WordRange};
use crate::memory::Replica;

/// Deterministic state machine that a driver turns.
pub trait Machine {
    /// Takes in one event of the link.
    fn handle(&mut self, event: LinkEvent, effects: &mut Effects);

    /// Performs one pass over everything that is ready. Returns how much was done; zero means idle.
    fn turn(&mut self, now: Time, effects: &mut Effects) -> usize;

    /// Kind of events that must end a sleep of the driver.
    fn interest(&self) -> Interest {
        Interest::Hints
    }

    /// Whether progress depends on other threads, so that an idle driver yields its processor at
    /// once instead of spinning.
    fn awaits_others(&self) -> bool {
        false
    }

    /// Latest time at which the machine wants a turn even if nothing happens.
    fn wants_turn_at(&self) -> Option<Time> {
        None
    }
}

/// Address of a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Target {
    /// The link's handle.
    pub peer: Peer,
    /// Whether a store is visible to the peer without a post.
    pub sharing: Sharing,
}

/// Cost of a turn, in units that a cost model can price. Production ignores it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Work {
    /// Predicates evaluated.
    pub predicates: u64,
    /// Cells of other nodes' rows that were read.
    pub cells: u64,
    /// Triggers run.
    pub triggers: u64,
    /// Bytes copied.
    pub copied_bytes: u64,
    /// Messages committed by an application.
    pub committed: u64,
    /// Entries taken in by a send predicate.
    pub sent: u64,
    /// Entries examined for posts, counted once for each peer.
    pub shown: u64,
    /// Entries taken in by a receive predicate.
    pub received: u64,
    /// Positions of an order passed by a delivery predicate.
    pub delivered: u64,
}

impl Work {
    /// Returns the work done since `earlier`.
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

/// One effect, and the work that preceded it in this turn.
#[derive(Debug)]
pub struct Post {
    /// Receiver.
    pub peer: Peer,
    /// Content.
    pub kind: PostKind,
    /// Work of the turn before this post.
    pub work: Work,
}

/// Content of a [`Post`].
#[derive(Debug)]
pub enum PostKind {
    /// One-sided write of words of an own region.
    Write(RegionId, WordRange),
    /// One-sided read of words of the peer's region.
    Read(RegionId, WordRange),
    /// A control message.
    Note(Vec<u8>),
}

/// Effects of a machine, in order. The buffers are kept from turn to turn, so a turn allocates
/// nothing once they have grown to their working size.
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
    /// Creates an empty list of effects.
    pub fn new() -> Effects {
        Effects::default()
    }

    /// Shows words of an own region to `target`: posts them if memory is not shared, and wakes a
    /// sleeping peer at the end of the turn.
    #[inline]
    pub fn write(&mut self, target: Target, region: RegionId, range: WordRange) {
        self.touch(target.peer);
        self.post(target, region, range);
    }

    /// As [`Effects::write`], for words that matter only to a peer that waits for them. A sleeping
    /// peer is woken only if it asked for [hints](Interest).
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

    /// Fetches words of a peer's region.
    pub fn read(&mut self, peer: Peer, region: RegionId, range: WordRange) {
        self.posts.push(Post { peer, kind: PostKind::Read(region, range), work: self.work });
    }

    /// Sends a control message.
    pub fn note(&mut self, peer: Peer, bytes: Vec<u8>) {
        self.posts.push(Post { peer, kind: PostKind::Note(bytes), work: self.work });
    }

    /// Closes an own region that no node uses any more.
    pub fn close(&mut self, region: RegionId) {
        self.closes.push(region);
    }

    /// Lets bytes of a replica [become private](Replica::privatize), before any post of this turn
    /// is made (I-335).
    pub fn privatize(&mut self, replica: Replica, bytes: Range<usize>) {
        self.privatized.push((replica, bytes));
    }

    /// Takes the bytes to be made private, before the posts.
    pub fn take_privatized(&mut self) -> impl Iterator<Item = (Replica, Range<usize>)> + '_ {
        self.privatized.drain(..)
    }

    /// Takes the regions to be closed, after the posts.
    pub fn take_closes(&mut self) -> impl Iterator<Item = RegionId> + '_ {
        self.closes.drain(..)
    }

    /// Notes that `peer` has news to look at.
    #[inline]
    pub fn touch(&mut self, peer: Peer) {
        if self.touched.last() != Some(&peer) && !self.touched.contains(&peer) {
            self.touched.push(peer);
        }
    }

    /// Work of this turn, to be added to.
    #[inline]
    pub fn work(&mut self) -> &mut Work {
        &mut self.work
    }

    /// Work of this turn so far.
    pub fn work_done(&self) -> Work {
        self.work
    }

    /// Peers that have news.
    pub fn touched(&self) -> &[Peer] {
        &self.touched
    }

    /// Peers that have hints: progress that they may be waiting for.
    pub fn hinted(&self) -> &[Peer] {
        &self.hinted
    }

    /// Whether there are no effects.
    pub fn is_empty(&self) -> bool {
        self.posts.is_empty()
            && self.touched.is_empty()
            && self.hinted.is_empty()
            && self.closes.is_empty()
            && self.privatized.is_empty()
    }

    /// Takes the posts, in order; the buffer stays.
    pub fn take_posts(&mut self) -> impl Iterator<Item = Post> + '_ {
        self.posts.drain(..)
    }

    /// Clears the effects for the next turn.
    pub fn clear(&mut self) {
        self.posts.clear();
        self.touched.clear();
        self.hinted.clear();
        self.closes.clear();
        self.privatized.clear();
        self.work = Work::default();
    }
}
