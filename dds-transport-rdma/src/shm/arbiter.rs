//! Decisions of this host for the local group of a domain: a page of words that all nodes of the group share.
//!
//! Owns: this node's seat, which memory the words lie in, and who counts as living. Never does: say by which
//! rules the words change ([`derecho_core::link::host`] does), or hold a lock that outlives its holder.
//!
//! ```text
//!   <domain>/group      which memory it is, and whose the seats are; there once somebody has asked
//!   memory (memfd)      the words: sealed, handed over the sockets by every node that has a seat
//! ```
//! * **What is mapped cannot be cut.** The words lie in sealed memory. The file is read and written under the
//!   folder's lock and never mapped: a program that cuts it or writes nonsense into it stops whoever asks next with
//!   an error, and nobody who is a member.
//! * **Whole or not there.** The file is filled under another name and then renamed, under the folder's lock;
//!   it never changes its size. Its last user removes it with the folder.
//! * **As long as somebody has a seat.** A node hands the memory to its peers before it takes a seat. If no node that
//!   has a seat lives, nobody remembers the words, and the next node that asks makes new ones, which go on
//!   counting where the file says. A node whose peers with a seat are all stopped waits for one of them.
//! * **Names under the lock, words without.** Seats are given only under the folder's lock, which
//!   the kernel releases with its holder. All else is one compare-and-swap on one word.
//! * **Living** is whose socket somebody listens at: the kernel closes it when the last thread of the process
//!   is out of its way. A process that is stopped still listens.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use crossbeam_channel::bounded;
use derecho_core::ids::{NodeId, Rank};
use derecho_core::link::host::{self, Seat};
use derecho_core::link::{Arbiter, Founding, Generation, LinkError};
use rustix::fs::fstat;
use rustix::io::Errno;

use super::command::{Command, CommandSender};
use super::directory::{Folder, Lock};
use super::error::JoinError;

mod page;
mod record;

pub(crate) use page::{GroupMemory, HandedOver};
use page::{Page, SEATS};
use record::Record;

/// Longest wait of a node that asks for others that ask, join, or have the words.
const WAIT_LIMIT: Duration = Duration::from_millis(200);
/// Time between two looks at whether the nodes that have the words live.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// The arbiter of one node.
pub(crate) struct ShmArbiter {
    node: NodeId,
    folder: Folder,
    commands: CommandSender,
    handed_over: Arc<HandedOver>,
    /// The words, since this node has a seat.
    page: OnceLock<Page>,
    own: Mutex<Own>,
    /// The seat, for those who only look; [`SEATS`] if it has none.
    seat: AtomicUsize,
    /// The link has ended.
    over: AtomicBool,
}

/// What only one thread of the node changes at a time.
enum Own {
    /// It has no seat.
    Standing,
    /// Its seat.
    Seated(usize),
    /// The link has ended; the seat may be another's by now.
    Gone,
}

/// The group file under the folder's lock.
struct Held {
    _lock: Lock,
    file: OwnedFd,
    record: Record,
}

/// Place of the words.
enum Words<'a> {
    /// Words among which this node has a seat.
    Own(&'a Page),
    /// A peer has handed them over, or this node has just made them.
    Found(Arc<GroupMemory>),
}

impl ShmArbiter {
    /// For a node of this folder, which has not asked yet: no file is touched.
    pub(crate) fn new(
        node: NodeId,
        folder: &Folder,
        commands: CommandSender,
        handed_over: Arc<HandedOver>,
    ) -> ShmArbiter {
        let folder = folder.with_lock_limit(WAIT_LIMIT);
        let own = Mutex::new(Own::Standing);
        let (seat, over) = (AtomicUsize::new(SEATS), AtomicBool::new(false));
        let page = OnceLock::new();
        ShmArbiter { node, folder, commands, handed_over, page, own, seat, over }
    }

    /// The link ends. `leaving`: as one that is no member any more; else as if it had died.
    pub(crate) fn end(&self, leaving: bool) {
        if leaving {
            self.left();
        }
        self.over.store(true, Ordering::Release);
        self.seat.store(SEATS, Ordering::Release);
        *self.own() = Own::Gone;
    }

    /// How many nodes are members of the host's group now. One that was killed just now may be among them.
    ///
    /// # Errors
    /// What the host refused.
    pub(crate) fn members(&self) -> Result<usize, LinkError> {
        let count = |page: &Page| {
            let group = page.decision().group();
            page.seats().iter().filter(|seat| seat.is_member(group)).count()
        };
        match self.words(false)? {
            None => Ok(0),
            Some((_, Words::Own(page))) => Ok(count(page)),
            Some((_, Words::Found(memory))) => Ok(count(&self.map(&memory)?)),
        }
    }

    fn own(&self) -> MutexGuard<'_, Own> {
        // Nothing in there can be left half done.
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// This node's seat, if it has one.
    fn with_seat<T>(&self, act: impl FnOnce(&Page, &Seat) -> T) -> Option<T> {
        match (&*self.own(), self.page.get()) {
            (&Own::Seated(index), Some(page)) => Some(act(page, &page.seats()[index])),
            _ => None,
        }
    }

