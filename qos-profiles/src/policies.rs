//! The policies' values and their defaults.
//!
//! Owns the fields and what the standard fills them with. The variants of each kind stand in the
//! order of the standard, from the weakest to the strongest, so that kinds can be compared.

use crate::fields::{FieldType, FieldValue, Names, Value, fields};
use crate::{Duration, Length};
use idl_cdr::DdsType;
use serde::{Deserialize, Serialize};

/// A policy's struct. A field left out in serde input has the value of the policy's default.
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

/// A policy's kind; the first variant is the weakest. After its name stands what the standard's
/// constants end with.
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

            /// The value in this place, if there is one.
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
    /// USER_DATA: bytes that discovery passes on with a participant, writer or reader.
    UserDataQosPolicy {
        /// The bytes.
        value: Vec<u8> = Vec::new(),
    }
}

policy! {
    /// TOPIC_DATA: bytes that discovery passes on with a topic.
    TopicDataQosPolicy {
        /// The bytes.
        value: Vec<u8> = Vec::new(),
    }
}

policy! {
    /// GROUP_DATA: bytes that discovery passes on with a publisher or subscriber.
    GroupDataQosPolicy {
        /// The bytes.
        value: Vec<u8> = Vec::new(),
    }
}

kind! {
    /// How long samples outlive their writing.
    DurabilityQosPolicyKind "_DURABILITY_QOS" {
        /// A sample goes to the readers that are there.
        Volatile,
        /// The writer keeps samples for late readers as long as it lives.
        TransientLocal,
        /// Samples outlive their writer.
        Transient,
        /// Samples outlive every process.
        Persistent,
    }
}

policy! {
    /// DURABILITY: what late readers get.
    DurabilityQosPolicy {
        /// How long samples outlive their writing.
        kind: DurabilityQosPolicyKind = DurabilityQosPolicyKind::Volatile,
    }
}

policy! {
    /// DURABILITY_SERVICE: what is kept of transient and persistent samples.
    DurabilityServiceQosPolicy {
        /// How long an instance is kept after it is disposed.
        service_cleanup_delay: Duration = Duration::ZERO,
        /// Which samples of an instance are kept.
        history_kind: HistoryQosPolicyKind = HistoryQosPolicyKind::KeepLast,
        /// How many, with KEEP_LAST.
        history_depth: u32 = 1,
        /// The most samples that are kept.
        max_samples: Length = Length::UNLIMITED,
        /// The most instances that are kept.
        max_instances: Length = Length::UNLIMITED,
        /// The most samples of one instance that are kept.
        max_samples_per_instance: Length = Length::UNLIMITED,
    }
}

kind! {
    /// Within what changes keep together and in order.
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
    /// PRESENTATION: which changes a reader sees together and in which order.
    PresentationQosPolicy {
        /// Within what the two other fields hold.
        access_scope: PresentationQosPolicyAccessScopeKind =
            PresentationQosPolicyAccessScopeKind::Instance,
        /// Whether sets of changes are seen whole or not at all.
        coherent_access: bool = false,
        /// Whether changes are seen in the order they were made in.
        ordered_access: bool = false,
    }
}

policy! {
    /// DEADLINE: how often each instance is written at least.
    DeadlineQosPolicy {
        /// The longest time between two samples of an instance.
        period: Duration = Duration::INFINITE,
    }
}

policy! {
    /// LATENCY_BUDGET: how long a sample may wait on its way, as a hint.
    LatencyBudgetQosPolicy {
        /// The delay that does no harm.
        duration: Duration = Duration::ZERO,
    }
}

kind! {
    /// Whether an instance has one owner.
    OwnershipQosPolicyKind "_OWNERSHIP_QOS" {
        /// All writers' samples reach the readers.
        Shared,
        /// Only those of the strongest live writer do.
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
        /// The largest one wins.
        value: i32 = 0,
    }
}

kind! {
    /// Who says that a writer is alive.
    LivelinessQosPolicyKind "_LIVELINESS_QOS" {
        /// The middleware, as long as the process lives.
        Automatic,
        /// The application, for all writers of a participant at once.
        ManualByParticipant,
        /// The application, for each writer.
        ManualByTopic,
    }
}

policy! {
    /// LIVELINESS: how it is found out that a writer is alive.
    LivelinessQosPolicy {
        /// Who says so.
        kind: LivelinessQosPolicyKind = LivelinessQosPolicyKind::Automatic,
        /// The longest time between two signs of life.
        lease_duration: Duration = Duration::INFINITE,
    }
}

policy! {
    /// TIME_BASED_FILTER: how often a reader wants to see an instance at most.
    TimeBasedFilterQosPolicy {
        /// The least time between two samples of an instance.
        minimum_separation: Duration = Duration::ZERO,
    }
}

policy! {
    /// PARTITION: names that a publisher and a subscriber must share to meet.
    PartitionQosPolicy {
        /// The names; none stands for the empty name.
        name: Vec<String> = Vec::new(),
    }
}

kind! {
    /// Whether lost samples are sent again.
    ReliabilityQosPolicyKind "_RELIABILITY_QOS" {
        /// They are not.
        BestEffort,
        /// They are.
        Reliable,
    }
}

