//! The data of the builtin topics: the known entities of a domain, in the terms of the standard.
//!
//! Owns: the four data types, and their conversion into samples. Never does: discover anything;
//! discovery does.

use std::sync::Arc;

use idl_cdr::DdsType;
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
use crate::mapping::builtin::{BuiltinKind, EntityFact};
use crate::mapping::directory::{KnownEndpoint, ParticipantFacts, TopicFacts};
use crate::mapping::policies::EndpointPolicies;

/// Defines the data of an entity: its own fields, and policies out of these sets.
macro_rules! data {
    (
        $(#[$doc:meta])* $name:ident $idl:literal {
            $($(#[$field_doc:meta])* $field:ident: $ty:ty,)*
            ;
            $(from $set:ident: $set_type:ident { $($policy:ident: $policy_type:ident,)* })*
        }
    ) => {
        $(#[$doc])*
        #[derive(DdsType, Clone, PartialEq, Eq, Debug)]
        #[dds(crate = "idl_cdr", name = $idl, extensibility = "appendable")]
        #[non_exhaustive]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $ty,)*
            $($(
                #[doc = concat!("The [", stringify!($policy_type), "].")]
                pub $policy: $policy_type,
            )*)*
        }

        impl $name {
            fn of(($($field,)*): ($($ty,)*), ($($set,)*): ($($set_type,)*)) -> Self {
                $name { $($field,)* $($($policy: $set.$policy,)*)* }
            }
        }
    };
}

data! {
    /// Data of a participant: see
    /// [`discovered_participant_data`](super::DomainParticipant::discovered_participant_data).
    ///
    /// ```
    /// # use dds_api::prelude::*;
    /// # #[derive(DdsType, Clone, Debug, Default)]
    /// # struct Track { #[dds(key)] id: u32, height: f64 }
    /// # fn example(participant: &DomainParticipant) -> DdsResult<()> {
    /// for handle in participant.discovered_participants()? {
    ///     let data = participant.discovered_participant_data(handle)?;
    ///     println!("{}: {:?}", data.key, data.user_data.value);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ParticipantBuiltinTopicData "DDS::ParticipantBuiltinTopicData" {
        /// Name of the participant in the domain.
        #[dds(key)]
        key: InstanceHandle,
        /// The [UserDataQosPolicy].
        user_data: UserDataQosPolicy,
        ;
    }
}

data! {
    /// Data of a topic: see
    /// [`discovered_topic_data`](super::DomainParticipant::discovered_topic_data).
    ///
    /// ```
    /// # use dds_api::prelude::*;
    /// # #[derive(DdsType, Clone, Debug, Default)]
    /// # struct Track { #[dds(key)] id: u32, height: f64 }
    /// # fn example(participant: &DomainParticipant) -> DdsResult<()> {
    /// for handle in participant.discovered_topics()? {
    ///     let data = participant.discovered_topic_data(handle)?;
    ///     println!("{} of {}: {:?}", data.name, data.type_name, data.durability);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    TopicBuiltinTopicData "DDS::TopicBuiltinTopicData" {
        /// Name of the topic entity in the domain.
        #[dds(key)]
        key: InstanceHandle,
        /// Name of the topic.
        name: String,
        /// Name of the topic's type.
        type_name: String,
        ;
        from topic: TopicQos {
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
}

data! {
    /// Data of a writer: see
    /// [`matched_publication_data`](crate::subscription::DataReader::matched_publication_data).
    ///
    /// ```
    /// # use dds_api::prelude::*;
    /// # #[derive(DdsType, Clone, Debug, Default)]
    /// # struct Track { #[dds(key)] id: u32, height: f64 }
    /// # fn example(reader: &DataReader<Track>) -> DdsResult<()> {
    /// for handle in reader.matched_publications() {
    ///     let data = reader.matched_publication_data(handle)?;
    ///     println!("a writer of {}, in {:?}", data.topic_name, data.partition.name);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    PublicationBuiltinTopicData "DDS::PublicationBuiltinTopicData" {
        /// Name of the writer in the domain.
        #[dds(key)]
        key: InstanceHandle,
        /// Name of its participant in the domain.
        participant_key: InstanceHandle,
        /// Name of its topic.
        topic_name: String,
        /// Name of its type.
        type_name: String,
        /// The [TopicDataQosPolicy].
        topic_data: TopicDataQosPolicy,
        ;
        from writer: DataWriterQos {
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
            representation: DataRepresentationQosPolicy,
        }
        from publisher: PublisherQos {
            presentation: PresentationQosPolicy,
            partition: PartitionQosPolicy,
            group_data: GroupDataQosPolicy,
        }
    }
}

data! {
    /// Data of a reader: see
    /// [`matched_subscription_data`](crate::publication::DataWriter::matched_subscription_data).
    ///
    /// ```
    /// # use dds_api::prelude::*;
    /// # #[derive(DdsType, Clone, Debug, Default)]
    /// # struct Track { #[dds(key)] id: u32, height: f64 }
    /// # fn example(writer: &DataWriter<Track>) -> DdsResult<()> {
    /// for handle in writer.matched_subscriptions() {
    ///     let data = writer.matched_subscription_data(handle)?;
    ///     println!("a reader of {}, of participant {}", data.topic_name, data.participant_key);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    SubscriptionBuiltinTopicData "DDS::SubscriptionBuiltinTopicData" {
        /// Name of the reader in the domain.
        #[dds(key)]
        key: InstanceHandle,
        /// Name of its participant in the domain.
        participant_key: InstanceHandle,
        /// Name of its topic.
        topic_name: String,
        /// Name of its type.
        type_name: String,
        /// The [TopicDataQosPolicy].
        topic_data: TopicDataQosPolicy,
        ;
        from reader: DataReaderQos {
            durability: DurabilityQosPolicy,
            deadline: DeadlineQosPolicy,
            latency_budget: LatencyBudgetQosPolicy,
            liveliness: LivelinessQosPolicy,
            reliability: ReliabilityQosPolicy,
            ownership: OwnershipQosPolicy,
            destination_order: DestinationOrderQosPolicy,
            user_data: UserDataQosPolicy,
            time_based_filter: TimeBasedFilterQosPolicy,
            representation: DataRepresentationQosPolicy,
            type_consistency: TypeConsistencyEnforcementQosPolicy,
        }
        from subscriber: SubscriberQos {
            presentation: PresentationQosPolicy,
            partition: PartitionQosPolicy,
            group_data: GroupDataQosPolicy,
        }
    }
}

