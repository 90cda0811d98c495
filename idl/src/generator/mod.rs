//! A specification to Rust.
//!
//! Owns the mapping of IDL types to Rust types and the look of the generated code, which is as
//! rustfmt leaves it. What a type does on the wire is left to the derive macro, which reads the
//! attributes written here.

mod docs;
mod enumerations;
mod names;
mod structures;
mod values;

use crate::constant::Value;
use crate::model::{
    Constant, Definition, Element, Extensibility, Module, NamedKind, Placement, Primitive,
    ScopedName, Specification, Type, TypeNotes, Typedef, Verbatim,
};
use names::Names;

/// Where the derive macro looks for its company unless it is told otherwise.
const DEFAULT_CRATE_PATH: &str = "dds_api::types";

/// What derive macros every value gets.
const DERIVES: &str = "Clone, Debug, PartialEq";

/// As much of a line as rustfmt gives to the arguments of an attribute.
const ATTRIBUTE_WIDTH: usize = 70;

/// The longest `#[derive]` that rustfmt leaves on one line.
const DERIVE_WIDTH: usize = 96;

/// The longest line of rustfmt.
const LINE_WIDTH: usize = 100;

/// Writes the Rust for a specification; the code needs the crate `dds-api`.
pub fn generate(specification: &Specification) -> String {
    Generator::new().generate(specification)
}

/// Writes Rust for specifications.
#[derive(Clone, Debug)]
pub struct Generator {
    crate_path: String,
    extensibility: Option<Extensibility>,
}

impl Generator {
    /// A generator of code that needs the crate `dds-api`.
    pub fn new() -> Self {
        Self { crate_path: DEFAULT_CRATE_PATH.to_owned(), extensibility: None }
    }

    /// A generator of code that finds `DdsType` and its company elsewhere, such as in `idl_cdr`, or in `idl_xtypes::types`
    /// where the IDL has an `any`.
    #[must_use]
    pub fn crate_path(mut self, path: &str) -> Self {
        path.clone_into(&mut self.crate_path);
        self
    }

    /// Structs and unions that do not say how they may change are of this kind. Without it they
    /// are final.
    #[must_use]
    pub fn default_extensibility(mut self, extensibility: Extensibility) -> Self {
        self.extensibility = Some(extensibility);
        self
    }

    /// Writes the Rust for a specification.
    pub fn generate(&self, specification: &Specification) -> String {
        let mut out = Out {
            text: String::new(),
            indent: 0,
            generator: self,
            names: Names::new(&specification.definitions),
            modules: Vec::new(),
        };
        out.line("// Generated from IDL. Changes belong in the IDL file.");
        let mut of_file = |placement| {
            if specification.verbatim.iter().any(|text| text.placement == placement) {
                out.line("");
                out.verbatim(&specification.verbatim, placement);
            }
        };
        of_file(Placement::BeginFile);
        out.definitions(&specification.definitions);
        if specification.verbatim.iter().any(|text| text.placement == Placement::EndFile) {
            out.line("");
            out.verbatim(&specification.verbatim, Placement::EndFile);
        }
        out.text
    }
}

impl Default for Generator {
    fn default() -> Self {
        Self::new()
    }
}

struct Out<'a> {
    text: String,
    indent: usize,
    generator: &'a Generator,
    names: Names,
    /// The module that is written, in IDL.
    modules: Vec<String>,
}

