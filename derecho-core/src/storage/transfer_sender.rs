//! Transfer of one member's store to another member, by a stream of its own.
//!
//! Owns: that stream, and the queue of requests, which are served one after the other. Never does:
//! wait in a turn, or copy more in one turn than live traffic tolerates.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::cursor::{StoreCursor, StoredRecord};
use super::store::{ResumePoint, Store};
use super::store_message::{
    AnnouncedStream, BLOCK_HEAD, BlockHead, NAME_BYTES, RECORD_HEAD, RecordHead, StreamNumbers,
    TransferRange, name_bytes,
};
use crate::fault::{Fault as Planted, planted};
use crate::group::report::StreamId;
use crate::ids::{NodeId, RegionId, Time};
use crate::multicast::claim::SenderMemory;
use crate::multicast::geometry::Geometry;
use crate::transfer::CHUNK;
use crate::transfer::request_queue::{self, RequestQueue};

/// Maximum number of blocks in flight.
const BLOCKS: usize = 8;
/// Maximum number of blocks sent in one turn.
const MOST_A_TURN: usize = 2;
/// Time, in nanoseconds, within which a requester must subscribe once it is served.
const PATIENCE: u64 = 500_000_000;

/// Returns the geometry of the stream's memory.
pub fn transfer_geometry() -> Geometry {
    Geometry::fitting(BLOCKS * CHUNK, 64, CHUNK).expect("a modest shape")
}

/// A member's request for the kept records of a subgroup.
pub(super) type TransferRequest = request_queue::TransferRequest<TransferRange>;

/// How the records for a request are read.
pub(super) enum TransferReader {
    /// All of them stay until they are passed (I-101).
    Pinned(StoreCursor),
    /// Records that are no longer kept by then are skipped (I-230).
    Unpinned(ResumePoint),
}

/// A stream whose records are transferred.
struct TransferredStream {
    announced: AnnouncedStream,
    /// First number, and the number after the last one.
    bounds: (u64, u64),
    /// Index among the announced streams, if it was announced.
    place: Option<u32>,
}

/// A record being sent: the announcement of its stream if that is still needed, its header, and
/// its bytes.
struct OutgoingRecord {
    name: Option<[u8; NAME_BYTES]>,
    head: [u8; RECORD_HEAD],
    kept: StoredRecord,
}

impl OutgoingRecord {
    fn parts(&self) -> [&[u8]; 3] {
        let name = self.name.as_ref().map_or(&[][..], |name| &name[..]);
        [name, &self.head, self.kept.bytes()]
    }

    fn length(&self) -> usize {
        self.parts().iter().map(|part| part.len()).sum()
    }
}

/// Request being served.
struct ActiveTransfer {
    served: TransferRequest,
    reader: Option<TransferReader>,
    /// Streams, by the store's numbers.
    streams: Vec<TransferredStream>,
    /// Number of announced streams.
    announced: u32,
    /// A partly sent record, and the number of its bytes already sent.
    partial: Option<(OutgoingRecord, usize)>,
    /// Whether the requester has subscribed.
    subscribed: bool,
    /// Time by which it must have subscribed.
    subscribes_by: Time,
    finished: bool,
}

/// Sender of stores; see the [module](self).
pub(super) struct TransferSender {
    stream: Option<(RegionId, SenderMemory)>,
    readers: usize,
    pub(super) queue: RequestQueue<TransferRange>,
    active: Option<ActiveTransfer>,
}

impl TransferSender {
    pub(super) fn new() -> TransferSender {
        TransferSender { stream: None, readers: 0, queue: RequestQueue::default(), active: None }
    }

    pub(super) fn stream(&self) -> Option<RegionId> {
        self.stream.as_ref().map(|(region, _)| *region)
    }

    pub(super) fn bring(&mut self, region: RegionId, memory: SenderMemory) {
        self.stream = Some((region, memory));
    }

