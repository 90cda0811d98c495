//! Standstills: orders that make no progress, since when, and which participants are awaited.
//!
//! Owns: the form in which an application sees a standstill. Never does: detect one.

use std::fmt;
use std::time::Duration;

use super::InstanceHandle;

/// A topic, or the domain itself, that makes no progress because a participant is awaited. See
/// [`DomainParticipant::standstills`](crate::domain::DomainParticipant::standstills).
///
/// ```
/// # use dds_api::prelude::*;
/// # fn example(participant: &DomainParticipant) {
/// for standstill in participant.standstills() {
///     println!("{standstill}");                    // topic `Tracks` stands still for 300 ms: ...
/// }
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standstill {
    /// Name of the topic. `None` if the participants of the domain are agreeing on the membership,
    /// or if the standstill is in a topic without order.
    pub topic: Option<String>,
    /// Duration of the standstill so far.
    pub lasts: Duration,
    /// Awaited participants by their handles, each with the action that is still
    /// missing. A participant that does not answer either is excluded after the
    /// [member timeout](crate::domain::ParticipantConfig::member_timeout).
    pub awaited: Vec<(InstanceHandle, String)>,
}

impl fmt::Display for Standstill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.topic {
            Some(topic) => write!(f, "topic `{topic}`")?,
            None => f.write_str("the domain")?,
        }
        write!(f, " stands still for {} ms", self.lasts.as_millis())?;
        for (index, (participant, what)) in self.awaited.iter().enumerate() {
            let separator = if index == 0 { ":" } else { "," };
            write!(f, "{separator} {participant} {what}")?;
        }
        Ok(())
    }
}
