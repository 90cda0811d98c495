//! Harmed logs: what is claimed of them, and when they are put aside.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use derecho_core::ids::NodeId;
use derecho_core::log::aside;
use derecho_core::log::segment::FILE_HEADER;
use derecho_core::log::{
    Check, Disk, DiskError, Entry, EpochId, GroupId, KeyHash, Kind, Limits, LogError, LogId, Mark,
    Owner, StreamKey, StreamLog, Tail, Version, WallTime, folder,
};
use derecho_core::storage::errands::{self, Neighbour};
use derecho_core::storage::harmed::{self, Harm, Harmed};
use derecho_core::storage::journal::{Answer, Errand};
use derecho_core::storage::logbook::Claim;
use derecho_sim::disk::{Mishaps, SimDisk};

const STREAM: StreamKey = StreamKey(7);
const GROUP: GroupId = GroupId(9);
const EPOCH: EpochId = EpochId { view: 1, sequence: 5 };
/// Small, so that logs have many files.
const LIMITS: Limits = Limits { segment_bytes: 8 << 10 };
const MESSAGES: u64 = 40;

fn owner(id: u128) -> Owner {
    Owner { group: GROUP, log: LogId(id) }
}

/// A folder with a log of so many messages in several files, kept by logs 1 and 2.
fn folder_of(id: u128, messages: u64) -> SimDisk {
    let mut disk = SimDisk::new(id as u64);
    folder::claim(&mut disk, GROUP, LogId(id)).unwrap();
    let (mut log, _) = StreamLog::open(&mut disk, (owner(id), STREAM), LIMITS, Check::All).unwrap();
    log.mark(&Mark::Begun(EPOCH, vec![LogId(1), LogId(2)]), WallTime(0), &disk).unwrap();
    for number in 0..messages {
        let payload = [number as u8; 600];
        let entry = Entry {
            kind: Kind::Sample,
            epoch: EPOCH,
            writer: NodeId(1),
            writer_sequence: number,
            source_time: WallTime(0),
            reception_time: WallTime(0),
            key: KeyHash::default(),
            payload: &payload,
        };
        log.append(entry, &disk).unwrap();
        log.commit(&mut disk).unwrap();
    }
    disk
}

fn segments(disk: &SimDisk) -> Vec<String> {
    disk.files().into_iter().filter(|name| name.ends_with(".log")).collect()
}

fn is_harmed(id: u128, disk: &mut SimDisk) -> bool {
    match StreamLog::open(disk, (owner(id), STREAM), LIMITS, Check::All) {
        Ok(_) => false,
        Err(error) => {
            assert!(error.is_harm(), "{error}");
            true
        }
    }
}

/// The same with a bad record in the middle.
fn harmed_folder(id: u128, messages: u64) -> SimDisk {
    let mut disk = folder_of(id, messages);
    let files = segments(&disk);
    assert!(files.len() > 3, "{files:?}");
    disk.flip(&files[1], (FILE_HEADER + 1200) * 8);
    assert!(is_harmed(id, &mut disk));
    disk
}

fn neighbour<D>(id: u128, disk: D) -> Neighbour<D> {
    Neighbour { log: LogId(id), disk, busy: false, known: None, harm: None }
}

fn judge<D: Disk, N: Disk>(errand: &Errand, disk: &mut D, others: &mut [Neighbour<N>]) -> Harmed {
    let harm = Harm::of(disk, (owner(2), STREAM), LogError::Failed);
    harmed::judge(errand, (owner(2), STREAM, disk), others, (&[], &harm)).unwrap()
}

fn claimed(harmed: Harmed) -> Claim {
    match harmed {
        Harmed::Claimed(claim) => claim,
        Harmed::PutAside(number) => panic!("it was put aside as {number}"),
    }
}

