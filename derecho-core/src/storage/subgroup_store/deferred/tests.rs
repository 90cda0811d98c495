//! Tests of deferred records: beside a store that copies each record at once.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::Cell;

use proptest::prelude::*;

use super::super::super::cursor::{StoreCursor, StoredRecord};
use super::super::super::store::{KeyLiveness, RecordFormat, Store, StoreRetention};
use super::*;
use crate::group::report::StreamId;
use crate::ids::{NodeId, RegionId};
use crate::multicast::inbox::tests::TestSender;

const ALL: StoreRetention =
    StoreRetention { depth: None, most: None, keys: None, lifespan: None, cleanup: None };
const LAST: StoreRetention = StoreRetention { depth: Some(1), ..ALL };

std::thread_local! {
    /// Number of times that the key of a record was asked for.
    static ASKED: Cell<u64> = const { Cell::new(0) };
}

/// A record: the time, the number of its keys, each key with its statement, and the content.
const FORMAT: RecordFormat = RecordFormat {
    key: |record| {
        ASKED.set(ASKED.get() + 1);
        record[2].into()
    },
    time: |record| record[0].into(),
    all_keys: |record| (record[1] > 1).then(|| statements(record).map(|it| it.0).collect()),
    liveness: |record, each| statements(record).for_each(|(key, state)| each(key, state)),
    companion: |key| key ^ 0x80,
};

fn statements(record: &[u8]) -> impl Iterator<Item = (Key, KeyLiveness)> + '_ {
    record[2..].chunks(2).take(record[1].into()).map(|part| {
        let liveness = match (part[0] & 0x80 > 0, part[1]) {
            (true, _) => KeyLiveness::Companion,
            (false, 0) => KeyLiveness::NotAlive,
            (false, _) => KeyLiveness::Alive,
        };
        (part[0].into(), liveness)
    })
}

fn stream(sender: usize) -> StreamId {
    StreamId { node: NodeId(sender as u128 + 1), region: RegionId(7) }
}

/// A kept record: position, number, stream and bytes.
type KeptRecord = (u64, u64, StreamId, Vec<u8>);

fn kept(streams: &[StreamId], record: &StoredRecord) -> KeptRecord {
    let stream = streams[record.stream() as usize];
    (record.position(), record.number(), stream, record.bytes().to_vec())
}

/// A subgroup store that has all records kept before, and beside it a store into which each
/// delivered record is copied at once.
struct Pair {
    senders: Vec<TestSender>,
    inbox: Arc<crate::multicast::inbox::Inbox>,
    subgroup_store: SubgroupStore,
    eager: Store,
    own_version: u64,
    /// Cursors along both, and the next position of each.
    cursors: Vec<(StoreCursor, StoreCursor)>,
}

impl Pair {
    fn new(retention: StoreRetention, senders: Vec<TestSender>) -> Pair {
        let inbox = TestSender::queue(&senders);
        let mut subgroup_store = SubgroupStore::new(retention, FORMAT);
        subgroup_store.stage = StoreStage::Has;
        subgroup_store.me = stream(0).node;
        subgroup_store.inbox = Some(Arc::clone(&inbox));
        subgroup_store.senders = (0..senders.len()).map(|it| Some(stream(it))).collect();
        let eager = Store::new(retention, FORMAT);
        Pair { senders, inbox, subgroup_store, eager, own_version: 0, cursors: Vec::new() }
    }

    /// Delivers a record to both. `false` if the writer must wait.
    fn deliver(&mut self, sender: usize, record: &[u8]) -> bool {
        let number = self.senders[sender].written();
        if !self.senders[sender].deliver(&self.inbox, record) {
            return false;
        }
        let index = self.eager.stream(stream(sender));
        self.eager.append(index, number, record);
        if sender == 0 {
            self.own_version = self.eager.version();
        }
        true
    }

    fn open(&mut self) {
        self.subgroup_store.take();
        self.cursors.push((self.subgroup_store.store().cursor(), self.eager.cursor()));
    }

