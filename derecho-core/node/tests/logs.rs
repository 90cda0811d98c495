//! Logs on real files: the folder, the log thread, and processes that are killed while they write.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use derecho_core::ids::NodeId;
use derecho_core::log::checksum::portable;
use derecho_core::log::{
    Disk, DiskError, EpochId, EpochMark, GroupId, KeyHash, LogEntry, LogError, LogId, LogKey,
    LogLimits, LogOwner, RecordKind, RecoveryCheck, SegmentRetention, StreamKey, StreamLog,
    Version, WallTime, folder,
};
use derecho_node::logs::{
    Batch, CloseOutcome, FullDiskPolicy, LogFolder, LogScope, LogSettings, Logs, ProcessLogs,
    PushRefusal, StreamHandle, StreamState,
};
use derecho_sim::{DiskFaults, Random, SimDisk};

const GROUP: GroupId = GroupId(1);
const OTHER: GroupId = GroupId(2);
const LOG: LogId = LogId(3);
const STREAM: StreamKey = StreamKey(4);
const LONG: Duration = Duration::from_secs(20);

/// Payload of a version, from which a reader can check the content.
fn payload(version: u64) -> Vec<u8> {
    let mut random = Random::new(version);
    let bound = if random.one_in(10) { 20_000 } else { 300 };
    let length = random.below(bound);
    (0..length).map(|_| random.next_word() as u8).collect()
}

fn entry(version: u64, payload: &[u8]) -> LogEntry<'_> {
    LogEntry {
        kind: RecordKind::Sample,
        epoch: EpochId { view: 1, sequence: 0 },
        writer: NodeId(9),
        writer_sequence: version,
        source_time: WallTime(1000 + version),
        reception_time: WallTime(2000 + version),
        key: KeyHash([(version % 7) as u8; 16]),
        payload,
    }
}

fn small() -> LogSettings {
    LogSettings { limits: LogLimits { segment_bytes: 40_000 }, ..LogSettings::default() }
}

/// Pushes these versions, waiting where the queue is full.
fn push<D: Disk + Send + 'static>(handle: &StreamHandle<D>, versions: std::ops::Range<u64>) {
    let mut batch = handle.batch();
    for version in versions {
        batch.push(entry(version, &payload(version))).unwrap();
    }
    let deadline = Instant::now() + LONG;
    loop {
        match handle.try_push(batch) {
            Ok(()) => return,
            Err(PushRefusal::Full(back)) if Instant::now() < deadline => {
                batch = back;
                std::thread::yield_now();
            }
            Err(refused) => panic!("{refused:?}"),
        }
    }
}

