//! The communication statuses of the standard: events of an entity, counted.
//!
//! Owns: the thirteen statuses, and masks of them. Never does: detect an event.

use std::fmt;
use std::ops::{BitAnd, BitOr, BitOrAssign, Not};

use qos_profiles::PolicyId;

use super::InstanceHandle;

/// Lists the statuses. Their numbers are the bits of the standard.
macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $bit:literal, $name:ident;)*) => {
        /// One of the standard's statuses.
        ///
        /// ```
        /// use dds_api::infrastructure::StatusKind;
        ///
        /// assert_eq!(StatusKind::ALL.len(), 13);
        /// assert_eq!(StatusKind::DataAvailable.name(), "DATA_AVAILABLE");
        /// ```
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u32)]
        pub enum StatusKind {
            $($(#[$doc])* $kind = 1 << $bit,)*
        }

        impl StatusKind {
            /// All statuses.
            pub const ALL: [StatusKind; 13] = [$(StatusKind::$kind),*];

            /// Name of the status in the standard.
            pub const fn name(self) -> &'static str {
                match self {
                    $(StatusKind::$kind => stringify!($name),)*
                }
            }
        }
    };
}

kinds! {
    /// Another topic of the same name has other characteristics.
    #[doc(alias = "INCONSISTENT_TOPIC_STATUS")]
    InconsistentTopic = 0, INCONSISTENT_TOPIC;
    /// A writer has not written an instance within its DEADLINE.
    #[doc(alias = "OFFERED_DEADLINE_MISSED_STATUS")]
    OfferedDeadlineMissed = 1, OFFERED_DEADLINE_MISSED;
    /// A reader has received no sample of an instance within its DEADLINE.
    #[doc(alias = "REQUESTED_DEADLINE_MISSED_STATUS")]
    RequestedDeadlineMissed = 2, REQUESTED_DEADLINE_MISSED;
    /// A reader requests more than a writer offers: the writer's side.
    #[doc(alias = "OFFERED_INCOMPATIBLE_QOS_STATUS")]
    OfferedIncompatibleQos = 5, OFFERED_INCOMPATIBLE_QOS;
    /// A reader requests more than a writer offers: the reader's side.
    #[doc(alias = "REQUESTED_INCOMPATIBLE_QOS_STATUS")]
    RequestedIncompatibleQos = 6, REQUESTED_INCOMPATIBLE_QOS;
    /// A sample never reached a reader.
    #[doc(alias = "SAMPLE_LOST_STATUS")]
    SampleLost = 7, SAMPLE_LOST;
    /// A sample found no room within a reader's RESOURCE_LIMITS.
    #[doc(alias = "SAMPLE_REJECTED_STATUS")]
    SampleRejected = 8, SAMPLE_REJECTED;
    /// Some reader of a subscriber has data.
    #[doc(alias = "DATA_ON_READERS_STATUS")]
    DataOnReaders = 9, DATA_ON_READERS;
    /// A reader has data.
    #[doc(alias = "DATA_AVAILABLE_STATUS")]
    DataAvailable = 10, DATA_AVAILABLE;
    /// A writer did not assert its liveliness within its LIVELINESS lease.
    #[doc(alias = "LIVELINESS_LOST_STATUS")]
    LivelinessLost = 11, LIVELINESS_LOST;
    /// A writer of a reader became alive, or is no longer alive.
    #[doc(alias = "LIVELINESS_CHANGED_STATUS")]
    LivelinessChanged = 12, LIVELINESS_CHANGED;
    /// A writer was matched with a reader, or is no longer matched.
    #[doc(alias = "PUBLICATION_MATCHED_STATUS")]
    PublicationMatched = 13, PUBLICATION_MATCHED;
    /// A reader was matched with a writer, or is no longer matched.
    #[doc(alias = "SUBSCRIPTION_MATCHED_STATUS")]
    SubscriptionMatched = 14, SUBSCRIPTION_MATCHED;
}

