//! Tests of the queue of deliveries.

use super::*;
use crate::memory::OwnRegion;
use crate::multicast::geometry::GRAIN;

/// Sender whose records are delivered to one queue, for tests of readers.
pub(crate) struct TestSender {
    region: OwnRegion,
    replica: Arc<SenderReplica>,
    /// Grain of the next record.
    next: usize,
    written: u64,
}

impl TestSender {
    /// Creates a sender with this number, whose memory has this many bytes for records.
    pub(crate) fn new(number: u16, bytes: usize, largest: usize) -> TestSender {
        let geometry = Geometry::fitting(bytes, 64, largest).expect("a shape");
        let region = OwnRegion::heap(geometry.words());
        let replica = SenderReplica::new(region.replica(), geometry, number, Arc::new(|| {}));
        TestSender { region, replica, next: 0, written: 0 }
    }

    /// Creates a queue for the records of these senders, which have the numbers 0 and so on.
    pub(crate) fn queue(senders: &[TestSender]) -> Arc<Inbox> {
        Inbox::new(senders.iter().map(|sender| Arc::clone(&sender.replica)).collect())
    }

    /// Number of the next record.
    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    /// Writes a record and delivers it. `false` if the writer must wait: the next chunk of its
    /// memory is in use.
    pub(crate) fn deliver(&mut self, inbox: &Inbox, record: &[u8]) -> bool {
        let (geometry, grains) = (self.replica.geometry, record.len().div_ceil(GRAIN));
        let chunk = geometry.chunk_grains();
        let mut first = self.next;
        if first % chunk + grains > chunk {
            first = first.next_multiple_of(chunk);
        }
        first %= geometry.grains();
        if first.is_multiple_of(chunk) && !self.replica.is_released(first / chunk) {
            return false;
        }
        let (position, length) = (first as u32, record.len() as u32);
        let extent = RecordExtent { position, length };
        self.rewrite(position, record);
        SenderReplica::hold(&self.replica, first / chunk, 1);
        let delivery = Delivery::new(self.replica.number.into(), extent, self.written);
        assert!(inbox.put(&[delivery]));
        inbox.publish();
        (self.next, self.written) = (first + grains, self.written + 1);
        true
    }

    /// Writes bytes at a grain, as a faulty sender may do at any time.
    pub(crate) fn rewrite(&self, position: u32, bytes: &[u8]) {
        let first = RecordExtent { position, length: 1 }.first_byte(self.replica.geometry) / 8;
        for (index, word) in bytes.chunks(8).enumerate() {
            let mut whole = [0; 8];
            whole[..word.len()].copy_from_slice(word);
            self.region.word(first + index).put(u64::from_le_bytes(whole));
        }
    }

    /// Number of chunks to which readers refer.
    pub(crate) fn chunks_in_use(&self) -> usize {
        (0..self.replica.geometry.chunks()).filter(|it| !self.replica.is_released(*it)).count()
    }
}

fn sender_replica(number: u16) -> Arc<SenderReplica> {
    let geometry = Geometry::fitting(256, 2, 64).expect("a small shape");
    let replica = OwnRegion::heap(geometry.words()).replica();
    SenderReplica::new(replica, geometry, number, Arc::new(|| {}))
}

fn put(inbox: &Inbox, replicas: &[Arc<SenderReplica>], rank: usize, number: u64) {
    let extent = RecordExtent { position: 0, length: 1 };
    SenderReplica::hold(&replicas[rank], 0, 1);
    assert!(inbox.put(&[Delivery::new(rank, extent, number)]));
    inbox.publish();
}

