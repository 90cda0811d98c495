//! SST-reads: a refresher beside the detector fetches all other rows, over and over.
//!
//! Owns: the reads in flight. Never does: look at the fetched words; the table's replicas are the
//! same memory.
//!
//! As in the paper, all reads are posted before the first completes. The next round starts when the
//! last of them is complete, or after an optional pause.

use core::marker::PhantomData;

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::layout::TableRow;
use super::table::region_words;
use crate::ids::{Peer, RegionId, Time};
use crate::link::{LinkEvent, WordRange};
use crate::machine::{Effects, Machine};

/// State of one peer.
#[derive(Default)]
struct PeerReads {
    /// Its regions that hold a row of this type.
    regions: Vec<RegionId>,
    /// Reads in flight.
    reads: u32,
}

/// Fetches the rows of all peers, round by round.
pub struct Refresher<R: TableRow> {
    region: RegionId,
    pause: u64,
    peers: BTreeMap<Peer, PeerReads>,
    outstanding: u32,
    due: Time,
    rounds: u64,
    _row: PhantomData<R>,
}

impl<R: TableRow> Refresher<R> {
    /// Creates a refresher for the table with this region, which pauses for `pause` nanoseconds
    /// between rounds.
    pub fn new(region: RegionId, pause: u64) -> Self {
        let (peers, due) = (BTreeMap::new(), Time::default());
        Refresher { region, pause, peers, outstanding: 0, due, rounds: 0, _row: PhantomData }
    }

    /// Number of completed rounds.
    pub fn rounds(&self) -> u64 {
        self.rounds
    }

    /// Fetches another generation of the table from the next round on.
    pub fn retarget(&mut self, region: RegionId) {
        self.region = region;
    }
}

impl<R: TableRow> Machine for Refresher<R> {
    fn handle(&mut self, event: LinkEvent, _effects: &mut Effects) {
        match event {
            LinkEvent::RegionUp { peer, region, replica }
                if replica.words() >= region_words::<R>() =>
            {
                self.peers.entry(peer).or_default().regions.push(region);
            }
            LinkEvent::ReadDone { peer, .. } => {
                if let Some(fetched) = self.peers.get_mut(&peer)
                    && fetched.reads > 0
                {
                    fetched.reads -= 1;
                    self.outstanding -= 1;
                }
            }
            LinkEvent::RegionDown { peer, region } => {
                if let Some(fetched) = self.peers.get_mut(&peer) {
                    fetched.regions.retain(|other| *other != region);
                }
            }
            LinkEvent::PeerDown { peer, .. } => {
                if let Some(fetched) = self.peers.remove(&peer) {
                    self.outstanding -= fetched.reads;
                }
            }
            _ => {}
        }
    }

    fn turn(&mut self, now: Time, effects: &mut Effects) -> usize {
        if self.outstanding > 0 || now < self.due {
            return 0;
        }
        let Refresher { region, peers, outstanding, .. } = self;
        for (&peer, fetched) in peers.iter_mut() {
            if fetched.regions.contains(region) {
                effects.read(peer, *region, WordRange::new(0, region_words::<R>()));
                fetched.reads += 1;
                *outstanding += 1;
            }
        }
        if self.outstanding > 0 {
            self.rounds += 1;
            self.due = now.after(self.pause);
        }
        self.outstanding as usize
    }

    fn wants_turn_at(&self) -> Option<Time> {
        let has_peers = self.peers.values().any(|peer| peer.regions.contains(&self.region));
        (self.outstanding == 0 && has_peers).then_some(self.due)
    }
}
