//! Carries what one member keeps to another one, by a stream of its own.
//!
//! Owns: that stream, and whose turn it is: one after the other. Never does: wait for anybody in a turn, or
//! copy more in one than live traffic has patience for.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use super::cursor::{Cursor, Kept};
use super::parcel::{
    BLOCK_HEAD, BlockHead, NAME_BYTES, Numbers, RECORD_HEAD, RecordHead, Told, Wish, name_bytes,
};
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
    pub(super) wish: Wish,
}

/// How what somebody wants is gone along.
pub(super) enum Way {
    /// All of it stays until it was passed (I-101).
    Pinned(Cursor),
    /// What is kept no more by then is passed over (I-230).
    Along(Walk),
}

/// A stream of what is given.
struct Given {
    known: Told,
    /// From which number on, and until which.
    bounds: (u64, u64),
    /// Its place among those that were told, if it was.
    place: Option<u32>,
}

/// A record on its way, as bytes: what tells its stream, if that was not told yet; its head; itself.
struct Passing {
    name: Option<[u8; NAME_BYTES]>,
    head: [u8; RECORD_HEAD],
    kept: Kept,
}

impl Passing {
    fn parts(&self) -> [&[u8]; 3] {
        let name = self.name.as_ref().map_or(&[][..], |name| &name[..]);
        [name, &self.head, self.kept.bytes()]
    }

    fn length(&self) -> usize {
        self.parts().iter().map(|part| part.len()).sum()
    }
}

/// The one whose turn it is.
struct Serving {
    want: Want,
    way: Option<Way>,
    /// By the store's numbers for the streams.
    streams: Vec<Given>,
    /// So many of them were told.
    told: u32,
    /// A record that is on its way in part, and how much of it is.
    partial: Option<(Passing, usize)>,
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

