//! Which Rust name each IDL name gets.
//!
//! Owns that names in one Rust scope differ: two IDL names that would be one in Rust are told apart
//! by `_` behind the later one, and so is a name that would hide one of Rust's own.

use std::collections::{HashMap, HashSet};

use crate::model::{Definition, ScopedName};
use crate::naming::{constant_name, type_name, value_name};

/// The names of Rust's prelude that generated code uses.
const HIDDEN_IF_TAKEN: [&str; 5] = ["Box", "Option", "Self", "String", "Vec"];

/// The Rust names of all modules, types and constants.
#[derive(Default)]
pub(super) struct Names {
    all: HashMap<ScopedName, String>,
    /// The variants of enums.
    variants: HashMap<ScopedName, HashMap<String, String>>,
}

/// The names of one struct's fields, one enum's variants, or one bitmask's constants.
pub(super) struct Taken(HashSet<String>);

impl Taken {
    pub(super) fn new(reserved: &[&str]) -> Self {
        Self(reserved.iter().map(|name| (*name).to_owned()).collect())
    }

    /// A name that is not taken yet; it is then.
    pub(super) fn take(&mut self, mut name: String) -> String {
        while !self.0.insert(name.clone()) {
            // A raw name with something behind it is no keyword any more.
            name = name.trim_start_matches("r#").to_owned() + "_";
        }
        name
    }
}

impl Names {
    pub(super) fn new(definitions: &[Definition]) -> Self {
        let mut names = Self::default();
        names.scope(definitions);
        names
    }

    fn scope(&mut self, definitions: &[Definition]) {
        // Modules and types are in one namespace, constants in another.
        let mut types = Taken::new(&HIDDEN_IF_TAKEN);
        let mut values = Taken::new(&[]);
        for definition in definitions {
            let (name, rust) = match definition {
                Definition::Module(module) => {
                    self.scope(&module.definitions);
                    (&module.name, types.take(value_name(&module.name.name)))
                }
                Definition::Constant(constant) => {
                    let name = &constant.name;
                    (name, values.take(constant_name(&name.name)))
                }
                Definition::Struct(structure) => named(&structure.name, &mut types),
                Definition::Union(union) => named(&union.name, &mut types),
                Definition::Enum(enumeration) => {
                    let mut taken = Taken::new(&[]);
                    let variants = enumeration.enumerators.iter().map(|enumerator| {
                        (enumerator.name.clone(), taken.take(type_name(&enumerator.name)))
                    });
                    self.variants.insert(enumeration.name.clone(), variants.collect());
                    named(&enumeration.name, &mut types)
                }
                Definition::Bitmask(bitmask) => named(&bitmask.name, &mut types),
                Definition::Bitset(bitset) => named(&bitset.name, &mut types),
                Definition::Typedef(typedef) => named(&typedef.name, &mut types),
            };
            self.all.insert(name.clone(), rust);
        }
    }

    /// The Rust name of a definition.
    pub(super) fn of(&self, name: &ScopedName) -> String {
        self.all.get(name).cloned().unwrap_or_else(|| type_name(&name.name))
    }

    /// The Rust name of an enumerator.
    pub(super) fn variant(&self, of: &ScopedName, name: &str) -> String {
        let variant = self.variants.get(of).and_then(|variants| variants.get(name));
        variant.cloned().unwrap_or_else(|| type_name(name))
    }

    /// The way from one module to a name: up to what both have in common, then down. It does not
    /// depend on where the generated code is included.
    pub(super) fn path(&self, name: &ScopedName, from: &[String]) -> String {
        let common = from.iter().zip(&name.modules).take_while(|(a, b)| a == b).count();
        let mut path = "super::".repeat(from.len() - common);
        for depth in common..name.modules.len() {
            let module = ScopedName {
                modules: name.modules[..depth].to_vec(),
                name: name.modules[depth].clone(),
            };
            path += &self.all.get(&module).cloned().unwrap_or_else(|| value_name(&module.name));
            path += "::";
        }
        path + &self.of(name)
    }
}

fn named<'n>(name: &'n ScopedName, types: &mut Taken) -> (&'n ScopedName, String) {
    (name, types.take(type_name(&name.name)))
}
