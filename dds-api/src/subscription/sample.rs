//! A sample that a reader gave out: a reference into its writer's memory.
//!
//! Owns: the record until it is dropped. Never does: copy a plain sample.

mod valid;

use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use derecho_core::ids::NodeId;
use derecho_core::multicast::inbox::Record;
use derecho_core::storage::cursor::StoredRecord;
use idl_xtypes::TopicData;

use super::cache::{CachedSampleInfo, Key, ShareSample};
use super::lending::LendingCheck;
use super::queues::TakenRecord;
use super::states::{InstanceState, SampleState, ViewState};
use crate::infrastructure::InstanceHandle;
use crate::mapping::record::{self, NEVER, ReadPayload, RecordContext, RecordEffect, RecordHeader};
use crate::topic::Bytes;
pub use valid::ValidSample;

/// Information about a sample besides its data.
///
/// States, counts and ranks are as of the call that gave the sample.
///
/// ```
/// # use dds_api::prelude::*;
/// # #[derive(DdsType, Clone, Debug, Default)]
/// # struct Track { #[dds(key)] id: u32, height: f64 }
/// # fn example(reader: &DataReader<Track>) -> DdsResult<()> {
/// for track in reader.take(.., Timeout::secs(1))? {
///     let info = track.info();
///     match track.data() {
///         Some(data) => println!("{} m at {:?}", data.height, info.source_timestamp),
///         None => println!("track {} is over: {:?}", track.key_value().id, info.instance_state),
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct SampleInfo {
    /// Whether the sample was read before.
    pub sample_state: SampleState,
    /// Whether a sample of the instance was read before, since the instance was last born.
    pub view_state: ViewState,
    /// Whether the instance is alive.
    pub instance_state: InstanceState,
    /// Number of rebirths of the instance after a disposal, when the sample came.
    pub disposed_generation_count: u32,
    /// Number of rebirths of the instance after it had lost its writers, when the sample came.
    pub no_writers_generation_count: u32,
    /// Number of samples of the same instance that follow in the result of the call. If samples are
    /// given one by one while they are taken ([`Samples`](super::Samples)), this is the number that
    /// may follow; fewer do if another thread takes some, some expire, or the instance ends.
    pub sample_rank: u32,
    /// Number of generations between the sample and the last sample of its instance in the result
    /// of the call.
    pub generation_rank: u32,
    /// Number of generations between the sample and the last sample of its instance that came.
    pub absolute_generation_rank: u32,
    /// Time at which the writer wrote the sample.
    pub source_timestamp: SystemTime,
    /// The instance of the sample.
    pub instance_handle: InstanceHandle,
    /// The writer of the sample.
    pub publication_handle: InstanceHandle,
    /// Whether the sample has [data](Sample::data). If not, it is a notice that its instance is
    /// over, and has only a [key](Sample::key_value).
    pub valid_data: bool,
    /// Position in the writer's order. All samples of a coherent set share it. It is 0 for a sample
    /// that nobody wrote, which reports that a writer is gone.
    pub sequence_number: u64,
}