impl fmt::Display for StatusKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A set of statuses.
///
/// ```
/// use dds_api::infrastructure::{StatusKind, StatusMask};
///
/// let matched = StatusKind::PublicationMatched | StatusKind::SubscriptionMatched;
/// assert!(matched.contains(StatusKind::PublicationMatched));
/// assert_eq!(StatusMask::ALL & matched, matched);
/// assert_eq!(matched.to_string(), "PUBLICATION_MATCHED | SUBSCRIPTION_MATCHED");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct StatusMask(pub(crate) u32);

impl StatusMask {
    /// No status.
    pub const NONE: StatusMask = StatusMask(0);
    /// All statuses.
    pub const ALL: StatusMask = StatusMask(0x7fe7);

    /// Whether the set is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether the set contains a status.
    pub const fn contains(self, kind: StatusKind) -> bool {
        self.0 & kind as u32 != 0
    }

    /// Statuses in the set, in the order of their bits.
    pub fn kinds(self) -> impl Iterator<Item = StatusKind> {
        StatusKind::ALL.into_iter().filter(move |kind| self.contains(*kind))
    }
}

impl From<StatusKind> for StatusMask {
    fn from(kind: StatusKind) -> StatusMask {
        StatusMask(kind as u32)
    }
}

impl<M: Into<StatusMask>> BitOr<M> for StatusMask {
    type Output = StatusMask;

    fn bitor(self, other: M) -> StatusMask {
        StatusMask(self.0 | other.into().0)
    }
}

impl<M: Into<StatusMask>> BitOr<M> for StatusKind {
    type Output = StatusMask;

    fn bitor(self, other: M) -> StatusMask {
        StatusMask::from(self) | other
    }
}

impl<M: Into<StatusMask>> BitOrAssign<M> for StatusMask {
    fn bitor_assign(&mut self, other: M) {
        *self = *self | other;
    }
}

impl BitAnd for StatusMask {
    type Output = StatusMask;

    fn bitand(self, other: StatusMask) -> StatusMask {
        StatusMask(self.0 & other.0)
    }
}

impl Not for StatusMask {
    type Output = StatusMask;

    fn not(self) -> StatusMask {
        StatusMask(!self.0 & StatusMask::ALL.0)
    }
}

impl FromIterator<StatusKind> for StatusMask {
    fn from_iter<I: IntoIterator<Item = StatusKind>>(kinds: I) -> StatusMask {
        kinds.into_iter().fold(StatusMask::NONE, |mask, kind| mask | kind)
    }
}

impl fmt::Display for StatusMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("none");
        }
        for (index, kind) in self.kinds().enumerate() {
            write!(f, "{}{kind}", if index == 0 { "" } else { " | " })?;
        }
        Ok(())
    }
}

impl fmt::Debug for StatusMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StatusMask({self})")
    }
}

/// A status: counts, and details of the last event. Reading a status resets its change counts.
pub(crate) trait Status: Clone {
    /// Resets the change counts after a read.
    fn settle(&mut self);
}

/// Defines statuses that have a total count, its change, and further fields.
macro_rules! counted {
    ($($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $ty:ty,)* } $(settles $($change:ident),*)?;)*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, PartialEq, Eq, Debug, Default)]
            #[non_exhaustive]
            pub struct $name {
                /// Total number of events.
                pub total_count: u64,
                /// Number of events since the status was last read.
                pub total_count_change: u64,
                $($(#[$field_doc])* pub $field: $ty,)*
            }

            impl $name {
                #[allow(dead_code, reason = "not every status is counted one by one")]
                pub(crate) fn count(&mut self, more: u64) {
                    self.total_count += more;
                    self.total_count_change += more;
                }
            }

            impl Status for $name {
                fn settle(&mut self) {
                    self.total_count_change = 0;
                    $($(self.$change = 0;)*)?
                }
            }
        )*
    };
}

