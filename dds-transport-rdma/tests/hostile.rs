//! Peers that do not keep to the protocol: refused or cut off, and nobody else notices.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

mod support;

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use dds_transport_rdma::shm::wire::{self, Greeting, Message, Platform, Reason};
use dds_transport_rdma::shm::{JoinError, ShmLink};
use derecho_core::ids::{Peer, RegionId};
use derecho_core::link::{Evidence, Link};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create, open};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, mprotect, munmap};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};
use support::{Meeting, Node, PATIENCE};

const ARENA: u64 = 64 << 10;
/// The header's words: magic, node id low and high.
const HEADER_MAGIC: u64 = u64::from_le_bytes(*b"SQUALL\x00\x01");
const NODE: u128 = 0x1234_5678;

/// A program that speaks to a node's socket, well or badly.
struct Raw {
    socket: OwnedFd,
}

impl Raw {
    fn connect(meeting: &Meeting, node: &Node) -> Raw {
        let flags = SocketFlags::CLOEXEC;
        let socket =
            rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
                .unwrap();
        let path = meeting.domain_dir().join(format!("{}.sock", node.link.node()));
        rustix::net::connect(&socket, &SocketAddrUnix::new(path).unwrap()).unwrap();
        Raw { socket }
    }

    fn send_bytes(&self, bytes: &[u8], descriptor: Option<&OwnedFd>) {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let descriptors = descriptor.map(|descriptor| [descriptor.as_fd()]);
        if let Some(descriptors) = &descriptors {
            assert!(control.push(SendAncillaryMessage::ScmRights(descriptors)));
        }
        let slice = [IoSlice::new(bytes)];
        // The other end may have closed already.
        let _ = rustix::net::sendmsg(&self.socket, &slice, &mut control, SendFlags::NOSIGNAL);
    }

    fn send(&self, message: &Message<'_>, descriptor: Option<&OwnedFd>) {
        self.send_bytes(&wire::encode(message), descriptor);
    }

    /// The next packet, or `None` at the end.
    fn receive(&self) -> Option<(Vec<u8>, Option<OwnedFd>)> {
        let mut buffer = vec![0; 20_000];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC;
        let mut slices = [IoSliceMut::new(&mut buffer)];
        let received = rustix::net::recvmsg(&self.socket, &mut slices, &mut control, flags);
        let length = received.ok()?.bytes;
        let mut descriptor = None;
        for part in control.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = part {
                descriptor = descriptors.last();
            }
        }
        buffer.truncate(length);
        (length > 0).then_some((buffer, descriptor))
    }

    fn hello(&self, versions: &[u16], change: impl FnOnce(&mut Greeting<'_>)) {
        let mut greeting =
            Greeting { platform: Platform::here(), features: 0, node: NODE, domain: "test" };
        change(&mut greeting);
        let rest = wire::encode_greeting(&greeting);
        let bell = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).unwrap();
        self.send(&Message::Hello { versions: versions.to_vec(), rest: &rest }, Some(&bell));
    }

    /// Becomes a peer with this memory as the first arena; returns the node's.
    fn introduce(&self, memory: &OwnedFd, bytes: u64) -> OwnedFd {
        self.hello(wire::VERSIONS, |_| {});
        self.send(&Message::Accept { version: 1 }, None);
        self.send(&Message::Arena { index: 0, bytes }, Some(memory));
        loop {
            let (packet, descriptor) = self.receive().expect("the node introduces itself, too");
            if let Ok(Message::Arena { .. }) = wire::decode(&packet) {
                return descriptor.expect("an arena comes with its memory");
            }
        }
    }

    /// Reads until the node says why it has nothing more to do with this program.
    fn verdict(&self) -> String {
        let mut last = String::new();
        while let Some((packet, _)) = self.receive() {
            match wire::decode(&packet) {
                Ok(Message::Cut { text }) => return text.to_owned(),
                Ok(Message::Refuse { text, .. }) => last = text.to_owned(),
                _ => {}
            }
        }
        last
    }
}

