//! Reading of a file's libraries and profiles.
//!
//! Owns: the elements around sets of policies, and their attributes. Never does: read a policy, or
//! resolve a base.

use super::application::{self, Applications, TypeReader, TypeText};
use super::entity;
use super::error::{ElementPath, FilePosition, FileReport, LineColumn, UnplacedError, quoted};
use super::fast::{self, FastProfile};
use super::foreign;
use super::model::{Base, Libraries, Library, PolicySet, Profile};
use super::source::{self, Element, ElementReader, FatalXmlError, XmlItem};
use super::suggest::suggest;
use super::values::{boolean, one_of};
use super::variables::Variables;
use super::vendor;
use crate::EntityKind;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;

/// Maximum number of sets of policies in one profile; a lookup visits all of them.
const MOST_ENTRIES: usize = 256;
/// Maximum length of the name of a library, profile or set, in bytes.
const LONGEST_NAME: usize = 256;
/// Maximum depth of includes, and maximum number of files in total.
const DEEPEST_INCLUDE: usize = 16;
const MOST_FILES: usize = 1024;
/// Elements allowed in the root beside profiles.
const IN_ROOT: [&str; 5] =
    ["qos_library", "profiles", "types", "domain_library", "domain_participant_library"];

/// Function that reads a domain or a participant.
type ReadDomainOrParticipant = fn(
    &str,
    &mut Library,
    &Element,
    &ElementPath<'_>,
    &mut FileReport,
) -> Option<application::DomainOrParticipant>;

/// Combined contents of all files.
#[derive(Default)]
pub(super) struct Content {
    pub(super) libraries: Libraries,
    pub(super) applications: Applications,
    pub(super) types: TypeText,
    /// Files that were read, by canonical path, and whether another file includes each.
    pub(super) files: BTreeMap<PathBuf, bool>,
    /// Include depth of the current file.
    depth: usize,
}

impl Content {
    /// Whether a file was read because another one includes it.
    pub(super) fn is_included(&self, file: &std::path::Path) -> bool {
        file.canonicalize().is_ok_and(|file| self.files.get(&file) == Some(&true))
    }

    /// Records a file that is read without an include.
    pub(super) fn note(&mut self, file: &std::path::Path) {
        self.files.insert(file.canonicalize().unwrap_or_else(|_| file.to_owned()), false);
    }
}

/// Adds a file's libraries to the content. Its errors are in the report.
pub(super) fn read(content: &mut Content, file: &Arc<str>, bytes: &[u8]) -> FileReport {
    let mut report = FileReport::new(file);
    if let Some(foreign) = foreign::recognised(bytes) {
        report.error(LineColumn::default(), "", foreign);
        report.is_complete = false;
        return report;
    }
    let read =
        ElementReader::new(bytes).map_err(|broken| (broken, String::new())).and_then(|source| {
            let mut reader = ProfileReader { source, content, report: &mut report, in_dds: false };
            reader.source.use_variables(variables_of(bytes));
            let read = reader.file();
            let told = reader.source.variable_errors();
            if !told.is_empty() {
                // A variable without a value causes no further errors.
                reader.report.errors.retain(|error| !error.found.contains("`$("));
            }
            told.into_iter().for_each(|(at, error)| reader.report.error(at, "", error));
            read.map_err(|broken| (broken, reader.source.path().to_owned()))
        });
    if let Err((FatalXmlError { at, error }, path)) = read {
        report.error(at, path, error);
        report.is_complete = false;
    }
    report
}

/// Returns the variables of a file: those of the environment, and of its `configuration_variables`.
fn variables_of(bytes: &[u8]) -> Variables {
    const VALUE: &str = "dds/configuration_variables/value/element";
    let mut own = BTreeMap::new();
    let is_used = bytes.windows(2).any(|pair| pair == b"$(");
    let mut source = ElementReader::new(bytes).ok().filter(|_| is_used);
    while let Some(reader) = &mut source {
        match reader.next() {
            Ok(XmlItem::Open(element)) if reader.path() == VALUE => {
                let Ok(element) = reader.rest(element) else { break };
                let text = |name: &str| {
                    let child = element.children.iter().find(|child| child.name == name)?;
                    Some(child.text.clone())
                };
                if let (Some(name), Some(value)) = (text("name"), text("value")) {
                    own.insert(name, value);
                }
            }
            // The file is read again, with the errors in it.
            Ok(XmlItem::End) | Err(_) => break,
            Ok(_) => {}
        }
    }
    Variables::new(own, !super::provider::is_privileged())
}

