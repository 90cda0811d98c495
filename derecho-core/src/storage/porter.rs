//! Carries what one member keeps to another one, by a stream of its own.
//!
//! Owns: that stream, and whose turn it is: one after the other. Never does: wait for anybody in a turn, or
//! copy more in one than live traffic has patience for.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::cursor::{Cursor, Kept};
use super::parcel::{BLOCK_HEAD, BlockHead, Numbers, RECORD_HEAD, RecordHead, Told};
use super::store::{Store, Walk};
use crate::fault::{Fault as Planted, planted};
use crate::group::report::StreamId;
use crate::ids::{NodeId, RegionId, Time};
use crate::multicast::claim::SenderMemory;
use crate::multicast::geometry::Geometry;

/// Bytes of a block.
const BLOCK: usize = 128 << 10;
/// Blocks on their way.
const BLOCKS: usize = 8;
/// Blocks in one turn.
const MOST_A_TURN: usize = 2;
/// So long somebody whose turn it is may take to come.
const PATIENCE: u64 = 500_000_000;

/// So many may wait for their turns.
const MOST_WANTS: usize = 1 << 16;

/// The shape of the stream's memory.
pub fn porter_geometry() -> Geometry {
    Geometry::fitting(BLOCKS * BLOCK, 64, BLOCK).expect("a modest shape")
}

/// Somebody who wants what is kept of a subgroup.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Want {
    pub(super) node: NodeId,
    pub(super) key: u64,
    pub(super) request: u64,
    pub(super) epoch: u64,
    pub(super) until: Numbers,
    pub(super) from: Numbers,
}

/// How what somebody wants is gone along.
pub(super) enum Way {
    /// All of it stays until it was passed (I-101).
    Pinned(Cursor),
    /// What is kept no more by then is passed over (I-230).
    Along(Walk),
}

/// The one whose turn it is.
struct Serving {
    want: Want,
    way: Option<Way>,
    /// From which numbers on, and until which, by the store's numbers for the streams.
    bounds: Vec<(u64, u64)>,
    /// A record that is on its way in part, and how much of it is.
    partial: Option<(Kept, usize)>,
    /// It was there.
    came: bool,
    until: Time,
    finished: bool,
}

/// See the [module](self).
pub(super) struct Porter {
    stream: Option<(RegionId, SenderMemory)>,
    readers: usize,
    pub(super) queue: VecDeque<Want>,
    serving: Option<Serving>,
}

impl Porter {
    pub(super) fn new() -> Porter {
        Porter { stream: None, readers: 0, queue: VecDeque::new(), serving: None }
    }

    pub(super) fn stream(&self) -> Option<RegionId> {
        self.stream.as_ref().map(|(region, _)| *region)
    }

    pub(super) fn bring(&mut self, region: RegionId, memory: SenderMemory) {
        self.stream = Some((region, memory));
    }

    /// So many read the stream.
    pub(super) fn readers(&mut self, count: usize) {
        self.readers = count;
    }

    pub(super) fn want(&mut self, want: Want) {
        self.withdraw(want.node, want.key);
        // No correct members want more than that.
        if self.queue.len() < MOST_WANTS {
            self.queue.push_back(want);
        }
    }

    /// Who wanted it wants something else.
    fn withdraw(&mut self, node: NodeId, key: u64) {
        self.queue.retain(|known| (known.node, known.key) != (node, key));
        let of_it = |serving: &Serving| (serving.want.node, serving.want.key) == (node, key);
        if self.serving.as_ref().is_some_and(of_it) {
            self.serving = None;
        }
    }

    /// Those who are gone want nothing.
    pub(super) fn retain(&mut self, stays: impl Fn(NodeId) -> bool) {
        self.queue.retain(|want| stays(want.node));
        if self.serving.as_ref().is_some_and(|serving| !stays(serving.want.node)) {
            self.serving = None;
        }
    }

    /// Whether somebody else can have a turn: nobody reads what was meant for another.
    pub(super) fn is_free(&self) -> bool {
        self.serving.is_none() && self.readers == 0 && self.stream.is_some()
    }

    pub(super) fn is_busy(&self) -> bool {
        self.serving.is_some() || !self.queue.is_empty()
    }

    /// It is this one's turn.
    pub(super) fn serve(&mut self, want: Want, way: Way, streams: &[Told], now: Time) {
        let of = |numbers: &Numbers, stream: StreamId| {
            let known = numbers.iter().find(|(known, _)| *known == stream);
            known.map(|(_, number)| *number)
        };
        let bounds = streams.iter().map(|(stream, (met, _))| {
            let until = match of(&want.until, *stream) {
                Some(number) if planted(Planted::HistoryTooShort) => number.saturating_sub(1),
                Some(number) => number,
                // Its sender had left before the newcomer began, or has come after that.
                None if *met <= want.epoch => u64::MAX,
                None => 0,
            };
            (of(&want.from, *stream).unwrap_or(0), until)
        });
        let (bounds, until) = (bounds.collect(), now.after(PATIENCE));
        let (way, partial, came, finished) = (Some(way), None, false, false);
        self.serving = Some(Serving { want, way, bounds, partial, came, until, finished });
    }

