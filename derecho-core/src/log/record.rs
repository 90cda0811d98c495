//! Encoding of one record, and the checksums that protect it.
//!
//! Owns: the encoding. Never does: trust a length before its checksum has matched.
//!
//! ```text
//!    0 magic u32      4 sum of 8..112   8 version u64
//!   16 length u32    20 kind u8        21 zero u8, u16     24 mask u32      28 sum of the body
//!   32 epoch: view u64, sequence u64   48 writer u128      64 writer's sequence u64
//!   72 source time   80 reception time 88 key hash 16     104 synced u64
//!  112 body: payload, masked | zeros to the last byte of an eighth | END
//! ```
//! **No sector of a record is all zeros** (I-83): a record begins with the magic and ends
//! with `END`, and a payload that would fill a sector with zeros is masked. A sector that was
//! never written can therefore be told from a written one, even if an application stores
//! nothing but zeros.

use alloc::vec::Vec;

use super::checksum::Checksum;
use super::disk::SECTOR;
use super::{BadCause, EpochId, KeyHash, Version, WallTime};
use crate::ids::NodeId;

/// Length of the header, in bytes.
pub const HEADER: usize = 112;
/// Maximum length of a payload.
pub const LONGEST: usize = 1 << 28;
/// Alignment of the beginning of each record.
pub const ALIGNMENT: usize = 8;

const MAGIC: u32 = u32::from_le_bytes(*b"SqRc");
const END: u8 = 0xa5;

/// Kind of a record.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum RecordKind {
    /// A sample.
    Sample = 1,
    /// Disposal of an instance.
    Disposed = 2,
    /// Unregistration of an instance by a writer.
    Unregistered = 3,
    /// A view of the group, in the log of views.
    View = 4,
    /// An [`EpochMark`](super::EpochMark). A mark has no version of its own but that of the message
    /// before it.
    Mark = 5,
}

impl RecordKind {
    fn from_byte(byte: u8) -> Option<RecordKind> {
        [
            RecordKind::Sample,
            RecordKind::Disposed,
            RecordKind::Unregistered,
            RecordKind::View,
            RecordKind::Mark,
        ]
        .into_iter()
        .find(|kind| *kind as u8 == byte)
    }

    /// Whether a record of this kind counts as a message of its stream.
    pub fn counts(self) -> bool {
        self != RecordKind::Mark
    }
}

/// Content of a record to be logged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogEntry<'a> {
    /// Kind of the record.
    pub kind: RecordKind,
    /// Epoch in which the message was delivered.
    pub epoch: EpochId,
    /// Writer of the message.
    pub writer: NodeId,
    /// Sequence number that the writer gave the message.
    pub writer_sequence: u64,
    /// Time at which the message was written.
    pub source_time: WallTime,
    /// Time at which the message was received.
    pub reception_time: WallTime,
    /// Instance of the message.
    pub key: KeyHash,
    /// Payload of the message.
    pub payload: &'a [u8],
}

/// A logged record, as it was read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogRecord<'a> {
    /// Version of the message in its stream.
    pub version: Version,
    /// Content of the record.
    pub entry: LogEntry<'a>,
}

/// Record with a payload of its own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OwnedRecord {
    version: Version,
    entry: LogEntry<'static>,
    payload: Vec<u8>,
}

/// Value that can be written as a record.
pub trait AsRecord {
    /// Returns the record.
    fn as_record(&self) -> LogRecord<'_>;
}

impl AsRecord for LogRecord<'_> {
    fn as_record(&self) -> LogRecord<'_> {
        *self
    }
}

impl OwnedRecord {
    /// Returns the record.
    pub fn record(&self) -> LogRecord<'_> {
        LogRecord {
            version: self.version,
            entry: LogEntry { payload: &self.payload, ..self.entry },
        }
    }
}

impl LogRecord<'_> {
    /// Returns a copy that outlives the buffer of this record.
    pub fn to_owned(&self) -> OwnedRecord {
        OwnedRecord {
            version: self.version,
            entry: LogEntry { payload: &[], ..self.entry },
            payload: self.entry.payload.to_vec(),
        }
    }
}

/// Number of bytes of a record with a payload of this length.
pub fn size(payload: usize) -> usize {
    HEADER + (payload / ALIGNMENT + 1) * ALIGNMENT
}

