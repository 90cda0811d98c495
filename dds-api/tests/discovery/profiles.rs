//! Entities with profiles from files, and files that change while entities run.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::support::{CheckedSample, SOON, TestDomain, until};
use dds_api::prelude::*;
use dds_api::qos::xml::QosProvider;
use dds_api::qos::{
    EntityKind, HistoryQosPolicyKind, PolicyId, ReliabilityQosPolicyKind, TopicQos,
};
use dds_api::topic::Bytes;

/// A file of profiles, and the folder where its participants meet.
struct ProfileTest {
    domain: TestDomain,
    folder: tempfile::TempDir,
}

impl ProfileTest {
    fn new(profiles: &str) -> ProfileTest {
        let test = ProfileTest { domain: TestDomain::new(), folder: tempfile::tempdir().unwrap() };
        test.write(profiles);
        test
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("fleet.xml")
    }

    /// Replaces the contents of the file.
    fn write(&self, profiles: &str) {
        let library = format!(r#"<dds><qos_library name="Fleet">{profiles}</qos_library></dds>"#);
        std::fs::write(self.file(), library).unwrap();
    }

    fn config(&self) -> ParticipantConfig {
        ParticipantConfig::new().runtime_dir(self.domain.runtime_dir()).qos_files([self.file()])
    }

    fn join(&self) -> DomainParticipant {
        DomainParticipant::with_config(0, self.config()).unwrap()
    }
}

fn millis(millis: u32) -> dds_api::qos::Duration {
    Duration::from_millis(millis.into()).into()
}

fn deadline(millis: u32) -> String {
    format!("<deadline><period><sec>0</sec><nanosec>{millis}000000</nanosec></period></deadline>")
}

/// Returns the error text for a broken file, or a wrong name.
fn wrong<T>(result: DdsResult<T>) -> String {
    match result {
        Err(DdsError::BadParameter(wrong)) => wrong,
        Err(other) => panic!("another error: {other}"),
        Ok(_) => panic!("no error"),
    }
}

/// A topic with a profile, and its writers and readers with the same one; each kind has its own
/// values, selected by the topic's name.
#[test]
fn entities_take_policies_from_profile_of_their_topic() {
    let test = ProfileTest::new(&format!(
        r#"<qos_profile name="State" base_name="Squall::Atomic">
               <datawriter_qos>{}</datawriter_qos>
               <datawriter_qos topic_filter="Slow*">{}</datawriter_qos>
               <datareader_qos><history><kind>KEEP_LAST</kind><depth>2</depth></history></datareader_qos>
           </qos_profile>"#,
        deadline(50),
        deadline(900),
    ));
    let (ours, theirs) = (test.join(), test.join());
    for (name, period) in [("Marks", 50), ("SlowMarks", 900)] {
        let topic = |participant: &DomainParticipant| {
            participant.topic::<CheckedSample>(name).profile("Fleet::State").create().unwrap()
        };
        let (here, there) = (topic(&ours), topic(&theirs));
        assert!(here.is_atomic());
        let writer = ours.writer(&here).create().unwrap();
        let reader = theirs.reader(&there).create().unwrap();
        assert_eq!(writer.qos().deadline.period, millis(period), "{name}");
        assert_eq!(reader.qos().history.depth, 2);
        writer.wait_for_readers(1, SOON).unwrap();
        for number in 0..5 {
            writer.write(&CheckedSample::new(number)).unwrap();
        }
        writer.wait_for_acknowledgments(SOON).unwrap();
        let kept: Vec<u64> =
            reader.take_data(.., SOON).unwrap().map(|sample| sample.number).collect();
        assert_eq!(kept, [3, 4], "{name}: its cache is as the profile says");
    }
}

/// The ready-made profiles do what their texts say: a late joiner receives the last sample of each
/// instance, and not the history.
#[test]
fn late_joiner_with_alarm_profile_receives_only_last_sample() {
    let test = ProfileTest::new("");
    let (ours, theirs) = (test.join(), test.join());
    let topic = |of: &DomainParticipant| {
        of.topic::<CheckedSample>("Alarms").profile("SquallAvionics::Alarm").create().unwrap()
    };
    let writer = ours.writer(&topic(&ours)).create().unwrap();
    assert!(!writer.qos().writer_data_lifecycle.autodispose_unregistered_instances);
    for number in 0..5 {
        writer.write(&CheckedSample::new(number)).unwrap();
    }
    let late = theirs.reader(&topic(&theirs)).create().unwrap();
    late.wait_for_historical_data(SOON).unwrap();
    let got: Vec<u64> = late.take_data(.., SOON).unwrap().map(|sample| sample.number).collect();
    assert_eq!(got, [4]);
}

/// Each kind of entity with a profile of its own, values set afterwards, and values that a profile
/// does not mention.
#[test]
fn explicit_policies_override_profile() {
    let test = ProfileTest::new(
        r#"<qos_profile name="Left">
               <publisher_qos><partition><name><element>left</element></name></partition></publisher_qos>
               <subscriber_qos><partition><name><element>l*</element></name></partition></subscriber_qos>
               <datawriter_qos><ownership><kind>EXCLUSIVE</kind></ownership>
                   <ownership_strength><value>3</value></ownership_strength></datawriter_qos>
           </qos_profile>"#,
    );
    let participant = test.join();
    let topic = participant.topic::<CheckedSample>("Marks").profile("Squall::Kept");
    let topic = topic.atomic().create().unwrap();
    assert!(!topic.is_kept(), "said after the profile");
    let writer = participant.writer(&topic).create().unwrap();
    assert_eq!(writer.qos().durability, topic.qos().durability, "no more than the topic gives");
    let publisher = participant.publisher().profile("Fleet::Left").create().unwrap();
    assert_eq!(publisher.qos().partition.name, ["left"]);
    let subscriber = participant.subscriber().profile("Fleet::Left").create().unwrap();
    assert_eq!(subscriber.qos().partition.name, ["l*"]);
    let strong = publisher.writer(&topic).profile("Fleet::Left").create().unwrap();
    assert_eq!(strong.qos().ownership_strength.value, 3);
    let stronger = participant.writer(&topic).profile("Fleet::Left").ownership_strength(4);
    assert_eq!(stronger.create().unwrap().qos().ownership_strength.value, 4);
    // The profile does not mention readers, so they have the defaults.
    let reader = subscriber.reader(&topic).profile("Fleet::Left").create().unwrap();
    assert_eq!(reader.qos().history.kind, HistoryQosPolicyKind::KeepAll);
    assert_eq!(reader.qos().reliability.kind, ReliabilityQosPolicyKind::Reliable);
    // A whole set of policies replaces the values of a profile.
    let plain = participant.topic::<CheckedSample>("Plain").profile("Squall::Atomic");
    assert!(!plain.qos(&TopicQos::default()).create().unwrap().is_atomic());
}

/// One profile may be the default for all entities; a participant may have another one.
#[test]
fn default_profile_applies_to_entities_without_profile() {
    let test = ProfileTest::new(&format!(
        r#"<qos_profile name="Usual" base_name="Squall::Kept" is_default_qos="true">
               <publisher_qos><group_data><value>7</value></group_data></publisher_qos>
               <datareader_qos topic_filter="Slow*">{}</datareader_qos>
           </qos_profile>"#,
        deadline(800),
    ));
    let participant = test.join();
    let topic = participant.topic::<CheckedSample>("Marks").create().unwrap();
    assert!(topic.is_kept());
    assert_eq!(participant.publisher().create().unwrap().qos().group_data.value, [7]);
    let slow = participant.topic::<CheckedSample>("SlowMarks").create().unwrap();
    let reader = participant.reader(&slow).create().unwrap();
    assert_eq!(reader.qos().deadline.period, millis(800));
    assert!(!participant.topic::<CheckedSample>("Now").atomic().create().unwrap().is_kept());
    let other = DomainParticipant::with_config(0, test.config().profile("Squall::Atomic"));
    let other = other.unwrap().topic::<CheckedSample>("Others").create().unwrap();
    assert!(other.is_atomic() && !other.is_kept());
}

/// Two participants with the same provider.
#[test]
fn participants_may_share_provider() {
    let test = ProfileTest::new("");
    let text = r#"<dds><qos_profile name="Alone" base_name="Squall::Atomic"/></dds>"#;
    let provider = Arc::new(QosProvider::from_str(text).unwrap());
    for _ in 0..2 {
        let config = test.config().qos_provider(Arc::clone(&provider));
        let participant = DomainParticipant::with_config(0, config).unwrap();
        assert!(Arc::ptr_eq(participant.qos_provider(), &provider));
        assert!(
            participant
                .topic::<CheckedSample>("Marks")
                .profile("Alone")
                .create()
                .unwrap()
                .is_atomic()
        );
    }
}

#[test]
fn profile_error_message_names_fault_and_suggests_correction() {
    let test = ProfileTest::new(r#"<qos_profile name="State" base_name="Squall::Unordered"/>"#);
    let participant = test.join();
    let unknown =
        wrong(participant.topic::<CheckedSample>("Marks").profile("Fleet::Stat").create());
    assert!(unknown.contains("`Fleet::Stat`"), "{unknown}");
    assert!(unknown.contains("did you mean `Fleet::State`?"), "{unknown}");
    assert!(unknown.contains("ready-made") && unknown.contains("fleet.xml"), "{unknown}");
    let topic =
        participant.topic::<CheckedSample>("Marks").profile("Fleet::State").create().unwrap();
    assert!(!topic.is_atomic(), "squall.delivery");
    wrong(participant.writer(&topic).profile("Fleet::Stat").create());
    wrong(participant.reader(&topic).profile("Fleet::Stat").create());
    wrong(participant.publisher().profile("Fleet::Stat").create());
    wrong(participant.subscriber().profile("Fleet::Stat").create());
    wrong(DomainParticipant::with_config(0, test.config().profile("Fleet::Stat")));
    // The profile requests more order than the topic has.
    test.write(
        r#"<qos_profile name="Ordered"><datareader_qos>
               <reliability><kind>RELIABLE</kind></reliability>
               <property><value><element>
                   <name>squall.delivery</name><value>atomic</value>
               </element></value></property>
           </datareader_qos></qos_profile>"#,
    );
    let ordered = test.join();
    let topic = ordered.topic::<CheckedSample>("Marks").create().unwrap();
    let refused = ordered.reader(&topic).profile("Fleet::Ordered").create().err().unwrap();
    assert!(
        matches!(&refused, DdsError::InconsistentPolicy(why) if why.contains("squall.delivery"))
    );
    test.write("<qos_profil/>");
    let broken = wrong(DomainParticipant::with_config(0, test.config()));
    assert!(broken.contains("fleet.xml:1:") && broken.contains("qos_profile"), "{broken}");
}

fn exclusive_profiles(strengths: [u32; 2], partition: &str, extra: &str) -> String {
    let [left, right] = strengths.map(|strength| {
        format!(
            "<ownership><kind>EXCLUSIVE</kind></ownership>
             <ownership_strength><value>{strength}</value></ownership_strength>"
        )
    });
    format!(
        r#"<qos_profile name="Crew" base_name="Squall::Atomic">
               <publisher_qos><partition><name><element>{partition}</element></name></partition></publisher_qos>
               <datawriter_qos name="Left">{left}{extra}</datawriter_qos>
               <datawriter_qos name="Right">{right}</datawriter_qos>
               <datareader_qos><ownership><kind>EXCLUSIVE</kind></ownership></datareader_qos>
           </qos_profile>"#
    )
}

/// The file is read again while two writers compete for a reader of another participant: first the
/// owner changes, then the partition; values set by the application stay.
#[test]
fn reloaded_file_changes_policies_of_running_entities() {
    let test = ProfileTest::new(&exclusive_profiles([2, 1], "deck", ""));
    let (ours, theirs) = (test.join(), test.join());
    let topic = |of: &DomainParticipant| {
        of.topic::<CheckedSample>("Marks").profile("Squall::Atomic").create().unwrap()
    };
    let (here, there) = (topic(&ours), topic(&theirs));
    let publisher = ours.publisher().profile("Fleet::Crew").create().unwrap();
    let writer = |set: &str| publisher.writer(&here).profile(&format!("Fleet::Crew::{set}"));
    let left = writer("Left").create().unwrap();
    let right = writer("Right").user_data([1]).create().unwrap();
    let deck = theirs.subscriber().partition(["deck"]).create().unwrap();
    let reader = deck.reader(&there).profile("Fleet::Crew").create().unwrap();
    left.wait_for_readers(1, SOON).unwrap();
    right.wait_for_readers(1, SOON).unwrap();
    // Returns the samples that the reader receives, up to the owner's sample.
    let heard = |number: u64, owned: u64| {
        left.write(&CheckedSample::new(number)).unwrap();
        right.write(&CheckedSample::new(number + 100)).unwrap();
        let mut got = Vec::new();
        while got.last() != Some(&owned) {
            got.push(reader.take_next_data(SOON).unwrap().unwrap().number);
        }
        got
    };
    // The first sample of each instance may be the weaker writer's.
    heard(0, 0);
    assert_eq!(heard(1, 1), [1]);

    assert_eq!(ours.reload_qos().unwrap(), Default::default(), "nothing has changed");
    test.write(&exclusive_profiles([2, 5], "deck", ""));
    let report = ours.reload_qos().unwrap();
    assert_eq!(report.unchanged, []);
    let [changed] = &report.changed[..] else { panic!("{report:?}") };
    assert_eq!(
        (changed.kind, changed.handle),
        (EntityKind::DataWriter, Some(right.instance_handle()))
    );
    assert_eq!(changed.policies, [PolicyId::OwnershipStrength]);
    assert_eq!((right.qos().ownership_strength.value, left.qos().ownership_strength.value), (5, 2));
    assert_eq!(right.qos().user_data.value, [1]);
    heard(2, 102);
    assert_eq!(heard(3, 103), [103], "the other one owns it");

    // A value set by a call is no longer changed by the file.
    let mut qos = right.qos();
    qos.ownership_strength.value = 1;
    right.set_qos(&qos).unwrap();
    test.write(&exclusive_profiles([3, 9], "cabin", ""));
    let report = ours.reload_qos().unwrap();
    assert_eq!(right.qos().ownership_strength.value, 1);
    assert_eq!(left.qos().ownership_strength.value, 3);
    assert_eq!(publisher.qos().partition.name, ["cabin"]);
    let kinds: Vec<EntityKind> = report.changed.iter().map(|changed| changed.kind).collect();
    assert_eq!(kinds, [EntityKind::Publisher, EntityKind::DataWriter]);
    until("the reader is in another partition", || left.matched_readers() == 0);
}

/// Changes of immutable policies are reported; a broken file changes nothing, and neither does a
/// change that makes policies contradictory.
#[test]
fn reload_refuses_broken_file_whole_and_reports_unchanged_policies() {
    let test = ProfileTest::new(&exclusive_profiles([2, 1], "deck", &deadline(500)));
    let participant = test.join();
    let topic =
        participant.topic::<CheckedSample>("Marks").profile("Fleet::Crew").create().unwrap();
    let left = participant.writer(&topic).profile("Fleet::Crew::Left").create().unwrap();
    let before = left.qos();

    test.write(&exclusive_profiles([7, 1], "deck", "<deadlin/>"));
    let broken = wrong(participant.reload_qos());
    assert!(broken.contains("did you mean `deadline`?"), "{broken}");
    assert_eq!(left.qos(), before);
    assert_eq!(
        participant.writer(&topic).profile("Fleet::Crew::Left").create().unwrap().qos(),
        before
    );

    let history = "<history><kind>KEEP_LAST</kind><depth>4</depth></history>";
    test.write(&exclusive_profiles([7, 1], "deck", &format!("{history}{}", deadline(400))));
    for round in 0..2 {
        let report = participant.reload_qos().unwrap();
        let [kept] = &report.unchanged[..] else { panic!("{report:?}") };
        assert_eq!((kept.kind, kept.topic.as_deref()), (EntityKind::DataWriter, Some("Marks")));
        assert_eq!(kept.policies, [PolicyId::History], "and again as long as it is so");
        assert!(kept.to_string().contains("Fleet::Crew::Left"), "{kept}");
        assert_eq!(report.changed.len(), 1 - round);
    }
    let now = left.qos();
    assert_eq!((now.ownership_strength.value, now.deadline.period), (7, millis(400)));
    assert_eq!(now.history, before.history);
    drop(left);
    assert_eq!(participant.reload_qos().unwrap(), Default::default(), "it is no more");
    // If a profile disappears, entities created with it stay unchanged.
    let right = participant.writer(&topic).profile("Fleet::Crew::Right").create().unwrap();
    let before = right.qos();
    test.write("");
    let report = participant.reload_qos().unwrap();
    assert!(
        report.unchanged.iter().all(|kept| kept.reason.as_ref().unwrap().contains("no profile"))
    );
    assert_eq!((report.unchanged.len(), report.changed.len(), right.qos()), (2, 0, before));
}

fn separated(reader: &str, topic: &str) -> String {
    format!(
        r#"<qos_profile name="Display" base_name="Squall::Unordered">
               <topic_qos>{topic}</topic_qos><datareader_qos>{reader}</datareader_qos>
           </qos_profile>"#
    )
}

/// The cache of an active reader follows the change, as do the topic, and the matches.
#[test]
fn reader_cache_topic_and_matches_follow_reloaded_profile() {
    let filter = "<time_based_filter><minimum_separation>
                      <sec>0</sec><nanosec>300000000</nanosec>
                  </minimum_separation></time_based_filter>";
    let test = ProfileTest::new(&separated(filter, ""));
    let (ours, theirs) = (test.join(), test.join());
    let topic = |of: &DomainParticipant| {
        of.topic::<CheckedSample>("Marks").profile("Fleet::Display").create().unwrap()
    };
    let (here, there) = (topic(&ours), topic(&theirs));
    let writer = ours.writer(&here).create().unwrap();
    let reader = theirs.reader(&there).create().unwrap();
    writer.wait_for_readers(1, SOON).unwrap();
    let write = |numbers: std::ops::Range<u64>| {
        numbers.for_each(|number| writer.write(&CheckedSample::new(number)).unwrap());
        writer.wait_for_acknowledgments(SOON).unwrap();
    };
    write(0..3);
    let numbers = |samples: Vec<ValidSample<CheckedSample>>| {
        samples.iter().map(|sample| sample.number).collect::<Vec<_>>()
    };
    assert_eq!(
        numbers(reader.take_data(.., SOON).unwrap().collect()),
        [0],
        "the others come too soon"
    );

    test.write(&separated("", ""));
    let report = theirs.reload_qos().unwrap();
    assert_eq!(report.changed[0].policies, [PolicyId::TimeBasedFilter]);
    assert_eq!(reader.take_next_data(SOON).unwrap().unwrap().number, 2, "it had waited already");
    write(3..8);
    assert_eq!(numbers(reader.take_data(.., SOON).unwrap().collect()), [3, 4, 5, 6, 7]);

    // A reader requests a deadline that no writer offers, until the writers' file offers it.
    test.write(&separated(&deadline(200), ""));
    theirs.reload_qos().unwrap();
    until("they are matched no more", || writer.matched_readers() == 0);
    test.write(&separated(&deadline(200), &deadline(100)));
    ours.reload_qos().unwrap();
    assert_eq!(here.qos().deadline.period, millis(100));
    let fresh = ours.writer(&here).create().unwrap();
    // The profile has the values of its base for writers, and no deadline.
    assert_eq!(fresh.qos().deadline, Default::default());
    let asking = ours.writer(&here).qos(&{
        let mut qos = fresh.qos();
        qos.copy_from_topic_qos(&here.qos());
        qos
    });
    asking.create().unwrap().wait_for_readers(1, SOON).unwrap();
}

/// Creation parameters of entities beside their policies.
#[test]
fn properties_set_creation_parameters_of_topics_writers_and_readers() {
    let property = |name: &str, value: &str| {
        format!("<element><name>squall.{name}</name><value>{value}</value></element>")
    };
    let reliable = "<reliability><kind>RELIABLE</kind></reliability>";
    let profile = |name: &str, topic: &str, writer: &str, reader: &str| {
        let set = |kind: &str, properties: &str| match properties {
            "" => String::new(),
            _ => format!(
                "<{kind}>{reliable}<property><value>{properties}</value></property></{kind}>"
            ),
        };
        let [topic, writer, reader] =
            [("topic_qos", topic), ("datawriter_qos", writer), ("datareader_qos", reader)]
                .map(|(kind, properties)| set(kind, properties));
        format!(r#"<qos_profile name="{name}">{topic}{writer}{reader}</qos_profile>"#)
    };
    let common = property("topic.common_order", "navigation");
    let sharded = property("topic.sharded_by_partition", "true");
    let room = property("writer.memory", "65536")
        + &property("writer.in_flight", "16")
        + &property("writer.max_sample_size", "200000");
    let test = ProfileTest::new(
        &[
            profile("Common", &common, "", ""),
            profile("Sharded", &sharded, &room, &property("reader.max_held_percent", "0")),
            profile("Both", &format!("{common}{sharded}"), "", ""),
        ]
        .concat(),
    );
    let participant = test.join();
    let common =
        participant.topic::<CheckedSample>("Common").profile("Fleet::Common").create().unwrap();
    assert_eq!((common.common_order(), common.is_sharded()), (Some("navigation"), false));
    let both =
        participant.topic::<CheckedSample>("Both").profile("Fleet::Both").create().err().unwrap();
    assert!(
        matches!(&both, DdsError::InconsistentPolicy(why) if why.contains("squall.topic.")),
        "{both}"
    );
    // Later settings override the profile.
    let both =
        participant.topic::<CheckedSample>("Both").profile("Fleet::Both").profile("Fleet::Sharded");
    let sharded = both.create().unwrap();
    assert_eq!((sharded.common_order(), sharded.is_sharded()), (None, true));

    let bytes = participant.topic::<Bytes>("Bytes").create().unwrap();
    let writer = participant.writer(&bytes).profile("Fleet::Sharded").create().unwrap();
    let reader = participant.reader(&bytes).profile("Fleet::Sharded").keep_all().create().unwrap();
    writer.wait_for_readers(1, SOON).unwrap();
    writer.write_bytes(&[7; 200_000]).unwrap();
    assert!(writer.write_bytes(&[7; 400_000]).is_err(), "it was made for less");
    let held: Vec<_> = reader.take_data(.., SOON).unwrap().collect();
    assert_eq!((held.len(), reader.copied_samples()), (1, 1), "nothing is lent");
}
