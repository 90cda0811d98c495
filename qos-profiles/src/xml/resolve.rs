//! What profiles inherit.
//!
//! Owns: to what a base's name refers, and the order in which values override each other. Never does:
//! look at a value.
//!
//! A set of policies inherits from its own base if it names one, else from the set with the same name
//! and filter in its profile's bases, else from their plain set. Every walk has a bounded number of
//! steps, so that no file, however its profiles refer to each other, keeps anyone busy.

use super::model::{Entry, Key, Libraries, Library, Profile, full_name};
use crate::{EntityKind, Glob};

/// The longest chain of bases.
pub(super) const LONGEST_CHAIN: usize = 32;
/// The most sets and profiles that one set inherits from, on all ways.
pub(super) const MOST_STEPS: usize = 128;
/// The same where values are looked up in files that were found sound. It takes fewer to look up a profile without such a set: of
/// its at most 128 bases on all ways each has a set that takes at most 128 steps.
const MOST_LOOKED_UP: usize = 1 << 15;
/// How long a way is at most in such a file: 33 profiles of which 32 have no such set, and the chain of the set that they lead to are
/// fewer.
const LONGEST_LOOKED_UP: usize = 128;

/// A profile, and the library that it is in.
#[derive(Clone, Copy)]
pub(super) struct In<'a> {
    pub(super) library: &'a str,
    pub(super) profile: Option<&'a Profile>,
}

/// A set of policies, and where it is.
#[derive(Clone, Copy)]
pub(super) struct Found<'a> {
    pub(super) place: In<'a>,
    pub(super) entry: &'a Entry,
}

impl Found<'_> {
    /// Its name in references.
    pub(super) fn name(&self) -> String {
        let own = self.entry.name.as_deref();
        match (self.place.profile, own) {
            (Some(profile), None) => full_name(self.place.library, &profile.name),
            (Some(profile), Some(own)) => {
                format!("{}::{own}", full_name(self.place.library, &profile.name))
            }
            (None, own) => full_name(self.place.library, own.unwrap_or_default()),
        }
    }
}

/// What the name of a base stands for.
pub(super) enum Target<'a> {
    Profile(&'a str, &'a Profile),
    Set(Found<'a>),
}

/// Why there is no way to the values.
pub(super) enum Trouble {
    /// A base is not there; that is told where it is named.
    Unknown,
    Cycle(Vec<String>),
    TooLong,
}

fn library<'a>(libraries: &'a Libraries, name: &str) -> Option<(&'a str, &'a Library)> {
    libraries.get_key_value(name).map(|(name, library)| (&**name, library))
}

/// To which profile a name refers that stands in a library.
pub(super) fn find_profile<'a>(
    libraries: &'a Libraries,
    from: &str,
    name: &str,
) -> Option<(&'a str, &'a Profile)> {
    let (of, name) = name.split_once("::").unwrap_or((from, name));
    let (of, library) = library(libraries, of)?;
    Some((of, library.profile(name)?))
}

/// To what a name refers that stands in a library, and perhaps in a profile.
pub(super) fn find<'a>(
    libraries: &'a Libraries,
    from: In<'a>,
    kind: EntityKind,
    name: &str,
) -> Option<Target<'a>> {
    let set = |place, entry| Target::Set(Found { place, entry });
    let parts: Vec<&str> = name.split("::").collect();
    if let [name] = parts[..]
        && let Some(entry) = from.profile.and_then(|profile| profile.named(kind, name))
    {
        return Some(set(from, entry));
    }
    if let Some((of, profile)) = find_profile(libraries, from.library, name) {
        return Some(Target::Profile(of, profile));
    }
    let in_library = |of: &str, name: &str| {
        let (of, library) = library(libraries, of)?;
        Some(set(In { library: of, profile: None }, library.entry(kind, name)?))
    };
    let in_profile = |of: &str, profile: &str, name: &str| {
        let (of, library) = library(libraries, of)?;
        let profile = library.profile(profile)?;
        Some(set(In { library: of, profile: Some(profile) }, profile.named(kind, name)?))
    };
    match parts[..] {
        [name] => in_library(from.library, name),
        [of, name] => in_library(of, name).or_else(|| in_profile(from.library, of, name)),
        [of, profile, name] => in_profile(of, profile, name),
        _ => None,
    }
}

