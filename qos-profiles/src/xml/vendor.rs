//! Extensions of other products in profiles.
//!
//! Owns: the most common of their names, and the positions where they occur. Never does: act on
//! one; the reader of a file is told that it has no effect.

const RTI: &str = "RTI Connext";
const FAST: &str = "Fast DDS";
/// Part of the standard, but not a policy.
const APPLICATION: &str = "DDS-XML beyond participants";

/// Elements directly in the root.
const IN_ROOT: [(&str, &[&str]); 3] = [
    (FAST, &["profiles", "log", "library_settings"]),
    (RTI, &["type_library", "configuration_variables"]),
    (APPLICATION, &["participant_library", "application_library"]),
];

/// Elements directly in a library or a profile.
const IN_PROFILE: [(&str, &[&str]); 1] =
    [(RTI, &["participant_factory_qos", "domain_participant_factory_qos"])];

/// Elements beside the policies of an entity.
const IN_ENTITY: [(&str, &[&str]); 2] = [
    (
        RTI,
        &[
            "asynchronous_publisher",
            "availability",
            "batch",
            "data_tag",
            "database",
            "default_unicast",
            "discovery",
            "discovery_config",
            "entity_name",
            "event",
            "exclusive_area",
            "locator_filter",
            "logging",
            "multi_channel",
            "multicast",
            "multicast_mapping",
            "participant_name",
            "profile",
            "protocol",
            "publication_name",
            "publish_mode",
            "publisher_name",
            "reader_resource_limits",
            "receiver_pool",
            "service",
            "subscriber_name",
            "subscription_name",
            "topic_query_dispatch",
            "transfer_mode",
            "transport_builtin",
            "transport_selection",
            "type_support",
            "unicast",
            "user_object",
            "wire_protocol",
            "writer_resource_limits",
        ],
    ),
    (
        FAST,
        &[
            "allocation",
            "builtin",
            "builtinTransports",
            "data_sharing",
            "default_external_unicast_locators",
            "defaultMulticastLocatorList",
            "defaultUnicastLocatorList",
            "disablePositiveAcks",
            "disable_heartbeat_piggyback",
            "disable_positive_acks",
            "domainId",
            "endpoint",
            "entityID",
            "expectsInlineQos",
            "external_unicast_locators",
            "flow_controller_name",
            "historyMemoryPolicy",
            "ignore_non_matching_locators",
            "listenSocketBufferSize",
            "matchedPublishersAllocation",
            "matchedSubscribersAllocation",
            "multicastLocatorList",
            "propertiesPolicy",
            "publishMode",
            "reliable_reader_qos",
            "reliable_writer_qos",
            "rtps",
            "sendSocketBufferSize",
            "times",
            "unicastLocatorList",
            "useBuiltinTransports",
            "userDefinedID",
            "userTransports",
        ],
    ),
];

/// Elements in a policy of the standard.
const IN_POLICY: [(&str, &str, &[&str]); 15] = [
    (RTI, "durability", &["direct_communication", "storage_settings", "writer_depth"]),
    (RTI, "presentation", &["drop_incomplete_coherent_set"]),
    (RTI, "liveliness", &["assertions_per_lease_duration"]),
    (RTI, "reliability", &["acknowledgment_kind", "instance_state_consistency_kind"]),
    (RTI, "destination_order", &["scope", "source_timestamp_tolerance"]),
    (RTI, "history", &["refilter"]),
    (RTI, "resource_limits", &["initial_samples", "initial_instances", "instance_hash_buckets"]),
    (
        RTI,
        "writer_data_lifecycle",
        &["autopurge_disposed_instances_delay", "autopurge_unregistered_instances_delay"],
    ),
    (
        RTI,
        "reader_data_lifecycle",
        &["autopurge_disposed_instances_delay", "autopurge_nowriter_instances_delay"],
    ),
    (RTI, "representation", &["compression_settings"]),
    (RTI, "data_representation", &["compression_settings"]),
    (RTI, "type_consistency", &["ignore_enum_literal_names"]),
    (FAST, "liveliness", &["announcement_period"]),
    (FAST, "resource_limits", &["allocated_samples", "extra_samples"]),
    (RTI, "property", &["max_properties"]),
];

/// Attributes of profiles.
const ON_PROFILE: [&str; 1] = ["is_default_participant_factory_profile"];

/// Attributes of types and members.
const ON_TYPE: [&str; 9] = [
    "allowedDataRepresentation",
    "languageBinding",
    "max",
    "min",
    "pointer",
    "resolveName",
    "transferMode",
    "unit",
    "visibility",
];

fn owner(groups: &[(&'static str, &[&str])], name: &str) -> Option<&'static str> {
    groups.iter().find(|(_, names)| names.contains(&name)).map(|(product, _)| *product)
}

/// Returns the product that an element directly in the root belongs to.
pub(super) fn in_root(name: &str) -> Option<&'static str> {
    owner(&IN_ROOT, name)
}

/// Returns the product that an element directly in a library or profile belongs to.
pub(super) fn in_profile(name: &str) -> Option<&'static str> {
    owner(&IN_PROFILE, name)
}

/// Returns the product that an element beside the policies belongs to.
pub(super) fn in_entity(name: &str, entity: crate::EntityKind) -> Option<&'static str> {
    // A participant's own limits, under the name of a policy that participants do not have.
    let limits = entity == crate::EntityKind::DomainParticipant && name == "resource_limits";
    if limits { Some(RTI) } else { owner(&IN_ENTITY, name) }
}

/// Returns the product that an element in a policy belongs to.
pub(super) fn in_policy(policy: &str, name: &str) -> Option<&'static str> {
    let found = IN_POLICY.iter().find(|(_, own, names)| *own == policy && names.contains(&name));
    found.map(|(product, ..)| *product)
}

/// Returns the product that an attribute of a profile or of the root belongs to.
pub(super) fn attribute(element: &str, name: &str) -> Option<&'static str> {
    match (element, name) {
        ("qos_profile", name) if ON_PROFILE.contains(&name) => Some(RTI),
        ("dds", "version") => Some(RTI),
        ("register_type", "kind") => Some(RTI),
        ("struct" | "union" | "enum" | "typedef" | "member" | "const", name)
            if ON_TYPE.contains(&name) =>
        {
            Some(RTI)
        }
        _ => None,
    }
}

/// Returns the product that a property belongs to, by the beginning of its name.
pub(super) fn property(name: &str) -> Option<&'static str> {
    match name {
        _ if name.starts_with("dds.")
            || name.starts_with("rti.")
            || name.starts_with("com.rti.") =>
        {
            Some(RTI)
        }
        _ if name.starts_with("fastdds.") || name.starts_with("eprosima.") => Some(FAST),
        _ => None,
    }
}
