//! Values of the policies and their defaults.
//!
//! Owns the fields and the standard's defaults. The variants of each kind are in the order of the
//! standard, from the weakest to the strongest, so that kinds can be compared.

use crate::fields::{FieldType, FieldValue, Names, Value, fields};
use crate::{Duration, Length};
use idl_cdr::DdsType;
use serde::{Deserialize, Serialize};

/// Defines a policy's struct. A field left out in serde input has the value of the
/// policy's default.
macro_rules! policy {
    ($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $ty:ty = $default:expr,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, DdsType)]
        #[serde(default, deny_unknown_fields)]
        #[dds(crate = "idl_cdr", extensibility = "appendable", nested)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $ty,)*
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $default),* }
            }
        }

        fields! { $name { $($field: $ty,)* } }
    };
}

/// Defines a policy's kind; the first variant is the weakest. The text after its name is the suffix
/// of the standard's constants.
macro_rules! kind {
    ($(#[$doc:meta])* $name:ident $suffix:literal { $($(#[$variant_doc:meta])* $variant:ident,)* }) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, DdsType,
        )]
        #[serde(rename_all = "SCREAMING_SNAKE_CASE")]
        #[dds(crate = "idl_cdr")]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)*
        }

        impl $name {
            pub(crate) const NAMES: Names =
                Names { variants: &[$(stringify!($variant)),*], suffix: $suffix };

            /// Returns the value with this index, if there is one.
            pub(crate) fn at(index: u8) -> Option<Self> {
                [$(Self::$variant),*].get(usize::from(index)).copied()
            }
        }

        impl FieldValue for $name {
            const TYPE: FieldType = FieldType::Kind(&Self::NAMES);

            fn to_value(&self) -> Value {
                Value::Kind(*self as u8)
            }

            fn from_value(value: &Value) -> Option<Self> {
                match value {
                    Value::Kind(index) => Self::at(*index),
                    _ => None,
                }
            }
        }
    };
}

policy! {
    /// USER_DATA: bytes that discovery distributes with a participant, writer or reader.
    UserDataQosPolicy {
        /// The bytes.
        value: Vec<u8> = Vec::new(),
    }
}

policy! {
    /// TOPIC_DATA: bytes that discovery distributes with a topic.
    TopicDataQosPolicy {
        /// The bytes.
        value: Vec<u8> = Vec::new(),
    }
}

policy! {
    /// GROUP_DATA: bytes that discovery distributes with a publisher or subscriber.
    GroupDataQosPolicy {
        /// The bytes.
        value: Vec<u8> = Vec::new(),
    }
}

kind! {
    /// Lifetime of samples after they are written.
    DurabilityQosPolicyKind "_DURABILITY_QOS" {
        /// Samples are delivered only to readers that exist when the samples are written.
        Volatile,
        /// The writer keeps samples for late joiners during its own lifetime.
        TransientLocal,
        /// Samples outlive their writer.
        Transient,
        /// Samples outlive every process.
        Persistent,
    }
}

policy! {
    /// DURABILITY: samples that late joiners receive.
    DurabilityQosPolicy {
        /// Lifetime of samples after they are written.
        kind: DurabilityQosPolicyKind = DurabilityQosPolicyKind::Volatile,
    }
}

policy! {
    /// DURABILITY_SERVICE: retention of transient and persistent samples.
    DurabilityServiceQosPolicy {
        /// Time for which an instance is kept after it is disposed.
        service_cleanup_delay: Duration = Duration::ZERO,
        /// Selection of the samples of an instance that are kept.
        history_kind: HistoryQosPolicyKind = HistoryQosPolicyKind::KeepLast,
        /// Number of samples kept, with KEEP_LAST.
        history_depth: u32 = 1,
        /// Maximum number of samples kept.
        max_samples: Length = Length::UNLIMITED,
        /// Maximum number of instances kept.
        max_instances: Length = Length::UNLIMITED,
        /// Maximum number of samples of one instance kept.
        max_samples_per_instance: Length = Length::UNLIMITED,
    }
}

kind! {
    /// Scope in which changes are coherent and ordered.
    PresentationQosPolicyAccessScopeKind "_PRESENTATION_QOS" {
        /// Within an instance.
        Instance,
        /// Within a writer or reader.
        Topic,
        /// Within a publisher or subscriber.
        Group,
    }
}

