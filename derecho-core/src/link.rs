//! The link port: what moves bytes between nodes, and what may be concluded from them.
//!
//! This is the most important page of the code. Everything above a link relies on the contract
//! below and on nothing more; everything below gives it, and may give more.
//!
//! # The contract of a one-sided write
//!
//! A node owns regions; each of its peers has a [`Replica`] of each. [`Link::write`] posts the
//! words of a range of an own region to the replica that one peer has of it.
//!
//! 1. **In order to one peer.** Writes from A to B become visible at B in the order in which A
//!    posted them: whoever sees any word of a later write sees all words of every earlier one.
//!    Nothing is promised between different writers or different readers.
//! 2. **Words are atomic, writes are not.** Only an aligned 8-byte word is moved as one. A longer
//!    write may be seen in part, and its words may appear in any order.
//! 3. **Short writes are taken at the post, long ones late.** A write of up to [`INLINE_WORDS`]
//!    words (a cache line) carries the values that the source had when it was posted. Of a longer
//!    one the link may read each source word at a moment of its own between the post and the
//!    arrival: whoever changes them meanwhile must be content with either value, so bytes are not
//!    reused before all readers vouch for it. *Whatever guards something is posted in a short
//!    write*: read late, an earlier post of a counter could carry its next value, and arrive
//!    before the bytes that this value counts.
//! 4. **Posted is not arrived.** A concludes nothing about B's memory until B shows it in B's own
//!    region.
//!
//! Hence the discipline of everything above: news leaves in three steps, **bytes**, then
//! **counters**, then **vouching words**, each stored before the next *and* posted before it. A
//! reader loads from right to left: the vouching word first, with [`Word::load`].
//! Where memory is shared a store is seen without any post, so the order of the stores
//! ([`Word::publish`], a release) has to be right as well as the order of the posts.
//!
//! Every counter is monotonic, one word, on a cache line that only its owner writes.
//!
//! # Who may do what when
//!
//! * A replica appears at a peer zeroed, or with the words as they are ([`LinkEvent::RegionUp`]).
//!   The owner hears [`LinkEvent::RegionReady`] once that peer can receive. Before it, a write to
//!   that peer is refused; after it the owner posts whatever the peer has to see, once.
//! * [`Link::note`] carries small control messages, reliably and in order per peer, also relative
//!   to region announcements. Nothing is promised between notes and one-sided writes.
//! * [`LinkEvent::PeerDown`] is the last event of a peer. Its replicas stay readable for as long
//!   as somebody holds them; after [`Evidence::Certain`] and [`Evidence::Left`] they change no
//!   more. After [`Evidence::Uncertain`] a peer that lives behind a broken connection may go on
//!   storing where memory is shared, so whatever is still to be concluded from them is copied
//!   first. Writes to it are refused from then on, perhaps a little before. What was still on its
//!   way from it may be lost, or land in part.
//! * [`Link::read`] fetches words of a peer's region into this node's replica (SST-reads need it).
//!   Words are atomic, in any order; [`LinkEvent::ReadDone`] says that all of them have arrived,
//!   each as it was at some moment after the read was posted. Reads from one peer complete in the
//!   order posted, and an older one never lands over a newer one. Nothing is promised between
//!   reads from different peers, or between a read and the owner's writes of the same words: a
//!   region is either fetched or posted, not both.
//! * Memory that a peer may still read or write is not recycled while that peer is up.
//!
//! # What a host decides
//!
//! Nodes of one host have somebody whom all of them can ask: its kernel. A link that reaches the nodes of a
//! host gives an [`Arbiter`], which answers two questions the same to all of them: who founds the group, and
//! whose decision is the one for a view. It answers whether or not those who asked before live, and nobody
//! who died or was stopped on the way keeps another from asking.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use crate::ids::{NodeId, Peer, Rank, RegionId};
#[cfg(doc)]
use crate::memory::Word;
use crate::memory::{OwnRegion, Replica};

