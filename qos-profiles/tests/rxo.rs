//! Every rule between offer and request, on both sides of its boundary.

use qos_profiles::*;

#[derive(Clone, Default)]
struct Pair {
    writer: DataWriterQos,
    publisher: PublisherQos,
    reader: DataReaderQos,
    subscriber: SubscriberQos,
}

impl Pair {
    fn incompatible(&self) -> Vec<Incompatibility> {
        incompatible(
            &Offered { writer: &self.writer, publisher: &self.publisher },
            &Requested { reader: &self.reader, subscriber: &self.subscriber },
        )
    }
}

/// Tries all pairs of values: `accepts` says for which pairs the first value satisfies the second.
#[track_caller]
fn rule<T: Clone + std::fmt::Debug>(
    policy: PolicyId,
    values: &[T],
    set: impl Fn(&mut Pair, T, T),
    accepts: impl Fn(&T, &T) -> bool,
) {
    for offered in values {
        for requested in values {
            let mut pair = Pair::default();
            set(&mut pair, offered.clone(), requested.clone());
            let found: Vec<_> = pair.incompatible().iter().map(|found| found.policy).collect();
            let expected = if accepts(offered, requested) { vec![] } else { vec![policy] };
            assert_eq!(found, expected, "offered {offered:?}, requested {requested:?}");
        }
    }
}

const DURATIONS: [Duration; 3] = [Duration::ZERO, Duration::from_secs(1), Duration::INFINITE];

#[test]
fn durability() {
    use DurabilityQosPolicyKind::*;
    rule(
        PolicyId::Durability,
        &[Volatile, TransientLocal, Transient, Persistent],
        |pair, offered, requested| {
            pair.writer.durability.kind = offered;
            pair.reader.durability.kind = requested;
        },
        |offered, requested| *offered as u8 >= *requested as u8,
    );
}

#[test]
fn presentation_scope() {
    use PresentationQosPolicyAccessScopeKind::*;
    rule(
        PolicyId::Presentation,
        &[Instance, Topic, Group],
        |pair, offered, requested| {
            pair.publisher.presentation.access_scope = offered;
            pair.subscriber.presentation.access_scope = requested;
        },
        |offered, requested| *offered as u8 >= *requested as u8,
    );
}

#[test]
fn presentation_coherence_and_order() {
    rule(
        PolicyId::Presentation,
        &[(false, false), (false, true), (true, false), (true, true)],
        |pair, offered, requested| {
            let (publisher, subscriber) =
                (&mut pair.publisher.presentation, &mut pair.subscriber.presentation);
            (publisher.coherent_access, publisher.ordered_access) = offered;
            (subscriber.coherent_access, subscriber.ordered_access) = requested;
        },
        |offered, requested| (offered.0 || !requested.0) && (offered.1 || !requested.1),
    );
}

#[test]
fn deadline() {
    rule(
        PolicyId::Deadline,
        &DURATIONS,
        |pair, offered, requested| {
            pair.writer.deadline.period = offered;
            pair.reader.deadline.period = requested;
        },
        |offered, requested| offered <= requested,
    );
}

#[test]
fn latency_budget() {
    rule(
        PolicyId::LatencyBudget,
        &DURATIONS,
        |pair, offered, requested| {
            pair.writer.latency_budget.duration = offered;
            pair.reader.latency_budget.duration = requested;
        },
        |offered, requested| offered <= requested,
    );
}

#[test]
fn ownership() {
    use OwnershipQosPolicyKind::*;
    rule(
        PolicyId::Ownership,
        &[Shared, Exclusive],
        |pair, offered, requested| {
            pair.writer.ownership.kind = offered;
            pair.reader.ownership.kind = requested;
        },
        |offered, requested| offered == requested,
    );
}

