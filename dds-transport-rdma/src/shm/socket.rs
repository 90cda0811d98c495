//! Packets with descriptors over UNIX sockets, and the credentials of the other end.
//!
//! Owns: the system calls. Never does: block; every socket here is non-blocking.

use std::ffi::{c_int, c_void};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::path::Path;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};

/// Maximum length of a socket's path in bytes, without the terminating zero.
pub(crate) const PATH_LIMIT: usize = 107;
/// Maximum number of connections that the kernel queues until they are accepted.
const BACKLOG: i32 = 1024;

fn new_socket(kind: SocketType) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socket_with(AddressFamily::UNIX, kind, flags, None)
}

/// Creates a listening socket, not bound yet.
pub(crate) fn listener() -> Result<OwnedFd, Errno> {
    new_socket(SocketType::SEQPACKET)
}

/// Creates a socket at which peers ring, not bound yet.
pub(crate) fn bell() -> Result<OwnedFd, Errno> {
    let bell = new_socket(SocketType::DGRAM)?;
    // Kernels before 6.16 do not know the option.
    let _ = set_socket_option(&bell, SO_PASSRIGHTS, 0);
    Ok(bell)
}

/// Gives a socket its path.
pub(crate) fn bind(socket: &OwnedFd, path: &Path) -> Result<(), Errno> {
    rustix::net::bind(socket, &SocketAddrUnix::new(path)?)
}

/// Creates a socket bound to an abstract name, which is in no folder. The socket does not
/// listen yet.
pub(crate) fn bind_abstract(name: &[u8]) -> Result<OwnedFd, Errno> {
    let socket = listener()?;
    rustix::net::bind(&socket, &SocketAddrUnix::new_abstract_name(name)?)?;
    Ok(socket)
}

/// Connects to the process that listens at an abstract name.
pub(crate) fn connect_abstract(name: &[u8]) -> Result<OwnedFd, Errno> {
    let socket = listener()?;
    rustix::net::connect(&socket, &SocketAddrUnix::new_abstract_name(name)?)?;
    Ok(socket)
}

/// Creates a socket that sends to the bell at `path`.
pub(crate) fn connect_bell(path: &Path) -> Result<OwnedFd, Errno> {
    let socket = new_socket(SocketType::DGRAM)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

/// Starts to accept connections.
pub(crate) fn listen(socket: &OwnedFd) -> Result<(), Errno> {
    rustix::net::listen(socket, BACKLOG)
}

/// Connects to the process that listens at `path`. `CONNREFUSED`: none does; `AGAIN`: its queue
/// is full.
pub(crate) fn connect(path: &Path) -> Result<OwnedFd, Errno> {
    let socket = listener()?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

/// Accepts a waiting connection.
pub(crate) fn accept(listener: &OwnedFd) -> Result<OwnedFd, Errno> {
    rustix::net::accept_with(listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)
}

/// Sends one packet, completely or not at all.
pub(crate) fn send(
    socket: &OwnedFd,
    packet: &[u8],
    descriptor: Option<BorrowedFd<'_>>,
) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors = descriptor.map(|descriptor| [descriptor]);
    if let Some(descriptors) = &descriptors {
        let fits = control.push(SendAncillaryMessage::ScmRights(descriptors));
        assert!(fits, "the buffer was made for one descriptor");
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    rustix::net::sendmsg(socket, &[IoSlice::new(packet)], &mut control, flags).map(drop)
}

/// Returns the first byte of the next packet, if there is one. The packet stays queued.
pub(crate) fn peek(socket: &OwnedFd) -> Option<u8> {
    let mut first = [0];
    let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    let (length, _) = rustix::net::recv(socket, &mut first, flags).ok()?;
    (length > 0).then_some(first[0])
}

/// Content of one received packet.
pub(crate) struct ReceivedPacket {
    /// Bytes of the packet in the buffer. Zero: the other end has sent its last packet.
    pub(crate) length: usize,
    /// Descriptor that accompanied the packet.
    pub(crate) descriptor: Option<OwnedFd>,
    /// True if the packet was longer than the buffer, or had more descriptors than any message has.
    pub(crate) too_much: bool,
}

/// Receives one packet into `buffer`.
pub(crate) fn receive(socket: &OwnedFd, buffer: &mut [u8]) -> Result<ReceivedPacket, Errno> {
    let mut reset = false;
    loop {
        match receive_once(socket, buffer) {
            // An end that was closed with unread packets reports that once, before the packets that
            // it had sent itself.
            Err(Errno::CONNRESET) if !reset => reset = true,
            Err(Errno::CONNRESET) => {
                return Ok(ReceivedPacket { length: 0, descriptor: None, too_much: false });
            }
            Err(Errno::INTR) => {}
            result => return result,
        }
    }
}

fn receive_once(socket: &OwnedFd, buffer: &mut [u8]) -> Result<ReceivedPacket, Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let message =
        rustix::net::recvmsg(socket, &mut [IoSliceMut::new(buffer)], &mut control, flags)?;
    let mut too_much = message.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC);
    let mut descriptor = None;
    for part in control.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = part {
            for one in descriptors {
                too_much |= descriptor.replace(one).is_some();
            }
        }
    }
    Ok(ReceivedPacket { length: message.bytes, descriptor, too_much })
}

