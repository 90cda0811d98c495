//! The folder where nodes meet: checked before it is trusted, and removed by the last node.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

mod support;

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;
use std::time::{Duration, Instant};

use dds_transport_rdma::shm::{JoinError, ShmConfig, ShmLink};
use derecho_core::link::Link;
use rustix::fs::{FlockOperation, flock};
use support::{TestDomain, until};

const NOBODY: u32 = 65534;

fn refused(config: ShmConfig) -> JoinError {
    ShmLink::join(config).err().expect("the join has to be refused")
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn folders_and_sockets_are_accessible_to_owner_only() {
    let meeting = TestDomain::new();
    let node = meeting.join();
    assert_eq!(mode(&meeting.runtime_dir()), 0o700);
    assert_eq!(mode(&meeting.domain_dir()), 0o700);
    let socket = meeting.domain_dir().join(format!("{}.sock", node.link.node()));
    assert_eq!(mode(&socket), 0o600);
    drop(node);
    meeting.assert_empty();
}

#[test]
fn last_node_to_leave_removes_folders() {
    let meeting = TestDomain::new();
    let nodes: Vec<_> = (0..5).map(|_| meeting.join()).collect();
    assert_eq!(meeting.sockets(), 5);
    let mut other = meeting.config();
    other.domain = "another".to_owned();
    let other = ShmLink::join(other).unwrap();
    drop(nodes);
    assert!(!meeting.domain_dir().exists() && meeting.runtime_dir().exists());
    drop(other);
    meeting.assert_empty();
}

#[test]
fn runtime_folder_made_by_user_is_kept() {
    let meeting = TestDomain::new();
    fs::create_dir(meeting.runtime_dir()).unwrap();
    set_mode(&meeting.runtime_dir(), 0o700);
    for _ in 0..2 {
        let nodes = [meeting.join(), meeting.join()];
        assert!(meeting.domain_dir().exists());
        drop(nodes);
        assert_eq!(fs::read_dir(meeting.runtime_dir()).unwrap().count(), 0, "all else is removed");
    }
    // A folder that a node creates in its place is removed again.
    fs::remove_dir(meeting.runtime_dir()).unwrap();
    drop(meeting.join());
    meeting.assert_empty();
}

#[test]
fn concurrent_joins_and_leaves_leave_no_files() {
    let meeting = TestDomain::new();
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| (0..15).for_each(|_| drop(meeting.join())));
        }
    });
    meeting.assert_empty();
}

#[test]
fn each_pair_of_nodes_meets_exactly_once() {
    let meeting = TestDomain::new();
    let mut nodes: Vec<_> = std::thread::scope(|scope| {
        let joins: Vec<_> = (0..6).map(|_| scope.spawn(|| meeting.join())).collect();
        joins.into_iter().map(|join| join.join().unwrap()).collect()
    });
    for node in &mut nodes {
        node.until("it has met all others", |node| node.up.len() == 5);
    }
    nodes.iter_mut().for_each(|node| {
        node.poll();
        assert_eq!((node.up.len(), node.down.len()), (5, 0));
    });
}

#[test]
fn join_rejects_folder_open_to_other_users() {
    for (open, secret) in [(0o701, 0o700), (0o750, 0o700), (0o777, 0o700)] {
        let meeting = TestDomain::new();
        fs::create_dir(meeting.runtime_dir()).unwrap();
        set_mode(&meeting.runtime_dir(), open);
        let error = refused(meeting.config());
        assert!(matches!(error, JoinError::Folder { .. }), "{error}");
        let text = error.to_string();
        assert!(text.contains(&format!("{open:04o}")) && text.contains("run"), "{text}");
        // The domain's folder is checked in the same way.
        set_mode(&meeting.runtime_dir(), secret);
        fs::create_dir(meeting.domain_dir()).unwrap();
        set_mode(&meeting.domain_dir(), open);
        let text = refused(meeting.config()).to_string();
        assert!(text.contains("test") && text.contains(&format!("{open:04o}")), "{text}");
    }
}

