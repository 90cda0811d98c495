//! Changes held back by a publisher, and its requests to its writers.

use std::sync::mpsc;
use std::time::Duration;

use qos_profiles::PresentationQosPolicyAccessScopeKind;

use super::*;

/// Requests to writers.
#[derive(PartialEq, Eq, Debug)]
enum WriterCall {
    /// To write this number of samples.
    Write(u64, usize, SetWriterCount),
    /// Whether there is room for this number of samples.
    Room(u64, usize),
    Wake(u64),
    TakeBack(u64, u128),
}

/// A publisher's writers, which record the requests to them.
#[derive(Clone, Default)]
struct TestWriters {
    changes: Arc<HeldChanges>,
    calls: Arc<Mutex<Vec<WriterCall>>>,
}

struct TestWriter {
    id: u64,
    all: TestWriters,
    has_room: AtomicBool,
    /// The application's handle, dropped when the writer receives a request.
    last: Mutex<Option<Arc<TestWriter>>>,
}

impl TestWriters {
    fn with(scope: PresentationQosPolicyAccessScopeKind, coherent_access: bool) -> TestWriters {
        let (access_scope, ordered_access) = (scope, false);
        let writers = TestWriters::default();
        writers.changes.agree(&PresentationQosPolicy {
            access_scope,
            coherent_access,
            ordered_access,
        });
        writers
    }

    fn coherent() -> TestWriters {
        TestWriters::with(PresentationQosPolicyAccessScopeKind::Topic, true)
    }

    fn writer(&self, id: u64) -> Arc<TestWriter> {
        let (all, has_room, last) = (self.clone(), AtomicBool::new(true), Mutex::default());
        Arc::new(TestWriter { id, all, has_room, last })
    }

    fn asked(&self) -> Vec<WriterCall> {
        std::mem::take(&mut *self.calls.lock().unwrap())
    }
}

impl TestWriter {
    fn record_call(&self, call: WriterCall) -> bool {
        self.all.calls.lock().unwrap().push(call);
        let last = self.last.lock().unwrap().take();
        drop(last);
        self.has_room.load(Ordering::Relaxed)
    }

    fn held_back(self: &Arc<TestWriter>) -> Weak<dyn HeldBackWriter> {
        let it: Weak<TestWriter> = Arc::downgrade(self);
        it
    }

    /// Adds a sample with this effect. Returns whether a set is open.
    fn write(self: &Arc<TestWriter>, effect: Option<u128>) -> bool {
        let added = self.all.changes.gather(
            self.id,
            || self.held_back(),
            |gathered, effects| {
                effects.extend(effect.map(SampleSideEffect::Entered));
                gathered.add(0, 4, |_| Ok::<_, ()>(()))
            },
        );
        added.is_some()
    }

    /// Drops all handles but one, which is dropped when the writer receives a request.
    fn drop_on_next_call(self: Arc<TestWriter>) {
        let last = Arc::clone(&self);
        *self.last.lock().unwrap() = Some(last);
    }
}

impl HeldBackWriter for TestWriter {
    fn publish(
        self: Arc<Self>,
        gathered: &GatheredSamples,
        writer_count: SetWriterCount,
        blocking: Option<Timeout>,
    ) -> DdsResult<()> {
        match self.record_call(WriterCall::Write(self.id, gathered.samples(), writer_count)) {
            true => Ok(()),
            false => Err(DdsError::Timeout(format!("{blocking:?}"))),
        }
    }

    fn has_room_for_set(&self, gathered: &GatheredSamples) -> bool {
        self.record_call(WriterCall::Room(self.id, gathered.samples()))
    }

    fn wake(&self) {
        self.record_call(WriterCall::Wake(self.id));
    }

    fn revert(self: Arc<Self>, effect: SampleSideEffect) {
        if let SampleSideEffect::Entered(key) = effect {
            self.record_call(WriterCall::TakeBack(self.id, key));
        }
    }
}

impl Drop for TestWriter {
    /// Leaves the publisher, as a writer does when its last handle is dropped.
    fn drop(&mut self) {
        self.all.changes.leave(self.id as usize);
    }
}

fn is_not_met(result: DdsResult<()>) -> bool {
    matches!(result, Err(DdsError::PreconditionNotMet(_)))
}