    /// Sets the number of readers of the stream.
    pub(super) fn readers(&mut self, count: usize) {
        self.readers = count;
    }

    /// Adds a request, in place of the member's earlier one for the subgroup.
    pub(super) fn enqueue(&mut self, request: TransferRequest) {
        self.active.take_if(|serving| request.replaces(&serving.served));
        self.queue.push(request);
    }

    /// Removes the requests of members that are gone.
    pub(super) fn retain(&mut self, is_present: impl Fn(NodeId) -> bool) {
        self.active.take_if(|serving| !is_present(serving.served.node));
        self.queue.retain(is_present);
    }

    /// Whether another request can be served: no reader of the previous transfer is left.
    pub(super) fn is_free(&self) -> bool {
        self.active.is_none() && self.readers == 0 && self.stream.is_some()
    }

    pub(super) fn is_busy(&self) -> bool {
        self.active.is_some() || !self.queue.is_empty()
    }

    /// Begins to serve a request from this store. The streams in `announced` were announced, in
    /// this order.
    pub(super) fn serve(
        &mut self,
        transfer_request: TransferRequest,
        reader: TransferReader,
        store: &Store,
        announced: Vec<StreamId>,
        now: Time,
    ) {
        let of = |numbers: &StreamNumbers, stream: StreamId| {
            let known = numbers.iter().find(|(known, _)| *known == stream);
            known.map(|(_, number)| *number)
        };
        let places: BTreeMap<StreamId, u32> = announced.into_iter().zip(0..).collect();
        let streams = store.announced().map(|announced| {
            let (stream, (met, _)) = &announced;
            let until = match of(&transfer_request.wanted.until.1, *stream) {
                Some(number) if planted(Planted::HistoryTooShort) => number.saturating_sub(1),
                Some(number) => number,
                // The stream's sender left before the late joiner began.
                None if *met <= transfer_request.wanted.until.0 => u64::MAX,
                // The sender came after that.
                None => 0,
            };
            let bounds = (of(&transfer_request.wanted.from, *stream).unwrap_or(0), until);
            TransferredStream { announced, bounds, place: places.get(stream).copied() }
        });
        self.active = Some(ActiveTransfer {
            streams: streams.collect(),
            served: transfer_request,
            reader: Some(reader),
            announced: places.len() as u32,
            partial: None,
            subscribed: false,
            subscribes_by: now.after(PATIENCE),
            finished: false,
        });
    }

    /// Takes out a request whose requester did not subscribe in time.
    pub(super) fn take_absent(&mut self, now: Time) -> Option<TransferRequest> {
        let is_absent = |it: &mut ActiveTransfer| {
            !it.subscribed && self.readers == 0 && now >= it.subscribes_by
        };
        self.active.take_if(is_absent).map(|serving| serving.served)
    }

    /// Returns the subgroup of the request being served.
    pub(super) fn gives(&self) -> Option<u64> {
        self.active.as_ref().map(|serving| serving.served.key)
    }

    /// Sends as many blocks of this store as there is space for. Returns their number.
    pub(super) fn turn(&mut self, store: Option<&Store>) -> usize {
        let (Some(serving), Some((_, memory))) = (&mut self.active, &self.stream) else {
            return 0;
        };
        match (self.readers > 0, serving.subscribed) {
            (true, _) => serving.subscribed = true,
            // The requester has received everything, or is gone.
            (false, true) => {
                self.active = None;
                return 1;
            }
            (false, false) => return 0,
        }
        let version = store.map_or(0, Store::version);
        let Some(mut way) = serving.reader.take() else { return 0 };
        let sent = match (&mut way, store) {
            (TransferReader::Pinned(cursor), _) => serving.send(cursor, memory, version),
            (TransferReader::Unpinned(_), None) => {
                // The store is no longer kept here, as all members will learn; the requester asks
                // another member.
                self.active = None;
                return 1;
            }
            (TransferReader::Unpinned(resume_point), Some(store)) => {
                let (mut cursor, gone) = store.cursor_from(resume_point);
                let sent = match gone as usize * cursor.length_of_next() {
                    // The records would be removed before they arrive (I-231).
                    lost if lost > MOST_A_TURN * CHUNK => 0,
                    _ => serving.send(&mut cursor, memory, version),
                };
                store.save_position(&cursor, resume_point);
                sent
            }
        };
        serving.reader = Some(way);
        sent
    }
}

