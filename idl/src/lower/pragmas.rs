//! Effect of `#pragma keylist`, `DCPS_DATA_KEY` and `DCPS_DATA_TYPE`.
//!
//! Owns the keys that these pragmas give to a type, as if its members had `@key`. A nested member,
//! `a.b`, is in the key of this type alone: other uses of the type of `a` keep their keys. The
//! member `a` therefore gets a copy of its type, which has the key `b`.

use std::collections::BTreeMap;

use crate::diagnostic::did_you_mean;
use crate::model::{Definition, NamedKind, ScopedName, Struct, StructMember, Type};
use crate::preprocessor::PragmaKind;
use crate::scope::Meaning;
use crate::source::Span;

use super::Lowering;

/// Members of a key, with the members of the key within each; none for a member as a whole.
#[derive(Default)]
struct KeyPaths(BTreeMap<String, KeyPaths>);

impl KeyPaths {
    fn insert(&mut self, path: &str) {
        path.split('.').fold(self, |level, part| level.0.entry(part.to_owned()).or_default());
    }

    /// Returns the names of all members, those within a member behind its own.
    fn names(&self) -> Vec<&str> {
        let mut names = Vec::new();
        for (name, inner) in &self.0 {
            names.push(name.as_str());
            names.extend(inner.names());
        }
        names
    }
}

impl Lowering<'_> {
    /// Applies all pragmas at the end, because a pragma may precede its type.
    pub(super) fn apply_pragmas(&mut self, definitions: &mut Vec<Definition>) {
        let mut keys: BTreeMap<ScopedName, (KeyPaths, Span)> = BTreeMap::new();
        for (pragma, scope) in std::mem::take(&mut self.pragmas) {
            self.scopes.open(scope);
            let (PragmaKind::KeyList { ty, .. } | PragmaKind::DataType { ty }) = &pragma.kind;
            let name = match self.scopes.find_quietly(ty) {
                Some(Meaning::Type(found)) => match found.resolved() {
                    Type::Named(name, NamedKind::Struct) => Some((**name).clone()),
                    Type::Named(_, NamedKind::Union) => continue,
                    _ => None,
                },
                _ => None,
            };
            let structure = name.and_then(|name| find(definitions, &name));
            let Some(structure) = structure else {
                self.reports.error(pragma.span, format!("there is no struct `{ty}`"));
                continue;
            };
            match &pragma.kind {
                PragmaKind::DataType { .. } => structure.notes.nested = false,
                PragmaKind::KeyList { members, .. } => {
                    let name = structure.name.clone();
                    let of = keys.entry(name).or_insert((KeyPaths::default(), pragma.span));
                    members.iter().for_each(|path| of.0.insert(path));
                }
            }
        }
        // Keys of whole members come first, because a copy begins with its type's own members.
        for (name, (paths, span)) in &keys {
            let Some(structure) = find(definitions, name) else { continue };
            let mut members = structure.members.clone();
            self.mark_keys(definitions, name, &mut members, paths, *span);
            if let Some(structure) = find(definitions, name) {
                structure.members = members;
            }
        }
    }

    /// Makes these members of a struct its key, beside those that are in it already.
    fn mark_keys(
        &mut self,
        definitions: &mut Vec<Definition>,
        of: &ScopedName,
        members: &mut [StructMember],
        keys: &KeyPaths,
        span: Span,
    ) {
        for (part, inner) in &keys.0 {
            let Some(member) = members.iter_mut().find(|member| member.name == *part) else {
                let names: Vec<&str> = members.iter().map(|m| m.name.as_str()).collect();
                let guess = did_you_mean(part, names);
                self.reports.error(span, format!("`{of}` has no member `{part}`{guess}"));
                continue;
            };
            if member.optional {
                let text = format!("`{part}` is optional, so it cannot belong to the key");
                self.reports.error(span, text);
            }
            member.key = true;
            if inner.0.is_empty() {
                continue;
            }
            match member.ty.resolved() {
                Type::Named(name, NamedKind::Struct) => {
                    let name = (**name).clone();
                    if let Some(copy) = self.with_keys(definitions, &name, inner, span) {
                        member.ty = Type::Named(copy.into(), NamedKind::Struct);
                    }
                }
                ty => {
                    let text = format!("`{part}` is of type {ty}, which has no members");
                    self.reports.error(span, text);
                }
            }
        }
    }

    /// Returns a struct with the members of another one, of which exactly these are its key: the
    /// other one itself, or a copy, which is added behind it.
    fn with_keys(
        &mut self,
        definitions: &mut Vec<Definition>,
        of: &ScopedName,
        keys: &KeyPaths,
        span: Span,
    ) -> Option<ScopedName> {
        let original = find(definitions, of)?.clone();
        let mut copy = original.clone();
        copy.members.iter_mut().for_each(|member| member.key = false);
        self.mark_keys(definitions, of, &mut copy.members, keys, span);
        if copy.members == original.members {
            return Some(original.name);
        }
        copy.name.name = format!("{}_key_{}", of.name, keys.names().join("_"));
        copy.copy_of = Some(original.name);
        copy.notes.nested = true;
        copy.notes.topic = None;
        copy.notes.verbatim.clear();
        loop {
            let level = level_of(definitions, of)?;
            let taken =
                level.iter().find(|other| other.name().name.eq_ignore_ascii_case(&copy.name.name));
            match taken {
                Some(Definition::Struct(made)) if *made == copy => return Some(copy.name),
                Some(_) => copy.name.name.push('_'),
                None => {
                    let name = copy.name.clone();
                    let behind = level.iter().position(|other| other.name() == of)? + 1;
                    level.insert(behind, Definition::Struct(copy));
                    return Some(name);
                }
            }
        }
    }
}

/// Returns the definitions among which a type is.
fn level_of<'d>(
    definitions: &'d mut Vec<Definition>,
    name: &ScopedName,
) -> Option<&'d mut Vec<Definition>> {
    name.modules.iter().try_fold(definitions, |level, module| {
        level.iter_mut().find_map(|definition| match definition {
            Definition::Module(inner) if inner.name.name == *module => Some(&mut inner.definitions),
            _ => None,
        })
    })
}

fn find<'d>(definitions: &'d mut Vec<Definition>, name: &ScopedName) -> Option<&'d mut Struct> {
    level_of(definitions, name)?.iter_mut().find_map(|definition| match definition {
        Definition::Struct(structure) if structure.name == *name => Some(structure),
        _ => None,
    })
}
