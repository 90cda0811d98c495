//! Offered and requested policies decide the matches, on ordered and unordered topics; and statuses
//! report them.

use std::sync::Arc;
use std::time::Duration;

use crate::support::{
    Actor, CheckedSample, PATIENCE, SOON, TestDomain, join, listen, role, say, until,
};
use dds_api::infrastructure::{StatusKind, StatusMask, WaitSet};
use dds_api::prelude::*;
use dds_api::publication::Publisher;
use dds_api::qos::{
    DataReaderQos, DataRepresentationId, DataWriterQos, DestinationOrderQosPolicyKind,
    DurabilityQosPolicyKind, LivelinessQosPolicyKind, OwnershipQosPolicyKind, PolicyId,
    PresentationQosPolicyAccessScopeKind, ReliabilityQosPolicyKind,
};
use dds_api::subscription::Subscriber;

/// Role of a child process; does nothing when the test program is run normally.
#[test]
fn act() {
    let Some((role, folder)) = role() else { return };
    assert_eq!(role, "reader");
    let participant = join(&folder);
    let topic = participant.topic::<CheckedSample>("Marks").atomic().create().unwrap();
    let _reader = participant.reader(&topic).reliable_all().create().unwrap();
    say("ready");
    while listen().is_some() {}
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Order {
    None,
    Atomic,
    Kept,
}

fn topic(participant: &DomainParticipant, order: Order) -> Topic<CheckedSample> {
    let topic = participant.topic::<CheckedSample>("Marks");
    match order {
        Order::None => topic,
        Order::Atomic => topic.atomic(),
        Order::Kept => topic.transient_local().keep_all(),
    }
    .create()
    .unwrap()
}

fn short() -> dds_api::qos::Duration {
    Duration::from_millis(10).into()
}

type PolicyChange = fn(&mut DataWriterQos, &mut DataReaderQos, &mut GroupPolicies);

/// PRESENTATION of a publisher and a subscriber.
#[derive(Default)]
struct GroupPolicies {
    offered: dds_api::qos::PublisherQos,
    requested: dds_api::qos::SubscriberQos,
}

/// An unsatisfied request for each policy.
const REFUSALS: [(PolicyId, PolicyChange); 9] = [
    (PolicyId::Durability, |_, reader, _| {
        reader.durability.kind = DurabilityQosPolicyKind::Persistent;
    }),
    (PolicyId::Presentation, |_, _, group| {
        group.requested.presentation.access_scope = PresentationQosPolicyAccessScopeKind::Group;
    }),
    (PolicyId::Deadline, |_, reader, _| reader.deadline.period = short()),
    (PolicyId::LatencyBudget, |writer, _, _| writer.latency_budget.duration = short()),
    (PolicyId::Ownership, |writer, _, _| writer.ownership.kind = OwnershipQosPolicyKind::Exclusive),
    (PolicyId::Liveliness, |_, reader, _| {
        reader.liveliness.kind = LivelinessQosPolicyKind::ManualByTopic;
    }),
    (PolicyId::Reliability, |writer, reader, _| {
        writer.reliability.kind = ReliabilityQosPolicyKind::BestEffort;
        reader.reliability.kind = ReliabilityQosPolicyKind::Reliable;
    }),
    (PolicyId::DestinationOrder, |_, reader, _| {
        reader.destination_order.kind = DestinationOrderQosPolicyKind::BySourceTimestamp;
    }),
    (PolicyId::DataRepresentation, |writer, _, _| {
        writer.representation.value = vec![DataRepresentationId::Xcdr2];
    }),
];

/// A reader in one participant and a writer in another one, which do not match because of one
/// policy; and a second writer, which matches.
fn refuse(order: Order, (policy, change): (PolicyId, PolicyChange)) {
    let domain = TestDomain::new();
    let (ours, theirs) = (domain.join(), domain.join());
    let (here, there) = (topic(&ours, order), topic(&theirs, order));
    let (mut writer_qos, mut reader_qos) = (DataWriterQos::default(), DataReaderQos::default());
    reader_qos.history.kind = dds_api::qos::HistoryQosPolicyKind::KeepAll;
    let good_qos = writer_qos.clone();
    let mut group = GroupPolicies::default();
    change(&mut writer_qos, &mut reader_qos, &mut group);
    // Policies offered by the second writer.
    let good_group = group.requested.presentation.clone();
    let good_qos = DataWriterQos {
        deadline: reader_qos.deadline.clone(),
        liveliness: reader_qos.liveliness.clone(),
        destination_order: reader_qos.destination_order.clone(),
        ..good_qos
    };
    let publisher = ours.publisher().qos(&group.offered).create().unwrap();
    let good_publisher = ours.publisher().presentation(good_group).create().unwrap();
    let subscriber = theirs.subscriber().qos(&group.requested).create().unwrap();
    let reader = subscriber.reader(&there).qos(&reader_qos).create().unwrap();
    let writer = publisher.writer(&here).qos(&writer_qos).create().unwrap();
    until("the reader is refused", || {
        !writer.status_changes().is_empty() && !reader.status_changes().is_empty()
    });
    let offered = writer.offered_incompatible_qos_status();
    let requested = reader.requested_incompatible_qos_status();
    for status in [&offered, &requested] {
        assert_eq!((status.total_count, status.total_count_change), (1, 1), "{policy}");
        assert_eq!(status.last_policy_id, Some(policy));
        assert!(status.last_reason.as_ref().unwrap().starts_with(policy.name()));
    }
    assert!(writer.status_changes().is_empty(), "it was read");
    assert_eq!(reader.subscription_matched_status().total_count, 0);
    assert_eq!((writer.matched_readers(), writer.matched_subscriptions()), (0, vec![]));
    writer.write(&CheckedSample::new(7)).unwrap();
    if policy == PolicyId::Durability {
        // The topic has no samples for this reader.
        return assert!(reader.take_data(.., Timeout::millis(50)).unwrap().is_empty());
    }
    let good = good_publisher.writer(&here).qos(&good_qos).create().unwrap();
    good.wait_for_readers(1, SOON).unwrap();
    good.write(&CheckedSample::new(8)).unwrap();
    let sample = reader.take_next_data(SOON).unwrap().unwrap();
    assert_eq!(sample.number, 8, "{policy}, {order:?}");
    until("both know", || !good.matched_subscriptions().is_empty());
    assert_eq!(good.matched_subscriptions(), [reader.instance_handle()]);
    assert_eq!(reader.matched_publications(), [good.instance_handle()]);
    assert!(reader.take_data(.., Timeout::millis(20)).unwrap().is_empty());
}

#[test]
fn unmet_request_prevents_match_and_is_reported() {
    for case in REFUSALS {
        refuse(Order::None, case);
        refuse(Order::Atomic, case);
    }
}

/// A deadline may change; then a refused reader matches, and is lost again.
#[test]
fn changed_policies_are_matched_again() {
    for order in [Order::None, Order::Atomic] {
        let domain = TestDomain::new();
        let (ours, theirs) = (domain.join(), domain.join());
        let writer = ours.writer(&topic(&ours, order)).create().unwrap();
        let mut qos = DataReaderQos::default();
        qos.deadline.period = short();
        let reader = theirs.reader(&topic(&theirs, order)).qos(&qos).create().unwrap();
        until("it is refused", || writer.offered_incompatible_qos_status().total_count == 1);
        let mut offered = writer.qos();
        offered.deadline.period = short();
        writer.set_qos(&offered).unwrap();
        assert_eq!(writer.qos(), offered);
        writer.wait_for_readers(1, SOON).unwrap();
        until("it is matched", || reader.subscription_matched_status().current_count == 1);
        writer.write(&CheckedSample::new(1)).unwrap();
        assert_eq!(reader.take_next_data(SOON).unwrap().unwrap().number, 1);
        offered.deadline.period = Duration::from_secs(1).into();
        writer.set_qos(&offered).unwrap();
        until("it is lost", || reader.subscription_matched_status().current_count == 0);
        until("it is lost here too", || writer.matched_readers() == 0);
        writer.write(&CheckedSample::new(2)).unwrap();
        let mut after = reader.take(.., Timeout::millis(50)).unwrap();
        // The reader is notified only that it has no writers any more.
        assert!(after.all(|sample| sample.data().is_none()), "{order:?}");
        assert_eq!(writer.offered_incompatible_qos_status().total_count, 2);
    }
}

#[test]
fn immutable_policies_cannot_change() {
    let domain = TestDomain::new();
    let participant = domain.join();
    let topic = topic(&participant, Order::Atomic);
    let writer = participant.writer(&topic).create().unwrap();
    let mut qos = writer.qos();
    qos.reliability.kind = ReliabilityQosPolicyKind::BestEffort;
    let error = writer.set_qos(&qos).unwrap_err();
    assert!(matches!(error, DdsError::ImmutablePolicy(_)));
    assert!(
        error.to_string().contains("RELIABILITY may not change on an enabled writer"),
        "{error}"
    );
    let reader = participant.reader(&topic).reliable_all().create().unwrap();
    let mut qos = reader.qos();
    qos.history.depth = 9;
    assert!(matches!(reader.set_qos(&qos), Err(DdsError::ImmutablePolicy(_))));
    let mut qos = reader.qos();
    qos.time_based_filter.minimum_separation = Duration::from_secs(1).into();
    qos.deadline.period = Duration::from_millis(1).into();
    assert!(matches!(reader.set_qos(&qos), Err(DdsError::InconsistentPolicy(_))));
    let publisher = participant.publisher().create().unwrap();
    let mut qos = publisher.qos();
    qos.presentation.coherent_access = true;
    assert!(matches!(publisher.set_qos(&qos), Err(DdsError::ImmutablePolicy(_))));
    let writer = publisher.writer(&topic).create().unwrap();
    let Err(DdsError::PreconditionNotMet(why)) = publisher.clone().delete() else {
        panic!("it has a writer")
    };
    assert!(why.contains("1 writers"), "{why}");
    drop(writer);
    publisher.delete().unwrap();
    let mut qos = DataWriterQos::default();
    qos.durability.kind = DurabilityQosPolicyKind::Transient;
    let error = participant.writer(&topic).qos(&qos).create().err().unwrap();
    assert!(error.to_string().contains("transient_local()"), "{error}");
    qos.user_data.value = vec![0; 20_000];
    qos.durability.kind = DurabilityQosPolicyKind::Volatile;
    let error = participant.writer(&topic).qos(&qos).create().err().unwrap();
    assert!(matches!(&error, DdsError::BadParameter(why) if why.contains("USER_DATA")), "{error}");
}

/// Other participants' different definitions of a topic are reported at the topic.
#[test]
fn conflicting_topic_definition_of_another_participant_is_reported() {
    let domain = TestDomain::new();
    let (ours, theirs) = (domain.join(), domain.join());
    let here = topic(&ours, Order::Atomic);
    let writer = ours.writer(&here).create().unwrap();
    let there = topic(&theirs, Order::Kept);
    let _readers = [(); 2].map(|()| theirs.reader(&there).reliable_all().create().unwrap());
    let wait_set = WaitSet::new();
    wait_set.attach(&here.status_condition()).unwrap();
    wait_set.wait(SOON).unwrap();
    until("both are counted", || {
        here.status_changes().contains(StatusKind::InconsistentTopic)
            && here.inconsistent_topic_status().total_count == 2
    });
    let status = here.inconsistent_topic_status();
    assert!(status.last_reason.unwrap().contains("atomic there"));
    assert_eq!(writer.publication_matched_status().total_count, 0);
    assert!(here.status_changes().is_empty());
}

/// Matches are counted as they are made and lost, also with the end of their process; and status
/// conditions trigger.
#[test]
fn matches_are_counted_as_they_come_and_go() {
    let domain = TestDomain::new();
    let participant = domain.join();
    let topic = topic(&participant, Order::Atomic);
    let writer = participant.writer(&topic).create().unwrap();
    let condition = writer.status_condition();
    assert_eq!(condition.enabled_statuses(), StatusMask::ALL);
    condition.set_enabled_statuses(StatusKind::PublicationMatched);
    let wait_set = WaitSet::new();
    wait_set.attach(&condition).unwrap();
    let own = Arc::new(participant.reader(&topic).reliable_all().create().unwrap());
    assert!(wait_set.wait(SOON).unwrap().contains(condition.as_ref()));
    let status = writer.publication_matched_status();
    assert_eq!((status.total_count, status.current_count), (1, 1));
    assert_eq!(status.last_subscription_handle, Some(own.instance_handle()));
    assert!(!condition.trigger_value());
    let mut actor = Actor::start(module_path!(), "reader", &domain, 0);
    assert_eq!(actor.hear(), "ready");
    wait_set.wait(SOON).unwrap();
    let status = writer.publication_matched_status();
    assert_eq!((status.total_count_change, status.current_count_change), (1, 1));
    assert_eq!(writer.matched_subscriptions().len(), 2);
    actor.kill();
    wait_set.wait(SOON).unwrap();
    let status = writer.publication_matched_status();
    assert_eq!((status.total_count, status.current_count), (2, 1));
    assert_eq!((status.total_count_change, status.current_count_change), (0, -1));
    let of_own = own.status_condition();
    of_own.set_enabled_statuses(StatusKind::DataAvailable);
    assert!(!of_own.trigger_value());
    wait_set.attach(&of_own).unwrap();
    writer.write(&CheckedSample::new(1)).unwrap();
    assert!(wait_set.wait(SOON).unwrap().contains(of_own.as_ref()));
    assert!(own.status_changes().contains(StatusKind::DataAvailable));
    own.take_next_data(SOON).unwrap().unwrap();
    assert!(!own.status_changes().contains(StatusKind::DataAvailable));
    drop(own);
    wait_set.wait(SOON).unwrap();
    assert_eq!(writer.publication_matched_status().current_count, 0);
}

/// A second writer shares the memory of the first one, and may write before other participants know
/// it: its samples wait until all know its offer.
#[test]
fn samples_of_a_writer_wait_until_its_offer_is_known() {
    let domain = TestDomain::new();
    let (ours, theirs) = (domain.join(), domain.join());
    let (here, there) = (topic(&ours, Order::Atomic), topic(&theirs, Order::Atomic));
    let reader = theirs.reader(&there).reliable_all().create().unwrap();
    let first = ours.writer(&here).create().unwrap();
    first.wait_for_readers(1, SOON).unwrap();
    let mut expected = Vec::new();
    for round in 0..200_u64 {
        let is_good = round % 3 == 0;
        let next = ours.writer(&here);
        let next = if is_good { next } else { next.ownership_strength(round as i32) };
        let next = next.create().unwrap();
        next.write(&CheckedSample::new(round)).unwrap();
        expected.extend(is_good.then_some(round));
    }
    first.write(&CheckedSample::last(200)).unwrap();
    expected.push(200);
    let mut got = Vec::new();
    while got.last() != Some(&200) {
        let sample = reader.take_next_data(PATIENCE).unwrap().expect("the last one comes");
        got.push(sample.number);
    }
    assert_eq!(got, expected);
}

/// A reader that joins when such a writer is gone treats its samples like other readers.
#[test]
fn offer_of_a_deleted_writer_is_remembered() {
    let domain = TestDomain::new();
    let (ours, theirs) = (domain.join(), domain.join());
    let here = topic(&ours, Order::Kept);
    let first = ours.writer(&here).create().unwrap();
    let exclusive = ours.writer(&here).ownership_strength(3).create().unwrap();
    exclusive.write(&CheckedSample::new(1)).unwrap();
    first.write(&CheckedSample::new(2)).unwrap();
    drop(exclusive);
    let reader = theirs.reader(&topic(&theirs, Order::Kept)).reliable_all().create().unwrap();
    reader.wait_for_historical_data(SOON).unwrap();
    assert_eq!(reader.take_next_data(SOON).unwrap().unwrap().number, 2);
    let owner = theirs
        .reader(&topic(&theirs, Order::Kept))
        .reliable_all()
        .exclusive_ownership()
        .create()
        .unwrap();
    owner.wait_for_historical_data(SOON).unwrap();
    assert_eq!(owner.take_next_data(SOON).unwrap().unwrap().number, 1);
    // The end of its writer is reported, and nothing else.
    let rest: Vec<_> = owner.take(.., SOON).unwrap().collect();
    assert!(rest.len() == 1 && rest[0].data().is_none());
    assert!(owner.take(.., Timeout::millis(20)).unwrap().is_empty());
}

/// Samples that a writer has left behind go to the readers that they were written for, even if its
/// participant was gone before any of them was taken: to readers whose requests its offer
/// satisfies, and to no others.
#[test]
fn samples_of_departed_participant_go_only_to_compatible_readers() {
    for order in [Order::Atomic, Order::Kept] {
        let domain = TestDomain::new();
        let (ours, theirs) = (domain.join(), domain.join());
        let (here, there) = (topic(&ours, order), topic(&theirs, order));
        let owner = ours.writer(&here).ownership_strength(3).create().unwrap();
        let mut quick = DataWriterQos::default();
        quick.copy_from_topic_qos(&here.qos());
        quick.deadline.period = Duration::from_secs(100).into();
        let mut asks = DataReaderQos::default();
        asks.copy_from_topic_qos(&there.qos());
        asks.history.kind = dds_api::qos::HistoryQosPolicyKind::KeepAll;
        asks.deadline = quick.deadline.clone();
        let quick = ours.writer(&here).qos(&quick).create().unwrap();
        let anybody = theirs.reader(&there).reliable_all().create().unwrap();
        let of_owners =
            || theirs.reader(&there).reliable_all().exclusive_ownership().create().unwrap();
        let asking = || theirs.reader(&there).qos(&asks).create().unwrap();
        let early = [anybody, of_owners(), asking()];
        owner.wait_for_readers(1, SOON).unwrap();
        quick.wait_for_readers(1, SOON).unwrap();
        early.iter().for_each(|reader| reader.wait_for_writers(1, SOON).unwrap());
        (0..3).for_each(|number| owner.write(&CheckedSample::new(number)).unwrap());
        (3..6).for_each(|number| quick.write(&CheckedSample::new(number)).unwrap());
        quick.wait_for_acknowledgments(SOON).unwrap();
        drop((owner, quick, here, ours));
        until("they are alone", || theirs.view().1 == 1);
        let taken = |reader: &DataReader<CheckedSample>| -> Vec<u64> {
            let all = reader.take_data(.., SOON).unwrap();
            all.map(|mark| mark.number).collect()
        };
        assert_eq!(early.each_ref().map(taken), [[3, 4, 5], [0, 1, 2], [3, 4, 5]], "{order:?}");
        if order == Order::Kept {
            let late = [of_owners(), asking()];
            late.iter().for_each(|reader| reader.wait_for_historical_data(SOON).unwrap());
            assert_eq!(late.each_ref().map(taken), [[0, 1, 2], [3, 4, 5]]);
        }
    }
}

/// Writers and readers in a publisher or subscriber have its default policies.
#[test]
fn groups_have_default_policies_for_their_entities() {
    let domain = TestDomain::new();
    let participant = domain.join();
    let topic = topic(&participant, Order::Atomic);
    let publisher: Publisher = participant.publisher().group_data(*b"left wing").create().unwrap();
    let mut qos = DataWriterQos::default();
    qos.user_data.value = b"engine".to_vec();
    publisher.set_default_writer_qos(Some(qos.clone())).unwrap();
    let writer = publisher.writer(&topic).create().unwrap();
    assert_eq!(writer.qos(), qos);
    assert_eq!(publisher.writers(), [writer.instance_handle()]);
    let of_it = writer.publisher().unwrap();
    assert_eq!(of_it.instance_handle(), publisher.instance_handle());
    assert_eq!(of_it.qos().group_data.value, b"left wing");
    let subscriber: Subscriber = participant.subscriber().create().unwrap();
    let mut qos = DataReaderQos::default();
    qos.history.depth = 3;
    subscriber.set_default_reader_qos(Some(qos.clone())).unwrap();
    let reader = subscriber.reader(&topic).create().unwrap();
    assert_eq!(reader.qos(), qos);
    assert_eq!(subscriber.readers(), [reader.instance_handle()]);
    qos.history.depth = 0;
    assert!(subscriber.set_default_reader_qos(Some(qos)).is_err());
    writer.wait_for_readers(1, SOON).unwrap();
    writer.write(&CheckedSample::new(1)).unwrap();
    publisher.wait_for_acknowledgments(SOON).unwrap();
    assert_eq!(reader.take_next_data(SOON).unwrap().unwrap().number, 1);
}
