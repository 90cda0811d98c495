//! Every field of every policy, on every entity that has it: a file that sets it, with the
//! resulting value, and a file with an invalid value, with the whole error.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use qos_profiles::EntityKind;
use qos_profiles::xml::Origin;
use support::{errors, file, path, resolved};

struct PolicyCase {
    policy: &'static str,
    field: &'static str,
    /// Valid content of the field's element, and the resulting value in text form.
    right: &'static str,
    formatted: &'static str,
    /// Invalid content; the position of the error, the elements from the policy on, and the rest of
    /// the error.
    invalid: &'static str,
    error: &'static str,
}

#[rustfmt::skip]
const ROWS: &[PolicyCase] = &[
    PolicyCase {
        policy: "user_data",
        field: "value",
        right: "0x0a0B",
        formatted: "0x0a0b",
        invalid: "1, 256",
        error: "5:12: user_data/value: found `256` in a list of bytes; expected base64, hexadecimal (`0x0a0b`) or a list of bytes (`10, 11`)",
    },
    PolicyCase {
        policy: "topic_data",
        field: "value",
        right: "Cgs=",
        formatted: "0x0a0b",
        invalid: "Cgs",
        error: "5:13: topic_data/value: found `Cgs`: base64 comes in groups of four letters, the last filled up with `=`; expected base64, hexadecimal (`0x0a0b`) or a list of bytes (`10, 11`)",
    },
    PolicyCase {
        policy: "group_data",
        field: "value",
        right: "<element>10</element><element>0x0b</element>",
        formatted: "0x0a0b",
        invalid: "0x012",
        error: "5:13: group_data/value: found 3 hexadecimal digits, which make no whole bytes; expected base64, hexadecimal (`0x0a0b`) or a list of bytes (`10, 11`)",
    },
    PolicyCase {
        policy: "durability",
        field: "kind",
        right: "TRANSIENT_DURABILITY_QOS",
        formatted: "TRANSIENT",
        invalid: "TRANSIENT_QOS",
        error: "5:13: durability/kind: found `TRANSIENT_QOS`; expected `VOLATILE_DURABILITY_QOS`, `TRANSIENT_LOCAL_DURABILITY_QOS`, `TRANSIENT_DURABILITY_QOS` or `PERSISTENT_DURABILITY_QOS`; did you mean `TRANSIENT`?",
    },
    PolicyCase {
        policy: "durability_service",
        field: "service_cleanup_delay",
        right: "<sec>7</sec>",
        formatted: "7s",
        invalid: "<sec>-1</sec>",
        error: "5:44: durability_service/service_cleanup_delay/sec: found `-1`; expected a number from 0 to 2147483646, or `DURATION_INFINITE_SEC`",
    },
    PolicyCase {
        policy: "durability_service",
        field: "history_kind",
        right: "KEEP_ALL_HISTORY_QOS",
        formatted: "KEEP_ALL",
        invalid: "KEEP_SOME",
        error: "5:21: durability_service/history_kind: found `KEEP_SOME`; expected `KEEP_LAST_HISTORY_QOS` or `KEEP_ALL_HISTORY_QOS`",
    },
    PolicyCase {
        policy: "durability_service",
        field: "history_depth",
        right: "7",
        formatted: "7",
        invalid: "-1",
        error: "5:21: durability_service/history_depth: found `-1`; expected a number from 0 to 2147483647",
    },
    PolicyCase {
        policy: "durability_service",
        field: "max_samples",
        right: "7",
        formatted: "7",
        invalid: "-2",
        error: "5:21: durability_service/max_samples: found `-2`; expected a number from 0 to 2147483647, or `LENGTH_UNLIMITED`",
    },
    PolicyCase {
        policy: "durability_service",
        field: "max_instances",
        right: "7",
        formatted: "7",
        invalid: "2147483648",
        error: "5:21: durability_service/max_instances: found `2147483648`; expected a number from 0 to 2147483647, or `LENGTH_UNLIMITED`",
    },
    PolicyCase {
        policy: "durability_service",
        field: "max_samples_per_instance",
        right: "LENGTH_UNLIMITED",
        formatted: "unlimited",
        invalid: "UNLIMITED",
        error: "5:21: durability_service/max_samples_per_instance: found `UNLIMITED`; expected a number from 0 to 2147483647, or `LENGTH_UNLIMITED`",
    },
    PolicyCase {
        policy: "presentation",
        field: "access_scope",
        right: "GROUP_PRESENTATION_QOS",
        formatted: "GROUP",
        invalid: "GRUOP",
        error: "5:15: presentation/access_scope: found `GRUOP`; expected `INSTANCE_PRESENTATION_QOS`, `TOPIC_PRESENTATION_QOS` or `GROUP_PRESENTATION_QOS`; did you mean `GROUP`?",
    },
    PolicyCase {
        policy: "presentation",
        field: "coherent_access",
        right: "true",
        formatted: "true",
        invalid: "yes",
        error: "5:15: presentation/coherent_access: found `yes`; expected `true` or `false`",
    },
    PolicyCase {
        policy: "presentation",
        field: "ordered_access",
        right: "1",
        formatted: "true",
        invalid: "2",
        error: "5:15: presentation/ordered_access: found `2`; expected `true` or `false`",
    },
    PolicyCase {
        policy: "deadline",
        field: "period",
        right: "<sec>1</sec><nanosec>500000000</nanosec>",
        formatted: "1.5s",
        invalid: "<sec>1</sec><nanosec>1000000000</nanosec>",
        error: "5:31: deadline/period/nanosec: found `1000000000`; expected a number from 0 to 999999999, or `DURATION_INFINITE_NSEC`",
    },
    PolicyCase {
        policy: "latency_budget",
        field: "duration",
        right: "DURATION_INFINITE",
        formatted: "infinite",
        invalid: "soon",
        error: "5:17: latency_budget/duration: found `soon`; expected `<sec>` and `<nanosec>`, or `DURATION_INFINITE`",
    },
    PolicyCase {
        policy: "ownership",
        field: "kind",
        right: "EXCLUSIVE",
        formatted: "EXCLUSIVE",
        invalid: "ALONE",
        error: "5:12: ownership/kind: found `ALONE`; expected `SHARED_OWNERSHIP_QOS` or `EXCLUSIVE_OWNERSHIP_QOS`",
    },
    PolicyCase {
        policy: "ownership_strength",
        field: "value",
        right: "-7",
        formatted: "-7",
        invalid: "2147483648",
        error: "5:21: ownership_strength/value: found `2147483648`; expected a number from -2147483648 to 2147483647",
    },
    PolicyCase {
        policy: "liveliness",
        field: "kind",
        right: "MANUAL_BY_TOPIC_LIVELINESS_QOS",
        formatted: "MANUAL_BY_TOPIC",
        invalid: "MANUAL_BY_READER",
        error: "5:13: liveliness/kind: found `MANUAL_BY_READER`; expected `AUTOMATIC_LIVELINESS_QOS`, `MANUAL_BY_PARTICIPANT_LIVELINESS_QOS` or `MANUAL_BY_TOPIC_LIVELINESS_QOS`",
    },
    PolicyCase {
        policy: "liveliness",
        field: "lease_duration",
        right: "<nanosec>7</nanosec>",
        formatted: "7ns",
        invalid: "<milli>7</milli>",
        error: "5:29: liveliness/lease_duration/milli: found an unknown element; expected `sec` or `nanosec`",
    },
    PolicyCase {
        policy: "time_based_filter",
        field: "minimum_separation",
        right: "<sec>0</sec><nanosec>7000</nanosec>",
        formatted: "7µs",
        invalid: "",
        error: "5:20: time_based_filter/minimum_separation: found no duration; expected `<sec>` and `<nanosec>`, or `DURATION_INFINITE`",
    },
    PolicyCase {
        policy: "partition",
        field: "name",
        right: "<element>a</element><element>b*</element>",
        formatted: "\"a\", \"b*\"",
        invalid: "a",
        error: "5:12: partition/name: found the text `a`; expected `<element>` for each",
    },
    PolicyCase {
        policy: "reliability",
        field: "kind",
        right: "RELIABLE_RELIABILITY_QOS",
        formatted: "RELIABLE",
        invalid: "RELIABEL",
        error: "5:14: reliability/kind: found `RELIABEL`; expected `BEST_EFFORT_RELIABILITY_QOS` or `RELIABLE_RELIABILITY_QOS`; did you mean `RELIABLE`?",
    },
    PolicyCase {
        policy: "reliability",
        field: "max_blocking_time",
        right: "<sec>DURATION_INFINITE_SEC</sec><nanosec>DURATION_INFINITE_NSEC</nanosec>",
        formatted: "infinite",
        invalid: "<sec>DURATION_INFINITE_SEC</sec><nanosec>0</nanosec>",
        error: "5:14: reliability/max_blocking_time: found a duration with one infinite and one finite part; expected both or none to be infinite",
    },
    PolicyCase {
        policy: "destination_order",
        field: "kind",
        right: "BY_SOURCE_TIMESTAMP_DESTINATIONORDER_QOS",
        formatted: "BY_SOURCE_TIMESTAMP",
        invalid: "BY_SOURCE",
        error: "5:20: destination_order/kind: found `BY_SOURCE`; expected `BY_RECEPTION_TIMESTAMP_DESTINATIONORDER_QOS` or `BY_SOURCE_TIMESTAMP_DESTINATIONORDER_QOS`",
    },
    PolicyCase {
        policy: "history",
        field: "kind",
        right: "KEEP_ALL_HISTORY_QOS",
        formatted: "KEEP_ALL",
        invalid: "",
        error: "5:10: history/kind: found nothing; expected `KEEP_LAST_HISTORY_QOS` or `KEEP_ALL_HISTORY_QOS`",
    },
    PolicyCase {
        policy: "history",
        field: "depth",
        right: "7",
        formatted: "7",
        invalid: "seven",
        error: "5:10: history/depth: found `seven`; expected a number from 0 to 2147483647",
    },
    PolicyCase {
        policy: "resource_limits",
        field: "max_samples",
        right: "7",
        formatted: "7",
        invalid: "7.0",
        error: "5:18: resource_limits/max_samples: found `7.0`; expected a number from 0 to 2147483647, or `LENGTH_UNLIMITED`",
    },
    PolicyCase {
        policy: "resource_limits",
        field: "max_instances",
        right: "-1",
        formatted: "unlimited",
        invalid: "LENGTH_UNLIMITTED",
        error: "5:18: resource_limits/max_instances: found `LENGTH_UNLIMITTED`; expected a number from 0 to 2147483647, or `LENGTH_UNLIMITED`; did you mean `LENGTH_UNLIMITED`?",
    },
    PolicyCase {
        policy: "resource_limits",
        field: "max_samples_per_instance",
        right: "7",
        formatted: "7",
        invalid: "0x7",
        error: "5:18: resource_limits/max_samples_per_instance: found `0x7`; expected a number from 0 to 2147483647, or `LENGTH_UNLIMITED`",
    },
    PolicyCase {
        policy: "entity_factory",
        field: "autoenable_created_entities",
        right: "false",
        formatted: "false",
        invalid: "flase",
        error: "5:17: entity_factory/autoenable_created_entities: found `flase`; expected `true` or `false`; did you mean `false`?",
    },
    PolicyCase {
        policy: "writer_data_lifecycle",
        field: "autodispose_unregistered_instances",
        right: "false",
        formatted: "false",
        invalid: "",
        error: "5:24: writer_data_lifecycle/autodispose_unregistered_instances: found nothing; expected `true` or `false`",
    },
    PolicyCase {
        policy: "reader_data_lifecycle",
        field: "autopurge_nowriter_samples_delay",
        right: "<sec>7</sec>",
        formatted: "7s",
        invalid: "<sec>7</sec><sec>8</sec>",
        error: "5:70: reader_data_lifecycle/autopurge_nowriter_samples_delay/sec: found this element a second time; expected it once",
    },
    PolicyCase {
        policy: "reader_data_lifecycle",
        field: "autopurge_disposed_samples_delay",
        right: "<sec>7</sec>",
        formatted: "7s",
        invalid: "7",
        error: "5:24: reader_data_lifecycle/autopurge_disposed_samples_delay: found `7`; expected `<sec>` and `<nanosec>`, or `DURATION_INFINITE`",
    },
    PolicyCase {
        policy: "transport_priority",
        field: "value",
        right: "-7",
        formatted: "-7",
        invalid: "high",
        error: "5:21: transport_priority/value: found `high`; expected a number from -2147483648 to 2147483647",
    },
    PolicyCase {
        policy: "lifespan",
        field: "duration",
        right: "<sec>2147483647</sec><nanosec>2147483647</nanosec>",
        formatted: "infinite",
        invalid: "<sec>2147483647</sec><nanosec>0</nanosec>",
        error: "5:11: lifespan/duration: found a duration with one infinite and one finite part; expected both or none to be infinite",
    },
    PolicyCase {
        policy: "representation",
        field: "value",
        right: "<element>XCDR2_DATA_REPRESENTATION</element><element>0</element>",
        formatted: "XCDR2, XCDR",
        invalid: "<element>XCDR3</element>",
        error: "5:24: representation/value/element: found `XCDR3`; expected `XCDR_DATA_REPRESENTATION`, `XML_DATA_REPRESENTATION` or `XCDR2_DATA_REPRESENTATION`; did you mean `XCDR`?",
    },
    PolicyCase {
        policy: "type_consistency",
        field: "kind",
        right: "DISALLOW_TYPE_COERCION",
        formatted: "DISALLOW_TYPE_COERCION",
        invalid: "ALLOW",
        error: "5:19: type_consistency/kind: found `ALLOW`; expected `DISALLOW_TYPE_COERCION` or `ALLOW_TYPE_COERCION`",
    },
    PolicyCase {
        policy: "type_consistency",
        field: "ignore_sequence_bounds",
        right: "false",
        formatted: "false",
        invalid: "no",
        error: "5:19: type_consistency/ignore_sequence_bounds: found `no`; expected `true` or `false`",
    },
    PolicyCase {
        policy: "type_consistency",
        field: "ignore_string_bounds",
        right: "false",
        formatted: "false",
        invalid: "no",
        error: "5:19: type_consistency/ignore_string_bounds: found `no`; expected `true` or `false`",
    },
    PolicyCase {
        policy: "type_consistency",
        field: "ignore_member_names",
        right: "true",
        formatted: "true",
        invalid: "no",
        error: "5:19: type_consistency/ignore_member_names: found `no`; expected `true` or `false`",
    },
    PolicyCase {
        policy: "type_consistency",
        field: "prevent_type_widening",
        right: "true",
        formatted: "true",
        invalid: "no",
        error: "5:19: type_consistency/prevent_type_widening: found `no`; expected `true` or `false`",
    },
    PolicyCase {
        policy: "type_consistency",
        field: "force_type_validation",
        right: "true",
        formatted: "true",
        invalid: "no",
        error: "5:19: type_consistency/force_type_validation: found `no`; expected `true` or `false`",
    },
];

