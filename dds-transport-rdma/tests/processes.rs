//! Nodes in real processes: killed, stopped, woken, and owned by several users.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

mod support;

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use dds_transport_rdma::shm::{ShmConfig, ShmLink};
use derecho_core::ids::{Peer, RegionId};
use derecho_core::link::{Evidence, Interest, Link, Parker, WordRange};
use derecho_core::memory::{OwnRegion, Replica};
use rustix::process::Signal;
use support::{
    ChildNode, TestDomain, TestNode, config, let_others_in, orders, print_line, role, until,
};

const NEWS: RegionId = RegionId(1);
const HEARD: RegionId = RegionId(2);
const ROUNDS: u64 = 2000;
const NOBODY: u32 = 65534;
/// Group that no user of this host has by chance.
const GROUP: u32 = 54321;

/// Entry point of a child process; does nothing in an ordinary run of the tests.
#[test]
fn act() {
    let Some((role, folder)) = role() else { return };
    match role.as_str() {
        "member" => act_member(&folder, None),
        "member of the group" => act_member(&folder, Some(GROUP.to_string())),
        "writer" => act_writer(&folder),
        "restless" => act_restless(&folder),
        "echo" => act_echo(&folder),
        "stranger" => act_stranger(config(&folder)),
        "by environment" => act_stranger(ShmConfig::new("test")),
        other => panic!("no such role: {other}"),
    }
}

