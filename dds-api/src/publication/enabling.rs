//! How a writer comes to work, and how that ends.
//!
//! ```text
//!   draft ──enable──> started, announced, matched ──delete, or the last handle──> gone
//! ```
//! Owns: what a writer is to be until it is enabled. Never does: write anything.

use std::sync::{Arc, MutexGuard, PoisonError};

use derecho_core::multicast::geometry::Geometry;
use derecho_node::clock;
use idl_xtypes::TopicData;
use qos_profiles::{DataWriterQos, PublisherQos};

use super::builder::{check, refused};
use super::publisher::Publisher;
use super::writer::{DataWriter, WriterCore};
use crate::domain::{Following, not_yet};
use crate::infrastructure::{DdsError, DdsResult, Timeout};
use crate::mapping::endpoint::EndpointKind;
use crate::mapping::machine::terms_of;
use crate::mapping::policies::{self, Policies};
use crate::mapping::record::{HEADER, KEY, STRENGTH};
use crate::mapping::set;
use crate::mapping::shares::Berth;

/// Bytes for the names of partitions that a writer may get later.
const ROOM_FOR_NAMES: usize = 256;

/// What a writer is to be once it is enabled.
pub(super) struct Draft {
    pub(super) qos: DataWriterQos,
    /// The profile that its policies are by, if they are.
    pub(super) following: Option<Following>,
    pub(super) memory: usize,
    pub(super) in_flight: usize,
    pub(super) largest: usize,
}

/// What a writer has since it was enabled.
pub(super) struct Started {
    /// Where it writes in the life of its participant in which it was enabled. Kept to the end, so that to
    /// write there costs no look at what there is since.
    pub(super) first: Berth,
    pub(super) id: u64,
    pub(super) max_blocking: Timeout,
    /// Samples are kept, so their keys go with them.
    pub(super) kept: bool,
}

/// Enabling and deleting: see [`DomainParticipant::enable`](crate::domain::DomainParticipant::enable).
impl<T: TopicData> DataWriter<T> {
    /// Enables it. Once it is enabled, nothing happens.
    ///
    /// # Errors
    /// [`DdsError::PreconditionNotMet`] if its publisher, its participant or its topic is not enabled, and those of
    /// [`DataWriterBuilder::create`](super::DataWriterBuilder::create).
    pub fn enable(&self) -> DdsResult<()> {
        WriterCore::enable(self)
    }

    /// Whether it is enabled.
    pub fn is_enabled(&self) -> bool {
        self.lifecycle.is_enabled()
    }

    /// Deletes it, whoever else has handles on it: their calls say [`DdsError::AlreadyDeleted`] from then on, those that wait
    /// included. Dropping the last handle does the same.
    pub fn delete(self) {
        self.end();
        self.participant.engine.nudge();
    }
}

impl<T: TopicData> WriterCore<T> {
    /// What it is to be; none once it is enabled.
    pub(super) fn draft(&self) -> MutexGuard<'_, Option<Draft>> {
        self.draft.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What its participant calls it.
    pub(super) fn id(&self) -> u64 {
        self.started.get().map_or(self.provisional, |started| started.id)
    }

    /// An error unless it is enabled.
    #[inline]
    pub(super) fn check_enabled(&self) -> DdsResult<()> {
        if self.lifecycle.is_enabled() { Ok(()) } else { self.refuse() }
    }

    #[cold]
    fn refuse(&self) -> DdsResult<()> {
        self.lifecycle.check(format_args!("a writer of `{}`", self.topic.name()))
    }

    /// An error if it is deleted.
    pub(super) fn check_there(&self) -> DdsResult<()> {
        self.lifecycle.check_there(format_args!("a writer of `{}`", self.topic.name()))
    }

    /// The policies around its own.
    pub(super) fn publisher_qos(&self) -> PublisherQos {
        self.publisher.as_ref().map_or_else(policies::publisher, Publisher::qos)
    }

