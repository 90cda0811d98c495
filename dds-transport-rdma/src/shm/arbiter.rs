//! Decisions of this host for the local group of a domain: a page of words that all nodes of the
//! group share.
//!
//! Owns: this node's seat, the memory in which the words lie, and the test of which nodes are
//! alive. Never does: define the rules by which the words change (see
//! [`derecho_core::link::host`]), or hold a lock that outlives its holder.
//!
//! ```text
//!   <domain>/group      names the memory and the owner of each seat; exists once a node has asked
//!   memory (memfd)      the words: sealed, handed over the sockets by every node that has a seat
//! ```
//! * **Mapped memory cannot be truncated.** The words lie in sealed memory. The file is read
//!   and written under the folder's lock and never mapped. If a program truncates the file or
//!   writes invalid data to it, the next node that asks fails with an error; current members are
//!   not affected.
//! * **The file is complete or absent.** The file is filled under another name and then renamed,
//!   under the folder's lock; its size never changes. Its last user removes it with the folder.
//! * **The words live while a node has a seat.** A node hands the memory to its peers before it
//!   takes a seat. If no node with a seat is alive, the words are lost, and the next node that asks
//!   creates new ones, which continue the generation count from the file. If all of a node's peers
//!   that have a seat are stopped, the node waits for one of them.
//! * **Seats need the lock, words do not.** Seats are assigned only under the folder's lock,
//!   which the kernel releases when its holder dies. Every other step is one compare-and-swap on
//!   one word.
//! * **A node is alive** if its socket has a listener: the kernel closes the socket when the last
//!   thread of the process has exited. A stopped process still listens.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use crossbeam_channel::bounded;
use derecho_core::ids::{NodeId, Rank};
use derecho_core::link::host::{self, HostSeat};
use derecho_core::link::{Arbiter, Founding, Generation, LinkError};
use rustix::fs::fstat;
use rustix::io::Errno;

use super::command::{Command, CommandSender};
use super::domain_folder::{DomainFolder, DomainLock};
use super::error::JoinError;
use super::process::Processes;

mod group_file;
mod page;

use group_file::GroupFile;
pub(crate) use page::{GroupMemory, HandedOver};
use page::{GroupPage, SEATS};

/// Longest time that an asking node waits for nodes that ask, join, or hold the words.
const WAIT_LIMIT: Duration = Duration::from_millis(200);
/// Interval between checks of whether the nodes that hold the words are alive.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Arbiter of one node.
pub(crate) struct ShmArbiter {
    node: NodeId,
    folder: DomainFolder,
    commands: CommandSender,
    handed_over: Arc<HandedOver>,
    /// Processes of the nodes, for messages.
    processes: Arc<Processes>,
    /// The shared words, set when this node takes a seat.
    page: OnceLock<GroupPage>,
    seat_state: Mutex<SeatState>,
    /// Index of the seat for lock-free readers; [`SEATS`] if there is none.
    seat: AtomicUsize,
    /// True once the link has ended.
    ended: AtomicBool,
}

/// Seat state, changed by one thread of the node at a time.
enum SeatState {
    /// The node has no seat.
    Unseated,
    /// Index of the node's seat.
    Seated(usize),
    /// The link has ended; another node may have the seat.
    Gone,
}

/// The group file, held under the folder's lock.
struct LockedGroupFile {
    _lock: DomainLock,
    file: OwnedFd,
    content: GroupFile,
}

/// Location of the words.
enum GroupWords<'a> {
    /// Words among which this node has a seat.
    Own(&'a GroupPage),
    /// Words that a peer has handed over, or that this node has just created.
    Found(Arc<GroupMemory>),
}

impl ShmArbiter {
    /// Creates the arbiter of a node of this folder that has not asked yet. Touches no file.
    pub(crate) fn new(
        node: NodeId,
        folder: &DomainFolder,
        commands: CommandSender,
        handed_over: Arc<HandedOver>,
        processes: Arc<Processes>,
    ) -> ShmArbiter {
        let folder = folder.with_lock_limit(WAIT_LIMIT);
        let own = Mutex::new(SeatState::Unseated);
        let (seat, ended) = (AtomicUsize::new(SEATS), AtomicBool::new(false));
        let page = OnceLock::new();
        ShmArbiter {
            node,
            folder,
            commands,
            handed_over,
            processes,
            page,
            seat_state: own,
            seat,
            ended,
        }
    }

    /// Ends the link. If `leaving`, the node ceases to be a member; otherwise it ends as if it
    /// had died.
    pub(crate) fn end(&self, leaving: bool) {
        if leaving {
            self.left();
        }
        self.ended.store(true, Ordering::Release);
        self.seat.store(SEATS, Ordering::Release);
        *self.seat_state() = SeatState::Gone;
    }

