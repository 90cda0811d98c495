//! One record: its bytes, and what vouches for them.
//!
//! Owns: the encoding. Never does: believe a length before its sum is right.
//!
//! ```text
//!    0 magic u32      4 sum of 8..112   8 version u64
//!   16 length u32    20 kind u8        21 zero u8, u16     24 mask u32      28 sum of the body
//!   32 epoch: view u64, sequence u64   48 writer u128      64 writer's sequence u64
//!   72 source time   80 reception time 88 key hash 16     104 synced u64
//!  112 body: payload, masked | zeros to the last byte of an eighth | END
//! ```
//! **No sector of a record is all zeros** (I-83): it begins with the magic, ends with `END`, and a payload
//! that would fill a sector with zeros is masked. So a sector that was never written is told from one
//! that was, also where somebody stores nothing but zeros.

use alloc::vec::Vec;

use super::checksum::Checksum;
use super::disk::SECTOR;
use super::{BadCause, EpochId, KeyHash, Version, WallTime};
use crate::ids::NodeId;

/// Bytes before the body.
pub const HEADER: usize = 112;
/// The longest payload.
pub const LONGEST: usize = 1 << 28;
/// Records begin at multiples of this.
pub const ALIGNMENT: usize = 8;

const MAGIC: u32 = u32::from_le_bytes(*b"SqRc");
const END: u8 = 0xa5;

/// What a record is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Kind {
    /// A sample.
    Sample = 1,
    /// An instance was disposed of.
    Disposed = 2,
    /// A writer has unregistered an instance.
    Unregistered = 3,
    /// A view of the group, in the log of views.
    View = 4,
    /// A [`Mark`](super::Mark). It has no version of its own: it has that of the message before it.
    Mark = 5,
}

impl Kind {
    fn from_byte(byte: u8) -> Option<Kind> {
        [Kind::Sample, Kind::Disposed, Kind::Unregistered, Kind::View, Kind::Mark]
            .into_iter()
            .find(|kind| *kind as u8 == byte)
    }

    /// Whether it counts as a message of its stream.
    pub fn counts(self) -> bool {
        self != Kind::Mark
    }
}

/// What is to be logged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry<'a> {
    /// What it is.
    pub kind: Kind,
    /// In which epoch it was delivered.
    pub epoch: EpochId,
    /// Whose it is.
    pub writer: NodeId,
    /// The writer's number of it.
    pub writer_sequence: u64,
    /// When it was written.
    pub source_time: WallTime,
    /// When it was received.
    pub reception_time: WallTime,
    /// Which instance.
    pub key: KeyHash,
    /// What it says.
    pub payload: &'a [u8],
}

/// What was logged, as it was read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record<'a> {
    /// Which message of its stream it is.
    pub version: Version,
    /// What it says.
    pub entry: Entry<'a>,
}

/// A record that was copied out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OwnedRecord {
    version: Version,
    entry: Entry<'static>,
    payload: Vec<u8>,
}

/// Something that is written as a record.
pub trait AsRecord {
    /// The record.
    fn as_record(&self) -> Record<'_>;
}

impl AsRecord for Record<'_> {
    fn as_record(&self) -> Record<'_> {
        *self
    }
}

impl OwnedRecord {
    /// The record.
    pub fn record(&self) -> Record<'_> {
        Record { version: self.version, entry: Entry { payload: &self.payload, ..self.entry } }
    }
}

impl Record<'_> {
    /// A copy that outlives what it was read into.
    pub fn to_owned(&self) -> OwnedRecord {
        OwnedRecord {
            version: self.version,
            entry: Entry { payload: &[], ..self.entry },
            payload: self.entry.payload.to_vec(),
        }
    }
}

/// How many bytes a record with so long a payload takes.
pub fn size(payload: usize) -> usize {
    HEADER + (payload / ALIGNMENT + 1) * ALIGNMENT
}

