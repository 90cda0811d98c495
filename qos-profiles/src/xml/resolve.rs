//! Inheritance of profiles.
//!
//! Owns: the lookup of a base by name, and the order in which values override each other. Never
//! does: look at a value.
//!
//! A set of policies inherits from its own base if it names one; otherwise from the set with the
//! same name and filter in its profile's bases; otherwise from their plain set. Every traversal has
//! a bounded number of steps, so that no combination of references in a file causes unbounded work.

use super::model::{Libraries, Library, PolicySet, PolicySetKey, Profile, full_name};
use crate::{EntityKind, Glob};

/// Maximum length of a chain of bases.
pub(super) const LONGEST_CHAIN: usize = 32;
/// Maximum number of sets and profiles that one set inherits from, on all paths.
pub(super) const MOST_STEPS: usize = 128;
/// Step limit for lookups in files without errors. A lookup in a profile without a matching set
/// needs fewer steps: it has at most 128 bases on all paths, and each has a set that needs at most
/// 128 steps.
const MOST_LOOKED_UP: usize = 1 << 15;
/// Path limit for lookups in such files. The longest possible path is shorter: 33 profiles, 32 of
/// them without a matching set, and the chain of the set found.
const LONGEST_LOOKED_UP: usize = 128;

/// A profile, and its library.
#[derive(Clone, Copy)]
pub(super) struct EnclosingProfile<'a> {
    pub(super) library: &'a str,
    pub(super) profile: Option<&'a Profile>,
}

/// A set of policies, and its location.
#[derive(Clone, Copy)]
pub(super) struct LocatedSet<'a> {
    pub(super) place: EnclosingProfile<'a>,
    pub(super) set: &'a PolicySet,
}

impl LocatedSet<'_> {
    /// Returns the name in references.
    pub(super) fn name(&self) -> String {
        let own = self.set.name.as_deref();
        match (self.place.profile, own) {
            (Some(profile), None) => full_name(self.place.library, &profile.name),
            (Some(profile), Some(own)) => {
                format!("{}::{own}", full_name(self.place.library, &profile.name))
            }
            (None, own) => full_name(self.place.library, own.unwrap_or_default()),
        }
    }
}

/// Item that the name of a base refers to.
pub(super) enum BaseTarget<'a> {
    Profile(&'a str, &'a Profile),
    Set(LocatedSet<'a>),
}

/// Reasons why values cannot be resolved.
pub(super) enum ResolveError {
    /// A base is missing; the error is reported where the base is named.
    Unknown,
    Cycle(Vec<String>),
    TooLong,
}

fn library<'a>(libraries: &'a Libraries, name: &str) -> Option<(&'a str, &'a Library)> {
    libraries.get_key_value(name).map(|(name, library)| (&**name, library))
}

/// Finds the profile that a name in a library refers to.
pub(super) fn find_profile<'a>(
    libraries: &'a Libraries,
    from: &str,
    name: &str,
) -> Option<(&'a str, &'a Profile)> {
    let (of, name) = name.split_once("::").unwrap_or((from, name));
    let (of, library) = library(libraries, of)?;
    Some((of, library.profile(name)?))
}

/// Finds the item that a name in a library, and possibly in a profile, refers to.
pub(super) fn find<'a>(
    libraries: &'a Libraries,
    from: EnclosingProfile<'a>,
    kind: EntityKind,
    name: &str,
) -> Option<BaseTarget<'a>> {
    let set = |enclosing, entry| BaseTarget::Set(LocatedSet { place: enclosing, set: entry });
    let parts: Vec<&str> = name.split("::").collect();
    if let [name] = parts[..]
        && let Some(entry) = from.profile.and_then(|profile| profile.named(kind, name))
    {
        return Some(set(from, entry));
    }
    if let Some((of, profile)) = find_profile(libraries, from.library, name) {
        return Some(BaseTarget::Profile(of, profile));
    }
    let in_library = |of: &str, name: &str| {
        let (of, library) = library(libraries, of)?;
        Some(set(EnclosingProfile { library: of, profile: None }, library.entry(kind, name)?))
    };
    let in_profile = |of: &str, profile: &str, name: &str| {
        let (of, library) = library(libraries, of)?;
        let profile = library.profile(profile)?;
        Some(set(
            EnclosingProfile { library: of, profile: Some(profile) },
            profile.named(kind, name)?,
        ))
    };
    match parts[..] {
        [name] => in_library(from.library, name),
        [of, name] => in_library(of, name).or_else(|| in_profile(from.library, of, name)),
        [of, profile, name] => in_profile(of, profile, name),
        _ => None,
    }
}

