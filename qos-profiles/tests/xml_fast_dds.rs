//! Profiles in the form of Fast DDS.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use qos_profiles::xml::{DeliveryLevel, QosProvider};
use qos_profiles::{
    DestinationOrderQosPolicyKind, DurabilityQosPolicyKind, Duration, EntityKind,
    HistoryQosPolicyKind, Length, LivelinessQosPolicyKind, OwnershipQosPolicyKind,
    PresentationQosPolicyAccessScopeKind, ReliabilityQosPolicyKind,
};
use support::{errors, provider};

/// Returns a file with these profiles; they begin in line 3.
fn file(profiles: &str) -> String {
    format!("<dds xmlns=\"http://www.eprosima.com\">\n<profiles>\n{profiles}\n</profiles>\n</dds>")
}

/// Returns a profile of a writer with these policies.
fn writer(qos: &str) -> String {
    file(&format!("<data_writer profile_name=\"W\"><qos>{qos}</qos></data_writer>"))
}

fn ignored(provider: &QosProvider) -> Vec<String> {
    provider.ignored().iter().map(ToString::to_string).collect()
}

const ALL_OF_WRITER: &str = "\
    <data_writer profile_name='W'>
        <topic>
            <historyQos><kind>KEEP_LAST</kind><depth>7</depth></historyQos>
            <resourceLimitsQos>
                <max_samples>40</max_samples>
                <max_instances>4</max_instances>
                <max_samples_per_instance>10</max_samples_per_instance>
            </resourceLimitsQos>
        </topic>
        <qos>
            <deadline><period><sec>1</sec></period></deadline>
            <destinationOrder><kind>BY_SOURCE_TIMESTAMP</kind></destinationOrder>
            <durability><kind>TRANSIENT_LOCAL</kind></durability>
            <groupData><value>1.a.ff</value></groupData>
            <latencyBudget><duration><nanosec>5</nanosec></duration></latencyBudget>
            <lifespan><duration><sec>9</sec></duration></lifespan>
            <liveliness>
                <kind>MANUAL_BY_TOPIC</kind>
                <lease_duration><sec>2</sec></lease_duration>
            </liveliness>
            <ownership><kind>EXCLUSIVE</kind></ownership>
            <ownershipStrength><value>50</value></ownershipStrength>
            <partition><names><name>a</name><name>b*</name></names></partition>
            <presentation>
                <access_scope>TOPIC</access_scope>
                <coherent_access>true</coherent_access>
            </presentation>
            <reliability>
                <kind>RELIABLE</kind>
                <max_blocking_time><sec>DURATION_INFINITY</sec></max_blocking_time>
            </reliability>
            <userData><value>7.10</value></userData>
        </qos>
        <propertiesPolicy>
            <properties><property><name>squall.writer.in_flight</name><value>3</value></property></properties>
        </propertiesPolicy>
    </data_writer>";

#[test]
fn every_policy_of_fast_dds_writer_is_read() {
    let provider = provider(&file(ALL_OF_WRITER));
    let qos = provider.datawriter_qos("W").unwrap();
    assert_eq!((qos.history.kind, qos.history.depth), (HistoryQosPolicyKind::KeepLast, 7));
    assert_eq!(qos.resource_limits.max_samples, Length::of(40));
    assert_eq!(qos.resource_limits.max_instances, Length::of(4));
    assert_eq!(qos.resource_limits.max_samples_per_instance, Length::of(10));
    assert_eq!(qos.deadline.period, Duration::from_millis(1000));
    assert_eq!(qos.destination_order.kind, DestinationOrderQosPolicyKind::BySourceTimestamp);
    assert_eq!(qos.durability.kind, DurabilityQosPolicyKind::TransientLocal);
    assert_eq!(qos.latency_budget.duration, Duration::new(0, 5).unwrap());
    assert_eq!(qos.lifespan.duration, Duration::from_millis(9000));
    assert_eq!(qos.liveliness.kind, LivelinessQosPolicyKind::ManualByTopic);
    assert_eq!(qos.liveliness.lease_duration, Duration::from_millis(2000));
    assert_eq!(qos.ownership.kind, OwnershipQosPolicyKind::Exclusive);
    assert_eq!(qos.ownership_strength.value, 50);
    assert_eq!(qos.reliability.kind, ReliabilityQosPolicyKind::Reliable);
    assert_eq!(qos.reliability.max_blocking_time, Duration::INFINITE);
    assert_eq!(qos.user_data.value, [7, 16]);
    let entity = provider.entity(EntityKind::DataWriter, "W", None).unwrap();
    assert_eq!(entity.property("squall.writer.in_flight"), Some("3"));
    assert!(provider.ignored().is_empty(), "{:#?}", provider.ignored());
}