struct ProfileReader<'a> {
    source: ElementReader<'a>,
    content: &'a mut Content,
    report: &'a mut FileReport,
    /// Whether the root is `dds`.
    in_dds: bool,
}

impl ProfileReader<'_> {
    fn file(&mut self) -> Result<(), FatalXmlError> {
        let root = match self.source.next()? {
            XmlItem::Open(root) => root,
            _ => {
                self.report.error(
                    LineColumn::default(),
                    "",
                    UnplacedError::new("the file is empty", "expected `dds` or `qos_library`"),
                );
                return Ok(());
            }
        };
        let path = ElementPath::root(&root.name, None);
        match root.name.as_str() {
            "dds" => {
                self.in_dds = true;
                self.attributes(&root, &[], &path);
                self.members("", &path, true)?;
            }
            "qos_library" => self.library(&root, None)?,
            "profiles" => self.fast_profiles(&root, None)?,
            "types" => self.types(&root, None)?,
            "domain_library" | "domain_participant_library" => {
                self.domains_or_participants(&root, None)?
            }
            other => {
                let error = UnplacedError::new(
                    "found an unknown root element",
                    "expected `dds` or `qos_library`",
                );
                let error = match vendor::in_root(other) {
                    Some(product) => UnplacedError {
                        found: format!(
                            "found the root element of a format that only {product} has"
                        ),
                        ..error
                    },
                    None => error.suggest(suggest(other, ["dds", "qos_library"])),
                };
                self.report.error(root.at, path, error);
                return Ok(());
            }
        }
        // The source reports content after the root as not well-formed XML.
        while !matches!(self.source.next()?, XmlItem::End) {}
        Ok(())
    }

    fn library(
        &mut self,
        element: &Element,
        outer: Option<&ElementPath<'_>>,
    ) -> Result<(), FatalXmlError> {
        let label = element.attribute("name");
        let path = match outer {
            Some(outer) => outer.labelled("qos_library", label),
            None => ElementPath::root("qos_library", label),
        };
        self.attributes(element, &["name"], &path);
        let name = self.name(element, &path).unwrap_or_default();
        self.members(&name, &path, false)
    }

    /// Reads the contents of a library, or of the root around libraries.
    fn members(
        &mut self,
        library: &str,
        path: &ElementPath<'_>,
        in_root: bool,
    ) -> Result<(), FatalXmlError> {
        self.content.libraries.entry(library.into()).or_default();
        loop {
            let element = match self.step(path)? {
                Some(element) => element,
                None => return Ok(()),
            };
            let label = element.attribute("name").or(element.attribute("profile_name"));
            let inner = path.labelled(&element.name, label);
            if let Some((kind, spelling)) = kind_of(&element.name) {
                self.set_of_library(library, kind, spelling, element, path)?;
                continue;
            }
            match element.name.as_str() {
                "qos_library" if in_root => self.library(&element, Some(path))?,
                "profiles" if in_root => self.fast_profiles(&element, Some(path))?,
                "types" if in_root => self.types(&element, Some(path))?,
                // Read before everything else, because elements in front of it use its variables.
                "configuration_variables" if in_root => self.source.skip()?,
                "domain_library" | "domain_participant_library" if in_root => {
                    self.domains_or_participants(&element, Some(path))?;
                }
                "qos_profile" => {
                    let Some(profile) = self.profile(&element, &inner)? else { continue };
                    let library = library_of(&mut self.content.libraries, library);
                    match library.taken(&profile.name, None) {
                        None => library.add_profile(profile),
                        Some(other) => {
                            let error = taken("qos_profile", &profile.name, &other);
                            self.report.error(profile.at, inner, error);
                        }
                    }
                }
                name => {
                    let product = if in_root { vendor::in_root(name) } else { None };
                    match product.or(vendor::in_profile(name)) {
                        Some(product) => self.report.ignored(element.at, &inner, product),
                        None => {
                            let mut expected = vec!["qos_profile"];
                            expected.splice(0..0, IN_ROOT.into_iter().filter(|_| in_root));
                            self.unknown(&element, inner, expected);
                        }
                    }
                    self.source.skip()?;
                }
            }
        }
    }

    /// Reads the profiles of Fast DDS, each for one kind of entity.
    fn fast_profiles(
        &mut self,
        root: &Element,
        outer: Option<&ElementPath<'_>>,
    ) -> Result<(), FatalXmlError> {
        let path = match outer {
            Some(outer) => outer.inner("profiles"),
            None => ElementPath::root("profiles", None),
        };
        self.attributes(root, &[], &path);
        while let Some(element) = self.step(&path)? {
            if element.name == "types" {
                self.types(&element, Some(&path))?;
                continue;
            }
            let element = self.source.rest(element)?;
            let inner = path.labelled(&element.name, element.attribute("profile_name"));
            let Some(kind) = fast::kind_of(&element.name) else {
                match vendor::in_root(&element.name) {
                    Some(product) => self.report.ignored(element.at, &inner, product),
                    None => {
                        unknown_element(self.report, &element, &inner, &fast::elements());
                    }
                }
                continue;
            };
            let Some(read) = fast::read(kind, &element, &inner, self.in_dds, self.report) else {
                continue;
            };
            if read.is_default {
                let sets = fast::default_sets(&read);
                let name = fast::DEFAULTS.to_owned();
                self.add_fast(FastProfile { name, is_default: true, sets }, &inner);
            }
            self.add_fast(FastProfile { is_default: false, ..read }, &inner);
        }
        Ok(())
    }

    /// Adds a profile of Fast DDS, beside those of the same name for other kinds of entities.
    fn add_fast(&mut self, new: FastProfile, path: &ElementPath<'_>) {
        let Some(first) = new.sets.first() else { return };
        let at = first.at;
        let library = library_of(&mut self.content.libraries, "");
        if library.fast_profile(&new.name).is_none() {
            if let Some(other) = library.taken(&new.name, None) {
                return self.report.error(at, path, taken("qos_profile", &new.name, &other));
            }
            library.add_profile(fast::empty(&new.name, new.is_default, first, &self.report.file));
        }
        let profile = library.fast_profile(&new.name).expect("the profile was added above");
        if let Err(error) = fast::add(profile, new) {
            self.report.error(at, path, error);
        }
    }

    /// Reads types, which form one text with those of other files.
    fn types(
        &mut self,
        root: &Element,
        outer: Option<&ElementPath<'_>>,
    ) -> Result<(), FatalXmlError> {
        let path = match outer {
            Some(outer) => outer.inner("types"),
            None => ElementPath::root("types", None),
        };
        self.attributes(root, &[], &path);
        let mut types = TypeReader { text: &mut self.content.types, report: self.report };
        let own = types.root(self.in_dds, root);
        while let Some(element) = self.step(&path)? {
            let element = self.source.rest(element)?;
            if element.name == "include" {
                self.include(&element, &path.inner("include"));
                continue;
            }
            let mut types = TypeReader { text: &mut self.content.types, report: self.report };
            types.definition(own, &element, &path);
        }
        Ok(())
    }

    /// Includes another file, whose contents precede the rest of this file. Each file is read once.
    fn include(&mut self, element: &Element, path: &ElementPath<'_>) {
        self.attributes(element, &["file"], path);
        let Some(named) = element.attribute("file").filter(|file| !file.is_empty()) else {
            let fault =
                UnplacedError::new("found no attribute `file`", "expected the name of a file");
            return self.report.error(element.at, path, fault);
        };
        let named = named.strip_prefix("file://").unwrap_or(named);
        let folder = std::path::Path::new(&*self.report.file).parent().map(PathBuf::from);
        let file = folder.unwrap_or_default().join(named);
        if self.content.depth == DEEPEST_INCLUDE || self.content.files.len() >= MOST_FILES {
            let found = format!(
                "found includes nested {} deep, or {MOST_FILES} files in all",
                self.content.depth
            );
            let fault = UnplacedError::new(
                found,
                format!("expected includes nested less than {DEEPEST_INCLUDE} deep"),
            );
            return self.report.error(element.at, path, fault);
        }
        let same = file.canonicalize().unwrap_or_else(|_| file.clone());
        if self.content.files.contains_key(&same) {
            return;
        }
        match load(&file) {
            Ok(bytes) => {
                self.content.files.insert(same, true);
                self.content.depth += 1;
                let inner = read(self.content, &file.display().to_string().into(), &bytes);
                self.content.depth -= 1;
                self.report.take(inner);
            }
            Err(error) => {
                let found = format!("found {}, which cannot be read ({error})", quoted(named));
                let fault = UnplacedError::new(
                    found,
                    "expected a file, relative to this one or by its absolute path",
                );
                self.report.error(element.at, path, fault);
                self.report.is_complete = false;
            }
        }
    }

    /// Reads a library of domains or of participants.
    fn domains_or_participants(
        &mut self,
        root: &Element,
        outer: Option<&ElementPath<'_>>,
    ) -> Result<(), FatalXmlError> {
        let label = root.attribute("name");
        let path = match outer {
            Some(outer) => outer.labelled(&root.name, label),
            None => ElementPath::root(&root.name, label),
        };
        self.attributes(root, &["name"], &path);
        let library = self.name(root, &path).unwrap_or_default();
        let (part, read): (_, ReadDomainOrParticipant) = match root.name.as_str() {
            "domain_library" => ("domain", application::domain),
            _ => ("domain_participant", application::participant),
        };
        while let Some(element) = self.step(&path)? {
            let element = self.source.rest(element)?;
            let inner = path.labelled(&element.name, element.attribute("name"));
            if element.name != part {
                unknown_element(self.report, &element, &inner, &[part]);
                continue;
            }
            if self.content.applications.is_full(part == "domain") {
                let found = format!("found more than {} of them", application::MOST_ROOMS);
                self.report.error(element.at, inner, UnplacedError::new(found, "expected fewer"));
                continue;
            }
            let sets = library_of(&mut self.content.libraries, &library);
            let Some(room) = read(&library, sets, &element, &inner, self.report) else {
                continue;
            };
            if let Some(other) = self.content.applications.add(part == "domain", room) {
                let error = taken(part, element.attribute("name").unwrap_or_default(), &other);
                self.report.error(element.at, inner, error);
            }
        }
        Ok(())
    }

    /// Reads a set of policies outside of profiles.
    fn set_of_library(
        &mut self,
        library: &str,
        kind: EntityKind,
        spelling: &'static str,
        element: Element,
        path: &ElementPath<'_>,
    ) -> Result<(), FatalXmlError> {
        let element = self.source.rest(element)?;
        let name = element.attribute("name");
        let path = path.labelled(&element.name, name);
        let Some(name) = name else {
            let error = UnplacedError::new(
                "found no attribute `name`",
                "expected one: outside of profiles, a set of policies is found only by name",
            );
            self.report.error(element.at, path, error);
            return Ok(());
        };
        let Some(entry) = self.entry(kind, spelling, &element, &path) else { return Ok(()) };
        let library = library_of(&mut self.content.libraries, library);
        match library.taken(name, Some(kind)) {
            None => library.add_entry(name, entry),
            Some(other) => {
                self.report.error(element.at, path, taken(&element.name, name, &other));
            }
        }
        Ok(())
    }

    fn profile(
        &mut self,
        element: &Element,
        path: &ElementPath<'_>,
    ) -> Result<Option<Profile>, FatalXmlError> {
        self.attributes(element, &["name", "base_name", "is_default_qos"], path);
        let name = self.name(element, path);
        let is_default = element.attribute("is_default_qos").is_some_and(|text| {
            boolean(text).unwrap_or_else(|error| {
                let found = format!("is_default_qos: {}", error.found);
                self.report.error(element.at, path, UnplacedError { found, ..error });
                false
            })
        });
        let base =
            element.attribute("base_name").and_then(|text| self.base(text, 2, element.at, path));
        let mut profile = Profile {
            name: name.clone().unwrap_or_default().into(),
            bases: base.into_iter().collect(),
            is_default,
            entries: Vec::new(),
            file: Arc::clone(&self.report.file),
            at: element.at,
            in_dds: self.in_dds,
            is_of_fast_dds: false,
        };
        while let Some(element) = self.step(path)? {
            let at = element.at;
            let label = element.attribute("name").or(filter_of(&element));
            let inner = path.labelled(&element.name, label);
            if let Some((kind, spelling)) = kind_of(&element.name) {
                let element = self.source.rest(element)?;
                let label = element.attribute("name").or(filter_of(&element));
                let inner = path.labelled(&element.name, label);
                let Some(entry) = self.entry(kind, spelling, &element, &inner) else { continue };
                let same = |other: &&PolicySet| {
                    other.kind == kind
                        && (other.key() == entry.key()
                            || entry.name.is_some() && other.name == entry.name)
                };
                if let Some(other) = profile.entries.iter().find(same) {
                    let other = FilePosition::new(&other.file, other.at);
                    let error = UnplacedError::new(
                        format!(
                            "found a second `{}` with this name and filter; the first is at {other}",
                            element.name
                        ),
                        "expected names and filters that differ",
                    );
                    self.report.error(at, inner, error);
                } else if profile.entries.len() == MOST_ENTRIES {
                    let error = UnplacedError::new(
                        "found too many sets of policies",
                        format!("expected {MOST_ENTRIES} in a profile at most"),
                    );
                    self.report.error(at, inner, error);
                } else {
                    profile.entries.push(entry);
                }
            } else if element.name == "base_name" {
                let element = self.source.rest(element)?;
                let inner = path.inner("base_name");
                entity::bases_in(&element, 2, &mut profile.bases, &inner, self.report);
            } else {
                match vendor::in_profile(&element.name) {
                    Some(product) => self.report.ignored(at, &inner, product),
                    None => self.unknown(&element, inner, Vec::new()),
                }
                self.source.skip()?;
            }
        }
        Ok(name.map(|_| profile))
    }

    fn entry(
        &mut self,
        kind: EntityKind,
        spelling: &'static str,
        element: &Element,
        path: &ElementPath<'_>,
    ) -> Option<PolicySet> {
        let filters: &[&str] =
            if kind.has_topic() { &["topic_filter", "topic_name_filter"] } else { &[] };
        self.attributes(element, &[&["name", "base_name"], filters].concat(), path);
        let entry = entity::read(kind, spelling, element, path, self.report)?;
        Some(PolicySet { in_dds: self.in_dds, ..entry })
    }

    fn base(
        &mut self,
        text: &str,
        most: usize,
        at: LineColumn,
        path: &ElementPath<'_>,
    ) -> Option<Base> {
        entity::base(text, most, at, path, self.report)
    }

    /// Returns the next element; `None` at the end of the enclosing one.
    fn step(&mut self, path: &ElementPath<'_>) -> Result<Option<Element>, FatalXmlError> {
        loop {
            match self.source.next()? {
                XmlItem::Open(element) => return Ok(Some(element)),
                XmlItem::Close | XmlItem::End => return Ok(None),
                XmlItem::Text(text, at) => {
                    let error = UnplacedError::new(
                        format!("found the text {}", quoted(&text)),
                        "expected elements alone",
                    );
                    self.report.error(at, path, error);
                }
            }
        }
    }

    /// Reports an element that is not allowed anywhere.
    fn unknown(&mut self, element: &Element, path: ElementPath<'_>, mut expected: Vec<&str>) {
        expected.extend(EntityKind::ALL.map(EntityKind::element));
        let error = UnplacedError::new(
            "found an unknown element",
            format!("expected {}", one_of(&expected)),
        );
        let meant = suggest(&element.name, expected);
        self.report.error(element.at, path, error.suggest(meant));
    }

    fn attributes(&mut self, element: &Element, known: &[&str], path: &ElementPath<'_>) {
        attributes(self.report, element, known, path);
    }

    /// Returns an element's name; reports a missing one.
    fn name(&mut self, element: &Element, path: &ElementPath<'_>) -> Option<String> {
        let name = element.attribute("name");
        let checked = match name {
            Some(name) => check_name(name),
            None => Err(UnplacedError::new("found no attribute `name`", "expected one")),
        };
        match checked {
            Ok(()) => name.map(str::to_owned),
            Err(error) => {
                self.report.error(element.at, path, error);
                None
            }
        }
    }
}

