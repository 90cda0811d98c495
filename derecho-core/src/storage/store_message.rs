//! Direct messages between members during state transfer of a store, and the encoding of
//! transferred records.
//!
//! Owns: the encodings. Never does: trust a length.
//!
//! Records go by a stream of their own, as one run of bytes that is cut into blocks:
//! ```text
//!   block    request: u64, kind: u64 (1 records, 2 the last), version: u64 of the sending store,
//!            then bytes of the run
//!   record   number: u64, position: u64, stream: u32 (index among those announced), length: u32,
//!            then its bytes
//!   name     since: u64, over: u64, all ones: u32, length: u32, then a new stream (I-157)
//! ```

use alloc::vec::Vec;

use crate::bytes::{ByteReader, Wire};
use crate::group::report::StreamId;
use crate::ids::{NodeId, RegionId};
use crate::log::LogId;

/// Progress of a member: number of the next message of each stream.
pub(super) type StreamNumbers = Vec<(StreamId, u64)>;

/// Place in the order: an epoch, and the number of the next message of each of its streams.
pub(super) type EpochPosition = (u64, StreamNumbers);

/// Request of a late joiner.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct TransferRange {
    /// Place whose kept records are requested: the beginning of the late joiner.
    pub(super) until: EpochPosition,
    /// Numbers before which records are not needed.
    pub(super) from: StreamNumbers,
    /// Beginning of the late joiner's present epoch, and the number of messages delivered to it
    /// before that (I-158).
    pub(super) now: EpochPosition,
    pub(super) before: u64,
}

impl Wire for TransferRange {
    fn encode(&self, out: &mut Vec<u8>) {
        self.until.encode(out);
        self.from.encode(out);
        self.now.encode(out);
        self.before.encode(out);
    }

    fn decode(from: &mut ByteReader<'_>) -> Option<Self> {
        let until = Wire::decode(from)?;
        let known = Wire::decode(from)?;
        let now = Wire::decode(from)?;
        Some(TransferRange { until, from: known, now, before: Wire::decode(from)? })
    }
}

/// Announced stream: the first epoch in which it is known to have existed, and the version of the
/// store when it ended, or the largest number if it has not.
pub(super) type AnnouncedStream = (StreamId, (u64, u64));

/// A direct message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum StoreMessage {
    /// The sender of this message requests the kept records of a subgroup.
    Want { key: u64, request: u64, range: TransferRange },
    /// The records follow by this stream of the sender. Records name their streams by index among
    /// the announced ones, of which these are the first. `version` is the number of messages before
    /// the records that the requester receives live. `since`: the place at which the store began
    /// again from a log.
    Give {
        key: u64,
        request: u64,
        stream: RegionId,
        streams: Vec<AnnouncedStream>,
        version: u64,
        since: EpochPosition,
    },
    /// The sender has the store only since it began again, at a place after the
    /// requester's beginning.
    Later { key: u64, request: u64, since: EpochPosition },
    /// The sender does not have the store.
    Lack { key: u64, request: u64 },
    /// The sender began only after the epoch that the requester had reached (I-158).
    Behind { key: u64, request: u64 },
    /// The sender's log is durable up to and including this version.
    Durable { key: u64, version: u64 },
    /// The last durable mark in the sender's log names these logs.
    Names { key: u64, logs: Vec<LogId> },
    /// The sender's log waits for space, or no longer does.
    Room { key: u64, is_full: bool },
}

