//! Programs that misuse the folder, the sockets and the shared memory: no node waits for them, and
//! they split no domain.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

mod support;

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use dds_transport_rdma::shm::wire::{self, Message};
use dds_transport_rdma::shm::{JoinError, ShmConfig, ShmLink};
use derecho_core::ids::{Rank, RegionId};
use derecho_core::link::{Arbiter, Founding, Generation, Link};
use derecho_core::memory::WORD;
use rustix::fs::{SealFlags, fcntl_add_seals, fstat, ftruncate};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use support::raw::{ARENA, HEADER_PARKED, NODE, RawPeer, honest_memory, memory, memory_of};
use support::{PATIENCE, TestDomain, TestNode, descriptors};

/// Runs `act` in a thread of its own; fails if it does not return in time.
fn in_time<T: Send + 'static>(what: &str, act: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || sender.send(act()));
    receiver.recv_timeout(PATIENCE / 2).unwrap_or_else(|_| panic!("{what} does not come back"))
}

/// Returns the error of a join that must fail.
fn refused(config: ShmConfig) -> JoinError {
    let joined = in_time("the join", move || ShmLink::join(config).map(drop));
    joined.expect_err("the join has to be refused")
}

#[test]
fn blocking_doorbell_of_peer_blocks_no_ringing_thread() {
    let meeting = TestDomain::new();
    let mut node = meeting.join();
    let memory = honest_memory();
    let asleep = 1_u64.to_ne_bytes();
    assert_eq!(rustix::io::pwrite(&memory, &asleep, HEADER_PARKED).unwrap(), WORD);
    let raw = RawPeer::connect(&meeting, &node);
    raw.introduce(&memory, ARENA);
    node.until("it is a peer", |node| node.up.len() == 1);
    raw.block_bell();
    let bells = node.link.bells();
    in_time("a thread that rings", move || (0..10_000).for_each(|_| bells.ring(!0)));
    assert!(node.link.counters().rings >= 10_000, "the peer was never rung");
    drop(raw);
    node.until("the peer is down", |node| node.down.len() == 1);
}

#[test]
fn join_reports_removed_files_of_live_nodes() {
    for removed in ["lock", "socket", "everything"] {
        let meeting = TestDomain::new();
        let node = meeting.join();
        node.link.arbiter().unwrap().found().unwrap();
        let socket = meeting.domain_dir().join(format!("{}.sock", node.link.node()));
        match removed {
            "lock" => fs::remove_file(meeting.domain_dir().join("lock")).unwrap(),
            "socket" => fs::remove_file(socket).unwrap(),
            _ => fs::remove_dir_all(meeting.runtime_dir()).unwrap(),
        }
        // Every attempt fails, not only the first.
        for _ in 0..2 {
            let error = refused(meeting.config());
            assert!(matches!(error, JoinError::Folder { .. }), "{removed}: {error}");
            let text = error.to_string();
            assert!(text.contains("removed") && text.contains("end all"), "{text}");
        }
        drop(node);
        // Once the processes are gone, the domain starts afresh.
        drop(meeting.join());
        meeting.assert_empty();
    }
}

#[test]
fn group_with_removed_file_is_not_founded_again() {
    for and_lock in [false, true] {
        let meeting = TestDomain::new();
        let founder = meeting.join();
        let witness = meeting.join();
        founder.link.arbiter().unwrap().found().unwrap();
        fs::remove_file(meeting.domain_dir().join("group")).unwrap();
        if and_lock {
            fs::remove_file(meeting.domain_dir().join("lock")).unwrap();
        } else {
            // Asked by a node that joins later.
            let newcomer = meeting.join();
            let told = newcomer.link.arbiter().unwrap().found().unwrap_err().to_string();
            assert!(told.contains("removed") && told.contains("end all"), "{told}");
        }
        // Asked by a node that was present and had not asked before.
        let told = witness.link.arbiter().unwrap().found().unwrap_err().to_string();
        assert!(told.contains("removed") && told.contains("end all"), "{told}");
        drop((founder, witness));
        let node = meeting.join();
        node.link.arbiter().unwrap().found().unwrap();
        drop(node);
        meeting.assert_empty();
    }
}

/// Creates two members of a group of one host, the second of which has entered.
fn two_members(meeting: &TestDomain) -> [(TestNode, Arc<dyn Arbiter>); 2] {
    let [first, second] = [(); 2].map(|()| {
        let node = meeting.join();
        let arbiter = node.link.arbiter().unwrap();
        (node, arbiter)
    });
    assert_eq!(first.1.found(), Ok(Founding::Founded(GROUP)));
    assert_eq!(second.1.found(), Ok(Founding::Exists(GROUP)));
    assert!(second.1.entered(GROUP, 2, 1));
    [first, second]
}

const GROUP: Generation = Generation(1);

