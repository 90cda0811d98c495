//! Messages between the rendezvous threads of two nodes, byte for byte.
//!
//! Owns: encoding and decoding. Never does: allocate by a length that a peer named, or decide what
//! follows from a message. Public for tests and fuzzers only; no stable interface.
//!
//! One message is one packet of a `SOCK_SEQPACKET` socket. Numbers are little endian.
//!
//! ```text
//!   Hello     1  magic[8] n:u8 version:u16[n] | order:u32 (as the machine has it) word:u8
//!                page:u32 features:u64 node:u128 length:u8 domain[length]
//!   Refuse    2  magic[8] n:u8 version:u16[n] | reason:u8 text[..]
//!   Accept    3  version:u16
//!   Arena     4  index:u32 bytes:u64                                          + memfd
//!   Region    5  serial:u64 region:u64 arena:u32 offset:u64 words:u64
//!   Ready     6  serial:u64
//!   Close     7  serial:u64
//!   Released  8  serial:u64
//!   Note      9  bytes[..]
//!   Goodbye  10
//!   Cut      11  text[..]
//!   Retire   12  index:u32
//!   Group    13                                                               + memfd
//! ```
//! The doorbell is not passed as a descriptor: it is a socket in the folder, `<node id>.bell`. The
//! fields before the bar in `Hello` and `Refuse` never change, so that any two releases can tell
//! each other which versions they speak.

use std::fmt;

use derecho_core::link::NOTE_LIMIT;

/// The protocol versions that this release speaks.
pub const VERSIONS: &[u16] = &[3];
/// Maximum number of versions in a hello.
pub const VERSIONS_LIMIT: usize = 16;
/// Bytes of the longest packet: a note and its kind.
pub const PACKET_LIMIT: usize = NOTE_LIMIT + 1;
/// Bytes of the longest text of a refusal or a cut.
const TEXT_LIMIT: usize = 512;
/// First bytes of every message that an unknown process may send.
const MAGIC: [u8; 8] = *b"SQUALLSH";

/// Kinds of the packets that carry a descriptor.
const ARENA: u8 = 4;
const GROUP: u8 = 13;

/// Byte order of the machine, as it appears in memory.
const ORDER: u32 = 0x0102_0304;

/// Reason why a node is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RefusalReason {
    /// No protocol version in common.
    Version,
    /// Different byte order, word size or page size.
    Platform,
    /// Different domain.
    Domain,
    /// Different user, and not a member of the group.
    NotAllowed,
    /// A node with this id is or was a peer.
    NodeKnown,
    /// The maximum number of peers is reached.
    Full,
    /// A reason that this release does not know.
    Other,
}

impl RefusalReason {
    const CODES: [(u8, RefusalReason); 6] = [
        (1, RefusalReason::Version),
        (2, RefusalReason::Platform),
        (3, RefusalReason::Domain),
        (4, RefusalReason::NotAllowed),
        (5, RefusalReason::NodeKnown),
        (6, RefusalReason::Full),
    ];

    fn code(self) -> u8 {
        RefusalReason::CODES.iter().find(|(_, reason)| *reason == self).map_or(0, |(code, _)| *code)
    }

    fn from_code(code: u8) -> RefusalReason {
        RefusalReason::CODES
            .iter()
            .find(|(c, _)| *c == code)
            .map_or(RefusalReason::Other, |(_, reason)| *reason)
    }
}

/// Properties of a node's machine on which shared words depend.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Platform {
    /// Byte order, read as this machine reads it.
    pub order: u32,
    /// Bytes of a pointer.
    pub word: u8,
    /// Bytes of a page.
    pub page: u32,
}

impl Platform {
    /// Returns the platform of this machine.
    pub fn here() -> Platform {
        Platform {
            order: ORDER,
            word: size_of::<usize>() as u8,
            page: u32::try_from(rustix::param::page_size()).unwrap_or(u32::MAX),
        }
    }
}

/// A message, borrowing from its packet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Message<'a> {
    /// Identity of a node; the first message in each direction.
    Hello {
        /// Protocol versions that the node speaks.
        versions: Vec<u16>,
        /// Undecoded bytes after the versions: their form depends on the version.
        rest: &'a [u8],
    },
    /// The other node cannot be a peer.
    Refuse {
        /// Protocol versions that the refusing node speaks.
        versions: Vec<u16>,
        /// Reason of the refusal.
        reason: RefusalReason,
        /// Reason in words.
        text: &'a str,
    },
    /// The other node is accepted.
    Accept {
        /// Version spoken from here on.
        version: u16,
    },
    /// Memory that will contain regions.
    Arena {
        /// Number that the owner gives the arena.
        index: u32,
        /// Size of the arena in bytes.
        bytes: u64,
    },
    /// A region is open.
    Region {
        /// Number of the region in the owner's order of opening; identifies the region in
        /// later messages.
        serial: u64,
        /// Name of the region.
        region: u64,
        /// Arena that contains the region.
        arena: u32,
        /// Offset of the region in its arena, in bytes.
        offset: u64,
        /// Length of the region in words.
        words: u64,
    },
    /// The sender can see the region.
    Ready {
        /// Serial of the region.
        serial: u64,
    },
    /// A region is closed.
    Close {
        /// Serial of the region.
        serial: u64,
    },
    /// No handle of the sender refers to the region any more.
    Released {
        /// Serial of the region.
        serial: u64,
    },
    /// A control message of the node.
    Note(&'a [u8]),
    /// The sender leaves and writes no more.
    Goodbye,
    /// The sender has disconnected the receiver.
    Cut {
        /// Reason in words.
        text: &'a str,
    },
    /// An arena is gone; it contains no region.
    Retire {
        /// Number of the arena.
        index: u32,
    },
    /// Memory with the words of the local group, which the sender uses.
    Group,
}

