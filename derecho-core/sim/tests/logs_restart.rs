//! Total restarts over real logs: views and streams are logged, power is lost, the restart rule
//! decides, and its decision is applied to the logs (I-89 to I-92).
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;

use derecho_core::bytes::Wire;
use derecho_core::ids::NodeId;
use derecho_core::log::restart::{
    FolderSummary, GroupScope, LogCompletion, LogSummary, RestartVerdict, stream, view,
};
use derecho_core::log::views::{self, LoggedMember, LoggedView, VIEWS};
use derecho_core::log::{
    EpochId, EpochMark, GroupId, KeyHash, LogEntry, LogError, LogId, LogKey, LogLimits, LogOwner,
    LogRecord, OwnedRecord, RecordKind, RecoveryCheck, StreamKey, StreamLog, Version, WallTime,
};
use derecho_sim::{DiskFaults, Random, SimDisk};

const GROUP: GroupId = GroupId(1);
const STREAM: StreamKey = StreamKey(5);
const LIMITS: LogLimits = LogLimits { segment_bytes: 1500 };

/// Host with its disk, and its logs while it runs.
struct LogHost {
    id: LogId,
    disk: SimDisk,
    log: StreamLog,
    views: StreamLog,
}

impl LogHost {
    fn new(id: LogId, seed: u64) -> LogHost {
        let mut disk = SimDisk::new(seed);
        let (log, views) = open(&mut disk, id);
        LogHost { id, disk, log, views }
    }

    fn restart(&mut self) {
        self.disk.lose_power();
        (self.log, self.views) = open(&mut self.disk, self.id);
    }

    /// Logs the missing part of this order, up to this version.
    fn log_to(&mut self, order: &[Message], version: usize, sync: bool) {
        for message in &order[(self.log.tail().version.0 as usize).min(version)..version] {
            self.log.append(message.entry(), &self.disk).unwrap();
        }
        if sync {
            self.log.commit(&mut self.disk).unwrap();
        }
    }

    fn log_view(&mut self, view: &LoggedView) -> Result<(), LogError> {
        self.views.append(view.entry(&view.to_bytes(), WallTime(1)), &self.disk)?;
        self.views.commit(&mut self.disk).map(drop)
    }

    fn mark(&mut self, mark: &EpochMark) {
        self.log.mark(mark, WallTime(0), &self.disk).unwrap();
        self.log.commit(&mut self.disk).unwrap();
    }

    fn messages(&mut self, from: Version) -> Vec<OwnedRecord> {
        let mut cursor = self.log.after(from).unwrap();
        let mut all = Vec::new();
        while let Some(record) = cursor.next(&mut self.disk, &self.log).unwrap() {
            all.push(record.to_owned());
        }
        all
    }
}

fn open(disk: &mut SimDisk, id: LogId) -> (StreamLog, StreamLog) {
    let owner = LogOwner { group: GROUP, log: id };
    let mut open = |stream| {
        StreamLog::open(disk, LogKey { owner, stream }, LIMITS, RecoveryCheck::All).unwrap().0
    };
    (open(STREAM), open(VIEWS))
}

#[derive(Clone, Copy)]
struct Message {
    number: u64,
    epoch: EpochId,
}

impl Message {
    fn entry(&self) -> LogEntry<'static> {
        LogEntry {
            kind: RecordKind::Sample,
            epoch: self.epoch,
            writer: NodeId(1),
            writer_sequence: self.number,
            source_time: WallTime(self.number),
            reception_time: WallTime(self.number),
            key: KeyHash([(self.number % 4) as u8; 16]),
            payload: &[9; 100],
        }
    }
}

fn epoch(view: u64) -> EpochId {
    EpochId { view, sequence: 0 }
}

fn view_of(number: u64, keepers: &[LogId]) -> LoggedView {
    let members = keepers.iter().map(|log| LoggedMember {
        node: NodeId(log.0),
        log: Some(*log),
        votes: 1,
        weight: 1,
    });
    LoggedView { era: 1, number, members: members.collect(), awaits: Vec::new() }
}

/// Returns two epochs; the second one begins, without one of the three hosts, when some have logged
/// beyond the cut.
fn history(seed: u64) -> (Vec<LogHost>, Vec<u64>) {
    let mut random = Random::new(seed);
    let ids = [LogId(10), LogId(11), LogId(12)];
    let mut hosts: Vec<LogHost> =
        ids.iter().zip(0..).map(|(id, at)| LogHost::new(*id, seed * 3 + at)).collect();
    let count = random.between(1, 40);
    let first: Vec<Message> =
        (0..count).map(|number| Message { number, epoch: epoch(1) }).collect();
    let mut received = Vec::new();
    for host in &mut hosts {
        host.log_view(&view_of(1, &ids)).unwrap();
        host.mark(&EpochMark::Begun(epoch(1), ids.to_vec()));
        let has = random.between(0, count) as usize;
        let logs = random.between(0, has as u64) as usize;
        host.log_to(&first, logs, true);
        // Unsynced records may be lost or not.
        host.log_to(&first, has, false);
        received.push((has, logs));
    }
    let least = |of: &[(usize, usize)]| of.iter().map(|(_, logs)| *logs).min().unwrap();
    let mut durable: Vec<u64> =
        first[..least(&received)].iter().map(|message| message.number).collect();
    if random.one_in(3) {
        return (hosts, durable);
    }
    // The third host is gone. The cut is durable at both others before either continues.
    let trim = received[..2].iter().map(|(has, _)| *has).min().unwrap();
    let cut = EpochMark::Cut(epoch(1), Version(trim as u64));
    let survivors = [ids[0], ids[1]];
    for host in &mut hosts[..2] {
        host.mark(&cut);
    }
    if random.one_in(4) {
        return (hosts, durable);
    }
    let mut second = first[..trim].to_vec();
    second.extend(
        (0..random.below(20)).map(|number| Message { number: 1000 + number, epoch: epoch(2) }),
    );
    let mut logged = Vec::new();
    for host in &mut hosts[..2] {
        host.log.cut_after(&mut host.disk, Version(trim as u64)).unwrap();
        host.mark(&cut);
        host.log_view(&view_of(2, &survivors)).unwrap();
        host.mark(&EpochMark::Begun(epoch(2), survivors.to_vec()));
        let logs = random.between(trim as u64, second.len() as u64) as usize;
        host.log_to(&second, logs, true);
        logged.push(logs);
        if random.one_in(5) {
            return (hosts, durable);
        }
    }
    durable =
        second[..*logged.iter().min().unwrap()].iter().map(|message| message.number).collect();
    (hosts, durable)
}