/// PARTITION, PRESENTATION and GROUP_DATA belong to the publisher here.
#[test]
fn group_policies_of_fast_dds_writer_are_those_of_its_publisher() {
    let provider = provider(&file(ALL_OF_WRITER));
    let qos = provider.publisher_qos("W").unwrap();
    assert_eq!(qos.partition.name, ["a", "b*"]);
    assert_eq!(qos.presentation.access_scope, PresentationQosPolicyAccessScopeKind::Topic);
    assert!(qos.presentation.coherent_access);
    assert_eq!(qos.group_data.value, [1, 10, 255]);
    assert!(provider.subscriber_qos("W").unwrap().partition.name.is_empty());
}

#[test]
fn reader_participant_and_topic_of_fast_dds_are_read() {
    let provider = provider(&file(
        "<participant profile_name='P'><domainId>3</domainId><rtps><userData><value>c.d</value></userData>\
         <propertiesPolicy><properties><property><name>squall.waiting</name><value>polling</value>\
         </property></properties></propertiesPolicy></rtps></participant>\
         <topic profile_name='T'><historyQos><kind>KEEP_ALL</kind></historyQos></topic>\
         <subscriber profile_name='R'><qos><timeBasedFilter><minimum_separation><sec>1</sec>\
         </minimum_separation></timeBasedFilter><partition><names><name>x</name></names></partition></qos>\
         </subscriber><publisher profile_name='R'/>",
    ));
    assert_eq!(provider.participant_qos("P").unwrap().user_data.value, [12, 13]);
    let participant = provider.entity(EntityKind::DomainParticipant, "P", None).unwrap();
    assert_eq!(participant.property("squall.waiting"), Some("polling"));
    assert_eq!(provider.topic_qos("T").unwrap().history.kind, HistoryQosPolicyKind::KeepAll);
    let reader = provider.datareader_qos("R").unwrap();
    assert_eq!(reader.time_based_filter.minimum_separation, Duration::from_millis(1000));
    assert_eq!(provider.subscriber_qos("R").unwrap().partition.name, ["x"]);
    assert_eq!(provider.profile_names().iter().filter(|name| !name.contains("::")).count(), 3);
}

/// In Fast DDS a limit of zero or less is no limit.
#[test]
fn zero_and_negative_limits_of_fast_dds_are_unlimited() {
    let provider = provider(&file(
        "<topic profile_name='T'><resourceLimitsQos><max_samples>0</max_samples>\
         <max_instances>-5</max_instances><max_samples_per_instance>0</max_samples_per_instance>\
         </resourceLimitsQos></topic>",
    ));
    let limits = provider.topic_qos("T").unwrap().resource_limits;
    for limit in [limits.max_samples, limits.max_instances, limits.max_samples_per_instance] {
        assert!(limit.is_unlimited());
    }
}

