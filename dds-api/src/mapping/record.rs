//! Layout of a sample in a sender's memory.
//!
//! ```text
//!   byte  0   source timestamp: u64    nanoseconds since 1970
//!         8   writer: u32              number of the writer within its participant
//!        12   form: u32                plain or CDR; effect on the instance; fields that follow;
//!                                      a mark: the version of a type that may change, otherwise
//!                                      the memory layout of its values
//!        16   payload                  aligned to 16 bytes; only the key if the instance ends
//!       ...   partitions, length: u16  NUL-separated names; only on an ordered topic, for a writer
//!                                      in named partitions
//!       ...   strength: i32            only for a writer that has a strength
//!       ...   tag: u64                 on an ordered topic, only if several topics share an order:
//!                                      identifies the topic; on an unordered topic, only if the
//!                                      timestamp is not the time of the commit: that time
//!       ...   expiry: u64              only for a writer with a lifespan: time at which the sample
//!                                      expires, on the clock of the timestamp
//!       ...   key hash: 16 bytes       only if the type has a key and samples are kept for late
//!                                      joiners, or if the writer offers a DEADLINE
//! ```
//! The protocol keeps the record's length and its number in the sender's order.
//!
//! Owns: the header, and the choice of form. Never does: trust the bytes that it reads.

mod notice;
mod policy_metadata;

use std::mem::MaybeUninit;

use derecho_core::storage::store::KeyLiveness;
use idl_cdr::{CdrVersion, Encoding, Endianness, Extensibility};
use idl_xtypes::TopicData;
use qos_profiles::DataRepresentationId;

pub(crate) use self::notice::{NoticeRecord, WriterNotice};
pub(crate) use self::policy_metadata::{PolicyMetadata, RecordedOffer, partition};
use super::layouts::MemoryLayouts;
use super::set::{OF_SEVERAL, records};

/// Bytes before the payload.
pub(crate) const HEADER: usize = 16;

const PLAIN: u32 = 1;
const CDR: u32 = 2;
/// A notice about the writer: [`WriterNotice`].
const END: u32 = 0;
/// Bits of the form that describe the payload.
const KIND: u32 = 3;
/// A coherent set: the payload consists of records ([`super::set`]).
const SET: u32 = 3;
/// Added to the form of a record that has its topic's tag.
const TAGGED: u32 = 8;
/// Added to the form of a record that has an expiry.
const EXPIRING: u32 = 4;
/// First bit of the writer's offered policies that differ from the defaults: see [`RecordedOffer`].
const OFFER: u32 = 4;
const OFFERS: u32 = ((1 << RecordedOffer::COUNT.ilog2()) - 1) << OFFER;
/// Added to the form of a record that ends with its key hash.
const KEYED: u32 = 0x100;
/// Added to the form of a record that disposes its instance.
const DISPOSED: u32 = 0x200;
/// Added to the form of a record by which a writer unregisters an instance.
const UNREGISTERED: u32 = 0x400;
/// Added to the form of a record that has its writer's strength.
const STRONG: u32 = 0x800;
/// Added to the form of a record that names its partitions.
const PARTITIONED: u32 = 0x1000;
/// First bit of the mark: of the type if that may change, otherwise of the memory layout of
/// its values.
const MARK: u32 = 13;
/// Bits of the form that do not describe the payload.
const METADATA: u32 = EXPIRING | TAGGED | KEYED | STRONG | PARTITIONED | OFFERS;
/// Bytes of the length of the partition names.
const NAMES_LENGTH: usize = 2;
/// Maximum number of bytes of the names of a writer's partitions.
pub(crate) const LONGEST_NAMES: usize = 1 << 12;
/// Bytes of the key hash.
pub(crate) const KEY: usize = 16;
/// Bytes of the tag.
pub(crate) const TAG: usize = 8;
/// Bytes of the strength.
pub(crate) const STRENGTH: usize = 4;
/// Bytes of the expiry.
pub(crate) const EXPIRY: usize = 8;
/// Expiry of a sample that never expires.
pub(crate) const NEVER: u64 = u64::MAX;

