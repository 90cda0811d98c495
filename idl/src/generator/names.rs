//! Mapping of IDL names to Rust names.
//!
//! Owns that names in one Rust scope differ. If two IDL names would become the same Rust name, the
//! later one gets a trailing `_`. A name that would hide one of Rust's own gets it too.

use std::collections::{HashMap, HashSet};

use crate::model::{Definition, ScopedName};
use crate::naming::{constant_name, type_name, value_name};

/// The names of Rust's prelude that generated code uses.
const HIDDEN_IF_TAKEN: [&str; 5] = ["Box", "Option", "Self", "String", "Vec"];

/// Rust names of all modules, types and constants.
#[derive(Default)]
pub(super) struct Names {
    all: HashMap<ScopedName, String>,
    /// Variants of enums.
    variants: HashMap<ScopedName, HashMap<String, String>>,
}

/// Names already taken by the fields of one struct, the variants of one enum, or the constants of
/// one bitmask.
pub(super) struct TakenNames(HashSet<String>);

impl TakenNames {
    pub(super) fn new(reserved: &[&str]) -> Self {
        Self(reserved.iter().map(|name| (*name).to_owned()).collect())
    }

    /// Returns a free name and marks it as taken.
    pub(super) fn take(&mut self, mut name: String) -> String {
        while !self.0.insert(name.clone()) {
            // A raw name with a suffix is no longer a keyword.
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
        let mut types = TakenNames::new(&HIDDEN_IF_TAKEN);
        let mut values = TakenNames::new(&[]);
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
                    let mut taken = TakenNames::new(&[]);
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

    /// Returns the Rust name of a definition.
    pub(super) fn of(&self, name: &ScopedName) -> String {
        self.all.get(name).cloned().unwrap_or_else(|| type_name(&name.name))
    }

    /// Returns the Rust name of an enumerator.
    pub(super) fn variant(&self, of: &ScopedName, name: &str) -> String {
        let variant = self.variants.get(of).and_then(|variants| variants.get(name));
        variant.cloned().unwrap_or_else(|| type_name(name))
    }

    /// Returns the relative path from one module to a name: up to the common ancestor, then down.
    /// The path does not depend on where the generated code is included.
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

fn named<'n>(name: &'n ScopedName, types: &mut TakenNames) -> (&'n ScopedName, String) {
    (name, types.take(type_name(&name.name)))
}
