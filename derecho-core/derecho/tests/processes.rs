//! Real processes over shared memory: the sender of a state transfer is killed, a member joins at
//! full rate, a member is stopped, excluded, and rejoins.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod actors;

use std::collections::BTreeMap;
use std::io::BufRead;
use std::path::Path;
use std::sync::mpsc::{TryRecvError, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use actors::{ChildProcess, LIMIT, print_line, role};
use derecho::{
    BalancedShards, Group, GroupBuilder, GroupError, NodeId, ObjectEvent, OneShard, Replicated,
    Wire,
};

/// Checksum over all updates in their order, and the number of updates of each writer. Ballast
/// prolongs the transfer.
#[derive(Default)]
struct Chain {
    sum: u64,
    count: BTreeMap<u64, u64>,
    /// True if an update was missed or came twice. A stopped and excluded member may read reused
    /// memory until it learns of its exclusion; then it gets another object.
    torn: bool,
}

/// One update: the writer's membership when the number was chosen, the writer, and the number among
/// its updates.
type Update = (NodeId, (u64, u64));

/// Bytes transferred with the object.
const BALLAST: usize = 6 << 20;
/// Time between two updates of a writer.
const PAUSE: Duration = Duration::from_micros(300);

impl Replicated for Chain {
    type Update = Update;
    type Question = ();
    type Reply = u64;

    fn apply(&mut self, from: NodeId, (membership, (who, number)): Update) -> u64 {
        // A number from before an exclusion may be sent after the rejoin: such an update has
        // no effect.
        if membership != from {
            return self.sum;
        }
        let count = self.count.entry(who).or_default();
        if *count != number {
            self.torn = true;
            return self.sum;
        }
        *count += 1;
        self.sum = (self.sum ^ (who << 32 | number)).wrapping_mul(0x100_0000_01b3);
        self.sum
    }

    fn answer(&self, _: NodeId, (): ()) -> u64 {
        self.count.values().sum()
    }

    fn snapshot(&self) -> Vec<u8> {
        let mut bytes = (self.sum, self.count.clone()).to_bytes();
        bytes.resize(bytes.len() + BALLAST, 7);
        bytes
    }

    fn restored(bytes: &[u8]) -> Option<Chain> {
        let (sum, count) = Wire::from_bytes(&bytes[..bytes.len() - BALLAST])?;
        Some(Chain { sum, count, torn: false })
    }
}

fn builder(folder: &Path) -> GroupBuilder {
    GroupBuilder::new("test")
        .folder(folder)
        .replicated::<Chain>("chain", OneShard { least: 2 })
        .member_timeout(Duration::from_millis(500))
}

/// Entry point of a child process; does nothing in an ordinary run of the tests.
#[test]
fn act() {
    let Some((who, folder)) = role() else { return };
    let group = builder(&folder)
        .rejoin(true)
        .on_object(move |event| match event {
            ObjectEvent::Started { origin: start, .. } => print_line(&format!("started {start:?}")),
            ObjectEvent::Isolated(fate) => print_line(&format!("isolated {fate:?}")),
            ObjectEvent::Rejoined(_) => print_line("rejoined"),
            _ => {}
        })
        .join(LIMIT)
        .unwrap();
    print_line(&format!("joined {:?}", group.me()));
    let chain = group.shard::<Chain>("chain", 0).unwrap();
    if let Err(error) = chain.wait_ready(LIMIT / 3) {
        panic!("{error}: {}", group.describe());
    }
    print_line("ready");
    let (orders, received) = channel();
    std::thread::spawn(move || {
        let lines = std::io::stdin().lock().lines().map_while(std::io::Result::ok);
        lines.for_each(|line| drop(orders.send(line)));
    });
    // Own membership, and the number of its next update, which is the count of its updates in
    // the object.
    let next = || {
        let deadline = Instant::now() + LIMIT;
        loop {
            let me = group.me();
            let count = chain
                .wait_ready(LIMIT / 30)
                .and_then(|()| chain.read(|chain| chain.count.get(&who).copied().unwrap_or(0)));
            match count {
                Ok(count) if group.me() == me => return (me, count),
                Ok(_) => {}
                Err(error) => {
                    let goes_on = is_temporary(&error) && Instant::now() < deadline;
                    assert!(goes_on, "{error}: {}", group.describe());
                }
            }
            std::thread::sleep(PAUSE);
        }
    };
    let (mut me, mut number) = next();
    while matches!(received.try_recv(), Err(TryRecvError::Empty)) {
        if group.me() != me {
            // Updates that were sent before the exclusion and reached no member are lost.
            (me, number) = next();
        }
        match chain.send(&(me, (who, number)), Duration::from_millis(200)) {
            Ok(()) => number += 1,
            Err(error) => assert!(is_temporary(&error), "{error}"),
        }
        std::thread::sleep(PAUSE);
    }
    // The own reply to the last update proves that this member has applied all its updates. A slow
    // machine may cause the member's exclusion before the reply arrives; its numbers then continue
    // from the object.
    let deadline = Instant::now() + LIMIT;
    loop {
        if group.me() != me {
            (me, number) = next();
        }
        let replies = chain.query(&(me, (who, number)), LIMIT / 10).and_then(|replies| {
            number += 1;
            replies.wait(LIMIT / 10)
        });
        match replies {
            Ok(replies) if replies.get(&me).is_some_and(Result::is_ok) => break,
            Ok(replies) => assert!(Instant::now() < deadline, "{replies:?}"),
            Err(error) => {
                let goes_on = is_temporary(&error) && Instant::now() < deadline;
                assert!(goes_on, "{error}: {}", group.describe());
            }
        }
        std::thread::sleep(PAUSE);
    }
    print_line("stopped");
    // The object is reported at each request until all members have the same one.
    for _ in received {
        match chain.read(|chain| (chain.sum, chain.count.clone(), chain.torn)) {
            Ok((sum, count, torn)) => {
                assert!(!torn, "a member that goes on misses no update, and none comes twice");
                print_line(&format!("end {sum} of {count:?}"));
            }
            Err(error) if is_temporary(&error) => print_line("end later"),
            Err(error) => panic!("{error}"),
        }
    }
}

/// Whether a member that stays, or rejoins, may repeat the call.
fn is_temporary(error: &GroupError) -> bool {
    matches!(
        error,
        GroupError::TimedOut(_)
            | GroupError::Isolated(_)
            | GroupError::NoSeat { .. }
            | GroupError::Inadequate { .. }
    )
}

/// Stops all writers, and waits until all members hold the same object. Objects that count the same
/// updates have the same checksum at every moment.
fn end(child_processes: &mut [ChildProcess]) {
    child_processes.iter_mut().for_each(ChildProcess::stop);
    child_processes.iter().for_each(|child_process| drop(child_process.hear("stopped")));
    let deadline = Instant::now() + LIMIT;
    loop {
        child_processes.iter_mut().for_each(ChildProcess::stop);
        let ends: Vec<String> =
            child_processes.iter().map(|child_process| child_process.hear("end")).collect();
        let objects = ends.iter().filter_map(|end| end.split_once(" of "));
        let mut sums = BTreeMap::new();
        for (sum, count) in objects.clone() {
            assert_eq!(*sums.entry(count).or_insert(sum), sum, "{ends:#?}");
        }
        if sums.len() == 1 && objects.count() == child_processes.len() {
            return;
        }
        assert!(Instant::now() < deadline, "{ends:#?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn late_joiner_gets_state_under_load_after_transfer_sender_is_killed() {
    let mut interrupted = 0;
    for round in 0..6 {
        let folder = tempfile::tempdir().unwrap();
        let run = folder.path().join("run");
        let mut child_processes = vec![ChildProcess::start(0, &run)];
        let teller = child_processes[0].hear("joined").split_off("joined ".len());
        child_processes.push(ChildProcess::start(1, &run));
        child_processes.push(ChildProcess::start(2, &run));
        child_processes.iter().for_each(|child_process| drop(child_process.hear("ready")));
        std::thread::sleep(Duration::from_millis(50));
        child_processes.push(ChildProcess::start(3, &run));
        child_processes[3].hear("joined");
        // The joining member asks the member that has had the object longest: the first. That
        // member is killed at a varying point of the transfer.
        std::thread::sleep(Duration::from_millis(4 * round));
        drop(child_processes.remove(0));
        let started = child_processes[2].hear("started");
        assert!(started.contains("Transferred"), "{started}");
        interrupted += usize::from(!started.contains(&teller));
        end(&mut child_processes);
    }
    println!("{interrupted} of 6 were told by another one in the end");
    assert!(interrupted > 0, "no transfer was interrupted");
}

#[test]
fn stopped_member_is_excluded_and_rejoins_by_state_transfer() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let mut child_processes: Vec<ChildProcess> =
        (0..3).map(|who| ChildProcess::start(who, &run)).collect();
    child_processes.iter().for_each(|child_process| drop(child_process.hear("ready")));
    child_processes[1].signal(rustix::process::Signal::STOP);
    std::thread::sleep(Duration::from_millis(1500));
    child_processes[1].signal(rustix::process::Signal::CONT);
    child_processes[1].hear("isolated");
    child_processes[1].hear("rejoined");
    let started = child_processes[1].hear("started");
    assert!(started.contains("Transferred"), "{started}");
    end(&mut child_processes);
}

/// Update that no member applies.
const UPDATE: Update = (NodeId(0), (0, 0));

/// Joins a member in this process.
fn member(folder: &Path, attributes: &str) -> Group {
    GroupBuilder::new("test")
        .folder(folder)
        .attributes(attributes)
        .replicated::<Chain>("chain", BalancedShards { shards: 2, least: 1, most: 2 })
        .join(LIMIT)
        .unwrap()
}

#[test]
fn missing_members_subgroups_and_seats_are_reported_as_errors() {
    let folder = tempfile::tempdir().unwrap();
    let first = member(&folder.path().join("run"), "first");
    let chain = first.shard::<Chain>("chain", 0).unwrap();
    // For a moment after its join, the member may not know yet that it is present itself.
    let deadline = Instant::now() + LIMIT;
    loop {
        let error = chain.send(&UPDATE, LIMIT).unwrap_err();
        assert!(matches!(error, GroupError::Inadequate { .. }), "{error}");
        if error.to_string().contains("2 members are needed, 1 are there") {
            break;
        }
        assert!(error.to_string().contains("no member has joined yet"), "{error}");
        assert!(Instant::now() < deadline, "{error}");
    }
    assert!(matches!(first.shard::<Chain>("other", 0), Err(GroupError::NoSuchSubgroup(_))));

    let second = member(&folder.path().join("run"), "second");
    let plan = first.wait_layout("chain", LIMIT).unwrap();
    assert_eq!(plan.len(), 2);
    chain.wait_ready(LIMIT).unwrap();
    let other = first.shard::<Chain>("chain", 1).unwrap();
    assert!(matches!(other.send(&UPDATE, LIMIT), Err(GroupError::NoSeat { .. })));
    // A process that is not a member of a shard asks a member.
    let answer = other.ask(second.me(), &(), LIMIT).unwrap().wait(LIMIT).unwrap();
    second.shard::<Chain>("chain", 1).unwrap().wait_ready(LIMIT).unwrap();
    assert!(answer.contains_key(&second.me()));
    let answer = other.ask(second.me(), &(), LIMIT).unwrap().wait(LIMIT).unwrap();
    assert_eq!(answer[&second.me()], Ok(0));

    second.leave(LIMIT).unwrap();
    let error = second.view().unwrap_err();
    assert!(error.to_string().contains("has left the group"), "{error}");
    first.wait_view(LIMIT, |view| view.members.len() == 1).unwrap();
    let deadline = Instant::now() + LIMIT;
    while !matches!(chain.send(&UPDATE, LIMIT), Err(GroupError::Inadequate { .. })) {
        assert!(Instant::now() < deadline);
    }
}

#[test]
fn object_starts_with_state_of_given_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let builder = || {
        GroupBuilder::new("test")
            .folder(folder.path().join("run"))
            .replicated::<Chain>("chain", OneShard { least: 1 })
    };
    let (taken, sum) = {
        let group = builder().join(LIMIT).unwrap();
        let chain = group.shard::<Chain>("chain", 0).unwrap();
        chain.wait_ready(LIMIT).unwrap();
        let me = group.me();
        (0..100).for_each(|number| chain.send(&(me, (1, number)), LIMIT).unwrap());
        let replies = chain.query(&(me, (1, 100)), LIMIT).unwrap().wait(LIMIT).unwrap();
        let sum = replies[&group.me()].unwrap();
        (chain.checkpoint().unwrap(), sum)
    };
    assert_eq!(taken.position.applied, 101);
    let starts = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&starts);
    let group = builder()
        .checkpoint("chain", 0, taken)
        .on_object(move |event| heard.lock().unwrap().push(format!("{event:?}")))
        .join(LIMIT)
        .unwrap();
    let chain = group.shard::<Chain>("chain", 0).unwrap();
    chain.wait_ready(LIMIT).unwrap();
    assert_eq!(chain.read(|chain| chain.sum).unwrap(), sum);
    assert!(starts.lock().unwrap()[0].contains("Checkpoint"), "{starts:?}");
}

