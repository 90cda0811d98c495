//! Reading of the sets of policies in a file.
//!
//! Owns: the elements allowed in a set, in a policy, and among properties. Never does: parse a
//! value, or resolve a base.

use super::error::{ElementPath, FileReport, LineColumn, UnplacedError, quoted};
use super::model::{Base, PolicySet, Property, PropertySetting, Setting};
use super::read::{attributes, check_name, filter_of, unknown_element};
use super::source::Element;
use super::suggest::suggest;
use super::values::{WrongValue, boolean, no_text, one_of, text, value};
use super::vendor;
use crate::{EntityKind, Glob, PolicyId};
use std::sync::Arc;

/// Maximum number of properties of a set.
const MOST_PROPERTIES: usize = 256;
/// Maximum number of bases of one profile or set.
const MOST_BASES: usize = 16;

/// Property that selects one of the two kinds of delivery of a topic, where the policies
/// allow both.
pub(super) const DELIVERY: &str = "squall.delivery";
/// Samples in the order of arrival.
pub(super) const UNORDERED: &str = "unordered";
/// One order for all readers.
pub(super) const ATOMIC: &str = "atomic";

/// Properties of this product: their values, and the entities that have them.
const PROPERTIES: [(&str, Values, &[EntityKind]); 14] = [
    (
        DELIVERY,
        Values::Words(&[UNORDERED, ATOMIC]),
        &[EntityKind::Topic, EntityKind::DataWriter, EntityKind::DataReader],
    ),
    ("squall.engine.cores", Values::Cores, OF_PARTICIPANTS),
    ("squall.engine.scheduling", Values::Scheduling, OF_PARTICIPANTS),
    ("squall.log.cores", Values::Cores, OF_PARTICIPANTS),
    ("squall.log.scheduling", Values::Scheduling, OF_PARTICIPANTS),
    ("squall.memory.locked", Values::Words(TRUTH), OF_PARTICIPANTS),
    ("squall.memory.huge_pages", Values::Words(TRUTH), OF_PARTICIPANTS),
    ("squall.waiting", Values::Words(&["sleeping", "polling"]), OF_PARTICIPANTS),
    ("squall.topic.common_order", Values::Name, OF_TOPICS),
    ("squall.topic.sharded_by_partition", Values::Words(TRUTH), OF_TOPICS),
    ("squall.writer.memory", Values::Number { most: 1 << 40 }, OF_WRITERS),
    ("squall.writer.in_flight", Values::Number { most: 1 << 20 }, OF_WRITERS),
    ("squall.writer.max_sample_size", Values::Number { most: 1 << 30 }, OF_WRITERS),
    ("squall.reader.max_held_percent", Values::Number { most: 100 }, OF_READERS),
];
const OF_PARTICIPANTS: &[EntityKind] = &[EntityKind::DomainParticipant];
const OF_TOPICS: &[EntityKind] = &[EntityKind::Topic];
const OF_WRITERS: &[EntityKind] = &[EntityKind::DataWriter];
const OF_READERS: &[EntityKind] = &[EntityKind::DataReader];
const TRUTH: &[&str] = &["true", "false"];

/// Values of a property.
enum Values {
    Words(&'static [&'static str]),
    /// Numbers of cores, separated by commas.
    Cores,
    /// A scheduling class, with an optional priority.
    Scheduling,
    /// An arbitrary name.
    Name,
    /// A whole number with a maximum.
    Number {
        most: u64,
    },
}

impl Values {
    fn have(&self, value: &str) -> bool {
        let is_priority = |text: &str| text.parse().is_ok_and(|it: u8| (1..=99).contains(&it));
        match self {
            Values::Words(words) => words.contains(&value),
            Values::Cores => value.split(',').all(|core| core.trim().parse::<u16>().is_ok()),
            Values::Scheduling => match value.split_once(':') {
                None => value == "other",
                Some((class, priority)) => matches!(class, "fifo" | "rr") && is_priority(priority),
            },
            Values::Name => !value.trim().is_empty(),
            Values::Number { most } => value.parse().is_ok_and(|number: u64| number <= *most),
        }
    }

    fn expected(&self) -> String {
        match self {
            Values::Words(words) => format!("expected {}", one_of(words)),
            Values::Cores => "expected numbers of cores: `2` or `2,3`".to_owned(),
            Values::Scheduling => {
                "expected `other`, or `fifo:` or `rr:` and a priority from 1 to 99".to_owned()
            }
            Values::Name => "expected a name".to_owned(),
            Values::Number { most } => format!("expected a number from 0 to {most}"),
        }
    }

