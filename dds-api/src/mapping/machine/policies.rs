//! Changes of the policies of this participant's enabled endpoints.
//!
//! Owns: the notification of a policy change, and of a broken deadline or lease. Never does: decide
//! whether a policy may change; the entities do.

use std::sync::Arc;

use derecho_core::ids::Time;
use derecho_core::multicast::claim::ClaimError;
use derecho_node::clock;
use qos_profiles::Duration;

use super::{LocalWriter, ParticipantMachine, announce};
use crate::infrastructure::InstanceHandle;
use crate::infrastructure::status::StatusKind;
use crate::infrastructure::status_board::StatusBoard;
use crate::mapping::endpoint::{Endpoint, EndpointKind};
use crate::mapping::order::shard;
use crate::mapping::partners::MatchedPartners;
use crate::mapping::policies::{EndpointPolicies, LONGEST_ANNOUNCEMENT};
use crate::mapping::record::{NoticeRecord, PolicyMetadata, RecordedOffer, WriterNotice};
use crate::mapping::timeliness::TimelinessCheck;

impl ParticipantMachine {
    /// A new id for a publisher or subscriber.
    pub(crate) fn fresh_group(&mut self) -> u64 {
        self.fresh_endpoint()
    }

    /// Endpoints of a publisher or subscriber.
    fn of_group(&self, group: u64) -> Vec<u64> {
        let readers = self.readers.iter().map(|(id, reader)| (id, &reader.endpoint));
        let all = readers.chain(self.writers.iter().map(|(id, writer)| (id, &writer.endpoint)));
        all.filter(|(_, endpoint)| endpoint.group == group).map(|(id, _)| *id).collect()
    }

    /// Policies that an endpoint offers or requests.
    pub(crate) fn policies(&self, id: u64) -> Option<Arc<EndpointPolicies>> {
        let own = self.own(id).map(|endpoint| &endpoint.policies);
        own.or_else(|| Some(&self.sinks.get(&id)?.policies)).cloned()
    }

    /// Endpoints that are matched with a local one.
    pub(crate) fn partners(&self, id: u64) -> Vec<InstanceHandle> {
        let reader = self.readers.get(&id).map(|reader| &reader.partners);
        let partners = reader.or_else(|| self.writers.get(&id).map(|writer| &writer.partners));
        let matched = partners.into_iter().flat_map(MatchedPartners::matched);
        matched.collect()
    }

    /// Changes the policies of all endpoints of a publisher or subscriber, or of none. The error
    /// says why.
    pub(crate) fn change_group(
        &mut self,
        group: u64,
        change: impl Fn(&mut EndpointPolicies),
    ) -> Result<(), String> {
        let ids = self.of_group(group);
        ids.iter().try_for_each(|id| self.changed(*id, &change).map(drop))?;
        ids.into_iter().try_for_each(|id| self.change(id, &change))
    }

    /// An endpoint in its state after a change.
    fn changed(&self, id: u64, change: impl Fn(&mut EndpointPolicies)) -> Result<Endpoint, String> {
        let Some(known) = self.own(id) else { return Err("the endpoint is deleted".to_owned()) };
        let mut endpoint = known.clone();
        change(Arc::make_mut(&mut endpoint.policies));
        if endpoint.order.is_by_partition()
            && shard(endpoint.policies.partition()) != shard(known.policies.partition())
        {
            return Err(format!(
                "PARTITION cannot change, because it selects the shard of topic `{}`, which is \
                 sharded by partition: create another writer or reader",
                endpoint.topic
            ));
        }
        check_length(&endpoint)?;
        Ok(endpoint)
    }

    /// Changes the policies of an endpoint. The error says why they cannot change.
    pub(crate) fn change(
        &mut self,
        id: u64,
        change: impl Fn(&mut EndpointPolicies),
    ) -> Result<(), String> {
        if let Some(listener) = self.sinks.get_mut(&id) {
            change(Arc::make_mut(&mut listener.policies));
            listener.shared.set_policies(&listener.policies);
            return Ok(());
        }
        let endpoint = self.changed(id, change)?;
        if let Some(writer) = self.writers.get_mut(&id) {
            writer.shared.set_policies(&endpoint.policies, policy_metadata_of(&endpoint));
            if let EndpointPolicies::Offered { writer: qos, .. } = &*endpoint.policies
                && qos.deadline.period != offered_deadline(&writer.endpoint.policies)
            {
                writer.shared.timeliness.set_policies(qos, clock::now());
            }
            writer.endpoint.policies = Arc::clone(&endpoint.policies);
        } else if let Some(reader) = self.readers.get_mut(&id) {
            reader.endpoint.policies = Arc::clone(&endpoint.policies);
            reader.shared.set_policies(&endpoint.policies);
        }
        self.announce_anew(id, endpoint);
        self.schedule_timeliness();
        Ok(())
    }

    /// Announces the new state of an endpoint.
    fn announce_anew(&mut self, id: u64, endpoint: Endpoint) {
        match endpoint.level.is_ordered() {
            true => self.atomic.change(&mut self.group, id, endpoint),
            false => announce(&mut self.group, id, endpoint),
        }
        self.match_own(id);
    }
}