fn numbers(records: &[OwnedRecord]) -> Vec<u64> {
    records.iter().map(|owned| owned.record().entry.writer_sequence).collect()
}

#[test]
fn returned_members_agree_after_restart_and_keep_durable_records() {
    let (mut restarted, mut anew) = (0, 0);
    for seed in 0..600 {
        let (mut hosts, durable) = history(seed);
        let mut random = Random::new(seed ^ 77);
        hosts.retain(|_| !random.one_in(4));
        let mut found = BTreeMap::new();
        for host in &mut hosts {
            host.restart();
            let views = views::all(&host.views, &mut host.disk).unwrap();
            let streams = BTreeMap::from([(STREAM, LogSummary::of(&host.log))]);
            found.insert(host.id, FolderSummary { views, streams });
        }
        let RestartVerdict::Ready(last) = view(GroupScope::Networked, &found) else { continue };
        assert!(
            found.values().flat_map(|found| &found.views).all(|view| view.number <= last.number)
        );
        let Some(RestartVerdict::Ready(restart)) = stream(STREAM, &found) else { continue };
        restarted += 1;
        let cut = found.values().flat_map(|found| &found.streams[&STREAM].cuts);
        for cut in cut {
            let past = restart.tail.epoch > cut.epoch;
            assert!(past || restart.tail.version <= cut.version, "seed {seed}: beyond a cut");
        }
        for host in &mut hosts {
            if let Some(version) = restart.cuts.get(&host.id) {
                host.log.cut_after(&mut host.disk, *version).unwrap();
            }
        }
        let at = hosts.iter().position(|host| host.id == restart.winner).unwrap();
        let mut winner = hosts.remove(at);
        let all = winner.messages(Version(0));
        assert!(
            numbers(&all).starts_with(&durable),
            "seed {seed}: {durable:?}, {:?}",
            numbers(&all)
        );
        for host in &mut hosts {
            match restart.completions[&host.id] {
                LogCompletion::After(version) => {
                    assert_eq!(host.log.durable(), version, "seed {seed}");
                    for owned in winner.messages(version) {
                        host.log.append(owned.record().entry, &host.disk).unwrap();
                    }
                    host.log.commit(&mut host.disk).unwrap();
                    assert_eq!(host.messages(Version(0)), all, "seed {seed}");
                }
                LogCompletion::FromCheckpoint | LogCompletion::AfterPutAside => {
                    anew += 1;
                    let state = winner
                        .log
                        .last_of_each_key(&mut winner.disk, restart.tail.version)
                        .unwrap();
                    let mut state: Vec<LogRecord<'_>> =
                        state.values().map(OwnedRecord::record).collect();
                    state.sort_unstable_by_key(|record| record.version);
                    if restart.tail.version > host.log.durable() {
                        host.log
                            .put_checkpoint(&mut host.disk, restart.tail, state.into_iter())
                            .unwrap();
                        assert_eq!(host.log.durable(), restart.tail.version);
                    }
                }
            }
        }
    }
    println!("{restarted} restarts, {anew} logs taken over anew");
    assert!(restarted > 200);
}

#[test]
fn committed_view_survives_any_crash() {
    for seed in 0..200 {
        let mut host = LogHost::new(LogId(1), seed);
        let mut logged = 0;
        for number in 1..30 {
            host.disk.plan(DiskFaults {
                crash_at: Some(1 + seed % 7 + number),
                ..DiskFaults::default()
            });
            if host.log_view(&view_of(number, &[LogId(1), LogId(2)])).is_ok() {
                logged = number;
            }
            if host.disk.has_crashed() {
                host.restart();
            }
            let found = views::all(&host.views, &mut host.disk).unwrap_or_default();
            let last = views::last(&host.views, &mut host.disk).ok().flatten();
            if host.disk.has_crashed() {
                // The host crashed during the request.
                host.restart();
                continue;
            }
            assert_eq!(last.as_ref(), found.last(), "seed {seed}");
            assert!(found.last().map_or(0, |view| view.number) >= logged, "seed {seed}");
            assert!(found.is_sorted_by(|one, next| one.place() < next.place()), "seed {seed}");
        }
        assert!(logged > 0);
    }
}