/// Reports attributes that an element does not have.
pub(super) fn attributes(
    report: &mut FileReport,
    element: &Element,
    known: &[&str],
    path: &ElementPath<'_>,
) {
    for (name, _) in &element.attributes {
        if known.contains(&name.as_str()) {
            continue;
        }
        match vendor::attribute(&element.name, name) {
            Some(product) => report.ignored(element.at, &path.inner(&format!("@{name}")), product),
            None => {
                let expected = if known.is_empty() {
                    "expected no attributes".to_owned()
                } else {
                    format!("expected {}", one_of(known))
                };
                let error = UnplacedError::new(
                    format!("found the unknown attribute {}", quoted(name)),
                    expected,
                );
                report.error(element.at, path, error.suggest(suggest(name, known.iter().copied())));
            }
        }
    }
}

/// Reports an element that is not allowed at its position.
pub(super) fn unknown_element(
    report: &mut FileReport,
    element: &Element,
    path: &ElementPath<'_>,
    expected: &[&str],
) {
    let error =
        UnplacedError::new("found an unknown element", format!("expected {}", one_of(expected)));
    let meant = suggest(&element.name, expected.iter().copied());
    report.error(element.at, path, error.suggest(meant));
}

fn library_of<'a>(libraries: &'a mut Libraries, name: &str) -> &'a mut Library {
    libraries.entry(name.into()).or_default()
}

