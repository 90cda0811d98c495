//! Results of log tasks for a topic: a log reports nothing as complete, or as accounted for, that
//! may not be so.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::cell::RefCell;
use std::rc::Rc;

use derecho_core::group::report::StreamId;
use derecho_core::ids::{NodeId, RegionId};
use derecho_core::log::RecoveryCheck;
use derecho_core::log::aside::{self, PutAsideFolder};
use derecho_core::log::survey::survey;
use derecho_core::log::{
    Disk, DiskError, EpochId, EpochMark, GroupId, KeyHash, LogEntry, LogError, LogId, LogKey,
    LogLimits, LogOwner, RecordKind, StreamKey, StreamLog, Tail, Version, WallTime, folder,
};
use derecho_core::storage::checkpoint_state::CheckpointState;
use derecho_core::storage::log_election::{ElectionState, LogClaim, LogElection};
use derecho_core::storage::log_port::{LogTask, LogTaskResult};
use derecho_core::storage::log_tasks::{self, ReachableFolder, TopicLogRetention};
use derecho_core::storage::store::{RecordFormat, Store, StoreRetention};
use derecho_sim::disk::{DiskFaults, SimDisk};

const STREAM: StreamKey = StreamKey(7);

fn epoch(view: u64, sequence: u64) -> EpochId {
    EpochId { view, sequence }
}

fn entry(id: u128, number: u64, of: EpochId, payload: &[u8]) -> LogEntry<'_> {
    LogEntry {
        kind: RecordKind::Sample,
        epoch: of,
        writer: NodeId(id),
        writer_sequence: number,
        source_time: WallTime(0),
        reception_time: WallTime(0),
        key: KeyHash::default(),
        payload,
    }
}

/// Returns a folder with a log of `messages` messages of an epoch, which begins and ends with
/// these marks.
fn log(id: u128, messages: u64, of: EpochId, marks: &[EpochMark]) -> (StreamLog, SimDisk) {
    let mut disk = SimDisk::new(id as u64);
    let owner = folder::claim(&mut disk, GroupId(9), LogId(id)).unwrap();
    let owner = LogOwner { group: owner.group, log: LogId(id) };
    let (mut log, _) = StreamLog::open(
        &mut disk,
        LogKey { owner, stream: STREAM },
        LogLimits::default(),
        RecoveryCheck::All,
    )
    .unwrap();
    for number in 0..messages {
        let payload = [id as u8, number as u8];
        log.append(entry(id, number, of, &payload), &disk).unwrap();
    }
    marks.iter().for_each(|mark| log.mark(mark, WallTime(0), &disk).unwrap());
    log.commit(&mut disk).unwrap();
    (log, disk)
}

fn claim(own: &mut (StreamLog, SimDisk), others: &mut [ReachableFolder<SimDisk>]) -> LogClaim {
    match log_tasks::run(&LogTask::Claim(true), &mut own.0, &mut own.1, others) {
        LogTaskResult::Claimed(claim) => *claim,
        _ => panic!("no claim"),
    }
}

/// A folder without a process shows that another log has more: the restart waits for that log.
#[test]
fn restart_waits_for_log_that_a_losing_neighbour_log_names() {
    let marks = [EpochMark::Begun(epoch(1, 5), vec![LogId(9)])];
    let (_, disk) = log(1, 10, epoch(1, 5), &marks);
    let mut others =
        [ReachableFolder { log: LogId(1), disk, busy: false, open_log: None, damage: None }];
    let mut own = log(2, 0, epoch(0, 0), &[]);
    let claim = claim(&mut own, &mut others);
    let mut election = LogElection::default();
    election.claim(NodeId(2), 0, claim);
    assert_eq!(election.state(0), ElectionState::Waits([LogId(9)].into()));
}

/// Older marks taken over from another log do not replace a newer one.
#[test]
fn older_marks_of_another_log_do_not_replace_the_newest_mark() {
    let begun = |sequence, of: &[u128]| {
        EpochMark::Begun(epoch(1, sequence), of.iter().map(|log| LogId(*log)).collect())
    };
    let marks = [begun(3, &[1]), begun(4, &[1, 7]), begun(5, &[1, 2])];
    let (_, disk) = log(1, 10, epoch(1, 5), &marks);
    let mut others =
        [ReachableFolder { log: LogId(1), disk, busy: false, open_log: None, damage: None }];
    let mut own = log(2, 0, epoch(1, 5), &[begun(5, &[1, 2])]);
    let claim = claim(&mut own, &mut others);
    assert_eq!(claim.found.begun, Some((epoch(1, 5), vec![LogId(1), LogId(2)])));
}