/// Appends a record to `out`, whose end will be written at `at` in the file. All bytes of the file
/// before `synced` have been synced.
pub(crate) fn encode(
    record: LogRecord<'_>,
    at: u64,
    synced: u64,
    sum: Checksum,
    out: &mut Vec<u8>,
) {
    let entry = record.entry;
    let (start, length) = (out.len(), entry.payload.len());
    out.resize(start + HEADER, 0);
    out.extend_from_slice(entry.payload);
    out.resize(start + size(length), 0);
    let (header, body) = out[start..].split_at_mut(HEADER);
    if let Some(last) = body.last_mut() {
        *last = END;
    }
    let mask = choose_mask(&body[..length], at + HEADER as u64);
    apply(mask, &mut body[..length]);
    let mut put =
        |from: usize, bytes: &[u8]| header[from..from + bytes.len()].copy_from_slice(bytes);
    put(0, &MAGIC.to_le_bytes());
    put(8, &record.version.0.to_le_bytes());
    put(16, &(length as u32).to_le_bytes());
    put(20, &[entry.kind as u8]);
    put(24, &mask.to_le_bytes());
    put(28, &sum(body).to_le_bytes());
    put(32, &entry.epoch.view.to_le_bytes());
    put(40, &entry.epoch.sequence.to_le_bytes());
    put(48, &entry.writer.0.to_le_bytes());
    put(64, &entry.writer_sequence.to_le_bytes());
    put(72, &entry.source_time.0.to_le_bytes());
    put(80, &entry.reception_time.0.to_le_bytes());
    put(88, &entry.key.0);
    put(104, &synced.to_le_bytes());
    let vouched = sum(&header[8..]);
    header[4..8].copy_from_slice(&vouched.to_le_bytes());
}

/// Header of a record whose checksum has matched.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordHeader<'a>(&'a [u8; HEADER]);

impl<'a> RecordHeader<'a> {
    /// Reads a header and reports any defect.
    pub(crate) fn read(
        bytes: &'a [u8; HEADER],
        sum: Checksum,
    ) -> Result<RecordHeader<'a>, BadCause> {
        let header = RecordHeader(bytes);
        if header.word(0) != MAGIC {
            return Err(BadCause::NoRecord);
        }
        if header.word(4) != sum(&bytes[8..]) {
            return Err(BadCause::HeaderSum);
        }
        if header.length() > LONGEST {
            return Err(BadCause::Field("length"));
        }
        if bytes[21..24] != [0; 3] {
            return Err(BadCause::Field("reserved field"));
        }
        if RecordKind::from_byte(bytes[20]).is_none() {
            return Err(BadCause::Field("kind"));
        }
        Ok(header)
    }

    /// Whether a record may begin with these bytes.
    pub(crate) fn may_begin(bytes: &[u8]) -> bool {
        bytes.starts_with(&MAGIC.to_le_bytes())
    }

    fn part<const N: usize>(self, from: usize) -> [u8; N] {
        let mut part = [0; N];
        part.copy_from_slice(&self.0[from..from + N]);
        part
    }

    fn word(self, from: usize) -> u32 {
        u32::from_le_bytes(self.part(from))
    }

    fn number(self, from: usize) -> u64 {
        u64::from_le_bytes(self.part(from))
    }

    /// Length of the payload.
    pub(crate) fn length(self) -> usize {
        self.word(16) as usize
    }

    /// Whether the payload is stored with a mask applied.
    pub(crate) fn is_masked(self) -> bool {
        self.word(24) != 0
    }

    /// Offset up to which the file had been synced when this record was written.
    pub(crate) fn synced(self) -> u64 {
        self.number(104)
    }

    /// Version of the message.
    pub(crate) fn version(self) -> Version {
        Version(self.number(8))
    }

    /// Returns the record with this body. The mask is removed in place.
    pub(crate) fn record(self, body: &mut [u8], sum: Checksum) -> Result<LogRecord<'_>, BadCause> {
        if self.word(28) != sum(body) {
            return Err(BadCause::BodySum);
        }
        let (payload, rest) = body.split_at_mut(self.length());
        if rest.split_last().is_none_or(|(end, zeros)| *end != END || zeros.iter().any(|b| *b != 0))
        {
            return Err(BadCause::Field("end"));
        }
        apply(self.word(24), payload);
        let kind = RecordKind::from_byte(self.0[20]).ok_or(BadCause::Field("kind"))?;
        Ok(LogRecord {
            version: self.version(),
            entry: LogEntry {
                kind,
                epoch: EpochId { view: self.number(32), sequence: self.number(40) },
                writer: NodeId(u128::from_le_bytes(self.part(48))),
                writer_sequence: self.number(64),
                source_time: WallTime(self.number(72)),
                reception_time: WallTime(self.number(80)),
                key: KeyHash(self.part(88)),
                payload,
            },
        })
    }
}