fn until(what: impl Fn() -> bool) {
    let deadline = Instant::now() + LONG;
    while !what() {
        assert!(Instant::now() < deadline, "it never comes");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Checks that a log is complete from its beginning or its first kept version; returns its range
/// of versions.
fn look(disk: &mut impl Disk, check: RecoveryCheck) -> (u64, u64) {
    let owner = folder::owner(disk).unwrap().unwrap();
    let (log, _) = StreamLog::read(disk, LogKey { owner, stream: STREAM }, check).unwrap();
    let first = log.complete_from();
    let mut cursor = log.after(Version(first.0 - 1)).unwrap();
    for version in first.0..=log.durable().0 {
        let record = cursor.next(disk, &log).unwrap().unwrap();
        assert_eq!(record.version, Version(version));
        assert_eq!(record.entry, entry(version, &payload(version)));
    }
    assert_eq!(cursor.next(disk, &log).unwrap(), None);
    (first.0, log.durable().0)
}

#[test]
fn next_process_reads_back_durable_records() {
    let dir = tempfile::tempdir().unwrap();
    for life in 0..4_u64 {
        let logs = Logs::start(dir.path(), GROUP, LogId(life.into()), small()).unwrap();
        assert_eq!(
            logs.owner(),
            LogOwner { group: GROUP, log: LogId(0) },
            "the first one's identity stays"
        );
        let (woken, wakes) = sync_channel(10_000);
        let waker = move || woken.try_send(()).unwrap_or(());
        let (handle, recovery) = logs.stream(STREAM, FullDiskPolicy::Wait, waker).unwrap();
        assert_eq!((handle.durable(), recovery.torn), (Version(life * 100), None));
        for from in (life * 100 + 1..life * 100 + 100).step_by(10) {
            push(&handle, from..from + 10);
        }
        until(|| handle.durable() == Version(life * 100 + 100));
        wakes.recv_timeout(LONG).unwrap();
        assert_eq!(logs.close(LONG), CloseOutcome::Clean);
        assert_eq!(handle.state(), StreamState::Closed);
        assert!(matches!(
            handle.try_push(Batch::default()),
            Err(PushRefusal::Over(StreamState::Closed))
        ));
    }
    let mut disk = LogFolder::read(dir.path()).unwrap();
    assert_eq!(look(&mut disk, RecoveryCheck::All), (1, 400));
    assert!(disk.list().unwrap().iter().filter(|name| name.ends_with(".log")).count() > 3);
}

#[test]
fn close_waits_for_pushed_records() {
    let dir = tempfile::tempdir().unwrap();
    let logs = Logs::start(dir.path(), GROUP, LOG, small()).unwrap();
    let (handle, _) = logs.stream(STREAM, FullDiskPolicy::Wait, || {}).unwrap();
    assert_eq!(
        logs.stream(STREAM, FullDiskPolicy::Wait, || {}).err(),
        Some(LogError::Locked),
        "it is open"
    );
    push(&handle, 1..500);
    assert_eq!(logs.close(LONG), CloseOutcome::Clean);
    assert_eq!(handle.durable(), Version(499));
    assert_eq!(look(&mut LogFolder::read(dir.path()).unwrap(), RecoveryCheck::Last), (1, 499));
}

#[test]
fn marks_cuts_and_retention_go_through_log_thread() {
    let dir = tempfile::tempdir().unwrap();
    let logs = Logs::start(dir.path(), GROUP, LOG, small()).unwrap();
    let (handle, _) = logs.stream(STREAM, FullDiskPolicy::Wait, || {}).unwrap();
    // One by one: records that are ready at once go into one file.
    for from in (1..600).step_by(50) {
        push(&handle, from..600.min(from + 50));
        until(|| handle.durable().0 + 1 == 600.min(from + 50));
    }
    let mark = EpochMark::Begun(EpochId { view: 2, sequence: 0 }, vec![LOG]);
    let mut batch = handle.batch();
    batch.mark(mark.clone(), WallTime(5));
    handle.try_push(batch).unwrap();
    let keep = SegmentRetention { messages: Some(100), ..SegmentRetention::default() };
    let dropped = handle.with(move |log, disk| log.retain(disk, keep, WallTime(0))).unwrap();
    assert!(dropped > 1);
    let known = handle.with(move |log, _| Ok(log.marks().any(|known| *known == mark))).unwrap();
    assert!(known);
    handle.with(|log, disk| log.cut_after(disk, Version(590))).unwrap();
    assert_eq!(handle.durable(), Version(590));
    drop(logs);
    let (first, last) = look(&mut LogFolder::read(dir.path()).unwrap(), RecoveryCheck::All);
    assert!(first > 1 && first <= 500 && last == 590);
}

#[test]
fn a_folder_has_one_writer_and_one_group() {
    let dir = tempfile::tempdir().unwrap();
    let logs = Logs::start(dir.path(), GROUP, LOG, small()).unwrap();
    let refused = |group| Logs::start(dir.path(), group, LOG, small()).err().unwrap();
    assert_eq!(refused(GROUP), LogError::Locked);
    drop(logs);
    assert_eq!(refused(OTHER), LogError::OtherGroup { folder: String::new(), found: GROUP });
    drop(Logs::start(dir.path(), GROUP, LOG, small()).unwrap());

    let nowhere = dir.path().join("none").join("at all");
    let missing = Logs::start(&nowhere, GROUP, LOG, small()).err().unwrap();
    assert!(matches!(&missing, LogError::Disk { cause: DiskError::NotFound, .. }), "{missing}");
    assert!(missing.to_string().contains("at all"), "{missing}");
    LogFolder::make(&dir.path().join("made")).unwrap();
    LogFolder::make(&dir.path().join("made")).unwrap();
    drop(Logs::start(&dir.path().join("made"), OTHER, LOG, small()).unwrap());

    let mut disk = LogFolder::read(dir.path()).unwrap();
    assert_eq!(disk.write_at("identity", 0, b"x"), Err(DiskError::ReadOnly));
    assert_eq!(disk.create("x"), Err(DiskError::ReadOnly));
    assert_eq!(disk.length("x"), Err(DiskError::NotFound));
}

#[test]
fn fifo_in_place_of_log_file_is_an_error_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let made = Command::new("mkfifo").arg(dir.path().join("segment")).status().unwrap();
    assert!(made.success());
    let (tell, told) = sync_channel(1);
    let path = dir.path().to_owned();
    std::thread::spawn(move || {
        tell.send(LogFolder::read(&path).unwrap().read_at("segment", 0, &mut [0; 8])).unwrap();
    });
    let read = told.recv_timeout(LONG).expect("nothing waits for the other end of the FIFO");
    assert!(matches!(&read, Err(DiskError::Other(why)) if why.contains("FIFO")), "{read:?}");
}

#[test]
fn files_from_another_folder_or_with_another_format_are_refused() {
    let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for (dir, log) in [(&dir, LOG), (&other, LogId(99))] {
        let logs = Logs::start(dir.path(), GROUP, log, small()).unwrap();
        let (handle, _) = logs.stream(STREAM, FullDiskPolicy::Wait, || {}).unwrap();
        push(&handle, 1..10);
    }
    let name = format!("{STREAM}-0000000000000001.log");
    let own = std::fs::read(dir.path().join(&name)).unwrap();
    let opened = || {
        let logs = Logs::start(dir.path(), GROUP, LOG, small()).unwrap();
        logs.stream(STREAM, FullDiskPolicy::Wait, || {}).map(|(handle, _)| handle.durable())
    };
    std::fs::copy(other.path().join(&name), dir.path().join(&name)).unwrap();
    assert_eq!(opened(), Err(LogError::OtherLog { file: name.clone(), found: LogId(99) }));
    let mut later = own.clone();
    later[8] = 2;
    later[20] = 1;
    std::fs::write(dir.path().join(&name), &later).unwrap();
    assert_eq!(opened(), Err(LogError::Format { file: name.clone(), found: 2 }));
    std::fs::write(dir.path().join(&name), &own).unwrap();
    assert_eq!(opened(), Ok(Version(9)));
}

/// A reader of an unused folder keeps no process from taking it: the process waits until the reader
/// has finished.
#[test]
fn process_waits_until_readers_release_unused_folder() {
    let root = tempfile::tempdir().unwrap();
    let home = LogScope::of_domain(0);
    let open = || ProcessLogs::open(root.path(), &home, LOG, small()).unwrap();
    let name = |process_logs: &ProcessLogs| process_logs.folder().file_name().unwrap().to_owned();
    let first = open();
    assert_eq!(name(&first), "0");
    let folder = first.folder().to_owned();
    assert!(matches!(LogFolder::look(&folder), Err(LogError::Locked)), "it is kept");
    assert_eq!(name(&open()), "1", "another process takes another one");
    drop(first);
    let looked = [(); 2].map(|()| LogFolder::look(&folder).unwrap());
    assert!(matches!(LogFolder::open(&folder), Err(LogError::Locked)), "it is looked at");
    let looks = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(100));
        drop(looked);
    });
    assert_eq!(name(&open()), "0");
    looks.join().unwrap();
}