/// RELIABILITY: whether every sample arrives. The default is that of topics and readers; that of
/// writers is RELIABLE. The kind cannot be left out in serde input, because its default depends on
/// the entity.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, DdsType)]
#[serde(deny_unknown_fields)]
#[dds(crate = "idl_cdr", extensibility = "appendable", nested)]
pub struct ReliabilityQosPolicy {
    /// Whether lost samples are sent again.
    pub kind: ReliabilityQosPolicyKind,
    /// How long a write may wait for room.
    #[serde(default = "default_max_blocking_time")]
    pub max_blocking_time: Duration,
}

fn default_max_blocking_time() -> Duration {
    Duration::from_millis(100)
}

impl ReliabilityQosPolicy {
    /// This kind, with the default blocking time of 100 ms.
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
    /// What orders the samples of several writers.
    DestinationOrderQosPolicyKind "_DESTINATIONORDER_QOS" {
        /// Their arrival at the reader.
        ByReceptionTimestamp,
        /// The time stamps of their writers.
        BySourceTimestamp,
    }
}

policy! {
    /// DESTINATION_ORDER: which of two writers' samples is the later one.
    DestinationOrderQosPolicy {
        /// What orders them.
        kind: DestinationOrderQosPolicyKind = DestinationOrderQosPolicyKind::ByReceptionTimestamp,
    }
}

kind! {
    /// Which samples of an instance are kept.
    HistoryQosPolicyKind "_HISTORY_QOS" {
        /// The last ones.
        KeepLast,
        /// All, until they are taken.
        KeepAll,
    }
}

policy! {
    /// HISTORY: which samples of an instance a writer or reader keeps.
    HistoryQosPolicy {
        /// Which are kept.
        kind: HistoryQosPolicyKind = HistoryQosPolicyKind::KeepLast,
        /// How many, with KEEP_LAST.
        depth: u32 = 1,
    }
}

policy! {
    /// RESOURCE_LIMITS: how much a writer or reader keeps at most.
    ResourceLimitsQosPolicy {
        /// The most samples.
        max_samples: Length = Length::UNLIMITED,
        /// The most instances.
        max_instances: Length = Length::UNLIMITED,
        /// The most samples of one instance.
        max_samples_per_instance: Length = Length::UNLIMITED,
    }
}

policy! {
    /// ENTITY_FACTORY: whether what an entity creates works at once.
    EntityFactoryQosPolicy {
        /// Whether it is enabled when it is created.
        autoenable_created_entities: bool = true,
    }
}

policy! {
    /// WRITER_DATA_LIFECYCLE: what becomes of an instance that its writer lets go.
    WriterDataLifecycleQosPolicy {
        /// Whether unregistering an instance disposes of it too.
        autodispose_unregistered_instances: bool = true,
    }
}

policy! {
    /// READER_DATA_LIFECYCLE: how long a reader keeps samples of an instance that is over.
    ReaderDataLifecycleQosPolicy {
        /// How long, once it has no writer.
        autopurge_nowriter_samples_delay: Duration = Duration::INFINITE,
        /// How long, once it is disposed.
        autopurge_disposed_samples_delay: Duration = Duration::INFINITE,
    }
}

policy! {
    /// TRANSPORT_PRIORITY: which writer's samples go first.
    TransportPriorityQosPolicy {
        /// The largest one goes first.
        value: i32 = 0,
    }
}

policy! {
    /// LIFESPAN: after what time a sample is out of date.
    LifespanQosPolicy {
        /// The time, from when it was written.
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
    /// DATA_REPRESENTATION: in which form a writer sends, and which forms a reader takes.
    DataRepresentationQosPolicy {
        /// The forms, the preferred one first; none stands for XCDR.
        value: Vec<DataRepresentationId> = Vec::new(),
    }
}

impl DataRepresentationQosPolicy {
    /// The forms that the policy stands for: never empty.
    pub fn representations(&self) -> &[DataRepresentationId] {
        if self.value.is_empty() { &[DataRepresentationId::Xcdr] } else { &self.value }
    }
}

kind! {
    /// Whether a writer's type must be the reader's.
    TypeConsistencyKind "" {
        /// It must be the same.
        DisallowTypeCoercion,
        /// It must be one that the reader's can be made from.
        AllowTypeCoercion,
    }
}

policy! {
    /// TYPE_CONSISTENCY_ENFORCEMENT: which writers' types a reader takes.
    TypeConsistencyEnforcementQosPolicy {
        /// Whether a writer's type must be the reader's.
        kind: TypeConsistencyKind = TypeConsistencyKind::AllowTypeCoercion,
        /// Whether sequences may have other bounds.
        ignore_sequence_bounds: bool = true,
        /// Whether strings may have other bounds.
        ignore_string_bounds: bool = true,
        /// Whether members may have other names.
        ignore_member_names: bool = false,
        /// Whether a type may not have members that the other lacks.
        prevent_type_widening: bool = false,
        /// Whether a writer whose type is not known is refused.
        force_type_validation: bool = false,
    }
}
