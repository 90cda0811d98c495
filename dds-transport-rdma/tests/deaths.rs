//! Ends of peers, as the surviving processes see them: how soon, how certain, and how many
//! descriptors they cost.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

mod support;

use std::fs::File;
use std::time::{Duration, Instant};

use derecho_core::ids::Peer;
use derecho_core::link::Evidence;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, PidfdFlags, Resource, Rlimit, Signal, getrlimit, pidfd_open, pidfd_send_signal, setrlimit,
};
use support::{ChildNode, TestDomain, TestNode, config, descriptors, orders, print_line, role};

/// Descriptors that a participant has open for each peer: the connection, and the socket that rings
/// the peer.
const DESCRIPTORS_PER_PEER: usize = 2;
/// Longest life of a forked child whose test fails.
const CHILD_LIFE: Duration = Duration::from_secs(40);

unsafe extern "C" {
    fn fork() -> i32;
    fn _exit(status: i32) -> !;
}

/// Entry point of a child process; does nothing in an ordinary run of the tests.
#[test]
fn act() {
    let Some((role, folder)) = role() else { return };
    let config = config(&folder);
    match role.as_str() {
        "member" => act_member(TestNode::join(config)),
        "parent" => act_parent(TestNode::join(config)),
        "deserter" => act_deserter(TestNode::join(config)),
        other => panic!("no such role: {other}"),
    }
}

/// Reports the number of its descriptors, opens files until no descriptor is left, and reports
/// which peers are down.
fn act_member(mut node: TestNode) {
    let lines = orders();
    let mut files = Vec::new();
    print_line("joined");
    loop {
        node.poll();
        match lines.try_recv().as_deref() {
            Ok("exhaust") => {
                let limit = Rlimit { current: Some(256), ..getrlimit(Resource::Nofile) };
                setrlimit(Resource::Nofile, limit).unwrap();
                files.extend(std::iter::from_fn(|| File::open("/dev/null").ok()));
                print_line("exhausted");
            }
            Ok("leave") => return,
            Ok(order) => {
                let (what, count) = order.split_once(' ').unwrap();
                let count: usize = count.parse().unwrap();
                if what == "descriptors" {
                    node.until("the peers are up", |node| node.up.len() == count);
                    print_line(&descriptors().to_string());
                } else {
                    node.until("the peers are down", |node| node.down.len() == count);
                    print_line(&format!(
                        "{:?}",
                        node.down.iter().map(|it| it.1).collect::<Vec<_>>()
                    ));
                }
            }
            Err(_) => std::thread::sleep(Duration::from_micros(200)),
        }
    }
}

