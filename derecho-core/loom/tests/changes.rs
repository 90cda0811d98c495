//! A stream that falls quiet, threads that commit in it, and a reader that rests because of it.
//!
//! The barrier stands for one that makes every thread pass a full fence, as in the models of the
//! bias: both halves are fences here.
#![cfg(loom)]

use derecho_core::ids::{Peer, RegionId, Time};
use derecho_core::link::Sharing;
use derecho_core::machine::{Effects, Target};
use derecho_core::memory::{LINE_WORDS, OwnRegion};
use derecho_core::multicast::ablation::Ablation;
use derecho_core::multicast::changes::{CHANGES_WORDS, ChangesView, is_quiet};
use derecho_core::multicast::claim::SenderMemory;
use derecho_core::multicast::incoming::IncomingStream;
use derecho_core::multicast::send::Sender;
use derecho_core::multicast::subgroup::epoch::EpochOpening;
use derecho_core::multicast::subgroup::{
    DeliveryGuarantee, OpeningMember, OwnLines, SentStream, Subgroup, SubgroupConfig,
};
use derecho_loom::{explore, memory, smallest};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering, fence};
use loom::thread;

/// Number of the mark; arbitrary.
const MARK: usize = 3;

struct Stream {
    memory: SenderMemory,
    view: ChangesView,
}

impl Stream {
    fn new() -> Stream {
        let region = OwnRegion::heap(CHANGES_WORDS);
        let memory = memory(smallest(4, 4)).with_mark(&region, MARK);
        let view = ChangesView::new(region.replica(), Sharing::Shared).unwrap();
        Stream { memory, view }
    }

    fn commit(&self) -> thread::JoinHandle<()> {
        let memory = self.memory.clone();
        thread::spawn(move || {
            memory.claim(1).unwrap().commit(1, |_, _| {});
        })
    }

    fn reader(&self) -> Reader {
        let waker = std::sync::Arc::new(|| {});
        let incoming = IncomingStream::new(self.memory.replica(), self.memory.geometry(), waker);
        Reader { view: self.view.clone(), incoming, rests: None }
    }
}

/// Reader that looks at the stream until it may rest.
struct Reader {
    view: ChangesView,
    incoming: IncomingStream,
    /// Count that must change before the reader looks again.
    rests: Option<u64>,
}

impl Reader {
    /// Performs the steps of a node: the count, the mark, the entries.
    fn look(&mut self) {
        let count = self.view.count(MARK / 64);
        if is_quiet(self.view.mark(MARK)) && !self.incoming.has_next() {
            self.rests = Some(count);
        }
    }

    /// Checks afterwards that every commit is seen, or the count has changed.
    fn judge(&self) {
        if let Some(count) = self.rests {
            let told = self.view.count(MARK / 64) != count;
            assert!(told || !self.incoming.has_next(), "a commit stays unseen");
        }
    }
}

/// Runs the turn of the stream's node, which finds no commit.
fn turn(sender: &mut Sender, barrier: fn(), second_look: bool) {
    sender.send(u64::MAX, usize::MAX);
    if sender.fall_quiet() {
        barrier();
        if second_look {
            sender.look_again();
        }
    }
}

fn full() {
    fence(Ordering::SeqCst);
}

/// Runs a commit while the stream falls quiet and a reader looks.
fn commit_against_quiet(barrier: fn(), second_look: bool) {
    explore(3, move || {
        let stream = Stream::new();
        let mut reader = stream.reader();
        let committing = stream.commit();
        let reading = thread::spawn(move || {
            reader.look();
            reader
        });
        let mut sender = Sender::new(stream.memory.clone(), RegionId(16));
        turn(&mut sender, barrier, second_look);
        committing.join().unwrap();
        reading.join().unwrap().judge();
    });
}

#[test]
fn resting_reader_notices_every_commit() {
    commit_against_quiet(full, true);
}

/// Two threads end the same quiet period, while a reader begins to rest because of it: neither
/// relies on the other's count.
#[test]
fn neither_of_two_concurrent_commits_stays_unseen() {
    explore(3, || {
        let stream = Stream::new();
        let mut sender = Sender::new(stream.memory.clone(), RegionId(16));
        turn(&mut sender, full, true);
        let mut reader = stream.reader();
        let committing = [stream.commit(), stream.commit()];
        reader.look();
        committing.into_iter().for_each(|thread| thread.join().unwrap());
        reader.judge();
    });
}

/// A thread that ends a quiet period too late finds the next one.
#[test]
fn late_commit_ends_next_quiet_period_too() {
    explore(2, || {
        let stream = Stream::new();
        let mut sender = Sender::new(stream.memory.clone(), RegionId(16));
        turn(&mut sender, full, true);
        let committing = [stream.commit(), stream.commit()];
        turn(&mut sender, full, true);
        let mut reader = stream.reader();
        reader.look();
        committing.into_iter().for_each(|thread| thread.join().unwrap());
        reader.judge();
    });
}

/// Proof that the model can fail: without the barrier the second look may pass the mark.
#[test]
#[should_panic(expected = "a commit stays unseen")]
fn without_a_barrier_a_commit_stays_unseen() {
    commit_against_quiet(|| {}, true);
}

/// A turn that does not look again may fail in the same way.
#[test]
#[should_panic(expected = "a commit stays unseen")]
fn without_the_second_look_a_commit_stays_unseen() {
    commit_against_quiet(full, false);
}

/// Creates a member that reads one sender, whose record it has.
fn member(stream: &Stream) -> (Subgroup, std::sync::Arc<AtomicU64>) {
    let founder = |sends: bool| OpeningMember {
        target: sends.then_some(Target { peer: Peer(0), sharing: Sharing::Shared }),
        bell: None,
        reads: !sends,
        slot: usize::from(sends),
        sends: sends.then(|| SentStream {
            stream: RegionId(18),
            replica: stream.memory.replica(),
            geometry: stream.memory.geometry(),
            start: None,
        }),
        ready: true,
        lines: OwnRegion::heap(2 * LINE_WORDS).replica(),
    };
    let region = OwnRegion::heap(2 * LINE_WORDS);
    let lines = OwnLines { region, id: RegionId(17) };
    let terms = SubgroupConfig { level: DeliveryGuarantee::Atomic, ablation: Ablation::default() };
    let waker: derecho_core::link::Waker = std::sync::Arc::new(|| {});
    let members = vec![founder(false), founder(true)];
    let opening = EpochOpening { epoch: 0, name: 1, members, memory: None, skipped: Vec::new() };
    let mut subgroup = Subgroup::new(terms, opening, lines, &waker).unwrap();
    let noticed = std::sync::Arc::new(AtomicU64::new(0));
    subgroup.notice_in(&noticed, 7);
    (subgroup, noticed)
}

/// An application releases a record while its node goes to rest with the record held (I-28).
#[test]
fn record_release_keeps_node_active_or_is_noticed() {
    explore(3, || {
        let stream = Stream::new();
        let (mut subgroup, noticed) = member(&stream);
        let inbox = subgroup.add_reader().unwrap();
        stream.memory.claim(1).unwrap().commit(1, |_, _| {});
        let mut effects = Effects::new();
        while subgroup.turn(Time::default(), &mut effects, &mut |_, fault| panic!("{fault}")) > 0 {}
        let record = Arc::new(inbox.take().unwrap());
        let application = thread::spawn(move || drop(record));
        let rests = subgroup.rest();
        application.join().unwrap();
        let noticed = noticed.load(Ordering::Relaxed) == 1 << 7;
        assert!(!rests || noticed, "it holds for ever what nobody needs");
    });
}