/// A topic decides here what is kept; in Fast DDS its writer does.
#[test]
fn topic_of_fast_dds_profile_follows_its_writer() {
    let provider = provider(&file(&format!(
        "{ALL_OF_WRITER}<data_reader profile_name='R'/>\
         <data_writer profile_name='E'><qos><reliability><kind>BEST_EFFORT</kind></reliability></qos></data_writer>\
         <data_writer profile_name='Own'><qos><durability><kind>TRANSIENT_LOCAL</kind></durability></qos></data_writer>\
         <topic profile_name='Own'/>"
    )));
    let topic = provider.topic_qos("W").unwrap();
    assert_eq!(topic.durability.kind, DurabilityQosPolicyKind::TransientLocal);
    assert_eq!(topic.reliability.kind, ReliabilityQosPolicyKind::Reliable);
    assert_eq!(topic.history.depth, 7);
    let level = |name: &str| provider.entity(EntityKind::Topic, name, None).unwrap().level();
    assert_eq!(level("W"), Some(DeliveryLevel::Kept));
    assert_eq!(level("E"), Some(DeliveryLevel::Unordered));
    assert_eq!(level("R"), Some(DeliveryLevel::Unordered), "readers are best effort by default");
    assert_eq!(level("Own"), Some(DeliveryLevel::Unordered), "the profile has a topic");
}

/// Fast DDS has a default profile for each kind of entity, and this product one for all.
#[test]
fn default_profiles_of_fast_dds_are_one_default_profile() {
    let provider = provider(&file(
        "<participant profile_name='P' is_default_profile='true'><rtps><userData><value>1</value>\
         </userData></rtps></participant>\
         <data_writer profile_name='W' is_default_profile='true'><qos><durability><kind>TRANSIENT_LOCAL\
         </kind></durability><partition><names><name>p</name></names></partition></qos></data_writer>\
         <data_writer profile_name='Other'/>\
         <data_reader profile_name='R' is_default_profile='true'><qos><reliability><kind>RELIABLE</kind>\
         </reliability></qos></data_reader>",
    ));
    let name = provider.default_profile().unwrap();
    assert_eq!(provider.participant_qos(&name).unwrap().user_data.value, [1]);
    assert_eq!(
        provider.datawriter_qos(&name).unwrap().durability.kind,
        DurabilityQosPolicyKind::TransientLocal
    );
    assert_eq!(provider.publisher_qos(&name).unwrap().partition.name, ["p"]);
    assert_eq!(
        provider.datareader_qos(&name).unwrap().reliability.kind,
        ReliabilityQosPolicyKind::Reliable
    );
    let topic = provider.entity(EntityKind::Topic, &name, None).unwrap();
    assert_eq!(topic.level(), Some(DeliveryLevel::Kept));
    let none = self::provider(&file("<data_writer profile_name='W'/>"));
    assert_eq!(none.default_profile(), None);
}

#[test]
fn second_default_profile_of_same_kind_is_an_error() {
    let one = "<data_reader profile_name='A' is_default_profile='true'/>";
    let two = "<data_reader profile_name='B' is_default_profile='true'/>";
    let told = errors(&file(&format!("{one}\n{two}")));
    assert_eq!(told.len(), 1, "{told:#?}");
    assert!(told[0].starts_with("str:1:4:1: dds/profiles/data_reader[B]"), "{told:#?}");
    let standard = "<qos_profile name='Q' is_default_qos='true'/>";
    let told = errors(&file(one).replace("</dds>", &format!("{standard}</dds>")));
    assert_eq!(told.len(), 1, "{told:#?}");
}

