//! Level, policies and kept samples of a topic, and how they determine each other.
//!
//! Owns: the rules. Never does: keep anything.

use qos_profiles::{
    DurabilityQosPolicyKind, DurabilityServiceQosPolicy, Duration, HistoryQosPolicyKind, Length,
    PolicyId, TopicQos,
};

use crate::infrastructure::{DdsError, DdsResult, LogRetention};
use crate::mapping::level::{TopicLevel, TopicRetention};
use crate::mapping::policies::{check_data, durability};

/// Options for kept samples that no standard policy covers.
#[derive(Clone, Default)]
pub(super) struct StorageOptions {
    /// Whether samples are delivered only once they are durable.
    pub(super) durable_first: bool,
    /// Whether a log whose disk is full is detached.
    pub(super) detach: bool,
    pub(super) log_retention: LogRetention,
    /// Whether samples belong to instances, which may be over.
    pub(super) has_instances: bool,
}

/// Resolved policies of a topic.
pub(super) struct ResolvedTopic {
    pub(super) qos: TopicQos,
    pub(super) level: TopicLevel,
    pub(super) retention: TopicRetention,
}

impl StorageOptions {
    /// Default DURABILITY_SERVICE of a topic: the standard's defaults, except that samples of an
    /// instance that is over are kept.
    pub(super) fn default_service() -> DurabilityServiceQosPolicy {
        DurabilityServiceQosPolicy {
            service_cleanup_delay: Duration::INFINITE,
            ..DurabilityServiceQosPolicy::default()
        }
    }

    /// DURABILITY_SERVICE of a topic whose HISTORY and RESOURCE_LIMITS determine which samples are
    /// kept. There is no service that drops samples of instances that are over.
    pub(super) fn service_of(qos: &TopicQos) -> DurabilityServiceQosPolicy {
        DurabilityServiceQosPolicy {
            history_kind: qos.history.kind,
            history_depth: qos.history.depth,
            max_samples: qos.resource_limits.max_samples,
            max_instances: qos.resource_limits.max_instances,
            max_samples_per_instance: qos.resource_limits.max_samples_per_instance,
            ..StorageOptions::default_service()
        }
    }

    /// Resolves the policies of a topic of this name.
    ///
    /// # Errors
    /// If the policies contradict each other.
    pub(super) fn resolve(
        &self,
        name: &str,
        level: TopicLevel,
        mut qos: TopicQos,
    ) -> DdsResult<ResolvedTopic> {
        check_data(PolicyId::TopicData, &qos.topic_data.value)?;
        let retention = self.retention(level, &qos).map_err(|wrong| {
            DdsError::InconsistentPolicy(format!("DURABILITY_SERVICE of topic `{name}`: {wrong}"))
        })?;
        if qos.durability.kind != DurabilityQosPolicyKind::Transient || !level.is_kept() {
            qos.durability.kind = durability(level);
        }
        match qos.inconsistencies().first() {
            Some(wrong) => Err(DdsError::InconsistentPolicy(format!("topic `{name}`: {wrong}"))),
            None => Ok(ResolvedTopic { qos, level, retention }),
        }
    }