#[test]
fn a_harmed_log_is_put_aside_when_a_sound_one_in_reach_covers_it() {
    let mut disk = harmed_folder(2, MESSAGES);
    // Others hold the store, and may be gone before they have completed anything.
    let claim = claimed(judge(
        &Errand::Claim(false),
        &mut disk,
        &mut [neighbour(1, folder_of(1, MESSAGES))],
    ));
    assert_eq!((claim.found.tail.version, &claim.harmed[..]), (Version(MESSAGES), &[LogId(2)][..]));
    // One message more.
    let mut shorter = [neighbour(1, folder_of(1, MESSAGES - 1))];
    let claim = claimed(judge(&Errand::Claim(true), &mut disk, &mut shorter));
    assert_eq!((&claim.awaits[..], &claim.accounts[..]), (&[LogId(1)][..], &[][..]));
    // Both are harmed.
    let mut both = [neighbour(1, harmed_folder(1, MESSAGES))];
    let claim = claimed(judge(&Errand::Claim(true), &mut disk, &mut both));
    assert_eq!(claim.harmed, [LogId(2), LogId(1)]);
    let before = disk.files();
    let mut sound = [neighbour(1, folder_of(1, MESSAGES))];
    assert!(matches!(judge(&Errand::Claim(true), &mut disk, &mut sound), Harmed::PutAside(1)));
    assert!(!is_harmed(2, &mut disk) && before != disk.files());
}

#[test]
fn a_harmed_log_is_put_aside_when_others_complete_it_and_never_read() {
    let none: &mut [Neighbour<SimDisk>] = &mut [];
    let mut disk = harmed_folder(2, MESSAGES);
    let harm = Harm::of(&mut disk, (owner(2), STREAM), LogError::Failed);
    for errand in [Errand::Recall(Vec::new()), Errand::Roll] {
        let judged = harmed::judge(&errand, (owner(2), STREAM, &mut disk), none, (&[], &harm));
        assert_eq!(judged.err(), Some(LogError::Failed));
    }
    assert!(is_harmed(2, &mut disk));
    let complete = Errand::Complete(Vec::new(), Version(MESSAGES), (Tail::default(), 1));
    assert!(matches!(judge(&complete, &mut disk, none), Harmed::PutAside(1)));
    // The operator's word.
    let mut disk = harmed_folder(2, MESSAGES);
    let own = (owner(2), STREAM, &mut disk);
    let judged = harmed::judge(&Errand::Claim(true), own, none, (&[LogId(2)], &harm));
    assert!(matches!(judged, Ok(Harmed::PutAside(1))));
}

/// A disk on which one file cannot be read.
struct Unreadable(SimDisk, String);

impl Disk for Unreadable {
    fn list(&mut self) -> Result<Vec<String>, DiskError> {
        self.0.list()
    }
    fn length(&mut self, name: &str) -> Result<u64, DiskError> {
        self.0.length(name)
    }
    fn read_at(&mut self, name: &str, at: u64, into: &mut [u8]) -> Result<usize, DiskError> {
        match name == self.1 {
            true => Err(DiskError::Other("the medium is bad".into())),
            false => self.0.read_at(name, at, into),
        }
    }
    fn create(&mut self, name: &str) -> Result<(), DiskError> {
        self.0.create(name)
    }
    fn write_at(&mut self, name: &str, at: u64, bytes: &[u8]) -> Result<(), DiskError> {
        self.0.write_at(name, at, bytes)
    }
    fn sync_file(&mut self, name: &str) -> Result<(), DiskError> {
        self.0.sync_file(name)
    }
    fn sync_folder(&mut self) -> Result<(), DiskError> {
        self.0.sync_folder()
    }
    fn rename(&mut self, from: &str, to: &str) -> Result<(), DiskError> {
        self.0.rename(from, to)
    }
    fn remove(&mut self, name: &str) -> Result<(), DiskError> {
        self.0.remove(name)
    }
    fn truncate(&mut self, name: &str, length: u64) -> Result<(), DiskError> {
        self.0.truncate(name, length)
    }
}