#[test]
fn samples_of_each_writer_leave_together_when_outermost_set_ends() {
    let writers = TestWriters::coherent();
    let (changes, first, second) = (&writers.changes, writers.writer(1), writers.writer(2));
    assert!(changes.is_coherent() && !changes.is_in_set() && !first.write(None));
    assert!(is_not_met(changes.end(None)) && changes.discard().is_err());
    changes.begin();
    assert!(changes.is_in_set() && !changes.is_suspended() && first.write(None));
    changes.begin();
    assert!([&second, &first, &first].iter().all(|writer| writer.write(None)));
    changes.end(None).unwrap();
    assert!(changes.is_in_set() && second.write(None) && writers.asked().is_empty());
    changes.end(None).unwrap();
    let expected = [
        WriterCall::Write(1, 3, SetWriterCount::One),
        WriterCall::Write(2, 2, SetWriterCount::One),
    ];
    assert_eq!(writers.asked(), expected);
    assert!(!changes.is_in_set() && !first.write(None) && is_not_met(changes.end(None)));
    changes.begin();
    changes.end(None).unwrap();
    assert_eq!(writers.asked(), [], "set without samples writes nothing");
}

#[test]
fn group_set_is_written_as_one_and_reports_one_or_several_authors() {
    let writers = TestWriters::with(PresentationQosPolicyAccessScopeKind::Group, true);
    let (changes, first, second) = (&writers.changes, writers.writer(1), writers.writer(2));
    changes.begin();
    assert!([&first, &second, &first].iter().all(|writer| writer.write(None)));
    changes.end(None).unwrap();
    assert_eq!(writers.asked(), [WriterCall::Write(1, 3, SetWriterCount::Several)]);
    changes.begin();
    assert!(second.write(None) && second.write(None));
    changes.end(None).unwrap();
    assert_eq!(writers.asked(), [WriterCall::Write(2, 2, SetWriterCount::One)]);
    changes.begin();
    assert!(first.write(None) && second.write(None));
    drop(first);
    changes.end(None).unwrap();
    let expected = [WriterCall::Write(2, 2, SetWriterCount::Several)];
    assert_eq!(writers.asked(), expected, "remaining writer writes its samples of the set");
}

#[test]
fn publisher_without_coherent_access_opens_no_set() {
    let writers = TestWriters::with(PresentationQosPolicyAccessScopeKind::Topic, false);
    writers.changes.begin();
    assert!(!writers.changes.is_coherent() && !writers.changes.is_in_set());
    writers.changes.end(None).unwrap();
}

#[test]
fn samples_that_could_not_be_written_stay_in_the_set() {
    let writers = TestWriters::coherent();
    let (changes, first, second) = (&writers.changes, writers.writer(1), writers.writer(2));
    changes.begin();
    assert!(first.write(None) && second.write(None));
    second.has_room.store(false, Ordering::Relaxed);
    let Err(DdsError::Timeout(reason)) = changes.end(Some(Timeout::NOW)) else { panic!() };
    assert_eq!(reason, format!("{:?}", Some(Timeout::NOW)));
    assert!(changes.is_in_set() && second.write(None));
    second.has_room.store(true, Ordering::Relaxed);
    writers.asked();
    changes.end(None).unwrap();
    assert_eq!(writers.asked(), [WriterCall::Write(2, 2, SetWriterCount::One)]);
}

#[test]
fn writer_that_is_gone_or_added_no_sample_writes_nothing() {
    let writers = TestWriters::coherent();
    let (changes, gone, there) = (&writers.changes, writers.writer(1), writers.writer(2));
    changes.begin();
    assert!(gone.write(None));
    drop(gone);
    let refuse = |gathered: &mut GatheredSamples, _: &mut Vec<SampleSideEffect>| {
        gathered.add(0, 4, |_| Err("sample cannot be encoded"))
    };
    let added = changes.gather(2, || there.held_back(), refuse);
    assert!(added.is_some_and(|added| added.is_err()));
    changes.end(None).unwrap();
    assert_eq!(writers.asked(), []);
}

