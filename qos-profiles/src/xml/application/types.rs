//! Conversion of XML types (DDS-XTYPES) to IDL.
//!
//! Owns: the elements and attributes of a type, and their spellings. Never does: look up a name or
//! judge a type; the compiler of the text does.

use super::type_text::{MOST_LINES, TypeText};
use crate::xml::error::{ElementPath, FileReport, UnplacedError, quoted};
use crate::xml::read::{attributes, unknown_element};
use crate::xml::source::Element;
use crate::xml::suggest::suggest;
use crate::xml::values::{no_text, one_of};

/// Elements allowed among types.
pub(in crate::xml) const DEFINITIONS: [&str; 11] = [
    "module",
    "struct",
    "union",
    "enum",
    "bitmask",
    "bitset",
    "typedef",
    "const",
    "forward_dcl",
    "include",
    "type",
];

/// Attributes that determine a type.
const TYPE: [&str; 11] = [
    "type",
    "nonBasicTypeName",
    "stringMaxLength",
    "sequenceMaxLength",
    "arrayDimensions",
    "mapKeyType",
    "key_type",
    "mapKeyNonBasicTypeName",
    "mapKeyStringMaxLength",
    "mapMaxLength",
    "name",
];
/// Attributes of members beside their types.
const MEMBER: [&str; 10] = [
    "key",
    "optional",
    "id",
    "hashid",
    "mustUnderstand",
    "must_understand",
    "external",
    "default",
    "tryConstruct",
    "try_construct",
];

/// Reader of the types of one file into the text.
pub(in crate::xml) struct TypeReader<'a> {
    pub(in crate::xml) text: &'a mut TypeText,
    pub(in crate::xml) report: &'a mut FileReport,
}

