//! Cost of a log beside plain appending to a file with the same syncs, and the time to open a
//! long log.
//!
//! `cargo bench -p squall-benches --bench log -- [--records N] [--dir DIR] [--rounds N]`. Both
//! sides alternate; the results are medians of the rounds. The folder must be on the disk to
//! measure; the default is the system's folder for temporary files.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use derecho_core::ids::NodeId;
use derecho_core::log::{
    Disk, EpochId, GroupId, KeyHash, LogEntry, LogId, LogKey, LogLimits, LogOwner, RecordKind,
    RecoveryCheck, StreamKey, StreamLog, WallTime,
};
use derecho_node::logs::{FullDiskPolicy, LogFolder, LogSettings, Logs, PushRefusal};

const OWNER: LogOwner = LogOwner { group: GroupId(1), log: LogId(2) };

/// Records that are written.
#[derive(Clone, Copy)]
struct Load {
    /// Size of each record in bytes.
    size: usize,
    /// Number of records of a batch.
    batch: usize,
    /// Size of all records in bytes.
    total: usize,
}

struct Options {
    records: u64,
    rounds: usize,
    dir: PathBuf,
}

fn main() {
    let options = options();
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let model = read("/proc/cpuinfo");
    let model =
        model.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or("").to_owned();
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let commit = std::process::Command::new("git").args(["rev-parse", "--short", "HEAD"]).output();
    let commit = commit.map(|done| String::from_utf8_lossy(&done.stdout).trim().to_owned());
    println!(
        "machine{model}, {cores} cores, Linux {}, folder {}, commit {}, rounds {}",
        read("/proc/sys/kernel/osrelease").trim(),
        options.dir.display(),
        commit.unwrap_or_default(),
        options.rounds
    );
    println!("\nappending, one write and one fdatasync for each batch, plain file beside log:");
    for (size, batch, total) in [
        (10 << 10, 64, 256 << 20),
        (10 << 10, 1024, 256 << 20),
        (128, 4096, 64 << 20),
        (128, 65536, 64 << 20),
    ] {
        appending(&options, "random", Load { size, batch, total });
    }
    println!("\nthrough the log thread, which takes what is ready:");
    threaded(&options, Load { size: 10 << 10, batch: 64, total: 256 << 20 });
    threaded(&options, Load { size: 128, batch: 1024, total: 128 << 20 });
    println!("\nDerecho's table 1: 4 MiB objects, each synced, MB/s:");
    for what in ["text", "random", "zeros"] {
        appending(&options, what, Load { size: 4 << 20, batch: 1, total: 512 << 20 });
    }
    println!("\nopening again:");
    reopening(&options);
}

fn options() -> Options {
    let mut options = Options { records: 10_000_000, rounds: 3, dir: std::env::temp_dir() };
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let mut value = || arguments.next().expect("an option has a value");
        match name.as_str() {
            "--records" => options.records = value().parse().expect("a number of records"),
            "--rounds" => options.rounds = value().parse().expect("a number of rounds"),
            "--dir" => options.dir = value().into(),
            _ => {}
        }
    }
    options
}

fn payload(what: &str, size: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut word = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    match what {
        "zeros" => vec![0; size],
        "text" => (0..size).map(|_| b"etaoin shrdlu cmfwyp"[(word() % 20) as usize]).collect(),
        _ => (0..size).map(|_| word() as u8).collect(),
    }
}

fn entry(payload: &[u8], at: u64) -> LogEntry<'_> {
    LogEntry {
        kind: RecordKind::Sample,
        epoch: EpochId { view: 1, sequence: 0 },
        writer: NodeId(1),
        writer_sequence: at,
        source_time: WallTime(at),
        reception_time: WallTime(at),
        key: KeyHash([1; 16]),
        payload,
    }
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times[times.len() / 2].as_secs_f64()
}

fn folder(options: &Options) -> tempfile::TempDir {
    tempfile::tempdir_in(&options.dir).expect("a folder can be made")
}

fn plain(dir: &Path, payload: &[u8], load: Load) -> Duration {
    let file = File::create(dir.join("plain")).expect("a file can be made");
    let count = load.total / load.size;
    let start = Instant::now();
    let mut bytes = Vec::new();
    let mut at = 0;
    for from in (0..count).step_by(load.batch) {
        bytes.clear();
        (from..count.min(from + load.batch)).for_each(|_| bytes.extend_from_slice(payload));
        file.write_all_at(&bytes, at).expect("it can be written");
        at += bytes.len() as u64;
        file.sync_data().expect("it can be synced");
    }
    start.elapsed()
}