#[test]
fn chunks_in_use_become_private_and_adjacent_chunks_are_merged() {
    let sender_replica = sender_replica(0);
    let geometry = sender_replica.geometry();
    assert_eq!(geometry.chunks(), 4);
    let private = |also: u64| {
        let mut effects = Effects::new();
        sender_replica.privatize(also, &mut effects);
        effects.take_privatized().map(|(_, bytes)| bytes).collect::<Vec<_>>()
    };
    assert_eq!(private(0), []);
    [0, 1, 3].into_iter().for_each(|chunk| SenderReplica::hold(&sender_replica, chunk, 1));
    let chunk = |index| geometry.chunk_bytes(index);
    assert_eq!(private(0), [chunk(0).start..chunk(1).end, chunk(3)]);
    let all = private(1 << 2);
    assert_eq!((all.len(), all.first()), (1, Some(&(chunk(0).start..chunk(3).end))));
    let this = NonNull::from(&*sender_replica);
    // SAFETY: the reference to chunk 1 was counted above and is released once.
    unsafe { SenderReplica::release(this, 1) };
    assert_eq!(private(0), [chunk(0), chunk(3)]);
    // SAFETY: as above, for the references to chunks 0 and 3.
    [0, 3].into_iter().for_each(|chunk| unsafe { SenderReplica::release(this, chunk) });
    assert_eq!(private(0), []);
}

#[test]
fn batch_releases_each_record_once_and_holds_at_most_one_chunk() {
    let mut senders = [TestSender::new(0, 4096, 256), TestSender::new(1, 4096, 256)];
    let inbox = TestSender::queue(&senders);
    let mut batch = ReleaseBatch::default();
    for (sender, records, in_use) in
        [(0, 3, [1, 0]), (0, 1, [1, 0]), (1, 2, [0, 1]), (0, 2, [1, 0])]
    {
        for _ in 0..records {
            assert!(senders[sender].deliver(&inbox, &[1; 64]));
        }
        std::iter::from_fn(|| inbox.take()).for_each(|record| batch.add(record));
        assert_eq!([0, 1].map(|sender: usize| senders[sender].chunks_in_use()), in_use);
    }
    drop(batch);
    assert_eq!([0, 1].map(|sender: usize| senders[sender].chunks_in_use()), [0, 0]);
    assert!(senders.iter().all(|sender| Arc::strong_count(&sender.replica) == 2));
}

/// Records of former senders come first, with the numbers that their senders had.
#[test]
fn queue_continues_from_one_set_of_senders_to_the_next() {
    let [a, b, c] = [0, 1, 2].map(sender_replica);
    let first = [Arc::clone(&a), Arc::clone(&b)];
    let inbox = Inbox::beginning(first.clone().into(), 100);
    put(&inbox, &first, 0, 10);
    put(&inbox, &first, 1, 20);
    assert_eq!((inbox.began(), inbox.place(), inbox.next_put()), (100, 100, 102));
    inbox.go_on(first.iter().cloned());
    put(&inbox, &first, 0, 11);
    let second = [Arc::clone(&c), Arc::clone(&a)];
    inbox.go_on(second.iter().cloned());
    // An epoch without deliveries.
    inbox.go_on([b.clone()].into_iter());
    inbox.go_on(second.iter().cloned());
    put(&inbox, &second, 0, 30);
    put(&inbox, &second, 1, 12);
    assert_eq!((inbox.len(), inbox.next_put()), (5, 105));
    // For each record, also the senders of its section.
    let took: Vec<_> = core::iter::from_fn(|| inbox.take())
        .map(|record| {
            let senders = inbox.senders().fold(0, |all, sender| all | 1 << sender);
            (record.sender(), record.number(), inbox.passed(), senders)
        })
        .collect();
    let [first, second] = [(0, 0b011), (3, 0b101)];
    let expected = [(0, 10, first), (1, 20, first), (0, 11, first), (2, 30, second)];
    let expected = expected.into_iter().chain([(0, 12, second)]);
    assert!(took.into_iter().eq(
        expected.map(|(sender, number, (passed, senders))| { (sender, number, passed, senders) })
    ));
    assert!(inbox.is_empty() && inbox.take().is_none());
    assert_eq!(inbox.place(), 105);
}

