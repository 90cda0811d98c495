//! What is known of the entities of a domain, in the standard's words: the data of its builtin topics.
//!
//! Owns: the four forms. Never does: find out anything; discovery does.

use qos_profiles::{
    DataReaderQos, DataRepresentationQosPolicy, DataWriterQos, DeadlineQosPolicy,
    DestinationOrderQosPolicy, DurabilityQosPolicy, DurabilityServiceQosPolicy, GroupDataQosPolicy,
    HistoryQosPolicy, LatencyBudgetQosPolicy, LifespanQosPolicy, LivelinessQosPolicy,
    OwnershipQosPolicy, OwnershipStrengthQosPolicy, PartitionQosPolicy, PresentationQosPolicy,
    PublisherQos, ReliabilityQosPolicy, ResourceLimitsQosPolicy, SubscriberQos,
    TimeBasedFilterQosPolicy, TopicDataQosPolicy, TopicQos, TransportPriorityQosPolicy,
    TypeConsistencyEnforcementQosPolicy, UserDataQosPolicy,
};

use crate::infrastructure::InstanceHandle;
use crate::mapping::directory::{Known, ParticipantFacts, TopicFacts};
use crate::mapping::policies::Policies;

/// What is known of an entity, with its policies of these kinds.
macro_rules! data {
    (
        $(#[$doc:meta])* $name:ident {
            $($(#[$field_doc:meta])* $field:ident: $ty:ty,)*
            ;
            $($policy:ident: $policy_type:ident,)*
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Debug)]
        #[non_exhaustive]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $ty,)*
            $(
                #[doc = concat!("The [", stringify!($policy_type), "].")]
                pub $policy: $policy_type,
            )*
        }
    };
}

data! {
    /// What is known of a participant: see [`DomainParticipant::discovered_participant_data`](super::DomainParticipant::discovered_participant_data).
    ParticipantBuiltinTopicData {
        /// Its name in the domain.
        key: InstanceHandle,
        ;
        user_data: UserDataQosPolicy,
    }
}

data! {
    /// What is known of a topic: see [`DomainParticipant::discovered_topic_data`](super::DomainParticipant::discovered_topic_data).
    TopicBuiltinTopicData {
        /// Its name in the domain.
        key: InstanceHandle,
        /// Its name.
        name: String,
        /// The name of its type.
        type_name: String,
        ;
        durability: DurabilityQosPolicy,
        durability_service: DurabilityServiceQosPolicy,
        deadline: DeadlineQosPolicy,
        latency_budget: LatencyBudgetQosPolicy,
        liveliness: LivelinessQosPolicy,
        reliability: ReliabilityQosPolicy,
        transport_priority: TransportPriorityQosPolicy,
        lifespan: LifespanQosPolicy,
        destination_order: DestinationOrderQosPolicy,
        history: HistoryQosPolicy,
        resource_limits: ResourceLimitsQosPolicy,
        ownership: OwnershipQosPolicy,
        topic_data: TopicDataQosPolicy,
        representation: DataRepresentationQosPolicy,
    }
}

data! {
    /// What is known of a writer: see [`DataReader::matched_publication_data`](crate::subscription::DataReader::matched_publication_data).
    PublicationBuiltinTopicData {
        /// Its name in the domain.
        key: InstanceHandle,
        /// That of its participant.
        participant_key: InstanceHandle,
        /// The name of its topic.
        topic_name: String,
        /// The name of its type.
        type_name: String,
        ;
        durability: DurabilityQosPolicy,
        durability_service: DurabilityServiceQosPolicy,
        deadline: DeadlineQosPolicy,
        latency_budget: LatencyBudgetQosPolicy,
        liveliness: LivelinessQosPolicy,
        reliability: ReliabilityQosPolicy,
        lifespan: LifespanQosPolicy,
        user_data: UserDataQosPolicy,
        ownership: OwnershipQosPolicy,
        ownership_strength: OwnershipStrengthQosPolicy,
        destination_order: DestinationOrderQosPolicy,
        presentation: PresentationQosPolicy,
        partition: PartitionQosPolicy,
        topic_data: TopicDataQosPolicy,
        group_data: GroupDataQosPolicy,
        representation: DataRepresentationQosPolicy,
    }
}