/// Elements without a meaning here are reported once for each name in a file, with what to do
/// instead.
#[test]
fn elements_without_meaning_are_reported_once_with_advice() {
    let locators = "<unicastLocatorList><locator/></unicastLocatorList>";
    let provider = provider(&file(&format!(
        "<transport_descriptors><transport_descriptor/></transport_descriptors>\n\
         <participant profile_name='P'><domainId>0</domainId><rtps><name>n</name><builtin/></rtps></participant>\n\
         <data_writer profile_name='A'>{locators}<qos><publishMode><kind>SYNCHRONOUS</kind></publishMode>\
         <topicData><value>1</value></topicData></qos></data_writer>\n\
         <data_reader profile_name='B'>{locators}</data_reader>\n\
         <data_reader profile_name='C'>{locators}<times/></data_reader>"
    )));
    let told = ignored(&provider);
    let about = |element: &str| -> Vec<&String> {
        told.iter().filter(|line| line.contains(&format!("/{element}: ignored"))).collect()
    };
    assert_eq!(told.len(), 8, "{told:#?}");
    let locators = about("unicastLocatorList");
    assert_eq!(locators.len(), 1);
    assert!(
        locators[0].starts_with("str:1:5:")
            && locators[0]
                .contains("(3 times in this file); participants of one host find each other"),
        "{locators:#?}"
    );
    for element in [
        "transport_descriptors",
        "domainId",
        "name",
        "builtin",
        "publishMode",
        "topicData",
        "times",
    ] {
        let line = about(element);
        assert!(
            line.len() == 1 && line[0].contains("belongs to Fast DDS; "),
            "{element}: {told:#?}"
        );
    }
}

#[test]
fn errors_in_fast_dds_profiles_name_elements_as_written() {
    let told =
        errors(&writer("\n<latencyBudget><duration><sec>x</sec></duration></latencyBudget>"));
    assert_eq!(told.len(), 1, "{told:#?}");
    assert!(
        told[0].starts_with(
            "str:1:4:26: dds/profiles/data_writer[W]/qos/latencyBudget/duration/sec: found `x`"
        ),
        "{told:#?}"
    );
    for (text, part) in [
        (writer("<reliabilty/>"), "did you mean `reliability`?"),
        (
            writer("<durability><kind>TRANSIENT_LOKAL</kind></durability>"),
            "did you mean `TRANSIENT_LOCAL`?",
        ),
        (file("<data_writter profile_name='W'/>"), "did you mean `data_writer`?"),
        (file("<data_writer/>"), "found no attribute `profile_name`"),
        (file("<data_writer profile_name='a::b'/>"), "expected one without `::`"),
        (
            file("<topic profile_name='T' is_default_profile='perhaps'/>"),
            "is_default_profile: found `perhaps`",
        ),
        (
            file("<topic profile_name='T'/><topic profile_name='T'/>"),
            "found a second profile `T` of this kind",
        ),
        (
            file("<topic profile_name='T'/>").replace("</dds>", "<qos_profile name='T'/></dds>"),
            "found a second",
        ),
    ] {
        let told = errors(&text);
        assert!(told.len() == 1 && told[0].contains(part), "{text}: {told:#?}");
    }
}

/// A contradiction between values is reported once, though the topic follows the writer.
#[test]
fn contradiction_in_fast_dds_profile_is_reported_once() {
    let limits = "<data_writer profile_name='W'><topic><historyQos><depth>9</depth></historyQos>\
        <resourceLimitsQos><max_samples_per_instance>3</max_samples_per_instance></resourceLimitsQos>\
        </topic></data_writer>";
    assert_eq!(errors(&file(limits)).len(), 1);
}

/// Profiles and types are in one file, in a root of their own, or beside libraries of the standard.
#[test]
fn fast_dds_types_and_bare_roots_are_read() {
    let types = "<types><type><struct name='S'><member name='a' type='uLong' key='true'/>\
        <member name='b' type='float64' arrayDimensions='2,3'/></struct></type></types>";
    for text in [
        format!("<dds>{types}<profiles><data_reader profile_name='R'/></profiles></dds>"),
        format!("<profiles>{types}<data_reader profile_name='R'/></profiles>"),
        "<profiles xmlns='http://www.eprosima.com/XMLSchemas/fastRTPS_Profiles'>\
         <data_reader profile_name='R'/></profiles>"
            .to_owned(),
        "<dds><qos_library name='L'><qos_profile name='P' base_name='Squall::Atomic'/></qos_library>\
         <profiles><data_reader profile_name='R'/></profiles></dds>"
            .to_owned(),
    ] {
        assert!(provider(&text).datareader_qos("R").is_ok(), "{text}");
    }
}

