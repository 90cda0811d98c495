//! What this host decides for the local group of a domain: a page of shared words in the domain's folder.
//!
//! Owns: the file with the words, this node's seat in it, and who counts as living. Never does: say by which
//! rules the words change ([`derecho_core::link::host`] does), or hold a lock that outlives its holder.
//!
//! ```text
//!   <domain>/group        8 KiB, written by all nodes of the domain; there once somebody has asked
//!     line 0              magic, decision word
//!     254 seats           node id (2 words), seat, nothing
//! ```
//! * **Whole or not there.** The file is filled under another name and then renamed, under the folder's lock;
//!   it never changes its size. Its last user removes it with the folder. What a dead process left is used
//!   on: its seats are those of nodes at whose sockets nobody listens.
//! * **Names under the lock, words without.** The ids of the seats change only under the folder's lock, which
//!   the kernel releases with its holder. All else is one compare-and-swap on one word.
//! * **Living** is whose socket somebody listens at: the kernel closes it when the last thread of the process
//!   is out of its way. A process that is stopped still listens.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use derecho_core::ids::{NodeId, Rank};
use derecho_core::link::host::{self, DecisionWord, Seat};
use derecho_core::link::{Arbiter, Founding, Generation, LinkError};
use derecho_core::memory::{LINE, Word};
use rustix::fs::{FallocateFlags, FileType, fallocate, fstat};
use rustix::io::{Errno, pread, pwrite};

use super::directory::{Folder, Lock};
use super::error::JoinError;
use super::mapping::Mapping;

/// The file's size. Part of its form, as all below is.
const BYTES: usize = 8 << 10;
/// How a file begins that has this form.
const MAGIC: u64 = u64::from_le_bytes(*b"SquallG1");
/// Seats: nodes that may ask on one host at a time.
const SEATS: usize = (BYTES - LINE) / SEAT_BYTES;
const SEAT_BYTES: usize = 32;
/// How long a node that asks waits for others who ask, or join.
const WAIT_LIMIT: Duration = Duration::from_millis(200);

/// The line at the beginning of the file.
#[repr(C)]
struct Head {
    magic: Word,
    decision: DecisionWord,
    _rest: [u64; 6],
}

/// A node's place in the file.
#[repr(C)]
struct Place {
    /// Whose it is; zero if it is free.
    node: [Word; 2],
    seat: Seat,
    _rest: u64,
}

const _: () = assert!(size_of::<Head>() == LINE && size_of::<Place>() == SEAT_BYTES);
const _: () = assert!(LINE + SEATS * SEAT_BYTES <= BYTES && align_of::<Place>() <= SEAT_BYTES);

impl Place {
    fn node(&self) -> NodeId {
        NodeId(u128::from(self.node[1].load()) << 64 | u128::from(self.node[0].load()))
    }

    /// Gives it to a node that was nothing so far. Whoever dies half way leaves the id of nobody.
    fn give(&self, node: NodeId) {
        self.seat.clear();
        self.node[0].publish(node.0 as u64);
        self.node[1].publish((node.0 >> 64) as u64);
    }
}

/// The file, mapped.
struct Page {
    mapping: Mapping,
    /// Which file it is.
    inode: (u64, u64),
}

impl Page {
    fn head(&self) -> &Head {
        // SAFETY: `at` has checked that the line lies inside the mapping, which begins on a page and lives as
        // long as `self`; all of it is atomics, for which any bits do. The file had `BYTES` bytes. No node cuts it,
        // but whoever may write it can. The kernel then ends each process that looks at it (SIGBUS); no other
        // memory is reached.
        unsafe { self.mapping.at(0, LINE).cast().as_ref() }
    }

    fn places(&self) -> &[Place] {
        let first = self.mapping.at(LINE, SEATS * SEAT_BYTES).cast();
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts(first.as_ptr(), SEATS) }
    }
}

/// The arbiter of one node.
pub(crate) struct ShmArbiter {
    node: NodeId,
    folder: Folder,
    /// There since this node first asked.
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

impl ShmArbiter {
    /// For a node of this folder, which has not asked yet: no file is touched.
    pub(crate) fn new(node: NodeId, folder: &Folder) -> ShmArbiter {
        let folder = folder.with_lock_limit(WAIT_LIMIT);
        let own = Mutex::new(Own::Standing);
        let (seat, over) = (AtomicUsize::new(SEATS), AtomicBool::new(false));
        ShmArbiter { node, folder, page: OnceLock::new(), own, seat, over }
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
        let lock = self.folder.stay().map_err(|error| LinkError::System(error.to_string()))?;
        let page = self.page(&lock)?;
        let group = page.head().decision.group();
        Ok(page.places().iter().filter(|place| place.seat.is_member(group)).count())
    }

    fn own(&self) -> MutexGuard<'_, Own> {
        // Nothing in there can be left half done.
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// This node's seat, if it has one.
    fn with_seat<T>(&self, act: impl FnOnce(&Page, &Seat) -> T) -> Option<T> {
        match (&*self.own(), self.page.get()) {
            (&Own::Seated(index), Some(page)) => Some(act(page, &page.places()[index].seat)),
            _ => None,
        }
    }

