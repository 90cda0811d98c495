//! What profiles inherit.
//!
//! Owns: to what a base's name refers, the order in which values override each other, and the check
//! of all files together: bases that are not there, cycles, and values that contradict each other.
//! Never does: read or write XML.
//!
//! A set of policies inherits from its own base if it names one, else from the set with the same name
//! and filter in its profile's bases, else from their plain set. Every walk has a bounded number of
//! steps, so that no file, however its profiles refer to each other, keeps anyone busy.

use super::entity::{ATOMIC, DELIVERY, UNORDERED};
use super::error::{At, MOST_ERRORS, Place, ProfileError, Wrong, quoted};
use super::model::{Base, Entry, Key, Libraries, Library, Profile, full_name};
use super::suggest::suggest;
use crate::{
    DurabilityQosPolicyKind, EntityKind, EntityQos, Inconsistency, PolicyId,
    ReliabilityQosPolicyKind, Value,
};
use std::collections::HashMap;

/// The longest chain of bases.
const LONGEST_CHAIN: usize = 32;
/// The most sets and profiles that one set inherits from, on all ways.
const MOST_STEPS: usize = 128;

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
enum Target<'a> {
    Profile(&'a str, &'a Profile),
    Set(Found<'a>),
}

/// Why there is no way to the values.
enum Trouble {
    /// A base is not there; that is told where it is named.
    Unknown,
    Cycle(Vec<String>),
    TooLong,
}

fn library<'a>(libraries: &'a Libraries, name: &str) -> Option<(&'a str, &'a Library)> {
    libraries.get_key_value(name).map(|(name, library)| (&**name, library))
}

/// To which profile a name refers that stands in a library.
fn find_profile<'a>(
    libraries: &'a Libraries,
    from: &str,
    name: &str,
) -> Option<(&'a str, &'a Profile)> {
    let (of, name) = name.split_once("::").unwrap_or((from, name));
    let (of, library) = library(libraries, of)?;
    Some((of, library.profile(name)?))
}

/// To what a name refers that stands in a library, and perhaps in a profile.
fn find<'a>(
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
    if let Some((of, profile)) =
        (parts.len() < 3).then(|| find_profile(libraries, from.library, name)).flatten()
    {
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
    /// A profile, in which a set with this key is looked for.
    Profile(&'a str, &'a Profile, Key<'a>),
    Set(Found<'a>),
}

impl Stop<'_> {
    fn is(&self, other: &Stop<'_>) -> bool {
        match (self, other) {
            (Stop::Profile(_, own, key), Stop::Profile(_, other, other_key)) => {
                std::ptr::eq(*own, *other) && key == other_key
            }
            (Stop::Set(own), Stop::Set(other)) => std::ptr::eq(own.entry, other.entry),
            _ => false,
        }
    }

    fn name(&self) -> String {
        match self {
            Stop::Profile(library, profile, _) => full_name(library, &profile.name),
            Stop::Set(found) => found.name(),
        }
    }
}

/// A walk to all that a set inherits from.
struct Walk<'a> {
    libraries: &'a Libraries,
    way: Vec<Stop<'a>>,
    steps: usize,
    /// What was found, the furthest first.
    found: Vec<Found<'a>>,
}

impl<'a> Walk<'a> {
    fn new(libraries: &'a Libraries) -> Self {
        Self { libraries, way: Vec::new(), steps: 0, found: Vec::new() }
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
        // A profile and its set are two steps of one link.
        if self.way.len() > 2 * LONGEST_CHAIN || self.steps > MOST_STEPS {
            return Err(Trouble::TooLong);
        }
        self.way.push(stop);
        Ok(())
    }

