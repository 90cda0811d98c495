//! Restarts after random histories: durable messages stay, and all logs agree.

use alloc::vec;

use super::*;
use crate::ids::NodeId;
use crate::log::views::LoggedMember;

const KEY: StreamKey = StreamKey(1);

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (word ^ (word >> 31)) % bound.max(1)
    }

    fn coin(&mut self) -> bool {
        self.below(2) == 0
    }
}

/// A log. Messages are numbers, so that two messages at the same version can be told apart.
#[derive(Clone, Default)]
struct ModelLog {
    messages: Vec<u64>,
    epoch: EpochId,
    from: u64,
    cuts: Vec<NotedCut>,
    begun: Option<(EpochId, Vec<LogId>)>,
    /// Number of messages of the epoch's order that it has received, logged or not.
    received: usize,
}

impl ModelLog {
    fn found(&self) -> LogSummary {
        LogSummary {
            tail: Tail { epoch: self.epoch, version: Version(self.messages.len() as u64) },
            complete_from: Version(self.from + 1),
            checkpoint: (self.from > 0).then_some(Version(self.from)),
            cuts: self.cuts.clone(),
            begun: self.begun.clone(),
        }
    }
}

/// A stream and the logs of the members that log it, through epochs.
struct ModelStream {
    random: Random,
    logs: BTreeMap<LogId, ModelLog>,
    epoch_logs: Vec<LogId>,
    epoch: EpochId,
    /// Order of this epoch, including all epochs before it.
    order: Vec<u64>,
    /// Messages that were reported durable.
    durable: Vec<u64>,
    next: u64,
    /// Whether logs fail, and which logs have failed. A failed log accepts nothing more and is
    /// not counted.
    fails: bool,
    failed: BTreeSet<LogId>,
}

impl ModelStream {
    fn new(seed: u64) -> ModelStream {
        let mut random = Random(seed);
        let epoch_logs: Vec<LogId> =
            (0..random.below(4) + 1).map(|log| LogId(log.into())).collect();
        let epoch = EpochId { view: 1, sequence: 1 };
        let log =
            ModelLog { epoch, begun: Some((epoch, epoch_logs.clone())), ..ModelLog::default() };
        let logs = epoch_logs.iter().map(|member_log| (*member_log, log.clone())).collect();
        let (order, durable, failed) = (vec![], vec![], BTreeSet::new());
        ModelStream {
            random,
            logs,
            epoch_logs,
            epoch,
            order,
            durable,
            next: 0,
            fails: false,
            failed,
        }
    }

    fn step(&mut self) {
        for _ in 0..self.random.below(4) {
            self.order.push(self.next);
            self.next += 1;
        }
        for member_log in self.epoch_logs.clone() {
            if self.fails && self.random.below(20) == 0 {
                self.failed.insert(member_log);
            }
            let log = self.logs.get_mut(&member_log).expect("a member that keeps a log has a log");
            if self.failed.contains(&member_log) {
                log.received = self.order.len();
                continue;
            }
            let more = (self.order.len() - log.received) as u64;
            log.received += self.random.below(more + 1) as usize;
            // A member logs what it has received, although it may be cut later.
            let to = log.messages.len()
                + self.random.below((log.received - log.messages.len()) as u64 + 1) as usize;
            log.messages = self.order[..to].to_vec();
        }
        let counted = self.epoch_logs.iter().filter(|member_log| !self.failed.contains(member_log));
        let stable =
            counted.map(|member_log| self.logs[member_log].messages.len()).min().unwrap_or(0);
        if stable > self.durable.len() {
            self.durable = self.order[..stable].to_vec();
        }
    }