impl core::fmt::Debug for TransferSender {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let (readers, queue) = (self.readers, &self.queue);
        let serving = self.active.as_ref().map(|it| (&it.served, it.subscribed, it.finished));
        write!(f, "{readers} readers, serves {serving:?}, then {queue:?}")
    }
}

impl ActiveTransfer {
    /// Sends the next blocks of a store that has reached this version. Returns their number.
    fn send(&mut self, cursor: &mut StoreCursor, memory: &SenderMemory, version: u64) -> usize {
        let mut sent = 0;
        while sent < MOST_A_TURN && !self.finished {
            let Ok(mut claim) = memory.claim(CHUNK) else { break };
            let (length, last) = self.fill(cursor, &mut claim.bytes()[BLOCK_HEAD..]);
            let head = BlockHead { request: self.served.request, last, version };
            head.write(claim.bytes());
            claim.commit(BLOCK_HEAD + length, |_, _| {});
            (self.finished, sent) = (last, sent + 1);
        }
        sent
    }

    /// Fills a block with the next records. Returns the number of bytes, and whether this block is
    /// the last.
    fn fill(&mut self, cursor: &mut StoreCursor, mut block: &mut [u8]) -> (usize, bool) {
        let room = block.len();
        loop {
            let (outgoing, at) = match self.partial.take() {
                Some(partial) => partial,
                None => match self.next(cursor) {
                    Some(outgoing) => (outgoing, 0),
                    None => return (room - block.len(), true),
                },
            };
            // The parts are treated as one sequence of bytes.
            let (mut put, mut past) = (0, at);
            for part in outgoing.parts() {
                let skipped = past.min(part.len());
                past -= skipped;
                let part = &part[skipped..];
                let count = part.len().min(block.len());
                let (to, rest) = core::mem::take(&mut block).split_at_mut(count);
                to.copy_from_slice(&part[..count]);
                (block, put) = (rest, put + count);
            }
            if at + put < outgoing.length() {
                self.partial = Some((outgoing, at + put));
                return (room, false);
            }
            if block.is_empty() {
                return (room, false);
            }
        }
    }

