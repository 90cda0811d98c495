//! Calls that wait, as futures: on a runtime that is nothing but a thread that parks.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::future::Future;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Instant;

use futures_util::StreamExt;
use support::{
    Actor, Mark, Meeting, PATIENCE, SOON, join, listen, reader_of, role, say, writer_of,
};

/// What a child process does; nothing when the test program is run as such.
#[test]
fn act() {
    let Some((role, folder)) = role() else { return };
    match role.as_str() {
        "writer" => act_writer(&folder),
        other => panic!("no such role: {other}"),
    }
}

/// Writes a sample whenever it is told to.
fn act_writer(folder: &Path) {
    let participant = join(folder);
    let writer = writer_of(&participant, "Marks");
    writer.wait_for_readers(1, SOON).unwrap();
    say("ready");
    let mut number = 0;
    while listen().is_some() {
        writer.write(&Mark::new(number)).unwrap();
        number += 1;
    }
}

struct Parked(Thread);

impl Wake for Parked {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future on this thread, which sleeps until it is woken.
fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Parked(std::thread::current())));
    let (mut context, mut future) = (Context::from_waker(&waker), pin!(future));
    let end = Instant::now() + PATIENCE;
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        assert!(Instant::now() < end, "nobody has woken this task");
        std::thread::park_timeout(PATIENCE);
    }
}

#[test]
fn a_task_is_woken_by_what_another_process_writes() {
    let meeting = Meeting::new();
    let participant = meeting.join();
    let reader = reader_of(&participant, "Marks");
    let mut actor = Actor::start("writer", &meeting, 0);
    block_on(reader.wait_for_writers_async(1)).unwrap();
    assert_eq!(actor.hear(), "ready");
    // Nothing is there at first, so each of these sleeps.
    for number in 0..3 {
        let taken = {
            let mut future = pin!(reader.take_next_async());
            let mut context = Context::from_waker(Waker::noop());
            assert!(future.as_mut().poll(&mut context).is_pending());
            actor.tell("write");
            block_on(future).unwrap()
        };
        assert_eq!(taken.number, number);
    }
    actor.tell("write");
    let samples: Vec<u64> =
        block_on(reader.take_async(..)).unwrap().map(|sample| sample.number).collect();
    assert_eq!(samples, [3]);
    let mut stream = reader.stream();
    for number in 4..8 {
        actor.tell("write");
        assert_eq!(block_on(stream.next()).unwrap().unwrap().number, number);
    }
    block_on(reader.wait_for_historical_data_async()).unwrap();
    drop(reader);
    actor.kill();
}

#[test]
fn futures_of_entities_may_go_to_other_threads() {
    fn may_go(_: &impl Send) {}
    let meeting = Meeting::new();
    let participant = meeting.join();
    let reader = reader_of(&participant, "Marks");
    may_go(&reader.take_async(..));
    may_go(&reader.take_next_async());
    may_go(&reader.wait_for_writers_async(1));
    may_go(&reader.stream());
}
