//! The OMG return codes, each with a sentence that says what happened and what to do.

use std::fmt;

/// Result of a DDS call.
///
/// ```
/// use dds_api::prelude::*;
///
/// fn leave(participant: DomainParticipant) -> DdsResult<()> {
///     participant.delete_contained_entities()
/// }
/// ```
pub type DdsResult<T> = Result<T, DdsError>;

/// The return codes of the standard. Success is `Ok`.
///
/// ```
/// # use dds_api::prelude::*;
/// # #[derive(DdsType, Clone, Debug, Default)]
/// # struct Track { #[dds(key)] id: u32, height: f64 }
/// # fn example(writer: &DataWriter<Track>) -> DdsResult<()> {
/// match writer.write(&Track { id: 7, height: 3000.0 }) {
///     Ok(()) => {}
///     Err(DdsError::Timeout(why)) => eprintln!("a reader is too slow: {why}"),
///     Err(other) => return Err(other),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum DdsError {
    /// An error that has no code of its own.
    #[doc(alias = "RETCODE_ERROR")]
    Error(String),
    /// An argument is wrong.
    #[doc(alias = "RETCODE_BAD_PARAMETER")]
    BadParameter(String),
    /// The entity is not enabled yet.
    #[doc(alias = "RETCODE_NOT_ENABLED")]
    NotEnabled(String),
    /// The call does not fit the entity's state.
    #[doc(alias = "RETCODE_PRECONDITION_NOT_MET")]
    PreconditionNotMet(String),
    /// Policies contradict each other.
    #[doc(alias = "RETCODE_INCONSISTENT_POLICY")]
    InconsistentPolicy(String),
    /// A policy may no longer change.
    #[doc(alias = "RETCODE_IMMUTABLE_POLICY")]
    ImmutablePolicy(String),
    /// The call is not allowed on this entity: the entity is the participant's own, or made
    /// of others.
    #[doc(alias = "RETCODE_ILLEGAL_OPERATION")]
    IllegalOperation(String),
    /// Memory, descriptors or another limit is exhausted.
    #[doc(alias = "RETCODE_OUT_OF_RESOURCES")]
    OutOfResources(String),
    /// The entity is deleted.
    #[doc(alias = "RETCODE_ALREADY_DELETED")]
    AlreadyDeleted(String),
    /// The awaited event did not happen in time.
    #[doc(alias = "RETCODE_TIMEOUT")]
    Timeout(String),
    /// The participant is no longer a member of its domain's group, against its will: the other
    /// members continue without it. Every later call on the participant and its entities returns
    /// this error.
    Isolated(String),
}

impl DdsError {
    fn parts(&self) -> (&'static str, &str) {
        match self {
            DdsError::Error(text) => ("error", text),
            DdsError::BadParameter(text) => ("bad parameter", text),
            DdsError::NotEnabled(text) => ("not enabled", text),
            DdsError::PreconditionNotMet(text) => ("precondition not met", text),
            DdsError::InconsistentPolicy(text) => ("inconsistent policy", text),
            DdsError::ImmutablePolicy(text) => ("immutable policy", text),
            DdsError::IllegalOperation(text) => ("illegal operation", text),
            DdsError::OutOfResources(text) => ("out of resources", text),
            DdsError::AlreadyDeleted(text) => ("already deleted", text),
            DdsError::Timeout(text) => ("timeout", text),
            DdsError::Isolated(text) => ("isolated", text),
        }
    }
}

impl fmt::Display for DdsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // The code says no more than that this is an error, which programs say themselves.
            DdsError::Error(text) => f.write_str(text),
            _ => {
                let (code, text) = self.parts();
                write!(f, "{code}: {text}")
            }
        }
    }
}

/// Form of [`Display`](fmt::Display), because programs whose `main` returns a [`DdsResult`] print
/// this form, and so does `unwrap`.
impl fmt::Debug for DdsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for DdsError {}

#[cfg(test)]
mod tests {
    use super::DdsError;

    #[test]
    fn debug_form_is_the_sentence_for_users() {
        let error = DdsError::Timeout("no room: \"a\"".to_owned());
        assert_eq!(format!("{error:?}"), "timeout: no room: \"a\"");
        assert_eq!(format!("{error:?}"), error.to_string());
        assert_eq!(DdsError::Error("no link".to_owned()).to_string(), "no link");
    }
}