/// A sample of a topic, with [data](Sample::data), or without: then the sample is a notice that an
/// instance is over, and has only a [key](Sample::key_value).
///
/// Calls such as [`take_data`](super::DataReader::take_data) give the samples with data alone, as
/// [`ValidSample`], which dereferences to the data.
///
/// A plain sample is read where its writer built it. While the sample is held, the writer
/// cannot reuse that part of its memory, but can use the rest. Reading in place relies on the
/// writer's process to leave a held sample alone. If the writer is not trusted, make the reader
/// with [`copied`](crate::subscription::DataReaderBuilder::copied).
///
/// A held sample does not change until it is dropped, even if its reader, its topic, its
/// participant or the process of its writer is gone. A participant that leaves its domain copies
/// the parts of writers' memory that held samples pin, and maps the copies in place of the
/// originals. This takes as much memory as the samples had pinned. If the system refuses that
/// memory, for instance because all memory of the process is locked up to its limit, the process
/// ends as after any failed allocation.
///
/// There is one exception. A process that is stopped for longer than the
/// [`member_timeout`](crate::domain::ParticipantConfig::member_timeout) while others wait for it
/// is isolated, because a stopped process must not hold up writers. From then on until the
/// process runs again and its participant has noticed, writers may overwrite the memory of held
/// samples. Afterwards the samples keep the contents that they then have. If the process may be
/// stopped, call [`is_isolated`](crate::domain::DomainParticipant::is_isolated) after reading
/// what matters. Where samples are [kept](crate::topic::TopicBuilder::transient_local) and the
/// participant may [rejoin](crate::domain::ParticipantConfig::rejoin), this is not necessary:
/// there samples are copies.
///
/// ```
/// # use dds_api::prelude::*;
/// # #[derive(DdsType, Clone, Debug, Default)]
/// # struct Track { #[dds(key)] id: u32, height: f64 }
/// # fn example(reader: &DataReader<Track>) -> DdsResult<()> {
/// for track in reader.take(.., Timeout::secs(1))? {
///     match track.data() {
///         Some(data) => println!("{} m", data.height),     // read where its writer wrote it
///         None => println!("{} is over", track.key_value().id),
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[doc(alias = "return_loan")]
pub struct Sample<T> {
    body: SampleBody<T>,
    facts: CallInfo,
}

/// A sample without the information that a reading call adds. Readers hold samples in this form.
pub(super) struct SampleBody<T> {
    data: SampleData<T>,
    writer: PackedNodeId,
}

/// A [`NodeId`] in two halves. The alignment of a whole `NodeId` exceeds that of all other fields,
/// and would make each sample larger by a sixth.
#[derive(Clone, Copy)]
struct PackedNodeId([u64; 2]);

impl PackedNodeId {
    #[inline(always)]
    fn new(NodeId(node): NodeId) -> PackedNodeId {
        PackedNodeId([(node >> 64) as u64, node as u64])
    }

    #[inline(always)]
    fn node(self) -> NodeId {
        let PackedNodeId([high, low]) = self;
        NodeId(u128::from(high) << 64 | u128::from(low))
    }
}

/// Information about a sample as of one reading call.
#[derive(Clone, Copy)]
struct CallInfo {
    sample_state: SampleState,
    view_state: ViewState,
    instance_state: InstanceState,
    generations: [u32; 2],
    ranks: [u32; 3],
}

impl CallInfo {
    /// Information about an unread sample of the first generation of its instance.
    #[inline(always)]
    fn unread(view_state: ViewState, instance_state: InstanceState, rank: usize) -> CallInfo {
        let (sample_state, generations) = (SampleState::NotRead, [0; 2]);
        CallInfo {
            sample_state,
            view_state,
            instance_state,
            generations,
            ranks: [rank as u32, 0, 0],
        }
    }
}

enum SampleData<T> {
    InPlace(Record),
    Kept(StoredRecord),
    Decoded(Arc<DecodedSample<T>>),
}

struct DecodedSample<T> {
    header: RecordHeader,
    fields: RecordFields,
    number: u64,
    value: T,
}

/// Fields of a record that are needed later beside its sample.
#[derive(Clone, Copy)]
struct RecordFields {
    strength: i32,
    /// Time at which the sample expires, by its writer's LIFESPAN.
    expiry: u64,
    /// Time at which a record of an unordered topic was committed; zero if unknown.
    committed: u64,
}

impl RecordFields {
    /// Fields of a sample that no writer sent.
    const NONE: RecordFields = RecordFields { strength: 0, expiry: NEVER, committed: 0 };

    fn of(record: &[u8]) -> RecordFields {
        let committed = record::commit_time_of(record);
        RecordFields { committed, ..RecordFields::of_copy(record) }
    }

    /// Fields of a record that may be part of a coherent set, whose samples bear no commit times.
    fn of_copy(record: &[u8]) -> RecordFields {
        let (strength, expiry) = (record::strength_of(record), record::expiry_of(record, 0));
        RecordFields { strength, expiry, committed: 0 }
    }
}