impl Out<'_> {
    fn line(&mut self, line: &str) {
        if !line.is_empty() {
            self.text.extend(std::iter::repeat_n("    ", self.indent));
            self.text.push_str(line);
        }
        self.text.push('\n');
    }

    /// Writes `head {`, what `body` writes, and `}`.
    fn block(&mut self, head: &str, body: impl FnOnce(&mut Self)) {
        let start = self.text.len();
        self.line(&format!("{head} {{"));
        let opened = self.text.len();
        self.indent += 1;
        body(self);
        self.indent -= 1;
        if self.text.len() == opened {
            self.text.truncate(start);
            self.line(&format!("{head} {{}}"));
        } else {
            self.line("}");
        }
    }

    fn definitions(&mut self, definitions: &[Definition]) {
        for (index, definition) in definitions.iter().enumerate() {
            // A blank line between definitions, but none behind the brace of a module.
            if index > 0 || self.indent == 0 {
                self.line("");
            }
            match definition {
                Definition::Module(module) => self.module(module),
                Definition::Constant(constant) => self.constant(constant),
                Definition::Struct(structure) => self.structure(structure),
                Definition::Union(union) => self.union(union),
                Definition::Enum(enumeration) => self.enumeration(enumeration),
                Definition::Bitmask(bitmask) => self.bitmask(bitmask),
                Definition::Bitset(bitset) => self.bitset(bitset),
                Definition::Typedef(typedef) => self.typedef(typedef),
            }
        }
    }

    fn module(&mut self, module: &Module) {
        let kind = if module.interface { "interface" } else { "module" };
        let what = if module.interface { ", its types and constants" } else { "" };
        self.docs(&module.docs, &format!("IDL {kind} `{}`{what}.", module.name));
        let name = self.names.of(&module.name);
        if module.name.modules.last().is_some_and(|parent| *parent == module.name.name) {
            self.line("#[allow(clippy::module_inception, reason = \"the IDL has it so\")]");
        }
        self.modules.push(module.name.name.clone());
        self.block(&format!("pub mod {name}"), |out| out.definitions(&module.definitions));
        self.modules.pop();
    }

    fn constant(&mut self, constant: &Constant) {
        let ty = &constant.ty;
        let unit = constant.unit.as_ref().map(|unit| format!(", in {}", code(unit)));
        // Of which the code has the bits alone.
        let digits = match &constant.value {
            Value::LongDouble(number) => format!(", {number}"),
            _ => String::new(),
        };
        let unit = unit.unwrap_or_default();
        let text = format!("IDL constant `{}`: `{ty}`{unit}{digits}.", constant.name);
        self.docs(&constant.docs, &text);
        if matches!(ty.resolved(), Type::Primitive(Primitive::Float | Primitive::Double)) {
            self.line("#[allow(clippy::approx_constant, reason = \"the IDL has this value\")]");
        }
        let name = self.names.of(&constant.name);
        let (rust, value) = self.constant_value(ty, &constant.value);
        let head = format!("pub const {name}: {rust} =");
        if self.indent * 4 + head.len() + value.len() + 2 > LINE_WIDTH && !value.contains('\n') {
            self.line(&head);
            self.indent += 1;
            self.line(&format!("{value};"));
            self.indent -= 1;
        } else {
            self.line(&format!("{head} {value};"));
        }
    }

    fn typedef(&mut self, typedef: &Typedef) {
        let (name, ty) = (self.names.of(&typedef.name), &typedef.ty);
        self.docs(&typedef.docs, &format!("IDL typedef `{}`: `{ty}`.", typedef.name));
        self.allow(&structures::lints(ty, false));
        let rust = self.rust_type(ty);
        self.line(&format!("pub type {name} = {rust};"));
    }

    /// The comment of the IDL, and what it is in IDL.
    fn docs(&mut self, comment: &[String], what: &str) {
        let lines = docs::lines(comment);
        for line in &lines {
            self.doc(line);
        }
        if !lines.is_empty() {
            self.doc("");
        }
        self.doc(what);
    }

    fn doc(&mut self, line: &str) {
        let gap = if line.is_empty() { "" } else { " " };
        self.line(&format!("///{gap}{line}"));
    }

    /// The comment of a type, with what annotations say of it that Rust has no place for.
    fn type_docs(&mut self, notes: &TypeNotes, what: &str) {
        self.verbatim(&notes.verbatim, Placement::BeforeDeclaration);
        self.docs(&notes.docs, what);
        let mut more = Vec::new();
        if notes.ignore_literal_names {
            more.push("Its names do not count where types are compared.".to_owned());
        }
        for line in more {
            self.doc("");
            self.doc(&line);
        }
    }

    fn verbatim(&mut self, all: &[Verbatim], placement: Placement) {
        for verbatim in all.iter().filter(|verbatim| verbatim.placement == placement) {
            for line in verbatim.text.lines() {
                self.line(line.trim_end());
            }
        }
    }

    /// `#[derive]` and the attributes of the type.
    fn derive(&mut self, others: &str, name: &ScopedName, mut attributes: Vec<String>) {
        let path = &self.generator.crate_path;
        let derive = format!("#[derive(::{path}::DdsType, {others})]");
        attributes.insert(0, format!("name = \"{name}\""));
        if path != DEFAULT_CRATE_PATH {
            attributes.insert(1, format!("crate = \"{path}\""));
        }
        if self.indent * 4 + derive.len() > DERIVE_WIDTH {
            let all = format!("::{path}::DdsType, {others},");
            self.line("#[derive(");
            self.indent += 1;
            self.line(&all);
            self.indent -= 1;
            self.line(")]");
        } else {
            self.line(&derive);
        }
        self.attributes(attributes);
    }

    /// `#[dds(...)]`, as many of them as lines of a readable length ask for.
    fn attributes(&mut self, attributes: Vec<String>) {
        let mut line = String::new();
        for attribute in attributes {
            if !line.is_empty() && line.len() + attribute.len() + 2 > ATTRIBUTE_WIDTH {
                self.attribute(&line);
                line.clear();
            }
            if !line.is_empty() {
                line += ", ";
            }
            line += &attribute;
        }
        if !line.is_empty() {
            self.attribute(&line);
        }
    }

    fn attribute(&mut self, inside: &str) {
        let line = format!("#[dds({inside})]");
        // Where the value is no literal, rustfmt keeps its hands off.
        let is_text = inside.ends_with('"') && !inside.contains('(');
        if self.indent * 4 + line.len() > LINE_WIDTH && is_text {
            self.line("#[dds(");
            self.indent += 1;
            self.line(inside);
            self.indent -= 1;
            self.line(")]");
        } else {
            self.line(&line);
        }
    }

    /// A field, with `pub` if it has that, broken where rustfmt breaks it.
    fn field(&mut self, name: &str, ty: &str) {
        let line = format!("{name}: {ty},");
        if self.indent * 4 + line.len() > LINE_WIDTH {
            self.line(&format!("{name}:"));
            self.indent += 1;
            self.line(&format!("{ty},"));
            self.indent -= 1;
        } else {
            self.line(&line);
        }
    }

    /// The extensibility of a struct or union, nesting, and where ids come from.
    fn type_attributes(&self, notes: &TypeNotes) -> Vec<String> {
        let mut attributes = Vec::new();
        let extensibility = notes.extensibility.or(self.generator.extensibility);
        attributes.extend(extensibility.map(|kind| {
            let kind = match kind {
                Extensibility::Final => "final",
                Extensibility::Appendable => "appendable",
                Extensibility::Mutable => "mutable",
            };
            format!("extensibility = \"{kind}\"")
        }));
        if notes.nested {
            attributes.push("nested".to_owned());
        }
        if let Some(topic) = notes.topic.as_ref().filter(|topic| !topic.is_empty()) {
            attributes.push(format!("topic = {topic:?}"));
        }
        if !notes.representations.is_empty() {
            attributes.push(format!("data_representation({})", notes.representations.join(", ")));
        }
        if let Some(hashed) = notes.hashed_ids {
            let kind = if hashed { "hash" } else { "sequential" };
            attributes.push(format!("autoid = \"{kind}\""));
        }
        attributes
    }

    /// A type of the crate that the derive macro belongs to.
    fn company(&self, name: &str) -> String {
        format!("::{}::{name}", self.generator.crate_path)
    }

    /// The path of a definition, seen from the module that is written.
    fn path(&self, name: &ScopedName) -> String {
        self.names.path(name, &self.modules)
    }

    fn element_type(&self, element: &Element) -> String {
        let ty = self.rust_type(element);
        if element.external { format!("Box<{ty}>") } else { ty }
    }

    /// The Rust type, as it is written in the module that is written.
    fn rust_type(&self, ty: &Type) -> String {
        match ty {
            Type::Primitive(Primitive::WChar) => self.company("WChar"),
            Type::Primitive(Primitive::LongDouble) => self.company("LongDouble"),
            Type::Primitive(primitive) => rust_primitive(*primitive).to_owned(),
            Type::String { wide: false, .. } => "String".to_owned(),
            Type::String { wide: true, .. } => self.company("WString"),
            Type::Sequence(element, _) => format!("Vec<{}>", self.element_type(element)),
            Type::Map(key, value, _) => {
                let (key, value) = (self.element_type(key), self.element_type(value));
                format!("::std::collections::BTreeMap<{key}, {value}>")
            }
            Type::Array(element, length) => format!("[{}; {length}]", self.element_type(element)),
            Type::Fixed { digits, scale } => self.company(&format!("Fixed<{digits}, {scale}>")),
            Type::Any => self.company("Any"),
            Type::Named(name, _) => self.path(name),
            Type::Alias(alias) => self.path(&alias.name),
        }
    }
}

