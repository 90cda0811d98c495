//! The link port: how bytes move between nodes, and what may be concluded from them.
//!
//! This contract is the most important documentation of the code. Everything above a link relies on
//! it and on nothing more; everything below a link provides it, and may provide more.
//!
//! # The contract of a one-sided write
//!
//! A node owns regions; each of its peers has a [`Replica`] of each. [`Link::write`] posts the
//! words of a range of an own region to the replica that one peer has of it.
//!
//! 1. **In order to one peer.** Writes from A to B become visible at B in the order in which A
//!    posted them: a reader that sees any word of a later write sees all words of every earlier
//!    one. Nothing is promised between different writers or different readers.
//! 2. **Words are atomic, writes are not.** Only an aligned 8-byte word moves as a unit. A longer
//!    write may be seen in part, and its words may appear in any order.
//! 3. **Short writes are captured at the post, long ones later.** A write of up to [`INLINE_WORDS`]
//!    words (a cache line) carries the values that the source had when it was posted. Of a longer
//!    write, the link may read each source word at any moment between the post and the arrival.
//!    Code that changes such a word meanwhile must accept that either value arrives, so bytes are
//!    not reused before all readers have acknowledged them. *A word that guards others is posted in
//!    a short write*: if it were captured late, an earlier post of a counter could carry the
//!    counter's next value, and arrive before the bytes that this value counts.
//! 4. **Posted is not arrived.** A concludes nothing about B's memory until B shows it in B's
//!    own region.
//!
//! All code above a link therefore follows one discipline (I-1). News leaves in three steps,
//! **bytes**, then **counters**, then **vouching words**, each stored before the next *and* posted
//! before it. A reader loads from right to left: the vouching word first, with
//! [`AtomicWord::load`]. In shared memory a store is visible without any post, so the order of the
//! stores ([`AtomicWord::publish`], a release) must be right as well as the order of the posts.
//!
//! Every counter is monotonic, one word, on a cache line that only its owner writes.
//!
//! # Rules for regions, notes and peers
//!
//! * A replica appears at a peer either zeroed or with the present words ([`LinkEvent::RegionUp`]).
//!   The owner receives [`LinkEvent::RegionReady`] once that peer can receive. Before that event, a
//!   write to that peer is refused; after it, the owner posts whatever the peer needs to see, once.
//! * [`Link::note`] carries small control messages, reliably and in order per peer, also relative
//!   to region announcements. Nothing is promised between notes and one-sided writes.
//! * [`LinkEvent::PeerDown`] is the last event of a peer. Its replicas stay readable while a handle
//!   on them exists. After [`Evidence::Certain`] and [`Evidence::Left`] they no longer change.
//!   After [`Evidence::Uncertain`], a peer that lives behind a broken connection may go on storing
//!   where memory is shared, so words from which anything is still to be concluded are copied
//!   first. Writes to the peer are refused after this event, and may be refused a little before it.
//!   Writes still in flight from the peer may be lost, or land in part.
//! * [`Link::read`] fetches words of a peer's region into this node's replica (SST-reads need it).
//!   Words are atomic, in any order. [`LinkEvent::ReadDone`] says that all of them have arrived,
//!   each as it was at some moment after the read was posted. Reads from one peer complete in the
//!   order posted, and an older one never lands over a newer one. Nothing is promised between reads
//!   from different peers, or between a read and the owner's writes of the same words: a region is
//!   either fetched or posted, not both.
//! * Memory that a peer may still read or write is not recycled while that peer is up.
//!
//! # Decisions of a host
//!
//! All nodes of one host can ask the same authority: the host's kernel. A link that reaches the
//! nodes of a host provides an [`Arbiter`], which answers two questions the same to all of them:
//! which node founds the group, and whose decision is valid for a view. The arbiter answers whether
//! or not the nodes that asked before are alive, and a node that died or was stopped half-way keeps
//! no other node from asking.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use crate::ids::{NodeId, Peer, Rank, RegionId};
#[cfg(doc)]
use crate::memory::AtomicWord;
use crate::memory::{OwnRegion, Replica};

pub mod host;

/// Maximum length of a write that is captured at the post, in words.
pub const INLINE_WORDS: usize = 8;

/// A run of whole words in a region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WordRange {
    /// First word.
    pub first: usize,
    /// Number of words.
    pub count: usize,
}

impl WordRange {
    /// Creates the range `first .. first + count`.
    pub fn new(first: usize, count: usize) -> WordRange {
        WordRange { first, count }
    }

    /// One past the last word, or `None` if that overflows.
    pub fn end(self) -> Option<usize> {
        self.first.checked_add(self.count)
    }
}

