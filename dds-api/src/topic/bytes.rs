//! Byte strings as samples, and topics of byte strings that have a number.
//!
//! ```text
//!   payload   byte  0   header of CDR: 4 bytes
//!                   4   length: u32
//!                   8   the bytes, and up to three of padding
//! ```
//! Owns: the form of such a sample, and the location of its bytes. Never does: copy bytes that lie
//! in a record, unless asked for a value.

use std::any::{Any, TypeId};
use std::fmt;
use std::ops::{Deref, Range};
use std::sync::OnceLock;

use derecho_core::multicast::inbox::Record;
use derecho_core::storage::cursor::StoredRecord;
use idl_cdr::{
    CdrError, CdrReader, CdrWriter, DdsType, Encoding, Extensibility, Limits, PlainLayout, Reflect,
    TypeDescriptor, UNBOUNDED, ValueRef,
};

use super::TopicBuilder;
use crate::domain::DomainParticipant;

/// Number of bytes of a payload before the first byte of the sample.
pub(crate) const BYTES_AT: usize = 8;

/// A sample that is a byte string, of any length for which its writer has room: `struct Bytes {
/// sequence<octet> value; }` of the module `Squall` in IDL.
///
/// It dereferences to the bytes. A taken sample lies in its writer's memory, and pins that part of
/// it as every [`Sample`](crate::subscription::Sample) does. [`in_place`](Bytes::in_place) reads
/// the bytes there, without a copy. Dereferencing copies them once, because bytes that a faulty
/// writer may still change are not sound input for code such as [`str::from_utf8`]. A clone is a
/// copy, which pins nothing. Samples are written by
/// [`write_bytes`](crate::publication::DataWriter::write_bytes), or built in place:
/// [`loan_bytes`](crate::publication::DataWriter::loan_bytes),
/// [`write_bytes_with`](crate::publication::DataWriter::write_bytes_with).
///
/// ```
/// # use dds_api::prelude::*;
/// use dds_api::topic::Bytes;
///
/// # fn example(participant: &DomainParticipant) -> DdsResult<()> {
/// let frames = participant.topic::<Bytes>("Frames").atomic().create()?;
/// let (writer, reader) = (participant.writer(&frames).create()?, participant.reader(&frames).create()?);
/// writer.write_bytes(b"radar")?;
/// if let Some(frame) = reader.take_next_data(Timeout::secs(1))? {
///     println!("{} bytes, the first is {:?}", frame.len(), frame.in_place().first());
///     let text = std::str::from_utf8(&frame); // checked and read in a copy of its own
/// }
/// # Ok(())
/// # }
/// ```
#[derive(DdsType, Clone, Default, PartialEq, Eq, Hash)]
#[dds(name = "Squall::Bytes")]
pub struct Bytes {
    value: ByteStorage,
}

/// Bytes at any of three locations.
enum ByteStorage {
    Own(Vec<u8>),
    /// Bytes in their writer's memory, and the private copy that the first dereference makes.
    InPlace(Record, Range<usize>, OnceLock<Box<[u8]>>),
    /// Bytes in this process's own store.
    Kept(StoredRecord, Range<usize>),
}

impl Bytes {
    /// The bytes where their writer put them, without a copy.
    ///
    /// The caller trusts the writer's process not to change the bytes of a held sample. A correct
    /// Squall process never does. A faulty or hostile process can, because the memory is its own.
    /// The bytes then change while the caller reads them, and code whose soundness depends on
    /// unchanging bytes (such as a `str` made of them) has undefined behaviour. Processes of the
    /// same user are in one trust domain anyway, because each of them can write the memory of the
    /// others by means of the operating system. In a domain that several users share, readers get
    /// copies unless they request otherwise
    /// ([`copied`](crate::subscription::DataReaderBuilder::copied)); a copy is returned as it is.
    #[inline]
    pub fn in_place(&self) -> &[u8] {
        self.value.in_place()
    }

