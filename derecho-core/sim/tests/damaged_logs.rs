//! Damaged logs: their claims, and the conditions for putting them aside.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;

use derecho_core::bytes::Wire;
use derecho_core::ids::NodeId;
use derecho_core::log::aside;
use derecho_core::log::restart_permission::{PermittedDamage, RestartPermission};
use derecho_core::log::segment::FILE_HEADER;
use derecho_core::log::views::{LoggedMember, LoggedView, VIEWS};
use derecho_core::log::{
    Disk, EpochId, EpochMark, GroupId, KeyHash, LogEntry, LogError, LogId, LogKey, LogLimits,
    LogOwner, RecordKind, RecoveryCheck, StreamKey, StreamLog, Tail, Version, WallTime, folder,
};
use derecho_core::storage::log_damage::{self, DamageOutcome, LogDamage};
use derecho_core::storage::log_election::{ElectionState, LogClaim, LogElection};
use derecho_core::storage::log_port::{LogTask, LogTaskResult};
use derecho_core::storage::log_tasks::{self, ReachableFolder};
use derecho_sim::disk::{DiskFaults, SimDisk};

const STREAM: StreamKey = StreamKey(7);
const GROUP: GroupId = GroupId(9);
const EPOCH: EpochId = EpochId { view: 1, sequence: 5 };
/// Small, so that logs have many files.
const LIMITS: LogLimits = LogLimits { segment_bytes: 8 << 10 };
const MESSAGES: u64 = 40;

fn key(id: u128) -> LogKey {
    LogKey { owner: owner(id), stream: STREAM }
}

fn owner(id: u128) -> LogOwner {
    LogOwner { group: GROUP, log: LogId(id) }
}