    /// Reads along the cursors and closes the first one.
    fn close(&mut self) {
        self.subgroup_store.take();
        let store = self.subgroup_store.store();
        for (ours, theirs) in &mut self.cursors {
            let ours: Vec<_> = ours.map(|it| kept(store.streams(), &it)).collect();
            let theirs: Vec<_> = theirs.map(|it| kept(self.eager.streams(), &it)).collect();
            assert_eq!(ours, theirs, "records along a cursor");
        }
        self.cursors.pop();
    }

    /// Ends a stream, as the beginning of an epoch without its sender does.
    fn end(&mut self, sender: usize) {
        self.subgroup_store.take();
        self.subgroup_store.copy_all_deferred();
        for store in [&mut self.subgroup_store.store, &mut self.eager] {
            store.meet(stream(sender), 3);
            store.end_others(|of| of != stream(sender));
        }
    }

    /// Compares everything that is visible of the two.
    fn compare(&mut self) {
        self.subgroup_store.take();
        // Counted whether or not they were copied.
        assert_eq!(self.subgroup_store.version(), self.eager.version());
        assert_eq!(self.subgroup_store.own_version(), self.own_version);
        let gaps = self.subgroup_store.gaps();
        let store = self.subgroup_store.store();
        assert_eq!(gaps, 0);
        assert_eq!(store.len(), self.eager.len(), "number of kept records");
        assert!(store.numbers().eq(self.eager.numbers()));
        assert_eq!(store.ended_streams(), self.eager.ended_streams());
        assert_eq!(store.floor(), self.eager.floor());
        let ours = store.cursor().map(|it| kept(store.streams(), &it));
        let theirs = self.eager.cursor().map(|it| kept(self.eager.streams(), &it));
        assert_eq!(ours.collect::<Vec<_>>(), theirs.collect::<Vec<_>>(), "kept records");
    }
}

/// A record of one key, which is alive.
fn record(key: u8, content: u64, length: usize) -> Vec<u8> {
    let mut record = [&[0, 1, key, 1][..], &content.to_le_bytes()].concat();
    record.resize(record.len().max(length), content as u8);
    record
}

#[derive(Clone, Debug)]
enum StoreStep {
    /// Some records of one sender: keys with statements, time, and length.
    Write(usize, Keys, u8, usize),
    Turn,
    Look,
    Open,
    Close,
    End(usize),
}

/// Keys of a record, with statements.
type Keys = Vec<(u8, u8)>;

fn write(keys: impl Strategy<Value = Keys>) -> impl Strategy<Value = StoreStep> {
    let parts = (0_usize..3, keys, 0_u8..60, 0_usize..300);
    parts.prop_map(|(sender, keys, time, length)| StoreStep::Write(sender, keys, time, length))
}

fn steps(spread: u8) -> impl Strategy<Value = Vec<StoreStep>> {
    let plain = (0..spread, 1_u8..9).prop_map(|part| [part].to_vec());
    let any = (0..spread, 0_u8..9, any::<bool>());
    let any = any.prop_map(|(key, state, beside)| (key | u8::from(beside) << 7, state));
    let step = prop_oneof![
        40 => write(plain),
        4 => write(prop::collection::vec(any, 1..4)),
        6 => Just(StoreStep::Turn),
        2 => Just(StoreStep::Look),
        1 => Just(StoreStep::Open),
        1 => Just(StoreStep::Close),
        1 => (0_usize..3).prop_map(StoreStep::End),
    ];
    prop::collection::vec(step, 1..400)
}

fn retention() -> impl Strategy<Value = StoreRetention> {
    let some = |limit: u64| prop::option::of(1..=limit);
    prop_oneof![
        (1_u32..4).prop_map(|depth| StoreRetention { depth: Some(depth), ..ALL }),
        (1_u32..3, 0_u64..40).prop_map(|(depth, cleanup)| StoreRetention {
            depth: Some(depth),
            cleanup: Some(cleanup),
            ..ALL
        }),
        (1_u64..50).prop_map(|most| StoreRetention { most: Some(most), ..ALL }),
        (1_u64..9).prop_map(|keys| StoreRetention { keys: Some(keys), ..LAST }),
        (1_u64..50).prop_map(|lifespan| StoreRetention { lifespan: Some(lifespan), ..LAST }),
        (1_u64..9, 0_u64..40).prop_map(|(most, cleanup)| StoreRetention {
            most: Some(most),
            cleanup: Some(cleanup),
            ..LAST
        }),
        (some(4), some(9), some(5), some(30), some(30)).prop_map(
            |(depth, most, keys, lifespan, cleanup)| StoreRetention {
                depth: depth.map(|depth| depth as u32),
                most,
                keys,
                lifespan,
                cleanup,
            }
        ),
    ]
}

