//! The standard's table of policies: defaults, RxO and changeability of each, entity by entity.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use qos_profiles::*;
use std::fmt::Debug;

/// Policy, entities that have it, RxO, changeable: a second copy of the standard's table.
#[rustfmt::skip]
const TABLE: [(&str, &str, bool, bool); 24] = [
    ("USER_DATA",                    "P W R",     false, true),
    ("DURABILITY",                   "T W R",     true,  false),
    ("PRESENTATION",                 "Pub Sub",   true,  false),
    ("DEADLINE",                     "T W R",     true,  true),
    ("LATENCY_BUDGET",               "T W R",     true,  true),
    ("OWNERSHIP",                    "T W R",     true,  false),
    ("OWNERSHIP_STRENGTH",           "W",         false, true),
    ("LIVELINESS",                   "T W R",     true,  false),
    ("TIME_BASED_FILTER",            "R",         false, true),
    ("PARTITION",                    "Pub Sub",   false, true),
    ("RELIABILITY",                  "T W R",     true,  false),
    ("DESTINATION_ORDER",            "T W R",     true,  false),
    ("HISTORY",                      "T W R",     false, false),
    ("RESOURCE_LIMITS",              "T W R",     false, false),
    ("ENTITY_FACTORY",               "P Pub Sub", false, true),
    ("WRITER_DATA_LIFECYCLE",        "W",         false, true),
    ("READER_DATA_LIFECYCLE",        "R",         false, true),
    ("TOPIC_DATA",                   "T",         false, true),
    ("GROUP_DATA",                   "Pub Sub",   false, true),
    ("TRANSPORT_PRIORITY",           "T W",       false, true),
    ("LIFESPAN",                     "T W",       false, true),
    ("DURABILITY_SERVICE",           "T W",       false, false),
    ("DATA_REPRESENTATION",          "T W R",     true,  false),
    ("TYPE_CONSISTENCY_ENFORCEMENT", "R",         false, false),
];

#[test]
fn policies_have_entities_rxo_and_changeability_of_table() {
    let entities = [
        ("P", DomainParticipantQos::POLICIES),
        ("T", TopicQos::POLICIES),
        ("Pub", PublisherQos::POLICIES),
        ("Sub", SubscriberQos::POLICIES),
        ("W", DataWriterQos::POLICIES),
        ("R", DataReaderQos::POLICIES),
    ];
    for (policy, (name, concerns, rxo, changeable)) in PolicyId::ALL.into_iter().zip(TABLE) {
        assert_eq!(policy.name(), name);
        assert_eq!(policy.requested_offered(), rxo, "RxO of {name}");
        assert_eq!(policy.changeable_after_enable(), changeable, "changeability of {name}");
        for (entity, policies) in entities {
            let expected = concerns.split(' ').any(|concern| concern == entity);
            assert_eq!(policies.contains(&policy), expected, "{name} on {entity}");
        }
    }
}

#[track_caller]
fn default_is<T: Default + PartialEq + Debug>(expected: T) {
    assert_eq!(T::default(), expected);
}