#[test]
fn views_are_reported_in_order_and_raw_messages_are_delivered() {
    let folder = tempfile::tempdir().unwrap();
    let views = Arc::new(Mutex::new(Vec::new()));
    let messages = Arc::new(Mutex::new(Vec::new()));
    let (seen, heard) = (Arc::clone(&views), Arc::clone(&messages));
    let join = |seen: Arc<Mutex<Vec<u64>>>, heard: Arc<Mutex<Vec<Vec<u8>>>>| {
        GroupBuilder::new("test")
            .folder(folder.path().join("run"))
            .raw("raw", OneShard { least: 1 }, move |_, bytes| {
                heard.lock().unwrap().push(bytes.to_vec());
            })
            .on_view(move |change| seen.lock().unwrap().push(change.view.number))
            .join(LIMIT)
            .unwrap()
    };
    let first = join(seen, heard);
    for _ in 0..3 {
        let other = join(Arc::default(), Arc::default());
        let raw = other.raw("raw", 0).unwrap();
        raw.wait_ready(LIMIT).unwrap();
        first.raw("raw", 0).unwrap().wait_ready(LIMIT).unwrap();
        raw.send(b"hello", LIMIT).unwrap();
        let deadline = Instant::now() + LIMIT;
        while messages.lock().unwrap().is_empty() {
            assert!(Instant::now() < deadline);
            std::thread::sleep(Duration::from_millis(1));
        }
        messages.lock().unwrap().clear();
        drop((raw, other));
        first.wait_view(LIMIT, |view| view.members.len() == 1).unwrap();
    }
    // The upcall for views comes after the wait for views returns.
    let deadline = Instant::now() + LIMIT;
    while views.lock().unwrap().len() < 7 {
        assert!(Instant::now() < deadline, "{views:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
    let views = views.lock().unwrap();
    assert!(views.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{views:?}");
}

#[test]
fn member_with_different_declarations_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let _first = member(&folder.path().join("run"), "first");
    let other = GroupBuilder::new("test")
        .folder(folder.path().join("run"))
        .replicated::<Chain>("chain", OneShard { least: 1 })
        .join(LIMIT);
    let error = other.and_then(|group| group.wait_layout("chain", LIMIT)).unwrap_err();
    assert_eq!(error, GroupError::OtherDeclarations);
}
