//! Writing of a resolved profile to a file.
//!
//! Owns: the guarantee that the written file is read back as the same values, whatever the defaults
//! are then. Never does: leave a value out.

use super::octets::to_text;
use super::resolved::{ResolvedEntity, ResolvedProfile};
use crate::{FieldType, Value};
use std::fmt::Write;

/// Indentation of an element relative to its parent.
const INDENT: &str = "    ";

impl ResolvedProfile {
    /// Returns the profile as a file, with all its values.
    pub fn to_xml(&self) -> String {
        let mut out = Writer { text: String::new(), open: Vec::new() };
        out.text.push_str("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
        out.begin("dds", &[("xmlns", Some("http://www.omg.org/spec/DDS-XML"))]);
        let (library, name) = match self.name.split_once("::") {
            Some((library, name)) => (Some(library), name),
            None => (None, self.name.as_str()),
        };
        if library.is_some() {
            out.begin("qos_library", &[("name", library)]);
        }
        out.begin("qos_profile", &[("name", Some(name))]);
        for entity in &self.entities {
            out.entity(entity);
        }
        while !out.open.is_empty() {
            out.end();
        }
        out.text
    }
}

struct Writer {
    text: String,
    open: Vec<&'static str>,
}

impl Writer {
    fn line(&mut self, line: &str) {
        for _ in &self.open {
            self.text.push_str(INDENT);
        }
        self.text.push_str(line);
        self.text.push('\n');
    }

    fn begin(&mut self, element: &'static str, attributes: &[(&str, Option<&str>)]) {
        let mut line = format!("<{element}");
        for (name, value) in attributes {
            if let Some(value) = value {
                line += &format!(" {name}=\"{}\"", escaped(value));
            }
        }
        self.line(&(line + ">"));
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
        let attributes =
            [("name", entity.name.as_deref()), ("topic_filter", entity.topic_filter.as_deref())];
        self.begin(kind.element(), &attributes);
        for (policy, name) in kind.policies() {
            self.begin(name, &[]);
            for (index, field) in policy.fields().iter().enumerate() {
                if let Some(value) = entity.qos.value(policy, index) {
                    self.field(field.name, field.ty, &value);
                }
            }
            self.end();
        }
        if !entity.properties.is_empty() {
            self.begin("property", &[]);
            self.begin("value", &[]);
            for property in &entity.properties {
                self.begin("element", &[]);
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
                self.begin(name, &[]);
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
        self.begin(name, &[]);
        for item in items {
            self.leaf("element", &item);
        }
        self.end();
    }
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