impl<T> Clone for SampleData<T> {
    fn clone(&self) -> Self {
        match self {
            SampleData::InPlace(record) => SampleData::InPlace(record.clone()),
            SampleData::Kept(kept) => SampleData::Kept(kept.clone()),
            SampleData::Decoded(decoded) => SampleData::Decoded(Arc::clone(decoded)),
        }
    }
}

/// Not `Clone`: `clone` on a `SampleBody` must reach the data through `Deref` and give a value.
impl<T> ShareSample for SampleBody<T> {
    fn share(&self) -> Self {
        SampleBody { data: self.data.clone(), writer: self.writer }
    }
}

/// Decodes a record into a box. A sample is thereby small whatever its type, and moving a sample
/// that is read in place does not move room for a decoded value. The function is not inlined and
/// returns a pointer, because a caller waits for a result that is returned in memory.
#[inline(never)]
fn decode<T: TopicData>(
    record: &Record,
    with: &RecordContext<'_, T>,
) -> Option<Arc<DecodedSample<T>>> {
    let lent = || {
        let (header, payload) = record::in_cdr(record.bytes())?;
        Some((header, Bytes::in_record(record, payload)?))
    };
    let lent = if Bytes::is::<T>() { lent() } else { None };
    let (header, value) = match lent {
        Some(lent) => lent,
        None => match record::read::<T>(record.bytes(), with)? {
            ReadPayload::Decoded(header, value) => (header, value),
            ReadPayload::InPlace => return None,
        },
    };
    let fields = RecordFields::of(record.bytes());
    Some(Arc::new(DecodedSample { header, fields, number: record.number(), value }))
}

impl<T: TopicData> SampleBody<T> {
    /// The sample in a record that was taken, or `None` if the record holds none of this type.
    #[inline(always)]
    pub(super) fn of(taken: TakenRecord, with: &RecordContext<'_, T>) -> Option<SampleBody<T>> {
        let (node, number) = (taken.stream().node, taken.number());
        match taken {
            TakenRecord::Queued(queued) => SampleBody::of_queued(queued.record, node, with),
            TakenRecord::Kept(kept, _) => SampleBody::of_kept(kept, node, with),
            copied @ TakenRecord::Copied(_) => {
                SampleBody::of_bytes(copied.bytes(), number, node, with)
            }
        }
    }

    #[inline(always)]
    fn of_queued(
        record: Record,
        writer: NodeId,
        with: &RecordContext<'_, T>,
    ) -> Option<SampleBody<T>> {
        let data = match record::lies_in_place::<T>(record.bytes()) {
            true => SampleData::InPlace(record),
            false => SampleData::Decoded(decode(&record, with)?),
        };
        Some(SampleBody { data, writer: PackedNodeId::new(writer) })
    }

    /// The sample in a record that can be [read in place](record::lies_in_place).
    #[inline(always)]
    pub(super) fn in_place(record: Record, writer: NodeId) -> SampleBody<T> {
        SampleBody { data: SampleData::InPlace(record), writer: PackedNodeId::new(writer) }
    }

    fn decoded(
        header: RecordHeader,
        value: T,
        fields: RecordFields,
        number: u64,
        writer: NodeId,
    ) -> SampleBody<T> {
        let decoded = DecodedSample { header, fields, number, value };
        let data = SampleData::Decoded(Arc::new(decoded));
        SampleBody { data, writer: PackedNodeId::new(writer) }
    }

    /// The sample in a kept record.
    pub(super) fn of_kept(
        kept: StoredRecord,
        writer: NodeId,
        with: &RecordContext<'_, T>,
    ) -> Option<SampleBody<T>> {
        let lent = || {
            let (header, payload) = record::in_cdr(kept.bytes())?;
            Some((header, Bytes::in_kept(&kept, payload)?))
        };
        if Bytes::is::<T>()
            && let Some((header, value)) = lent()
        {
            return Some(SampleBody::decoded(
                header,
                value,
                RecordFields::of_copy(kept.bytes()),
                kept.number(),
                writer,
            ));
        }
        Some(match record::read::<T>(kept.bytes(), with)? {
            ReadPayload::InPlace => {
                SampleBody { data: SampleData::Kept(kept), writer: PackedNodeId::new(writer) }
            }
            ReadPayload::Decoded(header, value) => {
                let fields = RecordFields::of_copy(kept.bytes());
                SampleBody::decoded(header, value, fields, kept.number(), writer)
            }
        })
    }

