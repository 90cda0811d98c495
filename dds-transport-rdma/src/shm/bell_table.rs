//! Bells of the peers, for every thread of this node.
//!
//! Owns: the assignment of places to peers, a page for each place in which its node's header is
//! visible, and the descriptors that wake. Never does: require a ringing thread to be in time. A
//! thread may be stopped for any time between loading its places and ringing them, while peers die
//! and others come:
//!
//! * The pages are readable while the table exists, see [`Pages`]. An unassigned place shows zeros,
//!   which mean that no node sleeps there.
//! * A thread takes a descriptor from the table, and holds it, before it writes the descriptor. The
//!   descriptor is therefore not closed, and its number not reused, during the write.
//!
//! ```text
//!   ring: places --> parked of each (one line each) --all awake---> done: no lock, no store
//!                                    '--a node sleeps--> table (mutex) --> bell
//! ```

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use derecho_core::link::{Bells, OWN_PLACE};
use derecho_core::memory::AtomicWord;
use derecho_core::park;
use rustix::io::Errno;

use super::barrier::{self, Barriers};
use super::doorbell::{Bell, HEADER_PARKED};
use super::pages::Pages;

/// Number of places: one for each bit, the last one the node's own.
const PLACES: usize = OWN_PLACE as usize + 1;

type WakeTable = [Option<Arc<Bell>>; PLACES];

/// Bells of a node's peers and of the node itself.
pub(crate) struct BellTable {
    pages: Pages,
    /// Whether this process has registered for barriers; without that, each of its threads fences.
    agreed: bool,
    /// Places that require a thread to fence before it looks.
    fenced: AtomicU64,
    slow_path: SlowPathState,
}

/// Fields that only the slow path touches, away from the lines that every ring reads.
#[repr(align(64))]
struct SlowPathState {
    rings: AtomicU64,
    table: Mutex<WakeTable>,
}

impl BellTable {
    /// Creates a table in which only the node itself has a place. The node's header begins
    /// `memory`.
    pub(crate) fn new(
        memory: impl AsFd,
        bell: &Arc<Bell>,
        barriers: Barriers,
    ) -> Result<BellTable, Errno> {
        let pages = Pages::new(PLACES)?;
        pages.show(OWN_PLACE as usize, memory)?;
        let mut table: WakeTable = [const { None }; PLACES];
        table[OWN_PLACE as usize] = Some(Arc::clone(bell));
        let own = if barriers.before_sleep { 0 } else { 1 << OWN_PLACE };
        let rare = SlowPathState { rings: AtomicU64::new(0), table: Mutex::new(table) };
        Ok(BellTable {
            pages,
            agreed: barriers.agreed,
            fenced: AtomicU64::new(if barriers.agreed { own } else { u64::MAX }),
            slow_path: rare,
        })
    }

    /// Gives a free place to a peer whose header begins `memory`. Returns `None` if no place is
    /// free or the header cannot be shown. Only the node's driver gives and takes places.
    pub(crate) fn seat(
        &self,
        memory: impl AsFd,
        bell: &Arc<Bell>,
        barriers: Barriers,
    ) -> Option<u32> {
        let place = self.table().iter().position(Option::is_none)?;
        if let Err(errno) = self.prepare(place, barriers, memory) {
            tracing::warn!(%errno, "no place among the bells for a peer; only turns wake it");
            self.pages.hide(place);
            return None;
        }
        // No thread knows of this place before it is returned, so the order does not matter to
        // new rings. A ring with an outdated set of places finds no bell, or wakes the peer
        // for nothing.
        self.table()[place] = Some(Arc::clone(bell));
        u32::try_from(place).ok()
    }

    fn prepare(&self, place: usize, barriers: Barriers, memory: impl AsFd) -> Result<(), Errno> {
        let bit = 1 << place;
        if barriers.before_sleep && self.agreed {
            self.fenced.fetch_and(!bit, Ordering::Relaxed);
        } else if self.fenced.fetch_or(bit, Ordering::SeqCst) & bit == 0 {
            // A thread that publishes without a fence has checked whether it needs one, and
            // published before that check, by the time the barrier reaches it. After the barrier
            // every thread sees what that thread published. The new peer is told of anything only
            // later, so it finds the published words without being rung.
            barrier::issue()?;
        }
        self.pages.show(place, memory)
    }

    /// Takes back the place of a peer that is gone.
    pub(crate) fn clear(&self, place: u32) {
        self.pages.hide(place as usize);
        let bell = self.table()[place as usize].take();
        if self.agreed {
            self.fenced.fetch_and(!(1 << place), Ordering::Relaxed);
        }
        drop(bell);
    }

    /// Closes the table when the node leaves: no node is rung any more, and the table holds no
    /// node's memory.
    pub(crate) fn close(&self) {
        for place in 0..=OWN_PLACE {
            self.clear(place);
        }
    }

    /// Whether the node's threads need no fence for peers that issue barriers.
    #[inline]
    pub(crate) fn agreed(&self) -> bool {
        self.agreed
    }

    /// Counts a peer that was woken.
    #[inline]
    pub(crate) fn count_ring(&self) {
        self.slow_path.rings.fetch_add(1, Ordering::Relaxed);
    }

    /// Number of times that peers were woken.
    pub(crate) fn rings(&self) -> u64 {
        self.slow_path.rings.load(Ordering::Relaxed)
    }