proptest! {
    /// I-349: at every look, a store with deferred records is the one that immediate copies give.
    #[test]
    fn deferring_store_equals_store_that_copies_at_once(
        retention in retention(),
        steps in (1_u8..12).prop_flat_map(steps),
        large in any::<bool>(),
    ) {
        let bytes = if large { 1 << 20 } else { 4096 };
        let senders = (0..3).map(|it| TestSender::new(it, bytes, 512)).collect();
        let (mut pair, mut content) = (Pair::new(retention, senders), 0_u64);
        for step in steps {
            match step {
                StoreStep::Write(sender, keys, time, length) => {
                    let mut record = [time, keys.len() as u8].to_vec();
                    record.extend(keys.into_iter().flat_map(|(key, state)| [key, state]));
                    record.extend(content.to_le_bytes());
                    record.resize(record.len() + length, content as u8);
                    content += 1;
                    if !pair.deliver(sender, &record) {
                        // The writer waits until the end of the next turn at most (I-103).
                        pair.subgroup_store.turn();
                        pair.subgroup_store.turn();
                        prop_assert!(pair.deliver(sender, &record), "the writer still waits");
                    }
                }
                StoreStep::Turn => drop(pair.subgroup_store.turn()),
                StoreStep::Look => pair.compare(),
                StoreStep::Open => pair.open(),
                StoreStep::Close => pair.close(),
                StoreStep::End(sender) => pair.end(sender),
            }
        }
        pair.compare();
        while !pair.cursors.is_empty() {
            pair.close();
        }
        pair.compare();
    }
}

/// Number of copies that the store makes of these records, which a turn finds together.
fn copies(retention: StoreRetention, keys: impl Iterator<Item = u8>, turns: usize) -> u64 {
    let mut pair = Pair::new(retention, [TestSender::new(0, 1 << 24, 64)].into());
    let mut delivered = 0;
    let keys: Vec<u8> = keys.collect();
    let before = ASKED.get();
    for _ in 0..turns {
        for key in &keys {
            assert!(pair.senders[0].deliver(&pair.inbox, &record(*key, delivered, 40)));
            delivered += 1;
        }
        pair.subgroup_store.turn();
    }
    pair.subgroup_store.store();
    // Each record is asked for its key when it is delivered, and by its copy.
    ASKED.get() - before - delivered
}

#[test]
fn replaced_records_are_not_copied() {
    assert_eq!(copies(LAST, (0..100).map(|_| 1), 50), 1);
    assert_eq!(copies(LAST, (0..100).map(|number| number % 8), 50), 8);
    assert_eq!(copies(StoreRetention { depth: Some(3), ..ALL }, (0..100).map(|_| 1), 50), 3);
    let forgets = StoreRetention { cleanup: Some(0), ..LAST };
    assert_eq!(copies(forgets, (0..100).map(|number| number % 8), 50), 8);
}

/// Records that are replaced only later are copied once, and most of them are not deferred.
#[test]
fn records_that_stay_are_deferred_rarely() {
    let mut pair = Pair::new(LAST, [TestSender::new(0, 1 << 20, 64)].into());
    let mut deferred = 0;
    for number in 0..20_000_u64 {
        assert!(pair.deliver(0, &record((number % 200) as u8, number, 40)));
        if number % 50 == 49 {
            pair.subgroup_store.take();
            deferred += usize::from(!pair.subgroup_store.deferred.records.is_empty());
            pair.subgroup_store.turn();
        }
    }
    assert!(deferred < 40, "in {deferred} of 400 turns");
    pair.compare();
}

