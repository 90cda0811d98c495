//! What files say of domains and participants, before a reference is followed.
//!
//! Owns: the parts, and where each stands. Never does: look for one by a name.

use crate::xml::error::{At, Place};
use crate::xml::model::Base;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

/// The most domains, and the most participants, of all files: each may have all that 8 others have.
pub(in crate::xml) const MOST_ROOMS: usize = 256;

/// A type under the name that topics have it by.
pub(super) struct Registered {
    pub(super) name: Box<str>,
    /// The type's own name.
    pub(super) of: Box<str>,
    pub(super) at: At,
}

/// A topic.
pub(super) struct Topic {
    pub(super) name: Box<str>,
    pub(super) registered: Box<str>,
    /// The set of its policies, if something is said of them.
    pub(super) qos: Option<Box<str>>,
    pub(super) at: At,
}

/// What lets samples pass to a reader.
pub(super) struct Filter {
    pub(super) name: Option<Box<str>>,
    pub(super) expression: Box<str>,
    pub(super) parameters: Vec<String>,
    pub(super) at: At,
}

/// A writer or reader.
pub(super) struct Endpoint {
    pub(super) name: Box<str>,
    pub(super) topic: Box<str>,
    pub(super) qos: Option<Box<str>>,
    pub(super) filter: Option<Filter>,
    pub(super) at: At,
}

/// A publisher or subscriber; without a name what stands in none.
#[derive(Default)]
pub(super) struct Group {
    pub(super) name: Option<Box<str>>,
    pub(super) qos: Option<Box<str>>,
    pub(super) endpoints: Vec<Endpoint>,
}

/// A domain or a participant.
pub(in crate::xml) struct Room {
    pub(super) library: Box<str>,
    /// Its name with its library's.
    pub(super) name: String,
    pub(super) base: Option<Base>,
    /// The domain that a participant is of.
    pub(super) domain: Option<Base>,
    pub(super) id: Option<u32>,
    pub(super) qos: Option<Box<str>>,
    pub(super) types: Vec<Registered>,
    pub(super) topics: Vec<Topic>,
    pub(super) publishers: Vec<Group>,
    pub(super) subscribers: Vec<Group>,
    pub(super) file: Arc<str>,
    pub(super) at: At,
    /// The elements from the root to it.
    pub(super) path: Box<str>,
}

impl Room {
    pub(super) fn place(&self, at: At) -> Place {
        Place::new(&self.file, at)
    }
}

/// All that files say of applications.
#[derive(Default)]
pub(in crate::xml) struct Applications {
    pub(super) domains: BTreeMap<String, Room>,
    pub(super) participants: BTreeMap<String, Room>,
}

impl Applications {
    /// Whether there may be no more domains, or participants.
    pub(in crate::xml) fn is_full(&self, is_domain: bool) -> bool {
        let rooms = if is_domain { &self.domains } else { &self.participants };
        rooms.len() >= MOST_ROOMS
    }

    /// Adds a domain or participant; if there is one of its name already, says where that stands.
    pub(in crate::xml) fn add(&mut self, is_domain: bool, room: Room) -> Option<Place> {
        let rooms = if is_domain { &mut self.domains } else { &mut self.participants };
        match rooms.entry(room.name.clone()) {
            Entry::Occupied(other) => Some(other.get().place(other.get().at)),
            Entry::Vacant(place) => {
                place.insert(room);
                None
            }
        }
    }

    /// The names of all participants, with their libraries.
    pub(in crate::xml) fn participant_names(&self) -> Vec<String> {
        self.participants.keys().cloned().collect()
    }
}
