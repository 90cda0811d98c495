//! Sleep of the model's nodes, and the bells that any thread may ring.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use derecho_core::link::{Bells, Interest, OWN_PLACE, Parker};

use super::LinkFault;

const AWAKE: u8 = 0;
const FOR_NEWS: u8 = 1;
const FOR_HINTS: u8 = 2;

/// Sleep state of a node.
#[derive(Default)]
pub(crate) struct SleepState {
    parked: AtomicU8,
    rung: Mutex<bool>,
    heard: Condvar,
}

impl SleepState {
    pub(crate) fn is_asleep(&self) -> bool {
        self.parked.load(Ordering::SeqCst) != AWAKE
    }

    pub(crate) fn is_asleep_for_hints(&self) -> bool {
        self.parked.load(Ordering::SeqCst) == FOR_HINTS
    }

    pub(crate) fn ring(&self) {
        *self.rung.lock().expect("nobody panics with it") = true;
        self.heard.notify_all();
    }
}

pub(crate) struct ModelParker(pub(crate) Arc<SleepState>);

impl Parker for ModelParker {
    fn arm(&self, interest: Interest) {
        let parked = match interest {
            Interest::News => FOR_NEWS,
            Interest::Hints => FOR_HINTS,
        };
        self.0.parked.store(parked, Ordering::SeqCst);
    }

    fn sleep(&self, limit: Option<u64>) {
        let limit = Duration::from_nanos(limit.unwrap_or(u64::MAX));
        let rung = self.0.rung.lock().expect("nobody panics with it");
        let woken = self.0.heard.wait_timeout_while(rung, limit, |rung| !*rung);
        *woken.expect("nobody panics with it").0 = false;
    }

    fn disarm(&self) {
        self.0.parked.store(AWAKE, Ordering::SeqCst);
    }

    fn wake(&self) {
        if self.0.is_asleep() {
            self.0.ring();
        }
    }
}

/// Bells of one node's peers.
pub(crate) struct ModelBells {
    fault: LinkFault,
    table: Mutex<BTreeMap<u32, Arc<SleepState>>>,
    rings: AtomicU64,
}

impl Default for ModelBells {
    fn default() -> ModelBells {
        ModelBells::new(LinkFault::None, Arc::default())
    }
}

impl ModelBells {
    pub(crate) fn new(fault: LinkFault, own: Arc<SleepState>) -> ModelBells {
        let table = Mutex::new(BTreeMap::from([(OWN_PLACE, own)]));
        ModelBells { fault, table, rings: AtomicU64::new(0) }
    }

    pub(crate) fn seat(&self, bell: Arc<SleepState>) -> Option<u32> {
        let mut table = self.table.lock().expect("nobody panics with it");
        if self.fault == LinkFault::ShareAPlace {
            table.insert(0, bell);
            return Some(0);
        }
        let place = (0..OWN_PLACE).find(|place| !table.contains_key(place))?;
        table.insert(place, bell);
        Some(place)
    }

    pub(crate) fn clear(&self, place: u32) {
        if self.fault != LinkFault::RingTheGone {
            self.table.lock().expect("nobody panics with it").remove(&place);
        }
    }

    pub(crate) fn rings(&self) -> u64 {
        self.rings.load(Ordering::SeqCst)
    }
}

impl Bells for ModelBells {
    fn ring(&self, places: u64) {
        let table = self.table.lock().expect("nobody panics with it");
        for (place, bell) in table.iter().filter(|(place, _)| places >> **place & 1 == 1) {
            let wanted = match self.fault {
                LinkFault::IgnoreBells => false,
                LinkFault::ForgetTheOwnBell => *place != OWN_PLACE && bell.is_asleep(),
                LinkFault::LoseBells => bell.is_asleep() && self.rings() % 1000 != 999,
                LinkFault::RingBellsOfTheWaking => true,
                _ => bell.is_asleep(),
            };
            if wanted {
                bell.ring();
            }
            // The fault's own count must advance; otherwise the fault would lose one bell only.
            if *place != OWN_PLACE && (wanted || self.fault == LinkFault::LoseBells) {
                self.rings.fetch_add(1, Ordering::SeqCst);
            }
        }
    }
}