impl Wire for StoreMessage {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            StoreMessage::Want { key, request, range } => {
                out.push(0);
                (*key, *request).encode(out);
                range.encode(out);
            }
            StoreMessage::Give { key, request, stream, streams, version, since } => {
                out.push(1);
                ((*key, *request), (*stream, *version)).encode(out);
                since.encode(out);
                streams.encode(out);
            }
            StoreMessage::Lack { key, request } => {
                out.push(2);
                (*key, *request).encode(out);
            }
            StoreMessage::Behind { key, request } => {
                out.push(6);
                (*key, *request).encode(out);
            }
            StoreMessage::Later { key, request, since } => {
                out.push(4);
                (*key, *request).encode(out);
                since.encode(out);
            }
            StoreMessage::Durable { key, version } => {
                out.push(3);
                (*key, *version).encode(out);
            }
            StoreMessage::Names { key, logs } => {
                out.push(5);
                key.encode(out);
                logs.encode(out);
            }
            StoreMessage::Room { key, is_full } => {
                out.push(7);
                (*key, *is_full).encode(out);
            }
        }
    }

    fn decode(from: &mut ByteReader<'_>) -> Option<Self> {
        Some(match from.byte()? {
            0 => {
                let (key, request) = Wire::decode(from)?;
                StoreMessage::Want { key, request, range: Wire::decode(from)? }
            }
            1 => {
                let ((key, request), (stream, version)) = Wire::decode(from)?;
                let since = Wire::decode(from)?;
                let streams = Wire::decode(from)?;
                StoreMessage::Give { key, request, stream, streams, version, since }
            }
            2 => {
                let (key, request) = Wire::decode(from)?;
                StoreMessage::Lack { key, request }
            }
            3 => {
                let (key, version) = Wire::decode(from)?;
                StoreMessage::Durable { key, version }
            }
            4 => {
                let (key, request) = Wire::decode(from)?;
                StoreMessage::Later { key, request, since: Wire::decode(from)? }
            }
            5 => {
                let key = Wire::decode(from)?;
                StoreMessage::Names { key, logs: Wire::decode(from)? }
            }
            6 => {
                let (key, request) = Wire::decode(from)?;
                StoreMessage::Behind { key, request }
            }
            7 => {
                let (key, is_full) = Wire::decode(from)?;
                StoreMessage::Room { key, is_full }
            }
            _ => return None,
        })
    }
}

/// Bytes of a block before its part of the run.
pub(super) const BLOCK_HEAD: usize = 24;
/// Bytes before a record in the run.
pub(super) const RECORD_HEAD: usize = 24;

/// Header of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct BlockHead {
    pub(super) request: u64,
    pub(super) last: bool,
    /// Version of the sending store: the last version that it has received.
    pub(super) version: u64,
}

impl BlockHead {
    pub(super) fn write(self, block: &mut [u8]) {
        let kind = if self.last { 2_u64 } else { 1 };
        block[..8].copy_from_slice(&self.request.to_le_bytes());
        block[8..16].copy_from_slice(&kind.to_le_bytes());
        block[16..24].copy_from_slice(&self.version.to_le_bytes());
    }

    /// Reads the header, and returns the bytes of the run.
    pub(super) fn read(block: &[u8]) -> Option<(BlockHead, &[u8])> {
        let (request, rest) = block.split_first_chunk::<8>()?;
        let (kind, rest) = rest.split_first_chunk::<8>()?;
        let (version, run) = rest.split_first_chunk::<8>()?;
        let last = match u64::from_le_bytes(*kind) {
            1 => false,
            2 => true,
            _ => return None,
        };
        let [request, version] = [request, version].map(|word| u64::from_le_bytes(*word));
        Some((BlockHead { request, last, version }, run))
    }
}

/// In place of a stream's index: a stream announcement follows.
const NAME: u32 = u32::MAX;
/// Bytes of a stream announcement, including its header.
pub(super) const NAME_BYTES: usize = RECORD_HEAD + 24;

/// Encodes a stream announcement in the run.
pub(super) fn name_bytes((stream, (since, over)): AnnouncedStream) -> [u8; NAME_BYTES] {
    let head = RecordHead { number: since, position: over, stream: NAME, length: 24 };
    let mut bytes = [0; NAME_BYTES];
    let (first, rest) = bytes.split_at_mut(RECORD_HEAD);
    first.copy_from_slice(&head.bytes());
    rest[..16].copy_from_slice(&stream.node.0.to_le_bytes());
    rest[16..].copy_from_slice(&stream.region.0.to_le_bytes());
    bytes
}

