//! The writer.
//!
//! Owns: a stream of samples and its memory. Never does: copy a sample more than once on its way
//! into that memory, or lose an accepted sample.

mod asynchronous;
mod bare;
mod claiming;
mod ending;
mod held;

use std::ops::Deref;
use std::sync::{Arc, OnceLock, Weak};

use derecho_core::ids::Time;
use derecho_node::clock;
use idl_cdr::Encoding;
use idl_xtypes::TopicData;

use super::acknowledgment::are_acknowledged;
use super::enabling::{EnabledWriter, WriterDraft};
use super::known_instances::{BuiltInstance, KnownInstances};
use super::limits::WriterLimits;
use super::loan::Loan;
use super::publisher::Publisher;
use super::writer_claim::WriterClaim;
use crate::domain::ParticipantInner;
use crate::domain::enabling::EnablingState;
use crate::infrastructure::listener::ListenerSlot;
use crate::infrastructure::this_thread::this_thread;
use crate::infrastructure::{
    DataWriterListener, DdsError, DdsResult, InstanceHandle, StatusCondition, Timeout,
};
use crate::mapping::membership_state::Life;
use crate::mapping::record::{
    HEADER, KEY, PayloadKind, RecordEffect, RecordMetadata, is_plain, record_size, write_metadata,
    write_payload,
};
use crate::mapping::shares::{WriterMemory, WriterShared};
use crate::topic::Topic;

/// Number of commits per turn of the event loop, as a rule. A turn reclaims memory that readers
/// have finished with and receives samples from other nodes.
const COMMITS_A_TURN: u64 = 32;

/// Writes samples of one topic. Any number of threads may write at once. The samples of each thread
/// keep their order.
///
/// Clones are handles on the same writer. Dropping the last handle deletes the writer.
///
/// ```
/// # use dds_api::prelude::*;
/// # #[derive(DdsType, Clone, Debug, Default)]
/// # struct Track { #[dds(key)] id: u32, height: f64 }
/// # fn example(participant: &DomainParticipant, topic: &Topic<Track>) -> DdsResult<()> {
/// let writer = participant.writer(topic).create()?;
/// writer.wait_for_readers(1, Timeout::secs(5))?;
/// writer.write(&Track { id: 7, height: 3000.0 })?;
/// writer.wait_for_acknowledgments(Timeout::secs(5))?;
/// # Ok(())
/// # }
/// ```
pub struct DataWriter<T: TopicData>(Arc<WriterCore<T>>);

/// State of a writer.
#[doc(hidden)]
pub struct WriterCore<T: TopicData> {
    pub(super) participant: Arc<ParticipantInner>,
    pub(super) topic: Topic<T>,
    pub(super) shared: Arc<WriterShared>,
    /// Whether the writer is enabled, and its state since then.
    pub(super) enabling: EnablingState<WriterDraft>,
    /// Identifies the version of the writer's type in each sample.
    pub(super) mark: u32,
    /// Instances that were registered, written or disposed, and not unregistered since.
    pub(super) known: KnownInstances,
    /// The publisher that the writer belongs to, unless that is the participant's implicit one.
    pub(super) publisher: Option<Publisher>,
    pub(super) status_condition: OnceLock<StatusCondition>,
    pub(super) listener: ListenerSlot<dyn DataWriterListener<T>>,
}

impl<T: TopicData> Clone for DataWriter<T> {
    fn clone(&self) -> Self {
        DataWriter(Arc::clone(&self.0))
    }
}

/// Gives access to the writer's state.
impl<T: TopicData> Deref for DataWriter<T> {
    type Target = WriterCore<T>;

    #[inline(always)]
    fn deref(&self) -> &WriterCore<T> {
        &self.0
    }
}

impl<T: TopicData> DataWriter<T> {
    /// Makes a writer from its state and adds it to the participant's listener dispatcher.
    pub(super) fn new(core: WriterCore<T>) -> DataWriter<T> {
        let writer = DataWriter(Arc::new(core));
        let entity: Weak<WriterCore<T>> = Arc::downgrade(&writer.0);
        writer.participant.dispatcher.add(entity);
        writer
    }