    /// The sample in a record at any address, such as those in a coherent set.
    pub(super) fn of_bytes(
        record: &[u8],
        number: u64,
        writer: NodeId,
        with: &RecordContext<'_, T>,
    ) -> Option<SampleBody<T>> {
        let (header, value) = record::read_out::<T>(record, with)?;
        Some(SampleBody::decoded(header, value, RecordFields::of_copy(record), number, writer))
    }

    /// Notice that an instance with this key is over because its writer is gone.
    pub(super) fn of_loss(key: T, now: u64, writer: InstanceHandle) -> SampleBody<T> {
        let header = RecordHeader::of_loss(now, writer.entity as u32);
        SampleBody::decoded(header, key, RecordFields::NONE, 0, writer.node)
    }

    /// A sample that did not come from a queue: information about an entity of participant `of`, or
    /// a sample of a multi-topic.
    pub(super) fn of_update(data: T, state: InstanceState, now: u64, of: NodeId) -> SampleBody<T> {
        let effect = match state {
            InstanceState::Alive => RecordEffect::Alive,
            InstanceState::NotAliveDisposed => RecordEffect::Disposed,
            InstanceState::NotAliveNoWriters => RecordEffect::Unregistered,
        };
        let header = RecordHeader::of_discovery(now, effect);
        SampleBody::decoded(header, data, RecordFields::NONE, 0, of)
    }

    /// Whether the data lie in the writer's memory, which the sample then pins.
    pub(super) fn is_lent(&self) -> bool {
        self.record().is_some()
    }

    /// The record that the sample pins.
    pub(super) fn record(&self) -> Option<&Record> {
        match &self.data {
            SampleData::InPlace(record) => Some(record),
            SampleData::Kept(_) => None,
            SampleData::Decoded(decoded) => Bytes::of(&decoded.value)?.record(),
        }
    }

    /// The sample with its data copied out of the writer's memory.
    pub(super) fn into_own(self) -> Option<SampleBody<T>> {
        match &self.data {
            SampleData::InPlace(record) => {
                let bytes = record.bytes();
                let (header, value) = record::plain_out::<T>(bytes)?;
                let (fields, number) = (RecordFields::of(bytes), record.number());
                Some(SampleBody::decoded(header, value, fields, number, self.writer.node()))
            }
            SampleData::Decoded(decoded) => match Bytes::copied(&decoded.value) {
                Some(value) => {
                    let DecodedSample { header, fields, number, .. } = **decoded;
                    Some(SampleBody::decoded(header, value, fields, number, self.writer.node()))
                }
                None => Some(self),
            },
            SampleData::Kept(_) => Some(self),
        }
    }

    /// The sample as a log gives it: the only sample of a new instance.
    pub(super) fn alone(self) -> Sample<T> {
        let instance_state = match self.effect() {
            RecordEffect::Alive => InstanceState::Alive,
            RecordEffect::Unregistered => InstanceState::NotAliveNoWriters,
            RecordEffect::Disposed | RecordEffect::DisposedAndUnregistered => {
                InstanceState::NotAliveDisposed
            }
        };
        Sample { body: self, facts: CallInfo::unread(ViewState::New, instance_state, 0) }
    }

    /// The sample, which has data, as a reader gives it that does not follow instances.
    pub(super) fn into_next(self, view: ViewState, rank: usize) -> Sample<T> {
        Sample { body: self, facts: CallInfo::unread(view, InstanceState::Alive, rank) }
    }

    /// The sample with the information that the cache has about it.
    #[inline(always)]
    pub(super) fn with_info(self, info: &CachedSampleInfo) -> Sample<T> {
        let call_info = CallInfo {
            sample_state: info.sample_state,
            view_state: info.view_state,
            instance_state: info.instance_state,
            generations: [info.disposed_generation_count, info.no_writers_generation_count],
            ranks: [info.sample_rank, info.generation_rank, info.absolute_generation_rank],
        };
        Sample { body: self, facts: call_info }
    }