policy! {
    /// PRESENTATION: coherence and order of the changes that a reader sees.
    PresentationQosPolicy {
        /// Scope in which the two other fields apply.
        access_scope: PresentationQosPolicyAccessScopeKind =
            PresentationQosPolicyAccessScopeKind::Instance,
        /// Whether sets of changes are seen whole or not at all.
        coherent_access: bool = false,
        /// Whether changes are seen in the order in which they were made.
        ordered_access: bool = false,
    }
}

policy! {
    /// DEADLINE: minimum rate at which each instance is written.
    DeadlineQosPolicy {
        /// Maximum time between two samples of an instance.
        period: Duration = Duration::INFINITE,
    }
}

policy! {
    /// LATENCY_BUDGET: time that a sample may wait during delivery, as a hint.
    LatencyBudgetQosPolicy {
        /// Acceptable delay.
        duration: Duration = Duration::ZERO,
    }
}

kind! {
    /// Whether an instance has one owner.
    OwnershipQosPolicyKind "_OWNERSHIP_QOS" {
        /// Samples of all writers reach the readers.
        Shared,
        /// Only samples of the strongest live writer reach the readers.
        Exclusive,
    }
}

policy! {
    /// OWNERSHIP: whether several writers may update an instance.
    OwnershipQosPolicy {
        /// Whether an instance has one owner.
        kind: OwnershipQosPolicyKind = OwnershipQosPolicyKind::Shared,
    }
}

policy! {
    /// OWNERSHIP_STRENGTH: which writer owns an instance under EXCLUSIVE ownership.
    OwnershipStrengthQosPolicy {
        /// Strength of the writer; the largest value wins.
        value: i32 = 0,
    }
}

kind! {
    /// Source of the assertion that a writer is alive.
    LivelinessQosPolicyKind "_LIVELINESS_QOS" {
        /// The middleware, while the process lives.
        Automatic,
        /// The application, for all writers of a participant at once.
        ManualByParticipant,
        /// The application, for each writer.
        ManualByTopic,
    }
}

policy! {
    /// LIVELINESS: detection that a writer is alive.
    LivelinessQosPolicy {
        /// Source of the assertion.
        kind: LivelinessQosPolicyKind = LivelinessQosPolicyKind::Automatic,
        /// Maximum time between two assertions.
        lease_duration: Duration = Duration::INFINITE,
    }
}

policy! {
    /// TIME_BASED_FILTER: maximum rate at which a reader receives an instance.
    TimeBasedFilterQosPolicy {
        /// Minimum time between two samples of an instance.
        minimum_separation: Duration = Duration::ZERO,
    }
}

policy! {
    /// PARTITION: names that a publisher and a subscriber must share to match.
    PartitionQosPolicy {
        /// Names; an empty list means the empty name.
        name: Vec<String> = Vec::new(),
    }
}

kind! {
    /// Whether lost samples are sent again.
    ReliabilityQosPolicyKind "_RELIABILITY_QOS" {
        /// Lost samples are not sent again.
        BestEffort,
        /// Lost samples are sent again.
        Reliable,
    }
}

/// RELIABILITY: whether every sample arrives. The default is that of topics and readers; the
/// default of writers is RELIABLE. The kind cannot be left out in serde input, because its default
/// depends on the entity.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, DdsType)]
#[serde(deny_unknown_fields)]
#[dds(crate = "idl_cdr", extensibility = "appendable", nested)]
pub struct ReliabilityQosPolicy {
    /// Whether lost samples are sent again.
    pub kind: ReliabilityQosPolicyKind,
    /// Maximum time that a write may wait for room.
    #[serde(default = "default_max_blocking_time")]
    pub max_blocking_time: Duration,
}

fn default_max_blocking_time() -> Duration {
    Duration::from_millis(100)
}

impl ReliabilityQosPolicy {
    /// Makes a policy of this kind, with the default blocking time of 100 ms.
    pub fn of(kind: ReliabilityQosPolicyKind) -> Self {
        Self { kind, max_blocking_time: default_max_blocking_time() }
    }
}

fields! {
    ReliabilityQosPolicy {
        kind: ReliabilityQosPolicyKind,
        max_blocking_time: Duration,
    }
}

impl Default for ReliabilityQosPolicy {
    fn default() -> Self {
        Self::of(ReliabilityQosPolicyKind::BestEffort)
    }
}

kind! {
    /// Criterion that orders the samples of several writers.
    DestinationOrderQosPolicyKind "_DESTINATIONORDER_QOS" {
        /// Arrival at the reader.
        ByReceptionTimestamp,
        /// Time stamps of the writers.
        BySourceTimestamp,
    }
}

