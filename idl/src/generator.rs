//! A specification to Rust.
//!
//! Owns the mapping of IDL types to Rust types and the look of the generated code. What a type does
//! on the wire is left to the derive macro, which reads the attributes written here.

use crate::model::{
    Definition, Enum, Member, Module, Primitive, ScopedName, Specification, Struct, Type, Typedef,
};
use crate::naming::{type_name, value_name};

/// Where the derive macro looks for its company unless it is told otherwise.
const DEFAULT_CRATE_PATH: &str = "dds_api::types";

/// Writes the Rust for a specification; the code needs the crate `dds-api`.
pub fn generate(specification: &Specification) -> String {
    Generator::new().generate(specification)
}

/// Writes Rust for specifications.
#[derive(Clone, Debug)]
pub struct Generator {
    crate_path: String,
}

impl Generator {
    /// A generator of code that needs the crate `dds-api`.
    pub fn new() -> Self {
        Self { crate_path: DEFAULT_CRATE_PATH.to_owned() }
    }

    /// A generator of code that finds `DdsType` elsewhere, such as in `idl_cdr`.
    #[must_use]
    pub fn crate_path(self, path: &str) -> Self {
        Self { crate_path: path.to_owned() }
    }

    /// Writes the Rust for a specification.
    pub fn generate(&self, specification: &Specification) -> String {
        let mut out = Out { text: String::new(), indent: 0, crate_path: &self.crate_path };
        out.line("// Generated from IDL. Changes belong in the IDL file.");
        out.definitions(&specification.definitions);
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
    crate_path: &'a str,
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
        self.line(&format!("{head} {{"));
        self.indent += 1;
        body(self);
        self.indent -= 1;
        self.line("}");
    }

    fn definitions(&mut self, definitions: &[Definition]) {
        for (index, definition) in definitions.iter().enumerate() {
            // A blank line between definitions, but none behind the brace of a module.
            if index > 0 || self.indent == 0 {
                self.line("");
            }
            match definition {
                Definition::Module(module) => self.module(module),
                Definition::Struct(structure) => self.structure(structure),
                Definition::Enum(enumeration) => self.enumeration(enumeration),
                Definition::Typedef(typedef) => self.typedef(typedef),
            }
        }
    }

    fn module(&mut self, module: &Module) {
        self.line(&format!("/// IDL module `{}`.", module.name));
        self.block(&format!("pub mod {}", value_name(&module.name.name)), |out| {
            out.definitions(&module.definitions);
        });
    }

    fn structure(&mut self, structure: &Struct) {
        self.line(&format!("/// IDL struct `{}`.", structure.name));
        self.derive("Clone, Debug, PartialEq", &structure.name);
        self.block(&format!("pub struct {}", type_name(&structure.name.name)), |out| {
            for member in &structure.members {
                out.member(member, &structure.name.modules);
            }
        });
    }

    fn member(&mut self, member: &Member, modules: &[String]) {
        let name = value_name(&member.name);
        self.line(&format!("/// IDL member `{}`: `{}`.", member.name, member.ty));
        let mut attributes = Vec::new();
        if member.key {
            attributes.push("key".to_owned());
        }
        if name.strip_prefix("r#").unwrap_or(&name) != member.name {
            attributes.push(format!("name = \"{}\"", member.name));
        }
        attributes.extend(bound_attribute(&member.ty));
        if !attributes.is_empty() {
            self.line(&format!("#[dds({})]", attributes.join(", ")));
        }
        self.line(&format!("pub {name}: {},", rust_type(&member.ty, modules)));
    }

    fn enumeration(&mut self, enumeration: &Enum) {
        self.line(&format!("/// IDL enum `{}`.", enumeration.name));
        self.derive("Clone, Copy, Debug, PartialEq, Eq, Hash", &enumeration.name);
        self.block(&format!("pub enum {}", type_name(&enumeration.name.name)), |out| {
            for enumerator in &enumeration.enumerators {
                let name = type_name(enumerator);
                out.line(&format!("/// IDL enumerator `{enumerator}`."));
                if name != *enumerator {
                    out.line(&format!("#[dds(name = \"{enumerator}\")]"));
                }
                out.line(&format!("{name},"));
            }
        });
    }

    fn typedef(&mut self, typedef: &Typedef) {
        let (name, ty) = (type_name(&typedef.name.name), &typedef.ty);
        self.line(&format!("/// IDL typedef `{}`: `{ty}`.", typedef.name));
        self.line(&format!("pub type {name} = {};", rust_type(ty, &typedef.name.modules)));
    }

    fn derive(&mut self, others: &str, name: &ScopedName) {
        let path = self.crate_path;
        self.line(&format!("#[derive(::{path}::DdsType, {others})]"));
        if path == DEFAULT_CRATE_PATH {
            self.line(&format!("#[dds(name = \"{name}\")]"));
        } else {
            self.line(&format!("#[dds(name = \"{name}\", crate = \"{path}\")]"));
        }
    }
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

/// The Rust type as it is written in the module `modules`.
fn rust_type(ty: &Type, modules: &[String]) -> String {
    match ty {
        Type::Primitive(primitive) => rust_primitive(*primitive).to_owned(),
        Type::String(_) => "String".to_owned(),
        Type::Sequence(element, _) => format!("Vec<{}>", rust_type(element, modules)),
        Type::Array(element, length) => format!("[{}; {length}]", rust_type(element, modules)),
        Type::Named(name, _) | Type::Alias(name, _) => rust_path(name, modules),
    }
}

fn rust_primitive(primitive: Primitive) -> &'static str {
    match primitive {
        Primitive::Boolean => "bool",
        Primitive::Octet | Primitive::Uint8 => "u8",
        Primitive::Int8 => "i8",
        Primitive::Int16 => "i16",
        Primitive::Uint16 => "u16",
        Primitive::Int32 => "i32",
        Primitive::Uint32 => "u32",
        Primitive::Int64 => "i64",
        Primitive::Uint64 => "u64",
        Primitive::Float => "f32",
        Primitive::Double => "f64",
    }
}

/// The way from one module to a name: up to what both have in common, then down. It does not depend
/// on where the generated code is included.
fn rust_path(name: &ScopedName, from: &[String]) -> String {
    let common = from.iter().zip(&name.modules).take_while(|(a, b)| a == b).count();
    let mut path = "super::".repeat(from.len() - common);
    for module in &name.modules[common..] {
        path += &value_name(module);
        path += "::";
    }
    path + &type_name(&name.name)
}
