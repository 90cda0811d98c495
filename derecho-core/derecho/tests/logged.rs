//! Objects kept in logs: durable updates are restored in the same order after all processes
//! were killed.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod actors;

use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use actors::{ChildProcess, LIMIT, print_line, role};
use derecho::{
    BalancedShards, Group, GroupBuilder, GroupError, LogCondition, NodeId, ObjectOrigin, OneShard,
    Replicated, Shard, Wire,
};

/// Writer and number of each update, in order.
#[derive(Default, PartialEq, Debug)]
struct UpdateHistory(Vec<(u64, u64)>);

impl Replicated for UpdateHistory {
    type Update = (u64, u64);
    type Question = ();
    type Reply = u64;

    fn apply(&mut self, _: NodeId, entry: (u64, u64)) -> u64 {
        self.0.push(entry);
        self.0.len() as u64
    }

    fn answer(&self, _: NodeId, (): ()) -> u64 {
        self.0.len() as u64
    }

    fn snapshot(&self) -> Vec<u8> {
        self.0.to_bytes()
    }

    fn restored(bytes: &[u8]) -> Option<UpdateHistory> {
        Wire::from_bytes(bytes).map(UpdateHistory)
    }
}

fn logs(folder: &Path, name: &str) -> std::path::PathBuf {
    let logs = folder.join(name);
    std::fs::create_dir_all(&logs).unwrap();
    logs
}

fn builder(folder: &Path, root: &str) -> GroupBuilder {
    GroupBuilder::new("bank")
        .folder(folder.join("run"))
        .logs(logs(folder, root))
        .logged::<UpdateHistory>("ledger", OneShard { least: 1 })
        .member_timeout(Duration::from_millis(500))
}