    /// Takes the words into use: hands them to all peers, then takes a seat.
    fn sit_down(&self, held: &mut Held, memory: &Arc<GroupMemory>) -> Result<usize, LinkError> {
        let page = self.map(memory)?;
        let index = self.free_seat(&held.record)?.ok_or_else(|| {
            let text = format!("all {SEATS} seats of the group are taken; end some processes");
            LinkError::System(text)
        })?;
        // First, so that whoever has a seat has handed over the words, and may be stopped at once.
        self.hand_over(memory)?;
        page.seats()[index].clear();
        let path = self.folder.group_path();
        let failed = |errno| refused(format!("writing {}", path.display()), errno);
        held.record.set_node(&held.file, index, self.node).map_err(failed)?;
        self.page.get_or_init(|| page);
        Ok(index)
    }

    /// A seat that is nobody's, or that of a node that is gone.
    fn free_seat(&self, record: &Record) -> Result<Option<usize>, LinkError> {
        if let Some(index) = record.nodes.iter().position(|node| *node == NodeId(0)) {
            return Ok(Some(index));
        }
        for (index, node) in record.nodes.iter().enumerate() {
            if !self.lives(*node)? {
                return Ok(Some(index));
            }
        }
        Ok(None)
    }

    /// Sends the memory to all peers, and to those that come later. Returns when it is on its way.
    fn hand_over(&self, memory: &Arc<GroupMemory>) -> Result<(), LinkError> {
        let (done, sent) = bounded(1);
        let is_taken = self.commands.send(Command::Group { memory: Arc::clone(memory), done });
        if is_taken && sent.recv_timeout(WAIT_LIMIT).is_ok() {
            return Ok(());
        }
        let text = "the thread that speaks to the peers does not answer".to_owned();
        Err(LinkError::System(text))
    }

    fn map(&self, memory: &GroupMemory) -> Result<Page, LinkError> {
        Page::map(memory).map_err(|errno| refused("mapping the words of the group".into(), errno))
    }

    /// Whether a node is there, as far as the kernel is concerned.
    fn lives(&self, node: NodeId) -> Result<bool, LinkError> {
        if node == NodeId(0) {
            return Ok(false);
        }
        match self.folder.connect(node) {
            // Somebody listens, or is just about to, or has more callers than it takes.
            Ok(_) | Err(Errno::AGAIN | Errno::INTR | Errno::ACCESS | Errno::PROTOTYPE) => Ok(true),
            // Nobody does. Who has no socket has left, or was found dead before.
            Err(Errno::CONNREFUSED | Errno::NOENT) => Ok(false),
            Err(errno) => {
                let path = self.folder.socket_path(node);
                Err(refused(format!("looking who listens at {}", path.display()), errno))
            }
        }
    }

    /// The first of these nodes that is there.
    fn first_living(
        &self,
        nodes: impl IntoIterator<Item = NodeId>,
    ) -> Result<Option<NodeId>, LinkError> {
        for node in nodes {
            if self.lives(node)? {
                return Ok(Some(node));
            }
        }
        Ok(None)
    }

    /// Takes the lock and finds the words of this host. If there are none, makes them, or returns `None` if this node
    /// only wants to look.
    fn words(&self, may_make: bool) -> Result<Option<(Held, Words<'_>)>, LinkError> {
        let path = self.folder.group_path();
        let deadline = Instant::now() + WAIT_LIMIT;
        loop {
            let lock = self.folder.stay().map_err(|error| LinkError::System(error.to_string()))?;
            let Some((file, record)) = self.open(&lock, may_make)? else { return Ok(None) };
            let mut held = Held { _lock: lock, file, record };
            if let Some(page) = self.page.get() {
                if held.record.memory != Some(page.identity()) {
                    return Err(wrong(&path, CHANGED));
                }
                return Ok(Some((held, Words::Own(page))));
            }
            let wanted = held.record.memory;
            // A node that hands words over has a seat, and as long as it lives no other words are made.
            if self.first_living(self.handed_over.of_others(wanted))?.is_some() {
                return Err(wrong(&path, CHANGED));
            }
            if let Some(memory) = wanted.and_then(|identity| self.handed_over.get(identity)) {
                return Ok(Some((held, Words::Found(memory))));
            }
            let users = held.record.nodes.iter().copied().filter(|node| *node != self.node);
            let user = self.first_living(users)?;
            let (Some(user), Some(wanted)) = (user, wanted) else {
                if !may_make {
                    return Ok(None);
                }
                let failed = |errno| refused("making the words of the group".to_owned(), errno);
                let memory = GroupMemory::make(held.record.generation).map_err(failed)?;
                held.record.set_memory(&held.file, memory.identity()).map_err(failed)?;
                return Ok(Some((held, Words::Found(Arc::new(memory)))));
            };
            // While this node waits, others may ask and join.
            drop(held);
            let now = Instant::now();
            if now >= deadline {
                return Err(LinkError::System(format!(
                    "node {user} uses the words of the group and has not handed them over; it may be stopped"
                )));
            }
            self.handed_over.wait(wanted, deadline.min(now + LOOK_AGAIN));
        }
    }

