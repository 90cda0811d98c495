//! The communication statuses of the standard: what has become of an entity, counted.
//!
//! Owns: the thirteen statuses, and masks of them. Never does: find out anything.

use std::fmt;
use std::ops::{BitAnd, BitOr, BitOrAssign, Not};

use qos_profiles::PolicyId;

use super::InstanceHandle;

/// Lists the statuses: their numbers are the standard's bits.
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
            /// All of them.
            pub const ALL: [StatusKind; 13] = [$(StatusKind::$kind),*];

            /// Its name in the standard.
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
    InconsistentTopic = 0, INCONSISTENT_TOPIC;
    /// A writer has not written an instance within its DEADLINE.
    OfferedDeadlineMissed = 1, OFFERED_DEADLINE_MISSED;
    /// A reader has not got a sample of an instance within its DEADLINE.
    RequestedDeadlineMissed = 2, REQUESTED_DEADLINE_MISSED;
    /// A reader requests more than a writer offers: the writer's side.
    OfferedIncompatibleQos = 5, OFFERED_INCOMPATIBLE_QOS;
    /// A reader requests more than a writer offers: the reader's side.
    RequestedIncompatibleQos = 6, REQUESTED_INCOMPATIBLE_QOS;
    /// A sample never came to a reader.
    SampleLost = 7, SAMPLE_LOST;
    /// A sample found no room within a reader's RESOURCE_LIMITS.
    SampleRejected = 8, SAMPLE_REJECTED;
    /// Some reader of a subscriber has data.
    DataOnReaders = 9, DATA_ON_READERS;
    /// A reader has data.
    DataAvailable = 10, DATA_AVAILABLE;
    /// A writer has not said within its LIVELINESS that it is alive.
    LivelinessLost = 11, LIVELINESS_LOST;
    /// A reader's writers came to life, or are alive no more.
    LivelinessChanged = 12, LIVELINESS_CHANGED;
    /// A writer was matched with a reader, or is no more.
    PublicationMatched = 13, PUBLICATION_MATCHED;
    /// A reader was matched with a writer, or is no more.
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
    /// All of them.
    pub const ALL: StatusMask = StatusMask(0x7fe7);

    /// Whether there is none in it.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether a status is in it.
    pub const fn contains(self, kind: StatusKind) -> bool {
        self.0 & kind as u32 != 0
    }

    /// Those in it, in the order of their bits.
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

/// A status: counts, and what the last event was about. Reading it sets the changes back.
pub(crate) trait Status: Clone {
    /// It was read.
    fn settle(&mut self);
}

/// A status with a total, its change, and more.
macro_rules! counted {
    ($($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $ty:ty,)* } $(settles $($change:ident),*)?;)*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, PartialEq, Eq, Debug, Default)]
            #[non_exhaustive]
            pub struct $name {
                /// How often it has happened.
                pub total_count: u64,
                /// How often since the status was last read.
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

/// How often a policy was the reason.
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
    /// How many endpoints were incompatible by it.
    pub count: u64,
}

counted! {
    /// INCONSISTENT_TOPIC: endpoints of others that mean something else by the name of this topic.
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
        /// What is different about the last one, and what to do.
        last_reason: Option<String>,
    };
    /// OFFERED_DEADLINE_MISSED: a writer was to write an instance, and has not.
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
        /// The instance of the last time.
        last_instance_handle: Option<InstanceHandle>,
    };
    /// REQUESTED_DEADLINE_MISSED: a reader was to get a sample of an instance, and has not.
    ///
    /// ```
    /// # use dds_api::prelude::*;
    /// # #[derive(DdsType, Clone, Debug, Default)]
    /// # struct Track { #[dds(key)] id: u32, height: f64 }
    /// # fn example(reader: &DataReader<Track>) -> DdsResult<()> {
    /// let status = reader.requested_deadline_missed_status();
    /// println!("{} deadlines missed since it was last asked", status.total_count_change);
    /// # Ok(())
    /// # }
    /// ```
    RequestedDeadlineMissedStatus {
        /// The instance of the last time.
        last_instance_handle: Option<InstanceHandle>,
    };
    /// SAMPLE_LOST: samples of matched writers that a best-effort reader did not get.
    ///
    /// ```
    /// # use dds_api::prelude::*;
    /// # #[derive(DdsType, Clone, Debug, Default)]
    /// # struct Track { #[dds(key)] id: u32, height: f64 }
    /// # fn example(reader: &DataReader<Track>) -> DdsResult<()> {
    /// let status = reader.sample_lost_status();
    /// println!("{} samples lost, {} since it was last asked", status.total_count, status.total_count_change);
    /// # Ok(())
    /// # }
    /// ```
    SampleLostStatus {};
    /// OFFERED_INCOMPATIBLE_QOS and REQUESTED_INCOMPATIBLE_QOS: readers that request more than a writer offers, or writers
    /// that offer less than a reader requests.
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
        /// The policy of the last one, the first of them if there were several.
        last_policy_id: Option<PolicyId>,
        /// How often each policy was a reason.
        policies: Vec<QosPolicyCount>,
        /// The values of the last one, and the rule between them.
        last_reason: Option<String>,
    };
    /// LIVELINESS_LOST: a writer has not said in time that it is alive.
    ///
    /// ```
    /// # use dds_api::prelude::*;
    /// # #[derive(DdsType, Clone, Debug, Default)]
    /// # struct Track { #[dds(key)] id: u32, height: f64 }
    /// # fn example(writer: &DataWriter<Track>) -> DdsResult<()> {
    /// println!("said too late that it is alive: {} times", writer.liveliness_lost_status().total_count);
    /// # Ok(())
    /// # }
    /// ```
    LivelinessLostStatus {};
    /// PUBLICATION_MATCHED: readers that get what a writer writes.
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
        /// How many there are now.
        current_count: u64,
        /// How many more or less since the status was last read.
        current_count_change: i64,
        /// The last one that came or went.
        last_subscription_handle: Option<InstanceHandle>,
    } settles current_count_change;
    /// SUBSCRIPTION_MATCHED: writers whose samples a reader gets.
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
        /// How many there are now.
        current_count: u64,
        /// How many more or less since the status was last read.
        current_count_change: i64,
        /// The last one that came or went.
        last_publication_handle: Option<InstanceHandle>,
    } settles current_count_change;
}

/// LIVELINESS_CHANGED: writers of a reader that are alive, and that are not.
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
    /// Writers that are matched, and have not said in time that they are alive.
    pub not_alive_count: u64,
    /// How many more or less are alive since the status was last read.
    pub alive_count_change: i64,
    /// How many more or less are not.
    pub not_alive_count_change: i64,
    /// The writer of the last change.
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