/// A text between backticks.
fn code(text: &str) -> String {
    let text: String = text.chars().filter(|c| !c.is_control() && *c != '`').collect();
    format!("`{text}`")
}

fn bound_attribute(ty: &Type) -> Option<String> {
    let bounds: Vec<String> = ty
        .bounds()
        .into_iter()
        .map(|bound| bound.map_or_else(|| "_".to_owned(), |bound| bound.to_string()))
        .collect();
    match bounds.as_slice() {
        [] => None,
        [bound] => Some(format!("bound = {bound}")),
        bounds => Some(format!("bound = [{}]", bounds.join(", "))),
    }
}

fn rust_primitive(primitive: Primitive) -> &'static str {
    match primitive {
        Primitive::Boolean => "bool",
        Primitive::Char | Primitive::WChar => "char",
        Primitive::Octet | Primitive::Uint8 => "u8",
        Primitive::Int8 => "i8",
        Primitive::Int16 => "i16",
        Primitive::Uint16 => "u16",
        Primitive::Int32 => "i32",
        Primitive::Uint32 => "u32",
        Primitive::Int64 => "i64",
        Primitive::Uint64 => "u64",
        Primitive::Float => "f32",
        Primitive::Double | Primitive::LongDouble => "f64",
    }
}

/// Whether values of the type are held in memory of their own anyway.
fn is_collection(ty: &Type) -> bool {
    matches!(ty.resolved(), Type::Sequence(..) | Type::String { wide: false, .. })
}

/// Whether the type is an enum.
fn is_enum(ty: &Type) -> bool {
    matches!(ty.resolved(), Type::Named(_, NamedKind::Enum))
}