/// A place on the way to what a set inherits from.
#[derive(Clone, Copy)]
enum Stop<'a> {
    /// A profile, in which a set is looked for.
    Profile(&'a str, &'a Profile),
    Set(Found<'a>),
}

impl Stop<'_> {
    /// Whether it is the same set. A way that leads back through profiles alone is found where those are looked at, and ends here
    /// for it is too long.
    fn is(&self, other: &Stop<'_>) -> bool {
        match (self, other) {
            (Stop::Set(own), Stop::Set(other)) => std::ptr::eq(own.entry, other.entry),
            _ => false,
        }
    }

    fn name(&self) -> String {
        match self {
            Stop::Profile(library, profile) => full_name(library, &profile.name),
            Stop::Set(found) => found.name(),
        }
    }
}

/// A walk to all that a set inherits from.
pub(super) struct Walk<'a> {
    libraries: &'a Libraries,
    way: Vec<Stop<'a>>,
    steps: usize,
    /// How many steps there may be, and how long the way.
    most: (usize, usize),
    /// What was found, the furthest first.
    pub(super) found: Vec<Found<'a>>,
}

impl<'a> Walk<'a> {
    pub(super) fn new(libraries: &'a Libraries) -> Self {
        // A profile and its set are two steps of one link.
        let most = (MOST_STEPS, 2 * LONGEST_CHAIN + 1);
        Self { libraries, way: Vec::new(), steps: 0, most, found: Vec::new() }
    }

    /// In files that were found sound.
    fn in_sound(libraries: &'a Libraries) -> Self {
        Self { most: (MOST_LOOKED_UP, LONGEST_LOOKED_UP), ..Self::new(libraries) }
    }

    /// Goes to a place, if the way has not led through it already.
    fn enter(&mut self, stop: Stop<'a>) -> Result<(), Trouble> {
        if let Some(first) = self.way.iter().position(|other| other.is(&stop)) {
            let mut chain: Vec<String> = self.way[first..].iter().map(Stop::name).collect();
            chain.push(stop.name());
            chain.dedup();
            return Err(Trouble::Cycle(chain));
        }
        self.steps += 1;
        if self.steps > self.most.0 || self.way.len() >= self.most.1 {
            return Err(Trouble::TooLong);
        }
        self.way.push(stop);
        Ok(())
    }

    /// Goes to a set and to all that it inherits from.
    pub(super) fn set(&mut self, found: Found<'a>) -> Result<(), Trouble> {
        self.enter(Stop::Set(found))?;
        let kind = found.entry.kind;
        if let Some(base) = &found.entry.base {
            match find(self.libraries, found.place, kind, &base.name).ok_or(Trouble::Unknown)? {
                Target::Set(base) => self.set(base)?,
                Target::Profile(library, profile) => {
                    let place = In { library, profile: Some(profile) };
                    let key = key_for(self.libraries, place, kind, found.entry.topic.as_deref());
                    self.profile(library, profile, kind, key)?;
                }
            }
        } else if let Some(profile) = found.place.profile {
            self.bases(found.place.library, profile, kind, found.entry.key())?;
        }
        self.way.pop();
        self.found.push(found);
        Ok(())
    }

    /// The set with this key in a profile or what it inherits from; whether there is one.
    fn profile(
        &mut self,
        library: &'a str,
        profile: &'a Profile,
        kind: EntityKind,
        key: Key<'a>,
    ) -> Result<bool, Trouble> {
        self.enter(Stop::Profile(library, profile))?;
        let there = match profile.entry(kind, key) {
            Some(entry) => {
                self.set(Found { place: In { library, profile: Some(profile) }, entry })?;
                true
            }
            None => self.exact(library, profile, kind, key)?,
        };
        self.way.pop();
        Ok(there)
    }

    /// What a set of a profile has from the profile's bases: from their sets with its key, or else from
    /// their plain ones.
    fn bases(
        &mut self,
        library: &'a str,
        profile: &'a Profile,
        kind: EntityKind,
        key: Key<'a>,
    ) -> Result<(), Trouble> {
        if self.exact(library, profile, kind, key)? {
            return Ok(());
        }
        for base in &profile.bases {
            let (of, base) = self.base(library, &base.name)?;
            let place = In { library: of, profile: Some(base) };
            self.profile(of, base, kind, plain_key(self.libraries, place, kind))?;
        }
        Ok(())
    }

