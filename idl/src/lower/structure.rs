//! Lowering of structs, exceptions and their members.

use std::collections::HashMap;

use md5::{Digest as _, Md5};

use crate::annotation::{AnnotationPlace, FoundAnnotations};
use crate::constant::Value;
use crate::diagnostic::Checked;
use crate::model::{MemberId, NamedKind, ScopedName, Struct, StructMember, TryConstruct, Type};
use crate::scope::Meaning;
use crate::source::Span;
use crate::syntax::{self, AnnotationsAndDocs, Declarator};

use super::{Lowering, MemberIds, StructInfo, docs};

impl Lowering<'_> {
    pub(super) fn structure(
        &mut self,
        structure: &syntax::Struct,
        notes: &AnnotationsAndDocs,
    ) -> Checked<Struct> {
        let name = self.full_name(&structure.name);
        let ty = self.named(&structure.name, NamedKind::Struct);
        self.declare(&structure.name, Meaning::Incomplete(ty.clone()))?;
        let mut found = self.found(notes, AnnotationPlace::Struct);
        let mut type_notes = self.type_notes(notes, &mut found);
        // An exception is thrown, not published.
        type_notes.nested |= structure.exception;
        let mut names = HashMap::new();
        let base = structure.base.as_ref().and_then(|path| self.base(path, &mut names));
        if let Some(base) = &base {
            let of_base = self.structs.get(base).and_then(|info| info.extensibility);
            if type_notes.extensibility.is_none() {
                type_notes.extensibility = of_base;
            } else if type_notes.extensibility != of_base {
                let span = found.extensibility.map_or(structure.name.span, |(_, span)| span);
                let text = format!(
                    "`{}` has another extensibility than its base `{base}`; they have to agree",
                    structure.name.text
                );
                self.reports.error(span, text);
            }
        }
        let is_empty = structure.members.is_empty() && base.is_none();
        // After an error, the members may have been skipped, so no message about an empty struct
        // is given.
        if is_empty && !structure.exception && !self.reports.has_errors() {
            let text = format!("the struct `{}` has no members", structure.name.text);
            self.reports.warning(structure.name.span, text);
        }
        let was_in_body = std::mem::replace(&mut self.scopes.in_body, true);
        let mut members = Vec::new();
        for member in &structure.members {
            // The error has been reported; the other members are still read.
            let _ = self.members(member, &mut names, &mut members);
        }
        self.scopes.in_body = was_in_body;
        let of_base = base.as_ref().and_then(|base| self.structs.get(base));
        let mut ids = of_base.map(|info| info.ids.clone()).unwrap_or_default();
        ids.hashed = type_notes.hashed_ids == Some(true);
        let spans = structure.members.iter().flat_map(|m| &m.declarators).map(|d| d.name.span);
        self.check_ids(members.iter().zip(spans), &mut ids);
        // The struct is declared even with errors inside, so that its uses are not errors too.
        self.declare(&structure.name, Meaning::Type(ty))?;
        let of_base = base.as_ref().and_then(|base| self.sizes.get(base)).copied().unwrap_or(0);
        let size = of_base.saturating_add(self.size_of_members(members.iter()));
        self.check_value(&name, size, structure.name.span);
        let extensibility = type_notes.extensibility;
        self.structs.insert(name.clone(), StructInfo { members: names, extensibility, ids });
        let exception = structure.exception;
        Ok(Struct { name, notes: type_notes, base, members, exception, copy_of: None })
    }

    /// Returns the base struct and takes the names of its members.
    fn base(
        &mut self,
        path: &syntax::Path,
        names: &mut HashMap<String, Span>,
    ) -> Option<ScopedName> {
        let meaning = self.scopes.find(path, self.reports).ok()?;
        let text = match &meaning {
            Meaning::Type(ty) => match ty.resolved() {
                Type::Named(name, NamedKind::Struct) => {
                    if let Some(info) = self.structs.get(&**name) {
                        names.clone_from(&info.members);
                    }
                    return Some((**name).clone());
                }
                ty => format!("a struct inherits from a struct, not from {ty}"),
            },
            Meaning::Incomplete(_) => {
                format!("`{}` is not complete here; define it first", path.text())
            }
            other => format!("expected a struct, found {} `{}`", other.kind(), path.text()),
        };
        self.reports.error(path.span, text);
        None
    }

    fn members(
        &mut self,
        syntax: &syntax::MemberDeclaration,
        names: &mut HashMap<String, Span>,
        into: &mut Vec<StructMember>,
    ) -> Checked<()> {
        let found = self.found(&syntax.notes, AnnotationPlace::Member);
        for declarator in &syntax.declarators {
            self.take_name(declarator, names)?;
        }
        let is_optional = found.optional;
        let base = self.type_of(&syntax.ty, !found.external && !is_optional)?;
        // A value cannot contain itself in place, so an absent one ends the recursion, and one that
        // is there lies elsewhere.
        let is_recursive = is_optional && self.is_incomplete(&base);
        for declarator in &syntax.declarators {
            let mut member = self.member(&base, declarator, &syntax.notes, &found)?;
            member.external |= is_recursive;
            if is_optional && (member.key || member.default.is_some()) {
                let text = if member.key {
                    "a member of the key cannot be optional; remove `@optional` or `@key`"
                } else {
                    "an optional member cannot have a `@default`: a sample without a value has no \
                     such member; remove one of the two"
                };
                self.reports.error(declarator.name.span, text);
            }
            into.push(member);
        }
        Ok(())
    }

    /// Takes a member's name in its struct or union.
    pub(super) fn take_name(
        &mut self,
        declarator: &Declarator,
        names: &mut HashMap<String, Span>,
    ) -> Checked<()> {
        let name = &declarator.name;
        match names.insert(name.text.to_ascii_lowercase(), name.span) {
            None => Ok(()),
            Some(other) => {
                let text = format!(
                    "there is a member `{}` already (case does not count in IDL); rename one of \
                     the two",
                    name.text
                );
                Err(self.reports.error_with(name.span, text, other, "declared here"))
            }
        }
    }

    /// Whether a struct or union is declared and not yet defined.
    fn is_incomplete(&self, ty: &Type) -> bool {
        match ty.resolved() {
            Type::Named(name, NamedKind::Struct | NamedKind::Union) => {
                !self.sizes.contains_key(&**name)
            }
            _ => false,
        }
    }

    /// Lowers a member of a struct or union, given its type without array lengths.
    pub(super) fn member(
        &mut self,
        base: &Type,
        declarator: &Declarator,
        notes: &AnnotationsAndDocs,
        found: &FoundAnnotations<'_>,
    ) -> Checked<StructMember> {
        let ty = self.array_of(self.element_of(base.clone()), declarator)?;
        let inherited = self.inherited(&ty);
        let (min, max) = self.range(found, &ty)?;
        let range = (min.or(inherited.range.0), max.or(inherited.range.1));
        let mut default = match found.default {
            Some(default) => Some(self.default_value(default, &ty)?),
            None => inherited.default.filter(|_| !found.optional),
        };
        if let (Some(value), Some(at)) = (&default, found.default)
            && !is_within(value, range.0.as_ref(), range.1.as_ref())
        {
            let text = format!("the default {value} is outside of the member's range");
            self.reports.error(at.span, text);
            default = None;
        }
        if let (Some((_, span)), Some(_)) = (found.id, &found.hash_id) {
            self.reports.error(span, "a member has one id; remove `@id` or `@hashid`");
        }
        let try_construct = found.try_construct.or(inherited.try_construct);
        if try_construct == Some(TryConstruct::Trim) && !has_bound(&ty) {
            let text = format!(
                "`{}` has no bound to trim to; give it one, or use `USE_DEFAULT` or `DISCARD`",
                declarator.name.text
            );
            self.reports.error(declarator.name.span, text);
        }
        if found.non_serialized && found.key == Some(true) {
            let text = "a member of the key is in every sample; remove `@key` or `@non_serialized`";
            self.reports.error(declarator.name.span, text);
        }
        let id = match (&found.id, &found.hash_id) {
            (Some((id, _)), _) => MemberId::Number(*id),
            (None, Some(text)) => MemberId::Hash(text.clone()),
            (None, None) => MemberId::Auto,
        };
        Ok(StructMember {
            name: declarator.name.text.to_string(),
            docs: docs(notes, found.docs.clone()),
            ty,
            key: found.key.unwrap_or(false),
            id,
            optional: found.optional,
            external: found.external || inherited.external,
            must_understand: found.must_understand,
            non_serialized: found.non_serialized,
            default,
            try_construct,
            range,
            unit: found.unit.clone().or(inherited.unit),
        })
    }

    /// Reports members with equal ids, and adds the ids to those of the base.
    pub(super) fn check_ids<'m>(
        &mut self,
        members: impl Iterator<Item = (&'m StructMember, Span)>,
        ids: &mut MemberIds,
    ) {
        // A member that no sample carries has no id.
        for (member, span) in members.filter(|(member, _)| !member.non_serialized) {
            let id = match &member.id {
                MemberId::Number(id) => *id,
                MemberId::Auto if ids.hashed => hash_of(&member.name),
                MemberId::Auto => ids.next,
                MemberId::Hash(text) => {
                    let text = text.as_deref().filter(|text| !text.is_empty());
                    hash_of(text.unwrap_or(&member.name))
                }
            };
            if id > LARGEST_MEMBER_ID {
                let text = format!(
                    "`{}` has no member id: the one before has the largest, {LARGEST_MEMBER_ID}; \
                     give one of them another `@id`",
                    member.name
                );
                self.reports.error(span, text);
                continue;
            }
            if let Some(other) = ids.taken.insert(id, span) {
                let text = format!("`{}` has the member id {id}, which is taken", member.name);
                self.reports.error_with(span, text, other, "id used here");
            }
            ids.next = id.saturating_add(1);
        }
    }
}