    /// The number of bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.in_place().len()
    }

    /// Whether there are no bytes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes as a vector. They are copied only if they lie in a writer's memory or among the
    /// kept samples.
    pub fn into_vec(self) -> Vec<u8> {
        match self.value {
            ByteStorage::Own(bytes) => bytes,
            lent => lent.in_place().to_vec(),
        }
    }

    /// Whether the bytes lie where their writer put them, or where they are kept for late joiners.
    pub(crate) fn is_lent(&self) -> bool {
        !matches!(self.value, ByteStorage::Own(_))
    }

    /// The record that the bytes lie in.
    pub(crate) fn record(&self) -> Option<&Record> {
        match &self.value {
            ByteStorage::InPlace(record, ..) => Some(record),
            ByteStorage::Own(_) | ByteStorage::Kept(..) => None,
        }
    }

    /// Whether `T` is this type. Constant for each type.
    #[inline(always)]
    pub(crate) fn is<T: Any>() -> bool {
        TypeId::of::<T>() == TypeId::of::<Bytes>()
    }

    /// The sample in a record with this payload, read in place, if `T` is this type.
    #[inline]
    pub(crate) fn in_record<T: Any>(record: &Record, payload: &[u8]) -> Option<T> {
        let at = find(record.bytes(), payload)?;
        as_any(Bytes { value: ByteStorage::InPlace(record.clone(), at, OnceLock::new()) })
    }

    /// The sample in a kept record with this payload, read in place, if `T` is this type.
    #[inline]
    pub(crate) fn in_kept<T: Any>(kept: &StoredRecord, payload: &[u8]) -> Option<T> {
        let at = find(kept.bytes(), payload)?;
        as_any(Bytes { value: ByteStorage::Kept(kept.clone(), at) })
    }

    /// The value, if it is of this type.
    #[inline]
    pub(crate) fn of<T: Any>(value: &T) -> Option<&Bytes> {
        (value as &dyn Any).downcast_ref()
    }

    /// A copy of a value of this type that lies in a record. The copy does not need the record.
    pub(crate) fn copied<T: Any>(value: &T) -> Option<T> {
        let lent = Bytes::of(value).filter(|bytes| bytes.is_lent())?;
        as_any(lent.clone())
    }

    /// Size of the payload for this number of bytes; `None` if no payload can have so many.
    pub(crate) fn payload_size(length: usize) -> Option<usize> {
        u32::try_from(length).ok()?;
        length.checked_next_multiple_of(4)?.checked_add(BYTES_AT)
    }

    /// Writes the header, the length and the padding around the bytes in a payload of
    /// [this size](Bytes::payload_size).
    pub(crate) fn frame(
        length: usize,
        payload: &mut [u8],
        encoding: Encoding,
    ) -> Result<(), CdrError> {
        let size = payload.len();
        let (before, behind) = payload.split_at_mut(BYTES_AT);
        let padding = size - BYTES_AT - length;
        let mut writer = CdrWriter::over(before, encoding);
        writer.write_header(Extensibility::Final)?;
        writer.write_length(length, UNBOUNDED)?;
        writer.finish()?;
        behind[length..].fill(0);
        // The last byte of the header says how many of the bytes that follow are padding.
        before[3] |= padding as u8;
        Ok(())
    }
}

/// The value as a `T`, if `T` is its type.
fn as_any<T: Any>(bytes: Bytes) -> Option<T> {
    let mut value = Some(bytes);
    (&mut value as &mut dyn Any).downcast_mut::<Option<T>>()?.take()
}

/// Range of the bytes within a record that has this payload, in any encoding. The length is
/// read once.
fn find(record: &[u8], payload: &[u8]) -> Option<Range<usize>> {
    let mut reader = CdrReader::from_payload(payload).ok()?;
    reader.expect(Extensibility::Final).ok()?;
    let length = reader.read_length(1, UNBOUNDED).ok()?;
    let bytes = reader.read_bytes(length).ok()?;
    reader.finish().ok()?;
    let start = (bytes.as_ptr() as usize).checked_sub(record.as_ptr() as usize)?;
    record.get(start..start + length).map(|_| start..start + length)
}

