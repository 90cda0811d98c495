//! Lowering of bitmasks and bitsets.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use crate::annotation::AnnotationPlace;
use crate::constant::Value;
use crate::diagnostic::Checked;
use crate::model::{Bitfield, Bitmask, Bitset, Flag, NamedKind, Primitive, ScopedName, Type};
use crate::scope::Meaning;
use crate::source::Span;
use crate::syntax::{self, AnnotationsAndDocs, Declarator};

use super::{Lowering, docs};

impl Lowering<'_> {
    pub(super) fn bitmask(
        &mut self,
        syntax: &syntax::Enum,
        notes: &AnnotationsAndDocs,
    ) -> Checked<Bitmask> {
        let name = self.full_name(&syntax.name);
        let ty = self.named(&syntax.name, NamedKind::Bitmask);
        let mut found = self.found(notes, AnnotationPlace::Bitmask);
        let type_notes = self.type_notes(notes, &mut found);
        let bit_bound = found.bit_bound.map_or(32, |(bits, _)| bits);
        let mut flags: Vec<Flag> = Vec::new();
        let mut literals = Vec::new();
        let mut names: HashMap<String, Span> = HashMap::new();
        let mut taken: BTreeMap<u16, Span> = BTreeMap::new();
        let (mut next, mut is_beyond) = (0, false);
        for literal in &syntax.literals {
            let found = self.found(&literal.notes, AnnotationPlace::Flag);
            let (position, span) = found.position.unwrap_or((next, literal.name.span));
            // Of bits that are counted on from one that does not fit, none fits either.
            let is_counted_on = found.position.is_none() && is_beyond;
            is_beyond = position >= bit_bound;
            next = position.saturating_add(1);
            if is_counted_on && is_beyond {
                continue;
            }
            if is_beyond {
                let text = format!(
                    "`{}` is bit {position} of a bitmask of {bit_bound} bits, which count from 0",
                    literal.name.text
                );
                self.reports.error(span, text);
                continue;
            }
            if let Some(other) = taken.insert(position, span) {
                let text = format!("`{}` is bit {position}, which is taken", literal.name.text);
                self.reports.error_with(span, text, other, "position used here");
            }
            let declarator = Declarator { name: literal.name.clone(), lengths: Vec::new() };
            if self.take_name(&declarator, &mut names).is_err() {
                continue;
            }
            let text = literal.name.text.to_string();
            literals.push((text.clone(), Value::Integer(1 << position)));
            flags.push(Flag { name: text, docs: docs(&literal.notes, found.docs), position });
        }
        self.declare(&syntax.name, Meaning::Type(ty))?;
        self.literals.insert(name.clone(), Rc::new(literals));
        Ok(Bitmask { name, notes: type_notes, bit_bound, flags })
    }

    pub(super) fn bitset(
        &mut self,
        syntax: &syntax::Bitset,
        notes: &AnnotationsAndDocs,
    ) -> Checked<Bitset> {
        let name = self.full_name(&syntax.name);
        let ty = self.named(&syntax.name, NamedKind::Bitset);
        let mut found = self.found(notes, AnnotationPlace::Bitset);
        let type_notes = self.type_notes(notes, &mut found);
        let mut fields: Vec<Bitfield> = Vec::new();
        let base = syntax.base.as_ref().and_then(|path| self.base_bitset(path, &mut fields));
        let mut names: HashMap<String, Span> = HashMap::new();
        for field in fields.iter().filter_map(|field| field.name.as_ref()) {
            names.insert(field.to_ascii_lowercase(), syntax.name.span);
        }
        for field in &syntax.fields {
            // The error has been reported; the other fields are still read.
            let _ = self.bitfield(field, &mut names, &mut fields);
        }
        let total: u32 = fields.iter().map(|field| u32::from(field.bits)).sum();
        if total > 64 {
            let text = format!("`{}` has {total} bits; a bitset has at most 64", syntax.name.text);
            self.reports.error(syntax.name.span, text);
        } else if names.is_empty() && syntax.fields.iter().all(|field| field.names.is_empty()) {
            let text = format!("the bitset `{}` has no fields", syntax.name.text);
            self.reports.error(syntax.name.span, text);
        }
        self.declare(&syntax.name, Meaning::Type(ty))?;
        self.bitsets.insert(name.clone(), fields.clone());
        Ok(Bitset { name, notes: type_notes, base, fields })
    }

    /// Returns the base bitset, whose fields come first.
    fn base_bitset(
        &mut self,
        path: &syntax::Path,
        fields: &mut Vec<Bitfield>,
    ) -> Option<ScopedName> {
        let meaning = self.scopes.find(path, self.reports).ok()?;
        if let Meaning::Type(ty) = &meaning
            && let Type::Named(name, NamedKind::Bitset) = ty.resolved()
        {
            fields.extend(self.bitsets.get(&**name).cloned().unwrap_or_default());
            return Some((**name).clone());
        }
        let text =
            format!("a bitset inherits from a bitset, found {} `{}`", meaning.kind(), path.text());
        self.reports.error(path.span, text);
        None
    }

    fn bitfield(
        &mut self,
        syntax: &syntax::Bitfield,
        names: &mut HashMap<String, Span>,
        into: &mut Vec<Bitfield>,
    ) -> Checked<()> {
        let found = self.found(&syntax.notes, AnnotationPlace::Bitfield);
        let bits = match self.value(&syntax.bits, None)? {
            Value::Integer(bits @ 1..=64) => bits as u8,
            _ => {
                let text = "a bit field has 1 to 64 bits";
                return Err(self.reports.error(syntax.bits.span, text));
            }
        };
        let ty = match &syntax.ty {
            None => match bits {
                1 => Primitive::Boolean,
                2..=8 => Primitive::Uint8,
                9..=16 => Primitive::Uint16,
                17..=32 => Primitive::Uint32,
                _ => Primitive::Uint64,
            },
            Some(spec) => {
                let ty = self.complete_type(spec)?;
                match ty.resolved() {
                    Type::Primitive(primitive)
                        if primitive.bits().is_some_and(|most| bits <= most) =>
                    {
                        *primitive
                    }
                    Type::Primitive(primitive) if primitive.bits().is_some() => {
                        let text = format!("{ty} has fewer than {bits} bits");
                        return Err(self.reports.error(spec.span, text));
                    }
                    _ => {
                        let text = format!("a bit field is an integer or a boolean, not {ty}");
                        return Err(self.reports.error(spec.span, text));
                    }
                }
            }
        };
        let docs = docs(&syntax.notes, found.docs);
        if syntax.names.is_empty() {
            into.push(Bitfield { name: None, docs, bits, ty });
            return Ok(());
        }
        for name in &syntax.names {
            let declarator = Declarator { name: name.clone(), lengths: Vec::new() };
            self.take_name(&declarator, names)?;
            let name = Some(name.text.to_string());
            into.push(Bitfield { name, docs: docs.clone(), bits, ty });
        }
        Ok(())
    }
}