    /// Begins the next epoch with some of the members and perhaps a new one. Returns `false` if all
    /// members stop within the change.
    fn change(&mut self) -> bool {
        let mut survivors = self.epoch_logs.clone();
        while survivors.len() > 1 && self.random.coin() {
            survivors.remove(self.random.below(survivors.len() as u64) as usize);
        }
        let trim =
            survivors.iter().map(|member_log| self.logs[member_log].received).min().unwrap_or(0);
        let mark = NotedCut { epoch: self.epoch, version: Version(trim as u64) };
        // The order is decided, so a member that lacks a part of it has received that part by now,
        // and logs it before the end of the epoch.
        for member_log in &survivors {
            if self.random.below(20) == 0 {
                return false;
            }
            let log = self.logs.get_mut(member_log).expect("a member that keeps a log has a log");
            if !self.failed.contains(member_log) {
                log.cuts.push(mark);
            }
        }
        self.order.truncate(trim);
        let epoch = EpochId { sequence: self.epoch.sequence + 1, ..self.epoch };
        survivors.retain(|member_log| !self.failed.contains(member_log));
        let mut epoch_logs = survivors.clone();
        if self.random.coin() || epoch_logs.is_empty() {
            epoch_logs.push(LogId(u128::from(100 + epoch.sequence)));
        }
        for member_log in epoch_logs.clone() {
            if self.random.below(20) == 0 {
                return false;
            }
            let log = self.logs.entry(member_log).or_default();
            if survivors.contains(&member_log) {
                log.messages = self.order.clone();
            } else {
                // A late joiner has a synced checkpoint before anything counts as durable with it.
                *log = ModelLog {
                    messages: self.order.clone(),
                    from: trim as u64,
                    ..ModelLog::default()
                };
            }
            log.received = trim;
            log.epoch = epoch;
            log.begun = Some((epoch, epoch_logs.clone()));
        }
        self.epoch = epoch;
        self.epoch_logs = epoch_logs;
        true
    }

    /// Lets some hosts return, applies the restart rule and checks the result.
    fn restart(&mut self, seed: u64) {
        let mut found = BTreeMap::new();
        for (log, of) in &self.logs {
            if self.random.below(3) > 0 {
                let streams = BTreeMap::from([(KEY, of.found())]);
                found.insert(*log, FolderSummary { views: vec![], streams });
            }
        }
        let newest =
            self.logs.values().filter_map(|log| log.begun.clone()).max_by_key(|begun| begun.0);
        let (epoch, _) = newest.expect("an epoch has begun");
        // The rule for views guarantees that a log with the last epoch is back.
        if !found
            .iter()
            .any(|(log, _)| self.logs[log].begun.as_ref().is_some_and(|begun| begun.0 == epoch))
        {
            return;
        }
        let Some(RestartVerdict::Ready(restart)) = stream(KEY, &found) else { return };
        let mut winner = self.logs[&restart.winner].messages.clone();
        winner.truncate(restart.tail.version.0 as usize);
        assert!(
            winner.starts_with(&self.durable),
            "seed {seed}: durable {:?}, {winner:?}",
            self.durable
        );
        for NotedCut { epoch, version } in
            found.values().flat_map(|found| &found.streams[&KEY].cuts)
        {
            // Messages that were cut are written again by their writers: they return with the
            // writers, or not at all.
            let past = restart.tail.epoch > *epoch;
            assert!(past || restart.tail.version <= *version, "seed {seed}: beyond a cut");
        }
        for (log, completion) in &restart.completions {
            let mut own = self.logs[log].messages.clone();
            if let Some(cut) = restart.cuts.get(log) {
                own.truncate(cut.0 as usize);
            }
            if let LogCompletion::After(version) = completion {
                assert_eq!(own.len() as u64, version.0, "seed {seed}");
                assert!(winner.starts_with(&own), "seed {seed}: {log} has {own:?} of {winner:?}");
            }
        }
    }
}

#[test]
fn restart_keeps_all_durable_messages_and_logs_agree() {
    for seed in 0..20_000 {
        let mut world = ModelStream::new(seed);
        for _ in 0..world.random.below(12) {
            world.step();
            if world.random.below(3) == 0 && !world.change() {
                break;
            }
        }
        world.restart(seed);
    }
}

