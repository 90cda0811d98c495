//! Checks of all files together.
//!
//! Owns: missing bases, cycles, chains that are too long, and contradictory values after
//! inheritance. Never does: check one file alone; reading it does.

use super::entity::{ATOMIC, DELIVERY, UNORDERED};
use super::error::{FilePosition, LineColumn, MOST_ERRORS, ProfileError, UnplacedError, quoted};
use super::model::{Base, Libraries, PolicySet, PolicySetKey, Profile, full_name};
use super::resolve::{
    BaseTraversal, EnclosingProfile, LONGEST_CHAIN, LocatedSet, MOST_STEPS, ResolveError, find,
    find_profile, lineage,
};
use super::suggest::suggest;
use super::vendor;
use crate::{
    DurabilityQosPolicyKind, EntityKind, EntityQos, Inconsistency, PolicyId,
    ReliabilityQosPolicyKind, Value,
};
use std::collections::HashMap;

/// Bases above a profile.
#[derive(Clone, Copy, Default)]
struct BaseCounts {
    /// Length of the longest chain of bases.
    height: usize,
    /// Number of bases on all paths.
    all: usize,
    /// Whether an excessive number was already reported for one of the bases.
    is_told: bool,
}

impl BaseCounts {
    fn add(&mut self, base: BaseCounts) {
        self.height = self.height.max(base.height + 1);
        self.all = self.all.saturating_add(base.all).saturating_add(1);
        self.is_told |= base.is_told;
    }
}

/// Finds all errors in the files together. If some files could not be read, missing bases are not
/// reported, because they may be in those files.
pub(super) fn check(libraries: &Libraries, all_read: bool) -> Vec<ProfileError> {
    let mut check = ProfileCheck { libraries, errors: Vec::new() };
    check.defaults();
    if all_read {
        check.bases();
    }
    check.chains();
    check.values();
    check.errors
}

struct ProfileCheck<'a> {
    libraries: &'a Libraries,
    errors: Vec<ProfileError>,
}

impl<'a> ProfileCheck<'a> {
    fn error(&mut self, position: FilePosition, path: String, wrong: UnplacedError) {
        let UnplacedError { found, expected, suggestion } = wrong;
        if self.errors.len() < MOST_ERRORS {
            self.errors.push(ProfileError { place: position, path, found, expected, suggestion });
        }
    }