pub(super) fn taken(element: &str, name: &str, other: &FilePosition) -> UnplacedError {
    UnplacedError::new(
        format!("found a second `{element}` of the name {}; the first is at {other}", quoted(name)),
        "expected another name",
    )
}

/// Checks that a name can be used in references.
pub(super) fn check_name(name: &str) -> Result<(), UnplacedError> {
    let error = |expected: &str| {
        Err(UnplacedError::new(format!("found the name {}", quoted(name)), expected))
    };
    match name {
        "" => Err(UnplacedError::new("found an empty name", "expected one of a letter or more")),
        _ if name.trim() != name => error("expected one without white space around it"),
        _ if name.contains("::") => {
            error("expected one without `::`, which joins the names of library and profile")
        }
        _ if name.contains(char::is_control) => error("expected one of printable letters"),
        _ if name.len() > LONGEST_NAME => error("expected one of 256 bytes at most"),
        _ => Ok(()),
    }
}

/// Returns the kind of entity whose policies an element has, and the element's name; products spell
/// one of them in three ways.
pub(super) fn kind_of(element: &str) -> Option<(EntityKind, &'static str)> {
    const OTHERS: [&str; 2] = ["domainparticipant_qos", "participant_qos"];
    if let Some(spelling) = OTHERS.into_iter().find(|other| *other == element) {
        return Some((EntityKind::DomainParticipant, spelling));
    }
    let kind = EntityKind::ALL.into_iter().find(|kind| kind.element() == element)?;
    Some((kind, kind.element()))
}

/// Returns the filter of an element, in either spelling.
pub(super) fn filter_of(element: &Element) -> Option<&str> {
    element.attribute("topic_filter").or(element.attribute("topic_name_filter"))
}

/// Reads a file's bytes. Of a file that is too large, one byte more than the limit is read, so that
/// it is refused.
pub(super) fn load(path: &std::path::Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(source::LARGEST_FILE as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}
