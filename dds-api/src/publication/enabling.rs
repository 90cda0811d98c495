//! A writer's settings before it is enabled, and its state afterwards.
//!
//! Owns: the announcement of a writer, and its withdrawal. Never does: write samples, or decide
//! when the writer may be enabled.

use std::sync::Arc;
use std::time::Duration;

use derecho_core::multicast::geometry::Geometry;
use derecho_node::clock;
use idl_cdr::Encoding;
use idl_xtypes::TopicData;
use qos_profiles::{DataWriterQos, PublisherQos, ReliabilityQosPolicyKind};

use super::builder::{check, refused};
use super::limits::WriterLimits;
use super::publisher::Publisher;
use super::writer::{DataWriter, WriterCore};
use crate::domain::{ProfileBinding, enabling};
use crate::infrastructure::{DdsError, DdsResult, Timeout};
use crate::mapping::endpoint::EndpointKind;
use crate::mapping::machine::policy_metadata_of;
use crate::mapping::policies::{self, EndpointPolicies};
use crate::mapping::record::{EXPIRY, HEADER, KEY, STRENGTH, TAG};
use crate::mapping::set;
use crate::mapping::shares::WriterMemory;
use crate::topic::encoding;

/// Bytes reserved for partition names that a writer may get later.
const ROOM_FOR_NAMES: usize = 256;
/// Longer than one turn of the event loop.
const A_TURN: Duration = Duration::from_millis(100);

/// Settings of a writer that is not enabled yet.
pub(super) struct WriterDraft {
    pub(super) qos: DataWriterQos,
    /// The profile from which the policies are taken, if any.
    pub(super) profile_binding: Option<ProfileBinding>,
    pub(super) memory: usize,
    pub(super) in_flight: usize,
    pub(super) largest: usize,
}

/// State of an enabled writer.
pub(super) struct EnabledWriter {
    /// The memory of the membership in which the writer was enabled. Kept until the writer ends, so
    /// that writing there does not require a check of the memory of later memberships.
    pub(super) first_memory: WriterMemory,
    pub(super) id: u64,
    pub(super) max_blocking: Timeout,
    /// Encoding of samples that are not plain.
    pub(super) encoding: Encoding,
    /// Whether samples are kept, so that they carry their keys if they have any.
    pub(super) kept: bool,
    /// Whether records with a timestamp of the application state when they were committed (I-217).
    pub(super) states_commits: bool,
    /// RESOURCE_LIMITS, if there are any.
    pub(super) limits: Option<WriterLimits>,
}

impl enabling::EndpointDraft for WriterDraft {
    type Started = EnabledWriter;

    fn profile_binding(&self) -> Option<&ProfileBinding> {
        self.profile_binding.as_ref()
    }

    fn id(started: &EnabledWriter) -> u64 {
        started.id
    }
}

/// Enabling and deleting: see
/// [`DomainParticipant::enable`](crate::domain::DomainParticipant::enable).
impl<T: TopicData> DataWriter<T> {
    /// Enables the writer. Does nothing if the writer is enabled already.
    ///
    /// # Errors
    /// [`DdsError::PreconditionNotMet`] if its publisher, participant or topic is not enabled; the
    /// errors of [`DataWriterBuilder::create`](super::DataWriterBuilder::create).
    pub fn enable(&self) -> DdsResult<()> {
        WriterCore::enable(self)
    }

    /// Whether the writer is enabled.
    pub fn is_enabled(&self) -> bool {
        self.enabling.is_enabled()
    }

    /// Deletes the writer, even if other handles on it exist. All calls on those handles, including
    /// waiting ones, then return [`DdsError::AlreadyDeleted`]. Dropping the last handle has the
    /// same effect.
    #[doc(alias = "delete_datawriter")]
    pub fn delete(self) {
        self.end();
        self.participant.engine.nudge();
    }
}

impl<T: TopicData> WriterCore<T> {
    /// Policies of the enclosing publisher.
    pub(super) fn publisher_qos(&self) -> PublisherQos {
        self.publisher.as_ref().map_or_else(policies::publisher, Publisher::qos)
    }

    /// Enables the writer: opens its memory and announces it.
    pub(super) fn enable(&self) -> DdsResult<()> {
        let start = |draft: &WriterDraft| {
            self.join_group(draft)?;
            self.start(draft).inspect_err(|_| self.leave_group())
        };
        self.enabling.enable(&self.participant, start, || {})
    }

