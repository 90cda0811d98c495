#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use derecho_core::ids::NodeId;
use derecho_core::log::{EpochId, KeyHash, RecordKind, Tail};
use derecho_core::storage::checkpoint_state::CheckpointState;
use derecho_core::storage::store::RecordFormat;

use super::*;
use crate::logs::ProcessLogs;
use crate::logs::process_logs::LogScope;
use crate::logs::thread::LogSettings;

const STREAM: StreamKey = StreamKey(77);

fn process_logs(queue: usize) -> (tempfile::TempDir, ProcessLogs) {
    let root = tempfile::tempdir().unwrap();
    let settings = LogSettings { queue, ..LogSettings::default() };
    let process_logs =
        ProcessLogs::open(root.path(), &LogScope::of_domain(0), LogId(5), settings).unwrap();
    (root, process_logs)
}

fn answer(log_port: &mut StreamLogPort) -> LogTaskResult {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        if let Some(answer) = log_port.answer() {
            return answer;
        }
        assert!(Instant::now() < deadline, "nobody answers");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn claim(log_port: &mut StreamLogPort) -> LogTaskResult {
    let mut task = Some(LogTask::Claim(true));
    while !log_port.ask(&mut task) {
        std::thread::sleep(Duration::from_millis(1));
    }
    answer(log_port)
}

fn entry(number: u64) -> LogEntry<'static> {
    LogEntry {
        kind: RecordKind::Sample,
        epoch: EpochId { view: 1, sequence: 1 },
        writer: NodeId(1),
        writer_sequence: number,
        source_time: WallTime(0),
        reception_time: WallTime(0),
        key: KeyHash::default(),
        payload: b"payload",
    }
}

/// A log task that waits when the log thread dies, or comes later, fails.
#[test]
fn log_request_fails_after_log_thread_has_died() {
    let (_root, process_logs) = process_logs(16);
    let mut log_port = process_logs.stream_log_port(STREAM, FullDiskPolicy::Wait, None, || {});
    let (go, goes) = channel::<()>();
    assert!(log_port.run(move || {
        goes.recv().unwrap();
        panic!("the log's thread dies, as it is to in this test");
    }));
    assert!(log_port.ask(&mut Some(LogTask::Claim(true))));
    go.send(()).unwrap();
    assert!(matches!(answer(&mut log_port), LogTaskResult::Failed(_)));
    assert!(matches!(log_port.condition(), LogPortCondition::Failed(_)));
    assert!(log_port.ask(&mut Some(LogTask::Claim(true))));
    assert!(matches!(answer(&mut log_port), LogTaskResult::Failed(_)));
}

/// The last logs put aside stay; with a limit of bytes only the last one, if there is no room
/// for more.
#[test]
fn logs_put_aside_are_kept_within_limits() {
    let few = TopicLogRetention {
        past: derecho_core::log::SegmentRetention { bytes: Some(1), ..Default::default() },
        state: derecho_core::storage::store::StoreRetention::default(),
        format: RecordFormat {
            key: |_| 0,
            time: |_| 0,
            all_keys: |_| None,
            liveness: |_, _| {},
            companion: |key| key,
        },
    };
    for (keep, left) in [(None, 4..=11), (Some(few), 11..=11)] {
        let (_root, process_logs) = process_logs(16);
        let mut log_port = process_logs.stream_log_port(STREAM, FullDiskPolicy::Wait, keep, || {});
        for era in 1..=12 {
            let epoch = EpochId { view: era, sequence: 1 };
            let state =
                CheckpointState::of_records(Tail { epoch, version: Version(5) }, Vec::new());
            let mut task = Some(LogTask::Replace(state, (Tail::default(), era)));
            while !log_port.ask(&mut task) {
                std::thread::sleep(Duration::from_millis(1));
            }
            assert!(matches!(answer(&mut log_port), LogTaskResult::Replaced));
        }
        let mut disk = LogFolder::read(process_logs.folder()).unwrap();
        let asides = aside::asides(&mut disk).unwrap();
        assert_eq!(asides, [(STREAM, left.collect())].into());
    }
}

/// A user that leaves a log while the queue is full loses nothing of it, and the next user sees
/// its state.
#[test]
fn journal_dropped_while_queue_is_full_loses_no_entries() {
    let (_root, process_logs) = process_logs(2);
    let mut log_port = process_logs.stream_log_port(STREAM, FullDiskPolicy::Wait, None, || {});
    assert!(matches!(claim(&mut log_port), LogTaskResult::Claimed(_)));
    let (go, goes) = channel::<()>();
    assert!(log_port.run(move || goes.recv().unwrap()));
    for number in 0..20 {
        assert!(log_port.put(entry(number)));
        log_port.hand_over();
    }
    drop(log_port);
    let mut next = process_logs.stream_log_port(STREAM, FullDiskPolicy::Wait, None, || {});
    go.send(()).unwrap();
    let LogTaskResult::Claimed(claim) = claim(&mut next) else { panic!("it is there") };
    assert_eq!(claim.found.tail.version, Version(20));
    assert_eq!(next.durable(), Version(20));
    assert!(next.put(entry(20)));
    next.hand_over();
    let deadline = Instant::now() + Duration::from_secs(20);
    while next.durable() < Version(21) {
        assert!(Instant::now() < deadline, "what is durable is not shown");
        std::thread::sleep(Duration::from_millis(1));
    }
}