/// A sound log that covers a damaged one has all its messages that were reported durable, even if
/// logs fail.
#[test]
fn log_that_covers_damaged_log_has_all_its_durable_messages() {
    let mut covered = 0;
    for seed in 0..20_000 {
        let mut world = ModelStream { fails: seed % 2 == 1, ..ModelStream::new(seed) };
        for _ in 0..world.random.below(12) {
            world.step();
            if world.random.below(3) == 0 && !world.change() {
                break;
            }
        }
        for (own, sound) in &world.logs {
            for (log, damaged) in world.logs.iter().filter(|(log, _)| *log != own) {
                let by = FoundLog { log: *own, summary: &sound.found() };
                if !covers(by, FoundLog { log: *log, summary: &damaged.found() }) {
                    continue;
                }
                covered += 1;
                let both = damaged.messages.iter().zip(&world.durable);
                let durable = both.take_while(|(message, durable)| message == durable).count();
                assert!(
                    sound.messages.starts_with(&world.durable[..durable]),
                    "seed {seed}: {own} lacks what {log} has: {:?} of {:?}",
                    sound.messages,
                    world.durable
                );
            }
        }
    }
    assert!(covered > 5_000, "{covered} logs were covered");
}

#[test]
fn tail_and_marks_of_damaged_log_decide_its_coverage() {
    let epoch = |view, sequence| EpochId { view, sequence };
    let log = |epoch: EpochId, version, names: &[u128]| LogSummary {
        tail: Tail { epoch, version: Version(version) },
        complete_from: Version(1),
        checkpoint: None,
        cuts: vec![],
        begun: Some((epoch, names.iter().map(|log| LogId(*log)).collect())),
    };
    let is_covered = |sound: &LogSummary, damaged: &LogSummary| {
        let by = FoundLog { log: LogId(1), summary: sound };
        covers(by, FoundLog { log: LogId(2), summary: damaged })
    };
    let sound = log(epoch(1, 4), 9, &[1, 2]);
    assert!(is_covered(&sound, &log(epoch(1, 4), 9, &[1, 2])));
    assert!(!is_covered(&sound, &log(epoch(1, 4), 10, &[1, 2])));
    assert!(!is_covered(&sound, &log(epoch(1, 4), 8, &[1, 2, 3])), "another log may have more");
    let cuts = vec![NotedCut { epoch: epoch(1, 4), version: Version(9) }];
    let ended = LogSummary { cuts: cuts.clone(), ..log(epoch(1, 5), 9, &[2]) };
    assert!(is_covered(&sound, &ended));
    assert!(!is_covered(&log(epoch(1, 4), 8, &[1, 2]), &ended), "the end of the epoch is missing");
    // The sound log may have messages that were cut, and the damaged one another message in
    // their place.
    let went_on = LogSummary { cuts: cuts.clone(), ..log(epoch(1, 5), 10, &[2]) };
    assert!(!is_covered(&log(epoch(1, 4), 12, &[1, 2]), &went_on));
    let other_life = LogSummary { cuts, ..log(epoch(2, 0), 9, &[2]) };
    assert!(!is_covered(&sound, &other_life), "it would win when its files come back");
    let unknown = LogSummary { begun: None, ..log(epoch(1, 2), u64::MAX, &[]) };
    assert!(!is_covered(&sound, &unknown), "where it ended is not known");
    assert!(!is_covered(&LogSummary { complete_from: Version(3), ..sound }, &ended));
}

fn a_view(keeps: &[bool], votes: &[u16]) -> LoggedView {
    let members = keeps.iter().zip(votes).zip(0..).map(|((keeps, votes), at)| LoggedMember {
        node: NodeId(at),
        log: keeps.then_some(LogId(at)),
        votes: *votes,
        weight: *votes,
    });
    LoggedView { era: 1, number: 5, members: members.collect(), awaits: Vec::new() }
}

fn back(view: &LoggedView, who: u32) -> BTreeMap<LogId, FolderSummary> {
    let logs = view.members.iter().filter_map(|member| member.log);
    let logs = logs.filter(|log| who & (1 << log.0) != 0);
    logs.map(|log| (log, FolderSummary { views: vec![view.clone()], streams: BTreeMap::new() }))
        .collect()
}