    fn start(&self, draft: &WriterDraft) -> DdsResult<EnabledWriter> {
        let WriterDraft { qos, memory, in_flight, largest, .. } = draft;
        let (qos, topic, group) = (qos.clone(), &self.topic, self.publisher_qos());
        check(topic, &qos, &group)?;
        let limits = WriterLimits::new(&qos);
        let level = topic.level();
        let encoding = encoding(&qos.representation);
        let mut blocking = Option::<Duration>::from(qos.reliability.max_blocking_time);
        let is_best_effort = qos.reliability.kind == ReliabilityQosPolicyKind::BestEffort;
        if is_best_effort && !level.is_ordered() {
            // The writer waits for no reader, but for the turn of its own engine that finds
            // this out.
            blocking = blocking.map(|time| time.max(A_TURN));
        }
        let mut endpoint = topic.endpoint(
            EndpointKind::Writer,
            EndpointPolicies::Offered { writer: qos, publisher: group },
        );
        endpoint.group = self.publisher.as_ref().map_or(0, Publisher::group);
        let entries = match level.is_ordered() {
            true => in_flight.saturating_add(in_flight.div_ceil(7)),
            false => *in_flight,
        };
        let policy_metadata = policy_metadata_of(&endpoint);
        let has_names = self.publisher.is_some();
        let names = if has_names { policy_metadata.size().max(ROOM_FOR_NAMES) } else { STRENGTH };
        // A deadline and a lifespan may be set later. The largest sample may be part of a set.
        let in_set =
            self.publisher.as_ref().is_some_and(|publisher| publisher.changes().is_coherent());
        let states_commits = !level.is_ordered()
            && (policy_metadata.offer.is_exclusive()
                || T::dynamic_type(topic.support()).is_keyed());
        let names = if states_commits || policy_metadata.tag != 0 { names + TAG } else { names };
        let in_set = if in_set { set::footprint(HEADER) } else { 0 };
        let overhead = HEADER + names + EXPIRY + KEY + in_set;
        let geometry = Geometry::fitting(*memory, entries, largest.saturating_add(overhead))
            .ok_or_else(|| {
                DdsError::BadParameter(format!(
                    "a writer of `{}` cannot keep {memory} bytes in {in_flight} samples of up to \
                     {largest} bytes: the limits are 2^20 samples and 1 GiB per sample",
                    topic.name()
                ))
            })?;
        if self.participant.engine.has_thread() {
            self.shared.allow_deferred_wakeups();
        }
        self.shared.set_policies(&endpoint.policies, policy_metadata);
        if let EndpointPolicies::Offered { writer, .. } = &*endpoint.policies {
            self.shared.timeliness.set_policies(writer, clock::now());
        }
        let machine_share = Arc::clone(&self.shared);
        let made = self.participant.engine.act(|machine, link, effects| {
            machine.add_writer(link, endpoint, geometry, machine_share, effects)
        });
        let (id, first) = made.map_err(|refusal| {
            refused(&refusal, &self.participant.membership, "writer", topic.name())
        })?;
        let max_blocking = blocking.map_or(Timeout::FOREVER, Timeout::from);
        Ok(EnabledWriter {
            first_memory: first,
            id,
            max_blocking,
            encoding,
            kept: level.is_kept(),
            states_commits,
            limits,
        })
    }

    /// Registers the writer and its stream with the publisher.
    fn join_group(&self, draft: &WriterDraft) -> DdsResult<()> {
        let Some(publisher) = &self.publisher else { return Ok(()) };
        let group = publisher.qos();
        publisher.changes().agree(&group.presentation);
        let policies = EndpointPolicies::Offered { writer: draft.qos.clone(), publisher: group };
        let endpoint = self.topic.endpoint(EndpointKind::Writer, policies);
        let key = endpoint.level.is_ordered().then(|| endpoint.key());
        publisher.changes().join(self.token(), key, self.topic.name())
    }

    fn leave_group(&self) {
        let changes = self.publisher.as_ref().map(Publisher::changes);
        changes.into_iter().for_each(|changes| changes.leave(self.token()));
    }

    /// The publisher's key for this writer.
    fn token(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Ends the writer and withdraws its announcement, even if handles remain (I-183).
    pub(super) fn end(&self) {
        if self.enabling.end() {
            self.leave_group();
            self.write_end_record();
            let id = self.enabling.id();
            self.participant.profiles.forget(id);
            let engine = &self.participant.engine;
            engine.act_soon(move |machine, _, effects| machine.remove_writer(id, effects));
        }
    }
}