    fn set(&mut self, found: Found<'a>) -> Result<(), Trouble> {
        self.enter(Stop::Set(found))?;
        let kind = found.entry.kind;
        if let Some(base) = &found.entry.base {
            match find(self.libraries, found.place, kind, &base.name).ok_or(Trouble::Unknown)? {
                Target::Set(base) => self.set(base)?,
                Target::Profile(library, profile) => {
                    self.profile(library, profile, kind, Key::default())?;
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
        self.enter(Stop::Profile(library, profile, key))?;
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
    ) -> Result<bool, Trouble> {
        let there = self.exact(library, profile, kind, key)?;
        if there || key.is_plain() {
            Ok(there)
        } else {
            self.exact(library, profile, kind, Key::default())
        }
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
            let (of, base) =
                find_profile(self.libraries, library, &base.name).ok_or(Trouble::Unknown)?;
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
    let mut walk = Walk::new(libraries);
    let Some(profile) = place.profile else { return Vec::new() };
    match walk.profile(place.library, profile, kind, key) {
        Ok(_) => walk.found,
        Err(_) => Vec::new(),
    }
}

/// All that a set consists of, the furthest first. Only of files that were found sound.
pub(super) fn lineage_of_set<'a>(libraries: &'a Libraries, found: Found<'a>) -> Vec<Found<'a>> {
    let mut walk = Walk::new(libraries);
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

/// Finds all that is wrong with the files together.
/// If not all could be read, a base that is missing may be in what was not.
pub(super) fn check(libraries: &Libraries, all_read: bool) -> Vec<ProfileError> {
    let mut check = Check { libraries, errors: Vec::new() };
    check.defaults();
    if all_read {
        check.bases();
    }
    check.chains();
    check.values();
    check.errors
}

struct Check<'a> {
    libraries: &'a Libraries,
    errors: Vec<ProfileError>,
}

impl<'a> Check<'a> {
    fn error(&mut self, place: Place, path: String, wrong: Wrong) {
        let Wrong { found, expected, suggestion } = wrong;
        if self.errors.len() < MOST_ERRORS {
            self.errors.push(ProfileError { place, path, found, expected, suggestion });
        }
    }

    fn profiles(&self) -> impl Iterator<Item = (&'a str, &'a Profile)> + use<'a> {
        let libraries = self.libraries.iter();
        libraries.flat_map(|(name, library)| {
            library.profiles.iter().map(move |profile| (&**name, profile))
        })
    }

    /// All sets, in profiles and outside of them.
    fn sets(&self) -> impl Iterator<Item = Found<'a>> + use<'a> {
        self.libraries.iter().flat_map(|(name, library)| {
            let alone = library.entries.iter().map(|entry| (None, entry));
            let inside = library.profiles.iter().flat_map(|profile| {
                profile.entries.iter().map(move |entry| (Some(profile), entry))
            });
            alone
                .chain(inside)
                .map(move |(profile, entry)| Found { place: In { library: name, profile }, entry })
        })
    }

    /// One profile at most stands for all that names none.
    fn defaults(&mut self) {
        let mut first: Option<Place> = None;
        for (library, profile) in self.profiles().filter(|(_, profile)| profile.is_default) {
            let place = Place::new(&profile.file, profile.at);
            match &first {
                None => first = Some(place),
                Some(first) => {
                    let found = format!(
                        "found a second profile with `is_default_qos`; the first is at {first}"
                    );
                    self.error(
                        place,
                        profile_path(library, profile),
                        Wrong::new(found, "expected one"),
                    );
                }
            }
        }
    }

    /// Every base is there.
    fn bases(&mut self) {
        for (library, profile) in self.profiles() {
            for base in &profile.bases {
                if find_profile(self.libraries, library, &base.name).is_none() {
                    let place = Place::new(&profile.file, base.at);
                    let chain = vec![full_name(library, &profile.name)];
                    self.unknown(place, profile_path(library, profile), base, library, chain);
                }
            }
        }
        for set in self.sets() {
            if let Some(base) = &set.entry.base
                && find(self.libraries, set.place, set.entry.kind, &base.name).is_none()
            {
                let place = Place::new(&set.entry.file, base.at);
                self.unknown(place, set_path(&set), base, set.place.library, vec![set.name()]);
            }
        }
    }

    fn unknown(
        &mut self,
        place: Place,
        path: String,
        base: &Base,
        library: &str,
        mut chain: Vec<String>,
    ) {
        if self.errors.len() >= MOST_ERRORS {
            return;
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
        let wrong = Wrong::new(found, "expected a profile of this library, or `Library::Profile`");
        self.error(place, path, wrong.suggest(suggest(&base.name, names)));
    }

    /// No profile is a base of its own, and chains end soon.
    fn chains(&mut self) {
        // How long the chain above a profile is; none while the walk is in it.
        let mut heights: HashMap<*const Profile, Option<usize>> = HashMap::new();
        for (library, profile) in self.profiles() {
            let mut way: Vec<(&str, &Profile, usize, usize)> = Vec::new();
            if !heights.contains_key(&std::ptr::from_ref(profile)) {
                heights.insert(profile, None);
                way.push((library, profile, 0, 0));
            }
            while let Some((library, profile, next, height)) = way.last_mut() {
                let (library, profile) = (*library, *profile);
                let Some(base) = profile.bases.get(*next) else {
                    let height = *height;
                    heights.insert(profile, Some(height));
                    way.pop();
                    if let Some((.., above)) = way.last_mut() {
                        *above = (*above).max(height + 1);
                    }
                    if height == LONGEST_CHAIN + 1 {
                        let found = format!(
                            "found a chain of more than {LONGEST_CHAIN} bases above this profile"
                        );
                        let place = Place::new(&profile.file, profile.at);
                        self.error(
                            place,
                            profile_path(library, profile),
                            Wrong::new(found, "expected a shorter one"),
                        );
                    }
                    continue;
                };
                *next += 1;
                let Some((of, above)) = find_profile(self.libraries, library, &base.name) else {
                    continue;
                };
                match heights.get(&std::ptr::from_ref(above)) {
                    Some(Some(known)) => *height = (*height).max(known + 1),
                    Some(None) => {
                        let from = way
                            .iter()
                            .position(|(_, other, ..)| std::ptr::eq(*other, above))
                            .unwrap_or(0);
                        let mut chain: Vec<String> = way[from..]
                            .iter()
                            .map(|(library, profile, ..)| full_name(library, &profile.name))
                            .collect();
                        chain.push(full_name(of, &above.name));
                        let place = Place::new(&profile.file, base.at);
                        self.error(place, profile_path(library, profile), cycle(&chain));
                    }
                    None => {
                        heights.insert(above, None);
                        way.push((of, above, 0, 0));
                    }
                }
            }
        }
    }

    /// The values of every set go together, with all that it inherits.
    fn values(&mut self) {
        // What is wrong with bases would be told once more for every set.
        let sound_bases = self.errors.is_empty();
        let mut cycles: Vec<Vec<String>> = Vec::new();
        for set in self.sets() {
            let mut walk = Walk::new(self.libraries);
            let place = |at: At| Place::new(&set.entry.file, at);
            let base_at = set.entry.base.as_ref().map_or(set.entry.at, |base| base.at);
            match walk.set(set) {
                Ok(()) => {
                    self.judge(&walk.found, place(set.entry.at), &set_path(&set), Some(set.entry))
                }
                Err(Trouble::Cycle(chain)) if sound_bases => {
                    let mut members = chain.clone();
                    members.sort();
                    members.dedup();
                    if !cycles.contains(&members) {
                        self.error(place(base_at), set_path(&set), cycle(&chain));
                        cycles.push(members);
                    }
                }
                Err(Trouble::TooLong) if sound_bases => {
                    let found = format!(
                        "found a chain of more than {LONGEST_CHAIN} bases, or more than {MOST_STEPS} in all"
                    );
                    self.error(place(base_at), set_path(&set), Wrong::new(found, "expected fewer"));
                }
                Err(_) => {}
            }
        }
        // Sets that come together only in a profile with several bases.
        for (library, profile) in self.profiles().filter(|(_, profile)| profile.bases.len() > 1) {
            for kind in EntityKind::ALL {
                if profile.entry(kind, Key::default()).is_none() {
                    let place = In { library, profile: Some(profile) };
                    let found = lineage(self.libraries, place, kind, Key::default());
                    let path = format!("{}/{}", profile_path(library, profile), kind.element());
                    self.judge(&found, Place::new(&profile.file, profile.at), &path, None);
                }
            }
        }
    }

    fn judge(&mut self, lineage: &[Found<'_>], place: Place, path: &str, own: Option<&Entry>) {
        let Some(last) = lineage.last() else { return };
        // Rules are about what has one size; bytes and names are left where they are.
        let mut qos = last.entry.kind.default_qos();
        let mut delivery = None;
        for found in lineage {
            for setting in &found.entry.settings {
                if !matches!(setting.value, Value::Octets(_) | Value::Texts(_) | Value::Kinds(_)) {
                    qos.set_value(setting.policy, usize::from(setting.field), &setting.value);
                }
            }
            let properties = found.entry.properties.iter();
            let said =
                properties.map(|(property, _)| property).find(|property| property.name == DELIVERY);
            delivery = said.map(|property| property.value.as_str()).or(delivery);
        }
        let mut wrong = qos.inconsistencies();
        wrong.extend(delivery.and_then(|delivery| against(&qos, delivery)));
        for Inconsistency { policy, reason, advice } in wrong {
            let setting =
                own.and_then(|own| own.settings.iter().find(|setting| setting.policy == policy));
            let mut place = place.clone();
            if let (Some(setting), Some(own)) = (setting, own) {
                place = Place::new(&own.file, setting.at);
            }
            let (_, name) =
                last.entry.kind.policies().find(|(own, _)| *own == policy).unwrap_or((policy, ""));
            self.error(
                place,
                format!("{path}/{name}"),
                Wrong::new(format!("{policy}: {reason}"), advice),
            );
        }
    }
}

/// What a kind of delivery has against a set of policies.
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

fn cycle(chain: &[String]) -> Wrong {
    let found = format!("found a profile that inherits from itself ({})", chain.join(" -> "));
    Wrong::new(found, "expected bases that end")
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

fn set_path(set: &Found<'_>) -> String {
    let outer = match set.place.profile {
        Some(profile) => profile_path(set.place.library, profile),
        None => library_path(set.place.library, set.entry.in_dds),
    };
    match set.entry.key().label() {
        Some(label) => format!("{outer}/{}[{label}]", set.entry.element),
        None => format!("{outer}/{}", set.entry.element),
    }
}
