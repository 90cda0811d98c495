//! Participants of an atomic topic in processes of their own, killed, stopped and resumed at any
//! moment: the deliveries of each are compared with those of all others.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use dds_api::prelude::*;
use rustix::process::Signal;
use support::{Actor, CheckedSample, Dice, SOON, TestDomain, listen, role, say, seed, until};

/// Maximum silence of a member for which the others wait.
const MEMBER_TIMEOUT: Duration = Duration::from_millis(300);
/// Maximum number of samples of a writer in flight.
const IN_FLIGHT: u16 = 128;

/// Role of a child process; does nothing when the test program is run normally.
#[test]
fn act() {
    let Some((role, folder)) = role() else { return };
    match role.as_str() {
        "member" => act_member(&folder),
        other => panic!("no such role: {other}"),
    }
}

/// Returns the file in which a process records its deliveries of one membership in the domain, from
/// joining to isolation.
fn log_of(folder: &Path, seed: u64, life: u64) -> PathBuf {
    folder.with_file_name(format!("log-{seed}-{life}"))
}

/// Writes and reads until it is told to stop. After an isolation it reports this, and joins again.
fn act_member(folder: &Path) {
    static STOPS: AtomicBool = AtomicBool::new(false);
    std::thread::spawn(|| {
        let _ = listen();
        STOPS.store(true, Ordering::Relaxed);
    });
    for life in 0.. {
        let error = live(folder, life, &STOPS);
        match error {
            None => break,
            Some(DdsError::Isolated(_)) => say("isolated"),
            Some(error) => panic!("{error}"),
        }
    }
    say("done");
    while listen().is_some() {}
}

/// Runs one membership in the domain. Returns the error that ended it; `None` if it was told
/// to stop.
fn live(folder: &Path, life: u64, stops: &AtomicBool) -> Option<DdsError> {
    let config = ParticipantConfig::new().runtime_dir(folder).member_timeout(MEMBER_TIMEOUT);
    let participant = DomainParticipant::with_config(0, config).unwrap();
    let mut log = File::create(log_of(folder, seed(), life)).unwrap();
    let mut lives = || -> DdsResult<()> {
        let topic = participant.topic::<CheckedSample>("Marks").atomic().create()?;
        let reader = participant.reader(&topic).reliable_all().create()?;
        let writer = participant.writer(&topic).memory(32 << 10).in_flight(usize::from(IN_FLIGHT));
        let writer = writer.max_blocking_time(Timeout::millis(5)).create()?;
        writer.wait_for_readers(1, SOON)?;
        say("ready");
        let (mut number, mut quiet) = (0, 0);
        while quiet < 20 {
            if !stops.load(Ordering::Relaxed) {
                for _ in 0..8 {
                    match writer.write(&CheckedSample::new(seed() << 40 | life << 32 | number)) {
                        Ok(()) => number += 1,
                        Err(DdsError::Timeout(_)) => break,
                        Err(error) => return Err(error),
                    }
                }
            }
            let mut lines = Vec::new();
            for sample in reader.take_data(.., Timeout::millis(10))? {
                let checked = *sample;
                // A process that was stopped just now may have read memory that others have
                // reused since.
                if participant.is_isolated() {
                    break;
                }
                checked.assert_whole();
                lines.extend_from_slice(&checked.number.to_le_bytes());
            }
            quiet = if lines.is_empty() && stops.load(Ordering::Relaxed) { quiet + 1 } else { 0 };
            log.write_all(&lines).unwrap();
        }
        Ok(())
    };
    lives().err()
}

/// Checks that every writer's samples arrive in order, without gap or duplicate.
fn check_order_of_writers(name: &str, log: &[u64]) {
    let mut last = BTreeMap::new();
    for number in log {
        let (writer, number) = (number >> 32, number & 0xffff_ffff);
        if let Some(last) = last.insert(writer, number) {
            assert_eq!(last + 1, number, "{name}: from {writer:x}");
        }
    }
}

/// Checks that two members that deliver together deliver the same: the common part is one
/// contiguous piece of each log, the same in both, that begins where one of them joined and ends
/// where one of them ended.
fn check_agreement((one, left): (&str, &[u64]), (two, right): (&str, &[u64])) {
    let place: BTreeMap<u64, usize> = right.iter().enumerate().map(|(at, n)| (*n, at)).collect();
    let Some(first) = left.iter().position(|number| place.contains_key(number)) else { return };
    let start = place[&left[first]];
    assert!(first == 0 || start == 0, "{one} and {two} begin together where one of them joined");
    let common = left[first..].iter().zip(&right[start..]).take_while(|(a, b)| a == b).count();
    let (left_end, right_end) = (first + common == left.len(), start + common == right.len());
    assert!(
        left_end || right_end,
        "{one} and {two} agree for {common} samples and then part: {:x?} and {:x?}",
        left.get(first + common),
        right.get(start + common)
    );
    let rest = left[first + common..].iter().find(|number| place.contains_key(number));
    assert_eq!(rest, None, "{one} and {two} meet again");
}

fn check(domain: &TestDomain) -> usize {
    let logs = domain.logs();
    for (index, (name, log)) in logs.iter().enumerate() {
        check_order_of_writers(name, log);
        for (other, theirs) in &logs[..index] {
            check_agreement((name, log), (other, theirs));
        }
    }
    logs.iter().map(|(_, log)| log.len()).sum()
}

/// Members of a test.
struct TestMembers<'a> {
    domain: &'a TestDomain,
    actors: Vec<(u64, Actor)>,
    next: u64,
}

