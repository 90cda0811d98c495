//! Decisions of the host among real processes, some of which are killed or stopped meanwhile.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::io::BufRead;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dds_transport_rdma::shm::{ShmConfig, ShmLink};
use derecho_core::ids::{Peer, Rank, RegionId};
use derecho_core::link::{Arbiter, Founding, Generation, Link};
use derecho_core::memory::{OwnRegion, Replica};
use rustix::process::Signal;
use rustix::time::{ClockId, clock_gettime};
use support::{ChildNode, PATIENCE, TestDomain, TestNode, config, let_others_in, print_line, role};

/// Region in which a process shows the winner of each view, as it was told: the rank plus one,
/// or zero.
const TOLD: RegionId = RegionId(1);
const NOBODY: u32 = 65534;
/// Group that no user of this host has by chance.
const GROUP: u32 = 54321;

/// Entry point of a child process; does nothing in an ordinary run of the tests.
#[test]
fn act() {
    let Some((role, folder)) = role() else { return };
    match role.as_str() {
        "candidate" => act_candidate(config(&folder)),
        "candidate of the group" => {
            let mut config = config(&folder);
            config.group = Some(GROUP.to_string());
            act_candidate(config);
        }
        "restless" => act_restless(&folder),
        other => panic!("no such role: {other}"),
    }
}

/// Asks as ordered, and reports the answers.
fn act_candidate(config: ShmConfig) {
    let mut node = TestNode::join(config);
    let arbiter = node.link.arbiter().unwrap();
    let answers = node.link.open(TOLD, (ROUNDS * VIEWS) as usize).unwrap();
    print_line("joined");
    for line in std::io::stdin().lock().lines() {
        let line = line.unwrap();
        let mut words = line.split_whitespace();
        let verb = words.next().unwrap();
        let numbers: Vec<u64> = words.map(|word| word.parse().unwrap()).collect();
        match (verb, numbers[..].as_ref()) {
            ("found", &[at]) => {
                wait_until(at);
                print_line(&ask(&*arbiter));
            }
            ("enter", &[group, view, slot]) => {
                let entered = arbiter.entered(Generation(group), view, slot as u8);
                print_line(&entered.to_string());
            }
            ("settle", &[group, round, rank, at]) => {
                print_line(&settle(&*arbiter, &answers, Generation(group), round, rank, at));
            }
            ("left", _) => {
                arbiter.left();
                print_line("left");
            }
            ("leave", _) => break,
            other => panic!("no such verb: {other:?}"),
        }
        node.poll();
    }
    // The arbiter of a node that has left its link only fails.
    drop(node);
    assert!(arbiter.found().is_err());
    print_line("gone");
}

/// Founds and leaves the group repeatedly until killed.
fn act_restless(folder: &Path) {
    let node = TestNode::join(config(folder));
    let arbiter = node.link.arbiter().unwrap();
    print_line("started");
    loop {
        ask(&*arbiter);
        arbiter.left();
    }
}

fn now() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

fn wait_until(at: u64) {
    while now() < at {
        std::hint::spin_loop();
    }
}

/// Asks until the host's lock is free.
fn found(arbiter: &dyn Arbiter) -> Founding {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match arbiter.found() {
            Ok(answers) => return answers,
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
        }
    }
}

fn ask(arbiter: &dyn Arbiter) -> String {
    match found(arbiter) {
        Founding::Founded(group) => format!("founded {}", group.0),
        Founding::Exists(group) => format!("exists {}", group.0),
        Founding::Exhausted => "exhausted".to_owned(),
    }
}

/// Orders all to ask at the same moment; returns what each was told.
fn ask_all(child_nodes: &mut [ChildNode]) -> Vec<String> {
    let at = now() + 300_000;
    child_nodes.iter_mut().for_each(|child_node| child_node.tell(&format!("found {at}")));
    child_nodes.iter_mut().map(ChildNode::hear).collect()
}