    fn profiles(&self) -> impl Iterator<Item = (&'a str, &'a Profile)> + use<'a> {
        let libraries = self.libraries.iter();
        libraries.flat_map(|(name, library)| {
            library.profiles.iter().map(move |profile| (&**name, profile))
        })
    }

    /// Returns all sets, in profiles and outside of them.
    fn sets(&self) -> impl Iterator<Item = LocatedSet<'a>> + use<'a> {
        self.libraries.iter().flat_map(|(name, library)| {
            let alone = library.entries.iter().map(|entry| (None, entry));
            let inside = library.profiles.iter().flat_map(|profile| {
                profile.entries.iter().map(move |entry| (Some(profile), entry))
            });
            alone.chain(inside).map(move |(profile, entry)| LocatedSet {
                place: EnclosingProfile { library: name, profile },
                set: entry,
            })
        })
    }

    /// Checks that at most one profile is the default.
    fn defaults(&mut self) {
        let mut first: Option<FilePosition> = None;
        for (library, profile) in self.profiles().filter(|(_, profile)| profile.is_default) {
            let position = FilePosition::new(&profile.file, profile.at);
            match &first {
                None => first = Some(position),
                Some(first) => {
                    let found = format!(
                        "found a second profile with `is_default_qos`; the first is at {first}"
                    );
                    self.error(
                        position,
                        profile_path(library, profile),
                        UnplacedError::new(found, "expected one"),
                    );
                }
            }
        }
    }

    /// Checks that every base exists.
    fn bases(&mut self) {
        for (library, profile) in self.profiles() {
            for base in &profile.bases {
                if find_profile(self.libraries, library, &base.name).is_none() {
                    let position = FilePosition::new(&profile.file, base.at);
                    let chain = vec![full_name(library, &profile.name)];
                    self.unknown(position, profile_path(library, profile), base, library, chain);
                }
            }
        }
        for set in self.sets() {
            for base in &set.set.bases {
                if find(self.libraries, set.place, set.set.kind, &base.name).is_none() {
                    let position = FilePosition::new(&set.set.file, base.at);
                    let chain = vec![set.name()];
                    self.unknown(position, set_path(&set), base, set.place.library, chain);
                }
            }
        }
    }

    fn unknown(
        &mut self,
        position: FilePosition,
        path: String,
        base: &Base,
        library: &str,
        mut chain: Vec<String>,
    ) {
        if self.errors.len() >= MOST_ERRORS {
            return;
        }
        if let Some(reason) = vendor::refused_base(&base.name) {
            let found = format!("found the base {}: {reason}", quoted(&base.name));
            let error = UnplacedError::new(found, "expected a file without this base");
            return self.error(position, path, error);
        }
        let whole: Vec<String> =
            self.profiles().map(|(library, profile)| full_name(library, &profile.name)).collect();
        let near = self.libraries.get(library).into_iter().flat_map(|library| &library.profiles);
        let names: Vec<&str> = if base.name.contains("::") {
            whole.iter().map(String::as_str).collect()
        } else {
            near.map(|profile| &*profile.name).collect()
        };
        chain.push(base.name.to_string());
        let found = format!(
            "found the base {}, which is not there ({})",
            quoted(&base.name),
            chain.join(" -> ")
        );
        let error =
            UnplacedError::new(found, "expected a profile of this library, or `Library::Profile`");
        self.error(position, path, error.suggest(suggest(&base.name, names)));
    }

    /// Checks that no profile is its own base, and that chains are short.
    fn chains(&mut self) {
        // `None` while the traversal is inside the profile.
        let mut known: HashMap<*const Profile, Option<BaseCounts>> = HashMap::new();
        for (library, profile) in self.profiles() {
            let mut path: Vec<(&str, &Profile, usize, BaseCounts)> = Vec::new();
            if !known.contains_key(&std::ptr::from_ref(profile)) {
                known.insert(profile, None);
                path.push((library, profile, 0, BaseCounts::default()));
            }
            while let Some((library, profile, next, above)) = path.last_mut() {
                let (library, profile) = (*library, *profile);
                let Some(base) = profile.bases.get(*next) else {
                    let mut above = *above;
                    if let Some(error) = too_many(above) {
                        above.is_told = true;
                        let position = FilePosition::new(&profile.file, profile.at);
                        self.error(position, profile_path(library, profile), error);
                    }
                    known.insert(profile, Some(above));
                    path.pop();
                    if let Some((.., next)) = path.last_mut() {
                        next.add(above);
                    }
                    continue;
                };
                *next += 1;
                let Some((of, found)) = find_profile(self.libraries, library, &base.name) else {
                    continue;
                };
                match known.get(&std::ptr::from_ref(found)) {
                    Some(Some(base)) => above.add(*base),
                    Some(None) => {
                        let from = path
                            .iter()
                            .position(|(_, other, ..)| std::ptr::eq(*other, found))
                            .unwrap_or(0);
                        let mut chain: Vec<String> = path[from..]
                            .iter()
                            .map(|(library, profile, ..)| full_name(library, &profile.name))
                            .collect();
                        chain.push(full_name(of, &found.name));
                        let position = FilePosition::new(&profile.file, base.at);
                        self.error(position, profile_path(library, profile), cycle(&chain));
                    }
                    None => {
                        known.insert(found, None);
                        path.push((of, found, 0, BaseCounts::default()));
                    }
                }
            }
        }
    }

    /// Checks that the values of every set are consistent, inherited values included.
    fn values(&mut self) {
        // An error in bases would be reported again for every set.
        let sound_bases = self.errors.is_empty();
        let mut cycles: Vec<Vec<String>> = Vec::new();
        for set in self.sets() {
            let mut traversal = BaseTraversal::new(self.libraries);
            let position = |at: LineColumn| FilePosition::new(&set.set.file, at);
            let base_at = set.set.bases.first().map_or(set.set.at, |base| base.at);
            match traversal.set(set) {
                Ok(()) => self.judge(
                    &traversal.found,
                    position(set.set.at),
                    &set_path(&set),
                    Some(set.set),
                ),
                Err(ResolveError::Cycle(chain)) if sound_bases => {
                    let mut members = chain.clone();
                    members.sort();
                    members.dedup();
                    if !cycles.contains(&members) {
                        self.error(position(base_at), set_path(&set), cycle(&chain));
                        cycles.push(members);
                    }
                }
                Err(ResolveError::TooLong) if sound_bases => {
                    self.error(position(base_at), set_path(&set), too_many_in_all());
                }
                Err(_) => {}
            }
        }
        // Sets that are combined only by a profile with several bases.
        for (library, profile) in self.profiles().filter(|(_, profile)| profile.bases.len() > 1) {
            for kind in EntityKind::ALL {
                if profile.entry(kind, PolicySetKey::default()).is_none() {
                    let enclosing = EnclosingProfile { library, profile: Some(profile) };
                    let found = lineage(self.libraries, enclosing, kind, PolicySetKey::default());
                    let path = format!("{}/{}", profile_path(library, profile), kind.element());
                    self.judge(&found, FilePosition::new(&profile.file, profile.at), &path, None);
                }
            }
        }
    }

    fn judge(
        &mut self,
        lineage: &[LocatedSet<'_>],
        position: FilePosition,
        path: &str,
        own: Option<&PolicySet>,
    ) {
        let Some(last) = lineage.last() else { return };
        // Rules concern values of fixed size only, so bytes and names are not copied.
        let mut qos = last.set.kind.default_qos();
        let mut delivery = None;
        for found in lineage {
            for setting in &found.set.settings {
                if !matches!(setting.value, Value::Octets(_) | Value::Texts(_) | Value::Kinds(_)) {
                    qos.set_value(setting.policy, usize::from(setting.field), &setting.value);
                }
            }
            let properties = found.set.properties.iter();
            let asked = properties
                .map(|setting| &setting.property)
                .find(|property| property.name == DELIVERY);
            delivery = asked.map(|property| property.value.as_str()).or(delivery);
        }
        let mut error = qos.inconsistencies();
        error.extend(delivery.and_then(|delivery| against(&qos, delivery)));
        for Inconsistency { policy, reason, advice } in error {
            let setting =
                own.and_then(|own| own.settings.iter().find(|setting| setting.policy == policy));
            let mut position = position.clone();
            if let (Some(setting), Some(own)) = (setting, own) {
                position = FilePosition::new(&own.file, setting.at);
            }
            let (_, name) =
                last.set.kind.policies().find(|(own, _)| *own == policy).unwrap_or((policy, ""));
            let found = format!("{policy}: {reason}");
            // A set of Fast DDS may be that of several entities.
            if !self.errors.iter().any(|other| other.place == position && other.found == found) {
                let error = UnplacedError::new(found, advice);
                self.error(position, format!("{path}/{name}"), error);
            }
        }
    }
}