/// DEADLINE of a writer.
fn offered_deadline(policies: &EndpointPolicies) -> Duration {
    match policies {
        EndpointPolicies::Offered { writer, .. } => writer.deadline.period,
        EndpointPolicies::Requested { .. } => Duration::INFINITE,
    }
}

impl ParticipantMachine {
    /// Schedules a check of deadlines and leases in the next turn, because one may be due earlier
    /// than known.
    pub(crate) fn schedule_timeliness(&mut self) {
        self.timeliness_check_at = Some(Time::default());
    }

    /// Checks the writers' deadlines and leases.
    pub(super) fn check_timeliness(&mut self, now: Time) -> usize {
        if self.timeliness_check_at.take_if(|at| now >= *at).is_none() {
            return 0;
        }
        let looks: Vec<(u64, TimelinessCheck)> = self
            .writers
            .iter()
            .filter(|(_, writer)| writer.shared.timeliness.is_kept())
            .map(|(id, writer)| {
                let write = |notice| writer.write_notice(*id, notice);
                (*id, writer.shared.timeliness.check(now, write))
            })
            .collect();
        looks.into_iter().map(|(id, due)| self.report_timeliness(id, &due)).sum()
    }

    /// Posts and announces what is due for a writer. Returns the number of posted changes.
    fn report_timeliness(&mut self, id: u64, due: &TimelinessCheck) -> usize {
        self.timeliness_check_at = self.timeliness_check_at.into_iter().chain(due.next).min();
        let Some(writer) = self.writers.get_mut(&id) else { return 0 };
        let changes = tell(&writer.shared.board, due);
        if let Some(is_alive) = due.is_alive {
            writer.endpoint.alive = is_alive;
            let endpoint = writer.endpoint.clone();
            self.announce_anew(id, endpoint);
        }
        changes
    }
}

impl LocalWriter {
    /// Writes a notice into the writer's stream. `false` if there is no room for it.
    fn write_notice(&self, id: u64, notice: WriterNotice) -> bool {
        let tag = self.shared.policy_metadata().tag;
        let record = NoticeRecord::new(id, notice, tag, self.endpoint.level.is_kept());
        match self.memory.write_notice(&record) {
            Err(ClaimError::Full) => return false,
            // The memory of this writer takes no notices at all.
            Err(ClaimError::TooLong { .. }) => {}
            Ok(()) => self.memory.memory.hurry(),
        }
        true
    }
}

/// Posts missed deadlines and lost leases. Returns 1 if there was any change.
fn tell(board: &StatusBoard, due: &TimelinessCheck) -> usize {
    if due.missed.count > 0 {
        board.note(StatusKind::OfferedDeadlineMissed, |all| {
            all.offered_deadline_missed.count(due.missed.count);
            let instance = InstanceHandle::of_instance(due.missed.last);
            all.offered_deadline_missed.last_instance_handle = Some(instance);
        });
    }
    if due.is_alive == Some(false) {
        board.note(StatusKind::LivelinessLost, |all| all.liveliness_lost.count(1));
    }
    usize::from(*due != TimelinessCheck { next: due.next, ..TimelinessCheck::default() })
}

/// Checks whether an endpoint can be announced (I-182). The error says why not.
pub(super) fn check_length(endpoint: &Endpoint) -> Result<(), String> {
    let length = endpoint.encode().len();
    match length > LONGEST_ANNOUNCEMENT {
        true => Err(format!(
            "the announcement has {length} bytes, more than the maximum of {LONGEST_ANNOUNCEMENT}: \
             use less USER_DATA, GROUP_DATA or PARTITION"
        )),
        false => Ok(()),
    }
}

/// Policy metadata of a writer's samples.
pub(crate) fn policy_metadata_of(endpoint: &Endpoint) -> PolicyMetadata {
    let EndpointPolicies::Offered { writer, publisher } = &*endpoint.policies else {
        return PolicyMetadata::default();
    };
    let names_them = endpoint.kind == EndpointKind::Writer && endpoint.level.is_ordered();
    let partition = PolicyMetadata::names(&publisher.partition)
        .filter(|_| names_them && !endpoint.order.is_by_partition());
    let keyed = !writer.deadline.period.is_infinite();
    let (offer, tag) = (RecordedOffer::of(writer, publisher), endpoint.order.tag(&endpoint.topic));
    // The lifespan of a topic whose samples are kept applies to all samples in any case.
    let is_topics = |lifespan: &u64| *lifespan > 0 && *lifespan == endpoint.retention.lifespan;
    let lifespan = writer.lifespan.duration.nanos().filter(|lifespan| !is_topics(lifespan));
    PolicyMetadata {
        strength: writer.ownership_strength.value,
        partition,
        keyed,
        offer,
        tag,
        lifespan,
    }
}

#[cfg(test)]
mod tests {
    use qos_profiles::{DataWriterQos, PublisherQos};

