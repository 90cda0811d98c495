//! Sleep and wake-up of a node.
//!
//! Owns: the word that says whether the node sleeps, and the two things that end a sleep: an
//! eventfd that only this process has, and a datagram socket that peers send to. Never does: decide
//! when to sleep. The order of the steps is defined in [`derecho_core::park`].
//!
//! ```text
//!   threads of this process -- write --> eventfd, private --.
//!                                                           +--> poll of the sleeper
//!   a peer's own socket -- send, MSG_DONTWAIT --> <node>.bell --'
//! ```
//! * **Nothing is shared with a peer.** Each ringing node has a socket of its own, connected to the
//!   bell. A descriptor that two processes hold has one set of status flags: with a shared eventfd,
//!   a peer could make it blocking and full, and hold every thread that rings it. `MSG_DONTWAIT`
//!   belongs to the call and not to the descriptor. A full queue is equivalent to a ring, because
//!   the sleeper has not looked yet.
//! * **Nothing of a peer's comes in.** Where the kernel can (Linux 6.16), the bell refuses
//!   descriptors that are attached to a datagram, because closing a descriptor may block.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use derecho_core::link::{Interest, Parker};
use derecho_core::memory::{AtomicWord, LINE_WORDS, OwnRegion};
use derecho_core::park;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};

use super::barrier::{self, Barriers};
use super::socket;

/// Number of words of a node's header, at the beginning of its first arena.
///
/// ```text
///   word 0  HEADER_MAGIC   1, 2  node id (low, high)   3  barriers   8  parked
/// ```
pub(crate) const HEADER_WORDS: usize = 8 * LINE_WORDS;
/// First word of a header.
pub(crate) const HEADER_MAGIC: u64 = u64::from_le_bytes(*b"SQUALL\x00\x01");
/// Position of the node id.
pub(crate) const HEADER_NODE: usize = 1;
/// Position of the node's [`Barriers`]. Written once, before any other thread sees the word.
pub(crate) const HEADER_BARRIERS: usize = 3;
/// Position of `parked`: on a line of its own, because all peers read it after every write.
pub(crate) const HEADER_PARKED: usize = LINE_WORDS;

/// Longest sleep, in nanoseconds, after a promised barrier has failed. The sleeper then finds by
/// itself the news for which it is not rung.
const DOUBTFUL_SLEEP: u64 = 1_000_000;

/// Maximum number of datagrams taken from a bell at one wake-up. If a peer sends more, the node
/// wakes again.
const RINGS_LIMIT: usize = 64;

/// Means of waking a node.
pub(crate) enum Bell {
    /// Eventfd of this node; no other process has it.
    Own(OwnedFd),
    /// Socket of this node, connected to the peer's bell.
    Peer(OwnedFd),
}

impl Bell {
    /// Rings the bell; never blocks. Errors are ignored: a bell that is already rung and not
    /// yet heard needs no second ring, so an overflow does no harm, and a broken bell hurts
    /// only its owner.
    pub(crate) fn ring(&self) {
        match self {
            Bell::Own(eventfd) => signal(eventfd),
            Bell::Peer(socket) => {
                let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
                let _ = rustix::net::send(socket, &[1], flags);
            }
        }
    }
}

/// Doorbell of this node.
pub(crate) struct Doorbell {
    own: Arc<Bell>,
    /// Socket that peers send to, once it is bound.
    socket: OwnedFd,
    header: OwnRegion,
    barriers: Barriers,
    /// True once a barrier has failed that was possible when the node joined.
    doubtful: AtomicBool,
}

impl Doorbell {
    /// Creates the doorbell of the node with this header.
    pub(crate) fn new(header: OwnRegion, barriers: Barriers) -> Result<Doorbell, Errno> {
        let own = Bell::Own(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let socket = socket::bell()?;
        let doubtful = AtomicBool::new(false);
        Ok(Doorbell { own: Arc::new(own), socket, header, barriers, doubtful })
    }

    /// Returns the bell for the threads of this process.
    pub(crate) fn bell(&self) -> &Arc<Bell> {
        &self.own
    }

    /// Returns the socket for the peers, which the caller binds in the folder.
    pub(crate) fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    /// Clears the eventfd and the socket.
    fn hush(&self) {
        if let Bell::Own(eventfd) = &*self.own {
            hush(eventfd);
        }
        let mut byte = [0];
        for _ in 0..RINGS_LIMIT {
            match rustix::net::recv(&self.socket, &mut byte, RecvFlags::DONTWAIT) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => return,
            }
        }
    }