/// A step on the path to the bases of a set.
#[derive(Clone, Copy)]
enum TraversalStep<'a> {
    /// A profile, in which a set is looked up.
    Profile(&'a str, &'a Profile),
    Set(LocatedSet<'a>),
}

impl TraversalStep<'_> {
    /// Whether the sets are the same. A cycle of profiles only is detected by the check of
    /// profiles; here such a path ends at the length limit.
    fn is(&self, other: &TraversalStep<'_>) -> bool {
        match (self, other) {
            (TraversalStep::Set(own), TraversalStep::Set(other)) => {
                std::ptr::eq(own.set, other.set)
            }
            _ => false,
        }
    }

    fn name(&self) -> String {
        match self {
            TraversalStep::Profile(library, profile) => full_name(library, &profile.name),
            TraversalStep::Set(found) => found.name(),
        }
    }
}

/// A traversal of all bases of a set.
pub(super) struct BaseTraversal<'a> {
    libraries: &'a Libraries,
    path: Vec<TraversalStep<'a>>,
    steps: usize,
    /// Maximum number of steps, and maximum length of the path.
    most: (usize, usize),
    /// Sets found, the furthest base first.
    pub(super) found: Vec<LocatedSet<'a>>,
}

impl<'a> BaseTraversal<'a> {
    pub(super) fn new(libraries: &'a Libraries) -> Self {
        // A profile and its set are two steps of one link.
        let most = (MOST_STEPS, 2 * LONGEST_CHAIN + 1);
        Self { libraries, path: Vec::new(), steps: 0, most, found: Vec::new() }
    }

    /// Makes a traversal for files without errors.
    fn in_sound(libraries: &'a Libraries) -> Self {
        Self { most: (MOST_LOOKED_UP, LONGEST_LOOKED_UP), ..Self::new(libraries) }
    }

    /// Adds a step, unless the path already contains it.
    fn enter(&mut self, stop: TraversalStep<'a>) -> Result<(), ResolveError> {
        if let Some(first) = self.path.iter().position(|other| other.is(&stop)) {
            let mut chain: Vec<String> =
                self.path[first..].iter().map(TraversalStep::name).collect();
            chain.push(stop.name());
            chain.dedup();
            return Err(ResolveError::Cycle(chain));
        }
        self.steps += 1;
        if self.steps > self.most.0 || self.path.len() >= self.most.1 {
            return Err(ResolveError::TooLong);
        }
        self.path.push(stop);
        Ok(())
    }

    /// Visits a set and all its bases.
    pub(super) fn set(&mut self, found: LocatedSet<'a>) -> Result<(), ResolveError> {
        self.enter(TraversalStep::Set(found))?;
        let kind = found.set.kind;
        for base in &found.set.bases {
            match find(self.libraries, found.place, kind, &base.name)
                .ok_or(ResolveError::Unknown)?
            {
                BaseTarget::Set(base) => self.set(base)?,
                BaseTarget::Profile(library, profile) => {
                    let enclosing = EnclosingProfile { library, profile: Some(profile) };
                    let key = key_for(self.libraries, enclosing, kind, found.set.topic.as_deref());
                    self.profile(library, profile, kind, key)?;
                }
            }
        }
        if let (true, Some(profile)) = (found.set.bases.is_empty(), found.place.profile) {
            self.bases(found.place.library, profile, kind, found.set.key())?;
        }
        self.path.pop();
        self.found.push(found);
        Ok(())
    }

    /// Visits the set with this key in a profile or its bases; returns whether there is one.
    fn profile(
        &mut self,
        library: &'a str,
        profile: &'a Profile,
        kind: EntityKind,
        key: PolicySetKey<'a>,
    ) -> Result<bool, ResolveError> {
        self.enter(TraversalStep::Profile(library, profile))?;
        let there = match profile.entry(kind, key) {
            Some(entry) => {
                self.set(LocatedSet {
                    place: EnclosingProfile { library, profile: Some(profile) },
                    set: entry,
                })?;
                true
            }
            None => self.exact(library, profile, kind, key)?,
        };
        self.path.pop();
        Ok(there)
    }