/// Returns the founder and its group: there is exactly one, and all others were told of it.
fn one_founder(told: &[String]) -> (usize, u64) {
    let founders: Vec<usize> =
        (0..told.len()).filter(|&index| told[index].starts_with("founded")).collect();
    assert_eq!(founders.len(), 1, "{told:?}");
    let group = told[founders[0]].strip_prefix("founded ").unwrap();
    let same = |told: &&String| **told == format!("exists {group}");
    assert_eq!(told.iter().filter(same).count(), told.len() - 1, "{told:?}");
    (founders[0], group.parse().unwrap())
}

fn start(meeting: &TestDomain, count: usize) -> Vec<ChildNode> {
    let start = |_| ChildNode::start("candidate", &meeting.runtime_dir());
    let mut child_nodes: Vec<ChildNode> = (0..count).map(start).collect();
    child_nodes.iter_mut().for_each(|child_node| assert_eq!(child_node.hear(), "joined"));
    child_nodes
}

fn end(mut child_node: ChildNode) {
    child_node.tell("leave");
    assert_eq!(child_node.hear(), "gone");
    child_node.finish();
}

#[test]
fn exactly_one_of_many_concurrent_processes_founds_group() {
    let meeting = TestDomain::new();
    let mut child_nodes = start(&meeting, 6);
    let mut last = 0;
    for _ in 0..2000 {
        let (founder, group) = one_founder(&ask_all(&mut child_nodes));
        assert_eq!(group, last + 1, "each founding has a number of its own");
        last = group;
        child_nodes[founder].tell("left");
        assert_eq!(child_nodes[founder].hear(), "left");
    }
    child_nodes.into_iter().for_each(end);
    meeting.assert_empty();
}

#[test]
fn exactly_one_survivor_founds_new_group_after_founder_is_killed() {
    let meeting = TestDomain::new();
    let mut child_nodes = start(&meeting, 6);
    let (mut founder, mut group) = one_founder(&ask_all(&mut child_nodes));
    while child_nodes.len() > 1 {
        child_nodes.remove(founder).kill();
        let answers = ask_all(&mut child_nodes);
        let (next, new) = one_founder(&answers);
        assert_eq!(new, group + 1);
        // No node can enter the group of the dead.
        let other = (next + 1) % child_nodes.len();
        if other != next {
            child_nodes[other].tell(&format!("enter {group} 2 1"));
            assert_eq!(child_nodes[other].hear(), "false");
            child_nodes[other].tell(&format!("enter {new} 2 1"));
            assert_eq!(child_nodes[other].hear(), "true");
            child_nodes[other].tell("left");
            child_nodes[other].hear();
        }
        (founder, group) = (next, new);
    }
    // All are dead; the next node cleans up and continues the count.
    child_nodes.remove(0).kill();
    let node = meeting.join();
    assert!(meeting.domain_dir().join("group").exists());
    assert_eq!(found(&*node.link.arbiter().unwrap()), Founding::Founded(Generation(group + 1)));
    drop(node);
    meeting.assert_empty();
}

#[test]
fn surviving_member_keeps_group_of_killed_founder() {
    let meeting = TestDomain::new();
    let mut child_nodes = start(&meeting, 3);
    let (founder, group) = one_founder(&ask_all(&mut child_nodes));
    let member = (founder + 1) % 3;
    child_nodes[member].tell(&format!("enter {group} 2 1"));
    assert_eq!(child_nodes[member].hear(), "true");
    child_nodes[founder].kill();
    child_nodes.remove(founder);
    assert_eq!(ask_all(&mut child_nodes), vec![format!("exists {group}"); 2]);
    let mut late = start(&meeting, 1);
    assert_eq!(ask_all(&mut late), [format!("exists {group}")]);
    child_nodes.iter_mut().for_each(ChildNode::kill);
    assert_eq!(one_founder(&ask_all(&mut late)), (0, group + 1));
    late.into_iter().for_each(end);
    meeting.assert_empty();
}