/// Encoding of keys that are kept without a sample.
const KEY_ENCODING: Encoding = match Endianness::NATIVE {
    Endianness::Big => Encoding::PLAIN_CDR2_BE,
    Endianness::Little => Encoding::PLAIN_CDR2_LE,
};

/// Effect of a record on the instance of its sample.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RecordEffect {
    Alive,
    Disposed,
    Unregistered,
    DisposedAndUnregistered,
}

impl RecordEffect {
    fn flags(self) -> u32 {
        match self {
            RecordEffect::Alive => 0,
            RecordEffect::Disposed => DISPOSED,
            RecordEffect::Unregistered => UNREGISTERED,
            RecordEffect::DisposedAndUnregistered => DISPOSED | UNREGISTERED,
        }
    }
}

/// Header of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RecordHeader {
    pub(crate) timestamp: u64,
    pub(crate) writer: u32,
    form: u32,
}

impl RecordHeader {
    /// Header of a generated sample, sent by no writer: a lost writer is unregistered from
    /// an instance.
    pub(crate) fn of_loss(timestamp: u64, writer: u32) -> RecordHeader {
        RecordHeader { timestamp, writer, form: CDR | UNREGISTERED }
    }

    /// Header of a generated sample, sent by no writer: a part of the discovery data.
    pub(crate) fn of_discovery(timestamp: u64, effect: RecordEffect) -> RecordHeader {
        RecordHeader { timestamp, writer: 0, form: CDR | effect.flags() }
    }

    /// Effect on the instance.
    #[inline]
    pub(crate) fn effect(self) -> RecordEffect {
        match self.form & (DISPOSED | UNREGISTERED) {
            0 => RecordEffect::Alive,
            DISPOSED => RecordEffect::Disposed,
            UNREGISTERED => RecordEffect::Unregistered,
            _ => RecordEffect::DisposedAndUnregistered,
        }
    }

    /// Whether the record is a coherent set of other records.
    #[inline(always)]
    pub(crate) fn is_set(self) -> bool {
        self.form & !(!0 << MARK) & !METADATA == SET
    }

    /// Whether the record is a set or a notice about its writer instead of a sample.
    #[inline(always)]
    pub(crate) fn is_apart(self) -> bool {
        matches!(self.form & KIND, END | SET)
    }

    /// Whether the record is a notice about its writer.
    #[inline(always)]
    fn is_notice(self) -> bool {
        self.form & KIND == END
    }

    /// Mark of the sample's type version; zero if the type has only one version.
    #[inline]
    pub(crate) fn mark(self) -> u32 {
        self.form >> MARK
    }

    /// Number of bytes behind the payload; `None` if the record is too short.
    #[inline]
    fn tail(self, record: &[u8]) -> Option<usize> {
        let fixed = self.fixed_tail();
        if self.form & PARTITIONED == 0 {
            return Some(fixed);
        }
        let length = record.get(..record.len().checked_sub(fixed)?)?.last_chunk()?;
        Some(fixed + NAMES_LENGTH + usize::from(u16::from_le_bytes(*length)))
    }

    /// Number of bytes behind the partition names and their length.
    #[inline]
    fn fixed_tail(self) -> usize {
        self.behind_strength() + if self.form & STRONG != 0 { STRENGTH } else { 0 }
    }

    /// Number of bytes behind the strength.
    #[inline]
    fn behind_strength(self) -> usize {
        self.behind_tag() + if self.form & TAGGED != 0 { TAG } else { 0 }
    }

    /// Number of bytes behind the tag.
    #[inline]
    fn behind_tag(self) -> usize {
        self.key_size() + if self.form & EXPIRING != 0 { EXPIRY } else { 0 }
    }

    #[inline]
    fn key_size(self) -> usize {
        if self.form & KEYED != 0 { KEY } else { 0 }
    }