/// Two logs have recorded the same epoch, with different other logs. Membership changes in between
/// are unknown, so all of these logs are awaited, whichever claims first.
#[test]
fn restart_awaits_logs_of_all_marks_of_one_epoch() {
    let begun =
        |of: &[u128]| EpochMark::Begun(epoch(1, 5), of.iter().map(|log| LogId(*log)).collect());
    for (first, second) in [(&[1, 2][..], &[1, 2, 3][..]), (&[1, 2, 3], &[1, 2])] {
        let mut election = LogElection::default();
        for (id, names) in [(1, first), (2, second)] {
            let mut own = log(id, 10, epoch(1, 5), &[begun(names)]);
            election.claim(NodeId(id), 0, claim(&mut own, &mut []));
        }
        assert_eq!(election.state(0), ElectionState::Waits([LogId(3)].into()));
    }
}

const FORMAT: RecordFormat = RecordFormat {
    key: |record| record[0].into(),
    time: |_| 0,
    all_keys: |_| None,
    liveness: |_, _| {},
    companion: |key| key,
};

/// Returns the state of a store of `messages` messages, as a checkpoint at the last of them has it.
fn state_of(messages: u64, of: EpochId) -> CheckpointState {
    let mut store = Store::new(StoreRetention::default(), FORMAT);
    let stream = store.stream(StreamId { node: NodeId(5), region: RegionId(1) });
    (0..messages).for_each(|number| store.append(stream, number, &[5, number as u8]));
    CheckpointState::new(store.cursor(), &store, messages, of, FORMAT)
}

/// Records outside the topic's history are put aside, where they can be read; records within it are
/// not kept twice.
#[test]
fn only_records_outside_the_topic_history_are_put_aside() {
    let (base, era) = (Tail { epoch: epoch(2, 9), version: Version(4) }, 3);
    for (tail, kept) in [(epoch(1, 5), true), (epoch(2, 9), true), (epoch(3, 1), false)] {
        let (mut own, mut disk) = log(2, 10, tail, &[]);
        let task = LogTask::Replace(state_of(20, epoch(3, 2)), (base, era));
        let answer = log_tasks::run::<_, SimDisk>(&task, &mut own, &mut disk, &mut []);
        assert!(matches!(answer, LogTaskResult::Replaced));
        assert_eq!((own.durable(), own.checkpointed()), (Version(20), Some(Version(20))));
        let asides = aside::asides(&mut disk).unwrap();
        assert_eq!(asides, if kept { [(STREAM, [1].into())].into() } else { [].into() });
        if kept {
            let owner = own.owner();
            let mut read = 0;
            let mut beside = PutAsideFolder::new(disk, 1);
            let found =
                survey(&mut beside, LogKey { owner, stream: STREAM }, |_| read += 1).unwrap();
            assert_eq!((read, found.last, found.errors.len()), (10, Some(Version(10)), 0));
        }
    }
}

/// Records of which the winner knows nothing are put aside also if the winning log lies beside
/// the log.
#[test]
fn records_unknown_to_the_winning_log_are_put_aside() {
    let (_, disk) = log(1, 30, epoch(2, 1), &[EpochMark::Begun(epoch(2, 1), vec![LogId(1)])]);
    let mut others =
        [ReachableFolder { log: LogId(1), disk, busy: false, open_log: None, damage: None }];
    let mut own = log(2, 10, epoch(1, 5), &[]);
    claim(&mut own, &mut others);
    assert_eq!(own.0.durable(), Version(30));
    let asides = aside::asides(&mut own.1).unwrap();
    assert_eq!(asides, [(STREAM, [1].into())].into());
}

