//! Domains and participants in files, before references are resolved.
//!
//! Owns: the parts, and the position of each. Never does: look for one by a name.

use crate::xml::error::{FilePosition, LineColumn};
use crate::xml::model::Base;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

/// Maximum number of domains, and of participants, in all files. Each of them may have all contents
/// that 8 others have.
pub(in crate::xml) const MOST_ROOMS: usize = 256;

/// A type under the name by which topics refer to it.
pub(super) struct Registered {
    pub(super) name: Box<str>,
    /// Own name of the type.
    pub(super) of: Box<str>,
    pub(super) at: LineColumn,
}

/// A topic.
pub(super) struct Topic {
    pub(super) name: Box<str>,
    pub(super) registered: Box<str>,
    /// Set of policies, if one is given.
    pub(super) qos: Option<Box<str>>,
    pub(super) at: LineColumn,
}

/// Content filter of a reader.
pub(super) struct Filter {
    pub(super) name: Option<Box<str>>,
    pub(super) expression: Box<str>,
    pub(super) parameters: Vec<String>,
    pub(super) at: LineColumn,
}

/// A writer or reader.
pub(super) struct Endpoint {
    pub(super) name: Box<str>,
    pub(super) topic: Box<str>,
    pub(super) qos: Option<Box<str>>,
    pub(super) filter: Option<Filter>,
    pub(super) at: LineColumn,
}

/// A publisher or subscriber; the one without a name has the endpoints outside of both.
#[derive(Default)]
pub(super) struct Group {
    pub(super) name: Option<Box<str>>,
    pub(super) qos: Option<Box<str>>,
    pub(super) endpoints: Vec<Endpoint>,
}

/// A domain or a participant.
pub(in crate::xml) struct DomainOrParticipant {
    pub(super) library: Box<str>,
    /// Full name, with the library.
    pub(super) name: String,
    pub(super) base: Option<Base>,
    /// Domain of a participant.
    pub(super) domain: Option<Base>,
    pub(super) id: Option<u32>,
    pub(super) qos: Option<Box<str>>,
    pub(super) types: Vec<Registered>,
    pub(super) topics: Vec<Topic>,
    pub(super) publishers: Vec<Group>,
    pub(super) subscribers: Vec<Group>,
    pub(super) file: Arc<str>,
    pub(super) at: LineColumn,
    /// Path of elements from the root.
    pub(super) path: Box<str>,
}

impl DomainOrParticipant {
    pub(super) fn place(&self, at: LineColumn) -> FilePosition {
        FilePosition::new(&self.file, at)
    }
}

/// All domains and participants in files.
#[derive(Default)]
pub(in crate::xml) struct Applications {
    pub(super) domains: BTreeMap<String, DomainOrParticipant>,
    pub(super) participants: BTreeMap<String, DomainOrParticipant>,
}

impl Applications {
    /// Whether the maximum number of domains, or participants, is reached.
    pub(in crate::xml) fn is_full(&self, is_domain: bool) -> bool {
        let owners = if is_domain { &self.domains } else { &self.participants };
        owners.len() >= MOST_ROOMS
    }

    /// Adds a domain or participant; if its name exists already, returns the position of the
    /// other one.
    pub(in crate::xml) fn add(
        &mut self,
        is_domain: bool,
        owner: DomainOrParticipant,
    ) -> Option<FilePosition> {
        let owners = if is_domain { &mut self.domains } else { &mut self.participants };
        match owners.entry(owner.name.clone()) {
            Entry::Occupied(other) => Some(other.get().place(other.get().at)),
            Entry::Vacant(place) => {
                place.insert(owner);
                None
            }
        }
    }

    /// Returns the names of all participants, with their libraries.
    pub(in crate::xml) fn participant_names(&self) -> Vec<String> {
        self.participants.keys().cloned().collect()
    }
}