/// Writes to removed files are never found again, so they are not durable (I-95).
#[test]
fn records_written_to_removed_folder_are_not_durable() {
    let dir = tempfile::tempdir().unwrap();
    let logs = Logs::start(dir.path(), GROUP, LOG, small()).unwrap();
    let (handle, _) = logs.stream(STREAM, FullDiskPolicy::Wait, || {}).unwrap();
    push(&handle, 1..10);
    until(|| handle.durable() == Version(9));
    std::fs::remove_dir_all(dir.path()).unwrap();
    push(&handle, 10..20);
    until(|| handle.state() == StreamState::Failed);
    let error = handle.error().unwrap();
    assert!(matches!(&error, LogError::Disk { cause: DiskError::Removed, .. }), "{error}");
    assert!(error.to_string().contains(&*dir.path().to_string_lossy()), "{error}");
    assert_eq!(handle.durable(), Version(9));
    let other = logs.stream(StreamKey(5), FullDiskPolicy::Wait, || {}).err().unwrap();
    assert!(matches!(&other, LogError::Disk { cause: DiskError::Removed, .. }), "{other}");
}

#[test]
fn hardware_checksum_equals_portable_checksum() {
    let mut random = Random::new(1);
    for length in 0..600 {
        let bytes: Vec<u8> = (0..length).map(|_| random.next_word() as u8).collect();
        assert_eq!(crc32c::crc32c(&bytes), portable(&bytes));
    }
}

