//! Generation of Rust from a specification.
//!
//! Owns the mapping of IDL types to Rust types and the layout of the generated code, which is that
//! of rustfmt. Never does: encode values; the derive macro does, from the attributes written here.

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

/// Default path at which the derive macro finds the types it needs.
const DEFAULT_CRATE_PATH: &str = "dds_api::types";

/// Derives that every value type gets.
const DERIVES: &str = "Clone, Debug, PartialEq";

/// Maximum width that rustfmt gives to the arguments of an attribute.
const ATTRIBUTE_WIDTH: usize = 70;

/// Maximum length of a `#[derive]` that rustfmt leaves on one line.
const DERIVE_WIDTH: usize = 96;

/// Maximum line length of rustfmt.
const LINE_WIDTH: usize = 100;

/// Generates Rust for a specification. The code needs the crate `dds-api`.
pub fn generate(specification: &Specification) -> String {
    Generator::new().generate(specification)
}

/// Generator of Rust code for specifications.
#[derive(Clone, Debug)]
pub struct Generator {
    crate_path: String,
    extensibility: Option<Extensibility>,
}

impl Generator {
    /// Creates a generator of code that needs the crate `dds-api`.
    pub fn new() -> Self {
        Self { crate_path: DEFAULT_CRATE_PATH.to_owned(), extensibility: None }
    }

    /// Sets the path at which the generated code finds `DdsType` and related types, such as
    /// `idl_cdr`, or `idl_xtypes::types` if the IDL has an `any`.
    #[must_use]
    pub fn crate_path(mut self, path: &str) -> Self {
        path.clone_into(&mut self.crate_path);
        self
    }

    /// Sets the extensibility of structs and unions without an annotation. The default is final.
    #[must_use]
    pub fn default_extensibility(mut self, extensibility: Extensibility) -> Self {
        self.extensibility = Some(extensibility);
        self
    }

    /// Generates Rust for a specification.
    pub fn generate(&self, specification: &Specification) -> String {
        let mut out = CodeWriter {
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

struct CodeWriter<'a> {
    text: String,
    indent: usize,
    generator: &'a Generator,
    names: Names,
    /// IDL module that is being written, as a path.
    modules: Vec<String>,
}

impl CodeWriter<'_> {
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
            // A blank line separates definitions, but does not follow the brace of a module.
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
        // The generated constant shows only the bits, so the comment gives the number.
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

    /// Writes the IDL comment, and the IDL definition that the item comes from.
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

    /// Writes the comment of a type, with annotations that have no counterpart in Rust.
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

    /// Writes `#[derive]` and the attributes of the type.
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

    /// Writes `#[dds(...)]`, split over several attributes if a line would become too long.
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
        // rustfmt does not break an attribute whose value is not a literal.
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

    /// Writes a field, including a `pub` in the name, broken where rustfmt breaks it.
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

    /// Returns attributes for the extensibility of a struct or union, nesting, and the source
    /// of ids.
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

    /// Path of a type in the crate that the derive macro belongs to.
    fn company(&self, name: &str) -> String {
        format!("::{}::{name}", self.generator.crate_path)
    }

    /// Path of a definition, relative to the module that is being written.
    fn path(&self, name: &ScopedName) -> String {
        self.names.path(name, &self.modules)
    }

    fn element_type(&self, element: &Element) -> String {
        let ty = self.rust_type(element);
        if element.external { format!("Box<{ty}>") } else { ty }
    }

    /// Rust type as written in the module that is being written.
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

/// Returns a text between backticks.
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

/// Whether values of the type already live in memory of their own.
fn is_collection(ty: &Type) -> bool {
    matches!(ty.resolved(), Type::Sequence(..) | Type::String { wide: false, .. })
}

/// Whether the type is an enum.
fn is_enum(ty: &Type) -> bool {
    matches!(ty.resolved(), Type::Named(_, NamedKind::Enum))
}