/// How a peer sees what this node writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sharing {
    /// The peer's replica is the same memory: a store suffices, and a write costs nothing.
    Shared,
    /// The peer has a copy: it only sees what is posted.
    Copied,
}

/// Certainty that a peer is gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Evidence {
    /// The kernel says that the process is gone: it will never write again.
    Certain,
    /// The peer announced that it leaves, and wrote nothing after that.
    Left,
    /// The connection broke: the peer may be alive behind it.
    Uncertain,
}

/// Event that a link reports to the node.
#[derive(Clone, Debug)]
pub enum LinkEvent {
    /// A peer appeared.
    PeerUp {
        /// The link's handle for the peer.
        peer: Peer,
        /// Identity of the peer.
        node: NodeId,
        /// How the peer sees what this node writes.
        sharing: Sharing,
        /// Place of the peer among the [`Bells`]; `None` if only [`Link::ring`] wakes it.
        place: Option<u32>,
    },
    /// A peer has opened a region.
    RegionUp {
        /// Owner of the region.
        peer: Peer,
        /// Name of the region, given by its owner.
        region: RegionId,
        /// View of the region on this node.
        replica: Replica,
    },
    /// A peer can receive writes to an own region from now on.
    RegionReady {
        /// Peer that can receive.
        peer: Peer,
        /// Own region.
        region: RegionId,
    },
    /// A peer has closed a region. Existing replicas stay readable.
    RegionDown {
        /// Owner of the region.
        peer: Peer,
        /// Closed region.
        region: RegionId,
    },
    /// A control message arrived.
    Note {
        /// Sender of the message.
        peer: Peer,
        /// Content, as sent; it comes from a peer and must be checked.
        bytes: Vec<u8>,
    },
    /// A [`Link::read`] is complete.
    ReadDone {
        /// Owner of the region that was read.
        peer: Peer,
        /// The completed read.
        read: ReadId,
    },
    /// A peer is gone; this is its last event.
    PeerDown {
        /// The peer.
        peer: Peer,
        /// Certainty that the peer is gone.
        evidence: Evidence,
    },
}

/// A posted read, numbered by the link in the order of posting.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ReadId(pub u64);

/// Maximum length of a note, in bytes. Announcements fit; bulk data does not belong in notes.
pub const NOTE_LIMIT: usize = 16 * 1024;

/// Reason why a link refused a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LinkError {
    /// The peer does not exist, or is gone.
    PeerGone(Peer),
    /// The owner has no such region, or it is closed.
    NoRegion(RegionId),
    /// The peer has not yet said that it can receive this region.
    NotReady(Peer, RegionId),
    /// The range does not lie inside the region.
    OutOfRegion(RegionId, WordRange),
    /// The name of the region is in use.
    RegionExists(RegionId),
    /// The note is longer than [`NOTE_LIMIT`].
    NoteTooLong(usize),
    /// The system refused; the text says what was asked and what to do.
    System(String),
    /// This process or the system lacks descriptors or memory; the text says for what.
    Exhausted(String),
}

impl fmt::Display for LinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LinkError::PeerGone(peer) => write!(f, "peer {} is gone", peer.0),
            LinkError::NoRegion(region) => write!(f, "region {:#x} is not open", region.0),
            LinkError::NotReady(peer, region) => {
                write!(f, "peer {} cannot receive region {:#x} yet", peer.0, region.0)
            }
            LinkError::OutOfRegion(region, range) => write!(
                f,
                "words {} to {} lie outside region {:#x}",
                range.first,
                range.first.saturating_add(range.count),
                region.0
            ),
            LinkError::RegionExists(region) => {
                write!(f, "region {:#x} is open already; region names are not reused", region.0)
            }
            LinkError::NoteTooLong(length) => {
                write!(f, "a note of {length} bytes is longer than the limit of {NOTE_LIMIT}")
            }
            LinkError::System(text) | LinkError::Exhausted(text) => f.write_str(text),
        }
    }
}

impl core::error::Error for LinkError {}

/// Counters of a link, which always count. A post is one write to one peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LinkCounters {
    /// One-sided writes posted.
    pub writes: u64,
    /// Bytes of those writes.
    pub written_bytes: u64,
    /// One-sided reads posted.
    pub reads: u64,
    /// Bytes of those reads.
    pub read_bytes: u64,
    /// Notes sent.
    pub notes: u64,
    /// Wake-ups of sleeping peers.
    pub rings: u64,
}

/// A link to other nodes. See the [module](self) for the contract.
pub trait Link {
    /// Identity of this node.
    fn node(&self) -> NodeId;