    /// Returns the allowed words, for suggestions.
    fn words(&self) -> &'static [&'static str] {
        match self {
            Values::Words(words) => words,
            Values::Cores | Values::Name | Values::Number { .. } => &[],
            Values::Scheduling => &["other", "fifo:1", "rr:1"],
        }
    }
}

/// Reads a set; `None` if its name or filter is invalid, so that it must not be referred to.
pub(super) fn read(
    kind: EntityKind,
    spelling: &'static str,
    element: &Element,
    path: &ElementPath<'_>,
    report: &mut FileReport,
) -> Option<PolicySet> {
    let mut sound = true;
    let mut error = |report: &mut FileReport, wrong| {
        report.error(element.at, path, wrong);
        sound = false;
    };
    let name = element.attribute("name");
    if let Some(Err(told)) = name.map(check_name) {
        error(report, told);
    }
    if element.attribute("topic_filter").is_some()
        && element.attribute("topic_name_filter").is_some()
    {
        error(
            report,
            UnplacedError::new(
                "found both `topic_filter` and `topic_name_filter`",
                "expected one of them",
            ),
        );
    }
    let filter =
        filter_of(element).filter(|_| kind.has_topic()).and_then(|text| match Glob::new(text) {
            Ok(filter) => Some(filter),
            Err(what) => {
                let found = format!("found the filter {}: {what}", quoted(text));
                error(
                    report,
                    UnplacedError::new(
                        found,
                        "expected a pattern of `*`, `?`, `[a-z]` and letters",
                    ),
                );
                None
            }
        });
    let own = element.attribute("base_name");
    let mut bases: Vec<Base> =
        own.and_then(|text| base(text, 3, element.at, path, report)).into_iter().collect();
    let mut entry = PolicySet {
        kind,
        element: spelling,
        name: name.map(Into::into),
        filter,
        bases: Vec::new(),
        settings: Vec::new(),
        properties: Vec::new(),
        file: Arc::clone(&report.file),
        at: element.at,
        in_dds: false,
        path: None,
        topic: None,
    };
    if let Err(error) = no_text(element, || "expected policies".to_owned()) {
        report.error(element.at, path, error);
    }
    let mut seen: Vec<&str> = Vec::new();
    for child in &element.children {
        let inner = path.inner(child.written());
        let name = standard_name(&child.name);
        if name == "base_name" {
            bases_in(child, 3, &mut bases, &inner, report);
            continue;
        }
        let policy = kind.policies().find(|(_, own)| *own == name);
        if policy.is_none() && name != "property" {
            match vendor::in_entity(&child.name, kind) {
                Some(product) => report.ignored(child.at, &inner, product),
                None => report.error(child.at, inner, unknown(kind, &child.name)),
            }
            continue;
        }
        if seen.contains(&name) {
            report.error(child.at, inner, again());
            continue;
        }
        seen.push(name);
        no_attributes(child, &inner, report);
        match policy {
            Some((policy, _)) => fields(policy, child, &inner, report, &mut entry.settings),
            None => properties(kind, child, &inner, report, &mut entry.properties),
        }
    }
    entry.bases = bases;
    sound.then_some(entry)
}

fn again() -> UnplacedError {
    UnplacedError::new("found this element a second time", "expected it once")
}

fn no_attributes(element: &Element, path: &ElementPath<'_>, report: &mut FileReport) {
    if let Some((name, _)) = element.attributes.first() {
        let error = UnplacedError::new(
            format!("found the unknown attribute {}", quoted(name)),
            "expected no attributes",
        );
        report.error(element.at, path, error);
    }
}

/// Returns the standard's name of a policy for which some products use another name.
fn standard_name(name: &str) -> &str {
    match name {
        "data_representation" => "representation",
        "type_consistency_enforcement" => "type_consistency",
        other => other,
    }
}

