//! An order that stands still: since when, and who is awaited.
//!
//! Owns: how that is told to an application. Never does: find it out.

use std::fmt;
use std::time::Duration;

use super::InstanceHandle;

/// A topic, or the domain itself, in which nothing goes on because a participant is awaited. See
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
    /// The name of the topic; `None` if the participants of the domain agree on who is there, or a topic that has no order
    /// is meant.
    pub topic: Option<String>,
    /// How long it has lasted.
    pub lasts: Duration,
    /// The participants that are awaited, by the handles of their participants, and what each has not done. A participant that
    /// does not answer either is left out after the
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
