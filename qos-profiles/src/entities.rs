//! The policies of each kind of entity.
//!
//! Owns the list of policies of each entity, under the OMG's field names, and the one default that
//! differs between entities: writers are RELIABLE.

use crate::PolicyId;
use crate::fields::Policy;
use crate::policies::*;
use serde::{Deserialize, Serialize};

/// Defines an entity's set of policies, its default, and the comparison of two sets.
macro_rules! entity {
    ($(#[$doc:meta])* $name:ident { $($field:ident: $policy:ident as $id:ident $(= $default:expr)?,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct $name {
            $(
                #[doc = concat!("The [", stringify!($policy), "].")]
                pub $field: $policy,
            )*
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: entity!(@default $policy $(, $default)?)),* }
            }
        }

        impl $name {
            /// Policies of this kind of entity.
            pub const POLICIES: &'static [PolicyId] = &[$(PolicyId::$id),*];

            /// Names of the policies in this set, in the order of [`POLICIES`](Self::POLICIES).
            pub(crate) const NAMES: &'static [&'static str] = &[$(stringify!($field)),*];

            pub(crate) fn policy(&self, policy: PolicyId) -> Option<&dyn Policy> {
                match policy {
                    $(PolicyId::$id => Some(&self.$field),)*
                    _ => None,
                }
            }

            pub(crate) fn policy_mut(&mut self, policy: PolicyId) -> Option<&mut dyn Policy> {
                match policy {
                    $(PolicyId::$id => Some(&mut self.$field),)*
                    _ => None,
                }
            }

            /// Returns the policies that differ between this set and another.
            pub fn changed(&self, other: &Self) -> Vec<PolicyId> {
                let mut changed = Vec::new();
                $(
                    if self.$field != other.$field {
                        changed.push(PolicyId::$id);
                    }
                )*
                changed
            }

            /// Returns the policies that prevent an enabled entity from changing to another set:
            /// those that differ and are not changeable.
            pub fn immutable_changes(&self, other: &Self) -> Vec<PolicyId> {
                let mut changed = self.changed(other);
                changed.retain(|policy| !policy.changeable_after_enable());
                changed
            }
        }
    };
    (@default $policy:ident) => { $policy::default() };
    (@default $policy:ident, $default:expr) => { $default };
}

entity! {
    /// Policies of a domain participant.
    DomainParticipantQos {
        user_data: UserDataQosPolicy as UserData,
        entity_factory: EntityFactoryQosPolicy as EntityFactory,
    }
}

entity! {
    /// Policies of a topic.
    TopicQos {
        topic_data: TopicDataQosPolicy as TopicData,
        durability: DurabilityQosPolicy as Durability,
        durability_service: DurabilityServiceQosPolicy as DurabilityService,
        deadline: DeadlineQosPolicy as Deadline,
        latency_budget: LatencyBudgetQosPolicy as LatencyBudget,
        liveliness: LivelinessQosPolicy as Liveliness,
        reliability: ReliabilityQosPolicy as Reliability,
        destination_order: DestinationOrderQosPolicy as DestinationOrder,
        history: HistoryQosPolicy as History,
        resource_limits: ResourceLimitsQosPolicy as ResourceLimits,
        transport_priority: TransportPriorityQosPolicy as TransportPriority,
        lifespan: LifespanQosPolicy as Lifespan,
        ownership: OwnershipQosPolicy as Ownership,
        representation: DataRepresentationQosPolicy as DataRepresentation,
    }
}

entity! {
    /// Policies of a publisher.
    PublisherQos {
        presentation: PresentationQosPolicy as Presentation,
        partition: PartitionQosPolicy as Partition,
        group_data: GroupDataQosPolicy as GroupData,
        entity_factory: EntityFactoryQosPolicy as EntityFactory,
    }
}

entity! {
    /// Policies of a subscriber.
    SubscriberQos {
        presentation: PresentationQosPolicy as Presentation,
        partition: PartitionQosPolicy as Partition,
        group_data: GroupDataQosPolicy as GroupData,
        entity_factory: EntityFactoryQosPolicy as EntityFactory,
    }
}