pub mod host;

/// The longest write that is taken at the post, in words.
pub const INLINE_WORDS: usize = 8;

/// A run of whole words in a region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WordRange {
    /// The first word.
    pub first: usize,
    /// How many words.
    pub count: usize,
}

impl WordRange {
    /// The words `first .. first + count`.
    pub fn new(first: usize, count: usize) -> WordRange {
        WordRange { first, count }
    }

    /// One past the last word, or `None` if that is no number.
    pub fn end(self) -> Option<usize> {
        self.first.checked_add(self.count)
    }
}

/// How a peer comes to see what this node writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sharing {
    /// Its replica is the very memory: a store is enough, a write costs nothing.
    Shared,
    /// It has a copy: what is not posted is not seen.
    Copied,
}

/// How sure it is that a peer is gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Evidence {
    /// The kernel says that the process is gone: it will never write again.
    Certain,
    /// It said goodbye and wrote nothing after.
    Left,
    /// The connection broke: it may be alive behind it.
    Uncertain,
}

/// What a link has to tell the node.
#[derive(Clone, Debug)]
pub enum LinkEvent {
    /// A peer is there.
    PeerUp {
        /// The link's handle for it.
        peer: Peer,
        /// Who it is.
        node: NodeId,
        /// How it sees what is written.
        sharing: Sharing,
        /// Its place among the [`Bells`]; `None` if only [`Link::ring`] wakes it.
        place: Option<u32>,
    },
    /// A peer has opened a region; this is what can be seen of it here.
    RegionUp {
        /// The owner.
        peer: Peer,
        /// The owner's name for it.
        region: RegionId,
        /// What is seen here.
        replica: Replica,
    },
    /// A peer can receive writes to an own region from now on.
    RegionReady {
        /// The reader.
        peer: Peer,
        /// The own region.
        region: RegionId,
    },
    /// A peer has closed a region. Replicas in hand stay readable.
    RegionDown {
        /// The owner.
        peer: Peer,
        /// The region that is closed.
        region: RegionId,
    },
    /// A control message.
    Note {
        /// The sender.
        peer: Peer,
        /// Its content, as sent; a peer's word, to be checked.
        bytes: Vec<u8>,
    },
    /// A [`Link::read`] is complete.
    ReadDone {
        /// Whose region was read.
        peer: Peer,
        /// Which read.
        read: ReadId,
    },
    /// A peer is gone; its last event.
    PeerDown {
        /// Who.
        peer: Peer,
        /// How sure it is.
        evidence: Evidence,
    },
}

/// A posted read, numbered by the link in the order of posting.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ReadId(pub u64);

/// The longest note. Announcements fit; bulk data has no business in notes.
pub const NOTE_LIMIT: usize = 16 * 1024;

/// Why a link refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LinkError {
    /// There is no such peer, or it is gone.
    PeerGone(Peer),
    /// There is no such region of the owner, or it is closed.
    NoRegion(RegionId),
    /// The peer has not said yet that it can receive this region.
    NotReady(Peer, RegionId),
    /// The range does not lie inside the region.
    OutOfRegion(RegionId, WordRange),
    /// The region name is in use.
    RegionExists(RegionId),
    /// A note is longer than [`NOTE_LIMIT`].
    NoteTooLong(usize),
    /// The system refused; the text says what was asked and what to do.
    System(String),
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
            LinkError::System(text) => f.write_str(text),
        }
    }
}

impl core::error::Error for LinkError {}

/// What a link has done so far. Counted always; a post is one write to one peer.
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
    /// Sleeping peers that were woken.
    pub rings: u64,
}

/// What every link gives. See the [module](self) for the contract.
pub trait Link {
    /// Who this node is.
    fn node(&self) -> NodeId;