    /// Returns the current members of the host's group. A node killed a moment ago may still be
    /// among them.
    ///
    /// # Errors
    /// The error with which the host refused.
    pub(crate) fn members(&self) -> Result<Vec<NodeId>, LinkError> {
        let members = |page: &GroupPage, record: &GroupFile| {
            let group = page.decision().group();
            let seats = page.seats().iter().zip(&record.nodes);
            seats.filter(|(seat, _)| seat.is_member(group)).map(|(_, node)| *node).collect()
        };
        match self.words(false)? {
            None => Ok(Vec::new()),
            Some((held, GroupWords::Own(page))) => Ok(members(page, &held.content)),
            Some((held, GroupWords::Found(memory))) => {
                Ok(members(&self.map(&memory)?, &held.content))
            }
        }
    }

    fn seat_state(&self) -> MutexGuard<'_, SeatState> {
        // No operation under this lock can be left half done.
        self.seat_state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `act` on this node's seat, if it has one.
    fn with_seat<T>(&self, act: impl FnOnce(&GroupPage, &HostSeat) -> T) -> Option<T> {
        match (&*self.seat_state(), self.page.get()) {
            (&SeatState::Seated(index), Some(page)) => Some(act(page, &page.seats()[index])),
            _ => None,
        }
    }

    /// Starts using the words: hands them to all peers, then takes a seat.
    fn take_seat(
        &self,
        held: &mut LockedGroupFile,
        memory: &Arc<GroupMemory>,
    ) -> Result<usize, LinkError> {
        let page = self.map(memory)?;
        let index = self.free_seat(&held.content)?.ok_or_else(|| {
            let text = format!("all {SEATS} seats of the group are taken; end some processes");
            LinkError::System(text)
        })?;
        // Hand over first: every node with a seat has then handed over the words and may
        // be stopped.
        self.hand_over(memory)?;
        page.seats()[index].clear();
        let path = self.folder.group_path();
        let failed = |errno| refused(format!("writing {}", path.display()), errno);
        held.content.set_node(&held.file, index, self.node).map_err(failed)?;
        self.page.get_or_init(|| page);
        Ok(index)
    }

