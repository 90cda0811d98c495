//! The writer's calls for its policies and statuses.
//!
//! Owns: the calls. Never does: count; the machine does.

use std::sync::Arc;

use idl_xtypes::TopicData;
use qos_profiles::DataWriterQos;

use super::builder::check;
use super::publisher::Publisher;
use super::writer::DataWriter;
use crate::domain::SubscriptionBuiltinTopicData;
use crate::infrastructure::{
    DdsError, DdsResult, IncompatibleQosStatus, InstanceHandle, LivelinessLostStatus,
    OfferedDeadlineMissedStatus, PublicationMatchedStatus, StatusCondition, StatusKind, StatusMask,
    immutable,
};
use crate::mapping::policies::EndpointPolicies;
use crate::topic::PolicyOwner;

/// Policies and statuses. Reading a status resets its change counters.
///
/// ```no_run
/// use dds_api::infrastructure::{StatusKind, WaitSet};
/// use dds_api::prelude::*;
/// # #[derive(DdsType, Clone, Debug, Default)]
/// # struct Thrust { newtons: f64 }
///
/// # fn watch(writer: &DataWriter<Thrust>) -> DdsResult<()> {
/// let condition = writer.status_condition();
/// condition.set_enabled_statuses(
///     StatusKind::PublicationMatched | StatusKind::OfferedIncompatibleQos,
/// );
/// let wait_set = WaitSet::new();
/// wait_set.attach(&condition)?;
/// wait_set.wait(Timeout::secs(10))?;
/// let matched = writer.publication_matched_status();
/// println!("{} readers, {:+}", matched.current_count, matched.current_count_change);
/// let refused = writer.offered_incompatible_qos_status();
/// if let Some(reason) = refused.last_reason {
///     println!("{} readers ask for more than is offered: {reason}", refused.total_count);
/// }
/// # Ok(())
/// # }
/// ```
impl<T: TopicData> DataWriter<T> {
    /// The writer's policies.
    #[doc(alias = "get_qos")]
    pub fn qos(&self) -> DataWriterQos {
        if let Some(draft) = &*self.enabling.draft() {
            return draft.qos.clone();
        }
        let policies =
            self.participant.engine.act(|machine, _, _| machine.policies(self.enabling.id()));
        match policies.as_deref() {
            Some(EndpointPolicies::Offered { writer, .. }) => writer.clone(),
            _ => DataWriterQos::default(),
        }
    }

    /// Changes the policies. On an enabled writer only changeable policies may differ; before
    /// enabling, any may. Policies that are carried by samples apply from the next sample on.
    /// Readers are matched again when they receive the changed announcement.
    ///
    /// # Errors
    /// [`DdsError::ImmutablePolicy`] if an unchangeable policy differs;
    /// [`DdsError::InconsistentPolicy`] if the policies contradict each other.
    pub fn set_qos(&self, qos: &DataWriterQos) -> DdsResult<()> {
        self.enabling.check_there()?;
        let qos = &mut qos.clone();
        self.topic
            .policies()
            .settle_representation(PolicyOwner::Writer, &mut qos.representation)?;
        check(&self.topic, qos, &self.publisher_qos())?;
        if let Some(draft) = &mut *self.enabling.draft() {
            draft.qos.clone_from(qos);
            return Ok(());
        }
        immutable("writer", &self.qos().immutable_changes(qos))?;
        let changed = self.participant.engine.act(|machine, _, _| {
            machine.change(self.enabling.id(), |policies| {
                if let EndpointPolicies::Offered { writer, .. } = policies {
                    writer.clone_from(qos);
                }
            })
        });
        changed.map_err(DdsError::BadParameter)
    }

    /// The publisher that the writer belongs to, unless that is the participant's implicit one.
    #[doc(alias = "get_publisher")]
    pub fn publisher(&self) -> Option<&Publisher> {
        self.publisher.as_ref()
    }

    /// PUBLICATION_MATCHED: existing readers that request no more than the writer offers, including
    /// readers of the same participant.
    #[doc(alias = "get_publication_matched_status")]
    pub fn publication_matched_status(&self) -> PublicationMatchedStatus {
        let board = &self.shared.board;
        board.take(StatusKind::PublicationMatched, |all| &mut all.publication_matched)
    }

    /// OFFERED_INCOMPATIBLE_QOS: readers that request more than the writer offers.
    #[doc(alias = "get_offered_incompatible_qos_status")]
    pub fn offered_incompatible_qos_status(&self) -> IncompatibleQosStatus {
        let board = &self.shared.board;
        board.take(StatusKind::OfferedIncompatibleQos, |all| &mut all.incompatible_qos)
    }

    /// OFFERED_DEADLINE_MISSED: how often an instance was not written again within DEADLINE.
    /// Disposed and unregistered instances do not count.
    #[doc(alias = "get_offered_deadline_missed_status")]
    pub fn offered_deadline_missed_status(&self) -> OfferedDeadlineMissedStatus {
        let board = &self.shared.board;
        board.take(StatusKind::OfferedDeadlineMissed, |all| &mut all.offered_deadline_missed)
    }

    /// LIVELINESS_LOST: how often the application did not assert its liveliness
    /// within LIVELINESS.lease_duration.
    #[doc(alias = "get_liveliness_lost_status")]
    pub fn liveliness_lost_status(&self) -> LivelinessLostStatus {
        let board = &self.shared.board;
        board.take(StatusKind::LivelinessLost, |all| &mut all.liveliness_lost)
    }

    /// Handles of the matched readers.
    #[doc(alias = "get_matched_subscriptions")]
    pub fn matched_subscriptions(&self) -> Vec<InstanceHandle> {
        self.participant.engine.act(|machine, _, _| machine.partners(self.enabling.id()))
    }

    /// Discovery data of a matched reader.
    ///
    /// # Errors
    /// [`DdsError::BadParameter`] if no reader of this handle is currently matched.
    #[doc(alias = "get_matched_subscription_data")]
    pub fn matched_subscription_data(
        &self,
        subscription: InstanceHandle,
    ) -> DdsResult<SubscriptionBuiltinTopicData> {
        self.enabling.check()?;
        let (engine, own) = (&self.participant.engine, self.enabling.id());
        let known = engine.act(|machine, _, _| machine.partner(own, subscription));
        known.and_then(SubscriptionBuiltinTopicData::new).ok_or_else(|| {
            DdsError::BadParameter(format!(
                "{subscription} is not a reader that this writer of `{}` is matched with: the \
                 reader may have left",
                self.topic.name()
            ))
        })
    }

    /// The statuses that have changed since they were last read.
    #[doc(alias = "get_status_changes")]
    pub fn status_changes(&self) -> StatusMask {
        self.shared.board.changes()
    }

    /// A condition that holds while one of its enabled statuses has changed and was not read since.
    #[doc(alias = "get_statuscondition")]
    pub fn status_condition(&self) -> StatusCondition {
        let made = || {
            let (shared, participant) = (Arc::clone(&self.shared), Arc::clone(&self.participant));
            let writer = self.downgrade();
            let entity = move || writer.upgrade().map(|writer| writer.name_in_domain());
            StatusCondition::new(entity, move || shared.board.changes(), participant)
        };
        self.status_condition.get_or_init(made).clone()
    }
}