    /// Which samples are kept, as participants announce it; or the reason why the policies
    /// are wrong.
    fn retention(&self, level: TopicLevel, qos: &TopicQos) -> Result<TopicRetention, String> {
        if !level.is_kept() {
            return Ok(TopicRetention::default());
        }
        let service = &qos.durability_service;
        let alone = TopicQos { durability_service: service.clone(), ..TopicQos::default() };
        if let Some(error) = alone.inconsistencies().first() {
            return Err(error.to_string());
        }
        let per_instance = service.max_samples_per_instance.limit();
        let depth = match service.history_kind {
            HistoryQosPolicyKind::KeepLast => Some(service.history_depth),
            HistoryQosPolicyKind::KeepAll => per_instance,
        };
        let limit = |length: Length| length.limit().unwrap_or(0);
        let lifespan = qos.lifespan.duration.nanos();
        // If there are no instances that may be over, records are dropped in their order (I-230).
        let cleanup = service.service_cleanup_delay.nanos().filter(|_| self.has_instances);
        if lifespan == Some(0) {
            return Err("nothing would be kept: make lifespan longer than zero".into());
        }
        let LogRetention { time, bytes, samples } = self.log_retention;
        let limited = time.is_some() || bytes.is_some() || samples.is_some();
        if limited && depth.is_none() && service.max_samples.limit().is_none() && lifespan.is_none()
        {
            return Err("all samples are kept for late joiners, so no log may drop any: leave \
                 `log_retention` out, or keep less (`keep_last`, `max_samples`, `lifespan`)"
                .into());
        }
        let log_limit = |limit: Option<u64>| match limit.filter(|_| level.is_logged()) {
            // Zero stands for no limit. A limit of one keeps the same samples as a limit of
            // zero would.
            Some(limit) => limit.max(1),
            None => 0,
        };
        let log_time = time.map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        Ok(TopicRetention {
            log_time: log_limit(log_time),
            log_bytes: log_limit(bytes),
            log_samples: log_limit(samples),
            depth: depth.unwrap_or(0),
            most: limit(service.max_samples),
            instances: limit(service.max_instances),
            lifespan: lifespan.unwrap_or(0),
            forgets: cleanup.is_some(),
            cleanup: cleanup.unwrap_or(0),
            durable_first: self.durable_first && level.is_logged(),
            detach: self.detach && level.is_logged(),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration as Time;

    use qos_profiles::ResourceLimitsQosPolicy;

    use super::*;

    fn options() -> StorageOptions {
        StorageOptions { has_instances: true, ..StorageOptions::default() }
    }

    /// The samples kept by a topic with these options, level and policies.
    fn resolved(
        options: &StorageOptions,
        level: TopicLevel,
        change: impl FnOnce(&mut TopicQos),
    ) -> DdsResult<TopicRetention> {
        let mut qos = TopicQos::default();
        change(&mut qos);
        options.resolve("Tracks", level, qos).map(|promise| promise.retention)
    }

    fn kept(
        options: &StorageOptions,
        level: TopicLevel,
        change: impl FnOnce(&mut TopicQos),
    ) -> TopicRetention {
        resolved(options, level, change).unwrap()
    }

    /// The reason why the policies are wrong.
    fn refusal(
        options: &StorageOptions,
        level: TopicLevel,
        change: impl FnOnce(&mut TopicQos),
    ) -> String {
        match resolved(options, level, change) {
            Err(DdsError::InconsistentPolicy(why)) => why,
            Err(other) => panic!("{other}"),
            Ok(_) => panic!("nothing is wrong with it"),
        }
    }

    use TopicLevel::{Atomic, Kept, Logged, Unordered};

    #[test]
    fn durability_service_keeps_no_samples_at_levels_without_storage() {
        for level in [Unordered, Atomic] {
            let retention = kept(&options(), level, |qos| qos.durability_service.history_depth = 7);
            assert_eq!(retention, TopicRetention::default());
        }
    }

    #[test]
    fn durability_service_determines_kept_samples() {
        // The standard's default of the cleanup delay is zero.
        let one = TopicRetention { depth: 1, forgets: true, ..TopicRetention::default() };
        assert_eq!(kept(&options(), Kept, |_| ()), one);
        let limited = kept(&options(), Kept, |qos| {
            let service = &mut qos.durability_service;
            service.history_depth = 3;
            service.max_samples = Length::of(50);
            service.max_instances = Length::of(5);
            service.max_samples_per_instance = Length::of(10);
            service.service_cleanup_delay = Duration::from_millis(2);
            qos.lifespan.duration = Duration::from_millis(1);
        });
        let (lifespan, cleanup) = (1_000_000, 2_000_000);
        let expected =
            TopicRetention { depth: 3, most: 50, instances: 5, lifespan, cleanup, ..one };
        assert_eq!(limited, expected);
        let all = |most| {
            kept(&options(), Kept, move |qos| {
                qos.durability_service.history_kind = HistoryQosPolicyKind::KeepAll;
                qos.durability_service.max_samples_per_instance = most;
            })
        };
        assert_eq!(all(Length::UNLIMITED).depth, 0);
        assert_eq!(all(Length::of(9)).depth, 9);
    }

    #[test]
    fn only_keyed_topic_with_finite_cleanup_delay_forgets_ended_instances() {
        let none = StorageOptions::default();
        assert!(!kept(&none, Kept, |_| ()).forgets);
        let set_default =
            |qos: &mut TopicQos| qos.durability_service = StorageOptions::default_service();
        assert!(!kept(&options(), Kept, set_default).forgets);
        let mut qos = TopicQos::default();
        qos.history.kind = HistoryQosPolicyKind::KeepAll;
        qos.history.depth = 7;
        qos.resource_limits = ResourceLimitsQosPolicy {
            max_samples: Length::of(9),
            max_instances: Length::of(8),
            max_samples_per_instance: Length::of(6),
        };
        let service = StorageOptions::service_of(&qos);
        let expected = DurabilityServiceQosPolicy {
            service_cleanup_delay: Duration::INFINITE,
            history_kind: HistoryQosPolicyKind::KeepAll,
            history_depth: 7,
            max_samples: Length::of(9),
            max_instances: Length::of(8),
            max_samples_per_instance: Length::of(6),
        };
        assert_eq!(service, expected);
    }

    #[test]
    fn a_topic_that_would_keep_nothing_is_refused() {
        let zero = |qos: &mut TopicQos| qos.lifespan.duration = Duration::ZERO;
        assert!(refusal(&options(), Kept, zero).contains("nothing would be kept"));
        let none: [fn(&mut TopicQos); 3] = [
            |qos| qos.durability_service.history_depth = 0,
            |qos| qos.durability_service.max_samples = Length::of(0),
            |qos| {
                qos.durability_service.history_kind = HistoryQosPolicyKind::KeepAll;
                qos.durability_service.max_samples_per_instance = Length::of(0);
            },
        ];
        for none in none {
            let why = refusal(&options(), Kept, none);
            assert!(why.starts_with("DURABILITY_SERVICE of topic `Tracks`"), "{why}");
        }
        let own = |qos: &mut TopicQos| qos.history.depth = 0;
        assert!(refusal(&options(), Unordered, own).starts_with("topic `Tracks`: HISTORY"));
    }

    #[test]
    fn durability_of_a_topic_follows_from_its_level() {
        use DurabilityQosPolicyKind::{Persistent, Transient, TransientLocal, Volatile};
        let promised = |level, asked| {
            let mut qos = TopicQos::default();
            qos.durability.kind = asked;
            let resolved = options().resolve("Tracks", level, qos).unwrap();
            assert_eq!(resolved.level, level);
            resolved.qos.durability.kind
        };
        for asked in [Volatile, TransientLocal, Transient, Persistent] {
            assert_eq!(promised(Unordered, asked), Volatile);
            assert_eq!(promised(Atomic, asked), Volatile);
            let is_transient = asked == Transient;
            let of_memory = if is_transient { Transient } else { TransientLocal };
            let of_logs = if is_transient { Transient } else { Persistent };
            assert_eq!(promised(Kept, asked), of_memory);
            assert_eq!(promised(Logged, asked), of_logs);
        }
    }

    #[test]
    fn log_options_apply_only_to_logged_topics() {
        let given = StorageOptions {
            durable_first: true,
            detach: true,
            log_retention: LogRetention {
                time: Some(Time::from_nanos(3)),
                bytes: Some(0),
                samples: Some(5),
            },
            ..options()
        };
        let logged = kept(&given, Logged, |_| ());
        let limits = (logged.log_time, logged.log_bytes, logged.log_samples);
        assert_eq!(limits, (3, 1, 5), "zero stands for no limit");
        assert!(logged.durable_first && logged.detach);
        let memory = kept(&given, Kept, |_| ());
        assert_eq!(memory, TopicRetention { depth: 1, forgets: true, ..TopicRetention::default() });
        let unsaid = kept(&options(), Logged, |_| ());
        assert_eq!(unsaid, memory);
    }

    /// If all samples are kept for late joiners, no log may drop any.
    #[test]
    fn log_retention_is_refused_for_topic_that_keeps_all_samples() {
        let keep_all = |qos: &mut TopicQos| {
            qos.durability_service.history_kind = HistoryQosPolicyKind::KeepAll;
        };
        for log_retention in [
            LogRetention { time: Some(Time::from_secs(1)), ..LogRetention::default() },
            LogRetention { bytes: Some(7), ..LogRetention::default() },
            LogRetention { samples: Some(7), ..LogRetention::default() },
        ] {
            let given = StorageOptions { log_retention, ..options() };
            let why = refusal(&given, Logged, keep_all);
            assert!(why.contains("no log may drop any"), "{why}");
            kept(&given, Logged, |_| ());
            kept(&given, Logged, |qos| {
                keep_all(qos);
                qos.durability_service.max_samples = Length::of(7);
            });
            kept(&given, Logged, |qos| {
                keep_all(qos);
                qos.lifespan.duration = Duration::from_secs(7);
            });
        }
        kept(&options(), Logged, keep_all);
    }

    #[test]
    fn topic_data_too_large_for_an_announcement_is_refused() {
        let mut qos = TopicQos::default();
        qos.topic_data.value = vec![0; 13 << 10];
        assert!(matches!(options().resolve("Tracks", Atomic, qos), Err(DdsError::BadParameter(_))));
    }
}