data! {
    /// What is known of a reader: see [`DataWriter::matched_subscription_data`](crate::publication::DataWriter::matched_subscription_data).
    SubscriptionBuiltinTopicData {
        /// Its name in the domain.
        key: InstanceHandle,
        /// That of its participant.
        participant_key: InstanceHandle,
        /// The name of its topic.
        topic_name: String,
        /// The name of its type.
        type_name: String,
        ;
        durability: DurabilityQosPolicy,
        deadline: DeadlineQosPolicy,
        latency_budget: LatencyBudgetQosPolicy,
        liveliness: LivelinessQosPolicy,
        reliability: ReliabilityQosPolicy,
        ownership: OwnershipQosPolicy,
        destination_order: DestinationOrderQosPolicy,
        user_data: UserDataQosPolicy,
        time_based_filter: TimeBasedFilterQosPolicy,
        presentation: PresentationQosPolicy,
        partition: PartitionQosPolicy,
        topic_data: TopicDataQosPolicy,
        group_data: GroupDataQosPolicy,
        representation: DataRepresentationQosPolicy,
        type_consistency: TypeConsistencyEnforcementQosPolicy,
    }
}

impl ParticipantBuiltinTopicData {
    pub(super) fn new(key: InstanceHandle, data: ParticipantFacts) -> Self {
        let user_data = UserDataQosPolicy { value: data.user_data };
        ParticipantBuiltinTopicData { key, user_data }
    }
}

impl TopicBuiltinTopicData {
    pub(super) fn new(key: InstanceHandle, data: TopicFacts) -> Self {
        let TopicQos {
            topic_data,
            durability,
            durability_service,
            deadline,
            latency_budget,
            liveliness,
            reliability,
            destination_order,
            history,
            resource_limits,
            transport_priority,
            lifespan,
            ownership,
            representation,
        } = data.qos;
        TopicBuiltinTopicData {
            key,
            name: data.name,
            type_name: data.data_type.name,
            durability,
            durability_service,
            deadline,
            latency_budget,
            liveliness,
            reliability,
            transport_priority,
            lifespan,
            destination_order,
            history,
            resource_limits,
            ownership,
            topic_data,
            representation,
        }
    }
}

fn participant_of(key: InstanceHandle) -> InstanceHandle {
    InstanceHandle { entity: 0, ..key }
}

impl PublicationBuiltinTopicData {
    /// That of a writer; none if it is something else.
    pub(crate) fn new((key, endpoint, topic_data): Known) -> Option<Self> {
        let Policies::Offered { writer, publisher } = (*endpoint.policies).clone() else {
            return None;
        };
        let DataWriterQos {
            durability,
            durability_service,
            deadline,
            latency_budget,
            liveliness,
            reliability,
            destination_order,
            lifespan,
            user_data,
            ownership,
            ownership_strength,
            representation,
            ..
        } = writer;
        let PublisherQos { presentation, partition, group_data, .. } = publisher;
        Some(PublicationBuiltinTopicData {
            key,
            participant_key: participant_of(key),
            topic_name: endpoint.topic,
            type_name: endpoint.data_type.name,
            durability,
            durability_service,
            deadline,
            latency_budget,
            liveliness,
            reliability,
            lifespan,
            user_data,
            ownership,
            ownership_strength,
            destination_order,
            presentation,
            partition,
            topic_data,
            group_data,
            representation,
        })
    }
}

impl SubscriptionBuiltinTopicData {
    /// That of a reader; none if it is something else.
    pub(crate) fn new((key, endpoint, topic_data): Known) -> Option<Self> {
        let Policies::Requested { reader, subscriber } = (*endpoint.policies).clone() else {
            return None;
        };
        let DataReaderQos {
            durability,
            deadline,
            latency_budget,
            liveliness,
            reliability,
            destination_order,
            user_data,
            ownership,
            time_based_filter,
            representation,
            type_consistency,
            ..
        } = reader;
        let SubscriberQos { presentation, partition, group_data, .. } = subscriber;
        Some(SubscriptionBuiltinTopicData {
            key,
            participant_key: participant_of(key),
            topic_name: endpoint.topic,
            type_name: endpoint.data_type.name,
            durability,
            deadline,
            latency_budget,
            liveliness,
            reliability,
            ownership,
            destination_order,
            user_data,
            time_based_filter,
            presentation,
            partition,
            topic_data,
            group_data,
            representation,
            type_consistency,
        })
    }
}
