//! The way of a command from the node to the rendezvous thread.
//!
//! Owns: the queue, the signal that wakes the thread, and the count of what is queued for each
//! peer. Never does: block, or lose a command.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crossbeam_channel::{Receiver, Sender, unbounded};
use derecho_core::ids::{Peer, RegionId};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

use super::arbiter::GroupMemory;
use super::arena::{NewArena, Space};
use super::doorbell::{hush, signal};

/// Bytes that may wait for one peer before its silence counts against it.
pub(crate) const QUEUE_LIMIT: usize = 1 << 20;
/// Bytes that may wait for one peer at all. At this it is cut off.
pub(crate) const QUEUE_HARD_LIMIT: usize = 16 << 20;
/// What a message counts beside its bytes.
pub(crate) const MESSAGE_BYTES: usize = 64;

/// What the rendezvous thread is to do.
pub(crate) enum Command {
    /// Announce an arena.
    Arena(NewArena),
    /// Announce a region.
    Open { serial: u64, region: RegionId, space: Space, words: usize },
    /// Announce that a region is closed.
    Close { serial: u64 },
    /// Announce that an arena is gone.
    Retire { index: u32 },
    /// Send a note.
    Note { peer: Peer, bytes: Vec<u8> },
    /// Cut a peer off that lets its queue grow.
    CutOff { peer: Peer },
    /// Tell the owner that nothing here looks at its region any more.
    Released { connection: u32, serial: u64 },
    /// Hand the words of the local group to all peers, and say when that is done.
    Group { memory: Arc<GroupMemory>, done: Sender<()> },
    /// Read from the peers again.
    Resume,
    /// Say goodbye and end.
    Leave,
    /// End as if the process had died, for tests.
    Abandon,
}

/// What waits to be sent to one peer, in bytes; counted from the node's call until the kernel has
/// it.
#[derive(Default)]
pub(crate) struct Outbox(AtomicUsize);

impl Outbox {
    /// Counts a message in; returns what waits with it.
    pub(crate) fn add(&self, bytes: usize) -> usize {
        self.0.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes)
    }

    /// Counts a message out.
    pub(crate) fn remove(&self, bytes: usize) {
        self.0.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// What waits.
    pub(crate) fn bytes(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// Wakes the rendezvous thread.
struct Signal {
    raised: AtomicBool,
    bell: OwnedFd,
}

/// The node's end; any thread may have one.
#[derive(Clone)]
pub(crate) struct CommandSender {
    queue: Sender<Command>,
    signal: Arc<Signal>,
}

/// The thread's end.
pub(crate) struct CommandReceiver {
    queue: Receiver<Command>,
    signal: Arc<Signal>,
}

/// A queue of commands.
pub(crate) fn channel() -> Result<(CommandSender, CommandReceiver), Errno> {
    let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
    let signal = Arc::new(Signal { raised: AtomicBool::new(false), bell });
    let (sender, receiver) = unbounded();
    let receiver = CommandReceiver { queue: receiver, signal: Arc::clone(&signal) };
    Ok((CommandSender { queue: sender, signal }, receiver))
}

impl CommandSender {
    /// Queues a command. Whether the thread is still there to see it.
    pub(crate) fn send(&self, command: Command) -> bool {
        if self.queue.send(command).is_err() {
            return false;
        }
        // One ring serves all commands until the thread looks. The thread takes the flag down
        // before it looks, so a command that found the flag up is found by that look.
        if !self.signal.raised.swap(true, Ordering::AcqRel) {
            signal(&self.signal.bell);
        }
        true
    }
}

impl CommandReceiver {
    /// The descriptor that is readable when there are commands.
    pub(crate) fn bell(&self) -> &OwnedFd {
        &self.signal.bell
    }

    /// Called when the bell is readable, before the commands are taken.
    pub(crate) fn hush(&self) {
        hush(&self.signal.bell);
        self.signal.raised.swap(false, Ordering::AcqRel);
    }

    /// The next command.
    pub(crate) fn take(&self) -> Option<Command> {
        self.queue.try_recv().ok()
    }
}