/// The part of a hello that depends on the version.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Greeting<'a> {
    /// Platform of the node.
    pub platform: Platform,
    /// Capabilities of the node beyond the version; none are defined.
    pub features: u64,
    /// Id of the node.
    pub node: u128,
    /// Domain that the node wants to join.
    pub domain: &'a str,
}

/// Whether a descriptor accompanies packets of this kind.
pub(crate) fn brings_descriptor(kind: u8) -> bool {
    matches!(kind, ARENA | GROUP)
}

/// Error for a packet that is not a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PacketError(&'static str);

impl fmt::Display for PacketError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// Reads from the front of a packet, never past its end.
struct PacketReader<'a>(&'a [u8]);

impl<'a> PacketReader<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], PacketError> {
        let (taken, rest) =
            self.0.split_at_checked(length).ok_or(PacketError("packet too short"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], PacketError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    fn u8(&mut self) -> Result<u8, PacketError> {
        Ok(self.array::<1>()?[0])
    }

    fn u16(&mut self) -> Result<u16, PacketError> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    fn u32(&mut self) -> Result<u32, PacketError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    fn u64(&mut self) -> Result<u64, PacketError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    fn text(&mut self, length: usize) -> Result<&'a str, PacketError> {
        std::str::from_utf8(self.take(length)?).map_err(|_| PacketError("text is not UTF-8"))
    }

    fn rest_as_text(&mut self) -> Result<&'a str, PacketError> {
        if self.0.len() > TEXT_LIMIT {
            return Err(PacketError("text too long"));
        }
        self.text(self.0.len())
    }

    fn versions(&mut self) -> Result<Vec<u16>, PacketError> {
        if self.array::<8>()? != MAGIC {
            return Err(PacketError("not a Squall node"));
        }
        let count = usize::from(self.u8()?);
        if count == 0 || count > VERSIONS_LIMIT {
            return Err(PacketError("impossible number of versions"));
        }
        (0..count).map(|_| self.u16()).collect()
    }

    fn end(&self) -> Result<(), PacketError> {
        if self.0.is_empty() { Ok(()) } else { Err(PacketError("packet too long")) }
    }
}

/// Reads a packet.
pub fn decode(packet: &[u8]) -> Result<Message<'_>, PacketError> {
    let mut reader = PacketReader(packet);
    let message = match reader.u8()? {
        1 => {
            let versions = reader.versions()?;
            let rest = reader.take(reader.0.len())?;
            Message::Hello { versions, rest }
        }
        2 => Message::Refuse {
            versions: reader.versions()?,
            reason: RefusalReason::from_code(reader.u8()?),
            text: reader.rest_as_text()?,
        },
        3 => Message::Accept { version: reader.u16()? },
        ARENA => Message::Arena { index: reader.u32()?, bytes: reader.u64()? },
        5 => Message::Region {
            serial: reader.u64()?,
            region: reader.u64()?,
            arena: reader.u32()?,
            offset: reader.u64()?,
            words: reader.u64()?,
        },
        6 => Message::Ready { serial: reader.u64()? },
        7 => Message::Close { serial: reader.u64()? },
        8 => Message::Released { serial: reader.u64()? },
        9 => Message::Note(reader.take(reader.0.len())?),
        10 => Message::Goodbye,
        11 => Message::Cut { text: reader.rest_as_text()? },
        12 => Message::Retire { index: reader.u32()? },
        GROUP => Message::Group,
        _ => return Err(PacketError("unknown kind of message")),
    };
    reader.end()?;
    Ok(message)
}

/// Reads the rest of a hello that has a version in common with this release.
pub fn decode_greeting(rest: &[u8]) -> Result<Greeting<'_>, PacketError> {
    let mut reader = PacketReader(rest);
    let order = u32::from_ne_bytes(reader.array()?);
    let platform = Platform { order, word: reader.u8()?, page: reader.u32()? };
    let features = reader.u64()?;
    let node = u128::from_le_bytes(reader.array()?);
    let length = usize::from(reader.u8()?);
    let domain = reader.text(length)?;
    reader.end()?;
    Ok(Greeting { platform, features, node, domain })
}