/// Every group of up to five members, with every choice of votes, of members that keep logs, and of
/// members that are back: if the group may restart, the others cannot have gone on to a view in
/// which a member keeps logs.
#[test]
fn group_does_not_restart_if_missing_members_may_have_continued() {
    for size in 1..=5_usize {
        for keeps in 0..1_u32 << size {
            for votes in 0..3_u32.pow(size as u32) {
                let keeps: Vec<bool> = (0..size).map(|at| keeps & (1 << at) != 0).collect();
                let votes: Vec<u16> =
                    (0..size).map(|at| (votes / 3_u32.pow(at as u32) % 3) as u16).collect();
                let view_of = a_view(&keeps, &votes);
                for who in 1..1_u32 << size {
                    let found = back(&view_of, who);
                    let may = |reach| matches!(view(reach, &found), RestartVerdict::Ready(_));
                    let all: usize = keeps.iter().filter(|keeps| **keeps).count();
                    assert!(!may(GroupScope::Local) || found.len() == all);
                    if !may(GroupScope::Networked) {
                        continue;
                    }
                    let left = |log: Option<LogId>| log.is_none_or(|log| !found.contains_key(&log));
                    let missing = view_of
                        .members
                        .iter()
                        .any(|member| member.log.is_some() && left(member.log));
                    assert!(!missing || !is_primary(&view_of, left), "{view_of:?} {who:b}");
                }
            }
        }
    }
}

#[test]
fn three_of_five_members_restart_and_two_wait_for_other_logs() {
    let view_of = a_view(&[true; 5], &[1; 5]);
    assert_eq!(
        view(GroupScope::Networked, &back(&view_of, 0b00111)),
        RestartVerdict::Ready(view_of.clone())
    );
    let others = [LogId(2), LogId(3), LogId(4)];
    assert_eq!(
        view(GroupScope::Networked, &back(&view_of, 0b00011)),
        RestartVerdict::Wait(others.into())
    );
    // Two of three members that keep logs are back, and two others vote: the third may have gone on
    // with these two.
    let view_of = a_view(&[true, true, true, false, false], &[1; 5]);
    assert_eq!(
        view(GroupScope::Networked, &back(&view_of, 0b00110)),
        RestartVerdict::Wait([LogId(0)].into())
    );
}

#[test]
fn tail_beyond_trim_is_cut_and_stream_waits_for_complete_log() {
    let (first, second) = (EpochId { view: 1, sequence: 0 }, EpochId { view: 2, sequence: 0 });
    let log = |tail: Tail| LogSummary {
        tail,
        complete_from: Version(1),
        checkpoint: None,
        cuts: vec![],
        begun: Some((first, vec![LogId(0), LogId(1)])),
    };
    let ahead = log(Tail { epoch: first, version: Version(9) });
    let mut trimmed = log(Tail { epoch: second, version: Version(6) });
    trimmed.cuts.push(NotedCut { epoch: first, version: Version(6) });
    trimmed.begun = Some((second, vec![LogId(1), LogId(2)]));
    let of = |stream: &LogSummary| FolderSummary {
        views: vec![],
        streams: BTreeMap::from([(KEY, stream.clone())]),
    };
    let mut found = BTreeMap::from([(LogId(0), of(&ahead)), (LogId(1), of(&trimmed))]);
    let Some(RestartVerdict::Ready(restart)) = stream(KEY, &found) else { panic!("it restarts") };
    assert_eq!((restart.winner, restart.tail.version), (LogId(1), Version(6)));
    assert_eq!(restart.cuts, BTreeMap::from([(LogId(0), Version(6))]));
    assert_eq!(restart.completions[&LogId(0)], LogCompletion::After(Version(6)));
    // The only returning log of the last epoch lacks its beginning.
    trimmed.complete_from = Version(3);
    found.insert(LogId(1), of(&trimmed));
    assert_eq!(stream(KEY, &found), Some(RestartVerdict::Wait([LogId(2)].into())));
    assert_eq!(stream(StreamKey(9), &found), None);
}