impl ByteStorage {
    #[inline]
    fn in_place(&self) -> &[u8] {
        match self {
            ByteStorage::Own(bytes) => bytes,
            // The range was checked when the sample was made.
            ByteStorage::InPlace(record, at, _) => {
                record.bytes().get(at.clone()).unwrap_or_default()
            }
            ByteStorage::Kept(kept, at) => kept.bytes().get(at.clone()).unwrap_or_default(),
        }
    }
}

/// Bytes that no other process can change.
impl Deref for ByteStorage {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            ByteStorage::InPlace(_, _, copy) => copy.get_or_init(|| self.in_place().into()),
            ByteStorage::Own(_) | ByteStorage::Kept(..) => self.in_place(),
        }
    }
}

impl Default for ByteStorage {
    fn default() -> Self {
        ByteStorage::Own(Vec::new())
    }
}

/// A clone does not pin a writer's memory.
impl Clone for ByteStorage {
    fn clone(&self) -> Self {
        ByteStorage::Own(self.in_place().to_vec())
    }
}

impl PartialEq for ByteStorage {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for ByteStorage {}

impl std::hash::Hash for ByteStorage {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

impl Reflect for ByteStorage {
    fn value(&self) -> ValueRef<'_> {
        ValueRef::Collection(self)
    }

    fn parts(&self) -> usize {
        self.in_place().len()
    }

    fn part(&self, place: usize) -> ValueRef<'_> {
        self.in_place()
            .get(place)
            .map_or(ValueRef::Absent, |byte| ValueRef::Unsigned(u64::from(*byte)))
    }
}

/// Has the form of a byte vector.
impl DdsType for ByteStorage {
    const TYPE_NAME: &'static str = <Vec<u8> as DdsType>::TYPE_NAME;
    const LAYOUT: Option<PlainLayout<Self>> = None;
    const DESCRIPTOR: TypeDescriptor = <Vec<u8> as DdsType>::DESCRIPTOR;
    const MIN_CDR_SIZE: usize = <Vec<u8> as DdsType>::MIN_CDR_SIZE;
    const BOUNDS: usize = <Vec<u8> as DdsType>::BOUNDS;
    const ELEMENTS: usize = <Vec<u8> as DdsType>::ELEMENTS;
    const LENGTH_CODE: u32 = <Vec<u8> as DdsType>::LENGTH_CODE;

    fn default_value() -> Self {
        ByteStorage::default()
    }

    fn serialize(&self, writer: &mut CdrWriter<'_>) -> Result<(), CdrError> {
        self.serialize_bounded(writer, &[])
    }

    fn deserialize(reader: &mut CdrReader<'_>) -> Result<Self, CdrError> {
        Self::deserialize_bounded(reader, Limits::NONE)
    }

    fn serialize_bounded(
        &self,
        writer: &mut CdrWriter<'_>,
        bounds: &[u32],
    ) -> Result<(), CdrError> {
        // Read once, so that length and bytes match.
        let bytes = self.in_place();
        writer.write_length(bytes.len(), bounds.first().copied().unwrap_or(UNBOUNDED))?;
        writer.write_bytes(bytes)
    }

    fn deserialize_bounded(
        reader: &mut CdrReader<'_>,
        limits: Limits<'_>,
    ) -> Result<Self, CdrError> {
        Vec::deserialize_bounded(reader, limits).map(ByteStorage::Own)
    }
}

impl Deref for Bytes {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        &self.value
    }
}

impl AsRef<[u8]> for Bytes {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Bytes {
        Bytes { value: ByteStorage::Own(bytes) }
    }
}

impl From<&[u8]> for Bytes {
    fn from(bytes: &[u8]) -> Bytes {
        bytes.to_vec().into()
    }
}

impl<const N: usize> From<[u8; N]> for Bytes {
    fn from(bytes: [u8; N]) -> Bytes {
        bytes.to_vec().into()
    }
}

impl<const N: usize> From<&[u8; N]> for Bytes {
    fn from(bytes: &[u8; N]) -> Bytes {
        bytes.to_vec().into()
    }
}