/// Joins, shows a region, reports the peers that it meets, and leaves on request.
fn act_member(folder: &Path, group: Option<String>) {
    let mut config = config(folder);
    config.group = group;
    let mut node = TestNode::join(config);
    let own = node.link.open(HEARD, 8).unwrap();
    own.word(0).publish(4711);
    print_line(&format!("joined {}", node.link.node()));
    let lines = orders();
    loop {
        node.poll();
        if lines.try_recv().is_ok_and(|line| line == "leave") {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    drop(node);
    print_line("left");
}

/// Writes, opens, closes and sends notes as fast as possible, until killed.
fn act_writer(folder: &Path) {
    let mut node = TestNode::join(config(folder));
    let own = node.link.open(HEARD, 64).unwrap();
    print_line("joined");
    for round in 1.. {
        (0..64).for_each(|index| own.word(index).put(round));
        let name = RegionId(100 + round);
        let _region = node.link.open(name, 100).unwrap();
        for peer in 0..node.up.len() {
            // The peer may be leaving.
            let _ = node.link.note(Peer(peer as u32), &round.to_le_bytes());
        }
        node.link.close(name).unwrap();
        node.poll();
        if round % 64 == 0 {
            std::thread::sleep(Duration::from_micros(500));
        }
    }
}

/// Joins and leaves repeatedly until killed.
fn act_restless(folder: &Path) {
    print_line("started");
    loop {
        let mut config = config(folder);
        config.answer_limit = Duration::from_millis(5);
        drop(ShmLink::join(config).unwrap());
    }
}

fn act_echo(folder: &Path) {
    let mut node = TestNode::join(config(folder));
    let heard = node.link.open(HEARD, 8).unwrap();
    node.until("the news are there", |node| !node.regions.is_empty());
    let parker = node.link.parker();
    let seen = node.replica(NEWS);
    for round in 1..=ROUNDS {
        wait_for(&*parker, &seen, round);
        heard.word(0).publish(round);
        node.link.ring(&[Peer(0)], &[]);
    }
    node.until("the other has left", |node| !node.down.is_empty());
}

/// Reports the result of its join.
fn act_stranger(config: ShmConfig) {
    match ShmLink::join(config) {
        Ok(_) => print_line("joined"),
        Err(error) => print_line(&error.to_string()),
    }
}

fn wait_for(parker: &dyn Parker, seen: &Replica, value: u64) {
    while seen.load(0) < value {
        parker.arm(Interest::Hints);
        if seen.load(0) < value {
            let start = Instant::now();
            parker.sleep(Some(10_000_000_000));
            assert!(start.elapsed() < Duration::from_secs(9), "a wake-up was lost at {value}");
        }
        parker.disarm();
    }
}

fn publish(node: &mut TestNode, own: &OwnRegion, value: u64) {
    own.word(0).publish(value);
    node.link.write(Peer(0), NEWS, WordRange::new(0, 1)).unwrap();
    node.link.ring(&[Peer(0)], &[]);
}

#[test]
fn two_processes_wake_each_other_two_thousand_times() {
    let meeting = TestDomain::new();
    let mut node = meeting.join();
    let own = node.link.open(NEWS, 8).unwrap();
    let other = ChildNode::start("echo", &meeting.runtime_dir());
    node.until("both see each other", |node| !node.ready.is_empty() && !node.regions.is_empty());
    let parker = node.link.parker();
    let echo = node.replica(HEARD);
    for round in 1..=ROUNDS {
        publish(&mut node, &own, round);
        wait_for(&*parker, &echo, round);
    }
    assert!(node.link.counters().rings > 0, "nobody ever slept, so nothing was tested");
    drop((echo, node));
    other.finish();
    meeting.assert_empty();
}

#[test]
fn a_killed_process_is_certainly_down_and_what_it_showed_stays() {
    let meeting = TestDomain::new();
    for cycle in 0..12 {
        let mut node = meeting.join();
        let mut writer = ChildNode::start("writer", &meeting.runtime_dir());
        writer.hear();
        node.until("it writes", |node| node.notes.len() > 5 * cycle);
        let seen = node.replica(HEARD);
        writer.kill();
        node.until("it is down", |node| !node.down.is_empty());
        assert_eq!(node.down, [(Peer(0), Evidence::Certain)]);
        let last: Vec<u64> = (0..64).map(|index| seen.load(index)).collect();
        let events = node.notes.len() + node.regions.len() + node.closed.len();
        (0..20).for_each(|_| node.poll());
        assert_eq!(events, node.notes.len() + node.regions.len() + node.closed.len());
        assert_eq!(last, (0..64).map(|index| seen.load(index)).collect::<Vec<u64>>());
        // The survivor has removed the dead node's socket, so nothing remains when the
        // survivor leaves.
        drop(node);
        meeting.assert_empty();
    }
}

#[test]
fn node_killed_during_join_or_leave_blocks_no_other_node() {
    let meeting = TestDomain::new();
    let mut witness = meeting.join();
    for cycle in 0..20_u64 {
        let mut restless = ChildNode::start("restless", &meeting.runtime_dir());
        restless.hear();
        // Deliberate delay: the moment of the kill must differ in each cycle.
        std::thread::sleep(Duration::from_micros(300 * cycle));
        restless.kill();
        let start = Instant::now();
        let newcomer = meeting.join();
        assert!(start.elapsed() < Duration::from_secs(3), "the dead hold nothing");
        drop(newcomer);
    }
    witness.until("all are gone", |node| node.up.len() == node.down.len());
    assert_eq!(meeting.sockets(), 1, "only the witness has a socket");
    drop(witness);
    meeting.assert_empty();
}

#[test]
fn stopped_process_blocks_neither_joins_nor_other_nodes() {
    let meeting = TestDomain::new();
    let mut first = meeting.join();
    let mut stopped = ChildNode::start("member", &meeting.runtime_dir());
    stopped.hear();
    first.until("it is up", |node| node.up.len() == 1);
    stopped.stop();
    let mut config = meeting.config();
    config.answer_limit = Duration::from_millis(200);
    let start = Instant::now();
    let mut late = TestNode::join(config);
    assert!(start.elapsed() < Duration::from_secs(2), "the join took {:?}", start.elapsed());
    // The kernel shows that the process is stopped, although the two have not met.
    let is_halted = late.link.halts();
    assert!(is_halted(first.up[0]), "{:?}", late.up);
    late.until("the living meet", |node| !node.up.is_empty());
    first.until("the living meet", |node| node.up.len() == 2);
    // Work goes on, also towards the stopped peer.
    let own = first.link.open(NEWS, 8).unwrap();
    own.word(0).publish(1);
    for _ in 0..2000 {
        first.link.note(Peer(0), &[7; 100]).unwrap();
        first.link.note(Peer(1), b"go on").unwrap();
    }
    late.until("notes and regions come", |node| {
        node.notes.len() == 2000 && node.regions.len() == 1
    });
    assert!(first.down.is_empty() && late.up.len() == 1);
    stopped.signal(Signal::CONT);
    late.until("the one that goes on is met", |node| node.up.len() == 2);
    assert!(!is_halted(first.up[0]));
    late.until("its region is seen", |node| node.regions.len() == 2);
    assert_eq!(late.replica(HEARD).load(0), 4711);
    stopped.tell("leave");
    assert_eq!(stopped.hear(), "left");
    first.until("it has left", |node| node.down == [(Peer(0), Evidence::Left)]);
    late.until("it has left", |node| node.down.len() == 1);
    stopped.finish();
    drop((first, late));
    meeting.assert_empty();
}

#[test]
fn only_peer_that_never_reads_is_disconnected() {
    let meeting = TestDomain::new();
    let mut config = meeting.config();
    config.silence_limit = Duration::from_millis(300);
    let mut first = TestNode::join(config);
    let mut stopped = ChildNode::start("member", &meeting.runtime_dir());
    stopped.hear();
    first.until("it is up", |node| node.up.len() == 1);
    stopped.stop();
    for _ in 0..200 {
        first.link.note(Peer(0), &[7; 16 << 10]).unwrap();
    }
    first.until("it is cut off", |node| node.down == [(Peer(0), Evidence::Uncertain)]);
    assert!(first.link.note(Peer(0), b"?").is_err());
    let mut other = meeting.join();
    other.until("others are met", |node| !node.up.is_empty());
    stopped.kill();
    drop((first, other));
    drop(meeting.join());
    meeting.assert_empty();
}

#[test]
fn last_node_to_leave_removes_sockets_of_dead_nodes() {
    let meeting = TestDomain::new();
    // A socket without a listener, of a node that this node never met.
    let node = meeting.join();
    let path = meeting.domain_dir().join(format!("{:032x}.sock", 99));
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert_eq!(meeting.sockets(), 2);
    drop(node);
    meeting.assert_empty();
}

/// The thread of the leaving node has had no time to hear of the death.
#[test]
fn node_leaving_right_after_kills_removes_files_of_dead_nodes() {
    for _ in 0..100 {
        let meeting = TestDomain::new();
        let mut child_nodes: Vec<ChildNode> =
            (0..3).map(|_| ChildNode::start("member", &meeting.runtime_dir())).collect();
        child_nodes
            .iter_mut()
            .for_each(|child_node| assert!(child_node.hear().starts_with("joined")));
        let node = meeting.join();
        child_nodes.iter_mut().for_each(ChildNode::kill);
        drop(node);
        meeting.assert_empty();
    }
}

#[test]
fn next_join_removes_socket_of_dead_process() {
    let meeting = TestDomain::new();
    let mut alone = ChildNode::start("member", &meeting.runtime_dir());
    alone.hear();
    alone.kill();
    assert_eq!(meeting.sockets(), 1);
    let mut next = meeting.join();
    assert_eq!(meeting.sockets(), 1, "the old socket is gone and the new one is there");
    next.poll();
    assert!(next.up.is_empty());
    drop(next);
    meeting.assert_empty();
}

#[test]
fn settings_come_from_the_environment() {
    let meeting = TestDomain::new();
    let mut node = meeting.join();
    let read_answer = |name: &str, value: &str| {
        let folder = meeting.runtime_dir();
        let mut child_node = ChildNode::start_with("by environment", &folder, |command| {
            command.env("SQUALL_RUNTIME_DIR", &folder).env(name, value);
        });
        let answer = child_node.hear();
        child_node.finish();
        answer
    };
    assert_eq!(read_answer("SQUALL_MEMORY_LIMIT", "64M"), "joined");
    node.until("it came and left", |node| node.down == [(Peer(0), Evidence::Left)]);
    let bad = read_answer("SQUALL_MEMORY_LIMIT", "plenty");
    assert!(bad.contains("SQUALL_MEMORY_LIMIT") && bad.contains("plenty"), "{bad}");
    let bad = read_answer("SQUALL_GROUP", "no-such-group");
    assert!(bad.contains("no-such-group"), "{bad}");
    drop(node);
    meeting.assert_empty();
}

#[test]
fn users_of_one_unix_group_meet_and_other_users_are_refused() {
    let meeting = TestDomain::new();
    if !let_others_in(&meeting) {
        return;
    }
    let folder = meeting.runtime_dir();
    let mut one = ChildNode::start_as("member of the group", &folder, NOBODY, GROUP);
    one.hear();
    let mut two = ChildNode::start_as("member of the group", &folder, 1001, GROUP);
    two.hear();
    let stat = std::fs::metadata(&folder).unwrap();
    assert_eq!((stat.gid(), stat.mode() & 0o7777), (GROUP, 0o3770));
    // Root can enter any folder, but must not become a peer.
    let mut config = meeting.config();
    config.group = Some(GROUP.to_string());
    let refused = ShmLink::join(config).err().expect("root is not in the group").to_string();
    assert!(refused.contains("group"), "{refused}");
    // Another user outside the group cannot even enter the folder.
    let mut stranger = ChildNode::start_as("stranger", &folder, 1002, 1002);
    let said = stranger.hear();
    assert!(said.contains("belongs to user") || said.contains("Permission"), "{said}");
    let mut three = ChildNode::start_as("member of the group", &folder, 1003, GROUP);
    three.hear();
    for mut child_node in [one, two, three] {
        child_node.tell("leave");
        assert_eq!(child_node.hear(), "left");
        child_node.finish();
    }
    meeting.assert_nobody_listens();
}

#[test]
fn processes_of_one_unix_group_share_memory_across_users() {
    let meeting = TestDomain::new();
    if !let_others_in(&meeting) {
        return;
    }
    let folder = meeting.runtime_dir();
    let mut member = ChildNode::start_with("member of the group", &folder, |command| {
        use std::os::unix::process::CommandExt;
        command.uid(NOBODY).gid(GROUP);
    });
    member.hear();
    // The second process runs as another user, this test's own, and has the same group.
    let mut other = ChildNode::start_with("member of the group", &folder, |command| {
        use std::os::unix::process::CommandExt;
        command.gid(GROUP);
    });
    other.hear();
    until("they have met", || {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", member.pid())).unwrap();
        let arenas = maps.lines().filter(|line| line.contains("squall-arena"));
        // Count inodes: the first page of each arena is also mapped for the bells.
        let inodes: BTreeSet<_> = arenas.map(|line| line.split_whitespace().nth(4)).collect();
        inodes.len() == 2
    });
    for mut child_node in [member, other] {
        child_node.tell("leave");
        child_node.hear();
        child_node.finish();
    }
    meeting.assert_empty();
}

#[test]
fn link_works_if_dev_shm_has_room_for_one_page() {
    // A mount namespace whose /dev/shm has room for one page.
    let meeting = TestDomain::new();
    let script = "mount -t tmpfs -o size=4k tmpfs /dev/shm && exec \"$@\"";
    let exe = std::env::current_exe().unwrap();
    let mut unshare = std::process::Command::new("unshare");
    unshare.args(["--mount", "sh", "-c", script, "sh"]);
    let possible = unshare.arg("true").output().is_ok_and(|output| output.status.success());
    if !possible {
        eprintln!("skipped: unshare --mount is not possible here");
        return;
    }
    let status = std::process::Command::new("unshare")
        .args(["--mount", "sh", "-c", script, "sh"])
        .arg(exe)
        .args(["--exact", "a_killed_process_is_certainly_down_and_what_it_showed_stays"])
        .output()
        .unwrap();
    assert!(status.status.success(), "{}", String::from_utf8_lossy(&status.stdout));
    meeting.assert_empty();
}
