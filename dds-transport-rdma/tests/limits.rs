//! Resource use of a link, and its behaviour when resources run out.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

mod support;

use std::time::{Duration, Instant};

use dds_transport_rdma::shm::{JoinError, ShmLink};
use derecho_core::ids::{Peer, RegionId};
use derecho_core::link::{Interest, Link, LinkError};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use support::{ChildNode, TestDomain, TestNode, descriptors, print_line, role};

/// Serialises the tests, because they count resources of the whole process.
static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());

fn alone() -> std::sync::MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn refusal(result: Result<derecho_core::memory::OwnRegion, LinkError>) -> String {
    match result {
        Err(LinkError::System(text)) => text,
        other => panic!("{other:?}"),
    }
}

/// Joins under a limit of file lengths, and opens regions; does nothing unless the program is
/// started as a child node.
#[test]
fn act() {
    let Some((limit, runtime_dir)) = role() else { return };
    let maximum = getrlimit(Resource::Fsize).maximum;
    let limit = Rlimit { current: Some(limit.parse().unwrap()), maximum };
    setrlimit(Resource::Fsize, limit).unwrap();
    match ShmLink::join(support::config(&runtime_dir)) {
        Err(error) => print_line(&format!("refused: {error}")),
        Ok(mut link) => {
            print_line("joined");
            let regions: Vec<_> = [1 << 20, 12 << 20, 12 << 20, 24 << 20]
                .into_iter()
                .zip(1..)
                .map(|(bytes, name)| link.open(RegionId(name), bytes / 8))
                .collect();
            let refused = regions.into_iter().filter_map(Result::err).map(|it| it.to_string());
            print_line(&refused.collect::<Vec<String>>().join(" and "));
        }
    }
}

#[test]
fn file_size_limit_is_named_in_error_and_ends_no_process() {
    let _alone = alone();
    let meeting = TestDomain::new();
    let mut child_node = ChildNode::start(&(16_u64 << 20).to_string(), &meeting.runtime_dir());
    assert_eq!(child_node.hear(), "joined");
    let refused = child_node.hear();
    assert!(refused.contains("16777216 bytes") && refused.contains("ulimit -f"), "{refused}");
    assert_eq!(refused.matches("RLIMIT_FSIZE").count(), 1, "the large region alone: {refused}");
    child_node.finish();
    let mut child_node = ChildNode::start("0", &meeting.runtime_dir());
    let refused = child_node.hear();
    assert!(refused.starts_with("refused") && refused.contains("ulimit -f"), "{refused}");
    child_node.finish();
    meeting.assert_empty();
}

#[test]
fn thousand_regions_take_fewer_than_64_descriptors() {
    let _alone = alone();
    let before = descriptors();
    let meeting = TestDomain::new();
    let (mut a, mut b) = (meeting.join(), meeting.join());
    let own: Vec<_> = (0..1000).map(|name| a.link.open(RegionId(name), 4096).unwrap()).collect();
    b.until("all are seen", |node| node.regions.len() == 1000);
    let used = descriptors() - before;
    assert!(used < 64, "{used} descriptors for two nodes with a thousand regions");
    drop((own, a, b));
    assert_eq!(descriptors(), before, "descriptors stay open");
}

#[test]
fn departed_links_leave_no_mapping_and_no_descriptor() {
    let _alone = alone();
    let arenas = || {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        maps.lines().filter(|line| line.contains("squall-arena")).count()
    };
    let (before, mapped) = (descriptors(), arenas());
    let meeting = TestDomain::new();
    let mut reader = meeting.join();
    for round in 1..=10 {
        let mut guest = meeting.join();
        let _own = guest.link.open(RegionId(1), 64).unwrap();
        reader.until("the guest's region is seen", |node| node.regions.len() == round);
    }
    reader.until("all have left", |node| node.down.len() == 10);
    assert_eq!(reader.replica(RegionId(1)).load(0), 0, "a replica outlives its owner");
    reader.regions.clear();
    drop(reader);
    assert_eq!((descriptors(), arenas()), (before, mapped));
    meeting.assert_empty();
}

#[test]
fn memory_limit_is_enforced_and_named_in_error() {
    let _alone = alone();
    let meeting = TestDomain::new();
    let mut config = meeting.config();
    config.memory_limit = Some(1 << 20);
    let mut node = TestNode::join(config);
    let _small = node.link.open(RegionId(1), 1000).unwrap();
    let text = refusal(node.link.open(RegionId(2), 1 << 20));
    assert!(text.contains("SQUALL_MEMORY_LIMIT") && text.contains("0x2"), "{text}");
    // A refused request can be repeated with a smaller size.
    let _smaller = node.link.open(RegionId(2), 1000).unwrap();
    let mut config = meeting.config();
    config.memory_limit = Some(100);
    let error = ShmLink::join(config).err().expect("not even a header fits");
    assert!(matches!(error, JoinError::Memory(_)), "{error}");
    drop(node);
    meeting.assert_empty();
}

#[test]
fn absurd_region_sizes_are_refused_with_explanation() {
    let _alone = alone();
    let meeting = TestDomain::new();
    let mut node = meeting.join();
    // More words than there are bytes, more bytes than any region, more than the host has.
    for (name, words) in [(1, usize::MAX), (2, usize::MAX / 8), (3, 1 << 37)] {
        let text = refusal(node.link.open(RegionId(name), words));
        assert!(text.contains("bytes") || text.contains("words"), "{text}");
    }
    let available = refusal(node.link.open(RegionId(4), 1 << 37));
    assert!(available.contains("available"), "{available}");
    assert!(node.link.open(RegionId(4), 10).is_ok());
}