#[test]
fn policy_defaults_follow_standard() {
    let none = Duration::ZERO;
    let infinite = Duration::INFINITE;
    let unlimited = Length::UNLIMITED;
    let blocking = Duration::new(0, 100_000_000).unwrap();
    default_is(UserDataQosPolicy { value: vec![] });
    default_is(TopicDataQosPolicy { value: vec![] });
    default_is(GroupDataQosPolicy { value: vec![] });
    default_is(DurabilityQosPolicy { kind: DurabilityQosPolicyKind::Volatile });
    default_is(DurabilityServiceQosPolicy {
        service_cleanup_delay: none,
        history_kind: HistoryQosPolicyKind::KeepLast,
        history_depth: 1,
        max_samples: unlimited,
        max_instances: unlimited,
        max_samples_per_instance: unlimited,
    });
    default_is(PresentationQosPolicy {
        access_scope: PresentationQosPolicyAccessScopeKind::Instance,
        coherent_access: false,
        ordered_access: false,
    });
    default_is(DeadlineQosPolicy { period: infinite });
    default_is(LatencyBudgetQosPolicy { duration: none });
    default_is(OwnershipQosPolicy { kind: OwnershipQosPolicyKind::Shared });
    default_is(OwnershipStrengthQosPolicy { value: 0 });
    default_is(LivelinessQosPolicy {
        kind: LivelinessQosPolicyKind::Automatic,
        lease_duration: infinite,
    });
    default_is(TimeBasedFilterQosPolicy { minimum_separation: none });
    default_is(PartitionQosPolicy { name: vec![] });
    default_is(ReliabilityQosPolicy {
        kind: ReliabilityQosPolicyKind::BestEffort,
        max_blocking_time: blocking,
    });
    default_is(DestinationOrderQosPolicy {
        kind: DestinationOrderQosPolicyKind::ByReceptionTimestamp,
    });
    default_is(HistoryQosPolicy { kind: HistoryQosPolicyKind::KeepLast, depth: 1 });
    default_is(ResourceLimitsQosPolicy {
        max_samples: unlimited,
        max_instances: unlimited,
        max_samples_per_instance: unlimited,
    });
    default_is(EntityFactoryQosPolicy { autoenable_created_entities: true });
    default_is(WriterDataLifecycleQosPolicy { autodispose_unregistered_instances: true });
    default_is(ReaderDataLifecycleQosPolicy {
        autopurge_nowriter_samples_delay: infinite,
        autopurge_disposed_samples_delay: infinite,
    });
    default_is(TransportPriorityQosPolicy { value: 0 });
    default_is(LifespanQosPolicy { duration: infinite });
    default_is(DataRepresentationQosPolicy { value: vec![] });
    default_is(TypeConsistencyEnforcementQosPolicy {
        kind: TypeConsistencyKind::AllowTypeCoercion,
        ignore_sequence_bounds: true,
        ignore_string_bounds: true,
        ignore_member_names: false,
        prevent_type_widening: false,
        force_type_validation: false,
    });
}

#[test]
fn only_writers_are_reliable_by_default() {
    let reliability =
        |kind| ReliabilityQosPolicy { kind, max_blocking_time: Duration::from_millis(100) };
    let best_effort = reliability(ReliabilityQosPolicyKind::BestEffort);
    assert_eq!(
        DataWriterQos::default().reliability,
        reliability(ReliabilityQosPolicyKind::Reliable)
    );
    assert_eq!(DataReaderQos::default().reliability, best_effort);
    assert_eq!(TopicQos::default().reliability, best_effort);
}

#[test]
fn default_qos_is_consistent() {
    assert_eq!(DomainParticipantQos::default().inconsistencies(), []);
    assert_eq!(TopicQos::default().inconsistencies(), []);
    assert_eq!(PublisherQos::default().inconsistencies(), []);
    assert_eq!(SubscriberQos::default().inconsistencies(), []);
    assert_eq!(DataWriterQos::default().inconsistencies(), []);
    assert_eq!(DataReaderQos::default().inconsistencies(), []);
}

#[test]
fn changes_of_immutable_policies_are_reported() {
    let old = DataWriterQos::default();
    let mut new = old.clone();
    new.deadline.period = Duration::from_secs(1);
    new.history.depth = 4;
    new.reliability.kind = ReliabilityQosPolicyKind::BestEffort;
    let changed = [PolicyId::Deadline, PolicyId::Reliability, PolicyId::History];
    assert_eq!(old.changed(&new), changed);
    assert_eq!(old.immutable_changes(&new), changed[1..]);
    assert_eq!(old.immutable_changes(&old.clone()), []);
}

