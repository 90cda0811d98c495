//! A sample as it lies in a sender's memory.
//!
//! ```text
//!   byte  0   source timestamp: u64    nanoseconds since 1970
//!         8   writer: u32              which writer of the participant
//!        12   form: u32                plain or CDR; what becomes of the instance; what follows; a mark: which version
//!                                     of a type that may change, or how a value of another one lies in memory
//!        16   payload                  aligned to 16 bytes; of an instance that is over its key alone
//!       ...   partitions, length: u16  the names, NUL between them; only of a writer that has any, on an ordered topic
//!       ...   strength: i32            only of a writer that has one
//!       ...   tag: u64                 only where several topics share an order: which one it is
//!       ...   expiry: u64              only of a writer whose samples are out of date at some time: then, on the clock of the timestamp
//!       ...   key hash: 16 bytes       only where samples are kept for those who come later
//! ```
//! Its length and its number in the sender's order are the protocol's.
//!
//! Owns: the header, and the choice of form. Never does: trust what it reads.

mod terms;

use std::mem::MaybeUninit;

use derecho_core::storage::store::Says;
use idl_cdr::{CdrVersion, Encoding, Endianness};
use idl_xtypes::TopicData;
use qos_profiles::DataRepresentationId;

pub(crate) use self::terms::{Offer, Terms, partition};
use super::layouts::Layouts;
use super::set::{OF_SEVERAL, records};

/// Bytes before the payload.
pub(crate) const HEADER: usize = 16;

const PLAIN: u32 = 1;
const CDR: u32 = 2;
/// Its writer is no more.
const END: u32 = 0;
/// Where the form says what the payload is.
const CONTENTS: u32 = 3;
/// A coherent set: its payload are records ([`super::set`]).
const SET: u32 = 3;
/// Added to the form of a record that has its topic's tag.
const TAGGED: u32 = 8;
/// Added to the form of a record that says when its sample is out of date.
const AGING: u32 = 4;
/// Where the form says which policies its writer offers that are not as usual: see [`Offer`].
const OFFER: u32 = 4;
const OFFERS: u32 = ((1 << Offer::COUNT.ilog2()) - 1) << OFFER;
/// Added to the form of a record at whose end its key is.
const KEYED: u32 = 0x100;
/// Added to the form of a record that disposes its instance.
const DISPOSED: u32 = 0x200;
/// Added to the form of a record by which a writer unregisters an instance.
const UNREGISTERED: u32 = 0x400;
/// Added to the form of a record that has its writer's strength.
const STRONG: u32 = 0x800;
/// Added to the form of a record that names its partitions.
const PARTED: u32 = 0x1000;
/// Where the mark is: of the type if that may change, else of how its values lie in memory.
const MARK: u32 = 13;
/// All that says nothing of the payload.
const BESIDE: u32 = AGING | TAGGED | KEYED | STRONG | PARTED | OFFERS;
/// Bytes that say how long the names of partitions are.
const NAMES_LENGTH: usize = 2;
/// Bytes that the names of a writer's partitions may have.
pub(crate) const LONGEST_NAMES: usize = 1 << 12;
/// Bytes of the key.
pub(crate) const KEY: usize = 16;
/// Bytes of the tag.
pub(crate) const TAG: usize = 8;
/// Bytes of the strength.
pub(crate) const STRENGTH: usize = 4;
/// Bytes of the expiry.
pub(crate) const EXPIRY: usize = 8;
/// The expiry of what is never out of date.
pub(crate) const NEVER: u64 = u64::MAX;

/// In which form keys are kept alone.
const KEY_ENCODING: Encoding = match Endianness::NATIVE {
    Endianness::Big => Encoding::PLAIN_CDR2_BE,
    Endianness::Little => Encoding::PLAIN_CDR2_LE,
};

/// What becomes of the instance of a record's sample.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    Alive,
    Disposed,
    Unregistered,
    DisposedAndUnregistered,
}

impl Fate {
    fn flags(self) -> u32 {
        match self {
            Fate::Alive => 0,
            Fate::Disposed => DISPOSED,
            Fate::Unregistered => UNREGISTERED,
            Fate::DisposedAndUnregistered => DISPOSED | UNREGISTERED,
        }
    }
}

/// What a record says of its sample.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Header {
    pub(crate) timestamp: u64,
    pub(crate) writer: u32,
    form: u32,
}

impl Header {
    /// That of a sample which nobody sent: a writer is gone, and lets an instance go.
    pub(crate) fn of_loss(timestamp: u64, writer: u32) -> Header {
        Header { timestamp, writer, form: CDR | UNREGISTERED }
    }