/// Memory as an honest peer would have it, but for the seals.
fn memory(bytes: u64, seals: SealFlags) -> OwnedFd {
    let memory = memfd_create("hostile", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
    ftruncate(&memory, bytes).unwrap();
    let words = [HEADER_MAGIC, NODE as u64, (NODE >> 64) as u64];
    for (index, word) in words.iter().enumerate() {
        rustix::io::pwrite(&memory, &word.to_ne_bytes(), index as u64 * 8).unwrap();
    }
    fcntl_add_seals(&memory, seals).unwrap();
    memory
}

fn honest_memory() -> OwnedFd {
    memory(ARENA, SealFlags::SHRINK | SealFlags::GROW)
}

/// The node still meets others, which do not notice anything.
fn assert_unharmed(meeting: &Meeting, mut node: Node) {
    let before = node.up.len();
    let mut other = meeting.join();
    other.until("an honest node is met", |node| !node.up.is_empty());
    node.until("an honest node is met", |node| node.up.len() > before);
    drop(node);
    other.until("it has left", |node| node.down.iter().any(|it| it.1 == Evidence::Left));
    drop(other);
    meeting.assert_empty();
}

#[test]
fn a_received_arena_can_neither_be_written_nor_cut() {
    let meeting = Meeting::new();
    let mut node = meeting.join();
    let own = node.link.open(RegionId(1), 8).unwrap();
    own.word(0).publish(1);
    let raw = Raw::connect(&meeting, &node);
    let arena = raw.introduce(&honest_memory(), ARENA);
    let length = rustix::fs::fstat(&arena).unwrap().st_size as usize;
    let map = |memory: &OwnedFd, protection| {
        // SAFETY: the kernel chooses the address.
        unsafe { mmap(std::ptr::null_mut(), length, protection, MapFlags::SHARED, memory, 0) }
    };
    let write = ProtFlags::READ | ProtFlags::WRITE;
    assert_eq!(map(&arena, write).err(), Some(Errno::PERM));
    // Nor through a descriptor that is opened anew.
    use std::os::fd::AsRawFd;
    let path = format!("/proc/self/fd/{}", arena.as_raw_fd());
    let flags = rustix::fs::OFlags::RDWR;
    let again = open(path, flags, rustix::fs::Mode::empty()).unwrap();
    assert_eq!(map(&again, write).err(), Some(Errno::PERM));
    assert_eq!(rustix::io::pwrite(&again, b"x", 0), Err(Errno::PERM));
    // Nor by making a mapping writable later.
    let readable = map(&arena, ProtFlags::READ).unwrap();
    // SAFETY: the range was just mapped and nobody else uses it.
    let changed = unsafe { mprotect(readable, length, rustix::mm::MprotectFlags::WRITE) };
    assert_eq!(changed, Err(Errno::ACCESS));
    // SAFETY: as above.
    unsafe { munmap(readable, length) }.unwrap();
    assert_eq!(ftruncate(&arena, 0), Err(Errno::PERM));
    assert_eq!(ftruncate(&arena, 2 * length as u64), Err(Errno::PERM));
    assert_eq!(
        rustix::fs::fallocate(
            &arena,
            rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE,
            0,
            4096
        ),
        Err(Errno::PERM)
    );
    assert_eq!(fcntl_add_seals(&arena, SealFlags::WRITE), Err(Errno::PERM));
    own.word(0).publish(2);
    assert_eq!(own.word(0).load(), 2);
    drop((raw, own));
    assert_unharmed(&meeting, node);
}

#[test]
fn memory_that_could_be_cut_is_refused() {
    let cases = [
        ("sealed", memory(ARENA, SealFlags::empty())),
        ("sealed", memory(ARENA, SealFlags::SHRINK)),
        ("sealed", memory(ARENA, SealFlags::GROW)),
        ("announced", memory(ARENA / 2, SealFlags::SHRINK | SealFlags::GROW)),
        ("announced", memory(ARENA * 2, SealFlags::SHRINK | SealFlags::GROW)),
        ("no memory", eventfd(0, EventfdFlags::empty()).unwrap()),
        ("sealed", tempfile::tempfile().unwrap().into()),
    ];
    for (_, bad) in &cases {
        // As the first arena: it does not become a peer.
        let meeting = Meeting::new();
        let mut node = meeting.join();
        let raw = Raw::connect(&meeting, &node);
        raw.hello(wire::VERSIONS, |_| {});
        raw.send(&Message::Accept { version: 1 }, None);
        raw.send(&Message::Arena { index: 0, bytes: ARENA }, Some(bad));
        raw.verdict();
        node.poll();
        assert!(node.up.is_empty());
        assert_unharmed(&meeting, node);
    }
    for (why, bad) in &cases {
        // As a later one: it is cut off.
        let said =
            cut_off_for(|raw| raw.send(&Message::Arena { index: 1, bytes: ARENA }, Some(bad)));
        assert!(said.contains(why), "{said}");
    }
}

/// What a node says to a peer that does this.
fn cut_off_for(act: impl FnOnce(&Raw)) -> String {
    let meeting = Meeting::new();
    let mut node = meeting.join();
    let raw = Raw::connect(&meeting, &node);
    raw.introduce(&honest_memory(), ARENA);
    node.until("it is a peer", |node| node.up.len() == 1);
    act(&raw);
    let said = raw.verdict();
    node.until("it is down", |node| node.down == [(Peer(0), Evidence::Uncertain)]);
    assert!(node.link.note(Peer(0), b"?").is_err());
    drop(raw);
    assert_unharmed(&meeting, node);
    said
}

fn region(serial: u64, region: u64, arena: u32, offset: u64, words: u64) -> Message<'static> {
    Message::Region { serial, region, arena, offset, words }
}