/// Writes a greeting as the rest of a hello.
pub fn encode_greeting(greeting: &Greeting<'_>) -> Vec<u8> {
    let mut out = Vec::with_capacity(64);
    out.extend(greeting.platform.order.to_ne_bytes());
    out.push(greeting.platform.word);
    out.extend(greeting.platform.page.to_le_bytes());
    out.extend(greeting.features.to_le_bytes());
    out.extend(greeting.node.to_le_bytes());
    let length = u8::try_from(greeting.domain.len()).expect("domain names are short");
    out.push(length);
    out.extend(greeting.domain.as_bytes());
    out
}

fn put_versions(out: &mut Vec<u8>, versions: &[u16]) {
    assert!(versions.len() <= VERSIONS_LIMIT, "our own list of versions is short");
    out.extend(MAGIC);
    out.push(versions.len() as u8);
    for version in versions {
        out.extend(version.to_le_bytes());
    }
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    out.extend(&text.as_bytes()[..text.floor_char_boundary(TEXT_LIMIT)]);
}

/// Writes a message.
pub fn encode(message: &Message<'_>) -> Vec<u8> {
    let mut out = Vec::with_capacity(48);
    match message {
        Message::Hello { versions, rest } => {
            out.push(1);
            put_versions(&mut out, versions);
            out.extend(*rest);
        }
        Message::Refuse { versions, reason, text } => {
            out.push(2);
            put_versions(&mut out, versions);
            out.push(reason.code());
            put_text(&mut out, text);
        }
        Message::Accept { version } => {
            out.push(3);
            out.extend(version.to_le_bytes());
        }
        Message::Arena { index, bytes } => {
            out.push(ARENA);
            out.extend(index.to_le_bytes());
            out.extend(bytes.to_le_bytes());
        }
        Message::Region { serial, region, arena, offset, words } => {
            out.push(5);
            out.extend(serial.to_le_bytes());
            out.extend(region.to_le_bytes());
            out.extend(arena.to_le_bytes());
            out.extend(offset.to_le_bytes());
            out.extend(words.to_le_bytes());
        }
        Message::Ready { serial } => put_serial(&mut out, 6, *serial),
        Message::Close { serial } => put_serial(&mut out, 7, *serial),
        Message::Released { serial } => put_serial(&mut out, 8, *serial),
        Message::Note(bytes) => {
            out.push(9);
            out.extend(*bytes);
        }
        Message::Goodbye => out.push(10),
        Message::Cut { text } => {
            out.push(11);
            put_text(&mut out, text);
        }
        Message::Retire { index } => {
            out.push(12);
            out.extend(index.to_le_bytes());
        }
        Message::Group => out.push(GROUP),
    }
    out
}

fn put_serial(out: &mut Vec<u8>, kind: u8, serial: u64) {
    out.push(kind);
    out.extend(serial.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn samples() -> Vec<Message<'static>> {
        vec![
            Message::Hello { versions: vec![1, 2, 700], rest: b"rest" },
            Message::Refuse { versions: vec![3], reason: RefusalReason::Full, text: "no room" },
            Message::Accept { version: 513 },
            Message::Arena { index: 7, bytes: 1 << 40 },
            Message::Region { serial: 1, region: 2, arena: 3, offset: 64, words: 5 },
            Message::Ready { serial: u64::MAX },
            Message::Close { serial: 0 },
            Message::Released { serial: 9 },
            Message::Note(b""),
            Message::Note(b"note"),
            Message::Goodbye,
            Message::Cut { text: "too slow" },
            Message::Retire { index: 4 },
            Message::Group,
        ]
    }

    #[test]
    fn decoder_reads_encoded_messages_and_rejects_other_lengths() {
        for message in samples() {
            let packet = encode(&message);
            assert_eq!(decode(&packet), Ok(message.clone()));
            // Messages that end in free bytes have no single length.
            let open_end = matches!(
                message,
                Message::Hello { .. }
                    | Message::Refuse { .. }
                    | Message::Note(_)
                    | Message::Cut { .. }
            );
            if !open_end {
                assert!(decode(&packet[..packet.len() - 1]).is_err());
                assert!(decode(&[&packet[..], b"x"].concat()).is_err());
            }
        }
    }

    #[test]
    fn greeting_round_trips_and_truncated_greeting_is_rejected() {
        let greeting = Greeting {
            platform: Platform::here(),
            features: 3,
            node: 1 << 100,
            domain: "domain-0",
        };
        let rest = encode_greeting(&greeting);
        assert_eq!(decode_greeting(&rest), Ok(greeting));
        assert!(decode_greeting(&rest[..rest.len() - 1]).is_err());
    }

    #[test]
    fn encoder_truncates_long_text_at_character_boundary() {
        let text = "ä".repeat(TEXT_LIMIT);
        let packet = encode(&Message::Cut { text: &text });
        assert!(matches!(decode(&packet), Ok(Message::Cut { .. })));
    }

    proptest! {
        #[test]
        fn decoder_accepts_or_rejects_any_packet_without_panic(packet in prop::collection::vec(any::<u8>(), 0..80)) {
            if let Ok(message) = decode(&packet) {
                prop_assert_eq!(encode(&message).len() <= PACKET_LIMIT, true);
            }
            let _ = decode_greeting(&packet);
        }
    }
}