    /// That of a sample that nobody sent: a part of what discovery knows.
    pub(crate) fn of_told(timestamp: u64, fate: Fate) -> Header {
        Header { timestamp, writer: 0, form: CDR | fate.flags() }
    }

    /// What becomes of the instance.
    #[inline]
    pub(crate) fn fate(self) -> Fate {
        match self.form & (DISPOSED | UNREGISTERED) {
            0 => Fate::Alive,
            DISPOSED => Fate::Disposed,
            UNREGISTERED => Fate::Unregistered,
            _ => Fate::DisposedAndUnregistered,
        }
    }

    /// Whether the record is a coherent set of others.
    #[inline(always)]
    pub(crate) fn is_set(self) -> bool {
        self.form & !(!0 << MARK) & !BESIDE == SET
    }

    /// Whether the record is no sample.
    #[inline(always)]
    pub(crate) fn is_apart(self) -> bool {
        matches!(self.form & CONTENTS, END | SET)
    }

    /// Whether it says that its writer is no more.
    #[inline(always)]
    fn is_end(self) -> bool {
        self.form & !(!0 << MARK) & !BESIDE == END
    }

    /// What marks the version of the type that it is of; zero if there is but one.
    #[inline]
    pub(crate) fn mark(self) -> u32 {
        self.form >> MARK
    }

    /// Bytes at the end of a record that are not payload; none if it is too short.
    #[inline]
    fn tail(self, record: &[u8]) -> Option<usize> {
        let fixed = self.fixed_tail();
        if self.form & PARTED == 0 {
            return Some(fixed);
        }
        let length = record.get(..record.len().checked_sub(fixed)?)?.last_chunk()?;
        Some(fixed + NAMES_LENGTH + usize::from(u16::from_le_bytes(*length)))
    }

    /// Those of them whose number does not depend on what they say.
    #[inline]
    fn fixed_tail(self) -> usize {
        self.behind_strength() + if self.form & STRONG != 0 { STRENGTH } else { 0 }
    }

    /// Those behind the strength.
    #[inline]
    fn behind_strength(self) -> usize {
        self.behind_tag() + if self.form & TAGGED != 0 { TAG } else { 0 }
    }

    /// Those behind the tag.
    #[inline]
    fn behind_tag(self) -> usize {
        self.key_size() + if self.form & AGING != 0 { EXPIRY } else { 0 }
    }

    #[inline]
    fn key_size(self) -> usize {
        if self.form & KEYED != 0 { KEY } else { 0 }
    }

    /// The tag of its topic; zero if it has none.
    #[inline(always)]
    fn tag_of(self, record: &[u8]) -> u64 {
        if self.form & TAGGED == 0 { 0 } else { self.some_tag(record) }
    }

    #[cold]
    fn some_tag(self, record: &[u8]) -> u64 {
        self.word_before(record, self.behind_tag()).unwrap_or(0)
    }

    /// The eight bytes of a record before so many at its end.
    fn word_before(self, record: &[u8], behind: usize) -> Option<u64> {
        let before = record.get(HEADER..record.len().checked_sub(behind)?)?;
        Some(u64::from_le_bytes(*before.last_chunk()?))
    }

    /// When its sample is out of date by what its writer has said.
    #[cold]
    fn expiry(self, record: &[u8]) -> u64 {
        let says = self.form & AGING != 0 && self.fate() == Fate::Alive;
        let expiry = self.word_before(record, self.key_size());
        expiry.filter(|_| says).unwrap_or(NEVER)
    }