/// Formatted as a Rust literal: `b"..."`.
impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b\"{}\"", self.escape_ascii())
    }
}

impl DomainParticipant {
    /// The topic of byte strings with this number. In the avionics interface of the papers, a topic
    /// is eight bits and a sample is a vector of bytes. It is an ordinary topic, for example
    /// `Numbered/7`, with a level and policies like any other. Tools see it under that name.
    ///
    /// ```no_run
    /// # use dds_api::prelude::*;
    /// # fn example(participant: &DomainParticipant) -> DdsResult<()> {
    /// let air_data = participant.numbered_topic(7).atomic().create()?;
    /// assert_eq!((air_data.name(), air_data.number()), ("Numbered/7", Some(7)));
    /// let writer = participant.writer(&air_data).create()?;
    /// writer.write_bytes_with(16, |slot| slot.fill(0xa5))?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn numbered_topic(&self, number: u8) -> TopicBuilder<Bytes> {
        self.topic(&format!("{NUMBERED}{number}"))
    }
}

/// Prefix of the names of topics that have a number.
const NUMBERED: &str = "Numbered/";

impl super::Topic<Bytes> {
    /// The topic's number, if it is a [numbered topic](DomainParticipant::numbered_topic).
    pub fn number(&self) -> Option<u8> {
        let number = self.name().strip_prefix(NUMBERED)?;
        // Only the canonical form of the number is accepted.
        number.parse().ok().filter(|it: &u8| it.to_string() == number)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use super::*;

    #[derive(DdsType, Clone, Debug, PartialEq)]
    #[dds(name = "Squall::Bytes")]
    struct AsIdlHasIt {
        value: Vec<u8>,
    }

    /// Bytes written in place, encoded bytes, and the encoding of the IDL type are identical.
    #[test]
    fn a_byte_string_is_a_struct_of_a_sequence() {
        for length in 0..9_u8 {
            let value: Vec<u8> = (1..=length).collect();
            for encoding in [Encoding::CDR_LE, Encoding::PLAIN_CDR2_LE] {
                let as_idl = AsIdlHasIt { value: value.clone() };
                let expected = idl_cdr::to_cdr_with(&as_idl, encoding).unwrap();
                let bytes = Bytes::from(value.clone());
                assert_eq!(idl_cdr::to_cdr_with(&bytes, encoding).unwrap(), expected);
                let mut placed = vec![0xff; Bytes::payload_size(value.len()).unwrap()];
                placed[BYTES_AT..][..value.len()].copy_from_slice(&value);
                Bytes::frame(value.len(), &mut placed, encoding).unwrap();
                assert_eq!(placed, expected);
                assert_eq!(&placed[find(&placed, &placed).unwrap()], value);
                assert_eq!(*idl_cdr::from_cdr::<Bytes>(&placed).unwrap(), *value);
            }
        }
        assert_eq!(Bytes::DESCRIPTOR.name, AsIdlHasIt::DESCRIPTOR.name);
        let [ours, theirs] =
            [idl_xtypes::DynamicType::of::<Bytes>(), idl_xtypes::DynamicType::of::<AsIdlHasIt>()];
        assert_eq!(format!("{ours}"), format!("{theirs}"));
    }

    /// Cases: a length that the payload does not have or that exceeds it, no header, the framing of
    /// another type.
    #[test]
    fn byte_range_of_malformed_payload_never_exceeds_the_payload() {
        let good = idl_cdr::to_cdr(&Bytes::from(*b"12345")).unwrap();
        assert!(find(&good, &good).is_some());
        for length in 0..good.len() {
            assert!(find(&good, &good[..length]).is_none_or(|at| at.end <= length), "{length}");
        }
        for at in 0..good.len() {
            for value in [0, 1, 7, 0x7f, 0x80, 0xff] {
                let mut bad = good.clone();
                bad[at] = value;
                assert!(find(&bad, &bad).is_none_or(|at| at.end <= bad.len()));
            }
        }
    }
}