fn ready(builder: GroupBuilder) -> (Group, Shard<UpdateHistory>) {
    let group = builder.join(LIMIT).unwrap();
    let ledger = group.shard::<UpdateHistory>("ledger", 0).unwrap();
    if let Err(error) = ledger.wait_ready(LIMIT) {
        panic!("{error}: {}", group.describe());
    }
    (group, ledger)
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !is_so() {
        assert!(Instant::now() < deadline, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Writes while it lives, and reports what is durable.
#[test]
fn act() {
    let Some((who, folder)) = role() else { return };
    let builder = match who % 2 {
        // Some members replace earlier updates by checkpoints repeatedly.
        0 => builder(&folder, "logs").checkpoint_every(70, 1 << 20),
        _ => builder(&folder, "logs"),
    };
    let (_group, ledger) = ready(builder);
    print_line("ready");
    for number in 0.. {
        match ledger.send(&(who, number), LIMIT) {
            Ok(()) => {}
            Err(error) => panic!("{error}"),
        }
        if number % 50 == 49 {
            ledger.sync(LIMIT).unwrap();
            print_line(&format!("durable {number}"));
        }
    }
}

/// Kills three writing processes repeatedly: the restored state begins with the previously restored
/// one, and has everything that was reported as durable.
#[test]
fn durable_updates_are_restored_after_all_processes_were_killed() {
    let folder = tempfile::tempdir().unwrap();
    let mut before: Vec<(u64, u64)> = Vec::new();
    let mut words = 0;
    for round in 0..4_u64 {
        let ids: Vec<u64> = (0..3).map(|child_process| 1 + 10 * round + child_process).collect();
        let mut child_processes: Vec<ChildProcess> =
            ids.iter().map(|id| ChildProcess::start(*id, folder.path())).collect();
        child_processes.iter().for_each(|child_process| drop(child_process.hear("ready")));
        std::thread::sleep(Duration::from_millis(100 + 37 * round));
        let mut durable = Vec::new();
        for (child_process, id) in child_processes.iter_mut().zip(&ids) {
            child_process.kill();
            let lines = child_process.remaining_lines();
            let last = lines.iter().filter_map(|said| said.strip_prefix("durable ")).next_back();
            durable.extend(last.map(|number| (*id, number.parse().unwrap())));
        }
        drop(child_processes);
        // A single process comes back.
        let (group, ledger) = ready(builder(folder.path(), "logs"));
        let now = ledger.read(|ledger| ledger.0.clone()).unwrap();
        assert_eq!(ledger.version().unwrap(), now.len() as u64);
        assert!(now.starts_with(&before), "what was there is there, in its order");
        for word in &durable {
            assert!(now.contains(word), "{word:?} was durable, and is not there");
        }
        for id in &ids {
            let of_it: Vec<u64> =
                now.iter().filter(|(writer, _)| writer == id).map(|(_, number)| *number).collect();
            assert!(of_it.iter().copied().eq(0..of_it.len() as u64), "once each, in order");
        }
        words += durable.len();
        before = now;
        group.leave(LIMIT).unwrap();
    }
    assert!(words >= 6, "{words} processes have said that something is durable");
}

#[test]
fn versions_are_durable_and_can_be_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let (group, ledger) = ready(builder(folder.path(), "logs"));
    for number in 0..100 {
        ledger.send(&(1, number), LIMIT).unwrap();
    }
    assert_eq!(ledger.sync(LIMIT).unwrap(), 100);
    let middle = SystemTime::now();
    std::thread::sleep(Duration::from_millis(5));
    let replies = ledger.query(&(2, 0), LIMIT).unwrap();
    assert_eq!(replies.wait(LIMIT).unwrap()[&group.me()], Ok(101));
    assert_eq!(replies.version(), Some(101));
    ledger.wait_durable(101, LIMIT).unwrap();
    let status = ledger.log_status().unwrap();
    assert_eq!((status.version, status.durable, status.logs), (Some(101), 101, 1));
    assert_eq!((status.log, status.waits_for.len()), (Some(LogCondition::Open), 0));
    assert_eq!(ledger.get(0, LIMIT).unwrap(), UpdateHistory::default());
    assert_eq!(ledger.get(40, LIMIT).unwrap().0.last(), Some(&(1, 39)));
    let (version, then) = ledger.at(middle).unwrap();
    assert_eq!((version, then.0.len()), (100, 100));
    let error = ledger.get(102, Duration::from_millis(20)).unwrap_err();
    assert!(matches!(error, GroupError::TimedOut(_)), "{error}");
    group.leave(LIMIT).unwrap();
    drop((replies, ledger, group));

    // With checkpoints the log begins later, and the object is the same.
    let (group, ledger) = ready(builder(folder.path(), "logs").checkpoint_every(50, 1 << 20));
    assert_eq!(ledger.version().unwrap(), 101);
    for number in 1..=200 {
        ledger.send(&(2, number), LIMIT).unwrap();
    }
    ledger.sync(LIMIT).unwrap();
    until(
        "there is a checkpoint",
        || matches!(ledger.get(40, LIMIT), Err(GroupError::Gone { from }) if from > 101),
    );
    assert!(matches!(ledger.at(middle), Err(GroupError::Gone { .. })));
    assert_eq!(ledger.get(301, LIMIT).unwrap().0.len(), 301);
    let all = ledger.read(|ledger| ledger.0.clone()).unwrap();
    drop((ledger, group));
    let starts = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let heard = std::sync::Arc::clone(&starts);
    let again = builder(folder.path(), "logs").on_object(move |event| {
        if let derecho::ObjectEvent::Started { origin: start, .. } = event {
            heard.lock().unwrap().push(start.clone());
        }
    });
    let (_group, ledger) = ready(again);
    assert_eq!(ledger.read(|ledger| ledger.0.clone()).unwrap(), all);
    until("it was said how it began", || !starts.lock().unwrap().is_empty());
    assert_eq!(starts.lock().unwrap()[0], ObjectOrigin::Logged { version: 301 });
}

#[test]
fn member_that_was_down_completes_its_log() {
    let folder = tempfile::tempdir().unwrap();
    let (_a, of_a) = ready(builder(folder.path(), "logs"));
    let write = |from: u64, to: u64| {
        (from..to).for_each(|number| of_a.send(&(1, number), LIMIT).unwrap());
        assert_eq!(of_a.sync(LIMIT).unwrap(), to);
    };
    let both = |of_b: &Shard<UpdateHistory>, version: u64| {
        until("both logs have all of it", || {
            let status = of_b.log_status().unwrap();
            status.logs == 2 && status.durable == version && status.own_durable == version
        });
        assert_eq!(of_b.get(30, LIMIT).unwrap().0.len(), 30, "its log has what was before it came");
        assert_eq!(of_b.version().unwrap(), version);
    };
    write(0, 100);
    {
        let (b, of_b) = ready(builder(folder.path(), "logs"));
        both(&of_b, 100);
        b.leave(LIMIT).unwrap();
    }
    write(100, 200);
    let (_b, of_b) = ready(builder(folder.path(), "logs"));
    both(&of_b, 200);
}

/// Separate folders, as on two hosts: a process that comes back alone waits for the other's log,
/// and names it.
#[test]
fn restarted_shard_waits_for_and_names_absent_log() {
    let folder = tempfile::tempdir().unwrap();
    {
        let (a, of_a) = ready(builder(folder.path(), "here"));
        let (b, of_b) = ready(builder(folder.path(), "there"));
        until("both keep logs", || of_b.log_status().unwrap().logs == 2);
        (0..100).for_each(|number| of_a.send(&(1, number), LIMIT).unwrap());
        of_a.sync(LIMIT).unwrap();
        b.leave(LIMIT).unwrap();
        // The remaining process alone has the object.
        a.wait_view(LIMIT, |view| view.members.len() == 1).unwrap();
        (100..200).for_each(|number| of_a.send(&(1, number), LIMIT).unwrap());
        of_a.sync(LIMIT).unwrap();
    }
    let b = builder(folder.path(), "there").join(LIMIT).unwrap();
    let of_b = b.shard::<UpdateHistory>("ledger", 0).unwrap();
    let error = of_b.wait_ready(Duration::from_millis(400)).unwrap_err();
    let waits_for = of_b.log_status().unwrap().waits_for;
    assert_eq!(waits_for.len(), 1);
    assert!(matches!(error, GroupError::AwaitsLogs { .. }), "{error}");
    assert!(error.to_string().contains(&waits_for[0]), "{error}");
    let _a = builder(folder.path(), "here").join(LIMIT).unwrap();
    of_b.wait_ready(LIMIT).unwrap();
    let all: Vec<(u64, u64)> = (0..200).map(|number| (1, number)).collect();
    assert_eq!(of_b.read(|ledger| ledger.0.clone()).unwrap(), all);
}

/// A process that comes back in another shard still brings the log of its old shard.
#[test]
fn logs_are_found_regardless_of_shard_of_their_process() {
    let folder = tempfile::tempdir().unwrap();
    let join = || {
        GroupBuilder::new("bank")
            .folder(folder.path().join("run"))
            .logs(logs(folder.path(), "logs"))
            .logged::<UpdateHistory>("ledger", BalancedShards { shards: 2, least: 1, most: 1 })
            .join(LIMIT)
            .unwrap()
    };
    let own = |group: &Group| {
        let plan = group.wait_layout("ledger", LIMIT).unwrap();
        let me = group.me();
        plan.iter().position(|shard| shard.iter().any(|place| place.node == me)).unwrap()
    };
    for round in 0..4_u64 {
        let groups = [join(), join()];
        groups.iter().for_each(|group| {
            group.wait_view(LIMIT, |view| view.members.len() == 2).unwrap();
        });
        for group in &groups {
            let shard = own(group);
            let ledger = group.shard::<UpdateHistory>("ledger", shard).unwrap();
            if let Err(error) = ledger.wait_ready(LIMIT) {
                panic!("{error}: {}", group.describe());
            }
            let expected: Vec<(u64, u64)> = (0..round).map(|it| (shard as u64, it)).collect();
            assert_eq!(ledger.read(|ledger| ledger.0.clone()).unwrap(), expected);
            ledger.send(&(shard as u64, round), LIMIT).unwrap();
            ledger.sync(LIMIT).unwrap();
        }
    }
}

#[test]
fn error_message_names_missing_or_unusable_log_folder() {
    let folder = tempfile::tempdir().unwrap();
    let declared = || {
        GroupBuilder::new("bank")
            .folder(folder.path().join("run"))
            .logged::<UpdateHistory>("ledger", OneShard { least: 1 })
    };
    let join_error = |builder: GroupBuilder| builder.join(LIMIT).err().unwrap().to_string();
    assert!(join_error(declared()).contains("logs(folder)"));
    let missing = folder.path().join("missing");
    let text = join_error(declared().logs(&missing));
    assert!(text.contains(&missing.display().to_string()), "{text}");
    let text = join_error(declared().logs("/proc"));
    assert!(text.contains("/proc"), "{text}");
    let (_group, ledger) = ready(builder(folder.path(), "logs"));
    assert!(ledger.log_status().is_ok());
}
