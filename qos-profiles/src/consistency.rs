//! Consistency of an entity's policies.
//!
//! Owns the rules of the standard that span fields or policies of one entity. Never compares two
//! entities; the comparison of a request with an offer is separate.

use crate::{
    DataReaderQos, DataWriterQos, DomainParticipantQos, HistoryQosPolicyKind, Length, PolicyId,
    PublisherQos, SubscriberQos, TopicQos,
};
use std::error::Error;
use std::fmt;

/// A contradiction between values of one entity's policies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inconsistency {
    /// Policy that causes the contradiction.
    pub policy: PolicyId,
    /// Description of the contradiction.
    pub reason: String,
    /// Remedy.
    pub advice: &'static str,
}

impl fmt::Display for Inconsistency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.policy, self.reason, self.advice)
    }
}

impl Error for Inconsistency {}

impl DomainParticipantQos {
    /// Returns the contradictions in this set; always empty.
    pub fn inconsistencies(&self) -> Vec<Inconsistency> {
        Vec::new()
    }
}

impl PublisherQos {
    /// Returns the contradictions in this set; always empty.
    pub fn inconsistencies(&self) -> Vec<Inconsistency> {
        Vec::new()
    }
}

impl SubscriberQos {
    /// Returns the contradictions in this set; always empty.
    pub fn inconsistencies(&self) -> Vec<Inconsistency> {
        Vec::new()
    }
}

impl TopicQos {
    /// Returns the contradictions in this set; empty if there are none.
    pub fn inconsistencies(&self) -> Vec<Inconsistency> {
        let mut found = RetentionLimits::of(&self.history, &self.resource_limits).inconsistencies();
        found.extend(RetentionLimits::by_service(&self.durability_service).inconsistencies());
        found
    }
}

impl DataWriterQos {
    /// Returns the contradictions in this set; empty if there are none.
    pub fn inconsistencies(&self) -> Vec<Inconsistency> {
        let mut found = RetentionLimits::of(&self.history, &self.resource_limits).inconsistencies();
        found.extend(RetentionLimits::by_service(&self.durability_service).inconsistencies());
        found
    }
}

impl DataReaderQos {
    /// Returns the contradictions in this set; empty if there are none.
    pub fn inconsistencies(&self) -> Vec<Inconsistency> {
        let mut found = RetentionLimits::of(&self.history, &self.resource_limits).inconsistencies();
        let (period, separation) =
            (self.deadline.period, self.time_based_filter.minimum_separation);
        if separation > period {
            found.push(Inconsistency {
                policy: PolicyId::TimeBasedFilter,
                reason: format!(
                    "minimum_separation ({separation}) is longer than the DEADLINE period \
                     ({period}), so every deadline would be missed"
                ),
                advice: "shorten the one or lengthen the other",
            });
        }
        found
    }
}

/// Limits on the samples kept by an entity, or by the durability service on its behalf.
struct RetentionLimits {
    history: PolicyId,
    limits: PolicyId,
    kind: HistoryQosPolicyKind,
    depth: u32,
    max_samples: Length,
    max_instances: Length,
    max_samples_per_instance: Length,
}

impl RetentionLimits {
    fn of(history: &crate::HistoryQosPolicy, limits: &crate::ResourceLimitsQosPolicy) -> Self {
        Self {
            history: PolicyId::History,
            limits: PolicyId::ResourceLimits,
            kind: history.kind,
            depth: history.depth,
            max_samples: limits.max_samples,
            max_instances: limits.max_instances,
            max_samples_per_instance: limits.max_samples_per_instance,
        }
    }

    fn by_service(service: &crate::DurabilityServiceQosPolicy) -> Self {
        Self {
            history: PolicyId::DurabilityService,
            limits: PolicyId::DurabilityService,
            kind: service.history_kind,
            depth: service.history_depth,
            max_samples: service.max_samples,
            max_instances: service.max_instances,
            max_samples_per_instance: service.max_samples_per_instance,
        }
    }

    fn inconsistencies(&self) -> Vec<Inconsistency> {
        let mut found = Vec::new();
        let mut report =
            |policy, reason, advice| found.push(Inconsistency { policy, reason, advice });
        for (name, limit) in [
            ("max_samples", self.max_samples),
            ("max_instances", self.max_instances),
            ("max_samples_per_instance", self.max_samples_per_instance),
        ] {
            if limit == Length::of(0) {
                report(
                    self.limits,
                    format!("{name} is 0, so nothing could be kept"),
                    "set it to 1 or more",
                );
            }
        }
        if self.max_samples < self.max_samples_per_instance
            && !self.max_samples_per_instance.is_unlimited()
        {
            report(
                self.limits,
                format!(
                    "max_samples ({}) is less than max_samples_per_instance ({}), so no instance \
                     could fill its share",
                    self.max_samples, self.max_samples_per_instance
                ),
                "raise the one or lower the other",
            );
        }
        if self.kind == HistoryQosPolicyKind::KeepLast {
            if self.depth == 0 {
                report(
                    self.history,
                    "depth is 0, so KEEP_LAST would keep nothing".to_owned(),
                    "set it to 1 or more",
                );
            }
            if self.max_samples_per_instance.limit().is_some_and(|limit| self.depth > limit) {
                report(
                    self.history,
                    format!(
                        "depth ({}) is more than {}max_samples_per_instance ({})",
                        self.depth,
                        if self.history == self.limits { "" } else { "RESOURCE_LIMITS " },
                        self.max_samples_per_instance
                    ),
                    "lower the one or raise the other",
                );
            }
        }
        found
    }
}