/// Returns a folder with a log of `messages` messages in several files, kept by logs 1 and 2.
fn folder_of(id: u128, messages: u64) -> SimDisk {
    let mut disk = SimDisk::new(id as u64);
    folder::claim(&mut disk, GROUP, LogId(id)).unwrap();
    let (mut log, _) = StreamLog::open(&mut disk, key(id), LIMITS, RecoveryCheck::All).unwrap();
    log.mark(&EpochMark::Begun(EPOCH, vec![LogId(1), LogId(2)]), WallTime(0), &disk).unwrap();
    for number in 0..messages {
        let payload = [number as u8; 600];
        let entry = LogEntry {
            kind: RecordKind::Sample,
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

fn is_damaged(id: u128, disk: &mut SimDisk) -> bool {
    match StreamLog::open(disk, key(id), LIMITS, RecoveryCheck::All) {
        Ok(_) => false,
        Err(error) => {
            assert!(error.is_damage(), "{error}");
            true
        }
    }
}

/// Returns such a folder with a bad record in the middle of its log.
fn damaged_folder(id: u128, messages: u64) -> SimDisk {
    let mut disk = folder_of(id, messages);
    let files = segments(&disk);
    assert!(files.len() > 3, "{files:?}");
    disk.flip(&files[1], (FILE_HEADER + 1200) * 8);
    assert!(is_damaged(id, &mut disk));
    disk
}

fn neighbour<D>(id: u128, disk: D) -> ReachableFolder<D> {
    ReachableFolder { log: LogId(id), disk, busy: false, open_log: None, damage: None }
}

fn judge<D: Disk, N: Disk>(
    task: &LogTask,
    disk: &mut D,
    others: &mut [ReachableFolder<N>],
) -> DamageOutcome {
    let damage = LogDamage::of(disk, key(2), LogError::Failed);
    log_damage::judge(task, key(2), disk, others, &damage).unwrap()
}

fn claimed(damaged: DamageOutcome) -> LogClaim {
    match damaged {
        DamageOutcome::Claimed(claim) => *claim,
        DamageOutcome::PutAside(number) => panic!("the log was put aside as {number}"),
    }
}

#[test]
fn harmed_log_is_put_aside_if_sound_log_in_reach_has_its_records() {
    let mut disk = damaged_folder(2, MESSAGES);
    // Others hold the store, and may be gone before they have completed anything.
    let claim = claimed(judge(
        &LogTask::Claim(false),
        &mut disk,
        &mut [neighbour(1, folder_of(1, MESSAGES))],
    ));
    assert_eq!(
        (claim.found.tail.version, &claim.damaged[..]),
        (Version(MESSAGES), &[LogId(2)][..])
    );
    // The damaged log has one message more.
    let mut shorter = [neighbour(1, folder_of(1, MESSAGES - 1))];
    let claim = claimed(judge(&LogTask::Claim(true), &mut disk, &mut shorter));
    assert_eq!((&claim.awaits[..], &claim.accounts[..]), (&[LogId(1)][..], &[][..]));
    // Both logs are damaged.
    let mut both = [neighbour(1, damaged_folder(1, MESSAGES))];
    let claim = claimed(judge(&LogTask::Claim(true), &mut disk, &mut both));
    assert_eq!(claim.damaged, [LogId(2), LogId(1)]);
    let before = disk.files();
    let mut sound = [neighbour(1, folder_of(1, MESSAGES))];
    assert!(matches!(
        judge(&LogTask::Claim(true), &mut disk, &mut sound),
        DamageOutcome::PutAside(1)
    ));
    assert!(!is_damaged(2, &mut disk) && before != disk.files());
}

#[test]
fn harmed_log_is_put_aside_if_completed_or_if_topic_begins_without_log() {
    let none: &mut [ReachableFolder<SimDisk>] = &mut [];
    let mut disk = damaged_folder(2, MESSAGES);
    let damage = LogDamage::of(&mut disk, key(2), LogError::Failed);
    let judged = log_damage::judge(&LogTask::Register, key(2), &mut disk, none, &damage);
    assert_eq!(judged.err(), Some(LogError::Failed));
    assert!(is_damaged(2, &mut disk));
    let complete = LogTask::Complete(Vec::new(), Version(MESSAGES), (Tail::default(), 1));
    assert!(matches!(judge(&complete, &mut disk, none), DamageOutcome::PutAside(1)));
    // The operator allows proceeding without the only log that is left.
    let mut disk = damaged_folder(2, MESSAGES);
    let mut claim = claimed(judge(&LogTask::Claim(true), &mut disk, none));
    let mut election = LogElection::default();
    election.claim(NodeId(2), 0, claim.clone());
    assert_eq!(election.state(0), ElectionState::Waits([LogId(1), LogId(2)].into()));
    for without in [LogId(1), LogId(2)] {
        let error = damage.error.to_string();
        let damaged = vec![PermittedDamage { stream: STREAM, last: 0, error }];
        let (at, by) = (WallTime(0), "operator".to_owned());
        let permission = RestartPermission { without, after: (0, 0), at, by, damaged };
        let words = [permission];
        let excused = log_tasks::excused(&words, key(2), &mut disk, Some(&damage), none);
        claim.accounts.extend(excused);
        election.claim(NodeId(2), 0, claim.clone());
    }
    assert_eq!(election.state(0), ElectionState::Begins(NodeId(2)));
    assert!(matches!(
        judge(&LogTask::Read(BTreeMap::new()), &mut disk, none),
        DamageOutcome::PutAside(1)
    ));
}

/// The operator's permission for a damaged log also counts when its folder belongs to a member
/// again; other damage needs another permission.
#[test]
fn operator_word_for_harmed_log_counts_only_for_this_harm() {
    let none: &mut [ReachableFolder<SimDisk>] = &mut [];
    let mut disk = damaged_folder(2, MESSAGES);
    let mut views = StreamLog::open(
        &mut disk,
        LogKey { owner: owner(2), stream: VIEWS },
        LIMITS,
        RecoveryCheck::All,
    )
    .unwrap()
    .0;
    let member = LoggedMember { node: NodeId(2), log: Some(LogId(2)), votes: 1, weight: 1 };
    let view = LoggedView { era: 1, number: 9, members: vec![member], awaits: Vec::new() };
    views.append(view.entry(&view.to_bytes(), WallTime(1)), &disk).unwrap();
    views.commit(&mut disk).unwrap();
    let word = |damaged| RestartPermission {
        without: LogId(2),
        after: (1, 8),
        at: WallTime(0),
        by: "operator".to_owned(),
        damaged,
    };
    let harm = LogDamage::of(&mut disk, key(2), LogError::Failed);
    let mut counts = |disk: &mut SimDisk, harm: Option<&LogDamage>, damaged| {
        !log_tasks::excused(&[word(damaged)], key(2), disk, harm, none).is_empty()
    };
    let error = LogError::Failed.to_string();
    let permitted = |stream| vec![PermittedDamage { stream, last: 0, error: error.clone() }];
    assert!(
        !counts(&mut disk, Some(&harm), vec![]),
        "the folder is back, and the permission names no damage"
    );
    assert!(
        !counts(&mut disk, Some(&harm), permitted(StreamKey(8))),
        "the permission is for another stream"
    );
    assert!(counts(&mut disk, Some(&harm), permitted(STREAM)));
    assert!(!counts(&mut disk, None, permitted(STREAM)), "the log is no longer damaged");
    let other = LogDamage { error: LogError::Locked, ..harm.clone() };
    assert!(
        !counts(&mut disk, Some(&other), permitted(STREAM)),
        "the permission is for other damage"
    );
    aside::put_damaged(&mut disk, STREAM).unwrap();
    assert!(!counts(&mut disk, Some(&harm), permitted(STREAM)), "the log was put aside");
}

/// No log covers one whose end or last keepers are unknown.
#[test]
fn no_log_covers_a_harmed_log_with_unknown_end() {
    let mut sound = [neighbour(1, folder_of(1, MESSAGES))];
    let mut is_unknown = |mut disk: SimDisk| {
        let claim = claimed(judge(&LogTask::Claim(true), &mut disk, &mut sound));
        claim.found.tail.version == Version(u64::MAX)
    };
    let mut damaged = damaged_folder(2, MESSAGES);
    let files = segments(&damaged);
    damaged.lose_medium(&files[2], FILE_HEADER);
    assert!(is_unknown(damaged), "a file cannot be read");
    let mut cut = folder_of(2, MESSAGES);
    cut.remove(&files[files.len() - 1]).unwrap();
    assert!(is_unknown(cut), "the last file is gone");
    let mut headless = folder_of(2, MESSAGES);
    headless.flip(&files[files.len() - 1], 8);
    assert!(is_unknown(headless), "the last file has no header");
    // A missing beginning does not affect the end.
    let mut beheaded = folder_of(2, MESSAGES);
    beheaded.remove(&files[0]).unwrap();
    assert!(matches!(
        judge(&LogTask::Claim(true), &mut beheaded, &mut sound),
        DamageOutcome::PutAside(1)
    ));
}

/// A member whose neighbour's log is damaged accounts for it if its own log covers it. Damage in
/// closed files is found where the neighbour's log would win.
#[test]
fn only_a_covering_log_accounts_for_a_harmed_log_in_reach() {
    let claim_beside = |messages, other: SimDisk| {
        let mut disk = folder_of(1, messages);
        let (mut log, _) = StreamLog::open(&mut disk, key(1), LIMITS, RecoveryCheck::All).unwrap();
        let mut others = [neighbour(2, other)];
        let run = log_tasks::run(&LogTask::Claim(true), &mut log, &mut disk, &mut others);
        let LogTaskResult::Claimed(claim) = run else { panic!("no claim") };
        claim
    };
    let mut last = folder_of(2, MESSAGES);
    last.flip(&segments(&last)[3], (FILE_HEADER + 1200) * 8);
    let claim = claim_beside(MESSAGES, last);
    assert_eq!((&claim.damaged[..], &claim.accounts[..]), (&[LogId(2)][..], &[LogId(2)][..]));
    assert!(claim.awaits.is_empty());
    let claim = claim_beside(MESSAGES - 1, damaged_folder(2, MESSAGES));
    assert_eq!((&claim.damaged[..], &claim.awaits[..]), (&[LogId(2)][..], &[LogId(2)][..]));
    assert!(claim.accounts.is_empty());
}

/// A crash at any moment of putting a log aside leaves the log damaged, and every file ends aside.
#[test]
fn log_stays_harmed_after_crash_while_being_put_aside() {
    let (mut crashes, mut at) = (0, 0);
    for seed in 0.. {
        let mut disk = damaged_folder(2, MESSAGES);
        let files = segments(&disk);
        at = if seed % 2 == 0 { at + 1 } else { at };
        disk.plan(DiskFaults { crash_at: Some(at), ..DiskFaults::default() });
        let done = aside::put_damaged(&mut disk, STREAM);
        let crashed = disk.has_crashed();
        match seed % 2 {
            0 => disk.kill(),
            _ => disk.lose_power(),
        }
        crashes += usize::from(crashed && done.is_err());
        let mut sound = [neighbour(1, folder_of(1, MESSAGES))];
        if is_damaged(2, &mut disk)
            && let DamageOutcome::Claimed(claim) =
                judge(&LogTask::Claim(true), &mut disk, &mut sound)
        {
            // Only the extent was left, so the end is unknown.
            assert_eq!(claim.found.tail.version, Version(u64::MAX), "step {at}");
            let left = disk.files().into_iter().filter(|name| files.contains(name)).count();
            assert_eq!(left, 0, "step {at}");
            aside::put_damaged(&mut disk, STREAM).unwrap();
        }
        let mut aside: Vec<String> = disk.files();
        aside.retain(|name| name.ends_with(".aside"));
        let names = aside.iter().map(|name| name.split_inclusive(".log").next().unwrap());
        assert_eq!(names.collect::<Vec<_>>(), files, "step {at}");
        assert!(!is_damaged(2, &mut disk), "step {at}");
        if !crashed {
            break;
        }
    }
    assert!(crashes > 20, "{crashes} crashes");
}

/// The end according to an extent also counts where the beginning is gone.
#[test]
fn a_log_with_two_harms_has_no_known_end() {
    let mut disk = folder_of(2, MESSAGES);
    let files = segments(&disk);
    disk.remove(&files[0]).unwrap();
    let last = &files[files.len() - 1];
    let length = disk.length(last).unwrap();
    disk.truncate(last, length - 1000).unwrap();
    disk.sync_file(last).unwrap();
    let damage = LogDamage::of(&mut disk, key(2), LogError::Failed);
    assert_eq!(damage.salvaged, None);
}

/// A disk error in another folder is no damage of the own log.
#[test]
fn unreadable_neighbour_log_is_awaited_unless_own_log_is_as_long() {
    for (messages, is_awaited) in [(MESSAGES, false), (MESSAGES - 1, true)] {
        let mut disk = folder_of(2, messages);
        let (mut log, _) = StreamLog::open(&mut disk, key(2), LIMITS, RecoveryCheck::All).unwrap();
        let mut other = folder_of(1, MESSAGES);
        let closed = segments(&other)[1].clone();
        other.lose_medium(&closed, FILE_HEADER);
        let mut others = [neighbour(1, other)];
        let run = log_tasks::run(&LogTask::Claim(true), &mut log, &mut disk, &mut others);
        let LogTaskResult::Claimed(claim) = run else { panic!("no claim") };
        assert_eq!(claim.awaits == [LogId(1)], is_awaited);
        assert_eq!(claim.accounts == [LogId(1)], !is_awaited);
        assert!(claim.damaged.is_empty() && claim.found.tail.version == Version(messages));
    }
}