#[test]
fn log_waits_for_room_on_full_disk_or_detaches() {
    for on_full in [FullDiskPolicy::Wait, FullDiskPolicy::Detach] {
        let mut disk = SimDisk::new(1);
        disk.plan(DiskFaults { room: Some(60_000), ..DiskFaults::default() });
        let logs = Logs::start_on(disk, GROUP, LOG, LogSettings { queue: 4, ..small() }).unwrap();
        let (handle, _) = logs.stream(STREAM, on_full, || {}).unwrap();
        // Records that are ready at once form one batch, which has room or not: the first one
        // goes alone.
        let mut batch = handle.batch();
        batch.push(entry(1, &[7; 5000])).unwrap();
        handle.try_push(batch).unwrap();
        until(|| handle.durable() == Version(1));
        let mut version = 2;
        // The push is refused at once when the queue is full, and the turn goes on.
        let mut refused = None;
        until_some(&mut refused, || {
            let mut batch = handle.batch();
            batch.push(entry(version, &[7; 5000])).unwrap();
            match handle.try_push(batch) {
                Ok(()) => version += 1,
                Err(PushRefusal::Full(_)) if handle.state() == StreamState::Full => {
                    return Some(StreamState::Full);
                }
                Err(PushRefusal::Over(state)) => return Some(state),
                Err(PushRefusal::Full(_)) => std::thread::yield_now(),
            }
            None
        });
        assert!(handle.error().unwrap().is_full());
        let durable = handle.durable();
        assert!(durable.0 > 0 && durable.0 < version);
        let expected = match on_full {
            FullDiskPolicy::Wait => StreamState::Full,
            FullDiskPolicy::Detach => StreamState::Detached,
        };
        assert_eq!((refused.unwrap(), handle.state()), (expected, expected));
        // The end does not wait for room.
        assert_eq!(logs.close(LONG), CloseOutcome::Clean);
        assert_eq!(handle.durable(), durable);
    }
}

/// Texts of the warnings of this process.
#[derive(Clone, Default)]
struct Warnings(Arc<Mutex<Vec<String>>>);

impl Warnings {
    fn mention(&self, words: &[&str]) -> bool {
        let texts = self.0.lock().unwrap();
        texts.iter().any(|text| words.iter().all(|word| text.contains(word)))
    }
}

impl tracing::field::Visit for Warnings {
    fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
        if field.name() == "message" {
            self.0.lock().unwrap().push(format!("{value:?}"));
        }
    }
}

impl tracing::Subscriber for Warnings {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() == tracing::Level::WARN
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        event.record(&mut self.clone());
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

/// Folder on a disk that is full when a test says so.
struct FillableFolder {
    disk: LogFolder,
    is_full: Arc<AtomicBool>,
}

macro_rules! passed_on {
    ($($name:ident($($arg:ident: $type:ty),*) -> $result:ty;)*) => {$(
        fn $name(&mut self, $($arg: $type),*) -> Result<$result, DiskError> {
            self.disk.$name($($arg),*)
        }
    )*};
}

impl Disk for FillableFolder {
    passed_on! {
        list() -> Vec<String>;
        length(name: &str) -> u64;
        read_at(name: &str, at: u64, into: &mut [u8]) -> usize;
        create(name: &str) -> ();
        sync_file(name: &str) -> ();
        sync_folder() -> ();
        rename(from: &str, to: &str) -> ();
        remove(name: &str) -> ();
        truncate(name: &str, length: u64) -> ();
    }

    fn write_at(&mut self, name: &str, at: u64, bytes: &[u8]) -> Result<(), DiskError> {
        match self.is_full.load(Ordering::SeqCst) {
            true => Err(DiskError::Full),
            false => self.disk.write_at(name, at, bytes),
        }
    }