    /// Opens a zeroed region of `words` words and announces it to every present and future peer.
    /// The link keeps no other handle that stores to the region: a
    /// [`SenderMemory`](crate::multicast::claim::SenderMemory) takes only a region that has none.
    fn open(&mut self, region: RegionId, words: usize) -> Result<OwnRegion, LinkError>;

    /// Closes an own region. Its memory lives until the last handle on it is dropped.
    fn close(&mut self, region: RegionId) -> Result<(), LinkError>;

    /// Posts `range` of an own region to a peer's replica of it.
    fn write(&mut self, peer: Peer, region: RegionId, range: WordRange) -> Result<(), LinkError>;

    /// Posts a read of `range` of a peer's region into this node's replica of it.
    fn read(&mut self, peer: Peer, region: RegionId, range: WordRange)
    -> Result<ReadId, LinkError>;

    /// Sends a control message.
    fn note(&mut self, peer: Peer, bytes: &[u8]) -> Result<(), LinkError>;

    /// Wakes the sleeping peers among `news`, and those among `hints` that sleep and want
    /// [hints](Interest) too. The wake-up comes after everything stored or posted before.
    fn ring(&mut self, news: &[Peer], hints: &[Peer]);

    /// Returns the place of a peer among those that [`Bells`] reach, from its [`LinkEvent::PeerUp`]
    /// to its [`LinkEvent::PeerDown`]; `None` for a peer that only [`Link::ring`] wakes. A free
    /// place is given to another peer.
    fn place(&self, peer: Peer) -> Option<u32> {
        let _ = peer;
        None
    }

    /// Returns the bells of this node and of the peers that have a [place](Link::place).
    fn bells(&self) -> Arc<dyn Bells> {
        Arc::new(NoBells)
    }

    /// Returns a barrier that makes every thread of this process pass a full fence, if the
    /// system has one. The barrier costs its caller about a microsecond, and the other threads
    /// an interruption.
    fn barrier(&self) -> Option<Arc<dyn Barrier>> {
        None
    }

    /// Returns the arbiter of this node's host for a group whose members are all on the host;
    /// `None` if this link is not limited to one host, or the host has no arbiter that all nodes
    /// can ask.
    fn arbiter(&self) -> Option<Arc<dyn Arbiter>> {
        None
    }

    /// Whether the kernel shows a peer's process as stopped or traced at this moment. False if this
    /// cannot be known, and for a peer that is gone. The call costs a few system calls, so it is
    /// made only for silent peers.
    fn is_halted(&self, peer: Peer) -> bool {
        let _ = peer;
        false
    }

    /// Returns [`Link::is_halted`] as a function of a node's identity, for callers without the link
    /// at hand, such as a group's membership.
    fn halts(&self) -> Arc<dyn Fn(NodeId) -> bool + Send + Sync> {
        Arc::new(|_| false)
    }

    /// Passes the events since the last call to `sink`; returns their number. Never blocks.
    fn poll(&mut self, sink: &mut dyn FnMut(LinkEvent)) -> usize;

    /// Counters of this link.
    fn counters(&self) -> LinkCounters;
}

/// A local group, identified by the number of its founding on its host. Messages about views
/// name the generation, so that no node takes the messages of a former group for those of the
/// present one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Generation(pub u64);

impl Generation {
    /// The value before the first founding.
    pub const NONE: Generation = Generation(0);
}

/// State of the group of a host. See [`Arbiter::found`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Founding {
    /// This node has just founded a group. It is a member that has [entered](Arbiter::entered) the
    /// first view, which has number 1, in slot 0.
    Founded(Generation),
    /// A group with a living member exists. The member may be this node.
    Exists(Generation),
    /// The limit of foundings ([`host::GENERATIONS`]) is reached. All nodes of the host must leave
    /// before the next one.
    Exhausted,
}

/// Decisions of a host for the group whose members are all on it. Any thread may ask, without
/// the driver.
///
/// ```text
///   found ──> Founded ────────────────────────────┐
///     │                                           v
///     └────> Exists ── admitted by a view ──> entered ──> a member: settle, cleared ──> left
/// ```
/// A member counts as one until it has [left](Arbiter::left), was [cleared](Arbiter::cleared) by
/// another member, or is gone: the kernel says that it is dead, or it no longer uses its link. A
/// stopped member is not gone. See I-60 to I-62 in `docs/internals/protocol/README.md`; [`host`]
/// defines the words that implement this.
pub trait Arbiter: Send + Sync {
    /// Founds a group if there is none, that is, if no node has founded one or all members of the
    /// last one are gone. If several nodes ask at once, one of them founds. Waits only briefly, for
    /// other nodes that ask.
    ///
    /// # Errors
    /// [`LinkError::System`] says what the host refused. Nothing is founded then. The caller may
    /// ask again, and succeeds once the obstacle is gone.
    fn found(&self) -> Result<Founding, LinkError>;