fn unknown(kind: EntityKind, name: &str) -> UnplacedError {
    let has = |kind: EntityKind| kind.policies().any(|(_, own)| own == standard_name(name));
    let others: Vec<&str> =
        EntityKind::ALL.into_iter().filter(|kind| has(*kind)).map(EntityKind::word).collect();
    if !others.is_empty() {
        return UnplacedError::new(
            format!("found a policy that a {} does not have", kind.word()),
            format!("expected it of a {}", others.join(" or ")),
        );
    }
    let mut names: Vec<&str> = kind.policies().map(|(_, name)| name).collect();
    names.push("property");
    let meant = suggest(name, names.iter().copied());
    UnplacedError::new("found an unknown element", format!("expected {}", one_of(&names)))
        .suggest(meant)
}

fn fields(
    policy: PolicyId,
    element: &Element,
    path: &ElementPath<'_>,
    report: &mut FileReport,
    settings: &mut Vec<Setting>,
) {
    let fields = policy.fields();
    let names: Vec<&str> = fields.iter().map(|field| field.name).collect();
    if let Err(error) = no_text(element, || format!("expected {}", one_of(&names))) {
        report.error(element.at, path, error);
    }
    let first = settings.len();
    for child in &element.children {
        let inner = path.inner(child.written());
        let name = match child.name.as_str() {
            // One product writes the name field of PARTITION this way; no other policy has a field
            // of this name.
            "names" => "name",
            other => other,
        };
        let Some(field) = names.iter().position(|own| *own == name) else {
            match vendor::in_policy(&element.name, name) {
                Some(product) => report.ignored(child.at, &inner, product),
                None => {
                    let error = UnplacedError::new(
                        "found an unknown element",
                        format!("expected {}", one_of(&names)),
                    );
                    report.error(
                        child.at,
                        inner,
                        error.suggest(suggest(name, names.iter().copied())),
                    );
                }
            }
            continue;
        };
        let number = u8::try_from(field).expect("no policy has so many fields");
        if settings[first..].iter().any(|setting| setting.field == number) {
            report.error(child.at, inner, again());
            continue;
        }
        no_attributes(child, &inner, report);
        match value(fields[field].ty, child) {
            Ok(value) => settings.push(Setting { policy, field: number, at: child.at, value }),
            Err(WrongValue { inside, error }) => {
                let (mut at, mut place) = (child.at, inner.to_string());
                for element in inside {
                    at = element.at;
                    place = format!("{place}/{}", element.name);
                }
                report.error(at, place, error);
            }
        }
    }
}

/// Reads `<property><value><element><name/><value/><propagate/></element>...</value></property>`.
fn properties(
    kind: EntityKind,
    element: &Element,
    path: &ElementPath<'_>,
    report: &mut FileReport,
    properties: &mut Vec<PropertySetting>,
) {
    for list in children(element, path, &["value"], report) {
        let path = path.inner(list.written());
        for item in children(list, &path, &["element"], report) {
            let path = path.inner(item.written());
            if properties.len() == MOST_PROPERTIES {
                let error = UnplacedError::new(
                    "found too many properties",
                    format!("expected {MOST_PROPERTIES} at most"),
                );
                report.error(item.at, path, error);
                return;
            }
            let Some(property) = property(item, &path, report) else { continue };
            if properties.iter().any(|other| other.property.name == property.name) {
                let error = UnplacedError::new(
                    format!("found the property {} a second time", quoted(&property.name)),
                    "expected it once",
                );
                report.error(item.at, path, error);
                continue;
            }
            if let Some(product) = vendor::property(&property.name) {
                report.ignored(item.at, &path.labelled("name", Some(&property.name)), product);
            }
            match known(kind, &property) {
                Ok(()) => properties.push(PropertySetting { property, at: item.at }),
                Err(error) => report.error(item.at, path, error),
            }
        }
    }
}

fn property(
    element: &Element,
    path: &ElementPath<'_>,
    report: &mut FileReport,
) -> Option<Property> {
    let (mut name, mut value, mut propagate) = (None, None, false);
    for child in children(element, path, &["name", "value", "propagate"], report) {
        let inner = path.inner(child.written());
        let read = text(child).and_then(|text| {
            match child.name.as_str() {
                "name" => name = Some(text.to_owned()),
                "value" => value = Some(text.to_owned()),
                _ => propagate = boolean(text)?,
            }
            Ok(())
        });
        if let Err(WrongValue { error, .. }) = read {
            report.error(child.at, inner, error);
        }
    }
    match (name, value) {
        (Some(name), Some(value)) if !name.is_empty() => Some(Property { name, value, propagate }),
        _ => {
            let error = UnplacedError::new(
                "found no name or no value of a property",
                "expected `<name>` and `<value>`",
            );
            report.error(element.at, path, error);
            None
        }
    }
}

