//! Profiles in files, before inheritance.
//!
//! Owns: libraries, profiles, and the values that each set of policies names itself. Never does:
//! resolve a base.

use super::error::{FilePosition, LineColumn};
use crate::{EntityKind, Glob, PolicyId, Value};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// A value that a file gives to a field.
#[derive(Clone)]
pub(super) struct Setting {
    pub(super) policy: PolicyId,
    /// Index in [`PolicyId::fields`].
    pub(super) field: u8,
    pub(super) at: LineColumn,
    pub(super) value: Value,
}

/// A name and a value beyond the policies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Property {
    /// Name: `squall.delivery`.
    pub name: String,
    /// Value of the property.
    pub value: String,
    /// Whether discovery distributes the property.
    pub propagate: bool,
}

/// A property in a file, with its position.
pub(super) struct PropertySetting {
    pub(super) property: Property,
    pub(super) at: LineColumn,
}

/// A reference to a base.
#[derive(Clone)]
pub(super) struct Base {
    pub(super) name: Box<str>,
    pub(super) at: LineColumn,
}

/// A set of policies in a file, with the values that it names.
pub(super) struct PolicySet {
    pub(super) kind: EntityKind,
    /// Element name in the file's spelling.
    pub(super) element: &'static str,
    pub(super) name: Option<Box<str>>,
    pub(super) filter: Option<Glob>,
    /// Bases; a later one takes precedence. Without any, the bases of the profile count.
    pub(super) bases: Vec<Base>,
    pub(super) settings: Vec<Setting>,
    pub(super) properties: Vec<PropertySetting>,
    pub(super) file: Arc<str>,
    pub(super) at: LineColumn,
    /// Whether the enclosing root is `dds`.
    pub(super) in_dds: bool,
    /// Path of enclosing elements, if they belong to an application.
    pub(super) path: Option<Box<str>>,
    /// Topic of the entity, which selects among the filters of its base.
    pub(super) topic: Option<Box<str>>,
}

impl PolicySet {
    /// Returns the key among the sets of its kind in a profile.
    pub(super) fn key(&self) -> PolicySetKey<'_> {
        PolicySetKey { name: self.name.as_deref(), filter: self.filter.as_ref().map(Glob::as_str) }
    }

    /// Returns a plain set of the same position in its file, with other values.
    pub(super) fn beside(&self, kind: EntityKind, settings: Vec<Setting>) -> PolicySet {
        PolicySet {
            kind,
            element: kind.element(),
            name: None,
            filter: None,
            bases: Vec::new(),
            settings,
            properties: Vec::new(),
            file: Arc::clone(&self.file),
            at: self.at,
            in_dds: self.in_dds,
            path: self.path.clone(),
            topic: None,
        }
    }
}

/// Key of a set of policies among those of its kind in a profile; plain if it has neither name
/// nor filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) struct PolicySetKey<'a> {
    pub(super) name: Option<&'a str>,
    pub(super) filter: Option<&'a str>,
}

impl PolicySetKey<'_> {
    pub(super) fn is_plain(&self) -> bool {
        *self == PolicySetKey::default()
    }

    /// Returns the text in brackets in a path.
    pub(super) fn label(&self) -> Option<&str> {
        self.name.or(self.filter)
    }
}

/// A profile in a file.
pub(super) struct Profile {
    pub(super) name: Box<str>,
    /// Bases; a later one takes precedence.
    pub(super) bases: Vec<Base>,
    /// Whether the profile applies where no profile is named.
    pub(super) is_default: bool,
    pub(super) entries: Vec<PolicySet>,
    pub(super) file: Arc<str>,
    pub(super) at: LineColumn,
    /// Whether the enclosing root is `dds`.
    pub(super) in_dds: bool,
    /// Whether the profile is one of Fast DDS: the profiles of one name, of all kinds of entities.
    pub(super) is_of_fast_dds: bool,
}

impl Profile {
    /// Returns the profile's own set with this key.
    pub(super) fn entry(&self, kind: EntityKind, key: PolicySetKey<'_>) -> Option<&PolicySet> {
        self.entries.iter().find(|entry| entry.kind == kind && entry.key() == key)
    }

    /// Returns the profile's own set with this name.
    pub(super) fn named(&self, kind: EntityKind, name: &str) -> Option<&PolicySet> {
        self.entries.iter().find(|entry| entry.kind == kind && entry.name.as_deref() == Some(name))
    }
}

/// Item that a name in a library refers to.
#[derive(Clone, Copy)]
pub(super) enum LibraryItem {
    /// A profile, by its index.
    Profile(usize),
    /// Sets of policies outside of profiles, at most one of each kind, by their indices.
    Entries([Option<usize>; 6]),
}

/// Contents of a library, merged from all files that name it.
#[derive(Default)]
pub(super) struct Library {
    pub(super) profiles: Vec<Profile>,
    pub(super) entries: Vec<PolicySet>,
    pub(super) names: HashMap<Box<str>, LibraryItem>,
}

impl Library {
    pub(super) fn profile(&self, name: &str) -> Option<&Profile> {
        match self.names.get(name)? {
            LibraryItem::Profile(at) => self.profiles.get(*at),
            LibraryItem::Entries(_) => None,
        }
    }

    pub(super) fn entry(&self, kind: EntityKind, name: &str) -> Option<&PolicySet> {
        match self.names.get(name)? {
            LibraryItem::Entries(positions) => self.entries.get(positions[kind as usize]?),
            LibraryItem::Profile(_) => None,
        }
    }

    /// Returns the profile of Fast DDS with this name, for further sets.
    pub(super) fn fast_profile(&mut self, name: &str) -> Option<&mut Profile> {
        self.profiles.iter_mut().find(|profile| profile.is_of_fast_dds && &*profile.name == name)
    }

    /// Returns the position of an existing item whose name a new profile, or a new set of a kind,
    /// would need.
    pub(super) fn taken(&self, name: &str, set: Option<EntityKind>) -> Option<FilePosition> {
        match (self.names.get(name)?, set) {
            (LibraryItem::Entries(positions), Some(kind)) => {
                let own = positions[kind as usize]?;
                Some(self.place(LibraryItem::Entries([Some(own); 6])))
            }
            (named, _) => Some(self.place(*named)),
        }
    }

    /// Adds a profile, whose name must be free.
    pub(super) fn add_profile(&mut self, profile: Profile) {
        self.names.insert(profile.name.clone(), LibraryItem::Profile(self.profiles.len()));
        self.profiles.push(profile);
    }

    /// Adds a set of policies under a free name.
    pub(super) fn add_entry(&mut self, name: &str, entry: PolicySet) {
        let named = self.names.entry(name.into()).or_insert(LibraryItem::Entries([None; 6]));
        if let LibraryItem::Entries(positions) = named {
            positions[entry.kind as usize] = Some(self.entries.len());
            self.entries.push(entry);
        }
    }

    fn place(&self, named: LibraryItem) -> FilePosition {
        match named {
            LibraryItem::Profile(at) => {
                FilePosition::new(&self.profiles[at].file, self.profiles[at].at)
            }
            LibraryItem::Entries(positions) => {
                let first =
                    positions.iter().flatten().next().expect("a name has at least one entry");
                FilePosition::new(&self.entries[*first].file, self.entries[*first].at)
            }
        }
    }
}

/// All libraries by name; the name is empty for items outside of libraries.
pub(super) type Libraries = BTreeMap<Box<str>, Library>;

/// Returns the name of an item in a library in the form of references.
pub(super) fn full_name(library: &str, name: &str) -> String {
    if library.is_empty() { name.to_owned() } else { format!("{library}::{name}") }
}