/// Returns a value that differs from the given one.
fn other(value: Value) -> Value {
    match value {
        Value::Bool(value) => Value::Bool(!value),
        Value::Unsigned(value) => Value::Unsigned(value + 7),
        Value::Signed(value) => Value::Signed(value - 7),
        Value::Length(_) => Value::Length(Length::of(7)),
        Value::Duration(_) => Value::Duration(Duration::from_millis(7)),
        Value::Kind(value) => Value::Kind(1 - value.min(1)),
        Value::Octets(_) => Value::Octets(vec![7]),
        Value::Texts(_) => Value::Texts(vec!["seven".to_owned()]),
        Value::Kinds(_) => Value::Kinds(vec![2]),
    }
}

/// Returns, for each field of each policy of a kind of entity, a set that differs only in
/// that field.
fn changes(from: &EntityQos) -> Vec<(PolicyId, EntityQos)> {
    let mut changes = Vec::new();
    for (policy, _) in from.kind().policies() {
        for field in 0..policy.fields().len() {
            let mut to = from.clone();
            let value = other(from.value(policy, field).unwrap());
            assert!(to.set_value(policy, field, &value));
            assert!(!to.agrees(from, policy) && from.agrees(from, policy), "{policy}");
            let of_another_type = match value {
                Value::Bool(_) => Value::Unsigned(1),
                _ => Value::Bool(true),
            };
            let mut untouched = to.clone();
            assert!(!untouched.set_value(policy, field, &of_another_type), "{policy}");
            let beyond = policy.fields().len();
            assert!(!untouched.set_value(policy, beyond, &value), "{policy}");
            assert_eq!(untouched, to, "{policy}");
            let mut adopting = from.clone();
            adopting.adopt(&to, policy);
            assert_eq!(adopting, to, "{policy}");
            changes.push((policy, to));
        }
    }
    changes
}

#[test]
fn each_policy_change_is_reported_and_immutable_as_in_table() {
    macro_rules! check {
        ($($kind:ident),*) => {$({
            let from = EntityKind::$kind.default_qos();
            let EntityQos::$kind(old) = from.clone() else { panic!("it is of its kind") };
            for (policy, to) in changes(&from) {
                let EntityQos::$kind(new) = to else { panic!("it stays of its kind") };
                assert_eq!(old.changed(&new), [policy]);
                let late: &[PolicyId] = if policy.changeable_after_enable() { &[] } else { &[policy] };
                assert_eq!(old.immutable_changes(&new), late, "{policy}");
            }
        })*};
    }
    check!(DomainParticipant, Topic, Publisher, Subscriber, DataWriter, DataReader);
}

#[test]
fn writers_and_readers_copy_shared_policies_from_topic() {
    macro_rules! check {
        ($($qos:ident),*) => {$({
            let mut usual = $qos::default();
            usual.copy_from_topic_qos(&TopicQos::default());
            for (policy, to) in changes(&TopicQos::default().into()) {
                let EntityQos::Topic(topic) = to else { panic!("it stays a topic's") };
                let mut own = $qos::default();
                own.copy_from_topic_qos(&topic);
                let taken: &[PolicyId] =
                    if $qos::POLICIES.contains(&policy) { &[policy] } else { &[] };
                assert_eq!(own.changed(&usual), taken, "{policy}");
                assert!(taken.is_empty() || EntityQos::from(own).agrees(&topic.into(), policy));
            }
        })*};
    }
    check!(DataWriterQos, DataReaderQos);
}

#[test]
fn only_topics_writers_and_readers_belong_to_topic() {
    use EntityKind::*;
    let of_topics = EntityKind::ALL.into_iter().filter(|kind| kind.has_topic());
    assert!(of_topics.eq([Topic, DataWriter, DataReader]));
}