#[test]
fn stopped_process_is_halted_and_keeps_group() {
    let meeting = TestDomain::new();
    let mut node = meeting.join();
    let arbiter = node.link.arbiter().unwrap();
    let mut child_nodes = start(&meeting, 1);
    assert_eq!(one_founder(&ask_all(&mut child_nodes)), (0, 1));
    node.until("it is up", |node| node.up.len() == 1);
    assert!(!node.link.is_halted(Peer(0)));
    for _ in 0..3 {
        child_nodes[0].stop();
        assert!(node.link.is_halted(Peer(0)));
        assert_eq!(found(&*arbiter), Founding::Exists(Generation(1)));
        child_nodes[0].signal(Signal::CONT);
        // The process answers, so it runs.
        assert_eq!(ask_all(&mut child_nodes), ["exists 1"]);
        assert!(!node.link.is_halted(Peer(0)));
    }
    child_nodes[0].stop();
    child_nodes[0].kill();
    assert!(!node.link.is_halted(Peer(0)), "the dead are not halted");
    assert_eq!(found(&*arbiter), Founding::Founded(Generation(2)));
    node.until("it is down", |node| node.down.len() == 1);
    assert!(!node.link.is_halted(Peer(0)));
    drop((arbiter, node));
    meeting.assert_empty();
}

#[test]
fn joining_node_waits_until_member_hands_over_group_memory() {
    let meeting = TestDomain::new();
    let mut child_nodes = start(&meeting, 1);
    assert_eq!(one_founder(&ask_all(&mut child_nodes)), (0, 1));
    child_nodes[0].stop();
    let mut config = meeting.config();
    config.answer_limit = Duration::ZERO;
    let late = TestNode::join(config);
    let arbiter = late.link.arbiter().unwrap();
    let text = arbiter.found().expect_err("the words are with the stopped process").to_string();
    assert!(text.contains("stopped"), "{text}");
    child_nodes[0].signal(Signal::CONT);
    assert_eq!(found(&*arbiter), Founding::Exists(Generation(1)));
    // The host shows whether the members, which alone could admit the node, are stopped.
    let is_halted = late.link.halts();
    let members = late.link.members().unwrap();
    assert!(members.len() == 1 && !is_halted(members[0]) && !late.link.has_met());
    child_nodes[0].stop();
    assert!(is_halted(members[0]));
    assert!(late.link.process_of(members[0]).starts_with("process "));
    child_nodes[0].signal(Signal::CONT);
    // By now the node has the words itself, and hands them on.
    child_nodes.remove(0).kill();
    assert!(arbiter.entered(Generation(1), 2, 1));
    let last = meeting.join();
    assert_eq!(found(&*last.link.arbiter().unwrap()), Founding::Exists(Generation(1)));
    drop((last, arbiter, late));
    meeting.assert_empty();
}

#[test]
fn founder_killed_at_any_step_blocks_no_later_founder() {
    let meeting = TestDomain::new();
    let mut last = Generation::NONE;
    for cycle in 0..25_u64 {
        let mut restless = ChildNode::start("restless", &meeting.runtime_dir());
        restless.hear();
        // Deliberate delay: the moment of the kill must differ in each cycle.
        std::thread::sleep(Duration::from_micros(137 * cycle));
        restless.kill();
        let node = meeting.join();
        let told = found(&*node.link.arbiter().unwrap());
        assert!(matches!(told, Founding::Founded(group) if group > last), "{told:?}, {last:?}");
        let Founding::Founded(group) = told else { return };
        last = group;
        if cycle % 2 == 0 {
            drop(node);
            meeting.assert_empty();
            last = Generation::NONE;
        } else {
            // The words stay as they are.
            node.link.abandon();
        }
    }
    drop(meeting.join());
    meeting.assert_empty();
}

/// Number of rounds, views of a round, and duration of each view.
const ROUNDS: u64 = 300;
const VIEWS: u64 = 200;
const VIEW_NS: u64 = 5_000;
const SETTLERS: usize = 4;