/// Nothing covers a log of which the end or the last keepers are not known.
#[test]
fn a_log_whose_end_is_not_known_is_covered_by_none() {
    let mut sound = [neighbour(1, folder_of(1, MESSAGES))];
    let mut is_unknown = |mut disk: Box<dyn Disk>| {
        let claim = claimed(judge(&Errand::Claim(true), &mut disk, &mut sound));
        claim.found.tail.version == Version(u64::MAX)
    };
    let harmed = harmed_folder(2, MESSAGES);
    let files = segments(&harmed);
    let middle = files[2].clone();
    assert!(is_unknown(Box::new(Unreadable(harmed, middle))), "a file cannot be read");
    let mut cut = folder_of(2, MESSAGES);
    cut.remove(&files[files.len() - 1]).unwrap();
    assert!(is_unknown(Box::new(cut)), "the last file is gone");
    let mut headless = folder_of(2, MESSAGES);
    headless.flip(&files[files.len() - 1], 8);
    assert!(is_unknown(Box::new(headless)), "the last file has no header");
    // The beginning says nothing of the end.
    let mut beheaded = folder_of(2, MESSAGES);
    beheaded.remove(&files[0]).unwrap();
    assert!(matches!(judge(&Errand::Claim(true), &mut beheaded, &mut sound), Harmed::PutAside(1)));
}

/// A member whose neighbour's log is harmed accounts for it if its own log covers it. Harm in closed files is found where the
/// neighbour's log would win.
#[test]
fn a_harmed_log_in_reach_is_accounted_for_by_one_that_covers_it() {
    let claim_beside = |messages, other: SimDisk| {
        let mut disk = folder_of(1, messages);
        let (mut log, _) =
            StreamLog::open(&mut disk, (owner(1), STREAM), LIMITS, Check::All).unwrap();
        let mut others = [neighbour(2, other)];
        let run = errands::run(&Errand::Claim(true), &mut log, &mut disk, &mut others);
        let Answer::Claimed(claim) = run else { panic!("no claim") };
        claim
    };
    let mut last = folder_of(2, MESSAGES);
    last.flip(&segments(&last)[3], (FILE_HEADER + 1200) * 8);
    let claim = claim_beside(MESSAGES, last);
    assert_eq!((&claim.harmed[..], &claim.accounts[..]), (&[LogId(2)][..], &[LogId(2)][..]));
    assert!(claim.awaits.is_empty());
    let claim = claim_beside(MESSAGES - 1, harmed_folder(2, MESSAGES));
    assert_eq!((&claim.harmed[..], &claim.awaits[..]), (&[LogId(2)][..], &[LogId(2)][..]));
    assert!(claim.accounts.is_empty());
}

/// Wherever a crash comes while a log is put aside, what is left is harmed, and goes to the same number.
#[test]
fn a_crash_while_a_log_is_put_aside_leaves_it_harmed() {
    let (mut crashes, mut at) = (0, 0);
    for seed in 0.. {
        let mut disk = harmed_folder(2, MESSAGES);
        let files = segments(&disk);
        at = if seed % 2 == 0 { at + 1 } else { at };
        disk.plan(Mishaps { crash_at: Some(at), ..Mishaps::default() });
        let done = aside::put_harmed(&mut disk, STREAM);
        let crashed = disk.has_crashed();
        match seed % 2 {
            0 => disk.kill(),
            _ => disk.lose_power(),
        }
        if crashed && done.is_err() {
            crashes += 1;
            let mut sound = [neighbour(1, folder_of(1, MESSAGES))];
            if is_harmed(2, &mut disk) {
                let judged = judge(&Errand::Claim(true), &mut disk, &mut sound);
                assert!(matches!(judged, Harmed::PutAside(1)), "step {at}");
            }
        }
        let aside = disk
            .files()
            .into_iter()
            .filter_map(|name| name.strip_suffix(".1.aside").map(str::to_owned));
        assert_eq!(aside.collect::<Vec<_>>(), files, "step {at}");
        assert!(!is_harmed(2, &mut disk), "step {at}");
        if !crashed {
            break;
        }
    }
    assert!(crashes > 20, "{crashes} crashes");
}