    /// Tag of the topic; zero if the record has none.
    #[inline(always)]
    fn tag_of(self, record: &[u8]) -> u64 {
        if self.form & TAGGED == 0 { 0 } else { self.some_tag(record) }
    }

    #[cold]
    fn some_tag(self, record: &[u8]) -> u64 {
        self.word_before(record, self.behind_tag()).unwrap_or(0)
    }

    /// The eight bytes that precede the last `behind` bytes of a record.
    fn word_before(self, record: &[u8], behind: usize) -> Option<u64> {
        let before = record.get(HEADER..record.len().checked_sub(behind)?)?;
        Some(u64::from_le_bytes(*before.last_chunk()?))
    }

    /// Time at which the sample expires by its writer's lifespan.
    #[cold]
    fn expiry(self, record: &[u8]) -> u64 {
        let says = self.form & EXPIRING != 0 && self.effect() == RecordEffect::Alive;
        let expiry = self.word_before(record, self.key_size());
        expiry.filter(|_| says).unwrap_or(NEVER)
    }

    /// Time at which the sample expires by its age. [`NEVER`] for a coherent set: its samples carry
    /// their own timestamps.
    pub(crate) fn ends(self, lifespan: u64) -> u64 {
        let is_sample = self.effect() == RecordEffect::Alive && !self.is_set() && !self.is_notice();
        match lifespan > 0 && is_sample {
            true => self.timestamp.saturating_add(lifespan),
            false => NEVER,
        }
    }

    #[cold]
    fn names(self, record: &[u8]) -> Option<&[u8]> {
        let end = record.len().checked_sub(self.fixed_tail() + NAMES_LENGTH)?;
        record.get(record.len().checked_sub(self.tail(record)?)?..end)
    }

    #[inline]
    pub(crate) fn read(record: &[u8]) -> Option<RecordHeader> {
        let header = u128::from_le_bytes(*record.first_chunk::<HEADER>()?);
        let (timestamp, last) = (header as u64, (header >> 64) as u64);
        Some(RecordHeader { timestamp, writer: last as u32, form: (last >> 32) as u32 })
    }

    #[inline]
    pub(crate) fn write(self, record: &mut [u8]) {
        let last = u64::from(self.writer) | u64::from(self.form) << 32;
        let (first, second) = record[..HEADER].split_at_mut(8);
        first.copy_from_slice(&self.timestamp.to_le_bytes());
        second.copy_from_slice(&last.to_le_bytes());
    }
}

/// Whether samples of this type are sent as they lie in memory. Constant for each type.
pub(crate) const fn is_plain<T: TopicData>() -> bool {
    match T::LAYOUT {
        Some(layout) => layout.align() <= HEADER,
        None => false,
    }
}

/// Mark of records whose samples have this memory layout; zero for no layout.
pub(crate) const fn layout_mark(layout: u64) -> u32 {
    let mark = layout as u32 & (u32::MAX >> MARK);
    if layout != 0 && mark == 0 { 1 } else { mark }
}

/// Form of records of this type that are read in place.
const fn form_in_place<T: TopicData>() -> u32 {
    match T::LAYOUT {
        Some(layout) => PLAIN | layout_mark(layout.hash()) << MARK,
        None => 0,
    }
}

/// Size of the record of this sample. `encoding` is only called for a sample that is not plain.
#[inline(always)]
pub(crate) fn record_size<T: TopicData>(
    sample: &T,
    encoding: impl FnOnce() -> Encoding,
) -> Result<usize, T::Error> {
    if is_plain::<T>() {
        return Ok(HEADER + size_of::<T>());
    }
    Ok(HEADER + sample.cdr_size(encoding())?)
}

