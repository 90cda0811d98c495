//! Delivery guarantees of a topic: the order of its samples, and their retention.
//!
//! Owns: the four delivery levels, and the announced retention of a topic. Never does:
//! keep samples.

use std::fmt;

use derecho_core::log;
use derecho_core::storage::store::StoreRetention;
use idl_cdr::DdsType;
use qos_profiles::xml::DeliveryLevel;

/// Order and storage guarantees of a topic.
#[derive(DdsType, Clone, Copy, PartialEq, Eq, Debug, Default)]
#[dds(crate = "idl_cdr")]
pub(crate) enum TopicLevel {
    /// Each writer's samples keep their own order.
    #[default]
    Unordered,
    /// One order, equal at all readers; all readers receive a sample or none does.
    Atomic,
    /// Atomic, and kept in the participants' memory for late joiners.
    Kept,
    /// Atomic, and kept in logs, from which the topic is recovered after all participants
    /// have ended.
    Logged,
}

impl From<DeliveryLevel> for TopicLevel {
    fn from(level: DeliveryLevel) -> TopicLevel {
        match level {
            DeliveryLevel::Unordered => TopicLevel::Unordered,
            DeliveryLevel::Atomic => TopicLevel::Atomic,
            DeliveryLevel::Kept => TopicLevel::Kept,
            DeliveryLevel::Logged => TopicLevel::Logged,
        }
    }
}

impl TopicLevel {
    pub(crate) fn is_ordered(self) -> bool {
        self != TopicLevel::Unordered
    }

    /// Whether samples are kept for late joiners.
    pub(crate) fn is_kept(self) -> bool {
        matches!(self, TopicLevel::Kept | TopicLevel::Logged)
    }

    /// Whether samples are kept in logs as well.
    pub(crate) fn is_logged(self) -> bool {
        self == TopicLevel::Logged
    }
}

/// Retention of samples: DURABILITY_SERVICE and LIFESPAN of a topic. Zero means no limit.
#[derive(DdsType, Clone, Copy, PartialEq, Eq, Debug, Default)]
#[dds(crate = "idl_cdr")]
pub(crate) struct TopicRetention {
    /// Per instance.
    pub(crate) depth: u32,
    pub(crate) most: u32,
    pub(crate) instances: u32,
    /// In nanoseconds.
    pub(crate) lifespan: u64,
    /// Whether the samples of an ended instance are forgotten `cleanup` nanoseconds later.
    pub(crate) forgets: bool,
    pub(crate) cleanup: u64,
    /// Whether logged samples are delivered only when they are durable everywhere.
    pub(crate) durable_first: bool,
    /// Whether a log on a full disk leaves its topic instead of blocking it.
    pub(crate) detach: bool,
    /// Minimum history in logs, in nanoseconds, bytes and samples.
    pub(crate) log_time: u64,
    pub(crate) log_bytes: u64,
    pub(crate) log_samples: u64,
}

impl TopicRetention {
    /// Retention in the form for stores.
    pub(crate) fn retention(self) -> StoreRetention {
        let limit = |limit: u32| (limit > 0).then_some(u64::from(limit));
        StoreRetention {
            depth: (self.depth > 0).then_some(self.depth),
            most: limit(self.most),
            keys: limit(self.instances),
            lifespan: (self.lifespan > 0).then_some(self.lifespan),
            cleanup: self.forgets.then_some(self.cleanup),
        }
    }

    /// Retention of history in logs; `None` if all history is kept.
    pub(crate) fn log_retention(self) -> Option<log::SegmentRetention> {
        let limit = |limit: u64| (limit > 0).then_some(limit);
        let (nanos, bytes) = (limit(self.log_time), limit(self.log_bytes));
        let past = log::SegmentRetention { nanos, bytes, messages: limit(self.log_samples) };
        (past != log::SegmentRetention::default()).then_some(past)
    }
}

impl fmt::Display for TopicRetention {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.depth {
            0 => f.write_str("all samples")?,
            depth => write!(f, "{depth} samples of each instance")?,
        }
        let limits = [(self.most, "samples"), (self.instances, "instances")];
        for (limit, what) in limits.into_iter().filter(|(limit, _)| *limit > 0) {
            write!(f, ", at most {limit} {what}")?;
        }
        if self.lifespan > 0 {
            write!(f, ", for {:?}", std::time::Duration::from_nanos(self.lifespan))?;
        }
        if self.forgets {
            let delay = std::time::Duration::from_nanos(self.cleanup);
            write!(f, ", until {delay:?} after the end of an instance")?;
        }
        if self.durable_first {
            f.write_str(", durable before they are delivered")?;
        }
        if self.log_time > 0 {
            write!(f, ", in logs for {:?}", std::time::Duration::from_nanos(self.log_time))?;
        }
        let limits = [(self.log_bytes, "bytes"), (self.log_samples, "samples")];
        for (limit, what) in limits.into_iter().filter(|(limit, _)| *limit > 0) {
            write!(f, ", in logs at least {limit} {what}")?;
        }
        match self.detach {
            true => f.write_str(", without logs whose disk is full"),
            false => Ok(()),
        }
    }
}

impl fmt::Display for TopicLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TopicLevel::Unordered => "unordered",
            TopicLevel::Atomic => "atomic",
            TopicLevel::Kept => "kept",
            TopicLevel::Logged => "logged",
        })
    }
}