/// Word that each eight bytes of a payload are combined with; 0 for mask 0.
fn word_of(mask: u32) -> u64 {
    // The factor is odd, so two masks never have the same word.
    u64::from(mask).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Removes a mask or applies one: both are the same operation.
fn apply(mask: u32, payload: &mut [u8]) {
    if mask == 0 {
        return;
    }
    let word = word_of(mask).to_le_bytes();
    for piece in payload.chunks_mut(8) {
        piece.iter_mut().zip(word).for_each(|(byte, with)| *byte ^= with);
    }
}

/// The eight bytes that this piece repeats from beginning to end; `None` if it does not.
fn repeated_word(piece: &[u8]) -> Option<u64> {
    let (first, rest) = piece.split_first_chunk::<8>()?;
    rest.chunks(8).all(|word| first.starts_with(word)).then(|| u64::from_le_bytes(*first))
}

/// Returns the least mask that leaves no sector filled by the payload all zeros. Nearly always this
/// is 0, which changes nothing.
fn choose_mask(payload: &[u8], at: u64) -> u32 {
    let lead = ((at.next_multiple_of(SECTOR) - at) as usize).min(payload.len());
    // The last part of the payload shares its sector with the end marker, which is not zero.
    let (lead, sectors) = payload.split_at(lead);
    let pieces = core::iter::once(lead).chain(sectors.chunks_exact(SECTOR as usize));
    // A mask whose word equals the word of a piece would turn that piece into zeros.
    let mut repeated: Vec<u64> = pieces.filter_map(repeated_word).collect();
    if !repeated.contains(&0) {
        return 0;
    }
    repeated.sort_unstable();
    (1..=u32::MAX).find(|mask| repeated.binary_search(&word_of(*mask)).is_err()).unwrap_or(1)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::log::checksum::portable;
    use alloc::vec;
    use proptest::prelude::*;

    fn entry(payload: &[u8]) -> LogEntry<'_> {
        LogEntry {
            kind: RecordKind::Sample,
            epoch: EpochId { view: 3, sequence: 14 },
            writer: NodeId(15),
            writer_sequence: 92,
            source_time: WallTime(65),
            reception_time: WallTime(35),
            key: KeyHash([8; 16]),
            payload,
        }
    }

    fn read(bytes: &mut [u8]) -> Result<LogRecord<'_>, BadCause> {
        let (header, body) = bytes.split_first_chunk_mut::<HEADER>().expect("a whole header");
        let header = RecordHeader::read(header, portable)?;
        header.record(body, portable)
    }

    proptest! {
        #[test]
        fn encoded_record_is_decoded_and_has_no_zero_sector(
            mut payload in prop::collection::vec(any::<u8>(), 0..3000),
            zeros in any::<bool>(),
            at in 0_u64..200,
        ) {
            if zeros {
                payload.fill(0);
            }
            let at = 8 * at;
            let mut bytes = Vec::new();
            let record = LogRecord { version: Version(7), entry: entry(&payload) };
            encode(record, at, 128, portable, &mut bytes);
            prop_assert_eq!(bytes.len(), size(payload.len()));
            // No sector's part of the record is zeros (I-83).
            let mut from = 0;
            while from < bytes.len() {
                let to = bytes.len().min((at as usize + from + 1).next_multiple_of(512) - at as usize);
                prop_assert!(bytes[from..to].iter().any(|byte| *byte != 0), "{from}..{to} at {at}");
                from = to;
            }
            prop_assert_eq!(read(&mut bytes), Ok(record));
        }
    }

    #[test]
    fn mask_choice_avoids_zero_sectors_for_payload_of_mask_words() {
        let mut payload = vec![0; 512 * 9];
        for (sector, mask) in payload.chunks_mut(512).zip(0..) {
            apply(mask, sector);
        }
        assert_eq!(choose_mask(&payload, 512), 9);
        assert_eq!(choose_mask(&payload[512..], 512), 0);
    }

    #[test]
    fn every_flipped_bit_in_record_is_detected() {
        let mut bytes = Vec::new();
        let record = LogRecord { version: Version(7), entry: entry(b"fly") };
        encode(record, 128, 128, portable, &mut bytes);
        for bit in 0..bytes.len() * 8 {
            let mut bytes = bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(read(&mut bytes).is_err(), "bit {bit}");
        }
    }
}