impl<'a> TestMembers<'a> {
    fn new(domain: &'a TestDomain, count: usize) -> TestMembers<'a> {
        let mut members = TestMembers { domain, actors: Vec::new(), next: 1 };
        (0..count).for_each(|_| members.add());
        members.actors.iter_mut().for_each(|(_, actor)| assert_eq!(actor.hear(), "ready"));
        members
    }

    /// Adds a member, without waiting for it.
    fn add(&mut self) {
        self.actors
            .push((self.next, Actor::start(module_path!(), "member", self.domain, self.next)));
        self.next += 1;
    }

    fn kill(&mut self, index: usize) {
        self.actors.remove(index).1.kill();
    }

    /// Returns the size in bytes of all deliveries of a member, over all its memberships.
    fn delivered(&self, index: usize) -> u64 {
        let (seed, folder) = (self.actors[index].0, self.domain.runtime_dir());
        let lengths = (0..).map_while(|life| std::fs::metadata(log_of(&folder, seed, life)).ok());
        lengths.map(|file| file.len()).sum()
    }

    /// Waits until each of these members delivers samples written after the call. The required
    /// amount covers all samples in flight at the call, which a member may take although another
    /// one that has received them is stopped, and all samples that it has taken but not yet
    /// recorded, which as many further samples in flight may have replaced.
    fn until_all_go_on(&self, which: impl Iterator<Item = usize>) {
        // Three writers, each with a ring rounded up to the next power of two.
        let in_flight = 3 * 2 * u64::from(IN_FLIGHT) * size_of::<u64>() as u64;
        for index in which {
            let before = self.delivered(index);
            until("a member goes on", || self.delivered(index) > before + 2 * in_flight);
        }
    }

    /// Makes all members stop writing, and deliver the rest. Returns the number of isolations.
    fn end(self) -> usize {
        let mut isolated = 0;
        let mut actors: Vec<Actor> = self.actors.into_iter().map(|(_, actor)| actor).collect();
        actors.iter_mut().for_each(|actor| actor.tell("stop"));
        for actor in &mut actors {
            loop {
                match actor.hear().as_str() {
                    "done" => break,
                    "isolated" => isolated += 1,
                    _ => {}
                }
            }
        }
        actors.into_iter().for_each(Actor::finish);
        isolated
    }
}

/// Number of rounds, which `SQUALL_TEST_ROUNDS` can increase.
fn rounds(usual: u64) -> u64 {
    std::env::var("SQUALL_TEST_ROUNDS").map_or(usual, |rounds| rounds.parse().unwrap())
}

#[test]
fn surviving_members_deliver_in_same_order_after_kills_at_any_moment() {
    let domain = TestDomain::new();
    let mut members = TestMembers::new(&domain, 3);
    let (mut dice, mut in_a_change) = (Dice(11), 0);
    for _ in 0..rounds(25) {
        let victim = dice.below(members.actors.len() as u64) as usize;
        members.kill(victim);
        // Often kills a second member, while the others agree on the view without the first.
        if dice.below(2) == 0 && members.actors.len() > 1 {
            dice.pause(Duration::from_micros(2_500));
            let victim = dice.below(members.actors.len() as u64) as usize;
            members.kill(victim);
            in_a_change += 1;
        }
        members.until_all_go_on(0..members.actors.len());
        while members.actors.len() < 3 {
            members.add();
        }
        if dice.below(3) > 0 {
            members.until_all_go_on(0..3);
        }
    }
    members.until_all_go_on(0..3);
    assert!(in_a_change > rounds(25) / 5, "{in_a_change} kills within changes show nothing");
    assert_eq!(members.end(), 0, "nobody who lived was excluded");
    assert!(check(&domain) > 10_000);
    domain.clean_logs();
    domain.assert_empty();
}

#[test]
fn stopped_and_resumed_members_deliver_again_in_same_order() {
    let domain = TestDomain::new();
    let members = TestMembers::new(&domain, 3);
    let mut dice = Dice(12);
    for _ in 0..rounds(12) {
        let index = dice.below(3) as usize;
        members.actors[index].1.signal(Signal::STOP);
        // Either shorter or longer than an eviction takes.
        dice.pause(2 * MEMBER_TIMEOUT);
        if dice.below(2) == 0 {
            members.until_all_go_on((0..3).filter(|other| *other != index));
        }
        members.actors[index].1.signal(Signal::CONT);
        // Evicted or not, the member takes part again, in the same or a new membership.
        members.until_all_go_on(0..3);
    }
    let isolated = members.end();
    assert!(isolated as u64 > rounds(12) / 4, "{isolated} evictions show nothing");
    assert!(check(&domain) > 5_000);
    domain.clean_logs();
    domain.assert_empty();
}

/// In a group of two, each member continues when the other one is stopped or dies.
#[test]
fn each_of_two_members_continues_when_the_other_stops_or_dies() {
    let domain = TestDomain::new();
    let mut members = TestMembers::new(&domain, 2);
    for round in 0..4 {
        let index = round % 2;
        members.actors[index].1.signal(Signal::STOP);
        members.until_all_go_on([1 - index].into_iter());
        members.actors[index].1.signal(Signal::CONT);
        members.until_all_go_on(0..2);
    }
    members.kill(0);
    let start = Instant::now();
    members.until_all_go_on([0].into_iter());
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    assert!(members.end() >= 2, "each was isolated at least once");
    check(&domain);
    domain.clean_logs();
    domain.assert_empty();
}
