//! Descriptions of participants in files, with all references resolved.
//!
//! Owns: the form of a description. Never does: make one; `resolve` does.

use super::type_text::TypeText;
use crate::xml::error::FilePosition;
use std::error::Error;
use std::fmt;

/// A participant with all its entities. Policies are given by the name of their set, which
/// [`QosProvider::entity`](crate::xml::QosProvider::entity) resolves.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ParticipantDescription {
    /// Full name: `Library::Participant`.
    pub name: String,
    /// Number of the domain.
    pub domain_id: u32,
    /// Set of policies, if one is given.
    pub qos: Option<String>,
    /// Topics of the domain and of the participant.
    pub topics: Vec<TopicDescription>,
    /// Publishers; the one without a name has the writers outside of publishers.
    pub publishers: Vec<GroupDescription>,
    /// Subscribers; the one without a name has the readers outside of subscribers.
    pub subscribers: Vec<GroupDescription>,
    /// Position in the file.
    pub place: FilePosition,
}

/// A topic of a participant.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TopicDescription {
    /// Name of the topic.
    pub name: String,
    /// Name of the type, with modules.
    pub type_name: String,
    /// Set of policies, if one is given.
    pub qos: Option<String>,
}

/// A publisher or subscriber of a participant.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GroupDescription {
    /// Name; `None` for the implicit publisher or subscriber.
    pub name: Option<String>,
    /// Set of policies, if one is given.
    pub qos: Option<String>,
    /// Writers or readers.
    pub endpoints: Vec<EndpointDescription>,
}

/// A writer or reader.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EndpointDescription {
    /// Name within the publisher or subscriber.
    pub name: String,
    /// Name of the topic.
    pub topic: String,
    /// Set of policies, if one is given.
    pub qos: Option<String>,
    /// Content filter of a reader.
    pub filter: Option<FilterDescription>,
}

/// A content filter.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FilterDescription {
    /// Name; without one the reader's name.
    pub name: String,
    /// The expression.
    pub expression: String,
    /// Values of `%0` and so on.
    pub parameters: Vec<String>,
    /// Position in the file, and the path of elements from the root.
    pub place: (FilePosition, String),
}

/// All types in files, with their uses.
pub struct ApplicationTypes<'a> {
    /// Types as IDL text.
    pub text: &'a TypeText,
    /// Types that topics use.
    pub registered: Vec<RegisteredType>,
    /// Filters of readers whose references can be resolved, each with the name of its type.
    pub filters: Vec<(String, FilterDescription)>,
}

/// A type that topics use.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RegisteredType {
    /// Name of the type, with modules.
    pub type_name: String,
    /// Position of the use, and the path of elements from the root.
    pub place: (FilePosition, String),
}

/// Error: no participant has this name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownParticipant {
    /// Requested name.
    pub name: String,
    /// Similar name that was probably meant.
    pub suggestion: Option<String>,
}

impl fmt::Display for UnknownParticipant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "there is no participant `{}`; expected `Library::Participant`", self.name)?;
        match &self.suggestion {
            Some(name) => write!(f, "; did you mean `{name}`?"),
            None => Ok(()),
        }
    }
}

impl Error for UnknownParticipant {}