/// A queue takes everything that the memory of its senders holds, and allocates memory only
/// for waiting records.
#[test]
fn queue_grows_with_number_of_waiting_records() {
    let geometry = Geometry::fitting(4 << 20, 1 << 20, GRAIN).expect("a shape");
    let replica = OwnRegion::heap(geometry.words()).replica();
    let sender_replica = SenderReplica::new(replica, geometry, 3, Arc::new(|| {}));
    let replicas = [Arc::clone(&sender_replica)];
    let inbox = Inbox::beginning(replicas.clone().into(), 7);
    let places = |inbox: &Inbox| inbox.back().places.len() / PLACE_WORDS;
    let grains = geometry.grains();
    assert!(grains > 2 * PLACES);
    let deliver = |inbox: &Inbox, number: u64| {
        let extent = RecordExtent { position: number as u32 % grains as u32, length: 1 };
        SenderReplica::hold(&sender_replica, geometry.chunk_of(extent.position as usize), 1);
        inbox.put(&[Delivery::new(0, extent, number)])
    };
    // While few records wait, the queue does not grow, whatever their total number.
    for number in 0..PLACES as u64 + 9 {
        assert!(deliver(&inbox, number));
        inbox.publish();
        assert_eq!(inbox.take().map(|record| record.number()), Some(number));
    }
    assert_eq!(places(&inbox), PLACES);
    let first = inbox.next_put();
    let mut put = 0;
    while inbox.room_left() > 0 {
        assert!(deliver(&inbox, put));
        put += 1;
    }
    assert!(inbox.is_empty() && inbox.take().is_none(), "nothing was shown yet");
    assert!(put >= grains as u64 && places(&inbox) == grains.next_power_of_two(), "{put}");
    let extent = RecordExtent { position: 0, length: 1 };
    assert!(!inbox.put(&[Delivery::new(0, extent, put)]), "the sender has overrun its memory");
    inbox.publish();
    assert_eq!((inbox.len() as u64, inbox.place(), inbox.next_put()), (put, first, first + put));
    // The set of senders is unchanged.
    let half = put / 2;
    let taken = (0..half).all(|number| inbox.take().map(|it| it.number()) == Some(number));
    assert!(taken && inbox.len() as u64 == put - half);
    let taken = (half..put).all(|number| {
        let record = inbox.take().map(|record| record.number());
        record == Some(number) && inbox.passed() == 0
    });
    assert!(taken && inbox.is_empty() && inbox.place() == first + put);
    assert!((0..geometry.chunks()).all(|chunk| sender_replica.is_released(chunk)));
}

#[test]
#[should_panic = "one thread at a time takes"]
fn second_taker_is_refused() {
    let a = sender_replica(0);
    let inbox = Inbox::new([Arc::clone(&a)].into());
    put(&inbox, &[a], 0, 0);
    let _first = inbox.guard();
    inbox.take();
}

#[test]
fn taker_that_is_done_makes_room_for_the_next() {
    let a = sender_replica(0);
    let inbox = Inbox::new([Arc::clone(&a)].into());
    put(&inbox, &[a], 0, 7);
    assert_eq!(inbox.len(), 1);
    let inbox = &inbox;
    let taken = std::thread::scope(|scope| scope.spawn(move || inbox.take()).join());
    assert_eq!(taken.ok().flatten().map(|record| record.number()), Some(7));
    assert!(inbox.is_empty());
}

/// Dropping the queue releases records that were not taken, and all senders.
#[test]
fn dropped_queue_releases_all_records_and_senders() {
    let [a, b] = [0, 1].map(sender_replica);
    let inbox = Inbox::new([Arc::clone(&a)].into());
    put(&inbox, &[Arc::clone(&a)], 0, 0);
    inbox.go_on([Arc::clone(&b)].into_iter());
    put(&inbox, &[Arc::clone(&b)], 0, 0);
    drop(inbox);
    for sender_replica in [a, b] {
        assert!(sender_replica.is_released(0));
        assert_eq!(Arc::strong_count(&sender_replica), 1);
    }
}