policy! {
    /// DESTINATION_ORDER: order of samples from different writers.
    DestinationOrderQosPolicy {
        /// Criterion of the order.
        kind: DestinationOrderQosPolicyKind = DestinationOrderQosPolicyKind::ByReceptionTimestamp,
    }
}

kind! {
    /// Selection of the samples of an instance that are kept.
    HistoryQosPolicyKind "_HISTORY_QOS" {
        /// The last samples.
        KeepLast,
        /// All samples, until they are taken.
        KeepAll,
    }
}

policy! {
    /// HISTORY: samples of an instance that a writer or reader keeps.
    HistoryQosPolicy {
        /// Selection of the samples.
        kind: HistoryQosPolicyKind = HistoryQosPolicyKind::KeepLast,
        /// Number of samples kept, with KEEP_LAST.
        depth: u32 = 1,
    }
}

policy! {
    /// RESOURCE_LIMITS: maximum amounts that a writer or reader keeps.
    ResourceLimitsQosPolicy {
        /// Maximum number of samples.
        max_samples: Length = Length::UNLIMITED,
        /// Maximum number of instances.
        max_instances: Length = Length::UNLIMITED,
        /// Maximum number of samples of one instance.
        max_samples_per_instance: Length = Length::UNLIMITED,
    }
}

policy! {
    /// ENTITY_FACTORY: whether entities are enabled when they are created.
    EntityFactoryQosPolicy {
        /// Whether created entities are enabled automatically.
        autoenable_created_entities: bool = true,
    }
}

policy! {
    /// WRITER_DATA_LIFECYCLE: treatment of an instance that its writer unregisters.
    WriterDataLifecycleQosPolicy {
        /// Whether unregistering an instance also disposes it.
        autodispose_unregistered_instances: bool = true,
    }
}

policy! {
    /// READER_DATA_LIFECYCLE: time for which a reader keeps samples of an instance that has ended.
    ReaderDataLifecycleQosPolicy {
        /// Time after the instance has lost its last writer.
        autopurge_nowriter_samples_delay: Duration = Duration::INFINITE,
        /// Time after the instance is disposed.
        autopurge_disposed_samples_delay: Duration = Duration::INFINITE,
    }
}

policy! {
    /// TRANSPORT_PRIORITY: order in which samples of different writers are sent.
    TransportPriorityQosPolicy {
        /// Priority; the largest value is sent first.
        value: i32 = 0,
    }
}

policy! {
    /// LIFESPAN: time after which a sample expires.
    LifespanQosPolicy {
        /// Time from the writing of the sample.
        duration: Duration = Duration::INFINITE,
    }
}

kind! {
    /// A form in which samples are sent.
    DataRepresentationId "_DATA_REPRESENTATION" {
        /// CDR, first version.
        Xcdr,
        /// XML.
        Xml,
        /// CDR, second version.
        Xcdr2,
    }
}

policy! {
    /// DATA_REPRESENTATION: form in which a writer sends, and forms that a reader accepts.
    DataRepresentationQosPolicy {
        /// Forms, the preferred one first; an empty list means XCDR.
        value: Vec<DataRepresentationId> = Vec::new(),
    }
}

impl DataRepresentationQosPolicy {
    /// Returns the forms that the policy means: never empty.
    pub fn representations(&self) -> &[DataRepresentationId] {
        if self.value.is_empty() { &[DataRepresentationId::Xcdr] } else { &self.value }
    }
}

kind! {
    /// Whether a writer's type must be the reader's.
    TypeConsistencyKind "" {
        /// The types must be the same.
        DisallowTypeCoercion,
        /// The reader's type must be assignable from the writer's.
        AllowTypeCoercion,
    }
}

policy! {
    /// TYPE_CONSISTENCY_ENFORCEMENT: types of writers that a reader accepts.
    TypeConsistencyEnforcementQosPolicy {
        /// Whether a writer's type must be the reader's.
        kind: TypeConsistencyKind = TypeConsistencyKind::AllowTypeCoercion,
        /// Whether sequences may have other bounds.
        ignore_sequence_bounds: bool = true,
        /// Whether strings may have other bounds.
        ignore_string_bounds: bool = true,
        /// Whether members may have other names.
        ignore_member_names: bool = false,
        /// Whether a type must not have members that the other lacks.
        prevent_type_widening: bool = false,
        /// Whether a writer of unknown type is refused.
        force_type_validation: bool = false,
    }
}