/// Returns the contradiction between a kind of delivery and a set of policies.
fn against(qos: &EntityQos, delivery: &str) -> Option<Inconsistency> {
    let (reliability, durability) = match qos {
        EntityQos::Topic(qos) => (qos.reliability.kind, qos.durability.kind),
        EntityQos::DataWriter(qos) => (qos.reliability.kind, qos.durability.kind),
        EntityQos::DataReader(qos) => (qos.reliability.kind, qos.durability.kind),
        _ => return None,
    };
    if delivery == UNORDERED && durability != DurabilityQosPolicyKind::Volatile {
        return Some(Inconsistency {
            policy: PolicyId::Durability,
            reason: format!(
                "samples that are kept have one order, and `{DELIVERY}` is `{UNORDERED}`"
            ),
            advice: "set VOLATILE, or leave the property out",
        });
    }
    if delivery == ATOMIC && reliability == ReliabilityQosPolicyKind::BestEffort {
        return Some(Inconsistency {
            policy: PolicyId::Reliability,
            reason: format!("BEST_EFFORT samples may be lost, and `{DELIVERY}` is `{ATOMIC}`"),
            advice: "set RELIABLE, or leave the property out",
        });
    }
    None
}

/// Returns the error about excessive bases, unless it was reported for one of the bases.
fn too_many(above: BaseCounts) -> Option<UnplacedError> {
    if above.is_told {
        return None;
    }
    if above.height > LONGEST_CHAIN {
        let found = format!("found a chain of more than {LONGEST_CHAIN} bases above this profile");
        return Some(UnplacedError::new(found, "expected a shorter one"));
    }
    // The profile itself counts too.
    (above.all >= MOST_STEPS).then(too_many_in_all)
}

fn too_many_in_all() -> UnplacedError {
    let found = format!(
        "found a chain of more than {LONGEST_CHAIN} bases, or more than {MOST_STEPS} in all"
    );
    UnplacedError::new(found, "expected fewer")
}

fn cycle(chain: &[String]) -> UnplacedError {
    let mut told = chain.join(" -> ");
    if chain.len() > LONGEST_CHAIN {
        let between = chain.len() - 2;
        told = format!("{} -> ... {between} others ... -> {}", chain[0], chain[chain.len() - 1]);
    }
    let found = format!("found a profile that inherits from itself ({told})");
    UnplacedError::new(found, "expected a chain of bases without a cycle")
}

fn library_path(library: &str, in_dds: bool) -> String {
    match (in_dds, library) {
        (true, "") => "dds".to_owned(),
        (true, library) => format!("dds/qos_library[{library}]"),
        (false, library) => format!("qos_library[{library}]"),
    }
}

fn profile_path(library: &str, profile: &Profile) -> String {
    format!("{}/qos_profile[{}]", library_path(library, profile.in_dds), profile.name)
}

fn set_path(set: &LocatedSet<'_>) -> String {
    if let Some(path) = &set.set.path {
        return path.to_string();
    }
    let outer = match set.place.profile {
        Some(profile) => profile_path(set.place.library, profile),
        None => library_path(set.place.library, set.set.in_dds),
    };
    match set.set.key().label() {
        Some(label) => format!("{outer}/{}[{label}]", set.set.element),
        None => format!("{outer}/{}", set.set.element),
    }
}