impl TypeReader<'_> {
    /// Adds the element around all types of a file.
    pub(in crate::xml) fn root(&mut self, in_dds: bool, element: &Element) -> u32 {
        let outer =
            in_dds.then(|| self.text.element(None, "dds", None, &self.report.file, element.at));
        self.text.element(outer, "types", None, &self.report.file, element.at)
    }

    pub(super) fn report_error(
        &mut self,
        element: &Element,
        path: &ElementPath<'_>,
        error: UnplacedError,
    ) {
        self.report.error(element.at, path, error);
    }

    /// Reads one definition with its contents; `outer` is the enclosing element.
    pub(in crate::xml) fn definition(
        &mut self,
        outer: u32,
        element: &Element,
        path: &ElementPath<'_>,
    ) {
        let path = &path.labelled(&element.name, element.attribute("name"));
        if self.text.is_full() {
            let found = format!("found types of more than {MOST_LINES} elements");
            return self.report_error(element, path, UnplacedError::new(found, "expected fewer"));
        }
        if let Err(error) = no_text(element, || "expected elements alone".to_owned()) {
            self.report_error(element, path, error);
        }
        match element.name.as_str() {
            "type" => {
                attributes(self.report, element, &[], path);
                element.children.iter().for_each(|child| self.definition(outer, child, path));
            }
            "module" => self.module(outer, element, path),
            "struct" => self.structure(outer, element, path),
            "union" => self.union(outer, element, path),
            "enum" => self.literals(outer, element, path, &ENUM),
            "bitmask" => self.literals(outer, element, path, &BITMASK),
            "bitset" => self.bitset(outer, element, path),
            "typedef" => self.typedef(outer, element, path),
            "const" => self.constant(outer, element, path),
            "forward_dcl" => self.forward(outer, element, path),
            "include" => {
                let error = UnplacedError::new(
                    "found an include inside another element",
                    "expected it directly in `types`",
                );
                self.report_error(element, path, error);
            }
            _ => unknown_element(self.report, element, path, &DEFINITIONS),
        }
    }

    fn open(&mut self, outer: u32, kind: &'static str, element: &Element) -> u32 {
        let label = element.attribute("name").map(|name| name.chars().take(60).collect::<String>());
        self.text.element(Some(outer), kind, label.as_deref(), &self.report.file, element.at)
    }

    fn module(&mut self, outer: u32, element: &Element, path: &ElementPath<'_>) {
        attributes(self.report, element, &["name"], path);
        let Some(name) = self.name(element, path) else { return };
        let own = self.open(outer, "module", element);
        self.text.line(own, &format!("module {name} {{"));
        element.children.iter().for_each(|child| self.definition(own, child, path));
        self.text.line(own, "};");
    }

    fn structure(&mut self, outer: u32, element: &Element, path: &ElementPath<'_>) {
        let known = ["name", "baseType", "extensibility", "nested", "topLevel", "autoid"];
        attributes(self.report, element, &known, path);
        let Some(name) = self.name(element, path) else { return };
        let notes = self.type_notes(element, path);
        let base = element.attribute("baseType").filter(|base| !base.is_empty());
        let base = base.and_then(|base| self.reference(base, "baseType", element, path));
        let base = base.map(|base| format!(" : {base}")).unwrap_or_default();
        let own = self.open(outer, "struct", element);
        self.text.line(own, &format!("{notes}struct {name}{base} {{"));
        for child in &element.children {
            let path = &path.labelled(&child.name, child.attribute("name"));
            match child.name.as_str() {
                "member" => self.member(own, child, path),
                _ => unknown_element(self.report, child, path, &["member"]),
            }
        }
        self.text.line(own, "};");
    }

    fn member(&mut self, outer: u32, element: &Element, path: &ElementPath<'_>) {
        self.leaf(element, path, &[&TYPE[..], &MEMBER[..]].concat());
        let declared = self.declared(element, path);
        let notes = self.member_notes(element, path);
        let Some(declared) = declared else { return };
        let own = self.open(outer, "member", element);
        self.text.line(own, &format!("{notes}{declared};"));
    }

    fn union(&mut self, outer: u32, element: &Element, path: &ElementPath<'_>) {
        let known = ["name", "extensibility", "nested", "topLevel", "autoid"];
        attributes(self.report, element, &known, path);
        let Some(name) = self.name(element, path) else { return };
        let notes = self.type_notes(element, path);
        let mut discriminator = None;
        let mut cases = Vec::new();
        for child in &element.children {
            let path = &path.inner(&child.name);
            match child.name.as_str() {
                "discriminator" if discriminator.is_none() => {
                    self.leaf(child, path, &["type", "nonBasicTypeName", "key"]);
                    let key = if self.is(child, &["key"], path) { "@key " } else { "" };
                    let kind = self.type_of(child, path);
                    discriminator = Some((child, kind.map(|kind| format!("{key}{kind}"))));
                }
                "discriminator" => {
                    let error =
                        UnplacedError::new("found this element a second time", "expected it once");
                    self.report_error(child, path, error);
                }
                "case" => cases.push(child),
                _ => unknown_element(self.report, child, path, &["discriminator", "case"]),
            }
        }
        let Some((kind, of)) = discriminator else {
            let error = UnplacedError::new(
                "found a union without `discriminator`",
                "expected one, in front of the cases",
            );
            return self.report_error(element, path, error);
        };
        let Some(of) = of else { return };
        let own = self.open(outer, "union", element);
        self.text.line(own, &format!("{notes}union {name} switch"));
        let switch = self.open(own, "discriminator", kind);
        self.text.line(switch, &format!("({of}) {{"));
        let kind = kind.attribute("type").unwrap_or_default();
        cases.into_iter().for_each(|case| self.case(own, case, kind, &path.inner("case")));
        self.text.line(own, "};");
    }

    fn case(&mut self, outer: u32, element: &Element, kind: &str, path: &ElementPath<'_>) {
        attributes(self.report, element, &[], path);
        if let Err(error) = no_text(element, || "expected elements alone".to_owned()) {
            self.report_error(element, path, error);
        }
        let own = self.open(outer, "case", element);
        let (mut labels, mut members) = (0, Vec::new());
        for child in &element.children {
            let path = &path.labelled(&child.name, child.attribute("name"));
            match child.name.as_str() {
                "caseDiscriminator" | "case_discriminator" => {
                    self.leaf(child, path, &["value"]);
                    let Some(value) = self.required(child, "value", path) else { continue };
                    let label = match value.trim() {
                        "default" => Some("default:".to_owned()),
                        value => self
                            .literal(kind, value, "value", child, path)
                            .map(|it| format!("case {it}:")),
                    };
                    let Some(label) = label else { continue };
                    let at = self.open(own, "caseDiscriminator", child);
                    self.text.line(at, &label);
                    labels += 1;
                }
                "member" => members.push(child),
                _ => unknown_element(self.report, child, path, &["caseDiscriminator", "member"]),
            }
        }
        if labels == 0 || members.len() != 1 {
            let found =
                format!("found a case with {labels} valid values and {} members", members.len());
            self.report_error(
                element,
                path,
                UnplacedError::new(
                    found,
                    "expected one `caseDiscriminator` or more, and one `member`",
                ),
            );
        }
        if let (1.., [member]) = (labels, &members[..]) {
            self.member(own, member, &path.labelled("member", member.attribute("name")));
        }
    }

    /// Reads an enum or a bitmask.
    fn literals(&mut self, outer: u32, element: &Element, path: &ElementPath<'_>, of: &Literals) {
        attributes(self.report, element, &["name", "bitBound", "bit_bound", "extensibility"], path);
        let Some(name) = self.name(element, path) else { return };
        let bound = self.either(element, ["bitBound", "bit_bound"], path);
        let bound = bound.and_then(|(which, text)| self.expression(text, which, element, path));
        let bound = bound.map(|bound| format!("@bit_bound({bound}) ")).unwrap_or_default();
        let extensibility = self.extensibility(element, path);
        let own = self.open(outer, of.element, element);
        self.text.line(own, &format!("{bound}{extensibility}{} {name} {{", of.element));
        let mut comma = "";
        for child in &element.children {
            let path = &path.labelled(&child.name, child.attribute("name"));
            let Some(item) = of.items.iter().find(|item| **item == child.name) else {
                unknown_element(self.report, child, path, of.items);
                continue;
            };
            self.leaf(child, path, of.attributes);
            let Some(name) = self.name(child, path) else { continue };
            let mut notes = String::new();
            if self.is(child, &["defaultLiteral", "default_literal"], path) {
                notes += "@default_literal ";
            }
            if let Some(value) = child.attribute(of.value)
                && let Some(value) = self.expression(value, of.value, child, path)
            {
                notes += &format!("@{}({value}) ", of.value);
            }
            let at = self.open(own, item, child);
            self.text.line(at, &format!("{comma}{notes}{name}"));
            comma = ", ";
        }
        self.text.line(own, "};");
    }

    fn bitset(&mut self, outer: u32, element: &Element, path: &ElementPath<'_>) {
        attributes(self.report, element, &["name", "baseType"], path);
        let Some(name) = self.name(element, path) else { return };
        let base = element.attribute("baseType").filter(|base| !base.is_empty());
        let base = base.and_then(|base| self.reference(base, "baseType", element, path));
        let base = base.map(|base| format!(" : {base}")).unwrap_or_default();
        let own = self.open(outer, "bitset", element);
        self.text.line(own, &format!("bitset {name}{base} {{"));
        for child in &element.children {
            let path = &path.labelled(&child.name, child.attribute("name"));
            if child.name != "bitfield" {
                unknown_element(self.report, child, path, &["bitfield"]);
                continue;
            }
            self.leaf(child, path, &["name", "type", "bitBound", "bit_bound"]);
            let Some((which, bits)) = self.either(child, ["bitBound", "bit_bound"], path) else {
                let error = UnplacedError::new(
                    "found no attribute `bitBound`",
                    "expected how many bits it has",
                );
                self.report_error(child, path, error);
                continue;
            };
            let Some(bits) = self.expression(bits, which, child, path) else { continue };
            let kind = match child.attribute("type") {
                None => String::new(),
                Some(_) => match self.type_of(child, path) {
                    Some(kind) => format!(", {kind}"),
                    None => continue,
                },
            };
            let name = match child.attribute("name") {
                // Padding bits have no name.
                None | Some("") => String::new(),
                Some(_) => match self.name(child, path) {
                    Some(name) => format!(" {name}"),
                    None => continue,
                },
            };
            let at = self.open(own, "bitfield", child);
            self.text.line(at, &format!("bitfield<{bits}{kind}>{name};"));
        }
        self.text.line(own, "};");
    }

    fn typedef(&mut self, outer: u32, element: &Element, path: &ElementPath<'_>) {
        self.leaf(element, path, &TYPE);
        let Some(declared) = self.declared(element, path) else { return };
        let own = self.open(outer, "typedef", element);
        self.text.line(own, &format!("typedef {declared};"));
    }

    fn constant(&mut self, outer: u32, element: &Element, path: &ElementPath<'_>) {
        self.leaf(element, path, &["name", "type", "nonBasicTypeName", "stringMaxLength", "value"]);
        let (name, kind) = (self.name(element, path), self.type_of(element, path));
        let value = self.required(element, "value", path).and_then(|value| {
            self.literal(
                element.attribute("type").unwrap_or_default(),
                value,
                "value",
                element,
                path,
            )
        });
        let (Some(name), Some(kind), Some(value)) = (name, kind, value) else { return };
        let own = self.open(outer, "const", element);
        self.text.line(own, &format!("const {kind} {name} = {value};"));
    }

    fn forward(&mut self, outer: u32, element: &Element, path: &ElementPath<'_>) {
        const KINDS: [&str; 2] = ["struct", "union"];
        self.leaf(element, path, &["name", "kind"]);
        let (name, kind) = (self.name(element, path), self.required(element, "kind", path));
        let (Some(name), Some(kind)) = (name, kind) else { return };
        if !KINDS.contains(&kind) {
            let error = UnplacedError::new(
                format!("kind: found {}", quoted(kind)),
                format!("expected {}", one_of(&KINDS)),
            );
            return self.report_error(element, path, error.suggest(suggest(kind, KINDS)));
        }
        let own = self.open(outer, "forward_dcl", element);
        self.text.line(own, &format!("{kind} {name};"));
    }
}

/// Difference between an enum and a bitmask.
struct Literals {
    element: &'static str,
    items: &'static [&'static str],
    attributes: &'static [&'static str],
    value: &'static str,
}

const ENUM: Literals = Literals {
    element: "enum",
    items: &["enumerator"],
    attributes: &["name", "value", "defaultLiteral", "default_literal"],
    value: "value",
};
const BITMASK: Literals = Literals {
    element: "bitmask",
    items: &["bit_value", "flag"],
    attributes: &["name", "position"],
    value: "position",
};