/// Writes a sample's payload behind the header. Returns the record's size.
#[inline(always)]
pub(crate) fn write_payload<T: TopicData>(
    sample: &T,
    record: &mut [u8],
    encoding: impl FnOnce() -> Encoding,
) -> Result<usize, T::Error> {
    if let Some(layout) = T::LAYOUT
        && is_plain::<T>()
    {
        let bytes = layout.bytes_of(sample);
        let target = &mut record[HEADER..][..bytes.len()];
        copy_padded(bytes, target);
        // Padding contains bytes of this program's stack, which must not reach other processes.
        layout.clear_padding(target);
        return Ok(HEADER + bytes.len());
    }
    Ok(HEADER + sample.write_cdr(&mut record[HEADER..], encoding())?)
}

/// Copies the bytes of a value, including padding.
#[inline]
fn copy_padded(from: &[MaybeUninit<u8>], to: &mut [u8]) {
    let to = &mut to[..from.len()];
    // SAFETY: both slices have the same length. They do not overlap, because one of them is
    // borrowed mutably. Padding among the source bytes is copied as it is: the destination lies in
    // a mapping shared with other processes, about whose content the compiler can assume nothing,
    // and every reader of it accepts any bit pattern.
    unsafe {
        std::ptr::copy_nonoverlapping(from.as_ptr().cast::<u8>(), to.as_mut_ptr(), from.len());
    }
}

/// The key of a value in the encoding in which keys are kept.
pub(crate) fn key_payload<T: TopicData>(value: &T) -> Result<Vec<u8>, T::Error> {
    value.key_cdr(KEY_ENCODING)
}

/// The key-only payload of a type without a key, as [`key_payload`] gives it for any value.
pub(crate) fn keyless_payload(extensibility: Extensibility) -> Box<[u8]> {
    let [high, low] = KEY_ENCODING.representation_id(extensibility).to_be_bytes();
    Box::new([high, low, 0, 0])
}

/// Kind of a payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PayloadKind {
    Sample,
    /// A coherent set of one writer.
    Set,
    /// A coherent set of several writers: the record belongs to no single writer.
    SetOfSeveral,
    /// A notice about the writer, by the effect: [`WriterNotice`].
    Notice,
}

/// Metadata around a payload, except the time and the writer.
#[derive(Clone)]
pub(crate) struct RecordMetadata {
    pub(crate) kind: PayloadKind,
    pub(crate) effect: RecordEffect,
    /// Mark of the type version.
    pub(crate) mark: u32,
    /// Metadata that follows from the writer's policies.
    pub(crate) policies: PolicyMetadata,
    /// The key hash, if the record ends with one. An integer, because that stays in registers.
    pub(crate) key: Option<u128>,
}

/// Origin of a record.
#[derive(Clone, Copy)]
pub(crate) struct RecordOrigin<'a> {
    /// Number of the writer within its participant.
    pub(crate) writer: u32,
    form: u32,
    /// Names of the partitions, if there are any.
    pub(crate) names: Option<&'a [u8]>,
    /// Tag of the topic; zero if the record has none.
    pub(crate) tag: u64,
}

impl RecordOrigin<'_> {
    /// Whether the record is a notice about its writer.
    #[inline(always)]
    pub(crate) fn is_notice(&self) -> bool {
        RecordHeader { timestamp: 0, writer: self.writer, form: self.form }.is_notice()
    }

    /// Policies that the writer offers.
    pub(crate) fn offer(&self) -> RecordedOffer {
        RecordedOffer::at(((self.form & OFFERS) >> OFFER) as usize)
    }
}

/// Whether a record is a notice about its writer.
#[inline(always)]
pub(crate) fn is_notice(record: &[u8]) -> bool {
    RecordHeader::read(record).is_some_and(RecordHeader::is_notice)
}

/// Whether a record is other than the data of one sample: a notice about its writer, a coherent
/// set, or the end of an instance.
#[inline]
pub(crate) fn is_other(record: &[u8]) -> bool {
    let is_other =
        |header: RecordHeader| header.is_apart() || header.effect() != RecordEffect::Alive;
    RecordHeader::read(record).is_some_and(is_other)
}