    use super::*;
    use crate::mapping::level::TopicLevel;

    fn seconds(seconds: u32) -> Duration {
        Duration::from_secs(seconds)
    }

    /// A writer with these policies.
    fn writer(
        level: TopicLevel,
        change: impl FnOnce(&mut DataWriterQos, &mut PublisherQos),
    ) -> Endpoint {
        let (mut writer, mut publisher) = (DataWriterQos::default(), PublisherQos::default());
        change(&mut writer, &mut publisher);
        let policies = Arc::new(EndpointPolicies::Offered { writer, publisher });
        Endpoint { policies, ..Endpoint::with_defaults(EndpointKind::Writer, "Attitude", level) }
    }

    #[test]
    fn only_samples_of_ordered_topics_carry_partitions_of_their_writer() {
        let left = |level| writer(level, |_, all| all.partition.name = vec!["left".to_owned()]);
        assert!(
            policy_metadata_of(&left(TopicLevel::Unordered)).partition.is_none(),
            "readers know the partition of the stream"
        );
        let mut atomic = left(TopicLevel::Atomic);
        assert_eq!(policy_metadata_of(&atomic).partition.as_deref(), Some(&b"left"[..]));
        // A reader's samples do not exist, so it has no policy metadata.
        atomic.kind = EndpointKind::Reader;
        assert!(policy_metadata_of(&atomic).partition.is_none());
    }

    #[test]
    fn samples_carry_keys_if_their_writer_offers_a_deadline() {
        let every = |period| writer(TopicLevel::Unordered, |qos, _| qos.deadline.period = period);
        assert!(
            policy_metadata_of(&every(seconds(1))).keyed
                && !policy_metadata_of(&every(Duration::INFINITE)).keyed
        );
        assert_eq!(offered_deadline(&every(seconds(1)).policies), seconds(1));
        let default =
            Endpoint::with_defaults(EndpointKind::Reader, "Attitude", TopicLevel::Unordered);
        assert!(offered_deadline(&default.policies).is_infinite());
    }

    /// If a topic keeps samples, its own lifespan applies to all of them.
    #[test]
    fn samples_carry_their_lifespan_unless_their_topic_sets_it() {
        let lasting = |lifespan, of_topic| {
            let mut endpoint =
                writer(TopicLevel::Atomic, |qos, _| qos.lifespan.duration = lifespan);
            endpoint.retention.lifespan = of_topic;
            policy_metadata_of(&endpoint).lifespan
        };
        assert_eq!(lasting(Duration::INFINITE, 0), None);
        assert_eq!(lasting(seconds(1), 0), Some(1_000_000_000));
        assert_eq!(lasting(seconds(1), 2_000_000_000), Some(1_000_000_000));
        assert_eq!(lasting(seconds(2), 2_000_000_000), None);
        // If a topic has no lifespan or keeps no samples, its zero does not hide a writer's
        // lifespan of zero.
        assert_eq!(lasting(Duration::ZERO, 0), Some(0));
    }

    #[test]
    fn announcement_above_size_limit_is_refused() {
        let with_user_data = |bytes: usize| {
            check_length(&writer(TopicLevel::Unordered, |qos, _| {
                qos.user_data.value = vec![7; bytes]
            }))
        };
        let default_length = writer(TopicLevel::Unordered, |_, _| ()).encode().len();
        assert!(with_user_data(LONGEST_ANNOUNCEMENT - 2 * default_length).is_ok());
        let why = with_user_data(LONGEST_ANNOUNCEMENT).unwrap_err();
        assert!(why.contains("use less USER_DATA"), "{why}");
    }

    #[test]
    fn broken_deadline_and_lease_are_reported_but_next_check_time_is_not() {
        let board = StatusBoard::default();
        assert_eq!(tell(&board, &TimelinessCheck::default()), 0);
        assert_eq!(
            tell(&board, &TimelinessCheck { next: Some(Time(7)), ..TimelinessCheck::default() }),
            0
        );
        assert!(board.changes().is_empty());
        assert_eq!(
            tell(&board, &TimelinessCheck { is_alive: Some(true), ..TimelinessCheck::default() }),
            1
        );
        assert!(board.changes().is_empty(), "writer is alive");
        assert_eq!(
            tell(&board, &TimelinessCheck { is_alive: Some(false), ..TimelinessCheck::default() }),
            1
        );
        let mut due = TimelinessCheck { next: Some(Time(7)), ..TimelinessCheck::default() };
        due.missed.count = 3;
        due.missed.last = 5;
        assert_eq!(tell(&board, &due), 1);
        let missed =
            board.take(StatusKind::OfferedDeadlineMissed, |all| &mut all.offered_deadline_missed);
        assert_eq!(missed.total_count, 3);
        assert_eq!(missed.last_instance_handle, Some(InstanceHandle::of_instance(5)));
        let lost = board.take(StatusKind::LivelinessLost, |all| &mut all.liveliness_lost);
        assert_eq!(lost.total_count, 1);
    }
}