/// Settles the views of a round, each in its time, then waits for the others, settles one more
/// view, and reports its winner.
fn settle(
    arbiter: &dyn Arbiter,
    answers: &OwnRegion,
    group: Generation,
    round: u64,
    rank: u64,
    at: u64,
) -> String {
    let first = first_view(round);
    let ballot = Rank(rank as u16);
    wait_until(at);
    let mut last = None;
    loop {
        let index = (now() - at) / VIEW_NS;
        if index >= VIEWS - 1 {
            break;
        }
        if last != Some(index) {
            last = Some(index);
            let winner = arbiter.settle(group, first + index, ballot);
            let winner = winner.map_or(0, |winner| u64::from(winner.0) + 1);
            answers.word((round * VIEWS + index) as usize).publish(winner);
        }
    }
    let winner = arbiter.settle(group, first + VIEWS - 1, ballot);
    winner.map_or("none".to_owned(), |winner| winner.0.to_string())
}

/// Returns the first view of a round. The group begins in view 1.
fn first_view(round: u64) -> u64 {
    2 + round * VIEWS
}

/// Checks that every process was told the same winner of each view, including processes dead
/// by now.
fn check_winners(replicas: &[Replica]) -> u64 {
    let mut contested = 0;
    for index in 0..(ROUNDS * VIEWS) as usize {
        let mut winners = BTreeMap::new();
        for replica in replicas {
            *winners.entry(replica.load(index)).or_insert(0) += 1;
        }
        winners.remove(&0);
        assert!(winners.len() <= 1, "view {}: {winners:?}", first_view(0) + index as u64);
        contested += u64::from(winners.values().any(|count| *count > 1));
    }
    contested
}

#[test]
fn all_processes_learn_same_winner_of_each_view_despite_kills() {
    let start_at = Instant::now();
    let meeting = TestDomain::new();
    let mut node = meeting.join();
    let arbiter = node.link.arbiter().unwrap();
    assert_eq!(found(&*arbiter), Founding::Founded(Generation(1)));
    let mut child_nodes = start(&meeting, SETTLERS);
    assert_eq!(ask_all(&mut child_nodes), vec!["exists 1"; SETTLERS]);
    node.until("all are met", |node| node.regions.len() == SETTLERS);
    let mut random = 0x5eed_u64;
    let mut killed = 0;
    for round in 0..ROUNDS {
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let at = now() + 150_000;
        for (rank, child_node) in child_nodes.iter_mut().enumerate() {
            child_node.tell(&format!("settle 1 {round} {rank} {at}"));
        }
        let victim = (round % 4 == 3).then_some((random >> 33) as usize % SETTLERS);
        if let Some(victim) = victim {
            let moment = (random >> 40) % (VIEWS * VIEW_NS);
            std::thread::sleep(Duration::from_nanos((at + moment).saturating_sub(now())));
            child_nodes[victim].kill();
            killed += 1;
        }
        let living = (0..SETTLERS).filter(|index| Some(*index) != victim).collect::<Vec<_>>();
        let said: Vec<String> = living.iter().map(|&index| child_nodes[index].hear()).collect();
        let winner: usize = said[0].parse().unwrap();
        assert!(winner < SETTLERS && said.iter().all(|it| *it == said[0]), "{said:?}");
        if let Some(victim) = victim {
            child_nodes[victim] = start(&meeting, 1).remove(0);
            assert_eq!(ask_all(&mut child_nodes[victim..=victim]), ["exists 1"]);
            node.until("it is met", |node| node.regions.len() == SETTLERS + killed);
        }
    }
    let replicas: Vec<Replica> = node.regions.iter().map(|(_, _, seen)| seen.clone()).collect();
    let contested = check_winners(&replicas);
    eprintln!(
        "{ROUNDS} rounds, {killed} killed, {contested} views settled by several, {:?}",
        start_at.elapsed()
    );
    assert!(contested > ROUNDS, "hardly any two asked about one view: {contested}");
    child_nodes.into_iter().for_each(end);
    drop((arbiter, replicas, node));
    meeting.assert_empty();
}