entity! {
    /// Policies of a data writer.
    DataWriterQos {
        durability: DurabilityQosPolicy as Durability,
        durability_service: DurabilityServiceQosPolicy as DurabilityService,
        deadline: DeadlineQosPolicy as Deadline,
        latency_budget: LatencyBudgetQosPolicy as LatencyBudget,
        liveliness: LivelinessQosPolicy as Liveliness,
        reliability: ReliabilityQosPolicy as Reliability
            = ReliabilityQosPolicy::of(ReliabilityQosPolicyKind::Reliable),
        destination_order: DestinationOrderQosPolicy as DestinationOrder,
        history: HistoryQosPolicy as History,
        resource_limits: ResourceLimitsQosPolicy as ResourceLimits,
        transport_priority: TransportPriorityQosPolicy as TransportPriority,
        lifespan: LifespanQosPolicy as Lifespan,
        user_data: UserDataQosPolicy as UserData,
        ownership: OwnershipQosPolicy as Ownership,
        ownership_strength: OwnershipStrengthQosPolicy as OwnershipStrength,
        writer_data_lifecycle: WriterDataLifecycleQosPolicy as WriterDataLifecycle,
        representation: DataRepresentationQosPolicy as DataRepresentation,
    }
}

entity! {
    /// Policies of a data reader.
    DataReaderQos {
        durability: DurabilityQosPolicy as Durability,
        deadline: DeadlineQosPolicy as Deadline,
        latency_budget: LatencyBudgetQosPolicy as LatencyBudget,
        liveliness: LivelinessQosPolicy as Liveliness,
        reliability: ReliabilityQosPolicy as Reliability,
        destination_order: DestinationOrderQosPolicy as DestinationOrder,
        history: HistoryQosPolicy as History,
        resource_limits: ResourceLimitsQosPolicy as ResourceLimits,
        user_data: UserDataQosPolicy as UserData,
        ownership: OwnershipQosPolicy as Ownership,
        time_based_filter: TimeBasedFilterQosPolicy as TimeBasedFilter,
        reader_data_lifecycle: ReaderDataLifecycleQosPolicy as ReaderDataLifecycle,
        representation: DataRepresentationQosPolicy as DataRepresentation,
        type_consistency: TypeConsistencyEnforcementQosPolicy as TypeConsistencyEnforcement,
    }
}

/// Defines the copying of a topic's policies to a writer or reader.
macro_rules! copies {
    ($name:ident { $($field:ident),* }) => {
        impl $name {
            /// Takes over the policies that a topic has as well: the standard's
            /// `copy_from_topic_qos`.
            ///
            /// ```
            /// use qos_profiles::{DurabilityQosPolicyKind, TopicQos};
            ///
            /// let mut topic = TopicQos::default();
            /// topic.durability.kind = DurabilityQosPolicyKind::TransientLocal;
            #[doc = concat!("let mut qos = qos_profiles::", stringify!($name), "::default();")]
            /// qos.copy_from_topic_qos(&topic);
            /// assert_eq!(qos.durability, topic.durability);
            /// ```
            pub fn copy_from_topic_qos(&mut self, topic: &TopicQos) {
                $(self.$field.clone_from(&topic.$field);)*
            }
        }
    };
}

copies! {
    DataWriterQos {
        durability, durability_service, deadline, latency_budget, liveliness, reliability,
        destination_order, history, resource_limits, transport_priority, lifespan, ownership,
        representation
    }
}

copies! {
    DataReaderQos {
        durability, deadline, latency_budget, liveliness, reliability, destination_order, history,
        resource_limits, ownership, representation
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every policy that both sets have is copied.
    #[test]
    fn topic_shares_13_policies_with_writer_and_10_with_reader() {
        let shared = |policies: &[PolicyId]| {
            policies.iter().filter(|policy| TopicQos::POLICIES.contains(policy)).count()
        };
        assert_eq!((shared(DataWriterQos::POLICIES), shared(DataReaderQos::POLICIES)), (13, 10));
    }
}
