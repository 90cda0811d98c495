//! Queue of commands from the node to the rendezvous thread.
//!
//! Owns: the queue, the signal that wakes the thread, and the number of bytes queued for each peer.
//! Never does: block, or lose a command.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crossbeam_channel::{Receiver, Sender, unbounded};
use derecho_core::ids::{Peer, RegionId};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

use super::arbiter::GroupMemory;
use super::arena::{ArenaRange, NewArena};
use super::doorbell::{hush, signal};

/// Bytes that may wait for one peer before it is considered too slow.
pub(crate) const QUEUE_LIMIT: usize = 1 << 20;
/// Absolute limit of the bytes that may wait for one peer. A peer that reaches it is disconnected.
pub(crate) const QUEUE_HARD_LIMIT: usize = 16 << 20;
/// Bytes counted for a message in addition to its payload.
pub(crate) const MESSAGE_BYTES: usize = 64;

/// Command for the rendezvous thread.
pub(crate) enum Command {
    /// Announce an arena.
    Arena(NewArena),
    /// Announce a region.
    Open { serial: u64, region: RegionId, space: ArenaRange, words: usize },
    /// Announce that a region is closed.
    Close { serial: u64 },
    /// Announce that an arena is gone.
    Retire { index: u32 },
    /// Send a note.
    Note { peer: Peer, bytes: Vec<u8> },
    /// Disconnect a peer whose queue grows.
    CutOff { peer: Peer },
    /// Tell the owner that no handle of this process refers to its region any more.
    Released { connection: u32, serial: u64 },
    /// Hand the words of the local group to all peers, and report on `done` when that has happened.
    Group { memory: Arc<GroupMemory>, done: Sender<()> },
    /// Resume reading from the peers.
    Resume,
    /// Say goodbye and end.
    Leave,
    /// End as if the process had died, for tests.
    Abandon,
}

/// Bytes waiting to be sent to one peer, counted from the node's call until the kernel has them.
#[derive(Default)]
pub(crate) struct PeerQueueBytes(AtomicUsize);

impl PeerQueueBytes {
    /// Counts a message in; returns the total that waits, including this message.
    pub(crate) fn add(&self, bytes: usize) -> usize {
        self.0.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes)
    }

    /// Counts a message out.
    pub(crate) fn remove(&self, bytes: usize) {
        self.0.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Number of bytes waiting.
    pub(crate) fn bytes(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// Wakes the rendezvous thread.
struct CommandSignal {
    raised: AtomicBool,
    bell: OwnedFd,
}

/// The node's end of the queue; any thread may have a clone.
#[derive(Clone)]
pub(crate) struct CommandSender {
    queue: Sender<Command>,
    signal: Arc<CommandSignal>,
}

/// The rendezvous thread's end of the queue.
pub(crate) struct CommandReceiver {
    queue: Receiver<Command>,
    signal: Arc<CommandSignal>,
}

/// A queue of commands.
pub(crate) fn channel() -> Result<(CommandSender, CommandReceiver), Errno> {
    let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
    let signal = Arc::new(CommandSignal { raised: AtomicBool::new(false), bell });
    let (sender, receiver) = unbounded();
    let receiver = CommandReceiver { queue: receiver, signal: Arc::clone(&signal) };
    Ok((CommandSender { queue: sender, signal }, receiver))
}

impl CommandSender {
    /// Queues a command. Returns false if the thread has ended.
    pub(crate) fn send(&self, command: Command) -> bool {
        if self.queue.send(command).is_err() {
            return false;
        }
        // One signal serves all commands until the thread looks. The thread clears the flag before
        // it looks, so a command that found the flag set is found by that look.
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

    /// Clears the signal. Called when the bell is readable, before the commands are taken.
    pub(crate) fn hush(&self) {
        hush(&self.signal.bell);
        self.signal.raised.swap(false, Ordering::AcqRel);
    }

    /// The next command.
    pub(crate) fn take(&self) -> Option<Command> {
        self.queue.try_recv().ok()
    }
}