    /// Fence of the writer before it looks at these places.
    #[inline]
    fn fence_for(&self, places: u64) {
        // Two steps: the check of whether to fence must itself follow the publication,
        // see `prepare`.
        park::before_looking_without_fence();
        if self.fenced.load(Ordering::Relaxed) & places != 0 {
            park::before_looking();
        }
    }

    #[inline]
    fn parked(&self, place: usize) -> &AtomicWord {
        self.pages.word(place, HEADER_PARKED)
    }

    fn table(&self) -> MutexGuard<'_, WakeTable> {
        // No operation under the lock can be left half done.
        self.slow_path.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cold]
    fn wake(&self, sleepers: u64) {
        for place in places(sleepers) {
            // The bell is held during the ring, so that it is not closed meanwhile. The lock is
            // not held.
            let bell = self.table()[place].clone();
            let Some(bell) = bell else { continue };
            bell.ring();
            if place != OWN_PLACE as usize {
                self.count_ring();
            }
        }
    }
}

/// Iterates over the places whose bits are set.
#[inline]
fn places(mut bits: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let place = (bits != 0).then_some(bits.trailing_zeros() as usize)?;
        bits &= bits - 1;
        Some(place)
    })
}

impl Bells for BellTable {
    #[inline]
    fn before_looking(&self) {
        self.fence_for(u64::MAX);
    }

    #[inline]
    fn ring(&self, asked: u64) {
        self.fence_for(asked);
        let mut sleepers = 0;
        for place in places(asked) {
            sleepers |= u64::from(park::asleep(self.parked(place).peek())) << place;
        }
        if sleepers != 0 {
            self.wake(sleepers);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::OwnedFd;

    use rustix::event::{EventfdFlags, eventfd};
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
    use rustix::io::pwrite;

    const HONEST: Barriers = Barriers { before_sleep: true, agreed: true };

    /// Returns the memory of a node whose header says that the node sleeps.
    fn sleeper() -> OwnedFd {
        let memory = memfd_create("squall-test", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&memory, rustix::param::page_size() as u64).unwrap();
        let parked = 8 * HEADER_PARKED as u64;
        assert_eq!(pwrite(&memory, &1_u64.to_ne_bytes(), parked).unwrap(), 8);
        memory
    }

    fn bell() -> Arc<Bell> {
        Arc::new(Bell::Own(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap()))
    }

    /// Number of rings of a bell since the last call.
    fn rung(bell: &Arc<Bell>) -> u64 {
        let Bell::Own(bell) = &**bell else { return 0 };
        let mut count = [0; 8];
        rustix::io::read(bell, &mut count).map_or(0, |_| u64::from_ne_bytes(count))
    }

    fn bell_table(own: Barriers) -> BellTable {
        BellTable::new(sleeper(), &bell(), own).unwrap()
    }

    #[test]
    fn board_omits_fence_exactly_if_node_agreed_and_peer_issues_barriers() {
        for own in (0..4).map(Barriers::from_word) {
            let bell_table = bell_table(own);
            for peer in (0..4).map(Barriers::from_word) {
                let place = bell_table.seat(sleeper(), &bell(), peer).unwrap();
                let fenced = bell_table.fenced.load(Ordering::Relaxed) >> place & 1 == 1;
                assert_eq!(fenced, !(own.agreed && peer.before_sleep), "{own:?} {peer:?}");
                bell_table.clear(place);
                let fenced = bell_table.fenced.load(Ordering::Relaxed) >> OWN_PLACE & 1 == 1;
                assert_eq!(fenced, !(own.agreed && own.before_sleep), "{own:?}");
            }
        }
    }

    #[test]
    fn board_has_63_peer_places_and_reuses_cleared_places() {
        let bell_table = bell_table(HONEST);
        let bells: Vec<_> = (0..OWN_PLACE).map(|_| bell()).collect();
        let places = bells.iter().map(|bell| bell_table.seat(sleeper(), bell, HONEST));
        assert!(places.eq((0..OWN_PLACE).map(Some)));
        assert_eq!(bell_table.seat(sleeper(), &bell(), HONEST), None);
        bell_table.ring(!0);
        assert_eq!(bell_table.rings(), 63);
        assert!(bells.iter().all(|bell| rung(bell) == 1));
        bell_table.clear(17);
        bell_table.ring(!0);
        assert_eq!(rung(&bells[17]), 0);
        let other = bell();
        assert_eq!(bell_table.seat(sleeper(), &other, HONEST), Some(17));
        bell_table.ring(1 << 17);
        assert_eq!((rung(&other), rung(&bells[17]), rung(&bells[18])), (1, 0, 1));
    }

    #[test]
    fn closed_board_holds_no_bell_and_rings_no_bell() {
        let bell_table = bell_table(HONEST);
        let bell = bell();
        bell_table.seat(sleeper(), &bell, HONEST).unwrap();
        bell_table.close();
        bell_table.ring(!0);
        assert_eq!((rung(&bell), Arc::strong_count(&bell)), (0, 1));
    }

    #[test]
    fn unmappable_memory_gets_no_place() {
        let bell_table = bell_table(HONEST);
        let (pipe, _other) = rustix::pipe::pipe().unwrap();
        assert_eq!(bell_table.seat(pipe, &bell(), HONEST), None);
        assert_eq!(bell_table.seat(sleeper(), &bell(), HONEST), Some(0));
    }
}