    pub(super) fn of(core: Arc<WriterCore<T>>) -> DataWriter<T> {
        DataWriter(core)
    }

    pub(super) fn downgrade(&self) -> Weak<WriterCore<T>> {
        Arc::downgrade(&self.0)
    }

    /// The topic that the writer writes.
    #[doc(alias = "get_topic")]
    pub fn topic(&self) -> &Topic<T> {
        &self.topic
    }

    /// The writer's handle in the domain. Until the writer is enabled, it has a provisional handle
    /// that is unknown to other participants.
    #[doc(alias = "get_instance_handle")]
    pub fn instance_handle(&self) -> InstanceHandle {
        self.name_in_domain()
    }

    /// Number of matched readers: each sample that is written from now on reaches them. The number
    /// is that of [`publication_matched_status`](Self::publication_matched_status).
    pub fn matched_readers(&self) -> usize {
        self.shared.board.matched_readers()
    }

    /// Waits until at least `count` readers are matched.
    pub fn wait_for_readers(&self, count: usize, timeout: impl Into<Timeout>) -> DdsResult<()> {
        let timeout = timeout.into();
        let missing = || {
            format!(
                "{} of {count} readers of `{}` had matched after {timeout}: {}{}",
                self.matched_readers(),
                self.topic.name(),
                self.participant.why_nobody(),
                self.topic.waiting()
            )
        };
        let holds = || self.matched_readers() >= count;
        self.enabling.wait_until(&self.participant, timeout, holds, missing)
    }

    /// Waits until the participants of all matched readers have received all samples written so
    /// far. On a [persistent](crate::topic::TopicBuilder::persistent) topic the samples must also
    /// be durable in all logs. The call covers samples written since this participant last joined
    /// its domain. The fate of samples written before it was expelled is unknown. If the
    /// participant is expelled during the wait, the call returns [`DdsError::Isolated`], even if
    /// the participant [rejoins][comes back] in time.
    ///
    /// [comes back]: crate::domain::ParticipantConfig::rejoin
    pub fn wait_for_acknowledgments(&self, timeout: impl Into<Timeout>) -> DdsResult<()> {
        let timeout = timeout.into();
        self.enabling.check()?;
        let (id, is_gone) = (self.enabling.id(), || !self.is_enabled());
        if are_acknowledged(&self.participant, id, timeout.deadline(), is_gone)? {
            return Ok(());
        }
        self.enabling.check()?;
        let (name, waiting) = (self.topic.name(), self.topic.waiting());
        let what = match self.topic.is_logged() {
            true => "not all samples are received by all readers and durable in all logs",
            false => "readers have not received all samples",
        };
        Err(DdsError::Timeout(format!("topic `{name}`: {what} after {timeout}{waiting}")))
    }

    /// Writes a sample, which is copied once, into the memory that readers read. If that memory is
    /// full of samples that readers still need, waits for up to the writer's max_blocking_time.
    #[inline]
    pub fn write(&self, sample: &T) -> DdsResult<()> {
        self.write_at(sample, None)
    }

    /// As `write`, with the source timestamp in nanoseconds since 1970; `None` means now.
    #[inline(always)]
    pub(super) fn write_at(&self, sample: &T, time: Option<u64>) -> DdsResult<()> {
        self.write_within(sample, time, self.max_blocking())
    }

    /// As `write_at`, and waits for room no longer than `blocking`.
    #[inline(always)]
    fn write_within(&self, sample: &T, time: Option<u64>, blocking: Timeout) -> DdsResult<()> {
        if self.write_bare(sample, time) {
            self.note_written(sample);
            return Ok(());
        }
        let key = self.limited_key(sample)?;
        self.within_limits(key, Some(blocking), || self.write_freely(sample, time, blocking))
    }

