//! Values of one entity that contradict each other are found and named.

use qos_profiles::*;

/// Returns the contradictory policies after a change to the default reader.
fn reader(change: impl Fn(&mut DataReaderQos)) -> Vec<PolicyId> {
    let mut qos = DataReaderQos::default();
    change(&mut qos);
    qos.inconsistencies().iter().map(|found| found.policy).collect()
}

#[test]
fn history_depth_must_fit_limit_per_instance() {
    let with = |kind, depth, limit| {
        let found = reader(|qos| {
            qos.history = HistoryQosPolicy { kind, depth };
            qos.resource_limits.max_samples_per_instance = limit;
        });
        // The three kinds of entities share the rule.
        let history = HistoryQosPolicy { kind, depth };
        let resource_limits =
            ResourceLimitsQosPolicy { max_samples_per_instance: limit, ..Default::default() };
        let writer = DataWriterQos {
            history: history.clone(),
            resource_limits: resource_limits.clone(),
            ..Default::default()
        };
        let topic = TopicQos { history, resource_limits, ..Default::default() };
        assert_eq!(writer.inconsistencies().len(), found.len());
        assert_eq!(topic.inconsistencies(), writer.inconsistencies());
        found
    };
    use HistoryQosPolicyKind::*;
    assert_eq!(with(KeepLast, 4, Length::of(4)), []);
    assert_eq!(with(KeepLast, 5, Length::of(4)), [PolicyId::History]);
    assert_eq!(with(KeepLast, u32::MAX, Length::UNLIMITED), []);
    assert_eq!(with(KeepLast, 0, Length::UNLIMITED), [PolicyId::History]);
    assert_eq!(with(KeepAll, 5, Length::of(4)), []);
}

#[test]
fn limit_per_instance_must_fit_max_samples() {
    let with = |all, one| {
        reader(|qos| {
            qos.resource_limits.max_samples = all;
            qos.resource_limits.max_samples_per_instance = one;
        })
    };
    assert_eq!(with(Length::of(4), Length::of(4)), []);
    assert_eq!(with(Length::of(3), Length::of(4)), [PolicyId::ResourceLimits]);
    assert_eq!(with(Length::of(3), Length::UNLIMITED), []);
    assert_eq!(with(Length::of(0), Length::UNLIMITED), [PolicyId::ResourceLimits]);
}

#[test]
fn minimum_separation_must_not_exceed_deadline() {
    let with = |separation, period| {
        reader(|qos| {
            qos.time_based_filter.minimum_separation = separation;
            qos.deadline.period = period;
        })
    };
    let (short, long) = (Duration::from_millis(10), Duration::from_millis(20));
    assert_eq!(with(short, long), []);
    assert_eq!(with(long, long), []);
    assert_eq!(with(long, short), [PolicyId::TimeBasedFilter]);
}

#[test]
fn durability_service_obeys_history_and_limit_rules() {
    let mut qos = DataWriterQos::default();
    qos.durability_service.history_depth = 9;
    qos.durability_service.max_samples_per_instance = Length::of(8);
    qos.durability_service.max_samples = Length::of(7);
    let messages: Vec<String> = qos.inconsistencies().iter().map(ToString::to_string).collect();
    assert_eq!(
        messages,
        [
            "DURABILITY_SERVICE: max_samples (7) is less than max_samples_per_instance (8), so no \
             instance could fill its share; raise the one or lower the other",
            "DURABILITY_SERVICE: depth (9) is more than max_samples_per_instance (8); lower the \
             one or raise the other",
        ]
    );
}