    /// Opens a zeroed region of `words` words and announces it to every peer, now or later. The link keeps no other handle that
    /// stores to the region: a [`SenderMemory`](crate::multicast::claim::SenderMemory) takes only a region that has none.
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

    /// Wakes those of `news` that sleep, and those of `hints` that sleep and said that they want
    /// [hints](Interest) too, after everything that was stored or posted before.
    fn ring(&mut self, news: &[Peer], hints: &[Peer]);

    /// The place of a peer among those that [`Bells`] reach, from its [`LinkEvent::PeerUp`] to its
    /// [`LinkEvent::PeerDown`]; `None` for one that only [`Link::ring`] wakes. A place that is free
    /// again is given to another.
    fn place(&self, peer: Peer) -> Option<u32> {
        let _ = peer;
        None
    }

    /// The bells of the peers that have a [place](Link::place), and of this node.
    fn bells(&self) -> Arc<dyn Bells> {
        Arc::new(NoBells)
    }

    /// A barrier that makes every thread of this process pass a full fence before it returns, if
    /// the system has one. It costs its caller about a microsecond, and the others an interruption.
    fn barrier(&self) -> Option<Arc<dyn Barrier>> {
        None
    }

    /// What this node's host decides for a group whose members are all on it; `None` if this link does not
    /// keep to one host, or the host has nothing that all could ask.
    fn arbiter(&self) -> Option<Arc<dyn Arbiter>> {
        None
    }

    /// Whether the kernel shows a peer's process as stopped or traced, just now. False where it cannot be
    /// known, and for a peer that is gone. Costs a few system calls: asked of those who keep silent.
    fn is_halted(&self, peer: Peer) -> bool {
        let _ = peer;
        false
    }

    /// [`Link::is_halted`] for whoever asks by a node's name and without the link at hand: a council.
    fn halts(&self) -> Arc<dyn Fn(NodeId) -> bool + Send + Sync> {
        Arc::new(|_| false)
    }

    /// Hands over what has happened since the last call; returns how much. Never blocks.
    fn poll(&mut self, sink: &mut dyn FnMut(LinkEvent)) -> usize;

    /// What was done so far.
    fn counters(&self) -> LinkCounters;
}

/// A local group, by the number of its founding on its host. Whoever tells a node what view it is in tells it
/// of which founding that is, so that nobody takes the words of a group that is no more for those of another.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Generation(pub u64);

impl Generation {
    /// Before the first founding.
    pub const NONE: Generation = Generation(0);
}

/// How it stands with the group of a host. See [`Arbiter::found`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Founding {
    /// This node has just founded a group: it is in the first view, of number 1, in slot 0, as a member who
    /// has [entered](Arbiter::entered).
    Founded(Generation),
    /// There is a group that has a living member, perhaps this node.
    Exists(Generation),
    /// Groups were founded as often as can be counted ([`host::GENERATIONS`]). All nodes of the host have to
    /// leave before the next one.
    Exhausted,
}

/// What a host decides for the group whose members are all on it. Any thread may ask, without the driver.
///
/// ```text
///   found ──> Founded ────────────────────────────┐
///     │                                           v
///     └────> Exists ── admitted by a view ──> entered ──> a member: settle, cleared ──> left
/// ```
/// A node that is a member counts as one until it has [left](Arbiter::left), was
/// [cleared](Arbiter::cleared) by another, or is gone: dead as far as the kernel is concerned, or no user of
/// its link any more. One that is stopped is not gone. See I-60 to I-62 in `docs/PROTOCOL.md`; the words that
/// all of this comes down to are in [`host`].
pub trait Arbiter: Send + Sync {
    /// Founds a group if there is none: nobody has founded one, or all of its members are gone. Of many who
    /// ask at once one founds. Waits a moment at most, for others who ask.
    ///
    /// # Errors
    /// [`LinkError::System`] says what the host refused. Nothing is founded then; it may be asked again, and
    /// will answer if what was in the way has passed.
    fn found(&self) -> Result<Founding, LinkError>;