    /// Returns a seat that is unassigned or belongs to a dead node.
    fn free_seat(&self, record: &GroupFile) -> Result<Option<usize>, LinkError> {
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

    /// Sends the memory to all current and later peers. Returns once it is on its way.
    fn hand_over(&self, memory: &Arc<GroupMemory>) -> Result<(), LinkError> {
        let (done, sent) = bounded(1);
        let is_taken = self.commands.send(Command::Group { memory: Arc::clone(memory), done });
        if is_taken && sent.recv_timeout(WAIT_LIMIT).is_ok() {
            return Ok(());
        }
        let text = "the thread that speaks to the peers does not answer".to_owned();
        Err(LinkError::System(text))
    }

    fn map(&self, memory: &GroupMemory) -> Result<GroupPage, LinkError> {
        GroupPage::map(memory)
            .map_err(|errno| refused("mapping the state of the group".into(), errno))
    }

    /// Whether a node is alive, as far as the kernel can tell.
    fn lives(&self, node: NodeId) -> Result<bool, LinkError> {
        if node == NodeId(0) {
            return Ok(false);
        }
        match self.folder.connect(node) {
            // A process listens, is about to listen, or has a full backlog of callers.
            Ok(_) | Err(Errno::AGAIN | Errno::INTR | Errno::ACCESS | Errno::PROTOTYPE) => Ok(true),
            // No process listens. A node without a socket has left, or was found dead earlier.
            Err(Errno::CONNREFUSED | Errno::NOENT) => Ok(false),
            Err(errno) => {
                let path = self.folder.socket_path(node);
                Err(refused(format!("checking for a listener at {}", path.display()), errno))
            }
        }
    }

    /// Returns the first of these nodes that is alive.
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

    /// Takes the lock and finds the words of this host. If there are none, creates them, or returns
    /// `None` if `may_make` is false.
    fn words(
        &self,
        may_make: bool,
    ) -> Result<Option<(LockedGroupFile, GroupWords<'_>)>, LinkError> {
        let path = self.folder.group_path();
        let deadline = Instant::now() + WAIT_LIMIT;
        loop {
            let lock = self.folder.lock_again()?;
            let Some((file, record)) = self.open(&lock, may_make)? else { return Ok(None) };
            let mut held = LockedGroupFile { _lock: lock, file, content: record };
            if let Some(page) = self.page.get() {
                if held.content.memory != Some(page.identity()) {
                    return Err(wrong(&path, CHANGED));
                }
                return Ok(Some((held, GroupWords::Own(page))));
            }
            let wanted = held.content.memory;
            // A node that hands words over has a seat, and no other words are created while it
            // is alive.
            if self.first_living(self.handed_over.of_others(wanted))?.is_some() {
                return Err(wrong(&path, CHANGED));
            }
            if let Some(memory) = wanted.and_then(|identity| self.handed_over.get(identity)) {
                return Ok(Some((held, GroupWords::Found(memory))));
            }
            let users = held.content.nodes.iter().copied().filter(|node| *node != self.node);
            let user = self.first_living(users)?;
            let (Some(user), Some(wanted)) = (user, wanted) else {
                if !may_make {
                    return Ok(None);
                }
                let failed = |errno| refused("creating the state of the group".to_owned(), errno);
                let memory = GroupMemory::make(held.content.generation).map_err(failed)?;
                held.content.set_memory(&held.file, memory.identity()).map_err(failed)?;
                return Ok(Some((held, GroupWords::Found(Arc::new(memory)))));
            };
            // Other nodes may ask and join while this node waits.
            drop(held);
            let now = Instant::now();
            if now >= deadline {
                return Err(LinkError::System(format!(
                    "{} has the memory with the state of the group and does not answer; it may be stopped: let it \
                     run again, or end it",
                    self.processes.name(user)
                )));
            }
            self.handed_over.wait(wanted, deadline.min(now + LOOK_AGAIN));
        }
    }

    /// Opens and reads the group file. If the file does not exist, creates it, or returns `None` if
    /// `may_make` is false.
    fn open(
        &self,
        lock: &DomainLock,
        may_make: bool,
    ) -> Result<Option<(OwnedFd, GroupFile)>, LinkError> {
        let path = self.folder.group_path();
        let failed = |errno| refused(format!("opening {}", path.display()), errno);
        let noted = lock.group().map_err(failed)?;
        // Removing the file by hand would split one group into two.
        let has_users = || -> Result<bool, LinkError> {
            Ok(self.page.get().is_some() || self.others_live(lock)?)
        };
        let file = match self.folder.open_group(lock).map_err(failed)? {
            Some(file) => file,
            None if noted.is_some() && has_users()? => return Err(wrong(&path, REMOVED)),
            None if !may_make => return Ok(None),
            None => self.folder.make_group(lock, group_file::fill).map_err(failed)?,
        };
        let stat = fstat(&file).map_err(failed)?;
        let form = group_file::read(&file, &stat)
            .and_then(|record| self.folder.check_owner(stat.st_uid, stat.st_gid).map(|()| record));
        let record = form.map_err(|fault| {
            wrong(&path, &format!("{fault}; remove it while no process of this domain runs"))
        })?;
        let inode = (stat.st_dev, stat.st_ino);
        if noted.is_some_and(|noted| noted != inode) && has_users()? {
            return Err(wrong(&path, REMOVED));
        }
        if noted != Some(inode) {
            lock.set_group(stat.st_dev, stat.st_ino).map_err(failed)?;
        }
        Ok(Some((file, record)))
    }

    /// Whether another node of this domain is alive.
    fn others_live(&self, lock: &DomainLock) -> Result<bool, LinkError> {
        let others = self.folder.others(self.node, lock);
        for place in others? {
            if self.lives(place.node)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Error text for a group file that is not the one that was created.
const REMOVED: &str = "was removed while nodes used it; end all processes of this domain and start them again, \
                       and have cleaners of temporary files leave its folder alone";
/// Error text for a group file whose content no node wrote.
const CHANGED: &str = "was changed by another program while nodes used it; end all processes of this domain and \
                       start them again";

fn wrong(path: &Path, fault: &str) -> LinkError {
    LinkError::System(format!("the file {} {fault}", path.display()))
}

fn refused(doing: String, errno: Errno) -> LinkError {
    JoinError::system(doing, errno).into()
}

impl Arbiter for ShmArbiter {
    fn found(&self) -> Result<Founding, LinkError> {
        let mut own = self.seat_state();
        if matches!(*own, SeatState::Gone) {
            return Err(LinkError::System("this node has left its domain; join again".to_owned()));
        }
        let (mut held, words) = self.words(true)?.expect("missing group state was created");
        let index = match (&*own, words) {
            (&SeatState::Seated(index), _) if held.content.nodes[index] == self.node => index,
            (SeatState::Unseated, GroupWords::Found(memory)) => {
                self.take_seat(&mut held, &memory)?
            }
            _ => return Err(wrong(&self.folder.group_path(), CHANGED)),
        };
        *own = SeatState::Seated(index);
        self.seat.store(index, Ordering::Release);
        let page = self.page.get().expect("a node with a seat has mapped the group state");
        let seats: Vec<&HostSeat> = page.seats().iter().collect();
        let lives = |seat: usize| self.lives(held.content.nodes[seat]);
        let founding = host::found(page.decision(), &seats, index, lives)?;
        let group = page.decision().group();
        if group != held.content.generation
            && let Err(errno) = held.content.set_generation(&held.file, group)
        {
            tracing::warn!(%errno, "founding of a group not recorded");
        }
        tracing::debug!(node = %self.node, ?founding, "asked who founds the group");
        Ok(founding)
    }

    fn settle(&self, group: Generation, view: u64, ballot: Rank) -> Option<Rank> {
        if self.ended.load(Ordering::Acquire) {
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
        // Acquire: everything read before this check stays ordered before the loads of the check.
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