/// Identity of the other end, as the kernel recorded it when the connection was made.
#[derive(Clone, Debug)]
pub(crate) struct Credentials {
    /// Process number, zero if the process has none in the namespace of this process.
    pub(crate) pid: i32,
    /// Effective user of the process.
    pub(crate) uid: u32,
    /// Effective group of the process and all its other groups.
    pub(crate) gids: Vec<u32>,
}

// Numbers of the generic socket interface, shared by all architectures that we build for.
const SOL_SOCKET: c_int = 1;
const SO_PEERCRED: c_int = 17;
const SO_PEERGROUPS: c_int = 59;
const SO_PEERPIDFD: c_int = 77;
/// Option: whether descriptors may accompany what is sent to a socket.
const SO_PASSRIGHTS: c_int = 83;
/// Maximum number of groups of a process.
const GROUPS_LIMIT: usize = 65536;

unsafe extern "C" {
    fn getsockopt(
        socket: c_int,
        level: c_int,
        name: c_int,
        value: *mut c_void,
        length: *mut u32,
    ) -> c_int;
    fn setsockopt(
        socket: c_int,
        level: c_int,
        name: c_int,
        value: *const c_void,
        length: u32,
    ) -> c_int;
}

/// Sets a numeric socket option.
fn set_socket_option(socket: &OwnedFd, name: c_int, value: c_int) -> Result<(), Errno> {
    let length = size_of_val(&value) as u32;
    // SAFETY: `value` is readable for `length` bytes, and the socket is open while it is borrowed.
    let result = unsafe {
        setsockopt(socket.as_raw_fd(), SOL_SOCKET, name, (&raw const value).cast(), length)
    };
    if result == 0 { Ok(()) } else { Err(last_error()) }
}

fn last_error() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL)
}

/// Reads a socket option into `value`; returns its length in bytes.
fn socket_option(socket: &OwnedFd, name: c_int, value: &mut [u32]) -> Result<usize, Errno> {
    let mut length = u32::try_from(size_of_val(value)).map_err(|_| Errno::INVAL)?;
    // SAFETY: `value` is writable for `length` bytes, any bits are a valid `u32`, and the socket is
    // open while it is borrowed.
    let result = unsafe {
        getsockopt(socket.as_raw_fd(), SOL_SOCKET, name, value.as_mut_ptr().cast(), &raw mut length)
    };
    if result == 0 { Ok(length as usize) } else { Err(last_error()) }
}

/// Returns the credentials of the other end.
pub(crate) fn credentials(socket: &OwnedFd) -> Result<Credentials, Errno> {
    let mut cred = [0; 3];
    if socket_option(socket, SO_PEERCRED, &mut cred)? != size_of_val(&cred) {
        return Err(Errno::INVAL);
    }
    let [pid, uid, gid] = cred;
    let mut gids = vec![gid];
    let mut groups = vec![0; 64];
    loop {
        match socket_option(socket, SO_PEERGROUPS, &mut groups) {
            Ok(bytes) => gids.extend(&groups[..bytes / size_of::<u32>()]),
            Err(Errno::RANGE) if groups.len() < GROUPS_LIMIT => {
                groups.resize(GROUPS_LIMIT, 0);
                continue;
            }
            // Without the list, only the effective group counts.
            Err(_) => {}
        }
        return Ok(Credentials { pid: pid.cast_signed(), uid, gids });
    }
}

/// Returns a descriptor of the process at the other end, which becomes readable when that process
/// is dead. `NOPROTOOPT`: the kernel is older than 6.5.
pub(crate) fn peer_process(socket: &OwnedFd) -> Result<OwnedFd, Errno> {
    let mut value = [0];
    socket_option(socket, SO_PEERPIDFD, &mut value)?;
    // SAFETY: the kernel has just opened this descriptor for us and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(value[0].cast_signed() as RawFd) })
}

/// Whether the process that `pidfd` refers to is dead.
pub(crate) fn is_dead(pidfd: &OwnedFd) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut set = [PollFd::from_borrowed_fd(pidfd.as_fd(), PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    matches!(poll(&mut set, Some(&now)), Ok(1))
}
