//! Writing of a resolved profile to a file.
//!
//! Owns: the guarantee that the written file is read back as the same values; of a single profile
//! also if the defaults are others then. Never does: leave a value out that a file names.

use super::error::Ignored;
use super::model::Property;
use super::octets::to_text;
use super::resolved::{Origin, ResolvedEntity, ResolvedProfile};
use crate::{FieldType, Value};
use std::fmt::Write;

/// Indentation of an element relative to its parent.
const INDENT: &str = "    ";

impl ResolvedProfile {
    /// Returns the profile as a file, with all its values.
    pub fn to_xml(&self) -> String {
        let mut out = Writer::new(false);
        out.root();
        let (library, name) = split(&self.name);
        if library.is_some() {
            out.begin("qos_library", &attribute("name", library));
        }
        out.begin("qos_profile", &attribute("name", Some(name)));
        for entity in &self.entities {
            out.entity(entity);
        }
        while !out.open.is_empty() {
            out.end();
        }
        out.text
    }
}

/// Returns profiles as one file, with the values that are not the standard's defaults.
pub(super) fn all(
    profiles: &[ResolvedProfile],
    default: Option<&str>,
    ignored: &[Ignored],
) -> String {
    let mut out = Writer::new(true);
    if !ignored.is_empty() {
        out.text.push_str("<!--\n    Without an effect here:\n");
        for ignored in ignored {
            // Two hyphens must not occur in a comment.
            let line = ignored.to_string().replace("--", "- -");
            out.text.push_str(&format!("    {line}\n"));
        }
        out.text.push_str("-->\n");
    }
    out.root();
    let mut open = None;
    for profile in profiles {
        let (library, name) = split(&profile.name);
        if library != open {
            if open.is_some() {
                out.end();
            }
            if library.is_some() {
                out.begin("qos_library", &attribute("name", library));
            }
            open = library;
        }
        let is_default = default == Some(profile.name.as_str());
        let is_default = attribute("is_default_qos", is_default.then_some("true"));
        out.begin("qos_profile", &(attribute("name", Some(name)) + &is_default));
        profile.entities.iter().for_each(|entity| out.entity(entity));
        out.end();
    }
    while !out.open.is_empty() {
        out.end();
    }
    out.text
}

/// Splits the full name of a profile into its library, if it has one, and its name.
fn split(name: &str) -> (Option<&str>, &str) {
    match name.split_once("::") {
        Some((library, name)) => (Some(library), name),
        None => (None, name),
    }
}

struct Writer {
    text: String,
    open: Vec<&'static str>,
    /// Whether values with the standard's default are left out, and properties of other products.
    is_short: bool,
}

impl Writer {
    fn new(is_short: bool) -> Writer {
        let text = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n".to_owned();
        Writer { text, open: Vec::new(), is_short }
    }

    fn root(&mut self) {
        self.begin("dds", &attribute("xmlns", Some("http://www.omg.org/spec/DDS-XML")));
    }

    fn line(&mut self, line: &str) {
        for _ in &self.open {
            self.text.push_str(INDENT);
        }
        self.text.push_str(line);
        self.text.push('\n');
    }

    fn begin(&mut self, element: &'static str, attributes: &str) {
        self.line(&format!("<{element}{attributes}>"));
        self.open.push(element);
    }

    fn end(&mut self) {
        if let Some(element) = self.open.pop() {
            self.line(&format!("</{element}>"));
        }
    }

    fn leaf(&mut self, element: &str, text: &str) {
        self.line(&format!("<{element}>{}</{element}>", escaped(text)));
    }

    fn entity(&mut self, entity: &ResolvedEntity) {
        let kind = entity.qos.kind();
        let filter = attribute("topic_filter", entity.topic_filter.as_deref());
        self.begin(kind.element(), &(attribute("name", entity.name.as_deref()) + &filter));
        for (policy, name) in kind.policies() {
            let named = |index: usize| !matches!(entity.origin(policy, index), Origin::Default);
            let fields = policy.fields();
            if self.is_short && !(0..fields.len()).any(named) {
                continue;
            }
            self.begin(name, "");
            for (index, field) in fields.iter().enumerate() {
                if let Some(value) = entity.qos.value(policy, index)
                    && (named(index) || !self.is_short)
                {
                    self.field(field.name, field.ty, &value);
                }
            }
            self.end();
        }
        let is_kept = |property: &&Property| {
            !self.is_short || super::vendor::property(&property.name).is_none()
        };
        let properties: Vec<&Property> = entity.properties.iter().filter(is_kept).collect();
        if !properties.is_empty() {
            self.begin("property", "");
            self.begin("value", "");
            for property in properties {
                self.begin("element", "");
                self.leaf("name", &property.name);
                self.leaf("value", &property.value);
                self.leaf("propagate", if property.propagate { "true" } else { "false" });
                self.end();
            }
            self.end();
            self.end();
        }
        self.end();
    }

    fn field(&mut self, name: &'static str, ty: FieldType, value: &Value) {
        let constant = |index: &u8| match ty {
            FieldType::Kind(names) | FieldType::Kinds(names) => {
                names.constant(usize::from(*index)).unwrap_or_default()
            }
            _ => String::new(),
        };
        match value {
            Value::Bool(value) => self.leaf(name, if *value { "true" } else { "false" }),
            Value::Unsigned(value) => self.leaf(name, &value.to_string()),
            Value::Signed(value) => self.leaf(name, &value.to_string()),
            Value::Length(length) => match length.limit() {
                Some(limit) => self.leaf(name, &limit.to_string()),
                None => self.leaf(name, "LENGTH_UNLIMITED"),
            },
            Value::Duration(duration) => {
                self.begin(name, "");
                if duration.is_infinite() {
                    self.leaf("sec", "DURATION_INFINITE_SEC");
                    self.leaf("nanosec", "DURATION_INFINITE_NSEC");
                } else {
                    self.leaf("sec", &duration.sec().to_string());
                    self.leaf("nanosec", &duration.nanosec().to_string());
                }
                self.end();
            }
            Value::Kind(index) => self.leaf(name, &constant(index)),
            Value::Octets(bytes) => self.leaf(name, &to_text(bytes)),
            Value::Texts(texts) => self.list(name, texts.iter().cloned()),
            Value::Kinds(kinds) => self.list(name, kinds.iter().map(constant)),
        }
    }

    fn list(&mut self, name: &'static str, items: impl Iterator<Item = String>) {
        self.begin(name, "");
        for item in items {
            self.leaf("element", &item);
        }
        self.end();
    }
}

/// Returns the text of an attribute, after a space; empty without a value.
fn attribute(name: &str, value: Option<&str>) -> String {
    value.map(|value| format!(" {name}=\"{}\"", escaped(value))).unwrap_or_default()
}

/// Returns a text with markup escaped and white space preserved.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            letter if letter.is_control() => {
                // Writing to a string cannot fail.
                let _ = write!(escaped, "&#{};", u32::from(letter));
            }
            letter => escaped.push(letter),
        }
    }
    escaped
}