#[test]
fn truncated_or_overwritten_group_files_end_no_member() {
    let meeting = TestDomain::new();
    let members = two_members(&meeting);
    let (group, lock) = (meeting.domain_dir().join("group"), meeting.domain_dir().join("lock"));
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let folder = meeting.runtime_dir();
    assert!(!maps.contains(folder.to_str().unwrap()), "a file of the folder is mapped: {maps}");
    let [content, noted] = [&group, &lock].map(|path| fs::read(path).unwrap());
    let length = content.len();
    let harms: [&dyn Fn(); 7] = [
        &|| File::options().write(true).open(&group).unwrap().set_len(0).unwrap(),
        &|| File::options().write(true).open(&group).unwrap().set_len(64).unwrap(),
        &|| fs::write(&group, vec![0; length]).unwrap(),
        &|| fs::write(&group, vec![0xff; length]).unwrap(),
        &|| fs::write(&group, [&content[..8], &vec![0xff; length - 8][..]].concat()).unwrap(),
        // Another memory, which no node uses.
        &|| fs::write(&group, [&content[..16], &[7; 8], &vec![0; length - 24]].concat()).unwrap(),
        &|| File::options().write(true).open(&lock).unwrap().set_len(0).unwrap(),
    ];
    for (view, damage) in (3..).zip(harms) {
        damage();
        for (_, arbiter) in &members {
            assert!(arbiter.is_member());
            assert_eq!(arbiter.settle(GROUP, view, Rank(0)), Some(Rank(0)));
            // The question may be refused, and no node founds a second group.
            match arbiter.found() {
                Ok(answer) => assert_eq!(answer, Founding::Exists(GROUP)),
                Err(error) => assert!(error.to_string().contains("group"), "{error}"),
            }
        }
        let newcomer = meeting.join();
        match newcomer.link.arbiter().unwrap().found() {
            Ok(answer) => assert_eq!(answer, Founding::Exists(GROUP)),
            Err(error) => assert!(error.to_string().contains("group"), "{error}"),
        }
        drop(newcomer);
        fs::write(&group, &content).unwrap();
        fs::write(&lock, &noted).unwrap();
        assert_eq!(members[0].1.found(), Ok(Founding::Exists(GROUP)), "all is as it was");
    }
    drop(members);
    meeting.assert_empty();
}

#[test]
fn peer_can_neither_resize_nor_write_protect_group_memory() {
    let meeting = TestDomain::new();
    let members = two_members(&meeting);
    let raw = RawPeer::connect(&meeting, &members[1].0);
    raw.introduce(&honest_memory(), ARENA);
    let memory = loop {
        let (packet, descriptor) = raw.receive().expect("a member hands the words over");
        if wire::decode(&packet) == Ok(Message::Group) {
            break descriptor.expect("the words are memory");
        }
    };
    for bytes in [0, 1, 1 << 20] {
        assert_eq!(ftruncate(&memory, bytes), Err(Errno::PERM));
    }
    assert_eq!(fcntl_add_seals(&memory, SealFlags::FUTURE_WRITE), Err(Errno::PERM));
    assert!(members.iter().all(|(_, arbiter)| arbiter.is_member()));
}

#[test]
fn node_refuses_group_memory_that_can_be_truncated() {
    let meeting = TestDomain::new();
    let mut node = meeting.join();
    for seals in [SealFlags::empty(), SealFlags::GROW | SealFlags::SEAL] {
        let raw = RawPeer::connect_as(&meeting, &node, NODE + u128::from(seals.bits()));
        let own = memory_of(raw.node, ARENA, SealFlags::SHRINK | SealFlags::GROW);
        raw.introduce(&own, ARENA);
        raw.send(&Message::Group, Some(&memory(4 << 10, seals)));
        let verdict = raw.verdict();
        assert!(verdict.contains("cut") && verdict.contains("group"), "{verdict}");
    }
    let raw = RawPeer::connect_as(&meeting, &node, NODE - 1);
    raw.introduce(&memory_of(raw.node, ARENA, SealFlags::SHRINK | SealFlags::GROW), ARENA);
    raw.send(&Message::Group, None);
    assert!(raw.verdict().contains("without memory"));
    node.until("all are cut off", |node| node.down.len() == 3);
    assert_eq!(node.link.arbiter().unwrap().found(), Ok(Founding::Founded(GROUP)));
}