    /// Whether it is enabled as it is made.
    pub(super) fn is_enabled_at_once(&self) -> bool {
        let by = match &self.publisher {
            Some(publisher) => publisher.entity().enables(),
            None => self.participant.enables(),
        };
        by && self.topic.is_enabled()
    }

    /// Enables it: announces it, with memory to write in.
    pub(super) fn enable(&self) -> DdsResult<()> {
        let mut draft = self.draft();
        self.check_there()?;
        let Some(to_be) = &*draft else { return Ok(()) };
        match &self.publisher {
            Some(publisher) => publisher.entity().check_enables()?,
            None => self.participant.check_enables()?,
        }
        if !self.topic.is_enabled() {
            return Err(not_yet(&format!("its topic `{}`", self.topic.name())));
        }
        let started = self.start(to_be)?;
        if let Some(following) = to_be.following.clone() {
            let topic = self.topic.policies();
            self.participant.profiles.note_endpoint(started.id, topic, following);
        }
        self.started.get_or_init(|| started);
        self.lifecycle.enable();
        *draft = None;
        Ok(())
    }

    fn start(&self, to_be: &Draft) -> DdsResult<Started> {
        let Draft { qos, memory, in_flight, largest, .. } = to_be;
        let (qos, topic, group) = (qos.clone(), &self.topic, self.publisher_qos());
        check(topic, &qos, &group)?;
        if let Some(publisher) = &self.publisher {
            publisher.changes().agree(&group.presentation);
        }
        let level = topic.level();
        let blocking = Option::<std::time::Duration>::from(qos.reliability.max_blocking_time);
        let mut endpoint = topic
            .endpoint(EndpointKind::Writer, Policies::Offered { writer: qos, publisher: group });
        endpoint.group = self.publisher.as_ref().map_or(0, Publisher::group);
        let entries = match level.is_ordered() {
            true => in_flight.saturating_add(in_flight.div_ceil(7)),
            false => *in_flight,
        };
        let terms = terms_of(&endpoint);
        let has_names = self.publisher.is_some();
        let names = if has_names { terms.size().max(ROOM_FOR_NAMES) } else { STRENGTH };
        // A deadline may be set later. The largest sample may be in a set.
        let in_set =
            self.publisher.as_ref().is_some_and(|publisher| publisher.changes().is_coherent());
        let overhead = HEADER + names + KEY + if in_set { set::footprint(HEADER) } else { 0 };
        let geometry = Geometry::fitting(*memory, entries, largest.saturating_add(overhead))
            .ok_or_else(|| {
                DdsError::BadParameter(format!(
                    "a writer of `{}` cannot keep {memory} bytes in {in_flight} samples of up to \
                     {largest} bytes: the limits are 2^20 samples and 1 GiB for one",
                    topic.name()
                ))
            })?;
        self.shared.set_policies(&endpoint.policies, terms);
        if let Policies::Offered { writer, .. } = &*endpoint.policies {
            self.shared.vigil.promise(writer, clock::now());
        }
        let machine_share = Arc::clone(&self.shared);
        let made = self.participant.engine.act(|machine, link, effects| {
            machine.add_writer(link, endpoint, geometry, machine_share, effects)
        });
        let (id, first) = made.map_err(|refusal| {
            refused(&refusal, &self.participant.standing, "writer", topic.name())
        })?;
        let max_blocking = blocking.map_or(Timeout::FOREVER, Timeout::from);
        Ok(Started { first, id, max_blocking, kept: level.is_kept() })
    }

    /// It writes no more, and nobody hears of it any more.
    pub(super) fn end(&self) {
        // Whoever enables it is done.
        let draft = self.draft();
        let was_enabled = self.lifecycle.delete();
        drop(draft);
        if was_enabled == Some(true) {
            let id = self.id();
            self.participant.profiles.forget(id);
            self.participant.engine.act(|machine, _, effects| machine.remove_writer(id, effects));
        }
    }
}