impl ParticipantBuiltinTopicData {
    fn new(key: InstanceHandle, data: ParticipantFacts) -> Self {
        Self::of((key, UserDataQosPolicy { value: data.user_data }), ())
    }
}

impl TopicBuiltinTopicData {
    fn new(key: InstanceHandle, data: TopicFacts) -> Self {
        Self::of((key, data.name, data.data_type.name), (data.qos,))
    }
}

/// Data of an endpoint beside its policies.
type EndpointFields = (InstanceHandle, InstanceHandle, String, String, TopicDataQosPolicy);

fn endpoint_fields(
    (key, endpoint, topic_data): KnownEndpoint,
) -> (EndpointFields, EndpointPolicies) {
    let participant = InstanceHandle { entity: 0, ..key };
    let fields = (key, participant, endpoint.topic, endpoint.data_type.name, topic_data);
    (fields, Arc::unwrap_or_clone(endpoint.policies))
}

impl PublicationBuiltinTopicData {
    /// Data of a writer; none if the entity is something else.
    pub(crate) fn new(known: KnownEndpoint) -> Option<Self> {
        match endpoint_fields(known) {
            (said, EndpointPolicies::Offered { writer, publisher }) => {
                Some(Self::of(said, (writer, publisher)))
            }
            _ => None,
        }
    }
}

impl SubscriptionBuiltinTopicData {
    /// Data of a reader; none if the entity is something else.
    pub(crate) fn new(known: KnownEndpoint) -> Option<Self> {
        match endpoint_fields(known) {
            (said, EndpointPolicies::Requested { reader, subscriber }) => {
                Some(Self::of(said, (reader, subscriber)))
            }
            _ => None,
        }
    }
}

/// The data of a builtin topic. Only the four data types implement this trait.
///
/// ```
/// use dds_api::domain::{BuiltinTopicData, TopicBuiltinTopicData};
/// use dds_api::prelude::*;
///
/// fn count<T: BuiltinTopicData>(participant: &DomainParticipant) -> DdsResult<usize> {
///     Ok(participant.builtin_reader::<T>()?.read_data(.., Timeout::NOW)?.len())
/// }
/// # fn example(participant: &DomainParticipant) -> DdsResult<()> {
/// println!("{} topics of others", count::<TopicBuiltinTopicData>(participant)?);
/// # Ok(())
/// # }
/// ```
pub trait BuiltinTopicData: DdsType + Clone + std::fmt::Debug {
    /// Name of the topic in the standard.
    const TOPIC_NAME: &'static str;

    /// Source of the topic's samples.
    #[doc(hidden)]
    const SOURCE: BuiltinSource<Self>;
}

/// Conversion of discovered data into samples of a builtin topic; internal to this crate.
///
/// ```
/// use dds_api::domain::{BuiltinTopicData, TopicBuiltinTopicData};
///
/// let _ = TopicBuiltinTopicData::SOURCE;
/// ```
#[doc(hidden)]
pub struct BuiltinSource<T> {
    pub(crate) kind: BuiltinKind,
    /// Data of an entity; none if the entity is of another kind.
    pub(crate) sample_of: fn(InstanceHandle, EntityFact) -> Option<T>,
    /// Sample of an entity that is gone: only its key is set.
    pub(crate) sample_of_gone: fn(InstanceHandle) -> T,
}

macro_rules! builtin {
    ($data:ident, $kind:ident, $topic:literal, $told:expr) => {
        impl BuiltinTopicData for $data {
            const TOPIC_NAME: &'static str = $topic;

            const SOURCE: BuiltinSource<Self> = BuiltinSource {
                kind: BuiltinKind::$kind,
                sample_of: $told,
                sample_of_gone: |key| Self { key, ..Self::default_value() },
            };
        }
    };
}

builtin!(ParticipantBuiltinTopicData, Participant, "DCPSParticipant", |key, fact| match fact {
    EntityFact::Participant(data) => Some(Self::new(key, data)),
    _ => None,
});
builtin!(TopicBuiltinTopicData, Topic, "DCPSTopic", |key, fact| match fact {
    EntityFact::Topic(data) => Some(Self::new(key, data)),
    _ => None,
});
builtin!(PublicationBuiltinTopicData, Publication, "DCPSPublication", |key, fact| match fact {
    EntityFact::Endpoint(endpoint, topic_data) => Self::new((key, endpoint, topic_data)),
    _ => None,
});
builtin!(SubscriptionBuiltinTopicData, Subscription, "DCPSSubscription", |key, fact| match fact {
    EntityFact::Endpoint(endpoint, topic_data) => Self::new((key, endpoint, topic_data)),
    _ => None,
});