/// Forks a child that holds copies of all its descriptors and does nothing.
fn act_parent(mut node: TestNode) {
    // SAFETY: the child sleeps and ends, and uses nothing that another thread of its parent may
    // have locked.
    let child = unsafe { fork() };
    if child == 0 {
        std::thread::sleep(CHILD_LIFE);
        // SAFETY: ends the process.
        unsafe { _exit(0) };
    }
    print_line(&child.to_string());
    loop {
        node.poll();
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Closes its connections without a goodbye, and lives on.
fn act_deserter(node: TestNode) {
    let lines = orders();
    print_line("joined");
    assert_eq!(lines.recv().unwrap(), "desert");
    node.link.abandon();
    print_line("deserted");
    assert!(lines.recv().is_err(), "the deserter lives until it is killed");
}

fn start(meeting: &TestDomain, role: &str) -> ChildNode {
    let mut child_node = ChildNode::start(role, &meeting.runtime_dir());
    assert_eq!(child_node.hear(), "joined");
    child_node
}

fn ask(child_node: &mut ChildNode, order: &str) -> String {
    child_node.tell(order);
    child_node.hear()
}

fn descriptors_with_peers(child_node: &mut ChildNode, peers: usize) -> usize {
    ask(child_node, &format!("descriptors {peers}")).parse().unwrap()
}

/// Expected answer of a member that has `count` certainly dead peers.
fn certain(count: usize) -> String {
    format!("{:?}", vec![Evidence::Certain; count])
}

/// A process whose child holds copies of its sockets.
struct ForkedParent {
    child_node: ChildNode,
    child: Pid,
    started: Instant,
}

impl ForkedParent {
    fn start(meeting: &TestDomain) -> ForkedParent {
        let mut child_node = ChildNode::start("parent", &meeting.runtime_dir());
        let child = Pid::from_raw(child_node.hear().parse().unwrap()).unwrap();
        ForkedParent { child_node, child, started: Instant::now() }
    }

    /// Kills the child, which must still be alive: its own end would also reveal the end of
    /// its parent. Returns when the kernel has closed the child's descriptors, which keep the
    /// parent's socket open.
    fn end_child(self) {
        assert!(self.started.elapsed() < CHILD_LIFE / 2, "{:?}", self.started.elapsed());
        let child = pidfd_open(self.child, PidfdFlags::empty()).expect("the child lives");
        pidfd_send_signal(&child, Signal::KILL).expect("the child lives");
        let limit = Timespec { tv_sec: 10, tv_nsec: 0 };
        let ended = poll(&mut [PollFd::new(&child, PollFlags::IN)], Some(&limit)).unwrap();
        assert_eq!(ended, 1, "the child still runs");
    }
}

#[test]
fn each_peer_takes_two_descriptors() {
    const MEMBERS: usize = 6;
    let meeting = TestDomain::new();
    let mut first = start(&meeting, "member");
    let alone = descriptors_with_peers(&mut first, 0);
    let mut members: Vec<ChildNode> = (0..MEMBERS).map(|_| start(&meeting, "member")).collect();
    let called = descriptors_with_peers(&mut first, MEMBERS);
    assert_eq!(called - alone, MEMBERS * DESCRIPTORS_PER_PEER, "of peers that called");
    // The last member has called all others.
    let calling = descriptors_with_peers(&mut members[MEMBERS - 1], MEMBERS);
    assert_eq!(calling - alone, MEMBERS * DESCRIPTORS_PER_PEER, "of peers that were called");
    members.iter_mut().for_each(ChildNode::kill);
    assert_eq!(ask(&mut first, &format!("down {MEMBERS}")), certain(MEMBERS));
    assert_eq!(descriptors_with_peers(&mut first, MEMBERS), alone, "the dead take none");
    first.tell("leave");
    first.finish();
    meeting.assert_empty();
}

/// Well before the periodic check of the peers would show it.
#[test]
fn kill_of_peer_is_reported_at_once() {
    let mut delays: Vec<Duration> = (0..15)
        .map(|_| {
            let meeting = TestDomain::new();
            let mut node = meeting.join();
            let mut member = start(&meeting, "member");
            node.until("the member is up", |node| node.up.len() == 1);
            let killed = Instant::now();
            member.signal(Signal::KILL);
            node.until("the member is down", |node| !node.down.is_empty());
            let delay = killed.elapsed();
            assert_eq!(node.down, [(Peer(0), Evidence::Certain)]);
            member.kill();
            delay
        })
        .collect();
    delays.sort_unstable();
    println!("from SIGKILL to the event: {delays:?}");
    assert!(delays[7] < Duration::from_millis(100), "{delays:?}");
}

#[test]
fn killed_parent_is_certainly_down_while_its_child_lives() {
    let meeting = TestDomain::new();
    let mut node = meeting.join();
    let mut parent = ForkedParent::start(&meeting);
    node.until("the parent is up", |node| node.up.len() == 1);
    // Killed and not reaped: a zombie counts as dead.
    let killed = Instant::now();
    parent.child_node.signal(Signal::KILL);
    node.until("the parent is down", |node| !node.down.is_empty());
    let delay = killed.elapsed();
    assert_eq!(node.down, [(Peer(0), Evidence::Certain)]);
    println!("from SIGKILL to the event: {delay:?}");
    assert!(delay < Duration::from_secs(5), "{delay:?}");
    parent.child_node.kill();
    parent.end_child();
    drop(node);
    meeting.assert_empty();
}

#[test]
fn newcomer_does_not_wait_for_a_dead_parent_whose_child_holds_its_socket() {
    for is_reaped in [false, true] {
        let meeting = TestDomain::new();
        let mut parent = ForkedParent::start(&meeting);
        parent.child_node.signal(Signal::KILL);
        if is_reaped {
            parent.child_node.kill();
        }
        let begin = Instant::now();
        let node = meeting.join();
        assert!(begin.elapsed() < Duration::from_secs(2), "{:?}", begin.elapsed());
        assert!(node.up.is_empty());
        parent.child_node.kill();
        parent.end_child();
        drop(node);
        meeting.assert_empty();
    }
}

/// Starts a node with this evidence limit, and a peer that has closed its connection without
/// a goodbye.
fn with_a_deserter(meeting: &TestDomain, evidence_limit: Duration) -> (TestNode, ChildNode) {
    let mut config = meeting.config();
    config.evidence_limit = evidence_limit;
    let mut node = TestNode::join(config);
    let deserter = start(meeting, "deserter");
    node.until("the deserter is up", |node| node.up.len() == 1);
    (node, deserter)
}

#[test]
fn peer_that_closed_its_connection_and_lives_is_uncertainly_down() {
    let meeting = TestDomain::new();
    let (mut node, mut deserter) = with_a_deserter(&meeting, Duration::from_millis(300));
    let begin = Instant::now();
    assert_eq!(ask(&mut deserter, "desert"), "deserted");
    node.until("the deserter is down", |node| !node.down.is_empty());
    assert_eq!(node.down, [(Peer(0), Evidence::Uncertain)]);
    assert!(begin.elapsed() >= Duration::from_millis(300), "{:?}", begin.elapsed());
    deserter.kill();
}

#[test]
fn peer_that_dies_after_it_closed_its_connection_is_certainly_down() {
    let meeting = TestDomain::new();
    let (mut node, mut deserter) = with_a_deserter(&meeting, Duration::from_secs(60));
    assert_eq!(ask(&mut deserter, "desert"), "deserted");
    (0..20).for_each(|_| node.poll());
    assert!(node.down.is_empty(), "nothing is known yet");
    deserter.kill();
    node.until("the deserter is down", |node| !node.down.is_empty());
    assert_eq!(node.down, [(Peer(0), Evidence::Certain)]);
}

#[test]
fn deaths_are_certain_to_a_process_without_descriptors() {
    const VICTIMS: usize = 8;
    let meeting = TestDomain::new();
    let mut witness = start(&meeting, "member");
    let mut victims: Vec<ChildNode> = (0..VICTIMS).map(|_| start(&meeting, "member")).collect();
    descriptors_with_peers(&mut witness, VICTIMS);
    let mut parent = ForkedParent::start(&meeting);
    descriptors_with_peers(&mut witness, VICTIMS + 1);
    assert_eq!(ask(&mut witness, "exhaust"), "exhausted");
    // More deaths at once than there are spare descriptors. Zombies keep their numbers.
    victims.iter().for_each(|victim| victim.signal(Signal::KILL));
    assert_eq!(ask(&mut witness, &format!("down {VICTIMS}")), certain(VICTIMS));
    // The dead peers have freed descriptors. Next comes a death that only the periodic check shows.
    assert_eq!(ask(&mut witness, "exhaust"), "exhausted");
    parent.child_node.kill();
    assert_eq!(ask(&mut witness, &format!("down {}", VICTIMS + 1)), certain(VICTIMS + 1));
    victims.iter_mut().for_each(ChildNode::kill);
    parent.end_child();
    witness.tell("leave");
    witness.finish();
    meeting.assert_empty();
}