/// Returns the origin of a record.
#[inline(always)]
pub(crate) fn origin(record: &[u8]) -> RecordOrigin<'_> {
    let Some(RecordHeader { writer, form, .. }) = RecordHeader::read(record) else {
        return RecordOrigin { writer: 0, form: 0, names: None, tag: 0 };
    };
    let header = RecordHeader { timestamp: 0, writer, form };
    let names = if form & PARTITIONED == 0 { None } else { header.names(record) };
    let tag = header.tag_of(record);
    RecordOrigin { writer, form, names, tag }
}

impl RecordMetadata {
    /// Number of bytes behind a payload.
    #[inline(always)]
    pub(crate) fn size(&self) -> usize {
        let key = if self.key.is_some() { KEY } else { 0 };
        key + self.policies.size()
    }
}

/// Writes the header of a record of this type, and the fields at its end.
#[inline]
pub(crate) fn write_metadata<T: TopicData>(
    record: &mut [u8],
    writer: u32,
    timestamp: u64,
    metadata: &RecordMetadata,
) {
    let form = match metadata.kind {
        PayloadKind::Sample if is_plain::<T>() && metadata.effect == RecordEffect::Alive => PLAIN,
        PayloadKind::Sample => CDR,
        PayloadKind::Set | PayloadKind::SetOfSeveral => SET,
        PayloadKind::Notice => END,
    };
    write_fields(record, writer, timestamp, form, metadata);
}

/// Writes a header of this form, and the fields at the end of a record.
#[inline(always)]
fn write_fields(
    record: &mut [u8],
    writer: u32,
    timestamp: u64,
    form: u32,
    metadata: &RecordMetadata,
) {
    let RecordMetadata { kind: contents, effect: fate, mark, policies: terms, key } = metadata;
    let writer = if *contents == PayloadKind::SetOfSeveral { OF_SEVERAL } else { writer };
    let keyed = if key.is_some() { KEYED } else { 0 };
    let strong = if terms.strength != 0 { STRONG } else { 0 };
    let partitioned = if terms.partition.is_some() { PARTITIONED } else { 0 };
    let tagged = if terms.tag != 0 { TAGGED } else { 0 };
    let aging = if terms.lifespan.is_some() { EXPIRING } else { 0 };
    let beside = keyed | strong | partitioned | tagged | aging | terms.offer.flags();
    let form = form | fate.flags() | beside | mark << MARK;
    RecordHeader { timestamp, writer, form }.write(record);
    let mut end = record.len();
    if let Some((key, field)) = key.zip(record.last_chunk_mut()) {
        *field = key.to_le_bytes();
        end -= KEY;
    }
    if let Some(lifespan) = terms.lifespan
        && let Some(field) = record[..end].last_chunk_mut()
    {
        *field = timestamp.saturating_add(lifespan).to_le_bytes();
        end -= EXPIRY;
    }
    if tagged != 0
        && let Some(field) = record[..end].last_chunk_mut()
    {
        *field = terms.tag.to_le_bytes();
        end -= TAG;
    }
    if strong != 0
        && let Some(field) = record[..end].last_chunk_mut()
    {
        *field = terms.strength.to_le_bytes();
        end -= STRENGTH;
    }
    if let Some(names) = &terms.partition {
        let length = names.len() as u16;
        record[end - NAMES_LENGTH..end].copy_from_slice(&length.to_le_bytes());
        end -= NAMES_LENGTH;
        record[end - names.len()..end].copy_from_slice(names);
    }
}

/// Writes the header of a plain sample of a writer without any [`PolicyMetadata`].
#[inline(always)]
pub(crate) fn write_bare_metadata(record: &mut [u8], writer: u32, timestamp: u64, mark: u32) {
    RecordHeader { timestamp, writer, form: PLAIN | mark << MARK }.write(record);
}

/// The payload of a record with this header.
pub(crate) fn payload(header: RecordHeader, record: &[u8]) -> Option<&[u8]> {
    record.get(HEADER..record.len().checked_sub(header.tail(record)?)?)
}