    /// A base by its name, as it is written in this library, and the library it is in.
    fn base(&self, library: &'a str, name: &str) -> Result<(&'a str, &'a Profile), Trouble> {
        find_profile(self.libraries, library, name).ok_or(Trouble::Unknown)
    }

    fn exact(
        &mut self,
        library: &'a str,
        profile: &'a Profile,
        kind: EntityKind,
        key: Key<'a>,
    ) -> Result<bool, Trouble> {
        let mut there = false;
        for base in &profile.bases {
            let (of, base) = self.base(library, &base.name)?;
            there |= self.profile(of, base, kind, key)?;
        }
        Ok(there)
    }
}

/// All that a profile's set with this key consists of, the furthest first; empty if there is none.
/// Only of files that were found sound.
pub(super) fn lineage<'a>(
    libraries: &'a Libraries,
    place: In<'a>,
    kind: EntityKind,
    key: Key<'a>,
) -> Vec<Found<'a>> {
    let mut walk = Walk::in_sound(libraries);
    let Some(profile) = place.profile else { return Vec::new() };
    match walk.profile(place.library, profile, kind, key) {
        Ok(_) => walk.found,
        Err(_) => Vec::new(),
    }
}

/// All that a set consists of, the furthest first. Only of files that were found sound.
pub(super) fn lineage_of_set<'a>(libraries: &'a Libraries, found: Found<'a>) -> Vec<Found<'a>> {
    let mut walk = Walk::in_sound(libraries);
    match walk.set(found) {
        Ok(()) => walk.found,
        Err(_) => Vec::new(),
    }
}

/// The keys of a kind's sets in a profile and in what it inherits from: its own in their order, then
/// those of its bases, of which the later one comes first.
pub(super) fn keys<'a>(libraries: &'a Libraries, place: In<'a>, kind: EntityKind) -> Vec<Key<'a>> {
    let mut keys = Vec::new();
    let mut seen = std::collections::HashSet::new();
    let mut open: Vec<(&str, &Profile)> =
        place.profile.map(|profile| (place.library, profile)).into_iter().collect();
    let mut steps = 0;
    while let Some((library, profile)) = open.pop() {
        steps += 1;
        if steps > MOST_STEPS {
            break;
        }
        for entry in profile.entries.iter().filter(|entry| entry.kind == kind) {
            if seen.insert((entry.key().name, entry.key().filter)) {
                keys.push(entry.key());
            }
        }
        let bases = profile.bases.iter();
        open.extend(bases.filter_map(|base| find_profile(libraries, library, &base.name)));
    }
    keys
}

/// The key of the set that stands for a profile where neither a name nor a topic is given: the plain one,
/// or where all sets have names, the first without a filter.
pub(super) fn plain_key<'a>(libraries: &'a Libraries, place: In<'a>, kind: EntityKind) -> Key<'a> {
    let keys = keys(libraries, place, kind);
    if keys.iter().any(Key::is_plain) {
        return Key::default();
    }
    keys.into_iter().find(|key| key.filter.is_none()).unwrap_or_default()
}

/// The key of the set that stands for a profile where a topic may be given: the first whose filter fits it, or
/// else the plain one.
pub(super) fn key_for<'a>(
    libraries: &'a Libraries,
    place: In<'a>,
    kind: EntityKind,
    topic: Option<&str>,
) -> Key<'a> {
    let fits = |filter: &str| {
        topic.is_some_and(|topic| Glob::new(filter).is_ok_and(|filter| filter.matches(topic)))
    };
    let filtered =
        keys(libraries, place, kind).into_iter().find(|key| key.filter.is_some_and(fits));
    filtered.unwrap_or_else(|| plain_key(libraries, place, kind))
}

/// Finds a profile or a set of a library by its whole name.
pub(super) fn by_name<'a>(
    libraries: &'a Libraries,
    kind: EntityKind,
    name: &str,
) -> Option<(In<'a>, Option<&'a Entry>)> {
    match find(libraries, In { library: "", profile: None }, kind, name)? {
        Target::Profile(library, profile) => Some((In { library, profile: Some(profile) }, None)),
        Target::Set(found) => Some((found.place, Some(found.entry))),
    }
}