/// Returns a log, and a folder in which `times` earlier logs were put aside.
fn put_aside(times: u64) -> (StreamLog, SimDisk) {
    let (mut own, mut disk) = log(2, 10, epoch(1, 5), &[]);
    for era in 2..2 + times {
        let task = LogTask::Replace(state_of(20, epoch(era, 2)), (Tail::default(), era));
        let answer = log_tasks::run::<_, SimDisk>(&task, &mut own, &mut disk, &mut []);
        assert!(matches!(answer, LogTaskResult::Replaced));
    }
    (own, disk)
}

fn numbers(disk: &mut SimDisk) -> Vec<u32> {
    let all = aside::asides(disk).unwrap();
    all.get(&STREAM).into_iter().flatten().copied().collect()
}

/// At most the last eight logs put aside stay, or fewer if they take too much room, but at least
/// one (I-96). A crash in the middle loses none of these.
#[test]
fn newest_logs_put_aside_survive_trimming_and_crashes() {
    let times = aside::MOST as u32 + 3;
    let (_, mut disk) = put_aside(times.into());
    assert_eq!(numbers(&mut disk), (1..=times).collect::<Vec<_>>());
    let bytes = aside::bytes_of(&mut disk, STREAM).unwrap();
    let removed = aside::keep_last(&mut disk, STREAM, None).unwrap();
    assert_eq!(removed, (1..=3).map(|number| (number, bytes[&number])).collect::<Vec<_>>());
    assert_eq!(numbers(&mut disk), (4..=times).collect::<Vec<_>>());
    assert_eq!(aside::keep_last(&mut disk, STREAM, None).unwrap(), []);
    let room = bytes[&times] + bytes[&(times - 1)];
    aside::keep_last(&mut disk, STREAM, Some(room)).unwrap();
    assert_eq!(numbers(&mut disk), [times - 1, times]);
    aside::keep_last(&mut disk, STREAM, Some(1)).unwrap();
    assert_eq!(numbers(&mut disk), [times], "the last one stays, however large it is");
    let mut step = 0;
    loop {
        step += 1;
        let (own, mut disk) = put_aside(times.into());
        disk.plan(DiskFaults { crash_at: Some(step), ..DiskFaults::default() });
        let done = aside::keep_last(&mut disk, STREAM, None).is_ok();
        match step % 2 {
            0 => disk.kill(),
            _ => disk.lose_power(),
        }
        let left = numbers(&mut disk);
        assert!((4..=times).all(|number| left.contains(&number)), "{left:?} at step {step}");
        aside::keep_last(&mut disk, STREAM, None).unwrap();
        assert_eq!(numbers(&mut disk), (4..=times).collect::<Vec<_>>());
        let owner = own.owner();
        let (log, _) = StreamLog::open(
            &mut disk,
            LogKey { owner, stream: STREAM },
            LogLimits::default(),
            RecoveryCheck::All,
        )
        .unwrap();
        assert_eq!(log.durable(), Version(20), "the log itself is unchanged");
        let found =
            survey(&mut PutAsideFolder::new(disk, 4), LogKey { owner, stream: STREAM }, |_| {})
                .unwrap();
        assert_eq!(found.errors, []);
        if done {
            break;
        }
    }
    assert!(step > 6, "{step} steps");
}

/// A checkpoint beyond the requested version has no earlier states.
#[test]
fn log_cannot_load_a_state_older_than_its_checkpoint() {
    let from = (StreamId { node: NodeId(5), region: RegionId(1) }, 12);
    let task = LogTask::Load(StoreRetention::default(), FORMAT, [from].into());
    let (mut own, mut disk) = log(2, 0, epoch(1, 1), &[]);
    let replace = LogTask::Replace(state_of(20, epoch(1, 2)), (Tail::default(), 1));
    log_tasks::run::<_, SimDisk>(&replace, &mut own, &mut disk, &mut []);
    let answer = log_tasks::run::<_, SimDisk>(&task, &mut own, &mut disk, &mut []);
    assert!(matches!(answer, LogTaskResult::Failed(LogError::Gone { .. })));
    let task = LogTask::Load(StoreRetention::default(), FORMAT, [(from.0, 20)].into());
    let answer = log_tasks::run::<_, SimDisk>(&task, &mut own, &mut disk, &mut []);
    let LogTaskResult::Loaded(store) = answer else { panic!("the store is not loaded") };
    assert_eq!((store.version(), store.len()), (20, 20));
}