/// Names in the standard of each field that has names.
#[rustfmt::skip]
const CONSTANTS: [(PolicyId, &str, &str, &[&str]); 10] = [
    (PolicyId::Durability, "kind", "_DURABILITY_QOS",
        &["VOLATILE", "TRANSIENT_LOCAL", "TRANSIENT", "PERSISTENT"]),
    (PolicyId::Presentation, "access_scope", "_PRESENTATION_QOS", &["INSTANCE", "TOPIC", "GROUP"]),
    (PolicyId::Ownership, "kind", "_OWNERSHIP_QOS", &["SHARED", "EXCLUSIVE"]),
    (PolicyId::Liveliness, "kind", "_LIVELINESS_QOS",
        &["AUTOMATIC", "MANUAL_BY_PARTICIPANT", "MANUAL_BY_TOPIC"]),
    (PolicyId::Reliability, "kind", "_RELIABILITY_QOS", &["BEST_EFFORT", "RELIABLE"]),
    (PolicyId::DestinationOrder, "kind", "_DESTINATIONORDER_QOS",
        &["BY_RECEPTION_TIMESTAMP", "BY_SOURCE_TIMESTAMP"]),
    (PolicyId::History, "kind", "_HISTORY_QOS", &["KEEP_LAST", "KEEP_ALL"]),
    (PolicyId::DurabilityService, "history_kind", "_HISTORY_QOS", &["KEEP_LAST", "KEEP_ALL"]),
    (PolicyId::DataRepresentation, "value", "_DATA_REPRESENTATION", &["XCDR", "XML", "XCDR2"]),
    (PolicyId::TypeConsistencyEnforcement, "kind", "",
        &["DISALLOW_TYPE_COERCION", "ALLOW_TYPE_COERCION"]),
];

#[test]
fn policy_kinds_have_names_of_standard() {
    let fields = PolicyId::ALL.into_iter().flat_map(|policy| {
        policy.fields().iter().filter_map(move |field| match field.ty {
            FieldType::Kind(names) | FieldType::Kinds(names) => Some((policy, field.name, names)),
            _ => None,
        })
    });
    let mut seen = 0;
    for (policy, field, names) in fields {
        let known = CONSTANTS.iter().find(|known| (known.0, known.1) == (policy, field));
        let (.., suffix, all) = known.unwrap();
        assert_eq!(names.count(), all.len(), "{policy}");
        for (index, short) in all.iter().enumerate() {
            let constant = format!("{short}{suffix}");
            assert_eq!(names.short(index).as_deref(), Some(*short));
            assert_eq!(names.constant(index), Some(constant.clone()));
            assert_eq!((names.find(short), names.find(&constant)), (Some(index), Some(index)));
        }
        assert_eq!((names.short(all.len()), names.constant(all.len())), (None, None));
        assert_eq!((names.find("NONE"), names.find("")), (None, None));
        seen += 1;
    }
    assert_eq!(seen, CONSTANTS.len());
}

#[test]
fn entity_qos_has_policies_of_its_entity_kind() {
    let all: [(EntityKind, &[PolicyId]); 6] = [
        (EntityKind::DomainParticipant, DomainParticipantQos::POLICIES),
        (EntityKind::Topic, TopicQos::POLICIES),
        (EntityKind::Publisher, PublisherQos::POLICIES),
        (EntityKind::Subscriber, SubscriberQos::POLICIES),
        (EntityKind::DataWriter, DataWriterQos::POLICIES),
        (EntityKind::DataReader, DataReaderQos::POLICIES),
    ];
    for (kind, policies) in all {
        let (own, names): (Vec<_>, Vec<_>) = kind.policies().unzip();
        assert_eq!(own, policies, "{kind:?}");
        for (policy, name) in own.into_iter().zip(names) {
            // Two policies have another name in a set than in the table.
            let table = policy.name().to_lowercase();
            assert!(table.ends_with(name) || table.starts_with(name), "{policy} is {name}");
        }
        let mut qos = kind.default_qos();
        assert_eq!((qos.kind(), qos.inconsistencies()), (kind, vec![]));
        let has_limits = qos.set_value(PolicyId::History, 1, &Value::Unsigned(0));
        assert_eq!(has_limits, kind.has_topic());
        assert_eq!(qos.inconsistencies().len(), usize::from(has_limits), "{kind:?}");
    }
}