    /// Takes `ballot` as the decision for the view of this number if there is none; returns the
    /// valid decision. `None` means that the group is past that view or is not the one founded
    /// last, so the caller is no longer a member. Never waits.
    fn settle(&self, group: Generation, view: u64, ballot: Rank) -> Option<Rank>;

    /// Makes this node a member: `view` is its first view, `slot` its own slot. Must be called
    /// before the node delivers anything in that view. Returns false if the group is not the one
    /// founded last, or was given up before this node came into it; the node is then no member, and
    /// asks again which node founds. Also returns false for a node that never asked. Never waits
    /// for another node.
    #[must_use]
    fn entered(&self, group: Generation, view: u64, slot: u8) -> bool;

    /// Ends this node's membership. A node that leaves its link has left as well.
    fn left(&self);

    /// Whether the host counts this node as a member. The result turns false before the members
    /// that go on without the node reuse anything that the node can see. A node that was stopped
    /// and has not turned since therefore checks this before it trusts what it has read. The call
    /// costs a few loads, from any thread.
    fn is_member(&self) -> bool;

    /// Declares that the nodes that had these slots (one bit each) before the view of this number
    /// are no longer members. A node that entered in that view or later is not affected. The
    /// members that go on call this.
    fn cleared(&self, group: Generation, view: u64, slots: u64);
}

/// Wakes a node's own driver after an application thread has changed something that a turn must
/// look at: [`Parker::wake`] as a value that can be stored anywhere.
pub type Waker = Arc<dyn Fn() + Send + Sync>;

/// Process-wide memory barrier; see [`Link::barrier`].
pub trait Barrier: Send + Sync {
    /// Makes every thread of this process pass a full fence before the call returns.
    fn issue(&self);

    /// Lets other threads run for a moment, including those of lower priority, because the caller
    /// waits for one of them. Called seldom.
    fn pause(&self) {}
}

/// Place of a node itself among its [`Bells`].
pub const OWN_PLACE: u32 = 63;

/// Bells that any thread of a node may ring, at any time and without the node's driver: news that
/// an application thread has published in shared memory is visible without a turn.
///
/// If the places may change meanwhile, they are loaded between the two calls:
///
/// ```text
///   publish the news
///   bells.before_looking()
///   bells.ring(places.load())
/// ```
/// Then a peer whose place was stored before the peer was told to expect news misses none: either
/// the peer's look before it sleeps finds the news, or this thread finds its place.
pub trait Bells: Send + Sync {
    /// Orders this thread's earlier stores before its later loads, as far as possible sleepers need
    /// it. Not needed before a [`ring`](Bells::ring) of places that never change.
    fn before_looking(&self) {
        crate::park::before_looking();
    }

    /// Wakes the sleeping nodes in these places (one bit each, [`OWN_PLACE`] for the node itself):
    /// this thread has stored news before. The call is cheap while no node sleeps. If the peer of a
    /// place is gone, the call has no effect or wakes the next peer with that place.
    fn ring(&self, places: u64);
}

/// Bells of a link on which no node has a place.
pub struct NoBells;

impl Bells for NoBells {
    fn ring(&self, _places: u64) {}
}

/// Events for which a sleeper wants to be woken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Interest {
    /// News only: something to receive.
    News,
    /// Hints as well: peers have received or released something for which the sleeper waits.
    Hints,
}

/// Lets the thread that drives a node sleep without losing a wake-up.
///
/// ```text
///   sleeper                              writer (a peer, or an application thread)
///   arm(): parked = interest             publish the news
///            fence(SeqCst), barrier      fence(SeqCst), unless the sleeper's barrier does it
///   look once more; if there is news     if parked: ring
///            disarm(), go on
///   sleep(limit)
///   disarm(): parked = 0
/// ```
/// At least one of the two sees the other's store: either the sleeper finds the news, or the writer
/// rings. See [`crate::park`] for the two halves, which loom checks.
pub trait Parker: Send + Sync {
    /// Announces that this node is about to sleep. The caller looks for news once more before
    /// it sleeps.
    fn arm(&self, interest: Interest);
    /// Sleeps until the node is rung or `limit` nanoseconds have passed. `None` waits
    /// without limit.
    fn sleep(&self, limit: Option<u64>);
    /// Announces that this node is awake.
    fn disarm(&self);
    /// Wakes this node's own sleeper, if it sleeps, after everything stored before.
    fn wake(&self);
}