/// Returns the rows of a kind of entity.
fn rows(kind: EntityKind) -> impl Iterator<Item = &'static PolicyCase> {
    ROWS.iter().filter(move |row| kind.policies().any(|(_, name)| name == row.policy))
}

impl PolicyCase {
    fn text(&self, inside: &str) -> String {
        let PolicyCase { policy, field, .. } = self;
        format!("<{policy}><{field}>{inside}</{field}></{policy}>")
    }
}

#[test]
fn every_policy_field_has_test_row() {
    for kind in EntityKind::ALL {
        for (policy, name) in kind.policies() {
            for field in policy.fields() {
                let has = rows(kind).any(|row| row.policy == name && row.field == field.name);
                assert!(has, "no row of {name}.{}", field.name);
            }
        }
    }
}

#[test]
fn valid_value_is_applied_and_other_fields_keep_defaults() {
    for kind in EntityKind::ALL {
        for row in rows(kind) {
            let entity = resolved(kind, &row.text(row.right));
            let default = kind.default_qos();
            for (policy, name) in kind.policies() {
                for (index, field) in policy.fields().iter().enumerate() {
                    let value = entity.qos.value(policy, index).unwrap();
                    if (name, field.name) == (row.policy, row.field) {
                        assert_eq!(
                            field.show(&value).to_string(),
                            row.formatted,
                            "{kind:?} {name}.{}",
                            field.name
                        );
                        assert_ne!(*entity.origin(policy, index), Origin::Default);
                    } else {
                        assert_eq!(
                            Some(value),
                            default.value(policy, index),
                            "{kind:?} {name}.{}",
                            field.name
                        );
                        assert_eq!(*entity.origin(policy, index), Origin::Default);
                    }
                }
            }
        }
    }
}

#[test]
fn invalid_value_is_reported_with_position_and_expected_value() {
    for kind in EntityKind::ALL {
        for row in rows(kind) {
            let (line, rest) = row.error.split_once(": ").unwrap();
            let expected = format!("str:1:{line}: {}/{rest}", path(kind));
            assert_eq!(errors(&file(kind, &row.text(row.invalid))), [expected]);
        }
    }
}

#[test]
fn all_invalid_values_are_reported_in_one_run() {
    for kind in EntityKind::ALL {
        let text: Vec<String> = rows(kind).map(|row| row.text(row.invalid)).collect();
        // A policy may occur only once, so an error in its second field is not reported.
        let mut policies: Vec<&str> = rows(kind).map(|row| row.policy).collect();
        policies.dedup();
        let told = errors(&file(kind, &text.join("\n")));
        let again = told
            .iter()
            .filter(|error| error.ends_with("found this element a second time; expected it once"));
        assert!(
            told.len() == text.len() && again.count() >= text.len() - policies.len(),
            "{told:#?}"
        );
    }
}