    fn next(&mut self, cursor: &mut StoreCursor) -> Option<OutgoingRecord> {
        loop {
            let kept = cursor.next()?;
            // All messages of a stream that was unknown when this began were delivered later.
            let given = self.streams.get_mut(kept.stream() as usize)?;
            let (from, until) = given.bounds;
            if kept.number() >= until {
                return None;
            }
            if kept.number() < from {
                continue;
            }
            let name = given.place.is_none().then(|| name_bytes(given.announced));
            let stream = *given.place.get_or_insert_with(|| {
                self.announced += 1;
                self.announced - 1
            });
            let (number, position) = (kept.number(), kept.position());
            let length = kept.bytes().len() as u32;
            let head = RecordHead { number, position, stream, length }.bytes();
            return Some(OutgoingRecord { name, head, kept });
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::store::{RecordFormat, StoreRetention};
    use super::super::store_message::StoreMessage;
    use super::super::store_set::MOST_ENDED;
    use super::super::subgroup_store::{BlockResult, SubgroupStore};
    use super::*;
    use crate::bytes::Wire;

    const FORMAT: RecordFormat = RecordFormat {
        key: |record| record[0].into(),
        time: |_| 0,
        all_keys: |_| None,
        liveness: |_, _| {},
        companion: |key| key,
    };
    const RETENTION: StoreRetention =
        StoreRetention { depth: Some(1), most: None, keys: None, lifespan: None, cleanup: None };
    /// Number of ended streams whose record stays, and of streams that ended after these.
    const STAYS: u64 = 5;
    const GONE: u64 = 5_000;

    fn stream(number: u64) -> StreamId {
        StreamId { node: NodeId(u128::from(number) << 64 | 1), region: RegionId(7 + number) }
    }

    /// A store with what is left of very many senders that came and went one after the other, and
    /// two that are present.
    fn store() -> Store {
        let mut store = Store::new(RETENTION, FORMAT);
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
        let of = |kept: StoredRecord| {
            let stream = store.streams()[kept.stream() as usize];
            (stream, kept.number(), kept.position(), kept.bytes().to_vec())
        };
        store.cursor().map(of).collect()
    }

    /// I-157: an offer does not grow with the number of senders that are gone. A late joiner that
    /// receives records of such senders learns of their streams, with the versions at which they
    /// ended; no other streams are announced.
    #[test]
    fn offer_size_is_bounded_regardless_of_departed_senders() {
        let store = store();
        let streams = store.offered(MOST_ENDED);
        let names: Vec<StreamId> = streams.iter().map(|(stream, _)| *stream).collect();
        let newest = (STAYS + GONE - MOST_ENDED as u64..STAYS + GONE + 2).map(stream);
        assert_eq!(names, newest.collect::<Vec<_>>());
        let until: StreamNumbers = (0..2).map(|at| (stream(STAYS + GONE + at), 4)).collect();
        let give = StoreMessage::Give {
            key: 1,
            request: 1,
            stream: RegionId(1),
            streams: streams.clone(),
            version: store.version(),
            since: (0, StreamNumbers::new()),
        };
        assert!(give.to_bytes().len() < 50 << 10, "{}", give.to_bytes().len());
        let epoch = STAYS + GONE + 1;
        for room in [73, 100, 4096, CHUNK] {
            let (until, now) = ((epoch, until.clone()), (epoch, until.clone()));
            let wanted = TransferRange { until, from: StreamNumbers::new(), now, before: 0 };
            let transfer_request = TransferRequest { node: NodeId(2), key: 1, request: 1, wanted };
            let mut sender = TransferSender::new();
            let way = TransferReader::Pinned(store.cursor());
            sender.serve(transfer_request, way, &store, names.clone(), Time(0));
            let mut late_joiner = SubgroupStore::late_joiner(RETENTION, FORMAT);
            late_joiner.requester.ask(NodeId(1), 1, 1);
            late_joiner.begin_transfer(&streams, store.version(), (0, StreamNumbers::new()));
            let serving = sender.active.as_mut().expect("somebody is served");
            let Some(TransferReader::Pinned(mut cursor)) = serving.reader.take() else {
                panic!("it is pinned")
            };
            let mut block = alloc::vec![0; room];
            loop {
                let (length, last) = serving.fill(&mut cursor, &mut block);
                let head = BlockHead { request: 1, last, version: store.version() };
                match late_joiner.take_block(head, &block[..length]) {
                    BlockResult::More => assert!(!last),
                    BlockResult::Complete if last => break,
                    other => panic!("{other:?}"),
                }
            }
            assert_eq!(records(late_joiner.store()), records(&store), "in blocks of {room}");
            let known = late_joiner.store().ended_streams();
            assert_eq!(known.len(), MOST_ENDED + STAYS as usize);
            assert!(known.iter().all(|ended_at| store.ended_streams().contains(ended_at)));
            let stays = |number: u64| known.iter().any(|(_, of)| *of == stream(number));
            assert!((0..STAYS).all(stays) && !stays(STAYS), "those who have left something");
            assert_eq!(late_joiner.store().version(), store.version());
        }
    }
}