/// Largest member id: the wire has 28 bits for it.
const LARGEST_MEMBER_ID: u32 = (1 << 28) - 1;

/// Returns the member id that a text has: 28 bits of its MD5 digest.
fn hash_of(text: &str) -> u32 {
    let digest = Md5::digest(text.as_bytes());
    u32::from_le_bytes([digest[0], digest[1], digest[2], digest[3]]) & 0x0fff_ffff
}

/// Whether a `TRIM` of a value has a bound to trim to.
fn has_bound(ty: &Type) -> bool {
    match ty.resolved() {
        Type::String { bound, .. } => bound.is_some(),
        Type::Sequence(element, bound) => bound.is_some() || has_bound(element),
        Type::Map(key, value, bound) => bound.is_some() || has_bound(key) || has_bound(value),
        Type::Array(element, _) => has_bound(element),
        _ => false,
    }
}

/// Whether a value lies between two others, as far as the values can be compared.
pub(super) fn is_within(value: &Value, min: Option<&Value>, max: Option<&Value>) -> bool {
    let less = |a: &Value, b: &Value| match (a, b) {
        (Value::Integer(a), Value::Integer(b)) => a < b,
        (Value::Floating(a), Value::Floating(b)) => a < b,
        (Value::LongDouble(a), Value::LongDouble(b)) => a < b,
        _ => false,
    };
    !min.is_some_and(|min| less(value, min)) && !max.is_some_and(|max| less(max, value))
}

impl Lowering<'_> {
    /// Returns the minimum and the maximum that annotations give.
    pub(super) fn range(
        &mut self,
        found: &FoundAnnotations<'_>,
        ty: &Type,
    ) -> Checked<(Option<Value>, Option<Value>)> {
        let mut element = ty;
        while let Type::Array(inner, _) | Type::Sequence(inner, _) = element.resolved() {
            element = inner;
        }
        let mut bounds = [None, None];
        for (bound, expression) in bounds.iter_mut().zip([found.min, found.max]) {
            if let Some(expression) = expression {
                let value = self.value(expression, Some(element))?;
                let is_number = matches!(
                    value,
                    Value::Integer(_) | Value::Floating(_) | Value::LongDouble(_) | Value::Fixed(_)
                );
                if !is_number {
                    let text = format!("values of type {element} have no order; remove this bound");
                    return Err(self.reports.error(expression.span, text));
                }
                *bound = Some(value);
            }
        }
        let [min, max] = bounds;
        if let (Some(min), Some(at)) = (&min, found.min)
            && !is_within(min, None, max.as_ref())
        {
            return Err(self.reports.error(at.span, "the minimum is above the maximum"));
        }
        Ok((min, max))
    }
}