    #[inline(always)]
    fn write_freely(&self, sample: &T, time: Option<u64>, blocking: Timeout) -> DdsResult<()> {
        let size = self.size_of(sample).map_err(|error| self.not_encodable(&error))?;
        let metadata = self.metadata_at(sample, time)?;
        let fill = |record: &mut [u8]| write_payload(sample, record, || self.encoding());
        if let Some(held) = self.hold(&metadata, time, size, || self.entering_sample(sample), fill)
        {
            return held;
        }
        let size = size + metadata.size();
        // A claim that is returned by a call may lie in memory, stored word by word. A load of word
        // pairs then stalls until the stores complete. So the usual case takes its own path.
        match self.claim_at_once(size) {
            Some(writer_claim) => self.put(writer_claim, sample, metadata, time)?,
            None => self.write_slowly(sample, size, metadata, time, blocking)?,
        }
        self.note_written(sample);
        Ok(())
    }

    #[cold]
    fn write_slowly(
        &self,
        sample: &T,
        size: usize,
        metadata: RecordMetadata,
        time: Option<u64>,
        blocking: Timeout,
    ) -> DdsResult<()> {
        self.put(self.claim_slowly(size, blocking)?, sample, metadata, time)
    }

    /// Writes a sample into claimed room and commits it.
    #[inline(always)]
    fn put(
        &self,
        mut writer_claim: WriterClaim<'_>,
        sample: &T,
        metadata: RecordMetadata,
        time: Option<u64>,
    ) -> DdsResult<()> {
        match write_payload(sample, writer_claim.bytes(), || self.encoding()) {
            Ok(size) => self.commit_at(writer_claim, size, metadata, time),
            Err(error) => {
                drop(writer_claim);
                self.notify_room();
                Err(self.not_encodable(&error))
            }
        }
    }

    /// Whether a write of this sample would find room now. For threads that have other work to do
    /// instead of waiting in a write; see [`DomainParticipant::wait_until`]. If other threads write
    /// as well, the answer may be outdated when it is used.
    ///
    /// [`DomainParticipant::wait_until`]: crate::domain::DomainParticipant::wait_until
    #[inline]
    pub fn has_room_for(&self, sample: &T) -> bool {
        self.size_of(sample).is_ok_and(|size| self.has_room(size + self.metadata_size()))
            && self.limits().is_none_or(|limits| {
                self.key_of(sample).is_ok_and(|key| self.is_admitted(limits, key))
            })
    }

    /// As `metadata_of`, for a sample with this source timestamp if the application gives one.
    #[inline(always)]
    pub(super) fn metadata_at(&self, sample: &T, time: Option<u64>) -> DdsResult<RecordMetadata> {
        let metadata = self.metadata_of(sample)?;
        Ok(match time.is_some() && self.states_commits() {
            true => RecordMetadata { policies: metadata.policies.stating_commit(), ..metadata },
            false => metadata,
        })
    }

    /// Metadata of a sample: its key, if samples are kept or the policy metadata requires keys, and
    /// the policy metadata itself.
    #[inline(always)]
    pub(super) fn metadata_of(&self, sample: &T) -> DdsResult<RecordMetadata> {
        let policy_metadata = self.shared.policy_metadata();
        let key = match self.states_keys() || policy_metadata.keyed {
            true => {
                let key = sample.hash_of_key().map_err(|error| self.not_encodable(&error))?;
                Some(u128::from_le_bytes(key))
            }
            false => None,
        };
        Ok(RecordMetadata {
            kind: PayloadKind::Sample,
            effect: RecordEffect::Alive,
            mark: self.mark,
            policies: policy_metadata,
            key,
        })
    }

    /// Number of bytes of a sample's metadata with the policies of this moment.
    #[inline(always)]
    pub(super) fn metadata_size(&self) -> usize {
        match self.shared.has_policy_metadata() {
            true => self.size_with_policies(),
            false if self.states_keys() => KEY,
            false => 0,
        }
    }

    #[cold]
    fn size_with_policies(&self) -> usize {
        let policy_metadata = self.shared.policy_metadata();
        policy_metadata.size() + if self.states_keys() || policy_metadata.keyed { KEY } else { 0 }
    }