#[test]
fn memory_of_closed_region_is_freed_after_release_by_reader() {
    let _alone = alone();
    let shared = || {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with("RssShmem:")).unwrap().to_owned();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
    };
    let meeting = TestDomain::new();
    let mut config = meeting.config();
    // Room for one of the two regions below, not for both.
    config.memory_limit = Some(150 << 20);
    let (mut a, mut b) = (TestNode::join(config), meeting.join());
    let words = (100 << 20) / 8;
    for name in 0..5 {
        let start = Instant::now();
        let own = loop {
            // The space of the previous region is free once the reader has released it.
            match a.link.open(RegionId(name), words) {
                Ok(own) => break own,
                Err(error) => assert!(start.elapsed() < support::PATIENCE, "{error}"),
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        (0..words).step_by(512).for_each(|index| own.word(index).put(1));
        b.until("it is seen", |node| !node.regions.is_empty());
        assert_eq!(b.replica(RegionId(name)).load(512), 1);
        let refused = a.link.open(RegionId(100 + name), words);
        assert!(refusal(refused).contains("SQUALL_MEMORY_LIMIT"));
        a.link.close(RegionId(name)).unwrap();
        drop(own);
        b.until("it is closed", |node| node.closed.len() == name as usize + 1);
        let refused = a.link.open(RegionId(100 + name), words);
        assert!(
            refusal(refused).contains("SQUALL_MEMORY_LIMIT"),
            "a reader that holds it keeps it"
        );
        b.regions.clear();
    }
    let start = Instant::now();
    for name in 1000.. {
        // Every call that changes regions takes back the space that has become free.
        let _small = a.link.open(RegionId(name), 1).unwrap();
        if shared() < 10 << 20 {
            break;
        }
        assert!(start.elapsed() < support::PATIENCE, "{} bytes are still used", shared());
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn replica_held_after_leave_keeps_region_contents_until_dropped() {
    let _alone = alone();
    let words = (1 << 20) / 8;
    let meeting = TestDomain::new();
    let mut config = meeting.config();
    config.memory_limit = Some(3 << 19);
    let (mut a, mut b) = (TestNode::join(config), meeting.join());
    let own = a.link.open(RegionId(1), words).unwrap();
    own.word(0).publish(4711);
    b.until("it is seen", |node| node.regions.len() == 1);
    let seen = b.replica(RegionId(1));
    drop(b);
    a.until("it has left", |node| node.down.len() == 1);
    a.link.close(RegionId(1)).unwrap();
    drop(own);
    // A while in which the space would be reused if it were free.
    for name in 0..20 {
        assert!(a.link.open(RegionId(100 + name), words).is_err());
        a.poll();
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(seen.load(0), 4711);
    drop(seen);
    let start = Instant::now();
    while a.link.open(RegionId(2), words).is_err() {
        assert!(start.elapsed() < support::PATIENCE, "the space does not come back");
        std::thread::sleep(Duration::from_millis(1));
    }
    drop(a);
    meeting.assert_empty();
}

#[test]
fn idle_link_wakes_up_only_for_peer_checks() {
    let _alone = alone();
    let meeting = TestDomain::new();
    let mut a = meeting.join();
    let wakeups = || {
        let threads = std::fs::read_dir("/proc/self/task").unwrap().flatten();
        let counts = threads.filter_map(|thread| {
            let name = std::fs::read_to_string(thread.path().join("comm")).ok()?;
            let status = std::fs::read_to_string(thread.path().join("status")).ok()?;
            let line = status.lines().find(|line| line.starts_with("voluntary_ctxt_switches"))?;
            let count: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
            name.starts_with("shm-rendezvous").then_some(count)
        });
        counts.sum::<u64>()
    };
    // The passage of time is the subject of this test.
    std::thread::sleep(Duration::from_millis(50));
    let before = wakeups();
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(wakeups(), before, "the thread of a link without peers wakes up");
    let mut b = meeting.join();
    a.until("they meet", |node| node.up.len() == 1);
    b.until("they meet", |node| node.up.len() == 1);
    std::thread::sleep(Duration::from_millis(50));
    let (before, start) = (wakeups(), Instant::now());
    std::thread::sleep(Duration::from_secs(1));
    // Two links, each of which checks its peer's process twice a second.
    let looks = 2 * (start.elapsed().as_millis() / 500 + 1);
    let woken = u128::from(wakeups() - before);
    assert!(
        woken <= looks,
        "the threads of idle links wake up {woken} times where {looks} looks are due"
    );
    // Both links respond at once when there is work.
    let parker = b.link.parker();
    parker.arm(Interest::Hints);
    b.poll();
    let start = Instant::now();
    a.link.note(Peer(0), b"up").unwrap();
    parker.sleep(Some(10_000_000_000));
    parker.disarm();
    assert!(start.elapsed() < Duration::from_secs(5));
    b.until("the note is there", |node| node.notes.len() == 1);
}

#[test]
fn a_link_without_regions_is_small() {
    let _alone = alone();
    let meeting = TestDomain::new();
    let resident = || {
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
        statm.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 4096
    };
    let warm = meeting.join();
    let before = resident();
    let links: Vec<TestNode> = (0..8).map(|_| meeting.join()).collect();
    let each = (resident() - before) / 8;
    // Each of the eight links has up to eight peers here, and its thread.
    assert!(each < 512 << 10, "{each} bytes");
    drop((links, warm));
}