/// A log that has not advanced far enough is asked again, and only its new part is read.
#[test]
fn repeated_completion_reads_only_the_new_part_of_a_log() {
    let (mut theirs, disk) = log(1, 5_000, epoch(1, 1), &[]);
    let disk = Rc::new(RefCell::new((disk, 0)));
    let mut own = log(2, 0, epoch(1, 1), &[]);
    let mut others = [ReachableFolder {
        log: LogId(1),
        disk: CountingDisk(Rc::clone(&disk)),
        busy: true,
        open_log: None,
        damage: None,
    }];
    let task =
        LogTask::Complete(vec![LogId(1)], Version(5_003), ((Tail::default()), epoch(1, 1).view));
    let mut read = Vec::new();
    for more in 0..=3 {
        disk.borrow_mut().1 = 0;
        let answer = log_tasks::run(&task, &mut own.0, &mut own.1, &mut others);
        read.push(disk.borrow().1);
        match more {
            3 => assert!(matches!(answer, LogTaskResult::Completed(_))),
            _ => assert!(matches!(answer, LogTaskResult::NotYet)),
        }
        let disk = &mut disk.borrow_mut().0;
        theirs.append(entry(1, 5_000 + more, epoch(1, 1), &[1, 2]), disk).unwrap();
        theirs.commit(disk).unwrap();
    }
    assert_eq!(own.0.durable(), Version(5_003));
    assert!(read[1..].iter().all(|again| *again < read[0] / 4), "{read:?}");
}

/// Dropped records are in a checkpoint first: if the process is killed at any moment, the log leads
/// to the same state.
#[test]
fn dropped_records_are_first_written_to_a_checkpoint() {
    let state = StoreRetention { depth: Some(2), ..StoreRetention::default() };
    let past = derecho_core::log::SegmentRetention { messages: Some(50), ..Default::default() };
    let keep = TopicLogRetention { past, state, format: FORMAT };
    let load = |log: &mut StreamLog, disk: &mut SimDisk| {
        let task = LogTask::Load(state, FORMAT, [].into());
        let LogTaskResult::Loaded(store) = log_tasks::run::<_, SimDisk>(&task, log, disk, &mut [])
        else {
            panic!("the log cannot be read");
        };
        let kept: Vec<(u64, u64)> =
            store.cursor().map(|kept| (kept.position(), kept.number())).collect();
        (store.version(), kept)
    };
    let (mut killed, mut dropped) = (0, 0);
    for steps in 0.. {
        let mut disk = SimDisk::new(steps);
        let owner = folder::claim(&mut disk, GroupId(9), LogId(2)).unwrap();
        let limits = LogLimits { segment_bytes: 4 << 10 };
        let of = LogKey { owner, stream: STREAM };
        let (mut log, _) = StreamLog::open(&mut disk, of, limits, RecoveryCheck::All).unwrap();
        for number in 0..300 {
            let payload = [if number < 3 { 200 } else { (number % 7) as u8 }, 1];
            log.append(entry(5, number, epoch(1, 1), &payload), &disk).unwrap();
            log.commit(&mut disk).unwrap();
        }
        let before = load(&mut log, &mut disk);
        disk.plan(DiskFaults { crash_at: Some(steps), ..DiskFaults::default() });
        let trimmed = log_tasks::trim(&mut log, &mut disk, &keep, WallTime(0));
        let is_whole = !disk.has_crashed();
        disk.lose_power();
        let (mut log, _) = StreamLog::open(&mut disk, of, limits, RecoveryCheck::All).unwrap();
        assert_eq!(load(&mut log, &mut disk), before, "killed after {steps} steps");
        assert_eq!(log.durable(), Version(300));
        if is_whole {
            assert!(trimmed.unwrap());
            dropped += 1;
            assert!(log.complete_from() > Version(100) && log.complete_from() <= Version(251));
            let checkpoint = log.checkpointed().unwrap();
            assert_eq!(checkpoint.next(), log.complete_from());
            // Nothing more can be dropped.
            assert!(!log_tasks::trim(&mut log, &mut disk, &keep, WallTime(0)).unwrap());
            break;
        }
        killed += 1;
    }
    assert!(killed > 10 && dropped == 1, "{killed}");
}

