//! Policies and statuses of a reader.
//!
//! Owns: the calls that return them. Never does: count; the machine and the cache do.

use std::sync::{Arc, PoisonError, Weak};

use idl_xtypes::TopicData;
use qos_profiles::DataReaderQos;

use super::data_available::DataStatus;
use super::enabling::check;
use super::intake::ReaderCore;
use super::reader::DataReader;
use super::subscriber::Subscriber;
use crate::domain::PublicationBuiltinTopicData;
use crate::infrastructure::{
    DdsError, DdsResult, IncompatibleQosStatus, InstanceHandle, LivelinessChangedStatus,
    RequestedDeadlineMissedStatus, SampleLostStatus, StatusCondition, StatusKind, StatusMask,
    SubscriptionMatchedStatus, immutable,
};
use crate::mapping::policies::EndpointPolicies;
use crate::topic::PolicyOwner;

/// Policies and statuses. Reading a status resets its change counts.
impl<T: TopicData> DataReader<T> {
    /// The reader's policies.
    #[doc(alias = "get_qos")]
    pub fn qos(&self) -> DataReaderQos {
        if let Some(draft) = &*self.enabling.draft() {
            return draft.qos.clone();
        }
        let policies =
            self.participant.engine.act(|machine, _, _| machine.policies(self.enabling.id()));
        match policies.as_deref() {
            Some(EndpointPolicies::Requested { reader, .. }) => reader.clone(),
            _ => DataReaderQos::default(),
        }
    }

    /// Sets the reader's policies. Before the reader is enabled all policies may change, afterwards
    /// only those that the standard allows.
    ///
    /// # Errors
    /// [`DdsError::ImmutablePolicy`] if a policy differs that may not change;
    /// [`DdsError::InconsistentPolicy`] if policies contradict each other.
    pub fn set_qos(&self, qos: &DataReaderQos) -> DdsResult<()> {
        self.enabling.check_there()?;
        let qos = &mut qos.clone();
        self.topic
            .policies()
            .settle_representation(PolicyOwner::Reader, &mut qos.representation)?;
        if let Some(draft) = &mut *self.enabling.draft() {
            let group =
                self.subscriber.as_ref().map_or_else(|| draft.group.clone(), Subscriber::qos);
            check(&self.topic, qos, &group)?;
            draft.qos.clone_from(qos);
            return Ok(());
        }
        immutable("reader", &self.qos().immutable_changes(qos))?;
        if let Some(wrong) = qos.inconsistencies().first() {
            let wrong = format!("a reader of `{}`: {wrong}", self.topic.name());
            return Err(DdsError::InconsistentPolicy(wrong));
        }
        let changed = self.participant.engine.act(|machine, _, _| {
            machine.change(self.enabling.id(), |policies| {
                if let EndpointPolicies::Requested { reader, .. } = policies {
                    reader.clone_from(qos);
                }
            })
        });
        changed.map_err(DdsError::BadParameter)?;
        self.follow_policies(qos);
        Ok(())
    }

    /// The subscriber of the reader, unless the reader belongs directly to the participant.
    #[doc(alias = "get_subscriber")]
    pub fn subscriber(&self) -> Option<&Subscriber> {
        self.subscriber.as_ref()
    }

    /// SUBSCRIPTION_MATCHED: present writers that offer what the reader requests, including writers
    /// of its own participant.
    #[doc(alias = "get_subscription_matched_status")]
    pub fn subscription_matched_status(&self) -> SubscriptionMatchedStatus {
        let board = &self.shared.board;
        board.take(StatusKind::SubscriptionMatched, |all| &mut all.subscription_matched)
    }

    /// REQUESTED_INCOMPATIBLE_QOS: writers that offer less than the reader requests.
    #[doc(alias = "get_requested_incompatible_qos_status")]
    pub fn requested_incompatible_qos_status(&self) -> IncompatibleQosStatus {
        let board = &self.shared.board;
        board.take(StatusKind::RequestedIncompatibleQos, |all| &mut all.incompatible_qos)
    }

    /// SAMPLE_LOST: samples of matched writers that the reader did not receive, because it is a
    /// [best-effort reader](crate::subscription::DataReaderBuilder::best_effort) of an unordered
    /// topic. The samples were overwritten before the reader looked, or the reader had no room for
    /// them. A coherent set counts as one sample.
    #[doc(alias = "get_sample_lost_status")]
    pub fn sample_lost_status(&self) -> SampleLostStatus {
        self.shared.board.take(StatusKind::SampleLost, |all| &mut all.sample_lost)
    }