    /// Takes `ballot` as the decision for the view of this number, if there is none; says whose is the one.
    /// `None`: the group is past that view, or is not the one that was founded last; whoever asked is no
    /// member any more. Never waits.
    fn settle(&self, group: Generation, view: u64, ballot: Rank) -> Option<Rank>;

    /// This node is a member from now on: `view` is its first, `slot` its own. Called before it delivers
    /// anything in that view. False: the group is not the one that was founded last, or was given up before
    /// this node came into it; then it is no member, and asks again who founds. False as well for a node that
    /// never asked. Never waits for another node.
    #[must_use]
    fn entered(&self, group: Generation, view: u64, slot: u8) -> bool;

    /// This node is a member no more. Whoever leaves its link has left as well.
    fn left(&self);

    /// Whether the host counts this node as a member. Not any more from before the moment on at which those who
    /// go on without it use anything again that it can see: so whoever was stopped, and has not turned since,
    /// looks here before it trusts what it has read. A few loads, from any thread.
    fn is_member(&self) -> bool;

    /// Those who had these slots (a bit each) before the view of this number are no members of it. Whoever
    /// has entered in it, or later, is not meant. Said by those who go on.
    fn cleared(&self, group: Generation, view: u64, slots: u64);
}

/// Wakes a node's own driver after an application thread has changed something that a turn has to
/// look at: [`Parker::wake`], as something that may be kept anywhere.
pub type Waker = Arc<dyn Fn() + Send + Sync>;

/// See [`Link::barrier`].
pub trait Barrier: Send + Sync {
    /// Makes every thread of this process pass a full fence before it returns.
    fn issue(&self);

    /// Lets other threads run for a moment, also those of a lower priority: one of them is waited
    /// for. Called seldom.
    fn pause(&self) {}
}

/// The place of a node itself among its [`Bells`].
pub const OWN_PLACE: u32 = 63;

/// Bells that any thread of a node may ring, at any time and without its driver: what an
/// application thread has published in memory that peers share needs no turn to be seen.
///
/// Where the places may change meanwhile, they are loaded between the two calls:
///
/// ```text
///   publish the news
///   bells.before_looking()
///   bells.ring(places.load())
/// ```
/// Then a peer whose place was stored before the peer was told that there will be news for it
/// misses none: either its look before it sleeps finds the news, or this thread finds its place.
pub trait Bells: Send + Sync {
    /// Orders what this thread has stored before its loads that follow, as far as those who may
    /// sleep need it. Not needed before a [`ring`](Bells::ring) of places that never change.
    fn before_looking(&self) {
        crate::park::before_looking();
    }

    /// Wakes those that sleep among the nodes in these places (a bit each, [`OWN_PLACE`] for the
    /// node itself): there is news, stored by this thread before. Cheap while nobody sleeps. A
    /// place whose peer has gone says nothing, or wakes the next that has it.
    fn ring(&self, places: u64);
}

/// Bells of a link on which nobody has a place.
pub struct NoBells;

impl Bells for NoBells {
    fn ring(&self, _places: u64) {}
}

/// What a sleeper wants to be woken for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Interest {
    /// News: something to receive.
    News,
    /// Hints as well: that peers have received or released something, for which it waits.
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
/// One of the two sees the other's store, so either the sleeper finds the news or the writer
/// rings. See [`crate::park`] for the two halves, which loom checks.
pub trait Parker: Send + Sync {
    /// Says that this node is about to sleep. The caller looks once more before it does.
    fn arm(&self, interest: Interest);
    /// Sleeps until somebody rings or `limit` nanoseconds have passed. `None` waits for a ring.
    fn sleep(&self, limit: Option<u64>);
    /// Says that this node is awake.
    fn disarm(&self);
    /// Wakes this node's own sleeper, if it sleeps, after everything stored before.
    fn wake(&self);
}