/// Returns the children of an element, and reports those with other names.
fn children<'a>(
    element: &'a Element,
    path: &ElementPath<'_>,
    names: &[&str],
    report: &mut FileReport,
) -> Vec<&'a Element> {
    if let Err(error) = no_text(element, || format!("expected {}", one_of(names))) {
        report.error(element.at, path, error);
    }
    let mut found: Vec<&Element> = Vec::new();
    for child in &element.children {
        let inner = path.inner(child.written());
        if !names.contains(&child.name.as_str()) {
            match vendor::in_policy(&element.name, &child.name) {
                Some(product) => report.ignored(child.at, &inner, product),
                None => {
                    let error = UnplacedError::new(
                        "found an unknown element",
                        format!("expected {}", one_of(names)),
                    );
                    report.error(
                        child.at,
                        inner,
                        error.suggest(suggest(&child.name, names.iter().copied())),
                    );
                }
            }
        } else if child.name != "element" && found.iter().any(|other| other.name == child.name) {
            report.error(child.at, inner, again());
        } else {
            no_attributes(child, &inner, report);
            found.push(child);
        }
    }
    found
}

/// Checks that a property of this product exists and has an allowed value; other properties may
/// have any value.
fn known(kind: EntityKind, property: &Property) -> Result<(), UnplacedError> {
    if !property.name.starts_with("squall.") {
        return Ok(());
    }
    let names = PROPERTIES.map(|(name, ..)| name);
    let Some((name, values, kinds)) = PROPERTIES.iter().find(|(name, ..)| *name == property.name)
    else {
        let error = UnplacedError::new(
            format!("found the unknown property {}", quoted(&property.name)),
            format!("expected {}", one_of(&names)),
        );
        return Err(error.suggest(suggest(&property.name, names)));
    };
    if !kinds.contains(&kind) {
        let words: Vec<&str> = kinds.iter().map(|kind| kind.word()).collect();
        return Err(UnplacedError::new(
            format!("found the property `{name}`, which a {} does not have", kind.word()),
            format!("expected it of a {}", words.join(" or ")),
        ));
    }
    if !values.have(&property.value) {
        let error = UnplacedError::new(
            format!("found {} as the value of `{name}`", quoted(&property.value)),
            values.expected(),
        );
        return Err(error.suggest(suggest(&property.value, values.words().iter().copied())));
    }
    Ok(())
}

/// Reads `<base_name><element>A</element><element>B</element></base_name>`; a later base takes
/// precedence.
pub(super) fn bases_in(
    element: &Element,
    most: usize,
    bases: &mut Vec<Base>,
    path: &ElementPath<'_>,
    report: &mut FileReport,
) {
    attributes(report, element, &[], path);
    if let Err(error) = no_text(element, || "expected `<element>` for each base".to_owned()) {
        report.error(element.at, path, error);
    }
    for child in &element.children {
        let inner = path.inner(&child.name);
        if child.name != "element" {
            unknown_element(report, child, &inner, &["element"]);
        } else if bases.len() == MOST_BASES {
            let expected = format!("expected {MOST_BASES} at most");
            let error = UnplacedError::new("found too many bases", expected);
            report.error(child.at, inner, error);
        } else if let Some(base) = base(&child.text, most, child.at, &inner, report) {
            bases.push(base);
        }
    }
}

/// Reads a reference to a base: at most `most` names, joined by `::`.
pub(super) fn base(
    text: &str,
    most: usize,
    at: LineColumn,
    path: &ElementPath<'_>,
    report: &mut FileReport,
) -> Option<Base> {
    let parts = text.split("::");
    if parts.clone().count() > most || parts.into_iter().any(|part| check_name(part).is_err()) {
        let expected = match most {
            2 => "expected `Profile` or `Library::Profile`",
            _ => "expected `Profile`, `Library::Profile` or `Library::Profile::Name`",
        };
        report.error(
            at,
            path,
            UnplacedError::new(format!("found the base {}", quoted(text)), expected),
        );
        return None;
    }
    if vendor::is_base_without_effect(text) {
        report.ignored(at, &path.labelled("base_name", Some(text)), vendor::RTI);
    }
    Some(Base { name: text.into(), at })
}