/// The key of a kept record. All records of a topic without keys have the same key. A record by
/// which a writer unregisters an instance replaces only other such records and no sample, because
/// the instance may live on.
pub(crate) fn key_of(record: &[u8]) -> u128 {
    let Some(header) = RecordHeader::read(record) else { return 0 };
    // Equal keys in several topics that share an order are different instances.
    let topic = u128::from(header.tag_of(record)) << 64;
    if header.form & KEYED == 0 {
        return topic;
    }
    let key = record.last_chunk().filter(|_| record.len() >= HEADER + KEY);
    let key = u128::from_le_bytes(key.copied().unwrap_or_default()) ^ topic;
    let unregisters = header.effect() == RecordEffect::Unregistered && !header.is_notice();
    if unregisters { unregister_key(key) } else { key }
}

/// Maps the key of an instance to the key of the records that unregister it, and back.
pub(crate) fn unregister_key(key: u128) -> u128 {
    !key
}

/// Effect of a kept record on its [key](key_of). A record without a key hash stays alive for ever.
pub(crate) fn key_liveness(record: &[u8]) -> KeyLiveness {
    match RecordHeader::read(record)
        .filter(|header| header.form & KEYED != 0 && !header.is_notice())
        .map(RecordHeader::effect)
    {
        None | Some(RecordEffect::Alive) => KeyLiveness::Alive,
        Some(RecordEffect::Unregistered) => KeyLiveness::Companion,
        Some(RecordEffect::Disposed | RecordEffect::DisposedAndUnregistered) => {
            KeyLiveness::NotAlive
        }
    }
}

/// OWNERSHIP_STRENGTH of a record's writer.
pub(crate) fn strength_of(record: &[u8]) -> i32 {
    let Some(header) = RecordHeader::read(record).filter(|header| header.form & STRONG != 0) else {
        return 0;
    };
    let end = record.len().saturating_sub(header.behind_strength());
    let strength = record.get(HEADER..end).and_then(|payload| payload.last_chunk());
    strength.map_or(0, |strength| i32::from_le_bytes(*strength))
}

/// Time at which the content of a record expires (I-201): the expiry set by the writer, or
/// `lifespan` after the timestamp if that is earlier and `lifespan` is not zero; [`NEVER`] if the
/// content does not expire. The end of an instance never expires.
#[inline(always)]
pub(crate) fn expiry_of(record: &[u8], lifespan: u64) -> u64 {
    match RecordHeader::read(record) {
        Some(header) if lifespan > 0 || header.form & EXPIRING != 0 => {
            header.expiry(record).min(header.ends(lifespan))
        }
        _ => NEVER,
    }
}

/// Mark of the type version of a record.
#[inline(always)]
pub(crate) fn mark_of(record: &[u8]) -> u32 {
    RecordHeader::read(record).map_or(0, RecordHeader::mark)
}

/// Time at which the sample in a record was written.
pub(crate) fn time_of(record: &[u8]) -> u64 {
    RecordHeader::read(record).map_or(0, |header| header.timestamp)
}

/// Time at which a record of an unordered topic was committed.
pub(crate) fn commit_time_of(record: &[u8]) -> u64 {
    RecordHeader::read(record).map_or(0, |header| match header.tag_of(record) {
        0 => header.timestamp,
        time => time,
    })
}

/// Whether a record holds a plain sample of this type, which is read in place.
#[inline(always)]
pub(crate) fn lies_in_place<T: TopicData>(record: &[u8]) -> bool {
    let Some(header) = RecordHeader::read(record).filter(|_| is_plain::<T>()) else { return false };
    // Usual case: no field follows the payload.
    if header.form == form_in_place::<T>() {
        return record.get(HEADER..).is_some_and(|it| find::<T>(it).is_some());
    }
    let end = header.tail(record).and_then(|tail| record.len().checked_sub(tail));
    let payload = end.and_then(|end| record.get(HEADER..end));
    header.form & !METADATA == form_in_place::<T>()
        && payload.is_some_and(|it| find::<T>(it).is_some())
}