    /// When its sample is out of date by its age. Of a coherent set the record says so itself: there is more in it than
    /// what its time is of.
    pub(crate) fn ends(self, lifespan: u64) -> u64 {
        let is_sample = self.fate() == Fate::Alive && !self.is_set() && !self.is_end();
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
    pub(crate) fn read(record: &[u8]) -> Option<Header> {
        let header = u128::from_le_bytes(*record.first_chunk::<HEADER>()?);
        let (timestamp, last) = (header as u64, (header >> 64) as u64);
        Some(Header { timestamp, writer: last as u32, form: (last >> 32) as u32 })
    }

    #[inline]
    fn write(self, record: &mut [u8]) {
        let last = u64::from(self.writer) | u64::from(self.form) << 32;
        let (first, second) = record[..HEADER].split_at_mut(8);
        first.copy_from_slice(&self.timestamp.to_le_bytes());
        second.copy_from_slice(&last.to_le_bytes());
    }
}

/// Whether samples of this type travel as they lie in memory. Constant for each type.
pub(crate) const fn is_plain<T: TopicData>() -> bool {
    match T::LAYOUT {
        Some(layout) => layout.align() <= HEADER,
        None => false,
    }
}

/// What marks records whose samples lie so in memory; none for no layout.
pub(crate) const fn layout_mark(layout: u64) -> u32 {
    let mark = layout as u32 & (u32::MAX >> MARK);
    if layout != 0 && mark == 0 { 1 } else { mark }
}

/// The form of records of this type that are read where they lie.
const fn form_in_place<T: TopicData>() -> u32 {
    match T::LAYOUT {
        Some(layout) => PLAIN | layout_mark(layout.hash()) << MARK,
        None => 0,
    }
}

/// Bytes of the record of this sample; in which encoding is asked of one that is not plain alone.
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

/// Writes a sample's payload behind the place of the header. Returns the record's size.
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
        let place = &mut record[HEADER..][..bytes.len()];
        copy_padded(bytes, place);
        // Padding has what was on this program's stack, which is nobody else's business.
        layout.clear_padding(place);
        return Ok(HEADER + bytes.len());
    }
    Ok(HEADER + sample.write_cdr(&mut record[HEADER..], encoding())?)
}

/// Copies the bytes of a value, padding and all.
#[inline]
fn copy_padded(from: &[MaybeUninit<u8>], to: &mut [u8]) {
    let to = &mut to[..from.len()];
    // SAFETY: both slices have the same length and do not overlap, for one of them is borrowed
    // mutably. Padding among the source bytes is copied as it is: the destination lies in a
    // mapping shared with other processes, of which the compiler can assume no content, and every
    // reader of it takes any bit pattern.
    unsafe {
        std::ptr::copy_nonoverlapping(from.as_ptr().cast::<u8>(), to.as_mut_ptr(), from.len());
    }
}

/// The key of a value alone, as it is kept.
pub(crate) fn key_payload<T: TopicData>(value: &T) -> Result<Vec<u8>, T::Error> {
    value.key_cdr(KEY_ENCODING)
}

/// What a payload is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Contents {
    Sample,
    /// A coherent set of one writer.
    Set,
    /// A coherent set of several: the record is no single writer's.
    SetOfSeveral,
    /// None: its writer is no more.
    End,
}

/// What stands around a payload, beside the time and the writer.
#[derive(Clone)]
pub(crate) struct Seal {
    pub(crate) contents: Contents,
    pub(crate) fate: Fate,
    /// What marks the version of the type.
    pub(crate) mark: u32,
    /// What the writer's policies ask for.
    pub(crate) terms: Terms,
    /// The hash of the key, if it is to be at the end; a number, for that stays in registers.
    pub(crate) key: Option<u128>,
}

/// Where a record comes from.
#[derive(Clone, Copy)]
pub(crate) struct Origin<'a> {
    /// Which writer of its participant wrote it.
    pub(crate) writer: u32,
    form: u32,
    /// The names of its partitions, if it has any.
    pub(crate) names: Option<&'a [u8]>,
    /// The tag of its topic; zero if it has none.
    pub(crate) tag: u64,
}

impl Origin<'_> {
    /// Whether the record says that its writer is no more (I-214).
    #[inline(always)]
    pub(crate) fn is_end(&self) -> bool {
        Header { timestamp: 0, writer: self.writer, form: self.form }.is_end()
    }

    /// What its writer offers.
    pub(crate) fn offer(&self) -> Offer {
        Offer::at(((self.form & OFFERS) >> OFFER) as usize)
    }
}

/// Whether a record says that its writer is no more (I-214).
#[inline(always)]
pub(crate) fn is_end(record: &[u8]) -> bool {
    Header::read(record).is_some_and(Header::is_end)
}

/// Where a record comes from.
#[inline(always)]
pub(crate) fn origin(record: &[u8]) -> Origin<'_> {
    let Some(Header { writer, form, .. }) = Header::read(record) else {
        return Origin { writer: 0, form: 0, names: None, tag: 0 };
    };
    let header = Header { timestamp: 0, writer, form };
    let names = if form & PARTED == 0 { None } else { header.names(record) };
    let tag = header.tag_of(record);
    Origin { writer, form, names, tag }
}

impl Seal {
    /// Bytes that it takes behind a payload.
    #[inline(always)]
    pub(crate) fn size(&self) -> usize {
        let key = if self.key.is_some() { KEY } else { 0 };
        key + self.terms.size()
    }
}