    fn place(&self) -> String {
        self.disk.place()
    }
}

#[test]
fn wait_for_room_is_traced_at_its_begin_and_its_end() {
    let warnings = Warnings::default();
    tracing::subscriber::set_global_default(warnings.clone()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let disk =
        FillableFolder { disk: LogFolder::open(folder.path()).unwrap(), is_full: Arc::default() };
    let is_full = Arc::clone(&disk.is_full);
    let logs = Logs::start_on(disk, GROUP, LOG, small()).unwrap();
    let stream = StreamKey(0x77);
    let (handle, _) = logs.stream(stream, FullDiskPolicy::Wait, || {}).unwrap();
    let push = |version| {
        let mut batch = handle.batch();
        batch.push(entry(version, &[7; 50])).unwrap();
        handle.try_push(batch).unwrap();
    };
    push(1);
    until(|| handle.durable() == Version(1));
    let (name, place) = (stream.to_string(), folder.path().display().to_string());
    assert!(!warnings.mention(&[&name]));
    is_full.store(true, Ordering::SeqCst);
    push(2);
    until(|| handle.state() == StreamState::Full);
    assert!(warnings.mention(&[&name, "waits for room", "make room", &place]));
    assert!(!warnings.mention(&[&name, "has room again"]));
    is_full.store(false, Ordering::SeqCst);
    until(|| handle.state() == StreamState::Open);
    assert!(warnings.mention(&[&name, "has room again"]));
    until(|| handle.durable() == Version(2));
    assert_eq!(logs.close(LONG), CloseOutcome::Clean);
}

/// The queue of a slow disk is bounded by bytes as well as by batches; no refused batch is lost.
#[test]
fn queue_of_log_thread_is_bounded_by_bytes() {
    const MOST: usize = 100_000;
    let dir = tempfile::tempdir().unwrap();
    let settings = LogSettings { queue: 1_000, queue_bytes: MOST, ..small() };
    let logs = Logs::start(dir.path(), GROUP, LOG, settings).unwrap();
    let (handle, _) = logs.stream(STREAM, FullDiskPolicy::Wait, || {}).unwrap();
    let (goes_on, stands_still) = sync_channel(0);
    let (begun, begins) = sync_channel(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let stand_still = move |_: &mut StreamLog, _: &mut LogFolder| {
                begun.send(()).unwrap();
                stands_still.recv().unwrap();
                Ok(())
            };
            handle.with(stand_still).unwrap();
        });
        begins.recv().unwrap();
        let mut version = 1;
        let refused = loop {
            let mut batch = handle.batch();
            batch.push(entry(version, &[7; 5000])).unwrap();
            match handle.try_push(batch) {
                Ok(()) => version += 1,
                Err(PushRefusal::Full(batch)) => break batch,
                Err(over) => panic!("{over:?}"),
            }
        };
        let waits = (version - 1) as usize * 5000;
        assert!((MOST / 2..=MOST).contains(&waits), "{waits} bytes wait");
        goes_on.send(()).unwrap();
        let mut refused = Some(refused);
        until_some(&mut None, || {
            let batch = refused.take()?;
            match handle.try_push(batch) {
                Err(PushRefusal::Full(batch)) => refused = Some(batch),
                pushed => {
                    pushed.unwrap();
                    return Some(());
                }
            }
            None
        });
        until(|| handle.durable() == Version(version));
        // A batch larger than the limit is accepted alone.
        let mut batch = handle.batch();
        batch.push(entry(version + 1, &[7; 2 * MOST])).unwrap();
        handle.try_push(batch).unwrap();
        until(|| handle.durable() == Version(version + 1));
    });
    assert_eq!(logs.close(LONG), CloseOutcome::Clean);
}

fn until_some<T>(found: &mut Option<T>, mut look: impl FnMut() -> Option<T>) {
    let deadline = Instant::now() + LONG;
    while found.is_none() {
        assert!(Instant::now() < deadline, "it never comes");
        *found = look();
    }
}

