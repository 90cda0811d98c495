//! Reading of a file's domains and participants.
//!
//! Owns: the elements allowed in them, and the sets of policies they define. Never does: resolve
//! a reference.

use super::model::{DomainOrParticipant, Endpoint, Filter, Group, Registered, Topic};
use crate::EntityKind;
use crate::xml::entity;
use crate::xml::error::{ElementPath, FileReport, LineColumn, UnplacedError, quoted};
use crate::xml::model::{Base, Library, PolicySet};
use crate::xml::read::{attributes, check_name, kind_of, taken, unknown_element};
use crate::xml::source::Element;
use crate::xml::values::no_text;
use std::sync::Arc;

/// Largest number of a domain, as in the standard's default port mapping.
const GREATEST_DOMAIN: u32 = 232;
/// Maximum number of elements in a domain, a participant, a publisher or a subscriber.
const MOST_PARTS: usize = 4096;
/// Maximum number of parameters of a filter: `%0` to `%99`.
const MOST_PARAMETERS: usize = 100;

/// Reads a domain; `None` if it must not be referred to.
pub(in crate::xml) fn domain(
    library_name: &str,
    library: &mut Library,
    element: &Element,
    path: &ElementPath<'_>,
    report: &mut FileReport,
) -> Option<DomainOrParticipant> {
    attributes(report, element, &["name", "base_name", "domain_id"], path);
    ApplicationReader { library_name, library, report, room: Box::default() }.domain_or_participant(
        element,
        path,
        &["register_type", "topic"],
    )
}

/// Reads a participant; `None` if it must not be referred to.
pub(in crate::xml) fn participant(
    library_name: &str,
    library: &mut Library,
    element: &Element,
    path: &ElementPath<'_>,
    report: &mut FileReport,
) -> Option<DomainOrParticipant> {
    attributes(report, element, &["name", "base_name", "domain_ref", "domain_id"], path);
    const PARTS: [&str; 7] = [
        "register_type",
        "topic",
        "publisher",
        "subscriber",
        "data_writer",
        "data_reader",
        "domain_participant_qos",
    ];
    ApplicationReader { library_name, library, report, room: Box::default() }
        .domain_or_participant(element, path, &PARTS)
}

struct ApplicationReader<'a> {
    library_name: &'a str,
    library: &'a mut Library,
    report: &'a mut FileReport,
    /// Name of the domain or participant, in its library.
    room: Box<str>,
}

