//! Which names exist, and what they stand for.
//!
//! Owns the rules of IDL for declaring and finding names: names that differ only in case are the
//! same, enumerators belong to the scope around their enum, and a name is looked up from the inside
//! out. Also refuses names that would be one name in Rust.

use crate::model::{NamedKind, ScopedName, Type};
use crate::naming;
use std::collections::BTreeMap;

/// What a name stands for.
#[derive(Clone, Debug)]
pub(crate) enum Meaning {
    Module,
    /// A type that is complete and can be used.
    Type(Type),
    /// A struct whose members are still being read.
    Unfinished,
    Enumerator,
}

/// The names of Rust's prelude that generated code uses.
const HIDDEN_IF_TAKEN: [&str; 2] = ["String", "Vec"];

struct Entry {
    spelling: String,
    meaning: Meaning,
}

/// All names, by their whole path in small letters.
#[derive(Default)]
pub(crate) struct Scopes {
    entries: BTreeMap<Vec<String>, Entry>,
    /// Paths of modules and types with the last name as it is in Rust, and their IDL names.
    rust_names: BTreeMap<Vec<String>, String>,
    /// The modules that are open, from the outside in.
    pub(crate) open: Vec<String>,
}

impl Scopes {
    /// Declares a name in the innermost open module, or says why it cannot be.
    pub(crate) fn declare(&mut self, name: &str, meaning: Meaning) -> Result<(), String> {
        let key = self.key(name);
        if let Some(entry) = self.entries.get(&key) {
            let both_modules =
                matches!((&entry.meaning, &meaning), (Meaning::Module, Meaning::Module));
            if both_modules && entry.spelling == name {
                return Ok(());
            }
            let spelling = &entry.spelling;
            return Err(if spelling == name {
                format!("`{name}` is defined already in this scope; rename one of the two")
            } else {
                format!(
                    "`{name}` and `{spelling}`, defined already in this scope, differ only in \
                     case; rename one of the two"
                )
            });
        }
        let rust_name = match meaning {
            Meaning::Module => Some(naming::value_name(name)),
            Meaning::Type(_) | Meaning::Unfinished => Some(naming::type_name(name)),
            // An enumerator is inside its enum in Rust.
            Meaning::Enumerator => None,
        };
        if let Some(rust_name) = rust_name {
            if HIDDEN_IF_TAKEN.contains(&rust_name.as_str()) {
                return Err(format!(
                    "`{name}` would hide Rust's own `{rust_name}`, which the generated code uses; \
                     choose another name"
                ));
            }
            let mut path = self.key(name);
            path.pop();
            path.push(rust_name.clone());
            if let Some(other) = self.rust_names.get(&path) {
                return Err(same_in_rust(name, other, &rust_name));
            }
            self.rust_names.insert(path, name.to_owned());
        }
        self.entries.insert(key, Entry { spelling: name.to_owned(), meaning });
        Ok(())
    }

    /// Gives a declared name in the innermost open module its final meaning.
    pub(crate) fn complete(&mut self, name: &str, ty: Type) {
        let key = self.key(name);
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.meaning = Meaning::Type(ty);
        }
    }

    /// What a name in the innermost open module will be called in full.
    pub(crate) fn full_name(&self, name: &str) -> ScopedName {
        ScopedName { modules: self.open.clone(), name: name.to_owned() }
    }

    /// The type of a struct or enum in the innermost open module.
    pub(crate) fn named(&self, name: &str, kind: NamedKind) -> Type {
        Type::Named(self.full_name(name), kind)
    }

    /// Finds the type that `path` stands for, or says why it is none.
    pub(crate) fn find_type(&self, absolute: bool, path: &[String]) -> Result<Type, String> {
        let written = path.join("::");
        let outermost = if absolute { 0 } else { self.open.len() };
        for level in (0..=outermost).rev() {
            let base = &self.open[..level];
            // The first name decides about the scope; the rest is looked up there only.
            if self.entry(base, &path[..1])?.is_none() {
                continue;
            }
            return match self.entry(base, path)? {
                Some(Meaning::Type(ty)) => Ok(ty.clone()),
                Some(Meaning::Module) => {
                    Err(format!("expected a type, found the module `{written}`"))
                }
                Some(Meaning::Enumerator) => {
                    Err(format!("expected a type, found the enumerator `{written}`"))
                }
                Some(Meaning::Unfinished) => Err(format!(
                    "the struct `{written}` is not complete here; a struct cannot contain itself"
                )),
                None => Err(format!("there is no `{written}` here; define it before its use")),
            };
        }
        Err(format!("there is no type `{written}` here; define it before its use"))
    }

    fn entry(&self, base: &[String], path: &[String]) -> Result<Option<&Meaning>, String> {
        let key: Vec<String> =
            base.iter().chain(path).map(|name| name.to_ascii_lowercase()).collect();
        let Some(entry) = self.entries.get(&key) else { return Ok(None) };
        match path.last() {
            Some(name) if *name != entry.spelling => Err(format!(
                "`{name}` is spelt `{}` where it is defined; write it the same way",
                entry.spelling
            )),
            _ => Ok(Some(&entry.meaning)),
        }
    }

    fn key(&self, name: &str) -> Vec<String> {
        let name = std::iter::once(name);
        self.open.iter().map(String::as_str).chain(name).map(str::to_ascii_lowercase).collect()
    }
}

/// The names of one struct's members or one enum's enumerators.
pub(crate) struct MemberNames {
    to_rust: fn(&str) -> String,
    /// The spellings, by the name in small letters.
    names: BTreeMap<String, String>,
    /// The spellings, by the name in Rust.
    rust_names: BTreeMap<String, String>,
}

impl MemberNames {
    pub(crate) fn of_struct() -> Self {
        Self::new(naming::value_name)
    }

    pub(crate) fn of_enum() -> Self {
        Self::new(naming::type_name)
    }

    fn new(to_rust: fn(&str) -> String) -> Self {
        Self { to_rust, names: BTreeMap::new(), rust_names: BTreeMap::new() }
    }

    /// Declares a name, or says why it cannot be.
    pub(crate) fn declare(&mut self, name: &str) -> Result<(), String> {
        if let Some(other) = self.names.insert(name.to_ascii_lowercase(), name.to_owned()) {
            return Err(format!(
                "`{name}` is the same name as `{other}` (case does not count in IDL); rename one \
                 of the two"
            ));
        }
        let rust_name = (self.to_rust)(name);
        match self.rust_names.insert(rust_name.clone(), name.to_owned()) {
            Some(other) => Err(same_in_rust(name, &other, &rust_name)),
            None => Ok(()),
        }
    }
}

fn same_in_rust(name: &str, other: &str, rust_name: &str) -> String {
    format!("`{name}` and `{other}` would both be `{rust_name}` in Rust; rename one of the two")
}
