//! Participants as files describe them, with every reference followed.
//!
//! Owns: the form of a description. Never does: make one; that is resolve's part.

use super::type_text::TypeText;
use crate::xml::error::Place;
use std::error::Error;
use std::fmt;

/// A participant with all its entities. Policies are named by the set that they are in, which
/// [`QosProvider::entity`](crate::xml::QosProvider::entity) knows.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ParticipantDescription {
    /// Its name: `Library::Participant`.
    pub name: String,
    /// The number of its domain.
    pub domain_id: u32,
    /// Its policies, if something is said of them.
    pub qos: Option<String>,
    /// Its domain's topics and its own.
    pub topics: Vec<TopicDescription>,
    /// Its publishers; without a name those writers that are in none.
    pub publishers: Vec<GroupDescription>,
    /// Its subscribers; without a name those readers that are in none.
    pub subscribers: Vec<GroupDescription>,
    /// Where it stands.
    pub place: Place,
}

/// A topic of a participant.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TopicDescription {
    /// Its name.
    pub name: String,
    /// The name of its type, with modules.
    pub type_name: String,
    /// Its policies, if something is said of them.
    pub qos: Option<String>,
}

/// A publisher or subscriber of a participant.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GroupDescription {
    /// Its name; none: the publisher or subscriber that nothing is said of.
    pub name: Option<String>,
    /// Its policies, if something is said of them.
    pub qos: Option<String>,
    /// Its writers or readers.
    pub endpoints: Vec<EndpointDescription>,
}

/// A writer or reader.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EndpointDescription {
    /// Its name in its publisher or subscriber.
    pub name: String,
    /// The name of its topic.
    pub topic: String,
    /// Its policies, if something is said of them.
    pub qos: Option<String>,
    /// What samples have to pass, of a reader.
    pub filter: Option<FilterDescription>,
}

/// What samples have to pass.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FilterDescription {
    /// Its name; without one it has the reader's.
    pub name: String,
    /// The expression.
    pub expression: String,
    /// The values of `%0` and so on.
    pub parameters: Vec<String>,
    /// Where it stands, and the elements from the root to there.
    pub place: (Place, String),
}

/// All that files say of types, and who refers to them.
pub struct ApplicationTypes<'a> {
    /// The types, as IDL.
    pub text: &'a TypeText,
    /// Those that topics have.
    pub registered: Vec<RegisteredType>,
    /// The filters of readers whose references lead somewhere, each with the name of the type that it is for.
    pub filters: Vec<(String, FilterDescription)>,
}

/// A type that topics have.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RegisteredType {
    /// The name of the type, with modules.
    pub type_name: String,
    /// Where that is said, and the elements from the root to there.
    pub place: (Place, String),
}

/// There is no participant of this name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownParticipant {
    /// The name that was asked for.
    pub name: String,
    /// The name that was probably meant.
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