/// Writes the header of a record of this type, and what stands at its end.
#[inline]
pub(crate) fn seal<T: TopicData>(record: &mut [u8], writer: u32, timestamp: u64, seal: &Seal) {
    let Seal { contents, fate, mark, terms, key } = seal;
    let form = match contents {
        Contents::Sample if is_plain::<T>() && *fate == Fate::Alive => PLAIN,
        Contents::Sample => CDR,
        Contents::Set | Contents::SetOfSeveral => SET,
        Contents::End => END,
    };
    let writer = if *contents == Contents::SetOfSeveral { OF_SEVERAL } else { writer };
    let keyed = if key.is_some() { KEYED } else { 0 };
    let strong = if terms.strength != 0 { STRONG } else { 0 };
    let parted = if terms.partition.is_some() { PARTED } else { 0 };
    let tagged = if terms.tag != 0 { TAGGED } else { 0 };
    let aging = if terms.lifespan.is_some() { AGING } else { 0 };
    let beside = keyed | strong | parted | tagged | aging | terms.offer.flags();
    let form = form | fate.flags() | beside | mark << MARK;
    Header { timestamp, writer, form }.write(record);
    let mut end = record.len();
    if let Some((key, place)) = key.zip(record.last_chunk_mut()) {
        *place = key.to_le_bytes();
        end -= KEY;
    }
    if let Some(lifespan) = terms.lifespan
        && let Some(place) = record[..end].last_chunk_mut()
    {
        *place = timestamp.saturating_add(lifespan).to_le_bytes();
        end -= EXPIRY;
    }
    if tagged != 0
        && let Some(place) = record[..end].last_chunk_mut()
    {
        *place = terms.tag.to_le_bytes();
        end -= TAG;
    }
    if strong != 0
        && let Some(place) = record[..end].last_chunk_mut()
    {
        *place = terms.strength.to_le_bytes();
        end -= STRENGTH;
    }
    if let Some(names) = &terms.partition {
        let length = names.len() as u16;
        record[end - NAMES_LENGTH..end].copy_from_slice(&length.to_le_bytes());
        end -= NAMES_LENGTH;
        record[end - names.len()..end].copy_from_slice(names);
    }
}

/// The same for a sample of a plain type, of a writer of which nothing goes with its samples.
#[inline(always)]
pub(crate) fn seal_bare(record: &mut [u8], writer: u32, timestamp: u64, mark: u32) {
    Header { timestamp, writer, form: PLAIN | mark << MARK }.write(record);
}

/// The payload of a record whose header is this.
pub(crate) fn payload(header: Header, record: &[u8]) -> Option<&[u8]> {
    record.get(HEADER..record.len().checked_sub(header.tail(record)?)?)
}

/// The key of a record that is kept; of one without, the same for all of its topic. That a writer unregistered an instance takes
/// the place of another such record, and of no sample: the instance may live on.
pub(crate) fn key_of(record: &[u8]) -> u128 {
    let Some(header) = Header::read(record) else { return 0 };
    // Instances of several topics in one order are several.
    let topic = u128::from(header.tag_of(record)) << 64;
    if header.form & KEYED == 0 {
        return topic;
    }
    let key = record.last_chunk().filter(|_| record.len() >= HEADER + KEY);
    let key = u128::from_le_bytes(key.copied().unwrap_or_default()) ^ topic;
    if header.fate() == Fate::Unregistered { beside(key) } else { key }
}

/// Of an instance's key that of the records by which writers unregister it, and the other way round.
pub(crate) fn beside(key: u128) -> u128 {
    !key
}

/// What a record that is kept says of its [key](key_of). One without lives for ever.
pub(crate) fn says(record: &[u8]) -> Says {
    match Header::read(record).filter(|header| header.form & KEYED != 0).map(Header::fate) {
        None | Some(Fate::Alive) => Says::Lives,
        Some(Fate::Unregistered) => Says::Beside,
        Some(Fate::Disposed | Fate::DisposedAndUnregistered) => Says::Over,
    }
}

/// OWNERSHIP_STRENGTH of a record's writer.
pub(crate) fn strength_of(record: &[u8]) -> i32 {
    let Some(header) = Header::read(record).filter(|header| header.form & STRONG != 0) else {
        return 0;
    };
    let end = record.len().saturating_sub(header.behind_strength());
    let strength = record.get(HEADER..end).and_then(|payload| payload.last_chunk());
    strength.map_or(0, |strength| i32::from_le_bytes(*strength))
}

/// When what is in a record is out of date: by what its writer has said, and so long after its timestamp if that is not
/// zero; [`NEVER`] if never. That an instance is over is news at any time.
#[inline(always)]
pub(crate) fn expiry_of(record: &[u8], lifespan: u64) -> u64 {
    match Header::read(record) {
        Some(header) if lifespan > 0 || header.form & AGING != 0 => {
            header.expiry(record).min(header.ends(lifespan))
        }
        _ => NEVER,
    }
}