/// Number of endpoints that were incompatible because of one policy.
///
/// ```
/// # use dds_api::prelude::*;
/// # #[derive(DdsType, Clone, Debug, Default)]
/// # struct Track { #[dds(key)] id: u32, height: f64 }
/// # fn example(reader: &DataReader<Track>) -> DdsResult<()> {
/// for refused in reader.requested_incompatible_qos_status().policies {
///     println!("{} writers offer too little of {}", refused.count, refused.policy_id);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QosPolicyCount {
    /// The policy.
    pub policy_id: PolicyId,
    /// Number of endpoints that were incompatible because of the policy.
    pub count: u64,
}

counted! {
    /// INCONSISTENT_TOPIC: endpoints of other participants that use the name of this topic for
    /// something else.
    ///
    /// ```
    /// # use dds_api::prelude::*;
    /// # #[derive(DdsType, Clone, Debug, Default)]
    /// # struct Track { #[dds(key)] id: u32, height: f64 }
    /// # fn example(topic: &Topic<Track>) -> DdsResult<()> {
    /// if let Some(why) = topic.inconsistent_topic_status().last_reason {
    ///     eprintln!("others mean something else by {}: {why}", topic.name());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    InconsistentTopicStatus {
        /// Difference of the last such endpoint, and what to do.
        last_reason: Option<String>,
    };
    /// OFFERED_DEADLINE_MISSED: a writer did not write an instance in time.
    ///
    /// ```
    /// # use dds_api::prelude::*;
    /// # #[derive(DdsType, Clone, Debug, Default)]
    /// # struct Track { #[dds(key)] id: u32, height: f64 }
    /// # fn example(writer: &DataWriter<Track>) -> DdsResult<()> {
    /// let status = writer.offered_deadline_missed_status();
    /// println!("{} deadlines missed, the last of {:?}", status.total_count, status.last_instance_handle);
    /// # Ok(())
    /// # }
    /// ```
    OfferedDeadlineMissedStatus {
        /// Instance of the last missed deadline.
        last_instance_handle: Option<InstanceHandle>,
    };
    /// REQUESTED_DEADLINE_MISSED: a reader did not receive a sample of an instance in time.
    ///
    /// ```
    /// # use dds_api::prelude::*;
    /// # #[derive(DdsType, Clone, Debug, Default)]
    /// # struct Track { #[dds(key)] id: u32, height: f64 }
    /// # fn example(reader: &DataReader<Track>) -> DdsResult<()> {
    /// let status = reader.requested_deadline_missed_status();
    /// println!("{} deadlines missed since the last read", status.total_count_change);
    /// # Ok(())
    /// # }
    /// ```
    RequestedDeadlineMissedStatus {
        /// Instance of the last missed deadline.
        last_instance_handle: Option<InstanceHandle>,
    };
    /// SAMPLE_LOST: samples of matched writers that a best-effort reader did not receive.
    ///
    /// ```
    /// # use dds_api::prelude::*;
    /// # #[derive(DdsType, Clone, Debug, Default)]
    /// # struct Track { #[dds(key)] id: u32, height: f64 }
    /// # fn example(reader: &DataReader<Track>) -> DdsResult<()> {
    /// let status = reader.sample_lost_status();
    /// println!("{} samples lost, {} since the last read", status.total_count, status.total_count_change);
    /// # Ok(())
    /// # }
    /// ```
    SampleLostStatus {};
    /// OFFERED_INCOMPATIBLE_QOS and REQUESTED_INCOMPATIBLE_QOS: readers that request more than a
    /// writer offers, or writers that offer less than a reader requests.
    ///
    /// ```
    /// # use dds_api::prelude::*;
    /// # #[derive(DdsType, Clone, Debug, Default)]
    /// # struct Track { #[dds(key)] id: u32, height: f64 }
    /// # fn example(writer: &DataWriter<Track>) -> DdsResult<()> {
    /// if let Some(why) = writer.offered_incompatible_qos_status().last_reason {
    ///     eprintln!("{why}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    IncompatibleQosStatus {
        /// Incompatible policy of the last endpoint; the first one if there were several.
        last_policy_id: Option<PolicyId>,
        /// Number of incompatible endpoints by policy.
        policies: Vec<QosPolicyCount>,
        /// Incompatible values of the last endpoint, and the rule between them.
        last_reason: Option<String>,
    };
    /// LIVELINESS_LOST: a writer did not assert its liveliness in time.
    ///
    /// ```
    /// # use dds_api::prelude::*;
    /// # #[derive(DdsType, Clone, Debug, Default)]
    /// # struct Track { #[dds(key)] id: u32, height: f64 }
    /// # fn example(writer: &DataWriter<Track>) -> DdsResult<()> {
    /// println!("liveliness asserted too late: {} times", writer.liveliness_lost_status().total_count);
    /// # Ok(())
    /// # }
    /// ```
    LivelinessLostStatus {};
    /// PUBLICATION_MATCHED: readers that receive each sample that a writer writes from now on.
    ///
    /// ```
    /// # use dds_api::prelude::*;
    /// # #[derive(DdsType, Clone, Debug, Default)]
    /// # struct Track { #[dds(key)] id: u32, height: f64 }
    /// # fn example(writer: &DataWriter<Track>) -> DdsResult<()> {
    /// let status = writer.publication_matched_status();
    /// println!("{} readers now, {} in all", status.current_count, status.total_count);
    /// # Ok(())
    /// # }
    /// ```
    PublicationMatchedStatus {
        /// Number of readers matched now.
        current_count: u64,
        /// Change of this number since the status was last read.
        current_count_change: i64,
        /// Reader that was matched or unmatched last.
        last_subscription_handle: Option<InstanceHandle>,
    } settles current_count_change;
    /// SUBSCRIPTION_MATCHED: writers of which a reader receives each sample from now on, and
    /// writers that have ended and of which samples may still come.
    ///
    /// ```
    /// # use dds_api::prelude::*;
    /// # #[derive(DdsType, Clone, Debug, Default)]
    /// # struct Track { #[dds(key)] id: u32, height: f64 }
    /// # fn example(reader: &DataReader<Track>) -> DdsResult<()> {
    /// let status = reader.subscription_matched_status();
    /// println!("{} writers now, {} in all", status.current_count, status.total_count);
    /// # Ok(())
    /// # }
    /// ```
    SubscriptionMatchedStatus {
        /// Number of writers matched now.
        current_count: u64,
        /// Change of this number since the status was last read.
        current_count_change: i64,
        /// Writer that was matched or unmatched last.
        last_publication_handle: Option<InstanceHandle>,
    } settles current_count_change;
}