    fn parked(&self) -> &AtomicWord {
        self.header.word(HEADER_PARKED)
    }

    /// Wakes this node's sleeper, if it sleeps, after everything stored before.
    pub(crate) fn wake(&self) {
        if self.barriers.before_sleep && self.barriers.agreed {
            park::before_looking_without_fence();
        } else {
            park::before_looking();
        }
        if park::asleep(self.parked().peek()) {
            self.own.ring();
        }
    }

    /// Issues the promised barrier, which peers rely on. A sandbox that the process has entered
    /// since it joined may refuse the barrier.
    fn issue_barrier(&self) {
        if let Err(errno) = barrier::issue()
            && !self.doubtful.swap(true, Ordering::Relaxed)
        {
            tracing::warn!(%errno, "membarrier is refused now; sleeps last a millisecond at most");
        }
    }
}

/// Makes an eventfd readable that no other process has.
pub(crate) fn signal(eventfd: &OwnedFd) {
    let _ = rustix::io::write(eventfd, &1_u64.to_ne_bytes());
}

/// Makes the eventfd unreadable again.
pub(crate) fn hush(eventfd: &OwnedFd) {
    let mut count = [0; 8];
    let _ = rustix::io::read(eventfd, &mut count);
}

/// Lets the thread that drives the node sleep until there is news.
///
/// Peers see in shared memory that the node sleeps and send to its bell. The link's own thread
/// rings when it has an event, and so does any thread of this process that calls [`Parker::wake`].
pub struct ShmParker(Arc<Doorbell>);

impl ShmParker {
    pub(crate) fn new(doorbell: Arc<Doorbell>) -> ShmParker {
        ShmParker(doorbell)
    }
}

impl Parker for ShmParker {
    fn arm(&self, interest: Interest) {
        park::announce(self.0.parked(), interest);
        if self.0.barriers.before_sleep {
            self.0.issue_barrier();
        }
    }

    fn sleep(&self, limit: Option<u64>) {
        const SECOND: u64 = 1_000_000_000;
        let doubtful = self.0.doubtful.load(Ordering::Relaxed).then_some(DOUBTFUL_SLEEP);
        let limit = limit.into_iter().chain(doubtful).min();
        let limit = limit.map(|nanos| Timespec {
            tv_sec: i64::try_from(nanos / SECOND).unwrap_or(i64::MAX),
            tv_nsec: (nanos % SECOND).cast_signed() as _,
        });
        let Bell::Own(own) = &*self.0.own else { unreachable!("a node's own bell is its own") };
        let wake = |bell| PollFd::from_borrowed_fd(bell, PollFlags::IN);
        let mut set = [wake(own.as_fd()), wake(self.0.socket.as_fd())];
        // A signal ends the sleep early, which the caller takes as a wake-up without news.
        if let Ok(rung) = poll(&mut set, limit.as_ref())
            && rung > 0
        {
            self.0.hush();
        }
    }

    fn disarm(&self) {
        park::retract(self.0.parked());
    }

    fn wake(&self) {
        self.0.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleeper_wakes_up_without_bell_after_refused_barrier() {
        let header = OwnRegion::heap(HEADER_WORDS);
        let barriers = Barriers { before_sleep: true, agreed: true };
        let doorbell = Arc::new(Doorbell::new(header, barriers).unwrap());
        doorbell.doubtful.store(true, Ordering::Relaxed);
        let parker = ShmParker::new(doorbell);
        parker.arm(Interest::News);
        // Without `doubtful`, this call would never return.
        parker.sleep(None);
        parker.disarm();
    }
}