#[test]
fn discarded_set_undoes_effects_of_each_writer_from_last_to_first() {
    let writers = TestWriters::coherent();
    let (changes, first, second) = (&writers.changes, writers.writer(1), writers.writer(2));
    changes.suspend();
    changes.begin();
    changes.begin();
    assert!(
        [(&first, 10), (&second, 20), (&first, 11), (&second, 21)]
            .iter()
            .all(|it| it.0.write(Some(it.1)))
    );
    assert!(first.write(None));
    assert_eq!(changes.discard().unwrap(), 5);
    let expected = [(1, 11), (1, 10), (2, 21), (2, 20)];
    assert_eq!(writers.asked(), expected.map(|(writer, key)| WriterCall::TakeBack(writer, key)));
    assert!(!changes.is_in_set() && changes.is_suspended() && is_not_met(changes.end(None)));
    changes.begin();
    assert_eq!(changes.discard().unwrap(), 0);
}

#[test]
fn set_has_room_if_its_next_writer_has_room() {
    let writers = TestWriters::coherent();
    let (changes, first, second) = (&writers.changes, writers.writer(1), writers.writer(2));
    changes.begin();
    assert!(changes.has_room(), "empty set needs no room");
    assert!(first.write(None) && first.write(None) && second.write(None));
    second.has_room.store(false, Ordering::Relaxed);
    assert!(changes.has_room());
    first.has_room.store(false, Ordering::Relaxed);
    assert!(!changes.has_room());
    assert_eq!(writers.asked(), [WriterCall::Room(1, 2), WriterCall::Room(1, 2)]);
    drop(first);
    assert!(changes.has_room(), "departed writer needs no room");
    let state = changes.lock();
    assert!(!changes.has_room(), "set that another thread is ending has no known room");
    drop(state);
}

#[test]
fn writer_of_suspended_publisher_wakes_its_readers_once_on_resume() {
    let writers = TestWriters::coherent();
    let (changes, first, second) = (&writers.changes, writers.writer(1), writers.writer(2));
    let wakes_later =
        |writer: &Arc<TestWriter>| changes.wakes_later(writer.id, || writer.held_back());
    assert!(!changes.is_suspended() && !wakes_later(&first) && is_not_met(changes.resume()));
    changes.suspend();
    changes.suspend();
    changes.begin();
    assert!(changes.is_suspended() && changes.is_in_set());
    assert!([&first, &second, &first].into_iter().all(wakes_later));
    changes.end(None).unwrap();
    changes.resume().unwrap();
    assert!(changes.is_suspended() && wakes_later(&first) && writers.asked().is_empty());
    changes.begin();
    changes.resume().unwrap();
    assert_eq!(
        writers.asked(),
        [WriterCall::Wake(1), WriterCall::Wake(2)],
        "readers wake once, on the last resume"
    );
    assert!(changes.is_in_set() && !changes.is_suspended() && !wakes_later(&second));
    changes.suspend();
    changes.resume().unwrap();
    assert_eq!(writers.asked(), []);
    assert!(is_not_met(changes.resume()));
}

#[test]
fn writers_of_a_group_share_one_order_while_they_exist() {
    let group = TestWriters::with(PresentationQosPolicyAccessScopeKind::Group, true).changes;
    assert!(group.join(1, None, "a").is_err(), "topic without order cannot join a group");
    group.join(1, Some(7), "a").unwrap();
    group.join(2, Some(7), "b").unwrap();
    let other = || group.join(3, Some(8), "c");
    assert!(matches!(other(), Err(DdsError::InconsistentPolicy(_))));
    group.leave(1);
    let Err(why) = other() else { panic!("writer `b` still has another order") };
    assert!(why.to_string().contains("`b`"), "{why}");
    group.leave(2);
    other().unwrap();
    let alone = TestWriters::coherent().changes;
    assert!([Some(7), Some(8), None].iter().all(|key| alone.join(1, *key, "a").is_ok()));
}

/// Dropping the last handle on a writer makes it leave, which takes the lock.
#[test]
fn writer_dropped_while_its_set_ends_causes_no_deadlock() {
    let (done, is_done) = mpsc::channel();
    std::thread::spawn(move || {
        let calls: [fn(&HeldChanges) -> bool; 2] =
            [|it| it.end(None).is_ok(), HeldChanges::has_room];
        for call in calls {
            let writers = TestWriters::coherent();
            let writer = writers.writer(1);
            writers.changes.begin();
            assert!(writer.write(None));
            writer.drop_on_next_call();
            done.send(call(&writers.changes)).unwrap();
            assert_eq!(writers.asked().len(), 1);
        }
    });
    for what in ["set is written", "set has room"] {
        assert_eq!(is_done.recv_timeout(Duration::from_secs(10)), Ok(true), "{what}");
    }
}