#[test]
fn no_record_becomes_durable_after_failed_sync() {
    let mut disk = SimDisk::new(3);
    disk.plan(DiskFaults { failing_syncs: 40, ..DiskFaults::default() });
    let Ok(logs) = Logs::start_on(disk, GROUP, LOG, small()) else { panic!("another seed") };
    let (handle, _) = logs.stream(STREAM, FullDiskPolicy::Wait, || {}).unwrap();
    let mut version = 0;
    while handle.state() == StreamState::Open {
        version += 1;
        assert!(version < 10_000, "no sync fails");
        let mut batch = handle.batch();
        batch.push(entry(version, b"fly")).unwrap();
        if handle.try_push(batch).is_ok() {
            // One by one, so that each has a sync of its own.
            until(|| handle.durable() == Version(version) || handle.state() != StreamState::Open);
        }
    }
    assert_eq!((handle.state(), handle.durable() < Version(version)), (StreamState::Failed, true));
    let durable = handle.durable();
    assert!(handle.with(|log, disk| log.commit(disk)).is_err());
    assert_eq!(logs.close(LONG), CloseOutcome::Clean);
    assert_eq!((handle.durable(), handle.state()), (durable, StreamState::Failed));
}

#[test]
fn close_reports_log_thread_that_misses_its_time_limit() {
    let logs = Logs::start_on(SimDisk::new(1), GROUP, LOG, small()).unwrap();
    let (handle, _) = logs.stream(STREAM, FullDiskPolicy::Wait, || {}).unwrap();
    let (begin, begun) = sync_channel::<()>(0);
    let (end, ended) = sync_channel::<()>(0);
    let busy = std::thread::spawn(move || {
        handle.with(move |_, _| {
            begin.send(()).unwrap();
            let _ = ended.recv();
            Ok(())
        })
    });
    begun.recv().unwrap();
    assert_eq!(logs.close(Duration::from_millis(20)), CloseOutcome::Late);
    end.send(()).unwrap();
    busy.join().unwrap().unwrap();
}

const CHILD: &str = "SQUALL_TEST_LOG_WRITER";

/// Body of the killed process; not a test, unless a folder is given.
#[test]
fn a_writer_that_will_be_killed() {
    let Ok(dir) = std::env::var(CHILD) else { return };
    let logs = Logs::start(Path::new(&dir), GROUP, LOG, small()).unwrap();
    let (handle, _) = logs.stream(STREAM, FullDiskPolicy::Wait, || {}).unwrap();
    let mut next = handle.durable().0 + 1;
    let mut random = Random::new(next);
    let mut out = std::io::stdout();
    loop {
        let end = next + random.between(1, 30);
        push(&handle, next..end);
        next = end;
        if random.one_in(50) {
            let keep = SegmentRetention { messages: Some(500), ..SegmentRetention::default() };
            handle.with(move |log, disk| log.retain(disk, keep, WallTime(0))).unwrap();
        }
        // A reader of this line knows that this version is durable.
        writeln!(out, "durable {}", handle.durable()).unwrap();
    }
}

#[test]
fn killed_process_loses_no_record_reported_durable() {
    let dir = tempfile::tempdir().unwrap();
    let mut random = Random::new(5);
    let (mut last, mut torn) = (0, 0);
    for cycle in 0..30 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "a_writer_that_will_be_killed", "--nocapture"])
            .env(CHILD, dir.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (said, heard) = sync_channel(100_000);
        let out = BufReader::new(child.stdout.take().unwrap());
        let reader = std::thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                let number = line.strip_prefix("durable ").and_then(|number| number.parse().ok());
                number.map(|number: u64| said.send(number));
            }
        });
        // At least one line, so that the process was alive.
        let mut durable: u64 = heard.recv_timeout(LONG).unwrap();
        std::thread::sleep(Duration::from_micros(random.below(60_000)));
        child.kill().unwrap();
        child.wait().unwrap();
        // A complete line was written before the kill.
        heard.iter().for_each(|number| durable = durable.max(number));
        reader.join().unwrap();
        let owner = LogOwner { group: GROUP, log: LOG };
        let mut disk = LogFolder::open(dir.path()).unwrap();
        let (log, recovery) = StreamLog::open(
            &mut disk,
            LogKey { owner, stream: STREAM },
            small().limits,
            RecoveryCheck::All,
        )
        .unwrap();
        torn += u64::from(recovery.torn.is_some());
        assert!(
            log.durable().0 >= durable && durable >= last,
            "cycle {cycle}: {} of {durable}",
            log.durable()
        );
        last = look(&mut disk, RecoveryCheck::All).1;
    }
    println!("{last} messages in 30 lives, {torn} torn tails");
    assert!(last > 1000);
}