    /// Opens and reads the group file. If nobody has made it, makes it, or returns `None` if this node only looks.
    fn open(&self, lock: &Lock, may_make: bool) -> Result<Option<(OwnedFd, Record)>, LinkError> {
        let path = self.folder.group_path();
        let failed = |errno| refused(format!("opening {}", path.display()), errno);
        let noted = lock.group().map_err(failed)?;
        // Whoever removes the file by hand makes two groups of one.
        let has_users = || -> Result<bool, LinkError> {
            Ok(self.page.get().is_some() || self.others_live(lock)?)
        };
        let file = match self.folder.open_group(lock).map_err(failed)? {
            Some(file) => file,
            None if noted.is_some() && has_users()? => return Err(wrong(&path, REMOVED)),
            None if !may_make => return Ok(None),
            None => self.folder.make_group(lock, record::fill).map_err(failed)?,
        };
        let stat = fstat(&file).map_err(failed)?;
        let form = record::read(&file, &stat)
            .and_then(|record| self.folder.check_owner(stat.st_uid, stat.st_gid).map(|()| record));
        let record = form.map_err(|fault| {
            wrong(&path, &format!("{fault}; remove it while no process of this domain runs"))
        })?;
        let inode = (stat.st_dev, stat.st_ino);
        if noted.is_some_and(|noted| noted != inode) && has_users()? {
            return Err(wrong(&path, REMOVED));
        }
        if noted != Some(inode) {
            lock.set_group(inode).map_err(failed)?;
        }
        Ok(Some((file, record)))
    }

    /// Whether another node of this domain lives.
    fn others_live(&self, lock: &Lock) -> Result<bool, LinkError> {
        let others = self.folder.others(self.node, lock);
        for place in others.map_err(|error| LinkError::System(error.to_string()))? {
            if self.lives(place.node)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Error text for a group file that is not the one that was made.
const REMOVED: &str = "was removed while nodes used it; end all processes of this domain and start them again, \
                       and have cleaners of temporary files leave its folder alone";
/// Error text for a group file that says other things than nodes wrote.
const CHANGED: &str = "was changed by another program while nodes used it; end all processes of this domain and \
                       start them again";

fn wrong(path: &Path, fault: &str) -> LinkError {
    LinkError::System(format!("the file {} {fault}", path.display()))
}

fn refused(doing: String, errno: Errno) -> LinkError {
    LinkError::System(JoinError::system(doing, errno).to_string())
}

impl Arbiter for ShmArbiter {
    fn found(&self) -> Result<Founding, LinkError> {
        let mut own = self.own();
        if matches!(*own, Own::Gone) {
            return Err(LinkError::System("this node has left its domain; join again".to_owned()));
        }
        let (mut held, words) = self.words(true)?.expect("words that are missing are made");
        let index = match (&*own, words) {
            (&Own::Seated(index), _) if held.record.nodes[index] == self.node => index,
            (Own::Standing, Words::Found(memory)) => self.sit_down(&mut held, &memory)?,
            _ => return Err(wrong(&self.folder.group_path(), CHANGED)),
        };
        *own = Own::Seated(index);
        self.seat.store(index, Ordering::Release);
        let page = self.page.get().expect("a node with a seat has mapped the words");
        let seats: Vec<&Seat> = page.seats().iter().collect();
        let lives = |seat: usize| self.lives(held.record.nodes[seat]);
        let told = host::found(page.decision(), &seats, index, lives)?;
        let group = page.decision().group();
        if group != held.record.generation
            && let Err(errno) = held.record.set_generation(&held.file, group)
        {
            tracing::warn!(%errno, "the founding of a group was not written down");
        }
        tracing::debug!(node = %self.node, ?told, "asked who founds the group");
        Ok(told)
    }

    fn settle(&self, group: Generation, view: u64, ballot: Rank) -> Option<Rank> {
        if self.over.load(Ordering::Acquire) {
            return None;
        }
        self.page.get()?.decision().settle(group, view, ballot)
    }

    fn entered(&self, group: Generation, view: u64, slot: u8) -> bool {
        self.with_seat(|page, seat| seat.enter(page.decision(), group, view, slot)).unwrap_or(false)
    }

    fn left(&self) {
        self.with_seat(|_, seat| seat.clear());
    }

    fn is_member(&self) -> bool {
        // What was read before this look was read before what it sees.
        fence(Ordering::Acquire);
        let Some(page) = self.page.get() else { return false };
        let seat = page.seats().get(self.seat.load(Ordering::Acquire));
        seat.is_some_and(|seat| seat.is_member(page.decision().group()))
    }

    fn cleared(&self, group: Generation, view: u64, slots: u64) {
        self.with_seat(|page, _| {
            page.seats().iter().for_each(|seat| seat.clear_if(group, view, slots));
        });
    }
}
