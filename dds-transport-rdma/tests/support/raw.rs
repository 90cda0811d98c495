//! Program that speaks to a node's socket without the link, correctly or not.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

use dds_transport_rdma::shm::wire::{self, Greeting, Message, Platform};
use derecho_core::link::Link;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};

use super::{PATIENCE, TestDomain, TestNode};

pub(crate) const ARENA: u64 = 64 << 10;
/// Offset in bytes of the header's word that says whether the node sleeps.
pub(crate) const HEADER_PARKED: u64 = 64;
/// First word of the header, which continues with the node id, low and high.
const HEADER_MAGIC: u64 = u64::from_le_bytes(*b"SQUALL\x00\x01");
pub(crate) const NODE: u128 = 0x1234_5678;

/// Program that speaks to a node's socket, correctly or not.
pub(crate) struct RawPeer {
    pub(crate) socket: OwnedFd,
    pub(crate) bell: OwnedFd,
    pub(crate) bell_path: PathBuf,
    pub(crate) node: u128,
}

impl RawPeer {
    pub(crate) fn connect(meeting: &TestDomain, node: &TestNode) -> RawPeer {
        RawPeer::connect_as(meeting, node, NODE)
    }

    /// As `connect`, under an id of its own.
    pub(crate) fn connect_as(meeting: &TestDomain, node: &TestNode, id: u128) -> RawPeer {
        let flags = SocketFlags::CLOEXEC;
        let socket =
            rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
                .unwrap();
        let path = meeting.domain_dir().join(format!("{}.sock", node.link.node()));
        rustix::net::connect(&socket, &SocketAddrUnix::new(path).unwrap()).unwrap();
        let bell_path = meeting.domain_dir().join(format!("{id:032x}.bell"));
        let bell =
            rustix::net::socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None).unwrap();
        // Programs that use one id after each other share one bell.
        let _ = std::fs::remove_file(&bell_path);
        rustix::net::bind(&bell, &SocketAddrUnix::new(&bell_path).unwrap()).unwrap();
        RawPeer { socket, bell, bell_path, node: id }
    }

    /// Makes the doorbell block its users, as far as its owner can.
    pub(crate) fn block_bell(&self) {
        let sender = rustix::net::socket_with(
            AddressFamily::UNIX,
            SocketType::DGRAM,
            SocketFlags::CLOEXEC,
            None,
        )
        .unwrap();
        let path = SocketAddrUnix::new(&self.bell_path).unwrap();
        while rustix::net::sendto(&sender, b"x", SendFlags::DONTWAIT, &path).is_ok() {}
        rustix::fs::fcntl_setfl(&self.bell, rustix::fs::OFlags::empty()).unwrap();
    }

    /// Listens as a node would, at this path.
    pub(crate) fn listen(path: &std::path::Path) -> OwnedFd {
        let flags = SocketFlags::CLOEXEC;
        let socket =
            rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
                .unwrap();
        rustix::net::bind(&socket, &SocketAddrUnix::new(path).unwrap()).unwrap();
        rustix::net::listen(&socket, 8).unwrap();
        socket
    }

    pub(crate) fn send_bytes(&self, bytes: &[u8], descriptor: Option<&OwnedFd>) {
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

    pub(crate) fn send(&self, message: &Message<'_>, descriptor: Option<&OwnedFd>) {
        self.send_bytes(&wire::encode(message), descriptor);
    }

    /// Returns the next packet, or `None` at the end.
    pub(crate) fn receive(&self) -> Option<(Vec<u8>, Option<OwnedFd>)> {
        let mut buffer = vec![0; 20_000];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC;
        let mut slices = [IoSliceMut::new(&mut buffer)];
        let limit = Some(PATIENCE);
        rustix::net::sockopt::set_socket_timeout(
            &self.socket,
            rustix::net::sockopt::Timeout::Recv,
            limit,
        )
        .unwrap();
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

    pub(crate) fn hello(&self, versions: &[u16], change: impl FnOnce(&mut Greeting<'_>)) {
        let mut greeting =
            Greeting { platform: Platform::here(), features: 0, node: self.node, domain: "test" };
        change(&mut greeting);
        let rest = wire::encode_greeting(&greeting);
        self.send(&Message::Hello { versions: versions.to_vec(), rest: &rest }, None);
    }

    /// Becomes a peer with this memory as the first arena; returns the node's first arena.
    pub(crate) fn introduce(&self, memory: &OwnedFd, bytes: u64) -> OwnedFd {
        self.hello(wire::VERSIONS, |_| {});
        self.send(&Message::Accept { version: wire::VERSIONS[0] }, None);
        self.send(&Message::Arena { index: 0, bytes }, Some(memory));
        loop {
            let (packet, descriptor) = self.receive().expect("the node introduces itself, too");
            if let Ok(Message::Arena { .. }) = wire::decode(&packet) {
                return descriptor.expect("an arena comes with its memory");
            }
        }
    }

    /// Reads until the node gives the reason for which it disconnects this program.
    pub(crate) fn verdict(&self) -> String {
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

impl Drop for RawPeer {
    fn drop(&mut self) {
        // The node may have removed the socket already.
        let _ = std::fs::remove_file(&self.bell_path);
    }
}

/// Connects to the process that listens at `path`.
pub(crate) fn try_connect(path: &std::path::Path) -> rustix::io::Result<()> {
    let flags = SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)
}

/// Creates memory as a correct peer would have it, except for the seals.
pub(crate) fn memory(bytes: u64, seals: SealFlags) -> OwnedFd {
    memory_of(NODE, bytes, seals)
}

/// As `memory`, with the header of another node.
pub(crate) fn memory_of(node: u128, bytes: u64, seals: SealFlags) -> OwnedFd {
    let memory = memfd_create("hostile", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
    ftruncate(&memory, bytes).unwrap();
    let words = [HEADER_MAGIC, node as u64, (node >> 64) as u64];
    for (index, word) in words.iter().enumerate() {
        rustix::io::pwrite(&memory, &word.to_ne_bytes(), index as u64 * 8).unwrap();
    }
    fcntl_add_seals(&memory, seals).unwrap();
    memory
}

pub(crate) fn honest_memory() -> OwnedFd {
    memory(ARENA, SealFlags::SHRINK | SealFlags::GROW)
}