    /// The header of the record, wherever the record is.
    #[inline(always)]
    pub(super) fn header(&self) -> RecordHeader {
        let bytes = match &self.data {
            SampleData::InPlace(record) => record.bytes(),
            SampleData::Kept(kept) => kept.bytes(),
            SampleData::Decoded(decoded) => return decoded.header,
        };
        RecordHeader::read(bytes).expect("the length was checked when the sample was made")
    }

    /// Time at which the sample was written, in nanoseconds since 1970.
    pub(super) fn timestamp(&self) -> u64 {
        self.header().timestamp
    }

    /// Change of the instance that the sample reports.
    #[inline(always)]
    pub(super) fn effect(&self) -> RecordEffect {
        match &self.data {
            SampleData::Decoded(decoded) => decoded.header.effect(),
            // Records with other effects have no data that can be read in place.
            SampleData::InPlace(_) | SampleData::Kept(_) => RecordEffect::Alive,
        }
    }

    /// OWNERSHIP_STRENGTH of the writer.
    #[inline(always)]
    pub(super) fn strength(&self) -> i32 {
        match &self.data {
            SampleData::InPlace(record) => record::strength_of(record.bytes()),
            SampleData::Kept(kept) => record::strength_of(kept.bytes()),
            SampleData::Decoded(decoded) => decoded.fields.strength,
        }
    }

    /// Time at which the sample expires, by the LIFESPAN of its writer or by a `lifespan` that is
    /// not zero; `NEVER` if it does not expire.
    #[inline(always)]
    pub(super) fn expiry(&self, lifespan: u64) -> u64 {
        match &self.data {
            SampleData::InPlace(record) => record::expiry_of(record.bytes(), lifespan),
            SampleData::Kept(kept) => record::expiry_of(kept.bytes(), lifespan),
            SampleData::Decoded(decoded) => {
                decoded.fields.expiry.min(decoded.header.ends(lifespan))
            }
        }
    }

    /// Time at which a record of an unordered topic was committed; `None` if unknown.
    pub(super) fn committed(&self) -> Option<u64> {
        let committed = match &self.data {
            SampleData::InPlace(record) => record::commit_time_of(record.bytes()),
            SampleData::Kept(_) => 0,
            SampleData::Decoded(decoded) => decoded.fields.committed,
        };
        (committed > 0).then_some(committed)
    }

    /// The writer of the sample.
    pub(super) fn publication(&self) -> InstanceHandle {
        InstanceHandle { node: self.writer.node(), entity: u64::from(self.header().writer) }
    }

    /// The instance of the sample.
    #[inline(always)]
    pub(super) fn key(&self) -> Key {
        key_of(&**self)
    }

    /// The sample's position in its writer's order.
    fn number(&self) -> u64 {
        match &self.data {
            SampleData::InPlace(record) => record.number(),
            SampleData::Kept(kept) => kept.number(),
            SampleData::Decoded(decoded) => decoded.number,
        }
    }
}

impl<T: TopicData> Sample<T> {
    /// The sample in a record that can be [read in place](record::lies_in_place), as a reader gives
    /// it that does not follow instances.
    #[inline(always)]
    pub(super) fn in_place(
        record: Record,
        writer: NodeId,
        view: ViewState,
        rank: usize,
    ) -> Sample<T> {
        // Records with other effects cannot be read in place.
        Sample {
            body: SampleBody::in_place(record, writer),
            facts: CallInfo::unread(view, InstanceState::Alive, rank),
        }
    }

    /// The sample in a kept record.
    pub(super) fn of_kept(
        kept: StoredRecord,
        writer: NodeId,
        with: &RecordContext<'_, T>,
    ) -> Option<Sample<T>> {
        SampleBody::of_kept(kept, writer, with).map(SampleBody::alone)
    }

    /// The sample in a record of a coherent set.
    pub(super) fn of_set(
        record: &[u8],
        number: u64,
        writer: NodeId,
        with: &RecordContext<'_, T>,
    ) -> Option<Sample<T>> {
        SampleBody::of_bytes(record, number, writer, with).map(SampleBody::alone)
    }