    /// Loans a sample that is built in place, without any copy for a plain type. See [`Loan`].
    #[inline(always)]
    pub fn loan(&self) -> DdsResult<Loan<'_, T>>
    where
        T: Default,
    {
        self.loan_within(self.max_blocking())
    }

    #[inline(always)]
    fn loan_within(&self, blocking: Timeout) -> DdsResult<Loan<'_, T>>
    where
        T: Default,
    {
        if is_plain::<T>() {
            Ok(Loan::in_place(self, self.claim_within(self.room_for_one(), blocking)?))
        } else {
            Ok(Loan::on_heap(self))
        }
    }

    /// Builds a sample in place and publishes it: a [loan](DataWriter::loan) in one call. If `fill`
    /// panics, nothing is published.
    ///
    /// ```no_run
    /// # use dds_api::prelude::*;
    /// # #[derive(DdsType, Clone, Default)]
    /// # struct Attitude { pitch: f64 }
    /// # fn write(writer: &DataWriter<Attitude>) -> DdsResult<()> {
    /// writer.write_with(|attitude| attitude.pitch = 1.5)
    /// # }
    /// ```
    #[inline(always)]
    pub fn write_with(&self, fill: impl FnOnce(&mut T)) -> DdsResult<()>
    where
        T: Default,
    {
        let mut loan = self.loan()?;
        fill(&mut loan);
        loan.publish()
    }

