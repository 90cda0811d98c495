//! What the policies ask of a cache, as numbers.
//!
//! Owns: how a policy becomes a setting. Never does: say whether policies go together; that is `qos-profiles`' part.

use qos_profiles::{
    DataReaderQos, DestinationOrderQosPolicyKind, Duration, HistoryQosPolicyKind, Length,
    OwnershipQosPolicyKind, PresentationQosPolicy, PresentationQosPolicyAccessScopeKind,
};

/// A time without end, in nanoseconds.
pub const NEVER: u64 = u64::MAX;

/// More samples, or instances, than that no cache holds, whatever RESOURCE_LIMITS say.
const MOST: usize = (u32::MAX - 1) as usize;

/// What a cache does. Times are in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// HISTORY: so many samples of each instance, the last ones; none: all.
    pub depth: Option<usize>,
    /// RESOURCE_LIMITS: so many samples.
    pub max_samples: usize,
    /// RESOURCE_LIMITS: so many instances.
    pub max_instances: usize,
    /// RESOURCE_LIMITS: so many samples of an instance.
    pub max_samples_per_instance: usize,
    /// OWNERSHIP: only the strongest writer of an instance counts.
    pub exclusive: bool,
    /// DESTINATION_ORDER: by the time at which samples were written, not that at which they came.
    pub by_source: bool,
    /// PRESENTATION: samples of different instances are given in their order among each other, not instance by instance.
    pub across_instances: bool,
    /// TIME_BASED_FILTER: the least time between two samples of an instance.
    pub minimum_separation: u64,
    /// READER_DATA_LIFECYCLE: so long samples of an instance are kept that has no writer.
    pub no_writer_delay: u64,
    /// READER_DATA_LIFECYCLE: so long samples of an instance are kept that is disposed.
    pub disposed_delay: u64,
    /// DEADLINE: each instance is to come again within this time.
    pub deadline: u64,
}

impl Default for Settings {
    /// All samples, in the order in which they came.
    fn default() -> Self {
        Settings {
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
        }
    }
}

impl Settings {
    /// What these policies ask for.
    pub fn new(qos: &DataReaderQos, presentation: &PresentationQosPolicy) -> Self {
        let limits = &qos.resource_limits;
        let lifecycle = &qos.reader_data_lifecycle;
        let by = qos.destination_order.kind;
        Settings {
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
        }
    }
}

impl Settings {
    /// The same with those of these policies that may change on a reader that is at work.
    pub fn changed_to(self, qos: &DataReaderQos) -> Self {
        let presentation = PresentationQosPolicy::default();
        let new = Settings::new(qos, &presentation);
        Settings {
            minimum_separation: new.minimum_separation,
            no_writer_delay: new.no_writer_delay,
            disposed_delay: new.disposed_delay,
            deadline: new.deadline,
            ..self
        }
    }
}

/// The nanoseconds of a span of time; [`NEVER`] if it has no end.
fn nanos(duration: Duration) -> u64 {
    duration.nanos().unwrap_or(NEVER)
}

fn most(length: Length) -> usize {
    length.limit().map_or(MOST, |length| (length as usize).min(MOST))
}