#[test]
fn record_stays_deferred_until_end_of_next_turn_while_records_are_replaced() {
    let mut pair = Pair::new(LAST, [TestSender::new(0, 4096, 256)].into());
    let turn = |pair: &mut Pair, keys: &[u8]| {
        for key in keys {
            assert!(pair.deliver(0, &record(*key, 1, 40)));
        }
        let (done, _) = pair.subgroup_store.turn();
        (done, pair.subgroup_store.store.len(), pair.senders[0].chunks_in_use())
    };
    assert_eq!(turn(&mut pair, &[1]), (2, 1, 0), "nothing was replaced");
    assert_eq!(turn(&mut pair, &[2, 2]), (2, 1, 1));
    assert_eq!(turn(&mut pair, &[2]), (1, 1, 1));
    assert_eq!(turn(&mut pair, &[3, 3]), (3, 2, 1), "two taken and one copied");
    assert_eq!(turn(&mut pair, &[]), (1, 3, 0));
    assert_eq!(turn(&mut pair, &[]), (0, 3, 0));
}

/// Records of many chunks are in use when the turn ends, and one chunk of each sender stays so.
#[test]
fn one_chunk_of_each_sender_stays_in_use_after_a_turn() {
    let senders = (0..3).map(|number| TestSender::new(number, 4096, 256)).collect();
    let mut pair = Pair::new(LAST, senders);
    for key in 0..30 {
        assert!(pair.deliver(usize::from(key % 3), &record(key.max(1), 1, 200)));
    }
    pair.subgroup_store.take();
    assert!(pair.senders.iter().all(|sender| sender.chunks_in_use() > 5));
    pair.subgroup_store.turn();
    assert!(pair.senders.iter().all(|sender| sender.chunks_in_use() == 1));
    pair.compare();
}

/// I-330: what a faulty sender writes into a deferred record decides about its copy alone, and
/// the store's index follows the copy.
#[test]
fn deferred_record_changed_by_its_sender_is_filed_by_its_copy() {
    let senders = (0..2).map(|number| TestSender::new(number, 4096, 256)).collect();
    let mut pair = Pair::new(LAST, senders);
    for key in [1, 2] {
        assert!(pair.senders[0].deliver(&pair.inbox, &record(key, 5, 40)));
    }
    assert!(pair.senders[1].deliver(&pair.inbox, &record(1, 6, 40)));
    pair.subgroup_store.take();
    pair.senders[1].rewrite(0, &record(2, 7, 40));
    let keys = |store: &Store| store.cursor().map(|it| it[2]).collect::<Vec<u8>>();
    assert_eq!(keys(pair.subgroup_store.store()), [2], "the copy has replaced the honest record");
    for key in [2, 1] {
        assert!(pair.senders[0].deliver(&pair.inbox, &record(key, 8, 40)));
    }
    pair.subgroup_store.take();
    assert_eq!(keys(pair.subgroup_store.store()), [2, 1]);
}

/// A copy may state that its key is not alive, although the deferred record did not. Records that
/// are still deferred then go into the store before later ones.
#[test]
fn records_stay_in_order_if_a_deferred_record_ends_its_key_by_its_copy() {
    let senders = (0..2).map(|number| TestSender::new(number, 4096, 256)).collect();
    let mut pair = Pair::new(StoreRetention { cleanup: Some(9), ..LAST }, senders);
    for content in [4, 5] {
        assert!(pair.senders[1].deliver(&pair.inbox, &record(1, content, 40)));
    }
    pair.subgroup_store.turn();
    let mut over = record(1, 5, 40);
    over[3] = 0;
    pair.senders[1].rewrite(3, &over);
    for content in [5, 6] {
        assert!(pair.senders[0].deliver(&pair.inbox, &record(2, content, 40)));
    }
    pair.subgroup_store.turn();
    assert_eq!(pair.subgroup_store.deferral_depth(), None, "a key is not alive");
    assert_eq!(pair.subgroup_store.deferred.records.len(), 1);
    assert!(pair.senders[0].deliver(&pair.inbox, &record(2, 7, 40)));
    pair.subgroup_store.take();
    let kept: Vec<(u64, u8)> =
        pair.subgroup_store.store().cursor().map(|it| (it.position(), it[4])).collect();
    assert_eq!(kept, [(1, 5), (4, 7)]);
}