#[test]
fn a_region_outside_its_arena_is_refused() {
    for bad in [
        region(0, 1, 0, ARENA, 1),
        region(0, 1, 0, ARENA - 64, 9),
        region(0, 1, 0, 4096, u64::MAX),
        region(0, 1, 0, u64::MAX - 63, 8),
        region(0, 1, 0, 4096, 1 << 61),
        region(0, 1, 0, 4100, 1),
        region(0, 1, 0, 0, 1),
    ] {
        let said = cut_off_for(|raw| raw.send(&bad, None));
        assert!(said.contains("does not lie"), "{said}");
    }
    let said = cut_off_for(|raw| raw.send(&region(0, 1, 7, 0, 1), None));
    assert!(said.contains("unknown"), "{said}");
}

#[test]
fn what_makes_no_sense_is_answered_by_a_cut() {
    let twice = |raw: &Raw| {
        raw.send(&region(0, 1, 0, 4096, 1), None);
        raw.send(&region(1, 1, 0, 4096, 1), None);
    };
    assert!(cut_off_for(twice).contains("open already"));
    let old_serial = |raw: &Raw| {
        raw.send(&region(5, 1, 0, 4096, 1), None);
        raw.send(&region(5, 2, 0, 4096, 1), None);
    };
    assert!(cut_off_for(old_serial).contains("serial"));
    let arena = Message::Arena { index: 1, bytes: ARENA };
    assert!(cut_off_for(|raw| raw.send(&arena, None)).contains("without its memory"));
    let again = Message::Arena { index: 0, bytes: ARENA };
    let said = cut_off_for(|raw| raw.send(&again, Some(&honest_memory())));
    assert!(said.contains("there before"), "{said}");
    assert!(cut_off_for(|raw| raw.send(&Message::Close { serial: 3 }, None)).contains("not open"));
    assert!(cut_off_for(|raw| raw.send(&Message::Retire { index: 0 }, None)).contains("gone"));
    assert!(cut_off_for(|raw| raw.hello(&[1], |_| {})).contains("greets again"));
    assert!(cut_off_for(|raw| raw.send_bytes(&[200, 1, 2], None)).contains("unknown kind"));
    assert!(cut_off_for(|raw| raw.send_bytes(&[9; 18_000], None)).contains("no node sends"));
}

#[test]
fn garbage_closes_that_connection_and_nothing_more() {
    let meeting = Meeting::new();
    let mut node = meeting.join();
    for garbage in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"\x01", b"\x01SQUALLSH\xff", &[0; 19_000]] {
        let raw = Raw::connect(&meeting, &node);
        raw.send_bytes(garbage, None);
        raw.verdict();
        // An end without a word.
        drop(Raw::connect(&meeting, &node));
    }
    node.poll();
    assert!(node.up.is_empty());
    assert_unharmed(&meeting, node);
}

#[test]
fn strangers_who_say_nothing_neither_stay_nor_block_others() {
    let meeting = Meeting::new();
    let mut config = meeting.config();
    config.hello_limit = Duration::from_millis(100);
    let node = Node::join(config);
    let silent: Vec<Raw> = (0..100).map(|_| Raw::connect(&meeting, &node)).collect();
    let start = Instant::now();
    silent.iter().for_each(|raw| drop(raw.verdict()));
    assert!(start.elapsed() < PATIENCE);
    assert_unharmed(&meeting, node);
}

