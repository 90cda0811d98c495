//! Effect of `#pragma keylist`, `DCPS_DATA_KEY` and `DCPS_DATA_TYPE`.
//!
//! Owns the keys that these pragmas give to a type, as if its members had `@key`. A nested member,
//! `a.b`, makes `a` a key member, and `b` a key member of `a`'s type.

use crate::diagnostic::did_you_mean;
use crate::model::{Definition, NamedKind, ScopedName, Struct, Type};
use crate::preprocessor::PragmaKind;
use crate::scope::Meaning;
use crate::source::Span;

use super::Lowering;

impl Lowering<'_> {
    /// Applies all pragmas at the end, because a pragma may precede its type.
    pub(super) fn apply_pragmas(&mut self, definitions: &mut [Definition]) {
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
                    for member in members {
                        self.mark_key(definitions, &name, member, pragma.span);
                    }
                }
            }
        }
    }

    fn mark_key(
        &mut self,
        definitions: &mut [Definition],
        of: &ScopedName,
        path: &str,
        span: Span,
    ) {
        let mut of = of.clone();
        let mut parts = path.split('.').peekable();
        while let Some(part) = parts.next() {
            let Some(structure) = find(definitions, &of) else { return };
            let member = structure.members.iter_mut().find(|member| member.name == part);
            let Some(member) = member else {
                let names: Vec<&str> = structure.members.iter().map(|m| m.name.as_str()).collect();
                let guess = did_you_mean(part, names);
                let text = format!("`{of}` has no member `{part}`{guess}");
                self.reports.error(span, text);
                return;
            };
            if member.optional {
                let text = format!("`{part}` is optional, so it cannot belong to the key");
                self.reports.error(span, text);
            }
            member.key = true;
            match member.ty.resolved() {
                Type::Named(name, NamedKind::Struct) => of = (**name).clone(),
                _ if parts.peek().is_none() => return,
                ty => {
                    let text = format!("`{part}` is of type {ty}, which has no members");
                    self.reports.error(span, text);
                    return;
                }
            }
        }
    }
}

fn find<'d>(definitions: &'d mut [Definition], name: &ScopedName) -> Option<&'d mut Struct> {
    let mut level = definitions;
    for module in 0..=name.modules.len() {
        if module == name.modules.len() {
            return level.iter_mut().find_map(|definition| match definition {
                Definition::Struct(structure) if structure.name == *name => Some(structure),
                _ => None,
            });
        }
        level = level.iter_mut().find_map(|definition| match definition {
            Definition::Module(inner) if inner.name.name == name.modules[module] => {
                Some(inner.definitions.as_mut_slice())
            }
            _ => None,
        })?;
    }
    None
}