    /// Whether the sample has data.
    #[inline(always)]
    fn is_valid(&self) -> bool {
        self.body.effect() == RecordEffect::Alive
    }

    /// The data, or `None` if the sample is a notice that its instance is over.
    #[inline(always)]
    pub fn data(&self) -> Option<&T> {
        self.is_valid().then(|| &*self.body)
    }

    /// The sample as one that dereferences to its data, or `None` if the sample is a notice that
    /// its instance is over.
    ///
    /// ```
    /// # use dds_api::prelude::*;
    /// # #[derive(DdsType, Clone, Debug, Default)]
    /// # struct Track { #[dds(key)] id: u32, height: f64 }
    /// # fn example(reader: &DataReader<Track>) -> DdsResult<()> {
    /// let tracks = reader.read(.., Timeout::NOW)?.into_iter().filter_map(Sample::into_data);
    /// let highest = tracks.map(|track| track.height).fold(0.0, f64::max);
    /// # Ok(())
    /// # }
    /// ```
    #[inline(always)]
    pub fn into_data(self) -> Option<ValidSample<T>> {
        self.is_valid().then(|| ValidSample::of(self))
    }

    /// A value with the key of the sample's instance. If the sample has no data, only the key
    /// members of the value are meaningful; the other members have their defaults. It is the value
    /// that [`get_key_value`](super::DataReader::get_key_value) returns for the instance, without
    /// the copy.
    #[inline]
    pub fn key_value(&self) -> &T {
        &self.body
    }

    /// Information about the sample besides its data. It is made on demand, because most samples
    /// are never asked for it.
    #[inline]
    pub fn info(&self) -> SampleInfo {
        let body = &self.body;
        let CallInfo { sample_state, view_state, instance_state, generations, ranks } = self.facts;
        let [disposed_generation_count, no_writers_generation_count] = generations;
        let [sample_rank, generation_rank, absolute_generation_rank] = ranks;
        SampleInfo {
            sample_state,
            view_state,
            instance_state,
            disposed_generation_count,
            no_writers_generation_count,
            sample_rank,
            generation_rank,
            absolute_generation_rank,
            // Every 64-bit count of nanoseconds is a time before the year 2555.
            source_timestamp: UNIX_EPOCH + Duration::from_nanos(body.timestamp()),
            instance_handle: InstanceHandle::of_instance(body.key()),
            publication_handle: body.publication(),
            valid_data: self.is_valid(),
            sequence_number: body.number(),
        }
    }

    /// Whether the sample pins more of its writer's memory than may be held.
    pub(super) fn is_over_limit(
        &self,
        lending_check: &mut LendingCheck,
        max_held_percent: u8,
    ) -> bool {
        self.body.record().is_some_and(|record| lending_check.must_copy(max_held_percent, record))
    }

    /// Makes the sample a copy, independent of the writer's memory.
    pub(super) fn own(&mut self) {
        if let Some(body) = self.body.share().into_own() {
            self.body = body;
        }
    }

    /// Whether the sample is read where its writer built it, or where it is kept for late joiners.
    pub fn is_borrowed(&self) -> bool {
        match &self.body.data {
            SampleData::InPlace(_) | SampleData::Kept(_) => true,
            SampleData::Decoded(decoded) => Bytes::of(&decoded.value).is_some_and(Bytes::is_lent),
        }
    }
}

/// The instance of a value. A value that cannot be encoded gets 0, the only instance of a type
/// without a key.
pub(crate) fn key_of<T: TopicData>(value: &T) -> Key {
    if !value.has_key() {
        return 0;
    }
    value.hash_of_key().map_or(0, Key::from_be_bytes)
}

impl<T: TopicData> Deref for SampleBody<T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        let bytes = match &self.data {
            SampleData::InPlace(record) => record.bytes(),
            SampleData::Kept(kept) => kept.bytes(),
            SampleData::Decoded(decoded) => return &decoded.value,
        };
        record::plain(bytes).expect("length and alignment were checked when the sample was made")
    }
}

impl<T: TopicData + std::fmt::Debug> std::fmt::Debug for Sample<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sample").field("data", &self.data()).field("info", &self.info()).finish()
    }
}