#[test]
fn folder_swapped_for_symbolic_link_leaves_target_unchanged() {
    let meeting = TestDomain::new();
    let secret = meeting.folder.path().join("secret");
    fs::create_dir(&secret).unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o700)).unwrap();
    let (stop, swaps) = (AtomicBool::new(false), AtomicU32::new(0));
    std::thread::scope(|scope| {
        // The attacker repeatedly replaces the domain's folder by a link, as fast as it can.
        scope.spawn(|| {
            let place = meeting.domain_dir();
            for number in 0_u64.. {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                let away = meeting.folder.path().join(format!("away-{number}"));
                if fs::rename(&place, &away).is_ok() {
                    let swapped = symlink(&secret, &place).is_ok();
                    swaps.fetch_add(u32::from(swapped), Ordering::Relaxed);
                    std::thread::sleep(Duration::from_micros(200));
                    let _ = fs::remove_file(&place);
                }
            }
        });
        let deadline = Instant::now() + PATIENCE;
        while swaps.load(Ordering::Relaxed) < 100 && Instant::now() < deadline {
            let mut config = meeting.config();
            config.group = Some(rustix::process::getegid().as_raw().to_string());
            config.lock_limit = Duration::from_millis(20);
            drop(ShmLink::join(config));
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(swaps.into_inner() >= 10, "nothing was tried");
    let mode = fs::metadata(&secret).unwrap().mode() & 0o7777;
    assert_eq!(mode, 0o700, "the mode of a folder elsewhere was changed to {mode:04o}");
    assert_eq!(fs::read_dir(&secret).unwrap().count(), 0, "something was put there");
}

#[test]
fn open_connections_of_departed_peers_block_no_join() {
    const CONNECTIONS: u128 = 1_100;
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
    if limit.maximum.is_some_and(|most| most < 8 * CONNECTIONS as u64) {
        eprintln!("skipped: needs more descriptors than {:?}", limit.maximum);
        return;
    }
    let meeting = TestDomain::new();
    let mut node = meeting.join();
    let before = descriptors();
    let mut staying = Vec::new();
    for index in 0..CONNECTIONS {
        let raw = RawPeer::connect_as(&meeting, &node, NODE + index);
        let memory = memory_of(NODE + index, ARENA, SealFlags::SHRINK | SealFlags::GROW);
        raw.introduce(&memory, ARENA);
        raw.send(&Message::Goodbye, None);
        staying.push(raw);
        node.poll();
    }
    node.until("all have left", |node| node.down.len() == CONNECTIONS as usize);
    // Two descriptors of each connection belong to the test itself.
    let held = descriptors() - before - 2 * CONNECTIONS as usize;
    assert!(held < 400, "the node holds {held} descriptors for those who have left");
    let mut newcomer = meeting.join();
    newcomer.until("it meets the node", |newcomer| newcomer.up.len() == 1);
    drop(staying);
    drop((newcomer, node));
}

#[test]
fn join_fails_if_no_live_node_answers() {
    let meeting = TestDomain::new();
    let node = meeting.join();
    let silent = meeting.domain_dir().join(format!("{NODE:032x}.sock"));
    // A node that listens and says nothing; the other one answers.
    let listener = RawPeer::listen(&silent);
    let mut newcomer = meeting.join();
    newcomer.until("it meets the other", |newcomer| newcomer.up.len() == 1);
    drop((newcomer, node));
    let error = refused(meeting.config());
    let pid = std::process::id().to_string();
    assert!(error.to_string().contains(&pid), "{error}");
    drop(listener);
    drop(meeting.join());
    meeting.assert_empty();
}

#[test]
fn fifo_in_place_of_lock_file_blocks_no_join() {
    let meeting = TestDomain::new();
    drop(meeting.join());
    for folder in [meeting.runtime_dir(), meeting.domain_dir()] {
        fs::create_dir(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
    }
    let lock = meeting.domain_dir().join("lock");
    rustix::fs::mknodat(rustix::fs::CWD, &lock, rustix::fs::FileType::Fifo, 0o600.into(), 0)
        .unwrap();
    let error = refused(meeting.config());
    assert!(error.to_string().contains("lock"), "{error}");
}

#[test]
fn sparse_peer_region_takes_no_memory_from_memory_locking_node() {
    const SPARSE: u64 = 64 << 20;
    let meeting = TestDomain::new();
    let mut config = meeting.config();
    config.lock_memory = true;
    let mut node = match ShmLink::join(config) {
        Ok(link) => TestNode::new(link),
        Err(error) => return eprintln!("skipped: {error}"),
    };
    let raw = RawPeer::connect(&meeting, &node);
    raw.introduce(&honest_memory(), ARENA);
    let sparse = memory(SPARSE, SealFlags::SHRINK | SealFlags::GROW);
    raw.send(&Message::Arena { index: 1, bytes: SPARSE }, Some(&sparse));
    let words = SPARSE / WORD as u64;
    let region = Message::Region { serial: 0, region: 1, arena: 1, offset: 0, words };
    raw.send(&region, None);
    node.until("the region is up", |node| node.regions.iter().any(|it| it.1 == RegionId(1)));
    let taken = fstat(&sparse).unwrap().st_blocks as u64 * 512;
    assert!(taken < 1 << 20, "{taken} bytes were taken for a region of nothing");
    drop(raw);
    node.until("the peer is down", |node| node.down.len() == 1);
}