#[test]
fn users_of_one_unix_group_found_exactly_one_group() {
    let meeting = TestDomain::new();
    if !let_others_in(&meeting) {
        return;
    }
    let folder = meeting.runtime_dir();
    let start = |user| ChildNode::start_as("candidate of the group", &folder, user, GROUP);
    let mut child_nodes = [NOBODY, 1001, 1002].map(start).into_iter().collect::<Vec<_>>();
    child_nodes.iter_mut().for_each(|child_node| assert_eq!(child_node.hear(), "joined"));
    let (founder, group) = one_founder(&ask_all(&mut child_nodes));
    let stat = fs::metadata(meeting.domain_dir().join("group")).unwrap();
    assert_eq!((stat.gid(), stat.mode() & 0o7777), (GROUP, 0o660));
    child_nodes.remove(founder).kill();
    assert_eq!(one_founder(&ask_all(&mut child_nodes)).1, group + 1);
    child_nodes.into_iter().for_each(end);
    meeting.assert_nobody_listens();
}

fn refusal(arbiter: &Arc<dyn Arbiter>) -> String {
    arbiter.found().expect_err("it has to be refused").to_string()
}

#[test]
fn arbiter_rejects_group_file_that_no_node_made() {
    let meeting = TestDomain::new();
    let node = meeting.join();
    let arbiter = node.link.arbiter().unwrap();
    let path = meeting.domain_dir().join("group");
    assert!(!path.exists(), "nobody has asked");
    let elsewhere = meeting.domain_dir().join("elsewhere");
    for content in [vec![], vec![0; 100], vec![0; 8 << 10], vec![0; 9 << 10]] {
        fs::write(&path, content).unwrap();
        let text = refusal(&arbiter);
        assert!(text.contains("group") && text.contains("remove it"), "{text}");
        fs::rename(&path, &elsewhere).unwrap();
        symlink(&elsewhere, &path).unwrap();
        refusal(&arbiter);
        fs::remove_file(&path).unwrap();
    }
    fs::remove_file(&elsewhere).unwrap();
    fs::create_dir(&path).unwrap();
    refusal(&arbiter);
    fs::remove_dir(&path).unwrap();
    // A half-made file of a node that died does no harm.
    fs::write(meeting.domain_dir().join("group.new"), "half").unwrap();
    assert_eq!(arbiter.found(), Ok(Founding::Founded(Generation(1))));
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
    // Without the file, no other node could be bound to the same words.
    let copy = meeting.folder.path().join("copy");
    fs::rename(&path, &copy).unwrap();
    let text = refusal(&arbiter);
    assert!(text.contains("removed"), "{text}");
    fs::copy(&copy, &path).unwrap();
    refusal(&arbiter);
    fs::remove_file(&path).unwrap();
    fs::rename(&copy, &path).unwrap();
    assert_eq!(arbiter.found(), Ok(Founding::Exists(Generation(1))));
    fs::write(meeting.domain_dir().join("group.new"), "half").unwrap();
    drop((arbiter, node));
    meeting.assert_empty();
}

#[test]
fn seats_of_dead_and_departed_nodes_are_reused() {
    let meeting = TestDomain::new();
    let resident = meeting.join();
    let keeps = found(&*resident.link.arbiter().unwrap());
    assert_eq!(keeps, Founding::Founded(Generation(1)));
    // More nodes than there are seats, one after the other; some of them leave and some die.
    for count in 0..300 {
        let mut config = meeting.config();
        config.arena_bytes = 0;
        let link = ShmLink::join(config).unwrap();
        let arbiter = link.arbiter().unwrap();
        assert_eq!(found(&*arbiter), Founding::Exists(Generation(1)), "node {count}");
        assert!(arbiter.entered(Generation(1), 2, 1));
        if count % 3 == 0 {
            link.abandon();
        }
    }
    drop(resident);
    meeting.assert_empty();
}