/// Appends a record to `out`, which will be written at `at` in the file up to its end. All before
/// `synced` in the file has been synced.
pub(crate) fn encode(
    record: Record<'_>,
    (at, synced): (u64, u64),
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

/// The header of a record whose sum was right.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header<'a>(&'a [u8; HEADER]);

impl<'a> Header<'a> {
    /// Reads it; says what is wrong with it if anything is.
    pub(crate) fn read(bytes: &'a [u8; HEADER], sum: Checksum) -> Result<Header<'a>, BadCause> {
        let header = Header(bytes);
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
        if Kind::from_byte(bytes[20]).is_none() {
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

    /// How long the payload is.
    pub(crate) fn length(self) -> usize {
        self.word(16) as usize
    }

    /// Whether the payload lies there combined with something.
    pub(crate) fn is_masked(self) -> bool {
        self.word(24) != 0
    }

    /// Up to where the file had been synced when this was written.
    pub(crate) fn synced(self) -> u64 {
        self.number(104)
    }

    /// Which message it is.
    pub(crate) fn version(self) -> Version {
        Version(self.number(8))
    }

    /// The record, if this is its body. The mask is taken off in place.
    pub(crate) fn record(self, body: &mut [u8], sum: Checksum) -> Result<Record<'_>, BadCause> {
        if self.word(28) != sum(body) {
            return Err(BadCause::BodySum);
        }
        let (payload, rest) = body.split_at_mut(self.length());
        if rest.split_last().is_none_or(|(end, zeros)| *end != END || zeros.iter().any(|b| *b != 0))
        {
            return Err(BadCause::Field("end"));
        }
        apply(self.word(24), payload);
        let kind = Kind::from_byte(self.0[20]).ok_or(BadCause::Field("kind"))?;
        Ok(Record {
            version: self.version(),
            entry: Entry {
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

/// What each eight bytes of a payload are combined with; nothing for mask 0.
fn word_of(mask: u32) -> u64 {
    // An odd factor, so that two masks never have the same word.
    u64::from(mask).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Takes a mask off, or puts it on: it is the same.
fn apply(mask: u32, payload: &mut [u8]) {
    if mask == 0 {
        return;
    }
    let word = word_of(mask).to_le_bytes();
    for piece in payload.chunks_mut(8) {
        piece.iter_mut().zip(word).for_each(|(byte, with)| *byte ^= with);
    }
}

/// The eight bytes that this piece repeats from its beginning to its end, if it does.
fn repeated_word(piece: &[u8]) -> Option<u64> {
    let (first, rest) = piece.split_first_chunk::<8>()?;
    rest.chunks(8).all(|word| first.starts_with(word)).then(|| u64::from_le_bytes(*first))
}

/// The least mask with which no sector that the payload fills is zeros: 0, which changes nothing, nearly
/// always.
fn choose_mask(payload: &[u8], at: u64) -> u32 {
    let lead = ((at.next_multiple_of(SECTOR) - at) as usize).min(payload.len());
    // The last part of the payload shares its sector with the end, which is not zero.
    let (lead, sectors) = payload.split_at(lead);
    let pieces = core::iter::once(lead).chain(sectors.chunks_exact(SECTOR as usize));
    // A mask that is the word of a piece would make zeros of it.
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

    fn entry(payload: &[u8]) -> Entry<'_> {
        Entry {
            kind: Kind::Sample,
            epoch: EpochId { view: 3, sequence: 14 },
            writer: NodeId(15),
            writer_sequence: 92,
            source_time: WallTime(65),
            reception_time: WallTime(35),
            key: KeyHash([8; 16]),
            payload,
        }
    }

    fn read(bytes: &mut [u8]) -> Result<Record<'_>, BadCause> {
        let (header, body) = bytes.split_first_chunk_mut::<HEADER>().expect("a whole header");
        let header = Header::read(header, portable)?;
        header.record(body, portable)
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_read_back(
            mut payload in prop::collection::vec(any::<u8>(), 0..3000),
            zeros in any::<bool>(),
            at in 0_u64..200,
        ) {
            if zeros {
                payload.fill(0);
            }
            let at = 8 * at;
            let mut bytes = Vec::new();
            let record = Record { version: Version(7), entry: entry(&payload) };
            encode(record, (at, 128), portable, &mut bytes);
            prop_assert_eq!(bytes.len(), size(payload.len()));
            // No sector's part of it is zeros (I-83).
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
    fn a_payload_of_the_masks_own_words_is_told_from_zeros_too() {
        let mut payload = vec![0; 512 * 9];
        for (sector, mask) in payload.chunks_mut(512).zip(0..) {
            apply(mask, sector);
        }
        assert_eq!(choose_mask(&payload, 512), 9);
        assert_eq!(choose_mask(&payload[512..], 512), 0);
    }

    #[test]
    fn any_bit_that_changes_is_found() {
        let mut bytes = Vec::new();
        let record = Record { version: Version(7), entry: entry(b"fly") };
        encode(record, (128, 128), portable, &mut bytes);
        for bit in 0..bytes.len() * 8 {
            let mut bytes = bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(read(&mut bytes).is_err(), "bit {bit}");
        }
    }
}