/// Header of a record in the run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct RecordHead {
    pub(super) number: u64,
    /// Position in the order: the number of records before this one.
    pub(super) position: u64,
    pub(super) stream: u32,
    pub(super) length: u32,
}

impl RecordHead {
    pub(super) fn bytes(self) -> [u8; RECORD_HEAD] {
        let last = u64::from(self.stream) | u64::from(self.length) << 32;
        let mut bytes = [0; RECORD_HEAD];
        for (place, word) in bytes.chunks_exact_mut(8).zip([self.number, self.position, last]) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    pub(super) fn read(run: &[u8]) -> Option<RecordHead> {
        let (number, rest) = run.split_first_chunk()?;
        let (position, rest) = rest.split_first_chunk()?;
        let last = u64::from_le_bytes(*rest.first_chunk()?);
        let [number, position] = [number, position].map(|word| u64::from_le_bytes(*word));
        Some(RecordHead { number, position, stream: last as u32, length: (last >> 32) as u32 })
    }

    /// Returns the announced stream, if this is an announcement and not a record; `Some(None)` if
    /// it is invalid.
    pub(super) fn announced_stream(self, bytes: &[u8]) -> Option<Option<AnnouncedStream>> {
        (self.stream == NAME).then(|| {
            let (node, region) = bytes.split_first_chunk::<16>()?;
            let region = RegionId(u64::from_le_bytes(region.try_into().ok()?));
            let stream = StreamId { node: NodeId(u128::from_le_bytes(*node)), region };
            Some((stream, (self.number, self.position)))
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn announced_stream_is_decoded_and_record_is_no_announcement() {
        let announced =
            (StreamId { node: NodeId(1 << 100 | 5), region: RegionId(1 << 40 | 9) }, (4, 7));
        let bytes = name_bytes(announced);
        let head = RecordHead::read(&bytes).expect("it is long enough");
        assert_eq!(head.announced_stream(&bytes[RECORD_HEAD..]), Some(Some(announced)));
        for wrong in [&bytes[RECORD_HEAD..RECORD_HEAD + 23], &bytes[..]] {
            assert_eq!(head.announced_stream(wrong), Some(None));
        }
        let record = RecordHead { stream: 3, ..head };
        assert_eq!(record.announced_stream(&bytes[RECORD_HEAD..]), None);
    }

    #[test]
    fn store_messages_are_decoded_and_truncated_messages_are_refused() {
        let stream = |node| StreamId { node: NodeId(node), region: RegionId(9) };
        let numbers = alloc::vec![(stream(1), 5), (stream(2), 0)];
        let (until, now) = ((3, numbers.clone()), (4, numbers.clone()));
        let range = TransferRange { until, from: Vec::new(), now, before: 11 };
        let transfer_request = StoreMessage::Want { key: 1, request: 2, range };
        let streams = alloc::vec![(stream(3), (4, u64::MAX)), (stream(1), (2, 7))];
        let (stream, version, since) = (RegionId(70), 9, (8, numbers));
        let later = StoreMessage::Later { key: 6, request: 7, since: since.clone() };
        let give = StoreMessage::Give { key: 1, request: 2, stream, streams, version, since };
        let durable = StoreMessage::Durable { key: 5, version: 6 };
        let lack = StoreMessage::Lack { key: 3, request: 4 };
        let behind = StoreMessage::Behind { key: 3, request: 4 };
        let room = StoreMessage::Room { key: 5, is_full: true };
        for message in [transfer_request, give, lack, behind, later, durable, room] {
            let bytes = message.to_bytes();
            assert_eq!(StoreMessage::from_bytes(&bytes), Some(message));
            for end in 0..bytes.len() {
                assert_eq!(StoreMessage::from_bytes(&bytes[..end]), None);
            }
        }
    }
}