    /// Takes out whoever did not come when it was its turn.
    pub(super) fn take_absent(&mut self, now: Time) -> Option<Want> {
        let is_absent = |it: &mut Serving| !it.came && self.readers == 0 && now >= it.until;
        self.serving.take_if(is_absent).map(|serving| serving.want)
    }

    /// Of what it is that somebody is given.
    pub(super) fn gives(&self) -> Option<u64> {
        self.serving.as_ref().map(|serving| serving.want.key)
    }

    /// Sends what there is room for of this store. Returns how many blocks.
    pub(super) fn turn(&mut self, store: Option<&Store>) -> usize {
        let (Some(serving), Some((_, memory))) = (&mut self.serving, &self.stream) else {
            return 0;
        };
        match (self.readers > 0, serving.came) {
            (true, _) => serving.came = true,
            // It has all, or has been lost on the way.
            (false, true) => {
                self.serving = None;
                return 1;
            }
            (false, false) => return 0,
        }
        let version = store.map_or(0, Store::version);
        let Some(mut way) = serving.way.take() else { return 0 };
        let sent = match (&mut way, store) {
            (Way::Pinned(cursor), _) => serving.send(cursor, memory, version),
            (Way::Along(_), None) => {
                // Nothing is kept of it here any more, as all will hear: it is asked of another one.
                self.serving = None;
                return 1;
            }
            (Way::Along(walk), Some(store)) => {
                let (mut cursor, gone) = store.walk(walk);
                let sent = match gone as usize * cursor.length_of_next() {
                    // It would be gone before it was given (I-231).
                    lost if lost > MOST_A_TURN * BLOCK => 0,
                    _ => serving.send(&mut cursor, memory, version),
                };
                store.walked(&cursor, walk);
                sent
            }
        };
        serving.way = Some(way);
        sent
    }
}

impl core::fmt::Debug for Porter {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let (readers, queue) = (self.readers, &self.queue);
        let serving = self.serving.as_ref().map(|it| (&it.want, it.came, it.finished));
        write!(f, "{readers} readers, serves {serving:?}, then {queue:?}")
    }
}

impl Serving {
    /// Sends blocks of what comes next, of a store that has come to this version. Returns how many.
    fn send(&mut self, cursor: &mut Cursor, memory: &SenderMemory, version: u64) -> usize {
        let mut sent = 0;
        while sent < MOST_A_TURN && !self.finished {
            let Ok(mut claim) = memory.claim(BLOCK) else { break };
            let (length, last) = self.fill(cursor, &mut claim.bytes()[BLOCK_HEAD..]);
            let head = BlockHead { request: self.want.request, last, version };
            head.write(claim.bytes());
            claim.commit(BLOCK_HEAD + length, |_, _| {});
            (self.finished, sent) = (last, sent + 1);
        }
        sent
    }

    /// Fills a block with what comes next. Returns how much it is, and whether it is the last.
    fn fill(&mut self, cursor: &mut Cursor, mut block: &mut [u8]) -> (usize, bool) {
        let room = block.len();
        loop {
            let (kept, at) = match self.partial.take() {
                Some(partial) => partial,
                None => match self.next(cursor) {
                    Some(kept) => (kept, 0),
                    None => return (room - block.len(), true),
                },
            };
            let (stream, length) = (kept.stream(), kept.bytes().len());
            let (number, version, length) = (kept.number(), kept.version(), length as u32);
            let head = RecordHead { number, version, stream, length }.bytes();
            // As if head and record were one.
            let (first, at_record) = (&head[at.min(RECORD_HEAD)..], at.saturating_sub(RECORD_HEAD));
            let mut put = 0;
            for part in [first, &kept.bytes()[at_record..]] {
                let count = part.len().min(block.len());
                let (to, rest) = core::mem::take(&mut block).split_at_mut(count);
                to.copy_from_slice(&part[..count]);
                (block, put) = (rest, put + count);
            }
            if at + put < RECORD_HEAD + length as usize {
                self.partial = Some((kept, at + put));
                return (room, false);
            }
            if block.is_empty() {
                return (room, false);
            }
        }
    }

    fn next(&mut self, cursor: &mut Cursor) -> Option<Kept> {
        loop {
            let kept = cursor.next()?;
            // Of a stream that was not known yet when this began all was delivered later.
            let (from, until) = *self.bounds.get(kept.stream() as usize)?;
            if kept.number() >= until {
                return None;
            }
            if kept.number() >= from {
                return Some(kept);
            }
        }
    }
}