/// LIVELINESS_CHANGED: writers of a reader that are alive, and writers that are not.
///
/// ```
/// # use dds_api::prelude::*;
/// # #[derive(DdsType, Clone, Debug, Default)]
/// # struct Track { #[dds(key)] id: u32, height: f64 }
/// # fn example(reader: &DataReader<Track>) -> DdsResult<()> {
/// let status = reader.liveliness_changed_status();
/// println!("{} writers are alive, {} more than before", status.alive_count, status.alive_count_change);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct LivelinessChangedStatus {
    /// Writers that are alive.
    pub alive_count: u64,
    /// Writers that are matched and did not assert their liveliness in time.
    pub not_alive_count: u64,
    /// Change of the number of writers alive since the status was last read.
    pub alive_count_change: i64,
    /// Change of the number of writers not alive since the status was last read.
    pub not_alive_count_change: i64,
    /// Writer of the last change.
    pub last_publication_handle: Option<InstanceHandle>,
}

impl Status for LivelinessChangedStatus {
    fn settle(&mut self) {
        (self.alive_count_change, self.not_alive_count_change) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_sets_with_the_standards_bits() {
        assert_eq!(StatusKind::ALL.into_iter().collect::<StatusMask>(), StatusMask::ALL);
        assert_eq!(StatusMask::ALL.kinds().count(), 13);
        assert_eq!(StatusKind::SubscriptionMatched as u32, 1 << 14);
        let one = StatusMask::from(StatusKind::DataAvailable);
        assert!((!one & one).is_empty() && (!one).contains(StatusKind::SampleLost));
        assert_eq!(StatusMask::NONE.to_string(), "none");
    }
}
