//! What files say of profiles, before anything is inherited.
//!
//! Owns: libraries, profiles, and the values that each set of policies names itself. Never does:
//! follow a base.

use super::error::{At, Place};
use crate::{EntityKind, Glob, PolicyId, Value};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// A value that a file gives to a field.
pub(super) struct Setting {
    pub(super) policy: PolicyId,
    /// Its place in [`PolicyId::fields`].
    pub(super) field: u8,
    pub(super) at: At,
    pub(super) value: Value,
}

/// A name and a value beyond the policies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Property {
    /// The name: `squall.delivery`.
    pub name: String,
    /// The value.
    pub value: String,
    /// Whether discovery passes it on.
    pub propagate: bool,
}

/// A reference to what values are inherited from.
pub(super) struct Base {
    pub(super) name: Box<str>,
    pub(super) at: At,
}

/// A set of policies as a file has it: those values that it names.
pub(super) struct Entry {
    pub(super) kind: EntityKind,
    /// As the file spells it.
    pub(super) element: &'static str,
    pub(super) name: Option<Box<str>>,
    pub(super) filter: Option<Glob>,
    pub(super) base: Option<Base>,
    pub(super) settings: Vec<Setting>,
    pub(super) properties: Vec<(Property, At)>,
    pub(super) file: Arc<str>,
    pub(super) at: At,
    /// Whether the root around it is `dds`.
    pub(super) in_dds: bool,
    /// The elements around it, if they are those of an application.
    pub(super) path: Option<Box<str>>,
    /// The topic of the entity that it is of, by which filters of its base are chosen.
    pub(super) topic: Option<Box<str>>,
}

impl Entry {
    /// What tells it from others of its kind in a profile.
    pub(super) fn key(&self) -> Key<'_> {
        Key { name: self.name.as_deref(), filter: self.filter.as_ref().map(Glob::as_str) }
    }
}

/// What tells a set of policies from others of its kind in a profile; plain if it is nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) struct Key<'a> {
    pub(super) name: Option<&'a str>,
    pub(super) filter: Option<&'a str>,
}

impl Key<'_> {
    pub(super) fn is_plain(&self) -> bool {
        *self == Key::default()
    }

    /// What stands in brackets in a path.
    pub(super) fn label(&self) -> Option<&str> {
        self.name.or(self.filter)
    }
}

/// A profile as a file has it.
pub(super) struct Profile {
    pub(super) name: Box<str>,
    /// The later one wins.
    pub(super) bases: Vec<Base>,
    /// Whether it stands for all that names no profile.
    pub(super) is_default: bool,
    pub(super) entries: Vec<Entry>,
    pub(super) file: Arc<str>,
    pub(super) at: At,
    /// Whether the root around it is `dds`.
    pub(super) in_dds: bool,
}

impl Profile {
    /// Its own set with this key.
    pub(super) fn entry(&self, kind: EntityKind, key: Key<'_>) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.kind == kind && entry.key() == key)
    }

    /// Its own set with this name.
    pub(super) fn named(&self, kind: EntityKind, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.kind == kind && entry.name.as_deref() == Some(name))
    }
}

/// What a name in a library stands for.
#[derive(Clone, Copy)]
pub(super) enum Named {
    /// A profile, by its place.
    Profile(usize),
    /// Sets of policies outside of profiles, one of each kind at most, by their places.
    Entries([Option<usize>; 6]),
}

/// What is in a library; of several files, if they name the same.
#[derive(Default)]
pub(super) struct Library {
    pub(super) profiles: Vec<Profile>,
    pub(super) entries: Vec<Entry>,
    pub(super) names: HashMap<Box<str>, Named>,
}

impl Library {
    pub(super) fn profile(&self, name: &str) -> Option<&Profile> {
        match self.names.get(name)? {
            Named::Profile(at) => self.profiles.get(*at),
            Named::Entries(_) => None,
        }
    }

    pub(super) fn entry(&self, kind: EntityKind, name: &str) -> Option<&Entry> {
        match self.names.get(name)? {
            Named::Entries(places) => self.entries.get(places[kind as usize]?),
            Named::Profile(_) => None,
        }
    }

    /// Where what has a name already stands that a profile, or a set of a kind, would need.
    pub(super) fn taken(&self, name: &str, set: Option<EntityKind>) -> Option<Place> {
        match (self.names.get(name)?, set) {
            (Named::Entries(places), Some(kind)) => {
                let own = places[kind as usize]?;
                Some(self.place(Named::Entries([Some(own); 6])))
            }
            (named, _) => Some(self.place(*named)),
        }
    }

    /// Adds a profile, whose name is not taken.
    pub(super) fn add_profile(&mut self, profile: Profile) {
        self.names.insert(profile.name.clone(), Named::Profile(self.profiles.len()));
        self.profiles.push(profile);
    }

    /// Adds a set of policies under a name that is not taken.
    pub(super) fn add_entry(&mut self, name: &str, entry: Entry) {
        let named = self.names.entry(name.into()).or_insert(Named::Entries([None; 6]));
        if let Named::Entries(places) = named {
            places[entry.kind as usize] = Some(self.entries.len());
            self.entries.push(entry);
        }
    }

    fn place(&self, named: Named) -> Place {
        match named {
            Named::Profile(at) => Place::new(&self.profiles[at].file, self.profiles[at].at),
            Named::Entries(places) => {
                let first = places.iter().flatten().next().expect("a name stands for something");
                Place::new(&self.entries[*first].file, self.entries[*first].at)
            }
        }
    }
}

/// All libraries, by their names; that of what stands outside of libraries is empty.
pub(super) type Libraries = BTreeMap<Box<str>, Library>;

/// The name of something in a library, as references have it.
pub(super) fn full_name(library: &str, name: &str) -> String {
    if library.is_empty() { name.to_owned() } else { format!("{library}::{name}") }
}
