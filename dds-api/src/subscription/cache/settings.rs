//! Policies as numbers for a cache.
//!
//! Owns: the conversion of policies to settings. Never does: check that policies are consistent;
//! `qos-profiles` does.

use qos_profiles::{
    DataReaderQos, DestinationOrderQosPolicyKind, Duration, HistoryQosPolicyKind, Length,
    OwnershipQosPolicyKind, PresentationQosPolicy, PresentationQosPolicyAccessScopeKind,
};

/// Infinite time, in nanoseconds.
pub const NEVER: u64 = u64::MAX;

/// Maximum number of samples, or instances, of any cache, whatever RESOURCE_LIMITS say.
const MOST: usize = (u32::MAX - 1) as usize;

/// Settings of a cache. Times are in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CacheSettings {
    /// HISTORY: number of last samples kept for each instance; `None` to keep all.
    pub depth: Option<usize>,
    /// RESOURCE_LIMITS: maximum number of samples.
    pub max_samples: usize,
    /// RESOURCE_LIMITS: maximum number of instances.
    pub max_instances: usize,
    /// RESOURCE_LIMITS: maximum number of samples of one instance.
    pub max_samples_per_instance: usize,
    /// OWNERSHIP: only the strongest writer of an instance counts.
    pub exclusive: bool,
    /// DESTINATION_ORDER: order by the time of writing, not of arrival.
    pub by_source: bool,
    /// PRESENTATION: samples of different instances are given in their common order, not instance
    /// by instance.
    pub across_instances: bool,
    /// TIME_BASED_FILTER: minimum interval between two samples of an instance.
    pub minimum_separation: u64,
    /// READER_DATA_LIFECYCLE: time for which samples of an instance without writers are kept.
    pub no_writer_delay: u64,
    /// READER_DATA_LIFECYCLE: time for which samples of a disposed instance are kept.
    pub disposed_delay: u64,
    /// DEADLINE: maximum interval between two samples of an instance.
    pub deadline: u64,
    /// LIVELINESS: time after which a writer that has not asserted its liveliness is not alive.
    pub lease: u64,
}

impl Default for CacheSettings {
    /// Settings that keep all samples, in their order of arrival.
    fn default() -> Self {
        CacheSettings {
            depth: None,
            max_samples: MOST,
            max_instances: MOST,
            max_samples_per_instance: MOST,
            exclusive: false,
            by_source: false,
            across_instances: true,
            minimum_separation: 0,
            no_writer_delay: NEVER,
            disposed_delay: NEVER,
            deadline: NEVER,
            lease: NEVER,
        }
    }
}

impl CacheSettings {
    /// The settings that these policies request.
    pub fn new(qos: &DataReaderQos, presentation: &PresentationQosPolicy) -> Self {
        let limits = &qos.resource_limits;
        let lifecycle = &qos.reader_data_lifecycle;
        let by = qos.destination_order.kind;
        CacheSettings {
            depth: match qos.history.kind {
                HistoryQosPolicyKind::KeepLast => Some(qos.history.depth as usize),
                HistoryQosPolicyKind::KeepAll => None,
            },
            max_samples: most(limits.max_samples),
            max_instances: most(limits.max_instances),
            max_samples_per_instance: most(limits.max_samples_per_instance),
            exclusive: qos.ownership.kind == OwnershipQosPolicyKind::Exclusive,
            by_source: by == DestinationOrderQosPolicyKind::BySourceTimestamp,
            across_instances: presentation.ordered_access
                && presentation.access_scope > PresentationQosPolicyAccessScopeKind::Instance,
            minimum_separation: nanos(qos.time_based_filter.minimum_separation),
            no_writer_delay: nanos(lifecycle.autopurge_nowriter_samples_delay),
            disposed_delay: nanos(lifecycle.autopurge_disposed_samples_delay),
            deadline: nanos(qos.deadline.period),
            lease: nanos(qos.liveliness.lease_duration),
        }
    }
}

impl CacheSettings {
    /// Whether all samples of one instance are given as they come, and none is dropped or waits:
    /// the cache then decides nothing.
    pub fn keep_all_as_they_come(self) -> bool {
        CacheSettings { across_instances: true, lease: NEVER, ..self } == CacheSettings::default()
    }

    /// The settings after a change of those policies that may change on an enabled reader.
    pub fn changed_to(self, qos: &DataReaderQos) -> Self {
        let presentation = PresentationQosPolicy::default();
        let new = CacheSettings::new(qos, &presentation);
        CacheSettings {
            minimum_separation: new.minimum_separation,
            no_writer_delay: new.no_writer_delay,
            disposed_delay: new.disposed_delay,
            deadline: new.deadline,
            ..self
        }
    }
}

/// A duration in nanoseconds; [`NEVER`] if it is infinite.
fn nanos(duration: Duration) -> u64 {
    duration.nanos().unwrap_or(NEVER)
}

fn most(length: Length) -> usize {
    length.limit().map_or(MOST, |length| (length as usize).min(MOST))
}