/// Fast DDS also puts its namespace on an element within the root.
#[test]
fn namespace_of_inner_element_is_read() {
    let inner = "http://www.eprosima.com/XMLSchemas/fastRTPS_Profiles";
    let library = "<qos_library name='L'><qos_profile name='P'/></qos_library>";
    for outer in ["", " xmlns='http://www.eprosima.com'"] {
        let text = format!(
            "<dds{outer}><profiles xmlns='{inner}'><data_reader profile_name='R'/></profiles>{library}</dds>"
        );
        assert!(provider(&text).datareader_qos("R").is_ok(), "{text}");
        let told = errors(&text.replace(inner, "urn:other"));
        assert!(told[0].contains("found an element of `urn:other`"), "{told:#?}");
    }
}

/// Settings of a participant that have no meaning here are named, and leave the others valid.
#[test]
fn settings_of_fast_dds_participant_are_ignored() {
    let text = file(
        "<participant profile_name='P'><easy_mode>127.0.0.1</easy_mode><rtps>\
         <easy_mode>127.0.0.1</easy_mode><later_transport><a><b/></a></later_transport>\
         <userData><value>1.2</value></userData></rtps></participant>",
    );
    let read = provider(&text);
    assert_eq!(read.participant_qos("P").unwrap().user_data.value, [1, 2]);
    let told = ignored(&read);
    assert_eq!(told.len(), 2, "{told:#?}");
    assert!(told.iter().all(|line| line.contains("ignored, belongs to Fast DDS")), "{told:#?}");
    assert!(told[0].contains("participants of one host find each other"), "{told:#?}");
    // A slip of the pen stays an error.
    let told = errors(&text.replace("userData", "userDate"));
    assert!(told.len() == 1 && told[0].contains("did you mean `userData`?"), "{told:#?}");
}

/// The written file is one of the standard, and has the same values for all entities.
#[test]
fn converted_profiles_have_same_values() {
    let first = provider(&file(&format!(
        "{ALL_OF_WRITER}<data_reader profile_name='W' is_default_profile='true'><times/></data_reader>\
         <participant profile_name='P'><rtps><userData><value>1.2</value></userData></rtps></participant>"
    )).replace("</dds>", "<qos_library name='L'><qos_profile name='Q' base_name='Squall::Kept'>\
         <datawriter_qos topic_filter='A*'><history><depth>3</depth></history></datawriter_qos>\
         </qos_profile></qos_library></dds>"));
    let written = first.to_xml();
    let second = provider(&written);
    assert!(second.ignored().is_empty() && !written.contains("<profiles>"), "{written}");
    assert_eq!(second.profile_names().len(), first.profile_names().len());
    assert_eq!(second.default_profile(), first.default_profile());
    for name in first.profile_names() {
        for kind in EntityKind::ALL {
            for topic in [None, Some("Attitude")] {
                let of = |provider: &QosProvider| {
                    let entity = provider.entity(kind, &name, topic).unwrap();
                    (entity.qos, entity.properties)
                };
                assert_eq!(of(&first), of(&second), "{kind:?} of {name}:\n{written}");
            }
        }
    }
}

/// The alternate form of errors shows the line with a caret.
#[test]
fn errors_show_line_and_caret() {
    let text = writer("\n\t<durability><kind>LATER</kind></durability>");
    let told = format!("{:#}", QosProvider::from_str(&text).unwrap_err());
    let lines: Vec<&str> = told.lines().collect();
    assert_eq!(
        lines[1..],
        [
            "  4 |  <durability><kind>LATER</kind></durability></qos></data_writer>",
            "    |              ^"
        ]
    );
}