/// What marks the version of a record's type.
#[inline(always)]
pub(crate) fn mark_of(record: &[u8]) -> u32 {
    Header::read(record).map_or(0, Header::mark)
}

/// When the sample in a record was written.
pub(crate) fn time_of(record: &[u8]) -> u64 {
    Header::read(record).map_or(0, |header| header.timestamp)
}

/// Whether a record holds a plain sample of this type, to be read where it lies.
#[inline(always)]
pub(crate) fn lies_in_place<T: TopicData>(record: &[u8]) -> bool {
    let Some(header) = Header::read(record).filter(|_| is_plain::<T>()) else { return false };
    // As a rule nothing goes with it.
    if header.form == form_in_place::<T>() {
        return record.get(HEADER..).is_some_and(|it| find::<T>(it).is_some());
    }
    let end = header.tail(record).and_then(|tail| record.len().checked_sub(tail));
    let payload = end.and_then(|end| record.get(HEADER..end));
    header.form & !BESIDE == form_in_place::<T>()
        && payload.is_some_and(|it| find::<T>(it).is_some())
}

/// A plain sample in a payload.
#[inline(always)]
fn find<T: TopicData>(payload: &[u8]) -> Option<&T> {
    T::LAYOUT?.find(payload)
}

/// A sample's payload, as it was found.
pub(crate) enum Payload<T> {
    /// It lies in the record as it is.
    InPlace,
    /// It was decoded.
    Decoded(Header, T),
}

/// What has to be known to read records of a topic.
pub(crate) struct Reading<'a, T: TopicData> {
    pub(crate) support: &'a T::TypeSupport,
    /// How values of writers that were built otherwise lie in memory.
    pub(crate) layouts: &'a Layouts,
}

/// Reads a record. `None` if it holds no sample of this type: a mistake of its writer.
#[inline(always)]
pub(crate) fn read<T: TopicData>(record: &[u8], with: &Reading<'_, T>) -> Option<Payload<T>> {
    let header = Header::read(record)?;
    let payload = payload(header, record)?;
    if is_plain::<T>() && header.form & !BESIDE == form_in_place::<T>() {
        find::<T>(payload)?;
        return Some(Payload::InPlace);
    }
    // From a copy: what is checked (that a text is UTF-8, say) must be what is kept, and
    // a writer gone mad could change the record in between.
    let private = payload.to_vec();
    let value = match header.form & ((1 << MARK) - 1) & !BESIDE {
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
    Some(Payload::Decoded(header, value))
}

/// In which representation its writer wrote what is in a record, or in the first one of a set; none if it says nothing of it: it is
/// no CDR.
#[cold]
pub(crate) fn representation_of(record: &[u8]) -> Option<DataRepresentationId> {
    let record = match records(record) {
        Some(mut records) => records.next()?.ok()?,
        None => record,
    };
    let header = Header::read(record).filter(|header| header.form & CONTENTS == CDR)?;
    let version = Encoding::of_payload(payload(header, record)?)?.version;
    Some(match version {
        CdrVersion::Xcdr1 => DataRepresentationId::Xcdr,
        CdrVersion::Xcdr2 => DataRepresentationId::Xcdr2,
    })
}

/// The payload of a record that holds a sample in CDR.
pub(crate) fn in_cdr(record: &[u8]) -> Option<(Header, &[u8])> {
    let header = Header::read(record)?;
    let is_cdr = header.form & ((1 << MARK) - 1) & !BESIDE == CDR;
    is_cdr.then_some((header, payload(header, record)?))
}

/// Reads a record out, so that it is needed no more.
pub(crate) fn read_out<T: TopicData>(record: &[u8], with: &Reading<'_, T>) -> Option<(Header, T)> {
    match read::<T>(record, with)? {
        Payload::Decoded(header, value) => Some((header, value)),
        Payload::InPlace => plain_out(record),
    }
}

/// Copies a sample out of its record that [lies there](lies_in_place).
pub(crate) fn plain_out<T: TopicData>(record: &[u8]) -> Option<(Header, T)> {
    let bytes = record.get(HEADER..HEADER + size_of::<T>())?;
    Some((Header::read(record)?, T::LAYOUT?.read(bytes)?))
}

/// The plain sample in a record that has been [read](read) before.
#[inline]
pub(crate) fn plain<T: TopicData>(record: &[u8]) -> Option<&T> {
    find(record.get(HEADER..HEADER + size_of::<T>())?)
}
