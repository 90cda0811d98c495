//! Definitions from the files that every compiler brings along.
//!
//! Owns the removal of those that no file of the user needs, so that no Rust is made from them.

use std::collections::{BTreeMap, BTreeSet};

use crate::constant::Value;
use crate::model::{Definition, ScopedName, StructMember, Type};

use super::Lowering;

impl Lowering<'_> {
    /// Removes the definitions of the standard's files that no other definition uses.
    pub(super) fn remove_unused(&self, definitions: &mut Vec<Definition>) {
        if self.of_standard.is_empty() {
            return;
        }
        let mut all = BTreeMap::new();
        gather(definitions, &mut all);
        let is_own = |name: &&ScopedName| !self.of_standard.contains(*name);
        let mut open: Vec<&ScopedName> = all.keys().copied().filter(is_own).collect();
        let mut used: BTreeSet<ScopedName> = BTreeSet::new();
        while let Some(name) = open.pop() {
            if used.insert(name.clone())
                && let Some(definition) = all.get(name)
            {
                add_uses(definition, &mut open);
            }
        }
        self.retain(definitions, &used);
    }

    /// Keeps these definitions, and the modules that have some of them.
    fn retain(&self, definitions: &mut Vec<Definition>, used: &BTreeSet<ScopedName>) {
        definitions.retain_mut(|definition| match definition {
            Definition::Module(module) => {
                self.retain(&mut module.definitions, used);
                !module.definitions.is_empty() || !self.of_standard.contains(&module.name)
            }
            _ => used.contains(definition.name()),
        });
    }
}

fn gather<'d>(definitions: &'d [Definition], all: &mut BTreeMap<&'d ScopedName, &'d Definition>) {
    for definition in definitions {
        match definition {
            Definition::Module(module) => gather(&module.definitions, all),
            _ => {
                all.insert(definition.name(), definition);
            }
        }
    }
}

/// Adds the names that a definition refers to.
fn add_uses<'d>(of: &'d Definition, names: &mut Vec<&'d ScopedName>) {
    match of {
        Definition::Struct(of) => {
            names.extend(of.base.iter().chain(&of.copy_of));
            of.members.iter().for_each(|member| add_member(member, names));
        }
        Definition::Union(of) => {
            add_type(&of.discriminator, names);
            let labels = of.cases.iter().flat_map(|case| &case.labels);
            labels.chain(&of.default).for_each(|value| add_value(value, names));
            of.cases.iter().for_each(|case| add_member(&case.member, names));
        }
        Definition::Typedef(of) => add_type(&of.ty, names),
        Definition::Constant(of) => {
            add_type(&of.ty, names);
            add_value(&of.value, names);
        }
        Definition::Module(_)
        | Definition::Enum(_)
        | Definition::Bitmask(_)
        | Definition::Bitset(_) => {}
    }
}

fn add_member<'d>(of: &'d StructMember, names: &mut Vec<&'d ScopedName>) {
    add_type(&of.ty, names);
    let limits = of.range.0.iter().chain(&of.range.1);
    of.default.iter().chain(limits).for_each(|value| add_value(value, names));
}

fn add_type<'d>(of: &'d Type, names: &mut Vec<&'d ScopedName>) {
    match of {
        Type::Named(name, _) => names.push(name),
        Type::Alias(alias) => names.push(&alias.name),
        Type::Sequence(element, _) | Type::Array(element, _) => add_type(element, names),
        Type::Map(key, value, _) => {
            add_type(key, names);
            add_type(value, names);
        }
        _ => {}
    }
}

fn add_value<'d>(of: &'d Value, names: &mut Vec<&'d ScopedName>) {
    match of {
        Value::Enumerator { of, .. } => names.push(of),
        Value::List(values) => values.iter().for_each(|value| add_value(value, names)),
        _ => {}
    }
}