#[test]
fn a_hello_that_does_not_fit_is_refused_with_the_reason() {
    let meeting = Meeting::new();
    let node = meeting.join();
    let said = |versions: &[u16], change: &dyn Fn(&mut Greeting<'_>)| {
        let raw = Raw::connect(&meeting, &node);
        raw.hello(versions, change);
        raw.verdict()
    };
    assert!(said(&[1], &|it| it.platform.page = 65536).contains("platform"));
    assert!(said(&[1], &|it| it.platform.order = 0x0403_0201).contains("platform"));
    assert!(said(&[1], &|it| it.platform.word = 4).contains("platform"));
    assert!(said(&[1], &|it| it.domain = "other").contains("other"));
    assert!(said(&[7, 9], &|_| {}).contains("[7, 9]"));
    let own = node.link.node().0;
    assert!(said(&[1], &|it| it.node = own).contains("used before"));
    // A doorbell that is none: the node would write to it.
    let raw = Raw::connect(&meeting, &node);
    let greeting = Greeting { platform: Platform::here(), features: 0, node: NODE, domain: "test" };
    let rest = wire::encode_greeting(&greeting);
    let hello = Message::Hello { versions: vec![1], rest: &rest };
    raw.send(&hello, Some(&tempfile::tempfile().unwrap().into()));
    assert!(raw.verdict().contains("doorbell"));
    assert_unharmed(&meeting, node);
}

#[test]
fn a_node_of_another_version_learns_which_versions_are_spoken() {
    let meeting = Meeting::new();
    let node = meeting.join();
    let mut config = meeting.config();
    config.versions = vec![7, 9];
    let error = ShmLink::join(config).err().expect("no version in common");
    assert_eq!(
        error,
        JoinError::Version {
            ours: vec![7, 9],
            theirs: vec![1],
            pid: std::process::id().cast_signed(),
        }
    );
    let text = error.to_string();
    assert!(text.contains("[7, 9]") && text.contains("[1]"), "{text}");
    // One that speaks a version more is welcome.
    let mut config = meeting.config();
    config.versions = vec![1, 9];
    let mut newer = Node::join(config);
    newer.until("they meet", |node| node.up.len() == 1);
    drop(newer);
    assert_unharmed(&meeting, node);
}

#[test]
fn a_refusal_is_told_with_the_versions_spoken() {
    let meeting = Meeting::new();
    let node = meeting.join();
    let raw = Raw::connect(&meeting, &node);
    raw.hello(&[42], |_| {});
    let mut refusal = None;
    while let Some((packet, _)) = raw.receive() {
        if let Ok(Message::Refuse { versions, reason, .. }) = wire::decode(&packet) {
            refusal = Some((versions, reason));
        }
    }
    assert_eq!(refusal, Some((wire::VERSIONS.to_vec(), Reason::Version)));
    assert_unharmed(&meeting, node);
}

#[test]
fn a_flood_of_notes_does_not_grow_a_node_that_does_not_poll() {
    let meeting = Meeting::new();
    let mut node = meeting.join();
    let raw = Raw::connect(&meeting, &node);
    raw.introduce(&honest_memory(), ARENA);
    node.until("it is a peer", |node| node.up.len() == 1);
    rustix::io::ioctl_fionbio(&raw.socket, true).unwrap();
    let note = wire::encode(&Message::Note(&[7; 16_000]));
    let mut sent = 0;
    let mut last = Instant::now();
    // Until the node has not taken any for a while.
    while last.elapsed() < Duration::from_millis(300) {
        if rustix::net::send(&raw.socket, &note, SendFlags::NOSIGNAL).is_ok() {
            (sent, last) = (sent + 1, Instant::now());
        }
        assert!(sent < 2000, "the node takes everything");
    }
    assert!(sent > 100);
    // What it took is there, and it takes more when it has polled.
    node.until("all is taken", |node| node.notes.len() == sent);
    rustix::net::send(&raw.socket, &note, SendFlags::NOSIGNAL).unwrap();
    node.until("one more is taken", |node| node.notes.len() == sent + 1);
    drop(raw);
    assert_unharmed(&meeting, node);
}