    /// Visits the sets that a profile's set inherits from the profile's bases: those with its key,
    /// or else the plain ones.
    fn bases(
        &mut self,
        library: &'a str,
        profile: &'a Profile,
        kind: EntityKind,
        key: PolicySetKey<'a>,
    ) -> Result<(), ResolveError> {
        if self.exact(library, profile, kind, key)? {
            return Ok(());
        }
        for base in &profile.bases {
            let (of, base) = self.base(library, &base.name)?;
            let enclosing = EnclosingProfile { library: of, profile: Some(base) };
            self.profile(of, base, kind, plain_key(self.libraries, enclosing, kind))?;
        }
        Ok(())
    }

    /// Returns a base by its name, as written in this library, and the base's library.
    fn base(&self, library: &'a str, name: &str) -> Result<(&'a str, &'a Profile), ResolveError> {
        find_profile(self.libraries, library, name).ok_or(ResolveError::Unknown)
    }

    fn exact(
        &mut self,
        library: &'a str,
        profile: &'a Profile,
        kind: EntityKind,
        key: PolicySetKey<'a>,
    ) -> Result<bool, ResolveError> {
        let mut there = false;
        for base in &profile.bases {
            let (of, base) = self.base(library, &base.name)?;
            there |= self.profile(of, base, kind, key)?;
        }
        Ok(there)
    }
}

/// Returns all parts of a profile's set with this key, the furthest base first; empty if there is
/// none. Valid only for files without errors.
pub(super) fn lineage<'a>(
    libraries: &'a Libraries,
    enclosing: EnclosingProfile<'a>,
    kind: EntityKind,
    key: PolicySetKey<'a>,
) -> Vec<LocatedSet<'a>> {
    let mut traversal = BaseTraversal::in_sound(libraries);
    let Some(profile) = enclosing.profile else { return Vec::new() };
    match traversal.profile(enclosing.library, profile, kind, key) {
        Ok(_) => traversal.found,
        Err(_) => Vec::new(),
    }
}

/// Returns all parts of a set, the furthest base first. Valid only for files without errors.
pub(super) fn lineage_of_set<'a>(
    libraries: &'a Libraries,
    found: LocatedSet<'a>,
) -> Vec<LocatedSet<'a>> {
    let mut traversal = BaseTraversal::in_sound(libraries);
    match traversal.set(found) {
        Ok(()) => traversal.found,
        Err(_) => Vec::new(),
    }
}

/// Returns the keys of a kind's sets in a profile and in its bases: its own in order, then those of
/// its bases, a later base before an earlier one.
pub(super) fn keys<'a>(
    libraries: &'a Libraries,
    enclosing: EnclosingProfile<'a>,
    kind: EntityKind,
) -> Vec<PolicySetKey<'a>> {
    let mut keys = Vec::new();
    let mut seen = std::collections::HashSet::new();
    let mut open: Vec<(&str, &Profile)> =
        enclosing.profile.map(|profile| (enclosing.library, profile)).into_iter().collect();
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

/// Returns the key of the set that applies without a name or a topic: the plain one, or, if all
/// sets have names, the first without a filter.
pub(super) fn plain_key<'a>(
    libraries: &'a Libraries,
    enclosing: EnclosingProfile<'a>,
    kind: EntityKind,
) -> PolicySetKey<'a> {
    let keys = keys(libraries, enclosing, kind);
    if keys.iter().any(PolicySetKey::is_plain) {
        return PolicySetKey::default();
    }
    keys.into_iter().find(|key| key.filter.is_none()).unwrap_or_default()
}

/// Returns the key of the set for an optional topic: the first one whose filter matches, or else
/// the plain one.
pub(super) fn key_for<'a>(
    libraries: &'a Libraries,
    enclosing: EnclosingProfile<'a>,
    kind: EntityKind,
    topic: Option<&str>,
) -> PolicySetKey<'a> {
    let fits = |filter: &str| {
        topic.is_some_and(|topic| Glob::new(filter).is_ok_and(|filter| filter.matches(topic)))
    };
    let filtered =
        keys(libraries, enclosing, kind).into_iter().find(|key| key.filter.is_some_and(fits));
    filtered.unwrap_or_else(|| plain_key(libraries, enclosing, kind))
}

/// Finds a profile or a set of a library by its full name.
pub(super) fn by_name<'a>(
    libraries: &'a Libraries,
    kind: EntityKind,
    name: &str,
) -> Option<(EnclosingProfile<'a>, Option<&'a PolicySet>)> {
    match find(libraries, EnclosingProfile { library: "", profile: None }, kind, name)? {
        BaseTarget::Profile(library, profile) => {
            Some((EnclosingProfile { library, profile: Some(profile) }, None))
        }
        BaseTarget::Set(found) => Some((found.place, Some(found.set))),
    }
}