#[test]
fn join_rejects_symbolic_link_or_file_in_place_of_folder() {
    let meeting = TestDomain::new();
    let elsewhere = tempfile::tempdir().unwrap();
    symlink(elsewhere.path(), meeting.runtime_dir()).unwrap();
    let text = refused(meeting.config()).to_string();
    assert!(text.contains("symbolic link"), "{text}");
    fs::remove_file(meeting.runtime_dir()).unwrap();
    fs::write(meeting.runtime_dir(), "").unwrap();
    let text = refused(meeting.config()).to_string();
    assert!(text.contains("not a folder"), "{text}");
}

#[test]
fn join_rejects_folder_of_another_user() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: needs root to give a folder away");
        return;
    }
    let meeting = TestDomain::new();
    fs::create_dir(meeting.runtime_dir()).unwrap();
    set_mode(&meeting.runtime_dir(), 0o700);
    chown(meeting.runtime_dir(), Some(NOBODY), None).unwrap();
    let text = refused(meeting.config()).to_string();
    assert!(text.contains("belongs to user 65534"), "{text}");
    // With a group, the group decides.
    let mut config = meeting.config();
    config.group = Some("54321".to_owned());
    let text = refused(config).to_string();
    assert!(text.contains("group 54321"), "{text}");
}

#[test]
fn join_rejects_invalid_domain_unknown_group_and_bad_runtime_folder() {
    let meeting = TestDomain::new();
    let mut config = meeting.config();
    config.domain = "../elsewhere".to_owned();
    assert!(matches!(refused(config), JoinError::BadDomain { .. }));
    let mut config = meeting.config();
    config.group = Some("no-such-group".to_owned());
    assert_eq!(refused(config), JoinError::NoSuchGroup("no-such-group".to_owned()));
    let mut config = meeting.config();
    config.runtime_dir = Some(meeting.folder.path().join("x".repeat(100)));
    let text = refused(config).to_string();
    assert!(text.contains("SQUALL_RUNTIME_DIR"), "{text}");
    let mut config = meeting.config();
    config.runtime_dir = Some(meeting.folder.path().join("no/such/folder"));
    let text = refused(config).to_string();
    assert!(text.contains("no/such/folder"), "{text}");
    meeting.assert_empty();
}

#[test]
fn join_rejects_node_id_in_use() {
    let meeting = TestDomain::new();
    let mut first = meeting.join();
    let mut config = meeting.config();
    config.node = first.link.node();
    assert_eq!(refused(config), JoinError::NodeExists(first.link.node()));
    first.poll();
    assert!(first.up.is_empty());
    // The node that has the id is not disturbed.
    let _second = meeting.join();
    first.until("it is still found", |node| node.up.len() == 1);
}

#[test]
fn join_waits_for_held_lock_up_to_time_limit() {
    let meeting = TestDomain::new();
    let resident = meeting.join();
    let lock = fs::File::open(meeting.domain_dir().join("lock")).unwrap();
    flock(&lock, FlockOperation::LockExclusive).unwrap();
    let mut config = meeting.config();
    config.lock_limit = Duration::from_millis(100);
    let start = Instant::now();
    let error = refused(config);
    assert!(matches!(error, JoinError::LockBusy { .. }), "{error}");
    assert!(start.elapsed() < Duration::from_secs(5));
    std::thread::scope(|scope| {
        let join = scope.spawn(|| meeting.join());
        std::thread::sleep(Duration::from_millis(20));
        drop(lock);
        drop(join.join().unwrap());
    });
    drop(resident);
    meeting.assert_empty();
}

#[test]
fn nodes_remove_only_sockets_without_listener() {
    let meeting = TestDomain::new();
    drop(meeting.join());
    fs::create_dir(meeting.runtime_dir()).unwrap();
    set_mode(&meeting.runtime_dir(), 0o700);
    fs::create_dir(meeting.domain_dir()).unwrap();
    set_mode(&meeting.domain_dir(), 0o700);
    let note = meeting.domain_dir().join("README");
    fs::write(&note, "").unwrap();
    let stream = meeting.domain_dir().join(format!("{:032x}.sock", 7));
    let listener = std::os::unix::net::UnixListener::bind(&stream).unwrap();
    drop(meeting.join());
    assert!(note.exists() && stream.exists());
    // A socket without a listener counts as left by a dead node.
    drop(listener);
    drop(meeting.join());
    assert!(note.exists() && !stream.exists());
    until("only the stranger's file is there", || {
        fs::read_dir(meeting.domain_dir()).unwrap().count() <= 2
    });
}