    /// REQUESTED_DEADLINE_MISSED: number of times that an instance was not written again within
    /// DEADLINE. After an instance is disposed, or a writer has unregistered it, its deadline does
    /// not run until it is written again.
    #[doc(alias = "get_requested_deadline_missed_status")]
    pub fn requested_deadline_missed_status(&self) -> RequestedDeadlineMissedStatus {
        self.look();
        let board = &self.shared.board;
        board.take(StatusKind::RequestedDeadlineMissed, |all| &mut all.requested_deadline_missed)
    }

    /// LIVELINESS_CHANGED: number of matched writers that are alive, and of those whose application
    /// has not asserted liveliness in time. A writer whose process dies is no longer matched.
    #[doc(alias = "get_liveliness_changed_status")]
    pub fn liveliness_changed_status(&self) -> LivelinessChangedStatus {
        let board = &self.shared.board;
        board.take(StatusKind::LivelinessChanged, |all| &mut all.liveliness_changed)
    }

    /// Brings queued records into the cache, if the reader has a cache.
    fn look(&self) {
        if self.cache.get().is_some() {
            drop(self.cache());
        }
    }

    /// The writers that the reader is matched with.
    #[doc(alias = "get_matched_publications")]
    pub fn matched_publications(&self) -> Vec<InstanceHandle> {
        self.participant.engine.act(|machine, _, _| machine.partners(self.enabling.id()))
    }

    /// Discovery data of a matched writer.
    ///
    /// # Errors
    /// [`DdsError::BadParameter`] if the reader is not, or no longer, matched with a writer of
    /// this name.
    #[doc(alias = "get_matched_publication_data")]
    pub fn matched_publication_data(
        &self,
        publication: InstanceHandle,
    ) -> DdsResult<PublicationBuiltinTopicData> {
        self.enabling.check()?;
        let (engine, own) = (&self.participant.engine, self.enabling.id());
        let known = engine.act(|machine, _, _| machine.partner(own, publication));
        known.and_then(PublicationBuiltinTopicData::new).ok_or_else(|| {
            DdsError::BadParameter(format!(
                "{publication} is not a writer that this reader of `{}` is matched with: the \
                 writer may have left",
                self.topic.name()
            ))
        })
    }

    /// The statuses that have changed since they were read. DATA_AVAILABLE means that unread
    /// samples have come since it was reset: by a call that reads or takes samples of this reader,
    /// even if the call leaves some, or by the call of `on_data_available`.
    #[doc(alias = "get_status_changes")]
    pub fn status_changes(&self) -> StatusMask {
        self.core.changed()
    }

    /// Applies these policies to the cache. Starts a cache if the policies require one.
    fn follow_policies(&self, qos: &DataReaderQos) {
        let settings = self.settings.lock().unwrap_or_else(PoisonError::into_inner).changed_to(qos);
        if self.cache.get().is_some() || !settings.keep_all_as_they_come() {
            drop(self.cache());
        }
    }

    /// Condition that holds while an enabled status has changed and was not read since. The
    /// condition does not keep the reader alive.
    pub fn status_condition(&self) -> StatusCondition {
        let made = || {
            let core: Weak<ReaderCore<T>> = Arc::downgrade(&self.core);
            let changes = move || core.upgrade().map_or(StatusMask::NONE, |core| core.changed());
            let core: Weak<ReaderCore<T>> = Arc::downgrade(&self.core);
            let next_look = move || core.upgrade().and_then(|core| core.next_look());
            let core: Weak<ReaderCore<T>> = Arc::downgrade(&self.core);
            let entity = move || core.upgrade().map(|core| core.name_in_domain());
            let participant = Arc::clone(&self.participant);
            StatusCondition::with_next_check(entity, changes, next_look, participant)
        };
        self.status_condition.get_or_init(made).clone()
    }
}

impl<T: TopicData> ReaderCore<T> {
    pub(super) fn name_in_domain(&self) -> InstanceHandle {
        self.participant.membership.handle(self.enabling.id())
    }

    /// The statuses that have changed since they were read.
    pub(super) fn changed(&self) -> StatusMask {
        // This comes first: records that it brings into the cache may change other statuses.
        let has_changed = self.has_news(DataStatus::Available);
        let changes = self.shared.board.changes();
        if has_changed { changes | StatusKind::DataAvailable } else { changes }
    }
}