fn logged(dir: &Path, payload: &[u8], load: Load) -> Duration {
    let mut disk = LogFolder::open(dir).expect("the folder is ours");
    let opened = StreamLog::open(
        &mut disk,
        LogKey { owner: OWNER, stream: StreamKey(3) },
        LogLimits::default(),
        RecoveryCheck::Last,
    );
    let mut log = opened.expect("a new log").0;
    let count = load.total / load.size;
    let start = Instant::now();
    for from in (0..count).step_by(load.batch) {
        for at in from..count.min(from + load.batch) {
            log.append(entry(payload, at as u64), &disk).expect("it is appended");
        }
        log.commit(&mut disk).expect("it is committed");
    }
    start.elapsed()
}

fn appending(options: &Options, what: &str, load: Load) {
    let Load { size, batch, total } = load;
    let payload = payload(what, size);
    let (mut plains, mut logs) = (Vec::new(), Vec::new());
    for _ in 0..options.rounds {
        plains.push(plain(folder(options).path(), &payload, load));
        logs.push(logged(folder(options).path(), &payload, load));
    }
    let (plain, log) = (median(plains), median(logs));
    let rate = |seconds: f64| (total as f64 / seconds / 1e6, (total / size) as f64 / seconds);
    println!(
        "{size:>8} B, {what:<6}, batches of {batch:>5}: plain {:>7.1} MB/s {:>9.0} records/s; log {:>7.1} MB/s {:>9.0} records/s; {:.2}",
        rate(plain).0,
        rate(plain).1,
        rate(log).0,
        rate(log).1,
        plain / log
    );
}

fn threaded(options: &Options, load: Load) {
    let Load { size, batch, total } = load;
    let payload = payload("random", size);
    let count = (total / size) as u64;
    let mut times = Vec::new();
    for _ in 0..options.rounds {
        let dir = folder(options);
        let settings = LogSettings { queue: 64, ..LogSettings::default() };
        let logs =
            Logs::start(dir.path(), OWNER.group, OWNER.log, settings).expect("the folder is ours");
        let (handle, _) =
            logs.stream(StreamKey(3), FullDiskPolicy::Wait, || {}).expect("a new log");
        let start = Instant::now();
        let mut next = 0;
        while next < count {
            let mut full = handle.batch();
            for _ in 0..batch.min((count - next) as usize) {
                full.push(entry(&payload, next)).expect("it is short");
                next += 1;
            }
            while let Err(refused) = handle.try_push(full) {
                let PushRefusal::Full(back) = refused else { panic!("the log has failed") };
                full = back;
                std::thread::yield_now();
            }
        }
        while handle.durable().0 < count {
            std::thread::yield_now();
        }
        times.push(start.elapsed());
    }
    let seconds = median(times);
    println!(
        "{size:>8} B, batches of {batch:>5} in a queue of 64: {:>7.1} MB/s {:>9.0} records/s",
        total as f64 / seconds / 1e6,
        count as f64 / seconds
    );
}

fn reopening(options: &Options) {
    let dir = folder(options);
    let payload = payload("random", 128);
    let load = Load { size: 128, batch: 65536, total: 128 * options.records as usize };
    let made = logged(dir.path(), &payload, load);
    let open = |check| {
        let mut disk = LogFolder::open(dir.path()).expect("the folder is ours");
        let start = Instant::now();
        let opened = StreamLog::open(
            &mut disk,
            LogKey { owner: OWNER, stream: StreamKey(3) },
            LogLimits::default(),
            check,
        );
        let (log, recovery) = opened.expect("it can be opened");
        assert_eq!((log.durable().0, recovery.torn), (options.records, None));
        (start.elapsed(), log, disk)
    };
    let warm = median((0..options.rounds).map(|_| open(RecoveryCheck::Last).0).collect());
    let cold = median(
        (0..options.rounds)
            .map(|_| {
                forget(dir.path());
                open(RecoveryCheck::Last).0
            })
            .collect(),
    );
    let all = open(RecoveryCheck::All).0;
    let (_, log, mut disk) = open(RecoveryCheck::Last);
    let start = Instant::now();
    let mut cursor = log.after(derecho_core::log::Version(0)).expect("it is complete");
    let mut read = 0;
    while cursor.next(&mut disk, &log).expect("it is sound").is_some() {
        read += 1;
    }
    let reading = start.elapsed();
    let mut bytes = 0;
    for name in disk.list().expect("it can be listed") {
        bytes += disk.length(&name).unwrap_or(0);
    }
    println!(
        "{} records of 128 B, {:.2} GB, written in {:.1} s: open {:.3} s, from a cold cache {:.3} s; \
         everything checked {:.2} s; all {read} read in {:.2} s",
        options.records,
        bytes as f64 / 1e9,
        made.as_secs_f64(),
        warm,
        cold,
        all.as_secs_f64(),
        reading.as_secs_f64()
    );
}

/// Drops the files from the system's page cache.
fn forget(dir: &Path) {
    for file in fs::read_dir(dir).expect("it can be listed").flatten() {
        let Ok(file) = File::open(file.path()) else { continue };
        let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed);
    }
}