    /// It is this one's turn to be given what is in this store. These streams were told, in this order.
    pub(super) fn serve(
        &mut self,
        want: Want,
        way: Way,
        (store, told): (&Store, Vec<StreamId>),
        now: Time,
    ) {
        let of = |numbers: &Numbers, stream: StreamId| {
            let known = numbers.iter().find(|(known, _)| *known == stream);
            known.map(|(_, number)| *number)
        };
        let places: BTreeMap<StreamId, u32> = told.into_iter().zip(0..).collect();
        let streams = store.known().map(|known| {
            let (stream, (met, _)) = &known;
            let until = match of(&want.wish.until.1, *stream) {
                Some(number) if planted(Planted::HistoryTooShort) => number.saturating_sub(1),
                Some(number) => number,
                // Its sender had left before the newcomer began, or has come after that.
                None if *met <= want.wish.until.0 => u64::MAX,
                None => 0,
            };
            let bounds = (of(&want.wish.from, *stream).unwrap_or(0), until);
            Given { known, bounds, place: places.get(stream).copied() }
        });
        let (streams, told, until) = (streams.collect(), places.len() as u32, now.after(PATIENCE));
        let (way, partial, came, finished) = (Some(way), None, false, false);
        self.serving = Some(Serving { want, way, streams, told, partial, came, until, finished });
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
            let (passing, at) = match self.partial.take() {
                Some(partial) => partial,
                None => match self.next(cursor) {
                    Some(passing) => (passing, 0),
                    None => return (room - block.len(), true),
                },
            };
            // As if its parts were one.
            let (mut put, mut past) = (0, at);
            for part in passing.parts() {
                let skipped = past.min(part.len());
                past -= skipped;
                let part = &part[skipped..];
                let count = part.len().min(block.len());
                let (to, rest) = core::mem::take(&mut block).split_at_mut(count);
                to.copy_from_slice(&part[..count]);
                (block, put) = (rest, put + count);
            }
            if at + put < passing.length() {
                self.partial = Some((passing, at + put));
                return (room, false);
            }
            if block.is_empty() {
                return (room, false);
            }
        }
    }

    fn next(&mut self, cursor: &mut Cursor) -> Option<Passing> {
        loop {
            let kept = cursor.next()?;
            // Of a stream that was not known yet when this began all was delivered later.
            let given = self.streams.get_mut(kept.stream() as usize)?;
            let (from, until) = given.bounds;
            if kept.number() >= until {
                return None;
            }
            if kept.number() < from {
                continue;
            }
            let name = given.place.is_none().then(|| name_bytes(given.known));
            let stream = *given.place.get_or_insert_with(|| {
                self.told += 1;
                self.told - 1
            });
            let (number, version) = (kept.number(), kept.version());
            let length = kept.bytes().len() as u32;
            let head = RecordHead { number, version, stream, length }.bytes();
            return Some(Passing { name, head, kept });
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::depot::MOST_OVER;
    use super::super::keeper::{Keeper, Taken};
    use super::super::parcel::Parcel;
    use super::super::store::{Meaning, Retention};
    use super::*;
    use crate::bytes::Wire;

    const MEANING: Meaning = Meaning {
        key: |record| record[0].into(),
        time: |_| 0,
        several: |_| None,
        says: |_, _| {},
        beside: |key| key,
    };
    const RETENTION: Retention =
        Retention { depth: Some(1), most: None, keys: None, lifespan: None, cleanup: None };
    /// So many have written something that stays, and so many others have gone since.
    const STAYS: u64 = 5;
    const GONE: u64 = 5_000;

    fn stream(number: u64) -> StreamId {
        StreamId { node: NodeId(u128::from(number) << 64 | 1), region: RegionId(7 + number) }
    }

    /// What very many have left who came one after the other, and two who are there.
    fn store() -> Store {
        let mut store = Store::new(RETENTION, MEANING);
        for number in 0..STAYS + GONE + 2 {
            let index = store.stream(stream(number));
            store.meet(stream(number), number);
            let key = if number < STAYS { 100 + number } else { number % 10 };
            store.append(index, 3, &[key as u8; 40]);
            if number < STAYS + GONE {
                store.end(stream(number), store.version());
            }
        }
        store
    }

    fn records(store: &Store) -> Vec<(StreamId, u64, u64, Vec<u8>)> {
        let of = |kept: Kept| {
            let stream = store.streams()[kept.stream() as usize];
            (stream, kept.number(), kept.version(), kept.bytes().to_vec())
        };
        store.cursor().map(of).collect()
    }

    /// I-157: an offer does not grow with those who have gone. Who is given what they have left hears of those of whom that is, and
    /// has them over at the same place; of others nobody hears.
    #[test]
    fn an_offer_is_bounded_whoever_has_come_and_gone() {
        let store = store();
        let streams = store.offered(MOST_OVER);
        let names: Vec<StreamId> = streams.iter().map(|(stream, _)| *stream).collect();
        let newest = (STAYS + GONE - MOST_OVER as u64..STAYS + GONE + 2).map(stream);
        assert_eq!(names, newest.collect::<Vec<_>>());
        let until: Numbers = (0..2).map(|at| (stream(STAYS + GONE + at), 4)).collect();
        let give = Parcel::Give {
            key: 1,
            request: 1,
            stream: RegionId(1),
            streams: streams.clone(),
            version: store.version(),
            since: (0, Numbers::new()),
        };
        assert!(give.to_bytes().len() < 50 << 10, "{}", give.to_bytes().len());
        let epoch = STAYS + GONE + 1;
        for room in [73, 100, 4096, BLOCK] {
            let (until, now) = ((epoch, until.clone()), (epoch, until.clone()));
            let wish = Wish { until, from: Numbers::new(), now, before: 0 };
            let want = Want { node: NodeId(2), key: 1, request: 1, wish };
            let mut porter = Porter::new();
            let way = Way::Pinned(store.cursor());
            porter.serve(want, way, (&store, names.clone()), Time(0));
            let mut newcomer = Keeper::newcomer(RETENTION, MEANING);
            newcomer.ask(Some((NodeId(1), 1)));
            newcomer.given(&streams, store.version(), (0, Numbers::new()));
            let serving = porter.serving.as_mut().expect("somebody is served");
            let Some(Way::Pinned(mut cursor)) = serving.way.take() else { panic!("it is pinned") };
            let mut block = alloc::vec![0; room];
            loop {
                let (length, last) = serving.fill(&mut cursor, &mut block);
                let head = BlockHead { request: 1, last, version: store.version() };
                match newcomer.take_block(head, &block[..length]) {
                    Taken::More => assert!(!last),
                    Taken::Whole if last => break,
                    other => panic!("{other:?}"),
                }
            }
            assert_eq!(records(newcomer.store()), records(&store), "in blocks of {room}");
            let known = newcomer.store().over();
            assert_eq!(known.len(), MOST_OVER + STAYS as usize);
            assert!(known.iter().all(|over| store.over().contains(over)));
            let stays = |number: u64| known.iter().any(|(_, of)| *of == stream(number));
            assert!((0..STAYS).all(stays) && !stays(STAYS), "those who have left something");
            assert_eq!(newcomer.store().version(), store.version());
        }
    }
}
