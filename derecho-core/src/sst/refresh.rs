//! SST-reads: a refresher beside the detector fetches all other rows, over and over.
//!
//! Owns: the reads under way. Never does: look at what they bring; the table's replicas are the
//! same memory.
//!
//! As in the paper all reads are posted before the first is waited for, and the next round starts
//! when the last of them is complete, or a pause later if one is asked for.

use core::marker::PhantomData;

use alloc::collections::BTreeMap;

use super::layout::Row;
use super::table::region_words;
use crate::ids::{Peer, RegionId, Time};
use crate::link::{LinkEvent, WordRange};
use crate::machine::{Effects, Machine};

/// Fetches the rows of all peers, round by round.
pub struct Refresher<R: Row> {
    region: RegionId,
    pause: u64,
    /// Peers whose row can be fetched, and how many of their reads are under way.
    peers: BTreeMap<Peer, u32>,
    outstanding: u32,
    due: Time,
    rounds: u64,
    _row: PhantomData<R>,
}

impl<R: Row> Refresher<R> {
    /// A refresher for the table with this region, which rests for `pause` nanoseconds between
    /// rounds.
    pub fn new(region: RegionId, pause: u64) -> Self {
        let (peers, due) = (BTreeMap::new(), Time::default());
        Refresher { region, pause, peers, outstanding: 0, due, rounds: 0, _row: PhantomData }
    }

    /// Rounds completed.
    pub fn rounds(&self) -> u64 {
        self.rounds
    }

    fn settle(&mut self, reads: u32) {
        self.outstanding -= reads;
    }
}

impl<R: Row> Machine for Refresher<R> {
    fn handle(&mut self, event: LinkEvent, _effects: &mut Effects) {
        match event {
            LinkEvent::RegionUp { peer, region, replica }
                if region == self.region && replica.words() >= region_words::<R>() =>
            {
                self.peers.insert(peer, 0);
            }
            LinkEvent::ReadDone { peer, .. } => {
                if let Some(reads) = self.peers.get_mut(&peer)
                    && *reads > 0
                {
                    *reads -= 1;
                    self.settle(1);
                }
            }
            LinkEvent::RegionDown { peer, region } if region == self.region => {
                if let Some(reads) = self.peers.remove(&peer) {
                    self.settle(reads);
                }
            }
            LinkEvent::PeerDown { peer, .. } => {
                if let Some(reads) = self.peers.remove(&peer) {
                    self.settle(reads);
                }
            }
            _ => {}
        }
    }

    fn turn(&mut self, now: Time, effects: &mut Effects) -> usize {
        if self.outstanding > 0 || self.peers.is_empty() || now < self.due {
            return 0;
        }
        self.rounds += 1;
        self.due = now.after(self.pause);
        for (&peer, reads) in &mut self.peers {
            effects.read(peer, self.region, WordRange::new(0, region_words::<R>()));
            *reads += 1;
            self.outstanding += 1;
        }
        self.peers.len()
    }

    fn wants_turn_at(&self) -> Option<Time> {
        (self.outstanding == 0 && !self.peers.is_empty()).then_some(self.due)
    }
}