#[test]
fn liveliness_kind() {
    use LivelinessQosPolicyKind::*;
    rule(
        PolicyId::Liveliness,
        &[Automatic, ManualByParticipant, ManualByTopic],
        |pair, offered, requested| {
            pair.writer.liveliness.kind = offered;
            pair.reader.liveliness.kind = requested;
        },
        |offered, requested| *offered as u8 >= *requested as u8,
    );
}

#[test]
fn liveliness_lease() {
    rule(
        PolicyId::Liveliness,
        &DURATIONS,
        |pair, offered, requested| {
            pair.writer.liveliness.lease_duration = offered;
            pair.reader.liveliness.lease_duration = requested;
        },
        |offered, requested| offered <= requested,
    );
}

#[test]
fn reliability() {
    use ReliabilityQosPolicyKind::*;
    rule(
        PolicyId::Reliability,
        &[BestEffort, Reliable],
        |pair, offered, requested| {
            pair.writer.reliability.kind = offered;
            pair.reader.reliability.kind = requested;
        },
        |offered, requested| *offered as u8 >= *requested as u8,
    );
}

#[test]
fn destination_order() {
    use DestinationOrderQosPolicyKind::*;
    rule(
        PolicyId::DestinationOrder,
        &[ByReceptionTimestamp, BySourceTimestamp],
        |pair, offered, requested| {
            pair.writer.destination_order.kind = offered;
            pair.reader.destination_order.kind = requested;
        },
        |offered, requested| *offered as u8 >= *requested as u8,
    );
}

#[test]
fn data_representation() {
    use DataRepresentationId::*;
    rule(
        PolicyId::DataRepresentation,
        &[vec![], vec![Xcdr], vec![Xcdr2], vec![Xcdr2, Xcdr], vec![Xml]],
        |pair, offered, requested| {
            pair.writer.representation.value = offered;
            pair.reader.representation.value = requested;
        },
        |offered, requested| {
            let sent = offered.first().unwrap_or(&Xcdr);
            if requested.is_empty() { *sent == Xcdr } else { requested.contains(sent) }
        },
    );
}

#[test]
fn policies_without_rxo_never_prevent_match() {
    let mut pair = Pair::default();
    pair.writer.ownership_strength.value = 9;
    pair.writer.history.kind = HistoryQosPolicyKind::KeepAll;
    pair.writer.lifespan.duration = Duration::ZERO;
    pair.writer.transport_priority.value = 9;
    pair.writer.user_data.value = vec![1];
    pair.writer.resource_limits.max_samples = Length::of(1);
    pair.reader.time_based_filter.minimum_separation = Duration::from_secs(9);
    pair.reader.type_consistency.kind = TypeConsistencyKind::DisallowTypeCoercion;
    pair.reader.reliability.max_blocking_time = Duration::INFINITE;
    pair.publisher.partition.name = vec!["a".to_owned()];
    pair.publisher.group_data.value = vec![1];
    pair.publisher.entity_factory.autoenable_created_entities = false;
    pair.writer.durability_service.history_depth = 9;
    pair.writer.writer_data_lifecycle.autodispose_unregistered_instances = false;
    pair.reader.reader_data_lifecycle.autopurge_disposed_samples_delay = Duration::ZERO;
    assert_eq!(pair.incompatible(), []);
}

#[test]
fn all_incompatibilities_are_reported_in_policy_order() {
    let mut pair = Pair::default();
    pair.writer.reliability.kind = ReliabilityQosPolicyKind::BestEffort;
    pair.reader.reliability.kind = ReliabilityQosPolicyKind::Reliable;
    pair.reader.deadline.period = Duration::from_millis(20);
    let reasons: Vec<String> = pair.incompatible().iter().map(ToString::to_string).collect();
    assert_eq!(
        reasons,
        [
            "DEADLINE: the writer offers period infinite, the reader requests 20ms; a writer must \
             offer at most what a reader requests",
            "RELIABILITY: the writer offers kind BestEffort, the reader requests Reliable; a \
             writer must offer at least what a reader requests",
        ]
    );
}
