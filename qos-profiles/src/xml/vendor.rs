//! Extensions of other products in profiles.
//!
//! Owns: the most common of their names, the positions where they occur, and what serves the same
//! purpose here. Never does: act on one; the reader of a file is told that it has no effect.

pub(super) const RTI: &str = "RTI Connext";
pub(super) const FAST: &str = "Fast DDS";
/// Part of the standard, but not a policy.
const APPLICATION: &str = "DDS-XML beyond participants";

/// Names of elements that belong to a product.
struct ProductNames {
    product: &'static str,
    names: &'static [&'static str],
}

/// Elements directly in the root.
const IN_ROOT: [ProductNames; 3] = [
    ProductNames {
        product: FAST,
        names: &[
            "log",
            "library_settings",
            "domainparticipant_factory",
            "transport_descriptors",
            "replier",
            "requester",
        ],
    },
    ProductNames { product: RTI, names: &["type_library"] },
    ProductNames { product: APPLICATION, names: &["participant_library", "application_library"] },
];

/// Elements directly in a library or a profile.
const IN_PROFILE: [ProductNames; 1] = [ProductNames {
    product: RTI,
    names: &["participant_factory_qos", "domain_participant_factory_qos"],
}];

/// Elements beside the policies of an entity.
const IN_ENTITY: [ProductNames; 2] = [
    ProductNames {
        product: RTI,
        names: &[
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
    },
    ProductNames {
        product: FAST,
        names: &[
            "allocation",
            "binary_properties",
            "builtin",
            "builtinTransports",
            "builtin_controllers_sender_thread",
            "builtin_transports_reception_threads",
            "dataType",
            "data_sharing",
            "default_external_unicast_locators",
            "defaultMulticastLocatorList",
            "defaultUnicastLocatorList",
            "disablePositiveAcks",
            "disable_heartbeat_piggyback",
            "disable_positive_acks",
            "discovery_server_thread",
            "domainId",
            "easy_mode",
            "easy_mode_ip",
            "endpoint",
            "entityID",
            "entity_factory",
            "expectsInlineQos",
            "expects_inline_qos",
            "external_unicast_locators",
            "flow_controller_descriptor_list",
            "flow_controller_name",
            "historyMemoryPolicy",
            "ignore_non_matching_locators",
            "listenSocketBufferSize",
            "matchedPublishersAllocation",
            "matchedSubscribersAllocation",
            "multicastLocatorList",
            "netmask_filter",
            "participantID",
            "port",
            "prefix",
            "propertiesPolicy",
            "publishMode",
            "reliable_reader_qos",
            "reliable_writer_qos",
            "rtps",
            "security_log_thread",
            "sendSocketBufferSize",
            "throughputController",
            "timed_events_thread",
            "times",
            "typelookup_service_thread",
            "unicastLocatorList",
            "useBuiltinTransports",
            "userDefinedID",
            "userTransports",
        ],
    },
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

/// Elements of profiles of Fast DDS whose names have a meaning elsewhere.
const IN_FAST_PROFILE: [&str; 10] = [
    "kind",
    "lifespan",
    "name",
    "ownershipStrength",
    "ownership_strength",
    "timeBasedFilter",
    "time_based_filter",
    "topicData",
    "topic_data",
    "durabilityService",
];

const NO_NETWORK: &str = "participants of one host find each other and exchange samples over \
    shared memory, so there is nothing to set";
const NO_THREADS: &str = "see `squall.engine.cores`, `squall.engine.scheduling` and \
    `squall.waiting` among the properties of participants";
const MEMORY: &str = "see `squall.writer.memory` and `squall.writer.in_flight` among the \
    properties of writers";
const NO_PROTOCOL: &str = "no packets are sent, so there is nothing to acknowledge or to repeat";
const IN_APPLICATIONS: &str = "topics, types and domains are given by the program, or by a \
    `domain_library` and a `domain_participant_library`";
const ASYNCHRONOUS: &str =
    "a write puts the sample into shared memory, and a full memory blocks the writer";
const BATCHES: &str = "samples that are written in a row are published together without a setting";
const NAMES: &str = "use `user_data`, which discovery distributes";

/// Elements of other products, with what serves their purpose here.
const ADVICE: [(&[&str], &str); 12] = [
    (
        &[
            "transport_descriptors",
            "transport_builtin",
            "transport_selection",
            "userTransports",
            "useBuiltinTransports",
            "builtinTransports",
            "builtin",
            "discovery",
            "discovery_config",
            "wire_protocol",
            "defaultUnicastLocatorList",
            "defaultMulticastLocatorList",
            "default_external_unicast_locators",
            "default_unicast",
            "unicast",
            "multicast",
            "multicast_mapping",
            "unicastLocatorList",
            "multicastLocatorList",
            "external_unicast_locators",
            "ignore_non_matching_locators",
            "sendSocketBufferSize",
            "listenSocketBufferSize",
            "netmask_filter",
            "easy_mode",
            "easy_mode_ip",
            "port",
            "prefix",
            "participantID",
            "receiver_pool",
        ],
        NO_NETWORK,
    ),
    (
        &[
            "domainparticipant_factory",
            "builtin_controllers_sender_thread",
            "builtin_transports_reception_threads",
            "discovery_server_thread",
            "security_log_thread",
            "timed_events_thread",
            "typelookup_service_thread",
            "event",
            "database",
            "exclusive_area",
        ],
        NO_THREADS,
    ),
    (
        &[
            "allocation",
            "historyMemoryPolicy",
            "matchedSubscribersAllocation",
            "matchedPublishersAllocation",
            "allocated_samples",
            "extra_samples",
            "initial_samples",
            "initial_instances",
            "instance_hash_buckets",
            "data_sharing",
            "writer_resource_limits",
            "reader_resource_limits",
        ],
        MEMORY,
    ),
    (
        &[
            "times",
            "disablePositiveAcks",
            "disable_positive_acks",
            "disable_heartbeat_piggyback",
            "reliable_writer_qos",
            "reliable_reader_qos",
            "protocol",
            "expectsInlineQos",
            "expects_inline_qos",
            "acknowledgment_kind",
            "announcement_period",
            "assertions_per_lease_duration",
        ],
        NO_PROTOCOL,
    ),
    (&["domainId", "dataType", "replier", "requester"], IN_APPLICATIONS),
    (
        &[
            "publishMode",
            "publish_mode",
            "asynchronous_publisher",
            "flow_controller_name",
            "flow_controller_descriptor_list",
            "throughputController",
        ],
        ASYNCHRONOUS,
    ),
    (&["batch"], BATCHES),
    (
        &[
            "entity_name",
            "participant_name",
            "publication_name",
            "subscription_name",
            "publisher_name",
            "subscriber_name",
        ],
        NAMES,
    ),
    (&["userDefinedID", "entityID"], "the builtin topics give each entity its key"),
    (&["log", "logging"], "`SQUALL_LOG` sets the level of messages"),
    (
        &["topicData", "topic_data"],
        "TOPIC_DATA belongs to the topic: set `topic_data` in a `topic_qos`",
    ),
    (&["timeBasedFilter", "time_based_filter"], "TIME_BASED_FILTER belongs to readers"),
];

/// Beginnings of the names of RTI Connext's bases that have no effect here, and the advice.
const BASES: [(&str, &str); 9] = [
    ("BuiltinQosSnippetLib::Transport.", NO_NETWORK),
    ("BuiltinQosSnippetLib::Optimization.Transport.", NO_NETWORK),
    ("BuiltinQosSnippetLib::Optimization.Discovery.", NO_NETWORK),
    ("BuiltinQosSnippetLib::Optimization.ReliabilityProtocol.", NO_PROTOCOL),
    ("BuiltinQosSnippetLib::Optimization.DataCache.", MEMORY),
    ("BuiltinQosSnippetLib::QosPolicy.PublishMode.", ASYNCHRONOUS),
    ("BuiltinQosSnippetLib::QosPolicy.Batching.", BATCHES),
    ("BuiltinQosSnippetLib::Feature.", "`squall ls`, `spy` and `perf` observe a domain"),
    ("BuiltinQosSnippetLib::Compatibility.", "no samples are exchanged with other products"),
];

/// Bases of RTI Connext that promise what is not there, and the reason for the refusal.
const REFUSED_BASES: [(&str, &str); 4] = [
    ("BuiltinQosSnippetLib::Feature.Security.Enable", NO_SECURITY),
    ("BuiltinQosSnippetLib::Feature.LightweightSecurity.Enable", NO_SECURITY),
    ("BuiltinQosLib::Generic.Security", NO_SECURITY),
    (
        "BuiltinQosSnippetLib::Feature.TopicQuery.Enable",
        "there are no topic queries; a logged topic gives its past to readers that ask for it",
    ),
];
const NO_SECURITY: &str = "there is no DDS Security: every member of a domain can read every topic, \
    and the permissions of the runtime folder decide who becomes a member";

/// Whether a base of RTI Connext has no effect here.
pub(super) fn is_base_without_effect(name: &str) -> bool {
    refused_base(name).is_none() && advice_of_base(name).is_some()
}

fn advice_of_base(name: &str) -> Option<&'static str> {
    BASES.iter().find(|(start, _)| name.starts_with(start)).map(|(_, advice)| *advice)
}

/// Returns the reason for which a base of RTI Connext is refused.
pub(super) fn refused_base(name: &str) -> Option<&'static str> {
    let name = name.replace("BuiltinQosLibExp::", "BuiltinQosLib::");
    REFUSED_BASES.iter().find(|(base, _)| *base == name).map(|(_, reason)| *reason)
}

/// Returns what serves the purpose of a product's element here.
pub(super) fn advice(product: &str, name: &str) -> Option<&'static str> {
    if product == FAST && matches!(name, "kind" | "name") {
        return Some(IN_APPLICATIONS);
    }
    let listed = ADVICE.iter().find(|(names, _)| names.contains(&name)).map(|(_, advice)| *advice);
    listed.or_else(|| advice_of_base(name))
}

/// Whether Fast DDS has an element of this name in a profile, without an effect here.
pub(super) fn is_of_fast_dds(name: &str) -> bool {
    let mut fast = IN_ENTITY.iter().filter(|list| list.product == FAST);
    fast.any(|list| list.names.contains(&name)) || IN_FAST_PROFILE.contains(&name)
}

fn owner(lists: &[ProductNames], name: &str) -> Option<&'static str> {
    lists.iter().find(|list| list.names.contains(&name)).map(|list| list.product)
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