impl ApplicationReader<'_> {
    fn report_error(&mut self, at: LineColumn, path: &ElementPath<'_>, wrong: UnplacedError) {
        self.report.error(at, path, wrong);
    }

    fn domain_or_participant(
        mut self,
        element: &Element,
        path: &ElementPath<'_>,
        parts: &[&str],
    ) -> Option<DomainOrParticipant> {
        let name = self.name(element, path);
        self.room = name.unwrap_or_default().into();
        let mut owner = DomainOrParticipant {
            library: self.library_name.into(),
            name: crate::xml::model::full_name(self.library_name, &self.room),
            base: self.reference(element, "base_name", path),
            domain: self.reference(element, "domain_ref", path),
            id: self.domain_id(element, path),
            qos: None,
            types: Vec::new(),
            topics: Vec::new(),
            publishers: vec![Group::default()],
            subscribers: vec![Group::default()],
            file: Arc::clone(&self.report.file),
            at: element.at,
            path: path.to_string().into(),
        };
        self.no_text(element, path);
        for child in self.parts_of(element, path) {
            let inner = &path.labelled(&child.name, child.attribute("name"));
            match child.name.as_str() {
                part if !parts.contains(&part)
                    && kind_of(part).is_none_or(|(kind, _)| {
                        kind != EntityKind::DomainParticipant || !parts.contains(&kind.element())
                    }) =>
                {
                    unknown_element(self.report, child, inner, parts)
                }
                "register_type" => self.registered(child, inner, &mut owner.types),
                "topic" => self.topic(child, inner, &mut owner.topics),
                "publisher" | "subscriber" => {
                    let Some(group) = self.group(child, inner) else { continue };
                    let groups = if child.name == "publisher" {
                        &mut owner.publishers
                    } else {
                        &mut owner.subscribers
                    };
                    if groups.iter().any(|other| other.name == group.name) {
                        self.again(child, group.name.as_deref().unwrap_or_default(), inner);
                    } else {
                        groups.push(group);
                    }
                }
                "data_writer" => {
                    self.endpoint("", child, inner, &mut owner.publishers[0].endpoints)
                }
                "data_reader" => {
                    self.endpoint("", child, inner, &mut owner.subscribers[0].endpoints)
                }
                _ if owner.qos.is_some() => {
                    self.report_error(
                        child.at,
                        inner,
                        UnplacedError::new("found this element a second time", "expected it once"),
                    );
                }
                _ => {
                    owner.qos =
                        self.qos(EntityKind::DomainParticipant, "participant", None, child, inner)
                }
            }
        }
        name.map(|_| owner)
    }

    /// Returns the elements in an element, up to the limit.
    fn parts_of<'e>(&mut self, element: &'e Element, path: &ElementPath<'_>) -> &'e [Element] {
        let parts = &element.children[..];
        if parts.len() > MOST_PARTS {
            let found = format!("found {} elements in it", parts.len());
            self.report_error(
                element.at,
                path,
                UnplacedError::new(found, format!("expected {MOST_PARTS} at most")),
            );
        }
        &parts[..parts.len().min(MOST_PARTS)]
    }

    fn no_text(&mut self, element: &Element, path: &ElementPath<'_>) {
        if let Err(error) = no_text(element, || "expected elements alone".to_owned()) {
            self.report_error(element.at, path, error);
        }
    }

    fn again(&mut self, element: &Element, name: &str, path: &ElementPath<'_>) {
        let found = format!("found a second `{}` of the name {}", element.name, quoted(name));
        self.report_error(
            element.at,
            path,
            UnplacedError::new(found, "expected names that differ"),
        );
    }

    /// Returns the name of an element; references and sets of policies combine several names.
    fn name<'e>(&mut self, element: &'e Element, path: &ElementPath<'_>) -> Option<&'e str> {
        let checked = match element.attribute("name") {
            None => Err(UnplacedError::new("found no attribute `name`", "expected one")),
            Some(name) if name.contains('/') => {
                let found = format!("found the name {}", quoted(name));
                Err(UnplacedError::new(found, "expected one without `/`"))
            }
            Some(name) => check_name(name).map(|()| name),
        };
        checked.map_err(|error| self.report_error(element.at, path, error)).ok()
    }

    /// Returns an attribute that names another item in these files.
    fn named<'e>(
        &mut self,
        element: &'e Element,
        attribute: &str,
        path: &ElementPath<'_>,
    ) -> Option<&'e str> {
        let error = match element.attribute(attribute) {
            Some("") => {
                UnplacedError::new(format!("{attribute}: found nothing"), "expected a name")
            }
            Some(name) => return Some(name),
            None => UnplacedError::new(format!("found no attribute `{attribute}`"), "expected one"),
        };
        self.report_error(element.at, path, error);
        None
    }

    /// Returns a reference to a domain or participant: `Name`, or `Library::Name`.
    fn reference(
        &mut self,
        element: &Element,
        attribute: &str,
        path: &ElementPath<'_>,
    ) -> Option<Base> {
        let text = element.attribute(attribute)?;
        let parts: Vec<&str> = text.splitn(4, "::").collect();
        if parts.len() > 2 || parts.iter().any(|part| check_name(part).is_err()) {
            let found = format!("{attribute}: found {}", quoted(text));
            self.report_error(
                element.at,
                path,
                UnplacedError::new(found, "expected `Name` or `Library::Name`"),
            );
            return None;
        }
        Some(Base { name: text.into(), at: element.at })
    }

    fn domain_id(&mut self, element: &Element, path: &ElementPath<'_>) -> Option<u32> {
        let text = element.attribute("domain_id")?;
        let id = text.parse().ok().filter(|id| *id <= GREATEST_DOMAIN);
        if id.is_none() {
            let found = format!("domain_id: found {}", quoted(text));
            let expected = format!("expected a number from 0 to {GREATEST_DOMAIN}");
            self.report_error(element.at, path, UnplacedError::new(found, expected));
        }
        id
    }

    fn registered(
        &mut self,
        element: &Element,
        path: &ElementPath<'_>,
        types: &mut Vec<Registered>,
    ) {
        attributes(self.report, element, &["name", "type_ref"], path);
        self.leaf(element, path);
        let Some(name) = self.named(element, "name", path) else { return };
        let of = match element.attribute("type_ref") {
            Some(_) => self.named(element, "type_ref", path),
            None => Some(name),
        };
        let Some(of) = of else { return };
        if types.iter().any(|other| *other.name == *name) {
            return self.again(element, name, path);
        }
        let of = of.strip_prefix("::").unwrap_or(of).into();
        types.push(Registered { name: name.into(), of, at: element.at });
    }

    fn leaf(&mut self, element: &Element, path: &ElementPath<'_>) {
        self.no_text(element, path);
        for child in &element.children {
            let error = UnplacedError::new("found an unknown element", "expected attributes alone");
            self.report_error(child.at, &path.inner(&child.name), error);
        }
    }

    fn topic(&mut self, element: &Element, path: &ElementPath<'_>, topics: &mut Vec<Topic>) {
        attributes(self.report, element, &["name", "register_type_ref"], path);
        let (name, registered) =
            (self.name(element, path), self.named(element, "register_type_ref", path));
        let (qos, _) = self.parts(EntityKind::Topic, "", name, name, element, path);
        let (Some(name), Some(registered)) = (name, registered) else { return };
        if topics.iter().any(|other| *other.name == *name) {
            return self.again(element, name, path);
        }
        topics.push(Topic {
            name: name.into(),
            registered: registered.into(),
            qos,
            at: element.at,
        });
    }

    /// Reads a publisher or subscriber.
    fn group(&mut self, element: &Element, path: &ElementPath<'_>) -> Option<Group> {
        attributes(self.report, element, &["name"], path);
        self.no_text(element, path);
        let (kind, part) = match element.name.as_str() {
            "publisher" => (EntityKind::Publisher, "data_writer"),
            _ => (EntityKind::Subscriber, "data_reader"),
        };
        let name = self.name(element, path);
        let mut group = Group { name: name.map(Into::into), qos: None, endpoints: Vec::new() };
        for child in self.parts_of(element, path) {
            let inner = &path.labelled(&child.name, child.attribute("name"));
            if child.name == part {
                self.endpoint(name.unwrap_or_default(), child, inner, &mut group.endpoints);
            } else if child.name != kind.element() {
                unknown_element(self.report, child, inner, &[part, kind.element()]);
            } else if group.qos.is_some() {
                self.report_error(
                    child.at,
                    inner,
                    UnplacedError::new("found this element a second time", "expected it once"),
                );
            } else {
                group.qos = self.qos(kind, name.unwrap_or_default(), None, child, inner);
            }
        }
        name.map(|_| group)
    }

    fn endpoint(
        &mut self,
        group: &str,
        element: &Element,
        path: &ElementPath<'_>,
        all: &mut Vec<Endpoint>,
    ) {
        attributes(self.report, element, &["name", "topic_ref"], path);
        let kind = match element.name.as_str() {
            "data_writer" => EntityKind::DataWriter,
            _ => EntityKind::DataReader,
        };
        let (name, topic) = (self.name(element, path), self.named(element, "topic_ref", path));
        let (qos, filter) = self.parts(kind, group, name, topic, element, path);
        let (Some(name), Some(topic)) = (name, topic) else { return };
        if all.iter().any(|other| *other.name == *name) {
            return self.again(element, name, path);
        }
        all.push(Endpoint { name: name.into(), topic: topic.into(), qos, filter, at: element.at });
    }

    /// Reads the policies and the filter in a topic, writer or reader.
    fn parts(
        &mut self,
        kind: EntityKind,
        group: &str,
        name: Option<&str>,
        topic: Option<&str>,
        element: &Element,
        path: &ElementPath<'_>,
    ) -> (Option<Box<str>>, Option<Filter>) {
        self.no_text(element, path);
        let (mut qos, mut filter) = (None, None);
        let has_filter = kind == EntityKind::DataReader;
        let known: &[&str] =
            if has_filter { &[kind.element(), "filter"] } else { &[kind.element()] };
        let mut seen: Vec<&str> = Vec::new();
        for child in &element.children {
            let inner = &path.labelled(&child.name, child.attribute("name"));
            // The standard and products use different names for this element.
            let part = if child.name == "content_filter" { "filter" } else { &child.name };
            if !known.contains(&part) {
                unknown_element(self.report, child, inner, known);
            } else if seen.contains(&part) {
                self.report_error(
                    child.at,
                    inner,
                    UnplacedError::new("found this element a second time", "expected it once"),
                );
            } else if part == "filter" {
                filter = self.filter(child, inner);
            } else {
                let own = name.unwrap_or_default();
                let own = if group.is_empty() { own.to_owned() } else { format!("{group}/{own}") };
                qos = self.qos(kind, &own, topic, child, inner);
            }
            seen.push(part);
        }
        (qos, filter)
    }

    /// Reads a set of policies, which is named after its entity. Returns its name in the library.
    fn qos(
        &mut self,
        kind: EntityKind,
        name: &str,
        topic: Option<&str>,
        element: &Element,
        path: &ElementPath<'_>,
    ) -> Option<Box<str>> {
        attributes(self.report, element, &["base_name"], path);
        let (_, spelling) = kind_of(&element.name)?;
        let entry = entity::read(kind, spelling, element, path, self.report)?;
        let name = format!("{}/{name}", self.room);
        if let Some(other) = self.library.taken(&name, Some(kind)) {
            // A second entity or library of the same name is only reported as an error.
            let error = taken(&element.name, &name, &other);
            self.report_error(element.at, path, error);
            return None;
        }
        let full_name = crate::xml::model::full_name(self.library_name, &name).into();
        let entry = PolicySet {
            name: Some(name.as_str().into()),
            path: Some(path.to_string().into()),
            topic: topic.map(Into::into),
            ..entry
        };
        self.library.add_entry(&name, entry);
        Some(full_name)
    }

    fn filter(&mut self, element: &Element, path: &ElementPath<'_>) -> Option<Filter> {
        attributes(self.report, element, &["name", "kind"], path);
        self.no_text(element, path);
        if let Some(kind) = element.attribute("kind").filter(|kind| *kind != "builtin.sql") {
            let found = format!("kind: found {}", quoted(kind));
            self.report_error(
                element.at,
                path,
                UnplacedError::new(found, "expected `builtin.sql`, which is the only one"),
            );
        }
        let (mut expression, mut parameters) = (None, Vec::new());
        let mut seen: Vec<&str> = Vec::new();
        for child in &element.children {
            let inner = &path.inner(&child.name);
            attributes(self.report, child, &[], inner);
            match child.name.as_str() {
                name if seen.contains(&name) => {
                    self.report_error(
                        child.at,
                        inner,
                        UnplacedError::new("found this element a second time", "expected it once"),
                    );
                }
                "expression" => expression = self.text(child, inner).map(Box::from),
                "parameter_list" | "expression_parameters" => {
                    self.no_text(child, inner);
                    for item in &child.children {
                        let inner = &inner.inner(&item.name);
                        if !["param", "element"].contains(&item.name.as_str()) {
                            unknown_element(self.report, item, inner, &["param"]);
                            continue;
                        }
                        attributes(self.report, item, &[], inner);
                        parameters.extend(self.text(item, inner).map(str::to_owned));
                    }
                }
                _ => unknown_element(self.report, child, inner, &["expression", "parameter_list"]),
            }
            seen.push(&child.name);
        }
        if parameters.len() > MOST_PARAMETERS {
            let found = format!("found {} parameters", parameters.len());
            self.report_error(
                element.at,
                path,
                UnplacedError::new(found, format!("expected {MOST_PARAMETERS} at most")),
            );
        }
        if !seen.contains(&"expression") {
            self.report_error(
                element.at,
                path,
                UnplacedError::new("found no `expression`", "expected one"),
            );
        }
        let name = element.attribute("name").map(Into::into);
        Some(Filter { name, expression: expression?, parameters, at: element.at })
    }

    fn text<'e>(&mut self, element: &'e Element, path: &ElementPath<'_>) -> Option<&'e str> {
        match element.children.first() {
            None => Some(&element.text),
            Some(inner) => {
                let error = UnplacedError::new("found an element", "expected a text");
                self.report_error(inner.at, &path.inner(&inner.name), error);
                None
            }
        }
    }
}