/// A plain sample in a payload.
#[inline(always)]
fn find<T: TopicData>(payload: &[u8]) -> Option<&T> {
    T::LAYOUT?.find(payload)
}

/// Payload of a sample after reading.
pub(crate) enum ReadPayload<T> {
    /// The sample lies in the record and is read in place.
    InPlace,
    /// The sample was decoded.
    Decoded(RecordHeader, T),
}

/// Context for reading records of a topic.
pub(crate) struct RecordContext<'a, T: TopicData> {
    pub(crate) support: &'a T::TypeSupport,
    /// Memory layouts of the values of writers in differently built programs.
    pub(crate) layouts: &'a MemoryLayouts,
}

/// Reads a record. `None` if the record holds no sample of this type, which is a fault of
/// its writer.
#[inline(always)]
pub(crate) fn read<T: TopicData>(
    record: &[u8],
    with: &RecordContext<'_, T>,
) -> Option<ReadPayload<T>> {
    let header = RecordHeader::read(record)?;
    let payload = payload(header, record)?;
    if is_plain::<T>() && header.form & !METADATA == form_in_place::<T>() {
        find::<T>(payload)?;
        return Some(ReadPayload::InPlace);
    }
    // Decoded from a copy: the bytes that are validated (for example as UTF-8) must be the bytes
    // that are kept. A faulty writer could change the record in between.
    let private = payload.to_vec();
    let value = match header.form & ((1 << MARK) - 1) & !METADATA {
        CDR => T::read_cdr(with.support, &private).ok()?,
        PLAIN => {
            let payload = with.layouts.to_cdr(header.mark(), &private)?;
            T::read_cdr(with.support, &payload).ok()?
        }
        form if form & !(DISPOSED | UNREGISTERED) == CDR => {
            T::read_key(with.support, &private).ok()?
        }
        _ => return None,
    };
    Some(ReadPayload::Decoded(header, value))
}

/// CDR representation of a record, or of the first record in a set; `None` if the record is
/// not CDR.
#[cold]
pub(crate) fn representation_of(record: &[u8]) -> Option<DataRepresentationId> {
    let record = match records(record) {
        Some(mut records) => records.next()?.ok()?,
        None => record,
    };
    let header = RecordHeader::read(record).filter(|header| header.form & KIND == CDR)?;
    let version = Encoding::of_payload(payload(header, record)?)?.version;
    Some(match version {
        CdrVersion::Xcdr1 => DataRepresentationId::Xcdr,
        CdrVersion::Xcdr2 => DataRepresentationId::Xcdr2,
    })
}

/// The payload of a record that holds a sample in CDR.
pub(crate) fn in_cdr(record: &[u8]) -> Option<(RecordHeader, &[u8])> {
    let header = RecordHeader::read(record)?;
    let is_cdr = header.form & ((1 << MARK) - 1) & !METADATA == CDR;
    is_cdr.then_some((header, payload(header, record)?))
}

/// Reads a sample out of its record, so that the record is no longer needed.
pub(crate) fn read_out<T: TopicData>(
    record: &[u8],
    with: &RecordContext<'_, T>,
) -> Option<(RecordHeader, T)> {
    match read::<T>(record, with)? {
        ReadPayload::Decoded(header, value) => Some((header, value)),
        ReadPayload::InPlace => plain_out(record),
    }
}

/// Copies a plain sample out of a record in which it [lies in place](lies_in_place).
pub(crate) fn plain_out<T: TopicData>(record: &[u8]) -> Option<(RecordHeader, T)> {
    let bytes = record.get(HEADER..HEADER + size_of::<T>())?;
    Some((RecordHeader::read(record)?, T::LAYOUT?.read(bytes)?))
}

/// The plain sample in a record that has been [read](read) before.
#[inline]
pub(crate) fn plain<T: TopicData>(record: &[u8]) -> Option<&T> {
    find(record.get(HEADER..HEADER + size_of::<T>())?)
}