/// Disk that counts the bytes read from it.
struct CountingDisk(Rc<RefCell<(SimDisk, usize)>>);

impl Disk for CountingDisk {
    fn list(&mut self) -> Result<Vec<String>, DiskError> {
        self.0.borrow_mut().0.list()
    }
    fn length(&mut self, name: &str) -> Result<u64, DiskError> {
        self.0.borrow_mut().0.length(name)
    }
    fn read_at(&mut self, name: &str, at: u64, into: &mut [u8]) -> Result<usize, DiskError> {
        let (disk, read) = &mut *self.0.borrow_mut();
        let found = disk.read_at(name, at, into)?;
        *read += found;
        Ok(found)
    }
    fn create(&mut self, _: &str) -> Result<(), DiskError> {
        Err(DiskError::ReadOnly)
    }
    fn write_at(&mut self, _: &str, _: u64, _: &[u8]) -> Result<(), DiskError> {
        Err(DiskError::ReadOnly)
    }
    fn sync_file(&mut self, _: &str) -> Result<(), DiskError> {
        Err(DiskError::ReadOnly)
    }
    fn sync_folder(&mut self) -> Result<(), DiskError> {
        Err(DiskError::ReadOnly)
    }
    fn rename(&mut self, _: &str, _: &str) -> Result<(), DiskError> {
        Err(DiskError::ReadOnly)
    }
    fn remove(&mut self, _: &str) -> Result<(), DiskError> {
        Err(DiskError::ReadOnly)
    }
    fn truncate(&mut self, _: &str, _: u64) -> Result<(), DiskError> {
        Err(DiskError::ReadOnly)
    }
}

/// An equal number of messages does not mean equal messages.
#[test]
fn a_log_of_another_beginning_is_not_complete() {
    let mut own = log(2, 10, epoch(1, 1), &[]);
    let base = Tail { epoch: epoch(1, 2), version: Version(10) };
    let mut others: [ReachableFolder<SimDisk>; 0] = [];
    let task = LogTask::Complete(vec![LogId(1)], Version(10), (base, 2));
    let answer = log_tasks::run(&task, &mut own.0, &mut own.1, &mut others);
    assert!(matches!(answer, LogTaskResult::OutOfReach));
}

/// The only log that kept the last recorded epoch was emptied, to be completed from a log that has
/// everything and whose own marks were lost. The complete log wins.
#[test]
fn emptied_log_does_not_win_over_the_complete_log() {
    let marks = [EpochMark::Begun(epoch(1, 5), vec![LogId(6)])];
    let other = |(log, disk): (StreamLog, SimDisk)| {
        let log = log.owner().log;
        ReachableFolder { log, disk, busy: false, open_log: None, damage: None }
    };
    let mut others = [other(log(1, 10, epoch(1, 5), &marks)), other(log(6, 0, epoch(0, 0), &[]))];
    let mut own = log(2, 0, epoch(0, 0), &[]);
    let claim = claim(&mut own, &mut others);
    assert_eq!(claim.found.tail.version, Version(10));
    let mut election = LogElection::default();
    election.claim(NodeId(2), 0, claim);
    assert_eq!(election.state(0), ElectionState::Begins(NodeId(2)));
}

/// While a named log is elsewhere, a log does not give up its records for another log that
/// has less.
#[test]
fn log_keeps_its_records_while_a_named_log_is_awaited() {
    let marks = [EpochMark::Begun(epoch(1, 5), vec![LogId(6), LogId(9)])];
    let emptied = log(6, 0, epoch(0, 0), &[]);
    let mut others = [ReachableFolder {
        log: LogId(6),
        disk: emptied.1,
        busy: false,
        open_log: None,
        damage: None,
    }];
    let mut own = log(2, 10, epoch(1, 5), &marks);
    let claim = claim(&mut own, &mut others);
    assert_eq!(claim.found.tail.version, Version(10));
    let mut election = LogElection::default();
    election.claim(NodeId(2), 0, claim);
    assert_eq!(election.state(0), ElectionState::Waits([LogId(9)].into()));
}