    /// Loans a sample whose initial content is left over from earlier samples. For large plain
    /// types of which every part is filled in anyway. A type that is not plain is refused at
    /// compile time:
    ///
    /// ```compile_fail,E0080
    /// # use dds_api::prelude::*;
    /// #[derive(DdsType, Clone, Debug, Default)]
    /// struct Track { callsign: String }
    ///
    /// fn write(writer: &DataWriter<Track>) -> DdsResult<()> {
    ///     writer.loan_as_left()?.publish()
    /// }
    /// # fn main() -> DdsResult<()> {
    /// #     let participant = DomainParticipant::new(0)?;
    /// #     write(&participant.writer(&participant.topic::<Track>("Tracks").create()?).create()?)
    /// # }
    /// ```
    ///
    /// ```no_run
    /// # use dds_api::prelude::*;
    /// #[derive(DdsType, Clone, Debug, Default)]
    /// struct Track { callsign: [u8; 8] }
    ///
    /// fn write(writer: &DataWriter<Track>) -> DdsResult<()> {
    ///     let mut track = writer.loan_as_left()?;
    ///     track.callsign = *b"SQL00001";
    ///     track.publish()
    /// }
    /// # fn main() -> DdsResult<()> {
    /// #     let participant = DomainParticipant::new(0)?;
    /// #     write(&participant.writer(&participant.topic::<Track>("Tracks").create()?).create()?)
    /// # }
    /// ```
    #[inline(always)]
    pub fn loan_as_left(&self) -> DdsResult<Loan<'_, T>> {
        const {
            assert!(
                is_plain::<T>(),
                "only samples of plain types can be built over an earlier record"
            )
        };
        Ok(Loan::as_left(self, self.claim(self.room_for_one())?))
    }

    /// Size of the record of one sample of a plain type, with the policies of this moment.
    #[inline(always)]
    fn room_for_one(&self) -> usize {
        HEADER + size_of::<T>() + self.metadata_size()
    }

    /// State of an enabled writer. Panics if the writer is not enabled.
    #[inline(always)]
    fn started(&self) -> &EnabledWriter {
        self.enabling.started().expect("writer is enabled before it claims memory")
    }

    #[inline(always)]
    pub(super) fn max_blocking(&self) -> Timeout {
        self.enabling.started().map_or(Timeout::NOW, |started| started.max_blocking)
    }

    /// RESOURCE_LIMITS, if the writer has any.
    #[inline(always)]
    pub(super) fn limits(&self) -> Option<&WriterLimits> {
        self.enabling.started()?.limits.as_ref()
    }

    /// Whether each sample carries its key for the stores. Samples of a type without a key have
    /// one key there, which they do not carry.
    #[inline(always)]
    fn states_keys(&self) -> bool {
        self.enabling.started().is_some_and(|started| started.kept) && self.known.has_key()
    }

    /// Encoding of samples that are not plain: the first representation that the writer
    /// offers (I-177).
    #[inline(always)]
    pub(super) fn encoding(&self) -> Encoding {
        self.enabling.started().map_or(Encoding::PLAIN_CDR2_LE, |started| started.encoding)
    }

    /// Size of a sample's record in bytes.
    #[inline(always)]
    fn size_of(&self, sample: &T) -> Result<usize, T::Error> {
        record_size(sample, || self.encoding())
    }

    /// Publishes a sample that was built in this claim, as `size` bytes without metadata. Gives the
    /// room back if the sample does not become a record there.
    pub(super) fn publish_built(
        &self,
        writer_claim: WriterClaim<'_>,
        size: usize,
        metadata: RecordMetadata,
        key: Option<u128>,
        mut instance: Option<BuiltInstance>,
    ) -> DdsResult<()> {
        let mut room = Some(writer_claim);
        let publish = || {
            self.enabling.check()?;
            let built = room.as_ref().map(WriterClaim::seen).unwrap_or_default();
            let fill = |record: &mut [u8]| {
                record[HEADER..size].copy_from_slice(&built[HEADER..size]);
                Ok(size)
            };
            let enter = || self.entering(key, instance.take().and_then(|it| it.fresh));
            let held = self.hold(&metadata, None, size, enter, fill);
            match (held, room.take()) {
                (Some(held), claim) => {
                    room = claim;
                    held
                }
                (None, Some(claim)) => {
                    self.commit_at(claim, size, metadata, None)?;
                    self.note_built(instance.take());
                    Ok(())
                }
                (None, None) => Ok(()),
            }
        };
        let published = self.within_limits(key, None, publish);
        room.into_iter().for_each(|claim| self.give_back(claim));
        published.inspect_err(|_| self.notify_room())
    }

    /// Commits with metadata and a source timestamp; none means now.
    #[inline(always)]
    pub(super) fn commit_at(
        &self,
        writer_claim: WriterClaim<'_>,
        size: usize,
        metadata: RecordMetadata,
        time: Option<u64>,
    ) -> DdsResult<()> {
        let membership = &self.participant.membership;
        let is_over = !membership.is_in(self.life_of(&writer_claim)) && membership.may_rejoin();
        if is_over || writer_claim.seen().len() < size + metadata.size() {
            return self.commit_anew(writer_claim, size, metadata, time);
        }
        self.commit_here(writer_claim, size, metadata, time);
        Ok(())
    }

    /// Writes a record in another claim, because the membership in which room was claimed is over,
    /// or because the policies have changed since and the metadata has no room.
    #[cold]
    fn commit_anew<'a>(
        &'a self,
        writer_claim: WriterClaim<'a>,
        size: usize,
        metadata: RecordMetadata,
        time: Option<u64>,
    ) -> DdsResult<()> {
        // The room of the old claim may be the room that the new one waits for.
        let built = writer_claim.seen()[..size].to_vec();
        self.give_back(writer_claim);
        let writer_claim = loop {
            let mut next = self.claim_slowly(size + metadata.size(), self.max_blocking())?;
            next.bytes()[..size].copy_from_slice(&built);
            if self.participant.membership.is_in(self.life_of(&next)) {
                break next;
            }
        };
        self.commit_here(writer_claim, size, metadata, time);
        Ok(())
    }

    #[inline(always)]
    fn life_of(&self, writer_claim: &WriterClaim<'_>) -> Life {
        writer_claim.writer_memory().unwrap_or_else(|| &self.started().first_memory).life
    }

    #[inline(always)]
    fn commit_here(
        &self,
        writer_claim: WriterClaim<'_>,
        size: usize,
        mut metadata: RecordMetadata,
        time: Option<u64>,
    ) {
        // The cast is lossless: a participant creates fewer than 2^32 endpoints.
        let (now, id) = (clock::now(), self.started().id as u32);
        let timestamp = time.unwrap_or_else(|| clock::wall(now));
        if time.is_some() && self.states_commits() {
            metadata.policies = metadata.policies.committed_at(clock::wall(now));
        }
        if self.shared.timeliness.is_kept() {
            self.update_timeliness(metadata.key, metadata.effect, now);
        }
        let (claim, writer_memory) = writer_claim.into_parts();
        let writer_memory =
            writer_memory.as_deref().unwrap_or_else(|| &self.started().first_memory);
        let number = claim.commit_on(this_thread(), size + metadata.size(), |_, record| {
            write_metadata::<T>(record, id, timestamp, &metadata);
        });
        self.notify_readers(writer_memory, number, now);
    }

    /// Notifies readers of a commit. Readers that share the memory see the commit already; sleeping
    /// ones are woken.
    #[inline(always)]
    fn notify_readers(&self, writer_memory: &WriterMemory, number: u64, now: Time) {
        let memory = &writer_memory.memory;
        if !self.is_quiet() {
            match self.shared.budget() {
                0 => writer_memory.ring(),
                budget => self.defer_wakeups(writer_memory, budget, now),
            }
        }
        if number.is_multiple_of(COMMITS_A_TURN) || memory.needs_turn() {
            self.participant.engine.poke_at(now);
        }
    }

    /// LATENCY_BUDGET: wakes sleeping readers together with later commits, unless much memory is in
    /// use already (I-202).
    #[cold]
    fn defer_wakeups(&self, writer_memory: &WriterMemory, budget: u64, now: Time) {
        if writer_memory.memory.is_half_full() {
            writer_memory.ring();
        } else if writer_memory.memory.put_off(now, budget) {
            // The thread that drives the engine must learn when to wake the readers.
            self.participant.engine.poke_until(now, now.after(budget));
        }
    }

    /// Updates the deadline and liveliness monitoring of the writer.
    #[cold]
    fn update_timeliness(&self, key: Option<u128>, effect: RecordEffect, now: Time) {
        // In the byte order of instance handles.
        let key = key.map(u128::swap_bytes);
        if self.shared.timeliness.wrote(key, effect != RecordEffect::Alive, now) {
            self.participant.engine.act(|machine, _, _| machine.schedule_timeliness());
        }
    }

    /// LIVELINESS: asserts that the application is alive, as each write does. Needed for writers
    /// whose liveliness is manual; for others the call makes no difference.
    pub fn assert_liveliness(&self) -> DdsResult<()> {
        self.enabling.check()?;
        let membership = &self.participant.membership;
        if membership.is_out_for_good() {
            return Err(membership.error());
        }
        if self.shared.timeliness.assert(clock::now()) {
            self.participant.engine.act(|machine, _, _| machine.schedule_timeliness());
        }
        Ok(())
    }

    pub(super) fn not_encodable(&self, error: &T::Error) -> DdsError {
        DdsError::BadParameter(format!(
            "this sample of `{}` cannot be encoded: {error}",
            self.topic.name()
        ))
    }
}

impl<T: TopicData> WriterCore<T> {
    pub(super) fn name_in_domain(&self) -> InstanceHandle {
        self.participant.membership.handle(self.enabling.id())
    }

    /// Whether records with a timestamp of the application state when they were committed.
    #[inline(always)]
    fn states_commits(&self) -> bool {
        self.enabling.started().is_some_and(|started| started.states_commits)
    }

    /// The memory of the first membership, if the participant is still in that membership.
    #[inline(always)]
    fn first(&self) -> Option<&WriterMemory> {
        let first = &self.enabling.started()?.first_memory;
        self.is_active(first).then_some(first)
    }

    #[inline(always)]
    fn is_active(&self, writer_memory: &WriterMemory) -> bool {
        self.enabling.is_enabled() && self.participant.membership.is_in(writer_memory.life)
    }
}

impl<T: TopicData> Drop for WriterCore<T> {
    fn drop(&mut self) {
        self.end();
    }
}