    /// Takes a seat that is nobody's, or that of a node that is gone.
    fn sit_down(&self, places: &[Place]) -> Result<usize, LinkError> {
        let free = places.iter().position(|place| place.node() == NodeId(0));
        let index = match free {
            Some(index) => index,
            None => self.seat_of_the_dead(places)?.ok_or_else(|| {
                let text = format!("all {SEATS} seats of the group are taken; end some processes");
                LinkError::System(text)
            })?,
        };
        places[index].give(self.node);
        Ok(index)
    }

    fn seat_of_the_dead(&self, places: &[Place]) -> Result<Option<usize>, LinkError> {
        for (index, place) in places.iter().enumerate() {
            if !self.lives(place.node())? {
                return Ok(Some(index));
            }
        }
        Ok(None)
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

    /// The words of this host.
    fn page(&self, lock: &Lock) -> Result<&Page, LinkError> {
        let page = match self.page.get() {
            Some(page) => page,
            None => {
                let made = self.open(lock)?;
                self.page.get_or_init(|| made)
            }
        };
        // Whoever removes the file by hand makes two groups of one.
        if self.folder.group_now(lock) == Some(page.inode) {
            return Ok(page);
        }
        Err(wrong(&self.folder.group_path(), REMOVED))
    }

    /// Opens the file, and makes it first if nobody has.
    fn open(&self, lock: &Lock) -> Result<Page, LinkError> {
        let path = self.folder.group_path();
        let failed = |errno| refused(format!("opening {}", path.display()), errno);
        let noted = lock.group().map_err(failed)?;
        let file = match self.folder.open_group(lock).map_err(failed)? {
            Some(file) => file,
            None if noted.is_some() && self.others_live(lock)? => {
                return Err(wrong(&path, REMOVED));
            }
            None => self.folder.make_group(lock, fill).map_err(failed)?,
        };
        let stat = fstat(&file).map_err(failed)?;
        let mut magic = [0; 8];
        let is_whole = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
            && stat.st_size == BYTES as i64;
        let form = if !is_whole {
            Err(format!("is no file of {BYTES} bytes"))
        } else if pread(&file, &mut magic, 0) != Ok(8) || u64::from_ne_bytes(magic) != MAGIC {
            Err("was made by another release of Squall".to_owned())
        } else {
            self.folder.check_owner(stat.st_uid, stat.st_gid)
        };
        form.map_err(|fault| {
            wrong(&path, &format!("{fault}; remove it while no process of this domain runs"))
        })?;
        let inode = (stat.st_dev, stat.st_ino);
        if noted.is_some_and(|noted| noted != inode) && self.others_live(lock)? {
            return Err(wrong(&path, REMOVED));
        }
        let mapping = Mapping::new(&file, BYTES, true).map_err(failed)?;
        lock.set_group(inode).map_err(failed)?;
        Ok(Page { mapping, inode })
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

/// Writes what a file has that nobody has used.
fn fill(file: &OwnedFd) -> Result<(), Errno> {
    match fallocate(file, FallocateFlags::empty(), 0, BYTES as u64) {
        Ok(()) => {}
        // A file system that cannot promise space has to take it.
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => drop(pwrite(file, &[0; BYTES], 0)?),
        Err(errno) => return Err(errno),
    }
    pwrite(file, &MAGIC.to_ne_bytes(), 0).map(drop)
}

/// Error text for a group file that is not the one that was made.
const REMOVED: &str = "was removed while nodes used it; end all processes of this domain and start them again, \
                       and have cleaners of temporary files leave its folder alone";

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
        let lock = self.folder.stay().map_err(|error| LinkError::System(error.to_string()))?;
        let page = self.page(&lock)?;
        let places = page.places();
        let index = match *own {
            Own::Seated(index) => index,
            _ => self.sit_down(places)?,
        };
        *own = Own::Seated(index);
        self.seat.store(index, Ordering::Release);
        let seats: Vec<&Seat> = places.iter().map(|place| &place.seat).collect();
        let lives = |seat: usize| self.lives(places[seat].node());
        let told = host::found(&page.head().decision, &seats, index, lives)?;
        tracing::debug!(node = %self.node, ?told, "asked who founds the group");
        Ok(told)
    }

    fn settle(&self, group: Generation, view: u64, ballot: Rank) -> Option<Rank> {
        if self.over.load(Ordering::Acquire) {
            return None;
        }
        self.page.get()?.head().decision.settle(group, view, ballot)
    }

    fn entered(&self, group: Generation, view: u64, slot: u8) -> bool {
        self.with_seat(|page, seat| seat.enter(&page.head().decision, group, view, slot))
            .unwrap_or(false)
    }

    fn left(&self) {
        self.with_seat(|_, seat| seat.clear());
    }

    fn is_member(&self) -> bool {
        // What was read before this look was read before what it sees.
        fence(Ordering::Acquire);
        let Some(page) = self.page.get() else { return false };
        let place = page.places().get(self.seat.load(Ordering::Acquire));
        place.is_some_and(|place| place.seat.is_member(page.head().decision.group()))
    }

    fn cleared(&self, group: Generation, view: u64, slots: u64) {
        self.with_seat(|page, _| {
            page.places().iter().for_each(|place| place.seat.clear_if(group, view, slots));
        });
    }
}
